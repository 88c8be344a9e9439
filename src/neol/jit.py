"""`kernel`: Numba's njit as this package uses it, with a disk cache that notices a change in *any* of our modules.

Numba's own cache watches only the file that holds the function, so a new plasticity rule would silently not reach
the cached step kernel that calls it. Here the stamp of a cached kernel covers all modules that hold kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit
from numba.core.event import Event, Listener, register, unregister

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _source_stamp() -> tuple[tuple[str, int, int], ...]:
    """(name, mtime, size) of every module that kernels are made from, in whatever package: those that hold kernels,
    and those that these take CONSTANTS from, since Numba freezes their values."""
    root = Path(__file__).parent
    texts = {str(f.relative_to(root)): f.read_text("utf-8") for f in sorted(root.rglob("*.py"))}
    marks = ("\n@kernel", "\n@bare", "\n@inlined", "\n@njit", " @njit")
    wanted = [name for name, text in texts.items() if any(mark in text for mark in marks)]
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += [m for m in _constants_from(texts[name]) if m in texts]
    stats = [(name, (root / name).stat()) for name in sorted(found)]
    return tuple((name, s.st_mtime_ns, s.st_size) for name, s in stats)


def _constants_from(text: str) -> Iterator[str]:
    """The files of ours that a module's text imports constants from."""
    for module, names in re.findall(r"^from neol\.([\w.]+) import (\([^)]*\)|.+)$", text, re.MULTILINE):
        if re.search(r"\b[A-Z][A-Z0-9_]+\b", names):
            yield f"{module.replace('.', '/')}.py"


def kernel(function: F, **options: Any) -> F:
    """Compile without the GIL, with IEEE division, cached on disk. NUMBA_DISABLE_JIT=1 leaves it the function it is."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]  # made when it is imported
        return function
    options = {"_nrt": True, **options}  # said, since a callee would take its first caller's, into the cache
    how = {"nogil": True, "error_model": "numpy", **options}
    try:
        dispatcher: Any = njit(cache=True, **how)(function)
    except RuntimeError:  # there is no folder that a cache could be written to: every process compiles anew
        return njit(**how)(function)
    dispatcher._cache._cache_file._source_stamp = _source_stamp()
    dispatcher._cache.save_overload = _where_there_is_room(dispatcher._cache.save_overload)
    return dispatcher


def _where_there_is_room(save: Callable[..., None]) -> Callable[..., None]:
    """Numba's saving of a compiled kernel; a full disk costs the next process a minute, not this one its run."""

    def saved(*args: Any) -> None:
        with suppress(OSError):
            save(*args)

    return saved


def bare(function: F, **options: Any) -> F:
    """A kernel that allocates nothing, and so does without reference counts: in a step they cost more than the work.

    What its arguments refer to must outlive the call. It returns no array and calls nothing that returns one; Numba
    refuses to compile an allocation of its own.
    """
    return kernel(function, _nrt=False, **options)


def inlined(function: F) -> F:
    """A bare kernel whose body is copied into those that call it: passing dozens of arrays costs more than the work."""
    return bare(function, inline="always")


@contextmanager
def announce_compilation(say: Callable[[str], None]) -> Iterator[None]:
    """Tell the user once, and only when a kernel is compiled: those that come from the cache need no word."""
    listener = _Announcer(say)
    register("numba:compile", listener)
    try:
        yield
    finally:
        unregister("numba:compile", listener)


class _Announcer(Listener):
    def __init__(self, say: Callable[[str], None]) -> None:
        self.say: Callable[[str], None] | None = say

    def on_start(self, event: Event) -> None:
        say, self.say = self.say, None
        if say is not None:
            say("Compiling kernels, once on this machine (about a minute) ...")

    def on_end(self, event: Event) -> None:
        pass
