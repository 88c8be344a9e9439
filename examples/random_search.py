"""An outer loop of your own: random search, which draws every network afresh and remembers the best.

    python examples/random_search.py

Everything else (engines, workers, plasticity, checkpoints, resume, the champion, reports) works with it as it is.
"""

from __future__ import annotations

import numpy as np

import neol
from neol import seeding
from neol.neat.genome import Genomes, first_population, from_arrays, take, to_arrays
from neol.outer.base import Outcome, Problem, best


class RandomSearch:
    """P random networks per generation; the best so far is always among them."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.generation = problem, 0
        self.genomes = self._draw()

    def _draw(self) -> Genomes:  # named by (seed, generation), so that a resume draws the same
        p = self.problem
        named = int(seeding.stream(p.seed, seeding.USER, self.generation, 0, 0)[0] >> np.uint64(2))
        return first_population(p.config.evolution, p.inputs, p.outputs, named)[0]

    def ask(self) -> Genomes:
        return self.genomes

    def tell(self, outcome: Outcome) -> None:  # what was learned in life is not inherited here
        keeper = take(self.genomes, [int(np.argmax(outcome.fitness))])
        self.generation += 1
        self.genomes = self._draw()
        for new, old in zip(self.genomes, keeper, strict=True):
            new[0] = old[0]

    def metrics(self) -> dict[str, float]:
        return {"networks_tried": (self.generation + 1) * len(self.genomes.n_nodes)}

    def candidates(self, outcome: Outcome, count: int) -> Genomes:
        return best(self.genomes, outcome.fitness, count)

    def state(self) -> dict[str, np.ndarray]:
        return {"generation": np.array(self.generation), **to_arrays(self.genomes, "genomes")}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.generation = int(arrays["generation"])
        self.genomes = from_arrays(arrays, "genomes")


if __name__ == "__main__":
    run = neol.train("cartpole", outer=RandomSearch, generations=20, pop_size=50, rule="none")
    print(f"{run.summary.env_steps:,} steps, held out: {run.summary.champion_return_mean:.1f}")
