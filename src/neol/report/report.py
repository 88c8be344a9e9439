"""`neol report`: a study's folder -> report/index.html, figures, CSV and LaTeX. The same study, the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from neol.errors import NeolError
from neol.files import check_no_links, read_text, write_atomic
from neol.report import adaptation, panels, paper
from neol.report import tables as study_tables
from neol.report.analysis import Analysis, analyse, budget
from neol.report.html import figures_html, markdown_html, page, picture_html, table_html
from neol.report.verdicts import (
    AGAINST_BASELINE,
    AGAINST_CONTROL,
    AGAINST_REFERENCE,
    ALIKE,
    BETTER,
    CONTRADICTED,
    JUDGED,
    LABELS,
    NOT_SUPPORTED,
    PARTLY,
    SUPPORTED,
    TOO_FEW,
    WORSE,
    Verdict,
)
from neol.studies.study import Study, to_csv

PAGE, FIGURES = "index.html", "figures"
_CLASS = {
    SUPPORTED: "yes", BETTER: "yes", PARTLY: "yes", CONTRADICTED: "no", WORSE: "no",
    NOT_SUPPORTED: "alike", ALIKE: "alike",
}  # fmt: skip


def make_report(study: Study, out: Path, seed: int = 0, regret: Sequence[Path] = (), lives: bool = False) -> Path:
    """Write the report into the folder `out`; return the page. `regret`: folders of `neol regret` to tell of too.

    No environment is made, unless `lives` is wanted: champions of NEOL's own tasks then live an episode each.
    """
    analysis, regrets = analyse(study, seed), "".join(map(_regret, regret))
    adapted = adaptation.adapted(study, seed)
    _open_folder(out)
    tables = {
        "results": study_tables.results_table(analysis),
        **{m: study_tables.comparisons_table(study, analysis, m) for m in JUDGED},
        "aggregates": study_tables.aggregates_table(study, analysis),
        **({"adaptation": adaptation.adaptation_table(study, adapted)} if adapted else {}),
        "differences": study_tables.differences_table(study),
    }
    grid = len(study.points) > 1
    of_paper = any(v.claim in paper.CLAIMS for v in analysis.verdicts)
    heading = "What the paper claims, and what this study shows" if of_paper else "What this study shows"
    sections = [  # those that have something to say; a study about adaptation begins with it
        ("adaptation", "Does learning in life pay?", _adaptation_html(study, adapted, tables, out / FIGURES)),
        ("verdicts", heading, _verdicts_html(study, analysis) + _reading(study, analysis)),
        ("results", "Results", _budgets(study) + table_html(tables["results"])),
        ("convergence", "Convergence", "" if grid else _convergence_html(study, out / FIGURES)),
        ("distributions", "Distributions over runs", "" if grid else figures_html(panels.boxes(study, out / FIGURES))),
        ("heatmaps", "Over the grid", _grid_html(study, out / FIGURES) if grid else ""),
        ("tests", "Tests", "".join(table_html(tables[m]) for m in JUDGED) + _tests_note()),
        ("aggregates", "Over all tasks", table_html(tables["aggregates"]) if len(study.tasks) > 1 else ""),
        ("champions", "Champions", figures_html(panels.champions(study, out / FIGURES, lives))),
        ("arms", "What differs between arms", table_html(tables["differences"])),
        ("regret", "Regret beside its bound", regrets),
        ("again", "How it was made", _again(study)),
    ]
    for name, table in tables.items():
        write_atomic(out / f"{name}.csv", study_tables.to_csv(table))
    write_atomic(out / "runs.csv", to_csv(study))
    write_atomic(out / "tests.csv", study_tables.comparisons_csv(analysis))
    write_atomic(out / "tables.tex", study_tables.latex(study, analysis))
    told = "".join(f"{line}\n" for line in adaptation.lines(study, adapted))
    write_atomic(out / "verdicts.txt", told + verdicts_text(study, analysis))
    write_atomic(out / PAGE, page(study.title, [s for s in sections if s[2]]))
    return out / PAGE


def _open_folder(out: Path) -> None:
    """The report's folder and that of its figures; nothing in them may be a link to elsewhere."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        check_no_links(out, [p.name for p in out.iterdir()])
        (out / FIGURES).mkdir(exist_ok=True)
        check_no_links(out / FIGURES, [p.name for p in (out / FIGURES).iterdir()])
    except OSError as e:
        raise NeolError(f"cannot use '{out}' as a report's folder: {e.strerror}.") from None


# -- words


def verdicts_text(study: Study, analysis: Analysis) -> str:
    """The verdicts for a terminal: a question, and under it what each metric says."""
    lines = []
    for claim, verdicts in _by_claim(analysis).items():
        lines.append(_title(study, claim))
        for metric, name in JUDGED.items():
            lines.append(f"  {name}")
            lines += [f"    {line}" for line in _counted(study, [v for v in verdicts if v.metric == metric])]
    return "\n".join(lines or [_nothing(study)]) + "\n"


def _by_claim(analysis: Analysis) -> dict[str, list[Verdict]]:
    out: dict[str, list[Verdict]] = {}
    for v in analysis.verdicts:
        out.setdefault(v.claim, []).append(v)
    return out


def _title(study: Study, claim: str) -> str:
    own = {
        AGAINST_CONTROL: "What plasticity does: each arm against its matched control (the same settings, lr = 0).",
        AGAINST_REFERENCE: f"Each arm against {study.label(study.reference) if study.reference else 'the reference'}.",
        AGAINST_BASELINE: "Each arm against the baselines.",
    }
    return own.get(claim) or paper.CLAIMS[claim]


def _nothing(study: Study) -> str:
    why = "it names no reference" if not study.reference else "no other arm has finished runs"
    return f"No arm of this study is compared with another: {why}, and no arm has a matched control."


def _counted(study: Study, verdicts: list[Verdict]) -> list[str]:
    """Each verdict with the tasks and arms that it is about."""
    found = {label: [v for v in verdicts if v.verdict == label] for label in LABELS}
    lines = [f"{k}, {len(those)} of {len(verdicts)}: {_named(study, those)}" for k, those in found.items() if those]
    return lines or ["no runs"]


def _named(study: Study, verdicts: list[Verdict]) -> str:
    by_task: dict[str, list[str]] = {}
    for v in verdicts:
        by_task.setdefault(v.task, []).append(_who(study, v))
    return " | ".join(f"{task}: {'; '.join(who)}" for task, who in by_task.items())


def _who(study: Study, v: Verdict) -> str:
    """The arm, and whom it met where the question does not say that."""
    met = v.claim in ("baselines", AGAINST_BASELINE, "inheritance")
    return f"{study.label(v.arm)} against {study.label(v.against)}" if met else study.label(v.arm)


def _verdicts_html(study: Study, analysis: Analysis) -> str:
    parts = []
    for claim, verdicts in _by_claim(analysis).items():
        pairs: dict[tuple[str, str, str], list[Verdict]] = {}
        for v in verdicts:
            pairs.setdefault((v.task, v.arm, v.against), []).append(v)
        few = [both for both in pairs.values() if all(v.verdict == TOO_FEW for v in both)]
        told = _pairs_html(study, [both for both in pairs.values() if both not in few])
        if few:
            names = f"{TOO_FEW}: {_named(study, [both[0] for both in few])}"
            told += f"<details><summary>{escape(_sentence(names))}</summary>{_pairs_html(study, few)}</details>"
        parts.append(f'<div class="claim"><h3>{escape(_title(study, claim))}</h3>{told}</div>')
    return "".join(parts) or f"<p>{escape(_nothing(study))}</p>"


def _pairs_html(study: Study, pairs: list[list[Verdict]]) -> str:
    items = "".join(f"<li>{_pair_html(study, both)}</li>" for both in pairs)
    return f'<ul class="verdicts">{items}</ul>' if items else ""


def _pair_html(study: Study, verdicts: list[Verdict]) -> str:
    """One pair of arms on one task: what each metric says, and from which numbers."""
    first = verdicts[0]
    against = f" against {study.label(first.against)}" if first.against else ""
    head = f'<div class="who">{escape(first.task)}: {escape(study.label(first.arm) + against)}</div>'
    return head + "".join(
        f'<div class="said"><span class="metric">{JUDGED[v.metric]}:</span> {_chip(v.verdict)}'
        f'<span class="numbers">{escape(v.numbers)}</span><span class="why">{escape(_sentence(v.why))}</span></div>'
        for v in verdicts
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _chip(verdict: str) -> str:
    return f'<span class="chip {_CLASS.get(verdict, "open")}">{verdict}</span>'


def _reading(study: Study, analysis: Analysis) -> str:
    """How the verdicts were reached: what holds for all, and for the claims that are judged here."""
    claims = {v.claim for v in analysis.verdicts}
    if not claims:
        return ""
    told = [_JUDGING[0], *(line for line in _JUDGING[1:] if line[0] & claims)]
    if len(study.points) > 1:
        told.append((set(), _GRID))
    items = "".join(f"<li>{escape(text)}</li>" for _, texts in told for text in texts)
    return f'<details class="muted"><summary>How it is judged</summary><ul>{items}</ul></details>'


_JUDGING: list[tuple[set[str], tuple[str, ...]]] = [
    (
        set(),
        (
            "Each metric on its own. Held-out return: the mean of fresh episodes of the champion, which was chosen on "
            "other fresh episodes. Final best fitness: the paper's metric, the luckiest of many noisy rollouts.",
            "The numbers: difference of means with its bootstrap interval (from 5 runs a side on); A12, the "
            "probability that a run of the arm beats one of the other, with its interval; p after Holm; runs.",
            "Better, worse (of a claim that an arm is better: supported, contradicted): the exact two-sided rank-sum "
            "test has p < 0.05 after Holm over the comparisons that answer the same question on the task.",
            "No difference found: it has not, and the 95 % interval of A12 excludes a large effect (0.71) either way, "
            "of a claim the paper's own where that is smaller; or every run has the same score.",
            "Not supported (of a claim that an arm is better): not significant, and the interval of A12 excludes that "
            "advantage, but not a large disadvantage. The paper's own: the A12 over NEAT, in best fitness, that its p "
            "of 30 runs a side stands for, taken as exact; intervals are not adjusted for their number, p values are.",
            "Too few seeds to tell: even complete separation could not be significant. Undecided: anything else.",
        ),
    ),
    (
        {"tighter"},
        (
            "Tighter: Brown-Forsythe, two-sided, after Holm, from 5 runs a side on. No difference found: Bonett and "
            "Seier's 95 % interval for the ratio of mean distances from the median excludes a factor of 2 either way. "
            "Not supported: it excludes half or less, and the paper's ratio, one of standard deviations (1 where that "
            "is above 1), and standard deviations point the same way. One very bad run rules those, not the distances.",
        ),
    ),
    ({"ceiling"}, ("Ceiling: supported when every run is there, from 5 runs on.",)),
    (
        {"inheritance"},
        ("Comes to the same: supported where no difference is found, contradicted by a significant one.",),
    ),
    ({"baselines"}, ("Baselines whose number of steps differs by more than half are not judged.",)),
    (
        {"higher", "plasticity"},
        (
            "Only the comparison with the matched control (same settings, lr = 0) says what plasticity does: the "
            "paper's NEAT arm also differs in its mutation rates.",
        ),
    ),
]
_GRID = (
    "Of the grid, each arm is taken at the place with its highest mean final best fitness, as in the paper, and its "
    "control at the same place: chosen by the numbers that are then compared, which flatters.",
)


def _tests_note() -> str:
    return _muted(
        "The unit is the run (seed). p: two-sided rank-sum, exact up to 100 runs in all, ties included; Holm over the "
        "task's comparisons with the reference, with the own controls, or with one baseline. p, one-sided: the arm is "
        "better, as the paper tests, without Holm. A12: probability that a run of the arm beats one of the other "
        "(Newcombe's interval). Spread: Brown-Forsythe, two-sided. Differences: percentile bootstrap, 10,000 "
        "resamples; with 3 runs a side these intervals cover about 75 %, not 95 %. Runs of the same seed start from "
        "the same population; the tests do not use that."
    )


def _convergence_html(study: Study, folder: Path) -> str:
    """The fitness over the run, and the held-out return where there is one: at the end."""
    return _muted(
        "Curves: means over runs; bands: 95 % intervals of the mean, or the range where there are fewer than 5 runs. "
        "The held-out return is measured only at the end of a run, on the champion, so that there is no curve of it: "
        "filled points are its means with such intervals, hollow ones the mean final best fitness."
    ) + figures_html(panels.final_means(study, folder) + panels.convergence(study, folder))


def _adaptation_html(
    study: Study, found: list[adaptation.Adapted], tables: dict[str, study_tables.Table], folder: Path
) -> str:
    """Of a study whose arms have roles: a picture for each world, a sentence, and the table behind them."""
    if not found:
        return ""
    items = "".join(f"<li>{escape(_sentence(line))}</li>" for line in adaptation.lines(study, found))
    figures = figures_html(panels.adaptations(study, found, folder))
    return f"<ul>{items}</ul>{figures}{table_html(tables['adaptation'])}{_muted(adaptation.HOW)}"


def _grid_html(study: Study, folder: Path) -> str:
    figures = panels.heatmaps(study, folder)
    return figures_html(figures) if figures else _muted("A grid of more than two axes is in runs.csv, not in a map.")


def _muted(text: str) -> str:
    return f'<p class="muted">{escape(text)}</p>'


def _budgets(study: Study) -> str:
    items = "".join(f"<li>{escape(budget(study, task))}</li>" for task in study.tasks)
    missing = len({r.key for r in study.rows if r.status != "done"})
    left = (
        "<p>The tests take the number of seeds as fixed beforehand: seeds that are added because of what these showed "
    )
    left += "would make p too small.</p>"
    if missing:
        left += (
            f"<p><strong>{missing} runs of this study have not finished.</strong> This is an early look: its tests "
            "count when all runs are there.</p>"
        )
    return f"<p>What was really run:</p><ul>{items}</ul>{left}"


def _again(study: Study) -> str:
    done = {r.run: r for r in study.finished}.values()
    hours = sum(r.seconds or 0.0 for r in done) / 3600
    failed = "".join(f"<li><code>{escape(k)}</code>: {escape(why)}</li>" for k, why in study.failures())
    versions = ", ".join(f"{k} {' and '.join(v)}" for k, v in study.versions().items())
    return (
        f"<p>{len(done)} runs, {hours:.1f} CPU hours, {sum(r.env_steps or 0 for r in done) / 1e6:,.0f} million "
        f"environment steps. {escape(versions)}.</p>"
        + (f"<p>Runs that failed:</p><ul>{failed}</ul>" if failed else "")
        + "<details><summary>The study's file</summary>"
        + f"<pre><code>{escape(study.facts.get('plan', ''))}</code></pre></details>"
        '<p>Beside this page: <a href="runs.csv">runs.csv</a> (a line per run), <a href="tests.csv">tests.csv</a>, '
        '<a href="tables.tex">tables.tex</a> (the paper\'s format), and the figures as SVG and PNG.</p>'
    )


def _regret(folder: Path) -> str:
    """What `neol regret` found, and its picture."""
    try:
        text = read_text(folder / "regret.md")
        return markdown_html(text) + picture_html(folder / "regret-loglog.png", "Regret and its bounds over the rounds")
    except (OSError, UnicodeDecodeError) as e:
        raise NeolError(f"'{folder}' is not a folder of `neol regret`: {getattr(e, 'strerror', e)}.") from None
