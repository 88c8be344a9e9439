"""Environments as a network of ours meets them, for SBX: observations scaled as its own, outputs as actions.

What SBX sees of a recurrent network is its observation and the values of its nodes one step ago, side by side; so it
is a function of what is seen, and SBX, which knows no recurrence, trains it. The values are those that our kernels
compute with the weights of that moment. No gradient flows through them: backpropagation through time is cut off after
one step, and PPO's later epochs and SAC's replay see values of slightly older weights.
Legend: B environments, I inputs, n nodes, A action components.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from neol.baselines.vec_env import PoolEnv
from neol.envs.registry import make
from neol.envs.spaces import Flattener
from neol.envs.tasks import TASKS, Task
from neol.errors import NeolError
from neol.gradients.jax_network import Parameters
from neol.gradients.memory import Memory
from neol.network.actions import ARGMAX, BOUNDED, action_map, action_reader
from neol.network.normalization import CLIP, Normalization


class GymnasiumEnvs:
    """Gymnasium's environments, one after the other, with what NetworkEnv needs of PoolEnv."""

    def __init__(self, task: Task, seeds: np.ndarray, max_steps: int) -> None:
        self.num_envs, self.env_steps, self.seconds = len(seeds), 0, 0.0
        self.finished: list[tuple[float, int]] = []
        self._task, self._max_steps = task, max_steps
        self._seeds: list[int | None] = seeds.tolist()
        self._envs = [make(task) for _ in self._seeds]
        self._flat = Flattener(task.leaves)
        self._action = np.zeros(len(task.components))
        self._read = action_reader(self._action, task.components, task.action_shape, task.action_dtype)
        self._returns, self._steps = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)

    def reset(self) -> np.ndarray:
        """First observations f4 (B, I)."""
        return np.array([self._reset(i) for i in range(self.num_envs)], np.float32)

    def _reset(self, i: int) -> np.ndarray:
        """The first reset has the environment's seed; those that follow go on in its own generator."""
        seed, self._seeds[i] = self._seeds[i], None
        self._returns[i], self._steps[i] = 0.0, 0
        return self._known(self._say(partial(self._envs[i].reset, seed=seed))[0], 0.0)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """As PoolEnv.step; actions f8 (B, A)."""
        started, rows = time.perf_counter(), []
        rewards, done = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i, action in enumerate(actions):
            self._action[:] = action
            observation, reward, failed, cut, _ = self._say(partial(self._envs[i].step, self._read()))
            row = self._known(observation, reward)
            rewards[i] = reward
            self._returns[i] += float(reward)
            self._steps[i] += 1
            done[i] = failed or cut or self._steps[i] == self._max_steps
            if done[i]:
                infos[i] = {"terminal_observation": row.astype(np.float32), "TimeLimit.truncated": not failed}
                self.finished.append((float(self._returns[i]), int(self._steps[i])))
                row = self._reset(i)
            rows.append(row)
        self.env_steps += self.num_envs
        self.seconds += time.perf_counter() - started
        return np.array(rows, np.float32), rewards, done, infos

    def _known(self, observation: Any, reward: Any) -> np.ndarray:
        """The inputs f8 (I,) that an observation is."""
        row = self._say(partial(self._flat, observation)).copy()
        if not (np.isfinite(row).all() and np.isfinite(reward)):
            raise NeolError(
                f"an episode of '{self._task.name}' failed: reward {reward!r}, observation {observation!r}."
            )
        return row

    def _say(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except Exception as e:  # an environment may raise anything
            raise NeolError(f"an episode of '{self._task.name}' failed: {type(e).__name__}: {e}") from e

    def close(self) -> None:
        for env in self._envs:
            env.close()


def simulators(task: Task, engine: str, seeds: np.ndarray, max_steps: int) -> PoolEnv | GymnasiumEnvs:
    """Fresh environments with these seeds, i4 (B,)."""
    if engine == "envpool" and task.name in TASKS:
        return PoolEnv(task, seeds, max_steps)
    return GymnasiumEnvs(task, seeds, max_steps)


class NetworkEnv:
    """A VecEnv of Stable-Baselines3 (which this module does not import) around simulators."""

    def __init__(
        self,
        inside: PoolEnv | GymnasiumEnvs,
        task: Task,
        normal: Normalization,
        memory: Memory | None,
        parameters: Callable[[], Parameters],
    ) -> None:
        from gymnasium import spaces

        self.inside, self.num_envs, self.render_mode = inside, inside.num_envs, None
        self._normal, self._memory, self._parameters = normal, memory, parameters
        self._map = action_map(task.components)
        width = task.n_inputs + (memory.values.shape[1] if memory is not None else 0)
        self.observation_space = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self.discrete = task.components[0].kind == ARGMAX
        if self.discrete:
            self.action_space: Any = spaces.Discrete(task.components[0].width)
        else:
            scaled = self._map.kind == BOUNDED
            low, high = (np.where(scaled, s, b) for s, b in ((-1.0, self._map.low), (1.0, self._map.high)))
            self.action_space = spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self._seen = np.zeros((self.num_envs, task.n_inputs))  # what the networks see now
        self._actions = np.zeros(0)

    @property
    def finished(self) -> list[tuple[float, int]]:
        return self.inside.finished

    @property
    def env_steps(self) -> int:
        return self.inside.env_steps

    @property
    def seconds(self) -> float:
        return self.inside.seconds

    def reset(self) -> np.ndarray:
        """First observations f4 (B, I or I + n)."""
        if self._memory is not None:
            self._memory.forget(np.arange(self.num_envs))
        self._seen = self._scaled(self.inside.reset())
        return self._rows()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Outputs (B, O), or numbers of choices (B,), as actions -> what PoolEnv.step gives, as networks see it."""
        if self._memory is not None:
            self._memory.use(self._parameters())
            self._memory.see(self._seen)
        observations, rewards, done, infos = self.inside.step(self._decoded(actions))
        for i in np.flatnonzero(done).tolist():
            infos[i]["terminal_observation"] = self._row(self._scaled(infos[i]["terminal_observation"][None])[0], i)
        if self._memory is not None:
            self._memory.forget(np.flatnonzero(done))
        self._seen = self._scaled(observations)
        return self._rows(), rewards, done, infos

    def _decoded(self, actions: np.ndarray) -> np.ndarray:
        """Action components f8 (B, A), as `step.decode` makes them of outputs."""
        m = self._map
        if self.discrete:
            return m.low[0] + np.asarray(actions, float).reshape(-1, 1)
        outputs, bounded = np.asarray(actions, float), m.kind == BOUNDED
        low, high = np.where(bounded, m.low, 0.0), np.where(bounded, m.high, 0.0)  # others may have no bounds
        scaled = low + 0.5 * (np.clip(outputs, -1.0, 1.0) + 1.0) * (high - low)
        return np.where(bounded, scaled, np.clip(outputs, m.low, m.high))

    def _scaled(self, observations: np.ndarray) -> np.ndarray:
        """What networks see, f8 (B, I)."""
        rows = np.asarray(observations, np.float64)
        return np.clip((rows - self._normal.mean) / self._normal.std, -CLIP, CLIP) if self._normal.on else rows

    def _row(self, seen: np.ndarray, i: int) -> np.ndarray:
        parts = [seen] if self._memory is None else [seen, self._memory.values[i]]
        return np.concatenate(parts).astype(np.float32)

    def _rows(self) -> np.ndarray:
        parts = [self._seen] if self._memory is None else [self._seen, self._memory.values]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        return self.step(self._actions)

    def close(self) -> None:
        self.inside.close()

    def seed(self, seed: int | None = None) -> list[None]:
        """Nothing: an environment has had its seed since it was made."""
        return [None] * self.num_envs

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, name)] * self.num_envs

    def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
