"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any, TextIO

from neol.training.history import HistoryRow
from neol.training.observers import NOTE, Event, Generation, Observer, Started
from neol.training.run import Run

PLAIN_EVERY, PLAIN_LONGEST = 5.0, 60.0  # seconds between plain lines: at first, and of a job that takes hours
PLAIN_SHARE = 0.05  # of the time since the start, in between
LEAST_DONE = 1e-3  # of what is left at first, before its pace says how long the rest takes: until then it sets up
WIDTH = 77  # of the live line, with its spinner in 80 columns


def duration(seconds: float) -> str:
    """1:02:03 or 2:03."""
    whole = max(0, round(seconds))
    minutes, hours = whole // 60, whole // 3600
    return f"{hours}:{minutes % 60:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


class Progress:
    """A line that says where some work stands, with the time that is left."""

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.live = self.stream.isatty() and not quiet
        self._started, self._done_before = time.monotonic(), 0.0
        self._last_line = -PLAIN_EVERY
        self._status: Any = None

    def say(self, text: str) -> None:
        """A line that stays."""
        if self.quiet:
            return
        if self._status is not None:
            self._status.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=self.stream, flush=True)

    def start(self, fraction_done: float) -> None:
        """Begin to count; a resumed run has some of the work behind it."""
        self._started, self._done_before = time.monotonic(), fraction_done
        if self.live:
            from rich.console import Console
            from rich.status import Status

            self._status = Status("starting ...", console=Console(file=self.stream), spinner="dots")
            self._status.start()

    def update(self, text: str, fraction_done: float, last: bool = False) -> None:
        """Where the work stands, with the time that is left."""
        if self.quiet:
            return
        spent = time.monotonic() - self._started
        done = fraction_done - self._done_before
        known = done > 0 and done >= LEAST_DONE * (1.0 - self._done_before)
        text += f"  ETA {duration(spent * (1.0 - fraction_done) / done) if known else '?'}"
        if self._status is not None:
            self._status.update(text[:WIDTH])
        elif last or time.monotonic() - self._last_line >= min(max(PLAIN_EVERY, PLAIN_SHARE * spent), PLAIN_LONGEST):
            self._last_line = time.monotonic()
            self.say(text)

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def short(number: float) -> str:
    """A count in four or five characters: 950, 12.3k, 1.23M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.3g}"


def wanted_here() -> bool:
    """Whether somebody is likely to look: a terminal, or a notebook."""
    return (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules


class TrainingProgress(Observer):
    """A run on the screen: one live line on a terminal, plain lines elsewhere."""

    def __init__(self, line: Progress | None = None) -> None:
        self.line = line or Progress()
        self.faults: Counter[str] = Counter()
        self._note = "starting"

    def started(self, start: Started) -> None:
        if start.before:
            self.line.say(f"Going on after generation {start.before[-1].generation} of '{start.folder}'.")
        self.line.say(start.what)
        self.line.start(start.fraction_done)

    def tick(self, note: str, fraction_done: float) -> None:
        self.line.update(f"{self._note}  {note}", fraction_done)

    def generation(self, done: Generation) -> None:
        row, number = done.row, lambda v: f"{v:.1f}" if abs(v) < 1000.0 else f"{v:.0f}"
        self._note = (
            f"gen {row['generation']:.0f}  best {number(row['best_fitness'])}  mean {number(row['mean_fitness'])}"
        )
        first = next((name for name in row if name not in HistoryRow._fields), "")  # the loop's own: species, say
        loops = f"  {first.replace('_', ' ')} {row[first]:.4g}" if first else ""
        rate = f"  {short(row['env_steps'])} steps  {short(done.steps_per_second)}/s"
        rate += f"  {self.faults.total()} faults" if self.faults else ""
        room = WIDTH - len("  ETA 9:59:59")
        text = self._note + loops + rate
        self.line.update(text if len(text) <= room else self._note + rate, done.fraction_done, done.last)

    def event(self, event: Event) -> None:
        if event.kind == NOTE:
            self.line.say(event.text)
            return
        if not self.faults[event.kind]:
            text = f": {event.text}" if event.text else ""
            self.line.say(f"{event.kind}{text} (details: events.jsonl; further ones are only counted)")
        self.faults[event.kind] += event.times

    def finished(self, run: Run | None) -> None:
        self.line.stop()
        if self.faults:
            self.line.say("Faults: " + ", ".join(f"{n} x {kind}" for kind, n in self.faults.items()) + ".")
