"""neat-python 2.0 configuration files (INI) -> flat setting names.

Every key of neat-python is honoured, accepted where it cannot matter here, or refused by a sentence; none is dropped.
Keys that we share keep their names, so a key's type is its field's in config.py; the tables say only what differs.
"""

from __future__ import annotations

import configparser
import math
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from neol.config.schema import Config, field_type, fields
from neol.errors import NeolError, nearest


def _attribute(gene: str, **items: str | None) -> dict[str, str | None]:
    """A gene attribute's keys, with neat-python's default for each (None: the file must have it)."""
    return {f"{gene}_{item}": default for item, default in items.items()}


def _number(gene: str) -> dict[str, str | None]:
    """The keys of a float attribute."""
    required = ("init_mean", "init_stdev", "replace_rate", "mutate_rate", "mutate_power", "max_value", "min_value")
    return {**_attribute(gene, **dict.fromkeys(required)), f"{gene}_init_type": "gaussian"}


# Section -> key -> neat-python's default as text; None: required; "": may be absent, and then our own default stands.
# Options default to none there, which makes no genome: required. single_structural_mutation defaults to the text
# 'false', which neat-python 2.0 then takes for true (it is not empty): we take the false that it declares.
SECTIONS: Mapping[str, Mapping[str, str | None]] = {
    "NEAT": {
        "pop_size": None, "fitness_criterion": None, "fitness_threshold": None, "reset_on_extinction": None,
        "no_fitness_termination": "False", "seed": "",
    },
    "DefaultGenome": {
        "num_inputs": None, "num_outputs": None, "num_hidden": None, "feed_forward": None,
        "compatibility_disjoint_coefficient": None, "compatibility_weight_coefficient": None,
        "conn_add_prob": None, "conn_delete_prob": None, "node_add_prob": None, "node_delete_prob": None,
        "single_structural_mutation": "false", "structural_mutation_surer": "default",
        "initial_connection": "unconnected",
        **_number("bias"), **_number("response"), **_number("weight"),
        **_attribute("activation", default="random", options=None, mutate_rate=None),
        **_attribute("aggregation", default="random", options=None, mutate_rate=None),
        **_attribute("enabled", default=None, mutate_rate=None, rate_to_true_add="0.0", rate_to_false_add="0.0"),
        **_attribute("time_constant", init_mean="1.0", init_stdev="0.0", init_type="gaussian", replace_rate="0.0",
                     mutate_rate="0.0", mutate_power="0.0", max_value="10.0", min_value="0.01"),
    },
    "DefaultSpeciesSet": {"compatibility_threshold": None},
    "DefaultStagnation": {"species_fitness_func": "mean", "max_stagnation": "15", "species_elitism": "0"},
    "DefaultReproduction": {"elitism": "0", "survival_threshold": "0.2", "min_species_size": "1"},
}  # fmt: skip

# What neat-python does without a key for it.
_FIXED: Mapping[str, Any] = {
    "crossover_prob": 1.0, "disabled_inherit_prob": 0.75, "sharing": "normalized", "compatibility_normalizer": "larger",
    "target_species": 0, "selection": "truncation",
}  # fmt: skip

_BOOLEANS: Mapping[str, bool] = configparser.ConfigParser.BOOLEAN_STATES
_BOOLEAN_WORDS = {word: str(value).lower() for word, value in _BOOLEANS.items()}
_DRAWN = {"none": "random", "random": "random"}
_INIT_TYPE = {"gauss": "gaussian", "gaussian": "gaussian", "normal": "gaussian", "uniform": "uniform"}
# Key -> neat-python's other words for our values, in lower case.
_ALIASES: Mapping[str, Mapping[str, str]] = {
    "enabled_default": {**_BOOLEAN_WORDS, **_DRAWN},
    "structural_mutation_surer": {**_BOOLEAN_WORDS, "default": "default"},
    "activation_default": _DRAWN,
    "aggregation_default": _DRAWN,
    **{f"{gene}_init_type": _INIT_TYPE for gene in ("weight", "bias", "response")},
}
_CONNECTIONS = {"full": "full_nodirect", "partial": "partial_nodirect", "fs_neat": "fs_neat_nohidden"}


def load_neat_config(path: str | Path, *, inputs: int | None = None, outputs: int | None = None) -> dict[str, Any]:
    """The settings of a neat-python file; `inputs` and `outputs` are the task's, to check the file's against."""
    texts = _read(path)
    try:
        _check_size("num_inputs", texts, inputs)
        _check_size("num_outputs", texts, outputs)
        _check_time_constant(texts)
        shared = [key for key in texts if key in fields() and key != "initial_connection"]
        flat = {key: _value(key, texts[key], field_type(key)) for key in shared}
        flat |= {"fitness_target": _fitness_target(texts), **_initial_connection(texts["initial_connection"]), **_FIXED}
        Config().replace(**flat)
        for gene in ("activation", "aggregation"):
            default, options = flat[f"{gene}_default"], flat[f"{gene}_options"]
            if default not in ("random", *options):
                raise _refusal(f"{gene}_default", default, f"{gene}_options has {', '.join(options)}")
    except NeolError as e:  # its first word is the key
        key = str(e).split(" ", 1)[0]
        section = next(s for s, keys in SECTIONS.items() if key in keys)
        raise NeolError(f"{path} [{section}]: {e}") from None
    return flat


def _refusal(key: str, value: Any, allowed: str) -> NeolError:
    return NeolError(f"{key} = {value!r} is not allowed; {allowed}.")


def _read(path: str | Path) -> dict[str, str]:
    """Key -> text, with neat-python's defaults; keys are unique over the sections."""
    parser = configparser.RawConfigParser(default_section="")  # raw: no interpolation; and [DEFAULT] is not special
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file, source="the file")
    except (OSError, ValueError, configparser.Error) as e:
        reason = "not UTF-8 text" if isinstance(e, UnicodeError) else getattr(e, "strerror", None) or str(e)
        raise NeolError(f"cannot read '{path}': {shorten(reason, 300)}.") from None
    for section in parser.sections():
        if section not in SECTIONS:
            raise NeolError(f"{path} has an unknown section [{section}]; {nearest(section, SECTIONS)}")
    texts: dict[str, str] = {}
    for section, keys in SECTIONS.items():
        if not parser.has_section(section):
            raise NeolError(f"{path} has no section [{section}], which neat-python requires.")
        for key, text in parser.items(section):
            if key not in keys:
                raise NeolError(f"{path} has an unknown key '{key}' in [{section}]; {nearest(key, keys)}")
            texts[key] = " ".join(text.split())
        for key, default in keys.items():
            if default is None and key not in texts:
                raise NeolError(f"{path} has no '{key}' in [{section}], which is required.")
            if default:
                texts.setdefault(key, default)
    return texts


def _value(key: str, text: str, kind: Any) -> Any:
    """A text in the type asked for; what Config checks (ranges, choices) is left to it."""
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if kind is int:
            if abs(int(text)) >= 2**63:
                raise ValueError
            return int(text)
        if kind is float:
            if math.isnan(float(text)):
                raise ValueError
            return float(text)
    except (KeyError, ValueError):
        names = {bool: "true or false", int: "a whole number", float: "a number"}
        raise _refusal(key, text, f"it must be {names[kind]}") from None
    if kind is str:
        return _ALIASES.get(key, {}).get(text.lower(), text)
    return tuple(text.split())


def _fitness_target(texts: Mapping[str, str]) -> float:
    """Ours is on the generation's best fitness, which is neat-python's fitness_criterion = max."""
    threshold: float = _value("fitness_threshold", texts["fitness_threshold"], float)
    if _value("no_fitness_termination", texts["no_fitness_termination"], bool):
        return math.inf
    if texts["fitness_criterion"] != "max":
        allowed = "it must be max, as runs stop on the best fitness, unless no_fitness_termination is true"
        raise _refusal("fitness_criterion", texts["fitness_criterion"], allowed)
    return threshold


def _initial_connection(text: str) -> dict[str, Any]:
    """`full` and its like mean what neat-python does with them; `partial* p` carries its fraction."""
    name, _, fraction = text.partition(" ")
    if not name.startswith("partial"):
        return {"initial_connection": _CONNECTIONS.get(text, text)}
    try:
        p = float(fraction)
    except ValueError:
        p = math.nan
    if not 0.0 <= p <= 1.0:
        raise _refusal("initial_connection", text, "partial connection needs a fraction from 0 to 1 after its name")
    return {"initial_connection": _CONNECTIONS.get(name, name), "connection_fraction": p}


def _check_size(key: str, texts: Mapping[str, str], has: int | None) -> None:
    size = _value(key, texts[key], int)
    if size < 1:
        raise _refusal(key, size, "it must be at least 1")
    if has is not None and size != has:
        raise _refusal(key, size, f"the task has {has} {key.removeprefix('num_')}")


def _check_time_constant(texts: Mapping[str, str]) -> None:
    """No network of ours has time constants; neat-python's speciation sees them, unless all are equal for ever."""
    own = {key.removeprefix("time_constant_"): key for key in texts if key.startswith("time_constant_")}
    kind = texts[own.pop("init_type")]
    if kind.lower() not in _INIT_TYPE:
        raise _refusal("time_constant_init_type", kind, "it must be gaussian or uniform")
    n = {item: _value(key, texts[key], float) for item, key in own.items()}
    why = "as only networks without time constants are run"
    if n["init_stdev"] != 0.0:
        raise _refusal("time_constant_init_stdev", n["init_stdev"], f"it must be 0, {why}")
    if n["mutate_rate"] != 0.0 and n["mutate_power"] != 0.0:
        raise _refusal(
            "time_constant_mutate_rate", n["mutate_rate"], f"it or time_constant_mutate_power must be 0, {why}"
        )
    if not n["min_value"] <= n["init_mean"] <= n["max_value"] or math.isinf(n["init_mean"]):
        limits = f"time_constant_min_value = {n['min_value']} and time_constant_max_value = {n['max_value']}"
        raise _refusal("time_constant_init_mean", n["init_mean"], f"it must lie between {limits}")
