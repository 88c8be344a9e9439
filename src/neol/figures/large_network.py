"""A network too large for lines: heat maps by layer, and a list of what is strongest in it (SVG or PNG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.figures.style import FONT, INK, MUTED, NEGATIVE, POSITIVE, save

CONNECTIONS, NODES = 600, 300  # a network with more of either is drawn here
CELLS = 240  # the most cells of a side of the hidden layers together; inputs and outputs have as many each
BANDS = 12  # the most hidden bands; more layers share them
LISTED = 12  # connections that are named
SMALL, NONE = 7.5, "#e6e6e6"  # small text in points; the colour of a cell without a connection
LETTER = 0.068  # inches that a letter of small text takes, about
WIDE, HIGH, LIST, LEFT, TOP = 6.2, 5.6, 3.6, 1.4, 0.85  # inches: maps at most, the list, left of the maps, above them


class Wires(NamedTuple):
    """The enabled connections; nodes by their place: inputs, hidden in the order of their ids, outputs."""

    source: np.ndarray  # i4 (C,)
    target: np.ndarray  # i4 (C,)
    weight: np.ndarray  # f8 (C,)


class Band(NamedTuple):
    """Nodes that lie beside each other in the heat maps, in `cells` groups of about the same size."""

    name: str
    nodes: np.ndarray  # i8 (n,) places
    cells: int


def is_large(network: Mapping[str, Any]) -> bool:
    nodes = max(len(network["nodes"]), len(network["topology"]["input_keys"]))
    return nodes > NODES or sum(c.get("enabled", True) for c in network["connections"]) > CONNECTIONS


def depths(inputs: int, hidden: int, outputs: int, wires: Wires) -> np.ndarray:
    """The longest path from the inputs to each node, i4 (N,); an output's is 0. A cycle is cut at a node of its own."""
    n, inner = inputs + hidden + outputs, inputs + hidden
    forward = (wires.target >= inputs) & (wires.target < inner) & (wires.source < inner)
    order = np.flatnonzero(forward)[np.argsort(wires.source[forward], kind="stable")]
    goals, first = wires.target[order], np.searchsorted(wires.source[order], np.arange(inner + 1))
    waiting = np.bincount(goals, minlength=n)
    depth, done = np.zeros(n, np.int32), np.zeros(inner, bool)
    depth[inputs:inner] = 1
    front = np.flatnonzero(waiting[:inner] == 0)
    while not done.all():
        if not len(front):
            rest = np.flatnonzero(~done)
            front = rest[[np.argmin(waiting[rest])]]
        done[front] = True
        edges = np.concatenate([np.arange(first[k], first[k + 1]) for k in front])
        sources = np.repeat(front, first[front + 1] - first[front])
        open_ = ~done[goals[edges]]
        reached = goals[edges][open_]
        np.maximum.at(depth, reached, depth[sources[open_]] + 1)
        np.subtract.at(waiting, reached, 1)
        reached = np.unique(reached)
        front = reached[waiting[reached] == 0]
    return depth


def bands(inputs: int, hidden: int, outputs: int, depth: np.ndarray) -> list[Band]:
    """Inputs, hidden nodes by their depth, outputs; each with its cells."""
    inner = np.arange(inputs, inputs + hidden)
    levels = np.unique(depth[inner])
    groups = [g for g in np.array_split(levels, min(BANDS, len(levels)) or 1) if len(g)]
    share = min(1.0, CELLS / max(hidden, 1))
    out = [Band("inputs", np.arange(inputs), min(inputs, CELLS))]
    for i, group in enumerate(groups):
        members = inner[np.isin(depth[inner], group)]
        members = members[np.argsort(depth[members], kind="stable")]
        last = int(np.searchsorted(levels, group[-1])) + 1
        name = f"hidden {last}" if len(group) == 1 else f"hidden {last + 1 - len(group)}\u2013{last}"
        name = "hidden" if len(groups) == 1 and i == 0 and len(group) == 1 else name
        out.append(Band(name, members, max(1, int(share * len(members)))))
    return [*out, Band("outputs", np.arange(inputs + hidden, inputs + hidden + outputs), min(outputs, CELLS))]


def matrix(wires: Wires, rows: list[Band], columns: list[Band], n: int) -> np.ndarray:
    """The strongest weight of each cell f8 (row cells, column cells); nan = no connection."""
    at = {}
    for which, side in (("row", rows), ("column", columns)):
        cell, begin = np.full(n, -1), 0
        for band in side:
            cell[band.nodes] = begin + np.arange(len(band.nodes)) * band.cells // max(len(band.nodes), 1)
            begin += band.cells
        at[which] = (cell, begin)
    row, column = at["row"][0][wires.source], at["column"][0][wires.target]
    order = np.argsort(np.abs(wires.weight), kind="stable")
    order = order[(row[order] >= 0) & (column[order] >= 0)]
    cells = np.full((at["row"][1], at["column"][1]), np.nan)
    cells[row[order], column[order]] = wires.weight[order]  # of several the last, which is the strongest
    return cells


def read_wires(network: Mapping[str, Any]) -> tuple[list[int], list[int], list[int], Wires]:
    """(inputs, hidden, outputs) as ids, and the connections between their places."""
    inputs, outputs = list(network["topology"]["input_keys"]), list(network["topology"]["output_keys"])
    hidden = sorted({n["id"] for n in network["nodes"]} - {*inputs, *outputs})
    place = {k: i for i, k in enumerate([*inputs, *hidden, *outputs])}
    listed = [c for c in network["connections"] if c.get("enabled", True)]
    source, target = (np.fromiter((place[c[end]] for c in listed), np.int32, len(listed)) for end in ("from", "to"))
    weight = np.fromiter((c["weight"] for c in listed), np.float64, len(listed))
    return inputs, hidden, outputs, Wires(source, target, weight)


def draw_large(
    network: Mapping[str, Any], part: Path, inputs: Sequence[str], outputs: Sequence[str], title: str
) -> None:
    """The figure, into a file; in a `style()`."""
    from matplotlib.figure import Figure

    ids_in, ids_hidden, ids_out, wires = read_wires(network)
    sizes = len(ids_in), len(ids_hidden), len(ids_out)
    names = [*_named(ids_in, inputs), *(f"node {k}" for k in ids_hidden), *_named(ids_out, outputs)]
    layers = bands(*sizes, depths(*sizes, wires))
    recurrent = bool((wires.source >= sum(sizes[:2])).any())
    rows, columns = [b for b in (layers if recurrent else layers[:-1]) if b.cells], [b for b in layers[1:] if b.cells]
    cells = matrix(wires, rows, columns, len(names))
    (xs, wide), (ys, high) = _edges(columns, LEFT, WIDE, 0.6), _edges(rows, TOP, HIGH, 0.2)
    width = max(LEFT + wide + LIST, 6.9, 0.1 * len(title) + 0.3)
    height = TOP + max(high, 4.4) + 0.75
    figure = Figure(figsize=(width, height))
    page = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    page.axis("off")
    page.text(0.15, 0.25, title, va="center", size=FONT + 2)
    top = float(np.nanmax(np.abs(cells), initial=0.0)) or 1.0
    _draw_cells(page, cells, (rows, ys), (columns, xs), top)
    _draw_row_names(page, rows, ys, names)
    _draw_column_names(page, columns, xs, names)
    _draw_lists(page, LEFT + wide + 0.35, wires, names, top)
    shown = _what_is_shown(rows, columns, wires, sum(sizes))
    page.text(0.15, height - 0.3, shown, size=SMALL, color=MUTED, va="center")
    page.set(xlim=(0, width), ylim=(height, 0), aspect="auto")  # pictures have changed them
    save(figure, part)


def _named(ids: Sequence[int], given: Sequence[str]) -> list[str]:
    return [str(given[i]) if i < len(given) else str(k) for i, k in enumerate(ids)]


def _edges(side: list[Band], start: float, most: float, cell: float) -> tuple[np.ndarray, float]:
    """Where each band begins and ends in inches f8 (n, 2), with a gap between, and how long they are together."""
    gap = 0.07
    length = np.array([np.clip(cell * b.cells, 0.3, 4.0) for b in side])
    length *= min(1.0, (most - gap * (len(side) - 1)) / length.sum())
    begin = start + np.concatenate([[0.0], np.cumsum(length + gap)[:-1]])
    return np.stack([begin, begin + length], axis=1), float(begin[-1] + length[-1] - start)


def _colors() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weight", [NEGATIVE, "white", POSITIVE]).with_extremes(bad=NONE)


def _draw_cells(page: Any, cells: np.ndarray, rows: tuple[Any, Any], columns: tuple[Any, Any], top: float) -> None:
    """One picture for each pair of bands."""
    from matplotlib.patches import Rectangle

    i = 0
    for row, (y0, y1) in zip(*rows, strict=True):
        j = 0
        for column, (x0, x1) in zip(*columns, strict=True):
            block = cells[i : i + row.cells, j : j + column.cells]
            _picture(page, block, (x0, x1, y1, y0), top)
            page.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, ec=MUTED, lw=0.5))
            j += column.cells
        i += row.cells


def _picture(page: Any, block: np.ndarray, extent: tuple[float, float, float, float], top: float) -> None:
    page.imshow(
        np.ma.masked_invalid(block), cmap=_colors(), vmin=-top, vmax=top, extent=extent, aspect="auto",
        interpolation="none",
    )  # fmt: skip


def _draw_row_names(page: Any, rows: list[Band], ys: np.ndarray, names: list[str]) -> None:
    """A name for each node where there is room, else for each band."""
    page.text(0.15, TOP - 0.09, "from", size=SMALL, color=MUTED, va="center")
    for band, (y0, y1) in zip(rows, ys, strict=True):
        step = (y1 - y0) / len(band.nodes)
        single = [(names[k], y0 + (i + 0.5) * step) for i, k in enumerate(band.nodes[: CELLS * (step >= 0.13)])]
        for text, y in single or [(f"{band.name} ({len(band.nodes):,})", (y0 + y1) / 2)]:
            page.text(LEFT - 0.07, y, _short(text, 18), size=SMALL, ha="right", va="center")


def _draw_column_names(page: Any, columns: list[Band], xs: np.ndarray, names: list[str]) -> None:
    """A name for each node where there is room, else for each band, else none."""
    page.text(LEFT, TOP - 0.3, "to", size=SMALL, color=MUTED, va="center")
    for band, (x0, x1) in zip(columns, xs, strict=True):
        step, letters = (x1 - x0) / len(band.nodes), int((x1 - x0 + 0.1) / LETTER)
        if step >= 0.4:
            for i, k in enumerate(band.nodes):
                word = _short(names[k], int(step / LETTER))
                page.text(x0 + (i + 0.5) * step, TOP - 0.09, word, size=SMALL, ha="center", va="center")
            continue
        brief = "out" if band.name == "outputs" else band.name.removeprefix("hidden ")
        words = (f"{band.name} ({len(band.nodes):,})", band.name, brief)
        fits = [w for w in words if len(w) <= letters]
        if fits:
            page.text((x0 + x1) / 2, TOP - 0.09, fits[0], size=SMALL, ha="center", va="center")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _number(value: float) -> str:
    text = f"{abs(value):,.0f}" if abs(value) >= 1000 else f"{abs(value):#.3g}"
    return f"\u2212{text}" if value < 0 else text


def _draw_lists(page: Any, x: float, wires: Wires, names: list[str], top: float) -> None:
    """The colours' key, the strongest connections, and the nodes with most weight around them."""
    from matplotlib.patches import Rectangle

    y = TOP + 0.07
    _picture(page, np.linspace(-top, top, 64)[None, :], (x, x + 1.2, y + 0.065, y - 0.065), top)
    small: dict[str, Any] = {"size": SMALL, "color": MUTED, "va": "center"}
    page.text(x, y + 0.17, _number(-top), **small)
    page.text(x + 1.2, y + 0.17, _number(top), ha="right", **small)
    page.text(x + 0.6, y + 0.17, "weight", ha="center", **small)
    page.add_patch(Rectangle((x + 1.6, y - 0.065), 0.25, 0.13, color=NONE, lw=0))
    page.text(x + 1.92, y, "no connection", **small)
    strength, n = np.abs(wires.weight), len(names)
    chosen = np.argsort(-strength, kind="stable")[:LISTED]
    pairs = [(names[wires.source[e]], names[wires.target[e]], wires.weight[e]) for e in chosen]
    lines = [(f"{_short(a, 22)} \u2192 {_short(b, 16)}", _number(w)) for a, b, w in pairs]
    y = _table(page, x, y + 0.5, f"The {len(lines)} strongest connections", "weight", lines)
    around = np.bincount(wires.source, strength, n) + np.bincount(wires.target, strength, n)
    ends = np.bincount(wires.source, minlength=n) + np.bincount(wires.target, minlength=n)
    busy = [k for k in np.argsort(-around, kind="stable")[:6] if ends[k]]
    lines = [(f"{_short(names[k], 20)} ({ends[k]:,} connections)", _number(around[k])) for k in busy]
    _table(page, x, y + 0.25, f"The {len(lines)} nodes with most weight", "\u2211 |weight|", lines)


def _table(page: Any, x: float, y: float, head: str, unit: str, lines: list[tuple[str, str]]) -> float:
    page.text(x, y, head, size=SMALL + 0.5, color=INK, weight="bold", va="center")
    page.text(x + LIST - 0.5, y, unit, size=SMALL, color=MUTED, va="center", ha="right")
    for text, value in lines:
        y += 0.165
        page.text(x, y, text, size=SMALL, va="center")
        page.text(x + LIST - 0.5, y, value, size=SMALL, va="center", ha="right")
    return y


def _what_is_shown(rows: list[Band], columns: list[Band], wires: Wires, nodes: int) -> str:
    across, down = (max(-(-len(b.nodes) // b.cells) for b in side) for side in (columns, rows))
    cell = "a connection" if across * down == 1 else f"the strongest weight of up to {down:,} \u00d7 {across:,} nodes"
    left_out = max(0, len(wires.weight) - LISTED)
    return (
        f"{nodes:,} nodes, {len(wires.weight):,} connections: too many for lines. A cell is {cell}.\n"
        f"Left out: the names of {left_out:,} connections, biases, activations; disabled connections."
    )
