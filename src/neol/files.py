"""What we ask of the operating system: files that are never torn, and how many cores there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from neol.errors import NeolError


def write_atomic(path: Path, content: str | bytes | Callable[[IO[bytes]], None]) -> None:
    """Replace `path` with the content (or what a function writes), all or nothing."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as f:
            if callable(content):
                content(f)
            else:
                f.write(content.encode("utf-8") if isinstance(content, str) else content)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except OSError as e:
        temporary.unlink(missing_ok=True)
        raise NeolError(f"cannot write '{path}': {e.strerror}.") from None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
