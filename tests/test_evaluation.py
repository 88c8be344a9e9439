"""evaluate() and replay(): the right episodes, the right numbers, and a sentence where network and task do not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.stats

import neol
from neol import seeding
from neol.config.sections import PlasticityConfig
from neol.deploy.evaluation import Evaluation
from neol.deploy.task_interface import to_document as interface
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.stats import mean_interval


def controller(task: str, plasticity: dict[str, Any] | None = None, seed: int = 0) -> dict[str, Any]:
    """A network file for a task: every input to every output, random weights."""
    t, rng = TASKS[task], np.random.default_rng(seed)
    function = {"activation": {"name": "clamped"}, "aggregation": {"name": "sum"}, "bias": 0.0, "response": 1.0}
    inputs, outputs = [-1 - i for i in range(t.n_inputs)], list(range(t.n_outputs))
    return {
        "format_version": "1.0",
        "network_type": "feedforward",
        "metadata": {},
        "topology": {"input_keys": inputs, "output_keys": outputs},
        "nodes": [{"id": o, "type": "output", **function} for o in outputs],
        "connections": [{"from": i, "to": o, "weight": float(rng.normal())} for i in inputs for o in outputs],
        "plasticity": {
            "rule": "hebb",
            "lr": 0.5,
            "reward_scale": 0.05,
            "output_transform": "tanh",
            **(plasticity or {}),
        },
        "interface": interface(t),
    }


def net(task: str, **plasticity: Any) -> neol.PlasticNetwork:
    return neol.PlasticNetwork.from_json(controller(task, plasticity))


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 100])
def test_the_interval_is_students(n: int) -> None:
    values = np.random.default_rng(n).normal(100.0, 30.0, n)
    expected = scipy.stats.t.interval(0.95, n - 1, loc=values.mean(), scale=scipy.stats.sem(values))
    np.testing.assert_allclose(mean_interval(values), expected, rtol=1e-12)


def test_the_interval_of_one_episode_or_of_equal_ones_is_a_point() -> None:
    assert mean_interval(np.array([3.5])) == (3.5, 3.5)
    assert mean_interval(np.full(7, 2.0)) == (2.0, 2.0)


def test_an_evaluation_is_the_plain_statistics_of_its_returns() -> None:
    returns, steps = np.array([1.0, 5.0, 3.0, 11.0]), np.array([10, 20, 30, 40])
    result = Evaluation(returns, steps, True)
    assert (result.mean, result.std) == (5.0, math.sqrt((16 + 0 + 4 + 36) / 3))
    d = result.as_dict()
    assert (d["return_mean"], d["return_median"], d["return_min"], d["return_max"]) == (5.0, 4.0, 1.0, 11.0)
    assert (d["episodes"], d["steps_mean"], d["plasticity"]) == (4, 25.0, True)
    assert d["return_ci95"] == list(result.ci95)
    assert json.loads(json.dumps(d)) == d
    assert Evaluation(returns[:1], steps[:1], False).std == 0.0


# -- episodes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_evaluation_is_reproducible_whatever_the_threads_and_other_seeds_are_other_episodes(task: str) -> None:
    first, again = (neol.evaluate(net(task), episodes=6, seed=1, max_steps=60, threads=t) for t in (1, 2))
    assert first.returns.tolist() == again.returns.tolist()
    assert first.steps.tolist() == again.steps.tolist()
    other = neol.evaluate(net(task), episodes=6, seed=2, max_steps=60, threads=1)
    assert first.returns.tolist() != other.returns.tolist()


@pytest.mark.parametrize("task", [t.name for t in TASKS.values() if not t.reusable])
def test_more_episodes_begin_with_the_same_ones(task: str) -> None:
    few, many = (neol.evaluate(net(task), episodes=n, seed=3, max_steps=50, threads=1) for n in (3, 9))
    assert many.returns[:3].tolist() == few.returns.tolist()
    assert len(set(many.returns.tolist())) > 1


def test_evaluation_of_a_static_network_is_gymnasiums_where_envpool_is_bit_equal() -> None:
    """CartPole: the same seeds in Gymnasium's env start elsewhere, so compare what a policy reaches on average."""
    ours = neol.evaluate(net("cartpole", rule="none"), episodes=200, seed=0, threads=1)
    env, player = gymnasium.make("CartPole-v1"), net("cartpole", rule="none")
    theirs = []
    for seed in range(200):
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(player.act(observation))
            total, over = total + float(reward), terminated or truncated
        theirs.append(total)
    spread = math.hypot(ours.std, float(np.std(theirs))) / math.sqrt(200)
    assert abs(ours.mean - np.mean(theirs)) < 5 * spread


def test_the_task_is_named_by_the_network_by_its_name_or_by_its_gymnasium_id() -> None:
    results = [
        neol.evaluate(net("lunarlander"), task, episodes=3, seed=1, max_steps=50)
        for task in (None, "lunarlander", "LunarLanderContinuous-v3")
    ]
    assert results[0].returns.tolist() == results[1].returns.tolist() == results[2].returns.tolist()


def test_a_file_is_evaluated_as_the_network_in_it(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(json.dumps(controller("cartpole")))
    for source in (tmp_path / "net.json", str(tmp_path / "net.json")):
        result = neol.evaluate(source, episodes=4)
        assert result.returns.tolist() == neol.evaluate(net("cartpole"), episodes=4).returns.tolist()


def test_max_steps_ends_episodes_and_the_tasks_own_is_the_default() -> None:
    assert neol.evaluate(net("lunarlander"), episodes=3, max_steps=9).steps.tolist() == [9, 9, 9]
    balanced = controller("cartpole", {"rule": "none"})
    for c in balanced["connections"]:
        sign = 1.0 if c["to"] == 1 else -1.0
        c["weight"] = sign * {-1: 0.05, -2: 0.1, -3: 1.0, -4: 0.5}[c["from"]]
    assert neol.evaluate(neol.PlasticNetwork.from_json(balanced), episodes=5).steps.max() == 500


# -- plasticity --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["hebb", "oja", "bcm"])
@pytest.mark.parametrize("credit", ["same-step", "next-step"])
def test_plasticity_on_and_off_differ_for_a_plastic_network(rule: str, credit: str) -> None:
    plastic = net("lunarlander", rule=rule, reward_credit=credit)
    on, off = (neol.evaluate(plastic, episodes=5, seed=1, max_steps=100, plasticity=p) for p in (True, False))
    assert (on.plasticity, off.plasticity) == (True, False)
    assert (on.returns != off.returns).all()


def test_plasticity_off_is_the_rule_none_and_for_a_static_network_nothing_changes() -> None:
    plastic, static = net("lunarlander"), net("lunarlander", rule="none")
    off = neol.evaluate(plastic, episodes=4, max_steps=80, plasticity=False)
    for on in (True, False):
        assert neol.evaluate(static, episodes=4, max_steps=80, plasticity=on).returns.tolist() == off.returns.tolist()


def test_evaluation_neither_sees_nor_changes_what_the_network_has_learnt_so_far() -> None:
    fresh, lived = net("lunarlander"), net("lunarlander")
    for _ in range(20):
        lived.activate(np.ones(8))
        lived.reward(5.0)
    weights = lived.weights
    assert weights != fresh.weights
    results = [neol.evaluate(n, episodes=3, max_steps=60).returns.tolist() for n in (fresh, lived)]
    assert results[0] == results[1]
    assert lived.weights == weights


def test_evaluation_uses_episodes_that_training_and_selection_never_see() -> None:
    purposes = (seeding.EPISODE, seeding.SELECTION, seeding.HELD_OUT, seeding.EVALUATE)
    seeds = [{int(s) for s in seeding.episode_seeds(0, p, g, 1, 200, True)} for p in purposes for g in (0, 1, 16)]
    assert len(set.union(*seeds)) == sum(map(len, seeds))


# -- what does not fit -------------------------------------------------------------------------------------------------


def test_a_task_of_another_size_is_refused_with_both_sizes() -> None:
    with pytest.raises(NeolError, match="has 8 inputs and 2 outputs, but task 'hopper' has 11 and 3"):
        neol.evaluate(net("lunarlander"), "hopper")


def test_an_unknown_task_is_refused_with_the_nearest() -> None:
    with pytest.raises(NeolError, match="did you mean 'hopper'"):
        neol.evaluate(net("lunarlander"), "hoper")


def test_a_network_that_names_no_task_needs_one() -> None:
    document = {k: v for k, v in controller("cartpole").items() if k != "interface"}
    anonymous = neol.PlasticNetwork.from_json(document)
    with pytest.raises(NeolError, match="name the task"):
        neol.evaluate(anonymous)
    assert len(neol.evaluate(anonymous, "cartpole", episodes=2).returns) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("episodes", 0), ("episodes", -1), ("seed", -1), ("seed", 2**64), ("max_steps", -1)]
)
def test_impossible_numbers_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(NeolError, match=rf"^{name} = {value} is not allowed"):
        neol.evaluate(net("cartpole"), **{name: value})


# -- replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plasticity", [True, False])
def test_a_replay_films_the_life_that_a_plain_loop_lives(plasticity: bool, tmp_path: Path) -> None:
    file, total = neol.replay(net("lunarlander"), tmp_path / "life.gif", seed=3, max_steps=25, plasticity=plasticity)
    assert file.read_bytes()[:4] == b"GIF8"
    player = net("lunarlander") if plasticity else net("lunarlander", rule="none")
    env = gymnasium.make("LunarLanderContinuous-v3")
    observation, _ = env.reset(seed=3)
    expected = 0.0
    for _ in range(25):
        observation, reward, *_ = env.step(player.act(observation))
        player.reward(float(reward))
        expected += float(reward)
    assert total == expected


def test_settings_given_to_evaluate_are_those_of_the_network_not_of_the_file() -> None:
    """`from_json` overrides reach the evaluation."""
    document = controller("lunarlander")
    strong = neol.PlasticNetwork.from_json(document, reward_scale=0.5)
    assert isinstance(strong.settings, PlasticityConfig)
    weak = neol.PlasticNetwork.from_json(document)
    a, b = (neol.evaluate(n, episodes=3, max_steps=60).returns.tolist() for n in (strong, weak))
    assert a != b
