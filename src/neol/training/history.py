"""What a run records of every generation: a line of history.csv, and one of timing.csv."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.arrays import Array, Declared
from neol.errors import NeolError
from neol.training import run_folder


class HistoryRow(NamedTuple):
    """A generation (of a baseline: an interval of env steps); the same bits whoever computed it."""

    generation: int
    env_steps: int  # since the run began
    best_fitness: float
    mean_fitness: float
    median_fitness: float
    best_return: float
    mean_return: float
    mean_steps: float
    more: Mapping[str, float]  # the columns that this run's loop has besides

    def columns(self) -> dict[str, float]:
        """By the names of history.csv."""
        return {**dict(zip(self._fields[:-1], self[:-1], strict=True)), **self.more}


class TimingRow(NamedTuple):
    """How long a generation took; never the same twice."""

    generation: int
    wall_seconds: float  # since the run began
    rollout_seconds: float  # of this generation: in the simulator and the networks
    outer_seconds: float  # of this generation: all else
    steps_per_second: float
    cpu_seconds: float  # of this process, its threads and its workers, since the run began


class History:
    """All generations of a run so far."""

    def __init__(self) -> None:
        self.rows: list[HistoryRow] = []
        self.timing: list[TimingRow] = []

    @property
    def env_steps(self) -> int:
        return self.rows[-1].env_steps if self.rows else 0

    @property
    def best_fitness(self) -> float:
        return self.rows[-1].best_fitness if self.rows else -np.inf

    def add(self, row: HistoryRow, rollout_seconds: float, spent: float, cpu: float, env_steps: int) -> None:
        """A generation of `env_steps` that took `spent` seconds, `rollout_seconds` of them in rollouts."""
        wall, used = (self.timing[-1].wall_seconds, self.timing[-1].cpu_seconds) if self.timing else (0.0, 0.0)
        rate = env_steps / max(rollout_seconds, 1e-9)
        timing = TimingRow(row.generation, wall + spent, rollout_seconds, spent - rollout_seconds, rate, used + cpu)
        self.rows.append(row)
        self.timing.append(timing)

    def arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint: numbers f8 (G, columns), the columns' names, and which of them are whole."""
        first = self.rows[0].columns()
        return {
            "history": np.array([list(r.columns().values()) for r in self.rows], float),
            "history_columns": np.array(list(first)),
            "history_whole": np.array([isinstance(v, int) for v in first.values()]),
            "timing": np.array(self.timing, float),
        }

    @staticmethod
    def declared() -> Declared:
        """What `restore` needs."""
        return {
            "history": Array("f8", ("G", "columns"), least=1),
            "history_columns": Array("U", ("columns",)),
            "history_whole": Array("?", ("columns",)),
            "timing": Array("f8", ("G", len(TimingRow._fields)), low=-1e300, high=1e300),
        }

    def _check(self, arrays: Mapping[str, np.ndarray]) -> None:
        """A NeolError where the numbers cannot be a run's."""
        names, numbers = arrays["history_columns"].tolist(), arrays["history"]
        own = list(HistoryRow._fields[:-1])
        whole = numbers[:, arrays["history_whole"]]
        why = ""
        if names[: len(own)] != own or len(set(names)) < len(names) or not all(n and n.isprintable() for n in names):
            why = f"history_columns must begin with {', '.join(own)}, and have each name once"
        elif not (np.abs(whole) <= 2.0**53).all() or (whole % 1.0).any() or not arrays["history_whole"][:2].all():
            why = "the whole columns of history, generation and env_steps among them, must be whole numbers"
        elif (numbers[:, 0] != np.arange(len(numbers))).any() or (np.diff(numbers[:, 1], prepend=0.0) < 0.0).any():
            why = "history must have every generation once, and env_steps that never fall"
        elif (arrays["timing"][:, 0] != numbers[:, 0]).any():
            why = "timing must have the generations of history"
        if why:
            raise NeolError(f"the checkpoint is damaged: {why}.")

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._check(arrays)
        names, whole = arrays["history_columns"].tolist(), arrays["history_whole"].tolist()
        own = len(HistoryRow._fields) - 1
        self.rows, self.timing = [], []
        for numbers in arrays["history"].tolist():
            typed = [int(v) if w else v for v, w in zip(numbers, whole, strict=True)]
            more: Any = dict(zip(names[own:], typed[own:], strict=True))
            self.rows.append(HistoryRow._make([*typed[:own], more]))
        self.timing = [TimingRow(int(t[0]), *t[1:]) for t in arrays["timing"].tolist()]

    def write(self, folder: Path) -> None:
        """history.csv and timing.csv."""
        table = [list(r.columns().values()) for r in self.rows]
        run_folder.write_table(folder / run_folder.HISTORY, list(self.rows[0].columns()), table)
        run_folder.write_table(folder / run_folder.TIMING, TimingRow._fields, self.timing)


def trial_columns(returns: np.ndarray, best: int) -> dict[str, float]:
    """Returns f8 (P, N, K) by trial, where there are several: of the fittest genome and of all, over N lives."""
    if returns.shape[2] == 1:
        return {}
    means = returns.mean(axis=1)  # (P, K)
    rows = (("best", means[best]), ("mean", means.mean(axis=0)))
    return {f"{who}_return_trial_{k + 1}": float(row[k]) for who, row in rows for k in range(len(row))}


def fraction_done(generations: int, env_steps: int, settings: Mapping[str, Any]) -> float:
    """How much of a run's budget (of generations, of env steps) is behind it."""
    by_steps = env_steps / settings["max_env_steps"] if settings["max_env_steps"] else 0.0
    return min(1.0, max(generations / settings["generations"] if "generations" in settings else 0.0, by_steps))
