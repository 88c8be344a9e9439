"""The synthetic instances: the kernel against plain Python, and A1 to A5 as promised, for any comparator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import regret_oracle as oracle
from conftest import assert_near, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from neol.errors import NeolError
from neol.outer import selectors as lab
from neol.theory.synthetic import ADVERSARIES, Block, Setting, make_instance, new_block, new_lives, plan, play

RULES = ("hebb", "oja", "bcm")
SETTINGS = [
    Setting(rule, 60, pool, 5, feedback, adversary, schedule, switches, constant, diameter, reach)
    for rule, pool, feedback, adversary, schedule, switches, constant, diameter, reach in [
        ("hebb", 3, "full", "stochastic", "known", 0, 1.0, 1.0, 0.0),
        ("oja", 4, "full", "stochastic", "decreasing", 0, 2.0, 0.5, 0.4),
        ("bcm", 2, "bandit", "stochastic", "known", 0, 1.5, 3.0, 0.1),
        ("hebb", 3, "full", "shifting", "known", 2, 1.0, 1.0, 0.0),
        ("oja", 1, "full", "shifting", "doubling", 0, 1.0, 1.0, 0.5),
        ("hebb", 4, "full", "worst-case", "known", 0, 1.0, 1.0, 0.0),
        ("oja", 3, "bandit", "worst-case", "doubling", 0, 1.0, 0.1, 0.0),
        ("bcm", 5, "full", "worst-case", "known", 3, 4.0, 1.0, 0.3),
    ]
]


def played(s: Setting, seed: int = 5) -> tuple[Any, Any, Any, Block]:
    """Schedule, instance, lives at the end and the whole record."""
    p, instance = plan(s), make_instance(s, seed)
    lives, block = new_lives(s, instance, seed), new_block(s.rounds, s.pool)
    play(instance, lives, block, 0, s.selector, p.rates.gamma, p.rates.restart, p.alpha, p.eta, seed)
    return p, instance, lives, block


def by_oracle(s: Setting, seed: int = 5) -> dict[str, np.ndarray]:
    p, instance = plan(s), make_instance(s, seed)
    start = new_lives(s, instance, seed)
    draws = [oracle.Draws(int(z)) for z in start.random]
    choose = lambda probability, t: int(lab.draw(probability, seed, t))  # noqa: E731
    return oracle.play(s, p, instance, start.w, start.theta, draws, choose)


@pytest.mark.parametrize("s", SETTINGS, ids=str)
def test_the_kernel_does_what_plain_python_does(s):
    _, _, lives, block = played(s)
    slow = by_oracle(s)
    assert_near(block.losses, slow["losses"], 1e-10)
    assert_near(block.probabilities, slow["probabilities"], 1e-10)
    assert np.array_equal(block.chosen, slow["chosen"])
    assert_near(block.update_norms, np.linalg.norm(slow["updates"], axis=2), 1e-10)
    assert_near(block.surrogate, -(slow["weights"] * slow["updates"]).sum(axis=2), 1e-10)
    assert_near(lives.drift, slow["updates"].sum(axis=0), 1e-10)
    assert_near(lives.energy, (plan(s).eta[:, None] * (slow["updates"] ** 2).sum(axis=2)).sum(axis=0), 1e-10)
    assert_near(lives.loss, slow["losses"].sum(axis=0), 1e-10)
    assert_near(lives.spent[0], (slow["probabilities"] * slow["losses"]).sum(), 1e-10)
    assert_near(lives.spent[1], slow["losses"][np.arange(s.rounds), slow["chosen"]].sum(), 1e-10)


@pytest.mark.parametrize("s", SETTINGS, ids=str)
def test_a2_to_a5_hold_for_every_comparator_in_the_ball(s):
    """l_t(h, v) = l_t(h, w_t) - C <v - w_t, u_t> lies in [0, 1] for any v, and A5 is this line, read from the right."""
    slow, instance = by_oracle(s), make_instance(s, 5)
    w, u = slow["weights"], slow["updates"]
    assert np.linalg.norm(w, axis=2).max() <= s.diameter / 2.0 + 1e-12  # A3
    assert np.linalg.norm(u, axis=2).max() <= s.update_limit + 1e-12  # A4
    directions = [*np.eye(s.dim), *-np.eye(s.dim), np.ones(s.dim) / math.sqrt(s.dim)]
    extreme = u / np.maximum(np.linalg.norm(u, axis=2, keepdims=True), 1e-300)
    for v in [*(instance.radius * d for d in directions), instance.radius * extreme, -instance.radius * extreme]:
        losses = slow["losses"] - s.constant * ((v - w) * u).sum(axis=2)
        assert losses.min() >= -1e-12  # A2
        assert losses.max() <= 1.0 + 1e-12
    seen = played(s)[2].seen
    assert_near(seen[0], (slow["losses"] - s.constant * ((instance.radius * extreme - w) * u).sum(axis=2)).min(), 1e-9)
    assert_near(seen[1], (slow["losses"] + s.constant * ((instance.radius * extreme + w) * u).sum(axis=2)).max(), 1e-9)


def test_the_reward_that_gates_an_update_is_the_return_itself():
    """Stochastic: u = beta r e with r = 1 - loss, so |u| <= U (1 - loss), with equality where |e| is largest."""
    for s in SETTINGS[:5]:
        slow = by_oracle(s)
        assert (np.linalg.norm(slow["updates"], axis=2) <= s.update_limit * (1.0 - slow["losses"]) + 1e-12).all()


@settings(max_examples=examples(25))
@given(
    st.sampled_from(RULES), st.integers(1, 40), st.integers(1, 6), st.integers(1, 9), st.sampled_from(ADVERSARIES),
    st.sampled_from(lab.SCHEDULES), st.floats(1.0, 20.0), st.floats(0.01, 50.0), st.floats(1e-3, 0.5),
    st.integers(0, 2**62),
)  # fmt: skip
def test_whatever_the_setting_every_bound_holds_and_losses_stay_in_range(
    rule, rounds, pool, dim, adversary, schedule, constant, diameter, reach, seed
):
    s = Setting(rule, rounds, pool, dim, "full", adversary, schedule, 0, constant, diameter, reach)
    p, instance, lives, block = played(s, seed)
    inner = instance.radius * np.linalg.norm(lives.drift, axis=1) + block.surrogate.sum(axis=0)
    slack = 1e-9 * (1.0 + p.inner_bound)
    assert inner.max() <= p.inner_bound + slack  # Lemma 1
    assert (inner <= s.diameter**2 / (2.0 * p.eta[-1]) + 0.5 * lives.energy + slack).all()  # Lemma 1 as realised
    spent = (block.probabilities * block.losses).sum()
    assert spent - block.losses.sum(axis=0).min() <= p.outer_bound + 1e-9  # Lemma 2
    pair = (block.losses.sum(axis=0) - s.constant * inner).min()
    assert spent - pair <= s.constant * p.inner_bound + p.outer_bound + 1e-9  # the theorem
    assert lives.seen[0] >= -1e-9
    assert lives.seen[1] <= 1.0 + 1e-9


def test_the_fixed_pair_of_the_total_regret_is_the_best_of_the_ball():
    """min_v sum_t l_t(h, v) = sum_t l_t(h, w_t) - C (R |S| - sum <w_t, u_t>): no v on a fine circle does better."""
    s = Setting("oja", 80, 3, 2)
    slow, radius = by_oracle(s), s.diameter / 2.0
    drift, pull = slow["updates"].sum(axis=0), (slow["weights"] * slow["updates"]).sum(axis=(0, 2))
    closed = slow["losses"].sum(axis=0) - s.constant * (radius * np.linalg.norm(drift, axis=1) - pull)
    angles = np.linspace(0.0, 2.0 * math.pi, 2000)
    circle = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    tried = slow["losses"].sum(axis=0)[:, None] + s.constant * pull[:, None] - s.constant * drift @ circle.T
    assert (tried >= closed[:, None] - 1e-12).all()
    assert_near(tried.min(axis=1), closed, 1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_the_worst_case_reaches_lemma_1_and_broken_updates_exceed_it(rule):
    """T a square: hebb and bcm walk from -R to R in full steps and reach D U sqrt T to the last digits."""
    s = Setting(rule, 10_000, 2, 4, adversary="worst-case", diameter=0.01)
    p, instance, lives, block = played(s)

    def inner(lives: Any, block: Block) -> float:
        return float((instance.radius * np.linalg.norm(lives.drift, axis=1) + block.surrogate.sum(axis=0)).max())

    assert (0.99 if rule == "oja" else 1.0 - 1e-9) * p.inner_bound <= inner(lives, block) <= p.inner_bound * (1 + 1e-9)
    for factor in (2.0, 0.5, -1.0):  # a step twice as long, half as long, the wrong way
        lives, block = new_lives(s, instance, 5), new_block(s.rounds, s.pool)
        play(instance, lives, block, 0, s.selector, p.rates.gamma, p.rates.restart, 0.0, factor * p.eta, 5)
        assert inner(lives, block) > 1.05 * p.inner_bound


def test_without_projection_the_weights_leave_the_ball_and_a2_with_it():
    """The projection is what keeps losses in [0, 1]: with a ball too wide for its reach they leave it."""
    s = Setting("hebb", 5000, 2, 4)
    p, instance = plan(s), make_instance(s, 5)
    wide = instance._replace(radius=100.0 * instance.radius)  # as good as no projection
    lives, block = new_lives(s, instance, 5), new_block(s.rounds, s.pool)
    play(wide, lives, block, 0, s.selector, p.rates.gamma, p.rates.restart, 0.0, p.eta, 5)
    assert math.sqrt(lives.seen[4]) > s.diameter
    assert lives.seen[0] < 0.0


def test_a_seed_and_the_blocks_decide_nothing_else():
    s = SETTINGS[0]
    p, instance, whole, block = played(s)
    parts = new_lives(s, instance, 5)
    for first, n in ((0, 7), (7, 1), (8, 52)):
        piece = new_block(n, s.pool)
        play(instance, parts, piece, first, s.selector, p.rates.gamma, p.rates.restart, p.alpha, p.eta, 5)
        assert all(np.array_equal(a, b[first : first + n]) for a, b in zip(piece, block, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))
    other = played(s, 6)[3]
    assert not np.array_equal(other.losses, block.losses)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"rounds": 0}, "rounds = 0 is not allowed; it must be a whole number from 1"),
        ({"pool": 0}, "pool = 0 is not allowed; it must be a whole number from 1"),
        ({"dim": 0}, "dim = 0 is not allowed; it must be a whole number from 1"),
        ({"rule": "hebbian"}, "rule = 'hebbian' is not allowed; did you mean 'hebb'?"),
        ({"rule": "none"}, "rule = 'none' is not allowed"),
        ({"adversary": "kind"}, "adversary = 'kind' is not allowed"),
        ({"feedback": "none"}, "feedback = 'none' is not allowed"),
        ({"constant": 0.5}, "constant = 0.5 is not allowed; A5 has C >= 1"),
        ({"constant": math.nan}, "constant = nan is not allowed"),
        ({"diameter": 0.0}, "diameter = 0.0 is not allowed; it must be positive"),
        ({"reach": 0.6}, "reach = 0.6 is not allowed"),
        ({"switches": 1000}, "switches = 1000 is not allowed"),
        ({"switches": 2, "feedback": "bandit"}, "switches = 2 is not allowed with bandit feedback"),
        ({"switches": 2, "schedule": "doubling"}, "Fixed-Share needs full feedback and known T"),
    ],
)
def test_bad_settings_are_one_sentence(settings, named):
    with pytest.raises(NeolError) as e:
        Setting(**settings)
    assert named in str(e.value)
    assert "\n" not in str(e.value)
