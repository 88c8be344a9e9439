"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

PLAIN_EVERY = 5.0  # seconds between plain lines


def duration(seconds: float) -> str:
    """1:02:03 or 2:03."""
    whole = max(0, round(seconds))
    minutes, hours = whole // 60, whole // 3600
    return f"{hours}:{minutes % 60:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


class Progress:
    """Shows generations as they pass. `total` 0 = unknown."""

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.live = self.stream.isatty() and not quiet
        self._started, self._done_before = time.monotonic(), 0.0
        self._last_line = -PLAIN_EVERY
        self._status: Any = None
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self.quiet:
            return
        if self._status is not None:
            self._status.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=self.stream, flush=True)

    def say_once(self, text: str) -> None:
        """The same, but never twice the same line."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def start(self, fraction_done: float) -> None:
        """Begin to count; a resumed run has some of the work behind it."""
        self._started, self._done_before = time.monotonic(), fraction_done
        if self.live:
            from rich.console import Console
            from rich.status import Status

            self._status = Status("starting ...", console=Console(file=self.stream), spinner="dots")
            self._status.start()

    def generation(self, row: dict[str, float], steps_per_second: float, fraction_done: float, last: bool) -> None:
        """One generation has passed."""
        text = (
            f"generation {row['generation']:.0f}  best {row['best_fitness']:.1f}  mean {row['mean_fitness']:.1f}  "
            f"species {row['species']:.0f}  {row['env_steps'] / 1e6:.2f}M steps  {steps_per_second:,.0f} steps/s"
        )
        self.update(text, fraction_done, last)

    def update(self, text: str, fraction_done: float, last: bool = False) -> None:
        """Where the work stands, with the time that is left."""
        if self.quiet:
            return
        spent = time.monotonic() - self._started
        done = fraction_done - self._done_before
        text += f"  ETA {duration(spent * (1.0 - fraction_done) / done) if done > 0 else '?'}"
        if self._status is not None:
            self._status.update(text)
        elif last or time.monotonic() - self._last_line >= PLAIN_EVERY:
            self._last_line = time.monotonic()
            self.say(text)

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
