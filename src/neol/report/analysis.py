"""A study -> summaries, comparisons and a verdict on each of the paper's claims. Numbers and words, no pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neol import stats
from neol.config.schema import Config
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.report import paper
from neol.stats import Comparison, Interval, Summary
from neol.studies.study import METRICS, Study

BEST, HELD_OUT = "best_return", "held_out"
REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive at this budget"
ALPHA = 0.05
WORTH = 0.71  # an A12 from which on an effect is large: what a "not reproduced" must have excluded
ALIKE = 1.5  # budgets that differ by a larger factor are not the same number of steps
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
    against: str = ""  # the baseline, where it is about one


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
    return list(dict.fromkeys(with_reference + [(a, controls[a]) for a in named if a in controls] + with_baselines))


def _verdicts(
    study: Study,
    comparisons: dict[str, list[Comparison]],
    scores: dict[str, dict[tuple[str, str], np.ndarray]],
    seed: int,
) -> list[Verdict]:
    controls = {a.name: a.control_of for a in study.arms}
    plastic = {a for a in controls.values() if a} | set(paper.PLASTIC)
    neat = _is_neat(study)
    out: list[Verdict] = []
    for c, held in zip(comparisons[BEST], comparisons[HELD_OUT], strict=True):
        if c.against in study.baselines:
            if c.task in paper.BEATS_BASELINES:
                out.append(_beside_baseline(study, c, held, scores["env_steps"]))
        elif c.arm in plastic and c.task in paper.FITNESS and c.task not in paper.TIES:
            if controls[c.against]:
                out.append(_better(study, "plasticity", c, held))
            elif neat:
                out.append(_better(study, "higher", c, held))
    for task in (t for t in study.tasks if neat and t in paper.FITNESS and t not in paper.TIES):
        family = [c for c in comparisons[BEST] if c.task == task and c.arm in plastic and c.against == study.reference]
        adjusted = stats.holm([c.variance.p if c.variance else None for c in family])
        out += [_tighter(study, c, p) for c, p in zip(family, adjusted, strict=True)]
    out += _ablation(study, plastic, scores, seed) + _inheritance(study, scores) + _ceiling(study, scores)
    order = list(paper.CLAIMS)
    return sorted(out, key=lambda v: (order.index(v.claim), study.tasks.index(v.task)))


def _is_neat(study: Study) -> bool:
    """Whether the reference is NEAT: evolution without plasticity."""
    run = next((r.run for r in study.rows if r.arm == study.reference), None)
    config = study.config(run) if run is not None else None
    return isinstance(config, Config) and config.plasticity.rule == "none"


def _beside_baseline(
    study: Study, c: Comparison, held: Comparison, steps: dict[tuple[str, str], np.ndarray]
) -> Verdict:
    verdict = _better(study, "baselines", c, held)._replace(against=c.against)
    two = [float(steps[c.task, a].mean()) for a in (c.arm, c.against)]
    told = f" Budgets: {two[0] / 1e6:.3g} and {two[1] / 1e6:.3g} million steps"
    if max(two) > ALIKE * min(two):
        return verdict._replace(verdict=INCONCLUSIVE, words=f"{verdict.words}{told}, not the same.")
    return verdict._replace(words=f"{verdict.words}{told}.")


def judge(c: Comparison) -> str:
    """Whether the arm is better: significantly; or surely not by a large effect; or too few runs to tell."""
    if c.p_holm is None or c.a12 is None or min(c.n, c.n_against) < FEWEST:
        return INCONCLUSIVE
    if c.p_holm < ALPHA:
        return REPRODUCED
    assert c.a12.high is not None
    return NOT_REPRODUCED if c.a12.high < WORTH else INCONCLUSIVE


def _better(study: Study, claim: str, c: Comparison, held: Comparison) -> Verdict:
    words = (
        f"{study.label(c.arm)} against {study.label(c.against)}: final best fitness {_effect(c)}; "
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
    names = f"{study.label(c.arm)} against {study.label(c.against)}"
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
    for task in (t for t in study.tasks if t in paper.FITNESS and t not in paper.TIES):
        found = [
            stats.compare(task, {a: scores[m].get((task, a), ()) for a in names}, pairs, seed) for m in (BEST, HELD_OUT)
        ]
        out += [_better(study, "ablation", c, held) for c, held in zip(*found, strict=True) if c.n and c.n_against]
    return out


def _inheritance(study: Study, scores: dict[str, dict[tuple[str, str], np.ndarray]]) -> list[Verdict]:
    """X-lamarckian against X-darwinian, two-sided, held out: the claim is that there is no difference."""
    names = [a.name for a in study.arms if not a.control_of]
    pairs = [(a, a.replace("-lamarckian", "-darwinian")) for a in names if a.endswith("-lamarckian")]
    pairs = [p for p in pairs if p[1] in names]
    out = []
    for task in study.tasks:
        samples = [tuple(scores[HELD_OUT].get((task, a), np.empty(0)) for a in p) for p in pairs]
        adjusted = stats.holm([stats.rank_sum(x, y, "two-sided") for x, y in samples])
        for (arm, other), (x, y), p in zip(pairs, samples, adjusted, strict=True):
            effect = stats.a12(x, y)
            if p is None or effect is None or effect.low is None or effect.high is None:
                continue
            alike = effect.low > 1.0 - WORTH and effect.high < WORTH
            verdict = NOT_REPRODUCED if p < ALPHA else REPRODUCED if alike else INCONCLUSIVE
            verdict = INCONCLUSIVE if min(len(x), len(y)) < FEWEST else verdict
            words = (
                f"{study.label(arm)} against {study.label(other)}, held out: {x.mean():.1f} and {y.mean():.1f}, "
                f"A12 {effect.estimate:.2f} ({effect.low:.2f} to {effect.high:.2f}), two-sided p {show_p(p)} after "
                f"Holm ({len(x)} and {len(y)} runs)."
            )
            out.append(Verdict("inheritance", task, arm, verdict, words))
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


def common_tasks(study: Study, scores: dict[tuple[str, str], np.ndarray]) -> list[str]:
    """The tasks on which every arm has a finished run: another set of tasks would be another quantity."""
    return [t for t in study.tasks if all((t, a.name) in scores for a in study.arms)]


def _aggregates(study: Study, scores: dict[tuple[str, str], np.ndarray], seed: int) -> dict[str, Interval]:
    out = {}
    for arm in study.arms:
        every = _normalised(study, scores, arm.name)
        by_task = {t: every[t] for t in common_tasks(study, scores) if t in every}
        found = stats.aggregate(by_task, seed) if by_task else None
        if found is not None:
            out[arm.name] = found
    return out


def _improvement(
    study: Study, scores: dict[tuple[str, str], np.ndarray], pairs: Sequence[tuple[str, str]], seed: int
) -> dict[tuple[str, str], Interval]:
    out = {}
    for arm, against in pairs:
        both = common_tasks(study, scores)
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
