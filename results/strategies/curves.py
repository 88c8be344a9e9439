"""Evolution strategies beside PPO while they train: returns over env steps and over CPU seconds.

python results/strategies/curves.py collect RUNS PPO STUDY > results/strategies/curves.csv  (runs are named TASK-SEED)
python results/strategies/curves.py draw results/strategies/curves.csv docs/images/strategies.svg
"""

import csv
import sqlite3
import sys
from pathlib import Path

import numpy as np

import neol

TASKS = ("lunarlander", "hopper", "bipedalwalker")
POINTS = 80  # of a run
PPO_SECONDS = 176e-6  # of a processor for a step of PPO on the lander: what the study's runs took on average


def collect(folders: list[str]) -> None:
    """One line per run and point: the mean return of a generation's samples, of an interval's episodes."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("task", "who", "seed", "env_steps", "cpu_seconds", "mean_return"))
    *folders, study = folders
    with sqlite3.connect(study) as db:  # the lander's runs of PPO: results/studies/equal-budget-1m
        query = "SELECT seed, env_steps, mean_return FROM cells JOIN generations USING (run) WHERE arm = 'ppo'"
        for seed, steps, returned in db.execute(query + " ORDER BY seed, env_steps"):
            writer.writerow(("lunarlander", "PPO", seed, steps, round(steps * PPO_SECONDS, 2), round(returned, 2)))
    for who, folder in zip(("ES", "PPO"), folders, strict=True):
        for path in sorted(Path(folder).glob("*/summary.json")):
            task, seed = path.parent.name.rsplit("-", 1)
            if task not in TASKS:
                continue
            run = neol.load(path.parent)
            with open(path.parent / "timing.csv") as file:
                cpu = np.array([float(row["cpu_seconds"]) for row in csv.DictReader(file)])
            steps, returns = run.history["env_steps"], run.history["mean_return"]
            for i in np.unique(np.linspace(0, len(steps) - 1, POINTS).astype(int)):
                writer.writerow((task, who, seed, int(steps[i]), round(cpu[i], 2), round(float(returns[i]), 2)))


def draw(source: str, out: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "curves", "font.size": 9}
    import matplotlib.pyplot as plt

    with open(source) as file:
        rows = list(csv.DictReader(file))
    figure, axes = plt.subplots(2, len(TASKS), figsize=(10, 5.5), layout="constrained")
    colours = {"ES": "#0072b2", "PPO": "#d55e00"}
    for column, task in enumerate(TASKS):
        for row, (x, label) in enumerate((("env_steps", "env steps, millions"), ("cpu_seconds", "CPU seconds"))):
            axis, named = axes[row, column], set()
            for who, seed in sorted({(r["who"], r["seed"]) for r in rows if r["task"] == task}):
                own = [r for r in rows if (r["task"], r["who"], r["seed"]) == (task, who, seed)]
                at = np.array([float(r[x]) for r in own]) / (1e6 if row == 0 else 1.0)
                y = [float(r["mean_return"]) for r in own]
                axis.plot(at, y, colours[who], lw=1, alpha=0.8, label=None if who in named else who)
                named.add(who)
            lowest = {"lunarlander": -400, "hopper": 0, "bipedalwalker": -150}[task]
            axis.set(xlabel=label, xlim=(0, None), ylim=(lowest, None), title=task if row == 0 else None)
            axis.grid(color="#dddddd", lw=0.5)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("mean return in training")
    axes[1, 0].set_ylabel("mean return in training")
    axes[0, 0].legend(frameon=False, loc="lower right")
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    collect(sys.argv[2:]) if sys.argv[1] == "collect" else draw(*sys.argv[2:])
