"""T-mazes and the bandit: against plain Python, the same bits on every engine, and what they ask of a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from life_oracle import GOLDEN, MASK, mix
from test_trials import population, same

from neol import seeding
from neol.config.sections import PlasticityConfig
from neol.envs.maze_picture import BLUE, GREEN, INK, ORANGE, H, W
from neol.envs.registry import choose_engine, find, make
from neol.envs.tasks import CHANGING_TASKS, Task
from neol.errors import NeolError
from neol.network.phenotype import compile_phenotypes
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.native_player import NativeEngine
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, RolloutResult
from neol.rollout.world import world_of
from neol.training.configure import configure
from neol.training.train import train

NATIVE = ["tmaze", "double-tmaze", "bandit"]
HEBB = PlasticityConfig(rule="hebb", lr=0.3, reward_scale=0.5, trace_decay=0.5)


def drawn(seed: int, i: int) -> float:
    return (mix((mix((seed + GOLDEN) & MASK) + (i + 1) * GOLDEN) & MASK) >> 11) / 2.0**53


def swaps_of(seed: int, ends: int, runs: int, swaps: int) -> list[int]:
    """The good end of every run."""
    good, part = int(drawn(seed, 0) * ends), runs / (swaps + 1)
    at = {}
    for k in range(1, swaps + 1):
        at[int(k * part - 0.3 * part) + int(drawn(seed, 2 * k) * (int(0.6 * part) + 1))] = k
    goods = []
    for run in range(runs):
        if run in at:
            good = (good + 1 + int(drawn(seed, 2 * at[run] + 1) * (ends - 1))) % ends
        goods.append(good)
    return goods


class PlainMaze:
    """A walk through a T-maze with that many junctions: home, corridor, (junction, arm) ..., end."""

    def __init__(self, seed: int, junctions: int, runs: int = 100, swaps: int = 1) -> None:
        self.goods = swaps_of(seed, 2**junctions, runs, swaps)
        self.way = ["home", "corridor", *(["turn", "arm"] * junctions), "end"]
        self.run, self.at, self.turns, self.reward = 0, 0, "", 0.0

    def look(self) -> list[float]:
        here = self.way[self.at]
        return [
            float(here == "turn"),
            float(here == "end"),
            float(here == "home"),
            self.reward if here == "end" else 0.0,
        ]

    def step(self, where: float) -> tuple[float, bool]:
        here, turn = self.way[self.at], "L" if where < -1 / 3 else "R" if where > 1 / 3 else ""
        if here == "end" or (here == "turn") != bool(turn):
            self.run, self.at, self.turns = self.run + 1, 0, ""
            return (0.0 if here == "end" else -0.4), self.run == len(self.goods)
        self.turns, self.at = self.turns + turn, self.at + 1
        if self.way[self.at] != "end":
            return 0.0, False
        end = int(self.turns.replace("L", "0").replace("R", "1"), 2)
        self.reward = 1.0 if end == self.goods[self.run] else 0.2
        return self.reward, False


class PlainBandit:
    def __init__(self, seed: int, runs: int = 100, swaps: int = 1) -> None:
        self.seed, self.goods, self.run, self.last, self.reward = seed, swaps_of(seed, 2, runs, swaps), 0, -1, 0.0

    def look(self) -> list[float]:
        return [1.0, self.reward, float(self.last == 0), float(self.last == 1)]

    def step(self, arm: float) -> tuple[float, bool]:
        chance = 0.9 if arm == self.goods[self.run] else 0.1
        self.last, self.reward = int(arm), float(drawn(self.seed, 100_000 + self.run) < chance)
        self.run += 1
        return self.reward, self.run == len(self.goods)


def plain(task: Task, seed: int, **kwargs: int) -> Any:
    return (
        PlainBandit(seed, **kwargs) if task.name == "bandit" else PlainMaze(seed, 2 - (task.name == "tmaze"), **kwargs)
    )


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("kwargs", [{}, {"runs": 30, "swaps": 3}, {"runs": 20, "swaps": 0}])
def test_a_walk_equals_plain_python(name: str, kwargs: dict[str, int]) -> None:
    task = find(name, [f"{k}={v}" for k, v in kwargs.items()])
    env, rng, ends, paid = make(task), np.random.default_rng(0), [], set()
    for seed in range(20):
        slow, (seen, _), over, earned = plain(task, seed, **kwargs), env.reset(seed=seed), False, []
        while not over:
            np.testing.assert_allclose(seen, slow.look(), rtol=1e-12)
            turns = getattr(slow, "way", ["arm"])[getattr(slow, "at", 0)] == "turn"
            where = float(rng.choice([-0.9, 0.9, 0.1] if turns else [0.0, 0.0, 0.0, 0.0, 0.7]))
            action = int(rng.integers(2)) if name == "bandit" else np.array([where], np.float32)
            expected = slow.step(float(action if name == "bandit" else action[0]))
            seen, reward, over, _, _ = env.step(action)
            assert (reward, over) == (pytest.approx(expected[0], rel=1e-12), expected[1])
            earned.append(reward)
        ends.append(sum(earned))
        paid |= set(earned)
    assert len(set(ends)) > 5
    assert paid == ({0.0, 1.0} if name == "bandit" else {0.0, 1.0, 0.2, -0.4})


def test_one_side_alone_earns_three_fifths_and_the_good_side_everything() -> None:
    env, totals = make(find("tmaze")), []
    for seed in range(200):
        env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            turn = env.unwrapped._seen[0] == 1.0
            _, reward, over, _, _ = env.step(np.array([0.9 if turn else 0.0], np.float32))
            total += reward
        totals.append(total / 100.0)
        assert 0.2 * 0.65 + 0.35 - 1e-9 <= totals[-1] <= 0.2 * 0.35 + 0.65 + 1e-9  # the swap is at run 35 to 65
    assert 0.58 < float(np.mean(totals)) < 0.62


def play(task: Task, engine: Any, trials: int = 2, world: Any = ()) -> RolloutResult:
    genomes = population(task, 6, feed_forward=False)
    ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    which = Episodes(5, seeding.EPISODE, 1, 3, False, trial_weights=(1.0 / trials,) * trials)
    life = life_of(task, HEBB, world=world_of(task, world, task.max_steps, trials), reward_floor=-0.1)
    try:
        return engine.run(ph, life, which)
    finally:
        engine.close()


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("world", [(), ("action noise=0.3", "reward delay=2", "observation loss of=3 from=150")])
def test_the_native_engine_equals_gymnasium_to_the_bit(name: str, world: tuple[str, ...]) -> None:
    task = CHANGING_TASKS[name]
    world = tuple(w.replace("150", "50") for w in world) if name == "bandit" else world
    expected = play(task, LocalGymnasium(task, task.max_steps), world=world)
    for threads in (1, 2, 5, 40):
        assert same(play(task, NativeEngine(task, task.max_steps, threads), world=world), expected), threads
    assert len(np.unique(expected.returns)) > 3
    assert (expected.fitness(0.0) >= expected.returns).all()


def test_worker_processes_do_not_change_a_bit() -> None:
    task = CHANGING_TASKS["tmaze"]
    expected = play(task, NativeEngine(task, task.max_steps, 1))
    r = configure("tmaze", workers=2).config.rollout
    assert r.engine == "native"
    assert same(play(task, open_engine(task, r)), expected)


def test_a_tmaze_is_trained_and_a_short_episode_is_cut(tmp_path: Any) -> None:
    tiny = {
        "pop_size": 10, "elitism": 1, "generations": 2, "champion_candidates": 2, "champion_trials": 2,
        "champion_episodes": 3, "progress": False, "seed": 1,
    }  # fmt: skip
    run = train("tmaze", out=tmp_path / "run", env_kwargs=["runs=20"], **tiny)
    assert run.summary.engine == "native" and run.config.rollout.max_steps == 100
    assert -8.0 <= run.summary.champion_return_mean <= 20.0
    short = train("bandit", out=tmp_path / "short", max_steps=7, **tiny)
    assert set(short.history["mean_steps"]) == {7.0}


def test_cartpoles_that_change_at_step_200_are_tasks() -> None:
    for name, attribute in (("cartpole-mass", "masspole"), ("cartpole-gravity", "gravity")):
        resolved = configure(name)
        assert resolved.engine == "gymnasium" and any(attribute in c for c in resolved.config.world.change)
    env = make(find("cartpole")).unwrapped  # the numbers that follow from a pole of mass 1
    assert (env.masscart + 1.0, 1.0 * env.length) == (2.0, 0.5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["laps=3"], "env_kwargs = 'laps' is not allowed"),
        (["runs=0"], "runs = 0 is not allowed; it must be a whole number of 1 to 10,000"),
        (["swaps=-1"], "swaps = -1 is not allowed"),
        (["runs=10", "swaps=5"], "swaps = 5 is not allowed; it must be below half of runs = 10"),
    ],
)
def test_mazes_that_cannot_be_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(NeolError, match=said):
        find("tmaze", words)


def test_an_engine_that_a_task_does_not_have_is_refused() -> None:
    with pytest.raises(NeolError, match="engine = 'native' is not allowed with 'cartpole'"):
        choose_engine(find("cartpole"), "native")
    with pytest.raises(NeolError, match="engine = 'envpool' is not allowed with 'tmaze'"):
        choose_engine(find("tmaze"), "envpool")


# -- pictures ----------------------------------------------------------------------------------------------------------


def test_a_picture_shows_where_it_is_where_the_good_end_is_and_what_was_earned() -> None:
    env = make(find("tmaze"), render_mode="rgb_array")
    env.reset(seed=3)

    def seen(color: tuple[int, int, int]) -> np.ndarray:
        """The middle of a colour's dots, (y, x)."""
        return np.argwhere((env.render() == color).all(axis=2)).mean(axis=0)

    assert env.render().shape == (H, W, 3) and env.render().dtype == np.uint8
    home, good = seen(INK), seen(GREEN)
    assert abs(home[1] - W / 2) < 2 and home[0] > good[0]
    side = 1.0 if good[1] > W / 2 else -1.0
    for action in (0.0, 0.0):  # two steps up to the junction
        env.step([action])
    assert abs(seen(INK)[0] - good[0]) < 2
    for action in (side, 0.0):
        env.step([action])
    assert abs(seen(INK)[1] - good[1]) < 2  # there: it covers the middle of the good end
    env.step([0.0])  # home again, and a bar for the run
    assert abs(seen(INK)[0] - home[0]) < 2
    assert (env.render() == BLUE).all(axis=2).any() and not (env.render() == ORANGE).all(axis=2).any()
    env.step([1.0])  # into a wall
    assert (env.render() == ORANGE).all(axis=2).any()
    env.close()


@pytest.mark.parametrize("task", ["double-tmaze", "bandit"])
def test_every_native_task_has_pictures_while_it_runs(task: str) -> None:
    env = make(find(task), render_mode="rgb_array")
    env.reset(seed=1)
    rng, frames = np.random.default_rng(0), set()
    for _ in range(60):
        action = int(rng.integers(2)) if task == "bandit" else [rng.choice([-1.0, 0.0, 1.0])]
        env.step(action)
        frames.add(env.render().tobytes())
    assert len(frames) > 10
    assert make(find(task)).render() is None
