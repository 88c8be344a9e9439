"""neol adapt: a network, its twin that is frozen when the world changes, and the one that never learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

import neol
from neol.cli.adapt import _print
from neol.cli.main import main
from neol.deploy.adaptation import _Lived, _summed
from neol.errors import NeolError

STEPS, RATE, WEIGHT = 40, 0.02, 0.5
PLASTIC = {"rule": "hebb", "lr": RATE, "reward_scale": 1.0, "output_transform": "none"}


class Paid(gymnasium.Env):  # type: ignore[type-arg]
    """Always shows 1, and pays what is done, in -1 .. 1."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.ones(1), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.ones(1), float(action[0]), self.t == STEPS, False, {}


class Turning(Paid):
    """Pays the opposite from step 20 on, and says so."""

    @property
    def phase(self) -> int:
        return int(self.t >= 20)

    def step(self, action: Any) -> Any:
        return super().step(-action if self.phase else action)


def document(**plasticity: Any) -> dict[str, Any]:
    """One input, one output: y = w x."""
    own = {"activation": {"name": "identity"}, "aggregation": {"name": "sum"}, "bias": 0.0, "response": 1.0}
    return {
        "format_version": "1.0", "network_type": "feedforward", "metadata": {},
        "topology": {"input_keys": [-1], "output_keys": [0]},
        "nodes": [{"id": 0, "type": "output", **own}],
        "connections": [{"from": -1, "to": 0, "weight": WEIGHT}],
        "plasticity": {**PLASTIC, **plasticity},
        "interface": {"action": {"kind": "bounded", "low": [-1.0], "high": [1.0]}},
    }  # fmt: skip


def network(**plasticity: Any) -> neol.PlasticNetwork:
    return neol.PlasticNetwork.from_json(document(**plasticity))


def expected(change: int, frozen_from: int) -> list[float]:
    """The rewards by hand: r = +-w, then w <- w + c r x y with x = 1, y = w."""
    w, rewards = WEIGHT, []
    for t in range(STEPS):
        r = np.clip(w, -1.0, 1.0) * (-1.0 if t >= change else 1.0)
        rewards.append(float(r))
        if t < frozen_from:
            w += RATE * r * w
    return rewards


@pytest.mark.parametrize(("env", "how"), [(Paid, {"change": "action invert from=20"}), (Turning, {})])
def test_the_twins_part_when_the_world_changes(env: Any, how: dict[str, Any]) -> None:
    found = neol.adapt(network(), env, lives=6, **how)
    assert (found.lives, found.changed) == (6, 6)
    rewards = np.array([expected(20, STEPS), expected(20, 20), expected(20, 0)])
    windows = [rewards[:, 20 + s : 20 + s + found.window].mean(axis=1) for s in found.since]
    assert np.allclose(found.rate, np.array(windows).T, rtol=0, atol=1e-12)
    assert np.allclose(found.by_trial[:, 0], rewards.sum(axis=1), rtol=0, atol=1e-9)
    assert found.regained == (None, None, None)  # Hebb makes it worse, and none knows better
    assert found.before[0] > found.before[2] and found.after[0] > found.after[1]


def test_a_network_without_plasticity_has_three_equal_twins() -> None:
    found = neol.adapt(network(rule="none"), Paid, lives=5, change="action gain=0.5 from=10..30")
    assert np.array_equal(found.rate[0], found.rate[1], equal_nan=True)
    assert np.array_equal(found.rate[0], found.rate[2], equal_nan=True)
    assert found.before[0] == pytest.approx(0.5) and found.after[0] == pytest.approx(0.25)


def test_a_mild_change_is_regained_at_once() -> None:
    found = neol.adapt(network(rule="none"), Paid, lives=5, change="action gain=0.95 from=20")
    assert found.regained == (found.window,) * 3


def test_few_lives_are_measured_as_many_are() -> None:
    found = neol.adapt(network(rule="none"), Paid, lives=np.int64(2), change="action gain=0.5 from=20")
    assert found.changed == 2
    assert found.before == pytest.approx([0.5] * 3) and found.after == pytest.approx([0.25] * 3)


def test_what_no_window_shows_is_unknown_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    found = neol.adapt(network(rule="none"), Paid, lives=6, change="action gain=0.5 from=1")
    assert found.window > 1 and np.isnan(found.before).all() and found.after == pytest.approx([0.25] * 3)
    _print(found)
    assert capsys.readouterr().out.count("unknown") == 6  # before, and when it was regained


def test_a_twin_that_dies_before_the_change_earns_nothing_after_it() -> None:
    alive, dead = _Lived(np.ones(40), 20, [40.0]), _Lived(np.ones(10), -1, [10.0])
    found = _summed([[alive] * 6, [alive] * 6, [alive, alive, dead, dead, dead, dead]])
    assert found.after == pytest.approx([1.0, 1.0, 1.0 / 3.0])


@pytest.mark.parametrize("lives", [0, -3, 2.5, True, 10**7, "many"])
def test_a_number_of_lives_that_is_none_is_refused_by_its_name(lives: Any) -> None:
    with pytest.raises(NeolError, match=r"^lives = .* is not allowed; it must be "):
        neol.adapt(network(rule="none"), Paid, lives=lives)


def test_the_command_prints_a_table_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = neol.train("tmaze", out=tmp_path / "run", pop_size=8, elitism=1, generations=2, champion_candidates=2,
                     champion_trials=2, champion_episodes=2, progress=False)  # fmt: skip
    words = ["adapt", str(run.path), "--lives", "6"]
    assert main([*words, "--out", str(tmp_path / "a.svg"), "--film", str(tmp_path / "twins.gif")]) == 0
    printed = capsys.readouterr().out
    assert "6 of 6 lives changed" in printed and "frozen" in printed
    assert "since the world changed" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with Image.open(tmp_path / "twins.gif") as film:
        assert film.n_frames == 72 and film.size == (404, 169)  # 3 s before the change and 6 s after it, 8 a second
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["changed"] == 6 and set(facts) >= {"learning", "frozen", "static", "since", "window"}


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.json"
    file.write_text(json.dumps(document()), encoding="utf-8")
    cases = {
        ("--lives", "0"): "lives = 0 is not allowed",
        (): "does not say which task",
        ("--out", str(tmp_path / "a.gif")): ".svg or .png",
        ("--film", str(tmp_path / "a.svg")): ".mp4 or .gif",
    }
    for words, said in cases.items():
        assert main(["adapt", str(file), *words]) == 2
        error = capsys.readouterr().err.strip()
        assert said in error and "\n" not in error
    assert not (tmp_path / "a.gif").exists()


def test_a_film_of_what_does_not_change_or_has_no_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(neol.NeolError, match="cannot film it: the world did not change"):
        neol.adapt(network(), Paid, lives=2, film=tmp_path / "a.gif")
    with pytest.raises(neol.NeolError, match="picture|render"):
        neol.adapt(network(), Turning, lives=2, film=tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []
