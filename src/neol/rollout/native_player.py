"""Shards played by simulators of our own (envs/simulators.py): network, world and simulator in one kernel.

Each thread has a contiguous part of the lives and one slot; a life is lived from its beginning to its end.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from neol.envs.simulators import new_state, simulator
from neol.envs.tasks import Task
from neol.network.step import new_slots
from neol.rollout.episode_kernels import live_natively, make_context, new_window
from neol.rollout.life import for_kernels
from neol.rollout.shards import EpisodeRecords, LocalEngine, Played, Shard, new_records
from neol.rollout.world import new_world_state
from neol.system import cores

BLOCK = 64  # lives between two looks at whether to stop


class NativePlayer:
    """Plays in this process, in so many threads."""

    def __init__(self, task: Task, max_steps: int, threads: int = 1) -> None:
        self.task, self.max_steps, self.threads = task, max_steps, threads
        self.simulator = simulator(task.native, dict(task.env_kwargs))
        self._stopped = False

    def play(self, shard: Shard) -> Played:
        records, count = new_records(shard), shard.lives
        self._stopped = False
        bounds = [count * i // self.threads for i in range(self.threads + 1)]
        parts = [(a, b) for a, b in pairwise(bounds) if a < b]
        if len(parts) == 1:
            self._part(shard, *parts[0], records)
            return Played(records)
        with ThreadPoolExecutor(len(parts)) as threads:
            futures = [threads.submit(self._part, shard, a, b, records) for a, b in parts]
            try:
                for future in futures:
                    future.result()
            except BaseException:  # Ctrl-C: the others stop after their block
                self._stopped = True
                raise
        return Played(records)

    def _part(self, shard: Shard, start: int, stop: int, records: EpisodeRecords) -> None:
        ph, state = shard.phenotypes, new_state(self.simulator)
        limit = min(self.max_steps, shard.max_steps or self.max_steps)
        window = new_window(1, 1, shard, start, stop, limit)
        world = new_world_state(shard.life.world.changes, 1, shard.names, ph.output.shape[1], shard.fates)
        life, first = for_kernels(shard.life), np.zeros((0, ph.inputs))
        context = make_context(ph, new_slots(ph, 1), window, life, world, first, records)
        for block in range(start, stop, BLOCK):
            if self._stopped:
                return
            live_natively(context, *self.simulator, state, shard.seeds, block, min(stop, block + BLOCK))

    def close(self) -> None:
        """Nothing is kept."""


class NativeEngine(LocalEngine):
    """Our own simulators in this process."""

    def __init__(self, task: Task, max_steps: int, threads: int = 0) -> None:
        threads = threads or cores()
        super().__init__(task, NativePlayer(task, max_steps, threads), threads)
