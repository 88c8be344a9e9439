"""The kernels that live episodes: many at once in a window (EnvPool), or one moment of one life (Gymnasium).

Legend: n episodes of a shard, B slots, I inputs, O outputs, A action components.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.experimental import structref

from neol.jit import bare, inlined, kernel
from neol.network.normalization import observe
from neol.network.step import credit, decode, load, step
from neol.rollout.life import enter_observation, enter_reward, leave_action
from neol.rollout.shards import Shard

# Places in Window.queue, counted in episodes of the shard but for the last two.
NEXT, FIRST, STOP = 0, 1, 2  # the next episode to start | the first of the chunk | the end of the chunk
OFFSET = 3  # of the shard's first episode among those of its genome
PER_GENOME = 4  # N
LONGEST = 5  # steps after which an episode is over, whatever its environment says


class Window(NamedTuple):
    """The episodes in flight."""

    slot_of: np.ndarray  # i4 (envs,) slot of each running env; before any runs, env i stands for slot i
    episode: np.ndarray  # i4 (B,) episode of each slot (counted in the shard), -1 = none
    ids: np.ndarray  # i4 (B,) envs to step next, in order
    action: np.ndarray  # f8 (B, A) their actions
    outputs: np.ndarray  # f8 (O,) scratch
    inputs: np.ndarray  # f8 (I,) scratch: what the network sees
    queue: np.ndarray  # i8 (6,) NEXT, FIRST, STOP, OFFSET, PER_GENOME, LONGEST


def new_window(envs: int, count: int, shard: Shard, start: int, stop: int, max_steps: int = 2**62) -> Window:
    """For episodes start .. stop of a shard, `count` at once, in that many environments."""
    queue = np.zeros(6, np.int64)
    queue[[NEXT, FIRST, STOP]] = start, start, stop
    queue[[OFFSET, PER_GENOME, LONGEST]] = shard.start % shard.per_genome, shard.per_genome, max_steps
    return Window(
        np.arange(envs, dtype=np.int32),
        np.full(count, -1, np.int32),
        np.empty(count, np.int32),
        np.zeros((count, len(shard.life.actions.kind))),
        np.zeros(shard.phenotypes.output.shape[1]),
        np.zeros(shard.phenotypes.inputs),
        queue,
    )


@structref.register
class _ContextType(types.StructRef):
    """Numba's type of Context."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Context(structref.StructRefProxy):
    """Everything that stays the same while a lane plays, as one argument: unpacking 40 arrays at every call is slow."""


_FIELDS = ["ph", "slots", "window", "life", "first", "result"]
structref.define_proxy(Context, _ContextType, _FIELDS)


@kernel
def make_context(ph, slots, window, life, first, result):
    """first f8 (envs, I): what each environment showed at its reset, where episodes begin within the kernel."""
    return Context(ph, slots, window, life, first, result)


@inlined
def _count(life, result, episode, reward):
    """A reward and a step more."""
    result.returns[episode] += reward
    result.floored[episode] += max(reward, life.reward_floor)
    result.steps[episode] += 1


@inlined
def _choose(ph, slots, window, life, result, episode, b, reward, fresh, action):
    """Slot b takes in its reward and what it sees (window.inputs), and chooses its next action f8 (A,).

    fresh: the episode begins, with its first observation and no reward yet.
    """
    if fresh:
        load(ph, slots, b, (window.queue[OFFSET] + episode) // window.queue[PER_GENOME])
        result.returns[episode] = 0.0
        result.floored[episode] = 0.0
        result.steps[episode] = 0
    else:
        reward = enter_reward(life.world, reward)
        _count(life, result, episode, reward)
    enter_observation(life.world, window.inputs)
    observe(life.normal, result.moments, episode, fresh, window.inputs)
    step(ph, slots, b, window.inputs, reward, fresh, life.plastic, window.outputs)
    leave_action(life.world, window.outputs)
    decode(window.outputs, life.actions, action)


@inlined
def _end(ph, slots, window, life, result, episode, b, reward):
    """Episode's last reward; the weights after its genome's last episode are kept."""
    reward = enter_reward(life.world, reward)
    _count(life, result, episode, reward)
    credit(ph, slots, b, reward, life.plastic)
    n = window.queue[PER_GENOME]
    if (window.queue[OFFSET] + episode) % n == n - 1:
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
    return _advance(c.ph, c.slots, c.window, c.life, c.first, c.result, env_id, observation, reward, done)


@bare
def _advance(ph, slots, window, life, first, result, env_id, observation, reward, done):
    row, queue = 0, window.queue
    for i in range(len(env_id)):
        env, r = env_id[i], np.float64(reward[i])
        b = window.slot_of[env]
        episode = window.episode[b]
        # not every environment keeps its limit
        fresh = episode < 0 or done[i] or result.steps[episode] + 1 >= queue[LONGEST]
        if fresh:
            if episode >= 0:
                _end(ph, slots, window, life, result, episode, b, r)
            if queue[NEXT] == queue[STOP]:
                window.episode[b] = -1
                continue
            episode = queue[NEXT]
            queue[NEXT] += 1
            env, r = episode - queue[FIRST], np.float64(0.0)
            window.episode[b] = episode
            window.slot_of[env] = b
        for k in range(len(window.inputs)):
            window.inputs[k] = first[env, k] if fresh else observation[i, k]
        _choose(ph, slots, window, life, result, episode, b, r, fresh, window.action[row])
        window.ids[row] = env
        row += 1
    return row


BEGIN, GO_ON, END = range(3)


@kernel
def live(context, phase, episode, observation, reward):
    """One moment of one life, in slot 0; False where a number is not finite. observation f8 (I,)."""
    c = context
    return _live(c.ph, c.slots, c.window, c.life, c.result, phase, episode, observation, reward)


@bare
def _live(ph, slots, window, life, result, phase, episode, observation, reward):
    sound = np.isfinite(reward) and (phase == BEGIN or np.isfinite(result.returns[episode] + reward))
    for k in range(len(window.inputs)):
        window.inputs[k] = observation[k]
        sound &= np.isfinite(observation[k])
    if not sound:
        return False
    if phase == END:
        _end(ph, slots, window, life, result, episode, 0, reward)
    else:
        fresh = phase == BEGIN
        r = 0.0 if fresh else reward
        _choose(ph, slots, window, life, result, episode, 0, r, fresh, window.action[0])
    return True
