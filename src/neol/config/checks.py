"""One value against a field's type and range; what is not allowed is a NeolError that says what is."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from neol.config.sections import PlasticityConfig
from neol.errors import NeolError

CHANGES = ("change", "test_change")  # settings that are lists of changes of the world


def convert(name: str, value: Any, kind: Any) -> Any:
    """The value in the type `kind`."""
    if isinstance(value, int) and abs(value) > 2**64:  # Python may refuse to print it
        raise NeolError(f"{name} = a number of more than 64 bits is not allowed; it must be below 2^63.")
    try:
        if kind is bool:
            if isinstance(value, str) and value.lower() in ("true", "false"):
                return value.lower() == "true"
            if isinstance(value, bool):
                return value
            raise ValueError
        if kind is int:
            if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
                raise ValueError
            return int(value)
        if kind is float:
            if isinstance(value, bool):
                raise ValueError
            return float(value)
        if kind is str:
            value = os.fspath(value) if isinstance(value, os.PathLike) else value
            if name == "trial_weights" and isinstance(value, list | tuple):
                value = ",".join(str(float(v)) for v in value)
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise ValueError
            str(value).encode("utf-8")  # a UnicodeEncodeError is a ValueError: it could not be written to a file
            return str(value).strip()
        if name == "env_kwargs":
            return _pairs(value)
        if name in CHANGES:
            return _changes(value)
        items = value.replace(",", " ").split() if isinstance(value, str) else list(value)
        if name == "senses" and items in ([], ["none"]):
            return ()
        if not items or not all(isinstance(i, str) and i.encode("utf-8") for i in items):
            raise ValueError
        return tuple(items)
    except (ValueError, TypeError, OverflowError):
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        if name == "env_kwargs":
            raise NeolError(f"env_kwargs = {value!r} is not allowed; it must be key=value words.") from None
        if name in CHANGES:
            raise NeolError(f"{name} = {value!r} is not allowed; it must be a list of texts.") from None
        raise NeolError(
            f"{name} = {value!r} is not allowed; it must be {names.get(kind, 'a list of names')}."
        ) from None


def _changes(value: Any) -> tuple[str, ...]:
    """Changes of the world, one text each; the one word "none" is no change."""
    items = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(i, str) for i in items):
        raise ValueError
    items = [" ".join(i.split()) for i in items]
    return () if items in (["none"], [""]) else tuple(items)


def _pairs(value: Any) -> tuple[str, ...]:
    """Arguments of an environment as key=value words; a mapping becomes such."""
    if isinstance(value, Mapping):
        value = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in value.items()]
    items = [value] * (value != "") if isinstance(value, str) else list(value)
    if not all(
        isinstance(i, str) and i.encode("utf-8") and i.partition("=")[0].isidentifier() and "=" in i for i in items
    ):
        raise ValueError
    return tuple(items)


def check_range(name: str, value: float, low: float, high: float, open_low: bool) -> None:
    ok = (low < value if open_low else low <= value) and value <= high  # False for nan
    if ok:
        return
    above = f"{'above' if open_low else 'at least'} {low:,g}"
    shown = f"{high:,}" if isinstance(high, int) else f"{high:g}"
    allowed = above if math.isinf(high) else f"{above} and at most {shown}"
    raise NeolError(f"{name} = {value} is not allowed; it must be {allowed}.")


def check_weight_mutation(value: str) -> None:
    try:
        ok = value in ("config", "off") or 0.0 <= float(value) <= 1.0
    except ValueError:
        ok = False
    if not ok:
        raise NeolError(f"weight_mutation = '{value}' is not allowed; it must be config, off or a probability 0 to 1.")


def check_learning(p: PlasticityConfig) -> None:
    """A NeolError where settings of plasticity do not go together."""
    if p.coefficients_of != "connection" and not (p.rule in ("none", "abcd", "adaptive") or p.evolve_rate):
        raise NeolError(
            f"coefficients_of = '{p.coefficients_of}' is not allowed with rule = '{p.rule}', which has no numbers that "
            "evolve; it must be abcd or adaptive, or evolve_rate must be true."
        )
    if p.shared_rules != PlasticityConfig.shared_rules and p.coefficients_of != "shared":
        raise NeolError(
            f"shared_rules = {p.shared_rules} is not allowed with coefficients_of = '{p.coefficients_of}'; it must be "
            "shared."
        )
    check_weight_limit(p)


def check_weight_limit(p: PlasticityConfig) -> None:
    if p.rule == "adaptive" and math.isinf(p.weight_limit):
        raise NeolError("weight_limit = inf is not allowed with rule = 'adaptive', whose W it is; it must be finite.")


WIDEST_LAYER = 10_000
ASSOCIATIVE = "associative"  # a topology of outer = gradient


def hidden_sizes(topology: str) -> tuple[int, ...] | None:
    """16,16 -> (16, 16); None where it is no list of sizes."""
    parts = topology.split(",")
    sizes = tuple(int(part) for part in parts if part.isascii() and part.isdigit())
    return sizes if len(sizes) == len(parts) and all(1 <= size <= WIDEST_LAYER for size in sizes) else None


def check_topology(value: str) -> None:
    """A NeolError where `topology` names none."""
    if value not in ("full", "start", ASSOCIATIVE) and not value.endswith(".json") and hidden_sizes(value) is None:
        raise NeolError(
            f"topology = '{value}' is not allowed; it must be full, sizes of hidden layers from 1 to "
            f"{WIDEST_LAYER:,} such as 16,16, {ASSOCIATIVE}, or a network file (.json)."
        )


def trial_weights(value: str, trials: int) -> tuple[float, ...]:
    """How much each of K trials counts in its life, 1 in all, or a NeolError."""
    if value == "mean":
        return (1.0 / trials,) * trials
    if value == "last":
        return (0.0,) * (trials - 1) + (1.0,)
    try:
        numbers = tuple(float(word) for word in value.split(","))
        ok = len(numbers) == trials and all(0.0 <= x < math.inf for x in numbers) and 0.0 < sum(numbers) < math.inf
    except ValueError:
        ok = False
    if not ok:
        raise NeolError(
            f"trial_weights = '{value}' is not allowed; it must be mean, last, or a number of at least 0 for each "
            f"of the {trials} trials, not all of them 0."
        )
    return tuple(x / sum(numbers) for x in numbers)
