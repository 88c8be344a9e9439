"""PlasticNetwork as its user meets it: JSON in and out, lives, predict, and one sentence for every bad document."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import neat
import numpy as np
import oracle
import pytest
from conftest import assert_near, examples, networks, numbers
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from neat.activations import ActivationFunctionSet
from neat.aggregations import AggregationFunctionSet
from neat.export.exporters import export_feedforward, export_recurrent
from neat.export.json_format import validate_json
from oracle import Edge, Net, Node

from neol.config.schema import field_choices
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json
from neol.deploy.plastic_network import PLAIN, PlasticNetwork
from neol.deploy.task_interface import to_document as interface
from neol.envs import registry as environments
from neol.envs import tasks
from neol.errors import NeolError

INPUTS, OUTPUTS = 3, 2
Document = dict[str, Any]
PLASTIC = {"rule": "hebb", "lr": 0.5, "reward_scale": 1.0, "trace_decay": 0.5, "weight_limit": 2.0}

# -1 \            one hidden node, one disabled connection
# -2 -> 5 -> 0    -2 -> 1 <- -3
NET = Net(
    [-1, -2, -3],
    [0, 1],
    {0: Node(0.1, 1.0, "tanh"), 1: Node(-0.2, 0.5, "clamped"), 5: Node(0.3, 1.0, "sin", "mean")},
    {(-1, 5): Edge(0.5), (-2, 5): Edge(-0.75), (5, 0): Edge(1.5), (-2, 1): Edge(0.25), (-3, 1): Edge(9.0),
     (-3, 0): Edge(4.0, False)},
)  # fmt: skip
THREE = [{"path": [], "kind": "numbers", "shape": [3], "values": [], "start": []}]
LANDER = interface(environments.find("lunarlander"))  # two bounded actions
INTERFACE = {**LANDER, "inputs": ["height", "speed", "tilt"], "observation": THREE}
SELF_LOOP = Net([-1], [0], {0: Node()}, {(-1, 0): Edge(1.0), (0, 0): Edge(1.0)})  # a running sum of the input


def valid(**changes: Any) -> Document:
    """A complete document of ours, as a run writes it, with some of its top-level keys changed."""
    document = {**oracle.document(NET), "plasticity": PLASTIC, "interface": INTERFACE}
    return copy.deepcopy({**document, **changes})


def lived(net: PlasticNetwork, observations: list[list[float]], reward: float = 1.0) -> np.ndarray:
    """The outputs (T, O) of a life that goes on from now."""
    outputs = []
    for row in observations:
        outputs.append(net.activate(row))
        net.reward(reward)
    return np.array(outputs)


rows = st.lists(st.lists(numbers(2.0), min_size=INPUTS, max_size=INPUTS), min_size=1, max_size=5)
ROWS = [[0.5, -1.0, 0.25], [1.0, 1.0, 1.0], [-0.5, 0.75, 2.0]]


# -- JSON in and out ----------------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(networks(INPUTS, OUTPUTS), rows, st.sampled_from(field_choices("rule")), st.sampled_from((1.0, math.inf)))
def test_json_round_trip_keeps_weights_settings_and_behaviour(
    net: Net, observations: list[list[float]], rule: str, limit: float
) -> None:
    assume(rule != "adaptive" or math.isfinite(limit))  # its W
    document = {**oracle.document(net, "recurrent"), "plasticity": {}, "metadata": {"generator": "neol"}}
    plastic = {**PLASTIC, "rule": rule, "weight_limit": limit, "preactivation_limit": limit}
    first = PlasticNetwork.from_json(document, **plastic)
    lived(first, observations)
    text = json.dumps(first.to_json(), allow_nan=False)
    second = PlasticNetwork.from_json(json.loads(text))
    third = PlasticNetwork.from_json(second.to_json())
    assert second.weights == third.weights == first.weights
    assert second.settings == third.settings == first.settings
    assert np.array_equal(lived(second, observations), lived(third, observations))
    assert second.weights == third.weights
    assert json.loads(text)["plasticity"]["weight_limit"] == (None if limit == math.inf else 1.0)


def test_a_fresh_network_and_its_file_live_the_same_life(tmp_path: Path) -> None:
    net = PlasticNetwork.from_json(valid())
    net.to_json(tmp_path / "net.json")
    for source in (tmp_path / "net.json", str(tmp_path / "net.json")):
        again = PlasticNetwork.from_json(source)
        net.reset()
        assert np.array_equal(lived(net, ROWS), lived(again, ROWS))
        assert net.weights == again.weights
        assert again.interface == INTERFACE


def test_to_json_keeps_disabled_connections_and_does_not_change_the_source() -> None:
    document = valid()
    net = PlasticNetwork.from_json(document)
    lived(net, ROWS)
    written = net.to_json()
    assert document == valid()
    assert {(c["from"], c["to"]): c["enabled"] for c in written["connections"]} == {
        pair: edge.enabled for pair, edge in NET.edges.items()
    }
    by_pair = {(c["from"], c["to"]): c["weight"] for c in written["connections"]}
    assert by_pair.pop((-3, 0)) == 4.0
    assert by_pair == net.weights


def test_round_trip_keeps_neat_pythons_recurrence() -> None:
    chain = Net([-1], [0], {0: Node(), 1: Node()}, {(-1, 1): Edge(1.0), (1, 0): Edge(1.0)})
    first = PlasticNetwork.from_json(oracle.document(chain, "recurrent"))
    second = PlasticNetwork.from_json(first.to_json())
    assert [first.activate([x])[0] for x in (1.0, 2.0, 3.0)] == [0.0, 1.0, 2.0]
    assert [second.activate([x])[0] for x in (1.0, 2.0, 3.0)] == [0.0, 1.0, 2.0]


@settings(max_examples=examples(30))
@given(networks(INPUTS, OUTPUTS), st.booleans())
def test_neat_python_accepts_what_we_write(net: Net, plastic: bool) -> None:
    document = oracle.document(net, "recurrent")
    assert validate_json(PlasticNetwork.from_json(document, **(PLASTIC if plastic else {})).to_json())


@pytest.mark.parametrize("recurrent", (False, True))
@settings(max_examples=examples(40))
@given(data=st.data(), observations=rows)
def test_a_network_that_neat_python_exports_gives_neat_pythons_outputs(
    recurrent: bool, data: Any, observations: list[list[float]]
) -> None:
    net = data.draw(networks(INPUTS, OUTPUTS, cyclic=recurrent))
    activations, aggregations = ActivationFunctionSet(), AggregationFunctionSet()
    evals = []
    for j in oracle.evaluation_order(net):
        n, links = net.nodes[j], [(p[0], net.edges[p].weight) for p in oracle.expressed_edges(net) if p[1] == j]
        evals.append((j, activations.get(n.activation), aggregations.get(n.aggregation), n.bias, n.response, links))
    kind, export = (
        (neat.nn.RecurrentNetwork, export_recurrent) if recurrent else (neat.nn.FeedForwardNetwork, export_feedforward)
    )
    reference = kind(net.inputs, net.outputs, evals)
    ours = PlasticNetwork.from_json(json.loads(json.dumps(export(reference))))
    assert_near([ours.activate(row) for row in observations], [reference.activate(row) for row in observations])


def test_node_ids_may_be_any_numbers() -> None:
    renamed = {-1: 10, -2: -7, -3: 4, 0: 9, 1: 2, 5: 2**31 - 1}
    net = Net(
        [renamed[i] for i in NET.inputs],
        [renamed[i] for i in NET.outputs],
        {renamed[i]: n for i, n in NET.nodes.items()},
        {(renamed[a], renamed[b]): e for (a, b), e in NET.edges.items()},
    )
    first, second = (PlasticNetwork.from_json(oracle.document(n), **PLASTIC) for n in (NET, net))
    assert np.array_equal(lived(first, ROWS), lived(second, ROWS))
    assert {(renamed[a], renamed[b]): w for (a, b), w in first.weights.items()} == second.weights


def test_weights_are_keyed_by_the_documents_ids_and_only_the_expressed_ones() -> None:
    weights = PlasticNetwork.from_json(valid()).weights
    assert weights == {(-1, 5): 0.5, (-2, 5): -0.75, (5, 0): 1.5, (-2, 1): 0.25, (-3, 1): 9.0}
    assert all(type(w) is float for w in weights.values())


def test_a_file_without_plasticity_is_static_with_its_outputs_as_they_are() -> None:
    net = PlasticNetwork.from_json(oracle.document(NET))
    before = net.weights
    lived(net, ROWS, reward=1e6)
    assert net.settings == PLAIN
    assert net.weights == before


def test_settings_of_the_file_are_used_and_overrides_win_over_them() -> None:
    stored = PlasticNetwork.from_json(valid()).settings
    assert stored == dataclasses.replace(PLAIN, **PLASTIC)
    net = PlasticNetwork.from_json(valid(), lr=0.125, rule="oja", weight_limit=None)
    assert net.settings == dataclasses.replace(stored, lr=0.125, rule="oja", weight_limit=math.inf)
    assert net.to_json()["plasticity"]["lr"] == 0.125


def test_neat_is_another_name_of_rule_none_and_inf_and_null_of_no_limit() -> None:
    for limit in (None, math.inf, "inf"):
        net = PlasticNetwork.from_json(valid(plasticity={"rule": "neat", "preactivation_limit": limit}))
        assert (net.settings.rule, net.settings.preactivation_limit) == ("none", math.inf)
        written = net.to_json()["plasticity"]
        assert (written["rule"], written["preactivation_limit"]) == ("none", None)


def test_every_setting_is_written_and_those_of_evolved_plasticity_where_they_are_used() -> None:
    names = [f.name for f in dataclasses.fields(PlasticityConfig)]
    written = PlasticNetwork.from_json(valid()).to_json()["plasticity"]
    assert list(written) == names[: names.index("inheritance") + 1]
    unusual = {
        "evolve_rate": True, "gate": "none", "reward_mean_rate": 0.5, "weight_decay": 0.5, "decay_to": "zero",
        "evolve_decay": True, "birth": "drawn", "birth_spread": 0.5, "coefficients_of": "shared", "shared_rules": 2,
    }  # fmt: skip
    written = PlasticNetwork.from_json(valid(), **unusual).to_json()["plasticity"]
    assert list(written) == names
    assert written.items() >= unusual.items()


# -- lives --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timing", ("same-step", "next-step"))
def test_reset_begins_the_same_life_again(timing: str) -> None:
    net = PlasticNetwork.from_json(
        {**oracle.document(SELF_LOOP, "recurrent"), "plasticity": PLASTIC, "metadata": {"generator": "neol"}},
        reward_credit=timing,
    )
    start, sequence = net.weights, [[0.5], [0.25], [-1.0]]
    first = lived(net, sequence)
    end = net.weights
    assert end != start
    net.reset()
    assert net.weights == start
    assert np.array_equal(lived(net, sequence), first)
    assert net.weights == end


def test_reset_drops_a_reward_that_is_pending() -> None:
    net = PlasticNetwork.from_json(valid(), reward_credit="next-step", trace_decay=0.0, weight_limit=10.0)
    start = net.weights
    net.activate(ROWS[0])
    net.reward(5.0)
    net.reset()
    net.activate(ROWS[0])
    assert net.weights == start


def test_a_pending_reward_is_used_once() -> None:
    net = PlasticNetwork.from_json(valid(), reward_credit="next-step", trace_decay=0.0, weight_limit=10.0)
    net.activate(ROWS[0])
    net.reward(0.5)
    start = net.weights
    net.activate(ROWS[0])
    learned = net.weights
    assert learned != start
    net.activate(ROWS[0])
    assert net.weights == learned


def test_two_networks_of_one_document_share_nothing() -> None:
    parsed = network_json.parse(valid())
    one, other = (PlasticNetwork(parsed, dataclasses.replace(PLAIN, **PLASTIC)) for _ in range(2))
    before = other.weights
    outputs = one.activate(ROWS[0])
    kept = outputs.copy()
    lived(one, ROWS)
    assert other.weights == before
    assert np.array_equal(outputs, kept), "the outputs handed out are the caller's"


# -- predict ------------------------------------------------------------------------------------------------------


def test_predict_of_one_observation_is_act_and_rewards_teach_it() -> None:
    one, other = PlasticNetwork.from_json(valid()), PlasticNetwork.from_json(valid())
    for row in ROWS:
        action, state = one.predict(np.array(row))
        assert state is None
        assert np.array_equal(action, other.act(row))
        one.reward(1.0)
        other.reward(1.0)
    assert one.weights == other.weights != PlasticNetwork.from_json(valid()).weights
    one.predict(np.array(ROWS[0]), episode_start=np.array([False]))
    assert one.weights == other.weights
    one.predict(np.array(ROWS[0]), episode_start=np.array([True]))
    assert one.weights == PlasticNetwork.from_json(valid()).weights


def test_predict_of_a_batch_runs_independent_copies_held_in_the_state() -> None:
    net = PlasticNetwork.from_json(
        oracle.document(SELF_LOOP, "recurrent") | {"plasticity": {}, "metadata": {"generator": "neol"}}
    )
    net.activate([100.0])
    actions, state = net.predict(np.array([[1.0], [10.0]]))
    assert actions.tolist() == [[1.0], [10.0]]
    actions, state = net.predict(np.array([[2.0], [20.0]]), state, episode_start=np.array([False, False]))
    assert actions.tolist() == [[3.0], [30.0]]
    actions, state = net.predict(np.array([[4.0], [40.0]]), state, episode_start=np.array([True, False]))
    assert actions.tolist() == [[4.0], [70.0]]
    actions, state = net.predict(np.array([[1.0], [1.0]]), state)  # no episode_start: the lives go on
    assert actions.tolist() == [[5.0], [71.0]]
    actions, _ = net.predict(np.array([[1.0], [1.0]]))  # no state: new lives
    assert actions.tolist() == [[1.0], [1.0]]
    assert net.activate([1.0]) == 101.0, "the network itself has not noticed"


def test_predict_gives_actions_of_a_discrete_space() -> None:
    net = Net([-1, -2, -3, -4], [0, 1], {0: Node(), 1: Node()}, {(-1, 0): Edge(1.0), (-1, 1): Edge(-1.0)})
    cartpole = PlasticNetwork.from_json({**oracle.document(net), "interface": interface(environments.find("cartpole"))})
    space = gymnasium.spaces.Discrete(2)
    for x, expected in ((1.0, 0), (-1.0, 1), (0.0, 0)):
        action, _ = cartpole.predict(np.array([x, 0.0, 0.0, 0.0]))
        assert action == expected and space.contains(action[()])
        assert cartpole.act([x, 0.0, 0.0, 0.0]) == expected
    actions, _ = cartpole.predict(np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))
    assert actions.tolist() == [0, 1] and np.issubdtype(actions.dtype, np.integer)


def test_predict_gives_actions_of_a_box_space() -> None:
    net = Net([-1], [0, 1], {0: Node(), 1: Node()}, {(-1, 0): Edge(1.0), (-1, 1): Edge(-1.0)})
    action = {"kind": "bounded", "low": [-2.0, 0.0], "high": [2.0, 1.0]}
    box = PlasticNetwork.from_json({**oracle.document(net), "interface": {"action": action}})
    space = gymnasium.spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32))
    for x, expected in ((0.0, [0.0, 0.5]), (0.5, [1.0, 0.25]), (9.0, [2.0, 0.0])):  # 9: clipped to 1 before scaling
        got, _ = box.predict(np.array([x]))
        assert got.tolist() == expected and space.contains(got)
    assert box.predict(np.array([[0.0], [9.0]]))[0].tolist() == [[0.0, 0.5], [2.0, 0.0]]


@pytest.mark.parametrize("document", (oracle.document(NET), {**oracle.document(NET), "interface": {}}))
def test_without_an_interface_actions_are_the_outputs(document: Document) -> None:
    net = PlasticNetwork.from_json(document)
    action = net.act(ROWS[0])
    assert isinstance(action, np.ndarray) and action.dtype == np.float32
    net.reset()
    assert np.array_equal(action, net.activate(ROWS[0]).astype(np.float32))
    assert net.interface == {}


@pytest.mark.parametrize("task", tasks.TASKS)
def test_the_interface_of_every_task_survives_json_and_gives_its_actions(task: str) -> None:
    of = environments.find(task)
    net = Net(
        [-1 - i for i in range(of.n_inputs)], list(range(of.n_outputs)), {o: Node() for o in range(of.n_outputs)}, {}
    )
    document = {**oracle.document(net), "interface": json.loads(json.dumps(interface(of)))}
    action, _ = PlasticNetwork.from_json(document).predict(np.zeros(of.n_inputs))
    with gymnasium.make(of.id) as env:
        assert env.action_space.contains(np.asarray(action, env.action_space.dtype)[()])


# -- bad documents ------------------------------------------------------------------------------------------------


def one_sentence(call: Callable[[], Any], *words: str) -> None:
    """The call raises a NeolError whose one line has these words."""
    with pytest.raises(NeolError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and text.endswith("."), text
    for word in words:
        assert word in text, text


def changed(path: tuple[Any, ...], value: Any) -> Document:
    """A valid document with the value at a path replaced."""
    document = valid()
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


WIRE = {"from": -1, "to": 0, "weight": 1.0, "enabled": True}
BAD_DOCUMENTS = {
    "cycle": (valid(connections=[{**WIRE, "from": 5, "to": 0}, {**WIRE, "from": 0, "to": 5}]), ["cycle", "recurrent"]),
    "self loop": (valid(connections=[{**WIRE, "from": 0}]), ["cycle"]),
    "connection from a missing node": (valid(connections=[{**WIRE, "from": 77}]), ["77 -> 0", "no node 77"]),
    "connection to a missing node": (valid(connections=[{**WIRE, "to": 77}]), ["-1 -> 77", "no node 77"]),
    "output without a node": (valid(nodes=[n for n in valid()["nodes"] if n["id"] != 1]), ["no node 1"]),
    "duplicated connection": (valid(connections=[WIRE, {**WIRE, "weight": 2.0}]), ["-1 -> 0", "twice"]),
    "connection into an input": (valid(connections=[{**WIRE, "to": -2}]), ["-1 -> -2", "input"]),
    "unknown activation": (changed(("nodes", 0, "activation", "name"), "tahn"), ["'tahn'", "node 0", "mean 'tanh'?"]),
    "unknown aggregation": (changed(("nodes", 0, "aggregation", "name"), "summ"), ["'summ'", "did you mean 'sum'?"]),
    "activation of a wrong kind": (changed(("nodes", 0, "activation", "name"), ["tanh"]), []),
    "nan weight": (changed(("connections", 0, "weight"), math.nan), ["weight of -1 -> 5", "finite"]),
    "inf weight": (changed(("connections", 0, "weight"), math.inf), ["weight of -1 -> 5", "finite"]),
    "weight in words": (changed(("connections", 0, "weight"), "1.0"), ["weight of -1 -> 5", "'1.0'"]),
    "nan bias": (changed(("nodes", 0, "bias"), math.nan), ["bias of node 0"]),
    "true as a response": (changed(("nodes", 0, "response"), True), ["response of node 0"]),
    "wrong version": (valid(format_version="2.0"), ["'2.0'", "'1.0'"]),
    "no version": ({k: v for k, v in valid().items() if k != "format_version"}, ["format_version"]),
    "wrong network type": (valid(network_type="ctrnn"), ["'ctrnn'", "feedforward or recurrent"]),
    "no nodes": ({k: v for k, v in valid().items() if k != "nodes"}, ["'nodes'"]),
    "nodes null": (valid(nodes=None), []),
    "no inputs": (changed(("topology", "input_keys"), []), ["input_keys"]),
    "an output twice": (changed(("topology", "output_keys"), [0, 0]), ["output_keys"]),
    "an id that is no integer": (changed(("nodes", 0, "id"), 0.5), ["node id", "0.5"]),
    "an id too large": (changed(("nodes", 0, "id"), 2**31), ["2^31"]),
    "plasticity a list": (valid(plasticity=[1]), ["plasticity"]),
    "unknown plasticity setting": (valid(plasticity={"lrr": 1.0}), ["'lrr'", "did you mean 'lr'?"]),
    "unknown rule": (valid(plasticity={"rule": "heb"}), ["'heb'", "did you mean 'hebb'?"]),
    "negative limit": (valid(plasticity={"weight_limit": -1.0}), ["weight_limit", "above 0"]),
    "interface a list": (valid(interface=[1]), ["interface"]),
    "names of inputs that are no words": (changed(("interface", "inputs"), [1, 2, 3]), ["interface", "inputs"]),
    "unknown kind of action": (valid(interface={"action": {"kind": "softmax"}}), ["argmax", "bounded"]),
    "bounded without bounds": (valid(interface={"action": {"kind": "bounded"}}), ["2", "low and high"]),
    "bounds for more actions than outputs": (
        valid(interface={"action": {"kind": "bounded", "low": [-1.0] * 3, "high": [1.0] * 3}}), ["2", "low and high"]
    ),
    "bounds of different lengths": (changed(("interface", "action", "low"), [-1.0]), ["low"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_DOCUMENTS)
def test_a_bad_document_is_refused_in_one_sentence(name: str) -> None:
    document, words = BAD_DOCUMENTS[name]
    one_sentence(lambda: PlasticNetwork.from_json(document), *words)


@pytest.mark.parametrize("rule", ("heb", 3, None, ["hebb"]))
def test_a_bad_override_is_refused_in_one_sentence(rule: Any) -> None:
    one_sentence(lambda: PlasticNetwork.from_json(valid(), rule=rule), "rule")


def test_a_cycle_that_reaches_no_output_or_is_disabled_is_allowed() -> None:
    net = copy.deepcopy(NET)
    net.nodes |= {6: Node(), 7: Node()}
    net.edges |= {(6, 7): Edge(1.0), (7, 6): Edge(1.0), (0, 5): Edge(1.0, False)}
    plain, more = (PlasticNetwork.from_json(oracle.document(n)) for n in (NET, net))
    assert np.array_equal(lived(plain, ROWS), lived(more, ROWS))


@pytest.mark.parametrize(
    "text", ("", "{", "not json", "[1, 2]", "null", '"a string"', "[" * 100_000, "1" * 5000, "\x00"), ids=range(9)
)
def test_a_file_that_is_no_network_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    one_sentence(lambda: PlasticNetwork.from_json(path), "bad.json", "is not a network file")


def test_a_truncated_file_is_refused_in_one_sentence_wherever_it_ends(tmp_path: Path) -> None:
    text, path = network_json.dump(valid()).rstrip(), tmp_path / "short.json"
    for length in (*range(0, len(text), 97), len(text) - 1):
        path.write_text(text[:length], encoding="utf-8")
        one_sentence(lambda: PlasticNetwork.from_json(path), "short.json", "is not a network file")


def test_a_file_that_cannot_be_read_or_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    one_sentence(lambda: PlasticNetwork.from_json(tmp_path / "none.json"), "none.json", "cannot read")
    one_sentence(lambda: PlasticNetwork.from_json(tmp_path), "cannot read")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00{")
    one_sentence(lambda: PlasticNetwork.from_json(tmp_path / "bytes.json"), "bytes.json", "is not a network file")
    one_sentence(lambda: PlasticNetwork.from_json(valid()).to_json(tmp_path / "no" / "n.json"), "cannot write")


@pytest.mark.parametrize("shape", ((2,), (4,), (1, 3), (3, 1), (0,)))
def test_an_observation_of_a_wrong_shape_is_refused_in_one_sentence(shape: tuple[int, ...]) -> None:
    net = PlasticNetwork.from_json(valid())
    one_sentence(lambda: net.activate(np.zeros(shape)), "(3,)", str(shape))
    if len(shape) == 1:
        one_sentence(lambda: net.predict(np.zeros(shape)), "(3,)", str(shape))


@pytest.mark.parametrize("observation", ("abc", None, [1.0, [2.0], 3.0], {"a": 1}, [1j, 0, 0]), ids=repr)
def test_an_observation_that_is_no_numbers_is_refused_in_one_sentence(observation: Any) -> None:
    one_sentence(lambda: PlasticNetwork.from_json(valid()).activate(observation), "observation")


def test_a_batch_of_a_wrong_width_is_refused_in_one_sentence() -> None:
    net = PlasticNetwork.from_json(valid())
    one_sentence(lambda: net.predict(np.zeros((2, 4))), "(2, 3)")
    one_sentence(lambda: net.predict(np.zeros((2, 3, 1))), "(2, 3)")


@pytest.mark.parametrize("observation", ("abc", 1.0, [[1.0], [1.0, 2.0]]), ids=repr)
def test_predict_refuses_what_is_no_observation_in_one_sentence(observation: Any) -> None:
    try:
        PlasticNetwork.from_json(valid()).predict(observation)
    except NeolError:
        return
    raise AssertionError("accepted")


def test_predict_refuses_a_state_of_another_batch_size() -> None:
    net = PlasticNetwork.from_json(valid())
    _, state = net.predict(np.zeros((3, 3)))
    one_sentence(lambda: net.predict(np.zeros((2, 3)), state))  # 2 of 3, so that the bug cannot corrupt memory here


@pytest.mark.parametrize("begins", (True, False))
def test_predict_refuses_a_state_of_another_network(begins: bool) -> None:
    edges = {(-1, 0): Edge(1.0), (-2, 0): Edge(1.0), (-3, 0): Edge(1.0)}
    wide, narrow = (
        PlasticNetwork.from_json(oracle.document(Net([-1, -2, -3], [0], {0: Node()}, part)))
        for part in (edges, {(-1, 0): Edge(1.0)})
    )
    _, state = narrow.predict(np.zeros((2, 3)))
    one_sentence(lambda: wide.predict(np.zeros((2, 3)), state, np.full(2, begins)), "state", "2 observations")
    one_sentence(lambda: wide.predict(np.zeros((2, 3)), (np.zeros(2),)), "state")


def test_a_duplicated_node_is_refused() -> None:
    one_sentence(lambda: PlasticNetwork.from_json(valid(nodes=[*valid()["nodes"], valid()["nodes"][0]])), "0")


def test_an_enabled_flag_that_is_no_bool_is_refused() -> None:
    one_sentence(lambda: PlasticNetwork.from_json(changed(("connections", 0, "enabled"), "false")), "enabled")


def test_writing_a_document_with_nan_in_its_metadata_works_or_is_refused_in_one_sentence(tmp_path: Path) -> None:
    try:
        PlasticNetwork.from_json(valid(metadata={"fitness": math.nan})).to_json(tmp_path / "n.json")
    except NeolError:
        return


HUGE_PLACES = {
    "weight": ("connections", 0, "weight"),
    "bias": ("nodes", 0, "bias"),
    "id": ("nodes", 0, "id"),
    "input": ("topology", "input_keys", 0),
    "lr": ("plasticity", "lr"),
    "limit": ("plasticity", "weight_limit"),
    "low": ("interface", "action", "low", 0),
}


@pytest.mark.parametrize("place", list(HUGE_PLACES))
def test_an_integer_beyond_float_is_refused_in_one_sentence(place: str) -> None:
    one_sentence(lambda: PlasticNetwork.from_json(changed(HUGE_PLACES[place], 10**400)))


# -- fuzz ---------------------------------------------------------------------------------------------------------

NAMES = ("feedforward", "recurrent", "1.0", "input", "output", "hidden", "tanh", "sum", "none", "hebb", "argmax", "id")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 7),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(NAMES),
    st.text(max_size=4),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON tree."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [(value, key) for key, _ in items] + [place for _, inner in items for place in places(inner)]


@st.composite
def mutated_documents(draw: Any) -> Document:
    """A valid document after one to three deletions, replacements or copies at random places."""
    document = valid(network_type=draw(st.sampled_from(("feedforward", "recurrent"))))
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(places(document)))
        kind = draw(st.sampled_from(("delete", "replace", "copy")))
        if kind == "delete":
            del container[key]
        elif kind == "copy" and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[key] = draw(VALUES)
        if not places(document):
            break
    return document


def usable_or_refused(source: Path | Document) -> None:
    """from_json gives a network that works, or raises a NeolError of one line."""
    try:
        net = PlasticNetwork.from_json(source)
    except NeolError as e:
        assert "\n" not in str(e) and str(e).endswith("."), str(e)
        return
    outputs = net.activate(np.ones(net.network.inputs))
    assert outputs.shape == (net.network.outputs,) and not np.isnan(outputs).any()
    net.reward(1.0)
    assert not np.isnan(list(net.weights.values())).any()
    assert PlasticNetwork.from_json(net.to_json()).weights == net.weights


@settings(max_examples=examples(400))
@given(mutated_documents())
def test_a_mutated_document_is_read_or_refused_never_another_exception(document: Document) -> None:
    usable_or_refused(document)


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_never_another_exception(tmp_path: Path, data: Any) -> None:
    text = json.dumps(valid())
    cut, length = data.draw(st.integers(0, len(text))), data.draw(st.sampled_from((0, 1, 2, 10, len(text))))
    filler = data.draw(st.text(st.sampled_from('{}[],:"\\0123456789.eE-+ truefalsnN\u00e9\x00'), max_size=4))
    path = tmp_path / "damaged.json"
    path.write_text(text[:cut] + filler + text[cut + length :], encoding="utf-8")
    usable_or_refused(path)
