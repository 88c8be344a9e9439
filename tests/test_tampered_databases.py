"""A study's database from somebody else: read in the types that it should have, in limited time, or refused."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tampered

from neol.cli.main import main
from neol.errors import NeolError
from neol.report.report import make_report
from neol.studies import database
from neol.studies.database import DATABASE
from neol.studies.study import Study, to_csv


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def look(folder: Path) -> None:
    """All that is read of a study, but its pictures."""
    study = Study(folder)
    to_csv(study)
    for row in study.rows[:3]:
        study.history(row.run), study.timing(row.run), study.config(row.run), study.champion(row.run)
    study.failures(), study.versions(), study.tasks, study.best_points, study.baselines, study.scores()


def test_databases_tampered_with_in_many_ways_are_read_or_refused_in_one_sentence(
    finished_study: Path, tmp_path: Path
) -> None:
    rng, refused = np.random.default_rng(3), 0
    for _ in range(150):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copy(finished_study / DATABASE, copy)
        what = tampered.tamper(copy / DATABASE, rng)
        before = (copy / DATABASE).read_bytes()
        try:
            look(copy)
        except NeolError as e:
            refused += 1
            assert str(e).count("\n") == 0 and len(str(e)) < 500, what
        assert (copy / DATABASE).read_bytes() == before, what
    assert 60 < refused < 150


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE cells SET seed = 'x' WHERE seed = 1", "cells.seed = 'x'"),
        ("UPDATE cells SET point = '[1]'", "cells.point = '\\[1\\]'"),
        ("UPDATE cells SET point = '{\"a\": [1]}'", "must be a JSON object of names and values"),
        ("UPDATE runs SET key = '../../x' WHERE run = 1", "cells.key = '../../x'"),
        ("UPDATE runs SET status = 'odd'", "cells.status = 'odd'"),
        ("UPDATE runs SET env_steps = -5", "cells.env_steps = -5"),
        ("UPDATE evaluations SET mean = 9e999", "cells.held_out = 'inf'"),
        ("UPDATE arms SET control_of = 'nobody'", "the arm of every control"),
        ("DELETE FROM arms WHERE arm = 'none'", "every cell must have its run and its arm"),
        ("DELETE FROM evaluations", "a run that is done must have"),
        ("UPDATE generations SET best_return = 'x'", "generations.best_return"),
        ("UPDATE champions SET network = '[]'", "champions.network must be a JSON object"),
    ],
)
def test_what_is_wrong_is_named(statement: str, why: str, finished_study: Path) -> None:
    change(finished_study, statement)
    with pytest.raises(NeolError, match=f"study.sqlite' is damaged: .*{why}"):
        look(finished_study)


@pytest.mark.parametrize("words", [["report"], ["study", "status"], ["study", "export", "--csv"]])
def test_a_view_is_no_table_and_nothing_of_it_is_computed(
    words: list[str], finished_study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(finished_study, "DROP TABLE study", f"CREATE VIEW study AS {tampered.HANGING}")
    assert main([*words[:2], str(finished_study), *words[2:]]) == 2
    assert "'study' is not a table" in capsys.readouterr().err


def test_a_trigger_is_refused_before_anything_is_written(finished_study: Path) -> None:
    change(finished_study, "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM champions; END")
    with pytest.raises(NeolError, match="'t' is not a table"), database.Database(finished_study).writing():
        pass


def test_a_reading_that_takes_too_long_is_ended(finished_study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LONGEST_READ", 0.2)
    with (
        pytest.raises(NeolError, match="takes longer than 0 s to read"),
        database.Database(finished_study).reading() as db,
    ):
        db.execute(f"SELECT sum(x.name) FROM ({tampered.HANGING}) x").fetchall()


def test_what_an_honest_study_holds_is_read_as_before(finished_study: Path) -> None:
    look(finished_study)
    rows: list[Any] = Study(finished_study).rows
    assert {type(r.held_out) for r in rows} == {float} and {type(r.seed) for r in rows} == {int}


@pytest.mark.parametrize("statement", ["DELETE FROM timing", "DELETE FROM timing WHERE generation = 0"])
def test_a_study_without_all_of_its_times_has_a_report(statement: str, finished_study: Path) -> None:
    change(finished_study, statement)
    study = Study(finished_study)
    run = study.rows[0].run
    assert np.isnan(study.timing(run)[0]) and len(study.timing(run)) == len(study.history(run)["generation"])
    make_report(study, finished_study / "report")
