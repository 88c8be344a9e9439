"""Lives of several trials: what is carried on, what counts, and the same bits however they are played."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from life_oracle import Lived, Reset, Step, live_trials
from oracle import from_document

import neol
from neol import seeding
from neol.config.checks import trial_weights
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.deploy import network_json
from neol.envs.registry import make
from neol.envs.tasks import TASKS, Task
from neol.errors import NeolError
from neol.neat.evolution import Neat
from neol.neat.genome import Genomes
from neol.network.phenotype import compile_phenotypes
from neol.rollout import shards as rollout
from neol.rollout.envpool_player import EnvPoolEngine, make_envpool
from neol.rollout.gymnasium_episode import one_life
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, RolloutResult
from neol.training.configure import configure
from neol.training.train import train

HEBB = PlasticityConfig(rule="hebb", lr=0.5, reward_scale=0.05)
LESSONS = {
    "hebb": HEBB,
    "hebb with trace": PlasticityConfig(rule="hebb", lr=0.5, reward_scale=0.02, trace_decay=0.9),
    "oja with trace, next step": PlasticityConfig(
        rule="oja", lr=0.5, reward_scale=0.02, trace_decay=0.9, reward_credit="next-step"
    ),
    "bcm": PlasticityConfig(rule="bcm", lr=0.5, reward_scale=0.05, bcm_tau=0.1, weight_limit=1.5),
}
pytestmark = pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision")  # EnvPool's declared spaces
STEPS, LIVES, TRIALS = 60, 2, 3
EVEN = (1.0 / 3.0,) * 3


def population(task: Task, size: int = 3, feed_forward: bool = True) -> Genomes:
    config = NeatConfig(
        pop_size=size, elitism=0, conn_add_prob=0.4, conn_delete_prob=0.3, node_add_prob=0.6, feed_forward=feed_forward
    )
    outer, rng = Neat(config, task.n_inputs, task.n_outputs, 3), np.random.default_rng(0)
    for _ in range(4):
        outer.tell(rng.normal(size=size))
    return outer.genomes


def episodes(weights: tuple[float, ...] = EVEN, common: bool = False, generation: int = 0) -> Episodes:
    return Episodes(11, seeding.EPISODE, generation, LIVES, common, trial_weights=weights)


def play(task: Task, engine: Any, genomes: Genomes, which: Episodes, lesson: PlasticityConfig = HEBB) -> RolloutResult:
    try:
        return engine.run(compile_phenotypes(genomes, task.n_inputs, task.n_outputs), life_of(task, lesson), which)
    finally:
        engine.close()


def same(a: RolloutResult, b: RolloutResult) -> bool:
    arrays = [(*r[:3], *r.by_trial[:3], *r.moments) for r in (a, b)]
    return all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(*arrays, strict=True))


# -- in plain Python --------------------------------------------------------------------------------------------------


def to_action(task: Task, outputs: Any) -> Any:
    if not task.action_shape:
        return int(np.argmax(outputs))
    return np.clip(np.array(outputs), -1.0, 1.0).astype(np.float32)


def on_gymnasium(task: Task, seed: int) -> tuple[Reset, Step]:
    env = make(task)

    def step(outputs: Any) -> Any:
        observation, reward, terminated, truncated, _ = env.step(to_action(task, outputs))
        return [float(x) for x in observation], float(reward), bool(terminated or truncated)

    return lambda: [float(x) for x in env.reset(seed=seed)[0]], step


def on_envpool(task: Task, seed: int) -> tuple[Reset, Step]:
    pool = make_envpool(task, np.array([seed]), STEPS)
    dtype = pool.spec.action_array_spec["action"].dtype

    def step(outputs: Any) -> Any:
        observation, reward, terminated, truncated, _ = pool.step(np.array([to_action(task, outputs)]).astype(dtype))
        return [float(x) for x in observation[0]], float(reward[0]), bool(terminated[0] or truncated[0])

    return lambda: [float(x) for x in pool.reset()[0][0]], step


SIMULATORS: dict[str, tuple[Callable[[Task], Any], Callable[[Task, int], tuple[Reset, Step]]]] = {
    "envpool": (lambda task: EnvPoolEngine(task, STEPS, threads=1, window=2), on_envpool),
    "gymnasium": (lambda task: LocalGymnasium(task, STEPS), on_gymnasium),
}


def by_hand(task: Task, genomes: Genomes, lesson: PlasticityConfig, p: int, seeds: Any, simulate: Any) -> Lived:
    ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    net = from_document(network_json.to_document(ph, genomes, p, recurrent=False))
    return live_trials(net, lesson, [simulate(task, int(s)) for s in seeds], STEPS)


@pytest.mark.parametrize("engine", SIMULATORS)
@pytest.mark.parametrize("name", ["cartpole", "lunarlander"])
@pytest.mark.parametrize("rule", LESSONS)
def test_trials_equal_a_life_in_plain_python(name: str, rule: str, engine: str) -> None:
    task, lesson, genomes = TASKS[name], LESSONS[rule], population(TASKS[name])
    opened, simulate = SIMULATORS[engine]
    result = play(task, opened(task), genomes, episodes(), lesson)
    assert result.by_trial.returns.shape == (3, LIVES, TRIALS)
    seeds = seeding.episode_seeds(11, seeding.EPISODE, 0, 3, LIVES, False, TRIALS).reshape(3, LIVES, TRIALS)
    ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    for p in range(3):
        for e in range(LIVES):
            lived = by_hand(task, genomes, lesson, p, seeds[p, e], simulate)
            np.testing.assert_allclose(result.by_trial.returns[p, e], lived.returns, rtol=1e-12)
            assert result.by_trial.steps[p, e].tolist() == lived.steps
            assert result.returns[p, e] == pytest.approx(sum(lived.returns) / 3.0, rel=1e-12)
            assert result.steps[p, e] == sum(lived.steps)
        edges = range(ph.edges(p).start, ph.edges(p).stop)
        weights = {(int(genomes.source[p, ph.gene[e]]), int(genomes.target[p, ph.gene[e]])): e for e in edges}
        for pair, e in weights.items():  # after the last life
            assert result.weight[e] == pytest.approx(lived.weights[pair], rel=1e-12, abs=1e-12)


# -- what a trial is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", SIMULATORS)
def test_the_first_trial_is_the_episode_that_a_life_without_trials_has(engine: str) -> None:
    task, genomes = TASKS["lunarlander"], population(TASKS["lunarlander"])
    one = play(task, SIMULATORS[engine][0](task), genomes, episodes((1.0,)))
    many = play(task, SIMULATORS[engine][0](task), genomes, episodes())
    assert many.by_trial.returns[:, :, 0].tobytes() == one.returns.tobytes()
    assert len(np.unique(many.by_trial.returns)) == many.by_trial.returns.size  # every trial has a start of its own
    assert (one.by_trial.returns[:, :, 0] == one.returns).all()


def test_a_network_that_does_not_learn_has_no_memory_of_a_trial() -> None:
    task, still = TASKS["lunarlander"], PlasticityConfig(rule="none")
    genomes = population(task, feed_forward=False)
    result = play(task, EnvPoolEngine(task, STEPS, threads=1), genomes, episodes(common=True), still)
    seeds = seeding.episode_seeds(11, seeding.EPISODE, 0, 1, LIVES, True, TRIALS).reshape(LIVES, TRIALS)
    ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    again = [list(one_life(task, ph.part(0, 1), life_of(task, still), int(s), STEPS))[-1].total for s in seeds[0]]
    apart = LocalGymnasium(task, STEPS)
    expected = play(task, apart, genomes, episodes(common=True), still)
    np.testing.assert_allclose(expected.by_trial.returns[0, 0], again, rtol=1e-12)
    assert result.by_trial.steps.shape == expected.by_trial.steps.shape


def test_a_life_seen_step_by_step_goes_through_all_its_trials() -> None:
    task = TASKS["cartpole"]
    ph = compile_phenotypes(population(task), 4, 2).part(0, 1)
    moments = list(one_life(task, ph, life_of(task, HEBB), 5, 30, trials=3))
    assert [m.trial for m in moments if m.over] == [0, 1, 2]
    begins = [m for m in moments if m.step == 0]
    ends = [m for m in moments if m.over]
    assert len(begins) == 3
    assert [m.total for m in ends] == [float(m.step) for m in ends]  # of the trial, not of the life


# -- however they are played ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cartpole", "lunarlander", "hopper"])
def test_threads_window_and_chunks_do_not_change_a_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task, which = TASKS[name], episodes(generation=2)
    genomes = population(task, 5)
    expected = play(task, EnvPoolEngine(task, STEPS, threads=1, window=1), genomes, which)
    assert (expected.weight != compile_phenotypes(genomes, task.n_inputs, task.n_outputs).weight).any()
    for threads, window in ((1, 0), (1, 3), (2, 2), (7, 64)):
        assert same(play(task, EnvPoolEngine(task, STEPS, threads, window), genomes, which), expected)
    if not task.reusable:
        for chunk in (1, 4, 7):
            monkeypatch.setattr(rollout, "CHUNK", chunk)
            assert same(play(task, EnvPoolEngine(task, STEPS, 2, 3), genomes, which), expected), chunk


@pytest.mark.parametrize("engine", ["envpool", "gymnasium"])
def test_worker_processes_do_not_change_a_bit(engine: str) -> None:
    task, genomes = TASKS["lunarlander"], population(TASKS["lunarlander"], 5)
    expected = play(task, SIMULATORS[engine][0](task), genomes, episodes())
    for workers in (1, 3):
        r = configure("lunarlander", engine=engine, workers=workers, max_steps=STEPS).config.rollout
        assert same(play(task, open_engine(task, r), genomes, episodes()), expected), workers


def test_a_life_whose_trial_fails_is_lived_again_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    task, genomes = TASKS["cartpole"], population(TASKS["cartpole"])
    expected = play(task, LocalGymnasium(task, STEPS), genomes, episodes())
    resets, whole = 0, LocalGymnasium(task, STEPS)
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    original = CartPoleEnv.reset

    def reset(self: Any, **kwargs: Any) -> Any:
        nonlocal resets
        resets += 1
        if resets == 5:  # the second trial of the second life
            raise RuntimeError("once")
        return original(self, **kwargs)

    monkeypatch.setattr(CartPoleEnv, "reset", reset)
    again = play(task, whole, genomes, episodes())
    assert resets == 3 * LIVES * TRIALS + 2  # the one that failed, and the trial before it once more
    assert again.retries == 1 and not again.failures
    assert same(again, expected)


# -- what counts -------------------------------------------------------------------------------------------------------

TINY: dict[str, Any] = {
    "pop_size": 8, "elitism": 1, "generations": 2, "episodes": 2, "max_steps": 80, "threads": 1, "seed": 4,
    "champion_candidates": 2, "champion_trials": 2, "champion_episodes": 3, "progress": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "weights"),
    [
        ("mean", (0.25,) * 4),
        ("last", (0, 0, 0, 1)),
        ("0,1,1,2", (0, 0.25, 0.25, 0.5)),
        ([1, 0, 0, 3], (0.25, 0, 0, 0.75)),
    ],
)
def test_the_fitness_is_the_weighted_mean_of_the_trials(said: Any, weights: Any, tmp_path: Path) -> None:
    seen: list[Any] = []
    settings = {**TINY, "trials": 4, "trial_weights": said, "fitness_offset": -0.25, "reward_floor": -2.0}
    run = train("lunarlander", out=tmp_path / "run", callback=lambda g: seen.append(g), **settings)
    for state in seen:
        lived = state.result.by_trial
        by_hand = [
            sum(
                sum(w * (f - 0.25 * n) for w, f, n in zip(weights, *of, strict=True))
                for of in zip(lived.floored[p], lived.steps[p], strict=True)
            )
            / 2
            for p in range(8)
        ]
        np.testing.assert_allclose(state.fitness, by_hand, rtol=1e-12)
        np.testing.assert_allclose(state.result.returns, (lived.returns * np.array(weights)).sum(axis=2), rtol=1e-12)
        best = int(np.argmax(state.fitness))
        for k in range(4):
            assert state.row[f"best_return_trial_{k + 1}"] == lived.returns[best, :, k].mean()
            assert state.row[f"mean_return_trial_{k + 1}"] == pytest.approx(lived.returns[:, :, k].mean(), rel=1e-12)
    assert run.history["env_steps"][0] == seen[0].result.by_trial.steps.sum()
    by_trial = run.summary.champion_return_by_trial
    assert len(by_trial) == len(run.summary.champion_without_plasticity_return_by_trial) == 4
    weighted = sum(w * x for w, x in zip(weights, by_trial, strict=True))
    assert run.summary.champion_return_mean == pytest.approx(weighted, rel=1e-9)


def test_a_champion_is_evaluated_in_lives_like_those_it_was_trained_in(tmp_path: Path) -> None:
    run = train("cartpole", out=tmp_path / "run", trials=3, trial_weights="last", rule="hebb", **TINY)
    assert json.loads(run.champion_path.read_text())["life"] == {"trials": 3, "trial_weights": "last", "change": []}
    result = neol.evaluate(run, episodes=4, max_steps=80)
    assert result.by_trial.shape == (4, 3)
    assert (result.returns == result.by_trial[:, 2]).all()
    assert result.as_dict()["return_by_trial"] == result.by_trial.mean(axis=0).tolist()
    once = neol.evaluate(run, episodes=4, max_steps=80, trials=1)
    assert once.by_trial.shape == (4, 1) and (once.returns == result.by_trial[:, 0]).all()
    assert "return_by_trial" not in once.as_dict()
    even = neol.evaluate(run, episodes=4, max_steps=80, trial_weights="mean")
    np.testing.assert_allclose(even.returns, result.by_trial.mean(axis=1), rtol=1e-12)


def test_without_trials_nothing_is_said_of_them(tmp_path: Path) -> None:
    run = train("cartpole", out=tmp_path / "run", **TINY)
    assert "life" not in json.loads(run.champion_path.read_text())
    assert not [name for name in run.history if "trial" in name]
    assert run.summary.champion_return_by_trial == ()


def test_a_run_of_several_trials_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    settings = {**TINY, "trials": 3, "rule": "hebb"}
    whole = train("lunarlander", out=tmp_path / "whole", **settings)
    train("lunarlander", out=tmp_path / "parts", **{**settings, "generations": 1})
    parts = train("lunarlander", out=tmp_path / "parts", resume=True, **settings)
    for name in ("history.csv", "champion.json"):
        assert (whole.path / name).read_bytes() == (parts.path / name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trials": 0}, "trials = 0 is not allowed; it must be at least 1"),
        ({"trials": 2, "trial_weights": "1,2,3"}, "trial_weights = '1,2,3' is not allowed; it must be mean, last, or"),
        ({"trials": 2, "trial_weights": "first"}, "trial_weights = 'first' is not allowed"),
        ({"trials": 2, "trial_weights": "0,0"}, "trial_weights = '0,0' is not allowed"),
        ({"trials": 2, "trial_weights": "-1,2"}, "trial_weights = '-1,2' is not allowed"),
        ({"trials": 2, "trial_weights": "inf,1"}, "trial_weights = 'inf,1' is not allowed"),
        ({"trials": 2, "trial_weights": "nan,1"}, "trial_weights = 'nan,1' is not allowed"),
    ],
)
def test_lives_that_cannot_be_are_refused_in_one_sentence(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(NeolError) as error:
        configure("cartpole", **settings)
    assert str(error.value).startswith(said) and str(error.value).count(".") <= 3


def test_weights_of_trials_add_up_to_one() -> None:
    assert trial_weights("mean", 1) == (1.0,)
    assert trial_weights("2,6", 2) == (0.25, 0.75)
