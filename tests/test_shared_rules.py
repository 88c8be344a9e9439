"""Whose numbers a connection learns by: its own, its target's or a shared rule's; and Stanley's adaptive synapses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from conftest import assert_near, examples, genomes_of, networks, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Edge, Net, Node, Numbers
from test_evolved_plasticity import SMALL, lived, one_edge
from test_step import Life, edge_pairs, lived_alone, lived_in_slots, lives

import neol
from neol.cli.main import main
from neol.config.schema import Config
from neol.config.sections import MOST_RULES, PlasticityConfig
from neol.deploy import network_json
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.neat.genes import COEFFICIENTS, FIRST_RULE, OWN, TARGET
from neol.neat.genome import Genomes, first_population, from_arrays, take, to_arrays
from neol.neat.pointers import adopted, strangers
from neol.neat.variation import breed
from neol.network.phenotype import compile_phenotypes
from neol.network.step import new_slots
from neol.outer.base import Problem
from neol.outer.es_loop import EsLoop
from neol.outer.growth import CONNECT, SPLIT, UNIT, grown
from neol.outer.search_space import SEARCHED, search_space
from neol.outer.topology import starting_topology

INPUTS, OUTPUTS = 3, 2
RULES_OF = ("abcd", "adaptive")
OWNERS = ("connection", "node", "shared")

by_rule = pytest.mark.parametrize("rule", RULES_OF)
by_owner = pytest.mark.parametrize("of", OWNERS[1:])


@st.composite
def some_numbers(draw: Any) -> Numbers:
    abcd = tuple(draw(numbers(1.0)) for _ in range(4))
    return Numbers(draw(numbers(1.5)), abcd, (draw(st.floats(0.0, 1.0)), draw(st.floats(0.0, 1.0))))


@st.composite
def pointing_networks(draw: Any) -> Net:
    """A random network of whose connections some learn by themselves, some by their target, some by a rule."""
    net = draw(networks(INPUTS, OUTPUTS, weight=1.2))
    net.rules = draw(st.lists(some_numbers(), max_size=MOST_RULES))
    for node in net.nodes.values():
        node.numbers = draw(some_numbers())
    for edge in net.edges.values():
        own = draw(some_numbers())
        edge.rate, edge.abcd, edge.etas = own.rate, own.abcd, own.etas
        edge.rule = draw(st.sampled_from(["own", "node", *(str(1 + k) for k in range(len(net.rules)))]))
    return net


def learning(rule: str) -> st.SearchStrategy[PlasticityConfig]:
    return st.builds(
        PlasticityConfig,
        rule=st.just(rule),
        lr=st.sampled_from((0.05, 0.25)),
        reward_scale=st.just(0.5),
        trace_decay=st.sampled_from((0.0, 0.9)),
        weight_limit=st.sampled_from((0.5, 1.0, 2.0)),
        evolve_rate=st.booleans(),
        gate=st.sampled_from(("reward", "advantage", "none")),
        weight_decay=st.sampled_from((0.0, 0.1)),
    )


# -- against the oracle -------------------------------------------------------------------------------------------


@by_rule
@settings(max_examples=examples(40))
@given(data=st.data(), life=lives())
def test_a_deployed_network_learns_by_what_its_connections_point_to(rule: str, data: Any, life: Life) -> None:
    config, net = data.draw(learning(rule)), data.draw(pointing_networks())
    document = {**oracle.document(net, "recurrent"), "plasticity": {}, "metadata": {"generator": "neol"}}
    outputs, weights = lived_alone(PlasticNetwork.from_json(document, **dataclasses.asdict(config)), life)
    expected_outputs, expected_weights = oracle.live(net, config, *life)
    assert_near(outputs, expected_outputs)
    assert_near([weights[p] for p in expected_weights], list(expected_weights.values()))
    assert oracle.live(oracle.from_document(document), config, *life)[1] == expected_weights


@by_rule
@settings(max_examples=examples(15))
@given(data=st.data())
def test_slots_learn_by_what_connections_point_to(rule: str, data: Any) -> None:
    config = data.draw(learning(rule))
    nets = data.draw(st.lists(pointing_networks(), min_size=2, max_size=3))
    episodes = [data.draw(lives(steps=6)) for _ in nets]
    ph = compile_phenotypes(genomes_of(nets), INPUTS, OUTPUTS)
    outputs, weights = lived_in_slots(ph, new_slots(ph, len(nets)), list(range(len(nets))), episodes, config)
    for p, net in enumerate(nets):
        expected_outputs, expected_weights = oracle.live(net, config, *episodes[p])
        assert_near(outputs[p], expected_outputs)
        assert_near(weights[p], [expected_weights[pair] for pair in edge_pairs(ph, net, p)])


# -- by hand ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("w", "x", "expected"),
    [
        # W = 10, eta1 = 0.5, eta2 = 0.25, m = 0.1 * 0.5 * 4 = 0.2.
        # w = 0.5, x = 1, y = 0.5: e = 0.5 * 9.5 * 0.5 + 0.25 * 10 * -0.5 = 2.375 - 1.25 = 1.125
        (0.5, 1.0, 0.5 + 0.2 * 1.125),
        # w = -0.5, x = -1, y = 0.5: e = -(0.5 * 9.5 * -1 * 0.5 - 0.25 * 10 * -1 * 0.5) = 2.375 - 1.25 = 1.125
        (-0.5, -1.0, -0.5 + 0.2 * 1.125),
        # w = -0.5, x = 1, y = -0.5: e = -(0.5 * 9.5 * 1.5 - 0.25 * 10 * -0.5) = -(7.125 + 1.25) = -8.375
        (-0.5, 1.0, -0.5 - 0.2 * 8.375),
        (0.0, 1.0, -0.2 * 2.5),  # excitatory, y = 0: e = -0.25 * 10
    ],
)
def test_adaptive_synapses_by_hand(w: float, x: float, expected: float) -> None:
    net = one_edge(Edge(w, etas=(0.5, 0.25)), rule="adaptive", weight_limit=10.0)
    assert_near(lived(net, (x, 4.0)), [expected], 1e-15)


def test_adaptive_synapses_strengthen_together_and_fade_apart() -> None:
    """What the paper says of them, with activities in 0 .. 1: excitatory ones grow where both are active and fade where
    the source alone is; inhibitory ones the other way round; nothing happens where the source is silent."""

    def moved(w: float, x: float, y: float) -> float:
        return oracle.adaptive_synapse(Numbers(), x, y, w, 5.0)

    assert moved(1.0, 1.0, 1.0) > 0.0 > moved(1.0, 1.0, 0.0)
    assert abs(-1.0 + 0.1 * moved(-1.0, 1.0, 0.0)) > 1.0 > abs(-1.0 + 0.1 * moved(-1.0, 1.0, 1.0))
    assert moved(1.0, 0.0, 1.0) == moved(-1.0, 0.0, 1.0) == 0.0
    assert moved(5.0, 1.0, 1.0) == 0.0  # W is the largest


def test_connections_into_a_node_or_of_one_rule_learn_alike_by_hand() -> None:
    # y = 0.5 x; m = 0.2, x = 2, y = 1. Rule 2 has B = 0.5: e = 1; the node has A = -1: e = -2
    rules = [Numbers(), Numbers(abcd=(0.0, 0.5, 0.0, 0.0))]
    shared = Net([-1], [0], {0: Node()}, {(-1, 0): Edge(0.5, rule="2")}, rules)
    node = Net([-1], [0], {0: Node(numbers=Numbers(abcd=(-1.0, 0.0, 0.0, 0.0)))}, {(-1, 0): Edge(0.5, rule="node")})
    how = {"rule": "abcd", "lr": 0.1, "reward_scale": 0.5}
    found = [lived(PlasticNetwork.from_json(oracle.document(n), **how), (2.0, 4.0)) for n in (shared, node)]
    assert_near(found, [[0.7], [0.1]], 1e-15)


# -- genes --------------------------------------------------------------------------------------------------------


def bred(of: str, rule: str = "abcd", **settings: Any) -> tuple[Genomes, Config]:
    config = Config().replace(
        rule=rule, coefficients_of=of, evolve_rate=True, pop_size=10, num_hidden=2, node_add_prob=0.5, **settings
    )
    how, who = config.evolution, np.arange(10, dtype=np.int32)
    genomes, innovations = first_population(how, INPUTS, OUTPUTS, 5)
    for generation in range(4):
        parents = (who, np.roll(who, 1), np.zeros(10, bool))
        genomes, innovations = breed(how, genomes, *parents, innovations, INPUTS, OUTPUTS, 5, generation)
    return genomes, config


@by_rule
@by_owner
def test_evolved_connections_have_the_numbers_of_what_they_point_to(of: str, rule: str) -> None:
    genomes, config = bred(of, rule)
    ph = compile_phenotypes(genomes, INPUTS, OUTPUTS)
    pointers = set()
    for p in range(ph.size):
        for k in range(ph.node_start[p], ph.node_start[p + 1]):
            node = np.searchsorted(genomes.node_id[p, : genomes.n_nodes[p]], ph.node_id[k])
            for e in range(ph.edge_start[k], ph.edge_start[k + 1]):
                pointer = genomes.pointer[p, ph.gene[e]]
                pointers.add(int(pointer))
                prefix, place = ("node_", node) if of == "node" else ("rule_", pointer - FIRST_RULE)
                for name in COEFFICIENTS:
                    assert getattr(ph, name)[e] == getattr(genomes, prefix + name)[p, place]
    assert pointers == ({TARGET} if of == "node" else set(range(FIRST_RULE, FIRST_RULE + 4)))
    assert {f"{of}-rate", f"{of}-{rule}", "pointer"} == set(config.evolution.evolved)


@pytest.mark.parametrize("of", OWNERS)
def test_a_population_goes_through_a_checkpoint_unchanged(of: str) -> None:
    genomes, _ = bred(of, "adaptive")
    arrays = to_arrays(genomes, "g")
    again = from_arrays(arrays, "g")
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(again, genomes, strict=True))
    assert ("g.pointer" in arrays) == (of != "connection") and ("g.rule_eta1" in arrays) == (of == "shared")


def test_rules_are_the_same_whatever_their_number_and_pointers_are_among_them() -> None:
    few, many = (bred("shared", shared_rules=k)[0] for k in (1, 8))
    assert np.array_equal(few.rule_correlation, many.rule_correlation)
    assert (few.pointer[few.pointer != OWN] == FIRST_RULE).all()
    assert set(many.pointer[many.pointer != OWN]) == set(range(FIRST_RULE, FIRST_RULE + 8))


@by_owner
def test_strategies_search_the_numbers_of_nodes_or_rules_and_leave_pointers_alone(of: str) -> None:
    config = Config().replace(rule="abcd", coefficients_of=of, outer="es", num_hidden=2)
    prefix = {"node": "node_", "shared": "rule_"}[of]
    for topology in ("full", "4"):
        problem = Problem(INPUTS, OUTPUTS, 0, config.replace(topology=topology), (0.0, 1.0), False)
        loop = EsLoop(problem)
        space, mean = loop.kinds[0].space, loop.kinds[0].strategy.mean
        found = {name: np.array([SEARCHED[i].name == name for i in space.gene]) for name in
                 ("weight", "bias", *(prefix + n for n in COEFFICIENTS[1:5]))}  # fmt: skip
        assert sum(mine.sum() for mine in found.values()) == space.size
        assert all((mean[mine] == 0.0).all() for name, mine in found.items() if name.startswith(prefix))
        count = 4 if of == "shared" else found["bias"].sum()
        assert all(mine.sum() == count for name, mine in found.items() if name.startswith(prefix))
        genomes = loop.ask()
        used = genomes.pointer[:, : genomes.n_conns[0]]
        assert (used == used[0]).all() and len(np.unique(used)) == (4 if of == "shared" else 1)


def test_another_seed_draws_other_pointers() -> None:
    config = Config().replace(rule="abcd", coefficients_of="shared", outer="es", topology="4")
    one, two = (
        starting_topology(Problem(INPUTS, OUTPUTS, seed, config, (0.0, 1.0), False))[0].pointer for seed in (0, 1)
    )
    assert not np.array_equal(one, two)


@by_owner
def test_what_grows_points_to_what_there_is(of: str) -> None:
    config = Config().replace(rule="abcd", coefficients_of=of, evolve_rate=True, outer="neat-es").evolution
    genomes, innovations = first_population(dataclasses.replace(config, num_hidden=1), INPUTS, OUTPUTS, 0)
    genome, rng = take(genomes, [0]), np.array([7], np.uint64)
    for kind in (CONNECT, SPLIT, UNIT, UNIT):
        genome, innovations = grown(genome, kind, innovations, config, INPUTS, OUTPUTS, rng) or (genome, innovations)
    pointers = genome.pointer[0, : genome.n_conns[0]]
    assert set(pointers) == ({TARGET} if of == "node" else set(range(FIRST_RULE, FIRST_RULE + 4)))
    assert search_space(genome, config, INPUTS, OUTPUTS).size > 0
    new = genome.node_id[0, : genome.n_nodes[0]] > OUTPUTS
    if of == "node":  # what leads to a new node does not learn before the search makes it
        assert (genome.node_correlation[0, : len(new)][new] == 0.0).all()
        assert (genome.node_rate[0, : len(new)][new] == 1.0).all()


# -- files and runs -----------------------------------------------------------------------------------------------


def document_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "champion.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("outer", ["neat", "es", "neat-es"])
@pytest.mark.parametrize(("of", "rule"), [("node", "abcd"), ("shared", "abcd"), ("shared", "adaptive")])
def test_a_champion_is_read_back_to_the_same_bits(outer: str, of: str, rule: str, tmp_path: Path) -> None:
    how = {"rule": rule, "coefficients_of": of, "evolve_rate": True, "inheritance": "darwinian", "outer": outer,
           "normalize_observations": False}  # fmt: skip
    neol.train("cartpole", out=tmp_path / "r", **how, **SMALL, progress=False)
    document = document_of(tmp_path / "r")
    assert document["plasticity"]["coefficients_of"] == of
    assert len(document.get("rules", [])) == (4 if of == "shared" else 0)
    keys = {"rate", "A", "B", "C", "D"} if rule == "abcd" else {"rate", "eta1", "eta2"}
    have = document["rules"] if of == "shared" else [n for n in document["nodes"] if n["type"] != "input"]
    assert all(keys <= h.keys() for h in have)
    assert all(c.keys() == {"from", "to", "weight", "enabled", "rule"} for c in document["connections"])
    net, again = PlasticNetwork.from_json(tmp_path / "r" / "champion.json"), oracle.from_document(document)
    life: Life = ([[0.1, -0.2, 0.3, 0.4]] * 5, [1.0, -1.0, 0.5, 0.0, 2.0])
    outputs, weights = lived_alone(net, life)
    expected_outputs, expected_weights = oracle.live(again, net.settings, *life)
    assert_near(outputs, expected_outputs)
    assert_near([weights[p] for p in expected_weights], list(expected_weights.values()))
    assert PlasticNetwork.from_json(net.to_json()).to_json() == net.to_json()


@by_owner
def test_a_run_resumes_to_the_same_bytes(of: str, tmp_path: Path) -> None:
    how = {"rule": "abcd", "coefficients_of": of, **SMALL, "progress": False}
    neol.train("cartpole", out=tmp_path / "whole", **how)
    neol.train("cartpole", out=tmp_path / "parts", **how, callback=lambda done: done.row["generation"] >= 1)
    neol.train("cartpole", out=tmp_path / "parts", **how, resume=True)
    assert document_of(tmp_path / "whole") == document_of(tmp_path / "parts")


@pytest.fixture(scope="module")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shared") / "r"
    neol.train("cartpole", out=out, rule="abcd", coefficients_of="shared", shared_rules=3, **SMALL, progress=False)
    return out


def test_a_champion_is_gone_on_from(shared_run: Path, tmp_path: Path) -> None:
    start = network_json.parse(shared_run / "champion.json").genome
    same = Config().replace(rule="abcd", coefficients_of="shared", shared_rules=3).evolution
    assert adopted(start, same, 0) is start
    one = neol.train(
        "cartpole", out=tmp_path / "a", start=shared_run, rule="abcd", coefficients_of="shared", shared_rules=3,
        **SMALL, progress=False,
    )  # fmt: skip
    assert len(document_of(one.path)["rules"]) == 3
    refined = neol.refine(shared_run, out=tmp_path / "b", max_env_steps=500, progress=False)
    ours, theirs = ({(c["from"], c["to"]): c["rule"] for c in document_of(r)["connections"]} for r in
                    (shared_run, refined.path))  # fmt: skip
    assert ours == theirs


def test_what_connections_point_to_can_become_their_own(shared_run: Path) -> None:
    start = network_json.parse(shared_run / "champion.json").genome
    own = adopted(start, Config().replace(rule="abcd").evolution, 0)
    assert (own.pointer == OWN).all()
    before, after = (compile_phenotypes(g, 4, 2) for g in (start, own))
    assert all(np.array_equal(getattr(before, n), getattr(after, n)) for n in (*COEFFICIENTS, "weight", "source"))


def test_a_network_of_another_rule_gets_pointers_and_still_is_hebbs(tmp_path: Path) -> None:
    net = Net([-1, -2], [0], {0: Node()}, {(-1, 0): Edge(0.5), (-2, 0): Edge(0.25)})
    start = network_json.parse(oracle.document(net)).genome
    for of in OWNERS[1:]:
        config = Config().replace(rule="abcd", coefficients_of=of).evolution
        assert not len(strangers(start, config))
        found = adopted(start, config, 3)
        assert not (found.pointer[0, :2] == OWN).any()
        ph = compile_phenotypes(found, 2, 1)
        assert ph.correlation.tolist() == [1.0, 1.0] and ph.presynaptic.tolist() == [0.0, 0.0]


# -- what cannot be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"coefficients_of": "node"},
            "coefficients_of = 'node' is not allowed with rule = 'hebb', which has no numbers that evolve; it must be "
            "abcd or adaptive, or evolve_rate must be true.",
        ),
        (
            {"rule": "abcd", "shared_rules": 2},
            "shared_rules = 2 is not allowed with coefficients_of = 'connection'; it must be shared.",
        ),
        (
            {"rule": "abcd", "coefficients_of": "shared", "shared_rules": 0},
            "shared_rules = 0 is not allowed; it must be at least 1 and at most 8.",
        ),
        (
            {"rule": "adaptive", "weight_limit": float("inf")},
            "weight_limit = inf is not allowed with rule = 'adaptive', whose W it is; it must be finite.",
        ),
        (
            {"rule": "abcd", "coefficients_of": "node", "encoding": "hyperneat", "inheritance": "darwinian"},
            "coefficients_of = 'node' is not allowed with encoding = 'hyperneat': a CPPN paints connections; it must "
            "be connection.",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(said: dict[str, Any], words: str) -> None:
    with pytest.raises(NeolError) as fault:
        Config().replace(**said)
    assert str(fault.value) == words


def test_settings_that_say_nothing_new_are_allowed() -> None:
    for said in ({"rule": "none"}, {"rule": "hebb", "evolve_rate": True}, {"rule": "abcd", "lr": 0.0}):
        Config().replace(**said, coefficients_of="shared", shared_rules=1)
    assert Config().replace(rule="none", coefficients_of="node").evolution.evolved == ()


def test_the_command_line_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "cartpole", "--rule", "abcd", "--coefficients-of", "everyone", "--out", str(tmp_path / "r")]
    assert main(words) == 2
    assert "coefficients_of = 'everyone' is not allowed" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rules": [{}]}, "network has rule '2' at -1 -> 0, but only 1 rules."),
        ({"rules": 3}, "network has rules that are not a list of at most 8 JSON objects."),
        ({"rules": [{}] * 9}, "network has rules that are not a list of at most 8 JSON objects."),
        ({"rules": [{}, {"A": "x"}]}, "network has A of rule 2 = 'x'; it must be a finite number."),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_a_sentence(change: dict[str, Any], words: str) -> None:
    net = Net([-1], [0], {0: Node()}, {(-1, 0): Edge(0.5, rule="2")}, [Numbers(), Numbers()])
    with pytest.raises(NeolError) as fault:
        network_json.parse({**oracle.document(net), **change})
    assert str(fault.value) == words


def test_a_file_without_a_limit_cannot_have_adaptive_synapses() -> None:
    net = Net([-1], [0], {0: Node()}, {(-1, 0): Edge(0.5)})
    with pytest.raises(NeolError, match="weight_limit = inf is not allowed with rule = 'adaptive'"):
        PlasticNetwork.from_json(oracle.document(net), rule="adaptive", weight_limit=None)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"coefficients_of": "node"}, "learn by other numbers, so it must be shared or connection."),
        ({"coefficients_of": "shared", "shared_rules": 1}, "shared_rules = 1 is not allowed; the network of"),
    ],
)
def test_a_run_does_not_start_from_what_it_does_not_evolve(
    said: dict[str, Any], words: str, shared_run: Path, tmp_path: Path
) -> None:
    with pytest.raises(NeolError, match=words):
        neol.train("cartpole", out=tmp_path / "r", start=shared_run, rule="abcd", **said, **SMALL, progress=False)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rule": "adaptive"}, "rule = 'adaptive' is not allowed with outer = 'gradient'"),
        (
            {"rule": "abcd", "coefficients_of": "node"},
            "coefficients_of = 'node' is not allowed with outer = 'gradient'",
        ),
    ],
)
def test_gradients_refuse_them(said: dict[str, Any], words: str) -> None:
    from neol.gradients.plastic_loop import check_settings

    with pytest.raises(NeolError, match=words):
        check_settings(Config().replace(**said, outer="gradient", inheritance="darwinian"))
