"""An evolution strategy over the weights and biases (and all other searchable genes) of one topology."""

from __future__ import annotations

import numpy as np

from neol.arrays import Array, Declared
from neol.errors import NeolError
from neol.neat.evolution import finite_fitness
from neol.neat.genome import Genomes, concatenate, take
from neol.outer.base import Outcome, Problem, best
from neol.outer.hall import Hall
from neol.outer.search_space import search_space, to_genomes, to_vectors
from neol.outer.strategy import CMA, Strategy, knobs
from neol.outer.topology import starting_topology

MOST_NUMBERS = 10_000  # of cma: 800 MB


class EsLoop:
    """OuterInit, OuterSelect (`ask`) and OuterUpdate (`tell`), where the topology is given and the weights are not."""

    def __init__(self, problem: Problem) -> None:
        self.seed, self.generation = problem.seed, 0
        self.inputs, self.outputs = problem.inputs, problem.outputs
        topology, _ = starting_topology(problem)
        self.space = search_space(topology, problem.config.evolution, problem.inputs, problem.outputs)
        self.knobs = knobs(problem.config.es, self.space.size)
        if self.knobs.kind == CMA and self.space.size > MOST_NUMBERS:
            raise NeolError(
                f"es = 'cma' is not allowed for {self.space.size:,} numbers: its covariance has the square of that; "
                f"it must be sep-cma, ars, openai or pgpe above {MOST_NUMBERS:,}."
            )
        self.strategy = Strategy(self.knobs, to_vectors(self.space, topology)[0], self.space.scale)
        self.hall = Hall()
        self._sample()

    def _sample(self) -> None:
        vectors = self.strategy.ask(self.knobs.samples, self.seed, self.generation, 0)
        self.genomes = to_genomes(self.space, vectors)

    def ask(self) -> Genomes:
        return self.genomes

    def _told(self, outcome: Outcome) -> Strategy:
        """The strategy after this generation: under lamarckian inheritance from what the lives made of the samples."""
        lived = self.genomes if outcome.adapted is None else self.genomes._replace(weight=outcome.adapted)
        return self.strategy.told(to_vectors(self.space, lived), finite_fitness(outcome.fitness))

    def tell(self, outcome: Outcome) -> None:
        self.hall.enter(float(np.median(outcome.fitness)), to_genomes(self.space, self.strategy.mean[None]))
        self.strategy = self._told(outcome)
        self.generation += 1
        self._sample()

    def metrics(self) -> dict[str, float]:
        return {**self.strategy.metrics(), "searched": self.space.size}

    def candidates(self, outcome: Outcome, count: int) -> Genomes:
        """The next mean and its averages, the means of the best generations, the fittest samples."""
        means = to_genomes(self.space, self._told(outcome).best_guesses())
        return take(concatenate([means, *self.hall.genomes, best(self.genomes, outcome.fitness, count)]), slice(count))

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"generation": np.array(self.generation)} | self.hall.state()
        return arrays | {f"strategy.{k}": v for k, v in self.strategy.state().items()}

    def declared(self) -> Declared:
        own = self.strategy.declared("strategy", self.space.size)
        return {"generation": Array("i8", low=0, high=2**53)} | Hall.declared(self.inputs, self.outputs) | own

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.generation = int(arrays["generation"])
        self.hall.restore(arrays)
        self.strategy.restore({k[9:]: v for k, v in arrays.items() if k.startswith("strategy.")})
        self._sample()
