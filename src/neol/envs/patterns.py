"""Pattern completion (Miconi, Stanley and Clune 2018, section 4.1): a life in which something must be remembered.

Random patterns of +-1, half of each, are shown a few times each, in random order, with pauses without any input between
them; then half of the bits of one of them, and the network's outputs should be the whole pattern. An episode's only
reward comes with its last step: the part of all bits whose sign is right. Who knows nothing but what is shown has 0.75.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.errors import NeolError, nearest
from neol.jit import kernel


class Presentation(NamedTuple):
    """How patterns are shown."""

    size: int = 100  # bits of a pattern
    patterns: int = 5  # to remember
    cycles: int = 2  # times that each of them is shown
    shown: int = 6  # steps, every time
    pause: int = 4  # steps after it
    tested: int = 6  # steps that the half pattern is shown

    @property
    def steps(self) -> int:
        """Of an episode."""
        return self.cycles * self.patterns * (self.shown + self.pause) + self.tested


def presentation(arguments: dict[str, Any]) -> Presentation:
    """Of an environment's arguments."""
    for key, value in arguments.items():
        if key not in Presentation._fields:
            raise NeolError(f"env_kwargs = '{key}' is not allowed; {nearest(key, Presentation._fields)}")
        least = 0 if key == "pause" else 2 if key == "size" else 1
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_000:
            raise NeolError(f"{key} = {value!r} is not allowed; it must be a whole number of {least} to 10,000.")
    return Presentation(**arguments)


@kernel
def _shuffled(row, state):
    """Shuffle a row in place (Fisher and Yates)."""
    for k in range(len(row) - 1, 0, -1):
        j = seeding.below(state, k + 1)
        row[k], row[j] = row[j], row[k]


@kernel
def episode(how, seed):
    """What is shown f8 (steps, size), and the pattern that should be completed f8 (size,)."""
    state = seeding.stream(seed, seeding.EPISODE, 0, 0, 0)
    patterns = np.ones((how.patterns, how.size))
    for p in range(how.patterns):
        patterns[p, : how.size // 2] = -1.0
        _shuffled(patterns[p], state)
    kept = np.ones(how.size)
    kept[: how.size // 2] = 0.0
    _shuffled(kept, state)
    target = patterns[seeding.below(state, how.patterns)]
    shown = np.zeros((how.cycles * how.patterns * (how.shown + how.pause) + how.tested, how.size))
    order, at = np.arange(how.patterns), 0
    for _ in range(how.cycles):
        _shuffled(order, state)
        for p in order:
            shown[at : at + how.shown] = patterns[p]
            at += how.shown + how.pause
    shown[at:] = target * kept
    return shown, target


class Patterns:
    """The episodes with Gymnasium's interface."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 as Gymnasium has it
    spec = None
    render_mode = None

    def __init__(self, **arguments: Any) -> None:
        from gymnasium.spaces import Box

        self.presentation = presentation(arguments)
        self.observation_space = Box(-1.0, 1.0, (self.presentation.size,), np.float64)
        self.action_space = Box(-1.0, 1.0, (self.presentation.size,))
        self._seed, self._step = 0, 0
        self._shown, self._target = episode(self.presentation, 0)

    @property
    def steps(self) -> int:
        """Of an episode."""
        return len(self._shown)

    @property
    def unwrapped(self) -> Patterns:
        return self

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self._shown, self._target = episode(self.presentation, self._seed if seed is None else seed)
        self._seed, self._step = (self._seed if seed is None else seed) + 1, 0
        return self._shown[0].copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        over = self._step == len(self._shown) - 1
        reward = float((np.sign(action) == self._target).mean()) if over else 0.0
        self._step = min(self._step + 1, len(self._shown) - 1)
        return self._shown[self._step].copy(), reward, over, False, {}

    def render(self) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """Nothing is open."""
