"""A pool of environments as Stable-Baselines3 wants a VecEnv to be (which this module does not import).

EnvPool's step after the end of an episode is the reset: it ignores the action and pays nothing. Here an environment
that ended is reset at once and apart, so that a reset is neither a transition nor counted. EnvPool also calls an
episode that fails in its very last step truncated. Here T_max is counted by us, and such a one is not: nothing comes
after a failure, so there is nothing to bootstrap from.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from neol.baselines.pools import Rows, open_pool
from neol.envs.tasks import Task
from neol.network.actions import ARGMAX
from neol.rollout.world import UNCHANGED, World


class PoolEnv:
    """A fresh environment per seed, started again whenever it ends.

    `finished` has (return, steps) of every episode that ended, `seconds` the time that the simulator took.
    """

    def __init__(
        self,
        task: Task,
        seeds: np.ndarray,
        max_steps: int,
        threads: int = 1,
        world: World = UNCHANGED,
        names: np.ndarray | None = None,  # u8 (B,) of the first lives, where the world changes
        engine: str = "",  # envpool, native or gymnasium; empty: whoever plays such a world
    ) -> None:
        from gymnasium import spaces

        self.num_envs, self.render_mode = len(seeds), None
        self.observation_space = spaces.Box(-np.inf, np.inf, (task.n_inputs,), np.float32)
        if task.components[0].kind == ARGMAX:
            self.action_space: Any = spaces.Discrete(task.components[0].width)
        else:
            low, high = (np.array([getattr(c, k) for c in task.components], np.float32) for k in ("low", "high"))
            self.action_space = spaces.Box(low, high)
        self.finished: list[tuple[float, int]] = []
        self.env_steps, self.seconds = 0, 0.0
        self._max_steps = max_steps
        named = np.zeros(len(seeds), np.uint64) if names is None else names
        self._pool = open_pool(task, seeds, max_steps + 1, min(threads, len(seeds)), world, named, engine)
        self._ids = np.arange(self.num_envs, dtype=np.int32)
        self._returns, self._steps = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        self._actions = np.zeros(0)

    def reset(self) -> np.ndarray:
        """First observations f4 (B, I)."""
        return self._reset(self._ids)

    def _reset(self, ids: np.ndarray) -> np.ndarray:
        self._returns[ids], self._steps[ids] = 0.0, 0
        return _ordered(self._pool.reset(ids)).observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        return self.step(self._actions)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Observations f4 (B, I), rewards f4 (B,), done (B,), infos; the first of the next episode where one ended."""
        started = time.perf_counter()
        rows = _ordered(self._pool.step(self._ids, np.asarray(actions)))
        observations, rewards = rows.observations, rows.rewards
        self.env_steps += self.num_envs
        self._returns += rows.counted
        self._steps += 1
        done = rows.done | (self._steps == self._max_steps)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = self._ids[done]
        if len(ended):
            for i in ended:
                infos[i] = {"terminal_observation": observations[i].copy(), "TimeLimit.truncated": not rows.failed[i]}
                self.finished.append((float(self._returns[i]), int(self._steps[i])))
            observations[ended] = self._reset(ended)
        self.seconds += time.perf_counter() - started
        return observations, rewards, done, infos

    def close(self) -> None:
        self._pool.close()

    def seed(self, seed: int | None = None) -> list[None]:
        """Nothing: an environment has had its seed since it was made."""
        return [None] * self.num_envs

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, name)] * self.num_envs

    def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def _ordered(rows: Rows) -> Rows:
    """In the order of the ids; observations and rewards f4, as SBX learns from them."""
    order = np.argsort(rows.ids)
    inside = Rows(*(a[order] for a in rows))
    return inside._replace(
        observations=inside.observations.astype(np.float32), rewards=inside.rewards.astype(np.float32)
    )
