"""Study: a study's folder, read. What its runs came to, as arrays."""

from __future__ import annotations

import csv
import io
import json
import os
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.baselines.settings import BaselineConfig
from neol.errors import NeolError, nearest
from neol.files import as_path, cell
from neol.studies import typed
from neol.studies.database import DONE, FAILED, HISTORY, RUNS, WAITING, Database
from neol.studies.plan import CONTROL_ROLE, PLASTIC, ROLES, AnyConfig, parse_config

# metric -> what it is, as reports say it
METRICS = {
    "held_out": "champion's held-out return",
    "best_return": "final best fitness (the paper's metric)",
    "gap": "winner's-curse gap (final best fitness minus held-out return)",
    "tested": "champion's return in the test world",
    "env_steps": "environment steps",
    "parameters": "parameters of the champion",
    "seconds_per_million": "processor seconds per million environment steps",
}


class ArmLabel(NamedTuple):
    name: str
    label: str
    control_of: str


class Row(NamedTuple):
    """A cell of the study, and what its run came to (None where it has not finished)."""

    task: str
    arm: str
    point: dict[str, Any]
    seed: int
    run: int
    key: str
    status: str
    generations: int | None
    env_steps: int | None
    best_return: float | None  # the paper's metric: the highest return in the final generation
    held_out: float | None  # the champion's mean return on fresh episodes
    held_out_low: float | None
    held_out_high: float | None
    without_plasticity: float | None  # the same champion, not learning
    fittest_held_out: float | None  # the best by fitness, on fresh episodes
    champion_nodes: int | None
    champion_connections: int | None
    parameters: int | None  # numbers that the champion acts with
    wall_seconds: float | None
    steps_per_second: float | None
    cpu_seconds: float | None
    tested: float | None = None  # the champion in the world of `test_change`

    @property
    def gap(self) -> float | None:
        if self.best_return is None or self.held_out is None:
            return None
        return self.best_return - self.held_out

    @property
    def seconds(self) -> float | None:
        """Processor seconds, the champion's choice included; where unknown, by the clock: runs have one core each."""
        return self.cpu_seconds or self.wall_seconds

    @property
    def seconds_per_million(self) -> float | None:
        return self.seconds * 1e6 / self.env_steps if self.seconds and self.env_steps else None


_ROWS = """
SELECT c.task, c.arm, c.point, c.seed, r.run, r.key, r.status, r.generations, r.env_steps, r.best_return,
       e.mean AS held_out, e.low AS held_out_low, e.high AS held_out_high, w.mean AS without_plasticity,
       f.mean AS fittest_held_out,
       r.champion_nodes, r.champion_connections, r.parameters, k.wall_seconds, k.steps_per_second, k.cpu_seconds,
       t.mean AS tested
FROM cells c JOIN runs r USING (run)
LEFT JOIN evaluations e ON e.run = r.run AND e.who = 'champion'
LEFT JOIN evaluations w ON w.run = r.run AND w.who = 'champion without plasticity'
LEFT JOIN evaluations f ON f.run = r.run AND f.who = 'best by fitness'
LEFT JOIN evaluations t ON t.run = r.run AND t.who = 'champion, test world'
LEFT JOIN clock k ON k.run = r.run
JOIN arms a USING (arm)
ORDER BY c.task, a.position, c.point, c.seed
"""


_FACTS: Any = {"name": typed.text, "value": typed.document}
_ARMS: Any = {"arm": typed.text, "label": typed.text, "control_of": typed.text}
_SCALES: Any = {"task": typed.text, "scale": typed.number}
_COLUMNS: Any = {
    "task": typed.text, "arm": typed.text, "point": typed.point, "seed": typed.whole, "run": typed.whole,
    "key": typed.key, "status": typed.one_of(WAITING, DONE, FAILED),
    **dict.fromkeys(("generations", "env_steps"), typed.maybe(typed.count)),
    **dict.fromkeys(
        ("best_return", "held_out", "held_out_low", "held_out_high", "without_plasticity", "fittest_held_out"),
        typed.maybe(typed.number),
    ),
    **dict.fromkeys(("champion_nodes", "champion_connections", "parameters"), typed.maybe(typed.count)),
    **dict.fromkeys(("wall_seconds", "steps_per_second", "cpu_seconds", "tested"), typed.maybe(typed.number)),
}  # fmt: skip


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in a text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise typed.Damaged("champions.network must be a JSON object.")
    return value


class Study:
    """What a study left: `tasks`, `arms`, `rows`, `scores(metric)`, `history(run)`, `champion(run)`."""

    def __init__(self, path: str | os.PathLike[str], database: Database | None = None) -> None:
        self.path = as_path(path, "path")
        self.database = database or Database(self.path)
        with self.database.reading() as db:
            facts = typed.rows(db.execute("SELECT name, value FROM study"), _FACTS, "study")
            arms = typed.rows(db.execute("SELECT arm, label, control_of FROM arms ORDER BY position"), _ARMS, "arms")
            scales = typed.rows(db.execute("SELECT task, scale FROM scales"), _SCALES, "scales")
            self.arms = [ArmLabel(*a) for a in arms]
            names = [a.name for a in self.arms]
            lost = [a for a in self.arms if a.control_of and a.control_of not in names]
            if lost or len(set(names)) < len(names):
                raise typed.Damaged("arms must have each arm once, and the arm of every control.")
        self.facts: dict[str, str] = {str(k): str(v) for k, v in facts}
        self.scales: dict[str, float] = {str(k): float(v) for k, v in scales}

    @property
    def title(self) -> str:
        return " ".join(self.facts.get("title", self.path.name).split())[: typed.LONGEST]

    @cached_property
    def roles(self) -> dict[str, str]:
        """arm -> plastic, control or oracle, where the study's file says so; a plastic arm's lr = 0 is a control."""
        try:
            arms = tomllib.loads(self.facts.get("plan", ""))["arm"]
            named = {str(a["name"]): a["role"] for a in arms if a.get("role") in ROLES}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            named = {}
        found = {a.name: CONTROL_ROLE if named.get(a.control_of) == PLASTIC else named.get(a.name) for a in self.arms}
        return {arm: role for arm, role in found.items() if role}

    @property
    def reference(self) -> str:
        """The arm that the others are compared with, or ''."""
        named = self.facts.get("reference", "")
        return named if named in [a.name for a in self.arms] else ""  # a part of a study may have been run without it

    def label(self, arm: str) -> str:
        """How an arm is called in tables and figures."""
        return next(a.label for a in self.arms if a.name == arm)

    @cached_property
    def rows(self) -> list[Row]:
        """Every cell, finished or not, by task, arm, grid point and seed."""
        with self.database.reading() as db:
            found = [Row(*r) for r in typed.rows(db.execute(_ROWS), _COLUMNS, "cells")]
            cells = db.execute("SELECT count(*) FROM cells").fetchone()[0]
            if cells != len(found) or {r.arm for r in found} - {a.name for a in self.arms}:
                raise typed.Damaged("every cell must have its run and its arm.")
            if len({tuple(r.point) for r in found}) > 1:
                raise typed.Damaged("the cells must have the same fields of the grid.")
            if any(r.status == DONE and None in (r.env_steps, r.generations, r.held_out) for r in found):
                raise typed.Damaged("a run that is done must have its steps, generations and held-out return.")
        return found

    @cached_property
    def tasks(self) -> list[str]:
        """Those that have cells, in the order of the study's file."""
        try:
            named = tomllib.loads(self.facts.get("plan", ""))["study"]["tasks"]
        except (ValueError, KeyError, TypeError, RecursionError):  # the order is all that is lost
            named = []
        named = [t for t in named if isinstance(t, str)] if isinstance(named, list) else []
        found = dict.fromkeys(r.task for r in self.rows)
        return [*(t for t in named if t in found), *(t for t in found if t not in named)]

    @property
    def points(self) -> list[dict[str, Any]]:
        """The places of the grid, one without settings where there is none."""
        seen: dict[str, dict[str, Any]] = {}
        for r in self.rows:
            seen.setdefault(json.dumps(r.point), r.point)
        return list(seen.values())

    def scores(
        self, metric: str = "held_out", point: dict[str, Any] | None = None
    ) -> dict[tuple[str, str], np.ndarray]:
        """(task, arm) -> the metric of every finished run f8 (seeds,), in the order of seeds.

        `point`: its place in the grid; where there is a grid and none is named, each arm's best (see `best_points`).
        """
        if metric not in METRICS:
            raise NeolError(f"metric = '{metric}' is not allowed; {nearest(metric, METRICS)}")
        out: dict[tuple[str, str], list[float]] = {}
        for r in self.rows:
            value = getattr(r, metric)
            where = point if point is not None else self.best_points.get((r.task, r.arm))
            if value is not None and r.point == where:
                out.setdefault((r.task, r.arm), []).append(float(value))
        return {k: np.array(v) for k, v in out.items()}

    @cached_property
    def best_points(self) -> dict[tuple[str, str], dict[str, Any]]:
        """(task, arm) -> the place of the grid with the highest mean of the paper's metric; a control's is its arm's.

        The best of many is chosen by the numbers that it is then compared with, as in the paper: it flatters.
        """
        found: dict[tuple[str, str], dict[str, list[float]]] = {}
        for r in self.rows:
            if r.best_return is not None:
                places = found.setdefault((r.task, r.arm), {})
                places.setdefault(json.dumps(r.point), []).append(r.best_return)
        most = {k: max(map(len, places.values())) for k, places in found.items()}  # one lucky seed is no best place
        means = {
            k: {p: float(np.mean(v)) for p, v in places.items() if len(v) == most[k]} for k, places in found.items()
        }
        best = {k: max(places, key=places.__getitem__) for k, places in means.items()}
        owner = {a.name: a.control_of or a.name for a in self.arms}
        return {(t, a): json.loads(best.get((t, owner[a]), best[t, a])) for t, a in best}

    def frame(self) -> Any:
        """All rows as a pandas DataFrame."""
        try:
            import pandas as pd  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise NeolError("frame() needs pandas; install it with: pip install pandas.") from None
        return pd.DataFrame([{**r._asdict(), "gap": r.gap, **r.point} for r in self.rows]).drop(columns="point")

    def history(self, run: int) -> dict[str, np.ndarray]:
        """A run's generations, as columns."""
        with self.database.reading() as db:
            found = db.execute(
                f"SELECT {', '.join(HISTORY)} FROM generations WHERE run = ? ORDER BY generation", (run,)
            )
            rows = typed.rows(found, dict.fromkeys(HISTORY, typed.maybe(typed.number)), "generations")
        return dict(zip(HISTORY, np.array([tuple(r) for r in rows], float).reshape(-1, len(HISTORY)).T, strict=True))

    def timing(self, run: int) -> np.ndarray:
        """Seconds after which each generation of a run was done f8 (generations,); nan = the database does not say."""
        with self.database.reading() as db:
            rows = db.execute("SELECT generation, wall_seconds FROM timing WHERE run = ?", (run,))
            found = dict(typed.rows(rows, dict.fromkeys(("generation", "wall_seconds"), typed.number), "timing"))
        return np.array([found.get(g, np.nan) for g in self.history(run)["generation"].tolist()], float)

    def config(self, run: int) -> AnyConfig:
        with self.database.reading() as db:
            text = typed.document(
                db.execute("SELECT config FROM runs WHERE run = ?", (run,)).fetchone()[0], "runs.config"
            )
        return parse_config(text, f"'{self.database.path}'")

    @cached_property
    def baselines(self) -> list[str]:
        """The arms that are no NEOL."""
        first = {r.arm: r.run for r in self.rows}
        known = {arm: self.config(run) for arm, run in first.items()}
        return [a.name for a in self.arms if isinstance(known.get(a.name), BaselineConfig)]

    def champion(self, run: int) -> dict[str, Any] | None:
        """A finished run's champion.json."""
        with self.database.reading() as db:
            found = db.execute("SELECT network FROM champions WHERE run = ?", (run,)).fetchone()
            network = json_object(typed.document(found[0], "champions.network")) if found else None
        return network

    def failures(self) -> list[tuple[str, str]]:
        """(run's key, the last reason) of the runs that failed."""
        with self.database.reading() as db:
            found = db.execute(
                "SELECT key, reason FROM runs JOIN failures USING (run) WHERE status = ? "
                "GROUP BY run HAVING attempt = max(attempt) ORDER BY run",
                (FAILED,),
            )
            return [(k, why) for k, why in typed.rows(found, {"key": typed.key, "reason": typed.document}, "failures")]

    def versions(self) -> dict[str, list[str]]:
        """Every version of everything that the runs were made with."""
        out: dict[str, list[str]] = {}
        with self.database.reading() as db:
            found = db.execute("SELECT DISTINCT name, version FROM versions ORDER BY name, version")
            for name, version in typed.rows(found, {"name": typed.text, "version": typed.text}, "versions"):
                out.setdefault(name, []).append(version)
        return out

    @property
    def finished(self) -> list[Row]:
        return [r for r in self.rows if r.status == DONE]

    def folder(self, key: str) -> Path:
        """A run's folder; it may have been deleted once the run was taken into the database."""
        return self.path / RUNS / key

    def __repr__(self) -> str:
        return f"Study({str(self.path)!r})"


def to_csv(study: Study) -> str:
    """All cells as CSV, a line each."""
    fields = [f for f in Row._fields if f != "point"]
    axes = list(dict.fromkeys(k for p in study.points for k in p))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*fields, "gap", *(f"grid_{a}" for a in axes)])
    for r in study.rows:
        values = [getattr(r, f) for f in fields] + [r.gap] + [r.point.get(a) for a in axes]
        writer.writerow(["" if v is None else repr(v) if isinstance(v, float) else cell(v) for v in values])
    return text.getvalue()
