"""Who is told while a run goes on: progress on the screen, TensorBoard, a user's callback, and whatever comes next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.errors import NeolError
from neol.neat.genome import Genomes
from neol.rollout.shards import RolloutResult
from neol.training.history import HistoryRow
from neol.training.run import Run

NOTE = "note"  # an event that is only said; all others are faults, written to events.jsonl and counted


class Started(NamedTuple):
    """A run begins, or goes on."""

    folder: Path
    what: str  # the task, the engine, and how many work on it
    before: Sequence[HistoryRow]  # the generations that an earlier session left
    fraction_done: float


class Generation(NamedTuple):
    """A generation that was just evaluated."""

    row: Mapping[str, float]  # its line of history.csv
    steps_per_second: float
    fraction_done: float  # of the run
    last: bool
    genomes: Genomes | None = None  # a baseline has none of these
    fitness: np.ndarray | None = None  # f8 (P,)
    result: RolloutResult | None = None


class Event(NamedTuple):
    """Something that is worth knowing: a note for the reader, or a fault (a retry, a death, a time-out)."""

    kind: str
    text: str
    details: Mapping[str, Any] = {}

    @property
    def times(self) -> int:
        """How many faults it stands for."""
        return int(self.details.get("times", 1))


class Observer:
    """Override what you want to be told. Exceptions end the run."""

    def started(self, start: Started) -> None:
        """The run begins, or goes on."""

    def tick(self, note: str, fraction_done: float) -> None:
        """Somewhere within a generation (baselines)."""

    def generation(self, done: Generation) -> bool | None:
        """A generation was evaluated; True stops the run after it."""

    def event(self, event: Event) -> None:
        """A note, or a fault."""

    def finished(self, run: Run | None) -> None:
        """The run is over: its result, or None where it was interrupted or failed."""


def check_observers(observers: Any) -> Sequence[Observer]:
    """The observers, or a NeolError where one of them is none."""
    listed = list(observers) if isinstance(observers, list | tuple) else [observers]
    for one in listed:
        if not all(callable(getattr(one, m, None)) for m in ("started", "tick", "generation", "event", "finished")):
            raise NeolError(
                f"observers = {one!r} is not allowed; it must be a list of neol.training.observers.Observer."
            )
    return listed


class Observers(Observer):
    """All of them, one after the other."""

    def __init__(self, members: Sequence[Observer]) -> None:
        self.members = tuple(members)

    def started(self, start: Started) -> None:
        for m in self.members:
            m.started(start)

    def tick(self, note: str, fraction_done: float) -> None:
        for m in self.members:
            m.tick(note, fraction_done)

    def generation(self, done: Generation) -> bool:
        answers = [m.generation(done) for m in self.members]  # everybody is told
        return any(answers)

    def event(self, event: Event) -> None:
        for m in self.members:
            m.event(event)

    def finished(self, run: Run | None) -> None:
        for m in self.members:
            m.finished(run)


class Callback(Observer):
    """A function that is called after each generation, as an observer."""

    def __init__(self, function: Callable[[Generation], Any]) -> None:
        self.function = function

    def generation(self, done: Generation) -> bool:
        return bool(self.function(done))
