"""Novelty: behaviours and their distances against plain Python, what is blended, and that it goes on after a kill."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neol
from neol.errors import NeolError
from neol.network.normalization import Moments
from neol.training import novelty as module
from neol.training.configure import configure
from neol.training.novelty import Novelty, behaviours, blended, novelties

TINY: dict[str, Any] = {
    "pop_size": 10, "elitism": 1, "episodes": 2, "champion_candidates": 2, "champion_trials": 2, "seed": 3,
    "champion_episodes": 3, "progress": False, "env_kwargs": ["targets=4"], "normalize_observations": True,
    "threads": 1,
}  # fmt: skip


def moments_of(lives: list[np.ndarray]) -> Moments:
    return Moments(
        np.array([float(len(x)) for x in lives]),
        np.array([x.mean(axis=0) for x in lives]),
        np.array([((x - x.mean(axis=0)) ** 2).sum(axis=0) for x in lives]),
    )


def test_a_behaviour_is_mean_and_spread_of_all_that_a_genome_saw() -> None:
    rng = np.random.default_rng(0)
    lives = [rng.normal(i, 1.0 + i, (5 + 3 * i, 3)) for i in range(6)]  # two each of three genomes
    found = behaviours(moments_of(lives), 3)
    for p in range(3):
        for i in range(3):
            seen = [float(x) for life in lives[2 * p : 2 * p + 2] for x in life[:, i]]
            assert found[p, i] == pytest.approx(statistics.fmean(seen), abs=1e-12)
            assert found[p, 3 + i] == pytest.approx(statistics.pstdev(seen), abs=1e-12)


def test_novelty_is_the_mean_distance_to_the_nearest_others() -> None:
    rng = np.random.default_rng(1)
    found, archive = rng.normal(size=(6, 4)), rng.normal(size=(3, 4))
    found[:, 2] = archive[:, 2] = 7.0  # does not vary
    every = [*found.tolist(), *archive.tolist()]
    spread = [statistics.pstdev([e[i] for e in every]) for i in range(4)]
    for p, novelty in enumerate(novelties(found, archive, 3)):
        others = [e for j, e in enumerate(every) if j != p]
        distances = sorted(
            math.sqrt(sum(((found[p, i] - e[i]) / spread[i]) ** 2 for i in range(4) if i != 2)) for e in others
        )
        assert novelty == pytest.approx(sum(distances[:3]) / 3, abs=1e-12)


def test_what_is_blended_stays_in_the_units_of_fitness() -> None:
    fitness, novelty = np.array([-100.0, -50.0, -60.0]), np.array([3.0, 1.0, 1.5])
    scale = statistics.pstdev(fitness.tolist()) / statistics.pstdev(novelty.tolist())
    expected = [0.75 * f + 0.25 * (-60.0 + scale * (v - 1.5)) for f, v in zip(fitness, novelty, strict=True)]
    np.testing.assert_allclose(blended(fitness, novelty, 0.25), expected, rtol=1e-12)
    assert blended(fitness, np.ones(3), 0.25).tolist() == fitness.tolist()  # all alike: nothing is novel


def test_the_archive_takes_in_the_most_novel_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ARCHIVE", 2)
    rng, kept, seen = np.random.default_rng(2), Novelty(0.5, 2, 1), []
    for odd in (9.0, -20.0, 60.0, -200.0):
        lives = [rng.normal(i, 1.0, (4, 1)) for i in (0.0, 0.1, 0.2, odd)]
        kept.blend(np.zeros(4), moments_of(lives))
        seen.append(behaviours(moments_of(lives), 4)[3])
    assert kept.archive.shape == (2, 2) and kept.archive[1].tolist() == seen[3].tolist()


@pytest.mark.parametrize("outer", ["neat", "es"])
def test_a_run_with_novelty_goes_on_to_the_same_bytes(outer: str, tmp_path: Path) -> None:
    own = {**TINY, "novelty": 0.5, "outer": outer}
    whole = neol.train("motors-1", out=tmp_path / "whole", generations=4, **own)
    neol.train("motors-1", out=tmp_path / "parts", generations=2, **own)
    parts = neol.train("motors-1", out=tmp_path / "parts", generations=4, resume=True, **own)
    assert parts.champion_path.read_bytes() == whole.champion_path.read_bytes()
    plain = neol.train("motors-1", out=tmp_path / "plain", generations=4, **{**own, "novelty": 0.0})
    first, other = (list(run.history["mean_fitness"]) for run in (whole, plain))
    assert first[0] == other[0] and first != other  # the first generation is the same, and then others are chosen


def test_novelty_needs_what_was_observed() -> None:
    with pytest.raises(NeolError, match=r"novelty = 0.5 is not allowed; .* needs normalize_observations = true"):
        configure("motors-1", novelty=0.5)
