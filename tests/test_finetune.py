"""`neol finetune` and runs that evolve first: the evolved network is the policy, its structure stays, the better of
before and after is kept, and a killed run ends in the same bytes.

Kills are real: SIGKILL to a real process.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finetune_lab import CASES, CHOICE, PPO, TINY, hybrid_config
from quick_xla import quick_xla

import neol
from neol.baselines.pools import GymnasiumPool
from neol.cli.main import main
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.gradients import settings as finetune_settings
from neol.gradients.jax_network import parameters_of
from neol.gradients.memory import Memory
from neol.gradients.settings import FinetuneConfig, finetune_config
from neol.gradients.vec_env import NetworkEnv, simulators
from neol.network.actions import action_map
from neol.network.normalization import IDENTITY
from neol.network.step import decode
from neol.studies.database import Database, plan_cells, record_result
from neol.studies.plan import ArmPlan, Cell, StudyPlan, cells, differences, key_of, parse_config, parse_plan
from neol.studies.scheduler import cost
from neol.training import run_folder
from neol.training.configure import resolve
from neol.training.start import read_start

SMALL: dict[str, Any] = {
    "pop_size": 10, "elitism": 1, "episodes": 1, "max_steps": 60, "threads": 1, "generations": 2, "rule": "none",
    "num_hidden": 1, "seed": 1, **CHOICE,
}  # fmt: skip
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("lunarlander", {}),
    "recurrent": ("lunarlander", {"feed_forward": False, "conn_add_prob": 1.0, "generations": 4,
                                  "normalize_observations": True, "output_transform": "none"}),
    "plastic": ("lunarlander", {"rule": "hebb"}),
    "pole": ("cartpole", {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with champions to begin from."""
    folder = tmp_path_factory.mktemp("starts")
    for name, (task, settings) in STARTS.items():
        neol.train(task, out=folder / name, **{**SMALL, **settings})
    return folder


@pytest.fixture(scope="module")
def lab(starts: Path) -> Path:
    """What finetune_lab.py computed, beside them."""
    script = Path(__file__).with_name("finetune_lab.py")
    command = [sys.executable, script, starts]
    done = subprocess.run(command, env=quick_xla(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return starts


@pytest.fixture(scope="module")
def found(lab: Path) -> dict[str, Any]:
    return json.loads((lab / "found.json").read_text(encoding="utf-8"))


def shape(path: Path) -> set[tuple[int, int]]:
    return {(c["from"], c["to"]) for c in json.loads(path.read_text())["connections"]}


# -- the policy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "algorithm"), CASES)
def test_the_policy_without_noise_does_what_the_champion_does(
    name: str, algorithm: str, found: dict[str, Any], lab: Path
) -> None:
    case = f"{name} {algorithm}"
    ours, theirs = np.array(found[case]["ours"]), np.array(found[case]["theirs"])
    end = 0.999 if algorithm == "sac" else 1.0  # SAC keeps a little away from where atanh is infinite
    assert np.abs(np.clip(ours, -end, end) - theirs).max() <= 1e-5 if name != "pole" else (ours == theirs).all()
    start = read_start(lab / name)
    memory = len(parameters_of(neol.load(lab / name).champion.network.phenotype).bias) if name == "recurrent" else 0
    assert found[case]["width"] == start.inputs + memory


def test_the_critic_learns_before_the_policy_moves(found: dict[str, Any]) -> None:
    for moved in found["warmed"].values():
        assert moved[0] < 1e-6 < 1e-4 < moved[2]  # single precision


def test_what_recurrent_networks_remember_is_what_our_kernels_compute(starts: Path) -> None:
    run = neol.load(starts / "recurrent")
    champion, start, task = run.champion, read_start(starts / "recurrent"), TASKS["lunarlander"]
    ph = champion.network.phenotype
    inside = simulators(task, "envpool", np.array([4, 5], np.int32), 60)
    own = parameters_of(ph)
    env = NetworkEnv(inside, task, start.normal, Memory(ph, 50.0, 2), lambda: own)
    seen, nodes = env.reset(), len(own.bias)
    assert seen.shape == (2, 8 + nodes) and not seen[:, 8:].any()
    remembered = np.zeros(nodes)
    champion.reset()
    for _ in range(70):  # an episode ends in it
        raw = seen[0, :8] * start.normal.std + start.normal.mean
        outputs = champion.activate(raw)
        remembered = champion._slots.value[0, 8 : 8 + nodes].copy()
        seen, _, done, infos = env.step(np.array([outputs, outputs]))
        if done[0]:
            assert np.allclose(infos[0]["terminal_observation"][8:], remembered, atol=1e-5)
            assert not seen[0, 8:].any()
            champion.reset()
        else:
            assert np.allclose(seen[0, 8:], remembered, atol=1e-5)
    assert env.finished
    env.close()


def read_nothing() -> Any:
    raise AssertionError("a network without memory is not asked for its weights")


def test_outputs_become_actions_as_the_kernels_decode_them() -> None:
    rng = np.random.default_rng(3)
    for task in (TASKS["lunarlander"], TASKS["hopper"]):
        env = NetworkEnv(simulators(task, "envpool", np.arange(2), 10), task, IDENTITY, None, read_nothing)
        outputs = rng.normal(0, 2, (5, task.n_outputs))
        expected = np.zeros((5, len(task.components)))
        for row, action in zip(outputs, expected, strict=True):
            decode(row, action_map(task.components), action)
        assert np.allclose(env._decoded(outputs), expected)
        env.close()


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_a_finetuned_champion_has_the_same_structure_and_deploys_like_any_other(algorithm: str, lab: Path) -> None:
    run, before = neol.load(lab / f"recurrent-{algorithm}"), neol.load(lab / "recurrent")
    s: Any = run.summary
    assert shape(run.champion_path) == shape(before.champion_path)
    assert s.start_return_mean == before.summary.champion_return_mean  # the same seed: the same held-out episodes
    assert s.finetuned_by == algorithm and s.env_steps >= TINY["max_env_steps"]
    assert s.parameters == before.summary.parameters
    assert run.history["env_steps"].tolist() == [128, 256, 384]
    assert run.history["weight_shift"][-1] > 0.0
    weights = [r.champion.weights for r in (run, before)]
    assert (weights[0] == weights[1]) == s.champion_is_start
    assert np.isfinite(neol.evaluate(run.path, episodes=2, max_steps=60).returns).all()
    assert run.config.run.task == "lunarlander" and run.config.run.start == str(lab / "recurrent")


def test_in_the_choice_of_the_champion_what_it_began_from_plays_as_much_as_the_best() -> None:
    from neol.training.champion import select

    played: dict[int, int] = dict.fromkeys(range(12), 0)

    def play(left: np.ndarray, part: int, episodes: int) -> np.ndarray:
        for i in left:
            played[int(i)] += episodes
        lucky = np.where(left == 11, -1.0 if part == 0 else 10.0, 0.0)  # the start has bad luck in the first round
        return np.repeat(lucky[:, None], episodes, axis=1)

    assert select(12, 5, play, stays=11)[0] == 11
    assert played[11] == 25
    assert select(12, 5, play)[0] != 11


def test_a_plastic_champion_stands_with_its_rule_and_without(lab: Path) -> None:
    run, before = neol.load(lab / "plastic-ppo"), neol.load(lab / "plastic")
    s: Any = run.summary
    document = json.loads(run.champion_path.read_text())
    assert document["plasticity"]["rule"] == ("hebb" if s.champion_keeps_rule else "none")
    assert s.start_return_mean == before.summary.champion_return_mean
    if not s.champion_keeps_rule:
        assert s.champion_without_plasticity_return_mean == s.champion_return_mean


def test_a_run_in_two_parts_ends_in_the_bytes_of_one(lab: Path) -> None:
    for file in (run_folder.HISTORY, run_folder.CHAMPION, run_folder.START):
        assert (lab / "parts" / file).read_bytes() == (lab / "recurrent-ppo" / file).read_bytes(), file


def test_evolution_has_its_share_of_the_budget_and_gradients_the_rest(lab: Path) -> None:
    run, config = neol.load(lab / "hybrid"), hybrid_config()
    s: Any = run.summary
    assert s.finetuned_by == "ppo" and s.outer == "neat"
    evolved = run.history["species"] > 0
    last = run.history["env_steps"][evolved][-1]
    assert evolved.any() and not evolved.all() and last >= config.evolved_steps
    assert s.evolved_env_steps > last  # the steps that chose whom to go on with count, too
    assert 6_000 <= s.env_steps == run.history["env_steps"][-1] < 6_000 + 4 * 32
    assert shape(run.champion_path) == shape(run.path / run_folder.START)
    assert finetune_settings.read((run.path / run_folder.CONFIG).read_text(), "it") == config
    assert neol.evaluate(run.champion, episodes=2, max_steps=60).returns.shape == (2,)


def test_a_hybrid_run_ends_in_the_same_bytes_interrupted_in_evolution_or_killed_after_it(
    lab: Path, tmp_path: Path
) -> None:
    """The lab's was interrupted in its second generation, and gone on with."""
    folder, tests = tmp_path / "killed", Path(__file__).parent
    script = (
        f"import sys; from pathlib import Path; sys.path.insert(0, {str(tests)!r})\n"
        "from finetune_lab import hybrid_config; from neol.studies.worker import work\n"
        f"print(work(Path({str(folder)!r}), hybrid_config()))"
    )
    command, env = [sys.executable, "-c", script], quick_xla()
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    while not evolved(folder) and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (folder / run_folder.SUMMARY).exists()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "('done', '')\n", done.stderr
    for name in (run_folder.HISTORY, run_folder.CONFIG, run_folder.CHAMPION, run_folder.START):
        assert (folder / name).read_bytes() == (lab / "hybrid" / name).read_bytes(), name


def evolved(folder: Path) -> bool:
    """Whether gradients have had an interval, and a checkpoint."""
    history = folder / run_folder.HISTORY
    return history.exists() and history.read_text().count(",0,") > 0 and (folder / run_folder.START).exists()


# -- studies -----------------------------------------------------------------------------------------------------------

STUDY = """
[study]
tasks = ["cartpole"]
[budget]
max_env_steps = 10_000
[base]
pop_size = 20
[[arm]]
name = "hybrid"
algorithm = "ppo"
evolve_share = 0.25
outer = "neat-es"
[[arm]]
name = "neat"
rule = "none"
[[arm]]
name = "ppo"
algorithm = "ppo"
"""


def test_an_arm_that_evolves_first_has_the_settings_of_train_and_a_key_of_its_own() -> None:
    hybrid, neat, ppo = (c for c in cells(parse_plan(STUDY), 0.5) if c.seed == 0)
    config = hybrid.config
    assert isinstance(config, FinetuneConfig)
    assert config.evolution.run.max_env_steps == 5_000 and config.evolved_steps == 1_250
    assert config.evolution.neat.pop_size == 20 and config.evolution.run.outer == "neat-es"
    assert len({hybrid.key, neat.key, ppo.key}) == 3
    assert differences(neat.config, config) == {"algorithm": ("neol", "neat-es+ppo")}
    assert parse_config(config.to_toml(), "it") == config
    assert cost(config) > cost(config.learner(3_750))


def test_a_study_has_it_as_one_run_and_not_as_a_baseline(lab: Path, tmp_path: Path) -> None:
    config, arm = hybrid_config(), ArmPlan("hybrid", "both", "default", False, "ppo", (), {}, 0.3)
    cell = Cell("cartpole", "hybrid", "both", "", {}, 2, config, key_of(config))
    with Database(tmp_path).writing() as db:
        plan_cells(db, StudyPlan("it", ("cartpole",), (2,), (arm,), ""), [cell], 1.0)
        record_result(db, 1, lab / "hybrid")
    study, run = neol.Study(tmp_path), neol.load(lab / "hybrid")
    (row,) = study.rows
    assert (row.held_out, row.env_steps) == (run.summary.champion_return_mean, run.summary.env_steps)
    assert row.parameters == run.summary.parameters and study.baselines == [] and study.config(row.run) == config
    assert study.champion(row.run) == json.loads(run.champion_path.read_text())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "neat"\n', 'name = "neat"\nevolve_share = 0.5\n', "evolve_share is not allowed without algorithm"),
        ("evolve_share = 0.25", "evolve_share = 1.5", "evolve_share = 1.5 is not allowed; it must be at least 0"),
        ("evolve_share = 0.25", 'evolve_share = "all"', "evolve_share = 'all' is not allowed"),
        ('algorithm = "ppo"\nevolve', 'algorithm = "sac"\nevolve', "SAC needs continuous actions"),
    ],
)
def test_a_bad_arm_is_one_sentence(old: str, new: str, words: str) -> None:
    with pytest.raises(NeolError) as e:
        list(cells(parse_plan(STUDY.replace(old, new, 1))))
    assert words in str(e.value)


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_config_toml_is_complete_and_reads_back(algorithm: str) -> None:
    resolved = neol.configure("lunarlander", max_env_steps=1000)
    config = finetune_config(resolved.config, resolved.task, algorithm, 0.3)
    assert config.hyperparameters["gamma"] == {"ppo": 0.999, "sac": 0.99}[algorithm]  # the zoo's, for this task
    assert finetune_settings.read(config.to_toml(), "it") == config
    changed = dataclasses.replace(config, evolution=config.evolution.replace(task="cartpole"))
    assert finetune_settings.read(changed.to_toml(), "it") == changed


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("evolve_share = 0.3", 'evolve_share = "a"', "evolve_share = 'a' is not allowed"),
        ("interval = ", "interval = -", "is not allowed; it must be a whole number, at least 0"),
        ('algorithm = "ppo"', "algorithm = [1]", "is not allowed"),
        ("n_envs = ", "n_envs = -", "n_envs = -32 is not allowed"),
        ("[hyperparameters]", "[others]", "must have the tables"),
        ("n_envs = ", "n_envs = = ", "is not valid TOML"),
        ("interval = ", "intervals = ", "is not that of a run of `neol finetune`"),
    ],
)
def test_settings_from_somebody_else_are_taken_or_refused_in_a_sentence(old: str, new: str, words: str) -> None:
    resolved = neol.configure("lunarlander", max_env_steps=1000)
    text = finetune_config(resolved.config, resolved.task, "ppo", 0.3).to_toml()
    head, mark, rest = text.partition(run_folder.FINETUNE)
    assert old in rest
    with pytest.raises(NeolError, match=words.replace("[", ".").replace("(", ".")):
        finetune_settings.read(head + mark + rest.replace(old, new, 1), "it")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("pole", ["--algorithm", "sac"], ("SAC needs continuous actions", "discrete; use ppo")),
        ("pole", ["--algorithm", "ppp"], ("algorithm = 'ppp'", "did you mean 'ppo'")),
        ("pole", ["--max-env-steps", "0"], ("max_env_steps = 0",)),
        ("pole", ["--interval", "-1"], ("interval = -1",)),
        ("pole", ["--hyperparameters", "n_step=3"], ("did you mean 'n_steps'",)),
        ("pole", ["--hyperparameters", "warmup=-1"], ("warmup = -1",)),
        ("pole", ["--change", "action invert of=1 from=10"], ("change", "the world must be the simulator's")),
        ("pole", ["--trials", "2"], ("trials = 2", "one episode")),
        ("pole", ["--birth", "drawn"], ("birth = 'drawn'",)),
        ("plain", ["--algorithm", "sac", "--hyperparameters", "ent_coef=automatic"], ("ent_coef = 'automatic'",)),
        ("nowhere", [], ("is not a run's folder",)),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    name: str, arguments: list[str], words: tuple[str, ...], starts: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(["finetune", str(starts / name), *arguments, "--out", str(tmp_path / "x"), "--quiet"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.endswith(".\n")
    assert all(word in err for word in words), err
    assert not (tmp_path / "x").exists()


def test_a_run_without_a_champion_or_with_another_tasks_spaces_is_refused(starts: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / run_folder.CONFIG).write_bytes((starts / "pole" / run_folder.CONFIG).read_bytes())
    with pytest.raises(NeolError, match=r"has no champion\.json yet"):
        neol.finetune(tmp_path / "empty")
    with pytest.raises(NeolError, match="it has 4 inputs and 2 outputs, but task 'lunarlander' has 8 and 2"):
        neol.finetune(starts / "pole", task="lunarlander", out=tmp_path / "x", progress=False)
    assert not (tmp_path / "x").exists()
    with pytest.raises(NeolError, match="is not a run of `neol finetune`"):
        neol.finetune(starts / "pole", out=starts / "plain", resume=True)


def test_settings_hold_at_a_resume_and_train_does_not_go_on_with_it(lab: Path) -> None:
    folder, how = lab / "recurrent-ppo", {"hyperparameters": PPO, **TINY, "resume": True}
    with pytest.raises(NeolError, match="seed = 9 is not allowed with resume=True"):
        neol.finetune(lab / "recurrent", out=folder, seed=9, **how)
    with pytest.raises(NeolError, match="already holds a run"):
        neol.finetune(lab / "recurrent", out=folder, hyperparameters=PPO, **TINY)
    with pytest.raises(NeolError, match="is a run of `neol finetune`"):
        neol.train("lunarlander", out=folder, resume=True)


def test_without_the_extra_a_sentence_says_what_to_install(starts: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['sbx'] = None\nfrom neol.cli.main import main\n"
        f"sys.exit(main(['finetune', {str(starts / 'pole')!r}, '--out', {str(tmp_path / 'x')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "neol finetune needs packages" in done.stderr and "pip install 'neol[baselines]'" in done.stderr
    assert not (tmp_path / "x").exists()


def test_an_environment_that_is_not_ours_can_be_finetuned_too() -> None:
    resolved = resolve(neol.configure("MountainCarContinuous-v0", max_env_steps=10).config)
    config = finetune_config(resolved.config, resolved.task, "sac")
    assert config.hyperparameters["gamma"] == 0.99
    inside = simulators(resolved.task, resolved.engine, np.arange(1), 10)
    assert isinstance(inside._pool, GymnasiumPool)
