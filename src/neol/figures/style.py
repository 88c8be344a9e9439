"""How our pictures look: colours, text sizes, and files whose bytes depend on the figure alone."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POSITIVE, NEGATIVE = "#0072B2", "#D55E00"  # Okabe-Ito blue and vermilion: told apart by every common colour vision
GREEN, INK, MUTED, FAINT = "#009E73", "#222222", "#666666", 0.3
EDGE, GRID = "#999999", "#E6E6E6"  # of axes
PAPER = "#ffffff"  # as Matplotlib writes it
# What text, axes, grid and background become where the reader prefers a dark page; lines keep their colours.
DARK = {INK: "#E6E8EB", MUTED: "#A0A7B0", EDGE: "#7D858F", GRID: "#353A41", PAPER: "#15171A"}
SCHEME = '<style id="scheme">'  # begins what `follow_scheme` adds
SUFFIXES = (".svg", ".png")
FONT = 9.0  # points
AnyPath = str | os.PathLike[str]


def shown(text: object, most: int = 40) -> str:
    """A name as it stands in a picture: one line of printable characters, cut where it is long."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(str(text).split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


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
    """Same figure, same bytes: no date, no version. An SVG follows the reader's light or dark."""
    if path.suffix != ".svg":
        figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})
        return
    text = io.StringIO()
    figure.savefig(text, format="svg", dpi=150, facecolor="white", metadata={"Date": None, "Creator": None})
    path.write_text(follow_scheme(text.getvalue()), encoding="utf-8")


def follow_scheme(svg: str) -> str:
    """Matplotlib's SVG with rules for a dark page. Who does not know them (most editors) shows it as it was."""
    rules = [
        f"#patch_1 > path {{fill: {DARK[PAPER]} !important}}",  # the figure's background
        f'path[style*="fill: {PAPER}; opacity"] {{fill: {DARK[PAPER]} !important}}',  # and that of text on top of lines
        f'text:not([style*="fill"]) {{fill: {DARK[INK]}}}',
    ]
    for colour in (INK, MUTED, EDGE, GRID):
        for what in ("fill", "stroke"):
            rules.append(f'[style*="{what}: {colour.lower()}"] {{{what}: {DARK[colour]} !important}}')
    style = f"{SCHEME}@media (prefers-color-scheme: dark) {{{' '.join(rules)}}}</style>"
    return svg.replace("</defs>", f" {style}\n </defs>", 1)


def inline_svg(draw: Callable[[Path], Any]) -> str:
    """What `draw` writes into a file, as SVG for a page or a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figure.svg")
        draw(path)
        text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :]
