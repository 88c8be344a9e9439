"""Where a search over weights begins: which nodes and connections there are, and the first mean."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np

from neol import seeding
from neol.config.checks import hidden_sizes
from neol.config.schema import Evolution
from neol.errors import NeolError
from neol.neat.genes import CONNECTION, NODE, RULE, genes_of
from neol.neat.genome import Genomes, first_population, numbered, take
from neol.neat.innovation import Innovations, ensure_capacity
from neol.neat.pointers import first_stream
from neol.outer.base import Problem
from neol.outer.growth import UNIT, grown, usual, with_connection

MOST_CONNECTIONS = 50_000  # of layers


def starting_topology(problem: Problem) -> tuple[Genomes, Innovations]:
    """The topology (P = 1) that the settings name, its weights and biases the first mean; and its innovations."""
    named, config = problem.config.es.topology, problem.config.evolution
    if problem.start is not None:
        genome, innovations = numbered(problem.start, problem.outputs)
        if named == "start":
            genome = with_first_weights(genome, config, problem.outputs, problem.seed)
        return genome, innovations
    sizes = hidden_sizes(named)
    if sizes:
        return layered(config, problem.inputs, problem.outputs, sizes, problem.seed)
    few = dataclasses.replace(config, pop_size=max(2, 2 * config.elitism, 2 * config.min_species_size))
    genomes, innovations = first_population(few, problem.inputs, problem.outputs, problem.seed)
    return with_first_weights(take(genomes, [0]), config, problem.outputs, problem.seed), innovations


def with_first_weights(genome: Genomes, config: Evolution, outputs: int, seed: int) -> Genomes:
    """The first mean of a topology: biases 0, weights of variance 1 / fan-in, those to the outputs 0; no plasticity."""
    out = take(genome, [0])
    out.bias[:] = 0.0
    for of, count in ((RULE, None), (NODE, out.n_nodes[0]), (CONNECTION, out.n_conns[0])):
        for gene in genes_of(of):
            if gene.switch and gene.searchable and gene.on(config):
                getattr(out, gene.name)[0, :count] = usual(gene.name, config)
    targets = out.target[0, : out.n_conns[0]].tolist()
    rng = seeding.stream(seed, seeding.INITIAL, 0, 0, 3)
    for c, target in enumerate(targets):
        out.weight[0, c] = 0.0 if target < outputs else seeding.normal(rng) / targets.count(target) ** 0.5
    return out


def wider(
    topology: Genomes, units: int, innovations: Innovations, problem: Problem, rng: np.ndarray
) -> tuple[Genomes, Innovations]:
    """A topology with so many hidden nodes more, each of which reads all inputs and leads to all outputs (weight 0)."""
    for _ in range(units):
        found = grown(topology, UNIT, innovations, problem.config.evolution, problem.inputs, problem.outputs, rng)
        assert found is not None  # there is always a place for a unit
        topology, innovations = found
    return topology, innovations


def layered(
    config: Evolution, inputs: int, outputs: int, sizes: tuple[int, ...], seed: int
) -> tuple[Genomes, Innovations]:
    """Fully connected layers."""
    count = sum(a * b for a, b in pairwise((inputs, *sizes, outputs)))
    if count > MOST_CONNECTIONS:
        raise NeolError(
            f"topology = '{','.join(map(str, sizes))}' is not allowed; it has {count:,} connections, and must have at "
            f"most {MOST_CONNECTIONS:,}."
        )
    layers, first = [list(range(-1, -inputs - 1, -1))], outputs
    for size in sizes:
        layers.append(list(range(first, first + size)))
        first += size
    layers.append(list(range(outputs)))
    pairs = [(s, t) for a, b in pairwise(layers) for s in a for t in b]
    plain = dataclasses.replace(config, num_hidden=sum(sizes), initial_connection="unconnected")
    genomes, innovations = first_population(plain, inputs, outputs, seed)
    out = take(genomes, [0])
    innovations = ensure_capacity(innovations, len(pairs))
    rng = first_stream(seed)
    for s, t in pairs:
        out = with_connection(out, s, t, 0.0, innovations, config, rng)
    return with_first_weights(out, config, outputs, seed), innovations
