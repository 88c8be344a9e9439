"""EnvPool against Gymnasium on hopper and lunarlander: the same networks, 200 episodes on each, paired by network.

A short training on EnvPool gives a population; its 20 best play 10 episodes each on both engines. Starts come from
other random numbers there and here (tests/test_agreement.py matches them for cartpole and bipedalwalker), so what is
compared are means. The hopper runs on another version of MuJoCo, and EnvPool's lander smooths its terrain otherwise.

Run: python benchmarks/agreement.py [--generations G]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from neol import seeding
from neol.neat.genome import take
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.shards import Episodes
from neol.stats import mean_interval
from neol.training.configure import configure, resolve
from neol.training.loop import Training

NETWORKS, EPISODES = 20, 10


def compare(name: str, rule: str, generations: int) -> dict[str, Any]:
    config = configure(name, rule=rule, pop_size=100, seed=5).config
    with tempfile.TemporaryDirectory() as folder:
        trainer = Training(resolve(config), Path(folder))
        for _ in range(generations):
            done = trainer.advance()
        best = take(done.genomes, np.argsort(-done.fitness, kind="stable")[:NETWORKS])
        phenotypes = trainer.compile(best)
    which = Episodes(1, seeding.EVALUATE, 0, EPISODES, common=False)
    limit = config.rollout.max_steps
    returns = []
    for engine in (EnvPoolEngine(trainer.task, limit), LocalGymnasium(trainer.task, limit)):
        returns.append(engine.run(phenotypes, trainer.life, which).returns)
        engine.close()
    trainer.engine.close()
    difference = returns[0].mean(axis=1) - returns[1].mean(axis=1)
    low, high = mean_interval(difference)
    return {
        "task": name, "rule": rule, "networks": NETWORKS, "episodes": NETWORKS * EPISODES,
        "envpool_mean": round(float(returns[0].mean()), 2), "gymnasium_mean": round(float(returns[1].mean()), 2),
        "difference": round(float(difference.mean()), 2), "ci95": [round(low, 2), round(high, 2)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=15)
    options = parser.parse_args()
    rows = [compare(t, r, options.generations) for t in ("hopper", "lunarlander") for r in ("none", "hebb")]
    print(json.dumps({"benchmark": "agreement", "cases": rows}, indent=1))


if __name__ == "__main__":
    main()
