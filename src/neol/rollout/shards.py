"""What a rollout is: shards of phenotypes and seeds go in, returns come out.

A shard is a contiguous range of the population's P N episodes (genome-major). Whoever plays it (envpool_player.py,
gymnasium_player.py) gets everything by value, so a shard may be played in this process, in another, or elsewhere; an
episode's result depends on its phenotype, its life and its seed alone.
Legend: P genomes, N episodes per genome, n episodes of a shard, E edges of all genomes, e edges of a shard's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from neol import seeding
from neol.envs.tasks import Task
from neol.network.normalization import Moments, no_moments
from neol.network.phenotype import Phenotypes
from neol.rollout.life import Life, check_life
from neol.rollout.world import NO_FATES, fates, life_names

EPOCH = 16  # generations that share a pool of reusable environments; generations in different epochs share none
CHUNK = 512  # environments alive at once, at most


def chunk_size(per_genome: int) -> int:
    """Episodes that are played at once: those of whole genomes, where a genome has no more than CHUNK."""
    return CHUNK // per_genome * per_genome or CHUNK


class Failure(NamedTuple):
    """An episode that went on failing."""

    episode: int  # among the population's
    attempts: int
    kind: str  # raised | not finite | wrong observation | timeout | worker died
    text: str  # a traceback, or what is known


def headline(text: str) -> str:
    """The line of a traceback that says what happened: the watchdog's first, an exception's last."""
    lines = text.strip().splitlines() or ["nothing is known"]
    return lines[0] if lines[0].startswith(("A step took", "Fatal")) else lines[-1].strip()


class ByTrial(NamedTuple):
    """A population's lives, trial by trial."""

    returns: np.ndarray  # f8 (P, N, K) undiscounted
    steps: np.ndarray  # i8 (P, N, K)
    floored: np.ndarray  # f8 (P, N, K) returns where rewards below `Life.reward_floor` count as that
    weights: tuple[float, ...] = (1.0,)  # of each trial in its life, 1 in all

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Over the trials of a life, by their weights: (P, N, K) -> f8 (P, N)."""
        total = self.weights[0] * values[..., 0]
        for k in range(1, len(self.weights)):
            total = total + self.weights[k] * values[..., k]
        return total


class RolloutResult(NamedTuple):
    """What became of P genomes in N lives each. A life is one episode, or K trials one after the other."""

    returns: np.ndarray  # f8 (P, N) of a life: the weighted mean of its trials' (undiscounted)
    steps: np.ndarray  # i8 (P, N) of a life, all trials together
    weight: np.ndarray  # f8 (E,) each edge's weight at the end of its genome's last episode
    moments: Moments = no_moments()  # of each episode's observations; none unless they are normalised
    failures: tuple[Failure, ...] = ()
    retries: int = 0  # times that an episode failed and was then lived through
    by_trial: ByTrial = ByTrial(np.zeros((0, 0, 1)), np.zeros((0, 0, 1), np.int64), np.zeros((0, 0, 1)))

    @property
    def env_steps(self) -> int:
        return int(self.steps.sum())

    def fitness(self, offset: float) -> np.ndarray:
        """Of every life, f8 (P, N): the weighted mean over its trials of (sum of max(reward, floor) + offset steps)."""
        return self.by_trial.mean(self.by_trial.floored + offset * self.by_trial.steps)

    @property
    def failed_episodes(self) -> np.ndarray:
        """Episodes that went on failing, b1 (P, N)."""
        out = np.zeros(self.returns.shape, bool)
        out.flat[[f.episode for f in self.failures]] = True
        return out

    @property
    def failed(self) -> np.ndarray:
        """Genomes with an episode that went on failing, b1 (P,)."""
        return np.asarray(self.failed_episodes.any(axis=1))


def joined(parts: Sequence[tuple[Sequence[int], RolloutResult]]) -> RolloutResult:
    """The results of parts of a population, each with the places of its genomes, as one; of returns and steps alone."""
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    results = [result for _, result in parts]
    n = results[0].returns.shape[1]
    own = [f._replace(episode=places[f.episode // n] * n + f.episode % n) for places, r in parts for f in r.failures]
    trials = [r.by_trial for r in results]
    return RolloutResult(
        np.concatenate([r.returns for r in results])[order],
        np.concatenate([r.steps for r in results])[order],
        np.zeros(0),
        failures=tuple(sorted(own)),
        retries=sum(r.retries for r in results),
        by_trial=ByTrial(
            np.concatenate([t.returns for t in trials])[order],
            np.concatenate([t.steps for t in trials])[order],
            np.concatenate([t.floored for t in trials])[order],
            trials[0].weights,
        ),
    )


class Episodes(NamedTuple):
    """Which episodes a rollout plays, by name: the seeds follow from it."""

    seed: int
    purpose: int  # seeding.EPISODE, SELECTION, HELD_OUT ...
    generation: int
    per_genome: int  # N
    common: bool  # all genomes meet the same
    redraw: int = 0  # how many times other episodes were drawn in the place of these (faults.py)
    max_steps: int = 0  # 0 = the engine's own limit; it cannot be exceeded
    trial_weights: tuple[float, ...] = (1.0,)  # of the K trials of a life, 1 in all

    @property
    def trials(self) -> int:
        return len(self.trial_weights)


class Shard(NamedTuple):
    """Lives start .. start + n, with what they need: the phenotypes of their genomes only."""

    phenotypes: Phenotypes
    life: Life
    seeds: np.ndarray  # i4 (n K,) of each life's trials, one life after the other
    start: int
    per_genome: int  # N
    resets: int  # how often an episode's environment was reset before, where environments are kept
    keep: bool  # keep the environments for the next rollout
    max_steps: int = 0  # of a trial; 0 = the player's own limit
    trials: int = 1  # K
    names: np.ndarray = np.zeros(0, np.uint64)  # u8 (n,) of the lives, where their world changes (world.py)
    fates: np.ndarray = NO_FATES  # f8 (n, C) whether their changes come to them, where they are drawn in strata

    @property
    def lives(self) -> int:
        return len(self.seeds) // self.trials


class EpisodeRecords(NamedTuple):
    """A shard's lives, as the kernels fill it in; the arrays begin at its first life and first edge."""

    returns: np.ndarray  # f8 (n, K)
    steps: np.ndarray  # i8 (n, K)
    weight: np.ndarray  # f8 (e,)
    moments: Moments  # of n lives
    floored: np.ndarray  # f8 (n, K) returns where rewards below `Life.reward_floor` count as that


def new_records(shard: Shard) -> EpisodeRecords:
    n, shape = shard.lives, (shard.lives, shard.trials)
    moments = no_moments(n, shard.phenotypes.inputs) if shard.life.normal.on else no_moments()
    weight = shard.phenotypes.weight.copy()
    return EpisodeRecords(np.zeros(shape), np.zeros(shape, np.int64), weight, moments, np.zeros(shape))


class Played(NamedTuple):
    """What became of a shard."""

    records: EpisodeRecords
    failures: tuple[Failure, ...] = ()
    retries: int = 0  # times that an episode failed and was then lived through
    cpu_seconds: float = 0.0  # that a worker process took over it


class Player(Protocol):
    """Plays shards: environments, and the networks that act in them."""

    def play(self, shard: Shard) -> Played: ...

    def close(self) -> None: ...


def check_fit(task: Task, phenotypes: Phenotypes, life: Life) -> None:
    """A ValueError if networks, life and task do not belong together: kernels have no bounds checks."""
    if phenotypes.inputs != task.n_inputs:
        raise ValueError(f"networks with {phenotypes.inputs} inputs cannot play a task with {task.n_inputs}")
    if len(life.actions.kind) != len(task.components):
        raise ValueError(f"actions of {len(life.actions.kind)} numbers do not fit a task with {len(task.components)}")
    check_life(life, phenotypes.inputs, phenotypes.output.shape[1])


def _seeds(which: Episodes, generation: int, genomes: int) -> np.ndarray:
    """The simulator seeds i4 (P N K,) of these lives; redrawn ones follow those that they replace."""
    n, drawn, k = which.per_genome, (which.redraw + 1) * which.per_genome, which.trials
    seeds = seeding.episode_seeds(which.seed, which.purpose, generation, genomes, drawn, which.common, k)
    return seeds if drawn == n else np.ascontiguousarray(seeds.reshape(genomes, drawn * k)[:, -n * k :]).ravel()


def _names(which: Episodes, life: Life, genomes: int) -> np.ndarray:
    """The names u8 (P N,) of lives whose world changes or whose weights are drawn, else (0,)."""
    if not len(life.world.changes.op) and not life.plastic.birth_spread:
        return np.zeros(0, np.uint64)
    n, drawn = which.per_genome, (which.redraw + 1) * which.per_genome
    names = life_names(which.seed, which.purpose, which.generation, genomes, drawn, which.common)
    return np.ascontiguousarray(names.reshape(genomes, drawn)[:, -n:]).ravel()


def _fates(which: Episodes, life: Life, names: np.ndarray) -> np.ndarray:
    """What decides which lives their changes come to, f8 (P N, C): in strata among a genome's lives of a generation.

    Lives that choose and measure a champion are independent of each other, as an interval says; (0, 0) stands for that.
    """
    bred = which.purpose == seeding.EPISODE and len(life.world.changes.op)
    return fates(life.world.changes, names, which.per_genome) if bred else NO_FATES


class ShardedRollout:
    """A population's lives, cut into shards as wanted, and put together again in genome order."""

    def __init__(self, task: Task, phenotypes: Phenotypes, life: Life, episodes: Episodes) -> None:
        check_fit(task, phenotypes, life)
        self.phenotypes, self.life, self.n = phenotypes, life, episodes.per_genome
        self.max_steps, self.trials = episodes.max_steps, episodes.trials
        self.total = phenotypes.size * self.n  # lives
        # more resets in later chunks would end common random numbers
        few = self.total <= chunk_size(self.n) if self.trials == 1 else self.total * self.trials <= CHUNK
        self.keep = task.reusable and few
        self.resets = episodes.generation % EPOCH if self.keep else 0
        self.seeds = _seeds(episodes, episodes.generation - self.resets, phenotypes.size)
        self.names = _names(episodes, life, phenotypes.size)
        self.fates = _fates(episodes, life, self.names)
        moments = no_moments(self.total, phenotypes.inputs) if life.normal.on else no_moments()
        shape = (phenotypes.size, self.n, self.trials)
        lived = ByTrial(np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape), episodes.trial_weights)
        weight = phenotypes.weight.copy()
        self._result = RolloutResult(np.zeros(0), np.zeros(0, np.int64), weight, moments, by_trial=lived)
        self._failures: list[Failure] = []
        self._retries = 0

    def shard(self, start: int, stop: int) -> Shard:
        first, last = start // self.n, (stop - 1) // self.n + 1
        part = self.phenotypes.part(first, last)
        seeds = self.seeds[start * self.trials : stop * self.trials]
        how = (self.n, self.resets, self.keep, self.max_steps, self.trials)
        return Shard(part, self.life, seeds, start, *how, self.names[start:stop], self.fates[start:stop])

    def take(self, start: int, stop: int, played: Played) -> None:
        """Put a shard's results in their places."""
        result, ph, records = self._result, self.phenotypes, played.records
        parts = (records.returns, records.steps, records.floored)
        for lived, played_part in zip(result.by_trial[:3], parts, strict=True):
            lived.reshape(self.total, self.trials)[start:stop] = played_part
        first, ended = start // self.n, stop // self.n  # genomes first .. ended have had their last episode
        if ended > first:
            begin, end = ph.edges(first).start, ph.edges(ended - 1).stop
            result.weight[begin:end] = records.weight[: end - begin]
        if self.life.normal.on:
            for whole, part in zip(result.moments, records.moments, strict=True):
                whole[start:stop] = part
        self._failures += played.failures
        self._retries += played.retries

    def fail(self, failure: Failure) -> None:
        self._failures.append(failure)

    def result(self) -> RolloutResult:
        lived = self._result.by_trial
        returns, steps = lived.mean(lived.returns), lived.steps.sum(axis=2)
        failures = tuple(sorted(self._failures))
        return self._result._replace(returns=returns, steps=steps, failures=failures, retries=self._retries)


class LocalEngine:
    """A player in this process."""

    cpu_seconds = 0.0  # all of them are this process's own

    def __init__(self, task: Task, player: Player, threads: int = 1) -> None:
        self.task, self.player, self.threads = task, player, threads

    def run(self, phenotypes: Phenotypes, life: Life, episodes: Episodes) -> RolloutResult:
        """Play N episodes of every genome."""
        plan = ShardedRollout(self.task, phenotypes, life, episodes)
        plan.take(0, plan.total, self.player.play(plan.shard(0, plan.total)))
        return plan.result()

    def close(self) -> None:
        self.player.close()
