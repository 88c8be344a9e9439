"""The table of genes: each is declared once, and everything that handles genes follows from its entry.

Copying, crossover, mutation, distance, checkpoints, network files and phenotypes are made from `GENES`. A new gene is
one entry there, and whoever reads it in a kernel (`genomes.NAME`, `phenotypes.NAME`). Settings of `NeatConfig` that are
named by the gene (`weight_init_mean`, `bias_mutate_rate`, ...) come before the numbers of its entry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from neol import seeding
from neol.config.sections import ACTIVATIONS, AGGREGATIONS, MOST_RULES, NeatConfig
from neol.errors import NeolError, nearest

if TYPE_CHECKING:
    from typing import Self

GENOME, RULE, NODE, CONNECTION = "genome", "rule", "node", "connection"  # what a gene belongs to
# How a child with two parents comes by a value that both have: from either at random; from the fitter one;
# from either, but what is off in one of them is off with probability `disabled_inherit_prob`.
EITHER, FITTER, DISABLED = "either", "fitter", "disabled"


# -- kinds of values: what the kernels need to know (see gene_kernels.py), and how a value stands in a file


class _Real:
    """A finite number in a file."""

    dtype: ClassVar[str] = "f8"

    def to_json(self, value: Any) -> float:
        return float(value)

    def from_json(self, value: Any, key: str, where: str, file: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise NeolError(f"{file} has {key} of {where} = {value!r}; it must be a finite number.")
        return float(value)


class NumberSettings(NamedTuple):
    mean: float
    stdev: float
    low: float
    high: float
    uniform: bool
    rate: float  # probability of a Gaussian step
    power: float  # its standard deviation
    replace: float  # probability of a fresh value instead


@dataclass(frozen=True)
class Number(_Real):
    """A real number in [low, high]: drawn from a distribution; mutated by a Gaussian step or drawn again."""

    mean: float = 0.0
    stdev: float = 1.0
    low: float = -30.0
    high: float = 30.0
    uniform: bool = False  # mean +- 2 SD instead of a normal distribution
    mutate_rate: float = 0.5
    mutate_power: float = 0.3
    replace_rate: float = 0.02

    @property
    def usual(self) -> float:
        return self.mean

    def settings(self, name: str, config: NeatConfig) -> NumberSettings:
        def value(what: str, entry: float) -> float:
            return float(getattr(config, f"{name}_{what}", entry))

        rate, replace = value("mutate_rate", self.mutate_rate), value("replace_rate", self.replace_rate)
        mode = getattr(config, f"{name}_mutation", "config")  # WM_MODE
        if mode == "off":
            rate = replace = 0.0
        elif mode != "config":
            p, total = float(mode), rate + replace
            share = rate / total if total > 0.0 else 1.0
            rate, replace = p * share, p * (1.0 - share)
        return NumberSettings(
            value("init_mean", self.mean),
            value("init_stdev", self.stdev),
            value("min_value", self.low),
            value("max_value", self.high),
            bool(getattr(config, f"{name}_init_type", "uniform" if self.uniform else "gaussian") == "uniform"),
            rate,
            value("mutate_power", self.mutate_power),
            replace,
        )


class FactorSettings(NamedTuple):
    low: float
    high: float
    adaptation: float


@dataclass(frozen=True)
class Factor(_Real):
    """A factor that starts at 1; mutated by x <- x exp(adaptation N(0, 1)), kept in [low, high]; 0 = fixed."""

    low: float = 0.01
    high: float = 10.0
    adaptation: float = 0.0

    @property
    def usual(self) -> float:
        return 1.0

    def settings(self, name: str, config: NeatConfig) -> FactorSettings:
        return FactorSettings(self.low, self.high, float(getattr(config, f"{name}_adaptation", self.adaptation)))


class OptionSettings(NamedTuple):
    default: int  # id, -1 = drawn from the options
    options: np.ndarray  # i1
    rate: float


@dataclass(frozen=True)
class Option:
    """One of several names, stored as its place in `names`; mutated to one of the options at random."""

    names: tuple[str, ...]
    default: str = "random"  # a name, or random = drawn from the options
    options: tuple[str, ...] = ()  # empty = all
    mutate_rate: float = 0.0
    function: bool = False  # written as neat-python writes a function: {"name": ..., "custom": false}
    dtype: ClassVar[str] = "i1"

    @property
    def usual(self) -> int:
        return self.names.index((self.options or self.names)[0] if self.default == "random" else self.default)

    def settings(self, name: str, config: NeatConfig) -> OptionSettings:
        default = getattr(config, f"{name}_default", self.default)
        options = getattr(config, f"{name}_options", self.options or self.names)
        return OptionSettings(
            -1 if default == "random" else self.names.index(default),
            np.array([self.names.index(o) for o in options], np.int8),
            float(getattr(config, f"{name}_mutate_rate", self.mutate_rate)),
        )

    def to_json(self, value: Any) -> Any:
        return {"name": self.names[value], "custom": False} if self.function else self.names[value]

    def from_json(self, value: Any, key: str, where: str, file: str) -> int:
        chosen = value["name"] if self.function else value
        if isinstance(chosen, int) and not isinstance(chosen, bool):  # the number of a rule
            chosen = str(chosen)
        if chosen not in self.names:
            raise NeolError(f"{file} has {key} '{chosen}' at {where}; {nearest(chosen, self.names)}")
        return self.names.index(chosen)


class FlagSettings(NamedTuple):
    default: int  # 1, 0, -1 = random
    to_true: float  # probability of drawing a flag that is off anew
    to_false: float
    disabled: float  # see DISABLED


@dataclass(frozen=True)
class Flag:
    """True or false; mutated by drawing it anew."""

    default: str = "true"  # true, false or random
    mutate_rate: float = 0.01
    rate_to_true_add: float = 0.0
    rate_to_false_add: float = 0.0
    dtype: ClassVar[str] = "?"

    @property
    def usual(self) -> bool:
        return self.default == "true"

    def settings(self, name: str, config: NeatConfig) -> FlagSettings:
        def value(what: str) -> float:
            return float(getattr(config, f"{name}_{what}", getattr(self, what)))

        return FlagSettings(
            {"true": 1, "false": 0}.get(getattr(config, f"{name}_default", self.default), -1),
            value("mutate_rate") + value("rate_to_true_add"),
            value("mutate_rate") + value("rate_to_false_add"),
            config.disabled_inherit_prob,
        )

    def to_json(self, value: Any) -> bool:
        return bool(value)

    def from_json(self, value: Any, key: str, where: str, file: str) -> bool:
        if not isinstance(value, bool):
            raise NeolError(f"{file} has {key} = {value!r} at {where}; it must be true or false.")
        return value


# -- the table


@dataclass(frozen=True)
class Gene:
    """A column of `Genomes`."""

    name: str
    of: str  # GENOME, RULE (one of those that connections share), NODE or CONNECTION
    kind: Number | Factor | Option | Flag
    crossed: str = EITHER
    compared: float | None = None
    """Its coefficient in the distance, times the mean difference of matching genes (an option or flag that differs
    counts 1); `compatibility_NAME_coefficient` comes before it. None = it is no part of the distance."""
    carried: bool = True
    """Phenotypes have it too: a connection's along the edges, a node's along the nodes, a genome's one each."""
    json: str | None = ""
    """Its key in network files; empty = its name, None = it is not written."""
    absent: Any = None
    """What it is where a file, or a checkpoint from before, does not have it; None = what the kind calls usual."""
    required: bool = False
    """A network file must have it: format 1.0 says so."""
    searchable: float = 0.0
    """What an evolution strategy's step in it is multiplied by; 0 = it is not searched."""
    switch: str = ""
    """It takes part only where a configuration names this group of genes (`schema.Evolution.evolved`): elsewhere it has
    its default, and is neither mutated nor searched nor written. Empty = always."""
    own_stream: bool = True
    """It draws from a random stream that is named by the gene, so that adding it changes no other gene's values.
    The genes that share one draw from it in the order of this table, place by place."""

    def __post_init__(self) -> None:
        if self.of not in (GENOME, RULE, NODE, CONNECTION):
            raise ValueError(
                f"the gene {self.name} is of {self.of!r}; it must be of a genome, rule, node or connection."
            )
        if self.switch and (not self.own_stream or self.compared is not None):
            raise ValueError(f"the gene {self.name} has a switch: it needs a stream of its own, and is not compared.")
        if self.of == RULE and not self.looped:
            raise ValueError(f"the gene {self.name} is of a rule; it must be a number with a switch.")
        if self.of in (GENOME, RULE) and self.compared is not None:
            raise ValueError(f"the gene {self.name} cannot be compared: the distance is of nodes and connections.")

    @property
    def key(self) -> str:
        return self.json or self.name

    @property
    def default(self) -> Any:
        return self.kind.usual if self.absent is None else self.absent

    @property
    def looped(self) -> bool:
        """One of the many of one type that kernels loop over; the others have a step each (gene_kernels.py)."""
        return bool(self.switch) and self.of != GENOME and isinstance(self.kind, Number) and self.crossed == EITHER

    def on(self, config: NeatConfig) -> bool:
        """Whether it takes part."""
        if self.name in getattr(config, "idle", ()):
            return False
        return not self.switch or self.switch in getattr(config, "evolved", ())


ROLES = ("standard", "modulatory")
MODULATORY = ROLES.index("modulatory")
_COEFFICIENT = Number(stdev=0.5, low=-10.0, high=10.0, mutate_rate=0.3, mutate_power=0.2)  # of a plasticity rule
_ETA = Number(mean=0.5, stdev=0.25, low=0.0, high=1.0, uniform=True, mutate_rate=0.3, mutate_power=0.1)
# What a connection learns by: its own numbers, those of the node that it leads to, or those of a rule of its network.
POINTERS = ("own", "node", *(str(1 + k) for k in range(MOST_RULES)))
OWN, TARGET, FIRST_RULE = 0, 1, 2  # places there
COEFFICIENTS = ("rate", "correlation", "presynaptic", "postsynaptic", "constant", "eta1", "eta2")


def _coefficients(of: str, name: str = "", switch: str = "") -> tuple[Gene, ...]:
    """The numbers that connections learn by, as genes of `of`; before a gene's name stands `name`, before its switch
    `switch`. Phenotypes have them along their edges, whosever they are (phenotype.py)."""

    def gene(own: str, group: str, kind: Number, json: str, absent: float | None = None) -> Gene:
        carried = of == CONNECTION
        return Gene(
            name + own, of, kind, carried=carried, json=json, absent=absent, searchable=1.0, switch=switch + group
        )

    return (
        # A factor on the plasticity rate.
        gene("rate", "rate", _COEFFICIENT, "rate", 1.0),
        # The rule abcd: A x y + B x + C y + D.
        gene("correlation", "abcd", _COEFFICIENT, "A", 1.0),
        gene("presynaptic", "abcd", _COEFFICIENT, "B"),
        gene("postsynaptic", "abcd", _COEFFICIENT, "C"),
        gene("constant", "abcd", _COEFFICIENT, "D"),
        # The rule adaptive: how fast a connection grows, and how fast it fades.
        gene("eta1", "adaptive", _ETA, "eta1", 1.0),
        gene("eta2", "adaptive", _ETA, "eta2", 1.0),
    )


GENES: tuple[Gene, ...] = (
    # A factor on all mutation powers: self-adaptation.
    Gene("step_size", GENOME, Factor(), crossed=FITTER, carried=False, json=None, own_stream=False),
    Gene("bias", NODE, Number(), required=True, searchable=1.0, own_stream=False),
    Gene("response", NODE, Number(mean=1.0), required=True, own_stream=False),
    Gene("activation", NODE, Option(ACTIVATIONS, function=True), required=True, own_stream=False),
    Gene("aggregation", NODE, Option(AGGREGATIONS, function=True), required=True, own_stream=False),
    Gene("weight", CONNECTION, Number(), compared=0.5, required=True, searchable=1.0, own_stream=False),
    Gene("enabled", CONNECTION, Flag(), crossed=DISABLED, carried=False, own_stream=False),
    *_coefficients(CONNECTION),
    # Part of the way to decay_to that weights go back at every update; a champion's file has it as weight_decay.
    Gene(
        "decay",
        GENOME,
        Number(stdev=0.05, low=0.0, high=1.0, mutate_rate=0.3, mutate_power=0.02),
        json=None,
        searchable=1.0,
        switch="decay",
    ),
    # A modulatory node sends no signal: it gates the plasticity of the connections into the nodes that it reaches.
    Gene("role", NODE, Option(ROLES, mutate_rate=0.02), switch="modulator"),
    # The same numbers where nodes have them, or rules that the connections of a network share; and who learns by which.
    *_coefficients(NODE, "node_", "node-"),
    *_coefficients(RULE, "rule_", "shared-"),
    Gene("pointer", CONNECTION, Option(POINTERS, mutate_rate=0.05), carried=False, json="rule", switch="pointer"),
)

# -- what follows from it


def genes_of(what: str) -> tuple[Gene, ...]:
    """The genes of GENOME, RULE, NODE or CONNECTION."""
    return tuple(g for g in GENES if g.of == what)


# The columns that are no genes: how many nodes and connections, and which. All i4.
STRUCTURE = {
    GENOME: ("n_nodes", "n_conns"),
    RULE: (),
    NODE: ("node_id",),
    CONNECTION: ("innovation", "source", "target"),
}


def columns_of(what: str) -> dict[str, str]:
    """Column -> dtype: the structure first, then the genes."""
    return {**dict.fromkeys(STRUCTURE[what], "i4"), **{g.name: g.kind.dtype for g in genes_of(what)}}


COLUMNS = {c: d for of in (GENOME, RULE, NODE, CONNECTION) for c, d in columns_of(of).items()}  # of Genomes, in order
GENE_ID = {g.name: i for i, g in enumerate(GENES)}
_OWN = [g.name for g in GENES if g.own_stream]
STREAM_OF = {g.name: 1 + _OWN.index(g.name) if g.own_stream else 0 for g in GENES}  # row of the streams; 0 is shared


class GeneSettings(NamedTuple):
    """How genes are drawn, mutated and crossed, as the kernels take it."""

    of: tuple[Any, ...]  # of each gene in the order of GENES; () of those that are looped over
    streams: np.ndarray  # i8 (own,) the names of the genes' own streams
    on: np.ndarray  # b1 of each gene: whether it takes part
    numbers: np.ndarray  # f8 (genes, 8) NumberSettings of those; 0 of the others
    any_looped: bool  # whether one of those takes part


def gene_settings(config: NeatConfig) -> GeneSettings:
    names = np.array([seeding.named(name) for name in _OWN], np.int64)
    on = np.array([g.on(config) for g in GENES])
    every = [(g, g.kind.settings(g.name, config)) for g in GENES]
    blank = (0.0,) * len(NumberSettings._fields)
    numbers = np.array([s if g.looped else blank for g, s in every], float)
    any_looped = any(g.looped and g.on(config) for g in GENES)
    return GeneSettings(tuple(() if g.looped else s for g, s in every), names, on, numbers, any_looped)


def compared_genes(what: str) -> tuple[Gene, ...]:
    """The genes of NODE or CONNECTION that are part of the distance."""
    return tuple(g for g in genes_of(what) if g.compared is not None)


def coefficients(config: NeatConfig) -> tuple[float, ...]:
    """What the distance multiplies their differences by: connections' genes first, then nodes'."""
    compared = (*compared_genes(CONNECTION), *compared_genes(NODE))
    found: list[Any] = [getattr(config, f"compatibility_{g.name}_coefficient", g.compared) for g in compared]
    return tuple(map(float, found))


def gene_to_json(genes: Sequence[Gene], value: Mapping[str, Any]) -> dict[str, Any]:
    """These genes as they stand in a network file, functions first as neat-python has them. value: name -> value."""
    written = sorted((g for g in genes if g.json is not None), key=lambda g: not getattr(g.kind, "function", False))
    return {g.key: g.kind.to_json(value[g.name]) for g in written}


def gene_from_json(genes: Sequence[Gene], found: Mapping[str, Any], where: str, file: str) -> dict[str, Any]:
    """Name -> value of these genes; a fault is a NeolError that says where."""
    out = {}
    for g in genes:
        if g.json is not None and (g.required or g.key in found):
            out[g.name] = g.kind.from_json(found[g.key], g.key, where, file)
        else:
            out[g.name] = g.default
    return out


if TYPE_CHECKING:

    class NamedArrays(tuple[Any, ...]):
        """What a type checker is told of a named tuple whose fields follow from the table."""

        _fields: ClassVar[tuple[str, ...]]

        def __new__(cls, *arrays: Any, **named: Any) -> Self: ...
        def __getattr__(self, name: str) -> np.ndarray: ...
        def _replace(self, **named: Any) -> Self: ...
        def _asdict(self) -> dict[str, np.ndarray]: ...
