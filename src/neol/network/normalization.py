"""Observations scaled by their running mean and spread, the same for every genome of a generation.

What a generation sees is scaled by the statistics of the generations before it, so results do not depend on the order
in which episodes are played; each episode brings its own moments, and they are merged in the order of episodes.
Legend: E episodes, I inputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neol.jit import inlined, kernel

CLIP = 10.0  # scaled observations are clipped to +- so many standard deviations


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations (Welford 1962) of each episode's observations."""

    n: np.ndarray  # f8 (E,)
    mean: np.ndarray  # f8 (E, I)
    m2: np.ndarray  # f8 (E, I)


def no_moments(episodes: int = 0, inputs: int = 0) -> Moments:
    return Moments(np.zeros(episodes), np.zeros((episodes, inputs)), np.zeros((episodes, inputs)))


class Normalization(NamedTuple):
    """x -> clip((x - mean) / std)."""

    on: bool
    mean: np.ndarray  # f8 (I,)
    std: np.ndarray  # f8 (I,)


IDENTITY = Normalization(False, np.zeros(0), np.ones(0))


@inlined
def observe(normal, moments, episode, first, observation):
    """Turn an observation f8 (I,) into what the network sees; adds it to its episode's moments before."""
    if normal.on:
        if first:
            moments.n[episode] = 0.0
            moments.mean[episode] = 0.0
            moments.m2[episode] = 0.0
        moments.n[episode] += 1.0
        for i in range(len(observation)):
            delta = observation[i] - moments.mean[episode, i]
            moments.mean[episode, i] += delta / moments.n[episode]
            moments.m2[episode, i] += delta * (observation[i] - moments.mean[episode, i])
        normalize(normal, observation, observation)


@kernel
def normalize(normal, observation, out):
    for i in range(len(observation)):
        out[i] = min(max((observation[i] - normal.mean[i]) / normal.std[i], -CLIP), CLIP)


@kernel
def merged(total, episodes):
    """Moments f8 (1,), (1, I) of everything so far, and those of E episodes added in their order (Chan et al. 1979)."""
    count, mean, m2 = total.n.copy(), total.mean.copy(), total.m2.copy()
    for e in range(len(episodes.n)):
        n = episodes.n[e]
        if n == 0.0:
            continue
        both = count[0] + n
        for i in range(mean.shape[1]):
            delta = episodes.mean[e, i] - mean[0, i]
            m2[0, i] += episodes.m2[e, i] + delta * delta * count[0] * n / both
            mean[0, i] += delta * n / both
        count[0] = both
    return Moments(count, mean, m2)


def from_moments(total: Moments) -> Normalization:
    """The scaling that these moments f8 (1,), (1, I) give; an input that never varied is only centred."""
    if total.n[0] < 2:
        return Normalization(True, np.zeros(total.mean.shape[1]), np.ones(total.mean.shape[1]))
    std = np.sqrt(total.m2[0] / total.n[0])
    return Normalization(True, total.mean[0].copy(), np.where(std > 1e-8, std, 1.0))


def to_moments(normal: Normalization, count: float) -> Moments:
    """Moments f8 (1,), (1, I) of `count` observations that give this scaling; below two of them: none yet."""
    if count < 2:
        return no_moments(1, len(normal.mean))
    squared = np.where(normal.std == 1.0, 0.0, normal.std**2)  # exactly 1: an input that never varied
    return Moments(np.array([float(count)]), normal.mean[None].copy(), squared[None] * count)
