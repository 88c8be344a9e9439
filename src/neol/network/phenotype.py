"""Genomes -> Phenotypes: only what reaches an output, in evaluation order, incoming edges as CSR.

    genome p      nodes  node_start[p] .. node_start[p+1]   flat, in evaluation order
    node k        edges  edge_start[k] .. edge_start[k+1]   flat, by innovation number; first standard[k] that carry
                                                             signals, then those that come from modulatory nodes
    value row     [ I inputs | n nodes | n nodes one step ago ]      source[e] is an index into it

An edge has the numbers that it learns by, whosever they are in the genome: the connection's, its target's or a rule's.
The last third of the value row exists only for recurrent networks: a backward edge (its source is evaluated at or
after its target) reads there, so that the step kernel needs no special case.
Legend: P genomes, n nodes of one genome, K nodes of all, E edges of all, I inputs, O outputs.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from neol.jit import kernel
from neol.neat.gene_kernels import COLUMN, copy_columns, copy_step, in_turn
from neol.neat.genes import COEFFICIENTS, CONNECTION, FIRST_RULE, GENOME, MODULATORY, NODE, TARGET, genes_of
from neol.neat.genome import Genomes


def _carried(what: str) -> dict[str, str]:
    """Gene -> dtype of the genes that phenotypes have too."""
    return {g.name: g.kind.dtype for g in genes_of(what) if g.carried}


_STARTS = {"node_start": "i8", "edge_start": "i8"}
_EDGES = {"source": "i4", **_carried(CONNECTION), "gene": "i4"}
_NODES = {"node_id": "i4", "standard": "i4", **_carried(NODE)}
_GENOMES = {"output": "i4", "remembers": "?", **_carried(GENOME)}
_FIELDS = (*_STARTS, *_EDGES, *_NODES, *_GENOMES, "inputs")
EDGE_FIELDS, NODE_FIELDS, GENOME_FIELDS = tuple(_EDGES), tuple(_NODES), tuple(_GENOMES)

if TYPE_CHECKING:
    from neol.neat.genes import NamedArrays

    _Columns = NamedArrays
else:
    _Columns = namedtuple("_Columns", _FIELDS)


class Phenotypes(_Columns):
    """Arrays, and the number of inputs. Beside them: the genes that the table calls carried (weight, bias, ...).

    node_start i8 (P+1,), edge_start i8 (K+1,)
    edges (E,): source i4, index into the value row; gene i4, place of the connection in its genome; connections' genes
    nodes (K,): node_id i4; standard i4, how many of its edges carry signals; nodes' genes
    genomes: output i4 (P, O), index into the value row; remembers b1 (P,), has backward edges; genomes' genes (P,)
    """

    __slots__ = ()
    if TYPE_CHECKING:
        inputs: int

    @property
    def size(self) -> int:
        return len(self.node_start) - 1

    def edges(self, p: int) -> slice:
        """The edges of genome p."""
        return slice(int(self.edge_start[self.node_start[p]]), int(self.edge_start[self.node_start[p + 1]]))

    def part(self, first: int, last: int) -> Phenotypes:
        """Genomes first .. last alone."""
        if first == 0 and last == self.size:
            return self
        nodes = slice(int(self.node_start[first]), int(self.node_start[last]))
        edges = slice(int(self.edge_start[nodes.start]), int(self.edge_start[nodes.stop]))
        return self._replace(
            node_start=self.node_start[first : last + 1] - nodes.start,
            edge_start=self.edge_start[nodes.start : nodes.stop + 1] - edges.start,
            **{f: getattr(self, f)[edges] for f in EDGE_FIELDS},
            **{f: getattr(self, f)[nodes] for f in NODE_FIELDS},
            **{f: getattr(self, f)[first:last] for f in GENOME_FIELDS},
        )


def empty_phenotypes(size: int, nodes: int, edges: int, inputs: int, outputs: int) -> Phenotypes:
    """Room for P genomes with so many nodes and edges together; zeros."""
    lengths = dict.fromkeys(EDGE_FIELDS, edges) | dict.fromkeys(NODE_FIELDS, nodes) | dict.fromkeys(GENOME_FIELDS, size)
    shapes = {**lengths, "node_start": size + 1, "edge_start": nodes + 1, "output": (size, outputs)}
    dtypes = {**_STARTS, **_EDGES, **_NODES, **_GENOMES}
    return Phenotypes(*(np.zeros(shapes[name], dtype) for name, dtype in dtypes.items()), inputs)


def compile_phenotypes(g: Genomes, inputs: int, outputs: int, synchronous: bool = False) -> Phenotypes:
    """Compile a population. `synchronous` (neat-python): every edge between nodes reads last step's value."""
    out = empty_phenotypes(len(g.n_nodes), int(g.n_nodes.sum()), int(g.n_conns.sum()), inputs, outputs)
    used_nodes, used_edges = _compile(g, out, outputs, synchronous)
    return out._replace(
        edge_start=out.edge_start[: used_nodes + 1],
        **{f: getattr(out, f)[:used_edges] for f in EDGE_FIELDS},
        **{f: getattr(out, f)[:used_nodes] for f in NODE_FIELDS},
    )


def gene_weights(genomes: Genomes, phenotypes: Phenotypes, weight: np.ndarray) -> np.ndarray:
    """The genomes' weights f8 (P, C) with those of the edges f8 (E,) written over them (lamarckian inheritance)."""
    out = genomes.weight.copy()
    edges = np.diff(phenotypes.edge_start[phenotypes.node_start])
    out[np.repeat(np.arange(phenotypes.size), edges), phenotypes.gene] = weight
    return out


def _carry(genes: dict[str, str]) -> Callable[..., None]:
    """(phenotypes, place there, (genomes, place there)): the value of each of these genes, carried over."""
    return in_turn(copy_step(_FIELDS.index(name), COLUMN[name]) for name in genes)


def _carry_coefficients(prefix: str) -> Callable[..., None]:
    """The same for the numbers of plasticity, of a node or a rule to an edge."""
    return copy_columns([_FIELDS.index(n) for n in COEFFICIENTS], [COLUMN[prefix + n] for n in COEFFICIENTS])


_carry_edge, _carry_node, _carry_genome = (_carry(_carried(what)) for what in (CONNECTION, NODE, GENOME))
_carry_from_node, _carry_from_rule = _carry_coefficients("node_"), _carry_coefficients("rule_")


@kernel
def _compile(g, out, outputs, synchronous):
    """Fill `out`; return how many nodes and edges are used."""
    node, edge = 0, 0
    for p in range(len(g.n_nodes)):
        n, c = g.n_nodes[p], g.n_conns[p]
        source, target = _places(g, p)
        required = _required(n, c, outputs, source, target, g.enabled[p])
        order = _evaluation_order(n, c, outputs, source, target, g.enabled[p], required)
        position = np.full(n, -1, np.int32)
        for k in range(len(order)):
            position[order[k]] = k
        # incoming edges of node k of this genome end at first[k + 1]
        first = np.zeros(len(order) + 1, np.int64)
        for k in range(c):
            if g.enabled[p, k] and required[target[k]]:
                at = position[target[k]]
                first[at + 1] += 1
                out.standard[node + at] += not _is_modulatory(g, p, source[k], outputs)
        for k in range(len(order)):
            first[k + 1] += first[k]
            out.edge_start[node + k + 1] = edge + first[k + 1]
        gates = first[:-1] + out.standard[node : node + len(order)]  # where a node's next modulatory edge goes
        for k in range(c):
            if not (g.enabled[p, k] and required[target[k]]):
                continue
            at = position[target[k]]
            if _is_modulatory(g, p, source[k], outputs):
                e = edge + gates[at]
                gates[at] += 1
            else:
                e = edge + first[at]
                first[at] += 1
            if source[k] < 0:
                out.source[e] = -1 - source[k]
            else:
                backward = synchronous or position[source[k]] >= at
                out.source[e] = out.inputs + position[source[k]] + (len(order) if backward else 0)
                out.remembers[p] |= backward
            out.gene[e] = k
            _carry_edge(out, e, (g, (p, k)))
            if g.pointer[p, k] == TARGET:
                _carry_from_node(out, e, (g, (p, target[k])))
            elif g.pointer[p, k] >= FIRST_RULE:
                _carry_from_rule(out, e, (g, (p, g.pointer[p, k] - FIRST_RULE)))
        for k in range(len(order)):
            out.node_id[node + k] = g.node_id[p, order[k]]
            _carry_node(out, node + k, (g, (p, order[k])))
            if order[k] < outputs:
                out.role[node + k] = 0  # whatever the gene says
        _carry_genome(out, p, (g, p))
        for o in range(outputs):
            out.output[p, o] = out.inputs + position[o]
        node += len(order)
        edge = out.edge_start[node]
        out.node_start[p + 1] = node
    return node, edge


@kernel
def _is_modulatory(g, p, place, outputs):
    """Whether a connection's source, the place of a node gene or an input (< 0), is a modulatory node."""
    return place >= outputs and g.role[p, place] == MODULATORY


@kernel
def _places(g, p):
    """Source and target of each connection as places of node genes; inputs stay negative."""
    n, c = g.n_nodes[p], g.n_conns[p]
    source, target = np.empty(c, np.int32), np.empty(c, np.int32)
    ids = g.node_id[p, :n]
    for k in range(c):
        source[k] = g.source[p, k] if g.source[p, k] < 0 else np.searchsorted(ids, g.source[p, k])
        target[k] = np.searchsorted(ids, g.target[p, k])
    return source, target


@kernel
def _required(n, c, outputs, source, target, enabled):
    """Which node places some output depends on, b1 (n,)."""
    required = np.zeros(n, np.bool_)
    required[:outputs] = True
    changed = True
    while changed:
        changed = False
        for k in range(c - 1, -1, -1):
            if enabled[k] and source[k] >= 0 and required[target[k]] and not required[source[k]]:
                required[source[k]] = True
                changed = True
    return required


@kernel
def _evaluation_order(n, c, outputs, source, target, enabled, required):
    """Required node places, each after the sources of its edges (Kahn 1962).

    Where a cycle leaves none ready, the hidden node with the lowest id goes first, then outputs: a rule that depends
    on the genome alone.
    """
    waiting = np.zeros(n, np.int32)  # unevaluated sources of each node
    for k in range(c):
        if enabled[k] and source[k] >= 0 and required[target[k]]:
            waiting[target[k]] += 1
    order = np.empty(n, np.int32)
    done = np.zeros(n, np.bool_)
    count, seen = 0, 0
    for i in range(n):
        if required[i] and waiting[i] == 0:
            order[count] = i
            done[i] = True
            count += 1
    total = required.sum()
    while count < total or seen < count:
        if seen == count:  # a cycle: break it
            for i in range(n):
                place = (outputs + i) % n
                if required[place] and not done[place]:
                    order[count] = place
                    done[place] = True
                    count += 1
                    break
        node = order[seen]
        seen += 1
        for k in range(c):
            if enabled[k] and source[k] == node and required[target[k]] and not done[target[k]]:
                waiting[target[k]] -= 1
                if waiting[target[k]] == 0:
                    order[count] = target[k]
                    done[target[k]] = True
                    count += 1
    return order[:count]
