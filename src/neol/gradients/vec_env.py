"""Environments as a network of ours meets them, for SBX: observations scaled as its own, outputs as actions.

What SBX sees of a recurrent network is its observation and the values of its nodes one step ago, side by side; so it
is a function of what is seen, and SBX, which knows no recurrence, trains it. The values are those that our kernels
compute with the weights of that moment. No gradient flows through them: backpropagation through time is cut off after
one step, and PPO's later epochs and SAC's replay see values of slightly older weights.
Legend: B environments, I inputs, n nodes, A action components.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neol.baselines.vec_env import PoolEnv
from neol.envs.tasks import TASKS, Task
from neol.gradients.jax_network import Parameters
from neol.gradients.memory import Memory
from neol.network.actions import ARGMAX, BOUNDED, action_map
from neol.network.normalization import CLIP, Normalization


def simulators(task: Task, engine: str, seeds: np.ndarray, max_steps: int) -> PoolEnv:
    """Fresh environments with these seeds, i4 (B,)."""
    ours = engine == "envpool" and task.name in TASKS
    return PoolEnv(task, seeds, max_steps, engine="envpool" if ours else "gymnasium")


class NetworkEnv:
    """A VecEnv of Stable-Baselines3 (which this module does not import) around simulators."""

    def __init__(
        self,
        inside: PoolEnv,
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
