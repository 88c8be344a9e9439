"""neat-python's own functions are the reference."""

from __future__ import annotations

import math
import random

import numpy as np
import oracle
import pytest
from neat.activations import ActivationFunctionSet
from neat.aggregations import AggregationFunctionSet

from neol.config.sections import ACTIVATION_ID, ACTIVATIONS, AGGREGATION_ID, AGGREGATIONS
from neol.network.activations import SUM, activate, aggregate, clip

RELATIVE = 1e-14  # libm's last bits; everything else is the same arithmetic
EDGES = (0.0, 5e-324, 1e-300, 1e-16, 1e-8, 1e-7, 1.0, 3.4, 12.0, 24.0, 50.0, 60.0, 709.0, 1e3, 1e102, 1e103, 1e155)
EXTREMES = (*EDGES, 1e308, math.inf)


def points() -> list[float]:
    rng = random.Random(1)
    drawn = [rng.gauss(0.0, 1.0) for _ in range(300)] + [rng.uniform(-80.0, 80.0) for _ in range(300)]
    near = [math.nextafter(e, t) for e in EDGES for t in (-math.inf, math.inf)]
    return [sign * z for z in (*drawn, *near, *EXTREMES) for sign in (1.0, -1.0)]


def same(a: float, b: float) -> bool:
    return a == b or math.isclose(a, b, rel_tol=RELATIVE)


def neat_activation(name: str, z: float) -> float:
    """neat-python's value; where Python's ** raises for a number too large, the infinity of IEEE."""
    try:
        return ActivationFunctionSet().get(name)(z)
    except OverflowError:
        return math.copysign(math.inf, z) if name == "cube" else math.inf


def test_registries_have_every_function_of_neat_python_and_no_other() -> None:
    assert set(ACTIVATIONS) == set(ActivationFunctionSet().functions) == set(oracle.ACTIVATIONS)
    assert set(AGGREGATIONS) == set(AggregationFunctionSet().functions) == set(oracle.AGGREGATIONS)


def test_ids_are_the_positions_of_the_names_in_config() -> None:
    assert list(ACTIVATION_ID.items()) == [(name, i) for i, name in enumerate(ACTIVATIONS)]
    assert list(AGGREGATION_ID.items()) == [(name, i) for i, name in enumerate(AGGREGATIONS)]
    assert AGGREGATIONS[SUM] == "sum"


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_equals_neat_pythons_at_ordinary_and_extreme_points(name: str) -> None:
    kind = np.int8(ACTIVATION_ID[name])
    for z in points():
        assert same(activate(kind, z), neat_activation(name, z)), z


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_never_nan(name: str) -> None:
    assert not any(math.isnan(activate(np.int8(ACTIVATION_ID[name]), z)) for z in points())


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_oracles_activation_equals_neat_pythons(name: str) -> None:
    assert all(same(oracle.ACTIVATIONS[name](z), neat_activation(name, z)) for z in points())


def test_clip_projects_onto_the_interval() -> None:
    assert [clip(z, 2.0) for z in (-math.inf, -2.5, -2.0, 0.5, 2.0, 3.0, math.inf)] == [-2, -2, -2, 0.5, 2, 2, 2]
    assert [clip(z, math.inf) for z in (-math.inf, -1e308, 0.0, math.inf)] == [-math.inf, -1e308, 0.0, math.inf]


def term_lists() -> list[list[float]]:
    rng = random.Random(2)
    drawn = [[rng.gauss(0.0, 3.0) for _ in range(n)] for n in (1, 2, 3, 4, 5, 8, 9, 30) for _ in range(20)]
    ties = [[], [0.0], [-0.0, 0.0], [2.0, -2.0], [-2.0, 2.0], [1.0, -3.0, 3.0, -3.0], [1.0, 1.0, 1.0]]
    large = [[1e308, -1e308, 1.0], [1e308, 1e308], [math.inf, 1.0, 2.0], [1.0, -math.inf], [1e-320, 5e-324]]
    return drawn + ties + large


def kernel_aggregate(name: str, terms: list[float], offset: int = 3) -> float:
    """The aggregation as `forward` calls it: edges in the middle of a flat array, values looked up by source."""
    n = len(terms)
    source = np.array([-9] * offset + list(range(n, 0, -1)) + [-9], np.int32)  # -9: never to be read
    value = np.array([math.nan, *(t / 2.0 for t in reversed(terms))])
    weight = np.array([2.0] * n + [math.nan])
    return aggregate(np.int8(AGGREGATION_ID[name]), source, weight, value, offset, offset + n)


@pytest.mark.parametrize("name", [n for n in AGGREGATIONS if n != "sum"])  # `forward` sums by itself: test_step
def test_aggregation_equals_neat_pythons_also_of_nothing(name: str) -> None:
    reference = AggregationFunctionSet().get(name)
    for terms in term_lists():
        halved = [2.0 * (t / 2.0) for t in terms]  # the smallest subnormal halves to 0
        assert same(kernel_aggregate(name, terms), reference(halved)), terms


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_the_oracles_aggregation_equals_neat_pythons(name: str) -> None:
    reference = AggregationFunctionSet().get(name)
    assert all(same(oracle.AGGREGATIONS[name](terms), reference(terms)) for terms in term_lists())


def test_maxabs_keeps_the_sign_of_the_first_of_the_largest() -> None:
    assert kernel_aggregate("maxabs", [1.0, -3.0, 3.0]) == -3.0
    assert kernel_aggregate("maxabs", [1.0, 3.0, -3.0]) == 3.0
