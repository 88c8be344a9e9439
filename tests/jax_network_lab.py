"""What test_jax_network.py looks at, computed with JAX in a process of its own: python tests/jax_network_lab.py FILE

The same random networks live some steps in our kernels and in JAX; gradients of what they do are compared with finite
differences of the kernels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from conftest import BOUNDED, SMOOTH_AGGREGATIONS, genomes_of
from oracle import Edge, Net, Node

from neol.config.sections import ACTIVATIONS, AGGREGATIONS
from neol.gradients.jax_network import Parameters, forward_of, outputs_of, parameters_of, wiring_of, with_parameters
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.network.step import forward, load, new_slots

INPUTS, OUTPUTS, STEPS, LIMIT = 3, 2, 4, 50.0
STEP = 1e-6  # of the finite differences


def random_net(
    rng: np.random.Generator, cyclic: bool, activations: Sequence[str], aggregations: Sequence[str], hidden: int = 5
) -> Net:
    """Numbers without ties or kinks in the way: all are drawn from continuous distributions."""
    ids = [*range(OUTPUTS + hidden)]
    nodes = {
        i: Node(rng.normal(0, 0.5), rng.normal(1, 0.3), str(rng.choice(activations)), str(rng.choice(aggregations)))
        for i in ids
    }
    rank = {int(node): i for i, node in enumerate(rng.permutation(ids))}
    sources = [-1 - i for i in range(INPUTS)] + ids
    pairs = [(a, b) for a in sources for b in ids if cyclic or rank.get(a, -1) < rank[b]]
    chosen = [pairs[i] for i in rng.permutation(len(pairs))[:18]]
    edges = {pair: Edge(rng.normal(0, 0.7), bool(rng.random() < 0.9)) for pair in chosen}
    return Net([-1 - i for i in range(INPUTS)], list(range(OUTPUTS)), nodes, edges)


def lived(ph: Phenotypes, observations: np.ndarray) -> np.ndarray:
    """Activities f8 (T, n) of a life in our kernels."""
    slots, n = new_slots(ph, 1), len(ph.node_id)
    load(ph, slots, 0, 0)
    out = []
    for observation in observations:
        forward(ph, slots, 0, observation, LIMIT)
        out.append(slots.value[0, INPUTS : INPUTS + n].copy())
    return np.array(out)


def lived_in_jax(ph: Phenotypes, parameters: Parameters, observations: Any) -> Any:
    """The same (T, n), differentiable through time."""
    step = forward_of(wiring_of(ph, LIMIT))

    def pass_on(before: Any, observation: Any) -> Any:
        nodes = step(parameters, observation, before)
        return nodes, nodes

    return jax.lax.scan(pass_on, jnp.zeros(len(ph.node_id), observations.dtype), observations)[1]


def differences(ph: Phenotypes, observations: np.ndarray, mix: np.ndarray) -> Parameters:
    """Central differences of sum(mix * activities) by every weight, bias and response."""
    out = []
    for name in Parameters._fields:
        values, slope = getattr(ph, name), np.zeros(len(getattr(ph, name)))
        for i in range(len(values)):
            ends = []
            for sign in (1.0, -1.0):
                moved = values.copy()
                moved[i] += sign * STEP
                ends.append((mix * lived(ph._replace(**{name: moved}), observations)).sum())
            slope[i] = (ends[0] - ends[1]) / (2 * STEP)
        out.append(slope)
    return Parameters(*out)


def error(actual: Any, expected: Any) -> float:
    """The largest |actual - expected| / max(1, |expected|)."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    return float((np.abs(actual - expected) / np.maximum(1.0, np.abs(expected))).max(initial=0.0))


def compared(net: Net, rng: np.random.Generator) -> dict[str, Any]:
    """How far JAX is from the kernels for one network."""
    ph = compile_phenotypes(genomes_of([net]), INPUTS, OUTPUTS)
    observations, exact = rng.normal(size=(STEPS, INPUTS)), parameters_of(ph)
    ours = lived(ph, observations)
    mix = rng.normal(size=ours.shape)

    @jax.jit
    @partial(jax.grad, has_aux=True)
    def slope_and_values(p: Parameters, o: Any) -> Any:
        values = lived_in_jax(ph, p, o)
        return (mix.astype(o.dtype) * values).sum(), values

    slope, double = slope_and_values(exact, observations)
    small = Parameters(*(np.asarray(a, np.float32) for a in exact))
    _, single = slope_and_values(small, observations.astype(np.float32))
    assert double.dtype == np.float64 and single.dtype == np.float32
    expected = differences(ph, observations, mix)
    return {
        "recurrent": bool(ph.remembers[0]),
        "double": error(double, ours),
        "single": error(single, ours),
        "slopes": {name: error(a, b) for name, a, b in zip(Parameters._fields, slope, expected, strict=True)},
        "steepest": float(max(np.abs(e).max(initial=0.0) for e in expected)),
    }


def cases() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(5)
    for i in range(8):
        yield compared(random_net(rng, bool(i % 2), BOUNDED, SMOOTH_AGGREGATIONS if i % 4 > 1 else ("sum",)), rng)


def one_node_deep() -> dict[str, Any]:
    """Every activation with every aggregation, far out too: the largest difference, and whether slopes are finite."""
    kinds, worst, finite = list(product(ACTIVATIONS, AGGREGATIONS)), 0.0, True
    for count in (0, 2, INPUTS):
        nodes = {k: Node(0.0, 1.0, *kind) for k, kind in enumerate(kinds)}
        edges = {(-1 - i, k): Edge(0.5 + i) for k in nodes for i in range(count)}
        ph = compile_phenotypes(genomes_of([Net([-1, -2, -3], list(nodes), nodes, edges)]), INPUTS, len(nodes))
        step, exact = forward_of(wiring_of(ph, LIMIT)), parameters_of(ph)

        @jax.jit
        def slope_and_values(p: Parameters, o: Any, step: Any = step, n: int = len(nodes)) -> Any:
            return jax.grad(lambda p: (lambda y: (y.sum(), y))(step(p, o, jnp.zeros(n))), has_aux=True)(p)

        for scale in (0.0, 0.7, -0.7, 40.0, -40.0):
            observation = scale * np.array([1.0, 0.3, -0.6])
            slope, values = slope_and_values(exact, observation)
            worst = max(worst, error(values, lived(ph, observation[None])[0]))
            finite &= all(bool(np.isfinite(s).all()) for s in slope)
    return {"worst": worst, "finite": finite}


def rows_together() -> dict[str, float]:
    """B rows at once equal one after the other; outputs; and what comes back into a genome."""
    rng = np.random.default_rng(9)
    genome = genomes_of([random_net(rng, True, BOUNDED, ("sum",))])
    ph = compile_phenotypes(genome, INPUTS, OUTPUTS)
    wiring, exact = wiring_of(ph, LIMIT), parameters_of(ph)
    step, before = forward_of(wiring), rng.normal(size=(6, len(ph.node_id)))
    observations = rng.normal(size=(6, INPUTS))
    alone = np.array([jax.jit(step)(exact, o, b) for o, b in zip(observations, before, strict=True)])
    together = jax.jit(jax.vmap(step, in_axes=(None, 0, 0)))(exact, observations, before)
    squashed = outputs_of(wiring, together, squash=True)
    other = Parameters(*(a + 1.0 for a in exact))
    written = compile_phenotypes(with_parameters(genome, ph, other), INPUTS, OUTPUTS)
    return {
        "together": error(together, alone),
        "outputs": error(squashed, np.tanh(alone[:, ph.output[0] - INPUTS])),
        "written": max(error(getattr(written, k), getattr(other, k)) for k in Parameters._fields),
    }


def main(file: Path) -> None:
    jax.config.update("jax_enable_x64", True)
    found = {"networks": list(cases()), "one_node": one_node_deep(), "rows": rows_together()}
    file.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
