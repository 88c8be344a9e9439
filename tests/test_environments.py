"""Any environment as a task: its spaces as inputs and outputs, its name, its arguments, the engine that runs it."""

from __future__ import annotations

import json
import math
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import neol
from neol.deploy.plastic_network import PlasticNetwork
from neol.deploy.task_interface import read, to_document
from neol.envs.registry import choose_engine, find, make, parse_kwargs
from neol.envs.spaces import (
    Flattener,
    WrongObservation,
    leaves_from_json,
    leaves_to_json,
    read_action,
    read_observation,
)
from neol.envs.tasks import CHANGING_TASKS, TASKS, Task
from neol.errors import NeolError
from neol.neat.evolution import Neat
from neol.network.actions import ARGMAX, BINARY, BOUNDED, FREE, Component
from neol.network.phenotype import compile_phenotypes
from neol.rollout.gymnasium_player import GymnasiumPlayer
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes, ShardedRollout
from neol.training.configure import configure

ENVS = Path(__file__).parent / "envs"


@pytest.fixture(autouse=True)
def _environments_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ENVS)


# -- observations -------------------------------------------------------------------------------------------------


def test_every_observation_space_is_flattened_with_names_kept() -> None:
    task = find("trouble:Kitchen")
    assert task.inputs == (
        "arm.0", "arm.1 0", "arm.1 1", "camera 0 0", "camera 0 1", "camera 1 0", "camera 1 1",
        "pots 0=0", "pots 0=1", "pots 1=0", "pots 1=1", "pots 1=2", "room=5", "room=6", "room=7",
    )  # fmt: skip
    observation = {
        "camera": np.array([[1, 2], [3, 255]], np.uint8),
        "room": 6,
        "arm": (np.float32(0.5), np.array([1, 0], np.int8)),
        "pots": np.array([1, 2]),
    }
    row = Flattener(task.leaves)(observation)
    assert row.tolist() == [0.5, 1, 0, 1, 2, 3, 255, 0, 1, 0, 0, 1, 0, 1, 0]


@given(data=st.data())
def test_flattening_agrees_with_gymnasiums_own(data: Any) -> None:
    """Gymnasium's flatten one-hots Discrete and MultiDiscrete parts too, and joins the parts in the same order."""
    leaf = st.sampled_from(
        [spaces.Box(-1, 1, (2, 3)), spaces.Discrete(4), spaces.MultiBinary(3), spaces.MultiDiscrete([2, 5]),
         spaces.Box(0, 1, ())]
    )  # fmt: skip
    space = data.draw(
        st.one_of(
            leaf,
            st.lists(leaf, min_size=1, max_size=3).map(lambda parts: spaces.Tuple(parts)),
            st.dictionaries(st.text("abc", min_size=1), leaf, min_size=1, max_size=3).map(spaces.Dict),
        )
    )
    space.seed(data.draw(st.integers(0, 1000)))
    leaves, names = read_observation(space, "it")
    sample = space.sample()
    assert np.array_equal(Flattener(leaves)(sample), spaces.flatten(space, sample).astype(np.float64))
    assert len(names) == len(set(names)) == spaces.flatdim(space)
    assert leaves_from_json(json.loads(json.dumps(leaves_to_json(leaves)))) == leaves


@pytest.mark.parametrize(
    "space", (spaces.Text(3), spaces.Sequence(spaces.Discrete(2)), spaces.Graph(spaces.Discrete(2), None)), ids=str
)
def test_an_observation_space_that_no_network_reads_is_named_with_what_to_wrap_it_with(space: Any) -> None:
    kind = type(space).__name__
    with pytest.raises(NeolError, match=rf"pump has a {kind} observation space.*TransformObservation"):
        read_observation(space, "pump")
    with pytest.raises(NeolError, match=rf"a {kind} observation space at inner\.0,"):
        read_observation(spaces.Dict({"inner": spaces.Tuple((space,))}), "pump")


@pytest.mark.parametrize("bad", (np.zeros(3), np.zeros((1, 2)), 0.5, None))
def test_an_observation_of_another_shape_is_refused(bad: Any) -> None:
    with pytest.raises(WrongObservation):
        Flattener(read_observation(spaces.Box(0, 1, (2,)), "it")[0])(bad)


@pytest.mark.parametrize("bad", (4, -1, 0.5, np.array([1]), None, "x"))
def test_a_discrete_observation_outside_its_values_is_refused(bad: Any) -> None:
    with pytest.raises(WrongObservation):
        Flattener(read_observation(spaces.Discrete(4), "it")[0])(bad)


# -- actions ------------------------------------------------------------------------------------------------------


def test_every_action_space_is_read_as_components() -> None:
    assert read_action(spaces.Discrete(3, start=-1), "it") == (
        (Component(ARGMAX, 0, 3, -1.0),), ("-1", "0", "1"), (), "int64",
    )  # fmt: skip
    parts, names, shape, dtype = read_action(spaces.MultiDiscrete([2, 3]), "it")
    assert parts == (Component(ARGMAX, 0, 2), Component(ARGMAX, 2, 3))
    assert names == ("0=0", "0=1", "1=0", "1=1", "1=2")
    assert (shape, dtype) == ((2,), "int64")
    parts, names, shape, dtype = read_action(spaces.MultiBinary(2), "it")
    assert (parts, shape, dtype) == ((Component(BINARY, 0), Component(BINARY, 1)), (2,), "int8")
    box = spaces.Box(np.array([-1.0, -np.inf, 0.0]), np.array([3.0, np.inf, np.inf]), dtype=np.float64)
    parts, _, shape, dtype = read_action(box, "it")
    assert [p.kind for p in parts] == [BOUNDED, FREE, FREE]
    assert (parts[0].low, parts[0].high, parts[2].low, parts[2].high) == (-1.0, 3.0, 0.0, math.inf)
    assert (shape, dtype) == ((3,), "float64")


@pytest.mark.parametrize("kind", ("multidiscrete", "multibinary", "discrete", "mixed", "matrix"))
def test_actions_of_every_kind_are_valid_in_their_environment_trained_deployed_and_filmed(
    kind: str, tmp_path: Path
) -> None:
    """Kitchen asserts that its action space contains each action."""
    run = neol.train(
        "trouble:Kitchen", out=tmp_path / "r", env_kwargs=[f"action={kind}"], pop_size=4, generations=1, episodes=1,
        workers=1, champion_trials=1, champion_episodes=2,
    )  # fmt: skip
    assert run.summary.engine == "gymnasium"
    champion = run.champion
    assert champion.interface["env_kwargs"] == {"action": kind}
    played = neol.evaluate(champion, episodes=3, seed=1)
    assert (played.steps == 6).all()
    task = find("trouble:Kitchen", [f"action={kind}"])
    assert (
        read(json.loads(json.dumps({"interface": to_document(task)})), 15, task.n_outputs).components == task.components
    )
    env = make(task)
    observation, _ = env.reset(seed=4)
    champion.reset()
    for _ in range(6):  # by hand, on the environment's own observations
        observation, reward, _, _, _ = env.step(champion.act(observation))
        champion.reward(reward)
    assert np.array_equal(
        champion.predict(observation, episode_start=[True])[0], (champion.reset(), champion.act(observation))[1]
    )
    film, total = neol.replay(champion, tmp_path / "k.gif", max_steps=6)
    assert film.stat().st_size > 0 and math.isfinite(total)


def test_an_action_space_that_no_network_drives_is_named() -> None:
    with pytest.raises(NeolError, match=r"'trouble:Kitchen' has a Tuple action space.*TransformAction"):
        find("trouble:Kitchen", ["action=tuple"])
    with pytest.raises(NeolError, match=r"'trouble:Words' has a Text observation space"):
        find("trouble:Words")


# -- names and arguments ------------------------------------------------------------------------------------------


def test_a_gymnasium_id_is_described_from_its_spaces() -> None:
    task = find("Acrobot-v1")
    assert (task.n_inputs, task.n_outputs, task.max_steps) == (6, 3, 500)
    assert find("CartPole-v1") == TASKS["cartpole"] == find("cartpole")


def test_words_become_arguments() -> None:
    given_words = ["a=1", "b=-2.5", "c=true", "d=None", "e=8x8", 'f=["S","F"]', "g=", "h=a=b"]
    expected = {"a": 1, "b": -2.5, "c": True, "d": None, "e": "8x8", "f": ["S", "F"], "g": "", "h": "a=b"}
    assert parse_kwargs(given_words) == expected
    for bad in ("a", "=1", "a b=1"):
        with pytest.raises(NeolError, match="env_kwargs"):
            parse_kwargs([bad])
    with pytest.raises(NeolError, match="each key once"):
        parse_kwargs(["a=1", "a=2"])


def test_arguments_reach_the_environment() -> None:
    env = make(find("LunarLander-v3", ["gravity=-5.0"]))
    assert env.unwrapped.gravity == -5.0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cartpool", ["unknown task or environment 'cartpool'", "cartpole"]),
        ("CartPole-v9", ["CartPole-v9", "CartPole-v"]),
        ("nowhere.at_all:Env-v0", ["no module 'nowhere.at_all'"]),
        ("trouble:Trubble", ["Trubble"]),
        ("trouble:KINDS", ["KINDS"]),
        ("trouble:time", ["time"]),
        ("python:make", ["python:make", "from Python"]),
        ("", ["unknown"]),
        (":Foo", ["unknown"]),
    ],
)
def test_a_name_that_finds_nothing_is_one_sentence(name: str, words: list[str]) -> None:
    with pytest.raises(NeolError) as caught:
        find(name)
    assert all(w in str(caught.value) for w in words), caught.value


def test_what_an_environment_itself_raises_is_one_sentence() -> None:
    with pytest.raises(NeolError, match="cannot make environment 'trouble:Trouble'.*TypeError.*colour"):
        find("trouble:Trouble", ["colour=red"])
    with pytest.raises(NeolError, match="cannot make environment 'cartpole'.*foo"):
        find("cartpole", ["foo=1"])
    with pytest.raises(NeolError, match="SystemExit: 3"):
        find(lambda: sys.exit(3))
    with pytest.raises(NeolError, match="made a int, which is not a Gymnasium environment"):
        find(lambda: 3)
    with pytest.raises(NeolError, match="env_kwargs are not allowed with a callable"):
        find(lambda: gymnasium.make("CartPole-v1"), ["a=1"])


def test_a_module_in_the_current_folder_is_found_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "my_module.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import PendulumEnv\n"
        "gymnasium.register('MyEnv-v0', PendulumEnv, max_episode_steps=17)\n"
    )
    options = ["--pop-size", "4", "--generations", "1", "--episodes", "1", "--workers", "1", "--champion-trials", "1",
               "--champion-episodes", "2", "--json"]  # fmt: skip
    command = [sys.executable, "-m", "neol", "train", "my_package.my_module:MyEnv-v0", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["env_steps"] == 4 * 17
    assert "gymnasium" in done.stderr
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name.startswith("my_package.my_module-MyEnv-v0-hebb-0")
    assert (made / "champion.json").is_file()


# -- engines ------------------------------------------------------------------------------------------------------


def test_auto_takes_envpool_where_it_can_run_the_very_same_thing() -> None:
    for name in TASKS:
        assert choose_engine(find(name), "auto")[0] == "envpool"
    assert choose_engine(find("Acrobot-v1"), "auto")[0] == "envpool"
    assert choose_engine(find("Taxi-v4"), "auto") == ("gymnasium", "EnvPool has no 'Taxi-v4'")
    engine, why = choose_engine(find("LunarLander-v3", ["gravity=-5.0"]), "auto")
    assert engine == "gymnasium" and "gravity" in why
    assert choose_engine(find("Ant-v5", ["ctrl_cost_weight=0.1"]), "auto")[0] == "envpool"
    engine, why = choose_engine(find("Blackjack-v1"), "auto")  # a Tuple here, a Box there
    assert engine == "gymnasium" and "other spaces" in why
    assert choose_engine(find(lambda: gymnasium.make("CartPole-v1")), "auto")[0] == "gymnasium"
    assert choose_engine(find("cartpole"), "gymnasium")[0] == "gymnasium"
    with pytest.raises(NeolError, match=r"engine = 'envpool' is not allowed with 'Taxi-v4': EnvPool has no 'Taxi-v4'"):
        choose_engine(find("Taxi-v4"), "envpool")


def test_the_choice_is_saved(tmp_path: Path) -> None:
    small: dict[str, Any] = {"pop_size": 4, "generations": 1, "champion_trials": 1, "champion_episodes": 2}
    run = neol.train("FrozenLake-v1", out=tmp_path / "a", max_steps=5, **small)
    assert run.config.rollout.engine == run.summary.engine == "envpool"
    run = neol.train("FrozenLake-v1", out=tmp_path / "b", max_steps=5, env_kwargs=["map_name=8x8"], workers=1, **small)
    assert run.config.rollout.engine == run.summary.engine == "gymnasium"
    assert len(run.champion.interface["inputs"]) == 64


def test_everything_works_where_envpool_is_not_installed(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'envpool' else real(name, *a)\n"
        "sys.modules['envpool'] = None\n"
        "import neol\n"
        "run = neol.train('cartpole', out='r', pop_size=4, generations=2, workers=1, max_steps=20,\n"
        "                 champion_trials=1, champion_episodes=2)\n"
        "print(run.summary.engine, neol.evaluate(run.champion, episodes=2).steps.max() > 0)\n"
        "try:\n    neol.train('cartpole', out='q', engine='envpool')\n"
        "except neol.NeolError as e:\n    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[0] == "gymnasium True", done.stderr
    assert "EnvPool is not installed" in done.stdout.splitlines()[1]


# -- one episode, by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("lunarlander", "trouble:Kitchen", "FrozenLake-v1"))
@pytest.mark.parametrize("rule", ("none", "oja"))
def test_a_rollout_equals_a_plain_loop_over_gymnasium(name: str, rule: str) -> None:
    task = find(name)
    config = configure(name, rule=rule, lr=0.5, reward_scale=0.1, pop_size=6, elitism=0).config
    outer = Neat(config.neat, task.n_inputs, task.n_outputs, 5)
    genomes = outer.ask()
    phenotypes = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    plan = ShardedRollout(task, phenotypes, life_of(task, config.plasticity), Episodes(9, 2, 0, 2, False))
    played = GymnasiumPlayer(task, 40).play(plan.shard(0, plan.total))
    assert not played.failures
    for episode in range(plan.total):
        net = network_of(task, genomes, phenotypes, episode // 2, config)
        total, steps = plain_episode(task, net, int(plan.seeds[episode]), 40)
        assert (total, steps) == (played.records.returns[episode], played.records.steps[episode])


def network_of(task: Task, genomes: Any, phenotypes: Any, p: int, config: Any) -> PlasticNetwork:
    from neol.deploy import network_json

    document = network_json.to_document(phenotypes, genomes, p, False)
    document["plasticity"] = vars(config.plasticity)
    document["interface"] = to_document(task)
    return PlasticNetwork.from_json(document)


def plain_episode(task: Task, net: PlasticNetwork, seed: int, steps: int) -> tuple[float, int]:
    env = make(task)
    observation, _ = env.reset(seed=seed)
    net.reset()
    total, t, over = 0.0, 0, False
    while not over and t < steps:
        t += 1
        observation, reward, terminated, truncated, _ = env.step(net.act(observation))
        net.reward(float(reward))
        total += float(reward)
        over = terminated or truncated
    return total, t


def test_the_example_of_an_environment_of_ones_own_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "custom_env.py"))
    example["main"](str(tmp_path), generations=2)
    assert "with plasticity" in capsys.readouterr().out
    assert (tmp_path / "river" / "champion.json").is_file() and (tmp_path / "river.gif").stat().st_size > 1000


def test_advice_to_those_who_write_mujocos_models_is_not_shown_to_those_who_use_them(
    capfd: pytest.CaptureFixture[str],
) -> None:
    env = make(CHANGING_TASKS["halfcheetah-direction"])
    env.reset(seed=0)
    env.close()
    assert capfd.readouterr() == ("", "")
