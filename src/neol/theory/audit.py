"""Does A5 hold on real rollouts? Comparators are deployed on the very episodes that the losses came from.

A5 at (t, h): for every v in W,  l_t(h, w_t) - l_t(h, v) <= C <v - w_t, u_t>. Write dl <= C dL. Where dL > 0 it bounds
C from below (C >= dl / dL), where dL < 0 from above (C <= dl / dL): a larger C is not a weaker assumption. A5 says that
-C u_t is a subgradient of l_t(h, .) at w_t over W, with one C for all rounds. So each (t, h) allows an interval of C,
maybe an empty one. A search can only refute A5 or shrink the interval: it never proves that A5 holds.

Legend: M topologies, E edges of all, A audited rounds, V comparators of one (t, h), F fixed comparators, T rounds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.jit import kernel
from neol.network.phenotype import EDGE_FIELDS, GENOME_FIELDS, NODE_FIELDS, Phenotypes
from neol.rollout.shards import CHUNK
from neol.theory.on_tasks import Record, Say, Stage, TaskSetting, curves, inner_curves, observed, open_stage, play_task
from neol.theory.regret import KINDS, slope, tolerance
from neol.training.run_folder import versions

CLIMBS = 3  # passes of the search for the comparator that breaks A5 most
SPREADS = (1.0, 0.1, 0.01)  # of comparators around w_t, as fractions of the limit


class Tried(NamedTuple):
    """Comparators v of the audited rounds: dl = l_t(w_t) - l_t(v), dL = <v - w_t, u_t>."""

    rounds: np.ndarray  # i8 (A,)
    loss_gain: np.ndarray  # f8 (A, M, V) dl
    surrogate_gain: np.ndarray  # f8 (A, M, V) dL
    sampled: int  # the first so many of V are sampled, the others optimised


class Fixed(NamedTuple):
    """Comparators that stay the same for all rounds: the rivals of the total regret."""

    weights: np.ndarray  # f8 (F, E)
    losses: np.ndarray  # f8 (T, F, M) l_t(h, v)


def replicate(ph: Phenotypes, copies: int) -> Phenotypes:
    """The population `copies` times over."""
    nodes, edges = int(ph.node_start[-1]), int(ph.edge_start[-1])
    place = np.arange(copies)[:, None]
    return ph._replace(
        node_start=np.append((ph.node_start[:-1] + place * nodes).ravel(), copies * nodes),
        edge_start=np.append((ph.edge_start[:-1] + place * edges).ravel(), copies * edges),
        **{f: np.tile(getattr(ph, f), copies) for f in (*EDGE_FIELDS, *NODE_FIELDS)},
        **{f: np.tile(getattr(ph, f), (copies, *[1] * (getattr(ph, f).ndim - 1))) for f in GENOME_FIELDS},
    )


def deploy(stage: Stage, t: int, weights: np.ndarray, eta: float) -> np.ndarray:
    """Losses f8 (V, M) of the weights f8 (V, E) on round t's instance; a call never exceeds one chunk of episodes."""
    m = stage.setting.pool
    most = max(1, CHUNK // m)
    out = []
    for first in range(0, len(weights), most):
        part = weights[first : first + most]
        ph = replicate(stage.phenotypes, len(part))._replace(weight=part.ravel())
        out.append(stage.losses(stage.play(t, ph, eta).returns[:, 0], t).reshape(len(part), m))
    return np.concatenate(out)


@kernel
def _scatter(out, centre, spread, limit, seed, a, b):
    """Fill out f8 (V, E): uniform in the box where spread < 0, else normal around the centre f8 (V, E), clipped."""
    for v in range(out.shape[0]):
        rng = seeding.stream(seed, seeding.COMPARATOR, a, b, v)
        for e in range(out.shape[1]):
            if spread[v] < 0.0:
                out[v, e] = limit * (2.0 * seeding.uniform(rng) - 1.0)
            else:
                out[v, e] = min(max(centre[v, e] + spread[v] * seeding.normal(rng), -limit), limit)


def scatter(stage: Stage, centre: np.ndarray, spread: np.ndarray, a: int, b: int) -> np.ndarray:
    """Comparators f8 (V, E), named (a, b)."""
    out = np.empty((len(spread), len(stage.owner)))
    centres = np.ascontiguousarray(np.broadcast_to(centre, out.shape))
    _scatter(out, centres, spread, stage.setting.weight_limit, stage.setting.seed, a, b)
    return out


def try_comparators(stage: Stage, r: Record, say: Say | None = None) -> Tried:
    """Sampled comparators of the audited rounds, then a search for those that break A5 most."""
    s = stage.setting
    rounds = np.unique(np.linspace(0, s.rounds - 1, min(s.audit_rounds, s.rounds)).round().astype(np.int64))
    near = s.weight_limit * np.array(SPREADS)
    spread = np.where(np.arange(s.comparators) % 2 == 0, -1.0, near[np.arange(s.comparators) // 2 % len(near)])
    vertex = s.weight_limit * np.sign(r.updates.sum(axis=0))  # Lemma 1's comparator
    gains, surrogates = [], []
    for a, t in enumerate(rounds):
        w, u, now = r.weights[t], r.updates[t], r.losses[t]
        tried = [np.stack([vertex, r.weights[0], r.final]), scatter(stage, w, spread, int(t), 0)]
        tried = [np.concatenate(tried)]
        losses = [deploy(stage, int(t), np.concatenate([w[None], tried[0]]), r.eta)]
        if not np.array_equal(losses[0][0], now):
            raise AssertionError(f"round {t} was not replayed to the bit")
        losses[0] = losses[0][1:]
        for climb in range(CLIMBS):
            everything = np.concatenate(tried)  # (V, E)
            gain = now - np.concatenate(losses)
            broken = gain - s.constant * stage.by_topology((everything - w) * u)
            worst = broken.argmax(axis=0)[stage.owner]  # of each edge's topology
            centre = everything[worst, np.arange(len(stage.owner))]
            narrow = near[np.arange(s.comparators) % len(near)] * 0.5**climb
            tried.append(scatter(stage, centre, narrow, int(t), climb + 1))
            losses.append(deploy(stage, int(t), tried[-1], r.eta))
        gains.append((now - np.concatenate(losses)).T)
        surrogates.append(stage.by_topology((np.concatenate(tried) - w) * u).T)
        if say is not None:
            say(f"audit of round {t}", (a + 1) / len(rounds))
    return Tried(rounds, np.array(gains), np.array(surrogates), len(vertex[None]) + 2 + s.comparators)


def allowed(loss_gain: np.ndarray, surrogate_gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The C that the comparators (last axis) allow: from least to largest, f8 (..); none where least > largest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = loss_gain / surrogate_gain
    least = np.where(surrogate_gain > 0.0, ratio, -np.inf).max(axis=-1, initial=-np.inf)
    largest = np.where(surrogate_gain < 0.0, ratio, np.inf).min(axis=-1, initial=np.inf)
    lost = ((surrogate_gain == 0.0) & (loss_gain > 0.0)).any(axis=-1)  # no C makes up for it
    return np.where(lost, np.inf, least), largest


def verdict_on_a5(stage: Stage, tried: Tried) -> dict[str, Any]:
    """Shares of (t, h) in which A5 was not refuted, and the C that would do."""
    c, n = stage.setting.constant, tried.sampled
    holds = tried.loss_gain <= c * tried.surrogate_gain + 1e-12
    least, largest = allowed(tried.loss_gain, tried.surrogate_gain)
    needed = np.maximum(least, 1.0)
    possible = needed <= largest
    any_scale = np.maximum(least, 0.0) <= largest
    every, above = float(needed.max()), float(np.maximum(least, 0.0).max())
    return {
        "A5_constant": c,
        "A5_rounds_audited": len(tried.rounds),
        "A5_comparators": list(tried.loss_gain.shape[1:]),
        "A5_share_of_comparators_satisfied": float(holds.mean()),
        "A5_share_of_rounds_sampled": float(holds[..., :n].all(axis=-1).mean()),
        "A5_share_of_rounds_optimised": float(holds.all(axis=-1).mean()),
        "A5_share_of_rounds_for_some_C_at_least_1": float(possible.mean()),
        "A5_share_of_rounds_for_some_C_above_0": float(any_scale.mean()),
        "A5_smallest_C_median_where_possible": float(np.median(needed[possible])) if possible.any() else None,
        "A5_smallest_C_for_all_rounds": every if every <= float(largest.min()) else None,
        "A5_smallest_C_where_dL_is_above_0": above if math.isfinite(above) else None,
        "A5_holds": bool(holds.all()),
    }


def try_fixed(stage: Stage, r: Record, say: Say | None = None) -> Fixed:
    """Fixed comparators over all rounds: known ones and random ones, then others around the best of each topology."""
    s = stage.setting
    count = max(4, s.comparators // 2)
    known = np.stack([r.weights[0], r.final, r.weights.mean(axis=0), s.weight_limit * np.sign(r.updates.sum(axis=0))])
    first = np.concatenate([known, scatter(stage, r.weights[0], np.full(count, -1.0), s.rounds, 0)])
    found = _every_round(stage, r, first, say, 0.0)
    centre = first[found.sum(axis=0).argmin(axis=0)[stage.owner], np.arange(len(stage.owner))]
    spread = s.weight_limit * np.geomspace(0.3, 0.01, count)
    second = scatter(stage, centre, spread, s.rounds, 1)
    more = _every_round(stage, r, second, say, 0.5)
    return Fixed(np.concatenate([first, second]), np.concatenate([found, more], axis=1))


def _every_round(stage: Stage, r: Record, weights: np.ndarray, say: Say | None, before: float) -> np.ndarray:
    """Losses f8 (T, F, M) of the weights f8 (F, E)."""
    losses = np.empty((stage.setting.rounds, len(weights), stage.setting.pool))
    for t in range(stage.setting.rounds):
        losses[t] = deploy(stage, t, weights, r.eta)
        if say is not None:
            say(f"fixed comparators, round {t}", before + 0.5 * (t + 1) / stage.setting.rounds)
    return losses


def fixed_facts(stage: Stage, r: Record, fixed: Fixed) -> dict[str, Any]:
    """A5 as the theorem's proof uses it, summed over the rounds for one v: sum dl <= C sum dL."""
    totals = fixed.losses.sum(axis=0)  # f8 (F, M)
    gain = r.losses.sum(axis=0) - totals
    surrogate = stage.by_topology(fixed.weights * r.updates.sum(axis=0) - (r.weights * r.updates).sum(axis=0))
    least, largest = allowed(gain.T, surrogate.T)
    best = np.unravel_index(totals.argmin(), totals.shape)
    return {
        "A5_summed_share_of_comparators_satisfied": float((gain <= stage.setting.constant * surrogate + 1e-9).mean()),
        "A5_summed_share_of_topologies_for_some_C_at_least_1": float((np.maximum(least, 1.0) <= largest).mean()),
        "A5_summed_share_of_topologies_for_some_C_above_0": float((np.maximum(least, 0.0) <= largest).mean()),
        "A5_summed_at_the_best_pair": bool(gain[best] <= stage.setting.constant * surrogate[best] + 1e-9),
        "best_pair_topology": int(best[1]),
        "best_pair_mean_loss": float(totals.min() / stage.setting.rounds),
    }


def audit_task(s: TaskSetting, say: Say | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """`neol regret task`: play, measure, audit; what regret.npz and regret.json hold."""

    def part(first: float, last: float) -> Say | None:
        return None if say is None else lambda text, done: say(text, first + (last - first) * done)

    stage = open_stage(s)
    try:
        r = play_task(stage, part(0.0, 0.05))
        tried = try_comparators(stage, r, part(0.05, 0.4))
        fixed = try_fixed(stage, r, part(0.4, 1.0))
    finally:
        stage.engine.close()
    named = curves(stage, r)
    found = observed(stage, r) | verdict_on_a5(stage, tried) | fixed_facts(stage, r, fixed)
    at, h = named["curve_rounds"], found["best_pair_topology"]
    spent = np.cumsum((r.probabilities * r.losses).sum(axis=1))[at - 1]
    rival = np.cumsum(fixed.losses, axis=0)[at - 1].min(axis=(1, 2))
    bound = s.constant * inner_curves(stage, r, at)[1][h] + named["curve_outer_bound"]
    named |= {"curve_total": (spent - rival)[None], "curve_total_bound": bound}
    named |= {f"audit_{k}": np.asarray(v) for k, v in tried._asdict().items()}
    named |= {"fixed_weights": fixed.weights, "fixed_losses": fixed.losses}
    return named, _facts(stage, named, found)


def _facts(stage: Stage, named: dict[str, np.ndarray], found: dict[str, Any]) -> dict[str, Any]:
    s = stage.setting
    out: dict[str, Any] = {"kind": "task", "task": s.task, "rule": s.rule, "rounds": s.rounds, "pool": s.pool}
    out |= {"seed": s.seed, "constant": s.constant, "weight_limit": s.weight_limit, "max_steps": s.max_steps}
    out |= {
        "pool_from": None if s.run is None else str(s.run),
        "edges": np.bincount(stage.owner, minlength=s.pool).tolist(),
    }
    for kind in KINDS:
        out |= {
            f"{kind}_regret": float(named[f"curve_{kind}"][0, -1]),
            f"{kind}_bound": float(named[f"curve_{kind}_bound"][-1]),
        }
    slopes = {kind: slope(named["curve_rounds"][-30:].tolist(), named[f"curve_{kind}"][:, -30:]) for kind in KINDS}
    for one in slopes.values():
        one["of"] = "rounds of one run: they depend on each other, so the interval is too narrow"
    regrets, bounds = named["inner_regrets"], named["inner_bounds"]
    out |= {
        "inner_regrets": regrets.tolist(),
        "inner_bounds": bounds.tolist(),
        "slope": slopes["total"],
        "slopes": slopes,
    }
    out["total_regret_is"] = "against the best pair found, so a lower bound of the regret"
    out["bound_holds"] = {
        "inner": bool((regrets <= bounds * (1.0 + 1e-9) + 1e-9).all()),
        "outer": bool(out["outer_regret"] <= out["outer_bound"] + tolerance(s.rounds)),
        "total": bool(out["total_regret"] <= out["total_bound"] + tolerance(s.rounds)),
    }
    out["bound_is_vacuous"] = bool(out["total_bound"] >= s.rounds)  # no regret of T losses in [0, 1] exceeds T
    out["assumptions"], out["verdict"] = found, verdict(found, out["bound_holds"], out["bound_is_vacuous"])
    return out | {"versions": versions()}


def verdict(a: dict[str, Any], holds: dict[str, bool], vacuous: bool) -> list[str]:
    """Which assumptions held, in sentences."""
    said = {True: "holds", False: "IS EXCEEDED"}
    share = {k: f"{v:.1%}" for k, v in a.items() if "share" in k}
    low, high = a["A2_loss_range"]
    least, most = a["A2_reward_range"]
    smallest = a["A5_smallest_C_for_all_rounds"]
    return [
        f"A1, A3, A6 and A7 hold by construction: {a['A1_pool']} topologies, a box of diameter {a['A3_diameter']:.4g}, "
        f"Hedge, every loss seen; {share['A3_share_of_weights_at_the_limit']} of the weights lay at the box's limit.",
        f"A2: losses lay in [{low:.4g}, {high:.4g}], as they must ({share['A2_share_of_returns_below_it']} of the "
        "returns lay below the range and count as its end); the rewards that gate the updates lay in "
        f"[{least:.4g}, {most:.4g}], {'as A2 asks' if a['A2_holds'] else 'not in [0, 1] as A2 asks'}.",
        f"A4 holds: the updates' norm was {a['A4_median_update_norm']:.4g} in the median and "
        f"{a['A4_largest_update_norm']:.4g} at most.",
        f"A5 with C = {a['A5_constant']:g} withstood sampled comparators in {share['A5_share_of_rounds_sampled']} of "
        f"the audited (round, topology) pairs and optimised ones in {share['A5_share_of_rounds_optimised']}; some "
        f"C >= 1 would do in {share['A5_share_of_rounds_for_some_C_at_least_1']} of them, some C > 0 in "
        f"{share['A5_share_of_rounds_for_some_C_above_0']}.",
        "No C does for all of them." if smallest is None else f"The smallest C that does for all is {smallest:.4g}.",
        f"Summed over the rounds, as the proof uses it, A5 {'holds' if a['A5_summed_at_the_best_pair'] else 'fails'} "
        f"at the best pair found; some C > 0 would do for "
        f"{share['A5_summed_share_of_topologies_for_some_C_above_0']} of the topologies.",
        f"Lemma 1 {said[holds['inner']]} for every topology and Lemma 2 {said[holds['outer']]}, as they must; the "
        f"theorem's bound {said[holds['total']]} against the best pair found"
        + ("." if a["A5_holds"] else ", though A5, which it rests on, does not hold."),
        *(["That bound is larger than T, which no regret can exceed: at this T it says nothing."] if vacuous else []),
    ]
