"""Distance, speciation, stagnation, sharing and spawn, against examples worked by hand and slow plain Python."""

from __future__ import annotations

import math
from typing import Any

import neat
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from neol.config.schema import Config
from neol.config.sections import NeatConfig
from neol.errors import NeolError
from neol.neat.genome import Genomes, empty_genomes, first_population, take
from neol.neat.species import (
    Species,
    apportion,
    distance,
    followed_threshold,
    no_species,
    ranks,
    shares,
    spawn_counts,
    speciate,
    update_stagnation,
)
from neol.neat.variation import breed

FUZZ = settings(deadline=None)  # the first example may compile a kernel
SHARINGS = ("normalized", "canonical", "paper")


def neat_config(**flat: Any) -> NeatConfig:
    return Config().replace(**flat).neat


def genomes(*connections: dict[int, float]) -> Genomes:
    """Genomes with these connections, innovation -> weight."""
    g = empty_genomes(len(connections), 1, max(1, *(len(c) for c in connections)))
    for p, genes in enumerate(connections):
        g.n_nodes[p], g.n_conns[p] = 1, len(genes)
        g.innovation[p, : len(genes)] = sorted(genes)
        g.weight[p, : len(genes)] = [genes[k] for k in sorted(genes)]
    return g


def slow_distance(a: dict[int, float], b: dict[int, float], c1: float, c3: float, matching_normalizer: bool) -> float:
    both = a.keys() & b.keys()
    normalizer = len(both) if matching_normalizer else max(len(a), len(b))
    mean = sum(abs(a[k] - b[k]) for k in both) / len(both) if both else 0.0
    return c1 * len(a.keys() ^ b.keys()) / max(1, normalizer) + c3 * mean


def genes_of(g: Genomes, p: int) -> dict[int, float]:
    c = g.n_conns[p]
    return dict(zip(g.innovation[p, :c].tolist(), g.weight[p, :c].tolist(), strict=True))


# -- distance

A = {1: 1.0, 2: -2.0, 3: 0.5, 4: 3.0, 5: 0.0}
B = {1: 1.5, 3: -0.5, 4: 3.0, 6: 9.0}


@pytest.mark.parametrize(
    ("a", "b", "matching", "delta"),
    [
        # matching 1, 3, 4: |w - w'| = 0.5, 1, 0, mean 0.5; only one has 2, 5, 6; the larger has 5 genes
        (A, B, False, 1.0 * 3 / 5 + 0.5 * 0.5),
        (A, B, True, 1.0 * 3 / 3 + 0.5 * 0.5),
        # nothing matches: 2 + 3 genes over 3, or over 1 where there is no matching gene to divide by
        ({1: 1.0, 2: 1.0}, {7: 1.0, 8: 1.0, 9: 1.0}, False, 5 / 3),
        ({1: 1.0, 2: 1.0}, {7: 1.0, 8: 1.0, 9: 1.0}, True, 5.0),
        # one of them bare, both bare
        ({1: 1.0, 2: 1.0}, {}, False, 1.0),
        ({1: 1.0, 2: 1.0}, {}, True, 2.0),
        ({}, {}, False, 0.0),
        ({}, {}, True, 0.0),
        # weights alone
        ({1: 1.0, 2: 1.0}, {1: -1.0, 2: 2.0}, False, 0.5 * 1.5),
    ],
)
def test_distance_is_what_one_works_out_by_hand(a, b, matching, delta):
    g = genomes(a, b)
    assert distance(g, 0, g, 1, 1.0, (0.5,), matching) == pytest.approx(delta, abs=1e-15)


GENES = st.dictionaries(st.integers(0, 12), st.floats(-30, 30), max_size=10)
COEFFICIENTS = st.tuples(st.floats(0, 10), st.floats(0, 10), st.booleans())


@FUZZ
@given(GENES, GENES, COEFFICIENTS)
def test_distance_is_the_plain_formula_symmetric_and_not_negative(a, b, coefficients):
    g, (c1, c3, matching) = genomes(a, b), coefficients
    d = distance(g, 0, g, 1, c1, (c3,), matching)
    assert d == pytest.approx(slow_distance(a, b, *coefficients), rel=1e-12, abs=1e-12)
    assert d == distance(g, 1, g, 0, c1, (c3,), matching) >= 0.0


@FUZZ
@given(GENES, COEFFICIENTS)
def test_distance_of_identical_genomes_is_zero(a, coefficients):
    g, (c1, c3, matching) = genomes(a, a), coefficients
    assert distance(g, 0, g, 1, c1, (c3,), matching) == distance(g, 0, g, 0, c1, (c3,), matching) == 0.0


# -- speciation


def slow_speciate(config: NeatConfig, g: Genomes, old: Species, generation: int) -> dict[str, Any]:
    """The same in plain Python: lists, and one distance at a time."""
    matching = config.compatibility_normalizer == "matching"
    c1, c3 = config.compatibility_disjoint_coefficient, config.compatibility_weight_coefficient

    def d(a: dict[int, float], b: dict[int, float]) -> float:
        return slow_distance(a, b, c1, c3, matching)

    population = [genes_of(g, p) for p in range(len(g.n_nodes))]
    unassigned = list(range(len(population)))
    kinds = []  # [id, representative, members, best, improved, created]
    too_many = len(old.id) - config.target_species if config.target_species else 0
    for s in range(len(old.id)):
        if not unassigned:
            break
        before = genes_of(old.representative, s)
        nearest = min(unassigned, key=lambda p: d(population[p], before))
        near_older = any(d(population[nearest], population[k[1]]) < config.compatibility_threshold for k in kinds)
        if too_many > 0 and near_older:
            too_many -= 1
            continue
        unassigned.remove(nearest)
        kinds.append([int(old.id[s]), nearest, [nearest], old.best[s], old.improved[s], old.created[s]])
    next_id = old.next_id
    for p in unassigned:
        near = [(d(population[p], population[k[1]]), i) for i, k in enumerate(kinds)]
        closest = min(near, default=(math.inf, -1))
        if closest[0] < config.compatibility_threshold:
            kinds[closest[1]][2].append(p)
        else:
            kinds.append([next_id, p, [p], -math.inf, generation, generation])
            next_id += 1
    member_of = {p: i for i, k in enumerate(kinds) for p in k[2]}
    return {
        "id": [k[0] for k in kinds],
        "member_of": [member_of[p] for p in range(len(population))],
        "representative": [population[k[1]] for k in kinds],
        "best": [k[3] for k in kinds],
        "improved": [k[4] for k in kinds],
        "created": [k[5] for k in kinds],
        "next_id": next_id,
    }


def plain(species: Species) -> dict[str, Any]:
    out = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in species._asdict().items()}
    count = len(species.id)
    return out | {"representative": [genes_of(species.representative, s) for s in range(count)]}


@settings(FUZZ, max_examples=25)
@given(
    st.sampled_from([0.3, 0.6, 1.0, 3.0, 1e6]),
    st.sampled_from(["larger", "matching"]),
    st.sampled_from([0.0, 1.0, 2.5]),
    st.sampled_from([0, 1, 3, 6]),
    st.integers(0, 2**32),
)
def test_speciation_over_generations_is_the_slow_references(threshold, normalizer, c1, target, seed):
    config = neat_config(
        pop_size=24, compatibility_threshold=threshold, compatibility_normalizer=normalizer, target_species=target,
        compatibility_disjoint_coefficient=c1, node_add_prob=0.3, conn_add_prob=0.5, conn_delete_prob=0.3,
    )  # fmt: skip
    rng, species = np.random.default_rng(seed), no_species()
    g, innovations = first_population(config, 3, 2, seed)
    for generation in range(6):
        expected = slow_speciate(config, g, species, generation)
        species = speciate(config, g, species, generation)
        assert plain(species) == expected
        check_partition(species, g)
        species, _ = update_stagnation(config, species, rng.normal(size=24), generation)
        parents = rng.integers(0, 24, (2, 24)).astype(np.int32)
        g, innovations = breed(config, g, *parents, np.zeros(24, np.bool_), innovations, 3, 2, seed, generation)


def check_partition(species: Species, g: Genomes) -> None:
    """Every genome is in exactly one species, none is empty, and each representative is one of its members."""
    count = len(species.id)
    assert species.member_of.shape == g.n_nodes.shape
    assert set(species.member_of.tolist()) == set(range(count))
    assert (np.diff(species.id) > 0).all() and (species.id < species.next_id).all()
    for s in range(count):
        members = [genes_of(g, p) for p in np.flatnonzero(species.member_of == s)]
        assert genes_of(species.representative, s) in members


def test_far_genomes_found_species_and_near_ones_join_the_nearest():
    g = genomes({1: 0.0}, {1: 10.0}, {1: 1.0}, {1: 9.0}, {1: 5.1}, {2: 0.0})
    config = neat_config(compatibility_threshold=3.0, compatibility_weight_coefficient=0.5)
    species = speciate(config, g, no_species(), 4)
    assert species.member_of.tolist() == [0, 1, 0, 1, 1, 0]  # {2} has distance 2 / 1 to both: the first
    assert species.id.tolist() == [1, 2] and species.next_id == 3
    assert species.created.tolist() == species.improved.tolist() == [4, 4]
    assert (species.best == -math.inf).all()


def test_the_threshold_itself_is_too_far():
    g = genomes({1: 0.0}, {1: 6.0}, {1: math.nextafter(6.0, 0.0)})
    config = neat_config(compatibility_threshold=3.0, compatibility_weight_coefficient=0.5)
    assert speciate(config, take(g, [0, 1]), no_species(), 0).member_of.tolist() == [0, 1]
    assert speciate(config, take(g, [0, 2]), no_species(), 0).member_of.tolist() == [0, 0]


def test_a_species_lives_on_in_the_genome_nearest_to_its_representative():
    config = neat_config(compatibility_threshold=1.0, compatibility_weight_coefficient=1.0)
    old = speciate(config, genomes({1: 0.0}, {1: 10.0}), no_species(), 0)
    new = speciate(config, genomes({1: 9.5}, {1: 0.4}, {1: -0.2}, {1: 5.0}), old, 1)
    assert new.id.tolist() == [1, 2, 3] and new.member_of.tolist() == [1, 0, 0, 2]
    assert [genes_of(new.representative, s) for s in range(3)] == [{1: -0.2}, {1: 9.5}, {1: 5.0}]
    assert new.created.tolist() == [0, 0, 1]


def test_with_more_species_than_genomes_the_oldest_live_on():
    config = neat_config(compatibility_threshold=0.1, compatibility_weight_coefficient=1.0)
    old = speciate(config, genomes(*({1: float(w)} for w in range(5))), no_species(), 0)
    new = speciate(config, genomes({1: 9.0}, {1: 1.0}, {1: 0.0}), old, 1)
    assert len(old.id) == 5 and new.id.tolist() == [1, 2, 3]
    assert new.member_of.tolist() == [2, 1, 0] and new.next_id == old.next_id


def test_beyond_the_target_a_species_whose_representative_has_come_near_an_older_one_ends():
    found = {"compatibility_threshold": 1.0, "compatibility_weight_coefficient": 1.0}
    old = speciate(neat_config(**found), genomes({1: 0.0}, {1: 1.5}, {1: 3.0}, {1: 9.0}), no_species(), 0)
    now = genomes({1: 0.0}, {1: 1.5}, {1: 3.0}, {1: 9.0})
    wide = {**found, "compatibility_threshold": 2.0}
    assert speciate(neat_config(**wide), now, old, 1).id.tolist() == [1, 2, 3, 4]  # without a target none ends
    for target, ids in ((4, [1, 2, 3, 4]), (3, [1, 3, 4]), (2, [1, 3, 4]), (1, [1, 3, 4])):
        new = speciate(neat_config(target_species=target, **wide), now, old, 1)
        assert new.id.tolist() == ids  # 1.5 is near 0, but 3 is not: 1.5 ended before
        if target < 4:
            assert new.member_of.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("count", "factor"),
    [(1, 0.5), (4, 0.5), (6, 0.75), (8, 1.0), (10, 1.25), (16, 2.0), (100, 2.0)],
)
def test_the_threshold_moves_by_the_root_of_how_far_the_species_are_from_their_target(count, factor):
    config = neat_config(target_species=8, compatibility_threshold=3.0)
    assert followed_threshold(config, 1.7, count) == pytest.approx(1.7 * math.sqrt(factor), rel=1e-15)


@FUZZ
@given(st.integers(0, 20), st.lists(st.integers(1, 100), max_size=60), st.floats(1e-3, 1e3))
def test_a_threshold_that_follows_stays_within_a_hundred_times_its_setting_and_without_target_is_fixed(
    target, counts, setting
):
    config = neat_config(target_species=target, compatibility_threshold=setting)
    threshold = setting
    for count in counts:
        after = followed_threshold(config, threshold, count)
        assert setting / 100 <= after <= setting * 100
        assert after == threshold if target in (0, count) else (after - threshold) * (count - target) >= 0
        threshold = after
    if target == 0:
        assert threshold == setting


def test_more_species_than_have_room_are_no_target():
    with pytest.raises(NeolError, match="target_species = 21 is not allowed; .* population of 100 has room for 20"):
        neat_config(target_species=21, elitism=5)
    assert neat_config(target_species=20, elitism=5).target_species == 20


# -- stagnation


def made(sizes: list[int], best: list[float] | None = None, improved: list[int] | None = None) -> Species:
    """Species of these sizes, members in order."""
    count = len(sizes)
    return Species(
        np.arange(1, count + 1, dtype=np.int32),
        np.repeat(np.arange(count), sizes).astype(np.int32),
        empty_genomes(count, 1, 1),
        np.array(best if best is not None else [-math.inf] * count),
        np.array(improved if improved is not None else [0] * count, np.int32),
        np.zeros(count, np.int32),
        count + 1,
    )


def test_a_species_is_removed_after_max_stagnation_generations_without_progress():
    config = neat_config(max_stagnation=4, species_elitism=0)
    species, survived = made([2, 2]), []
    for generation in range(10):
        rising = float(generation)
        fitness = np.array([5.0 if generation >= 1 else 1.0, 0.0, rising, -rising])  # the first improves last at 1
        species, alive = update_stagnation(config, species, fitness, generation)
        survived.append(alive.tolist())
    assert survived == [[g < 5, True] for g in range(10)]  # 1 + 4
    assert species.best.tolist() == [5.0, 9.0] and species.improved.tolist() == [1, 9]


def test_equal_fitness_is_no_progress():
    species, _ = update_stagnation(neat_config(), made([1], best=[2.0], improved=[3]), np.array([2.0]), 9)
    assert species.improved.tolist() == [3]


@pytest.mark.parametrize("protected", [0, 1, 2, 3, 10])
def test_the_best_species_are_never_removed(protected):
    config = neat_config(max_stagnation=5, species_elitism=protected, pop_size=100)
    species = made([1, 1, 1, 1], best=[9.0] * 4)
    _, alive = update_stagnation(config, species, np.array([3.0, -7.0, 8.0, 1.0]), 50)
    ranking = [2, 0, 3, 1]
    assert set(np.flatnonzero(alive).tolist()) == set(ranking[:protected])


@pytest.mark.parametrize(("measure", "value"), [("max", 9.0), ("mean", 3.0), ("median", 1.5), ("min", 0.0)])
def test_a_species_fitness_is_the_measure_asked_for(measure, value):
    config = neat_config(species_fitness_func=measure)
    species, _ = update_stagnation(config, made([4, 1]), np.array([9.0, 1.0, 2.0, 0.0, -50.0]), 7)
    assert species.best.tolist() == [value, -50.0] and species.improved.tolist() == [7, 7]


def test_negative_fitness_counts_as_progress_from_nothing():
    species, alive = update_stagnation(neat_config(max_stagnation=1), made([1], improved=[0]), np.array([-1e300]), 5)
    assert species.improved.tolist() == [5] and alive.all()


# -- sharing and spawn


def due(
    sharing: str, sizes: list[int], fitness: list[float], alive: list[bool] | None = None, **flat: Any
) -> list[float]:
    config = neat_config(sharing=sharing, **flat)
    living = np.array(alive if alive is not None else [True] * len(sizes))
    return shares(config, made(sizes), living, np.array(fitness)).tolist()


# means 4, -1 and 1; minimum -5, maximum 6
SIZES, FITNESS = [2, 4, 1], [6.0, 2.0, -5.0, 0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [("canonical", [9.0, 4.0, 6.0]), ("paper", [9 / 2, 4 / 4, 6 / 1]), ("normalized", [9 / 11, 4 / 11, 6 / 11])],
)
def test_shares_are_what_one_works_out_by_hand(sharing, expected):
    assert due(sharing, SIZES, FITNESS) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [("canonical", [3.0, 0.0, 1.0]), ("paper", [3 / 2, 0.0, 1 / 2]), ("normalized", [3 / 5, 0.0, 1 / 5])],
)
def test_dead_species_neither_share_nor_set_the_range(sharing, expected):
    fitness = [6.0, 2.0, -5.0, 99.0, 0.0, 3.0, 1.0]  # of the living: means 4 and 2, minimum 1, maximum 6
    assert due(sharing, [2, 3, 2], fitness, [True, False, True]) == pytest.approx(expected)


def test_normalized_sharing_divides_by_one_at_least():
    assert due("normalized", [1, 1], [0.25, 0.75]) == [0.0, 0.5]


def slow_ranks(fitness: list[float]) -> list[float]:
    """1 for the worst; equals have the mean of the places that they take."""
    ordered = sorted(fitness)
    places = {f: [i + 1 for i, g in enumerate(ordered) if g == f] for f in fitness}
    return [sum(places[f]) / len(places[f]) for f in fitness]


@pytest.mark.parametrize(
    ("sharing", "expected"),
    # ranks: 6 -> 7, 2 -> 6, -5 -> 1, 0 and 0 -> 2.5, 1 and 1 -> 4.5; means 6.5, 2.625, 4.5
    [
        ("canonical", [6.5, 2.625, 4.5]),
        ("paper", [6.5 / 2, 2.625 / 4, 4.5]),
        ("normalized", [6.5 / 7, 2.625 / 7, 4.5 / 7]),
    ],
)
def test_shares_by_rank_are_what_one_works_out_by_hand(sharing, expected):
    assert due(sharing, SIZES, FITNESS, selection="rank") == pytest.approx(expected)
    stretched = [math.exp(f) for f in FITNESS]  # only the order counts
    assert due(sharing, SIZES, stretched, selection="rank") == due(sharing, SIZES, FITNESS, selection="rank")


@FUZZ
@given(
    st.lists(st.sampled_from([-1e300, -2.0, -1.0, 0.0, 0.5, 3.0, 1e300]) | st.floats(-10, 10), min_size=1), st.data()
)
def test_ranks_are_the_plain_ones_of_the_living(fitness, data):
    members = data.draw(st.lists(st.booleans(), min_size=len(fitness), max_size=len(fitness)))
    found = ranks(np.array(fitness), np.array(members, bool))
    living = [f for f, m in zip(fitness, members, strict=True) if m]
    assert found[members].tolist() == slow_ranks(living)
    assert not found[np.logical_not(members)].any()
    assert found.sum() == len(living) * (len(living) + 1) / 2


FLOATS = st.floats(-1e300, 1e300) | st.floats(-300, 300) | st.sampled_from([0.0, 0.1, -1e300, 1e300, -100.0, 1e-300])


@st.composite
def populations(draw: Any) -> tuple[NeatConfig, Species, np.ndarray, np.ndarray]:
    """Settings, species, who lives, and a fitness, for any sizes from one species to as many as genomes."""
    size = draw(st.integers(2, 40))
    count = draw(st.integers(1, size) | st.just(size))
    cuts = sorted(draw(st.permutations(range(1, size)))[: count - 1])
    sizes = np.diff([0, *cuts, size]).tolist()
    alive = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    assume(any(alive))
    constant = draw(st.booleans())
    fitness = [draw(FLOATS)] * size if constant else draw(st.lists(FLOATS, min_size=size, max_size=size))
    config = neat_config(
        pop_size=size,
        sharing=draw(st.sampled_from(SHARINGS)),
        selection=draw(st.sampled_from(["truncation", "rank"])),
        elitism=draw(st.integers(0, size // 2)),
        min_species_size=draw(st.integers(1, size // 2)),
    )
    return config, made(sizes), np.array(alive), np.array(fitness)


@settings(FUZZ, max_examples=400)
@given(populations())
def test_spawn_counts_sum_to_the_population_and_give_the_living_their_minimum(population):
    config, species, alive, fitness = population
    sizes = np.bincount(species.member_of)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        share = shares(config, species, alive, fitness)
        spawn = spawn_counts(config, share, alive, sizes)
    assert np.isfinite(share).all() and not share[~alive].any()
    assert spawn.sum() == config.pop_size and spawn.dtype == np.int64
    assert not spawn[~alive].any()
    least = max(config.min_species_size, config.elitism)
    assert (spawn[alive] >= min(least, config.pop_size // alive.sum())).all()


def test_shares_are_never_negative():
    for sharing in SHARINGS:
        assert min(due(sharing, [3, 7, 10, 30, 50], [0.1] * 100)) >= 0.0


def test_where_all_have_the_same_fitness_no_species_is_preferred():
    sizes = [3, 7, 10, 30, 50]
    for value in (0.1, -37.123, 9.333333333333334, -100.7):
        for sharing in ("canonical", "paper"):
            config = neat_config(sharing=sharing, pop_size=100)
            share = shares(config, made(sizes), np.ones(5, np.bool_), np.full(100, value))
            assert spawn_counts(config, share, np.ones(5, np.bool_), np.array(sizes)).tolist() == [20] * 5


@pytest.mark.parametrize(
    ("sharing", "sizes", "share", "expected"),
    [
        ("canonical", [50, 50], [3.0, 1.0], [75, 25]),
        ("paper", [50, 50], [3.0, 1.0], [75, 25]),
        ("normalized", [50, 50], [0.75, 0.25], [62, 38]),  # half way from 50 to 75: 62.5, 37.5
        ("normalized", [20, 80], [0.5, 0.5], [35, 65]),
        ("canonical", [50, 50], [1.0, 0.0], [98, 2]),  # the minimum of a living species
        ("canonical", [50, 50], [0.0, 0.0], [50, 50]),  # no fitness to tell them apart
    ],
)
def test_spawn_counts_are_what_one_works_out_by_hand(sharing, sizes, share, expected):
    config = neat_config(sharing=sharing, pop_size=100)
    spawn = spawn_counts(config, np.array(share), np.array([True, True]), np.array(sizes))
    assert np.abs(spawn - expected).max() <= (1 if sharing == "normalized" else 0) and spawn.sum() == 100


@settings(FUZZ, max_examples=200)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(0, 100), st.integers(0, 4))
def test_apportioned_numbers_are_near_their_due_and_in_its_order(exact, more, least):
    amounts = np.array(exact)
    assume(amounts.sum() > 0)
    total = least * len(exact) + more
    out = apportion(amounts, total, least)
    assert out.sum() == total and (out >= least).all()
    order = np.argsort(amounts, kind="stable")
    assert (np.diff(out[order]) >= -1).all()  # -1: equal dues whose remainders do not suffice for all
    if least == 0:
        assert np.abs(out - amounts * (total / amounts.sum())).max() < 1 + 1e-6


@pytest.mark.parametrize("sharing", SHARINGS)
def test_a_fitter_species_of_the_same_size_gets_no_fewer(sharing):
    config, rng = neat_config(sharing=sharing, pop_size=40, elitism=1, min_species_size=1), np.random.default_rng(0)
    alive, sizes = np.ones(10, np.bool_), np.full(10, 4)
    for _ in range(200):
        fitness = np.sort(rng.normal(-50, 30, 10)).repeat(4)
        spawn = spawn_counts(config, shares(config, made([4] * 10), alive, fitness), alive, sizes)
        assert (np.diff(spawn) >= -1).all()  # -1: several at the minimum, where the older one gets what is left over
        assert spawn[-1] == spawn.max() > spawn[0]


def test_normalized_spawn_is_neat_pythons_but_for_rounding():
    rng, oracle = np.random.default_rng(0), neat.DefaultReproduction.__new__(neat.DefaultReproduction)
    equal = 0
    for _ in range(500):
        size, count, elitism = int(rng.integers(40, 200)), int(rng.integers(1, 12)), int(rng.integers(0, 4))
        sizes = np.diff([0, *np.sort(rng.choice(np.arange(1, size), count - 1, replace=False)), size]).tolist()
        fitness = rng.normal(-50, 40, size) + rng.normal(0, 30, count).repeat(sizes)
        config = neat_config(sharing="normalized", pop_size=size, elitism=elitism, min_species_size=2)
        alive, least = np.ones(count, np.bool_), max(2, elitism)
        share = shares(config, made(sizes), alive, fitness)
        spawn = spawn_counts(config, share, alive, np.array(sizes))
        theirs = oracle._adjust_spawn_exact(oracle.compute_spawn(share.tolist(), sizes, size, least), size, least)
        assert np.abs(spawn - theirs).max() <= 2
        equal += np.array_equal(spawn, theirs)
    assert equal > 200
