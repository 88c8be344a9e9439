"""Speed with a change of the world over speed without: the layer between network and simulator, side by side.

The changes are of values that alter nothing (a gain of 1, noise of 0, a delay that no life has), so that both sides
play the very same episodes: what is measured is the layer alone. Rounds alternate, one thread, and a ratio is that of
the medians of env steps per second.

Run: python benchmarks/worlds.py [--tasks ...] [--rounds N] [--genomes P]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

from neol import seeding
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.envs.tasks import TASKS
from neol.neat.evolution import Neat
from neol.network.phenotype import compile_phenotypes
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes
from neol.rollout.world import world_of

TARGET = 0.95
WORLDS = {
    "none": [],
    "action gain": ["action gain=1"],
    "action noise": ["action noise=0"],
    "observation noise": ["observation noise=0"],
    "delays": ["action delay=3 p=0", "observation delay=3 p=0", "reward delay=3 p=0"],
    "four at once": ["action gain=1 from=10", "observation offset=0", "reward scale=1", "action stuck p=0"],
}


def measure(task_name: str, rounds: int, genomes: int) -> dict[str, Any]:
    task, rates = TASKS[task_name], {name: list[float]() for name in WORLDS}
    population = Neat(NeatConfig(pop_size=genomes), task.n_inputs, task.n_outputs, 0).ask()
    phenotypes = compile_phenotypes(population, task.n_inputs, task.n_outputs)
    plastic = PlasticityConfig(rule="hebb", lr=0.01)
    lives = {name: life_of(task, plastic, world=world_of(task, w, task.max_steps)) for name, w in WORLDS.items()}
    engines = {name: EnvPoolEngine(task, task.max_steps, threads=1) for name in WORLDS}  # each keeps its environments
    for number in range(rounds + 1):
        for name, life in lives.items():
            which = Episodes(0, seeding.EPISODE, number, 3, True)
            started = time.perf_counter()
            steps = engines[name].run(phenotypes, life, which).env_steps
            if number:  # the first round warms up
                rates[name].append(steps / (time.perf_counter() - started))
        print(f"{task_name}: round {number} of {rounds}", file=sys.stderr)
    for engine in engines.values():
        engine.close()
    medians = {name: statistics.median(r) for name, r in rates.items()}
    ratios = {name: medians[name] / medians["none"] for name in WORLDS if name != "none"}
    return {"steps_per_second": medians, "ratios": ratios, "least": min(ratios.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--genomes", type=int, default=100)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    tasks = {name: measure(name, args.rounds, args.genomes) for name in args.tasks}
    least = min(t["least"] for t in tasks.values())
    found = {"load_before": load, "target": TARGET, "least": least, "ok": least >= TARGET, "tasks": tasks}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
