"""HyperNEAT's settings: those of CPPNs where the user says nothing, layers as text, what does not go together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from neol.errors import NeolError

if TYPE_CHECKING:
    from neol.config.schema import Config

# Of CPPNs, whatever the task: a mixture of functions that repeat, mirror and fade, and mutations that change it. What a
# life makes of a painted weight cannot be written back into the painter: inheritance is Darwinian.
HYPERNEAT: Mapping[str, Any] = MappingProxyType({
    "inheritance": "darwinian",
    "activation_default": "random", "activation_options": ("tanh", "gauss", "sin", "abs", "identity"),
    "activation_mutate_rate": 0.05,
    "weight_init_stdev": 0.5, "weight_mutate_rate": 0.8, "weight_mutate_power": 0.3, "weight_replace_rate": 0.05,
    "bias_init_stdev": 0.3, "bias_mutate_rate": 0.5, "bias_mutate_power": 0.2, "bias_replace_rate": 0.02,
    "weight_min_value": -5.0, "weight_max_value": 5.0,
    "conn_add_prob": 0.2, "conn_delete_prob": 0.1, "node_add_prob": 0.1, "node_delete_prob": 0.05,
    "compatibility_threshold": 2.0,
})  # fmt: skip
WIDEST_GRID = 100


def hidden_grids(text: str) -> tuple[tuple[int, int], ...]:
    """5x5,3x3 -> ((5, 5), (3, 3)); none -> (); anything else is a NeolError."""
    if text in ("none", ""):
        return ()
    sides = [part.split("x") for part in text.split(",")]
    grids = tuple((int(s[0]), int(s[1])) for s in sides if len(s) == 2 and all(n.isascii() and n.isdigit() for n in s))
    if len(grids) < len(sides) or not all(1 <= n <= WIDEST_GRID for grid in grids for n in grid):
        raise NeolError(
            f"substrate_hidden = '{text}' is not allowed; it must be none, or hidden layers as WIDTHxHEIGHT of 1 to "
            f"{WIDEST_GRID} such as 5x5,3x3."
        )
    return grids


def check_encoding(config: Config) -> None:
    """A NeolError where a setting has no meaning for CPPNs."""
    if config.run.encoding == "direct":
        return
    p = config.plasticity
    if p.inheritance == "lamarckian" and p.rule != "none":
        raise NeolError(
            "inheritance = 'lamarckian' is not allowed with encoding = 'hyperneat': what a life makes of painted "
            "weights cannot be written back into a CPPN; it must be darwinian."
        )
    if p.gate == "modulator" and p.rule != "none":
        raise NeolError(
            "gate = 'modulator' is not allowed with encoding = 'hyperneat': a substrate has no modulatory nodes; it "
            "must be reward, advantage or none."
        )
    if p.coefficients_of != "connection" and p.rule != "none":
        raise NeolError(
            f"coefficients_of = '{p.coefficients_of}' is not allowed with encoding = 'hyperneat': a CPPN paints "
            "connections; it must be connection."
        )
    if not config.neat.feed_forward:
        raise NeolError(
            "feed_forward = false is not allowed with encoding = 'hyperneat': a CPPN has no time to go back in."
        )
    if config.run.start:
        raise NeolError(
            f"start = '{config.run.start}' is not allowed with encoding = 'hyperneat': a network is no CPPN that could "
            "have painted it; leave --from out, or the encoding direct."
        )
