"""One episode on Gymnasium: what is seen of it while it is lived, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neol.config.sections import NeatConfig, PlasticityConfig
from neol.deploy import network_json
from neol.deploy.plastic_network import PlasticNetwork
from neol.deploy.task_interface import to_document
from neol.envs.registry import find, make
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.neat.genome import Genomes, first_population, take
from neol.network.phenotype import compile_phenotypes
from neol.rollout.gymnasium_episode import Moment, one_life
from neol.rollout.gymnasium_player import GymnasiumPlayer
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes, ShardedRollout

HEBB = {"rule": "hebb", "lr": 0.5, "reward_scale": 0.05}


@pytest.fixture(autouse=True)
def _environments_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "envs")


def genome(task: Task) -> Genomes:
    return take(first_population(NeatConfig(pop_size=2), task.n_inputs, task.n_outputs, 5)[0], [0])


def lived(task: Task, seed: int, steps: int, every: int = 1, **settings: Any) -> Iterator[Moment]:
    phenotype = compile_phenotypes(genome(task), task.n_inputs, task.n_outputs)
    return one_life(task, phenotype, life_of(task, PlasticityConfig(**{**HEBB, **settings})), seed, steps, every)


@pytest.mark.parametrize("name", ["lunarlander", "trouble:Kitchen", "FrozenLake-v1"])
def test_every_moment_is_that_of_a_deployed_network_in_a_plain_loop(name: str) -> None:
    task = find(name)
    phenotype = compile_phenotypes(genome(task), task.n_inputs, task.n_outputs)
    document = network_json.to_document(phenotype, genome(task), 0, False)
    settings = vars(PlasticityConfig(**HEBB))
    net = PlasticNetwork.from_json({**document, "interface": to_document(task), "plasticity": settings}, trust=True)
    moments = [m._replace(weights=m.weights.copy()) for m in lived(task, 4, 30)]
    env, total, count = make(task), 0.0, 0
    observation, _ = env.reset(seed=4)
    for moment in moments:
        if moment.step:
            action = net.act(observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            net.reward(float(reward))
            total += float(reward)
            assert np.array_equal(moment.action, action) and type(moment.action) is type(action)
            assert (moment.reward, moment.over) == (reward, terminated or truncated or moment.step == 30)
        assert (moment.step, moment.total) == (count, total)
        assert str(moment.observation) == str(observation)
        assert moment.weights.tolist() == list(net.weights.values())
        count += 1
    assert count > 2


def test_an_episode_seen_at_every_step_is_the_one_that_training_plays() -> None:
    task = find("lunarlander")
    phenotype = compile_phenotypes(genome(task), task.n_inputs, task.n_outputs)
    life = life_of(task, PlasticityConfig(**HEBB))
    plan = ShardedRollout(task, phenotype, life, Episodes(9, 2, 0, 1, False))
    records = GymnasiumPlayer(task, 50).play(plan.shard(0, 1)).records
    for every in (1, 7, 50, 1000):
        *_, last = one_life(task, phenotype, life, int(plan.seeds[0]), 50, every)
        assert (last.total, last.step) == (records.returns[0], records.steps[0])
        assert last.weights.tobytes() == records.weight.tobytes()


def test_moments_come_every_so_many_steps_and_at_the_end() -> None:
    assert [m.step for m in lived(find("lunarlander"), 1, 20, every=8)] == [0, 8, 16, 20]
    assert [m.step for m in lived(find("lunarlander"), 1, 16, every=8)] == [0, 8, 16]


@pytest.mark.parametrize(
    ("kind", "words"),
    [("raise", "RuntimeError: the motor is on fire"), ("nan", "NotFinite: step 3"), ("shape", "WrongObservation")],
)
def test_an_episode_that_fails_is_one_sentence(kind: str, words: str) -> None:
    task = find("trouble:Trouble", ["share=1.0", f"kinds={kind}"])
    with pytest.raises(NeolError, match=f"an episode of 'trouble:Trouble' failed: {words}"):
        list(lived(task, 0, 10))


def test_an_environment_that_is_given_is_left_open() -> None:
    task = find("cartpole")
    env = make(task)
    phenotype, life = compile_phenotypes(genome(task), 4, 2), life_of(task, PlasticityConfig(**HEBB))
    both = [list(one_life(task, phenotype, life, 3, 200, env=env))[-1].total for _ in range(2)]
    assert both[0] == both[1] > 0.0
    env.reset()
