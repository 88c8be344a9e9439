"""Topologies as search spaces, and structural mutations that keep the function."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neol import seeding
from neol.config.sections import NeatConfig
from neol.neat.genome import Genomes, first_population, take
from neol.neat.innovation import Innovations
from neol.neat.variation import breed
from neol.network.phenotype import compile_phenotypes
from neol.network.step import forward, load, new_slots
from neol.outer import growth
from neol.outer.search_space import SEARCHED, same_numbers, search_space, to_genomes, to_vectors
from neol.outer.topology import layered

INPUTS, OUTPUTS = 3, 2


def random_genome(seed: int, feed_forward: bool = True) -> tuple[Genomes, Innovations, NeatConfig]:
    """A genome that several rounds of NEAT's mutation have made."""
    config = NeatConfig(
        pop_size=4, conn_add_prob=0.6, conn_delete_prob=0.3, node_add_prob=0.5, node_delete_prob=0.1,
        enabled_mutate_rate=0.2, feed_forward=feed_forward, activation_default="tanh", activation_options=("tanh",),
    )  # fmt: skip
    genomes, innovations = first_population(config, INPUTS, OUTPUTS, seed)
    own = np.arange(4, dtype=np.int32)
    for generation in range(6):
        genomes, innovations = breed(
            config, genomes, own, own, np.zeros(4, np.bool_), innovations, INPUTS, OUTPUTS, seed, generation
        )
    return take(genomes, [0]), innovations, config


def outputs_of(genome: Genomes, observations: np.ndarray) -> np.ndarray:
    """What the network says to observations f8 (T, I), one after another."""
    ph = compile_phenotypes(genome, INPUTS, OUTPUTS)
    slots = new_slots(ph, 1)
    load(ph, slots, 0, 0)
    out = []
    for x in observations:
        forward(ph, slots, 0, x, 50.0)
        out.append([slots.value[0, ph.output[0, o]] for o in range(OUTPUTS)])
    return np.array(out)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_vectors_become_genomes_and_back_and_hold_all_that_matters(seed: int, feed_forward: bool) -> None:
    genome, _, config = random_genome(seed, feed_forward)
    space = search_space(genome, config, INPUTS, OUTPUTS)
    phenotype = compile_phenotypes(genome, INPUTS, OUTPUTS)
    assert space.size == len(phenotype.weight) + len(phenotype.node_id)  # what is disabled or leads nowhere is left out
    vectors = np.random.default_rng(seed).uniform(-3, 3, (5, space.size))
    assert np.array_equal(to_vectors(space, to_genomes(space, vectors)), vectors)
    zero = compile_phenotypes(to_genomes(space, np.zeros((1, space.size))), INPUTS, OUTPUTS)
    assert not zero.weight.any()
    assert not zero.bias.any()


def test_values_are_kept_within_the_genes_bounds() -> None:
    genome, _, config = random_genome(1)
    space = search_space(genome, dataclasses.replace(config, weight_max_value=0.5), INPUTS, OUTPUTS)
    wide = to_vectors(space, to_genomes(space, np.full((1, space.size), 99.0)))[0]
    weights = np.array([SEARCHED[i].name == "weight" for i in space.gene])
    assert set(wide[weights]) == {0.5}
    assert set(wide[~weights]) == {30.0}


@given(st.integers(0, 10**6), st.sampled_from([growth.CONNECT, growth.SPLIT, growth.UNIT]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_addition_keeps_the_function_and_the_numbers_that_were_there(
    seed: int, kind: str, feed_forward: bool
) -> None:
    genome, innovations, config = random_genome(seed, feed_forward)
    rng = seeding.stream(seed, seeding.SEARCH, 0, 0, 0)
    found = growth.grown(genome, kind, innovations, config, INPUTS, OUTPUTS, rng)
    if found is None:
        assert kind != growth.UNIT
        return
    child = found[0]
    if feed_forward:  # in a recurrent one an addition may change which of its edges read last step's value
        observations = np.random.default_rng(seed).standard_normal((6, INPUTS))
        assert np.array_equal(outputs_of(genome, observations), outputs_of(child, observations))
    n, m = int(child.n_nodes[0]), int(child.n_conns[0])
    assert (np.diff(child.node_id[0, :n]) > 0).all()
    assert (np.diff(child.innovation[0, :m]) > 0).all()
    more = {growth.CONNECT: 1, growth.SPLIT: 2, growth.UNIT: INPUTS + OUTPUTS}[kind]
    assert m == genome.n_conns[0] + more
    old, new = (search_space(g, config, INPUTS, OUTPUTS) for g in (genome, child))
    source = same_numbers(new, old)
    assert sorted(source[source >= 0]) == list(range(old.size))
    assert np.array_equal(to_vectors(new, child)[0][source >= 0], to_vectors(old, genome)[0][source[source >= 0]])


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_feed_forward_networks_stay_so(seed: int) -> None:
    genome, innovations, config = random_genome(seed)
    rng = seeding.stream(seed, seeding.SEARCH, 0, 0, 0)
    for kind in [growth.CONNECT, growth.SPLIT, growth.CONNECT, growth.UNIT, growth.CONNECT, growth.CONNECT]:
        found = growth.grown(genome, kind, innovations, config, INPUTS, OUTPUTS, rng)
        if found is not None:
            genome, innovations = found
    assert not compile_phenotypes(genome, INPUTS, OUTPUTS).remembers[0]


def test_pruning_removes_the_least_important_connection_and_the_node_that_it_leaves_idle() -> None:
    genome, innovations, config = random_genome(3)
    plain = layered(config, INPUTS, OUTPUTS, (1,), 0)[0]  # 3 inputs -> one hidden node -> 2 outputs
    assert int(plain.n_conns[0]) == 5
    importance = np.array([5.0, 5.0, 5.0, 1.0, 2.0])
    once = growth.pruned(plain, importance, OUTPUTS)
    assert once is not None
    assert once.n_conns[0] == 4
    assert once.n_nodes[0] == 3
    last = growth.pruned(once, np.array([5.0, 5.0, 5.0, 1.0]), OUTPUTS)  # its last way to an output
    assert last is not None
    assert (last.n_conns[0], last.n_nodes[0]) == (0, 2)
    assert growth.pruned(last, np.zeros(0), OUTPUTS) is None
    assert genome.n_nodes[0] >= OUTPUTS
    assert len(innovations.keys) > 0


@pytest.mark.parametrize("sizes", [(4,), (5, 3)])
def test_layers_are_fully_connected_and_begin_with_no_output(sizes: tuple[int, ...]) -> None:
    genome, innovations = layered(NeatConfig(), INPUTS, OUTPUTS, sizes, 7)
    widths = [INPUTS, *sizes, OUTPUTS]
    assert genome.n_conns[0] == sum(a * b for a, b in pairwise(widths))
    assert genome.n_nodes[0] == OUTPUTS + sum(sizes)
    assert not outputs_of(genome, np.ones((1, INPUTS))).any()
    assert genome.weight[0, : genome.n_conns[0]].any()
    assert innovations.counts[0] == genome.n_conns[0]
