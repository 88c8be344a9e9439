"""`controller.py` for one program: constants put in, what it never takes or reads left out.

What comes out is still Python's syntax tree; the languages differ only in how they print it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from neol.export import controller
from neol.export.kernel_source import globals_of, names_read, tree_of
from neol.export.program import Program
from neol.network.plasticity import LOCAL

PUBLIC = ("init", "rest", "step", "end")
PRIMITIVE = "uniform_at"  # every language writes it itself
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_RELATIONS: dict[type, Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Gt: operator.gt}
_REWRITTEN = {"min": "smaller", "max": "larger"}
Domains = dict[str, frozenset[int]]  # expression -> values that it may have


class Function(NamedTuple):
    """A function of the controller as this program needs it."""

    name: str
    parameters: tuple[str, ...]  # those that it reads; of a public one all
    read: frozenset[str]  # the names that it reads
    integers: frozenset[str]  # parameters that are whole numbers
    body: list[ast.stmt]
    returns: bool
    doc: str
    public: bool


class Specialised(NamedTuple):
    functions: dict[str, Function]  # each after those that it calls
    tables: tuple[str, ...]  # arrays of the program that they read
    fields: tuple[str, ...]  # of the state
    draws: bool  # they call PRIMITIVE


def specialise(program: Program) -> Specialised:
    """All functions that a controller of this program needs."""
    found: dict[str, Function] = {}
    for name in (*(("born",) if program.drawn else ()), *PUBLIC):
        _function(getattr(controller, name), program, found, public=True)
    nodes = [n for f in found.values() for statement in f.body for n in ast.walk(statement)]
    attributes = [(n.value.id, n.attr) for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
    tables, fields = (tuple(dict.fromkeys(a for o, a in attributes if o == owner)) for owner in ("p", "s"))
    return Specialised(found, tables, fields, any(isinstance(n, ast.Name) and n.id == PRIMITIVE for n in nodes))


def activation(program: Program, kind: int) -> ast.expr:
    """The activation with this id as an expression of z."""
    function = controller.activate
    folder = _Folder(program, {}, globals_of(function), {})
    only = folder.block(tree_of(function).body, {"kind": frozenset({kind})})[0]
    assert isinstance(only, ast.Return) and only.value is not None
    return only.value


def _function(
    function: Callable[..., Any],
    program: Program,
    found: dict[str, Function],
    bound: Mapping[str, Any] | None = None,
    public: bool = False,
) -> Function:
    tree = tree_of(function)
    if tree.name in found:
        return found[tree.name]
    doc = (getattr(function, "py_func", function).__doc__ or "").strip()
    folder = _Folder(program, found, globals_of(function), bound or {})
    domains = {f"p.{name}[k]": _values(getattr(program, name)) for name in ("activation", "aggregation")}
    domains |= {"p.kind[a]": _values(program.kind), "kind": _values(program.activation)}
    body = _without_dead(folder.block(tree.body, domains))
    read = set().union(*(names_read(s) for s in body)) if body else set()
    names = [a.arg for a in tree.args.args if a.arg != "p"]
    integers = {a.arg for a in tree.args.args if a.annotation is not None and ast.unparse(a.annotation) == "int"}
    kept = tuple(n for n in names if public or n in read)
    returns = any(isinstance(n, ast.Return) and n.value is not None for s in body for n in ast.walk(s))
    found[tree.name] = Function(
        tree.name, kept, frozenset(read), frozenset(integers | {"kind"}), body, returns, doc, public
    )
    return found[tree.name]


def _values(table: np.ndarray) -> frozenset[int]:
    return frozenset(int(v) for v in table)


class _Folder(ast.NodeTransformer):
    """Puts a program's constants into expressions, and follows calls."""

    def __init__(
        self, program: Program, found: dict[str, Function], names: Mapping[str, Any], bound: Mapping[str, Any]
    ) -> None:
        self.program, self.found, self.names, self.bound = program, found, names, bound
        self.domains: Domains = {}

    def block(self, statements: Iterable[ast.stmt], domains: Domains) -> list[ast.stmt]:
        """Statements folded; what follows a return is dropped."""
        out: list[ast.stmt] = []
        domains = dict(domains)
        for statement in statements:
            out += self._statement(statement, domains)
            if out and _ends(out):
                break
        return out

    def _statement(self, statement: ast.stmt, domains: Domains) -> list[ast.stmt]:
        """One statement folded; what its test rules out for those that follow is taken out of `domains`."""
        self.domains = domains
        if isinstance(statement, ast.If):
            test = self.visit(statement.test)
            if isinstance(test, ast.Constant):
                return self.block(statement.body if test.value else statement.orelse, domains)
            key, value = _choice(test)
            others = {**domains, key: domains[key] - {value}} if key in domains else domains
            body, orelse = self.block(statement.body, domains), self.block(statement.orelse, others)
            if _ends(body):
                domains |= others
            return [ast.If(test, body, orelse)] if body or orelse else []
        if isinstance(statement, ast.For | ast.While):
            head = "iter" if isinstance(statement, ast.For) else "test"
            setattr(statement, head, self.visit(getattr(statement, head)))
            statement.body = self.block(statement.body, domains)
            return [statement] if statement.body else []
        return [self.visit(statement)]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.bound.get(node.id, self.names.get(node.id))
        constant = isinstance(node.ctx, ast.Load) and isinstance(value, int | float)
        return ast.Constant(value) if constant else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not (isinstance(node.value, ast.Name) and node.value.id == "p"):
            return node
        value = getattr(self.program, node.attr)
        return node if isinstance(value, np.ndarray) else ast.Constant(value)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """A table whose entries are all the same is a constant."""
        self.generic_visit(node)
        table = node.value
        if isinstance(table, ast.Attribute) and isinstance(table.value, ast.Name) and table.value.id == "p":
            values = getattr(self.program, table.attr)
            if len(values) and (values == values[0]).all():
                return ast.Constant(values[0].item())
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.operand, ast.Constant):
            value: Any = node.operand.value
            return ast.Constant(not value if isinstance(node.op, ast.Not) else -value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Pow):
            assert isinstance(right, ast.Constant) and right.value == 2
            return self._call("squared", [left])
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant) and type(node.op) in _ARITHMETIC:
            return ast.Constant(_ARITHMETIC[type(node.op)](left.value, right.value))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        ruling = isinstance(node.op, ast.Or)  # the constant that decides
        left = [v for v in node.values if not (isinstance(v, ast.Constant) and bool(v.value) is not ruling)]
        if any(isinstance(v, ast.Constant) for v in left):
            return ast.Constant(ruling)
        if len(left) < 2:
            return left[0] if left else ast.Constant(not ruling)
        return ast.BoolOp(node.op, left)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        key, value = _choice(node)
        if key in self.domains and value is None:
            key, value = _choice(ast.Compare(node.left, node.ops, [self.visit(c) for c in node.comparators]))
        if key in self.domains and (value not in self.domains[key] or len(self.domains[key]) == 1):
            return ast.Constant(value in self.domains[key])
        self.generic_visit(node)
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return ast.Constant(_RELATIONS[type(node.ops[0])](left.value, right.value))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self.visit(node.body if node.test.value else node.orelse)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute) or node.func.id in ("abs", "range"):  # type: ignore[attr-defined]
            node.args = [self.visit(a) for a in node.args]
            return node
        assert isinstance(node.func, ast.Name)
        args = [a for a in node.args if not (isinstance(a, ast.Name) and a.id == "p")]
        return self._call(_REWRITTEN.get(node.func.id, node.func.id), [self.visit(a) for a in args])

    def _call(self, name: str, args: list[ast.expr]) -> ast.expr:
        """A call of one of our functions, with those arguments alone that it reads."""
        if name == PRIMITIVE:
            return ast.Call(ast.Name(name, ast.Load()), args, [])
        limit = args[-1]
        if name == "clip" and isinstance(limit, ast.Constant) and limit.value == math.inf:
            return args[0]
        function: Callable[..., Any] = getattr(controller, name)
        bound: dict[str, Any] = {}
        if name == "local_trace":
            function, args = LOCAL[self.program.rule], args[1:]
            bound = {"trace_decay": self.program.trace_decay}
        names = [a.arg for a in tree_of(function).args.args if a.arg != "p"]
        made = _function(function, self.program, self.found, bound)
        kept = [a for n, a in zip(names, args, strict=True) if n in made.parameters]
        return ast.Call(ast.Name(made.name, ast.Load()), kept, [])


def _choice(test: ast.expr) -> tuple[str, Any]:
    """(expression, constant) of `expression == constant`; the constant is None where it is a name still."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        right = test.comparators[0]
        return ast.unparse(test.left), right.value if isinstance(right, ast.Constant) else None
    return "", None


def _ends(block: list[ast.stmt]) -> bool:
    """Whether nothing that follows a block is ever reached."""
    if not block:
        return False
    last = block[-1]
    return isinstance(last, ast.Return) or (isinstance(last, ast.If) and _ends(last.body) and _ends(last.orelse))


def _without_dead(body: list[ast.stmt]) -> list[ast.stmt]:
    """Without local variables that nothing reads."""
    holder = ast.Module(body, [])
    while True:
        read = names_read(holder)
        remover = _Remover(read)
        remover.visit(holder)
        if not remover.removed:
            return holder.body


class _Remover(ast.NodeTransformer):
    def __init__(self, read: set[str]) -> None:
        self.read, self.removed = read, False

    def _kept(self, node: Any, target: ast.expr) -> Any:
        if isinstance(target, ast.Name) and target.id not in self.read:
            self.removed = True
            return None
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self._kept(node, node.targets[0])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self._kept(node, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        return self._kept(node, node.target)
