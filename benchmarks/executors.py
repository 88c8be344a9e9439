"""Speed of the executors: Gymnasium in worker processes against processes that only step; Ray against processes.

Part 1, for each task: env steps per second of the rollouts of real training generations on the gymnasium engine with N
workers (messages, resets and the tail of each generation included), divided by that of N processes which only step the
same environments with random actions, resets included (and new environments where ours are new). The two alternate.
Part 2: rollouts of one population on a Ray cluster of two local nodes, divided by those of two worker processes.

Run: python benchmarks/executors.py [--tasks ...] [--workers N] [--pop-size P] [--generations START STOP] [--no-ray]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from neol import seeding
from neol.envs.registry import find, make, suppressed
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes
from neol.training.configure import configure, resolve
from neol.training.loop import Training

TARGETS = {"lunarlander": 0.85, "bipedalwalker": 0.85, "hopper": 0.85}


def step_only(name: str, max_steps: int, seed: int, begin: Any, requests: Any, answers: Any) -> None:
    """A process that steps an environment with random actions for as long as it is asked to."""
    task = find(name)
    with suppressed():
        env = make(task)
        actions = [env.action_space.sample() for _ in range(64)]
        env.reset(seed=seed)
        t = done = 0
        answers.put(0)
        while (seconds := requests.get()) > 0:
            begin.wait()
            steps, started = 0, time.perf_counter()
            while time.perf_counter() - started < seconds:
                _, _, terminated, truncated, _ = env.step(actions[steps % 64])
                steps, t = steps + 1, t + 1
                if terminated or truncated or t == max_steps:
                    if not task.resets_fully:
                        env.close()
                        env = make(task)
                    done += 1
                    env.reset(seed=seed + done)
                    t = 0
            answers.put(steps / (time.perf_counter() - started))


class Steppers:
    """N processes that only step."""

    def __init__(self, name: str, max_steps: int, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.requests, self.answers = context.Queue(), context.Queue()
        self.count, begin = count, context.Barrier(count)
        self.processes = [
            context.Process(target=step_only, args=(name, max_steps, 1000 * i, begin, self.requests, self.answers))
            for i in range(count)
        ]
        for p in self.processes:
            p.start()
        for _ in self.processes:
            self.answers.get()
        self.rates: list[float] = []

    def block(self, seconds: float) -> None:
        for _ in range(self.count):
            self.requests.put(seconds)
        self.rates.append(sum(self.answers.get() for _ in range(self.count)))

    def close(self) -> None:
        for _ in range(self.count):
            self.requests.put(0)
        for p in self.processes:
            p.join()


def measure(name: str, workers: int, pop_size: int, generations: tuple[int, int], max_seconds: float) -> dict[str, Any]:
    config = configure(name, engine="gymnasium", workers=workers, pop_size=pop_size, episodes=1, rule="hebb").config
    steps, seconds = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        trainer = Training(resolve(config), Path(folder))
        raw = Steppers(name, config.rollout.max_steps, workers)
        while trainer.outer.generation < generations[0]:
            trainer.advance()
        while trainer.outer.generation < generations[1] and seconds < max_seconds:
            raw.block(3.0)
            before = trainer.env_steps
            trainer.advance()
            steps += trainer.env_steps - before
            seconds += trainer.history.timing[-1].rollout_seconds
        raw.block(3.0)
        raw.close()
        trainer.engine.close()
        reached, mean = trainer.outer.generation, trainer.history[-1][7]
    ours, theirs = steps / seconds, float(np.mean(raw.rates))
    return {
        "task": name, "workers": workers, "generations": [generations[0], reached], "steps_per_second": round(ours),
        "raw_steps_per_second": round(theirs), "ratio": round(ours / theirs, 3), "target": TARGETS.get(name),
        "mean_episode_steps": round(mean, 1),
    }  # fmt: skip


def measure_ray(name: str, pop_size: int, repeats: int) -> dict[str, Any]:
    """The same population, played by two processes and by two nodes in turn."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    config = configure(name, engine="gymnasium", workers=2, pop_size=pop_size, episodes=1, rule="hebb").config
    with tempfile.TemporaryDirectory() as folder:
        trainer = Training(resolve(config), Path(folder))
        for _ in range(3):
            trainer.advance()
        ph, life = trainer.compile(trainer.outer.ask()), trainer.life
        rates: dict[str, list[float]] = {"processes": [], "ray": []}
        on = config.replace(executor="ray", ray_address=cluster.address).rollout
        engines = {"processes": trainer.engine, "ray": open_engine(trainer.task, on)}
        for repeat in range(repeats + 1):
            for where, engine in engines.items():
                started = time.perf_counter()
                result = engine.run(ph, life, Episodes(0, seeding.EPISODE, repeat, 1, True))
                if repeat:  # the first one starts things up
                    rates[where].append(result.env_steps / (time.perf_counter() - started))
        for engine in engines.values():
            engine.close()
    ray.shutdown()
    cluster.shutdown()
    mean = {where: float(np.mean(r)) for where, r in rates.items()}
    return {
        "task": name, "pop_size": pop_size, "nodes": 2, "repeats": repeats, "ray_steps_per_second": round(mean["ray"]),
        "process_steps_per_second": round(mean["processes"]), "ratio": round(mean["ray"] / mean["processes"], 3),
        "target": 0.9,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=list(TARGETS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pop-size", type=int, default=300)
    parser.add_argument("--generations", nargs=2, type=int, default=[3, 8])
    parser.add_argument("--max-seconds", type=float, default=60.0, help="rollout seconds per task")
    parser.add_argument("--ray-task", default="lunarlander")
    parser.add_argument("--ray-repeats", type=int, default=5)
    parser.add_argument("--no-ray", action="store_true")
    o = parser.parse_args()
    cases = []
    for name in o.tasks:
        cases.append(measure(name, o.workers, o.pop_size, tuple(o.generations), o.max_seconds))
        print(json.dumps(cases[-1]), file=sys.stderr, flush=True)
    ray = None if o.no_ray else measure_ray(o.ray_task, o.pop_size, o.ray_repeats)
    print(json.dumps({"benchmark": "executors", "pop_size": o.pop_size, "cases": cases, "ray": ray}, indent=1))


if __name__ == "__main__":
    main()
