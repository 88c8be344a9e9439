"""Time of one generation of the outer loop (reproduce + speciate + compile) beside neat-python's, as one JSON object.

Both grow from the same settings (the authors', BipedalWalker: 24 inputs, 4 outputs) for some generations under random
fitness, then several generations are timed. Nothing is evaluated. Run it with

    taskset -c 0 python benchmarks/outer.py > outer.json

Times are the mean over the timed generations: `ms` by the clock on the wall, `cpu_ms` by the processor (which other
jobs on the machine disturb less; the ratios are of these). The compatibility threshold is raised for both where
neat-python stops because it has more species than its elites leave room for.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import neat
import numpy as np

from neol.config.schema import Config
from neol.envs.registry import find
from neol.neat.evolution import Neat
from neol.network.phenotype import compile_phenotypes
from neol.training.configure import configure

TASK = find("bipedalwalker")
THRESHOLDS = (3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0)
# neat-python's sections, by the keys that ours has too.
SECTIONS = {
    "DefaultSpeciesSet": ("compatibility_threshold",),
    "DefaultStagnation": ("species_fitness_func", "max_stagnation", "species_elitism"),
    "DefaultReproduction": ("elitism", "survival_threshold", "min_species_size"),
}
GENOME = (
    "num_hidden", "feed_forward", "initial_connection", "compatibility_disjoint_coefficient",
    "compatibility_weight_coefficient", "conn_add_prob", "conn_delete_prob", "node_add_prob", "node_delete_prob",
    "single_structural_mutation", "structural_mutation_surer", "activation_default", "activation_mutate_rate",
    "aggregation_default", "aggregation_mutate_rate", "enabled_default", "enabled_mutate_rate",
    "enabled_rate_to_true_add", "enabled_rate_to_false_add",
    *(f"{gene}_{item}" for gene in ("weight", "bias", "response")
      for item in ("init_mean", "init_stdev", "init_type", "mutate_rate", "mutate_power", "replace_rate", "min_value",
                   "max_value")),
)  # fmt: skip


def settings(size: int, threshold: float) -> Config:
    return configure(TASK.name, preset="paper", rule="none", pop_size=size, compatibility_threshold=threshold).config


def neat_python_config(config: Config) -> Any:
    """The same settings as neat-python reads them."""
    flat = config.flat()
    tables = {
        "NEAT": {"pop_size": flat["pop_size"], "fitness_criterion": "max", "fitness_threshold": 1e9,
                 "reset_on_extinction": True, "no_fitness_termination": True},
        "DefaultGenome": {"num_inputs": TASK.n_inputs, "num_outputs": TASK.n_outputs, **{k: flat[k] for k in GENOME},
                          **{f"{k}_options": " ".join(flat[f"{k}_options"]) for k in ("activation", "aggregation")}},
        **{section: {k: flat[k] for k in keys} for section, keys in SECTIONS.items()},
    }  # fmt: skip
    text = "\n".join(f"[{s}]\n" + "\n".join(f"{k} = {v}" for k, v in t.items()) for s, t in tables.items())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "neat.ini"
        path.write_text(text, encoding="utf-8")
        kinds = (neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet, neat.DefaultStagnation)
        return neat.Config(*kinds, str(path))


class Clock:
    """Adds up wall and processor time by name."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu
        self.wall[name] = self.wall.get(name, 0.0) + time.perf_counter() - wall
        return result

    def report(self, repeats: int) -> dict[str, Any]:
        def ms(seconds: float) -> float:
            return round(1000 * seconds / repeats, 3)

        parts = {name: ms(t) for name, t in self.cpu.items()}
        return {"ms": ms(sum(self.wall.values())), "cpu_ms": ms(sum(self.cpu.values())), "cpu_ms_by_part": parts}


def neol(config: Config, generations: int, repeats: int) -> dict[str, Any]:
    rng, started = np.random.default_rng(0), time.perf_counter()
    outer, clock = Neat(config.neat, TASK.n_inputs, TASK.n_outputs, 0), Clock()
    for _ in range(generations):
        outer.tell(rng.normal(size=config.neat.pop_size))
    grown = time.perf_counter() - started
    for _ in range(repeats):
        fitness = rng.normal(size=config.neat.pop_size)
        clock.run("reproduce and speciate", lambda f=fitness: outer.tell(f))
        clock.run("compile", lambda: compile_phenotypes(outer.ask(), TASK.n_inputs, TASK.n_outputs))
    g = outer.ask()
    shape = (g.n_nodes.mean(), g.n_conns.mean(), g.enabled.sum(axis=1).mean(), len(outer.species.id))
    return clock.report(repeats) | sizes(*shape, grown)


def neat_python(config: Config, generations: int, repeats: int) -> dict[str, Any]:
    started, their = time.perf_counter(), neat_python_config(config)
    population, clock = neat.Population(their, seed=0), Clock()

    def generation(clock: Clock) -> None:
        for genome in population.population.values():
            genome.fitness = random.gauss(0.0, 1.0)
        reproduce = population.reproduction.reproduce
        arguments = (their, population.species, their.pop_size, population.generation)
        population.population = clock.run("reproduce", lambda: reproduce(*arguments))
        if not population.species.species:
            raise RuntimeError("all species died out")
        clock.run("speciate", lambda: population.species.speciate(their, population.population, population.generation))
        population.generation += 1

    for _ in range(generations):
        generation(Clock())
    grown = time.perf_counter() - started
    create = neat.nn.FeedForwardNetwork.create
    for _ in range(repeats):
        generation(clock)
        clock.run("compile", lambda: [create(genome, their) for genome in population.population.values()])
    genomes = list(population.population.values())
    enabled = np.mean([sum(c.enabled for c in genome.connections.values()) for genome in genomes])
    shape = (np.mean([len(g.nodes) for g in genomes]), np.mean([len(g.connections) for g in genomes]), enabled)
    return clock.report(repeats) | sizes(*shape, len(population.species.species), grown)


def sizes(nodes: float, conns: float, enabled: float, species: int, grown: float) -> dict[str, Any]:
    means = {"mean_nodes": nodes, "mean_connections": conns, "mean_enabled_connections": enabled}
    return {k: round(float(v), 2) for k, v in means.items()} | {"species": species, "growth_seconds": round(grown, 2)}


def compare(size: int, generations: int, repeats: int, with_neat_python: bool) -> dict[str, Any]:
    """One population size; the lowest threshold under which neat-python has room for every species' elites."""
    stopped: list[str] = []
    for threshold in THRESHOLDS:
        config = settings(size, threshold)
        result: dict[str, Any] = {"pop_size": size, "compatibility_threshold": threshold}
        try:
            if with_neat_python:
                print(f"neat-python, {size} genomes, threshold {threshold} ...", file=sys.stderr)
                result["neat_python"] = neat_python(config, generations, repeats)
        except RuntimeError as e:
            stopped.append(f"threshold {threshold}: {e}")
            continue
        result["neol"] = neol(config, generations, repeats)
        if with_neat_python:
            result["speedup"] = round(result["neat_python"]["cpu_ms"] / result["neol"]["cpu_ms"], 1)
        return result | ({"neat_python_stopped_at": stopped} if stopped else {})
    raise SystemExit(f"neat-python stopped at every threshold: {stopped}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 1000, 10_000], help="population sizes")
    parser.add_argument("--generations", type=int, default=30, help="generations of growth before the timed ones")
    parser.add_argument("--repeats", type=int, default=5, help="timed generations")
    parser.add_argument("--neat-python-up-to", type=int, default=1000, help="largest population given to neat-python")
    args = parser.parse_args()
    neol(settings(40, 3.0), 2, 1)  # compiles the kernels
    runs = [compare(n, args.generations, args.repeats, n <= args.neat_python_up_to) for n in args.sizes]
    times = {run["pop_size"]: run["neol"]["cpu_ms"] for run in runs}
    out: dict[str, Any] = {
        "benchmark": "outer loop: reproduce + speciate + compile, ms per generation",
        "inputs": TASK.n_inputs,
        "outputs": TASK.n_outputs,
        "generations": args.generations,
        "repeats": args.repeats,
        "machine": {"processor": platform.machine(), "python": platform.python_version()},
        "runs": runs,
    }
    if {1000, 10_000} <= times.keys():
        out["neol_10000_over_1000"] = round(times[10_000] / times[1000], 2)
    print(json.dumps(out, indent=2))


if __name__ == "__main__":
    main()
