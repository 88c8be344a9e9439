"""Failed episodes: the environment's fault is left out for all, a genome's own is its own, wherever they are played."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_evaluation import controller

import neol
from neol import seeding
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.deploy.task_interface import to_document
from neol.envs.registry import find
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.neat.genome import first_population
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.rollout.faults import REDRAWS, judge, run_redrawn
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, Failure, RolloutResult
from neol.training.configure import configure

HALF = ["share=0.5"]


@pytest.fixture(autouse=True)
def _environments_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "envs")


def rolled(genomes: int, episodes: int, *failed: tuple[int, int]) -> RolloutResult:
    failures = tuple(Failure(g * episodes + e, 3, "raised", "") for g, e in failed)
    returns = np.arange(float(genomes * episodes)).reshape(genomes, episodes)
    return RolloutResult(returns, np.ones((genomes, episodes), np.int64), np.zeros(0), failures=failures)


# -- the verdict --------------------------------------------------------------------------------------------------


def test_an_episode_that_fails_for_everybody_is_left_out_and_nobody_is_to_blame() -> None:
    result = rolled(2, 3, (0, 1), (1, 1))
    verdict = judge(result, common=True)
    assert verdict.left_out.tolist() == [False, True, False]
    assert verdict.failed.tolist() == [False, False]
    assert verdict.kept(result.returns).tolist() == [[0.0, 2.0], [3.0, 5.0]]


def test_an_episode_that_others_live_through_is_the_genomes_own_fault() -> None:
    verdict = judge(rolled(3, 2, (0, 0), (1, 0), (0, 1), (1, 1), (2, 1)), common=True)
    assert verdict.left_out.tolist() == [False, True]
    assert verdict.failed.tolist() == [True, True, False]


def test_without_common_random_numbers_an_episode_is_no_one_elses() -> None:
    verdict = judge(rolled(2, 2, (0, 1), (1, 1)), common=False)
    assert not verdict.left_out.any()
    assert verdict.failed.all()


def test_without_failures_values_are_the_very_same() -> None:
    result = rolled(4, 3)
    verdict = judge(result, common=True)
    assert verdict.kept(result.returns) is result.returns
    assert not verdict.failed.any()


# -- where it is played -------------------------------------------------------------------------------------------


def networks(task: Task, count: int = 3) -> Phenotypes:
    genomes, _ = first_population(NeatConfig(pop_size=count), task.n_inputs, task.n_outputs, 1)
    return compile_phenotypes(genomes, task.n_inputs, task.n_outputs)


def engines(task: Task) -> dict[str, Any]:
    settings: dict[str, Any] = {"env_kwargs": dict(task.env_kwargs), "max_steps": 20, "workers": 2}
    return {
        "here": LocalGymnasium(task, 20),
        "workers": open_engine(task, configure(task.name, **settings).config.rollout),
        "ray": open_engine(task, configure(task.name, executor="ray", **settings).config.rollout),
    }


def test_a_start_that_raises_for_some_seeds_fails_the_same_episodes_here_in_workers_and_on_ray() -> None:
    pytest.importorskip("ray")
    task = find("strangers:BadStarts", HALF)
    which = Episodes(2, seeding.EPISODE, 0, 6, common=True)
    found = {}
    for name, engine in engines(task).items():
        try:
            found[name] = engine.run(networks(task), life_of(task, PlasticityConfig()), which)
        finally:
            engine.close()
    left_out = judge(found["here"], common=True).left_out
    assert 0 < left_out.sum() < 6
    for result in found.values():
        verdict = judge(result, common=True)
        assert np.array_equal(verdict.left_out, left_out) and not verdict.failed.any()
        assert {f.kind for f in result.failures} == {"raised"} and "no such start" in result.failures[0].text
        assert result.returns.tobytes() == found["here"].returns.tobytes()


def test_a_generation_whose_every_episode_fails_is_drawn_again() -> None:
    """One episode for all: half of all seeds raise, so that some generation must be drawn again."""
    task = find("strangers:BadStarts", HALF)
    engine, life = LocalGymnasium(task, 20), life_of(task, PlasticityConfig())
    discarded: list[RolloutResult] = []
    for generation in range(6):
        which = Episodes(2, seeding.EPISODE, generation, 1, common=True)
        result, verdict = run_redrawn(partial(engine.run, networks(task), life), which, discarded.append)
        assert not result.failures and not verdict.left_out.any()
    assert discarded and all(r.failed.all() for r in discarded)


def test_an_environment_that_always_fails_is_left_out_altogether_in_the_end() -> None:
    task = find("strangers:BadStarts", ["share=1.0"])
    which = Episodes(2, seeding.EPISODE, 0, 2, common=True)
    discarded: list[RolloutResult] = []
    life = life_of(task, PlasticityConfig())
    play = partial(LocalGymnasium(task, 20).run, networks(task), life)
    _, verdict = run_redrawn(play, which, discarded.append)
    assert verdict.left_out.all() and len(discarded) == REDRAWS


def test_redrawn_episodes_are_new_ones_and_those_of_other_genomes_stay_common() -> None:
    from neol.rollout.shards import ShardedRollout

    task = find("cartpole")
    life, ph = life_of(task, PlasticityConfig()), networks(task)
    for common in (True, False):
        first, second, third = (
            ShardedRollout(task, ph, life, Episodes(2, seeding.EPISODE, 0, 2, common, redraw)).seeds.reshape(3, 2)
            for redraw in range(3)
        )
        assert len({*first.flat, *second.flat, *third.flat}) == (6 if common else 18)
        assert (second == second[0]).all() == common


# -- evaluation ---------------------------------------------------------------------------------------------------


def net(task: Task) -> neol.PlasticNetwork:
    document = controller("cartpole")  # 4 inputs, 2 outputs: as BadStarts has
    return neol.PlasticNetwork.from_json({**document, "interface": to_document(task)}, trust=True)


def test_evaluation_leaves_out_what_the_environment_cannot_play_and_counts_it() -> None:
    task = find("strangers:BadStarts", HALF)
    found = neol.evaluate(net(task), episodes=20, seed=3)
    assert 0 < found.failed < 20
    assert len(found.returns) == len(found.steps) == 20 - found.failed
    assert (found.steps > 0).all()
    assert (found.as_dict()["episodes"], found.as_dict()["failed_episodes"]) == (20 - found.failed, found.failed)


def test_evaluation_of_an_environment_that_can_play_nothing_is_one_sentence() -> None:
    task = find("strangers:BadStarts", ["share=1.0"])
    with pytest.raises(NeolError, match=r"all 4 episodes of 'strangers:BadStarts' failed.*no such start"):
        neol.evaluate(net(task), episodes=4)


def test_a_candidate_that_always_fails_loses_to_the_others_whatever_scaling_it_has(tmp_path: Path) -> None:
    """Remembered means of a strategy are played apart; whose fault a failure is is judged by all candidates."""
    small = {"generations": 6, "es_population": 6, "champion_trials": 2, "champion_episodes": 2, "max_steps": 30}
    run = neol.train(
        "strangers:Stall", out=tmp_path / "run", outer="es", es="openai", es_sigma=1.0, seed=1, threads=1,
        max_env_steps=0, normalize_share=1.0, **small,
    )  # fmt: skip
    assert run.summary.champion_return_mean > 1.5  # five steps of at least 0.3 each
    assert run.summary.champion_episodes == 2
