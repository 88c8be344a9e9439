"""Summaries of run folders -> one CSV line each: python results/collect.py FOLDER > results/NAME.csv"""

import csv
import sys
from pathlib import Path

import numpy as np

import neol

COLUMNS = (
    "run", "task", "rule", "lr", "seed", "generations", "env_steps", "selection_env_steps", "best_fitness",
    "best_by_fitness_return_mean", "champion_return_mean", "ci95_low", "ci95_high",
    "champion_without_plasticity_return_mean", "champion_connections", "first_generation_at_best", "parameters",
    "cpu_seconds",
)  # fmt: skip

writer = csv.writer(sys.stdout, lineterminator="\n")
writer.writerow(COLUMNS)
for folder in sorted(p.parent for p in Path(sys.argv[1]).glob("*/summary.json")):
    run = neol.load(folder)
    s, settings = run.summary.as_dict(), run.config.flat()
    low, high = s["champion_return_ci95"]
    best = run.history["best_fitness"]
    values = {
        **s, "run": folder.name, "rule": settings["rule"], "lr": settings["lr"], "seed": settings["seed"],
        "ci95_low": low, "ci95_high": high, "first_generation_at_best": int(np.argmax(best >= best.max())),
    }  # fmt: skip
    writer.writerow([round(v, 2) if isinstance(v := values[c], float) and c != "lr" else v for c in COLUMNS])
