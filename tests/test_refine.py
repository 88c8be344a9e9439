"""`neol refine`: a champion's weights polished, its structure kept, and never worse for it but by chance."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neol
from neol.cli.main import main
from neol.errors import NeolError
from neol.outer.registry import make_loop
from neol.training.loop import problem_of
from neol.training.start import read_start

TINY: dict[str, Any] = {
    "pop_size": 10, "elitism": 1, "episodes": 1, "max_steps": 100, "threads": 1, "champion_candidates": 3,
    "champion_trials": 5, "champion_episodes": 20, "rule": "none",
}  # fmt: skip


@pytest.fixture(scope="module")
def pole(tmp_path_factory: pytest.TempPathFactory) -> neol.Run:
    """A short run whose champion is no good yet: at most 100 steps, and it falls before."""
    return neol.train(
        "cartpole", out=tmp_path_factory.mktemp("pole") / "run", generations=1, num_hidden=1, seed=1, **TINY
    )


def shape(path: Path) -> set[tuple[int, int]]:
    return {(c["from"], c["to"]) for c in json.loads(path.read_text())["connections"]}


def test_refining_keeps_the_structure_and_is_at_least_as_good_on_the_held_out_episodes(pole: neol.Run) -> None:
    run = neol.refine(pole, max_env_steps=20_000)
    s: Any = run.summary
    assert run.path == pole.path.with_name("run-refined")
    assert run.config.run.outer == "es" and run.config.run.start == str(pole.path)
    assert run.config == pole.config.replace(
        outer="es", start=str(pole.path), max_env_steps=20_000, generations=10**9, fitness_target=math.inf,
        es_sigma=0.1, normalize_share=0.0, inheritance="darwinian",
    )  # fmt: skip
    assert shape(run.champion_path) == shape(pole.champion_path)
    assert s.start_return_mean == pole.summary.champion_return_mean  # the same seed: the same held-out episodes
    assert s.champion_return_mean > s.start_return_mean + 5.0
    assert s.status == "env-step limit reached" and s.env_steps >= 20_000


@pytest.mark.parametrize("outer", ["es", "neat-es"])
def test_a_strategy_begins_from_the_starts_topology_and_weights(pole: neol.Run, outer: str) -> None:
    resolved = neol.configure("cartpole", start=str(pole.path), outer=outer, es="cma", es_sigma=1e-9)
    start, genomes = read_start(pole.path).genome, make_loop(problem_of(resolved)).ask()
    used = start.n_conns[0]
    assert (genomes.n_conns == used).all() and (genomes.n_nodes == start.n_nodes[0]).all()
    for p in range(len(genomes.n_nodes)):
        assert np.array_equal(genomes.source[p, :used], start.source[0, :used])
        assert genomes.weight[p, :used] == pytest.approx(start.weight[0, :used], abs=1e-6)
        assert genomes.bias[p, : start.n_nodes[0]] == pytest.approx(start.bias[0, : start.n_nodes[0]], abs=1e-6)


def test_the_usual_budget_is_a_fifth_of_the_runs_and_a_refinement_resumes_to_the_same_bytes(
    pole: neol.Run, tmp_path: Path
) -> None:
    whole = neol.refine(pole, out=tmp_path / "whole", max_env_steps=6000, es="sep-cma")
    neol.refine(pole, out=tmp_path / "parts", max_env_steps=3000, es="sep-cma")
    parts = neol.refine(pole.path, out=tmp_path / "parts", max_env_steps=6000, es="sep-cma", resume=True)
    for name in ("history.csv", "champion.json", "start.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()
    usual = neol.refine(pole, out=tmp_path / "usual", fitness_target=-1.0)  # ends after a generation
    assert usual.config.run.max_env_steps == 20_000 and usual.config.es.es_sigma == 0.1


def test_a_run_of_a_champions_topology_is_refined_from_its_own_weights_by_steps_as_small_as_its_own(
    pole: neol.Run, tmp_path: Path
) -> None:
    how = {**TINY, "outer": "es", "es_population": 6, "es_sigma": 0.05, "es_starts": 2}
    run = neol.train("cartpole", out=tmp_path / "run", topology=str(pole.champion_path), generations=2, **how)
    refined = neol.refine(run, out=tmp_path / "refined", max_env_steps=200)
    assert refined.summary.start_return_mean == run.summary.champion_return_mean  # type: ignore[union-attr]
    assert refined.config.es.es_sigma == 0.05
    assert refined.history["species"][0] == 1


def test_refine_prints_before_and_after(pole: neol.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["refine", str(pole.path), "--max-env-steps", "1000", "--out", str(out), "--quiet"]) == 0
    summary = json.loads((out / "summary.json").read_text())
    before, after = summary["start_return_mean"], summary["champion_return_mean"]
    assert f"before {before:.1f}, after {after:.1f} on 20 fresh episodes" in capsys.readouterr().out


def test_what_cannot_be_refined_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NeolError, match="is not a run's folder"):
        neol.refine(tmp_path)
    assert main(["refine", str(tmp_path / "nowhere"), "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(f"neol: '{tmp_path / 'nowhere'}' is not a run's folder")
    assert not (tmp_path / "nowhere-refined").exists()
