"""PlasticNetwork: one network that can be deployed and goes on learning, on the kernels that trained it."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neol import netjson
from neol.config import PlasticityConfig, check_value
from neol.errors import NeolError, nearest
from neol.files import write_atomic
from neol.kernels import Slots, decode, finish, load, new_slots, step
from neol.plasticity import ALIASES, plasticity
from neol.tasks import ARGMAX, BOUNDED, ActionMap, Task, action_map

# A network file without a `plasticity` object is plain: static, its outputs as they are.
PLAIN = PlasticityConfig(rule="none", lr=0.0, preactivation_limit=math.inf, output_transform="none")
_KINDS = {ARGMAX: "argmax", BOUNDED: "bounded"}


class PlasticNetwork:
    """A controller: `reset`, then `activate` and `reward` at every step.

    Each life (after `reset`) starts from the network's own weights; `weights` are those of now.
    """

    def __init__(self, network: netjson.Network, settings: PlasticityConfig = PLAIN) -> None:
        self.network, self.settings = network, settings
        self._plastic = plasticity(settings)
        self.interface = _interface(network)
        self._actions = _action_map(self.interface.get("action"), network.outputs)
        self._slots = new_slots(network.phenotype, 1)
        self._outputs = np.zeros(network.outputs)
        self.reset()

    @classmethod
    def from_json(cls, source: str | os.PathLike[str] | Mapping[str, Any], **settings: Any) -> PlasticNetwork:
        """Read neat-python's network JSON, with our `plasticity` object or without; settings override the file's."""
        network = netjson.parse(source)
        stored = network.document.get("plasticity", {})
        if not isinstance(stored, Mapping):
            raise NeolError("the network's plasticity is not a JSON object.")
        return cls(network, _settings(PLAIN, {**stored, **settings}))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The network with its weights of now; written to `path` if given."""
        document = netjson.with_weights(self.network, self._weights())
        limits = {k: None if v == math.inf else v for k, v in dataclasses.asdict(self.settings).items()}
        document["plasticity"] = limits
        if path is not None:
            write_atomic(Path(path), netjson.dump(document))
        return document

    def reset(self) -> None:
        """Begin a life: the network's own weights, no activity, no reward pending."""
        load(self.network.phenotype, self._slots, 0, 0)
        self._pending = 0.0

    def activate(self, observation: Any) -> np.ndarray:
        """The outputs f8 (O,) for an observation (I,)."""
        observed = self._observed(observation, (self.network.inputs,))
        step(self.network.phenotype, self._slots, 0, observed, self._pending, True, self._plastic, self._outputs)
        self._pending = 0.0
        return self._outputs.copy()

    def reward(self, r: float) -> None:
        """Tell the reward that the last action earned: it gates the plasticity (at once, or at the next step)."""
        if self._plastic.next_step:
            self._pending = float(r)
        else:
            finish(self.network.phenotype, self._slots, 0, float(r), self._plastic)

    def act(self, observation: Any) -> np.ndarray | int:
        """`activate`, as an action of the network's task."""
        return self._action(self.activate(observation))

    @property
    def weights(self) -> dict[tuple[int, int], float]:
        """The plastic weights of now, by (from id, to id)."""
        edges = zip(self.network.phenotype.gene, self._weights(), strict=True)
        return {self.network.pairs[gene]: float(w) for gene, w in edges}

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, Any]:
        """Stable-Baselines3's signature: (actions, state).

        One observation (I,) runs this network itself, so that `reward` teaches it. A batch (n, I) runs n copies held
        in `state`; they get no reward, so they do not learn. `episode_start` begins their lives anew.
        """
        inputs = self.network.inputs
        try:
            dimensions = np.ndim(observation)
        except ValueError:
            dimensions = 0
        if dimensions == 1:
            if episode_start is not None and np.any(episode_start):
                self.reset()
            return np.asarray(self.act(observation)), state
        observed = self._observed(observation, (len(observation) if dimensions else 1, inputs))
        slots: Slots = new_slots(self.network.phenotype, len(observed)) if state is None else state
        if len(slots.genome) != len(observed):
            raise NeolError(f"state of {len(slots.genome)} networks is not allowed; it must be of {len(observed)}.")
        starts = np.ones(len(observed), bool) if state is None else np.broadcast_to(episode_start, len(observed))
        actions = []
        for b, (row, start) in enumerate(zip(observed, starts, strict=True)):
            if start:
                load(self.network.phenotype, slots, b, 0)
            step(self.network.phenotype, slots, b, row, 0.0, True, self._plastic, self._outputs)
            actions.append(self._action(self._outputs))
        return np.array(actions), slots

    def _weights(self) -> np.ndarray:
        return self._slots.weight[0, : len(self.network.phenotype.weight)]

    def _observed(self, observation: Any, shape: tuple[int, ...]) -> np.ndarray:
        try:
            observed = np.ascontiguousarray(observation, np.float64)
        except (TypeError, ValueError):
            raise NeolError(
                f"observation {observation!r} is not allowed; it must be numbers of shape {shape}."
            ) from None
        if observed.shape != shape:
            raise NeolError(f"observation of shape {observed.shape} is not allowed; it must have shape {shape}.")
        return observed

    def _action(self, outputs: np.ndarray) -> np.ndarray | int:
        if self._actions is None:
            return outputs.astype(np.float32)
        action = np.zeros(len(self._actions.low))
        decode(outputs, self._actions, action)
        return int(action[0]) if self._actions.kind == ARGMAX else action.astype(np.float32)


def _settings(base: PlasticityConfig, changes: Mapping[str, Any]) -> PlasticityConfig:
    """A PlasticityConfig with some fields changed and checked; null limits mean infinity."""
    known = [f.name for f in dataclasses.fields(PlasticityConfig)]
    checked = {}
    for name, value in changes.items():
        if name not in known:
            raise NeolError(f"unknown plasticity setting '{name}'; {nearest(name, known)}")
        value = math.inf if value is None and name.endswith("_limit") else value
        value = ALIASES.get(value, value) if name == "rule" and isinstance(value, str) else value
        checked[name] = check_value(name, value)
    return dataclasses.replace(base, **checked)


def interface(task: Task) -> dict[str, Any]:
    """The `interface` object of a champion.json."""
    actions = action_map(task)
    action: dict[str, Any] = {"kind": _KINDS[task.kind]}
    if task.kind == BOUNDED:
        action |= {"low": actions.low.tolist(), "high": actions.high.tolist()}
    names = {"inputs": list(task.inputs), "outputs": list(task.actions)}
    return {"task": task.name, "env_id": task.id, **names, "action": action}


def _interface(network: netjson.Network) -> dict[str, Any]:
    """The checked `interface` object of a network file; {} where it has none."""
    found = network.document.get("interface", {})
    if not isinstance(found, Mapping):
        raise NeolError("the network's interface is not a JSON object.")
    for key in ("inputs", "outputs"):
        names = found.get(key, [])
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise NeolError(f"the network's interface has {key} = {names!r}; it must be a list of names.")
    return dict(found)


def _action_map(action: Any, outputs: int) -> ActionMap | None:
    if action is None:
        return None
    kinds = {v: k for k, v in _KINDS.items()}
    if not isinstance(action, Mapping) or action.get("kind") not in list(kinds):
        raise NeolError(f"the network's interface has action = {action!r}; its kind must be argmax or bounded.")
    if kinds[action["kind"]] == ARGMAX:
        return ActionMap(ARGMAX, np.zeros(1), np.zeros(1))
    try:
        low, high = (np.array(action[k], np.float64) for k in ("low", "high"))
        fits = low.shape == high.shape == (outputs,) and bool(np.isfinite([low, high]).all())
    except (KeyError, TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise NeolError(f"the network's interface must have {outputs} finite bounds low and high, one per output.")
    return ActionMap(BOUNDED, low, high)
