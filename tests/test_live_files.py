"""Run folders as the live page reads them: growing, torn, killed, a stranger's; and many of them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from live_client import stamps

from neol.live.library import Library
from neol.live.river import River, Sizes, read_sizes
from neol.live.run_files import RunFiles, held_locks, thinned
from neol.studies.database import DATABASE
from neol.system import lock_file
from neol.training.run_folder import LOCK

CONFIG = """[run]
task = "cartpole"
seed = 3
generations = 10
outer = "neat"
max_env_steps = 0
[plasticity]
rule = "hebb"
"""
HEADER = "generation,env_steps,best_fitness,mean_fitness,species\n"
TIMING = "generation,wall_seconds,rollout_seconds,outer_seconds,steps_per_second,cpu_seconds\n"


def make_run(folder: Path, generations: int = 3, finished: bool = False) -> Path:
    """A run's folder, as `neol train` leaves it, but for its champion."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    write_history(folder, generations)
    if finished:
        summary = {"status": "all generations done", "champion_return_mean": 480.5, "champion_return_ci95": [470, 490]}
        (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return folder


def write_history(folder: Path, generations: int) -> None:
    rows = "".join(f"{g},{100 * (g + 1)},{g * 2.5},{g * 1.5},2\n" for g in range(generations))
    (folder / "history.csv").write_text(HEADER + rows, encoding="utf-8")
    rows = "".join(f"{g},{2.0 * (g + 1)},1.5,0.5,1000.0,1.0\n" for g in range(generations))
    (folder / "timing.csv").write_text(TIMING + rows, encoding="utf-8")


def test_a_run_is_read_as_it_grows_and_only_when_it_has(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    for closely in (False, True):
        write_history(folder, 3)
        run = RunFiles(folder, closely)
        assert run.look()
        assert not run.look()
        assert run.now(None).generation == 2
        write_history(folder, 5)
        assert run.look()
        now = run.now(None)
        assert (now.generation, now.best, now.task, now.seed, now.steps_per_second) == (4, 10.0, "cartpole", 3, 1000.0)
        assert now.done == 0.5
    write_history(folder, 4)  # killed, and gone on with from the checkpoint before
    run.look()
    assert run.now(None).generation == 3
    assert run.detail(None)["columns"]["best_fitness"] == [0.0, 2.5, 5.0, 7.5]


def test_who_holds_the_lock_makes_it_running_and_time_left_is_told(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", 5)
    run = RunFiles(folder)
    run.look()
    assert run.now(held_locks()).state == "stopped"
    lock = lock_file(folder / LOCK)
    assert lock is not None
    now = run.now(held_locks())
    assert now.state == "running"
    assert now.eta == pytest.approx(5 * 2.0)  # half of it is left
    lock.close()  # killed: the file stays, and nobody here holds it
    assert run.now(held_locks()).state == "running elsewhere"  # as far as can be told, for a while
    os.utime(folder / "history.csv", (1, 1))
    run.look()
    assert run.now(held_locks()).state == "stopped"


def test_to_look_takes_no_lock_that_a_training_wants(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    run = RunFiles(folder)
    lock = lock_file(folder / LOCK)
    assert lock is not None
    lock.close()
    run.look()
    run.now(held_locks())
    again = lock_file(folder / LOCK)
    assert again is not None
    again.close()


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", HEADER, HEADER + "0,1", HEADER + "a,b,c,d,e\n", "\x00\xff", HEADER + "1e999,nan,inf,-inf,0\n",
        "x" * 100_000, HEADER + "0,1,2,3,4\n0,", '"', HEADER * 50,
    ],
)  # fmt: skip
def test_any_text_as_a_file_of_a_run_is_read_as_far_as_it_goes(tmp_path: Path, text: str) -> None:
    folder = make_run(tmp_path / "a")
    for name in ("history.csv", "timing.csv", "events.jsonl", "summary.json", "champion.json", "config.toml"):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "checkpoint.npz").write_bytes(text.encode())
    library = Library(tmp_path)
    json.dumps(library.overview(), allow_nan=False)
    told = library.detail("a")
    json.dumps(told, allow_nan=False)
    assert told is not None
    assert told["network"] is None


def test_events_are_told_with_their_reasons_and_torn_lines_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    lines = [
        json.dumps({"generation": 1, "event": "episode failed", "traceback": "Traceback\n  x\nValueError: <b>no</b>"}),
        json.dumps({"generation": 2, "event": "retry", "times": 3, "reason": "died"}),
        '{"generation": 3, "eve',
    ]
    (folder / "events.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run = RunFiles(folder, closely=True)
    run.look()
    assert run.event_counts == {"episode failed": 1, "retry": 3}
    assert run.events[0] == {"generation": 1, "kind": "episode failed", "why": "ValueError: <b>no</b>"}


def test_links_and_pipes_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text(HEADER + "7,7,7,7,7\n", encoding="utf-8")
    home = tmp_path / "home"
    folder = make_run(home / "a")
    (folder / "history.csv").unlink()
    (folder / "history.csv").symlink_to(secret)
    (folder / "champion.json").symlink_to(secret)
    os.mkfifo(folder / "events.jsonl")
    (home / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    library = Library(home)
    assert [r["id"] for r in library.overview()["runs"]] == ["a"]
    told = library.detail("a")
    assert told is not None
    assert told["columns"] == {}
    assert "no champion.json" in told["network_note"]


def test_long_curves_are_thinned_to_what_a_page_needs_and_end_where_they_end() -> None:
    long = {"x": [float(i) for i in range(10_001)], "y": [0.5] * 10_001}
    short = thinned(long, 400)
    assert len(short["x"]) == len(short["y"]) <= 400
    assert short["x"][-1] == 10_000.0


def test_the_river_has_the_sizes_that_were_seen_and_forgets_what_a_kill_undid(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    river = River()
    for generation, members in ((1, [0, 0, 1]), (2, [0, 1, 1]), (3, [1, 1, 1]), (2, [0, 0, 0])):
        arrays = {
            "outer.generation": np.array(generation), "outer.species.id": np.array([4, 9], np.int32),
            "outer.species.member_of": np.array(members, np.int32),
        }  # fmt: skip
        np.savez(folder / "checkpoint.npz", **arrays)
        river.add(read_sizes(folder))
    assert river.seen == [Sizes(1, {4: 2, 9: 1}), Sizes(2, {4: 3, 9: 0})]
    assert river.told() == {"generation": [1, 2], "species": [4, 9], "sizes": [[2, 3], [1, 0]]}


def test_a_study_is_a_grid_with_states_and_its_database_is_not_touched(study_once: Path) -> None:
    before = stamps(study_once)
    told = Library(study_once).overview()
    grid = told["studies"][0]
    assert {c["state"] for c in grid["cells"]} == {"done"}
    assert {c["seed"] for c in grid["cells"]} == {0, 1}
    assert all(isinstance(c["held_out"], float) for c in grid["cells"])
    assert len(told["runs"]) == len({c["key"] for c in grid["cells"]})
    assert all(c["run"] in {r["id"] for r in told["runs"]} for c in grid["cells"])
    assert stamps(study_once) == before


def test_a_database_that_is_none_is_told_as_a_sentence(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"SQLite format 3\x00" + b"x" * 200)
    grid = Library(tmp_path).overview()["studies"][0]
    assert grid["cells"] == []
    assert "study.sqlite' is damaged" in grid["why"]


def test_five_hundred_runs_are_listed_in_less_than_two_seconds(tmp_path: Path) -> None:
    for i in range(500):
        make_run(tmp_path / f"task{i % 5}" / f"run-{i}", 50, finished=i % 2 == 0)
    began = time.process_time()  # of this process: what others do on the machine is not ours
    told = Library(tmp_path).overview()
    spent = time.process_time() - began
    assert len(told["runs"]) == 500
    assert sum(r["state"] == "finished" for r in told["runs"]) == 250
    assert spent < 2.0
