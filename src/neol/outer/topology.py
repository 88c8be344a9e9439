"""Where a search over weights begins: which nodes and connections there are, and the first mean."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np

from neol import seeding
from neol.config.checks import hidden_sizes
from neol.config.sections import NeatConfig
from neol.neat.genome import Genomes, first_population, numbered, take
from neol.neat.innovation import Innovations, ensure_capacity
from neol.outer.base import Problem
from neol.outer.growth import with_connection


def starting_topology(problem: Problem) -> tuple[Genomes, Innovations]:
    """The topology (P = 1) that the settings name, its weights and biases the first mean; and its innovations."""
    if problem.start is not None:
        return numbered(problem.start, problem.outputs)
    named, config = problem.config.es.topology, problem.config.neat
    sizes = hidden_sizes(named)
    if sizes:
        return layered(config, problem.inputs, problem.outputs, sizes, problem.seed)
    few = dataclasses.replace(config, pop_size=max(2, 2 * config.elitism, 2 * config.min_species_size))
    genomes, innovations = first_population(few, problem.inputs, problem.outputs, problem.seed)
    return at_zero(take(genomes, [0])), innovations


def at_zero(topology: Genomes) -> Genomes:
    """The same with all weights and biases 0."""
    return topology._replace(weight=np.zeros_like(topology.weight), bias=np.zeros_like(topology.bias))


def layered(
    config: NeatConfig, inputs: int, outputs: int, sizes: tuple[int, ...], seed: int
) -> tuple[Genomes, Innovations]:
    """Fully connected layers; weights drawn with variance 1 / fan-in, those to the outputs 0."""
    layers, first = [list(range(-1, -inputs - 1, -1))], outputs
    for size in sizes:
        layers.append(list(range(first, first + size)))
        first += size
    layers.append(list(range(outputs)))
    pairs = [(s, t) for a, b in pairwise(layers) for s in a for t in b]
    plain = dataclasses.replace(config, num_hidden=sum(sizes), initial_connection="unconnected")
    genomes, innovations = first_population(plain, inputs, outputs, seed)
    out = take(genomes, [0])
    out.bias[:] = 0.0
    innovations = ensure_capacity(innovations, len(pairs))
    fan_in = {t: len(a) for a, b in pairwise(layers) for t in b}
    rng = seeding.stream(seed, seeding.INITIAL, 0, 0, 3)
    for s, t in pairs:
        weight = 0.0 if t < outputs else seeding.normal(rng) / fan_in[t] ** 0.5
        out = with_connection(out, s, t, float(weight), innovations, config)
    return out, innovations
