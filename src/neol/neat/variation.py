"""How children differ from their parents: crossover, structural mutation, mutation of values.

All of it acts on places of `Genomes` (see there for the layout). Connection genes stay sorted by innovation number and
node genes by id, so that two genomes align in one pass. Every child has a random stream of its own.
Legend: P genomes, N node places, C connection places.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neol import seeding
from neol.config.schema import NeatConfig
from neol.jit import kernel
from neol.neat.genome import (
    BIAS,
    GENES,
    RESPONSE,
    WEIGHT,
    Genomes,
    draw_enabled,
    draw_from,
    draw_option,
    draw_value,
    empty_genomes,
    gene_init,
    write_conn,
    write_node,
)
from neol.neat.innovation import Innovations, connection_innovation, ensure_capacity, split_node

STEP_SIZE_RANGE = (0.01, 10.0)
NEW_CONNS, NEW_NODES = 3, 1  # at most per child


class Mutation(NamedTuple):
    """Mutation rates as the kernels take them."""

    rate: np.ndarray  # f8 (3,) weight, bias, response
    power: np.ndarray  # f8 (3,)
    replace: np.ndarray  # f8 (3,)
    step_size: float
    to_true: float  # probability of drawing the flag of a disabled connection anew
    to_false: float
    disabled: float  # probability that a connection which is disabled in either parent is disabled in the child
    activation: float
    aggregation: float
    structure: np.ndarray  # f8 (4,) add node, delete node, add connection, delete connection
    single: bool
    surer: bool
    feed_forward: bool


def mutation(config: NeatConfig) -> Mutation:
    def values(what: str) -> np.ndarray:
        return np.array([float(getattr(config, f"{g}_{what}")) for g in GENES])

    rate, replace = values("mutate_rate"), values("replace_rate")
    if config.weight_mutation == "off":  # WM_MODE
        rate[WEIGHT] = replace[WEIGHT] = 0.0
    elif config.weight_mutation != "config":
        p, total = float(config.weight_mutation), rate[WEIGHT] + replace[WEIGHT]
        share = rate[WEIGHT] / total if total > 0.0 else 1.0
        rate[WEIGHT], replace[WEIGHT] = p * share, p * (1.0 - share)
    surer = config.structural_mutation_surer
    return Mutation(
        rate,
        values("mutate_power"),
        replace,
        config.step_size_adaptation,
        config.enabled_mutate_rate + config.enabled_rate_to_true_add,
        config.enabled_mutate_rate + config.enabled_rate_to_false_add,
        config.disabled_inherit_prob,
        config.activation_mutate_rate,
        config.aggregation_mutate_rate,
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
    rates, init = mutation(config), gene_init(config)
    _breed(parents, children, first, second, elite, innovations, rates, init, inputs, outputs, seed, generation)
    return children, innovations


def _round_up(n: int, step: int = 8) -> int:
    return -(-n // step) * step


@kernel
def _breed(parents, children, first, second, elite, innovations, rates, init, inputs, outputs, seed, generation):
    for child in range(len(first)):
        rng = seeding.stream(seed, seeding.REPRODUCE, generation, child, 0)
        copy_genome(parents, first[child], children, child)
        if elite[child]:
            continue
        if second[child] != first[child]:
            cross(parents, second[child], children, child, rates.disabled, rng)
        mutate_structure(children, child, innovations, rates, init, inputs, outputs, rng)
        mutate_values(children, child, rates, init, rng)


@kernel
def copy_genome(source, p, out, child):
    """Genome p of `source` to place `child` of `out` (field by field: Numba cannot loop over mixed tuples)."""
    n, c = source.n_nodes[p], source.n_conns[p]
    out.n_nodes[child], out.n_conns[child], out.step_size[child] = n, c, source.step_size[p]
    out.node_id[child, :n] = source.node_id[p, :n]
    out.bias[child, :n] = source.bias[p, :n]
    out.response[child, :n] = source.response[p, :n]
    out.activation[child, :n] = source.activation[p, :n]
    out.aggregation[child, :n] = source.aggregation[p, :n]
    out.innovation[child, :c] = source.innovation[p, :c]
    out.source[child, :c] = source.source[p, :c]
    out.target[child, :c] = source.target[p, :c]
    out.weight[child, :c] = source.weight[p, :c]
    out.enabled[child, :c] = source.enabled[p, :c]


@kernel
def cross(parents, p, g, child, disabled, rng):
    """Mix genes of the less fit parent p into the child, which is a copy of the fitter one.

    Matching genes: every value from either parent at random. Disjoint and excess genes: the fitter parent's, already
    there. So a child's structure is its fitter parent's, and crossover can make no cycle. A flag that is off in either
    parent is off with probability `disabled`, else a parent's at random: at 0 crossover neither spreads nor mends it.
    """
    j = 0
    for i in range(g.n_conns[child]):
        while j < parents.n_conns[p] and parents.innovation[p, j] < g.innovation[child, i]:
            j += 1
        if j == parents.n_conns[p]:
            break
        if parents.innovation[p, j] != g.innovation[child, i]:
            continue
        either_disabled = not (g.enabled[child, i] and parents.enabled[p, j])
        if seeding.uniform(rng) < 0.5:
            g.weight[child, i] = parents.weight[p, j]
        if seeding.uniform(rng) < 0.5:
            g.enabled[child, i] = parents.enabled[p, j]
        if either_disabled and seeding.uniform(rng) < disabled:
            g.enabled[child, i] = False
    j = 0
    for i in range(g.n_nodes[child]):
        while j < parents.n_nodes[p] and parents.node_id[p, j] < g.node_id[child, i]:
            j += 1
        if j == parents.n_nodes[p]:
            break
        if parents.node_id[p, j] != g.node_id[child, i]:
            continue
        if seeding.uniform(rng) < 0.5:
            g.bias[child, i] = parents.bias[p, j]
        if seeding.uniform(rng) < 0.5:
            g.response[child, i] = parents.response[p, j]
        if seeding.uniform(rng) < 0.5:
            g.activation[child, i] = parents.activation[p, j]
        if seeding.uniform(rng) < 0.5:
            g.aggregation[child, i] = parents.aggregation[p, j]


@kernel
def mutate_structure(g, p, innovations, rates, init, inputs, outputs, rng):
    """Add node, delete node, add connection, delete connection: each by its own chance, or at most one of them."""
    if rates.single:
        total = max(1.0, rates.structure.sum())
        r = seeding.uniform(rng) * total
        done = 0.0
        chosen = -1
        for kind in range(4):
            done += rates.structure[kind]
            if chosen < 0 and r < done:
                chosen = kind
    for kind in range(4):
        happens = chosen == kind if rates.single else seeding.uniform(rng) < rates.structure[kind]
        if not happens:
            continue
        if kind == 0:
            add_node(g, p, innovations, rates, init, inputs, outputs, rng)
        elif kind == 1:
            delete_node(g, p, outputs, rng)
        elif kind == 2:
            add_connection(g, p, innovations, rates, init, inputs, outputs, rng)
        elif g.n_conns[p] > 0:
            remove_conn(g, p, seeding.below(rng, g.n_conns[p]))


@kernel
def _move_conn(g, p, place, from_place):
    g.innovation[p, place] = g.innovation[p, from_place]
    g.source[p, place] = g.source[p, from_place]
    g.target[p, place] = g.target[p, from_place]
    g.weight[p, place] = g.weight[p, from_place]
    g.enabled[p, place] = g.enabled[p, from_place]


@kernel
def insert_conn(g, p, innovation, source, target, weight, enabled):
    """Put a connection where its innovation number belongs."""
    c = g.n_conns[p]
    place = np.searchsorted(g.innovation[p, :c], innovation)
    for k in range(c, place, -1):
        _move_conn(g, p, k, k - 1)
    write_conn(g, p, place, innovation, source, target, weight, enabled)
    g.n_conns[p] = c + 1


@kernel
def remove_conn(g, p, place):
    """Close the gap over connection `place`; the freed place is zeroed."""
    last = g.n_conns[p] - 1
    for k in range(place, last):
        _move_conn(g, p, k, k + 1)
    write_conn(g, p, last, 0, 0, 0, 0.0, False)
    g.n_conns[p] = last


@kernel
def _move_node(g, p, place, from_place):
    g.node_id[p, place] = g.node_id[p, from_place]
    g.bias[p, place] = g.bias[p, from_place]
    g.response[p, place] = g.response[p, from_place]
    g.activation[p, place] = g.activation[p, from_place]
    g.aggregation[p, place] = g.aggregation[p, from_place]


@kernel
def has_node(g, p, node_id):
    n = g.n_nodes[p]
    place = np.searchsorted(g.node_id[p, :n], node_id)
    return place < n and g.node_id[p, place] == node_id


@kernel
def add_node(g, p, innovations, rates, init, inputs, outputs, rng):
    """Split a connection: it is disabled, and source -1-> node -w-> target keeps roughly what it did."""
    if g.n_conns[p] == 0:
        if rates.surer:
            add_connection(g, p, innovations, rates, init, inputs, outputs, rng)
        return
    c = seeding.below(rng, g.n_conns[p])
    source, target, weight, innovation = g.source[p, c], g.target[p, c], g.weight[p, c], g.innovation[p, c]
    repeat = 0
    node = split_node(innovations, innovation, repeat)
    while has_node(g, p, node):
        repeat += 1
        node = split_node(innovations, innovation, repeat)
    g.enabled[p, c] = False
    n = g.n_nodes[p]
    place = np.searchsorted(g.node_id[p, :n], node)
    for k in range(n, place, -1):
        _move_node(g, p, k, k - 1)
    write_node(g, p, place, node, rng, init)
    g.bias[p, place] = min(max(0.0, init.low[BIAS]), init.high[BIAS])
    g.n_nodes[p] = n + 1
    one = min(max(1.0, init.low[WEIGHT]), init.high[WEIGHT])
    insert_conn(g, p, connection_innovation(innovations, source, node), source, node, one, True)
    insert_conn(g, p, connection_innovation(innovations, node, target), node, target, weight, True)


@kernel
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
        _move_node(g, p, k, k + 1)
    g.node_id[p, n - 1] = g.activation[p, n - 1] = g.aggregation[p, n - 1] = 0
    g.bias[p, n - 1] = g.response[p, n - 1] = 0.0
    g.n_nodes[p] = n - 1


@kernel
def add_connection(g, p, innovations, rates, init, inputs, outputs, rng):
    """Connect two random nodes; nothing happens where it exists already or would close a cycle."""
    n = g.n_nodes[p]
    target = g.node_id[p, seeding.below(rng, n)]
    first = outputs if rates.feed_forward else 0  # only recurrent networks read from outputs
    k = seeding.below(rng, inputs + n - first)
    source = -1 - k if k < inputs else g.node_id[p, first + k - inputs]
    for c in range(g.n_conns[p]):
        if g.source[p, c] == source and g.target[p, c] == target:
            if rates.surer:
                g.enabled[p, c] = True
            return
    if rates.feed_forward and closes_cycle(g, p, source, target):
        return
    innovation = connection_innovation(innovations, source, target)
    insert_conn(g, p, innovation, source, target, draw_value(rng, init, WEIGHT), draw_enabled(rng, init))


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


@kernel
def _mutate_value(rng, value, rate, replace, scale, low, high, mean, stdev, uniform):
    """A Gaussian step of SD `scale`, a fresh value, or neither."""
    if rate + replace <= 0.0:
        return value
    r = seeding.uniform(rng)
    if r < rate:
        return min(max(value + scale * seeding.normal(rng), low), high)
    if r < rate + replace:
        return draw_from(rng, low, high, mean, stdev, uniform)
    return value


@kernel
def _settings(gene, step_size, rates, init):
    """What `_mutate_value` needs of the tuples, read once: handing them on at every gene costs more than the rest."""
    change = (rates.rate[gene], rates.replace[gene], rates.power[gene] * step_size)
    return (*change, init.low[gene], init.high[gene], init.mean[gene], init.stdev[gene], init.uniform[gene])


@kernel
def mutate_values(g, p, rates, init, rng):
    """Step size, weights, enabled flags, biases, responses, activations, aggregations."""
    if rates.step_size > 0.0:
        low, high = STEP_SIZE_RANGE
        g.step_size[p] = min(max(g.step_size[p] * math.exp(rates.step_size * seeding.normal(rng)), low), high)
    step = g.step_size[p]
    settings = _settings(WEIGHT, step, rates, init)
    weight, enabled, to_true, to_false = g.weight[p], g.enabled[p], rates.to_true, rates.to_false
    for c in range(g.n_conns[p]):
        weight[c] = _mutate_value(rng, weight[c], *settings)
        toggle = to_false if enabled[c] else to_true
        if toggle > 0.0 and seeding.uniform(rng) < toggle:
            enabled[c] = seeding.uniform(rng) < 0.5
    of_bias, of_response = _settings(BIAS, step, rates, init), _settings(RESPONSE, step, rates, init)
    for k in range(g.n_nodes[p]):
        g.bias[p, k] = _mutate_value(rng, g.bias[p, k], *of_bias)
        g.response[p, k] = _mutate_value(rng, g.response[p, k], *of_response)
        if rates.activation > 0.0 and seeding.uniform(rng) < rates.activation:
            g.activation[p, k] = draw_option(rng, -1, init.activation_options)
        if rates.aggregation > 0.0 and seeding.uniform(rng) < rates.aggregation:
            g.aggregation[p, k] = draw_option(rng, -1, init.aggregation_options)
