"""Genomes: a population as a struct of arrays, and the first one.

    genome p   nodes  [ 0 1 .. O-1 | hidden ... | free ]   n_nodes[p] used, ids ascending
               conns  [ innovation ascending ... | free ]   n_conns[p] used

Node ids are neat-python's: inputs -1 .. -I (not stored), outputs 0 .. O-1, hidden O and up. Capacity (the second axis)
grows when a generation could need more; the user sets no maximum. Free places hold zeros.
Legend: P genomes, N node places, C connection places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neol import seeding
from neol.config.schema import ACTIVATION_ID, AGGREGATION_ID, INITIAL_CONNECTIONS, NeatConfig
from neol.jit import kernel
from neol.neat.innovation import Innovations, connection_innovation, ensure_capacity, new_innovations


class Genomes(NamedTuple):
    n_nodes: np.ndarray  # i4 (P,)
    n_conns: np.ndarray  # i4 (P,)
    step_size: np.ndarray  # f8 (P,) factor on the mutation powers, a gene
    node_id: np.ndarray  # i4 (P, N)
    bias: np.ndarray  # f8 (P, N)
    response: np.ndarray  # f8 (P, N)
    activation: np.ndarray  # i1 (P, N)
    aggregation: np.ndarray  # i1 (P, N)
    innovation: np.ndarray  # i4 (P, C)
    source: np.ndarray  # i4 (P, C) node id
    target: np.ndarray  # i4 (P, C) node id
    weight: np.ndarray  # f8 (P, C)
    enabled: np.ndarray  # b1 (P, C)


NODE_FIELDS = ("node_id", "bias", "response", "activation", "aggregation")
CONN_FIELDS = ("innovation", "source", "target", "weight", "enabled")
_DTYPES = ("i4", "i4", "f8", "i4", "f8", "f8", "i1", "i1", "i4", "i4", "i4", "f8", "?")


def empty_genomes(size: int, nodes: int, conns: int) -> Genomes:
    """P genomes of zeros with the given capacities."""
    shapes = [(size,)] * 3 + [(size, nodes)] * 5 + [(size, conns)] * 5
    return Genomes(*(np.zeros(s, d) for s, d in zip(shapes, _DTYPES, strict=True)))


def take(genomes: Genomes, index: np.ndarray | list[int] | slice) -> Genomes:
    """The genomes at these positions, copied."""
    return Genomes(*(a[index].copy() for a in genomes))


def concatenate(parts: list[Genomes]) -> Genomes:
    """One population out of several, widened to the largest capacity."""
    nodes = max(p.node_id.shape[1] for p in parts)
    conns = max(p.weight.shape[1] for p in parts)
    wide = [widen(p, nodes, conns) for p in parts]
    return Genomes(*(np.concatenate(arrays) for arrays in zip(*wide, strict=True)))


def widen(genomes: Genomes, nodes: int, conns: int) -> Genomes:
    """The same genomes with at least these capacities."""
    if genomes.node_id.shape[1] >= nodes and genomes.weight.shape[1] >= conns:
        return genomes
    nodes, conns = max(nodes, genomes.node_id.shape[1]), max(conns, genomes.weight.shape[1])
    out = empty_genomes(len(genomes.n_nodes), nodes, conns)
    for new, old in zip(out, genomes, strict=True):
        new[(slice(None), *(slice(0, n) for n in old.shape[1:]))] = old
    return out


class GeneInit(NamedTuple):
    """How fresh gene values are drawn (kernel arguments)."""

    mean: np.ndarray  # f8 (3,) weight, bias, response
    stdev: np.ndarray  # f8 (3,)
    low: np.ndarray  # f8 (3,)
    high: np.ndarray  # f8 (3,)
    uniform: np.ndarray  # b1 (3,)
    activation: int  # id, -1 = drawn from the options
    activation_options: np.ndarray  # i1
    aggregation: int
    aggregation_options: np.ndarray  # i1
    enabled: int  # 1, 0, -1 = random


WEIGHT, BIAS, RESPONSE = 0, 1, 2
GENES = ("weight", "bias", "response")


def gene_init(config: NeatConfig) -> GeneInit:
    def values(what: str) -> np.ndarray:
        return np.array([float(getattr(config, f"{g}_{what}")) for g in GENES])

    return GeneInit(
        values("init_mean"),
        values("init_stdev"),
        values("min_value"),
        values("max_value"),
        np.array([getattr(config, f"{g}_init_type") == "uniform" for g in GENES]),
        ACTIVATION_ID.get(config.activation_default, -1),
        np.array([ACTIVATION_ID[a] for a in config.activation_options], np.int8),
        AGGREGATION_ID.get(config.aggregation_default, -1),
        np.array([AGGREGATION_ID[a] for a in config.aggregation_options], np.int8),
        {"true": 1, "false": 0}.get(config.enabled_default, -1),
    )


@kernel
def draw_value(rng, init, gene):
    """A fresh weight, bias or response."""
    return draw_from(rng, init.low[gene], init.high[gene], init.mean[gene], init.stdev[gene], init.uniform[gene])


@kernel
def draw_from(rng, low, high, mean, stdev, uniform):
    if uniform:  # neat-python: mean +- 2 SD
        start, stop = max(low, mean - 2.0 * stdev), min(high, mean + 2.0 * stdev)
        value = start + (stop - start) * seeding.uniform(rng)
    else:
        value = mean + stdev * seeding.normal(rng)
    return min(max(value, low), high)


@kernel
def draw_option(rng, default, options):
    """The default id, or a random option where there is none."""
    return default if default >= 0 else options[seeding.below(rng, len(options))]


@kernel
def draw_enabled(rng, init):
    return seeding.uniform(rng) < 0.5 if init.enabled < 0 else init.enabled == 1


@kernel
def write_node(g, p, place, node_id, rng, init):
    """A fresh node gene at [p, place]."""
    g.node_id[p, place] = node_id
    g.bias[p, place] = draw_value(rng, init, BIAS)
    g.response[p, place] = draw_value(rng, init, RESPONSE)
    g.activation[p, place] = draw_option(rng, init.activation, init.activation_options)
    g.aggregation[p, place] = draw_option(rng, init.aggregation, init.aggregation_options)


@kernel
def write_conn(g, p, place, innovation, source, target, weight, enabled):
    """A connection gene at [p, place]."""
    g.innovation[p, place] = innovation
    g.source[p, place] = source
    g.target[p, place] = target
    g.weight[p, place] = weight
    g.enabled[p, place] = enabled


@kernel
def _fill(g, pairs, order, keep, n_nodes, rng_seed, init):
    """Draw every gene of the first population. pairs i4 (K, 2); order i4 (P, K) the pairs each genome takes first."""
    for p in range(len(g.n_nodes)):
        rng = seeding.stream(rng_seed, seeding.INITIAL, 0, p, 1)
        for k in range(n_nodes):
            write_node(g, p, k, k, rng, init)
        g.n_nodes[p] = n_nodes
        g.step_size[p] = 1.0
        chosen = np.sort(order[p, : keep[p]])
        for place in range(keep[p]):
            k = chosen[place]
            weight = draw_value(rng, init, WEIGHT)
            write_conn(g, p, place, k, pairs[k, 0], pairs[k, 1], weight, draw_enabled(rng, init))
        g.n_conns[p] = keep[p]


def _possible_pairs(config: NeatConfig, inputs: int, outputs: int) -> np.ndarray:
    """The connections that the first population may have, i4 (K, 2), as neat-python lists them."""
    ins, outs = range(-1, -inputs - 1, -1), range(outputs)
    hidden = range(outputs, outputs + config.num_hidden)
    pairs: list[tuple[int, int]] = []
    if config.initial_connection.startswith("fs_neat"):
        targets = [*outs, *hidden] if config.initial_connection == "fs_neat_hidden" else list(outs)
        pairs = [(i, t) for i in ins for t in targets]
    elif config.initial_connection != "unconnected":
        pairs = [(i, h) for i in ins for h in hidden] + [(h, o) for h in hidden for o in outs]
        if config.initial_connection.endswith("_direct") or not hidden:
            pairs += [(i, o) for i in ins for o in outs]
        if not config.feed_forward:
            pairs += [(n, n) for n in [*outs, *hidden]]
    return np.array(pairs, np.int32).reshape(-1, 2)


def first_population(config: NeatConfig, inputs: int, outputs: int, seed: int) -> tuple[Genomes, Innovations]:
    """The population of generation 0 and the innovations that it made."""
    if config.initial_connection not in INITIAL_CONNECTIONS:
        raise ValueError(config.initial_connection)
    pairs = _possible_pairs(config, inputs, outputs)
    size, possible, n_nodes = config.pop_size, len(pairs), outputs + config.num_hidden
    innovations = ensure_capacity(new_innovations(n_nodes), possible)
    for s, t in pairs:  # so pair k has innovation k
        connection_innovation(innovations, int(s), int(t))
    order = np.tile(np.arange(possible, dtype=np.int32), (size, 1))
    keep = np.full(size, possible, np.int32)
    if config.initial_connection.startswith("partial"):
        keep[:] = round(config.connection_fraction * possible)
        _shuffle_rows(order, seed)
    elif config.initial_connection.startswith("fs_neat"):
        keep[:] = possible // inputs
        _choose_input(order, possible // inputs, inputs, seed)
    genomes = empty_genomes(size, n_nodes + 4, possible + 8)
    _fill(genomes, pairs, order, keep, n_nodes, seed, gene_init(config))
    return genomes, innovations


@kernel
def _shuffle_rows(order, seed):
    """Shuffle each row of i4 (P, K) (Fisher and Yates)."""
    for p in range(order.shape[0]):
        rng = seeding.stream(seed, seeding.INITIAL, 0, p, 0)
        for k in range(order.shape[1] - 1, 0, -1):
            j = seeding.below(rng, k + 1)
            order[p, k], order[p, j] = order[p, j], order[p, k]


@kernel
def _choose_input(order, targets, inputs, seed):
    """FS-NEAT: one random input per genome, with all its targets."""
    for p in range(order.shape[0]):
        rng = seeding.stream(seed, seeding.INITIAL, 0, p, 0)
        i = seeding.below(rng, inputs)
        for t in range(targets):
            order[p, t] = i * targets + t
