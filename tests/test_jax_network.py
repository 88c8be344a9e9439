"""A network in JAX: the values of our kernels, and gradients that finite differences of our kernels confirm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from quick_xla import quick_xla


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What jax_network_lab.py computed."""
    file = tmp_path_factory.mktemp("jax") / "found.json"
    script = Path(__file__).with_name("jax_network_lab.py")
    done = subprocess.run([sys.executable, script, file], env=quick_xla(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text(encoding="utf-8"))


def test_values_are_those_of_our_kernels_feed_forward_and_recurrent(lab: dict[str, Any]) -> None:
    assert {n["recurrent"] for n in lab["networks"]} == {True, False}
    assert max(n["double"] for n in lab["networks"]) <= 1e-12
    assert max(n["single"] for n in lab["networks"]) <= 1e-5


def test_gradients_through_time_equal_finite_differences_of_our_kernels(lab: dict[str, Any]) -> None:
    for network in lab["networks"]:
        assert network["steepest"] > 0.1  # there is something to compare
        assert set(network["slopes"]) == {"weight", "bias", "response"}
        assert max(network["slopes"].values()) <= 1e-6, network


def test_every_activation_and_aggregation_is_ours_and_has_a_finite_gradient_far_out_too(lab: dict[str, Any]) -> None:
    assert lab["one_node"]["worst"] <= 1e-12
    assert lab["one_node"]["finite"]


def test_rows_at_once_equal_one_after_the_other_and_numbers_come_back_into_the_genome(lab: dict[str, Any]) -> None:
    assert lab["rows"]["together"] <= 1e-12
    assert lab["rows"]["outputs"] <= 1e-12
    assert lab["rows"]["written"] == 0.0
