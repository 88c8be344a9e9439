"""Life: what an episode needs besides a network and a seed, as one value, and the three kernels where its world enters.

An observation, a reward and an action pass through `enter_observation`, `enter_reward` and `leave_action` on every
engine. They are the place for everything that makes a world differ from its simulator; `UNCHANGED` does nothing.
Legend: I inputs, O outputs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neol.config.sections import PlasticityConfig
from neol.envs.tasks import Task
from neol.jit import inlined
from neol.network.actions import ActionMap, action_map
from neol.network.normalization import IDENTITY, Normalization
from neol.network.plasticity import Plasticity, plasticity


class World(NamedTuple):
    """How the world differs from the simulator: factors, each empty where nothing changes."""

    observation: np.ndarray  # f8 (I,) or (0,): of each input, before it is normalised
    action: np.ndarray  # f8 (O,) or (0,): of each output, before it becomes an action, so that this is a valid one
    reward: np.ndarray  # f8 (1,) or (0,): of the reward that is counted and learned from


UNCHANGED = World(np.zeros(0), np.zeros(0), np.zeros(0))


class Life(NamedTuple):
    """How a network lives: it learns by `plastic`, sees through `normal`, acts through `actions`, in `world`."""

    plastic: Plasticity
    normal: Normalization
    actions: ActionMap
    world: World = UNCHANGED
    reward_floor: float = -math.inf  # lower rewards count as this in `EpisodeRecords.floored`, and nowhere else


def life_of(
    task: Task,
    config: PlasticityConfig,
    normal: Normalization = IDENTITY,
    world: World = UNCHANGED,
    reward_floor: float = -math.inf,
) -> Life:
    """The life that a configuration and a task describe."""
    return Life(plasticity(config), normal, action_map(task.components), world, reward_floor)


def check_life(life: Life, inputs: int, outputs: int) -> None:
    """A ValueError if a life does not fit networks of that size: kernels have no bounds checks."""
    needed = int((life.actions.first + life.actions.width).max(initial=0))
    if needed > outputs:
        raise ValueError(f"networks with {outputs} outputs cannot make actions from {needed}")
    world = zip(life.world, (inputs, outputs, 1), strict=True)
    for array, size in world:
        if array.shape not in ((0,), (size,)):
            raise ValueError(f"a world's factors have shape {array.shape}, not {(size,)}")
    if life.normal.on and not life.normal.mean.shape == life.normal.std.shape == (inputs,):
        raise ValueError(f"a normalisation of {life.normal.mean.shape} numbers does not fit {inputs} inputs")


@inlined
def enter_observation(world, observation):
    """The simulator's observation f8 (I,) becomes the world's, in place."""
    for i in range(len(world.observation)):
        observation[i] *= world.observation[i]


@inlined
def enter_reward(world, reward):
    """The simulator's reward becomes the world's."""
    for i in range(len(world.reward)):
        reward *= world.reward[i]
    return reward


@inlined
def leave_action(world, outputs):
    """The network's outputs f8 (O,) become what the world makes of them, in place, before they are an action."""
    for o in range(len(world.action)):
        outputs[o] *= world.action[o]
