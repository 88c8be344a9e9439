"""What a rollout is: shards of phenotypes and seeds go in, returns come out; and the kernels that live the episodes.

A shard is a contiguous range of the population's P N episodes (genome-major). Whoever plays it (envpool_engine.py,
gymnasium_engine.py) gets everything by value, so a shard may be played in this process, in another, or elsewhere; an
episode's result depends on its phenotype and its seed alone.
Legend: P genomes, N episodes per genome, n episodes of a shard, B slots, I inputs, O outputs, A action components.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import types
from numba.experimental import structref

from neol import seeding
from neol.jit import bare, inlined, kernel
from neol.kernels import decode, finish, load, step
from neol.normalization import IDENTITY, Moments, Normalization, no_moments, observe
from neol.phenotype import Phenotypes
from neol.plasticity import Plasticity
from neol.tasks import Task

EPOCH = 16  # generations that share a pool of reusable environments
CHUNK = 512  # environments alive at once, at most


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


class RolloutResult(NamedTuple):
    returns: np.ndarray  # f8 (P, N) undiscounted
    steps: np.ndarray  # i8 (P, N)
    weight: np.ndarray  # f8 (E,) each edge's weight at the end of its genome's last episode
    moments: Moments = no_moments()  # of each episode's observations; none unless they are normalised
    failures: tuple[Failure, ...] = ()

    @property
    def env_steps(self) -> int:
        return int(self.steps.sum())

    @property
    def failed(self) -> np.ndarray:
        """Genomes with an episode that went on failing, b1 (P,)."""
        out = np.zeros(self.returns.shape[0], bool)
        out[[f.episode // self.returns.shape[1] for f in self.failures]] = True
        return out


class Episodes(NamedTuple):
    """Which episodes a rollout plays, by name: the seeds follow from it."""

    seed: int
    purpose: int  # seeding.EPISODE, SELECTION, HELD_OUT ...
    generation: int
    per_genome: int  # N
    common: bool  # all genomes meet the same


class Shard(NamedTuple):
    """Episodes start .. start + n, with what they need: the phenotypes of their genomes only."""

    phenotypes: Phenotypes
    plastic: Plasticity
    normal: Normalization
    seeds: np.ndarray  # i4 (n,)
    start: int
    per_genome: int  # N
    resets: int  # resets that lie behind an episode's environment, where environments are kept
    keep: bool  # keep the environments for the next rollout


class Tally(NamedTuple):
    """A shard's episodes, as the kernels fill it in; the arrays begin at its first episode and first edge."""

    returns: np.ndarray  # f8 (n,)
    steps: np.ndarray  # i8 (n,)
    weight: np.ndarray  # f8 (e,)
    moments: Moments  # of n episodes


def new_tally(shard: Shard) -> Tally:
    n = len(shard.seeds)
    moments = no_moments(n, shard.phenotypes.inputs) if shard.normal.on else no_moments()
    return Tally(np.zeros(n), np.zeros(n, np.int64), shard.phenotypes.weight.copy(), moments)


class Played(NamedTuple):
    """What became of a shard."""

    tally: Tally
    failures: tuple[Failure, ...] = ()


class Player(Protocol):
    """An engine's end: environments, and the lives in them."""

    def play(self, shard: Shard) -> Played: ...

    def close(self) -> None: ...


class Plan:
    """A population's episodes, cut into shards as wanted, and put together again in genome order."""

    def __init__(
        self, task: Task, phenotypes: Phenotypes, plastic: Plasticity, episodes: Episodes, normal: Normalization
    ) -> None:
        if phenotypes.inputs != task.n_inputs:  # the kernels do not look
            raise ValueError(f"networks with {phenotypes.inputs} inputs cannot play a task with {task.n_inputs}")
        self.phenotypes, self.plastic, self.normal, self.n = phenotypes, plastic, normal, episodes.per_genome
        self.total = phenotypes.size * self.n
        # more resets in later chunks would end common random numbers
        self.keep = task.reusable and self.total <= max(1, CHUNK // self.n) * self.n
        self.resets = episodes.generation % EPOCH if self.keep else 0
        self.seeds = seeding.episode_seeds(
            episodes.seed, episodes.purpose, episodes.generation - self.resets, phenotypes.size, self.n, episodes.common
        )
        moments = no_moments(self.total, phenotypes.inputs) if normal.on else no_moments()
        self._result = RolloutResult(
            np.zeros(self.total), np.zeros(self.total, np.int64), phenotypes.weight.copy(), moments
        )
        self._failures: list[Failure] = []

    def shard(self, start: int, stop: int) -> Shard:
        first, last = start // self.n, (stop - 1) // self.n + 1
        part = self.phenotypes.part(first, last)
        seeds = self.seeds[start:stop]
        return Shard(part, self.plastic, self.normal, seeds, start, self.n, self.resets, self.keep)

    def take(self, start: int, stop: int, played: Played) -> None:
        """Put a shard's results in their places."""
        result, ph, tally = self._result, self.phenotypes, played.tally
        result.returns[start:stop], result.steps[start:stop] = tally.returns, tally.steps
        first, ended = start // self.n, stop // self.n  # genomes first .. ended have had their last episode
        if ended > first:
            begin, end = ph.edges(first).start, ph.edges(ended - 1).stop
            result.weight[begin:end] = tally.weight[: end - begin]
        if self.normal.on:
            for whole, part in zip(result.moments, tally.moments, strict=True):
                whole[start:stop] = part
        self._failures += played.failures

    def fail(self, failure: Failure) -> None:
        self._failures.append(failure)

    def result(self) -> RolloutResult:
        shape = (self.phenotypes.size, self.n)
        failures = tuple(sorted(self._failures))
        r = self._result
        return r._replace(returns=r.returns.reshape(shape), steps=r.steps.reshape(shape), failures=failures)


class LocalEngine:
    """A player in this process."""

    def __init__(self, task: Task, player: Player, threads: int = 1) -> None:
        self.task, self.player, self.threads = task, player, threads

    def run(
        self, phenotypes: Phenotypes, plastic: Plasticity, episodes: Episodes, normal: Normalization = IDENTITY
    ) -> RolloutResult:
        """Play N episodes of every genome."""
        plan = Plan(self.task, phenotypes, plastic, episodes, normal)
        plan.take(0, plan.total, self.player.play(plan.shard(0, plan.total)))
        return plan.result()

    def close(self) -> None:
        self.player.close()


class Window(NamedTuple):
    """The episodes in flight."""

    slot_of: np.ndarray  # i4 (envs,) slot of each running env; before any runs, env i stands for slot i
    episode: np.ndarray  # i4 (B,) episode of each slot (counted in the shard), -1 = none
    ids: np.ndarray  # i4 (B,) envs to step next, in order
    action: np.ndarray  # f8 (B, A) their actions
    outputs: np.ndarray  # f8 (O,) scratch
    inputs: np.ndarray  # f8 (I,) scratch: what the network sees
    # next episode | first of the chunk | end of the chunk | N | place in its genome of episode 0 | longest episode
    queue: np.ndarray  # i8 (6,)


def new_window(
    envs: int, count: int, task: Task, shard: Shard, start: int, stop: int, max_steps: int = 2**62
) -> Window:
    """For episodes start .. stop of a shard, `count` at once, in that many environments."""
    return Window(
        np.arange(envs, dtype=np.int32),
        np.full(count, -1, np.int32),
        np.empty(count, np.int32),
        np.zeros((count, len(task.components))),
        np.zeros(task.n_outputs),
        np.zeros(task.n_inputs),
        np.array([start, start, stop, shard.per_genome, shard.start % shard.per_genome, max_steps], np.int64),
    )


@structref.register
class _ContextType(types.StructRef):
    """Numba's type of Context."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Context(structref.StructRefProxy):
    """Everything that stays the same while a lane plays, as one argument: unpacking 40 arrays at every call is dear."""


_FIELDS = ["ph", "slots", "window", "actions", "plastic", "normal", "first", "result"]
structref.define_proxy(Context, _ContextType, _FIELDS)


@kernel
def make_context(ph, slots, window, actions, plastic, normal, first, result):
    return Context(ph, slots, window, actions, plastic, normal, first, result)


@inlined
def _choose(ph, slots, window, actions, plastic, normal, result, episode, b, reward, fresh, action):
    """Slot b takes in its reward and what it sees (window.inputs), and chooses its next action f8 (A,).

    fresh: the episode begins, with its first observation and no reward yet.
    """
    if fresh:
        load(ph, slots, b, (window.queue[4] + episode) // window.queue[3])
        result.returns[episode] = 0.0
        result.steps[episode] = 0
    else:
        result.returns[episode] += reward
        result.steps[episode] += 1
    observe(normal, result.moments, episode, fresh, window.inputs)
    step(ph, slots, b, window.inputs, reward, fresh, plastic, window.outputs)
    decode(window.outputs, actions, action)


@inlined
def _end(ph, slots, window, plastic, result, episode, b, reward):
    """Episode's last reward; the weights after its genome's last episode are kept."""
    result.returns[episode] += reward
    result.steps[episode] += 1
    finish(ph, slots, b, reward, plastic)
    n = window.queue[3]
    if (window.queue[4] + episode) % n == n - 1:
        p = slots.genome[b]
        start, stop = ph.edge_start[ph.node_start[p]], ph.edge_start[ph.node_start[p + 1]]
        for e in range(start, stop):
            result.weight[e] = slots.weight[b, e - start]


@kernel
def advance(context, env_id, observation, reward, done):
    """Take in one step of every running environment and choose what each does next; return how many go on.

    A slot whose episode is over, or that has none yet, takes the next in the queue.
    env_id i4 (n,), observation (n.., I), reward (n..,), done b1 (n..,).
    """
    c = context
    lives = c.ph, c.slots, c.window, c.actions, c.plastic, c.normal, c.first, c.result
    return _advance(*lives, env_id, observation, reward, done)


@bare
def _advance(ph, slots, window, actions, plastic, normal, first, result, env_id, observation, reward, done):
    row = 0
    for i in range(len(env_id)):
        env, r = env_id[i], np.float64(reward[i])
        b = window.slot_of[env]
        episode = window.episode[b]
        # not every environment keeps its limit
        fresh = episode < 0 or done[i] or result.steps[episode] + 1 >= window.queue[5]
        if fresh:
            if episode >= 0:
                _end(ph, slots, window, plastic, result, episode, b, r)
            if window.queue[0] == window.queue[2]:
                window.episode[b] = -1
                continue
            episode = window.queue[0]
            window.queue[0] += 1
            env, r = episode - window.queue[1], np.float64(0.0)
            window.episode[b] = episode
            window.slot_of[env] = b
        for k in range(len(window.inputs)):
            window.inputs[k] = first[env, k] if fresh else observation[i, k]
        _choose(ph, slots, window, actions, plastic, normal, result, episode, b, r, fresh, window.action[row])
        window.ids[row] = env
        row += 1
    return row


BEGIN, GO_ON, END = range(3)


@kernel
def live(context, phase, episode, observation, reward):
    """One moment of one life, in slot 0; False where a number is not finite. observation f8 (I,)."""
    c = context
    return _live(c.ph, c.slots, c.window, c.actions, c.plastic, c.normal, c.result, phase, episode, observation, reward)


@bare
def _live(ph, slots, window, actions, plastic, normal, result, phase, episode, observation, reward):
    sound = np.isfinite(reward) and (phase == BEGIN or np.isfinite(result.returns[episode] + reward))
    for k in range(len(window.inputs)):
        window.inputs[k] = observation[k]
        sound &= np.isfinite(observation[k])
    if not sound:
        return False
    if phase == END:
        _end(ph, slots, window, plastic, result, episode, 0, reward)
    else:
        fresh = phase == BEGIN
        r = 0.0 if fresh else reward
        _choose(ph, slots, window, actions, plastic, normal, result, episode, 0, r, fresh, window.action[0])
    return True
