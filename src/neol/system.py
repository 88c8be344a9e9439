"""What we ask of the operating system: cores, locks, signals, and to end with our parent."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_id() -> int:
    """Ours: for those that are to die with us, and for the names of temporary files. It is in no seed."""
    return os.getpid()


def die_with_parent(parent: int) -> None:
    """Linux kills us when the thread that started us ends; if the parent (its process id) is gone already, at once."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def own_command(module: str, *words: str) -> list[str]:
    """How a module of ours is started in another process: what lies in the current folder (a queue.py) is not imported
    instead of what is installed."""
    return [sys.executable, "-P", "-m", module, *words]


def own_environment() -> dict[str, str]:
    """The environment variables for that: it finds the package that this process runs."""
    here = str(Path(__file__).parents[1])
    given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != here]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, *given])}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block, so that state and files are never left half-way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[Any] = []
    previous = signal.signal(signal.SIGINT, lambda *args: waiting.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if waiting:
        raise KeyboardInterrupt


def lock_file(path: Path) -> IO[str] | None:
    """The open file, locked for this process, or None where another has it. Whoever holds it may remove it."""
    while True:
        file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644), "w")  # noqa: SIM115 open while locked
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except BlockingIOError:
            file.close()
            return None
        file.close()  # its holder removed it between our opening and locking: there is another now


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Whether we have the run of this folder to ourselves, for as long as the block lasts."""
    path = folder.with_name(f".{folder.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = lock_file(path)
    if file is None:
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        file.close()


def is_busy(folder: Path) -> bool:
    """Whether somebody works on the run of this folder now."""
    path = folder.with_name(f".{folder.name}.lock")
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
