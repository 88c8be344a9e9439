"""A study's database as a stranger could tamper with it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

VALUES: tuple[Any, ...] = (
    None, "", "x", b"\xff\x00", -1, 0, 1, 2**62, -(2**62), 1e308, -1e308, float("inf"), 0.5, "\ud7ff\x00\x07", "../x",
    "[]", "{}", "null", '{"a": [1]}', '{"a": 1e999}', "x" * 5000, "done", "failed", "waiting", "[run]", "$\\frac{$",
    "<b>&",
)  # fmt: skip
HANGING = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS name, x AS value FROM c"


def columns(db: sqlite3.Connection) -> list[tuple[str, str]]:
    tables = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return [(t, r[1]) for t in tables for r in db.execute(f"PRAGMA table_info({t})")]


def tamper(path: Path, rng: np.random.Generator) -> str:
    """Change the database in one way; what was done."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        places = columns(db)
        table, column = places[int(rng.integers(len(places)))]
        way = int(rng.integers(10))
        try:
            if way < 6:
                value = VALUES[int(rng.integers(len(VALUES)))]
                some = "" if rng.integers(2) else " WHERE rowid % 2" if table in ("runs", "champions", "clock") else ""
                db.execute(f"UPDATE OR IGNORE {table} SET {column} = ?{some}", (value,))
                return f"{table}.{column} = {value!r}{some}"
            if way == 6:
                db.execute(f"DELETE FROM {table}" + (" WHERE 1" if rng.integers(2) else f" WHERE {column} IS NOT NULL"))
                return f"{table} emptied"
            if way == 7:
                db.execute(f"DROP TABLE {table}")
                return f"{table} dropped"
            if way == 8:
                db.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
                return f"{table}.{column} renamed"
            db.execute(f"DROP TABLE {table}")
            db.execute(f"CREATE VIEW {table} AS {HANGING}")
            return f"{table} is a view without end"
        except sqlite3.Error as e:
            return f"nothing: {e}"
