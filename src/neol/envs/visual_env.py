"""Visual discrimination with Gymnasium's interface, on the kernels of visual.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from neol.envs.visual import CHOSEN, STATE, begin_pictures, look_at_picture, parameters, point_at

SIDE = 330  # dots of a picture: a multiple of every resolution
PAPER, BOX, POINT = (255, 255, 255), (0, 114, 178), (213, 94, 0)


class VisualDiscrimination:
    """Two boxes on a field; the action is a cell, and should be the centre of the larger one."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 as Gymnasium has it
    spec = None

    def __init__(self, render_mode: str | None = None, **arguments: Any) -> None:
        from gymnasium.spaces import Box, Discrete

        self.parameters = parameters(arguments)
        self.resolution = int(self.parameters[0])
        count = self.resolution**2
        self.observation_space, self.action_space = Box(0.0, 1.0, (count,), np.float64), Discrete(count)
        self._state, self._seen = np.zeros(STATE), np.zeros(count)
        self.render_mode = render_mode
        self._before: np.ndarray | None = None  # what was seen when the last cell was chosen

    @property
    def unwrapped(self) -> VisualDiscrimination:
        return self

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        begin_pictures(self.parameters, self._state[0] + 1 if seed is None else seed, self._state)
        self._before = None
        return self._look(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._before = self._seen.copy()
        reward, over = point_at(self.parameters, self._state, np.array(action, np.float64).reshape(1))
        return self._look(), float(reward), bool(over), False, {}

    def render(self) -> Any:
        """The last picture that was answered (before that the first), and the cell that was chosen."""
        if self.render_mode != "rgb_array":
            return None
        field = self._seen if self._before is None else self._before
        image = np.full((len(field), 3), PAPER, np.uint8)
        image[field > 0.0] = BOX
        if self._state[CHOSEN] >= 0.0:
            image[int(self._state[CHOSEN])] = POINT
        grown = image.reshape(self.resolution, self.resolution, 3)
        times = SIDE // self.resolution
        return grown.repeat(times, axis=0).repeat(times, axis=1)

    def close(self) -> None:
        """Nothing is open."""

    def _look(self) -> np.ndarray:
        look_at_picture(self.parameters, self._state, self._seen)
        return self._seen.copy()
