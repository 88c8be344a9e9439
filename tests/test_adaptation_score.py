"""Adaptation scores: by hand, and as a section of the report of a study whose arms have roles."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import neol
from neol.cli.main import main
from neol.errors import NeolError
from neol.report.adaptation import HELD_OUT_WORLD, MET, adapted, verdict
from neol.stats import adaptation_score
from neol.studies.plan import parse_plan

STUDY = """
[study]
title = "roles"
tasks = ["motors-1"]
seeds = 3
[budget]
generations = 2
[base]
pop_size = 8
elitism = 1
episodes = 2
champion_candidates = 2
champion_trials = 2
champion_episodes = 4
env_kwargs = ["targets=5"]
inheritance = "darwinian"
test_change = ["action gain=0.5", "action invert p=0.5 each"]
[[arm]]
name = "static"
rule = "none"
role = "control"
[[arm]]
name = "specialist"
rule = "none"
role = "control"
change = []
test_change = ["action invert p=0.5 each"]
[[arm]]
name = "hebb"
rule = "hebb"
reward_scale = 1.0
role = "plastic"
[[arm]]
name = "told"
rule = "none"
senses = ["world"]
test_change = []
role = "oracle"
[[arm]]
name = "oja"
rule = "oja"
reward_scale = 1.0
role = "plastic"
[[arm]]
name = "home"
rule = "none"
role = "oracle"
change = []
test_change = ["action invert p=0.5 each"]
"""


def test_a_score_is_the_part_of_the_way_from_the_best_control_to_the_oracle() -> None:
    found = adaptation_score([5.0, 7.0], [[1.0, 3.0], [4.0, 4.0]], [8.0, 8.0], 0)
    assert found is not None and found.estimate == pytest.approx((6.0 - 4.0) / (8.0 - 4.0))
    assert found.low == pytest.approx(0.25) and found.high == pytest.approx(0.75)  # arm 5 to 7, the others constant


def test_the_best_control_is_chosen_anew_in_every_resample() -> None:
    a, b = [0.0, 4.0], [1.5, 1.5]  # means 2 and 1.5; of resamples 0, 2 or 4, with 1/4, 1/2 and 1/4
    found = adaptation_score([10.0, 10.0], [a, b], [10.0, 10.0], 0)
    assert found is not None and (found.low, found.high) == (1.0, 1.0)
    lower = adaptation_score([6.0, 6.0], [a, b], [10.0, 10.0], 0)
    assert lower is not None and lower.estimate == pytest.approx(4.0 / 8.0)
    assert lower.low == pytest.approx(2.0 / 6.0) and lower.high == pytest.approx(4.5 / 8.5)


def test_without_a_better_oracle_there_is_no_score() -> None:
    assert adaptation_score([5.0, 6.0], [[4.0, 4.0]], [4.0, 4.0], 0) is None
    assert adaptation_score([5.0, 6.0], [], [9.0, 9.0], 0) is None
    assert adaptation_score([], [[4.0]], [9.0], 0) is None
    alone = adaptation_score([5.0], [[4.0]], [8.0], 0)
    assert alone is not None and alone == (0.25, None, None)
    doubtful = adaptation_score([5.0, 6.0], [[4.0, 4.0]], [3.0, 6.0], 0)  # a quarter of the resamples has no oracle
    assert doubtful is not None and doubtful.low is None and doubtful.estimate == pytest.approx(3.0)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roles")
    (folder / "study.toml").write_text(STUDY)
    assert main(["study", "run", str(folder / "study.toml"), "--out", str(folder / "s"), "--quiet", "--jobs", "1"]) == 0
    return folder / "s"


def test_arms_are_compared_in_the_worlds_that_they_were_measured_in(study: Path) -> None:
    found = neol.Study(study)
    assert found.roles == {
        "static": "control", "specialist": "control", "hebb": "plastic", "hebb-control": "control", "told": "oracle",
        "oja": "plastic", "oja-control": "control", "home": "oracle",
    }  # fmt: skip
    met, new = adapted(found)
    assert (met.what, new.what) == (MET, HELD_OUT_WORLD)
    without = {"static", "hebb", "hebb-control", "oja"}  # oja's control is the same run as hebb's
    assert set(met.returns) == {*without, "specialist", "told", "home"} and met.oracle in ("told", "home")
    assert set(new.returns) == {*without, "home"} and new.oracle == "home"
    rows = {(r.arm, r.seed): r for r in found.rows}
    assert met.returns["specialist"].tolist() == [rows["specialist", s].tested for s in range(3)]
    assert met.returns["hebb"].tolist() == [rows["hebb", s].held_out for s in range(3)]
    assert new.returns["hebb"].tolist() == [rows["hebb", s].tested for s in range(3)]
    assert met.returns["home"].tolist() == [rows["specialist", s].held_out for s in range(3)]  # where it was trained
    controls = ("static", "specialist", "hebb-control")
    assert {(c.arm, c.against) for c in met.tests} == {(a, c) for a in ("hebb", "oja") for c in controls}
    means = {a: float(v.mean()) for a, v in met.returns.items()}
    assert met.best_control == max(("static", "specialist", "hebb-control"), key=means.__getitem__)
    assert verdict(met, "hebb") == "too few seeds to tell"


def test_the_report_has_a_section_a_table_and_a_picture_for_each_world(study: Path) -> None:
    assert main(["report", str(study), "--quiet"]) == 0
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "Does learning in life pay?" in page and MET in page and HELD_OUT_WORLD in page
    for number in (0, 1):
        assert (study / "report" / "figures" / f"adaptation-motors-1-{number}.svg").stat().st_size > 5_000
    with (study / "report" / "adaptation.csv").open() as file:
        rows = list(csv.DictReader(file))
    means = {a: float(v.mean()) for a, v in adapted(neol.Study(study))[0].returns.items()}
    assert [r["arm"] for r in rows] == ["hebb", "oja", "hebb", "oja"]
    told = max(means["told"], means["home"])
    shown = (float(rows[0]["return"]), float(rows[0]["oracle's return"]))
    assert shown == pytest.approx((means["hebb"], told), abs=0.051)
    best = max(means[a] for a in ("static", "specialist", "hebb-control"))
    score = rows[0]["adaptation score (95 %)"]
    expected = (means["hebb"] - best) / (told - best)
    assert told > best and float(score.split()[0]) == pytest.approx(expected, abs=0.0051)
    assert "best control" in (study / "report" / "verdicts.txt").read_text(encoding="utf-8")


def test_a_clear_winner_beats_every_control_after_holm() -> None:
    from neol.report.adaptation import _adapted

    rng = np.random.default_rng(0)
    returns = {"told": rng.normal(10.0, 0.1, 10), "learns": rng.normal(8.0, 0.1, 10), "a": rng.normal(1.0, 0.1, 10)}
    returns["b"] = rng.normal(7.9, 2.0, 10)
    roles = {"oracle": ["told"], "plastic": ["learns"], "control": ["a"]}
    clear = _adapted("t", (), MET, returns, roles, 0)
    assert verdict(clear, "learns").startswith("beats every control (p <= ")
    close = _adapted("t", (), MET, returns, {**roles, "control": ["a", "b"]}, 0)
    assert verdict(close, "learns") == "beats 1 of 2 controls"


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(NeolError, match="role = 'judge' is not allowed"):
        parse_plan(STUDY.replace('role = "oracle"', 'role = "judge"'))
