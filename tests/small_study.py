"""A study of seconds, as several files of tests run it: two tasks, tiny budgets, the arms that are asked for."""

from __future__ import annotations

from collections.abc import Iterable

ARMS = {
    "none": 'rule = "none"',
    "neat": 'label = "NEAT"\nrule = "none"',
    "hebb": 'label = "Hebb"\nrule = "hebb"',
    "bcm": 'label = "BCM"\nrule = "bcm"',
    "ppo": 'label = "PPO"\nalgorithm = "ppo"\ntasks = ["cartpole"]\nmax_env_steps = 3000',
    "sac": 'label = "SAC"\nalgorithm = "sac"\ntasks = ["lunarlander"]\nmax_env_steps = 400',
}


def small_study(arms: Iterable[str], title: str = "small", seeds: int = 2, generations: int = 2) -> str:
    """The text of its file; the first arm is the reference."""
    names = list(arms)
    head = f"""
[study]
title = "{title}"
tasks = ["cartpole", "lunarlander"]
seeds = {seeds}
reference = "{names[0]}"
[budget]
generations = {generations}
[base]
pop_size = 10
elitism = 1
max_steps = 60
champion_candidates = 2
champion_trials = 2
champion_episodes = 5
"""
    return head + "".join(f'[[arm]]\nname = "{name}"\n{ARMS[name]}\n' for name in names)
