"""Ends what is left of a Ray cluster of our own once the process that started it is gone: Ray's agents stay for long.

Started by ray_workers.py as `python -P -m neol.rollout.ray_reaper PARENT`; our end of the pipe at its input closes when
that process ends, whatever ends it. Linux: the processes are found in /proc.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

OFTEN = 0.25  # seconds between looks at which processes there are


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


def began(pid: int) -> str:
    """When a process began, in the system's own ticks; '' = it is no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def watch(parent: int, pipe: int) -> None:
    """Remember the parent's processes until the pipe closes; then end those that are still there."""
    known: dict[int, str] = {}
    own = int(os.readlink("/proc/self"))
    while not select.select([pipe], [], [], OFTEN)[0]:
        known |= descendants(parent)
    for pid, when in known.items():
        if when and began(pid) == when and pid != own:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    watch(int(sys.argv[1]), 0)
