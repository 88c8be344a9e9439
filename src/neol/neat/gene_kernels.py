"""Kernels made from the table of genes: what happens to one value, and to all genes of a genome, node or connection.

Numba cannot loop over columns of several types, so the loop over the genes is unrolled when this module is imported:
a step is made for each gene (one for all numbers of plasticity, whose columns have one type), and `in_turn` makes one
function of them, inlined into the kernels that call it. The
steps of a gene read its column as g[column] and its settings as settings.of[gene], both constants to the compiler.
A place `at` is p for the genes of a genome, (p, k) for those of a rule, node or connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from neol import seeding
from neol.jit import bare, kernel
from neol.neat.genes import (
    COLUMNS,
    CONNECTION,
    DISABLED,
    EITHER,
    FITTER,
    GENE_ID,
    GENOME,
    NODE,
    RULE,
    STREAM_OF,
    STRUCTURE,
    Factor,
    Flag,
    Gene,
    Number,
    NumberSettings,
    Option,
    genes_of,
)

Step = Callable[..., None]  # (g, at, by): acts on column values at one place, with what `by` holds
COLUMN = {name: i for i, name in enumerate(COLUMNS)}  # place in Genomes

# -- one value


@kernel
def draw_number(rng, s):
    if s.uniform:  # neat-python: mean +- 2 SD
        start, stop = max(s.low, s.mean - 2.0 * s.stdev), min(s.high, s.mean + 2.0 * s.stdev)
        value = start + (stop - start) * seeding.uniform(rng)
    else:
        value = s.mean + s.stdev * seeding.normal(rng)
    return min(max(value, s.low), s.high)


@kernel
def mutate_number(rng, value, s, step_size):
    """A Gaussian step of SD power * step_size, a fresh value, or neither."""
    if s.rate + s.replace <= 0.0:
        return value
    r = seeding.uniform(rng)
    if r < s.rate:
        return min(max(value + s.power * step_size * seeding.normal(rng), s.low), s.high)
    if r < s.rate + s.replace:
        return draw_number(rng, s)
    return value


@kernel
def draw_factor(rng, s):
    return 1.0


@kernel
def mutate_factor(rng, value, s, step_size):
    """x <- x exp(adaptation N(0, 1))."""
    if s.adaptation <= 0.0:
        return value
    return min(max(value * math.exp(s.adaptation * seeding.normal(rng)), s.low), s.high)


@kernel
def draw_option(rng, s):
    """The default id, or a random option where there is none."""
    return s.default if s.default >= 0 else s.options[seeding.below(rng, len(s.options))]


@kernel
def mutate_option(rng, value, s, step_size):
    if s.rate > 0.0 and seeding.uniform(rng) < s.rate:
        return s.options[seeding.below(rng, len(s.options))]
    return value


@kernel
def draw_flag(rng, s):
    return seeding.uniform(rng) < 0.5 if s.default < 0 else s.default == 1


@kernel
def mutate_flag(rng, value, s, step_size):
    rate = s.to_false if value else s.to_true
    if rate > 0.0 and seeding.uniform(rng) < rate:
        return seeding.uniform(rng) < 0.5
    return value


@kernel
def _apart(x, y):
    """How different two numbers are."""
    return abs(x - y)


@kernel
def _unlike(x, y):
    """How different two options or flags are."""
    return 0.0 if x == y else 1.0


_DRAW = {Number: draw_number, Factor: draw_factor, Option: draw_option, Flag: draw_flag}
_MUTATE = {Number: mutate_number, Factor: mutate_factor, Option: mutate_option, Flag: mutate_flag}
_DIFFERENCE = {Number: _apart, Factor: _apart, Option: _unlike, Flag: _unlike}


# -- random streams: u8 (1 + own, 1), the first shared by the genes that have none of their own


@kernel
def new_streams(settings):
    return np.empty((1 + len(settings.streams), 1), np.uint64)


@kernel
def start_streams(streams, settings, seed, purpose, a, b, c):
    """Begin the shared stream (seed, purpose, a, b, c), and each gene's own: (seed, purpose, a, b, its name)."""
    streams[0, 0] = seeding.stream(seed, purpose, a, b, c)[0]
    for k in range(len(settings.streams)):
        streams[1 + k, 0] = seeding.stream(seed, purpose, a, b, settings.streams[k])[0]


# -- one gene: steps


def in_turn(steps: Iterable[Step]) -> Step:
    """One step that does these in turn."""
    steps = list(steps)
    if not steps:
        return _nothing
    first, rest = steps[0], in_turn(steps[1:])

    @njit(inline="always")
    def both(g, at, by):
        first(g, at, by)
        rest(g, at, by)

    return both


@njit(inline="always")
def _nothing(g, at, by):
    pass


def copy_step(to: int, origin: int) -> Step:
    """Column `to` of g at `at` <- column `origin` of other at other_at; by = (other, other_at)."""

    @njit(inline="always")
    def copy(g, at, by):
        other, other_at = by
        g[to][at] = other[origin][other_at]

    return copy


def _keep_step(name: str) -> Step:
    return copy_step(COLUMN[name], COLUMN[name])


def _clear_step(name: str) -> Step:
    column = COLUMN[name]

    @njit(inline="always")
    def clear(g, at, by):
        g[column][at] = 0

    return clear


def _draw_step(gene: Gene) -> Step:
    """A fresh value; by = (streams, settings)."""
    column, i, stream, value = COLUMN[gene.name], GENE_ID[gene.name], STREAM_OF[gene.name], _DRAW[type(gene.kind)]

    default = gene.default

    @njit(inline="always")
    def draw(g, at, by):
        streams, settings = by
        g[column][at] = value(streams[stream], settings.of[i])

    @njit(inline="always")
    def draw_if_on(g, at, by):
        streams, settings = by
        g[column][at] = value(streams[stream], settings.of[i]) if settings.on[i] else default

    return draw_if_on if gene.switch else draw


def _mutate_step(gene: Gene) -> Step:
    """by = (streams, settings, step_size)."""
    column, i, stream, value = COLUMN[gene.name], GENE_ID[gene.name], STREAM_OF[gene.name], _MUTATE[type(gene.kind)]

    @njit(inline="always")
    def mutate(g, at, by):
        streams, settings, step_size = by
        g[column][at] = value(streams[stream], g[column][at], settings.of[i], step_size)

    @njit(inline="always")
    def mutate_if_on(g, at, by):
        streams, settings, step_size = by
        if settings.on[i]:
            g[column][at] = value(streams[stream], g[column][at], settings.of[i], step_size)

    return mutate_if_on if gene.switch else mutate


def _cross_step(gene: Gene) -> Step:
    """A value that both parents have; g has the fitter one's. by = (other, other_at, streams, settings)."""
    column, i, stream = COLUMN[gene.name], GENE_ID[gene.name], STREAM_OF[gene.name]

    @njit(inline="always")
    def either(g, at, by):
        other, other_at, streams, _ = by
        if seeding.uniform(streams[stream]) < 0.5:
            g[column][at] = other[column][other_at]

    @njit(inline="always")
    def either_if_on(g, at, by):
        other, other_at, streams, settings = by
        if settings.on[i] and seeding.uniform(streams[stream]) < 0.5:
            g[column][at] = other[column][other_at]

    @njit(inline="always")
    def disabled(g, at, by):
        other, other_at, streams, settings = by
        either_disabled = not (g[column][at] and other[column][other_at])
        if seeding.uniform(streams[stream]) < 0.5:
            g[column][at] = other[column][other_at]
        if either_disabled and seeding.uniform(streams[stream]) < settings.of[i].disabled:
            g[column][at] = False

    return {EITHER: either_if_on if gene.switch else either, DISABLED: disabled, FITTER: _nothing}[gene.crossed]


# -- the numbers of plasticity: columns of one type, f8 (P, places) each, so one kernel loops over a tuple of them.
#    Steps of their own, unrolled for connections, nodes and rules, would take three times as long to compile. Each has
#    a stream of its own, so that one may be done for all places of a genome before the next.


class Looped(NamedTuple):
    """Genes whose columns are looped over."""

    ids: np.ndarray  # i8 (genes,) in GENES
    rows: np.ndarray  # i8 (genes,) of the streams
    default: np.ndarray  # f8 (genes,)


@bare
def _copy_numbers(new, at, old, old_at):
    for j in range(len(new)):
        new[j][at] = old[j][old_at]


@bare
def _copy_rows(new, p, old, q, count):
    for j in range(len(new)):
        for k in range(count):
            new[j][p, k] = old[j][q, k]


@bare
def _clear_numbers(columns, at):
    for j in range(len(columns)):
        columns[j][at] = 0.0


@bare
def _draw_numbers(columns, at, genes, streams, numbers, on):
    for j in range(len(columns)):
        i = genes.ids[j]
        columns[j][at] = draw_number(streams[genes.rows[j]], _settings_at(numbers, i)) if on[i] else genes.default[j]


@bare
def _mutate_rows(columns, p, count, genes, streams, numbers, on, step_size):
    for j in range(len(columns)):
        i = genes.ids[j]
        if on[i]:
            how, rng = _settings_at(numbers, i), streams[genes.rows[j]]
            for k in range(count):
                columns[j][p, k] = mutate_number(rng, columns[j][p, k], how, step_size)


@bare
def _cross_numbers(columns, at, others, other_at, genes, streams, on):
    for j in range(len(columns)):
        if on[genes.ids[j]] and seeding.uniform(streams[genes.rows[j]]) < 0.5:
            columns[j][at] = others[j][other_at]


@bare
def _settings_at(numbers, i):
    """The NumberSettings of gene i, a row of f8 (genes, 8)."""
    s = numbers
    return NumberSettings(s[i, 0], s[i, 1], s[i, 2], s[i, 3], s[i, 4] != 0.0, s[i, 5], s[i, 6], s[i, 7])


def columns_at(places: Sequence[int]) -> Callable[..., tuple[np.ndarray, ...]]:
    """(g) -> its columns at these places, a tuple of arrays of one type."""
    first = places[0]

    @njit(inline="always")
    def last(g):
        return (g[first],)

    if len(places) == 1:
        return last
    rest = columns_at(places[1:])

    @njit(inline="always")
    def several(g):
        return (g[first], *rest(g))

    return several


def copy_columns(to: Sequence[int], origin: Sequence[int]) -> Step:
    """`copy_step` of several columns of one type."""
    mine, others = columns_at(to), columns_at(origin)

    @njit(inline="always")
    def copy(g, at, by):
        other, other_at = by
        _copy_numbers(mine(g), at, others(other), other_at)

    return copy


def _number_steps(genes: Sequence[Gene]) -> dict[str, Step]:
    """What `_copy_step`, `_draw_step` ... do for one gene, for all of these."""
    places = [COLUMN[g.name] for g in genes]
    columns = columns_at(places)
    ids, rows = (np.array([number[g.name] for g in genes]) for number in (GENE_ID, STREAM_OF))
    default = np.array([float(g.default) for g in genes])

    @njit(inline="always")
    def clear(g, at, by):
        _clear_numbers(columns(g), at)

    @njit(inline="always")
    def draw(g, at, by):
        streams, settings = by
        _draw_numbers(columns(g), at, Looped(ids, rows, default), streams, settings.numbers, settings.on)

    @njit(inline="always")
    def cross(g, at, by):
        other, other_at, streams, settings = by
        if settings.any_looped:
            _cross_numbers(columns(g), at, columns(other), other_at, Looped(ids, rows, default), streams, settings.on)

    @njit(inline="always")
    def copy_row(g, p, by):
        other, q, count = by
        _copy_rows(columns(g), p, columns(other), q, count)

    @njit(inline="always")
    def mutate_row(g, p, by):
        count, streams, settings, step = by
        _mutate_rows(columns(g), p, count, Looped(ids, rows, default), streams, settings.numbers, settings.on, step)

    at_a_place: dict[str, Step] = {"copy": copy_columns(places, places), "clear": clear, "draw": draw, "cross": cross}
    return {**at_a_place, "copy row": copy_row, "mutate row": mutate_row}


# -- all genes of a genome, rule, node or connection: (g, at, by)


def _steps(what: str, kind: str, one: Callable[[Gene], Step], own_stream: bool = False) -> Step:
    """A step for each gene, and one for all that are looped over; kind "" = without these."""
    genes = [g for g in genes_of(what) if g.own_stream or not own_stream]
    looped = [_number_steps(_looped(what))[kind]] if kind and _looped(what) else []
    return in_turn([*(one(g) for g in genes if not g.looped), *looped])


def _looped(what: str) -> list[Gene]:
    return [g for g in genes_of(what) if g.looped]


def _copy(what: str, kind: str = "copy") -> Step:
    return in_turn([*map(_keep_step, STRUCTURE[what]), _steps(what, kind, lambda g: _keep_step(g.name))])


def _clear(what: str) -> Step:
    return in_turn([*map(_clear_step, STRUCTURE[what]), _steps(what, "clear", lambda g: _clear_step(g.name))])


_EVERY = (GENOME, RULE, NODE, CONNECTION)
_ROWS = (RULE, NODE, CONNECTION)
copy_genome_genes, copy_node, copy_conn = (_copy(what) for what in (GENOME, NODE, CONNECTION))  # structure included
# Of a whole genome p the numbers that are looped over, row by row: by = (other, q, count); the rest of a place.
copy_rules, copy_node_numbers, copy_conn_numbers = (_number_steps(_looped(what))["copy row"] for what in _ROWS)
copy_rest_of_node, copy_rest_of_conn = (_copy(what, "") for what in (NODE, CONNECTION))
clear_node, clear_conn = _clear(NODE), _clear(CONNECTION)
draw_genome_genes, draw_rule_genes, draw_node_genes, draw_conn_genes = (_steps(w, "draw", _draw_step) for w in _EVERY)
draw_own_conn_genes = _steps(CONNECTION, "draw", _draw_step, own_stream=True)
cross_genome_genes, cross_rule_genes, cross_node_genes, cross_conn_genes = (
    _steps(what, "cross", _cross_step) for what in _EVERY
)
# by = (count, streams, settings, step_size), and the rest of a place
mutate_rules, mutate_node_numbers, mutate_conn_numbers = (_number_steps(_looped(what))["mutate row"] for what in _ROWS)
mutate_genome_genes, mutate_rest_of_node, mutate_rest_of_conn = (
    _steps(what, "", _mutate_step) for what in (GENOME, NODE, CONNECTION)
)


# -- the distance


def add_differences(genes: tuple[Gene, ...], place: int = 0) -> Callable[..., tuple[float, ...]]:
    """(a, at, b, b_at, sums) -> sums, a float for each of these genes, with the difference between two places added."""
    column, difference = COLUMN[genes[0].name], _DIFFERENCE[type(genes[0].kind)]

    @njit(inline="always")
    def add_last(a, at, b, b_at, sums):
        return (sums[place] + difference(a[column][at], b[column][b_at]),)

    if len(genes) == 1:
        return add_last
    rest = add_differences(genes[1:], place + 1)

    @njit(inline="always")
    def add(a, at, b, b_at, sums):
        return (sums[place] + difference(a[column][at], b[column][b_at]), *rest(a, at, b, b_at, sums))

    return add
