"""Syntax trees of `specialise.py` printed as C or JavaScript, which say statements and expressions alike."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple

_OPERATORS: dict[type, tuple[str, int]] = {
    ast.Or: ("||", 2), ast.And: ("&&", 3), ast.Eq: ("==", 5), ast.NotEq: ("!=", 5), ast.Lt: ("<", 6), ast.Gt: (">", 6),
    ast.RShift: (">>", 8), ast.BitAnd: ("&", 0), ast.Add: ("+", 9), ast.Sub: ("-", 9), ast.Mult: ("*", 10),
    ast.Div: ("/", 10),
}  # fmt: skip
_CONDITION, _UNARY, _ATOM = 1, 11, 12


class Dialect(NamedTuple):
    """Where the two differ."""

    number: Callable[[float], str]  # a real constant
    declared: Callable[[str, bool], str]  # a new variable (whole number or not)
    table: Callable[[str], str]
    field: Callable[[str], str]  # of the state
    function: Callable[[str], str]  # one of ours
    library: Callable[[str], str]  # one of Python's math, or abs
    equal: str
    unequal: str


class Printer:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def body(self, statements: list[ast.stmt], known: frozenset[str], indent: int = 1) -> list[str]:
        """The lines of a block; `known` variables are declared already."""
        lines: list[str] = []
        names = set(known)
        for statement in statements:
            lines += self._statement(statement, names, indent)
        return lines

    def _statement(self, node: ast.stmt, known: set[str], indent: int) -> list[str]:
        pad, inside = "    " * indent, frozenset(known)
        if isinstance(node, ast.If):
            lines = [f"{pad}if ({self.expression(node.test)}) {{", *self.body(node.body, inside, indent + 1)]
            if node.orelse:
                lines += [f"{pad}}} else {{", *self.body(node.orelse, inside, indent + 1)]
            return [*lines, f"{pad}}}"]
        if isinstance(node, ast.While):
            return [
                f"{pad}while ({self.expression(node.test)}) {{",
                *self.body(node.body, inside, indent + 1),
                f"{pad}}}",
            ]
        if isinstance(node, ast.For):
            assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
            bounds = [self.expression(a) for a in node.iter.args]
            start, stop = bounds if len(bounds) == 2 else ("0", bounds[0])
            i = node.target.id
            head = f"{pad}for ({self.dialect.declared(i, True)} = {start}; {i} < {stop}; {i}++) {{"
            return [head, *self.body(node.body, inside | {i}, indent + 1), f"{pad}}}"]
        return [f"{pad}{self._simple(node, known)};"]

    def _simple(self, node: ast.stmt, known: set[str]) -> str:
        if isinstance(node, ast.Return):
            return f"return {self.expression(node.value)}" if node.value is not None else "return"
        if isinstance(node, ast.Expr):
            return self.expression(node.value)
        if isinstance(node, ast.AugAssign):
            return f"{self.expression(node.target)} {_OPERATORS[type(node.op)][0]}= {self.expression(node.value)}"
        assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        left = self.expression(target)
        if isinstance(target, ast.Name) and target.id not in known:
            known.add(target.id)
            left = self.dialect.declared(target.id, isinstance(node, ast.AnnAssign))
        return f"{left} = {self.expression(node.value)}"

    def expression(self, node: ast.expr, least: int = 0) -> str:
        """An expression, in brackets where it binds less than `least`."""
        text, strength = self._printed(node)
        return f"({text})" if strength < least else text

    def _printed(self, node: ast.expr) -> tuple[str, int]:
        d = self.dialect
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int | float)
            text = str(int(node.value)) if isinstance(node.value, int) else d.number(node.value)
            return text, _UNARY if text.startswith("-") else _ATOM
        if isinstance(node, ast.Name):
            return node.id, _ATOM
        if isinstance(node, ast.Attribute):
            assert isinstance(node.value, ast.Name)
            return (d.table if node.value.id == "p" else d.field)(node.attr), _ATOM
        if isinstance(node, ast.Subscript):
            return f"{self.expression(node.value, _ATOM)}[{self.expression(node.slice)}]", _ATOM
        if isinstance(node, ast.Call):
            args = ", ".join(self.expression(a) for a in node.args)
            if isinstance(node.func, ast.Attribute):
                return f"{d.library(node.func.attr)}({args})", _ATOM
            assert isinstance(node.func, ast.Name)
            return f"{(d.library if node.func.id == 'abs' else d.function)(node.func.id)}({args})", _ATOM
        if isinstance(node, ast.UnaryOp):
            sign = "!" if isinstance(node.op, ast.Not) else "-"
            return f"{sign}{self.expression(node.operand, _ATOM)}", _UNARY
        if isinstance(node, ast.IfExp):
            parts = (self.expression(n, _CONDITION + 1) for n in (node.test, node.body))
            return f"{' ? '.join(parts)} : {self.expression(node.orelse, _CONDITION)}", _CONDITION
        return self._operation(node)

    def _operation(self, node: ast.expr) -> tuple[str, int]:
        """Operators of two sides: the order of arithmetic stays as it is in the tree."""
        if isinstance(node, ast.BoolOp):
            sign, strength = _OPERATORS[type(node.op)]
            return f" {sign} ".join(self.expression(v, 4) for v in node.values), strength
        if isinstance(node, ast.Compare):
            sign, strength = _OPERATORS[type(node.ops[0])]
            sign = {"==": self.dialect.equal, "!=": self.dialect.unequal}.get(sign, sign)
            return f"{self.expression(node.left, 7)} {sign} {self.expression(node.comparators[0], 7)}", strength
        assert isinstance(node, ast.BinOp)
        sign, strength = _OPERATORS[type(node.op)]
        left, right = self.expression(node.left, strength), self.expression(node.right, strength + 1)
        return f"{left} {sign} {right}", strength
