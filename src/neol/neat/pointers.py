"""What connections learn by: numbers of their own, of the nodes that they lead to, or of rules that they share.

A connection's gene `pointer` says which (genes.POINTERS). Phenotypes have the numbers along their edges; here genomes
from elsewhere are made to point to what a run evolves. Legend: C connections of the genome (P = 1), K rules.
"""

from __future__ import annotations

import numpy as np

from neol import seeding
from neol.config.schema import Evolution
from neol.neat.genes import COEFFICIENTS, CONNECTION, FIRST_RULE, GENES, OWN, POINTERS, TARGET, genes_of
from neol.neat.genome import Genomes, take

(POINTER,) = (g for g in GENES if g.name == "pointer")


def pointer_ids(config: Evolution) -> np.ndarray:
    """What connections may point to in a run, i8 (options,)."""
    return np.array([POINTERS.index(name) for name in config.pointer_options])


def drawn_pointers(count: int, config: Evolution, rng: np.ndarray) -> np.ndarray:
    """Pointers of so many connections, i1 (count,), each drawn from the stream `rng`."""
    options = pointer_ids(config)
    return np.array([options[seeding.below(rng, len(options))] for _ in range(count)], np.int8)


def first_stream(seed: int) -> np.ndarray:
    """The stream that the pointers of a run's first genome are drawn from, as `first_population` does."""
    return seeding.stream(seed, seeding.INITIAL, 0, 0, seeding.named("pointer"))


def pointed_at(genome: Genomes, name: str) -> np.ndarray:
    """A number of plasticity as each connection has it, whosever it is: f8 (C,)."""
    n, c = int(genome.n_nodes[0]), int(genome.n_conns[0])
    pointer = genome.pointer[0, :c]
    target = np.searchsorted(genome.node_id[0, :n], genome.target[0, :c])
    of_node, of_rule = getattr(genome, f"node_{name}")[0, target], getattr(genome, f"rule_{name}")[0]
    by_rule = of_rule[np.maximum(pointer - FIRST_RULE, 0)]
    own = getattr(genome, name)[0, :c]
    return np.where(pointer == OWN, own, np.where(pointer == TARGET, of_node, by_rule))


def strangers(genome: Genomes, config: Evolution) -> np.ndarray:
    """The connections that learn by something that this run does not evolve, i8: what they point to is none of its
    options. Numbers of their own that are all as usual, as in a network of another rule, are nothing to lose."""
    c = int(genome.n_conns[0])
    if config.pointer_options == ("own",):
        return np.empty(0, np.int64)  # what they learn by can always become their own
    own = [g for g in genes_of(CONNECTION) if g.name in COEFFICIENTS]
    usual = np.all([getattr(genome, g.name)[0, :c] == g.default for g in own], axis=0)
    pointer = genome.pointer[0, :c]
    return np.flatnonzero(~np.isin(pointer, pointer_ids(config)) & ~((pointer == OWN) & usual))


def adopted(genome: Genomes, config: Evolution, seed: int) -> Genomes:
    """A genome from elsewhere (without strangers), whose connections learn by what this run evolves; it computes the
    same, unless a rule that it does not know yet is drawn for them."""
    c, options = int(genome.n_conns[0]), pointer_ids(config)
    known = np.isin(genome.pointer[0, :c], options)
    if known.all():
        return genome
    out = take(genome, [0])
    if config.pointer_options == ("own",):
        for name in COEFFICIENTS:
            getattr(out, name)[0, :c] = pointed_at(genome, name)
    out.pointer[0, :c] = np.where(known, genome.pointer[0, :c], drawn_pointers(c, config, first_stream(seed)))
    return out
