"""The paper's claims, one by one, with what its own budget shows: Markdown from the committed databases.

    python results/studies/claims.py > results/studies/claims.md

First what was run, with its CPU hours; then for every claim, task and arm both metrics' means, verdict and numbers,
and what the runs exclude where they do not settle it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from neol.config.schema import Config
from neol.report import paper
from neol.report.analysis import Analysis, analyse, budget
from neol.report.verdicts import BEST, CONTRADICTED, HELD_OUT, SUPPORTED, Verdict
from neol.studies.study import Study

HERE = Path(__file__).parent
# Which claims each study is there to settle; Figure 3's arms in the other are the same runs.
STUDIES = {"figure3-10m-full": tuple(paper.CLAIMS), "inheritance-10m": ("inheritance",)}
SETTLED = (SUPPORTED, CONTRADICTED)


def hours(study: Study) -> dict[str, float]:
    """CPU hours of each task's finished runs."""
    spent: dict[str, float] = defaultdict(float)
    task = {r.run: r.task for r in study.finished}
    with study.database.reading() as db:
        for run, seconds in db.execute("SELECT run, cpu_seconds FROM clock"):
            spent[task[run]] += (seconds or 0.0) / 3600
    return spent


def ran(study: Study) -> list[str]:
    """Budgets, hours, and how many of a task's planned seeds each arm has."""
    spent, lines = hours(study), []
    for task in study.tasks:
        seeds = defaultdict(set)
        for r in study.finished:
            if r.task == task:
                seeds[study.label(r.arm)].add(r.seed)
        if seeds:
            told = ", ".join(f"{label} {len(s)}" for label, s in seeds.items())
            lines.append(f"- {budget(study, task)}; {spent[task]:.1f} CPU hours. Seeds: {told}.")
    return lines


def means(analysis: Analysis, v: Verdict) -> str:
    """The arm's mean, and that of whom it met."""
    line = {(x.task, x.arm): x.best if v.metric == BEST else x.held_out for x in analysis.lines}
    return " and ".join(f"{line[v.task, arm].mean:,.0f}" for arm in (v.arm, v.against) if arm)


def told(v: Verdict) -> str:
    """A verdict's numbers; where it settles nothing also what these runs exclude."""
    return v.numbers if v.verdict in SETTLED else f"{v.numbers}; {v.why}"


# What the paper has of its own: the heading, and where it is from.
EFFECTS = {
    "higher": ("the paper's A12 over NEAT", paper.effect),
    "plasticity": ("the paper's A12 over NEAT", paper.effect),
    "tighter": ("the paper's ratio of SDs", paper.spread),
}


def papers(study: Study, v: Verdict) -> str:
    """The effect that the paper has, where it gives one."""
    config = study.config(next(r.run for r in study.finished if r.arm == v.arm))
    rule = config.plasticity.rule if isinstance(config, Config) else ""
    value = EFFECTS[v.claim][1](v.task, rule) if v.claim in EFFECTS else None
    return "" if value is None else f"{value:.2f}"


def claim(study: Study, analysis: Analysis, name: str) -> list[str]:
    """A table: a task and an arm a row."""
    verdicts = {(v.task, v.arm, v.against, v.metric): v for v in analysis.verdicts if v.claim == name}
    if not verdicts:
        return []
    heading = EFFECTS[name][0] if name in EFFECTS else ""
    lines = [
        f"### {paper.CLAIMS[name]}", "", f"| task | arm | final best fitness | held-out return | {heading} |",
        "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for task, arm, against in dict.fromkeys(key[:3] for key in verdicts):
        both = [verdicts[task, arm, against, metric] for metric in (BEST, HELD_OUT)]
        cells = [f"{means(analysis, v)}: **{v.verdict}**; {told(v)}" for v in both]
        who = study.label(arm) + (f" against {study.label(against)}" if against else "")
        lines.append(f"| {task} | {who} | {' | '.join(cells)} | {papers(study, both[0])} |")
    return [*lines, ""]


def main() -> None:
    print("# The paper's claims at its own budget\n\n`python results/studies/claims.py > results/studies/claims.md`\n")
    for folder, claims in STUDIES.items():
        study = Study(HERE / folder)
        analysis = analyse(study)
        print("\n".join([f"## {study.title}", "", *ran(study), ""]))
        print("\n".join(line for name in claims for line in claim(study, analysis, name)))


if __name__ == "__main__":
    main()
