"""`neol export`: the same life in other languages, files that compile anywhere, and one sentence for what cannot be."""

from __future__ import annotations

from pathlib import Path

import exported
import numpy as np
from exported import Lived, difference, reference

from neol.export import javascript, plain_python
from neol.export.program import program

NETWORKS = range(200)


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
        c, (observations, rewards) = names["Controller"](), reference(i).world
        outputs, actions = [], []
        for t, row in enumerate(observations.tolist()):
            earned = float(rewards[t - 1]) if t else 1e9  # the first is not read
            if t == exported.REST:
                c.end(earned)
                c.rest()
            actions.append(c.step(row, earned))
            outputs.append(list(c.output))
        found = Lived(np.array(outputs), np.array(actions), np.array(getattr(c, "weight", reference(i).lived.weights)))
        assert difference(found, reference(i).lived) == 0.0, i
