"""What a network sees beside its observation, as further inputs: its last reward and action, and the world it is in.

    reward      the last one, as the network feels it                 advantage  it minus its running mean (kappa)
    action      the last outputs, clipped to [-1, 1]                  world      1 for each change that acts now, else 0

`world` is what no life could know: an oracle, the upper bound of what learning can win. The kernels are in
rollout/senses.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from neol.envs.tasks import Task
from neol.errors import NeolError

REWARD, ADVANTAGE, ACTION, WORLD = SENSES = ("reward", "advantage", "action", "world")


class Senses(NamedTuple):
    """Where each sense's first input is; -1 = it has none."""

    reward: int = -1
    advantage: int = -1
    action: int = -1
    world: int = -1


NO_SENSES = Senses()


def with_senses(task: Task, senses: Sequence[str], changes: int) -> Task:
    """The task as its networks see it: with inputs for these senses, in a world of so many changes."""
    if WORLD in senses and not changes:
        raise NeolError("senses = 'world' is not allowed; there is no change of the world to be told (see change).")
    names = {
        REWARD: ("last reward",),
        ADVANTAGE: ("last advantage",),
        ACTION: tuple(f"last {name}" for name in task.actions),
        WORLD: tuple(f"change {i}" for i in range(changes)),
    }
    wanted = tuple(s for s in names if s in senses)
    further = tuple(name for s in wanted for name in names[s])
    return task._replace(inputs=(*task.observed, *further), sensed=len(further), senses=wanted)


def places(senses: Sequence[str], observed: int, outputs: int) -> Senses:
    """Where the senses are among the inputs, after so many that are observed; `world` is the last of them."""
    at, found = observed, {}
    for sense in senses:
        found[sense] = at
        at += outputs if sense == ACTION else 1
    return Senses(**found)
