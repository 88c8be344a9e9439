"""Plasticity that is evolved: rates, generalised Hebb, gates, decay and modulatory nodes, by hand and by the oracle;
and genes that are switched off do nothing at all."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from conftest import ABCD, assert_near, examples, genomes_of, networks, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Edge, Net, Node
from test_step import Life, edge_pairs, lived_alone, lived_in_slots, lives

import neol
from neol.cli.main import main
from neol.config.schema import Config, field_choices
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.neat.genes import CONNECTION, GENES, MODULATORY, NODE, ROLES, RULE, Gene
from neol.neat.genome import Genomes, first_population, from_arrays, take, to_arrays, used_values
from neol.neat.variation import breed
from neol.network.phenotype import compile_phenotypes
from neol.network.plasticity import RULE_ID
from neol.network.step import draw_birth, load, new_slots
from neol.outer.base import Problem
from neol.outer.es_loop import EsLoop
from neol.outer.search_space import SEARCHED, search_space

INPUTS, OUTPUTS = 3, 2
GATES = field_choices("gate")
LEARNING = [r for r in RULE_ID if r != "none"]
EVERY_MODE = list(itertools.product(LEARNING, GATES, (False, True)))
SWITCHED = [g for g in GENES if g.switch]
ALL_ON = {"rule": "abcd", "evolve_rate": True, "gate": "modulator", "evolve_decay": True}

by_mode = pytest.mark.parametrize("mode", EVERY_MODE, ids=["-".join(map(str, m)) for m in EVERY_MODE])


@st.composite
def evolved_networks(draw: Any, modulatory: bool) -> Net:
    """A random network whose connections have genes of plasticity, and some of whose hidden nodes are modulatory."""
    net = draw(networks(INPUTS, OUTPUTS, weight=1.2))
    for edge in net.edges.values():
        edge.rate = draw(numbers(1.5))
        edge.abcd = tuple(draw(numbers(1.0)) for _ in range(4))
        edge.etas = (draw(st.floats(0.0, 1.0)), draw(st.floats(0.0, 1.0)))
    for i, node in net.nodes.items():
        node.role = draw(st.sampled_from(ROLES)) if modulatory and i >= OUTPUTS else "standard"
    return net


def mode_settings(mode: tuple[str, str, bool]) -> st.SearchStrategy[PlasticityConfig]:
    rule, gate, trace = mode
    return st.builds(
        PlasticityConfig,
        rule=st.just(rule),
        lr=st.sampled_from((0.05, 0.25)),
        reward_scale=st.sampled_from((1.0, -0.5)),
        reward_credit=st.sampled_from(field_choices("reward_credit")),
        trace_decay=st.sampled_from((0.5, 0.9)) if trace else st.just(0.0),
        bcm_tau=st.sampled_from((0.02, 0.5)),
        weight_limit=st.sampled_from((0.5, 1.0, 2.0)),
        output_transform=st.sampled_from(("tanh", "none")),
        evolve_rate=st.just(True),
        gate=st.just(gate),
        reward_mean_rate=st.sampled_from((0.0, 0.05, 0.5, 1.0)),
        weight_decay=st.sampled_from((0.0, 0.01, 0.5)),
        decay_to=st.sampled_from(("birth", "zero")),
    )


# -- against the oracle -------------------------------------------------------------------------------------------


@by_mode
@settings(max_examples=examples(20))
@given(data=st.data(), life=lives())
def test_a_deployed_network_equals_the_oracle(mode: tuple[str, str, bool], data: Any, life: Life) -> None:
    config, net = data.draw(mode_settings(mode)), data.draw(evolved_networks(mode[1] == "modulator"))
    document = {**oracle.document(net, "recurrent"), "plasticity": {}, "metadata": {"generator": "neol"}}
    outputs, weights = lived_alone(PlasticNetwork.from_json(document, **dataclasses.asdict(config)), life)
    expected_outputs, expected_weights = oracle.live(net, config, *life)
    assert_near(outputs, expected_outputs)
    assert weights.keys() == expected_weights.keys()
    assert_near([weights[p] for p in expected_weights], list(expected_weights.values()))


@by_mode
@settings(max_examples=examples(8))
@given(data=st.data())
def test_interleaved_slots_equal_the_oracle(mode: tuple[str, str, bool], data: Any) -> None:
    config = data.draw(mode_settings(mode))
    nets = data.draw(st.lists(evolved_networks(mode[1] == "modulator"), min_size=2, max_size=3))
    episodes = [data.draw(lives(steps=6)) for _ in nets]
    ph = compile_phenotypes(genomes_of(nets), INPUTS, OUTPUTS)
    genome = data.draw(st.permutations(range(len(nets))))
    outputs, weights = lived_in_slots(ph, new_slots(ph, len(nets)), genome, episodes, config)
    for b, p in enumerate(genome):
        expected_outputs, expected_weights = oracle.live(nets[p], config, *episodes[b])
        assert_near(outputs[b], expected_outputs)
        assert_near(weights[b], [expected_weights[pair] for pair in edge_pairs(ph, nets[p], p)])


# -- by hand ------------------------------------------------------------------------------------------------------


def one_edge(edge: Edge, **plastic: Any) -> PlasticNetwork:
    """input -1 -> output 0, identity: y = w x."""
    net = Net([-1], [0], {0: Node()}, {(-1, 0): edge})
    given_settings = {"rule": "hebb", "lr": 0.1, "reward_scale": 0.5, "weight_limit": 10.0, **plastic}
    return PlasticNetwork.from_json(oracle.document(net), **given_settings)


def lived(net: PlasticNetwork, *steps: tuple[float, float]) -> list[float]:
    weights = []
    for x, r in steps:
        net.activate([x])
        net.reward(r)
        weights.append(net.weights[-1, 0])
    return weights


def test_a_negative_rate_learns_the_other_way_by_hand() -> None:
    # x = 2, w = 0.5, y = 1; m = 0.1 * 0.5 * 4 = 0.2; e = 2; rate = -0.5: w = 0.5 - 0.2
    assert_near(lived(one_edge(Edge(0.5, rate=-0.5), evolve_rate=True), (2.0, 4.0)), [0.3], 1e-15)


def test_generalised_hebb_by_hand() -> None:
    # x = 2, w = 0.5, y = 1; m = 0.2; e = 0.5 * 2 + 0.25 * 2 - 1 * 1 + 0.125 = 0.625; w = 0.5 + 0.125
    edge = Edge(0.5, abcd=(0.5, 0.25, -1.0, 0.125))
    assert_near(lived(one_edge(edge, rule="abcd"), (2.0, 4.0)), [0.625], 1e-15)


def test_without_coefficients_generalised_hebb_is_hebb() -> None:
    steps = ((2.0, 4.0), (1.0, -2.0), (-1.0, 3.0))
    assert lived(one_edge(Edge(0.5), rule="abcd"), *steps) == lived(one_edge(Edge(0.5)), *steps)


def test_the_advantage_is_the_reward_minus_its_running_mean_by_hand() -> None:
    # kappa = 0.5. r = 4: a = 4, mean 2, m = 0.05 * 4 = 0.2; w = 0.5 + 0.2 * 2 * 1 = 0.9
    # r = 2: a = 0, mean 2: w stays. r = 1: a = -1; x = 1, y = 0.9: w = 0.9 - 0.05 * 0.9
    net = one_edge(Edge(0.5), gate="advantage", reward_mean_rate=0.5)
    assert_near(lived(net, (2.0, 4.0), (1.0, 2.0), (1.0, 1.0)), [0.9, 0.9, 0.855], 1e-15)


def test_without_a_gate_weights_change_whatever_the_reward() -> None:
    # x = 2, w = 0.5, y = 1; m = lr = 0.1: w = 0.5 + 0.2
    assert_near([lived(one_edge(Edge(0.5), gate="none"), (2.0, r))[0] for r in (0.0, 9.0)], [0.7, 0.7], 1e-15)


@pytest.mark.parametrize(("to", "expected"), [("birth", [0.9, 0.7]), ("zero", [0.65, 0.325])])
def test_weights_decay_to_birth_or_to_zero_by_hand(to: str, expected: list[float]) -> None:
    # x = 2, w = 0.5, y = 1; m e = 0.4; decay = 0.5: to birth 0.9 - 0.5 * 0, to zero 0.9 - 0.25. Then without a reward
    net = one_edge(Edge(0.5), weight_decay=0.5, decay_to=to)
    assert_near(lived(net, (2.0, 4.0), (1.0, 0.0)), expected, 1e-15)


def modulated(sent: float) -> PlasticNetwork:
    """Input -1 -> output 0, whose learning is gated by node 1, which sends 3 x (input -2)."""
    edges = {(-1, 0): Edge(0.5), (-2, 1): Edge(1.0), (1, 0): Edge(sent)}
    net = Net([-1, -2], [0], {0: Node(), 1: Node(role="modulatory")}, edges)
    return PlasticNetwork.from_json(oracle.document(net), rule="hebb", lr=0.1, gate="modulator")


def test_a_modulatory_node_gates_learning_and_passes_no_signal_by_hand() -> None:
    net = modulated(3.0)
    assert net.activate([2.0, 0.5]).tolist() == [1.0]  # 0.5 * 2, without 3 * 0.5
    net.reward(1e6)  # the reward does not matter
    # m = tanh(1.5 / 2), lr = 0.1, x y = 2
    assert_near([net.weights[-1, 0]], [0.5 + 0.2 * math.tanh(0.75)], 1e-15)
    assert net.weights[1, 0] == 3.0
    assert net.weights[-2, 1] == 1.0  # nothing modulates the modulatory node


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(numbers(3.0), numbers(5.0)), min_size=1, max_size=6))
def test_a_modulator_at_zero_stops_learning(steps: list[tuple[float, float]]) -> None:
    net = modulated(3.0)
    for x, r in steps:
        net.activate([x, 0.0])
        net.reward(r)
    assert net.weights == {(-1, 0): 0.5, (-2, 1): 1.0, (1, 0): 3.0}


def test_a_network_without_modulatory_nodes_learns_nothing_where_they_are_the_gate() -> None:
    assert lived(one_edge(Edge(0.5), gate="modulator"), (2.0, 4.0), (1.0, 1.0)) == [0.5, 0.5]


def test_edges_from_modulatory_nodes_come_last_and_outputs_are_never_modulatory() -> None:
    edges = {(2, 0): Edge(1.0), (-1, 0): Edge(2.0), (0, 1): Edge(3.0), (-1, 2): Edge(4.0), (-2, 0): Edge(5.0)}
    net = Net([-1, -2, -3], [0, 1], {0: Node(role="modulatory"), 1: Node(), 2: Node(role="modulatory")}, edges)
    ph = compile_phenotypes(genomes_of([net]), INPUTS, OUTPUTS)
    of_output = ph.node_id.tolist().index(0)
    first = ph.edge_start[of_output]
    assert ph.weight[first : first + 3].tolist() == [2.0, 5.0, 1.0]
    assert dict(zip(ph.node_id.tolist(), ph.standard.tolist(), strict=True)) == {0: 2, 1: 1, 2: 1}
    assert dict(zip(ph.node_id.tolist(), ph.role.tolist(), strict=True)) == {0: 0, 1: 0, 2: 1}


# -- genes --------------------------------------------------------------------------------------------------------


def evolved(config: Config, generations: int = 4) -> Genomes:
    how = config.replace(pop_size=12, node_add_prob=0.6, conn_add_prob=0.5, num_hidden=2).evolution
    genomes, innovations = first_population(how, INPUTS, OUTPUTS, 3)
    for generation in range(generations):
        first = np.arange(12, dtype=np.int32)
        who = (first, np.roll(first, 1), np.zeros(12, bool))
        genomes, innovations = breed(how, genomes, *who, innovations, INPUTS, OUTPUTS, 3, generation)
    return genomes


def where_it_is_on(gene: Gene) -> Config:
    """Settings that switch a gene on."""
    of = {NODE: "node", RULE: "shared"}.get(gene.of if gene.searchable else "", "connection")
    rule = "adaptive" if gene.switch.endswith("adaptive") else "abcd"
    own = {"rule": rule, "coefficients_of": "shared" if gene.name == "pointer" else of}
    return Config().replace(**{**ALL_ON, **own})


# Different values that a gene has at least, where it is on: there are few genomes, rules and nodes.
FEW = {"role": 2, "decay": 5, "pointer": 4}


@pytest.mark.parametrize("gene", SWITCHED, ids=[g.name for g in SWITCHED])
def test_a_gene_that_is_off_has_its_default_everywhere_and_changes_no_other(gene: Gene) -> None:
    off, on = evolved(Config()), evolved(where_it_is_on(gene))
    assert (used_values(off, gene) == gene.default).all()
    assert len(np.unique(used_values(on, gene))) >= FEW.get(gene.name, 100 if gene.of == CONNECTION else 20)
    assert f"g.{gene.name}" not in to_arrays(off, "g")
    for genomes in (off, on):
        again = from_arrays(to_arrays(genomes, "g"), "g")
        assert all(np.array_equal(a, b) for a, b in zip(again, genomes, strict=True))
    some = evolved(where_it_is_on(gene).replace(gate="reward"))  # a modulatory node leaves a connection enabled
    new = {g.name for g in SWITCHED}
    assert all(np.array_equal(getattr(some, n), getattr(off, n)) for n in Genomes._fields if n not in new)


def test_plasticity_without_a_rule_or_rate_has_no_genes() -> None:
    assert Config().evolution.evolved == ()
    assert Config().replace(**ALL_ON).evolution.evolved == ("rate", "abcd", "modulator", "decay")
    assert Config().replace(**ALL_ON, lr=0.0).evolution.evolved == ()
    assert Config().replace(**{**ALL_ON, "rule": "none"}).evolution.evolved == ()


def test_a_connection_that_a_modulatory_node_is_put_on_stays() -> None:
    config = Config().replace(**ALL_ON, pop_size=40, node_add_prob=1.0, conn_add_prob=0.0, conn_delete_prob=0.0,
                              node_delete_prob=0.0, enabled_mutate_rate=0.0).evolution  # fmt: skip
    parents, innovations = first_population(config, INPUTS, OUTPUTS, 1)
    own = np.arange(40, dtype=np.int32)
    grown, _ = breed(config, parents, own, own, np.zeros(40, bool), innovations, INPUTS, OUTPUTS, 1, 0)
    # mutation of the role itself, after the node was made, is rare
    kept = [grown.enabled[p, : grown.n_conns[p]].all() == (grown.role[p, OUTPUTS] == MODULATORY) for p in range(40)]
    assert np.mean(kept) > 0.9
    assert 8 < np.sum(grown.role[:, OUTPUTS] == MODULATORY) < 32


@pytest.mark.parametrize(
    ("plastic", "names"),
    [
        ({}, set()), ({"evolve_rate": True}, {"rate"}), ({"rule": "abcd"}, set(ABCD)),
        ({"rule": "adaptive"}, {"eta1", "eta2"}),
        (ALL_ON, {"rate", "decay", *ABCD}),
    ],
)  # fmt: skip
def test_strategies_search_the_genes_that_are_on_and_begin_without_plasticity(plastic: Any, names: set[str]) -> None:
    config = Config().replace(**plastic, outer="es", num_hidden=2)
    genome = take(first_population(config.evolution, INPUTS, OUTPUTS, 0)[0], [0])
    space = search_space(genome, config.evolution, INPUTS, OUTPUTS)
    assert {SEARCHED[i].name for i in space.gene} == {"weight", "bias"} | names
    for topology in ("full", "4"):
        loop = EsLoop(Problem(INPUTS, OUTPUTS, 0, config.replace(topology=topology), (0.0, 1.0), False))
        found = dict.fromkeys(names - {"decay"}, 0.0) | ({"rate": 1.0} if plastic is ALL_ON else {})
        for name, value in found.items():
            mine = [SEARCHED[i].name == name for i in loop.kinds[0].space.gene]
            assert (loop.kinds[0].strategy.mean[mine] == value).all()
            assert len(np.unique(used_values(loop.ask(), next(g for g in GENES if g.name == name)))) > 10


# -- weights at birth ---------------------------------------------------------------------------------------------

_64 = 2**64 - 1


def _mixed(z: int) -> int:
    """SplitMix64's finaliser."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _64
    return z ^ z >> 31


@settings(max_examples=examples(20))
@given(net=evolved_networks(True), name=st.integers(0, _64), spread=st.sampled_from((0.1, 3.0)))
def test_weights_at_birth_are_drawn_by_the_lifes_name(net: Net, name: int, spread: float) -> None:
    ph = compile_phenotypes(genomes_of([net]), INPUTS, OUTPUTS)
    slots = new_slots(ph, 1)
    load(ph, slots, 0, 0)
    draw_birth(ph, slots, 0, np.uint64(name), spread)
    expected = []
    for e, (a, b) in enumerate(edge_pairs(ph, net, 0)):
        u = (_mixed(_mixed(name ^ 0xD6E8FEB86659FD93) + e * 0x9E3779B97F4A7C15 & _64) >> 11) / 2**53
        sends = a >= OUTPUTS and net.nodes[a].role == "modulatory"
        expected.append(net.edges[a, b].weight if sends else spread * (2.0 * u - 1.0))
    assert slots.weight[0].tolist() == slots.birth[0].tolist() == expected


def test_every_life_of_a_deployed_network_is_born_with_other_weights_and_every_process_has_the_same() -> None:
    one, two = (one_edge(Edge(0.5), birth="drawn") for _ in range(2))
    births = []
    for _ in range(5):
        births.append(one.weights[-1, 0])
        assert two.weights == one.weights
        one.reset()
        two.reset()
    assert len(set(births)) == 5 and all(abs(w) < 0.1 for w in births)


def test_weights_are_neither_searched_nor_inherited_where_they_are_drawn() -> None:
    config = Config().replace(rule="abcd", birth="drawn", outer="es")
    genome = take(first_population(config.evolution, INPUTS, OUTPUTS, 0)[0], [0])
    searched = {SEARCHED[i].name for i in search_space(genome, config.evolution, INPUTS, OUTPUTS).gene}
    assert searched == {"bias", *ABCD}
    # connections from modulatory nodes keep theirs
    assert Config().replace(**ALL_ON, birth="drawn").evolution.idle == ()


@pytest.mark.parametrize("engine", ["envpool", "gymnasium"])
def test_runs_with_weights_drawn_at_birth_have_the_same_bits_in_any_windows_and_workers(
    engine: str, tmp_path: Path
) -> None:
    plastic = {"rule": "abcd", "gate": "advantage", "birth": "drawn", "engine": engine}
    how = ({"window": 3}, {"window": 7, "threads": 2}) if engine == "envpool" else ({"workers": 1}, {"workers": 2})
    texts = []
    for i, own in enumerate(how):
        out = tmp_path / str(i)
        neol.train("cartpole", out=out, **plastic, **own, **SMALL, progress=False)
        texts.append((out / "champion.json").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert '"birth": "drawn"' in texts[0]


# -- files and runs -----------------------------------------------------------------------------------------------

SMALL = {
    "pop_size": 8, "elitism": 1, "generations": 3, "max_steps": 40, "champion_candidates": 2, "champion_trials": 2,
    "champion_episodes": 3, "num_hidden": 2,
}  # fmt: skip


@pytest.mark.parametrize("outer", ["neat", "es", "neat-es"])
def test_a_champion_has_its_genes_and_learns_as_it_did(outer: str, tmp_path: Path) -> None:
    neol.train(
        "cartpole",
        out=tmp_path / "r",
        outer=outer,
        **ALL_ON,
        **SMALL,
        inheritance="darwinian",
        normalize_observations=False,
        progress=False,
    )
    document = json.loads((tmp_path / "r" / "champion.json").read_text(encoding="utf-8"))
    assert all({"rate", "A", "B", "C", "D"} <= c.keys() for c in document["connections"])
    assert {n.get("role", "standard") for n in document["nodes"]} <= set(ROLES)
    assert document["plasticity"]["gate"] == "modulator" and "evolve_decay" not in document["plasticity"]
    net, again = PlasticNetwork.from_json(tmp_path / "r" / "champion.json"), oracle.from_document(document)
    life: Life = ([[0.1, -0.2, 0.3, 0.4]] * 5, [1.0] * 5)
    outputs, weights = lived_alone(net, life)
    expected_outputs, expected_weights = oracle.live(again, net.settings, *life)
    assert_near(outputs, expected_outputs)
    assert_near([weights[p] for p in expected_weights], list(expected_weights.values()))
    assert PlasticNetwork.from_json(net.to_json()).to_json() == net.to_json()


def test_a_champion_of_the_papers_method_has_none_of_it(tmp_path: Path) -> None:
    neol.train("cartpole", out=tmp_path / "r", **SMALL, progress=False)
    document = json.loads((tmp_path / "r" / "champion.json").read_text(encoding="utf-8"))
    assert list(document["plasticity"])[-1] == "inheritance"
    assert all(c.keys() == {"from", "to", "weight", "enabled"} for c in document["connections"])
    assert not any("role" in n for n in document["nodes"])


def test_what_cannot_be_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net(
        [-1], [0], {0: Node(), 1: Node(role="modulatory")}, {(-1, 0): Edge(1.0), (-1, 1): Edge(1.0), (1, 0): Edge(1.0)}
    )
    document = oracle.document(net)
    with pytest.raises(NeolError, match="gate = 'reward' is not allowed; the network has modulatory nodes, so it must"):
        PlasticNetwork.from_json(document, rule="hebb")
    PlasticNetwork.from_json(document, rule="none")
    net.nodes[0].role = "modulatory"
    with pytest.raises(NeolError, match="has role 'modulatory' at node 0; an output must be standard"):
        network_json.parse(oracle.document(net))
    net.nodes[0].role = "loud"
    with pytest.raises(NeolError, match="has role 'loud' at node 0"):
        network_json.parse(oracle.document(net))
    assert main(["train", "cartpole", "--gate", "dopamine", "--out", str(tmp_path / "r")]) == 2
    assert "gate = 'dopamine' is not allowed" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_run_cannot_start_from_modulatory_nodes_without_modulation(tmp_path: Path) -> None:
    inputs = [-1, -2, -3, -4]
    edges = {(-1, 0): Edge(1.0), (-1, 2): Edge(1.0), (2, 1): Edge(1.0)}
    net = Net(inputs, [0, 1], {0: Node(), 1: Node(), 2: Node(role="modulatory")}, edges)
    (tmp_path / "net.json").write_text(json.dumps(oracle.document(net)), encoding="utf-8")
    with pytest.raises(NeolError, match="has modulatory nodes, so it must be modulator"):
        neol.train("cartpole", out=tmp_path / "r", start=tmp_path / "net.json", rule="hebb", **SMALL, progress=False)
