"""`--from`: the champion that a run begins from, read from a run or a network file and kept in the run's start.json."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.config.schema import Config
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json, task_interface
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.files import write_atomic
from neol.neat.genes import POINTERS
from neol.neat.genome import Genomes
from neol.neat.pointers import strangers
from neol.network.normalization import Moments, Normalization, to_moments
from neol.training import run_folder

# Champions from before the count was stored count as so many observations, about what ten generations see: the mean
# and spread that the network knows hold at first, and what the run sees itself soon has a say.
USUAL_COUNT = 1e6


class Start(NamedTuple):
    """A checked champion."""

    name: str  # for messages
    text: str  # as start.json holds it
    genome: Genomes  # P = 1
    inputs: int
    outputs: int
    recurrent: bool
    normal: Normalization  # how it was deployed
    seen: Moments | None  # where it was trained on scaled observations: what they go on from

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that a run has to share with it, by name; they hold where the user names none."""
        return {"normalize_observations": self.normal.on} | ({"feed_forward": False} if self.recurrent else {})

    @property
    def digest(self) -> np.ndarray:
        """A fingerprint u1 (32,)."""
        return np.frombuffer(hashlib.sha256(self.text.encode()).digest(), np.uint8)


def read_start(source: str | Path) -> Start:
    """The champion of a run's folder, or of a network file; a NeolError where it cannot be gone on from."""
    path = Path(source)
    if path.is_dir() and not (path / run_folder.CHAMPION).is_file():
        raise NeolError(f"'{path}' has no {run_folder.CHAMPION} to start from; give a run's folder or a network file.")
    path = path / run_folder.CHAMPION if path.is_dir() else path
    network = network_json.parse(path)
    document, recurrent = network.document, network.document["network_type"] == "recurrent"
    if recurrent and document["metadata"].get("generator") != network_json.GENERATOR:
        raise NeolError(
            f"cannot start from '{path}': it is a recurrent network of another program, and those read all connections "
            "one step late; it must be feedforward, or NEOL's own."
        )
    interface = task_interface.read(document, network.inputs, network.outputs)
    normal = interface.normal
    count = USUAL_COUNT if interface.observations is None else interface.observations
    seen = to_moments(normal, count) if normal.on else None
    text = network_json.dump(document)
    return Start(f"'{path}'", text, _named(network), network.inputs, network.outputs, recurrent, normal, seen)


def _named(network: network_json.Network) -> Genomes:
    """The genome, its hidden nodes by the document's ids where those are NEOL's: outputs 0 .. O-1, hidden O and up."""
    g, outputs = network.genome, network.outputs
    ids = sorted(node["id"] for node in network.document["nodes"] if node["type"] != "input")
    if network.document["topology"]["output_keys"] != list(range(outputs)) or ids[0] < 0:
        return g
    own = np.array(ids, np.int32)
    source = np.where(g.source < 0, g.source, own[np.maximum(g.source, 0)])
    return g._replace(node_id=own[g.node_id], source=source.astype(np.int32), target=own[g.target])


def check_fits(start: Start, config: Config, task: Task) -> None:
    """A NeolError where a run cannot go on from the champion."""
    if (start.inputs, start.outputs) != (task.n_inputs, task.n_outputs):
        raise NeolError(
            f"cannot start from {start.name}: it has {start.inputs} inputs and {start.outputs} outputs, but task "
            f"'{task.name}' has {task.n_inputs} and {task.n_outputs}."
        )
    if start.recurrent and config.neat.feed_forward:
        raise NeolError(f"feed_forward = true is not allowed; the network of {start.name} is recurrent.")
    p = config.plasticity
    if p.rule != "none" and p.gate != "modulator" and start.genome.role.any():
        raise NeolError(
            f"gate = '{p.gate}' is not allowed; the network of {start.name} has modulatory nodes, so it must be "
            "modulator (or rule = none)."
        )
    if len(others := strangers(start.genome, config.evolution)):
        pointer = start.genome.pointer[0, others].max()
        raise NeolError(_learns_otherwise(p, start.name, POINTERS[pointer]))
    if config.rollout.normalize_observations != start.normal.on:
        on = str(config.rollout.normalize_observations).lower()
        what = "was" if start.normal.on else "was not"
        raise NeolError(
            f"normalize_observations = {on} is not allowed; the network of {start.name} {what} trained on scaled "
            "observations."
        )


def _learns_otherwise(p: PlasticityConfig, name: str, pointer: str) -> str:
    """What to say where a network's connections point to something that a run does not evolve."""
    of = {"own": "connection", "node": "node"}.get(pointer, "shared")
    if of == p.coefficients_of:
        return (
            f"shared_rules = {p.shared_rules} is not allowed; the network of {name} has connections to rule {pointer}."
        )
    must = of if of == "connection" else f"{of} or connection"
    return (
        f"coefficients_of = '{p.coefficients_of}' is not allowed; the connections of {name} learn by other numbers, so "
        f"it must be {must}."
    )


def kept_start(folder: Path, config: Config, task: Task, found: Start | None, resumed: bool) -> Start | None:
    """What the run in `folder` begins from, if from anything: its own start.json, written where it is a new run."""
    if not config.run.start:
        return None
    file = folder / run_folder.START
    if resumed or file.exists():
        if not file.exists():
            raise NeolError(f"'{file}' is missing; a run with start = '{config.run.start}' needs it to go on.")
        start = read_start(file)
    else:
        start = found or read_start(config.run.start)
        check_fits(start, config, task)
        write_atomic(file, start.text)
    check_fits(start, config, task)
    return start
