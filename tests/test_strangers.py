"""Environments that a stranger wrote: made, trained, evaluated and filmed, or one sentence that says why not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import neol
from neol import seeding
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.deploy.plastic_network import PlasticNetwork
from neol.deploy.task_interface import read, to_document
from neol.envs.registry import find, make
from neol.errors import NeolError
from neol.neat.genome import first_population
from neol.network.phenotype import compile_phenotypes
from neol.rollout.determinism import repeats
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes
from neol.training.configure import configure

ENVS = Path(__file__).parent / "envs"
TINY: dict[str, Any] = {
    "pop_size": 4, "generations": 1, "episodes": 1, "workers": 1, "champion_trials": 1, "champion_episodes": 2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _environments_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(ENVS)
    yield
    for name in [n for n in gymnasium.registry if n.startswith("Strange/")]:
        del gymnasium.registry[name]
    sys.modules.pop("strangers", None)


# -- made, trained, evaluated, filmed -----------------------------------------------------------------------------

FILMED = ("AlwaysDraws", "AnyArguments", "NoMetadata", "OddMetadata")
SILENT = ("NoArguments", "Windowed", "Function")


@pytest.mark.parametrize("name", [*FILMED, *SILENT])
def test_a_registered_environment_trains_is_evaluated_and_filmed_where_it_has_pictures(
    name: str, tmp_path: Path
) -> None:
    run = neol.train(f"strangers:Strange/{name}-v0", out=tmp_path / "r", **TINY)
    assert run.summary.env_steps == 4 * 8
    assert (neol.evaluate(run.champion, episodes=2).steps == 8).all()
    if name in FILMED:
        film, _ = neol.replay(run.champion, tmp_path / "a.gif")
        assert film.read_bytes()[:4] == b"GIF8"
    else:
        with pytest.raises(NeolError, match=r"cannot be filmed: (it has no pictures|render\(\) returned NoneType)"):
            neol.replay(run.champion, tmp_path / "a.gif")
        assert not (tmp_path / "a.gif").exists()


@pytest.mark.parametrize("name", ["AlwaysDraws", "AnyArguments", "NoMetadata", "OddMetadata", "handed_on"])
def test_a_class_or_function_is_filmed_whatever_arguments_it_takes(name: str, tmp_path: Path) -> None:
    film, _ = neol.replay(untrained(f"strangers:{name}"), tmp_path / "a.gif")
    assert film.stat().st_size > 0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NoArguments", "it has no pictures"),
        ("BrokenPicture", "OSError: no screen"),
        ("FloatPicture", r"render\(\) returned float64 \(40, 60, 3\), not uint8"),
    ],
)
def test_what_cannot_be_filmed_is_one_sentence_and_leaves_no_file(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(NeolError, match=f"'strangers:{name}' cannot be filmed: {why}"):
        neol.replay(untrained(f"strangers:{name}"), tmp_path / "a.mp4")
    assert not list(tmp_path.iterdir())


def test_a_film_runs_at_the_speed_that_metadata_give_if_they_do() -> None:
    assert find("strangers:NoMetadata").film_fps == find("strangers:OddMetadata").film_fps == 30
    assert find("trouble:Kitchen").film_fps == 10


def test_an_environment_that_opens_a_window_by_default_is_told_not_to() -> None:
    make(find("strangers:Strange/Windowed-v0")).close()


def untrained(name: str, **kwargs: Any) -> PlasticNetwork:
    """A network with an environment's inputs and outputs."""
    from neol.deploy import network_json

    task = find(name, [f"{k}={v}" for k, v in kwargs.items()])
    genomes, _ = first_population(NeatConfig(pop_size=2), task.n_inputs, task.n_outputs, 3)
    phenotypes = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    document = network_json.to_document(phenotypes, genomes, 0, False)
    settings = vars(PlasticityConfig(rule="hebb"))
    return PlasticNetwork.from_json({**document, "interface": to_document(task), "plasticity": settings}, trust=True)


# -- one number of shape () ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_an_action_of_shape_nothing_is_a_number_of_the_spaces_dtype_everywhere(dtype: str, tmp_path: Path) -> None:
    """OneForce itself asserts dtype and shape of every action."""
    kwargs = {"dtype": dtype}
    run = neol.train("strangers:OneForce", out=tmp_path / "r", env_kwargs=kwargs, **TINY)
    champion = run.champion
    assert (neol.evaluate(champion, episodes=3).steps == 8).all()
    task = find("strangers:OneForce", [f"dtype={dtype}"])
    again = read(json.loads(json.dumps({"interface": to_document(task)})), task.n_inputs, task.n_outputs)
    assert (again.components, again.shape, again.dtype) == (task.components, (), dtype)
    space = make(task).action_space
    taken = [champion.act(np.array([x, 1.0])) for x in np.linspace(-2.0, 2.0, 9)]
    for action in taken:
        assert isinstance(action, np.ndarray) and space.contains(action)
    assert any(a % 1.0 for a in taken) == (dtype != "int64")  # not whole numbers, but for an integer Box
    assert PlasticNetwork.from_json(run.champion_path).act(np.ones(2)).shape == ()
    actions, _ = champion.predict(np.ones((3, 2)))
    assert actions.shape == (3,) and actions.dtype == dtype


def test_a_discrete_action_is_still_a_whole_number() -> None:
    assert type(untrained("FrozenLake-v1").act(0)) is int


# -- generators that are not the environment's own ----------------------------------------------------------------


@pytest.mark.parametrize("dice", ["numpy", "python"])
def test_an_environment_that_draws_from_a_global_generator_is_noticed_and_said(dice: str) -> None:
    task = find("strangers:GlobalDice", [f"dice={dice}"])
    said = repeats(task)
    assert said is not None and "'strangers:GlobalDice' does not repeat itself" in said and "np_random" in said
    assert said.count(". ") == 0 and said.endswith(".")


@pytest.mark.parametrize("name", ["cartpole", "lunarlander", "FrozenLake-v1", "strangers:GlobalDice"])
def test_an_environment_that_repeats_itself_gets_no_sentence(name: str) -> None:
    assert repeats(find(name, ["dice=seeded"] if "Dice" in name else [])) is None


def test_an_environment_that_differs_only_in_what_is_observed_is_noticed() -> None:
    class Noise(gymnasium.ObservationWrapper):
        def observation(self, observation: np.ndarray) -> np.ndarray:
            return observation + 1e-6 * np.random.default_rng().random(4)  # of its own, seeded by the system

    task = find(lambda: Noise(gymnasium.make("CartPole-v1")))
    assert "does not repeat itself" in str(repeats(task))


def test_an_environment_that_always_fails_has_another_problem() -> None:
    assert repeats(find("strangers:BadStarts", ["share=1.0"])) is None


def test_it_is_noticed_in_worker_processes_too() -> None:
    for dice, wanted in (("numpy", True), ("python", True), ("seeded", False)):
        task = find("strangers:GlobalDice", [f"dice={dice}"])
        config = configure(task.name, env_kwargs={"dice": dice}, workers=2).config
        engine = open_engine(task, config.rollout)
        try:
            assert (repeats(task, engine) is not None) == wanted
        finally:
            engine.close()


@pytest.mark.parametrize("dice", ["numpy", "python"])
@pytest.mark.parametrize("dies", [False, True])
def test_workers_never_draw_the_same_numbers_those_that_replace_others_neither(
    dice: str, dies: bool, tmp_path: Path
) -> None:
    task = find("strangers:GlobalDice", [f"dice={dice}", f"log={tmp_path}", "slow=0.02", f"dies={dies}"])
    config = configure(task.name, env_kwargs=dict(task.env_kwargs), workers=3, episode_retries=20).config
    engine = open_engine(task, config.rollout, seed=7)
    genomes, _ = first_population(NeatConfig(pop_size=6), 2, 1, 3)
    which = Episodes(0, seeding.EPISODE, 0, 2, common=True)
    try:
        result = engine.run(compile_phenotypes(genomes, 2, 1), life_of(task, PlasticityConfig()), which)
    finally:
        engine.close()
    assert not result.failures
    drawn = [f.name.split("-")[0] for f in tmp_path.iterdir()]
    assert len(drawn) >= 12 + dies and len(set(drawn)) == len(drawn)


def test_global_generators_are_seeded_by_name() -> None:
    code = (
        "import random, numpy as np\nfrom neol.seeding import seed_global_generators\n"
        "for seed, worker in ((1, 1), (1, 2), (2, 1), (1, 1)):\n"
        "    seed_global_generators(seed, worker)\n"
        "    print(np.random.random(), random.random())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    lines = done.stdout.splitlines()
    assert lines[0] == lines[3] and len(set(lines)) == 3
    assert len({n for line in lines for n in line.split()}) == 6


def test_this_process_keeps_its_own_global_generators() -> None:
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    task = find("cartpole")
    genomes, _ = first_population(NeatConfig(pop_size=2), 4, 2, 3)
    engine = LocalGymnasium(task, 20)
    which = Episodes(0, seeding.EPISODE, 0, 2, common=True)
    engine.run(compile_phenotypes(genomes, 4, 2), life_of(task, PlasticityConfig()), which)
    assert repeats(task) is None
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002
