"""From a session to a finished run: resume, generation after generation, save, finish; NEOL's runs and baselines'."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from neol.arrays import checked
from neol.errors import NeolError
from neol.files import write_atomic
from neol.system import uninterrupted
from neol.training import run_folder
from neol.training.history import History
from neol.training.observers import NOTE, Event, Generation, Observer, Started
from neol.training.run import Run
from neol.training.summary import Summary, read_summary, write_summary

SAVE_COST = 20.0  # a checkpoint is written once the work since the last is worth this many times its cost


class Session(Protocol):
    """A run in progress: what differs between NEOL's own and a baseline."""

    config: Any  # a Config or BaselineConfig: what a checkpoint belongs to
    folder: Path
    history: History

    @property
    def results(self) -> tuple[str, ...]:
        """The files that `finish` writes."""

    def describe(self) -> str:
        """What is trained on what, in a sentence."""

    def advance(self) -> Generation:
        """The next generation: evaluated, recorded, and learned from."""

    def why_stop(self) -> str | None:
        """The reason to stop now, if there is one."""

    def fraction_done(self) -> float: ...

    @property
    def saves_always(self) -> bool:
        """Whether every generation is saved, however short it was."""

    @property
    def is_whole(self) -> bool:
        """Whether its state is that at the end of a generation, so that it may be saved."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds besides the history."""

    def checked(self, arrays: Mapping[str, np.ndarray], what: str) -> Mapping[str, np.ndarray]:
        """What `arrays` gave once, read from a file and now checked; a NeolError where it is not this session's."""

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None: ...

    def write_best(self) -> None:
        """The best controller so far into the folder, for whoever cannot wait for the end."""

    def finish(self, status: str) -> Summary:
        """Choose the champion, and write it."""

    def close(self) -> None: ...


class Saver:
    """Writes checkpoints, but no more often than they are worth."""

    def __init__(self, session: Session) -> None:
        self.session, self._saved, self._cost = session, time.monotonic(), 0.0

    def save(self, always: bool = False) -> None:
        if not (always or self.session.saves_always) and time.monotonic() - self._saved < SAVE_COST * self._cost:
            return
        s, started = self.session, time.monotonic()
        with uninterrupted():
            run_folder.write_checkpoint(s.folder, {**s.arrays(), **s.history.arrays()}, s.config)
            (s.folder / run_folder.SUMMARY).unlink(missing_ok=True)  # of a run that was finished, and now goes on
            s.history.write(s.folder)
            s.write_best()
            run_folder.settle_replaced(s.folder)  # a run that this one overwrites is not needed any more
        self._saved = time.monotonic()
        self._cost = self._saved - started


def run_to_end(session: Session, resumed: bool, observer: Observer) -> Run:
    """Train, from the beginning or from the folder's checkpoint, until there is a reason to stop; then finish."""
    run = None
    try:
        if resumed:
            _restore(session)
            session.history.write(session.folder)
        finished = resumed and _is_finished(session)
        if not finished:
            # The budget may have changed; and a summary that is older than this is not of what comes now.
            write_atomic(session.folder / run_folder.CONFIG, session.config.to_toml())
        before = tuple(session.history.rows)
        observer.started(Started(session.folder, session.describe(), before, session.fraction_done()))
        if not finished:
            status = _evolve(session, observer)
            observer.event(Event(NOTE, "Choosing the champion on fresh episodes ..."))
            write_summary(session.folder, session.finish(status))
        run = Run(session.folder, trust=True)  # its environment is the user's word already
    finally:
        session.close()
        observer.finished(run)
    return run


def _is_finished(session: Session) -> bool:
    """Whether the folder has all that this session could come to: nothing is left to train, nor to choose again.

    The summary is written last, so what is newer than it was changed by somebody else.
    """
    summary = session.folder / run_folder.SUMMARY
    kept = [session.folder / name for name in (run_folder.CONFIG, *session.results)]
    if session.why_stop() is None or not all(path.is_file() for path in (summary, *kept)):
        return False
    if max(path.stat().st_mtime_ns for path in kept) > summary.stat().st_mtime_ns:
        return False
    if run_folder.read_config_text(session.folder) != session.config.to_toml():
        return False
    with suppress(NeolError):  # a summary that is damaged is made again
        return read_summary(session.folder).generations == len(session.history.rows)
    return False


def _restore(session: Session) -> None:
    """Go on from the folder's checkpoint: every array is checked before anything is made of it."""
    arrays, path = run_folder.read_checkpoint(session.folder, session.config), session.folder / run_folder.CHECKPOINT
    declared = session.history.declared()
    session.history.restore(checked({k: arrays.pop(k) for k in declared if k in arrays}, declared, f"'{path}'"))
    try:
        session.restore(session.checked(arrays, f"'{path}'"))
    except NeolError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, AssertionError) as e:
        raise NeolError(f"'{path}' cannot be gone on with: {type(e).__name__}: {e}.") from None


def _evolve(session: Session, observer: Observer) -> str:
    """Generation after generation until there is a reason to stop; return it."""
    saver = Saver(session)
    status = session.why_stop()
    try:
        while status is None:
            done = session.advance()
            status = session.why_stop()
            if observer.generation(done._replace(last=status is not None)):
                status = status or "stopped by callback"
            saver.save(always=status is not None)
    except KeyboardInterrupt:
        if session.history.rows and session.is_whole:
            saver.save(always=True)
        raise
    return status


def part(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays `name.*` of a checkpoint, by the rest of their names."""
    return {k[len(name) + 1 :]: v for k, v in arrays.items() if k.startswith(f"{name}.")}


def named(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays as `name.*` of a checkpoint."""
    return {f"{name}.{k}": v for k, v in arrays.items()}


def record_event(folder: Path, generation: int, event: Event) -> None:
    """A line in events.jsonl."""
    line = {"generation": generation, "event": event.kind, **event.details}
    path = folder / run_folder.EVENTS
    torn = path.exists() and path.read_bytes()[-1:] not in (b"\n", b"")
    with open(path, "a", encoding="utf-8") as f:
        f.write("\n" * torn + json.dumps(line) + "\n")


def count_events(folder: Path) -> dict[str, int]:
    """How many faults of each kind a run's events.jsonl tells of."""
    path = folder / run_folder.EVENTS
    if not path.exists():
        return {}
    counts: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, TypeError, KeyError, AttributeError):  # a line that a kill cut off
            event = json.loads(line)
            counts[str(event["event"])] += int(event.get("times", 1))
    return dict(counts)
