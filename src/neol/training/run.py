"""Run: a finished (or interrupted) run's folder, read."""

from __future__ import annotations

import html
import os
from functools import cached_property
from pathlib import Path

import numpy as np

from neol.config.schema import Config
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.figures.curve import draw_curve
from neol.figures.style import inline_svg
from neol.files import as_path
from neol.training import run_folder
from neol.training.summary import BaselineSummary, NeolSummary, read_summary, shown


class Run:
    """What a run left: `config`, `history` and `timing` (columns as arrays), `summary`, `champion`."""

    def __init__(self, path: str | os.PathLike[str], trust: bool = False) -> None:
        self.path, self.trusted = as_path(path, "path"), trust
        if not (self.path / run_folder.CONFIG).is_file():
            raise NeolError(f"'{self.path}' is not a run's folder: it has no {run_folder.CONFIG}.")

    @cached_property
    def config(self) -> Config:
        return run_folder.read_config(self.path)

    @cached_property
    def history(self) -> dict[str, np.ndarray]:
        return run_folder.read_table(self.path / run_folder.HISTORY)

    @cached_property
    def timing(self) -> dict[str, np.ndarray]:
        return run_folder.read_table(self.path / run_folder.TIMING)

    @cached_property
    def summary(self) -> NeolSummary | BaselineSummary:
        return read_summary(self.path)

    @property
    def champion_path(self) -> Path:
        return self.path / run_folder.CHAMPION

    @property
    def champion(self) -> PlasticNetwork:
        """The chosen controller, fresh."""
        if (self.path / run_folder.POLICY).is_file():
            raise NeolError(f"'{self.path}' is a baseline's; read its policy with neol.baselines.load_policy.")
        if not self.champion_path.is_file():
            raise NeolError(f"'{self.path}' has no {run_folder.CHAMPION} yet; train it with --out and --resume.")
        return PlasticNetwork.from_json(self.champion_path, trust=self.trusted)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """For notebooks: what it came to, its champion and its learning curve."""
        lines = [("folder", str(self.path)), ("task", self.config.run.task), ("rule", self.config.plasticity.rule)]
        if (self.path / run_folder.SUMMARY).is_file():
            s = self.summary
            low, high = s.champion_return_ci95
            lines += [
                ("status", f"{s.status}, {s.generations} generations, {s.env_steps:,} env steps"),
                ("held-out return", f"{shown(s.champion_return_mean)} (95 % CI {shown(low)} to {shown(high)})"),
                ("champion", f"{s.champion_nodes} nodes, {s.champion_connections} connections"),
            ]
        else:
            lines += [("status", "not finished")]
        rows = "".join(f"<tr><th align='left'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in lines)
        pictures = self.champion._repr_html_() if self.champion_path.is_file() else ""
        if (self.path / run_folder.HISTORY).is_file():
            pictures += inline_svg(lambda path: draw_curve(self.history, path))
        return f"<table>{rows}</table>{pictures}"


def load(path: str | os.PathLike[str], trust: bool = False) -> Run:
    """The run in a folder. `trust`: an environment that it names as `module:name` may be imported."""
    return Run(path, trust)
