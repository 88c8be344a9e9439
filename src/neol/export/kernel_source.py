"""The source of our kernels as syntax trees: rules and activations are exported as they stand there."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def _text_of(function: Callable[..., Any]) -> str:
    return textwrap.dedent(inspect.getsource(getattr(function, "py_func", function)))


def tree_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of a function or kernel, without its docstring."""
    definition = ast.parse(_text_of(function)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    if ast.get_docstring(definition) is not None:
        definition.body = definition.body[1:]
    return definition


def globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """What the names that it does not define itself mean."""
    return getattr(function, "py_func", function).__globals__


def names_read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
