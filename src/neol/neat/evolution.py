"""NEAT, the evolving outer loop: ask for a population, tell its fitness, get the next one.

Randomness is named by (seed, generation, child), so the state is arrays alone: saved and restored whole.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from neol import seeding
from neol.config.sections import NeatConfig
from neol.errors import NeolError
from neol.jit import kernel
from neol.neat.genome import Genomes, first_population, from_arrays, take, to_arrays
from neol.neat.innovation import Innovations
from neol.neat.species import (
    Species,
    followed_threshold,
    no_species,
    shares,
    spawn_counts,
    speciate,
    update_stagnation,
)
from neol.neat.variation import breed, population_of

LARGEST = 1e300  # fitness beyond it counts as it, and none at all (nan) as the worst


def finite_fitness(fitness: np.ndarray) -> np.ndarray:
    """Fitness f8 (P,) that can be ranked and averaged."""
    return np.nan_to_num(fitness, nan=-LARGEST).clip(-LARGEST, LARGEST)


class Neat:
    """OuterInit, OuterSelect (`ask`) and OuterUpdate (`tell`) of the paper's Algorithm 1."""

    def __init__(self, config: NeatConfig, inputs: int, outputs: int, seed: int, start: Genomes | None = None) -> None:
        self.config, self.inputs, self.outputs, self.seed, self.start = config, inputs, outputs, seed, start
        self.generation = 0
        self.genomes, self.innovations = self._first(seed)
        self.threshold = config.compatibility_threshold  # that the present species were told apart by
        self.species = self._speciate(no_species())

    def _speciate(self, old: Species) -> Species:
        now = dataclasses.replace(self.config, compatibility_threshold=self.threshold)
        return speciate(now, self.genomes, old, self.generation)

    def _first(self, seed: int) -> tuple[Genomes, Innovations]:
        """A population to begin with: random genomes, or the start with mutated copies of it."""
        if self.start is None:
            return first_population(self.config, self.inputs, self.outputs, seed)
        return population_of(self.config, self.start, self.inputs, self.outputs, seed)

    def ask(self) -> Genomes:
        """The population to evaluate."""
        return self.genomes

    def tell(self, fitness: np.ndarray, adapted: np.ndarray | None = None) -> None:
        """Make the next generation. fitness f8 (P,); adapted f8 (P, C): weights to write back (lamarckian)."""
        fitness = finite_fitness(fitness)
        genomes = self.genomes if adapted is None else self.genomes._replace(weight=adapted)
        species, alive = update_stagnation(self.config, self.species, fitness, self.generation)
        if not alive.any():
            self._restart()
            return
        share = shares(self.config, species, alive, fitness)
        sizes = np.bincount(species.member_of, minlength=len(species.id))
        spawn = spawn_counts(self.config, share, alive, sizes)
        first, second, elite = self._parents(species, spawn, fitness)
        self.genomes, self.innovations = breed(
            self.config,
            genomes,
            first,
            second,
            elite,
            self.innovations,
            self.inputs,
            self.outputs,
            self.seed,
            self.generation,
        )
        self.generation += 1
        self.threshold = followed_threshold(self.config, self.threshold, len(species.id))
        survivors = Species(
            species.id[alive],
            species.member_of,
            take(species.representative, alive),
            species.best[alive],
            species.improved[alive],
            species.created[alive],
            species.next_id,
        )
        self.species = self._speciate(survivors)

    def _parents(self, species: Species, spawn: np.ndarray, fitness: np.ndarray) -> tuple[np.ndarray, ...]:
        """For each child: its fitter parent, its other parent, and whether it is an elite copy."""
        size, by_rank = self.config.pop_size, self.config.selection == "rank"
        first, second = np.empty(size, np.int32), np.empty(size, np.int32)
        elite = np.zeros(size, np.bool_)
        child = 0
        for s in np.flatnonzero(spawn):
            members = np.flatnonzero(species.member_of == s).astype(np.int32)
            ranked = members[np.argsort(-fitness[members], kind="stable")]
            elites = min(self.config.elitism, len(ranked), int(spawn[s]))
            first[child : child + elites] = second[child : child + elites] = ranked[:elites]
            elite[child : child + elites] = True
            pool = ranked if by_rank else ranked[: max(2, math.ceil(self.config.survival_threshold * len(ranked)))]
            stop = child + int(spawn[s])
            named = self.seed, self.generation
            _choose(first, second, child + elites, stop, pool, by_rank, self.config.crossover_prob, *named)
            child = stop
        return first, second, elite

    def _restart(self) -> None:
        if not self.config.reset_on_extinction:
            raise NeolError(
                f"all species died out in generation {self.generation}; raise max_stagnation or species_elitism, "
                "or set reset_on_extinction = true."
            )
        self.generation += 1
        fresh_seed = int(seeding.stream(self.seed, seeding.INITIAL, self.generation, 0, 2)[0] >> np.uint64(2))
        self.genomes, self.innovations = self._first(fresh_seed)
        self.species = self._speciate(no_species())

    @property
    def groups(self) -> int:
        """Species."""
        return len(self.species.id)

    def merit(self, fitness: np.ndarray) -> np.ndarray:
        """What the champion's candidates are chosen by, f8 (P,)."""
        return fitness

    def state(self) -> dict[str, np.ndarray]:
        """Everything that `restore` needs, as named arrays."""
        arrays = {"generation": np.array(self.generation), "next_species": np.array(self.species.next_id)}
        arrays["threshold"] = np.array(self.threshold)
        arrays |= to_arrays(self.genomes, "genomes") | to_arrays(self.species.representative, "representative")
        arrays |= {f"innovations.{k}": v for k, v in self.innovations._asdict().items()}
        plain = ("id", "member_of", "best", "improved", "created")
        arrays |= {f"species.{k}": getattr(self.species, k) for k in plain}
        return {k: v.copy() for k, v in arrays.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from a `state`."""

        def part(name: str) -> dict[str, np.ndarray]:
            return {k.split(".", 1)[1]: v.copy() for k, v in arrays.items() if k.startswith(f"{name}.")}

        self.generation = int(arrays["generation"])
        self.threshold = float(arrays.get("threshold", self.config.compatibility_threshold))  # older ones: it was fixed
        self.genomes = from_arrays(arrays, "genomes")
        self.innovations = Innovations(**part("innovations"))
        representative = from_arrays(arrays, "representative")
        self.species = Species(representative=representative, next_id=int(arrays["next_species"]), **part("species"))


@kernel
def _place(rng, n, by_rank):
    """A place below n: all alike, or place r with probability (n - r) / (n (n + 1) / 2), linear ranking."""
    if not by_rank:
        return seeding.below(rng, n)
    a, b = seeding.below(rng, n + 1), seeding.below(rng, n)  # the smaller of two different places below n + 1
    return min(a, b + (b >= a))


@kernel
def _choose(first, second, start, stop, pool, by_rank, crossover_prob, seed, generation):
    """Draw the parents of children start .. stop from the pool, which is sorted from fit to less fit."""
    for child in range(start, stop):
        rng = seeding.stream(seed, seeding.REPRODUCE, generation, child, 1)
        a = b = _place(rng, len(pool), by_rank)
        if seeding.uniform(rng) < crossover_prob:
            b = _place(rng, len(pool), by_rank)
        first[child], second[child] = pool[min(a, b)], pool[max(a, b)]
