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

import numpy as np
from numba import njit

from neol import seeding
from neol.jit import kernel
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
    Factor,
    Flag,
    Gene,
    Number,
    NumberSettings,
    Option,
    columns_of,
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


# -- the numbers of plasticity: columns of one type, so one step loops over them. An unrolled one for each, of
#    connections, nodes and rules, would take three times as long to compile.


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
    if not to:
        return _nothing
    mine, others = columns_at(to), columns_at(origin)

    @njit(inline="always")
    def copy(g, at, by):
        other, other_at = by
        new, old = mine(g), others(other)
        for j in range(len(new)):
            new[j][at] = old[j][other_at]

    return copy


def _clear_columns(names: Sequence[str]) -> Step:
    columns = columns_at([COLUMN[n] for n in names])

    @njit(inline="always")
    def clear(g, at, by):
        for column in columns(g):
            column[at] = 0.0

    return clear


def _draw_numbers(genes: Sequence[Gene]) -> Step:
    columns, ids, rows = columns_at([COLUMN[g.name] for g in genes]), *_numbers(genes)
    default = np.array([g.default for g in genes])

    @njit(inline="always")
    def draw(g, at, by):
        streams, settings = by
        found = columns(g)
        for j in range(len(found)):
            found[j][at] = default[j]
            if settings.on[ids[j]]:
                found[j][at] = draw_number(streams[rows[j]], number_at(settings.numbers, ids[j]))

    return draw


def _mutate_numbers(genes: Sequence[Gene]) -> Step:
    columns, ids, rows = columns_at([COLUMN[g.name] for g in genes]), *_numbers(genes)

    @njit(inline="always")
    def mutate(g, at, by):
        streams, settings, step_size = by
        found = columns(g)
        for j in range(len(found)):
            if settings.on[ids[j]]:
                how = number_at(settings.numbers, ids[j])
                found[j][at] = mutate_number(streams[rows[j]], found[j][at], how, step_size)

    return mutate


def _cross_numbers(genes: Sequence[Gene]) -> Step:
    columns, ids, rows = columns_at([COLUMN[g.name] for g in genes]), *_numbers(genes)

    @njit(inline="always")
    def cross(g, at, by):
        other, other_at, streams, settings = by
        mine, others = columns(g), columns(other)
        for j in range(len(mine)):
            if settings.on[ids[j]] and seeding.uniform(streams[rows[j]]) < 0.5:
                mine[j][at] = others[j][other_at]

    return cross


def _numbers(genes: Sequence[Gene]) -> tuple[np.ndarray, np.ndarray]:
    """Their ids, and the rows of their streams."""
    return np.array([GENE_ID[g.name] for g in genes]), np.array([STREAM_OF[g.name] for g in genes])


@kernel
def number_at(numbers, i):
    """The settings of gene i, a row of f8 (genes, 8)."""
    s = numbers[i]
    return NumberSettings(s[0], s[1], s[2], s[3], s[4] != 0.0, s[5], s[6], s[7])


# -- all genes of a genome, rule, node or connection: (g, at, by)


def _looped(what: str) -> list[Gene]:
    """The genes that one step loops over; the others have a step each."""
    return [g for g in genes_of(what) if g.looped]


def _steps(what: str, one: Callable[[Gene], Step], several: Callable[[Sequence[Gene]], Step]) -> Step:
    looped = _looped(what)
    steps = [one(g) for g in genes_of(what) if g not in looped]
    return in_turn([*steps, *([several(looped)] if looped else [])])


def _copy(what: str) -> Step:
    looped = [COLUMN[g.name] for g in _looped(what)]
    others = [COLUMN[c] for c in columns_of(what) if COLUMN[c] not in looped]
    return in_turn([*(copy_step(c, c) for c in others), copy_columns(looped, looped)])


def _clear(what: str) -> Step:
    looped = [g.name for g in _looped(what)]
    return in_turn([*(_clear_step(c) for c in columns_of(what) if c not in looped), _clear_columns(looped)])


copy_genome_genes, copy_rule = _copy(GENOME), _copy(RULE)
copy_node, copy_conn = _copy(NODE), _copy(CONNECTION)  # structure included, here and of genomes
clear_node, clear_conn = _clear(NODE), _clear(CONNECTION)
draw_genome_genes, draw_rule_genes, draw_node_genes, draw_conn_genes = (
    _steps(what, _draw_step, _draw_numbers) for what in (GENOME, RULE, NODE, CONNECTION)
)
draw_own_conn_genes = in_turn(
    [*(_draw_step(g) for g in genes_of(CONNECTION) if g.own_stream and g not in _looped(CONNECTION)),
     _draw_numbers(_looped(CONNECTION))]
)  # fmt: skip
cross_genome_genes, cross_rule_genes, cross_node_genes, cross_conn_genes = (
    _steps(what, _cross_step, _cross_numbers) for what in (GENOME, RULE, NODE, CONNECTION)
)
mutate_genome_genes, mutate_rule_genes, mutate_node_genes, mutate_conn_genes = (
    _steps(what, _mutate_step, _mutate_numbers) for what in (GENOME, RULE, NODE, CONNECTION)
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
