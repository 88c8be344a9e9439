"""T-maze, double T-maze and a bandit whose arms swap, as kernels: lives in which something must be learned again.

An episode is a whole life of many runs (or pulls); after about half of them, at a run that is drawn by the seed, the
good place moves. maze_env.py makes Gymnasium environments of the same kernels.
Legend: I inputs, A action components.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from neol.errors import NeolError, nearest
from neol.jit import kernel
from neol.seeding import mix

MAZE, BANDIT = range(2)
HIGH, LOW, CRASH = 1.0, 0.2, -0.4  # a maze's rewards (Soltoggio et al. 2008)
HIGH_CHANCE, LOW_CHANCE = 0.9, 0.1  # of a bandit's arms
# Places in the state.
SEED, RUN, PLACE, CHOSEN, GOOD, SWAP, SWAPPED, REWARD = range(8)
STATE = 8
_GOLDEN, _S11 = np.uint64(0x9E3779B97F4A7C15), np.uint64(11)


class Simulator(NamedTuple):
    """What the kernels need to know of a task."""

    kind: int  # MAZE, BANDIT
    parameters: np.ndarray  # f8 (3,) junctions of a maze, runs of a life, swaps in it


_SIMULATORS = {"t-maze": (MAZE, 1), "double t-maze": (MAZE, 2), "bandit": (BANDIT, 1)}
_DEFAULTS = {"runs": 100, "swaps": 1}


def simulator(name: str, arguments: Mapping[str, Any]) -> Simulator:
    """The simulator of that name with the environment's arguments: `runs` of a life, `swaps` in it."""
    for key in arguments:
        if key not in _DEFAULTS:
            raise NeolError(f"env_kwargs = '{key}' is not allowed; {nearest(key, _DEFAULTS)}")
    said = {**_DEFAULTS, **arguments}
    for key, least in (("runs", 1), ("swaps", 0)):
        value = said[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_000:
            raise NeolError(f"{key} = {value!r} is not allowed; it must be a whole number of {least} to 10,000.")
    if said["swaps"] and 2 * (said["swaps"] + 1) > said["runs"]:
        raise NeolError(f"swaps = {said['swaps']} is not allowed; it must be below half of runs = {said['runs']}.")
    kind, junctions = _SIMULATORS[name]
    return Simulator(kind, np.array([junctions, said["runs"], said["swaps"]], np.float64))


@kernel
def _drawn(seed, i):
    """The i-th uniform number in [0, 1) of an episode."""
    z = mix(mix(np.uint64(seed) + _GOLDEN) + np.uint64(i + 1) * _GOLDEN)
    return np.float64(z >> _S11) * (1.0 / 9007199254740992.0)


@kernel
def _next_swap(parameters, s):
    """The run at which the good place moves next: within 0.3 of a part around its end; never, after the last."""
    k = s[SWAPPED] + 1.0
    if k > parameters[2]:
        return -1.0
    part = parameters[1] / (parameters[2] + 1.0)
    return np.floor(k * part - 0.3 * part) + np.floor(_drawn(s[SEED], 2 * np.int64(k)) * (np.floor(0.6 * part) + 1.0))


@kernel
def begin(kind, parameters, seed, s):
    """A new episode in state s f8 (STATE,)."""
    s[:] = 0.0
    s[SEED] = seed
    s[GOOD] = np.floor(_drawn(seed, 0) * 2.0 ** parameters[0])
    s[CHOSEN] = -1.0 if kind == BANDIT else 0.0
    s[SWAP] = _next_swap(parameters, s)


@kernel
def look(kind, parameters, s, observation):
    """What is seen, f8 (I,): of a maze turn, end, home, reward; of a bandit 1, the last reward, the last arm."""
    if kind == BANDIT:
        observation[0], observation[1] = 1.0, s[REWARD]
        observation[2], observation[3] = 1.0 * (s[CHOSEN] == 0.0), 1.0 * (s[CHOSEN] == 1.0)
        return
    place, last = s[PLACE], 2.0 * parameters[0] + 2.0
    observation[0] = 1.0 * (0.0 < place < last and place % 2.0 == 0.0)
    observation[1] = 1.0 * (place == last)
    observation[2] = 1.0 * (place == 0.0)
    observation[3] = s[REWARD] if place == last else 0.0


@kernel
def _next_run(parameters, s):
    """The next run begins at home; whether that was the last."""
    s[RUN] += 1.0
    if s[RUN] == s[SWAP]:
        others = 2.0 ** parameters[0] - 1.0
        jump = 1.0 + np.floor(_drawn(s[SEED], 2 * np.int64(s[SWAPPED]) + 3) * others)
        s[GOOD] = (s[GOOD] + jump) % (others + 1.0)
        s[SWAPPED] += 1.0
        s[SWAP] = _next_swap(parameters, s)
    return s[RUN] >= parameters[1]


@kernel
def schedule(parameters, seed):
    """What an episode has in store, run by run: the good place f8 (runs,), and a bandit's luck f8 (runs,)."""
    s, runs = np.zeros(STATE), np.int64(parameters[1])
    good, luck = np.empty(runs), np.empty(runs)
    begin(MAZE, parameters, seed, s)
    for run in range(runs):
        good[run], luck[run] = s[GOOD], _drawn(seed, 100_000 + run)
        _next_run(parameters, s)
    return good, luck


@kernel
def move(kind, parameters, s, action):
    """One step with action f8 (A,): (reward, whether the episode is over)."""
    if kind == BANDIT:
        arm = action[0]
        chance = HIGH_CHANCE if arm == s[GOOD] else LOW_CHANCE
        s[CHOSEN] = arm
        s[REWARD] = 1.0 if _drawn(s[SEED], 100_000 + np.int64(s[RUN])) < chance else 0.0
        return s[REWARD], _next_run(parameters, s)
    where = np.float64(np.float32(action[0]))
    place, last = s[PLACE], 2.0 * parameters[0] + 2.0
    turn = -1 if where < -1.0 / 3.0 else 1 if where > 1.0 / 3.0 else 0
    if place == last:  # whatever it does there, it is taken home
        s[PLACE], s[CHOSEN] = 0.0, 0.0
        return 0.0, _next_run(parameters, s)
    junction = place > 0.0 and place % 2.0 == 0.0
    if junction == (turn == 0):  # into a wall
        s[PLACE], s[CHOSEN] = 0.0, 0.0
        return CRASH, _next_run(parameters, s)
    if junction:
        s[CHOSEN] = 2.0 * s[CHOSEN] + (1.0 if turn > 0 else 0.0)
    s[PLACE] = place + 1.0
    if s[PLACE] < last:
        return 0.0, False
    s[REWARD] = HIGH if s[CHOSEN] == s[GOOD] else LOW
    return s[REWARD], False
