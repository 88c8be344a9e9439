"""A study's tables: as rows for a page, as CSV, and as LaTeX in the paper's format with its figures beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from neol import stats
from neol.files import cell
from neol.report import paper
from neol.report.analysis import Analysis, common_tasks
from neol.report.verdicts import BEST, judge
from neol.stats import Comparison, Interval, SampleSummary
from neol.studies.plan import differences
from neol.studies.study import METRICS, Study

NOTHING = "–"


class Table(NamedTuple):
    """Cells are (what is shown, what it sorts by)."""

    name: str
    caption: str
    columns: list[str]
    rows: list[list[tuple[str, Any]]]


def _number(value: float | None, digits: int = 1) -> tuple[str, Any]:
    return (NOTHING, None) if value is None else (f"{value:,.{digits}f}", value)


def _spread(s: SampleSummary) -> tuple[str, Any]:
    if s.mean is None:
        return NOTHING, None
    return f"{s.mean:,.1f} ± {s.sd:,.1f}" if s.sd is not None else f"{s.mean:,.1f}", s.mean


def interval_cell(i: Interval | None, digits: int = 1) -> tuple[str, Any]:
    if i is None:
        return NOTHING, None
    told = "" if i.low is None or i.high is None else f" ({i.low:,.{digits}f} to {i.high:,.{digits}f})"
    return f"{i.estimate:,.{digits}f}{told}", i.estimate


def results_table(analysis: Analysis) -> Table:
    """Every arm on every task."""
    columns = [
        "task", "arm", "runs", "held-out return, mean ± SD", "held out, median", "held out, IQM (95 %)",
        "final best fitness, mean ± SD", "best, IQM (95 %)", "winner's-curse gap", "million steps", "parameters",
        "CPU seconds per million steps", "paper: mean ± SD",
    ]  # fmt: skip
    rows = []
    for x in analysis.lines:
        reported = (f"{x.paper[0]:,.1f} ± {x.paper[1]:,.1f}", x.paper[0]) if x.paper else (NOTHING, None)
        rows.append([
            (x.task, x.task), (x.label, x.label), (str(x.held_out.n), x.held_out.n), _spread(x.held_out),
            _number(x.held_out.median), interval_cell(x.held_out.iqm), _spread(x.best), interval_cell(x.best.iqm),
            _number(x.gap.mean), _number(x.env_steps / 1e6 if x.env_steps else None, 3), _number(x.parameters, 0),
            _number(x.seconds, 0), reported,
        ])  # fmt: skip
    return Table("results", "What every arm came to", columns, rows)


def comparisons_table(study: Study, analysis: Analysis, metric: str) -> Table:
    """Every test of one metric."""
    label = {a.name: a.label for a in study.arms}
    columns = ["task", "arm", "against", "verdict", "runs", "difference of means (95 %)", "A12 (95 %)", "effect", "p",
               "p, Holm", "SD ratio", "p, spread", "p, one-sided", "paper: p, one-sided"]  # fmt: skip
    rows = []
    for c in analysis.comparisons[metric]:
        reported = paper.RANK_SUM.get(c.task, {}).get(c.arm) if metric == BEST and c.against == "neat" else None
        effect = stats.magnitude(c.a12.estimate) if c.a12 else NOTHING
        spread = c.variance
        rows.append([
            (c.task, c.task), (label[c.arm], label[c.arm]), (label[c.against], label[c.against]),
            (judge(c), judge(c)), (f"{c.n}, {c.n_against}", c.n), interval_cell(c.difference), interval_cell(c.a12, 2),
            (effect, c.a12.estimate if c.a12 else None), p_cell(c.p), p_cell(c.p_holm),
            _number(spread.ratio if spread else None, 2), p_cell(spread.p if spread else None), p_cell(c.p_better),
            p_cell(reported),
        ])  # fmt: skip
    return Table(f"tests-{metric}", METRICS[metric], columns, rows)


def p_cell(p: float | None) -> tuple[str, Any]:
    return (NOTHING, None) if p is None else (f"{p:.3f}" if p >= 0.001 else f"{p:.1e}", p)


def aggregates_table(study: Study, analysis: Analysis) -> Table:
    """Over the tasks: IQM of normalised scores, and how probably an arm's run beats another's."""
    label = {a.name: a.label for a in study.arms}
    columns = ["arm", "against", "held out (95 %)", "final best fitness (95 %)"]
    rows = []
    for arm in analysis.aggregates[BEST]:
        two = [analysis.aggregates[m].get(arm) for m in ("held_out", BEST)]
        rows.append([(label[arm], label[arm]), ("normalised score, IQM", ""), *(interval_cell(i, 2) for i in two)])
    for pair in analysis.improvement[BEST]:
        two = [analysis.improvement[m].get(pair) for m in ("held_out", BEST)]
        against = f"P(better than {label[pair[1]]})"
        rows.append([(label[pair[0]], label[pair[0]]), (against, against), *(interval_cell(i, 2) for i in two)])
    tasks = common_tasks(study, study.scores(BEST))
    return Table("aggregates", f"Over the tasks that all arms have: {', '.join(tasks)}", columns, rows)


def differences_table(study: Study) -> Table:
    """The settings in which each arm differs from the one that it is compared with."""
    first: dict[tuple[str, str], int] = {}
    for r in study.rows:  # of a grid, at the places that are compared
        if r.point == study.best_points.get((r.task, r.arm), r.point):
            first.setdefault((r.task, r.arm), r.run)
    pairs = [(a.name, a.control_of or study.reference) for a in study.arms]
    label = {a.name: a.label for a in study.arms}
    rows = []
    for task in study.tasks:
        for arm, against in pairs:
            if arm == against or (task, arm) not in first or (task, against) not in first:
                continue
            changed = differences(study.config(first[task, against]), study.config(first[task, arm]))
            told = "; ".join(f"{k}: {_setting(x)} → {_setting(y)}" for k, (x, y) in changed.items()) or "nothing"
            rows.append([(task, task), (label[against], label[against]), (label[arm], label[arm]), (told, told)])
    return Table("differences", "What differs between arms", ["task", "from", "to", "settings"], rows)


def _setting(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def to_csv(table: Table) -> str:
    """The table with its sorting values where those are numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell, table.columns))
    for row in table.rows:
        writer.writerow([cell(shown) if isinstance(key, str) else shown for shown, key in row])
    return text.getvalue()


def comparisons_csv(analysis: Analysis) -> str:
    """Every test with all of its numbers, in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([
        "metric", "task", "arm", "against", "n", "n_against", "difference", "difference_low", "difference_high", "a12",
        "a12_low", "a12_high", "p", "p_holm", "p_least", "p_better", "sd", "sd_against", "p_brown_forsythe",
        "spread_ratio", "spread_ratio_low", "spread_ratio_high", "verdict",
    ])  # fmt: skip
    for metric, found in analysis.comparisons.items():
        for c in found:
            ps = (c.p, c.p_holm, c.p_least, c.p_better)
            writer.writerow(
                [
                    metric,
                    *map(cell, c[:5]),
                    *_three(c.difference),
                    *_three(c.a12),
                    *ps,
                    *_variance(c),
                    *_three(c.spread),
                    judge(c),
                ]
            )
    return text.getvalue()


def _three(i: Interval | None) -> Sequence[float | None]:
    return (None, None, None) if i is None else i


def _variance(c: Comparison) -> Sequence[float | None]:
    v = c.variance
    return (None, None, None) if v is None else (v.sd, v.sd_against, v.p)


# -- LaTeX, in the paper's format


def latex(study: Study, analysis: Analysis) -> str:
    """Tables 4 and 6 (mean and SD per task and arm, the best in bold) and 5 (p values), ours over the paper's."""
    own = [a for a in study.arms if not a.control_of]
    out = ["% Made by `neol report`; needs booktabs.", *_latex_fitness(study, analysis, own)]
    if study.reference:
        out += ["", *_latex_tests(study, analysis)]
    return "\n".join(out) + "\n"


def _latex_fitness(study: Study, analysis: Analysis, arms: Sequence[Any]) -> list[str]:
    lines = {(x.task, x.arm): x for x in analysis.lines}
    head = " & ".join(["Task", *(_tex(a.label) for a in arms)]) + r" \\"
    out = [rf"\begin{{tabular}}{{l{'c' * len(arms)}}}", r"\toprule", head]
    for name, of in (("Final best fitness", "best"), ("Held-out return", "held_out"), ("Paper", "paper")):
        out += [r"\midrule", rf"\multicolumn{{{len(arms) + 1}}}{{l}}{{{name}, mean $\pm$ SD}} \\"]
        for task in study.tasks:
            pairs = [_mean_sd(lines.get((task, a.name)), of) for a in arms]
            means = [p[0] for p in pairs if p is not None]
            cells = [_tex_pair(p, p is not None and p[0] == max(means)) for p in pairs]
            out.append(" & ".join([rf"\emph{{{_tex(task)}}}", *cells]) + r" \\")
    return [*out, r"\bottomrule", r"\end{tabular}"]


def _mean_sd(line: Any, of: str) -> tuple[float, float | None] | None:
    if line is None or getattr(line, of) is None:
        return None
    if of == "paper":
        return line.paper
    s: SampleSummary = getattr(line, of)
    return None if s.mean is None else (s.mean, s.sd)


def _tex_pair(pair: tuple[float, float | None] | None, best: bool) -> str:
    if pair is None:
        return "--"
    text = f"{pair[0]:.2f}" if pair[1] is None else rf"{pair[0]:.2f} \pm {pair[1]:.2f}"
    return rf"$\mathbf{{{text}}}$" if best else f"${text}$"


def _latex_tests(study: Study, analysis: Analysis) -> list[str]:
    found = [c for c in analysis.comparisons[BEST] if c.against == study.reference]
    arms = list(dict.fromkeys(c.arm for c in found))
    label = {a.name: a.label for a in study.arms}
    p = {(c.task, c.arm): c.p_better for c in found}
    head = " & ".join(["Task", *(f"{_tex(label[a])} & paper" for a in arms)]) + r" \\"
    out = [rf"\begin{{tabular}}{{l{'cc' * len(arms)}}}", r"\toprule", head, r"\midrule"]
    for task in study.tasks:
        cells = [
            f"{_tex_p(p.get((task, a)))} & {_tex_p(paper.RANK_SUM.get(task, {}).get(a))}" for a in arms
        ]  # fmt: skip
        out.append(" & ".join([rf"\emph{{{_tex(task)}}}", *cells]) + r" \\")
    return [*out, r"\bottomrule", r"\end{tabular}"]


def _tex_p(p: float | None) -> str:
    if p is None:
        return "--"
    mantissa, _, exponent = f"{p:.2e}".partition("e")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$"


def _tex(text: str) -> str:
    special = {c: rf"\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"}
    return "".join(special.get(c, c) for c in " ".join(text.split()) if c.isprintable())
