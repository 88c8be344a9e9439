"""Fitness over environment steps (SVG or PNG)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neol.errors import NeolError
from neol.figures.style import EDGE, FONT, GREEN, GRID, MUTED, NEGATIVE, POSITIVE, SUFFIXES, AnyPath, save, shown, style
from neol.files import check_suffix, replacing

LARGEST = 1e100  # a number beyond it is not drawn
LINES: dict[str, tuple[str, Any, float]] = {  # colour, dashes, width
    "best": (POSITIVE, "-", 2.0), "mean": (NEGATIVE, "-", 1.3), "median": (GREEN, (0, (4, 1.5)), 1.3),
}  # fmt: skip


def draw_curve(history: Mapping[str, np.ndarray], path: AnyPath, title: str = "") -> Path:
    """Draw best, mean and median fitness over environment steps, and below them what else the loop reports first.

    That is the number of species for NEAT. `.svg` or `.png`.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    names = list(history)
    own = names[names.index("mean_steps") + 1] if "mean_steps" in names[:-1] else "species"
    needed = ["env_steps", *(f"{n}_fitness" for n in LINES), own]
    if missing := [n for n in needed if n not in history]:
        raise NeolError(f"cannot draw the curve: the history lacks {', '.join(missing)}.")
    columns = {n: np.asarray(history[n], float) for n in needed}
    columns = {n: np.where(np.abs(v) <= LARGEST, v, np.nan) for n, v in columns.items()}  # nan is left out
    steps, below = columns["env_steps"], columns[own]
    if not len(steps):
        raise NeolError("cannot draw the curve: the history has no generations yet.")
    if not np.isfinite(steps).all() or (steps < 0.0).any():
        raise NeolError(f"cannot draw the curve: env_steps must be numbers from 0 to {LARGEST:g}.")
    known = below[np.isfinite(below)]
    lowest, highest = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    dot = "o" if len(steps) == 1 else None  # one point makes no line
    target = check_suffix(path, SUFFIXES)
    with replacing(target) as part, style():
        figure = Figure(figsize=(7.0, 4.4))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        figure.subplots_adjust(left=0.11, right=0.84, bottom=0.12, top=0.91 if title else 0.96, hspace=0.12)
        for name, (color, dashes, thick) in LINES.items():
            upper.plot(steps, columns[f"{name}_fitness"], color=color, ls=dashes, lw=thick, marker=dot, clip_on=not dot)
        lower.step(steps, below, where="post", color=MUTED, lw=1.3, marker=dot, clip_on=not dot)
        for axes, label in ((upper, "fitness"), (lower, shown(own.replace("_", " ")))):
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(EDGE)
            axes.tick_params(color=EDGE, labelcolor=MUTED, labelsize=FONT - 1)
            axes.grid(axis="y", color=GRID, lw=0.6)
            axes.set(ylabel=label, axisbelow=True)
        lower.set(xlim=(0, max(steps.max(), 1)), ylim=(min(0.0, lowest * 1.15), max(highest * 1.15, 1.0)))
        lower.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        lower.xaxis.set_major_formatter(EngFormatter(sep=""))
        lower.set_xlabel(f"environment steps ({len(steps)} generation{'s' * (len(steps) > 1)})")
        _end_labels(upper, {n: columns[f"{n}_fitness"] for n in LINES})
        figure.text(0.02, 0.955, shown(title, 90), va="center", size=FONT + 2)
        figure.align_ylabels()
        save(figure, part)
    return target


def _end_labels(axes: Any, columns: Mapping[str, np.ndarray]) -> None:
    """Name each line at its right end, the names pushed apart where the lines end close together."""
    low, high = axes.get_ylim()
    finals = {n: float(v[np.isfinite(v)][-1]) for n, v in columns.items() if np.isfinite(v).any()}
    order = sorted(finals, key=lambda n: finals[n])
    spots = np.array([(finals[n] - low) / (high - low) for n in order])
    for _ in range(50):
        for i in range(1, len(order)):
            push = max(0.0, 0.06 - (spots[i] - spots[i - 1])) / 2
            spots[i - 1 : i + 1] += (-push, push)
        spots = np.clip(spots, 0.0, 1.0)
    for name, y in zip(order, spots, strict=True):
        axes.text(1.02, y, f"{name} {finals[name]:.4g}", color=LINES[name][0], transform=axes.transAxes, va="center")
