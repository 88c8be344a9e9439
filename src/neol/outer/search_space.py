"""A topology as a search space: its searchable genes as one vector, and back.

The vector holds, gene by gene in the order of the table, the values at the places that matter: nodes that an output
depends on, connections that are enabled and lead to one. Legend: n numbers searched, L samples, N, C places.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from neol.config.sections import NeatConfig
from neol.neat.genes import CONNECTION, GENES, GENOME, NODE, RULE, Gene
from neol.neat.genome import Genomes, take
from neol.network.phenotype import compile_phenotypes

FIXED = 1e-9  # room between a gene's bounds up to which it counts as fixed
SEARCHED: tuple[Gene, ...] = tuple(g for g in GENES if g.searchable > 0.0)


class SearchSpace(NamedTuple):
    """Where the numbers of a topology's vector live."""

    topology: Genomes  # P = 1
    gene: np.ndarray  # i4 (n,) index into SEARCHED
    place: np.ndarray  # i4 (n,) place in the genome's column
    key: np.ndarray  # i4 (n,) a node's id, a connection's innovation, else the place: the same in one made from this
    scale: np.ndarray  # f8 (n,) what an evolution strategy's step is multiplied by
    low: np.ndarray  # f8 (n,)
    high: np.ndarray  # f8 (n,)

    @property
    def size(self) -> int:
        return len(self.gene)

    @property
    def widest(self) -> np.ndarray:
        """The standard deviations f8 (n,) beyond which most samples lie at their genes' bounds: 3 on either side.

        A gene whose bounds are one number is not searched, whatever its samples: it has none.
        """
        room = self.high - self.low
        return np.where(room > FIXED, room / 6.0, np.inf)


def search_space(topology: Genomes, config: NeatConfig, inputs: int, outputs: int) -> SearchSpace:
    """The numbers to search of a topology (P = 1)."""
    phenotype = compile_phenotypes(topology, inputs, outputs)
    nodes = np.flatnonzero(np.isin(topology.node_id[0, : topology.n_nodes[0]], phenotype.node_id))
    rules = np.arange(getattr(config, "rules", 0))  # those that a connection may point to
    places = {NODE: nodes, CONNECTION: np.sort(phenotype.gene), RULE: rules, GENOME: np.zeros(1, np.int64)}
    named = {NODE: topology.node_id, CONNECTION: topology.innovation}
    rows: list[tuple[np.ndarray, ...]] = []
    for i, gene in enumerate(SEARCHED):
        if not gene.on(config):
            continue
        at = places[gene.of]
        keys = named[gene.of][0, at] if gene.of in named else at
        limits: Any = gene.kind.settings(gene.name, config)
        rows.append(
            (np.full(len(at), i), at, keys, *(np.full(len(at), v) for v in (gene.searchable, limits.low, limits.high)))
        )
    gene_, place, key, scale, low, high = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    whole = [a.astype(np.int32) for a in (gene_, place, key)]
    return SearchSpace(take(topology, [0]), whole[0], whole[1], whole[2], scale, low, high)


def unit_size(config: NeatConfig, inputs: int, outputs: int) -> int:
    """How many numbers a node adds that reads all inputs and leads to all outputs."""
    of = [gene.of for gene in SEARCHED if gene.on(config)]
    return of.count(NODE) + of.count(CONNECTION) * (inputs + outputs)


def to_vectors(space: SearchSpace, genomes: Genomes) -> np.ndarray:
    """The searched numbers f8 (L, n) of genomes that have this topology."""
    out = np.empty((len(genomes.n_nodes), space.size))
    for i, gene in enumerate(SEARCHED):
        mine = space.gene == i
        column = getattr(genomes, gene.name).reshape(len(out), -1)
        out[:, mine] = column[:, space.place[mine]]
    return out


def to_genomes(space: SearchSpace, vectors: np.ndarray) -> Genomes:
    """The topology with each of these vectors f8 (L, n), kept within the genes' bounds."""
    out = take(space.topology, np.zeros(len(vectors), np.int64))
    bounded = np.clip(vectors, space.low, space.high)
    for i, gene in enumerate(SEARCHED):
        mine = space.gene == i
        getattr(out, gene.name).reshape(len(vectors), -1)[:, space.place[mine]] = bounded[:, mine]
    return out


def same_numbers(new: SearchSpace, old: SearchSpace) -> np.ndarray:
    """For each number of `new` its index in `old`, or -1: i8 (n,)."""
    where = {(g, k): i for i, (g, k) in enumerate(zip(old.gene.tolist(), old.key.tolist(), strict=True))}
    pairs = zip(new.gene.tolist(), new.key.tolist(), strict=True)
    return np.array([where.get(pair, -1) for pair in pairs], np.int64)
