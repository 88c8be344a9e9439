"""Ends what is left of a Ray cluster of our own once the process that started it is gone: Ray's agents stay for long.

Started by ray_workers.py before Ray is, as a file of its own (it needs nothing of ours, so that it is up at once); our
end of the pipe at its input closes when that process ends, whatever ends it. Linux: processes are found in /proc. Those
below ours are remembered while it lives; and all of Ray's inherit a variable of their environment, MARK, which some
overwrite with a title soon after they began.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

MARK = "NEOL_RAY_OWNER"
OFTEN = 0.25  # seconds between looks at which processes there are
AGAIN, LONGEST = 0.02, 5.0  # seconds between two rounds of ending them; and for how long there may be any left


def descendants(parent: int) -> dict[int, str]:
    """All processes below one, each with the moment at which it began: a number may be used again."""
    found: dict[int, str] = {}
    waiting = [parent]
    while waiting:
        for children in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):
                for child in map(int, children.read_text().split()):
                    found[child] = began(child)
                    waiting.append(child)
    return found


def marked(mark: bytes) -> dict[int, str]:
    """All processes with the mark in their environment, likewise."""
    found: dict[int, str] = {}
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environment.read_bytes().split(b"\0"):
                found[int(environment.parent.name)] = began(int(environment.parent.name))
    return found


def began(pid: int) -> str:
    """When a process began, in the system's own ticks; '' = it is no more."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if state in "ZX" else rest[18]
    except (OSError, ValueError, IndexError):
        return ""


def watch(parent: int, mark: bytes, pipe: int) -> None:
    """Remember the parent's processes until the pipe closes; then end all that are still there, and look again."""
    known: dict[int, str] = {}
    own = int(os.readlink("/proc/self"))
    while not select.select([pipe], [], [], OFTEN)[0]:
        known |= descendants(parent)
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        known |= marked(mark)
        left = [pid for pid, when in known.items() if when and began(pid) == when and pid != own]
        if not left:
            return
        for pid in left:
            known |= descendants(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(AGAIN)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    watch(int(sys.argv[1]), f"{MARK}={sys.argv[2]}".encode(), 0)
