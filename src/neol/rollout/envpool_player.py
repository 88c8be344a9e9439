"""Shards played on EnvPool.

One environment per trial: a pool of fresh environments with an explicit seed each, all reset at once, of which a
sliding window of W lives is stepped. A life that ends hands its slot to the next; a trial that ends, to the next trial
of its life. So results are bit-identical whatever
the window, the threads or the order in which episodes end. A lane's two threads share a core (core_pinning.py).
Large shards run in chunks (memory). Where a task is `reusable` (MuJoCo: creating an env costs as much as 25
steps) a pool serves EPOCH generations: episode i of a generation always starts in env i with the same number of
resets behind it, so its start is still a function of (seed, generation, i) alone; a resume replays the resets.
"""

from __future__ import annotations

import ctypes
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from neol.envs.registry import import_envpool
from neol.envs.tasks import ONE_HOT, Task
from neol.network.step import new_slots
from neol.rollout import shards as rollout
from neol.rollout.core_pinning import CoreAssignment, pinned_to
from neol.rollout.episode_kernels import advance, make_context, new_window
from neol.rollout.life import for_kernels
from neol.rollout.shards import EpisodeRecords, LocalEngine, Played, Shard, new_records
from neol.rollout.world import new_world_state
from neol.system import cores


class EnvPoolEngine(LocalEngine):
    """EnvPool in this process."""

    def __init__(self, task: Task, max_steps: int, threads: int = 0, window: int = 0) -> None:
        threads = threads or cores()
        super().__init__(task, EnvPoolPlayer(task, max_steps, threads, window), threads)


class EnvPoolPlayer:
    """Each thread is a lane with environments of its own."""

    def __init__(self, task: Task, max_steps: int, threads: int, window: int = 0) -> None:
        import_envpool()  # it keeps the frames that are alive at its import: none that hold a pool, so that those die
        self._lanes = [_Lane(task, max_steps, window or task.window) for _ in range(threads)]
        self._cores = CoreAssignment(threads)

    def play(self, shard: Shard) -> Played:
        """Play all lives of the shard, in at most CHUNK environments at a time."""
        count, records = shard.lives, new_records(shard)
        chunk = count if shard.keep else max(1, rollout.CHUNK // shard.trials)
        for lane, core in zip(self._lanes, self._cores.choose(), strict=True):
            lane.take_core(core)
        used = time.process_time()
        for start in range(0, count, chunk):
            self._share(shard, start, min(count, start + chunk), records)
        played = [lane for lane in self._lanes if lane.steps]
        self._cores.judge(
            time.process_time() - used, [lane.seconds for lane in played], [lane.steps for lane in played]
        )
        if not shard.keep:
            self.close()
        return Played(records)

    def _share(self, shard: Shard, start: int, stop: int, records: EpisodeRecords) -> None:
        """Divide one chunk over the lanes: each has a contiguous part of the environments."""
        bounds = [start + (stop - start) * i // len(self._lanes) for i in range(len(self._lanes) + 1)]
        parts = [(a, b) for a, b in pairwise(bounds) if a < b]
        jobs = list(zip(self._lanes, parts, strict=False))
        if len(jobs) == 1:
            self._lanes[0].play(shard, *parts[0], records)
            return
        with ThreadPoolExecutor(len(jobs)) as threads:
            futures = [threads.submit(lane.play, shard, a, b, records) for lane, (a, b) in jobs]
            try:
                for future in futures:
                    future.result()
            except BaseException:  # Ctrl-C, or a lane failed: the others stop at their next step
                for lane, _ in jobs:
                    lane.stopped = True
                raise

    def close(self) -> None:
        """Free the environments, and give their memory back to the system."""
        closed = [lane.close() for lane in self._lanes]
        if any(closed):
            _trim_memory()


class _Lane:
    """A pool of environments with one simulator thread, and the window of episodes that runs in it."""

    def __init__(self, task: Task, max_steps: int, window: int) -> None:
        self.task, self.max_steps, self.window = task, max_steps, window
        self.stopped = False
        self.core: int | None = None  # None = any
        self.seconds, self.steps = 0.0, 0  # in this rollout
        self._envpool: Any = None
        self._envpool_seeds = np.zeros(0, np.int32)
        self._envpool_resets = 0

    def take_core(self, core: int | None) -> None:
        """Where the next rollout is played. A pool's thread stays on the core where it began, so it goes with it."""
        if core != self.core and self.close():
            _trim_memory()
        self.core, self.seconds, self.steps = core, 0.0, 0

    def play(self, shard: Shard, start: int, stop: int, records: EpisodeRecords) -> None:
        """Play lives start .. stop of the shard and fill in their results."""
        started = time.perf_counter()
        with pinned_to(self.core):
            self._play(shard, start, stop, records)
        self.seconds += time.perf_counter() - started
        self.steps += int(records.steps[start:stop].sum())

    def _play(self, shard: Shard, start: int, stop: int, records: EpisodeRecords) -> None:
        trials, task, ph = shard.trials, self.task, shard.phenotypes
        envs = (stop - start) * trials
        state = self._reset(shard.seeds[start * trials : stop * trials], shard.resets)
        env_id, obs, reward, done = (field(self._envpool, k) for k in ("info:env_id", "obs", "reward", "done"))
        rows = self._rows(state[obs])
        if rows.shape != (envs, len(task.observed)):  # kernels have no bounds checks
            raise ValueError(f"EnvPool's observations are of shape {rows.shape}, not {(envs, len(task.observed))}")
        first = np.empty(rows.shape)
        first[state[env_id]] = rows
        count = min(self.window, stop - start)
        limit = min(self.max_steps, shard.max_steps or self.max_steps)
        window = new_window(envs, count, shard, start, stop, limit)
        world = new_world_state(shard.life.world.changes, count, shard.names, ph.output.shape[1], shard.fates)
        context = make_context(ph, new_slots(ph, count), window, for_kernels(shard.life), world, first, records)
        dtype = self._envpool.spec.action_array_spec["action"].dtype
        action = window.action.reshape(-1, *task.action_shape)
        send, receive, ids = self._envpool._send, self._envpool._recv, window.ids
        begun = (
            np.arange(count, dtype=np.int32) * trials
        )  # every slot takes its first life; what is observed does not matter
        active = advance(context, begun, rows, state[reward], state[done])
        while active and not self.stopped:
            running = ids[:active]
            send([running, running, action[:active].astype(dtype)])
            state = receive()
            active = advance(context, state[env_id], self._rows(state[obs]), state[reward], state[done])

    def _rows(self, observed: np.ndarray) -> np.ndarray:
        """EnvPool's observations as inputs (n, I): 32 or 64 bits wide, so that few kernels are compiled."""
        if self.task.leaves[0].kind == ONE_HOT:
            return 1.0 * (observed.reshape(-1, 1) == np.arange(len(self.task.observed)) + self.task.leaves[0].start[0])
        if observed.dtype.kind != "f":
            observed = observed.astype(np.float64)
        return observed if observed.ndim == 2 else observed.reshape(-1, len(self.task.observed))

    def _reset(self, seeds: np.ndarray, resets: int) -> Any:
        """EnvPool's state of environments with these seeds, that many resets behind them, at their beginning."""
        if self._envpool is None or resets < self._envpool_resets or not np.array_equal(seeds, self._envpool_seeds):
            if self.close():
                _trim_memory()
            self._envpool = make_envpool(self.task, seeds, self.max_steps)
            self._envpool_seeds, self._envpool_resets = seeds, 0
        ids = np.arange(len(seeds), dtype=np.int32)
        while self._envpool_resets <= resets:
            self._envpool._reset(ids)
            state = self._envpool._recv()
            self._envpool_resets += 1
        return state

    def close(self) -> bool:
        """Free the environments; whether there were any."""
        if self._envpool is None:
            return False
        self._envpool.close()
        self._envpool = None
        return True


def make_envpool(task: Task, seeds: np.ndarray, max_steps: int, threads: int = 1) -> Any:
    """Environments with these seeds; none is reset yet."""
    envpool = import_envpool()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # EnvPool's declared bounds of Box2D observations are wrong
        return envpool.make(
            task.id,
            env_type="gymnasium",
            num_envs=len(seeds),
            seed=[int(s) for s in seeds],
            num_threads=threads,
            max_episode_steps=max_steps,
            **dict(task.env_kwargs),
        )


def field(pool: Any, name: str) -> int:
    """Where this part of the state is in what `_recv` returns."""
    return pool._state_keys.index(name)


def _trim_memory() -> None:
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
