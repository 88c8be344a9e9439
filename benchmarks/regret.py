"""Rounds per second of the theory lab beside plain NumPy, as one JSON object.

    taskset -c 0 python benchmarks/regret.py > regret.json

Algorithm 1, full information, T rounds, M architectures, stochastic instances. `numba` plays all T rounds.
`numpy_loop` is Algorithm 1 written the obvious way: for every round, for every architecture, a few NumPy lines.
`numpy_vectorised` keeps the loop over rounds and has arrays over the architectures instead. The slow ones play
`--loop-rounds` of the T rounds (their cost per round is constant) and are scaled to T; the JSON says how many they
played. All in one process, by the processor's clock. Before anything is timed, the NumPy versions and the kernel are
held against each other on the worst-case instance, which has no randomness.

`--safety` instead plays T = 10 million rounds of Hedge for M = 1 and M = 10,000 with losses 0 or 1 and prints the
largest error of sum p (checked every 1,000 rounds at M = 10,000, every round at M = 1).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from typing import Any

import numpy as np

from neol.jit import kernel
from neol.outer.selectors import exponential_weights, hedge_rates, outer_select, outer_update
from neol.theory.regret import measure
from neol.theory.synthetic import Setting, make_instance, new_lives, plan


def trace(rule: str, x: np.ndarray, y: Any, w: np.ndarray, theta: Any) -> np.ndarray:
    return {"hebb": x * y, "oja": y * (x - y * w), "bcm": y * (y - theta) * x}[rule]


def numpy_loop(s: Setting, rounds: int, seed: int) -> tuple[float, np.ndarray]:
    """The obvious way: sum_t <p_t, l_t> and the inner regrets f8 (M,) after so many of the T rounds."""
    p, instance = plan(s), make_instance(s, seed)
    start, rng = new_lives(s, instance, seed), np.random.default_rng(seed)
    w, theta, total = start.w.copy(), start.theta.copy(), np.zeros(s.pool)
    gamma, eta, worst = p.rates.gamma[0], p.eta[0], s.adversary == "worst-case"
    drift, pull, spent = np.zeros((s.pool, s.dim)), np.zeros(s.pool), 0.0
    for t in range(rounds):
        weight = np.exp(-gamma * (total - total.min()))
        probability = weight / weight.sum()
        rng.choice(s.pool, p=probability)  # h_t
        losses = np.empty(s.pool)
        for h in range(s.pool):
            if worst:
                goal = instance.radius * (2.0 * (t + 1) / s.rounds - 1.0) * math.sqrt(s.dim)
                x, y = np.full(s.dim, 1.0 if (w[h].sum() < goal) == (s.rule == "bcm") else -1.0), -1.0
            else:
                x = rng.uniform(-1.0, 1.0, s.dim)
                y = np.clip((instance.teacher[0, h] + w[h] / instance.radius) @ x, -1.0, 1.0)
            theta[h] = (1.0 - instance.tau) * theta[h] + instance.tau * y * y
            e = trace(s.rule, x, y, w[h], theta[h])
            if worst:
                ending = t >= s.rounds - instance.endgame
                fails = h != instance.best if ending else (h - instance.best + t) % 2 != 0
                losses[h], reward = (1.0 - s.reached if fails else s.reached), 1.0
            else:
                low = 0.5 * s.reached
                base = low + (1.0 - low) * 0.5 * (rng.uniform() + instance.mean[0, h])
                reward = (1.0 - base) / (1.0 - s.constant * instance.beta * (w[h] @ e))
                losses[h] = 1.0 - reward
            u = instance.beta * reward * e
            pull[h] += w[h] @ u
            drift[h] += u
            w[h] = w[h] + eta * u
            length = np.linalg.norm(w[h])
            if length > instance.radius:
                w[h] *= instance.radius / length
        spent += probability @ losses
        total += losses
    return float(spent), instance.radius * np.linalg.norm(drift, axis=1) - pull


def numpy_vectorised(s: Setting, rounds: int, seed: int) -> tuple[float, np.ndarray]:
    """The same with arrays over the architectures."""
    p, instance = plan(s), make_instance(s, seed)
    start, rng = new_lives(s, instance, seed), np.random.default_rng(seed)
    w, theta, total = start.w.copy(), start.theta.copy(), np.zeros(s.pool)
    gamma, eta, worst = p.rates.gamma[0], p.eta[0], s.adversary == "worst-case"
    drift, pull, spent = np.zeros((s.pool, s.dim)), np.zeros(s.pool), 0.0
    away = np.arange(s.pool) - instance.best
    for t in range(rounds):
        weight = np.exp(-gamma * (total - total.min()))
        probability = weight / weight.sum()
        rng.choice(s.pool, p=probability)  # h_t
        if worst:
            goal = instance.radius * (2.0 * (t + 1) / s.rounds - 1.0) * math.sqrt(s.dim)
            x = np.where((w.sum(axis=1) < goal) == (s.rule == "bcm"), 1.0, -1.0)[:, None] * np.ones(s.dim)
            y = np.full((s.pool, 1), -1.0)
        else:
            x = rng.uniform(-1.0, 1.0, (s.pool, s.dim))
            y = np.clip(((instance.teacher[0] + w / instance.radius) * x).sum(axis=1, keepdims=True), -1.0, 1.0)
        theta = (1.0 - instance.tau) * theta + instance.tau * y[:, 0] ** 2
        e = trace(s.rule, x, y, w, theta[:, None])
        if worst:
            fails = away != 0 if t >= s.rounds - instance.endgame else (away + t) % 2 != 0
            losses, reward = np.where(fails, 1.0 - s.reached, s.reached), np.ones(s.pool)
        else:
            low = 0.5 * s.reached
            base = low + (1.0 - low) * 0.5 * (rng.uniform(size=s.pool) + instance.mean[0])
            reward = (1.0 - base) / (1.0 - s.constant * instance.beta * (w * e).sum(axis=1))
            losses = 1.0 - reward
        u = instance.beta * reward[:, None] * e
        pull += (w * u).sum(axis=1)
        drift += u
        w = w + eta * u
        length = np.linalg.norm(w, axis=1, keepdims=True)
        w *= np.minimum(1.0, instance.radius / np.maximum(length, 1e-300))
        spent += probability @ losses
        total += losses
    return float(spent), instance.radius * np.linalg.norm(drift, axis=1) - pull


def agree(rule: str) -> None:
    """All three give the same regret where nothing is random."""
    s = Setting(rule, 200, 6, 4, adversary="worst-case")
    o = measure(s, 0)
    for version in (numpy_loop, numpy_vectorised):
        _, inner = version(s, s.rounds, 0)
        if not math.isclose(inner.max(), o.inner[-1], rel_tol=1e-9):
            raise SystemExit(f"{version.__name__} disagrees with the kernel: {inner.max()} is not {o.inner[-1]}")


def timed(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def speed(args: argparse.Namespace) -> dict[str, Any]:
    agree(args.rule)
    s = Setting(args.rule, args.rounds, args.pool, args.dim)
    measure(s.with_rounds(10), 0)  # compiles
    numba = [timed(lambda: measure(s, 0)) for _ in range(args.repeats)]
    loops = min(args.loop_rounds, s.rounds)
    loop = timed(lambda: numpy_loop(s, loops, 0)) * s.rounds / loops
    vectors = min(10 * loops, s.rounds)
    vectorised = timed(lambda: numpy_vectorised(s, vectors, 0)) * s.rounds / vectors
    best = min(numba)
    return {
        "benchmark": "Algorithm 1, full information, seconds for T rounds on one core",
        "rounds": s.rounds, "pool": s.pool, "dim": s.dim, "rule": s.rule,
        "numba_seconds": round(best, 3), "numba_seconds_each": [round(x, 3) for x in numba],
        "numpy_loop_seconds": round(loop, 1), "numpy_loop_rounds_played": loops,
        "numpy_vectorised_seconds": round(vectorised, 1), "numpy_vectorised_rounds_played": vectors,
        "speedup_over_numpy_loop": round(loop / best, 1),
        "speedup_over_numpy_vectorised": round(vectorised / best, 1),
        "machine": {"processor": platform.machine(), "python": platform.python_version(), "numpy": np.__version__},
    }  # fmt: skip


@kernel
def hedge_rounds(total, p, losses, rounds, gamma, every):
    """Hedge on losses f8 (L, M), row t % L in round t; the largest error of sum p, and whether all was finite."""
    worst, finite = 0.0, True
    for t in range(rounds):
        if t % every == 0 or t == rounds - 1:
            outer_select(0, total, p, gamma, False)
            s = p.sum()
            worst = max(worst, abs(s - 1.0))
            finite &= np.isfinite(s)
        outer_update(0, total, p, losses[t % len(losses)], 0, gamma, 0.0)
    return worst, finite


def safety(rounds: int) -> dict[str, Any]:
    out: dict[str, Any] = {"benchmark": "Hedge, largest |sum p - 1|", "rounds": rounds, "cases": []}
    for pool in (1, 10_000):
        one = np.ones(pool)
        one[pool // 2] = 0.0
        cases = {"all 0": [np.zeros(pool)], "all 1": [np.ones(pool)], "by turns": [np.zeros(pool), np.ones(pool)]}
        cases["all 1 but one"] = [one]
        for name, rows in cases.items():
            total, p, every = np.zeros(pool), np.zeros(pool), 1 if pool == 1 else 1000
            gamma = float(hedge_rates("known", rounds, pool).gamma[0])
            started = time.process_time()
            worst, finite = hedge_rounds(total, p, np.array(rows), rounds, gamma, every)
            exponential_weights(total, gamma, p)
            line = {"pool": pool, "losses": name, "largest_error": worst, "finite": bool(finite)}
            line |= {"last_error": abs(float(p.sum()) - 1.0), "checked_every": every}
            print(line, f"{time.process_time() - started:.0f} s", file=sys.stderr, flush=True)
            out["cases"].append(line)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--pool", type=int, default=256)
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--rule", default="hebb")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--loop-rounds", type=int, default=500, help="rounds that the NumPy loop plays; ten times for arrays"
    )
    parser.add_argument("--safety", action="store_true", help="ten million rounds of Hedge instead")
    args = parser.parse_args()
    print(json.dumps(safety(10_000_000) if args.safety else speed(args), indent=2))


if __name__ == "__main__":
    main()
