"""Environments for gradient learners, many at once: EnvPool's, our own, Gymnasium's; and worlds that change.

A pool has one environment per seed. `reset` begins episodes in some of them, `step` goes on in some; rows come with the
ids that they are of, in any order.
Legend: B environments, n of them at once, I inputs, O outputs, S size of a simulator's state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from neol.envs.registry import close, make
from neol.envs.simulators import begin, look, move, new_state, simulator
from neol.envs.spaces import Flattener
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.jit import kernel
from neol.network.actions import action_reader
from neol.rollout.attributes import Attributes, ChangedEnv
from neol.rollout.envpool_player import field, make_envpool
from neol.rollout.world import (
    World,
    begin_life,
    enter_observation,
    enter_reward,
    leave_action,
    new_world_state,
    pass_step,
)
from neol.seeding import mix

_LARGEST = float(np.finfo(np.float32).max)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Rows(NamedTuple):
    """What environments answered."""

    ids: np.ndarray  # i4 (n,)
    observations: np.ndarray  # (n, I)
    rewards: np.ndarray  # (n,) what is learned from
    done: np.ndarray  # b1 (n,)
    failed: np.ndarray  # b1 (n,) done, and nothing comes after it: an end that is no limit of time
    counted: np.ndarray  # (n,) rewards as a life's return counts them


class Pool(Protocol):
    def reset(self, ids: np.ndarray) -> Rows: ...

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows: ...

    def close(self) -> None: ...


class EnvPool:
    """EnvPool's environments; one that has had its longest episode says that it is done."""

    def __init__(self, task: Task, seeds: np.ndarray, longest: int, threads: int) -> None:
        self._pool = make_envpool(task, seeds, longest, threads)
        self._keys = [field(self._pool, k) for k in ("info:env_id", "obs", "reward", "done")]
        self._dtype, self._shape = self._pool.spec.action_array_spec["action"].dtype, (-1, *task.action_shape)

    def reset(self, ids: np.ndarray) -> Rows:
        self._pool._reset(ids)
        return self._receive()

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        self._pool._send([ids, ids, actions.astype(self._dtype).reshape(self._shape)])
        return self._receive()

    def _receive(self) -> Rows:
        state = self._pool._recv()
        who, observations, rewards, done = (state[k] for k in self._keys)
        rows, over = observations.reshape(len(who), -1), done.astype(bool)
        return Rows(who.astype(np.int32), rows, rewards, over, over, rewards)

    def close(self) -> None:
        self._pool.close()


class NativePool:
    """Simulators of our own. Episode k of an environment has the seed of the first plus k."""

    def __init__(self, task: Task, seeds: np.ndarray, longest: int) -> None:
        self.simulator = simulator(task.native, dict(task.env_kwargs))
        self._inputs, self._longest = len(task.observed), longest
        self._states = np.zeros((len(seeds), len(new_state(self.simulator))))
        self._next, self._steps = np.asarray(seeds, np.int64).copy(), np.zeros(len(seeds), np.int64)

    def reset(self, ids: np.ndarray) -> Rows:
        observations = np.zeros((len(ids), self._inputs))
        _begin_all(*self.simulator, self._next, self._states, ids, observations)
        self._next[ids] += 1
        self._steps[ids] = 0
        return _begun(ids, observations)

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        observations, rewards = np.zeros((len(ids), self._inputs)), np.zeros(len(ids))
        rows = actions.astype(np.float64).reshape(len(ids), -1)
        over = _step_all(*self.simulator, self._states, ids, rows, observations, rewards)
        self._steps[ids] += 1
        return Rows(ids, observations, rewards, over | (self._steps[ids] >= self._longest), over, rewards)

    def close(self) -> None:
        """Nothing is open."""


def _begun(ids: np.ndarray, observations: np.ndarray) -> Rows:
    """Rows of episodes that begin."""
    n = len(ids)
    return Rows(ids, observations, np.zeros(n), np.zeros(n, bool), np.zeros(n, bool), np.zeros(n))


@kernel
def _begin_all(kind, parameters, seeds, states, ids, observations):
    for r in range(len(ids)):
        begin(kind, parameters, seeds[ids[r]], states[ids[r]])
        look(kind, parameters, states[ids[r]], observations[r])


@kernel
def _step_all(kind, parameters, states, ids, actions, observations, rewards):
    over = np.zeros(len(ids), np.bool_)
    for r in range(len(ids)):
        rewards[r], over[r] = move(kind, parameters, states[ids[r]], actions[r])
        look(kind, parameters, states[ids[r]], observations[r])
    return over


class GymnasiumPool:
    """Gymnasium's environments, stepped one after the other. An environment's first episode has its seed; those that
    follow go on in its own generator. One that fails ends the run with a NeolError."""

    def __init__(self, task: Task, seeds: np.ndarray, longest: int) -> None:
        self._task, self._longest, self._flat = task, longest, Flattener(task.leaves)
        self._seeds: list[int | None] = np.asarray(seeds).tolist()
        self._steps = np.zeros(len(seeds), np.int64)
        self._action = np.zeros(len(task.components))
        self._read = action_reader(self._action, task.components, task.action_shape, task.action_dtype)
        self.envs: list[Any] = []
        try:
            for _ in self._seeds:
                self.envs.append(make(task))
        except NeolError:
            self.close()
            raise

    def reset(self, ids: np.ndarray) -> Rows:
        return _begun(ids, np.array([self._begin(b) for b in ids.tolist()]))

    def _begin(self, b: int) -> np.ndarray:
        seed, self._seeds[b] = self._seeds[b], None
        self._steps[b] = 0

        def first() -> np.ndarray:
            observation, _ = self.envs[b].reset(seed=seed)
            return self._inputs(observation)

        row: np.ndarray = self._attempt(first)
        return row

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        told = [self._attempt(partial(self._move, b, actions[r])) for r, b in enumerate(ids.tolist())]
        observations, rewards, failed, cut = (np.array(part) for part in zip(*told, strict=True))
        self._steps[ids] += 1
        done = failed | cut | (self._steps[ids] >= self._longest)
        return Rows(ids, observations, rewards, done, failed, rewards)

    def _move(self, b: int, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        self._action[:] = action
        observation, reward, failed, cut, _ = self.envs[b].step(self._read())
        return self._inputs(observation, float(reward)), float(reward), bool(failed), bool(cut)

    def _inputs(self, observation: Any, reward: float = 0.0) -> np.ndarray:
        """The inputs f8 (I,) that an observation is; finite in single precision, in which they are learned from."""
        row = self._flat(observation).copy()
        if not (np.abs(np.append(row, reward)) <= _LARGEST).all():
            raise ValueError(f"reward {reward!r}, observation {observation!r}")
        return row

    def _attempt(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except NeolError:
            raise
        except (Exception, SystemExit) as e:  # an environment may raise anything, and answer anything
            raise NeolError(f"an episode of '{self._task.name}' failed: {type(e).__name__}: {e}") from e

    def close(self) -> None:
        for env in self.envs:
            close(env)


class ChangedPool:
    """A pool in a world that changes. Every episode is a life: the first of environment b has names[b], u8."""

    def __init__(self, pool: Pool, world: World, names: np.ndarray, outputs: int) -> None:
        self._pool, self._changes, self._first = pool, world.changes, names
        self._state: Any = new_world_state(world.changes, len(names), names.copy(), outputs)
        self._lives = np.zeros(len(names), np.uint64)
        self._attributes: list[ChangedEnv] = []  # of every environment, where a world changes any
        if isinstance(pool, GymnasiumPool) and world.attributes:
            self._attributes = [Attributes(world, self._state, b).of(env) for b, env in enumerate(pool.envs)]

    def reset(self, ids: np.ndarray) -> Rows:
        for changed in self._those(ids):
            changed.restore()
        rows = self._pool.reset(ids)
        observations = rows.observations.astype(np.float64)
        _begin_lives(self._changes, self._state, self._first, self._lives, rows.ids, observations)
        return rows._replace(observations=observations)

    def _those(self, ids: np.ndarray) -> list[ChangedEnv]:
        return [self._attributes[b] for b in ids.tolist()] if self._attributes else []

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        changed = np.array(actions, np.float64)
        if changed.ndim == 2:  # what is chosen among a few is as it is (settings.py refuses changes of it)
            _act(self._changes, self._state, ids, changed)
        for env in self._those(ids):
            env.update()
        rows = self._pool.step(ids, changed)
        observations, felt, counted = (np.array(a, np.float64) for a in (rows.observations, rows.rewards, rows.counted))
        _earn(self._changes, self._state, rows.ids, observations, felt, counted)
        return rows._replace(observations=observations, rewards=felt, counted=counted)

    def close(self) -> None:
        self._pool.close()


@kernel
def _begin_lives(changes, state, first, lives, ids, observations):
    for r in range(len(ids)):
        b = ids[r]
        state.name[b] = first[b] if lives[b] == 0 else mix(first[b] + lives[b] * _GOLDEN)
        lives[b] += np.uint64(1)
        begin_life(changes, state, b, b)
        enter_observation(changes, state, b, observations[r])


@kernel
def _act(changes, state, ids, actions):
    for r in range(len(ids)):
        leave_action(changes, state, ids[r], actions[r])


@kernel
def _earn(changes, state, ids, observations, felt, counted):
    for r in range(len(ids)):
        b = ids[r]
        counted[r], felt[r] = enter_reward(changes, state, b, felt[r])
        pass_step(state, b)
        enter_observation(changes, state, b, observations[r])


def engine_for(task: Task, world: World) -> str:
    """Who plays a task of ours in this world: only Gymnasium's environments have attributes to change."""
    return "gymnasium" if world.attributes else "native" if task.native else "envpool"


def open_pool(
    task: Task, seeds: np.ndarray, longest: int, threads: int, world: World, names: np.ndarray, engine: str = ""
) -> Pool:
    """The environments of a task, one per seed, in this world. names u8 (B,): of their first lives."""
    pool: Pool
    match engine or engine_for(task, world):
        case "native":
            pool = NativePool(task, seeds, longest)
        case "gymnasium":
            pool = GymnasiumPool(task, seeds, longest)
        case _:
            pool = EnvPool(task, seeds, longest, threads)
    return ChangedPool(pool, world, names, task.n_outputs) if len(world.changes.op) else pool
