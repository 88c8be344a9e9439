"""CMA-ES against a plain version with the covariance itself, hand-derived values, and functions with known optima."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neol.outer import cma
from neol.outer.cma import Cma, covariance, new_cma, rates, resized, sample, spread, updated, within


def plain_update(state: dict, found: np.ndarray, fitness: np.ndarray, r: cma.LearningRates) -> None:
    """Hansen 2016 with C kept as a matrix and factored anew every time."""
    n, mu = len(state["m"]), len(found) // 2
    a = np.linalg.cholesky(state["C"])
    y = [(found[i] - state["m"]) / state["sigma"] for i in np.argsort(-fitness, kind="stable")]
    z = [np.linalg.solve(a, v) for v in y]
    longest = math.sqrt(n) + 4 * n / (n + 2)
    for i in range(len(y)):
        shorter = min(1.0, longest / np.linalg.norm(z[i]))
        y[i], z[i] = y[i] * shorter, z[i] * shorter
    y_w = sum(r.weights[i] * y[i] for i in range(mu))
    z_w = sum(r.weights[i] * z[i] for i in range(mu))
    state["m"] = state["m"] + state["sigma"] * y_w
    state["ps"] = (1 - r.c_sigma) * state["ps"] + math.sqrt(r.c_sigma * (2 - r.c_sigma) * r.mu_eff) * z_w
    state["t"] += 1
    expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
    length = np.linalg.norm(state["ps"])
    state["sigma"] *= math.exp(min(1.0, r.c_sigma / r.d_sigma * (length / expected - 1)))
    h = float(length / math.sqrt(1 - (1 - r.c_sigma) ** (2 * state["t"])) < (1.4 + 2 / (n + 1)) * expected)
    state["pc"] = (1 - r.c_c) * state["pc"] + h * math.sqrt(r.c_c * (2 - r.c_c) * r.mu_eff) * y_w
    c = (1 + r.c_1 * (1 - h) * r.c_c * (2 - r.c_c) - r.c_1 - r.c_mu * r.weights.sum()) * state["C"]
    c = c + r.c_1 * np.outer(state["pc"], state["pc"])
    for i in range(len(y)):
        w = r.weights[i] if r.weights[i] >= 0 else r.weights[i] * n / (z[i] @ z[i])
        c = c + r.c_mu * w * np.outer(y[i], y[i])
    state["C"] = np.diag(np.diag(c)) if state["diagonal"] else c


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize(("n", "samples"), [(2, 6), (5, 9), (12, 24)])
def test_fifty_generations_equal_the_plain_version_that_keeps_the_covariance(
    n: int, samples: int, diagonal: bool
) -> None:
    rng = np.random.default_rng(n)
    scale = rng.uniform(0.5, 2.0, n)
    now = new_cma(rng.standard_normal(n), scale, 0.7, diagonal)
    zero = np.zeros(n)
    plain = {"m": now.mean, "sigma": 0.7, "C": np.diag(scale**2), "ps": zero, "pc": zero, "t": 0, "diagonal": diagonal}
    for _ in range(50):
        found = sample(now, rng.standard_normal((samples, n))) + 0.3 * rng.standard_normal((samples, n))  # lives learn
        fitness = -((found * np.arange(1, n + 1)) ** 2).sum(axis=1)
        now = updated(now, found, fitness)
        plain_update(plain, found, fitness, rates(n, samples, diagonal))
        assert np.allclose(now.mean, plain["m"], rtol=1e-8, atol=1e-10)
        assert np.isclose(now.sigma[0], plain["sigma"], rtol=1e-8)
        assert np.allclose(covariance(now), plain["C"], rtol=1e-6, atol=1e-9 * np.abs(plain["C"]).max())


def test_weights_and_rates_are_those_of_the_tutorial() -> None:
    r = rates(10, 10, False)  # by hand: ln 5.5 - ln i for i = 1 .. 5, divided by their sum
    raw = [math.log(5.5 / i) for i in range(1, 11)]
    assert np.allclose(r.weights[:5], np.array(raw[:5]) / sum(raw[:5]))
    assert r.mu_eff == pytest.approx(3.1672992814107073)  # as pycma reports it for this size
    assert r.weights[5:].sum() < 0 < -r.weights[5:].sum() <= 1 + r.c_1 / r.c_mu
    assert r.c_sigma == pytest.approx((3.1672992814 + 2) / (10 + 3.1672992814 + 5))
    assert r.c_1 == pytest.approx(2 / (11.3**2 + 3.1672992814))
    assert cma.default_samples(10) == 10


@given(st.integers(1, 8), st.floats(-0.9, 5.0), st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_a_rank_one_update_of_the_triangle_is_that_of_the_matrix(n: int, beta: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = np.tril(rng.standard_normal((n, n)))
    a[np.diag_indices(n)] = np.abs(np.diag(a)) + 0.5
    v = a @ (u := rng.standard_normal(n) / math.sqrt(n))
    v /= max(1.0, np.linalg.norm(u))  # so that A A^T + beta v v^T stays positive definite
    out = a.copy()
    cma._rank_one(out, beta, v.copy())
    assert np.allclose(out @ out.T, a @ a.T + beta * np.outer(v, v), atol=1e-9)
    assert (np.diag(out) > 0).all()


def test_a_term_that_would_make_the_covariance_singular_leaves_numbers() -> None:
    a = np.eye(3)
    cma._rank_one(a, -2.0, np.array([1.0, 1.0, 1.0]))
    assert np.isfinite(a).all()
    assert (np.diag(a) > 0).all()


def minimised(function, n: int, generations: int, diagonal: bool = False, start: float = 1.0) -> tuple[float, Cma]:
    rng = np.random.default_rng(1)
    now = new_cma(np.full(n, start), np.ones(n), 0.5, diagonal)
    for _ in range(generations):
        found = sample(now, rng.standard_normal((cma.default_samples(n), n)))
        now = updated(now, found, -np.array([function(x) for x in found]))
    return float(function(now.mean)), now


def ellipsoid(x: np.ndarray) -> float:
    return float((10 ** (6 * np.arange(len(x)) / (len(x) - 1)) * x**2).sum())


def rosenbrock(x: np.ndarray) -> float:
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def test_it_minimises_a_sphere_an_ellipsoid_and_rosenbrocks_valley() -> None:
    assert minimised(lambda x: float((x**2).sum()), 10, 250)[0] < 1e-12
    value, state = minimised(ellipsoid, 10, 450)
    assert value < 1e-8
    eigenvalues = np.linalg.eigvalsh(covariance(state))
    assert cma.condition(state) == pytest.approx(eigenvalues[-1] / eigenvalues[0], rel=0.05)
    assert minimised(rosenbrock, 8, 600, start=0.0)[0] < 1e-8
    assert minimised(ellipsoid, 10, 300, diagonal=True)[0] < 1e-8


def test_a_resized_distribution_keeps_what_it_knows_and_widens_by_what_is_new() -> None:
    rng = np.random.default_rng(0)
    _, state = minimised(ellipsoid, 4, 60)
    grown = resized(state, np.array([3, -1, 0, 2]), np.array([9.0, 7.0, 9.0, 9.0]), np.full(4, 0.5))
    old, new = covariance(state), covariance(grown)
    kept, was = [0, 2, 3], [3, 0, 2]
    assert np.allclose(new[np.ix_(kept, kept)], old[np.ix_(was, was)])
    assert np.allclose(new[1], [0.0, 0.25, 0.0, 0.0])
    assert grown.mean.tolist() == [state.mean[3], 7.0, state.mean[0], state.mean[2]]
    assert grown.sigma == state.sigma
    assert np.isfinite(sample(grown, rng.standard_normal((6, 4)))).all()


def test_a_step_that_the_distribution_would_never_take_moves_the_mean_no_further_than_its_longest() -> None:
    now = new_cma(np.zeros(4), np.ones(4), 0.1)
    found = sample(now, np.random.default_rng(0).standard_normal((8, 4)))
    found[0] = 1e6
    after = updated(now, found, np.arange(8.0)[::-1])
    assert np.linalg.norm(after.mean) < 0.1 * (2 + 16 / 6) + 0.2
    assert after.sigma[0] < 0.5


def test_no_standard_deviation_is_wider_than_it_may_be_and_the_others_stay() -> None:
    now = minimised(ellipsoid, 3, 30)[1]._replace(sigma=np.array([3.0]))
    stds = 3.0 * spread(now)
    widest = np.array([stds[0] / 4, np.inf, stds[2] * 2])
    cut = within(now, widest)
    assert np.allclose(cut.sigma[0] * spread(cut), [stds[0] / 4, stds[1], stds[2]])
    assert np.allclose(correlations(cut), correlations(now))
    assert within(now, stds * 1.01) is now


def test_what_all_standard_deviations_exceed_by_is_taken_from_sigma() -> None:
    now = new_cma(np.zeros(3), np.array([1.0, 2.0, 4.0]), 30.0)
    cut = within(now, np.full(3, 10.0))
    assert np.allclose(cut.sigma, 10.0)
    assert np.allclose(cut.sigma[0] * spread(cut), 10.0)


def correlations(now: Cma) -> np.ndarray:
    return covariance(now) / np.outer(spread(now), spread(now))
