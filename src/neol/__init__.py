"""NEOL: evolve small neural controllers that go on learning after they are deployed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Adaptation": "deploy.adaptation",
    "CheckReport": "rollout.check_report",
    "Config": "config.schema",
    "Evaluation": "deploy.evaluation",
    "NeolError": "errors",
    "PlasticNetwork": "deploy.plastic_network",
    "Run": "training.run",
    "Study": "studies.study",
    "adapt": "deploy.adaptation",
    "check": "rollout.check_environment",
    "configure": "training.configure",
    "evaluate": "deploy.evaluation",
    "export_controller": "export.targets",
    "finetune": "gradients.finetune",
    "load": "training.run",
    "refine": "training.refine",
    "replay": "deploy.evaluation",
    "train": "training.train",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from neol.config.schema import Config as Config
    from neol.deploy.adaptation import Adaptation as Adaptation
    from neol.deploy.adaptation import adapt as adapt
    from neol.deploy.evaluation import Evaluation as Evaluation
    from neol.deploy.evaluation import evaluate as evaluate
    from neol.deploy.evaluation import replay as replay
    from neol.deploy.plastic_network import PlasticNetwork as PlasticNetwork
    from neol.errors import NeolError as NeolError
    from neol.export.targets import export_controller as export_controller
    from neol.gradients.finetune import finetune as finetune
    from neol.rollout.check_environment import check as check
    from neol.rollout.check_report import CheckReport as CheckReport
    from neol.studies.study import Study as Study
    from neol.training.configure import configure as configure
    from neol.training.refine import refine as refine
    from neol.training.run import Run as Run
    from neol.training.run import load as load
    from neol.training.train import train as train


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that `import neol` is quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'neol' has no attribute {name!r}")
    value = getattr(import_module(f"neol.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
