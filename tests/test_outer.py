"""Outer loops as a protocol: those that there are, and somebody's own from Python."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neol
from neol.errors import NeolError
from neol.neat.genome import empty_genomes, take
from neol.network.normalization import no_moments
from neol.outer.base import METHODS, RESERVED, Outcome, Remembered, remembered
from neol.outer.registry import LOOPS, make_loop
from neol.training.configure import configure
from neol.training.loop import problem_of

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from random_search import RandomSearch

TINY: dict[str, Any] = {
    "pop_size": 8, "elitism": 1, "episodes": 1, "max_steps": 50, "threads": 1, "champion_candidates": 2,
    "champion_trials": 2, "champion_episodes": 4,
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_every_loop_of_the_registry_asks_tells_reports_and_goes_on_from_its_state(name: str) -> None:
    problem = problem_of(configure("cartpole", outer=name, pop_size=8, elitism=1, pool=8, es_population=8))
    one, two = make_loop(problem), make_loop(problem)
    for generation in range(4):
        genomes = one.ask()
        fitness = np.arange(8.0) + generation
        outcome = Outcome(fitness, fitness[:, None], np.ones((8, 1), np.int64), genomes.weight * 1.5)
        assert one.generation == generation
        before = one.metrics()
        assert list(before) == list(two.metrics())
        chosen = one.candidates(outcome, 3)
        assert len(chosen.n_nodes) == 3
        if name in ("neat", "hedge"):  # the evolution strategies would deploy their mean
            assert np.array_equal(chosen.weight[0, : chosen.n_conns[0]], genomes.weight[7, : genomes.n_conns[7]])
        one.tell(outcome)
        two.restore({k: v.copy() for k, v in one.state().items()})
        assert two.generation == one.generation
        assert all(np.array_equal(a, b) for a, b in zip(one.ask(), two.ask(), strict=True))


def test_a_loop_of_ones_own_trains_reports_its_columns_and_chooses_a_champion(tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", outer=RandomSearch, generations=3, rule="none", **TINY)
    assert run.config.run.outer == "python:RandomSearch"
    assert run.history["networks_tried"].tolist() == [8, 16, 24]
    assert set(run.history) == {*RESERVED, "networks_tried"}  # what a loop may not call its own is what NEOL writes
    assert run.summary.outer == "python:RandomSearch"
    assert run.champion.act(np.zeros(4)) in (0, 1)


def test_a_loop_of_ones_own_is_resumed_to_the_same_bytes_and_only_with_it(tmp_path: Path) -> None:
    settings = {**TINY, "rule": "hebb", "outer": partial(RandomSearch)}
    whole = neol.train("cartpole", out=tmp_path / "whole", generations=4, **settings)
    neol.train("cartpole", out=tmp_path / "parts", generations=2, **settings)
    with pytest.raises(NeolError, match=r"outer = 'python:RandomSearch' is a loop of the program .* pass it again"):
        neol.train(out=tmp_path / "parts", resume=True, generations=4)
    parts = neol.train("cartpole", out=tmp_path / "parts", resume=True, **{**settings, "generations": 4})
    for name in ("history.csv", "champion.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_target_number_of_species_shows_its_threshold_and_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    settings = {**TINY, "rule": "none", "pop_size": 20, "target_species": 4, "selection": "rank"}
    whole = neol.train("cartpole", out=tmp_path / "whole", generations=6, **settings)
    neol.train("cartpole", out=tmp_path / "parts", generations=3, **settings)
    parts = neol.train(out=tmp_path / "parts", resume=True, generations=6)
    for name in ("history.csv", "champion.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()
    threshold, species = whole.history["compatibility_threshold"], whole.history["species"]
    assert threshold[0] == 3.0 and species[0] < 4 and threshold[1] < 3.0
    assert threshold[-1] != threshold[1] and species[-1] > 1
    plain = neol.train("cartpole", out=tmp_path / "plain", generations=1, rule="none", **TINY)
    assert set(plain.history) == {*RESERVED, "species"}


def test_what_is_no_outer_loop_is_refused_with_the_method_that_it_lacks(tmp_path: Path) -> None:
    class Half(RandomSearch):
        metrics = None  # type: ignore[assignment]

    with pytest.raises(NeolError, match=r"outer = python:.*Half is not allowed; .* it has no metrics\(\)"):
        neol.train("cartpole", out=tmp_path / "run", outer=Half, **TINY)
    assert set(METHODS) == {"ask", "tell", "metrics", "candidates", "state", "restore"}
    with pytest.raises(NeolError, match="outer = 'neatt' is not allowed; did you mean 'neat'"):
        neol.train("cartpole", out=tmp_path / "run", outer="neatt", **TINY)


def loop_with(**methods: Any) -> Any:
    return type("Odd", (RandomSearch,), methods)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"metrics": lambda self: {"generation": 3}}, "has the name 'generation'"),
        ({"metrics": lambda self: {"best_nodes": 3}}, "has the name 'best_nodes'"),
        ({"metrics": lambda self: {"a": None}}, "metric a = None is not allowed; it must be a number"),
        ({"metrics": lambda self: None}, r"metrics\(\) returned a NoneType"),
        ({"metrics": lambda self: {"ab"[self.generation % 2]: 1}}, "has the names b; it had a"),
        ({"metrics": lambda self: {"a": 1 if self.generation == 0 else 1.5}}, "whole number in generation 0"),
        (
            {"candidates": lambda self, outcome, count: take(self.genomes, slice(0))},
            r"candidates\(\) returned no genome",
        ),
        ({"ask": lambda self: [1, 2]}, r"ask\(\) returned a list"),
        ({"tell": lambda self, outcome: None}, "generation is 0 after tell"),
        ({"state": lambda self: {"x": np.array([{}])}}, "'outer.x' cannot be saved"),
    ],
)
def test_what_a_loop_gives_is_checked_in_one_sentence(methods: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(NeolError, match=words):
        neol.train("cartpole", out=tmp_path / "run", outer=loop_with(**methods), generations=3, rule="none", **TINY)


def test_metrics_are_written_by_name_and_keep_their_kind(tmp_path: Path) -> None:
    def metrics(self: Any) -> dict[str, Any]:
        pair = [("whole", np.int64(3)), ("real", float(self.generation))]
        return dict(pair if self.generation % 2 else reversed(pair))

    run = neol.train(
        "cartpole", out=tmp_path / "a", outer=loop_with(metrics=metrics), generations=3, rule="none", **TINY
    )
    assert run.history["whole"].tolist() == [3, 3, 3]
    assert run.history["real"].tolist() == [0.0, 1.0, 2.0]
    assert b",3," in (run.path / "history.csv").read_bytes()


@pytest.mark.parametrize("found", [None, [1], (Remembered(1.0, empty_genomes(2, 1, 1), no_moments(1, 4)),)])
def test_what_a_loop_remembers_must_be_what_is_asked_for(found: object) -> None:
    class Forgetful:
        def remembered(self) -> object:
            return found

    with pytest.raises(NeolError, match="must return a list of Remembered"):
        remembered(Forgetful())  # type: ignore[arg-type]
