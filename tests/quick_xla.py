"""The environment of tests' processes that compute with JAX."""

from __future__ import annotations

import os

# XLA need not make it fast: compiling takes longer than the numbers. The same for all runs that are compared.
FLAGS = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"}


def quick_xla() -> dict[str, str]:
    """This process's environment, with them."""
    return {**os.environ, **FLAGS}
