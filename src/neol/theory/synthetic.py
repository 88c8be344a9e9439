"""Instances on which A1 to A7 hold by construction: M architectures that live T rounds under the rules' own updates.

One round of architecture h, with weights w in the ball W of diameter D around 0:

    activities x in [-1, 1]^d, y in [-1, 1], theta in [0, 1]         (A3)
    trace      e = plasticity.local_trace(x, y, w, theta)            |e| <= E of the rule
    update     u = beta r e,  w <- project(w + eta u)                (A4) beta = reach / (C D E), U = reach / (C D)
    loss       l_t(h, v) = l_t(h, w) - C <v - w, u>  for any v in W  (A5) with equality: C is known because we chose it

The loss is linear in v, so A5 holds with equality; of all convex losses with this slope at w it has the largest regret.
C D U = `reach` is how far the weights can move a loss. Two kinds of adversary, both with all losses in [0, 1] (A2):

    stochastic, shifting  the reward that gates the update is the return itself, r = 1 - l_t(h, w): with a drawn base
                          b in [reach / 2, 1] the fixed point is r = (1 - b) / (1 - C beta <w, e>)
    worst-case            r = 1, and l_t(h, w) is reach or 1 - reach as hurts Hedge most; activities are chosen with
                          knowledge of w so that the weights wander from one end of W to the other (see `_hurt`)

Legend: M architectures, d weights of each, T rounds, B rounds of a block, S segments of a shifting instance.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neol import seeding
from neol.errors import NeolError, nearest
from neol.jit import kernel
from neol.network.plasticity import RULE_ID, local_trace
from neol.outer.selectors import (
    EXP3,
    FIXED_SHARE,
    HEDGE,
    LARGEST_POOL,
    MOST_ROUNDS,
    SCHEDULES,
    Rates,
    count,
    draw,
    epochs,
    exp3_bound,
    exp3_rates,
    hedge_bound,
    hedge_rates,
    outer_select,
    outer_update,
    share_bound,
    share_rates,
)

ADVERSARIES = ("stochastic", "shifting", "worst-case")
STOCHASTIC, SHIFTING, WORST_CASE = range(3)
FEEDBACK = ("full", "bandit")
REACH = (0.25, 0.25, 0.02)  # by adversary; a small one leaves the worst case almost all of [0, 1] for the outer loss
TAU = 0.02  # rate of BCM's threshold
LARGEST_DIM = 4096
CLEAR = 3.0  # ln of how sure Hedge is of the best architecture when the worst case ends


@dataclass(frozen=True)
class Setting:
    """One synthetic experiment. A bad value is a NeolError."""

    rule: str = "hebb"
    rounds: int = 1000  # T
    pool: int = 16  # M
    dim: int = 8  # d
    feedback: str = "full"
    adversary: str = "stochastic"
    schedule: str = "known"
    switches: int = 0  # k; > 0: Fixed-Share, and the comparator may switch k times
    constant: float = 1.0  # C of A5
    diameter: float = 1.0  # D
    reach: float = 0.0  # C D U; 0 = the adversary's own

    def __post_init__(self) -> None:
        rules = [r for r in RULE_ID if r != "none"]
        for name, valid in (
            ("rule", rules),
            ("feedback", FEEDBACK),
            ("adversary", ADVERSARIES),
            ("schedule", SCHEDULES),
        ):
            if getattr(self, name) not in valid:
                value = getattr(self, name)
                raise NeolError(f"{name} = '{value}' is not allowed; {nearest(value, valid)}")
        for name, largest in (("rounds", MOST_ROUNDS), ("pool", LARGEST_POOL), ("dim", LARGEST_DIM)):
            count(name, getattr(self, name), largest)
        if not 1.0 <= self.constant < math.inf:
            raise NeolError(f"constant = {self.constant} is not allowed; A5 has C >= 1.")
        if not 0.0 < self.diameter < math.inf:
            raise NeolError(f"diameter = {self.diameter} is not allowed; it must be positive.")
        if not 0.0 <= self.reach <= 0.5:
            raise NeolError(
                f"reach = {self.reach} is not allowed; it must be in (0, 0.5], or 0 for the adversary's own."
            )
        if not 0 <= self.switches < self.rounds:
            raise NeolError(f"switches = {self.switches} is not allowed; it must be from 0 to rounds - 1.")
        if self.switches and (self.feedback == "bandit" or self.schedule != "known"):
            raise NeolError(f"switches = {self.switches} is not allowed with {self.feedback} feedback and the "
                            f"{self.schedule} schedule; Fixed-Share needs full feedback and known T.")  # fmt: skip

    @property
    def reached(self) -> float:
        return self.reach or REACH[ADVERSARIES.index(self.adversary)]

    @property
    def update_limit(self) -> float:
        """U, the largest norm of an update direction."""
        return self.reached / (self.constant * self.diameter)

    @property
    def trace_limit(self) -> float:
        """E, the largest norm of the trace x y, y (x - y w) or y (y - theta) x with activities in [-1, 1]."""
        root = math.sqrt(self.dim)
        return {"hebb": root, "oja": root + self.diameter / 2.0, "bcm": 2.0 * root}[self.rule]

    @property
    def selector(self) -> int:
        return EXP3 if self.feedback == "bandit" else FIXED_SHARE if self.switches else HEDGE

    def with_rounds(self, rounds: int) -> Setting:
        return dataclasses.replace(self, rounds=rounds)


class Schedule(NamedTuple):
    """What is fixed before the first round: learning rates, and the bounds that go with them."""

    rates: Rates  # of the outer loop
    alpha: float  # Fixed-Share's
    eta: np.ndarray  # f8 (T,) of the inner loop, not increasing
    outer_bound: float
    inner_bound: float


def inner_rates(schedule: str, rounds: int, diameter: float, update_limit: float) -> np.ndarray:
    """eta_t f8 (T,): D / (U sqrt T) (Lemma 1) | D / (U sqrt(2 t)) | D / (U sqrt(the epoch's length))."""
    tuned = epochs(schedule, rounds) * (2.0 if schedule == "decreasing" else 1.0)
    return diameter / (update_limit * np.sqrt(tuned))


def inner_bound(eta: np.ndarray, diameter: float, update_limit: float) -> float:
    """Lemma 1 for steps that do not increase: D^2 / (2 eta_T) + (1/2) sum eta_t U^2; known T: D U sqrt T."""
    return float(diameter**2 / (2.0 * eta[-1]) + 0.5 * update_limit**2 * eta.sum())


def plan(s: Setting) -> Schedule:
    """Rates and bounds of an experiment."""
    alpha = 0.0
    if s.selector == FIXED_SHARE:
        rates, alpha = share_rates(s.rounds, s.pool, s.switches)
        outer = share_bound(rates, s.pool, s.switches, alpha)
    elif s.selector == EXP3:
        rates = exp3_rates(s.schedule, s.rounds, s.pool)
        outer = exp3_bound(rates, s.pool)
    else:
        rates = hedge_rates(s.schedule, s.rounds, s.pool)
        outer = hedge_bound(rates, s.pool)
    eta = inner_rates(s.schedule, s.rounds, s.diameter, s.update_limit)
    return Schedule(rates, alpha, eta, outer, inner_bound(eta, s.diameter, s.update_limit))


class Instance(NamedTuple):
    """A Setting and a seed as the kernel takes them."""

    rule: int
    adversary: int
    rounds: int
    radius: float  # D / 2
    constant: float  # C
    beta: float
    reach: float
    tau: float
    endgame: int  # worst case: rounds at the end in which only the best architecture does well
    best: int  # worst case: which that is
    teacher: np.ndarray  # f8 (S, M, d) what the activities correlate with
    mean: np.ndarray  # f8 (S, M) half of the base loss, as a fraction of its range; the other half is noise


class Lives(NamedTuple):
    """What changes: the weights, and the sums that regret is computed from. Comparators need no more than these."""

    w: np.ndarray  # f8 (M, d)
    theta: np.ndarray  # f8 (M,)
    random: np.ndarray  # u8 (M,) generator states
    loss: np.ndarray  # f8 (M,) sum_t l_t(h, w_t)
    pull: np.ndarray  # f8 (M,) sum_t <w_t, u_t>
    drift: np.ndarray  # f8 (M, d) sum_t u_t
    energy: np.ndarray  # f8 (M,) sum_t eta_t |u_t|^2
    total: np.ndarray  # f8 (M,) the outer loop's sums
    p: np.ndarray  # f8 (M,)
    spent: np.ndarray  # f8 (2,) sum_t <p_t, l_t> | sum_t l_t(h_t)
    seen: np.ndarray  # f8 (6,) least and largest loss of any weights in W | reward | largest |w|^2, |u|


class Block(NamedTuple):
    """The record of B rounds."""

    losses: np.ndarray  # f8 (B, M) l_t(h, w_t)
    probabilities: np.ndarray  # f8 (B, M)
    update_norms: np.ndarray  # f8 (B, M)
    surrogate: np.ndarray  # f8 (B, M) L_t(w_t) = -<w_t, u_t>
    chosen: np.ndarray  # i8 (B,)


def new_block(rounds: int, pool: int) -> Block:
    losses, probabilities, norms, surrogate = (np.zeros((rounds, pool)) for _ in range(4))
    return Block(losses, probabilities, norms, surrogate, np.zeros(rounds, np.int64))


def make_instance(s: Setting, seed: int) -> Instance:
    """Draw what a seed decides: teachers, mean losses, which architecture is best."""
    adversary = ADVERSARIES.index(s.adversary)
    segments = max(s.switches, 1) + 1 if adversary == SHIFTING else 1
    teacher, mean = np.empty((segments, s.pool, s.dim)), np.empty((segments, s.pool))
    # a gap between architectures that T rounds can only just tell: the one that costs most
    seen = s.rounds / s.pool if s.selector == EXP3 else s.rounds
    gap = min(0.5, math.sqrt(math.log(s.pool) / seen))
    best = int(_draw_instance(seed, adversary, gap, teacher, mean))
    endgame = 0
    if adversary == WORST_CASE and s.pool > 1 and s.reached < 0.5:
        # Hedge tells the best from M - 1 others by a factor e^CLEAR after this many rounds of gap 1 - 2 reach
        gamma = float(hedge_rates("known", s.rounds, s.pool).gamma[0])
        endgame = min(s.rounds, math.ceil((math.log(s.pool) + CLEAR) / (gamma * (1.0 - 2.0 * s.reached))))
    beta = s.update_limit / s.trace_limit
    return Instance(RULE_ID[s.rule], adversary, s.rounds, s.diameter / 2.0, s.constant, beta, s.reached, TAU, endgame,
                    best, teacher, mean)  # fmt: skip


def new_lives(s: Setting, instance: Instance, seed: int) -> Lives:
    """Before the first round: weights 0 (worst case: at one end of W, BCM's threshold at 1), p uniform."""
    m, d = s.pool, s.dim
    worst = instance.adversary == WORST_CASE
    w = np.full((m, d), -instance.radius / math.sqrt(d) if worst else 0.0)
    theta = np.full(m, 1.0 if worst else 0.0)
    random = np.array([seeding.stream(seed, seeding.LIFE, h, 0, 0)[0] for h in range(m)], np.uint64)
    seen = np.array([np.inf, -np.inf, np.inf, -np.inf, 0.0, 0.0])
    sums = (np.zeros(m), np.zeros(m), np.zeros((m, d)), np.zeros(m), np.zeros(m))
    return Lives(w, theta, random, *sums, np.full(m, 1.0 / m), np.zeros(2), seen)


@kernel
def _draw_instance(seed, adversary, gap, teacher, mean):
    """Fill teacher f8 (S, M, d) with unit vectors and mean f8 (S, M) with losses; return the worst case's best one."""
    segments, pool, dim = teacher.shape
    rng = seeding.stream(seed, seeding.INSTANCE, 0, 0, 0)
    for g in range(segments):
        best = seeding.below(rng, pool)
        for h in range(pool):
            mean[g, h] = 0.5 + gap * (seeding.uniform(rng) - 0.5)
            if adversary == SHIFTING:  # one architecture is good, and another in the next segment
                mean[g, h] = 0.2 if h == best else 0.7
            norm = 0.0
            for i in range(dim):
                teacher[g, h, i] = seeding.normal(rng)
                norm += teacher[g, h, i] ** 2
            for i in range(dim):
                teacher[g, h, i] /= math.sqrt(norm)
    return best


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S11, _S16, _16_BITS = np.uint64(11), np.uint64(16), np.uint64(0xFFFF)
BCM = RULE_ID["bcm"]


@kernel
def play(instance, lives, block, first, kind, gamma, restart, alpha, eta, seed):
    """Rounds first, first + 1 .. of Algorithm 1, as many as the block has; gamma, restart, eta f8/b1 (T,)."""
    trace = np.empty(lives.w.shape)  # e f8 (M, d)
    reward = np.empty(len(lives.p))  # r f8 (M,)
    for i in range(len(block.chosen)):
        t = first + i
        outer_select(kind, lives.total, lives.p, gamma[t], restart[t])
        h = draw(lives.p, seed, t)
        losses = block.losses[i]
        if instance.adversary == WORST_CASE:
            _hurt(instance, lives, t, trace, reward, losses)
        else:
            _sense(instance, lives, t, trace, reward, losses)
        _learn(instance, lives, trace, reward, losses, eta[t], block.update_norms[i], block.surrogate[i])
        block.chosen[i] = h
        block.probabilities[i] = lives.p
        lives.spent[0] += _settle(lives.loss, lives.p, losses)
        lives.spent[1] += losses[h]
        outer_update(kind, lives.total, lives.p, losses, h, gamma[t], alpha)


@kernel
def _settle(total, p, losses):
    """Add a round's losses f8 (M,) to the totals; return <p, losses>."""
    spent = 0.0
    for h in range(len(p)):
        total[h] += losses[h]
        spent += p[h] * losses[h]
    return spent


@kernel
def _sense(instance, lives, t, trace, reward, losses):
    """Stochastic activities: fill the traces f8 (M, d), rewards and losses f8 (M,) of a round.

    x is uniform on 2^16 values in [-1, 1]; y = clamp(<teacher, x> + <w, x> / R), so it correlates with the teacher.
    """
    segment = t * instance.mean.shape[0] // instance.rounds
    w, thetas, random = lives.w, lives.theta, lives.random
    teacher, mean = instance.teacher[segment], instance.mean[segment]
    rule, tau, per_radius = instance.rule, instance.tau, 1.0 / instance.radius
    low, slope = 0.5 * instance.reach, instance.constant * instance.beta
    pool, d = w.shape
    for h in range(pool):
        state, bits, y = random[h], np.uint64(0), 0.0
        for j in range(d):
            if j % 4 == 0:
                state += _GOLDEN
                bits = seeding.mix(state)
            x = np.float64(bits & _16_BITS) * (2.0 / 65535.0) - 1.0
            bits >>= _S16
            y += (teacher[h, j] + w[h, j] * per_radius) * x
            trace[h, j] = x
        y = min(max(y, -1.0), 1.0)
        theta = (1.0 - tau) * thetas[h] + tau * y * y
        inner = 0.0
        for j in range(d):
            e = local_trace(rule, trace[h, j], y, w[h, j], theta, trace[h, j] * y, 0.0)
            trace[h, j] = e
            inner += w[h, j] * e
        state += _GOLDEN
        noise = np.float64(seeding.mix(state) >> _S11) * (1.0 / 9007199254740992.0)
        base = low + (1.0 - low) * 0.5 * (noise + mean[h])
        reward[h] = (1.0 - base) / (1.0 - slope * inner)
        losses[h] = 1.0 - reward[h]
        random[h], thetas[h] = state, theta


@kernel
def _hurt(instance, lives, t, trace, reward, losses):
    """The worst case: fill the same.

    Losses: every second architecture fails, by turns (gamma / 8 a round); at the end all but one do (ln M / gamma).
    Activities push w by a full step along (1, .., 1): forth while it is behind -R + D (t + 1) / T, else back. So w
    wanders from -R to R in T rounds of full-length updates, and the projection, which only lowers regret, rests.
    """
    w, thetas = lives.w, lives.theta
    pool, d = w.shape
    rule, tau, best, reach = instance.rule, instance.tau, instance.best, instance.reach
    ending = t >= instance.rounds - instance.endgame
    goal = instance.radius * (2.0 * (t + 1) / instance.rounds - 1.0) * math.sqrt(d)
    y = -1.0  # BCM: y (y - theta) = 2 at theta = 1, so e = 2 x; Hebb: e = -x
    for h in range(pool):
        fails = h != best if ending else (h - best + t) % 2 != 0
        losses[h] = 1.0 - reach if fails else reach
        reward[h] = 1.0
        at = 0.0
        for j in range(d):
            at += w[h, j]
        x = 1.0 if (at < goal) == (rule == BCM) else -1.0
        theta = (1.0 - tau) * thetas[h] + tau * y * y
        thetas[h] = theta
        for j in range(d):
            trace[h, j] = local_trace(rule, x, y, w[h, j], theta, x * y, 0.0)


@kernel
def _learn(instance, lives, trace, reward, losses, eta, norms, surrogate):
    """u = beta r e;  w <- project(w + eta u) for every architecture; adds to the sums, fills |u_t| and L_t(w_t)."""
    w, drift, pulls, energy, seen = lives.w, lives.drift, lives.pull, lives.energy, lives.seen
    radius, beta, constant = instance.radius, instance.beta, instance.constant
    low, high, least, most, longest, largest = seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]
    pool, d = w.shape
    for h in range(pool):
        scale, pull, norm2, length2 = beta * reward[h], 0.0, 0.0, 0.0
        for j in range(d):
            u = scale * trace[h, j]
            pull += w[h, j] * u
            norm2 += u * u
            drift[h, j] += u
            moved = w[h, j] + eta * u
            w[h, j] = moved
            length2 += moved * moved
        if length2 > radius * radius:
            shrink = radius / math.sqrt(length2)
            for j in range(d):
                w[h, j] *= shrink
            length2 = radius * radius
        norm = math.sqrt(norm2)
        pulls[h] += pull
        energy[h] += eta * norm2
        norms[h], surrogate[h] = norm, -pull
        # l_t(h, v) = loss + C pull - C <v, u> has its extremes over the ball at v = +-R u / |u|
        middle, swing = losses[h] + constant * pull, constant * radius * norm
        low, high = min(low, middle - swing), max(high, middle + swing)
        least, most = min(least, reward[h]), max(most, reward[h])
        longest, largest = max(longest, length2), max(largest, norm)
    seen[0], seen[1], seen[2], seen[3], seen[4], seen[5] = low, high, least, most, longest, largest
