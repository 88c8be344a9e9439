"""Speed of the inner loop: rollouts of a real training run against EnvPool's raw stepping, side by side.

For each task, rule and number of threads: env steps per second of the rollouts of generations START to STOP (shared
between the numbers of threads; pool creation, window refill and the tail of each generation included), divided by raw
stepping of as many environments with random actions and as many threads, on EnvPool's fastest synchronous path. Raw
blocks stand between the generations, so that the machine's noise hits both. Random actions end episodes sooner;
EnvPool's auto-resets count as raw steps.

`costs` (one thread): shares of a generation that makes its pool (hopper makes one in 16 generations); and what the
ratio is made of, three factors over three more generations:
 batch_ratio   random actions in training's batches (window, tail; on one core, like a lane) / all 300 at once
 action_ratio  the same environments reset and stepped once more with training's very actions in its batches / random
               actions in them: what a population's behaviour costs the simulator, nothing of ours
 own_ratio     training / the same actions without us: kernels, Python, pool creation where a generation makes its pool

Run: python benchmarks/engine.py [--tasks ...] [--rules ...] [--threads ...] [--generations START STOP]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from neol.config.schema import Config
from neol.envs.tasks import Task
from neol.rollout import envpool_player as envpool_engine
from neol.rollout.core_pinning import free_cores, pinned_to
from neol.training.configure import configure, resolve
from neol.training.loop import Training

TARGETS = {  # (one thread, two threads)
    "cartpole": (0.6, 0.5), "lunarlander": (0.9, 0.85), "hopper": (0.9, 0.85), "bipedalwalker": (0.95, 0.9),
}  # fmt: skip

MAKE_POOL = envpool_engine.make_envpool


class Raw:
    """A pool that is stepped with random actions."""

    def __init__(self, task: Task, envs: int, max_steps: int, threads: int) -> None:
        import envpool

        self.task, self.envs, self.max_steps = task, envs, max_steps
        self.pool: Any = envpool.make(
            task.id, env_type="gymnasium", num_envs=envs, seed=list(range(envs)), num_threads=threads,
            max_episode_steps=max_steps,
        )  # fmt: skip
        self.ids = np.arange(envs, dtype=np.int32)
        rng = np.random.default_rng(0)
        dtype = self.pool.spec.action_array_spec["action"].dtype
        if not task.action_shape:
            self.actions = rng.integers(0, task.n_outputs, (64, envs)).astype(dtype)
        else:
            self.actions = rng.uniform(-1, 1, (64, envs, task.n_outputs)).astype(dtype)
        self.pool._reset(self.ids)
        self.pool._recv()
        self.steps, self.seconds, self.calls = 0, 0.0, 0

    def step(self, envs: int) -> None:
        """The first so many environments."""
        ids = self.ids[:envs]
        self.pool._send([ids, ids, self.actions[self.calls % 64, :envs]])
        self.pool._recv()
        self.calls += 1

    def block(self, seconds: float) -> tuple[int, float]:
        """All at once, for so long: steps and seconds."""
        started, steps = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            self.step(self.envs)
            steps += self.envs
        took = time.perf_counter() - started
        self.steps, self.seconds = self.steps + steps, self.seconds + took
        return steps, took

    def batches(self, sizes: list[int]) -> tuple[int, float]:
        """Batches of these sizes: steps and seconds."""
        started = time.perf_counter()
        for size in sizes:
            self.step(size)
        return sum(sizes), time.perf_counter() - started


class Costs:
    """Seconds in pool creation, kernels and calls with few episodes, by wrapping what rollout.py calls."""

    def __init__(self) -> None:
        self.creation = self.kernel = self.tail = 0.0
        self.calls = self.tail_calls = 0
        self._make, self._advance, self._last = envpool_engine.make_envpool, envpool_engine.advance, 0.0

    def __enter__(self) -> Costs:
        envpool_engine.make_envpool, envpool_engine.advance = self.make_envpool, self.advance
        return self

    def __exit__(self, *_: object) -> None:
        envpool_engine.make_envpool, envpool_engine.advance = self._make, self._advance

    def make_envpool(self, *arguments: Any) -> Any:
        started = time.perf_counter()
        pool = self._make(*arguments)
        self._last = time.perf_counter()
        self.creation += self._last - started
        return pool

    def advance(self, context: Any, env_id: Any, *arguments: Any) -> int:
        started = time.perf_counter()
        active = self._advance(context, env_id, *arguments)
        now = time.perf_counter()
        self.kernel += now - started
        self.calls += 1
        if len(env_id) < 16:
            self.tail += now - self._last
            self.tail_calls += 1
        self._last = now
        return active


class Recorder:
    """A pool that keeps what it is sent."""

    def __init__(self, task: Task, seeds: np.ndarray, max_steps: int) -> None:
        self._envpool = MAKE_POOL(task, seeds, max_steps)
        self.arguments, self.envs, self.resets = (task, seeds, max_steps), len(seeds), 0
        self.reward = envpool_engine.field(self._envpool, "reward")
        self.sent: list[list[np.ndarray]] = []
        self.rewards: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._envpool, name)

    def _reset(self, ids: np.ndarray) -> None:
        self.sent, self.rewards, self.resets = [], [], self.resets + 1
        self._envpool._reset(ids)

    def _send(self, batch: list[np.ndarray]) -> None:
        self.sent.append([a.copy() for a in batch])
        self._envpool._send(batch)

    def _recv(self) -> Any:
        state = self._envpool._recv()
        self.rewards.append(float(state[self.reward].sum()))
        return state

    def replay(self) -> float:
        """Seconds of the same reset and the same batches in the same environments, without us."""
        pool = MAKE_POOL(*self.arguments)
        for _ in range(self.resets):  # the last is the one that this generation began with
            started = time.perf_counter()
            pool._reset(np.arange(self.envs, dtype=np.int32))
            pool._recv()
        states = []
        for batch in self.sent:
            pool._send(batch)
            states.append(pool._recv()[self.reward])
        seconds = time.perf_counter() - started
        pool.close()
        if [float(rewards.sum()) for rewards in states] != self.rewards[1:]:
            raise SystemExit("the replay is not the same episodes")
        return seconds


def split(trainer: Training, raw: Raw, generations: int = 3) -> dict[str, Any]:
    """The factors of the ratio, generation by generation (one thread; all but the first side tied to a core)."""
    pools: list[Recorder] = []
    trainer.engine.close()
    envpool_engine.make_envpool = lambda *a: pools.append(Recorder(*a)) or pools[-1]  # type: ignore[func-returns-value]
    wide, batches, again, ours = np.zeros((4, 2))  # steps, seconds
    try:
        trainer.advance()  # makes the pool, which a reusable one's later generations do without
        for _ in range(generations):
            wide += raw.block(1.0)
            steps, made = trainer.history.env_steps, len(pools)
            trainer.advance()
            steps = trainer.history.env_steps - steps
            ours += steps, trainer.history.timing[-1].rollout_seconds
            with pinned_to(next(iter(free_cores(1)), None)):
                fresh = Raw(raw.task, raw.envs, raw.max_steps, 1)
                for pool in pools[made:] or pools[-1:]:
                    again += sum(len(ids) for ids, _, _ in pool.sent), pool.replay()
                    batches += fresh.batches([len(ids) for ids, _, _ in pool.sent])
                fresh.pool.close()
    finally:
        envpool_engine.make_envpool = MAKE_POOL
    speed = [steps / seconds for steps, seconds in (wide, batches, again, ours)]
    names = ("batch_ratio", "action_ratio", "own_ratio")
    return {name: round(b / a, 3) for name, a, b in zip(names, speed, speed[1:], strict=False)}


def measure(trainer: Training, raw: Raw, last: int, max_seconds: float) -> dict[str, Any]:
    """Raw blocks and generations in turn."""
    steps, seconds, first = 0, 0.0, trainer.outer.generation
    while trainer.outer.generation < last and (seconds < max_seconds or not max_seconds):
        raw.block(1.0)
        before = trainer.history.env_steps
        trainer.advance()
        steps += trainer.history.env_steps - before
        seconds += trainer.history.timing[-1].rollout_seconds
    raw.block(1.0)
    timing = trainer.history.timing[-3:]
    rollouts = sum(r.rollout_seconds for r in timing)
    ours, theirs = steps / seconds, raw.steps / raw.seconds
    result = {
        "generations": [first, trainer.outer.generation],
        "steps_per_second": round(ours),
        "raw_steps_per_second": round(theirs),
        "ratio": round(ours / theirs, 3),
        "mean_episode_steps": round(trainer.history.rows[-1].mean_steps, 1),
        "outer_loop_share": round(1.0 - rollouts / (rollouts + sum(r.outer_seconds for r in timing)), 4),
    }
    return result


def breakdown(trainer: Training) -> dict[str, Any]:
    """Where the time of one more generation goes (one thread: lanes would overlap)."""
    with Costs() as costs:
        trainer.advance()
    seconds = trainer.history.timing[-1].rollout_seconds
    return {
        "pool_creation_share": round(costs.creation / seconds, 4),
        "kernel_share": round(costs.kernel / seconds, 4),
        "tail_share": round(costs.tail / seconds, 4),
        "calls": costs.calls,
        "tail_calls": costs.tail_calls,
    }


def measure_all(config: Config, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One evolution; the numbers of threads share its generations START to STOP, and the costs are those after it."""
    start, stop = options.generations
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Training(resolve(config), Path(folder))

        def fresh(threads: int) -> Raw:
            trainer.engine.close()
            trainer.engine = envpool_engine.EnvPoolEngine(trainer.task, config.rollout.max_steps, threads)
            return Raw(trainer.task, config.neat.pop_size, config.rollout.max_steps, threads)

        while trainer.outer.generation < start:
            trainer.advance()
        for place, threads in enumerate(options.threads, 1):
            last = start + (stop - start) * place // len(options.threads)
            raw = fresh(threads)
            if trainer.task.reusable:
                trainer.advance()  # makes the pool that would have been there; generation 32 makes another
            cases.append({"threads": threads, **measure(trainer, raw, last, options.max_seconds)})
        raw = fresh(1)
        cases[0]["costs"] = {**breakdown(trainer), **split(trainer, raw)}
        trainer.engine.close()
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TARGETS))
    parser.add_argument("--rules", nargs="+", default=["none", "bcm"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--generations", nargs=2, type=int, default=[20, 40])
    parser.add_argument("--pop-size", type=int, default=300)
    parser.add_argument("--max-seconds", type=float, default=0.0, help="rollout seconds per case; 0 = all generations")
    options = parser.parse_args()
    cases = []
    for task in options.tasks:
        for rule in options.rules:
            for case in measure_all(configure(task, rule=rule, pop_size=options.pop_size, episodes=1).config, options):
                cases.append({"task": task, "rule": rule, **case, "target": TARGETS[task][min(case["threads"], 2) - 1]})
                print(json.dumps(cases[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "engine", "pop_size": options.pop_size, "cases": cases}, indent=1))


if __name__ == "__main__":
    main()
