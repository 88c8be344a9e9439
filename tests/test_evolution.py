"""NEAT as a whole: it solves tasks, keeps its promises about elites and parents, and goes on from a saved state."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neol.config.schema import Config
from neol.config.sections import NeatConfig
from neol.errors import NeolError
from neol.neat.evolution import Neat
from neol.neat.genome import CONN_FIELDS, NODE_FIELDS, Genomes
from neol.network.phenotype import compile_phenotypes
from neol.network.step import act, forward, load, new_slots

FUZZ = settings(deadline=None)  # the first example may compile a kernel
XOR = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
STILL = dict.fromkeys(
    ("node_add_prob", "node_delete_prob", "conn_add_prob", "conn_delete_prob", "weight_mutate_rate",
     "weight_replace_rate", "bias_mutate_rate", "bias_replace_rate", "enabled_mutate_rate"), 0.0
)  # fmt: skip


def neat_config(**flat: Any) -> NeatConfig:
    return Config().replace(**flat).neat


def responses(neat: Neat, observations: np.ndarray, steps: int = 1) -> np.ndarray:
    """The outputs f8 (P, observations, O) of every genome; each observation is shown `steps` times from rest."""
    phenotypes = compile_phenotypes(neat.ask(), neat.inputs, neat.outputs)
    slots = new_slots(phenotypes, 1)
    out = np.zeros((phenotypes.size, len(observations), neat.outputs))
    for p in range(phenotypes.size):
        for i, observation in enumerate(observations):
            load(phenotypes, slots, 0, p)
            for _ in range(steps):
                forward(phenotypes, slots, 0, observation, 50.0)
            act(phenotypes, slots, 0, False, out[p, i])
    return out


def genes(g: Genomes, p: int) -> tuple[Any, ...]:
    nodes = [getattr(g, f)[p, : g.n_nodes[p]].tobytes() for f in NODE_FIELDS]
    conns = [getattr(g, f)[p, : g.n_conns[p]].tobytes() for f in CONN_FIELDS]
    return (float(g.step_size[p]), *nodes, *conns)


def all_genes(neat: Neat) -> list[tuple[Any, ...]]:
    g = neat.ask()
    return [genes(g, p) for p in range(len(g.n_nodes))]


def random_fitness(neat: Neat) -> np.ndarray:
    """A fitness that depends on the generation alone."""
    return np.random.default_rng(neat.generation).normal(-50.0, 30.0, neat.config.pop_size)


def advance(neat: Neat, generations: int) -> Neat:
    for _ in range(generations):
        neat.tell(random_fitness(neat))
    return neat


def same_state(a: Neat, b: Neat) -> bool:
    x, y = a.state(), b.state()
    return x.keys() == y.keys() and all(x[k].dtype == y[k].dtype and np.array_equal(x[k], y[k]) for k in x)


# -- it works


@pytest.mark.parametrize(("seed", "sharing"), [(0, "normalized"), (1, "normalized"), (0, "canonical"), (0, "paper")])
def test_it_solves_xor_which_needs_a_hidden_node(seed, sharing):
    config = neat_config(
        pop_size=300, sharing=sharing, activation_default="sigmoid", activation_options=("sigmoid",),
        weight_mutate_rate=0.8, weight_mutate_power=0.5, bias_mutate_rate=0.7, bias_mutate_power=0.5,
        conn_add_prob=0.3, node_add_prob=0.2, conn_delete_prob=0.1, node_delete_prob=0.1, enabled_mutate_rate=0.05,
        crossover_prob=0.5, compatibility_threshold=4.0,
    )  # fmt: skip
    neat, target = Neat(config, 2, 1, seed), np.array([0.0, 1.0, 1.0, 0.0])
    for _ in range(100):
        out = responses(neat, XOR)[:, :, 0]
        fitness = -((out - target) ** 2).sum(axis=1)  # negative, as returns may be
        best = int(fitness.argmax())
        if ((out[best] > 0.5) == (target > 0.5)).all() and fitness[best] > -0.3:
            assert neat.ask().n_nodes[best] > 1
            return
        neat.tell(fitness)
    pytest.fail(f"XOR was not solved; best fitness {fitness.max():.3f}")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_fits_a_line(seed):
    config = neat_config(pop_size=60, activation_default="identity", activation_options=("identity",))
    neat, points = Neat(config, 2, 1, seed), np.random.default_rng(0).uniform(-1, 1, (8, 2))
    target = 0.7 * points[:, 0] - 1.3 * points[:, 1] + 0.4
    best = []
    for _ in range(60):
        fitness = -((responses(neat, points)[:, :, 0] - target) ** 2).mean(axis=1)
        best.append(fitness.max())
        neat.tell(fitness)
    assert best[-1] > -1e-2 and best[0] < -0.05
    assert (np.diff(best) >= -1e-12).all()  # the best of all is always an elite


def test_recurrent_networks_evolve_too():
    config = neat_config(pop_size=40, feed_forward=False, node_add_prob=0.3, conn_add_prob=0.6)
    neat = Neat(config, 2, 2, 0)
    for _ in range(15):
        out = responses(neat, XOR, steps=3)
        assert np.isfinite(out).all()
        neat.tell(-np.abs(out[:, :, 0] - 0.5).sum(axis=1))
    assert compile_phenotypes(neat.ask(), 2, 2).remembers.any()


@settings(FUZZ, max_examples=40)
@given(
    st.integers(4, 60), st.sampled_from(["normalized", "canonical", "paper"]), st.sampled_from([0.2, 1.0, 3.0]),
    st.integers(0, 2), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2**63 - 1),
    st.sampled_from([1.0, 1e300, 0.0]),
)  # fmt: skip
def test_the_population_size_is_constant(size, sharing, threshold, elitism, stagnation, protected, seed, scale):
    config = neat_config(
        pop_size=size, sharing=sharing, compatibility_threshold=threshold, elitism=elitism, min_species_size=1,
        max_stagnation=stagnation, species_elitism=protected, node_add_prob=0.3, conn_add_prob=0.5,
    )  # fmt: skip
    neat, rng = Neat(config, 3, 2, seed), np.random.default_rng(seed)
    for generation in range(8):
        assert neat.generation == generation
        assert all(len(a) == size for a in neat.ask()) and len(neat.species.member_of) == size
        neat.tell(scale * rng.normal(size=size))


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    a, b, other = (Neat(neat_config(), 3, 2, seed) for seed in (7, 7, 8))
    for _ in range(6):
        assert same_state(a, b) and not set(all_genes(a)) & set(all_genes(other))
        for neat in (a, b, other):
            neat.tell(random_fitness(neat))


# -- elites and parents


def test_the_elites_of_every_species_are_copied_unchanged():
    neat = advance(Neat(neat_config(pop_size=60, elitism=3, compatibility_threshold=0.8), 3, 2, 0), 5)
    before, species, fitness = all_genes(neat), neat.species, random_fitness(neat)
    assert len(species.id) > 1
    neat.tell(fitness)
    after = set(all_genes(neat))
    for s in range(len(species.id)):
        members = np.flatnonzero(species.member_of == s)
        for p in members[np.argsort(-fitness[members])][:3]:
            assert before[p] in after


def test_without_elitism_nothing_is_copied():
    neat = Neat(neat_config(pop_size=60, elitism=0, weight_mutate_rate=1.0), 3, 2, 0)
    before = set(all_genes(neat))
    neat.tell(random_fitness(neat))
    assert not before & set(all_genes(neat))


@pytest.mark.parametrize(("survival", "size"), [(0.0, 2), (0.01, 2), (0.06, 3), (0.11, 5), (0.15, 6)])
def test_parents_are_the_top_fraction_of_a_species_rounded_up_and_two_at_least(survival, size):
    config = neat_config(pop_size=40, elitism=0, crossover_prob=0.0, survival_threshold=survival,
                         compatibility_threshold=1e6, **STILL)  # fmt: skip
    neat = Neat(config, 3, 2, 0)
    before, fitness = all_genes(neat), random_fitness(neat)
    neat.tell(fitness)
    parents = {before.index(child) for child in all_genes(neat)}
    assert parents == set(np.argsort(-fitness)[:size].tolist())


@pytest.mark.parametrize("crossover", [0.0, 1.0])
def test_by_rank_all_of_a_species_are_parents_in_proportion_to_their_rank(crossover):
    config = neat_config(pop_size=20, elitism=0, selection="rank", crossover_prob=crossover, survival_threshold=0.1,
                         compatibility_threshold=1e6)  # fmt: skip
    neat, drawn, fitter = Neat(config, 3, 2, 0), np.zeros(20), np.zeros(20)
    fitness = random_fitness(neat)
    place = np.argsort(np.argsort(-fitness))
    species, spawn = neat.species, np.array([20])
    for generation in range(1500):
        neat.generation = generation
        first, second, _ = neat._parents(species, spawn, fitness)
        assert (place[first] <= place[second]).all() and (crossover or (first == second).all())
        fitter += np.bincount(place[first], minlength=20)
        drawn += np.bincount(place[first], minlength=20) + np.bincount(place[second], minlength=20)
    weight = np.arange(20, 0, -1) / 210  # rank 20 for the best, 1 for the worst: sum 210
    assert np.abs(drawn / drawn.sum() - weight).max() < 0.004  # about 4 standard errors
    below = np.cumsum(weight[::-1])[::-1]  # P(place >= r); the fitter of two: P(both >= r) - P(both >= r + 1)
    expected = below**2 - np.append(below[1:], 0.0) ** 2 if crossover else weight
    assert np.abs(fitter / fitter.sum() - expected).max() < 0.006


@pytest.mark.parametrize("target", [4, 9])
def test_the_number_of_species_follows_its_target(target):
    config = neat_config(pop_size=100, target_species=target, node_add_prob=0.2, conn_add_prob=0.3)
    neat, counts = Neat(config, 4, 2, 0), []
    fixed = advance(Neat(neat_config(pop_size=100, node_add_prob=0.2, conn_add_prob=0.3), 4, 2, 0), 30)
    for _ in range(60):
        advance(neat, 1)
        counts.append(len(neat.species.id))
    assert abs(np.mean(counts[20:]) - target) < 1.5 and max(counts[20:]) <= 2 * target
    assert fixed.threshold == 3.0 and len(fixed.species.id) < 4  # with the threshold as it is set


def test_a_crossover_childs_structure_is_the_fitter_parents():
    config = neat_config(pop_size=400, elitism=0, survival_threshold=1.0, compatibility_threshold=1e6, **STILL)
    neat = Neat(config, 3, 2, 0)
    neat.genomes.n_conns[::2] = 3  # half of them have fewer genes ...
    for f in CONN_FIELDS:
        getattr(neat.genomes, f)[::2, 3:] = 0
    neat.tell(np.where(np.arange(400) % 2 == 0, -1.0, -2.0))  # ... and are the fitter half
    sizes = neat.ask().n_conns
    assert set(sizes.tolist()) == {3, 6}
    assert abs((sizes == 3).mean() - 0.75) < 0.08  # unless both parents are of the other half


def test_adapted_weights_are_inherited():
    config = neat_config(pop_size=40, elitism=2, crossover_prob=0.0, **STILL)
    neat = advance(Neat(config, 3, 2, 0), 2)
    g, fitness = neat.ask(), random_fitness(neat)
    adapted = g.weight.copy()
    for p in range(40):
        adapted[p, : g.n_conns[p]] += 0.001 * (p + 1)
    before, biases = adapted.copy(), {b.tobytes() for b in g.bias[:, :2]}
    neat.tell(fitness, adapted)
    children = neat.ask()
    rows = {adapted[p, : g.n_conns[p]].tobytes() for p in range(40)}
    assert all(children.weight[p, : children.n_conns[p]].tobytes() in rows for p in range(40))
    best = int(fitness.argmax())
    assert adapted[best, : g.n_conns[best]].tobytes() in {
        children.weight[p, : children.n_conns[p]].tobytes() for p in range(40)
    }
    assert {b.tobytes() for b in children.bias[:, :2]} <= biases
    assert np.array_equal(adapted, before)


def test_without_adapted_weights_the_genomes_own_are_inherited():
    neat = Neat(neat_config(pop_size=40, crossover_prob=0.0, **STILL), 3, 2, 0)
    before = set(all_genes(neat))
    advance(neat, 3)
    assert set(all_genes(neat)) <= before


# -- extinction


def test_when_every_species_has_died_a_new_random_population_starts():
    config = neat_config(pop_size=20, max_stagnation=3, species_elitism=0, compatibility_threshold=1e6)
    neat = Neat(config, 3, 2, 0)
    start, sizes = set(all_genes(neat)), []
    for generation in range(9):
        assert neat.generation == generation
        before = set(all_genes(neat))
        neat.tell(np.zeros(20))
        sizes.append(len(before & set(all_genes(neat))))
    # last improvement at 0, removed at 3; the new species improves at 4 (its first), removed at 7
    assert [g for g, common in enumerate(sizes) if common == 0] == [3, 7]
    assert not start & set(all_genes(neat)) and len(neat.ask().n_nodes) == 20
    assert (neat.species.created == 8).all()


def test_two_extinctions_start_two_different_populations():
    config = neat_config(pop_size=20, max_stagnation=1, species_elitism=0, compatibility_threshold=1e6, elitism=0)
    neat, seen = Neat(config, 3, 2, 0), []
    for _ in range(6):
        neat.tell(np.zeros(20))
        seen += all_genes(neat)
    assert len(set(seen)) == len(seen)


def test_extinction_is_a_sentence_where_the_reset_is_not_wanted():
    config = neat_config(pop_size=20, max_stagnation=3, species_elitism=0, reset_on_extinction=False,
                         compatibility_threshold=1e6)  # fmt: skip
    neat = Neat(config, 3, 2, 0)
    for _ in range(3):
        neat.tell(np.zeros(20))
    with pytest.raises(NeolError, match="died out in generation 3; raise max_stagnation or species_elitism"):
        neat.tell(np.zeros(20))


def test_a_protected_species_prevents_extinction():
    config = neat_config(pop_size=20, max_stagnation=2, species_elitism=1, reset_on_extinction=False)
    neat = Neat(config, 3, 2, 0)
    for _ in range(8):
        neat.tell(np.zeros(20))
    assert neat.generation == 8


# -- saving


def through_a_file(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return dict(np.load(file, allow_pickle=False))


WILD = {"pop_size": 40, "node_add_prob": 0.3, "conn_add_prob": 0.5, "node_delete_prob": 0.1, "conn_delete_prob": 0.2,
        "step_size_adaptation": 0.2, "compatibility_threshold": 1.0, "max_stagnation": 4,
        "species_elitism": 1}  # fmt: skip
RANKED = {**WILD, "target_species": 5, "selection": "rank"}


@pytest.mark.parametrize("feed_forward", [True, False])
@pytest.mark.parametrize("after", [0, 1, 7])
@pytest.mark.parametrize("flat", [WILD, RANKED])
def test_a_run_restored_from_a_file_goes_on_bit_for_bit(flat, after, feed_forward):
    config = neat_config(feed_forward=feed_forward, **flat)
    neat = advance(Neat(config, 3, 2, 5), after)
    restored = Neat(config, 3, 2, 5)
    restored.restore(through_a_file(neat.state()))
    assert same_state(neat, restored)
    for _ in range(6):
        advance(neat, 1)
        advance(restored, 1)
        assert same_state(neat, restored)


def test_a_state_from_before_thresholds_moved_goes_on_with_the_threshold_of_the_settings():
    neat = advance(Neat(neat_config(**WILD), 3, 2, 5), 4)
    restored = Neat(neat_config(**WILD), 3, 2, 5)
    restored.threshold = 99.0
    restored.restore({k: v for k, v in neat.state().items() if k != "threshold"})
    assert same_state(neat, restored) and same_state(advance(neat, 3), advance(restored, 3))


def test_a_run_restored_in_memory_goes_on_bit_for_bit():
    neat = advance(Neat(neat_config(**WILD), 3, 2, 5), 4)
    restored = Neat(neat_config(**WILD), 3, 2, 5)
    restored.restore({k: v.copy() for k, v in neat.state().items()})
    assert same_state(advance(neat, 5), advance(restored, 5))


def test_a_run_restored_over_an_extinction_goes_on_bit_for_bit():
    config = neat_config(pop_size=20, max_stagnation=3, species_elitism=0, compatibility_threshold=1e6)
    neat, restored = Neat(config, 3, 2, 0), Neat(config, 3, 2, 0)
    for _ in range(6):
        neat.tell(np.zeros(20))
    restored.restore(through_a_file(neat.state()))
    for _ in range(3):
        neat.tell(np.zeros(20))
        restored.tell(np.zeros(20))
    assert same_state(neat, restored)


def test_a_state_is_arrays_without_objects():
    for name, array in advance(Neat(neat_config(**WILD), 3, 2, 5), 3).state().items():
        assert isinstance(array, np.ndarray) and array.dtype.kind in "bif", name


def test_a_state_is_not_changed_by_what_happens_later():
    neat = advance(Neat(neat_config(**WILD), 3, 2, 5), 6)
    state = neat.state()
    before = {k: v.copy() for k, v in state.items()}
    for _ in range(4):
        advance(neat, 1)
        assert all(np.array_equal(state[k], before[k]) for k in state)


def test_two_runs_restored_from_one_state_do_not_disturb_each_other():
    state = advance(Neat(neat_config(**WILD), 3, 2, 5), 6).state()
    a, b, alone = (Neat(neat_config(**WILD), 3, 2, 5) for _ in range(3))
    alone.restore(through_a_file(state))
    a.restore(state)
    b.restore(state)
    for _ in range(4):
        b.tell(-random_fitness(b))
        advance(a, 1)
        advance(alone, 1)
    assert same_state(a, alone)
