"""PPO and SAC: what they refuse, that they learn, how steps are counted, and that a killed run ends in the same bytes.

Kills are real: SIGKILL to a real `neol baseline` process.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from baseline_lab import POLICIES, PPO, RUNS, SAC
from quick_xla import quick_xla

from neol import seeding
from neol.baselines import loop as baselines
from neol.baselines import settings as baseline_settings
from neol.baselines.policy import load_policy, play
from neol.baselines.vec_env import PoolEnv
from neol.cli import main as cli
from neol.envs.tasks import TASKS
from neol.errors import NeolError
from neol.training import run_folder
from neol.training import train as training
from neol.training.run import Run

OUTCOME = (run_folder.HISTORY, run_folder.CONFIG, run_folder.POLICY, run_folder.FINAL_POLICY)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What baseline_lab.py computed."""
    folder = tmp_path_factory.mktemp("baselines")
    script = Path(__file__).with_name("baseline_lab.py")
    command = [sys.executable, script, folder]
    done = subprocess.run(command, env=quick_xla(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def runs(lab: Path) -> dict[str, Run]:
    """A short run of each that nothing happened to."""
    return {name: Run(lab / name) for name in RUNS}


def process(*arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "neol", "baseline", *map(str, arguments)]
    return subprocess.Popen(command, env=quick_xla(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def options(settings: dict[str, Any]) -> list[str]:
    flat = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items() if k != "hyperparameters"]
    changed = [f"{k}={v}" for k, v in settings.get("hyperparameters", {}).items()]
    return [*flat, *(["--hyperparameters", *changed] if changed else [])]


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sac", "cartpole"], ("continuous", "ppo")),
        (["pppo", "cartpole"], ("'pppo'", "did you mean 'ppo'")),
        (["ppo", "lunarlandr"], ("did you mean 'lunarlander'",)),
        (["ppo", "CarRacing-v3"], ("our own", "hopper")),
        (["ppo", "cartpole", "--max-env-steps=0"], ("max_env_steps = 0", "at least 1")),
        (["ppo", "cartpole", "--seed=-1"], ("seed = -1",)),
        (["ppo", "cartpole", "--interval=-1"], ("interval = -1",)),
        (["ppo", "cartpole", "--hyperparameters", "n_step=3"], ("did you mean 'n_steps'",)),
        (["ppo", "cartpole", "--hyperparameters", "n_steps=0"], ("n_steps = 0", "at least 1")),
        (["ppo", "cartpole", "--hyperparameters", "learning_rate=line_3"], ("learning_rate = 'line_3'",)),
        (["ppo", "cartpole", "--hyperparameters", "batch_size=512"], ("batch_size = 512", "256")),
        (["ppo", "cartpole", "--hyperparameters", "activation=sine"], ("tanh or relu",)),
        (["ppo", "cartpole", "--hyperparameters", "gamma"], ("key=value",)),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    arguments: list[str], words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        cli.main(
            ["baseline", arguments[0], arguments[1], "--max-env-steps=9", *arguments[2:], f"--out={tmp_path / 'x'}"]
        )
        == 2
    )
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    assert all(word in err for word in words), err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("algorithm", "task"), [(a, t) for a in ("ppo", "sac") for t in TASKS if (a, t) != ("sac", "cartpole")]
)
def test_config_toml_is_complete_and_reads_back(algorithm: str, task: str) -> None:
    config = baseline_settings.baseline_config(algorithm, task, 10_000, seed=5)
    assert config.max_steps == TASKS[task].max_steps
    assert baseline_settings.read(config.to_toml(), "it") == config


def test_without_the_extra_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['sbx'] = None\nfrom neol.cli.main import main\n"
        f"sys.exit(main(['baseline', 'ppo', 'cartpole', '--max-env-steps=9', '--out={tmp_path / 'x'}']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'neol[baselines]'" in done.stderr


def test_train_and_evaluate_import_neither_torch_nor_jax_nor_matplotlib(tmp_path: Path) -> None:
    small = {"pop_size": 10, "generations": 1, "max_steps": 20, "champion_candidates": 1, "champion_episodes": 2}
    script = (
        f"import neol, sys\nrun = neol.train('cartpole', out={str(tmp_path / 'run')!r}, **{small})\n"
        "neol.evaluate(run.path, episodes=2)\n"
        "print([m for m in ('torch', 'jax', 'sbx', 'stable_baselines3', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- environments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["envpool", "gymnasium"])
def test_a_reset_is_neither_a_step_nor_a_reward(engine: str) -> None:
    env = PoolEnv(TASKS["cartpole"], np.arange(5, dtype=np.int32), 30, engine=engine)
    rng = np.random.default_rng(0)
    env.reset()
    pending = np.zeros(5)
    for _ in range(300):
        observations, rewards, done, infos = env.step(rng.integers(0, 2, 5))
        assert (rewards == 1.0).all()  # a reset would pay 0
        pending = np.where(done, 0, pending + 1)
        assert (np.abs(observations[done]) <= 0.05).all()  # where CartPole starts
        for i in np.flatnonzero(done):
            last = infos[i]["terminal_observation"]
            fell = abs(last[0]) > 2.4 or abs(last[2]) > 12 * np.pi / 180
            assert fell != infos[i]["TimeLimit.truncated"]
    env.close()
    assert env.env_steps == 1500 == sum(steps for _, steps in env.finished) + pending.sum()
    assert all(total == steps for total, steps in env.finished)
    assert {steps == 30 for _, steps in env.finished} == {True, False}


def test_environments_do_not_depend_on_threads() -> None:
    seen = []
    for threads in (1, 2):
        env = PoolEnv(TASKS["lunarlander"], np.arange(4, dtype=np.int32), 80, threads)
        rng = np.random.default_rng(1)
        env.reset()
        seen.append(np.array([env.step(rng.uniform(-1, 1, (4, 2)))[0] for _ in range(200)]))
        env.close()
    assert np.array_equal(*seen)


# -- policies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "task"), POLICIES)
def test_the_plain_policy_acts_as_the_library_does(algorithm: str, task: str, lab: Path) -> None:
    with np.load(lab / f"{algorithm}-{task}.npz") as found:
        assert found["normalized"] == ((algorithm, task) == ("ppo", "hopper"))
        assert np.allclose(found["ours"], found["theirs"], atol=1e-5)


# -- runs --------------------------------------------------------------------------------------------------------------


def test_ppo_learns_to_balance(runs: dict[str, Run]) -> None:
    assert runs["ppo"].summary.champion_return_mean > 80  # a random policy's is 22


@pytest.mark.parametrize("name", RUNS)
def test_steps_are_counted_exactly_to_the_first_update_that_reaches_the_limit(name: str, runs: dict[str, Run]) -> None:
    run, (_, settings) = runs[name], RUNS[name]
    per_update = {"ppo": 8 * 32, "sac": 1}[name]
    expected = -(-settings["max_env_steps"] // per_update) * per_update
    assert run.summary.env_steps == run.history["env_steps"][-1] == expected
    assert run.history["env_steps"][0] == -(-settings["interval"] // per_update) * per_update
    assert (np.diff(run.history["env_steps"]) > 0).all()


def test_the_replay_buffer_is_saved_whole_and_marks_what_really_ended(runs: dict[str, Run]) -> None:
    run = runs["sac"]
    settings = baseline_settings.read((run.path / run_folder.CONFIG).read_text(), "it")
    arrays = run_folder.read_checkpoint(run.path, settings)
    assert len(arrays["learner.replay.rewards"]) == SAC["max_env_steps"]
    ended, cut = arrays["learner.replay.dones"], arrays["learner.replay.timeouts"]
    assert ended.sum() == run.history["episodes"].sum()
    assert (cut <= ended).all()


def test_history_tells_the_papers_metric_and_the_summary_has_the_keys_of_train(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    small = {"pop_size": 10, "generations": 1, "max_steps": 20, "champion_candidates": 1, "champion_episodes": 2}
    ours = training.train("cartpole", out=tmp_path / "run", **small).summary
    evolution = {"outer", "champion_is_best_by_fitness", "best_by_fitness_return_mean", "best_by_fitness_return_ci95"}
    for run in runs.values():
        best = np.fmax.accumulate(run.history["best_return"])
        assert np.array_equal(best, run.history["best_so_far"])
        assert run.summary.best_so_far == best[-1]
        assert set(ours.as_dict()) - evolution <= set(run.summary.as_dict())
        assert run.summary.cpu_seconds > 0
    assert runs["ppo"].summary.parameters == (4 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 2


@pytest.mark.parametrize("name", RUNS)
def test_the_champions_return_is_that_of_100_held_out_episodes(name: str, runs: dict[str, Run]) -> None:
    run, (task, settings) = runs[name], RUNS[name]
    seeds = seeding.episode_seeds(settings["seed"], seeding.HELD_OUT, 0, 1, 100, True)
    returns, _ = play(load_policy(run.path), TASKS[task], seeds, settings.get("max_steps", TASKS[task].max_steps))
    assert run.summary.champion_return_mean == returns.mean()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_killed_and_resumed_ends_in_the_same_bytes(
    name: str, runs: dict[str, Run], tmp_path: Path
) -> None:
    task, settings = RUNS[name]
    folder = tmp_path / "killed"
    arguments = (name, task, f"--out={folder}", "--resume", *options(settings), "--quiet")
    first = process(*arguments)
    while not (folder / run_folder.HISTORY).exists() and first.poll() is None:
        time.sleep(0.01)
    first.kill()
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert not (folder / run_folder.SUMMARY).exists()
    whole = runs[name].path.joinpath(run_folder.HISTORY).read_bytes()
    assert whole.startswith((folder / run_folder.HISTORY).read_bytes())
    second = process(*arguments)
    out, err = second.communicate()
    assert second.returncode == 0, err
    assert "held-out return of the champion" in out
    for file in OUTCOME:
        assert (folder / file).read_bytes() == (runs[name].path / file).read_bytes(), file
    summaries = Run(folder).summary, runs[name].summary
    assert summaries[0].champion_return_mean == summaries[1].champion_return_mean


def test_a_folder_is_not_taken_over_and_settings_hold_at_a_resume(runs: dict[str, Run], tmp_path: Path) -> None:
    path = runs["ppo"].path
    with pytest.raises(NeolError, match="already holds a run"):
        baselines.train("ppo", "cartpole", out=path, **PPO)
    with pytest.raises(NeolError, match="seed = 4 is not allowed with resume=True"):
        baselines.train("ppo", "cartpole", out=path, resume=True, **{**PPO, "seed": 4})
    with pytest.raises(NeolError, match="threads = 2 is not allowed with resume=True"):
        baselines.train("ppo", "cartpole", out=path, resume=True, threads=2, **PPO)
    with pytest.raises(NeolError, match="max_env_steps = 20000 .* learning_rate depends on that"):
        baselines.train("ppo", "cartpole", out=path, resume=True, **{**PPO, "max_env_steps": 20_000})
    with pytest.raises(NeolError, match="is a baseline's run, of `neol baseline`"):
        training.train("cartpole", out=path, resume=True)
    with pytest.raises(NeolError, match="load_policy"):
        _ = runs["ppo"].champion


def test_without_a_schedule_a_finished_run_can_be_given_more_steps(lab: Path) -> None:
    run = Run(lab / "longer")
    assert run.history["env_steps"].tolist() == [512, 1024]
    assert run.summary.env_steps == 1024


def test_a_damaged_checkpoint_is_refused(lab: Path) -> None:
    assert "damaged" in (lab / "damaged.txt").read_text(encoding="utf-8")
