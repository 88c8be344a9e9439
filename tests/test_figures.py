"""The pictures: complete, legible by machine, and the same bytes every time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from neol.errors import NeolError
from neol.figures.curve import draw_curve
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
