"""Files that are never torn: written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

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


def slug(name: str) -> str:
    """A name as part of a file's name: letters, digits, '.', '_' and '-'."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)


def file_stem(name: str) -> str:
    """A name as a file's name without its ending, whatever is in it: not empty, long, hidden or a path."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60]
    if plain == name and name and name[0] != "-":
        return name
    return f"{plain.strip('-')}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}".lstrip("-")


def check_no_links(folder: Path, names: Iterable[str]) -> None:
    """A NeolError where a file that is to be written into a folder is a link there: it could lead anywhere."""
    for name in names:
        if (folder / name).is_symlink():
            raise NeolError(f"'{folder / name}' is a link; what is written into '{folder}' must stay in it.")


def cell(value: Any) -> Any:
    """A value for a CSV file: text that a spreadsheet would take for a formula is marked as text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r\n") else value


def finite(value: Any) -> Any:
    """A value as JSON can hold it, which has no infinity: what is not a finite number becomes null."""
    if isinstance(value, Mapping):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
