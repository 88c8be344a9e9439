"""Environments that misbehave, for the tests of faults. What goes wrong is a function of the episode's seed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

KINDS = ("raise", "hang", "nan", "infinite", "kill", "shape")


class Trouble(gymnasium.Env):
    """Come to zero and stay there. In a `share` of all episodes something happens at the third step.

    With `once` (a folder) it happens only the first time that an episode of that seed is played: a passing fault.
    """

    observation_space = Box(-9.0, 9.0, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, share: float = 0.0, kinds: str = ",".join(KINDS), once: str = "", slow: float = 0.0) -> None:
        self.share, self.kinds, self.once, self.slow = share, kinds.split(","), once, slow

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-3.0, 3.0), 0
        self.fault = ""
        if self.np_random.random() < self.share:
            self.fault = self.kinds[self.np_random.integers(len(self.kinds))]
        if self.fault and self.once:
            mark = Path(self.once, str(seed))
            if mark.exists():
                self.fault = ""
            mark.touch()
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        self.t += 1
        self.x += float(action[0])
        if self.slow:
            time.sleep(self.slow)
        if self.fault and self.t == 3:
            return getattr(self, f"_{self.fault}")()
        return self._seen(), -abs(self.x), False, self.t >= 12, {}

    def _seen(self) -> np.ndarray:
        return np.array([self.x, 1.0])

    def _raise(self) -> Any:
        raise RuntimeError("the motor is on fire")

    def _hang(self) -> Any:
        while True:
            time.sleep(0.01)

    def _nan(self) -> Any:
        return np.array([np.nan, 1.0]), 0.0, False, False, {}

    def _infinite(self) -> Any:
        return self._seen(), np.inf, False, False, {}

    def _kill(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def _shape(self) -> Any:
        return np.zeros(5), 0.0, False, False, {}


class Unseeded(gymnasium.Env):
    """Remembers how many steps it has ever made: a leak between episodes."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self.life = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        return np.array([self.life + self.np_random.random()]), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        self.life += 1
        self.t += 1
        return np.array([float(self.life)]), float(action[0]) * self.life, False, self.t >= 7, {}


class Kitchen(gymnasium.Env):
    """Every kind of observation, and actions of several kinds."""

    observation_space = gymnasium.spaces.Dict(
        {
            "camera": Box(0, 255, (2, 2), np.uint8),
            "room": gymnasium.spaces.Discrete(3, start=5),
            "arm": gymnasium.spaces.Tuple((Box(-1, 1, (), np.float32), gymnasium.spaces.MultiBinary(2))),
            "pots": gymnasium.spaces.MultiDiscrete([2, 3]),
        }
    )
    action_space: gymnasium.Space = gymnasium.spaces.MultiDiscrete([3, 2], start=[1, 0])
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, action: str = "multidiscrete", render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space = {
            "multidiscrete": gymnasium.spaces.MultiDiscrete([3, 2], start=[1, 0]),
            "multibinary": gymnasium.spaces.MultiBinary(3),
            "discrete": gymnasium.spaces.Discrete(4, start=-1),
            "mixed": Box(np.array([-1.0, -np.inf, 0.0]), np.array([3.0, np.inf, np.inf]), dtype=np.float64),
            "matrix": Box(-2.0, 2.0, (2, 2), np.float32),
            "tuple": gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2))),
        }[action]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        self.t += 1
        return self.observation_space.sample(), float(np.sum(action)), self.t >= 6, False, {}

    def render(self) -> np.ndarray:
        return np.full((40, 60, 3), 10 * self.t, np.uint8)


class Words(gymnasium.Env):
    observation_space = gymnasium.spaces.Text(5)
    action_space = gymnasium.spaces.Discrete(2)


class Busy(Trouble):
    """Every step takes a tenth of a second of the CPU."""

    def step(self, action: Any) -> Any:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        return super().step(action)
