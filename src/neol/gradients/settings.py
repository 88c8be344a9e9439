"""Settings of a run that gradients finish: those of `neol train`, the algorithm, and its hyperparameters, complete.

config.toml has NEOL's own tables, then [finetune] and [hyperparameters]. `warmup` env steps are the critic's alone: the
champion, which knows something already, waits for a critic that knows it. A small network takes larger steps than a
perceptron of thousands of weights, and wants more noise than one may think (docs/finetune.md has what was tried).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from neol.baselines.settings import ALGORITHMS, BaselineConfig, checked_hyperparameters, tuned_for
from neol.config.schema import Config, to_toml
from neol.envs.tasks import Task
from neol.errors import NeolError, nearest
from neol.network.actions import ARGMAX, BOUNDED, FREE
from neol.training.run_folder import FINETUNE

# `policy_factor`: the policy's learning rate is this times the critic's. `log_std_init`: the logarithm of the noise on
# outputs at first; of discrete actions, the logarithm of what outputs are divided by to make logits. `log_std_drop`:
# how much that falls over the run, besides what is learned.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "ppo": {
        "n_envs": 32, "n_steps": 128, "batch_size": 512, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95,
        "learning_rate": "lin_0.003", "policy_factor": 5.0, "clip_range": 0.2, "ent_coef": 0.0, "vf_coef": 0.5,
        "max_grad_norm": 0.5, "normalize": True, "net_arch": (64, 64), "activation": "tanh", "log_std_init": -0.3,
        "log_std_drop": 1.0, "warmup": 8_192,
    },
    "sac": {
        "n_envs": 8, "buffer_size": 300_000, "learning_starts": 2_000, "batch_size": 256, "tau": 0.01, "gamma": 0.99,
        "learning_rate": 3e-4, "policy_factor": 1.0, "train_freq": 8, "gradient_steps": 32, "ent_coef": "auto_0.01",
        "net_arch": (128, 128), "activation": "relu", "log_std_init": -1.5, "warmup": 10_000,
    },
}  # fmt: skip
_TYPES = {"ppo": _DEFAULTS["ppo"] | {"learning_rate": 3e-3}, "sac": _DEFAULTS["sac"]}  # a number, or lin_X
_INTERVAL = {"ppo": 65_536, "sac": 20_000}  # env steps from one line of history.csv, and checkpoint, to the next
CHOICE_STD = -1.0  # log_std_init of discrete actions: outputs are within +-1 as a rule


@dataclass(frozen=True)
class FinetuneConfig:
    """A whole run. `evolution` has the budget of all of it, and the champion that it starts from (run.start) where
    nothing is evolved (evolve_share = 0)."""

    evolution: Config
    algorithm: str
    evolve_share: float  # of max_env_steps: for the outer loop, before gradients have the rest
    interval: int
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)

    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {**self.evolution.flat(), **_own(self), **self.hyperparameters}

    def to_toml(self) -> str:
        """The complete configuration; `read` gives it back."""
        return f"{self.evolution.to_toml()}{FINETUNE}" + to_toml(
            {"finetune": _own(self), "hyperparameters": self.hyperparameters}
        ).removeprefix("[finetune]\n")

    @property
    def name(self) -> str:
        """As reports have it."""
        return f"{self.evolution.run.outer}+{self.algorithm}" if self.evolve_share else self.algorithm

    @property
    def evolved_steps(self) -> int:
        """The outer loop's part of the budget."""
        return max(1, round(self.evolve_share * self.evolution.run.max_env_steps))

    @property
    def has_schedule(self) -> bool:
        """Whether what is done depends on the whole budget."""
        return bool(self.evolve_share or self.algorithm == "ppo" or self.learner(1).schedules)

    def learner(self, steps: int) -> BaselineConfig:
        """What SBX is told, for so many env steps. JAX has one thread: other numbers would give other bits."""
        run, longest = self.evolution.run, self.evolution.rollout.max_steps
        how = (self.algorithm, run.task, run.seed, steps, longest, 1, self.interval)
        return BaselineConfig(*how, self.hyperparameters)


def _own(config: FinetuneConfig) -> dict[str, Any]:
    return {k: getattr(config, k) for k in ("algorithm", "evolve_share", "interval")}


def finetune_config(
    evolution: Config,
    task: Task,
    algorithm: str,
    evolve_share: float = 0.0,
    interval: int = 0,
    hyperparameters: Mapping[str, Any] | None = None,
) -> FinetuneConfig:
    """The complete, checked settings; a NeolError where they cannot be."""
    _check_own(algorithm, evolve_share, interval)
    _check_task(algorithm, task)
    _check_lives(evolution)
    if evolve_share and evolution.run.start:
        raise NeolError("start is not allowed with evolve_share; what gradients begin from is evolved in the run.")
    if evolution.run.max_env_steps < 1:
        raise NeolError("max_env_steps = 0 is not allowed; gradients need a budget of env steps, at least 1.")
    tuned = _DEFAULTS[algorithm] | _of_task(algorithm, task)
    changed = checked_hyperparameters(algorithm, _TYPES[algorithm], tuned, hyperparameters or {})
    return FinetuneConfig(
        evolution, algorithm, float(evolve_share), interval or _INTERVAL[algorithm], tuned | changed
    )  # fmt: skip


def _check_own(algorithm: Any, evolve_share: Any, interval: Any) -> None:
    """A NeolError where one of these alone cannot be."""
    if algorithm not in ALGORITHMS:
        raise NeolError(f"algorithm = {algorithm!r} is not allowed; {nearest(str(algorithm), ALGORITHMS)}")
    is_number = isinstance(evolve_share, int | float) and not isinstance(evolve_share, bool)
    if not is_number or not 0.0 <= evolve_share < 1.0:
        raise NeolError(f"evolve_share = {evolve_share!r} is not allowed; it must be at least 0 and below 1.")
    if not isinstance(interval, int) or isinstance(interval, bool) or interval < 0:
        raise NeolError(f"interval = {interval!r} is not allowed; it must be a whole number, at least 0.")


def _of_task(algorithm: str, task: Task) -> dict[str, Any]:
    """What suits a task, whatever the policy: the zoo's, where it has the task."""
    zoo = tuned_for(algorithm, task.name)
    found = {k: zoo[k] for k in ("gamma", "gae_lambda") if k in zoo}
    if zoo and algorithm == "ppo":
        found["normalize"] = zoo.get("normalize", False)
    if task.components[0].kind == ARGMAX:
        found["log_std_init"] = CHOICE_STD
    return found


def _check_task(algorithm: str, task: Task) -> None:
    """A NeolError where an algorithm cannot act on the task."""
    kinds = {c.kind for c in task.components}
    one_choice = kinds == {ARGMAX} and len(task.components) == 1
    if algorithm == "sac" and kinds != {BOUNDED}:
        what = "discrete" if ARGMAX in kinds else "without bounds" if FREE in kinds else "of another kind"
        raise NeolError(f"SAC needs continuous actions within bounds, and those of '{task.name}' are {what}; use ppo.")
    if not (one_choice or kinds <= {BOUNDED, FREE}):
        raise NeolError(
            f"'{task.name}' cannot be finetuned: its actions must be numbers (a Box), or one choice (Discrete)."
        )


def _check_lives(config: Config) -> None:
    """A NeolError where a life is more than one episode of the task as it is."""
    r, p = config.rollout, config.plasticity
    others = {
        "change": (config.world.change, "the world must be the simulator's"),
        "trials": (r.trials if r.trials > 1 else 0, "a life must be one episode"),
        "senses": (r.senses, "a network must see its observation alone"),
        "birth": ("drawn" if p.birth == "drawn" else "", "weights that are drawn at birth cannot be trained"),
    }
    for name, (value, why) in others.items():
        if value:
            raise NeolError(f"{name} = {value!r} is not allowed in a run that is finetuned; {why}.")


def read(text: str, source: str) -> FinetuneConfig:
    """The configuration that `to_toml` wrote. The task is not looked up: it may be code of somebody else's."""
    evolution, _, rest = text.partition(FINETUNE)
    try:
        tables = tomllib.loads(f"[finetune]\n{rest}")
    except (ValueError, RecursionError) as e:
        raise NeolError(f"{source} is not valid TOML: {e}.") from None
    if set(tables) != {"finetune", "hyperparameters"}:
        raise NeolError(f"{source} must have the tables [finetune] and [hyperparameters] at its end.")
    try:
        return _read(Config.from_toml(evolution, source), tables["hyperparameters"], **tables["finetune"])
    except TypeError as e:
        raise NeolError(f"{source} is not that of a run of `neol finetune`: {e}.") from None


def _read(
    config: Config, hyperparameters: Mapping[str, Any], algorithm: str, evolve_share: float, interval: int
) -> FinetuneConfig:
    _check_own(algorithm, evolve_share, interval)
    defaults = _DEFAULTS[algorithm]
    changed = checked_hyperparameters(algorithm, _TYPES[algorithm], defaults, hyperparameters)
    return FinetuneConfig(config, algorithm, float(evolve_share), interval, {**defaults, **changed})
