"""summary.json: what a finished run came to, as a named type."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neol.errors import NeolError
from neol.stats import mean_interval
from neol.training import run_folder

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Returns of one controller on fresh episodes."""

    mean: float
    ci95: Interval  # Student's, over episodes
    std: float

    @staticmethod
    def of(returns: np.ndarray) -> Measured:
        """Of returns f8 (episodes,)."""
        low, high = mean_interval(returns)
        std = float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
        return Measured(mean=float(returns.mean()), ci95=(low, high), std=std)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What `neol train` and `neol baseline` both report."""

    status: str  # why the run ended
    task: str
    generations: int
    env_steps: int
    wall_seconds: float
    steps_per_second: float
    cpu_seconds: float
    best_fitness: float  # of the final generation: the luckiest of the population
    champion_return_mean: float  # on episodes that had no part in training or in choosing it
    champion_return_ci95: Interval
    champion_return_std: float
    champion_episodes: int
    champion_without_plasticity_return_mean: float
    champion_return_by_trial: tuple[float, ...] = ()  # where a life has several
    champion_without_plasticity_return_by_trial: tuple[float, ...] = ()
    champion_selection_return_mean: float
    champion_nodes: int
    champion_connections: int
    parameters: int  # numbers that the champion acts with
    selection_env_steps: int  # spent on choosing it, beyond env_steps
    engine: str
    executor: str
    threads: int
    events: Mapping[str, int] = field(default_factory=dict)  # what went wrong, by kind; the details: events.jsonl
    versions: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As summary.json has it."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class NeolSummary(Summary):
    """A run of `neol train`."""

    outer: str = "neat"
    champion_is_best_by_fitness: bool
    best_by_fitness_return_mean: float
    best_by_fitness_return_ci95: Interval
    champion_test_return_mean: float | None = None  # in the world of `test_change`, which training never met
    champion_test_return_ci95: Interval | None = None
    start_return_mean: float | None = None  # of the champion that the run began from, on the same episodes
    start_return_ci95: Interval | None = None
    champion_is_start: bool | None = None  # nothing was found that is better
    cppn_parameters: int | None = None  # HyperNEAT: numbers of the CPPN that painted the champion
    champion_keeps_rule: bool | None = None  # of a plastic one that gradients trained: better with its rule, or without
    finetuned_by: str | None = None  # the algorithm, where gradients trained it
    evolved_env_steps: int | None = None  # spent before, in the same run

    def as_dict(self) -> dict[str, Any]:
        return {k: v for k, v in super().as_dict().items() if v is not None}


@dataclass(frozen=True, kw_only=True)
class BaselineSummary(Summary):
    """A run of `neol baseline`."""

    algorithm: str
    cpu_seconds_per_million_steps: float
    best_so_far: float
    champion_generation: int
    champion_is_final: bool
    final_return_mean: float
    final_return_ci95: Interval
    final_return_std: float


def shown(value: float | None, digits: int = 1) -> str:
    """A return as it is printed; one that is not finite (summary.json has null) or has too many digits, too."""
    if value is None or not math.isfinite(value):
        return "not finite"
    return f"{value:.{digits}f}" if abs(value) < 1e15 else f"{value:.6g}"


def write_summary(folder: Path, summary: Summary) -> None:
    run_folder.write_json(folder / run_folder.SUMMARY, summary.as_dict())


def _fits(value: Any, kind: str) -> bool:
    """Whether a value of summary.json is of a field's type; a number that was not finite is null there."""
    if kind.endswith(" | None"):
        return value is None or _fits(value, kind.removesuffix(" | None"))
    if kind.startswith("tuple[float"):
        return isinstance(value, tuple) and all(_fits(v, "float") for v in value)
    if kind == "Interval":
        return isinstance(value, tuple) and len(value) == 2 and all(_fits(v, "float") for v in value)
    if kind.startswith("Mapping"):
        return isinstance(value, Mapping)
    number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    return {"str": isinstance(value, str), "bool": isinstance(value, bool), "int": isinstance(value, int)}.get(
        kind, number
    )


def read_summary(folder: Path) -> NeolSummary | BaselineSummary:
    """The summary of a finished run's folder."""
    path = folder / run_folder.SUMMARY
    if not path.exists():
        raise NeolError(f"'{folder}' is not finished: it has no {path.name} yet; finish it with --out and --resume.")
    stored = run_folder.read_json(path)
    kind: type[Any] = BaselineSummary if "algorithm" in stored else NeolSummary
    names = {f.name for f in dataclasses.fields(kind)}
    rows = ("_ci95", "_by_trial")
    known = {k: tuple(v) if k.endswith(rows) and isinstance(v, list) else v for k, v in stored.items() if k in names}
    for f in dataclasses.fields(kind):
        if f.name in known and not _fits(known[f.name], str(f.type)):
            raise NeolError(f"'{path}' is not a run's summary: {f.name} = {str(known[f.name])[:60]!r} is not allowed.")
    if "parameters" not in known and {"champion_connections", "champion_nodes"} <= set(known):  # written before it was
        known["parameters"] = known["champion_connections"] + known["champion_nodes"]
    try:
        return kind(**known)
    except TypeError as e:
        raise NeolError(f"'{path}' is not a run's summary: {str(e).partition('() ')[2]}.") from None
