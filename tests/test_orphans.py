"""Worker processes end with their parent, whenever it dies; two who write one file at once do not meet."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from neol.files import replacing, write_atomic
from neol.system import own_command, own_environment

GRACE = 2.0  # seconds that nothing may outlive its parent by
TINY = [
    "--pop-size=8",
    "--elitism=1",
    "--generations=100000",
    "--champion-trials=1",
    "--champion-episodes=2",
    "--quiet",
]
STUDY = """
[study]
title = "t"
tasks = ["cartpole"]
seeds = 2
[budget]
generations = 100000
[base]
pop_size = 10
elitism = 1
[[arm]]
name = "none"
rule = "none"
"""


def descendants(pid: int) -> list[int]:
    """All processes below one, by /proc. Threads and processes may end while we look."""
    found, queue = [], [pid]
    while queue:
        for task in Path(f"/proc/{queue.pop()}/task").glob("*"):
            with contextlib.suppress(OSError):
                children = [int(c) for c in (task / "children").read_text().split()]
                found += children
                queue += children
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("what", ["gymnasium", "study"])
def test_none_outlives_a_parent_that_was_killed(what: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY)
    words = {
        "gymnasium": ["train", "cartpole", "--engine", "gymnasium", "--workers", "2", "--out", "run", *TINY],
        "study": ["study", "run", "s.toml", "--out", "s", "--jobs", "2", "--quiet"],
    }[what]
    parent = subprocess.Popen([sys.executable, "-m", "neol", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 120.0
        while len(below := descendants(parent.pid)) < 2 + (what == "gymnasium"):
            assert time.monotonic() < end and parent.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)
        below = descendants(parent.pid)
    finally:
        parent.kill()
        _, said = parent.communicate(timeout=60)
    killed = time.monotonic()
    while any(map(alive, below)) and time.monotonic() - killed < 4 * GRACE:
        time.sleep(0.02)
    assert not any(map(alive, below)) and time.monotonic() - killed < GRACE
    assert "Traceback" not in said


@pytest.mark.parametrize("module", ["neol.studies.worker", "neol.rollout.worker_process"])
def test_a_worker_whose_parent_is_gone_before_it_asked_to_die_with_it_ends(module: str) -> None:
    """It is handed the parent's number, and finds another."""
    words = ("1",) if "studies" in module else ("0", "1")
    done = subprocess.run(
        own_command(module, *words), stdin=subprocess.PIPE, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")


def test_what_lies_in_the_current_folder_is_not_imported_by_workers(tmp_path: Path) -> None:
    for name in ("queue", "json", "selectors", "socket", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger in the way')")
    (tmp_path / "s.toml").write_text(STUDY.replace("100000", "1"))
    (tmp_path / "neol.py").write_text("raise SystemExit('a stranger in the way')")
    for words in (
        ["train", "cartpole", "--engine", "gymnasium", "--workers", "1", "--out", "run", *TINY, "--generations", "1"],
        ["study", "run", "s.toml", "--out", "s", "--quiet", "--jobs", "1"],
    ):
        done = subprocess.run(
            own_command("neol", *words),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=own_environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_two_who_write_one_file_at_once_both_succeed(tmp_path: Path) -> None:
    file, met = tmp_path / "file.txt", threading.Barrier(2)
    faults: list[BaseException] = []

    def write(text: str) -> None:
        try:
            with replacing(file) as part:
                part.write_text(text)
                met.wait()
                assert part.read_text() == text
        except BaseException as e:
            faults.append(e)

    both = [threading.Thread(target=write, args=(t,)) for t in ("one", "another")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert not faults and file.read_text() in ("one", "another")
    assert [f.name for f in tmp_path.iterdir()] == ["file.txt"]


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from neol.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as part: part.write_text('torn'); print(part, flush=True); input()"
    )
    running: list[subprocess.Popen[str]] = []
    parts: list[Path] = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "f.txt")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        parts.append(Path(process.stdout.readline().strip()))
        running.append(process)
    running[0].send_signal(signal.SIGKILL)
    running[0].wait()
    write_atomic(tmp_path / "f.txt", "whole")
    assert [p.exists() for p in parts] == [False, True]
    running[1].communicate("\n")
    assert (tmp_path / "f.txt").read_text() == "torn" and len(list(tmp_path.iterdir())) == 1


def test_a_folder_is_not_written_as_a_file(tmp_path: Path, capsys: Any) -> None:
    from neol.cli.main import main

    document = {"format_version": "1.0"}
    (tmp_path / "c.json").write_text(str(document))
    for target in (Path("/"), tmp_path):
        with pytest.raises(ValueError, match="cannot write"):
            write_atomic(target, "x")
    assert main(["export", str(tmp_path / "c.json"), "--out", "/"]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and os.path.isdir("/")


@pytest.mark.parametrize("begun", [True, False])
def test_what_a_cluster_of_our_own_leaves_behind_is_ended(begun: bool) -> None:
    """Ray's agents outlive the process that started them for half a minute, under other names and without the variable
    in their environment; what is killed while the cluster still starts leaves others. `sleep` would stay for longer."""
    code = (
        "import subprocess, sys, time; from neol.rollout.ray_workers import _reaped\n"
        "with _reaped():\n"
        f"    child = subprocess.Popen(['sleep', '1000'], env={'{}' if begun else 'None'}, start_new_session=True)\n"
        f"    time.sleep({int(begun)}); print(child.pid, flush=True); time.sleep(1000)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=own_environment())
    assert parent.stdout is not None
    orphan = int(parent.stdout.readline())
    parent.kill()
    parent.communicate(timeout=60)
    killed = time.monotonic()
    while alive(orphan) and time.monotonic() - killed < 4 * GRACE:
        time.sleep(0.02)
    assert not alive(orphan) and time.monotonic() - killed < GRACE
