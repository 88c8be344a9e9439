"""Evolution strategies that follow an estimated gradient of the mean, with mirrored samples.

    x = m +- sigma delta_i,  delta_i ~ N(0, I),  i = 1 .. L/2

    ars     m += alpha / (b sd) sum over the best b directions of (f+ - f-) delta        (Mania et al. 2018)
    openai  m += Adam(1 / (L sigma) sum of shaped fitness * delta)                       (Salimans et al. 2017)
    pgpe    m += ClipUp of the same; sigma of each gene follows its own gradient         (Sehnke 2010, Toklu 2020)

Fitness is maximised. Legend: n genes searched, L samples (even): the first half m + sigma delta, the second its mirror.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

ARS, OPENAI, PGPE = "ars", "openai", "pgpe"


class Gradient(NamedTuple):
    """The distribution and the memory of its steps."""

    mean: np.ndarray  # f8 (n,) m
    sigma: np.ndarray  # f8 (n,) standard deviation of each gene
    velocity: np.ndarray  # f8 (n,) first moment (Adam) or velocity (ClipUp)
    square: np.ndarray  # f8 (n,) second moment (Adam)
    told: np.ndarray  # i8 (1,) generations


def new_gradient(mean: np.ndarray, scale: np.ndarray, sigma: float) -> Gradient:
    """Around `mean` f8 (n,) with standard deviations sigma * scale f8 (n,)."""
    zero = np.zeros(len(mean))
    return Gradient(mean.copy(), sigma * scale, zero, zero.copy(), np.zeros(1, np.int64))


def sample(g: Gradient, noise: np.ndarray) -> np.ndarray:
    """x f8 (L, n) from standard normal delta f8 (L / 2, n)."""
    return np.concatenate([g.mean + g.sigma * noise, g.mean - g.sigma * noise])


def updated(g: Gradient, kind: str, found: np.ndarray, fitness: np.ndarray, rate: float, top: int) -> Gradient:
    """The distribution after its samples f8 (L, n) had this fitness f8 (L,).

    `found` may differ from what was sampled (a life that learned and whose weights are inherited): the mean takes
    on what the pairs have in common, the average of what their lives learned.
    """
    half = len(found) // 2
    delta = (found[:half] - found[half:]) / (2 * g.sigma)  # (L/2, n): as drawn, where nothing was inherited
    learned = (found[:half] + found[half:]) / 2 - g.mean  # (L/2, n): 0 where nothing was inherited
    told = g.told + 1
    if kind == ARS:
        best = np.argsort(-np.maximum(fitness[:half], fitness[half:]), kind="stable")[:top]
        used = np.concatenate([fitness[:half][best], fitness[half:][best]])
        spread = used.std()
        difference = fitness[:half][best] - fitness[half:][best]
        step = rate / (len(best) * max(spread, 1e-12)) * (difference[:, None] * delta[best]).sum(axis=0)
        return g._replace(mean=g.mean + step + learned[best].mean(axis=0), told=told)
    shaped = centred_ranks(fitness)
    plus, minus = shaped[:half], shaped[half:]
    gradient = ((plus - minus)[:, None] * delta).sum(axis=0) / half
    mean = g.mean + learned.mean(axis=0)
    if kind == OPENAI:
        return _adam(g._replace(mean=mean, told=told), gradient, rate)
    velocity = 0.9 * g.velocity + rate * gradient / max(math.sqrt(float((gradient**2).sum())), 1e-12)  # ClipUp
    speed = math.sqrt(float((velocity**2).sum()))
    velocity = velocity * min(1.0, 2 * rate / max(speed, 1e-12))
    wide = ((plus + minus)[:, None] / 2 * (delta**2 - 1)).sum(axis=0) / half  # d log sigma of symmetric sampling
    sigma = g.sigma * np.clip(1 + 0.1 * wide, 0.8, 1.2)
    return Gradient(mean + velocity, sigma, velocity, g.square, told)


def _adam(g: Gradient, gradient: np.ndarray, rate: float) -> Gradient:
    """Kingma and Ba 2015, ascending."""
    t = int(g.told[0])
    first, second = 0.9 * g.velocity + 0.1 * gradient, 0.999 * g.square + 0.001 * gradient**2
    step = rate * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return g._replace(mean=g.mean + step, velocity=first, square=second)


def centred_ranks(fitness: np.ndarray) -> np.ndarray:
    """Ranks of f8 (L,) scaled to -1/2 .. 1/2; equals share theirs."""
    order = np.sort(fitness)
    low, high = np.searchsorted(order, fitness, "left"), np.searchsorted(order, fitness, "right") - 1
    return (low + high) / 2 / max(len(fitness) - 1, 1) - 0.5


def resized(g: Gradient, source: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> Gradient:
    """The distribution over another set of genes: gene i was gene source[i], or is new (-1); as `cma.resized`."""
    new, usual = source < 0, float(np.median(g.sigma)) if len(g.sigma) else 1.0

    def moved(old: np.ndarray, fresh: np.ndarray | float) -> np.ndarray:
        return np.where(new, fresh, old[source])

    moved_sigma = moved(g.sigma, usual * scale)
    return Gradient(moved(g.mean, mean), moved_sigma, moved(g.velocity, 0.0), moved(g.square, 0.0), g.told)
