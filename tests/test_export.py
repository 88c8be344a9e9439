"""`neol export`: the same life in other languages, files that compile anywhere, and one sentence for what cannot be."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import exported
import numpy as np
import pytest
from exported import Lived, difference, reference

import neol
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.export import c, javascript, onnx_graph, plain_python
from neol.export.program import program
from neol.export.texts import identifier

NETWORKS = range(200)


def test_c_lives_the_kernels_life_to_the_bit(tmp_path: Path) -> None:
    """Here both use this machine's exp, log, sin and tanh, so nothing may differ, however unstable the life
    (but for functions of constants, which an optimising compiler computes itself)."""
    headers = {i: c.render(program(reference(i).net), f"net{i}") for i in NETWORKS}
    lives = exported.lived_in_c(headers, tmp_path)
    assert max(difference(lives[i], reference(i).lived) for i in NETWORKS) == 0.0


def test_javascript_takes_every_step_as_the_kernels_do(tmp_path: Path) -> None:
    """Node's exp, log, sin and tanh are not those of this machine's C library: their last bits differ. A life that is
    not sensitive to last bits must end where the kernels' does; of every life each single step must be the same."""
    modules = {i: javascript.render(program(reference(i).net)) for i in NETWORKS}
    lives, steps = exported.lived_in_javascript(modules, tmp_path)
    assert max(difference([steps[i]], [exported.stepped(reference(i))]) for i in NETWORKS) <= 1e-12
    calm = [i for i in NETWORKS if reference(i).sensitive <= 1e-13]
    assert len(calm) > 100
    assert max(difference(lives[i], reference(i).lived) for i in calm) <= 1e-12


def test_plain_python_lives_the_kernels_life_to_the_bit() -> None:
    for i in list(NETWORKS)[::8]:
        names: dict = {}
        exec(compile(plain_python.render(program(reference(i).net)), f"network{i}", "exec"), names)
        controller, (observations, rewards) = names["Controller"](), reference(i).world
        outputs, actions = [], []
        for t, row in enumerate(observations.tolist()):
            earned = float(rewards[t - 1]) if t else 1e9  # the first is not read
            if t == exported.REST:
                controller.end(earned)
                controller.rest()
            actions.append(controller.step(row, earned))
            outputs.append(list(controller.output))
        found = Lived(
            np.array(outputs), np.array(actions), np.array(getattr(controller, "weight", reference(i).lived.weights))
        )
        assert difference(found, reference(i).lived) == 0.0, i


@cache
def static(seed: int) -> exported.Reference:
    """A random network that does not learn, and its life."""
    document = exported.random_document(seed)
    document["plasticity"] |= {"rule": "none", "birth": "inherited"}
    net = PlasticNetwork.from_json(document)
    of = exported.world(net, seed)
    return exported.Reference(net, of, *exported.lived(net, of), 0.0)


@pytest.mark.parametrize(("precision", "dtype", "enough"), [("double", "float64", 200), ("float", "float32", 180)])
def test_onnx_gives_the_kernels_outputs(precision: str, dtype: str, enough: int) -> None:
    """In floats some networks (14 of 200) are not near: single precision is not enough for their lives."""
    near = 0
    for i in NETWORKS:
        of = static(i)
        outputs, actions = exported.stepped_in_onnx(onnx_graph.render(program(of.net), precision), of, dtype)
        near += difference([outputs], [of.lived.outputs]) <= 1e-5
        assert difference([actions], [exported.decoded(of.net, outputs)]) <= 1e-5, i
    assert near >= enough


def test_an_onnx_file_holds_the_network_of_birth_and_says_that_it_does_not_learn() -> None:
    import onnx

    plastic, still = (PlasticNetwork.from_json(exported.random_document(1), rule=rule) for rule in ("hebb", "none"))
    models = [onnx.load_from_string(onnx_graph.render(program(net))) for net in (plastic, still)]
    assert models[0].graph == models[1].graph
    assert onnx_graph.NOTE in models[0].doc_string


def test_onnx_refuses_a_network_whose_weights_are_drawn_at_birth() -> None:
    net = PlasticNetwork.from_json(exported.random_document(1), birth="drawn")
    with pytest.raises(NeolError, match="weights are drawn at birth"):
        onnx_graph.render(program(net))


EXAMPLES = Path(__file__).parent.parent / "examples" / "controller_in_c"
LANDER = Path(__file__).parent / "data" / "lander" / "champion.json"


def test_a_c_program_flies_the_lander_to_the_returns_of_evaluate(tmp_path: Path) -> None:
    """The program and the script of the documentation, optimised."""
    sys.path.insert(0, str(EXAMPLES))
    from drive import drive

    neol.export_controller(LANDER, "c", tmp_path / "controller.h")
    source = Path(shutil.copy(EXAMPLES / "pipe.c", tmp_path))
    returns = drive([str(exported.compiled(source, "-O2"))], str(LANDER), 10)
    assert np.array_equal(returns, neol.evaluate(str(LANDER), episodes=10, engine="gymnasium").returns)
    assert returns.mean() > 200


def cartpole(**changes: Any) -> dict[str, Any]:
    """A champion of a real run, with some of its plasticity changed."""
    document = json.loads((Path(__file__).parent / "data" / "kept" / "0.1.0" / "champion.json").read_text("utf-8"))
    document["plasticity"] |= changes
    return document


def controller_of(net: PlasticNetwork) -> Any:
    """Its plain Python, running."""
    names: dict[str, Any] = {}
    exec(compile(plain_python.render(program(net)), "controller", "exec"), names)
    return names["Controller"]()


def test_the_head_of_a_header_tells_the_size_of_its_state(tmp_path: Path) -> None:
    """As C++, which also must take it without a warning."""
    sizes, lines = {}, []
    for i in range(0, 40, 4):
        for precision in ("double", "float"):
            name = f"n{i}{precision}"
            text = c.render(program(reference(i).net), name, precision)
            (tmp_path / f"{name}.h").write_text(text, encoding="ascii")
            sizes[name] = int(re.findall(r"RAM: (\d+) bytes of state", text)[0])
            lines.append(f'    printf("{name} %d\\n", (int)sizeof({name}_state));')
    includes = [f'#include "{name}.h"' for name in sizes]
    source = tmp_path / "main.cpp"
    source.write_text("\n".join(["#include <stdio.h>", *includes, "int main() {", *lines, "}", ""]), encoding="ascii")
    made = exported.compiled(source, "-O0", compiler=(*exported.ZIG, "cc", "-x", "c++", "-std=c++11"))
    said = subprocess.run([made], capture_output=True, text=True, check=True).stdout
    assert {n: int(size) for n, size in re.findall(r"(\w+) (\d+)", said)} == sizes


def test_floats_stay_near_the_kernels(tmp_path: Path) -> None:
    net = PlasticNetwork.from_json(cartpole())
    of = exported.world(net, 0, exported.STEPS)
    life, before = exported.lived(net, of)
    text = c.render(program(net), "net0", "float")
    assert "double" not in text.partition("#include")[2]
    found = exported.lived_in_c({0: text}, tmp_path, "float", exported.Reference(net, of, life, before, 0.0))[0]
    assert difference(found[:1], life[:1]) < 1e-4


@pytest.mark.parametrize("to", ["c", "js", "python", "onnx"])
def test_what_a_stranger_writes_into_a_network_file_stays_text(to: str) -> None:
    evil = '*/ #error x\n"""\\ */ </script> ${1} \u2028 ??/'
    document = cartpole()
    document["interface"] |= {"task": evil, "inputs": [evil] * 4, "outputs": [evil] * 2}
    content = neol.export_controller(PlasticNetwork.from_json(document), to)
    if isinstance(content, bytes):
        return  # a binary format: its text is data
    assert content.isascii() and "</script>" not in content
    code = content if to != "js" else re.sub(r"^(export const \w+|    \{).*$", "", content, flags=re.MULTILINE)
    assert "#error" not in code and "??/" not in code
    if to == "python":
        compile(content, "controller", "exec")


def test_what_is_not_a_number_counts_as_nothing() -> None:
    net = PlasticNetwork.from_json(cartpole())
    there = controller_of(net)
    with pytest.warns(RuntimeWarning):
        outputs = net.activate([math.nan, 1.0, math.inf, -1e300])
        net.reward(math.nan)
    there.step([math.nan, 1.0, math.inf, -1e300])
    assert there.output == outputs.tolist()
    there.step([0.1, 0.2, 0.3, 0.4], math.nan)
    assert there.output == net.activate([0.1, 0.2, 0.3, 0.4]).tolist()


def test_lives_whose_weights_are_drawn_begin_as_those_of_the_network_do() -> None:
    net = PlasticNetwork.from_json(cartpole(birth="drawn"))
    there = controller_of(net)
    for life in range(3):
        there.reset(life)
        assert there.weight == list(net.weights.values())
        net.reset()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("lander", "lander"), ("run 7/ä-b", "run_7_b"), ("2nd", "network_2nd"), ("", "network"), ("__", "network"),
     ("x" * 99, "x" * 60), ("a__b", "a_b")],
)  # fmt: skip
def test_a_run_s_name_becomes_a_name_in_c(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_a_number_that_floats_do_not_have_is_refused() -> None:
    document = cartpole()
    document["connections"][0]["weight"] = 1e300
    with pytest.raises(NeolError, match="weight = 1e\\+300, which needs double"):
        neol.export_controller(PlasticNetwork.from_json(document), "c", precision="float")


def test_the_end_of_the_file_s_name_says_the_format(tmp_path: Path) -> None:
    for name, begins in (("a.h", "/*"), ("a.js", "//"), ("a.mjs", "//"), ("a.py", '"""'), ("a.json", "{")):
        content = neol.export_controller(LANDER, out=tmp_path / name)
        assert (tmp_path / name).read_text("utf-8") == content
        assert isinstance(content, str) and content.startswith(begins)
    assert neol.export_controller(LANDER, out=tmp_path / "a.onnx") == (tmp_path / "a.onnx").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h", "a.js", "a.json", "a.mjs", "a.onnx", "a.py"]


def test_a_bad_wish_writes_nothing(tmp_path: Path) -> None:
    for words in (
        {"to": "c", "out": "x/a.py"},
        {"out": "x/a.onnx", "name": "b"},
        {"out": "x/a.js", "precision": "float"},
    ):
        with pytest.raises(NeolError, match="is not allowed|must end in"):
            neol.export_controller(LANDER, **{**words, "out": tmp_path / words["out"]})
    assert not list(tmp_path.iterdir())
