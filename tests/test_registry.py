"""Gymnasium's own environments, every one: trained, and its resets as clean or as leaky as we take them to be."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import neol
from neol.envs.registry import choose_engine, find, make
from neol.envs.spaces import Flattener

FAMILIES = ("classic_control", "box2d", "toy_text", "mujoco")
IDS = [
    name
    for name, spec in gymnasium.registry.items()
    if str(spec.entry_point).startswith(tuple(f"gymnasium.envs.{f}" for f in FAMILIES))
    and ("mujoco" not in str(spec.entry_point) or name.endswith("-v5"))
]
every_id = pytest.mark.parametrize("name", IDS)


def test_the_families_are_all_there() -> None:
    assert len(IDS) >= 28
    assert {"Acrobot-v1", "CarRacing-v3", "Taxi-v4", "Humanoid-v5"} <= set(IDS)


@every_id
def test_every_environment_trains(name: str, tmp_path: Path) -> None:
    engine, _ = choose_engine(find(name), "auto")
    run = neol.train(
        name, out=tmp_path / "r", generations=3, pop_size=4, elitism=1, episodes=1, max_steps=12, seed=1,
        champion_candidates=1, champion_trials=1, champion_episodes=2, workers=int(engine == "gymnasium"),
    )  # fmt: skip
    history = run.history
    assert history["generation"].tolist() == [0, 1, 2]
    assert history["env_steps"][-1] == run.summary.env_steps > 0
    assert np.isfinite(history["best_fitness"]).all()
    assert not (tmp_path / "r" / "events.jsonl").exists()
    assert run.summary.engine == engine


def episode(env: Any, flat: Flattener, seed: int, steps: int) -> list[Any]:
    """What an episode with random actions shows; and none of the random numbers come from the episodes before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        observation, _ = env.reset(seed=seed)
        env.action_space.seed(seed)
        seen = [flat(observation).tobytes()]
        for _ in range(steps):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            seen.append((flat(observation).tobytes(), float(reward), terminated))
            if terminated or truncated:
                break
    return seen


@every_id
def test_environments_that_are_used_again_forget_the_episodes_before(name: str) -> None:
    """A new environment per episode, or one for all of them: the same bits, wherever `resets_fully` says so."""
    task = find(name)
    if not task.resets_fully:
        assert "Bipedal" in name or "Racing" in name
        return
    used, flat = make(task), Flattener(task.leaves)
    for seed in range(4):
        assert episode(used, flat, seed, 150) == episode(make(task), flat, seed, 150)


def test_the_walkers_world_remembers() -> None:
    """Why BipedalWalker gets a new environment for every episode: should this fail, it need not any more."""
    task = find("BipedalWalker-v3")
    used, flat = make(task), Flattener(task.leaves)
    pairs = [(episode(used, flat, seed, 400), episode(make(task), flat, seed, 400)) for seed in range(12)]
    assert any(a != b for a, b in pairs)
