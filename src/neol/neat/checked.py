"""Genomes and innovations from a file: what they must be, by the table of genes, before a kernel sees them.

`Population` and `InnovationTable` are groups of `neol.arrays`: an outer loop names them in its `declared`.
Legend: P genomes, N node places, C connection places, H places of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from neol.arrays import Array
from neol.config.sections import MOST_RULES
from neol.neat.genes import CONNECTION, GENES, GENOME, NODE, RULE, STRUCTURE, Gene, Option
from neol.neat.innovation import EMPTY, is_split

LARGEST_ID = 2**30 - 1  # of a node: two of them make a key of the table of innovations


class Population(NamedTuple):
    """Genomes with this many inputs and outputs, as `to_arrays` names them."""

    inputs: int
    outputs: int
    size: int | str = ".P"  # the number of genomes, or a name of it
    least: int = 0  # genomes

    def columns(self) -> dict[str, Array]:
        places: dict[str, tuple[int | str, ...]] = {
            GENOME: (self.size,), RULE: (self.size, MOST_RULES), NODE: (self.size, ".N"), CONNECTION: (self.size, ".C"),
        }  # fmt: skip
        structure = {c: Array("i4", places[of]) for of, columns in STRUCTURE.items() for c in columns}
        structure["n_nodes"] = structure["n_nodes"]._replace(least=self.least)
        return structure | {g.name: _column(g, places[g.of]) for g in GENES}

    def fault(self, arrays: Mapping[str, np.ndarray]) -> str:
        n, c = arrays["n_nodes"], arrays["n_conns"]
        node, source, target, inn = (arrays[k].astype(np.int64) for k in ("node_id", "source", "target", "innovation"))
        if not len(n):
            return ""
        if not ((n >= self.outputs) & (n <= node.shape[1])).all():
            return f"n_nodes must be at least the {self.outputs} outputs, and at most the {node.shape[1]} places"
        if not ((c >= 0) & (c <= source.shape[1])).all():
            return f"n_conns must lie from 0 to the {source.shape[1]} places"
        used = np.arange(node.shape[1]) < n[:, None]  # (P, N)
        if (node[:, : self.outputs] != np.arange(self.outputs)).any():
            return f"every genome must begin with the {self.outputs} outputs, 0 to {self.outputs - 1}"
        if (used[:, 1:] & (np.diff(node, axis=1) <= 0)).any() or (node[used] > LARGEST_ID).any():
            return "ids of nodes must ascend, and lie below 2^30"
        live = np.arange(source.shape[1]) < c[:, None]  # (P, C)
        if (live[:, 1:] & (np.diff(inn, axis=1) <= 0)).any() or (inn[live] < 0).any():
            return "innovations of a genome must ascend from 0"
        if not _known(node, used, target, live).all():
            return "a connection ends at a node that its genome does not have"
        if not (((source >= -self.inputs) & (source < 0)) | _known(node, used, source, live) | ~live).all():
            return (
                f"a connection begins at a node that its genome does not have, nor is one of its {self.inputs} inputs"
            )
        return ""


def _column(gene: Gene, shape: tuple[int | str, ...]) -> Array:
    """A gene's column; a gene with a stream of its own may be newer than the file (genome.from_arrays)."""
    column = Array(gene.kind.dtype, shape, optional=gene.own_stream)
    return column._replace(low=0, high=len(gene.kind.names) - 1) if isinstance(gene.kind, Option) else column


def _known(node: np.ndarray, used: np.ndarray, ids: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Whether each id (P, C) is one of its own genome's nodes i4 (P, N); where it is not live it counts as one."""
    wide = np.int64(2**31)
    genome = np.arange(len(node))[:, None]
    every = (genome * wide + node)[used]  # ascending: rows of the population, ids within
    wanted = genome * wide + ids
    at = np.minimum(np.searchsorted(every, wanted), max(len(every) - 1, 0))
    found = every[at] == wanted if len(every) else np.zeros(ids.shape, bool)
    return (found & (ids >= 0)) | ~live


class InnovationTable(NamedTuple):
    """A table of `neat/innovation.py`; new nodes are numbered from at least `first_node`."""

    first_node: int

    def columns(self) -> dict[str, Array]:
        return {
            "keys": Array("i8", (".H",), least=1), "values": Array("i4", (".H",), low=0),
            "counts": Array("i8", (3,), low=0, high=2**31 - 1),
        }  # fmt: skip

    def fault(self, arrays: Mapping[str, np.ndarray]) -> str:
        keys, values, (conns, nodes, used) = arrays["keys"], arrays["values"], arrays["counts"].tolist()
        taken = keys != EMPTY
        splits = taken & is_split(keys)
        joins = taken & ~splits
        if len(keys) & (len(keys) - 1) or taken.all():
            return "the table's length must be a power of two, with a free place"
        if len(np.unique(keys[taken])) != used or int(taken.sum()) != used:
            return f"the table has {int(taken.sum())} entries, and counts {used}, each once"
        numbered = np.sort(values[joins])
        if int(joins.sum()) != conns or (numbered != np.arange(conns)).any():
            return f"the table's connections must be numbered from 0 to {conns - 1}"
        first = nodes - int(splits.sum())
        if first < self.first_node or (np.sort(values[splits]) != np.arange(first, nodes)).any():
            return f"the table's new nodes must be numbered up to {nodes - 1}, from {self.first_node} on"
        return ""


def check_numbered(arrays: Mapping[str, np.ndarray], genomes: str, table: str) -> str:
    """What is wrong where genomes have nodes or connections that the table has not numbered; '' = nothing."""
    conns, nodes, _ = arrays[f"{table}.counts"].tolist()
    inn, node = arrays[f"{genomes}.innovation"], arrays[f"{genomes}.node_id"]
    live = np.arange(inn.shape[1]) < arrays[f"{genomes}.n_conns"][:, None]
    used = np.arange(node.shape[1]) < arrays[f"{genomes}.n_nodes"][:, None]
    if (inn[live] >= conns).any() or (node[used] >= nodes).any():
        return f"{genomes} has an innovation or a node that {table} has not numbered"
    return ""
