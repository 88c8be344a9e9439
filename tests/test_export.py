"""`neol export`: the same life in other languages, files that compile anywhere, and one sentence for what cannot be."""

from __future__ import annotations

from pathlib import Path

import exported
import numpy as np
import pytest
from exported import Lived, difference, reference

from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.export import c, javascript, onnx_graph, plain_python
from neol.export.program import program

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


def static(seed: int) -> exported.Reference:
    """A random network that does not learn, and its life."""
    document = exported.random_document(seed)
    document["plasticity"] |= {"rule": "none", "birth": "inherited"}
    net = PlasticNetwork.from_json(document)
    of = exported.world(net, seed)
    return exported.Reference(net, of, *exported.lived(net, of), 0.0)


@pytest.mark.parametrize(("precision", "dtype", "enough"), [("double", "float64", 200), ("float", "float32", 180)])
def test_onnx_gives_the_kernels_outputs(precision: str, dtype: str, enough: int) -> None:
    """In floats a few networks are not near: those that divide by, or choose between, what floats cannot tell apart."""
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
