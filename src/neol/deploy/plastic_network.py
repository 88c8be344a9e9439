"""PlasticNetwork: one network that can be deployed and goes on learning, on the kernels that trained it."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neol import seeding
from neol.config.checks import check_weight_limit
from neol.config.schema import check_value
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json, task_interface
from neol.envs.senses import NO_SENSES, Senses
from neol.errors import NeolError, nearest
from neol.figures.network import draw_network
from neol.figures.style import inline_svg
from neol.files import write_atomic
from neol.network.normalization import Normalization, normalize
from neol.network.plasticity import ALIASES, plasticity
from neol.network.step import Slots, credit, draw_birth, load, new_slots, step

# A network file without a `plasticity` object is plain: static, its outputs as they are.
PLAIN = PlasticityConfig(rule="none", lr=0.0, preactivation_limit=math.inf, output_transform="none")


class PlasticNetwork:
    """A controller: `reset`, then `activate` and `reward` at every step.

    Each life (after `reset`) starts from the network's own weights; `weights` are those of now.
    """

    def __init__(
        self, network: network_json.Network, settings: PlasticityConfig = PLAIN, trusted: bool = False
    ) -> None:
        self.network, self.settings = network, settings
        check_weight_limit(settings)
        if settings.rule != "none" and settings.gate != "modulator" and network.phenotype.role.any():
            raise NeolError(
                f"gate = '{settings.gate}' is not allowed; the network has modulatory nodes, so it must be modulator "
                "(or rule = none)."
            )
        self.trusted = trusted  # whether the environment that its file names may be imported (envs/trust.py)
        self._plastic = plasticity(settings)
        self._interface = task_interface.read(network.document, network.inputs, network.outputs)
        self._slots = new_slots(network.phenotype, 1)
        self._outputs = np.zeros(network.outputs)
        self._inputs, self._sensed = np.zeros(network.inputs), np.zeros(network.inputs)
        self._births = 0
        self.reset()

    @classmethod
    def from_json(
        cls, source: str | os.PathLike[str] | Mapping[str, Any], trust: bool = False, **settings: Any
    ) -> PlasticNetwork:
        """Read neat-python's network JSON, with our `plasticity` object or without; settings override the file's.

        `trust`: an environment that the file names as `module:name` may be imported when it is evaluated or filmed.
        """
        network = network_json.parse(source)
        stored = network.document.get("plasticity", {})
        if not isinstance(stored, Mapping):
            raise NeolError("the network's plasticity is not a JSON object.")
        return cls(network, _settings(PLAIN, {**stored, **settings}), trust)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The network with its weights of now; written to `path` if given."""
        document = network_json.with_weights(self.network, self._weights())
        document["plasticity"] = network_json.plasticity_to_json(self.settings)
        if path is not None:
            write_atomic(Path(path), network_json.dump(document))
        return document

    def reset(self) -> None:
        """Begin a life: the network's own weights, no activity, no reward pending."""
        self._bear(self._slots, 0)
        self._pending = self._felt = self._felt_mean = 0.0  # rewards: not yet used, not yet sensed, their mean
        self._sensed[:] = 0.0
        self._alive = False

    def _bear(self, slots: Slots, b: int) -> None:
        """Slot b begins a life; weights that are drawn are others in every life, and the same in every process."""
        load(self.network.phenotype, slots, b, 0)
        if self._plastic.birth_spread > 0.0:
            name = seeding.stream(0, seeding.DEMO, self._births, 0, 0)[0]
            draw_birth(self.network.phenotype, slots, b, name, self._plastic.birth_spread)
            self._births += 1

    @property
    def interface(self) -> dict[str, Any]:
        """What inputs and outputs are called, the task, the action: champion.json's `interface`."""
        return self._interface.document

    @property
    def normal(self) -> Normalization:
        """How observations are scaled before the network sees them."""
        return self._interface.normal

    @property
    def senses(self) -> Senses:
        """Where its inputs are that are no observation: the last reward and action (envs/senses.py)."""
        return self._interface.senses

    def activate(self, observation: Any) -> np.ndarray:
        """The outputs f8 (O,) for an observation: of the task, or the inputs (I,) themselves.

        What else it senses it knows itself, but for changes of the world: nobody tells it of them here.
        """
        rows, single = self._interface.rows(observation, self._interface.observed)
        if not single:
            raise NeolError(
                f"observation of shape {np.shape(observation)} is not allowed; it must have shape {rows.shape[1:]}."
            )
        self._step(self._slots, 0, self._seen(rows[0]), self._pending)
        self._pending = self._felt = 0.0
        return self._outputs.copy()

    def _seen(self, observed: np.ndarray) -> np.ndarray:
        """The inputs f8 (I,): the observation and what is sensed beside it."""
        if self.senses == NO_SENSES:
            return observed
        at, row = self.senses, self._sensed
        above = self._felt - self._felt_mean if self._alive else 0.0
        self._felt_mean += self.settings.reward_mean_rate * above
        row[: len(observed)] = observed
        for place, value in ((at.reward, self._felt), (at.advantage, above)):
            if place >= 0:
                row[place] = value
        if at.action >= 0:
            row[at.action : at.action + self.network.outputs] = np.clip(self._outputs, -1.0, 1.0) * self._alive
        self._alive = True
        return row

    def reward(self, r: float) -> None:
        """Tell the reward that the last action earned: it gates the plasticity (at once, or at the next step)."""
        try:
            given = float(r)
        except (TypeError, ValueError):
            raise NeolError(f"reward = {r!r} is not allowed; it must be a number.") from None
        if not math.isfinite(given):
            warnings.warn("a reward is not finite: it counts as 0", RuntimeWarning, stacklevel=2)
            given = 0.0
        self._felt = given
        if self._plastic.next_step:
            self._pending = given
        else:
            credit(self.network.phenotype, self._slots, 0, given, self._plastic)

    def act(self, observation: Any) -> np.ndarray | int:
        """`activate`, as an action of the network's task."""
        return self._interface.action(self.activate(observation))

    def _step(self, slots: Slots, b: int, row: np.ndarray, reward: float) -> None:
        seen = row = _usable(row)
        if self.normal.on:
            seen = self._inputs
            normalize(self.normal, row, seen)
        step(self.network.phenotype, slots, b, seen, reward, True, self._plastic, self._outputs)

    def _repr_html_(self) -> str:
        """For notebooks: the network as it is now."""
        names = self.interface
        args = (names.get("inputs", ()), names.get("outputs", ()))
        return inline_svg(lambda path: draw_network(self.to_json(), path, *args))

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
        in `state`; they get no reward, so they do not learn. `episode_start` starts their lives again.
        """
        observed, single = self._interface.rows(observation, self._interface.observed)
        if single:
            if episode_start is not None and np.any(episode_start):
                self.reset()
            return np.asarray(self.act(observed[0])), state
        if self.senses != NO_SENSES:
            raise NeolError("a batch of observations is not allowed; the network senses its own rewards and actions.")
        blank = new_slots(self.network.phenotype, len(observed))
        slots: Slots = blank if state is None else state
        if not _like(slots, blank):  # kernels have no bounds checks
            raise NeolError(
                f"this state is not allowed; it must be what predict returned for {len(observed)} observations "
                "of this network."
            )
        starts = np.ones(len(observed), bool) if state is None else np.broadcast_to(episode_start, len(observed))
        actions = []
        for b, (row, start) in enumerate(zip(observed, starts, strict=True)):
            if start:
                self._bear(slots, b)
            self._step(slots, b, row, 0.0)
            actions.append(self._interface.action(self._outputs))
        return np.array(actions), slots

    def _weights(self) -> np.ndarray:
        return self._slots.weight[0, : len(self.network.phenotype.weight)]


LARGEST_INPUT = 1e30  # so that products of two activities stay finite


def _usable(row: np.ndarray) -> np.ndarray:
    """Observations f8 (I,) that a state may keep: what is not a number counts as 0, what is too large as the largest.

    An input of 0 teaches its connections nothing; NaN would stay in their traces and end all learning.
    """
    if np.isfinite(row).all() and np.abs(row).max(initial=0.0) <= LARGEST_INPUT:
        return row
    warnings.warn("an observation is not finite: such inputs count as 0", RuntimeWarning, stacklevel=4)
    return np.where(np.isfinite(row), np.clip(row, -LARGEST_INPUT, LARGEST_INPUT), 0.0)


def _like(slots: Any, blank: Slots) -> bool:
    """Whether a state is what `predict` returned: arrays like these, of the one genome."""
    if not isinstance(slots, Slots) or not all(isinstance(a, np.ndarray) for a in slots):
        return False
    same = all(
        (a.shape, a.dtype) == (b.shape, b.dtype) and a.flags.c_contiguous and a.flags.writeable
        for a, b in zip(slots, blank, strict=True)
    )
    return same and not slots.genome.any()


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
