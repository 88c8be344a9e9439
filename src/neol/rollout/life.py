"""Life: what an episode needs besides a network and a seed, as one value.

It travels in the shard, and both engines pass it to the same kernels. `World` (world.py) is how the world differs from
the simulator; `UNCHANGED` does nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from neol.config.sections import PlasticityConfig
from neol.envs.senses import NO_SENSES, Senses, places
from neol.envs.tasks import Task
from neol.network.actions import ActionMap, action_map
from neol.network.normalization import IDENTITY, Normalization
from neol.network.plasticity import Plasticity, plasticity
from neol.rollout.world import UNCHANGED, World


class Life(NamedTuple):
    """How a network lives: it learns by `plastic`, sees through `normal`, acts through `actions`, in `world`."""

    plastic: Plasticity
    normal: Normalization
    actions: ActionMap
    world: World = UNCHANGED
    reward_floor: float = -math.inf  # lower rewards count as this in `EpisodeRecords.floored`, and nowhere else
    senses: Senses = NO_SENSES  # what the network sees beside its observation


def life_of(
    task: Task,
    config: PlasticityConfig,
    normal: Normalization = IDENTITY,
    world: World = UNCHANGED,
    reward_floor: float = -math.inf,
) -> Life:
    """The life that a configuration and a task describe."""
    senses = places(task.senses, len(task.observed), task.n_outputs)
    return Life(plasticity(config), normal, action_map(task.components), world, reward_floor, senses)


def check_life(life: Life, inputs: int, outputs: int) -> None:
    """A ValueError if a life does not fit networks of that size: kernels have no bounds checks."""
    needed = int((life.actions.first + life.actions.width).max(initial=0))
    if needed > outputs:
        raise ValueError(f"networks with {outputs} outputs cannot make actions from {needed}")
    changes = life.world.changes
    for part, size, what in ((0, inputs, "inputs"), (1, outputs, "outputs")):
        start, stop = changes.index_start[changes.first[part : part + 2]]
        indices = changes.indices[start:stop]
        if len(indices) and not 0 <= indices.min() <= indices.max() < size:
            raise ValueError(f"a world that changes number {indices.max()} does not fit {size} {what}")
    if len(changes.limit) > outputs:
        raise ValueError(f"a world with {len(changes.limit)} outputs does not fit networks with {outputs}")
    if life.senses.world >= 0 and len(changes.op) > inputs - life.senses.world:
        raise ValueError(f"a network that is told of {inputs - life.senses.world} changes cannot live in this world")
    if life.normal.on and not life.normal.mean.shape == life.normal.std.shape == (inputs,):
        raise ValueError(f"a normalisation of {life.normal.mean.shape} numbers does not fit {inputs} inputs")


def for_kernels(life: Life) -> Life:
    """The life as kernels take it: numbers alone."""
    return life._replace(world=life.world.changes)  # type: ignore[arg-type]
