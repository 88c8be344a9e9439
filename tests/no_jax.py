"""JAX stays out of the tests' own process: the guard alone, which test_suite.py tries in processes of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

# JAX starts threads, and a process with threads may hang when it forks (subprocess does, given a preexec_fn).
NO_JAX = "JAX was imported in the tests' own process, which forks: run it in a process of its own (see baseline_lab.py)"


def pytest_collection_finish() -> None:
    if "jax" in sys.modules:
        raise pytest.UsageError(NO_JAX)


@pytest.fixture(autouse=True)
def _jax_stays_out() -> Iterator[None]:
    before = "jax" in sys.modules  # only the test that imported it fails
    yield
    assert before or "jax" not in sys.modules, NO_JAX
