"""What is written stays in the folder that was named, whatever names a file from somebody else has."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import neol
from neol.cli.main import main
from neol.errors import NeolError
from neol.files import cell, file_stem
from neol.report.tables import _tex
from neol.studies.database import DATABASE
from neol.studies.study import Study
from neol.training.run_folder import LOCK, RUN_FILES

TINY = {"pop_size": 4, "elitism": 1, "generations": 1, "episodes": 1, "champion_trials": 1, "champion_episodes": 2}
ODD = (
    "../../../escaped",
    "/tmp/escaped",
    "..",
    ".",
    "",
    "a/../b",
    "x" * 190,
    "a\nb",
    "=cmd|' /C calc'!A0",
    "\\input{x}",
)


def rename(folder: Path, task: str, arm: str) -> None:
    """The study with another name for its task and for its arm hebb, everywhere."""
    with sqlite3.connect(folder / DATABASE) as db:
        for table in ("runs", "cells", "scales"):
            db.execute(f"UPDATE {table} SET task = ?", (task,))
        for table, column in (("cells", "arm"), ("arms", "arm"), ("arms", "control_of")):
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = 'hebb'", (arm,))
        db.execute("UPDATE arms SET label = ? WHERE arm = ?", (arm or "x", arm))


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(("name", "grid"), [(name, i % 2 == 0) for i, name in enumerate(ODD)])
def test_a_report_stays_in_its_folder_whatever_tasks_and_arms_are_called(
    name: str, grid: bool, finished_study: Path, tmp_path: Path
) -> None:
    rename(finished_study, f"{name}t", name)
    if grid:  # heat maps carry the arm's name
        with sqlite3.connect(finished_study / DATABASE) as db:
            db.execute("UPDATE cells SET point = ? WHERE seed = 0", (json.dumps({"../x": 1}),))
            db.execute("UPDATE cells SET point = ? WHERE seed = 1", (json.dumps({"../x": "=2"}),))
    before, out = files(tmp_path), tmp_path / "a" / "b" / "c" / "report"
    assert main(["report", str(finished_study), "--out", str(out), "--quiet"]) == 0
    made = files(tmp_path) - before
    assert made and all(out in p.parents for p in made)
    assert not Path("/tmp/escaped").exists() and not list(Path("/tmp").glob("escaped*"))
    assert len([p for p in made if p.suffix == ".svg"]) == len([p for p in made if p.suffix == ".png"])


def test_tables_are_text_to_spreadsheets_and_to_latex(finished_study: Path, tmp_path: Path) -> None:
    rename(finished_study, "\\write18{ls}\n\n^^5cinput", "=1+1")
    assert main(["report", str(finished_study), "--out", str(tmp_path / "r"), "--quiet"]) == 0
    for file in (tmp_path / "r").glob("*.csv"):
        assert ",=1" not in file.read_text() and '"=1' not in file.read_text()
    tex = (tmp_path / "r" / "tables.tex").read_text()
    assert r"\write18" not in tex and r"\textbackslash{}write18" in tex and "^^" not in tex
    assert "'=1+1" in (tmp_path / "r" / "runs.csv").read_text()


def test_text_that_begins_a_formula_is_marked_and_numbers_are_not() -> None:
    assert [cell(v) for v in ("=1", "+1", "-x", "@x", "\tx", "x", -1.0, None)] == [
        "'=1", "'+1", "'-x", "'@x", "'\tx", "x", -1.0, None,
    ]  # fmt: skip
    assert _tex("a\n\nb\x00\\") == r"a b\textbackslash{}"


def test_names_become_different_file_names_without_dots_or_slashes() -> None:
    names = [*ODD, "cartpole", "CartPole-v1", "a.b:C-v0", "a.b-C-v0", "hebb-control", "\ud800"]
    stems = [file_stem(n) for n in names]
    assert len(set(stems)) == len(names)
    assert all(s and len(s) < 80 and s.isascii() and not set(s) & set("./\\ ") and s[0] != "-" for s in stems)
    assert file_stem("CartPole-v1") == "CartPole-v1" and file_stem("hebb-control") == "hebb-control"


@pytest.mark.parametrize("what", ["report", "report/figures", "report/index.html", "report/figures/boxes.svg"])
def test_a_report_follows_no_link_out_of_its_folder(
    what: str, finished_study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes").write_text("mine")
    link = finished_study / what
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(mine / "notes" if "." in what else mine)
    assert main(["report", str(finished_study)]) == 2
    assert "is a link" in capsys.readouterr().err
    assert {p.name: p.read_text() for p in mine.iterdir()} == {"notes": "mine"}


@pytest.mark.parametrize("name", [*RUN_FILES, LOCK])
def test_a_run_that_goes_on_follows_no_link_out_of_its_folder(name: str, tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", **TINY).path
    (tmp_path / "mine").write_bytes((run / name).read_bytes() if (run / name).exists() else b"mine")
    before = (tmp_path / "mine").read_bytes()
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "mine")
    with pytest.raises(NeolError, match="is a link|cannot use"):
        neol.train("cartpole", out=run, resume=True, **{**TINY, "generations": 2})
    assert (tmp_path / "mine").read_bytes() == before


@pytest.mark.parametrize(("command", "name"), [("draw", "network.svg"), ("draw", "curve.svg"), ("replay", "agent.mp4")])
def test_a_picture_beside_a_run_follows_no_link(command: str, name: str, tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", **TINY).path
    (tmp_path / "mine").write_text("mine")
    (run / name).symlink_to(tmp_path / "mine")
    assert main([command, str(run)]) == 2
    assert (tmp_path / "mine").read_text() == "mine"
    shutil.rmtree(run)


def test_a_finished_study_leaves_no_lock(finished_study: Path) -> None:
    assert [p.name for p in finished_study.rglob(".*")] == []
    assert len(list((finished_study / "runs").iterdir())) == len({r.key for r in Study(finished_study).rows})
