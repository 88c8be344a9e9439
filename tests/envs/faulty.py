"""Environments as strangers write them: nearly right, each wrong in one way. For the tests of `neol check`."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text, Tuple


class Fine(gymnasium.Env):
    """Nothing is wrong with it."""

    observation_space: gymnasium.Space = Box(-10.0, 10.0, (2,), np.float32)
    action_space: gymnasium.Space = Box(-1.0, 1.0, (1,), np.float32)
    length = 8

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.t, self.x = 0, float(self.np_random.uniform(-1, 1))
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        self.t += 1
        self.x = float(np.clip(self.x + float(np.ravel(action)[0]), -9, 9))
        return self.seen(), -abs(self.x), False, self.t >= self.length, {}

    def seen(self) -> Any:
        return np.array([self.x, self.t % 10], np.float32)


class OldStep(Fine):
    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class OldReset(Fine):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed)[0]


class NoSeed(Fine):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class IgnoresSeed(Fine):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        return super().reset(seed=None if not hasattr(self, "x") else seed)


class GlobalNumpy(Fine):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        observation, _, *rest = super().step(action)
        return observation, np.random.normal(), *rest  # noqa: NPY002


class GlobalPython(Fine):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        observation, _, *rest = super().step(action)
        return observation, random.random(), *rest


class Remembers(Fine):
    def __init__(self) -> None:
        self.life = 0

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        self.life += 1
        observation, _, *rest = super().step(action)
        return observation, self.life / 100, *rest


class NanReward(Fine):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        observation, reward, *rest = super().step(action)
        return observation, float("nan") if self.t == 3 else reward, *rest


class InfiniteSometimes(Fine):
    """The observation is infinite in episodes that begin below -0.8."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        observation, info = super().reset(seed=seed)
        return (np.full(2, np.inf, np.float32), info) if self.x < -0.8 else (observation, info)


class RewardOfNothing(Fine):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        observation, _, *rest = super().step(action)
        return observation, None, *rest


class RewardInArray(Fine):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        observation, reward, *rest = super().step(action)
        return observation, np.array(reward), *rest


class RaisesOnSome(Fine):
    """On one seed of twenty."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        if seed is not None and seed % 20 == 7:
            raise RuntimeError("no start state\nwas found")
        return super().reset(seed=seed)


class LongAndRaisesOnSome(RaisesOnSome):
    length = 10**9


class RaisesAlways(Fine):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        raise ZeroDivisionError("division by zero")


class WrongType(Fine):
    def seen(self) -> Any:
        return super().seen().astype(np.float64)


class WrongShape(Fine):
    def seen(self) -> Any:
        return np.zeros(3, np.float32)


class OutsideItsSpace(Fine):
    def seen(self) -> Any:
        return np.array([self.x, 11.0 + self.t], np.float32)


class Endless(Fine):
    length = 10**9


class RaisesLate(Endless):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        if self.t >= 400:
            raise MemoryError("the map is full")
        return super().step(action)


class Alike(Fine):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.x = 0.5
        return self.seen(), {}


class Unscaled(Fine):
    observation_space = Box(-np.inf, np.inf, (2,), np.float32)

    def seen(self) -> Any:
        return 50_000 * super().seen()


class Pixels(Fine):
    observation_space = Box(0, 255, (84, 84), np.uint8)
    action_space = Discrete(4)

    def seen(self) -> Any:
        return np.full((84, 84), self.t, np.uint8)


class Mixed(Fine):
    """Dict and Tuple observations, several kinds of actions."""

    observation_space = Dict({"arm": Tuple((Box(-9, 9, (2,), np.float32), Discrete(3, start=1)))})
    action_space = MultiDiscrete([3, 2])

    def seen(self) -> Any:
        return {"arm": (np.array([self.x, 0.0], np.float32), 1 + self.t % 3)}


class WrongInside(Mixed):
    """Its Dict holds a number out of its bounds."""

    def seen(self) -> Any:
        return {"arm": (np.array([self.x, 99.0], np.float32), 1)}


class Words(Fine):
    observation_space = Text(5)


class CannotBeMade(Fine):
    def __init__(self) -> None:
        raise OSError("there is no robot on /dev/ttyUSB0")


class CannotBeFilmed(Fine):
    """Says rgb_array, but takes no render_mode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self) -> None:
        self.render_mode = None


class Talks(Fine):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        print("hello")
        return super().reset(seed=seed)


class FlagsAreNumbers(Fine):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, 0, truncated, info
