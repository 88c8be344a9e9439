"""How our pictures look: colours, text sizes, and files whose bytes depend on the figure alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POSITIVE, NEGATIVE = "#0072B2", "#D55E00"  # Okabe-Ito blue and vermilion: told apart by every common colour vision
GREEN, INK, MUTED, FAINT = "#009E73", "#222222", "#666666", 0.3
SUFFIXES = (".svg", ".png")
FONT = 9.0  # points
AnyPath = str | os.PathLike[str]


@contextmanager
def style(salt: str = "neol") -> Iterator[None]:
    """Matplotlib's own defaults, whatever the user's matplotlibrc says, and nothing random in the output."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({
            "svg.hashsalt": salt, "svg.fonttype": "none", "text.parse_math": False, "text.color": INK,
            "axes.labelcolor": INK, "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": FONT,
        })  # fmt: skip
        yield


def save(figure: Any, path: Path) -> None:
    """Same figure, same bytes: no date, no version."""
    metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, dpi=150, facecolor="white", metadata=metadata)


def inline_svg(draw: Callable[[Path], Any]) -> str:
    """What `draw` writes into a file, as SVG for a page or a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figure.svg")
        draw(path)
        text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :]
