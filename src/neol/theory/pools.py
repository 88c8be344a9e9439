"""A finite pool of architectures that a run left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neol.arrays import checked
from neol.errors import NeolError
from neol.neat.checked import Population
from neol.neat.genome import Genomes, concatenate, from_arrays, take
from neol.outer.selectors import LARGEST_POOL, count
from neol.training import run_folder


def run_pool(folder: Path, size: int, inputs: int, outputs: int) -> Genomes:
    """M topologies of a run: its species' champions, then the best of its last generation, then of those before."""
    count("pool", size, LARGEST_POOL)
    config = run_folder.read_config(folder)
    if config.run.encoding != "direct":
        raise NeolError(f"'{folder}' holds CPPNs; a pool of topologies must be of a run with encoding = 'direct'.")
    arrays = run_folder.read_checkpoint(folder, config)
    members = arrays.get("outer.species.member_of")
    names = ["finalists", "archive", *(["outer.genomes"] if members is not None else [])]
    used = {k: v for k, v in arrays.items() if k.rpartition(".")[0] in names}
    arrays = checked(used, dict.fromkeys(names, Population(inputs, outputs)), f"'{folder / run_folder.CHECKPOINT}'")
    parts = [from_arrays(arrays, "finalists"), from_arrays(arrays, "archive")]
    if members is not None:
        # A species' children stand together, its elites first: the first member is the unchanged copy of its champion.
        if members.shape != arrays["outer.genomes.n_nodes"].shape:
            raise NeolError(f"'{folder / run_folder.CHECKPOINT}' is damaged: outer.species.member_of does not fit.")
        _, champions = np.unique(members, return_index=True)
        parts.insert(0, take(from_arrays(arrays, "outer.genomes"), champions))
    found = concatenate(parts)
    if len(found.n_nodes) < size:
        raise NeolError(f"pool = {size} is not allowed; '{folder}' holds {len(found.n_nodes)} champions and finalists.")
    return take(found, slice(0, size))
