"""Whose word an environment is: what a file names is not imported unasked, and only what may be one is called.

A task's name stands in champion.json, in a run's config.toml and in a study's database, and `module:name` means that
the module is imported: its code runs. So such a name counts only if the user said it, or said that the file is to be
trusted. A name on the command line, in a call from Python or in a study file that is run is the user's word.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from neol.envs.tasks import CHANGING_TASKS, PATTERN_TASKS, TASKS
from neol.errors import NeolError

_GYMNASIUM = "gymnasium.envs."  # where the entry points of Gymnasium's own environments lie
_NO_ENVIRONMENT = ("None", "NoneType", "int", "float", "bool", "str", "bytes", "list", "dict", "tuple")  # annotations


def check_trusted(name: str, env_kwargs: Mapping[str, Any], source: str, options: str) -> None:
    """A NeolError where an environment that a file names is not one that is safe to make.

    `source` says where the name stands, `options` what the user may give to say that it is meant.
    """
    what = _runs(name, env_kwargs)
    if what:
        raise NeolError(f"{source} names the environment '{name}', which would {what}; give {options} if you trust it.")


def _runs(name: str, env_kwargs: Mapping[str, Any]) -> str:
    """What making this environment would do that only the user may decide; '' = nothing."""
    own = (CHANGING_TASKS | PATTERN_TASKS).get(name)
    if own is not None and own.native:
        return ""  # a simulator of our own, which checks its arguments
    if name in TASKS or name in [t.id for t in TASKS.values()]:
        origin = _GYMNASIUM
    elif name.startswith("python:"):
        return ""  # of a Python program: nothing is imported for it
    elif ":" in name:
        module = name.partition(":")[0]
        return f"import the module '{module}' and run its code"
    else:
        origin = _origin(name)
    if env_kwargs and not origin.startswith(_GYMNASIUM):
        return f"call '{origin or name}' with arguments of the file"
    odd = [k for k, v in env_kwargs.items() if not _is_harmless(v)]
    return f"be made with the file's own {odd[0]} = {str(env_kwargs[odd[0]])[:60]!r}" if odd else ""


def _origin(env_id: str) -> str:
    """The entry point that a registered id stands for, as text; '' where there is none."""
    import gymnasium

    spec = gymnasium.registry.get(env_id)
    point = spec.entry_point if spec is not None else ""
    return point if isinstance(point, str) else f"{getattr(point, '__module__', '')}:{getattr(point, '__name__', '')}"


def _is_harmless(value: Any) -> bool:
    """Whether an argument is plain data: no text that could be a path, an address or a module."""
    if isinstance(value, str):
        return not set(value) & set("/\\:~")
    if isinstance(value, Mapping):
        return all(_is_harmless(v) for pair in value.items() for v in pair)
    if isinstance(value, list | tuple):
        return all(map(_is_harmless, value))
    return value is None or isinstance(value, bool | int | float)


def check_module(module: str) -> None:
    """A NeolError where a module is part of Python itself: it has no environment, and it is not even imported."""
    if module.partition(".")[0] in sys.stdlib_module_names or module in sys.builtin_module_names:
        raise NeolError(f"module '{module}' is part of Python; it has no environment.")


def check_callable(found: Any, name: str) -> None:
    """A NeolError, before it is called, where something cannot be what makes an environment."""
    while isinstance(found, partial):
        found = found.func
    why = ""
    home = str(getattr(found, "__module__", None) or "")
    if inspect.isbuiltin(found) or home.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        why = f"it is {getattr(found, '__name__', type(found).__name__)} of Python's own module '{home or 'builtins'}'"
    elif isinstance(found, type):
        makes_anything: Any = [getattr(found, "__new__", None) is not object.__new__, hasattr(found, "__getattr__")]
        if not any(makes_anything) and not all(hasattr(found, m) for m in ("reset", "step")):
            why = "it is a class without reset and step"
    elif getattr(found, "__annotations__", None):
        returned = found.__annotations__.get("return", Any)
        word = returned if isinstance(returned, str) else getattr(returned, "__name__", str(returned))
        if word in _NO_ENVIRONMENT:
            why = f"it returns {word}"
    if why:
        raise NeolError(f"'{name}' is not a Gymnasium environment, nor what makes one: {why}.")
