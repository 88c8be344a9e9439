"""Evolution strategies beside EvoTorch on Gymnasium, what one would pick instead, with the same one: a JSON object.

CMA-ES with the same population, first step size, episodes per sample, linear network and normalised observations, on
one core and for the same wall time each; then the mean of either distribution plays 100 fresh episodes (NEOL's is its
champion: chosen among a dozen candidates on fresh episodes, which `selection_env_steps` counts). EvoTorch is no part of
NEOL's dependencies: `pip install evotorch`. The second part is the outer step alone: sampling and updating n numbers,
beside the wall time of the generation around it.

    taskset -c 0 python benchmarks/es.py > es.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

IDS = {"lunarlander": "LunarLanderContinuous-v3", "hopper": "Hopper-v4", "cartpole": "CartPole-v1"}
EPISODES = 100


def neol_side(task: str, seconds: float, samples: int, episodes: int, seed: int) -> dict[str, Any]:
    import neol

    settings = {"outer": "es", "es": "cma", "es_population": samples, "es_sigma": 0.5, "episodes": episodes,
                "fitness_offset": 0.0, "training_steps": 0, "threads": 1, "seed": seed, "generations": 10**6,
                "max_env_steps": 0, "progress": False, "rule": "none"}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        neol.train(task, out=f"{folder}/warm", **{**settings, "generations": 1})  # compile, once on a machine
        started = time.monotonic()
        run = neol.train(task, out=f"{folder}/run", callback=lambda g: time.monotonic() - started > seconds, **settings)
        spent = run.timing["wall_seconds"][-1] if hasattr(run, "timing") else seconds
        s = run.summary
        return {"env_steps": s.env_steps, "seconds": round(float(spent), 2), "generations": s.generations,
                "env_steps_per_second": round(s.steps_per_second), "held_out_return": round(s.champion_return_mean, 1),
                "selection_env_steps": s.selection_env_steps}  # fmt: skip


def evotorch_side(task: str, seconds: float, samples: int, episodes: int, seed: int) -> dict[str, Any]:
    import logging

    logging.disable(logging.INFO)
    import gymnasium
    import torch
    from evotorch.algorithms import CMAES
    from evotorch.neuroevolution import GymNE

    torch.set_num_threads(1)
    problem = GymNE(IDS[task], "Linear(obs_length, act_length)", observation_normalization=True, num_episodes=episodes,
                    initial_bounds=(-1e-6, 1e-6))  # fmt: skip
    problem.manual_seed(seed)
    searcher = CMAES(problem, stdev_init=0.5, popsize=samples)
    started, generations = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        searcher.step()
        generations += 1
    spent = time.monotonic() - started
    steps = int(searcher.status["total_interaction_count"])
    policy = problem.to_policy(torch.as_tensor(np.asarray(searcher.status["center"])))
    env, returns = gymnasium.make(IDS[task]), []
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=10_000 + episode)
        total, over = 0.0, False
        while not over:
            with torch.no_grad():
                out = policy(torch.as_tensor(observation, dtype=torch.float32)).numpy()
            discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
            action = int(np.argmax(out)) if discrete else np.clip(out, env.action_space.low, env.action_space.high)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return {"env_steps": steps, "seconds": round(spent, 2), "generations": generations,
            "env_steps_per_second": round(steps / spent), "held_out_return": round(float(np.mean(returns)), 1),
            "episodes_played": EPISODES}  # fmt: skip


def outer_step(numbers: int, kind: str, samples: int, generations: int = 30) -> float:
    """Milliseconds that one generation of a strategy takes on its own: sampling, updating, its metrics."""
    from neol.outer.strategy import Knobs, Strategy

    strategy = Strategy(Knobs(kind, samples, 0.5, 0.01, samples // 4), np.zeros(numbers), np.ones(numbers))
    rng = np.random.default_rng(0)
    for generation in range(generations + 3):
        if generation == 3:
            started = time.process_time()
        found = strategy.ask(samples, 0, generation, 0)
        strategy = strategy.told(found, rng.standard_normal(samples), np.full(numbers, np.inf))
        strategy.metrics()
    return round(1000 * (time.process_time() - started) / generations, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["lunarlander"], choices=IDS)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", choices=["neol", "evotorch"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:  # a process of its own for each side
        play = neol_side if args.side == "neol" else evotorch_side
        print(json.dumps(play(args.tasks[0], args.seconds, args.samples, args.episodes, args.seed)))
        return
    out: dict[str, Any] = {"what": "CMA-ES on a linear network, one core: NEOL beside EvoTorch on Gymnasium",
                           "samples": args.samples, "episodes": args.episodes, "tasks": {}}  # fmt: skip
    for task in args.tasks:
        sides = {}
        for side in ("neol", "evotorch"):
            how = [f"--{name}={getattr(args, name)}" for name in ("seconds", "samples", "episodes", "seed")]
            command = [sys.executable, __file__, "--side", side, "--tasks", task, *how]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            sides[side] = json.loads(done.stdout.strip().splitlines()[-1])
        faster = sides["neol"]["env_steps_per_second"] / sides["evotorch"]["env_steps_per_second"]
        out["tasks"][task] = {**sides, "times_as_many_steps_per_second": round(faster, 2)}
    cases = [("cma", 18), ("cma", 100), ("cma", 300), ("sep-cma", 300), ("sep-cma", 3000), ("ars", 300)]
    out["outer_step_ms"] = {f"{kind}, {n} numbers": outer_step(n, kind, 24) for kind, n in cases}
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
