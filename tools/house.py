"""The house, read from its source: packages in order, what each module is for, and who imports whom.

python tools/house.py            # writes the list into docs/architecture.md and the picture beside it
python tools/house.py --check    # exit code 1 where they are not up to date
"""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "neol"
PAGE = ROOT / "docs" / "architecture.md"
TOP = ""  # the modules that lie in src/neol itself
# A package imports only from those before it.
PACKAGES = (
    TOP, "config", "neat", "network", "outer", "envs", "rollout", "figures", "deploy", "training", "baselines",
    "studies", "report", "theory", "cli",
)  # fmt: skip
ENTRY = ("__init__", "__main__")  # load others only when they are asked to
BEGIN, END = "<!-- house: written by tools/house.py -->", "<!-- /house -->"


def modules() -> dict[str, ast.Module]:
    """Dotted name below neol -> its tree; a package's `__init__` is `package.__init__`."""
    files = sorted(SOURCE.rglob("*.py"))
    return {".".join(f.relative_to(SOURCE).with_suffix("").parts): ast.parse(f.read_text("utf-8")) for f in files}


def package(module: str) -> str:
    return module.rpartition(".")[0]


def imports(tree: ast.Module) -> set[str]:
    """Dotted names that a module imports, anywhere in it but under `if TYPE_CHECKING`."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
    skipped = {node for block in blocks for statement in block.body for node in ast.walk(statement)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in skipped:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node not in skipped:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


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


def listing() -> str:
    """The house as text: a package, what it is for, and its modules."""
    trees = modules()
    lines = ["```"]
    for name, inside in ordered(trees).items():
        about = first_line(trees[f"{name}.__init__"]) if name else "What every package may use; flat on purpose."
        lines += [f"{name or 'neol'}/".ljust(14) + about]
        lines += [f"    {m.rpartition('.')[2]}.py".ljust(26) + first_line(trees[m]) for m in inside]
    return "\n".join([*lines, "```"])


def written(page: str) -> str:
    """The page with today's list between its marks."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{listing()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    now = written(page)
    if "--check" in sys.argv:
        return int(page != now)
    PAGE.write_text(now, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
