"""Algorithm 1 on the synthetic instances in plain Python, one architecture after the other, a line per equation.

The tests hold the kernels against it. (`benchmarks/regret.py` times a loop like it, with NumPy's own random numbers.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from neol.outer.selectors import EXP3, FIXED_SHARE
from neol.theory.synthetic import WORST_CASE, Instance, Schedule, Setting

MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def splitmix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


class Draws:
    """The activities and the noise of one architecture, as the kernel draws them."""

    def __init__(self, state: int) -> None:
        self.state = state

    def _next(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return splitmix(self.state)

    def activities(self, d: int) -> np.ndarray:
        words = [self._next() for _ in range(-(-d // 4))]
        return np.array([(words[j // 4] >> 16 * (j % 4) & 0xFFFF) * (2.0 / 65535.0) - 1.0 for j in range(d)])

    def noise(self) -> float:
        return (self._next() >> 11) * 2.0**-53


def trace(rule: str, x: np.ndarray, y: float, w: np.ndarray, theta: float) -> np.ndarray:
    if rule == "hebb":
        return x * y
    if rule == "oja":
        return y * (x - y * w)
    return y * (y - theta) * x


def project(w: np.ndarray, radius: float) -> np.ndarray:
    length = np.linalg.norm(w)
    return w if length <= radius else w * (radius / length)


def play(
    s: Setting, p: Schedule, instance: Instance, weights: np.ndarray, theta: np.ndarray, draws: list[Any],
    choose: Callable[[np.ndarray, int], int],
) -> dict[str, np.ndarray]:  # fmt: skip
    """All T rounds; the record, and u_t f8 (T, M, d), w_t f8 (T, M, d)."""
    m, d, q = s.pool, s.dim, s.reached
    w, theta = weights.copy(), theta.copy()
    total, probability = np.zeros(m), np.full(m, 1.0 / m)
    out: dict[str, list[Any]] = {k: [] for k in ("losses", "probabilities", "chosen", "updates", "weights")}
    for t in range(s.rounds):
        gamma, eta = p.rates.gamma[t], p.eta[t]
        if p.rates.restart[t]:
            total, probability = np.zeros(m), np.full(m, 1.0 / m)
        if s.selector != FIXED_SHARE:
            weight = np.exp(-gamma * (total - total.min()))
            probability = weight / weight.sum()
        h = choose(probability, t)
        losses, updates = np.empty(m), np.empty((m, d))
        before = w.copy()
        for a in range(m):
            if instance.adversary == WORST_CASE:
                ending = t >= s.rounds - instance.endgame
                fails = a != instance.best if ending else (a - instance.best + t) % 2 != 0
                losses[a], reward = (1.0 - q if fails else q), 1.0
                goal = instance.radius * (2.0 * (t + 1) / s.rounds - 1.0) * math.sqrt(d)
                forth, y = w[a].sum() < goal, -1.0
                x = np.full(d, 1.0 if forth == (s.rule == "bcm") else -1.0)
            else:
                segment = t * len(instance.mean) // s.rounds
                x = draws[a].activities(d)
                y = float(np.clip((instance.teacher[segment, a] + w[a] / instance.radius) @ x, -1.0, 1.0))
            theta[a] = (1.0 - instance.tau) * theta[a] + instance.tau * y * y
            e = trace(s.rule, x, y, w[a], theta[a])
            if instance.adversary != WORST_CASE:
                base = q / 2 + (1.0 - q / 2) * 0.5 * (draws[a].noise() + instance.mean[segment, a])
                reward = (1.0 - base) / (1.0 - s.constant * instance.beta * (w[a] @ e))
                losses[a] = 1.0 - reward
            updates[a] = instance.beta * reward * e
            w[a] = project(w[a] + eta * updates[a], instance.radius)
        for k, v in zip(out, (losses, probability.copy(), h, updates, before), strict=True):
            out[k].append(v)
        if s.selector == EXP3:
            total[h] += losses[h] / probability[h]
        elif s.selector == FIXED_SHARE:
            v = probability * np.exp(-gamma * losses)
            probability = p.alpha / m + (1.0 - p.alpha) * v / v.sum()
        else:
            total = total + losses
    return {k: np.array(v) for k, v in out.items()}


def best_with_switches(losses: np.ndarray, switches: int) -> float:
    """The least loss of any sequence with at most so many switches, by trying them all."""
    rounds, pool = losses.shape

    def search(t: int, h: int, left: int) -> float:
        if t == rounds:
            return 0.0
        stay = losses[t, h] + search(t + 1, h, left)
        if left == 0 or t == 0:
            return stay
        return min([stay, *(losses[t, a] + search(t + 1, a, left - 1) for a in range(pool) if a != h)])

    return min(search(0, h, switches) for h in range(pool))
