"""This commit beside another: the same training runs, generation by generation in turn, through `neol.train` alone.

    git worktree add /tmp/before COMMIT
    python benchmarks/side_by_side.py --before /tmp/before/src

Two processes train with the same settings and seed; one waits while the other plays a generation, so the machine's
noise hits both. A ratio above 1 means that this commit is faster (whole generations: rollouts, outer loop,
checkpoints). Where the bits are the same, so are the steps; `same_steps` says whether they were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent / "src"
CHILD = """
import json, sys, time
import neol
task, settings, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
began = time.perf_counter()
def gate(done):
    global began
    spent = time.perf_counter() - began
    print(json.dumps([spent, int(done.row["env_steps"])]), flush=True)
    stop = sys.stdin.readline().strip() != "go"
    began = time.perf_counter()
    return stop
neol.train(task, out=out, callback=gate, **settings)
"""
POPULATION = {"cartpole": 300, "lunarlander": 300, "hopper": 100, "bipedalwalker": 100}


class Contender:
    """A training run in a process of its own, one generation at a time."""

    def __init__(self, source: Path, task: str, settings: dict[str, Any], out: Path) -> None:
        command = [sys.executable, "-c", CHILD, task, json.dumps(settings), str(out)]
        env = {**os.environ, "PYTHONPATH": str(source)}
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds, self.steps = 0.0, 0

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        print(word, file=self.process.stdin, flush=True)

    def hear(self, counted: bool) -> None:
        assert self.process.stdout is not None
        seconds, self.steps = json.loads(self.process.stdout.readline())
        self.seconds += seconds if counted else 0.0


def compare(before: Path, task: str, rule: str, threads: int, warm: int, counted: int) -> dict[str, Any]:
    settings = {
        "rule": rule, "threads": threads, "pop_size": POPULATION[task], "episodes": 1,
        "generations": warm + counted + 1, "max_env_steps": 0, "champion_candidates": 1, "champion_trials": 1,
        "champion_episodes": 2,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        pair = [Contender(source, task, settings, Path(folder, str(i))) for i, source in enumerate((before, HERE))]
        for one in pair:
            one.hear(counted=False)  # the first generation loads kernels
        for g in range(1, warm + counted):
            for one in pair if g % 2 else reversed(pair):
                one.say("go")
                one.hear(counted=g >= warm)
        for one in pair:
            one.say("stop")
        for one in pair:
            one.process.wait()
    old, new = pair
    return {
        "task": task, "rule": rule, "threads": threads, "seconds_before": round(old.seconds, 2),
        "seconds_now": round(new.seconds, 2), "ratio": round(old.seconds / new.seconds, 3),
        "same_steps": old.steps == new.steps,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the src folder of the other commit")
    parser.add_argument("--tasks", nargs="+", default=list(POPULATION))
    parser.add_argument("--rules", nargs="+", default=["none", "bcm"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--generations", nargs=2, type=int, default=[4, 12], help="to warm up, to count")
    options = parser.parse_args()
    cases = []
    for task in options.tasks:
        for rule in options.rules:
            for threads in options.threads:
                cases.append(compare(options.before.resolve(), task, rule, threads, *options.generations))
                print(json.dumps(cases[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "side by side", "cases": cases}, indent=1))


if __name__ == "__main__":
    main()
