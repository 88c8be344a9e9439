"""What every outer loop does: ask for a population, tell how it fared; and what one is made for.

    loop = MyLoop(problem)                      OuterInit
    genomes = loop.ask()                        OuterSelect
    loop.metrics(), loop.candidates(outcome, n) about the population that was asked for
    loop.tell(outcome)                          OuterUpdate

A loop draws its randomness by name (seeding.py: seed, purpose, generation ...), so that its `state` is arrays alone
and a resume is exact. Legend: P genomes, N episodes per genome, C connection places of a genome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from neol.config.schema import Config
from neol.errors import NeolError
from neol.neat.genome import Genomes, take


class Problem(NamedTuple):
    """What an outer loop is made for."""

    inputs: int
    outputs: int
    seed: int
    config: Config  # each loop reads its own section
    fitness_range: tuple[float, float]  # what fitness is expected to lie in, on this task
    unbounded_below: bool  # fitness may fall below that range


class Outcome(NamedTuple):
    """How a population fared."""

    fitness: np.ndarray  # f8 (P,) what selection goes by: mean over episodes of (return + offset for every step)
    returns: np.ndarray  # f8 (P, N)
    steps: np.ndarray  # i8 (P, N)
    adapted: np.ndarray | None  # f8 (P, C) weights after the last life, where they are inherited (lamarckian)


class OuterLoop(Protocol):
    """A search over genomes, one generation at a time."""

    @property
    def generation(self) -> int:
        """The number of generations told so far."""

    def ask(self) -> Genomes:
        """The population to evaluate next."""

    def tell(self, outcome: Outcome) -> None:
        """Take in how the population of the last `ask` fared, and make the next one."""

    def metrics(self) -> Mapping[str, float]:
        """Columns of history.csv for the population of the last `ask`; the same names in every generation.

        Whole numbers stay whole where they are given as int.
        """

    def candidates(self, outcome: Outcome, count: int) -> Genomes:
        """Of the population of the last `ask`: at most `count` that may be deployed, the most promising first."""

    def state(self) -> dict[str, np.ndarray]:
        """Everything that `restore` needs, as named arrays."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from a `state`."""


LoopMaker = Callable[[Problem], OuterLoop]
METHODS = ("ask", "tell", "metrics", "candidates", "state", "restore")


def best(genomes: Genomes, merit: np.ndarray, count: int) -> Genomes:
    """The `count` genomes of highest merit f8 (P,), in that order; of equals the first."""
    return take(genomes, np.argsort(-merit, kind="stable")[:count])


def check_loop(loop: object, name: str) -> None:
    """A NeolError where something that was passed as an outer loop is none."""
    missing = [m for m in METHODS if not callable(getattr(loop, m, None))]
    if missing or not hasattr(loop, "generation"):
        lacks = f"{missing[0]}()" if missing else "generation"
        raise NeolError(f"outer = {name} is not allowed; an outer loop must have {', '.join(METHODS)} and generation, "
                        f"and it has no {lacks}.")  # fmt: skip
