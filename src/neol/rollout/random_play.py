"""One episode with given actions, watched: what it returned, and every way in which that breaks Gymnasium's API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from neol.envs.spaces import Flattener, WrongObservation
from neol.envs.tasks import Task
from neol.rollout.check_report import ERROR, WARNING, Finding

NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


class NotGymnasium(Exception):
    """What `reset` or `step` returns is not Gymnasium's; nothing can be played."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what = what


class Fault(NamedTuple):
    """Why an episode could not go on."""

    what: str
    text: str


class Trace(NamedTuple):
    """An episode."""

    rows: np.ndarray  # f8 (steps + 1, I): the observations
    rewards: np.ndarray  # f8 (steps,)
    actions: list[Any]
    ended: bool  # by itself
    fault: Fault | None
    steps: int

    def same(self, other: Trace) -> bool:
        rows = np.array_equal(self.rows, other.rows, equal_nan=True)
        return rows and np.array_equal(self.rewards, other.rewards, equal_nan=True) and self.ended == other.ended


class Faults:
    """What was wrong in the episodes so far: how often, and what it looked like first."""

    def __init__(self, task: Task) -> None:
        self.task, self.largest = task, 0.0
        self.seeds = self.failed = self.whole = self.steps = 0  # episodes: all, that failed, played to their end
        self.same_start = True
        self._fatal: dict[str, tuple[int, str]] = {}  # what: episodes, the first
        self._odd: dict[str, tuple[int, str]] = {}
        self._start: np.ndarray | None = None
        self._longest, self._failed_at = 0, np.inf  # steps of the longest that did not fail, the shortest that did

    def begin(self, row: np.ndarray) -> None:
        self.same_start = self.same_start and (self._start is None or np.array_equal(self._start, row))
        self._start = row.copy()

    def end(self, trace: Trace, odd: dict[str, str]) -> None:
        self.seeds, self.steps = self.seeds + 1, self.steps + trace.steps
        for what, text in odd.items():
            self._odd[what] = (self._odd.get(what, (0, ""))[0] + 1, self._odd.get(what, (0, text))[1])
        if trace.fault is None:
            self.whole += trace.ended or trace.steps >= self.task.max_steps
            self._longest = max(self._longest, trace.steps)
        else:
            self.failed += 1
            self._failed_at = min(self._failed_at, trace.steps)
            count, first = self._fatal.get(trace.fault.what, (0, trace.fault.text))
            self._fatal[trace.fault.what] = (count + 1, first)

    def findings(self) -> list[Finding]:
        always = self.whole == 0 and self._longest <= self._failed_at  # none got further than where others failed
        level = ERROR if always else WARNING
        fatal = [Finding(level, w, f"{n} of {self.seeds} seeds: {t}") for w, (n, t) in self._fatal.items()]
        return fatal + [Finding(WARNING, w, f"{n} of {self.seeds} seeds: {t}") for w, (n, t) in self._odd.items()]


def play(
    env: Any, task: Task, seed: int, most: int, actions: Sequence[Any], faults: Faults | None = None,
    plain: bool = False, beat: Callable[[], None] | None = None,
) -> Trace:  # fmt: skip
    """An episode of at most so many steps, with these actions again and again.

    With `faults` every value is looked at; without, observations are kept; `plain` does neither, for speed.
    """
    flat, odd = Flattener(task.leaves), dict[str, str]()
    rows, rewards, used = [], [], []
    fault, ended, t = None, False, 0
    try:
        if beat is not None:
            beat()
        observation = _reset(env, seed)
        row = _row(flat, observation)
        rows.append(row.copy())
        if faults is not None:
            faults.begin(row)
        for t, action in zip(range(1, most + 1), cycle(actions), strict=False):  # noqa: B007
            if beat is not None:
                beat()
            observation, reward, terminated, truncated = _step(env, action)
            used.append(action)
            ended = bool(terminated or truncated)
            if plain:
                if ended:
                    break
                continue
            rewards.append(_reward(reward, odd))
            row = _row(flat, observation)
            if faults is not None:
                _look_closer(env, observation, (terminated, truncated), odd)
                faults.largest = max(faults.largest, float(np.abs(row).max()))
            else:
                rows.append(row.copy())
            if ended:
                break
    except NotGymnasium:
        raise
    except WrongObservation as e:
        fault = Fault("wrong-observation", f"{e} (step {t}).")
    except _Broken as e:
        fault = Fault(e.what, f"{e} (step {t}).")
    except (Exception, SystemExit) as e:  # an environment may raise anything
        where = f"step {t}" if rows else "reset"
        fault = Fault("raised", " ".join(f"{where} raised {type(e).__name__}: {e}".split()))
    trace = Trace(np.array(rows), np.array(rewards), used, ended, fault, len(used))
    if faults is not None:
        faults.end(trace, odd)
    return trace


class _Broken(ValueError):
    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what = what


def _reset(env: Any, seed: int) -> Any:
    try:
        returned = env.reset(seed=seed)
    except TypeError as e:
        if "seed" in str(e):
            raise NotGymnasium(
                "reset-takes-no-seed",
                f"reset(seed=...) raised TypeError: {e}; Gymnasium's reset is reset(self, *, seed=None, options=None).",
            ) from None
        raise
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
        raise NotGymnasium(
            "old-api",
            f"reset returns a {type(returned).__name__}; Gymnasium's returns (observation, info), with info a dict.",
        )
    return returned[0]


def _step(env: Any, action: Any) -> tuple[Any, Any, Any, Any]:
    returned = env.step(action)
    if not isinstance(returned, tuple) or len(returned) != 5:
        what = f"{len(returned)} values" if isinstance(returned, tuple) else f"a {type(returned).__name__}"
        old = ", as Gym's did before 0.26" if isinstance(returned, tuple) and len(returned) == 4 else ""
        raise NotGymnasium(
            "old-api",
            f"step returns {what}{old}; Gymnasium's returns (observation, reward, terminated, truncated, info).",
        )
    return returned[:4]


def _row(flat: Flattener, observation: Any) -> np.ndarray:
    row = flat(observation)
    if not np.isfinite(row).all():
        raise _Broken("not-finite", f"an observation is not finite: {_brief(observation)}")
    return row


def _reward(reward: Any, odd: dict[str, str]) -> float:
    try:
        value = float(reward)
    except (TypeError, ValueError):
        raise _Broken("reward", f"a reward is not a number: {_brief(reward)}") from None
    if not np.isfinite(value):
        raise _Broken("not-finite", f"a reward is not finite: {value}")
    if not isinstance(reward, NUMBERS):
        odd.setdefault("reward-type", f"a reward is a {type(reward).__name__}, not a number: {_brief(reward)}.")
    return value


def _look_closer(env: Any, observation: Any, flags: tuple[Any, Any], odd: dict[str, str]) -> None:
    """What training copes with, but is not what the environment declares."""
    for name, flag in zip(("terminated", "truncated"), flags, strict=True):
        if not isinstance(flag, bool | np.bool_):
            odd.setdefault("flag-type", f"{name} is a {type(flag).__name__}, not a bool: {_brief(flag)}.")
    space = env.observation_space
    if not space.contains(observation):
        what, text = _outside(space, observation, "")
        odd.setdefault(what, text)


def _outside(space: Any, value: Any, where: str) -> tuple[str, str]:
    """Why a value is not in a space: (what, text)."""
    kind, at = type(space).__name__, f" at {where}" if where else ""
    if kind in ("Dict", "Tuple") and hasattr(value, "__getitem__"):
        keys = space.spaces if kind == "Dict" else range(len(space.spaces))
        for key in keys:
            if not space.spaces[key].contains(value[key]):
                return _outside(space.spaces[key], value[key], f"{where}.{key}".lstrip("."))
    if kind == "Box":
        array = np.asarray(value)
        below, above = array < space.low, array > space.high
        if below.any() or above.any():
            i = tuple(np.argwhere(below | above)[0].tolist())
            least, most = space.low[i], space.high[i]
            text = f"an observation{at} has {array[i]:.6g}; its space says {least:.6g} to {most:.6g}."
            return "outside-space", text
        if not np.can_cast(array.dtype, space.dtype):
            return "dtype", f"an observation{at} is {array.dtype}; its space says {space.dtype}."
    return "outside-space", f"an observation{at} is not in its space {space}: {_brief(value)}."


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
