"""HyperNEAT's pictures: the substrate with the connections that were painted, and the patterns that its CPPN paints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neol.figures.style import FONT, INK, MUTED, NEGATIVE, POSITIVE, SUFFIXES, AnyPath, save, shown, style
from neol.files import check_suffix, replacing
from neol.network.phenotype import Phenotypes
from neol.substrate.decoder import LEO, WEIGHT, asked, connections_from
from neol.substrate.encoding import Hyperneat
from neol.substrate.layout import Substrate

LINES = 400  # the most connections that are drawn: the strongest
NAMED = 30  # nodes of a layer that have their names
FINE = 61  # dots of a side of a pattern
TARGETS, PANELS = 4, 16  # the most targets of a layer, and pictures in all
SMALL = FONT - 2
LEAN, RISE = 0.45, 0.35  # how a layer's y goes to the right and up, so that layers are seen from the side


def draw_substrate(
    substrate: Substrate,
    network: Phenotypes,
    path: AnyPath,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    title: str = "",
) -> Path:
    """Layers one above the other, inputs below, and the painted connections (P = 1) between their nodes."""
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    at = _seen_from_the_side(substrate)
    sizes = [len(layer) for layer in substrate.layers]
    source, target, weight = _edges(network, sizes)
    order = np.argsort(np.abs(weight), kind="stable")[-LINES:]
    top = float(np.abs(weight).max(initial=1e-12))
    target_path = check_suffix(path, SUFFIXES)
    with replacing(target_path) as part, style():
        figure = Figure(figsize=(7.0, 1.2 + 1.9 * len(sizes)))
        axes = figure.add_axes((0.02, 0.05, 0.96, 0.87))
        axes.set_axis_off()
        colors = [POSITIVE if w > 0 else NEGATIVE for w in weight[order]]
        widths = 0.2 + 1.3 * np.abs(weight[order]) / top
        lines = [(at[a], at[b]) for a, b in zip(source[order], target[order], strict=True)]
        axes.add_collection(LineCollection(lines, colors=colors, linewidths=widths, alpha=0.55))
        axes.scatter(at[:, 0], at[:, 1], s=14, color=INK, zorder=3)
        first = 0
        for i, (size, names) in enumerate(zip(sizes, [inputs, *[()] * (len(sizes) - 2), outputs], strict=True)):
            label = "inputs" if i == 0 else "outputs" if i == len(sizes) - 1 else f"hidden {i}"
            middle = at[first : first + size, 1].mean()
            axes.text(-1.65, middle, f"{label}\n{size}", color=MUTED, ha="right", va="center")
            for k, name in enumerate(names if len(names) <= NAMED else ()):
                x, y = at[first + k]
                axes.text(x + 0.03, y + 0.03, shown(name, 14), size=SMALL, color=INK, zorder=4)
            first += size
        axes.set(xlim=(-2.1, 1.8), ylim=(at[:, 1].min() - 0.15, at[:, 1].max() + 0.2))
        drawn = f", the {len(order)} strongest are drawn" if len(order) < len(weight) else ""
        figure.text(0.02, 0.965, shown(title, 90), va="center", size=FONT + 2)
        legend = f"{len(weight):,} of {substrate.connections:,} possible connections exist{drawn}; blue > 0, orange < 0"
        figure.text(0.02, 0.015, legend, color=MUTED, size=SMALL, va="bottom")
        save(figure, part)
    return target_path


def _seen_from_the_side(substrate: Substrate) -> np.ndarray:
    """Where the nodes are in the picture, f8 (I + K, 2)."""
    parts = []
    for i, layer in enumerate(substrate.layers):
        x, y = layer[:, 0], layer[:, 1]
        parts.append(np.stack([x + LEAN * y, 1.6 * i + RISE * y], axis=1))
    return np.concatenate(parts)


def _edges(network: Phenotypes, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source and target i8 (E,) by their place among the layers' nodes, and weight f8 (E,), of one network."""
    inputs, outputs, hidden = sizes[0], sizes[-1], sum(sizes[1:-1])
    ids = network.node_id.astype(np.int64)
    place = inputs + np.where(ids < outputs, hidden + ids, ids - outputs)
    source = network.source.astype(np.int64)
    source = np.where(source < inputs, source, place[np.maximum(source - inputs, 0)])
    return source, np.repeat(place, np.diff(network.edge_start)), network.weight


def draw_patterns(
    substrate: Substrate, encoding: Hyperneat, cppn: Phenotypes, path: AnyPath, outputs: Sequence[str], title: str = ""
) -> Path:
    """What a CPPN (P = 1) paints into some nodes: their weights from everywhere in each layer that leads to them."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    panels = _panels(substrate, outputs)
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    colors = LinearSegmentedColormap.from_list("paint", [NEGATIVE, "#ffffff", POSITIVE])
    target_path = check_suffix(path, SUFFIXES)
    largest = encoding.reading.largest
    with replacing(target_path) as part, style():
        tall = 0.75 + 1.85 * rows
        figure = Figure(figsize=(0.4 + 1.8 * columns, tall))
        every = figure.subplots(rows, columns, squeeze=False)
        figure.subplots_adjust(left=0.04, right=0.97, bottom=0.1 / tall, top=1.0 - 0.55 / tall, hspace=0.15)
        for axes in every.ravel()[len(panels) :]:
            axes.set_axis_off()
        for axes, (layer, node, name) in zip(every.ravel(), panels, strict=False):
            low, high = substrate.layers[layer][:, :2].min(axis=0), substrate.layers[layer][:, :2].max(axis=0)
            pattern = _pattern(encoding, cppn, float(substrate.layers[layer][0, 2]), node)
            where = {"extent": (-1, 1, -1, 1), "origin": "lower", "interpolation": "nearest"}
            axes.imshow(pattern, cmap=colors, vmin=-largest, vmax=largest, **where)
            inside = substrate.layers[layer]
            axes.scatter(inside[:, 0], inside[:, 1], s=1.5, color=INK, alpha=0.5)
            axes.set_title(shown(name, 34), size=SMALL, color=INK, pad=2)
            span = max(1.05, float(np.abs([low, high]).max()))
            axes.set(xticks=[], yticks=[], xlim=(-span, span), ylim=(-span, span))
        figure.text(0.02, 1.0 - 0.1 / tall, shown(title, 90), va="top", size=FONT + 1)
        save(figure, part)
    return target_path


def _panels(substrate: Substrate, outputs: Sequence[str]) -> list[tuple[int, np.ndarray, str]]:
    """(source layer, the target's place f8 (3,), what is shown) for each picture."""
    last = len(substrate.layers) - 1
    names = ["inputs", *(f"hidden {i}" for i in range(1, last)), "outputs"]
    found = []
    for a, b in sorted(substrate.leads, key=lambda lead: (-lead[1], lead[0])):
        layer = substrate.layers[b]
        chosen = sorted({round(i) for i in np.linspace(0, len(layer) - 1, min(TARGETS, len(layer)))})
        for k in chosen:
            to = outputs[k] if b == last and k < len(outputs) else f"{names[b]}, node {k}"
            found.append((a, layer[k], f"{names[a]} to {to}"))
    return found[:PANELS]


def _pattern(encoding: Hyperneat, cppn: Phenotypes, z: float, node: np.ndarray) -> np.ndarray:
    """The weights f8 (FINE, FINE) from everywhere at height z to a node; 0 where there would be no connection."""
    along = np.linspace(-1.0, 1.0, FINE)
    y, x = np.meshgrid(along, along, indexing="ij")
    position = np.concatenate([np.stack([x.ravel(), y.ravel(), np.full(x.size, z)], axis=1), node[None]])
    source = np.arange(x.size, dtype=np.int32)
    reading = encoding.reading
    answers: Any = asked(cppn, position, reading.ends, source, np.full(x.size, x.size, np.int32))
    leo = answers[:, reading.outputs.index(LEO)] if LEO in reading.outputs else np.empty((0, 0))
    painted = answers[:, reading.outputs.index(WEIGHT)]
    weight, exists = connections_from(painted, leo, reading.threshold, reading.largest)
    return np.where(exists, weight, 0.0).reshape(x.shape)
