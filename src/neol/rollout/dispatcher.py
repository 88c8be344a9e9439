"""Shards given to workers that may die; results in genome order.

A `WorkerBackend` is a set of workers, here or on a cluster. The `Dispatcher` gives shards to idle workers, large
ones first, so that one long episode at the end does not leave the others waiting, and plays again what was lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from neol.errors import NeolError
from neol.network.phenotype import Phenotypes
from neol.rollout.life import Life
from neol.rollout.shards import CHUNK, Episodes, Failure, RolloutResult, Shard, ShardedRollout, headline
from neol.rollout.worker_process import PLAYED, PlayerSpec

START_SECONDS = 300.0  # for a worker to come up, where none is left
DIED, NOTHING = "died", "nothing"
Report = Callable[[dict[str, Any]], None]


class WorkerEvent(NamedTuple):
    """Something that a worker did."""

    worker: int
    kind: str  # worker.READY | PLAYED | DIED | NOTHING
    ticket: int = 0
    value: Any = None  # PLAYED: what became of the shard; DIED: why
    episode: int = -1  # DIED: the one that it was playing, if that is known


class WorkerBackend(Protocol):
    """Workers 0 .. size - 1. Each is READY once after it was started, and again whenever it has PLAYED."""

    size: int

    def submit(self, worker: int, ticket: int, shard: Shard) -> None: ...

    def wait(self, seconds: float) -> WorkerEvent: ...

    def replace(self, worker: int) -> None: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """What plays the episodes of a training run."""

    threads: int
    cpu_seconds: float  # of its worker processes so far

    def run(self, phenotypes: Phenotypes, life: Life, episodes: Episodes) -> RolloutResult: ...

    def close(self) -> None: ...


class Dispatcher:
    """Plays populations with a backend."""

    def __init__(self, spec: PlayerSpec, backend: WorkerBackend, report: Report | None = None) -> None:
        self.task, self.spec, self.backend = spec.task, spec, backend
        self.threads, self.cpu_seconds = backend.size, 0.0
        self._report = report or (lambda event: None)
        self._idle: set[int] = set()
        self._ticket = 0

    def run(self, phenotypes: Phenotypes, life: Life, episodes: Episodes) -> RolloutResult:
        """Play N episodes of every genome."""
        plan = ShardedRollout(self.task, phenotypes, life, episodes)
        work = _Work(plan, self.backend.size, even=self.spec.engine == "envpool", retries=self.spec.retries)
        busy: dict[int, tuple[int, int]] = {}
        self._ticket += 1
        quiet_since, deaths, failed_starts, survived = time.monotonic(), 0, 0, False
        while work.left or busy:
            for worker in sorted(self._idle):
                if work.left:
                    busy[worker] = start, stop = work.next(worker)
                    self._idle.discard(worker)
                    self.backend.submit(worker, self._ticket, plan.shard(start, stop))
            event = self.backend.wait(1.0)
            if event.kind == NOTHING:
                if not busy and time.monotonic() - quiet_since > START_SECONDS:
                    raise NeolError(f"no worker came up within {START_SECONDS:.0f} seconds.")
                continue
            quiet_since = time.monotonic()
            if event.kind == DIED:
                self._idle.discard(event.worker)
                failed_starts = 0 if event.worker in busy else failed_starts + 1
                event = self._explained(event)
                if event.worker in busy:
                    work.died(*busy.pop(event.worker), event)
                self._report({"event": "worker died", "worker": event.worker, "reason": str(event.value)})
                deaths += 1
                hopeless = not survived and deaths > 10 * (self.spec.retries + 1) + self.backend.size
                if hopeless or failed_starts > 5 + 3 * self.backend.size:
                    raise NeolError(
                        f"{deaths} workers died one after the other; the last: {headline(str(event.value))}"
                    )
                self.backend.replace(event.worker)
                continue
            self._idle.add(event.worker)
            self.cpu_seconds += event.value.cpu_seconds if event.kind == PLAYED else 0.0
            if event.kind == PLAYED and event.ticket == self._ticket:
                plan.take(*busy.pop(event.worker), event.value)
                survived = True
        return plan.result()

    def _explained(self, event: WorkerEvent) -> WorkerEvent:
        """A death by the watchdog, in words."""
        if "Timeout (" not in str(event.value):
            return event
        limit = f"A step took longer than step_timeout = {self.spec.step_timeout:g} seconds."
        return event._replace(value=f"{limit}\n{event.value}")

    def close(self) -> None:
        self.backend.close()


class _Work:
    """The ranges of episodes that are still to be played."""

    def __init__(self, plan: ShardedRollout, workers: int, even: bool, retries: int) -> None:
        self.plan, self.workers, self.retries = plan, workers, retries
        self.left = [(0, plan.total)]
        self._tries: dict[int, int] = {}
        self._mine: dict[int, tuple[int, int]] = {}
        if even:  # a worker keeps its part of the population, and with it its environments
            bounds = [plan.total * i // workers for i in range(workers + 1)]
            self.left = [(a, b) for a, b in pairwise(bounds) if a < b]
            self._mine = dict(enumerate(self.left))
        self._even = even

    def next(self, worker: int) -> tuple[int, int]:
        """The next range for a worker: a share of what is left, ever smaller."""
        if self._even:
            mine = self._mine.pop(worker, None)
            chosen = mine if mine in self.left else self.left[0]
            self.left.remove(chosen)
            return chosen
        start, stop = self.left.pop(0)
        left = stop - start + sum(b - a for a, b in self.left)
        size = min(stop - start, CHUNK, max(1, left // (3 * self.workers)))
        if start + size < stop:
            self.left.insert(0, (start + size, stop))
        return start, start + size

    def died(self, start: int, stop: int, event: WorkerEvent) -> None:
        """Somebody died while playing a range: play it again, and find out which episode it is that kills."""
        episode = event.episode if start <= event.episode < stop else -1
        if episode < 0 and stop - start > 1:  # not known: halve, so that it is alone sooner or later
            middle = (start + stop) // 2
            self.left[:0] = [(start, middle), (middle, stop)]
            return
        episode = max(episode, start)
        tries = self._tries[episode] = self._tries.get(episode, 0) + 1
        again = [(episode, episode + 1)]
        if tries > self.retries:
            kind = "timeout" if "Timeout (" in str(event.value) else "worker died"
            self.plan.fail(Failure(episode, tries, kind, str(event.value)))
            again = []
        self.left[:0] = [(a, b) for a, b in [(start, episode), *again, (episode + 1, stop)] if a < b]
