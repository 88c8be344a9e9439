"""One episode on Gymnasium: the same function for training, evaluation, films, figures and the theory lab.

Legend: I inputs, A action components, d edges of the network that lives.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.envs.registry import make, opened
from neol.envs.spaces import Flattener
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.network.actions import action_reader
from neol.network.phenotype import Phenotypes
from neol.network.step import new_slots
from neol.rollout.attributes import Attributes
from neol.rollout.episode_kernels import BEGIN, END, GO_ON, live, make_context, new_window
from neol.rollout.life import Life, for_kernels
from neol.rollout.shards import EpisodeRecords, Shard, check_fit, new_records
from neol.rollout.world import life_names, new_world_state

Watch = Callable[[int], float]  # told of an episode that begins or goes on; returns when it wants to be told again


class NotFinite(ValueError):
    """A reward or an observation that is NaN or infinite."""

    kind = "not finite"


class Moment(NamedTuple):
    """A trial of a life after `step` steps."""

    step: int  # 0 = before the first
    observation: Any  # the environment's latest, as it gave it
    action: Any  # the last one, as the environment took it; None before the first
    reward: float  # of the last action, as the environment gave it
    total: float  # the return so far
    weights: np.ndarray  # f8 (d,) of now: a view, copy it to keep it
    over: bool
    trial: int = 0  # of the life


class SingleSlot:
    """One slot, in which a shard's lives are lived one after the other."""

    def __init__(self, task: Task, shard: Shard, records: EpisodeRecords) -> None:
        ph = shard.phenotypes
        self.phenotypes, self.records = ph, records
        self.slots = new_slots(ph, 1)
        window = new_window(1, 1, shard, 0, shard.lives)
        self.trial = window.trial
        self.world = new_world_state(shard.life.world.changes, 1, shard.names, ph.output.shape[1], shard.fates)
        self.window = window
        self.live_as(shard.life)
        self.attributes = Attributes(shard.life.world, self.world) if shard.life.world.attributes else None
        self.flat = Flattener(task.leaves)
        self.observed = len(task.observed)
        self.action = action_reader(window.action[0], task.components, task.action_shape, task.action_dtype)

    def live_as(self, life: Life) -> None:
        """From now on it lives so: it may stop to learn, in the middle of a life."""
        self.life, first = life, np.zeros((0, self.phenotypes.inputs))
        parts = (self.window, for_kernels(life), self.world, first, self.records)
        self.context = make_context(self.phenotypes, self.slots, *parts)

    def warm_up(self) -> None:
        """Compile, before anybody looks at the clock."""
        live(self.context, BEGIN, 0, np.zeros(self.observed), 0.0)

    @property
    def weights(self) -> np.ndarray:
        """The plastic weights of now, f8 (d,)."""
        edges = self.phenotypes.edges(int(self.slots.genome[0]))
        return self.slots.weight[0, : edges.stop - edges.start]


def episode(
    slot: SingleSlot,
    env: Any,
    number: int,
    seed: int,
    max_steps: int,
    every: int = 0,
    watch: Watch | None = None,
    trial: int = 0,
) -> Iterator[Moment]:
    """Live a trial of life `number` of the slot's shard, and pause at its end; trial 0 begins the life.

    With `every` it pauses also before the first step and after every so many. Nothing is computed between pauses but
    what a step needs, so training, which pauses only at the end, pays nothing for them.
    """
    context, flat, to_action, now = slot.context, slot.flat, slot.action, time.monotonic
    look = watch(number) if watch is not None else math.inf
    slot.trial[0] = trial
    observation, _ = env.reset(seed=seed)
    if not live(context, BEGIN, number, flat(observation), 0.0):
        raise NotFinite(f"the first observation is not finite: {observation!r}")
    if every:
        yield Moment(0, observation, None, 0.0, 0.0, slot.weights, False, trial)
    step, t, over, pause = env.step, 0, False, every or max_steps
    changed = slot.attributes.of(env) if slot.attributes is not None else None
    while not over:
        context = slot.context  # who watches may have changed it
        for t in range(t + 1, min(t + pause, max_steps) + 1):  # noqa: B020 goes on counting where it paused
            if watch is not None and now() > look:
                look = watch(number)
            action = to_action()
            if changed is not None:
                changed.update()
            observation, reward, terminated, truncated, _ = step(action)
            over = terminated or truncated or t == max_steps
            if not live(context, END if over else GO_ON, number, flat(observation), float(reward)):
                raise NotFinite(f"step {t} is not finite: reward {reward!r}, observation {observation!r}")
            if over:
                break
        if over and changed is not None:
            changed.restore()
        total = float(slot.records.returns[number, trial])
        yield Moment(t, observation, action, float(reward), total, slot.weights, bool(over), trial)


def one_life(
    task: Task,
    phenotype: Phenotypes,
    life: Life,
    seed: int,
    max_steps: int,
    every: int = 1,
    env: Any = None,
    trials: int = 1,
) -> Iterator[Moment]:
    """One life of one network, seen after every so many steps; a NeolError if it fails.

    In an environment of its own, or in `env`, which is then left open. Trial k has the seed `seed` + k.
    """
    check_fit(task, phenotype, life)
    names = life_names(seed, seeding.DEMO, 0, 1, 1, True)  # what happens to it in a world that changes
    shard = Shard(phenotype, life, np.zeros(trials, np.int32), 0, 1, 0, False, trials=trials, names=names)
    slot = SingleSlot(task, shard, new_records(shard))
    with nullcontext(env) if env is not None else opened(make(task)) as inside:
        try:
            for trial in range(trials):
                yield from episode(slot, inside, 0, seed + trial, max_steps, every, trial=trial)
        except Exception as e:  # an environment may raise anything
            raise NeolError(f"an episode of '{task.name}' failed: {type(e).__name__}: {e}") from e
