"""Phenotypes + episode seeds -> RolloutResult, on EnvPool.

One environment per episode: a pool of fresh environments with an explicit seed each, all reset at once, of which a
sliding window of W is stepped. An episode that ends hands its slot to the next. So results are bit-identical whatever
the window, the threads or the order in which episodes end.
Large populations run in chunks (memory). Where a task is `reusable` (MuJoCo: creating an env costs as much as 40
steps) a pool serves EPOCH generations: episode i of a generation always starts in env i with the same number of
resets behind it, so its start is still a function of (seed, generation, i) alone; a resume replays the resets.
Legend: P genomes, N episodes per genome, B slots, I inputs, O outputs, A action components.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.files import cores
from neol.jit import kernel
from neol.kernels import Slots, decode, finish, load, new_slots, step
from neol.phenotype import Phenotypes
from neol.plasticity import Plasticity
from neol.tasks import Task, action_map

CHUNK = 512  # environments alive at once, at most
EPOCH = 16  # generations that share a pool of reusable environments
WINDOW = 128  # episodes in flight


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
    """Runs episodes of one task on EnvPool. Keeps a pool between calls where the task allows it."""

    def __init__(self, task: Task, max_steps: int, threads: int = 0, window: int = 0) -> None:
        self.task, self.max_steps = task, max_steps
        self.threads = threads or cores()
        self.window = window or WINDOW
        self._pool: Any = None
        self._pool_seeds = np.zeros(0, np.int32)
        self._pool_resets = 0

    def run(self, phenotypes: Phenotypes, plastic: Plasticity, episodes: Episodes) -> RolloutResult:
        """Play N episodes of every genome."""
        size, n = phenotypes.size, episodes.per_genome
        total = size * n
        chunk = min(total, max(1, CHUNK // n) * n)
        chunks = -(-total // chunk)
        epoch = episodes.generation % EPOCH if self.task.reusable else 0
        seeds = seeding.episode_seeds(
            episodes.seed, episodes.purpose, episodes.generation - epoch, size, n, episodes.common
        )
        result = RolloutResult(np.zeros(total), np.zeros(total, np.int64), phenotypes.weight.copy())
        slots = new_slots(phenotypes, min(self.window, chunk))
        for c in range(chunks):
            start, stop = c * chunk, min(total, (c + 1) * chunk)
            if self.task.reusable:
                first = self._reset(seeds[:chunk], epoch * chunks + c)
            else:
                first = self._reset(seeds[start:stop], 0)
            self._play(phenotypes, plastic, slots, first, start, stop, n, result)
        if not self.task.reusable:
            self.close()
        return result._replace(returns=result.returns.reshape(size, n), steps=result.steps.reshape(size, n))

    def _reset(self, seeds: np.ndarray, resets: int) -> np.ndarray:
        """First observations f8 (envs, I) of environments with these seeds and that many resets behind them."""
        if self._pool is None or resets < self._pool_resets or not np.array_equal(seeds, self._pool_seeds):
            self.close()
            self._pool = _make_pool(self.task, seeds, self.max_steps, self.threads)
            self._pool_seeds, self._pool_resets = seeds, 0
        ids = np.arange(len(seeds), dtype=np.int32)
        while self._pool_resets <= resets:
            self._pool._reset(ids)
            state = self._pool._recv()
            self._pool_resets += 1
        first = np.empty((len(seeds), self.task.n_inputs))
        first[state[_field(self._pool, "info:env_id")]] = state[_field(self._pool, "obs")]
        return first

    def _play(
        self,
        phenotypes: Phenotypes,
        plastic: Plasticity,
        slots: Slots,
        first: np.ndarray,
        start: int,
        stop: int,
        per_genome: int,
        result: RolloutResult,
    ) -> None:
        """Step the window until episodes start .. stop are over; fill the result in place."""
        actions = action_map(self.task)
        width = len(actions.low)
        count = min(len(slots.genome), stop - start)
        window = Window(
            np.zeros(len(first), np.int32),
            np.full(count, -1, np.int32),
            np.empty(count, np.int32),
            np.zeros((count, width)),
            np.zeros(self.task.n_outputs),
            np.array([start, start, stop, per_genome], np.int64),
        )
        env_id, obs, reward, done = (_field(self._pool, k) for k in ("info:env_id", "obs", "reward", "done"))
        observation, rewards = np.zeros((count, self.task.n_inputs)), np.zeros(count)
        action_shape = (-1,) if self.task.action_dtype == "int32" else (-1, width)
        active = begin(phenotypes, slots, window, actions, plastic, first)
        while active:
            ids = window.ids[:active]
            action = window.action[:active].astype(self.task.action_dtype).reshape(action_shape)
            self._pool._send([ids, ids, action])
            state = self._pool._recv()
            observation[:active] = state[obs]
            rewards[:active] = state[reward]
            active = advance(
                phenotypes,
                slots,
                window,
                actions,
                plastic,
                first,
                state[env_id],
                observation,
                rewards,
                state[done],
                result.returns,
                result.steps,
                result.weight,
            )

    def close(self) -> None:
        """Free the environments, and give their memory back to the system."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
            _trim_memory()


def _make_pool(task: Task, seeds: np.ndarray, max_steps: int, threads: int) -> Any:
    import envpool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # EnvPool's declared bounds of Box2D observations are wrong
        return envpool.make(
            task.id,
            env_type="gymnasium",
            num_envs=len(seeds),
            seed=[int(s) for s in seeds],
            num_threads=min(threads, len(seeds)),
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


@kernel
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
def begin(ph, slots, window, actions, plastic, first):
    """Start the first episodes; return how many are in flight."""
    row = 0
    for b in range(len(window.episode)):
        row = _start_next(ph, slots, window, actions, plastic, first, b, row)
    return row


@kernel
def advance(
    ph, slots, window, actions, plastic, first, env_id, observation, reward, done, returns, steps, final_weight
):
    """Take in one step of every running environment and choose what each does next; return how many go on.

    env_id i4 (n,), observation f8 (n.., I), reward f8 (n..,), done b1 (n,).
    """
    row = 0
    for i in range(len(env_id)):
        b = window.slot_of[env_id[i]]
        episode = window.episode[b]
        returns[episode] += reward[i]
        steps[episode] += 1
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
            final_weight[start:stop] = slots.weight[b, : stop - start]
        row = _start_next(ph, slots, window, actions, plastic, first, b, row)
    return row
