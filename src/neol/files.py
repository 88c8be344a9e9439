"""Files that are never torn: written whole or not at all."""

from __future__ import annotations

import errno
import glob
import hashlib
import math
import os
import platform
import re
import stat
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from neol.errors import NeolError
from neol.system import process_id

LARGEST_FILE = 500_000_000  # bytes that are read of a text


def read_text(path: str | os.PathLike[str]) -> str:
    """A UTF-8 text file's content. What is no regular file (a device, a pipe) might never end: an OSError."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    with open(file, "rb") as f:
        found = os.fstat(f.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if found.st_size > LARGEST_FILE:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST_FILE // 10**6} MB")
        return f.read().decode("utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, which takes its place at the end of the block; interrupted, it leaves nothing.

    The name is this process's own, so that two who write the same file at once do not meet. What a process that was
    killed left behind is removed by whoever writes the file next.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    if not path.name:
        raise NeolError(f"cannot write '{path}': it is a folder.")
    head, tail = f".{path.stem[:80]}.", f".part{path.suffix}"
    part = path.with_name(f"{head}{_owner()}-{threading.get_ident()}{tail}")
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        for old in path.parent.glob(f"{glob.escape(head)}*{glob.escape(tail)}"):
            if _is_left(old.name[len(head) : len(old.name) - len(tail)]):
                old.unlink(missing_ok=True)
        yield part
        os.replace(part, path)
    except OSError as e:
        raise NeolError(f"cannot write '{path}': {e.strerror or e}.") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _owner() -> str:
    """Which machine and process a temporary name is of."""
    return f"{zlib.crc32(platform.node().encode()):08x}-{process_id()}"


def _is_left(owner: str) -> bool:
    """Whether a temporary name is of a process that is no more. Of other machines that cannot be told."""
    machine, _, rest = owner.partition("-")
    pid = rest.partition("-")[0]
    if machine != _owner().partition("-")[0] or not pid.isdigit() or int(pid) == process_id():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def as_path(value: Any, name: str) -> Path:
    """A path that a caller gave, or a NeolError: an empty one is not the current folder."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value) or "\0" in str(value):
        raise NeolError(f"{name} = {value!r} is not allowed; it must be a path.")
    return Path(value)


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
