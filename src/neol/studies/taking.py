"""Runs that have finished in another study, taken over into one: the same key is the same run.

Any file may be such a source: its rows are read in the types that they should have, into tables of our own. What a run
is (task, seed, configuration) is known here; only what it came to is taken.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neol.studies import typed
from neol.studies.database import DONE, HISTORY, Database, existing, plan_cells
from neol.studies.plan import Cell, StudyPlan, cells
from neol.studies.study import Study, json_object


def _network(value: Any, what: str) -> str:
    json_object(text := typed.document(value, what))
    return text


_number, _count = typed.maybe(typed.number), typed.maybe(typed.count)
_CAME_TO: dict[str, Any] = {
    "ended": typed.maybe(typed.text), "generations": typed.count, "env_steps": typed.count, "best_fitness": _number,
    "best_return": _number, "held_out": typed.number, "champion_nodes": _count, "champion_connections": _count,
    "parameters": _count,
}  # fmt: skip
_TABLES: dict[str, dict[str, Any]] = {
    "generations": {**dict.fromkeys(HISTORY, _number), "generation": typed.count},
    "evaluations": {"who": typed.text, "episodes": typed.count, "mean": typed.number, "low": _number, "high": _number},
    "champions": {"network": _network},
    "versions": {"name": typed.text, "version": typed.text},
    "clock": {
        "finished": typed.maybe(typed.text), "host": typed.maybe(typed.text), "cores": _count,
        "wall_seconds": _number, "steps_per_second": _number, "cpu_seconds": _number,
    },
    "timing": {"generation": typed.count, "wall_seconds": typed.number},
}  # fmt: skip


class Source:
    """A study whose finished runs may be taken: its folder, or its study.sqlite. A NeolError where it is none."""

    def __init__(self, path: Path) -> None:
        self.database: Database = existing(path)
        self.study = Study(self.database.path.parent, self.database)

    def cells_of(self, plan: StudyPlan, scales: Mapping[str, float]) -> dict[float, list[Cell]]:
        """By scale, the cells of the plan that this source has too, if it is of the same study.

        Of a task only those at its scale in `scales`. A cell that had other settings there is another's.
        """
        if self.study.facts.get("title") != plan.title or not self.study.rows:
            return {}
        have = {(r.task, r.arm, json.dumps(r.point), r.seed): r.key for r in self.study.rows}
        every = dataclasses.replace(plan, seeds=tuple(dict.fromkeys(r.seed for r in self.study.rows)))
        return {
            scale: [
                c for c in cells(every, scale)
                if scales.get(c.task) == scale and have.get((c.task, c.arm, json.dumps(c.point), c.seed)) == c.key
            ]
            for scale in dict.fromkeys(self.study.scales.values())
        }  # fmt: skip

    def take(self, db: sqlite3.Connection) -> str:
        """Fill in the runs that are planned and not done in `db`, as far as they are done here -> a sentence on it."""
        missing = dict(db.execute("SELECT key, run FROM runs WHERE status != ?", (DONE,)).fetchall())
        with self.database.reading() as other:
            done = other.execute("SELECT key, run FROM runs WHERE status = ?", (DONE,)).fetchall()
            runs = [(there, missing[key]) for key, there in done if key in missing]
            for there, here in runs:
                _take_run(other, there, db, here)
        return f"Taken over from '{self.study.path}': {len(runs)} of the {len(done)} runs that are done there."


def _take_run(source: sqlite3.Connection, there: int, db: sqlite3.Connection, here: int) -> None:
    read = {table: _rows(source, table, columns, there) for table, columns in _TABLES.items()}
    (came_to,) = _rows(source, "runs", _CAME_TO, there)
    if "champion" not in [row[0] for row in read["evaluations"]]:
        raise typed.Damaged("a run that is done must have its champion's held-out return.")
    for table, columns in _TABLES.items():
        marks = ", ".join("?" * len(columns))
        put = f"INSERT OR REPLACE INTO {table} (run, {', '.join(columns)}) VALUES (?, {marks})"
        db.executemany(put, [(here, *row) for row in read[table]])
    values = ", ".join(f"{name} = ?" for name in _CAME_TO)
    db.execute(f"UPDATE runs SET status = ?, {values} WHERE run = ?", (DONE, *came_to, here))


def _rows(db: sqlite3.Connection, table: str, columns: dict[str, Any], run: int) -> list[list[Any]]:
    found = db.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE run = ?", (run,))
    return typed.rows(found, columns, table)


def plan_with(
    db: sqlite3.Connection, plan: StudyPlan, chosen: Sequence[Cell], scale: float, sources: Sequence[Source]
) -> None:
    """Write down what is to be run; in a new study also the cells that sources of the same one have besides."""
    is_new = not db.execute("SELECT count(*) FROM cells").fetchone()[0]
    plan_cells(db, plan, chosen, scale)
    scales = dict.fromkeys((c.task for c in chosen), scale)
    for source in sources if is_new else ():
        scales = {**source.study.scales, **scales}
        for theirs, others in source.cells_of(plan, scales).items():
            plan_cells(db, plan, others, theirs)
