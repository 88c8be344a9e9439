"""Ray's actors as a backend: each holds a player and its environments, somewhere on a cluster."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from neol.errors import NeolError
from neol.rollout import ipc, ray_reaper
from neol.rollout.dispatcher import DIED, NOTHING, WorkerEvent
from neol.rollout.shards import Played, Shard
from neol.rollout.worker_process import PLAYED, READY, PlayerSpec, Watchdog, make_player, timed
from neol.seeding import seed_global_generators
from neol.system import process_id


class _Actor:
    """A player on a node of the cluster. Its process ends itself when a step takes too long."""

    def __init__(self, spec: bytes, path: list[str], number: int) -> None:
        sys.path += [p for p in path if p not in sys.path]
        unpacked: PlayerSpec = ipc.unpack(spec)
        seed_global_generators(unpacked.seed, number)
        self.player = make_player(unpacked, Watchdog(unpacked.step_timeout, sys.__stderr__))

    def ready(self) -> bool:
        return True

    def play(self, shard: Shard) -> Played:
        return timed(self.player, _own(shard))


def _own(value: Any) -> Any:
    """Arrays of our own: those in Ray's store are read-only, for which Numba would compile every kernel again."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return type(value)(*map(_own, value)) if isinstance(value, tuple) and hasattr(value, "_fields") else value


class RayWorkers:
    """`size` actors (0 = as many as the cluster has CPUs) of the cluster at `address` ('' = one of our own)."""

    def __init__(self, spec: PlayerSpec, size: int, address: str) -> None:
        self._ray, self._started_here = connect(size, address)
        self.size = size or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._spec = ipc.pack(spec, spec.task.name)
        path = [p or os.getcwd() for p in sys.path]
        remote = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)
        self._new = lambda number: remote.remote(self._spec, path, number)
        self._started = 0  # actors so far, replaced ones too
        self._actors: list[Any] = [None] * self.size
        self._waiting: dict[Any, tuple[int, str, int]] = {}  # reference -> (worker, what it answers, ticket)
        for worker in range(self.size):
            self.replace(worker)

    def submit(self, worker: int, ticket: int, shard: Shard) -> None:
        self._waiting[self._actors[worker].play.remote(shard)] = (worker, PLAYED, ticket)

    def wait(self, seconds: float) -> WorkerEvent:
        ray = self._ray
        if not self._waiting:
            time.sleep(seconds)
            return WorkerEvent(-1, NOTHING)
        done, _ = ray.wait(list(self._waiting), num_returns=1, timeout=seconds)
        if not done:
            return WorkerEvent(-1, NOTHING)
        worker, kind, ticket = self._waiting.pop(done[0])
        try:
            return WorkerEvent(worker, kind, ticket, ray.get(done[0]))
        except ray.exceptions.RayTaskError as e:
            cause = e.cause if isinstance(e.cause, NeolError) else f"{type(e.cause).__name__}: {e.cause}"
            raise NeolError(f"a Ray actor could not work: {cause}") from None
        except ray.exceptions.RayError as e:
            text = " ".join(str(e).split())
            return WorkerEvent(worker, DIED, 0, f"the Ray actor died: {text}")

    def replace(self, worker: int) -> None:
        """A new actor, on whichever node has room; it counts when it has come up."""
        self._started += 1
        self._actors[worker] = self._new(self._started)
        self._waiting[self._actors[worker].ready.remote()] = (worker, READY, 0)

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors, self._waiting = [], {}
        if self._started_here:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # auto, or one of our own
    try:
        socket.create_connection((host, int(port)), timeout=10.0).close()
    except (OSError, ValueError, OverflowError) as e:
        raise NeolError(f"ray_address = '{address}' is not allowed; no Ray cluster answers there ({e}).") from None


def connect(size: int, address: str) -> tuple[Any, bool]:
    """Ray, connected; and whether the cluster is one of our own, to be ended with us."""
    if not address and "ray" not in sys.modules:  # read when Ray is imported: a cluster of our own listens on 127.0.0.1
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise NeolError("executor = 'ray' needs Ray; install it with: pip install 'neol[ray]'.") from None
    if ray.is_initialized():
        return ray, False
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # "local": without it Ray would join whatever cluster happens to run on this machine
    ours: dict[str, Any] = {"address": "local", "num_cpus": size or None, "include_dashboard": False}
    where = {"address": address} if address else ours
    try:
        with nullcontext() if address else _reaped():
            ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **where)
    except Exception as e:  # Ray raises plain ones, too: "The current node timed out during startup"
        raise NeolError(f"ray_address = '{address}' is not allowed: {' '.join(str(e).split())}") from None
    return ray, not address


@contextmanager
def _reaped() -> Iterator[None]:
    """Processes that are started in this block are ended when we are gone, whatever ended us (Linux).

    The reaper holds the end of a pipe that we keep open for as long as we are there, and never write to.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    theirs, _ = os.pipe()
    parent = str(process_id())
    name = f"{parent}-{time.monotonic_ns()}"
    command = [sys.executable, "-I", "-S", ray_reaper.__file__, parent, name]
    subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    os.close(theirs)
    os.environ[ray_reaper.MARK] = name
    try:
        yield
    finally:
        del os.environ[ray_reaper.MARK]
