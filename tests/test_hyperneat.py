"""HyperNEAT: the decoder against plain Python, substrates by rule and by file, and runs whose genomes are CPPNs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BOUNDED, assert_near, examples, genomes_of, networks
from hypothesis import given, settings
from hypothesis import strategies as st
from substrate_oracle import paint

import neol
from neol.cli.main import main
from neol.config.schema import Config
from neol.config.substrates import HYPERNEAT
from neol.envs.registry import find
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.neat.genome import first_population
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.studies.plan import cells, parse_plan
from neol.substrate.encoding import Hyperneat, encoding_of
from neol.substrate.layout import Substrate, links_of, read_substrate, substrate_of, to_text
from neol.substrate.places import places_of
from neol.theory.pools import run_pool
from neol.training import run_folder
from neol.training.configure import configure
from neol.training.substrate_file import read_painted
from neol.training.train import train

HYPER = Config().replace(encoding="hyperneat", inheritance="darwinian")
TINY: dict[str, Any] = {
    "encoding": "hyperneat", "pop_size": 8, "generations": 4, "episodes": 1, "max_steps": 60, "seed": 2, "threads": 1,
    "rule": "none", "champion_candidates": 2, "champion_trials": 2, "champion_episodes": 2, "substrate_hidden": "3x2",
}  # fmt: skip
FILES = (run_folder.HISTORY, run_folder.CHAMPION, run_folder.CPPN, run_folder.CONFIG, run_folder.SUBSTRATE)


def outcome(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def hyperneat(config: Config, substrate: Substrate) -> Hyperneat:
    found = encoding_of(config, TASKS["cartpole"], substrate)
    assert isinstance(found, Hyperneat)
    return found


# -- the decoder -------------------------------------------------------------------------------------------------------

SETTINGS: tuple[dict[str, Any], ...] = (
    {"rule": "none"},
    {"rule": "none", "expression": "leo", "substrate_weight": 2.0},
    {"rule": "none", "substrate_bias": False, "substrate_deltas": False, "expression_threshold": 0.5},
    {"rule": "abcd", "substrate_coefficient": 0.7},
    {"rule": "hebb", "evolve_rate": True, "expression": "leo", "substrate_bias": False},
)
SUBSTRATES = (
    Substrate((np.array([[-1.0, 0, -1], [1.0, 0, -1]]), np.array([[0.0, 0.5, 1], [0.5, 0.0, 1]])), ((0, 1),)),
    Substrate(
        (
            np.array([[-1.0, 0.3, -1], [0.2, 0.0, -1], [1.0, -0.4, -1]]),
            np.array([[-0.5, 0.1, 0.0], [0.5, 0.9, 0.0]]),
            np.array([[0.1, 0.0, 0.5]]),
            np.array([[0.0, -1.0, 1.0], [1.0, 1.0, 1.0]]),
        ),
        ((0, 1), (0, 3), (1, 2), (2, 3)),
    ),
)


def painted(ph: Phenotypes, p: int, substrate: Substrate) -> tuple[dict[Any, dict[str, float]], dict[int, float]]:
    """Network p as the oracle has it: by places among the layers' nodes."""
    one = ph.part(p, p + 1)
    inputs, outputs = substrate.inputs, substrate.outputs
    hidden = sum(len(layer) for layer in substrate.layers[1:-1])
    place = [inputs + (hidden + i if i < outputs else i - outputs) for i in one.node_id.tolist()]
    assert [place[o - inputs] - inputs - hidden for o in one.output[0].tolist()] == list(range(outputs))
    connections = {}
    for k, node in enumerate(place):
        for e in range(one.edge_start[k], one.edge_start[k + 1]):
            source = int(one.source[e])
            names = ("weight", "rate", "correlation", "presynaptic", "postsynaptic", "constant")
            values = {name: float(getattr(one, name)[e]) for name in names}
            connections[source if source < inputs else place[source - inputs], node] = values
    return connections, dict(zip(place, one.bias.tolist(), strict=True))


@given(data=st.data())
@settings(max_examples=examples(25))
def test_what_cppns_paint_is_what_plain_python_paints(data: st.DataObject) -> None:
    config = HYPER.replace(**data.draw(st.sampled_from(SETTINGS)))
    substrate = data.draw(st.sampled_from(SUBSTRATES))
    encoding = hyperneat(config, substrate)
    kinds = networks(encoding.inputs, encoding.outputs, cyclic=False, activations=(*BOUNDED, "abs", "identity"))
    nets = data.draw(st.lists(kinds, min_size=1, max_size=3))
    found = encoding.compile(genomes_of(nets))
    own = config.substrate
    how = (own.expression_threshold, own.substrate_weight, own.substrate_coefficient)
    for p, net in enumerate(nets):
        layers = [layer.tolist() for layer in substrate.layers]
        said = (encoding.input_names, encoding.reading.outputs, layers, substrate.leads, *how)
        expected, biases = paint(net, *said)
        connections, own_biases = painted(found, p, substrate)
        assert connections.keys() == expected.keys()
        for pair, values in expected.items():
            assert_near([connections[pair][k] for k in values], list(values.values()))
        assert own_biases.keys() == biases.keys()
        assert_near([own_biases[k] for k in biases], list(biases.values()))


@given(data=st.data())
@settings(max_examples=examples(15))
def test_a_painted_network_as_a_genome_compiles_to_what_was_painted(data: st.DataObject) -> None:
    substrate, config = SUBSTRATES[1], HYPER.replace(rule="abcd")
    encoding = hyperneat(config, substrate)
    genomes = genomes_of([data.draw(networks(encoding.inputs, encoding.outputs, cyclic=False))])
    straight = encoding.compile(genomes)
    again = compile_phenotypes(encoding.network(genomes), substrate.inputs, substrate.outputs)
    assert painted(again, 0, substrate) == painted(straight, 0, substrate)
    assert (straight.activation == again.activation[0]).all() and (straight.response == 1.0).all()


def test_a_cppn_sees_the_coordinates_that_differ_and_nothing_else() -> None:
    assert hyperneat(HYPER.replace(substrate_bias=False), SUBSTRATES[0]).input_names == ("x1", "x2", "y2", "x1-x2")
    assert hyperneat(HYPER.replace(substrate_deltas=False), SUBSTRATES[1]).input_names == (
        "x1", "y1", "z1", "x2", "y2", "z2",
    )  # fmt: skip
    alone = Substrate((np.zeros((1, 3)), np.zeros((1, 3))), ((0, 1),))
    assert hyperneat(HYPER, alone).input_names == ("x1",)


def test_painted_connections_are_blocks_of_any_length() -> None:
    wide = Substrate((np.linspace(-1, 1, 3 * 401).reshape(401, 3), np.linspace(-1, 1, 9).reshape(3, 3)), ((0, 1),))
    encoding = hyperneat(HYPER.replace(rule="none", expression_threshold=0.0), wide)
    config = configure("cartpole", encoding="hyperneat", pop_size=8).config.evolution
    genomes, _ = first_population(config, encoding.inputs, encoding.outputs, 1)
    together = encoding.compile(genomes)
    for p in range(8):
        alone = encoding.compile(type(genomes)(*(a[p : p + 1] for a in genomes)))
        assert (alone.weight == together.weight[together.edges(p)]).all()
    assert len(links_of(wide).source) == 3 * 401


# -- where nodes are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TASKS, "Ant-v5", "Pendulum-v1", "visual-discrimination", "tmaze"])
def test_every_input_and_output_has_a_place_of_its_own(name: str) -> None:
    task = find(name)
    for places, count in zip(places_of(task), (task.n_inputs, task.n_outputs), strict=True):
        assert places.shape == (count, 2)
        assert len(np.unique(places.round(9), axis=0)) == count


def test_legs_of_the_walker_and_the_ant_are_mirrored() -> None:
    walker = TASKS["bipedalwalker"]
    inputs, outputs = places_of(walker)
    for i, name in enumerate(walker.inputs):
        if "1" in name and "lidar" not in name:
            other = walker.inputs.index(name.replace("1", "2"))
            assert inputs[other].tolist() == [-inputs[i][0], inputs[i][1]]
    assert outputs[2:].tolist() == [[-x, y] for x, y in outputs[:2].tolist()]
    motors = places_of(find("Ant-v5"))[1]  # back right, front left, front right, back left: hip and ankle each
    assert np.sign(motors[::2]).tolist() == [[1, -1], [-1, 1], [1, 1], [-1, -1]]
    assert (motors[1::2] / motors[::2]).round(9).tolist() == [[1.6, 1.6]] * 4


def test_a_substrate_and_its_file_are_the_same(tmp_path: Path) -> None:
    task = find("bipedalwalker")
    made = substrate_of(HYPER.replace(substrate_hidden="3x2,2x2", substrate_skip=False), task)
    (tmp_path / "s.json").write_text(to_text(made, task))
    read = read_substrate(tmp_path / "s.json", task)
    assert read.leads == made.leads == ((0, 1), (1, 2), (2, 3))
    assert all((a == b).all() for a, b in zip(read.layers, made.layers, strict=True))


def test_a_file_in_toml_may_leave_out_heights_and_connections(tmp_path: Path) -> None:
    text = 'hidden = [[[0.0, 0.5]]]\noutputs = [[-1.0], [1.0]]\n[inputs]\n"x vel" = [1, 2]\n"x" = [0, 3]\n'
    (tmp_path / "s.toml").write_text(text + '"angle" = [0, 4]\n"angle vel" = [0, 5, 6]\n')
    found = read_substrate(tmp_path / "s.toml", find("cartpole"))
    assert found.layers[0].tolist() == [[0, 3, -1], [1, 2, -1], [0, 4, -1], [0, 5, 6]]
    assert found.layers[1].tolist() == [[0, 0.5, 0]] and found.layers[2].tolist() == [[-1, 0, 1], [1, 0, 1]]
    assert found.leads == ((0, 1), (0, 2), (1, 2))


FOUR, TWO = [[0, 0]] * 4, [[0, 0]] * 2


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"inputs": FOUR, "outputs": [[0]]}, "1 places of outputs; the task has 2"),
        ({"inputs": {"x": [0]}, "outputs": TWO}, "no place for 'x vel'"),
        ({"inputs": [[0, "a"]] * 4, "outputs": TWO}, "must be 1 to 3 numbers"),
        ({"inputs": [[10**400]] * 4, "outputs": TWO}, "must be 1 to 3 numbers"),
        ({"inputs": FOUR, "outputs": TWO, "hiden": []}, "did you mean 'hidden'"),
        ({"inputs": FOUR, "outputs": TWO, "hidden": [[]]}, "at least one"),
        ({"inputs": FOUR, "outputs": TWO, "connections": [["outputs", "inputs"]]}, "must lead to a later layer"),
        ({"inputs": FOUR, "outputs": TWO, "connections": []}, "at least one"),
        ([], "must be a table"),
    ],
)
def test_a_wrong_substrate_file_is_one_sentence(document: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(document))
    with pytest.raises(NeolError, match=said):
        train("cartpole", out=tmp_path / "run", **TINY, substrate=str(tmp_path / "s.json"))
    assert not (tmp_path / "run").exists()


# -- settings ----------------------------------------------------------------------------------------------------------


def test_cppns_have_defaults_of_their_own_and_direct_runs_keep_theirs() -> None:
    assert configure("hopper").config.neat.weight_init_stdev == 0.1
    painted = configure("hopper", encoding="hyperneat", rule="hebb", weight_mutate_power=0.9).config
    expected = {**HYPERNEAT, "weight_mutate_power": 0.9}
    assert {k: v for k, v in painted.flat().items() if k in expected} == expected
    assert painted.neat.pop_size == 150  # the task's own


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"inheritance": "lamarckian", "rule": "hebb"}, "it must be darwinian"),
        ({"gate": "modulator", "rule": "abcd"}, "no modulatory nodes"),
        ({"feed_forward": False}, "a CPPN has no time"),
        ({"substrate_hidden": "5"}, "WIDTHxHEIGHT"),
        ({"substrate_hidden": "100x100,100x100"}, "the substrate is too large"),
        ({"substrate": "nowhere.json"}, "cannot read the substrate 'nowhere.json'"),
    ],
)
def test_what_has_no_meaning_for_cppns_is_refused_in_one_sentence(given: dict[str, Any], said: str) -> None:
    with pytest.raises(NeolError, match=said) as e:
        configure("cartpole", encoding="hyperneat", **given)
    assert str(e.value).count("\n") == 0


def test_cppns_do_not_begin_from_a_network() -> None:
    with pytest.raises(NeolError, match="a network is no CPPN"):
        HYPER.replace(start="champion.json")


def test_an_arm_of_a_study_may_be_hyperneat() -> None:
    arms = '[[arm]]\nname = "direct"\nrule = "none"\n[[arm]]\nname = "painted"\nrule = "none"\nencoding = "hyperneat"\n'
    found = list(
        cells(parse_plan(f'[study]\ntasks = ["cartpole"]\n{arms}[[arm]]\nname = "hebb"\nencoding = "hyperneat"'))
    )
    assert [c.arm for c in found] == ["direct", "painted", "hebb", "hebb-control"]
    assert len({c.key for c in found}) == 4
    assert [c.config.run.encoding for c in found if isinstance(c.config, Config)] == ["direct", *["hyperneat"] * 3]


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("lunarlander", out=tmp_path_factory.mktemp("painted") / "run", **TINY).path


def test_the_champion_is_a_plain_network_that_its_cppn_painted(run: Path) -> None:
    champion = neol.load(run).champion
    assert (champion.network.inputs, champion.network.outputs) == (8, 2)
    decoded = read_painted(run, neol.load(run).config).network()
    assert decoded.weight.tolist() == [c["weight"] for c in champion.network.document["connections"]]
    cppn = neol.PlasticNetwork.from_json(run / run_folder.CPPN)
    assert cppn.interface["outputs"] == ["weight", "bias"]
    assert neol.load(run).summary.as_dict()["cppn_parameters"] == len(cppn.network.document["connections"]) + len(
        [n for n in cppn.network.document["nodes"] if n["type"] != "input"]
    )


def test_threads_and_the_substrates_own_file_change_no_bit(run: Path, tmp_path: Path) -> None:
    again = train("lunarlander", out=tmp_path / "two", **{**TINY, "threads": 2}).path
    for name in (run_folder.HISTORY, run_folder.CHAMPION, run_folder.CPPN):
        assert (again / name).read_bytes() == (run / name).read_bytes()
    other = train("lunarlander", out=tmp_path / "file", **TINY, substrate=str(run / run_folder.SUBSTRATE)).path
    for name in (run_folder.HISTORY, run_folder.CHAMPION, run_folder.CPPN, run_folder.SUBSTRATE):
        assert (other / name).read_bytes() == (run / name).read_bytes()


def test_a_killed_run_that_is_resumed_ends_in_the_same_bytes(run: Path, tmp_path: Path) -> None:
    options = [f"--{k.replace('_', '-')}={v}" for k, v in TINY.items()]
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "neol",
        "train",
        "lunarlander",
        "--out",
        str(folder),
        "--resume",
        "--quiet",
        *options,
    ]
    process = subprocess.Popen(command)
    while not (folder / run_folder.CHECKPOINT).exists() and process.poll() is None:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / run_folder.SUMMARY).exists()
    assert subprocess.run(command, check=False).returncode == 0
    assert outcome(folder) == outcome(run)


def test_a_substrate_that_changed_is_not_resumed_on(run: Path, tmp_path: Path) -> None:
    folder = train("lunarlander", out=tmp_path / "run", **{**TINY, "generations": 2}).path
    text = (folder / run_folder.SUBSTRATE).read_text()
    (folder / run_folder.SUBSTRATE).write_text(text.replace("0.6", "0.7"))
    with pytest.raises(NeolError, match="is not what the run's networks were painted on"):
        train(out=folder, resume=True, generations=3)
    (folder / run_folder.SUBSTRATE).unlink()
    with pytest.raises(NeolError, match="is missing"):
        train(out=folder, resume=True, generations=3)
    (folder / run_folder.SUBSTRATE).write_text(text)
    whole = train(out=folder, resume=True, generations=4).path
    assert (whole / run_folder.CHAMPION).read_bytes() == (run / run_folder.CHAMPION).read_bytes()


@pytest.mark.parametrize(
    "rule", [{"rule": "abcd", "lr": 0.1}, {"rule": "hebb", "evolve_rate": True, "expression": "leo"}]
)
def test_a_cppn_paints_each_connections_own_plasticity(rule: dict[str, Any], tmp_path: Path) -> None:
    made = train("cartpole", out=tmp_path / "run", **{**TINY, "generations": 1, "max_steps": 20, **rule})
    keys = ("A", "B", "C", "D") if rule["rule"] == "abcd" else ("rate",)
    connections = made.champion.network.document["connections"]
    assert all(-1.0 <= c[k] <= 1.0 for c in connections for k in keys)
    assert len({c[keys[0]] for c in connections}) > 1
    assert set(keys) <= set(neol.PlasticNetwork.from_json(made.path / run_folder.CPPN).interface["outputs"])


@pytest.mark.parametrize("outer", ["es", "neat-es", "hedge"])
def test_other_outer_loops_search_cppns_too(outer: str, tmp_path: Path) -> None:
    made = train("cartpole", out=tmp_path / "run", **{**TINY, "generations": 2, "max_steps": 20, "outer": outer})
    assert (made.path / run_folder.CPPN).exists()
    assert made.champion.network.inputs == 4


def test_a_painted_champion_is_refined_as_the_network_that_it_is(run: Path, tmp_path: Path) -> None:
    made = neol.refine(run, out=tmp_path / "refined", max_env_steps=500, es_population=4)
    assert made.config.run.encoding == "direct"
    before = {(c["from"], c["to"]) for c in neol.load(run).champion.network.document["connections"]}
    assert {(c["from"], c["to"]) for c in made.champion.network.document["connections"]} <= before


def test_drawings_of_substrate_and_patterns_are_the_same_bytes_twice(run: Path, capsys: Any) -> None:
    names = ("network.svg", "curve.svg", "cppn.svg", "substrate.svg", "patterns.svg")
    assert main(["draw", str(run)]) == 0
    assert capsys.readouterr().out.split() == [str(run / name) for name in names]
    first = {name: (run / name).read_bytes() for name in names}
    assert main(["draw", str(run)]) == 0
    assert first == {name: (run / name).read_bytes() for name in names}
    assert b"left leg" in first["substrate.svg"] and b"inputs to main" in first["patterns.svg"]


def test_cppns_are_no_pool_of_topologies(run: Path) -> None:
    with pytest.raises(NeolError, match="holds CPPNs"):
        run_pool(run, 2, 8, 2)


def test_a_resolution_is_for_tasks_that_have_one(run: Path, capsys: Any) -> None:
    assert main(["evaluate", str(run), "--resolution", "33"]) == 2
    assert "it must be visual-discrimination" in capsys.readouterr().err
    assert main(["evaluate", str(run / "champion.json"), "--resolution", "33"]) == 2
    assert "must be a run's folder" in capsys.readouterr().err
