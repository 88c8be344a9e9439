"""EnvPool and Gymnasium: the same genome on the same initial states earns the same return.

EnvPool draws an environment's start from a Mersenne twister as C++ does; `Twister` draws the very same numbers for
Gymnasium's environment, so that both begin in one state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neol.config.sections import PlasticityConfig
from neol.envs.registry import find, make
from neol.envs.tasks import Task
from neol.neat.evolution import Neat
from neol.network.phenotype import compile_phenotypes
from neol.rollout.envpool_player import EnvPoolPlayer
from neol.rollout.gymnasium_player import GymnasiumPlayer
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes, Played, ShardedRollout
from neol.training.configure import configure

RULES = {
    "static": PlasticityConfig(rule="none"),
    "plastic": PlasticityConfig(rule="hebb", lr=0.25, reward_scale=0.01),
}


class Twister:
    """std::mt19937 with libstdc++'s distributions, behind the names of numpy's Generator that these tasks use."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.RandomState(seed)

    def _word(self) -> int:
        return int(self._words.randint(0, 2**32, dtype=np.uint64))

    def _canonical(self) -> float:
        """generate_canonical<double, 53>: two words, the first the lower."""
        low, high = self._word(), self._word()
        return (low + high * 2.0**32) / 2.0**64

    def uniform(self, low: float, high: float, size: Any = None) -> Any:
        if size is None:
            return self._canonical() * (high - low) + low
        return np.array([self._canonical() * (high - low) + low for _ in range(int(np.prod(size)))]).reshape(size)

    def integers(self, low: int, high: int) -> int:
        """uniform_int_distribution on a 32-bit generator: Lemire's product, rejected where it would be biased."""
        count = high - low
        product = self._word() * count
        while product % 2**32 < (2**32 - count) % count:
            product = self._word() * count
        return low + (product >> 32)


class Matched(GymnasiumPlayer):
    """Gymnasium's environments with EnvPool's random numbers."""

    def play(self, shard: Any) -> Played:
        player = self

        class Seeded:
            def __init__(self, env: Any) -> None:
                self.env, self.close = env, env.close

            def step(self, action: Any) -> Any:
                observation, reward, *rest = self.env.step(action)
                return observation, np.float32(reward), *rest  # as EnvPool has it; plasticity makes much of a bit

            def reset(self, seed: int) -> Any:
                self.env.unwrapped._np_random = Twister(seed)
                return self.env.reset()

        self._make = lambda: Seeded(make(player.task))
        return super().play(shard)

    def _episode(self, *arguments: Any) -> None:
        self._env = self._make()  # type: ignore[attr-defined]
        super()._episode(*arguments)


def plan(task: Task, rule: PlasticityConfig, genomes: int) -> ShardedRollout:
    neat = configure(task.name, pop_size=genomes).config.neat
    outer = Neat(neat, task.n_inputs, task.n_outputs, 4)
    for _ in range(3):
        outer.tell(np.arange(genomes, dtype=float))
    phenotypes = compile_phenotypes(outer.ask(), task.n_inputs, task.n_outputs)
    return ShardedRollout(task, phenotypes, life_of(task, rule), Episodes(3, 2, 0, 2, False))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ("cartpole", "bipedalwalker"))
def test_matched_initial_states_give_the_same_returns(name: str, rule: str) -> None:
    task = find(name)
    of = plan(task, RULES[rule], 12)
    shard = of.shard(0, of.total)
    fast = EnvPoolPlayer(task, 300, threads=1).play(shard).records
    slow = Matched(task, 300).play(shard).records
    assert fast.steps.tolist() == slow.steps.tolist()
    assert fast.returns.std() > 0.0
    apart = np.abs(fast.returns - slow.returns)
    if name == "cartpole":
        assert apart.max() == 0.0
    elif rule == "static":
        assert apart.max() < 1e-5  # EnvPool's rewards are computed in float32
    else:  # there plasticity writes a reward's last bits into the weights, and a walker's contacts make much of them
        assert np.median(apart) < 1e-4
        assert apart.max() < 2.0
