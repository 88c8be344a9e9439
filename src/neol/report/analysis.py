"""A study -> summaries, comparisons and verdicts. Numbers and words, no pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neol import stats
from neol.config.schema import Config
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.report import paper
from neol.report.verdicts import BEST, HELD_OUT, JUDGED, Scores, Verdict, all_verdicts
from neol.stats import Comparison, Interval, SampleSummary
from neol.studies.study import METRICS, Study


class Line(NamedTuple):
    """An arm on a task."""

    task: str
    arm: str
    label: str
    best: SampleSummary
    held_out: SampleSummary
    gap: SampleSummary  # final best fitness minus held-out return, run by run
    env_steps: float | None  # mean
    parameters: float | None  # of the champion, mean
    seconds: float | None  # of one core per million steps, mean
    paper: tuple[float, float] | None  # mean and SD


class Analysis(NamedTuple):
    lines: list[Line]
    comparisons: dict[str, list[Comparison]]  # by metric
    verdicts: list[Verdict]
    aggregates: dict[str, dict[str, Interval]]  # metric -> arm -> IQM of normalised scores over tasks
    improvement: dict[str, dict[tuple[str, str], Interval]]  # metric -> (arm, against) -> P(X > Y)


def analyse(study: Study, seed: int = 0) -> Analysis:
    """Everything that is said about a study's runs; of a grid, at each arm's best place."""
    if not study.finished:
        raise NeolError(f"'{study.path}' has no finished run yet; there is nothing to report.")
    scores = {metric: study.scores(metric) for metric in METRICS}
    lines = _lines(study, scores, seed)
    families = _families(study)
    comparisons = {
        m: [c for task in study.tasks for pairs in families for c in _compare(study, scores[m], task, pairs, seed)]
        for m in JUDGED
    }
    verdicts = all_verdicts(study, comparisons, scores)
    aggregates = {m: _aggregates(study, scores[m], seed) for m in JUDGED}
    every = [pair for pairs in families for pair in pairs]
    improvement = {m: _improvement(study, scores[m], every, seed) for m in JUDGED}
    return Analysis(lines, comparisons, verdicts, aggregates, improvement)


def _lines(study: Study, scores: dict[str, Scores], seed: int) -> list[Line]:
    lines = []
    for task in study.tasks:
        for arm in study.arms:
            key = (task, arm.name)
            if key not in scores[HELD_OUT]:
                continue
            best, held_out, gap = (stats.describe(scores[m].get(key, ()), seed) for m in (BEST, HELD_OUT, "gap"))
            names = ("env_steps", "parameters", "seconds_per_million")
            steps, parameters, seconds = (float(scores[m][key].mean()) if key in scores[m] else None for m in names)
            reported = paper.FITNESS.get(task, {}).get(arm.name)
            place = ", ".join(
                f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in study.best_points[key].items()
            )
            label = f"{arm.label} ({place})" if place else arm.label
            lines.append(Line(task, arm.name, label, best, held_out, gap, steps, parameters, seconds, reported))
    return lines


def _families(study: Study) -> list[list[tuple[str, str]]]:
    """(arm, against), a list for each question: every arm with the reference, every plastic one with its own control,
    every arm with each baseline. Holm's correction is for the answers to one question.
    """
    named = [a.name for a in study.arms if not a.control_of and a.name not in study.baselines]
    controls = {a.control_of: a.name for a in study.arms if a.control_of}
    opponents = [study.reference, *(b for b in study.baselines if b != study.reference)]
    with_each = [[(a, other) for a in named if other and a != other] for other in opponents]
    return [with_each[0], [(a, controls[a]) for a in named if a in controls], *with_each[1:]]


def _compare(study: Study, scores: Scores, task: str, pairs: Sequence[tuple[str, str]], seed: int) -> list[Comparison]:
    """The pairs that have runs on both sides."""
    found = stats.compare(task, {a.name: scores.get((task, a.name), ()) for a in study.arms}, pairs, seed)
    return [c for c in found if c.n and c.n_against]


def _normalised(study: Study, scores: Scores, arm: str) -> dict[str, np.ndarray]:
    """task -> scores between 0 and 1, where 0 and 1 are the worst and the best run of any arm on that task."""
    out = {}
    for task in study.tasks:
        every = np.concatenate([v for (t, _), v in scores.items() if t == task] or [np.empty(0)])
        if (task, arm) in scores and len(every) and every.min() < every.max():
            out[task] = stats.normalise(scores[task, arm], float(every.min()), float(every.max()))
    return out


def common_tasks(study: Study, scores: Scores) -> list[str]:
    """The tasks on which every arm has a finished run: another set of tasks would be another quantity."""
    return [t for t in study.tasks if all((t, a.name) in scores for a in study.arms)]


def _aggregates(study: Study, scores: Scores, seed: int) -> dict[str, Interval]:
    out = {}
    for arm in study.arms:
        every = _normalised(study, scores, arm.name)
        by_task = {t: every[t] for t in common_tasks(study, scores) if t in every}
        found = stats.aggregate(by_task, seed) if by_task else None
        if found is not None:
            out[arm.name] = found
    return out


def _improvement(
    study: Study, scores: Scores, pairs: Sequence[tuple[str, str]], seed: int
) -> dict[tuple[str, str], Interval]:
    out = {}
    for arm, against in pairs:
        both = [t for t in common_tasks(study, scores) if (t, arm) in scores and (t, against) in scores]
        found = (
            stats.probability_of_improvement(
                {t: scores[t, arm] for t in both}, {t: scores[t, against] for t in both}, seed
            )
            if both
            else None
        )
        if found is not None:
            out[arm, against] = found
    return out


def budget(study: Study, task: str) -> str:
    """What a task's runs were given, in words."""
    rows = [r for r in study.finished if r.task == task]
    if not rows:
        return "nothing finished"
    configs = [study.config(r.run) for r in {r.run: r for r in rows}.values()]
    own = [c for c in configs if isinstance(c, Config)]
    spans = [_span([f(c) for c in own]) for f in (lambda c: c.neat.pop_size, lambda c: c.run.generations) if own]
    steps = [r.env_steps for r in rows if r.env_steps]
    seeds = len({r.seed for r in rows})
    scale = study.scales.get(task, 1.0)
    told = "" if scale == 1.0 else f", {scale:g} times the study's budget"
    name = TASKS[task].id if task in TASKS else task
    size = f"population {spans[0]}, at most {spans[1]} generations{told}: " if own else ""
    return (
        f"{name}: {size}{min(steps) / 1e6:.2f} to {max(steps) / 1e6:.2f} million steps a run, "
        f"{seeds} seed{'s' * (seeds > 1)}"
    )


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
