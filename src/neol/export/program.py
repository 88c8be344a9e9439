"""What one controller computes, as constants and tables: everything that `controller.py` and ONNX are filled in with.

All that a champion.json can hold is here, or refused: order of evaluation, rule, credit, gates, scaling, actions.
Legend: I inputs, n nodes, E edges, O outputs, A action components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neol.config.sections import AGGREGATION_ID
from neol.deploy.plastic_network import LARGEST_INPUT, PlasticNetwork
from neol.envs.senses import NO_SENSES
from neol.errors import NeolError
from neol.export.kernel_source import names_read, tree_of
from neol.network.actions import FREE, Component, action_map
from neol.network.normalization import CLIP
from neol.network.plasticity import ABCD, ADAPTIVE, ADVANTAGE, GATES, MODULATOR, NONE, RULES


@dataclass(frozen=True)
class Program:
    """Numbers become constants of the generated text, arrays become its tables, flags decide what is left out."""

    # sizes
    inputs: int
    nodes: int
    edges: int
    outputs: int
    actions: int
    width: int  # of the row of values: inputs, nodes, and nodes one step ago if it remembers
    most_terms: int  # edges of the widest node that takes a median
    # what the network is, in evaluation order
    edge_start: np.ndarray  # (n + 1,) of each node's incoming edges
    signal_end: np.ndarray  # (n,) end of those that carry signals; the others come from modulatory nodes
    source: np.ndarray  # (E,) place in the row of values
    weight: np.ndarray  # (E,) at birth
    bias: np.ndarray  # (n,)
    response: np.ndarray  # (n,)
    activation: np.ndarray  # (n,) ids
    aggregation: np.ndarray  # (n,) ids
    output: np.ndarray  # (O,) place in the row of values
    remembers: bool
    modulated: bool  # has modulatory edges, or is gated by them
    responds: bool  # a response is not 1
    preactivation_limit: float
    squash: bool
    # what it sees
    normalised: bool
    mean: np.ndarray  # (I,)
    std: np.ndarray  # (I,)
    normal_limit: float
    largest_input: float
    # how it learns
    learns: bool
    next_step: bool
    rule: int
    is_abcd: bool
    is_adaptive: bool
    slides: bool  # the rule reads theta
    traces: bool  # the rule reads a trace
    own_rates: bool
    advantage: bool
    modulator: bool
    by_reward: bool
    rate: float
    mean_rate: float
    trace_decay: float
    bcm_tau: float
    weight_limit: float
    decay: float
    decays: bool
    keeps_birth: bool  # weights decay to those of birth
    drawn: bool  # weights at birth are drawn
    remembers_birth: bool  # they are drawn and decayed to
    birth_spread: float
    edge_rate: np.ndarray  # (E,) factors on the rate
    correlation: np.ndarray  # (E,) abcd's coefficients
    presynaptic: np.ndarray
    postsynaptic: np.ndarray
    constant: np.ndarray
    eta1: np.ndarray  # (E,) adaptive's
    eta2: np.ndarray
    # how it acts
    kind: np.ndarray  # (A,)
    first: np.ndarray  # (A,)
    count: np.ndarray  # (A,) outputs that a component is made from
    low: np.ndarray  # (A,)
    high: np.ndarray  # (A,)
    unbounded: bool  # actions are the outputs themselves
    # not part of the step
    source_id: tuple[int, ...]  # (E,) where each edge comes from and goes to, by the file's ids
    target_id: tuple[int, ...]
    node_id: tuple[int, ...]  # (n,)
    input_id: tuple[int, ...]  # (I,)
    rule_name: str
    gate_name: str
    interface: dict[str, Any]
    changes_watched: bool = False  # keep what each weight changed by


def program(net: PlasticNetwork) -> Program:
    """What a network computes from birth on; weights that it has learned since are left out."""
    if net.senses != NO_SENSES:
        raise NeolError(
            "the network has senses (its last reward or action as inputs), which exported code does not fill in; "
            "export it as json, or train without senses."
        )
    return Program(**_network(net), **_learning(net), **_actions(net), **_ids(net), interface=net.interface)


def _network(net: PlasticNetwork) -> dict[str, Any]:
    """Nodes and edges, and what they see."""
    ph, plastic, normal = net.network.phenotype, net._plastic, net.normal
    ends = ph.edge_start[:-1] + ph.standard
    medians = ph.standard[ph.aggregation == AGGREGATION_ID["median"]]
    tables = ("edge_start", "source", "weight", "bias", "response", "activation", "aggregation")
    return {name: getattr(ph, name) for name in tables} | {
        "inputs": ph.inputs,
        "nodes": len(ph.bias),
        "edges": len(ph.weight),
        "outputs": net.network.outputs,
        "width": ph.inputs + len(ph.bias) * (2 if ph.remembers[0] else 1),
        "most_terms": int(medians.max(initial=0)),
        "signal_end": ends,
        "output": ph.output[0],
        "remembers": bool(ph.remembers[0]),
        "modulated": bool((ends != ph.edge_start[1:]).any()),
        "responds": bool((ph.response != 1.0).any()),
        "preactivation_limit": plastic.preactivation_limit,
        "squash": plastic.squash,
        "normalised": normal.on,
        "mean": normal.mean,
        "std": normal.std,
        "normal_limit": CLIP,
        "largest_input": LARGEST_INPUT,
    }


def _learning(net: PlasticNetwork) -> dict[str, Any]:
    """The rule, its gate and its timing; and what of them this network uses."""
    ph, plastic = net.network.phenotype, net._plastic
    reads = names_read(tree_of(RULES[plastic.rule]))
    learns = plastic.rule != NONE and bool(ph.standard.any())
    decays, drawn = learns and plastic.decay > 0.0, plastic.birth_spread > 0.0
    keeps_birth = decays and plastic.keeps_birth > 0.0
    settings = (
        "next_step",
        "rule",
        "by_reward",
        "rate",
        "mean_rate",
        "trace_decay",
        "bcm_tau",
        "weight_limit",
        "decay",
    )
    genes = ("correlation", "presynaptic", "postsynaptic", "constant", "eta1", "eta2")
    values = {name: getattr(plastic, name) for name in settings} | {name: getattr(ph, name) for name in genes}
    return values | {
        "learns": learns,
        "is_abcd": plastic.rule == ABCD,
        "is_adaptive": plastic.rule == ADAPTIVE,
        "slides": learns and "theta" in reads,
        "traces": learns and "z" in reads and plastic.trace_decay > 0.0,
        "own_rates": plastic.general and bool((ph.rate != 1.0).any()),
        "advantage": learns and plastic.gate == ADVANTAGE,
        "modulator": learns and plastic.gate == MODULATOR,
        "decays": decays,
        "keeps_birth": keeps_birth,
        "drawn": drawn,
        "remembers_birth": drawn and keeps_birth,
        "birth_spread": plastic.birth_spread,
        "edge_rate": ph.rate,
        "rule_name": net.settings.rule,
        "gate_name": GATES[plastic.gate],
    }


def _actions(net: PlasticNetwork) -> dict[str, Any]:
    """How outputs become an action; where the file does not say, they are the action."""
    components = net._interface.components
    unbounded = not components
    if unbounded:
        components = tuple(Component(FREE, o, 1, -np.inf, np.inf) for o in range(net.network.outputs))
    found = action_map(components)
    return {
        "actions": len(components), "kind": found.kind, "first": found.first, "count": found.width, "low": found.low,
        "high": found.high, "unbounded": unbounded,
    }  # fmt: skip


def _ids(net: PlasticNetwork) -> dict[str, Any]:
    """Nodes and edges by the ids of the network's file."""
    topology, ph = net.network.document["topology"], net.network.phenotype
    inputs, outputs = topology["input_keys"], topology["output_keys"]
    listed = {n["id"] for n in net.network.document["nodes"] if n["type"] != "input"}
    order = [*outputs, *sorted(listed - set(outputs))]
    pairs = [net.network.pairs[gene] for gene in ph.gene]
    return {
        "input_id": tuple(inputs),
        "node_id": tuple(order[k] for k in ph.node_id),
        "source_id": tuple(a for a, _ in pairs),
        "target_id": tuple(b for _, b in pairs),
    }
