"""What test_baselines.py looks at, computed with JAX in a process of its own: python tests/baseline_lab.py FOLDER

JAX starts threads, and a process with threads may hang when it forks: the tests' own process never imports it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from neol.baselines import loop as baselines
from neol.baselines.sbx import Learner
from neol.baselines.settings import baseline_config
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.training import run_folder

PPO: dict[str, Any] = {"max_env_steps": 9_000, "interval": 3_072, "seed": 3}
SAC: dict[str, Any] = {
    "max_env_steps": 600, "interval": 250, "max_steps": 120, "seed": 3,
    "hyperparameters": {"learning_starts": 200, "net_arch": (32, 32), "batch_size": 32},
}  # fmt: skip
RUNS = {"ppo": ("cartpole", PPO), "sac": ("lunarlander", SAC)}
POLICIES = (("ppo", "cartpole"), ("ppo", "hopper"), ("sac", "hopper"))


def learned(algorithm: str, task: str) -> dict[str, Any]:
    """The actions of our plain policy and of the library's, on the same observations, after a little learning."""
    changed = {"n_steps": 64} if (algorithm, task) == ("ppo", "hopper") else {}
    learner = Learner(baseline_config(algorithm, task, 200, hyperparameters=changed), TASKS[task])
    learner.begin(0)
    learner.learn(200, lambda _: None)
    observations = np.random.default_rng(2).normal(size=(50, TASKS[task].n_inputs)).astype(np.float32)
    normal = learner.model.get_vec_normalize_env()
    seen = normal.normalize_obs(observations) if normal else observations
    theirs, _ = learner.model.predict(seen, deterministic=True)
    ours = learner.policy().act(observations)
    learner.close()
    return {"ours": ours, "theirs": theirs, "normalized": normal is not None}


def refusal(run: Path, folder: Path) -> str:
    """What a resume says of the same run with half of its checkpoint."""
    shutil.copytree(run, folder)
    checkpoint = folder / run_folder.CHECKPOINT
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2])
    try:
        baselines.train("ppo", "cartpole", out=folder, resume=True, **PPO)
    except NeolError as e:
        return str(e)
    return "nothing"


def main(folder: Path) -> None:
    for name, (task, settings) in RUNS.items():
        baselines.train(name, task, out=folder / name, **settings)
    for algorithm, task in POLICIES:
        np.savez(folder / f"{algorithm}-{task}.npz", **learned(algorithm, task))
    (folder / "damaged.txt").write_text(refusal(folder / "ppo", folder / "damaged"), encoding="utf-8")
    longer = {"interval": 512, "hyperparameters": {"learning_rate": 1e-3, "clip_range": 0.2}}
    baselines.train("ppo", "cartpole", out=folder / "longer", max_env_steps=512, **longer)
    baselines.train("ppo", "cartpole", out=folder / "longer", max_env_steps=1024, resume=True, **longer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
