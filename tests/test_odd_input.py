"""Odd values, files, streams and environments: a sentence, or what was wanted; no traceback, no crash, no hang."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neol
from neol.cli.main import main
from neol.config.sections import PlasticityConfig
from neol.deploy import network_json
from neol.envs.registry import find
from neol.errors import LONGEST, NeolError
from neol.figures.curve import draw_curve
from neol.neat.genome import first_population
from neol.network.phenotype import compile_phenotypes
from neol.rollout import envpool_player, shards
from neol.rollout.core_pinning import CoreAssignment
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes, chunk_size
from neol.studies.plan import parse_plan
from neol.system import own_command, own_environment
from neol.training import run_folder
from neol.training.summary import read_summary, shown

TINY: dict[str, Any] = {
    "pop_size": 4, "elitism": 1, "generations": 1, "episodes": 1, "champion_trials": 1, "champion_episodes": 2,
    "max_steps": 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> neol.Run:
    return neol.train("cartpole", out=tmp_path_factory.mktemp("odd") / "run", **TINY)


def command(*words: Any, **how: Any) -> subprocess.CompletedProcess[bytes]:
    how = {"capture_output": True, "env": own_environment(), "timeout": 300, **how}
    return subprocess.run(own_command("neol", *map(str, words)), check=False, **how)


def refused(capsys: pytest.CaptureFixture[str], *words: Any) -> str:
    """The sentence."""
    assert main([str(w) for w in words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("neol: ") and said.count("\n") == 1 and len(said) < LONGEST + 20
    return said


# -- the command line


def test_a_target_that_is_always_reached_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = refused(capsys, "train", "cartpole", "--out", tmp_path / "r", "--fitness-target=-inf")
    assert "fitness_target = -inf is not allowed" in said and not (tmp_path / "r").exists()


def test_cores_are_not_judged_by_a_rollout_without_steps() -> None:
    cores = CoreAssignment(1)
    cores._held = (0,)
    cores.judge(0.0, [], [])


@pytest.mark.parametrize(
    "words",
    [["train", "cartpole", "--seed=--"], ["evaluate", "x", "--episodes=--"], ["baseline", "ppo", "--threads=--", "x"],
     ["study", "run", "x", "--jobs=--"], ["regret", "synthetic", "--rounds=--"], ["check", "x", "--steps=--"]],
)  # fmt: skip
def test_two_dashes_are_no_value(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "'--' is not allowed as the value of" in refused(capsys, *words)


@pytest.mark.parametrize("option", ["--out", "--config"])
def test_an_empty_path_is_not_the_current_folder(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "must be a path" in refused(capsys, "train", "cartpole", option, "")
    assert not list(tmp_path.iterdir())


def test_text_that_no_file_can_hold_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (["--ray-address", "\udcff"], ["--env-kwargs", "a=\udcff"], ["--activation-options", "\udcff"]):
        refused(capsys, "train", "cartpole", "--out", tmp_path / "r", *words)
    assert not (tmp_path / "r").exists()


def test_a_thousand_workers_are_refused_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["train", "cartpole", "--engine", "gymnasium", "--workers", "1_000", "--out", tmp_path / "r", "--quiet"]
    assert "workers = 1000 is not allowed; on this machine of" in refused(capsys, *words)
    assert not (tmp_path / "r").exists()


def test_a_sentence_is_cut_where_it_is_long_and_has_no_control_characters() -> None:
    error = NeolError("a" * 5000 + "\x1b[31m\n" + "z" * 300)
    assert len(error.sentence) <= LONGEST and error.sentence.endswith("zzz") and "\x1b" not in error.sentence


def test_a_path_that_is_not_utf8_is_printed_as_it_is(run: neol.Run, tmp_path: Path) -> None:
    out = os.fsencode(tmp_path) + b"/\xff.json"
    done = subprocess.run(
        [*own_command("neol", "export", str(run.path), "--out"), out],
        capture_output=True,
        env={**own_environment(), "PYTHONIOENCODING": "utf-8:strict"},  # as in a locale other than C
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, out + b"\n", b"")


def test_a_run_whose_standard_error_is_closed_goes_to_its_end(tmp_path: Path) -> None:
    words = [f"--{k.replace('_', '-')}={v}" for k, v in TINY.items()]
    line = " ".join(
        own_command("neol", "train", "cartpole", "--engine", "gymnasium", "--workers", "1", "--out", "r", *words)
    )
    done = subprocess.run(
        ["sh", "-c", f"{line} 2>&-"], cwd=tmp_path, capture_output=True, env=own_environment(), check=False
    )
    assert done.returncode == 0 and b"held-out return" in done.stdout
    assert (tmp_path / "r" / run_folder.SUMMARY).exists()
    wrong = subprocess.run(["sh", "-c", f"{line} --seed x 2>&-"], cwd=tmp_path, capture_output=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, b"")


# -- calls from Python


@pytest.mark.parametrize(
    "call",
    [
        lambda: neol.load(5),  # type: ignore[arg-type]
        lambda: neol.load(""),
        lambda: neol.Study(None),  # type: ignore[arg-type]
        lambda: neol.train("cartpole", out=5),  # type: ignore[arg-type]
        lambda: neol.train("cartpole", out=""),
        lambda: neol.train("cartpole", callback=5),  # type: ignore[arg-type]
        lambda: neol.train("cartpole", observers=5),  # type: ignore[arg-type]
        lambda: neol.train("cartpole", observers=[5]),  # type: ignore[list-item]
        lambda: neol.train("cartpole", config=neol.Config(), preset="paper"),
        lambda: neol.train("cartpole", config=neol.Config(), neat_config="x.ini"),
        lambda: neol.evaluate(5),  # type: ignore[arg-type]
        lambda: neol.PlasticNetwork.from_json(5),  # type: ignore[arg-type]
        lambda: neol.configure("cartpole", config_file=5),  # type: ignore[arg-type]
    ],
)
def test_a_nonsense_argument_is_a_sentence(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NeolError):
        call()
    assert not list(tmp_path.iterdir())


def test_a_study_refuses_a_loop_of_somebodys_program_when_it_is_read() -> None:
    text = '[study]\ntitle = "t"\ntasks = ["cartpole"]\n[[arm]]\nname = "a"\nouter = "python:Mine"\n'
    with pytest.raises(NeolError, match="outer = 'python:Mine' is not allowed; a study runs the loops that NEOL has"):
        parse_plan(text)


def test_a_baselines_folder_is_told_from_a_runs(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / run_folder.CONFIG).write_text('[baseline]\nalgorithm = "ppo"\n')
    with pytest.raises(NeolError, match="is a baseline's run, of `neol baseline`, which goes on with it"):
        neol.train(out=tmp_path / "b", resume=True)


# -- files that are none


@pytest.mark.parametrize(
    "words", [["evaluate"], ["draw"], ["export"], ["train", "cartpole", "--config"], ["study", "run"]]
)
@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero"])
def test_a_device_is_not_read_for_ever(words: list[str], device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not a regular file" in refused(capsys, *words, device)


@pytest.mark.parametrize("name", [run_folder.CONFIG, run_folder.CHAMPION, run_folder.CHECKPOINT])
def test_a_pipe_in_a_runs_folder_is_not_waited_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = neol.train("cartpole", out=tmp_path / "r", **TINY).path
    (path / name).unlink()
    os.mkfifo(path / name)
    if name == run_folder.CHAMPION:
        refused(capsys, "evaluate", path)
    else:
        refused(capsys, "train", "--out", path, "--resume", "--generations", 2, "--quiet")
    assert stat.S_ISFIFO((path / name).stat().st_mode)


def test_a_network_of_many_nodes_with_one_twice_is_refused_quickly(run: neol.Run) -> None:
    document = json.loads(run.champion_path.read_text())
    node = next(n for n in document["nodes"] if n["type"] == "output")
    document["nodes"] += [{**node, "id": i, "type": "hidden"} for i in [*range(10, 50_010), 50_009]]
    began = time.process_time()
    with pytest.raises(NeolError, match="has node 50009 twice"):
        neol.PlasticNetwork.from_json(document)
    assert time.process_time() - began < 10.0


@pytest.mark.parametrize("column", ["env_steps", "best_fitness", "species"])
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e308", "-1e308", "9" * 30, "9" * 5000])
def test_odd_numbers_in_a_history_are_left_out_of_the_drawing_or_refused(
    column: str, value: str, run: neol.Run, tmp_path: Path
) -> None:
    lines = (run.path / run_folder.HISTORY).read_text().splitlines()
    at = lines[0].split(",").index(column)
    row = lines[1].split(",")
    row[at] = value
    (tmp_path / "h.csv").write_text("\n".join([lines[0], ",".join(row), lines[1], ""]))
    try:
        draw_curve(run_folder.read_table(tmp_path / "h.csv"), tmp_path / "c.svg")
    except NeolError:
        assert not (tmp_path / "c.svg").exists()


def test_odd_names_are_drawn(run: neol.Run, tmp_path: Path) -> None:
    document = json.loads(run.champion_path.read_text())
    document["interface"]["inputs"] = ["$\\frac{$", "x" * 5000, "\x00\x07<b>&", "a\nb"]
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert main(["draw", str(tmp_path / "c.json")]) == 0
    text = (tmp_path / "c.svg").read_text()
    assert "\x07" not in text and "x" * 100 not in text and "&lt;b&gt;&amp;" in text


@pytest.mark.parametrize(
    "change",
    [{"champion_return_ci95": 5}, {"champion_return_mean": "x"}, {"events": []}, {"task": None}, {"generations": 1.5},
     {"champion_nodes": None}],
)  # fmt: skip
def test_a_summary_of_other_types_is_refused(change: Any, run: neol.Run, tmp_path: Path) -> None:
    stored = json.loads((run.path / run_folder.SUMMARY).read_text())
    stored.pop("parameters")  # as those of before it was written
    (tmp_path / run_folder.SUMMARY).write_text(json.dumps({**stored, **change}))
    with pytest.raises(NeolError, match=f"is not a run's summary: {next(iter(change))}"):
        read_summary(tmp_path)


def test_returns_that_are_not_finite_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rich.py").unlink(missing_ok=True)
    (tmp_path / "huge.py").write_text(
        "import gymnasium\nclass Env(gymnasium.Wrapper):\n    def __init__(self):\n"
        "        super().__init__(gymnasium.make('CartPole-v1'))\n"
        "    def step(self, a):\n        o, r, *rest = self.env.step(a)\n        return o, 8e306, *rest\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = [f"--{k.replace('_', '-')}={v}" for k, v in {**TINY, "workers": 1}.items()]
    assert main(["train", "huge:Env", "--out", str(tmp_path / "r"), "--quiet", *words]) == 0
    assert "not finite" in capsys.readouterr().out
    assert [shown(v) for v in (None, math.inf, 1e308, 12.34)] == ["not finite", "not finite", "1e+308", "12.3"]


# -- environments that end or stop the process


@pytest.mark.parametrize(
    ("body", "why"), [("__import__('os')._exit(0)", "ended its process with exit code 0"),
                      ("__import__('os').kill(__import__('os').getpid(), 9)", "signal 9"),
                      ("__import__('time').sleep(1000)", "took longer than 1 s")],
)  # fmt: skip
@pytest.mark.parametrize("where", ["reset", "step"])
def test_check_tells_of_an_environment_that_ends_or_stops_its_process(
    body: str, why: str, where: str, tmp_path: Path
) -> None:
    methods = {"reset": "self, **k", "step": "self, a"}
    (tmp_path / "bad.py").write_text(
        "import gymnasium\nclass Env(gymnasium.Wrapper):\n    def __init__(self):\n"
        f"        super().__init__(gymnasium.make('CartPole-v1'))\n    def {where}({methods[where]}):\n        {body}\n"
    )
    done = command("check", "bad:Env", "--step-timeout", 1, cwd=tmp_path)
    assert done.returncode == 1 and why in done.stdout.decode() and b"Traceback" not in done.stderr
    assert "cannot be trained on" in done.stdout.decode()


# -- deployment


def deployed(**settings: Any) -> neol.PlasticNetwork:
    task = find("cartpole")
    genomes, _ = first_population(neol.Config().neat.__class__(pop_size=4), 4, 2, 3)
    document = network_json.to_document(compile_phenotypes(genomes, 4, 2), genomes, 0, False)
    lesson = PlasticityConfig(rule="hebb", lr=0.1, reward_scale=1.0, trace_decay=0.9)
    assert task.n_inputs == 4
    return neol.PlasticNetwork.from_json({**document, "plasticity": {**vars(lesson), **settings}})


@pytest.mark.parametrize("credit", ["same-step", "next-step"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
@pytest.mark.parametrize("rule", ["hebb", "oja", "bcm"])
def test_an_observation_that_is_not_finite_does_not_end_learning(rule: str, bad: float, credit: str) -> None:
    net = deployed(reward_credit=credit, rule=rule, weight_limit=10.0)
    rng = np.random.default_rng(0)

    def live(steps: int) -> None:
        for _ in range(steps):
            net.activate(rng.normal(size=4))
            net.reward(0.01)

    live(10)
    with pytest.warns(RuntimeWarning, match="not finite"):
        net.activate([1.0, bad, 0.5, 0.1])
    with pytest.warns(RuntimeWarning, match="a reward is not finite"):
        net.reward(math.nan)
    assert all(np.isfinite(a).all() for a in net._slots)
    before = net.weights
    live(100)
    assert all(np.isfinite(a).all() for a in net._slots)
    if bad != 1e308:
        assert net.weights != before


@pytest.mark.parametrize("change", [{"genome": np.array([0, 7], np.int32)}, {"genome": np.array([0, -1], np.int32)},
                                    {"weight": 1}, {"value": "f4"}, {"trace": "read-only"}])  # fmt: skip
def test_a_state_that_was_altered_is_refused(change: dict[str, Any]) -> None:
    net = deployed()
    _, state = net.predict(np.zeros((2, 4)))
    net.predict(np.zeros((2, 4)), state, np.zeros(2, bool))
    for name, value in change.items():
        array = getattr(state, name)
        if isinstance(value, str) and value == "read-only":
            array = array.copy()
            array.flags.writeable = False
        elif isinstance(value, str):
            array = array.astype(value)
        else:
            array = value
        with pytest.raises(NeolError, match="this state is not allowed"):
            net.predict(np.zeros((2, 4)), state._replace(**{name: array}), np.zeros(2, bool))


# -- memory


@pytest.mark.parametrize("task", ["cartpole", "hopper"])
def test_no_more_environments_are_alive_than_a_chunk_however_many_episodes_a_genome_has(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = envpool_player.make_envpool

    def counted(task: Any, seeds: np.ndarray, *rest: Any) -> Any:
        made.append(len(seeds))
        return make(task, seeds, *rest)

    monkeypatch.setattr(envpool_player, "make_envpool", counted)
    found = find(task)
    genomes, _ = first_population(neol.Config().neat.__class__(pop_size=2), found.n_inputs, found.n_outputs, 3)
    networks = compile_phenotypes(genomes, found.n_inputs, found.n_outputs)
    returns = []
    for chunk in (512, 40):
        monkeypatch.setattr(shards, "CHUNK", chunk)
        engine = envpool_player.EnvPoolEngine(found, 5, 1)
        which = Episodes(0, 5, 0, 100, common=True)
        returns.append(engine.run(networks, life_of(found, PlasticityConfig()), which).returns)
        engine.close()
    assert max(made[1:]) <= 40 < max(made[:1]) and np.array_equal(*returns)
    assert (chunk_size(7), chunk_size(40), chunk_size(100)) == (35, 40, 40)


# -- where no cache can be written


def test_without_a_folder_for_its_cache_a_kernel_is_compiled_all_the_same(tmp_path: Path) -> None:
    code = "from neol.jit import kernel\n@kernel\ndef twice(x):\n    return 2 * x\nprint(twice(21))\n"
    (tmp_path / "own.py").write_text(code)
    program = (
        "import numba.core.caching as c\nc.CacheImpl._locator_classes = []\nimport runpy; runpy.run_path('own.py')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=own_environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
