"""Our own simulators with Gymnasium's interface, on their kernels (simulators.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from neol.envs.maze_picture import picture
from neol.envs.mazes import BANDIT, RUN, SWAPPED
from neol.envs.motors import MOTORS
from neol.envs.simulators import begin, look, move, new_state, simulator


class _Native:
    """One of our simulators, with what Gymnasium asks of an environment."""

    name = ""
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 as Gymnasium has it
    spec = None

    def __init__(self, render_mode: str | None = None, **arguments: Any) -> None:
        from gymnasium.spaces import Box, Discrete

        self.simulator = simulator(self.name, arguments)
        axes = int(self.simulator.parameters[0]) if self.simulator.kind == MOTORS else 0
        bound = np.inf if axes else 1.0
        self.observation_space = Box(-bound, bound, (axes or 4,), np.float64)
        self.action_space: Any = Discrete(2) if self.simulator.kind == BANDIT else Box(-1.0, 1.0, (axes or 1,))
        self._state, self._seen = new_state(self.simulator), np.zeros(axes or 4)
        self.render_mode = render_mode
        self._earned: list[float] = []  # by each run that is over
        self._earning = 0.0  # by this one
        self._seed = 0  # of the next episode, where reset is given none

    @property
    def phase(self) -> int:
        """How often the good place has moved in this episode."""
        return 0 if self.simulator.kind == MOTORS else int(self._state[SWAPPED])

    @property
    def unwrapped(self) -> _Native:
        return self

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        begin(*self.simulator, self._seed if seed is None else seed, self._state)
        self._seed = int(self._state[0]) + 1
        self._earned, self._earning = [], 0.0
        return self._look(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        run = self._state[RUN]
        reward, over = move(*self.simulator, self._state, np.array(action, np.float64).reshape(-1))
        self._earning += float(reward)
        if over or self._state[RUN] != run:
            self._earned.append(self._earning)
            self._earning = 0.0
        return self._look(), float(reward), bool(over), False, {}

    def render(self) -> Any:
        return picture(self.simulator, self._state, self._earned) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Nothing is open."""

    def _look(self) -> np.ndarray:
        look(*self.simulator, self._state, self._seen)
        return self._seen.copy()


class TMaze(_Native):
    """A corridor, one junction, two ends."""

    name = "t-maze"


class DoubleTMaze(_Native):
    """A corridor, two junctions one after the other, four ends."""

    name = "double t-maze"


class Bandit(_Native):
    """Two arms that pay 1 with probability 0.9 and 0.1."""

    name = "bandit"


class Motors1(_Native):
    """One axis."""

    name = "1 motors"


class Motors2(_Native):
    """Two axes, each with a motor of its own."""

    name = "2 motors"


class Motors4(_Native):
    """Four axes."""

    name = "4 motors"


class Motors8(_Native):
    """Eight axes."""

    name = "8 motors"
