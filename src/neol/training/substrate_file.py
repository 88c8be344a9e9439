"""HyperNEAT in a run's folder: substrate.json, what is painted on, and cppn.json, what painted the champion."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from neol.config.schema import Config, check_value
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json, task_interface
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.registry import find, parse_kwargs
from neol.envs.senses import with_senses
from neol.envs.tasks import PATTERN_TASKS, Task
from neol.errors import NeolError
from neol.files import write_atomic
from neol.neat.genome import Genomes, empty_genomes
from neol.network.phenotype import Phenotypes
from neol.substrate.decoder import LIMIT, decode
from neol.substrate.encoding import Hyperneat, encoding_of
from neol.substrate.layout import Substrate, read_substrate, substrate_of, to_text
from neol.training import run_folder

# As a network of its own, cppn.json answers as the decoder was answered.
_STATIC = PlasticityConfig(rule="none", lr=0.0, preactivation_limit=LIMIT, output_transform="none")


def kept_substrate(
    folder: Path, config: Config, task: Task, found: Substrate | None, resumed: bool
) -> Substrate | None:
    """What the run in `folder` paints on, if on anything: its own substrate.json, written where it is a new run."""
    if config.run.encoding == "direct":
        return None
    file = folder / run_folder.SUBSTRATE
    if resumed or file.exists():
        if not file.exists():
            raise NeolError(f"'{file}' is missing; a run with encoding = '{config.run.encoding}' needs it to go on.")
        return read_substrate(file, task)
    substrate = found or substrate_of(config, task)
    write_atomic(file, to_text(substrate, task))
    return substrate


def cppn_document(encoding: Hyperneat, genome: Genomes, task: Task) -> str:
    """cppn.json: a CPPN (P = 1) as a network file, coordinates in, paint out."""
    out = network_json.to_document(encoding.cppns(genome), genome, 0, recurrent=False)
    out["plasticity"] = network_json.plasticity_to_json(_STATIC)
    out["interface"] = {"inputs": list(encoding.input_names), "outputs": list(encoding.output_names)}
    out["metadata"] |= {"paints": task.name}
    return network_json.dump(out)


class Painted(NamedTuple):
    """A HyperNEAT run's champion with all that made it."""

    substrate: Substrate
    encoding: Hyperneat
    cppn: network_json.Network

    def network(self) -> Phenotypes:
        """What the CPPN paints (P = 1)."""
        return decode(self.cppn.phenotype, self.encoding.links, self.encoding.reading)


def read_painted(folder: Path, config: Config, resolution: int | None = None) -> Painted:
    """A run's CPPN, and what it paints on: the run's own substrate, or the task's at a resolution."""
    file = folder / run_folder.CPPN
    if config.run.encoding == "direct":
        raise NeolError(f"'{folder}' has no CPPN; it was trained with encoding = 'direct'.")
    arguments = parse_kwargs(config.rollout.env_kwargs)
    if resolution is not None:
        if config.run.task not in PATTERN_TASKS or config.substrate.substrate != "task":
            raise NeolError(
                f"--resolution is not allowed with task '{config.run.task}'; it must be {', '.join(PATTERN_TASKS)}, "
                "on a substrate by rule."
            )
        arguments["resolution"] = resolution
    task = find(config.run.task, check_value("env_kwargs", arguments))
    task = with_senses(task, config.rollout.senses, len(config.world.change))
    own = resolution is None
    substrate = read_substrate(folder / run_folder.SUBSTRATE, task) if own else substrate_of(config, task)
    encoding = encoding_of(config, task, substrate)
    cppn = network_json.parse(file)
    if not isinstance(encoding, Hyperneat) or (cppn.inputs, cppn.outputs) != (encoding.inputs, encoding.outputs):
        raise NeolError(
            f"'{file}' has {cppn.inputs} inputs and {cppn.outputs} outputs; its substrate needs {encoding.inputs} and "
            f"{encoding.outputs}."
        )
    return Painted(substrate, encoding, cppn)


def at_resolution(folder: Path, config: Config, resolution: int) -> PlasticNetwork:
    """The champion as its CPPN paints it for the task at another resolution, without further evolution.

    It lives like any network, but is too large to be written as a file.
    """
    if config.rollout.normalize_observations:
        raise NeolError("--resolution is not allowed with normalize_observations; statistics are of other inputs.")
    painted = read_painted(folder, config, resolution)
    arguments = {**parse_kwargs(config.rollout.env_kwargs), "resolution": resolution}
    task = find(config.run.task, check_value("env_kwargs", arguments))
    phenotype = painted.network()
    document = {
        "format_version": network_json.FORMAT_VERSION,
        "network_type": "feedforward",
        "metadata": {"generator": network_json.GENERATOR, "task": task.name, "max_steps": task.max_steps},
        "interface": task_interface.to_document(task),
    }
    network = network_json.Network(document, phenotype, empty_genomes(0, 1, 1), [])
    return PlasticNetwork(network, config.plasticity, trusted=True)  # the environment is one of our own
