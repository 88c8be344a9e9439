"""CMA-ES: a normal distribution over n genes that learns its mean, its step size and its covariance.

    x_i = m + sigma A z_i,  z_i ~ N(0, I),  C = A A^T                              sampling

A is a lower triangle, and is updated itself: one rank-one update for each term of the covariance's (Krause, Arbones
and Igel 2016). So a generation costs O(lambda n^2), needs no eigenvectors and no BLAS, whose threads would fight the
rollout's and whose sums depend on their number. Equation numbers are those of Hansen's tutorial (2016, arXiv
1604.00772); negative weights ("active") included. `sep` keeps C diagonal (Ros and Hansen 2008): O(lambda n).
Here fitness is maximised. Legend: n genes searched, L = lambda samples, mu = L // 2 parents.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neol.jit import kernel

LARGEST_SIGMA, SMALLEST_SIGMA = 1e6, 1e-12
POWER_STEPS = 40  # of the power iteration for the condition number


class Cma(NamedTuple):
    """The distribution. A diagonal one has `factor` f8 (n, 1)."""

    mean: np.ndarray  # f8 (n,) m
    sigma: np.ndarray  # f8 (1,)
    factor: np.ndarray  # f8 (n, n) A, lower triangle | (n, 1) its diagonal
    path_sigma: np.ndarray  # f8 (n,) p_sigma
    path_c: np.ndarray  # f8 (n,) p_c
    told: np.ndarray  # i8 (1,) generations

    @property
    def diagonal(self) -> bool:
        return self.factor.shape[1] == 1 and len(self.mean) > 1


def new_cma(mean: np.ndarray, scale: np.ndarray, sigma: float, diagonal: bool = False) -> Cma:
    """Around `mean` f8 (n,) with standard deviations sigma * scale f8 (n,)."""
    n = len(mean)
    factor = scale[:, None].copy() if diagonal else np.diag(scale)
    return Cma(mean.copy(), np.array([sigma]), factor, np.zeros(n), np.zeros(n), np.zeros(1, np.int64))


def default_samples(n: int) -> int:
    """4 + floor(3 ln n) (48)."""
    return 4 + int(3 * math.log(max(n, 1)))


class LearningRates(NamedTuple):
    """Weights and learning rates for n genes and L samples (Table 1)."""

    weights: np.ndarray  # f8 (L,) of the samples, the fittest first: sum of the positive ones = 1
    mu_eff: float
    c_sigma: float
    d_sigma: float
    c_c: float
    c_1: float
    c_mu: float


def rates(n: int, samples: int, diagonal: bool) -> LearningRates:
    """Table 1, (49) to (58)."""
    raw = math.log((samples + 1) / 2) - np.log(np.arange(1, samples + 1))  # (49)
    mu = samples // 2
    mu_eff = raw[:mu].sum() ** 2 / (raw[:mu] ** 2).sum()  # (8)
    mu_eff_minus = raw[mu:].sum() ** 2 / (raw[mu:] ** 2).sum()
    c_sigma = (mu_eff + 2) / (n + mu_eff + 5)  # (55)
    d_sigma = 1 + 2 * max(0.0, math.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma
    c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)  # (56)
    c_1 = 2 / ((n + 1.3) ** 2 + mu_eff)  # (57)
    c_mu = min(1 - c_1, 2 * (0.25 + mu_eff + 1 / mu_eff - 2) / ((n + 2) ** 2 + mu_eff))  # (58)
    if diagonal:  # so many fewer numbers are learned that each may be learned faster
        c_1, c_mu = min(1.0, c_1 * (n + 2) / 3), min(1.0, c_mu * (n + 2) / 3)
        c_mu = min(c_mu, 1 - c_1)
    negative = min(1 + c_1 / c_mu, 1 + 2 * mu_eff_minus / (mu_eff + 2), (1 - c_1 - c_mu) / (n * c_mu))  # (50) to (53)
    positive_sum, negative_sum = raw[raw > 0].sum(), -raw[raw < 0].sum()
    weights = np.where(raw >= 0, raw / positive_sum, max(0.0, negative) * raw / negative_sum)
    return LearningRates(weights, mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu)


def sample(cma: Cma, noise: np.ndarray) -> np.ndarray:
    """x f8 (L, n) from standard normal z f8 (L, n) (38) to (40)."""
    return cma.mean + cma.sigma[0] * (noise * cma.factor[:, 0] if cma.diagonal else _multiply(cma.factor, noise))


def updated(cma: Cma, found: np.ndarray, fitness: np.ndarray) -> Cma:
    """The distribution after its samples f8 (L, n) had this fitness f8 (L,).

    `found` may differ from what was sampled (a life that learned and whose weights are inherited). Steps that are
    far longer than any that the distribution would take are shortened (Hansen 2011, injected solutions).
    """
    n, samples = len(cma.mean), len(found)
    r = rates(n, samples, cma.diagonal)
    order = np.argsort(-fitness, kind="stable")
    steps = (found[order] - cma.mean) / cma.sigma[0]  # y_i:L
    white = steps / cma.factor[:, 0] if cma.diagonal else _solve(cma.factor, steps)  # A^-1 y, f8 (L, n)
    lengths = np.sqrt((white**2).sum(axis=1))
    longest = math.sqrt(n) + 2 * n / (n + 2) * 2.0
    shorten = np.minimum(1.0, longest / np.maximum(lengths, 1e-300))
    steps, white, lengths = steps * shorten[:, None], white * shorten[:, None], lengths * shorten
    mu = samples // 2
    parents = r.weights[:mu, None]
    y_w, z_w = (parents * steps[:mu]).sum(axis=0), (parents * white[:mu]).sum(axis=0)  # (41); no BLAS
    mean = cma.mean + cma.sigma[0] * y_w  # (42), c_m = 1
    path_sigma = (1 - r.c_sigma) * cma.path_sigma + math.sqrt(r.c_sigma * (2 - r.c_sigma) * r.mu_eff) * z_w  # (43)
    length = math.sqrt(float((path_sigma**2).sum()))
    expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # E |N(0, I)|
    sigma = cma.sigma * math.exp(min(1.0, r.c_sigma / r.d_sigma * (length / expected - 1)))  # (44)
    told = cma.told + 1
    settled = 1 - (1 - r.c_sigma) ** (2 * int(told[0]))
    h = 1.0 if length / math.sqrt(settled) < (1.4 + 2 / (n + 1)) * expected else 0.0
    path_c = (1 - r.c_c) * cma.path_c + h * math.sqrt(r.c_c * (2 - r.c_c) * r.mu_eff) * y_w  # (45)
    weights = np.where(r.weights >= 0, r.weights, r.weights * n / np.maximum(lengths**2, 1e-300))  # (46)
    keep = 1 + r.c_1 * (1 - h) * r.c_c * (2 - r.c_c) - r.c_1 - r.c_mu * r.weights.sum()  # (47)
    if cma.diagonal:
        grown = keep * cma.factor[:, 0] ** 2 + r.c_1 * path_c**2 + r.c_mu * (weights[:, None] * steps**2).sum(axis=0)
        factor = np.sqrt(np.maximum(grown, 1e-20))[:, None]
    else:
        factor = _with_terms(cma.factor, keep, r.c_1, path_c, r.c_mu * weights, steps)
    return Cma(mean, sigma.clip(SMALLEST_SIGMA, LARGEST_SIGMA), factor, path_sigma, path_c, told)


def within(cma: Cma, widest: np.ndarray) -> Cma:
    """The distribution with no standard deviation above `widest` f8 (n,); correlations stay as they are.

    Where larger weights change nothing more (an output that is clipped anyway) nothing else holds sigma back, and
    samples that all lie at their genes' bounds are no search. What all genes exceed by is sigma's, the rest is C's.
    """
    over = cma.sigma[0] * spread(cma) / widest  # f8 (n,)
    common = max(1.0, float(over.min()))
    narrower = np.minimum(1.0, common / np.maximum(over, 1e-300))  # D: C <- D C D
    if common == 1.0 and (narrower == 1.0).all():
        return cma
    return cma._replace(sigma=cma.sigma / common, factor=cma.factor * narrower[:, None], path_c=cma.path_c * narrower)


def covariance(cma: Cma) -> np.ndarray:
    """C f8 (n, n)."""
    return np.diag(cma.factor[:, 0] ** 2) if cma.diagonal else _multiply(cma.factor, cma.factor)


def spread(cma: Cma) -> np.ndarray:
    """The standard deviations sqrt(C_ii), f8 (n,)."""
    return np.sqrt((cma.factor**2).sum(axis=1))


def condition(cma: Cma) -> float:
    """The largest eigenvalue of C over the least, by power iteration: an estimate from below."""
    if len(cma.mean) < 2:
        return 1.0
    if cma.diagonal:
        return float((cma.factor.max() / cma.factor.min()) ** 2)
    return float(_condition(cma.factor, POWER_STEPS))


def resized(cma: Cma, source: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> Cma:
    """The distribution over another set of genes: gene i was gene source[i], or is new (-1).

    A new one starts at mean[i] with standard deviation sigma * scale[i], uncorrelated. mean, scale f8 (n,).
    """
    old, new = np.flatnonzero(source >= 0), source < 0
    kept = source[old]
    if cma.diagonal:
        factor = scale[:, None].copy()
        factor[old] = cma.factor[kept]
    else:
        c = np.zeros((len(source), len(source)))
        c[np.ix_(old, old)] = covariance(cma)[np.ix_(kept, kept)]
        c[new, new] = scale[new] ** 2
        factor = _cholesky(c)

    def moved(path: np.ndarray, fresh: np.ndarray | float) -> np.ndarray:
        out = np.zeros(len(source)) + fresh
        out[old] = path[kept]
        return out

    return Cma(
        moved(cma.mean, mean), cma.sigma.copy(), factor, moved(cma.path_sigma, 0.0), moved(cma.path_c, 0.0), cma.told
    )


@kernel
def _multiply(factor, noise):
    """A z for each z of f8 (L, n), A f8 (n, n) a lower triangle."""
    out = np.zeros_like(noise)
    for i in range(noise.shape[0]):
        for j in range(noise.shape[1]):
            s = 0.0
            for k in range(j + 1):
                s += factor[j, k] * noise[i, k]
            out[i, j] = s
    return out


@kernel
def _solve(factor, steps):
    """A^-1 y for each y of f8 (L, n)."""
    out = np.empty_like(steps)
    for i in range(steps.shape[0]):
        for j in range(steps.shape[1]):
            s = steps[i, j]
            for k in range(j):
                s -= factor[j, k] * out[i, k]
            out[i, j] = s / factor[j, j]
    return out


@kernel
def _with_terms(factor, keep, c_1, path, weights, steps):
    """The triangle of keep C + c_1 p p^T + sum of weights[i] y_i y_i^T (47); the positive terms come first."""
    out = factor * np.sqrt(keep)
    _rank_one(out, c_1, path.copy())
    for i in range(len(weights)):
        if weights[i] > 0.0:
            _rank_one(out, weights[i], steps[i].copy())
    for i in range(len(weights)):
        if weights[i] < 0.0:
            _rank_one(out, weights[i], steps[i].copy())
    return out


@kernel
def _rank_one(a, beta, v):
    """A A^T + beta v v^T as a triangle, in place (Krause and Igel 2015); v f8 (n,) is used up.

    A term that would make C singular (rounding, beta < 0) is cut where it does.
    """
    n, b = len(v), 1.0
    for j in range(n):
        d = a[j, j]
        d2, v2 = d * d, v[j] * v[j]
        new2 = d2 + beta / b * v2
        if not new2 > 1e-10 * d2:
            return
        new = np.sqrt(new2)
        gamma = d2 * b + beta * v2
        a[j, j] = new
        for k in range(j + 1, n):
            v[k] -= v[j] / d * a[k, j]
            a[k, j] = new / d * a[k, j] + new * beta * v[j] / gamma * v[k]
        b += beta * v2 / d2


@kernel
def _cholesky(c):
    """The lower triangle A of C = A A^T, f8 (n, n)."""
    n = c.shape[0]
    a = np.zeros_like(c)
    for j in range(n):
        for i in range(j, n):
            s = c[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = np.sqrt(max(s, 1e-20)) if i == j else s / a[j, j]
    return a


@kernel
def _condition(a, steps):
    """Largest over least eigenvalue of A A^T, each by so many power iterations from a fixed start."""
    n = a.shape[0]
    large, small = np.empty(n), np.empty(n)
    for i in range(n):
        large[i] = small[i] = 1.0 + 0.5 * np.sin(1.0 + i)
    largest = least = 1.0
    half = np.empty(n)
    for _ in range(steps):
        large /= np.sqrt((large * large).sum())
        small /= np.sqrt((small * small).sum())
        for k in range(n):  # A^T x, then A
            s = 0.0
            for i in range(k, n):
                s += a[i, k] * large[i]
            half[k] = s
        for i in range(n - 1, -1, -1):
            s = 0.0
            for k in range(i + 1):
                s += a[i, k] * half[k]
            large[i] = s
        largest = np.sqrt((large * large).sum())
        for i in range(n):  # A^-1 x, then A^-T
            s = small[i]
            for k in range(i):
                s -= a[i, k] * half[k]
            half[i] = s / a[i, i]
        for k in range(n - 1, -1, -1):
            s = half[k]
            for i in range(k + 1, n):
                s -= a[i, k] * small[i]
            small[k] = s / a[k, k]
        least = np.sqrt((small * small).sum())
    return largest * least
