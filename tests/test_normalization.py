"""Running statistics of observations: right, the same whoever plays, saved with the champion and used by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import neol
from neol.envs.registry import find, make
from neol.errors import NeolError
from neol.network.normalization import CLIP, IDENTITY, Moments, from_moments, merged, no_moments, normalize, observe

rows = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(3)), elements=st.floats(-1e3, 1e3))
SMALL: dict[str, Any] = {"pop_size": 8, "episodes": 2, "generations": 3, "champion_trials": 2, "champion_episodes": 5}


def of_episodes(episodes: list[np.ndarray]) -> Moments:
    moments = no_moments(len(episodes), 3)
    normal = from_moments(no_moments(1, 3))
    for e, observations in enumerate(episodes):
        for t, row in enumerate(observations):
            observe(normal, moments, e, t == 0, row.copy())
    return moments


@given(st.lists(rows, min_size=1, max_size=5), st.lists(rows, min_size=1, max_size=3))
def test_merged_moments_are_those_of_all_observations_together(first: list[np.ndarray], then: list[np.ndarray]) -> None:
    total = merged(merged(no_moments(1, 3), of_episodes(first)), of_episodes(then))
    everything = np.concatenate(first + then)
    assert total.n[0] == len(everything)
    scale = 1.0 + np.abs(everything).max()
    assert np.allclose(total.mean[0], everything.mean(axis=0), atol=1e-10 * scale)
    assert np.allclose(total.m2[0] / total.n[0], everything.var(axis=0), atol=1e-9 * scale**2)


def test_an_observation_is_centred_scaled_and_clipped() -> None:
    total = Moments(np.array([4.0]), np.array([[1.0, 5.0, -2.0]]), np.array([[16.0, 0.0, 4e-4]]))
    normal, out = from_moments(total), np.zeros(3)
    normalize(normal, np.array([3.0, 6.0, 8.0]), out)
    assert out.tolist() == [1.0, 1.0, CLIP]  # (3 - 1) / 2; no spread: only centred; far out: clipped
    assert not IDENTITY.on


def test_a_second_attempt_at_an_episode_starts_its_moments_anew() -> None:
    moments, normal = no_moments(1, 1), from_moments(no_moments(1, 1))
    for first, x in ((True, 5.0), (False, 7.0), (True, 1.0), (False, 3.0)):
        observe(normal, moments, 0, first, np.array([x]))
    assert (moments.n[0], moments.mean[0, 0], moments.m2[0, 0]) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("engine", ("envpool", "gymnasium"))
def test_the_champion_carries_its_statistics_and_applies_them_when_deployed(engine: str, tmp_path: Path) -> None:
    run = neol.train(
        "cartpole", out=tmp_path / "r", engine=engine, normalize_observations=True, seed=2, rule="none", **SMALL
    )
    champion = run.champion
    stored = champion.interface["normalization"]
    assert min(stored["std"]) > 0.0 and len(stored["mean"]) == 4 and stored["std"] != [1.0] * 4
    env = make(find("cartpole"))
    observation, _ = env.reset(seed=1)
    bare = neol.PlasticNetwork.from_json({**champion.to_json(), "interface": {}})
    scaled = np.clip((observation - np.array(stored["mean"])) / np.array(stored["std"]), -CLIP, CLIP)
    assert np.array_equal(champion.activate(observation), bare.activate(scaled))
    again = neol.PlasticNetwork.from_json(champion.to_json(tmp_path / "c.json"))
    assert np.array_equal(again.activate(observation), champion.activate(observation))
    evaluated = neol.evaluate(champion, episodes=5, seed=3, engine="gymnasium")
    assert evaluated.mean > 0


def test_statistics_survive_a_resume(tmp_path: Path) -> None:
    settings = {"normalize_observations": True, "max_steps": 50, **SMALL}
    whole = neol.train("cartpole", out=tmp_path / "whole", **settings)
    neol.train("cartpole", out=tmp_path / "r", **{**settings, "generations": 1})
    run = neol.train(out=tmp_path / "r", resume=True, generations=3)
    assert run.champion_path.read_bytes() == whole.champion_path.read_bytes()
    assert (run.path / "history.csv").read_bytes() == (whole.path / "history.csv").read_bytes()


def test_statistics_stay_as_they_are_after_their_share_of_the_run_and_after_a_resume(tmp_path: Path) -> None:
    settings = {
        "normalize_observations": True, "normalize_share": 0.4, "max_steps": 50, **SMALL, "generations": 5,
    }  # fmt: skip
    run = neol.train("cartpole", out=tmp_path / "whole", **settings)
    seen = run.history["mean_steps"][:2].sum() * 8 * 2  # of generations 0 and 1, at 0 and 0.2 of the run
    assert run.champion.interface["normalization"]["count"] == pytest.approx(seen)

    def interrupted(state: neol.Generation) -> None:
        if state.row["generation"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neol.train("cartpole", out=tmp_path / "r", callback=interrupted, **settings)
    again = neol.train(out=tmp_path / "r", resume=True)
    assert again.champion_path.read_bytes() == run.champion_path.read_bytes()
    longer = neol.train(out=tmp_path / "r", resume=True, generations=7)  # 5 of 7: that part is over
    assert longer.champion.interface["normalization"]["count"] == pytest.approx(seen)
    assert (
        neol.train(out=tmp_path / "r", resume=True, generations=20).champion.interface["normalization"]["count"] > seen
    )


def test_refining_a_champion_leaves_its_statistics_as_they_are(tmp_path: Path) -> None:
    small = {**SMALL, "es_population": 6, "max_steps": 30}
    run = neol.train("cartpole", out=tmp_path / "r", outer="es", max_env_steps=0, **small)
    refined = neol.refine(run, max_env_steps=500, **small)
    assert refined.champion.interface["normalization"] == run.champion.interface["normalization"]


@pytest.mark.parametrize(
    "bad",
    (
        {"mean": [0.0] * 4}, {"mean": [0.0] * 4, "std": [0.0] * 4}, [1], {"mean": 1, "std": 2},
        {"mean": [0.0] * 4, "std": [1.0] * 4, "count": None}, {"mean": [0.0] * 4, "std": [1.0] * 4, "count": -1},
    ),
)  # fmt: skip
def test_statistics_that_make_no_sense_are_one_sentence(bad: Any, tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "r", **{**SMALL, "generations": 1})
    document = run.champion.to_json()
    document["interface"]["normalization"] = bad
    with pytest.raises(NeolError, match="normalization (must have 4|has count = (None|-1);)"):
        neol.PlasticNetwork.from_json(document)
