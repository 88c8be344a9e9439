"""`neol.check`: plays an environment with random actions and tells what it is, how fast, and what is wrong with it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from neol.config.schema import check_value
from neol.envs.registry import (
    Maker,
    callable_name,
    choose_engine,
    close,
    find,
    make,
    own_task,
    parse_kwargs,
    suppressed,
)
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.rollout.check_report import ERROR, NOTE, WARNING, CheckReport, Finding, input_parts, output_parts
from neol.rollout.random_play import Faults, NotGymnasium, Trace, play

SEEDS = 100  # episodes that are begun at most
SHORTEST = 20  # steps that each of them is given at least
PATIENCE = 20.0  # times `seconds`: no new episode is begun after that
COMPARED = 200  # steps of the episodes that are compared with each other
MANY_INPUTS, LARGE_VALUES = 1000, 100.0


def check(
    env: str | Maker,
    env_kwargs: Mapping[str, Any] | Sequence[str] = (),
    engine: str = "auto",
    steps: int = 10_000,
    seconds: float = 1.0,
    beat: Callable[[], None] | None = None,
) -> CheckReport:
    """Whether an environment can be trained on: a name as `neol.train` takes it, or what makes one.

    `steps` random actions look for faults, over up to 100 seeds; for about `seconds` its speed is measured. `beat` is
    called before every call of the environment, for whoever watches whether it hangs.
    """
    if not callable(env) and not isinstance(env, str):
        raise NeolError(
            f"check takes a name or what makes an environment, not a {type(env).__name__}; give its class instead."
        )
    kwargs = check_value("env_kwargs", env_kwargs)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise NeolError(f"steps = {steps!r} is not allowed; it must be a whole number of at least 1.")
    if beat is not None:
        beat()
    task, trouble = _described(env, kwargs)
    if task is None:
        return CheckReport(callable_name(env) if callable(env) else env, (trouble,) if trouble else ())
    chosen, why = choose_engine(task, check_value("engine", engine))
    looks = _Looks(task, steps, seconds, beat)
    with suppressed():
        looks.look()
        fast = _envpool_speed(task, looks.actions, seconds) if chosen == "envpool" and looks.actions else looks.speed
    return CheckReport(
        task.name, tuple(looks.findings), input_parts(task), output_parts(task), _action(task), task.max_steps,
        looks.declares_limit, chosen, why, fast, looks.speed, looks.render_modes, looks.can_film, looks.faults.seeds,
        looks.faults.failed, looks.faults.steps,
    )  # fmt: skip


def _described(env: str | Maker, kwargs: tuple[str, ...]) -> tuple[Task | None, Finding | None]:
    """The task, or why there is none. A name that nobody knows is a NeolError."""
    ours = isinstance(env, str) and own_task(env) is not None
    try:
        if not ours and not (callable(env) and kwargs):
            name, maker = (callable_name(env), env) if callable(env) else (env, None)
            probe = Task(name, name, 0, (), (), (), (), env_kwargs=tuple(parse_kwargs(kwargs).items()), maker=maker)
            close(make(probe))
    except NeolError as e:
        if e.__cause__ is None:  # not what the environment's own code raised
            raise
        return None, Finding(ERROR, "cannot-make", str(e))
    except Exception as e:  # from its close, or a part of it that should be there
        return None, Finding(ERROR, "cannot-make", f"closing it right after it was made: {_said(e)}")
    try:
        return find(env, kwargs), None
    except NeolError as e:
        if (ours and e.__cause__ is None) or (callable(env) and kwargs):
            raise
        return None, Finding(ERROR, "spaces", str(e))
    except Exception as e:
        return None, Finding(ERROR, "spaces", f"its spaces or metadata cannot be read: {_said(e)}")


def _said(e: BaseException) -> str:
    return " ".join(f"{type(e).__name__}: {e}".split())


def _action(task: Task) -> str:
    if not task.action_shape:
        return f"a single number ({task.action_dtype})"
    return f"an array of shape {task.action_shape} ({task.action_dtype})"


class _Looks:
    """One look after another at an environment; what was found."""

    def __init__(self, task: Task, steps: int, seconds: float, beat: Callable[[], None] | None = None) -> None:
        self.task, self.budget, self.seconds, self.play = task, steps, seconds, partial(play, beat=beat)
        self.findings: list[Finding] = []
        self.faults = Faults(task)
        self.actions: list[Any] = []  # some random ones
        self.speed, self.declares_limit = 0.0, own_task(task.name) is not None
        self.render_modes: tuple[str, ...] = ()
        self.can_film = False

    def look(self) -> None:
        try:
            env = make(self.task)
        except NeolError as e:  # of our own tasks, where Gymnasium lacks a package
            self._find(WARNING, "cannot-make", f"Gymnasium cannot make it, so nothing was tried: {e}")
            return
        space = env.action_space
        space.seed(0)
        self.actions = [space.sample() for _ in range(64)]
        self._describe(env)
        close(env)
        try:
            self._compare()
            longest, ended = self._seeds()
        except NotGymnasium as e:
            self._find(ERROR, e.what, str(e))
            return
        self.findings += self.faults.findings()
        self._judge(longest, ended)
        if self.faults.failed < self.faults.seeds:
            self.speed = self._speed()

    def _find(self, level: str, what: str, text: str) -> None:
        self.findings.append(Finding(level, what, text))

    def _describe(self, env: Any) -> None:
        import gymnasium

        spec = getattr(env, "spec", None)
        registered = gymnasium.registry.get(spec.id) if spec is not None else None
        declared = registered.max_episode_steps if registered is not None else spec and spec.max_episode_steps
        self.declares_limit = self.declares_limit or bool(declared)
        metadata = getattr(env, "metadata", None)
        modes = metadata.get("render_modes", ()) if isinstance(metadata, Mapping) else ()
        self.render_modes = tuple(str(m) for m in modes or ())
        self.can_film = "rgb_array" in self.render_modes
        if self.can_film and "mujoco" not in type(env.unwrapped).__module__:  # its renderer may end the process
            self.can_film = _made_to_film(self.task)
            if not self.can_film:
                self._find(
                    NOTE, "no-film", "its metadata has rgb_array, but it cannot be made with render_mode='rgb_array'."
                )
        if self.task.n_inputs > MANY_INPUTS:
            self._find(WARNING, "many-inputs", _many_inputs(self.task))

    def _compare(self) -> None:
        """Two new environments, and one that has played before: the same seed and actions should give the same life."""
        first, seed, used = self._first_life()
        if first is None:
            return
        other = make(self.task)
        try:
            again = self.play(other, self.task, seed, COMPARED, first.actions)
            if not first.same(again):
                self._say_random(first, again, used)
                return
            self.play(other, self.task, seed + 1, COMPARED, self.actions)
            third = self.play(other, self.task, seed, COMPARED, first.actions)
            if not first.same(third) and third.fault is None:
                self._find(
                    NOTE, "remembers",
                    "a reset leaves something of the episode before: on Gymnasium NEOL makes a new environment for "
                    "every episode (fresh_envs = auto), which takes time.",
                )  # fmt: skip
        finally:
            close(other)

    def _first_life(self) -> tuple[Trace | None, int, list[str]]:
        """The first of a few seeds that does not fail, and which global generators were drawn from meanwhile."""
        for seed in range(5):
            env = make(self.task)
            before = _global_generators()
            try:
                life = self.play(env, self.task, seed, COMPARED, self.actions)
            finally:
                close(env)
            if life.fault is None:
                return life, seed, [name for name, state in _global_generators().items() if state != before[name]]
        return None, 0, []

    def _say_random(self, first: Trace, again: Trace, used: list[str]) -> None:
        what = "differ"
        if not np.array_equal(first.rows[:1], again.rows[:1]):
            what = "differ from the start: reset ignores its seed"
        why = f"; it draws from {' and '.join(used)}" if used else ""
        self._find(
            WARNING, "not-reproducible",
            f"two episodes with one seed and the same actions {what}{why}; draw from self.np_random, after "
            "super().reset(seed=seed), and the same seed gives the same run.",
        )  # fmt: skip

    def _seeds(self) -> tuple[int, bool]:
        """Episodes of many seeds, the first that does not fail whole; (the longest, whether any ended)."""
        started, longest, ended, env = time.monotonic(), 0, False, None
        for seed in range(SEEDS):
            left = self.budget - self.faults.steps
            if left <= 0 or (seed and time.monotonic() - started > PATIENCE * self.seconds):
                break
            whole = self.faults.whole == 0 and seed < 3
            most = min(self.task.max_steps, max(SHORTEST, left // 2 if whole else left // (SEEDS - seed)))
            env = env if env is not None else make(self.task)
            trace = self.play(env, self.task, seed, most, self._from(seed), self.faults)
            longest, ended = max(longest, trace.steps), ended or trace.ended
            if trace.fault is not None:
                close(env)
                env = None
        close(env)
        return longest, ended

    def _from(self, seed: int) -> list[Any]:
        """The actions of an episode: the same ones, begun elsewhere."""
        k = seed % len(self.actions)
        return self.actions[k:] + self.actions[:k]

    def _judge(self, longest: int, ended: bool) -> None:
        """What only shows over many episodes."""
        limit, faults = self.task.max_steps, self.faults
        if not self.declares_limit and not ended and longest >= limit:
            self._find(
                WARNING, "never-ends",
                f"it declares no time limit and no episode ended within {longest:,} steps: NEOL ends them there "
                "(max_steps); register it with max_episode_steps, or return terminated or truncated.",
            )  # fmt: skip
        if faults.seeds - faults.failed > 1 and faults.same_start:
            self._find(NOTE, "same-start", "every seed has the same first observation.")
        if faults.largest > LARGE_VALUES:
            self._find(
                NOTE, "large-values",
                f"observations reach {faults.largest:,.4g}: networks learn better with --normalize-observations "
                "(normalize_observations=True).",
            )  # fmt: skip

    def _speed(self) -> float:
        """Steps per second of one environment on one core, its resets included."""
        env, count, seed = make(self.task), 0, SEEDS
        started = time.perf_counter()
        try:
            while time.perf_counter() - started < self.seconds:
                trace = self.play(env, self.task, seed, self.task.max_steps, self.actions, None, plain=True)
                count, seed = count + trace.steps, seed + 1
                if trace.fault is not None:
                    close(env)
                    env = make(self.task)
        finally:
            close(env)
        return count / (time.perf_counter() - started)


def _global_generators() -> dict[str, Any]:
    """The states of generators that no environment should draw from."""
    numpy_state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002  # only looked at
    return {
        "NumPy's global generator": (numpy_state["pos"], numpy_state["key"].tobytes()),
        "Python's random module": random.getstate(),
    }


def _made_to_film(task: Task) -> bool:
    try:
        env = make(task, render_mode="rgb_array")
    except NeolError:
        return False
    made = getattr(env, "render_mode", None) == "rgb_array"
    close(env)
    return made


def _many_inputs(task: Task) -> str:
    pixels = any(len(leaf.shape) >= 2 and leaf.size > MANY_INPUTS for leaf in task.leaves)
    return (
        f"{task.n_inputs:,} inputs{' (pixels?)' if pixels else ''}: a first network that is fully connected has "
        f"{task.n_inputs * task.n_outputs:,} connections; make observations smaller (gymnasium.wrappers has "
        "ResizeObservation and GrayscaleObservation), or begin with few connections (initial_connection = "
        "fs_neat_nohidden)."
    )


def _envpool_speed(task: Task, actions: list[Any], seconds: float) -> float:
    """Steps per second of EnvPool with one thread."""
    from neol.rollout.envpool_player import make_envpool

    pool = make_envpool(task, np.arange(task.window), task.max_steps)
    ids = np.arange(task.window, dtype=np.int32)
    dtype = pool.spec.action_array_spec["action"].dtype
    batch = np.stack([actions[i % len(actions)] for i in range(task.window)]).astype(dtype)
    pool._reset(ids)
    pool._recv()
    count, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        pool._send([ids, ids, batch])
        pool._recv()
        count += len(ids)
    pool.close()
    return count / spent
