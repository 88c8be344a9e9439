"""The only place where randomness starts: (seed, what for, generation, genome, episode) -> independent streams.

Counter-based: a stream is named, never passed on, so results depend neither on order nor on what ran before, and a
resume needs no saved generator. The generator is SplitMix64 (Steele et al. 2014), its state one uint64 in an array.
"""

from __future__ import annotations

import hashlib
import math
import random

import numpy as np

from neol.jit import kernel

# What a stream is for.
INITIAL, REPRODUCE, EPISODE, SELECTION, HELD_OUT, EVALUATE, DEMO, SEARCH = range(8)
# The same, in the theory lab: drawing h_t, an instance, its lives, a pool, the rounds' episodes, comparators.
CHOICE, INSTANCE, LIFE, POOL, ROUND, COMPARATOR = range(20, 26)
# What a baseline's library draws from, anew in every interval: exploration, minibatches, first weights.
LEARNER = 30
HANDOVER = 31  # choosing whom gradients go on with, in the middle of a run
BOOTSTRAP = 40  # resamples of runs, in statistics over them
# A worker process's global generators, which environments should not draw from; the check that they do not.
WORKER, REPEAT = 50, 51
USER = 60  # whatever an outer loop of somebody else's draws

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11, _S33 = (np.uint64(s) for s in (30, 27, 31, 11, 33))
_2_PI = 2.0 * math.pi


@kernel
def mix(z):
    """SplitMix64's finaliser: a bijection of uint64 that looks random."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@kernel
def stream(seed, purpose, a, b, c):
    """A fresh generator state u8[1] for (seed, purpose, a, b, c), all non-negative integers."""
    state = np.empty(1, np.uint64)
    z = mix(np.uint64(seed) + _GOLDEN)
    for part in (purpose, a, b, c):
        z = mix(z ^ mix(np.uint64(part) + _GOLDEN) + _GOLDEN)
    state[0] = z
    return state


def named(what: str) -> int:
    """A part of a stream's name made from a word; it is 2^62 or more, and so never one of the small numbers."""
    return int.from_bytes(hashlib.sha256(what.encode()).digest()[:8], "little") >> 2 | 1 << 62


@kernel
def uniform(state):
    """A float64 in [0, 1)."""
    state[0] += _GOLDEN
    return np.float64(mix(state[0]) >> _S11) * (1.0 / 9007199254740992.0)


@kernel
def uniform_at(name, i):
    """The i-th float64 in [0, 1) of the sequence with this name (u8), without a state."""
    return np.float64(mix(mix(name) + np.uint64(i) * _GOLDEN) >> _S11) * (1.0 / 9007199254740992.0)


@kernel
def normal(state):
    """A standard normal deviate (Box and Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    return radius * math.cos(_2_PI * uniform(state))


@kernel
def below(state, n):
    """An integer in [0, n)."""
    return min(int(uniform(state) * n), n - 1)


@kernel
def episode_seeds(seed, purpose, generation, genomes, episodes, common, trials=1):
    """Simulator seeds i4 (genomes * episodes * trials,): genome-major; with `common` every genome gets the same ones.

    A life's first trial has the seed of an episode of its own; those that follow are drawn from the same stream.
    """
    seeds = np.empty(genomes * episodes * trials, np.int32)
    for g in range(genomes):
        for e in range(episodes):
            state = stream(seed, purpose, generation, 0 if common else g + 1, e)
            for k in range(trials):
                seeds[(g * episodes + e) * trials + k] = np.int32(mix(state[0] + np.uint64(k) * _GOLDEN) >> _S33)
    return seeds


@kernel
def resamples(seed, stratum, count, n):
    """Indices i8 (count, n) in [0, n), drawn with replacement: bootstrap samples of one stratum of n runs."""
    state = stream(seed, BOOTSTRAP, stratum, 0, 0)
    picks = np.empty((count, n), np.int64)
    for i in range(count):
        for j in range(n):
            picks[i, j] = below(state, n)
    return picks


def seed_global_generators(seed: int, worker: int) -> None:
    """NumPy's and Python's own generators, in a process of ours: no two workers of a run draw the same numbers.

    Nothing of ours draws from them. An environment that does is not reproducible (rollout/determinism.py says so).
    """
    state = stream(seed, WORKER, worker, 0, 0)
    np.random.seed(below(state, 2**32))  # noqa: NPY002
    random.seed(below(state, 2**53))
