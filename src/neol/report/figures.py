"""Pictures of a study: curves with bands, means, boxes with points, heatmaps, one life's weights. SVG and PNG files.

Each arm has a colour of Okabe and Ito's palette; a matched control has its arm's, dashed or hollow; the reference is
grey. Text is text, and the colours of text, axes and grid are known (INK, MUTED, GRID), so that a page can put its own
in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.deploy.evaluation import Lifetime
from neol.figures.style import EDGE, GRID, INK, MUTED, save, shown, style
from neol.files import replacing
from neol.stats import mean_intervals

PALETTE = ("#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
NEUTRAL = "#888888"  # the reference, and a control that several arms share
FONT = 8.0
POINTS = 120  # along the x axis of a convergence plot
FEW = 5  # runs, below which an interval would say more about their number than about them
WIDE = 40  # characters of a label, from which on two do not stand side by side
MOST_MOVED = 8  # weights that a lifetime names


class Look(NamedTuple):
    label: str
    colour: str
    dashed: bool


def looks(arms: Sequence[Any], reference: str) -> dict[str, Look]:
    """arm -> how it is drawn: the reference grey, a control as its arm, dashed."""
    own = [a.name for a in arms if not a.control_of and a.name != reference]
    colour = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(own)} | {reference: NEUTRAL}
    again = set(own[len(PALETTE) :])  # a colour for the second time
    return {
        a.name: Look(
            shown(a.label, 60), colour.get(a.control_of or a.name, NEUTRAL), bool(a.control_of) or a.name in again
        )
        for a in arms
    }


@contextmanager
def _figure(path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure whose bytes go to PATH.svg and PATH.png."""
    from matplotlib.figure import Figure

    with style(path.name):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for suffix in (".svg", ".png"):
            with replacing(path.with_suffix(suffix)) as part:
                save(figure, part)


def _dress(axes: Any, grid: str = "y") -> None:
    axes.set_facecolor("none")  # the page shows through
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(EDGE)
    axes.tick_params(color=EDGE, labelcolor=INK, labelsize=FONT)
    axes.grid(axis=grid, color=GRID, lw=0.6)
    axes.set_axisbelow(True)


class Curve(NamedTuple):
    """An arm's runs over x: each its own points."""

    look: Look
    xs: list[np.ndarray]
    ys: list[np.ndarray]


def draw_convergence(path: Path, curves: Sequence[Curve], xlabel: str, ylabel: str) -> None:
    """The mean over runs with its 95 % interval, or the range of a FEW; a run that has ended keeps its last value.

    An arm's line goes from where all of its runs have begun to where the longest of them ends.
    """
    from matplotlib.ticker import EngFormatter

    last = max(float(x[-1]) for c in curves for x in c.xs)
    columns = 1 if max(len(c.look.label) for c in curves) > WIDE else 2
    lines = -(-len(curves) // columns)
    with _figure(path, 4.6, 3.3 + 0.16 * max(0, lines - 4)) as figure:  # as much room for more names
        axes = figure.subplots()
        for c in curves:
            begun, ended = max(float(x[0]) for x in c.xs), max(float(x[-1]) for x in c.xs)
            grid = np.linspace(begun, ended, POINTS)
            rows = np.array([np.interp(grid, x, y) for x, y in zip(c.xs, c.ys, strict=True)])
            mean = rows.mean(axis=0)
            low, high = (rows.min(axis=0), rows.max(axis=0)) if len(rows) < FEW else mean_intervals(rows)
            dashes: Any = (0, (4, 2)) if c.look.dashed else "-"
            axes.fill_between(grid, low, high, color=c.look.colour, alpha=0.13, lw=0)
            axes.plot(grid, mean, color=c.look.colour, ls=dashes, lw=1.4, label=c.look.label)
        _dress(axes)
        axes.set_xlabel(xlabel, size=FONT)
        axes.set_ylabel(ylabel, size=FONT)
        axes.set_xlim(0, last or 1)  # one generation: generation 0 alone
        if last >= 10_000:
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=FONT, handlelength=2.6)


def draw_means(path: Path, samples: Sequence[tuple[Look, np.ndarray, np.ndarray]], xlabel: str) -> None:
    """An arm a line: its first sample's mean with its 95 % interval (the range of a FEW), the second's mean hollow."""
    with _figure(path, 4.6, 0.95 + 0.26 * len(samples)) as figure:
        axes = figure.subplots()
        for i, (look, values, other) in enumerate(samples):
            y = len(samples) - 1 - i
            low, high = (values.min(), values.max()) if len(values) < FEW else mean_intervals(values)
            axes.plot([low, high], [y, y], color=look.colour, lw=2.0, ls="--" if look.dashed else "-")
            axes.plot([values.mean()], [y], "o", ms=6, color=look.colour)
            if len(other):
                axes.plot([other.mean()], [y], "o", ms=6, mfc="none", mec=look.colour, mew=1.2)
        _name_rows(axes, [look.label for look, _, _ in samples], xlabel)


def _name_rows(axes: Any, labels: Sequence[str], xlabel: str) -> None:
    """Labels from top to bottom. Scores that are all but equal stay so: the axis spans a hundredth of them at least."""
    low, high = axes.get_xlim()
    short = max(0.0, 0.01 * max(abs(low), abs(high)) - (high - low)) / 2.0
    axes.set_xlim(low - short, high + short)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.set_yticks(range(len(labels)), labels[::-1])
    _dress(axes, "x")
    axes.set_xlabel(xlabel, size=FONT)
    axes.set_ylim(-0.6, len(labels) - 0.4)


def draw_boxes(path: Path, samples: Sequence[tuple[Look, np.ndarray]], xlabel: str, mark: Mapping[str, float]) -> None:
    """A box per arm, quartiles and whiskers to 1.5 IQR, every run as a point. `mark`: label -> the paper's mean."""
    height = 0.75 + 0.3 * len(samples)
    with _figure(path, 4.6, height) as figure:
        axes = figure.subplots()
        for i, (look, values) in enumerate(samples):
            y = len(samples) - 1 - i
            colours = {"color": look.colour, "lw": 1.2}
            fill = {"facecolor": "none" if look.dashed else look.colour + "40", "edgecolor": look.colour, "lw": 1.2}
            axes.boxplot(
                [values], positions=[y], orientation="horizontal", widths=0.6, showfliers=False, patch_artist=True,
                boxprops=fill, medianprops={**colours, "lw": 2.0}, whiskerprops=colours, capprops=colours,
            )  # fmt: skip
            spread = 0.22 * np.sin(np.arange(len(values)) * 2.4)  # apart, and the same every time
            face = "none" if look.dashed else look.colour
            axes.scatter(values, y + spread, s=9, facecolors=face, edgecolors=look.colour, linewidths=0.7, zorder=3)
            if look.label in mark:
                axes.scatter([mark[look.label]], [y], marker="D", s=22, facecolors="none", edgecolors=MUTED, zorder=4)
        _name_rows(
            axes, [look.label for look, _ in samples], xlabel + ("; diamond: the paper's mean" if mark else "")
        )  # fmt: skip


def draw_adaptation(
    path: Path, samples: Sequence[tuple[Look, np.ndarray]], none: float, full: float | None, xlabel: str
) -> None:
    """An arm a line, every run a point, its mean a bar; the way from what needs no learning (score 0) to what an oracle
    gets (score 1) is shaded, and the axis at the top counts in scores."""
    with _figure(path, 5.8, 1.35 + 0.28 * len(samples)) as figure:
        axes = figure.subplots()
        if full is not None and full > none:
            axes.axvspan(none, full, color="#009E73", alpha=0.10, lw=0)
            top = axes.secondary_xaxis(
                "top", functions=(lambda x: (x - none) / (full - none), lambda s: none + s * (full - none))
            )
            top.set_xlabel("adaptation score: 0 = best control, 1 = oracle", size=FONT, color=INK)
            top.xaxis.get_major_locator().set_params(nbins=6)  # its numbers do not touch
            top.tick_params(labelsize=FONT, color=EDGE, labelcolor=INK)
            top.spines["top"].set_color(EDGE)
        axes.axvline(none, color=MUTED, lw=1.0, ls=(0, (4, 2)))
        for i, (look, values) in enumerate(samples):
            y = len(samples) - 1 - i
            spread = 0.16 * np.sin(np.arange(len(values)) * 2.4)  # apart, and the same every time
            face = "none" if look.dashed else look.colour
            axes.scatter(values, y + spread, s=10, facecolors=face, edgecolors=look.colour, linewidths=0.7, alpha=0.7)
            axes.plot([values.mean()] * 2, [y - 0.34, y + 0.34], color=look.colour, lw=2.6, solid_capstyle="round")
        _name_rows(axes, [look.label for look, _ in samples], xlabel)


def draw_heatmap(
    path: Path, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], ylabel: str, xlabel: str,
    limits: tuple[float, float],
) -> None:  # fmt: skip
    """Means as colours and numbers f8 (rows, columns); NaN = no run yet."""
    from matplotlib import colormaps

    low, high = limits if limits[0] < limits[1] else (limits[0] - 1.0, limits[1] + 1.0)
    with _figure(path, 4.6, 1.0 + 0.42 * len(rows)) as figure:
        axes = figure.subplots()
        axes.imshow(values, cmap=colormaps["cividis"], vmin=low, vmax=high, aspect="auto")
        for (i, j), v in np.ndenumerate(values):
            if np.isfinite(v):
                dark = (v - low) / (high - low) < 0.55
                axes.text(j, i, f"{v:.4g}", ha="center", va="center", size=FONT, color="#FFFFFF" if dark else "#111111")
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(length=0, labelsize=FONT, labelcolor=INK)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(xlabel, size=FONT)
        axes.set_ylabel(ylabel, size=FONT)


def draw_lifetime(path: Path, life: Lifetime, names: Mapping[int, str]) -> None:
    """How far each weight is from where it began, step by step; the ones that moved most by name."""
    moved = life.weights - life.weights[0]
    order = np.argsort(-np.abs(moved).max(axis=0), kind="stable")
    with _figure(path, 4.6, 3.1) as figure:
        axes = figure.subplots()
        for place, e in enumerate(order[::-1]):
            rank = len(order) - 1 - place
            named = rank < MOST_MOVED and np.abs(moved[:, e]).max() > 0.0
            source, goal = (shown(names.get(k, k), 24) for k in life.connections[e])
            look = {"color": PALETTE[rank % len(PALETTE)], "lw": 1.3} if named else {"color": EDGE, "lw": 0.6}
            label = f"{source} → {goal}" if named else None
            axes.plot(moved[:, e], label=label, ls="--" if named and rank >= len(PALETTE) else "-", **look)
        _dress(axes)
        axes.set_xlim(0, max(len(life.rewards), 1))
        axes.set_xlabel("step of the episode", size=FONT)
        axes.set_ylabel("change of weight", size=FONT)
        if axes.get_legend_handles_labels()[0]:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(
                handles[::-1], labels[::-1], loc="outside lower center", ncols=2, frameon=False, fontsize=FONT
            )
