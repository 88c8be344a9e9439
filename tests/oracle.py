"""The slow reference: one network and its plasticity in plain Python, one obvious line per equation of docs/method.md.

Written from neat-python's definitions and the method's text, not from our kernels; nothing of `neol` is imported.
`settings` is anything with the fields of config.PlasticityConfig.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Pair = tuple[int, int]  # (from id, to id)


@dataclass
class Numbers:
    """What a node, or a rule that connections share, has connections learn by."""

    rate: float = 1.0
    abcd: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    etas: tuple[float, float] = (1.0, 1.0)


@dataclass
class Node:
    bias: float = 0.0
    response: float = 1.0
    activation: str = "identity"
    aggregation: str = "sum"
    role: str = "standard"
    numbers: Numbers = field(default_factory=Numbers)


@dataclass
class Edge:
    weight: float
    enabled: bool = True
    rate: float = 1.0
    abcd: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    etas: tuple[float, float] = (1.0, 1.0)
    rule: str = "own"  # whose numbers it learns by: own, node (its target's), or the number of a rule from 1 on


@dataclass
class Net:
    """A genome. The order of `edges` is that of their innovation numbers."""

    inputs: list[int]
    outputs: list[int]
    nodes: dict[int, Node]  # outputs and hidden
    edges: dict[Pair, Edge]
    rules: list[Numbers] = field(default_factory=list)

    def learns_by(self, pair: Pair) -> Edge | Numbers:
        """Whoever has the rate, A to D and etas of a connection."""
        edge = self.edges[pair]
        if edge.rule == "own":
            return edge
        return self.nodes[pair[1]].numbers if edge.rule == "node" else self.rules[int(edge.rule) - 1]


# -- activations, by neat-python's documentation ------------------------------------------------------------------


def between(low: float, z: float, high: float) -> float:
    return low if z < low else high if z > high else z


def _selu(z: float) -> float:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return scale * z if z > 0.0 else scale * alpha * (math.exp(z) - 1.0)


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "abs": lambda z: abs(z),
    "clamped": lambda z: between(-1.0, z, 1.0),
    "cube": lambda z: z * z * z,
    "elu": lambda z: z if z > 0.0 else math.exp(z) - 1.0,
    "exp": lambda z: math.exp(between(-60.0, z, 60.0)),
    "gauss": lambda z: math.exp(-5.0 * between(-3.4, z, 3.4) ** 2),
    "hat": lambda z: max(0.0, 1.0 - abs(z)),
    "identity": lambda z: z,
    "inv": lambda z: 0.0 if z == 0.0 else 1.0 / z,
    "lelu": lambda z: z if z > 0.0 else 0.005 * z,
    "log": lambda z: math.log(max(1e-7, z)),
    "relu": lambda z: z if z > 0.0 else 0.0,
    "selu": _selu,
    "sigmoid": lambda z: 1.0 / (1.0 + math.exp(-between(-60.0, 5.0 * z, 60.0))),
    "sin": lambda z: math.sin(between(-60.0, 5.0 * z, 60.0)),
    "softplus": lambda z: 0.2 * math.log(1.0 + math.exp(between(-60.0, 5.0 * z, 60.0))),
    "square": lambda z: z * z,
    "tanh": lambda z: math.tanh(between(-60.0, 2.5 * z, 60.0)),
}


def _median(terms: list[float]) -> float:
    ranked, half = sorted(terms), len(terms) // 2
    return ranked[half] if len(ranked) % 2 else (ranked[half - 1] + ranked[half]) / 2.0


# Of no terms at all the product is 1, everything else 0.
AGGREGATIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": lambda terms: float(sum(terms)),
    "product": lambda terms: math.prod(terms, start=1.0),
    "mean": lambda terms: sum(terms) / len(terms) if terms else 0.0,
    "max": lambda terms: max(terms) if terms else 0.0,
    "min": lambda terms: min(terms) if terms else 0.0,
    "maxabs": lambda terms: max(terms, key=abs) if terms else 0.0,
    "median": lambda terms: _median(terms) if terms else 0.0,
}

# -- plasticity: the local trace e(x, y, w, theta, z, lambda) of each rule ----------------------------------------
# z is the eligibility trace after its update z <- lambda z + x y.

Rule = Callable[[float, float, float, float, float, float], float]

RULES: dict[str, Rule | None] = {
    "none": None,  # w stays
    "hebb": lambda x, y, w, theta, z, decay: z if decay > 0.0 else x * y,
    "oja": lambda x, y, w, theta, z, decay: y * (x - y * w) + (z if decay > 0.0 else 0.0),
    "bcm": lambda x, y, w, theta, z, decay: y * (y - theta) * x,
    "abcd": None,  # see generalised_hebb
    "adaptive": None,  # see adaptive_synapse
}


def generalised_hebb(by: Edge | Numbers, x: float, y: float, z: float) -> float:
    """e = A x y + B x + C y + D (Soltoggio 2008; Najarro and Risi 2020); a trace stands for x y."""
    a, b, c, d = by.abcd
    return a * z + b * x + c * y + d


def adaptive_synapse(by: Edge | Numbers, x: float, y: float, w: float, largest: float) -> float:
    """Stanley, Bryant and Miikkulainen (2003): the size of an excitatory connection grows by
    eta1 (W - |w|) x y + eta2 W x (y - 1), that of an inhibitory one by the same with 1 - y for y."""
    eta1, eta2 = by.etas
    if w >= 0.0:
        return eta1 * (largest - w) * x * y + eta2 * largest * x * (y - 1.0)
    low = 1.0 - y
    return -(eta1 * (largest - abs(w)) * x * low + eta2 * largest * x * (low - 1.0))


# -- structure ----------------------------------------------------------------------------------------------------


def required_nodes(net: Net) -> set[int]:
    """The outputs, and whatever feeds a required node over an enabled connection."""
    required, frontier = set(net.outputs), list(net.outputs)
    while frontier:
        target = frontier.pop()
        feeding = {a for (a, b), edge in net.edges.items() if b == target and edge.enabled and a in net.nodes}
        frontier += feeding - required
        required |= feeding
    return required


def expressed_edges(net: Net) -> list[Pair]:
    """Enabled connections into required nodes, by innovation."""
    required = required_nodes(net)
    return [pair for pair, edge in net.edges.items() if edge.enabled and pair[1] in required]


def evaluation_order(net: Net) -> list[int]:
    """Required nodes, each after all its sources; where a cycle leaves none ready, the lowest hidden id goes first,
    and only when no hidden node is left the first output."""
    sources = {
        node: {a for a, b in expressed_edges(net) if b == node and a in net.nodes} for node in required_nodes(net)
    }
    order: list[int] = []
    while left := [node for node in sources if node not in order]:
        ready = sorted(node for node in left if sources[node] <= set(order))
        hidden = sorted(node for node in left if node not in net.outputs)
        order += ready or hidden[:1] or [next(o for o in net.outputs if o in left)]
    return order


def backward_edges(net: Net) -> set[Pair]:
    """Edges whose source is evaluated at or after their target: the target reads last step's value."""
    place = {node: i for i, node in enumerate(evaluation_order(net))}
    return {(a, b) for a, b in expressed_edges(net) if a in place and place[a] >= place[b]}


# -- one life -----------------------------------------------------------------------------------------------------


class Life:
    """One episode of one network: `forward`, then `learn` with the reward that the timing gives it."""

    def __init__(self, net: Net, settings: Any, synchronous: bool = False) -> None:
        self.net, self.settings = net, settings
        self.order, self.edges = evaluation_order(net), expressed_edges(net)
        self.late = {e for e in self.edges if e[0] in net.nodes} if synchronous else backward_edges(net)
        self.w = {e: net.edges[e].weight for e in self.edges}
        self.x = dict.fromkeys(self.edges, 0.0)  # what each edge carried at the last forward pass
        self.z = dict.fromkeys(self.edges, 0.0)
        self.y = dict.fromkeys(self.order, 0.0)
        self.theta = dict.fromkeys(self.order, 0.0)
        self.mean_reward = 0.0

    def forward(self, observation: Sequence[float]) -> list[float]:
        s, limit = self.settings, self.settings.preactivation_limit
        last, now = dict(self.y), dict(zip(self.net.inputs, observation, strict=True))
        for j in self.order:
            node, incoming = self.net.nodes[j], [e for e in self.edges if e[1] == j]
            for e in incoming:
                self.x[e] = last[e[0]] if e in self.late else now[e[0]]
            signals = [e for e in incoming if not self.modulates(e)]
            a = AGGREGATIONS[node.aggregation]([self.w[e] * self.x[e] for e in signals])
            u = node.bias + node.response * a
            u = 0.0 if math.isnan(u) else between(-limit, u, limit)
            now[j] = ACTIVATIONS[node.activation](u)
        self.y = {j: now[j] for j in self.order}
        return [math.tanh(now[o]) if s.output_transform == "tanh" else now[o] for o in self.net.outputs]

    def modulates(self, edge: Pair) -> bool:
        """Whether it comes from a modulatory node; outputs are none."""
        a = edge[0]
        return a in self.net.nodes and a not in self.net.outputs and self.net.nodes[a].role == "modulatory"

    def gates(self, r: float) -> dict[int, float]:
        """What the updates of each node's incoming connections are multiplied by, but for lr."""
        s = self.settings
        if s.gate == "modulator":
            sums = {
                j: sum(self.w[e] * self.x[e] for e in self.edges if e[1] == j and self.modulates(e)) for j in self.y
            }
            return {j: math.tanh(total / 2.0) for j, total in sums.items()}
        if s.gate == "none":
            return dict.fromkeys(self.y, 1.0)
        if s.gate == "advantage":
            r, self.mean_reward = r - self.mean_reward, self.mean_reward + s.reward_mean_rate * (r - self.mean_reward)
        return dict.fromkeys(self.y, s.reward_scale * r)

    def learn(self, r: float) -> None:
        s, rule = self.settings, RULES[self.settings.rule]
        if s.rule == "none":
            return
        gate = self.gates(r)
        for j in self.order:
            self.theta[j] = (1.0 - s.bcm_tau) * self.theta[j] + s.bcm_tau * self.y[j] ** 2
        for e in self.edges:
            if self.modulates(e):
                continue
            edge, x, y, w = self.net.edges[e], self.x[e], self.y[e[1]], self.w[e]
            by = self.net.learns_by(e)
            self.z[e] = s.trace_decay * self.z[e] + x * y
            if rule is not None:
                trace = rule(x, y, w, self.theta[e[1]], self.z[e], s.trace_decay)
            elif s.rule == "abcd":
                trace = generalised_hebb(by, x, y, self.z[e])
            else:
                trace = adaptive_synapse(by, x, y, w, s.weight_limit)
            change = s.lr * gate[e[1]] * by.rate * trace
            target = edge.weight if s.decay_to == "birth" else 0.0
            moved = w + change - s.weight_decay * (w - target)
            self.w[e] = between(-s.weight_limit, moved, s.weight_limit)


def live(
    net: Net,
    settings: Any,
    observations: Sequence[Sequence[float]],
    rewards: Sequence[float],
    synchronous: bool = False,
) -> tuple[list[list[float]], dict[Pair, float]]:
    """A whole episode: (the outputs of every step, the weights after it)."""
    life, outputs = Life(net, settings, synchronous), []
    for t, observation in enumerate(observations):
        outputs.append(life.forward(observation))
        if settings.reward_credit == "same-step":
            life.learn(rewards[t])
        else:
            life.learn(rewards[t - 1] if t > 0 else 0.0)
    return outputs, life.w


# -- neat-python's JSON 1.0 ---------------------------------------------------------------------------------------


def document(net: Net, network_type: str = "feedforward") -> dict[str, Any]:
    """The network as a document in neat-python's format 1.0, every connection in it."""
    nodes = [
        {
            "id": i,
            "type": "output" if i in net.outputs else "hidden",
            "activation": {"name": n.activation, "custom": False},
            "aggregation": {"name": n.aggregation, "custom": False},
            "bias": n.bias,
            "response": n.response,
            **({} if n.role == "standard" else {"role": n.role}),
            **_plastic_genes(n.numbers),
        }
        for i, n in net.nodes.items()
    ]
    for i in net.inputs:
        functions = {
            "activation": {"name": "identity", "custom": False},
            "aggregation": {"name": "none", "custom": False},
        }
        nodes.append({"id": i, "type": "input", **functions, "bias": 0.0, "response": 1.0})
    return {
        "format_version": "1.0",
        "network_type": network_type,
        "metadata": {},
        "topology": {
            "num_inputs": len(net.inputs),
            "num_outputs": len(net.outputs),
            "input_keys": list(net.inputs),
            "output_keys": list(net.outputs),
        },
        "nodes": nodes,
        "connections": [
            {"from": a, "to": b, "weight": e.weight, "enabled": e.enabled, **_plastic_genes(e), **_points(e)}
            for (a, b), e in net.edges.items()
        ],
        **({"rules": [_plastic_genes(r) for r in net.rules]} if net.rules else {}),
    }


def _points(edge: Edge) -> dict[str, str]:
    return {} if edge.rule == "own" else {"rule": edge.rule}


def _plastic_genes(by: Edge | Numbers) -> dict[str, float]:
    """Those that are not as usual."""
    found = {"rate": by.rate, **dict(zip("ABCD", by.abcd, strict=True)), "eta1": by.etas[0], "eta2": by.etas[1]}
    return {k: v for k, v in found.items() if v != _USUAL[k]}


_USUAL = {"rate": 1.0, "A": 1.0, "B": 0.0, "C": 0.0, "D": 0.0, "eta1": 1.0, "eta2": 1.0}


def _numbers(found: dict[str, Any]) -> tuple[Any, ...]:
    """(rate, A to D, etas) as a document has them, or lacks them."""
    rate, a, b, c, d, eta1, eta2 = (found.get(k, usual) for k, usual in _USUAL.items())
    return rate, (a, b, c, d), (eta1, eta2)


def from_document(document: dict[str, Any]) -> Net:
    """The network of a (well-formed) document."""
    names = ("activation", "aggregation")
    nodes = {
        n["id"]: Node(
            n["bias"], n["response"], *(n[name]["name"] for name in names), n.get("role", "standard"),
            Numbers(*_numbers(n)),
        )
        for n in document["nodes"]
        if n["type"] != "input"
    }  # fmt: skip
    edges = {
        (c["from"], c["to"]): Edge(c["weight"], c["enabled"], *_numbers(c), c.get("rule", "own"))
        for c in document["connections"]
    }
    topology, rules = document["topology"], [Numbers(*_numbers(r)) for r in document.get("rules", [])]
    return Net(topology["input_keys"], topology["output_keys"], nodes, edges, rules)
