"""Files that are never torn: written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from neol.errors import NeolError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, which takes its place at the end of the block; interrupted, it leaves nothing."""
    path = Path(os.path.realpath(path))  # a link stays a link
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield part
        os.replace(part, path)
    except OSError as e:
        raise NeolError(f"cannot write '{path}': {e.strerror or e}.") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def is_part(path: Path) -> bool:
    """Whether it is the temporary of a write that was killed."""
    return path.name.startswith(".") and path.stem.endswith(".part")


def write_atomic(path: Path, content: str | bytes | Callable[[IO[bytes]], None]) -> None:
    """Replace `path` with the content (or what a function writes), all or nothing, safe on the disk."""
    with replacing(path) as part, open(part, "wb") as f:
        if callable(content):
            content(f)
        else:
            f.write(content.encode("utf-8") if isinstance(content, str) else content)
        f.flush()
        os.fsync(f.fileno())


def check_suffix(path: str | os.PathLike[str], allowed: Sequence[str]) -> Path:
    """The path, or a NeolError where its name does not end as it should; its folder is made."""
    target = Path(path)
    if target.suffix.lower() not in allowed:
        raise NeolError(f"cannot write '{target}': the file name must end in {' or '.join(allowed)}.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise NeolError(f"cannot write '{target}': {e.strerror}.") from None
    return target
