"""Run: a finished (or interrupted) run's folder, read."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from neol.config.schema import Config
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.training import run_folder


class Run:
    """What a run left: `config`, `history` and `timing` (columns as arrays), `summary`, `champion`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
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
    def summary(self) -> dict[str, Any]:
        return run_folder.read_json(self.path / run_folder.SUMMARY)

    @property
    def champion_path(self) -> Path:
        return self.path / run_folder.CHAMPION

    @property
    def champion(self) -> PlasticNetwork:
        """The chosen controller, fresh."""
        if (self.path / "champion.npz").is_file():
            raise NeolError(f"'{self.path}' is a baseline's; read its policy with neol.baselines.load_policy.")
        if not self.champion_path.is_file():
            raise NeolError(
                f"'{self.path}' has no {run_folder.CHAMPION} yet; "
                f"finish it with: neol train --out {self.path} --resume."
            )
        return PlasticNetwork.from_json(self.champion_path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def load(path: str | os.PathLike[str]) -> Run:
    """The run in a folder."""
    return Run(path)
