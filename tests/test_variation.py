"""Children: what must hold after any crossover and mutation, and how often each kind of change happens."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from neat.genes import DefaultConnectionGene

from neol.config.schema import Config
from neol.config.sections import ACTIVATION_ID, AGGREGATION_ID, INITIAL_CONNECTIONS, NeatConfig
from neol.neat.genes import GENES
from neol.neat.genome import CONN_FIELDS, NODE_FIELDS, Genomes, first_population, take
from neol.neat.innovation import Innovations
from neol.neat.variation import breed
from neol.network.phenotype import compile_phenotypes
from neol.network.step import act, forward, load, new_slots

FUZZ = settings(deadline=None)  # the first example may compile a kernel
STRUCTURE = ("node_add_prob", "node_delete_prob", "conn_add_prob", "conn_delete_prob")
VALUES = [f"{g}_{r}" for g in ("weight", "bias", "response") for r in ("mutate_rate", "replace_rate")]
STILL = dict.fromkeys([*STRUCTURE, *VALUES, "enabled_mutate_rate", "activation_mutate_rate"], 0.0)


def still(**flat: Any) -> NeatConfig:
    """Settings under which nothing changes but what is named."""
    return Config().replace(**{**STILL, **flat}).neat


class Line:
    """A population bred from generation to generation, with its innovations."""

    def __init__(self, config: NeatConfig, inputs: int, outputs: int, seed: int = 0) -> None:
        self.config, self.inputs, self.outputs, self.seed = config, inputs, outputs, seed
        self.generation = 0
        self.genomes, self.innovations = first_population(config, inputs, outputs, seed)

    def breed(self, first: Any, second: Any = None, elite: Any = None, **changes: Any) -> Genomes:
        """Children of the present genomes; they do not replace them."""
        first = np.asarray(first, np.int32)
        second = first if second is None else np.asarray(second, np.int32)
        elite = np.zeros(len(first), np.bool_) if elite is None else np.asarray(elite, np.bool_)
        config = Config(neat=self.config).replace(**changes).neat
        innovations: Innovations = self.innovations
        sizes = (self.inputs, self.outputs, self.seed, self.generation)
        children, self.innovations = breed(config, self.genomes, first, second, elite, innovations, *sizes)
        self.generation += 1
        return children

    def grow(self, generations: int, rng: np.random.Generator, **changes: Any) -> Line:
        size = len(self.genomes.n_nodes)
        for _ in range(generations):
            self.genomes = self.breed(rng.integers(0, size, size), rng.integers(0, size, size), **changes)
        return self


def genes(g: Genomes, p: int) -> list[Any]:
    """All used genes of genome p, for bit-exact comparison; but for those that no setting holds still."""
    free = [gene.name for gene in GENES if gene.own_stream]
    nodes = [getattr(g, f)[p, : g.n_nodes[p]].tobytes() for f in NODE_FIELDS if f not in free]
    conns = [getattr(g, f)[p, : g.n_conns[p]].tobytes() for f in CONN_FIELDS if f not in free]
    return [float(g.step_size[p]), *nodes, *conns]


def ids(g: Genomes, p: int) -> list[int]:
    return g.node_id[p, : g.n_nodes[p]].tolist()


def connections(g: Genomes, p: int) -> dict[tuple[int, int], tuple[int, float, bool]]:
    """(source, target) -> (innovation, weight, enabled)."""
    columns = [
        getattr(g, f)[p, : g.n_conns[p]].tolist() for f in ("source", "target", "innovation", "weight", "enabled")
    ]
    return {(s, t): (i, w, e) for s, t, i, w, e in zip(*columns, strict=True)}


def is_acyclic(edges: list[tuple[int, int]]) -> bool:
    while edges:
        targets = {t for _, t in edges}
        left = [(s, t) for s, t in edges if s in targets]
        if len(left) == len(edges):
            return False
        edges = left
    return True


def outputs_of(g: Genomes, p: int, inputs: int, outputs: int, observation: np.ndarray) -> np.ndarray:
    phenotypes = compile_phenotypes(take(g, [p]), inputs, outputs)
    slots, out = new_slots(phenotypes, 1), np.zeros(outputs)
    load(phenotypes, slots, 0, 0)
    forward(phenotypes, slots, 0, observation, np.inf)
    act(phenotypes, slots, 0, False, out)
    return out


def about(count: float, n: int, probability: float) -> bool:
    """Whether a count out of n is within 4 standard errors of its expectation."""
    return abs(count - n * probability) <= 4 * np.sqrt(n * probability * (1 - probability)) + 1e-9


# -- invariants

RATE = st.sampled_from([0.0, 0.1, 0.5, 1.0])
CONFIGS = st.fixed_dictionaries(
    {
        **dict.fromkeys([*STRUCTURE, *VALUES, "activation_mutate_rate", "aggregation_mutate_rate"], RATE),
        "feed_forward": st.booleans(),
        "num_hidden": st.integers(0, 3),
        "initial_connection": st.sampled_from(INITIAL_CONNECTIONS),
        "single_structural_mutation": st.booleans(),
        "structural_mutation_surer": st.sampled_from(["default", "true", "false"]),
        "enabled_default": st.sampled_from(["true", "false", "random"]),
        "enabled_mutate_rate": RATE,
        "step_size_adaptation": st.sampled_from([0.0, 0.2, 5.0]),
        "weight_mutation": st.sampled_from(["config", "off", "0.3"]),
        "weight_init_type": st.sampled_from(["gaussian", "uniform"]),
        "weight_mutate_power": st.sampled_from([0.1, 1e6]),
        "weight_min_value": st.sampled_from([-30.0, -0.25]),
        "weight_max_value": st.sampled_from([30.0, 1.0]),
        "bias_mutate_power": st.sampled_from([0.0, 10.0]),
        "bias_min_value": st.sampled_from([-30.0, 0.0]),
        "bias_max_value": st.sampled_from([30.0, 0.5]),
        "response_min_value": st.just(0.5),
        "response_max_value": st.just(2.0),
        "response_mutate_power": st.just(1.0),
        "activation_default": st.sampled_from(["random", "clamped"]),
        "activation_options": st.just(("clamped", "tanh", "hat")),
        "aggregation_default": st.sampled_from(["random", "sum"]),
        "aggregation_options": st.just(("sum", "median")),
    }
)
LIMITED = {"weight": "n_conns", "bias": "n_nodes", "response": "n_nodes"}


def check_genome(g: Genomes, p: int, config: NeatConfig, inputs: int, outputs: int) -> None:
    n, c = int(g.n_nodes[p]), int(g.n_conns[p])
    nodes, edges = ids(g, p), connections(g, p)
    assert nodes[:outputs] == list(range(outputs)), "outputs are never deleted"
    assert nodes == sorted(set(nodes)), "node ids ascend"
    assert (np.diff(g.innovation[p, :c]) > 0).all(), "innovations ascend"
    assert len(edges) == c, "no connection twice"
    sources = {*range(-inputs, 0), *nodes}
    assert all(s in sources and t in nodes for s, t in edges), "endpoints exist, and no input is a target"
    if config.feed_forward:
        assert is_acyclic(list(edges)), "no cycle, disabled connections included"
        assert not any(0 <= s < outputs for s, _ in edges)
    assert not any(getattr(g, f)[p, n:].any() for f in NODE_FIELDS), "free places are 0"
    assert not any(getattr(g, f)[p, c:].any() for f in CONN_FIELDS), "free places are 0"
    for gene, count in LIMITED.items():
        used = getattr(g, gene)[p, : getattr(g, count)[p]]
        assert (used >= getattr(config, f"{gene}_min_value")).all() and (
            used <= getattr(config, f"{gene}_max_value")
        ).all()
    assert 0.01 <= g.step_size[p] <= 10.0
    assert {ACTIVATION_ID[a] for a in config.activation_options}.issuperset(g.activation[p, :n].tolist())
    assert {AGGREGATION_ID[a] for a in config.aggregation_options}.issuperset(g.aggregation[p, :n].tolist())


@settings(FUZZ, max_examples=60)
@given(CONFIGS, st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32))
def test_every_child_of_many_random_breeds_is_a_valid_genome(flat, inputs, outputs, seed):
    config = Config().replace(pop_size=12, **flat).neat
    line, rng = Line(config, inputs, outputs, seed), np.random.default_rng(seed)
    numbers: dict[int, tuple[int, int]] = {}
    for _ in range(12):
        first, second = rng.integers(0, 12, (2, 12))
        elite = rng.random(12) < 0.2
        parents, children = line.genomes, line.breed(first, second, elite)
        for p in range(12):
            check_genome(children, p, config, inputs, outputs)
            for ends, (innovation, *_) in connections(children, p).items():
                assert numbers.setdefault(innovation, ends) == ends, "an innovation is one pair for ever"
            if elite[p]:
                assert genes(children, p) == genes(parents, first[p])
        line.genomes = children
    assert len(set(numbers.values())) == len(numbers), "a pair is one innovation for ever"


def test_deleting_a_node_leaves_zeros_in_its_place():
    line = Line(still(pop_size=4, num_hidden=2, activation_default="tanh", aggregation_default="max"), 2, 1)
    children = line.breed([0, 1, 2, 3], node_delete_prob=1.0)
    assert all(not getattr(children, f)[p, children.n_nodes[p] :].any() for f in NODE_FIELDS for p in range(4))


def test_a_new_node_respects_the_limits():
    line = Line(still(pop_size=4, weight_max_value=0.5, bias_min_value=0.25), 2, 1)
    children = line.breed([0, 1, 2, 3], node_add_prob=1.0)
    assert children.weight.max() <= 0.5
    assert min(children.bias[p, : children.n_nodes[p]].min() for p in range(4)) >= 0.25


def test_growth_is_not_bounded_by_the_first_capacity():
    line = Line(still(pop_size=4), 2, 1).grow(60, np.random.default_rng(0), node_add_prob=1.0, conn_add_prob=1.0)
    assert line.genomes.n_nodes.tolist() == [61] * 4
    for p in range(4):
        check_genome(line.genomes, p, line.config, 2, 1)


def test_a_child_depends_on_its_own_stream_alone():
    line = Line(Config().replace(pop_size=30, node_add_prob=0.5, conn_add_prob=0.5).neat, 3, 2)
    line.grow(5, np.random.default_rng(0))
    again = Line(line.config, 3, 2).grow(5, np.random.default_rng(0))
    few, many = line.breed(range(10), range(1, 11)), again.breed(range(29), range(1, 30))
    assert [genes(few, p) for p in range(10)] == [genes(many, p) for p in range(10)]


# -- copying and crossover


def grown(**flat: Any) -> Line:
    """Parents that share some genes and not others, every value different, nothing mutating from now on."""
    wild = {"node_add_prob": 0.4, "conn_add_prob": 0.5, "conn_delete_prob": 0.3, "enabled_mutate_rate": 0.3}
    wild |= {
        "weight_mutate_rate": 1.0,
        "bias_mutate_rate": 1.0,
        "response_mutate_rate": 1.0,
        "response_mutate_power": 0.1,
    }
    wild |= {"activation_mutate_rate": 0.5, "aggregation_mutate_rate": 0.5}
    options = {"activation_options": ("clamped", "tanh", "abs"), "aggregation_options": ("sum", "max")}
    line = Line(Config().replace(pop_size=30, **STILL, **options, **flat).neat, 4, 2)
    return line.grow(8, np.random.default_rng(1), **wild)


def test_elites_are_bit_identical_whatever_the_rates():
    line = grown()
    every = dict.fromkeys((*STILL, "step_size_adaptation"), 1.0)
    children = line.breed(range(30), [*range(29, -1, -1)], [True] * 30, **every)
    assert [genes(children, p) for p in range(30)] == [genes(line.genomes, p) for p in range(30)]


def test_without_any_rate_the_child_of_one_parent_is_that_parent():
    line = grown()
    children = line.breed([7, 3, 29])
    assert [genes(children, p) for p in range(3)] == [genes(line.genomes, p) for p in (7, 3, 29)]


def test_a_crossover_of_identical_parents_is_that_parent():
    line = grown()
    line.genomes = take(line.genomes, [*range(30)] * 2)
    children = line.breed(range(30), range(30, 60))
    assert [genes(children, p) for p in range(30)] == [genes(line.genomes, p) for p in range(30)]


def test_breeding_leaves_the_parents_alone():
    line = grown()
    before = [a.copy() for a in line.genomes]
    line.breed(range(30), [*range(29, -1, -1)], **dict.fromkeys(STILL, 1.0))
    assert all(np.array_equal(a, b) for a, b in zip(before, line.genomes, strict=True))


def test_a_crossover_childs_structure_is_its_fitter_parents():
    line, rng = grown(), np.random.default_rng(0)
    first, second = rng.integers(0, 30, (2, 300))
    children = line.breed(first, second)
    for p in range(300):
        assert ids(children, p) == ids(line.genomes, first[p])
        ours, theirs = connections(children, p), connections(line.genomes, first[p])
        assert {k: v[0] for k, v in ours.items()} == {k: v[0] for k, v in theirs.items()}
        assert children.step_size[p] == line.genomes.step_size[first[p]]


def test_matching_genes_come_from_either_parent_and_the_rest_from_the_fitter():
    line, rng = grown(), np.random.default_rng(0)
    first, second = rng.integers(0, 30, 300), rng.integers(0, 30, 300)
    children, parents = line.breed(first, second), line.genomes
    matching = from_second = alone = 0
    for p in range(300):
        a, b = connections(parents, first[p]), connections(parents, second[p])
        for pair, (_, weight, _) in connections(children, p).items():
            if pair not in b:
                assert weight == a[pair][1]
                alone += 1
            else:
                assert weight in (a[pair][1], b[pair][1])
                if a[pair][1] != b[pair][1]:
                    matching += 1
                    from_second += weight == b[pair][1]
    assert alone > 100 and matching > 1000 and about(from_second, matching, 0.5)


@pytest.mark.parametrize("field", ["bias", "response", "activation", "aggregation"])
def test_node_genes_come_from_either_parent_and_the_rest_from_the_fitter(field):
    line, rng = grown(), np.random.default_rng(0)
    first, second = rng.integers(0, 30, 300), rng.integers(0, 30, 300)
    children, parents = line.breed(first, second), line.genomes
    matching = from_second = alone = 0
    for p in range(300):
        a, b = (
            dict(zip(ids(parents, q), getattr(parents, field)[q].tolist(), strict=False)) for q in (first[p], second[p])
        )
        for node, value in zip(ids(children, p), getattr(children, field)[p].tolist(), strict=False):
            if node not in b:
                assert value == a[node]
                alone += 1
            else:
                assert value in (a[node], b[node])
                matching += a[node] != b[node]
                from_second += a[node] != b[node] and value == b[node]
    assert alone > 30 and matching > 200 and about(from_second, matching, 0.5)


def test_attributes_of_one_gene_are_inherited_independently():
    line = Line(still(pop_size=4, response_init_stdev=0.2), 1, 1)
    children, parents = line.breed([0] * 2000, [1] * 2000), line.genomes
    bias = children.bias[:, 0] == parents.bias[1, 0]
    response = children.response[:, 0] == parents.response[1, 0]
    assert about((bias & response).sum(), 2000, 0.25) and about((~bias & ~response).sum(), 2000, 0.25)


def disabled_rate_of_neat_python(first: bool, second: bool) -> float:
    """How often neat-python's own crossover disables a gene whose parents are (not) enabled."""
    random.seed(0)
    a, b = (DefaultConnectionGene((-1, 0), innovation=1) for _ in range(2))
    a.weight = b.weight = 1.0
    a.enabled, b.enabled = first, second
    return float(np.mean([not a.crossover(b).enabled for _ in range(20_000)]))


@pytest.mark.parametrize(
    ("first", "second", "rate"),
    [(True, True, 0.0), (True, False, 0.875), (False, True, 0.875), (False, False, 1.0)],
)
def test_a_gene_disabled_in_one_parent_is_inherited_or_else_disabled_with_75_percent(first, second, rate):
    """A half inherits `disabled`; of the other half 75 % are disabled: 0.5 + 0.5 * 0.75, as neat-python has it."""
    line = Line(still(pop_size=4), 20, 1)
    line.genomes.enabled[0, :20], line.genomes.enabled[1, :20] = first, second
    children = line.breed([0] * 1000, [1] * 1000, disabled_inherit_prob=0.75)
    assert about((~children.enabled[:, :20]).sum(), 20_000, rate)
    assert abs(disabled_rate_of_neat_python(first, second) - rate) < 0.01


@pytest.mark.parametrize(("first", "second", "rate"), [(True, False, 0.5), (False, True, 0.5), (False, False, 1.0)])
def test_without_that_rule_a_flag_comes_from_either_parent(first, second, rate):
    """So that crossover alone does not drive a flag to fixation: p' = p^2 + 2 p (1 - p) / 2 = p."""
    line = Line(still(pop_size=4), 20, 1)
    line.genomes.enabled[0, :20], line.genomes.enabled[1, :20] = first, second
    children = line.breed([0] * 1000, [1] * 1000, disabled_inherit_prob=0.0)
    assert about((~children.enabled[:, :20]).sum(), 20_000, rate)


# -- mutation of values

N = 20_000  # genes per measurement


def wide(gene: str, **flat: Any) -> tuple[np.ndarray, np.ndarray]:
    """N values of a gene before and after one generation of mutation; fresh ones would be 20 exactly."""
    line = Line(still(pop_size=1000), 20, 1) if gene in CONN_FIELDS else Line(still(pop_size=1000), 1, 20)
    children = line.breed(
        range(1000), **flat, **({f"{gene}_init_mean": 20.0, f"{gene}_init_stdev": 0.0} if flat else {})
    )
    return getattr(line.genomes, gene)[:, :20].ravel(), getattr(children, gene)[:, :20].ravel()


@pytest.mark.parametrize("gene", ["weight", "bias", "response"])
def test_values_step_and_are_replaced_at_their_rates(gene):
    flat = {f"{gene}_mutate_rate": 0.3, f"{gene}_replace_rate": 0.1, f"{gene}_mutate_power": 0.5}
    before, after = wide(gene, **flat)
    fresh = after == 20.0
    stepped = (after != before) & ~fresh
    step = (after - before)[stepped]
    assert about(fresh.sum(), N, 0.1) and about(stepped.sum(), N, 0.3)
    assert abs(step.mean()) < 4 * 0.5 / np.sqrt(len(step)) and abs(step.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * len(step))


def test_weight_mutation_off_leaves_every_weight():
    before, after = wide("weight", weight_mutation="off", weight_mutate_rate=0.8, weight_replace_rate=0.1)
    assert np.array_equal(before, after)


def test_weight_mutation_off_still_mutates_biases():
    before, after = wide("bias", weight_mutation="off", bias_mutate_rate=1.0, bias_mutate_power=0.5)
    assert (before != after).all()


@pytest.mark.parametrize("probability", ["0.25", "0.9", "1"])
def test_weight_mutation_p_steps_that_fraction_of_all_weights(probability):
    """Holds whether P is per weight or per child (see the next test), with the other rates out of the way."""
    flat = {"weight_mutate_rate": 1.0, "weight_mutate_power": 0.5}
    before, after = wide("weight", weight_mutation=probability, **flat)
    changed = (before != after).reshape(1000, 20)
    assert abs(changed.mean() - float(probability)) <= 4 * np.sqrt(float(probability) * (1 - float(probability)) / 1000)


def test_weight_mutation_0_leaves_every_weight():
    before, after = wide("weight", weight_mutation="0", weight_mutate_rate=0.8, weight_replace_rate=0.1)
    assert np.array_equal(before, after)


def test_weight_mutation_p_is_the_probability_that_a_weight_changes_by_step_or_fresh_value():
    before, after = wide("weight", weight_mutation="0.25", weight_mutate_rate=0.5, weight_replace_rate=0.5)
    assert about((before != after).sum(), before.size, 0.25)


@pytest.mark.parametrize(("enabled", "rate"), [(True, 0.1 + 0.3), (False, 0.1 + 0.6)])
def test_enabled_flags_are_drawn_anew_at_their_rates(enabled, rate):
    line = Line(still(pop_size=1000, enabled_default=str(enabled).lower()), 20, 1)
    rates = {"enabled_mutate_rate": 0.1, "enabled_rate_to_false_add": 0.3, "enabled_rate_to_true_add": 0.6}
    children = line.breed(range(1000), **rates)
    assert about((children.enabled[:, :20] != enabled).sum(), N, rate / 2)


def test_activations_and_aggregations_are_drawn_anew_at_their_rates():
    options = {"activation_options": ("clamped", "tanh", "abs", "hat"), "aggregation_options": ("sum", "max")}
    line = Line(still(pop_size=1000, **options), 1, 20)
    children = line.breed(range(1000), activation_mutate_rate=0.4, aggregation_mutate_rate=0.2)
    assert about((children.activation[:, :20] != ACTIVATION_ID["clamped"]).sum(), N, 0.4 * 3 / 4)
    assert about((children.aggregation[:, :20] != AGGREGATION_ID["sum"]).sum(), N, 0.2 / 2)


def test_the_step_size_gene_scales_the_steps_and_adapts_itself():
    line = Line(still(pop_size=1000), 20, 1)
    line.genomes.step_size[:] = 3.0
    scaled = line.breed(range(1000), weight_mutate_rate=1.0, weight_mutate_power=0.1)
    step = scaled.weight[:, :20] - line.genomes.weight[:, :20]
    assert abs(step.std() - 0.3) < 4 * 0.3 / np.sqrt(2 * N) and (scaled.step_size == 3.0).all()
    adapted = np.log(line.breed(range(1000), step_size_adaptation=0.2).step_size / 3.0)
    assert abs(adapted.mean()) < 4 * 0.2 / np.sqrt(1000) and abs(adapted.std() - 0.2) < 4 * 0.2 / np.sqrt(2000)


# -- structure


def kind_of(line: Line, children: Genomes, p: int, parent: int) -> str:
    """Which one structural change made this child, or `more` where it takes several to explain it."""
    old, new = connections(line.genomes, parent), connections(children, p)
    added, lost = new.keys() - old.keys(), old.keys() - new.keys()
    born, dead = (
        set(ids(children, p)) - set(ids(line.genomes, parent)),
        set(ids(line.genomes, parent)) - set(ids(children, p)),
    )
    if not (added or lost or born or dead):
        return "none"
    if not lost and not dead and len(born) == 1 and len(added) == 2:
        return "add node"
    if not added and not born and len(dead) == 1 and all(dead & set(pair) for pair in lost):
        return "delete node"
    if not (born or dead or lost) and len(added) == 1:
        return "add connection"
    if not (born or dead or added) and len(lost) == 1:
        return "delete connection"
    return "more"


@pytest.mark.parametrize("rates", [(0.2, 0.1, 0.3, 0.15), (1.0, 0.5, 1.0, 0.5)])
def test_single_structural_mutation_is_one_change_at_most_and_at_its_rate(rates):
    line = Line(still(pop_size=4, num_hidden=4, initial_connection="full_nodirect"), 6, 2)
    children = line.breed([0] * 3000, single_structural_mutation=True, **dict(zip(STRUCTURE, rates, strict=True)))
    kinds = [kind_of(line, children, p, 0) for p in range(3000)]
    assert "more" not in kinds
    total = max(1.0, sum(rates))
    assert about(kinds.count("add node"), 3000, rates[0] / total)
    assert about(kinds.count("delete node"), 3000, rates[1] / total)
    assert about(kinds.count("delete connection"), 3000, rates[3] / total)
    assert 0 < kinds.count("add connection") <= 3000 * rates[2] / total  # it may find no free pair


def test_without_it_several_changes_may_meet_in_one_child():
    line = Line(still(pop_size=4, num_hidden=4, initial_connection="full_nodirect"), 6, 2)
    children = line.breed([0] * 200, **dict.fromkeys(STRUCTURE, 1.0))
    assert "more" in {kind_of(line, children, p, 0) for p in range(200)}


@pytest.mark.parametrize("kind", ["add node", "delete node", "delete connection"])
def test_structural_changes_happen_at_their_rates(kind):
    name = f"{kind.split()[1].replace('connection', 'conn')}_{kind.split()[0]}_prob"
    line = Line(still(pop_size=4, num_hidden=4, initial_connection="full_nodirect"), 6, 2)
    children = line.breed([0] * 3000, **{name: 0.2})
    kinds = [kind_of(line, children, p, 0) for p in range(3000)]
    assert set(kinds) == {kind, "none"} and about(kinds.count(kind), 3000, 0.2)


def test_adding_connections_reaches_every_pair_that_feed_forward_allows_and_no_other():
    line = Line(still(pop_size=4, num_hidden=1, initial_connection="unconnected"), 2, 2)
    children = line.breed([0] * 1000, conn_add_prob=1.0)
    counts: dict[tuple[int, int], int] = {}
    for p in range(1000):
        for pair in connections(children, p):
            counts[pair] = counts.get(pair, 0) + 1
    assert set(counts) == {(s, t) for s in (-1, -2, 2) for t in (0, 1, 2)} - {(2, 2)}
    assert all(about(n, 1000, 1 / 9) for n in counts.values())


def test_recurrent_genomes_may_also_read_from_outputs_and_from_themselves():
    line = Line(still(pop_size=4, num_hidden=1, initial_connection="unconnected", feed_forward=False), 2, 2)
    children = line.breed([0] * 1000, conn_add_prob=1.0)
    reached = set().union(*(connections(children, p) for p in range(1000)))
    assert reached == {(s, t) for s in (-1, -2, 0, 1, 2) for t in (0, 1, 2)}


def test_a_disabled_connection_forbids_the_cycle_that_it_may_close_later():
    line = Line(still(pop_size=4, num_hidden=2, initial_connection="unconnected"), 1, 1)
    line.genomes = line.breed([0] * 400, conn_add_prob=1.0, enabled_default="false")
    forward_edge = next(p for p in range(400) if (1, 2) in connections(line.genomes, p))
    assert connections(line.genomes, forward_edge)[1, 2][2] is False
    children = line.breed([forward_edge] * 400, conn_add_prob=1.0)
    assert not any((2, 1) in connections(children, p) for p in range(400))


def test_a_new_connection_is_enabled_and_weighted_as_the_settings_say():
    line = Line(still(pop_size=4, initial_connection="unconnected", weight_init_mean=3.0, weight_init_stdev=0.5), 5, 2)
    children = line.breed([0] * 1000, conn_add_prob=1.0, enabled_default="random")
    assert (children.n_conns == 1).all()
    assert abs(children.weight[:, 0].mean() - 3.0) < 4 * 0.5 / np.sqrt(1000)
    assert about(children.enabled[:, 0].sum(), 1000, 0.5)


def test_surer_mutation_falls_back_to_what_is_possible():
    bare = Line(still(pop_size=4, initial_connection="unconnected"), 2, 1)
    unsure = bare.breed([0] * 50, node_add_prob=1.0, structural_mutation_surer="false")
    sure = bare.breed([0] * 50, node_add_prob=1.0, structural_mutation_surer="true")
    assert not unsure.n_conns.any() and (sure.n_conns == 1).all() and (sure.n_nodes == 1).all()
    full = Line(still(pop_size=4, enabled_default="false"), 1, 1)
    unsure = full.breed([0] * 50, conn_add_prob=1.0, structural_mutation_surer="false")
    sure = full.breed([0] * 50, conn_add_prob=1.0, structural_mutation_surer="true")
    assert not unsure.enabled.any() and sure.enabled[:, 0].all() and (sure.n_conns == 1).all()


def test_surer_mutation_defaults_to_single_structural_mutation():
    bare = Line(still(pop_size=4, initial_connection="unconnected"), 2, 1)
    for single in (False, True):
        children = bare.breed([0] * 50, node_add_prob=1.0, single_structural_mutation=single)
        assert (children.n_conns == single).all()


def test_outputs_are_never_deleted_and_a_hidden_node_goes_with_its_connections():
    line = Line(still(pop_size=4, num_hidden=3), 2, 2)
    for left in (2, 1, 0, 0):
        children = line.breed([0] * 50, node_delete_prob=1.0)
        for p in range(50):
            assert ids(children, p)[:2] == [0, 1] and len(ids(children, p)) == 2 + left
            kept = set(ids(children, p))
            expected = {k: v for k, v in connections(line.genomes, 0).items() if {*k} <= kept | {-1, -2}}
            assert connections(children, p) == expected
        line.genomes = children


def test_deleting_connections_of_a_bare_genome_does_nothing():
    line = Line(still(pop_size=4, initial_connection="unconnected"), 2, 1)
    children = line.breed([0] * 20, conn_delete_prob=1.0)
    assert [genes(children, p) for p in range(20)] == [genes(line.genomes, 0)] * 20


def test_two_genomes_that_split_the_same_connection_share_the_node_and_its_connections():
    line = Line(still(pop_size=4), 1, 1)
    children = line.breed([0, 1, 2, 3], node_add_prob=1.0)
    assert {tuple(ids(children, p)) for p in range(4)} == {(0, 1)}
    structures = [{k: v[0] for k, v in connections(children, p).items()} for p in range(4)]
    assert structures == [{(-1, 0): 0, (-1, 1): 1, (1, 0): 2}] * 4
    later = line.breed([0, 1, 2, 3], node_add_prob=1.0)  # the same parents in a later generation
    assert [{k: v[0] for k, v in connections(later, p).items()} for p in range(4)] == structures


def test_splitting_a_split_connection_again_makes_one_more_node_shared_by_all_who_do():
    line = Line(still(pop_size=4), 1, 1)
    line.genomes = line.breed([0, 1, 2, 3], node_add_prob=1.0)
    children = line.breed([0, 1, 2, 3] * 30, node_add_prob=1.0)
    new = {p: (set(ids(children, p)) - {0, 1}).pop() for p in range(120)}
    split = {p: frozenset(connections(children, p).keys() - {(-1, 0), (-1, 1), (1, 0)}) for p in range(120)}
    assert len(set(new.values())) == 3  # of the old connection once more, and of the two new ones
    assert len(set(split.values())) == 3 and len({(new[p], split[p]) for p in range(120)}) == 3


def test_a_deleted_node_comes_back_under_its_old_number():
    line = Line(still(pop_size=4), 1, 1)
    first = line.genomes = line.breed([0, 1, 2, 3], node_add_prob=1.0)
    line.genomes = line.breed([0, 1, 2, 3], node_delete_prob=1.0)
    assert (line.genomes.n_nodes == 1).all()
    again = line.breed([0, 1, 2, 3], node_add_prob=1.0)
    assert all(ids(again, p) == ids(first, p) for p in range(4))
    assert np.array_equal(again.innovation[:, :3], first.innovation[:, :3])


@pytest.mark.parametrize("activation", ["identity", "clamped"])
def test_adding_a_node_keeps_the_function(activation):
    """source -1-> node -w-> target with bias 0: exact for identity, and for clamped where |source| <= 1."""
    line = Line(still(pop_size=30, activation_default=activation), 4, 2)
    children, rng = line.breed(range(30), node_add_prob=1.0), np.random.default_rng(0)
    for p in range(30):
        old, new = connections(line.genomes, p), connections(children, p)
        ((split, (_, w, _)),) = ((k, v) for k, v in old.items() if not new[k][2])
        node = ids(children, p)[-1]
        assert new[split][1] == w, "the old connection keeps its weight, disabled"
        assert new[split[0], node][1:] == (1.0, True) and new[node, split[1]][1:] == (w, True)
        assert children.bias[p, 2] == 0.0 and children.response[p, 2] == 1.0
        for observation in rng.uniform(-1, 1, (5, 4)):
            then, now = (outputs_of(g, p, 4, 2, observation) for g in (line.genomes, children))
            assert np.abs(then - now).max() < 1e-12
