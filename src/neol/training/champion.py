"""Choosing the champion honestly.

The best fitness of a noisy generation is a lucky one. So the candidates are played again on fresh episodes, the best of
them once more, and only then is the chosen one's return measured, on episodes that had no part in the choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.config.checks import trial_weights
from neol.config.schema import Config
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json, task_interface
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.neat.genome import Genomes, concatenate, take
from neol.network.normalization import Moments, Normalization, from_moments
from neol.network.phenotype import Phenotypes
from neol.network.plasticity import NONE, Plasticity
from neol.rollout.dispatcher import Engine
from neol.rollout.faults import FaultVerdict, run_redrawn
from neol.rollout.life import Life
from neol.rollout.shards import EPOCH, Episodes, RolloutResult, headline, joined
from neol.rollout.world import UNCHANGED, World
from neol.training.start import Start
from neol.training.summary import Measured

# The rounds: how many times `champion_trials` each candidate plays, and how many go on. Those that tie with the last of
# them go on too, MOST in all; the third round is for those that still tie (cartpole: perfect but once in a hundred).
ROUNDS = ((1, 4), (4, 1), (8, 1))
MOST = 8


class Candidates(NamedTuple):
    """Who may become champion."""

    genomes: Genomes  # the final generation's best by fitness first
    observations: float = 0.0  # that life's mean and std are of, where they are scaled
    seen: Mapping[int, Moments] = MappingProxyType({})  # f8 (1,), (1, I): what some had their observations scaled by
    start: Start | None = None  # what the run began from: the last candidate, and its observations scaled as they were
    static: tuple[int, ...] = ()  # those that live without plasticity, whatever the life says
    start_stays: bool = False  # the start plays all rounds but the last, however it fared in the first

    @property
    def last(self) -> int:
        """The place of the last candidate: the start, where there is one."""
        return len(self.genomes.n_nodes) - (self.start is None)


class Champion(NamedTuple):
    json: str  # champion.json
    facts: dict[str, Any]  # its part of the summary
    genome: Genomes  # P = 1


def choose_champion(
    engine: Engine,
    task: Task,
    config: Config,
    among: Candidates,
    compile: Callable[[Genomes], Phenotypes],
    life: Life,
    network: Callable[[Genomes], Genomes] = lambda genome: genome,  # what a genome (P = 1) is deployed as
    test_world: World = UNCHANGED,  # one more to be measured in, where `test_change` names it
) -> Champion:
    """Rounds of selection on fresh episodes, then the held-out return."""
    field, start, last = _Field(engine, among, compile, life, config), among.start, among.last

    def fresh(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        return field.play(left.tolist(), seeding.SELECTION, part, episodes).returns

    def clones(left: np.ndarray) -> bool:
        alike = all((a[left] == a[left[0]]).all() for a in field.genomes)
        return alike and len({field.groups[w] for w in left}) == 1

    stays = last if start is not None and among.start_stays else None
    chosen, selection_mean = select(last + 1, config.run.champion_trials, fresh, clones, stays)
    selection_steps, episodes = field.steps, config.run.champion_episodes
    who = list(dict.fromkeys([chosen, 0, last] if start else [chosen, 0]))
    measured = field.play(who, seeding.HELD_OUT, 0, episodes)
    held_out = dict(zip(who, measured.returns, strict=True))
    if life.plastic.rule == NONE or chosen in among.static:
        static = measured
    else:
        static = field.play([chosen], seeding.HELD_OUT, 0, episodes, life.plastic._replace(rule=NONE))
    champion = take(field.genomes, [chosen])
    phenotype = compile(champion)
    of_champion, of_fittest = Measured.of(held_out[chosen]), Measured.of(held_out[0])
    facts = {
        "champion_return_mean": of_champion.mean,
        "champion_return_ci95": of_champion.ci95,
        "champion_return_std": of_champion.std,
        "champion_episodes": len(held_out[chosen]),
        "champion_without_plasticity_return_mean": float(static.returns[0].mean()),
        "champion_return_by_trial": measured.by_trial,
        "champion_without_plasticity_return_by_trial": static.by_trial,
        "champion_selection_return_mean": selection_mean,
        "champion_is_best_by_fitness": chosen == 0,
        "champion_nodes": len(phenotype.node_id),
        "champion_connections": len(phenotype.weight),
        "parameters": len(phenotype.weight) + len(phenotype.node_id),
        "best_by_fitness_return_mean": of_fittest.mean,
        "best_by_fitness_return_ci95": of_fittest.ci95,
        "selection_env_steps": selection_steps,
    }
    if config.world.test_change:
        met = field.play([chosen], seeding.HELD_OUT, 0, episodes, world=test_world)
        tested = Measured.of(met.returns[0])
        facts |= {"champion_test_return_mean": tested.mean, "champion_test_return_ci95": tested.ci95}
    if start is not None:
        before = Measured.of(held_out[last])
        facts |= {"start_return_mean": before.mean, "start_return_ci95": before.ci95}
        facts |= {"champion_is_start": chosen == last}
    if among.static:
        facts |= {"champion_keeps_rule": chosen not in among.static}
    deployed = config.replace(rule="none") if chosen in among.static else config
    how = (task, deployed, *field.scaling(chosen))
    return Champion(document(phenotype, network(champion), *how), facts, champion)


def choose_quickly(
    engine: Engine, config: Config, among: Candidates, compile: Callable[[Genomes], Phenotypes], life: Life, trials: int
) -> tuple[int, Normalization, float, int]:
    """Whom to go on with in the middle of a run, by the same rounds on fresh episodes: its place, how its observations
    are scaled and by how many of them, and the env steps that the choice took."""
    field = _Field(engine, among, compile, life, config)

    def fresh(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        return field.play(left.tolist(), seeding.HANDOVER, part, episodes).returns

    best = select(among.last + 1, trials, fresh)[0]
    return best, *field.scaling(best), field.steps


def document(
    phenotype: Phenotypes,
    genome: Genomes,
    task: Task,
    config: Config,
    normal: Normalization,
    count: float,  # observations that `normal` is of
    **metadata: str,
) -> str:
    """champion.json: one genome with all that it needs to be deployed."""
    evolved, rules = config.evolution.evolved, config.evolution.rules
    out = network_json.to_document(phenotype, genome, 0, not config.neat.feed_forward, evolved, rules)
    out["plasticity"] = network_json.plasticity_to_json(_settled(config.plasticity, genome))
    out["interface"] = task_interface.to_document(task, normal, count)
    if (trained := life_document(config)) != life_document(Config()):
        out["life"] = trained
    out["metadata"] |= {"task": task.name, "max_steps": config.rollout.max_steps, **metadata}
    return network_json.dump(out)


def _settled(settings: PlasticityConfig, genome: Genomes) -> PlasticityConfig:
    """The settings with what this genome made of them."""
    if not settings.evolve_decay:
        return settings
    return dataclasses.replace(settings, evolve_decay=False, weight_decay=float(genome.decay[0]))


def life_document(config: Config) -> dict[str, Any]:
    """champion.json's `life`: the lives that it was trained in, where they are not single episodes."""
    lives = {"trials": config.rollout.trials, "trial_weights": config.rollout.trial_weights}
    return {**lives, "change": list(config.world.change)}


def select(
    candidates: int,
    trials: int,
    play: Callable[[np.ndarray, int, int], np.ndarray],
    same: Callable[[np.ndarray], bool] = lambda left: len(left) == 1,  # nothing to choose between
    stays: int | None = None,  # who goes on from the first round to the second in any case
) -> tuple[int, float]:
    """The winner of the rounds (of equals the first), and its mean return in them.

    `play`: candidates i8 (n,), part, episodes -> returns f8 (n, episodes).
    """
    left, scores = np.arange(candidates), np.empty((candidates, 0))  # f8 (left, episodes so far)
    for number, (times, places) in enumerate(ROUNDS):
        if number == len(ROUNDS) - 1 and same(left):
            break
        scores = np.concatenate([scores, play(left, number * EPOCH, times * trials)], axis=1)
        means = np.nan_to_num(scores.mean(axis=1), nan=-np.inf)
        order = np.argsort(-means, kind="stable")
        leaders = order[means[order] >= means[order[:places][-1]]][:MOST]
        if number == 0 and stays is not None and stays not in leaders:
            leaders = np.append(leaders, stays)
        left, scores = left[leaders], scores[leaders]
    return int(left[0]), float(scores[0].mean())


class _Lived(NamedTuple):
    """Candidates on fresh lives."""

    returns: np.ndarray  # f8 (candidates, lives)
    by_trial: tuple[float, ...]  # mean returns of the first candidate, where a life has several trials


class _Field:
    """The candidates in one place, the start last, each with its observations scaled as it is used to."""

    def __init__(
        self,
        engine: Engine,
        among: Candidates,
        compile: Callable[[Genomes], Phenotypes],
        life: Life,
        config: Config,
    ) -> None:
        self.engine, self.compile, self.life, self.config, self.among = engine, compile, life, config, among
        start = among.start
        self.genomes = among.genomes if start is None else concatenate([among.genomes, start.genome])
        self.apart = {w: (from_moments(seen), float(seen.n[0])) for w, seen in among.seen.items()}
        if start is not None and start.seen is not None:
            self.apart[among.last] = (start.normal, float(start.seen.n[0]))
        # who can be played together: those with the same scaling, with or without plasticity
        numbers: dict[tuple[object, ...], int] = {}
        each = [(n.mean.tobytes(), n.std.tobytes(), count) for n, count in map(self.scaling, range(among.last + 1))]
        self.groups = [(numbers.setdefault(e, len(numbers)), w in among.static) for w, e in enumerate(each)]
        self.steps = 0  # played so far

    def scaling(self, candidate: int) -> tuple[Normalization, float]:
        """How its observations are scaled, and how many that was learned from."""
        return self.apart.get(candidate, (self.life.normal, self.among.observations))

    def play(
        self,
        who: Sequence[int],
        purpose: int,
        part: int,
        episodes: int,
        plastic: Plasticity | None = None,  # None: as life has it; likewise the world
        world: World | None = None,
    ) -> _Lived:
        """Candidates on the same fresh episodes; whose fault failures are is judged by all of them."""
        weights = trial_weights(self.config.rollout.trial_weights, self.config.rollout.trials)
        which = Episodes(self.config.run.seed, purpose, part, episodes, common=True, trial_weights=weights)
        learns, met = plastic or self.life.plastic, world or self.life.world

        def once(which: Episodes) -> RolloutResult:
            parts = []
            for group in sorted({self.groups[w] for w in who}):
                places = [i for i, w in enumerate(who) if self.groups[w] == group]
                own = [who[i] for i in places]
                rule = learns._replace(rule=NONE) if group[1] else learns
                lived = self.life._replace(plastic=rule, normal=self.scaling(own[0])[0], world=met)
                parts.append((places, self.engine.run(self.compile(take(self.genomes, own)), lived, which)))
            return joined(parts)

        result, verdict = run_redrawn(once, which)
        self.steps += result.env_steps
        return _Lived(_known(result, verdict), _first_by_trial(result))


def _first_by_trial(result: RolloutResult) -> tuple[float, ...]:
    returns, played = result.by_trial.returns[0], ~result.failed_episodes[0]
    return tuple(returns[played].mean(axis=0).tolist()) if returns.shape[1] > 1 and played.any() else ()


def _known(result: RolloutResult, verdict: FaultVerdict) -> np.ndarray:
    """The returns f8 (P, n) of the n episodes that count; a candidate's own failure counts as the worst of any."""
    played = ~result.failed_episodes
    if not played.any():
        first = headline(result.failures[0].text)
        raise NeolError(f"every fresh episode of every candidate for champion failed; the first: {first}")
    return verdict.kept(np.where(played, result.returns, result.returns[played].min()))
