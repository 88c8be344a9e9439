"""`adapt`: what a change of the world does to a network that goes on learning, and to its twins that do not.

    learning    as it was trained                     frozen    it learns until the world changes, and then no more
    static      it never learns

All meet the same lives. A world changes where one of its changes begins or ends (rollout/world.py), or where an
environment says so: its `phase`, if it has one, is another number than at the beginning.
Legend: L lives, T steps of the longest, K trials, W windows of steps since the change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.config import checks
from neol.config.schema import check_value
from neol.deploy.evaluation import Controller, controller, fitting_task, life_in, trained_lives, world_in
from neol.envs.registry import Maker, make, opened
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.figures.video import first_picture, make_pictured, picture, side_by_side, write_video
from neol.network.phenotype import Phenotypes
from neol.rollout.gymnasium_episode import SingleSlot, episode
from neol.rollout.life import Life
from neol.rollout.shards import Shard, check_fit, new_records
from neol.rollout.world import life_names

TWINS = ("learning", "frozen", "static")
WINDOWS = 12  # after the change, at most
REGAINED = 0.9  # of the reward rate before the change
FILMED = 3  # seconds of a film before the change
MOST_LIVES = 10**6
LEAST = 5  # lives that a window must be seen in, where so many changed


class Adaptation(NamedTuple):
    """Reward rates, per step, of the twins around the first change of their lives."""

    lives: int
    changed: int  # lives in which the world changed while the network lived
    window: int  # steps
    since: np.ndarray  # i8 (W,) the first step of each window, counted from the change: < 0 = before
    rate: np.ndarray  # f8 (3, W) of the twins; nan where fewer than LEAST lives were that long
    before: np.ndarray  # f8 (3,) in all windows before the change; nan = there is none
    after: np.ndarray  # f8 (3,) and after
    regained: tuple[int | None, ...]  # (3,) steps until a window's rate is 0.9 of that before; None = never, or unknown
    by_trial: np.ndarray  # f8 (3, K) mean return of each trial

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        twins = {
            name: {
                "before": float(self.before[i]), "after": float(self.after[i]), "regained": self.regained[i],
                "rate": self.rate[i].tolist(), "return_by_trial": self.by_trial[i].tolist(),
            }
            for i, name in enumerate(TWINS)
        }  # fmt: skip
        own = {"lives": self.lives, "changed": self.changed, "window": self.window, "since": self.since.tolist()}
        return {**own, **twins}


class _Lived(NamedTuple):
    rewards: np.ndarray  # f8 (T,) of a life, step after step
    changed: int  # the step at which the world changed; -1 = it did not
    returns: list[float]  # (K,)


def adapt(
    network: Controller,
    task: str | Maker | None = None,
    lives: int = 40,
    seed: int = 0,
    max_steps: int = 0,
    trials: int | None = None,
    change: str | Sequence[str] | None = None,
    trust: bool = False,
    film: str | os.PathLike[str] | None = None,
) -> Adaptation:
    """Let a network and its two twins live the same lives, and tell how each does before and after the world changes.

    `change` is how the world differs from its simulator, as in training if not given (see `evaluate`). `film`: a .gif
    or .mp4 of the network beside its frozen twin, around the change of the first life that has one.
    """
    lives = checks.convert("lives", lives, int)
    checks.check_range("lives", lives, 1, MOST_LIVES, False)
    for name, value in (("seed", seed), ("max_steps", max_steps)):
        check_value(name, value)
    net = controller(network)
    found = fitting_task(net, task, trust=trust)
    limit = max_steps or found.max_steps
    weights, changes = trained_lives(net, trials, None, change)
    world = world_in(found, changes, limit, len(weights))
    learning, static = (life_in(net, found, on, world) for on in (True, False))
    stage = _Stage(found, net.network.phenotype, seed, lives, limit, len(weights))
    kinds = ((learning, learning), (learning, static), (static, static))  # before the change, after it
    lived = [[_life(stage, *kind, n) for n in range(lives)] for kind in kinds]
    if film is not None:
        _film(stage, learning, static, lived[0], film)
    return _summed(lived)


class _Stage(NamedTuple):
    """Where the twins live: the same lives for all."""

    task: Task
    phenotype: Phenotypes
    seed: int
    lives: int
    limit: int
    trials: int

    def slot(self, life: Life) -> tuple[SingleSlot, np.ndarray]:
        """A slot for its lives, and the seeds i4 (L K,) of their trials."""
        check_fit(self.task, self.phenotype, life)
        names = life_names(self.seed, seeding.EVALUATE, 0, 1, self.lives, True)
        seeds = seeding.episode_seeds(self.seed, seeding.EVALUATE, 0, 1, self.lives, True, self.trials)
        shard = Shard(self.phenotype, life, seeds, 0, self.lives, 0, False, trials=self.trials, names=names)
        return SingleSlot(self.task, shard, new_records(shard)), seeds


Look = Callable[[Any, int], None]  # told of the environment and the steps so far, at every moment


def _life(stage: _Stage, before: Life, after: Life, number: int, look: Look | None = None) -> _Lived:
    """One life of one twin: it lives as `before` until its world changes, then as `after`."""
    slot, seeds = stage.slot(before)
    with opened(make(stage.task) if look is None else make_pictured(stage.task)) as env:
        try:
            return _lived(stage, slot, env, number, seeds[number * stage.trials :][: stage.trials], after, look)
        except NeolError:
            raise
        except Exception as e:  # an environment may raise anything
            raise NeolError(f"an episode of '{stage.task.name}' failed: {type(e).__name__}: {e}") from e


def _lived(
    stage: _Stage, slot: SingleSlot, env: Any, number: int, seeds: np.ndarray, after: Life, look: Look | None
) -> _Lived:
    rewards: list[float] = []
    returns, first, changed = [], None, -1
    for trial, seed in enumerate(seeds):
        for moment in episode(slot, env, number, int(seed), stage.limit, 1, trial=trial):
            if moment.step:
                rewards.append(moment.reward)
            if look is not None:
                look(env, len(rewards))
            if moment.over:
                returns.append(moment.total)
                break
            now = _phase(slot, env)
            first = now if first is None else first
            if changed < 0 and now != first:
                changed = len(rewards)
                slot.live_as(after)
    return _Lived(np.array(rewards), changed, returns)


def _film(stage: _Stage, learning: Life, static: Life, lived: list[_Lived], path: str | os.PathLike[str]) -> None:
    """The learning network and its frozen twin side by side, FILMED seconds before the change and twice that after."""
    number = next((n for n, life in enumerate(lived) if life.changed >= 0), None)
    if number is None:
        raise NeolError("cannot film it: the world did not change in the middle of any life (see --change).")
    lead = min(FILMED * stage.task.film_fps, lived[number].changed)  # steps
    start, stop = lived[number].changed - lead, lived[number].changed + 2 * FILMED * stage.task.film_fps
    sides: list[list[np.ndarray]] = []
    for after in (learning, static):
        frames: list[np.ndarray] = []

        def look(env: Any, step: int, frames: list[np.ndarray] = frames) -> None:
            if step == 0:
                first_picture(env, stage.task)  # sets up what draws
            if start <= step < stop:
                frames.append(picture(env, stage.task))

        _life(stage, learning, after, number, look)
        sides.append(frames)
    longest = max(map(len, sides))
    pairs = zip(*([*f, *[f[-1]] * (longest - len(f))] for f in sides), strict=True)
    write_video((side_by_side(a, b, n > lead) for n, (a, b) in enumerate(pairs)), path, stage.task.film_fps)


def _phase(slot: SingleSlot, env: Any) -> tuple[Any, ...]:
    """Which of the world's changes act in slot 0 at its next step, and what the environment calls its phase."""
    changes, state = slot.life.world.changes, slot.world
    now = state.clock[0][changes.clock]
    acting = (state.onset[0] <= now) & (now < state.end[0])
    return getattr(getattr(env, "unwrapped", env), "phase", 0), *acting.tolist()


def _summed(twins: list[list[_Lived]]) -> Adaptation:
    """Means over the lives in which the learning one met the change, for every twin: one that was dead by then, or
    whose life is over, earns nothing, 0 until the time that the longest has."""
    by_trial = np.array([np.mean([life.returns for life in lived], axis=0) for lived in twins])  # (3, K)
    lives, changed = len(twins[0]), sum(life.changed >= 0 for life in twins[0])
    longest = max(len(life.rewards) for lived in twins for life in lived)
    ends = [longest - life.changed for life in twins[0] if life.changed >= 0]
    window = _round(max(ends, default=1) / WINDOWS)
    count = -(-max(ends, default=0) // window)
    since = window * np.arange(-count, count)
    met = [[(b.rewards, b.changed if b.changed >= 0 else a.changed) for a, b in zip(twins[0], lived, strict=True)
            if a.changed >= 0] for lived in twins]  # fmt: skip
    rate = np.array([_rates(lived, since, window, longest) for lived in met]).reshape(len(TWINS), len(since))
    before, after = (_mean(rate[:, part]) for part in (since < 0, since >= 0))
    least = before - (1.0 - REGAINED) * np.abs(before)
    regained = tuple(
        next((int(s + window) for s, r in zip(since, row, strict=True) if s >= 0 and r >= low), None)
        for row, low in zip(rate, least, strict=True)
    )
    return Adaptation(lives, changed, window, since, rate, before, after, regained, by_trial)


def _round(least: float) -> int:
    """The least of 1, 2, 5, 10, 20, 30, 50, 100, 200 ... that is not below: windows that hold whole runs of a maze."""
    return next(n for k in range(20) for d in ((1, 2, 3, 5) if k else (1, 2, 5)) if (n := d * 10**k) >= least)


def _mean(values: np.ndarray) -> np.ndarray:
    """The mean f8 (3,) of values (3, w) that are numbers; nan where none is."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    return np.where(count, np.where(known, values, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)


def _rates(met: list[tuple[np.ndarray, int]], since: np.ndarray, window: int, longest: int) -> list[float]:
    """The mean reward per step in each window around the change, over lives (rewards, step of the change)."""
    out = []
    for start in since:
        sums = []
        for rewards, changed in met:
            a, b = changed + start, changed + start + window
            if a >= 0 and b <= longest:
                sums.append(rewards[a:b].sum() / window)
        out.append(float(np.mean(sums)) if len(sums) >= max(1, min(LEAST, len(met))) else np.nan)
    return out
