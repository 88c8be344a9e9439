"""Kernels that fill in what a network senses beside its observation (envs/senses.py).

Legend: I inputs, O outputs, B slots.
"""

from __future__ import annotations

from neol.jit import inlined
from neol.network.activations import clip


@inlined
def sense(senses, changes, state, b, reward, fresh, born, rate, inputs):
    """Fill in what slot b senses, in inputs f8 (I,). state.felt f8 (B, 1 + O): the rewards' mean, the last outputs."""
    if senses.reward >= 0 or senses.advantage >= 0 or senses.action >= 0 or senses.world >= 0:
        outputs = state.felt.shape[1] - 1
        if born:
            state.felt[b, 0] = 0.0
        above = 0.0
        if fresh:
            for o in range(outputs):
                state.felt[b, 1 + o] = 0.0
        else:
            above = reward - state.felt[b, 0]
            state.felt[b, 0] += rate * above
        if senses.reward >= 0:
            inputs[senses.reward] = reward
        if senses.advantage >= 0:
            inputs[senses.advantage] = above
        if senses.action >= 0:
            for o in range(outputs):
                inputs[senses.action + o] = state.felt[b, 1 + o]
        if senses.world >= 0:
            for c in range(len(changes.op)):
                t = state.clock[b, changes.clock[c]]
                active = state.onset[b, c] <= t and t < state.end[b, c]
                inputs[senses.world + changes.number[c]] = 1.0 if active else 0.0


@inlined
def keep_action(senses, state, b, outputs):
    """Remember the outputs f8 (O,) of slot b, before the world changes them."""
    if senses.action >= 0:
        for o in range(len(outputs)):
            state.felt[b, 1 + o] = clip(outputs[o], 1.0)
