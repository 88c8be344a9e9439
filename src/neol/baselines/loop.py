"""PPO and SAC on the same tasks, budgets, seeds and run folders as `neol train`.

Fitness is an episode's return here, and a generation is an interval of env steps; `best_fitness` is the best episode
that ended in it, while the policy explored. The champion is chosen as NEOL's is: candidates are the final policy and
those at the ends of the intervals with the best mean return; rounds of selection on fresh episodes; then its return
on 100 held-out ones (the very episodes that a NEOL champion of the same seed is measured on), without exploration.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neol import seeding
from neol.baselines import settings as baseline_settings
from neol.baselines.policy import Policy, from_arrays, play, save_policy
from neol.baselines.sbx import PACKAGES, Learner, require_packages
from neol.baselines.settings import BaselineConfig, baseline_config, find_task
from neol.envs.registry import choose_engine
from neol.errors import NeolError
from neol.stats import mean_interval
from neol.system import uninterrupted
from neol.training import run_folder
from neol.training.champion import select
from neol.training.progress import Progress
from neol.training.run import Run

HISTORY_COLUMNS = (
    "generation", "env_steps", "best_fitness", "mean_fitness", "median_fitness", "best_return", "mean_return",
    "mean_steps", "episodes", "best_so_far",
)  # fmt: skip
_WHOLE = ("generation", "env_steps", "episodes")
# rollout_seconds: in the simulator; outer_seconds: all else; cpu_seconds: of all threads, since the run began.
TIMING_COLUMNS = (
    "generation", "wall_seconds", "rollout_seconds", "outer_seconds", "steps_per_second", "cpu_seconds",
)  # fmt: skip
CHAMPION, FINAL = "champion.npz", "final.npz"
CANDIDATES, TRIALS, HELD_OUT_EPISODES = 10, 20, 100  # as many as `neol train` has
Callback = Callable[[dict[str, float]], Any]


class BaselineTraining:
    """A run in progress: everything that a checkpoint holds, and the step from one interval to the next."""

    def __init__(self, config: BaselineConfig, folder: Path) -> None:
        self.config, self.folder, self.task = config, folder, find_task(config.task)
        self.learner = Learner(config, self.task)
        self.history: list[list[float]] = []
        self.timing: list[list[float]] = []
        self.candidates: list[tuple[float, int, Policy]] = []  # mean return and number of the interval; best first

    @property
    def env_steps(self) -> int:
        return int(self.history[-1][1]) if self.history else 0

    @property
    def fraction_done(self) -> float:
        return min(1.0, self.env_steps / self.config.max_env_steps)

    def interval(self, tick: Callable[[int], None]) -> dict[str, float]:
        """Learn for an interval, and record it."""
        wall, cpu = time.monotonic(), time.process_time()
        left = self.config.max_env_steps - self.env_steps
        steps = self.config.interval if 2 * left >= 3 * self.config.interval else left  # the last one may be longer
        self.learner.begin(len(self.history))
        episodes = self.learner.learn(steps, tick)
        with uninterrupted():
            row = self._record(episodes)
            spent, simulator = time.monotonic() - wall, self.learner.env.seconds
            before = self.timing[-1] if self.timing else [0.0] * len(TIMING_COLUMNS)
            rate = self.learner.env.env_steps / spent
            used = before[5] + time.process_time() - cpu
            self.timing.append([row["generation"], before[1] + spent, simulator, spent - simulator, rate, used])
        return row

    def _record(self, episodes: list[tuple[float, int]]) -> dict[str, float]:
        number = len(self.history)
        total = self.env_steps + self.learner.env.env_steps
        assert total == self.learner.env_steps, "env steps were lost or counted twice"
        returns, lengths = (np.array([e[i] for e in episodes], float) for i in (0, 1))
        best_before = self.history[-1][9] if self.history else -np.inf
        if len(returns):
            best, mean, median, steps = returns.max(), returns.mean(), np.median(returns), lengths.mean()
            ranked = [*self.candidates, (float(mean), number, self.learner.policy())]
            self.candidates = sorted(ranked, key=lambda c: -c[0])[: CANDIDATES - 1]
        else:
            best = mean = median = steps = np.nan
        so_far = np.fmax(best_before, best)
        row = (number, total, best, mean, median, best, mean, steps, len(returns), so_far)
        self.history.append([float(v) for v in row])
        return dict(zip(HISTORY_COLUMNS, self.history[-1], strict=True))

    def save(self) -> None:
        """Write checkpoint, history and timing."""
        with uninterrupted():
            arrays = {f"learner.{k}": v for k, v in self.learner.state().items()}
            for i, (_, _, policy) in enumerate(self.candidates):
                arrays |= {f"candidate{i}.{k}": v for k, v in policy.arrays().items()}
            arrays |= {"scores": np.array([c[:2] for c in self.candidates])}
            arrays |= {"history": np.array(self.history), "timing": np.array(self.timing)}
            run_folder.write_checkpoint(self.folder, arrays, self.config)
            self.write_tables()

    def write_tables(self) -> None:
        for name, columns, rows in (
            (run_folder.HISTORY, HISTORY_COLUMNS, self.history),
            (run_folder.TIMING, TIMING_COLUMNS, self.timing),
        ):
            whole = [c in _WHOLE for c in columns]
            typed = [[int(v) if w else v for v, w in zip(row, whole, strict=True)] for row in rows]
            run_folder.write_table(self.folder / name, columns, typed)

    def load(self) -> None:
        """Go on from the folder's checkpoint."""
        arrays = run_folder.read_checkpoint(self.folder, self.config)

        def part(name: str) -> dict[str, np.ndarray]:
            return {k[len(name) + 1 :]: v for k, v in arrays.items() if k.startswith(f"{name}.")}

        self.learner.restore(part("learner"))
        scores = arrays["scores"].tolist()
        self.candidates = [(s, int(n), from_arrays(part(f"candidate{i}"))) for i, (s, n) in enumerate(scores)]
        self.history, self.timing = arrays["history"].tolist(), arrays["timing"].tolist()
        self.write_tables()


def train(
    algorithm: str,
    task: str,
    *,
    max_env_steps: int,
    out: str | os.PathLike[str],
    seed: int = 0,
    resume: bool = False,
    threads: int = 1,
    max_steps: int = 0,
    interval: int = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    callback: Callback | None = None,
) -> Run:
    """Train PPO or SAC into the folder `out`, to the first update that reaches `max_env_steps`.

    `interval`: env steps between checkpoints (0 = the task's own). `hyperparameters` replace the tuned ones by name.
    `callback` is called with each line of the history and stops the run when it returns True. Killed, a run goes on
    from its last checkpoint and ends in the same bytes; another number of `threads` gives others. Ctrl-C raises
    KeyboardInterrupt.
    """
    config = baseline_config(algorithm, task, max_env_steps, seed, threads, max_steps, interval, hyperparameters)
    require_packages()
    choose_engine(find_task(task), "envpool")
    show, folder = progress or Progress(quiet=True), Path(out)
    started_before = open_folder(folder, config, resume)
    show.say(f"{config.algorithm} on {config.task}, {config.threads} thread{'s' * (config.threads > 1)}.")
    trainer = BaselineTraining(config, folder)
    try:
        if started_before:
            trainer.load()
            show.say(f"Going on after {trainer.env_steps:,} env steps of '{folder}'.")
        status = _learn(trainer, callback, show)
        show.say("Choosing the champion on fresh episodes ...")
        return _finish(trainer, status)
    finally:
        show.stop()
        trainer.learner.close()


def open_folder(folder: Path, config: BaselineConfig, resume: bool) -> bool:
    """Prepare the folder; whether there is a checkpoint to go on from. It must be that of the same settings."""
    try:
        if not run_folder.claim_folder(folder, config.to_toml(), resume):
            return False
    except OSError as e:
        raise NeolError(f"cannot use '{folder}' as a run's folder: {e.strerror}.") from None
    stored = baseline_settings.read(run_folder.read_config_text(folder), f"'{folder / run_folder.CONFIG}'")
    old, new = stored.flat(), config.flat()
    free = () if stored.schedules else ("max_env_steps",)
    for name in new:
        if new[name] != old.get(name) and name not in free:
            what = f"'{folder}' was run with {name} = {old.get(name)}"
            why = f" and its {stored.schedules[0]} depends on that" if name == "max_env_steps" else ""
            raise NeolError(f"{name} = {new[name]} is not allowed with --resume; {what}{why}.")
    run_folder.write_atomic(folder / run_folder.CONFIG, config.to_toml())
    return (folder / run_folder.CHECKPOINT).exists()


def _learn(trainer: BaselineTraining, callback: Callback | None, show: Progress) -> str:
    """Interval after interval until there is a reason to stop; return it."""
    limit = trainer.config.max_env_steps
    show.start(trainer.fraction_done)
    said = "first interval"

    def tick(steps: int) -> None:
        show.update(f"{said}  {steps / 1e6:.3f}M steps", min(1.0, steps / limit))

    status = None
    while status is None and trainer.env_steps < limit:
        row = trainer.interval(tick)
        if callback is not None and callback(row):
            status = "stopped by callback"
        trainer.save()
        said = f"interval {row['generation']:.0f}  best {row['best_return']:.1f}  mean {row['mean_return']:.1f}"
        tick(trainer.env_steps)
    show.stop()
    return status or "env-step limit reached"


def _finish(trainer: BaselineTraining, status: str) -> Run:
    """Choose the champion; write policies and summary."""
    wall, cpu = time.monotonic(), time.process_time()
    config, folder, last = trainer.config, trainer.folder, trainer.timing[-1]
    final, (chosen, facts) = trainer.learner.policy(), _choose(trainer)
    save_policy(folder / CHAMPION, chosen)
    save_policy(folder / FINAL, final)
    cpu_seconds = last[5] + time.process_time() - cpu
    summary = {
        "status": status,
        "task": config.task,
        "algorithm": config.algorithm,
        "generations": len(trainer.history),
        "env_steps": trainer.env_steps,
        "wall_seconds": last[1] + time.monotonic() - wall,
        "steps_per_second": trainer.env_steps / last[1],
        "cpu_seconds": cpu_seconds,
        "cpu_seconds_per_million_steps": last[5] * 1e6 / trainer.env_steps,
        "best_fitness": trainer.history[-1][2],
        "best_so_far": trainer.history[-1][9],
        **facts,
        "parameters": chosen.parameters,
        "engine": "envpool",
        "executor": "local",
        "threads": config.threads,
        "versions": run_folder.versions(*PACKAGES),
    }
    run_folder.write_json(folder / run_folder.SUMMARY, summary)
    return Run(folder)


def _choose(trainer: BaselineTraining) -> tuple[Policy, dict[str, Any]]:
    """Rounds of selection on fresh episodes, then the held-out returns; the final policy is a candidate too."""
    config, last = trainer.config, len(trainer.history) - 1
    earlier = [(number, policy) for _, number, policy in trainer.candidates if number != last]
    candidates = [(last, trainer.learner.policy()), *earlier]
    selection_steps = 0

    def returns(policy: Policy, purpose: int, part: int, episodes: int) -> np.ndarray:
        nonlocal selection_steps
        seeds = seeding.episode_seeds(config.seed, purpose, part, 1, episodes, True)
        found, steps = play(policy, trainer.task, seeds, config.max_steps, config.threads)
        selection_steps += int(steps.sum()) if purpose == seeding.SELECTION else 0
        return found

    def fresh(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        return np.array([returns(candidates[i][1], seeding.SELECTION, part, episodes) for i in left])

    best, selection_mean = select(len(candidates), TRIALS, fresh)
    number, champion = candidates[best]
    held_out = returns(champion, seeding.HELD_OUT, 0, HELD_OUT_EPISODES)
    final = held_out if best == 0 else returns(candidates[0][1], seeding.HELD_OUT, 0, HELD_OUT_EPISODES)
    return champion, {
        "champion_return_mean": float(held_out.mean()),
        "champion_return_ci95": list(mean_interval(held_out)),
        "champion_return_std": float(held_out.std(ddof=1)),
        "champion_episodes": HELD_OUT_EPISODES,
        "champion_without_plasticity_return_mean": float(held_out.mean()),  # it has none
        "champion_selection_return_mean": selection_mean,
        "champion_generation": number,
        "champion_is_final": best == 0,
        "champion_nodes": champion.nodes,
        "champion_connections": champion.connections,
        "final_return_mean": float(final.mean()),
        "final_return_ci95": list(mean_interval(final)),
        "final_return_std": float(final.std(ddof=1)),
        "selection_env_steps": selection_steps,
    }
