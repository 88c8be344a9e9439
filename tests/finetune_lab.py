"""What test_finetune.py looks at, computed with JAX in a process of its own: python tests/finetune_lab.py FOLDER

FOLDER has champions to begin from: plain, recurrent and plastic (lander: numbers), pole (a choice).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import neol
from neol.gradients.finetune import train_config
from neol.gradients.session import Finetuning
from neol.gradients.settings import FinetuneConfig, finetune_config
from neol.training.configure import resolve
from neol.training.observers import Generation, Observer
from neol.training.start import read_start

PPO: dict[str, Any] = {
    "n_envs": 4, "n_steps": 32, "batch_size": 64, "n_epochs": 2, "warmup": 128,
}  # fmt: skip
SAC: dict[str, Any] = {
    "n_envs": 2, "learning_starts": 64, "warmup": 192, "batch_size": 16, "train_freq": 16, "gradient_steps": 4,
    "net_arch": (16,), "buffer_size": 1000,
}  # fmt: skip
SMALL = {"ppo": PPO, "sac": SAC}
CASES = (("plain", "ppo"), ("recurrent", "sac"), ("pole", "ppo"))
CHOICE = {"champion_candidates": 3, "champion_trials": 2, "champion_episodes": 5}
TINY: dict[str, Any] = {"interval": 128, "max_env_steps": 384}
HYBRID: dict[str, Any] = {
    "pop_size": 10, "elitism": 1, "episodes": 1, "max_steps": 60, "threads": 1, "rule": "none", "seed": 2,
    "max_env_steps": 6_000, **CHOICE, "champion_candidates": 2,
}  # fmt: skip


def hybrid_config() -> FinetuneConfig:
    """Evolution for 1,800 steps of cartpole, then PPO."""
    resolved = neol.configure("cartpole", **HYBRID)
    config = finetune_config(resolved.config, resolved.task, "ppo", 0.3, interval=256, hyperparameters=PPO)
    return dataclasses.replace(config, evolution=config.evolution.replace(generations=1000))


def session(run: Path, algorithm: str) -> Finetuning:
    """A session that has just been made for a run's champion; the pole's on Gymnasium."""
    engine = {"engine": "gymnasium"} if run.name == "pole" else {}
    resolved = resolve(neol.load(run).config.replace(start=str(run), max_env_steps=1000, **engine))
    config = finetune_config(resolved.config, resolved.task, algorithm, 0.0, 128, SMALL[algorithm])
    return Finetuning(config, resolved.task, read_start(run), run)


def acted(s: Finetuning, run: Path) -> dict[str, Any]:
    """What the policy does without noise, and what the champion does, at the same steps of the same episode."""
    learner, champion = s.learner, neol.load(run).champion
    learner.begin(0)
    seen, theirs, ours = learner.env.reset(), [], []
    champion.reset()
    for _ in range(40):
        raw = seen[0, : s.task.n_inputs].astype(float)  # as the network sees it: scaled already
        if s.start.normal.on:
            raw = raw * s.start.normal.std + s.start.normal.mean
        outputs = champion.activate(raw)
        action, _ = learner.model.predict(seen, deterministic=True)
        theirs.append(np.atleast_1d(action[0]).tolist())
        ours.append([int(np.argmax(outputs))] if learner.env.discrete else outputs.tolist())
        seen, _, done, _ = learner.env.step(action)
        if done[0]:
            champion.reset()
    return {"ours": ours, "theirs": theirs, "width": seen.shape[1]}


def warmed(s: Finetuning) -> list[float]:
    """How far weights have moved after each of three intervals of 128 steps: the first ones are the critic's."""
    moved = []
    for interval in range(3):
        s.learner.begin(interval)
        s.learner.learn(128, lambda _: None)
        moved.append(float(np.abs(s.learner.parameters().weight - s.learner.network.start.weight).max()))
    return moved


class Interrupt(Observer):
    """Ctrl-C in the second generation."""

    def generation(self, done: Generation) -> bool | None:
        if done.row["generation"] == 1:
            raise KeyboardInterrupt
        return None


def main(folder: Path) -> None:
    found: dict[str, Any] = {"warmed": {}}
    for name, algorithm in CASES:
        s = session(folder / name, algorithm)
        found[f"{name} {algorithm}"] = acted(s, folder / name)
        if name != "pole":
            found["warmed"][algorithm] = warmed(s)
        s.close()
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    for name, algorithm in (("recurrent", "ppo"), ("recurrent", "sac"), ("plastic", "ppo")):
        neol.finetune(folder / name, algorithm, hyperparameters=SMALL[algorithm], **TINY)
    how = {**TINY, "out": folder / "parts", "hyperparameters": PPO}
    with suppress(KeyboardInterrupt):
        neol.finetune(folder / "recurrent", observers=[Interrupt()], **how)
    neol.finetune(folder / "recurrent", resume=True, **how)
    with suppress(KeyboardInterrupt):
        train_config(hybrid_config(), folder / "hybrid", observers=[Interrupt()])
    train_config(hybrid_config(), folder / "hybrid", resume=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
