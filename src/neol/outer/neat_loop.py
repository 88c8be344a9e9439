"""NEAT as an outer loop: a population that evolves."""

from __future__ import annotations

import numpy as np

from neol.arrays import Array, Declared
from neol.errors import NeolError
from neol.neat.checked import InnovationTable, Population, check_numbered
from neol.neat.evolution import Neat
from neol.neat.genome import Genomes
from neol.outer.base import Outcome, Problem, best


class NeatLoop:
    """OuterInit, OuterSelect (`ask`) and OuterUpdate (`tell`) of the paper's Algorithm 1, by NEAT."""

    def __init__(self, problem: Problem) -> None:
        self.neat = Neat(problem.config.evolution, problem.inputs, problem.outputs, problem.seed, problem.start)

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

    def declared(self) -> Declared:
        neat, size = self.neat, self.neat.config.pop_size
        own = (neat.inputs, neat.outputs)
        return {
            "generation": Array("i8", low=0),
            "next_species": Array("i8", low=0, high=2**31 - 1),
            "genomes": Population(*own, size),
            "representative": Population(*own, "S", least=1),
            "innovations": InnovationTable(neat.outputs + (0 if neat.start is not None else neat.config.num_hidden)),
            "threshold": Array("f8", low=0.0, optional=True),
            "species.id": Array("i4", ("S",)),
            "species.member_of": Array("i4", (size,), low=0, high="S"),
            "species.best": Array("f8", ("S",)),
            "species.improved": Array("i4", ("S",)),
            "species.created": Array("i4", ("S",)),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        why = check_numbered(arrays, "genomes", "innovations")
        members, ids = arrays["species.member_of"], arrays["species.id"]
        if len(np.unique(members)) != len(ids) or (np.diff(ids.astype(np.int64)) <= 0).any():
            why = "every species must have a member, and their ids must ascend"
        if why:
            raise NeolError(f"the checkpoint is damaged: {why}.")
        self.neat.restore(arrays)
