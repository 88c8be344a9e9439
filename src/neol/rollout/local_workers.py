"""Worker processes on this machine as a backend."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Any

from neol.errors import NeolError
from neol.rollout import ipc
from neol.rollout.dispatcher import DIED, NOTHING, WorkerEvent
from neol.rollout.shards import Shard
from neol.rollout.worker_process import CANNOT, PlayerSpec
from neol.system import cores, own_command, own_environment, process_id


class _ForkServer:
    """The process that workers are forked from; with it they all die."""

    def __init__(self) -> None:
        if not hasattr(os, "fork"):
            raise NeolError("worker processes need Linux or macOS; use executor = 'ray', or EnvPool's threads.")
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                own_command("neol.rollout.worker_process", str(theirs.fileno()), str(process_id())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=own_environment(),
            )

    def has_died(self) -> bool:
        return self._process.poll() is not None

    def fork(self, *fds: int) -> int:
        """A new worker with these pipes; its process id."""
        try:
            socket.send_fds(self._control, [b"w"], fds)
            answer = self._control.recv(8, socket.MSG_WAITALL)
        except OSError:
            answer = b""
        if len(answer) < 8:
            raise NeolError(f"worker processes cannot be started (exit code {self._process.wait()}).")
        return int.from_bytes(answer, "little")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._control.close()


class _Process:
    """A worker process, and the thread that listens to it."""

    def __init__(
        self, number: int, started: int, spec: bytes, fork_server: _ForkServer, events: queue.SimpleQueue[WorkerEvent]
    ) -> None:
        self.number = number
        self._place = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 where the worker notes its episode
        self._place.write((-1).to_bytes(8, "little", signed=True))
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._words, theirs_words = os.pipe()
        try:
            self.pid = fork_server.fork(theirs_in, theirs_out, theirs_words, self._place.fileno())
        finally:
            for fd in (theirs_in, theirs_out, theirs_words):
                os.close(fd)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._thread = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._thread.start()
        self.send(([p or os.getcwd() for p in sys.path], started))
        self.send(spec)

    def send(self, message: Any) -> None:
        with suppress(OSError, ValueError):  # it has died; its listening thread reports that
            ipc.send(self._out, message)

    def _listen(self, events: queue.SimpleQueue[WorkerEvent]) -> None:
        why = ""
        with suppress(*ipc.BROKEN):
            while True:
                kind, ticket, value = ipc.receive(self._in)
                if kind == CANNOT:
                    why = value
                else:
                    events.put(WorkerEvent(self.number, kind, ticket, value))
        with os.fdopen(self._words, "rb") as words:  # a traceback of where it was, and how it ended
            said = words.read().decode("utf-8", "replace").strip()
        episode = int.from_bytes(os.pread(self._place.fileno(), 8, 0), "little", signed=True)
        with suppress(OSError):
            self._place.close()
            self._in.close()
            self._out.close()
        events.put(WorkerEvent(self.number, DIED, 0, why or said or "the worker process died", episode))

    def join(self) -> None:
        self._thread.join(10.0)


class LocalWorkers:
    """Worker processes on this machine."""

    def __init__(self, spec: PlayerSpec, size: int) -> None:
        if size > (most := max(64, 4 * cores())):
            raise NeolError(
                f"workers = {size} is not allowed; on this machine of {cores()} cores it must be at most {most}."
            )
        self.size = size
        self._spec = ipc.pack(spec, spec.task.name)
        self._events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        self._fork_server = _ForkServer()
        self.processes: list[_Process] = []
        self._started = 0  # processes so far, replaced ones too
        try:
            for i in range(size):
                self.processes.append(self._start(i))
        except BaseException:
            self.close()
            raise

    def _start(self, worker: int) -> _Process:
        self._started += 1
        return _Process(worker, self._started, self._spec, self._fork_server, self._events)

    def submit(self, worker: int, ticket: int, shard: Shard) -> None:
        self.processes[worker].send((ticket, shard))

    def wait(self, seconds: float) -> WorkerEvent:
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return WorkerEvent(-1, NOTHING)

    def replace(self, worker: int) -> None:
        if self._fork_server.has_died():
            self._fork_server.close()
            self._fork_server = _ForkServer()
        self.processes[worker] = self._start(worker)

    def close(self) -> None:
        """Kill the fork server, and with it every worker; wait until they are gone."""
        self._fork_server.close()
        for process in self.processes:
            process.join()
        self.processes = []
