"""Environments of gradient learners on Gymnasium: worlds whose attributes change, beside plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from life_oracle import drawn

from neol.baselines import settings as baseline_settings
from neol.baselines.policy import Policy, play
from neol.baselines.vec_env import PoolEnv
from neol.cli import main as cli
from neol.envs.registry import find, make
from neol.envs.tasks import CHANGING_TASKS, Leaf, Task, _numbers
from neol.errors import NeolError
from neol.network.actions import bounded
from neol.rollout.world import world_of

CHEETAH, POLE = CHANGING_TASKS["halfcheetah-direction"], CHANGING_TASKS["cartpole-gravity"]
DIRECTION = CHEETAH.settings["change"]
NAMES = np.arange(6, dtype=np.uint64) + np.uint64(11)


def runs_backward(name: int) -> bool:
    return drawn(name, 0, 0) < 0.5


def reflexes(inputs: int, outputs: int) -> Policy:
    """Every output follows one input: no sums, whose rounding depends on how many rows there are."""
    weights = np.zeros((inputs, outputs), np.float32)
    weights[np.arange(outputs) + 2, np.arange(outputs)] = np.random.default_rng(4).normal(0.0, 2.0, outputs)
    nothing = np.zeros(0)
    return Policy((weights,), (np.zeros(outputs, np.float32),), "tanh", "clip", nothing, nothing)


def test_lives_of_a_policy_are_those_of_a_plain_loop_that_sets_the_attribute_itself() -> None:
    policy, seeds = reflexes(17, 6), np.arange(6) + 100
    returns, steps = play(policy, CHEETAH, seeds, 40, 1, world_of(CHEETAH, DIRECTION, 40), NAMES)
    assert (steps == 40).all()
    for seed, name, found in zip(seeds.tolist(), NAMES.tolist(), returns, strict=True):
        env, total = make(CHEETAH), 0.0
        seen, _ = env.reset(seed=seed)
        env.unwrapped._forward_reward_weight = -1.0 if runs_backward(name) else 1.0
        for _ in range(40):
            seen, reward, _, _, _ = env.step(policy.act(np.asarray(seen)[None])[0])
            total += float(reward)
        assert found == total
        env.close()
    assert {runs_backward(n) for n in NAMES.tolist()} == {True, False}


def test_an_attribute_changes_at_its_step_and_is_back_when_the_next_episode_begins() -> None:
    world = world_of(POLE, ["env gravity=40 from=5"], 12)
    env = PoolEnv(POLE, np.array([7], np.int32), 12, world=world, names=NAMES[:1])
    plain: Any = make(POLE)
    seen, expected = env.reset()[0], plain.reset(seed=7)[0]
    np.testing.assert_array_equal(seen, expected)
    steps = begun = 0
    for t in range(60):
        plain.unwrapped.gravity = 40.0 if steps >= 5 else 9.8
        action = t % 2
        expected, _, terminated, _, _ = plain.step(action)
        steps += 1
        seen, _, done, infos = env.step(np.array([action]))
        assert done[0] == (terminated or steps == 12)
        if done[0]:
            np.testing.assert_array_equal(infos[0]["terminal_observation"], expected)
            assert infos[0]["TimeLimit.truncated"] == (not terminated)
            expected, steps, begun = plain.reset()[0], 0, begun + 1
        np.testing.assert_array_equal(seen[0], expected)
    assert begun >= 4
    env.close()


class Clock(gymnasium.Env):  # type: ignore[type-arg]
    """Ends by itself after three steps, by a limit of its own or by a failure; may break, in every way."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, end: str = "cut") -> None:
        self.end, self.t = end, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.t += 1
        if self.end == "break":
            raise RuntimeError("a spring broke")
        if self.end == "exit":
            raise SystemExit(3)
        seen = np.full(1, np.nan if self.end == "nan" else self.t, np.float32)
        reward: Any = {"nothing": None, "huge": 1e300}.get(self.end, 0.1)
        answer = (seen, reward, self.t == 3 and self.end == "fail", self.t == 3 and self.end == "cut", {})
        return answer[:4] if self.end == "four" else answer  # type: ignore[return-value]

    def close(self) -> None:
        raise RuntimeError("it does not close")


def clock(end: str) -> Task:
    inputs: tuple[Leaf, ...] = _numbers(("t",))
    return Task("clock", "Clock", 9, ("t",), ("a",), bounded((-1.0,), (1.0,)), inputs, (1,), maker=lambda: Clock(end))


@pytest.mark.parametrize(("end", "truncated"), [("cut", True), ("fail", False)])
def test_a_limit_of_the_environments_own_is_no_failure(end: str, truncated: bool) -> None:
    env = PoolEnv(clock(end), np.arange(2, dtype=np.int32), 9, engine="gymnasium")
    env.reset()
    for t in range(1, 7):
        _, _, done, infos = env.step(np.zeros((2, 1)))
        assert done.tolist() == [t % 3 == 0] * 2
        if done[0]:
            assert [i["TimeLimit.truncated"] for i in infos] == [truncated] * 2
    assert env.finished == [(0.1 + 0.1 + 0.1, 3)] * 4  # in double precision
    env.close()  # whatever it raises


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("break", "RuntimeError: a spring broke"),
        ("exit", "SystemExit: 3"),
        ("nan", "observation array"),
        ("four", "not enough values"),
        ("nothing", "TypeError"),
        ("huge", "reward 1e[+]300"),  # infinite in single precision, in which it would be learned from
    ],
)
def test_an_environment_that_breaks_ends_the_run_with_a_sentence(end: str, words: str) -> None:
    env = PoolEnv(clock(end), np.arange(1, dtype=np.int32), 9, engine="gymnasium")
    env.reset()
    with pytest.raises(NeolError, match=f"an episode of 'clock' failed: .*{words}"):
        env.step(np.zeros((1, 1)))
    env.close()


def test_an_environment_that_does_not_close_can_be_used_all_the_same() -> None:
    task = find(lambda: Clock("cut"))
    assert (task.n_inputs, task.n_outputs) == (1, 1)


@pytest.mark.parametrize("task", ["halfcheetah-direction", "ant-dead-leg", "cartpole-mass", "cartpole-gravity"])
def test_every_world_of_the_map_has_settings_of_ppo_with_its_own_changes(task: str) -> None:
    config = baseline_settings.baseline_config("ppo", task, 1000)
    assert config.change == CHANGING_TASKS[task].settings["change"]
    assert baseline_settings.read(config.to_toml(), "it") == config


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Ant-v4"], "unknown task 'Ant-v4'"),  # it has no dead leg
        (["halfcheetah-direction", "--change", "env _forward_reward_wait=-1"], "has no _forward_reward_wait"),
        (["cartpole-gravity", "--change", "env step=3"], "step of 'cartpole-gravity' is no number but a method"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x"
    assert cli.main(["baseline", "ppo", arguments[0], "--max-env-steps=9", *arguments[1:], f"--out={out}"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and words in err
    assert not out.exists()
