"""Against what one would pick instead: neat-python + Gymnasium, the plain documented way, and NEOL, each on one core.

Static networks, the authors' NEAT settings on both sides (our preset `paper`, written out as neat-python's file), one
episode per genome, the same task, P, G and seeds. Env steps over the wall time of the whole evolution: rollouts,
speciation and reproduction. Imports and (ours) loading compiled kernels from the cache are done before; ours creates
its environments within, theirs once before. Each run is a process of its own, pinned to the same core; the two take
turns. One JSON object on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def neat_file(config: Any, inputs: int, outputs: int) -> str:
    """Our configuration as a neat-python file."""
    from neol.config.neat_python import SECTIONS

    ours = config.flat() | {
        "num_inputs": inputs, "num_outputs": outputs, "fitness_criterion": "max", "fitness_threshold": "inf",
        "no_fitness_termination": True,
    }  # fmt: skip
    lines = []
    for section, keys in SECTIONS.items():
        lines.append(f"[{section}]")
        for key, default in keys.items():
            value = ours.get(key, default)
            lines.append(f"{key} = {' '.join(value) if isinstance(value, tuple) else value}")
    return "\n".join(lines) + "\n"


def run_theirs(task_name: str, pop: int, generations: int, seed: int, max_seconds: float) -> dict[str, Any]:
    import gymnasium
    import neat
    import numpy as np

    from neol.envs.registry import find
    from neol.training.configure import configure

    task = find(task_name)
    config = configure(task_name, preset="paper", rule="none", pop_size=pop, generations=generations, seed=seed).config
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "neat.ini"
        path.write_text(neat_file(config, task.n_inputs, task.n_outputs))
        neat_config = neat.Config(
            neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet, neat.DefaultStagnation, str(path)
        )
    warnings.simplefilter("ignore")  # Hopper-v4 is deprecated
    env = gymnasium.make(task.id, max_episode_steps=task.max_steps)
    env.reset(seed=seed)
    discrete = not task.action_shape
    low, high = (None, None) if discrete else (env.action_space.low, env.action_space.high)
    steps = episodes = done_generations = 0
    rollout_seconds = 0.0

    class Enough(Exception):
        pass

    def eval_genomes(genomes: Any, config: Any) -> None:
        nonlocal steps, episodes, done_generations, rollout_seconds
        before = time.perf_counter()
        for _, genome in genomes:
            net = neat.nn.FeedForwardNetwork.create(genome, config)
            observation, _ = env.reset(seed=1_000_000 * seed + episodes)
            total, over = 0.0, False
            while not over:
                output = net.activate(observation)
                action = int(np.argmax(output)) if discrete else np.clip(np.tanh(output), low, high)
                observation, reward, terminated, truncated, _ = env.step(action)
                total += float(reward)
                steps += 1
                over = terminated or truncated
            genome.fitness = total
            episodes += 1
        rollout_seconds += time.perf_counter() - before
        done_generations += 1
        if 0 < max_seconds < time.perf_counter() - started:
            raise Enough

    started, cpu = time.perf_counter(), time.process_time()
    stopped = ""
    try:
        neat.Population(neat_config, seed=seed).run(eval_genomes, generations)
    except Enough:
        stopped = "max-seconds"
    except (RuntimeError, neat.CompleteExtinctionException) as e:
        stopped = f"{type(e).__name__}: {e}"
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {
        "env_steps": steps, "seconds": seconds, "processor_seconds": cpu, "rollout_seconds": rollout_seconds,
        "generations": done_generations, "stopped": stopped,
    }  # fmt: skip


def run_ours(task_name: str, pop: int, generations: int, seed: int, max_seconds: float) -> dict[str, Any]:
    from neol.training.configure import configure
    from neol.training.loop import Training

    config = configure(
        task_name, preset="paper", rule="none", pop_size=pop, generations=generations, seed=seed, threads=1
    ).config
    with tempfile.TemporaryDirectory() as folder:
        warm = Training(config.replace(pop_size=2 * config.neat.elitism, max_steps=5), Path(folder))
        for _ in range(2):
            warm.generation()
        warm.engine.close()
        started, cpu = time.perf_counter(), time.process_time()
        trainer = Training(config, Path(folder))
        for _ in range(generations):
            trainer.generation()
        trainer.engine.close()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {
        "env_steps": trainer.env_steps, "seconds": seconds, "processor_seconds": cpu,
        "rollout_seconds": sum(row[2] for row in trainer.timing), "generations": len(trainer.history), "stopped": "",
    }  # fmt: skip


RUNS = {"theirs": run_theirs, "ours": run_ours}


def child(side: str, task: str, generations: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run in a process of its own, on one core."""
    settings = json.dumps([side, task, options.pop, generations, seed, options.max_seconds])
    done = subprocess.run(
        [sys.executable, __file__, "--child", settings], stdout=subprocess.PIPE, text=True, check=True
    )
    out = json.loads(done.stdout.splitlines()[-1])
    say(
        f"{task} seed {seed} {side}: {out['env_steps'] / out['seconds']:,.0f} steps/s "
        f"({out['env_steps']:,} steps, {out['generations']} generations) {out['stopped']}"
    )
    return out


def together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs of one side."""
    total = {k: sum(r[k] for r in runs) for k in ("env_steps", "seconds", "processor_seconds", "rollout_seconds")}
    generations = [r["generations"] for r in runs]
    return {
        "steps_per_second": round(total["env_steps"] / total["seconds"], 1),
        "steps_per_processor_second": round(total["env_steps"] / total["processor_seconds"], 1),
        "steps_per_rollout_second": round(total["env_steps"] / total["rollout_seconds"], 1),
        "seconds_per_generation": round(total["seconds"] / sum(generations), 4),
        "env_steps": total["env_steps"],
        "generations": generations,
        "stopped": [r["stopped"] for r in runs],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["cartpole", "lunarlander", "hopper", "bipedalwalker"]
    parser.add_argument("--tasks", nargs="+", default=names, choices=names)
    parser.add_argument("--pop", type=int, default=150, help="P; neat-python wants 10 genomes for each of its species")
    parser.add_argument("--generations", type=int, default=5, help="G")
    parser.add_argument("--seeds", type=int, default=2, help="seeds 0 to this less 1")
    parser.add_argument(
        "--max-seconds", type=float, default=30.0, help="neat-python stops after the generation that reaches this, and "
        "ours after as many generations; 0 = never"
    )  # fmt: skip
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if options.child:
        os.sched_setaffinity(0, {cores[-1]})
        side, *settings = json.loads(options.child)
        print(json.dumps(RUNS[side](*settings)))
        return
    from neol.training.run_folder import versions

    started, load = time.monotonic(), os.getloadavg()
    results = []
    child("ours", options.tasks[0], 1, 0, argparse.Namespace(**vars(options) | {"pop": 20}))  # fills the kernel cache
    for task in options.tasks:
        theirs, ours = [], []
        for seed in range(options.seeds):
            theirs.append(child("theirs", task, options.generations, seed, options))
            ours.append(child("ours", task, theirs[-1]["generations"], seed, options))
        them, us = together(theirs), together(ours)
        ratio = us["steps_per_second"] / them["steps_per_second"]
        by_cpu = us["steps_per_processor_second"] / them["steps_per_processor_second"]
        results.append(
            {"task": task, "ratio": round(ratio, 2), "ratio_by_processor_time": round(by_cpu, 2), "neol": us,
             "neat_python_gymnasium": them}
        )  # fmt: skip
        say(f"{task}: {ratio:.1f} times")
    result = {
        "benchmark": "peers",
        "what": "env steps/s of whole evolutions on one core: NEOL / (neat-python + Gymnasium)",
        "pop_size": options.pop,
        "generations": options.generations,
        "seeds": options.seeds,
        "cores_used": 1,
        "load_before": load,
        "seconds": round(time.monotonic() - started, 1),
        "versions": versions() | _peer_versions(),
        "tasks": results,
    }
    print(json.dumps(result, indent=1))


def _peer_versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("neat-python", "mujoco", "Box2D")}


if __name__ == "__main__":
    main()
