"""Every rule against its equation: by hand, against the oracle, and what must hold for all of them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import oracle
import pytest
from conftest import assert_near, examples, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Edge, Net, Node

from neol.config.schema import field_choices
from neol.config.sections import PlasticityConfig
from neol.deploy.plastic_network import PlasticNetwork
from neol.network.plasticity import ALIASES, LOCAL, NONE, RULE_ID, RULES, local_trace, plasticity

ADD_ORACLE = "add '{0}' to RULES in tests/oracle.py: (x, y, w, theta, z, decay) -> e, from its equation, not its code"
TIMINGS = field_choices("reward_credit")

by_rule = pytest.mark.parametrize("rule", RULE_ID)
by_local_rule = pytest.mark.parametrize("rule", [r.__name__ for r in LOCAL])
by_timing = pytest.mark.parametrize("timing", TIMINGS)
by_decay = pytest.mark.parametrize("decay", (0.0, 0.9))


def one_edge(weight: float, **plastic: Any) -> PlasticNetwork:
    """input -1 -> output 0, identity: y = w x. m = 0.1 * 0.5 * r unless told."""
    net = Net([-1], [0], {0: Node()}, {(-1, 0): Edge(weight)})
    given_settings = {"lr": 0.1, "reward_scale": 0.5, "bcm_tau": 0.25, "weight_limit": 10.0, **plastic}
    return PlasticNetwork.from_json(oracle.document(net), **given_settings)


def lived(net: PlasticNetwork, *steps: tuple[float, float]) -> list[float]:
    """The weight after each step of (x, r)."""
    weights = []
    for x, r in steps:
        net.activate([x])
        net.reward(r)
        weights.append(net.weights[-1, 0])
    return weights


# -- the registry -------------------------------------------------------------------------------------------------


def test_the_registry_holds_the_rules_of_config_in_their_order() -> None:
    assert tuple(RULE_ID) == field_choices("rule") == tuple(r.__name__ for r in RULES)
    assert list(RULE_ID.values()) == list(range(len(RULES)))
    assert RULE_ID["none"] == NONE
    assert set(ALIASES.values()) <= set(RULE_ID) and not set(ALIASES) & set(RULE_ID)


@by_rule
def test_every_rule_states_its_equation(rule: str) -> None:
    doc = RULES[RULE_ID[rule]].__doc__
    assert doc, f"give plasticity.{rule} a docstring with its equation"
    assert "e = " in doc or rule == "none", f"the docstring of plasticity.{rule} has no equation 'e = ...'"


@by_rule
def test_every_rule_has_an_oracle(rule: str) -> None:
    assert rule in oracle.RULES, ADD_ORACLE.format(rule)


def test_no_oracle_is_left_over() -> None:
    assert set(oracle.RULES) == set(RULE_ID)


@by_local_rule
@by_decay
@settings(max_examples=examples(50))
@given(numbers(5.0), numbers(5.0), numbers(10.0), st.floats(0.0, 25.0), numbers(50.0))
def test_local_trace_equals_the_oracle(
    rule: str, decay: float, x: float, y: float, w: float, theta: float, z: float
) -> None:
    assert rule in oracle.RULES, ADD_ORACLE.format(rule)
    z = decay * z + x * y
    reference = oracle.RULES[rule]
    expected = 0.0 if reference is None else reference(x, y, w, theta, z, decay)
    assert_near(local_trace(RULE_ID[rule], x, y, w, theta, z, decay), expected)
    assert_near(RULES[RULE_ID[rule]](x, y, w, theta, z, decay), expected)


def test_plasticity_carries_every_setting_to_the_kernels() -> None:
    config = PlasticityConfig("oja", 0.5, 0.25, "next-step", 0.7, 0.1, 3.0, 4.0, "none")
    assert plasticity(config)[:9] == (RULE_ID["oja"], 0.125, 0.7, 0.1, 3.0, 4.0, False, True, False)
    other = plasticity(dataclasses.replace(config, output_transform="tanh", reward_credit="same-step"))
    assert (other.squash, other.next_step) == (True, False)


# -- by hand ------------------------------------------------------------------------------------------------------


def test_hebb_by_hand() -> None:
    # step 1: x = 2, w = 0.5, y = w x = 1; m = 0.1 * 0.5 * 4 = 0.2; e = x y = 2; w = 0.5 + 0.2 * 2 = 0.9
    # step 2: x = 1, y = 0.9; m = 0.05 * -2 = -0.1; e = 0.9; w = 0.9 - 0.09 = 0.81
    assert_near(lived(one_edge(0.5, rule="hebb"), (2.0, 4.0), (1.0, -2.0)), [0.9, 0.81], 1e-15)


def test_oja_by_hand() -> None:
    # step 1: x = 2, w = 0.5, y = 1; m = 0.2; e = y (x - y w) = 2 - 0.5 = 1.5; w = 0.5 + 0.3 = 0.8
    # step 2: x = 1, y = 0.8; m = -0.1; e = 0.8 (1 - 0.8 * 0.8) = 0.8 * 0.36 = 0.288; w = 0.8 - 0.0288 = 0.7712
    assert_near(lived(one_edge(0.5, rule="oja"), (2.0, 4.0), (1.0, -2.0)), [0.8, 0.7712], 1e-15)


def test_bcm_by_hand() -> None:
    # step 1: x = 2, w = 0.5, y = 1; theta = 0.75 * 0 + 0.25 * 1 = 0.25; m = 0.2;
    #         e = y (y - theta) x = 1 * 0.75 * 2 = 1.5; w = 0.5 + 0.3 = 0.8
    # step 2: x = 1, y = 0.8; theta = 0.75 * 0.25 + 0.25 * 0.64 = 0.1875 + 0.16 = 0.3475; m = 0.05 * -5 = -0.25;
    #         e = 0.8 * (0.8 - 0.3475) * 1 = 0.362; w = 0.8 - 0.0905 = 0.7095
    assert_near(lived(one_edge(0.5, rule="bcm"), (2.0, 4.0), (1.0, -5.0)), [0.8, 0.7095], 1e-15)


def test_bcm_has_no_trace() -> None:
    net = one_edge(0.5, rule="bcm", trace_decay=0.9)
    assert_near(lived(net, (2.0, 4.0), (1.0, -5.0)), [0.8, 0.7095], 1e-15)


def test_hebb_with_a_trace_by_hand() -> None:
    # lambda = 0.5. step 1: z = 0.5 * 0 + 2 * 1 = 2; m = 0.2; w = 0.5 + 0.4 = 0.9
    # step 2: x = 1, y = 0.9; z = 0.5 * 2 + 0.9 = 1.9; m = 0.2; w = 0.9 + 0.38 = 1.28
    assert_near(lived(one_edge(0.5, rule="hebb", trace_decay=0.5), (2.0, 4.0), (1.0, 4.0)), [0.9, 1.28], 1e-15)


def test_oja_with_a_trace_by_hand() -> None:
    # lambda = 0.5. step 1: z = 2; e = 1.5 + 2 = 3.5; m = 0.2; w = 0.5 + 0.7 = 1.2
    # step 2: x = 1, y = 1.2; z = 1 + 1.2 = 2.2; e = 1.2 (1 - 1.44) + 2.2 = -0.528 + 2.2 = 1.672; w = 1.2 + 0.3344
    assert_near(lived(one_edge(0.5, rule="oja", trace_decay=0.5), (2.0, 4.0), (1.0, 4.0)), [1.2, 1.5344], 1e-15)


def test_next_step_reward_gates_the_next_activity_by_hand() -> None:
    # step 1: x = 2, w = 0.5: the first pass has reward 0, w stays.
    # step 2: x = 1, y = 0.5; step 1's r = 4 gives m = 0.2; e = 0.5; w = 0.5 + 0.1 = 0.6, after the output 0.5
    # the last reward, 1000, is never used.
    net = one_edge(0.5, rule="hebb", reward_credit="next-step")
    assert_near(lived(net, (2.0, 4.0), (1.0, 1000.0)), [0.5, 0.6], 1e-15)


def test_a_trace_grows_also_at_the_first_pass_of_next_step_by_hand() -> None:
    # lambda = 0.5. step 1: z = 2 * 1 = 2, reward 0. step 2: x = 1, y = 0.5, z = 1 + 0.5 = 1.5, m = 0.2: w = 0.5 + 0.3
    net = one_edge(0.5, rule="hebb", reward_credit="next-step", trace_decay=0.5)
    assert_near(lived(net, (2.0, 4.0), (1.0, 0.0)), [0.5, 0.8], 1e-15)


def test_projection_by_hand() -> None:
    # hebb: x = 2, w = 0.5, y = 1; m = 0.05 * 40 = 2; w = 0.5 + 2 * 2 = 4.5, projected onto [-2, 2]: 2
    # then x = 1, y = 2, m = -10: w = 2 - 20 = -18, projected: -2
    assert lived(one_edge(0.5, rule="hebb", weight_limit=2.0), (2.0, 40.0), (1.0, -200.0)) == [2.0, -2.0]


# -- what holds for all rules -------------------------------------------------------------------------------------


steps_strategy = st.lists(st.tuples(numbers(1e3), numbers(1e6)), min_size=1, max_size=6)


@by_rule
@by_timing
@by_decay
@settings(max_examples=examples(20))
@given(numbers(10.0), steps_strategy)
def test_without_a_rate_weights_inside_the_limit_stay(
    rule: str, timing: str, decay: float, weight: float, steps: list[tuple[float, float]]
) -> None:
    net = one_edge(weight, rule=rule, reward_credit=timing, trace_decay=decay, lr=0.0)
    assert lived(net, *steps) == [weight] * len(steps)


@pytest.mark.parametrize("rule", [r for r in RULE_ID if r != "none"])
@by_timing
@by_decay
@settings(max_examples=examples(20))
@given(numbers(30.0), st.floats(0.1, 5.0), steps_strategy)
def test_weights_are_inside_the_limit_after_every_update(
    rule: str, timing: str, decay: float, weight: float, limit: float, steps: list[tuple[float, float]]
) -> None:
    net = one_edge(weight, rule=rule, reward_credit=timing, trace_decay=decay, weight_limit=limit, lr=10.0)
    assert all(abs(w) <= limit for w in lived(net, *steps))


@by_timing
@by_decay
@settings(max_examples=examples(20))
@given(numbers(1e300), steps_strategy)
def test_none_never_changes_a_weight_even_beyond_the_limit(
    timing: str, decay: float, weight: float, steps: list[tuple[float, float]]
) -> None:
    net = one_edge(weight, rule="none", reward_credit=timing, trace_decay=decay, weight_limit=0.5, lr=10.0)
    assert lived(net, *steps) == [weight] * len(steps)


@by_rule
@pytest.mark.parametrize("reward", (math.nan, math.inf, -math.inf))
def test_a_reward_that_is_no_number_never_makes_a_weight_nan(rule: str, reward: float) -> None:
    weights = lived(one_edge(0.5, rule=rule), (2.0, reward), (0.0, reward), (1.0, 1.0))
    assert all(abs(w) <= 10.0 for w in weights)
    if math.isnan(reward):
        assert weights[:2] == [0.5, 0.5]
