"""Hedge, EXP3 and Fixed-Share: values worked by hand, numerical safety, and regret under the published bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import assert_near, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from regret_oracle import best_with_switches

from neol.errors import NeolError
from neol.outer import selectors as lab
from neol.outer.selectors import Selector, exp3, fixed_share, hedge

LOSS = st.floats(0.0, 1.0)


def tables(rounds: int = 12, pool: int = 4) -> st.SearchStrategy[np.ndarray]:
    """Losses f8 (T, M) of any size up to these."""
    sizes = st.tuples(st.integers(1, rounds), st.integers(1, pool))
    return sizes.flatmap(
        lambda n: st.lists(st.lists(LOSS, min_size=n[1], max_size=n[1]), min_size=n[0], max_size=n[0]).map(np.array)
    )


def regret(outer: Selector, losses: np.ndarray, switches: int = 0) -> float:
    """sum <p_t, l_t> less the best sequence with so many switches."""
    spent = 0.0
    for row in losses:
        spent += float(outer.p @ row)
        outer.tell(row)
    best = np.zeros((switches + 1, losses.shape[1]))
    lab.best_switching(best, losses)
    return spent - float(best[-1].min())


def test_two_rounds_of_hedge_by_hand():
    outer = hedge(2, 8, seed=0)  # gamma = sqrt(8 ln 2 / 8) = sqrt(ln 2)
    assert_near(outer.p, [0.5, 0.5])
    outer.tell(np.array([1.0, 0.0]))
    e = math.exp(-math.sqrt(math.log(2.0)))
    assert_near(outer.p, [e / (1.0 + e), 1.0 / (1.0 + e)])
    outer.tell(np.array([0.5, 1.0]))  # totals 1.5 and 1
    e = math.exp(-0.5 * math.sqrt(math.log(2.0)))
    assert_near(outer.p, [e / (1.0 + e), 1.0 / (1.0 + e)])


def test_a_round_of_fixed_share_by_hand():
    outer = fixed_share(2, 11, 1, seed=0)  # alpha = 1/10
    gamma = math.sqrt(8.0 / 11.0 * (2.0 * math.log(2.0) - 10.0 * (0.1 * math.log(0.1) + 0.9 * math.log(0.9))))
    assert_near([outer.alpha, outer.rates.gamma[0]], [0.1, gamma])
    outer.tell(np.array([1.0, 0.0]))
    v = math.exp(-gamma) / (1.0 + math.exp(-gamma))
    assert_near(outer.p, [0.05 + 0.9 * v, 0.05 + 0.9 * (1.0 - v)])


def test_exp3_reads_the_chosen_loss_alone_and_weighs_it_by_how_likely_it_was():
    outer = exp3(4, 100, seed=3)
    h, losses = outer.ask(), np.full(4, np.nan)  # the others are not seen
    losses[h] = 0.5
    outer.tell(losses)
    expected = np.zeros(4)
    expected[h] = 0.5 / 0.25
    assert_near(outer.total, expected)
    gamma = math.sqrt(2.0 * math.log(4.0) / 400.0)
    weight = np.exp(-gamma * expected)
    assert_near(outer.p, weight / weight.sum())


def test_the_bounds_of_known_t_are_those_of_the_papers():
    t, m, k = 1000, 16, 4
    assert_near(lab.hedge_bound(lab.hedge_rates("known", t, m), m), math.sqrt(t * math.log(m) / 2.0))
    assert_near(lab.exp3_bound(lab.exp3_rates("known", t, m), m), math.sqrt(2.0 * t * m * math.log(m)))
    rates, alpha = lab.share_rates(t, m, k)
    entropy = -(t - 1) * (alpha * math.log(alpha) + (1.0 - alpha) * math.log(1.0 - alpha))
    expected = math.sqrt(t / 2.0 * ((k + 1) * math.log(m) + entropy))
    assert_near(lab.share_bound(rates, m, k, alpha), expected, 1e-11)


def test_the_anytime_bounds_are_within_the_known_factors():
    t, m = 4096, 16
    known = math.sqrt(t * math.log(m) / 2.0)
    decreasing = lab.hedge_bound(lab.hedge_rates("decreasing", t, m), m)
    assert math.sqrt(2.0) * known * 0.97 <= decreasing <= math.sqrt(2.0) * known  # sqrt(T ln M)
    doubling = lab.hedge_bound(lab.hedge_rates("doubling", t - 1, m), m)  # 12 whole epochs
    assert_near(doubling, sum(math.sqrt(2**i * math.log(m) / 2.0) for i in range(12)))
    assert doubling <= math.sqrt(2.0) / (math.sqrt(2.0) - 1.0) * known


def test_doubling_restarts_at_the_powers_of_two():
    rates = lab.hedge_rates("doubling", 20, 3)
    assert (np.flatnonzero(rates.restart) + 1).tolist() == [1, 2, 4, 8, 16]
    assert_near(rates.gamma[[0, 1, 2, 3, 6, 7]], np.sqrt(8.0 * math.log(3.0) / np.array([1, 2, 2, 4, 4, 8])))
    outer = hedge(3, 20, 0, "doubling")
    for _ in range(7):
        outer.tell(np.array([1.0, 0.0, 0.5]))
        uniform = outer.round in (1, 3, 7)  # the next round, counted from 1, begins an epoch
        assert np.allclose(outer.p, 1.0 / 3.0) == uniform


@settings(max_examples=examples(60))
@given(tables(), st.sampled_from(lab.SCHEDULES))
def test_hedge_stays_under_lemma_2_whatever_the_losses(losses, schedule):
    outer = hedge(losses.shape[1], len(losses), 0, schedule)
    assert regret(outer, losses) <= lab.hedge_bound(outer.rates, losses.shape[1]) + 1e-12


@settings(max_examples=examples(60))
@given(tables(), st.integers(0, 5))
def test_fixed_share_stays_under_its_bound_against_any_sequence_with_k_switches(losses, switches):
    rounds, pool = losses.shape
    switches = min(switches, rounds - 1)
    outer = fixed_share(pool, rounds, switches, 0)
    assert regret(outer, losses, switches) <= lab.share_bound(outer.rates, pool, switches, outer.alpha) + 1e-12


@settings(max_examples=examples(40))
@given(tables(6, 3), st.integers(0, 4))
def test_the_dynamic_programme_finds_the_best_sequence(losses, switches):
    best = np.zeros((switches + 1, losses.shape[1]))
    for part in np.array_split(losses, 2):  # in blocks, as the lab does
        lab.best_switching(best, part)
    assert_near(best[-1].min(), best_with_switches(losses, switches))


def test_the_adversary_of_hedge_reaches_lemma_2_and_a_broken_hedge_exceeds_it():
    """Two experts fail by turns, then one of them always: gamma T / 8 + ln 2 / gamma, the bound itself."""
    rounds = 4000
    losses = np.zeros((rounds, 2))
    losses[np.arange(rounds), np.arange(rounds) % 2] = 1.0
    losses[-400:] = [0.0, 1.0]
    right = hedge(2, rounds, 0)
    bound = lab.hedge_bound(right.rates, 2)
    assert 0.93 * bound < regret(right, losses) <= bound
    for factor in (-1.0, 3.0, 0.2):  # the wrong sign, a rate too large, a rate too small
        broken = Selector(lab.HEDGE, 2, right.rates._replace(gamma=factor * right.rates.gamma), 0)
        assert regret(broken, losses) > bound


def test_exp3_stays_under_its_bound_in_the_mean_and_with_the_wrong_sign_exceeds_it():
    rounds, pool, seeds = 2000, 4, 20
    losses = np.ones((rounds, pool))
    losses[:, 2] = 0.0
    rates = lab.exp3_rates("known", rounds, pool)
    bound = lab.exp3_bound(rates, pool)
    right = [regret(Selector(lab.EXP3, pool, rates, seed), losses) for seed in range(seeds)]
    assert 0.2 * bound < np.mean(right) < bound
    wrong = rates._replace(gamma=-rates.gamma)
    assert regret(Selector(lab.EXP3, pool, wrong, 0), losses) > bound


def test_fixed_share_follows_a_switch_that_hedge_cannot():
    rounds = 2000
    losses = np.zeros((rounds, 2))
    losses[: rounds // 2, 0] = losses[rounds // 2 :, 1] = 1.0
    share = fixed_share(2, rounds, 1, 0)
    bound = lab.share_bound(share.rates, 2, 1, share.alpha)
    assert regret(share, losses, 1) <= bound
    assert regret(hedge(2, rounds, 0), losses, 1) > bound


@pytest.mark.parametrize("pool", [1, 10_000])
@pytest.mark.parametrize("losses", ["none", "all", "all but one", "by turns"])
def test_ten_million_rounds_are_numerically_safe(pool, losses):
    """The state after n rounds of losses 0 or 1 is exact in float64: sums below 2^53 of whole numbers do not round.

    So the state after 10 million rounds is known to the bit, and the selector goes on from there.
    """
    rounds = 10_000_000
    row = np.ones(pool) if losses != "none" else np.zeros(pool)
    if losses == "all but one":
        row[pool // 2] = 0.0
    outer = hedge(pool, 2 * rounds, seed=1)
    few = hedge(pool, 2 * rounds, seed=1)
    times = rounds // 2 if losses == "by turns" else rounds
    for t in range(64):  # what n rounds add is n times the row, bit by bit
        few.tell(row if losses != "by turns" or t % 2 else np.zeros(pool))
    assert np.array_equal(few.state()["total"], row * (32 if losses == "by turns" else 64))
    outer.restore({"round": np.array(rounds), "total": row * times, "p": few.p})
    for _ in range(20):
        outer.tell(row)
        assert np.isfinite(outer.p).all()
        assert abs(outer.p.sum() - 1.0) <= 1e-12
        assert abs(math.fsum(outer.p) - 1.0) <= 1e-12
        assert outer.p.min() >= 0.0
        assert 0 <= outer.ask() < pool
    if losses == "all but one":
        assert outer.p[pool // 2] == 1.0
    else:
        assert_near(outer.p, np.full(pool, 1.0 / pool))


def test_ten_million_rounds_of_one_architecture_played_one_by_one():
    total, p = np.zeros(1), np.zeros(1)
    worst = many_rounds(total, p, 10_000_000, 0.3)
    assert worst == 0.0
    assert p[0] == 1.0
    assert total[0] == 5_000_000.0


@lab.kernel
def many_rounds(total, p, rounds, gamma):
    """Losses 0 and 1 by turns; the largest error of sum p."""
    worst, losses = 0.0, np.zeros(len(p))
    for t in range(rounds):
        lab.outer_select(0, total, p, gamma, t == 0)
        worst = max(worst, abs(p.sum() - 1.0))
        losses[:] = t % 2
        lab.outer_update(0, total, p, losses, 0, gamma, 0.0)
    return worst


@pytest.mark.parametrize("kind", [lab.HEDGE, lab.EXP3, lab.FIXED_SHARE])
def test_a_restored_selector_goes_on_to_the_same_bits(kind):
    def make(seed: int) -> Selector:
        if kind == lab.FIXED_SHARE:
            return fixed_share(5, 40, 3, seed)
        return (hedge if kind == lab.HEDGE else exp3)(5, 40, seed, "doubling")

    losses = np.abs(np.sin(np.arange(200.0))).reshape(40, 5)
    whole, first = make(7), make(7)
    for row in losses[:19]:
        whole.tell(row)
        first.tell(row)
    second = make(7)
    second.restore(first.state())
    for row in losses[19:]:
        assert second.ask() == whole.ask()
        assert np.array_equal(second.p, whole.p)
        whole.tell(row)
        second.tell(row)
    assert any(make(8).ask() != make(seed).ask() for seed in range(20))  # the seed decides


def test_draws_follow_p():
    p = np.array([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    counts = np.bincount([lab.draw(p, 11, t) for t in range(20_000)], minlength=6) / 20_000
    assert counts[p == 0.0].sum() == 0.0
    assert np.abs(counts - p).max() < 4.0 * math.sqrt(0.25 / 20_000)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: hedge(0, 10, 0), "pool = 0 is not allowed; it must be a whole number from 1"),
        (lambda: hedge(2, 0, 0), "rounds = 0 is not allowed; it must be a whole number from 1"),
        (lambda: hedge(2, 10, 0, "often"), "schedule = 'often' is not allowed"),
        (lambda: fixed_share(2, 10, 10, 0), "switches = 10 is not allowed; it must be from 0 to rounds - 1 = 9"),
        (lambda: hedge(2, 10, 0).tell(np.array([0.25, 1.5])), "losses must lie in [0, 1], but those of round 0 lie in "
         "[0.25, 1.5]"),
        (lambda: hedge(2, 10, 0).tell(np.array([np.nan, 0.5])), "losses must lie in [0, 1]"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(make, named):
    with pytest.raises(NeolError) as e:
        make()
    assert named in str(e.value)
    assert "\n" not in str(e.value)
