"""Settings of the baselines: PPO's and SAC's hyperparameters for each task, complete, and as they stand in config.toml.

The numbers are those of rl-baselines3-zoo (hyperparams/ppo.yml at 208b6fd, hyperparams/sac.yml at c94924e) for the same
environments (Hopper-v3's for SAC; LunarLanderContinuous-v2's for SAC), over the libraries' defaults for what they leave
out. `lin_X` falls in a straight line from X to 0 over the whole run. One thing differs: the zoo's SAC explores
BipedalWalker by gSDE, which SBX does not have.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from neol.config.changes import fit_changes
from neol.config.schema import check_value, to_toml
from neol.envs.tasks import CHANGING_TASKS, TASKS, Task
from neol.errors import NeolError, nearest
from neol.network.actions import ARGMAX
from neol.system import cores

ALGORITHMS = ("ppo", "sac")

_DEFAULTS: dict[str, dict[str, Any]] = {
    "ppo": {
        "n_envs": 1, "n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95,
        "learning_rate": 3e-4, "clip_range": 0.2, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5,
        "normalize": False, "net_arch": (64, 64), "activation": "tanh", "log_std_init": 0.0, "ortho_init": True,
    },
    "sac": {
        "n_envs": 1, "buffer_size": 1_000_000, "learning_starts": 100, "batch_size": 256, "tau": 0.005, "gamma": 0.99,
        "learning_rate": 3e-4, "train_freq": 1, "gradient_steps": 1, "ent_coef": "auto", "net_arch": (256, 256),
        "activation": "relu",
    },
}  # fmt: skip

_TUNED: dict[tuple[str, str], dict[str, Any]] = {
    ("ppo", "cartpole"): {
        "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
        "learning_rate": "lin_0.001", "clip_range": "lin_0.2",
    },
    ("ppo", "lunarlander"): {
        "n_envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4,
        "ent_coef": 0.01,
    },
    ("ppo", "bipedalwalker"): {
        "normalize": True, "n_envs": 32, "n_steps": 2048, "batch_size": 64, "gae_lambda": 0.95, "gamma": 0.999,
        "n_epochs": 10, "learning_rate": 3e-4, "clip_range": 0.18,
    },
    ("ppo", "hopper"): {
        "normalize": True, "n_envs": 1, "n_steps": 512, "batch_size": 32, "gamma": 0.999, "learning_rate": 9.80828e-05,
        "ent_coef": 0.00229519, "clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7,
        "vf_coef": 0.835671, "log_std_init": -2.0, "ortho_init": False, "activation": "relu", "net_arch": (256, 256),
    },
    ("sac", "lunarlander"): {
        "batch_size": 256, "learning_rate": "lin_7.3e-4", "buffer_size": 1_000_000, "gamma": 0.99, "tau": 0.01,
        "learning_starts": 10_000, "net_arch": (400, 300),
    },
    ("sac", "bipedalwalker"): {
        "learning_rate": 7.3e-4, "buffer_size": 300_000, "batch_size": 256, "gamma": 0.98, "tau": 0.02,
        "train_freq": 64, "gradient_steps": 64, "learning_starts": 10_000, "net_arch": (400, 300),
    },
    ("sac", "hopper"): {"learning_starts": 10_000},
}  # fmt: skip
# Nobody has tuned them for worlds that change. Cartpoles: the cartpole's. Bodies: the zoo's defaults for MuJoCo, PPO's
# rollouts of 2,048 steps in eight environments at once: with one a step costs more in JAX than in MuJoCo.
_BODIES = ("halfcheetah-direction", "ant-dead-leg")
_TUNED |= {
    **{("ppo", task): _TUNED["ppo", "cartpole"] for task in ("cartpole-mass", "cartpole-gravity")},
    **{("ppo", task): {"normalize": True, "n_envs": 8, "n_steps": 256} for task in _BODIES},
    **{("sac", task): {"learning_starts": 10_000} for task in _BODIES},
}

# Nobody has tuned them for simulators of our own: the libraries' defaults, with eight environments.
_NATIVE: dict[str, dict[str, Any]] = {"ppo": {"n_envs": 8, "n_steps": 500, "batch_size": 200}, "sac": {}}

# Env steps from one line of history.csv, and checkpoint, to the next. Environments start anew there, so each of them
# should have played some whole episodes in between.
_INTERVAL = {
    ("ppo", "lunarlander"): 65_536, ("ppo", "bipedalwalker"): 131_072,
    **{("ppo", task): 10_240 for task in ("cartpole", "cartpole-mass", "cartpole-gravity")},
    **{("ppo", task): 20_480 for task in ("hopper", "halfcheetah-direction", "ant-dead-leg")},
}  # fmt: skip
_SAC_INTERVAL = 10_000
_NATIVE_INTERVAL = 40_000
_MAY_BE_LINEAR = ("learning_rate", "clip_range")
_MAY_BE_ZERO = ("learning_starts", "warmup")


@dataclass(frozen=True)
class BaselineConfig:
    """A whole baseline run."""

    algorithm: str
    task: str
    seed: int
    max_env_steps: int
    max_steps: int
    threads: int
    interval: int
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    change: tuple[str, ...] = ()  # of the world, as [world] change

    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {**_own(self), **self.hyperparameters}

    def to_toml(self) -> str:
        """The complete configuration; `read` gives it back."""
        return to_toml({"baseline": _own(self), "hyperparameters": self.hyperparameters})

    @property
    def name(self) -> str:
        """As reports have it."""
        return self.algorithm

    @property
    def schedules(self) -> tuple[str, ...]:
        """Hyperparameters that depend on how much of max_env_steps is left."""
        return tuple(k for k, v in self.hyperparameters.items() if k in _MAY_BE_LINEAR and isinstance(v, str))


def _own(config: BaselineConfig) -> dict[str, Any]:
    own = {k: v for k, v in asdict(config).items() if k != "hyperparameters"}
    usual = not config.change and config.task in TASKS  # as it was before there were changes
    return {k: v for k, v in own.items() if k != "change"} if usual else own


def baseline_config(
    algorithm: str,
    task: str,
    max_env_steps: int,
    seed: int = 0,
    threads: int = 1,
    max_steps: int = 0,
    interval: int = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    change: Sequence[str] | None = None,
) -> BaselineConfig:
    """The tuned settings of an algorithm on a task, with what the user changed; a NeolError where that cannot be."""
    if algorithm not in ALGORITHMS:
        raise NeolError(f"unknown baseline '{algorithm}'; {nearest(algorithm, ALGORITHMS)}")
    found = find_task(task)
    if algorithm == "sac" and found.components[0].kind == ARGMAX:
        raise NeolError(f"SAC needs continuous actions, and those of '{found.name}' are discrete; use ppo.")
    numbers = {"seed": seed, "max_env_steps": max_env_steps, "threads": threads, "max_steps": max_steps}
    checked = {name: check_value(name, value) for name, value in numbers.items()}
    if checked["max_env_steps"] < 1:
        raise NeolError(f"max_env_steps = {max_env_steps} is not allowed; it must be at least 1.")
    if not isinstance(interval, int) or interval < 0:
        raise NeolError(f"interval = {interval} is not allowed; it must be a whole number, at least 0.")
    tuned = _DEFAULTS[algorithm] | (_NATIVE[algorithm] if found.native else _TUNED[algorithm, found.name])
    steps = checked["max_steps"] or found.max_steps
    changes = check_value("change", found.settings.get("change", ()) if change is None else change)
    fitted = fit_changes(changes, found.observed, found.actions, steps, 1)
    if found.components[0].kind == ARGMAX and any(f.change.what == "action" for f in fitted):
        raise NeolError(f"change = '{changes[0]}' is not allowed; a baseline chooses the actions of '{found.name}'.")
    return BaselineConfig(
        algorithm, found.name, checked["seed"], checked["max_env_steps"], steps,
        checked["threads"] or cores(), interval or _interval(algorithm, found),
        tuned | checked_hyperparameters(algorithm, _DEFAULTS[algorithm], tuned, hyperparameters or {}), changes,
    )  # fmt: skip


def _interval(algorithm: str, task: Task) -> int:
    usual = _NATIVE_INTERVAL if task.native and algorithm == "ppo" else _SAC_INTERVAL
    return _INTERVAL.get((algorithm, task.name), usual)


def tuned_for(algorithm: str, task: str) -> Mapping[str, Any]:
    """What the zoo has for an algorithm on a task of ours; nothing where it has none."""
    return _TUNED.get((algorithm, task), {})


def find_task(name: str) -> Task:
    """One of our tasks, by its name or its id."""
    own = TASKS | {t.name: t for t in CHANGING_TASKS.values() if t.native or ("ppo", t.name) in _TUNED}
    by_id = {t.id: t for t in own.values() if t.name in TASKS or t.native}  # Ant-v4 is not the ant with a dead leg
    task = own.get(name) or by_id.get(name)
    if task is None:
        raise NeolError(f"unknown task '{name}'; baselines have settings for our own. {nearest(name, own)}")
    return task


def checked_hyperparameters(
    algorithm: str, defaults: Mapping[str, Any], tuned: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Hyperparameters as the user gave them, in the types that the defaults have."""
    checked = {}
    for name, value in given.items():
        if name not in tuned:
            raise NeolError(f"{algorithm} has no hyperparameter '{name}'; {nearest(name, tuned)}")
        checked[name] = _value(name, value, defaults[name])
    whole = {**tuned, **checked}
    if algorithm == "ppo" and not 1 < whole["batch_size"] <= whole["n_envs"] * whole["n_steps"]:
        raise NeolError(
            f"batch_size = {whole['batch_size']} is not allowed; it must be at least 2 and at most n_envs x n_steps = "
            f"{whole['n_envs'] * whole['n_steps']}."
        )
    return checked


def _value(name: str, value: Any, default: Any) -> Any:
    kinds: dict[type, str] = {
        bool: "true or false", int: "a whole number, at least 1", float: "a finite number", tuple: "sizes of layers",
        str: "a word",
    }  # fmt: skip
    ok: bool
    if isinstance(default, bool):
        ok = isinstance(value, bool)
    elif name == "activation":
        ok, kinds[str] = value in ("tanh", "relu"), "tanh or relu"
    elif name == "ent_coef" and isinstance(default, str):
        ok, kinds[str] = is_automatic(value) or _is_number(value), "auto, auto_X (from X on) or a number"
        value = float(value) if _is_number(value) else value
    elif isinstance(default, int):
        ok = isinstance(value, int) and not isinstance(value, bool) and value >= (name not in _MAY_BE_ZERO)
    elif isinstance(default, float):
        ok = _is_number(value) or (name in _MAY_BE_LINEAR and linear_from(value) is not None)
        value = float(value) if _is_number(value) else value
    else:
        ok = isinstance(value, list | tuple) and bool(value) and all(isinstance(n, int) and n > 0 for n in value)
        value = tuple(value) if ok else value
    if not ok:
        raise NeolError(f"{name} = {value!r} is not allowed; it must be {kinds[type(default)]}.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def linear_from(value: Any) -> float | None:
    """X of 'lin_X'."""
    return _number_after("lin_", value)


def is_automatic(value: Any) -> bool:
    """Whether it is 'auto', or 'auto_X' with X above 0."""
    return value == "auto" or (_number_after("auto_", value) or 0.0) > 0.0


def _number_after(prefix: str, value: Any) -> float | None:
    try:
        number = float(value.removeprefix(prefix)) if value.startswith(prefix) else math.nan
    except (AttributeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def read(text: str, source: str) -> BaselineConfig:
    """The configuration that `to_toml` wrote."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise NeolError(f"{source} is not valid TOML: {e}.") from None
    if set(tables) != {"baseline", "hyperparameters"}:
        raise NeolError(f"{source} is not that of a baseline; it has no tables [baseline] and [hyperparameters] alone.")
    try:
        return baseline_config(**tables["baseline"], hyperparameters=tables["hyperparameters"])
    except TypeError as e:
        raise NeolError(f"{source} is not that of a baseline: {e}.") from None
