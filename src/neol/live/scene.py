"""What a page needs to draw a network: names, places, and which number of a frame belongs to which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neol.deploy.network_json import Network
from neol.figures.large_network import is_large
from neol.figures.network import lay_out
from neol.figures.style import shown


def drawing(network: Network) -> dict[str, Any]:
    """A network as plain data: nodes with places in 0 .. 1, edges in the order of a frame's weights.

    A network that is too large for lines has no places ("large"): pages say its size instead.
    """
    document, ph = network.document, network.phenotype
    weights = [float(w) for w in ph.weight]
    edges: list[dict[str, Any]] = [
        {"from": a, "to": b, "weight": w}
        for (a, b), w in zip((network.pairs[g] for g in ph.gene), weights, strict=True)
    ]
    out: dict[str, Any] = {"nodes": [], "edges": edges, "large": is_large(document)}
    if out["large"]:
        out |= {"edges": [], "counts": [len(ph.node_id), len(edges)]}
        return out
    graph, at = lay_out(document)
    names = _names(document, graph.layers)
    places = _value_places(network)
    used = {k for e in edges for k in (e["from"], e["to"])}
    xs, ys = (np.array([p[i] for p in at.values()]) for i in range(2))
    for column, keys in enumerate(graph.layers):
        kind = "input" if column == 0 else "output" if column == len(graph.layers) - 1 else "hidden"
        for key in keys:
            x, y = at[key]
            entry = graph.nodes.get(key, {})
            out["nodes"].append({
                "id": key, "kind": kind, "name": names.get(key, ""), "value": places.get(key, -1),
                "x": _part(x, xs), "y": 1.0 - _part(y, ys), "used": key in used or kind == "output",
                "activation": shown(entry.get("activation", {}).get("name", "") if kind != "input" else ""),
            })  # fmt: skip
    for edge in edges:
        edge["forward"] = (edge["from"], edge["to"]) in graph.forward
    out["columns"], out["rows"] = len(graph.layers), max(map(len, graph.layers))
    return out


def _part(value: float, among: np.ndarray) -> float:
    low, high = float(among.min()), float(among.max())
    return round((value - low) / (high - low), 4) if high > low else 0.5


def _names(document: Mapping[str, Any], layers: Sequence[Sequence[int]]) -> dict[int, str]:
    """What inputs and outputs are called."""
    interface = document.get("interface", {})
    given: Mapping[str, Any] = interface if isinstance(interface, Mapping) else {}
    out: dict[int, str] = {}
    for keys, which in ((layers[0], "inputs"), (layers[-1], "outputs")):
        names = given.get(which, ())
        names = names if isinstance(names, list | tuple) else ()
        out |= {k: shown(names[i] if i < len(names) else k) for i, k in enumerate(keys)}
    return out


def _value_places(network: Network) -> dict[int, int]:
    """Node's id in the document -> its place among the values of a frame."""
    ph, n = network.phenotype, len(network.phenotype.node_id)
    topology = network.document["topology"]
    out: dict[int, int] = {key: i for i, key in enumerate(topology["input_keys"])}
    for key, place in zip(topology["output_keys"], ph.output[0], strict=True):
        out.setdefault(int(key), int(place))
    for k in range(n):
        for e in range(ph.edge_start[k], ph.edge_start[k + 1]):
            a, b = network.pairs[ph.gene[e]]
            source = int(ph.source[e])
            out.setdefault(a, source - n if source >= ph.inputs + n else source)
            out.setdefault(b, ph.inputs + k)
    return out
