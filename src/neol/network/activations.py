"""Activation and aggregation functions by neat-python's names and definitions (https://neat-python.readthedocs.io).

Ids are positions in `ACTIVATIONS` and `AGGREGATIONS` of config/sections.py.
"""

from __future__ import annotations

import math

import numpy as np

from neol.config.sections import AGGREGATION_ID
from neol.jit import kernel

SELU_LAMBDA = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717
SUM = AGGREGATION_ID["sum"]


@kernel
def clip(z, limit):
    return min(max(z, -limit), limit)


@kernel
def activate(kind, z):
    """The activation with id `kind` at z."""
    if kind == 0:  # clamped
        return clip(z, 1.0)
    if kind == 1:  # identity
        return z
    if kind == 2:  # tanh
        return math.tanh(clip(2.5 * z, 60.0))
    if kind == 3:  # sigmoid
        return 1.0 / (1.0 + math.exp(-clip(5.0 * z, 60.0)))
    if kind == 4:  # relu
        return max(z, 0.0)
    if kind == 5:  # sin
        return math.sin(clip(5.0 * z, 60.0))
    if kind == 6:  # gauss
        return math.exp(-5.0 * clip(z, 3.4) ** 2)
    if kind == 7:  # abs
        return abs(z)
    if kind == 8:  # square
        return z * z
    if kind == 9:  # cube
        return z * z * z
    if kind == 10:  # softplus
        return 0.2 * math.log(1.0 + math.exp(clip(5.0 * z, 60.0)))
    if kind == 11:  # elu
        return z if z > 0.0 else math.exp(z) - 1.0
    if kind == 12:  # lelu
        return z if z > 0.0 else 0.005 * z
    if kind == 13:  # selu
        return SELU_LAMBDA * (z if z > 0.0 else SELU_ALPHA * (math.exp(z) - 1.0))
    if kind == 14:  # inv
        return 1.0 / z if z != 0.0 else 0.0
    if kind == 15:  # log
        return math.log(max(z, 1e-7))
    if kind == 16:  # exp
        return math.exp(clip(z, 60.0))
    return max(0.0, 1.0 - abs(z))  # hat


@kernel
def aggregate(kind, source, weight, value, start, stop):
    """The aggregation with id `kind` of value[source[e]] * weight[e], e in [start, stop); not for `sum`.

    source i4 (E,) flat, weight f8 (E',) indexed from 0 at `start`, value f8 (V,).
    """
    n = stop - start
    if kind == 1:  # product
        total = 1.0
        for e in range(start, stop):
            total *= value[source[e]] * weight[e - start]
        return total
    if n == 0:
        return 0.0
    terms = np.empty(n)
    for e in range(n):
        terms[e] = value[source[start + e]] * weight[e]
    if kind == 2:  # mean
        return terms.sum() / n
    if kind == 3:  # max
        return terms.max()
    if kind == 4:  # min
        return terms.min()
    if kind == 5:  # maxabs: the first of the largest magnitude, with its sign
        return terms[np.argmax(np.abs(terms))]
    terms.sort()  # median
    return terms[n // 2] if n % 2 == 1 else 0.5 * (terms[n // 2 - 1] + terms[n // 2])
