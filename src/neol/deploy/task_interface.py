"""The `interface` object of a champion.json: what a network's inputs and outputs mean in its task.

task, env_id, env_kwargs       where it lives            inputs, outputs    a name for each
observation                    parts of an observation   action             how outputs become an action
senses                         what it sees beside it, as its last inputs (envs/senses.py)
normalization                  mean and std of each input, if it was trained on scaled observations, and how many
                               observations they are of (count)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from neol.envs.senses import ACTION, NO_SENSES, SENSES, WORLD, Senses, places
from neol.envs.spaces import Flattener, WrongObservation, flat_size, leaves_from_json, leaves_to_json
from neol.envs.tasks import ONE_HOT, Leaf, Task
from neol.errors import NeolError
from neol.network.actions import ARGMAX, BINARY, BOUNDED, FREE, Component, action_map, action_reader, bounded
from neol.network.normalization import IDENTITY, Normalization
from neol.network.step import decode

_KINDS = {ARGMAX: "argmax", BOUNDED: "bounded", FREE: "free", BINARY: "binary"}


class Interface(NamedTuple):
    """A checked `interface` object. Without an `action` an action is the outputs themselves."""

    document: dict[str, Any]
    leaves: tuple[Leaf, ...]  # () = not known: observations are rows of inputs
    components: tuple[Component, ...]
    shape: tuple[int, ...]
    dtype: str
    normal: Normalization
    observations: float | None  # that it is of; None = not known
    senses: Senses = NO_SENSES  # where each sense is among the inputs
    observed: int = 0  # inputs that are the observation

    def action(self, outputs: np.ndarray) -> np.ndarray | int:
        """Outputs f8 (O,) as an action of the task."""
        if not self.components:
            return outputs.astype(np.float32)
        action = np.zeros(len(self.components))
        decode(outputs, action_map(self.components), action)
        return action_reader(action, self.components, self.shape, self.dtype)()

    def rows(self, observation: Any, inputs: int) -> tuple[np.ndarray, bool]:
        """Observations as rows f8 (n, I), and whether it was a single one."""
        array = None if isinstance(observation, Mapping | tuple) else _numbers(observation, inputs)
        if array is not None and (array.shape[-1:] == (inputs,) and array.ndim in (1, 2)) and not self._one_hot(array):
            return array.reshape(-1, inputs), array.ndim == 1
        if self.leaves:
            flat = Flattener(self.leaves)
            with suppress(WrongObservation):
                if array is not None and len(self.leaves) == 1 and array.ndim == len(self.leaves[0].shape) + 1:
                    return np.array([flat(row).copy() for row in array]), False
                return flat(observation).reshape(1, -1), True
        raise NeolError(_wrong(observation, array, inputs))

    def _one_hot(self, array: np.ndarray) -> bool:
        """Whether it is a batch of numbers of a Discrete space rather than one row of inputs."""
        alone = len(self.leaves) == 1 and self.leaves[0].kind == ONE_HOT and not self.leaves[0].shape
        return alone and array.ndim == 1 and bool((array > 1).any())


def _wrong(observation: Any, array: np.ndarray | None, inputs: int) -> str:
    if array is None:
        return f"observation {observation!r} is not allowed; it is not what the network's task gives."
    many = f", or {(len(array), inputs)} for {len(array)} of them" if array.ndim > 1 else ""
    return f"observation of shape {array.shape} is not allowed; it must have shape {(inputs,)}{many}."


def _numbers(observation: Any, inputs: int) -> np.ndarray:
    try:
        return np.asarray(observation, np.float64, order="C")
    except (TypeError, ValueError):
        raise NeolError(
            f"observation {observation!r} is not allowed; it must be numbers of shape {(inputs,)}."
        ) from None


def to_document(task: Task, normal: Normalization = IDENTITY, count: float = 0.0) -> dict[str, Any]:
    """The `interface` object of a task; `count`: observations that the mean and std are of."""
    kinds = {c.kind for c in task.components}
    if kinds == {BOUNDED} and task.action_shape == (len(task.components),) and task.action_dtype == "float32":
        low, high = zip(*((c.low, c.high) for c in task.components), strict=True)
        action: dict[str, Any] = {"kind": "bounded", "low": list(low), "high": list(high)}
    elif kinds == {ARGMAX} and not task.action_shape and task.components[0].low == 0:
        action = {"kind": "argmax"}
    else:
        parts = [{**c._asdict(), "kind": _KINDS[c.kind], **_finite(c)} for c in task.components]
        action = {"kind": "parts", "parts": parts, "shape": list(task.action_shape), "dtype": task.action_dtype}
    names = {"inputs": list(task.inputs), "outputs": list(task.actions)}
    out: dict[str, Any] = {"task": task.name, "env_id": task.id, **names, "action": action}
    out["observation"] = leaves_to_json(task.leaves)
    if task.env_kwargs:
        out["env_kwargs"] = dict(task.env_kwargs)
    if task.senses:
        out["senses"] = list(task.senses)
    if normal.on:
        out["normalization"] = {"mean": normal.mean.tolist(), "std": normal.std.tolist(), "count": count}
    return out


def _finite(c: Component) -> dict[str, Any]:
    """Bounds that JSON can hold: none is null."""
    return {k: v if np.isfinite(v) else None for k, v in (("low", c.low), ("high", c.high))}


def read(document: Mapping[str, Any], inputs: int, outputs: int) -> Interface:
    """The checked interface of a network document."""
    found = document.get("interface", {})
    if not isinstance(found, Mapping):
        raise NeolError("the network's interface is not a JSON object.")
    for key in ("inputs", "outputs"):
        names = found.get(key, [])
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise NeolError(f"the network's interface has {key} = {names!r}; it must be a list of names.")
    if not isinstance(found.get("env_kwargs", {}), Mapping):
        raise NeolError(f"the network's interface has env_kwargs = {found['env_kwargs']!r}; it must be a JSON object.")
    components, shape, dtype = _read_action(found.get("action"), outputs)
    leaves = _read_leaves(found.get("observation"))
    senses, observed = _read_senses(found.get("senses", []), flat_size(leaves), inputs, outputs)
    if leaves and flat_size(leaves) != observed:
        raise NeolError(f"the network's interface has an observation of {flat_size(leaves)} inputs, not {observed}.")
    return Interface(
        dict(found), leaves, components, shape, dtype, *_read_normal(found.get("normalization"), inputs),
        senses, observed,
    )  # fmt: skip


def _read_senses(stored: Any, observed: int, inputs: int, outputs: int) -> tuple[Senses, int]:
    """Where the senses are, and how many inputs come before them: changes of the world have what is left over."""
    if stored == []:
        return NO_SENSES, inputs
    if not isinstance(stored, list) or stored != [s for s in SENSES if s in stored]:
        raise NeolError(f"the network's interface has senses = {stored!r}; they must be of {', '.join(SENSES)}.")
    least = observed + len(stored) + (outputs - 1) * (ACTION in stored)
    if least > inputs or (least < inputs and WORLD not in stored):
        raise NeolError(f"the network's interface has {observed} observed inputs and senses that do not fit {inputs}.")
    return places(stored, observed, outputs), observed


def _read_leaves(stored: Any) -> tuple[Leaf, ...]:
    if stored is None:
        return ()
    try:
        leaves = leaves_from_json(stored)
    except (TypeError, ValueError) as e:
        raise NeolError(f"the network's interface has a wrong observation: {e}.") from None
    return leaves


def _read_action(action: Any, outputs: int) -> tuple[tuple[Component, ...], tuple[int, ...], str]:
    if action is None:
        return (), (), "float32"
    kind = action.get("kind") if isinstance(action, Mapping) else None
    if kind == "argmax":
        return (Component(ARGMAX, 0, outputs),), (), "int64"
    if kind == "bounded":
        low, high = _bounds(action, outputs)
        return bounded(low, high), (outputs,), "float32"
    if kind != "parts":
        raise NeolError(f"the network's interface has action = {action!r}; its kind must be argmax, bounded or parts.")
    try:
        parts = tuple(_component(p, outputs) for p in action["parts"])
        shape, dtype = tuple(int(n) for n in action["shape"]), np.dtype(action["dtype"])
        if int(np.prod(shape)) != len(parts) or not parts or dtype.kind not in "fiub":
            raise ValueError("parts, shape and dtype do not fit")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise NeolError(f"the network's interface has an action that is wrong: {e}.") from None
    return parts, shape, dtype.name


def _component(part: Mapping[str, Any], outputs: int) -> Component:
    kind = {v: k for k, v in _KINDS.items()}[part["kind"]]
    first, width = part["first"], part["width"]
    if not (isinstance(first, int) and isinstance(width, int) and 0 <= first < first + width <= outputs):
        raise ValueError(f"{part!r} uses outputs that the network does not have")
    low, high = (float(o if part[k] is None else part[k]) for k, o in (("low", -np.inf), ("high", np.inf)))
    if np.isnan([low, high]).any() or (kind == BOUNDED and not np.isfinite([low, high]).all()):
        raise ValueError(f"{part!r} has no bounds")
    return Component(kind, first, width, low, high)


def _bounds(action: Mapping[str, Any], outputs: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    try:
        low, high = (np.array(action[k], np.float64) for k in ("low", "high"))
        fits = low.shape == high.shape == (outputs,) and bool(np.isfinite([low, high]).all())
    except (KeyError, TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise NeolError(f"the network's interface must have {outputs} finite bounds low and high, one per output.")
    return tuple(low.tolist()), tuple(high.tolist())


def _read_normal(stored: Any, inputs: int) -> tuple[Normalization, float | None]:
    """Mean and std, and how many observations they are of."""
    if stored is None:
        return IDENTITY, None
    try:
        mean, std = (np.array(stored[k], np.float64) for k in ("mean", "std"))
        fits = mean.shape == std.shape == (inputs,) and bool(np.isfinite([mean, std]).all()) and bool((std > 0).all())
    except (KeyError, TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise NeolError(f"the network's normalization must have {inputs} finite numbers mean and std, std above 0.")
    if "count" not in stored:  # a file from before it was stored
        return Normalization(True, mean, std), None
    count = stored["count"]
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0.0 <= count < np.inf:
        raise NeolError(f"the network's normalization has count = {count!r}; it must be a number, 0 or more.")
    return Normalization(True, mean, std), float(count)
