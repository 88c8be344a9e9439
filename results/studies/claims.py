"""The paper's claims, one by one, with what its own budget shows, from the committed databases.

    python results/studies/claims.py        # writes claims.md beside itself

First what was run, with its CPU hours; then for every claim, task and arm both metrics' means, verdict, numbers and
reasons.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from neol.config.schema import Config
from neol.files import write_atomic
from neol.report import paper
from neol.report.analysis import Analysis, analyse, budget
from neol.report.verdicts import BEST, HELD_OUT, Verdict
from neol.studies.study import Study

HERE = Path(__file__).parent
# Which claims each study is there to settle; Figure 3's arms in the other are the same runs.
STUDIES = {"figure3-10m": tuple(paper.CLAIMS), "inheritance-10m": ("inheritance",)}
# What the paper has of its own: the heading, and where it is from.
EFFECTS = {
    "higher": ("the paper's A12 over NEAT", paper.effect),
    "plasticity": ("the paper's A12 over NEAT", paper.effect),
    "tighter": ("the paper's ratio of SDs", paper.spread),
}


def ran(study: Study, counted: set[str]) -> Iterator[str]:
    """A task's budget and hours, and how many of its planned seeds each arm has. `counted`: runs of studies before."""
    with study.database.reading() as db:
        seconds = dict(db.execute("SELECT run, cpu_seconds FROM clock").fetchall())
    done = {r.run for r in study.finished}
    for task in study.tasks:
        rows = [r for r in study.rows if r.task == task]
        own = sum(seconds[run] or 0.0 for run in {r.run for r in rows if r.key not in counted} & done)
        planned, finished = defaultdict(set), defaultdict(set)
        for r in rows:
            planned[study.label(r.arm)].add(r.seed)
            finished[study.label(r.arm)].update({r.seed} if r.run in done else ())
        told = "; ".join(f"{label} {len(finished[label])} of {len(seeds)}" for label, seeds in planned.items())
        if any(finished.values()):
            shared = " of its own" if counted else ""
            yield f"- {budget(study, task)}; {own / 3600:.1f} CPU hours{shared}. Seeds: {told}."
    counted.update(r.key for r in study.finished)


def unfinished(study: Study, analysis: Analysis, claims: tuple[str, ...]) -> int:
    """How many runs are missing of the arms that these claims compare; another arm's leave their tests as they are."""
    compared = {arm for v in analysis.verdicts if v.claim in claims for arm in (v.arm, v.against)}
    done = {r.run for r in study.finished}
    return len({r.run for r in study.rows if r.arm in compared} - done)


def means(analysis: Analysis, v: Verdict) -> str:
    """The arm's mean, and that of whom it met."""
    line = {(x.task, x.arm): x.best if v.metric == BEST else x.held_out for x in analysis.lines}
    return " and ".join(f"{line[v.task, arm].mean:,.0f}" for arm in (v.arm, v.against) if arm)


def papers(study: Study, v: Verdict) -> str:
    """The effect that the paper has, where it gives one."""
    config = study.config(next(r.run for r in study.finished if r.arm == v.arm))
    rule = config.plasticity.rule if isinstance(config, Config) else ""
    value = EFFECTS[v.claim][1](v.task, rule) if v.claim in EFFECTS else None
    return "" if value is None else f"{value:.2f}"


def claim(study: Study, analysis: Analysis, name: str) -> Iterator[str]:
    """A table: a task and an arm a row."""
    verdicts = {(v.task, v.arm, v.against, v.metric): v for v in analysis.verdicts if v.claim == name}
    if not verdicts:
        return
    yield f"### {paper.CLAIMS[name]}\n"
    yield f"| task | arm | final best fitness | held-out return | {EFFECTS[name][0] if name in EFFECTS else ''} |"
    yield "| --- | --- | --- | --- | --- |"
    for task, arm, against in dict.fromkeys(key[:3] for key in verdicts):
        both = [verdicts[task, arm, against, metric] for metric in (BEST, HELD_OUT)]
        cells = [f"{means(analysis, v)}: **{v.verdict}**; {v.numbers}; {v.why}" for v in both]
        who = study.label(arm) + (f" against {study.label(against)}" if against else "")
        yield f"| {task} | {who} | {' | '.join(cells)} | {papers(study, both[0])} |"
    yield ""


def main() -> None:
    lines = ["# The paper's claims at its own budget", "", "`python results/studies/claims.py`", ""]
    counted: set[str] = set()
    for folder, claims in STUDIES.items():
        study = Study(HERE / folder)
        analysis = analyse(study)
        lines += [f"## {study.title}", "", *ran(study, counted), ""]
        if missing := unfinished(study, analysis, claims):
            told = "runs of the arms compared here are missing; the number of seeds was fixed before the first run"
            lines += [f"An early look: {missing} {told}.", ""]
        lines += [line for name in claims for line in claim(study, analysis, name)]
    write_atomic(HERE / "claims.md", "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
