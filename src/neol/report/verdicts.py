"""What the numbers of a comparison say in words: a verdict per metric, on the paper's claims and on all other pairs.

A verdict follows from what stands beside it: the p of the exact two-sided rank-sum test after Holm, the side of 1/2 on
which A12 lies, A12's interval, and the number of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neol import stats
from neol.config.schema import Config
from neol.report import paper
from neol.stats import Comparison
from neol.studies.study import Study

BEST, HELD_OUT = "best_return", "held_out"
JUDGED = {HELD_OUT: "held-out return", BEST: "final best fitness"}  # the metrics that are judged, in this order
BETTER, WORSE, ALIKE = "better", "worse", "no difference found"
UNDECIDED, TOO_FEW = "undecided", "too few seeds to tell"
SUPPORTED, CONTRADICTED, PARTLY = "supported", "contradicted", "partly supported"
NOT_SUPPORTED = "not supported"  # not significant; a large effect, and the paper's own where it is smaller, excluded
TIGHTER = "tighter"
OTHER_BUDGETS = "not judged, other budgets"
LABELS = (
    SUPPORTED, PARTLY, BETTER, CONTRADICTED, WORSE, NOT_SUPPORTED, ALIKE, UNDECIDED, TOO_FEW, OTHER_BUDGETS,
)  # fmt: skip
ALPHA = 0.05
WORTH = 0.71  # an A12 from which on an effect is large: what "no difference found" must have excluded, either way
SAME_BUDGET = 1.5  # budgets that differ by a larger factor are not the same number of steps
FEWEST = 5  # runs a side, below which a spread, a ceiling or an interval of means says nothing
# What is asked of a study beside the paper's claims.
AGAINST_CONTROL, AGAINST_REFERENCE, AGAINST_BASELINE = "own control", "own reference", "own baseline"

Scores = dict[tuple[str, str], np.ndarray]  # (task, arm) -> f8 (runs,)


class Verdict(NamedTuple):
    """What a study says about one question on one task, by one metric."""

    claim: str  # a key of paper.CLAIMS, or one of the study's own questions
    task: str
    arm: str
    against: str  # another arm, or "" where none is compared
    metric: str
    verdict: str  # one of LABELS
    numbers: str
    why: str  # from the numbers to the verdict


# -- one comparison


def judge(c: Comparison) -> str:
    """BETTER or WORSE by the test; TOO_FEW where no scores could pass it; by A12's interval otherwise."""
    if c.p_holm is None or c.p_least is None or c.a12 is None or c.p_least >= ALPHA:
        return TOO_FEW
    if c.p_holm < ALPHA:
        return BETTER if c.a12.estimate > 0.5 else WORSE
    assert c.a12.low is not None and c.a12.high is not None
    excluded = c.a12.low > 1.0 - WORTH and c.a12.high < WORTH
    return ALIKE if excluded or _all_equal(c) else UNDECIDED


def _all_equal(c: Comparison) -> bool:
    v, d = c.variance, c.difference
    return v is not None and d is not None and v.sd == v.sd_against == d.estimate == 0.0


def show_p(p: float) -> str:
    return f"= {p:.2g}" if p >= 0.001 else f"= {p:.1e}"


def _signed(x: float) -> str:
    """One decimal; two digits of what that would show as zero."""
    return "0" if x == 0.0 else f"{x:+,.1f}" if abs(x) >= 0.95 else f"{x:+.2g}"


def numbers(c: Comparison) -> str:
    """A comparison's numbers in a line."""
    assert c.difference is not None and c.a12 is not None
    d, a = c.difference, c.a12
    told = _signed(d.estimate)
    if d.low is not None and d.high is not None and min(c.n, c.n_against) >= FEWEST:
        told += f" ({_signed(d.low)} to {_signed(d.high)})"
    p = "no test" if c.p_holm is None else f"p {show_p(c.p_holm)}"
    return f"{told}, A12 {a.estimate:.2f} ({a.low:.2f} to {a.high:.2f}), {p}, {c.n} and {c.n_against} runs"


def why(c: Comparison) -> str:
    """What leads from the numbers to the verdict."""
    assert c.a12 is not None and c.difference is not None
    found = judge(c)
    if found == TOO_FEW:
        least = "" if c.p_least is None else f"; complete separation would have p {show_p(c.p_least)}"
        return f"nothing can be significant with so few runs{least}; the numbers {_points(c)}"
    if found in (BETTER, WORSE):
        return f"significantly {found}, {stats.magnitude(c.a12.estimate)} effect{_means_apart(c)}"
    if _all_equal(c):
        return "every run has the same score"
    if found == ALIKE:
        return f"not significant, and a large effect is excluded either way{_though(_means_differ(c))}"
    alone = ["it is before Holm's correction"] if c.p is not None and c.p < ALPHA else []
    return f"not significant{_though(alone + _means_differ(c))}; {_open(c)}; the numbers {_points(c)}"


def _though(signs: Sequence[str]) -> str:
    """Signs of a difference where none was found."""
    return ", though " + " and ".join(signs) if signs else ""


def _open(c: Comparison) -> str:
    """Which effects A12's interval excludes, and which large ones it leaves open."""
    assert c.a12 is not None and c.a12.low is not None and c.a12.high is not None
    up, down = c.a12.high >= WORTH, c.a12.low <= 1.0 - WORTH
    runs = f"{c.n} and {c.n_against} runs exclude A12 below {c.a12.low:.2f} and above {c.a12.high:.2f}"
    if up and down:
        return f"{runs}: large effects either way are left open"
    left, gone = ("advantage", "disadvantage") if up else ("disadvantage", "advantage")
    return f"{runs}: a large {gone} is excluded, a large {left} is not"


def _points(c: Comparison) -> str:
    assert c.a12 is not None
    if c.a12.estimate == 0.5:
        return "point neither way"
    return f"point to {BETTER if c.a12.estimate > 0.5 else WORSE}{_means_apart(c)}"


def _means_differ(c: Comparison) -> list[str]:
    """A few bad runs may move a mean for certain and yet hardly any rank: what the rank-sum test does not see."""
    d = c.difference
    if d is None or d.low is None or d.high is None or min(c.n, c.n_against) < FEWEST or d.low <= 0.0 <= d.high:
        return []
    return ["the interval of the means' difference excludes 0"]


def _means_apart(c: Comparison) -> str:
    """Ranks and means may disagree: one very bad run moves a mean, not a rank."""
    assert c.a12 is not None and c.difference is not None
    return ", but the means point the other way" if (c.a12.estimate - 0.5) * c.difference.estimate < 0.0 else ""


# -- a study


def all_verdicts(study: Study, comparisons: dict[str, list[Comparison]], scores: dict[str, Scores]) -> list[Verdict]:
    """By question, task, arm and metric, the held-out return first. `scores`: by metric, env_steps among them."""
    facts = _Facts.of(study)
    out: list[Verdict] = []
    for metric in JUDGED:
        out += [_compared(study, facts, c, metric, scores["env_steps"]) for c in comparisons[metric]]
        out += _spreads(study, facts, comparisons[metric], metric)
        out += _ablation(study, facts, scores[metric], metric) + _inheritance(study, scores[metric], metric)
        out += _ceiling(study, scores[metric], metric)
    order = [*paper.CLAIMS, AGAINST_CONTROL, AGAINST_REFERENCE, AGAINST_BASELINE]
    arms = [a.name for a in study.arms]
    place = {name: i for i, name in enumerate([*arms, ""])}
    return sorted(
        out, key=lambda v: (order.index(v.claim), study.tasks.index(v.task), place[v.against], place[v.arm])
    )  # stable: the metrics stay in their order


class _Facts(NamedTuple):
    """What decides which of the paper's claims a comparison is about."""

    controls: dict[str, str]  # arm -> the arm that it is the control of, or ""
    rules: dict[str, str]  # arms that NEAT evolves and that learn by one of the paper's rules -> that rule
    neat: bool  # whether the reference is NEAT, without plasticity

    @classmethod
    def of(cls, study: Study) -> _Facts:
        controls = {a.name: a.control_of for a in study.arms}
        first = {r.arm: r.run for r in reversed(study.rows)}
        configs = {arm: config for arm, run in first.items() if isinstance(config := study.config(run), Config)}
        configs = {arm: config for arm, config in configs.items() if config.run.outer == "neat"}
        learning = {a: c.plasticity for a, c in configs.items() if c.plasticity.lr > 0.0}
        rules = {a: p.rule for a, p in learning.items() if p.rule in paper.PLASTIC}
        reference = configs.get(study.reference)
        return cls(controls, rules, reference is not None and reference.plasticity.rule == "none")

    def judged(self, task: str, arm: str) -> bool:
        """Whether the paper claims that this arm is better than another on this task."""
        return arm in self.rules and task in paper.FITNESS and task not in paper.TIES


def _question(study: Study, facts: _Facts, c: Comparison) -> str:
    """The claim that a comparison is about; the study's own question where the paper makes none."""
    if c.against in study.baselines:
        return "baselines" if c.task in paper.BEATS_BASELINES else AGAINST_BASELINE
    if facts.controls[c.against]:
        return "plasticity" if facts.judged(c.task, c.arm) else AGAINST_CONTROL
    if facts.neat and facts.judged(c.task, c.arm):
        return "ablation" if c.against == paper.WITHOUT_MUTATION else "higher"
    return AGAINST_REFERENCE


def _compared(study: Study, facts: _Facts, c: Comparison, metric: str, steps: Scores) -> Verdict:
    claim = _question(study, facts, c)
    over_neat = claim in ("higher", "plasticity")  # the paper has no control: its gain over NEAT is plasticity's to it
    verdict = _verdict(claim, c, metric, paper.effect(c.task, facts.rules[c.arm]) if over_neat else None)
    if c.against not in study.baselines:
        return verdict
    two = [float(steps[c.task, a].mean()) for a in (c.arm, c.against)]
    told = f"budgets: {two[0] / 1e6:.3g} and {two[1] / 1e6:.3g} million steps"
    if max(two) <= SAME_BUDGET * min(two):
        return verdict._replace(why=f"{verdict.why}; {told}")
    label = OTHER_BUDGETS if claim in paper.CLAIMS else verdict.verdict
    return verdict._replace(verdict=label, why=f"{verdict.why}; {told}, not the same")


def _verdict(claim: str, c: Comparison, metric: str, effect: float | None = None) -> Verdict:
    """Of a claim that the arm is better, or of a question of the study's own. `effect`: the paper's own A12.

    A claim is settled by a test, or by what is excluded: an advantage that is large or the paper's. Where a large
    disadvantage is excluded, too, there is no difference, else it is the claim that is not supported.
    """
    found, because = judge(c), why(c)
    if claim in paper.CLAIMS:
        found = {BETTER: SUPPORTED, WORSE: CONTRADICTED}.get(found, found)
    if found in (UNDECIDED, ALIKE) and claim in paper.CLAIMS and not _all_equal(c):
        assert c.a12 is not None and c.a12.high is not None
        if c.a12.high >= min(WORTH, effect or WORTH):
            found = UNDECIDED
        elif found == UNDECIDED:
            found = NOT_SUPPORTED
        if effect is not None:
            excluded = "excluded" if c.a12.high < effect else "not excluded"
            because += f"; the paper's gain over NEAT in best fitness, A12 {effect:.2f}, is {excluded}"
    return Verdict(claim, c.task, c.arm, c.against, metric, found, numbers(c), because)


def _spreads(study: Study, facts: _Facts, comparisons: Sequence[Comparison], metric: str) -> list[Verdict]:
    """Brown-Forsythe against the reference, after Holm over a task's plastic arms."""
    out = []
    for task in study.tasks if facts.neat and study.reference != paper.WITHOUT_MUTATION else ():
        family = [c for c in comparisons if (c.task, c.against) == (task, study.reference)]
        family = [c for c in family if facts.judged(task, c.arm)]
        adjusted = stats.holm([c.variance.p if c.variance else None for c in family])
        ratios = [paper.spread(task, facts.rules[c.arm]) for c in family]
        out += [_tighter(c, p, metric, ratio) for c, p, ratio in zip(family, adjusted, ratios, strict=True)]
    return out


def _tighter(c: Comparison, p: float | None, metric: str, ratio: float | None) -> Verdict:
    """`ratio`: of SDs, as the paper has it."""
    v, runs = c.variance, f"{c.n} and {c.n_against} runs"
    made = Verdict("tighter", c.task, c.arm, c.against, metric, TOO_FEW, runs, "")
    if v is None:
        return made._replace(why="one run has no spread")
    told = (
        f"SD {v.sd:,.1f} against {v.sd_against:,.1f}, " + ("no test" if p is None else f"p {show_p(p)}") + f", {runs}"
    )
    made, (leaning, torn) = made._replace(numbers=told), _leaning(v)
    points = leaning + (", but the SDs point the other way" if torn else "")
    if min(c.n, c.n_against) < FEWEST:
        return made._replace(why=f"fewer than {FEWEST} runs a side say little of spread; these are {points}")
    if p is None:
        return made._replace(why=f"no arm's distances from its median differ: nothing to test by; these are {points}")
    if v.sd == v.sd_against == 0.0:
        return made._replace(verdict=ALIKE, why="neither spreads")
    if p < ALPHA:
        return made._replace(
            verdict=SUPPORTED if leaning == TIGHTER else CONTRADICTED, why=f"significantly {points}"
        )  # fmt: skip
    verdict, because = _spreads_alike(c, ratio)
    if torn and verdict == NOT_SUPPORTED:
        verdict = UNDECIDED
    return made._replace(verdict=verdict, why=f"{because}; these runs are {points}")


def _leaning(v: stats.Variance) -> tuple[str, bool]:
    """Which way two spreads differ, by what the test compares; whether the SDs, which one bad run rules, contradict."""
    by = v.distance - v.distance_against
    told = TIGHTER if by < 0.0 else "wider" if by > 0.0 else "as wide"
    return told, by * (v.sd - v.sd_against) < 0.0


def _spreads_alike(c: Comparison, ratio: float | None) -> tuple[str, str]:
    """The verdict where the test finds no difference of spread, and which of them the runs exclude.

    The interval is one of mean distances from the median, the paper's ratio one of SDs: held against it as it is.
    """
    if c.spread is None:
        return UNDECIDED, "not significant"
    estimate, low, high = c.spread
    assert low is not None and high is not None
    said = "not " if ratio is not None and low <= ratio <= high else ""
    papers = "" if ratio is None else f"; the paper's ratio of SDs, {ratio:.2f}, is {said}excluded"
    ends = {"half as large or less": low <= 0.5, "twice as large or more": high >= 2.0}
    left = " or ".join(name for name, is_open in ends.items() if is_open)
    if not left:
        return ALIKE, f"not significant, and a spread half or twice as large is excluded{papers}"
    told = f"{c.n} and {c.n_against} runs, whose mean distance from the median is {estimate:.2g} times the other's,"
    told += f" exclude less than {low:.2g} and more than {high:.2g}: {left} is left open"
    claimed = max(0.5, min(ratio or 0.5, 1.0))  # above 1 the paper's own table has no tighter spread
    return NOT_SUPPORTED if low > claimed else UNDECIDED, f"not significant; {told}{papers}"


def _ablation(study: Study, facts: _Facts, scores: Scores, metric: str) -> list[Verdict]:
    """Against NEAT without weight mutation, a family of its own."""
    other = paper.WITHOUT_MUTATION
    names = [a.name for a in study.arms]
    if other not in names or study.reference == other:
        return []
    out = []
    for task in study.tasks:
        pairs = [(a, other) for a in names if facts.judged(task, a)]
        found = stats.compare(task, {a: scores.get((task, a), ()) for a in names}, pairs, 0)
        out += [_verdict("ablation", c, metric) for c in found if c.n and c.n_against]
    return out


def _inheritance(study: Study, scores: Scores, metric: str) -> list[Verdict]:
    """X-lamarckian against X-darwinian; the claim is that there is no difference."""
    names = [a.name for a in study.arms if not a.control_of]
    pairs = [(a, a.replace("-lamarckian", "-darwinian")) for a in names if a.endswith("-lamarckian")]
    pairs = [p for p in pairs if p[1] in names]
    claimed = {BETTER: CONTRADICTED, WORSE: CONTRADICTED, ALIKE: SUPPORTED}
    out = []
    for task in study.tasks:
        for c in stats.compare(task, {a: scores.get((task, a), ()) for a in names}, pairs, 0):
            if c.n and c.n_against:
                verdict = _verdict("inheritance", c, metric)
                out.append(verdict._replace(verdict=claimed.get(judge(c), judge(c))))
    return out


def _ceiling(study: Study, scores: Scores, metric: str) -> list[Verdict]:
    """On CartPole every run of every arm of the paper should end at 500."""
    out = []
    for arm in (a.name for a in study.arms if a.name in paper.FITNESS["cartpole"]):
        values = scores.get(("cartpole", arm), np.empty(0))
        if not len(values):
            continue
        at, n = int((values >= paper.CEILING).sum()), len(values)
        verdict = SUPPORTED if at == n else PARTLY if at else CONTRADICTED
        told = f"{at} of {n} runs at {paper.CEILING:g}, the lowest {values.min():,.2f}"
        because = f"{'all' if at == n else 'some' if at else 'none'} of them reach it"
        if n < FEWEST:
            verdict, because = TOO_FEW, f"fewer than {FEWEST} runs; {because}"
        out.append(Verdict("ceiling", "cartpole", arm, "", metric, verdict, told, because))
    return out
