"""The pictures: complete, legible by machine, and the same bytes every time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from neol.errors import NeolError
from neol.figures.curve import draw_curve
from neol.figures.large_network import CELLS, LISTED, bands, depths, matrix, read_wires
from neol.figures.network import _crossings, _graph, _place, draw_network

SVG = "{http://www.w3.org/2000/svg}"


def network(
    n_in: int, n_out: int, n_hidden: int, seed: int = 0, extra: tuple[tuple[int, int], ...] = ()
) -> dict[str, Any]:
    """A random network JSON 1.0, every tenth connection disabled."""
    rng = random.Random(seed)
    inputs, outputs = [-i - 1 for i in range(n_in)], list(range(n_out))
    hidden = [n_out + i for i in range(n_hidden)]
    pairs = [(a, b) for a in inputs for b in outputs if rng.random() < 0.6]
    for i, h in enumerate(hidden):
        pairs += [(a, h) for a in rng.sample(inputs + hidden[:i], 2)] + [(h, rng.choice(hidden[i + 1 :] + outputs))]
    nodes = [
        {"id": k, "activation": {"name": rng.choice(("tanh", "relu"))}, "bias": rng.gauss(0, 1)}
        for k in outputs + hidden
    ]
    wires = [
        {"from": a, "to": b, "weight": rng.gauss(0, 1), "enabled": i % 10 != 9}
        for i, (a, b) in enumerate(dict.fromkeys([*pairs, *extra]))
    ]
    topology = {"num_inputs": n_in, "num_outputs": n_out, "input_keys": inputs, "output_keys": outputs}
    return {"format_version": "1.0", "topology": topology, "nodes": nodes, "connections": wires, "plasticity": {}}


def history(n: int) -> dict[str, np.ndarray]:
    t = np.arange(n)
    fitness = {f"{name}_fitness": 10.0 * t + i for i, name in enumerate(("median", "mean", "best"))}
    return {"generation": t, "env_steps": 1000 * (t + 1), "species": t % 5 + 1, **fitness}


def drawn(path: Path) -> tuple[set[str], list[str]]:
    """(gids of groups with a path in them, all texts) of an SVG."""
    root = ElementTree.parse(path).getroot()
    ids = {g.get("id", "") for g in root.iter(f"{SVG}g") if g.find(f"{SVG}path") is not None}
    return ids, [t.text or "" for t in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("size", [(4, 2, 0), (24, 4, 20), (1, 1, 0), (3, 1, 30)])
def test_svg_has_names_nodes_and_enabled_edges(tmp_path: Path, size: tuple[int, int, int]) -> None:
    net = network(*size)
    names = [f"in & <{i}> $x$" for i in range(size[0])]
    path = draw_network(net, tmp_path / "new" / "n.svg", names, [f"out {i}" for i in range(size[1])], "title")
    ids, texts = drawn(path)
    enabled = {f"edge_{c['from']}_{c['to']}" for c in net["connections"] if c["enabled"]}
    assert {i for i in ids if i.startswith("edge_")} == enabled
    assert len([i for i in ids if i.startswith("node_")]) == sum(size)
    assert {*names, "out 0", "title", "positive", "negative"} <= set(texts)
    assert [p.name for p in path.parent.iterdir()] == ["n.svg"]


def test_modulatory_nodes_are_diamonds_and_what_they_send_is_dotted(tmp_path: Path) -> None:
    net = network(4, 2, 3)
    for wire in net["connections"]:
        wire["enabled"] = True
    plain = draw_network(net, tmp_path / "plain.svg").read_text()
    outputs = net["topology"]["output_keys"]
    gate = next(n for n in net["nodes"] if n["id"] >= 0 and n["id"] not in outputs)
    gate["role"] = "modulatory"
    path = draw_network(net, tmp_path / "n.svg")
    sent = [c for c in net["connections"] if c["from"] == gate["id"]]
    assert sent and "gates what its target learns" in drawn(path)[1]
    assert path.read_text().count("stroke-dasharray") == plain.count("stroke-dasharray") + len(sent) + 1  # its legend
    outline = ElementTree.parse(path).find(f".//*[@id='node_{gate['id']}']/{{*}}path")
    assert outline is not None and "C" not in outline.attrib["d"]  # straight lines only


def test_ids_where_names_are_missing(tmp_path: Path) -> None:
    _, texts = drawn(draw_network(network(4, 2, 0), tmp_path / "n.svg", ["first"]))
    assert {"first", "-2", "-3", "-4", "0", "1"} <= set(texts)


def test_recurrent_edges_are_dashed_and_have_heads(tmp_path: Path) -> None:
    net = network(4, 2, 3, extra=((0, 0), (2, 2), (1, 0), (1, 2), (4, 3)))
    for wire in net["connections"]:
        wire["enabled"] = True
    path = draw_network(net, tmp_path / "n.svg")
    ids, texts = drawn(path)
    graph = _graph(net)
    assert {f"head_{a}_{b}" for a, b in set(graph.edges) - graph.forward} == {i for i in ids if i.startswith("head_")}
    assert {(0, 0), (2, 2), (1, 0), (1, 2)} <= set(graph.edges) - graph.forward
    assert "recurrent" in texts and path.read_text().count("stroke-dasharray") >= 4


def test_forward_edges_lead_right_and_sweeps_lessen_crossings() -> None:
    graph = _graph(network(12, 3, 15, seed=4))
    column = {k: i for i, keys in enumerate(graph.layers) for k in keys}
    assert all(column[a] < column[b] for a, b in graph.forward) and graph.forward == set(graph.edges)
    plain = {k: (float(i), -float(j)) for i, keys in enumerate(graph.layers) for j, k in enumerate(keys)}
    assert _crossings(graph, _place(graph, 6.0, 0.31)) < _crossings(graph, plain)


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_same_bytes_every_time(tmp_path: Path, suffix: str) -> None:
    import matplotlib

    first = draw_network(network(6, 2, 5), tmp_path / f"a.{suffix}", title="t").read_bytes()
    curve = draw_curve(history(9), tmp_path / f"b.{suffix}").read_bytes()
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "svg.hashsalt": "other"}):
        assert draw_network(network(6, 2, 5), tmp_path / f"c.{suffix}", title="t").read_bytes() == first
        assert draw_curve(history(9), tmp_path / f"d.{suffix}").read_bytes() == curve
        assert matplotlib.rcParams["font.size"] == 20


@pytest.mark.parametrize("n", [1, 2, 300])
def test_png_is_a_picture(tmp_path: Path, n: int) -> None:
    from PIL import Image

    paths = [draw_network(network(8, 2, n % 7), tmp_path / "n.PNG"), draw_curve(history(n), tmp_path / "c.png", "t")]
    for path in paths:
        pixels = np.asarray(Image.open(path).convert("RGB"))
        assert pixels.shape[0] > 200 and pixels.shape[1] > 400
        assert 0.005 < (pixels.min(axis=2) < 250).mean() < 0.5
        edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        assert (edge == 255).all(), "something is cut off at the border"


# -- large networks ----------------------------------------------------------------------------------------------------


def layered(*sizes: int, seed: int = 0) -> dict[str, Any]:
    """A network whose layers (inputs, hidden ..., outputs) are fully connected, one after another."""
    rng = np.random.default_rng(seed)
    layers, first = [[-1 - i for i in range(sizes[0])]], sizes[-1]
    for size in sizes[1:-1]:
        layers.append(list(range(first, first + size)))
        first += size
    layers.append(list(range(sizes[-1])))
    pairs = [(a, b) for these, those in pairwise(layers) for a in these for b in those]
    plain = {"activation": {"name": "tanh"}, "aggregation": {"name": "sum"}, "bias": 0.1, "response": 1.0}
    kinds = ["input", *["hidden"] * (len(sizes) - 2), "output"]
    nodes = [{"id": k, "type": kind, **plain} for kind, layer in zip(kinds, layers, strict=True) for k in layer]
    wires = [
        {"from": a, "to": b, "weight": float(w), "enabled": True}
        for (a, b), w in zip(pairs, rng.normal(size=len(pairs)), strict=True)
    ]
    return {
        "format_version": "1.0", "network_type": "feedforward", "metadata": {"generator": "neol"},
        "topology": {"input_keys": layers[0], "output_keys": layers[-1]}, "nodes": nodes, "connections": wires,
    }  # fmt: skip


def test_a_network_is_drawn_as_lines_up_to_600_connections_and_300_nodes(tmp_path: Path) -> None:
    for sizes, lines in (((100, 6), True), ((100, 7), False), ((298, 2), True), ((299, 2), False)):
        net = layered(*sizes)
        net["connections"] = net["connections"] if sum(sizes) < 200 else net["connections"][:5]
        ids, _ = drawn(draw_network(net, tmp_path / "n.svg"))
        assert any(i.startswith("edge_") for i in ids) == lines, sizes


def test_a_large_network_names_its_strongest_connections_and_says_what_was_left_out(tmp_path: Path) -> None:
    net = layered(7056, 4)
    net["connections"][5 * 4 + 2]["weight"] = -77.0
    names = [f"pixel {i}" for i in range(7056)]
    _, texts = drawn(draw_network(net, tmp_path / "n.svg", names, ["up", "down", "left", "right"], "breakout"))
    assert {"breakout", "pixel 5 \u2192 left", "\u221277.0", "inputs (7,056)", "up", "right"} <= set(texts)
    assert sum("\u2192" in t for t in texts) == LISTED
    said = " ".join(texts)
    assert "7,060 nodes, 28,224 connections: too many for lines" in said
    assert "the strongest weight of up to 30 \u00d7 1 nodes" in said
    assert "Left out: the names of 28,212 connections" in said


def test_cells_show_the_strongest_weight_of_their_nodes() -> None:
    inputs, hidden, outputs, wires = read_wires(layered(500, 3, 2, seed=3))
    sizes = len(inputs), len(hidden), len(outputs)
    layers = bands(*sizes, depths(*sizes, wires))
    assert [(b.name, len(b.nodes), b.cells) for b in layers] == [
        ("inputs", 500, CELLS), ("hidden", 3, 3), ("outputs", 2, 2),
    ]  # fmt: skip
    cells = matrix(wires, layers[:-1], layers[1:], sum(sizes))
    assert cells.shape == (CELLS + 3, 3 + 2)
    assert np.isnan(cells[:CELLS, 3:]).all() and np.isnan(cells[CELLS:, :3]).all()  # no such connections
    dense = np.zeros((500, 3))
    direct = wires.source < 500
    dense[wires.source[direct], wires.target[direct] - 500] = wires.weight[direct]
    for c in (0, 17, CELLS - 1):
        members = dense[np.arange(500) * CELLS // 500 == c]
        assert members[abs(members).argmax(axis=0), range(3)].tolist() == cells[c, :3].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_layers_are_those_of_the_small_drawing(seed: int) -> None:
    net = network(12, 3, 25, seed)
    inputs, hidden, outputs, wires = read_wires(net)
    depth = depths(len(inputs), len(hidden), len(outputs), wires)
    columns = _graph(net).layers[1:-1]
    found = [[k for i, k in enumerate(hidden) if depth[12 + i] == d] for d in sorted({*depth[12:-3].tolist()})]
    assert found == columns


def test_a_network_full_of_cycles_has_layers_and_is_drawn(tmp_path: Path) -> None:
    hidden = list(range(2, 32))
    net = network(4, 2, 30, extra=tuple((a, b) for a in [*hidden, 0] for b in [*hidden, 1]))
    _, texts = drawn(draw_network(net, tmp_path / "n.svg"))
    assert {"A cell is a connection." in t for t in texts} == {True, False}
    inputs, inner, outputs, wires = read_wires(net)
    sizes = len(inputs), len(inner), len(outputs)
    layers = bands(*sizes, depths(*sizes, wires))
    assert np.isfinite(matrix(wires, layers, layers[1:], sum(sizes))).sum() == len(wires.weight)


def test_a_large_network_without_connections_is_drawn(tmp_path: Path) -> None:
    net = layered(400, 2)
    net["connections"] = []
    _, texts = drawn(draw_network(net, tmp_path / "n.svg"))
    assert any("402 nodes, 0 connections" in t for t in texts)


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_large_drawing_has_the_same_bytes_every_time_and_nothing_at_its_border(tmp_path: Path, suffix: str) -> None:
    from PIL import Image

    net = layered(300, 40, 20, 4)
    long = [f"a name that is far too long for its place {i}" for i in range(300)]
    first = draw_network(net, tmp_path / f"a.{suffix}", long, long, "title " * 20)
    assert draw_network(net, tmp_path / f"b.{suffix}", long, long, "title " * 20).read_bytes() == first.read_bytes()
    if suffix == "png":
        pixels = np.asarray(Image.open(first).convert("RGB"))
        assert (np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]) == 255).all()


# VmHWM, not ru_maxrss: that one begins with the size of the process that started it, tests and all.
PEAK = (
    "import re\nfrom pathlib import Path\n"
    "print(int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)\n"
)
OF_A_FILE = "from neol.cli.main import main\nassert main(['draw', 'champion.json', '--out', 'n.png']) == 0\n"
OF_A_MILLION = (
    "from test_figures import draw_network, layered\nnet = layered(7056, 140, 16)\n"
    "assert len(net['connections']) > 990_000\ndraw_network(net, 'n.png')\n"
)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells a process's own peak")
@pytest.mark.parametrize("script", [OF_A_FILE, OF_A_MILLION], ids=["of a file", "of a million"])
def test_drawing_very_many_connections_takes_little_memory(tmp_path: Path, script: str) -> None:
    """Of 28,224 in a file, 14.8 GB once; of a million, whose dicts take 0.4 GB themselves."""
    if script == OF_A_FILE:
        (tmp_path / "champion.json").write_text(json.dumps(layered(7056, 4)))
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script + PEAK], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 1500  # megabytes
    assert (tmp_path / "n.png").read_bytes()[:4] == b"\x89PNG"


def test_curve_names_its_lines(tmp_path: Path) -> None:
    data = history(20)
    data["mean_fitness"][3] = data["mean_fitness"][-1] = np.nan
    _, texts = drawn(draw_curve(data, tmp_path / "c.svg", "run 7"))
    assert {"best 192", "mean 181", "median 190", "run 7", "fitness", "species"} <= set(texts)


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(NeolError, match=r"n\.pdf.*\.svg or \.png"):
        draw_network(network(4, 2, 0), tmp_path / "n.pdf")
    with pytest.raises(NeolError, match=r"\.svg or \.png"):
        draw_curve(history(3), tmp_path / "c")
    with pytest.raises(NeolError, match="lacks species"):
        draw_curve({k: v for k, v in history(3).items() if k != "species"}, tmp_path / "c.svg")
    with pytest.raises(NeolError, match="no generations"):
        draw_curve(history(0), tmp_path / "c.svg")
    assert not list(tmp_path.iterdir())
