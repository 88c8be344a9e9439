"""Environments by name: a task, a Gymnasium id, `module:id`, `module:callable`, or a Python function that makes one.

`find` describes any of them as a Task; `make` makes one; `choose_engine` says which simulator runs it.
"""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import inspect
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType
from typing import Any

from neol.envs.spaces import read_action, read_observation
from neol.envs.tasks import CHANGING_TASKS, PATTERN_TASKS, TASKS, Task, visual_task
from neol.envs.trust import check_callable, check_module
from neol.errors import NeolError, nearest

DEFAULT_MAX_STEPS = 1000  # of an environment that names no limit
# Gymnasium's own environments whose reset leaves nothing of the episode before (a test walks them all). Box2D's
# BipedalWalker and CarRacing keep their b2World, and with it a memory of what happened.
_RESET_FULLY = tuple(
    f"gymnasium.envs.{family}" for family in ("classic_control", "toy_text", "mujoco", "box2d.lunar_lander")
)
# EnvPool's own settings, which are not the environment's.
_POOL_SETTINGS = {
    "num_envs", "batch_size", "num_threads", "max_num_players", "thread_affinity_offset", "base_path", "seed",
    "env_seed", "gym_reset_return_info", "max_episode_steps", "reward_threshold", "frame_stack",
}  # fmt: skip

Maker = Callable[[], Any]


def own_task(name: str) -> Task | None:
    """The task of ours that has this name; the stationary ones are known by their environment's id as well."""
    return next((t for t in TASKS.values() if name in (t.name, t.id)), (CHANGING_TASKS | PATTERN_TASKS).get(name))


def find(name: str | Maker, env_kwargs: Sequence[str] = ()) -> Task:
    """The task of that name: one of ours, or made from an environment's spaces."""
    kwargs = parse_kwargs(env_kwargs)
    if callable(name):
        if kwargs:
            raise NeolError("env_kwargs are not allowed with a callable; give it its arguments yourself.")
        return _describe(callable_name(name), name, ())
    if (ours := own_task(name)) is not None:
        changed = ours._replace(env_kwargs=tuple(kwargs.items()))
        if name in PATTERN_TASKS:
            close(make(changed))  # it may not know its arguments
            return visual_task(int(kwargs.get("resolution", 11)))._replace(env_kwargs=changed.env_kwargs)
        if kwargs:
            changed = _resized(changed)
        if kwargs and ours.native:  # as many steps as its runs take
            from neol.envs.simulators import simulator, steps_of

            changed = changed._replace(max_steps=steps_of(simulator(ours.native, kwargs)))
        return changed
    return _describe(name, None, tuple(kwargs.items()))


def _resized(task: Task) -> Task:
    """A task of ours as its arguments (which it may not know) make it: some change its inputs and outputs."""
    with opened(make(task)) as env:
        leaves, inputs = read_observation(env.observation_space, f"environment '{task.name}'")
        if len(inputs) == task.n_inputs and not hasattr(env, "steps"):
            return task
        components, outputs, shape, _ = read_action(env.action_space, f"environment '{task.name}'")
        names = [tuple(f"{own[0].partition(' ')[0]} {i}" for i in range(len(found)))
                 for own, found in ((task.inputs, inputs), (task.actions, outputs))]  # fmt: skip
        return task._replace(
            inputs=names[0], actions=names[1], leaves=leaves, components=components, action_shape=shape,
            max_steps=env.steps,
        )  # fmt: skip


def parse_kwargs(pairs: Sequence[str], what: str = "env_kwargs") -> dict[str, Any]:
    """`key=value` words as arguments; a value is a Python or JSON literal, else a string."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier() or key in found:
            raise NeolError(f"{what} = '{pair}' is not allowed; it must be key=value, each key once.")
        found[key] = _literal(text)
    return found


def _literal(text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return text


def callable_name(maker: Maker) -> str:
    """`module:name` where that finds the function again, else `python:name`."""
    module, name = getattr(maker, "__module__", ""), getattr(maker, "__qualname__", type(maker).__name__)
    if module not in ("", "__main__", None) and getattr(sys.modules.get(module), name, None) is maker:
        return f"{module}:{name}"
    return f"python:{name}"


def _describe(name: str, maker: Maker | None, kwargs: tuple[tuple[str, Any], ...]) -> Task:
    """Read inputs, outputs and limits off an environment."""
    probe = Task(name, name, 0, (), (), (), (), env_kwargs=kwargs, maker=maker)
    what = f"environment '{name}'"
    with opened(make(probe)) as env:
        leaves, inputs = read_observation(env.observation_space, what)
        components, outputs, shape, dtype = read_action(env.action_space, what)
        limit = _time_limit(env) or DEFAULT_MAX_STEPS
        module = type(env.unwrapped).__module__
        fps = _film_fps(env)
    return probe._replace(
        max_steps=limit, inputs=inputs, actions=outputs, components=components, leaves=leaves, action_shape=shape,
        action_dtype=dtype, reusable="envs.mujoco" in module, resets_fully=module.startswith(_RESET_FULLY),
        film_fps=fps,
    )  # fmt: skip


def _film_fps(env: Any) -> int:
    """The frames per second that an environment's metadata asks for, if they do."""
    metadata = getattr(env, "metadata", None)
    asked = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
    try:
        return int(max(1.0, min(60.0, float(asked or 30))))
    except (TypeError, ValueError):
        return 30


def _time_limit(env: Any) -> int | None:
    """The longest episode that the environment's registration allows; it was made without."""
    import gymnasium

    spec = env.spec
    registered = gymnasium.registry.get(spec.id) if spec is not None else None
    return registered.max_episode_steps if registered is not None else spec and spec.max_episode_steps


def make(task: Task, render_mode: str | None = None) -> Any:
    """A new environment without a time limit (the caller counts its steps), or a NeolError."""
    try:
        with suppressed():
            return _make(task, render_mode)
    except NeolError:
        raise
    except (Exception, SystemExit) as e:  # whatever the environment's own code raises
        raise NeolError(f"cannot make environment '{task.name}': {type(e).__name__}: {e}") from e


def close(env: Any) -> None:
    """Close an environment; one that cannot even do that is simply dropped."""
    with suppress(Exception, SystemExit):
        env.close()


@contextmanager
def opened(env: Any) -> Iterator[Any]:
    """An environment, closed in the end."""
    try:
        yield env
    finally:
        close(env)


def _make(task: Task, render_mode: str | None) -> Any:
    import gymnasium

    if task.maker is not None:
        return _checked(_called(task.maker, {}, render_mode), task)
    if task.id.startswith("python:"):
        raise NeolError(
            f"'{task.id}' is an environment of the Python program that trained it; name it as module:{task.id[7:]} "
            "with --task, or pass it from Python."
        )
    arguments: dict[str, Any] = dict(task.env_kwargs)
    module, colon, rest = task.id.partition(":")
    if colon and module:
        check_module(module)
        attribute = getattr(_imported(module), rest, None)
        if callable(attribute):
            check_callable(attribute, task.id)
            return _checked(_called(attribute, arguments, render_mode), task)
        if rest not in gymnasium.registry:
            hint = nearest(rest, [n for n in dir(_imported(module)) if n[0].isalpha()])
            raise NeolError(f"module '{module}' has no '{rest}', and registers no such environment; {hint}")
    env_id = rest if colon else task.id
    if env_id not in gymnasium.registry:
        names = [*TASKS, *CHANGING_TASKS, *PATTERN_TASKS, *gymnasium.registry]
        raise NeolError(f"unknown task or environment '{task.id}'; {nearest(env_id, names)}")
    return _registered(env_id, arguments, render_mode)


def _registered(env_id: str, arguments: dict[str, Any], render_mode: str | None) -> Any:
    """What a registered entry point makes, with Gymnasium's wrappers but for the time limit."""
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    spec = copy.copy(gymnasium.registry[env_id])
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    if callable(creator):
        if not isinstance(getattr(creator, "metadata", {}), dict | property):
            spec.entry_point = partial(creator)  # type: ignore[assignment]  # which hides metadata that Gymnasium would refuse
        if _takes_render_mode(creator) is True:
            arguments = {**arguments, "render_mode": render_mode}  # None too: its default may open a window

    def made(**rest: Any) -> Any:
        with _quiet_mujoco():
            return gymnasium.make(spec, disable_env_checker=True, max_episode_steps=-1, **rest)

    return _called(made, arguments, render_mode, creator)


def _called(maker: Callable[..., Any], arguments: dict[str, Any], render_mode: str | None, asked: Any = None) -> Any:
    """What a class or function makes; it is told the render mode if it (or `asked`) takes one, or takes anything."""
    takes = _takes_render_mode(asked or maker)
    if render_mode is None or takes is False:
        return maker(**arguments)
    try:
        return maker(**{**arguments, "render_mode": render_mode})
    except TypeError as e:
        if takes is True or "render_mode" not in str(e):
            raise
        return maker(**arguments)  # it took anything, and handed it on to what does not


def _takes_render_mode(maker: Any) -> bool | None:
    """Whether a class or function has an argument render_mode; None where it takes any (`**kwargs`)."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # some written in C have no signature
        return False
    if any(p.name == "render_mode" for p in parameters):
        return True
    return None if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters) else False


def _imported(module: str) -> Any:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        if e.name and (module == e.name or module.startswith(f"{e.name}.")):
            raise NeolError(f"there is no module '{module}' to import, here or installed.") from None
        raise


def _checked(env: Any, task: Task) -> Any:
    for needed in ("reset", "step", "observation_space", "action_space", "close"):
        if not hasattr(env, needed):
            raise NeolError(f"'{task.name}' made a {type(env).__name__}, which is not a Gymnasium environment.")
    return env


@contextmanager
def suppressed() -> Iterator[None]:
    """Gymnasium's advice (out of date, precision lowered) is not for those who named exactly this environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _quiet_mujoco() -> Iterator[None]:
    """MuJoCo's advice to those who write models (a line for each HalfCheetah) is not for those who use them."""
    mujoco: Any = sys.modules.get("mujoco")  # imported with the environment's module, where it is needed
    before = mujoco and mujoco.get_mju_user_warning()
    if mujoco:
        mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        if mujoco:
            mujoco.set_mju_user_warning(before)


def choose_engine(task: Task, engine: str, attributes: bool = False) -> tuple[str, str]:
    """(envpool, gymnasium or native, why). `attributes`: of the environment are changed while it is lived in."""
    if task.native and engine in ("auto", "native") and not attributes:
        return "native", "it is one of our own simulators"
    if engine == "native":
        raise NeolError(f"engine = 'native' is not allowed with '{task.name}': it is no simulator of ours; use auto.")
    obstacle = "EnvPool's environments have no attributes to change" if attributes else _envpool_obstacle(task)
    if engine == "gymnasium":
        return engine, "as asked"
    if engine == "envpool":
        if obstacle:
            raise NeolError(f"engine = 'envpool' is not allowed with '{task.name}': {obstacle}; use gymnasium.")
        return engine, "as asked"
    return ("gymnasium", obstacle) if obstacle else ("envpool", "it has this environment")


def _envpool_obstacle(task: Task) -> str:
    """Why EnvPool cannot run this task; '' if it can."""
    if importlib.util.find_spec("envpool") is None:
        return "EnvPool is not installed: pip install envpool"
    if task.name in TASKS and not task.env_kwargs:
        return ""
    if task.maker is not None or ":" in task.id:
        return "EnvPool has only its own environments"
    envpool = import_envpool()
    if task.id not in envpool.list_all_envs():
        return f"EnvPool has no '{task.id}'"
    with suppressed():
        spec = envpool.make_spec(task.id)
        theirs = set(spec.config._fields) - _POOL_SETTINGS
        unknown = [k for k, _ in task.env_kwargs if k not in theirs]
        if unknown:
            return f"EnvPool's {task.id} has no setting {unknown[0]}"
        try:
            leaves, _ = read_observation(spec.observation_space, task.id)
            components, _, shape, _ = read_action(spec.action_space, task.id)
        except NeolError:
            return f"EnvPool's {task.id} has other spaces than Gymnasium's"
    if (leaves, components, shape) != (task.leaves, task.components, task.action_shape) or len(leaves) != 1:
        return f"EnvPool's {task.id} has other spaces than Gymnasium's"
    return ""


def import_envpool() -> Any:
    """EnvPool without what we never use and what costs more than all the rest: its interface to JAX, where that is
    installed, and Jumanji's puzzles, which import Matplotlib's pyplot."""
    if "envpool" in sys.modules:
        return importlib.import_module("envpool")
    without: dict[str, Any] = {"envpool.jumanji.registration": ModuleType("envpool.jumanji.registration")}
    if "jax" not in sys.modules:
        without["envpool.python.lax"] = None  # Python's own way to say that there is none
    sys.modules.update(without)
    try:
        return importlib.import_module("envpool")
    finally:
        for name in without:
            del sys.modules[name]
