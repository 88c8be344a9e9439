"""A controller as one Python file that needs nothing but the standard library."""

from __future__ import annotations

import ast
import copy
import math
from typing import Any

from neol import seeding
from neol.export.program import Program
from neol.export.specialise import Function, Specialised, specialise
from neol.export.texts import head, wrapped
from neol.network.step import _BIRTH

_UNIFORM = '''def uniform_at(life, e):
    """The e-th number in [0, 1) of a life (SplitMix64)."""
    most, golden = (1 << 64) - 1, 0x9E3779B97F4A7C15

    def mix(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & most
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & most
        return z ^ (z >> 31)

    name = mix(golden)
    for part in (PURPOSE, life, 0, 0):
        name = mix(name ^ ((mix((part + golden) & most) + golden) & most))
    return (mix((mix(name ^ BIRTH) + e * golden) & most) >> 11) / 9007199254740992.0


'''


def render(program: Program) -> str:
    """The file's text."""
    p, made = program, specialise(program)
    doc = ['"""' + head(p)[0], "", *head(p)[1:], '"""']
    tables = [_table(name, getattr(p, name).tolist()) for name in made.tables]
    uniform = _UNIFORM.replace("PURPOSE", str(seeding.DEMO)).replace("BIRTH", hex(_BIRTH)) if made.draws else ""
    functions = "\n\n".join(_function(f) for f in made.functions.values())
    return "\n".join([*doc, "", "import math", "", *tables, "", "", f"{uniform}{functions}\n\n{_class(p, made)}"])


def _table(name: str, values: list[Any]) -> str:
    words = [repr(v) if math.isfinite(v) else f"{'-' if v < 0 else ''}math.inf" for v in values]
    return f"{name.upper()} = (\n{wrapped(words)},\n)" if words else f"{name.upper()} = ()"


class _Names(ast.NodeTransformer):
    """Tables by their names in the file."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        table = isinstance(node.value, ast.Name) and node.value.id == "p"
        return ast.Name(node.attr.upper(), ast.Load()) if table else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        assert node.value is not None
        return self.visit(ast.Assign([node.target], node.value, lineno=0))


def _function(f: Function) -> str:
    body = [_Names().visit(s) for s in copy.deepcopy(f.body)] or [ast.Pass()]
    doc = [ast.Expr(ast.Constant(" ".join(f.doc.split())))] if f.doc else []
    arguments = ast.arguments([], [ast.arg(n) for n in f.parameters], None, [], [], None, [])
    made = ast.FunctionDef(f.name, arguments, [*doc, *body], [], lineno=0)
    return ast.unparse(ast.fix_missing_locations(made)) + "\n"


def _class(p: Program, made: Specialised) -> str:
    sizes = {
        "value": p.width, "weight": p.edges, "trace": p.edges, "birth": p.edges, "theta": p.nodes, "term": p.most_terms,
        "output": p.outputs,
    }  # fmt: skip
    return "\n".join([
        "class Controller:",
        '    """A life begins; then an observation and the reward of the last action give the next action."""',
        "",
        "    def __init__(self):",
        *(f"        self.{name} = [0.0] * {size}" for name, size in sizes.items() if name in made.fields),
        "        self.reset()",
        "",
        f"    def reset(self{', life=0' if p.drawn else ''}):",
        '        """A new life: the weights of birth, no activity, nothing learned."""',
        f"        {'born(self, life)' if p.drawn else 'init(self)'}",
        "",
        "    def rest(self):",
        '        """The next episode of the same life: no activity; what was learned stays."""',
        "        rest(self)",
        "",
        "    def step(self, observation, reward=0.0):",
        f'        """{p.inputs} numbers, and what the last action earned -> {p.actions} numbers: the next action."""',
        f"        if len(observation) != {p.inputs}:",
        f'            raise ValueError(f"an observation must have {p.inputs} numbers, not {{len(observation)}}")',
        f"        action = [0.0] * {p.actions}",
        "        step(self, observation, reward, action)",
        "        return action",
        "",
        "    def end(self, reward):",
        '        """The episode is over: its last reward."""',
        "        end(self, reward)",
        "",
    ])  # fmt: skip
