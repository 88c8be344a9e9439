"""The first population is neat-python's (its own `configure_new` is the oracle), and arrays keep what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import neat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from neat.innovation import InnovationTracker

from neol.config.schema import Config
from neol.config.sections import ACTIVATION_ID, AGGREGATION_ID, INITIAL_CONNECTIONS, MOST_RULES, NeatConfig
from neol.neat.genes import CONNECTION, GENES, GENOME, NODE, RULE
from neol.neat.genome import (
    CONN_FIELDS,
    NODE_FIELDS,
    Genomes,
    concatenate,
    empty_genomes,
    first_population,
    take,
    widen,
)

EXAMPLE = (Path(__file__).parent / "data" / "neat" / "authors-neat.ini").read_text(encoding="utf-8")
FUZZ = settings(deadline=None, max_examples=60)  # the first example may compile a kernel
Pairs = frozenset[tuple[int, int]]


def neat_config(**flat: Any) -> NeatConfig:
    return Config().replace(**flat).neat


def pairs(g: Genomes, p: int) -> Pairs:
    c = g.n_conns[p]
    return frozenset(zip(g.source[p, :c].tolist(), g.target[p, :c].tolist(), strict=True))


def rows(g: Genomes, p: int) -> list[Any]:
    """All used genes of genome p, for comparison."""
    nodes = [getattr(g, f)[p, : g.n_nodes[p]].tolist() for f in NODE_FIELDS]
    conns = [getattr(g, f)[p, : g.n_conns[p]].tolist() for f in CONN_FIELDS]
    return [float(g.step_size[p]), *nodes, *conns]


def same(a: Genomes, b: Genomes) -> bool:
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def oracle_config(path: Path, inputs: int, outputs: int, **changes: Any) -> Any:
    """neat-python's genome configuration, with the example's lines changed."""
    changes |= {"num_inputs": inputs, "num_outputs": outputs}
    lines = [line for line in EXAMPLE.splitlines() if line.split("=")[0].strip() not in changes]
    at = lines.index("[DefaultGenome]") + 1
    path.write_text("\n".join(lines[:at] + [f"{k} = {v}" for k, v in changes.items()] + lines[at:]), encoding="utf-8")
    kinds = (neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet, neat.DefaultStagnation)
    config = neat.Config(*kinds, str(path)).genome_config
    config.innovation_tracker = InnovationTracker()
    return config


def oracle_genome(config: Any) -> tuple[set[int], Pairs]:
    """Nodes and connections of a new genome, by neat-python."""
    config.node_indexer = None  # neat-python numbers the second genome's hidden nodes on; ours are the same in all
    genome = neat.DefaultGenome(1)
    genome.configure_new(config)
    return set(genome.nodes), frozenset(genome.connections)


SHAPES = [(h, f) for h in (0, 1, 3) for f in (True, False)]


@pytest.mark.parametrize(("hidden", "feed_forward"), SHAPES)
@pytest.mark.parametrize("kind", ["full_direct", "full_nodirect", "unconnected"])
def test_every_genome_has_exactly_neat_pythons_connections(tmp_path, kind, hidden, feed_forward):
    oracle = oracle_config(
        tmp_path / "neat.ini", 3, 2, num_hidden=hidden, feed_forward=feed_forward, initial_connection=kind
    )
    nodes, connections = oracle_genome(oracle)
    config = neat_config(pop_size=5, num_hidden=hidden, feed_forward=feed_forward, initial_connection=kind)
    g, _ = first_population(config, 3, 2, 0)
    for p in range(5):
        assert pairs(g, p) == connections and g.n_conns[p] == len(connections)
        assert set(g.node_id[p, : g.n_nodes[p]].tolist()) == nodes and g.n_nodes[p] == len(nodes)


@pytest.mark.parametrize(("hidden", "feed_forward"), SHAPES)
@pytest.mark.parametrize("kind", ["fs_neat_nohidden", "fs_neat_hidden"])
def test_fs_neat_connects_one_random_input_as_neat_python_does(tmp_path, kind, hidden, feed_forward):
    oracle = oracle_config(
        tmp_path / "neat.ini", 3, 2, num_hidden=hidden, feed_forward=feed_forward, initial_connection=kind
    )
    config = neat_config(pop_size=60, num_hidden=hidden, feed_forward=feed_forward, initial_connection=kind)
    g, _ = first_population(config, 3, 2, 0)
    ours = [pairs(g, p) for p in range(60)]
    assert set(ours) == {oracle_genome(oracle)[1] for _ in range(60)}
    assert all(10 <= ours.count(each) <= 30 for each in set(ours))  # 3 inputs, 20 expected


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 0.7, 1.0])
@pytest.mark.parametrize(("hidden", "feed_forward"), SHAPES)
@pytest.mark.parametrize("kind", ["partial_direct", "partial_nodirect"])
def test_partial_connections_are_as_many_as_neat_pythons_and_from_the_same_set(
    tmp_path, kind, hidden, feed_forward, fraction
):
    shape = {"num_hidden": hidden, "feed_forward": feed_forward}
    oracle = oracle_config(tmp_path / "neat.ini", 3, 2, **shape, initial_connection=f"{kind} {fraction}")
    _, some = oracle_genome(oracle)
    oracle.connection_fraction = 1.0
    _, possible = oracle_genome(oracle)
    config = neat_config(pop_size=60, **shape, initial_connection=kind, connection_fraction=fraction)
    g, _ = first_population(config, 3, 2, 0)
    ours = [pairs(g, p) for p in range(60)]
    assert {len(each) for each in ours} == {len(some)}
    assert frozenset().union(*ours) == (possible if fraction else frozenset())
    assert (len(set(ours)) > 1) == (0 < fraction < 1)


def test_partial_connections_are_chosen_equally_often():
    config = neat_config(pop_size=2000, initial_connection="partial_direct", connection_fraction=0.3)
    g, _ = first_population(config, 5, 4, 0)
    counts = np.bincount(np.concatenate([g.innovation[p, : g.n_conns[p]] for p in range(2000)]), minlength=20)
    assert np.abs(counts - 600).max() < 4 * np.sqrt(2000 * 0.3 * 0.7)


POPULATIONS = st.fixed_dictionaries(
    {
        "pop_size": st.integers(4, 12),
        "num_hidden": st.integers(0, 4),
        "feed_forward": st.booleans(),
        "initial_connection": st.sampled_from(INITIAL_CONNECTIONS),
        "connection_fraction": st.floats(0, 1),
        "enabled_default": st.sampled_from(["true", "false", "random"]),
    }
)


@FUZZ
@given(POPULATIONS, st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**63 - 1))
def test_first_populations_are_sorted_unique_and_zero_where_free(flat, inputs, outputs, seed):
    g, innovations = first_population(neat_config(**flat), inputs, outputs, seed)
    assert (g.step_size == 1.0).all() and len(g.n_nodes) == flat["pop_size"]
    numbers: dict[int, tuple[int, int]] = {}
    for p in range(flat["pop_size"]):
        n, c = g.n_nodes[p], g.n_conns[p]
        assert g.node_id[p, :n].tolist() == list(range(outputs + flat["num_hidden"]))
        assert (np.diff(g.innovation[p, :c]) > 0).all() and len(pairs(g, p)) == c
        assert all(not getattr(g, f)[p, n:].any() for f in NODE_FIELDS)
        assert all(not getattr(g, f)[p, c:].any() for f in CONN_FIELDS)
        pair = list(zip(g.source[p, :c].tolist(), g.target[p, :c].tolist(), strict=True))
        assert all(-inputs <= s < n and 0 <= t < n for s, t in pair)
        for number, ends in zip(g.innovation[p, :c].tolist(), pair, strict=True):
            assert numbers.setdefault(number, ends) == ends
    assert all(number < innovations.counts[0] for number in numbers)
    assert innovations.counts[1] == outputs + flat["num_hidden"]


@FUZZ
@given(POPULATIONS, st.integers(0, 2**63 - 1))
def test_the_same_seed_gives_the_same_bits(flat, seed):
    (a, i), (b, j) = (first_population(neat_config(**flat), 3, 2, seed) for _ in range(2))
    assert same(a, b)
    assert all(np.array_equal(x, y) for x, y in zip(i, j, strict=True))


def test_another_seed_gives_other_values():
    a, b = (first_population(neat_config(), 3, 2, seed)[0] for seed in (0, 1))
    assert not np.intersect1d(a.weight[a.weight != 0], b.weight[b.weight != 0]).size
    assert not np.intersect1d(a.bias[a.bias != 0], b.bias[b.bias != 0]).size


@FUZZ
@given(POPULATIONS, st.integers(0, 2**31))
def test_a_genome_does_not_depend_on_the_population_size(flat, seed):
    few, _ = first_population(neat_config(**flat), 3, 2, seed)
    many, _ = first_population(neat_config(**{**flat, "pop_size": 20}), 3, 2, seed)
    assert same(few, take(many, slice(0, flat["pop_size"])))


def drawn(gene: str, **flat: Any) -> np.ndarray:
    """20,000 fresh values of a gene."""
    config = neat_config(pop_size=1000, **{f"{gene}_{k}": v for k, v in flat.items()})
    g, _ = first_population(config, 1, 20, 0)
    return getattr(g, gene)[:, :20].ravel()


@pytest.mark.parametrize("gene", ["weight", "bias", "response"])
def test_gaussian_genes_have_their_mean_and_deviation(gene):
    x = drawn(gene, init_mean=-2.0, init_stdev=0.5, init_type="gaussian")
    n = len(x)
    z = (x + 2.0) / 0.5
    assert abs(z.mean()) < 4 / np.sqrt(n) and abs((z**2).mean() - 1) < 4 * np.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 4 * np.sqrt(96 / n)
    assert len(np.unique(x)) == n


@pytest.mark.parametrize("gene", ["weight", "bias", "response"])
def test_gaussian_genes_are_clamped_to_their_limits(gene):
    x = drawn(gene, init_mean=0.0, init_stdev=1.0, min_value=-0.5, max_value=1.0)
    assert x.min() == -0.5 and x.max() == 1.0
    assert abs((x == -0.5).mean() - 0.3085) < 0.015 and abs((x == 1.0).mean() - 0.1587) < 0.012


@pytest.mark.parametrize("gene", ["weight", "bias", "response"])
def test_uniform_genes_span_two_deviations_about_their_mean(gene):
    x = drawn(gene, init_mean=3.0, init_stdev=0.5, init_type="uniform")
    assert 2.0 <= x.min() < 2.01 and 3.99 < x.max() <= 4.0
    counts = np.bincount(((x - 2.0) * 10).astype(int), minlength=20)
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(1000)


@pytest.mark.parametrize("gene", ["weight", "bias", "response"])
def test_uniform_genes_stay_uniform_within_tighter_limits(gene):
    x = drawn(gene, init_mean=0.0, init_stdev=1.0, init_type="uniform", min_value=-1.0, max_value=0.5)
    assert -1.0 <= x.min() < -0.99 and 0.49 < x.max() <= 0.5
    assert abs(x.mean() + 0.25) < 4 * np.sqrt(1.5**2 / 12 / len(x))


def test_uniform_genes_never_leave_their_limits():
    x = drawn("weight", init_mean=100.0, init_stdev=1.0, init_type="uniform")
    assert x.min() >= -30.0 and x.max() <= 30.0


def test_without_deviation_every_gene_is_its_mean():
    assert (drawn("response") == 1.0).all()
    assert (drawn("weight", init_mean=0.7, init_stdev=0.0) == 0.7).all()


def test_random_activations_and_aggregations_take_every_option_equally_often():
    config = neat_config(
        pop_size=1000, activation_default="random", activation_options=("tanh", "relu", "hat"),
        aggregation_default="random", aggregation_options=("max", "median"),
    )  # fmt: skip
    g, _ = first_population(config, 1, 10, 0)
    names, counts = np.unique(g.activation[:, :10], return_counts=True)
    assert set(names.tolist()) == {ACTIVATION_ID[a] for a in ("tanh", "relu", "hat")}
    assert np.abs(counts - 10_000 / 3).max() < 4 * np.sqrt(10_000 * 2 / 9)
    names, counts = np.unique(g.aggregation[:, :10], return_counts=True)
    assert set(names.tolist()) == {AGGREGATION_ID[a] for a in ("max", "median")}
    assert np.abs(counts - 5000).max() < 4 * np.sqrt(2500)


def test_the_default_activation_need_not_be_random():
    config = neat_config(activation_default="sin", activation_options=("sin", "abs"), aggregation_default="sum")
    g, _ = first_population(config, 1, 2, 0)
    assert (g.activation[:, :2] == ACTIVATION_ID["sin"]).all() and (g.aggregation == AGGREGATION_ID["sum"]).all()


@pytest.mark.parametrize(("default", "low", "high"), [("true", 1.0, 1.0), ("false", 0.0, 0.0), ("random", 0.47, 0.53)])
def test_new_connections_are_enabled_as_the_setting_says(default, low, high):
    g, _ = first_population(neat_config(pop_size=500, enabled_default=default), 5, 2, 0)
    assert low <= g.enabled[:, :10].mean() <= high


def varied(seed: int = 0, size: int = 8, **flat: Any) -> Genomes:
    """A population whose genomes differ in every field."""
    g, _ = first_population(
        neat_config(pop_size=size, activation_default="random", activation_options=("tanh", "abs"),
                    enabled_default="random", response_init_stdev=0.3, **flat), 3, 2, seed,
    )  # fmt: skip
    return g


@FUZZ
@given(st.lists(st.integers(0, 7), max_size=12))
def test_take_keeps_the_genomes_in_the_order_asked_for(index):
    g = varied()
    for form in (index, np.array(index, np.int32)):
        taken = take(g, form)
        assert [rows(taken, i) for i in range(len(index))] == [rows(g, p) for p in index]
        assert not any(np.shares_memory(a, b) for a, b in zip(taken, g, strict=True))


def test_take_of_a_slice_is_a_copy():
    g = varied()
    taken = take(g, slice(2, 5))
    taken.weight[:] = 99.0
    assert [rows(g, p) for p in range(8)] == [rows(varied(), p) for p in range(8)]


@FUZZ
@given(st.integers(0, 40), st.integers(0, 40))
def test_widen_keeps_content_and_fills_with_zeros(nodes, conns):
    g = varied()
    wide = widen(g, nodes, conns)
    assert [rows(wide, p) for p in range(8)] == [rows(g, p) for p in range(8)]
    assert wide.bias.shape == (8, max(nodes, g.bias.shape[1])) and wide.weight.shape == (
        8,
        max(conns, g.weight.shape[1]),
    )
    for f in (*NODE_FIELDS, *CONN_FIELDS):
        assert getattr(wide, f).dtype == getattr(g, f).dtype
        assert not getattr(wide, f)[:, getattr(g, f).shape[1] :].any()


def test_concatenate_keeps_the_genomes_of_parts_with_different_capacity():
    parts = [varied(0), varied(1, size=4, num_hidden=6), varied(2, size=5, initial_connection="unconnected")]
    whole = concatenate(parts)
    assert [rows(whole, p) for p in range(17)] == [rows(g, p) for g in parts for p in range(len(g.n_nodes))]
    assert whole.bias.shape[1] == parts[1].bias.shape[1]
    assert same(concatenate([parts[0]]), parts[0])


def test_empty_genomes_are_zeros_of_the_declared_types():
    g = empty_genomes(2, 3, 4)
    known = {
        "n_nodes": "i4", "n_conns": "i4", "step_size": "f8", "node_id": "i4", "bias": "f8", "response": "f8",
        "activation": "i1", "aggregation": "i1", "innovation": "i4", "source": "i4", "target": "i4", "weight": "f8",
        "enabled": "b1",
    }  # fmt: skip
    assert {name: getattr(g, name).dtype.str[1:] for name in known} == known
    size = {GENOME: (2,), RULE: (2, MOST_RULES), NODE: (2, 3), CONNECTION: (2, 4)}
    assert all(getattr(g, gene.name).shape == size[gene.of] for gene in GENES)
    assert not any(a.any() for a in g)
