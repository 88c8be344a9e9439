"""What differentiable plasticity draws, by name."""

from __future__ import annotations

import numpy as np

from neol import seeding
from neol.jit import kernel


@kernel
def normals(seed, stream, count):
    """Standard normal f8 (count,): first weights and coefficients."""
    state = seeding.stream(seed, seeding.INITIAL, 0, stream, 4)
    out = np.empty(count)
    for i in range(count):
        out[i] = seeding.normal(state)
    return out


@kernel
def chances(seed, generation, update, lives, steps):
    """Uniform f4 (B, T) in [0, 1), each life's named by (seed, generation, update, life)."""
    out = np.empty((lives, steps), np.float32)
    for b in range(lives):
        state = seeding.stream(seed, seeding.LEARNER, generation, 2**40 + update, b)
        for t in range(steps):
            out[b, t] = seeding.uniform(state)
    return out
