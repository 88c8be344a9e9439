"""What neat-python and the authors' code computed: our network and the slow oracle must reproduce it to 1e-9."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest

from neol.config.sections import PlasticityConfig
from neol.deploy.plastic_network import PLAIN, PlasticNetwork

DATA = Path(__file__).parent / "data" / "golden"
TOLERANCE = 1e-9  # absolute, outputs and weights
PLASTIC = json.loads((DATA / "plastic.json").read_text(encoding="utf-8"))
FEEDFORWARD = json.loads((DATA / "feedforward.json").read_text(encoding="utf-8"))
SETTINGS = [f.name for f in dataclasses.fields(PlasticityConfig)]

by_case = pytest.mark.parametrize("case", PLASTIC, ids=[f"{i}-{c['rule']}-{c['lr']}" for i, c in enumerate(PLASTIC)])


def settings_of(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in SETTINGS if name in case}


def start_weights(case: dict[str, Any]) -> dict[tuple[int, int], float]:
    return {(c["from"], c["to"]): c["weight"] for c in case["network"]["connections"]}


def final_weights(case: dict[str, Any]) -> dict[tuple[int, int], float]:
    """The case's weights by (from, to); a case of rule neat lists none, because they stay."""
    listed = {tuple(map(int, key.split(","))): w for key, w in case["final_weights"].items()}
    return listed or start_weights(case)  # type: ignore[return-value]


def test_every_case_is_here_and_the_plastic_ones_really_learn() -> None:
    assert (len(PLASTIC), len(FEEDFORWARD)) == (24, 4)
    assert {c["rule"] for c in PLASTIC} == {"neat", "hebb", "oja", "bcm"}
    for case in PLASTIC:
        before, after = start_weights(case), final_weights(case)
        change = max(abs(after[pair] - before[pair]) for pair in before)
        assert (change > 1e-3) == (case["rule"] != "neat")


@by_case
def test_plastic_network_reproduces_the_authors_outputs_and_final_weights(case: dict[str, Any]) -> None:
    net = PlasticNetwork.from_json(case["network"], **settings_of(case))
    outputs = []
    for observation, reward in zip(case["observations"], case["rewards"], strict=True):
        outputs.append(net.activate(observation))
        net.reward(reward)
    assert np.abs(np.array(outputs) - np.array(case["outputs"])).max() <= TOLERANCE
    expected, weights = final_weights(case), net.weights
    assert weights.keys() == expected.keys()
    assert max(abs(weights[pair] - expected[pair]) for pair in expected) <= TOLERANCE


@by_case
def test_the_oracle_reproduces_the_authors_outputs_and_final_weights(case: dict[str, Any]) -> None:
    rule = {"neat": "none"}.get(case["rule"], case["rule"])
    settings = dataclasses.replace(PlasticityConfig(), **{**settings_of(case), "rule": rule})
    outputs, weights = oracle.live(
        oracle.from_document(case["network"]), settings, case["observations"], case["rewards"]
    )
    assert np.abs(np.array(outputs) - np.array(case["outputs"])).max() <= TOLERANCE
    expected = final_weights(case)
    assert weights.keys() == expected.keys()
    assert max(abs(weights[pair] - expected[pair]) for pair in expected) <= TOLERANCE


@pytest.mark.parametrize("case", FEEDFORWARD, ids=range(len(FEEDFORWARD)))
def test_a_plain_network_gives_neat_pythons_outputs(case: dict[str, Any]) -> None:
    net = PlasticNetwork.from_json(case["network"])
    assert net.settings == PLAIN
    assert math.isinf(net.settings.preactivation_limit)
    outputs = [net.activate(row) for row in case["inputs"]]
    assert np.abs(np.array(outputs) - np.array(case["outputs"])).max() <= TOLERANCE
    expected, _ = oracle.live(oracle.from_document(case["network"]), PLAIN, case["inputs"], [0.0] * len(outputs))
    assert np.abs(np.array(expected) - np.array(case["outputs"])).max() <= TOLERANCE
