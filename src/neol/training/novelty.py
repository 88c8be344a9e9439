"""Novelty (Lehman and Stanley 2011): what selection goes by is blended with how unlike all others a genome's lives are.

A genome's behaviour is what its lives were like: the mean and the spread of every input that it saw, over all of them.
Its novelty is the mean distance to its k nearest, of this generation and of an archive that takes in the most novel
genome of every generation. With the weight rho, f is replaced by

    (1 - rho) f + rho (median f + (v - median v) sd(f) / sd(v))

v being the novelties, so that it stays in the units of fitness. History and champions go by fitness alone.
Legend: P genomes, E lives of all of them, I inputs, A archived behaviours.
"""

from __future__ import annotations

import numpy as np

from neol.network.normalization import Moments

ARCHIVE = 500  # behaviours that are remembered, the last ones


def behaviours(moments: Moments, genomes: int) -> np.ndarray:
    """Mean and standard deviation of all that each genome saw, f8 (P, 2 I), from those of its lives, genome-major."""
    n = moments.n.reshape(genomes, -1, 1)  # (P, E / P, 1)
    mean, m2 = (a.reshape(genomes, -1, a.shape[1]) for a in (moments.mean, moments.m2))
    total = np.maximum(n.sum(axis=1), 1.0)
    middle = (n * mean).sum(axis=1) / total
    around = (m2 + n * (mean - middle[:, None]) ** 2).sum(axis=1) / total
    return np.concatenate([middle, np.sqrt(around)], axis=1)


def novelties(found: np.ndarray, archive: np.ndarray, neighbours: int) -> np.ndarray:
    """Mean distance f8 (P,) of behaviours f8 (P, 2 I) to their nearest among the others and those of the archive.

    Every number is measured in its spread over all of them; one that does not vary says nothing.
    """
    every = np.concatenate([found, archive])
    squared = np.zeros((len(found), len(every)))
    for i in range(found.shape[1]):
        spread = every[:, i].std()
        if spread > 1e-12:
            squared += ((found[:, i, None] - every[None, :, i]) / spread) ** 2
    distance = np.sqrt(squared)
    distance[np.arange(len(found)), np.arange(len(found))] = np.inf  # itself
    nearest = np.sort(distance, axis=1)[:, : max(1, min(neighbours, len(every) - 1))]
    return nearest.mean(axis=1)


def blended(fitness: np.ndarray, novelty: np.ndarray, weight: float) -> np.ndarray:
    """Fitness f8 (P,) with that part of novelty in it."""
    spread = float(novelty.std())
    if spread <= 1e-12:
        return fitness
    scale = (float(fitness.std()) or 1.0) / spread
    return (1.0 - weight) * fitness + weight * (np.median(fitness) + scale * (novelty - np.median(novelty)))


class Novelty:
    """The archive of a run."""

    def __init__(self, weight: float, neighbours: int, inputs: int) -> None:
        self.weight, self.neighbours = weight, neighbours
        self.archive = np.zeros((0, 2 * inputs))

    def blend(self, fitness: np.ndarray, moments: Moments) -> np.ndarray:
        """What selection goes by, f8 (P,); the archive takes in the most novel."""
        if self.weight == 0.0 or not np.isfinite(fitness).all():
            return fitness
        found = behaviours(moments, len(fitness))
        novelty = novelties(found, self.archive, self.neighbours)
        self.archive = np.concatenate([self.archive, found[[int(novelty.argmax())]]])[-ARCHIVE:]
        return blended(fitness, novelty, self.weight)
