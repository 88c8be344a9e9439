"""How a network's outputs become an action: a list of components, and the same as arrays for `step.decode`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

# How outputs become an action component.
ARGMAX, BOUNDED, FREE, BINARY = range(4)


class Component(NamedTuple):
    """One number of an action, and the outputs `first` .. `first + width` that it is made from."""

    kind: int  # ARGMAX: low + index of the largest | BOUNDED: scaled to low .. high | FREE: clipped | BINARY: y > 0
    first: int
    width: int = 1
    low: float = 0.0
    high: float = 0.0


def bounded(low: tuple[float, ...], high: tuple[float, ...]) -> tuple[Component, ...]:
    """Each output scaled to its bounds."""
    return tuple(Component(BOUNDED, i, 1, a, b) for i, (a, b) in enumerate(zip(low, high, strict=True)))


class ActionMap(NamedTuple):
    """What `step.decode` needs to turn O outputs into A action components."""

    kind: np.ndarray  # i1 (A,)
    first: np.ndarray  # i4 (A,)
    width: np.ndarray  # i4 (A,)
    low: np.ndarray  # f8 (A,)
    high: np.ndarray  # f8 (A,)


def action_map(components: tuple[Component, ...]) -> ActionMap:
    kind, first, width, low, high = zip(*components, strict=True)
    whole = (np.array(first, np.int32), np.array(width, np.int32))
    return ActionMap(np.array(kind, np.int8), *whole, np.array(low, np.float64), np.array(high, np.float64))


def action_reader(
    action: np.ndarray, components: tuple[Component, ...], shape: tuple[int, ...], dtype: str
) -> Callable[[], Any]:
    """What gives the numbers that `action` f8 (A,) holds now as an environment takes them.

    A whole number for a Discrete space, for all others an array of its own, of the space's shape and dtype; a Box of
    shape () too.
    """
    if not shape and components[0].kind == ARGMAX:
        return lambda: int(action[0])
    return partial(action.reshape(shape).astype, np.dtype(dtype))
