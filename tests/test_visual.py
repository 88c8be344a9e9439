"""Visual discrimination: its pictures by plain Python, the same bits on both engines, networks painted for fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_trials import population, same

import neol
from neol import seeding
from neol.cli.main import main
from neol.config.sections import PlasticityConfig
from neol.deploy.visual_score import visual_score
from neol.envs.registry import find, make
from neol.errors import NeolError
from neol.neat.genome import empty_genomes
from neol.network.phenotype import compile_phenotypes
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.native_player import NativeEngine
from neol.rollout.shards import Episodes
from neol.training import run_folder
from neol.training.substrate_file import at_resolution
from neol.training.train import train

PLAIN = PlasticityConfig(rule="none", output_transform="none", preactivation_limit=float("inf"))
TINY: dict[str, Any] = {
    "encoding": "hyperneat", "pop_size": 10, "generations": 2, "seed": 1, "threads": 1, "champion_candidates": 1,
    "champion_trials": 1, "champion_episodes": 2,
}  # fmt: skip


def plain_pictures() -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(small, large) centres of the paper's 75 pictures, in cells of 11 x 11."""
    found = []
    for y in (1, 3, 5, 7, 9):
        for x in (1, 3, 5, 7, 9):
            for dx, dy in ((5, 0), (0, 5), (5, 5)):
                far = [(x + dx) % 11, (y + dy) % 11]
                found.append(((x, y), (min(max(far[0], 1), 9), min(max(far[1], 1), 9))))
    return found


def field(resolution: int, small: tuple[int, int], large: tuple[int, int]) -> np.ndarray:
    scale = resolution // 11
    coarse = np.zeros((11, 11))
    coarse[small[1], small[0]] = 1.0
    coarse[large[1] - 1 : large[1] + 2, large[0] - 1 : large[0] + 2] = 1.0
    return coarse.repeat(scale, axis=0).repeat(scale, axis=1)


@pytest.mark.parametrize("resolution", [11, 33])
def test_the_pictures_and_their_rewards_are_the_papers(resolution: int) -> None:
    env = make(find("visual-discrimination", [f"resolution={resolution}"]))
    seen, _ = env.reset(seed=5)
    pictures, scale = plain_pictures(), resolution // 11
    for number, (small, large) in enumerate(pictures):
        assert (seen.reshape(resolution, resolution) == field(resolution, small, large)).all()
        assert field(11, small, large).sum() == 10  # they never touch
        column, row = (number * 7) % resolution, (number * 3) % resolution
        centre = [v * scale + scale // 2 for v in large]
        distance2 = ((column - centre[0]) * 2 / resolution) ** 2 + ((row - centre[1]) * 2 / resolution) ** 2
        seen, reward, over, _, _ = env.step(row * resolution + column)
        assert abs(reward + distance2 / 75) < 1e-15
        assert over == (number == 74)


def test_boxes_that_are_placed_at_random_are_a_function_of_the_seed_and_never_touch() -> None:
    env = make(find("visual-discrimination", ["placement=random"]))
    shown = set()
    for seed in (1, 2, 1):
        seen, over, fields = env.reset(seed=seed)[0], False, []
        while not over:
            fields.append(seen.tobytes())
            assert seen.sum() == 10.0
            seen, _, over, _, _ = env.step(0)
        shown.add(tuple(fields))
    assert len(shown) == 2


def test_both_engines_give_the_same_bits() -> None:
    task = find("visual-discrimination", ["placement=random"])
    phenotypes = compile_phenotypes(population(task, 3), task.n_inputs, task.n_outputs)
    life, which = life_of(task, PLAIN), Episodes(0, seeding.EPISODE, 0, 2, True)
    native, other = NativeEngine(task, 75, threads=1), LocalGymnasium(task, 75)
    assert same(native.run(phenotypes, life, which), other.run(phenotypes, life, which))


def wired(resolution: int) -> Any:
    """A network whose every output sums up the cells within a large box around it."""
    task, n = find("visual-discrimination", [f"resolution={resolution}"]), resolution
    half = 3 * (n // 11) // 2
    pairs = [
        (y * n + x, row * n + column)
        for row in range(n)
        for column in range(n)
        for y in range(max(0, row - half), min(n, row + half + 1))
        for x in range(max(0, column - half), min(n, column + half + 1))
    ]
    genomes = empty_genomes(1, n * n, len(pairs))
    genomes.n_nodes[0], genomes.n_conns[0] = n * n, len(pairs)
    genomes.node_id[0], genomes.response[0], genomes.activation[0] = np.arange(n * n), 1.0, 1
    source, target = np.array(pairs, np.int32).T
    genomes.source[0], genomes.target[0], genomes.innovation[0] = -1 - source, target, np.arange(len(pairs))
    genomes.weight[0], genomes.enabled[0] = 1.0, True
    return task, compile_phenotypes(genomes, n * n, n * n)


def test_a_network_that_counts_what_is_around_each_cell_finds_every_centre() -> None:
    task, phenotype = wired(11)
    result = NativeEngine(task, 75, 1).run(phenotype, life_of(task, PLAIN), Episodes(0, seeding.EPISODE, 0, 1, True))
    assert result.returns.tolist() == [[0.0]] and result.steps.tolist() == [[75]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["resolution=12"], "11, 33 or 55"), (["placement=left"], "grid"), (["sice=3"], "is not allowed")],
)
def test_wrong_arguments_are_one_sentence(arguments: list[str], said: str) -> None:
    with pytest.raises(NeolError, match=said):
        find("visual-discrimination", arguments)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("visual-discrimination", out=tmp_path_factory.mktemp("visual") / "run", **TINY).path


def test_a_champion_painted_anew_at_its_own_resolution_is_itself(run: Path) -> None:
    config = neol.load(run).config
    again, champion = at_resolution(run, config, 11), neol.load(run).champion
    assert visual_score(again) == visual_score(champion)
    score = visual_score(champion)
    assert score.pictures == 75 and score.found <= score.near
    summary = neol.load(run).summary
    assert abs(score.mean_squared_distance + summary.champion_return_mean) < 1e-12
    assert neol.evaluate(again, episodes=1, threads=1).mean == summary.champion_return_mean
    with pytest.raises(NeolError, match="cannot be written"):
        again.to_json()


def test_evaluate_paints_a_champion_for_a_finer_field(run: Path, capsys: Any) -> None:
    assert main(["evaluate", str(run), "--resolution", "33", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["resolution"], found["pictures"]) == (33, 75)
    coarse = visual_score(neol.load(run).champion)
    assert 30 * coarse.connections < found["connections"] < 120 * coarse.connections  # 81 times, but for the rim
    assert main(["evaluate", str(run), "--resolution", "33", "--env-kwargs", "placement=random"]) == 0
    assert "mean squared distance" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--resolution", "34"]) == 2
    assert "it must be 11, 33 or 55" in capsys.readouterr().err


def test_a_substrate_of_another_resolution_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(NeolError, match="has in inputs no place for '11 0'"):
        settings = {**TINY, "substrate": str(run / run_folder.SUBSTRATE), "env_kwargs": ["resolution=33"]}
        train("visual-discrimination", out=tmp_path / "run", **settings)
