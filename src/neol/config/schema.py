"""Every setting of a run: the sections' dataclasses <-> TOML <-> flat names.

A section is a TOML table; field names are unique over all sections, so that the command line and
``neol.train(..., name=value)`` use them flat.
This module imports nothing heavy: ``neol --help`` needs it.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from neol.config import sections
from neol.config.changes import parse_changes
from neol.config.checks import (
    ASSOCIATIVE,
    check_learning,
    check_range,
    check_topology,
    check_weight_mutation,
    convert,
    trial_weights,
)
from neol.config.sections import (
    EsConfig,
    GradientConfig,
    HedgeConfig,
    NeatConfig,
    PlasticityConfig,
    RolloutConfig,
    RunConfig,
    SubstrateConfig,
    WorldConfig,
)
from neol.config.substrates import check_encoding, hidden_grids
from neol.errors import NeolError, closest, nearest


@dataclass(frozen=True)
class Evolution(NeatConfig):
    """NEAT's settings, and the groups of plasticity's genes that evolve (`Gene.switch`)."""

    evolved: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()  # genes that nothing reads
    rules: int = 0  # that connections share (K)
    pointer_options: tuple[str, ...] = ("own",)  # what a connection may point to (`genes.POINTERS`)


# Of neol.train, beside the settings.
ARGUMENTS = (
    "out", "resume", "overwrite", "config", "preset", "neat_config", "progress", "callback", "observers", "trust",
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    """A whole run. `Config.replace(name=value)` takes flat names and checks them."""

    run: RunConfig = field(default_factory=RunConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    world: WorldConfig = field(default_factory=WorldConfig)
    plasticity: PlasticityConfig = field(default_factory=PlasticityConfig)
    neat: NeatConfig = field(default_factory=NeatConfig)
    es: EsConfig = field(default_factory=EsConfig)
    hedge: HedgeConfig = field(default_factory=HedgeConfig)
    substrate: SubstrateConfig = field(default_factory=SubstrateConfig)
    gradient: GradientConfig = field(default_factory=GradientConfig)

    def replace(self, **flat: Any) -> Config:
        """This configuration with the named fields changed; a bad name or value is a NeolError."""
        changes: dict[str, dict[str, Any]] = {}
        for name, value in flat.items():
            section = section_of(name)
            changes.setdefault(section, {})[name] = check_value(name, value)
        changed = {s: dataclasses.replace(getattr(self, s), **c) for s, c in changes.items()}
        config = dataclasses.replace(self, **changed)
        check_together(config)
        return config

    @property
    def evolution(self) -> Evolution:
        """What genes are made, mutated and compared by: [neat], with the genes that [plasticity] switches on."""
        p = self.plasticity
        acts = p.rule != "none" and p.lr > 0.0
        of = "" if p.coefficients_of == "connection" else f"{p.coefficients_of}-"
        groups = {
            f"{of}rate": p.evolve_rate, f"{of}abcd": p.rule == "abcd", f"{of}adaptive": p.rule == "adaptive",
            "modulator": p.gate == "modulator", "decay": p.evolve_decay, "pointer": bool(of),
        }  # fmt: skip
        idle = ("weight",) if p.birth == "drawn" and p.gate != "modulator" else ()
        rules = p.shared_rules if p.coefficients_of == "shared" else 0
        options = {"connection": ("own",), "node": ("node",), "shared": tuple(str(1 + k) for k in range(rules))}
        return Evolution(
            **vars(self.neat), evolved=tuple(g for g, on in groups.items() if on and acts), idle=idle, rules=rules,
            pointer_options=options[p.coefficients_of],
        )  # fmt: skip

    def flat(self) -> dict[str, Any]:
        """All fields by their flat names, in order of declaration."""
        return {name: getattr(getattr(self, section), name) for name, section in fields().items()}

    def to_toml(self) -> str:
        """The complete configuration; `from_toml` gives it back."""
        return to_toml({s.name: vars(getattr(self, s.name)) for s in dataclasses.fields(self)})

    @staticmethod
    def from_toml(text: str, source: str = "config") -> Config:
        """Parse a complete or partial configuration over the defaults."""
        return Config().replace(**parse_toml(text, source))


@cache
def fields() -> dict[str, str]:
    """Flat field name -> section name, for all sections."""
    factories = {f.name: f.default_factory for f in dataclasses.fields(Config)}
    return {f.name: s for s, factory in factories.items() for f in dataclasses.fields(factory)}  # type: ignore[arg-type]


@cache
def _specs() -> dict[str, tuple[Any, dataclasses.Field[Any]]]:
    """Flat field name -> (type, dataclass field)."""
    out: dict[str, tuple[Any, dataclasses.Field[Any]]] = {}
    for section in dataclasses.fields(Config):
        cls: Any = section.default_factory
        hints = get_type_hints(cls)
        out.update({f.name: (hints[f.name], f) for f in dataclasses.fields(cls)})
    return out


def field_type(name: str) -> Any:
    """The Python type of a field."""
    return _specs()[name][0]


def field_choices(name: str) -> tuple[str, ...]:
    """The values that a field may take, or () where it is not a choice."""
    return _specs()[name][1].metadata.get("choices", ())


def is_basic(name: str) -> bool:
    """Whether a field is one of those that `neol train --help` shows."""
    return bool(_specs()[name][1].metadata.get("basic", False))


@cache
def field_help() -> dict[str, str]:
    """Flat field name -> the docstring under it."""
    tree = ast.parse(Path(sections.__file__).read_text(encoding="utf-8"))
    helps: dict[str, str] = {}
    for cls in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        for declared, doc in zip(cls.body, cls.body[1:], strict=False):
            if isinstance(declared, ast.AnnAssign) and isinstance(doc, ast.Expr):
                helps[declared.target.id] = doc.value.value  # type: ignore[union-attr,attr-defined]
    return helps


def section_of(name: str) -> str:
    """The section that a flat name belongs to."""
    if name not in fields():
        raise NeolError(f"unknown setting '{name}'; {nearest(name, [*fields(), *ARGUMENTS])}")
    return fields()[name]


def check_value(name: str, value: Any) -> Any:
    """The value in the field's own type, or a NeolError that says what is allowed."""
    kind, spec = _specs()[name]
    value = convert(name, value, kind)
    choices = spec.metadata.get("choices")
    for item in value if isinstance(value, tuple) else (value,):
        if choices and item not in choices and not item.startswith(spec.metadata.get("or_prefix", item + " ")):
            raise NeolError(f"{name} = '{item}' is not allowed; {nearest(item, choices)}")
    if "low" in spec.metadata:
        check_range(name, value, *(spec.metadata[bound] for bound in ("low", "high", "open_low")))
    elif kind is float and math.isnan(value):
        raise NeolError(f"{name} = nan is not allowed; it must be a number.")
    if name == "weight_mutation":
        check_weight_mutation(value)
    if name == "topology":
        check_topology(value)
    if name == "substrate_hidden":
        hidden_grids(value)
    return value


def check_together(config: Config) -> None:
    """Rules that involve two fields."""
    n, r = config.neat, config.rollout
    if r.executor == "local" and r.workers > 1024:
        raise NeolError(f"workers = {r.workers} is not allowed; on one machine it must be at most 1,024.")
    if r.most_episodes and not 2 <= r.episodes <= r.most_episodes:
        raise NeolError(
            f"most_episodes = {r.most_episodes} is not allowed with episodes = {r.episodes}; it must be 0, or at least "
            "episodes, and these at least 2: one episode does not say how sure it is."
        )
    trial_weights(r.trial_weights, r.trials)
    parse_changes(config.world.change)
    parse_changes(config.world.test_change)
    if config.run.novelty > 0.0 and not r.normalize_observations:
        raise NeolError(
            f"novelty = {config.run.novelty} is not allowed; behaviours are told apart by what was seen, which needs "
            "normalize_observations = true."
        )
    least = max(n.min_species_size, n.elitism)
    if n.pop_size < 2 * least:
        raise NeolError(
            f"pop_size = {n.pop_size} is not allowed; with elitism = {n.elitism} and min_species_size = "
            f"{n.min_species_size} two species need at least {2 * least} genomes."
        )
    if n.target_species * least > n.pop_size:
        raise NeolError(
            f"target_species = {n.target_species} is not allowed; with elitism = {n.elitism} and min_species_size = "
            f"{n.min_species_size} a population of {n.pop_size} has room for {n.pop_size // least}."
        )
    if config.es.es_population == 1:
        raise NeolError("es_population = 1 is not allowed; it must be 0 or at least 2: samples are compared.")
    if config.es.topology == "start" and not config.run.start:
        raise NeolError("topology = 'start' is not allowed; it needs a champion to start from (--from).")
    check_learning(config.plasticity)
    check_encoding(config)
    if config.es.topology == ASSOCIATIVE and config.run.outer != "gradient":
        raise NeolError(f"topology = '{ASSOCIATIVE}' is not allowed with outer = '{config.run.outer}'; use gradient.")
    low, high = config.hedge.return_low, config.hedge.return_high
    if low > high:
        raise NeolError(f"return_low = {low} is not allowed; it must be at most return_high = {high}.")
    for gene in ("weight", "bias", "response"):
        low, high = getattr(n, f"{gene}_min_value"), getattr(n, f"{gene}_max_value")
        if low > high:
            raise NeolError(f"{gene}_min_value = {low} is not allowed; it must be at most {gene}_max_value = {high}.")
        if math.isinf(low) and low == high:
            raise NeolError(
                f"{gene}_min_value = {gene}_max_value = {low} is not allowed; a finite number must lie between."
            )
    for gene in ("activation", "aggregation"):
        default, options = getattr(n, f"{gene}_default"), getattr(n, f"{gene}_options")
        if default != "random" and default not in options and getattr(n, f"{gene}_mutate_rate") > 0:
            raise NeolError(f"{gene}_default = '{default}' is not allowed; {gene}_options has {', '.join(options)}.")


# Fields that stood in another section once: files of then are still read.
_MOVED = {"pool": "run", "return_low": "run", "return_high": "run"}


def parse_toml(text: str, source: str = "config") -> dict[str, Any]:
    """Flat names and values of a TOML configuration; unknown tables or keys are errors."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise NeolError(f"{source} is not valid TOML: {e}.") from None
    flat: dict[str, Any] = {}
    known_tables = [f.name for f in dataclasses.fields(Config)]
    for section, table in tables.items():
        if section not in known_tables or not isinstance(table, Mapping):
            raise NeolError(f"{source} has an unknown table '{section}'; {nearest(section, known_tables)}")
        known = [n for n, s in fields().items() if s == section]
        for name, value in table.items():
            if name not in known and _MOVED.get(name) != section:
                raise NeolError(f"{source} has an unknown key '{name}' in [{section}]; {_key_hint(name, known)}")
            flat[name] = value
    return flat


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of plain values as TOML."""
    parts = [
        "\n".join([f"[{name}]", *(f"{k} = {_toml(v)}" for k, v in table.items())]) for name, table in tables.items()
    ]
    return "\n\n".join(parts) + "\n"


def _key_hint(name: str, known: list[str]) -> str:
    """Which key of this table (it has the known ones) or of another was meant."""
    meant, note = closest(name, fields())
    if not meant or meant in known:
        return nearest(name, known)
    what = "it" if meant == name else f"{note}did you mean '{meant}'? That"
    return f"{what} belongs into [{fields()[meant]}]."


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return repr(value)
