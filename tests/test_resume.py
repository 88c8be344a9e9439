"""Interrupted runs: killed, stopped by Ctrl-C or ended early, a resumed run ends in the bytes of an uninterrupted one.

Kills are real: SIGKILL to a real `neol train` process.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from forked import Forked, ForkServer

import neol
from neol.errors import NeolError
from neol.training import run_folder
from neol.training.loop import Training
from neol.training.observers import Generation
from neol.training.train import train

# Long enough that kills hit the middle, and with all that a checkpoint must hold: species, innovations, archive.
LONG: dict[str, Any] = {
    "pop_size": 30, "generations": 40, "episodes": 1, "seed": 3, "threads": 1, "rule": "hebb", "max_steps": 120,
    "node_add_prob": 0.2, "conn_add_prob": 0.3, "compatibility_threshold": 1.5,
    "champion_candidates": 5, "champion_trials": 5, "champion_episodes": 10,
}  # fmt: skip
KILLS = 20
TINY: dict[str, Any] = {
    "pop_size": 12, "generations": 5, "episodes": 1, "max_steps": 80, "seed": 4, "threads": 1, "rule": "bcm",
    "champion_candidates": 3, "champion_trials": 2, "champion_episodes": 3,
}  # fmt: skip


def outcome(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in (run_folder.HISTORY, run_folder.CHAMPION, run_folder.CONFIG)}


def contents(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the long run leaves when nothing happens to it."""
    return outcome(train("lunarlander", out=tmp_path_factory.mktemp("whole") / "run", **LONG).path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the tiny run leaves when nothing happens to it."""
    return outcome(train("lunarlander", out=tmp_path_factory.mktemp("whole") / "run", **TINY).path)


def words_of(folder: Path, settings: dict[str, Any]) -> list[str]:
    options = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items()]
    return ["train", "lunarlander", "--out", str(folder), "--resume", *options]


def start(words: list[str]) -> subprocess.Popen[str]:
    """`neol` from the interpreter's start on."""
    command = [sys.executable, "-m", "neol", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stamp(folder: Path) -> Any:
    file = folder / run_folder.CHECKPOINT
    return file.stat().st_mtime_ns if file.exists() else None


def wait_for_progress(process: Forked, folder: Path) -> None:
    """Return when the process has written a new checkpoint, or has ended."""
    before = stamp(folder)
    while stamp(folder) == before and process.poll() is None:
        time.sleep(0.005)


def check_no_file_is_torn(folder: Path, expected_history: bytes) -> int:
    """Every file reads, and the history is the beginning of the true one; return its generations."""
    readers = {
        run_folder.CONFIG: lambda: run_folder.read_config(folder),
        run_folder.HISTORY: lambda: run_folder.read_table(folder / run_folder.HISTORY),
        run_folder.TIMING: lambda: run_folder.read_table(folder / run_folder.TIMING),
        run_folder.CHECKPOINT: lambda: run_folder.read_checkpoint(folder, run_folder.read_config(folder)),
        run_folder.CHAMPION: lambda: neol.PlasticNetwork.from_json(folder / run_folder.CHAMPION),
        run_folder.SUMMARY: lambda: run_folder.read_json(folder / run_folder.SUMMARY),
    }
    for file in folder.iterdir() if folder.exists() else ():
        if not file.name.startswith("."):  # a temporary that the kill left; the next write replaces it
            assert readers[file.name]()
    if not (folder / run_folder.HISTORY).exists():
        return 0
    history = (folder / run_folder.HISTORY).read_bytes()
    assert expected_history.startswith(history)
    return history.count(b"\n") - 1


def test_a_run_killed_at_20_random_moments_and_resumed_each_time_ends_in_the_same_bytes(
    uninterrupted: dict[str, bytes], forks: ForkServer, tmp_path: Path
) -> None:
    rng = random.Random(2)
    kills, attempt, reached = 0, 0, set()
    while True:
        folder = tmp_path / str(attempt)
        process: Forked | subprocess.Popen[str]
        if kills < KILLS and kills % 4 == 0:  # at any moment from the interpreter's start on
            process = start(words_of(folder, LONG))
            time.sleep(rng.uniform(0.0, 4.0))
        else:
            process = forks.start(words_of(folder, LONG))
            if kills < KILLS:  # in the middle of the work
                wait_for_progress(process, folder)
                time.sleep(rng.uniform(0.0, 0.2))
        if kills < KILLS:
            process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        reached.add(check_no_file_is_torn(folder, uninterrupted[run_folder.HISTORY]))
        if process.returncode == 0:
            assert outcome(folder) == uninterrupted
            attempt += 1  # it ended before its kill: the remaining kills are for a new one
            if kills == KILLS:
                break
        else:
            kills += 1
    assert len(reached) > KILLS // 4  # they hit the run at many different generations


@pytest.mark.parametrize(("delay", "quiet"), [(0.2, False), (0.0, True)])
def test_ctrl_c_saves_says_how_to_resume_and_that_command_ends_in_the_same_bytes(
    delay: float, quiet: bool, uninterrupted: dict[str, bytes], forks: ForkServer, tmp_path: Path
) -> None:
    folder = tmp_path / "my run"
    process = forks.start([*words_of(folder, LONG), *["--quiet"] * quiet])
    wait_for_progress(process, folder)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in output + errors
    done = check_no_file_is_torn(folder, uninterrupted[run_folder.HISTORY])
    saved = run_folder.read_checkpoint(folder, run_folder.read_config(folder))
    assert 0 < done == len(saved["history"]) < LONG["generations"]
    assert "--resume" in errors
    advice = errors.strip().splitlines()[-1]
    _, _, words = advice.partition("neol train ")
    resumed = forks.start(["train", *shlex.split(words)])
    _, errors = resumed.communicate()
    assert resumed.returncode == 0, (advice, errors)
    assert outcome(folder) == uninterrupted


# -- in process --------------------------------------------------------------------------------------------------------


def interrupted(folder: Path, after: int, **settings: Any) -> None:
    """A run that gets Ctrl-C when `after` generations are done."""

    def press(state: Generation) -> None:
        if state.row["generation"] == after - 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train("lunarlander", out=folder, callback=press, **{**TINY, **settings})


@pytest.mark.parametrize("task", ["cartpole", "bipedalwalker", "hopper"])
def test_every_task_resumes_to_the_same_bytes(task: str, tmp_path: Path) -> None:
    settings = {**TINY, "max_steps": 50, "episodes": 2}
    expected = outcome(train(task, out=tmp_path / "whole", **settings).path)
    stop = lambda state: state.row["generation"] in (0, 2)  # noqa: E731
    for _ in range(3):  # after generations 0 and 2, then to the end
        run = train(task, out=tmp_path / "parts", resume=True, callback=stop, **settings)
    assert outcome(run.path) == expected


def test_interrupted_after_every_generation_a_run_ends_in_the_same_bytes(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    for generations in range(1, TINY["generations"]):
        interrupted(folder, generations, resume=True)
        assert len(neol.load(folder).history["generation"]) == generations
    assert outcome(train("lunarlander", out=folder, resume=True, **TINY).path) == whole


def test_recurrent_and_restarted_populations_resume_to_the_same_bytes(tmp_path: Path) -> None:
    """Every species dies now and then (stagnation 1, none protected), which starts the population anew."""
    settings = {
        **TINY, "feed_forward": False, "conn_add_prob": 0.9, "node_add_prob": 0.5, "max_stagnation": 1,
        "species_elitism": 0, "generations": 8,
    }  # fmt: skip
    expected = outcome(train("lunarlander", out=tmp_path / "whole", **settings).path)
    for generations in (2, 3, 6, 8):
        run = train("lunarlander", out=tmp_path / "parts", resume=True, **{**settings, "generations": generations})
    assert outcome(run.path) == expected


def test_resuming_with_more_generations_equals_a_longer_run_from_the_start(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    for generations in (2, 3, 5):
        run = train("lunarlander", out=folder, resume=True, **{**TINY, "generations": generations})
        assert run.summary.generations == generations
    assert outcome(folder) == whole


def test_resuming_a_finished_run_changes_nothing(whole: dict[str, bytes], tmp_path: Path) -> None:
    for _ in range(2):
        run = train("lunarlander", out=tmp_path / "run", resume=True, **TINY)
        assert outcome(run.path) == whole
        assert run.summary.status == "all generations done"


def test_resuming_a_finished_run_chooses_no_champion_again_unless_something_is_missing_or_asked_for(
    tmp_path: Path,
) -> None:
    folder, settings = tmp_path / "run", {**TINY, "generations": 1}
    train("lunarlander", out=folder, resume=True, **settings)
    summary, champion = folder / "summary.json", folder / "champion.json"
    first, chosen = summary.read_bytes(), champion.read_bytes()
    train("lunarlander", out=folder, resume=True, **settings)
    assert summary.read_bytes() == first  # its seconds, too
    for change in (champion.unlink, lambda: champion.write_text("{}")):
        change()
        train("lunarlander", out=folder, resume=True, **settings)
        assert champion.read_bytes() == chosen
        assert summary.read_bytes() != first
    summary.write_text("{}")
    train("lunarlander", out=folder, resume=True, **settings)
    assert train("lunarlander", out=folder, resume=True, **settings).summary.champion_episodes == 3
    more = train("lunarlander", out=folder, resume=True, **{**settings, "champion_episodes": 5})
    assert more.summary.champion_episodes == 5


def test_a_choice_that_was_interrupted_is_made_at_the_next_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, settings = tmp_path / "run", {**TINY, "generations": 1}
    train("lunarlander", out=folder, resume=True, **settings)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Training, "finish", interrupt)
        train("lunarlander", out=folder, resume=True, **{**settings, "champion_episodes": 5})
    assert train(out=folder, resume=True).summary.champion_episodes == 5


def test_a_resume_needs_nothing_said_again(whole: dict[str, bytes], tmp_path: Path) -> None:
    interrupted(tmp_path / "run", 2)
    assert outcome(train(out=tmp_path / "run", resume=True).path) == whole


def test_the_same_words_resume_what_they_started_also_with_max_steps_0(tmp_path: Path) -> None:
    settings = {**TINY, "max_steps": 0, "generations": 1}
    train("cartpole", out=tmp_path / "run", resume=True, **settings)
    train("CartPole-v1", out=tmp_path / "run", resume=True, **settings)


def test_the_same_preset_or_files_resume_what_they_started(tmp_path: Path) -> None:
    neat_file = Path(__file__).parent / "data" / "neat" / "authors-plastic.ini"
    (tmp_path / "mine.toml").write_text("[plasticity]\nlr = 0.125\n[rollout]\nmax_steps = 0\n", encoding="utf-8")
    settings = {**{k: v for k, v in TINY.items() if k != "max_steps"}, "pop_size": 20, "generations": 1}
    for name, source in (
        ("preset", {"preset": "authors"}),
        ("neat", {"neat_config": neat_file}),
        ("config", {"config": tmp_path / "mine.toml"}),
    ):
        first, again = (train("lunarlander", out=tmp_path / name, resume=True, **source, **settings) for _ in range(2))
        assert first.config == again.config


@pytest.mark.parametrize(
    ("name", "value"),
    [("lr", 0.5), ("pop_size", 14), ("seed", 5), ("rule", "hebb"), ("episodes", 2), ("inheritance", "darwinian")],
)
def test_a_changed_setting_is_refused_with_a_sentence_and_changes_nothing(
    name: str, value: Any, tmp_path: Path
) -> None:
    folder = train("lunarlander", out=tmp_path / "run", **{**TINY, "generations": 1}).path
    before = contents(folder)
    with pytest.raises(
        NeolError, match=rf"^{name} = {value} is not allowed with resume=True; .* was run with {name} = "
    ):
        train("lunarlander", out=folder, resume=True, **{**TINY, name: value})
    assert contents(folder) == before


def test_another_task_is_refused_at_a_resume(tmp_path: Path) -> None:
    folder = train("lunarlander", out=tmp_path / "run", **{**TINY, "generations": 1}).path
    before = contents(folder)
    with pytest.raises(NeolError, match="task = cartpole is not allowed with resume=True"):
        train("cartpole", out=folder, resume=True, **TINY)
    assert contents(folder) == before


def test_a_setting_changed_by_file_or_preset_is_refused_at_a_resume_too(tmp_path: Path) -> None:
    folder = train("lunarlander", out=tmp_path / "run", **{**TINY, "generations": 1}).path
    before = contents(folder)
    (tmp_path / "other.toml").write_text("[plasticity]\nlr = 0.5\n", encoding="utf-8")
    for source in ({"config": tmp_path / "other.toml"}, {"preset": "paper"}):
        with pytest.raises(NeolError, match="is not allowed with resume=True"):
            train("lunarlander", out=folder, resume=True, **source)
        assert contents(folder) == before


def test_threads_and_window_may_change_at_a_resume(whole: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for generations, threads, window in ((2, 2, 8), (4, 1, 3), (5, 2, 64)):
        settings = {**TINY, "generations": generations, "threads": threads, "window": window}
        run = train("lunarlander", out=folder, resume=True, **settings)
        assert (run.config.rollout.threads, run.config.rollout.window) == (threads, window)
    for name in (run_folder.HISTORY, run_folder.CHAMPION):
        assert (folder / name).read_bytes() == whole[name]


def test_a_run_killed_before_its_first_checkpoint_takes_new_settings_into_its_config(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / run_folder.CONFIG).write_text(neol.configure("lunarlander", **TINY).config.to_toml(), encoding="utf-8")
    run = train("lunarlander", out=folder, resume=True, **{**TINY, "generations": 2, "threads": 2})
    assert len(run.history["generation"]) == 2
    assert (run.config.run.generations, run.config.rollout.threads) == (2, 2)


def test_resume_where_there_is_no_run_starts_one(whole: dict[str, bytes], tmp_path: Path) -> None:
    assert outcome(train("lunarlander", out=tmp_path / "new" / "run", resume=True, **TINY).path) == whole


def test_history_and_timing_are_written_anew_from_the_checkpoint(whole: dict[str, bytes], tmp_path: Path) -> None:
    """A kill between the checkpoint and the tables leaves them a generation behind."""
    folder = tmp_path / "run"
    interrupted(folder, 3)
    lines = (folder / run_folder.HISTORY).read_bytes().splitlines(keepends=True)
    (folder / run_folder.HISTORY).write_bytes(b"".join(lines[:-1]))
    (folder / run_folder.TIMING).unlink()
    run = train("lunarlander", out=folder, resume=True, **TINY)
    assert outcome(folder) == whole
    assert run.timing["generation"].tolist() == list(range(TINY["generations"]))


def test_a_resumed_run_counts_the_time_of_all_its_parts(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted(folder, 3)
    part = neol.load(folder).timing["wall_seconds"]
    run = train("lunarlander", out=folder, resume=True, **TINY)
    assert run.timing["wall_seconds"][:3].tolist() == part.tolist()
    assert run.summary.wall_seconds > part[-1]
