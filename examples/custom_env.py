"""An environment of your own, trained, evaluated and filmed. Run: python examples/custom_env.py [FOLDER]

A boat keeps to the middle of a river. The twist: at half-time of every other episode its rudder is turned round. Nobody
tells the boat; only its reward can.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np

import neol


class River(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (3,), np.float64)  # place, speed, 1
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)  # rudder
    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012

    def __init__(self, swap: bool = True, render_mode: str | None = None) -> None:
        self.swap, self.render_mode = swap, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.speed, self.t = self.np_random.uniform(-1.0, 1.0), 0.0, 0
        self.rudder = 1.0 if not self.swap else self.np_random.choice([-1.0, 1.0])  # how it is mounted after half-time
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        mounted = self.rudder if self.t > 60 else 1.0
        self.speed = 0.9 * self.speed + 0.05 * mounted * float(action[0]) + 0.02 * self.np_random.normal()
        self.place += self.speed
        ashore = abs(self.place) > 3.0
        return self._seen(), 1.0 - abs(self.place), ashore, self.t >= 120, {}

    def _seen(self) -> np.ndarray:
        return np.clip(np.array([self.place, 10.0 * self.speed, 1.0]), -5.0, 5.0)

    def render(self) -> np.ndarray:
        picture = np.full((120, 360, 3), (90, 150, 210), np.uint8)
        picture[:, :30] = picture[:, -30:] = (80, 140, 70)
        x = int(180 + 50 * np.clip(self.place, -3.4, 3.4))
        picture[50:80, x - 6 : x + 6] = (200, 60, 40) if self.t > 60 and self.rudder < 0 else (250, 250, 250)
        return picture


def main(folder: str, generations: int = 40) -> None:
    settings: dict[str, Any] = {
        "generations": generations,
        "pop_size": 100,
        "episodes": 4,
        "seed": 0,
        "reward_scale": 0.1,
    }
    run = neol.train(River, out=f"{folder}/river", **settings)
    on, off = (neol.evaluate(run.champion, River, episodes=100, seed=1, plasticity=p) for p in (True, False))
    print(f"return {on.mean:.1f} with plasticity, {off.mean:.1f} with it switched off")
    film, total = neol.replay(run.champion, f"{folder}/river.gif", seed=3, task=River)
    print(f"{film}: an episode with return {total:.1f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs")
