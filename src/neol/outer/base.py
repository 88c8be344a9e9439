"""What every outer loop does: ask for a population, tell how it fared; and what one is made for.

    loop = MyLoop(problem)                      OuterInit
    genomes = loop.ask()                        OuterSelect
    loop.metrics(), loop.candidates(outcome, n) about the population that was asked for
    loop.tell(outcome)                          OuterUpdate

A loop draws its randomness by name (seeding.py: seed, purpose, generation ...), so that its `state` is arrays alone
and a resume is exact. Legend: P genomes, N episodes per genome, C connection places of a genome.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from neol.arrays import Declared, like
from neol.config.schema import Config
from neol.errors import NeolError
from neol.neat.checked import Population
from neol.neat.genome import Genomes, take
from neol.network.normalization import Moments


class Problem(NamedTuple):
    """What an outer loop is made for."""

    inputs: int
    outputs: int
    seed: int
    config: Config  # each loop reads its own section
    fitness_range: tuple[float, float]  # what fitness is expected to lie in, on this task
    unbounded_below: bool  # fitness may fall below that range
    start: Genomes | None = None  # one genome to begin from (P = 1)

    @property
    def begun(self) -> bool:
        """Whether a search goes on from the weights of `start`, not from its topology alone."""
        return self.start is not None and self.config.es.topology != "start"


class Outcome(NamedTuple):
    """How a population fared."""

    fitness: np.ndarray  # f8 (P,) what selection goes by: mean over lives (return with floor + offset for every step)
    returns: np.ndarray  # f8 (P, N)
    steps: np.ndarray  # i8 (P, N)
    adapted: np.ndarray | None  # f8 (P, C) weights after the last life, where they are inherited (lamarckian)
    longest: int = 0  # steps that training's episodes were cut at; 0 = they were whole
    seen: Moments | None = None  # f8 (1,), (1, I) what observations were scaled by; n < 2: they were not


class Remembered(NamedTuple):
    """What a search would have deployed at an earlier time."""

    score: float
    genome: Genomes  # P = 1
    seen: Moments  # f8 (1,), (1, I) what its observations were scaled by; of fewer than two: as they are in the end


class OuterLoop(Protocol):
    """A search over genomes, one generation at a time."""

    @property
    def generation(self) -> int:
        """The number of generations told so far."""

    def ask(self) -> Genomes:
        """The population to evaluate next: the same however often it is asked for before the next `tell`."""

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
        """Go on from a `state`: arrays that were checked, by `declared` if the loop has it (see `declaration`)."""


LoopMaker = Callable[[Problem], OuterLoop]
METHODS = ("ask", "tell", "metrics", "candidates", "state", "restore")


def declaration(loop: OuterLoop, problem: Problem) -> Declared:
    """What a file must have as the loop's state: its own `declared()`, a mapping of names to `arrays.Array` or
    `neat.checked.Population`; of a loop without it, what is like its state now: names, dtypes, axes, and genomes."""
    own = getattr(loop, "declared", None)
    if callable(own):
        return own()
    state = loop.state()
    genomes = [name.removesuffix(".node_id") for name in state if name.endswith(".node_id")]
    rest = {k: v for k, v in state.items() if not k.startswith(tuple(f"{g}." for g in genomes))}
    return {**like(rest), **{g: Population(problem.inputs, problem.outputs) for g in genomes}}


def own_steps(loop: OuterLoop) -> int:
    """Env steps that a loop took itself (`own_env_steps`, if it has it) to make the population of the last `ask`,
    beside those of the rollouts that it was told of."""
    return int(getattr(loop, "own_env_steps", 0))


def remembered(loop: OuterLoop) -> list[Remembered]:
    """What a loop would have deployed earlier in the run, the best first (`remembered()`, if it has it)."""
    own = getattr(loop, "remembered", None)
    if not callable(own):
        return []
    found = own()
    fits = isinstance(found, list | tuple) and all(isinstance(r, Remembered) for r in found)
    if not fits or not all(isinstance(r.seen, Moments) and len(r.genome.n_nodes) == 1 for r in found):
        raise NeolError(
            "the outer loop's remembered() must return a list of Remembered, each with one genome and the Moments that "
            "`outcome.seen` had."
        )
    return list(found)


def best(genomes: Genomes, merit: np.ndarray, count: int) -> Genomes:
    """The `count` genomes of highest merit f8 (P,), in that order; of equals the first."""
    return take(genomes, np.argsort(-merit, kind="stable")[:count])


def population(found: object, method: str) -> Genomes:
    """What a loop returned as genomes, or a NeolError."""
    if not isinstance(found, Genomes) or not len(found.n_nodes):
        what = "no genome" if isinstance(found, Genomes) else f"a {type(found).__name__}"
        raise NeolError(f"the outer loop's {method}() returned {what}; it must return Genomes, at least one.")
    return found


def check_advanced(loop: OuterLoop, before: int) -> None:
    """A NeolError where `tell` did not count its generation: the run would never end."""
    if loop.generation != before + 1:
        raise NeolError(f"the outer loop's generation is {loop.generation!r} after tell(); it must be {before + 1}.")


RESERVED = (
    "generation", "env_steps", "best_fitness", "mean_fitness", "median_fitness", "best_return", "mean_return",
    "mean_steps", "best_nodes", "best_connections", "mean_nodes", "mean_connections", "mean_step_size",
    "mean_weight_change",
)  # fmt: skip  # columns of history.csv that are not the loop's


def reserved(name: str) -> bool:
    """Whether a column of history.csv is NEOL's own."""
    now_and_then = r"(best|mean)_return_trial_\d+|episodes_(played|agreement)"
    return name in RESERVED or re.fullmatch(now_and_then, name) is not None


def checked_metrics(found: object, first: Mapping[str, float] | None) -> dict[str, float]:
    """A loop's columns as int and float, or a NeolError; `first`: all columns of generation 0, which set the kinds."""
    if not isinstance(found, Mapping):
        raise NeolError(
            f"the outer loop's metrics() returned a {type(found).__name__}; it must return names and numbers."
        )
    own = [n for n in first if not reserved(n)] if first is not None else list(found)
    if sorted(map(str, found)) != sorted(map(str, own)):
        raise NeolError(
            f"the outer loop's metrics() has the names {', '.join(map(str, found))}; it had {', '.join(own)}."
        )
    out: dict[str, float] = {}
    for name in own:
        value = found[name]
        if not isinstance(name, str) or reserved(name) or not name.isprintable():
            raise NeolError(
                f"the outer loop's metrics() has the name {name!r}; it must be text, and none of NEOL's own."
            )
        if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
            raise NeolError(f"the outer loop's metric {name} = {value!r} is not allowed; it must be a number.")
        whole = isinstance(value, int | np.integer | np.bool_) if first is None else isinstance(first[name], int)
        if whole and (value != value or value in (np.inf, -np.inf) or int(value) != value or abs(int(value)) > 2**53):
            raise NeolError(
                f"the outer loop's metric {name} = {value!r} is not allowed; it was a whole number in generation 0, so "
                "it must be one below 2^53 (or give floats from the start)."
            )
        out[name] = int(value) if whole else float(value)
    return out


def check_loop(loop: object, name: str) -> None:
    """A NeolError where something that was passed as an outer loop is none."""
    missing = [m for m in METHODS if not callable(getattr(loop, m, None))]
    if missing or not hasattr(loop, "generation"):
        lacks = f"{missing[0]}()" if missing else "generation"
        raise NeolError(f"outer = {name} is not allowed; an outer loop must have {', '.join(METHODS)} and generation, "
                        f"and it has no {lacks}.")  # fmt: skip
