"""Selecting from a finite pool of M architectures: Hedge, EXP3 and Fixed-Share, each with its published bound.

They are the outer loop of the paper's Algorithm 1 where nothing evolves: OuterInit (`hedge`, `exp3`, `fixed_share`),
OuterSelect (`ask`), OuterUpdate (`tell`). Losses lie in [0, 1]. A selector's state is one array and the round, and the
draw of round t is named by (seed, t), so it is saved and restored whole.

    Hedge        sees every loss; p_t(h) ~ exp(-gamma_t sum_{s<t} l_s(h))                   (Freund and Schapire 1997)
    EXP3         sees the chosen one's loss alone, as l / p_t(h_t)                          (Auer et al. 2002)
    Fixed-Share  sees every loss; gives a part alpha of the weight back to all              (Herbster and Warmuth 1998)

Legend: M architectures (the pool), T rounds, k switches of the comparator.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neol import seeding
from neol.errors import NeolError, nearest
from neol.jit import kernel

HEDGE, EXP3, FIXED_SHARE = range(3)
SCHEDULES = ("known", "decreasing", "doubling")
LARGEST_POOL, MOST_ROUNDS = 10**6, 10**9


class Rates(NamedTuple):
    """The learning rate of every round, and where the weights start afresh."""

    gamma: np.ndarray  # f8 (T,) not increasing from a restart to the next
    restart: np.ndarray  # b1 (T,) the first round of an epoch


def count(name: str, value: int, largest: int) -> int:
    """The value, or a NeolError: it must be a whole number from 1 to `largest`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 1 <= value <= largest:
        raise NeolError(f"{name} = {value} is not allowed; it must be a whole number from 1 to {largest:,}.")
    return int(value)


def epochs(schedule: str, rounds: int) -> np.ndarray:
    """The length that each round's rate is tuned for, i8 (T,): T | the rounds so far | the epoch's 1, 2, 4, 8 ..."""
    count("rounds", rounds, MOST_ROUNDS)
    if schedule not in SCHEDULES:
        raise NeolError(f"schedule = '{schedule}' is not allowed; {nearest(schedule, SCHEDULES)}")
    t = np.arange(1, rounds + 1)
    if schedule == "known":
        return np.full(rounds, rounds)
    if schedule == "decreasing":
        return t
    return np.left_shift(1, np.frexp(t.astype(float))[1].astype(np.int64) - 1)  # 2^floor(log2 t)


def _rates(schedule: str, tuned: np.ndarray, known: float, anytime: float) -> Rates:
    """gamma_t = factor / sqrt(n_t), n_t the length that round t is tuned for."""
    gamma = (anytime if schedule == "decreasing" else known) / np.sqrt(tuned)
    restart = np.zeros(len(tuned), np.bool_)
    restart[0] = True
    if schedule == "doubling":
        restart[1:] = tuned[1:] != tuned[:-1]
    return Rates(gamma, restart)


def hedge_rates(schedule: str, rounds: int, pool: int) -> Rates:
    """gamma = sqrt(8 ln M / T) (Lemma 2); decreasing: gamma_t = 2 sqrt(ln M / t) (Bubeck 2011)."""
    log_m = math.log(count("pool", pool, LARGEST_POOL))
    return _rates(schedule, epochs(schedule, rounds), math.sqrt(8.0 * log_m), 2.0 * math.sqrt(log_m))


def hedge_bound(rates: Rates, pool: int) -> float:
    """Lemma 2, epoch by epoch: ln M / gamma_last + sum gamma_t / 8; known T: sqrt(T ln M / 2)."""
    return _by_epoch(rates, math.log(pool), 1.0 / 8.0)


def exp3_rates(schedule: str, rounds: int, pool: int) -> Rates:
    """gamma = sqrt(2 ln M / (T M)); decreasing: sqrt(ln M / (t M)) (Bubeck and Cesa-Bianchi 2012, Theorem 3.1)."""
    share = math.log(count("pool", pool, LARGEST_POOL)) / pool
    return _rates(schedule, epochs(schedule, rounds), math.sqrt(2.0 * share), math.sqrt(share))


def exp3_bound(rates: Rates, pool: int) -> float:
    """Of the expected regret: ln M / gamma_last + (M / 2) sum gamma_t; known T: sqrt(2 T M ln M)."""
    return _by_epoch(rates, math.log(pool), pool / 2.0)


def _by_epoch(rates: Rates, log_m: float, factor: float) -> float:
    if log_m == 0.0:  # one architecture: nothing to choose, no regret
        return 0.0
    first = np.flatnonzero(rates.restart)
    last = np.append(first[1:], len(rates.gamma)) - 1
    return float((log_m / rates.gamma[last]).sum() + factor * rates.gamma.sum())


def share_rates(rounds: int, pool: int, switches: int) -> tuple[Rates, float]:
    """Fixed-Share's gamma and alpha for known T and k (Cesa-Bianchi and Lugosi 2006, Corollary 5.1)."""
    count("rounds", rounds, MOST_ROUNDS)
    count("pool", pool, LARGEST_POOL)
    if not 0 <= switches < rounds:
        raise NeolError(f"switches = {switches} is not allowed; it must be from 0 to rounds - 1 = {rounds - 1}.")
    alpha = switches / (rounds - 1) if rounds > 1 else 0.0
    # gamma = sqrt((8 / T) ((k + 1) ln M + (T - 1) H(alpha)))
    gamma = math.sqrt(8.0 / rounds * ((switches + 1) * math.log(pool) + (rounds - 1) * _entropy(alpha)))
    return _rates("known", np.ones(rounds), gamma, gamma), alpha


def share_bound(rates: Rates, pool: int, switches: int, alpha: float) -> float:
    """Against any sequence with at most k switches (Theorem 5.2 there).

    ((k + 1) ln M + ln 1 / (alpha^k (1 - alpha)^(T - k - 1))) / gamma + gamma T / 8
    """
    rounds, gamma = len(rates.gamma), float(rates.gamma[0])
    if gamma == 0.0:
        return 0.0
    prior = -switches * math.log(alpha) if switches else 0.0
    stays = rounds - switches - 1
    prior -= stays * math.log1p(-alpha) if stays else 0.0
    return ((switches + 1) * math.log(pool) + prior) / gamma + gamma * rounds / 8.0


def _entropy(p: float) -> float:
    return 0.0 if p in (0.0, 1.0) else -p * math.log(p) - (1.0 - p) * math.log1p(-p)


def check_losses(losses: np.ndarray, when: str) -> None:
    """A NeolError that names the range observed, where a loss lies outside [0, 1] or is no number."""
    low, high = float(np.min(losses)), float(np.max(losses))
    if not (low >= 0.0 and high <= 1.0):
        raise NeolError(f"losses must lie in [0, 1], but those of {when} lie in [{low:.6g}, {high:.6g}].")


class Selector:
    """A distribution p_t over the pool, in the shape of `neat.Neat`: ask, tell, state, restore."""

    def __init__(self, kind: int, pool: int, rates: Rates, seed: int, alpha: float = 0.0) -> None:
        self.kind, self.pool, self.rates, self.seed, self.alpha = kind, pool, rates, seed, alpha
        self.round = 0
        self.total = np.zeros(pool)  # sum of (estimated) losses since the last restart
        self.p = np.empty(pool)
        self._select()

    def _select(self) -> None:
        t = min(self.round, len(self.rates.gamma) - 1)  # past the horizon the last rate holds
        restart = bool(self.rates.restart[t]) and self.round == t
        outer_select(self.kind, self.total, self.p, self.rates.gamma[t], restart)
        self.chosen = int(draw(self.p, self.seed, self.round))

    def ask(self) -> int:
        """OuterSelect: h_t, drawn from p_t."""
        return self.chosen

    def tell(self, losses: np.ndarray) -> None:
        """OuterUpdate with the losses f8 (M,) of this round; under bandit feedback only the chosen one's is read."""
        check_losses(losses[self.chosen] if self.kind == EXP3 else losses, f"round {self.round}")
        gamma = self.rates.gamma[min(self.round, len(self.rates.gamma) - 1)]
        outer_update(self.kind, self.total, self.p, losses, self.chosen, gamma, self.alpha)
        self.round += 1
        self._select()

    def state(self) -> dict[str, np.ndarray]:
        """Everything that `restore` needs, as named arrays."""
        return {"round": np.array(self.round), "total": self.total.copy(), "p": self.p.copy()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from a `state`."""
        self.round = int(arrays["round"])
        self.total, self.p = arrays["total"].copy(), arrays["p"].copy()
        self.chosen = int(draw(self.p, self.seed, self.round))


def hedge(pool: int, rounds: int, seed: int, schedule: str = "known") -> Selector:
    """Exponential weights over the pool (A6), full information (A7)."""
    return Selector(HEDGE, pool, hedge_rates(schedule, rounds, pool), seed)


def exp3(pool: int, rounds: int, seed: int, schedule: str = "known") -> Selector:
    """The same, where only the chosen architecture's loss is seen."""
    return Selector(EXP3, pool, exp3_rates(schedule, rounds, pool), seed)


def fixed_share(pool: int, rounds: int, switches: int, seed: int) -> Selector:
    """Hedge that can follow a comparator with k switches; with k = 0 it is Hedge."""
    rates, alpha = share_rates(rounds, pool, switches)
    return Selector(FIXED_SHARE if switches else HEDGE, pool, rates, seed, alpha)


@kernel
def outer_select(kind, total, p, gamma, restart):
    """p_t f8 (M,) of this round; `total` f8 (M,) sums (estimated) losses since the last restart."""
    if restart:
        total[:] = 0.0
        p[:] = 1.0 / len(p)
    if kind != FIXED_SHARE:
        exponential_weights(total, gamma, p)


@kernel
def exponential_weights(total, gamma, p):
    """p(h) = exp(-gamma total(h)) / sum: the least total is taken off first, so the largest weight is exactly 1."""
    least = total[0]
    for h in range(1, len(total)):
        least = min(least, total[h])
    for h in range(len(total)):
        p[h] = math.exp(-gamma * (total[h] - least))
    norm = _sum(p)
    for h in range(len(total)):
        p[h] /= norm


@kernel
def _sum(p):
    """The sum of f8 (M,), in parts of 128: rounding grows with M / 128, not with M."""
    total = 0.0
    for first in range(0, len(p), 128):
        part = 0.0
        for h in range(first, min(first + 128, len(p))):
            part += p[h]
        total += part
    return total


@kernel
def outer_update(kind, total, p, losses, chosen, gamma, alpha):
    """Take in the losses f8 (M,) of a round."""
    if kind == EXP3:
        total[chosen] += losses[chosen] / p[chosen]  # unbiased: E over h_t is l_t(h)
    elif kind == HEDGE:
        for h in range(len(total)):
            total[h] += losses[h]
    else:
        for h in range(len(p)):
            p[h] *= math.exp(-gamma * losses[h])
        norm = _sum(p)
        for h in range(len(p)):  # p_{t+1} = alpha / M + (1 - alpha) v
            p[h] = alpha / len(p) + (1.0 - alpha) * p[h] / norm


@kernel
def draw(p, seed, t):
    """h_t ~ p f8 (M,): the draw named (seed, t)."""
    left = seeding.uniform(seeding.stream(seed, seeding.CHOICE, t, 0, 0))
    last = 0
    for h in range(len(p)):
        if p[h] > 0.0:
            last = h
            left -= p[h]
            if left < 0.0:
                break
    return last


@kernel
def best_switching(best, losses):
    """Advance the dynamic programme of the best sequence with at most k switches through the losses f8 (n, M).

    best f8 (k+1, M): the least loss so far of a sequence with at most j switches that ends in h. Start with zeros.
    """
    for t in range(losses.shape[0]):
        for j in range(best.shape[0] - 1, -1, -1):
            switched = best[j - 1].min() if j > 0 else np.inf  # row j - 1 is still that of the round before
            for h in range(best.shape[1]):
                best[j, h] = min(best[j, h], switched) + losses[t, h]
