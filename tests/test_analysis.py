"""Verdicts and tables from made-up scores, where the right answer is known."""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import neol
from neol import stats
from neol.cli.main import main
from neol.errors import NeolError
from neol.report import paper
from neol.report.analysis import analyse, budget
from neol.report.panels import CONTROL_LABEL, arms_of
from neol.report.tables import comparisons_table, differences_table, latex, results_table
from neol.report.verdicts import (
    AGAINST_BASELINE,
    AGAINST_CONTROL,
    AGAINST_REFERENCE,
    ALIKE,
    BEST,
    BETTER,
    CONTRADICTED,
    HELD_OUT,
    NOT_SUPPORTED,
    OTHER_BUDGETS,
    PARTLY,
    SUPPORTED,
    TOO_FEW,
    UNDECIDED,
    WORSE,
    Verdict,
)
from neol.studies.database import DATABASE, HISTORY, Database, plan_cells
from neol.studies.plan import parse_plan
from neol.studies.scheduler import choose_cells

PLAN = """
[study]
title = "made up"
tasks = {tasks}
seeds = {seeds}
preset = "paper"
reference = "neat"
[base]
pop_size = 50
generations = 4
[[arm]]
name = "neat"
label = "NEAT"
rule = "none"
[[arm]]
name = "neat-wo"
label = "NEAT (w/o)"
rule = "none"
weight_mutation = "off"
[[arm]]
name = "hebb"
label = "Hebb"
rule = "hebb"
"""
Scores = Mapping[tuple[str, str], np.ndarray]


def made_up(
    folder: Path, scores: Scores, gap: float = 20.0, plan: str = PLAN, best: Scores | None = None
) -> neol.Study:
    """A study whose held-out returns are given by (task, arm); the best fitness too, or it is `gap` above."""
    tasks = list(dict.fromkeys(t for t, _ in scores))
    seeds = max(len(v) for v in scores.values())
    study = parse_plan(plan.format(tasks=json.dumps(tasks), seeds=seeds))
    (folder / "runs").mkdir(parents=True)
    chosen = choose_cells(study, 1.0)
    with Database(folder).writing() as db:
        plan_cells(db, study, chosen, 1.0)
        runs = {c.key: (c.task, c.arm, c.seed) for c in chosen}
        ids = dict(db.execute("SELECT key, run FROM runs").fetchall())
        for key, (task, arm, seed) in runs.items():
            values = scores.get((task, arm), ())
            if seed >= len(values):
                continue
            held = float(values[seed])
            fittest = held + gap if best is None else float(best[task, arm][seed])
            db.execute(
                "UPDATE runs SET status = 'done', generations = 4, env_steps = 1000, best_fitness = ?, "
                "best_return = ?, held_out = ?, champion_nodes = 3, champion_connections = 5, "
                "parameters = 8 WHERE run = ?",
                (fittest, fittest, held, ids[key]),
            )
            rows = [(ids[key], g, 250 * (g + 1), *[fittest] * (len(HISTORY) - 2)) for g in range(4)]
            db.executemany(f"INSERT INTO generations VALUES ({', '.join('?' * (len(HISTORY) + 1))})", rows)
            db.executemany("INSERT INTO timing VALUES (?, ?, ?)", [(ids[key], g, g + 1.0) for g in range(4)])
            for who in ("champion", "champion without plasticity", "best by fitness"):
                db.execute(
                    "INSERT INTO evaluations VALUES (?, ?, 100, ?, ?, ?)", (ids[key], who, held, held - 1, held + 1)
                )
    return neol.Study(folder)


def normal(seed: int, mean: float, n: int = 30, sd: float = 5.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, sd, n)


def verdicts(study: neol.Study, metric: str = BEST) -> dict[tuple[str, str], str]:
    return {(v.claim, v.arm): v.verdict for v in analyse(study).verdicts if v.metric == metric}


def found(study: neol.Study, claim: str, arm: str, metric: str = HELD_OUT) -> Verdict:
    return next(v for v in analyse(study).verdicts if (v.claim, v.arm, v.metric) == (claim, arm, metric))


def says_nan(folder: Path) -> bool:
    texts = [p.read_text() for p in (folder / "report").iterdir() if p.is_file()]
    return any(re.search(r"\bnan\b", re.sub(r"<script>.*</script>", "", t, flags=re.DOTALL), re.I) for t in texts)


def test_a_clear_win_is_supported_a_clear_loss_contradicted_and_a_tie_is_no_difference(tmp_path: Path) -> None:
    scores = {
        ("lunarlander", "neat"): normal(0, 200.0), ("lunarlander", "neat-wo"): normal(1, 240.0),
        ("lunarlander", "hebb"): normal(2, 220.0), ("lunarlander", "hebb-control"): normal(2, 220.0),
    }  # fmt: skip
    study = made_up(tmp_path, scores)
    for metric in (HELD_OUT, BEST):
        said = verdicts(study, metric)
        assert said["higher", "hebb"] == SUPPORTED  # 20 above, SD 5
        assert said["ablation", "hebb"] == CONTRADICTED  # 20 below
        assert said["plasticity", "hebb"] == ALIKE  # the same scores
        assert said["tighter", "hebb"] == ALIKE  # the same spread, 30 seeds
        assert said[AGAINST_REFERENCE, "neat-wo"] == BETTER  # of which the paper claims nothing
    worse = found(study, "ablation", "hebb")
    assert worse.why == "significantly worse, large effect" and "A12 0.0" in worse.numbers


def test_a_difference_of_spread_is_judged_in_its_direction(tmp_path: Path) -> None:
    tight, wide = normal(0, 200.0, sd=2.0), normal(1, 200.0, sd=30.0)
    for i, (neat, hebb, verdict) in enumerate([(wide, tight, SUPPORTED), (tight, wide, CONTRADICTED)]):
        scores = {("hopper", "neat"): neat, ("hopper", "hebb"): hebb, ("hopper", "hebb-control"): hebb}
        assert verdicts(made_up(tmp_path / str(i), scores))["tighter", "hebb"] == verdict


def test_an_undecided_spread_says_what_its_runs_exclude(tmp_path: Path) -> None:
    hebb = normal(1, 200.0, n=10)
    scores = {("hopper", "neat"): normal(0, 200.0, n=10), ("hopper", "hebb"): hebb, ("hopper", "hebb-control"): hebb}
    said = found(made_up(tmp_path, scores), "tighter", "hebb")
    assert said.verdict == UNDECIDED
    told = re.search(
        r"10 .* is (\S+) times the other's, exclude less than (\S+) and more than (\S+): (.*) is left",
        said.why,
    )
    assert told is not None
    estimate, low, high = map(float, told.groups()[:3])
    assert low < 0.6 < estimate < 1.5 < high
    open_ends = {"half as large or less": low <= 0.5, "twice as large or more": high >= 2.0}
    assert told[4] == " or ".join(end for end, is_open in open_ends.items() if is_open)


def test_one_very_bad_run_does_not_turn_the_verdict_on_spread_against_its_own_test(tmp_path: Path) -> None:
    """Its distances from the median are shorter, which is what the test finds; its SD is longer for that one run."""
    wide, tight = 200.0 + 30.0 * np.tile([-1.0, 1.0], 15), 200.0 + np.linspace(-1.0, 1.0, 30)
    tight[0] = -50.0
    for neat, hebb, verdict in ((wide, tight, SUPPORTED), (tight, wide, CONTRADICTED)):
        scores = {("lunarlander", "neat"): neat, ("lunarlander", "hebb"): hebb}
        said = found(made_up(tmp_path / verdict, scores), "tighter", "hebb")
        leaning = "tighter" if verdict == SUPPORTED else "wider"
        assert said.verdict == verdict
        assert said.why == f"significantly {leaning}, but the SDs point the other way"


def test_spreads_that_cannot_be_tested_say_why(tmp_path: Path) -> None:
    """Two distances from the median in all, one per arm: Brown and Forsythe's test divides by their variance."""
    scores = {("lunarlander", "neat"): np.array([0.0, 0, 0, 9, 9, 9]), ("lunarlander", "hebb"): np.full(6, 5.0)}
    said = found(made_up(tmp_path, scores), "tighter", "hebb")
    assert said.verdict == TOO_FEW and said.why.endswith("nothing to test by; these are tighter")


def test_metrics_that_disagree_have_verdicts_of_their_own_the_held_out_one_first(tmp_path: Path) -> None:
    arms = ("neat", "hebb", "hebb-control")
    low, high = normal(0, 100.0), normal(1, 200.0)
    held = dict(zip([("lunarlander", a) for a in arms], (low, high, low), strict=True))
    best = dict(zip([("lunarlander", a) for a in arms], (high, low, high), strict=True))
    said = [v for v in analyse(made_up(tmp_path, held, best=best)).verdicts if v.claim == "plasticity"]
    assert [(v.metric, v.verdict) for v in said] == [(HELD_OUT, SUPPORTED), (BEST, CONTRADICTED)]
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    card = page[page.index("It is plasticity that does it") :]
    assert card.index("supported") < card.index("contradicted")
    text = (tmp_path / "report" / "verdicts.txt").read_text()
    assert "  held-out return\n    supported, 1 of 1: lunarlander: Hebb\n  final best fitness\n    contradicted" in text


def test_five_runs_that_all_lose_are_worse_not_undecided(tmp_path: Path) -> None:
    """As PPO, ahead of four arms by 57 points with A12 0.00: 4 x 2 / 252 after Holm."""
    plan = PLAN + '[[arm]]\nname = "ppo"\nlabel = "PPO"\nalgorithm = "ppo"\nmax_env_steps = 1000\n'
    arms = ("neat", "neat-wo", "hebb", "ppo")
    scores = {("lunarlander", a): normal(i, 212.0, 5) + 57.0 * (a == "ppo") for i, a in enumerate(arms)}
    study = made_up(tmp_path, scores, plan=plan)
    lost = [v for v in analyse(study).verdicts if v.claim == "baselines"]
    assert len(lost) == 6 and {v.verdict for v in lost} == {CONTRADICTED}
    assert all("A12 0.00 (0.00 to 0.36), p = 0.024, 5 and 5 runs" in v.numbers for v in lost)
    assert all(v.why.startswith("significantly worse, large effect; budgets: 0.001 and 0.001") for v in lost)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_runs_for_any_test_say_so_and_where_they_point(tmp_path: Path, n: int) -> None:
    arms = ("neat", "neat-wo", "hebb", "hebb-control")
    scores = {("hopper", a): 1000.0 * i + np.arange(n) for i, a in enumerate(arms)}
    study = made_up(tmp_path, scores)
    assert set(verdicts(study).values()) == set(verdicts(study, HELD_OUT).values()) == {TOO_FEW}
    up, down = found(study, "ablation", "hebb"), found(study, "plasticity", "hebb")
    least = ["1", "0.33", "0.1"][n - 1]
    assert f"complete separation would have p = {least};" in up.why
    assert up.why.endswith("the numbers point to better") and down.why.endswith("the numbers point to worse")
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    assert not says_nan(tmp_path)


def test_four_runs_are_enough_for_one_question_and_too_few_for_two_at_once(tmp_path: Path) -> None:
    arms = ("neat", "neat-wo", "hebb", "hebb-control")
    said = verdicts(made_up(tmp_path, {("hopper", a): 1000.0 * i + np.arange(4) for i, a in enumerate(arms)}))
    assert said["plasticity", "hebb"] == CONTRADICTED  # one comparison with a control: p = 2 / 70
    assert said["higher", "hebb"] == said[AGAINST_REFERENCE, "neat-wo"] == TOO_FEW  # two with NEAT: twice that


def test_what_is_not_significant_but_not_excluded_either_is_undecided_and_says_what_is_open(tmp_path: Path) -> None:
    scores = {
        ("lunarlander", "neat"): np.arange(5.0), ("lunarlander", "neat-wo"): np.arange(5.0) + 0.5,
        ("lunarlander", "hebb"): np.arange(5.0) + 2.2, ("lunarlander", "hebb-control"): np.arange(5.0) + 0.1,
    }  # fmt: skip
    study = made_up(tmp_path, scores)
    said = found(study, "plasticity", "hebb")
    assert said.verdict == UNDECIDED and "the numbers point to better" in said.why
    assert "a large disadvantage is excluded, a large advantage is not" in said.why
    left_open = found(study, AGAINST_REFERENCE, "neat-wo").why
    assert "large effects either way are left open" in left_open and "exclude A12 below" in left_open


@pytest.mark.parametrize(("task", "rule"), [(t, r) for t, by_rule in paper.RANK_SUM.items() for r in by_rule])
def test_the_papers_effect_is_the_one_that_has_its_p_in_scipys_rank_sum_test(task: str, rule: str) -> None:
    effect = paper.effect(task, rule)
    assert effect is not None
    wins = np.diff(np.linspace(0, effect * 900, 31).astype(int))  # of 30 runs of the rule over 30 of NEAT
    x = np.clip(wins, 0, 30) - 0.5 + np.linspace(0.0, 0.4, 30)  # run i is above wins[i] of NEAT's 0 to 29
    found = mannwhitneyu(x, np.arange(30.0), alternative="greater", method="asymptotic", use_continuity=False)
    assert found.statistic == pytest.approx(effect * 900, abs=1)
    assert found.pvalue == pytest.approx(paper.RANK_SUM[task][rule], rel=0.1)  # a rank more or less


def test_an_undecided_claim_is_not_supported_where_large_effects_and_the_papers_are_excluded(tmp_path: Path) -> None:
    """Ten runs a side exclude A12 above 0.69 here; the paper has 0.92 (lander) and 0.64 (hopper), large is 0.71."""
    x = np.arange(10.0)
    for task, verdict, told in (("lunarlander", NOT_SUPPORTED, "0.92, is"), ("hopper", UNDECIDED, "0.64, is not")):
        scores = {(task, a): x - 0.5 * (a == "hebb") for a in ("neat", "neat-wo", "hebb", "hebb-control")}
        study = made_up(tmp_path / task, scores)
        for claim in ("higher", "plasticity"):
            said = found(study, claim, "hebb")
            assert (said.claim, said.verdict) == (claim, verdict)
            assert said.why.endswith(f"the paper's gain over NEAT in best fitness, A12 {told} excluded")
        assert found(study, AGAINST_REFERENCE, "neat-wo").verdict == UNDECIDED  # no claim of the paper


def test_a_claim_whose_large_effect_in_the_paper_is_excluded_stays_undecided_while_a_large_one_is_open(
    tmp_path: Path,
) -> None:
    x = np.arange(10.0)
    scores = {("lunarlander", a): x for a in ("neat", "hebb", "hebb-control")}  # A12 0.5 (0.27 to 0.73)
    said = found(made_up(tmp_path, scores), "higher", "hebb")
    assert said.verdict == UNDECIDED and said.why.endswith("A12 0.92, is excluded")


def test_large_effects_excluded_either_way_are_no_difference_only_where_the_papers_is_excluded_too(
    tmp_path: Path,
) -> None:
    """Fourteen equal runs a side: A12 0.50 (0.30 to 0.70); the paper has 0.92 on the lander, 0.64 on the hopper."""
    x = np.arange(14.0)
    for task, verdict in (("lunarlander", ALIKE), ("hopper", UNDECIDED)):
        study = made_up(tmp_path / task, {(task, a): x for a in ("neat", "hebb", "hebb-control")})
        for claim in ("higher", "plasticity"):
            assert found(study, claim, "hebb").verdict == verdict


def test_a_claim_without_a_p_in_the_paper_is_not_supported_where_a_large_effect_is_excluded(tmp_path: Path) -> None:
    x = np.arange(10.0)
    scores = {("hopper", "neat"): x, ("hopper", "neat-wo"): x + 1.2, ("hopper", "hebb"): x}
    study = made_up(tmp_path, scores)
    said = found(study, "ablation", "hebb")
    assert said.verdict == NOT_SUPPORTED and "a large advantage is excluded" in said.why
    assert "the paper's gain" not in said.why
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    assert "not supported, 1 of 1: hopper: Hebb" in (tmp_path / "report" / "verdicts.txt").read_text()


def test_a_tighter_spread_is_not_supported_where_the_papers_own_ratio_is_excluded(tmp_path: Path) -> None:
    """SD ratios of its table for Hebb: 0.45 on the lander, 0.96 on the hopper."""
    x = normal(0, 200.0, n=14)
    for task, verdict, told in (("lunarlander", NOT_SUPPORTED, "0.45, is"), ("hopper", UNDECIDED, "0.96, is not")):
        scores = {(task, a): v for a, v in (("neat", x), ("hebb", 200.0 + 1.05 * (x - 200.0)))}
        said = found(made_up(tmp_path / task, scores), "tighter", "hebb")
        assert said.verdict == verdict and f"the paper's ratio of SDs, {told} excluded" in said.why


def test_a_spread_so_tight_that_the_papers_wider_one_is_excluded_says_so(tmp_path: Path) -> None:
    """Hebb's SD on the hopper is 0.96 of NEAT's in the paper; five runs that hardly spread exclude that from below."""
    scores = {("hopper", "neat"): np.array([1.0, 50, 51, 52, 53]), ("hopper", "hebb"): 51.0 + np.arange(5) / 100}
    said = found(made_up(tmp_path, scores), "tighter", "hebb")
    assert (
        said.verdict == UNDECIDED
        and "half as large or less is left open; the paper's ratio of SDs, 0.96, is excluded" in said.why
    )


def test_runs_that_crash_in_one_arm_alone_are_told_where_ranks_hardly_differ(tmp_path: Path) -> None:
    """Six of thirty crash: the mean falls for certain; of all pairs the others still win their half."""
    neat, hebb = np.arange(30.0) + 200.0, np.arange(30.0) + 203.0
    hebb[:6] = -300.0
    said = found(made_up(tmp_path, {("lunarlander", "neat"): neat, ("lunarlander", "hebb"): hebb}), "higher", "hebb")
    assert said.verdict == ALIKE
    assert "large effect is excluded either way, though the interval of the means' difference excludes 0" in said.why
    same = found(made_up(tmp_path / "b", {("lunarlander", a): neat for a in ("neat", "hebb")}), "higher", "hebb")
    assert same.verdict == ALIKE and "excludes 0" not in same.why


def test_a_few_runs_that_lift_the_mean_alone_are_told_beside_the_test_that_misses_them(tmp_path: Path) -> None:
    neat, hebb = np.arange(10.0), np.arange(10.0)
    hebb[6:] += 100.0
    said = found(made_up(tmp_path, {("lunarlander", "neat"): neat, ("lunarlander", "hebb"): hebb}), "higher", "hebb")
    assert said.verdict == UNDECIDED and "the numbers point to better" in said.why
    assert said.why.startswith("not significant, though the interval of the means' difference excludes 0; 10 and 10")


def test_one_very_bad_run_that_turns_the_mean_is_told(tmp_path: Path) -> None:
    hebb = np.arange(30.0) + 100.0
    hebb[0] = -1e4
    scores = {("lunarlander", "neat"): np.arange(30.0), ("lunarlander", "hebb"): hebb}
    said = found(made_up(tmp_path, scores), "higher", "hebb")
    assert said.verdict == SUPPORTED and said.why.endswith("but the means point the other way")


OWN = """
[study]
tasks = {tasks}
seeds = {seeds}
reference = "plain"
[base]
pop_size = 50
[[arm]]
name = "plain"
rule = "none"
[[arm]]
name = "big"
rule = "none"
pop_size = 60
[[arm]]
name = "learner"
label = "Learner"
rule = "oja"
"""


def test_a_study_without_the_papers_arms_has_verdicts_of_its_own(tmp_path: Path) -> None:
    task = "Acrobot-v1"
    scores = {
        (task, "plain"): normal(0, 100.0), (task, "big"): normal(1, 80.0), (task, "learner"): normal(2, 120.0),
        (task, "learner-control"): normal(2, 120.0),
    }  # fmt: skip
    study = made_up(tmp_path, scores, plan=OWN)
    for metric in (HELD_OUT, BEST):
        assert verdicts(study, metric) == {
            (AGAINST_REFERENCE, "big"): WORSE,
            (AGAINST_REFERENCE, "learner"): BETTER,
            (AGAINST_CONTROL, "learner"): ALIKE,
        }
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    page, text = ((tmp_path / "report" / f).read_text() for f in ("index.html", "verdicts.txt"))
    assert "What this study shows" in page and "the paper claims" not in page
    assert "Each arm against plain.\n  held-out return\n    better, 1 of 2: Acrobot-v1: Learner" in text


def test_arms_on_other_tasks_are_set_beside_baselines_too(tmp_path: Path) -> None:
    plan = OWN + '[[arm]]\nname = "ppo"\nalgorithm = "ppo"\nmax_env_steps = 1000\n'
    scores = {("hopper", a): normal(i, 50.0 * i) for i, a in enumerate(("plain", "big", "learner", "ppo"))}
    said = verdicts(made_up(tmp_path, scores, plan=plan))
    assert {k: v for k, v in said.items() if k[0] == AGAINST_BASELINE} == {
        (AGAINST_BASELINE, a): WORSE for a in ("plain", "big", "learner")
    }


def test_a_study_that_compares_nothing_says_why(tmp_path: Path) -> None:
    plan = OWN.replace('reference = "plain"', "control = false")
    study = made_up(tmp_path, {("Acrobot-v1", a): np.arange(3.0) for a in ("plain", "learner")}, plan=plan)
    assert analyse(study).verdicts == []
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    words = "No arm of this study is compared with another: it names no reference, and no arm has a matched control."
    assert words in (tmp_path / "report" / "index.html").read_text()
    assert (tmp_path / "report" / "verdicts.txt").read_text() == words + "\n"


def test_all_at_the_ceiling_is_a_tie_with_defined_numbers(tmp_path: Path) -> None:
    arms = ("neat", "neat-wo", "hebb", "hebb-control")
    study = made_up(tmp_path, {("cartpole", a): np.full(30, 500.0) for a in arms}, gap=0.0)
    analysis = analyse(study)
    assert {v.verdict for v in analysis.verdicts if v.claim == "ceiling"} == {SUPPORTED}
    assert {v.claim for v in analysis.verdicts} == {"ceiling", AGAINST_CONTROL, AGAINST_REFERENCE}  # the paper: a tie
    assert {v.verdict for v in analysis.verdicts if v.claim != "ceiling"} == {ALIKE}
    plastic = next(c for c in analysis.comparisons["held_out"] if c.against == "hebb-control")
    assert plastic.p == plastic.p_holm == 1.0 and plastic.a12 is not None and plastic.a12.estimate == 0.5
    assert plastic.variance is not None and plastic.variance.p == 1.0
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    assert not says_nan(tmp_path)


def test_a_ceiling_that_some_runs_miss_is_partly_supported_and_one_that_all_miss_is_contradicted(
    tmp_path: Path,
) -> None:
    scores = {("cartpole", "neat"): np.array([500.0] * 9 + [499.6]), ("cartpole", "hebb"): np.full(10, 499.0)}
    study = made_up(tmp_path, scores, gap=1.0)
    assert found(study, "ceiling", "neat").verdict == PARTLY
    assert found(study, "ceiling", "neat").numbers == "9 of 10 runs at 500, the lowest 499.60"
    assert found(study, "ceiling", "hebb").verdict == CONTRADICTED
    assert found(study, "ceiling", "hebb", BEST).verdict == SUPPORTED


def test_missing_runs_shrink_a_sample_and_a_missing_arm_is_left_out(tmp_path: Path) -> None:
    scores = {("hopper", "neat"): normal(0, 5.0, 30), ("hopper", "hebb"): normal(1, 5.0, 7)}
    study = made_up(tmp_path, scores)
    analysis = analyse(study)
    assert [(x.arm, x.held_out.n) for x in analysis.lines] == [("neat", 30), ("hebb", 7)]
    assert [(c.arm, c.against, c.n, c.n_against) for c in analysis.comparisons["held_out"]] == [("hebb", "neat", 7, 30)]
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "runs of this study have not finished" in page and "This is an early look" in page
    assert "take the number of seeds as fixed beforehand" in page


def test_a_study_with_no_finished_run_has_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up(tmp_path, {("hopper", "neat"): np.empty(0), ("lunarlander", "neat"): np.empty(0)} | _one())
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        db.execute("UPDATE runs SET status = 'waiting', held_out = NULL")
        db.commit()
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"neol: '{tmp_path}' has no finished run yet; there is nothing to report.\n"
    assert not (tmp_path / "report").exists()


def _one() -> dict[tuple[str, str], np.ndarray]:
    return {("cartpole", "neat"): np.ones(1)}


def test_holms_family_is_all_answers_to_one_question_on_a_task(tmp_path: Path) -> None:
    scores = {("hopper", a): normal(i, 10.0 * i, 10) for i, a in enumerate(("neat", "neat-wo", "hebb", "hebb-control"))}
    compared = analyse(made_up(tmp_path, scores)).comparisons["best_return"]
    pairs = [(c.arm, c.against) for c in compared]
    assert pairs == [("neat-wo", "neat"), ("hebb", "neat"), ("hebb", "hebb-control")]
    assert [c.p_holm for c in compared[:2]] == stats.holm([c.p for c in compared[:2]])
    assert compared[2].p_holm == compared[2].p


def test_the_winners_curse_gap_is_a_column_of_its_own(tmp_path: Path) -> None:
    study = made_up(tmp_path, {("hopper", "neat"): np.array([1.0, 2.0, 6.0])}, gap=7.5)
    line = analyse(study).lines[0]
    assert line.gap.mean == 7.5 and line.best.mean == 10.5 and line.held_out.mean == 3.0
    table = results_table(analyse(study))
    assert table.rows[0][table.columns.index("winner's-curse gap")] == ("7.5", 7.5)


def test_the_papers_figures_stand_beside_ours(tmp_path: Path) -> None:
    scores = {("lunarlander", a): normal(i, 200.0) for i, a in enumerate(("neat", "neat-wo", "hebb", "hebb-control"))}
    study = made_up(tmp_path, scores)
    analysis = analyse(study)
    table = results_table(analysis)
    reported = {row[1][0]: row[-1][0] for row in table.rows}
    assert reported == {"NEAT": "311.8 ± 8.2", "NEAT (w/o)": "312.5 ± 9.0", "Hebb": "323.4 ± 3.7", "Hebb, lr = 0": "–"}
    tests = comparisons_table(study, analysis, "best_return")
    assert [row[-1][0] for row in tests.rows if row[1][0] == "Hebb"] == ["1.6e-08", "–"]
    tex = latex(study, analysis)
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    assert r"NEAT (w/o)" in tex and r"$1.61 \times 10^{-8}$" in tex


def test_latex_marks_the_best_of_each_row(tmp_path: Path) -> None:
    scores = {("hopper", "neat"): np.array([1.0, 3.0]), ("hopper", "hebb"): np.array([5.0, 5.0])}
    study = made_up(tmp_path, scores, gap=0.0)
    lines = latex(study, analyse(study)).splitlines()
    first = next(line for line in lines if line.startswith(r"\emph{hopper}"))
    assert first == r"\emph{hopper} & $2.00 \pm 1.41$ & -- & $\mathbf{5.00 \pm 0.00}$ \\"


def test_what_differs_between_arms_is_told(tmp_path: Path) -> None:
    scores = {("hopper", a): np.arange(3.0) for a in ("neat", "neat-wo", "hebb", "hebb-control")}
    table = differences_table(made_up(tmp_path, scores))
    told = {(row[1][0], row[2][0]): row[3][0] for row in table.rows}
    assert told["NEAT", "NEAT (w/o)"] == "weight_mutation: config → off"
    assert told["NEAT", "Hebb"] == (
        "rule: none → hebb; lr: 0 → 0.25; weight_mutate_rate: 0.8 → 0.05; weight_replace_rate: 0.1 → 0.02"
    )
    assert told["Hebb", "Hebb, lr = 0"] == "lr: 0.25 → 0"


def test_the_budget_is_what_was_run(tmp_path: Path) -> None:
    study = made_up(tmp_path, {("hopper", "neat"): np.arange(3.0)})
    assert budget(study, "hopper") == (
        "Hopper-v4: population 50, at most 4 generations: 0.00 to 0.00 million steps a run, 3 seeds"
    )


def test_the_seed_of_the_bootstrap_decides_its_intervals(tmp_path: Path) -> None:
    study = made_up(tmp_path, {("hopper", "neat"): normal(0, 9.0, 12), ("hopper", "hebb"): normal(1, 9.0, 12)})
    one, same, other = (analyse(study, seed).comparisons["held_out"][0].difference for seed in (0, 0, 1))
    assert one == same != other


INHERITANCE = """
[study]
tasks = {tasks}
seeds = {seeds}
control = false
[base]
pop_size = 50
[[arm]]
name = "oja-lamarckian"
rule = "oja"
[[arm]]
name = "oja-darwinian"
rule = "oja"
inheritance = "darwinian"
"""


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (lambda x: x + 30.0, CONTRADICTED),
        (lambda x: x - 30.0, CONTRADICTED),
        (lambda x: x + 1e-9, SUPPORTED),
        (lambda x: x[:4], UNDECIDED),
        (lambda x: x[:1], TOO_FEW),
    ],
)
def test_lamarckian_and_darwinian_are_compared_two_sided(
    tmp_path: Path, other: Callable[[np.ndarray], np.ndarray], verdict: str
) -> None:
    x = normal(0, 200.0, 30)
    scores = {("lunarlander", "oja-lamarckian"): x, ("lunarlander", "oja-darwinian"): other(x)}
    said = analyse(made_up(tmp_path, scores, plan=INHERITANCE)).verdicts
    assert [(v.claim, v.verdict) for v in said] == [("inheritance", verdict)] * 2


def test_damaged_scores_are_refused(tmp_path: Path) -> None:
    study = made_up(tmp_path, {("hopper", "neat"): np.array([1.0, np.inf])})
    with pytest.raises(NeolError):
        analyse(study)
    assert dataclasses.is_dataclass(study.config(1))


def test_thirty_runs_are_enough_to_say_that_nothing_differs(tmp_path: Path) -> None:
    """The paper's 30 seeds, and the 20 of our own study, can exclude a large effect."""
    for n in (20, 30):
        same = normal(0, 200.0, n)
        scores = {("lunarlander", a): same for a in ("neat", "neat-wo", "hebb", "hebb-control")}
        said = verdicts(made_up(tmp_path / str(n), scores))
        assert said["higher", "hebb"] == said["plasticity", "hebb"] == ALIKE


def test_claims_about_neat_need_neat_and_the_papers_tasks(tmp_path: Path) -> None:
    scores = {("lunarlander", "neat"): normal(0, 100.0), ("lunarlander", "hebb"): normal(1, 200.0)}
    other = PLAN.replace('reference = "neat"', 'reference = "hebb"')
    assert not [
        v for v in analyse(made_up(tmp_path / "a", scores, plan=other)).verdicts if v.claim in ("higher", "tighter")
    ]
    off = PLAN.replace('reference = "neat"', 'reference = "neat-wo"')
    made = made_up(tmp_path / "c", {("lunarlander", "neat-wo"): normal(0, 100.0), **scores}, plan=off)
    assert {v.claim for v in analyse(made).verdicts} == {"ablation", AGAINST_REFERENCE}  # not "tighter than NEAT"
    es = PLAN.replace("pop_size = 50", 'pop_size = 50\nouter = "neat-es"')
    control = {**scores, ("lunarlander", "hebb-control"): normal(0, 100.0)}
    assert {v.claim for v in analyse(made_up(tmp_path / "d", control, plan=es)).verdicts} == {
        AGAINST_CONTROL, AGAINST_REFERENCE,
    }  # fmt: skip
    strange = {("Acrobot-v1", a): v for (_, a), v in scores.items()}
    assert verdicts(made_up(tmp_path / "b", strange)) == {(AGAINST_REFERENCE, "hebb"): BETTER}


def test_aggregates_are_over_the_tasks_that_all_arms_have(tmp_path: Path) -> None:
    arms = ("neat", "neat-wo", "hebb", "hebb-control")
    scores = {(t, a): normal(i, 10.0) for t in ("hopper", "lunarlander") for i, a in enumerate(arms)}
    del scores["hopper", "neat-wo"]
    analysis = analyse(made_up(tmp_path, scores))
    only = analyse(made_up(tmp_path / "one", {k: v for k, v in scores.items() if k[0] == "lunarlander"}))
    assert analysis.aggregates == only.aggregates and set(analysis.aggregates["held_out"]) == set(arms)


def test_arms_that_share_their_runs_are_drawn_under_both_names(tmp_path: Path) -> None:
    twin = PLAN + '[[arm]]\nname = "plain"\nlabel = "Plain"\nrule = "none"\n'
    seeds = {"neat": 0, "plain": 0, "hebb": 1}
    study = made_up(tmp_path, {("hopper", a): normal(i, 5.0, 3) for a, i in seeds.items()}, plan=twin)
    assert main(["report", str(study.path), "--quiet"]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "NEAT = Plain" in page


def test_what_differs_is_told_of_the_places_that_are_compared(tmp_path: Path) -> None:
    grid = PLAN + "[grid]\npop_size = [50, 60]\n"
    study = made_up(tmp_path, {("hopper", a): np.arange(3.0) for a in ("neat", "hebb", "hebb-control")}, plan=grid)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:  # NEAT is best at 60
        db.execute(
            "UPDATE runs SET best_return = 1000 WHERE run IN "
            "(SELECT run FROM cells WHERE arm = 'neat' AND point LIKE '%60%')"
        )
        db.commit()
    told = {(row[1][0], row[2][0]): row[3][0] for row in differences_table(neol.Study(study.path)).rows}
    assert told["NEAT", "Hebb"].startswith("rule: none → hebb; lr: 0 → 0.25; pop_size: 60 → 50")
    assert told["Hebb", "Hebb, lr = 0"] == "lr: 0.25 → 0"


@pytest.mark.parametrize("grid", ['inheritance = ["lamarckian", "darwinian"]', "feed_forward = [true, false]",
                                  "lr = [0.1, 0.2]\npop_size = [50, 60]\nelitism = [1, 2]"])  # fmt: skip
def test_grids_of_words_and_of_many_axes_have_their_report(tmp_path: Path, grid: str) -> None:
    study = made_up(
        tmp_path, {("hopper", a): np.arange(2.0) for a in ("neat", "hebb")}, plan=PLAN + f"[grid]\n{grid}\n"
    )
    assert main(["report", str(study.path), "--quiet"]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Over the grid" in page and not says_nan(tmp_path)


def test_a_bad_seed_of_the_bootstrap_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up(tmp_path, {("hopper", "neat"): np.arange(2.0)})
    assert main(["report", str(tmp_path), "--seed", str(10**30)]) == 2
    assert capsys.readouterr().err.startswith("neol: seed = ")


def test_baselines_with_another_budget_prove_nothing(tmp_path: Path) -> None:
    plan = PLAN + '[[arm]]\nname = "ppo"\nlabel = "PPO"\nalgorithm = "ppo"\nmax_env_steps = 1000\n'
    scores = {("lunarlander", "neat"): normal(0, 200.0), ("lunarlander", "ppo"): normal(1, 100.0)}
    study = made_up(tmp_path, scores, plan=plan)
    assert verdicts(study)["baselines", "neat"] == SUPPORTED  # both had 1000 steps
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        db.execute("UPDATE runs SET env_steps = 9000 WHERE run IN (SELECT run FROM cells WHERE arm = 'neat')")
        db.commit()
    said = found(neol.Study(tmp_path), "baselines", "neat")
    assert said.verdict == OTHER_BUDGETS and "budgets: 0.009 and 0.001 million steps, not the same" in said.why


def test_a_baseline_as_the_reference_is_compared_once(tmp_path: Path) -> None:
    plan = PLAN.replace('reference = "neat"', 'reference = "ppo"')
    plan += '[[arm]]\nname = "ppo"\nalgorithm = "ppo"\nmax_env_steps = 1000\n'
    scores = {("lunarlander", a): normal(i, 200.0) for i, a in enumerate(("neat", "hebb", "ppo"))}
    analysis = analyse(made_up(tmp_path, scores, plan=plan))
    pairs = [(c.arm, c.against) for c in analysis.comparisons["held_out"]]
    assert len(pairs) == len(set(pairs)) and ("hebb", "ppo") in pairs
    assert not [v for v in analysis.verdicts if v.claim in ("higher", "tighter")]


@pytest.mark.parametrize("same", [True, False])
def test_controls_that_came_to_the_same_are_one_line_of_a_legend(tmp_path: Path, same: bool) -> None:
    plan = PLAN + '[[arm]]\nname = "oja"\nlabel = "Oja"\nrule = "oja"\ninheritance = "darwinian"\n'
    arms = ("neat", "hebb", "oja", "hebb-control", "oja-control")
    scores = {("hopper", a): normal(i if same and i < 4 else 3 if same else i, 5.0, 6) for i, a in enumerate(arms)}
    study = made_up(tmp_path, scores, plan=plan)
    labels = [look.label for look, _ in arms_of(study, "hopper")]
    assert (
        labels == ["NEAT", "Hebb", "Oja", CONTROL_LABEL]
        if same
        else sorted(labels) == sorted(["NEAT", "Hebb", "Hebb, lr = 0", "Oja", "Oja, lr = 0"])
    )
    assert main(["report", str(study.path), "--quiet"]) == 0
    svg = (tmp_path / "report" / "figures" / "convergence-hopper-env-steps.svg").read_text()
    assert svg.count(CONTROL_LABEL) == int(same)


def test_a_control_that_some_arms_share_names_them_where_there_is_another(tmp_path: Path) -> None:
    more = "".join(f'[[arm]]\nname = "{n}"\nlabel = "{n.upper()}"\nrule = "{n}"\n' for n in ("oja", "bcm"))
    plan = PLAN + more + "[task.hopper.arm.hebb]\npop_size = 60\n"
    arms = ("neat", "hebb", "oja", "bcm", "hebb-control", "oja-control", "bcm-control")
    scores = {("hopper", a): normal(min(i, 5), 5.0, 3) for i, a in enumerate(arms)}
    labels = [look.label for look, _ in arms_of(made_up(tmp_path, scores, plan=plan), "hopper")]
    assert labels == ["NEAT", "Hebb", "Hebb, lr = 0", "OJA", "BCM", "control of OJA, BCM (lr = 0)"]
