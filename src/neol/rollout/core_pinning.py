"""Which core each lane of a rollout runs on.

A lane and its simulator's thread take turns, so one of them always sleeps, and waking it on another, idle core costs
about 100 us where waking it on the same core costs 30 (measured here; a lunar lander's step costs 18). So the two share
a core, each lane another. Results do not depend on it.
A lane that is tied to a core cannot be moved away when something else wants that core. So when the lanes together got
too little of their cores, or one of them was much slower than the others, all let go for a rollout, then for two ...
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

ENOUGH = 0.8  # of the cores' time: less, and something else runs there
SLOW = 0.67  # of the lanes' median speed: slower, and something else runs on that lane's core
LONGEST_PAUSE = 64  # rollouts


class CoreAssignment:
    """A core for each lane, or None where the system chooses."""

    def __init__(self, lanes: int) -> None:
        self._none: tuple[int | None, ...] = (None,) * lanes
        self._held: tuple[int | None, ...] = self._none
        self._rest, self._pause = 0, 1  # rollouts left without cores | how many the next time

    def choose(self) -> tuple[int | None, ...]:
        """The cores of the next rollout's lanes: those of the last one, while they are ours."""
        if self._rest:
            self._rest -= 1
        elif self._held == self._none or not set(self._held) <= os.sched_getaffinity(0):
            self._held = free_cores(len(self._none)) or self._none
        return self._held

    def judge(self, used: float, seconds: Sequence[float], steps: Sequence[int]) -> None:
        """The last rollout: seconds of computing, all in all; the seconds and the steps of each lane that played."""
        if self._held == self._none or not steps:
            return
        speed = [n / s for n, s in zip(steps, seconds, strict=True)]
        if used >= ENOUGH * sum(seconds) and min(speed) >= SLOW * median(speed):
            self._pause = 1
            return
        self._held, self._rest = self._none, self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


def free_cores(lanes: int) -> tuple[int, ...]:
    """As many of our cores, this thread's first, siblings of one physical core last; none where there is no choice."""
    if not hasattr(os, "sched_setaffinity"):
        return ()
    ours = sorted(os.sched_getaffinity(0))
    if lanes > len(ours) or len(ours) == 1:
        return ()
    here = ctypes.CDLL(None).sched_getcpu()
    ours.sort(key=lambda core: core < here)
    siblings: Counter[str] = Counter()
    turn = {}
    for core in ours:
        place = _physical(core)
        turn[core] = siblings[place]
        siblings[place] += 1
    return tuple(sorted(ours, key=turn.__getitem__)[:lanes])


def _physical(core: int) -> str:
    """The physical core, by a name."""
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        return "/".join((topology / name).read_text().strip() for name in ("physical_package_id", "core_id"))
    except OSError:
        return f"core {core}"


@contextlib.contextmanager
def pinned_to(core: int | None) -> Iterator[None]:
    """This thread, and the threads that it starts, on that core; afterwards this thread is free again."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):  # not allowed here: then not
            os.sched_setaffinity(0, {core})
        yield
    finally:
        with contextlib.suppress(OSError):
            if os.sched_getaffinity(0) == {core}:  # else we were moved meanwhile
                os.sched_setaffinity(0, before)
