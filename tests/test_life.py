"""Life as one value: its world is met at the same three places on every engine, here and in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from neol import seeding
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.envs.tasks import TASKS
from neol.neat.evolution import Neat
from neol.network.normalization import Normalization
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.gymnasium_episode import one_life
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import Life, life_of
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, RolloutResult
from neol.rollout.world import world_of
from neol.training.configure import configure

LANDER = TASKS["lunarlander"]
STILL, HEBB = PlasticityConfig(rule="none"), PlasticityConfig(rule="hebb", lr=0.5, reward_scale=0.05)
WHICH = Episodes(4, seeding.EPISODE, 0, 2, common=True)
ENGINES: dict[str, Callable[[], Any]] = {
    "envpool": lambda: EnvPoolEngine(LANDER, 60, threads=1),
    "gymnasium": lambda: LocalGymnasium(LANDER, 60),
    "workers": lambda: open_engine(
        LANDER, configure("lunarlander", engine="gymnasium", workers=2, max_steps=60).config.rollout
    ),
}
every_engine = pytest.mark.parametrize("engine", ENGINES)
Play = Callable[[str, Phenotypes, Life], RolloutResult]


def networks(count: int = 4) -> Phenotypes:
    genomes = Neat(NeatConfig(pop_size=count), LANDER.n_inputs, LANDER.n_outputs, 1).ask()
    return compile_phenotypes(genomes, LANDER.n_inputs, LANDER.n_outputs)


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Every engine is opened once, as for all generations of a run: workers take a second to start."""
    opened: dict[str, Any] = {}

    def run(engine: str, phenotypes: Phenotypes, life: Life) -> RolloutResult:
        if engine not in opened:
            opened[engine] = ENGINES[engine]()
        return opened[engine].run(phenotypes, life, WHICH)

    yield run
    for engine in opened.values():
        engine.close()


def same(a: RolloutResult, b: RolloutResult) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a[:3], b[:3], strict=True))


@every_engine
def test_a_world_that_doubles_rewards_doubles_returns_and_the_steps_of_learning(engine: str, play: Play) -> None:
    life = life_of(LANDER, HEBB)
    doubled = play(engine, networks(), life._replace(world=world_of(LANDER, ["reward scale=2"], 60)))
    faster = play(engine, networks(), life._replace(plastic=life.plastic._replace(rate=2.0 * life.plastic.rate)))
    assert same(doubled, faster._replace(returns=2.0 * faster.returns))
    assert not same(doubled, play(engine, networks(), life))


@every_engine
def test_a_world_that_inverts_observations_is_a_network_with_inverted_input_weights(engine: str, play: Play) -> None:
    ph, life = networks(), life_of(LANDER, STILL)
    inverted = ph._replace(weight=np.where(ph.source < ph.inputs, -ph.weight, ph.weight))
    world = world_of(LANDER, ["observation invert"], 60)
    met = play(engine, ph, life._replace(world=world))
    assert met.returns.tobytes() == play(engine, inverted, life).returns.tobytes()
    assert not same(met, play(engine, ph, life))


@every_engine
def test_a_world_that_inverts_actions_is_a_network_with_inverted_outputs(engine: str, play: Play) -> None:
    """The first networks have no hidden node, and their activation is odd."""
    ph, life = networks(), life_of(LANDER, STILL)
    inverted = ph._replace(weight=-ph.weight, bias=-ph.bias)
    met = play(engine, ph, life._replace(world=world_of(LANDER, ["action invert"], 60)))
    assert met.returns.tobytes() == play(engine, inverted, life).returns.tobytes()
    assert not same(met, play(engine, ph, life))


@every_engine
def test_factors_of_one_change_no_bit(engine: str, play: Play) -> None:
    ones = world_of(LANDER, ["observation gain=1", "action gain=1", "reward scale=1", "action dead p=0"], 60)
    life = life_of(LANDER, HEBB)
    assert same(play(engine, networks(), life._replace(world=ones)), play(engine, networks(), life))


@every_engine
def test_a_floor_counts_the_rewards_above_it_as_they_are(engine: str, play: Play) -> None:
    """In plain Python from the rewards of a life seen step by step; learning has the true ones."""
    ph, life = networks(1), life_of(LANDER, HEBB, reward_floor=-1.5)
    result = play(engine, ph, life)
    assert same(result, play(engine, ph, life_of(LANDER, HEBB)))
    assert (result.fitness(0.0) >= result.returns).all() and (result.fitness(0.0) > result.returns).any()
    if engine != "envpool":
        for e, seed in enumerate(seeding.episode_seeds(4, seeding.EPISODE, 0, 1, 2, True).tolist()):
            rewards = [m.reward for m in one_life(LANDER, ph, life, seed, 60)][1:]
            assert result.fitness(0.0)[0, e] == pytest.approx(sum(max(r, -1.5) for r in rewards), rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"world": world_of(TASKS["bipedalwalker"], ["observation loss of=10"], 60)},
        {"world": world_of(TASKS["bipedalwalker"], ["action dead of=3"], 60)},
        {"world": world_of(TASKS["bipedalwalker"], ["action dead of=0"], 60)},
        {"normal": Normalization(True, np.zeros(3), np.ones(3))},
        {"actions": life_of(TASKS["bipedalwalker"], STILL).actions},
    ],
)
def test_a_life_that_does_not_fit_the_networks_is_refused(change: dict[str, Any], play: Play) -> None:
    with pytest.raises(ValueError, match="shape|fit|outputs"):
        play("gymnasium", networks(), life_of(LANDER, STILL)._replace(**change))
