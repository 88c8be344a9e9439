"""The house, read from its source: packages in order, what each module is for, and who imports whom.

python tools/house.py            # writes the list into docs/architecture.md and the picture beside it
python tools/house.py --check    # exit code 1 where they are not up to date
"""

from __future__ import annotations

import ast
import sys
import textwrap
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "neol"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "images" / "house.svg"
TOP = ""  # the modules that lie in src/neol itself
# A package imports only from those before it.
PACKAGES = (
    TOP, "config", "neat", "network", "outer", "envs", "substrate", "rollout", "figures", "deploy", "export",
    "training", "baselines", "gradients", "studies", "report", "theory", "live", "cli",
)  # fmt: skip
ENTRY = ("__init__", "__main__")  # load others only when they are asked to
BEGIN, END = "<!-- house: written by tools/house.py -->", "<!-- /house -->"


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name below neol -> its tree; a package's `__init__` is `package.__init__`."""
    files = sorted(SOURCE.rglob("*.py"))
    return {".".join(f.relative_to(SOURCE).with_suffix("").parts): ast.parse(f.read_text("utf-8")) for f in files}


def package(module: str) -> str:
    return module.rpartition(".")[0]


@cache
def imports(tree: ast.Module) -> frozenset[str]:
    """Dotted names that a module imports, anywhere in it but under `if TYPE_CHECKING`."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
    skipped = {node for block in blocks for statement in block.body for node in ast.walk(statement)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in skipped:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node not in skipped:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def own_imports(module: str, trees: dict[str, ast.Module]) -> set[str]:
    """The modules of ours that a module imports."""
    found = set()
    for name in imports(trees[module]):
        first, _, rest = name.partition(".")
        if first != "neol":
            continue
        parts = rest.split(".")
        known = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        found.add(next((k for k in known if k in trees), f"{parts[0]}.__init__" if len(parts) > 1 else "__init__"))
    return found - {module}


def ordered(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Package -> its modules, each after those of the package that it imports; names decide between equals."""
    out: dict[str, list[str]] = {}
    for name in PACKAGES:
        inside = [m for m in trees if package(m) == name and m.rpartition(".")[2] not in ENTRY]
        graph = {m: sorted(own_imports(m, trees) & set(inside)) for m in inside}
        sorter = TopologicalSorter(graph)
        sorter.prepare()
        out[name] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready())
            out[name] += ready
            sorter.done(*ready)
    return out


def first_line(tree: ast.Module) -> str:
    """The first sentence of a module's docstring."""
    text = (ast.get_docstring(tree) or "").split("\n\n")[0]
    return " ".join(text.split())


def about(name: str, trees: dict[str, ast.Module]) -> str:
    """What a package is for."""
    return first_line(trees[f"{name}.__init__"]) if name else "What every package may use; flat on purpose."


def uses(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Package -> the other packages that its modules import."""
    found: dict[str, set[str]] = {name: set() for name in PACKAGES}
    for module in trees:
        home = package(module)
        if module not in ENTRY and home in found:
            found[home] |= {package(m) for m in own_imports(module, trees)} - {home}
    return found


def listing() -> str:
    """The house as text: a package, what it is for, and its modules."""
    trees = modules()
    lines = ["```"]
    for name, inside in ordered(trees).items():
        lines += [f"{name or 'neol'}/".ljust(14) + about(name, trees)]
        lines += [f"    {m.rpartition('.')[2]}.py".ljust(26) + first_line(trees[m]) for m in inside]
    return "\n".join([*lines, "```"])


def written(page: str) -> str:
    """The page with today's list between its marks."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{listing()}\n{END}{rest.split(END)[1]}"


# The picture: a row per package, and beside the rows a matrix of who imports whom.
LEFT, TEXT, MATRIX, CELL, TOP_EDGE = 16, 118, 676, 25, 132
LINE, CHARACTERS = 17, 72  # height of a line of text; how many characters of it fit
STYLE = """
  svg { color-scheme: light dark; font-family: system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
  .paper { fill: #ffffff; } .band { fill: #f1f4f8; } .rule { stroke: #d4dbe4; }
  .name { fill: #14213d; font-size: 15px; font-weight: 650; }
  .about { fill: #3d4a5c; font-size: 13px; }
  .modules { fill: #5b6879; font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
  .dot { fill: #1f6feb; } .self { fill: #c3cedb; } .head { fill: #14213d; font-size: 13px; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #14181f; } .band { fill: #1c222c; } .rule { stroke: #333d4b; }
    .name, .head { fill: #edf2f9; } .about { fill: #c2ccd9; } .modules { fill: #97a3b3; }
    .dot { fill: #6cb0ff; } .self { fill: #4a5666; }
  }
"""


def picture() -> str:
    """The house as an SVG: packages from the foundation to the command line, their modules, and what each imports."""
    trees = modules()
    imported, names = uses(trees), {name: name or "neol" for name in PACKAGES}
    columns = {name: MATRIX + CELL * i + CELL // 2 for i, name in enumerate(PACKAGES)}
    bands, body, y = [], [], TOP_EDGE
    for place, (name, inside) in enumerate(ordered(trees).items()):
        said = textwrap.wrap(about(name, trees), 78)
        listed = textwrap.wrap("  ".join(m.rpartition(".")[2] for m in inside), CHARACTERS)
        height = LINE * (len(said) + len(listed)) + 15
        if place % 2 == 0:
            bands.append(f'<rect class="band" x="0" y="{y}" width="100%" height="{height}"/>')
        body.append(_text("name", LEFT, y + 21, names[name]))
        body += [_text("about", TEXT, y + 21 + LINE * n, line) for n, line in enumerate(said)]
        body += [_text("modules", TEXT, y + 21 + LINE * (len(said) + n), line) for n, line in enumerate(listed)]
        middle = y + height // 2
        for other, x in columns.items():
            if other == name:
                body.append(f'<rect class="self" x="{x - 7}" y="{middle - 7}" width="14" height="14" rx="3"/>')
            elif other in imported[name]:
                body.append(f'<circle class="dot" cx="{x}" cy="{middle}" r="6"/>')
        y += height
    width = MATRIX + CELL * len(PACKAGES) + 36
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 12}" viewBox="0 0 {width} {y + 12}" '
        'role="img" aria-label="The packages of neol, their modules, and which package imports which">',
        f"<style>{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%" rx="8"/>',
        *bands,
        *_heading(columns, names, y),
        *body,
        "</svg>",
        "",
    ])  # fmt: skip


def _heading(columns: dict[str, int], names: dict[str, str], bottom: int) -> list[str]:
    """What the rows and the columns are."""
    said = (
        ("name", "The packages of neol, from the foundation to the command line"),
        ("about", "A row is a package: what it is for, and its modules."),
        ("about", "A blue dot: the package of this row imports the package of that column."),
        ("about", "All dots lie left of the grey squares: a package imports only from those above it."),
    )
    lines = [_text(style, LEFT, 34 + 22 * n, line) for n, (style, line) in enumerate(said)]
    for name, x in columns.items():
        lines.append(f'<line class="rule" x1="{x}" y1="{TOP_EDGE}" x2="{x}" y2="{bottom}"/>')
        turned = f'transform="rotate(-55 {x} {TOP_EDGE - 8})"'
        lines.append(f'<text class="head" x="{x}" y="{TOP_EDGE - 8}" {turned}>{names[name]}</text>')
    return lines


def _text(style: str, x: int, y: int, text: str) -> str:
    return f'<text class="{style}" x="{x}" y="{y}" xml:space="preserve">{escape(text, quote=False)}</text>'


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    now, drawn = written(page), picture()
    if "--check" in sys.argv:
        return int(page != now or not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != drawn)
    PAGE.write_text(now, encoding="utf-8")
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
