"""The bounds over many seeds: every rule x T x M x adversary, regret measured beside its bound; a table and a summary.

    python results/theory/sweep.py --out results/theory            (about a quarter of an hour on one core)

sweep.csv has a line per (case, rule, T, M): the largest regret over the seeds beside its bound. sweep.json has, per
case, how often a bound was exceeded (never, if all is well), how near it was reached, and the slope of log regret over
log T.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from neol.files import write_atomic
from neol.outer.selectors import EXP3
from neol.theory.regret import KINDS, measure, slope, tolerance
from neol.theory.synthetic import Setting

CASES: dict[str, dict[str, Any]] = {
    "hedge, stochastic": {"adversary": "stochastic"},
    "hedge, worst case": {"adversary": "worst-case", "diameter": 0.1},
    "hedge, worst case, decreasing rates": {"adversary": "worst-case", "diameter": 0.1, "schedule": "decreasing"},
    "hedge, worst case, doubling": {"adversary": "worst-case", "diameter": 0.1, "schedule": "doubling"},
    "fixed-share, shifting, 4 switches": {"adversary": "shifting", "switches": 4},
    "exp3, stochastic": {"feedback": "bandit"},
    "exp3, worst case": {"feedback": "bandit", "adversary": "worst-case", "diameter": 0.1},
}
FULL = ("hedge, stochastic", "hedge, worst case")  # the others leave out the largest T at the largest M
COLUMNS = ("case", "rule", "rounds", "pool", "seeds", *(f"{k}_{w}" for k in KINDS for w in ("regret", "bound")), "held")


def cell(case: str, rule: str, rounds: int, pool: int, seeds: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All seeds of one setting: its line of the table, and the regrets f8 (K,) by kind."""
    s = Setting(rule=rule, rounds=rounds, pool=pool, dim=4, **CASES[case])
    outcomes = [measure(s, seed) for seed in range(seeds)]
    line: dict[str, Any] = {"case": case, "rule": rule, "rounds": rounds, "pool": pool, "seeds": seeds}
    regrets, held = {}, min(o.slack for o in outcomes) >= -tolerance(rounds)
    for kind in KINDS:
        values = regrets[kind] = np.array([getattr(o, kind)[-1] for o in outcomes])
        bound = float(getattr(outcomes[0], f"{kind}_bound")[-1])
        # EXP3 bounds the expected regret: the mean over seeds; everything else holds for each run
        worst = float(values.mean() if s.selector == EXP3 and kind != "inner" else values.max())
        line |= {f"{kind}_regret": worst, f"{kind}_bound": bound}
        held = held and worst <= bound + tolerance(rounds)
    seen = np.array([o.seen for o in outcomes])
    legal = (
        seen[:, 0].min() >= -1e-9 and seen[:, 1].max() <= 1.0 + 1e-9 and seen[:, 5].max() <= s.update_limit * (1 + 1e-9)
    )
    if not legal:
        raise SystemExit(f"{line}: the instance breaks A2 or A4: {seen.min(axis=0)} .. {seen.max(axis=0)}")
    return line | {"held": held}, regrets


def facts(lines: list[dict[str, Any]], regrets: dict[tuple[str, int], list[dict[str, np.ndarray]]]) -> dict[str, Any]:
    """What one case shows."""
    slopes = {}
    for (rule, pool), cells in regrets.items():
        rounds = [x["rounds"] for x in lines if (x["rule"], x["pool"]) == (rule, pool)]
        for kind in KINDS:
            found = slope(rounds, np.array([c[kind] for c in cells]).T)
            slopes[f"{kind}, {rule}, M = {pool}"] = found["value"]
    known = [v for k, v in slopes.items() if v is not None and k.startswith("total")]
    longest = max(x["rounds"] for x in lines)
    ratios = {k: [x[f"{k}_regret"] / (x[f"{k}_bound"] or 1.0) for x in lines] for k in KINDS}
    return {
        "settings": len(lines),
        "runs": sum(x["seeds"] for x in lines),
        "exceeded": sum(not x["held"] for x in lines),
        "largest_regret_over_bound": {k: max(v) for k, v in ratios.items()},
        "at_the_largest_T": {k: [ratios[k][i] for i, x in enumerate(lines) if x["rounds"] == longest]
                             for k in KINDS},
        "largest_slope_of_total": max(known) if known else None,
        "slopes": slopes,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/theory"))
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--rounds", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--pools", type=int, nargs="+", default=[2, 16, 256])
    parser.add_argument("--rules", nargs="+", default=["hebb", "oja", "bcm"])
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    args = parser.parse_args()
    started, lines, cases = time.monotonic(), [], {}
    plan = list(itertools.product(args.cases, args.rules, args.pools, args.rounds))
    heavy = max(args.rounds) * max(args.pools)
    plan = [p for p in plan if p[0] in FULL or p[2] * p[3] < heavy]
    work, done = sum(p[2] * p[3] for p in plan), 0
    regrets: dict[str, dict[tuple[str, int], list[dict[str, np.ndarray]]]] = {c: {} for c in args.cases}
    for case, rule, pool, rounds in plan:
        line, values = cell(case, rule, rounds, pool, args.seeds)
        lines.append(line)
        regrets[case].setdefault((rule, pool), []).append(values)
        done += pool * rounds
        spent = time.monotonic() - started
        print(f"{case}, {rule}, T = {rounds:,}, M = {pool}: held {line['held']}  {done / work:.0%}  "
              f"ETA {spent * (work - done) / done:.0f} s", file=sys.stderr, flush=True)  # fmt: skip
    for case in args.cases:
        cases[case] = facts([x for x in lines if x["case"] == case], regrets[case])
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(lines)
    write_atomic(args.out / "sweep.csv", text.getvalue())
    command = "python results/theory/sweep.py " + " ".join(sys.argv[1:])
    out = {"command": command.strip(), "seconds": round(time.monotonic() - started), "dim": 4, "cases": cases}
    write_atomic(args.out / "sweep.json", json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
