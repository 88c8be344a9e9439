"""Shards played on Gymnasium: one environment after another, whole episodes, one life at a time.

An episode starts in a new environment, unless the task's resets are known to leave nothing behind. An episode that
fails (an exception, a number that is not finite, a wrong shape) is played again in a new environment with the same
seed; one that goes on failing is reported, and no other episode is affected.
"""

from __future__ import annotations

import traceback
from typing import Any

from neol.envs.registry import close, make, suppressed
from neol.envs.tasks import Task
from neol.rollout.gymnasium_episode import SingleSlot, Watch, episode
from neol.rollout.shards import Failure, LocalEngine, Played, Shard, new_records


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
        watch: Watch | None = None,
    ) -> None:
        self.task, self.max_steps, self.retries = task, max_steps, retries
        self.fresh = fresh
        self._watch = watch
        self._env: Any = None

    def play(self, shard: Shard) -> Played:
        records = new_records(shard)
        slot = SingleSlot(self.task, shard, records)
        slot.warm_up()
        limit = min(self.max_steps, shard.max_steps or self.max_steps)
        failures, retries = [], 0
        for e, seeds in enumerate(shard.seeds.reshape(-1, shard.trials).tolist()):
            with suppressed():
                attempts, failure = self._attempt(slot, e, seeds, limit)
            if failure is None:
                retries += attempts - 1
            else:
                records.returns[e], records.floored[e], records.steps[e] = 0.0, 0.0, 0
                if shard.life.normal.on:
                    records.moments.n[e] = 0.0
                failures.append(failure._replace(episode=shard.start + e))
        if self._watch is not None:
            self._watch(-1)
        return Played(records, tuple(failures), retries)

    def _attempt(self, slot: SingleSlot, number: int, seeds: list[int], max_steps: int) -> tuple[int, Failure | None]:
        """Play a life, all of it again if it fails: how often it was begun, and what is wrong if it goes on failing."""
        attempts = self.retries + 1
        for attempt in range(1, attempts + 1):
            try:
                for trial, seed in enumerate(seeds):
                    self._episode(slot, number, trial, seed, max_steps)
                return attempt, None
            except (Exception, SystemExit) as e:  # an environment may raise anything
                self.close()
                kind = getattr(e, "kind", "raised")
                text = "".join(traceback.format_exception(e))
        return attempts, Failure(number, attempts, kind, text)

    def _episode(self, slot: SingleSlot, number: int, trial: int, seed: int, max_steps: int) -> None:
        if self._watch is not None:
            self._watch(number)  # making the environment counts too
        if self._env is None:
            self._env = make(self.task)
        for _ in episode(slot, self._env, number, seed, max_steps, watch=self._watch, trial=trial):
            pass
        if self.fresh:
            self.close()

    def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            close(env)


class LocalGymnasium(LocalEngine):
    """Gymnasium in this process."""

    def __init__(self, task: Task, max_steps: int) -> None:
        super().__init__(task, GymnasiumPlayer(task, max_steps, not task.resets_fully))
