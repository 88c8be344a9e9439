"""A network of ours as a JAX function: the same topology, activations and order of evaluation, weights as parameters.

One pass of one network, as `step.forward` has it: y = f(bias + response * aggregate(w x)), node by node. Nodes that do
not wait for each other are computed together, as one product with a matrix: a level. A backward edge reads what its
source was one step ago (`before`), so that a recurrent network is a function of (observation, before) alone.

    forward = forward_of(wiring)
    nodes = forward(parameters, observation, before)        # (n,) from (I,) and (n,)
    rows = jax.vmap(forward, in_axes=(None, 0, 0))          # the same weights for B rows; (0, 0, 0): B lives

It can be differentiated, jitted and mapped. Where an activation is flat (clamped beyond +-1, relu below 0), and where a
pre-activation is beyond its limit, the gradient is 0.
Legend: I inputs, n nodes, E edges, O outputs, V = I + 2 n the width of a value row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from neol.config.sections import ACTIVATION_ID, ACTIVATIONS, AGGREGATION_ID
from neol.neat.genome import Genomes
from neol.network.activations import SELU_ALPHA, SELU_LAMBDA, SUM
from neol.network.phenotype import Phenotypes, gene_weights


class Parameters(NamedTuple):
    """The numbers of one network, in the order of its phenotype; arrays of NumPy or of JAX."""

    weight: Any  # (E,)
    bias: Any  # (n,)
    response: Any  # (n,)


class Wiring(NamedTuple):
    """What a network is besides its numbers."""

    inputs: int
    nodes: int
    source: np.ndarray  # i4 (E,) index into the value row [inputs | nodes | nodes one step ago]
    target: np.ndarray  # i4 (E,) node, in order of evaluation
    signal: np.ndarray  # b1 (E,) whether it carries a signal; else it comes from a modulatory node
    activation: np.ndarray  # i4 (n,) ids
    aggregation: np.ndarray  # i4 (n,) ids
    output: np.ndarray  # i4 (O,) nodes
    remembers: bool  # some edge reads one step ago
    limit: float  # of pre-activations


def wiring_of(phenotypes: Phenotypes, limit: float, p: int = 0) -> Wiring:
    """Of genome p; `limit`: preactivation_limit."""
    ph = phenotypes.part(p, p + 1)
    counts = np.diff(ph.edge_start)
    within = np.arange(len(ph.source)) - np.repeat(ph.edge_start[:-1], counts)
    return Wiring(
        inputs=int(ph.inputs),
        nodes=len(ph.node_id),
        source=ph.source.copy(),
        target=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        signal=within < np.repeat(ph.standard, counts),
        activation=ph.activation.astype(np.int32),
        aggregation=ph.aggregation.astype(np.int32),
        output=ph.output[0] - ph.inputs,
        remembers=bool(ph.remembers[0]),
        limit=float(limit),
    )


def parameters_of(phenotypes: Phenotypes, p: int = 0) -> Parameters:
    """The numbers of genome p, f8."""
    ph = phenotypes.part(p, p + 1)
    return Parameters(ph.weight.copy(), ph.bias.copy(), ph.response.copy())


def with_parameters(genome: Genomes, phenotype: Phenotypes, parameters: Parameters) -> Genomes:
    """The genome (P = 1) with these numbers; genes that no output depends on stay as they are."""
    bias, response = genome.bias.copy(), genome.response.copy()
    places = np.searchsorted(genome.node_id[0, : genome.n_nodes[0]], phenotype.node_id)
    bias[0, places], response[0, places] = parameters.bias, parameters.response
    weight = gene_weights(genome, phenotype, np.asarray(parameters.weight, np.float64))
    return genome._replace(weight=weight, bias=bias, response=response)


class _Group(NamedTuple):
    """Nodes of one level that are computed together: they sum, and have the same activation; or a single node."""

    nodes: np.ndarray  # i8 (K,)
    activation: int
    aggregation: int
    edges: np.ndarray  # i8 (e,) those that carry signals to them
    places: np.ndarray  # i8 (e,) of their sources in the row as it is by then
    columns: np.ndarray  # i8 (e,) their targets, counted in the group


def _levels(w: Wiring) -> list[list[int]]:
    """Nodes in groups, each after those whose values of this very step it reads."""
    level = np.zeros(w.nodes, int)
    now = w.signal & (w.source >= w.inputs) & (w.source < w.inputs + w.nodes)
    for k in range(w.nodes):
        sources = w.source[now & (w.target == k)] - w.inputs
        level[k] = 1 + level[sources].max() if len(sources) else 0
    return [np.flatnonzero(level == at).tolist() for at in range(level.max(initial=-1) + 1)]


def _groups(w: Wiring) -> tuple[list[list[_Group]], np.ndarray]:
    """The groups, level by level, and where each node i8 (n,) ends up in the row."""
    place = np.full(w.inputs + 2 * w.nodes, -1)  # of the value row's numbers in the row that forward builds up
    place[: w.inputs] = np.arange(w.inputs)
    width = w.inputs
    if w.remembers:
        place[w.inputs + w.nodes :] = width + np.arange(w.nodes)
        width += w.nodes
    out: list[list[_Group]] = []
    for level in _levels(w):
        kinds = {k: (int(w.aggregation[k]), int(w.activation[k]), -1 if w.aggregation[k] == SUM else k) for k in level}
        groups = []
        for (aggregation, activation, _), members in groupby(sorted(level, key=kinds.__getitem__), kinds.__getitem__):
            nodes = np.array(list(members))
            edges = np.flatnonzero(w.signal & np.isin(w.target, nodes))
            columns = np.searchsorted(nodes, w.target[edges])
            groups.append(_Group(nodes, activation, aggregation, edges, place[w.source[edges]], columns))
        for g in groups:
            place[w.inputs + g.nodes] = width + np.arange(len(g.nodes))
            width += len(g.nodes)
        out.append(groups)
    return out, place[w.inputs : w.inputs + w.nodes]


def forward_of(wiring: Wiring) -> Callable[[Parameters, Any, Any], Any]:
    """(parameters, observation (I,), nodes one step ago (n,)) -> nodes (n,), in order of evaluation."""
    import jax.numpy as jnp

    w = wiring
    levels, ends = _groups(w)

    def forward(parameters: Parameters, observation: Any, before: Any) -> Any:
        row = jnp.concatenate([observation, before]) if w.remembers else observation
        for groups in levels:
            row = jnp.concatenate([row, *(_values(g, parameters, row, w.limit) for g in groups)])
        return row[ends]

    return forward


def outputs_of(wiring: Wiring, nodes: Any, squash: bool) -> Any:
    """The network's outputs (..., O) from its nodes (..., n), as `step.act` has them."""
    import jax.numpy as jnp

    y = nodes[..., wiring.output]
    return jnp.tanh(y) if squash else y


def _values(g: _Group, parameters: Parameters, row: Any, limit: float) -> Any:
    """Activities (K,) of a group's nodes."""
    import jax.numpy as jnp

    weight = parameters.weight[g.edges]
    if g.aggregation == SUM:
        matrix = jnp.zeros((row.shape[0], len(g.nodes)), row.dtype).at[g.places, g.columns].add(weight)
        s = row @ matrix
    else:
        s = _aggregate(g.aggregation, weight * row[g.places]).reshape(1)
    s = parameters.bias[g.nodes] + parameters.response[g.nodes] * s
    s = jnp.where(jnp.isnan(s), 0.0, jnp.clip(s, -limit, limit))
    return activate(g.activation, s)


def _aggregate(kind: int, terms: Any) -> Any:
    """The aggregation with id `kind` of terms (e,), as activations.aggregate has it; not for `sum`."""
    import jax.numpy as jnp

    if kind == AGGREGATION_ID["product"]:
        return jnp.prod(terms)
    if not len(terms):
        return jnp.zeros((), terms.dtype)
    if kind == AGGREGATION_ID["maxabs"]:  # the first of the largest magnitude, with its sign
        return terms[jnp.argmax(jnp.abs(terms))]
    named: Sequence[tuple[str, Any]] = (("mean", jnp.mean), ("max", jnp.max), ("min", jnp.min), ("median", jnp.median))
    return {AGGREGATION_ID[name]: function for name, function in named}[kind](terms)


def activate(kind: int, z: Any) -> Any:
    """The activation with id `kind` at z, as activations.activate has it, with a finite gradient everywhere."""
    import jax.numpy as jnp

    name = ACTIVATIONS[kind]
    below = jnp.minimum(z, 0.0)  # so that the branch that is not taken never overflows
    functions: dict[str, Callable[[], Any]] = {
        "clamped": lambda: jnp.clip(z, -1.0, 1.0),
        "identity": lambda: z,
        "tanh": lambda: jnp.tanh(jnp.clip(2.5 * z, -60.0, 60.0)),
        "sigmoid": lambda: 1.0 / (1.0 + jnp.exp(-jnp.clip(5.0 * z, -60.0, 60.0))),
        "relu": lambda: jnp.maximum(z, 0.0),
        "sin": lambda: jnp.sin(jnp.clip(5.0 * z, -60.0, 60.0)),
        "gauss": lambda: jnp.exp(-5.0 * jnp.clip(z, -3.4, 3.4) ** 2),
        "abs": lambda: jnp.abs(z),
        "square": lambda: z * z,
        "cube": lambda: z * z * z,
        "softplus": lambda: 0.2 * jnp.log(1.0 + jnp.exp(jnp.clip(5.0 * z, -60.0, 60.0))),
        "elu": lambda: jnp.where(z > 0.0, z, jnp.exp(below) - 1.0),
        "lelu": lambda: jnp.where(z > 0.0, z, 0.005 * z),
        "selu": lambda: SELU_LAMBDA * jnp.where(z > 0.0, z, SELU_ALPHA * (jnp.exp(below) - 1.0)),
        "inv": lambda: jnp.where(z == 0.0, 0.0, 1.0 / jnp.where(z == 0.0, 1.0, z)),
        "log": lambda: jnp.log(jnp.maximum(z, 1e-7)),
        "exp": lambda: jnp.exp(jnp.clip(z, -60.0, 60.0)),
        "hat": lambda: jnp.maximum(0.0, 1.0 - jnp.abs(z)),
    }
    assert functions.keys() == ACTIVATION_ID.keys()
    return functions[name]()
