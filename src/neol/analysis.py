"""A study -> summaries, comparisons and a verdict on each of the paper's claims. Numbers and words, no pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neol import paper, stats
from neol.config import Config
from neol.errors import NeolError
from neol.stats import Comparison, Interval, Summary
from neol.study import METRICS, Study
from neol.tasks import TASKS

BEST, HELD_OUT = "best_return", "held_out"
REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive at this budget"
ALPHA = 0.05
WORTH = 0.64  # an A12 from which on an effect is at least medium: what a "not reproduced" must have excluded
FEWEST = 5  # runs a side, below which nothing is concluded


class Line(NamedTuple):
    """An arm on a task."""

    task: str
    arm: str
    label: str
    best: Summary
    held_out: Summary
    gap: Summary  # final best fitness minus held-out return, run by run
    env_steps: float | None  # mean
    parameters: float | None  # of the champion, mean
    seconds: float | None  # of one core per million steps, mean
    paper: tuple[float, float] | None  # mean and SD


class Verdict(NamedTuple):
    """What a study says about a claim on a task."""

    claim: str  # a key of paper.CLAIMS
    task: str
    arm: str
    verdict: str
    words: str  # with the numbers


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
    pairs = _pairs(study)
    comparisons = {
        m: [
            c
            for task in study.tasks
            for c in stats.compare(task, {a.name: scores[m].get((task, a.name), ()) for a in study.arms}, pairs, seed)
            if c.n and c.n_against
        ]
        for m in (BEST, HELD_OUT)
    }
    verdicts = _verdicts(study, comparisons, scores, seed)
    aggregates = {m: _aggregates(study, scores[m], seed) for m in (BEST, HELD_OUT)}
    improvement = {m: _improvement(study, scores[m], pairs, seed) for m in (BEST, HELD_OUT)}
    return Analysis(lines, comparisons, verdicts, aggregates, improvement)


def _lines(study: Study, scores: dict[str, dict[tuple[str, str], np.ndarray]], seed: int) -> list[Line]:
    lines = []
    for task in study.tasks:
        for arm in study.arms:
            key = (task, arm.name)
            if key not in scores[HELD_OUT]:
                continue
            best, held_out, gap = (stats.describe(scores[m][key], seed) for m in (BEST, HELD_OUT, "gap"))
            names = ("env_steps", "parameters", "seconds_per_million")
            steps, parameters, seconds = (float(scores[m][key].mean()) if key in scores[m] else None for m in names)
            reported = paper.FITNESS.get(task, {}).get(arm.name)
            place = ", ".join(
                f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in study.best_points[key].items()
            )
            label = f"{arm.label} ({place})" if place else arm.label
            lines.append(Line(task, arm.name, label, best, held_out, gap, steps, parameters, seconds, reported))
    return lines


def _pairs(study: Study) -> list[tuple[str, str]]:
    """(arm, against): every arm with the reference and with the baselines, every plastic one with its own control."""
    named = [a.name for a in study.arms if not a.control_of and a.name not in study.baselines]
    controls = {a.control_of: a.name for a in study.arms if a.control_of}
    reference = study.reference
    with_reference = [(a, reference) for a in named if reference and a != reference]
    with_baselines = [(a, b) for b in study.baselines for a in named]
    return with_reference + [(a, controls[a]) for a in named if a in controls] + with_baselines


def _verdicts(
    study: Study,
    comparisons: dict[str, list[Comparison]],
    scores: dict[str, dict[tuple[str, str], np.ndarray]],
    seed: int,
) -> list[Verdict]:
    controls = {a.name: a.control_of for a in study.arms}
    plastic = {a for a in controls.values() if a} | set(paper.PLASTIC)
    out: list[Verdict] = []
    for c, held in zip(comparisons[BEST], comparisons[HELD_OUT], strict=True):
        if c.against in study.baselines:
            out.append(_better(study, "baselines", c, held))
            continue
        claim = "plasticity" if controls[c.against] else "higher"
        if c.arm in plastic and not (c.task == "cartpole" and claim == "higher"):  # the paper claims a tie there
            out.append(_better(study, claim, c, held))
    for task in study.tasks:
        family = [
            c for c in comparisons[BEST]
            if c.task == task != "cartpole" and c.arm in plastic and c.against == study.reference
        ]  # fmt: skip
        adjusted = stats.holm([c.variance.p if c.variance else None for c in family])
        out += [_tighter(study, c, p) for c, p in zip(family, adjusted, strict=True)]
    out += _ablation(study, plastic, scores, seed) + _inheritance(study, scores) + _ceiling(study, scores)
    order = list(paper.CLAIMS)
    return sorted(out, key=lambda v: (order.index(v.claim), study.tasks.index(v.task)))


def judge(c: Comparison) -> str:
    """Whether the arm is better: significantly; or surely not by a medium effect; or too few runs to tell."""
    if c.p_holm is None or c.a12 is None or min(c.n, c.n_against) < FEWEST:
        return INCONCLUSIVE
    if c.p_holm < ALPHA:
        return REPRODUCED
    assert c.a12.high is not None
    return NOT_REPRODUCED if c.a12.high < WORTH else INCONCLUSIVE


def _label(study: Study, arm: str) -> str:
    return next(a.label for a in study.arms if a.name == arm)


def _better(study: Study, claim: str, c: Comparison, held: Comparison) -> Verdict:
    words = (
        f"{_label(study, c.arm)} against {_label(study, c.against)}: final best fitness {_effect(c)}; "
        f"held out {_effect(held)} ({c.n} and {c.n_against} runs)."
    )
    return Verdict(claim, c.task, c.arm, judge(c), words)


def _effect(c: Comparison) -> str:
    assert c.difference is not None and c.a12 is not None
    p = "no test" if c.p_holm is None else f"p {show_p(c.p_holm)} after Holm"
    return (
        f"{c.difference.estimate:+.1f}, A12 {c.a12.estimate:.2f} ({c.a12.low:.2f} to {c.a12.high:.2f}, "
        f"{stats.magnitude(c.a12.estimate)}), {p}"
    )


def show_p(p: float) -> str:
    return f"= {p:.2g}" if p >= 0.001 else f"= {p:.1e}"


def _tighter(study: Study, c: Comparison, p: float | None) -> Verdict:
    """p: Brown-Forsythe's, after Holm over the task's arms."""
    v = c.variance
    names = f"{_label(study, c.arm)} against {_label(study, c.against)}"
    if v is None or p is None or min(c.n, c.n_against) < FEWEST:
        return Verdict("tighter", c.task, c.arm, INCONCLUSIVE, f"{names}: too few runs, or too alike, for a test.")
    smaller = v.sd < v.sd_against
    verdict = INCONCLUSIVE if p >= ALPHA else REPRODUCED if smaller else NOT_REPRODUCED
    words = f"{names}: SD {v.sd:.1f} against {v.sd_against:.1f}, Brown-Forsythe p {show_p(p)} after Holm."
    return Verdict("tighter", c.task, c.arm, verdict, words)


def _ablation(
    study: Study, plastic: set[str], scores: dict[str, dict[tuple[str, str], np.ndarray]], seed: int
) -> list[Verdict]:
    """Against NEAT without weight mutation, a family of its own."""
    names = [a.name for a in study.arms]
    if "neat-wo" not in names or study.reference == "neat-wo":
        return []
    pairs = [(a, "neat-wo") for a in names if a in plastic]
    out = []
    for task in study.tasks:
        if task == "cartpole":
            continue
        found = [
            stats.compare(task, {a: scores[m].get((task, a), ()) for a in names}, pairs, seed) for m in (BEST, HELD_OUT)
        ]
        out += [_better(study, "ablation", c, held) for c, held in zip(*found, strict=True) if c.n and c.n_against]
    return out


def _inheritance(study: Study, scores: dict[str, dict[tuple[str, str], np.ndarray]]) -> list[Verdict]:
    """X-lamarckian against X-darwinian: the claim is that there is no difference."""
    out = []
    for arm in study.arms:
        other = arm.name.replace("-lamarckian", "-darwinian")
        if arm.control_of or other == arm.name or other not in [a.name for a in study.arms]:
            continue
        for task in study.tasks:
            x, y = (scores[HELD_OUT].get((task, a), np.empty(0)) for a in (arm.name, other))
            p, effect = stats.rank_sum(x, y, "two-sided"), stats.a12(x, y)
            if p is None or effect is None or effect.low is None or effect.high is None:
                continue
            alike = effect.low > 1.0 - WORTH and effect.high < WORTH
            verdict = NOT_REPRODUCED if p < ALPHA else REPRODUCED if alike else INCONCLUSIVE
            verdict = INCONCLUSIVE if min(len(x), len(y)) < FEWEST else verdict
            words = (
                f"{arm.label} against {_label(study, other)}, held out: {x.mean():.1f} and {y.mean():.1f}, "
                f"A12 {effect.estimate:.2f} ({effect.low:.2f} to {effect.high:.2f}), two-sided p {show_p(p)} "
                f"({len(x)} and {len(y)} runs)."
            )
            out.append(Verdict("inheritance", task, arm.name, verdict, words))
    return out


def _ceiling(study: Study, scores: dict[str, dict[tuple[str, str], np.ndarray]]) -> list[Verdict]:
    """On CartPole every run of every arm of the paper should end at 500."""
    own = [a for a in study.arms if a.name in paper.FITNESS["cartpole"] and ("cartpole", a.name) in scores[BEST]]
    out = []
    for arm in own:
        best, held = scores[BEST]["cartpole", arm.name], scores[HELD_OUT]["cartpole", arm.name]
        at, held_at = int((best >= paper.CEILING).sum()), int((held >= paper.CEILING).sum())
        verdict = REPRODUCED if at == len(best) >= FEWEST else INCONCLUSIVE if len(best) < FEWEST else NOT_REPRODUCED
        words = f"{arm.label}: {at} of {len(best)} runs end at 500; held out {held_at} champions have 500.0 on average."
        out.append(Verdict("ceiling", "cartpole", arm.name, verdict, words))
    return out


def _normalised(study: Study, scores: dict[tuple[str, str], np.ndarray], arm: str) -> dict[str, np.ndarray]:
    """task -> scores between 0 and 1, where 0 and 1 are the worst and the best run of any arm on that task."""
    out = {}
    for task in study.tasks:
        every = np.concatenate([v for (t, _), v in scores.items() if t == task] or [np.empty(0)])
        if (task, arm) in scores and len(every) and every.min() < every.max():
            out[task] = stats.normalise(scores[task, arm], float(every.min()), float(every.max()))
    return out


def _aggregates(study: Study, scores: dict[tuple[str, str], np.ndarray], seed: int) -> dict[str, Interval]:
    out = {}
    for arm in study.arms:
        by_task = _normalised(study, scores, arm.name)
        found = stats.aggregate(by_task, seed) if by_task else None
        if found is not None:
            out[arm.name] = found
    return out


def _improvement(
    study: Study, scores: dict[tuple[str, str], np.ndarray], pairs: Sequence[tuple[str, str]], seed: int
) -> dict[tuple[str, str], Interval]:
    out = {}
    for arm, against in pairs:
        both = [t for t in study.tasks if (t, arm) in scores and (t, against) in scores]
        found = stats.probability_of_improvement(
            {t: scores[t, arm] for t in both}, {t: scores[t, against] for t in both}, seed
        )
        if both and found is not None:
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
    told = "" if scale == 1.0 else f", {scale:g} of the study's budget"
    name = TASKS[task].id if task in TASKS else task
    size = f"population {spans[0]}, {spans[1]} generations{told}: " if own else ""
    return (
        f"{name}: {size}{min(steps) / 1e6:.2f} to {max(steps) / 1e6:.2f} million steps a run, "
        f"{seeds} seed{'s' * (seeds > 1)}"
    )


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
