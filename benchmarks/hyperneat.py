"""What decoding costs: P CPPNs painted onto a substrate of about 1,000 connections, beside a lander generation of P.

CPPNs are those of generation 20 under selection by noise, so that they have grown as in a run. Both sides alternate in
one process and one thread; a share is that of medians, of wall and of CPU time (which a busy machine changes less). The
generation is NEAT's own (direct encoding, three episodes each): with painted networks it takes longer (share_painted).

Run: python benchmarks/hyperneat.py [--genomes P] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

import numpy as np

from neol import seeding
from neol.neat.evolution import Neat
from neol.network.phenotype import compile_phenotypes
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes
from neol.substrate.encoding import Hyperneat, encoding_of
from neol.substrate.layout import substrate_of
from neol.training.configure import configure

TARGET = 0.05
GROWN = 20  # generations


def grown(config: Any, inputs: int, outputs: int, seed: int) -> Any:
    """A population after GROWN generations of fitness drawn at random."""
    neat, rng = Neat(config.evolution, inputs, outputs, seed), np.random.default_rng(seed)
    for _ in range(GROWN):
        neat.tell(rng.normal(size=config.neat.pop_size), None)
    return neat.ask()


def measure(genomes: int, rounds: int) -> dict[str, Any]:
    how = {"pop_size": genomes, "rule": "none"}
    painted = configure("lunarlander", encoding="hyperneat", substrate_hidden="10x10", **how)
    direct, task = configure("lunarlander", **how).config, painted.task
    encoding = encoding_of(painted.config, task, substrate_of(painted.config, task))
    assert isinstance(encoding, Hyperneat)
    cppns = grown(painted.config, encoding.inputs, encoding.outputs, 0)
    plain = Neat(direct.evolution, task.n_inputs, task.n_outputs, 0)
    life, engine = life_of(task, direct.plasticity), EnvPoolEngine(task, task.max_steps, threads=1)
    times: dict[str, list[float]] = {"decode": [], "generation": [], "generation painted": []}
    steps, cpu = 0, {name: list[float]() for name in times}
    for number in range(rounds + 1):
        started, cpu_started = time.perf_counter(), time.process_time()
        networks = encoding.compile(cppns)
        decoded, cpu_decoded = time.perf_counter(), time.process_time()
        which = Episodes(0, seeding.EPISODE, number, 3, True)
        result = engine.run(compile_phenotypes(plain.ask(), task.n_inputs, task.n_outputs), life, which)
        plain.tell(result.returns.mean(axis=1), None)
        generation, cpu_generation = time.perf_counter(), time.process_time()
        engine.run(networks, life, which)
        ended, cpu_ended = time.perf_counter(), time.process_time()
        if number:  # the first round warms up
            times["decode"].append(decoded - started)
            times["generation"].append(generation - decoded)
            times["generation painted"].append(ended - generation)
            cpu["decode"].append(cpu_decoded - cpu_started)
            cpu["generation"].append(cpu_generation - cpu_decoded)
            cpu["generation painted"].append(cpu_ended - cpu_generation)
            steps += result.env_steps
        print(f"round {number} of {rounds}", file=sys.stderr)
    engine.close()
    medians = {name: statistics.median(values) for name, values in times.items()}
    cpu_medians = {name: statistics.median(values) for name, values in cpu.items()}
    return {
        "genomes": genomes,
        "possible_connections": len(encoding.links.source),
        "connections": len(networks.weight) / genomes,
        "cppn_nodes": float(cppns.n_nodes.mean()),
        "cppn_connections": float(cppns.n_conns.mean()),
        "env_steps_per_generation": steps / rounds,
        "seconds": medians,
        "cpu_seconds": cpu_medians,
        "share": medians["decode"] / medians["generation"],
        "share_painted": medians["decode"] / medians["generation painted"],
        "cpu_share": cpu_medians["decode"] / cpu_medians["generation"],
        "target": TARGET,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--genomes", type=int, default=300, metavar="P")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    args = parser.parse_args()
    found = measure(args.genomes, args.rounds)
    print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0], **found}, indent=1))


if __name__ == "__main__":
    main()
