"""Which pictures a report has: a study's rows -> figures for its page, each also a file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from neol.deploy.evaluation import lifetime
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.figures import style
from neol.figures.network import draw_network
from neol.files import file_stem
from neol.report import paper
from neol.report.adaptation import Adapted
from neol.report.figures import (
    NEUTRAL,
    PALETTE,
    Curve,
    Look,
    draw_adaptation,
    draw_boxes,
    draw_convergence,
    draw_heatmap,
    draw_lifetime,
    draw_means,
    looks,
)
from neol.report.html import Figure
from neol.report.verdicts import BEST, HELD_OUT, JUDGED
from neol.studies.plan import CONTROL_ROLE, ORACLE, PLASTIC
from neol.studies.study import Row, Study

CONTROL_LABEL = "matched control (lr = 0)"


def _read(path: Path) -> str:
    return path.with_suffix(".svg").read_text(encoding="utf-8")


def arms_of(study: Study, task: str) -> list[tuple[Look, list[Row]]]:
    """The arms to draw on a task; those whose runs are the same, to the bit, once, under one name."""
    look = looks(study.arms, study.reference)
    by_arm: dict[str, list[Row]] = {}
    for r in study.finished:
        if r.task == task:
            by_arm.setdefault(r.arm, []).append(r)
    same: dict[str, list[str]] = {}  # what an arm's runs were -> the arms
    for arm in (a.name for a in study.arms if a.name in by_arm):
        same.setdefault(_print_of(study, by_arm[arm]), []).append(arm)
    owners = {a.name: a.control_of for a in study.arms}
    drawn = sorted(same.values(), key=lambda names: len(names) > 1 and all(owners[n] for n in names))  # shared: last
    only = sum(any(owners[n] for n in names) for names in drawn) == 1  # one control for all arms
    return [(_shared_look(study, names, owners, look, only), by_arm[names[0]]) for names in drawn]


def _print_of(study: Study, rows: list[Row]) -> str:
    """A digest of all that runs came to. Settings that do not act (inheritance, where nothing learns) have no part."""
    digest = hashlib.sha256()
    for r in rows:
        digest.update(repr((r.seed, r.point, r.env_steps, r.best_return, r.held_out)).encode())
        for column in study.history(r.run).values():
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _shared_look(study: Study, names: list[str], owners: dict[str, str], look: dict[str, Look], only: bool) -> Look:
    """One line for arms that are the same; controls among them are named as one."""
    controls, others = [n for n in names if owners[n]], [n for n in names if not owners[n]]
    labels = [look[n].label for n in others]
    if len(controls) == 1 and not others:
        return look[controls[0]]
    if controls:
        of = ", ".join(study.label(owners[n]) for n in controls)
        labels.append(CONTROL_LABEL if only else f"control of {of} (lr = 0)")
    return Look(style.shown(" = ".join(labels), 70), look[others[0]].colour if others else NEUTRAL, not others)


def convergence(study: Study, folder: Path) -> list[Figure]:
    """Over environment steps, over generations, and where there are baselines over time."""
    figures = []
    for task in study.tasks:
        arms = [(look, rows[0].arm, [_history(study, r) for r in rows]) for look, rows in arms_of(study, task)]
        arms = [(look, arm, known) for look, arm, hs in arms if (known := [h for h in hs if len(h["env_steps"])])]
        own = [a for a in arms if a[1] not in study.baselines]
        axes = [("env_steps", "environment steps", arms), ("generation", "generations", own)]
        timed = all(np.isfinite(h["wall_seconds"]).all() for _, _, hs in arms for h in hs)
        if len(own) < len(arms) and timed:
            axes.append(("wall_seconds", "seconds of one core", arms))
        for x, xlabel, shown in axes:
            curves = [Curve(look, [h[x] for h in hs], [h["best_return"] for h in hs]) for look, _, hs in shown]
            if not curves:
                continue
            path = folder / f"convergence-{file_stem(task)}-{x.replace('_', '-')}"
            draw_convergence(path, curves, xlabel, "best fitness of the generation")
            final = "; ".join(f"{c.look.label} {np.mean([y[-1] for y in c.ys]):.0f}" for c in curves)
            alt = f"Best fitness on {task} over {xlabel}, mean over runs. At the end: {final}."
            figures.append(Figure(f"{task}, over {xlabel}", alt, _read(path)))
    return figures


def final_means(study: Study, folder: Path) -> list[Figure]:
    """What every arm's champions hold on fresh episodes, beside the fitness that they were bred for."""
    figures = []
    for task in study.tasks:
        samples = []
        for look, rows in arms_of(study, task):
            two = [np.array([v for r in rows if (v := getattr(r, m)) is not None]) for m in (HELD_OUT, BEST)]
            if len(two[0]):
                samples.append((look, two[0], two[1]))
        if not samples:
            continue
        path = folder / f"held-out-{file_stem(task)}"
        draw_means(path, samples, "held out (hollow: best fitness)")
        final = "; ".join(f"{look.label} {held.mean():.0f}" for look, held, _ in samples)
        alt = f"Mean held-out return on {task} at the end, with its interval: {final}."
        figures.append(Figure(f"{task}, held-out return at the end", alt, _read(path)))
    return figures


def _history(study: Study, row: Row) -> dict[str, np.ndarray]:
    """A run's generations with the seconds that they took; those without a return (no episode ended) left out."""
    columns = {**study.history(row.run), "wall_seconds": study.timing(row.run)}
    known = np.isfinite(columns["best_return"])
    return {k: v[known] for k, v in columns.items()}


def boxes(study: Study, folder: Path) -> list[Figure]:
    figures = []
    for task in study.tasks:
        arms = arms_of(study, task)
        for metric in JUDGED:
            known = [(look, [v for r in rows if (v := getattr(r, metric)) is not None]) for look, rows in arms]
            samples = [(look, np.array(values)) for look, values in known if values]
            if not samples:
                continue
            path = folder / f"boxes-{file_stem(task)}-{metric.replace('_', '-')}"
            reported = paper.FITNESS.get(task, {}) if metric == BEST else {}
            mark = {a.label: reported[a.name][0] for a in study.arms if a.name in reported}
            draw_boxes(path, samples, JUDGED[metric], mark)
            medians = "; ".join(f"{look.label} {np.median(v):.0f}" for look, v in samples)
            figures.append(Figure(f"{task}, {JUDGED[metric]}", f"Boxes per arm. Medians: {medians}.", _read(path)))
    return figures


def adaptations(study: Study, found: list[Adapted], folder: Path) -> list[Figure]:
    """For each world, every arm that has a role: the oracles, the plastic arms, the controls from the best down."""
    figures, look = [], looks(study.arms, study.reference)
    for number, x in enumerate(found):
        mean = {arm: float(v.mean()) for arm, v in x.returns.items()}
        colour = {PLASTIC: PALETTE[1], ORACLE: PALETTE[2], CONTROL_ROLE: NEUTRAL}
        order = sorted(mean, key=lambda a: ((ORACLE, PLASTIC, CONTROL_ROLE).index(study.roles[a]), -mean[a]))
        samples = [
            (Look(look[a].label, colour[study.roles[a]], study.roles[a] == CONTROL_ROLE), x.returns[a]) for a in order
        ]
        path = folder / f"adaptation-{file_stem(x.task)}-{number}"
        draw_adaptation(path, samples, mean[x.best_control], mean.get(x.oracle), "return of a life, on fresh lives")
        told = "; ".join(f"{study.label(a)} {mean[a]:.1f}" for a in order)
        note = "Green: told its world, or spared the change. Blue: it learns. Grey: it does not. "
        note += f"The changes: {'; '.join(x.world) or 'none'}"
        figures.append(Figure(f"{x.task}, {x.what}", f"Returns of every run by arm. Means: {told}.", _read(path), note))
    return figures


def heatmaps(study: Study, folder: Path) -> list[Figure]:
    """Means over seeds at every place of a grid with one or two axes; more do not fit a map."""
    axes = list(study.points[0])
    if len(axes) > 2:
        return []
    columns = list(dict.fromkeys(p[axes[0]] for p in study.points))
    rows = list(dict.fromkeys(p[axes[1]] for p in study.points))[::-1] if len(axes) == 2 else [None]
    figures = []
    for task in study.tasks:
        for metric in JUDGED:
            values = {a.name: _grid_means(study, task, a.name, metric, axes, rows, columns) for a in study.arms}
            shown = {a: v for a, v in values.items() if np.isfinite(v).any()}
            every = np.concatenate([v[np.isfinite(v)] for v in shown.values()] or [np.zeros(1)])
            for arm in (a for a in study.arms if a.name in shown):
                means = shown[arm.name]
                flat = np.array_equal(means, np.repeat(means[:1], len(means), axis=0), equal_nan=True)
                means = means[:1] if flat else means  # the same along the axis: one row
                names = ["all"] if flat and len(axes) == 2 else ["" if r is None else _value(r) for r in rows]
                path = folder / f"heatmap-{file_stem(task)}-{file_stem(arm.name)}-{metric.replace('_', '-')}"
                ylabel = axes[1] if len(axes) == 2 else ""
                limits = (float(every.min()), float(every.max()))
                draw_heatmap(path, means, names, [_value(c) for c in columns], ylabel, axes[0], limits)
                i, j = np.unravel_index(np.nanargmax(means), means.shape)
                alt = (
                    f"Mean {JUDGED[metric]} of {arm.label}. The highest, {means[i, j]:.1f}, at {axes[0]} = {columns[j]}"
                )
                alt += f", {ylabel} = {names[i]}." if ylabel else "."
                figures.append(Figure(f"{task}, {arm.label}: {JUDGED[metric]}", alt, _read(path)))
    return figures


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


def champions(study: Study, folder: Path, lives: bool) -> list[Figure]:
    """The best learning champion of every task: its network; with `lives` its weights in a life, lived now."""
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
            path = draw_network(document, folder / f"champion-{file_stem(task)}{suffix}", inputs, outputs)
        alt = f"Network with {row.champion_nodes} nodes and {row.champion_connections} connections."
        held = f"Held-out return {row.held_out:.1f}; the same network without learning {row.without_plasticity:.1f}."
        figures.append(Figure(title, alt, _read(path), held))
        if lives and net.settings.rule != "none" and net.settings.lr > 0.0:
            try:
                figures += _life(net, document, folder / f"lifetime-{file_stem(task)}", task)
            except NeolError as e:  # its environment is none of ours
                figures[-1] = figures[-1]._replace(note=f"{held} No picture of a life: {e}")
    return figures


def _life(net: PlasticNetwork, document: dict[str, Any], path: Path, task: str) -> list[Figure]:
    trained = document.get("metadata", {}).get("max_steps", 0)
    life = lifetime(net, max_steps=trained if isinstance(trained, int) else 0)
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
