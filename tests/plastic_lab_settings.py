"""What plastic_lab.py runs, for the tests that look at it."""

from __future__ import annotations

from typing import Any

INPUTS, OUTPUTS, STEPS = 3, 2, 7
RUN: dict[str, Any] = {
    "generations": 12, "gradient_lives": 16, "gradient_updates": 2, "env_kwargs": ("runs=20",), "episodes": 2,
    "champion_episodes": 5, "champion_trials": 2, "seed": 3, "threads": 1,
}  # fmt: skip
MODES: tuple[dict[str, Any], ...] = (
    {"rule": "hebb", "gate": "none", "lr": 0.1, "weight_decay": 0.1, "evolve_decay": True},
    {"rule": "hebb", "gate": "modulator", "trace_decay": 0.8, "feed_forward": False},
    {"rule": "abcd", "gate": "modulator", "reward_credit": "next-step", "feed_forward": False},
    {"rule": "abcd", "gate": "none", "weight_decay": 0.2, "decay_to": "zero", "weight_limit": 0.8},
    {"rule": "oja", "gate": "reward", "reward_scale": 1.0, "trace_decay": 0.5},
    {"rule": "bcm", "gate": "advantage", "reward_scale": 1.0, "bcm_tau": 0.3, "output_transform": "none"},
)
