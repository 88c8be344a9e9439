"""Differentiable plasticity: the published equations are this engine's rule; JAX computes what the kernels compute,
with the right gradients; a killed run ends in the same bytes."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from conftest import assert_near, examples, networks, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Net
from plastic_lab_settings import MODES, RUN
from quick_xla import quick_xla
from test_step import INPUTS, OUTPUTS, Life, lived_alone, lives

import neol
from neol.cli.main import main
from neol.config.sections import PlasticityConfig
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.patterns import Patterns, Presentation, episode
from neol.envs.registry import find
from neol.errors import NeolError
from neol.studies.plan import cells, parse_plan
from neol.training import run_folder
from neol.training.run import Run

SAME = (run_folder.HISTORY, run_folder.CHAMPION)
ENV = quick_xla()

# -- the equations ------------------------------------------------------------------------------------------------


class Miconi(oracle.Life):
    """Weights w + alpha H, written as in the papers; alpha is the edge's `rate`.

    2018: H <- (1 - eta) H + eta x y.    2019, retroactive: E <- (1 - eta) E + eta x y, H <- H + M E.
    """

    def __init__(self, net: Net, settings: Any, eta: float, modulated: bool) -> None:
        super().__init__(net, settings)
        self.eta, self.modulated = eta, modulated
        self.h, self.e = dict.fromkeys(self.edges, 0.0), dict.fromkeys(self.edges, 0.0)

    def learn(self, r: float) -> None:
        gate = self.gates(r)
        for edge in self.edges:
            if self.modulates(edge):
                continue
            xy = self.x[edge] * self.y[edge[1]]
            if self.modulated:
                self.e[edge] = (1.0 - self.eta) * self.e[edge] + self.eta * xy
                self.h[edge] += gate[edge[1]] * self.e[edge]
            else:
                self.h[edge] = (1.0 - self.eta) * self.h[edge] + self.eta * xy
        for edge in self.edges:
            born = self.net.edges[edge]
            self.w[edge] = born.weight + born.rate * self.h[edge]


@pytest.mark.parametrize("modulated", [False, True], ids=["2018", "backpropamine"])
@settings(max_examples=examples(40))
@given(data=st.data(), net=networks(INPUTS, OUTPUTS, weight=1.2), life=lives())
def test_weights_plus_alpha_times_the_trace_are_the_rule_hebb_with_rates_and_decay(
    modulated: bool, data: Any, net: Net, life: Life
) -> None:
    eta = data.draw(st.sampled_from((0.01, 0.1, 0.5)))
    for edge in net.edges.values():
        edge.rate = data.draw(numbers(1.5))
    for i, node in net.nodes.items():
        node.role = data.draw(st.sampled_from(("standard", "modulatory"))) if modulated and i >= OUTPUTS else "standard"
    how = {"gate": "modulator", "trace_decay": 1.0 - eta} if modulated else {"gate": "none", "weight_decay": eta}
    config = PlasticityConfig(rule="hebb", lr=eta, evolve_rate=True, weight_limit=np.inf, **how)
    theirs = Miconi(net, config, eta, modulated)
    expected = []
    for observation, reward in zip(*life, strict=True):
        expected.append(theirs.forward(observation))
        theirs.learn(reward)
    document = {**oracle.document(net, "recurrent"), "plasticity": {}, "metadata": {"generator": "neol"}}
    outputs, weights = lived_alone(PlasticNetwork.from_json(document, **dataclasses.asdict(config)), life)
    assert_near(outputs, expected)
    assert_near([weights[p] for p in theirs.w], list(theirs.w.values()))


# -- pattern completion -------------------------------------------------------------------------------------------


def test_an_episode_of_patterns_shows_each_of_them_and_then_half_of_one() -> None:
    how = Presentation(size=8, patterns=3, cycles=2, shown=2, pause=1, tested=3)
    shown, target = episode(how, 4)
    assert shown.shape == (how.steps, 8) == (21, 8)
    starts = shown[:18].reshape(6, 3, 8)
    assert (starts[:, 0] == starts[:, 1]).all() and not starts[:, 2].any()
    assert (starts[:, 0].sum(axis=1) == 0).all()  # half of the bits are -1
    seen = {tuple(row) for row in starts[:3, 0]}
    assert seen == {tuple(row) for row in starts[3:, 0]} and tuple(target) in seen
    assert (shown[18:] == shown[18]).all() and (shown[18] != 0).sum() == 4
    assert (shown[18][shown[18] != 0] == target[shown[18] != 0]).all()


def test_the_reward_of_patterns_is_the_part_of_the_bits_that_are_right_at_the_end() -> None:
    env = Patterns(size=8, patterns=2, cycles=1, shown=1, pause=0, tested=1)
    _, target = episode(env.presentation, 9)
    env.reset(seed=9)
    earned = [env.step(np.where(np.arange(8) < 2, -target, target)) for _ in range(3)]
    assert [(reward, over) for _, reward, over, _, _ in earned] == [(0.0, False), (0.0, False), (0.75, True)]


def test_the_task_patterns_is_as_large_as_its_arguments_say() -> None:
    small = find("patterns", ["size=6", "patterns=2"])
    assert (small.n_inputs, small.n_outputs, small.max_steps) == (6, 6, 46)
    assert small.inputs[-1] == "bit 5"
    with pytest.raises(NeolError, match="size = 1 is not allowed; it must be a whole number of 2 to 10,000"):
        find("patterns", ["size=1"])


# -- in JAX -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What plastic_lab.py computed."""
    folder = tmp_path_factory.mktemp("plastic")
    script = Path(__file__).with_name("plastic_lab.py")
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=False, env=ENV)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pairs(lab: Path) -> dict[str, np.ndarray]:
    with np.load(lab / "pairs.npz") as file:
        return dict(file)


@pytest.mark.parametrize("mode", range(len(MODES)), ids=[f"{m['rule']}-{m['gate']}" for m in MODES])
def test_a_life_in_jax_is_that_of_the_kernels(pairs: dict[str, np.ndarray], mode: int) -> None:
    theirs, ours = pairs[f"life{mode}"]
    assert np.abs(np.diff(ours, axis=0)).max() > 1e-3  # it does something
    assert_near(theirs, ours)


@pytest.mark.parametrize("task", ["tmaze", "double-tmaze", "bandit"])
def test_a_walk_in_jax_is_that_of_the_native_simulator(pairs: dict[str, np.ndarray], task: str) -> None:
    theirs, ours = pairs[f"walk-{task}"]
    assert ours[:, 4].any()  # something was earned
    assert_near(theirs, ours)


@pytest.mark.parametrize("task", ["tmaze", "patterns"])
def test_gradients_through_a_life_are_those_of_finite_differences(pairs: dict[str, np.ndarray], task: str) -> None:
    gradient, numeric = pairs[f"gradient-{task}"]
    assert np.abs(numeric).max() > 1e-4
    assert np.abs(gradient - numeric).max() < 1e-6 * max(1.0, np.abs(numeric).max())


def options(folder: Path) -> list[str]:
    settings = {k: " ".join(v) if isinstance(v, tuple) else v for k, v in RUN.items()}
    flat = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items()]
    return ["train", "tmaze", "--outer", "gradient", "--quiet", "--out", str(folder), *flat]


def test_a_run_that_is_killed_or_gone_on_with_ends_in_the_same_bytes(lab: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "neol", *options(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV)
    checkpoint = tmp_path / "killed" / run_folder.CHECKPOINT
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert checkpoint.exists()
    for resumed in (command, [sys.executable, "-m", "neol", *options(lab / "halves")]):
        done = subprocess.run([*resumed, "--resume"], capture_output=True, text=True, check=False, env=ENV)
        assert done.returncode == 0, done.stderr
    for name in SAME:
        whole = (lab / "run" / name).read_bytes()
        assert (tmp_path / "killed" / name).read_bytes() == whole
        assert (lab / "halves" / name).read_bytes() == whole


def test_a_run_is_as_any_other_and_its_champion_deploys(lab: Path) -> None:
    run = Run(lab / "run")
    assert run.summary.outer == "gradient" and run.summary.generations == RUN["generations"]
    steps = run.history["env_steps"]
    assert steps[0] <= 2 * 100 and (np.diff(steps) >= 2 * 16 * 100).all()  # those of the updates count
    assert neol.evaluate(run.path, episodes=3, threads=1, trust=True).returns.shape == (3,)
    document = json.loads((lab / "run" / run_folder.CHAMPION).read_text(encoding="utf-8"))
    assert document["plasticity"]["rule"] == "hebb" and all("rate" in c for c in document["connections"])
    assert json.loads((lab / "sizes.json").read_text(encoding="utf-8")) > 100


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "changed", "said"),
    [
        ("hopper", (), "outer = 'gradient' is not allowed on 'hopper': it needs a simulator that JAX computes; use"),
        ("tmaze", ("--inheritance=lamarckian",), "inheritance = 'lamarckian' is not allowed with outer = 'gradient'"),
        ("tmaze", ("--trials=2",), "trials = 2 is not allowed with outer = 'gradient'; it must be 1."),
        ("tmaze", ("--senses=reward",), "senses = ('reward',) is not allowed with outer = 'gradient'; it must be none"),
        ("tmaze", ("--topology=associative",), "the task has 4 inputs and 1 outputs, and must have as many of both."),
    ],
)
def test_what_has_no_gradient_is_refused_in_a_sentence(
    task: str, changed: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", task, "--outer", "gradient", "--out", str(tmp_path / "r"), *changed]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "jax" else found(name, *a))
    assert main(["train", "tmaze", "--outer", "gradient", "--out", str(tmp_path / "r")]) == 2
    assert "pip install 'neol[gradients]'" in capsys.readouterr().err


def test_a_study_holds_it_beside_neat_with_a_matched_control() -> None:
    text = """
[study]
tasks = ["tmaze"]
seeds = 1
[[arm]]
name = "evolved"
rule = "abcd"
gate = "modulator"
[[arm]]
name = "gradient"
outer = "gradient"
"""
    found = {c.arm: c.config for c in cells(parse_plan(text))}
    assert set(found) == {"evolved", "evolved-control", "gradient", "gradient-control"}
    own: Any = found["gradient"]
    assert (own.run.outer, own.plasticity.gate, own.plasticity.lr) == ("gradient", "modulator", 2.0)
    control: Any = found["gradient-control"]
    assert (control.run.outer, control.plasticity.lr) == ("gradient", 0.0)
