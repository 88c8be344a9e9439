"""A trained controller on fresh episodes: returns with plasticity on or off, and pictures of one life."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.config.schema import check_value
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.registry import Maker, choose_engine, find, make
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.network.plasticity import plasticity
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.shards import Episodes, LocalEngine
from neol.stats import mean_interval


class Evaluation(NamedTuple):
    """Returns of E episodes."""

    returns: np.ndarray  # f8 (E,)
    steps: np.ndarray  # i8 (E,)
    plasticity: bool

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std(ddof=1)) if len(self.returns) > 1 else 0.0

    @property
    def ci95(self) -> tuple[float, float]:
        """95 % interval of the mean (Student's t over episodes)."""
        return mean_interval(self.returns)

    def as_dict(self) -> dict[str, Any]:
        return {
            "plasticity": self.plasticity,
            "episodes": len(self.returns),
            "return_mean": self.mean,
            "return_std": self.std,
            "return_ci95": list(self.ci95),
            "return_min": float(self.returns.min()),
            "return_median": float(np.median(self.returns)),
            "return_max": float(self.returns.max()),
            "steps_mean": float(self.steps.mean()),
        }


def evaluate(
    network: PlasticNetwork | str | os.PathLike[str],
    task: str | Maker | None = None,
    episodes: int = 100,
    seed: int = 0,
    plasticity: bool = True,
    max_steps: int = 0,
    threads: int = 0,
    engine: str = "auto",
    env_kwargs: Mapping[str, Any] | Sequence[str] | None = None,
) -> Evaluation:
    """Play fresh episodes of a task (name, Gymnasium id, or a function that makes it; the network's own if not given).

    `env_kwargs` are the environment's arguments, those that it was trained with if not given.
    """
    given = {"episodes": episodes, "seed": seed, "threads": threads, "max_steps": max_steps, "engine": engine}
    for name, value in given.items():
        check_value(name, value)
    if not isinstance(network, PlasticNetwork):
        network = Path(network)
        network = PlasticNetwork.from_json(network / "champion.json" if network.is_dir() else network)
    net = network
    found = fitting_task(net, task, env_kwargs)
    chosen, _ = choose_engine(found, engine)
    limit = max_steps or found.max_steps
    player: LocalEngine
    player = EnvPoolEngine(found, limit, threads) if chosen == "envpool" else LocalGymnasium(found, limit)
    which = Episodes(seed, seeding.EVALUATE, 0, episodes, common=True)
    try:
        result = player.run(net.network.phenotype, _plastic(net, plasticity), which, net.normal)
    finally:
        player.close()
    return Evaluation(result.returns[0], result.steps[0], plasticity)


def _plastic(net: PlasticNetwork, on: bool) -> Any:
    return plasticity(net.settings if on else dataclasses.replace(net.settings, rule="none"))


def fitting_task(
    net: PlasticNetwork,
    name: str | Maker | None = None,
    env_kwargs: Mapping[str, Any] | Sequence[str] | None = None,
) -> Task:
    """The task to run a network on; its inputs and outputs must be the network's."""
    own = name is None
    name = name or net.interface.get("task")
    if name is None:
        raise NeolError("the network does not say which task it is for; name the task.")
    kwargs = net.interface.get("env_kwargs", {}) if own and env_kwargs is None else env_kwargs or ()
    task = find(name if callable(name) else str(name), check_value("env_kwargs", kwargs))
    if (net.network.inputs, net.network.outputs) != (task.n_inputs, task.n_outputs):
        raise NeolError(
            f"the network has {net.network.inputs} inputs and {net.network.outputs} outputs, but task '{task.name}' "
            f"has {task.n_inputs} and {task.n_outputs}."
        )
    return task


class Lifetime(NamedTuple):
    """One life of a network, step by step."""

    weights: np.ndarray  # f8 (T + 1, E): before the first step and after each
    rewards: np.ndarray  # f8 (T,)
    connections: list[tuple[int, int]]  # (from id, to id) of each weight


def lifetime(net: PlasticNetwork, seed: int = 0, max_steps: int = 0) -> Lifetime:
    """Let a network live one episode of its task, and keep its weights of every step."""
    task = fitting_task(net)
    env = make(task)
    try:
        observation, _ = env.reset(seed=seed)
        net.reset()
        weights, rewards = [list(net.weights.values())], []
        for _ in range(max_steps or task.max_steps):
            observation, reward, terminated, truncated, _ = env.step(net.act(observation))
            net.reward(float(reward))
            weights.append(list(net.weights.values()))
            rewards.append(float(reward))
            if terminated or truncated:
                break
    finally:
        env.close()
    return Lifetime(np.array(weights, float), np.array(rewards), list(net.weights))


def replay(
    net: PlasticNetwork,
    path: str | os.PathLike[str],
    seed: int = 0,
    max_steps: int = 0,
    plasticity: bool = True,
    task: str | Maker | None = None,
) -> tuple[Path, float]:
    """Film one life into .mp4 or .gif; return the file and the life's return."""
    from neol.figures.video import render_frames, write_video

    for name, value in (("seed", seed), ("max_steps", max_steps)):
        check_value(name, value)
    of = fitting_task(net, task)
    player = _Player(net if plasticity else PlasticNetwork(net.network, dataclasses.replace(net.settings, rule="none")))
    frames: Iterator[np.ndarray] = render_frames(of, player, seed, max_steps or of.max_steps, of.film_every)
    return write_video(frames, path, of.film_fps), player.total


class _Player:
    """A PlasticNetwork that keeps count of its reward."""

    def __init__(self, net: PlasticNetwork) -> None:
        self.net, self.total = net, 0.0
        self.reset, self.act = net.reset, net.act

    def reward(self, r: float) -> None:
        self.total += r
        self.net.reward(r)
