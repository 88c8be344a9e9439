"""Visual discrimination in its paper's terms: how far from the large box's centre a network points."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neol import seeding
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.visual import COARSE, GRID, PICTURES
from neol.envs.visual_env import VisualDiscrimination
from neol.errors import NeolError


class VisualScore(NamedTuple):
    """Distances are of a field that reaches from -1 to 1, whatever its resolution."""

    resolution: int
    placement: str  # grid: the paper's 75 pictures | random
    pictures: int
    connections: int  # of the network
    mean_squared_distance: float  # the paper's measure, in evolution
    mean_distance: float
    near: float  # share of pictures with a distance of at most 2 / 11: one cell of 11 x 11
    found: float  # share of pictures whose chosen cell is the very centre


def visual_score(net: PlasticNetwork, placement: str = GRID, episodes: int = 1, seed: int = 0) -> VisualScore:
    """Show a network `episodes` times 75 pictures; those of placement = grid are the same every time."""
    resolution = math.isqrt(net.network.inputs)
    if net.interface.get("task") != "visual-discrimination":
        raise NeolError(f"the network is of task '{net.interface.get('task')}'; it must be visual-discrimination.")
    env = VisualDiscrimination(resolution=resolution, placement=placement)
    seeds = seeding.episode_seeds(seed, seeding.EVALUATE, 0, 1, episodes, True)
    squared = []
    for number in seeds.tolist():
        net.reset()
        seen, over = env.reset(seed=number)[0], False
        while not over:
            seen, reward, over, _, _ = env.step(net.act(seen))
            squared.append(-reward * PICTURES)
    distances = np.array(squared)
    return VisualScore(
        resolution, placement, len(distances), len(net.network.phenotype.weight), float(distances.mean()),
        float(np.sqrt(distances).mean()), float((distances <= (2.0 / COARSE) ** 2 * (1.0 + 1e-9)).mean()),
        float((distances == 0.0).mean()),
    )  # fmt: skip
