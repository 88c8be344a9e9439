"""The kernels that live episodes: many at once (EnvPool), one moment of one life (Gymnasium), or whole lives (native).

A life is K trials, each an episode of its own environment, one after the other in the same slot.
Legend: n lives of a shard, K trials of a life, B slots, I inputs, O outputs, A action components.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.experimental import structref

from neol.envs.simulators import begin, look, move
from neol.jit import bare, inlined, kernel
from neol.network.normalization import observe
from neol.network.step import credit, decode, draw_birth, load, rest, step
from neol.rollout.senses import keep_action, sense
from neol.rollout.shards import Shard
from neol.rollout.world import begin_life, begin_trial, enter_observation, enter_reward, leave_action, pass_step

# Places in Window.queue, counted in lives of the shard but for the last three.
NEXT, FIRST, STOP = 0, 1, 2  # the next life to start | the first of the chunk | the end of the chunk
OFFSET = 3  # of the shard's first life among those of its genome
PER_GENOME = 4  # N
LONGEST = 5  # steps after which a trial is over, whatever its environment says
TRIALS = 6  # K


class Window(NamedTuple):
    """The lives in flight. Trial k of life e is played in env (e - FIRST) K + k."""

    slot_of: np.ndarray  # i4 (envs,) slot of each running env; before any runs, env i K stands for slot i
    episode: np.ndarray  # i4 (B,) life of each slot (counted in the shard), -1 = none
    trial: np.ndarray  # i4 (B,) its trial of now
    ids: np.ndarray  # i4 (B,) envs to step next, in order
    action: np.ndarray  # f8 (B, A) their actions
    outputs: np.ndarray  # f8 (O,) scratch
    inputs: np.ndarray  # f8 (I,) scratch: what the network sees
    queue: np.ndarray  # i8 (7,) NEXT, FIRST, STOP, OFFSET, PER_GENOME, LONGEST, TRIALS


def new_window(envs: int, count: int, shard: Shard, start: int, stop: int, max_steps: int = 2**62) -> Window:
    """For lives start .. stop of a shard, `count` at once, in that many environments."""
    queue = np.zeros(7, np.int64)
    queue[[NEXT, FIRST, STOP]] = start, start, stop
    queue[[OFFSET, PER_GENOME, LONGEST]] = shard.start % shard.per_genome, shard.per_genome, max_steps
    queue[TRIALS] = shard.trials
    return Window(
        np.arange(envs, dtype=np.int32) // shard.trials,
        np.full(count, -1, np.int32),
        np.zeros(count, np.int32),
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


_FIELDS = ["ph", "slots", "window", "life", "world", "first", "result"]
structref.define_proxy(Context, _ContextType, _FIELDS)


@kernel
def make_context(ph, slots, window, life, world, first, result):
    """first f8 (envs, I): what each environment showed at its reset, where episodes begin within the kernel."""
    return Context(ph, slots, window, life, world, first, result)


@inlined
def _count(life, result, episode, trial, reward):
    """A reward and a step more."""
    result.returns[episode, trial] += reward
    result.floored[episode, trial] += max(reward, life.reward_floor)
    result.steps[episode, trial] += 1


@inlined
def _choose(ph, slots, window, life, world, result, episode, b, reward, fresh, action):
    """Slot b takes in its reward and what it sees (window.inputs), and chooses its next action f8 (A,).

    fresh: a trial begins, with its first observation and no reward yet; the first one begins the life.
    """
    trial = window.trial[b]
    born = fresh and trial == 0
    if fresh:
        if born:
            load(ph, slots, b, (window.queue[OFFSET] + episode) // window.queue[PER_GENOME])
            if life.plastic.birth_spread > 0.0:
                draw_birth(ph, slots, b, world.name[episode], life.plastic.birth_spread)
            begin_life(life.world, world, b, episode)
        else:
            rest(slots, b)
            begin_trial(world, b)
        result.returns[episode, trial] = 0.0
        result.floored[episode, trial] = 0.0
        result.steps[episode, trial] = 0
    else:
        counted, reward = enter_reward(life.world, world, b, reward)
        _count(life, result, episode, trial, counted)
        pass_step(world, b)
    enter_observation(life.world, world, b, window.inputs)
    sense(life.senses, life.world, world, b, reward, fresh, born, life.plastic.mean_rate, window.inputs)
    observe(life.normal, result.moments, episode, born, window.inputs)
    step(ph, slots, b, window.inputs, reward, fresh, life.plastic, window.outputs)
    keep_action(life.senses, world, b, window.outputs)
    leave_action(life.world, world, b, window.outputs)
    decode(window.outputs, life.actions, action)


@inlined
def _end(ph, slots, window, life, world, result, episode, b, reward):
    """The last reward of a trial; the weights after its genome's last life are kept."""
    trial = window.trial[b]
    counted, reward = enter_reward(life.world, world, b, reward)
    _count(life, result, episode, trial, counted)
    pass_step(world, b)
    credit(ph, slots, b, reward, life.plastic)
    n = window.queue[PER_GENOME]
    if trial == window.queue[TRIALS] - 1 and (window.queue[OFFSET] + episode) % n == n - 1:
        p = slots.genome[b]
        start, stop = ph.edge_start[ph.node_start[p]], ph.edge_start[ph.node_start[p + 1]]
        for e in range(start, stop):
            result.weight[e] = slots.weight[b, e - start]


@kernel
def advance(context, env_id, observation, reward, done):
    """Take in one step of every running environment and choose what each does next; return how many go on.

    A slot whose trial is over begins the next one of its life; a life that is over, or none yet, gives way to the next
    in the queue. env_id i4 (n,), observation (n.., I), reward (n..,), done b1 (n..,).
    """
    c = context
    return _advance(c.ph, c.slots, c.window, c.life, c.world, c.first, c.result, env_id, observation, reward, done)


@bare
def _advance(ph, slots, window, life, world, first, result, env_id, observation, reward, done):
    row, queue = 0, window.queue
    for i in range(len(env_id)):
        env, r = env_id[i], np.float64(reward[i])
        b = window.slot_of[env]
        episode, trial = window.episode[b], window.trial[b]
        # not every environment keeps its limit
        fresh = episode < 0 or done[i] or result.steps[episode, trial] + 1 >= queue[LONGEST]
        if fresh:
            if episode >= 0:
                _end(ph, slots, window, life, world, result, episode, b, r)
            if episode < 0 or trial + 1 == queue[TRIALS]:
                if queue[NEXT] == queue[STOP]:
                    window.episode[b] = -1
                    continue
                episode, trial = queue[NEXT], 0
                queue[NEXT] += 1
            else:
                trial += 1
            env, r = (episode - queue[FIRST]) * queue[TRIALS] + trial, np.float64(0.0)
            window.episode[b], window.trial[b] = episode, trial
            window.slot_of[env] = b
        for k in range(first.shape[1]):
            window.inputs[k] = first[env, k] if fresh else observation[i, k]
        _choose(ph, slots, window, life, world, result, episode, b, r, fresh, window.action[row])
        window.ids[row] = env
        row += 1
    return row


BEGIN, GO_ON, END = range(3)


@kernel
def live(context, phase, episode, observation, reward):
    """One moment of one life, in slot 0, in trial window.trial[0]; False where a number is not finite.

    observation f8 (I,), or fewer where other inputs are sensed (senses.py).
    """
    c = context
    return _live(c.ph, c.slots, c.window, c.life, c.world, c.result, phase, episode, observation, reward)


@bare
def _live(ph, slots, window, life, world, result, phase, episode, observation, reward):
    total = result.returns[episode, window.trial[0]]
    sound = np.isfinite(reward) and (phase == BEGIN or np.isfinite(total + reward))
    for k in range(len(observation)):
        window.inputs[k] = observation[k]
        sound &= np.isfinite(observation[k])
    if not sound:
        return False
    if phase == END:
        _end(ph, slots, window, life, world, result, episode, 0, reward)
    else:
        fresh = phase == BEGIN
        r = 0.0 if fresh else reward
        _choose(ph, slots, window, life, world, result, episode, 0, r, fresh, window.action[0])
    return True


@kernel
def live_natively(context, kind, parameters, state, seeds, start, stop):
    """Lives start .. stop, whole, in slot 0, in a simulator of our own (envs/simulators.py). seeds i4 (n K,)."""
    c = context
    _live_natively(c.ph, c.slots, c.window, c.life, c.world, c.result, kind, parameters, state, seeds, start, stop)


@bare
def _live_natively(ph, slots, window, life, world, result, kind, parameters, state, seeds, start, stop):
    trials, longest = window.queue[TRIALS], window.queue[LONGEST]
    for episode in range(start, stop):
        for trial in range(trials):
            window.trial[0] = trial
            begin(kind, parameters, seeds[episode * trials + trial], state)
            reward, fresh, steps = 0.0, True, 0
            while True:
                look(kind, parameters, state, window.inputs)
                _choose(ph, slots, window, life, world, result, episode, 0, reward, fresh, window.action[0])
                reward, over = move(kind, parameters, state, window.action[0])
                fresh, steps = False, steps + 1
                if over or steps >= longest:
                    _end(ph, slots, window, life, world, result, episode, 0, reward)
                    break
