"""Who is told of a run, what is there when it is cut off, and which folder it goes to."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import ForkServer

import neol
from neol.errors import NeolError
from neol.jit import announce_compilation, kernel
from neol.training.configure import configure, default_folder
from neol.training.history import History, HistoryRow
from neol.training.observers import NOTE, Event, Generation, Observer, Started
from neol.training.progress import WIDTH, Progress, TrainingProgress, short
from neol.training.run import Run
from neol.training.session import count_events, record_event

TINY: dict[str, Any] = {
    "pop_size": 8, "elitism": 1, "episodes": 1, "max_steps": 50, "threads": 1, "champion_candidates": 2,
    "champion_trials": 2, "champion_episodes": 4, "generations": 3,
}  # fmt: skip


class Diary(Observer):
    """Everything that it is told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def started(self, start: Started) -> None:
        self.told.append(("started", start))

    def generation(self, done: Generation) -> None:
        self.told.append(("generation", done))

    def event(self, event: Event) -> None:
        if event.kind != NOTE or "Compiling" not in event.text:
            self.told.append(("event", event))

    def finished(self, run: Run | None) -> None:
        self.told.append(("finished", run))


class Crash(Exception):
    pass


def test_an_observer_is_told_of_everything_in_order(tmp_path: Path) -> None:
    diary = Diary()
    run = neol.train("cartpole", out=tmp_path / "run", observers=[diary], **TINY)
    assert [kind for kind, _ in diary.told] == ["started", *["generation"] * 3, "event", "finished"]
    started, *generations = [value for _, value in diary.told[:4]]
    assert started.before == ()
    assert [g.row["generation"] for g in generations] == [0, 1, 2]
    assert [g.last for g in generations] == [False, False, True]
    assert generations[-1].fraction_done == 1.0
    assert diary.told[-1][1].path == run.path


def test_an_observer_of_a_resumed_run_gets_what_was_before_and_one_of_a_failed_run_gets_none(tmp_path: Path) -> None:
    neol.train("cartpole", out=tmp_path / "run", **{**TINY, "generations": 2})
    diary = Diary()

    def crash(done: Generation) -> None:
        raise Crash

    with pytest.raises(Crash):
        neol.train("cartpole", out=tmp_path / "run", resume=True, observers=[diary], callback=crash, **TINY)
    assert [row.generation for row in diary.told[0][1].before] == [0, 1]
    assert diary.told[-1] == ("finished", None)


def test_progress_is_silent_in_a_pipe_and_can_be_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    neol.train("cartpole", out=tmp_path / "a", **TINY)
    assert capfd.readouterr().err == ""
    neol.train("cartpole", out=tmp_path / "b", progress=True, **TINY)
    assert "cartpole on envpool, 1 thread." in capfd.readouterr().err


def test_progress_is_shown_in_a_terminal_without_being_asked_for(tmp_path: Path) -> None:
    code = f"import neol; neol.train('cartpole', out={str(tmp_path / 'run')!r}, **{TINY!r})"
    primary, secondary = os.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stderr=secondary, stdout=subprocess.DEVNULL) as process:
        os.close(secondary)
        seen = b""
        while True:
            try:
                seen += (part := os.read(primary, 4096))
            except OSError:
                break
            if not part:
                break
        assert process.wait() == 0
    os.close(primary)
    assert b"gen 2" in seen or b"gen 1" in seen


def test_the_live_line_fits_eighty_columns_and_counts_faults() -> None:
    shown = TrainingProgress(Progress(io.StringIO()))
    lines: list[str] = []
    shown.line.update = lambda text, fraction, last=False: lines.append(text)  # type: ignore[method-assign]
    shown.event(Event("worker died", "signal 9"))
    shown.event(Event("worker died", "signal 9"))
    row = {
        "generation": 1234, "env_steps": 123_456_789, "best_fitness": -1234.5, "mean_fitness": -12345.6, "species": 12,
    }  # fmt: skip
    shown.generation(Generation(row, 123_456.0, 0.5, False))
    assert len(lines[0]) + len("  ETA 1:02:03") <= WIDTH
    assert "2 faults" in lines[0]
    common = {"generation": 1, "env_steps": 9000, "best_fitness": 1.0, "mean_fitness": 0.5, "species": 12}
    shown.generation(Generation(common, 1e4, 0.5, False))
    assert "species 12  9k steps  10k/s  2 faults" in lines[1]
    said = shown.line.stream.getvalue()  # type: ignore[attr-defined]
    assert said.count("worker died") == 1  # the first is told, the others are counted


def test_the_time_that_is_left_is_told_once_a_thousandth_of_the_work_was_done_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A resumed run that sets up for five seconds would else have hundreds of hours ahead of it."""
    now = [1000.0]
    monkeypatch.setattr("neol.training.progress.time.monotonic", lambda: now[0])
    line = Progress(stream := io.StringIO())
    line.start(0.25)
    for second, fraction in ((5.0, 0.25001), (15.0, 0.2625)):
        now[0] = 1000.0 + second
        line.update("gen 7", fraction)
    assert stream.getvalue() == "gen 7  ETA ?\ngen 7  ETA 14:45\n"  # 0.0125 took 15 s: 0.7375 take 885
    line = Progress(stream := io.StringIO())
    line.start(0.9996)  # little is left, and half of that was done
    now[0] += 10.0
    line.update("gen 9", 0.9998)
    assert stream.getvalue() == "gen 9  ETA 0:10\n"


def test_the_log_of_a_long_job_gets_a_line_every_five_seconds_at_first_and_one_a_minute_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("neol.training.progress.time.monotonic", lambda: now[0])
    line = Progress(stream := io.StringIO())
    line.start(0.0)
    told: list[float] = []
    for second in range(1, 3601):
        now[0], before = float(second), stream.tell()
        line.update("gen 7", second / 7200)
        told += [now[0]] * (stream.tell() > before)
    gaps = np.diff(told)
    assert told[0] <= 5 and set(gaps[:15]) == {5.0}  # up to 100 seconds: a twentieth of them is no longer than that
    assert (np.diff(gaps) >= 0).all() and set(gaps[-20:]) == {60.0}
    line.update("gen 8", 1.0, last=True)
    assert stream.getvalue().endswith("gen 8  ETA 0:00\n")


def test_counts_are_short() -> None:
    assert [short(n) for n in (7, 950, 12_345, 1_234_567, 9.87e9)] == ["7", "950", "12.3k", "1.23M", "9.87G"]


def test_compilation_is_announced_only_when_something_is_compiled() -> None:
    @kernel
    def double(x):  # type: ignore[no-untyped-def]
        return 2.0 * x

    said: list[str] = []
    with announce_compilation(said.append):
        pass
    assert said == []
    with announce_compilation(said.append):
        double(1.0)
        double(1)
    first = list(said)
    with announce_compilation(said.append):
        double(3.0)
    assert len(first) <= 1  # 0 where the disk cache had it
    assert said == first


def test_a_warm_cache_is_not_announced(tmp_path: Path) -> None:
    code = f"import neol; neol.train('cartpole', out={str(tmp_path)!r} + '/' + 'RUN', progress=True, **{TINY!r})"

    def said(run: str) -> str:
        words = [sys.executable, "-c", code.replace("RUN", run)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stderr

    assert said("first").count("Compiling kernels") <= 1  # the kernels of this tree may be in the cache already
    assert "Compiling" not in said("second")


def test_a_run_that_is_cut_off_leaves_the_best_so_far(tmp_path: Path) -> None:
    def press(done: Generation) -> None:
        if done.row["generation"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neol.train("cartpole", out=tmp_path / "run", callback=press, **TINY)
    run = neol.load(tmp_path / "run")
    assert run.champion.act(np.zeros(4)) in (0, 1)
    assert run.champion.network.document["metadata"]["status"].startswith("the best of generation 1 by fitness")
    assert not (run.path / "summary.json").exists()
    done = neol.train("cartpole", out=run.path, resume=True, **TINY)
    assert "status" not in done.champion.network.document["metadata"]


def test_a_run_that_failed_before_its_first_checkpoint_does_not_block_its_folder(tmp_path: Path) -> None:
    def crash(done: Generation) -> None:
        raise Crash

    with pytest.raises(Crash):
        neol.train("cartpole", out=tmp_path / "run", callback=crash, **TINY)
    assert (tmp_path / "run" / "config.toml").exists()
    run = neol.train("cartpole", out=tmp_path / "run", **{**TINY, "generations": 1})
    assert run.config.run.generations == 1


def test_a_run_that_is_refused_in_its_first_generation_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NeolError, match="losses must lie in"):
        neol.train("cartpole", out=tmp_path / "run", outer="hedge", pool=8, return_low=-1.0, **TINY)
    assert list(tmp_path.iterdir()) == []


def test_overwrite_begins_anew_and_leaves_what_is_not_the_runs(tmp_path: Path) -> None:
    first = neol.train("cartpole", out=tmp_path / "run", **TINY)
    (first.path / "notes.txt").write_text("mine")
    with pytest.raises(NeolError, match="give resume=True to go on with it, overwrite=True to begin anew"):
        neol.train("cartpole", out=first.path, **TINY)
    again = neol.train("cartpole", out=first.path, overwrite=True, **{**TINY, "generations": 1, "seed": 3})
    assert len(again.history["generation"]) == 1
    assert again.config.run.seed == 3
    assert (again.path / "notes.txt").read_text() == "mine"
    with pytest.raises(NeolError, match="resume=True is not allowed with overwrite=True"):
        neol.train("cartpole", out=first.path, overwrite=True, resume=True, **TINY)


def test_the_default_folder_carries_what_differs_and_never_collides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {
        "runs/cartpole-hebb-0": {},
        "runs/cartpole-oja-7": {"rule": "oja", "seed": 7},
        "runs/cartpole-hebb-0-lr0.1-pop_size30": {"lr": 0.1, "pop_size": 30},
        "runs/cartpole-hebb-0-hedge": {"outer": "hedge", "generations": 7},
    }
    for name, settings in named.items():
        assert default_folder(configure("cartpole", **settings), "default", resume=False) == Path(name)
    small = {k: v for k, v in TINY.items() if k != "generations"}
    runs = [neol.train("cartpole", generations=1, **small) for _ in range(2)]
    assert runs[1].path.name == f"{runs[0].path.name}-2"
    gone_on = neol.train("cartpole", generations=2, resume=True, **small)
    assert gone_on.path == runs[1].path
    rates = [
        f"{g}_{w}" for g in ("weight", "bias") for w in ("mutate_rate", "replace_rate", "init_stdev", "mutate_power")
    ]
    long = configure("cartpole", **dict.fromkeys(rates, 0.123))
    assert len(default_folder(long, "default", resume=False).name) < 120


def test_history_columns_keep_their_kind_through_a_checkpoint() -> None:
    history = History()
    row = HistoryRow(0, 10, 1.0, 0.5, 0.5, 1.0, 0.5, 10.0, {"species": 3, "sigma": 2.0})
    history.add(row, 0.5, 1.0, 1.0, 10)
    copy = History()
    copy.restore(history.arrays())
    assert copy.rows == history.rows
    assert copy.timing == history.timing
    assert [type(v) for v in copy.rows[0].more.values()] == [int, float]


def test_events_are_counted_by_kind(tmp_path: Path) -> None:
    assert count_events(tmp_path) == {}
    lines = [{"event": "worker died"}, {"event": "episode failed"}, {"event": "worker died"}]
    lines += [{"event": "episode retried", "times": 3}]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert count_events(tmp_path) == {"worker died": 2, "episode failed": 1, "episode retried": 3}


def test_runs_and_networks_show_themselves_in_a_notebook(tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", **TINY)
    page = run._repr_html_()
    assert "held-out return" in page
    assert page.count("<svg") == 2
    assert run.champion._repr_html_().startswith("<svg")


def test_messages_speak_python_in_python_and_options_on_the_command_line() -> None:
    error = NeolError("give --resume, or another --max-env-steps; a - b -- c stays.")
    assert str(error) == "give resume=True, or another max_env_steps; a - b -- c stays."
    assert error.sentence == "give --resume, or another --max-env-steps; a - b -- c stays."


def test_a_refused_overwrite_leaves_the_run_that_was_there(tmp_path: Path) -> None:
    good = neol.train("cartpole", out=tmp_path / "run", **TINY)
    before = {f.name: f.read_bytes() for f in good.path.iterdir()}
    refused: list[dict[str, Any]] = [{"outer": "python:Foo"}, {"outer": "hedge", "return_low": 1.0, "return_high": 2.0}]
    for settings in refused:
        with pytest.raises(NeolError):
            neol.train("cartpole", out=good.path, overwrite=True, **{**TINY, **settings})
        assert {f.name: f.read_bytes() for f in good.path.iterdir()} == before


def test_an_overwritten_run_is_kept_until_the_new_one_has_a_checkpoint(tmp_path: Path) -> None:
    good = neol.train("cartpole", out=tmp_path / "run", **TINY)
    before = (good.path / "history.csv").read_bytes()

    def crash(done: Generation) -> None:
        raise Crash

    with pytest.raises(Crash):
        neol.train("cartpole", out=good.path, overwrite=True, callback=crash, seed=9, **TINY)
    back = neol.train(out=good.path, resume=True)  # as after a kill: the old one is there again
    assert (back.path / "history.csv").read_bytes() == before
    assert back.config.run.seed == 0


def test_only_one_process_works_on_a_folder(tmp_path: Path) -> None:
    def second(done: Generation) -> None:
        with pytest.raises(NeolError, match="another process is working on"):
            neol.train("cartpole", out=tmp_path / "run", resume=True, **TINY)

    neol.train("cartpole", out=tmp_path / "run", callback=second, **TINY)
    assert not [f for f in (tmp_path / "run").iterdir() if f.name.startswith(".")]


def test_runs_that_begin_at_once_without_out_get_a_folder_each(forks: ForkServer, tmp_path: Path) -> None:
    words = ["train", "cartpole", "--quiet", *(f"--{k.replace('_', '-')}={v}" for k, v in TINY.items())]
    runs = [forks.start(words, tmp_path) for _ in range(3)]
    assert [r.communicate()[1] for r in runs] == [""] * 3
    assert len([p for p in (tmp_path / "runs").iterdir() if (p / "summary.json").exists()]) == 3


def test_a_finished_run_that_goes_on_has_no_stale_summary(tmp_path: Path) -> None:
    neol.train("cartpole", out=tmp_path / "run", **{**TINY, "generations": 1})

    def press(done: Generation) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neol.train(out=tmp_path / "run", resume=True, generations=5, callback=press)
    with pytest.raises(NeolError, match="is not finished"):
        _ = neol.load(tmp_path / "run").summary


def test_a_torn_line_of_events_costs_only_itself(tmp_path: Path) -> None:
    record_event(tmp_path, 0, Event("worker died", ""))
    with open(tmp_path / "events.jsonl", "a") as f:
        f.write('{"generation": 1, "ev')
    record_event(tmp_path, 2, Event("worker died", ""))
    assert count_events(tmp_path) == {"worker died": 2}
