"""The plasticity rules: the local trace e of a connection, one short function each.

A connection's weight then changes by w <- clip(w + m e), m = lr * reward_scale * r or what else gates it (step.py).
To add a rule: write its function, append it to LOCAL, and its name before abcd to the choices of PlasticityConfig.rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numba import njit

from neol.config.schema import field_choices
from neol.config.sections import PlasticityConfig
from neol.jit import kernel


@kernel
def none(x, y, w, theta, z, trace_decay):
    """w stays."""
    return 0.0


@kernel
def hebb(x, y, w, theta, z, trace_decay):
    """e = x y; with a trace e = z, where z <- lambda z + x y (so z = x y at lambda = 0)."""
    return z


@kernel
def oja(x, y, w, theta, z, trace_decay):
    """e = y (x - y w); with a trace the authors add it: e = y (x - y w) + z."""
    e = y * (x - y * w)
    return e + z if trace_decay > 0.0 else e


@kernel
def bcm(x, y, w, theta, z, trace_decay):
    """e = y (y - theta) x, with theta <- (1 - tau) theta + tau y^2 before (step.py)."""
    return y * (y - theta) * x


@kernel
def abcd(x, y, z, a, b, c, d):
    """e = A x y + B x + C y + D, with coefficients of the connection's own; with a trace e = A z + B x + C y + D."""
    return a * z + b * x + c * y + d


@kernel
def adaptive(x, y, w, limit, eta1, eta2):
    """Stanley, Bryant and Miikkulainen (2003), W the largest weight, of the rule's own numbers eta1 and eta2.

    w >= 0, excitatory: e = eta1 (W - w) x y + eta2 W x (y - 1)
    w < 0,  inhibitory: the same of |w| and 1 - y, so e = -(eta1 (W - |w|) x (1 - y) - eta2 W x y)
    """
    if w < 0.0:
        return eta2 * limit * x * y - eta1 * (limit + w) * x * (1.0 - y)
    return eta1 * (limit - w) * x * y + eta2 * limit * x * (y - 1.0)


LOCAL = (none, hebb, oja, bcm)  # those that need nothing of the connection's genes
RULES = (*LOCAL, abcd, adaptive)  # a rule's id is its position
RULE_ID = {name: i for i, name in enumerate(field_choices("rule"))}
ALIASES = {"neat": "none"}  # the authors' name for no plasticity
NONE, ABCD, ADAPTIVE = 0, len(LOCAL), len(LOCAL) + 1
GATES = field_choices("gate")
ADVANTAGE, MODULATOR = GATES.index("advantage"), GATES.index("modulator")


def _by_id(rules: tuple) -> Callable[..., float]:
    """One function that calls the rule with a given id: a chain of comparisons, inlined by the compiler."""
    head, rest = rules[0], _by_id(rules[1:]) if len(rules) > 1 else rules[0]

    @njit(error_model="numpy")
    def last(rule, x, y, w, theta, z, trace_decay):
        return head(x, y, w, theta, z, trace_decay)

    @njit(error_model="numpy")
    def local_trace(rule, x, y, w, theta, z, trace_decay):
        if rule == 0:
            return head(x, y, w, theta, z, trace_decay)
        return rest(rule - 1, x, y, w, theta, z, trace_decay)

    return local_trace if len(rules) > 1 else last


local_trace = _by_id(LOCAL)  # (rule id, x, y, w, theta, z, trace_decay) -> e


class Plasticity(NamedTuple):
    """A PlasticityConfig as the kernels take it."""

    rule: int
    rate: float  # lr * reward_scale; lr where no reward gates
    trace_decay: float  # lambda
    bcm_tau: float
    weight_limit: float
    preactivation_limit: float
    squash: bool  # tanh on the outputs
    next_step: bool  # reward_credit
    general: bool  # more than the paper's method: connections' own genes, another gate or decay
    gate: int  # place in GATES
    by_reward: bool  # the gate is the reward or the advantage
    mean_rate: float  # of the reward's running mean
    decay: float
    keeps_birth: float  # weights decay to what they were at birth times this: 1 or 0
    own_decay: bool  # decay is a gene
    birth_spread: float  # weights at birth are drawn in [-spread, spread]; 0 = inherited


def plasticity(config: PlasticityConfig) -> Plasticity:
    by_reward = config.gate in ("reward", "advantage")
    own = config.evolve_rate or config.rule in ("abcd", "adaptive") or config.evolve_decay
    return Plasticity(
        rule=RULE_ID[config.rule],
        rate=config.lr * config.reward_scale if by_reward else config.lr,
        trace_decay=config.trace_decay,
        bcm_tau=config.bcm_tau,
        weight_limit=config.weight_limit,
        preactivation_limit=config.preactivation_limit,
        squash=config.output_transform == "tanh",
        next_step=config.reward_credit == "next-step",
        general=own or config.gate != "reward" or config.weight_decay > 0.0,
        gate=GATES.index(config.gate),
        by_reward=by_reward,
        mean_rate=config.reward_mean_rate,
        decay=config.weight_decay,
        keeps_birth=float(config.decay_to == "birth"),
        own_decay=config.evolve_decay,
        birth_spread=config.birth_spread if config.birth == "drawn" else 0.0,
    )
