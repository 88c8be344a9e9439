"""The means of the generations that did best: candidates for champion, whatever the search does afterwards."""

from __future__ import annotations

import math

import numpy as np

from neol.arrays import Array, Group
from neol.neat.checked import Population
from neol.neat.genome import Genomes, concatenate, empty_genomes, from_arrays, take, to_arrays

PLACES = 6


class Hall:
    """At most PLACES genomes (P = 1 each) by score, the best first."""

    def __init__(self) -> None:
        self.genomes: list[Genomes] = []
        self.scores: list[float] = []

    def enter(self, score: float, genome: Genomes) -> None:
        if math.isnan(score):
            return
        at = sum(s >= score for s in self.scores)
        self.scores.insert(at, score)
        self.genomes.insert(at, genome)
        del self.scores[PLACES:], self.genomes[PLACES:]

    def state(self) -> dict[str, np.ndarray]:
        held = concatenate(self.genomes) if self.genomes else empty_genomes(0, 1, 1)
        return {"hall.scores": np.array(self.scores, float)} | to_arrays(held, "hall.genomes")

    @staticmethod
    def declared(inputs: int, outputs: int) -> dict[str, Array | Group]:
        return {"hall.scores": Array("f8", ("H",)), "hall.genomes": Population(inputs, outputs, "H")}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.scores = arrays["hall.scores"].tolist()
        held = from_arrays(arrays, "hall.genomes")
        self.genomes = [take(held, [i]) for i in range(len(self.scores))]
