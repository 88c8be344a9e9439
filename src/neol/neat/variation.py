"""How children differ from their parents: crossover, structural mutation, mutation of values.

All of it acts on places of `Genomes` (see there for the layout). Connection genes stay sorted by innovation number and
node genes by id, so that two genomes align in one pass. Every child has a random stream of its own.
Legend: P genomes, N node places, C connection places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neol import seeding
from neol.config.sections import MOST_RULES, NeatConfig
from neol.jit import bare, kernel
from neol.neat.gene_kernels import (
    clear_conn,
    clear_node,
    copy_conn,
    copy_conn_numbers,
    copy_genome_genes,
    copy_node,
    copy_node_numbers,
    copy_rest_of_conn,
    copy_rest_of_node,
    copy_rules,
    cross_conn_genes,
    cross_genome_genes,
    cross_node_genes,
    cross_rule_genes,
    draw_conn_genes,
    draw_node_genes,
    draw_own_conn_genes,
    mutate_conn_numbers,
    mutate_genome_genes,
    mutate_node_numbers,
    mutate_rest_of_conn,
    mutate_rest_of_node,
    mutate_rules,
    new_streams,
    start_streams,
)
from neol.neat.genes import GENE_ID, MODULATORY, gene_settings
from neol.neat.genome import Genomes, empty_genomes, numbered
from neol.neat.innovation import Innovations, connection_innovation, ensure_capacity, split_node

NEW_CONNS, NEW_NODES = 3, 1  # at most per child
WEIGHT, BIAS, SHARED = GENE_ID["weight"], GENE_ID["bias"], 0


class Structure(NamedTuple):
    """How structure is mutated, as the kernels take it."""

    rates: np.ndarray  # f8 (4,) add node, delete node, add connection, delete connection
    single: bool
    surer: bool
    feed_forward: bool


def structure(config: NeatConfig) -> Structure:
    surer = config.structural_mutation_surer
    return Structure(
        np.array([config.node_add_prob, config.node_delete_prob, config.conn_add_prob, config.conn_delete_prob]),
        config.single_structural_mutation,
        config.single_structural_mutation if surer == "default" else surer == "true",
        config.feed_forward,
    )


def breed(
    config: NeatConfig,
    parents: Genomes,
    first: np.ndarray,  # i4 (P,) the fitter parent of each child
    second: np.ndarray,  # i4 (P,) the other, or the same
    elite: np.ndarray,  # b1 (P,) copied unchanged
    innovations: Innovations,
    inputs: int,
    outputs: int,
    seed: int,
    generation: int,
) -> tuple[Genomes, Innovations]:
    """The next population, and the innovations with what it invented."""
    size = len(first)
    nodes = _round_up(int(parents.n_nodes.max(initial=0)) + NEW_NODES)
    conns = _round_up(int(parents.n_conns.max(initial=0)) + NEW_CONNS)
    children = empty_genomes(size, nodes, conns)
    innovations = ensure_capacity(innovations, size * (NEW_CONNS + NEW_NODES))
    how = structure(config), gene_settings(config)
    _breed(parents, children, first, second, elite, innovations, *how, inputs, outputs, seed, generation)
    return children, innovations


def population_of(
    config: NeatConfig, genome: Genomes, inputs: int, outputs: int, seed: int
) -> tuple[Genomes, Innovations]:
    """A first population from one genome (P = 1): itself, and mutated copies; and the innovations with its own."""
    size = config.pop_size
    own, innovations = numbered(genome, outputs)
    parent, unchanged = np.zeros(size, np.int32), np.arange(size) == 0
    named = int(seeding.stream(seed, seeding.INITIAL, 0, 0, 3)[0] >> np.uint64(2))  # not what generation 0 breeds by
    return breed(config, own, parent, parent, unchanged, innovations, inputs, outputs, named, 0)


def _round_up(n: int, step: int = 8) -> int:
    return -(-n // step) * step


@kernel
def _breed(parents, children, first, second, elite, innovations, how, settings, inputs, outputs, seed, generation):
    streams = new_streams(settings)
    for child in range(len(first)):
        copy_genome(parents, first[child], children, child)
        if elite[child]:
            continue
        start_streams(streams, settings, seed, seeding.REPRODUCE, generation, child, 0)
        if second[child] != first[child]:
            cross(parents, second[child], children, child, streams, settings)
        mutate_structure(children, child, innovations, how, inputs, outputs, streams, settings)
        mutate_values(children, child, streams, settings)


@bare
def copy_genome(source, p, out, child):
    """Genome p of `source` to place `child` of `out`."""
    copy_genome_genes(out, child, (source, p))
    copy_rules(out, child, (source, p, MOST_RULES))
    copy_node_numbers(out, child, (source, p, source.n_nodes[p]))
    copy_conn_numbers(out, child, (source, p, source.n_conns[p]))
    for k in range(source.n_nodes[p]):
        copy_rest_of_node(out, (child, k), (source, (p, k)))
    for k in range(source.n_conns[p]):
        copy_rest_of_conn(out, (child, k), (source, (p, k)))


@bare
def cross(parents, p, g, child, streams, settings):
    """Mix genes of the less fit parent p into the child, which is a copy of the fitter one.

    Matching genes: every value from either parent at random. Disjoint and excess genes: the fitter parent's, already
    there. So a child's structure is its fitter parent's, and crossover can make no cycle. A flag that is off in either
    parent is off with probability `disabled`, else a parent's at random: at 0 crossover neither spreads nor mends it.
    """
    cross_genome_genes(g, child, (parents, p, streams, settings))
    for k in range(MOST_RULES):
        cross_rule_genes(g, (child, k), (parents, (p, k), streams, settings))
    j = 0
    for i in range(g.n_conns[child]):
        while j < parents.n_conns[p] and parents.innovation[p, j] < g.innovation[child, i]:
            j += 1
        if j == parents.n_conns[p]:
            break
        if parents.innovation[p, j] == g.innovation[child, i]:
            cross_conn_genes(g, (child, i), (parents, (p, j), streams, settings))
    j = 0
    for i in range(g.n_nodes[child]):
        while j < parents.n_nodes[p] and parents.node_id[p, j] < g.node_id[child, i]:
            j += 1
        if j == parents.n_nodes[p]:
            break
        if parents.node_id[p, j] == g.node_id[child, i]:
            cross_node_genes(g, (child, i), (parents, (p, j), streams, settings))


@bare
def mutate_structure(g, p, innovations, how, inputs, outputs, streams, settings):
    """Add node, delete node, add connection, delete connection: each by its own chance, or at most one of them."""
    rng = streams[SHARED]
    if how.single:
        total = max(1.0, how.rates.sum())
        r = seeding.uniform(rng) * total
        done = 0.0
        chosen = -1
        for kind in range(4):
            done += how.rates[kind]
            if chosen < 0 and r < done:
                chosen = kind
    for kind in range(4):
        happens = chosen == kind if how.single else seeding.uniform(rng) < how.rates[kind]
        if not happens:
            continue
        if kind == 0:
            add_node(g, p, innovations, how, inputs, outputs, streams, settings)
        elif kind == 1:
            delete_node(g, p, outputs, rng)
        elif kind == 2:
            add_connection(g, p, innovations, how, inputs, outputs, streams, settings)
        elif g.n_conns[p] > 0:
            remove_conn(g, p, seeding.below(rng, g.n_conns[p]))


@bare
def move_conn(g, p, k, to):
    """Connection k of genome p to place `to`."""
    copy_conn(g, (p, to), (g, (p, k)))


@bare
def move_node(g, p, k, to):
    """Node k of genome p to place `to`."""
    copy_node(g, (p, to), (g, (p, k)))


@bare
def insert_conn(g, p, innovation, source, target):
    """Make room for a connection where its innovation number belongs; return its place. Its genes are yet to be set."""
    c = g.n_conns[p]
    place = np.searchsorted(g.innovation[p, :c], innovation)
    for k in range(c, place, -1):
        move_conn(g, p, k - 1, k)
    g.innovation[p, place], g.source[p, place], g.target[p, place] = innovation, source, target
    g.n_conns[p] = c + 1
    return place


@bare
def remove_conn(g, p, place):
    """Close the gap over connection `place`; the freed place is zeroed."""
    last = g.n_conns[p] - 1
    for k in range(place, last):
        move_conn(g, p, k + 1, k)
    clear_conn(g, (p, last), ())
    g.n_conns[p] = last


@bare
def has_node(g, p, node_id):
    n = g.n_nodes[p]
    place = np.searchsorted(g.node_id[p, :n], node_id)
    return place < n and g.node_id[p, place] == node_id


@bare
def add_node(g, p, innovations, how, inputs, outputs, streams, settings):
    """Split a connection: it is disabled, and source -1-> node -w-> target keeps roughly what it did.

    Where the new node is modulatory, the connection stays as it is.
    """
    if g.n_conns[p] == 0:
        if how.surer:
            add_connection(g, p, innovations, how, inputs, outputs, streams, settings)
        return
    c = seeding.below(streams[SHARED], g.n_conns[p])
    source, target = np.int64(g.source[p, c]), np.int64(g.target[p, c])
    weight, innovation = g.weight[p, c], np.int64(g.innovation[p, c])
    repeat = np.int64(0)
    node = split_node(innovations, innovation, repeat)
    while has_node(g, p, node):
        repeat += 1
        node = split_node(innovations, innovation, repeat)
    n = g.n_nodes[p]
    place = np.searchsorted(g.node_id[p, :n], node)
    for k in range(n, place, -1):
        move_node(g, p, k - 1, k)
    g.node_id[p, place] = node
    draw_node_genes(g, (p, place), (streams, settings))
    if g.role[p, place] != MODULATORY:  # what passes no signal replaces no connection
        g.enabled[p, c] = False
    g.bias[p, place] = min(max(0.0, settings.of[BIAS].low), settings.of[BIAS].high)
    g.n_nodes[p] = n + 1
    one = min(max(1.0, settings.of[WEIGHT].low), settings.of[WEIGHT].high)
    add_half(g, p, innovations, source, node, one, streams, settings)
    add_half(g, p, innovations, node, target, weight, streams, settings)


@bare
def add_half(g, p, innovations, source, target, weight, streams, settings):
    """One of the two connections that take the place of a split one. What shares a stream is set, not drawn."""
    place = insert_conn(g, p, connection_innovation(innovations, source, target), source, target)
    draw_own_conn_genes(g, (p, place), (streams, settings))
    g.weight[p, place], g.enabled[p, place] = weight, True


@bare
def delete_node(g, p, outputs, rng):
    """Remove a hidden node with all its connections."""
    n = g.n_nodes[p]
    if n == outputs:
        return
    place = outputs + seeding.below(rng, n - outputs)
    node = g.node_id[p, place]
    for c in range(g.n_conns[p] - 1, -1, -1):
        if g.source[p, c] == node or g.target[p, c] == node:
            remove_conn(g, p, c)
    for k in range(place, n - 1):
        move_node(g, p, k + 1, k)
    clear_node(g, (p, n - 1), ())
    g.n_nodes[p] = n - 1


@bare
def add_connection(g, p, innovations, how, inputs, outputs, streams, settings):
    """Connect two random nodes; nothing happens where it exists already or would close a cycle."""
    rng, n = streams[SHARED], g.n_nodes[p]
    target = np.int64(g.node_id[p, seeding.below(rng, n)])  # ids as wide everywhere: one `insert_conn` is compiled
    first = outputs if how.feed_forward else 0  # only recurrent networks read from outputs
    k = seeding.below(rng, inputs + n - first)
    source = -1 - k if k < inputs else np.int64(g.node_id[p, first + k - inputs])
    for c in range(g.n_conns[p]):
        if g.source[p, c] == source and g.target[p, c] == target:
            if how.surer:
                g.enabled[p, c] = True
            return
    if how.feed_forward and closes_cycle(g, p, source, target):
        return
    innovation = connection_innovation(innovations, source, target)
    place = insert_conn(g, p, innovation, source, target)
    draw_conn_genes(g, (p, place), (streams, settings))


@kernel
def closes_cycle(g, p, source, target):
    """Whether a path target ->* source exists (disabled connections count: they may come back)."""
    if source == target:
        return True
    if source < 0:
        return False
    n, c = g.n_nodes[p], g.n_conns[p]
    ids = g.node_id[p, :n]
    reached = np.zeros(n, np.bool_)
    reached[np.searchsorted(ids, target)] = True
    goal = np.searchsorted(ids, source)
    changed = True
    while changed:
        changed = False
        for k in range(c):
            if g.source[p, k] < 0:
                continue
            a, b = np.searchsorted(ids, g.source[p, k]), np.searchsorted(ids, g.target[p, k])
            if reached[a] and not reached[b]:
                reached[b] = True
                changed = True
        if reached[goal]:
            return True
    return False


@bare
def mutate_values(g, p, streams, settings):
    """The genes of the genome (its step size first), then of each rule, of each connection, of each node.

    How one value changes, a weight for instance: gene_kernels.mutate_number.
    """
    mutate_genome_genes(g, p, (streams, settings, 1.0))
    step_size = g.step_size[p]
    mutate_rules(g, p, (MOST_RULES, streams, settings, step_size))
    mutate_conn_numbers(g, p, (g.n_conns[p], streams, settings, step_size))
    mutate_node_numbers(g, p, (g.n_nodes[p], streams, settings, step_size))
    for c in range(g.n_conns[p]):
        mutate_rest_of_conn(g, (p, c), (streams, settings, step_size))
    for k in range(g.n_nodes[p]):
        mutate_rest_of_node(g, (p, k), (streams, settings, step_size))
