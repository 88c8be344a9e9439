"""A study's worker: runs in, outcomes out, one after another in one process that has the kernels loaded.

`python -P -m neol.studies.worker PARENT` reads a line of JSON per run from stdin, answers with one on stdout, and
holds a lock on the run that it works on, which the operating system releases whatever ends the process; so no two
processes ever work on the same run. It dies with the process that started it; the run goes on from its checkpoint in
another.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from neol.config.schema import Config
from neol.errors import NeolError
from neol.gradients.settings import FinetuneConfig
from neol.studies.plan import AnyConfig, parse_config
from neol.system import locked
from neol.training import run_folder

DONE, BUSY, FAILED, DIED = "done", "busy", "failed", "died"


def work(folder: Path, config: AnyConfig) -> tuple[str, str]:
    """Begin or go on with a run, to its end -> (outcome, reason)."""
    with locked(folder) as ours:
        if not ours:
            return BUSY, ""
        if (folder / run_folder.SUMMARY).exists():
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
        from neol.training.train import train

        train(config=_on_one_core(config), out=folder, resume=True, progress=False)
        return
    if isinstance(config, FinetuneConfig):
        from neol.gradients import finetune

        config = dataclasses.replace(config, evolution=_on_one_core(config.evolution))
        finetune.train_config(config, folder, resume=True, progress=False)
        return
    from neol.baselines.loop import train_config

    train_config(dataclasses.replace(config, threads=1), folder, resume=True, progress=False)


def _on_one_core(config: Config) -> Config:
    workers = 0 if config.rollout.engine in ("envpool", "native") else 1
    return config.replace(threads=1, workers=workers, executor="local")


def main() -> None:
    from neol.system import die_with_parent

    die_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # how a backend ends; ignored in a shell's background
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a simulator prints is no answer
    for line in sys.stdin:
        job = json.loads(line)
        outcome, reason = work(Path(job["folder"]), parse_config(job["config"], "the run"))
        print(json.dumps({"outcome": outcome, "reason": reason}), file=answers, flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
