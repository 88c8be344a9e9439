"""neat-python's network JSON 1.0 <-> genomes. Our files add two objects that other readers may ignore:

"plasticity": the rule and all its settings        "interface": what inputs and outputs are called, and the action
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from neol.config.sections import MOST_RULES, PlasticityConfig
from neol.errors import NeolError
from neol.files import read_text
from neol.neat.genes import (
    CONNECTION,
    FIRST_RULE,
    GENOME,
    MODULATORY,
    NODE,
    POINTERS,
    RULE,
    Gene,
    gene_from_json,
    gene_to_json,
    genes_of,
)
from neol.neat.genome import Genomes, empty_genomes
from neol.network.phenotype import Phenotypes, compile_phenotypes

FORMAT_VERSION = "1.0"
GENERATOR = "neol"  # whose recurrent networks read backward edges one step late; neat-python's, all edges
LARGEST_ID = 2**31 - 1


class Network(NamedTuple):
    """A checked network document as one genome."""

    document: dict[str, Any]
    phenotype: Phenotypes  # one genome
    genome: Genomes  # it, with nodes and connections numbered in their order
    pairs: list[tuple[int, int]]  # (from id, to id) of each connection gene, in the document's ids

    @property
    def inputs(self) -> int:
        return self.phenotype.inputs

    @property
    def outputs(self) -> int:
        return self.phenotype.output.shape[1]


def to_document(
    phenotypes: Phenotypes, genomes: Genomes, p: int, recurrent: bool, evolved: Sequence[str] = (), rules: int = 0
) -> dict[str, Any]:
    """Genome p as a document: the nodes and enabled connections that reach an output.

    evolved: the groups of plasticity's genes that are written (`Gene.switch`). rules: how many its connections share.
    """
    inputs, outputs = phenotypes.inputs, phenotypes.output.shape[1]
    nodes, connections = [], []

    def genes(what: str, carried: Any, place: Any) -> dict[str, Any]:
        """The genes of one place: as the phenotype has them, else as the genome has."""
        found = [g for g in genes_of(what) if not g.switch or g.switch in evolved]
        values = {g.name: getattr(phenotypes, g.name)[carried] for g in found if g.carried}
        values |= {g.name: getattr(genomes, g.name)[place] for g in found if not g.carried}
        return gene_to_json(found, values)

    ids = genomes.node_id[p, : genomes.n_nodes[p]]
    for k in range(phenotypes.node_start[p], phenotypes.node_start[p + 1]):
        node = int(phenotypes.node_id[k])
        kind = "output" if node < outputs else "hidden"
        nodes.append({"id": node, "type": kind, **genes(NODE, k, (p, np.searchsorted(ids, node)))})
        for e in range(phenotypes.edge_start[k], phenotypes.edge_start[k + 1]):
            place = p, phenotypes.gene[e]
            connections.append({"from": int(genomes.source[place]), "to": node, **genes(CONNECTION, e, place)})
    nodes += [_input_node(-1 - i) for i in range(inputs)]
    document = {
        "format_version": FORMAT_VERSION,
        "network_type": "recurrent" if recurrent else "feedforward",
        "metadata": {"generator": GENERATOR},
        "topology": {
            "num_inputs": inputs,
            "num_outputs": outputs,
            "input_keys": [-1 - i for i in range(inputs)],
            "output_keys": list(range(outputs)),
        },
        "nodes": nodes,
        "connections": connections,
    }
    if rules and "pointer" in evolved:
        document["rules"] = [genes(RULE, None, (p, k)) for k in range(rules)]
    whole = genes(GENOME, p, p)
    return {**document, "genes": whole} if whole else document


def plasticity_to_json(settings: PlasticityConfig) -> dict[str, Any]:
    """A document's `plasticity`: an infinite limit is null; what is newer than the format only where it is used."""
    names = [f.name for f in dataclasses.fields(PlasticityConfig)]
    newer = {n for n in names[names.index("inheritance") + 1 :] if getattr(settings, n) == getattr(PlasticityConfig, n)}
    kept = {k: v for k, v in dataclasses.asdict(settings).items() if k not in newer}
    return {k: None if v == math.inf else v for k, v in kept.items()}


def _input_node(node: int) -> dict[str, Any]:
    """An input as neat-python writes it."""
    functions = {"activation": {"name": "identity", "custom": False}, "aggregation": {"name": "none", "custom": False}}
    return {"id": node, "type": "input", **functions, "bias": 0.0, "response": 1.0}


def dump(document: Mapping[str, Any]) -> str:
    try:
        return json.dumps(document, indent=1, allow_nan=False) + "\n"
    except (ValueError, TypeError) as e:
        raise NeolError(f"the network cannot be written as JSON: {e}.") from None


def read_document(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The JSON object of a file or dict, and a name for messages."""
    if isinstance(source, Mapping):
        return dict(source), "network"
    name = f"'{source}'"
    try:
        document = json.loads(read_text(source), parse_constant=_no_constant)
    except OSError as e:
        raise NeolError(f"cannot read {name}: {e.strerror}.") from None
    except (ValueError, TypeError, RecursionError) as e:
        raise NeolError(f"{name} is not a network file: {e}.") from None
    if not isinstance(document, dict):
        raise NeolError(f"{name} is not a network file: it must hold a JSON object.")
    return document, name


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def parse(source: str | os.PathLike[str] | Mapping[str, Any]) -> Network:
    """Read and check a network; every fault is a NeolError that says where."""
    document, name = read_document(source)
    try:
        return _parse(document, name)
    except (KeyError, TypeError, AttributeError, OverflowError) as e:
        what = f"missing {e}" if isinstance(e, KeyError) else str(e)
        raise NeolError(f"{name} is not a network in format {FORMAT_VERSION}: {what}.") from None


def _parse(document: dict[str, Any], name: str) -> Network:
    version, kind = document.get("format_version"), document.get("network_type")
    if version != FORMAT_VERSION:
        raise NeolError(
            f"{name} has format_version {version!r}; it must be '{FORMAT_VERSION}': write it anew with `neol export` "
            "of the NEOL that made it."
        )
    if kind not in ("feedforward", "recurrent"):
        raise NeolError(f"{name} has network_type {kind!r}; it must be feedforward or recurrent.")
    if not isinstance(document.setdefault("metadata", {}), dict):
        raise NeolError(f"{name} has metadata that is not a JSON object.")
    inputs, outputs = (_ids(document["topology"], key, name) for key in ("input_keys", "output_keys"))
    every = [(_integer(n["id"], "node id", name), n) for n in document["nodes"]]
    listed = [(i, n) for i, n in every if n["type"] != "input"]
    nodes = dict(listed)
    if len(nodes) < len(listed):
        twice = Counter(i for i, _ in listed).most_common(1)[0][0]
        raise NeolError(f"{name} has node {twice} twice.")
    missing = [o for o in outputs if o not in nodes]
    if missing:
        raise NeolError(f"{name} has no node {missing[0]}, which output_keys names.")
    order = [*outputs, *sorted(nodes.keys() - set(outputs))]
    place = {node: i for i, node in enumerate(order)} | {node: -1 - i for i, node in enumerate(inputs)}
    connections = _connections(document["connections"], place, name)
    genomes = empty_genomes(1, len(order), max(1, len(connections)))
    genomes.n_nodes[0], genomes.n_conns[0] = len(order), len(connections)
    _fill(genomes, 0, genes_of(GENOME), document.get("genes", {}), "the genome", name)
    rules = _rules(document.get("rules", []), name)
    for k in range(MOST_RULES):
        _fill(genomes, (0, k), genes_of(RULE), rules[k] if k < len(rules) else {}, f"rule {1 + k}", name)
    for i, node in enumerate(order):
        genomes.node_id[0, i] = i
        _fill(genomes, (0, i), genes_of(NODE), nodes[node], f"node {node}", name)
        if node in outputs and genomes.role[0, i] == MODULATORY:
            raise NeolError(f"{name} has role 'modulatory' at node {node}; an output must be standard.")
    for i, ((source, target), connection) in enumerate(connections.items()):
        genomes.innovation[0, i], genomes.source[0, i], genomes.target[0, i] = i, place[source], place[target]
        _fill(genomes, (0, i), genes_of(CONNECTION), connection, f"{source} -> {target}", name)
        if (pointer := genomes.pointer[0, i]) >= FIRST_RULE + len(rules):
            raise NeolError(
                f"{name} has rule '{POINTERS[pointer]}' at {source} -> {target}, but only {len(rules)} rules."
            )
    synchronous = kind == "recurrent" and document["metadata"].get("generator") != GENERATOR
    phenotype = compile_phenotypes(genomes, len(inputs), len(outputs), synchronous)
    if kind == "feedforward" and phenotype.remembers[0]:
        raise NeolError(f"{name} has a cycle, which a feedforward network must not; network_type must be recurrent.")
    return Network(document, phenotype, genomes, list(connections))


def _ids(topology: Mapping[str, Any], key: str, name: str) -> list[int]:
    ids = [_integer(i, key, name) for i in topology[key]]
    if not ids or len(set(ids)) < len(ids):
        raise NeolError(f"{name} has {key} = {ids}; it must be a list of different node ids.")
    return ids


def _rules(listed: Any, name: str) -> list[Any]:
    """The rules that connections share, as the document has them."""
    if not isinstance(listed, list) or len(listed) > MOST_RULES or not all(isinstance(r, Mapping) for r in listed):
        raise NeolError(f"{name} has rules that are not a list of at most {MOST_RULES} JSON objects.")
    return listed


def _connections(listed: Any, place: Mapping[int, int], name: str) -> dict[tuple[int, int], Any]:
    """(from, to) -> the connection, each checked for where it goes."""
    out: dict[tuple[int, int], Any] = {}
    for c in listed:
        pair = (_integer(c["from"], "from", name), _integer(c["to"], "to", name))
        for node in pair:
            if node not in place:
                raise NeolError(f"{name} has a connection {pair[0]} -> {pair[1]}, but no node {node}.")
        if place[pair[1]] < 0:
            raise NeolError(f"{name} has a connection {pair[0]} -> {pair[1]}, which ends at an input.")
        if pair in out:
            raise NeolError(f"{name} has the connection {pair[0]} -> {pair[1]} twice.")
        out[pair] = c
    return out


def _fill(g: Genomes, at: Any, genes: Sequence[Gene], found: Any, where: str, name: str) -> None:
    """These genes of place `at`, from what the document has there."""
    for gene, value in gene_from_json(genes, found, where, name).items():
        getattr(g, gene)[at] = value


def _integer(value: Any, what: str, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST_ID:
        raise NeolError(f"{name} has {what} = {value!r}; it must be a whole number below 2^31.")
    return value


def with_weights(network: Network, weight: np.ndarray) -> dict[str, Any]:
    """The document with these edge weights f8 (E,) in place of its own."""
    if "connections" not in network.document:
        raise NeolError(f"this network cannot be written: it was painted with {len(weight):,} connections, in memory.")
    new = {network.pairs[g]: float(w) for g, w in zip(network.phenotype.gene, weight, strict=True)}
    connections = [{**c, "weight": new.get((c["from"], c["to"]), c["weight"])} for c in network.document["connections"]]
    return {**network.document, "connections": connections}
