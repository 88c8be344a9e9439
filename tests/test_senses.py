"""Senses: the last reward, its advantage, the last action and the world's changes as inputs of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

import neol

REWARDS = (0.5, -1.0, 2.0, 0.25, 4.0, -0.5)
RATE = 0.05  # reward_mean_rate
TINY: dict[str, Any] = {
    "pop_size": 8, "elitism": 1, "generations": 2, "episodes": 2, "champion_candidates": 2, "champion_trials": 2,
    "champion_episodes": 3, "progress": False,
}  # fmt: skip


class Script(gymnasium.Env):  # type: ignore[type-arg]
    """Shows t, pays REWARDS[t] whatever is done, and writes down what is done."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    done: ClassVar[list[np.ndarray]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.0]), {}

    def step(self, action: Any) -> Any:
        self.done.append(np.array(action, np.float64))
        reward, self.t = REWARDS[self.t], self.t + 1
        return np.array([float(self.t)]), reward, self.t == len(REWARDS), False, {}


def network(weights: dict[tuple[int, int], float], inputs: int) -> dict[str, Any]:
    """Two outputs, sums of weighted inputs."""
    own = {"activation": {"name": "identity"}, "aggregation": {"name": "sum"}, "bias": 0.0, "response": 1.0}
    return {
        "format_version": "1.0",
        "network_type": "feedforward",
        "metadata": {},
        "topology": {"input_keys": [-1 - i for i in range(inputs)], "output_keys": [0, 1]},
        "nodes": [{"id": o, "type": "output", **own} for o in range(2)],
        "connections": [{"from": a, "to": b, "weight": w} for (a, b), w in weights.items()],
    }


def champion(weights: dict[tuple[int, int], float], inputs: int, senses: list[str]) -> neol.PlasticNetwork:
    document = network(weights, inputs)
    document["interface"] = {
        "senses": senses,
        "observation": [{"path": [], "kind": "numbers", "shape": [1]}],
        "action": {
            "kind": "parts", "shape": [2], "dtype": "float64",
            "parts": [{"kind": "free", "first": o, "width": 1, "low": None, "high": None} for o in range(2)],
        },
    }  # fmt: skip
    return neol.PlasticNetwork.from_json(document)


def played(net: neol.PlasticNetwork, **how: Any) -> np.ndarray:
    """The actions f8 (T, 2) of one episode, as the kernels choose them."""
    Script.done = []
    neol.evaluate(net, Script, episodes=1, **how)
    return np.array(Script.done)


def deployed(net: neol.PlasticNetwork) -> np.ndarray:
    """The same, one step after the other."""
    net.reset()
    out = []
    for t, reward in enumerate(REWARDS):
        out.append(net.activate([float(t)]))
        net.reward(reward)
    return np.array(out)


def test_a_network_senses_its_last_reward_and_how_far_it_was_above_the_mean() -> None:
    net = champion({(-2, 0): 1.0, (-3, 1): 1.0}, 3, ["reward", "advantage"])
    mean, expected = 0.0, [(0.0, 0.0)]
    for reward in REWARDS[:-1]:
        expected.append((reward, reward - mean))
        mean += RATE * (reward - mean)
    assert np.allclose(played(net), expected, rtol=0, atol=1e-12)
    assert np.array_equal(deployed(net), played(net))


def test_a_network_senses_its_last_action_clipped_to_one() -> None:
    weights = {(-1, 0): 0.3, (-1, 1): -0.5, (-2, 1): 10.0, (-3, 0): 0.5}
    net = champion(weights, 3, ["action"])
    last, expected = (0.0, 0.0), []
    for t in range(len(REWARDS)):
        out = (0.3 * t + 0.5 * last[1], -0.5 * t + 10.0 * last[0])
        expected.append(out)
        last = tuple(min(max(x, -1.0), 1.0) for x in out)  # type: ignore[assignment]
    assert np.allclose(played(net), expected, rtol=0, atol=1e-12)
    assert np.array_equal(deployed(net), played(net))


def test_an_oracle_is_told_which_changes_act() -> None:
    net = champion({(-2, 0): 1.0, (-3, 1): 1.0}, 3, ["world"])
    changes = ["reward scale=2 from=2 to=4", "observation offset=1 from=3"]
    assert played(net, change=changes).tolist() == [[0, 0], [0, 0], [1, 0], [1, 1], [0, 1], [0, 1]]
    assert played(net, change=changes[:1]).tolist() == [[0, 0], [0, 0], [1, 0], [1, 0], [0, 0], [0, 0]]
    with pytest.raises(neol.NeolError, match="3 changes are not allowed; the network is told of 2"):
        played(net, change=[*changes, "reward scale=3"])


def test_senses_are_scaled_with_the_observations_and_kept_in_the_champion(tmp_path: Path) -> None:
    senses = ("action", "reward")
    run = neol.train("cartpole", out=tmp_path / "a", senses=senses, normalize_observations=True, max_steps=40, **TINY)
    own = run.champion.interface
    assert own["senses"] == ["reward", "action"]
    assert own["inputs"][4:] == ["last reward", "last left", "last right"]
    assert len(own["normalization"]["mean"]) == 7
    assert own["normalization"]["mean"][4] > 0.5  # a reward of 1 but at the beginning
    assert neol.evaluate(run, episodes=3).returns.shape == (3,)


@pytest.mark.parametrize(
    ("task", "how"),
    [
        ("cartpole", ({"window": 3}, {"window": 7, "threads": 2}, {"workers": 2})),
        ("tmaze", ({"engine": "native"}, {"engine": "gymnasium"}, {"threads": 2})),
    ],
)
def test_runs_with_senses_have_the_same_bits_wherever_they_are_played(task: str, how: Any, tmp_path: Path) -> None:
    texts = set()
    for i, own in enumerate(how):
        settings = {"trials": 2, "change": ("action invert p=0.5",), "rule": "hebb", "max_steps": 40}
        senses = ("reward", "advantage", "action", "world")
        neol.train(task, out=tmp_path / str(i), senses=senses, **settings, **own, **TINY)
        texts.add((tmp_path / str(i) / "history.csv").read_text(encoding="utf-8"))
    assert len(texts) == 1


def test_senses_that_there_are_not_are_refused() -> None:
    with pytest.raises(neol.NeolError, match="senses = 'smell' is not allowed"):
        neol.Config().replace(senses=("smell",))
    with pytest.raises(neol.NeolError, match="senses = 'world' is not allowed; there is no change"):
        neol.train("cartpole", senses="world", progress=False)
    with pytest.raises(neol.NeolError, match="senses = .*must be of reward, advantage, action, world"):
        champion({}, 3, ["sight"])
    with pytest.raises(neol.NeolError, match="1 observed inputs and senses that do not fit 3"):
        champion({}, 3, ["reward"])
    with pytest.raises(neol.NeolError, match="a batch of observations is not allowed"):
        champion({}, 3, ["action"]).predict(np.zeros((4, 1)))


def test_a_network_with_senses_is_not_exported_as_code(tmp_path: Path) -> None:
    with pytest.raises(neol.NeolError, match="the network has senses"):
        neol.export_controller(champion({}, 3, ["action"]), out=tmp_path / "net.h")
    assert not (tmp_path / "net.h").exists()
