"""PPO and SAC on the same tasks, budgets, seeds and run folders."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {"BaselineConfig": "settings", "baseline_config": "settings", "load_policy": "policy", "train": "loop"}
__all__ = ["BaselineConfig", "baseline_config", "load_policy", "train"]

if TYPE_CHECKING:
    from neol.baselines.loop import train as train
    from neol.baselines.policy import load_policy as load_policy
    from neol.baselines.settings import BaselineConfig as BaselineConfig
    from neol.baselines.settings import baseline_config as baseline_config


def __getattr__(name: str) -> Any:
    """Imported when first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'neol.baselines' has no attribute {name!r}")
    return getattr(import_module(f"neol.baselines.{_HOME[name]}"), name)
