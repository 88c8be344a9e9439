"""The network as a layered graph (SVG or PNG)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.figures.large_network import draw_large, is_large
from neol.figures.style import FAINT, FONT, INK, MUTED, NEGATIVE, POSITIVE, SUFFIXES, AnyPath, save, shown, style
from neol.files import check_suffix, replacing

DOTTED: Any = (0, (1, 1))  # connections that gate learning
RADIUS, SMALL = 0.105, 7.0  # a node's radius in inches; small text in points
Edge = tuple[int, int]
Point = tuple[float, float]


class Graph(NamedTuple):
    """What is drawn of a network: enabled connections only."""

    layers: list[list[int]]  # node ids by column, top to bottom: inputs, hidden by depth, outputs
    edges: dict[Edge, float]  # (from, to): weight
    forward: set[Edge]  # the edges that lead to a later column
    nodes: dict[int, dict[str, Any]]  # id: the node's entry in the file

    @property
    def gates(self) -> set[int]:
        """Modulatory nodes: they send no signal, but decide how much their targets learn."""
        return {k for k, node in self.nodes.items() if node.get("role") == "modulatory"}


def _search(follow: Mapping[int, Sequence[int]], roots: Sequence[int]) -> tuple[list[int], set[Edge]]:
    """Depth-first from the roots in their order: the nodes in topological order, and the edges that close a cycle."""
    back: set[Edge] = set()
    done: dict[int, None] = {}
    for root in roots:
        stack, trail = [] if root in done else [(root, iter(follow.get(root, ())))], {root}
        while stack:
            node, following = stack[-1]
            child = next(following, None)
            if child is None:
                stack.pop()
                trail.discard(node)
                done[node] = None
            elif child in trail:
                back.add((node, child))
            elif child not in done:
                trail.add(child)
                stack.append((child, iter(follow.get(child, ()))))
    return [*done][::-1], back


def _graph(network: Mapping[str, Any]) -> Graph:
    """Columns by the longest path from the inputs. Inputs and outputs keep their order in the file."""
    inputs, outputs = list(network["topology"]["input_keys"]), list(network["topology"]["output_keys"])
    nodes = {n["id"]: n for n in network["nodes"]}
    edges = {(c["from"], c["to"]): float(c["weight"]) for c in network["connections"] if c.get("enabled", True)}
    hidden = sorted(({k for e in edges for k in e} | set(nodes)) - {*inputs, *outputs})
    follow: dict[int, list[int]] = {}
    for source, goal in sorted(edges):  # an edge out of an output always leads back, as outputs are the last column
        if source not in outputs and goal not in inputs:
            follow.setdefault(source, []).append(goal)
    order, back = _search(follow, [*inputs, *hidden])
    depth = dict.fromkeys(inputs, 0) | dict.fromkeys([*hidden, *outputs], 1)
    for source in order:
        for goal in follow.get(source, ()):
            if (source, goal) not in back:
                depth[goal] = max(depth[goal], depth[source] + 1)
    columns = [[k for k in hidden if depth[k] == d] for d in sorted({depth[k] for k in hidden})]
    forward = {(a, b) for a, goals in follow.items() for b in goals} - back
    return Graph([inputs, *columns, outputs], edges, forward, nodes)


def _crossings(graph: Graph, at: Mapping[int, Point]) -> int:
    """How many pairs of forward edges cross, drawn as straight lines."""
    x1, y1, x2, y2 = np.array([(*at[a], *at[b]) for a, b in sorted(graph.forward)], float).reshape(-1, 4).T
    slope = (y2 - y1) / (x2 - x1)
    left, right = np.maximum.outer(x1, x1), np.minimum.outer(x2, x2)
    start, end = (y1[:, None] + slope[:, None] * (x - x1[:, None]) for x in (left, right))
    return int((((start - start.T) * (end - end.T) < -1e-9) & (left < right)).sum()) // 2


def _behind(graph: Graph, at: Mapping[int, Point]) -> int:
    """How often a forward edge passes behind a node, or within a hair of it."""
    x1, y1, x2, y2 = np.array([(*at[a], *at[b]) for a, b in sorted(graph.forward)], float).reshape(-1, 4).T[:, :, None]
    x, y = np.array([at[k] for column in graph.layers[1:-1] for k in column], float).reshape(-1, 2).T
    part = (x - x1) / (x2 - x1)
    height = y1 + (y2 - y1) * part**2 * (3 - 2 * part)  # close to the S that _curve draws
    return int(((part > 1e-6) & (part < 1 - 1e-6) & (abs(height - y) < 1.4 * RADIUS)).sum())


def _nudge(graph: Graph, at: dict[int, Point], gap: float) -> dict[int, Point]:
    """Move hidden nodes a little, where that brings them off edges that pass behind."""
    for column in graph.layers[1:-1] * 2:
        for key in column:
            (x, y), others = at[key], [at[k][1] for k in column if k != key]
            tries = [y + gap * s for s in (0, 0.2, -0.2, 0.4, -0.4, 0.6, -0.6, 0.8, -0.8)]
            free = [t for t in tries if t == y or all(abs(t - o) >= 0.99 * gap for o in others)]
            at[key] = (x, min(free, key=lambda t: _behind(graph, {**at, key: (x, t)})))
    return at


def _spread(wanted: Sequence[float], span: float, gap: float) -> list[float]:
    """Heights between even spacing over the span and the wanted (ascending) ones, at least a gap apart."""
    n = len(wanted)
    even = (np.arange(n) + 0.5) / n * span - span / 2
    stack = gap * np.arange(n)
    above = np.maximum.accumulate((even + np.asarray(wanted)) / 2 - stack)
    return (np.minimum(above, span / 2 - stack[-1]) + stack).tolist()


def _place(graph: Graph, width: float, gap: float) -> dict[int, Point]:
    """Positions around (0, 0): hidden columns ordered by barycentre sweeps, the order with fewest crossings kept."""
    span = gap * max(len(c) for c in graph.layers)
    xs = np.linspace(-width / 2, width / 2, len(graph.layers))
    at: dict[int, Point] = {}
    for x, column in zip(xs, graph.layers, strict=True):
        step = max(gap, 0.8 * span / max(len(column), 1))
        at.update({k: (float(x), step * ((len(column) - 1) / 2 - i)) for i, k in enumerate(column)})
    near: dict[int, dict[bool, list[int]]] = {k: {True: [], False: []} for k in at}
    for source, goal in sorted(graph.forward):
        near[goal][True].append(source)
        near[source][False].append(goal)
    best, fewest = dict(at), _crossings(graph, at)
    hidden = list(zip(xs, graph.layers, strict=True))[1:-1]
    for sweep in range(12 if hidden else 0):
        rightward = sweep % 2 == 0
        for x, column in hidden if rightward else hidden[::-1]:
            side = {k: (sweep < 8 and near[k][rightward]) or [*near[k][True], *near[k][False]] or [k] for k in column}
            wish = {k: float(np.mean([at[o][1] for o in side[k]])) for k in column}
            order = sorted(column, key=lambda k: (wish[k], at[k][1], k))
            heights = _spread([wish[k] for k in order], span, min(gap, span / len(order)))
            at.update({k: (float(x), y) for k, y in zip(order, heights, strict=True)})
        if (count := _crossings(graph, at)) < fewest or sweep == 0:
            best, fewest = dict(at), count
    return _nudge(graph, best, gap)


def _text_width(text: str, size: float) -> float:
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text, size=size).get_extents().width) / 72 if text.strip() else 0.0


def _curve(at: Mapping[int, Point], edge: Edge, forward: bool, last: bool) -> np.ndarray:
    """The four points of an edge's Bezier curve: an S to a later column, else an arc over the nodes."""
    (x1, y1), (x2, y2) = at[edge[0]], at[edge[1]]
    if forward:
        x1, x2 = x1 + RADIUS, x2 - RADIUS
        bend = 0.42 * (x2 - x1)
        return np.array([(x1, y1), (x1 + bend, y1), (x2 - bend, y2), (x2, y2)])
    if edge[0] == edge[1]:
        d, h = RADIUS * 0.75, RADIUS * 4
        return np.array([(x1 - d, y1 + d), (x1 - 2.5 * d, y1 + h), (x1 + 2.5 * d, y1 + h), (x1 + d, y1 + d)])
    if x1 == x2:  # beside the column; left of the outputs, whose names stand to the right
        side = -1 if last else 1
        out = x1 + side * (0.25 + 0.2 * abs(y2 - y1))
        return np.array([(x1 + side * RADIUS, y1), (out, y1), (out, y2), (x2 + side * RADIUS, y2)])
    over = max(y1, y2) + min(0.4 + 0.06 * abs(x1 - x2), 0.9)
    return np.array([(x1, y1 + RADIUS), (x1, over), (x2, over), (x2, y2 + RADIUS)])


def _draw_edges(axes: Any, curves: Mapping[Edge, np.ndarray], graph: Graph, top: float) -> None:
    """Weak connections first, so that the strong ones lie on top."""
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Outline

    thick, code = 3.0 if len(graph.edges) <= 60 else 2.2, [Outline.MOVETO] + [Outline.CURVE4] * 3
    for (a, b), weight in sorted(graph.edges.items(), key=lambda item: (abs(item[1]), item[0])):
        points, strength = curves[a, b], min(abs(weight) / top, 1.0)
        look: dict[str, Any] = {"color": NEGATIVE if weight < 0 else POSITIVE, "alpha": 0.22 + 0.68 * strength}
        dashes = DOTTED if a in graph.gates else "-" if (a, b) in graph.forward else (0, (3, 2))
        pen = {"ls": dashes, "lw": 0.5 + thick * strength, "capstyle": "butt"}
        axes.add_patch(PathPatch(Outline(points, code), fill=False, zorder=2, gid=f"edge_{a}_{b}", **pen, **look))
        if (a, b) not in graph.forward:
            way = 0.1 * (points[3] - points[2]) / np.hypot(*(points[3] - points[2]))
            side = np.array([-way[1], way[0]]) * 0.45
            corners = [points[3], points[3] - way + side, points[3] - way - side]
            axes.add_patch(Polygon(corners, lw=0, zorder=4, gid=f"head_{a}_{b}", **look))


def _draw_nodes(axes: Any, at: dict[int, Point], graph: Graph, names: dict[int, str], shade: Any, mixed: bool) -> None:
    from matplotlib.patches import Circle, RegularPolygon

    used = {k for e in graph.edges for k in e} | set(graph.layers[-1])
    for key, (x, y) in at.items():
        first, last = key in graph.layers[0], key in graph.layers[-1]
        node, alpha = graph.nodes.get(key, {}), 1.0 if key in used else FAINT
        fill = "white" if first else shade.to_rgba(node.get("bias", 0.0))
        look: dict[str, Any] = {"fc": fill, "ec": INK, "lw": 1.0, "alpha": alpha, "zorder": 3, "gid": f"node_{key}"}
        diamond = key in graph.gates
        axes.add_patch(
            RegularPolygon((x, y), 4, radius=1.25 * RADIUS, **look) if diamond else Circle((x, y), RADIUS, **look)
        )
        if first or last:
            side, align = (-1, "right") if first else (1, "left")
            axes.text(x + side * (RADIUS + 0.09), y, names[key], ha=align, va="center_baseline", alpha=alpha)
        if mixed and not first:
            box = {"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0.4}
            name, below = node.get("activation", {}).get("name", ""), y - RADIUS - 0.03
            axes.text(x, below, name, ha="center", va="top", size=SMALL, color=MUTED, bbox=box, zorder=5)


def _draw_legend(axes: Any, graph: Graph, top: float, shade: Any, activation: str) -> None:
    """Two rows in the lower left corner."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    def line(color: str, **look: Any) -> Any:
        return Line2D([], [], color=color, **{"lw": 2.0, "solid_capstyle": "butt", **look})

    def dot(fill: Any, **look: Any) -> Any:
        return Line2D([], [], ls="", **{"marker": "o", "ms": 7, "mfc": fill, "mec": INK, "mew": 0.7, **look})

    most = shade.norm.vmax
    items: dict[str, Any] = {
        "positive": line(POSITIVE),
        "negative": line(NEGATIVE),
        f"|weight| 0 to {top:.3g}": tuple(line(INK, lw=0.5 + 3 * s, alpha=0.22 + 0.68 * s) for s in (0, 0.5, 1)),
        f"bias \u2212{most:.3g} to {most:.3g}": tuple(dot(shade.to_rgba(most * s)) for s in (-1, -0.5, 0, 0.5, 1)),
    }
    if len(graph.forward) < len(graph.edges):
        items["recurrent"] = line(MUTED, ls=(0, (3, 2)))
    if graph.gates & {a for a, _ in graph.edges}:
        items["gates what its target learns"] = (dot("white", marker="D", ms=6), line(MUTED, ls=DOTTED))
    if {*graph.layers[0]} - {k for e in graph.edges for k in e}:
        items["unused input"] = dot("white", alpha=FAINT)
    if activation:
        items[f"activation: {activation}"] = dot("none", marker=[(-1, -0.5), (-0.3, -0.4), (0.3, 0.4), (1, 0.5)])
    axes.legend(
        [*items.values()], [*items], ncols=-(-len(items) // 2), loc="lower left", bbox_to_anchor=(0, 0), frameon=False,
        fontsize=SMALL + 0.5, labelcolor=MUTED, handler_map={tuple: HandlerTuple(ndivide=None, pad=0.2)},
        handlelength=4.0, columnspacing=1.6, borderaxespad=0.6,
    )  # fmt: skip


def _width(graph: Graph) -> float:
    """Inches from the inputs to the outputs."""
    return float(np.clip(1.35 * (len(graph.layers) - 1), 2.6, 11.0))


def _gap(graph: Graph, wide: float, mixed: bool) -> float:
    """Inches between two nodes of a column; `mixed`: a name stands below each."""
    return max(0.4 if mixed else 0.31, min(0.3 * wide / max(map(len, graph.layers)), 0.6))


def lay_out(network: Mapping[str, Any]) -> tuple[Graph, dict[int, Point]]:
    """What is drawn of a network, and where: inches around (0, 0), y upwards; for those who draw it elsewhere."""
    graph = _graph(network)
    wide = _width(graph)
    return graph, _place(graph, wide, _gap(graph, wide, False))


def _largest(values: Iterable[float]) -> float:
    return max((abs(v) for v in values if v and np.isfinite(v)), default=1.0)


def draw_network(
    network: dict[str, Any], path: AnyPath, inputs: Sequence[str] = (), outputs: Sequence[str] = (), title: str = ""
) -> Path:
    """Draw a network (neat-python's network JSON 1.0) left to right; `.svg` or `.png` by the path's ending.

    Inputs and outputs keep their order and bear the given names (else their ids). Disabled connections are left out.
    A network with more than 600 connections or 300 nodes becomes heat maps by layer (large_network.py).
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

    target = check_suffix(path, SUFFIXES)
    inputs, outputs, title = [*map(shown, inputs)], [*map(shown, outputs)], shown(title, 90)
    with replacing(target) as part, style():
        if is_large(network):
            draw_large(network, part, inputs, outputs, title)
            return target
        graph = _graph(network)
        ends = (graph.layers[0], inputs), (graph.layers[-1], outputs)
        names = {k: given[i] if i < len(given) else str(k) for keys, given in ends for i, k in enumerate(keys)}
        inner = [graph.nodes.get(k, {}) for column in graph.layers[1:] for k in column]
        activations = sorted({n["activation"]["name"] for n in inner if "activation" in n})
        top, most = _largest(graph.edges.values()), _largest(n.get("bias", 0.0) for n in inner)
        colors = LinearSegmentedColormap.from_list("bias", [NEGATIVE, "white", POSITIVE])
        shade = ScalarMappable(Normalize(-most, most), colors)
        wide, mixed = _width(graph), len(activations) > 1
        at = _place(graph, wide, _gap(graph, wide, mixed))
        curves = {e: _curve(at, e, e in graph.forward, e[1] in graph.layers[-1]) for e in graph.edges}
        ys = [y for _, y in at.values()] + [float(c[:, 1] @ (0.125, 0.375, 0.375, 0.125)) for c in curves.values()]
        sides = [max((_text_width(names[k], FONT) for k in keys), default=0.0) + 0.4 for keys, _ in ends]
        # The axes' units are inches, the graph's middle at (0, 0).
        least = max(4.9 if len(graph.forward) == len(graph.edges) else 5.7, _text_width(title, FONT + 2) + 0.3)
        spare = max(0.0, least - wide - sum(sides)) / 2
        left, right = -wide / 2 - sides[0] - spare, wide / 2 + sides[1] + spare
        low, high = min(ys) - 0.85 - 0.1 * mixed, max(ys) + (0.65 if title else 0.3)
        figure = Figure(figsize=(right - left, high - low))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(left, right), ylim=(low, high))
        axes.axis("off")
        _draw_edges(axes, curves, graph, top)
        _draw_nodes(axes, at, graph, names, shade, mixed)
        _draw_legend(axes, graph, top, shade, "" if mixed or not activations else activations[0])
        axes.text(left + 0.15, high - 0.22, title, va="center", size=FONT + 2)
        save(figure, part)
    return target
