"""Motors that may be wired either way: against plain Python, the same bits on every engine, what a life can earn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from life_oracle import GOLDEN, MASK, drawn, life_name, mix
from test_trials import population, same

import neol
from neol import seeding
from neol.baselines.policy import CLIP, Policy, play
from neol.baselines.settings import baseline_config, read
from neol.baselines.vec_env import PoolEnv
from neol.config.sections import PlasticityConfig
from neol.envs.maze_picture import GREEN, INK, W
from neol.envs.registry import find, make
from neol.envs.tasks import CHANGING_TASKS, TASKS, Task
from neol.errors import NeolError
from neol.network.phenotype import compile_phenotypes
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.native_player import NativeEngine
from neol.rollout.shards import Episodes, RolloutResult
from neol.rollout.world import UNCHANGED, life_names, world_of
from neol.training.configure import configure

MOTORS = ["motors-1", "motors-2", "motors-4", "motors-8"]
EITHER_WAY = ("action invert p=0.5 each",)
HEBB = PlasticityConfig(rule="hebb", lr=0.3, reward_scale=1.0, gate="advantage", evolve_rate=True)
TINY: dict[str, Any] = {
    "pop_size": 8, "elitism": 1, "generations": 2, "episodes": 2, "champion_candidates": 2, "champion_trials": 2,
    "champion_episodes": 4, "progress": False, "env_kwargs": ["targets=5"],
}  # fmt: skip


def to_go(seed: int, number: int) -> float:
    return 2.0 * ((mix((mix(seed) + number * GOLDEN) & MASK) >> 11) / 2.0**53) - 1.0


@pytest.mark.parametrize("name", MOTORS)
def test_a_life_equals_plain_python(name: str) -> None:
    task = find(name, ["targets=3", "steps=4"])
    axes, env, rng = task.n_outputs, make(task), np.random.default_rng(0)
    assert task.max_steps == 12
    for seed in (0, 7, 2**31 - 1):
        seen, _ = env.reset(seed=seed)
        for step in range(12):
            if step % 4 == 0:
                left = [to_go(seed, step // 4 * axes + i) for i in range(axes)]
            np.testing.assert_allclose(seen, left, rtol=1e-12)
            action = rng.uniform(-1.0, 1.0, axes).astype(np.float32)
            moved = [x - 0.2 * float(a) for x, a in zip(left, action, strict=True)]
            expected = 2.0 * sum(abs(x) - abs(y) for x, y in zip(left, moved, strict=True)) / axes
            left = moved
            seen, reward, over, _, _ = env.step(action)
            assert reward == pytest.approx(expected, abs=1e-12) and over == (step == 11)


def lived(task: Task, engine: Any, world: Any) -> RolloutResult:
    ph = compile_phenotypes(population(task, 5, feed_forward=False), task.n_inputs, task.n_outputs)
    which = Episodes(5, seeding.EPISODE, 1, 3, False, trial_weights=(0.5, 0.5))
    try:
        return engine.run(ph, life_of(task, HEBB, world=world), which)
    finally:
        engine.close()


def test_the_native_engine_equals_gymnasium_to_the_bit() -> None:
    task = find("motors-2", ["targets=12"])
    for changes in ((), (*EITHER_WAY, "reward delay=3", "action noise=0.1 from=50")):
        world = world_of(task, changes, task.max_steps, 2)
        expected = lived(task, LocalGymnasium(task, task.max_steps), world)
        for threads in (1, 4):
            assert same(lived(task, NativeEngine(task, task.max_steps, threads), world), expected)
        assert len(np.unique(expected.returns)) > 3


def steered(task: Task, gains: list[float], seed: int) -> float:
    env = make(task)
    seen, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        seen, reward, over, _, _ = env.step(np.clip(np.array(gains) * seen, -1.0, 1.0).astype(np.float32))
        total += reward
    return total


def test_right_signs_earn_a_target_each_and_one_wrong_sign_costs_more_than_standing_still() -> None:
    task = find("motors-4")
    right = np.mean([steered(task, [4.0] * 4, seed) for seed in range(10)])
    one_wrong = np.mean([steered(task, [4.0, 4.0, 4.0, -4.0], seed) for seed in range(10)])
    assert 48.0 < right < 52.0  # of 50 targets
    assert one_wrong < 0.0 and steered(task, [0.0] * 4, 0) == 0.0


def test_the_motors_tasks_are_wired_either_way_and_an_oracle_is_told_how() -> None:
    for name in MOTORS:
        task = CHANGING_TASKS[name]
        resolved = configure(name, senses=["world"])
        assert resolved.engine == "native" and resolved.config.world.change == EITHER_WAY
        assert resolved.task.inputs[task.n_inputs :] == tuple(f"change {i}" for i in range(task.n_outputs))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs=3"], "env_kwargs = 'runs' is not allowed"),
        (["targets=0"], "targets = 0 is not allowed; it must be a whole number of 1 to 10,000"),
        (["steps=1.5"], "steps = 1.5 is not allowed"),
    ],
)
def test_motors_that_cannot_be_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(NeolError, match=said):
        find("motors-2", words)


def test_a_picture_shows_each_axis_on_its_rail() -> None:
    env = make(find("motors-2"), render_mode="rgb_array")
    env.reset(seed=3)
    left = env.unwrapped._state[3:].copy()
    image = env.render()
    assert (image == GREEN).all(axis=2).any()
    for i, half in enumerate((image[:115], image[115:230])):
        middle = np.argwhere((half == INK).all(axis=2)).mean(axis=0)[1]
        assert middle == pytest.approx(W / 2 - left[i] * (W - 80) / 4.0, abs=2.0)


# -- another world to be tested in -------------------------------------------------------------------------------------


def test_a_champion_is_measured_in_a_world_that_training_never_met(tmp_path: Path) -> None:
    other = ["action gain=0.25"]
    run = neol.train("motors-2", out=tmp_path / "run", rule="none", test_change=other, **TINY)
    again = neol.train("motors-2", out=tmp_path / "same", rule="none", **TINY)
    s = run.summary
    assert (
        again.summary.champion_test_return_mean is None and "champion_test_return_mean" not in again.summary.as_dict()
    )
    assert run.champion_path.read_bytes() == again.champion_path.read_bytes()  # it has no part in any choice
    task = find("motors-2", TINY["env_kwargs"])
    world = world_of(task, other, task.max_steps)
    ph = run.champion.network.phenotype
    life = life_of(task, PlasticityConfig(rule="none"), world=world)
    which = Episodes(run.config.run.seed, seeding.HELD_OUT, 0, 4, common=True)
    expected = NativeEngine(task, task.max_steps, 1).run(ph, life, which).returns[0]
    assert s.champion_test_return_mean == pytest.approx(float(expected.mean()), abs=1e-12)
    low, high = s.champion_test_return_ci95 or (0.0, 0.0)
    assert low < s.champion_test_return_mean < high


def test_a_test_world_that_does_not_fit_is_refused() -> None:
    with pytest.raises(NeolError, match="change = 'action dead of=7' is not allowed"):
        configure("motors-2", test_change=["action dead of=7"])
    with pytest.raises(NeolError, match="test_change = 3 is not allowed; it must be a list of texts"):
        configure("motors-2", test_change=3)


def test_a_test_world_with_attributes_needs_gymnasium() -> None:
    assert configure("cartpole", test_change=["env gravity=20"]).engine == "gymnasium"
    assert configure("ant-dead-leg").config.world.test_change[2] == "action dead of=6,7 p=1 group=leg"


def test_the_cheetahs_direction_turns_the_forward_reward_and_not_the_cost_of_control() -> None:
    task = find("halfcheetah-direction")
    made = make(task)
    assert made.observation_space.shape == (task.n_inputs,) and made.action_space.shape == (task.n_outputs,)
    rewards = []
    for weight in (1.0, -1.0):
        env = make(task)
        env.reset(seed=1)
        env.unwrapped._forward_reward_weight = weight
        _, reward, _, _, info = env.step(np.full(6, 0.5, np.float32))
        rewards.append((reward, info["x_velocity"], info["reward_ctrl"]))
    (forward, speed, cost), (backward, _, _) = rewards
    assert forward == pytest.approx(speed + cost, abs=1e-9) and backward == pytest.approx(-speed + cost, abs=1e-9)


# -- baselines in a world that changes ---------------------------------------------------------------------------------


def linear(gains: np.ndarray) -> Policy:
    weights = np.diag(gains).astype(np.float32)
    return Policy((weights,), (np.zeros(len(gains), np.float32),), "tanh", CLIP, np.zeros(0), np.zeros(0))


def test_a_policy_meets_the_lives_that_a_network_meets() -> None:
    task, changes, lives = find("motors-2", ["targets=6"]), [*EITHER_WAY, "observation offset=0.1 of=1 from=20"], 8
    world = world_of(task, changes, task.max_steps)
    seeds = seeding.episode_seeds(3, seeding.HELD_OUT, 0, 1, lives, True)
    names = life_names(3, seeding.HELD_OUT, 0, 1, lives, True)
    returns, steps = play(linear(np.array([1.0, 1.0])), task, seeds, task.max_steps, 1, world, names)
    for e in range(lives):  # in plain Python, with what the life's own name draws
        name = life_name(3, seeding.HELD_OUT, 0, 0, e)
        assert int(names[e]) == name
        signs = [-1.0 if drawn(name, i, 0) < 0.5 else 1.0 for i in range(2)]
        env, total = make(task), 0.0
        seen, _ = env.reset(seed=int(seeds[e]))
        for t in range(60):
            seen = seen + np.array([0.0, 0.1 if t >= 20 else 0.0])
            action = np.clip(np.float32(seen), -1.0, 1.0) * np.array(signs)
            seen, reward, _, _, _ = env.step(action.astype(np.float32))
            total += reward
        assert returns[e] == pytest.approx(total, abs=1e-5) and steps[e] == 60
    assert len(np.unique(np.sign(returns))) == 2


@pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision")
def test_every_episode_of_a_vectorised_environment_is_a_life_of_its_own() -> None:
    task = find("motors-1", ["targets=2", "steps=2"])
    world = world_of(task, ["action invert p=0.5", "reward absent p=0.5"], 4)
    names = np.arange(40, dtype=np.uint64) + np.uint64(5)
    env = PoolEnv(task, np.arange(40, dtype=np.int32), 4, world=world, names=names)
    env.reset()
    felt = np.array([env.step(np.ones((40, 1)))[1] for _ in range(40)])  # ten lives of four steps each
    first = np.array([drawn(int(n), 1, 0) < 0.5 for n in names])
    assert (np.abs(felt[:4]).sum(axis=0) == 0.0).tolist() == first.tolist()
    absent = np.abs(felt.reshape(10, 4, 40)).sum(axis=1) == 0.0
    assert 0.35 < absent.mean() < 0.65 and (absent.any(axis=0) & ~absent.all(axis=0)).mean() > 0.9
    returns = np.array([r for r, n in env.finished if n == 4]).reshape(10, 40)  # environment by environment
    assert (returns[absent] != 0.0).mean() > 0.6  # what is counted stays
    lander = TASKS["lunarlander"]
    plain, scaled = (
        PoolEnv(lander, np.arange(2, dtype=np.int32), 50, world=w, names=names[:2])
        for w in (UNCHANGED, world_of(lander, ["reward scale=2", "observation gain=3 of=0"], 50))
    )
    before, after = plain.reset(), scaled.reset()
    np.testing.assert_allclose(after[:, 0], 3.0 * before[:, 0], rtol=1e-6)
    one, two = plain.step(np.zeros((2, 2))), scaled.step(np.zeros((2, 2)))
    np.testing.assert_allclose(two[1], 2.0 * one[1], rtol=1e-6)
    np.testing.assert_allclose(two[0][:, 1:], one[0][:, 1:], rtol=1e-6)


def test_a_baselines_world_stands_in_its_config_and_no_other_config_changes() -> None:
    own = baseline_config("ppo", "motors-4", 1000)
    assert own.change == EITHER_WAY and read(own.to_toml(), "x") == own
    none = baseline_config("ppo", "motors-4", 1000, change=())
    assert none.change == () and read(none.to_toml(), "x") == none
    assert "change" not in baseline_config("ppo", "lunarlander", 1000).flat()
    lander = baseline_config("ppo", "lunarlander", 1000, change=["action invert of=side p=0.5"])
    assert read(lander.to_toml(), "x") == lander and lander.flat()["change"] == ("action invert of=side p=0.5",)
    with pytest.raises(NeolError, match="a baseline chooses the actions of 'cartpole'"):
        baseline_config("ppo", "cartpole", 1000, change=["action invert"])
