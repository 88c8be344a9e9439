"""Networks for differentiable plasticity: layers, with a memory of the step before and with modulatory nodes.

recurrent     a layer that remembers has context units (Elman 1990): identity nodes that hold its activities of the
              step before, and lead to all of it; the hidden layers, or the outputs where there are none
associative   every output has one input of its own, clamped by a large weight, and reads all outputs one step late
modulators    hidden nodes that see all inputs (and context units) and gate what all other nodes learn
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from neol.config.checks import ASSOCIATIVE, hidden_sizes
from neol.config.sections import ACTIVATION_ID, AGGREGATION_ID
from neol.errors import NeolError
from neol.gradients.draws import normals
from neol.neat.genes import CONNECTION, GENES, MODULATORY, genes_of
from neol.neat.genome import Genomes, empty_genomes, numbered, take
from neol.outer.base import Problem

CLAMP = 20.0  # weight of an associative network's inputs: stronger than all that its nodes tell each other
MOST_CONNECTIONS = 200_000
_PLASTIC = ("rate", "correlation", "presynaptic", "postsynaptic", "constant")
Pairs = list[tuple[int, int]]


def plastic_topology(problem: Problem) -> Genomes:
    """The network (P = 1) that the settings name, with its first weights and coefficients."""
    named, start = problem.config.es.topology, problem.start
    if start is None:
        return with_first_numbers(_made(problem), problem)
    genome = numbered(start, problem.outputs)[0]
    return with_first_numbers(genome, problem) if named == "start" else _with_first_plasticity(genome, problem)


def _made(problem: Problem) -> Genomes:
    """The layers that the settings name, all weights 1."""
    config, inputs, outputs = problem.config, problem.inputs, problem.outputs
    named, recurrent = config.es.topology, not config.neat.feed_forward
    seen, ends, sizes = list(range(-1, -inputs - 1, -1)), list(range(outputs)), hidden_sizes(named) or ()
    layers, new = [seen], outputs
    for size in sizes:
        layers.append(list(range(new, new := new + size)))
    layers.append(ends)
    if named == ASSOCIATIVE:
        if inputs != outputs:
            raise NeolError(
                f"topology = '{ASSOCIATIVE}' is not allowed; the task has {inputs} inputs and {outputs} outputs, and "
                "must have as many of both."
            )
        pairs: Pairs = list(zip(seen, ends, strict=True))
    else:
        pairs = [(s, t) for a, b in pairwise(layers) for s in a for t in b]
    context: list[int] = []
    if recurrent or named == ASSOCIATIVE:
        for layer in layers[1:-1] or layers[-1:]:
            held = list(range(new, new := new + len(layer)))
            pairs += [*zip(layer, held, strict=True), *((h, t) for h in held for t in layer)]
            context += held
    modulators: list[int] = []
    if config.plasticity.gate == "modulator" and config.plasticity.rule != "none":
        modulators = list(range(new, new := new + config.gradient.modulators))
        gated = [t for layer in layers[1:] for t in layer]
        pairs += [(s, m) for m in modulators for s in (*seen, *context)] + [(m, t) for m in modulators for t in gated]
    if len(pairs) > MOST_CONNECTIONS:
        raise NeolError(
            f"topology = '{named}' is not allowed; it has {len(pairs):,} connections, and must have at most "
            f"{MOST_CONNECTIONS:,}."
        )
    return _genome(problem, new, pairs, context, modulators)


def _genome(problem: Problem, nodes: int, pairs: Pairs, context: list[int], modulators: list[int]) -> Genomes:
    """A genome of these nodes and connections, all weights 1."""
    neat = problem.config.neat
    usual = neat.activation_options[0] if neat.activation_default == "random" else neat.activation_default
    g = empty_genomes(1, nodes, max(1, len(pairs)))
    for gene in GENES:
        getattr(g, gene.name)[...] = gene.default
    g.n_nodes[0], g.n_conns[0] = nodes, len(pairs)
    g.node_id[0] = np.arange(nodes)
    g.bias[0], g.response[0] = 0.0, neat.response_init_mean
    g.activation[0], g.aggregation[0] = ACTIVATION_ID[usual], AGGREGATION_ID["sum"]
    g.activation[0, context], g.response[0, context] = ACTIVATION_ID["identity"], 1.0
    g.role[0] = 0
    g.role[0, modulators] = MODULATORY
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    g.innovation[0], g.source[0], g.target[0] = np.arange(len(pairs)), ends[:, 0], ends[:, 1]
    g.weight[0], g.enabled[0] = 1.0, True
    return g


def with_first_numbers(genome: Genomes, problem: Problem) -> Genomes:
    """Biases 0; weights N(0, (spread / sqrt(fan-in))^2), those to and from modulatory nodes N(0, 1 / fan-in).

    What holds a layer's last step keeps 1, and the inputs of an associative network are clamped.
    """
    out = take(genome, [0])
    c = int(out.n_conns[0])
    ids = out.node_id[0, : out.n_nodes[0]]
    identity = ids[out.activation[0, : len(ids)] == ACTIVATION_ID["identity"]]
    held = np.isin(out.target[0, :c], identity) & (out.source[0, :c] >= 0)
    out.bias[0] = 0.0
    gates = ids[out.role[0, : len(ids)] == MODULATORY]
    wide = np.isin(out.target[0, :c], gates) | np.isin(out.source[0, :c], gates)
    spread = np.where(wide, 1.0, problem.config.gradient.gradient_spread)
    out.weight[0, :c] = np.where(held, 1.0, spread * _drawn(out, problem, 0))
    if problem.config.es.topology == ASSOCIATIVE:
        out.weight[0, :c] = np.where(out.source[0, :c] < 0, CLAMP, out.weight[0, :c])
    return _with_first_plasticity(out, problem)


def _with_first_plasticity(genome: Genomes, problem: Problem) -> Genomes:
    """Coefficients that are learned and have no value yet: as weights, but rates of 1 beside the coefficients of abcd;
    and the first decay."""
    out, config = take(genome, [0]), problem.config.evolution
    c = int(out.n_conns[0])
    for gene in genes_of(CONNECTION):
        column = getattr(out, gene.name)
        if gene.name in _PLASTIC and gene.on(config) and (column[0, :c] == gene.default).all():
            by_abcd = gene.name == "rate" and "abcd" in config.evolved
            drawn = problem.config.gradient.gradient_spread * _drawn(out, problem, 1 + _PLASTIC.index(gene.name))
            column[0, :c] = 1.0 if by_abcd else drawn
    out.decay[0] = problem.config.plasticity.weight_decay if "decay" in config.evolved else 0.0
    return out


def _drawn(g: Genomes, problem: Problem, stream: int) -> np.ndarray:
    """Normal deviates f8 (C,) of variance 1 / fan-in."""
    targets = g.target[0, : g.n_conns[0]]
    _, node, count = np.unique(targets, return_inverse=True, return_counts=True)
    return normals(problem.seed, stream, len(targets)) / np.sqrt(count[node])


def check_genome(genome: Genomes) -> None:
    """A NeolError where a network that is begun from has something without a gradient here."""
    used = genome.aggregation[0, : genome.n_nodes[0]]
    if (used != AGGREGATION_ID["sum"]).any():
        raise NeolError("outer = 'gradient' is not allowed with this network; all its nodes must have aggregation sum.")
