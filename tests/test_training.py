"""The training loop: the same bytes however it is run, its stops, its settings, and what it leaves behind."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neol
from neol.config.schema import Config, fields
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.neat.genome import Genomes
from neol.network.phenotype import compile_phenotypes, gene_weights
from neol.training import run_folder
from neol.training.configure import configure
from neol.training.history import HistoryRow
from neol.training.observers import Generation
from neol.training.train import train

# As little as makes sense; a test names what it is about.
TINY: dict[str, Any] = {
    "pop_size": 12, "generations": 3, "episodes": 1, "max_steps": 80, "threads": 1, "seed": 4,
    "champion_candidates": 2, "champion_trials": 2, "champion_episodes": 3,
}  # fmt: skip
NO_VARIATION: dict[str, Any] = {
    "weight_mutation": "off", "bias_mutate_rate": 0, "bias_replace_rate": 0, "enabled_mutate_rate": 0,
    "conn_add_prob": 0, "conn_delete_prob": 0, "node_add_prob": 0, "node_delete_prob": 0, "crossover_prob": 0,
}  # fmt: skip
AUTHORS_FILE = Path(__file__).parent / "data" / "neat" / "authors-plastic.ini"


def tiny(task: str | None, out: Path, **settings: Any) -> neol.Run:
    return train(task, out=out, **{**TINY, **settings})


def outcome(run: neol.Run) -> tuple[bytes, bytes]:
    """What must not differ between two ways of running the same thing."""
    return (run.path / run_folder.HISTORY).read_bytes(), run.champion_path.read_bytes()


def watched(task: str, out: Path, **settings: Any) -> tuple[neol.Run, list[Generation]]:
    """A run, and what its callback saw."""
    seen: list[Generation] = []
    return tiny(task, out, callback=lambda state: seen.append(state), **settings), seen


# -- bits --------------------------------------------------------------------------------------------------------------

SAME_BYTES = {
    "cartpole": {"rule": "oja", "episodes": 2, "pop_size": 20, "max_steps": 200, "reward_scale": 0.1},
    "lunarlander": {"rule": "bcm", "pop_size": 70, "max_steps": 0, "generations": 4, "node_add_prob": 0.3},
    "bipedalwalker": {"rule": "hebb", "common_random_numbers": False, "feed_forward": False},
    "hopper": {"rule": "hebb", "episodes": 2, "max_steps": 60, "pop_size": 10},
}


@pytest.mark.parametrize("task", SAME_BYTES)
def test_history_and_champion_are_byte_identical_for_any_threads_and_window(task: str, tmp_path: Path) -> None:
    settings = SAME_BYTES[task]
    size = settings.get("pop_size", TINY["pop_size"])
    expected = outcome(tiny(task, tmp_path / "reference", **settings, threads=1))
    for threads, window in ((1, 8), (2, 8), (2, 64), (1, 64), (2, size)) if task != "hopper" else ((2, 8), (1, 64)):
        run = tiny(task, tmp_path / f"{threads}-{window}", **{**settings, "threads": threads, "window": window})
        assert outcome(run) == expected, (threads, window)


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    first, second = (outcome(tiny("lunarlander", tmp_path / str(seed), seed=seed)) for seed in (0, 1))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_the_config_file_of_a_run_makes_the_same_run_again(tmp_path: Path) -> None:
    run = tiny(
        "lunarlander", tmp_path / "first", rule="oja", feed_forward=False, activation_options=["tanh", "clamped"]
    )
    again = train(config=run.path / run_folder.CONFIG, out=tmp_path / "second")
    assert again.config == run.config
    assert outcome(again) == outcome(run)


# -- rules and inheritance ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inheritance", ["lamarckian", "darwinian"])
@pytest.mark.parametrize("rule", ["none", "hebb", "oja", "bcm"])
def test_every_rule_runs_with_either_inheritance(rule: str, inheritance: str, tmp_path: Path) -> None:
    run = tiny("lunarlander", tmp_path / "run", rule=rule, inheritance=inheritance, generations=2)
    assert len(run.history["generation"]) == 2
    assert all(np.isfinite(column).all() for column in run.history.values())
    assert ((run.history["mean_weight_change"] > 0) == (rule != "none")).all()
    assert (run.champion.settings.rule, run.champion.settings.inheritance) == (rule, inheritance)


def rows(weight: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in weight}


def weights_of(genomes: Genomes) -> np.ndarray:
    """The weights f8 (P, C) without free places; here all genomes are equally long."""
    assert (genomes.n_conns == genomes.n_conns[0]).all()
    return np.ascontiguousarray(genomes.weight[:, : genomes.n_conns[0]])


def adapted_weights(state: Generation) -> np.ndarray:
    task = TASKS["lunarlander"]
    phenotypes = compile_phenotypes(state.genomes, task.n_inputs, task.n_outputs)
    weight = gene_weights(state.genomes, phenotypes, state.result.weight)
    return np.ascontiguousarray(weight[:, : state.genomes.n_conns[0]])


def test_darwinian_inheritance_leaves_no_trace_of_learning_in_the_genomes(tmp_path: Path) -> None:
    _, seen = watched("lunarlander", tmp_path / "run", inheritance="darwinian", reward_scale=0.1, **NO_VARIATION)
    for before, after in pairwise(seen):
        assert rows(weights_of(after.genomes)) <= rows(weights_of(before.genomes))
        assert not rows(adapted_weights(before)) & rows(weights_of(before.genomes))


def test_lamarckian_inheritance_writes_the_adapted_weights_back(tmp_path: Path) -> None:
    settings = {"inheritance": "lamarckian", "reward_scale": 0.1, **NO_VARIATION}
    _, seen = watched("lunarlander", tmp_path / "run", episodes=2, **settings)
    for before, after in pairwise(seen):
        assert rows(weights_of(after.genomes)) <= rows(adapted_weights(before))
        assert not rows(weights_of(after.genomes)) & rows(weights_of(before.genomes))


@pytest.mark.parametrize("rule", ["hebb", "oja", "bcm"])
@pytest.mark.parametrize("inheritance", ["lamarckian", "darwinian"])
def test_the_matched_control_with_lr_0_is_the_rule_none(rule: str, inheritance: str, tmp_path: Path) -> None:
    settings = {"inheritance": inheritance, "generations": 4, "max_steps": 200}
    control = tiny("lunarlander", tmp_path / "control", rule=rule, lr=0.0, **settings)
    static = tiny("lunarlander", tmp_path / "static", rule="none", **settings)
    assert control.history["best_fitness"].tolist() == static.history["best_fitness"].tolist()
    assert outcome(control)[0] == outcome(static)[0]
    assert control.champion.weights == static.champion.weights


def test_the_plastic_arm_differs_from_its_matched_control(tmp_path: Path) -> None:
    control, plastic = (tiny("lunarlander", tmp_path / str(lr), lr=lr, max_steps=200) for lr in (0.0, 0.25))
    assert outcome(control)[0] != outcome(plastic)[0]


# -- fitness and stops -------------------------------------------------------------------------------------------------


def test_fitness_is_the_mean_over_episodes_of_return_plus_offset_per_step(tmp_path: Path) -> None:
    settings = {"episodes": 3, "generations": 2}
    _, plain = watched("cartpole", tmp_path / "plain", fitness_offset=0.0, **settings)
    run, offset = watched("cartpole", tmp_path / "offset", fitness_offset=-0.75, **settings)
    for state in offset:
        by_hand = [
            sum(r - 0.75 * n for r, n in zip(returns, steps, strict=True)) / 3
            for returns, steps in zip(state.result.returns, state.result.steps, strict=True)
        ]
        np.testing.assert_allclose(state.fitness, by_hand, rtol=1e-12)
        assert state.row["best_fitness"] == state.fitness.max()
        assert state.row["best_return"] == state.result.returns.mean(axis=1).max()
    for state in plain:
        assert (state.fitness == state.result.returns.mean(axis=1)).all()
    assert (offset[0].result.returns == plain[0].result.returns).all()  # the offset is on the fitness alone
    assert run.summary.champion_return_mean >= 8.0  # returns stay returns: no pole falls sooner


def test_a_floor_under_rewards_is_in_the_fitness_alone(tmp_path: Path) -> None:
    settings = {"episodes": 2, "generations": 1, "pop_size": 6, "max_steps": 120, "fitness_offset": 0.25}
    _, plain = watched("lunarlander", tmp_path / "plain", **settings)
    run, floored = watched("lunarlander", tmp_path / "floored", reward_floor=-1.0, **settings)
    state = floored[0]
    by_hand = [
        sum(r + 0.25 * n for r, n in zip(sums, steps, strict=True)) / 2
        for sums, steps in zip(state.result.fitness(0.0), state.result.steps, strict=True)
    ]
    np.testing.assert_allclose(state.fitness, by_hand, rtol=1e-12)
    assert (state.result.returns == plain[0].result.returns).all()
    assert (state.fitness > plain[0].fitness + 50.0).any()  # a crash costs 100
    assert state.row["mean_return"] == plain[0].row["mean_return"] == state.result.returns.mean(axis=1).mean()
    assert run.config.rollout.reward_floor == -1.0


def test_a_task_brings_its_own_offset_unless_told_otherwise() -> None:
    assert configure("hopper").config.rollout.fitness_offset == -1.0
    assert configure("bipedalwalker").config.rollout.fitness_offset == 0.0
    assert configure("lunarlander").config.rollout.fitness_offset == 0.0
    assert configure("hopper", fitness_offset=0).config.rollout.fitness_offset == 0.0


def test_stops_after_the_generations_asked_for(tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run", generations=5)
    assert run.history["generation"].tolist() == [0, 1, 2, 3, 4]
    assert (run.summary.status, run.summary.generations) == ("all generations done", 5)


def test_stops_at_the_first_generation_that_reaches_the_env_step_limit(tmp_path: Path) -> None:
    whole = tiny("cartpole", tmp_path / "whole", generations=6).history["env_steps"]
    for limit, generations in ((int(whole[2]), 3), (int(whole[2]) + 1, 4), (1, 1)):
        run = tiny("cartpole", tmp_path / str(limit), generations=6, max_env_steps=limit)
        assert run.history["env_steps"].tolist() == whole[:generations].tolist()
        assert run.summary.status == "env-step limit reached"
        assert run.summary.env_steps == whole[generations - 1]


def test_stops_when_the_best_fitness_reaches_the_target(tmp_path: Path) -> None:
    best = tiny("cartpole", tmp_path / "whole", generations=6).history["best_fitness"]
    target = float(best.max())
    run = tiny("cartpole", tmp_path / "run", generations=6, fitness_target=target)
    assert run.history["best_fitness"].tolist() == best[: int(best.argmax()) + 1].tolist()
    assert run.summary.status == "fitness target reached"
    assert run.summary.best_fitness == target


def test_stops_when_the_callback_says_so(tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run", callback=lambda state: state.row["generation"] == 1)
    assert run.history["generation"].tolist() == [0, 1]
    assert run.summary.status == "stopped by callback"
    assert run.champion.weights


def test_the_callback_sees_every_row_of_the_history_and_the_population(tmp_path: Path) -> None:
    run, seen = watched("cartpole", tmp_path / "run")
    assert len(seen) == TINY["generations"]
    for i, state in enumerate(seen):
        assert state.row == {name: column[i] for name, column in run.history.items()}
        assert len(state.fitness) == len(state.genomes.n_nodes) == TINY["pop_size"]
        assert state.result.returns.shape == (TINY["pop_size"], 1)


def test_a_callback_changes_nothing_by_being_there(tmp_path: Path) -> None:
    assert outcome(tiny("cartpole", tmp_path / "a")) == outcome(watched("cartpole", tmp_path / "b")[0])


def test_an_error_in_the_callback_comes_through_and_the_run_can_go_on(tmp_path: Path) -> None:
    def fail(state: Generation) -> None:
        if state.row["generation"] == 2:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        tiny("cartpole", tmp_path / "run", callback=fail, generations=5)
    resumed = tiny("cartpole", tmp_path / "run", resume=True, generations=5)
    assert outcome(resumed) == outcome(tiny("cartpole", tmp_path / "whole", generations=5))


# -- settings ----------------------------------------------------------------------------------------------------------


def test_recurrent_networks_evolve(tmp_path: Path) -> None:
    settings = {"feed_forward": False, "conn_add_prob": 0.9, "node_add_prob": 0.5, "generations": 4}
    run, seen = watched("lunarlander", tmp_path / "run", **settings)
    task = TASKS["lunarlander"]
    assert compile_phenotypes(seen[-1].genomes, task.n_inputs, task.n_outputs).remembers.any()
    assert run.champion.network.document["network_type"] == "recurrent"
    assert np.isfinite(run.champion.activate(np.zeros(8))).all()


@pytest.mark.parametrize("rule", ["none", "hebb"])
@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_the_published_presets_run(preset: str, rule: str, tmp_path: Path) -> None:
    run = train("lunarlander", preset=preset, rule=rule, out=tmp_path / "run", **{**TINY, "pop_size": 24})
    plastic, neat = run.config.plasticity, run.config.neat
    timing = {"paper": ("same-step", 0.0), "authors": ("next-step", 0.9)}
    assert (plastic.reward_credit, plastic.trace_decay) == timing[preset]
    assert (plastic.reward_scale, plastic.bcm_tau, plastic.weight_limit) == (0.001, 0.02, 10.0)
    assert (neat.weight_mutate_rate, neat.weight_replace_rate) == ((0.8, 0.1) if rule == "none" else (0.05, 0.02))
    assert (neat.elitism, neat.conn_add_prob, neat.node_add_prob) == (10, 0.5, 0.2)
    assert len(run.history["generation"]) == TINY["generations"]


def test_a_neat_python_file_runs_and_what_is_said_beside_it_wins(tmp_path: Path) -> None:
    settings = {k: v for k, v in TINY.items() if k != "seed"}
    run = train("lunarlander", neat_config=AUTHORS_FILE, out=tmp_path / "run", **{**settings, "pop_size": 24})
    neat = run.config.neat
    assert (neat.pop_size, neat.elitism, neat.weight_mutate_rate, neat.max_stagnation) == (24, 10, 0.05, 20)
    assert run.config.run.seed == 1
    assert run.config.run.fitness_target == math.inf  # no_fitness_termination
    assert len(run.history["generation"]) == TINY["generations"]


def test_config_toml_is_complete_and_loads_back_to_the_runs_configuration(tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run", fitness_target=math.inf, weight_mutation="0.5", reward_scale=1e-5)
    text = (run.path / run_folder.CONFIG).read_text(encoding="utf-8")
    names = [line.split(" = ")[0] for line in text.splitlines() if " = " in line]
    assert names == list(fields())
    expected = configure("cartpole", **{**TINY, "weight_mutation": "0.5", "reward_scale": 1e-5}).config
    assert Config.from_toml(text) == run.config == neol.load(run.path).config == expected


@pytest.mark.parametrize("value", [" 0.5 ", "0.5\n", "5e-1", 0.5, 1, "off", "config"])
def test_whatever_weight_mutation_is_accepted_the_config_file_loads(value: Any, tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run", weight_mutation=value, generations=1)
    assert Config.from_toml((run.path / run_folder.CONFIG).read_text(encoding="utf-8")) == run.config


def test_unknown_settings_and_tasks_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for task, settings in (("cartpole", {"pop_sise": 3}), ("cartpol", {}), ("cartpole", {"rule": "heb"})):
        with pytest.raises(NeolError, match="did you mean"):
            train(task, out=tmp_path / "run", **settings)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["fitness_offset", "weight_init_mean", "weight_max_value", "bias_init_mean"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_setting_is_refused_or_the_run_completes(name: str, value: float, tmp_path: Path) -> None:
    infinite = {name: value, f"{name.split('_')[0]}_init_stdev": math.inf} if "value" in name else {name: value}
    try:
        run = tiny("cartpole", tmp_path / "run", generations=2, rule="none", **infinite)
    except NeolError as e:
        assert name.split("_")[0] in str(e)
        assert not any(tmp_path.iterdir())
    else:
        assert np.isfinite(run.summary.best_fitness)
        assert run.champion.weights


# -- what is left behind -----------------------------------------------------------------------------------------------


def test_the_folder_holds_the_six_files_and_nothing_else(tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run")
    files = {"config.toml", "history.csv", "timing.csv", "checkpoint.npz", "champion.json", "summary.json"}
    assert {f.name for f in run.path.iterdir()} == files


def test_the_summary_says_all_that_it_should(tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run")
    s, history = run.summary, run.history
    assert s.env_steps == history["env_steps"][-1]
    assert s.best_fitness == history["best_fitness"][-1]
    assert s.wall_seconds > 0
    assert s.steps_per_second > 0
    low, high = s.champion_return_ci95
    assert low <= s.champion_return_mean <= high
    assert s.champion_episodes == TINY["champion_episodes"]
    assert s.best_by_fitness_return_ci95[0] <= s.best_by_fitness_return_mean
    assert isinstance(s.champion_is_best_by_fitness, bool)
    assert (s.status, s.task) == ("all generations done", "cartpole")
    assert {"python", "neol", "numpy", "numba", "envpool"} <= set(s.versions)
    assert (s.champion_nodes, s.champion_connections) == (
        len([n for n in run.champion.network.document["nodes"] if n["type"] != "input"]),
        len(run.champion.network.document["connections"]),
    )


def test_the_history_has_what_was_asked_for_and_no_clock(tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run")
    own = (
        "species", "best_nodes", "best_connections", "mean_nodes", "mean_connections", "mean_step_size",
        "mean_weight_change",
    )  # fmt: skip
    assert tuple(run.history) == (*HistoryRow._fields[:-1], *own)
    assert not [c for c in run.history if "second" in c or "time" in c]
    assert (np.diff(run.history["env_steps"]) > 0).all()
    assert run.history["env_steps"].dtype == run.history["species"].dtype == np.int64


def test_timing_has_a_row_per_generation(tmp_path: Path) -> None:
    run = tiny("cartpole", tmp_path / "run")
    assert run.timing["generation"].tolist() == [0, 1, 2]
    assert (np.diff(run.timing["wall_seconds"]) > 0).all()
    assert (run.timing["steps_per_second"] > 0).all()


def test_history_numbers_read_back_to_the_same_bits(tmp_path: Path) -> None:
    run, seen = watched("lunarlander", tmp_path / "run")
    assert run.history["mean_fitness"].tolist() == [float(s.fitness.mean()) for s in seen]
    assert run.history["median_fitness"].tolist() == [float(np.median(s.fitness)) for s in seen]
    assert run.history["env_steps"].tolist() == np.cumsum([s.result.env_steps for s in seen]).tolist()


def test_the_champion_json_carries_rule_settings_and_interface(tmp_path: Path) -> None:
    run = tiny("lunarlander", tmp_path / "run", rule="bcm", lr=0.125, preactivation_limit=math.inf)
    champion = run.champion
    assert champion.settings == run.config.plasticity
    assert (champion.interface["task"], champion.interface["env_id"]) == ("lunarlander", "LunarLanderContinuous-v3")
    assert champion.network.document["metadata"]["max_steps"] == TINY["max_steps"]
