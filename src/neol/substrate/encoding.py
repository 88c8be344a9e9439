"""What a genome is: the network itself, or a CPPN that paints one. Outer loops need not know."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

import numpy as np

from neol.config.schema import Config
from neol.config.sections import PlasticityConfig
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.neat.genes import CONNECTION, GENES
from neol.neat.genome import Genomes
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.substrate.decoder import BIAS, LEO, WEIGHT, Reading, as_genome, decode
from neol.substrate.layout import Links, Substrate, links_of

AXES = ("x1", "y1", "z1", "x2", "y2", "z2", "x1-x2", "y1-y2", "z1-z2")  # what a CPPN may see
SHOWN = {"correlation": "A", "presynaptic": "B", "postsynaptic": "C", "constant": "D"}


class Encoding(Protocol):
    """From genomes to networks."""

    @property
    def inputs(self) -> int:
        """Inputs of a genome."""

    @property
    def outputs(self) -> int:
        """Outputs of a genome."""

    def compile(self, genomes: Genomes) -> Phenotypes:
        """The networks that live."""

    def network(self, genome: Genomes) -> Genomes:
        """The network of one genome (P = 1) as a genome that can be written to a file."""


class Direct(NamedTuple):
    """A genome is its network."""

    inputs: int
    outputs: int

    def compile(self, genomes: Genomes) -> Phenotypes:
        return compile_phenotypes(genomes, self.inputs, self.outputs)

    def network(self, genome: Genomes) -> Genomes:
        return genome


class Hyperneat(NamedTuple):
    """A genome is a CPPN, and its network what that paints onto a substrate (Stanley, D'Ambrosio and Gauci 2009)."""

    links: Links
    reading: Reading

    @property
    def inputs(self) -> int:
        return len(self.reading.ends)

    @property
    def outputs(self) -> int:
        return len(self.reading.outputs)

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(AXES[i] for i in self.reading.ends)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(SHOWN.get(name, name) for name in self.reading.outputs)

    def cppns(self, genomes: Genomes) -> Phenotypes:
        """The CPPNs themselves."""
        return compile_phenotypes(genomes, self.inputs, self.outputs)

    def compile(self, genomes: Genomes) -> Phenotypes:
        return decode(self.cppns(genomes), self.links, self.reading)

    def network(self, genome: Genomes) -> Genomes:
        return as_genome(self.compile(genome))


def encoding_of(config: Config, task: Task, substrate: Substrate | None) -> Direct | Hyperneat:
    """The encoding of a run; `substrate` where it is HyperNEAT's."""
    if config.run.encoding == "direct" or substrate is None:
        return Direct(task.n_inputs, task.n_outputs)
    links, own = links_of(substrate), config.substrate
    reading = Reading(
        _ends(links, own.substrate_deltas, own.substrate_bias), _outputs(config), own.expression_threshold,
        own.substrate_weight, own.substrate_coefficient, own.substrate_activation,
    )  # fmt: skip
    return Hyperneat(links, reading)


def _outputs(config: Config) -> tuple[str, ...]:
    """What a CPPN answers: beside weights what evolves of a connection's plasticity (Risi and Stanley 2010)."""
    own, evolved = config.substrate, config.evolution.evolved
    genes = [g for g in GENES if g.switch in evolved]
    other = [g for g in genes if g.of != CONNECTION]
    if other:
        raise NeolError(
            f"the gene '{other[0].name}' of a {other[0].of} is not allowed with encoding = 'hyperneat': a CPPN paints "
            "connections, so what evolves must be a connection's own rate or rule."
        )
    return (
        WEIGHT, *([LEO] * (own.expression == "leo")), *([BIAS] * own.substrate_bias), *(g.name for g in genes)
    )  # fmt: skip


def _ends(links: Links, deltas: bool, biases: bool) -> np.ndarray:
    """The coordinates that tell connections apart: those that are not the same for all of them; x1 at least."""
    nodes = np.arange(links.inputs, len(links.position) - 1) if biases else np.empty(0, np.int64)
    origin = np.full(len(nodes), len(links.position) - 1)
    sides = [np.unique(np.concatenate([*pair])) for pair in ((links.source, nodes), (links.target, origin))]
    varies = [bool(np.ptp(links.position[side, axis]) > 0.0) for side in sides for axis in range(3)]
    both = [deltas and varies[axis] and varies[3 + axis] for axis in range(3)]
    found = [i for i, used in enumerate([*varies, *both]) if used]
    return np.array(found or [0], np.int32)


def cppn_config(config: Config) -> Config:
    """The settings as an outer loop over CPPNs takes them: these do not learn."""
    return dataclasses.replace(config, plasticity=PlasticityConfig(rule="none"))
