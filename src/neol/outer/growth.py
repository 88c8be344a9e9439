"""Structural mutations that keep what a network computes: its function is the same, its search space is another.

    connect   a connection that was not there, with weight 0
    split     a node on a connection: it passes its source on, with weight 0 to its target
    unit      a hidden node that reads all inputs and leads to all outputs, with weight 0
    prune     the connection whose weight is nearest to 0, measured in the spread of the search, is removed; or a node
              that matters as little, with all its connections: nearly the same function

All on one genome (P = 1). Of a feed-forward network the function stays the same to the bit (not that of a split or
pruned recurrent one, whose order of evaluation may change). Legend: I inputs, O outputs, n numbers searched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neol import seeding
from neol.config.schema import Evolution
from neol.config.sections import NeatConfig
from neol.neat.genes import CONNECTION, GENES, NODE, ROLES, RULE, STRUCTURE, genes_of
from neol.neat.genome import Genomes, take, widen
from neol.neat.innovation import Innovations, connection_innovation, ensure_capacity, split_node
from neol.neat.pointers import POINTER, drawn_pointers

CONNECT, SPLIT, UNIT, PRUNE = "connect", "split", "unit", "prune"


def usual(gene_name: str, config: NeatConfig) -> float:
    """What a gene of a new node or connection is: its settings' mean or default; weights and biases are 0.

    Coefficients of plasticity are 0 too, so that a new connection does not learn before the search makes it; but one
    that points to a rule, or to a node that learns, does so at once.
    """
    gene = next(g for of in (RULE, NODE, CONNECTION) for g in genes_of(of) if g.name == gene_name)
    if not gene.on(config):
        return float(gene.default)
    if gene.switch and gene.searchable:
        coefficients = any(group.endswith(("abcd", "adaptive")) for group in getattr(config, "evolved", ()))
        return 1.0 if gene.key == "rate" and coefficients else 0.0
    if gene.searchable:
        return float(gene.default) if gene.name not in ("weight", "bias") else 0.0
    how: Any = gene.kind.settings(gene.name, config)
    default = getattr(how, "mean", getattr(how, "default", gene.kind.usual))
    return float(how.options[0]) if default == -1 and hasattr(how, "options") else float(abs(default))


def with_node(g: Genomes, node: int, config: NeatConfig) -> Genomes:
    """The genome with one node more, in its place by id."""
    n = int(g.n_nodes[0])
    g = take(widen(g, n + 1, 0), [0])
    at = int(np.searchsorted(g.node_id[0, :n], node))
    for name in (*STRUCTURE[NODE], *(x.name for x in genes_of(NODE))):
        row = getattr(g, name)[0]
        row[at + 1 : n + 1] = row[at:n]
        row[at] = node if name == "node_id" else usual(name, config)
    g.n_nodes[0] = n + 1
    return g


def with_connection(
    g: Genomes, source: int, target: int, weight: float, innovations: Innovations, config: Evolution, rng: np.ndarray
) -> Genomes:
    """The genome with one connection more, in its place by innovation; what it points to is drawn from `rng`."""
    n = int(g.n_conns[0])
    g = take(widen(g, 0, n + 1), [0])
    number = int(connection_innovation(innovations, source, target))
    at = int(np.searchsorted(g.innovation[0, :n], number))
    new = {"innovation": number, "source": source, "target": target, "weight": weight, "enabled": True}
    if POINTER.on(config):
        new["pointer"] = int(drawn_pointers(1, config, rng)[0])
    for name in (*STRUCTURE[CONNECTION], *(x.name for x in genes_of(CONNECTION))):
        row = getattr(g, name)[0]
        row[at + 1 : n + 1] = row[at:n]
        row[at] = new[name] if name in new else usual(name, config)
    g.n_conns[0] = n + 1
    return g


def without(g: Genomes, nodes: set[int], connections: set[int]) -> Genomes:
    """The genome without these nodes (ids) and connections (places), and without those that touch such a node."""
    out = take(g, [0])
    ends = np.stack([g.source[0], g.target[0]])
    gone = np.asarray(np.isin(ends, list(nodes)).any(axis=0))
    gone[list(connections)] = True
    keep = np.flatnonzero(~gone[: g.n_conns[0]])
    stay = np.flatnonzero(~np.isin(g.node_id[0, : g.n_nodes[0]], list(nodes)))
    for of, places in ((NODE, stay), (CONNECTION, keep)):
        for name in (*STRUCTURE[of], *(x.name for x in genes_of(of))):
            old, new = getattr(g, name)[0], getattr(out, name)[0]
            new[:] = 0
            new[: len(places)] = old[places]
    out.n_nodes[0], out.n_conns[0] = len(stay), len(keep)
    return out


def leads_to(g: Genomes, start: int, goal: int) -> bool:
    """Whether connections lead from one node to another."""
    n = int(g.n_conns[0])
    pairs = list(zip(g.source[0, :n].tolist(), g.target[0, :n].tolist(), strict=True))
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        if here == goal:
            return True
        new = {t for s, t in pairs if s == here} - seen
        seen |= new
        todo += new
    return False


def open_pairs(g: Genomes, inputs: int, feed_forward: bool) -> list[tuple[int, int]]:
    """Connections that could be added, as (source, target)."""
    nodes = g.node_id[0, : g.n_nodes[0]].tolist()
    n = int(g.n_conns[0])
    there = set(zip(g.source[0, :n].tolist(), g.target[0, :n].tolist(), strict=True))
    pairs = [(s, t) for s in [*range(-1, -inputs - 1, -1), *nodes] for t in nodes if (s, t) not in there]
    return [(s, t) for s, t in pairs if not feed_forward or not leads_to(g, t, s)]


def grown(
    g: Genomes, kind: str, innovations: Innovations, config: Evolution, inputs: int, outputs: int, rng: np.ndarray
) -> tuple[Genomes, Innovations] | None:
    """A genome with one addition of that kind, drawn from the stream `rng`; None where there is no place for it."""
    innovations = ensure_capacity(innovations, inputs + outputs + 4)
    if kind == CONNECT:
        pairs = open_pairs(g, inputs, config.feed_forward)
        if not pairs:
            return None
        source, target = pairs[seeding.below(rng, len(pairs))]
        return with_connection(g, source, target, 0.0, innovations, config, rng), innovations
    if kind == SPLIT:
        if g.n_conns[0] == 0:
            return None
        at = seeding.below(rng, int(g.n_conns[0]))
        source, target = int(g.source[0, at]), int(g.target[0, at])
        node = _new_node(g, innovations, int(g.innovation[0, at]))
        g = _with_role(with_node(g, node, config), node, config, rng)
        g = with_connection(g, source, node, 1.0, innovations, config, rng)
        return with_connection(g, node, target, 0.0, innovations, config, rng), innovations
    node = _new_node(g, innovations, 2**30)  # UNIT: no connection is split
    g = _with_role(with_node(g, node, config), node, config, rng)
    for source in range(-1, -inputs - 1, -1):
        weight = float(seeding.normal(rng)) / inputs**0.5
        g = with_connection(g, source, node, weight, innovations, config, rng)
    for target in range(outputs):
        g = with_connection(g, node, target, 0.0, innovations, config, rng)
    return g, innovations


def _with_role(g: Genomes, node: int, config: NeatConfig, rng: np.ndarray) -> Genomes:
    """A new node may be of any role, where there are several."""
    (gene,) = (x for x in GENES if x.name == "role")
    if gene.on(config):
        g.role[0, np.searchsorted(g.node_id[0, : g.n_nodes[0]], node)] = seeding.below(rng, len(ROLES))
    return g


def _new_node(g: Genomes, innovations: Innovations, innovation: int) -> int:
    """The id of the node that splits that connection, the first that this genome has not got."""
    have, repeat = set(g.node_id[0, : g.n_nodes[0]].tolist()), 0
    while (node := int(split_node(innovations, innovation, repeat))) in have:
        repeat += 1
    return node


def pruned(g: Genomes, importance: np.ndarray, outputs: int) -> Genomes | None:
    """Without the least important of its connections, importance f8 (n_conns,); None where that leaves nothing.

    A hidden node that has lost its last input or output goes with it.
    """
    if g.n_conns[0] < 2:
        return None
    g = without(g, set(), {int(np.argmin(importance))})
    while True:
        n = int(g.n_conns[0])
        hidden = {int(i) for i in g.node_id[0, : g.n_nodes[0]] if i >= outputs}
        idle = hidden - (set(g.source[0, :n].tolist()) & set(g.target[0, :n].tolist()))
        if not idle:
            return g
        g = without(g, idle, set())
