"""A finite pool of M topologies, and Hedge over it as an outer loop that evolves nothing: it selects."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from neol import seeding
from neol.arrays import Array, Declared
from neol.config.sections import NeatConfig
from neol.errors import NeolError
from neol.neat.checked import Population
from neol.neat.genome import Genomes, first_population, from_arrays, to_arrays
from neol.neat.variation import breed
from neol.outer.base import Outcome, Problem, best
from neol.outer.selectors import LARGEST_POOL, count, hedge

MOST_RATES = 1_000_000  # generations after which the learning rate falls no more
GROWTH = 12  # rounds of structural mutation that a random topology has behind it
# Additions and deletions in balance, so that the pool holds smaller and larger networks than the first population.
STRUCTURE: dict[str, Any] = {
    "conn_add_prob": 0.3, "conn_delete_prob": 0.3, "node_add_prob": 0.15, "node_delete_prob": 0.05,
    "enabled_mutate_rate": 0.0, "single_structural_mutation": False,
}  # fmt: skip


def random_pool(config: NeatConfig, inputs: int, outputs: int, size: int, seed: int) -> Genomes:
    """M random topologies: the first population of NEAT, each of it then mutated on its own."""
    grow = dataclasses.replace(config, pop_size=count("pool", size, LARGEST_POOL), **STRUCTURE)
    named = int(seeding.stream(seed, seeding.POOL, 0, 0, 0)[0] >> np.uint64(2))
    genomes, innovations = first_population(grow, inputs, outputs, named)
    own, elite = np.arange(size, dtype=np.int32), np.zeros(size, np.bool_)
    for g in range(GROWTH):
        genomes, innovations = breed(grow, genomes, own, own, elite, innovations, inputs, outputs, named, g)
    return genomes


def normalised_losses(returns: np.ndarray, low: float, high: float, when: str, floor: bool = False) -> np.ndarray:
    """Loss of Algorithm 1: 1 - (return - low) / (high - low); outside [0, 1] a NeolError names the range observed.

    With `floor` (a task whose returns have no least value) returns below `low` count as `low`.
    """
    losses = 1.0 - ((np.maximum(returns, low) if floor else returns) - low) / (high - low)
    if not (losses.min() >= 0.0 and losses.max() <= 1.0):
        raise NeolError(
            f"losses must lie in [0, 1], but the returns of {when} range from {returns.min():.6g} to "
            f"{returns.max():.6g}, so that losses normalised with [{low:g}, {high:g}] range from {losses.min():.4g} to "
            f"{losses.max():.4g}; set return_low and return_high."
        )
    return losses


class HedgePool:
    """OuterInit, OuterSelect (`ask`) and OuterUpdate (`tell`) of Algorithm 1 with Hedge: full information, any T."""

    def __init__(self, problem: Problem) -> None:
        own, run = problem.config.hedge, problem.config.run
        if problem.start is not None:
            raise NeolError(f"start = '{run.start}' is not allowed; outer = hedge selects from random topologies.")
        self.inputs, self.outputs = problem.inputs, problem.outputs
        self.low, self.high, self.floor = own.return_low, own.return_high, False
        if self.low == self.high:  # the task's own
            (self.low, self.high), self.floor = problem.fitness_range, problem.unbounded_below
        self.genomes = random_pool(problem.config.evolution, problem.inputs, problem.outputs, own.pool, problem.seed)
        self.selector = hedge(own.pool, min(run.generations, MOST_RATES), problem.seed, "decreasing")

    @property
    def generation(self) -> int:
        return self.selector.round

    def metrics(self) -> dict[str, float]:
        """Topologies that still have a say: the exponential of the entropy of p, rounded up."""
        p = self.selector.p[self.selector.p > 0.0]
        return {"effective_topologies": int(np.ceil(np.exp(-(p * np.log(p)).sum()) - 1e-9))}

    def candidates(self, outcome: Outcome, count: int) -> Genomes:
        """Those with the least losses of all generations, as p_{t+1} ranks them."""
        return best(self.genomes, -(self.selector.total + self._losses(outcome.fitness)), count)

    def _losses(self, fitness: np.ndarray) -> np.ndarray:
        return normalised_losses(fitness, self.low, self.high, f"generation {self.generation}", self.floor)

    def ask(self) -> Genomes:
        """The pool: full information evaluates all of it."""
        return self.genomes

    def tell(self, outcome: Outcome) -> None:
        """Reweight; each topology carries its adapted weights on (lamarckian)."""
        self.selector.tell(self._losses(outcome.fitness))
        if outcome.adapted is not None:
            self.genomes = self.genomes._replace(weight=outcome.adapted)

    def state(self) -> dict[str, np.ndarray]:
        """Everything that `restore` needs, as named arrays."""
        arrays = {k: v.copy() for k, v in to_arrays(self.genomes, "genomes").items()}
        return arrays | {f"selector.{k}": v for k, v in self.selector.state().items()}

    def declared(self) -> Declared:
        pool = self.selector.pool
        return {
            "genomes": Population(self.inputs, self.outputs, pool),
            "selector.round": Array("i8", low=0),
            "selector.total": Array("f8", (pool,), low=0.0, high=1e300),
            "selector.p": Array("f8", (pool,), low=0.0, high=1.0),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from a `state`."""

        def part(name: str) -> dict[str, np.ndarray]:
            return {k.split(".", 1)[1]: v.copy() for k, v in arrays.items() if k.startswith(f"{name}.")}

        self.genomes = from_arrays(arrays, "genomes")
        self.selector.restore(part("selector"))
