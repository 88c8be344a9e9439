"""The theory lab's experiments: bounds, slopes, files and figures, through the library and the command line."""

from __future__ import annotations

import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import assert_near
from regret_oracle import best_with_switches

from neol.cli import main as cli
from neol.errors import NeolError
from neol.outer.selectors import best_switching
from neol.theory.figures import short
from neol.theory.regret import KINDS, curve_points, experiment, horizons, measure, slope, summary
from neol.theory.synthetic import Setting

RULES = ("hebb", "oja", "bcm")


def neol_(*arguments: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(a) for a in arguments])
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pool", [1, 2, 16])
@pytest.mark.parametrize("adversary", ["stochastic", "worst-case"])
def test_regret_stays_under_every_bound_at_every_round_and_horizon(rule, pool, adversary):
    for rounds in (1, 2, 100, 1000):
        for seed in range(3):
            o = measure(Setting(rule, rounds, pool, 4, adversary=adversary), seed, curve_points(rounds))
            for kind in KINDS:
                assert (getattr(o, kind) <= getattr(o, f"{kind}_bound") + 1e-9).all()
            assert o.slack >= -1e-9


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pool", [2, 16])
def test_the_worst_case_nearly_reaches_the_theorem_with_slope_one_half(rule, pool):
    x = experiment(Setting(rule, 10_000, pool, 4, adversary="worst-case", diameter=0.1), record=False)
    facts = summary(x)
    assert facts["bound_holds"] == {"inner": True, "outer": True, "total": True, "lemma_1_realised": True}
    for kind in KINDS:
        assert 0.93 < facts[f"{kind}_regret"] / facts[f"{kind}_bound"] <= 1.0 + 1e-9
    long = [measure(Setting(rule, t, pool, 4, adversary="worst-case"), 0) for t in (1000, 3162, 10_000, 31_623)]
    for kind in KINDS:
        found = slope([1000, 3162, 10_000, 31_623], np.array([getattr(o, kind)[-1] for o in long]))
        assert 0.45 < found["value"] <= 0.55


def test_the_bounds_at_t_are_the_theorems():
    s = Setting("hebb", 400, 16, 4, constant=2.0, diameter=3.0, reach=0.3)
    o = measure(s, 0)
    assert_near(o.inner_bound, [3.0 * s.update_limit * 20.0])  # D U sqrt T
    assert_near(o.outer_bound, [math.sqrt(200.0 * math.log(16.0))])  # sqrt(T ln M / 2)
    assert_near(o.total_bound, 2.0 * o.inner_bound + o.outer_bound)  # C D U sqrt T + ..
    assert_near(s.constant * s.diameter * s.update_limit, 0.3)


def test_fixed_share_is_held_against_the_best_switching_sequence():
    s = Setting("hebb", 9, 3, 2, adversary="shifting", switches=2)
    kept: list[Any] = []
    o = measure(s, 1, keep=kept.append)
    losses, p = kept[0].losses, kept[0].probabilities
    assert_near(o.outer[-1], (p * losses).sum() - best_with_switches(losses, 2))


def test_exp3_is_held_to_its_bound_in_the_mean_over_seeds():
    x = experiment(Setting("bcm", 2000, 8, 4, "bandit"), seeds=8, record=False)
    facts = summary(x)
    outer = [row[-1].outer[-1] for row in x.outcomes]
    assert_near(facts["outer_regret"], np.mean(outer))
    assert 0.0 < facts["outer_regret"] < facts["outer_bound"]
    assert_near(facts["outer_bound"], math.sqrt(2.0 * 2000 * 8 * math.log(8.0)))
    assert facts["assumptions"]["A6_selector"] == "exp3"


def test_a_slope_is_that_of_the_line_through_the_logarithms():
    rounds = [10, 100, 1000]
    found = slope(rounds, np.array([[3.0 * t**0.5 for t in rounds], [5.0 * t**0.7 for t in rounds]]))
    assert_near(found["value"], 0.6)
    half = 12.706204736432095 * math.sqrt(0.02) / math.sqrt(2.0)  # Student's t with one degree of freedom
    assert_near([found["low"], found["high"]], [0.6 - half, 0.6 + half], 1e-9)
    one = slope(rounds, np.array([2.0, 20.0, 50.0]))
    assert_near(one["value"], (math.log10(50.0) - math.log10(2.0)) / 2.0)
    assert one["low"] < one["value"] < one["high"]
    assert slope(rounds, np.array([1.0, -1.0, 2.0]))["value"] is None
    assert slope([10, 20], np.array([1.0, 2.0]))["value"] is None


def test_horizons_end_with_t():
    assert horizons(100_000) == [100, 316, 1000, 3162, 10_000, 31_623, 100_000]
    assert horizons(5) == [5]
    assert horizons(1) == [1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("regret") / "out"
    code, printed, err = neol_("regret", "synthetic", "--rule=oja", "--rounds=500", "--pool=6", "--dim=3", "--seeds=2",
                               "--adversary=worst-case", "--out", out, "--quiet")  # fmt: skip
    assert (code, err) == (0, "")
    assert "| total |" in printed
    return out


def test_the_files_hold_enough_to_recompute_regret(folder):
    facts = json.loads((folder / "regret.json").read_text())
    with np.load(folder / "regret.npz", allow_pickle=False) as data:
        a = dict(data)
    assert a["losses"].shape == a["probabilities"].shape == a["update_norms"].shape == (500, 6)
    assert a["chosen"].shape == (500,)
    assert_near(a["gamma"], math.sqrt(8.0 * math.log(6.0) / 500.0))
    assert_near(a["eta"], 1.0 / (0.02 * math.sqrt(500.0)))  # D / (U sqrt T), C D U = 0.02
    assert a["diameter"] == 1.0
    spent = (a["probabilities"] * a["losses"]).sum()
    inner = 0.5 * np.linalg.norm(a["drift"], axis=1) + a["surrogate"].sum(axis=0)
    outer = spent - a["losses"].sum(axis=0).min()
    total = spent - (a["losses"].sum(axis=0) - a["constant"] * inner).min()
    for kind, value in zip(KINDS, (inner.max(), outer, total), strict=True):
        assert_near(a[f"curve_{kind}"][0, -1], value, 1e-9)
        assert_near(a[f"curve_{kind}"][:, -1].mean(), facts[f"{kind}_regret"], 1e-9)
        assert facts[f"{kind}_regret"] <= facts[f"{kind}_bound"]
    assert np.array_equal(a["losses"][np.arange(500), a["chosen"]].shape, (500,))
    assert_near(a["probabilities"].sum(axis=1), np.ones(500))
    assert facts["slope"]["low"] <= facts["slope"]["value"] <= facts["slope"]["high"]
    assert facts["assumptions"]["A5_constant"] == 1.0


def test_the_folder_has_the_figures_and_the_section_for_reports(folder):
    for name in ("regret.png", "regret-loglog.png", "regret-average.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    text = (folder / "regret.md").read_text()
    assert text.startswith("## Regret: synthetic, worst-case, full feedback, rule oja")
    assert "Exponent of T" in text


def test_axes_have_short_numbers():
    assert [short(v) for v in (0.0, 0.05, 2.0, 150.0, 1500.0, 2e4, 1.5e5, 1e6, 1e10)] == [
        "0", "0.05", "2", "150", "1,500", "20k", "150k", "1M", "10G",
    ]  # fmt: skip


def test_the_same_command_writes_the_same_bytes(folder, tmp_path):
    arguments = ("regret", "synthetic", "--rule=oja", "--rounds=500", "--pool=6", "--dim=3", "--seeds=2",
                 "--adversary=worst-case", "--quiet", "--json", "--out")  # fmt: skip
    code, printed, _ = neol_(*arguments, tmp_path / "again")
    assert code == 0
    for name in ("regret.json", "regret.md", "regret.png", "regret-loglog.png", "regret-average.png"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name
    assert json.loads(printed) == json.loads((folder / "regret.json").read_text())
    with np.load(folder / "regret.npz") as a, np.load(tmp_path / "again" / "regret.npz") as b:
        assert all(np.array_equal(a[k], b[k]) for k in a.files)
    assert neol_(*arguments, tmp_path / "again")[0] == 0  # an earlier result is replaced


def test_best_switching_with_no_switch_is_the_best_architecture():
    losses = np.abs(np.cos(np.arange(60.0))).reshape(20, 3)
    best = np.zeros((1, 3))
    best_switching(best, losses)
    assert_near(best[0], losses.sum(axis=0))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--rounds=0"], "rounds = 0 is not allowed; it must be a whole number from 1 to"),
        (["--pool=0"], "pool = 0 is not allowed; it must be a whole number from 1 to"),
        (["--dim=-1"], "dim = -1 is not allowed"),
        (["--seeds=0"], "seeds = 0 is not allowed; it must be a whole number from 1 to"),
        (["--seed=-1"], "seed = -1 is not allowed"),
        (["--rounds=ten"], "invalid int value: 'ten'"),
        (["--rule=hep"], "rule = 'hep' is not allowed; did you mean 'hebb'?"),
        (["--adversary=nice"], "adversary = 'nice' is not allowed"),
        (["--feedback=half"], "feedback = 'half' is not allowed"),
        (["--rounds=10000000", "--pool=1000"], "rounds x pool = 10,000,000,000 is too much to record"),
        (["--ruel=hebb"], "unknown option '--ruel'; did you mean '--rule'?"),
    ],
)
def test_bad_input_is_one_sentence_with_exit_code_2_and_writes_nothing(arguments, named, tmp_path):
    code, out, err = neol_("regret", "synthetic", "--out", tmp_path / "x", *arguments)
    assert code == 2
    assert named in err
    assert (out, err.count("\n")) == ("", 1)
    assert "Traceback" not in err
    assert not (tmp_path / "x").exists()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    code, _, err = neol_("regret", "synthetic", "--out", tmp_path)
    assert code == 2
    assert "is not empty and holds no regret.json; give another --out." in err
    assert [f.name for f in tmp_path.iterdir()] == ["notes.txt"]


def test_what_is_missing_is_named(tmp_path):
    assert "the following arguments are required: --out" in neol_("regret", "synthetic")[2]
    assert "the following arguments are required" in neol_("regret")[2]
    with pytest.raises(NeolError, match="too much to record"):
        experiment(Setting(rounds=10**7, pool=100))
