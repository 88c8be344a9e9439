"""Changes of the world, as text: `action invert of=1 p=0.5 from=100..300`; read, checked, and fitted to a task.

    WHAT KIND[=VALUE] [of=INDICES] [p=P] [from=A|A..B] [to=A|A..B] [count=life|trial|trials] [group=NAME] [each]

docs/method.md has the list of kinds and what each word means. This module imports nothing heavy: mistakes are told
before any kernel is loaded.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from neol.errors import NeolError, nearest

WHATS = ("observation", "action", "reward", "env")  # the order in which a step meets them
OPS = ("gain", "offset", "set", "hold", "delay", "noise", "attribute")
COUNTS = ("life", "trial", "trials")
NEVER = 2**62
LONGEST_DELAY = 1000

# kind -> (what is done, its value; None = the user gives one)
_VECTOR: dict[str, tuple[str, float | None]] = {
    "gain": ("gain", None), "invert": ("gain", -1.0), "offset": ("offset", None), "delay": ("delay", None),
    "noise": ("noise", None), "stuck": ("hold", 0.0),
}  # fmt: skip
KINDS: dict[str, dict[str, tuple[str, float | None]]] = {
    "observation": {**_VECTOR, "loss": ("set", 0.0)},
    "action": {**_VECTOR, "dead": ("set", 0.0)},
    "reward": {"sign": ("gain", -1.0), "scale": ("gain", None), "delay": ("delay", None), "absent": ("set", 0.0)},
}
_WORDS = ("of", "p", "from", "to", "count", "group", "each")


class Change(NamedTuple):
    """One change of the world, as it was written."""

    text: str
    what: str  # of WHATS
    op: str  # of OPS
    value: float = 0.0
    of: tuple[str, ...] = ()  # indices, spans or names; () = all
    p: float = 1.0  # probability that a life has it
    onset: tuple[int, int] = (0, 0)  # the first and the last step (or trial) at which it may begin
    end: tuple[int, int] = (NEVER, NEVER)  # the same of the first one without it
    counted: str = "life"  # what onset and end count: steps of the life, steps of each trial, or trials
    group: str = ""  # a life has at most one change of a group
    each: bool = False  # every index is a change of its own
    path: str = ""  # env: the attribute
    attribute: Any = None  # env: its value


class FittedChange(NamedTuple):
    """A change of a task's world."""

    change: Change
    indices: tuple[int, ...]  # of inputs or outputs; () for rewards and attributes
    draw: int  # changes that draw with the same number have a common fate
    low: float  # a life has it where low <= u < high, u uniform in [0, 1)
    high: float


def parse_change(text: str) -> Change:
    """A change from its text, or a NeolError."""
    words = text.split()
    if len(words) < 2:
        raise _wrong(text, f"it must be WHAT KIND ..., with WHAT of {', '.join(WHATS)}")
    if words[0] not in WHATS:
        raise _wrong(text, f"'{words[0]}' is unknown; {nearest(words[0], WHATS)}")
    if words[0] == "env":
        path, equals, said = words[1].partition("=")
        change = Change(text, "env", "attribute", path=path, attribute=_literal(text, said, bool(equals)))
        if not re.fullmatch(r"[A-Za-z_]\w*(\[\d+\]|\.[A-Za-z_]\w*)*", path):
            raise _wrong(text, f"'{path}' is no path of attributes, such as gravity or model.opt.gravity[2]")
    else:
        change = _of_kind(text, words[0], words[1])
    return _with_words(change, words[2:])


def _of_kind(text: str, what: str, word: str) -> Change:
    kind, equals, said = word.partition("=")
    if kind not in KINDS[what]:
        raise _wrong(text, f"{what} has no '{kind}'; {nearest(kind, KINDS[what])}")
    op, value = KINDS[what][kind]
    if op == "hold" and equals:  # stuck at a value
        op, value = "set", None
    if (value is None) != bool(equals):
        raise _wrong(text, f"{kind} {'needs a value, as ' + kind + '=0.5' if value is None else 'takes no value'}")
    if value is None:
        value = _number(text, kind, said)
        if op == "delay" and not (value == int(value) and 1 <= value <= LONGEST_DELAY):
            raise _wrong(text, f"delay must be a whole number of steps, at least 1 and at most {LONGEST_DELAY}")
        if op == "noise" and value < 0.0:
            raise _wrong(text, "noise must be at least 0, a standard deviation")
    return Change(text, what, op, value)


def _with_words(change: Change, words: Sequence[str]) -> Change:
    text = change.text
    seen: dict[str, str] = {}
    for word in words:
        name, equals, said = word.partition("=")
        if name not in _WORDS:
            raise _wrong(text, f"'{name}' is unknown; {nearest(name, _WORDS)}")
        if name in seen or bool(equals) == (name == "each") or (equals and not said):
            raise _wrong(text, f"'{word}' must be {'each' if name == 'each' else name + '=...'}, once")
        seen[name] = said
    if change.what in ("reward", "env") and ("of" in seen or "each" in seen):
        raise _wrong(text, f"{change.what} has no indices: leave out {'of' if 'of' in seen else 'each'}")
    p = _number(text, "p", seen.get("p", "1"))
    if not 0.0 <= p <= 1.0:
        raise _wrong(text, "p must be a probability, 0 to 1")
    count = seen.get("count", "life")
    if count not in COUNTS:
        raise _wrong(text, f"count must be one of {', '.join(COUNTS)}")
    onset = _span(text, "from", seen["from"]) if "from" in seen else (0, 0)
    end = _span(text, "to", seen["to"]) if "to" in seen else (NEVER, NEVER)
    if end[0] <= onset[1]:
        raise _wrong(text, f"it ends at {end[0]}, which must be after its beginning at {onset[1]}")
    of = tuple(w for w in seen.get("of", "").split(",") if w)
    return change._replace(
        of=of, p=p, onset=onset, end=end, counted=count, group=seen.get("group", ""), each="each" in seen
    )


def _wrong(text: str, why: str) -> NeolError:
    return NeolError(f"change = '{text}' is not allowed; {why.rstrip('.')}.")


def _number(text: str, name: str, said: str) -> float:
    try:
        value = float(said)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e6:
        raise _wrong(text, f"{name} = '{said}' must be a number of at most a million")
    return value


def _literal(text: str, said: str, given: bool) -> Any:
    """The value of an attribute: a number, true, false, or a list of numbers."""
    try:
        value = json.loads(said)
    except ValueError:
        value = None
    items = value if isinstance(value, list) else [value]
    if not given or not items or not all(isinstance(v, bool | int | float) and abs(v) <= 1e300 for v in items):
        raise _wrong(text, "an attribute needs a value: PATH=NUMBER, true, false or [NUMBER,NUMBER]")
    return value


def _span(text: str, name: str, said: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", said)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise _wrong(text, f"{name} = '{said}' must be a whole number, or a range such as 100..300")
    return int(match[1]), int(match[2] or match[1])


def parse_changes(texts: Sequence[str]) -> tuple[Change, ...]:
    """All changes of a world, those with `each` not yet taken apart."""
    return tuple(parse_change(t) for t in texts)


def has_attributes(texts: Sequence[str]) -> bool:
    """Whether a world changes attributes of the environment: EnvPool's have none."""
    return any(c.what == "env" for c in parse_changes(texts))


def fit_changes(
    texts: Sequence[str], inputs: Sequence[str], outputs: Sequence[str], max_steps: int, trials: int
) -> tuple[FittedChange, ...]:
    """The changes of a task's world, by its inputs and outputs; a NeolError where one does not fit."""
    fitted: list[FittedChange] = []
    groups: dict[str, tuple[int, float]] = {}  # the number that a group draws with, and the p so far
    names: Mapping[str, Sequence[str]] = {"observation": inputs, "action": outputs}
    for change in parse_changes(texts):
        limit = {"life": max_steps * trials, "trial": max_steps, "trials": trials}[change.counted]
        if change.onset[1] >= limit:
            what = {"life": "a life has", "trial": "a trial has", "trials": "a life has"}[change.counted]
            unit = "trials" if change.counted == "trials" else "steps (max_steps)"
            raise _wrong(change.text, f"it begins at {change.onset[1]}, and {what} at most {limit} {unit}")
        of = _indices(change, names[change.what]) if change.what in names else ()
        for index in [(i,) for i in of] if change.each else [of]:
            draw, low = groups.get(change.group, (len(fitted), 0.0)) if change.group else (len(fitted), 0.0)
            if low + change.p > 1.0 + 1e-9:
                why = f"a life has at most one change of group '{change.group}', and their p add up to more than 1"
                raise _wrong(change.text, why)
            fitted.append(FittedChange(change, index, draw, low, low + change.p))
            if change.group:
                groups[change.group] = (draw, low + change.p)
    return tuple(fitted)


def _indices(change: Change, names: Sequence[str]) -> tuple[int, ...]:
    what = "inputs" if change.what == "observation" else "outputs"
    known = [n.replace(" ", "_") for n in names]
    found: list[int] = []
    for word in change.of or (f"0-{len(names) - 1}",):
        span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word)
        if word in known:
            found.append(known.index(word))
        elif span is not None and int(span[1]) <= int(span[2] or span[1]) < len(names):
            found += range(int(span[1]), int(span[2] or span[1]) + 1)
        else:
            raise _wrong(
                change.text,
                f"'{word}' is none of the {len(names)} {what}: 0 to {len(names) - 1}, or {', '.join(known[:8])}",
            )
    if len(set(found)) < len(found):
        raise _wrong(change.text, f"of names one of the {what} twice")
    return tuple(found)
