"""Every environment of Gymnasium's classic control, Box2D, toy text and MuJoCo v5 families: engine chosen, env steps/s.

Each is trained for 3 generations (P = 30, one episode of at most 100 steps) on the engine that `auto` chooses, with one
thread or worker; the figure is that of the last generation's rollouts.

Run: python benchmarks/environments.py [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import gymnasium

from neol.training.configure import configure, resolve
from neol.training.loop import Training

FAMILIES = ("classic_control", "box2d", "toy_text", "mujoco")


def ids() -> list[str]:
    prefixes = tuple(f"gymnasium.envs.{f}" for f in FAMILIES)
    known = {name: str(spec.entry_point) for name, spec in gymnasium.registry.items()}
    return [
        name for name, entry in known.items() if entry.startswith(prefixes) and ("mujoco" not in entry or "-v5" in name)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--pop-size", type=int, default=30)
    parser.add_argument("--max-steps", type=int, default=100)
    options = parser.parse_args()
    rows = []
    for name in options.only or ids():
        config = configure(name, pop_size=options.pop_size, episodes=1, max_steps=options.max_steps, threads=1).config
        if config.rollout.engine == "gymnasium":
            config = config.replace(workers=1)
        with tempfile.TemporaryDirectory() as folder:
            trainer = Training(resolve(config), Path(folder))
            for _ in range(3):
                trainer.advance()
            trainer.engine.close()
        rows.append(
            {
                "id": name, "engine": config.rollout.engine, "inputs": trainer.task.n_inputs,
                "outputs": trainer.task.n_outputs, "env_steps": trainer.history.env_steps,
                "steps_per_second": round(trainer.history.timing[-1].steps_per_second),
            }
        )  # fmt: skip
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "environments", "environments": rows}, indent=1))


if __name__ == "__main__":
    main()
