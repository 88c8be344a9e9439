"""A substrate: layers of nodes with places, which layer leads to which, and the same as arrays; and its file.

    inputs, outputs      [[x, y, z], ...] in the task's order, or {name: [x, y, z], ...}
    hidden               [[[x, y, z], ...], ...] one list of places for each layer
    connections          [["inputs", "hidden 1"], ["hidden 1", "outputs"], ...], always from a layer to a later one

Without z, layers lie one above the other, inputs at -1 and outputs at 1. Legend: I inputs, O outputs, K nodes that are
no inputs, C possible connections.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.config.schema import Config
from neol.config.substrates import hidden_grids
from neol.envs.tasks import Task
from neol.errors import NeolError, nearest
from neol.files import read_text
from neol.substrate.places import grid, places_of

MOST_CONNECTIONS = 20_000_000
_KEYS = ("inputs", "hidden", "outputs", "connections")


class Substrate(NamedTuple):
    """Layers in evaluation order: inputs, hidden ones, outputs."""

    layers: tuple[np.ndarray, ...]  # f8 (n, 3) each
    leads: tuple[tuple[int, int], ...]  # (from layer, to layer), ascending

    @property
    def inputs(self) -> int:
        return len(self.layers[0])

    @property
    def outputs(self) -> int:
        return len(self.layers[-1])

    @property
    def connections(self) -> int:
        return sum(len(self.layers[a]) * len(self.layers[b]) for a, b in self.leads)


class Links(NamedTuple):
    """A substrate as kernels take it. Nodes are numbered I inputs, hidden ones, O outputs; then the origin."""

    position: np.ndarray  # f8 (I + K + 1, 3)
    source: np.ndarray  # i4 (C,) node that each possible connection comes from
    target: np.ndarray  # i4 (C,) node that it leads to, ascending
    start: np.ndarray  # i8 (K + 1,) the connections into node I + k are start[k] .. start[k + 1]
    inputs: int
    outputs: int


def substrate_of(config: Config, task: Task) -> Substrate:
    """The substrate that the settings name, fitted to a task; a NeolError where it does not fit."""
    named = config.substrate.substrate
    if named != "task":
        return read_substrate(Path(named), task)
    inputs, outputs = places_of(task)
    hidden = [grid(*sides) for sides in hidden_grids(config.substrate.substrate_hidden)]
    return _checked(
        _stacked([inputs, *hidden, outputs]), _leads(len(hidden) + 2, config.substrate.substrate_skip), "it"
    )


def _stacked(layers: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Places f8 (n, 2) one above the other."""
    heights = np.linspace(-1.0, 1.0, len(layers))
    return tuple(np.concatenate([xy, np.full((len(xy), 1), z)], axis=1) for xy, z in zip(layers, heights, strict=True))


def _leads(layers: int, skip: bool) -> tuple[tuple[int, int], ...]:
    return tuple((a, b) for a in range(layers) for b in range(a + 1, layers) if skip or b == a + 1)


def _checked(layers: tuple[np.ndarray, ...], leads: tuple[tuple[int, int], ...], what: str) -> Substrate:
    found = Substrate(layers, leads)
    if found.connections > MOST_CONNECTIONS:
        raise NeolError(
            f"the substrate is too large: {what} has {found.connections:,} possible connections, and must have at most "
            f"{MOST_CONNECTIONS:,}."
        )
    return found


def links_of(substrate: Substrate) -> Links:
    """The substrate's possible connections, by target; the sources of each in the order of layers."""
    sizes = [len(layer) for layer in substrate.layers]
    first = np.concatenate([[0], np.cumsum(sizes)])
    source, target, counts = [], [], []
    for b in range(1, len(sizes)):
        into = [np.arange(first[a], first[a + 1]) for a, to in substrate.leads if to == b]
        sources = np.concatenate([*into, np.empty(0, np.int64)])
        nodes = np.arange(first[b], first[b + 1])
        source.append(np.tile(sources, len(nodes)))
        target.append(np.repeat(nodes, len(sources)))
        counts += [len(sources)] * len(nodes)
    position = np.concatenate([*substrate.layers, np.zeros((1, 3))])
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    sources, targets = (np.concatenate(part).astype(np.int32) for part in (source, target))
    return Links(position, sources, targets, start, substrate.inputs, substrate.outputs)


# -- its file ---------------------------------------------------------------------------------------------------------


def to_text(substrate: Substrate, task: Task) -> str:
    """substrate.json: the whole substrate, inputs and outputs by their names where these are different ones."""
    names = ["inputs", *(f"hidden {i + 1}" for i in range(len(substrate.layers) - 2)), "outputs"]

    def ends(layer: np.ndarray, called: Sequence[str]) -> Any:
        places = layer.tolist()
        return dict(zip(called, places, strict=True)) if len(set(called)) == len(called) else places

    document = {
        "inputs": ends(substrate.layers[0], task.inputs),
        "hidden": [layer.tolist() for layer in substrate.layers[1:-1]],
        "outputs": ends(substrate.layers[-1], task.actions),
        "connections": [[names[a], names[b]] for a, b in substrate.leads],
    }
    return json.dumps(document) + "\n"


def digest(substrate: Substrate) -> np.ndarray:
    """A fingerprint u1 (32,)."""
    parts = [a.tobytes() for a in substrate.layers] + [repr(substrate.leads).encode()]
    return np.frombuffer(hashlib.sha256(b"|".join(parts)).digest(), np.uint8)


def read_substrate(path: Path, task: Task) -> Substrate:
    """The substrate of a TOML or JSON file, fitted to a task; every fault is a NeolError."""
    name = f"'{path}'"
    try:
        text = read_text(path)
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as e:
        raise NeolError(f"cannot read the substrate {name}: {e.strerror}.") from None
    except (ValueError, RecursionError) as e:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise NeolError(f"the substrate {name} is not {kind}: {e}.") from None
    if not isinstance(document, dict):
        raise NeolError(f"the substrate {name} must be a table with {', '.join(_KEYS)}.")
    for key in document:
        if key not in _KEYS:
            raise NeolError(f"the substrate {name} has an unknown key '{key}'; {nearest(key, _KEYS)}")
    hidden = document.get("hidden", [])
    if not isinstance(hidden, list):
        raise NeolError(f"the substrate {name} has hidden = {hidden!r}; it must be a list of layers.")
    parts = [
        _places(document.get("inputs"), task.inputs, "inputs", name),
        *(_places(layer, None, f"hidden {i + 1}", name) for i, layer in enumerate(hidden)),
        _places(document.get("outputs"), task.actions, "outputs", name),
    ]
    heights = np.linspace(-1.0, 1.0, len(parts))
    layers = tuple(
        np.array([[*place, *([0.0] * (2 - len(place))), z][:3] for place in part], float).reshape(-1, 3)
        for part, z in zip(parts, heights, strict=True)
    )
    leads = _named_leads(document.get("connections"), len(layers), name)
    return _checked(layers, leads, name)


def _places(found: Any, names: Sequence[str] | None, what: str, file: str) -> list[list[float]]:
    """The places of a layer: as many as `names`, in their order."""
    if isinstance(found, Mapping) and names is not None:
        missing = [n for n in names if n not in found]
        unknown = [n for n in found if n not in names]
        if missing or unknown:
            wrong = f"no place for '{missing[0]}'" if missing else f"a place for '{unknown[0]}', which the task has not"
            raise NeolError(f"the substrate {file} has in {what} {wrong}.")
        found = [found[n] for n in names]
    if not isinstance(found, list) or not found:
        raise NeolError(f"the substrate {file} has {what} = {found!r}; it must be a list of places, at least one.")
    if names is not None and len(found) != len(names):
        raise NeolError(f"the substrate {file} has {len(found)} places of {what}; the task has {len(names)}.")
    for place in found:
        if not isinstance(place, list) or not 1 <= len(place) <= 3 or not all(map(_is_coordinate, place)):
            raise NeolError(f"the substrate {file} has the place {place!r} in {what}; it must be 1 to 3 numbers.")
    return found


def _is_coordinate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e6  # False for nan


def _named_leads(found: Any, layers: int, file: str) -> tuple[tuple[int, int], ...]:
    if found is None:
        return _leads(layers, skip=True)
    names = ["inputs", *(f"hidden {i + 1}" for i in range(layers - 2)), "outputs"]
    leads = []
    for pair in found if isinstance(found, list) else [found]:
        if not isinstance(pair, list) or len(pair) != 2 or any(n not in names for n in pair):
            raise NeolError(f"the substrate {file} has the connection {pair!r}; it must be two of {', '.join(names)}.")
        a, b = names.index(pair[0]), names.index(pair[1])
        if a >= b:
            raise NeolError(f"the substrate {file} leads from {pair[0]} to {pair[1]}; it must lead to a later layer.")
        leads.append((a, b))
    if not leads:
        raise NeolError(f"the substrate {file} has no connections; it must have at least one.")
    return tuple(sorted(set(leads)))
