"""Visual discrimination (Stanley, D'Ambrosio and Gauci 2009) as kernels: find the centre of the larger of two boxes.

A field of R x R cells shows a small box (a side of R / 11 cells) and a large one (three times that). The network has an
output for each cell and points at the one that is most active. An episode is 75 pictures; each costs d^2 / 75, where d
is the distance from the cell pointed at to the large box's centre, in a field that reaches from -1 to 1. So a return is
minus the mean squared distance, at any resolution. visual_env.py makes a Gymnasium environment of these kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neol.errors import NeolError, nearest
from neol.jit import kernel
from neol.seeding import uniform_at

VISUAL = 3  # the kind of this simulator (simulators.py)
NAME = "visual discrimination"
COARSE = 11  # cells of a side, where a small box is one cell
RESOLUTIONS = (11, 33, 55)
PICTURES = 75
GRID, RANDOM = PLACEMENTS = ("grid", "random")
# Places in the state.
SEED, PICTURE, SMALL, LARGE, CHOSEN = range(5)
STATE = 5
_DEFAULTS = {"resolution": COARSE, "placement": GRID}


def parameters(arguments: Mapping[str, Any]) -> np.ndarray:
    """The environment's arguments as f8 (3,): resolution, pictures of an episode, whether they are drawn at random."""
    for key in arguments:
        if key not in _DEFAULTS:
            raise NeolError(f"env_kwargs = '{key}' is not allowed; {nearest(key, _DEFAULTS)}")
    said = {**_DEFAULTS, **arguments}
    resolution, placement = said["resolution"], said["placement"]
    if isinstance(resolution, bool) or resolution not in RESOLUTIONS:
        raise NeolError(f"resolution = {resolution!r} is not allowed; it must be 11, 33 or 55.")
    if placement not in PLACEMENTS:
        raise NeolError(f"placement = {placement!r} is not allowed; it must be grid (the paper's 75) or random.")
    return np.array([resolution, PICTURES, placement == RANDOM], np.float64)


def cells(resolution: int) -> np.ndarray:
    """Where the cells of a field are, f8 (R R, 2): x and y of their centres, row by row, from -1 to 1 at its edges."""
    along = (2.0 * np.arange(resolution) + 1.0) / resolution - 1.0
    y, x = np.meshgrid(along, along, indexing="ij")
    return np.stack([x.ravel(), y.ravel()], axis=1)


@kernel
def begin_pictures(parameters, seed, s):
    """A new episode in state s f8 (STATE,)."""
    s[:] = 0.0
    s[SEED] = seed
    s[CHOSEN] = -1.0
    _place(parameters, s)


@kernel
def _in_view(at):
    """Where a large box's centre goes so that all of it is seen."""
    return min(max(at, 1), COARSE - 2)


@kernel
def _place(parameters, s):
    """Put both boxes where this picture has them: the centres' cells of a field of 11 x 11, as 11 y + x."""
    picture = np.int64(s[PICTURE])
    if parameters[2] == 0.0:
        # 25 places of the small box; for each the large one five cells right, down, and both; it wraps around, and is
        # moved into full view
        spot, way = picture // 3, picture % 3
        x, y = 1 + 2 * (spot % 5), 1 + 2 * (spot // 5)
        far_x = (x + 5) % COARSE if way != 1 else x
        far_y = (y + 5) % COARSE if way != 0 else y
        s[SMALL] = COARSE * y + x
        s[LARGE] = COARSE * _in_view(far_y) + _in_view(far_x)
        return
    name, i = np.uint64(s[SEED]), 1000 * picture
    while True:  # anywhere, but so that no side or corner is shared
        x, y = np.int64(uniform_at(name, i) * COARSE), np.int64(uniform_at(name, i + 1) * COARSE)
        far_x = 1 + np.int64(uniform_at(name, i + 2) * (COARSE - 2))
        far_y = 1 + np.int64(uniform_at(name, i + 3) * (COARSE - 2))
        if max(abs(x - far_x), abs(y - far_y)) > 2:
            break
        i += 4
    s[SMALL], s[LARGE] = COARSE * y + x, COARSE * far_y + far_x


@kernel
def look_at_picture(parameters, s, observation):
    """The field, f8 (R R,): 1 where a box is, else 0."""
    resolution = np.int64(parameters[0])
    scale = resolution // COARSE
    observation[: resolution * resolution] = 0.0
    for box in range(2):
        centre, half = np.int64(s[LARGE] if box else s[SMALL]), box  # in cells of 11 x 11
        x, y = centre % COARSE, centre // COARSE
        for row in range((y - half) * scale, (y + half + 1) * scale):
            for column in range((x - half) * scale, (x + half + 1) * scale):
                observation[row * resolution + column] = 1.0


@kernel
def point_at(parameters, s, action):
    """One picture answered with action f8 (1,), a cell: (reward, whether the episode is over)."""
    resolution = np.int64(parameters[0])
    scale = resolution // COARSE
    chosen, centre = np.int64(action[0]), np.int64(s[LARGE])
    # the centre's cell at this resolution: the sides of boxes are odd numbers of cells
    dx = chosen % resolution - ((centre % COARSE) * scale + scale // 2)
    dy = chosen // resolution - ((centre // COARSE) * scale + scale // 2)
    s[CHOSEN] = chosen
    s[PICTURE] += 1.0
    over = s[PICTURE] >= parameters[1]
    if not over:
        _place(parameters, s)
    return -(dx * dx + dy * dy) * (2.0 / resolution) ** 2 / parameters[1], over
