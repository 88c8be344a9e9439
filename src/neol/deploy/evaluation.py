"""A trained controller on fresh episodes: returns with plasticity on or off, and pictures of one life."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from neol import seeding
from neol.config import checks
from neol.config.schema import check_value
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.registry import Maker, choose_engine, find
from neol.envs.senses import with_senses
from neol.envs.tasks import TASKS, Task
from neol.envs.trust import check_trusted
from neol.errors import NeolError
from neol.rollout.attributes import check_attributes
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.faults import judge
from neol.rollout.gymnasium_episode import one_life
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import Life, life_of
from neol.rollout.native_player import NativeEngine
from neol.rollout.shards import Episodes, LocalEngine, headline
from neol.rollout.world import UNCHANGED, World, world_of
from neol.stats import mean_interval


class HasChampion(Protocol):
    """A run."""

    @property
    def champion(self) -> PlasticNetwork: ...


Controller = PlasticNetwork | HasChampion | str | os.PathLike[str]


class Evaluation(NamedTuple):
    """Returns of E episodes; with several trials a life, of E lives."""

    returns: np.ndarray  # f8 (E,) of a life: the weighted mean of its trials
    steps: np.ndarray  # i8 (E,)
    plasticity: bool
    failed: int = 0  # more episodes, which the environment failed to play; they are left out
    by_trial: np.ndarray = np.zeros((0, 1))  # f8 (E, K) the returns of a life's K trials

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
            "failed_episodes": self.failed,
            "return_mean": self.mean,
            "return_std": self.std,
            "return_ci95": list(self.ci95),
            "return_min": float(self.returns.min()),
            "return_median": float(np.median(self.returns)),
            "return_max": float(self.returns.max()),
            "steps_mean": float(self.steps.mean()),
            **({"return_by_trial": self.by_trial.mean(axis=0).tolist()} if self.by_trial.shape[1] > 1 else {}),
        }


def evaluate(
    network: Controller,
    task: str | Maker | None = None,
    episodes: int = 100,
    seed: int = 0,
    plasticity: bool = True,
    max_steps: int = 0,
    threads: int = 0,
    engine: str = "auto",
    env_kwargs: Mapping[str, Any] | Sequence[str] | None = None,
    trials: int | None = None,
    trial_weights: str | Sequence[float] | None = None,
    change: str | Sequence[str] | None = None,
    trust: bool = False,
) -> Evaluation:
    """Play fresh episodes of a task (name, Gymnasium id, or a function that makes it; the network's own if not given).

    `network` is a run, a run's folder, a network file, or a network.
    `env_kwargs` are the environment's arguments, those that it was trained with if not given. Episodes that the
    environment cannot play (it raises, or returns NaN) are left out and counted; if it can play none: a NeolError.
    `trials` episodes make a life, `trial_weights` say how much each counts, `change` is how the world differs from its
    simulator (() = not at all): as in training if not given.
    `trust`: an environment that the network's file names as `module:name` may be imported.
    """
    given = {"episodes": episodes, "seed": seed, "threads": threads, "max_steps": max_steps, "engine": engine}
    for name, value in given.items():
        check_value(name, value)
    net = controller(network)
    found = fitting_task(net, task, env_kwargs, trust)
    limit = max_steps or found.max_steps
    weights, changes = trained_lives(net, trials, trial_weights, change)
    world = world_in(found, changes, limit, len(weights))
    chosen, _ = choose_engine(found, engine, bool(world.attributes))
    player: LocalEngine
    if chosen == "gymnasium":
        player = LocalGymnasium(found, limit)
    else:
        player = (EnvPoolEngine if chosen == "envpool" else NativeEngine)(found, limit, threads)
    which = Episodes(seed, seeding.EVALUATE, 0, episodes, common=True, trial_weights=weights)
    try:
        result = player.run(net.network.phenotype, life_in(net, found, plasticity, world), which)
    finally:
        player.close()
    verdict = judge(result, common=True)
    if verdict.left_out.all():
        f = result.failures[0]
        raise NeolError(
            f"all {episodes} episodes of '{found.name}' failed, each {f.attempts} times; the first: {headline(f.text)}"
        )
    returns, steps = verdict.kept(result.returns)[0], verdict.kept(result.steps)[0]
    return Evaluation(returns, steps, plasticity, len(result.failures), verdict.kept(result.by_trial.returns)[0])


def controller(source: Controller) -> PlasticNetwork:
    """The network that is meant: a run's champion, that of a run's folder, of a file, or the network itself."""
    if isinstance(source, PlasticNetwork):
        return source
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return PlasticNetwork.from_json(path / "champion.json" if path.is_dir() else path)
    if not hasattr(source, "champion"):
        raise NeolError(f"{source!r} is not allowed; it must be a run, a run's folder, a network file or a network.")
    return source.champion


def life_in(net: PlasticNetwork, task: Task, plasticity: bool, world: World) -> Life:
    """How a network lives in a task, learning or not."""
    settings = net.settings if plasticity else dataclasses.replace(net.settings, rule="none")
    return life_of(task, settings, net.normal, world)


def world_in(task: Task, changes: Sequence[str], max_steps: int, trials: int) -> World:
    """The world that these changes make of a task, checked."""
    world = world_of(task, changes, max_steps, trials)
    check_attributes(task, world)
    return world


def trained_lives(
    net: PlasticNetwork,
    trials: int | None = None,
    weights: str | Sequence[float] | None = None,
    change: str | Sequence[str] | None = None,
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The weights of a life's trials, and the changes of its world: as said, else as in training."""
    trained = net.network.document.get("life", {})
    if not isinstance(trained, Mapping):
        raise NeolError("the network's life is not a JSON object.")
    own = trained.get("trials", 1)
    count = check_value("trials", own if trials is None else trials)
    same = trials is None or trials == own
    chosen = weights if weights is not None else trained.get("trial_weights", "mean") if same else "mean"
    changes = check_value("change", trained.get("change", ()) if change is None else change)
    return checks.trial_weights(check_value("trial_weights", chosen), count), changes


def fitting_task(
    net: PlasticNetwork,
    name: str | Maker | None = None,
    env_kwargs: Mapping[str, Any] | Sequence[str] | None = None,
    trust: bool = False,
) -> Task:
    """The task to run a network on; its inputs and outputs must be the network's. What the file names is not imported
    without the user's word."""
    own = name is None
    name = name or net.interface.get("task")
    if name is None:
        raise NeolError("the network does not say which task it is for; name the task.")
    kwargs = net.interface.get("env_kwargs", {}) if own and env_kwargs is None else env_kwargs or ()
    if own and not (trust or net.trusted):
        stored: Any = kwargs if env_kwargs is None else {}
        check_trusted(str(name), stored, "the network's file", "--task, or --trust")
    task = find(name if callable(name) else str(name), check_value("env_kwargs", kwargs))
    senses = net.interface.get("senses", ())
    task = with_senses(task, senses, net.network.inputs - net.senses.world)
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
    """Let a network live one episode of its task, one of our own, and keep its weights of every step.

    It is for `neol report --lives`, whose networks come from a database: that decides neither what is made nor for how
    long.
    """
    name = net.interface.get("task")
    if not isinstance(name, str) or name not in TASKS or net.interface.get("env_kwargs"):
        raise NeolError(f"'{str(name)[:60]}' is not one of NEOL's own tasks, and a report makes no other environment.")
    task = fitting_task(net)
    limit = min(max_steps if max_steps > 0 else task.max_steps, task.max_steps)
    lived = one_life(task, net.network.phenotype, life_in(net, task, True, UNCHANGED), seed, limit)
    weights, rewards = zip(*((moment.weights.copy(), moment.reward) for moment in lived), strict=True)
    return Lifetime(np.array(weights), np.array(rewards[1:]), list(net.weights))


def replay(
    network: Controller,
    path: str | os.PathLike[str],
    seed: int = 0,
    max_steps: int = 0,
    plasticity: bool = True,
    task: str | Maker | None = None,
    trials: int | None = None,
    change: str | Sequence[str] | None = None,
    trust: bool = False,
) -> tuple[Path, float]:
    """Film one life of a run's champion, or of a network, into .mp4 or .gif; return the file and the life's return.

    A life has as many trials as in training, in the same world, unless `trials` and `change` say otherwise; the return
    is that of the last trial.
    """
    from neol.figures.video import render_frames, write_video

    for name, value in (("seed", seed), ("max_steps", max_steps)):
        check_value(name, value)
    net = controller(network)
    of = fitting_task(net, task, trust=trust)
    limit = max_steps or of.max_steps
    weights, changes = trained_lives(net, trials, change=change)
    life = life_in(net, of, plasticity, world_in(of, changes, limit, len(weights)))
    lived = render_frames(of, net.network.phenotype, life, seed, limit, of.film_every, len(weights))
    total = 0.0

    def frames() -> Iterator[np.ndarray]:
        nonlocal total
        for moment, frame in lived:
            total = moment.total
            yield frame

    return write_video(frames(), path, of.film_fps), total
