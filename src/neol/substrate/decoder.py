"""CPPNs -> the networks that they paint: Phenotypes like any other, and one of them as a genome that can be written.

A CPPN is asked about every possible connection of a substrate: what it sees are the coordinates of both ends, what it
answers is a weight, whether the connection exists (LEO), and the coefficients of a plastic one. Blocks of connections
pass through one CPPN after the other, node by node, so that the inner loops run over connections.
Legend: P CPPNs, M their outputs, Q their inputs, C possible connections, K nodes but inputs, I inputs, B a block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neol.config.sections import ACTIVATION_ID, AGGREGATION_ID
from neol.jit import kernel
from neol.neat.genes import CONNECTION, GENES, GENOME, NODE, RULE, genes_of
from neol.neat.genome import Genomes, empty_genomes
from neol.network.activations import SUM, activate, aggregate, clip
from neol.network.phenotype import Phenotypes, empty_phenotypes
from neol.substrate.layout import Links

BLOCK = 128
LIMIT = 50.0  # a CPPN's pre-activations are clipped to +- this
WEIGHT, LEO, BIAS = "weight", "expressed", "bias"  # names of CPPN outputs; the others are genes of connections
_POSITIVE = tuple(g.name for g in genes_of(CONNECTION) if getattr(g.kind, "low", -1.0) >= 0.0)


class Reading(NamedTuple):
    """How a CPPN is asked, and what its answers mean."""

    ends: (
        np.ndarray
    )  # i4 (Q,) what its inputs are: 0 .. 2 the source's x, y, z; 3 .. 5 the target's; 6 .. 8 differences
    outputs: tuple[str, ...]  # weight, expressed if LEO decides, bias if it is painted, genes of connections
    threshold: float  # without LEO: least |output| that is a connection
    largest: float  # weight and bias
    coefficient: float  # largest of other genes
    activation: str  # of the substrate's nodes


def decode(cppns: Phenotypes, links: Links, reading: Reading) -> Phenotypes:
    """The networks that CPPNs (P) paint onto a substrate: nodes that an output depends on, layer by layer."""
    answers = asked(cppns, links.position, reading.ends, links.source, links.target)
    where = {name: m for m, name in enumerate(reading.outputs)}
    leo = answers[:, where[LEO]] if LEO in where else np.empty((0, 0))
    weight, exists = connections_from(answers[:, where[WEIGHT]], leo, reading.threshold, reading.largest)
    bias = np.zeros((cppns.size, len(links.start) - 1))
    if BIAS in where:
        nodes = np.arange(links.inputs, len(links.position) - 1, dtype=np.int32)
        origin = np.full(len(nodes), len(links.position) - 1, np.int32)
        painted = asked(cppns, links.position, reading.ends, nodes, origin)[:, where[BIAS]]
        least = 0.0 if LEO in where else reading.threshold
        bias = connections_from(painted, np.empty((0, 0)), least, reading.largest)[0]
    out = empty_phenotypes(cppns.size, bias.size, int(exists.sum()), links.inputs, links.outputs)
    painted_at = np.zeros(len(out.source), np.int32)
    used_nodes, used_edges = _assemble(weight, exists, bias, links, out, painted_at)
    out, painted_at = _cut(out, used_nodes, used_edges), painted_at[:used_edges]
    _fill_in(out, reading)
    of = np.repeat(np.arange(out.size), np.diff(out.edge_start[out.node_start]))
    for name, m in where.items():
        if name not in (WEIGHT, LEO, BIAS):
            values = reading.coefficient * np.clip(answers[of, m, painted_at], -1.0, 1.0)
            getattr(out, name)[:] = np.maximum(values, 0.0) if name in _POSITIVE else values
    return out


def _cut(out: Phenotypes, nodes: int, edges: int) -> Phenotypes:
    """What is in use of the arrays."""
    parts = {name: getattr(out, name)[:edges] for name in ("source", "gene", *_carried(CONNECTION))}
    parts |= {name: getattr(out, name)[:nodes] for name in ("node_id", "standard", *_carried(NODE))}
    return out._replace(edge_start=out.edge_start[: nodes + 1], **parts)


def _carried(what: str) -> tuple[str, ...]:
    return tuple(g.name for g in genes_of(what) if g.carried)


def _fill_in(out: Phenotypes, reading: Reading) -> None:
    """The genes that nobody painted: the table's defaults, and the substrate's own functions."""
    for gene in GENES:
        if gene.carried and gene.name not in (WEIGHT, BIAS):
            getattr(out, gene.name)[:] = gene.default
    out.activation[:] = ACTIVATION_ID[reading.activation]
    out.aggregation[:] = AGGREGATION_ID["sum"]


def asked(
    cppns: Phenotypes, position: np.ndarray, ends: np.ndarray, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """What each CPPN answers for each pair of nodes, f8 (P, M, C)."""
    answers = np.empty((cppns.size, cppns.output.shape[1], len(source)))
    widest = int(np.diff(cppns.node_start).max(initial=0))
    _ask(cppns, position, ends, source, target, np.empty((cppns.inputs + widest, BLOCK)), answers)
    return answers


@kernel
def _ask(cppns, position, ends, source, target, value, answers):
    """Fill answers f8 (P, M, C); value f8 (Q + widest, B) is scratch."""
    for first in range(0, len(source), BLOCK):
        count = min(BLOCK, len(source) - first)
        for q in range(len(ends)):
            end, axis = ends[q] // 3, ends[q] % 3
            for j in range(count):
                a, b = position[source[first + j], axis], position[target[first + j], axis]
                value[q, j] = a if end == 0 else b if end == 1 else a - b
        for p in range(answers.shape[0]):
            _forward(cppns, p, value, count)
            for m in range(answers.shape[1]):
                row = value[cppns.output[p, m]]
                for j in range(count):
                    answers[p, m, first + j] = row[j]


@kernel
def _forward(cppns, p, value, count):
    """One pass of CPPN p for the first `count` columns of value f8 (Q + n, B): as step.forward, column by column."""
    start, stop = cppns.node_start[p], cppns.node_start[p + 1]
    for k in range(start, stop):
        row = value[cppns.inputs + k - start]
        first, last = cppns.edge_start[k], cppns.edge_start[k + 1]
        if cppns.aggregation[k] == SUM:
            row[:count] = 0.0
            for e in range(first, last):
                w, x = cppns.weight[e], value[cppns.source[e]]
                for j in range(count):
                    row[j] += w * x[j]
        else:
            for j in range(count):
                weights = cppns.weight[first:]
                row[j] = aggregate(cppns.aggregation[k], cppns.source, weights, value[:, j], first, last)
        bias, response, kind = cppns.bias[k], cppns.response[k], cppns.activation[k]
        for j in range(count):
            s = bias + response * row[j]
            row[j] = activate(kind, 0.0 if math.isnan(s) else clip(s, LIMIT))


@kernel
def connections_from(painted, leo, threshold, largest):
    """Weights f8 (P, C) and whether each exists b1 (P, C), from what was painted, f8 (P, C).

    With LEO (leo f8 (P, C), else empty) a connection exists where that is above 0, and w = largest o. Without, where
    |o| > threshold, and w = largest sign(o) (|o| - threshold) / (1 - threshold). o is clipped to [-1, 1].
    """
    weight, exists = np.zeros(painted.shape), np.zeros(painted.shape, np.bool_)
    for p in range(painted.shape[0]):
        for c in range(painted.shape[1]):
            o = clip(painted[p, c], 1.0)
            if leo.shape[0]:
                exists[p, c] = leo[p, c] > 0.0
                weight[p, c] = largest * o
            elif abs(o) > threshold:
                exists[p, c] = True
                weight[p, c] = math.copysign(largest * (abs(o) - threshold) / (1.0 - threshold), o)
    return weight, exists


@kernel
def _assemble(weight, exists, bias, links, out, painted_at):
    """Fill structure, weights and biases of `out`; painted_at i4 (E,): the possible connection that an edge is.

    Return how many nodes and edges are used. A node's sources are in earlier layers: one pass from the outputs back
    finds all that an output depends on.
    """
    node, edge = 0, 0
    count, inputs, hidden = bias.shape[1], links.inputs, bias.shape[1] - links.outputs
    required, place = np.empty(count, np.bool_), np.empty(count, np.int32)
    for p in range(weight.shape[0]):
        for k in range(count):
            required[k] = k >= hidden
        for k in range(count - 1, -1, -1):
            if required[k]:
                for c in range(links.start[k], links.start[k + 1]):
                    if exists[p, c] and links.source[c] >= inputs:
                        required[links.source[c] - inputs] = True
        first_edge, here = edge, 0
        for k in range(count):
            if not required[k]:
                continue
            place[k] = here
            out.node_id[node] = k - hidden if k >= hidden else links.outputs + k
            out.bias[node] = bias[p, k]
            if k >= hidden:
                out.output[p, k - hidden] = inputs + here
            for c in range(links.start[k], links.start[k + 1]):
                if exists[p, c]:
                    source = links.source[c]
                    out.source[edge] = source if source < inputs else inputs + place[source - inputs]
                    out.weight[edge] = weight[p, c]
                    out.gene[edge] = edge - first_edge
                    painted_at[edge] = c
                    edge += 1
            out.standard[node] = edge - out.edge_start[node]
            node, here = node + 1, here + 1
            out.edge_start[node] = edge
        out.node_start[p + 1] = node
    return node, edge


def as_genome(phenotypes: Phenotypes, p: int = 0) -> Genomes:
    """Network p as a genome (P = 1), its edges in their order: what champion.json is made from."""
    nodes = slice(int(phenotypes.node_start[p]), int(phenotypes.node_start[p + 1]))
    edges, inputs = phenotypes.edges(p), phenotypes.inputs
    ids = phenotypes.node_id[nodes]
    order = np.argsort(ids)
    count = edges.stop - edges.start
    out = empty_genomes(1, len(ids), max(1, count))
    out.n_nodes[0], out.n_conns[0] = len(ids), count
    out.node_id[0] = ids[order]
    for gene in GENES:
        column = getattr(out, gene.name)
        if gene.of == NODE:
            column[0] = getattr(phenotypes, gene.name)[nodes][order] if gene.carried else gene.default
        elif gene.of == CONNECTION:
            column[0, :count] = getattr(phenotypes, gene.name)[edges] if gene.carried else gene.default
        elif gene.of in (GENOME, RULE):
            column[0] = getattr(phenotypes, gene.name)[p] if gene.carried else gene.default
    source = phenotypes.source[edges]
    out.source[0, :count] = np.where(source < inputs, -1 - source, ids[np.maximum(source - inputs, 0)])
    into = np.diff(phenotypes.edge_start[nodes.start : nodes.stop + 1])
    out.target[0, :count] = np.repeat(ids, into)
    out.innovation[0, :count] = np.arange(count)
    return out
