"""Worker processes, seen from inside: shards come in through a pipe, what became of them goes out through another.

Started by local_workers.py as `python -P -m neol.rollout.worker_process FD PARENT`. A worker dies with its parent,
however that dies, and ends itself when a step takes longer than `step_timeout` (faulthandler's watchdog thread sees to
that, whatever the step is doing).
"""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from neol.config.sections import PlasticityConfig
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.network.actions import FREE, Component
from neol.network.phenotype import empty_phenotypes
from neol.rollout import ipc
from neol.rollout.envpool_player import EnvPoolPlayer
from neol.rollout.gymnasium_episode import SingleSlot
from neol.rollout.gymnasium_player import GymnasiumPlayer
from neol.rollout.life import life_of
from neol.rollout.native_player import NativePlayer
from neol.rollout.shards import Played, Player, Shard, new_records
from neol.seeding import seed_global_generators
from neol.system import die_with_parent, process_id

READY, CANNOT, PLAYED = "ready", "cannot", "played"


class PlayerSpec(NamedTuple):
    """Everything that a player is made from; it travels to where the player is."""

    engine: str  # envpool | gymnasium | native
    task: Task
    max_steps: int
    threads: int  # of EnvPool
    window: int
    fresh: bool
    retries: int
    step_timeout: float  # seconds; 0 = no limit
    seed: int = 0  # of the run: for the generators that environments should not use (seeding.py)


def make_player(spec: PlayerSpec, watch: Callable[[int], float] | None = None) -> Player:
    if spec.engine == "envpool":
        return EnvPoolPlayer(spec.task, spec.max_steps, spec.threads, spec.window)
    if spec.engine == "native":
        return NativePlayer(spec.task, spec.max_steps, spec.threads)
    return GymnasiumPlayer(spec.task, spec.max_steps, spec.fresh, spec.retries, watch)


def timed(player: Player, shard: Shard) -> Played:
    """A shard played, and what that took of this process's CPU."""
    began = time.process_time()
    return player.play(shard)._replace(cpu_seconds=time.process_time() - began)


class Watchdog:
    """Ends the process when a step takes longer than `timeout` seconds (up to a quarter more)."""

    def __init__(self, timeout: float, file: Any, tell: Callable[[int], Any] | None = None) -> None:
        self.timeout, self.file, self.tell = timeout, file, tell
        self._armed = -math.inf

    def __call__(self, episode: int) -> float:
        """An episode begins, or goes on after the time that this returned; -1 = none is being played."""
        if self.tell is not None:
            self.tell(episode)
        if self.timeout <= 0.0:
            return math.inf
        if episode < 0:
            faulthandler.cancel_dump_traceback_later()
            self._armed = -math.inf
            return math.inf
        now = time.monotonic()
        if now - self._armed > 0.25 * self.timeout:  # arming costs a thread, so not at every step
            faulthandler.dump_traceback_later(1.25 * self.timeout, exit=True, file=self.file)
            self._armed = now
        return self._armed + 0.25 * self.timeout


def main(control: socket.socket) -> None:
    """The fork server: everything imported and compiled once, then a fork for every worker that is asked for.

    For each the parent sends the ends of three pipes (messages in, messages out, why it died) and a file in which the
    worker notes the episode that it is playing.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    words: dict[int, int] = {}  # worker -> the pipe for why it died

    def report_deaths(*_: Any) -> None:
        with contextlib.suppress(ChildProcessError, BrokenPipeError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                code, pipe = os.waitstatus_to_exitcode(ended[1]), words.pop(ended[0])
                how = f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"
                os.write(pipe, f"\nThe worker process ended with {how}.\n".encode())
                os.close(pipe)

    signal.signal(signal.SIGCHLD, report_deaths)
    prepare()
    while True:
        asked, fds, _, _ = socket.recv_fds(control, 1, 4)
        if not asked:
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        server, pid = process_id(), os.fork()
        if pid == 0:
            control.close()
            for pipe in words.values():
                os.close(pipe)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            die_with_parent(server)
            serve(*fds)
            os._exit(0)
        words[pid] = fds[2]
        control.sendall(pid.to_bytes(8, "little"))
        for fd in (fds[0], fds[1], fds[3]):
            os.close(fd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def serve(requests: int, replies: int, words: int, place: int) -> None:
    """A worker: plays shards until the parent closes our input."""
    os.dup2(2, 1)  # what an environment prints must not end up among our replies
    out, log = os.fdopen(replies, "wb"), os.fdopen(words, "wb", buffering=0)
    faulthandler.enable(log)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(os.fdopen(requests, "rb"), inbox), daemon=True).start()

    def reply(kind: str, value: Any, ticket: int = 0) -> None:
        with contextlib.suppress(BrokenPipeError):  # the parent is gone: `_read` ends us
            ipc.send(out, (kind, ticket, value))

    path, number = inbox.get()
    sys.path += [p for p in path if p not in sys.path]
    ticket, start = 0, 0

    def note(episode: int) -> None:
        at = start + episode if episode >= 0 else -1
        os.pwrite(place, at.to_bytes(8, "little", signed=True), 0)

    try:
        spec: PlayerSpec = ipc.unpack(inbox.get())
        seed_global_generators(spec.seed, number)
        player = make_player(spec, Watchdog(spec.step_timeout, log, note))
        reply(READY, None)
        while True:
            ticket, shard = inbox.get()
            start = shard.start
            reply(PLAYED, timed(player, shard), ticket)
    except Exception as e:  # not an episode's: the player reports those
        reply(CANNOT, str(e) if isinstance(e, NeolError) else f"{type(e).__name__}: {e}", ticket)


def _read(source: BinaryIO, inbox: queue.SimpleQueue[Any]) -> None:
    """Messages of the parent; its end is ours, in the middle of a step too."""
    with contextlib.suppress(*ipc.BROKEN):
        while True:
            inbox.put(ipc.receive(source))
    os._exit(0)


def prepare() -> None:
    """Import Gymnasium and run one step of the smallest network, so that forks need not, on a step's time."""
    import gymnasium  # noqa: F401

    ph = empty_phenotypes(1, 1, 0, 1, 1)
    ph.node_start[1] = ph.output[0, 0] = 1
    still = Task("still", "", 1, ("x",), ("y",), (Component(FREE, 0),), ())
    shard = Shard(ph, life_of(still, PlasticityConfig()), np.zeros(1, np.int32), 0, 1, 0, False)
    SingleSlot(still, shard, new_records(shard)).warm_up()


if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    with contextlib.suppress(ConnectionError):  # the parent is gone
        main(socket.socket(fileno=int(sys.argv[1])))
