"""`neol report`: a study's folder -> report/index.html, figures, CSV and LaTeX. The same study, the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from neol.deploy.evaluation import lifetime
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.figures.network import draw_network
from neol.files import write_atomic
from neol.report import paper
from neol.report import tables as study_tables
from neol.report.analysis import (
    BEST,
    HELD_OUT,
    INCONCLUSIVE,
    NOT_REPRODUCED,
    REPRODUCED,
    Analysis,
    Verdict,
    analyse,
    budget,
)
from neol.report.figures import Curve, Look, draw_boxes, draw_convergence, draw_heatmap, draw_lifetime, looks
from neol.report.html import Figure, figures_html, markdown_html, page, picture_html, table_html
from neol.studies.study import Row, Study, to_csv

PAGE, FIGURES = "index.html", "figures"
_CLASS = {REPRODUCED: "reproduced", NOT_REPRODUCED: "not", INCONCLUSIVE: "inconclusive"}
_SHORT = {BEST: "final best fitness", HELD_OUT: "held-out return"}


def make_report(study: Study, out: Path, seed: int = 0, regret: Sequence[Path] = ()) -> Path:
    """Write the report into the folder `out`; return the page. `regret`: folders of `neol regret` to tell of too."""
    analysis, regrets = analyse(study, seed), "".join(map(_regret, regret))
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise NeolError(f"cannot use '{out}' as a report's folder: {e.strerror}.") from None
    tables = {
        "results": study_tables.results_table(analysis),
        **{m: study_tables.comparisons_table(study, analysis, m) for m in (HELD_OUT, BEST)},
        "aggregates": study_tables.aggregates_table(study, analysis),
        "differences": study_tables.differences_table(study),
    }
    grid = len(study.points) > 1
    sections = [
        (
            "verdicts",
            "What the paper claims, and what this study shows",
            _verdicts_html(study, analysis) + _reading(grid),
        ),
        ("results", "Results", _budgets(study) + table_html(tables["results"])),
        ("convergence", "Convergence", "" if grid else _bands() + figures_html(_convergence(study, out / FIGURES))),
        ("distributions", "Distributions over runs", "" if grid else figures_html(_boxes(study, out / FIGURES))),
        ("heatmaps", "Over the grid", _grid_html(study, out / FIGURES) if grid else ""),
        ("tests", "Tests", "".join(table_html(tables[m]) for m in (HELD_OUT, BEST)) + _tests_note()),
        ("aggregates", "Over all tasks", table_html(tables["aggregates"]) if len(study.tasks) > 1 else ""),
        ("champions", "Champions", figures_html(_champions(study, out / FIGURES))),
        ("arms", "What differs between arms", table_html(tables["differences"])),
        ("regret", "Regret beside its bound", regrets),
        ("again", "How it was made", _again(study)),
    ]
    for name, table in tables.items():
        write_atomic(out / f"{name}.csv", study_tables.to_csv(table))
    write_atomic(out / "runs.csv", to_csv(study))
    write_atomic(out / "tests.csv", study_tables.comparisons_csv(analysis))
    write_atomic(out / "tables.tex", study_tables.latex(study, analysis))
    write_atomic(out / "verdicts.txt", verdicts_text(analysis))
    write_atomic(out / PAGE, page(study.title, [s for s in sections if s[2]]))
    return out / PAGE


# -- words


def verdicts_text(analysis: Analysis) -> str:
    """The verdicts for a terminal: a claim a line."""
    return "".join(f"{paper.CLAIMS[c]} {_count(v)}.\n" for c, v in _by_claim(analysis).items())


def _by_claim(analysis: Analysis) -> dict[str, list[Verdict]]:
    out: dict[str, list[Verdict]] = {}
    for v in analysis.verdicts:
        out.setdefault(v.claim, []).append(v)
    return out


def _count(verdicts: list[Verdict]) -> str:
    n = Counter(v.verdict for v in verdicts)
    told = [f"{n[k]} of {len(verdicts)} {k}" for k in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE) if n[k]]
    return f"{', '.join(told)} (task x arm)"


def _verdicts_html(study: Study, analysis: Analysis) -> str:
    parts = []
    for claim, verdicts in _by_claim(analysis).items():
        short = "".join(
            f"<li>{escape(task)}: {_grouped(study, [v for v in verdicts if v.task == task])}</li>"
            for task in dict.fromkeys(v.task for v in verdicts)
        )
        items = "".join(f"<li>{escape(v.task)}: {_chip(v.verdict)}. {escape(v.words)}</li>" for v in verdicts)
        parts.append(
            f'<div class="claim"><h3>{escape(paper.CLAIMS[claim])}</h3><ul>{short}</ul>'
            f"<details><summary>The numbers</summary><ul>{items}</ul></details></div>"
        )
    return "".join(parts) or "<p>This study has no arm that the paper makes a claim about.</p>"


def _grouped(study: Study, verdicts: list[Verdict]) -> str:
    """Each verdict once, with the arms that it is about."""
    arms: dict[str, list[str]] = {}
    for v in verdicts:
        against = f" against {study.label(v.against)}" if v.against else ""
        arms.setdefault(v.verdict, []).append(study.label(v.arm) + against)
    return "; ".join(f"{_chip(verdict)} for {escape('; '.join(names))}" for verdict, names in arms.items())


def _chip(verdict: str) -> str:
    return f'<span class="chip {_CLASS[verdict]}">{verdict}</span>'


def _reading(grid: bool) -> str:
    best = (
        "Of the grid, each arm is taken at the place with its highest mean final best fitness, as in the paper, and "
        "its control at the same place: chosen by the numbers that are then compared, which flatters. "
    )
    return _muted(
        "How it is judged. An arm is better (first two claims, ablation, baselines): reproduced when a one-sided "
        "rank-sum test on the paper's own metric, the final best fitness, has p < 0.05 after Holm over the task's "
        "comparisons; not reproduced when the 95 % interval of A12 excludes a large effect (0.71). Tighter: "
        "Brown-Forsythe, two-sided, after Holm; by its direction. Ceiling: every run. Inheritance comes to the same: "
        "reproduced when the interval of A12 excludes a large effect either way, not when a two-sided test on the "
        "held-out return has p < 0.05 after Holm. Anything else, fewer than 5 runs a side, and baselines with other "
        "budgets are inconclusive. "
        + (best if grid else "")
        + "The held-out return is the mean of fresh episodes of the champion, which was chosen on other fresh "
        "episodes. Only the comparison with the matched control (same settings, lr = 0) says what plasticity does: the "
        "paper's NEAT arm also differs in its mutation rates."
    )


def _tests_note() -> str:
    return _muted(
        "The unit is the run (seed). p: one-sided rank-sum, the arm is better. A12: probability that a run of the arm "
        "beats one of the other (Newcombe's interval). Spread: Brown-Forsythe, two-sided. Differences: percentile "
        "bootstrap, 10,000 resamples. With 3 runs a side its intervals cover about 75 %, not 95 %, and no rank-sum "
        "test can reach p < 0.05 after Holm. Runs of the same seed start from the same population; the tests do not "
        "use that."
    )


def _bands() -> str:
    return _muted(
        "Lines: means over runs. Bands: 95 % intervals of the mean, or the range where there are fewer than 5 runs."
    )


def _muted(text: str) -> str:
    return f'<p class="muted">{escape(text)}</p>'


def _budgets(study: Study) -> str:
    items = "".join(f"<li>{escape(budget(study, task))}</li>" for task in study.tasks)
    missing = len({r.key for r in study.rows if r.status != "done"})
    left = f"<p><strong>{missing} runs of this study have not finished.</strong></p>" if missing else ""
    return f"<p>What was really run:</p><ul>{items}</ul>{left}"


def _again(study: Study) -> str:
    done = {r.run: r for r in study.finished}.values()
    hours = sum(r.wall_seconds or 0.0 for r in done) / 3600
    failed = "".join(f"<li><code>{escape(k)}</code>: {escape(why)}</li>" for k, why in study.failures())
    versions = ", ".join(f"{k} {' and '.join(v)}" for k, v in study.versions().items())
    return (
        f"<p>{len(done)} runs, {hours:.1f} hours of one core, {sum(r.env_steps or 0 for r in done) / 1e6:,.0f} million "
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
        text = (folder / "regret.md").read_text(encoding="utf-8")
        return markdown_html(text) + picture_html(folder / "regret-loglog.png", "Regret and its bounds over the rounds")
    except (OSError, UnicodeDecodeError) as e:
        raise NeolError(f"'{folder}' is not a folder of `neol regret`: {getattr(e, 'strerror', e)}.") from None


# -- figures


def _read(path: Path) -> str:
    return path.with_suffix(".svg").read_text(encoding="utf-8")


def _arms_of(study: Study, task: str) -> list[tuple[Look, list[Row]]]:
    """The arms to draw on a task; controls that share their runs once, under one name."""
    by_arm: dict[str, list[Row]] = {}
    for r in study.finished:
        if r.task == task:
            by_arm.setdefault(r.arm, []).append(r)
    look, seen = looks(study.arms), dict[tuple[int, ...], str]()
    controls, shared = {a.name: a.control_of for a in study.arms}, dict[str, list[str]]()
    out: dict[str, tuple[Look, list[Row]]] = {}
    for arm in study.arms:
        rows = by_arm.get(arm.name, [])
        runs = tuple(r.run for r in rows)
        if not rows:
            continue
        if runs in seen:
            first, rows = out[seen[runs]]
            names = shared.setdefault(seen[runs], [seen[runs]])
            names.append(arm.name)
            label = " = ".join(look[n].label for n in names)
            if all(controls[n] for n in names):
                first = first._replace(colour="#56B4E9")
                label = "matched control (lr = 0)"
            out[seen[runs]] = (first._replace(label=label), rows)
            continue
        seen[runs] = arm.name
        out[arm.name] = (look[arm.name], rows)
    return list(out.values())


def _convergence(study: Study, folder: Path) -> list[Figure]:
    """Over environment steps, over generations, and where there are baselines over time."""
    figures = []
    for task in study.tasks:
        arms = [(look, rows[0].arm, [_history(study, r) for r in rows]) for look, rows in _arms_of(study, task)]
        arms = [(look, arm, known) for look, arm, hs in arms if (known := [h for h in hs if len(h["env_steps"])])]
        own = [a for a in arms if a[1] not in study.baselines]
        axes = [("env_steps", "environment steps", arms), ("generation", "generations", own)]
        if len(own) < len(arms):
            axes.append(("wall_seconds", "seconds of one core", arms))
        for x, xlabel, shown in axes:
            curves = [Curve(look, [h[x] for h in hs], [h["best_return"] for h in hs]) for look, _, hs in shown]
            if not curves:
                continue
            path = folder / f"convergence-{_file(task)}-{x.replace('_', '-')}"
            draw_convergence(path, curves, xlabel, "best fitness of the generation")
            final = "; ".join(f"{c.look.label} {np.mean([y[-1] for y in c.ys]):.0f}" for c in curves)
            alt = f"Best fitness on {task} over {xlabel}, mean over runs. At the end: {final}."
            figures.append(Figure(f"{task}, over {xlabel}", alt, _read(path)))
    return figures


def _history(study: Study, row: Row) -> dict[str, np.ndarray]:
    """A run's generations with the seconds that they took; those without a return (no episode ended) left out."""
    columns = {**study.history(row.run), "wall_seconds": study.timing(row.run)}
    known = np.isfinite(columns["best_return"])
    return {k: v[known] for k, v in columns.items()}


def _boxes(study: Study, folder: Path) -> list[Figure]:
    figures = []
    for task in study.tasks:
        arms = _arms_of(study, task)
        for metric in (HELD_OUT, BEST):
            known = [(look, [v for r in rows if (v := getattr(r, metric)) is not None]) for look, rows in arms]
            samples = [(look, np.array(values)) for look, values in known if values]
            if not samples:
                continue
            path = folder / f"boxes-{_file(task)}-{metric.replace('_', '-')}"
            reported = paper.FITNESS.get(task, {}) if metric == BEST else {}
            mark = {a.label: reported[a.name][0] for a in study.arms if a.name in reported}
            draw_boxes(path, samples, _SHORT[metric], mark)
            medians = "; ".join(f"{look.label} {np.median(v):.0f}" for look, v in samples)
            figures.append(Figure(f"{task}, {_SHORT[metric]}", f"Boxes per arm. Medians: {medians}.", _read(path)))
    return figures


def _heatmaps(study: Study, folder: Path) -> list[Figure]:
    """Means over seeds at every place of a grid with one or two axes; more do not fit a map."""
    axes = list(study.points[0])
    if len(axes) > 2:
        return []
    columns = list(dict.fromkeys(p[axes[0]] for p in study.points))
    rows = list(dict.fromkeys(p[axes[1]] for p in study.points))[::-1] if len(axes) == 2 else [None]
    figures = []
    for task in study.tasks:
        for metric in (HELD_OUT, BEST):
            values = {a.name: _grid_means(study, task, a.name, metric, axes, rows, columns) for a in study.arms}
            shown = {a: v for a, v in values.items() if np.isfinite(v).any()}
            every = np.concatenate([v[np.isfinite(v)] for v in shown.values()] or [np.zeros(1)])
            for arm in (a for a in study.arms if a.name in shown):
                means = shown[arm.name]
                flat = np.array_equal(means, np.repeat(means[:1], len(means), axis=0), equal_nan=True)
                means = means[:1] if flat else means  # the same along the axis: one row
                names = ["all"] if flat and len(axes) == 2 else ["" if r is None else _value(r) for r in rows]
                path = folder / f"heatmap-{_file(task)}-{arm.name}-{metric.replace('_', '-')}"
                ylabel = axes[1] if len(axes) == 2 else ""
                limits = (float(every.min()), float(every.max()))
                draw_heatmap(path, means, names, [_value(c) for c in columns], ylabel, axes[0], limits)
                i, j = np.unravel_index(np.nanargmax(means), means.shape)
                alt = (
                    f"Mean {_SHORT[metric]} of {arm.label}. The highest, {means[i, j]:.1f}, at {axes[0]} = {columns[j]}"
                )
                alt += f", {ylabel} = {names[i]}." if ylabel else "."
                figures.append(Figure(f"{task}, {arm.label}: {_SHORT[metric]}", alt, _read(path)))
    return figures


def _grid_html(study: Study, folder: Path) -> str:
    figures = _heatmaps(study, folder)
    return figures_html(figures) if figures else _muted("A grid of more than two axes is in runs.csv, not in a map.")


def _value(setting: Any) -> str:
    return f"{setting:g}" if isinstance(setting, float) else str(setting)


def _grid_means(
    study: Study, task: str, arm: str, metric: str, axes: list[str], rows: list[Any], columns: list[Any]
) -> np.ndarray:
    cells: dict[tuple[Any, Any], list[float]] = {}
    for r in study.finished:
        if (r.task, r.arm) == (task, arm):
            place = (r.point[axes[1]] if len(axes) == 2 else None, r.point[axes[0]])
            if getattr(r, metric) is not None:
                cells.setdefault(place, []).append(getattr(r, metric))
    return np.array([[np.mean(cells[y, x]) if (y, x) in cells else np.nan for x in columns] for y in rows])


def _champions(study: Study, folder: Path) -> list[Figure]:
    """The best learning champion of every task: its network, and how its weights moved in one life."""
    figures = []
    for task in study.tasks:
        found = _best_champion(study, task)
        if found is None:
            continue
        row, document = found
        net = PlasticNetwork.from_json(document)
        inputs, outputs = net.interface.get("inputs", ()), net.interface.get("outputs", ())
        title = f"{task}: {study.label(row.arm)}, seed {row.seed}"
        for suffix in (".png", ".svg"):
            path = draw_network(document, folder / f"champion-{_file(task)}{suffix}", inputs, outputs)
        alt = f"Network with {row.champion_nodes} nodes and {row.champion_connections} connections."
        held = f"Held-out return {row.held_out:.1f}; the same network without learning {row.without_plasticity:.1f}."
        figures.append(Figure(title, alt, _read(path), held))
        if net.settings.rule != "none" and net.settings.lr > 0.0:
            try:
                figures += _life(net, document, folder / f"lifetime-{_file(task)}", task)
            except NeolError as e:  # its environment is not here
                figures[-1] = figures[-1]._replace(note=f"{held} No picture of a life: {e}")
    return figures


def _life(net: PlasticNetwork, document: dict[str, Any], path: Path, task: str) -> list[Figure]:
    life = lifetime(net, max_steps=int(document.get("metadata", {}).get("max_steps", 0)))
    keys = document["topology"]
    names = dict(zip(keys["input_keys"], net.interface.get("inputs", ()), strict=False))
    names |= dict(zip(keys["output_keys"], net.interface.get("outputs", ()), strict=False))
    draw_lifetime(path, life, names)
    moved = float(np.abs(life.weights - life.weights[0]).max(initial=0.0))
    alt = f"Change of every weight over {len(life.rewards)} steps; the largest is {moved:.3g}."
    note = f"One episode, return {life.rewards.sum():.1f}. The largest change of a weight is {moved:.2g}"
    note += f", of weights up to {np.abs(life.weights[0]).max(initial=0.0):.2g}."
    return [Figure(f"{task}: weights in one life", alt, _read(path), note)]


def _best_champion(study: Study, task: str) -> tuple[Row, dict[str, Any]] | None:
    """Of the plastic arms, and of all of them where there is none."""
    controls = {a.name: a.control_of for a in study.arms}
    plastic = {a for a in controls.values() if a}
    rows = [r for r in study.finished if r.task == task and r.held_out is not None]
    rows = [r for r in rows if r.arm in plastic] or [r for r in rows if not controls[r.arm]]
    for row in sorted(rows, key=lambda r: (-(r.held_out or 0.0), r.run)):
        document = study.champion(row.run)
        if document is not None:
            return row, document
    return None


def _file(task: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in task)
