"""Compiled networks: the order of evaluation, what is left out, and neat-python's own networks as reference."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import neat
import numpy as np
import oracle
from conftest import BOUNDED, assert_near, examples, genomes_of, networks, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from neat.activations import ActivationFunctionSet
from neat.aggregations import AggregationFunctionSet
from oracle import Edge, Net, Node

from neol.config.sections import AGGREGATIONS
from neol.deploy.plastic_network import PLAIN
from neol.network.phenotype import Phenotypes, compile_phenotypes, gene_weights
from neol.network.plasticity import plasticity
from neol.network.step import load, new_slots, step

INPUTS, OUTPUTS = 3, 2
TOLERANCE = 1e-12  # relative above 1, absolute below
CONTINUOUS = (*BOUNDED, "identity", "relu", "abs", "softplus", "elu", "lelu", "selu", "square")  # no poles


def compiled(*nets: Net, synchronous: bool = False) -> Phenotypes:
    return compile_phenotypes(genomes_of(nets), len(nets[0].inputs), len(nets[0].outputs), synchronous)


def outputs_of(ph: Phenotypes, observations: list[list[float]], p: int = 0) -> np.ndarray:
    """The static outputs (T, O) of genome p over a few steps."""
    slots, rows = new_slots(ph, 1), []
    load(ph, slots, 0, p)
    for observation in observations:
        out = np.zeros(ph.output.shape[1])
        step(ph, slots, 0, np.array(observation), 0.0, True, plasticity(PLAIN), out)
        rows.append(out)
    return np.array(rows)


def order_of(ph: Phenotypes, p: int = 0) -> list[int]:
    """Node ids of genome p in evaluation order."""
    return ph.node_id[ph.node_start[p] : ph.node_start[p + 1]].tolist()


def late_edges(ph: Phenotypes, net: Net, p: int = 0) -> set[oracle.Pair]:
    """The edges of genome p that read last step's value."""
    first, nodes = ph.edges(p).start, len(order_of(ph, p))
    late = np.flatnonzero(ph.source[ph.edges(p)] >= ph.inputs + nodes) + first
    return {list(net.edges)[gene] for gene in ph.gene[late]}


def node_evals(net: Net) -> list[tuple[Any, ...]]:
    """neat-python's node_evals of the nodes that reach an output, in evaluation order."""
    activations, aggregations = ActivationFunctionSet(), AggregationFunctionSet()
    links = oracle.expressed_edges(net)
    return [
        (
            j,
            activations.get(net.nodes[j].activation),
            aggregations.get(net.nodes[j].aggregation),
            net.nodes[j].bias,
            net.nodes[j].response,
            [(a, net.edges[a, b].weight) for a, b in links if b == j],
        )
        for j in oracle.evaluation_order(net)
    ]


observation_lists = st.lists(st.lists(numbers(2.0), min_size=INPUTS, max_size=INPUTS), min_size=1, max_size=6)
populations = st.lists(networks(INPUTS, OUTPUTS), min_size=1, max_size=4)


# -- order --------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(150))
@given(networks(INPUTS, OUTPUTS, cyclic=False))
def test_evaluation_order_of_an_acyclic_genome_is_topological(net: Net) -> None:
    ph = compiled(net)
    place = {node: i for i, node in enumerate(order_of(ph))}
    assert set(place) == oracle.required_nodes(net)
    assert all(place[a] < place[b] for a, b in oracle.expressed_edges(net) if a >= 0)
    assert not ph.remembers[0]
    for k, (first, last) in enumerate(zip(ph.edge_start, ph.edge_start[1:], strict=False)):
        assert (ph.source[first:last] < ph.inputs + k).all(), "an edge reads a value of this pass before it is there"


@settings(max_examples=examples(150))
@given(populations)
def test_every_genome_of_a_population_compiles_as_the_oracle_says(nets: list[Net]) -> None:
    ph = compiled(*nets)
    assert (ph.size, ph.inputs, ph.output.shape) == (len(nets), INPUTS, (len(nets), OUTPUTS))
    for p, net in enumerate(nets):
        nodes = order_of(ph, p)
        assert sorted(nodes) == sorted(oracle.required_nodes(net))
        assert late_edges(ph, net, p) == oracle.backward_edges(net)
        assert ph.remembers[p] == bool(oracle.backward_edges(net))
        assert [nodes[i - INPUTS] for i in ph.output[p]] == net.outputs
        for k, node in enumerate(nodes, ph.node_start[p]):
            edges = slice(ph.edge_start[k], ph.edge_start[k + 1])
            pairs = [list(net.edges)[gene] for gene in ph.gene[edges]]
            assert pairs == [pair for pair in oracle.expressed_edges(net) if pair[1] == node], "edges by innovation"
            assert ph.weight[edges].tolist() == [net.edges[pair].weight for pair in pairs]
            assert (ph.bias[k], ph.response[k]) == (net.nodes[node].bias, net.nodes[node].response)


@settings(max_examples=examples(100))
@given(st.data(), networks(INPUTS, OUTPUTS, cyclic=True))
def test_where_a_cycle_is_cut_does_not_depend_on_innovation_numbers(data: Any, net: Net) -> None:
    shuffled = dataclasses.replace(net, edges=dict(data.draw(st.permutations(list(net.edges.items())))))
    first, again, other = compiled(net), compiled(net), compiled(shuffled)
    assert order_of(first) == order_of(again)
    assert late_edges(first, net) == late_edges(other, shuffled)


def cycle(*pairs: oracle.Pair, hidden: tuple[int, ...] = ()) -> Net:
    nodes = {i: Node() for i in (0, 1, *hidden)}
    return Net([-1, -2, -3], [0, 1], nodes, {pair: Edge(1.0) for pair in pairs})


def test_a_cycle_is_cut_at_its_hidden_node_with_the_lowest_id() -> None:
    net = cycle((5, 0), (3, 5), (5, 3), (-1, 5), hidden=(3, 5))
    assert order_of(compiled(net)) == [1, 3, 5, 0]  # output 1 has no sources: ready at once
    assert late_edges(compiled(net), net) == {(5, 3)}


def test_a_cycle_through_an_output_is_cut_at_a_hidden_node_first() -> None:
    net = cycle((0, 7), (7, 0), hidden=(7,))
    assert late_edges(compiled(net), net) == {(0, 7)}


def test_a_cycle_of_outputs_alone_is_cut_at_the_first_output() -> None:
    net = cycle((0, 1), (1, 0))
    assert order_of(compiled(net)) == [0, 1]
    assert late_edges(compiled(net), net) == {(1, 0)}


def test_a_self_loop_is_a_backward_edge() -> None:
    net = cycle((0, 0), (4, 4), (4, 1), hidden=(4,))
    assert late_edges(compiled(net), net) == {(0, 0), (4, 4)}


# -- what is left out ---------------------------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(networks(INPUTS, OUTPUTS), observation_lists, numbers(5.0))
def test_pruned_nodes_and_disabled_connections_do_not_matter(
    net: Net, observations: list[list[float]], value: float
) -> None:
    expressed, required = oracle.expressed_edges(net), oracle.required_nodes(net)
    other = copy.deepcopy(net)
    for pair, edge in other.edges.items():
        edge.weight = edge.weight if pair in expressed else value
    for i, node in other.nodes.items():
        if i not in required:
            node.bias, node.response, node.activation = value, value, "exp"
    stripped = dataclasses.replace(
        net,
        nodes={i: n for i, n in net.nodes.items() if i in required},
        edges={pair: net.edges[pair] for pair in expressed},
    )
    expected = outputs_of(compiled(net), observations)
    assert np.array_equal(outputs_of(compiled(other), observations), expected)
    assert np.array_equal(outputs_of(compiled(stripped), observations), expected)


@settings(max_examples=examples(60))
@given(populations, observation_lists)
def test_a_genome_compiles_alone_as_in_its_population(nets: list[Net], observations: list[list[float]]) -> None:
    ph = compiled(*nets)
    for p, net in enumerate(nets):
        assert np.array_equal(outputs_of(ph, observations, p), outputs_of(compiled(net), observations))


def test_a_node_without_incoming_edges_gives_its_activation_of_the_bias() -> None:
    for aggregation in AGGREGATIONS:
        nothing = 1.0 if aggregation == "product" else 0.0
        nodes = {0: Node(), 1: Node(), 2: Node(0.25, 0.5, "tanh", aggregation)}
        net = Net([-1, -2, -3], [0, 1], nodes, {(2, 0): Edge(3.0)})
        assert_near(outputs_of(compiled(net), [[9.0] * 3]), [[3.0 * math.tanh(2.5 * (0.25 + 0.5 * nothing)), 0.0]])


def test_an_unconnected_output_gives_its_activation_of_the_bias() -> None:
    net = Net([-1, -2, -3], [0, 1], {0: Node(0.5, 2.0), 1: Node(-3.0, 1.0, "clamped")}, {})
    ph = compiled(net)
    assert outputs_of(ph, [[1.0, 2.0, 3.0]] * 2).tolist() == [[0.5, -1.0]] * 2
    assert len(ph.weight) == 0


# -- inheritance --------------------------------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(populations)
def test_gene_weights_writes_exactly_the_expressed_genes(nets: list[Net]) -> None:
    genomes, ph = genomes_of(nets), compiled(*nets)
    before = genomes.weight.copy()
    new = 100.0 + np.arange(len(ph.weight))
    written = gene_weights(genomes, ph, new)
    assert np.array_equal(genomes.weight, before), "the genomes themselves are not changed"
    left = set(new)
    for p, net in enumerate(nets):
        by_pair = {list(net.edges)[gene]: w for gene, w in zip(ph.gene[ph.edges(p)], new[ph.edges(p)], strict=True)}
        assert set(by_pair) == set(oracle.expressed_edges(net))
        for k, pair in enumerate(net.edges):
            assert written[p, k] == by_pair.get(pair, before[p, k])
            left.discard(written[p, k])
        assert np.array_equal(written[p, len(net.edges) :], before[p, len(net.edges) :])
    assert not left


# -- neat-python --------------------------------------------------------------------------------------------------


@settings(max_examples=examples(150))
@given(networks(INPUTS, OUTPUTS, False, CONTINUOUS, AGGREGATIONS), observation_lists)
def test_feed_forward_equals_neat_pythons_network(net: Net, observations: list[list[float]]) -> None:
    reference = neat.nn.FeedForwardNetwork(net.inputs, net.outputs, node_evals(net))
    assert_near(outputs_of(compiled(net), observations), [reference.activate(row) for row in observations], TOLERANCE)


@settings(max_examples=examples(150))
@given(networks(INPUTS, OUTPUTS, True), observation_lists)
def test_synchronous_equals_neat_pythons_recurrent_network(net: Net, observations: list[list[float]]) -> None:
    reference = neat.nn.RecurrentNetwork(net.inputs, net.outputs, node_evals(net))
    expected = [reference.activate(row) for row in observations]
    assert_near(outputs_of(compiled(net, synchronous=True), observations), expected, TOLERANCE)
    assert_near(oracle.live(net, PLAIN, observations, [0.0] * len(expected), synchronous=True)[0], expected, TOLERANCE)


@settings(max_examples=examples(60))
@given(networks(INPUTS, OUTPUTS))
def test_synchronous_makes_every_edge_between_nodes_late(net: Net) -> None:
    ph = compiled(net, synchronous=True)
    between_nodes = {(a, b) for a, b in oracle.expressed_edges(net) if a >= 0}
    assert late_edges(ph, net) == between_nodes
    assert ph.remembers[0] == bool(between_nodes)
