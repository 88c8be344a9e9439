"""How a population divides into species, generation by generation, as far as it was watched.

history.csv has how many species there are, not their sizes; a checkpoint has those of its own generation. So whoever
looks while a run goes on sees the river grow from then on.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neol.training import run_folder

LARGEST = 4_000_000  # bytes of an array that is read here
MOST_GENERATIONS = 400
_PARTS = ("outer.generation", "outer.species.id", "outer.species.member_of")


class Sizes(NamedTuple):
    """The species of one generation."""

    generation: int
    members: dict[int, int]  # species' id -> how many


def read_sizes(folder: Path) -> Sizes | None:
    """Of a run's checkpoint; None where it has no species, or is none."""
    path = folder / run_folder.CHECKPOINT
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if any(archive.getinfo(f"{name}.npy").file_size > LARGEST for name in _PARTS):
                return None
        with np.load(path, allow_pickle=False) as data:
            generation, ids, member_of = (np.asarray(data[name]) for name in _PARTS)
        whole = all(a.dtype.kind in "iu" for a in (generation, ids, member_of))
        if not whole or generation.size != 1 or ids.ndim != 1 or not len(ids) or member_of.ndim != 1:
            return None
        if len(member_of) and not 0 <= member_of.min() <= member_of.max() < len(ids):
            return None
        counts = np.bincount(member_of, minlength=len(ids))
        return Sizes(int(generation), {int(k): int(n) for k, n in zip(ids, counts, strict=True)})
    except Exception:  # whatever bytes are in the file: there is no river then
        return None


class River:
    """What was seen of a run's species."""

    def __init__(self) -> None:
        self.seen: list[Sizes] = []

    def add(self, sizes: Sizes | None) -> None:
        """A run that was killed goes on from an earlier generation: what came after that is forgotten."""
        if sizes is None:
            return
        self.seen = [s for s in self.seen if s.generation < sizes.generation]
        self.seen = [*self.seen, sizes][-MOST_GENERATIONS:]

    def told(self) -> dict[str, list]:
        """For a page: generations, and a row of sizes for each species in the order of their ids."""
        ids = sorted({k for s in self.seen for k in s.members})
        return {
            "generation": [s.generation for s in self.seen],
            "species": ids,
            "sizes": [[s.members.get(k, 0) for s in self.seen] for k in ids],
        }
