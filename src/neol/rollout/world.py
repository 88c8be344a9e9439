"""The world between a network and its simulator: changes of observations, actions and rewards, as arrays and kernels.

What happens to a life is drawn when it begins, from its name (u8, by seed, purpose, generation, genome, episode); noise
is a function of (name, change, step, index). So nothing depends on the order in which lives are played. A genome's
lives of a generation are drawn in strata (`fates`): a change with p = 1/2 comes to one of two lives, never to both.
Legend: C changes (observations' first, then actions', rewards', attributes'), X indices of all changes, M numbers that
changes remember in a slot, n lives, B slots, O outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from neol.config.changes import COUNTS, NEVER, OPS, WHATS, FittedChange, fit_changes
from neol.envs.senses import WORLD, places
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.jit import inlined, kernel
from neol.network.actions import BOUNDED
from neol.network.activations import clip
from neol.seeding import mix, stream

OBSERVATION, ACTION, REWARD, ATTRIBUTE = range(4)  # as in WHATS
GAIN, OFFSET, SET, HOLD, DELAY, NOISE = range(6)  # as in OPS
LIFE, TRIAL, TRIALS = range(3)  # as in COUNTS
_NEVER = NEVER
_GOLDEN, _WORLD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_S11 = np.uint64(11)
_2_PI = 2.0 * math.pi
_BELOW_ONE = 1.0 - 2.0**-53


class Changes(NamedTuple):
    """The changes of a world, as kernels take them."""

    first: np.ndarray  # i8 (5,) where each part's changes begin: observations, actions, rewards, attributes, end
    op: np.ndarray  # i8 (C,) GAIN, OFFSET ...
    value: np.ndarray  # f8 (C,)
    clock: np.ndarray  # i8 (C,) which clock `onset` and `end` are by: LIFE, TRIAL, TRIALS
    onset: np.ndarray  # i8 (C, 2) first and last possible
    end: np.ndarray  # i8 (C, 2)
    number: np.ndarray  # i8 (C,) its place in the user's list: part of the name of what it draws
    draw: np.ndarray  # i8 (C,) the number whose draw decides whether a life has it
    share: np.ndarray  # f8 (C, 2) a life has it where share[0] <= u < share[1]
    index_start: np.ndarray  # i8 (C + 1,)
    indices: np.ndarray  # i8 (X,)
    memory: np.ndarray  # i8 (C + 1,) where its memory begins in a slot's
    limit: np.ndarray  # f8 (O,) what outputs are clipped to before a change; (0,) where no action is changed


class World(NamedTuple):
    """How the world differs from the simulator."""

    changes: Changes
    attributes: tuple[tuple[str, Any], ...] = ()  # of the environment: path and value, as the last changes of all


class WorldState(NamedTuple):
    """What the lives in flight met, and what their changes remember."""

    name: np.ndarray  # u8 (n,) of every life of the shard; (0,) where nothing changes
    fate: np.ndarray  # f8 (n, C) what decides whether a life has a change; (0, 0) where its name does
    key: np.ndarray  # u8 (B,) the name of the slot's life
    clock: np.ndarray  # i8 (B, 3) steps of the life, steps of the trial, trial
    onset: np.ndarray  # i8 (B, C) when each change begins in this life; NEVER = not at all
    end: np.ndarray  # i8 (B, C)
    memory: np.ndarray  # f8 (B, M)
    felt: np.ndarray  # f8 (B, 1 + O) the rewards' running mean and the last outputs, where they are sensed (senses.py)


def world_of(task: Task, texts: Sequence[str], max_steps: int, trials: int = 1) -> World:
    """The world that these changes make of a task, or a NeolError."""
    fitted = list(enumerate(fit_changes(texts, task.observed, task.actions, max_steps, trials)))
    ordered = sorted(fitted, key=lambda item: WHATS.index(item[1].change.what))  # stable
    changes = [f for _, f in ordered]
    told = task.n_inputs - places(task.senses, len(task.observed), task.n_outputs).world
    if told < len(changes) and WORLD in task.senses:
        raise NeolError(f"{len(changes)} changes are not allowed; the network is told of {told}, not of more.")
    parts = [WHATS.index(f.change.what) for f in changes]
    acts = ACTION in parts
    limit = np.full(task.n_outputs if acts else 0, np.inf)
    if acts:
        limit[[c.first for c in task.components if c.kind == BOUNDED]] = 1.0
    arrays = Changes(
        np.searchsorted(parts, range(5)).astype(np.int64),
        _whole(OPS.index(f.change.op) for f in changes),
        np.array([f.change.value for f in changes], np.float64),
        _whole(COUNTS.index(f.change.counted) for f in changes),
        _whole(f.change.onset for f in changes).reshape(-1, 2),
        _whole(f.change.end for f in changes).reshape(-1, 2),
        _whole(number for number, _ in ordered),
        _whole(f.draw for f in changes),
        np.array([(f.low, f.high) for f in changes], np.float64).reshape(-1, 2),
        _starts(len(f.indices) for f in changes),
        _whole(i for f in changes for i in f.indices),
        _starts(_remembered(f) for f in changes),
        limit,
    )
    return World(arrays, tuple((f.change.path, f.change.attribute) for f in changes if f.change.what == "env"))


def _whole(values: Any) -> np.ndarray:
    return np.array(list(values), np.int64)


def _starts(sizes: Any) -> np.ndarray:
    return np.cumsum([0, *sizes]).astype(np.int64)


def _remembered(fitted: FittedChange) -> int:
    """How many numbers a change keeps in a slot: a held one for each index, or a ring of the last ones."""
    change, width = fitted.change, len(fitted.indices) or 1
    return width * int(change.value) if change.op == "delay" else width * (change.op == "hold")


def _nothing() -> Changes:
    none, pairs, numbers = np.zeros(0, np.int64), np.zeros((0, 2), np.int64), np.zeros(0)
    first, start = np.zeros(5, np.int64), np.zeros(1, np.int64)
    return Changes(
        first, none, numbers, none, pairs, pairs, none, none, np.zeros((0, 2)), start, none, start, numbers
    )  # fmt: skip


UNCHANGED = World(_nothing())


NO_FATES = np.zeros((0, 0))


def new_world_state(
    changes: Changes, count: int, names: np.ndarray, outputs: int, fates: np.ndarray = NO_FATES
) -> WorldState:
    """For `count` slots of networks with so many outputs; names u8 (n,) and fates f8 (n, C) of the shard's lives."""
    c = len(changes.op)
    onset, end = (np.full((count, c), NEVER, np.int64) for _ in range(2))
    memory = np.zeros((count, int(changes.memory[-1])))
    felt = np.zeros((count, 1 + outputs))
    keys, clock = np.zeros(count, np.uint64), np.zeros((count, 3), np.int64)
    return WorldState(names, fates, keys, clock, onset, end, memory, felt)


@kernel
def life_names(seed, purpose, generation, genomes, episodes, common):
    """Names u8 (genomes * episodes,) of lives: genome-major; with `common` every genome gets the same ones."""
    names = np.empty(genomes * episodes, np.uint64)
    for g in range(genomes):
        for e in range(episodes):
            names[g * episodes + e] = mix(stream(seed, purpose, generation, 0 if common else g + 1, e)[0] ^ _WORLD)
    return names


@kernel
def _drawn(key, number, i):
    """The i-th uniform number in [0, 1) of a change in a life."""
    z = mix(mix(key ^ mix(np.uint64(number) + _GOLDEN)) + np.uint64(i) * _GOLDEN)
    return np.float64(z >> _S11) * (1.0 / 9007199254740992.0)


@kernel
def fates(changes, names, together):
    """What decides whether lives have changes, u f8 (n, C), in strata: u8 names (n,) in groups of so many lives.

    N lives have u = (0 + v) / N, (1 + v) / N ...; v, and who has which, is drawn for each change, or group of changes,
    apart. So a share p of [0, 1) has floor(p N) or ceil(p N) of them; each u alone is uniform, by its name where N = 1.
    """
    u, own = np.empty((len(names), len(changes.op))), np.empty(together)
    for c in range(len(changes.op)):
        for first in range(0, len(names), together):
            for e in range(together):
                own[e] = _drawn(names[first + e], changes.draw[c], 0)
            v = _drawn(mix(names[first]), changes.draw[c], 0) if together > 1 else own[0]
            order = np.argsort(own, kind="mergesort")  # stable
            for rank in range(together):
                u[first + order[rank], c] = min((rank + v) / together, _BELOW_ONE)
    return u


@inlined
def begin_life(changes, state, b, life):
    """Slot b begins a life: what it will meet, and when."""
    state.clock[b] = 0
    if len(changes.op) > 0:
        key = state.name[life]
        state.key[b] = key
        for c in range(len(changes.op)):
            state.onset[b, c] = _NEVER
            u = state.fate[life, c] if len(state.fate) > 0 else _drawn(key, changes.draw[c], 0)
            if changes.share[c, 0] <= u and u < changes.share[c, 1]:
                number, onset, end = changes.number[c], changes.onset[c], changes.end[c]
                state.onset[b, c] = onset[0] + np.int64(_drawn(key, number, 1) * (onset[1] - onset[0] + 1))
                state.end[b, c] = end[0] + np.int64(_drawn(key, number, 2) * (end[1] - end[0] + 1))


@inlined
def begin_trial(state, b):
    """Slot b begins the next trial of its life."""
    state.clock[b, TRIAL] = 0
    state.clock[b, TRIALS] += 1


@inlined
def pass_step(state, b):
    """A step of slot b is over."""
    state.clock[b, LIFE] += 1
    state.clock[b, TRIAL] += 1


@inlined
def _change(changes, state, b, part, values):
    """Values f8 (I,) or (O,) as the part's changes leave them, one after the other, in place."""
    clock = state.clock[b]
    for c in range(changes.first[part], changes.first[part + 1]):
        t, op, v = clock[changes.clock[c]], changes.op[c], changes.value[c]
        active = state.onset[b, c] <= t and t < state.end[b, c]
        start, stop = changes.index_start[c], changes.index_start[c + 1]
        place, width = changes.memory[c], stop - start
        if op == DELAY:
            steps = np.int64(v)
            if clock[TRIAL] == 0:  # nothing was ordered before; what was seen is what is seen first
                for k in range(steps * width):
                    seen = values[changes.indices[start + k % width]] if part == OBSERVATION else 0.0
                    state.memory[b, place + k] = seen
            place += clock[TRIAL] % steps * width
            for k in range(width):
                i = changes.indices[start + k]
                old, state.memory[b, place + k] = state.memory[b, place + k], values[i]
                if active:
                    values[i] = old
        elif op == HOLD:
            for k in range(width):
                i = changes.indices[start + k]
                if not active or clock[LIFE] == 0:
                    state.memory[b, place + k] = values[i]
                values[i] = state.memory[b, place + k]
        elif active:
            if op == NOISE:
                key, number, base = state.key[b], changes.number[c], 3 + clock[LIFE] * 2 * ((width + 1) // 2)
                for k in range(0, width, 2):  # Box and Muller: two at a time
                    radius = v * math.sqrt(-2.0 * math.log(1.0 - _drawn(key, number, base + k)))
                    angle = _2_PI * _drawn(key, number, base + k + 1)
                    values[changes.indices[start + k]] += radius * math.cos(angle)
                    if k + 1 < width:
                        values[changes.indices[start + k + 1]] += radius * math.sin(angle)
            else:
                for k in range(start, stop):
                    i = changes.indices[k]
                    values[i] = values[i] * v if op == GAIN else values[i] + v if op == OFFSET else v


@inlined
def enter_observation(changes, state, b, observation):
    """The simulator's observation f8 (I,) becomes the world's, in place."""
    _change(changes, state, b, OBSERVATION, observation)


@inlined
def leave_action(changes, state, b, outputs):
    """The network's outputs f8 (O,) become what the world makes of them, in place, before they are an action."""
    for o in range(len(changes.limit)):
        outputs[o] = clip(outputs[o], changes.limit[o])
    _change(changes, state, b, ACTION, outputs)


@inlined
def enter_reward(changes, state, b, reward):
    """The simulator's reward becomes the world's: (what is counted, what the network learns from).

    Its sign and scale are changed in both; a delayed or absent one is counted when it is earned.
    """
    counted = felt = reward
    clock = state.clock[b]
    for c in range(changes.first[REWARD], changes.first[REWARD + 1]):
        t, op = clock[changes.clock[c]], changes.op[c]
        active = state.onset[b, c] <= t and t < state.end[b, c]
        if op == DELAY:
            steps, place = np.int64(changes.value[c]), changes.memory[c]
            if clock[TRIAL] == 0:
                for k in range(steps):
                    state.memory[b, place + k] = 0.0
            place += clock[TRIAL] % steps
            old, state.memory[b, place] = state.memory[b, place], felt
            if active:
                felt = old
        elif active:
            if op == GAIN:
                counted *= changes.value[c]
                felt *= changes.value[c]
            else:
                felt = 0.0
    return counted, felt
