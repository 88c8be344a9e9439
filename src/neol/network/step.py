"""The inner loop: credit reward -> update weights -> forward -> action, for B slots, each running one episode.

A slot holds what one network changes while it lives; the phenotypes are only read. Training, evaluation and
`PlasticNetwork` (one slot) all run these functions.
Legend: B slots, E edges and n nodes of the widest network, V width of a value row, I inputs, O outputs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neol.jit import bare, inlined
from neol.network.actions import ARGMAX, BINARY, BOUNDED
from neol.network.activations import SUM, activate, aggregate, clip
from neol.network.phenotype import Phenotypes
from neol.network.plasticity import ABCD, ADAPTIVE, ADVANTAGE, MODULATOR, NONE, abcd, adaptive, local_trace
from neol.seeding import uniform_at

_BIRTH = np.uint64(0xD6E8FEB86659FD93)  # so that nothing else of a life has these numbers


class Slots(NamedTuple):
    genome: np.ndarray  # i4 (B,)
    weight: np.ndarray  # f8 (B, E) the plastic weights w
    trace: np.ndarray  # f8 (B, E) eligibility z
    value: np.ndarray  # f8 (B, V) activities of the last forward pass
    theta: np.ndarray  # f8 (B, n) BCM's sliding threshold
    birth: np.ndarray  # f8 (B, E) the weights at birth
    reward_mean: np.ndarray  # f8 (B,) running mean of the rewards


def new_slots(phenotypes: Phenotypes, count: int) -> Slots:
    """Slots wide enough for the largest network."""
    nodes = int(np.diff(phenotypes.node_start).max(initial=0))
    edges = int(np.diff(phenotypes.edge_start[phenotypes.node_start]).max(initial=0))
    width = phenotypes.inputs + 2 * nodes
    shapes: tuple[tuple[int, ...], ...] = ((count, edges), (count, edges), (count, width), (count, nodes))
    shapes += ((count, edges), (count,))
    return Slots(np.zeros(count, np.int32), *(np.zeros(s) for s in shapes))


@inlined
def load(ph, slots, b, p):
    """Start genome p in slot b: its own weights, no activity, theta = 0, z = 0."""
    slots.genome[b] = p
    first, last = ph.edge_start[ph.node_start[p]], ph.edge_start[ph.node_start[p + 1]]
    for e in range(first, last):
        slots.weight[b, e - first] = slots.birth[b, e - first] = ph.weight[e]
    slots.trace[b] = 0.0
    slots.value[b] = 0.0
    slots.theta[b] = 0.0
    slots.reward_mean[b] = 0.0


@inlined
def draw_birth(ph, slots, b, name, spread):
    """After `load`: the weights that slot b is born with are drawn by its life's name (u8), edge by edge.

    What modulatory nodes send is not learned, so that those weights are inherited all the same.
    """
    p = slots.genome[b]
    start, stop = ph.node_start[p], ph.node_start[p + 1]
    base = ph.edge_start[start]
    for k in range(start, stop):
        for e in range(ph.edge_start[k], ph.edge_start[k] + ph.standard[k]):
            drawn = spread * (2.0 * uniform_at(name ^ _BIRTH, e - base) - 1.0)
            slots.weight[b, e - base] = slots.birth[b, e - base] = drawn


@inlined
def rest(slots, b):
    """The next trial of the same life begins in slot b: no activity; weights, z and theta stay as they are."""
    slots.value[b] = 0.0


@inlined
def forward(ph, slots, b, observation, limit):
    """One pass: y = f(bias + response * aggregate(w x)) for every node, in order. observation f8 (I,)."""
    p = slots.genome[b]
    start, stop = ph.node_start[p], ph.node_start[p + 1]
    base = ph.edge_start[start]
    n, inputs = stop - start, ph.inputs
    value, weight = slots.value[b], slots.weight[b]
    if ph.remembers[p]:
        for k in range(inputs, inputs + n):
            value[n + k] = value[k]
    for i in range(inputs):
        value[i] = observation[i]
    for k in range(start, stop):
        first = ph.edge_start[k]
        last = first + ph.standard[k]
        if ph.aggregation[k] == SUM:
            s = 0.0
            for e in range(first, last):
                s += weight[e - base] * value[ph.source[e]]
        else:
            s = aggregate(ph.aggregation[k], ph.source, weight[first - base :], value, first, last)
        s = ph.bias[k] + ph.response[k] * s
        s = 0.0 if math.isnan(s) else clip(s, limit)
        value[inputs + k - start] = activate(ph.activation[k], s)


@bare
def learn_generally(ph, slots, b, reward, plastic):
    """`learn` with all that may be evolved: w <- clip(w + m rate e - decay (w - rest)), where m is gated per node.

    m = lr times: reward_scale r | reward_scale (r - mean r) | 1 | tanh(1/2 sum of w x over the modulatory edges).
    """
    p = slots.genome[b]
    start, stop = ph.node_start[p], ph.node_start[p + 1]
    base = ph.edge_start[start]
    value, weight, trace, birth = slots.value[b], slots.weight[b], slots.trace[b], slots.birth[b]
    m, decay = plastic.rate, ph.decay[p] if plastic.own_decay else plastic.decay
    if plastic.gate == ADVANTAGE:
        above = reward - slots.reward_mean[b]
        m *= above
        if math.isfinite(above):
            slots.reward_mean[b] += plastic.mean_rate * above
    elif plastic.by_reward:
        m *= reward
    for k in range(start, stop):
        y = value[ph.inputs + k - start]
        theta = (1.0 - plastic.bcm_tau) * slots.theta[b, k - start] + plastic.bcm_tau * y * y
        slots.theta[b, k - start] = theta
        first, last = ph.edge_start[k], ph.edge_start[k] + ph.standard[k]
        gate = m
        if plastic.gate == MODULATOR:
            s = 0.0
            for e in range(last, ph.edge_start[k + 1]):
                s += weight[e - base] * value[ph.source[e]]
            gate = m * math.tanh(0.5 * s)
        for e in range(first, last):
            x, w = value[ph.source[e]], weight[e - base]
            z = x * y
            if plastic.trace_decay > 0.0:
                z += plastic.trace_decay * trace[e - base]
                trace[e - base] = z
            if plastic.rule == ABCD:
                change = abcd(x, y, z, ph.correlation[e], ph.presynaptic[e], ph.postsynaptic[e], ph.constant[e])
            elif plastic.rule == ADAPTIVE:
                change = adaptive(x, y, w, plastic.weight_limit, ph.eta1[e], ph.eta2[e])
            else:
                change = local_trace(plastic.rule, x, y, w, theta, z, plastic.trace_decay)
            moved = w + gate * ph.rate[e] * change - decay * (w - plastic.keeps_birth * birth[e - base])
            weight[e - base] = clip(w if math.isnan(moved) else moved, plastic.weight_limit)


@inlined
def learn(ph, slots, b, reward, plastic):
    """Update the weights of slot b from the activity of its last forward pass, gated by the reward.

    m = lr reward_scale r;  theta <- (1 - tau) theta + tau y^2;  z <- lambda z + x y;  w <- clip(w + m e).
    """
    if plastic.rule == NONE:
        return
    if plastic.general:
        learn_generally(ph, slots, b, reward, plastic)
        return
    p = slots.genome[b]
    start, stop = ph.node_start[p], ph.node_start[p + 1]
    base = ph.edge_start[start]
    value, weight, trace = slots.value[b], slots.weight[b], slots.trace[b]
    m = plastic.rate * reward
    for k in range(start, stop):
        y = value[ph.inputs + k - start]
        theta = (1.0 - plastic.bcm_tau) * slots.theta[b, k - start] + plastic.bcm_tau * y * y
        slots.theta[b, k - start] = theta
        for e in range(ph.edge_start[k], ph.edge_start[k + 1]):
            x, w = value[ph.source[e]], weight[e - base]
            z = x * y
            if plastic.trace_decay > 0.0:
                z += plastic.trace_decay * trace[e - base]
                trace[e - base] = z
            moved = w + m * local_trace(plastic.rule, x, y, w, theta, z, plastic.trace_decay)
            weight[e - base] = clip(w if math.isnan(moved) else moved, plastic.weight_limit)


@inlined
def act(ph, slots, b, squash, outputs):
    """The network's outputs f8 (O,) after its last forward pass."""
    p = slots.genome[b]
    for o in range(len(outputs)):
        y = slots.value[b, ph.output[p, o]]
        outputs[o] = math.tanh(y) if squash else y


@inlined
def decode(outputs, actions, action):
    """Outputs f8 (O,) -> action f8 (A,), each component in its own way."""
    for a in range(len(action)):
        first, low, high = actions.first[a], actions.low[a], actions.high[a]
        if actions.kind[a] == BOUNDED:
            action[a] = low + 0.5 * (clip(outputs[first], 1.0) + 1.0) * (high - low)
        elif actions.kind[a] == ARGMAX:
            action[a] = low + np.argmax(outputs[first : first + actions.width[a]])
        elif actions.kind[a] == BINARY:
            action[a] = 1.0 if outputs[first] > 0.0 else 0.0
        else:  # FREE
            action[a] = min(max(outputs[first], low), high)


@inlined
def step(ph, slots, b, observation, reward, first, plastic, outputs):
    """The whole of one time step of slot b: learn from the last action's reward, then choose the next outputs f8 (O,).

    same-step: the reward gates the activity that earned it, before the new pass. next-step: it gates the new pass's.
    """
    if not plastic.next_step and not first:
        learn(ph, slots, b, reward, plastic)
    forward(ph, slots, b, observation, plastic.preactivation_limit)
    if plastic.next_step:
        learn(ph, slots, b, reward, plastic)
    act(ph, slots, b, plastic.squash, outputs)


@inlined
def credit(ph, slots, b, reward, plastic):
    """The episode of slot b is over: its last reward is credited (same-step) or never used (next-step)."""
    if not plastic.next_step:
        learn(ph, slots, b, reward, plastic)
