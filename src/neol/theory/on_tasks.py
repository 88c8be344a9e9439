"""Algorithm 1 on real rollouts: M topologies that carry their plastic weights from round to round, under Hedge.

A round t plays one episode of every topology, all with the same seed (the round's evaluation instance). Topology h
starts from w_t and learns with step eta while it acts; nothing is clipped within the episode, so that its weights end
at w_t + eta u_t, where u_t = sum over the steps of (reward x local trace). Then w_{t+1} = clip(w_t + eta u_t): A4, with
the box W = [-limit, limit]^d. So Lemma 1 is checked exactly for the realised u_t, and Lemma 2 for the realised losses:

    inner, topology h   sum_t <v - w_t, u_t> at the best v, which is the vertex limit * sign(S_h), S_h = sum_t u_t:
                        limit |S_h|_1 - sum_t <w_t, u_t>  <=  D_h^2 / (2 eta) + (eta / 2) sum_t |u_t|^2
                        with D_h = 2 limit sqrt d_h
    outer               sum_t <p_t, l_t> - min_h sum_t l_t(h, w_t)  <=  sqrt(T ln M / 2)

Legend: M topologies, E edges of all of them, d_h edges of one, T rounds, n points of a curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.config.schema import check_value
from neol.envs.registry import choose_engine, find, make, opened
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.neat.genome import Genomes
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.network.plasticity import NONE, RULE_ID
from neol.outer.hedge_pool import normalised_losses, random_pool
from neol.outer.selectors import count, hedge, hedge_bound
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.gymnasium_episode import one_life
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import Life, life_of
from neol.rollout.shards import CHUNK, Episodes, LocalEngine, RolloutResult, headline
from neol.theory.pools import run_pool
from neol.theory.regret import curve_points
from neol.training.configure import configure
from neol.training.run_folder import read_config

MOST_ROUNDS, LARGEST_POOL = 10**6, CHUNK  # a round's episodes are one chunk, so that it can be replayed to the bit
PILOT = 1e-9  # a step so small that weights stand still: the pilot round estimates U with it
Say = Callable[[str, float], None]


@dataclass(frozen=True)
class TaskSetting:
    """One experiment on a task. A bad value is a NeolError."""

    task: str
    rule: str = "hebb"
    rounds: int = 200  # T
    pool: int = 8  # M
    seed: int = 0
    constant: float = 1.0  # the C of A5 that is audited
    eta: float = 0.0  # 0 = D / (U sqrt T), with U from a pilot round
    weight_limit: float = 10.0
    return_low: float = math.nan  # nan = the task's own range of returns
    return_high: float = math.nan
    max_steps: int = 0  # 0 = the task's own
    threads: int = 1
    run: Path | None = None  # take the pool from this run
    audit_rounds: int = 40
    comparators: int = 16  # for each topology and audited round, in each of the audit's passes

    def __post_init__(self) -> None:
        count("rounds", self.rounds, MOST_ROUNDS)
        count("pool", self.pool, LARGEST_POOL)
        count("audit_rounds", self.audit_rounds, MOST_ROUNDS)
        count("comparators", self.comparators, 1000)
        for name in ("rule", "seed", "weight_limit", "max_steps", "threads"):
            check_value(name, getattr(self, name))
        if self.rule == "none":
            raise NeolError(
                "rule = 'none' is not allowed; without plasticity there is no inner loop: hebb, oja or bcm."
            )
        if not (0.0 <= self.eta < math.inf and self.weight_limit < math.inf):
            raise NeolError(
                f"eta = {self.eta}, weight_limit = {self.weight_limit} are not allowed; both must be finite."
            )
        if not 1.0 <= self.constant < math.inf:
            raise NeolError(f"constant = {self.constant} is not allowed; A5 has C >= 1.")
        low, high = self.returns
        if not -math.inf < low < high < math.inf:
            raise NeolError(f"return_low = {low} is not allowed with return_high = {high}; it must be less.")

    @property
    def returns(self) -> tuple[float, float]:
        low, high = find(self.task).returns
        return (low if math.isnan(self.return_low) else self.return_low,
                high if math.isnan(self.return_high) else self.return_high)  # fmt: skip


class Stage(NamedTuple):
    """Where rounds are played."""

    setting: TaskSetting
    task: Task
    genomes: Genomes
    phenotypes: Phenotypes
    owner: np.ndarray  # i8 (E,) topology of each edge
    life: Life  # without clipping within an episode
    engine: LocalEngine
    max_steps: int

    def play(self, t: int, phenotypes: Phenotypes, eta: float) -> RolloutResult:
        """Round t's instance, one episode each."""
        life = self.life._replace(plastic=self.life.plastic._replace(rate=eta))
        result = self.engine.run(phenotypes, life, Episodes(self.setting.seed, seeding.ROUND, t, 1, common=True))
        for f in result.failures:
            raise NeolError(f"an episode of '{self.task.name}' failed {f.attempts} times: {headline(f.text)}")
        return result

    def rollout(self, t: int, weight: np.ndarray, eta: float) -> tuple[np.ndarray, np.ndarray]:
        """Round t from the weights f8 (E,): the returns f8 (M,), and the weights f8 (E,) at the end."""
        result = self.play(t, self.phenotypes._replace(weight=weight), eta)
        return result.returns[:, 0], result.weight

    def losses(self, returns: np.ndarray, t: int) -> np.ndarray:
        floor = self.task.unbounded_below and math.isnan(self.setting.return_low)
        return normalised_losses(returns, *self.setting.returns, f"round {t}", floor)

    def by_topology(self, values: np.ndarray) -> np.ndarray:
        """Sums f8 (.., M) over the edges of each topology, of values f8 (.., E)."""
        out = np.zeros((*values.shape[:-1], self.setting.pool))
        np.add.at(out.T, self.owner, values.T)
        return out


class Record(NamedTuple):
    """Everything that happened, round by round."""

    returns: np.ndarray  # f8 (T, M)
    losses: np.ndarray  # f8 (T, M) l_t(h, w_t)
    probabilities: np.ndarray  # f8 (T, M)
    chosen: np.ndarray  # i8 (T,)
    weights: np.ndarray  # f8 (T, E) w_t
    updates: np.ndarray  # f8 (T, E) u_t
    final: np.ndarray  # f8 (E,) w_{T+1}
    gamma: float
    eta: float


def open_stage(s: TaskSetting) -> Stage:
    """Make the pool and the engine."""
    task = find(s.task)
    config = configure(s.task, rule=s.rule, seed=s.seed, max_steps=s.max_steps).config
    if s.run is not None:
        trained = read_config(s.run).run.task
        if trained != task.name:
            raise NeolError(f"'{s.run}' is a run of task '{trained}', so its topologies do not fit '{task.name}'.")
        genomes = run_pool(s.run, s.pool, task.n_inputs, task.n_outputs)
    else:
        genomes = random_pool(config.evolution, task.n_inputs, task.n_outputs, s.pool, s.seed)
    phenotypes = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    edges = np.diff(phenotypes.edge_start[phenotypes.node_start])
    life = life_of(task, config.plasticity)
    life = life._replace(plastic=life.plastic._replace(rule=RULE_ID[s.rule], weight_limit=math.inf))
    steps = config.rollout.max_steps
    engine: LocalEngine = LocalGymnasium(task, steps)
    if choose_engine(task, "auto")[0] == "envpool":
        engine = EnvPoolEngine(task, steps, s.threads)
    return Stage(s, task, genomes, phenotypes, np.repeat(np.arange(s.pool), edges), life, engine, steps)


def play_task(stage: Stage, say: Say | None = None) -> Record:
    """Algorithm 1: OuterInit, then T times OuterSelect, Rollout, Loss, OuterUpdate."""
    s, limit = stage.setting, stage.setting.weight_limit
    weight = np.clip(stage.phenotypes.weight, -limit, limit)
    eta = s.eta or tuned_eta(stage, weight)
    outer = hedge(s.pool, s.rounds, s.seed)  # OuterInit

    def table(width: int) -> np.ndarray:
        return np.empty((s.rounds, width))

    m, e = s.pool, len(weight)
    chosen, gamma = np.empty(s.rounds, np.int64), float(outer.rates.gamma[0])
    record = Record(table(m), table(m), table(m), chosen, table(e), table(e), weight, gamma, eta)
    for t in range(s.rounds):
        record.chosen[t], record.probabilities[t] = outer.ask(), outer.p  # OuterSelect
        returns, moved = stage.rollout(t, weight, eta)  # Rollout
        losses = stage.losses(returns, t)  # Loss
        outer.tell(losses)  # OuterUpdate
        if not np.isfinite(moved).all():
            raise NeolError(
                f"eta = {eta:.4g} is too large: the weights of round {t} grew without bound; give a smaller."
            )
        record.returns[t], record.losses[t] = returns, losses
        record.weights[t], record.updates[t] = weight, (moved - weight) / eta
        weight = np.clip(moved, -limit, limit)  # w_{t+1} = project(w_t + eta u_t)
        if say is not None:
            say(f"round {t}", (t + 1) / s.rounds)
    return record._replace(final=weight)


def tuned_eta(stage: Stage, weight: np.ndarray) -> float:
    """D / (U sqrt T), with the largest D of the pool and U from a pilot round in which weights stand still."""
    s = stage.setting
    _, moved = stage.rollout(s.rounds, weight, PILOT)  # an instance of its own: round T is not played
    update = math.sqrt(float(stage.by_topology(((moved - weight) / PILOT) ** 2).max(initial=0.0)))
    if not 0.0 < update < math.inf:
        raise NeolError(f"the pilot round's updates have norm {update}; give eta.")
    return float(diameters(stage).max()) / (update * math.sqrt(s.rounds))


def diameters(stage: Stage) -> np.ndarray:
    """D_h f8 (M,) of the box."""
    edges = np.bincount(stage.owner, minlength=stage.setting.pool)
    return 2.0 * stage.setting.weight_limit * np.sqrt(edges)


def inner_curves(stage: Stage, r: Record, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Surrogate regret and Lemma 1's realised bound, f8 (M, n) each, after the rounds `at`."""
    pull = np.cumsum(stage.by_topology(r.weights * r.updates), axis=0)[at - 1]  # sum <w_t, u_t>
    drift = np.abs(np.cumsum(r.updates, axis=0))[at - 1]  # |S|, by edge
    regret = stage.setting.weight_limit * stage.by_topology(drift) - pull
    energy = np.cumsum(stage.by_topology(r.updates**2), axis=0)[at - 1]
    bound = diameters(stage) ** 2 / (2.0 * r.eta) + 0.5 * r.eta * energy
    return regret.T, bound.T


def outer_curves(stage: Stage, r: Record, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outer regret and Lemma 2's bound, f8 (n,) each, after the rounds `at`."""
    spent = np.cumsum((r.probabilities * r.losses).sum(axis=1))[at - 1]
    best = np.cumsum(r.losses, axis=0)[at - 1].min(axis=1)
    rates = hedge(stage.setting.pool, stage.setting.rounds, 0).rates
    bound = [
        hedge_bound(rates._replace(gamma=rates.gamma[:t], restart=rates.restart[:t]), r.losses.shape[1]) for t in at
    ]
    return spent - best, np.array(bound)


def reward_range(stage: Stage, episodes: int = 2) -> tuple[float, float]:
    """Least and largest reward of a step, in a few Gymnasium episodes of every topology, which keeps its weights."""
    life = stage.life._replace(plastic=stage.life.plastic._replace(rule=NONE))
    low, high = math.inf, -math.inf
    with opened(make(stage.task)) as env:
        for p in range(stage.setting.pool):
            alone = stage.phenotypes.part(p, p + 1)
            for seed in range(episodes):
                for moment in one_life(stage.task, alone, life, seed, stage.max_steps, env=env):
                    if moment.step:
                        low, high = min(low, moment.reward), max(high, moment.reward)
    return low, high


def curves(stage: Stage, r: Record) -> dict[str, np.ndarray]:
    """The arrays of regret.npz, but for those of the total regret."""
    at = curve_points(stage.setting.rounds, 60)
    inner, inner_bound = inner_curves(stage, r, at)
    outer, outer_bound = outer_curves(stage, r, at)
    h = int(r.losses.sum(axis=0).argmin())
    norms = np.sqrt(stage.by_topology(r.updates**2))
    return {
        "returns": r.returns, "losses": r.losses, "probabilities": r.probabilities, "chosen": r.chosen,
        "update_norms": norms,
        "surrogate": -stage.by_topology(r.weights * r.updates), "gamma": np.array(r.gamma), "eta": np.array(r.eta),
        "diameter": np.array(diameters(stage).max()), "diameters": diameters(stage), "owner": stage.owner,
        "weights": r.weights, "updates": r.updates, "horizons": np.array([stage.setting.rounds]), "curve_rounds": at,
        "curve_inner": inner[h : h + 1], "curve_inner_bound": inner_bound[h], "inner_regrets": inner[:, -1],
        "inner_bounds": inner_bound[:, -1], "curve_outer": outer[None], "curve_outer_bound": outer_bound,
        "best": np.array(h),
    }  # fmt: skip


def observed(stage: Stage, r: Record) -> dict[str, Any]:
    """A1 to A4, A6 and A7 as they were observed."""
    norms = np.sqrt(stage.by_topology(r.updates**2))
    low, high = reward_range(stage)
    visited = [r.weights[:, stage.owner == h] for h in range(stage.setting.pool)]
    spread = max(float(np.sqrt(((v - v.mean(axis=0)) ** 2).sum(axis=1)).max(initial=0.0)) for v in visited)
    return {
        "A1_pool": stage.setting.pool,
        "A2_loss_range": [float(r.losses.min()), float(r.losses.max())],
        "A2_return_range": [float(r.returns.min()), float(r.returns.max())],
        "A2_return_normalisation": list(stage.setting.returns),
        "A2_share_of_returns_below_it": float((r.returns < stage.setting.returns[0]).mean()),
        "A2_reward_range": [low, high],
        "A2_holds": bool(low >= 0.0 and high <= 1.0),
        "A3_diameter": float(diameters(stage).max()),
        "A3_visited_radius": spread,
        "A3_share_of_weights_at_the_limit": float((np.abs(r.weights) >= stage.setting.weight_limit).mean()),
        "A4_largest_update_norm": float(norms.max()),
        "A4_median_update_norm": float(np.median(norms)),
        "A4_eta": r.eta,
        "A6_selector": "hedge",
        "A7_full_information": True,
    }
