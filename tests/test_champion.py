"""The champion is the candidate that holds up on fresh episodes, and its return is measured on others still."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import neol
from neol import seeding
from neol.config.schema import Config
from neol.config.sections import ACTIVATION_ID, AGGREGATION_ID
from neol.envs.tasks import TASKS
from neol.neat.evolution import Neat
from neol.neat.genome import Genomes, empty_genomes, take
from neol.network.normalization import Moments, Normalization
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.faults import judge
from neol.rollout.life import Life, life_of
from neol.rollout.shards import ByTrial, Episodes, Failure, RolloutResult, joined
from neol.training.champion import Candidates, Champion, choose_champion, select
from neol.training.configure import configure
from neol.training.train import train

FALLS = (0.0, 0.0, -1.0, 0.0)  # pushes away from where the pole leans
WOBBLES = (0.0, 0.0, 1.0, 0.0)  # follows the angle alone
STANDS = (0.05, 0.1, 1.0, 0.5)  # follows angle and speed, and comes back to the middle


class WatchedEngine(EnvPoolEngine):
    """The real engine, which notes what it was asked to play."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.played: list[tuple[int, Episodes, Life]] = []

    def run(self, phenotypes: Phenotypes, life: Life, episodes: Episodes) -> RolloutResult:
        self.played.append((phenotypes.size, episodes, life))
        return super().run(phenotypes, life, episodes)


def poles(*policies: tuple[float, ...]) -> Genomes:
    """Cart-pole controllers: the right output is the weighted sum of the observation, the left its negative."""
    g = empty_genomes(len(policies), 2, 8)
    g.n_nodes[:], g.n_conns[:], g.step_size[:] = 2, 8, 1.0
    g.node_id[:], g.response[:] = (0, 1), 1.0
    g.activation[:], g.aggregation[:] = ACTIVATION_ID["identity"], AGGREGATION_ID["sum"]
    for p, weights in enumerate(policies):
        for i, w in enumerate(weights):
            for output, sign in ((0, -1.0), (1, 1.0)):
                k = 2 * i + output
                g.innovation[p, k], g.source[p, k], g.target[p, k] = k, -1 - i, output
                g.weight[p, k], g.enabled[p, k] = sign * w, True
    return g


def choose(
    candidates: Genomes, config: Config, life: Life | None = None, **more: Any
) -> tuple[Champion, WatchedEngine]:
    task = TASKS[config.run.task]
    engine = WatchedEngine(task, config.rollout.max_steps, threads=1)
    champion = choose_champion(
        engine,
        task,
        config,
        Candidates(candidates, **more),
        lambda g: compile_phenotypes(g, task.n_inputs, task.n_outputs),
        life or life_of(task, config.plasticity),
    )
    engine.close()
    return champion, engine


def test_a_candidate_sees_its_observations_scaled_as_they_were_and_is_deployed_so() -> None:
    """The same weights, of a controller that read raw observations: under a scaling that shifts the angle it falls."""
    inputs = TASKS["cartpole"].n_inputs
    as_it_was, drifted = np.zeros(inputs), np.array([0.0, 0.0, 3.0, 0.0])
    life = life_of(TASKS["cartpole"], settings(rule="none").plasticity, Normalization(True, drifted, np.ones(inputs)))
    moments = Moments(np.array([50.0]), as_it_was[None], np.full((1, inputs), 50.0))  # mean 0, spread 1
    both = poles(STANDS, STANDS)
    champion, engine = choose(both, settings(rule="none"), life, seen={1: moments}, observations=70.0)
    assert not champion.facts["champion_is_best_by_fitness"]
    assert champion.facts["champion_return_mean"] == 500.0
    assert champion.facts["best_by_fitness_return_mean"] < 30.0
    scaled = json.loads(champion.json)["interface"]["normalization"]
    assert scaled["mean"] == [0.0] * inputs
    assert scaled["count"] == 50.0
    assert {size for size, _, _ in engine.played} == {1}  # never in one population


def test_failures_of_those_who_are_played_apart_count_as_the_worst_and_keep_their_places() -> None:
    found = [np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])]
    parts = [
        RolloutResult(r, np.ones(r.shape, np.int64), np.zeros(0), failures=f, by_trial=ByTrial(*[r[..., None]] * 3))
        for r, f in zip(found, ((), (Failure(3, 1, "raised", "?"),)), strict=True)
    ]
    result = joined([([1], parts[0]), ([2, 0], parts[1])])
    assert result.returns.tolist() == [[5.0, 6.0], [1.0, 2.0], [3.0, 4.0]]
    assert result.failed_episodes.tolist() == [[False, True], [False, False], [False, False]]
    assert result.by_trial.returns[:, :, 0].tolist() == result.returns.tolist()
    assert not judge(result, common=True).left_out.any()


def settings(task: str = "cartpole", **changes: Any) -> Config:
    return configure(task, **{"champion_trials": 4, "champion_episodes": 12, "seed": 5, **changes}).config


def weights_of(champion: Champion) -> dict[tuple[int, int], float]:
    return {(c["from"], c["to"]): c["weight"] for c in json.loads(champion.json)["connections"]}


@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_candidate_that_holds_up_is_chosen_wherever_it_stands(place: int) -> None:
    policies = [FALLS, FALLS, WOBBLES, FALLS]
    policies[place] = STANDS
    champion, _ = choose(poles(*policies), settings(rule="none"))
    assert weights_of(champion)[(-4, 1)] == 0.5
    assert champion.facts["champion_is_best_by_fitness"] == (place == 0)
    assert champion.facts["champion_return_mean"] == 500.0
    assert champion.facts["champion_return_ci95"] == (500.0, 500.0)


def test_the_best_by_fitness_is_reported_beside_the_champion_on_the_same_episodes() -> None:
    champion, _ = choose(poles(FALLS, STANDS), settings(rule="none"))
    s = champion.facts
    assert s["best_by_fitness_return_mean"] < 20 < s["champion_return_mean"]
    assert s["best_by_fitness_return_ci95"][0] < s["best_by_fitness_return_mean"] < s["best_by_fitness_return_ci95"][1]
    alone, _ = choose(poles(FALLS), settings(rule="none"))
    assert alone.facts["champion_return_mean"] == s["best_by_fitness_return_mean"]
    assert alone.facts["champion_is_best_by_fitness"]


def test_one_lucky_episode_does_not_make_a_champion() -> None:
    """WOBBLES may beat another on one episode; over two rounds the one that stands wins whatever the seed."""
    for seed in range(5):
        config = settings(rule="none", seed=seed, champion_trials=1, champion_episodes=2)
        champion, _ = choose(poles(WOBBLES, WOBBLES, WOBBLES, STANDS), config)
        assert weights_of(champion)[(-4, 1)] == 0.5


def test_those_that_tie_are_played_on_until_one_fails() -> None:
    """Six are perfect in the first round; all but one fail later: nobody is left out for standing further back."""
    fails_at = [30, 25, 10**9, 70, 25, 40, 0]  # the episode that is not perfect, of all that a candidate has played
    played = np.zeros(len(fails_at), int)
    rounds: list[tuple[list[int], int]] = []

    def play(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        returns = np.full((len(left), episodes), 500.0)
        for row, i in enumerate(left):
            if played[i] <= fails_at[i] < played[i] + episodes:
                returns[row, fails_at[i] - played[i]] = 10.0
            played[i] += episodes
        rounds.append((sorted(left), episodes))
        return returns

    assert select(len(fails_at), 5, play) == (2, 500.0)
    assert rounds == [([0, 1, 2, 3, 4, 5, 6], 5), ([0, 1, 2, 3, 4, 5], 20), ([0, 1, 2, 3, 4, 5], 40)]


def test_of_equals_the_first_wins_and_one_winner_is_not_played_again() -> None:
    better = np.array([1.0, 3.0, 3.0, 2.0, 0.0, 0.5])
    parts: list[int] = []

    def play(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        parts.append(part)
        return np.tile(better[left][:, None], episodes)

    assert select(6, 2, play) == (1, 3.0)
    assert parts == [0, 16, 32]
    parts.clear()
    better[2] = 3.5
    assert select(6, 2, play) == (2, 3.5)
    assert parts == [0, 16]


def test_a_candidate_without_a_return_never_wins() -> None:
    for means in ([np.nan, 1.0], [1.0, np.nan, 2.0, np.nan], [np.nan] * 6 + [-3.0], [np.nan, -np.inf, 5.0]):
        returns = np.array(means)
        best, mean = select(len(means), 2, lambda left, _, episodes, r=returns: np.tile(r[left][:, None], episodes))
        assert (best, mean) == (int(np.nanargmax(returns)), np.nanmax(returns))


def test_however_many_tie_eight_go_on() -> None:
    played: list[int] = []

    def play(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        played.append(len(left))
        return np.full((len(left), episodes), -200.0)

    assert select(20, 3, play) == (0, -200.0)
    assert played == [20, 8, 8]


def test_clones_are_not_played_against_each_other() -> None:
    champion, engine = choose(poles(STANDS, STANDS, FALLS), settings(rule="none"))
    assert champion.facts["champion_is_best_by_fitness"]
    assert len(engine.played) == 3  # two rounds and the held-out episodes


def candidates_of(task: str, count: int) -> Genomes:
    t = TASKS[task]
    return take(Neat(Config().replace(pop_size=count).neat, t.n_inputs, t.n_outputs, 3).genomes, slice(None))


@pytest.mark.parametrize("task", ["lunarlander", "hopper"])
def test_the_choice_and_every_reported_number_can_be_computed_again(task: str) -> None:
    config = settings(task, max_steps=80, champion_trials=3, reward_scale=0.05)
    genomes, t, life = candidates_of(task, 8), TASKS[task], life_of(TASKS[task], config.plasticity)
    champion, watched = choose(genomes, config)

    def returns(chosen: list[int], purpose: int, part: int, episodes: int, life: Life = life) -> np.ndarray:
        phenotypes = compile_phenotypes(take(genomes, chosen), t.n_inputs, t.n_outputs)
        which = Episodes(config.run.seed, purpose, part, episodes, common=True)
        return EnvPoolEngine(t, 80, threads=1).run(phenotypes, life, which).returns

    first = returns(list(range(8)), seeding.SELECTION, 0, 3)
    best = sorted(range(8), key=lambda i: -first[i].mean())[:4]
    second = returns(best, seeding.SELECTION, watched.played[1][1].generation, 12)
    means = [np.concatenate([first[b], second[i]]).mean() for i, b in enumerate(best)]
    chosen = best[int(np.argmax(means))]
    held_out = returns([chosen], seeding.HELD_OUT, 0, 12)[0]
    s = champion.facts
    gene = genomes.weight[chosen, : genomes.n_conns[chosen]]
    assert set(weights_of(champion).values()) == set(gene.tolist())
    assert s["champion_is_best_by_fitness"] == (chosen == 0)
    assert s["champion_selection_return_mean"] == pytest.approx(max(means), rel=1e-12)
    assert s["champion_return_mean"] == pytest.approx(held_out.mean(), rel=1e-12)
    assert s["champion_return_std"] == pytest.approx(held_out.std(ddof=1), rel=1e-12)
    interval = stats.t.interval(0.95, 11, loc=held_out.mean(), scale=stats.sem(held_out))
    assert s["champion_return_ci95"] == pytest.approx(interval, rel=1e-12)
    static = returns([chosen], seeding.HELD_OUT, 0, 12, life._replace(plastic=life.plastic._replace(rule=0)))[0]
    assert s["champion_without_plasticity_return_mean"] == pytest.approx(static.mean(), rel=1e-12)
    assert static.mean() != held_out.mean()


@pytest.mark.parametrize("task", TASKS)
def test_held_out_episodes_are_disjoint_from_selection_and_training(task: str) -> None:
    config = settings(task, max_steps=30)
    _, engine = choose(candidates_of(task, 6), config)

    def seeds(which: Episodes) -> set[int]:
        return {
            int(s)
            for s in seeding.episode_seeds(which.seed, which.purpose, which.generation, 1, which.per_genome, True)
        }

    selection = [e for _, e, _ in engine.played if e.purpose == seeding.SELECTION]
    held_out = [e for _, e, _ in engine.played if e.purpose == seeding.HELD_OUT]
    assert len(selection) + len(held_out) == len(engine.played)
    assert all(e.common for e in selection + held_out)  # every candidate meets the same episodes
    assert [e.per_genome for e in selection] == [4, 16]
    assert all(e.per_genome == 12 for e in held_out)
    first, second = map(seeds, selection)
    measured = set().union(*map(seeds, held_out))
    training = set().union(*(seeds(Episodes(5, seeding.EPISODE, g, 20, True)) for g in range(100)))
    assert not first & second
    assert not measured & (first | second)
    assert not training & (first | second | measured)
    assert len(measured) == 12


def test_held_out_episodes_are_played_by_the_chosen_one_after_the_choice() -> None:
    _, engine = choose(poles(FALLS, WOBBLES, STANDS), settings(rule="none"))
    purposes = [e.purpose for _, e, _ in engine.played]
    assert purposes == sorted(purposes)  # SELECTION stands before HELD_OUT
    assert (
        max(size for size, e, _ in engine.played if e.purpose == seeding.HELD_OUT) <= 2
    )  # it, and the best by fitness


def test_more_held_out_episodes_do_not_change_the_choice() -> None:
    few, many = (choose(candidates_of("lunarlander", 6), settings("lunarlander", max_steps=60, champion_episodes=n))[0]
                 for n in (2, 30))  # fmt: skip
    assert few.json == many.json
    assert few.facts["champion_selection_return_mean"] == many.facts["champion_selection_return_mean"]


def test_a_run_deploys_the_chosen_one_and_the_summary_says_both(tmp_path: Path) -> None:
    run = train(
        "cartpole", out=tmp_path / "run", pop_size=20, generations=3, episodes=1, seed=1, threads=1,
        champion_candidates=5, champion_trials=5, champion_episodes=10,
    )  # fmt: skip
    s = run.summary
    assert s.best_fitness == run.history["best_fitness"][-1]
    assert {"champion_return_mean", "best_by_fitness_return_mean", "champion_is_best_by_fitness"} <= set(s.as_dict())
    config = run.config
    task = TASKS["cartpole"]
    which = Episodes(config.run.seed, seeding.HELD_OUT, 0, 10, common=True)
    deployed = neol.PlasticNetwork.from_json(run.champion_path)
    engine = EnvPoolEngine(task, config.rollout.max_steps, threads=1)
    again = engine.run(deployed.network.phenotype, life_of(task, deployed.settings), which)
    assert s.champion_return_mean == again.returns.mean()  # the file plays as the genome did


def test_the_candidates_are_the_last_generations_best_and_the_best_of_generations_before(tmp_path: Path) -> None:
    best: list[np.ndarray] = []

    def note(state: Any) -> None:
        order = np.argsort(-state.fitness, kind="stable")
        best.append(take(state.genomes, order[:3]).weight)

    from neol.training.loop import Training

    seen: list[Candidates] = []
    with pytest.MonkeyPatch.context() as patch:
        real = Training.candidates
        patch.setattr(Training, "candidates", lambda self: seen.append(real(self)) or seen[-1])
        train(
            "cartpole", out=tmp_path / "run", callback=note, pop_size=12, generations=4, episodes=1, threads=1,
            max_steps=60, champion_candidates=3, champion_trials=1, champion_episodes=2, rule="none",
        )  # fmt: skip
    weights = seen[0].genomes.weight

    def same(row: np.ndarray, other: np.ndarray) -> bool:
        width = min(len(row), len(other))
        return bool((row[:width] == other[:width]).all())

    assert all(same(weights[i], best[3][i]) for i in range(3))
    assert same(weights[3], best[2][0])
    assert same(weights[4], best[1][0])
    assert len(weights) == 5
