"""Attributes of a Gymnasium environment that a world changes while it is lived in: `gravity`, `model.opt.gravity[2]`.

They are set on the innermost environment after its reset, before the step at which their change begins, and set back
when it ends and at the end of every trial, so that an environment that is used again is as it was.
"""

from __future__ import annotations

import copy
import re
from inspect import getattr_static
from typing import Any

import numpy as np

from neol.envs.registry import make, opened
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.rollout.world import ATTRIBUTE, World, WorldState

MOST = 1000  # times as large as what it was may a changed number be


class Attributes:
    """The attributes that a world changes, in the life of a slot."""

    def __init__(self, world: World, state: WorldState, slot: int = 0) -> None:
        self.world, self.state, self.slot = world, state, slot
        first = int(world.changes.first[ATTRIBUTE])
        self.changes = [(first + k, path, value) for k, (path, value) in enumerate(world.attributes)]

    def of(self, env: Any) -> ChangedEnv:
        """Those of an environment that was just reset."""
        return ChangedEnv(self, env)


class ChangedEnv:
    """An environment whose attributes follow the life's clock."""

    def __init__(self, attributes: Attributes, env: Any) -> None:
        self.attributes, self.env = attributes, getattr(env, "unwrapped", env)
        self._on: list[tuple[int, str, Any]] = []  # the changes that are on
        self._before: list[tuple[str, Any]] = []  # what was there before each of them

    def update(self) -> None:
        """Before a step: begin the changes whose time has come, end those whose time is over."""
        state, count, b = self.attributes.state, self.attributes.world.changes.clock, self.attributes.slot
        now, onset, end = state.clock[b], state.onset[b], state.end[b]
        on = [c for c in self.attributes.changes if onset[c[0]] <= now[count[c[0]]] < end[c[0]]]
        if on != self._on:
            self.restore()
            for _, path, value in on:
                self._before.append((path, kept(read(self.env, path))))
                write(self.env, path, value)
            self._on = on

    def restore(self) -> None:
        """Everything as it was, the last change first."""
        while self._before:
            write(self.env, *self._before.pop())
        self._on = []


def _walk(env: Any, path: str) -> tuple[Any, str | int]:
    """The object that holds what a path ends in, and its name or index there."""
    words: list[str | int] = [int(w) if w.isdigit() else w for w in re.findall(r"\w+", path)]
    for word in words[:-1]:
        env = env[word] if isinstance(word, int) else getattr(env, word)
    return env, words[-1]


def read(env: Any, path: str) -> Any:
    holder, last = _walk(env, path)
    return holder[last] if isinstance(last, int) else getattr(holder, last)


def kept(value: Any) -> Any:
    """A copy, for when it is set back."""
    try:
        return copy.deepcopy(value)
    except TypeError:  # Box2D's vectors have none, but are set by their numbers
        return tuple(value)


def write(env: Any, path: str, value: Any) -> None:
    holder, last = _walk(env, path)
    if isinstance(last, int):
        holder[last] = value
    elif isinstance(getattr(holder, last), np.ndarray):
        getattr(holder, last)[...] = value
    else:
        setattr(holder, last, value)


def _is_inner(env: Any, path: str) -> bool:
    """Whether a path ends in whole numbers of a simulator in C: ids and sizes, which it uses without a check."""
    holder, last = _walk(env, path)
    present = read(env, path)
    array = holder if isinstance(last, int) else present
    if isinstance(array, np.ndarray):
        return bool(array.dtype.kind in "iu")
    through_code = last not in getattr(holder, "__dict__", {}) and hasattr(
        getattr_static(type(holder), str(last), None), "__set__"
    )
    return isinstance(present, int) and not isinstance(present, bool) and through_code


def _is_numeric(before: Any) -> bool:
    """Whether a number may stand in its place: a number, an array or a vector of numbers, or nothing yet."""
    try:
        np.asarray(before, np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _largest(before: Any) -> float:
    """The largest number that may stand in the place of another: with one far beyond it a simulator takes for ever."""
    try:
        return MOST * max(1.0, float(np.abs(np.asarray(before, np.float64)).max(initial=0.0)))
    except (TypeError, ValueError):
        return np.inf


def _is_number_beyond(value: Any, largest: float) -> bool:
    try:
        return not bool((np.abs(np.asarray(value, np.float64)) <= largest).all())
    except (TypeError, ValueError):
        return False


def check_attributes(task: Task, world: World) -> None:
    """A NeolError where an attribute is not there, or does not take its value."""
    if not world.attributes:
        return
    with opened(make(task)) as env:
        inner = getattr(env, "unwrapped", env)
        env.reset(seed=0)
        for path, value in world.attributes:
            try:
                before = kept(read(inner, path))
            except (AttributeError, LookupError, TypeError):
                raise NeolError(f"change = 'env {path}={value}' is not allowed; '{task.name}' has no {path}.") from None
            if _is_inner(inner, path):
                raise NeolError(
                    f"change = 'env {path}={value}' is not allowed; {path} is a whole number of the simulator's own, "
                    "an id or a size, which must stay as it is."
                )
            if isinstance(value, int | float) and not _is_numeric(before):
                raise NeolError(
                    f"change = 'env {path}={value}' is not allowed; {path} of '{task.name}' is no number but a "
                    f"{type(before).__name__}."
                )
            if _is_number_beyond(value, largest := _largest(before)):
                raise NeolError(
                    f"change = 'env {path}={value}' is not allowed; numbers of {path} must be from {-largest:g} to "
                    f"{largest:g}, {MOST:,} times what is there."
                )
            try:
                write(inner, path, value)
                write(inner, path, before)
            except Exception as e:  # whatever the environment's own code raises
                raise NeolError(
                    f"change = 'env {path}={value}' is not allowed; '{task.name}' does not take it ({e})."
                ) from None
