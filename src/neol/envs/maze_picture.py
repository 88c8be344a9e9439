"""Pictures of our own simulators: where it is, where the good place is, and what every run so far has earned.

Legend: H height, W width, in dots.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from neol.envs.mazes import BANDIT, CHOSEN, GOOD, HIGH, PLACE, Simulator
from neol.envs.motors import MOTORS, TO_GO

H, W = 300, 400
STRIP = 70  # dots at the bottom: a bar for every run
PAPER, FLOOR, INK = (255, 255, 255), (222, 222, 222), (34, 34, 34)
BLUE, ORANGE, GREEN, FAINT = (0, 114, 178), (213, 94, 0), (0, 158, 115), (190, 190, 190)  # Okabe and Ito
Point = tuple[float, float]


def picture(simulator: Simulator, state: np.ndarray, earned: Sequence[float]) -> np.ndarray:
    """The state f8 (STATE,) of a simulator and what its runs have earned, as u1 (H, W, 3)."""
    image = np.full((H, W, 3), PAPER, np.uint8)
    if simulator.kind == MOTORS:
        _motors(image, state[TO_GO:])
    elif simulator.kind == BANDIT:
        _bandit(image, state)
    else:
        _maze(image, int(simulator.parameters[0]), state)
    _strip(image, earned, int(simulator.parameters[1]), 0.0 if simulator.kind == MOTORS else HIGH)
    return image


def _maze(image: np.ndarray, junctions: int, state: np.ndarray) -> None:
    ends = list(product((0, 1), repeat=junctions))
    paths = [_path(turns) for turns in ends]
    points = np.array([p for path in paths for p in path])
    low, high = points.min(axis=0), points.max(axis=0)
    scale = min((W - 100) / max(high[0] - low[0], 1.0), (H - STRIP - 70) / max(high[1] - low[1], 1.0))
    middle = (low + high) / 2

    def at(point: Point) -> Point:
        return W / 2 + scale * (point[0] - middle[0]), (H - STRIP) / 2 + scale * (point[1] - middle[1])

    for path in paths:
        for a, b in pairwise(path):
            _line(image, at(a), at(b), 13.0, FLOOR)
    for index, path in enumerate(paths):
        good = index == int(state[GOOD])
        _disc(image, at(path[-1]), 17.0 if good else 8.0, GREEN if good else FAINT)
    place, passed = int(state[PLACE]), max(0, (int(state[PLACE]) - 1) // 2)
    chosen = [int(b) for b in f"{int(state[CHOSEN]):b}".zfill(max(passed, 1))[-passed:]] if passed else []
    path = _path((*chosen, *([0] * (junctions - len(chosen)))))
    _disc(image, at(path[min(place, len(path) - 1)]), 10.0, INK)


def _path(turns: Sequence[int]) -> list[Point]:
    """Where the places of a way through the maze are, home first: two to the first junction, two after each."""
    x, y, dx, dy = 0.0, 0.0, 0.0, -1.0
    way = [(x, y)]
    for turn in (None, *turns):
        if turn is not None:
            dx, dy = (-dy, dx) if turn else (dy, -dx)
        for _ in range(2):
            x, y = x + dx, y + dy
            way.append((x, y))
    return way


def _bandit(image: np.ndarray, state: np.ndarray) -> None:
    for arm in (0, 1):
        x, y = W * (0.3 + 0.4 * arm), (H - STRIP) * 0.5
        good = arm == int(state[GOOD])
        _disc(image, (x, y), 34.0, GREEN if good else FAINT)
        if arm == int(state[CHOSEN]):
            _disc(image, (x, y), 12.0, INK)


def _motors(image: np.ndarray, to_go: np.ndarray) -> None:
    """A rail for each axis, its target in the middle, and where it is."""
    for i, way in enumerate(to_go):
        y = (H - STRIP) * (i + 0.5) / len(to_go)
        half = min(13.0, 40.0 / len(to_go))
        _line(image, (40.0, y), (W - 40.0, y), half, FLOOR)
        _disc(image, (W / 2, y), half + 4.0, GREEN)
        _disc(image, (W / 2 - float(np.clip(way, -2.0, 2.0)) * (W - 80) / 4.0, y), half, INK)


def _strip(image: np.ndarray, earned: Sequence[float], runs: int, good: float) -> None:
    """A bar for every run so far: blue where it earned what is good, orange where less."""
    base, tall, wide = H - 22, STRIP - 40, (W - 40) / max(runs, 1)
    image[base : base + 1, 20 : W - 20] = FAINT
    for i, reward in enumerate(earned[:runs]):
        left, right = 20 + int(i * wide), max(21 + int(i * wide), 19 + int((i + 1) * wide))
        height = int(tall * min(abs(reward) / HIGH, 1.5))
        top, bottom = (base - height, base) if reward >= 0 else (base, base + min(height, 18))
        image[top:bottom, left:right] = BLUE if reward >= good else ORANGE


def _line(image: np.ndarray, a: Point, b: Point, half: float, color: tuple[int, int, int]) -> None:
    """A straight corridor along one axis, that wide to each side."""
    (x1, x2), (y1, y2) = sorted((a[0], b[0])), sorted((a[1], b[1]))
    image[int(y1 - half) : int(y2 + half), int(x1 - half) : int(x2 + half)] = color


def _disc(image: np.ndarray, at: Point, radius: float, color: tuple[int, int, int]) -> None:
    """Smooth at its edge."""
    y, x = np.ogrid[:H, :W]
    part = np.clip(radius + 0.5 - np.hypot(x - at[0], y - at[1]), 0.0, 1.0)[..., None]
    image[...] = np.round(image * (1.0 - part) + np.array(color) * part).astype(np.uint8)
