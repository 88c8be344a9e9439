"""The tasks: one place that says what each is: ids, T_max, names of inputs and outputs, actions, its own defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from neol.network.actions import ARGMAX, Component, bounded

# How a part of an observation becomes inputs (see spaces.Flattener).
NUMBERS, ONE_HOT = "numbers", "one-hot"


class Leaf(NamedTuple):
    """One array of an observation: its keys or indices in the Dicts and Tuples around it, and its inputs."""

    path: tuple[str | int, ...]
    kind: str  # NUMBERS: one input each | ONE_HOT: as many inputs as values, the one that it has is 1
    shape: tuple[int, ...]
    values: tuple[int, ...] = ()  # ONE_HOT: how many values each number has
    start: tuple[int, ...] = ()  # ONE_HOT: the first of them

    @property
    def size(self) -> int:
        return sum(self.values) if self.kind == ONE_HOT else int(np.prod(self.shape))


class Task(NamedTuple):
    """A control task. `settings` are this task's own defaults, by flat config names; `strategies` those that evolution
    strategies (the outer loops es and neat-es) have beside them, `differentiable` those of the outer loop gradient."""

    name: str
    id: str  # Gymnasium id, `module:id` or `module:callable`
    max_steps: int  # T_max of the paper
    inputs: tuple[str, ...]  # a name per input
    actions: tuple[str, ...]  # a name per output
    components: tuple[Component, ...]
    leaves: tuple[Leaf, ...]
    action_shape: tuple[int, ...] = ()  # () = one number: whole where it is chosen (ARGMAX)
    action_dtype: str = "float32"
    # An episode may start in an env that has run others before: proven not to change results (tests), saves creation.
    reusable: bool = False  # on EnvPool
    resets_fully: bool = False  # on Gymnasium
    window: int = 64  # episodes in flight per thread; the fastest here, by measurement
    step_seconds: float = 5e-5  # of one step on one core, roughly: for the order and the ETA of a study's runs
    film_every: int = 1  # steps per frame of a film
    film_fps: int = 50
    returns: tuple[float, float] = (0.0, 1.0)  # the range that normalised losses are made with
    unbounded_below: bool = False  # returns have no least value: those below the range have loss 1
    settings: Mapping[str, Any] = MappingProxyType({})
    strategies: Mapping[str, Any] = MappingProxyType({})
    differentiable: Mapping[str, Any] = MappingProxyType({})
    env_kwargs: tuple[tuple[str, Any], ...] = ()  # arguments of the environment
    maker: Callable[[], Any] | None = None  # what makes it, where that is a Python function
    native: str = ""  # the simulator of our own that plays it (simulators.py)
    senses: tuple[str, ...] = ()  # what networks see beside their observation (rollout/senses.py)
    sensed: int = 0  # how many of the inputs that is: the last ones

    @property
    def observed(self) -> tuple[str, ...]:
        """The inputs that are the environment's observation."""
        return self.inputs[: len(self.inputs) - self.sensed]

    @property
    def n_inputs(self) -> int:
        return len(self.inputs)

    @property
    def n_outputs(self) -> int:
        return len(self.actions)


def _numbers(names: tuple[str, ...]) -> tuple[Leaf, ...]:
    return (Leaf((), NUMBERS, (len(names),)),)


def _boxes(name: str, env_id: str, inputs: tuple[str, ...], actions: tuple[str, ...], **rest: Any) -> Task:
    """A task with numbers in and as many actions within [-1, 1] out."""
    n = len(actions)
    components = bounded((-1.0,) * n, (1.0,) * n)
    return Task(name, env_id, 1000, inputs, actions, components, _numbers(inputs), (n,), **rest)


# Of evolution strategies on every task: inputs of one size, so that one step size suits all weights, and the same size
# once it is known, so that what a search has converged to is not moved from under it; outputs as they are, so that all
# of an action's range is reached; and one episode, the same for all samples of a generation.
STRATEGIES: Mapping[str, Any] = MappingProxyType({
    "normalize_observations": True, "normalize_share": 0.2, "output_transform": "none", "generations": 400,
    "episodes": 1,
    "rule": "none",  # plasticity earned nothing on most stationary tasks; --rule hebb turns it on
    "inheritance": "darwinian",  # an update that takes what lives learned for what was sampled does harm
})  # fmt: skip

# Of differentiable plasticity on every task: activations that have a gradient everywhere, and nothing is inherited but
# what the gradient learned.
DIFFERENTIABLE: Mapping[str, Any] = MappingProxyType({
    "activation_default": "tanh", "activation_options": ("tanh",), "inheritance": "darwinian", "evolve_rate": True,
})  # fmt: skip

# On the walkers one long episode says more than three short ones.
_LONG: dict[str, Any] = {"episodes": 1, "generations": 10_000, "max_env_steps": 10_000_000}
_HOPPER: dict[str, Any] = {  # hopping wants small steps from small weights, and standing still (1,000) must not pay
    **_LONG, "pop_size": 150, "fitness_offset": -1.0,
    "weight_init_stdev": 0.1, "weight_mutate_rate": 0.9, "weight_mutate_power": 0.1, "weight_replace_rate": 0.0,
    "bias_init_stdev": 0.1, "bias_mutate_rate": 0.9, "bias_mutate_power": 0.1, "bias_replace_rate": 0.0,
    "reward_scale": 0.0001,  # so do the steps of plasticity: with 0.01 it drives small weights to their limit
}  # fmt: skip
_WALKER: dict[str, Any] = {**_LONG, "pop_size": 50, "elitism": 5}  # small steps never left the spot
_UNENDING = 1_000_000  # generations: the budget of evolution strategies is env steps
_LIDAR = tuple(f"lidar {i}" for i in range(10))
_CART = ("x", "x vel", "angle", "angle vel")

TASKS: dict[str, Task] = {
    t.name: t
    for t in (
        Task(
            "cartpole", "CartPole-v1", 500, _CART, ("left", "right"), (Component(ARGMAX, 0, 2),), _numbers(_CART),
            action_dtype="int64", resets_fully=True, window=512, step_seconds=5e-6,
            strategies={"es_population": 10, "es_sigma": 1.0, "episodes": 1, "generations": _UNENDING,
                        "max_env_steps": 20_000},
            returns=(0.0, 500.0),
        ),
        _boxes(
            "lunarlander", "LunarLanderContinuous-v3",
            ("x", "y", "x vel", "y vel", "angle", "angle vel", "left leg", "right leg"), ("main", "side"),
            resets_fully=True, window=128, step_seconds=2.2e-5,
            settings={"generations": 1000, "max_env_steps": 4_500_000},
            # A flight that lands well has landed by then; hovering to the end would take half of the budget.
            # Plasticity, not inherited, makes the search end higher here; a scaling that stays earns nothing: what is
            # seen in the first part of the run are crashes (docs/results.md).
            strategies={"generations": _UNENDING, "max_env_steps": 1_000_000, "episodes": 3, "es_population": 16,
                        "training_steps": 400, "whole_episodes_after": 600_000, "rule": "hebb", "normalize_share": 1.0},
            returns=(-1000.0, 400.0), unbounded_below=True,  # its shaping charges for every turn of a spin
        ),
        _boxes(
            "bipedalwalker", "BipedalWalker-v3",
            ("hull angle", "hull angle vel", "x vel", "y vel", "hip 1", "hip 1 vel", "knee 1", "knee 1 vel",
             "leg 1 contact", "hip 2", "hip 2 vel", "knee 2", "knee 2 vel", "leg 2 contact", *_LIDAR),
            ("hip 1", "knee 1", "hip 2", "knee 2"), step_seconds=7e-5,
            settings=_WALKER,
            # A walk shows in its first steps, and which one a search finds is luck: eight begin, on short episodes.
            # Most of them fall, so what they see is no scaling to stay with.
            strategies={"generations": _UNENDING, "es_population": 20, "es_sigma": 0.15, "es_starts": 8, "es_round": 60,
                        "training_steps": 400, "whole_episodes_after": 6_000_000, "normalize_share": 1.0},
            returns=(-500.0, 400.0),
        ),
        _boxes(
            "hopper", "Hopper-v4",
            ("z", "torso angle", "thigh angle", "leg angle", "foot angle", "x vel", "z vel", "torso vel", "thigh vel",
             "leg vel", "foot vel"),
            ("thigh", "leg", "foot"), reusable=True, resets_fully=True, step_seconds=1e-4,
            film_every=4, film_fps=31, settings=_HOPPER,
            # after 1M steps (seeds 101, 102; 20 episodes): cma 2,923 and 3,408, ars 2,661 and 3,217
            strategies={"generations": _UNENDING, "max_env_steps": 5_000_000, "es_population": 16, "es_sigma": 0.05,
                        "es_starts": 4, "es_round": 40},
            returns=(-500.0, 6000.0),
        ),
    )
}  # fmt: skip


# -- tasks whose lives change: something must be learned again -------------------------------------------------------

_HEAVY_POLE = ("env masspole=1 from=200", "env total_mass=2 from=200", "env polemass_length=0.5 from=200")
_PLACES = ("turn", "end", "home", "reward")
_SMALL: dict[str, Any] = {"generations": 500}
_MODULATED: dict[str, Any] = {
    "rule": "hebb", "gate": "modulator", "lr": 2.0, "trace_decay": 0.8, "weight_limit": 2.0, "output_transform": "none",
    "gradient_spread": 0.5, "episodes": 20, "generations": 40,
}  # fmt: skip
_BITS = tuple(f"bit {i}" for i in range(100))
# The authors' network: y <- tanh(w y + 20 input), its trace's rate learned from 0.01 on.
_ASSOCIATIVE: dict[str, Any] = {
    "topology": "associative", "feed_forward": False, "rule": "hebb", "gate": "none", "lr": 0.01, "weight_decay": 0.01,
    "evolve_decay": True, "weight_limit": float("inf"), "output_transform": "none", "response_init_mean": 0.4,
    "gradient_rate": 0.001, "gradient_norm": float("inf"), "gradient_lives": 2, "gradient_updates": 20, "episodes": 20,
    "generations": 25,
}  # fmt: skip


def _maze(name: str, native: str, maker: str, steps: int, returns: tuple[float, float]) -> Task:
    return Task(
        name, f"neol.envs.maze_env:{maker}", steps, _PLACES, ("way",), bounded((-1.0,), (1.0,)), _numbers(_PLACES),
        (1,), resets_fully=True, step_seconds=5e-7, returns=returns, settings=_SMALL, native=native,
        film_fps=8, differentiable=_MODULATED,
    )  # fmt: skip


_BODY = ("z", "quaternion 0", "quaternion 1", "quaternion 2", "quaternion 3")
_CHEETAH_MOTORS = ("back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot")
_CHEETAH = (
    "z", "angle", *_CHEETAH_MOTORS, "x vel", "z vel", "angle vel", *(f"{m} vel" for m in _CHEETAH_MOTORS),
)  # fmt: skip
_ANT_LEGS = tuple(
    f"{joint} {leg}" for leg in ("front left", "front right", "back left", "back right") for joint in ("hip", "ankle")
)
_ANT = (
    *_BODY, *_ANT_LEGS, *(f"{axis} vel" for axis in "xyz"), *(f"{axis} turn" for axis in "xyz"),
    *(f"{joint} vel" for joint in _ANT_LEGS),
)  # fmt: skip
_ANT_MOTORS = (*_ANT_LEGS[6:], *_ANT_LEGS[:6])  # its actuators have another order than its joints


def _dead_legs(*p: float) -> tuple[str, ...]:
    """One leg's two motors are dead, at most: the front left, the front right or the back left one."""
    return tuple(f"action dead of={2 * leg + 2},{2 * leg + 3} p={x:g} group=leg" for leg, x in enumerate(p))


def _motors(axes: int) -> Task:
    """Axes whose motors are each wired the wrong way round in half of all lives."""
    inputs, actions = (tuple(f"{what} {i}" for i in range(axes)) for what in ("to go", "motor"))
    return _boxes(
        f"motors-{axes}", f"neol.envs.maze_env:Motors{axes}", inputs, actions, resets_fully=True, step_seconds=6e-7,
        film_fps=20, returns=(-200.0, 60.0), native=f"{axes} motors",
        settings={**_SMALL, "change": ("action invert p=0.5 each",)},
    )._replace(max_steps=500)  # fmt: skip


CHANGING_TASKS: dict[str, Task] = {
    t.name: t
    for t in (
        TASKS["cartpole"]._replace(name="cartpole-mass", step_seconds=2e-5, settings={"change": _HEAVY_POLE}),
        TASKS["cartpole"]._replace(
            name="cartpole-gravity", step_seconds=2e-5, settings={"change": ("env gravity=20 from=200",)}
        ),
        _maze("tmaze", "t-maze", "TMaze", 500, (-40.0, 100.0)),
        _maze("double-tmaze", "double t-maze", "DoubleTMaze", 700, (-40.0, 100.0)),
        Task(
            "bandit", "neol.envs.maze_env:Bandit", 100, ("one", "reward", "arm 0", "arm 1"), ("arm 0", "arm 1"),
            (Component(ARGMAX, 0, 2),), _numbers(("one", "reward", "arm 0", "arm 1")), action_dtype="int64",
            resets_fully=True, step_seconds=5e-7, returns=(0.0, 100.0), settings=_SMALL, native="bandit", film_fps=8,
            differentiable=_MODULATED,
        ),
        Task(
            "patterns", "neol.envs.patterns:Patterns", 106, _BITS, _BITS, bounded((-1.0,) * 100, (1.0,) * 100),
            _numbers(_BITS), (100,), resets_fully=True, step_seconds=1e-4, settings=_SMALL,
            differentiable=_ASSOCIATIVE,
        ),
        *map(_motors, (1, 2, 4, 8)),
        _boxes(
            "halfcheetah-direction", "HalfCheetah-v5", _CHEETAH, _CHEETAH_MOTORS, resets_fully=True, step_seconds=1e-4,
            film_every=4, film_fps=31, returns=(-2000.0, 6000.0),
            settings={**_LONG, "episodes": 4, "change": ("env _forward_reward_weight=-1 p=0.5",)},
            strategies={"generations": _UNENDING, "max_env_steps": 5_000_000},
        )._replace(max_steps=500),
        _boxes(
            "ant-dead-leg", "Ant-v4", _ANT, _ANT_MOTORS, reusable=True, resets_fully=True, step_seconds=2e-4,
            film_every=4, film_fps=31, returns=(-500.0, 6000.0),
            settings={**_LONG, "episodes": 3, "fitness_offset": -1.0, "change": _dead_legs(0.3333, 0.3333, 0.0),
                      "test_change": _dead_legs(0.0, 0.0, 1.0)},
            # Larger steps than these spend on motors at their limit more than any gait earns.
            strategies={"generations": _UNENDING, "es_sigma": 0.02},
        ),
    )
}  # fmt: skip


# -- a task whose inputs and outputs are places in a field: for HyperNEAT ----------------------------------------------


def visual_task(resolution: int = 11) -> Task:
    """Visual discrimination (visual.py) on a field of that many cells along each side."""
    count = resolution * resolution
    names = tuple(f"{i % resolution} {i // resolution}" for i in range(count))
    return Task(
        "visual-discrimination", "neol.envs.visual_env:VisualDiscrimination", 75, names, names,
        (Component(ARGMAX, 0, count),), _numbers(names), action_dtype="int64", resets_fully=True, step_seconds=2e-5,
        returns=(-7.0, 0.0), native="visual discrimination", film_fps=4,
        settings={
            "rule": "none", "episodes": 1, "generations": 300, "fitness_target": 0.0, "output_transform": "none",
            "preactivation_limit": math.inf, "activation_default": "identity", "activation_options": ("identity",),
            "substrate_hidden": "none", "substrate_activation": "identity", "substrate_bias": False,
        },
    )  # fmt: skip


PATTERN_TASKS: dict[str, Task] = {t.name: t for t in (visual_task(),)}
