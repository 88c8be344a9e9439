"""A study's database: one SQLite file, study.sqlite, that sqlite3, pandas and DuckDB read.

    study        name, value: schema, title, the plan as TOML, the reference arm
    arms         arm, label, control_of, position
    scales       task, scale: what `--scale` its budgets were multiplied with
    runs         run, key, task, seed, config (TOML), status (waiting | done | failed), and what came out
    cells        task, arm, point (JSON), seed -> run: several cells may share a run
    generations  run, generation: the run's history.csv
    evaluations  run, who (champion | champion without plasticity | champion, test world | best by fitness |
                 final policy): held-out returns
    champions    run, network: champion.json
    failures     run, attempt, reason
    versions     run, name, version
    clock        run: when, where and how fast
    timing       run, generation: seconds since the run began. These two are all that another start fills differently.

A run is written in one transaction when it has finished; until then its folder, runs/KEY, holds it.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from neol.errors import NeolError
from neol.files import finite, read_text, replacing
from neol.studies import typed
from neol.studies.plan import CONTROL, HOW, Cell, StudyPlan, parse_config
from neol.training import run_folder
from neol.training.summary import BaselineSummary, NeolSummary, read_summary

DATABASE, RUNS = "study.sqlite", "runs"
SCHEMA = 2
WAITING, DONE, FAILED = "waiting", "done", "failed"
TESTED = "champion, test world"  # who an evaluation in the world of `test_change` is of
PATIENCE = 30.0  # seconds to wait for another writer
LONGEST_READ = 60.0  # seconds that one reading, or one transaction, may take
LARGEST_VALUE = 100_000_000  # bytes
HISTORY = (
    "generation", "env_steps", "best_fitness", "mean_fitness", "median_fitness", "best_return", "mean_return",
    "mean_steps", "species", "best_nodes", "best_connections", "mean_nodes", "mean_connections", "mean_step_size",
    "mean_weight_change",
)  # fmt: skip
_TABLES = f"""
CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE arms (arm TEXT PRIMARY KEY, label TEXT NOT NULL, control_of TEXT NOT NULL, position INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE scales (task TEXT PRIMARY KEY, scale REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (run INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, task TEXT NOT NULL, seed INTEGER NOT NULL,
    config TEXT NOT NULL, status TEXT NOT NULL, ended TEXT, generations INTEGER, env_steps INTEGER, best_fitness REAL,
    best_return REAL, held_out REAL, champion_nodes INTEGER, champion_connections INTEGER,
    parameters INTEGER);
CREATE TABLE cells (task TEXT, arm TEXT REFERENCES arms, point TEXT, seed INTEGER, run INTEGER NOT NULL REFERENCES runs,
    PRIMARY KEY (task, arm, point, seed)) WITHOUT ROWID;
CREATE TABLE generations (run INTEGER REFERENCES runs, {", ".join(f"{c} REAL" for c in HISTORY)},
    PRIMARY KEY (run, generation)) WITHOUT ROWID;
CREATE TABLE evaluations (run INTEGER REFERENCES runs, who TEXT, episodes INTEGER NOT NULL, mean REAL NOT NULL,
    low REAL, high REAL, PRIMARY KEY (run, who)) WITHOUT ROWID;
CREATE TABLE champions (run INTEGER PRIMARY KEY REFERENCES runs, network TEXT NOT NULL);
CREATE TABLE failures (run INTEGER REFERENCES runs, attempt INTEGER, reason TEXT NOT NULL, PRIMARY KEY (run, attempt))
    WITHOUT ROWID;
CREATE TABLE versions (run INTEGER REFERENCES runs, name TEXT, version TEXT NOT NULL, PRIMARY KEY (run, name))
    WITHOUT ROWID;
CREATE TABLE clock (run INTEGER PRIMARY KEY REFERENCES runs, finished TEXT, host TEXT, cores INTEGER, wall_seconds REAL,
    steps_per_second REAL, cpu_seconds REAL);
CREATE TABLE timing (run INTEGER REFERENCES runs, generation INTEGER, wall_seconds REAL NOT NULL,
    PRIMARY KEY (run, generation)) WITHOUT ROWID;
"""


class Database:
    """The study.sqlite of a study's folder. Safe with several processes at once."""

    def __init__(self, folder: Path, patience: float = PATIENCE, read_only: bool = False) -> None:
        self.path, self._patience = folder / DATABASE, patience
        self._read_only = read_only  # not even a writer that was killed is undone

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state and changes nothing."""
        if not self.path.is_file():
            raise NeolError(f"'{self.path.parent}' is not a study's folder: it has no {DATABASE}.")
        undoes = os.access(self.path.parent, os.W_OK) and not self._read_only
        mode = "rw" if undoes else "ro"  # rw: a writer that was killed is undone
        with _faults(self.path), closing(self._connect(mode)) as db:
            self._check(db)
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of the block is written, or nothing."""
        with _faults(self.path), closing(self._connect("rwc")) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in _TABLES.split(";"):
                        db.execute(statement)
                    db.execute("INSERT INTO study VALUES ('schema', ?)", (str(SCHEMA),))
                self._check(db)
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        db = sqlite3.connect(uri, uri=True, timeout=self._patience, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        db.execute("PRAGMA trusted_schema = OFF")  # a schema from somebody else calls no function of ours
        return db

    def _check(self, db: sqlite3.Connection) -> None:
        """Tables and indexes alone: a view or a trigger could do anything at all, and for ever."""
        end = time.monotonic() + LONGEST_READ
        db.set_progress_handler(lambda: time.monotonic() > end, 100_000)
        found = [(r[0], r[1], str(r[2])) for r in db.execute("SELECT name, type, sql FROM sqlite_master")]
        tables = {name for name, _, _ in found}
        odd = [
            n for n, kind, sql in found if kind not in ("table", "index") or sql.lower().startswith("create virtual")
        ]
        if odd:
            raise NeolError(f"'{self.path}' is not a study's database: '{str(odd[0])[:60]}' is not a table.")
        version = db.execute("SELECT value FROM study WHERE name = 'schema'").fetchone() if "study" in tables else None
        if not tables:
            raise NeolError(f"'{self.path}' is empty: its study was stopped before it began; start it again.")
        if version is None or version[0] != str(SCHEMA) or "runs" not in tables:
            raise NeolError(f"'{self.path}' is not the database of a NEOL study of version {SCHEMA}.")


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except typed.Damaged as e:
        raise NeolError(f"'{path}' is damaged: {e.sentence}") from None
    except sqlite3.OperationalError as e:
        if "locked" in str(e):
            raise NeolError(f"'{path}' is locked by another program; try again when that has ended.") from None
        if "interrupted" in str(e):
            raise NeolError(f"'{path}' takes longer than {LONGEST_READ:.0f} s to read.") from None
        raise NeolError(f"cannot use '{path}': {e}.") from None
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as e:
        raise NeolError(f"'{path}' is damaged or not a study's database: {e}.") from None


def plan_cells(db: sqlite3.Connection, plan: StudyPlan, cells: Sequence[Cell], scale: float) -> None:
    """Write down what is to be run; what is there already stays."""
    tasks = dict.fromkeys(c.task for c in cells)
    for task in tasks:
        before = db.execute("SELECT scale FROM scales WHERE task = ?", (task,)).fetchone()
        if before and before[0] != scale:
            raise NeolError(
                f"scale = {scale:g} is not allowed; this study runs {task} at scale {before[0]:g}; give another --out."
            )
    _same_study(db, plan, cells)
    facts = {"title": plan.title, "plan": plan.text, "reference": plan.reference}
    for name, value in facts.items():
        db.execute("INSERT INTO study VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name, value))
    db.executemany("INSERT OR IGNORE INTO scales VALUES (?, ?)", [(task, scale) for task in tasks])
    position = {name: i for i, name in enumerate(_arm_order(plan))}
    arms = {c.arm: (c.arm, c.label, c.control_of, position[c.arm]) for c in cells}
    db.executemany("INSERT OR REPLACE INTO arms VALUES (?, ?, ?, ?)", arms.values())
    for c in cells:
        run = db.execute("SELECT run FROM runs WHERE key = ?", (c.key,)).fetchone()
        if run is None:
            new = (c.key, c.task, c.seed, c.config.to_toml(), WAITING)
            run = (
                db.execute("INSERT INTO runs (key, task, seed, config, status) VALUES (?, ?, ?, ?, ?)", new).lastrowid,
            )
        row = (c.task, c.arm, json.dumps(c.point), c.seed)
        db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?, ?)", (*row, run[0]))


def _same_study(db: sqlite3.Connection, plan: StudyPlan, cells: Sequence[Cell]) -> None:
    """Refuse another study's cells, and the same arm with other settings, whatever the seed."""
    title = db.execute("SELECT value FROM study WHERE name = 'title'").fetchone()
    if title and title[0] != plan.title:
        raise NeolError(f"this folder holds another study, '{title[0]}'; give another --out.")
    found = db.execute("SELECT c.task, c.arm, c.point, config FROM cells c JOIN runs USING (run) GROUP BY 1, 2, 3")
    known = {tuple(r)[:3]: r["config"] for r in found}
    axes = {tuple(json.loads(point)) for _, _, point in known}
    for c in cells:
        if axes and tuple(c.point) not in axes:
            raise NeolError("the grid has other fields than when this study was started; give another --out.")
        before = known.get((c.task, c.arm, json.dumps(c.point)))
        if before is None:
            continue
        old, new = (x.flat() for x in (parse_config(before, DATABASE), c.config))
        changed = [k for k in new if k not in ("seed", *HOW) and new[k] != old.get(k)]
        if changed:
            name = changed[0]
            raise NeolError(
                f"arm '{c.arm}' on {c.task} has other settings than when this study was started ({name} = {new[name]}, "
                f"was {old.get(name)}); give another --out."
            )


def _arm_order(plan: StudyPlan) -> list[str]:
    return [name for arm in plan.arms for name in (arm.name, arm.name + CONTROL)]


def record_result(db: sqlite3.Connection, run: int, folder: Path) -> None:
    """Take a finished run in from its folder; a second time changes nothing."""
    if db.execute("SELECT status FROM runs WHERE run = ?", (run,)).fetchone()[0] == DONE:
        return
    summary = read_summary(folder)
    history = run_folder.read_table(folder / run_folder.HISTORY)
    n = len(history["generation"])
    best = [v for v in _finite(history["best_return"]) if v is not None]
    columns = [_finite(history[c]) if c in history else [None] * n for c in HISTORY]  # a baseline has no species
    rows = [(run, *r) for r in zip(*columns, strict=True)]
    marks = ", ".join("?" * (len(HISTORY) + 1))
    db.executemany(f"INSERT OR REPLACE INTO generations VALUES ({marks})", rows)
    timing = run_folder.read_table(folder / run_folder.TIMING)
    times = zip([run] * n, timing["generation"].tolist(), timing["wall_seconds"].tolist(), strict=True)
    db.executemany("INSERT OR REPLACE INTO timing VALUES (?, ?, ?)", times)
    db.executemany("INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?, ?, ?)", _evaluations(run, summary))
    if (folder / run_folder.CHAMPION).exists():
        text = read_text(folder / run_folder.CHAMPION)
        db.execute("INSERT OR REPLACE INTO champions VALUES (?, ?)", (run, text))
    db.executemany("INSERT OR REPLACE INTO versions VALUES (?, ?, ?)", [(run, *v) for v in summary.versions.items()])
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    took = (summary.wall_seconds, summary.steps_per_second, summary.cpu_seconds)
    clock = (run, when, platform.node(), os.cpu_count(), *took)
    db.execute("INSERT OR REPLACE INTO clock VALUES (?, ?, ?, ?, ?, ?, ?)", clock)
    db.execute(
        "UPDATE runs SET status = ?, ended = ?, generations = ?, env_steps = ?, best_fitness = ?, best_return = ?, "
        "held_out = ?, champion_nodes = ?, champion_connections = ?, parameters = ? WHERE run = ?",
        (
            DONE, summary.status, summary.generations, summary.env_steps, summary.best_fitness,
            best[-1] if best else None, summary.champion_return_mean, summary.champion_nodes,
            summary.champion_connections, summary.parameters, run,
        ),
    )  # fmt: skip


def _finite(column: np.ndarray) -> list[float | None]:
    """Numbers as SQLite stores them; an interval of a baseline in which no episode ended has no return."""
    return finite(column.tolist())


def _evaluations(run: int, s: NeolSummary | BaselineSummary) -> list[tuple[Any, ...]]:
    n, without = s.champion_episodes, s.champion_without_plasticity_return_mean
    other: tuple[Any, ...] = (
        ("final policy", n, s.final_return_mean, *s.final_return_ci95)
        if isinstance(s, BaselineSummary)
        else ("best by fitness", n, s.best_by_fitness_return_mean, *s.best_by_fitness_return_ci95)
    )
    tested = (
        [(run, TESTED, n, s.champion_test_return_mean, *(s.champion_test_return_ci95 or (None, None)))]
        if isinstance(s, NeolSummary) and s.champion_test_return_mean is not None
        else []
    )
    return [
        *tested,
        (run, "champion", n, s.champion_return_mean, *s.champion_return_ci95),
        (run, "champion without plasticity", n, without, None, None),
        (run, *other),
    ]


def record_failure(db: sqlite3.Connection, run: int, reason: str) -> None:
    if db.execute("SELECT status FROM runs WHERE run = ?", (run,)).fetchone()[0] == DONE:
        return
    attempt = db.execute("SELECT count(*) FROM failures WHERE run = ?", (run,)).fetchone()[0]
    db.execute("INSERT INTO failures VALUES (?, ?, ?)", (run, attempt, reason))
    db.execute("UPDATE runs SET status = ? WHERE run = ?", (FAILED, run))


def forget_failures(db: sqlite3.Connection) -> None:
    """Failed runs wait again; their reasons stay on record."""
    db.execute("UPDATE runs SET status = ? WHERE status = ?", (WAITING, FAILED))


def existing(study: Path) -> Database:
    """The database of a study's folder, or of a file named study.sqlite; a NeolError where there is none."""
    folder = study.parent if study.name == "study.sqlite" else study
    if not (folder / "study.sqlite").is_file():
        raise NeolError(f"'{study}' is no study: it must be a folder with a study.sqlite, or that file.")
    return Database(folder)


def trimmed_copy(database: Database, target: Path) -> None:
    """A copy without the champions that no report shows: all but each cell's best, over its seeds."""
    if target.exists() and target.samefile(database.path):
        raise NeolError(f"'{target}' is the study's own database; give another file.")
    if not target.absolute().parent.is_dir():
        raise NeolError(f"cannot write '{target}': there is no folder '{target.absolute().parent}'.")
    with database.reading() as db, replacing(target) as part:
        part.unlink(missing_ok=True)
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            db.backup(copy)
            copy.execute(
                "DELETE FROM champions WHERE run NOT IN (SELECT run FROM (SELECT run, row_number() OVER (PARTITION BY "
                "c.task, c.arm, c.point ORDER BY held_out DESC, run) AS place FROM cells c JOIN runs USING (run)) "
                "WHERE place = 1)"
            )
            copy.execute("VACUUM")
