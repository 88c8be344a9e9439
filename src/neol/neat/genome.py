"""Genomes: a population as a struct of arrays, and the first one.

    genome p   nodes  [ 0 1 .. O-1 | hidden ... | free ]   n_nodes[p] used, ids ascending
               conns  [ innovation ascending ... | free ]   n_conns[p] used

Node ids are neat-python's: inputs -1 .. -I (not stored), outputs 0 .. O-1, hidden O and up. Capacity (the second axis)
grows when a generation could need more; the user sets no maximum. Free places hold zeros.
Every genome has MOST_RULES rules that connections may share, in use or not.
Legend: P genomes, N node places, C connection places, R rules.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from neol import seeding
from neol.config.sections import INITIAL_CONNECTIONS, MOST_RULES, NeatConfig
from neol.jit import bare, kernel
from neol.neat.gene_kernels import (
    draw_conn_genes,
    draw_genome_genes,
    draw_node_genes,
    draw_rule_genes,
    new_streams,
    start_streams,
)
from neol.neat.genes import COLUMNS, CONNECTION, GENES, NODE, RULE, Gene, columns_of, gene_settings
from neol.neat.innovation import Innovations, connection_innovation, ensure_capacity, new_innovations

if TYPE_CHECKING:
    from neol.neat.genes import NamedArrays

    _Columns = NamedArrays
else:
    _Columns = namedtuple("_Columns", COLUMNS)


class Genomes(_Columns):
    """Columns, each an array: n_nodes, n_conns and the genes of a genome (P,); those of a rule (P, R); node_id and a
    node's genes (P, N); innovation, source and target (node ids) and a connection's genes (P, C). `genes.GENES` says
    what they are."""

    __slots__ = ()


NODE_FIELDS, CONN_FIELDS = tuple(columns_of(NODE)), tuple(columns_of(CONNECTION))


def empty_genomes(size: int, nodes: int, conns: int) -> Genomes:
    """P genomes of zeros with the given capacities."""
    shapes = dict.fromkeys(NODE_FIELDS, (size, nodes)) | dict.fromkeys(CONN_FIELDS, (size, conns))
    shapes |= dict.fromkeys(columns_of(RULE), (size, MOST_RULES))
    return Genomes(*(np.zeros(shapes.get(name, (size,)), dtype) for name, dtype in COLUMNS.items()))


def to_arrays(genomes: Genomes, name: str) -> dict[str, np.ndarray]:
    """A population as named arrays: `name.column`. A gene with a switch that has its default everywhere is left out."""
    idle = [g.name for g in GENES if g.switch and (used_values(genomes, g) == g.default).all()]
    return {f"{name}.{column}": array for column, array in genomes._asdict().items() if column not in idle}


def _used(genomes: Genomes, gene: Gene) -> np.ndarray:
    """Which places of a gene's column, as (P, places), are in use: b1."""
    size, places = _rows(getattr(genomes, gene.name)).shape
    used = genomes.n_nodes if gene.of == NODE else genomes.n_conns if gene.of == CONNECTION else np.full(size, places)
    return np.arange(places) < used[:, None]


def used_values(genomes: Genomes, gene: Gene) -> np.ndarray:
    """A gene's values in all places that are in use, (n,)."""
    return _rows(getattr(genomes, gene.name))[_used(genomes, gene)]


def _rows(column: np.ndarray) -> np.ndarray:
    """A column as (P, places); P may be 0."""
    return column.reshape(len(column), math.prod(column.shape[1:]))


def from_arrays(arrays: Mapping[str, np.ndarray], name: str) -> Genomes:
    """The population that `to_arrays` named so, copied. A gene that is newer than the arrays has its default."""
    newer = [g for g in GENES if g.own_stream and f"{name}.{g.name}" not in arrays]
    found = {c: arrays[f"{name}.{c}"].copy() for c in COLUMNS if c not in [g.name for g in newer]}
    size, nodes = found["node_id"].shape
    out = empty_genomes(size, nodes, found["source"].shape[1])._replace(**found)
    for gene in newer:
        _rows(getattr(out, gene.name))[_used(out, gene)] = gene.default
    return out


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


@bare
def _fill(g, pairs, order, keep, n_nodes, seed, streams, settings):
    """Draw every gene of the first population. pairs i4 (K, 2); order i4 (P, K): a genome takes the first `keep` of
    its row, which are sorted."""
    for p in range(len(g.n_nodes)):
        start_streams(streams, settings, seed, seeding.INITIAL, 0, p, 1)
        draw_genome_genes(g, p, (streams, settings))
        for k in range(MOST_RULES):
            draw_rule_genes(g, (p, k), (streams, settings))
        for k in range(n_nodes):
            g.node_id[p, k] = k
            draw_node_genes(g, (p, k), (streams, settings))
        g.n_nodes[p] = n_nodes
        for place in range(keep):
            k = order[p, place]
            g.innovation[p, place], g.source[p, place], g.target[p, place] = k, pairs[k, 0], pairs[k, 1]
            draw_conn_genes(g, (p, place), (streams, settings))
        g.n_conns[p] = keep


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
    keep = possible
    if config.initial_connection.startswith("partial"):
        keep = round(config.connection_fraction * possible)
        _shuffle_rows(order, seed)
    elif config.initial_connection.startswith("fs_neat"):
        keep = possible // inputs
        _choose_input(order, possible // inputs, inputs, seed)
    genomes = empty_genomes(size, n_nodes + 4, possible + 8)
    order[:, :keep].sort(axis=1)
    settings = gene_settings(config)
    _fill(genomes, pairs, order, keep, n_nodes, seed, new_streams(settings), settings)
    return genomes, innovations


def numbered(genome: Genomes, outputs: int) -> tuple[Genomes, Innovations]:
    """A genome (P = 1) from elsewhere as the first of a run, and the innovations that it made.

    Its connections are the first innovations, in their order. It has split none that another could split again, so its
    hidden nodes keep their ids and new ones come after them.
    """
    count = int(genome.n_conns[0])
    innovations = new_innovations(max(outputs, int(genome.node_id[0, : genome.n_nodes[0]].max()) + 1))
    innovations = ensure_capacity(innovations, count)
    own = take(genome, [0])
    for c in range(count):
        own.innovation[0, c] = connection_innovation(innovations, int(own.source[0, c]), int(own.target[0, c]))
    return own, innovations


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
