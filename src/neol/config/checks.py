"""One value against a field's type and range; what is not allowed is a NeolError that says what is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from neol.errors import NeolError


def convert(name: str, value: Any, kind: Any) -> Any:
    """The value in the type `kind`."""
    if isinstance(value, int) and abs(value) > 2**64:  # Python may refuse to print it
        raise NeolError(f"{name} = a number of more than 64 bits is not allowed; it must be below 2^63.")
    try:
        if kind is bool:
            if isinstance(value, str) and value.lower() in ("true", "false"):
                return value.lower() == "true"
            if isinstance(value, bool):
                return value
            raise ValueError
        if kind is int:
            if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
                raise ValueError
            return int(value)
        if kind is float:
            if isinstance(value, bool):
                raise ValueError
            return float(value)
        if kind is str:
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise ValueError
            str(value).encode("utf-8")  # a UnicodeEncodeError is a ValueError: it could not be written to a file
            return str(value).strip()
        if name == "env_kwargs":
            return _pairs(value)
        items = value.replace(",", " ").split() if isinstance(value, str) else list(value)
        if not items or not all(isinstance(i, str) and i.encode("utf-8") for i in items):
            raise ValueError
        return tuple(items)
    except (ValueError, TypeError, OverflowError):
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        if name == "env_kwargs":
            raise NeolError(f"env_kwargs = {value!r} is not allowed; it must be key=value words.") from None
        raise NeolError(
            f"{name} = {value!r} is not allowed; it must be {names.get(kind, 'a list of names')}."
        ) from None


def _pairs(value: Any) -> tuple[str, ...]:
    """Arguments of an environment as key=value words; a mapping becomes such."""
    if isinstance(value, Mapping):
        value = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in value.items()]
    items = [value] * (value != "") if isinstance(value, str) else list(value)
    if not all(
        isinstance(i, str) and i.encode("utf-8") and i.partition("=")[0].isidentifier() and "=" in i for i in items
    ):
        raise ValueError
    return tuple(items)


def check_range(name: str, value: float, low: float, high: float, open_low: bool) -> None:
    ok = (low < value if open_low else low <= value) and value <= high  # False for nan
    if ok:
        return
    above = f"{'above' if open_low else 'at least'} {low:,g}"
    shown = f"{high:,}" if isinstance(high, int) else f"{high:g}"
    allowed = above if math.isinf(high) else f"{above} and at most {shown}"
    raise NeolError(f"{name} = {value} is not allowed; it must be {allowed}.")


def check_weight_mutation(value: str) -> None:
    try:
        ok = value in ("config", "off") or 0.0 <= float(value) <= 1.0
    except ValueError:
        ok = False
    if not ok:
        raise NeolError(f"weight_mutation = '{value}' is not allowed; it must be config, off or a probability 0 to 1.")
