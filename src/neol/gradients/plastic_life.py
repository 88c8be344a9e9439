"""A plastic network's life as a JAX function: `step.learn_generally` and `step.forward` with gradients.

Effective weights at step t are w_t = w + alpha H_t, where H is the Hebbian trace (Miconi, Stanley and Clune 2018):

    H <- (1 - eta) H + eta x y        <=>        w_t <- w_t + eta alpha x y - eta (w_t - w)

which is this engine's rule hebb with a rate alpha per connection, lr = weight_decay = eta, decay to birth and no gate;
gated by modulatory nodes it is backpropamine (Miconi et al. 2019). So what is learned here by gradient are the genes
that the kernels read: weight, bias, rate, the coefficients of abcd, decay.

Nodes that do not wait for each other and have one activation are a block. Their incoming connections are matrices: one
of the sources that most of them read, and one of those that each has for itself.

    part         K nodes x S sources, places in the value row [ I inputs | n nodes | n nodes one step ago ]: (S,) where
                 the nodes share them, else (K, S)

Functions are of one life; `jax.vmap` makes many of them. Legend: n nodes, E edges, V = I + 2 n, D numbers learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from neol.gradients.jax_network import Wiring, activate, wiring_of
from neol.neat.genes import CONNECTION, GENOME, genes_of
from neol.network.activations import SUM
from neol.network.phenotype import Phenotypes
from neol.network.plasticity import ABCD, ADVANTAGE, MODULATOR, NONE, RULE_ID, Plasticity
from neol.outer.search_space import SEARCHED, SearchSpace

_COEFFICIENTS = ("correlation", "presynaptic", "postsynaptic", "constant")  # A, B, C, D
_OJA, _BCM = RULE_ID["oja"], RULE_ID["bcm"]


class IncomingEdges(NamedTuple):
    """Some of the edges into a block's nodes."""

    sources: np.ndarray  # i8 (S,) or (K, S)
    edges: np.ndarray  # i8 (K, S) the edge there, E where there is none


class NodeBlock(NamedTuple):
    """Nodes that are computed together."""

    nodes: np.ndarray  # i8 (K,)
    activation: int
    parts: tuple[IncomingEdges, ...]
    gate: IncomingEdges  # from modulatory nodes


class Genome(NamedTuple):
    """The numbers of one network as blocks have them; zeros where there is no edge."""

    weight: tuple[Any, ...]  # of each part of each block (K, S)
    rate: tuple[Any, ...]
    coefficients: tuple[tuple[Any, ...], ...]  # of each part A, B, C, D; () where the rule has none
    gate: tuple[Any, ...]  # of each block (K, G)
    bias: Any  # (n,)
    response: Any  # (n,)
    decay: Any  # ()


class Alive(NamedTuple):
    """What one network changes while it lives: a slot of step.py."""

    value: Any  # (V,)
    weight: tuple[Any, ...]  # of each part of each block (K, S)
    trace: tuple[Any, ...]
    theta: Any  # (n,)
    reward_mean: Any  # ()


def blocks_of(w: Wiring) -> tuple[NodeBlock, ...]:
    """The blocks of a network, each after those whose values of this very step it reads."""
    level, now = np.zeros(w.nodes, int), w.signal & (w.source >= w.inputs) & (w.source < w.inputs + w.nodes)
    first = np.searchsorted(w.target, np.arange(w.nodes + 1))
    for k in range(w.nodes):
        own = slice(first[k], first[k + 1])
        sources = w.source[own][now[own]] - w.inputs
        level[k] = 1 + level[sources].max() if len(sources) else 0
    out = []
    for at, kind in sorted(set(zip(level.tolist(), w.activation.tolist(), strict=True))):
        nodes = np.flatnonzero((level == at) & (w.activation == kind))
        signals, gates = (np.flatnonzero(s & np.isin(w.target, nodes)) for s in (w.signal, ~w.signal))
        out.append(NodeBlock(nodes, kind, _parts(w, nodes, signals), _shared(w, nodes, gates)))
    return tuple(out)


def _parts(w: Wiring, nodes: np.ndarray, edges: np.ndarray) -> tuple[IncomingEdges, ...]:
    """These edges in one matrix where it has few holes; else those of sources that most nodes read, and the others."""
    sources, which, count = np.unique(w.source[edges], return_inverse=True, return_counts=True)
    if len(sources) * len(nodes) <= 1.5 * len(edges):
        return (_shared(w, nodes, edges),)
    common = 2 * count[which] > len(nodes)
    return (_shared(w, nodes, edges[common]), _own(w, nodes, edges[~common]))


def _shared(w: Wiring, nodes: np.ndarray, edges: np.ndarray) -> IncomingEdges:
    sources = np.unique(w.source[edges])
    matrix = np.full((len(nodes), len(sources)), len(w.source))
    matrix[np.searchsorted(nodes, w.target[edges]), np.searchsorted(sources, w.source[edges])] = edges
    return IncomingEdges(sources, matrix)


def _own(w: Wiring, nodes: np.ndarray, edges: np.ndarray) -> IncomingEdges:
    rows = [edges[w.target[edges] == k] for k in nodes]
    width = max((len(row) for row in rows), default=0)
    sources, matrix = np.zeros((len(nodes), width), int), np.full((len(nodes), width), len(w.source))
    for k, row in enumerate(rows):
        sources[k, : len(row)], matrix[k, : len(row)] = w.source[row], row
    return IncomingEdges(sources, matrix)


class PlasticLife:
    """One topology and one way to learn, as functions of the numbers that are learned."""

    def __init__(self, space: SearchSpace, phenotype: Phenotypes, plastic: Plasticity) -> None:
        self.space, self.phenotype, self.plastic = space, phenotype, plastic
        self.wiring = wiring_of(phenotype, plastic.preactivation_limit)
        assert (self.wiring.aggregation == SUM).all(), "checked by the loop"
        self.blocks = blocks_of(self.wiring)
        self.parts = tuple((b, part) for b in self.blocks for part in b.parts)
        self._places = {g.name: self._place(i) for i, g in enumerate(SEARCHED)}

    def _place(self, searched: int) -> np.ndarray | None:
        """Where a gene's values are in the vector, in the order of the phenotype; None where it is not learned."""
        mine = np.flatnonzero(self.space.gene == searched)
        if not len(mine):
            return None
        gene, ph = SEARCHED[searched], self.phenotype
        if gene.of == GENOME:
            return mine[:1]
        ids = self.space.topology.node_id[0, : self.space.topology.n_nodes[0]]
        wanted = ph.gene if gene.of == CONNECTION else np.searchsorted(ids, ph.node_id)
        return mine[np.searchsorted(self.space.place[mine], wanted)]

    def genome(self, vector: Any) -> Genome:
        """The numbers (D,) as blocks have them; genes that are not learned are the phenotype's."""
        import jax.numpy as jnp

        def column(name: str) -> Any:
            place = self._places.get(name)
            return jnp.asarray(getattr(self.phenotype, name), vector.dtype) if place is None else vector[place]

        edge = {g.name: jnp.append(column(g.name), 0.0) for g in genes_of(CONNECTION) if g.carried}
        own = _COEFFICIENTS if self.plastic.rule == ABCD else ()
        return Genome(
            tuple(edge["weight"][part.edges] for _, part in self.parts),
            tuple(edge["rate"][part.edges] for _, part in self.parts),
            tuple(tuple(edge[c][part.edges] for c in own) for _, part in self.parts),
            tuple(edge["weight"][b.gate.edges] for b in self.blocks),
            column("bias"),
            column("response"),
            column("decay")[0] if self.plastic.own_decay else jnp.asarray(self.plastic.decay, vector.dtype),
        )

    def born(self, g: Genome) -> Alive:
        """A life begins: the genome's weights, no activity, theta = 0, z = 0."""
        import jax.numpy as jnp

        n, dtype = self.wiring.nodes, g.bias.dtype
        trace = tuple(jnp.zeros_like(w) if self.plastic.trace_decay > 0.0 else jnp.zeros((), dtype) for w in g.weight)
        value = jnp.zeros(self.wiring.inputs + 2 * n, dtype)
        return Alive(value, g.weight, trace, jnp.zeros(n, dtype), jnp.zeros((), dtype))

    def forward(self, g: Genome, s: Alive, observation: Any) -> Alive:
        """One pass: y = f(bias + response * sum of w x), block by block."""
        import jax.numpy as jnp

        inputs, n, limit = self.wiring.inputs, self.wiring.nodes, self.wiring.limit
        value = jnp.concatenate([observation, jnp.zeros(n, observation.dtype), s.value[inputs : inputs + n]])
        weights = iter(s.weight)
        for b in self.blocks:
            total = sum(_weighted(next(weights), value[part.sources]) for part in b.parts)
            total = g.bias[b.nodes] + g.response[b.nodes] * total
            value = value.at[inputs + b.nodes].set(activate(b.activation, jnp.clip(total, -limit, limit)))
        return s._replace(value=value)

    def learn(self, g: Genome, s: Alive, reward: Any, born: Any = 1.0) -> Alive:
        """w <- clip(w + m rate e - decay (w - rest)), as `step.learn_generally`; with born = 0 nothing changes."""
        import jax.numpy as jnp

        p, inputs = self.plastic, self.wiring.inputs
        if p.rule == NONE:
            return s
        m, mean, theta = p.rate * born, s.reward_mean, s.theta
        if p.gate == ADVANTAGE:
            m, mean = m * (reward - mean), mean + born * p.mean_rate * (reward - mean)
        elif p.by_reward:
            m = m * reward
        limit = jnp.where(born > 0.0, p.weight_limit, jnp.inf)
        activity = s.value[inputs : inputs + self.wiring.nodes]
        if p.rule == _BCM:
            theta = theta + born * p.bcm_tau * (activity * activity - theta)
        gates = {id(b): m for b in self.blocks}
        if p.gate == MODULATOR:
            sums = {id(b): w @ s.value[b.gate.sources] for b, w in zip(self.blocks, g.gate, strict=True)}
            gates = {b: m * jnp.tanh(0.5 * total)[:, None] for b, total in sums.items()}
        weights, traces = [], []
        for i, (b, part) in enumerate(self.parts):
            x, y, w = s.value[part.sources], activity[b.nodes][:, None], s.weight[i]
            z = x * y
            if p.trace_decay > 0.0:
                z = z + p.trace_decay * s.trace[i]
            change = self._change(x, y, w, theta[b.nodes][:, None], z, g.coefficients[i])
            moved = w + gates[id(b)] * g.rate[i] * change - born * g.decay * (w - p.keeps_birth * g.weight[i])
            weights.append(jnp.clip(moved, -limit, limit))
            traces.append(z if p.trace_decay > 0.0 else s.trace[i])
        return Alive(s.value, tuple(weights), tuple(traces), theta, mean)

    def _change(self, x: Any, y: Any, w: Any, theta: Any, z: Any, coefficients: tuple[Any, ...]) -> Any:
        """The local trace e (K, S) of the rule: plasticity.py."""
        rule = self.plastic.rule
        if rule == ABCD:
            a, b, c, d = coefficients
            return a * z + b * x + c * y + d
        if rule == _OJA:
            e = y * (x - y * w)
            return e + z if self.plastic.trace_decay > 0.0 else e
        return y * (y - theta) * x if rule == _BCM else z

    def step(self, g: Genome, s: Alive, observation: Any, reward: Any, born: Any) -> tuple[Alive, Any]:
        """`step.step`: learn from the last action's reward (not before the first pass), then the outputs (O,)."""
        import jax.numpy as jnp

        if not self.plastic.next_step:
            s = self.learn(g, s, reward, born)
        s = self.forward(g, s, observation)
        if self.plastic.next_step:
            s = self.learn(g, s, reward)
        y = self.activities(s)
        return s, jnp.tanh(y) if self.plastic.squash else y

    def activities(self, s: Alive) -> Any:
        """Of the output nodes (O,), as the last pass left them."""
        return s.value[self.wiring.inputs + self.wiring.output]

    def felt(self, s: Alive, activities: Any) -> Alive:
        """The life as if its output nodes had had these activities (O,)."""
        return s._replace(value=s.value.at[self.wiring.inputs + self.wiring.output].set(activities))

    def outputs(self, vector: Any, observations: Any, rewards: Any) -> Any:
        """Outputs (T, O) of a life with these observations (T, I) and, before each of them, rewards (T,)."""
        g = self.genome(vector)
        return _scan(lambda s, seen: self.step(g, s, *seen), self.born(g), observations, rewards)


def _weighted(weight: Any, x: Any) -> Any:
    """The sums (K,) of weights (K, S) times what their sources have, (S,) or (K, S)."""
    return weight @ x if x.ndim == 1 else (weight * x).sum(axis=-1)


def _scan(body: Callable[..., Any], start: Alive, observations: Any, rewards: Any) -> Any:
    import jax
    import jax.numpy as jnp

    born = (jnp.arange(len(observations)) > 0).astype(observations.dtype)
    return jax.lax.scan(body, start, (observations, rewards, born))[1]
