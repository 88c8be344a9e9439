"""PPO and SAC as arms of a study, in its tables and its report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_study import small_study

import neol
from neol.cli.main import main
from neol.errors import NeolError
from neol.report.analysis import analyse, budget
from neol.studies.plan import cells, differences, parse_plan

STUDY = small_study(("neat", "hebb", "ppo", "sac"), "with baselines")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> neol.Study:
    folder = tmp_path_factory.mktemp("baselines")
    (folder / "b.toml").write_text(STUDY)
    assert main(["study", "run", str(folder / "b.toml"), "--out", str(folder / "s"), "--jobs", "1", "--quiet"]) == 0
    return neol.Study(folder / "s")


def test_baselines_are_arms_like_any_other(study: neol.Study) -> None:
    rows = {(r.task, r.arm): r for r in study.finished if r.seed == 1}
    assert set(rows) == {("cartpole", a) for a in ("neat", "hebb", "hebb-control", "ppo")} | {
        ("lunarlander", a) for a in ("neat", "hebb", "hebb-control", "sac")
    }
    assert study.baselines == ["ppo", "sac"]
    ppo, neat = rows["cartpole", "ppo"], rows["cartpole", "neat"]
    assert ppo.env_steps is not None and 3000 <= ppo.env_steps < 6000
    assert ppo.parameters > 1000 > neat.parameters  # a net of thousands, a champion of dozens
    assert ppo.held_out is not None and ppo.wall_seconds is not None and ppo.seconds_per_million > 0
    history = study.history(ppo.run)
    assert history["env_steps"][-1] == ppo.env_steps and len(study.timing(ppo.run)) == len(history["env_steps"])
    assert np.isnan(history["species"]).all()
    assert study.champion(ppo.run) is None


def test_the_report_sets_them_beside_neol(study: neol.Study) -> None:
    analysis = analyse(study)
    assert {(c.arm, c.against) for c in analysis.comparisons["held_out"] if c.task == "cartpole"} == {
        ("hebb", "neat"), ("hebb", "hebb-control"), ("neat", "ppo"), ("hebb", "ppo"),
    }  # fmt: skip
    claims = {(v.claim, v.task, v.arm) for v in analysis.verdicts}
    assert ("baselines", "cartpole", "hebb") in claims and ("baselines", "lunarlander", "neat") in claims
    assert "million steps a run, 2 seeds" in budget(study, "cartpole")
    assert main(["report", str(study.path), "--quiet"]) == 0
    report = study.path / "report"
    page = (report / "index.html").read_text()
    assert "PPO" in page and "parameters" in page and "CPU seconds per million steps" in page
    assert (report / "figures" / "convergence-cartpole-wall-seconds.png").exists()
    assert "algorithm: neol → ppo" in (report / "differences.csv").read_text()


def test_a_killed_study_goes_on_with_its_baselines(study: neol.Study, tmp_path: Path) -> None:
    """What a second, separate study computes is the same to the bit."""
    file = study.path.parent / "b.toml"
    words = ["study", "run", str(file), "--out", str(tmp_path / "s"), "--jobs", "1", "--quiet"]
    assert main([*words, "--arms", "ppo", "--seeds", "1"]) == 0
    again = neol.Study(tmp_path / "s")
    one, other = (next(r for r in s.rows if (r.arm, r.seed) == ("ppo", 0)) for s in (study, again))
    assert (one.key, one.held_out, one.env_steps) == (other.key, other.held_out, other.env_steps)


def test_a_baseline_arm_has_a_budget_in_steps_and_no_control() -> None:
    plan = parse_plan(STUDY)
    found = {(c.task, c.arm): c for c in cells(plan, 0.5) if c.seed == 0}
    assert found["cartpole", "ppo"].config.flat()["max_env_steps"] == 1500
    assert ("cartpole", "ppo-control") not in found and ("cartpole", "sac") not in found
    neat, ppo = found["cartpole", "neat"].config, found["cartpole", "ppo"].config
    assert differences(neat, ppo) == {"algorithm": ("neol", "ppo")}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("max_env_steps = 3000", "", "arm 'ppo' on cartpole: a baseline needs max_env_steps, its budget"),
        ('tasks = ["lunarlander"]', "", "SAC needs continuous actions, and those of 'cartpole' are discrete; use ppo"),
        ('algorithm = "ppo"', 'algorithm = "pop"', "algorithm = 'pop' is not allowed; did you mean 'ppo'"),
        ("max_env_steps = 400", "pop_size = 20", "arm 'sac' has an unknown key 'pop_size'"),
        ('tasks = ["cartpole"]', 'tasks = ["hopper"]', "unknown task 'hopper'"),
    ],
)
def test_a_bad_baseline_arm_is_one_sentence(old: str, new: str, words: str) -> None:
    with pytest.raises(NeolError) as e:
        list(cells(parse_plan(STUDY.replace(old, new, 1))))
    assert words in str(e.value)
