"""A checkpoint whose fingerprint is valid and whose arrays are not: refused in a sentence before a kernel sees them."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import crafted
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import neol
from neol.arrays import Array, checked, like
from neol.config.sections import NeatConfig
from neol.errors import NeolError
from neol.neat.checked import InnovationTable, Population
from neol.neat.evolution import Neat
from neol.neat.genome import first_population, to_arrays
from neol.neat.innovation import EMPTY
from neol.outer.base import declaration
from neol.outer.hedge_pool import HedgePool
from neol.outer.neat_loop import NeatLoop
from neol.training import run_folder
from neol.training.configure import configure
from neol.training.loop import problem_of

TINY: dict[str, Any] = {
    "pop_size": 6, "elitism": 1, "generations": 2, "episodes": 1, "champion_candidates": 2, "champion_trials": 1,
    "champion_episodes": 2, "max_steps": 30, "node_add_prob": 0.5, "threads": 1,
}  # fmt: skip
LOOPS: dict[str, dict[str, Any]] = {
    "neat": {},
    "hedge": {"outer": "hedge", "pool": 5, "normalize_observations": True},
    "es": {"outer": "es", "es": "cma", "es_population": 6},
    "neat-es": {
        "outer": "neat-es",
        "es": "sep-cma",
        "es_population": 12,
        "generations": 13,
        "max_steps": 7,
    },  # 2 species
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, more in LOOPS.items():
        neol.train("cartpole", out=folder / name, **{**TINY, **more})
    return lambda name: folder / name


@pytest.mark.parametrize("loop", LOOPS)
def test_every_array_spoiled_in_some_ways_is_refused_or_harmless(
    loop: str, runs: Callable[[str], Path], tmp_path: Path
) -> None:
    """Harmless: the run goes on to its end. No crash, no other exception, and a refusal changes no file."""
    arrays, config, refused, went_on = crafted.read(runs(loop)), run_folder.read_config(runs(loop)), 0, 0
    rng = np.random.default_rng(0)
    for name, array in arrays.items():
        ways = list(crafted.spoiled(array, rng))
        for _, bad in [ways[i] for i in rng.permutation(len(ways))[:3]]:  # `make fuzz` tries more
            folder = tmp_path / "run"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(runs(loop), folder)
            crafted.write(folder, {k: v for k, v in {**arrays, name: bad}.items() if v is not None}, config)
            before = {f.name: f.read_bytes() for f in folder.iterdir()}
            try:
                neol.train(out=folder, resume=True, generations=3)
                went_on += 1
            except NeolError as e:
                refused += 1
                assert str(e).count("\n") == 0 and len(str(e)) < 1000
                after = {f.name: f.read_bytes() for f in folder.iterdir()}
                if "is damaged" in str(e):
                    assert after == before
    assert refused > went_on > 0  # weights may be any number


def test_an_array_that_nobody_declared_is_refused(runs: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs("neat"), tmp_path / "run"))
    crafted.write(folder, {**crafted.read(folder), "outer.genomes.colour": np.zeros(6)})
    with pytest.raises(NeolError, match=r"unknown array 'genomes\.colour'"):
        neol.train(out=folder, resume=True, generations=3)


@pytest.mark.parametrize("feed_forward", [True, False])
@pytest.mark.parametrize("initial", ["full_direct", "unconnected", "fs_neat_nohidden"])
def test_whatever_evolution_makes_is_accepted(feed_forward: bool, initial: str) -> None:
    """For 40 generations of much structural change."""
    config = NeatConfig(
        pop_size=20, conn_add_prob=0.7, conn_delete_prob=0.4, node_add_prob=0.6, node_delete_prob=0.3,
        feed_forward=feed_forward, initial_connection=initial, num_hidden=1, enabled_mutate_rate=0.2,
        compatibility_threshold=1.0, activation_options=("tanh", "relu"), activation_mutate_rate=0.5,
    )  # fmt: skip
    problem = problem_of(configure("cartpole"))
    loop = NeatLoop(problem._replace(config=dataclasses.replace(problem.config, neat=config)))
    rng = np.random.default_rng(1)
    for _ in range(40):
        loop.neat.tell(rng.normal(size=20))
        state = loop.state()
        loop.restore(checked(state, loop.declared(), "it"))
        assert {k: v.tobytes() for k, v in loop.state().items()} == {k: v.tobytes() for k, v in state.items()}
    assert loop.neat.genomes.n_nodes.max() > 3


def test_a_pool_is_accepted_as_it_was_saved() -> None:
    loop = HedgePool(problem_of(configure("lunarlander", outer="hedge", pool=9)))
    loop.selector.tell(np.linspace(0.0, 1.0, 9))
    checked(loop.state(), loop.declared(), "it")


def genomes() -> dict[str, np.ndarray]:
    return to_arrays(first_population(NeatConfig(pop_size=3, num_hidden=2), 4, 2, 1)[0], "g")


def place(name: str, at: Any, value: Any) -> dict[str, np.ndarray]:
    arrays = {k: v.copy() for k, v in genomes().items()}
    arrays[f"g.{name}"][at] = value
    return arrays


@pytest.mark.parametrize(
    ("name", "at", "value", "why"),
    [
        ("n_nodes", 0, 99, "n_nodes must be at least the 2 outputs, and at most"),
        ("n_nodes", 0, 1, "n_nodes"),
        ("n_conns", 0, -1, "n_conns"),
        ("n_conns", 0, 99, "n_conns"),
        ("node_id", (0, 0), 1, "begin with the 2 outputs"),
        ("node_id", (0, 3), 2, "ascend"),
        ("node_id", (0, 3), 2**31 - 1, "below 2\\^30"),
        ("innovation", (0, 1), 0, "innovations of a genome must ascend"),
        ("innovation", (0, 0), -1, "innovations of a genome must ascend"),
        ("source", (0, 0), -5, "nor is one of its 4 inputs"),
        ("source", (0, 0), 77, "begins at a node that its genome does not have"),
        ("target", (0, 0), 77, "ends at a node that its genome does not have"),
        ("target", (0, 0), -1, "ends at a node"),
        ("activation", (0, 0), 100, "activation has values"),
        ("aggregation", (0, 0), -1, "aggregation has values"),
    ],
)
def test_each_way_in_which_genomes_cannot_be_is_named(name: str, at: Any, value: Any, why: str) -> None:
    checked(genomes(), {"g": Population(4, 2, 3)}, "it")
    with pytest.raises(NeolError, match=f"it is damaged: .*{why}"):
        checked(place(name, at, value), {"g": Population(4, 2, 3)}, "it")


def test_genomes_that_read_inputs_which_are_not_there_are_refused() -> None:
    """Unused inputs cannot be told, nor an output from a hidden node: for those the checkpoint says its numbers."""
    with pytest.raises(NeolError, match="inputs"):
        checked(genomes(), {"g": Population(3, 2)}, "it")


def test_a_table_without_a_free_place_is_refused_for_a_search_in_it_would_not_end() -> None:
    neat = Neat(NeatConfig(pop_size=4), 4, 2, 1)
    table = {f"t.{k}": v for k, v in neat.innovations._asdict().items()}
    checked(table, {"t": InnovationTable(2)}, "it")
    for change, why in (
        ({"t.keys": np.arange(64)}, "free place"),
        ({"t.keys": np.append(table["t.keys"], EMPTY), "t.values": np.zeros(65, np.int32)}, "power"),
        ({"t.counts": table["t.counts"] + [1, 0, 0]}, "numbered from 0"),
        ({"t.counts": table["t.counts"] + [0, 0, 1]}, "entries"),
        ({"t.counts": table["t.counts"] * [1, 0, 1]}, "new nodes"),
        ({"t.values": table["t.values"] + np.int32(1)}, "numbered from 0"),
    ):  # fmt: skip
        with pytest.raises(NeolError, match=why):
            checked({**table, **change}, {"t": InnovationTable(2)}, "it")


def test_a_loop_of_somebodys_own_needs_no_declaration_and_its_genomes_are_checked_all_the_same() -> None:
    class Mine(NeatLoop):
        declared: Any = None  # it has none

        def state(self) -> dict[str, np.ndarray]:
            return {"sigma": np.ones(3), **to_arrays(self.neat.genomes, "mine")}

    problem = problem_of(configure("cartpole", pop_size=20, elitism=1))
    loop = Mine(problem)
    declared = declaration(loop, problem)
    assert set(declared) == {"sigma", "mine"}
    checked(loop.state(), declared, "it")
    for name, value in (("sigma", np.ones((3, 1))), ("mine.source", np.full((20, 16), 55, np.int32))):
        with pytest.raises(NeolError, match="is damaged"):
            checked({**loop.state(), name: value}, declared, "it")


def test_sizes_with_a_name_are_the_same_everywhere_and_limits_hold() -> None:
    declared = {"mean": Array("f8", ("D",)), "cov": Array("f8", ("D", "D"), low=0.0), "at": Array("i8", (), 0, "D")}
    good = {"mean": np.zeros(3), "cov": np.zeros((3, 3)), "at": np.array(2)}
    checked(good, declared, "it")
    checked(good, like(good), "it")
    for bad, why in (
        ({"mean": np.zeros(4)}, r"cov has the shape \(3, 3\), in which 3 should be 4"),
        ({"cov": np.full((3, 3), -1.0)}, "cov has values from -1.0"),
        ({"cov": np.full((3, 3), np.nan)}, "cov has values from nan"),
        ({"at": np.array(3)}, "at has values from 3 to 3; they must lie from 0 to 2"),
        ({"at": np.array(1.0)}, "at is <f8 of 0 axes, not <i8"),
    ):
        with pytest.raises(NeolError, match=why):
            checked({**good, **bad}, declared, "it")


# -- environments that changed between a run and its resume


def changing(inputs: int, actions: Any) -> Callable[[], gymnasium.Env]:
    class Changing(gymnasium.Env):
        observation_space = Box(-1.0, 1.0, (inputs,))
        action_space = actions if isinstance(actions, gymnasium.Space) else Discrete(actions)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return self.np_random.uniform(-1.0, 1.0, inputs).astype(np.float32), {}

        def step(self, action: Any) -> Any:
            return self.np_random.uniform(-1.0, 1.0, inputs).astype(np.float32), 1.0, False, False, {}

    return Changing


FEWER: list[Any] = [((4, 2), (4, 6)), ((200, 2), (1, 2)), ((4, 2), (5, 2))]  # to be told without the spaces, too
OTHER: list[Any] = [((4, 6), (4, 2)), ((4, 2), (4, Box(-1.0, 1.0, (2,))))]


@pytest.fixture(scope="module")
def of_spaces(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[int, int]], Path]:
    """A run of an environment with these spaces, trained once."""
    folder = tmp_path_factory.mktemp("spaces")
    few = {**TINY, "pop_size": 4, "num_hidden": 4, "workers": 1, "initial_connection": "full_direct"}

    @cache
    def run(spaces: tuple[int, int]) -> Path:
        return neol.train(changing(*spaces), out=folder / "x".join(map(str, spaces)), **few).path

    return run


@pytest.mark.parametrize(
    ("before", "after", "old"), [*((*c, old) for c in FEWER for old in (False, True)), *((*c, False) for c in OTHER)]
)
def test_an_environment_whose_spaces_changed_is_refused_at_a_resume(
    before: Any, after: Any, old: bool, of_spaces: Callable[[tuple[int, int]], Path], tmp_path: Path
) -> None:
    shutil.copytree(of_spaces(before), tmp_path / "run")
    if old:  # a checkpoint from before it said its numbers
        arrays = crafted.read(tmp_path / "run")
        crafted.write(tmp_path / "run", {k: v for k, v in arrays.items() if not k.startswith("spaces.")})
    files = {f.name: f.read_bytes() for f in (tmp_path / "run").iterdir()}
    with pytest.raises(NeolError, match="has other spaces than when this run was saved|is damaged"):
        neol.train(changing(*after), out=tmp_path / "run", resume=True, generations=3)
    assert {f.name: f.read_bytes() for f in (tmp_path / "run").iterdir()} == files


def test_a_checkpoint_knows_its_inputs_and_outputs(runs: Callable[[str], Path]) -> None:
    arrays = crafted.read(runs("neat"))
    assert arrays["spaces.sizes"].tolist() == [4, 2]
    assert (runs("neat") / run_folder.CHECKPOINT).exists()
