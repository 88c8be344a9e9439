"""A study's file: tasks x arms x grid x seeds -> cells, each a complete configuration.

    [study]               # title, tasks, seeds (a count, or a list), and optionally preset, reference, control
    [budget]              # generations and / or max_env_steps, for all arms
    [base]                # settings of all arms, by the flat names of `neol train`
    [[arm]]               # name, label, and what it sets; `control = false`: without its matched control;
                          # `algorithm = "ppo"` or "sac": a baseline, or with `evolve_share = 0.3` an outer loop for
                          # that part of max_env_steps, whose champion's weights gradients train; `tasks`: on these
                          # alone; `role`: plastic, control or oracle, for the report's adaptation score
    [grid]                # field = [values]: every combination of them
    [task.NAME]           # settings of a task, and [task.NAME.arm.NAME] of an arm on it

Later wins: preset < budget < base < task < arm < arm on the task < grid. Every plastic arm has its matched control, the
same settings with lr = 0. Cells whose configurations mean the same share one run.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from neol.baselines import settings as baseline_settings
from neol.baselines.settings import ALGORITHMS, BaselineConfig
from neol.config.schema import Config, check_value, fields
from neol.config.sections import PlasticityConfig
from neol.errors import NeolError, nearest
from neol.files import slug
from neol.gradients import settings as finetune_settings
from neol.gradients.settings import FinetuneConfig
from neol.training.configure import PRESETS, configure, part_of_budget, read_text
from neol.training.run_folder import FINETUNE

BUNDLED = Path(__file__).parent / "bundled"  # the studies that are installed with the package
CONTROL = "-control"
_BUDGET = ("generations", "max_env_steps")
_TABLES = ("study", "budget", "base", "arm", "grid", "task")
_STUDY_KEYS = ("title", "tasks", "seeds", "preset", "reference", "control")
_ARM_KEYS = ("name", "label", "preset", "control", "algorithm", "evolve_share", "tasks", "role")
PLASTIC, CONTROL_ROLE, ORACLE = ROLES = ("plastic", "control", "oracle")  # in the question whether learning pays
_OF_BASELINES = ("max_env_steps", "max_steps", "change")  # the settings that a baseline shares with NEOL
NEOL = "neol"
# Who computes, and how it is shown: no part of what a run is.
HOW = ("threads", "window", "tensorboard", "workers", "executor", "ray_address", "step_timeout")
_NOT_IN_ARMS = ("task", "seed", *HOW)
# of the plasticity settings, what acts without a rule
_OF_NODES = ("preactivation_limit", "output_transform", "birth", "birth_spread")
_OF_UPDATES = (
    "rule", "lr", "reward_scale", "trace_decay", "bcm_tau", "evolve_rate", "gate", "reward_mean_rate", "weight_decay",
    "decay_to", "evolve_decay", "coefficients_of", "shared_rules",
)  # what does not act where lr = 0  # fmt: skip
LONGEST = 150  # characters of a label, so that those of controls are shorter than 200, too
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.IGNORECASE)
AnyConfig = Config | BaselineConfig | FinetuneConfig


class ArmPlan(NamedTuple):
    name: str
    label: str
    preset: str
    control: bool  # whether it has a matched control
    algorithm: str  # neol, or a baseline
    tasks: tuple[str, ...]  # () = all of the study's
    settings: Mapping[str, Any]
    evolve_share: float = 0.0  # of a run that gradients finish: the outer loop's part of the budget


@dataclass(frozen=True)
class StudyPlan:
    """A study file, read and checked."""

    title: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    arms: tuple[ArmPlan, ...]
    reference: str  # the arm that the others are compared with, "" = only with their controls
    base: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    of_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_task_arm: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    text: str = ""

    def points(self) -> Iterator[dict[str, Any]]:
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


class Cell(NamedTuple):
    """One run's place in the study."""

    task: str
    arm: str
    label: str
    control_of: str  # the arm that this is the matched control of, or ""
    point: dict[str, Any]  # its place in the grid
    seed: int
    config: AnyConfig
    key: str  # equal for cells that share a run


def read_plan(file: str | Path) -> StudyPlan:
    """The study in a TOML file: a path, or the name of a bundled one."""
    path = find_study(file)
    return parse_plan(read_text(path), str(path))


def bundled_studies() -> dict[str, Path]:
    """The studies that are installed with the package, by name ("paper/smoke")."""
    return {p.relative_to(BUNDLED).with_suffix("").as_posix(): p for p in sorted(BUNDLED.rglob("*.toml"))}


def find_study(file: str | Path) -> Path:
    """A path if there is a file, else the bundled study of that name, with or without ".toml"."""
    path, bundled = Path(file), bundled_studies()
    if path.exists() and not path.is_dir():
        return path
    name = path.as_posix().removesuffix(".toml")
    if name not in bundled:
        raise NeolError(f"there is no file '{file}', and no bundled study of that name; {nearest(name, bundled)}")
    return bundled[name]


def parse_plan(text: str, source: str = "study") -> StudyPlan:
    """A study from TOML text; the first fault that is found is a NeolError."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise NeolError(f"{source} is not valid TOML: {e}.") from None
    _known(source, tables, _TABLES, "table")
    study = _table(tables, "study", source)
    _known(f"{source}: [study]", study, _STUDY_KEYS, "key")
    preset, control = study.get("preset", "default"), _flag(study.get("control", True), "[study] control")
    tasks = _words(study.get("tasks"), f"{source}: [study] tasks")
    arms = _arms(tables.get("arm", []), preset, control, tasks, source)
    of_task, of_task_arm = _task_tables(_table(tables, "task", source, {}), tasks, arms, source)
    budget = _table(tables, "budget", source, {})
    _known(f"{source}: [budget]", budget, _BUDGET, "key")
    reference = str(study.get("reference", ""))
    if reference and reference not in [a.name for a in arms]:
        raise NeolError(f"{source}: reference = '{reference}' is no arm; {nearest(reference, [a.name for a in arms])}")
    base = {**budget, **_table(tables, "base", source, {})}
    plan = StudyPlan(
        title=str(study.get("title", Path(source).stem)), tasks=tasks, arms=arms, reference=reference, text=text,
        seeds=read_seeds(study.get("seeds", 1), f"{source}: seeds"),
        base=_settings(base, f"{source}: [base]"), grid=_grid(tables, source),
        of_task=of_task, of_task_arm=of_task_arm,
    )  # fmt: skip
    next(cells(plan))  # a fault that only shows when settings meet
    return plan


def _known(where: str, given: Mapping[str, Any], allowed: Sequence[str], what: str) -> None:
    for name in given:
        if name not in allowed:
            raise NeolError(f"{where} has an unknown {what} '{name}'; {nearest(name, allowed)}")


def _table(tables: Mapping[str, Any], name: str, source: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
    value = tables.get(name, default)
    if not isinstance(value, dict):
        raise NeolError(f"{source} needs a table [{name}].")
    return value


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise NeolError(f"{name} = {value!r} is not allowed; it must be true or false.")
    return value


def _words(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise NeolError(f"{name} = {value!r} is not allowed; it must be a list of names, at least one.")
    twice = [v for v in value if value.count(v) > 1]
    if twice:
        raise NeolError(f"{name} has '{twice[0]}' twice.")
    return tuple(value)


def read_seeds(value: Any, name: str = "seeds") -> tuple[int, ...]:
    """A count n (seeds 0 .. n - 1) or a list of different whole numbers."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and 1 <= value <= 1_000_000:
        return tuple(range(value))
    if whole or not isinstance(value, list) or not value:
        raise NeolError(
            f"{name} = {value!r} is not allowed; it must be a count from 1 to 1,000,000, or a list of seeds."
        )
    seeds = tuple(check_value("seed", v) for v in value)
    twice = [s for s in seeds if seeds.count(s) > 1]
    if twice:
        raise NeolError(f"{name} has {twice[0]} twice; every seed must be another.")
    return seeds


def _arms(tables: Any, preset: Any, control: bool, tasks: Sequence[str], source: str) -> tuple[ArmPlan, ...]:
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise NeolError(f"{source} needs at least one [[arm]].")
    arms: list[ArmPlan] = []
    for table in tables:
        name = table.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith(CONTROL) or len(name) > 100:
            raise NeolError(
                f"{source}: arm name = {str(name)[:60]!r} is not allowed; it must be letters, digits, '.', '_' or '-', "
                f"at most 100, and not end in '{CONTROL}'."
            )
        if name in [a.name for a in arms]:
            raise NeolError(f"{source} has two arms with the name '{name}'.")
        arms.append(_arm(name, table, preset, control, tasks, f"{source}: arm '{name}'"))
    return tuple(arms)


def _arm(name: str, table: dict[str, Any], preset: Any, control: bool, tasks: Sequence[str], where: str) -> ArmPlan:
    own, algorithm = str(table.get("preset", preset)), table.get("algorithm", NEOL)
    if own not in PRESETS:
        raise NeolError(f"{where}: unknown preset '{own}'; {nearest(own, PRESETS)}")
    if algorithm not in (NEOL, *ALGORITHMS):
        raise NeolError(
            f"{where}: algorithm = {algorithm!r} is not allowed; {nearest(str(algorithm), (NEOL, *ALGORITHMS))}"
        )
    if "role" in table and table["role"] not in ROLES:
        raise NeolError(f"{where}: role = {table['role']!r} is not allowed; {nearest(str(table['role']), ROLES)}")
    only = _words(table["tasks"], f"{where}: tasks") if "tasks" in table else ()
    _known(f"{where}: tasks", dict.fromkeys(only), tasks, "task")
    rest, share = {k: v for k, v in table.items() if k not in _ARM_KEYS}, table.get("evolve_share", 0.0)
    if algorithm == NEOL and "evolve_share" in table:
        raise NeolError(f"{where}: evolve_share is not allowed without algorithm = ppo or sac, which has the rest.")
    if algorithm != NEOL and not share:
        _known(where, rest, _OF_BASELINES, "key")
    with_control = _flag(table.get("control", control), f"{where}: control") and algorithm == NEOL
    label = str(table.get("label", name))
    if not label.strip() or label.startswith("_") or len(label) > LONGEST or not label.isprintable():
        raise NeolError(
            f"{where}: label = {label[:60]!r} is not allowed; it must be a line of at most {LONGEST} characters, and "
            "not begin with '_'."
        )
    return ArmPlan(name, label, own, with_control, algorithm, only, _settings(rest, where), share)


def _task_tables(
    tables: Mapping[str, Any], tasks: Sequence[str], arms: Sequence[ArmPlan], source: str
) -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
    _known(f"{source}: [task]", tables, tasks, "task")
    of_task, of_task_arm = {}, {}
    for task, table in tables.items():
        where = f"{source}: [task.{task}]"
        if not isinstance(table, dict):
            raise NeolError(f"{where} must be a table of settings.")
        inner = _table(table, "arm", where, {})
        _known(f"{where} arm", inner, [a.name for a in arms], "arm")
        of_task[task] = _settings({k: v for k, v in table.items() if k != "arm"}, where)
        for arm, settings in inner.items():
            of_task_arm[task, arm] = _settings(settings, f"{source}: [task.{task}.arm.{arm}]")
    return of_task, of_task_arm


def _settings(table: Any, where: str) -> dict[str, Any]:
    """Flat settings, checked one by one."""
    if not isinstance(table, dict):
        raise NeolError(f"{where} must be a table of settings.")
    _known(where, table, [n for n in fields() if n not in _NOT_IN_ARMS], "key")
    for name in _BUDGET:
        if name in table and table[name] == 0:
            raise NeolError(f"{where}: {name} = 0 is not allowed; a budget must be at least 1.")
    if str(table.get("outer", "")).startswith("python:"):
        raise NeolError(f"{where}: outer = {table['outer']!r} is not allowed; a study runs the loops that NEOL has.")
    try:
        return {name: check_value(name, value) for name, value in table.items()}
    except NeolError as e:
        raise NeolError(f"{where}: {e}") from None


def _grid(tables: Mapping[str, Any], source: str) -> dict[str, tuple[Any, ...]]:
    if "grid" not in tables:
        return {}
    table = _table(tables, "grid", source)
    if not table:
        raise NeolError(f"{source}: [grid] is empty; it must have a field = [values], or be left out.")
    grid: dict[str, tuple[Any, ...]] = {}
    for name, values in table.items():
        where = f"{source}: [grid] {name}"
        if not isinstance(values, list) or not values:
            raise NeolError(f"{where} = {values!r} is not allowed; it must be a list of at least one value.")
        checked = tuple(_settings({name: v}, f"{source}: [grid]")[name] for v in values)
        if len(set(checked)) < len(checked):
            raise NeolError(f"{where} has the same value twice.")
        grid[name] = checked
    return grid


def cells(plan: StudyPlan, scale: float = 1.0) -> Iterator[Cell]:
    """Every cell, task by task and seed by seed, so that a study that is stopped has whole comparisons.

    `scale` multiplies every budget (generations and environment steps).
    """
    for task in plan.tasks:
        for seed in plan.seeds:
            for arm in (a for a in plan.arms if not a.tasks or task in a.tasks):
                for point in plan.points():
                    yield from _cell(plan, task, arm, point, seed, scale)


def _cell(plan: StudyPlan, task: str, arm: ArmPlan, point: dict[str, Any], seed: int, scale: float) -> Iterator[Cell]:
    layers = (plan.base, plan.of_task.get(task, {}), arm.settings, plan.of_task_arm.get((task, arm.name), {}), point)
    settings = {k: v for layer in layers for k, v in layer.items()}
    try:
        config = _configure(task, arm, settings, seed, scale)
    except NeolError as e:
        raise NeolError(f"arm '{arm.name}' on {task}: {e}") from None
    yield Cell(task, arm.name, arm.label, "", point, seed, config, key_of(config))
    if isinstance(config, Config) and arm.control and config.plasticity.rule != "none" and config.plasticity.lr != 0.0:
        control = canonical(config.replace(lr=0.0))
        name, label = arm.name + CONTROL, f"{arm.label}, lr = 0"
        yield Cell(task, name, label, arm.name, point, seed, control, key_of(control))


def _configure(task: str, arm: ArmPlan, settings: dict[str, Any], seed: int, scale: float) -> AnyConfig:
    if arm.algorithm == NEOL:
        return canonical(scaled(configure(task, arm.preset, **settings, seed=seed).config, scale))
    if arm.evolve_share:
        resolved = configure(task, arm.preset, **settings, seed=seed)
        evolution = canonical(scaled(resolved.config, scale))
        return finetune_settings.finetune_config(evolution, resolved.task, arm.algorithm, arm.evolve_share)
    steps = settings.get("max_env_steps", 0)
    if not steps:
        raise NeolError("a baseline needs max_env_steps, its budget.")
    steps = max(1, round(steps * check_scale(scale)))
    longest, change = settings.get("max_steps", 0), settings.get("change")
    return baseline_settings.baseline_config(arm.algorithm, task, steps, seed, 1, longest, change=change)


def scaled(config: Config, scale: float) -> Config:
    """The configuration with its budget multiplied, and what is a part of it: a race's rounds, short episodes."""
    run, scale = config.run, check_scale(scale)
    budget = {"generations": run.generations, "max_env_steps": run.max_env_steps}
    parts = {"whole_episodes_after": config.rollout.whole_episodes_after}
    if config.es.es_starts > 1:
        parts["es_round"] = config.es.es_round
    return config.replace(
        **{k: max(1, round(v * scale)) if v else 0 for k, v in budget.items()},
        **{k: part_of_budget(k, v, scale) for k, v in parts.items()},
    )


def check_scale(scale: float) -> float:
    if not 0.0 < scale <= 1e6:
        raise NeolError(f"scale = {scale} is not allowed; it must be above 0 and at most 1,000,000.")
    return scale


def canonical(config: Config) -> Config:
    """Of all configurations that mean the same run, the one that stands for them.

    No rule: nothing of plasticity is used but how nodes work. lr = 0: no rule moves a weight, all of them project it.
    """
    p, default = config.plasticity, PlasticityConfig()
    if p.rule == "none":
        return config.replace(
            **{k: v for k, v in vars(default).items() if k not in (*_OF_NODES, "rule", "lr")}, rule="none", lr=0.0
        )
    if _never_updates(p):
        return config.replace(**{k: getattr(default, k) for k in _OF_UPDATES[2:]}, rule="hebb", lr=0.0)
    return config


def key_of(config: AnyConfig) -> str:
    """A run's name: the same for equal configurations, whoever computes them, also when NEOL has more settings."""
    usual = {} if isinstance(config, BaselineConfig) else Config().flat()
    flat = config.flat()
    settings = {k: v for k, v in flat.items() if k not in HOW and (k not in usual or v != usual[k])}
    return f"{slug(flat['task'])}-{hashlib.sha256(repr(settings).encode()).hexdigest()[:12]}-s{flat['seed']}"


def parse_config(text: str, source: str) -> AnyConfig:
    """A run's configuration: of NEOL, of a baseline, or of both in turn."""
    if text.startswith("[baseline]"):
        return baseline_settings.read(text, source)
    if FINETUNE in text:
        return finetune_settings.read(text, source)
    return Config.from_toml(text, source)


def differences(a: AnyConfig, b: AnyConfig) -> dict[str, tuple[Any, Any]]:
    """The settings in which two runs differ and that act in both of them, apart from task and seed."""
    if not isinstance(a, Config) or not isinstance(b, Config):
        names = [NEOL if isinstance(c, Config) else c.name for c in (a, b)]
        return {} if a == b else {"algorithm": (names[0], names[1])}
    x, y = a.flat(), b.flat()
    idle = {k for c in (a, b) for k in _idle(c)} - {"lr"}
    if "none" in (a.plasticity.rule, b.plasticity.rule):
        idle -= {"rule"}
    return {k: (x[k], y[k]) for k in x if x[k] != y[k] and k not in _NOT_IN_ARMS and k not in idle}


def _idle(config: Config) -> set[str]:
    """The settings of plasticity that this run does not use."""
    p = config.plasticity
    if p.rule == "none":
        return {k for k in vars(p) if k not in _OF_NODES}
    return set(_OF_UPDATES) if _never_updates(p) else set()


def _never_updates(p: PlasticityConfig) -> bool:
    """Whether weights are projected and nothing else: a matched control, whose weights do not decay either."""
    return p.lr == 0.0 or (p.reward_scale == 0.0 and p.gate in ("reward", "advantage") and p.weight_decay == 0.0)
