"""What `neol check` finds out about an environment, as a typed value, as JSON and as text."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from neol.envs.tasks import ONE_HOT, Leaf, Task
from neol.network.actions import ARGMAX, BINARY, BOUNDED, Component

ERROR, WARNING, NOTE = "error", "warning", "note"
WIDTH = 80  # columns of the text
NAMED = 12  # the most inputs or outputs of a part that the text names


class Finding(NamedTuple):
    """Something about an environment that its author should know."""

    level: str  # ERROR: it cannot be trained on | WARNING: it can, but something is wrong | NOTE: good to know
    what: str  # a short name that does not change, such as "not-finite"
    text: str  # a sentence


class Part(NamedTuple):
    """A part of an observation and the inputs that it becomes, or of an action and the outputs that it is made from."""

    part: str  # where it is in the space, "observation" or "action" for all of it
    how: str
    names: tuple[str, ...]  # of the inputs or outputs


@dataclass(frozen=True)
class CheckReport:
    """An environment as NEOL sees it. `ok`: it can be trained on."""

    environment: str
    findings: tuple[Finding, ...] = ()
    inputs: tuple[Part, ...] = ()
    outputs: tuple[Part, ...] = ()
    action: str = ""  # its shape and type
    max_steps: int = 0  # the longest episode
    declares_limit: bool = False  # max_steps is the environment's own
    engine: str = ""
    engine_reason: str = ""
    steps_per_second: float = 0.0  # of that engine on one core, with random actions
    gymnasium_steps_per_second: float = 0.0
    render_modes: tuple[str, ...] = ()
    can_film: bool = False
    seeds: int = 0  # episodes that were begun, each with a seed of its own
    failed_seeds: int = 0
    steps: int = 0  # of all of them

    @property
    def ok(self) -> bool:
        return all(f.level != ERROR for f in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        parts = {k: [p._asdict() for p in getattr(self, k)] for k in ("inputs", "outputs", "findings")}
        return {"ok": self.ok, **dataclasses.asdict(self), **parts}

    def __str__(self) -> str:
        head = f"{self.environment}: {'can be' if self.ok else 'cannot be'} trained on"
        lines = [head, *(_line(name, text) for name, text in self._facts())]
        lines += [_line(f.level, f.text) for f in self.findings]
        return "\n".join(lines if self.findings else [*lines, _line("faults", "none found")])

    def _facts(self) -> list[tuple[str, str]]:
        if not self.engine:
            return []
        facts = [*_parts("inputs", self.inputs), *_parts("outputs", self.outputs), ("action", self.action)]
        own = "" if self.declares_limit else " (NEOL's own: the environment declares none)"
        facts += [("time limit", f"{self.max_steps:,} steps{own}"), ("engine", f"{self.engine}: {self.engine_reason}")]
        if self.steps_per_second:
            other = self.gymnasium_steps_per_second
            if self.engine == "native":  # what was tried is the same simulator, driven from Python
                beside = " on Gymnasium; native was not timed"
            else:
                beside = f"; {other:,.0f} on Gymnasium" if other and self.engine != "gymnasium" else ""
            facts.append(("speed", f"{self.steps_per_second:,.0f} steps/s on one core, random actions{beside}"))
        modes = ", ".join(self.render_modes) or "none"
        facts.append(("filming", f"{'yes' if self.can_film else 'no'} (render modes: {modes})"))
        return [*facts, ("tried", f"{self.seeds:,} seeds, {self.steps:,} steps of random actions")]


def _parts(name: str, parts: Sequence[Part]) -> list[tuple[str, str]]:
    """One line for all, and one for each part where there are several."""
    texts = []
    for part in parts:
        shown = ", ".join(part.names[:NAMED]) + (", ..." if len(part.names) > NAMED else "")
        texts.append(f"{part.part}: {part.how} ({shown})")
    if len(texts) > 1:
        texts.insert(0, f"{sum(len(p.names) for p in parts):,} in {len(parts):,} parts")
    return [(name if i == 0 else "", text) for i, text in enumerate(texts)]


def _line(name: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14)


def input_parts(task: Task) -> tuple[Part, ...]:
    """How each part of an observation becomes inputs."""
    out, at = [], 0
    for leaf in task.leaves:
        where = ".".join(map(str, leaf.path)) or "observation"
        out.append(Part(where, _how_read(leaf), task.inputs[at : at + leaf.size]))
        at += leaf.size
    return tuple(out)


def _how_read(leaf: Leaf) -> str:
    shape = "x".join(map(str, leaf.shape)) or "1"
    if leaf.kind == ONE_HOT:
        return f"{len(leaf.values)} whole numbers, one input for each value" if leaf.shape else "one input per value"
    return f"{shape} numbers, one input each" if leaf.size > 1 else "a number, one input"


def output_parts(task: Task) -> tuple[Part, ...]:
    """How outputs become each number of an action; neighbours that are made alike are one part."""
    out: list[Part] = []
    for i, c in enumerate(task.components):
        how, names = _how_made(c), task.actions[c.first : c.first + c.width]
        if out and c.kind != ARGMAX and out[-1].how == how:
            out[-1] = out[-1]._replace(part="action", names=out[-1].names + names)
        else:
            out.append(Part("action" if len(task.components) == 1 else f"action {i}", how, names))
    return tuple(out)


def _how_made(c: Component) -> str:
    if c.kind == ARGMAX:
        return f"{c.low:.0f} to {c.low + c.width - 1:.0f}, whichever output is largest"
    if c.kind == BINARY:
        return "1 where the output is above 0, else 0"
    return f"scaled to {c.low:g} .. {c.high:g}" if c.kind == BOUNDED else f"as it is, within {c.low:g} .. {c.high:g}"
