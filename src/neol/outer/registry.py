"""Which outer loops there are, by name; or anybody's own, from Python."""

from __future__ import annotations

import importlib
from functools import partial

from neol.errors import NeolError
from neol.outer.base import LoopMaker, OuterLoop, Problem, check_loop
from neol.outer.es_loop import EsLoop
from neol.outer.hedge_pool import HedgePool
from neol.outer.neat_es import NeatEsLoop
from neol.outer.neat_loop import NeatLoop

LOOPS: dict[str, LoopMaker] = {"neat": NeatLoop, "es": EsLoop, "neat-es": NeatEsLoop, "hedge": HedgePool}
# Loops that need an optional package and more of NEOL than this one may import: loaded when they are asked for.
ELSEWHERE = {"gradient": ("neol.gradients.plastic_loop", "GradientLoop")}
PYTHON = "python:"  # what a loop that was passed from Python is called in config.toml


def loop_name(maker: LoopMaker) -> str:
    """How a loop that was passed from Python is recorded."""
    plain = maker.func if isinstance(maker, partial) else maker
    return f"{PYTHON}{getattr(plain, '__qualname__', type(plain).__name__)}"


def make_loop(problem: Problem, maker: LoopMaker | None = None) -> OuterLoop:
    """The loop that the configuration names, or the one that was passed."""
    name = problem.config.run.outer
    if maker is None and name in ELSEWHERE:
        module, attribute = ELSEWHERE[name]
        maker = getattr(importlib.import_module(module), attribute)
    if maker is None and name not in LOOPS:
        raise NeolError(
            f"outer = '{name}' is a loop of the program that trained with it; pass it again, from Python: "
            "neol.train(..., outer=...)."
        )
    loop = (maker or LOOPS[name])(problem)
    check_loop(loop, name)
    return loop
