"""Statistics over independent runs: one number per run (seed), never per episode. Higher scores are better.

What cannot be said is None, never NaN: an empty sample has no statistics, one run has no spread and no bootstrap
interval. Intervals are at 95 %. Bootstrap intervals are percentile intervals (Efron 1979) as in rliable (Agarwal et al.
2021), seeded; they do not depend on the order of the runs. They are too narrow for few runs: the mean of normal scores
is covered 94 % of the time with 30 runs, 90 % with 10, 84 % with 5, 75 % with 3 and 50 % with 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from neol.errors import NeolError
from neol.seeding import resamples

RESAMPLES = 10_000
LEVEL = 0.95
_Z = 1.959963984540054  # the standard normal's quantile at (1 + LEVEL) / 2
_ROUNDING = 1e-12  # differences below this part of the largest score are rounding
EXACT = 100  # runs of both samples together up to which the rank-sum test is exact

Alternative: TypeAlias = Literal["greater", "less", "two-sided"]


class Interval(NamedTuple):
    """An estimate and its 95 % interval; low and high are None where there are too few runs for one."""

    estimate: float
    low: float | None
    high: float | None


class SampleSummary(NamedTuple):
    """One sample. n = 0: all else is None. n = 1: no SD, and no ends of the intervals."""

    n: int
    mean: float | None
    sd: float | None  # with n - 1
    median: float | None
    iqm: Interval | None
    mean_interval: Interval | None


class Variance(NamedTuple):
    """Do two samples spread differently? ratio < 1: the first is tighter."""

    p: float | None  # Brown-Forsythe, two-sided; None where the test has nothing to measure by
    sd: float
    sd_against: float
    ratio: float | None  # sd / sd_against; None when sd_against = 0
    distance: float  # mean |x - median|: what the test compares
    distance_against: float


class Comparison(NamedTuple):
    """One arm against another on one task."""

    task: str
    arm: str
    against: str
    n: int
    n_against: int
    p: float | None  # rank-sum, two-sided
    p_holm: float | None  # the same, adjusted for the family of comparisons
    p_least: float | None  # the smallest p_holm that this many runs can have: with every pair of samples separated
    p_better: float | None  # one-sided, the arm is better, not adjusted: the paper's test
    a12: Interval | None
    variance: Variance | None
    difference: Interval | None  # of means, arm - against
    spread: Interval | None  # ratio of mean distances from the median, arm / against


# -- one sample


def _scores(x: ArrayLike) -> np.ndarray:
    """The sample as f8 (n,), ascending."""
    scores = np.asarray(x, float)
    if scores.ndim != 1:
        raise NeolError(f"scores must be a list with one number per run, not an array of shape {scores.shape}.")
    bad = scores.size - int(np.isfinite(scores).sum())
    if bad:
        raise NeolError(f"scores must be finite numbers, one per run; {bad} of {scores.size} are NaN or infinite.")
    return np.sort(scores)


def _means(rows: np.ndarray) -> np.ndarray:
    """Means along the last axis, kept within each row's range: the mean of equal numbers is that number, exactly."""
    return np.clip(rows.mean(axis=-1), rows.min(axis=-1), rows.max(axis=-1))


def _iqms(rows: np.ndarray) -> np.ndarray:
    """Means of the middle half of ascending rows: floor(n / 4) runs are cut at each end."""
    n = rows.shape[-1]
    return _means(rows[..., n // 4 : n - n // 4])


def _sd(x: np.ndarray) -> float:
    """sqrt(sum (x - mean)^2 / (n - 1)); exactly 0 for a constant."""
    return math.sqrt(float(((x - _means(x)) ** 2).sum()) / (len(x) - 1))


def _resampled(x: np.ndarray, seed: int, stratum: int = 0) -> np.ndarray:
    """Bootstrap samples f8 (RESAMPLES, n)."""
    return x[resamples(seed, stratum, RESAMPLES, len(x))]


def _percentiles(estimate: float, resampled: np.ndarray) -> Interval:
    low, high = np.quantile(resampled, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(float(estimate), float(low), float(high))


def iqm(x: ArrayLike) -> float | None:
    """Interquartile mean, SciPy's trim_mean(x, 0.25) as in rliable; the mean when n < 4, None when n = 0."""
    scores = _scores(x)
    return float(_iqms(scores)) if len(scores) else None


def describe(x: ArrayLike, seed: int) -> SampleSummary:
    """Mean, SD, median and IQM of a sample, with bootstrap intervals."""
    scores = _scores(x)
    n = len(scores)
    if n == 0:
        return SampleSummary(0, None, None, None, None, None)
    mean, median, middle = float(_means(scores)), float(np.median(scores)), float(_iqms(scores))
    if n == 1:
        return SampleSummary(1, mean, None, median, Interval(middle, None, None), Interval(mean, None, None))
    rows = np.sort(_resampled(scores, seed), axis=1)
    return SampleSummary(
        n, mean, _sd(scores), median, _percentiles(middle, _iqms(rows)), _percentiles(mean, _means(rows))
    )  # fmt: skip


def mean_interval(values: np.ndarray) -> tuple[float, float]:
    """Student's 95 % interval of the mean of values f8 (n,): low, high; both are the mean when n = 1."""
    low, high = mean_intervals(values)
    return float(low), float(high)


def mean_intervals(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same along the first axis: rows f8 (n, ...) -> low, high f8 (...)."""
    from scipy.special import stdtrit

    n, mean = len(rows), rows.mean(axis=0)
    if n < 2:
        return mean, mean
    half = float(stdtrit(n - 1, (1.0 + LEVEL) / 2.0)) * rows.std(axis=0, ddof=1) / math.sqrt(n)
    return mean - half, mean + half


# -- two samples


def rank_sum(x: ArrayLike, y: ArrayLike, alternative: Alternative = "greater") -> float | None:
    """p of Wilcoxon's rank-sum (Mann-Whitney U) test; "greater": x is better than y. None when a sample is empty.

    Exact for up to EXACT runs in all, ties included; beyond that normal with corrections for ties and continuity.
    Two-sided: twice the smaller side, at most 1. When all scores are equal nothing speaks against the null hypothesis:
    p = 1.
    """
    a, b = _scores(x), _scores(y)
    if not len(a) or not len(b):
        return None
    if min(a[0], b[0]) == max(a[-1], b[-1]):
        return 1.0
    if len(a) + len(b) > EXACT:
        from scipy.stats import mannwhitneyu

        return min(1.0, float(mannwhitneyu(a, b, alternative=alternative, method="asymptotic").pvalue))
    greater, less = _exact_tails(a, b)
    return {"greater": greater, "less": less, "two-sided": min(1.0, 2.0 * min(greater, less))}[alternative]


def _exact_tails(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """P(rank sum >= that of a) and P(rank sum <= that of a) over all ways to deal the ranks out; ties share theirs.

    ways[k, s]: how many sets of k runs have the sum s of doubled ranks (doubled, they are whole), counted in one pass
    over the runs.
    """
    if len(a) > len(b):
        return _exact_tails(b, a)[::-1]
    every = np.sort(np.concatenate([a, b]))
    ranks = np.searchsorted(every, every, "left") + np.searchsorted(every, every, "right") + 1
    mine = int((np.searchsorted(every, a, "left") + np.searchsorted(every, a, "right") + 1).sum())
    ways = np.zeros((len(a) + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, :-rank]
    last = ways[-1]
    return float(last[mine:].sum() / last.sum()), float(last[: mine + 1].sum() / last.sum())


def least_p(n: int, m: int) -> float | None:
    """The smallest two-sided p of a rank-sum test of n runs against m: that of complete separation."""
    return min(1.0, 2.0 / math.comb(n + m, n)) if n and m else None


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) adjusted p values, in the order given. None stays None and is not counted in the family."""
    known = [i for i, p in enumerate(ps) if p is not None]
    raw = np.array([ps[i] for i in known], float)
    if not ((raw >= 0.0) & (raw <= 1.0)).all():
        raise NeolError(f"p values must lie in [0, 1], not {raw.tolist()}.")
    order = np.argsort(raw, kind="stable")
    m = len(raw)
    # p~(k) = max over j <= k of min(1, (m - j + 1) p(j)), p(1) <= ... <= p(m)
    stepped = np.maximum.accumulate(np.minimum(1.0, (m - np.arange(m)) * raw[order]))
    adjusted: list[float | None] = [None] * len(ps)
    for k, p in zip(order, stepped, strict=True):
        adjusted[known[k]] = float(p)
    return adjusted


def a12(x: ArrayLike, y: ArrayLike) -> Interval | None:
    """Vargha and Delaney's A12 = P(X > Y) + P(X = Y) / 2, with Newcombe's (2006) score interval, his method 5.

    That interval, unlike Wald's and the bootstrap's, keeps its width when samples are all tied or fully separated.
    Its variance is that of untied scores, so that ties make it wider than need be. With both sizes and spreads unequal
    (30 runs against 3 that spread twice as much) it covers as little as 85 %. None when a sample is empty.
    """
    a, b = _scores(x), _scores(y)
    if not len(a) or not len(b):
        return None
    below, up_to = (int(np.searchsorted(b, a, side).sum()) for side in ("left", "right"))
    pairs = len(a) * len(b)
    theta = (below + up_to) / (2 * pairs)  # wins + ties / 2
    mirrored = (2 * pairs - below - up_to) / (2 * pairs)  # of y over x
    return Interval(theta, _newcombe_low(theta, len(a), len(b)), 1.0 - _newcombe_low(mirrored, len(a), len(b)))


def _newcombe_low(theta: float, n: int, m: int) -> float:
    """The t < theta with (theta - t)^2 = z^2 t (1 - t) (1 + N ((1 - t) / (2 - t) + t / (1 + t))) / (n m).

    N = (n + m) / 2 - 1. The equation is its own mirror image at 1/2, which gives the upper end.
    """
    low, high, extra = 0.0, theta, (n + m) / 2.0 - 1.0
    for _ in range(60):  # bisection; at low the left side is the larger one
        t = (low + high) / 2.0
        variance = t * (1.0 - t) * (1.0 + extra * ((1.0 - t) / (2.0 - t) + t / (1.0 + t))) / (n * m)
        if (theta - t) ** 2 > _Z**2 * variance:
            low = t
        else:
            high = t
    return low


def magnitude(effect: float) -> str:
    """A12 in Vargha and Delaney's (2000) words, whichever side is better."""
    distance = round(max(effect, 1.0 - effect), 12)
    words = ((0.56, "negligible"), (0.64, "small"), (0.71, "medium"))
    return next((word for bound, word in words if distance < bound), "large")


def brown_forsythe(x: ArrayLike, y: ArrayLike) -> Variance | None:
    """Brown and Forsythe's (1974) test of equal spread: Levene's on z = |x - median|. None when n < 2 in a sample.

    Without any difference among the z of a sample (constants, two runs each) there is nothing to measure by: p = 1 when
    the samples spread alike, as two constants do, else None.
    """
    a, b = _scores(x), _scores(y)
    if len(a) < 2 or len(b) < 2:
        return None
    sd, sd_against = _sd(a), _sd(b)
    ratio = sd / sd_against if sd_against > 0.0 else None
    centred, centred_against = a - np.median(a), b - np.median(b)
    z, z_against = np.abs(centred), np.abs(centred_against)
    rounding = _ROUNDING * max(np.abs(a).max(), np.abs(b).max())
    p: float | None
    if np.ptp(z) <= rounding and np.ptp(z_against) <= rounding:
        p = 1.0 if abs(z.mean() - z_against.mean()) <= rounding else None
    else:
        from scipy.stats import levene

        scale = max(z.max(), z_against.max())  # the test has none; squares of tiny numbers would be 0
        p = float(levene(centred / scale, centred_against / scale, center="median").pvalue)
    return Variance(p, sd, sd_against, ratio, float(z.mean()), float(z_against.mean()))


def spread_ratio(x: ArrayLike, y: ArrayLike) -> Interval | None:
    """c_x tau_x / (c_y tau_y): tau, the mean distance from the median, is what Brown and Forsythe's test compares.

    Bonett and Seier's (2003) interval: ln (c_x tau_x / c_y tau_y) -+ z sqrt(v_x + v_y), c = n / (n - 1). With normal
    scores it covers 97 % of the time with 5 runs a side, 96 % with 10 or 30, with exponential ones 93, 91 and 93 %;
    where one run in thirty crashes, 30 SD below the others, each end misses the ratio in about a tenth of samples.
    None when n < 2 in a sample, or one spreads by no more than rounding.
    """
    a, b = _scores(x), _scores(y)
    if len(a) < 2 or len(b) < 2 or _constant(a) or _constant(b):
        return None
    (log_a, v_a), (log_b, v_b) = _log_spread(a), _log_spread(b)
    half = _Z * math.sqrt(v_a + v_b)
    if abs(log_a - log_b) + half > 700.0:  # beyond what a number can hold
        return None
    low, estimate, high = (math.exp(log_a - log_b + d) for d in (-half, 0.0, half))
    return Interval(estimate, low, high)


def _constant(x: np.ndarray) -> bool:
    """Whether an ascending sample differs by rounding alone."""
    return bool(x[-1] / 2.0 - x[0] / 2.0 <= _ROUNDING * np.abs(x).max())


def _log_spread(x: np.ndarray) -> tuple[float, float]:
    """ln (c tau), and its variance v = (((mean - median) / tau)^2 + (sd / tau)^2 - 1) / n."""
    n, scale = len(x), float(np.abs(x).max())
    unit = x / scale  # squares of tiny numbers would be 0, of huge ones infinite
    middle = float(np.median(unit))
    tau = float(np.abs(unit - middle).mean())
    variance = (((float(unit.mean()) - middle) / tau) ** 2 + (_sd(unit) / tau) ** 2 - 1.0) / n
    return math.log(n / (n - 1) * tau) + math.log(scale), variance


def difference(x: ArrayLike, y: ArrayLike, seed: int) -> Interval | None:
    """mean(x) - mean(y), each sample resampled on its own; no ends when either has one run, None when one is empty."""
    a, b = _scores(x), _scores(y)
    if not len(a) or not len(b):
        return None
    estimate = float(_means(a) - _means(b))
    if len(a) < 2 or len(b) < 2:
        return Interval(estimate, None, None)
    return _percentiles(estimate, _means(_resampled(a, seed, 0)) - _means(_resampled(b, seed, 1)))


def adaptation_score(x: ArrayLike, controls: Sequence[ArrayLike], oracle: ArrayLike, seed: int) -> Interval | None:
    """(mean x - c) / (mean oracle - c), where c is the highest mean of the controls, chosen anew in each resample.

    None where the oracle is no better than that control, or a sample is empty; no ends where one has one run, or where
    more than a fortieth of the resamples have no such oracle.
    """
    samples = [_scores(x), _scores(oracle), *map(_scores, controls)]
    if len(samples) < 3 or not all(map(len, samples)):
        return None
    own, told, best = float(_means(samples[0])), float(_means(samples[1])), max(float(_means(s)) for s in samples[2:])
    if told <= best:
        return None
    estimate = (own - best) / (told - best)
    if min(map(len, samples)) < 2:
        return Interval(estimate, None, None)
    rows = np.array([_means(_resampled(s, seed, i)) for i, s in enumerate(samples)])  # f8 (2 + controls, RESAMPLES)
    low = rows[2:].max(axis=0)
    known = rows[1] > low
    if (~known).mean() > (1.0 - LEVEL) / 2.0:
        return Interval(estimate, None, None)
    return _percentiles(estimate, ((rows[0] - low)[known] / (rows[1] - low)[known]))


def compare(
    task: str, scores: Mapping[str, ArrayLike], pairs: Sequence[tuple[str, str]], seed: int
) -> list[Comparison]:
    """Each (arm, against) of `pairs` on one task; they are Holm's family, but for those that could not be tested.

    An arm without runs, or not in `scores`, has n = 0 and None wherever nothing can be said.
    """
    samples = {arm: _scores(scores.get(arm, ())) for pair in pairs for arm in pair}
    both = [(samples[arm], samples[against]) for arm, against in pairs]
    tests = [rank_sum(x, y, "two-sided") for x, y in both]
    least = holm([least_p(len(x), len(y)) for x, y in both])  # Holm's p grows with every p of the family
    return [
        Comparison(
            task, arm, against, len(x), len(y), p, p_holm, p_least, rank_sum(x, y), a12(x, y), brown_forsythe(x, y),
            difference(x, y, seed), spread_ratio(x, y),
        )
        for (arm, against), (x, y), p, p_holm, p_least in zip(pairs, both, tests, holm(tests), least, strict=True)
    ]  # fmt: skip


# -- over tasks


def normalise(scores: ArrayLike, low: float, high: float) -> np.ndarray:
    """(score - low) / (high - low), in the order given: 0 at low, 1 at high, not clipped."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise NeolError(f"scores are normalised between finite low < high, not low = {low}, high = {high}.")
    _scores(scores)  # refuses what is not finite
    return (np.asarray(scores, float) - low) / (high - low)


def _weighted_iqms(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The IQM of each row as if its run i stood there weight[i] times."""
    order = np.argsort(rows, axis=1, kind="stable")
    here = weight[order]
    up_to = np.cumsum(here, axis=1)
    total = int(weight.sum())
    cut = total // 4
    kept = np.clip(np.minimum(up_to, total - cut) - np.maximum(up_to - here, cut), 0, None)
    means = (np.take_along_axis(rows, order, axis=1) * kept).sum(axis=1) / (total - 2 * cut)
    return np.clip(means, rows.min(axis=1), rows.max(axis=1))


def aggregate(scores_by_task: Mapping[str, ArrayLike], seed: int) -> Interval | None:
    """IQM of normalised scores over all runs of all tasks, resampled within each task (rliable's).

    Tasks weigh alike however many runs they have: runs count as if repeated up to a common number per task. None when a
    task is empty (another set of tasks is another quantity: leave it out for all arms); no ends when one has one run.
    """
    samples = [_scores(scores_by_task[task]) for task in sorted(scores_by_task)]
    if not samples or not all(len(x) for x in samples):
        return None
    common = math.lcm(*(len(x) for x in samples))
    weight = np.concatenate([np.full(len(x), common // len(x)) for x in samples])
    estimate = float(_weighted_iqms(np.concatenate(samples)[None], weight)[0])
    if min(len(x) for x in samples) < 2:
        return Interval(estimate, None, None)
    rows = np.concatenate([_resampled(x, seed, i) for i, x in enumerate(samples)], axis=1)
    return _percentiles(estimate, _weighted_iqms(rows, weight))


def _counts(n: int, seed: int, stratum: int) -> np.ndarray:
    """How often each of n runs is drawn in each bootstrap sample, f8 (RESAMPLES, n)."""
    places = resamples(seed, stratum, RESAMPLES, n) + n * np.arange(RESAMPLES)[:, None]
    return np.bincount(places.ravel(), minlength=RESAMPLES * n).reshape(RESAMPLES, n).astype(float)


def probability_of_improvement(
    xs_by_task: Mapping[str, ArrayLike], ys_by_task: Mapping[str, ArrayLike], seed: int
) -> Interval | None:
    """Mean over tasks of A12 of x over y, resampled within each task and arm (rliable's).

    None when a task is missing or empty on one side; no ends when a sample has one run.
    """
    tasks = sorted(xs_by_task.keys() | ys_by_task.keys())
    samples = [(_scores(xs_by_task.get(task, ())), _scores(ys_by_task.get(task, ()))) for task in tasks]
    if not samples or not all(len(s) for pair in samples for s in pair):
        return None
    wins = [(x[:, None] > y) + 0.5 * (x[:, None] == y) for x, y in samples]  # f8 (n, m): 1, 1/2 or 0
    estimate = float(np.mean([w.mean() for w in wins]))
    if min(len(s) for pair in samples for s in pair) < 2:
        return Interval(estimate, None, None)
    resampled = np.zeros(RESAMPLES)
    for i, w in enumerate(wins):  # A12* = sum_jk c_j w_jk d_k / (n m) with the draws' counts c, d: exact halves
        c, d = _counts(w.shape[0], seed, 2 * i), _counts(w.shape[1], seed, 2 * i + 1)
        resampled += ((c @ w) * d).sum(axis=1) / (w.size * len(wins))
    return _percentiles(estimate, resampled)
