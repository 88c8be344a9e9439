"""Where a run's settings come from: defaults < task or preset < file < neat-python file < what the user said."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from neol import files
from neol.config.changes import fit_changes, has_attributes
from neol.config.schema import Config, check_value, parse_toml
from neol.config.substrates import HYPERNEAT
from neol.envs.registry import Maker, choose_engine, find, parse_kwargs
from neol.envs.senses import with_senses
from neol.envs.tasks import DIFFERENTIABLE, STRATEGIES, Task
from neol.envs.trust import check_trusted
from neol.errors import NeolError, nearest
from neol.files import slug
from neol.training.run_folder import CONFIG, MAY_CHANGE, START, is_taken

if TYPE_CHECKING:  # it loads the kernels, and `neol --help` needs this module
    from neol.outer.base import LoopMaker
    from neol.substrate.layout import Substrate
    from neol.training.start import Start

# The authors' NEAT settings (docs/method.md, Presets). Weight mutation differs between NEAT and the plastic arms.
_AUTHORS_NEAT: dict[str, Any] = {
    "episodes": 1, "common_random_numbers": False, "fitness_offset": 0.0, "generations": 500,
    "activation_default": "clamped", "activation_options": ("clamped",), "activation_mutate_rate": 0.0,
    "aggregation_default": "sum", "aggregation_options": ("sum",), "aggregation_mutate_rate": 0.0,
    "initial_connection": "full_direct", "num_hidden": 0, "feed_forward": True,
    "bias_init_mean": 0.0, "bias_init_stdev": 1.0, "bias_mutate_rate": 0.7, "bias_mutate_power": 0.5,
    "bias_replace_rate": 0.1, "bias_min_value": -30.0, "bias_max_value": 30.0,
    "response_init_mean": 1.0, "response_init_stdev": 0.0, "response_mutate_rate": 0.0, "response_replace_rate": 0.0,
    "weight_init_mean": 0.0, "weight_init_stdev": 1.0, "weight_mutate_power": 0.5,
    "weight_min_value": -30.0, "weight_max_value": 30.0, "step_size_adaptation": 0.0,
    "conn_add_prob": 0.5, "conn_delete_prob": 0.5, "node_add_prob": 0.2, "node_delete_prob": 0.2,
    "enabled_mutate_rate": 0.03, "compatibility_disjoint_coefficient": 1.0, "compatibility_weight_coefficient": 0.5,
    "compatibility_threshold": 3.0, "compatibility_normalizer": "larger", "max_stagnation": 20, "species_elitism": 2,
    "species_fitness_func": "max", "elitism": 10, "survival_threshold": 0.2, "min_species_size": 2,
    "crossover_prob": 1.0, "disabled_inherit_prob": 0.75, "sharing": "normalized", "inheritance": "lamarckian",
    "reward_scale": 0.001, "bcm_tau": 0.02, "weight_limit": 10.0, "preactivation_limit": 50.0,
    "output_transform": "tanh",
}  # fmt: skip
_NEAT_WEIGHTS = {"weight_mutate_rate": 0.8, "weight_replace_rate": 0.1}
_PLASTIC_WEIGHTS = {"weight_mutate_rate": 0.05, "weight_replace_rate": 0.02}

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {**_AUTHORS_NEAT, "reward_credit": "same-step", "trace_decay": 0.0},
    "authors": {**_AUTHORS_NEAT, "reward_credit": "next-step", "trace_decay": 0.9},
}


def preset_settings(preset: str, rule: str) -> dict[str, Any]:
    """A preset's settings; the authors' weight-mutation rates depend on whether the arm is plastic."""
    if preset not in PRESETS:
        raise NeolError(f"unknown preset '{preset}'; {nearest(preset, PRESETS)}")
    if preset == "default":
        return {}
    return {**PRESETS[preset], **(_NEAT_WEIGHTS if rule == "none" else _PLASTIC_WEIGHTS)}


COVARIANCES = ("auto", "cma", "sep-cma")  # strategies that a task's own es_population and es_sigma are for
# What a task has for its own max_env_steps, with the least that is of use (in fewer generations starts do not differ).
PARTS_OF_BUDGET = {"es_round": 8, "whole_episodes_after": 1}


def base_settings(task: Task, preset: str, rule: str, outer: str, encoding: str = "direct") -> dict[str, Any]:
    """What is used where the user says nothing: a preset's, or a task's own for this outer loop; and that of CPPNs."""
    of_cppns = HYPERNEAT if encoding == "hyperneat" else {}
    if preset != "default":
        return {**preset_settings(preset, rule), **of_cppns}
    if outer == "gradient":
        return {**task.settings, **DIFFERENTIABLE, **task.differentiable}
    return {**task.settings, **({**STRATEGIES, **task.strategies} if outer in ("es", "neat-es") else {}), **of_cppns}


def fitted_to_budget(base: Mapping[str, Any], budget: Any) -> dict[str, Any]:
    """A task's own settings where the user gives it another budget: of a smaller one a race, or short episodes, take
    the same part."""
    own = base.get("max_env_steps", 0)
    steps = check_value("max_env_steps", budget)
    if not own or not steps:
        return dict(base)
    return {k: part_of_budget(k, v, steps / own) if k in PARTS_OF_BUDGET else v for k, v in base.items()}


def part_of_budget(name: str, own: int, share: float) -> int:
    """A setting of PARTS_OF_BUDGET where the budget is that share of the one that it was made for.

    A larger budget leaves it as it is: the longer run begins with the race of the shorter one.
    """
    return max(min(own, PARTS_OF_BUDGET[name]), round(own * min(1.0, share)))


class Resolved(NamedTuple):
    """All that a run is made from, decided once."""

    config: Config  # complete and checked
    task: Task
    engine: str  # envpool or gymnasium; the config has it too
    why: str  # this engine
    loop: LoopMaker | None = None  # an outer loop that was passed from Python; else the config names it
    start: Start | None = None  # the champion that it begins from
    substrate: Substrate | None = None  # what it paints on, where genomes are CPPNs


def check_word(stored: Mapping[str, Any], said: Collection[str], source: str) -> None:
    """A NeolError where settings of a file would have code run, and the user has not `said` them."""
    if "task" in stored and "task" not in said:
        arguments = parse_kwargs(check_value("env_kwargs", stored.get("env_kwargs", ())))
        check_trusted(str(stored["task"]), arguments, source, "TASK, or --trust")
    address = stored.get("ray_address")
    used = stored.get("executor") != "local"
    if used and address not in (None, "", "auto") and "ray_address" not in said:  # auto: on this machine
        raise NeolError(
            f"{source} names the Ray cluster at '{address}', whose answers run code here; give --ray-address, or "
            "--trust, if you trust it."
        )


def configure(
    task: str | Maker | None = None,
    preset: str = "default",
    config_file: str | os.PathLike[str] | None = None,
    neat_config: str | os.PathLike[str] | None = None,
    trust: bool = False,
    folder: Path | None = None,
    **settings: Any,
) -> Resolved:
    """The complete, checked settings of a run: defaults < task or preset < file < neat-python file < `settings`.

    `trust`: an environment that the file names as `module:name` may be imported.
    `folder`: of a run to resume; what it began from is read from there.
    """
    file = parse_toml(read_text(config_file), str(config_file)) if config_file else {}
    if task is not None:
        settings["task"] = task
    said = {**file, **settings}
    named = said.get("task", Config().run.task)
    if not trust:
        check_word(file, settings, f"'{config_file}'")
    found = find(named if callable(named) else str(named), check_value("env_kwargs", said.get("env_kwargs", ())))
    if neat_config:
        from neol.config.neat_python import load_neat_config

        said = {
            **file,
            **load_neat_config(Path(neat_config), inputs=found.n_inputs, outputs=found.n_outputs),
            **settings,
        }
    rule = str(said.get("rule", Config().plasticity.rule))
    kind = (str(said.get(name, getattr(Config().run, name))) for name in ("outer", "encoding"))
    base = fitted_to_budget(base_settings(found, preset, rule, *kind), said.get("max_env_steps", 0))
    if str(said.get("es", "auto")) not in COVARIANCES:
        base = {k: v for k, v in base.items() if k not in ("es_population", "es_sigma")}
    if str(said.get("topology", "")).endswith(".json"):  # its nodes and connections, not its weights
        said = {**said, "start": said.get("start") or said["topology"], "topology": "start"}
    start, stored = None, folder is not None and os.path.exists(folder / CONFIG)
    if said.get("start"):
        from neol.training.start import check_fits, read_start

        kept = folder / START if folder is not None else None
        start = read_start(kept if kept is not None and os.path.exists(kept) else check_value("start", said["start"]))
        base = {**base, **start.settings}
    resolved = _settled(Config().replace(**{**base, **said, "task": found.name}), found, None)
    if start is not None and not stored:  # else the run's own settings count, not these
        check_fits(start, resolved.config, resolved.task)
    if resolved.config.run.encoding == "hyperneat" and not stored:
        from neol.substrate.layout import substrate_of

        resolved = resolved._replace(substrate=substrate_of(resolved.config, resolved.task))
    return resolved._replace(start=start)


def resolve(config: Config, task: str | Maker | None = None, loop: LoopMaker | None = None) -> Resolved:
    """A configuration that is complete: of a study, of a run's folder, or a program's own."""
    found = find(task if task is not None else config.run.task, config.rollout.env_kwargs)
    return _settled(config.replace(task=found.name), found, loop)


def _settled(config: Config, task: Task, loop: LoopMaker | None) -> Resolved:
    worlds, steps = (config.world.change, config.world.test_change), config.rollout.max_steps or task.max_steps
    # mistakes are told before a kernel is loaded
    fitted = [fit_changes(w, task.observed, task.actions, steps, config.rollout.trials) for w in worlds]
    attributes = any(map(has_attributes, worlds))
    engine, why = choose_engine(task, config.rollout.engine, attributes)
    if engine == "gymnasium":  # as asked for, or as a run's folder has it: why not EnvPool?
        why = choose_engine(task, "auto", attributes)[1]
    task = with_senses(task, config.rollout.senses, len(fitted[0]))
    return Resolved(config.replace(max_steps=steps, engine=engine), task, engine, why, loop)


# Settings that a default folder's name does not carry: they stand in it anyway, or a resume may change them.
_NOT_IN_NAME = ("task", "rule", "seed", "outer", "max_steps", "engine", *MAY_CHANGE)
_LONGEST_NAME = 100


def default_folder(resolved: Resolved, preset: str, resume: bool) -> Path:
    """runs/TASK-RULE-SEED and what differs from the task's defaults: free, or, to resume, the last that is taken."""
    config = resolved.config
    own = base_settings(resolved.task, preset, config.plasticity.rule, config.run.outer, config.run.encoding)
    own = fitted_to_budget(own, config.run.max_env_steps)
    before, now = Config().replace(**own, encoding=config.run.encoding).flat(), config.flat()
    parts = [slug(config.run.task), config.plasticity.rule, str(config.run.seed)]
    parts += [slug(config.run.outer)] * (config.run.outer != "neat") + [preset] * (preset != "default")
    parts += [config.run.encoding] * (config.run.encoding != "direct")
    parts += [slug(f"{k}{now[k]}") for k in now if now[k] != before[k] and k not in _NOT_IN_NAME]
    name = "-".join(parts)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    first = Path("runs") / name
    last = path = first
    for n in itertools.count(2):
        if not is_taken(path):
            break
        last, path = path, first.with_name(f"{name}-{n}")
    return last if resume else path


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file's content, or a NeolError."""
    try:
        return files.read_text(path)
    except (OSError, ValueError, TypeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not UTF-8 text, or not a path"
        raise NeolError(f"cannot read '{path}': {reason}.") from None
