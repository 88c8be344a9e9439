"""One run's folder, read as it grows: by whom it is written does not matter, nothing in it is touched.

Every file of a run but events.jsonl is replaced whole, and history.csv only ever gets longer; a run that is killed and
resumed goes on from its last checkpoint, so that its history may lose its last lines and get them again.
"""

from __future__ import annotations

import csv
import json
import math
import os
import stat
import tomllib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from neol.errors import NeolError
from neol.figures.style import shown
from neol.files import finite
from neol.live.river import River, read_sizes
from neol.training import run_folder
from neol.training.history import fraction_done

MOST_READ = 50_000_000  # bytes of one file
MOST_POINTS = 400  # of a curve
LAST_EVENTS = 40
SILENCE = 90.0  # seconds after which a run that nobody here holds counts as stopped, unless its generations are longer
RUNNING, ELSEWHERE, STOPPED, FINISHED, BEGUN = "running", "running elsewhere", "stopped", "finished", "not begun"

Stamp = tuple[int, int, int]


class RunNow(NamedTuple):
    """What a list of runs tells of each."""

    state: str
    task: str
    outer: str
    rule: str
    seed: int | None
    generation: int | None
    best: float | None
    held_out: float | None
    steps_per_second: float | None
    done: float | None  # 0 .. 1
    eta: float | None  # seconds


class RunFiles:
    """A run's folder; `look` is cheap where nothing has changed. Closely: whole curves and events, not ends alone."""

    def __init__(self, folder: Path, closely: bool = False) -> None:
        self.folder, self.closely = folder, closely
        self._stamps: dict[str, Stamp | None] = {}
        self.settings: dict[str, Any] = {}
        self.columns: dict[str, list[float]] = {}
        self.timing: dict[str, list[float]] = {}
        self.summary: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.event_counts: dict[str, int] = {}
        self.river = River()

    # ------------------------------------------------------------ reading

    def look(self) -> bool:
        """Read what has changed; whether anything has."""
        readers = {
            run_folder.CONFIG: self._read_config,
            run_folder.SUMMARY: self._read_summary,
            run_folder.HISTORY: lambda: self._read_table("columns", run_folder.HISTORY),
            run_folder.TIMING: lambda: self._read_table("timing", run_folder.TIMING),
            **({run_folder.EVENTS: self._read_events} if self.closely else {}),
        }
        changed = False
        for name, read in readers.items():
            stamp = _stamp(self.folder / name)
            if stamp != self._stamps.get(name, ()):
                read()
                self._stamps[name], changed = stamp, True
        if self.closely:
            checkpoint = _stamp(self.folder / run_folder.CHECKPOINT)
            if checkpoint is not None and checkpoint != self._stamps.get(run_folder.CHECKPOINT):
                self.river.add(read_sizes(self.folder))
            self._stamps[run_folder.CHECKPOINT] = checkpoint
        champion = _stamp(self.folder / run_folder.CHAMPION)
        changed |= champion != self._stamps.get(run_folder.CHAMPION)
        self._stamps[run_folder.CHAMPION] = champion
        return changed

    @property
    def champion_stamp(self) -> Stamp | None:
        return self._stamps.get(run_folder.CHAMPION)

    def _read_config(self) -> None:
        """The first lines tell most; a whole file is read only where these do not."""
        text = _text(self.folder / run_folder.CONFIG)
        wanted, found = ("task", "seed", "generations", "max_env_steps", "outer", "rule", "algorithm"), {}
        for line in text.splitlines()[:400]:
            name = line.partition("=")[0].strip()
            if name in wanted and name not in found:
                with suppress(tomllib.TOMLDecodeError, RecursionError):
                    found.update(tomllib.loads(line))
        self.settings = found

    def _read_summary(self) -> None:
        self.summary = {}
        with suppress(ValueError, RecursionError):
            value = json.loads(_text(self.folder / run_folder.SUMMARY) or "{}")
            self.summary = value if isinstance(value, dict) else {}

    def _read_table(self, name: str, file: str) -> None:
        """Columns of numbers; a line that is torn or no table's is left out."""
        text = _text(self.folder / file) if self.closely else _ends(self.folder / file)
        header, *lines = text.splitlines() or [""]
        names = next(csv.reader([header]), [])[:200]
        columns: dict[str, list[float]] = {n[:60]: [] for n in names}
        for row in csv.reader(lines):
            numbers = _numbers(row)
            if len(numbers) == len(names):
                for column, number in zip(columns.values(), numbers, strict=False):
                    column.append(number)
        setattr(self, name, columns)

    def _read_events(self) -> None:
        counts: Counter[str] = Counter()
        last: list[dict[str, Any]] = []
        for line in _text(self.folder / run_folder.EVENTS).splitlines():
            with suppress(ValueError, TypeError, KeyError, RecursionError, OverflowError):
                event = json.loads(line)
                kind = shown(event["event"], 60)
                counts[kind] += int(event.get("times", 1))
                why = str(event.get("reason", event.get("traceback", ""))).strip().splitlines() or [""]
                last.append({"generation": _whole(event.get("generation")), "kind": kind, "why": shown(why[-1], 160)})
        self.events, self.event_counts = last[-LAST_EVENTS:], dict(counts)

    # ------------------------------------------------------------ what it comes to

    def now(self, locks: frozenset[int] | None) -> RunNow:
        """`locks`: inodes that somebody on this machine has locked; None = that cannot be told here."""
        rows = self.columns
        best = rows.get("best_fitness") or [math.nan]
        generation = rows.get("generation") or [math.nan]
        state = self.state(locks)
        done, eta = self._left(state)
        return RunNow(
            state,
            shown(self.settings.get("task", "?"), 60),
            shown(self.settings.get("outer", self.settings.get("algorithm", "")), 30),
            shown(self.settings.get("rule", ""), 30),
            _whole(self.settings.get("seed")),
            _whole(generation[-1]),
            _finite(best[-1]),
            _finite(self.summary.get("champion_return_mean")),
            _finite((self.timing.get("steps_per_second") or [math.nan])[-1]),
            done,
            eta,
        )

    def state(self, locks: frozenset[int] | None) -> str:
        """Whether somebody works on it: by its lock on this machine, by its files' age elsewhere."""
        files = [self.folder / run_folder.LOCK, self.folder.with_name(f".{self.folder.name}.lock")]
        held = [s for s in map(_stamp, files) if s is not None]
        if locks is not None and any(s[2] in locks for s in held):
            return RUNNING
        if self.summary:
            return FINISHED
        stamp = self._stamps.get(run_folder.HISTORY)
        last = stamp[0] if stamp else 0
        age = datetime.now(UTC).timestamp() - last / 1e9
        walls = self.timing.get("wall_seconds") or [0.0]
        usual = walls[-1] - walls[-2] if len(walls) > 1 else walls[-1]
        if held and age < max(SILENCE, 5.0 * usual):
            return ELSEWHERE
        return STOPPED if last else BEGUN

    def _left(self, state: str) -> tuple[float | None, float | None]:
        """How much is done, and in how many seconds the rest will be, at the pace of the last generations."""
        steps, walls = self.columns.get("env_steps") or [], self.timing.get("wall_seconds") or []
        if state == FINISHED or not steps or not walls:
            return (1.0 if state == FINISHED else None), None
        limits: dict[str, Any] = {"max_env_steps": 0}
        for name in ("generations", "max_env_steps"):
            value = self.settings.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                limits[name] = value
        with suppress(OverflowError, ValueError, ZeroDivisionError):
            n, back = len(walls), min(10, len(walls) - 1)
            first = int(self.columns["generation"][-1]) + 1
            done = fraction_done(first, int(steps[-1]), limits)
            before = fraction_done(first - back, int(steps[-1 - back]), limits) if back and len(steps) > back else 0.0
            spent = walls[-1] - (walls[n - 1 - back] if back else 0.0)
            going = state in (RUNNING, ELSEWHERE) and done > before
            return done, _finite((1.0 - done) * spent / (done - before)) if going else None
        return None, None

    def detail(self, locks: frozenset[int] | None) -> dict[str, Any]:
        """All that a page shows of a run but its network; finite numbers or null."""
        facts = ("status", "env_steps", "champion_return_mean", "champion_return_ci95", "champion_episodes",
                 "champion_without_plasticity_return_mean", "champion_nodes", "champion_connections")  # fmt: skip
        summary = {k: _plain(self.summary[k]) for k in facts if k in self.summary}
        rows = len(self.columns.get("generation", ()))
        return finite({
            **self.now(locks)._asdict(), "columns": thinned(self.columns), "rows": rows, "summary": summary,
            "timing": thinned({k: self.timing[k] for k in ("generation", "steps_per_second") if k in self.timing}),
            "wall_seconds": (self.timing.get("wall_seconds") or [math.nan])[-1], "events": self.events,
            "event_counts": self.event_counts, "river": self.river.told(), "folder": shown(self.folder, 300),
        })  # fmt: skip


def thinned(columns: Mapping[str, list[float]], most: int = MOST_POINTS) -> dict[str, list[float | None]]:
    """Every so many rows, and always the last one."""
    rows = min((len(c) for c in columns.values()), default=0)
    stride = max(1, math.ceil(rows / most))
    places = [*range((rows - 1) % stride, rows, stride)] if rows else []
    return {n: [_finite(float(f"{c[i]:.6g}")) for i in places] for n, c in columns.items()}


def held_locks() -> frozenset[int] | None:
    """Inodes of the files that are locked on this machine, none of them touched; None where there is no list."""
    try:
        text = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = (word.rpartition(":")[2] for line in text.splitlines() for word in line.split() if word.count(":") == 2)
    return frozenset(int(w) for w in found if w.isdigit())


def _stamp(path: Path) -> Stamp | None:
    """(changed at, size, inode) of a regular file; a link is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _text(path: Path) -> str:
    """A file's text; '' where there is none, or what is there is no regular file."""
    try:
        with open(_open(path), "rb") as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                return ""
            return f.read(MOST_READ).decode("utf-8", "replace")
    except OSError:
        return ""


def _ends(path: Path, most: int = 8192) -> str:
    """The first line of a table and its last ones, without reading what lies between."""
    try:
        with open(_open(path), "rb") as f:
            found = os.fstat(f.fileno())
            if not stat.S_ISREG(found.st_mode):
                return ""
            head = f.read(most)
            if found.st_size <= most:
                return head.decode("utf-8", "replace")
            f.seek(-most // 2, os.SEEK_END)
            tail = f.read(most // 2).partition(b"\n")[2]
            return (head.partition(b"\n")[0] + b"\n" + tail).decode("utf-8", "replace")
    except OSError:
        return ""


def _numbers(row: list[str]) -> list[float]:
    try:
        return [float(v) for v in row]
    except ValueError:
        return []


def _finite(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usable and abs(value) < 1e300 and math.isfinite(value) else None


def _whole(value: Any) -> int | None:
    number = _finite(value)
    return int(number) if number is not None and abs(number) < 2**53 else None


def _plain(value: Any) -> Any:
    """A fact of a summary, whatever a stranger wrote there."""
    if isinstance(value, list):
        return [_finite(v) for v in value[:10]]
    return shown(value, 80) if isinstance(value, str) else _finite(value)


def read_champion(folder: Path) -> Any:
    """The network of a run's champion.json, checked; a NeolError where there is none."""
    from neol.deploy.network_json import parse

    path = folder / run_folder.CHAMPION
    if _stamp(path) is None:
        raise NeolError("there is no champion.json yet.")
    return parse(path)
