"""A life in plain Python: K trials, one after the other, in a world that may change, of a network of tests/oracle.py.

Nothing of `neol` is used. A change is a dict: what, op, and where they are not the usual ones value, of, p, onset, end,
counts ("life", "trial", "trials"), draw (the number that decides whether a life has it) and low (of its share).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import oracle

Reset = Callable[[], Sequence[float]]  # -> the first observation
Step = Callable[[Sequence[float]], tuple[Sequence[float], float, bool]]  # outputs -> observation, reward, over


class Lived(NamedTuple):
    returns: list[float]  # of each trial
    steps: list[int]
    weights: dict[oracle.Pair, float]  # after the last


MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    """SplitMix64's finaliser."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def life_name(seed: int, purpose: int, generation: int, genome: int, episode: int) -> int:
    """genome: 0 where all meet the same, else its number + 1."""
    z = mix((seed + GOLDEN) & MASK)
    for part in (purpose, generation, genome, episode):
        z = mix(z ^ ((mix((part + GOLDEN) & MASK) + GOLDEN) & MASK))
    return mix(z ^ 0xD1B54A32D192ED03)


def drawn(name: int, number: int, i: int) -> float:
    return (mix((mix(name ^ mix((number + GOLDEN) & MASK)) + i * GOLDEN) & MASK) >> 11) / 2.0**53


def fate(name: int, number: int, together: Sequence[int]) -> float:
    """What decides whether a life has a change: `together` are the names of the lives that it is drawn with."""
    if len(together) < 2:
        return drawn(name, number, 0)
    stratum = sorted(together, key=lambda other: drawn(other, number, 0)).index(name)
    return (stratum + drawn(mix(together[0]), number, 0)) / len(together)


class World:
    """The changes of one life; `together`: the names of all lives that were drawn with it."""

    def __init__(self, changes: Sequence[dict[str, Any]] = (), name: int = 0, together: Sequence[int] = ()) -> None:
        self.changes, self.name = changes, name
        self.clock = {"life": 0, "trial": 0, "trials": 0}
        self.past: dict[int, list[list[float]]] = {}  # of each change: what reached it, in this trial
        self.held: dict[int, list[float]] = {}
        self.onset, self.end = {}, {}
        for number, c in enumerate(changes):
            low = c.get("low", 0.0)
            if low <= fate(name, c.get("draw", number), together) < low + c.get("p", 1.0):
                for i, (when, usual) in enumerate((("onset", (0, 0)), ("end", (10**9, 10**9)))):
                    first, last = c.get(when, usual)
                    getattr(self, when)[number] = first + int(drawn(name, number, i + 1) * (last - first + 1))

    def begin_trial(self, trial: int) -> None:
        self.clock |= {"trial": 0, "trials": trial}
        self.past = {number: [] for number in range(len(self.changes))}

    def active(self, number: int) -> bool:
        t = self.clock[self.changes[number].get("counts", "life")]
        return number in self.onset and self.onset[number] <= t < self.end[number]

    def changed(self, what: str, values: Sequence[float], limit: float = math.inf) -> list[float]:
        """An observation, or outputs (which are clipped first, as their actuators would)."""
        out = [oracle.between(-limit, v, limit) for v in values]
        for number, c in enumerate(self.changes):
            if c["what"] == what:
                of = c.get("of", range(len(out)))
                new = self._vector(number, c, [out[i] for i in of])
                for i, v in zip(of, new, strict=True):
                    out[i] = v
        return out

    def _vector(self, number: int, c: dict[str, Any], now: list[float]) -> list[float]:
        past, v, on = self.past[number], c.get("value", 0.0), self.active(number)
        past.append(now)
        if c["op"] == "stuck":
            if not on or number not in self.held:
                self.held[number] = now
            return self.held[number]
        if not on:
            return now
        if c["op"] == "delay":
            late = len(past) - 1 - v
            return past[late] if late >= 0 else past[0] if c["what"] == "observation" else [0.0] * len(now)
        if c["op"] == "noise":
            pairs, out = (len(now) + 1) // 2, []
            for k, x in enumerate(now):
                i = 3 + 2 * (self.clock["life"] * pairs + k // 2)
                radius = math.sqrt(-2.0 * math.log(1.0 - drawn(self.name, number, i)))
                angle = 2.0 * math.pi * drawn(self.name, number, i + 1)
                out.append(x + v * radius * (math.sin(angle) if k % 2 else math.cos(angle)))
            return out
        one = {"gain": lambda x: x * v, "offset": lambda x: x + v, "set": lambda x: v}[c["op"]]
        return [one(x) for x in now]

    def rewarded(self, reward: float) -> tuple[float, float]:
        """What is counted, and what is learned from."""
        paid = felt = reward
        for number, c in enumerate(self.changes):
            if c["what"] != "reward":
                continue
            past, on, v = self.past[number], self.active(number), c.get("value", 0.0)
            past.append([felt])
            if not on:
                continue
            if c["op"] == "gain":
                paid, felt = paid * v, felt * v
            elif c["op"] == "set":
                felt = v
            else:
                felt = past[len(past) - 1 - v][0] if len(past) > v else 0.0
        return paid, felt


def live_trials(
    net: oracle.Net,
    settings: Any,
    simulators: Sequence[tuple[Reset, Step]],
    max_steps: int,
    world: World | None = None,
    limit: float = math.inf,
) -> Lived:
    """Weights, traces and thresholds go on from trial to trial; activity does not. limit: of bounded outputs."""
    life, world = oracle.Life(net, settings), world or World()
    late = settings.reward_credit == "next-step"
    returns, steps = [], []
    for trial, (reset, step) in enumerate(simulators):
        life.y = dict.fromkeys(life.order, 0.0)
        world.begin_trial(trial)
        observation, total, count, over, felt = reset(), 0.0, 0, False, 0.0
        while not over:
            outputs = life.forward(world.changed("observation", observation))
            if late:
                life.learn(felt)
            observation, reward, over = step(world.changed("action", outputs, limit))
            paid, felt = world.rewarded(reward)
            world.clock["life"] += 1
            world.clock["trial"] += 1
            total, count = total + paid, count + 1
            over = over or count == max_steps
            if not late:
                life.learn(felt)
        returns.append(total)
        steps.append(count)
    return Lived(returns, steps, life.w)
