"""What a generated file says about itself: a network's file is anybody's, so none of it may end a comment."""

from __future__ import annotations

import re
from typing import Any

import neol
from neol.errors import NeolError
from neol.export.program import Program

LONGEST_NAME = 60


def identifier(name: str) -> str:
    """A run's name as the beginning of names in C: letters, digits and single underscores, no digit first."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name)[:LONGEST_NAME].strip("_")
    return plain if plain[:1].isalpha() else f"network_{plain}".strip("_")


def checked_identifier(name: str) -> str:
    """A name that the user chose; it must be one already."""
    if identifier(name) != name:
        raise NeolError(
            f"--name = {name!r} is not allowed; it must be letters, digits and single underscores, a letter first, and "
            f"{LONGEST_NAME} characters at most."
        )
    return name


def plain(text: Any, longest: int = 100) -> str:
    """Text for a comment: letters, digits and a few signs that mean nothing to any compiler."""
    return re.sub(r"[^A-Za-z0-9 _.,:()+=-]", "_", str(text))[:longest]


def head(program: Program) -> list[str]:
    """What every generated file says first."""
    p, task = program, program.interface.get("task")
    of = f" for {plain(task)}" if task else ""
    learning = (
        f"it learns by {p.rule_name}, gated by {p.gate_name}, credit {_credit(p)}" if p.learns else "it does not learn"
    )
    return [
        f"A controller{of}, written by neol {neol.__version__}; do not edit.",
        f"{p.inputs} inputs, {p.nodes} nodes, {p.edges} connections, {p.outputs} outputs; {learning}.",
        f"Observation: {_listed(p.interface.get('inputs'), p.inputs)}",
        f"Action: {_action(p)}",
    ]


def _credit(p: Program) -> str:
    return "of the next step" if p.next_step else "of the same step"


def _listed(names: Any, count: int) -> str:
    found = [plain(n, 40) for n in names] if isinstance(names, list | tuple) and len(names) == count else []
    shown = ", ".join(f"{i} {n}" for i, n in enumerate(found[:40])) if found else f"{count} numbers"
    return f"{shown}, ..." if len(found) > 40 else shown


def _action(p: Program) -> str:
    kinds = ("the number of the largest output, from {low}", "{low:g} to {high:g}", "{low:g} to {high:g}", "0 or 1")
    columns = zip(p.kind, p.low, p.high, strict=True)
    parts = [kinds[k].format(low=float(a), high=float(b)) for k, a, b in columns]
    names = p.interface.get("outputs")
    if p.unbounded:
        return f"the outputs: {_listed(names, p.outputs)}"
    shown = "; ".join(f"{i}: {part}" for i, part in enumerate(parts[:20]))
    return f"{shown}; ..." if len(parts) > 20 else shown


def values(table: Any) -> list[Any]:
    """A table's entries as Python's numbers; never empty, since C has no empty arrays."""
    return table.tolist() or [0]


def wrapped(words: list[str], indent: str = "    ", longest: int = 116) -> str:
    """Words with commas between, in lines of a readable length."""
    lines, line = [], indent
    for word in words:
        if len(line) + len(word) > longest:
            lines.append(line.rstrip())
            line = indent
        line += f"{word}, "
    return "\n".join([*lines, line.rstrip().rstrip(",")])
