"""The tests themselves: which are slow, and that JAX stays out of the process that forks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import conftest
import no_jax
import pytest
from conftest import slow_tests
from no_jax import NO_JAX

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(slow_tests()))
def test_what_is_left_out_of_the_fast_tests_exists(name: str) -> None:
    file, _, function = name.partition("::")
    text = (HERE / file).read_text(encoding="utf-8")
    assert not function or re.search(rf"^def {function}\(", text, re.MULTILINE), f"tests/slow.txt: no test '{name}'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys\nsys.modules['jax'] = sys\ndef test_it(): pass", "ERROR: " + NO_JAX),
        ("import sys\ndef test_it(): sys.modules['jax'] = sys\ndef test_other(): pass", "2 passed, 1 error"),
        ("def test_it(): pass", "1 passed"),
    ],
    ids=["at collection", "in a test", "never"],
)
def test_jax_in_the_tests_own_process_is_an_error(text: str, words: str, tmp_path: Path) -> None:
    assert conftest._jax_stays_out is no_jax._jax_stays_out  # every test has it
    assert conftest.pytest_collection_finish is no_jax.pytest_collection_finish
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no_jax", "-p", "no:cacheprovider", "-vv", tmp_path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert words in done.stdout + done.stderr
    assert (done.returncode == 0) == (words == "1 passed")
