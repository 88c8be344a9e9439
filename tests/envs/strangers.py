"""Environments as strangers write them, who have not read our pages: valid, but not as Gymnasium's own are."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

Stepped = tuple[Any, float, bool, bool, dict]


class Pendulum(gymnasium.Env):
    """Come to zero with a push of any size. What the others have in common."""

    observation_space: gymnasium.Space = Box(-9.0, 9.0, (2,), np.float64)
    action_space: gymnasium.Space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-3.0, 3.0), 0
        return self.seen(), {}

    def step(self, action: Any) -> Stepped:
        assert self.action_space.contains(action), repr(action)
        self.t += 1
        self.x += float(np.ravel(action)[0])
        return self.seen(), -abs(self.x), False, self.t >= 8, {}

    def seen(self) -> np.ndarray:
        return np.array([self.x, 1.0])

    def picture(self) -> np.ndarray:
        """A bar that shows x."""
        image = np.full((40, 60, 3), 90, np.uint8)
        image[:, int(np.clip(30 + 5 * self.x, 0, 56)) :][:, :4] = 255
        return image


class NoArguments(Pendulum):
    """The usual one of a tutorial: it takes nothing, and draws nothing."""

    def __init__(self) -> None:
        self.pushes = 0


class AlwaysDraws(Pendulum):
    """Takes no render_mode either, but has a picture whenever it is asked."""

    def __init__(self) -> None:
        self.pushes = 0

    def render(self) -> np.ndarray:  # type: ignore[override]
        return self.picture()


class AnyArguments(Pendulum):
    """Takes whatever there is, the render mode among it."""

    def __init__(self, **settings: Any) -> None:
        self.render_mode = settings.get("render_mode")

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        return self.picture() if self.render_mode == "rgb_array" else None


def handed_on(**settings: Any) -> gymnasium.Env:
    """Hands its arguments on to a class that takes none."""
    return AlwaysDraws(**settings)


class NoMetadata(AnyArguments):
    metadata = None  # type: ignore[assignment]


class OddMetadata(AnyArguments):
    metadata = {"render_fps": "as fast as you can"}  # noqa: RUF012


class BrokenPicture(AnyArguments):
    def render(self) -> np.ndarray:
        raise OSError("no screen")


class FloatPicture(AnyArguments):
    def render(self) -> np.ndarray:
        return self.picture() / 255.0


class Windowed(Pendulum):
    """Opens a window unless it is told not to."""

    def __init__(self, render_mode: str | None = "human") -> None:
        if render_mode == "human":
            raise OSError("no screen to open a window on")
        self.render_mode = render_mode


class OneForce(Pendulum):
    """Takes one number, of shape ()."""

    def __init__(self, dtype: str = "float32") -> None:
        self.action_space = Box(-3, 3, (), np.dtype(dtype).type)
        self.taken: list[Any] = []

    def step(self, action: Any) -> Stepped:
        assert isinstance(action, np.ndarray) and action.shape == () and action.dtype == self.action_space.dtype
        return super().step(action)


class BadStarts(Pendulum):
    """A share of all seeds cannot be started from."""

    observation_space = Box(-9.0, 9.0, (4,), np.float64)
    action_space = Discrete(2)

    def __init__(self, share: float = 0.05) -> None:
        self.share = share

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if self.np_random.random() < self.share:
            raise ValueError("no such start")
        return self.seen(), {}

    def seen(self) -> np.ndarray:
        return np.array([self.x, 1.0, self.t, 0.0])


class GlobalDice(Pendulum):
    """Draws from NumPy's or Python's global generator; notes what it drew in a folder."""

    def __init__(self, dice: str = "numpy", log: str = "", slow: float = 0.0, dies: bool = False) -> None:
        self.dice, self.log, self.slow, self.dies = dice, log, slow, dies

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        drawn = {"numpy": np.random.random, "python": random.random, "seeded": self.np_random.random}[self.dice]()
        self.x += drawn
        time.sleep(self.slow)
        if self.log:
            Path(self.log, f"{drawn!r}-{time.monotonic_ns()}").touch()
        if self.dies and drawn < 0.5:
            import os

            os._exit(3)
        return self.seen(), {}


for name in ("NoArguments", "AlwaysDraws", "AnyArguments", "NoMetadata", "OddMetadata", "Windowed", "OneForce"):
    gymnasium.register(f"Strange/{name}-v0", f"strangers:{name}", max_episode_steps=8)
gymnasium.register("Strange/Function-v0", lambda: NoArguments(), max_episode_steps=8)


class Stall(Pendulum):
    """Pays the size of the push; a motor that is hardly driven raises."""

    observation_space = Box(0.0, 1.0, (1,), np.float64)
    action_space = Box(-5.0, 5.0, (1,))

    def step(self, action: Any) -> Stepped:
        self.t += 1
        if abs(float(action[0])) < 0.3:
            raise RuntimeError("stalled")
        return self.seen(), abs(float(action[0])), self.t >= 5, False, {}

    def seen(self) -> np.ndarray:
        return self.np_random.uniform(0.5, 1.0, 1)
