"""What a study's database says, in the types that it should have: SQLite stores anything anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from neol.errors import NeolError

LARGEST = 1e100  # of a number, so that sums and squares stay finite
LONGEST = 200  # characters of a name
MOST_TEXT = 100_000_000  # characters of a document


class Damaged(NeolError):
    """A database that no study wrote so."""


def text(value: Any, what: str, longest: int = LONGEST) -> str:
    """A name, printable and not too long."""
    if not isinstance(value, str) or len(value) > max(longest, LONGEST):
        raise Damaged(f"{what} = {str(value)[:60]!r} is not allowed; it must be text of at most {longest} characters.")
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in value)


def document(value: Any, what: str) -> str:
    return text(value, what, MOST_TEXT)


def whole(value: Any, what: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or abs(value) > 2**53:
        raise Damaged(f"{what} = {str(value)[:60]!r} is not allowed; it must be a whole number.")
    return value


def number(value: Any, what: str) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > LARGEST:
        raise Damaged(f"{what} = {str(value)[:60]!r} is not allowed; it must be a number below {LARGEST:g}.")
    return value


def count(value: Any, what: str) -> int:
    if whole(value, what) < 0:
        raise Damaged(f"{what} = {value} is not allowed; it must be at least 0.")
    return whole(value, what)


def maybe(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """The same, where nothing (NULL) is allowed."""
    return lambda value, what: None if value is None else read(value, what)


def one_of(*allowed: str) -> Callable[[Any, str], str]:
    def read(value: Any, what: str) -> str:
        if value not in allowed:
            raise Damaged(f"{what} = {str(value)[:60]!r} is not allowed; it must be {' or '.join(allowed)}.")
        return str(value)

    return read


def key(value: Any, what: str) -> str:
    """A run's key, which is the name of its folder."""
    found = text(value, what)
    if not found or found in (".", "..") or set(found) & set("/\\\0\n"):
        raise Damaged(f"{what} = {found[:60]!r} is not allowed; it must be the name of a folder.")
    return found


def point(value: Any, what: str) -> dict[str, Any]:
    """A place in the grid: settings and their values."""
    try:
        found = json.loads(document(value, what))
    except (ValueError, RecursionError):
        found = None
    plain = (str, int, float, bool)
    if not isinstance(found, dict) or not all(isinstance(v, plain) for v in found.values()):
        raise Damaged(f"{what} = {str(value)[:60]!r} is not allowed; it must be a JSON object of names and values.")
    return {
        text(k, what): v if isinstance(v, bool) else text(v, what) if isinstance(v, str) else number(v, what)
        for k, v in found.items()
    }


def rows(found: Iterable[Sequence[Any]], readers: dict[str, Callable[[Any, str], Any]], table: str) -> list[list[Any]]:
    """Rows of a table with each column read by its reader."""
    return [
        [read(value, f"{table}.{column}") for (column, read), value in zip(readers.items(), tuple(row), strict=True)]
        for row in found
    ]
