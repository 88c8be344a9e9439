"""Statistics over runs, against SciPy, values worked by hand and simulations; hard samples have defined answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
from conftest import assert_near, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from neol import stats
from neol.errors import NeolError
from neol.seeding import resamples
from neol.stats import Interval, SampleSummary

pytestmark = pytest.mark.filterwarnings("error")  # no statistic may warn

# Few different values, so that ties are common, or any.
sample = st.lists(st.integers(0, 3).map(float), max_size=12) | st.lists(st.floats(-1e6, 1e6), max_size=12)
some = sample.filter(bool)
probability = st.floats(0.0, 1.0)


def draws(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def flat(result: Any) -> list[Any]:
    """Every number, word and None of a result."""
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in flat(part)]
    return [result]


def assert_defined(result: Any) -> None:
    assert all(leaf is None or isinstance(leaf, str) or math.isfinite(leaf) for leaf in flat(result)), result


def there(result: Any) -> Any:
    assert result is not None
    return result


def coverage(intervals: Sequence[Interval | None], true: float) -> float:
    return float(np.mean([i.low <= true <= i.high for i in map(there, intervals)]))


# -- one sample


def test_iqm_by_hand() -> None:
    assert stats.iqm([8, 1, 7, 2, 6, 3, 5, 4]) == 4.5  # floor(8 / 4) = 2 cut at each end: (3 + 4 + 5 + 6) / 4
    assert stats.iqm([0, 1, 2, 3, 100]) == 2.0  # 1 cut at each end: (1 + 2 + 3) / 3
    assert stats.iqm([1, 2, 6]) == 3.0  # nothing to cut
    assert stats.iqm([1, 4]) == 2.5
    assert stats.iqm([7]) == 7.0
    assert stats.iqm([]) is None


@given(some)
def test_iqm_is_scipys_trimmed_mean(x: list[float]) -> None:
    assert_near(stats.iqm(x), scipy.stats.trim_mean(x, 0.25))


@settings(max_examples=examples(20))
@given(sample.filter(lambda x: len(x) >= 2), st.integers(0, 2**31))
def test_describe_agrees_with_numpy(x: list[float], seed: int) -> None:
    s = stats.describe(x, seed)
    assert s.mean is not None and s.sd is not None and s.iqm is not None and s.mean_interval is not None
    assert_near([s.n, s.mean, s.median], [len(x), np.mean(x), np.median(x)])
    assert abs(s.sd - np.std(x, ddof=1)) <= 1e-9 * max(1.0, max(map(abs, x)))
    assert s.iqm.estimate == stats.iqm(x) and s.mean_interval.estimate == s.mean
    for interval in (s.iqm, s.mean_interval):
        assert interval.low is not None and interval.high is not None
        assert min(x) <= interval.low <= interval.high <= max(x)


def test_describe_of_nothing_of_one_run_of_two_and_of_a_constant() -> None:
    assert stats.describe([], 0) == SampleSummary(0, None, None, None, None, None)
    one = Interval(3.0, None, None)
    assert stats.describe([3.0], 0) == SampleSummary(1, 3.0, None, 3.0, one, one)
    # Two runs: resampled means are 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4: the 2.5 % point is 0, the 97.5 % one 1.
    two = Interval(0.5, 0.0, 1.0)
    assert stats.describe([1.0, 0.0], 0) == SampleSummary(2, 0.5, math.sqrt(0.5), 0.5, two, two)
    for value in (500.0, 0.1, -1 / 3, 1e-300):  # 0.1 thirty times over has a mean of 0.1 here, and an SD of 0
        point = Interval(value, value, value)
        assert stats.describe([value] * 30, 0) == SampleSummary(30, value, 0.0, value, point, point)


def test_the_bootstrap_is_a_function_of_the_seed_and_not_of_the_order() -> None:
    x = draws(0).normal(300, 8, 30)
    once = stats.describe(x, 7)
    assert stats.describe(x, 7) == once
    assert stats.describe(x[::-1], 7) == once
    other = stats.describe(x, 8)
    assert other.iqm != once.iqm and other.mean_interval != once.mean_interval
    assert other[:4] == once[:4]


def test_resamples_are_uniform_and_independent_between_strata_and_seeds() -> None:
    picks = resamples(3, 0, 10_000, 30)
    counts = np.bincount(picks.ravel(), minlength=30)
    assert len(counts) == 30 and scipy.stats.chisquare(counts).pvalue > 1e-3
    for other in (resamples(3, 1, 10_000, 30), resamples(4, 0, 10_000, 30)):
        assert abs(np.corrcoef(picks.ravel(), other.ravel())[0, 1]) < 0.01  # SD 1 / sqrt(300,000) = 0.002


def test_bootstrap_intervals_are_those_of_another_generator_but_for_chance() -> None:
    x = draws(1).exponential(10.0, 30)
    ours = stats.describe(x, 0)
    rows = draws(2).choice(x, (20_000, 30))
    for interval, theirs in (
        (ours.mean_interval, rows.mean(axis=1)),
        (ours.iqm, scipy.stats.trim_mean(rows, 0.25, axis=1)),
    ):
        # An end is a quantile of 10,000 draws, its SD sqrt(0.025 * 0.975 / 10,000) / density = 0.03 standard errors.
        off = (np.array(interval)[1:] - np.quantile(theirs, [0.025, 0.975])) / theirs.std()
        assert np.abs(off).max() < 0.12


@pytest.mark.parametrize(("n", "least", "most"), [(30, 0.91, 0.97), (5, 0.78, 0.89), (3, 0.70, 0.80)])
def test_coverage_of_the_bootstrap_of_the_mean_is_what_the_module_says(
    n: int, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 2000)
    rng = draws(n)
    trials = 500  # SD of the coverage: below 0.02
    intervals = [stats.describe(rng.normal(0, 1, n), seed).mean_interval for seed in range(trials)]
    assert least < coverage(intervals, 0.0) < most


# -- rank-sum


def test_rank_sum_by_hand() -> None:
    # Of the C(6, 3) = 20 ways to give x three of six ranks, one has x on top.
    assert_near(stats.rank_sum([4, 5, 6], [1, 2, 3]), 1 / 20)
    # x may have ranks 12, 13, 23; its rank sum is 4 or more in two of three.
    assert_near(stats.rank_sum([1, 3], [2]), 2 / 3)
    # Ties: ranks 1, 7/2 four times, 6. x has 13, as the 6 with two of the four has (6 of 20 ways); nothing has more.
    assert_near(stats.rank_sum([2, 2, 3], [1, 2, 2]), 6 / 20)
    # Five runs that all beat five others: one way of C(10, 5) = 252, and one more for the other side.
    assert_near(stats.rank_sum([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]), 1 / 252)
    assert_near(stats.rank_sum([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], "two-sided"), 2 / 252)


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@given(x=some, y=some)
def test_rank_sum_is_scipys_exact_one_where_nothing_ties(alternative: Any, x: list[float], y: list[float]) -> None:
    p = there(stats.rank_sum(x, y, alternative))
    assert 0.0 < p <= 1.0
    if len({*x, *y}) == len(x) + len(y):
        assert_near(p, min(1.0, scipy.stats.mannwhitneyu(x, y, alternative=alternative, method="exact").pvalue))


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_rank_sum_with_ties_counts_every_way_to_deal_the_ranks_out(x: list[int], y: list[int]) -> None:
    ranks = scipy.stats.rankdata([*x, *y])
    sums = np.array([sum(c) for c in itertools.combinations(ranks, len(x))])
    mine = ranks[: len(x)].sum()
    greater, less = float((sums >= mine).mean()), float((sums <= mine).mean())
    assert_near(stats.rank_sum(x, y, "greater"), greater)
    assert_near(stats.rank_sum(x, y, "less"), less)
    assert_near(stats.rank_sum(x, y, "two-sided"), min(1.0, 2.0 * min(greater, less)))


def test_rank_sum_of_many_runs_is_the_normal_one_which_the_exact_one_has_come_close_to() -> None:
    x, y = draws(8).normal(0.4, 1, 50), draws(9).normal(0, 1, 51)
    normal = scipy.stats.mannwhitneyu(x, y, alternative="greater", method="asymptotic").pvalue
    assert stats.rank_sum(x, y) == normal
    fewer = there(stats.rank_sum(x, y[:50]))
    near = scipy.stats.mannwhitneyu(x, y[:50], alternative="greater", method="asymptotic").pvalue
    assert fewer != near and abs(fewer / near - 1.0) < 0.05


def test_the_smallest_p_that_so_many_runs_can_have() -> None:
    assert_near([stats.least_p(3, 3), stats.least_p(5, 5), stats.least_p(5, 2)], [2 / 20, 2 / 252, 2 / 21])
    assert stats.least_p(1, 1) == 1.0 and stats.least_p(0, 5) is None
    for n, m in ((2, 3), (4, 4), (5, 30)):
        assert_near(stats.rank_sum(range(n), range(n, n + m), "two-sided"), stats.least_p(n, m))


def test_rank_sum_of_equal_constants_and_of_nothing() -> None:
    assert stats.rank_sum([500.0] * 30, [500.0] * 30) == 1.0
    assert stats.rank_sum([1.0], [1.0]) == 1.0
    assert stats.rank_sum([], [1.0]) is stats.rank_sum([1.0], []) is stats.rank_sum([], []) is None


def test_rank_sum_rejects_a_true_null_hypothesis_as_often_as_it_says() -> None:
    rng = draws(3)
    ps = [stats.rank_sum(rng.normal(0, 1, 30), rng.normal(0, 1, 30)) for _ in range(1000)]
    assert 0.03 < np.mean([there(p) <= 0.05 for p in ps]) < 0.07  # SD 0.007


# -- Holm


def test_holm_by_hand() -> None:
    # Ascending: 4 * .005 = .02, 3 * .01 = .03, 2 * .03 = .06, 1 * .04 = .04 -> .06, no less than the one before.
    assert_near(stats.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.6, 0.9]) == [1.0, 1.0]
    assert stats.holm([None, 0.02, None, 0.5]) == [None, 0.04, None, 0.5]  # a family of two
    assert stats.holm([]) == [] and stats.holm([None]) == [None]


@given(st.lists(st.none() | probability, max_size=8), st.randoms(use_true_random=False))
def test_holm_is_monotone_at_least_p_at_most_one_and_knows_no_order(ps: list[float | None], random: Any) -> None:
    adjusted = stats.holm(ps)
    known = sorted((p, q) for p, q in zip(ps, adjusted, strict=True) if p is not None and q is not None)
    assert [p is None for p in ps] == [q is None for q in adjusted]
    assert all(p <= q <= 1.0 for p, q in known)
    assert [q for _, q in known] == sorted(q for _, q in known)
    order = random.sample(range(len(ps)), len(ps))
    assert stats.holm([ps[i] for i in order]) == [adjusted[i] for i in order]


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_holm_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(NeolError, match="must lie in"):
        stats.holm([0.5, p])


# -- A12


def test_a12_by_hand() -> None:
    assert there(stats.a12([1, 2, 3], [2])).estimate == 0.5  # (0 + 1/2 + 1) / 3
    assert there(stats.a12([2, 2, 3], [1, 2, 2])).estimate == 7 / 9
    # One run each, x ahead: N = 0, so (1 - t)^2 = z^2 t (1 - t), that is t = 1 / (1 + z^2).
    z = scipy.stats.norm.ppf(0.975)
    assert_near(stats.a12([1], [0]), [1.0, 1.0 / (1.0 + z * z), 1.0])
    # All tied, two runs each: N = 1. With t = 1/2 - d the bracket is 1 + (1/2 + d) / (3/2 + d) + (1/2 - d) / (3/2 - d),
    # = 1 + 2 (3/4 - d^2) / (9/4 - d^2). Let e = d^2: 4 e (9/4 - e) = z^2 (1/4 - e) (15/4 - 3 e), a quadratic in e:
    # (4 + 3 z^2) e^2 - (9 + 9/2 z^2) e + 15/16 z^2 = 0, of which the smaller root counts (e < 1/4).
    a, b, c = 4 + 3 * z * z, -(9 + 4.5 * z * z), 15 / 16 * z * z
    d = math.sqrt((-b - math.sqrt(b * b - 4 * a * c)) / (2 * a))
    assert_near(stats.a12([5, 5], [5, 5]), [0.5, 0.5 - d, 0.5 + d])
    assert stats.a12([], [1]) is stats.a12([1], []) is None


@given(some, some)
def test_a12_and_its_mirror_image_sum_to_one_and_it_is_u_over_the_pairs(x: list[float], y: list[float]) -> None:
    one, other = stats.a12(x, y), stats.a12(y, x)
    assert one is not None and other is not None
    assert_near(np.array(one) + np.array((other.estimate, other.high, other.low)), [1.0, 1.0, 1.0])
    u = sum((a > b) + 0.5 * (a == b) for a in x for b in y)
    assert_near(one.estimate, u / (len(x) * len(y)))
    assert one.low is not None and one.high is not None
    assert 0.0 <= one.low <= one.estimate <= one.high <= 1.0
    assert one.high - one.low > 0.0


def test_a12_of_tied_and_of_separated_samples_narrows_with_the_number_of_runs() -> None:
    for x, y in ((500.0, 500.0), (1.0, 0.0)):
        intervals = [there(stats.a12([x] * n, [y] * n)) for n in (1, 2, 5, 30, 100)]
        widths = [i.high - i.low for i in intervals]
        assert widths == sorted(widths, reverse=True) and 0.01 < widths[-1] < 0.2


@pytest.mark.parametrize(("n", "m"), [(30, 30), (10, 10), (5, 7)])
@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("sd", [1.0, 2.0])
def test_coverage_of_the_a12_interval(n: int, m: int, shift: float, sd: float) -> None:
    true = scipy.stats.norm.cdf(shift / math.hypot(1.0, sd))  # X - Y is normal
    rng = draws(n)
    trials = 400  # SD of the coverage: 0.011
    intervals = [stats.a12(rng.normal(shift, 1, n), rng.normal(0, sd, m)) for _ in range(trials)]
    assert 0.90 < coverage(intervals, true) < 0.995


def test_magnitude() -> None:
    words = {0.5: "negligible", 0.559: "negligible", 0.56: "small", 0.639: "small", 0.64: "medium", 0.709: "medium"}
    words |= {0.71: "large", 1.0: "large"}
    for effect, word in words.items():
        assert stats.magnitude(effect) == stats.magnitude(1.0 - effect) == word


# -- Brown-Forsythe


def test_brown_forsythe_by_hand() -> None:
    # z = 1, 0, 1 and 3, 0, 3: means 2/3 and 2, grand 4/3; between 3 * (2/3)^2 * 2 = 8/3; within 2/3 + 6 = 20/3.
    # W = (8/3 / 1) / (20/3 / 4) = 1.6 with 1 and 4 degrees of freedom.
    v = stats.brown_forsythe([0, 1, 2], [10, 13, 16])
    assert v is not None
    assert_near(v, [scipy.stats.f.sf(1.6, 1, 4), 1.0, 3.0, 1 / 3, 2 / 3, 2.0])


ordinary = st.lists(st.floats(-1e3, 1e3).map(lambda v: round(v, 3)), min_size=3, max_size=12)


@given(ordinary, ordinary)
def test_brown_forsythe_is_scipys(x: list[float], y: list[float]) -> None:
    v = stats.brown_forsythe(x, y)
    assert v is not None
    assert_defined(v)
    if v.p is not None and v.p < 1.0:
        assert_near(v.p, scipy.stats.levene(x, y, center="median").pvalue)
        assert v.p >= 0.0


def test_brown_forsythe_of_constants_and_few_runs() -> None:
    assert stats.brown_forsythe([500.0] * 30, [500.0] * 30) == (1.0, 0.0, 0.0, None, 0.0, 0.0)
    assert stats.brown_forsythe([0.1] * 30, [0.3] * 7) == (1.0, 0.0, 0.0, None, 0.0, 0.0)
    # Two runs lie equally far from their median: no z differs from its mean.
    assert there(stats.brown_forsythe([0.1, 0.2], [0.3, 0.9])).p is None
    assert there(stats.brown_forsythe([0.0, 1.0], [5.0, 6.0])).p == 1.0
    one = stats.brown_forsythe([500.0] * 10, draws(4).normal(400, 50, 10))
    assert one is not None and one.p is not None and one.p < 0.05 and one.ratio == 0.0
    turned = stats.brown_forsythe(draws(4).normal(400, 50, 10), [500.0] * 10)
    assert turned is not None and turned.p == one.p and turned.ratio is None
    assert stats.brown_forsythe([1.0], [1.0, 2.0]) is stats.brown_forsythe([1.0, 2.0], []) is None


def test_the_ratio_of_spreads_is_that_of_bonetts_own_package() -> None:
    # the example of ci.ratio.mad2 in his R package statpsych, to the digits that its page shows
    x, y = [32, 39, 26, 35, 43, 27, 40, 37, 34, 29], [36, 44, 47, 42, 49, 39, 46, 31, 33, 48]
    assert there(stats.spread_ratio(x, y)) == pytest.approx((0.8679245, 0.4520879, 1.666253), rel=1e-6)
    assert there(stats.spread_ratio(y, x)) == pytest.approx((1 / 0.8679245, 1 / 1.666253, 1 / 0.4520879), rel=1e-6)
    far = [1e9 + 1e-3 * v for v in x]
    assert there(stats.spread_ratio(far, y)).low == pytest.approx(0.4520879e-3, rel=1e-3)


def test_the_ratio_of_spreads_covers_the_true_one_and_needs_runs_that_differ() -> None:
    rng = draws(11)
    found = [there(stats.spread_ratio(rng.normal(0, 3, 10), rng.normal(50, 1, 10))) for _ in range(2000)]
    covered = np.mean([there(f.low) <= 3.0 <= there(f.high) for f in found])
    assert 0.94 < covered < 0.98
    assert stats.spread_ratio([1.0], [1.0, 2.0]) is stats.spread_ratio([1.0, 2.0], [5.0, 5.0]) is None


# -- comparisons


def test_compare_is_its_parts_with_holm_over_the_pairs() -> None:
    rng = draws(5)
    scores = {"bcm": rng.normal(324, 4, 30), "hebb": rng.normal(318, 4, 29), "neat": rng.normal(312, 8, 30)}
    pairs = [("bcm", "neat"), ("hebb", "neat"), ("bcm", "hebb")]
    found = stats.compare("lunarlander", scores, pairs, 3)
    assert [(c.task, c.arm, c.against) for c in found] == [("lunarlander", *pair) for pair in pairs]
    assert [c.p_holm for c in found] == stats.holm([c.p for c in found])
    for c in found:
        x, y = scores[c.arm], scores[c.against]
        assert (c.n, c.n_against, c.p) == (len(x), len(y), stats.rank_sum(x, y, "two-sided"))
        assert c.p_better == stats.rank_sum(x, y)
        assert c.a12 == stats.a12(x, y) and c.variance == stats.brown_forsythe(x, y)
        assert c.difference == stats.difference(x, y, 3) and c.spread == stats.spread_ratio(x, y)
        assert c.difference is not None
        assert_near(c.difference.estimate, x.mean() - y.mean())
    assert stats.compare("lunarlander", scores, pairs, 3) == found
    changed = stats.compare("lunarlander", scores, pairs, 4)
    assert all(a.difference != b.difference and a[:11] == b[:11] for a, b in zip(found, changed, strict=True))


def test_arms_that_are_missing_or_empty_say_nothing_and_are_not_in_the_family() -> None:
    pairs = [("hebb", "neat"), ("oja", "neat"), ("bcm", "neat")]
    hebb, oja, bcm = stats.compare("t", {"hebb": [4, 5, 6], "oja": [], "neat": [1, 2, 3]}, pairs, 0)
    assert hebb.p_holm == hebb.p == hebb.p_least == 2 / 20 and hebb.p_better == 1 / 20
    assert oja == ("t", "oja", "neat", 0, 3, *[None] * 8)
    assert bcm == ("t", "bcm", "neat", 0, 3, *[None] * 8)
    assert stats.compare("t", {}, [], 0) == []


def test_the_least_p_is_that_of_a_family_in_which_every_pair_is_separated() -> None:
    scores = {"a": range(10, 15), "b": range(20, 25), "c": range(30, 33), "neat": range(5)}
    pairs = [(arm, "neat") for arm in "abc"]
    found = stats.compare("t", scores, pairs, 0)
    assert [c.p_least for c in found] == [c.p_holm for c in found] == stats.holm([2 / 252, 2 / 252, 2 / 56])


def test_students_interval_of_many_columns_is_that_of_each() -> None:
    rows = draws(10).normal(0, 1, (7, 4))
    low, high = stats.mean_intervals(rows)
    each = [stats.mean_interval(np.ascontiguousarray(column)) for column in rows.T]
    assert_near([low, high], np.transpose(each))


def test_the_difference_of_means_is_covered() -> None:
    rng = draws(6)
    found = [stats.difference(rng.normal(2, 1, 30), rng.normal(0, 2, 30), seed) for seed in range(300)]
    assert 0.90 < coverage(found, 2.0) < 0.98  # SD 0.013


# -- over tasks


def test_normalise() -> None:
    assert stats.normalise([150, 100, 300], 100, 200).tolist() == [0.5, 0.0, 2.0]
    for low, high in ((1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)):
        with pytest.raises(NeolError, match="finite low < high"):
            stats.normalise([1.0], low, high)


def test_aggregate_by_hand() -> None:
    # b's run counts twice, so that both tasks weigh alike: 0 1 2 2, of which one is cut at each end.
    assert stats.aggregate({"a": [1, 0], "b": [2]}, 0) == Interval(1.5, None, None)
    # Six common places: a 0 0 0 6 6 6, b 1 1 2 2 3 3; ascending 000112233666, three cut at each end: (1 1 2 2 3 3) / 6
    found = stats.aggregate({"a": [0, 6], "b": [1, 2, 3]}, 0)
    assert found is not None and found.estimate == 2.0
    assert stats.aggregate({}, 0) is stats.aggregate({"a": [1.0], "b": []}, 0) is None
    assert stats.aggregate({"a": [1.0] * 30, "b": [1.0] * 3}, 0) == Interval(1.0, 1.0, 1.0)


@settings(max_examples=examples(20))
@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 2**31))
def test_aggregate_of_equal_numbers_of_runs_is_the_trimmed_mean_of_all(n: int, tasks: int, seed: int) -> None:
    scores = draws(seed).normal(0, 1, (tasks, n))
    found = stats.aggregate({str(t): x for t, x in enumerate(scores)}, seed)
    assert found is not None and found.low is not None and found.high is not None
    assert_near(found.estimate, scipy.stats.trim_mean(scores, 0.25, axis=None))
    assert found.low <= found.high
    assert stats.aggregate({str(t): scores[t, ::-1] for t in reversed(range(tasks))}, seed) == found  # in any order


def test_strata_keep_their_numbers_of_runs() -> None:
    """Tasks far apart: their distance must not widen the interval, as it would if runs were drawn from all of them."""
    rng = draws(7)
    near, far = rng.normal(0, 1, 30), rng.normal(1000, 1, 30)
    found = stats.aggregate({"near": near, "far": far}, 0)
    assert found is not None and found.low is not None and found.high is not None
    assert found.high - found.low < 2.0
    assert found != stats.aggregate({"near": near, "far": far}, 1)


def test_aggregate_is_the_bootstrap_of_the_trimmed_mean_with_a_stream_per_task() -> None:
    scores = draws(9).normal(0, 1, (2, 6))
    rows = [np.sort(x)[resamples(5, t, stats.RESAMPLES, 6)] for t, x in enumerate(scores)]
    slow = scipy.stats.trim_mean(np.concatenate(rows, axis=1), 0.25, axis=1)
    found = there(stats.aggregate({"a": scores[0], "b": scores[1]}, 5))
    assert_near(found[1:], np.quantile(slow, [0.025, 0.975]))


def test_probability_of_improvement_by_hand() -> None:
    # A12 is 1 on a and 1/2 on b.
    x, y = {"a": [2, 3], "b": [1, 1]}, {"a": [0, 1], "b": [1, 1]}
    assert stats.probability_of_improvement(x, y, 0) == Interval(0.75, 0.75, 0.75)
    assert stats.probability_of_improvement({"a": [2]}, {"a": [1, 3]}, 0) == Interval(0.5, None, None)
    assert stats.probability_of_improvement({"a": [2]}, {"a": [1], "b": [1]}, 0) is None
    assert stats.probability_of_improvement({"a": []}, {"a": [1]}, 0) is None
    assert stats.probability_of_improvement({}, {}, 0) is None


def test_probability_of_improvement_is_the_bootstrap_of_a12() -> None:
    rng = draws(8)
    x = {"a": rng.normal(1, 1, 12), "b": rng.integers(0, 4, 7).astype(float)}
    y = {"a": rng.normal(0, 1, 9), "b": rng.integers(0, 4, 11).astype(float)}
    found = stats.probability_of_improvement(x, y, 5)
    a12s = []
    for t, task in enumerate("ab"):  # slowly: draw, then count
        a = np.sort(x[task])[resamples(5, 2 * t, stats.RESAMPLES, len(x[task]))]
        b = np.sort(y[task])[resamples(5, 2 * t + 1, stats.RESAMPLES, len(y[task]))]
        a12s.append([np.mean((v[:, None] > w) + 0.5 * (v[:, None] == w)) for v, w in zip(a, b, strict=True)])
    means = np.mean(a12s, axis=0)
    assert found is not None
    assert_near(found[1:], np.quantile(means, [0.025, 0.975]))
    assert found != stats.probability_of_improvement(x, y, 6)
    turned = stats.probability_of_improvement(y, x, 5)
    assert turned is not None
    assert_near(turned.estimate, 1.0 - found.estimate)


# -- every function on samples that are hard to say anything of

TWO: list[Callable[[Any, Any], Any]] = [
    stats.rank_sum,
    stats.a12,
    stats.brown_forsythe,
    stats.spread_ratio,
    lambda x, y: stats.difference(x, y, 0),
    lambda x, y: stats.compare("t", {"a": x, "b": y}, [("a", "b"), ("b", "a"), ("a", "a"), ("a", "c")], 0),
    lambda x, y: stats.probability_of_improvement({"a": x, "b": y}, {"a": y, "b": x}, 0),
    lambda x, y: stats.aggregate({"a": x, "b": y}, 0),
    lambda x, y: (stats.describe(x, 0), stats.iqm(y)),
]
HARD = [
    [],
    [1.0],
    [2.0],
    [1.0, 1.0],
    [1.0, 2.0],
    [0.1, 0.2],
    [1.0, 1.0, 2.0],
    [500.0] * 30,
    [0.1] * 9 + [0.2],
    [1e-300, 1e6],
]


@pytest.mark.parametrize("function", range(len(TWO)))
def test_hard_samples_give_defined_answers_without_a_warning(function: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 200)
    for x in HARD:
        for y in HARD:
            assert_defined(TWO[function](x, y))


@settings(max_examples=examples(30))
@given(sample, sample)
def test_any_samples_give_defined_answers(x: list[float], y: list[float]) -> None:
    for function in TWO:
        assert_defined(function(x, y))


@pytest.mark.parametrize("function", range(len(TWO)))
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_refused_in_one_sentence(function: int, bad: float) -> None:
    with pytest.raises(NeolError, match=r"^scores must be finite numbers, one per run; 1 of 2 are NaN or infinite\.$"):
        TWO[function]([1.0, bad], [1.0, bad])


def test_a_table_of_episodes_is_no_sample_of_runs() -> None:
    with pytest.raises(NeolError, match=r"one number per run, not an array of shape \(3, 100\)"):
        stats.describe(np.zeros((3, 100)), 0)
