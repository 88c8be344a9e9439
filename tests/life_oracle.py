"""A life in plain Python: K trials, one after the other, of a network of tests/oracle.py; nothing of `neol` is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import oracle

Reset = Callable[[], Sequence[float]]  # -> the first observation
Step = Callable[[Sequence[float]], tuple[Sequence[float], float, bool]]  # outputs -> observation, reward, over


class Lived(NamedTuple):
    returns: list[float]  # of each trial
    steps: list[int]
    weights: dict[oracle.Pair, float]  # after the last


def live_trials(net: oracle.Net, settings: Any, simulators: Sequence[tuple[Reset, Step]], max_steps: int) -> Lived:
    """Weights, traces and thresholds go on from trial to trial; activity does not."""
    life = oracle.Life(net, settings)
    late = settings.reward_credit == "next-step"
    returns, steps = [], []
    for reset, step in simulators:
        life.y = dict.fromkeys(life.order, 0.0)
        observation, total, count, over, pending = reset(), 0.0, 0, False, 0.0
        while not over:
            outputs = life.forward(observation)
            if late:
                life.learn(pending)
            observation, pending, over = step(outputs)
            total, count = total + pending, count + 1
            over = over or count == max_steps
            if not late:
                life.learn(pending)
        returns.append(total)
        steps.append(count)
    return Lived(returns, steps, life.w)
