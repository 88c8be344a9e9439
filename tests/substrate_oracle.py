"""HyperNEAT's decoder in plain Python: one connection at a time, by the papers' equations, on oracle.py's networks."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from oracle import Life, Net

Place = Sequence[float]
Pair = tuple[int, int]  # places among all layers' nodes, inputs first
CPPN = SimpleNamespace(rule="none", preactivation_limit=50.0, output_transform="none")


def answer(cppn: Net, axes: Sequence[str], a: Place, b: Place) -> list[float]:
    """What a CPPN paints from place a to place b, for inputs named x1, y1, z1, x2 ... x1-x2 ..."""
    seen = {f"{axis}1": a[i] for i, axis in enumerate("xyz")} | {f"{axis}2": b[i] for i, axis in enumerate("xyz")}
    seen |= {f"{axis}1-{axis}2": a[i] - b[i] for i, axis in enumerate("xyz")}
    life = Life(cppn, CPPN)
    life.forward([seen[name] for name in axes])
    return [life.y[o] for o in cppn.outputs]


def between(o: float) -> float:
    return max(-1.0, min(1.0, o))


def weight_of(o: float, threshold: float, largest: float) -> float | None:
    """Stanley, D'Ambrosio and Gauci 2009: what is below the threshold is no connection, the rest is scaled up."""
    size = abs(between(o))
    if size <= threshold:
        return None
    return (1.0 if o > 0.0 else -1.0) * largest * (size - threshold) / (1.0 - threshold)


def paint(
    cppn: Net,
    axes: Sequence[str],
    outputs: Sequence[str],
    layers: Sequence[Sequence[Place]],
    leads: Sequence[Pair],
    threshold: float,
    largest: float,
    coefficient: float,
) -> tuple[dict[Pair, dict[str, float]], dict[int, float]]:
    """Connections (weight and coefficients) and biases, of what an output depends on."""
    first = [sum(len(layer) for layer in layers[:i]) for i in range(len(layers) + 1)]
    connections: dict[Pair, dict[str, float]] = {}
    for a, b in leads:
        for i, place in enumerate(layers[a]):
            for j, goal in enumerate(layers[b]):
                said = dict(zip(outputs, answer(cppn, axes, place, goal), strict=True))
                if "expressed" in said:  # Verbancsics and Stanley 2011
                    weight = largest * between(said["weight"]) if said["expressed"] > 0.0 else None
                else:
                    weight = weight_of(said["weight"], threshold, largest)
                if weight is not None:
                    rest = {
                        k: coefficient * between(v) for k, v in said.items() if k not in ("weight", "expressed", "bias")
                    }
                    connections[first[a] + i, first[b] + j] = {"weight": weight, **rest}
    wanted = set(range(first[-2], first[-1]))
    while more := {a for a, b in connections if b in wanted and a >= first[1]} - wanted:
        wanted |= more
    biases = dict.fromkeys(sorted(wanted), 0.0)
    if "bias" in outputs:
        every = [place for layer in layers for place in layer]
        for node in biases:
            said = dict(zip(outputs, answer(cppn, axes, every[node], (0.0, 0.0, 0.0)), strict=True))
            o = said["bias"]
            found = largest * between(o) if "expressed" in said else weight_of(o, threshold, largest)
            biases[node] = found or 0.0
    return {pair: c for pair, c in connections.items() if pair[1] in wanted}, biases
