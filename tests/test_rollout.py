"""Rollouts: the same bits however they are run, and the same as a plain loop over EnvPool's public interface."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.runtime import rtsys
from numba.core.runtime._nrt_python import memsys_enable_stats

from neol import seeding
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.deploy import network_json
from neol.deploy.plastic_network import PlasticNetwork
from neol.deploy.task_interface import to_document as interface
from neol.envs.registry import import_envpool
from neol.envs.tasks import TASKS, Task
from neol.neat.evolution import Neat
from neol.neat.genome import Genomes, take
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.rollout import shards as rollout
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.life import Life, life_of
from neol.rollout.shards import EPOCH, Episodes, RolloutResult

# Strong enough to move weights within a few steps of any task.
HEBB = PlasticityConfig(rule="hebb", lr=0.5, reward_scale=0.05)
LESSONS = {
    "none": PlasticityConfig(rule="none"),
    "hebb": HEBB,
    "oja with trace, next step": PlasticityConfig(
        rule="oja", lr=0.5, reward_scale=0.02, trace_decay=0.9, reward_credit="next-step"
    ),
    "bcm": PlasticityConfig(rule="bcm", lr=0.5, reward_scale=0.05, output_transform="none", weight_limit=1.5),
}

every_task = pytest.mark.parametrize("name", TASKS)
pytestmark = pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision")  # EnvPool's declared spaces


def population(task: Task, size: int, seed: int = 0, growth: int = 4, feed_forward: bool = True) -> Genomes:
    """Genomes of various structure: some generations of NEAT under a random fitness."""
    config = NeatConfig(
        pop_size=size, elitism=0, conn_add_prob=0.4, conn_delete_prob=0.3, node_add_prob=0.6, feed_forward=feed_forward
    )
    outer, rng = Neat(config, task.n_inputs, task.n_outputs, seed), np.random.default_rng(seed)
    for _ in range(growth):
        outer.tell(rng.normal(size=size))
    return outer.genomes


def compiled(task: Task, genomes: Genomes) -> Phenotypes:
    return compile_phenotypes(genomes, task.n_inputs, task.n_outputs)


def episodes(n: int, generation: int = 0, seed: int = 11, common: bool = True) -> Episodes:
    return Episodes(seed, seeding.EPISODE, generation, n, common)


def play(
    task: Task, phenotypes: Phenotypes, which: Episodes, lesson: PlasticityConfig = HEBB, steps: int = 120, **how: int
) -> RolloutResult:
    engine = EnvPoolEngine(task, steps, **{"threads": 1, **how})
    try:
        return engine.run(phenotypes, life_of(task, lesson), which)
    finally:
        engine.close()


def same(a: RolloutResult, b: RolloutResult) -> bool:
    arrays = [(*r[:3], *r.moments) for r in (a, b)]
    equal = all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(*arrays, strict=True))
    return equal and a.failures == b.failures


# -- however it is run -------------------------------------------------------------------------------------------------


@every_task
def test_threads_and_window_do_not_change_a_bit(name: str) -> None:
    task, size = TASKS[name], 9
    phenotypes, which = compiled(task, population(task, size)), episodes(2, common=False)
    expected = play(task, phenotypes, which, threads=1, window=1)
    assert expected.returns.shape == expected.steps.shape == (size, 2)
    assert len(np.unique(expected.returns)) > size
    for threads in (1, 2):
        for window in (0, 1, 8, 64, size):
            assert same(play(task, phenotypes, which, threads=threads, window=window), expected), (threads, window)
    for threads in (3, 2 * size + 5):
        assert same(play(task, phenotypes, which, threads=threads, window=2), expected), threads


@pytest.mark.parametrize("name", [t.name for t in TASKS.values() if not t.reusable])
def test_chunks_do_not_change_a_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS[name]
    phenotypes = compiled(task, population(task, 7))
    for common in (True, False):
        whole = play(task, phenotypes, episodes(2, common=common))
        for chunk in (1, 2, 5, 13):
            monkeypatch.setattr(rollout, "CHUNK", chunk)
            for threads in (1, 2):
                chunked = play(task, phenotypes, episodes(2, common=common), threads=threads, window=3)
                assert same(chunked, whole), (common, chunk, threads)
        monkeypatch.undo()


def test_one_engine_used_again_gives_what_fresh_ones_give() -> None:
    task = TASKS["lunarlander"]
    first, second = (compiled(task, population(task, 5, seed)) for seed in (1, 2))
    engine = EnvPoolEngine(task, 80, threads=1)
    for phenotypes, which in ((first, episodes(2)), (second, episodes(1, 3)), (first, episodes(2))):
        got = engine.run(phenotypes, life_of(task, HEBB), which)
        assert same(got, play(task, phenotypes, which, steps=80))


def test_networks_without_connections_run() -> None:
    task = TASKS["lunarlander"]
    config = NeatConfig(pop_size=4, initial_connection="unconnected")
    phenotypes = compiled(task, Neat(config, task.n_inputs, task.n_outputs, 0).genomes)
    result = play(task, phenotypes, episodes(2), steps=30)
    assert result.weight.shape == (0,)
    assert np.isfinite(result.returns).all()


# -- against a plain loop over the public interface --------------------------------------------------------------------


def plain_pool(task: Task, seed: int, steps: int) -> Any:
    envpool = import_envpool()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return envpool.make(
            task.id, env_type="gymnasium", num_envs=1, seed=[seed], num_threads=1, max_episode_steps=steps
        )


def network_of(task: Task, genomes: Genomes, p: int, lesson: PlasticityConfig, recurrent: bool) -> PlasticNetwork:
    document = network_json.to_document(compiled(task, genomes), genomes, p, recurrent)
    document["plasticity"] = vars(lesson)
    document["interface"] = interface(task)
    return PlasticNetwork.from_json(document)


def action_of(task: Task, net: PlasticNetwork, observation: np.ndarray) -> np.ndarray:
    """As an array of one env. `act` gives float32; a task with float64 actions is written out."""
    if task.name != "hopper":  # whose actions EnvPool takes in float64
        return np.array([net.act(observation)], np.float32 if task.action_shape else np.int32)
    low, high = (np.array([getattr(c, side) for c in task.components]) for side in ("low", "high"))
    return np.array([low + 0.5 * (np.clip(net.activate(observation), -1.0, 1.0) + 1.0) * (high - low)])


def plain_episode(
    task: Task, net: PlasticNetwork, seed: int, steps: int, resets: int = 1, floor: float = -np.inf
) -> tuple[float, int]:
    """Return and length of one life: gymnasium's reset and step, PlasticNetwork's act and reward."""
    pool = plain_pool(task, seed, steps)
    for _ in range(resets):
        observation, _ = pool.reset()
    net.reset()
    total, count, over = 0.0, 0, False
    while not over:
        observation, reward, terminated, truncated, _ = pool.step(action_of(task, net, observation[0]))
        net.reward(float(reward[0]))
        counted = max(float(reward[0]), floor)
        total, count, over = total + counted, count + 1, bool(terminated[0] or truncated[0])
    pool.close()
    return total, count


def weights_by_pair(genomes: Genomes, ph: Phenotypes, weight: np.ndarray, p: int) -> dict[tuple[int, int], float]:
    edges = range(ph.edges(p).start, ph.edges(p).stop)
    return {(int(genomes.source[p, ph.gene[e]]), int(genomes.target[p, ph.gene[e]])): float(weight[e]) for e in edges}


@every_task
@pytest.mark.parametrize("rule", LESSONS)
def test_a_rollout_equals_a_plain_loop_over_envpools_public_interface(name: str, rule: str) -> None:
    task, lesson, steps, n = TASKS[name], LESSONS[rule], 150, 2
    genomes = population(task, 4, seed=3)
    phenotypes = compiled(task, genomes)
    for generation in (0, 2):  # a reusable env has 2 resets behind it by then; others are always fresh
        which = episodes(n, generation, common=False)
        result = play(task, phenotypes, which, lesson, steps, window=3)
        epoch = generation if task.reusable else 0
        seeds = seeding.episode_seeds(which.seed, which.purpose, generation - epoch, 4, n, False).reshape(4, n)
        for p in range(4):
            net = network_of(task, genomes, p, lesson, recurrent=False)
            for e in range(n):
                expected = plain_episode(task, net, int(seeds[p, e]), steps, resets=epoch + 1)
                assert (result.returns[p, e], result.steps[p, e]) == expected
            assert weights_by_pair(genomes, phenotypes, result.weight, p) == net.weights  # the last episode's
    assert (result.weight != phenotypes.weight).any() == (rule != "none")


def test_a_rollout_of_recurrent_networks_equals_a_plain_loop() -> None:
    task, steps = TASKS["lunarlander"], 150
    genomes = population(task, 6, seed=5, growth=6, feed_forward=False)
    phenotypes = compiled(task, genomes)
    assert phenotypes.remembers.any()
    result = play(task, phenotypes, episodes(1), HEBB, steps)
    seeds = seeding.episode_seeds(11, seeding.EPISODE, 0, 6, 1, True)
    for p in range(6):
        net = network_of(task, genomes, p, HEBB, recurrent=True)
        assert (result.returns[p, 0], result.steps[p, 0]) == plain_episode(task, net, int(seeds[p]), steps)
        assert weights_by_pair(genomes, phenotypes, result.weight, p) == net.weights


@pytest.mark.parametrize("name", ["lunarlander", "bipedalwalker"])
def test_a_floor_under_rewards_counts_beside_the_return_and_changes_nothing_else(name: str) -> None:
    task, steps, floor = TASKS[name], 300, -0.5
    genomes = population(task, 4, seed=3)
    phenotypes, which = compiled(task, genomes), episodes(2)
    without = play(task, phenotypes, which, HEBB, steps)
    engine = EnvPoolEngine(task, steps, threads=2, window=3)
    result = engine.run(phenotypes, life_of(task, HEBB, reward_floor=floor), which)
    engine.close()
    assert same(result, without) and (without.fitness(0.0) == without.returns).all()
    assert (result.fitness(0.0) > result.returns + 90.0).any()  # of those who fall
    seeds = seeding.episode_seeds(11, seeding.EPISODE, 0, 4, 2, True).reshape(4, 2)
    for p in range(4):
        net = network_of(task, genomes, p, HEBB, recurrent=False)
        for e in range(2):
            expected = plain_episode(task, net, int(seeds[p, e]), steps, floor=floor)
            assert (result.fitness(0.0)[p, e], result.steps[p, e]) == expected


# -- episodes ----------------------------------------------------------------------------------------------------------


@every_task
def test_with_common_random_numbers_identical_genomes_get_identical_returns(name: str) -> None:
    task = TASKS[name]
    phenotypes = compiled(task, take(population(task, 2), [1] * 6))
    shared = play(task, phenotypes, episodes(2, common=True)).returns
    assert (shared == shared[0]).all()
    assert shared[0, 0] != shared[0, 1] or name == "cartpole"  # whose returns are small whole numbers


@every_task
def test_without_common_random_numbers_identical_genomes_get_different_returns(name: str) -> None:
    task = TASKS[name]
    phenotypes = compiled(task, take(population(task, 2), [1] * 12))
    own = play(task, phenotypes, episodes(1, common=False), steps=task.max_steps)
    assert len(np.unique(own.returns)) > 1
    assert len(np.unique(own.weight)) > len(phenotypes.weight) // 12


@every_task
def test_common_random_numbers_hold_for_populations_larger_than_a_chunk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASKS[name]
    phenotypes = compiled(task, take(population(task, 2), [1] * 6))
    monkeypatch.setattr(rollout, "CHUNK", 4)
    shared = play(task, phenotypes, episodes(2, common=True)).returns
    assert (shared == shared[0]).all()


@every_task
def test_every_generation_and_every_seed_has_its_own_episodes(name: str) -> None:
    task = TASKS[name]
    phenotypes = compiled(task, population(task, 6))
    lives = [episodes(1, 0), episodes(1, 1), episodes(1, EPOCH), episodes(1, EPOCH + 1), episodes(1, 0, seed=12)]
    weights = [play(task, phenotypes, which).weight.tobytes() for which in lives]
    assert len(set(weights)) == len(lives)


@every_task
def test_max_steps_truncates(name: str) -> None:
    task = TASKS[name]
    phenotypes = compiled(task, population(task, 6))
    short, long = (play(task, phenotypes, episodes(2), steps=steps) for steps in (7, 60))
    assert (short.steps == np.minimum(long.steps, 7)).all()
    assert long.steps.max() > 7
    assert short.env_steps == short.steps.sum()


@every_task
def test_the_weights_that_come_back_are_those_of_the_last_episode(name: str) -> None:
    task = TASKS[name]
    genomes = population(task, 3)
    phenotypes = compiled(task, genomes)
    result = play(task, phenotypes, episodes(3, common=False), window=2)
    seeds = seeding.episode_seeds(11, seeding.EPISODE, 0, 3, 3, False).reshape(3, 3)
    for p in range(3):
        lives = []
        for e in range(3):
            net = network_of(task, genomes, p, HEBB, recurrent=False)
            plain_episode(task, net, int(seeds[p, e]), 120)
            lives.append(net.weights)
        assert weights_by_pair(genomes, phenotypes, result.weight, p) == lives[2]
        assert lives[0] != lives[2]


# -- reusable environments ---------------------------------------------------------------------------------------------

reusable = pytest.mark.parametrize("name", [t.name for t in TASKS.values() if t.reusable])


@reusable
def test_an_episode_does_not_depend_on_what_was_done_in_its_env_before(name: str) -> None:
    task = TASKS[name]
    before, other, then = (compiled(task, population(task, 6, seed)) for seed in (1, 2, 3))
    still = life_of(task, PlasticityConfig(rule="none"))
    results = []
    for earlier, lesson in ((before, life_of(task, HEBB)), (other, still)):
        engine = EnvPoolEngine(task, 200, threads=2)
        histories = [engine.run(earlier, lesson, episodes(2, g)) for g in range(3)]
        results.append((histories, engine.run(then, life_of(task, HEBB), episodes(2, 3))))
        engine.close()
    (first_life, first), (second_life, second) = results
    assert not any(same(a, b) for a, b in zip(first_life, second_life, strict=True))
    assert same(first, second)


@reusable
def test_a_fresh_engine_at_a_later_generation_gives_what_one_that_ran_them_all_gives(name: str) -> None:
    task = TASKS[name]
    lesson = life_of(task, HEBB)
    populations = [compiled(task, population(task, 4, seed)) for seed in range(3)]
    engine = EnvPoolEngine(task, 100, threads=1)
    for generation in range(EPOCH + 3):
        phenotypes, which = populations[generation % 3], episodes(2, generation, common=False)
        result = engine.run(phenotypes, lesson, which)
        if generation in (0, 5, EPOCH - 1, EPOCH, EPOCH + 2):
            assert same(play(task, phenotypes, which, steps=100, threads=2, window=3), result), generation
    engine.close()


@reusable
def test_other_episodes_in_between_do_not_change_a_generation(name: str) -> None:
    """An engine serves training, the champion's choice and evaluation in turn; one may even go back a generation."""
    task = TASKS[name]
    lesson = life_of(task, HEBB)
    few, many = compiled(task, population(task, 3)), compiled(task, population(task, 5))
    engine = EnvPoolEngine(task, 60, threads=1)
    for phenotypes, which in (
        (many, episodes(2, 4)),
        (few, Episodes(11, seeding.SELECTION, 0, 3, True)),
        (many, episodes(2, 5)),
        (many, episodes(2, 4)),
        (many, episodes(1, 6)),
    ):
        assert same(engine.run(phenotypes, lesson, which), play(task, phenotypes, which, steps=60))
    engine.close()


@reusable
def test_chunks_of_reused_envs_do_not_depend_on_threads_window_or_history(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASKS[name]
    lesson = life_of(task, HEBB)
    monkeypatch.setattr(rollout, "CHUNK", 4)
    phenotypes = compiled(task, population(task, 7))
    engine = EnvPoolEngine(task, 60, threads=1)
    for generation in range(3):
        which = episodes(2, generation)
        expected = engine.run(phenotypes, lesson, which)
        assert same(play(task, phenotypes, which, steps=60, threads=2, window=2), expected)
    engine.close()


def test_a_rollout_only_reads_genomes_and_phenotypes() -> None:
    task = TASKS["lunarlander"]
    genomes = population(task, 4)
    phenotypes = compiled(task, genomes)
    before = [a.tobytes() for a in genomes] + [np.asarray(a).tobytes() for a in phenotypes]
    lesson: Life = life_of(task, HEBB)
    result = EnvPoolEngine(task, 50, threads=1).run(phenotypes, lesson, episodes(2))
    assert before == [a.tobytes() for a in genomes] + [np.asarray(a).tobytes() for a in phenotypes]
    assert (result.weight != phenotypes.weight).any()


def test_environments_die_with_their_rollout(tmp_path: Path) -> None:
    """In a fresh process: what is alive at EnvPool's own import would stay alive, with 60 MB of MuJoCo."""
    code = """
import gc, weakref
import neol
from neol.rollout import envpool_player as envpool_engine

made, make = [], envpool_engine.make_envpool
def noted(*arguments, **rest):
    pool = make(*arguments, **rest)
    made.append(weakref.ref(pool))
    return pool
envpool_engine.make_envpool = noted
neol.train("hopper", out="r", pop_size=4, generations=18, episodes=1, max_steps=5, threads=1, champion_candidates=1,
           champion_trials=1, champion_episodes=2)
gc.collect()
print(len(made), sum(ref() is not None for ref in made))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    count, alive = map(int, done.stdout.split()[-2:])
    assert count >= 3 and alive == 0, done.stderr


def test_rollouts_keep_no_reference_to_anything() -> None:
    """The step kernels count no references, those around them do: what they take they give back."""
    task = TASKS["cartpole"]
    ph = compiled(task, population(task, 6))
    arrays = [part for part in ph if isinstance(part, np.ndarray)]

    def held() -> list[int]:
        gc.collect()
        stats = rtsys.get_allocation_stats()
        return [stats.mi_alloc - stats.mi_free, *map(sys.getrefcount, arrays)]

    memsys_enable_stats()
    play(task, ph, episodes(2), window=3)
    before = held()
    for _ in range(5):
        play(task, ph, episodes(2), window=3)
    assert held() == before


def test_networks_that_do_not_fit_the_task_are_refused() -> None:
    lander = TASKS["lunarlander"]
    with pytest.raises(ValueError, match="4 inputs cannot play a task with 8"):
        play(lander, compiled(TASKS["cartpole"], population(TASKS["cartpole"], 2)), episodes(1))
