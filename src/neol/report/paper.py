"""What the paper reports: facts of its tables 4, 5 and 6, and its claims, for reports to set ours beside.

Lin and Chen, "Provably Sub-Linear Two-Timescale NeuroEvolution with Online Plasticity". Its metric is the best fitness
of the final generation: the highest single-rollout return in the population. Mean and SD of 30 seeds, 500 generations.
"""

from __future__ import annotations

import math
from statistics import NormalDist

PLASTIC = ("hebb", "oja", "bcm")
WITHOUT_MUTATION = "neat-wo"  # NEAT without weight mutation, the arm of its ablation
GENERATIONS, SEEDS = 500, 30

# Table 4 (neat, hebb, oja, bcm) and Table 6 (neat-wo): task -> arm -> (mean, SD)
FITNESS: dict[str, dict[str, tuple[float, float]]] = {
    "cartpole": {
        "neat": (500.0, 0.0), "neat-wo": (500.0, 0.0),
        "hebb": (500.0, 0.0), "oja": (500.0, 0.0), "bcm": (500.0, 0.0),
    },
    "lunarlander": {
        "neat": (311.77, 8.18), "neat-wo": (312.5, 8.97),
        "hebb": (323.35, 3.67), "oja": (323.53, 4.19), "bcm": (324.34, 3.86),
    },
    "hopper": {
        "neat": (2680.22, 603.53), "neat-wo": (2296.57, 740.56),
        "hebb": (2819.89, 577.33), "oja": (2900.94, 562.16), "bcm": (2983.82, 479.79),
    },
    "bipedalwalker": {
        "neat": (149.59, 79.36), "neat-wo": (194.91, 92.83),
        "hebb": (233.3, 62.42), "oja": (227.1, 81.96), "bcm": (217.39, 82.82),
    },
}  # fmt: skip

# Table 5: one-sided Wilcoxon rank-sum p of a plastic arm against NEAT
RANK_SUM: dict[str, dict[str, float]] = {
    "lunarlander": {"hebb": 1.61e-08, "oja": 2.25e-08, "bcm": 5.76e-09},
    "hopper": {"hebb": 0.0282, "oja": 0.00736, "bcm": 0.000819},
    "bipedalwalker": {"hebb": 9.04e-06, "oja": 3.49e-05, "bcm": 0.000138},
}

# What it says, in our words. A report answers each with what the study at hand shows.
CLAIMS = {
    "higher": "Plastic rules reach a higher final best fitness than NEAT.",
    "plasticity": "It is plasticity that does it: enabling it improves the final fitness.",
    "tighter": "Plastic rules have tighter distributions over seeds than NEAT.",
    "ablation": "Plastic rules beat NEAT without weight mutation.",
    "ceiling": "Every method reaches the ceiling of 500 on CartPole.",
    "baselines": "NEAT and the plastic rules beat PPO and SAC at the same number of steps (CartPole, LunarLander).",
    "inheritance": "Lamarckian and Darwinian inheritance come to the same.",
}
CEILING = 500.0
TIES = ("cartpole",)  # where the paper finds no difference between methods
BEATS_BASELINES = ("cartpole", "lunarlander")


def effect(task: str, rule: str) -> float | None:
    """A12 of a plastic rule over NEAT, on the paper's best fitness: what Table 5's p stands for, n = m = 30.

    The normal rank-sum test backwards: U / (n m) = 1/2 + z_p sqrt((n + m + 1) / (12 n m)).
    """
    p = RANK_SUM.get(task, {}).get(rule)
    if p is None:
        return None
    return 0.5 + NormalDist().inv_cdf(1.0 - p) * math.sqrt((2 * SEEDS + 1) / (12 * SEEDS * SEEDS))


def spread(task: str, rule: str) -> float | None:
    """SD of a plastic rule over NEAT's, Table 4; None where NEAT has none."""
    sds = {arm: sd for arm, (_, sd) in FITNESS.get(task, {}).items()}
    return sds[rule] / sds["neat"] if rule in sds and sds["neat"] else None
