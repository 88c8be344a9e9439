"""Streams are named, never passed on: the same name gives the same bits, another name gives independent ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neol import seeding

SEEDS = st.integers(0, 2**63 - 1)
PARTS = st.integers(0, 2**31 - 1)
NAMES = st.tuples(SEEDS, st.integers(0, 6), PARTS, PARTS, PARTS)
NAME = (5, seeding.REPRODUCE, 3, 8, 1)
MASK = 2**64 - 1
FUZZ = settings(deadline=None)  # the first example may compile a kernel


def uniforms(state: np.ndarray, n: int) -> np.ndarray:
    return np.array([seeding.uniform(state) for _ in range(n)])


def chi_square(values: np.ndarray, bins: int) -> float:
    """Pearson's statistic of equal cells, as standard deviations from its mean."""
    counts = np.bincount((values * bins).astype(int), minlength=bins)
    expected = len(values) / bins
    return float((((counts - expected) ** 2 / expected).sum() - (bins - 1)) / np.sqrt(2 * (bins - 1)))


def neighbours(name: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Names that differ from this one by one in one part."""
    return [tuple(v + (i == k) for i, v in enumerate(name)) for k in range(len(name))]


def unmix(z: int) -> int:
    """The z' with mix(z') = z: SplitMix64's finaliser backwards, to reach its extreme outputs."""
    z ^= z >> 31 ^ z >> 62
    z = z * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    z ^= z >> 27 ^ z >> 54
    z = z * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    return z ^ z >> 30 ^ z >> 60


def state_before(output: int) -> np.ndarray:
    """A state whose next 64 random bits are `output`."""
    return np.array([(unmix(output) - 0x9E3779B97F4A7C15) & MASK], np.uint64)


@FUZZ
@given(NAMES)
def test_the_same_name_gives_the_same_bits(name):
    a, b = seeding.stream(*name), seeding.stream(*name)
    assert a is not b
    assert a[0] == b[0]
    assert [seeding.uniform(a) for _ in range(3)] == [seeding.uniform(b) for _ in range(3)]


@FUZZ
@given(NAMES, NAMES)
def test_different_names_give_different_streams(a, b):
    assert (a == b) == (seeding.stream(*a)[0] == seeding.stream(*b)[0])


@FUZZ
@given(NAMES)
def test_the_order_of_a_names_parts_matters(name):
    seed, purpose, *parts = name
    states = {p: int(seeding.stream(seed, purpose, *p)[0]) for p in itertools.permutations(parts)}
    assert len(set(states.values())) == len(states)


def test_no_two_of_many_small_names_share_a_stream():
    names = itertools.product(range(4), range(7), range(10), range(10), range(5))
    states = [int(seeding.stream(*name)[0]) for name in names]
    assert len(set(states)) == len(states) == 14_000


@pytest.mark.parametrize("other", neighbours(NAME))
def test_streams_with_neighbouring_names_are_uncorrelated(other):
    n = 20_000
    a, b = uniforms(seeding.stream(*NAME), n), uniforms(seeding.stream(*other), n)
    for shift in (0, 1, 2):
        assert abs(np.corrcoef(a[shift:], b[: n - shift])[0, 1]) < 4 / np.sqrt(n)
    assert abs(chi_square((np.floor(a * 16) * 16 + np.floor(b * 16) + 0.5) / 256, 256)) < 4  # pairs fill the square


@pytest.mark.parametrize("seed", [0, 1, 2, 2**62])
def test_a_streams_draws_are_uniform(seed):
    values = uniforms(seeding.stream(seed, seeding.INITIAL, 0, 0, 0), 50_000)
    assert abs(chi_square(values, 64)) < 4
    assert abs(chi_square(values * 1024 % 1, 64)) < 4  # lower bits too
    assert abs(values.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(values))
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4 / np.sqrt(len(values))


@pytest.mark.parametrize("part", range(5))
def test_the_first_draws_of_consecutive_names_are_uniform_and_uncorrelated(part):
    n = 20_000
    names = (tuple(v + i * (k == part) for k, v in enumerate(NAME)) for i in range(n))
    values = np.array([seeding.uniform(seeding.stream(*name)) for name in names])
    assert abs(chi_square(values, 64)) < 4
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4 / np.sqrt(n)


def test_the_generator_is_splitmix64():
    """The published outputs for the state 1234567, of which a draw keeps the upper 53 bits."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    state = np.array([1234567], np.uint64)
    assert [seeding.uniform(state) for _ in published] == [(x >> 11) / 2**53 for x in published]


@FUZZ
@given(st.integers(0, MASK))
def test_uniform_lies_in_the_half_open_unit_interval(bits):
    assert 0.0 <= seeding.uniform(np.array([bits], np.uint64)) < 1.0


def test_uniforms_smallest_draw_is_zero_and_its_largest_is_below_one():
    assert seeding.uniform(state_before(0)) == 0.0
    assert seeding.uniform(state_before(MASK)) == 1.0 - 2.0**-53


def test_normal_is_finite_at_the_extremes_of_uniform():
    for output in (0, MASK):
        assert np.isfinite(seeding.normal(state_before(output)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_normal_has_the_moments_of_the_standard_normal(seed):
    state, n = seeding.stream(seed, seeding.INITIAL, 0, 0, 0), 50_000
    x = np.array([seeding.normal(state) for _ in range(n)])
    assert abs(x.mean()) < 4 * np.sqrt(1 / n)
    assert abs((x**2).mean() - 1) < 4 * np.sqrt(2 / n)
    assert abs((x**3).mean()) < 4 * np.sqrt(15 / n)
    assert abs((x**4).mean() - 3) < 4 * np.sqrt(96 / n)
    assert abs((np.abs(x) < 1.959964).mean() - 0.95) < 4 * np.sqrt(0.95 * 0.05 / n)
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 4 / np.sqrt(n)


@FUZZ
@given(st.integers(0, MASK), st.integers(1, 10**6))
def test_below_gives_an_integer_under_its_bound(bits, n):
    value = seeding.below(np.array([bits], np.uint64), n)
    assert isinstance(value, int) and 0 <= value < n


def test_below_reaches_every_value_equally_and_never_its_bound():
    state = seeding.stream(*NAME)
    values = np.array([seeding.below(state, 7) for _ in range(21_000)])
    assert abs(chi_square((values + 0.5) / 7, 7)) < 4
    assert seeding.below(state_before(MASK), 2**31) == 2**31 - 1


@FUZZ
@given(SEEDS, st.integers(0, 6), st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 5), st.booleans())
def test_episode_seeds_are_non_negative_31_bit_integers(seed, purpose, generation, genomes, episodes, common):
    seeds = seeding.episode_seeds(seed, purpose, generation, genomes, episodes, common)
    assert seeds.dtype == np.int32 and seeds.shape == (genomes * episodes,)
    assert (seeds >= 0).all()


def test_episode_seeds_use_all_31_bits():
    seeds = seeding.episode_seeds(0, seeding.EPISODE, 0, 20_000, 1, False)
    assert abs(chi_square(seeds / 2**31, 64)) < 4
    ones = [int((seeds >> bit & 1).sum()) for bit in range(31)]
    assert all(abs(n - 10_000) < 4 * np.sqrt(5_000) for n in ones)


@FUZZ
@given(SEEDS, st.integers(0, 10**6), st.integers(2, 20), st.integers(1, 5))
def test_common_random_numbers_are_equal_across_genomes_and_differ_across_episodes(seed, generation, genomes, episodes):
    seeds = seeding.episode_seeds(seed, seeding.EPISODE, generation, genomes, episodes, True).reshape(genomes, episodes)
    assert (seeds == seeds[0]).all()
    assert len(set(seeds[0].tolist())) == episodes
    fresh = seeding.episode_seeds(seed, seeding.EPISODE, generation + 1, genomes, episodes, True)
    assert not set(seeds[0].tolist()) & set(fresh.tolist())


def test_without_common_random_numbers_every_genome_has_its_own_seeds():
    seeds = seeding.episode_seeds(1, seeding.EPISODE, 4, 100, 5, False)
    assert len(set(seeds.tolist())) == 500
    assert not set(seeds.tolist()) & set(seeding.episode_seeds(1, seeding.EPISODE, 4, 1, 5, True).tolist())


@FUZZ
@given(SEEDS, st.booleans())
def test_a_genomes_episode_seeds_do_not_depend_on_how_many_genomes_or_episodes_there_are(seed, common):
    few = seeding.episode_seeds(seed, seeding.EPISODE, 7, 3, 2, common).reshape(3, 2)
    many = seeding.episode_seeds(seed, seeding.EPISODE, 7, 8, 5, common).reshape(8, 5)
    assert np.array_equal(few, many[:3, :2])


def test_held_out_episodes_are_none_of_the_training_episodes():
    training = [seeding.episode_seeds(0, seeding.EPISODE, g, 50, 3, False) for g in range(20)]
    held_out = seeding.episode_seeds(0, seeding.HELD_OUT, 0, 1, 100, True)
    assert not set(held_out.tolist()) & set(np.concatenate(training).tolist())
