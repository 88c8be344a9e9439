"""Worker processes: the same bits as without them, whatever dies; and nothing that outlives the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import neol
from neol.config.schema import Config
from neol.envs.registry import find
from neol.errors import NeolError
from neol.neat.evolution import Neat
from neol.network.phenotype import compile_phenotypes
from neol.rollout.dispatcher import Dispatcher
from neol.rollout.faults import REDRAWS
from neol.rollout.life import life_of
from neol.rollout.local_workers import LocalWorkers
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, ShardedRollout
from neol.training.configure import configure

ENVS = Path(__file__).parent / "envs"
SMALL: dict[str, Any] = {
    "pop_size": 12, "episodes": 2, "generations": 3, "champion_trials": 2, "champion_episodes": 2,
    "champion_candidates": 2, "seed": 3, "lr": 0.5,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _environments_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ENVS)


def history(task: Any, out: Path, **settings: Any) -> bytes:
    """history.csv and champion.json of a run."""
    run = neol.train(task, out=out, **{**SMALL, **settings})
    return (run.path / "history.csv").read_bytes() + run.champion_path.read_bytes()


def events(out: Path) -> list[dict[str, Any]]:
    file = out / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def workers_of(pid: int) -> list[psutil.Process]:
    """Every process that descends from this one and is a worker of ours."""
    found = []
    for p in psutil.Process(pid).children(recursive=True):
        try:
            if "neol.rollout.worker_process" in " ".join(p.cmdline()):
                found.append(p)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def nobody_left() -> Iterator[None]:
    yield
    assert not workers_of(os.getpid())


# -- the same bits ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nobody_left")
@pytest.mark.parametrize("task", ("cartpole", "bipedalwalker"))
def test_the_number_of_workers_does_not_change_a_bit(task: str, tmp_path: Path) -> None:
    runs = [
        history(task, tmp_path / str(w), engine="gymnasium", workers=w, max_steps=40, normalize_observations=True)
        for w in (1, 2, 4)
    ]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.usefixtures("nobody_left")
def test_envpool_in_processes_gives_what_its_threads_give(tmp_path: Path) -> None:
    for task in ("cartpole", "hopper"):
        runs = [history(task, tmp_path / f"{task}{w}", engine="envpool", workers=w, max_steps=40) for w in (0, 1, 3)]
        assert runs[0] == runs[1] == runs[2]


def test_shards_of_any_size_put_together_are_the_whole(tmp_path: Path) -> None:
    task = find("cartpole")
    config = configure("cartpole", engine="gymnasium", **SMALL).config
    population = Neat(config.neat, task.n_inputs, task.n_outputs, 0).ask()
    phenotypes = compile_phenotypes(population, task.n_inputs, task.n_outputs)
    life = life_of(task, config.plasticity)
    from neol.rollout.gymnasium_player import GymnasiumPlayer

    player = GymnasiumPlayer(task, 30, fresh=False)
    results = []
    for size in (24, 1, 5, 7):
        plan = ShardedRollout(task, phenotypes, life, Episodes(1, 2, 0, 2, False))
        for start in range(0, plan.total, size):
            stop = min(plan.total, start + size)
            plan.take(start, stop, player.play(plan.shard(start, stop)))
        results.append(plan.result())
    for other in results[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(results[0][:3], other[:3], strict=True))
    assert results[0].weight.tobytes() != phenotypes.weight.tobytes()  # they learned


@pytest.mark.usefixtures("nobody_left")
def test_a_run_may_be_resumed_with_other_workers(tmp_path: Path) -> None:
    whole = history("cartpole", tmp_path / "whole", engine="gymnasium", workers=2, max_steps=40, generations=4)
    neol.train(
        "cartpole", out=tmp_path / "r", **{**SMALL, "generations": 2}, engine="gymnasium", workers=1, max_steps=40
    )
    run = neol.train(out=tmp_path / "r", resume=True, generations=4, workers=3)
    assert (run.path / "history.csv").read_bytes() + run.champion_path.read_bytes() == whole
    with pytest.raises(NeolError, match="engine"):
        neol.train("cartpole", out=tmp_path / "r", resume=True, engine="envpool", generations=5)
    with pytest.raises(NeolError, match="fresh_envs"):  # of a leaking environment it would change what follows
        neol.train(out=tmp_path / "r", resume=True, fresh_envs="true", generations=5)


# -- faults -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nobody_left")
def test_passing_faults_of_every_kind_change_nothing(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"workers": 2, "common_random_numbers": False}
    clean = history("trouble:Trouble", tmp_path / "clean", **settings)
    marks = tmp_path / "marks"
    marks.mkdir()
    trouble = {"share": 0.2, "once": str(marks)}
    faulty = history("trouble:Trouble", tmp_path / "f", env_kwargs=trouble, step_timeout=1.0, **settings)
    rows = [r.split(b"champion")[0].split(b"{")[0] for r in (clean, faulty)]
    assert rows[0] == rows[1]
    assert len(list(marks.iterdir())) > 6
    kinds = {e["event"] for e in events(tmp_path / "f")}
    assert kinds == {"worker died", "episode retried"}  # nobody failed for good
    counted = neol.load(tmp_path / "f").summary.events
    assert set(counted) == kinds and counted["worker died"] >= 2


@pytest.mark.usefixtures("nobody_left")
@pytest.mark.parametrize("kind", ("raise", "nan", "infinite", "shape", "kill", "hang"))
def test_a_genome_whose_episode_goes_on_failing_gets_the_worst_fitness(kind: str, tmp_path: Path) -> None:
    seen = []
    settings = {"share": 0.1, "kinds": kind}
    neol.train(
        "trouble:Trouble", out=tmp_path / "r", workers=2, env_kwargs=settings, step_timeout=0.5, episode_retries=1,
        common_random_numbers=False, callback=seen.append, **{**SMALL, "generations": 2},
    )  # fmt: skip
    failed = [e for e in events(tmp_path / "r") if e["event"] == "episode failed"]
    assert failed
    names = {"nan": "not finite", "infinite": "not finite", "shape": "wrong observation", "kill": "worker died",
             "hang": "timeout", "raise": "raised"}  # fmt: skip
    assert {e["kind"] for e in failed} == {names[kind]}
    assert {e["attempts"] for e in failed} == {2}
    words = {"raise": "the motor is on fire", "shape": "(5,)", "nan": "nan", "infinite": "inf", "kill": "signal 9",
             "hang": "_hang"}  # fmt: skip
    assert all(words[kind] in e["traceback"] for e in failed)
    for generation in seen:
        bad = {e["genome"] for e in failed if e["generation"] == generation.row["generation"]}
        good = [f for i, f in enumerate(generation.fitness) if i not in bad]
        assert all(generation.fitness[i] == min(good) for i in bad)
        assert generation.row["best_return"] <= 0.0


@pytest.mark.usefixtures("nobody_left")
def test_a_generation_in_which_everybody_fails_is_one_sentence(tmp_path: Path) -> None:
    settings = {"share": 1.0, "kinds": "raise"}
    with pytest.raises(NeolError, match=r"every genome of generation 0 failed .*the motor is on fire.*events\.jsonl"):
        neol.train("trouble:Trouble", out=tmp_path / "r", workers=2, env_kwargs=settings, **SMALL)
    kinds = Counter(e["event"] for e in events(tmp_path / "r"))
    assert kinds == {"episodes redrawn": REDRAWS, "episode left out": 2}
    own = tmp_path / "own"  # seeds of their own: nobody can say that it is the environment's fault
    with pytest.raises(NeolError, match=r"every genome of generation 0 failed .*the motor is on fire.*events\.jsonl"):
        neol.train("trouble:Trouble", out=own, workers=2, env_kwargs=settings, common_random_numbers=False, **SMALL)
    assert Counter(e["event"] for e in events(own)) == {"episode failed": 24}


@pytest.mark.usefixtures("nobody_left")
def test_workers_that_all_die_are_one_sentence(tmp_path: Path) -> None:
    settings = {"share": 1.0, "kinds": "kill"}
    with pytest.raises(NeolError, match=r"workers died one after the other.*signal 9"):
        neol.train("trouble:Trouble", out=tmp_path / "r", workers=2, env_kwargs=settings, **SMALL)


@pytest.mark.usefixtures("nobody_left")
def test_many_deaths_end_no_run_in_which_somebody_survives(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "env_kwargs": {"share": 0.6, "kinds": "kill"}, "episodes": 1, "pop_size": 24, "generations": 2,
        "episode_retries": 0, "common_random_numbers": False, "champion_trials": 12, "champion_episodes": 20,
    }  # fmt: skip
    runs = [history("trouble:Trouble", tmp_path / str(w), workers=w, **settings) for w in (1, 4)]
    assert runs[0] == runs[1]
    assert len([e for e in events(tmp_path / "1") if e["event"] == "episode failed"]) > 20


@pytest.mark.usefixtures("nobody_left")
def test_a_killed_fork_server_is_replaced(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"env_kwargs": {"slow": 0.002}, "generations": 3}
    clean = history("trouble:Trouble", tmp_path / "clean", workers=2, **settings)
    killed = []

    def kill(_: Any) -> None:
        if not killed:
            fork_server = next(p for p in workers_of(os.getpid()) if p.ppid() == os.getpid())
            killed.append(fork_server.pid)
            os.kill(fork_server.pid, signal.SIGKILL)

    run = neol.train("trouble:Trouble", out=tmp_path / "hit", workers=2, callback=kill, **{**SMALL, **settings})
    assert killed
    assert (run.path / "history.csv").read_bytes() + run.champion_path.read_bytes() == clean


@pytest.mark.usefixtures("nobody_left")
def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    """A real SIGKILL in the middle of generations, from outside, again and again."""
    settings: dict[str, Any] = {"env_kwargs": {"slow": 0.002}, "generations": 6}
    clean = history("trouble:Trouble", tmp_path / "clean", workers=2, **settings)
    stop, killed = threading.Event(), []

    def killer() -> None:
        while not stop.wait(0.15):
            backend = [p for p in workers_of(os.getpid()) if p.ppid() != os.getpid()]  # not the one that they come from
            if backend and len(killed) < 8:
                victim = backend[len(killed) % len(backend)]
                killed.append(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        hit = history("trouble:Trouble", tmp_path / "hit", workers=2, episode_retries=20, **settings)
    finally:
        stop.set()
        thread.join()
    assert len(killed) >= 4
    assert hit == clean
    assert len([e for e in events(tmp_path / "hit") if e["event"] == "worker died"]) >= 4


def test_workers_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, neol\n"
        f"sys.path.insert(0, {str(ENVS)!r})\n"
        f"neol.train('trouble:Trouble', out={str(tmp_path / 'r')!r}, workers=2, pop_size=12, generations=100000, "
        "env_kwargs={'slow': 0.01})\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    workers: list[psutil.Process] = []
    deadline = time.monotonic() + 120
    while len(workers) < 3 and time.monotonic() < deadline:  # the fork_server and its two
        time.sleep(0.1)
        workers = workers_of(parent.pid)
    assert len(workers) == 3
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive


@pytest.mark.usefixtures("nobody_left")
def test_an_environment_that_leaks_is_made_anew_for_every_episode(tmp_path: Path) -> None:
    runs = [history("trouble:Unseeded", tmp_path / str(w), workers=w) for w in (1, 3)]
    assert runs[0] == runs[1]
    reused = [history("trouble:Unseeded", tmp_path / f"u{w}", workers=w, fresh_envs="false") for w in (1, 3)]
    assert reused[0] != runs[0]  # so the leak is real


@pytest.mark.usefixtures("nobody_left")
def test_soak_two_hundred_generations_of_trouble(tmp_path: Path) -> None:
    """One episode in a hundred raises, hangs, returns NaN or infinity, a wrong shape, or kills its process."""
    settings: dict[str, Any] = {
        "env_kwargs": {"share": 0.01}, "generations": 200, "pop_size": 20, "episodes": 1, "step_timeout": 0.4,
        "episode_retries": 1, "common_random_numbers": False,
    }  # fmt: skip
    runs = [history("trouble:Trouble", tmp_path / str(w), workers=w, **settings) for w in (2, 1)]
    assert runs[0] == runs[1]
    table = neol.load(tmp_path / "2").history
    assert len(table["generation"]) == 200
    assert (table["best_fitness"] < 0.0).all()
    failed = [e["kind"] for e in events(tmp_path / "2") if e["event"] == "episode failed"]
    assert len(failed) > 20
    assert set(failed) == {"raised", "timeout", "not finite", "worker died", "wrong observation"}


@pytest.mark.usefixtures("nobody_left")
def test_the_cpu_seconds_of_a_run_are_its_workers_too(tmp_path: Path) -> None:
    few = {**SMALL, "pop_size": 4, "episodes": 1, "generations": 2, "max_steps": 3, "champion_trials": 1}
    run = neol.train("trouble:Busy", out=tmp_path, workers=2, **few)
    timing = np.genfromtxt(tmp_path / "timing.csv", delimiter=",", names=True)
    assert timing["cpu_seconds"][-1] >= 0.1 * run.summary.env_steps  # that it was busy for, in the workers
    assert run.summary.cpu_seconds > timing["cpu_seconds"][-1]  # and those that chose the champion


# -- what cannot work ---------------------------------------------------------------------------------------------


def test_a_function_of_the_main_program_works_in_workers(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import neol, gymnasium\n"
        "offset = 0.5\n"
        "def make():\n"
        "    env = gymnasium.make('Pendulum-v1')\n"
        "    return gymnasium.wrappers.TransformReward(env, lambda r: r + offset)\n"
        "run = neol.train(make, out='r', workers=2, pop_size=4, generations=2, max_steps=10, episodes=1,\n"
        "                 champion_trials=1, champion_episodes=2)\n"
        "print('TASK', run.config.run.task, neol.evaluate(run.champion, make, episodes=2).mean < 10)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "TASK python:make True" in done.stdout, done.stderr
    assert done.stdout.count("TASK") == 1  # the workers did not run the program again
    again = subprocess.run(
        [sys.executable, "-m", "neol", "train", "--out", "r", "--resume", "--generations", "3"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert again.returncode == 2
    assert "python:make" in again.stderr and "Traceback" not in again.stderr


def test_a_function_that_cannot_travel_is_one_sentence() -> None:
    lock = threading.Lock()

    def make() -> Any:
        lock.acquire()

    task = find("cartpole")._replace(name="python:make", maker=make)
    with pytest.raises(NeolError, match="python:make.*cannot be sent to a worker"):
        open_engine(task, configure("cartpole", engine="gymnasium").config.rollout)


def test_the_choice_of_executor_follows_the_configuration() -> None:
    task = find("cartpole")
    rollout = Config().rollout
    inside = open_engine(task, configure("cartpole").config.rollout)
    assert not isinstance(inside, Dispatcher)
    outside = open_engine(task, configure("cartpole", workers=2).config.rollout)
    assert isinstance(outside, Dispatcher) and isinstance(outside.backend, LocalWorkers) and outside.backend.size == 2
    outside.close()
    assert rollout.executor == "local"
