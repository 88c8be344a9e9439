"""Does plasticity help? A plastic arm against its matched control (the same with lr = 0), on held-out episodes.

Run: python examples/compare_plasticity.py    (small: says how to compare, not who wins)
"""

import statistics

import neol

for name, lr in (("hebb", 0.25), ("matched control, lr = 0", 0.0)):
    held_out = []
    for seed in (1, 2, 3):
        out = f"runs/compare/{lr}-{seed}"
        run = neol.train("lunarlander", rule="hebb", lr=lr, seed=seed, max_env_steps=500_000, out=out, resume=True)
        held_out.append(run.summary.champion_return_mean)
    shown = ", ".join(f"{r:.0f}" for r in held_out)
    print(f"{name}: median held-out return {statistics.median(held_out):.0f} over seeds ({shown})")
