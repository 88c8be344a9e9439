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
from neol.jit import inlined, kernel
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

    slot_of: np.ndarray  # i4 (envs,) slot of each running env
    episode: np.ndarray  # i4 (B,) episode of each slot (counted in the shard), -1 = idle
    ids: np.ndarray  # i4 (B,) envs to step next, in order
    action: np.ndarray  # f8 (B, A) their actions
    outputs: np.ndarray  # f8 (O,) scratch
    inputs: np.ndarray  # f8 (I,) scratch
    # next episode | first of the chunk | end of the chunk | N | place in its genome of episode 0 | longest episode
    queue: np.ndarray  # i8 (6,)


def new_window(
    envs: int, count: int, task: Task, shard: Shard, start: int, stop: int, max_steps: int = 2**62
) -> Window:
    """For episodes start .. stop of a shard, `count` at once, in that many environments."""
    return Window(
        np.zeros(envs, np.int32),
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
def _start(ph, slots, window, actions, plastic, normal, result, episode, b, observation, action):
    """Episode's life begins in slot b: its first action f8 (A,) for its first observation f8 (I,)."""
    result.returns[episode] = 0.0
    result.steps[episode] = 0
    load(ph, slots, b, (window.queue[4] + episode) // window.queue[3])
    seen = observe(normal, result.moments, episode, True, observation, window.inputs)
    step(ph, slots, b, seen, 0.0, True, plastic, window.outputs)
    decode(window.outputs, actions, action)


@inlined
def _go_on(ph, slots, window, actions, plastic, normal, result, episode, b, observation, reward, action):
    """Slot b takes in a reward and an observation f8 (I,), and chooses its next action f8 (A,)."""
    result.returns[episode] += reward
    result.steps[episode] += 1
    seen = observe(normal, result.moments, episode, False, observation, window.inputs)
    step(ph, slots, b, seen, reward, False, plastic, window.outputs)
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
        result.weight[start:stop] = slots.weight[b, : stop - start]


@inlined
def _start_next(ph, slots, window, actions, plastic, normal, first, result, b, row):
    """Give slot b the next queued episode and put its first action in `row`; return how many rows are used."""
    episode = window.queue[0]
    if episode == window.queue[2]:
        window.episode[b] = -1
        return row
    window.queue[0] += 1
    env = episode - window.queue[1]
    window.episode[b] = episode
    window.slot_of[env] = b
    _start(ph, slots, window, actions, plastic, normal, result, episode, b, first[env], window.action[row])
    window.ids[row] = env
    return row + 1


@kernel
def begin(context):
    """Start the first episodes; return how many are in flight."""
    c = context
    row = 0
    for b in range(len(c.window.episode)):
        row = _start_next(c.ph, c.slots, c.window, c.actions, c.plastic, c.normal, c.first, c.result, b, row)
    return row


@kernel
def advance(context, env_id, observation, reward, done):
    """Take in one step of every running environment and choose what each does next; return how many go on.

    env_id i4 (n,), observation f8 (n.., I), reward f8 (n..,), done b1 (n,).
    """
    ph, slots, window, plastic, normal = context.ph, context.slots, context.window, context.plastic, context.normal
    actions, first, result = context.actions, context.first, context.result
    row = 0
    for i in range(len(env_id)):
        b = window.slot_of[env_id[i]]
        episode = window.episode[b]
        if done[i] or result.steps[episode] + 1 >= window.queue[5]:  # not every environment keeps its limit
            _end(ph, slots, window, plastic, result, episode, b, reward[i])
            row = _start_next(ph, slots, window, actions, plastic, normal, first, result, b, row)
            continue
        action = window.action[row]
        _go_on(ph, slots, window, actions, plastic, normal, result, episode, b, observation[i], reward[i], action)
        window.ids[row] = env_id[i]
        row += 1
    return row


BEGIN, GO_ON, END = range(3)


@kernel
def live(context, phase, episode, observation, reward):
    """One moment of one life, in slot 0; False where a number is not finite. observation f8 (I,)."""
    ph, slots, window, plastic, normal = context.ph, context.slots, context.window, context.plastic, context.normal
    actions, result, action = context.actions, context.result, context.window.action[0]
    sound = np.isfinite(reward) and (phase == BEGIN or np.isfinite(result.returns[episode] + reward))
    for x in observation:
        sound &= np.isfinite(x)
    if not sound:
        return False
    if phase == GO_ON:
        _go_on(ph, slots, window, actions, plastic, normal, result, episode, 0, observation, reward, action)
    elif phase == BEGIN:
        _start(ph, slots, window, actions, plastic, normal, result, episode, 0, observation, action)
    else:
        _end(ph, slots, window, plastic, result, episode, 0, reward)
    return True
