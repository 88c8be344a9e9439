"""Innovation numbers: the same structural change always gets the same number, in every generation and after a resume.

NEAT aligns genes by history. A connection is one innovation per (source, target) for the whole run; a node that splits
a connection is one per (connection's innovation, how often that genome has split it already), so that two genomes
which split the same connection, in whatever generation, share the new node and line up in crossover.
The table is open addressing over int64 keys; all of it is arrays, so that a checkpoint holds it whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neol.jit import kernel


class Innovations(NamedTuple):
    keys: np.ndarray  # i8 (H,), H a power of two; EMPTY where free
    values: np.ndarray  # i4 (H,)
    counts: np.ndarray  # i8 (3,) connections so far | next node id | entries in the table


EMPTY = np.int64(-(2**63))
_CONNS, _NODES, _USED = 0, 1, 2
_SPLIT = np.int64(1) << np.int64(62)  # marks keys of splits
_LOW = np.int64(0xFFFFFFFF)


def new_innovations(first_node: int) -> Innovations:
    """An empty table; new nodes are numbered from `first_node`."""
    return Innovations(np.full(64, EMPTY), np.zeros(64, np.int32), np.array([0, first_node, 0], np.int64))


def is_split(keys: np.ndarray) -> np.ndarray:
    """Which keys i8 (n,) are of nodes that split a connection; the others are of connections."""
    return (keys >> np.int64(62)) & np.int64(1) == 1


def ensure_capacity(table: Innovations, more: int) -> Innovations:
    """The same table with room for `more` entries at a load below one half."""
    size = len(table.keys)
    while size < 2 * (int(table.counts[_USED]) + more):
        size *= 2
    if size == len(table.keys):
        return table
    out = Innovations(np.full(size, EMPTY), np.zeros(size, np.int32), table.counts.copy())
    _rehash(table.keys, table.values, out.keys, out.values)
    return out


@kernel
def _place(keys, key):
    """Where the key is, or the free place where it belongs."""
    mask = np.int64(len(keys) - 1)
    h = key * np.int64(-7046029254386353131)  # Fibonacci hashing
    i = (h ^ (h >> np.int64(29))) & mask
    while keys[i] != EMPTY and keys[i] != key:
        i = (i + np.int64(1)) & mask
    return i


@kernel
def _rehash(old_keys, old_values, keys, values):
    for i in range(len(old_keys)):
        if old_keys[i] != EMPTY:
            place = _place(keys, old_keys[i])
            keys[place] = old_keys[i]
            values[place] = old_values[i]


@kernel
def _number(table, key, counter):
    """The value of the key; a new key takes the next number of that counter."""
    i = _place(table.keys, key)
    if table.keys[i] == EMPTY:
        table.keys[i] = key
        table.values[i] = table.counts[counter]
        table.counts[counter] += 1
        table.counts[_USED] += 1
    return np.int64(table.values[i])


@kernel
def connection_innovation(table, source, target):
    """Innovation number of the connection source -> target (node ids)."""
    key = ((np.int64(source) & _LOW) << np.int64(30)) | np.int64(target)
    return _number(table, key, _CONNS)


@kernel
def split_node(table, innovation, repeat):
    """Id of the node that splits the connection with that innovation for the `repeat`-th time in one genome."""
    key = _SPLIT | (np.int64(repeat) << np.int64(32)) | np.int64(innovation)
    return _number(table, key, _NODES)
