"""Motors, as kernels: D axes go from target to target, each by a motor of its own, which may be wired either way round.

Nothing here knows how the motors are wired: that is a change of the world, `action invert p=0.5 each`, so that a life
has D signs to find out. Without it the task is trivial: the action is the distance to go.
Legend: D axes (inputs, outputs), T targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neol.envs.mazes import RUN, SEED, Simulator
from neol.errors import NeolError, nearest
from neol.jit import kernel
from neol.seeding import uniform_at

MOTORS = 2  # the kind of simulator, after mazes.py's
SPEED = 0.2  # way per step of a motor at full power
STEP, TO_GO = 2, 3  # places in the state, after SEED and RUN (here: the target): steps so far, and D distances
_DEFAULTS = {"targets": 50, "steps": 10}


def motors(axes: int, arguments: Mapping[str, Any]) -> Simulator:
    """The simulator of that many axes with the environment's arguments: `targets` of a life, `steps` for each."""
    for key in arguments:
        if key not in _DEFAULTS:
            raise NeolError(f"env_kwargs = '{key}' is not allowed; {nearest(key, _DEFAULTS)}")
    said = {**_DEFAULTS, **arguments}
    for key, value in said.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000:
            raise NeolError(f"{key} = {value!r} is not allowed; it must be a whole number of 1 to 10,000.")
    return Simulator(MOTORS, np.array([axes, said["targets"], said["steps"]], np.float64))


@kernel
def _aim(parameters, s):
    """The next target: how far it is along each axis, uniformly in -1 .. 1."""
    axes, name = np.int64(parameters[0]), np.uint64(s[SEED])
    for i in range(axes):
        s[TO_GO + i] = 2.0 * uniform_at(name, np.int64(s[RUN]) * axes + i) - 1.0


@kernel
def begin(parameters, seed, s):
    """A new episode in state s f8 (3 + D,)."""
    s[:] = 0.0
    s[SEED] = seed
    _aim(parameters, s)


@kernel
def look(parameters, s, observation):
    """What is seen, f8 (D,): the distance to go along each axis."""
    for i in range(np.int64(parameters[0])):
        observation[i] = s[TO_GO + i]


@kernel
def move(parameters, s, action):
    """One step with action f8 (D,): (twice the mean way that was made good, whether the episode is over).

    So a target that is reached pays 1 on average, and a life as much as it has targets.
    """
    axes, gained = np.int64(parameters[0]), 0.0
    for i in range(axes):
        to_go = s[TO_GO + i]
        s[TO_GO + i] = to_go - SPEED * np.float64(np.float32(action[i]))
        gained += abs(to_go) - abs(s[TO_GO + i])
    s[STEP] += 1.0
    if s[STEP] % parameters[2] == 0.0:
        s[RUN] += 1.0
        _aim(parameters, s)
    return 2.0 * gained / axes, s[RUN] >= parameters[1]
