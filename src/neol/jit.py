"""`kernel`: Numba's njit as this package uses it, with a disk cache that notices a change in *any* of our modules.

Numba's own cache watches only the file that holds the function, so a new plasticity rule would silently not reach
the cached step kernel that calls it. Here the stamp of a cached kernel covers all modules that hold kernels.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _source_stamp() -> tuple[tuple[str, int, int], ...]:
    """(name, mtime, size) of every module that kernels are made from."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    marks = ("\n@kernel", "\n@bare", "\n@inlined")
    files = [
        f
        for f in modules
        if f.name in ("config.py", "tasks.py", "jit.py") or any(mark in f.read_text("utf-8") for mark in marks)
    ]
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


def kernel(function: F, **options: Any) -> F:
    """Compile without the GIL, with IEEE division, cached on disk."""
    options = {"_nrt": True, **options}  # said, since a callee would take its first caller's, into the cache
    dispatcher: Any = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    dispatcher._cache._cache_file._source_stamp = _source_stamp()
    return dispatcher


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
def announce_compilation(say: Callable[[str], None], after_seconds: float = 1.5) -> Iterator[None]:
    """Tell the user what is going on when kernels are not in the cache yet."""
    timer = threading.Timer(after_seconds, say, ["Compiling kernels (first run on this machine, about a minute) ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
