"""Species: distance, speciation, stagnation, sharing and spawn (Algorithms 4 and 5 of the paper's appendix).

Every way of sharing works with negative fitness: each maps species to non-negative shares first.
Legend: P genomes, S species, C connection places.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from neol.config.sections import NeatConfig
from neol.jit import bare, kernel
from neol.neat.gene_kernels import add_differences
from neol.neat.genes import CONNECTION, NODE, coefficients, compared_genes
from neol.neat.genome import Genomes, empty_genomes, take

FURTHEST = 100.0  # how many times larger or smaller than its setting a threshold that follows a target may become


class Species(NamedTuple):
    """The species of one generation, by ascending id."""

    id: np.ndarray  # i4 (S,)
    member_of: np.ndarray  # i4 (P,) index into the S species
    representative: Genomes  # S genomes
    best: np.ndarray  # f8 (S,) best species fitness so far
    improved: np.ndarray  # i4 (S,) generation of the last improvement
    created: np.ndarray  # i4 (S,)
    next_id: int


def no_species() -> Species:
    nothing = np.zeros(0, np.int32)
    return Species(nothing, nothing, empty_genomes(0, 1, 1), np.zeros(0), nothing, nothing, 1)


_NODE_GENES, _CONN_GENES = compared_genes(NODE), compared_genes(CONNECTION)
_add_conn_differences, NO_CONN_DIFFERENCES = add_differences(_CONN_GENES), (0.0,) * len(_CONN_GENES)


def _node_part() -> Callable[..., float]:
    """(a, p, b, q, c3) -> sum over the compared genes of nodes of c3 mean|x - x'|; today's table has none."""
    if not _NODE_GENES:
        return kernel(_nothing)
    add, nothing, first = add_differences(_NODE_GENES), (0.0,) * len(_NODE_GENES), len(_CONN_GENES)

    @njit(nogil=True, error_model="numpy")
    def node_part(a, p, b, q, c3):
        i = j = matching = 0
        sums = nothing
        while i < a.n_nodes[p] and j < b.n_nodes[q]:
            x, y = a.node_id[p, i], b.node_id[q, j]
            if x == y:
                sums = add(a, (p, i), b, (q, j), sums)
                matching += 1
            i += x <= y
            j += y <= x
        total = 0.0
        for k in range(len(sums)):
            total += c3[first + k] * sums[k] / max(1, matching)
        return total

    return node_part


def _nothing(a, p, b, q, c3):
    return 0.0


_node_difference = _node_part()


@bare
def distance(a, p, b, q, c1, c3, matching_normalizer):
    """delta = c1 (E + D) / N + sum over the compared genes (the weight) of c3 mean|w - w'|, genome p of a and q of b.

    E + D: genes that only one of them has; N: genes of the larger genome, or the matching ones. c3: `coefficients`.
    """
    n, m = a.n_conns[p], b.n_conns[q]
    i = j = matching = 0
    sums = NO_CONN_DIFFERENCES
    while i < n and j < m:
        x, y = a.innovation[p, i], b.innovation[q, j]
        if x == y:
            sums = _add_conn_differences(a, (p, i), b, (q, j), sums)
            matching += 1
        i += x <= y
        j += y <= x
    disjoint = n + m - 2 * matching
    normalizer = max(1, matching if matching_normalizer else max(n, m))
    total = c1 * disjoint / normalizer
    for k in range(len(sums)):
        total += c3[k] * sums[k] / max(1, matching)
    return total + _node_difference(a, p, b, q, c3)


@bare
def _speciate(g, old, threshold, c1, c3, matching_normalizer, surplus, member_of, representative):
    """Fill member_of i4 (P,) and representative i8 (S',), -1 before (a genome of g per species); return S'.

    Each old species first takes the genome nearest to its old representative as the new one, but up to `surplus` of
    them end there: those whose new representative is under the threshold of an older species'.
    Every other genome then joins the species of the nearest representative under the threshold, or founds one.
    """
    size, count = len(g.n_nodes), len(old.n_nodes)
    member_of[:] = -1
    for s in range(count):
        best, nearest = np.inf, representative[s]  # -1: none yet
        for p in range(size):
            if member_of[p] >= 0:
                continue
            d = distance(g, p, old, s, c1, c3, matching_normalizer)
            if d < best:
                best, nearest = d, p
        if nearest >= 0 and surplus > 0:
            for older in range(s):
                q = representative[older]
                if q >= 0 and distance(g, nearest, g, q, c1, c3, matching_normalizer) < threshold:
                    surplus -= 1
                    nearest = -1
                    break
        representative[s] = nearest
        if nearest >= 0:
            member_of[nearest] = s
    for p in range(size):
        if member_of[p] >= 0:
            continue
        best, nearest = threshold, -1
        for s in range(count):
            if representative[s] >= 0:
                d = distance(g, p, g, representative[s], c1, c3, matching_normalizer)
                if d < best:
                    best, nearest = d, s
        if nearest < 0:
            nearest = count
            representative[count] = p
            count += 1
        member_of[p] = nearest
    return count


def speciate(config: NeatConfig, genomes: Genomes, old: Species, generation: int) -> Species:
    """Divide a population into species that continue the old ones, all of them or, beyond a target, those apart."""
    size, before = len(genomes.n_nodes), len(old.id)
    member_of = np.empty(size, np.int32)
    representative = np.full(size + before, -1, np.int64)  # as wide as loops count: one `distance` is compiled
    count = _speciate(
        genomes,
        old.representative,
        config.compatibility_threshold,
        config.compatibility_disjoint_coefficient,
        coefficients(config),
        config.compatibility_normalizer == "matching",
        max(0, before - config.target_species) if config.target_species else 0,
        member_of,
        representative,
    )
    new = count - before
    alive = np.flatnonzero(representative[:count] >= 0)  # an old species finds no genome only when S > P, or it ended
    renumber = np.full(count, -1, np.int32)
    renumber[alive] = np.arange(len(alive))
    ids = np.concatenate([old.id, np.arange(old.next_id, old.next_id + new, dtype=np.int32)]).astype(np.int32)
    now = np.full(new, generation, np.int32)
    return Species(
        ids[alive],
        renumber[member_of],
        take(genomes, representative[alive]),
        np.concatenate([old.best, np.full(new, -np.inf)])[alive],
        np.concatenate([old.improved, now])[alive],
        np.concatenate([old.created, now])[alive],
        old.next_id + new,
    )


def followed_threshold(config: NeatConfig, threshold: float, count: int) -> float:
    """The threshold for the next speciation: `threshold` gave S = `count` species where S* are wanted.

    It is multiplied by sqrt(S / S*), between sqrt(1/2) and sqrt(2), and stays between 1/100 and 100 times its setting.
    """
    if config.target_species == 0:
        return threshold
    step = math.sqrt(min(max(count / config.target_species, 0.5), 2.0))
    usual = config.compatibility_threshold
    return min(max(threshold * step, usual / FURTHEST), usual * FURTHEST)


_SPECIES_FITNESS: dict[str, Callable[..., Any]] = {"max": np.max, "mean": np.mean, "median": np.median, "min": np.min}


def update_stagnation(
    config: NeatConfig, species: Species, fitness: np.ndarray, generation: int
) -> tuple[Species, np.ndarray]:
    """Record each species' progress; return which species survive, b1 (S,)."""
    measure = _SPECIES_FITNESS[config.species_fitness_func]
    now = np.array([measure(fitness[species.member_of == s]) for s in range(len(species.id))])
    better = now > species.best
    species = species._replace(
        best=np.where(better, now, species.best),
        improved=np.where(better, generation, species.improved).astype(np.int32),
    )
    stagnant = generation - species.improved >= config.max_stagnation
    protected = np.argsort(-now, kind="stable")[: config.species_elitism]
    stagnant[protected] = False
    return species, ~stagnant


def shares(config: NeatConfig, species: Species, alive: np.ndarray, fitness: np.ndarray) -> np.ndarray:
    """Non-negative shares of the offspring, f8 (S,), zero for dead species.

    canonical (Stanley 2002): sum over members of f / |s|, that is the species mean, measured from the population's
    minimum. paper: F_adj(s) = mean(f) / |s|, likewise. normalized (neat-python): (mean(f) - min) / max(1, max - min).
    With selection = rank, f is a genome's rank among all living ones, 1 for the worst, measured from 0 (prettyNEAT).
    """
    members = alive[species.member_of]
    low, high = fitness[members].min(), fitness[members].max()
    out = np.zeros(len(species.id))
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        return out  # all alike: what is left is rounding
    if config.selection == "rank":
        fitness = ranks(fitness, members)
        low, high = 0.0, float(members.sum())
    for s in np.flatnonzero(alive):
        f = fitness[species.member_of == s]
        above = max(0.0, f.mean() - low)  # whatever the sign of the returns
        if config.sharing == "canonical":
            out[s] = above
        elif config.sharing == "paper":
            out[s] = above / len(f)
        else:
            out[s] = above / max(1.0, high - low)
    return out


def ranks(fitness: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Ranks f8 (P,) of the members b1 (P,), 1 for the least fit; equals share the mean of theirs; the others have 0."""
    out = np.zeros(len(fitness))
    _, place, count = np.unique(fitness[members], return_inverse=True, return_counts=True)
    out[members] = (np.cumsum(count) - (count - 1) / 2)[place]
    return out


def spawn_counts(config: NeatConfig, share: np.ndarray, alive: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Offspring per species, i8 (S,), which sum to P exactly; each living species gets its minimum while P allows it.

    normalized sharing moves each species only half way from its present size to its due, as neat-python does.
    """
    total = config.pop_size
    out = np.zeros(len(share), np.int64)
    living = np.flatnonzero(alive)
    least = max(1, min(max(config.min_species_size, config.elitism), total // len(living)))
    keep = living[:total]  # more species than places: the first (oldest) ones live
    weight = share[keep]
    due = weight / weight.sum() * total if weight.sum() > 0 else np.full(len(keep), total / len(keep))
    if config.sharing == "normalized":
        due = sizes[keep] + 0.5 * (np.maximum(due, least) - sizes[keep])
    out[keep] = apportion(due, total, least)
    return out


def apportion(due: np.ndarray, total: int, least: int) -> np.ndarray:
    """Whole numbers >= least that sum to `total`, near `due` scaled to it (largest remainders first)."""
    count = len(due)
    spare = total - least * count
    excess = np.maximum(due * (total / due.sum()) - least, 0.0)
    if excess.sum() <= 0:
        excess = np.ones(count)
    exact = excess * (spare / excess.sum())
    whole = np.floor(exact + 1e-9).astype(np.int64)
    left = spare - int(whole.sum())
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[:left]] += 1
    return whole + least
