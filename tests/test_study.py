"""Studies run for real: whole, killed, by two at once, with runs that fail; and their database."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_study import small_study

import neol
from neol.cli.main import main
from neol.config.schema import Config
from neol.errors import NeolError
from neol.studies.database import DATABASE, Database
from neol.studies.plan import parse_plan
from neol.studies.scheduler import choose_cells, cost, run_study, waiting
from neol.system import is_busy, locked

ENVS = str(Path(__file__).parent / "envs")
SMALL = small_study(("none", "hebb", "bcm"), generations=3)


def study_file(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.toml"
    path.write_text(text)
    return path


def command(*words: Any) -> list[str]:
    return [sys.executable, "-m", "neol", "study", "run", *map(str, words)]


def start(*words: Any, **rest: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **rest)


def dump(folder: Path) -> dict[str, list[Any]]:
    """Every table but the clock's two, in full."""
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        tables = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {
            t: db.execute(f"SELECT * FROM {t} ORDER BY 1, 2").fetchall() for t in tables if t not in ("clock", "timing")
        }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(["study", "run", str(study_file(folder)), "--out", str(folder / "s"), "--jobs", "2", "--quiet"]) == 0
    return folder / "s"


def test_a_study_runs_every_cell_and_shared_runs_once(whole: Path) -> None:
    study = neol.Study(whole)
    assert len(study.rows) == 2 * 2 * 5 and len(study.finished) == len(study.rows)
    assert len({r.key for r in study.rows}) == 2 * 2 * 4 == len([p for p in (whole / "runs").iterdir() if p.is_dir()])
    controls = {(r.task, r.seed, r.run) for r in study.rows if r.arm.endswith("-control")}
    assert len(controls) == 4  # the controls of hebb and bcm are one run


def test_what_the_database_says_is_what_neol_train_gives(whole: Path, tmp_path: Path) -> None:
    study = neol.Study(whole)
    row = next(r for r in study.rows if (r.task, r.arm, r.seed) == ("lunarlander", "hebb", 1))
    run = neol.train(
        "lunarlander", rule="hebb", seed=1, generations=3, pop_size=10, elitism=1, max_steps=60, champion_candidates=2,
        champion_trials=2, champion_episodes=5, out=tmp_path / "r",
    )  # fmt: skip
    assert row.held_out == run.summary.champion_return_mean
    assert row.env_steps == run.summary.env_steps and row.best_return == run.history["best_return"][-1]
    history = study.history(row.run)
    assert set(history) == set(run.history)
    assert all(np.array_equal(history[k], run.history[k]) for k in history)
    assert study.champion(row.run) == json.loads((tmp_path / "r" / "champion.json").read_text())
    assert study.config(row.run).replace(threads=0) == run.config.replace(threads=0)


def test_scores_are_arrays_in_the_order_of_seeds(whole: Path) -> None:
    study = neol.Study(whole)
    for metric in ("held_out", "best_return", "gap", "env_steps"):
        scores = study.scores(metric)
        assert set(scores) == {(t, a.name) for t in study.tasks for a in study.arms}
        assert all(v.shape == (2,) and v.dtype == np.float64 for v in scores.values())
    rows = [r for r in study.rows if (r.task, r.arm) == ("cartpole", "bcm")]
    assert [r.seed for r in rows] == [0, 1]
    assert study.scores("gap")["cartpole", "bcm"].tolist() == [r.best_return - r.held_out for r in rows]
    assert study.scores("held_out", point={})["cartpole", "bcm"].shape == (2,)
    with pytest.raises(NeolError, match="metric = 'heldout' is not allowed; did you mean 'held_out'"):
        study.scores("heldout")


def test_a_second_start_changes_nothing(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = dump(whole)
    stamp = (whole / DATABASE).stat().st_mtime_ns, sorted(p.stat().st_mtime_ns for p in (whole / "runs").glob("*/*"))
    assert main(["study", "run", str(whole.parent / "small.toml"), "--out", str(whole), "--quiet"]) == 0
    assert dump(whole) == before
    assert stamp[1] == sorted(p.stat().st_mtime_ns for p in (whole / "runs").glob("*/*"))
    assert "16 runs done, 0 failed" in capsys.readouterr().out


def test_killed_again_and_again_it_comes_to_the_same_database(whole: Path, tmp_path: Path) -> None:
    """SIGKILL to the scheduler alone, to its workers alone, or to all of them, at random moments."""
    file, out = study_file(tmp_path), tmp_path / "s"
    draw = random.Random(1)
    kills = 0
    while kills < 8:
        process = start(file, "--out", out, "--jobs", "2", "--quiet", start_new_session=True)
        time.sleep(draw.uniform(0.5, 4.0))
        if process.poll() is not None:
            break
        kills += 1
        how = draw.choice(["parent", "all", "workers"])
        if how == "workers":
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            time.sleep(0.5)
        if how == "parent":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (out / DATABASE).exists() and (out / DATABASE).stat().st_size:
            neol.Study(out)  # readable after every death
    assert kills >= 2
    final = subprocess.run(command(file, "--out", out, "--jobs", "2", "--quiet"), capture_output=True, text=True)
    assert final.returncode == 0, final.stderr
    assert dump(out) == dump(whole)


def test_two_processes_on_one_study_never_run_a_cell_twice(whole: Path, tmp_path: Path) -> None:
    file, out = study_file(tmp_path), tmp_path / "s"
    both = [start(file, "--out", out, "--jobs", "2", "--quiet") for _ in range(2)]
    for process in both:
        assert process.wait(timeout=240) == 0, process.stderr and process.stderr.read()
        assert process.stderr is not None
        process.stderr.close()
    assert dump(out) == dump(whole)
    timings = [p.read_text().splitlines() for p in (out / "runs").glob("*/timing.csv")]
    assert len(timings) == 16 and all(len(t) == 4 for t in timings)  # each generation was computed once


def test_a_run_that_somebody_works_on_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    assert not is_busy(folder)
    with locked(folder) as ours:
        assert ours and is_busy(folder)
        with locked(folder) as again:
            assert not again
    assert not is_busy(folder)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    text = SMALL.replace("generations = 3", "generations = 100000").replace("max_steps = 60", "max_steps = 200")
    file, out = study_file(tmp_path, text), tmp_path / "s"
    process = start(file, "--out", out, "--jobs", "1", start_new_session=True)
    try:
        deadline = time.monotonic() + 200
        while not list(out.glob("runs/*/checkpoint.npz")) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert b"Interrupted; saved. Start the same command again" in err and b"Traceback" not in err
    generations = next(out.glob("runs/*/history.csv")).read_text().count("\n") - 1
    assert generations >= 1
    assert not is_busy(next(p for p in (out / "runs").iterdir() if p.is_dir()))


def test_workers_of_a_study_in_a_shells_background_can_be_interrupted() -> None:
    """There SIGINT is ignored, and children inherit that; a backend ends its workers with it."""
    command = [sys.executable, "-m", "neol.studies.worker", str(os.getpid())]
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=ignore) as worker:
        deadline = time.monotonic() + 60
        while worker.poll() is None and time.monotonic() < deadline:
            worker.send_signal(signal.SIGINT)
            time.sleep(0.2)
        worker.kill()
    assert worker.returncode != -signal.SIGKILL


FAILING = """
[study]
tasks = ["trouble:Trouble"]
seeds = 2
[budget]
generations = 2
[base]
pop_size = 10
elitism = 1
champion_candidates = 2
champion_trials = 2
champion_episodes = 4
[[arm]]
name = "fine"
rule = "none"
[[arm]]
name = "broken"
rule = "none"
env_kwargs = ["share=1.0", "kinds=raise"]
"""


def test_a_failed_run_is_recorded_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ENVS)
    monkeypatch.setenv("PYTHONPATH", ENVS)
    file, out = study_file(tmp_path, FAILING), tmp_path / "s"
    words = ["study", "run", str(file), "--out", str(out), "--jobs", "1", "--quiet"]
    assert main(words) == 1
    assert "2 runs done, 2 failed" in capsys.readouterr().out
    assert main(["study", "status", str(out)]) == 0
    told = capsys.readouterr().out
    assert "2 done, 0 running, 0 waiting, 2 failed of 4 runs" in told
    assert told.count("every genome of generation 0 failed") == 2 and "the motor is on fire" in told
    assert main(words) == 1  # without being asked to, it does not try again
    assert len(dump(out)["failures"]) == 2
    assert main([*words, "--retry-failed"]) == 1
    assert sorted(r[1] for r in dump(out)["failures"]) == [0, 0, 1, 1]
    capsys.readouterr()
    assert main(["study", "status", str(out), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["runs"] == {"done": 2, "running": 0, "waiting": 0, "failed": 2}
    assert len(status["failures"]) == 2


def test_a_study_taken_up_from_its_trimmed_database_runs_nothing_twice(tmp_path: Path, capsys: Any) -> None:
    file, few = str(study_file(tmp_path)), ["--tasks", "cartpole", "--arms", "none", "--scale", "0.34", "--quiet"]
    here, there, kept = tmp_path / "here", tmp_path / "there", tmp_path / "kept"
    assert main(["study", "run", file, "--out", str(here), *few, "--seeds", "1", "--jobs", "1"]) == 0
    kept.mkdir()
    assert main(["study", "export", str(here), "--database", str(kept / "study.sqlite")]) == 0
    words = ["study", "run", file, "--out", str(there), *few, "--seeds", "2", "--jobs", "1"]
    assert main([*words, "--from", str(kept)]) == 0
    folders = [p.name for p in (there / "runs").iterdir() if p.is_dir()]
    assert len(folders) == 1  # the seed that was missing
    assert folders[0].endswith("s1")
    study = neol.Study(there)
    assert [r.seed for r in study.finished] == [0, 1]
    assert study.rows[0].held_out == neol.Study(here).rows[0].held_out
    before = dump(there)
    assert main([*words, "--from", str(kept)]) == 0  # nothing is missing any more
    assert dump(there) == before
    capsys.readouterr()
    assert main(["study", "run", file, "--out", str(tmp_path / "x"), "--from", str(tmp_path / "none"), *few]) == 2
    assert "is no study" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_runs_come_seed_by_seed_and_within_a_seed_the_longest_first(tmp_path: Path) -> None:
    plan = parse_plan(SMALL + "[task.lunarlander.arm.bcm]\npop_size = 40\n")
    folder = tmp_path / "s"
    (folder / "runs").mkdir(parents=True)
    from neol.studies.database import plan_cells

    chosen = choose_cells(plan, 1.0)
    with Database(folder).writing() as db:
        plan_cells(db, plan, chosen, 1.0)
    jobs = waiting(Database(folder), folder, {c.key: c.config for c in chosen})
    assert len(jobs) == len({c.key for c in chosen})
    order = [(j.config.run.seed, -j.cost) for j in jobs]
    assert order == sorted(order)
    assert len({seed for seed, _ in order}) == 2
    assert jobs[0].config.neat.pop_size == 40 and jobs[-1].config.run.task == "cartpole"
    long, short = Config().replace(max_steps=100), Config().replace(max_steps=100, max_env_steps=1000)
    assert cost(long) > cost(short) > 0


def test_tasks_arms_and_seeds_can_be_chosen(tmp_path: Path) -> None:
    words = ["--tasks", "cartpole", "--arms", "hebb", "--seeds", "4,7", "--scale", "0.34", "--quiet", "--jobs", "1"]
    assert main(["study", "run", str(study_file(tmp_path)), "--out", str(tmp_path / "s"), *words]) == 0
    study = neol.Study(tmp_path / "s")
    assert {(r.task, r.arm, r.seed) for r in study.rows} == {
        ("cartpole", a, s) for a in ("hebb", "hebb-control") for s in (4, 7)
    }
    assert {r.generations for r in study.rows} == {1}
    assert study.scales == {"cartpole": 0.34}


def test_tasks_stand_in_the_order_of_the_file_whatever_ran_first(tmp_path: Path) -> None:
    file, out = str(study_file(tmp_path)), str(tmp_path / "s")
    for task in ("lunarlander", "cartpole"):
        words = ["--tasks", task, "--arms", "none", "--seeds", "1", "--scale", "0.34", "--quiet", "--jobs", "1"]
        assert main(["study", "run", file, "--out", out, *words]) == 0
    assert neol.Study(out).tasks == ["cartpole", "lunarlander"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tasks", "hopper"], "tasks = 'hopper' is not in this study; it has cartpole, lunarlander"),
        (["--arms", "oja"], "arms = 'oja' is not in this study; it has none, hebb, bcm"),
        (["--seeds", "0"], "seeds = 0 is not allowed"),
        (["--seeds", "1,1"], "seeds has 1 twice"),
        (["--seeds", "many"], "seeds = 'many' is not allowed"),
        (["--scale", "0"], "scale = 0.0 is not allowed"),
        (["--jobs", "-1"], "jobs = -1 is not allowed"),
        (["--scale", "0.5"], "scale = 0.5 is not allowed; this study runs cartpole at scale 1"),
    ],
)
def test_a_bad_choice_is_one_sentence(
    whole: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (whole / DATABASE).read_bytes()
    assert main(["study", "run", str(whole.parent / "small.toml"), "--out", str(whole), *words]) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1
    assert (whole / DATABASE).read_bytes() == before


def test_a_study_whose_file_changed_is_refused(whole: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = study_file(tmp_path, SMALL.replace("pop_size = 10", "pop_size = 12"))
    before = dump(whole)
    assert main(["study", "run", str(other), "--out", str(whole), "--quiet"]) == 2
    assert "has other settings than when this study was started (pop_size = 12, was 10)" in capsys.readouterr().err
    assert (
        main(["study", "run", str(other), "--out", str(whole), "--quiet", "--seeds", "7,8"]) == 2
    )  # nor for new seeds
    stranger = study_file(tmp_path, SMALL.replace('title = "small"', 'title = "mine"'))
    assert main(["study", "run", str(stranger), "--out", str(whole), "--quiet"]) == 2
    assert "this folder holds another study, 'small'" in capsys.readouterr().err
    gridded = study_file(tmp_path, SMALL + "[grid]\nbcm_tau = [0.1, 0.2]\n")
    assert main(["study", "run", str(gridded), "--out", str(whole), "--quiet"]) == 2
    assert "the grid has other fields than when this study was started" in capsys.readouterr().err
    assert dump(whole) == before


def test_a_locked_database_a_damaged_one_and_none_are_one_sentence_each(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "status", str(tmp_path)]) == 2
    assert "is not a study's folder: it has no study.sqlite" in capsys.readouterr().err
    copy = tmp_path / "s"
    copy.mkdir()
    (copy / DATABASE).write_bytes((whole / DATABASE).read_bytes())
    with closing(sqlite3.connect(copy / DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for use in (Database(copy, patience=0.2).reading(), Database(copy, patience=0.2).writing()):
            with pytest.raises(NeolError, match="is locked by another program; try again when that has ended"), use:
                pass
    data = bytearray((whole / DATABASE).read_bytes())
    for broken in (
        b"no database at all, only words",
        bytes(data[:5000]),
        bytes(data[:100] + b"\xff" * 4000 + data[4100:]),
    ):
        (copy / DATABASE).write_bytes(broken)
        for words in (["study", "status", str(copy)], ["report", str(copy)], ["study", "export", str(copy), "--csv"]):
            assert main(words) == 2, words
            err = capsys.readouterr().err
            assert err.count("\n") == 1 and "study.sqlite" in err
    (copy / DATABASE).write_bytes(b"")
    assert main(["study", "status", str(copy)]) == 2
    assert "is empty: its study was stopped before it began; start it again" in capsys.readouterr().err
    (copy / DATABASE).unlink()
    with closing(sqlite3.connect(copy / DATABASE)) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    assert main(["study", "run", str(whole.parent / "small.toml"), "--out", str(copy)]) == 2
    assert "is not the database of a NEOL study" in capsys.readouterr().err


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("mine")
    assert main(["study", "run", str(study_file(tmp_path)), "--out", str(tmp_path / "s")]) == 2
    assert "is not empty and holds no study" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "s").iterdir()] == ["thesis.tex"]


def test_a_damaged_run_folder_is_a_failed_run_and_the_others_go_on(tmp_path: Path) -> None:
    file, out = study_file(tmp_path), tmp_path / "s"
    words = ["study", "run", str(file), "--out", str(out), "--tasks", "cartpole", "--jobs", "1", "--quiet"]
    assert main([*words, "--seeds", "1"]) == 0
    with closing(sqlite3.connect(out / DATABASE)) as db:
        key = db.execute("SELECT key FROM runs WHERE run = 1").fetchone()[0]
        db.execute("UPDATE runs SET status = 'waiting' WHERE run = 1")
        db.commit()
    (out / "runs" / key / "history.csv").unlink()
    assert main(words) == 1
    study = neol.Study(out)
    assert [k for k, _ in study.failures()] == [key] and "history.csv" in study.failures()[0][1]
    assert sum(r.status == "done" for r in study.rows) == len(study.rows) - 1


def test_a_trimmed_copy_never_replaces_the_study(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (whole / DATABASE).read_bytes()
    assert main(["study", "export", str(whole), "--database", str(whole / DATABASE)]) == 2
    assert "is the study's own database" in capsys.readouterr().err
    assert main(["study", "export", str(whole), "--database", str(whole / "no" / "x.sqlite")]) == 2
    assert "cannot write" in capsys.readouterr().err and (whole / DATABASE).read_bytes() == before


def test_csv_has_a_line_per_cell_with_the_same_numbers(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "export", str(whole), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    study = neol.Study(whole)
    assert [(r["task"], r["arm"], int(r["seed"])) for r in rows] == [(r.task, r.arm, r.seed) for r in study.rows]
    assert [float(r["held_out"]) for r in rows] == [r.held_out for r in study.rows]
    assert [float(r["gap"]) for r in rows] == [r.gap for r in study.rows]


def test_a_trimmed_database_gives_the_same_scores(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "t"
    copy.mkdir()
    assert main(["study", "export", str(whole), "--database", str(copy / DATABASE)]) == 0
    study, trimmed = neol.Study(whole), neol.Study(copy)
    assert trimmed.rows == study.rows
    left = [r for r in trimmed.rows if trimmed.champion(r.run) is not None]
    assert {(r.task, r.arm) for r in left} == {(r.task, r.arm) for r in study.rows}
    best = max((r for r in study.rows if (r.task, r.arm) == ("cartpole", "hebb")), key=lambda r: (r.held_out, -r.run))
    assert trimmed.champion(best.run) == study.champion(best.run)
    assert (copy / DATABASE).stat().st_size < (whole / DATABASE).stat().st_size


def test_plain_sqlite_and_pandas_read_it(whole: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with closing(sqlite3.connect(whole / DATABASE)) as db:
        frame = pandas.read_sql("SELECT task, arm, held_out FROM cells JOIN runs USING (run, task)", db)
    assert len(frame) == 20
    own = neol.Study(whole).frame()
    assert len(own) == 20 and {"task", "arm", "seed", "held_out", "gap"} <= set(own.columns)


def test_progress_tells_how_many_runs_are_left_and_an_eta(tmp_path: Path) -> None:
    process = subprocess.run(
        command(study_file(tmp_path), "--out", tmp_path / "s", "--tasks", "cartpole", "--jobs", "1"),
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert process.returncode == 0
    assert "8 of 8 runs to do, 1 at a time." in process.stderr
    assert "of 8 runs done; running: cartpole" in process.stderr and "ETA" in process.stderr


def test_ray_runs_the_same_study(whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    plan = parse_plan(SMALL)
    run_study(plan, tmp_path / "s", choose_cells(plan, 1.0), jobs=2, executor="ray")
    assert dump(tmp_path / "s") == dump(whole)


def test_of_a_grid_each_arm_is_taken_at_its_best_place_and_a_shared_run_counts_once(tmp_path: Path) -> None:
    text = SMALL.replace('"cartpole", "lunarlander"', '"cartpole"') + "[grid]\npop_size = [10, 14]\nlr = [0.1, 5.0]\n"
    out = tmp_path / "s"
    assert main(["study", "run", str(study_file(tmp_path, text)), "--out", str(out), "--jobs", "1", "--quiet"]) == 0
    study = neol.Study(out)
    assert len(study.points) == 4 and len({r.key for r in study.rows}) == 2 * 2 * (1 + 1 + 2 * 2)
    scores = study.scores("best_return")
    assert all(len(v) == 2 for v in scores.values())  # seeds, not seeds x places that share a run
    for arm in ("none", "hebb", "bcm"):
        means = [np.mean(study.scores("best_return", p)["cartpole", arm]) for p in study.points]
        assert scores["cartpole", arm].mean() == max(means)
    assert study.best_points["cartpole", "hebb-control"] == study.best_points["cartpole", "hebb"]
