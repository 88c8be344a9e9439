"""NEAT as an outer loop: a population that evolves."""

from __future__ import annotations

import numpy as np

from neol.neat.evolution import Neat
from neol.neat.genome import Genomes
from neol.outer.base import Outcome, Problem, best


class NeatLoop:
    """OuterInit, OuterSelect (`ask`) and OuterUpdate (`tell`) of the paper's Algorithm 1, by NEAT."""

    def __init__(self, problem: Problem) -> None:
        self.neat = Neat(problem.config.neat, problem.inputs, problem.outputs, problem.seed, problem.start)

    @property
    def generation(self) -> int:
        return self.neat.generation

    def ask(self) -> Genomes:
        return self.neat.ask()

    def tell(self, outcome: Outcome) -> None:
        self.neat.tell(outcome.fitness, outcome.adapted)

    def metrics(self) -> dict[str, float]:
        found: dict[str, float] = {"species": len(self.neat.species.id)}
        if self.neat.config.target_species:
            found["compatibility_threshold"] = self.neat.threshold
        return found

    def candidates(self, outcome: Outcome, count: int) -> Genomes:
        """The fittest."""
        return best(self.neat.genomes, outcome.fitness, count)

    def state(self) -> dict[str, np.ndarray]:
        return self.neat.state()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.neat.restore(arrays)
