"""Figures of regret: over the rounds beside its bounds, on logarithms over horizons, and its average going to zero."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neol.figures.style import FONT, GREEN, MUTED, NEGATIVE, POSITIVE, SUFFIXES, save, style
from neol.files import check_suffix, replacing

COLORS = {"inner": GREEN, "outer": NEGATIVE, "total": POSITIVE}
NAMES = {"inner": "inner (Lemma 1)", "outer": "outer (Lemma 2)", "total": "total (theorem)"}


def draw_regret(named: Mapping[str, np.ndarray], folder: Path, title: str, facts: Mapping[str, Any]) -> list[Path]:
    """The three figures of regret.npz's arrays, as PNG files in the folder."""
    names = dict(NAMES)
    names["outer"] = {"exp3": "outer (EXP3)", "fixed-share": "outer (Fixed-Share)"}.get(
        str(facts["assumptions"].get("A6_selector")), NAMES["outer"]
    )
    made = [_over_rounds(named, folder / "regret.png", title, names)]
    made.append(_logarithms(named, folder / "regret-loglog.png", title, names, facts["slopes"]))
    made.append(_average(named, folder / "regret-average.png", title, names))
    return made


def _panels(count: int, title: str, wide: float = 3.3, room: float = 0.075) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide * count, 3.4))
    axes = figure.subplots(1, count, squeeze=False)[0]
    figure.subplots_adjust(left=room, right=0.98, bottom=0.15, top=0.8, wspace=0.28)
    figure.text(0.02, 0.945, title, va="center", size=FONT + 2)
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.spines[["left", "bottom"]].set_color("#999999")
        one.tick_params(color="#999999", labelcolor=MUTED, labelsize=FONT - 1)
        one.grid(color="#E6E6E6", lw=0.6)
        one.set_axisbelow(True)
    return figure, axes


def _band(axes: Any, x: np.ndarray, values: np.ndarray, color: str, label: str) -> None:
    """The mean over seeds f8 (K, n), and from the least to the largest."""
    axes.plot(x, values.mean(axis=0), color=color, lw=1.8, label=label)
    if len(values) > 1:
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2, lw=0)


def short(value: float, place: int | None = None) -> str:
    """1,500 as 1,500, 20,000 as 20k, 0.05 as 0.05."""
    for least, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:g}"


def _log(set_scale: Any, axis: Any) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import NullFormatter

    set_scale("log")
    axis.set_major_formatter(short)
    axis.set_minor_formatter(NullFormatter())


def _over_rounds(named: Mapping[str, np.ndarray], path: Path, title: str, names: Mapping[str, str]) -> Path:
    target, x = check_suffix(path, SUFFIXES), named["curve_rounds"]
    with replacing(target) as part, style():
        figure, axes = _panels(3, title)
        for one, (kind, color) in zip(axes, COLORS.items(), strict=True):
            _band(one, x, named[f"curve_{kind}"], color, "regret")
            one.plot(x, named[f"curve_{kind}_bound"], color=MUTED, lw=1.3, ls=(0, (4, 1.5)), label="bound")
            one.axhline(0.0, color="#BBBBBB", lw=0.8)
            one.set_title(names[kind], size=FONT, loc="left")
            one.set_xlabel("round t")
            one.xaxis.set_major_formatter(short)
            one.yaxis.set_major_formatter(short)
            one.legend(frameon=False, fontsize=FONT - 1, labelcolor=MUTED)
        axes[0].set_ylabel("regret after t rounds")
        save(figure, part)
    return target


def _logarithms(
    named: Mapping[str, np.ndarray], path: Path, title: str, names: Mapping[str, str], slopes: Mapping[str, Any]
) -> Path:
    """Over horizons where there are several (each with its own rates), else over the rounds of the one run."""
    many = len(named["horizons"]) > 1
    source, x = ("horizon", named["horizons"]) if many else ("curve", named["curve_rounds"])
    target = check_suffix(path, SUFFIXES)
    with replacing(target) as part, style():
        figure, axes = _panels(3, title)
        for one, (kind, color) in zip(axes, COLORS.items(), strict=True):
            values, bound = named[f"{source}_{kind}"], named[f"{source}_{kind}_bound"]
            mean = values.mean(axis=0)
            shown = mean > 0.0
            found = slopes[kind]["value"]
            label = "regret" if found is None else f"regret, slope {found:.3f}"
            one.plot(x[shown], mean[shown], "o-" if many else "-", color=color, lw=1.6, ms=4, label=label)
            if (bound > 0.0).all():
                one.plot(x, bound, color=MUTED, lw=1.3, ls=(0, (4, 1.5)), label="bound")
            _log(one.set_xscale, one.xaxis)
            if shown.any():
                _log(one.set_yscale, one.yaxis)
            else:
                one.text(0.5, 0.4, "regret is not positive", transform=one.transAxes, ha="center", color=MUTED)
            one.set_title(names[kind], size=FONT, loc="left")
            one.set_xlabel("horizon T" if many else "round t")
            one.legend(frameon=False, fontsize=FONT - 1, labelcolor=MUTED, loc="best")
        axes[0].set_ylabel(f"regret after {'T' if many else 't'} rounds")
        save(figure, part)
    return target


def _average(named: Mapping[str, np.ndarray], path: Path, title: str, names: Mapping[str, str]) -> Path:
    """Regret per round over horizons where there are several (each with its own rates), else over the rounds."""
    many = len(named["horizons"]) > 1
    source, x = ("horizon", named["horizons"]) if many else ("curve", named["curve_rounds"])
    target = check_suffix(path, SUFFIXES)
    with replacing(target) as part, style():
        figure, axes = _panels(1, title, wide=6.2, room=0.12)
        one = axes[0]
        least, hidden = 0.0, []
        for kind, color in COLORS.items():
            values = named[f"{source}_{kind}"] / x
            if values.min() > 1.0:  # in the surrogate's units, on a task
                hidden.append(names[kind])
                continue
            _band(one, x, values, color, names[kind])
            least = min(least, float(values.min()))
        bound = named[f"{source}_total_bound"] / x
        if bound.min() > 1.0:
            hidden.append("the total's bound")
        else:
            one.plot(x, bound, color=MUTED, lw=1.3, ls=(0, (4, 1.5)), label="bound of the total")
        one.axhline(0.0, color="#BBBBBB", lw=0.8)
        _log(one.set_xscale, one.xaxis)
        one.set_ylim(min(-0.05, 1.1 * least), min(1.05, 1.1 * float(bound.max())))
        if hidden:
            note = f"above 1 and not shown: {', '.join(hidden)}"
            one.text(0.02, 0.95, note, transform=one.transAxes, va="top", size=FONT - 1, color=MUTED)
        one.set(xlabel="horizon T" if many else "round t", ylabel="regret per round")
        one.legend(frameon=False, fontsize=FONT - 1, labelcolor=MUTED, loc="best")
        save(figure, part)
    return target
