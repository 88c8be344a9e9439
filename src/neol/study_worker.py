"""A study's worker: runs in, outcomes out, one after another in one process that has the kernels loaded.

`python -m neol.study_worker` reads a line of JSON per run from stdin and answers with one on stdout. It holds a lock on
the run that it works on, which the operating system releases whatever ends the process; so no run is worked on twice at
once, by whomever. It dies with the process that started it; the run goes on from its checkpoint in another.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from neol import store
from neol.config import Config
from neol.errors import NeolError
from neol.study_file import AnyConfig, parse_config

DONE, BUSY, FAILED, DIED = "done", "busy", "failed", "died"


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Whether we have the run of this folder to ourselves, for as long as the block lasts."""
    path = folder.with_name(f".{folder.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def is_busy(folder: Path) -> bool:
    """Whether somebody works on the run of this folder now."""
    path = folder.with_name(f".{folder.name}.lock")
    if not path.exists():
        return False
    with open(path) as f:
        try:
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def work(folder: Path, config: AnyConfig) -> tuple[str, str]:
    """Begin or go on with a run, to its end -> (outcome, reason)."""
    with locked(folder) as ours:
        if not ours:
            return BUSY, ""
        if (folder / store.SUMMARY).exists():
            return DONE, ""
        try:
            _train(folder, config)
        except NeolError as e:
            return FAILED, str(e)
        except OSError as e:
            return FAILED, f"cannot read or write '{e.filename or folder}': {e.strerror}."
        except MemoryError:
            return FAILED, "out of memory."
        except Exception as e:  # a fault of ours or of the simulator: the other runs go on
            return FAILED, f"{type(e).__name__}: {' '.join(str(e).split())}"
        return DONE, ""


def _train(folder: Path, config: AnyConfig) -> None:
    """On one core."""
    if isinstance(config, Config):
        from neol.training import train

        workers = 0 if config.rollout.engine == "envpool" else 1
        settings: dict[str, Any] = {**config.flat(), "threads": 1, "workers": workers, "executor": "local"}
        train(out=folder, resume=True, **settings)
        return
    from neol import baselines

    own = {k: v for k, v in vars(config).items() if k not in ("algorithm", "task", "threads")}
    baselines.train(config.algorithm, config.task, out=folder, resume=True, threads=1, **own)


def main() -> None:
    from neol.worker import die_with_parent

    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # how a crew ends; ignored in a shell's background
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a simulator prints is no answer
    for line in sys.stdin:
        job = json.loads(line)
        outcome, reason = work(Path(job["folder"]), parse_config(job["config"], "the run"))
        print(json.dumps({"outcome": outcome, "reason": reason}), file=answers, flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
