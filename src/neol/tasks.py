"""The tasks: one place that says what each is, and how outputs become its actions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from neol.errors import NeolError, nearest

# How a group of outputs becomes action components (see kernels.decode).
ARGMAX, BOUNDED = 0, 1


class Task(NamedTuple):
    """A control task. `settings` are this task's own defaults, by flat config names."""

    name: str
    id: str  # Gymnasium id
    max_steps: int  # T_max of the paper
    inputs: tuple[str, ...]  # a name per observation component
    actions: tuple[str, ...]  # a name per output
    kind: int  # ARGMAX over all outputs | BOUNDED: each output scaled to its bounds
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    observation_dtype: str = "float32"
    action_dtype: str = "float32"
    # An episode may start in an env that has run others before: proven not to change results (tests), saves creation.
    reusable: bool = False
    window: int = 64  # episodes in flight per thread; the fastest here, by measurement
    film_every: int = 1  # steps per frame of a film
    film_fps: int = 50
    returns: tuple[float, float] = (0.0, 1.0)  # the range that normalised losses are made with
    unbounded_below: bool = False  # returns have no least value: those below the range have loss 1
    settings: Mapping[str, Any] = MappingProxyType({})

    @property
    def n_inputs(self) -> int:
        return len(self.inputs)

    @property
    def n_outputs(self) -> int:
        return len(self.actions)


# Gaits want small steps from small weights, and one long episode says more than three short ones.
_SMALL_STEPS: dict[str, Any] = {
    "pop_size": 150, "episodes": 1, "generations": 10_000, "max_env_steps": 10_000_000,
    "weight_init_stdev": 0.1, "weight_mutate_rate": 0.9, "weight_mutate_power": 0.1, "weight_replace_rate": 0.0,
    "bias_init_stdev": 0.1, "bias_mutate_rate": 0.9, "bias_mutate_power": 0.1, "bias_replace_rate": 0.0,
}  # fmt: skip
_LIDAR = tuple(f"lidar {i}" for i in range(10))

TASKS: dict[str, Task] = {
    t.name: t
    for t in (
        Task(
            "cartpole", "CartPole-v1", 500,
            ("x", "x vel", "angle", "angle vel"), ("left", "right"), ARGMAX, action_dtype="int32", window=512,
            returns=(0.0, 500.0),
        ),
        Task(
            "lunarlander", "LunarLanderContinuous-v3", 1000,
            ("x", "y", "x vel", "y vel", "angle", "angle vel", "left leg", "right leg"), ("main", "side"),
            BOUNDED, (-1.0,) * 2, (1.0,) * 2, window=128, settings={"generations": 1000, "max_env_steps": 4_500_000},
            returns=(-1000.0, 400.0), unbounded_below=True,  # its shaping charges for every turn of a spin
        ),
        Task(
            "bipedalwalker", "BipedalWalker-v3", 1000,
            ("hull angle", "hull angle vel", "x vel", "y vel", "hip 1", "hip 1 vel", "knee 1", "knee 1 vel",
             "leg 1 contact", "hip 2", "hip 2 vel", "knee 2", "knee 2 vel", "leg 2 contact", *_LIDAR),
            ("hip 1", "knee 1", "hip 2", "knee 2"), BOUNDED, (-1.0,) * 4, (1.0,) * 4,
            settings={**_SMALL_STEPS, "fitness_offset": -0.1}, returns=(-500.0, 400.0),
        ),
        Task(
            "hopper", "Hopper-v4", 1000,
            ("z", "torso angle", "thigh angle", "leg angle", "foot angle", "x vel", "z vel", "torso vel", "thigh vel",
             "leg vel", "foot vel"),
            ("thigh", "leg", "foot"), BOUNDED, (-1.0,) * 3, (1.0,) * 3, "float64", "float64", reusable=True,
            film_every=4, film_fps=31,
            settings={**_SMALL_STEPS, "fitness_offset": -1.0}, returns=(-500.0, 6000.0),
        ),
    )
}  # fmt: skip


def find(name: str) -> Task:
    """The task of that name or Gymnasium id."""
    for task in TASKS.values():
        if name in (task.name, task.id):
            return task
    raise NeolError(f"unknown task '{name}'; {nearest(name, TASKS)}")


class ActionMap(NamedTuple):
    """What `kernels.decode` needs to turn O outputs into A action components."""

    kind: int
    low: np.ndarray  # f8 (A,)
    high: np.ndarray  # f8 (A,)


def action_map(task: Task) -> ActionMap:
    if task.kind == ARGMAX:
        return ActionMap(ARGMAX, np.zeros(1), np.zeros(1))
    return ActionMap(task.kind, np.array(task.low), np.array(task.high))
