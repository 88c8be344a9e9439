"""Does learning in life pay? Arms with a role in that question: their adaptation scores and their tests, as numbers.

    score = (arm - best control) / (oracle - best control)

0 is what can be had without learning (the control with the highest mean), 1 what a network gets that is told its world,
or has nothing to learn. A world is the list of changes that champions were measured in: that of training, and that of
`test_change`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neol import stats
from neol.config.schema import Config
from neol.report.tables import Table, interval_cell, p_cell
from neol.report.verdicts import ALPHA, BETTER, TOO_FEW, judge
from neol.stats import Comparison, Interval
from neol.studies.plan import CONTROL_ROLE, ORACLE, PLASTIC
from neol.studies.study import Row, Study

MET, HELD_OUT_WORLD = "the world of training", "a world never met in training"


class Adapted(NamedTuple):
    """What the arms came to in one world of a task."""

    task: str
    world: tuple[str, ...]  # its changes
    what: str  # MET, HELD_OUT_WORLD
    returns: dict[str, np.ndarray]  # arm -> f8 (seeds,), those that have a role and were measured there
    best_control: str  # the arm with the highest mean among the controls
    oracle: str  # likewise, "" = the study has none there
    scores: dict[str, Interval | None]  # plastic arm -> its score; None: the oracle is no better than the control
    tests: list[Comparison]  # every plastic arm against every control, one family for Holm


def adapted(study: Study, seed: int = 0) -> list[Adapted]:
    """By task, the world of training first; [] where no arm has a role."""
    out = []
    for task in study.tasks:
        rows = [r for r in study.finished if r.task == task and r.arm in study.roles]
        for world, what in _worlds(study, rows):
            returns = _measured(study, rows, world)
            roles = {role: [a for a in returns if study.roles[a] == role] for role in (PLASTIC, CONTROL_ROLE, ORACLE)}
            if roles[PLASTIC] and roles[CONTROL_ROLE]:
                out.append(_adapted(task, world, what, returns, roles, seed))
    return out


def _worlds(study: Study, rows: list[Row]) -> list[tuple[tuple[str, ...], str]]:
    """The worlds that plastic arms were trained in, and those that they were tested in beside."""
    configs = [c for r in rows if study.roles[r.arm] == PLASTIC and isinstance(c := study.config(r.run), Config)]
    met = dict.fromkeys(c.world.change for c in configs)
    new = dict.fromkeys(c.world.test_change for c in configs if c.world.test_change)
    return [(w, MET) for w in met] + [(w, HELD_OUT_WORLD) for w in new if w not in met]


def _measured(study: Study, rows: list[Row], world: tuple[str, ...]) -> dict[str, np.ndarray]:
    """arm -> its champions' returns in a world, whether they were trained in it or only tested.

    An oracle that was trained without any change is at home: it has nothing to learn. Arms that share their runs (the
    lr = 0 of several) are there once.
    """
    out: dict[str, list[float]] = {}
    runs: dict[tuple[str, tuple[int, ...]], str] = {}  # role and runs -> the first arm that has them
    for arm in study.arms:
        own = [r for r in rows if r.arm == arm.name and r.point == study.best_points.get((r.task, r.arm))]
        role = study.roles.get(arm.name, "")
        if runs.setdefault((role, tuple(r.run for r in own)), arm.name) != arm.name:
            continue
        for r in own:
            config = study.config(r.run).flat()
            change, test = config["change"], config.get("test_change", ())
            at_home = role == ORACLE and not change
            value = r.held_out if change == world or at_home else r.tested if test == world else None
            if value is not None:
                out.setdefault(arm.name, []).append(value)
    return {arm: np.array(values) for arm, values in out.items()}


def _adapted(
    task: str, world: tuple[str, ...], what: str, returns: dict[str, np.ndarray], roles: dict[str, list[str]], seed: int
) -> Adapted:
    def best(arms: list[str]) -> str:
        return max(arms, key=lambda a: float(returns[a].mean())) if arms else ""

    oracle, controls = best(roles[ORACLE]), [returns[a] for a in roles[CONTROL_ROLE]]
    scores = {
        arm: stats.adaptation_score(returns[arm], controls, returns[oracle], seed) if oracle else None
        for arm in roles[PLASTIC]
    }
    pairs = [(arm, control) for arm in roles[PLASTIC] for control in roles[CONTROL_ROLE]]
    tests = stats.compare(task, returns, pairs, seed)
    return Adapted(task, world, what, returns, best(roles[CONTROL_ROLE]), oracle, scores, tests)


# -- words


def verdict(found: Adapted, arm: str) -> str:
    """Which controls a plastic arm beats, after Holm over all comparisons in this world."""
    tests = [c for c in found.tests if c.arm == arm]
    said = [judge(c) for c in tests]
    beaten = said.count(BETTER)
    if all(s == TOO_FEW for s in said):
        return TOO_FEW
    if beaten == len(tests):
        return f"beats every control (p <= {max(c.p_holm or 0.0 for c in tests):.2g})"
    return f"beats {beaten} of {len(tests)} controls"


def adaptation_table(study: Study, found: list[Adapted]) -> Table:
    """Every plastic arm in every world: its score, the control that it is measured against, and the tests."""
    columns = ["task", "world", "arm", "runs", "return", "best control", "its return", "oracle's return",
               "adaptation score (95 %)", "against every control", "p against the best, Holm"]  # fmt: skip
    rows = []
    for x in found:
        mean = {arm: float(v.mean()) for arm, v in x.returns.items()}
        for arm, score in x.scores.items():
            best = next(c for c in x.tests if c.arm == arm and c.against == x.best_control)
            values = (mean[arm], mean[x.best_control], mean.get(x.oracle))
            shown = [("–", None) if v is None else (f"{v:,.1f}", v) for v in values]
            label, control = study.label(arm), study.label(x.best_control)
            told = verdict(x, arm)
            rows.append([
                (x.task, x.task), (x.what, x.what), (label, label), (str(len(x.returns[arm])), len(x.returns[arm])),
                shown[0], (control, control), shown[1], shown[2], interval_cell(score, 2), (told, told),
                p_cell(best.p_holm),
            ])  # fmt: skip
    return Table("adaptation", "Adaptation scores", columns, rows)


def lines(study: Study, found: list[Adapted]) -> list[str]:
    """A sentence for each task and world: the best plastic arm."""
    out = []
    for x in found:
        arm = max(x.scores, key=lambda a: float(x.returns[a].mean()))
        score = x.scores[arm]
        if score is None:
            told = "no score: no oracle is above the best control"
        else:
            told = f"score {score.estimate:.2f}"
            told += "" if score.low is None else f" (95 % {score.low:.2f} to {score.high:.2f})"
        out.append(
            f"{x.task}, {x.what}: {study.label(arm)} holds {x.returns[arm].mean():,.1f}, the best control "
            f"({study.label(x.best_control)}) {x.returns[x.best_control].mean():,.1f}; {told}; {verdict(x, arm)}"
        )
    return out


HOW = (
    "Score: (arm - best control) / (oracle - best control) of mean returns on fresh lives: 0 is what can be had "
    "without learning, 1 what a network gets that is told its world. The best control is the one with the highest "
    "mean, chosen anew in each of 10,000 bootstrap samples of the runs; an interval has no ends where the oracle is "
    f"not above it in more than a fortieth of them. Tests: exact two-sided rank-sum, every plastic arm "
    f"against every control, p < {ALPHA} after Holm over all of them in that world."
)
