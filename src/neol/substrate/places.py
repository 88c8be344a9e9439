"""Where a task's inputs and outputs are: x from left to right, y along the body or the order of things.

What is alike on the two sides of a body has the same y and opposite x; what belongs to one part of it lies close
together, its velocity beside its position. A task that is not listed has rows, in the order of its observation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from neol.envs import visual
from neol.envs.tasks import NUMBERS, Task

Place = tuple[float, float]
Places = Sequence[Place]

_CARTPOLE = ([(0, -1), (0, -0.5), (0, 0.5), (0, 1)], [(-1, 0), (1, 0)])  # cart below, pole above; push left, right

# What moves it sideways at x = 1, what is of its height at 0; the legs below, to either side.
_LANDER = (
    [(1, 1), (0, 1), (1, 0.6), (0, 0.6), (1, 0.2), (1, -0.2), (-1, -1), (1, -1)],
    [(0, 0), (1, 0)],
)

_JOINTS = [(0.4, 0.3), (-0.2, -0.3)]  # (angle, speed) of hip and knee


def _leg(side: float) -> list[Place]:
    return [(side, y) for joint in _JOINTS for y in joint] + [(side, -0.8)]


_WALKER = (
    [(0, 1), (0, 0.9), (0, 0.8), (0, 0.7), *_leg(-1.0), *_leg(1.0), *((0, 0.1 - 0.1 * i) for i in range(10))],
    [(-1, 0.4), (-1, -0.2), (1, 0.4), (1, -0.2)],
)

# From the torso down to the foot; positions to the left, speeds to the right.
_CHAIN = (1, 1 / 3, -1 / 3, -1)
_HOPPER = (
    [(-0.5, 1), *((-1, y) for y in _CHAIN), (0, 1), (0.5, 1), *((1, y) for y in _CHAIN)],
    [(0, y) for y in _CHAIN[1:]],
)

# Seen from above: front left, front right, back left, back right; hip and ankle at these distances from the torso.
_LEGS = ((-1, 1), (1, 1), (-1, -1), (1, -1))
_ANT_ACTIONS = (3, 0, 1, 2)  # MuJoCo's order of the legs' motors


def _limbs(distances: Sequence[float], legs: Sequence[int] = range(4)) -> list[Place]:
    return [(_LEGS[leg][0] * d, _LEGS[leg][1] * d) for leg in legs for d in distances]


def _forces() -> list[Place]:
    """Of 13 bodies (the torso, then upper leg, lower leg and foot of each leg) the three torques and three forces."""
    bodies = [(0.0, 0.0), *_limbs((0.35, 0.6, 0.9))]
    turns = [(0.04 * math.cos(math.pi * k / 3), 0.04 * math.sin(math.pi * k / 3)) for k in range(6)]
    return [(x + dx, y + dy) for x, y in bodies for dx, dy in turns]


_TORSO = [(0.0, 0.12), (-0.12, 0.12), (0.12, 0.12), (-0.12, -0.12), (0.12, -0.12)]  # height, quaternion
_TORSO_SPEED = [(-0.2, 0.0), (0.0, 0.2), (0.0, -0.2), (0.2, 0.0), (-0.2, 0.2), (0.2, 0.2)]
_ANT = [*_TORSO, *_limbs((0.5, 0.8)), *_TORSO_SPEED, *_limbs((0.45, 0.75))]
_ANT_MOTORS = _limbs((0.5, 0.8), _ANT_ACTIONS)

_OF_TASKS: Mapping[str, tuple[Places, Places]] = {
    "CartPole-v1": _CARTPOLE,
    "LunarLanderContinuous-v3": _LANDER,
    "BipedalWalker-v3": _WALKER,
    "Hopper-v4": _HOPPER,
    "Hopper-v5": _HOPPER,
    "Ant-v4": (_ANT, _ANT_MOTORS),
    "Ant-v5": ([*_ANT, *_forces()], _ANT_MOTORS),
}


def places_of(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Inputs f8 (I, 2) and outputs f8 (O, 2) of a task; senses beside its observation lie in a row below all."""
    observed = len(task.observed)
    if task.native == visual.NAME:
        field = visual.cells(math.isqrt(observed))
        inputs, outputs = field, field
    else:
        known = _OF_TASKS.get(task.id, ((), ()))
        fits = (len(known[0]), len(known[1])) == (observed, task.n_outputs)
        inputs = np.array(known[0], float) if fits else _by_rule(task)
        outputs = np.array(known[1], float) if fits else row(task.n_outputs, 0.0)
    if task.sensed:
        inputs = np.concatenate([inputs, row(task.sensed, -1.25)])
    return inputs, outputs


def _by_rule(task: Task) -> np.ndarray:
    """A row for each part of the observation, f8 (I, 2), one below the other; a part that is a picture is a grid."""
    parts = [leaf.size for leaf in task.leaves]
    if len(task.leaves) == 1 and task.leaves[0].kind == NUMBERS and len(task.leaves[0].shape) >= 2:
        height, width = task.leaves[0].shape[:2]
        depth = parts[0] // (height * width)
        return np.repeat(grid(width, height), depth, axis=0)
    heights = [0.0] if len(parts) == 1 else np.linspace(1.0, -1.0, len(parts)).tolist()
    return np.concatenate([row(n, y) for n, y in zip(parts, heights, strict=True)])


def row(count: int, y: float) -> np.ndarray:
    """So many places from left to right, f8 (n, 2)."""
    x = np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(count)
    return np.stack([x, np.full(count, y)], axis=1)


def grid(width: int, height: int) -> np.ndarray:
    """Places row by row from the top left, f8 (width height, 2), the outermost at -1 and 1."""
    xs = np.linspace(-1.0, 1.0, width) if width > 1 else np.zeros(1)
    ys = np.linspace(1.0, -1.0, height) if height > 1 else np.zeros(1)
    y, x = np.meshgrid(ys, xs, indexing="ij")
    return np.stack([x.ravel(), y.ravel()], axis=1)
