# %% A study read from Python: arms x seeds, as arrays. Run: python examples/study.py (two minutes; cells for an editor)
import subprocess
import sys
from pathlib import Path

import neol
from neol import stats

FILE = Path("runs/study-example.toml")
FILE.parent.mkdir(exist_ok=True)
FILE.write_text("""
[study]
title = "Hebb on the lunar lander, small"
tasks = ["lunarlander"]
seeds = 5

[budget]
max_env_steps = 200_000

[[arm]]
name = "hebb"
rule = "hebb"
""")

# %% The same as `neol study run FILE --out DIR`; start it again and it goes on. The matched control comes by itself.
DIR = "runs/study-example"
subprocess.run([sys.executable, "-m", "neol", "study", "run", str(FILE), "--out", DIR], check=True)

# %% Scores: (task, arm) -> one number per seed
study = neol.Study(DIR)
for metric in ("held_out", "best_return", "gap"):
    for (task, arm), values in study.scores(metric).items():
        print(f"{metric:<12} {task} {arm:<14} {values.round(1)}")

# %% Statistics: the unit is the run
held_out = study.scores("held_out")
plastic, control = held_out["lunarlander", "hebb"], held_out["lunarlander", "hebb-control"]
print("rank-sum p", stats.rank_sum(plastic, control), " A12", stats.a12(plastic, control))

# %% Learning curves, the best network, and (with pandas) a DataFrame
first = study.rows[0]
print(study.history(first.run)["best_return"])
best = max(study.rows, key=lambda r: r.held_out)
print(best.arm, best.seed, best.held_out, neol.PlasticNetwork.from_json(study.champion(best.run)).weights)

# %% One page with everything
subprocess.run([sys.executable, "-m", "neol", "report", DIR], check=True)
