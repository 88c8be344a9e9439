"""Gymnasium on this side of a pipe, an exported controller on the other (pipe.c): the episodes of `neol evaluate`.

python drive.py ./pipe --network runs/lander --episodes 100
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence

import numpy as np

import neol
from neol import seeding
from neol.deploy.evaluation import controller, fitting_task
from neol.envs.registry import make

BEGIN, GO_ON, END = range(3)


def drive(command: Sequence[str], network: str, episodes: int, seed: int = 0, nudge: int = 0) -> np.ndarray:
    """The returns f8 (episodes,) of a program that controls the network's task.

    `nudge`: so many float32 are added to every action, to see how much the simulator makes of a last bit.
    """
    net = controller(network)
    task = fitting_task(net)
    width = len(net._interface.components)
    seeds = seeding.episode_seeds(seed, seeding.EVALUATE, 0, 1, episodes, True)
    env, returns = make(task), np.zeros(episodes)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as there:
        assert there.stdin is not None and there.stdout is not None

        def told(what: int, reward: float, observation: np.ndarray) -> None:
            row = np.concatenate([[what, reward], np.asarray(observation, np.float64)])
            there.stdin.write(row.tobytes())
            there.stdin.flush()

        for episode, start in enumerate(seeds):
            observation, _ = env.reset(seed=int(start))
            told(BEGIN, 0.0, observation)
            for t in range(task.max_steps):
                action = np.frombuffer(there.stdout.read(8 * width))
                taken = int(action[0]) if not task.action_shape else action.astype(task.action_dtype)
                for _ in range(nudge):
                    taken = np.nextafter(taken, np.float32(np.inf))
                observation, reward, terminated, truncated, _ = env.step(taken)
                returns[episode] += float(reward)
                over = terminated or truncated or t == task.max_steps - 1
                told(END if over else GO_ON, float(reward), observation)
                if over:
                    break
        there.stdin.close()
    env.close()
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--network", required=True, help="the run or champion.json that was exported")
    parser.add_argument("--episodes", type=int, default=100)
    args = parser.parse_args()
    here = drive([args.program], args.network, args.episodes)
    there = neol.evaluate(args.network, episodes=args.episodes, engine="gymnasium").returns
    print(f"C: mean return {here.mean():.6f}   neol evaluate: {there.mean():.6f}   largest difference of an episode: "
          f"{np.abs(here - there).max():g}")  # fmt: skip
