"""Visual discrimination (Stanley, D'Ambrosio and Gauci 2009): evolved at 11 x 11, tested at 33 x 33 and 55 x 55.

Arms: `grid`, HyperNEAT on the paper's 75 pictures; `random`, HyperNEAT on other pictures in every generation; `leo`,
grid with a link expression output; `direct`, NEAT over the 14,641 weights themselves, which has no other resolution.
Every champion is scored on the 75 pictures, and on others that are placed at random, at each resolution: no further
evolution. Runs go into --out and are resumed there. An existing result is added to.

Run: python benchmarks/visual_discrimination.py --out runs/visual --json results/hyperneat/visual.json [--seeds N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import neol
from neol.deploy.visual_score import visual_score
from neol.envs.visual import PLACEMENTS, RESOLUTIONS
from neol.training.substrate_file import at_resolution

HYPER: dict[str, Any] = {"encoding": "hyperneat"}
ARMS: dict[str, dict[str, Any]] = {
    "grid": HYPER,
    "random": {**HYPER, "env_kwargs": ["placement=random"]},
    "leo": {**HYPER, "expression": "leo"},
    "direct": {"encoding": "direct"},
}
HOW: dict[str, Any] = {"threads": 1, "champion_candidates": 3, "champion_trials": 2, "champion_episodes": 10}
RANDOM_EPISODES = {11: 10, 33: 10, 55: 2}  # of 75 pictures each
MEASURES = ("mean_squared_distance", "mean_distance", "near", "found")


def one(arm: str, seed: int, generations: int, out: Path) -> dict[str, Any]:
    run = neol.train(
        "visual-discrimination", out=out / f"{arm}-{seed}", resume=True, progress=False, seed=seed,
        generations=generations, **ARMS[arm], **HOW,
    )  # fmt: skip
    scores = []
    for resolution in RESOLUTIONS if "encoding" in ARMS[arm] and ARMS[arm]["encoding"] != "direct" else RESOLUTIONS[:1]:
        hyper = run.config.run.encoding == "hyperneat"
        net = at_resolution(run.path, run.config, resolution) if hyper else run.champion
        for placement in PLACEMENTS:
            count = 1 if placement == "grid" else RANDOM_EPISODES[resolution]
            scores.append(visual_score(net, placement, count)._asdict())
    s = run.summary.as_dict()
    facts = {k: s.get(k) for k in ("generations", "env_steps", "cpu_seconds", "parameters", "cppn_parameters")}
    return {"arm": arm, "seed": seed, "budget": generations, **facts, "scores": scores}


def medians(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By arm, resolution and placement: the median over seeds of each measure."""
    found: dict[str, Any] = {}
    for arm in dict.fromkeys(r["arm"] for r in rows):
        mine = [r for r in rows if r["arm"] == arm]
        keys = [(s["resolution"], s["placement"]) for s in mine[0]["scores"]]
        for place, (resolution, placement) in enumerate(keys):
            values = {m: statistics.median(r["scores"][place][m] for r in mine) for m in MEASURES}
            found[f"{arm} {resolution} {placement}"] = {"seeds": len(mine), **values}
        found[f"{arm} solved"] = sum(r["scores"][0]["found"] == 1.0 for r in mine)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--arms", nargs="+", default=["grid", "random"], choices=list(ARMS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--generations", type=int, default=300)
    args = parser.parse_args()
    rows = json.loads(args.json.read_text())["runs"] if args.json.exists() else []
    for seed in range(args.seeds):
        for arm in args.arms:
            if any((r["arm"], r["seed"]) == (arm, seed) for r in rows):
                continue
            rows.append(one(arm, seed, args.generations, args.out))
            print(arm, seed, [round(s["mean_squared_distance"], 4) for s in rows[-1]["scores"]], file=sys.stderr)
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps({"medians": medians(rows), "runs": rows}, indent=1) + "\n")
    print(json.dumps(medians(rows), indent=1))


if __name__ == "__main__":
    main()
