"""Worlds that change: each change against plain Python, the same bits however lives are played, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from life_oracle import World as PlainWorld
from life_oracle import life_name, live_trials
from oracle import from_document
from scipy.stats import kstest
from test_trials import SIMULATORS, population, same

import neol
from neol import seeding
from neol.config.changes import parse_change
from neol.config.schema import Config
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json
from neol.envs.registry import find, make
from neol.envs.tasks import TASKS, Task
from neol.errors import NeolError
from neol.neat.genome import Genomes
from neol.network.phenotype import compile_phenotypes
from neol.rollout import shards as rollout
from neol.rollout.attributes import check_attributes
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.gymnasium_episode import one_life
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, RolloutResult
from neol.rollout.world import UNCHANGED, World, fates, life_names, world_of
from neol.training.configure import configure
from neol.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision")  # EnvPool's declared spaces
LANDER, STEPS, LIVES, TRIALS = TASKS["lunarlander"], 60, 3, 2
HEBB = PlasticityConfig(rule="hebb", lr=0.5, reward_scale=0.05, trace_decay=0.5)
WHICH = Episodes(11, seeding.EPISODE, 3, LIVES, False, trial_weights=(0.5, 0.5))

# Text, and the same for the oracle.
CASES: dict[str, tuple[list[str], list[dict[str, Any]]]] = {
    "action gain": (["action gain=0.5 of=0"], [{"what": "action", "op": "gain", "value": 0.5, "of": [0]}]),
    "action inversion in half of all lives": (
        ["action invert of=side p=0.5"],
        [{"what": "action", "op": "gain", "value": -1.0, "of": [1], "p": 0.5}],
    ),
    "action offset": (["action offset=0.3"], [{"what": "action", "op": "offset", "value": 0.3}]),
    "a dead actuator, from a step to another": (
        ["action dead of=0 from=10 to=25..40"],
        [{"what": "action", "op": "set", "of": [0], "onset": (10, 10), "end": (25, 40)}],
    ),
    "stuck where it is": (
        ["action stuck of=0,1 from=5..30 count=trial"],
        [{"what": "action", "op": "stuck", "of": [0, 1], "onset": (5, 30), "counts": "trial"}],
    ),
    "stuck from birth": (["action stuck of=1"], [{"what": "action", "op": "stuck", "of": [1]}]),
    "stuck at a value": (["action stuck=0.7 of=1"], [{"what": "action", "op": "set", "value": 0.7, "of": [1]}]),
    "late actions": (["action delay=3"], [{"what": "action", "op": "delay", "value": 3}]),
    "noisy actions": (["action noise=0.3"], [{"what": "action", "op": "noise", "value": 0.3}]),
    "observation gain": (["observation gain=2"], [{"what": "observation", "op": "gain", "value": 2.0}]),
    "observation inversion": (
        ["observation invert of=x,x_vel"],
        [{"what": "observation", "op": "gain", "value": -1.0, "of": [0, 2]}],
    ),
    "observation offset": (
        ["observation offset=-0.5 of=1-3"],
        [{"what": "observation", "op": "offset", "value": -0.5, "of": [1, 2, 3]}],
    ),
    "a sensor that is lost in the second trial": (
        ["observation loss of=4,5 from=1 count=trials"],
        [{"what": "observation", "op": "set", "of": [4, 5], "onset": (1, 1), "counts": "trials"}],
    ),
    "a sensor that freezes": (
        ["observation stuck of=0-3 from=20"],
        [{"what": "observation", "op": "stuck", "of": [0, 1, 2, 3], "onset": (20, 20)}],
    ),
    "noisy observations": (
        ["observation noise=0.1 of=0-6"],
        [{"what": "observation", "op": "noise", "value": 0.1, "of": list(range(7))}],
    ),
    "late observations": (
        ["observation delay=2 from=7"],
        [{"what": "observation", "op": "delay", "value": 2, "onset": (7, 7)}],
    ),
    "the sign of rewards": (
        ["reward sign from=20"],
        [{"what": "reward", "op": "gain", "value": -1.0, "onset": (20, 20)}],
    ),
    "the scale of rewards": (["reward scale=0.1"], [{"what": "reward", "op": "gain", "value": 0.1}]),
    "late rewards": (["reward delay=4"], [{"what": "reward", "op": "delay", "value": 4}]),
    "absent rewards": (["reward absent from=10..50"], [{"what": "reward", "op": "set", "onset": (10, 50)}]),
    "one of a group": (
        ["action dead of=0 p=0.3 group=engine", "reward scale=2", "action invert of=1 p=0.6 group=engine"],
        [
            {"what": "action", "op": "set", "of": [0], "p": 0.3},
            {"what": "reward", "op": "gain", "value": 2.0},
            {"what": "action", "op": "gain", "value": -1.0, "of": [1], "p": 0.6, "draw": 0, "low": 0.3},
        ],
    ),
    "each by itself": (
        ["action invert p=0.5 each"],
        [{"what": "action", "op": "gain", "value": -1.0, "of": [i], "p": 0.5} for i in (0, 1)],
    ),
    "several, one after the other": (
        ["reward delay=2", "action noise=0.2 of=1 to=70", "observation delay=1", "observation gain=3 of=2",
         "action delay=2", "reward sign p=0.5"],
        [{"what": "reward", "op": "delay", "value": 2},
         {"what": "action", "op": "noise", "value": 0.2, "of": [1], "end": (70, 70)},
         {"what": "observation", "op": "delay", "value": 1},
         {"what": "observation", "op": "gain", "value": 3.0, "of": [2]},
         {"what": "action", "op": "delay", "value": 2}, {"what": "reward", "op": "gain", "value": -1.0, "p": 0.5}],
    ),
}  # fmt: skip


def play(engine: Any, genomes: Genomes, world: World, which: Episodes = WHICH, task: Task = LANDER) -> RolloutResult:
    ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
    try:
        return engine.run(ph, life_of(task, HEBB, world=world), which)
    finally:
        engine.close()


@pytest.mark.parametrize("engine", SIMULATORS)
@pytest.mark.parametrize("case", CASES)
def test_a_change_equals_a_life_in_plain_python(case: str, engine: str) -> None:
    texts, plain = CASES[case]
    genomes = population(LANDER, 2)
    opened, simulate = SIMULATORS[engine]
    result = play(opened(LANDER), genomes, world_of(LANDER, texts, STEPS, TRIALS))
    seeds = seeding.episode_seeds(11, seeding.EPISODE, 3, 2, LIVES, False, TRIALS).reshape(2, LIVES, TRIALS)
    ph = compile_phenotypes(genomes, LANDER.n_inputs, LANDER.n_outputs)
    for p in range(2):
        net = from_document(network_json.to_document(ph, genomes, p, recurrent=False))
        names = [life_name(11, seeding.EPISODE, 3, p + 1, e) for e in range(LIVES)]
        for e in range(LIVES):
            world = PlainWorld(plain, names[e], names)
            lived = live_trials(net, HEBB, [simulate(LANDER, int(s)) for s in seeds[p, e]], STEPS, world, limit=1.0)
            np.testing.assert_allclose(result.by_trial.returns[p, e], lived.returns, rtol=1e-12)
            assert result.by_trial.steps[p, e].tolist() == lived.steps
    assert not same(result, play(opened(LANDER), genomes, UNCHANGED))  # it does something


def test_what_is_drawn_follows_its_probability_and_its_range() -> None:
    names = [life_name(1, 2, 3, 0, e) for e in range(4000)]
    plain = [{"what": "action", "op": "set", "p": 0.25, "onset": (10, 13)}]
    onsets = [PlainWorld(plain, n).onset.get(0) for n in names]
    met = [t for t in onsets if t is not None]
    assert 0.22 < len(met) / 4000 < 0.28
    assert set(met) == {10, 11, 12, 13}
    assert min(met.count(t) for t in (10, 11, 12, 13)) > 0.2 * len(met)


@given(st.integers(0, 2**63 - 1), st.integers(1, 8), st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]))
def test_of_the_lives_of_a_generation_each_world_gets_its_share(seed: int, lives: int, p: float) -> None:
    """Of N lives a change with probability p comes to floor(p N) or one more, whoever else is changed."""
    texts = [f"action invert p={p} each", "reward delay=1 p=0.3 group=g", f"reward sign p={min(p, 0.7)} group=g"]
    changes = world_of(LANDER, texts, STEPS).changes
    u = fates(changes, life_names(seed, seeding.EPISODE, 5, 3, lives, False), lives)
    low, high = changes.share.T
    met = ((low <= u) & (u < high)).reshape(3, lives, 4).sum(axis=1)
    for c, share in enumerate((p, p, 0.3, min(p, 0.7))):
        assert set(met[:, c].tolist()) <= {math.floor(share * lives), math.ceil(share * lives)}


def test_a_fate_in_strata_is_uniform_and_independent_of_another_changes() -> None:
    changes = world_of(LANDER, ["action invert p=0.5 each"], STEPS).changes
    u = fates(changes, life_names(2, seeding.EPISODE, 0, 4000, 3, False), 3)
    assert kstest(u[::3, 0], "uniform").pvalue > 0.01  # the first life of every three, and all of them
    assert kstest(u[:, 1], "uniform").pvalue > 0.01
    assert abs(np.corrcoef(u.T)[0, 1]) < 0.03


def test_lives_that_choose_and_measure_a_champion_are_drawn_independently() -> None:
    genomes, world = population(LANDER, 1), world_of(LANDER, ["reward sign p=0.5"], STEPS)
    shown = []
    for purpose in (seeding.EPISODE, seeding.SELECTION, seeding.HELD_OUT, seeding.EVALUATE):
        for part in range(6):
            which = Episodes(3, purpose, part, 2, True)
            changed, plain = (
                play(EnvPoolEngine(LANDER, STEPS, 1), genomes, w, which).returns for w in (world, UNCHANGED)
            )
            shown.append((purpose == seeding.EPISODE, int((changed != plain).sum())))
    assert {met for bred, met in shown if bred} == {1}
    assert {met for bred, met in shown if not bred} == {0, 1, 2}


MANY = ["action invert p=0.5 each", "observation noise=0.05", "reward delay=3 p=0.5", "action delay=2 from=10..40",
        "observation stuck of=0 from=30 p=0.5", "action noise=0.1 group=g p=0.5",
        "reward sign group=g p=0.5"]  # fmt: skip


@pytest.mark.parametrize("name", ["cartpole", "lunarlander", "hopper"])
def test_threads_window_and_chunks_do_not_change_a_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS[name]
    genomes, world = population(task, 5), world_of(task, MANY, STEPS, TRIALS)
    expected = play(EnvPoolEngine(task, STEPS, 1, 1), genomes, world, task=task)
    for threads, window in ((1, 0), (2, 3), (5, 2)):
        assert same(play(EnvPoolEngine(task, STEPS, threads, window), genomes, world, task=task), expected)
    if not task.reusable:
        monkeypatch.setattr(rollout, "CHUNK", 5)
        assert same(play(EnvPoolEngine(task, STEPS, 2, 3), genomes, world, task=task), expected)


@pytest.mark.parametrize("engine", SIMULATORS)
def test_worker_processes_do_not_change_a_bit(engine: str) -> None:
    genomes, world = population(LANDER, 5), world_of(LANDER, MANY, STEPS, TRIALS)
    expected = play(SIMULATORS[engine][0](LANDER), genomes, world)
    r = configure("lunarlander", engine=engine, workers=2, max_steps=STEPS).config.rollout
    assert same(play(open_engine(LANDER, r), genomes, world), expected)


def test_under_common_random_numbers_all_genomes_meet_the_same_world() -> None:
    genomes = population(LANDER, 2)
    twice = genomes._replace(**{k: np.repeat(v[:1], 4, axis=0) for k, v in genomes._asdict().items()})
    world = world_of(LANDER, MANY, STEPS)
    for common in (True, False):
        which = Episodes(11, seeding.EPISODE, 0, 4, common)
        returns = play(EnvPoolEngine(LANDER, STEPS, 1), twice, world, which).returns
        assert (returns == returns[0]).all() == common


def test_every_generation_has_worlds_of_its_own_also_where_environments_are_kept() -> None:
    task = TASKS["hopper"]
    genomes, world = population(task, 2), world_of(task, ["action invert p=0.5 each"], 30)
    engine, seen = EnvPoolEngine(task, 30, 1), []
    for generation in range(3):
        ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
        which = Episodes(1, seeding.EPISODE, generation, 8, True)
        seen.append(engine.run(ph, life_of(task, HEBB, world=world), which).returns.tobytes())
    engine.close()
    assert len(set(seen)) == 3


# -- attributes of environments ---------------------------------------------------------------------------------------


def test_an_attribute_changes_at_its_onset_and_is_set_back() -> None:
    task = find("CartPole-v1")
    env = make(task)
    ph = compile_phenotypes(population(TASKS["cartpole"], 1 + 1), 4, 2).part(0, 1)
    world = world_of(task, ["env gravity=20 from=2 to=4", "env force_mag=5"], 50)
    seen = []
    for moment in one_life(task, ph, life_of(task, HEBB, world=world), 3, 50, env=env):
        seen.append((env.unwrapped.gravity, env.unwrapped.force_mag))
        last = moment
    assert last.over and len(seen) > 6
    assert seen[0] == (9.8, 10.0)  # before the first step
    assert seen[1:-1] == [(20.0 if t in (2, 3) else 9.8, 5) for t in range(len(seen) - 2)]
    assert (env.unwrapped.gravity, env.unwrapped.force_mag) == (9.8, 10.0)


def test_an_attribute_equals_an_environment_that_was_made_so() -> None:
    class Heavy:
        def __init__(self) -> None:
            self.env = make(TASKS["cartpole"])
            self.env.unwrapped.gravity = 30.0
            self.observation_space, self.action_space = self.env.observation_space, self.env.action_space
            self.reset, self.step, self.close = self.env.reset, self.env.step, self.env.close

    genomes = population(TASKS["cartpole"], 3)
    task = TASKS["cartpole"]
    heavy = task._replace(maker=Heavy, id="python:Heavy", resets_fully=False)
    changed = play(LocalGymnasium(task, STEPS), genomes, world_of(task, ["env gravity=30"], STEPS), task=task)
    made = play(LocalGymnasium(heavy, STEPS), genomes, UNCHANGED, task=heavy)
    plain = play(LocalGymnasium(task, STEPS), genomes, UNCHANGED, task=task)
    assert same(changed, made) and not same(changed, plain)


def test_fields_of_mujocos_model_are_changed_by_path() -> None:
    task = TASKS["hopper"]
    env = make(task)
    genomes = population(task, 2)
    ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs).part(0, 1)
    world = world_of(task, ["env model.opt.gravity[2]=-3 from=1", "env model.actuator_gear=[0,0,0,0,0,0]"], 20)
    seen = [
        float(env.unwrapped.model.opt.gravity[2])
        for _ in one_life(task, ph, life_of(task, HEBB, world=world), 3, 20, env=env)
    ]
    assert seen[:3] == [-9.81, -9.81, -3.0] and env.unwrapped.model.opt.gravity[2] == -9.81
    assert env.unwrapped.model.actuator_gear[0, 0] == 200.0


# -- settings ----------------------------------------------------------------------------------------------------------

TINY: dict[str, Any] = {
    "pop_size": 6, "elitism": 1, "generations": 2, "episodes": 2, "max_steps": 40, "threads": 1, "seed": 4,
    "champion_candidates": 2, "champion_trials": 2, "champion_episodes": 3, "progress": False,
}  # fmt: skip


def test_a_champion_carries_its_world_and_can_be_tried_in_others(tmp_path: Path) -> None:
    world = ["action invert of=1 p=0.5", "reward scale=2"]
    run = train("lunarlander", out=tmp_path / "run", change=world, **TINY)
    assert Config.from_toml((run.path / "config.toml").read_text()).world.change == tuple(world)
    assert json.loads(run.champion_path.read_text())["life"]["change"] == world
    own = neol.evaluate(run, episodes=4, max_steps=40)
    assert own.returns.tobytes() == neol.evaluate(run, episodes=4, max_steps=40, change=world).returns.tobytes()
    plain = neol.evaluate(run, episodes=4, max_steps=40, change=())
    halved = neol.evaluate(
        run, episodes=4, max_steps=40, change=["reward scale=0.5", "reward absent"], plasticity=False
    )
    static = neol.evaluate(run, episodes=4, max_steps=40, change="none", plasticity=False)
    assert own.returns.tobytes() != plain.returns.tobytes()
    np.testing.assert_allclose(halved.returns, 0.5 * static.returns, rtol=1e-12)


def test_a_world_with_attributes_is_played_on_gymnasium() -> None:
    resolved = configure("cartpole", change=["env gravity=20 from=200"])
    assert resolved.engine == "gymnasium" and "no attributes" in resolved.why
    assert configure("cartpole", change=["action invert"]).engine == "envpool"


WRONG = {
    "action invert of=2": "'2' is none of the 2 outputs: 0 to 1, or main, side",
    "action dead of=rudder": "'rudder' is none of the 2 outputs",
    "observation loss of=3-9": "'3-9' is none of the 8 inputs",
    "action dead of=0,0": "of names one of the outputs twice",
    "action dead from=1000": "it begins at 1000, and a life has at most 1000 steps (max_steps)",
    "action dead from=1 count=trials": "it begins at 1, and a life has at most 1 trials",
    "action dead from=50 to=50": "it ends at 50, which must be after its beginning at 50",
    "action dead from=9..3": "from = '9..3' must be a whole number, or a range such as 100..300",
    "action ded": "action has no 'ded'; did you mean 'dead'?",
    "actions dead": "'actions' is unknown; did you mean 'action'?",
    "action": "it must be WHAT KIND ...",
    "action gain": "gain needs a value, as gain=0.5",
    "action dead=3": "dead takes no value",
    "action gain=x": "gain = 'x' must be a number",
    "action gain=nan": "gain = 'nan' must be a number",
    "action delay=1.5": "delay must be a whole number of steps",
    "observation noise=-1": "noise must be at least 0",
    "action dead p=1.5": "p must be a probability, 0 to 1",
    "action dead when=3": "'when' is unknown",
    "action dead count=weeks": "count must be one of life, trial, trials",
    "action dead p=0.5 p=0.5": "'p=0.5' must be p=..., once",
    "reward sign of=0": "reward has no indices: leave out of",
    "action dead each group=g p=0.7": "a life has at most one change of group 'g'",
    "env 3=2": "'3' is no path of attributes",
    "env gravity": "an attribute needs a value",
    "env gravity=x": "an attribute needs a value",
    f"env gravity={'9' * 400}": "an attribute needs a value",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_change_that_cannot_be_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(NeolError) as error:
        configure("lunarlander", change=[text])
    said = str(error.value)
    assert said.startswith(f"change = '{text}' is not allowed; ") and WRONG[text] in said and "\n" not in said


@pytest.mark.parametrize("path", ["model.jnt_qposadr[0]", "model.body_parentid", "model.opt.integrator"])
def test_ids_and_sizes_of_a_simulator_in_c_are_not_changed(path: str, tmp_path: Path) -> None:
    """MuJoCo uses them without a check: a segmentation fault."""
    with pytest.raises(NeolError, match="is not allowed; .* is a whole number of the simulator's own"):
        train("hopper", out=tmp_path / "run", change=[f"env {path}=1000000"], workers=1, **TINY)
    assert not (tmp_path / "run").exists()


def test_an_attribute_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(NeolError, match=r"^change = 'env gravitation=3' is not allowed; 'cartpole' has no gravitation"):
        train("cartpole", out=tmp_path / "run", change=["env gravitation=3"], workers=1, **TINY)
    assert not (tmp_path / "run").exists()
    with pytest.raises(
        NeolError, match="engine = 'envpool' is not allowed with 'cartpole': EnvPool's environments have"
    ):
        configure("cartpole", engine="envpool", change=["env gravity=3"])


def test_a_text_says_what_it_means() -> None:
    change = parse_change("action invert of=1,3-5 p=0.25 from=100..300 to=400 count=trial group=legs")
    assert change[1:10] == ("action", "gain", -1.0, ("1", "3-5"), 0.25, (100, 300), (400, 400), "trial", "legs")


@pytest.mark.parametrize(
    ("task", "text"),
    [("cartpole", "env gravity=1e300"), ("Hopper-v5", "env frame_skip=1000000000"), ("cartpole", "env masspole=nan")],
)
def test_an_attribute_is_not_set_to_a_number_with_which_a_simulator_would_take_for_ever(task: str, text: str) -> None:
    with pytest.raises(NeolError, match="is not allowed"):
        check_attributes(found := find(task), world_of(found, [text], 10))
