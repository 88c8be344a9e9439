"""PPO and SAC on the same tasks, budgets, seeds and run folders as `neol train`.

Fitness is an episode's return here, and a generation is an interval of env steps; `best_fitness` is the best episode
that ended in it, while the policy explored. The champion is chosen as NEOL's is: candidates are the final policy and
those at the ends of the intervals with the best mean return; rounds of selection on fresh episodes; then its return
on 100 held-out ones (the very episodes that a NEOL champion of the same seed is measured on), without exploration.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neol import seeding
from neol.arrays import Array, checked, same
from neol.baselines import settings as baseline_settings
from neol.baselines.policy import Policy, from_arrays, play, save_policy
from neol.baselines.pools import engine_for
from neol.baselines.sbx import PACKAGES, Learner, require_packages
from neol.baselines.settings import BaselineConfig, baseline_config, find_task
from neol.envs.registry import choose_engine
from neol.errors import NeolError
from neol.rollout.attributes import check_attributes
from neol.rollout.world import life_names, world_of
from neol.system import uninterrupted
from neol.training import run_folder
from neol.training.champion import select
from neol.training.history import History, HistoryRow, fraction_done
from neol.training.observers import Callback, Generation, Observer, Observers
from neol.training.progress import TrainingProgress, short, wanted_here
from neol.training.run import Run
from neol.training.session import count_events, named, part, run_to_end
from neol.training.summary import BaselineSummary, Measured

CANDIDATES, TRIALS, HELD_OUT_EPISODES = 10, 20, 100  # as many as `neol train` has


class BaselineTraining:
    """A run in progress: everything that a checkpoint holds, and the step from one interval to the next."""

    saves_always = True
    results = (run_folder.POLICY, run_folder.FINAL_POLICY)

    def __init__(self, config: BaselineConfig, folder: Path, observer: Observer | None = None) -> None:
        self.config, self.folder, self.task = config, folder, find_task(config.task)
        self.observer = observer or Observer()
        self.learner = Learner(config, self.task)
        self.history = History()
        self.candidates: list[tuple[float, int, Policy]] = []  # mean return and number of the interval; best first
        self.is_whole = True  # at the end of an interval

    def describe(self) -> str:
        threads = f"{self.config.threads} thread{'s' * (self.config.threads > 1)}"
        return f"{self.config.algorithm} on {self.task.name}, {threads}."

    def fraction_done(self) -> float:
        return fraction_done(0, self.history.env_steps, self.config.flat())

    def why_stop(self) -> str | None:
        return "env-step limit reached" if self.history.env_steps >= self.config.max_env_steps else None

    def advance(self) -> Generation:
        """Learn for an interval, and record it."""
        wall, cpu, limit = time.monotonic(), time.process_time(), self.config.max_env_steps
        left = limit - self.history.env_steps
        steps = self.config.interval if 2 * left >= 3 * self.config.interval else left  # the last one may be longer
        self.is_whole = False
        self.learner.begin(len(self.history.rows))
        episodes = self.learner.learn(steps, lambda at: self.observer.tick(f"{short(at)} steps", min(1.0, at / limit)))
        with uninterrupted():
            row = self._record(episodes)
            spent, simulator = time.monotonic() - wall, self.learner.env.seconds
            self.history.add(row, simulator, spent, time.process_time() - cpu, self.learner.env.env_steps)
            rate = self.learner.env.env_steps / spent
            self.history.timing[-1] = self.history.timing[-1]._replace(steps_per_second=rate)  # learning included
            self.is_whole = True
        return Generation(row.columns(), rate, self.fraction_done(), False)

    def _record(self, episodes: Sequence[tuple[float, int]]) -> HistoryRow:
        number, total = len(self.history.rows), self.history.env_steps + self.learner.env.env_steps
        assert total == self.learner.env_steps, "env steps were lost or counted twice"
        returns, lengths = (np.array([e[i] for e in episodes], float) for i in (0, 1))
        best_before = self.history.rows[-1].more["best_so_far"] if self.history.rows else -np.inf
        if len(returns):
            best, mean, median, steps = returns.max(), returns.mean(), np.median(returns), lengths.mean()
            ranked = [*self.candidates, (float(mean), number, self.learner.policy())]
            self.candidates = sorted(ranked, key=lambda c: -c[0])[: CANDIDATES - 1]
        else:
            best = mean = median = steps = np.nan
        more = {"episodes": len(returns), "best_so_far": float(np.fmax(best_before, best))}
        best, mean, median, steps = float(best), float(mean), float(median), float(steps)
        return HistoryRow(number, total, best, mean, median, best, mean, steps, more)

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = named("learner", self.learner.state())
        for i, (_, _, policy) in enumerate(self.candidates):
            arrays |= named(f"candidate{i}", policy.arrays())
        return {**arrays, "scores": np.array([c[:2] for c in self.candidates])}

    def checked(self, arrays: Mapping[str, np.ndarray], what: str) -> Mapping[str, np.ndarray]:
        """As a learner that was just made has them; a replay buffer may be filled."""
        scores = np.asarray(arrays.get("scores", ()))
        if scores.dtype != np.float64 or scores.shape not in ((0,), (len(scores), 2)) or len(scores) >= CANDIDATES:
            raise NeolError(f"{what} is damaged: scores must be numbers of at most {CANDIDATES - 1} candidates.")
        if not (np.isfinite(scores).all() and (scores.reshape(-1, 2)[:, 1] >= 0).all()):
            raise NeolError(f"{what} is damaged: scores must be finite, and of intervals from 0 on.")
        policy = self.learner.policy().arrays()
        declared: dict[str, Any] = {"scores": Array("f8", scores.shape)}
        declared |= {f"learner.{k}": spec for k, spec in self.learner.declared(part(arrays, "learner")).items()}
        for i in range(len(scores)):
            declared |= {f"candidate{i}.{k}": spec for k, spec in same(policy).items()}
        return checked(arrays, declared, what)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.learner.restore(part(arrays, "learner"))
        scores = arrays["scores"].tolist()
        self.candidates = [(s, int(n), from_arrays(part(arrays, f"candidate{i}"))) for i, (s, n) in enumerate(scores)]

    def write_best(self) -> None:
        """The policy of the interval with the best mean return so far; not yet chosen on fresh episodes."""
        save_policy(
            self.folder / run_folder.POLICY, self.candidates[0][2] if self.candidates else self.learner.policy()
        )

    def finish(self, status: str) -> BaselineSummary:
        """Choose the champion; write policies."""
        wall, cpu = time.monotonic(), time.process_time()
        config, last = self.config, self.history.timing[-1]
        final, (chosen, facts) = self.learner.policy(), _choose(self)
        save_policy(self.folder / run_folder.POLICY, chosen)
        save_policy(self.folder / run_folder.FINAL_POLICY, final)
        return BaselineSummary(
            status=status,
            task=config.task,
            algorithm=config.algorithm,
            generations=len(self.history.rows),
            env_steps=self.history.env_steps,
            wall_seconds=last.wall_seconds + time.monotonic() - wall,
            steps_per_second=self.history.env_steps / last.wall_seconds,
            cpu_seconds=last.cpu_seconds + time.process_time() - cpu,
            cpu_seconds_per_million_steps=last.cpu_seconds * 1e6 / self.history.env_steps,
            best_fitness=self.history.best_fitness,
            best_so_far=self.history.rows[-1].more["best_so_far"],
            **facts,
            parameters=chosen.parameters,
            engine=engine_for(self.task, self.learner.world),
            executor="local",
            threads=config.threads,
            events=count_events(self.folder),
            versions=run_folder.versions(*PACKAGES),
        )

    def close(self) -> None:
        self.learner.close()


def train(
    algorithm: str,
    task: str,
    *,
    max_env_steps: int,
    out: str | os.PathLike[str],
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    threads: int = 1,
    max_steps: int = 0,
    interval: int = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    change: Sequence[str] | None = None,
    callback: Callable[[Generation], Any] | None = None,
    observers: Sequence[Observer] = (),
    progress: bool | None = None,
) -> Run:
    """Train PPO or SAC into the folder `out`, to the first update that reaches `max_env_steps`.

    `interval`: env steps between checkpoints (0 = the task's own). `hyperparameters` replace the tuned ones by name.
    `change`: how the world of a life differs from its simulator (domain randomisation), the task's own if not given.
    `callback`, `observers`, `progress` and `overwrite` are as in `neol.train`. Killed, a run goes on from its last
    checkpoint and ends in the same bytes; another number of `threads` gives others. Ctrl-C raises KeyboardInterrupt.
    """
    config = baseline_config(
        algorithm, task, max_env_steps, seed, threads, max_steps, interval, hyperparameters, change
    )
    return train_config(config, out, resume, overwrite, callback, observers, progress)


def train_config(
    config: BaselineConfig,
    out: str | os.PathLike[str],
    resume: bool = False,
    overwrite: bool = False,
    callback: Callable[[Generation], Any] | None = None,
    observers: Sequence[Observer] = (),
    progress: bool | None = None,
) -> Run:
    """The same with a whole configuration."""
    require_packages()
    task = find_task(config.task)
    world = world_of(task, config.change, config.max_steps)
    choose_engine(task, engine_for(task, world), bool(world.attributes))  # or a sentence why not
    check_attributes(task, world)
    told: list[Observer] = [*observers, *([Callback(callback)] if callback else [])]
    if wanted_here() if progress is None else progress:
        told.append(TrainingProgress())
    observer, folder = Observers(told), Path(out).absolute()
    with run_folder.held(folder), run_folder.withdrawn_if_refused(folder):
        resumed = open_folder(folder, config, resume, overwrite)
        return run_to_end(BaselineTraining(config, folder, observer), resumed, observer)


def open_folder(folder: Path, config: BaselineConfig, resume: bool, overwrite: bool = False) -> bool:
    """Prepare the folder; whether there is a checkpoint to go on from. It must be that of the same settings."""
    if not run_folder.claim_folder(folder, config.to_toml(), resume, overwrite):
        return False
    stored = baseline_settings.read(run_folder.read_config_text(folder), f"'{folder / run_folder.CONFIG}'")
    old, new = stored.flat(), config.flat()
    free = () if stored.schedules else ("max_env_steps",)
    for name in new:
        if new[name] != old.get(name) and name not in free:
            what = f"'{folder}' was run with {name} = {old.get(name)}"
            why = f" and its {stored.schedules[0]} depends on that" if name == "max_env_steps" else ""
            raise NeolError(f"{name} = {new[name]} is not allowed with --resume; {what}{why}.")
    return (folder / run_folder.CHECKPOINT).exists()


def _choose(training: BaselineTraining) -> tuple[Policy, dict[str, Any]]:
    """Rounds of selection on fresh episodes, then the held-out returns; the final policy is a candidate too."""
    config, last = training.config, len(training.history.rows) - 1
    earlier = [(number, policy) for _, number, policy in training.candidates if number != last]
    candidates = [(last, training.learner.policy()), *earlier]
    selection_steps = 0

    def returns(policy: Policy, purpose: int, part: int, episodes: int) -> np.ndarray:
        nonlocal selection_steps
        seeds = seeding.episode_seeds(config.seed, purpose, part, 1, episodes, True)
        names = life_names(config.seed, purpose, part, 1, episodes, True)  # the lives that a champion of NEOL's meets
        world = training.learner.world
        found, steps = play(policy, training.task, seeds, config.max_steps, config.threads, world, names)
        selection_steps += int(steps.sum()) if purpose == seeding.SELECTION else 0
        return found

    def fresh(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        return np.array([returns(candidates[i][1], seeding.SELECTION, part, episodes) for i in left])

    best, selection_mean = select(len(candidates), TRIALS, fresh)
    number, champion = candidates[best]
    held_out = returns(champion, seeding.HELD_OUT, 0, HELD_OUT_EPISODES)
    final = held_out if best == 0 else returns(candidates[0][1], seeding.HELD_OUT, 0, HELD_OUT_EPISODES)
    of_champion, of_final = Measured.of(held_out), Measured.of(final)
    return champion, {
        "champion_return_mean": of_champion.mean,
        "champion_return_ci95": of_champion.ci95,
        "champion_return_std": of_champion.std,
        "champion_episodes": HELD_OUT_EPISODES,
        "champion_without_plasticity_return_mean": of_champion.mean,  # it has none
        "champion_selection_return_mean": selection_mean,
        "champion_generation": number,
        "champion_is_final": best == 0,
        "champion_nodes": champion.nodes,
        "champion_connections": champion.connections,
        "final_return_mean": of_final.mean,
        "final_return_ci95": of_final.ci95,
        "final_return_std": of_final.std,
        "selection_env_steps": selection_steps,
    }
