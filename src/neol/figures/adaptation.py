"""Reward rate around a change of the world: a network that learns, its twin frozen at the change, its static twin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neol.figures.style import EDGE, FONT, GRID, MUTED, NEGATIVE, POSITIVE, SUFFIXES, AnyPath, save, shown, style
from neol.files import check_suffix, replacing

# Twin -> colour, dashes, width, what it is called.
LINES: dict[str, tuple[str, Any, float, str]] = {
    "static": (MUTED, (0, (1, 1.5)), 1.6, "never learns"),
    "frozen": (NEGATIVE, (0, (4, 1.5)), 1.6, "frozen at the change"),
    "learning": (POSITIVE, "-", 2.2, "goes on learning"),
}


def draw_adaptation(since: np.ndarray, window: int, rates: Mapping[str, np.ndarray], path: AnyPath, title: str) -> Path:
    """Draw the twins' reward rates f8 (W,), window by window; since i8 (W,) is each window's first step."""
    from matplotlib.figure import Figure

    target = check_suffix(path, SUFFIXES)
    middle = np.asarray(since) + window / 2
    with replacing(target) as part, style():
        figure = Figure(figsize=(7.0, 3.6))
        axes = figure.subplots()
        figure.subplots_adjust(left=0.11, right=0.97, bottom=0.15, top=0.88)
        axes.axvline(0.0, color=EDGE, lw=1.0)
        for name, (color, dashes, thick, label) in LINES.items():
            axes.plot(middle, rates[name], color=color, ls=dashes, lw=thick, label=label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(EDGE)
        axes.tick_params(color=EDGE, labelcolor=MUTED, labelsize=FONT - 1)
        axes.grid(axis="y", color=GRID, lw=0.6)
        axes.set(xlabel="steps since the world changed", ylabel="reward per step", axisbelow=True)
        axes.legend(frameon=False, fontsize=FONT - 1, loc="best")
        figure.text(0.02, 0.945, shown(title, 90), va="center", size=FONT + 2)
        save(figure, part)
    return target
