"""A finite pool of architectures that a run left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neol.errors import NeolError
from neol.neat.genome import Genomes, concatenate, from_arrays, take
from neol.outer.selectors import LARGEST_POOL, count
from neol.training import run_folder


def run_pool(folder: Path, size: int) -> Genomes:
    """M topologies of a run: its species' champions, then the best of its last generation, then of those before."""
    count("pool", size, LARGEST_POOL)
    arrays = run_folder.read_checkpoint(folder, run_folder.read_config(folder))

    parts = [from_arrays(arrays, "finalists"), from_arrays(arrays, "archive")]
    if "outer.species.member_of" in arrays:
        # A species' children stand together, its elites first: the first member is the unchanged copy of its champion.
        _, champions = np.unique(arrays["outer.species.member_of"], return_index=True)
        parts.insert(0, take(from_arrays(arrays, "outer.genomes"), champions))
    found = concatenate(parts)
    if len(found.n_nodes) < size:
        raise NeolError(f"pool = {size} is not allowed; '{folder}' holds {len(found.n_nodes)} champions and finalists.")
    return take(found, slice(0, size))
