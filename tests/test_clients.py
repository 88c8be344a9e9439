"""Real clients of what a run leaves: Stable-Baselines3's evaluation, neat-python's JSON and networks, TensorBoard."""

from __future__ import annotations

import json
import math
import os
import signal
import warnings
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import gymnasium
import neat
import numpy as np
import pytest
from conftest import assert_near
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from neat.export.json_format import validate_json
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import neol
from neol.envs.tasks import TASKS
from neol.training import run_folder
from neol.training.observers import Generation
from neol.training.train import train

SMALL: dict[str, Any] = {
    "pop_size": 12, "generations": 3, "episodes": 1, "max_steps": 60, "seed": 2, "threads": 1, "num_hidden": 3,
    "champion_candidates": 2, "champion_trials": 1, "champion_episodes": 2, "reward_scale": 0.05,
}  # fmt: skip
VARIED: dict[str, Any] = {
    "activation_default": "random", "activation_options": ("tanh", "clamped", "sin", "gauss", "relu", "sigmoid"),
    "aggregation_default": "random", "aggregation_options": ("sum", "mean", "max"), "node_add_prob": 0.5,
    "response_init_stdev": 0.3,
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, neol.Run]:
    folder = tmp_path_factory.mktemp("clients")
    return {
        "cartpole": train("cartpole", out=folder / "cartpole", rule="oja", **SMALL),
        "lunarlander": train("lunarlander", out=folder / "lunarlander", rule="hebb", tensorboard=True, **SMALL),
        "varied": train("lunarlander", out=folder / "varied", rule="bcm", **SMALL, **VARIED),
        "recurrent": train("lunarlander", out=folder / "recurrent", feed_forward=False, **SMALL),
    }


# -- Stable-Baselines3 -------------------------------------------------------------------------------------------------


def evaluate_policy(
    model: Any, env: SyncVectorEnv, n_eval_episodes: int, seed: list[int]
) -> tuple[list[float], list[int]]:
    """Stable-Baselines3's evaluate_policy (common/evaluation.py, return_episode_rewards=True), line by line.

    Its VecEnv resets an env in the step that ends an episode, which is Gymnasium's AutoresetMode.SAME_STEP.
    """
    n_envs = env.num_envs
    episode_rewards: list[float] = []
    episode_lengths: list[int] = []
    episode_counts = np.zeros(n_envs, dtype="int")
    episode_count_targets = np.array([(n_eval_episodes + i) // n_envs for i in range(n_envs)], dtype="int")
    current_rewards, current_lengths = np.zeros(n_envs), np.zeros(n_envs, dtype="int")
    observations, _ = env.reset(seed=seed)
    states = None
    episode_starts = np.ones((env.num_envs,), dtype=bool)
    while (episode_counts < episode_count_targets).any():
        actions, states = model.predict(observations, state=states, episode_start=episode_starts, deterministic=True)
        new_observations, rewards, terminated, truncated, _ = env.step(actions)
        dones = terminated | truncated
        current_rewards += rewards
        current_lengths += 1
        for i in range(n_envs):
            if episode_counts[i] < episode_count_targets[i]:
                episode_starts[i] = dones[i]
                if dones[i]:
                    episode_rewards.append(current_rewards[i])
                    episode_lengths.append(int(current_lengths[i]))
                    episode_counts[i] += 1
                    current_rewards[i] = 0
                    current_lengths[i] = 0
        observations = new_observations
    return episode_rewards, episode_lengths


def plain_returns(net: neol.PlasticNetwork, env_id: str, seed: int, episodes: int) -> list[float]:
    """One env, one network, no reward told."""
    env = gymnasium.make(env_id, max_episode_steps=60)
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        net.reset()
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(net.act(observation))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


@pytest.mark.parametrize("name", ["cartpole", "lunarlander", "recurrent"])
def test_stable_baselines3s_evaluation_loop_runs_the_champion(name: str, runs: dict[str, neol.Run]) -> None:
    env_id = TASKS[runs[name].config.run.task].id
    env = SyncVectorEnv(
        [lambda: gymnasium.make(env_id, max_episode_steps=60)] * 2, autoreset_mode=AutoresetMode.SAME_STEP
    )
    returns, lengths = evaluate_policy(runs[name].champion, env, 6, seed=[5, 6])
    expected = [plain_returns(runs[name].champion, env_id, seed, 3) for seed in (5, 6)]
    assert sorted(returns) == sorted(
        r for lives in expected for r in lives
    )  # every life starts anew, none sees another's memory
    assert len(lengths) == 6
    assert 1 <= min(lengths) <= max(lengths) <= 60


def test_stable_baselines3_itself_evaluates_the_champion(runs: dict[str, neol.Run]) -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    make_vec_env = pytest.importorskip("stable_baselines3.common.env_util").make_vec_env
    for name in ("cartpole", "lunarlander"):
        env = make_vec_env(TASKS[name].id, n_envs=2, seed=0)
        returns, lengths = evaluation.evaluate_policy(
            runs[name].champion, env, n_eval_episodes=4, return_episode_rewards=True, warn=False
        )
        assert len(returns) == len(lengths) == 4
        assert np.isfinite(returns).all()


def test_predict_returns_actions_that_the_space_contains(runs: dict[str, neol.Run]) -> None:
    for name in ("cartpole", "lunarlander"):
        space = gymnasium.make(TASKS[name].id).action_space
        net, rng = runs[name].champion, np.random.default_rng(0)
        state = None
        for _ in range(5):
            batch = rng.normal(size=(3, TASKS[name].n_inputs)).astype(np.float32)
            actions, state = net.predict(batch, state=state, episode_start=np.zeros(3, bool))
            single, _ = net.predict(batch[0])
            assert len(actions) == 3
            assert all(space.contains(a) for a in actions)
            assert space.contains(single if single.ndim else single[()])


def test_one_network_learns_when_its_client_tells_it_rewards(runs: dict[str, neol.Run]) -> None:
    """`predict` with one observation, then `reward`: the same life as `act` and `reward`."""
    nets = [runs["lunarlander"].champion for _ in range(2)]
    rng = np.random.default_rng(1)
    for net in nets:
        net.reset()
    for step in range(30):
        observation, reward = rng.normal(size=8), float(rng.normal())
        action, state = nets[0].predict(observation, episode_start=np.array([step == 0]))
        assert state is None
        assert (action == nets[1].act(observation)).all()
        for net in nets:
            net.reward(reward)
    assert nets[0].weights == nets[1].weights != runs["lunarlander"].champion.weights


def test_copies_in_a_batch_do_not_disturb_the_network_itself(runs: dict[str, neol.Run]) -> None:
    net, untouched = runs["recurrent"].champion, runs["recurrent"].champion
    rng = np.random.default_rng(2)
    state = None
    for _ in range(10):
        observation = rng.normal(size=8)
        _, state = net.predict(rng.normal(size=(4, 8)), state=state, episode_start=np.array([0, 1, 0, 1], bool))
        assert (net.activate(observation) == untouched.activate(observation)).all()


# -- neat-python -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cartpole", "lunarlander", "varied", "recurrent"])
def test_neat_pythons_own_check_accepts_the_champion(name: str, runs: dict[str, neol.Run]) -> None:
    validate_json(json.loads(runs[name].champion_path.read_text(encoding="utf-8")))


def neat_network(document: dict[str, Any]) -> neat.nn.FeedForwardNetwork:
    """neat-python's network from its JSON format, with neat-python's own functions."""
    activations = neat.activations.ActivationFunctionSet()
    aggregations = neat.aggregations.AggregationFunctionSet()
    nodes = {n["id"]: n for n in document["nodes"] if n["type"] != "input"}
    links: dict[int, list[tuple[int, float]]] = {node: [] for node in nodes}
    for c in document["connections"]:
        if c["enabled"]:
            links[c["to"]].append((c["from"], c["weight"]))
    order = TopologicalSorter({node: [source for source, _ in into] for node, into in links.items()}).static_order()
    evaluations = [
        (
            node,
            activations.get(nodes[node]["activation"]["name"]),
            aggregations.get(nodes[node]["aggregation"]["name"]),
            nodes[node]["bias"],
            nodes[node]["response"],
            links[node],
        )
        for node in order
        if node in nodes
    ]
    topology = document["topology"]
    return neat.nn.FeedForwardNetwork(topology["input_keys"], topology["output_keys"], evaluations)


@pytest.mark.parametrize("name", ["cartpole", "lunarlander", "varied"])
def test_neat_pythons_network_made_from_the_champion_gives_our_outputs(name: str, runs: dict[str, neol.Run]) -> None:
    path = runs[name].champion_path
    theirs = neat_network(json.loads(path.read_text(encoding="utf-8")))
    plain = {"rule": "none", "output_transform": "none", "preactivation_limit": math.inf}
    ours = neol.PlasticNetwork.from_json(path, **plain)
    assert len(theirs.node_evals) > 2  # there are hidden nodes
    rng = np.random.default_rng(0)
    for observation in rng.normal(scale=2.0, size=(50, len(theirs.input_nodes))):
        assert_near(ours.activate(observation), theirs.activate(observation.tolist()))


def test_a_network_that_neat_python_exports_runs_here(runs: dict[str, neol.Run]) -> None:
    """There and back: our champion as neat-python's network, exported by neat-python, read by us without plasticity."""
    theirs = neat_network(json.loads(runs["varied"].champion_path.read_text(encoding="utf-8")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its datetime.utcnow
        exported = json.loads(neat.export.export_network_json(theirs))
    ours = neol.PlasticNetwork.from_json(exported)
    for observation in np.random.default_rng(3).normal(size=(20, 8)):
        assert_near(ours.activate(observation), theirs.activate(observation.tolist()))


# -- TensorBoard -------------------------------------------------------------------------------------------------------


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def expected_scalars(run: neol.Run) -> dict[str, list[tuple[int, float]]]:
    """Over env steps; event files hold float32."""
    history = run.history
    return {
        f"neol/{name}": [(int(s), float(np.float32(v))) for s, v in zip(history["env_steps"], column, strict=True)]
        for name, column in history.items()
    }


def test_tensorboard_reads_our_events_and_their_values_are_the_historys(runs: dict[str, neol.Run]) -> None:
    assert scalars(runs["lunarlander"].path) == expected_scalars(runs["lunarlander"])


def test_there_are_no_event_files_unless_asked_for(runs: dict[str, neol.Run]) -> None:
    assert not (runs["cartpole"].path / "tensorboard").exists()


def test_event_files_change_nothing_else(runs: dict[str, neol.Run], tmp_path: Path) -> None:
    plain = train("lunarlander", out=tmp_path / "run", rule="hebb", **SMALL)
    for name in (run_folder.HISTORY, run_folder.CHAMPION):
        assert (plain.path / name).read_bytes() == (runs["lunarlander"].path / name).read_bytes()


def test_the_events_of_an_interrupted_and_resumed_run_are_those_of_its_history(tmp_path: Path) -> None:
    def press(state: Generation) -> None:
        if state.row["generation"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    settings = {**SMALL, "tensorboard": True, "generations": 5}
    with pytest.raises(KeyboardInterrupt):
        train("cartpole", out=tmp_path / "run", callback=press, **settings)
    run = train("cartpole", out=tmp_path / "run", resume=True, **settings)
    assert scalars(run.path) == expected_scalars(run)
