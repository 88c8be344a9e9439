"""Shards played on Gymnasium: one environment after another, whole episodes, one life at a time.

An episode starts in a new environment, unless the task's resets are known to leave nothing behind. An episode that
fails (an exception, a number that is not finite, a wrong shape) is played again in a new environment with the same
seed; what goes on failing is reported, and costs nobody else anything.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from neol.envs.registry import make, suppressed
from neol.envs.spaces import Flattener
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.network.step import new_slots
from neol.rollout.episode_kernels import BEGIN, END, GO_ON, live, make_context, new_window
from neol.rollout.shards import Failure, LocalEngine, Played, RolloutResult, Shard, headline, new_records


class NotFinite(ValueError):
    """A reward or an observation that is NaN or infinite."""

    kind = "not finite"


class GymnasiumPlayer:
    """Plays in this process.

    `watch(episode)` is told of every episode (-1 = none) and, while it lasts, when the time that it returned is over.
    """

    def __init__(
        self,
        task: Task,
        max_steps: int,
        fresh: bool = True,
        retries: int = 2,
        watch: Callable[[int], float] | None = None,
    ) -> None:
        self.task, self.max_steps, self.retries = task, max_steps, retries
        self.fresh = fresh
        self._watch = watch
        self._flat = Flattener(task.leaves)
        self._env: Any = None

    def play(self, shard: Shard) -> Played:
        records, ph = new_records(shard), shard.phenotypes
        window = new_window(1, 1, shard, 0, len(shard.seeds))
        nowhere = np.zeros((0, ph.inputs))
        context = make_context(ph, new_slots(ph, 1), window, shard.life, nowhere, records)
        live(context, BEGIN, 0, np.zeros(ph.inputs), 0.0)  # compile, before anybody looks at the clock
        failures = []
        for e, seed in enumerate(shard.seeds.tolist()):
            with suppressed():
                failure = self._attempt(context, window.action[0], e, seed)
            if failure is not None:
                records.returns[e], records.steps[e] = 0.0, 0
                if shard.life.normal.on:
                    records.moments.n[e] = 0.0
                failures.append(failure._replace(episode=shard.start + e))
        if self._watch is not None:
            self._watch(-1)
        return Played(records, tuple(failures))

    def _attempt(self, context: Any, action: np.ndarray, episode: int, seed: int) -> Failure | None:
        """Play an episode, again if it fails; what is wrong with it if it goes on failing."""
        attempts = self.retries + 1
        for _ in range(attempts):
            try:
                self._episode(context, action, episode, seed)
                return None
            except Exception as e:  # an environment may raise anything
                self.close()
                kind = getattr(e, "kind", "raised")
                text = "".join(traceback.format_exception(e))
        return Failure(episode, attempts, kind, text)

    def _episode(self, context: Any, action: np.ndarray, episode: int, seed: int) -> None:
        watch, flat, now = self._watch, self._flat, time.monotonic
        look = watch(episode) if watch is not None else math.inf
        env = self._env if self._env is not None else make(self.task)
        self._env = env
        observation, _ = env.reset(seed=seed)
        if not live(context, BEGIN, episode, flat(observation), 0.0):
            raise NotFinite(f"the first observation is not finite: {observation!r}")
        step, to_action = env.step, self._to_action(action)
        for t in range(1, self.max_steps + 1):
            if watch is not None and now() > look:
                look = watch(episode)
            observation, reward, terminated, truncated, _ = step(to_action())
            over = terminated or truncated or t == self.max_steps
            if not live(context, END if over else GO_ON, episode, flat(observation), float(reward)):
                raise NotFinite(f"step {t} is not finite: reward {reward!r}, observation {observation!r}")
            if over:
                break
        if self.fresh:
            self.close()

    def _to_action(self, action: np.ndarray) -> Callable[[], Any]:
        """What gives the action f8 (A,) of now as the environment takes it: an array of its own, or a whole number."""
        shape, dtype = self.task.action_shape, np.dtype(self.task.action_dtype)
        if not shape:
            return lambda: int(action[0])
        return partial(action.reshape(shape).astype, dtype)

    def close(self) -> None:
        """Close the environment; one that cannot even do that is simply dropped."""
        env, self._env = self._env, None
        if env is not None:
            try:
                env.close()
            except Exception:  # it is not needed any more, whatever it says
                return


class LocalGymnasium(LocalEngine):
    """Gymnasium in this process, for evaluations: an episode that goes on failing is an error."""

    def __init__(self, task: Task, max_steps: int) -> None:
        super().__init__(task, GymnasiumPlayer(task, max_steps, not task.resets_fully))

    def run(self, *arguments: Any) -> RolloutResult:
        result = super().run(*arguments)
        for f in result.failures:
            raise NeolError(f"an episode of '{self.task.name}' failed {f.attempts} times: {headline(f.text)}")
        return result
