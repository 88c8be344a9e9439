"""A controller's life, written once, in the part of Python that C and JavaScript can say too; `specialise.py` reads it.

`p` is a Program: its numbers become constants, its arrays tables, and what its flags switch off is left out. `s` is the
state. It is network/step.py for one network that is known beforehand; rules and activations are taken from the kernels.
"""

from __future__ import annotations

import math
from typing import Any

from neol.network.actions import ARGMAX, BINARY, BOUNDED
from neol.network.activations import activate, clip
from neol.network.plasticity import abcd, adaptive, local_trace

# Ids of aggregations, as network/activations.py has them.
SUM, PRODUCT, MEAN, MAX, MIN, MAXABS = range(6)


def smaller(a: float, b: float) -> float:
    return b if b < a else a


def larger(a: float, b: float) -> float:
    return b if b > a else a


def squared(a: float) -> float:
    return a * a


def uniform_at(life: int, e: int) -> float:
    """A number in [0, 1) for edge e of a life; each language has its own way with 64 bits."""
    raise NotImplementedError


def init(p: Any, s: Any) -> None:
    """A life begins: the weights of birth, no activity, nothing learned."""
    born(p, s, 0)


def born(p: Any, s: Any, life: int) -> None:
    """A life begins, the life-th of many: where weights at birth are drawn, they are others in each."""
    if p.learns or p.drawn:
        for e in range(p.edges):
            s.weight[e] = p.weight[e]
            if p.traces:
                s.trace[e] = 0.0
            if p.changes_watched:
                s.change[e] = 0.0
    if p.drawn:
        for k in range(p.nodes):
            for e in range(p.edge_start[k], p.signal_end[k]):
                s.weight[e] = p.birth_spread * (2.0 * uniform_at(life, e) - 1.0)
    if p.remembers_birth:
        for e in range(p.edges):
            s.birth[e] = s.weight[e]
    if p.slides:
        for k in range(p.nodes):
            s.theta[k] = 0.0
    if p.advantage:
        s.reward_mean = 0.0
    rest(p, s)


def rest(p: Any, s: Any) -> None:
    """The next episode of the same life begins: no activity; what was learned stays."""
    for i in range(p.width):
        s.value[i] = 0.0
    s.fresh = 1


def gathered(p: Any, s: Any, k: int) -> float:
    """What the incoming edges of node k carry, taken together."""
    first: int = p.edge_start[k]
    last: int = p.signal_end[k] if p.modulated else p.edge_start[k + 1]
    if p.aggregation[k] == SUM:
        total = 0.0
        for e in range(first, last):
            total += (s.weight[e] if p.learns or p.drawn else p.weight[e]) * s.value[p.source[e]]
        return total
    if p.aggregation[k] == PRODUCT:
        total = 1.0
        for e in range(first, last):
            total *= (s.weight[e] if p.learns or p.drawn else p.weight[e]) * s.value[p.source[e]]
        return total
    if first == last:
        return 0.0
    if p.aggregation[k] == MEAN:
        total = 0.0
        for e in range(first, last):
            total += (s.weight[e] if p.learns or p.drawn else p.weight[e]) * s.value[p.source[e]]
        return total / (last - first)
    if p.aggregation[k] == MAX:
        return extreme(p, s, first, last, 1.0)
    if p.aggregation[k] == MIN:
        return -extreme(p, s, first, last, -1.0)
    if p.aggregation[k] == MAXABS:
        return extreme(p, s, first, last, 0.0)
    return median(p, s, first, last)


def extreme(p: Any, s: Any, first: int, last: int, sign: float) -> float:
    """The largest term times sign; for sign = 0 the first of the largest magnitude. A term that is NaN wins."""
    best = 0.0
    for e in range(first, last):
        term = (s.weight[e] if p.learns or p.drawn else p.weight[e]) * s.value[p.source[e]]
        if math.isnan(term):
            return term
        if sign != 0.0:
            term = sign * term
        if e == first or (term > best if sign != 0.0 else abs(term) > abs(best)):
            best = term
    return best


def median(p: Any, s: Any, first: int, last: int) -> float:
    """The middle term, or the mean of the two; sorted by insertion, NaN last."""
    n: int = last - first
    for i in range(n):
        term = (s.weight[first + i] if p.learns or p.drawn else p.weight[first + i]) * s.value[p.source[first + i]]
        at: int = i
        while at > 0 and (term < s.term[at - 1] or (math.isnan(s.term[at - 1]) and not math.isnan(term))):
            s.term[at] = s.term[at - 1]
            at -= 1
        s.term[at] = term
    if n & 1 == 1:
        return s.term[n >> 1]
    return 0.5 * (s.term[(n >> 1) - 1] + s.term[n >> 1])


def usable(p: Any, x: float) -> float:
    """What is not a number would stay in the traces for ever: it counts as 0."""
    return clip(x, p.largest_input) if math.isfinite(x) else 0.0


def forward(p: Any, s: Any, observation: Any) -> None:
    """One pass: every node in order of evaluation."""
    if p.remembers:
        for i in range(p.inputs, p.inputs + p.nodes):
            s.value[i + p.nodes] = s.value[i]
    for i in range(p.inputs):
        x = usable(p, observation[i])
        s.value[i] = clip((x - p.mean[i]) / p.std[i], p.normal_limit) if p.normalised else x
    for k in range(p.nodes):
        z = p.bias[k] + (p.response[k] * gathered(p, s, k) if p.responds else gathered(p, s, k))
        z = 0.0 if math.isnan(z) else clip(z, p.preactivation_limit)
        s.value[p.inputs + k] = activate(p.activation[k], z)


def learn(p: Any, s: Any, reward: float) -> None:
    """Every plastic weight changes by its own rule from the activity of the last pass, gated."""
    gate = p.rate * reward if p.by_reward else p.rate
    if p.advantage:
        above = reward - s.reward_mean
        gate = p.rate * above
        if math.isfinite(above):
            s.reward_mean += p.mean_rate * above
    for k in range(p.nodes):
        y = s.value[p.inputs + k]
        if p.slides:
            s.theta[k] = (1.0 - p.bcm_tau) * s.theta[k] + p.bcm_tau * y * y
        theta = s.theta[k]
        open_by = gate
        if p.modulator:
            total = 0.0
            for e in range(p.signal_end[k], p.edge_start[k + 1]):
                total += s.weight[e] * s.value[p.source[e]]
            open_by = gate * math.tanh(0.5 * total)
        last: int = p.signal_end[k] if p.modulated else p.edge_start[k + 1]
        for e in range(p.edge_start[k], last):
            x = s.value[p.source[e]]
            w = s.weight[e]
            z = x * y
            if p.traces:
                z += p.trace_decay * s.trace[e]
                s.trace[e] = z
            if p.is_abcd:
                change = abcd(x, y, z, p.correlation[e], p.presynaptic[e], p.postsynaptic[e], p.constant[e])
            elif p.is_adaptive:
                change = adaptive(x, y, w, p.weight_limit, p.eta1[e], p.eta2[e])
            else:
                change = local_trace(p.rule, x, y, w, theta, z, p.trace_decay)
            moved = w + (open_by * p.edge_rate[e] * change if p.own_rates else open_by * change)
            if p.keeps_birth:
                moved = moved - p.decay * (w - (s.birth[e] if p.remembers_birth else p.weight[e]))
            elif p.decays:
                moved = moved - p.decay * w
            s.weight[e] = clip(w if math.isnan(moved) else moved, p.weight_limit)
            if p.changes_watched:
                s.change[e] = s.weight[e] - w


def choose(p: Any, s: Any, action: Any) -> None:
    """The outputs after a pass, and the action that they mean."""
    for o in range(p.outputs):
        s.output[o] = math.tanh(s.value[p.output[o]]) if p.squash else s.value[p.output[o]]
    for a in range(p.actions):
        if p.kind[a] == BOUNDED:
            action[a] = p.low[a] + 0.5 * (clip(s.output[p.first[a]], 1.0) + 1.0) * (p.high[a] - p.low[a])
        elif p.kind[a] == ARGMAX:
            best: int = p.first[a]
            for o in range(p.first[a] + 1, p.first[a] + p.count[a]):
                if s.output[o] > s.output[best]:
                    best = o
            action[a] = p.low[a] + (best - p.first[a])
        elif p.kind[a] == BINARY:
            action[a] = 1.0 if s.output[p.first[a]] > 0.0 else 0.0
        elif p.unbounded:
            action[a] = s.output[p.first[a]]
        else:
            action[a] = min(max(s.output[p.first[a]], p.low[a]), p.high[a])


def step(p: Any, s: Any, observation: Any, reward: float, action: Any) -> None:
    """Learn from what the last action earned, look, choose the next action. An episode's first reward is not read."""
    if p.learns and not p.next_step and not s.fresh:
        learn(p, s, reward if math.isfinite(reward) else 0.0)
    forward(p, s, observation)
    if p.learns and p.next_step:
        learn(p, s, reward if math.isfinite(reward) and not s.fresh else 0.0)
    choose(p, s, action)
    s.fresh = 0


def end(p: Any, s: Any, reward: float) -> None:
    """The episode is over: its last reward is learned from where the credit is of the same step."""
    if p.learns and not p.next_step:
        learn(p, s, reward if math.isfinite(reward) else 0.0)
