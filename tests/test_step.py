"""The fused step against the slow oracle, on random networks and lives, alone and in many slots at once."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import oracle
import pytest
from conftest import BOUNDED, assert_near, examples, genomes_of, networks, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Edge, Net, Node

from neol.config.schema import field_choices
from neol.config.sections import ACTIVATIONS, AGGREGATIONS, PlasticityConfig
from neol.deploy.plastic_network import PlasticNetwork
from neol.network.actions import ARGMAX, BINARY, FREE, Component, action_map, bounded
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.network.plasticity import RULE_ID, plasticity
from neol.network.step import Slots, act, credit, decode, forward, learn, load, new_slots, step

INPUTS, OUTPUTS, STEPS = 3, 2, 10
# Outputs and weights: |kernel - oracle| <= 1e-12 max(1, |oracle|) after up to 10 steps of networks whose activities
# are bounded (see conftest.BOUNDED). Both do the same arithmetic but for the order of a few products.
TOLERANCE = 1e-12
EVERY_MODE = list(itertools.product(RULE_ID, field_choices("reward_credit"), (False, True)))

Life = tuple[list[list[float]], list[float]]  # observations, rewards


@st.composite
def lives(draw: Any, steps: int = STEPS, bound: float = 2.0) -> Life:
    count = draw(st.integers(1, steps))
    row = st.lists(numbers(bound), min_size=INPUTS, max_size=INPUTS)
    return [draw(row) for _ in range(count)], [draw(numbers(bound)) for _ in range(count)]


def mode_settings(mode: tuple[str, str, bool]) -> st.SearchStrategy[PlasticityConfig]:
    """Settings of one rule, timing, and trace or none; weights may start beyond the limit."""
    rule, timing, trace = mode
    return st.builds(
        PlasticityConfig,
        rule=st.just(rule),
        lr=st.sampled_from((0.0, 0.05, 0.25)),
        reward_scale=st.sampled_from((1.0, -0.5)),
        reward_credit=st.just(timing),
        trace_decay=st.sampled_from((0.5, 0.9, 1.0)) if trace else st.just(0.0),
        bcm_tau=st.sampled_from((0.0, 0.02, 0.5, 1.0)),
        weight_limit=st.sampled_from((0.5, 1.0, 2.0)),
        preactivation_limit=st.sampled_from((0.3, 50.0, math.inf)),
        output_transform=st.sampled_from(("tanh", "none")),
    )


def lived_alone(net: PlasticNetwork, life: Life) -> tuple[np.ndarray, dict[oracle.Pair, float]]:
    """The outputs (T, O) and final weights of a life of PlasticNetwork."""
    net.reset()
    outputs = []
    for observation, reward in zip(*life, strict=True):
        outputs.append(net.activate(observation))
        net.reward(reward)
    return np.array(outputs), net.weights


def lived_in_slots(
    ph: Phenotypes, slots: Slots, genome: list[int], episodes: list[Life], config: PlasticityConfig
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Run episode b of genome[b] in slot b, one step of every slot in turn: outputs (T, O) and weights (E,) of each."""
    plastic = plasticity(config)
    outputs: list[list[np.ndarray]] = [[] for _ in genome]
    for b, p in enumerate(genome):
        load(ph, slots, b, p)
    for t in range(max(len(rewards) for _, rewards in episodes)):
        for b, (observations, rewards) in enumerate(episodes):
            if t >= len(rewards):
                continue
            out = np.full(ph.output.shape[1], np.nan)
            last = rewards[t - 1] if t > 0 else 0.0
            step(ph, slots, b, np.array(observations[t]), last, t == 0, plastic, out)
            outputs[b].append(out)
            if t == len(rewards) - 1:
                credit(ph, slots, b, rewards[t], plastic)
    counts = [ph.edges(p).stop - ph.edges(p).start for p in genome]
    weights = [slots.weight[b, :n].copy() for b, n in enumerate(counts)]
    return [np.array(o) for o in outputs], weights


def edge_pairs(ph: Phenotypes, net: Net, p: int) -> list[oracle.Pair]:
    """(from, to) of each edge of genome p."""
    return [list(net.edges)[gene] for gene in ph.gene[ph.edges(p)]]


# -- against the oracle -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", EVERY_MODE, ids=["-".join(map(str, m)) for m in EVERY_MODE])
@settings(max_examples=examples(20))
@given(data=st.data(), net=networks(INPUTS, OUTPUTS), life=lives())
def test_plastic_network_equals_the_oracle(mode: tuple[str, str, bool], data: Any, net: Net, life: Life) -> None:
    config = data.draw(mode_settings(mode))
    # A file that is not ours would be read with neat-python's synchronous recurrence.
    document = {**oracle.document(net, "recurrent"), "plasticity": {}, "metadata": {"generator": "neol"}}
    outputs, weights = lived_alone(PlasticNetwork.from_json(document, **dataclasses.asdict(config)), life)
    expected_outputs, expected_weights = oracle.live(net, config, *life)
    assert_near(outputs, expected_outputs, TOLERANCE)
    assert weights.keys() == expected_weights.keys()
    assert_near([weights[p] for p in expected_weights], list(expected_weights.values()), TOLERANCE)


@pytest.mark.parametrize("mode", EVERY_MODE, ids=["-".join(map(str, m)) for m in EVERY_MODE])
@settings(max_examples=examples(10))
@given(data=st.data())
def test_interleaved_slots_with_different_genomes_equal_the_oracle(mode: tuple[str, str, bool], data: Any) -> None:
    config = data.draw(mode_settings(mode))
    nets = data.draw(st.lists(networks(INPUTS, OUTPUTS), min_size=2, max_size=4))
    episodes = [data.draw(lives(steps=6)) for _ in nets]
    ph = compile_phenotypes(genomes_of(nets), INPUTS, OUTPUTS)
    genome = data.draw(st.permutations(range(len(nets))))
    outputs, weights = lived_in_slots(ph, new_slots(ph, len(nets)), genome, episodes, config)
    for b, p in enumerate(genome):
        expected_outputs, expected_weights = oracle.live(nets[p], config, *episodes[b])
        assert_near(outputs[b], expected_outputs, TOLERANCE)
        pairs = edge_pairs(ph, nets[p], p)
        assert sorted(pairs) == sorted(expected_weights)
        assert_near(weights[b], [expected_weights[pair] for pair in pairs], TOLERANCE)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_every_activation_and_aggregation_one_node_deep_equals_the_oracle(activation: str, data: Any) -> None:
    net = data.draw(networks(INPUTS, OUTPUTS, False, (activation,), AGGREGATIONS, weight=5.0, hidden=0))
    net.edges = {pair: edge for pair, edge in net.edges.items() if pair[0] < 0}
    config = PlasticityConfig(rule="none", output_transform="none")
    life = data.draw(lives(steps=3))
    outputs, _ = lived_alone(PlasticNetwork.from_json(oracle.document(net), **dataclasses.asdict(config)), life)
    assert_near(outputs, oracle.live(net, config, *life)[0], TOLERANCE)


# -- by hand ------------------------------------------------------------------------------------------------------


def plain(net: Net, **changes: Any) -> PlasticNetwork:
    return PlasticNetwork.from_json(
        {**oracle.document(net, "recurrent"), "plasticity": {}, "metadata": {"generator": "neol"}}, **changes
    )


def test_a_backward_edge_carries_last_steps_value_by_hand() -> None:
    # y <- x + y(last step): a running sum, from 0 after every reset
    net = plain(Net([-1], [0], {0: Node()}, {(-1, 0): Edge(1.0), (0, 0): Edge(1.0)}))
    assert [net.activate([x])[0] for x in (1.0, 2.0, 4.0)] == [1.0, 3.0, 7.0]
    net.reset()
    assert net.activate([5.0])[0] == 5.0


def test_plasticity_of_a_backward_edge_uses_last_steps_value_as_x_by_hand() -> None:
    # hebb, m = 1: step 1: y = 1; edges carry x = 1 and 0: w = 1 + 1 * 1 = 2 and 1 + 0 = 1
    # step 2: y = 2 * 1 + 1 * 1 = 3; edges carry 1 and 1: w = 2 + 3 = 5 and 1 + 3 = 4
    net = plain(
        Net([-1], [0], {0: Node()}, {(-1, 0): Edge(1.0), (0, 0): Edge(1.0)}), rule="hebb", lr=1.0, reward_scale=1.0
    )
    for _ in range(2):
        net.activate([1.0])
        net.reward(1.0)
    assert net.weights == {(-1, 0): 5.0, (0, 0): 4.0}


def test_preactivation_is_clipped_before_the_activation_and_tanh_comes_after() -> None:
    net = Net([-1], [0], {0: Node(activation="square")}, {(-1, 0): Edge(1.0)})
    assert plain(net, preactivation_limit=3.0).activate([-100.0])[0] == 9.0
    assert plain(net, preactivation_limit=3.0, output_transform="tanh").activate([-0.5])[0] == math.tanh(0.25)
    assert plain(net, preactivation_limit=math.inf).activate([-100.0])[0] == 10000.0


def test_the_output_transform_is_not_part_of_the_activity_that_learns() -> None:
    # hebb with y = 2, not tanh(2): w = 1 + 2 * 2 = 5
    net = plain(
        Net([-1], [0], {0: Node()}, {(-1, 0): Edge(1.0)}),
        rule="hebb",
        lr=1.0,
        reward_scale=1.0,
        output_transform="tanh",
    )
    assert net.activate([2.0])[0] == math.tanh(2.0)
    net.reward(1.0)
    assert net.weights == {(-1, 0): 5.0}


def test_step_is_learn_forward_act_in_the_order_of_the_timing() -> None:
    net = Net([-1], [0], {0: Node()}, {(-1, 0): Edge(0.5)})
    ph = compile_phenotypes(genomes_of([net]), 1, 1)
    for timing, order in (("same-step", (learn, forward)), ("next-step", (forward, learn))):
        plastic = plasticity(PlasticityConfig(rule="hebb", lr=1.0, reward_scale=1.0, reward_credit=timing))
        fused, parts = new_slots(ph, 1), new_slots(ph, 1)
        for slots in (fused, parts):
            load(ph, slots, 0, 0)
            forward(ph, slots, 0, np.array([2.0]), 50.0)
        out, expected = np.zeros(1), np.zeros(1)
        step(ph, fused, 0, np.array([1.0]), 3.0, False, plastic, out)
        arguments = {learn: (3.0, plastic), forward: (np.array([1.0]), 50.0)}
        for part in order:
            part(ph, parts, 0, *arguments[part])
        act(ph, parts, 0, True, expected)
        assert out == expected
        assert all(np.array_equal(a, b) for a, b in zip(fused, parts, strict=True))


def test_decode_takes_the_first_largest_output_or_scales_each_to_its_bounds() -> None:
    action = np.zeros(1)
    decode(np.array([0.1, 0.7, 0.7]), action_map((Component(ARGMAX, 0, 3),)), action)
    assert action == 1.0
    action = np.zeros(4)
    decode(np.array([-1.0, 0.0, 9.0, -9.0]), action_map(bounded((-2.0, 0.0, -1.0, 5.0), (2.0, 1.0, 1.0, 7.0))), action)
    assert action.tolist() == [-2.0, 0.5, 1.0, 5.0]


def test_decode_mixes_kinds_each_from_its_own_outputs() -> None:
    parts = (
        Component(ARGMAX, 0, 3, low=-1.0),  # values -1, 0, 1
        Component(BINARY, 3),
        Component(BINARY, 4),
        Component(FREE, 5, 1, -np.inf, np.inf),
        Component(FREE, 6, 1, 0.0, np.inf),
        bounded((0.0,), (10.0,))[0]._replace(first=7),
    )
    action = np.zeros(len(parts))
    decode(np.array([0.0, 0.1, 0.9, 0.2, -0.2, 7.5, -3.0, 0.0]), action_map(parts), action)
    assert action.tolist() == [1.0, 1.0, 0.0, 7.5, 0.0, 5.0]


# -- slots --------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(40))
@given(data=st.data(), mode=st.sampled_from(EVERY_MODE))
def test_slots_do_not_influence_each_other(data: Any, mode: tuple[str, str, bool]) -> None:
    config = data.draw(mode_settings(mode))
    nets = data.draw(st.lists(networks(INPUTS, OUTPUTS), min_size=2, max_size=4))
    genome = data.draw(st.lists(st.integers(0, len(nets) - 1), min_size=2, max_size=5))
    episodes = [data.draw(lives(steps=5)) for _ in genome]
    ph = compile_phenotypes(genomes_of(nets), INPUTS, OUTPUTS)
    together = lived_in_slots(ph, new_slots(ph, len(genome)), genome, episodes, config)
    for b, p in enumerate(genome):
        alone = lived_in_slots(ph, new_slots(ph, 1), [p], [episodes[b]], config)
        for of_all, own in zip(together, alone, strict=True):
            assert np.array_equal(of_all[b], own[0])  # to the bit


@settings(max_examples=examples(40))
@given(data=st.data(), mode=st.sampled_from(EVERY_MODE))
def test_load_after_a_life_gives_a_fresh_start(data: Any, mode: tuple[str, str, bool]) -> None:
    config = data.draw(mode_settings(mode))
    nets = data.draw(st.lists(networks(INPUTS, OUTPUTS), min_size=2, max_size=3))
    first, second = data.draw(lives(steps=5)), data.draw(lives(steps=5))
    ph = compile_phenotypes(genomes_of(nets), INPUTS, OUTPUTS)
    used, fresh = new_slots(ph, 1), new_slots(ph, 1)
    lived_in_slots(ph, used, [1], [first], config)
    before = [a.copy() for a in ph[:-1]]
    again, expected = (lived_in_slots(ph, slots, [0], [second], config) for slots in (used, fresh))
    assert np.array_equal(again[0][0], expected[0][0]) and np.array_equal(again[1][0], expected[1][0])
    assert all(np.array_equal(a, b) for a, b in zip(ph[:-1], before, strict=True)), "a phenotype is only read"


# -- no NaN -------------------------------------------------------------------------------------------------------

HUGE = (0.0, 1.0, -1.0, 1e3, -1e10, 1e150, -1e200, 1e308, -1e308)
STEEP = ("exp", "cube", "square", "identity", "inv", "log", "selu", *BOUNDED[:2])


@settings(max_examples=examples(200))
@given(data=st.data(), net=networks(INPUTS, OUTPUTS, None, STEEP, AGGREGATIONS), mode=st.sampled_from(EVERY_MODE))
def test_huge_weights_and_steep_activations_never_make_nan(data: Any, net: Net, mode: tuple[str, str, bool]) -> None:
    huge = st.sampled_from(HUGE)
    for edge in net.edges.values():
        edge.weight = data.draw(huge)
    observations = [data.draw(st.lists(huge, min_size=INPUTS, max_size=INPUTS)) for _ in range(4)]
    rewards = [data.draw(huge) for _ in observations]
    limit = data.draw(st.sampled_from((0.5, 10.0, 1e308)))
    config = dataclasses.asdict(data.draw(mode_settings(mode))) | {"lr": 1.0, "weight_limit": limit}
    outputs, weights = lived_alone(plain(net, **config), (observations, rewards))
    assert not np.isnan(outputs).any()
    assert not np.isnan(list(weights.values())).any()
    assert mode[0] == "none" or all(abs(w) <= limit for w in weights.values())


def test_an_update_that_is_no_number_still_projects_the_weight() -> None:
    # x = 1, w = 1e150, y = w^3 = inf; r = 0: m e = 0 * inf = nan
    net = plain(
        Net([-1], [0], {0: Node(activation="cube")}, {(-1, 0): Edge(1e150)}),
        rule="hebb", lr=1.0, preactivation_limit=math.inf, weight_limit=0.5,
    )  # fmt: skip
    net.activate([1.0])
    net.reward(0.0)
    assert net.weights == {(-1, 0): 0.5}


def test_without_a_weight_limit_there_is_no_nan_either() -> None:
    # hebb, m = r: step 1: x = 1e200, y = 1e200, e = x y = inf: w = inf; step 2: y = inf, m e = -inf: w = inf - inf
    net = plain(
        Net([-1], [0], {0: Node()}, {(-1, 0): Edge(1.0)}), rule="hebb", lr=1.0, reward_scale=1.0, weight_limit=math.inf
    )
    for reward in (1.0, -1.0):
        net.activate([1e200])
        net.reward(reward)
    assert not math.isnan(net.weights[-1, 0])


@pytest.mark.parametrize("bad", (math.nan, math.inf, -math.inf))
@pytest.mark.parametrize("rule", RULE_ID)
def test_an_observation_that_is_no_number_never_makes_nan(rule: str, bad: float) -> None:
    net = plain(
        Net([-1, -2], [0], {0: Node()}, {(-1, 0): Edge(1.0), (-2, 0): Edge(1.0)}), rule=rule, lr=1.0, reward_scale=1.0
    )
    outputs = []
    for x in (1.0, bad, 1.0):
        outputs.append(net.activate([x, 0.0])[0])
        net.reward(1.0)
    assert not np.isnan(outputs).any()
    assert all(abs(w) <= 10.0 for w in net.weights.values())
