"""The hall remembers the best of every part of a run, with what its observations were scaled by."""

from __future__ import annotations

from pathlib import Path

import crafted
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neol
from neol.arrays import checked
from neol.errors import NeolError
from neol.neat.genome import Genomes, empty_genomes
from neol.network.normalization import Moments, no_moments
from neol.outer.hall import PLACES, Hall

INPUTS, OUTPUTS = 2, 1


def network(number: float) -> Genomes:
    """One connection, with this weight."""
    g = empty_genomes(1, 1, 1)
    g.n_nodes[:], g.n_conns[:], g.node_id[:], g.response[:] = 1, 1, 0, 1.0
    g.innovation[:], g.source[:], g.target[:], g.weight[:], g.enabled[:] = 0, -1, 0, number, True
    return g


def seen(number: float) -> Moments:
    return Moments(np.array([float(number)]), np.full((1, INPUTS), float(number)), np.ones((1, INPUTS)))


def filled(scores: list[float]) -> Hall:
    hall = Hall()
    for generation, score in enumerate(scores):
        hall.enter(generation, score, network(generation), seen(generation))
    return hall


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=200))
def test_the_best_of_every_era_is_remembered(scores: list[float]) -> None:
    hall = filled(scores)
    assert len(hall.eras) <= PLACES
    span = 1
    while len({g // span for g, s in enumerate(scores) if s == s}) > PLACES:
        span *= 2
    assert hall.span == span
    expected = {}
    for g, s in enumerate(scores):  # of equals the first
        if s == s and (g // span not in expected or s > scores[expected[g // span]]):
            expected[g // span] = g
    assert {era: int(r.genome.weight[0, 0]) for era, r in hall.eras.items()} == expected
    assert all(r.seen.n[0] == r.genome.weight[0, 0] for r in hall.eras.values())
    ranked = [r.score for r in hall.ranked()]
    assert ranked == sorted(ranked, reverse=True)


@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_a_hall_is_the_same_after_it_was_saved(count: int) -> None:
    hall, again = filled(np.sin(np.arange(count)).tolist()), Hall()
    again.restore(checked(hall.state(), Hall.declared(INPUTS, OUTPUTS), "the checkpoint"))
    assert again.span == hall.span
    assert list(again.eras) == list(hall.eras)
    for a, b in zip(again.ranked(), hall.ranked(), strict=True):
        assert a.score == b.score
        assert all(np.array_equal(x, y) for x, y in zip((*a.genome, *a.seen), (*b.genome, *b.seen), strict=True))


def test_two_of_one_era_are_refused_and_a_hall_from_before_there_were_eras_is_left_behind() -> None:
    state = filled([1.0, 2.0, 3.0]).state()
    with pytest.raises(NeolError, match="an era each"):
        Hall().restore({**state, "hall.eras": np.array([0, 1, 1])})
    hall = filled([1.0])
    hall.restore({k: v for k, v in state.items() if "seen" not in k})
    assert hall.ranked() == []


def test_without_a_scaling_there_is_nothing_to_remember_of_it() -> None:
    hall = Hall()
    hall.enter(0, 1.0, network(1.0))
    assert all(np.array_equal(a, b) for a, b in zip(hall.ranked()[0].seen, no_moments(1, 0), strict=True))


def test_a_run_chooses_among_all_its_eras_and_a_checkpoint_with_observations_of_another_size_is_refused(
    tmp_path: Path,
) -> None:
    small = {"generations": 6, "es_population": 6, "max_steps": 30, "champion_trials": 1, "champion_episodes": 2,
             "normalize_share": 1.0}  # fmt: skip
    run = neol.train("cartpole", out=tmp_path / "run", outer="es", max_env_steps=0, threads=1, **small)
    arrays = crafted.read(run.path)
    assert arrays["outer.hall.eras"].tolist() == [0, 1, 2, 3, 4, 5]
    counts = arrays["outer.hall.seen.n"]
    assert counts[0] == 0
    assert (np.diff(counts) > 0).all()  # each had seen more than the one before
    for name in ("mean", "m2"):
        arrays[f"outer.hall.seen.{name}"] = np.zeros((6, 3))
    crafted.write(run.path, arrays)
    with pytest.raises(NeolError, match="observations must have 4 numbers"):
        neol.train("cartpole", out=run.path, resume=True, outer="es", max_env_steps=0, threads=1,
                   **{**small, "generations": 7})  # fmt: skip
