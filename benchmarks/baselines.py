"""Env steps/s of PPO and SAC beside NEOL's on the same tasks, on one core and on two.

Each figure is of a process of its own that may use only so many cores. Baselines: whole updates with the tuned
hyperparameters, after a first one that compiles (SAC starts to learn after 300 steps instead of 10,000, so that what is
measured is learning). NEOL: whole generations with the task's own settings, after a first one.
`cpu_seconds_per_million_steps` says the same in processor time, which a busy machine changes less. One JSON object on
stdout.

Run: python benchmarks/baselines.py [--tasks ...] [--cores 1 2] [--seconds S]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neol.baselines.settings import baseline_config
from neol.envs.tasks import TASKS

ARMS = ("neol", "ppo", "sac")


def timed(advance: Callable[[], int], seconds: float) -> dict[str, float]:
    """Call `advance`, which returns the env steps so far, until the time is over."""
    first, wall, cpu = advance(), time.perf_counter(), time.process_time()
    while True:
        steps = advance() - first
        spent, used = time.perf_counter() - wall, time.process_time() - cpu
        if spent >= seconds:
            return {
                "env_steps": steps, "seconds": round(spent, 2), "steps_per_second": round(steps / spent, 1),
                "cpu_seconds_per_million_steps": round(used * 1e6 / steps, 1),
            }  # fmt: skip


def measure_neol(task: str, cores: int, seconds: float) -> dict[str, float]:
    from neol.training.configure import configure
    from neol.training.loop import Training

    with tempfile.TemporaryDirectory() as folder:
        trainer = Training(configure(task, threads=cores, max_env_steps=0), Path(folder))

        def advance() -> int:
            trainer.advance()
            return trainer.history.env_steps

        try:
            return timed(advance, seconds)
        finally:
            trainer.engine.close()


def measure_baseline(algorithm: str, task: str, cores: int, seconds: float) -> dict[str, float]:
    from neol.baselines.sbx import Learner

    changed: dict[str, Any] = {"learning_starts": 300} if algorithm == "sac" else {}
    config = baseline_config(algorithm, task, 10_000_000, threads=cores, hyperparameters=changed)
    learner = Learner(config, TASKS[task])
    learner.begin(0)
    if algorithm == "sac":
        learner.learn(310, lambda _: None)

    def advance() -> int:
        learner.learn(1 if algorithm == "ppo" else 64, lambda _: None)
        return learner.env_steps

    try:
        return timed(advance, seconds)
    finally:
        learner.close()


def child(arm: str, task: str, cores: int, seconds: float) -> None:
    """Measure here, on so many cores, and print it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    if arm == "neol":
        print(json.dumps(measure_neol(task, cores, seconds)))
    else:
        print(json.dumps(measure_baseline(arm, task, cores, seconds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=30.0, help="at least this long for each figure (30)")
    parser.add_argument("--child", nargs=3, metavar=("ARM", "TASK", "CORES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], options.child[1], int(options.child[2]), options.seconds)
        return
    load, rows = os.getloadavg(), []
    for task in options.tasks:
        for cores in options.cores:
            for arm in options.arms:
                if (arm, task) == ("sac", "cartpole"):
                    continue  # SAC needs continuous actions
                command = [
                    sys.executable,
                    __file__,
                    "--seconds",
                    str(options.seconds),
                    "--child",
                    arm,
                    task,
                    str(cores),
                ]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                rows.append({"task": task, "arm": arm, "cores": cores, **json.loads(done.stdout.splitlines()[-1])})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "baselines", "load_before": load, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
