"""Phenotypes + episode seeds -> RolloutResult, on EnvPool.

One environment per episode: a pool of fresh environments with an explicit seed each, all reset at once, of which a
sliding window of W is stepped. An episode that ends hands its slot to the next. So results are bit-identical whatever
the window, the threads or the order in which episodes end.
Large populations run in chunks (memory). Where a task is `reusable` (MuJoCo: creating an env costs as much as 25
steps) a pool serves EPOCH generations: episode i of a generation always starts in env i with the same number of
resets behind it, so its start is still a function of (seed, generation, i) alone; a resume replays the resets.
Legend: P genomes, N episodes per genome, B slots, I inputs, O outputs, A action components.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.experimental import structref

from neol import seeding
from neol.files import cores
from neol.jit import inlined, kernel
from neol.kernels import decode, finish, load, new_slots, step
from neol.phenotype import Phenotypes
from neol.plasticity import Plasticity
from neol.tasks import Task, action_map

CHUNK = 512  # environments alive at once, at most
EPOCH = 16  # generations that share a pool of reusable environments


class RolloutResult(NamedTuple):
    returns: np.ndarray  # f8 (P, N) undiscounted
    steps: np.ndarray  # i8 (P, N)
    weight: np.ndarray  # f8 (E,) each edge's weight at the end of its genome's last episode

    @property
    def env_steps(self) -> int:
        return int(self.steps.sum())


class Episodes(NamedTuple):
    """Which episodes a rollout plays, by name: the seeds follow from it."""

    seed: int
    purpose: int  # seeding.EPISODE, SELECTION, HELD_OUT ...
    generation: int
    per_genome: int  # N
    common: bool  # all genomes meet the same


class EnvPoolEngine:
    """Runs episodes of one task on EnvPool: each thread is a lane with environments of its own."""

    def __init__(self, task: Task, max_steps: int, threads: int = 0, window: int = 0) -> None:
        self.task = task
        self.threads = threads or cores()
        self._lanes = [_Lane(task, max_steps, window or task.window) for _ in range(self.threads)]

    def run(self, phenotypes: Phenotypes, plastic: Plasticity, episodes: Episodes) -> RolloutResult:
        """Play N episodes of every genome."""
        size, n = phenotypes.size, episodes.per_genome
        total = size * n
        chunk = min(total, max(1, CHUNK // n) * n)
        chunks = -(-total // chunk)
        reuse = self.task.reusable and chunks == 1  # more resets in later chunks would end common random numbers
        epoch = episodes.generation % EPOCH if reuse else 0
        seeds = seeding.episode_seeds(
            episodes.seed, episodes.purpose, episodes.generation - epoch, size, n, episodes.common
        )
        result = RolloutResult(np.zeros(total), np.zeros(total, np.int64), phenotypes.weight.copy())
        for c in range(chunks):
            start, stop = c * chunk, min(total, (c + 1) * chunk)
            self._share(phenotypes, plastic, seeds[start:stop], epoch, start, stop, n, result)
        if not reuse:
            self.close()
        return result._replace(returns=result.returns.reshape(size, n), steps=result.steps.reshape(size, n))

    def _share(
        self, ph: Phenotypes, plastic: Plasticity, seeds: np.ndarray, resets: int, start: int, stop: int, n: int,
        result: RolloutResult,
    ) -> None:  # fmt: skip
        """Divide one chunk over the lanes: lane i has a contiguous part of the environments."""
        bounds = [len(seeds) * i // len(self._lanes) for i in range(len(self._lanes) + 1)]
        parts = [(a, b) for a, b in pairwise(bounds) if a < b]
        jobs = [
            (lane, (ph, plastic, seeds[a:b], resets, start + a, max(start + a, min(stop, start + b)), n, result))
            for lane, (a, b) in zip(self._lanes, parts, strict=False)
        ]
        if len(jobs) == 1:
            jobs[0][0].play(*jobs[0][1])
            return
        with ThreadPoolExecutor(len(jobs)) as threads:
            futures = [threads.submit(lane.play, *arguments) for lane, arguments in jobs]
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
        self._pool: Any = None
        self._pool_seeds = np.zeros(0, np.int32)
        self._pool_resets = 0

    def play(
        self, ph: Phenotypes, plastic: Plasticity, seeds: np.ndarray, resets: int, start: int, stop: int, n: int,
        result: RolloutResult,
    ) -> None:  # fmt: skip
        """Play episodes start .. stop, the first of them in the environment with the first seed; fill the result."""
        first = self._reset(seeds, resets)
        if start == stop:
            return
        task, actions = self.task, action_map(self.task)
        count, width = min(self.window, stop - start), len(actions.low)
        window = Window(
            np.zeros(len(first), np.int32),
            np.full(count, -1, np.int32),
            np.empty(count, np.int32),
            np.zeros((count, width)),
            np.zeros(task.n_outputs),
            np.array([start, start, stop, n], np.int64),
        )
        context = make_context(ph, new_slots(ph, count), window, actions, plastic, first, result)
        env_id, obs, reward, done = (_field(self._pool, k) for k in ("info:env_id", "obs", "reward", "done"))
        observation, rewards = np.zeros((count, task.n_inputs)), np.zeros(count)
        shape = (-1,) if task.action_dtype == "int32" else (-1, width)
        send, receive, ids, action = self._pool._send, self._pool._recv, window.ids, window.action
        active = begin(context)
        while active and not self.stopped:
            running = ids[:active]
            send([running, running, action[:active].astype(task.action_dtype).reshape(shape)])
            state = receive()
            observation[:active] = state[obs]
            rewards[:active] = state[reward]
            active = advance(context, state[env_id], observation, rewards, state[done])

    def _reset(self, seeds: np.ndarray, resets: int) -> np.ndarray:
        """First observations f8 (envs, I) of environments with these seeds and that many resets behind them."""
        if self._pool is None or resets < self._pool_resets or not np.array_equal(seeds, self._pool_seeds):
            if self.close():
                _trim_memory()
            self._pool = _make_pool(self.task, seeds, self.max_steps)
            self._pool_seeds, self._pool_resets = seeds, 0
        ids = np.arange(len(seeds), dtype=np.int32)
        while self._pool_resets <= resets:
            self._pool._reset(ids)
            state = self._pool._recv()
            self._pool_resets += 1
        first = np.empty((len(seeds), self.task.n_inputs))
        first[state[_field(self._pool, "info:env_id")]] = state[_field(self._pool, "obs")]
        return first

    def close(self) -> bool:
        """Free the environments; whether there were any."""
        if self._pool is None:
            return False
        self._pool.close()
        self._pool = None
        return True


def _make_pool(task: Task, seeds: np.ndarray, max_steps: int) -> Any:
    import envpool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # EnvPool's declared bounds of Box2D observations are wrong
        return envpool.make(
            task.id,
            env_type="gymnasium",
            num_envs=len(seeds),
            seed=[int(s) for s in seeds],
            num_threads=1,
            max_episode_steps=max_steps,
        )


def _field(pool: Any, name: str) -> int:
    return pool._state_keys.index(name)


def _trim_memory() -> None:
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


class Window(NamedTuple):
    """The episodes in flight."""

    slot_of: np.ndarray  # i4 (envs,) slot of each running env
    episode: np.ndarray  # i4 (B,) episode of each slot, -1 = idle
    ids: np.ndarray  # i4 (B,) envs to step next, in order
    action: np.ndarray  # f8 (B, A) their actions
    outputs: np.ndarray  # f8 (O,) scratch
    queue: np.ndarray  # i8 (4,) next episode | first of the chunk | end of the chunk | N


@structref.register
class _ContextType(types.StructRef):
    """Numba's type of Context."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Context(structref.StructRefProxy):
    """Everything that stays the same while a lane plays, as one argument: unpacking 40 arrays at every call is dear."""


structref.define_proxy(Context, _ContextType, ["ph", "slots", "window", "actions", "plastic", "first", "result"])


@kernel
def make_context(ph, slots, window, actions, plastic, first, result):
    return Context(ph, slots, window, actions, plastic, first, result)


@inlined
def _start_next(ph, slots, window, actions, plastic, first, b, row):
    """Give slot b the next queued episode and put its first action in `row`; return how many rows are used."""
    episode = window.queue[0]
    if episode == window.queue[2]:
        window.episode[b] = -1
        return row
    window.queue[0] += 1
    env = episode - window.queue[1]
    window.episode[b] = episode
    window.slot_of[env] = b
    load(ph, slots, b, episode // window.queue[3])
    step(ph, slots, b, first[env], 0.0, True, plastic, window.outputs)
    decode(window.outputs, actions, window.action[row])
    window.ids[row] = env
    return row + 1


@kernel
def begin(context):
    """Start the first episodes; return how many are in flight."""
    c = context
    row = 0
    for b in range(len(c.window.episode)):
        row = _start_next(c.ph, c.slots, c.window, c.actions, c.plastic, c.first, b, row)
    return row


@kernel
def advance(context, env_id, observation, reward, done):
    """Take in one step of every running environment and choose what each does next; return how many go on.

    env_id i4 (n,), observation f8 (n.., I), reward f8 (n..,), done b1 (n,).
    """
    ph, slots, window, plastic = context.ph, context.slots, context.window, context.plastic
    actions, first, result = context.actions, context.first, context.result
    row = 0
    for i in range(len(env_id)):
        b = window.slot_of[env_id[i]]
        episode = window.episode[b]
        result.returns[episode] += reward[i]
        result.steps[episode] += 1
        if not done[i]:
            step(ph, slots, b, observation[i], reward[i], False, plastic, window.outputs)
            decode(window.outputs, actions, window.action[row])
            window.ids[row] = env_id[i]
            row += 1
            continue
        finish(ph, slots, b, reward[i], plastic)
        n = window.queue[3]
        if episode % n == n - 1:
            p = slots.genome[b]
            start, stop = ph.edge_start[ph.node_start[p]], ph.edge_start[ph.node_start[p + 1]]
            result.weight[start:stop] = slots.weight[b, : stop - start]
        row = _start_next(ph, slots, window, actions, plastic, first, b, row)
    return row
