"""Regret on real rollouts: the lemmas on what was realised, the replay of rounds, and the audit of A5."""

from __future__ import annotations

import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import assert_near, examples
from hypothesis import given, settings
from hypothesis import strategies as st

import neol
from neol.cli import main as cli
from neol.envs.registry import import_envpool
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.outer.base import Outcome
from neol.outer.hedge_pool import HedgePool, normalised_losses, random_pool
from neol.outer.selectors import hedge
from neol.theory.audit import allowed, audit_task, deploy, replicate, scatter, try_comparators, verdict_on_a5
from neol.theory.on_tasks import TaskSetting, diameters, inner_curves, open_stage, outer_curves, play_task
from neol.theory.pools import run_pool
from neol.training.configure import configure
from neol.training.loop import problem_of

RULES = ("hebb", "oja", "bcm")
SMALL: dict[str, Any] = {"rounds": 12, "pool": 4, "audit_rounds": 3, "comparators": 4, "max_steps": 60}


def neol_(*arguments: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(a) for a in arguments])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module", params=RULES)
def played(request):
    stage = open_stage(TaskSetting("cartpole", request.param, **SMALL))
    return stage, play_task(stage)


def test_weights_move_by_projected_updates(played):
    stage, r = played
    limit = stage.setting.weight_limit
    after = np.concatenate([r.weights[1:], r.final[None]])
    assert_near(after, np.clip(r.weights + r.eta * r.updates, -limit, limit), 1e-9)
    assert np.abs(r.updates).max() > 0.0
    assert np.abs(r.weights).max() <= limit


def test_the_update_is_the_sum_of_reward_times_trace_over_the_episode(played):
    """One topology's life step by step through PlasticNetwork, on the same episode: the same u."""
    stage, r = played
    envpool = import_envpool()

    from neol import seeding
    from neol.deploy import network_json
    from neol.deploy.plastic_network import PlasticNetwork
    from neol.deploy.task_interface import to_document as interface

    h, t, s = 1, 5, stage.setting
    ph = stage.phenotypes._replace(weight=r.weights[t])
    document = network_json.to_document(ph, stage.genomes, h, recurrent=False)
    net = PlasticNetwork.from_json(
        {**document, "interface": interface(stage.task)}, rule=s.rule, lr=r.eta, reward_scale=1.0
    )
    net = PlasticNetwork(net.network, net.settings.__class__(**{**vars(net.settings), "weight_limit": math.inf}))
    seed = int(seeding.episode_seeds(s.seed, seeding.ROUND, t, 1, 1, True)[0])
    env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=1, seed=[seed], max_episode_steps=s.max_steps)
    observation, total, done = env.reset()[0][0], 0.0, False
    while not done:
        step = env.step(np.array([net.act(observation)], np.int32))
        observation, total, done = step[0][0], total + float(step[1][0]), bool(step[2][0] or step[3][0])
        net.reward(float(step[1][0]))
    edges = stage.phenotypes.edges(h)
    moved = np.array(list(net.weights.values()))
    assert_near(1.0 - total / 500.0, r.losses[t, h])
    assert_near(np.sort(moved), np.sort(r.weights[t, edges] + r.eta * r.updates[t, edges]), 1e-8)


def test_lemma_1_holds_for_every_topology_and_lemma_2_for_the_pool(played):
    stage, r = played
    at = np.arange(1, stage.setting.rounds + 1)
    inner, bound = inner_curves(stage, r, at)
    assert inner.shape == (4, 12)
    assert (inner <= bound * (1 + 1e-9)).all()
    outer, limit = outer_curves(stage, r, at)
    assert (outer <= limit + 1e-9).all()
    assert_near(limit[-1], math.sqrt(12 * math.log(4.0) / 2.0))


def test_inner_regret_is_the_best_vertex_of_the_box_tried_one_by_one(played):
    stage, r = played
    inner, bound = inner_curves(stage, r, np.array([12]))
    h = int(np.bincount(stage.owner).argmin())  # few edges, so that all vertices can be tried
    u, w = r.updates[:, stage.owner == h], r.weights[:, stage.owner == h]
    d = u.shape[1]
    assert 1 <= d <= 8
    vertices = 10.0 * np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1).T
    tried = [float(((v - w) * u).sum()) for v in vertices]
    assert_near(inner[h, 0], max(tried), 1e-9)
    assert_near(bound[h, 0], (20.0**2 * d) / (2.0 * r.eta) + 0.5 * r.eta * (u**2).sum(), 1e-9)
    assert_near(diameters(stage)[h], 20.0 * math.sqrt(d))


def test_the_outer_loop_is_hedge(played):
    _, r = played
    outer = hedge(4, 12, 0)
    for t in range(12):
        assert np.array_equal(r.probabilities[t], outer.p)
        assert r.chosen[t] == outer.ask()
        outer.tell(r.losses[t])


def test_eta_is_d_over_u_root_t(played):
    stage, r = played
    again = play_task(stage)
    assert again.eta == r.eta
    assert np.array_equal(again.losses, r.losses)  # the same bits
    assert 0.0 < r.eta < math.inf


def test_a_round_is_replayed_to_the_bit_among_any_comparators(played):
    stage, r = played
    for t in (0, 7):
        others = scatter(stage, r.weights[t], np.array([-1.0, 0.5, 0.1]), t, 0)
        found = deploy(stage, t, np.stack([others[0], r.weights[t], *others[1:]]), r.eta)
        assert found.shape == (4, 4)
        assert np.array_equal(found[1], r.losses[t])


def test_replicated_populations_are_the_same_networks():
    config = configure("cartpole").config
    genomes = random_pool(config.neat, 4, 2, 5, 3)
    from neol.neat.genome import concatenate
    from neol.network.phenotype import compile_phenotypes

    one, three = compile_phenotypes(genomes, 4, 2), compile_phenotypes(concatenate([genomes] * 3), 4, 2)
    for a, b in zip(replicate(one, 3), three, strict=True):
        assert np.array_equal(a, b)


gains = st.lists(st.tuples(st.floats(-1, 1), st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0])), max_size=8)


@settings(max_examples=examples(100))
@given(gains, st.floats(0.0, 10.0))
def test_the_interval_of_c_is_exactly_where_a5_holds(pairs, c):
    loss = np.array([p[0] for p in pairs])
    surrogate = np.array([p[1] for p in pairs])
    least, largest = allowed(loss, surrogate)
    on_the_edge = any(s != 0.0 and math.isclose(g, c * s, abs_tol=1e-9) for g, s in pairs)
    if not on_the_edge:
        assert all(g <= c * s for g, s in pairs) == (least <= c <= largest)


def test_the_audit_finds_what_breaks_a5_and_nothing_in_an_instance_that_keeps_it(played):
    """The loss is replaced by the surrogate itself: A5 with equality at C = 1; then C = 1.01 must fail somewhere."""
    stage, r = played
    tried = try_comparators(stage, r)
    assert tried.loss_gain.shape == (3, 4, 3 + 4 + 3 * 4)
    assert tried.sampled == 7
    linear = tried._replace(loss_gain=tried.surrogate_gain)
    found = verdict_on_a5(stage, linear)
    assert found["A5_holds"]
    assert found["A5_share_of_rounds_optimised"] == 1.0
    assert found["A5_smallest_C_for_all_rounds"] == 1.0
    half = verdict_on_a5(stage, tried._replace(loss_gain=0.5 * tried.surrogate_gain))
    assert not half["A5_holds"]  # dL < 0 asks for C <= 1/2
    assert half["A5_share_of_rounds_for_some_C_above_0"] == 1.0
    assert half["A5_share_of_rounds_for_some_C_at_least_1"] < 1.0
    real = verdict_on_a5(stage, tried)
    assert 0.0 <= real["A5_share_of_rounds_optimised"] <= real["A5_share_of_rounds_sampled"] <= 1.0


def test_the_command_writes_everything(tmp_path):
    arguments = ["--rounds=8", "--pool=3", "--max-steps=40", "--audit-rounds=2", "--comparators=3", "--quiet"]
    code, out, err = neol_("regret", "task", "cartpole", "--rule=bcm", *arguments, "--out", tmp_path / "r")
    assert (code, err) == (0, "")
    assert "A5 with C = 1 withstood" in out
    facts = json.loads((tmp_path / "r" / "regret.json").read_text())
    with np.load(tmp_path / "r" / "regret.npz", allow_pickle=False) as data:
        a = dict(data)
    assert a["losses"].shape == a["probabilities"].shape == a["update_norms"].shape == (8, 3)
    assert_near(facts["outer_bound"], math.sqrt(8 * math.log(3.0) / 2.0))
    spent = (a["probabilities"] * a["losses"]).sum()
    assert_near(facts["outer_regret"], spent - a["losses"].sum(axis=0).min())
    assert_near(facts["total_regret"], spent - a["fixed_losses"].sum(axis=0).min())
    norms = [np.linalg.norm(a["updates"][:, a["owner"] == h], axis=1) for h in range(3)]
    assert_near(a["update_norms"], np.transpose(norms))
    assert facts["bound_holds"]["inner"]
    assert facts["bound_holds"]["outer"]
    assert facts["assumptions"]["A2_reward_range"] == [1.0, 1.0]
    for name in ("regret.png", "regret-loglog.png", "regret-average.png"):
        assert (tmp_path / "r" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["cartpole", "--rounds=0"], "rounds = 0 is not allowed; it must be a whole number from 1"),
        (["cartpole", "--pool=0"], "pool = 0 is not allowed; it must be a whole number from 1"),
        (["cartpole", "--pool=513"], "pool = 513 is not allowed"),
        (["cartpool"], "unknown task or environment 'cartpool'; did you mean 'cartpole'?"),
        (["cartpole", "--rule=none"], "rule = 'none' is not allowed; without plasticity there is no inner loop"),
        (["cartpole", "--rule=hep"], "rule = 'hep' is not allowed"),
        (["cartpole", "--constant=0"], "constant = 0.0 is not allowed; A5 has C >= 1"),
        (["cartpole", "--eta=-1"], "eta = -1.0"),
        (["cartpole", "--return-low=9", "--return-high=9"], "return_low = 9.0 is not allowed"),
        (["cartpole", "--run=/nowhere"], "'/nowhere' is not a run's folder"),
    ],
)
def test_bad_input_is_one_sentence_with_exit_code_2_and_writes_nothing(arguments, named, tmp_path):
    code, out, err = neol_("regret", "task", *arguments, "--out", tmp_path / "x")
    assert code == 2
    assert named in err
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "x").exists()


def test_a_wrong_normalisation_is_one_sentence_that_names_the_range_observed(tmp_path):
    wrong = ("--rounds=3", "--pool=2", "--return-high=5", "--quiet", "--out", tmp_path / "x")
    code, out, err = neol_("regret", "task", "cartpole", *wrong)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    stage = open_stage(TaskSetting("cartpole", rounds=3, pool=2))
    returns, _ = stage.rollout(0, stage.phenotypes.weight, 1.0)
    low, high = 500.0 * (1.0 - play_task(stage).losses[0].max()), 500.0 * (1.0 - play_task(stage).losses[0].min())
    assert f"returns of round 0 range from {low:.6g} to {high:.6g}" in err
    assert "losses must lie in [0, 1]" in err
    assert not (tmp_path / "x").exists()
    assert returns.shape == (2,)
    with pytest.raises(NeolError, match=r"from -3 to 2, so that losses normalised with \[0, 1\] range from -1 to 4"):
        normalised_losses(np.array([-3.0, 2.0]), 0.0, 1.0, "round 9")
    assert_near(normalised_losses(np.array([-3.0, 2.0]), -3.0, 2.0, "round 9"), [1.0, 0.0])
    assert_near(normalised_losses(np.array([-3.0, 1.0]), -1.0, 3.0, "round 9", floor=True), [1.0, 0.5])
    with pytest.raises(NeolError, match="range from 0 to 4"):
        normalised_losses(np.array([0.0, 4.0]), -1.0, 3.0, "round 9", floor=True)


def test_random_pools_differ_in_topology_and_follow_the_seed():
    config = configure("lunarlander").config.neat
    pool = random_pool(config, 8, 2, 16, 4)
    shapes = {
        tuple(sorted(zip(pool.source[p, :n], pool.target[p, :n], strict=True))) for p, n in enumerate(pool.n_conns)
    }
    assert len(shapes) >= 12
    again, other = random_pool(config, 8, 2, 16, 4), random_pool(config, 8, 2, 16, 5)
    assert all(np.array_equal(a, b) for a, b in zip(pool, again, strict=True))
    assert not np.array_equal(pool.weight[:, :4], other.weight[:, :4])
    assert len(random_pool(config, 8, 2, 1, 4).n_nodes) == 1


def test_a_pool_comes_from_a_run(tmp_path):
    tiny: dict[str, Any] = {"pop_size": 12, "generations": 3, "episodes": 1, "max_steps": 30, "threads": 1}
    tiny |= {"champion_trials": 1, "champion_episodes": 2, "champion_candidates": 3}
    neol.train("cartpole", out=tmp_path / "run", **tiny)
    pool = run_pool(tmp_path / "run", 3, 4, 2)
    assert len(pool.n_nodes) == 3
    named, facts = audit_task(TaskSetting("cartpole", run=Path(tmp_path / "run"), **{**SMALL, "pool": 3}))
    assert named["losses"].shape == (12, 3)
    assert facts["pool_from"] == str(tmp_path / "run")
    with pytest.raises(NeolError, match="pool = 500 is not allowed; '.*' holds"):
        run_pool(tmp_path / "run", 500, 4, 2)
    with pytest.raises(NeolError, match="is a run of task 'cartpole', so its topologies do not fit 'hopper'"):
        open_stage(TaskSetting("hopper", run=Path(tmp_path / "run"), **{**SMALL, "pool": 3}))


def test_hedge_over_a_pool_is_an_outer_loop_as_neat_is():
    problem = problem_of(configure("cartpole", outer="hedge", pool=6, generations=50, seed=1))
    assert (problem.inputs, problem.outputs, problem.fitness_range) == (4, 2, (0.0, 500.0))
    outer = HedgePool(problem)

    def told(fitness, adapted=None):
        return Outcome(fitness, fitness[:, None], np.ones((6, 1), int), adapted)

    first = outer.ask()
    fitness = np.array([10.0, 500.0, 20.0, 30.0, 40.0, 50.0])
    for _ in range(30):
        outer.tell(told(fitness))
    assert outer.generation == 30
    assert outer.selector.p.argmax() == 1
    assert outer.metrics()["effective_topologies"] < 6
    assert np.array_equal(outer.candidates(told(fitness), 1).weight[0], first.weight[1])
    assert all(np.array_equal(a, b) for a, b in zip(first, outer.ask(), strict=True))  # nothing evolves
    adapted = first.weight + 1.0
    outer.tell(told(fitness, adapted))
    assert np.array_equal(outer.ask().weight, adapted)  # each topology carries its weights on
    again = HedgePool(problem)
    again.restore(outer.state())
    again.tell(told(fitness))
    outer.tell(told(fitness))
    assert all(np.array_equal(a, b) for a, b in zip(again.state().values(), outer.state().values(), strict=True))
    with pytest.raises(NeolError, match=r"returns of generation 32 range from 10 to 501"):
        outer.tell(told(np.array([10.0, 501.0, 20.0, 30.0, 40.0, 50.0])))


def test_training_with_hedge_selects_and_resumes_to_the_same_bits(tmp_path):
    """`neol train --outer hedge --pool M`: the same loop, nothing evolves, and a killed run goes on."""
    tiny = ["--outer=hedge", "--pool=5", "--episodes=1", "--max-steps=40", "--threads=1", "--champion-trials=1",
            "--champion-episodes=2", "--champion-candidates=3", "--seed=2", "--quiet"]  # fmt: skip
    assert neol_("train", "cartpole", *tiny, "--generations=6", "--out", tmp_path / "a")[::2] == (0, "")
    assert neol_("train", "cartpole", *tiny, "--generations=3", "--out", tmp_path / "b")[0] == 0
    resumed = neol_("train", "--out", tmp_path / "b", "--resume", "--generations=6", "--quiet")
    assert resumed[::2] == (0, "")
    for name in ("history.csv", "champion.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    history = neol.load(tmp_path / "a").history
    assert (history["mean_nodes"] == history["mean_nodes"][0]).all()  # no topology changes
    assert history["effective_topologies"][0] == 5  # p is uniform at first
    code, _, err = neol_("train", "cartpole", *tiny, "--return-high=3", "--out", tmp_path / "c")
    assert code == 2
    assert "losses must lie in [0, 1], but the returns of generation 0 range from" in err
    wrong = neol_("train", "cartpole", *tiny, "--return-low=3", "--out", tmp_path / "d")
    assert "return_low = 3.0 is not allowed; it must be at most return_high = 0.0." in wrong[2]
    assert not (tmp_path / "d").exists()


def test_every_task_has_a_range_of_returns():
    for task in TASKS.values():
        low, high = task.returns
        assert low < high
