"""N grows where a generation's episodes do not agree on its genomes, and is a function of the history."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neol
from neol.errors import NeolError
from neol.training.adaptive_episodes import agreement, episodes_needed

SMALL = {
    "task": "lunarlander", "outer": "es", "es_population": 6, "es_sigma": 0.05, "episodes": 2, "most_episodes": 5,
    "champion_candidates": 2, "champion_trials": 2, "champion_episodes": 4, "threads": 1, "max_env_steps": 0,
    "rule": "none",
    "progress": False,
}  # fmt: skip


def test_agreement_of_a_table_worked_by_hand() -> None:
    # genomes' means 1, 2, 6 (variance 7), residuals +-1, 0, +-1: e^2 = 4 / 2 = 2, s^2 = 7 - 2 / 2 = 6
    fitness = np.array([[0.0, 2.0], [2.0, 2.0], [7.0, 5.0]])
    assert agreement(fitness) == pytest.approx(6.0 / 8.0, abs=1e-12)


@given(st.lists(st.floats(-100.0, 100.0), min_size=3, max_size=3))
def test_how_hard_an_episode_is_for_all_changes_nothing(hard: list[float]) -> None:
    fitness = np.random.default_rng(3).normal(size=(7, 3))
    assert agreement(fitness + np.array(hard)) == pytest.approx(agreement(fitness), abs=1e-9)


def test_genomes_that_no_episode_mixes_up_agree_wholly_and_noise_alone_does_not() -> None:
    own, episode = np.arange(5.0)[:, None], np.array([0.0, 10.0, -4.0])
    assert agreement(own + episode) == pytest.approx(1.0)
    assert agreement(np.full((4, 3), 500.0)) == 1.0  # nothing to tell apart: more episodes would tell no more
    assert agreement(np.array([[1.0, -1.0], [-1.0, 1.0]])) == 0.0


@pytest.mark.parametrize(
    ("agreements", "expected"),
    [([], 2), ([0.9], 2), ([0.125], 3), ([0.05], 9), ([0.0], 12), ([0.0] * 9 + [1.0] * 6, 2), ([0.05, 0.15], 4)],
)
def test_episodes_follow_spearman_and_brown_within_their_limits(agreements: list[float], expected: int) -> None:
    assert episodes_needed(agreements, 2, 12) == expected  # 3 / 7 (1 - rho) / rho, rounded up


def _rows(run: neol.Run) -> list[dict[str, str]]:
    with open(run.path / "history.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_plays_what_its_history_asks_for_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    whole = neol.train(**SMALL, generations=6, out=tmp_path / "whole")
    rows = _rows(whole)
    seen = [float(r["episodes_agreement"]) for r in rows]
    played = [int(r["episodes_played"]) for r in rows]
    assert played == [episodes_needed(seen[:g], 2, 5) for g in range(6)] and len(set(played)) > 1
    neol.train(**SMALL, generations=3, out=tmp_path / "part")
    part = neol.train(**SMALL, generations=6, out=tmp_path / "part", resume=True)
    for name in ("history.csv", "champion.json"):
        assert (part.path / name).read_bytes() == (whole.path / name).read_bytes()


@pytest.mark.parametrize(("episodes", "most"), [(1, 4), (5, 4)])
def test_limits_that_leave_no_room_are_refused(episodes: int, most: int, tmp_path: Path) -> None:
    with pytest.raises(NeolError, match=f"most_episodes = {most} is not allowed with episodes = {episodes}"):
        neol.train("cartpole", episodes=episodes, most_episodes=most, out=tmp_path / "r")
