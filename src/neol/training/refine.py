"""`neol refine`: a champion's weights polished by an evolution strategy; its nodes and connections stay as they are."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neol.config.schema import check_value
from neol.envs.registry import Maker
from neol.training import run_folder
from neol.training.configure import COVARIANCES, check_word
from neol.training.observers import Observer
from neol.training.run import Run
from neol.training.train import train

PART, LEAST = 5, 20_000  # the usual budget: a fifth of the run's env steps, but so many at least
NEARBY = 0.1  # CMA-ES's first step size, unless the run's own was less
UNENDING = 10**9  # generations: the budget is env steps


def refine(
    run: Run | str | os.PathLike[str],
    task: str | Maker | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    observers: Sequence[Observer] = (),
    progress: bool | None = None,
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Polish the weights of a run's champion; the result is a run of its own in `out` (by default RUN-refined beside).

    It is trained with the run's own settings, but outer = es from its champion, and for a fifth of its env steps. Any
    of `settings` may be said otherwise: es, max_env_steps, es_sigma, seed ... The champion that it began from is among
    the candidates for the new one, and the summary has both returns on the same fresh episodes. `task` is only needed
    where it was a function. `trust`: an environment that the run's folder names as `module:name` may be imported.
    """
    of = run if isinstance(run, Run) else Run(run, trust)
    if not (trust or of.trusted):
        check_word(of.config.flat(), {*settings, *({"task"} if task else ())}, f"'{of.path / run_folder.CONFIG}'")
    of.champion  # noqa: B018  a run that has none says so
    folder = Path(out) if out is not None else refined_folder(of.path)
    es = check_value("es", settings.get("es", of.config.es.es))
    said = {
        "outer": "es",
        "encoding": "direct",  # of HyperNEAT's networks, too: their own weights are polished
        "start": str(of.path),
        "topology": "full",  # what it begins from has one of its own, and weights
        "generations": UNENDING,
        "fitness_target": math.inf,
        "normalize_share": 0.0,  # its observations stay scaled as they are
        "inheritance": "darwinian",  # as strategies have it
        "max_env_steps": max(LEAST, int(of.history["env_steps"][-1]) // PART),
        **({"es_sigma": min(NEARBY, of.config.es.es_sigma or NEARBY)} if es in COVARIANCES else {}),
        **settings,
    }
    config = of.config.replace(**said)
    how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "observers": observers, "progress": progress}
    return train(task, config=config, out=folder, **how)


def refined_folder(path: Path) -> Path:
    """Where a run's refined champion goes: RUN-refined beside it."""
    whole = Path(os.path.abspath(path))  # also of "."
    return path.with_name(f"{path.name}-refined") if path.name else whole.with_name(f"{whole.name}-refined")
