"""Regret beside its bound: Lemma 1 (inner), Lemma 2 (outer) and the theorem, measured on synthetic instances.

Regret is the conditional expectation over h_t ~ p_t, as in the lemmas: sum_t <p_t, l_t> less the comparator's loss.
Comparators are exact. On the ball of radius R = D/2, with S_h = sum_t u_t:

    inner   min_v sum_t L_t(v) = -R |S_h|                        so regret of h = R |S_h| - sum_t <w_t, u_t>
    outer   min_h sum_t l_t(h, w_t), or the best sequence with k switches (dynamic programming)
    total   min_h min_v sum_t l_t(h, v) = min_h (sum_t l_t(h, w_t) - C regret of h)     (A5 with equality)

Legend: M architectures, T rounds, K seeds, H horizons, n points of a curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol.errors import NeolError
from neol.files import write_atomic
from neol.outer.selectors import EXP3, FIXED_SHARE, Rates, best_switching, exp3_bound, hedge_bound, share_bound
from neol.theory.synthetic import (
    Block,
    Instance,
    Lives,
    Schedule,
    Setting,
    inner_bound,
    make_instance,
    new_block,
    new_lives,
    plan,
    play,
)
from neol.training.run_folder import versions, write_json

ARRAYS, SUMMARY = "regret.npz", "regret.json"
KINDS = ("inner", "outer", "total")
LARGEST_RECORD = 30_000_000  # rounds x pool
COMPRESS_UP_TO = 3_000_000  # rounds x pool; a larger record is random enough that packing it only costs time
BLOCK = 2**18  # entries (rounds x pool) of the working record
MOST_SEEDS = 100_000
HORIZONS, STEP = 7, math.sqrt(10.0)  # the slope is fitted over T, T / STEP, .. : HORIZONS of them at most
SHORTEST = 10  # rounds


class RegretOutcome(NamedTuple):
    """One run: regret and its bounds at n rounds, the last of them T."""

    rounds: np.ndarray  # i8 (n,)
    inner: np.ndarray  # f8 (n,) the largest surrogate regret of any architecture
    outer: np.ndarray  # f8 (n,)
    total: np.ndarray  # f8 (n,)
    realised: np.ndarray  # f8 (n,) total regret of the h_t that were drawn
    inner_bound: np.ndarray  # f8 (n,)
    outer_bound: np.ndarray  # f8 (n,)
    total_bound: np.ndarray  # f8 (n,)
    slack: (
        float  # least of D^2 / (2 eta) + sum eta |u|^2 / 2 less regret, over architectures: Lemma 1 as it is realised
    )
    best: int  # architecture of the best fixed pair
    seen: np.ndarray  # f8 (6,) see Lives
    drift: np.ndarray  # f8 (M, d) sum_t u_t


def curve_points(rounds: int, points: int = 40) -> np.ndarray:
    """Rounds i8 (n,) at which a curve is measured: evenly spaced, and also in the logarithm; T last."""
    both = np.concatenate([np.geomspace(1, rounds, points), np.linspace(1, rounds, points)])
    return np.unique(np.round(both).astype(np.int64))


def measure(
    s: Setting,
    seed: int,
    at: Sequence[int] | np.ndarray = (),
    keep: Callable[[Block], None] | None = None,
    fixed: Schedule | None = None,
) -> RegretOutcome:
    """Play one instance to the end; regret at the rounds `at` and at T. `keep` is given every block of the record."""
    rules = fixed or plan(s)
    instance = make_instance(s, seed)
    lives = new_lives(s, instance, seed)
    stops = np.unique([*(t for t in at if t <= s.rounds), s.rounds])
    best = np.zeros((s.switches + 1, s.pool))
    rows, size, done = [], max(1, BLOCK // s.pool), 0
    for stop in stops:
        while done < stop:
            block = new_block(min(size, int(stop) - done), s.pool)
            play(instance, lives, block, done, s.selector, rules.rates.gamma, rules.rates.restart, rules.alpha,
                 rules.eta, seed)  # fmt: skip
            if s.switches:
                best_switching(best, block.losses)
            if keep is not None:
                keep(block)
            done += len(block.chosen)
        rows.append([*_regrets(s, instance, lives, best), *bounds_at(s, rules, done)])
    inner = _inner(instance, lives)
    exact = s.diameter**2 / (2.0 * np.abs(rules.eta[-1])) + 0.5 * lives.energy
    pair = int(np.argmin(lives.loss - s.constant * inner))
    c = np.array(rows).T
    slack = float((exact - inner).min())
    return RegretOutcome(stops, c[0], c[1], c[2], c[3], c[4], c[5], c[6], slack, pair, lives.seen, lives.drift)


def _inner(instance: Instance, lives: Lives) -> np.ndarray:
    """Surrogate regret f8 (M,) of each architecture."""
    return instance.radius * np.sqrt((lives.drift**2).sum(axis=1)) - lives.pull


def _regrets(s: Setting, instance: Instance, lives: Lives, best: np.ndarray) -> tuple[float, ...]:
    """Inner, outer, total and realised regret so far."""
    inner = _inner(instance, lives)
    rival = best[-1].min() if s.switches else lives.loss.min()
    pair = (lives.loss - s.constant * inner).min()
    return float(inner.max()), float(lives.spent[0] - rival), float(lives.spent[0] - pair), float(lives.spent[1] - pair)


def bounds_at(s: Setting, rules: Schedule, t: int) -> tuple[float, float, float]:
    """The bounds of inner, outer and total regret after t rounds, with the rates tuned as they are."""
    rates = Rates(rules.rates.gamma[:t], rules.rates.restart[:t])
    if s.selector == FIXED_SHARE:
        outer = share_bound(rates, s.pool, min(s.switches, t - 1), rules.alpha)
    else:
        outer = (exp3_bound if s.selector == EXP3 else hedge_bound)(rates, s.pool)
    inner = inner_bound(rules.eta[:t], s.diameter, s.update_limit)
    return inner, outer, s.constant * inner + outer


def horizons(rounds: int) -> list[int]:
    """Horizons for the slope, shortest first: T, T / sqrt 10, T / 10 .."""
    found = [round(rounds / STEP**i) for i in range(HORIZONS)]
    return sorted({t for t in found if t >= min(SHORTEST, rounds)})


def slope(rounds: Sequence[int], regrets: np.ndarray) -> dict[str, Any]:
    """The exponent of T in the regret f8 (K, H), least squares on logarithms, with a 95 % interval.

    Over seeds (Student) where there are several, else from the residuals of the one line. None where regret is not
    positive, or where there are fewer than three horizons.
    """
    from neol.stats import mean_interval

    regrets = np.atleast_2d(regrets)
    if len(rounds) < 3 or not (regrets > 0.0).all():
        why = "fewer than 3 horizons" if len(rounds) < 3 else "regret is not positive at every horizon"
        return {"value": None, "low": None, "high": None, "of": why}
    x, y = np.log(np.asarray(rounds, float)), np.log(regrets)
    x = x - x.mean()
    slopes = (y - y.mean(axis=1, keepdims=True)) @ x / (x @ x)
    value = float(slopes.mean())
    if len(slopes) > 1:
        low, high = mean_interval(slopes)
    else:
        from scipy.special import stdtrit

        left = y[0] - y[0].mean() - value * x
        half = float(stdtrit(len(x) - 2, 0.975)) * math.sqrt(float(left @ left) / (len(x) - 2) / float(x @ x))
        low, high = value - half, value + half
    return {"value": value, "low": low, "high": high, "of": f"{len(rounds)} horizons, {len(slopes)} seeds"}


class Experiment(NamedTuple):
    """A Setting over K seeds, at every horizon."""

    setting: Setting
    seeds: list[int]
    horizons: list[int]
    outcomes: list[list[RegretOutcome]]  # (K, H), the longest horizon last, with its curve
    record: Block | None  # of the first seed at T


def experiment(
    s: Setting,
    seeds: int = 1,
    first_seed: int = 0,
    record: bool = True,
    say: Callable[[str, float], None] | None = None,
) -> Experiment:
    """Measure every seed at every horizon; the first seed's run is recorded."""
    if not isinstance(seeds, int) or not 1 <= seeds <= MOST_SEEDS:
        raise NeolError(f"seeds = {seeds} is not allowed; it must be a whole number from 1 to {MOST_SEEDS:,}.")
    if record and s.rounds * s.pool > LARGEST_RECORD:
        raise NeolError(
            f"rounds x pool = {s.rounds * s.pool:,} is too much to record; at most {LARGEST_RECORD:,} are allowed."
        )
    if not 0 <= first_seed <= 2**63 - 1 - seeds:
        raise NeolError(f"seed = {first_seed} is not allowed; it must be from 0 to 2^63 - 1.")
    lengths, outcomes, kept = horizons(s.rounds), [], list[Block]()
    if s.switches:  # a horizon must have room for the switches
        lengths = [t for t in lengths if t > s.switches] or [s.rounds]
    work, done = seeds * sum(lengths), 0
    for seed in range(first_seed, first_seed + seeds):
        row = []
        for t in lengths:
            last = t == s.rounds
            keep = kept.append if record and last and seed == first_seed else None
            row.append(measure(s.with_rounds(t), seed, curve_points(t) if last else (), keep))
            done += t
            if say is not None:
                say(f"seed {seed}, {t:,} rounds", done / work)
        outcomes.append(row)
    joined = Block(*(np.concatenate(parts) for parts in zip(*kept, strict=True))) if kept else None
    return Experiment(s, list(range(first_seed, first_seed + seeds)), lengths, outcomes, joined)


def summary(x: Experiment) -> dict[str, Any]:
    """What regret.json holds. Regrets are means over seeds; a bound on the expected regret (EXP3) is checked on those,
    the others hold for every run and are checked on the largest."""
    s, last = x.setting, [row[-1] for row in x.outcomes]
    out: dict[str, Any] = {"kind": "synthetic", **vars(s), "reach": s.reached, "seeds": len(x.seeds)}
    holds, slopes = {}, {}
    for kind in KINDS:
        values = np.array([getattr(o, kind)[-1] for o in last])
        bound = float(getattr(last[0], f"{kind}_bound")[-1])
        expected = s.selector == EXP3 and kind != "inner"
        checked = float(values.mean() if expected else values.max())
        out |= {
            f"{kind}_regret": float(values.mean()),
            f"{kind}_bound": bound,
            f"{kind}_regret_max": float(values.max()),
        }
        holds[kind] = bool(checked <= bound + tolerance(s.rounds))
        slopes[kind] = slope(x.horizons, np.array([[getattr(o, kind)[-1] for o in row] for row in x.outcomes]))
    out["realised_regret"] = float(np.mean([o.realised[-1] for o in last]))
    out["slope"], out["slopes"] = slopes["total"], slopes
    out["bound_holds"] = holds | {"lemma_1_realised": min(o.slack for o in last) >= -tolerance(s.rounds)}
    out["assumptions"] = assumptions(s, last)
    out["horizons"], out["versions"] = x.horizons, versions()
    return out


def tolerance(rounds: int) -> float:
    """How far rounding may carry a sum of T terms of size 1."""
    return 1e-12 * rounds + 1e-9


def assumptions(s: Setting, outcomes: Sequence[RegretOutcome]) -> dict[str, Any]:
    """A1 to A7 as they were observed; A2's range is over every weight vector in W, not only those that were visited."""
    seen = np.array([o.seen for o in outcomes])
    low, high = seen[:, [0, 2]].min(axis=0), seen[:, [1, 3]].max(axis=0)
    return {
        "A1_pool": s.pool,
        "A2_loss_range": [float(low[0]), float(high[0])],
        "A2_reward_range": [float(low[1]), float(high[1])],
        "A3_diameter": s.diameter,
        "A3_largest_weight_norm": math.sqrt(float(seen[:, 4].max())),
        "A4_largest_update_norm": float(seen[:, 5].max()),
        "A4_update_limit": s.update_limit,
        "A5_constant": s.constant,
        "A5_holds": "with equality, by construction",
        "A6_selector": ("hedge", "exp3", "fixed-share")[s.selector],
        "A7_full_information": s.feedback == "full",
    }


def arrays(x: Experiment) -> dict[str, np.ndarray]:
    """What regret.npz holds: the first seed's rounds, and every seed's curves."""
    s, rules = x.setting, plan(x.setting)
    assert x.record is not None
    last = [row[-1] for row in x.outcomes]
    out = dict(x.record._asdict())
    out |= {"gamma": _constant(rules.rates.gamma), "eta": _constant(rules.eta), "diameter": np.array(s.diameter)}
    out |= {"constant": np.array(s.constant), "drift": last[0].drift, "horizons": np.array(x.horizons)}
    out["curve_rounds"] = last[0].rounds
    for kind in KINDS:
        out[f"curve_{kind}"] = np.array([getattr(o, kind) for o in last])  # f8 (K, n)
        out[f"curve_{kind}_bound"] = getattr(last[0], f"{kind}_bound")
        out[f"horizon_{kind}"] = np.array([[getattr(o, kind)[-1] for o in row] for row in x.outcomes])  # f8 (K, H)
        out[f"horizon_{kind}_bound"] = np.array([getattr(o, f"{kind}_bound")[-1] for o in x.outcomes[0]])
    return out


def _constant(rates: np.ndarray) -> np.ndarray:
    """A rate that never changes as a single number f8 ()."""
    return np.array(rates[0]) if (rates == rates[0]).all() else rates


def open_out(path: Path) -> Path:
    """The folder for results: new, empty, or with an earlier regret.json to replace."""
    if path.exists() and not path.is_dir():
        raise NeolError(f"'{path}' is not a folder; give another --out.")
    if path.is_dir() and any(path.iterdir()) and not (path / SUMMARY).exists():
        raise NeolError(f"'{path}' is not empty and holds no {SUMMARY}; give another --out.")
    return path


def save(path: Path, named: Mapping[str, np.ndarray], facts: Mapping[str, Any], section: str) -> None:
    """Write regret.npz, regret.json and regret.md into the folder, each whole."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise NeolError(f"cannot write '{path}': {e.strerror}.") from None
    pack = np.savez_compressed if named["losses"].size <= COMPRESS_UP_TO else np.savez
    write_atomic(path / ARRAYS, lambda f: pack(f, **named))  # type: ignore[arg-type]
    write_json(path / SUMMARY, facts)
    write_atomic(path / "regret.md", section)


def report_section(facts: Mapping[str, Any]) -> str:
    """Regret beside its bound as a Markdown section, for reports."""
    what = facts.get("task") or f"synthetic, {facts.get('adversary')}, {facts.get('feedback')} feedback"
    lines = [
        f"## Regret: {what}, rule {facts['rule']}",
        f"T = {facts['rounds']:,}, M = {facts['pool']:,}.",
        "",
        "| | regret | bound | regret / bound |",
        "| --- | --- | --- | --- |",
    ]
    for kind in KINDS:
        regret, bound = facts[f"{kind}_regret"], facts[f"{kind}_bound"]
        share = f"{regret / bound:.3f}" if bound > 0.0 else "-"
        lines.append(f"| {kind} | {regret:.4g} | {bound:.4g} | {share} |")
    found = facts["slope"]
    if found["value"] is not None:
        lines += ["", f"Exponent of T in the total regret: {found['value']:.3f} "
                  f"(95 % interval {found['low']:.3f} to {found['high']:.3f}; {found['of']})."]  # fmt: skip
    if facts.get("verdict"):
        lines += ["", *(f"- {sentence}" for sentence in facts["verdict"])]
    return "\n".join(lines) + "\n"
