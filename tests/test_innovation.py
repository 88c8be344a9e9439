"""The same structural change gets the same number for ever; a plain dictionary is the oracle."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neol.neat.innovation import EMPTY, Innovations, connection_innovation, ensure_capacity, new_innovations, split_node

SOURCES = st.integers(-(2**31), 2**31 - 1)
TARGETS = st.integers(0, 2**30 - 1)
CONNECTIONS = st.tuples(st.just("connection"), SOURCES | st.integers(-3, 3), TARGETS | st.integers(0, 3))
SPLITS = st.tuples(st.just("split"), st.integers(0, 2**31 - 1) | st.integers(0, 3), st.integers(0, 100))
CHANGES = st.lists(CONNECTIONS | SPLITS, max_size=120)
FIRST_NODE = 4
FUZZ = settings(deadline=None)  # the first example may compile a kernel


def number(table: Innovations, change: tuple[str, int, int]) -> tuple[Innovations, int]:
    kind, a, b = change
    table = ensure_capacity(table, 1)
    return table, (connection_innovation if kind == "connection" else split_node)(table, a, b)


class Oracle:
    """Numbers in the order of first appearance: connections from 0, nodes from FIRST_NODE."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int, int], int] = {}

    def number(self, change: tuple[str, int, int]) -> int:
        same_kind = sum(c[0] == change[0] for c in self.numbers)
        return self.numbers.setdefault(change, same_kind + (FIRST_NODE if change[0] == "split" else 0))


@settings(FUZZ, max_examples=200)
@given(CHANGES)
def test_numbers_are_a_dictionarys_in_order_of_first_appearance(changes):
    table, oracle = new_innovations(FIRST_NODE), Oracle()
    for change in changes:
        table, n = number(table, change)
        assert n == oracle.number(change)
    splits = sum(c[0] == "split" for c in oracle.numbers)
    assert table.counts.tolist() == [len(oracle.numbers) - splits, FIRST_NODE + splits, len(oracle.numbers)]


@settings(FUZZ, max_examples=100)
@given(CHANGES)
def test_the_same_change_keeps_its_number_for_ever(changes):
    table, first = new_innovations(FIRST_NODE), {}
    for change in changes:
        table, n = number(table, change)
        assert first.setdefault(change, n) == n
    entries = table.counts.copy()
    for change, n in first.items():
        table, again = number(table, change)
        assert again == n
    assert np.array_equal(table.counts, entries)


def test_growth_and_rehash_keep_every_entry():
    table, rng = new_innovations(FIRST_NODE), np.random.default_rng(0)
    pairs = [(int(s), int(t)) for s, t in zip(rng.integers(-500, 500, 4000), rng.integers(0, 500, 4000), strict=True)]
    numbers: dict[tuple[int, int], int] = {}
    for i, (s, t) in enumerate(pairs):
        table = ensure_capacity(table, 1)
        assert numbers.setdefault((s, t), connection_innovation(table, s, t)) == connection_innovation(table, s, t)
        if i % 500 == 0:
            assert all(connection_innovation(table, *pair) == n for pair, n in numbers.items())
    assert sorted(numbers.values()) == list(range(len(numbers)))
    assert len(table.keys) > 64 and (table.keys != EMPTY).sum() == len(numbers)


@FUZZ
@given(st.integers(0, 300), st.integers(0, 2000))
def test_capacity_leaves_the_table_at_most_half_full_and_a_power_of_two(used, more):
    table = ensure_capacity(new_innovations(FIRST_NODE), used)
    for k in range(used):
        connection_innovation(table, k, 0)
    grown = ensure_capacity(table, more)
    size = len(grown.keys)
    assert size & (size - 1) == 0 and len(grown.values) == size
    assert size >= 2 * (used + more)
    assert [connection_innovation(grown, k, 0) for k in range(used)] == list(range(used))
    assert (grown is table) == (len(table.keys) >= 2 * (used + more))


def test_growing_leaves_the_old_table_alone():
    table = new_innovations(FIRST_NODE)
    connection_innovation(table, -1, 0)
    before = [a.copy() for a in table]
    grown = ensure_capacity(table, 1000)
    connection_innovation(grown, -2, 0)
    split_node(grown, 0, 0)
    assert all(np.array_equal(a, b) for a, b in zip(before, table, strict=True))


def test_inputs_are_distinct_from_each_other_and_from_nodes():
    table = ensure_capacity(new_innovations(FIRST_NODE), 200 * 5)
    numbers = {(s, t): connection_innovation(table, s, t) for s in range(-100, 100) for t in range(5)}
    assert sorted(numbers.values()) == list(range(1000))


def test_direction_matters():
    table = new_innovations(FIRST_NODE)
    assert connection_innovation(table, 5, 6) != connection_innovation(table, 6, 5)


def test_splitting_the_same_connection_again_in_one_genome_is_another_node():
    table = new_innovations(FIRST_NODE)
    nodes = [split_node(table, 3, repeat) for repeat in range(4)]
    assert nodes == [4, 5, 6, 7]
    assert [split_node(table, 3, repeat) for repeat in range(4)] == nodes
    assert split_node(table, 2, 0) == 8


def test_a_connection_never_meets_a_split():
    """Keys of both kinds over extreme ids: every one of them gets an entry of its own."""
    table = ensure_capacity(new_innovations(FIRST_NODE), 200)
    ends = (-(2**31), -1, 0, 1, 2**30 - 1)
    for source in (*ends, 2**31 - 1):
        for target in ends[2:]:
            connection_innovation(table, source, target)
    for innovation in (0, 1, 2**30, 2**31 - 1):
        for repeat in (0, 1, 2, 1000):
            split_node(table, innovation, repeat)
    assert table.counts.tolist() == [18, FIRST_NODE + 16, 34]


@settings(FUZZ, max_examples=50)
@given(CHANGES, CHANGES)
def test_a_saved_and_restored_table_goes_on_with_the_same_numbers(before, after):
    table = new_innovations(FIRST_NODE)
    for change in before:
        table, _ = number(table, change)
    file = io.BytesIO()
    np.savez(file, **table._asdict())
    file.seek(0)
    restored = Innovations(**np.load(file, allow_pickle=False))
    for change in before + after:
        table, n = number(table, change)
        restored, m = number(restored, change)
        assert n == m
    assert all(np.array_equal(a, b) for a, b in zip(table, restored, strict=True))
