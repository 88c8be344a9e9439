"""Gradient strategies: one step of each by hand, mirrored samples, and that they climb."""

from __future__ import annotations

import numpy as np
import pytest

from neol.outer import gradients
from neol.outer.gradients import ARS, OPENAI, PGPE, centred_ranks, new_gradient, resized, sample, updated


def test_samples_are_mirrored_about_the_mean() -> None:
    g = new_gradient(np.array([1.0, 2.0]), np.array([1.0, 0.5]), 0.1)
    found = sample(g, np.array([[1.0, 2.0], [0.0, -4.0]]))
    assert found.tolist() == pytest.approx(np.array([[1.1, 2.1], [1.0, 1.8], [0.9, 1.9], [1.0, 2.2]]))


def test_one_step_of_ars_by_hand() -> None:
    g = new_gradient(np.zeros(2), np.ones(2), 0.5)
    delta = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    fitness = np.array([4.0, 1.0, 0.0, 2.0, 3.0, 0.5])  # of +, +, +, -, -, -: the best two directions are 0 and 1
    after = updated(g, ARS, sample(g, delta), fitness, rate=0.1, top=2)
    spread = np.std([4.0, 1.0, 2.0, 3.0])
    assert after.mean == pytest.approx(0.1 / (2 * spread) * np.array([4.0 - 2.0, 1.0 - 3.0]))


def test_one_step_of_openai_by_hand_is_adams() -> None:
    g = new_gradient(np.zeros(1), np.ones(1), 0.5)
    after = updated(g, OPENAI, sample(g, np.array([[2.0]])), np.array([5.0, 1.0]), rate=0.1, top=1)
    assert after.mean == pytest.approx([0.1])  # the first step of Adam is its rate, whatever the gradient
    assert after.velocity == pytest.approx([0.1 * 2.0])  # ranks +-1/2: (1/2 + 1/2) * delta


def test_ranks_are_centred_and_equals_share_theirs() -> None:
    assert centred_ranks(np.array([10.0, -3.0, 10.0, 99.0])).tolist() == pytest.approx([0.0, -0.5, 0.0, 0.5])


@pytest.mark.parametrize(("kind", "rate"), [(ARS, 0.05), (OPENAI, 0.05), (PGPE, 0.1)])
def test_each_climbs_a_hill(kind: str, rate: float) -> None:
    rng = np.random.default_rng(0)
    g = new_gradient(np.full(6, 2.0), np.ones(6), 0.1)
    for _ in range(400):
        found = sample(g, rng.standard_normal((8, 6)))
        g = updated(g, kind, found, -(found**2).sum(axis=1), rate, 4)
    assert np.linalg.norm(g.mean) < 0.5  # it began at 4.9


@pytest.mark.parametrize("kind", [ARS, OPENAI, PGPE])
def test_what_lives_learned_in_common_moves_the_mean(kind: str) -> None:
    g = new_gradient(np.zeros(2), np.ones(2), 0.1)
    found = sample(g, np.random.default_rng(0).standard_normal((4, 2)))
    still = updated(g, kind, found, np.ones(8), 0.1, 4).mean
    moved = updated(g, kind, found + np.array([1.0, 0.0]), np.ones(8), 0.1, 4).mean
    assert moved - still == pytest.approx(np.array([1.0, 0.0]))


def test_a_resized_one_keeps_what_it_knows() -> None:
    g = gradients.Gradient(np.array([1.0, 2.0]), np.array([0.1, 0.3]), np.ones(2), np.ones(2), np.ones(1, np.int64))
    new = resized(g, np.array([1, -1]), np.array([9.0, 7.0]), np.array([1.0, 2.0]))
    assert new.mean.tolist() == [2.0, 7.0]
    assert new.sigma.tolist() == pytest.approx([0.3, 0.4])  # the median of the old ones, times its scale
    assert new.velocity.tolist() == [1.0, 0.0]
