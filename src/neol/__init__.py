"""NEOL: evolve small neural controllers that go on learning after they are deployed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Config": "config",
    "Evaluation": "evaluation",
    "NeolError": "errors",
    "PlasticNetwork": "network",
    "Run": "run",
    "Study": "study",
    "configure": "presets",
    "evaluate": "evaluation",
    "load": "run",
    "replay": "evaluation",
    "train": "training",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from neol.config import Config as Config
    from neol.errors import NeolError as NeolError
    from neol.evaluation import Evaluation as Evaluation
    from neol.evaluation import evaluate as evaluate
    from neol.evaluation import replay as replay
    from neol.network import PlasticNetwork as PlasticNetwork
    from neol.presets import configure as configure
    from neol.run import Run as Run
    from neol.run import load as load
    from neol.study import Study as Study
    from neol.training import train as train


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that `import neol` is quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'neol' has no attribute {name!r}")
    value = getattr(import_module(f"neol.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
