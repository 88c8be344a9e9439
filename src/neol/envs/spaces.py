"""Gymnasium's spaces read as inputs and outputs of a network, and observations as rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from neol.envs.tasks import NUMBERS, ONE_HOT, Leaf
from neol.errors import NeolError
from neol.network.actions import ARGMAX, BINARY, BOUNDED, FREE, Component


class WrongObservation(ValueError):
    """An observation that is not what the space says."""

    kind = "wrong observation"


def read_observation(space: Any, env: str) -> tuple[tuple[Leaf, ...], tuple[str, ...]]:
    """The leaves of an observation space and a name for every input; a NeolError if it is not one that we can read."""
    leaves = tuple(_leaves(space, (), env))
    names = tuple(name for leaf in leaves for name in _names(leaf))
    if not names:
        raise NeolError(f"{env} has an observation space without numbers, {space}; a network needs at least one input.")
    return leaves, names


def _leaves(space: Any, path: tuple[str | int, ...], env: str) -> Iterator[Leaf]:
    kind = type(space).__name__
    if kind == "Dict":
        for key, part in space.spaces.items():
            yield from _leaves(part, (*path, key), env)
    elif kind == "Tuple":
        for i, part in enumerate(space.spaces):
            yield from _leaves(part, (*path, i), env)
    elif kind in ("Box", "MultiBinary"):
        yield Leaf(path, NUMBERS, tuple(int(n) for n in space.shape))
    elif kind == "Discrete":
        yield Leaf(path, ONE_HOT, (), (int(space.n),), (int(space.start),))
    elif kind == "MultiDiscrete":
        values, start = (tuple(int(v) for v in np.ravel(x)) for x in (space.nvec, space.start))
        yield Leaf(path, ONE_HOT, tuple(int(n) for n in space.shape), values, start)
    else:
        where = f" at {'.'.join(map(str, path))}" if path else ""
        raise NeolError(
            f"{env} has a {kind} observation space{where}, which a network cannot read; wrap the environment with "
            "gymnasium.wrappers.TransformObservation to give Box, Discrete, MultiDiscrete, MultiBinary, Tuple or Dict."
        )


def _names(leaf: Leaf) -> Iterator[str]:
    """`key.key index` for each number of a leaf; `key=value` for each value of a discrete one."""
    base = ".".join(map(str, leaf.path))
    places = [" ".join(map(str, i)) for i in np.ndindex(leaf.shape)]
    if leaf.kind == NUMBERS:
        single = len(places) == 1 and base
        yield from (base if single else f"{base or 'obs'} {place}".strip() for place in places)
        return
    for place, values, start in zip(places, leaf.values, leaf.start, strict=True):
        name = f"{base or 'state'} {place}".strip()
        yield from (f"{name}={start + v}" for v in range(values))


def read_action(space: Any, env: str) -> tuple[tuple[Component, ...], tuple[str, ...], tuple[int, ...], str]:
    """(components, a name for every output, shape, dtype) of an action space."""
    kind = type(space).__name__
    if kind == "Discrete":
        names = tuple(str(int(space.start) + i) for i in range(int(space.n)))
        return (Component(ARGMAX, 0, int(space.n), float(space.start)),), names, (), "int64"
    places = [" ".join(map(str, i)) for i in np.ndindex(getattr(space, "shape", None) or ())]
    if kind == "MultiDiscrete":
        values, starts = (np.ravel(x).astype(int) for x in (space.nvec, space.start))
        first = np.concatenate([[0], np.cumsum(values)[:-1]])
        parts = zip(first.tolist(), values.tolist(), starts.tolist(), strict=True)
        components = tuple(Component(ARGMAX, f, n, float(s)) for f, n, s in parts)
        names = tuple(f"{p}={s + v}" for p, n, s in zip(places, values, starts, strict=True) for v in range(n))
        return components, names, tuple(space.shape), space.dtype.name
    if kind == "MultiBinary":
        components = tuple(Component(BINARY, i) for i in range(len(places)))
        return components, tuple(f"bit {p}" for p in places), tuple(space.shape), space.dtype.name
    if kind == "Box" and places and space.dtype.kind in "fiu":
        bounds = zip(np.ravel(space.low).tolist(), np.ravel(space.high).tolist(), strict=True)
        components = tuple(_box_component(i, float(low), float(high)) for i, (low, high) in enumerate(bounds))
        return components, tuple(f"action {p}".strip() for p in places), tuple(space.shape), space.dtype.name
    raise NeolError(
        f"{env} has a {kind} action space, {space}, which a network cannot drive; wrap the environment with "
        "gymnasium.wrappers.TransformAction to take a Discrete, MultiDiscrete, MultiBinary or Box."
    )


def _box_component(output: int, low: float, high: float) -> Component:
    closed = math.isfinite(low) and math.isfinite(high) and high - low < 1e30
    return Component(BOUNDED if closed else FREE, output, 1, low, high)


class Flattener:
    """Observations -> inputs f8 (I,), in one array that is used again and again."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self.leaves = tuple(leaves)
        self.row = np.zeros(sum(leaf.size for leaf in leaves))
        self._plain = (
            self.leaves[0].shape if len(leaves) == 1 and self.leaves[0] == Leaf((), NUMBERS, leaves[0].shape) else None
        )

    def __call__(self, observation: Any) -> np.ndarray:
        if self._plain is not None:
            array = np.asarray(observation)
            if array.shape != self._plain:
                raise WrongObservation(f"an observation of shape {array.shape}; the space says {self._plain}")
            self.row[:] = array if array.ndim == 1 else array.reshape(-1)
            return self.row
        at = 0
        for leaf in self.leaves:
            self._fill(self.row[at : at + leaf.size], leaf, _part(observation, leaf.path))
            at += leaf.size
        return self.row

    @staticmethod
    def _fill(row: np.ndarray, leaf: Leaf, value: Any) -> None:
        array = np.asarray(value)
        if array.shape != leaf.shape:
            where = f" at {'.'.join(map(str, leaf.path))}" if leaf.path else ""
            raise WrongObservation(f"an observation of shape {array.shape}{where}; the space says {leaf.shape}")
        if leaf.kind == NUMBERS:
            row[:] = array.reshape(-1)
            return
        row[:] = 0.0
        at = 0
        for number, values, start in zip(array.reshape(-1).tolist(), leaf.values, leaf.start, strict=True):
            if not isinstance(number, int | float) or not 0 <= number - start < values or number != int(number):
                raise WrongObservation(f"an observation of {number}; the space says {start} to {start + values - 1}")
            row[at + int(number) - start] = 1.0
            at += values


def _part(observation: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        try:
            observation = observation[key]
        except (KeyError, IndexError, TypeError):
            raise WrongObservation(f"an observation without its part {'.'.join(map(str, path))}") from None
    return observation


def leaves_to_json(leaves: Sequence[Leaf]) -> list[dict[str, Any]]:
    return [{k: list(v) if isinstance(v, tuple) else v for k, v in leaf._asdict().items()} for leaf in leaves]


def leaves_from_json(stored: Any) -> tuple[Leaf, ...]:
    """The leaves of a network file; ValueError if they make no sense."""
    leaves = []
    for part in stored:
        if not isinstance(part, Mapping) or part.get("kind") not in (NUMBERS, ONE_HOT):
            raise ValueError(f"{part!r} is not part of an observation")
        shape, values, start = (tuple(_whole(v) for v in part.get(k, [])) for k in ("shape", "values", "start"))
        path = tuple(part.get("path", []))
        numbers = math.prod(shape)
        discrete = part["kind"] == ONE_HOT
        if min((*shape, *values, 0)) < 0 or len(values) != len(start) or len(values) != discrete * numbers:
            raise ValueError(f"{part!r} is not part of an observation")
        if not all(isinstance(k, str | int) for k in path):
            raise ValueError(f"{path!r} is not a path in an observation")
        leaves.append(Leaf(path, part["kind"], shape, values, start))
    return tuple(leaves)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**31:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def flat_size(leaves: Sequence[Leaf]) -> int:
    return sum(leaf.size for leaf in leaves)
