"""Runs taken over from other studies (`neol study run --from`): not played again, and no harm to a good study."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import neol
from neol.cli.main import main
from neol.studies.database import DATABASE, Database
from tests.small_study import small_study

FEW = ["--tasks", "cartpole", "--scale", "0.34", "--jobs", "1", "--quiet"]
TABLES = ("generations", "evaluations", "champions", "versions", "clock", "timing")


def file(folder: Path, title: str, more: str = "") -> str:
    folder.mkdir(exist_ok=True)
    path = folder / f"{title}.toml"
    path.write_text(small_study(("none", "hebb", "bcm"), title, generations=3) + more)
    return str(path)


def run(study: str, out: Path, *words: Any) -> int:
    return main(["study", "run", study, "--out", str(out), *FEW, *map(str, words)])


def played(folder: Path) -> set[str]:
    return {p.name for p in (folder / "runs").iterdir() if p.is_dir()}


def of_run(folder: Path, table: str, key: str) -> list[tuple[Any, ...]]:
    """A run's rows of a table, without the run's number, which is another in every study."""
    with Database(folder).reading() as db:
        found = db.execute(f"SELECT t.* FROM {table} t JOIN runs USING (run) WHERE key = ?", (key,)).fetchall()
    return [tuple(r)[1:] for r in found]


def table_sizes(folder: Path) -> dict[str, int]:
    """How many rows each table has, in a database that SQLite finds whole."""
    with Database(folder).reading() as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return {t: db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("runs", *TABLES)}


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study "first" with two seeds of an arm on cartpole."""
    folder = tmp_path_factory.mktemp("first")
    assert run(file(folder, "first"), folder / "study", "--arms", "none", "--seeds", 2) == 0
    return folder / "study"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another study, with other seeds."""
    folder = tmp_path_factory.mktemp("other")
    assert run(file(folder, "other"), folder / "study", "--arms", "none", "--seeds", "7,8") == 0
    return folder / "study"


@pytest.fixture
def copy(first: Path, tmp_path: Path) -> Path:
    """Its database alone, to be tampered with."""
    (tmp_path / "copy").mkdir()
    shutil.copy(first / DATABASE, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_study_takes_the_runs_that_it_shares_with_another_whenever_they_are_there(
    first: Path, tmp_path: Path
) -> None:
    study, out = file(tmp_path, "second"), tmp_path / "second"
    assert run(study, out, "--arms", "none", "hebb", "--seeds", 1, "--from", first) == 0
    theirs, ours = ({r.key: r for r in neol.Study(d).finished} for d in (first, out))
    shared = set(theirs) & set(ours)
    assert len(shared) == 1 and played(out) == set(ours) - shared
    for table in TABLES:
        rows = {k: of_run(first, table, k) for k in shared}
        assert all(rows.values())
        assert {k: of_run(out, table, k) for k in shared} == rows
    assert all(theirs[k]._replace(run=0) == ours[k]._replace(run=0) for k in shared)
    assert {r.seed for r in neol.Study(out).rows} == {0}  # what is not asked for is another study's
    before = played(out)
    assert run(study, out, "--arms", "none", "--seeds", 2, "--from", first) == 0  # the folder is there already
    assert {r.seed for r in neol.Study(out).finished if r.arm == "none"} == {0, 1}
    assert played(out) == before


def test_of_the_same_study_all_is_taken_also_what_is_not_asked_for(first: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(file(tmp_path, "first"), out, "--arms", "hebb", "--seeds", 1, "--from", first) == 0
    assert {(r.arm, r.seed) for r in neol.Study(out).finished} == {
        ("none", 0), ("none", 1), ("hebb", 0), ("hebb-control", 0)
    }  # fmt: skip
    assert not played(out) & {r.key for r in neol.Study(first).rows}


@pytest.mark.parametrize("words", [[], ["--scale", "1.0"]])
def test_the_same_title_with_other_settings_or_another_scale_takes_no_run_that_is_another(
    first: Path, tmp_path: Path, words: list[str]
) -> None:
    study = file(tmp_path, "first", "" if words else "[task.cartpole]\nmax_steps = 50\n")
    assert run(study, tmp_path / "out", "--arms", "none", "--seeds", 1, "--from", first, *words) == 0
    assert not {r.key for r in neol.Study(tmp_path / "out").rows} & {r.key for r in neol.Study(first).rows}
    assert len(played(tmp_path / "out")) == 1


def test_a_run_that_failed_here_is_taken_where_it_finished(first: Path, copy: Path, tmp_path: Path) -> None:
    change(copy, "UPDATE runs SET status = 'failed'", "INSERT INTO failures VALUES (1, 0, 'the motor is on fire')")
    assert run(file(tmp_path, "first"), copy, "--arms", "none", "--seeds", 2) == 1
    assert run(file(tmp_path, "first"), copy, "--arms", "none", "--seeds", 2, "--from", first) == 0
    assert not played(copy)
    assert [r.held_out for r in neol.Study(copy).rows] == [r.held_out for r in neol.Study(first).rows]


SPOILT = [
    "UPDATE evaluations SET mean = 'abc' WHERE who = 'champion'",
    "UPDATE evaluations SET mean = 9e999",
    "DELETE FROM evaluations",
    "UPDATE runs SET env_steps = NULL",
    "UPDATE runs SET generations = 'many'",
    "UPDATE runs SET best_return = 1e200",
    "UPDATE runs SET held_out = x'ff'",
    "UPDATE generations SET best_return = 'x'",
    "UPDATE champions SET network = '[['",
    "UPDATE clock SET cpu_seconds = 'x'",
    "UPDATE timing SET wall_seconds = 'x'",
    "UPDATE versions SET version = x'ff'",
    "DROP TABLE timing",
    "ALTER TABLE clock RENAME COLUMN host TO computer",
    "CREATE VIEW v AS SELECT 1",
]


@pytest.mark.parametrize("statement", SPOILT)
def test_a_spoilt_source_is_refused_in_a_sentence_and_the_study_stays_as_it_was(
    copy: Path, other: Path, tmp_path: Path, capsys: Any, statement: str
) -> None:
    change(copy, statement)
    study, out = file(tmp_path, "other"), tmp_path / "out"
    shutil.copytree(other, out)
    before = (out / DATABASE).read_bytes()
    capsys.readouterr()
    assert run(study, out, "--arms", "none", "--seeds", 2, "--from", copy) == 2
    told = capsys.readouterr().err
    assert str(copy / DATABASE) in told and told.count("\n") == 1 and "Traceback" not in told
    assert (out / DATABASE).read_bytes() == before
    assert main(["study", "status", str(out)]) == 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE scales SET scale = 'x'",
        "UPDATE cells SET point = '[['",
        "UPDATE cells SET point = '5'",
        "UPDATE cells SET seed = seed || 'x'",
        "UPDATE runs SET key = '../' || key",
    ],
)
def test_a_spoilt_plan_of_the_same_study_leaves_a_folder_that_can_be_used(
    copy: Path, tmp_path: Path, capsys: Any, statement: str
) -> None:
    change(copy, statement)
    study, out = file(tmp_path, "first"), tmp_path / "out"
    assert run(study, out, "--arms", "none", "--seeds", 1, "--from", copy) == 2
    told = capsys.readouterr().err
    assert str(copy / DATABASE) in told and told.count("\n") == 1 and "Traceback" not in told
    assert run(study, out, "--arms", "none", "--seeds", 1) == 0


def test_settings_columns_and_tables_that_nobody_asks_for_do_no_harm(copy: Path, tmp_path: Path) -> None:
    change(
        copy, "UPDATE runs SET config = x'ff'", "ALTER TABLE generations ADD COLUMN extra", "DROP TABLE failures",
        "DELETE FROM champions", "DELETE FROM clock", "DELETE FROM timing", "DELETE FROM versions",
    )  # fmt: skip
    out = tmp_path / "out"
    assert run(file(tmp_path, "first"), out, "--arms", "none", "--seeds", 3, "--from", copy) == 0
    assert len(played(out)) == 1 and len(neol.Study(out).finished) == 3
    assert main(["study", "status", str(out)]) == 0
    assert main(["report", str(out), "--quiet"]) == 0


def test_a_source_that_is_none_leaves_no_folder(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / DATABASE).write_text("hello")
    for source, why in ((tmp_path / "none", "is no study"), (tmp_path / "text", "not a study's database")):
        assert run(file(tmp_path, "first"), tmp_path / "out", "--from", source) == 2
        assert why in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_a_study_that_is_killed_while_it_takes_runs_over_is_as_it_was_and_can_go_on(
    first: Path, copy: Path, other: Path, tmp_path: Path
) -> None:
    """SIGKILL in the middle of the transaction, when its pages are on the disk already: SQLite undoes them."""
    change(  # so much history that the transaction takes seconds and outgrows SQLite's memory
        copy,
        "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
        "INSERT INTO generations (run, generation) SELECT 1, i FROM n",
    )
    study, out = file(tmp_path, "other"), tmp_path / "out"
    shutil.copytree(other, out)
    before, counts = neol.Study(out).rows, table_sizes(out)
    size = (out / DATABASE).stat().st_size
    words = ["study", "run", study, "--out", out, *FEW, "--arms", "none", "--seeds", "2", "--from", copy]
    taking = subprocess.Popen([sys.executable, "-m", "neol", *map(str, words)], stderr=subprocess.DEVNULL)
    while (out / DATABASE).stat().st_size < size + 1_000_000:
        assert taking.poll() is None, "it was over before it could be killed"
        time.sleep(0.01)
    taking.send_signal(signal.SIGKILL)
    assert taking.wait() == -signal.SIGKILL
    assert (out / f"{DATABASE}-journal").stat().st_size > 0
    assert neol.Study(out).rows == before and table_sizes(out) == counts
    assert run(study, out, "--arms", "none", "--seeds", 2, "--from", first) == 0
    assert played(out) == {r.key for r in before}
    assert {r.seed for r in neol.Study(out).finished} == {0, 1, 7, 8}
