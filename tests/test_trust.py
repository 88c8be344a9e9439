"""What a file from somebody else names is not imported without the user's word, and only what may be an environment is
called."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import neol
from neol.cli.main import main
from neol.deploy.task_interface import to_document
from neol.envs.registry import find
from neol.envs.trust import check_trusted
from neol.errors import NeolError
from neol.report.report import make_report
from neol.studies.study import Study
from neol.system import own_environment
from neol.training.configure import configure

TINY: dict[str, Any] = {
    "pop_size": 4, "generations": 1, "episodes": 1, "champion_trials": 1, "champion_episodes": 2, "engine": "gymnasium",
    "workers": 1,
}  # fmt: skip
ARGUMENTS = [f"--{k.replace('_', '-')}={v}" for k, v in TINY.items()]
ENVIRONMENT = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("yes")
import gymnasium

class Env(gymnasium.Wrapper):
    def __init__(self, word=""):
        super().__init__(gymnasium.make("CartPole-v1"))

def make() -> gymnasium.Env:
    return Env()

def nothing() -> None:
    Path(__file__).with_name("called").write_text("yes")

class Thing:
    def __init__(self):
        nothing()

system = __import__("os").system
"""


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bool]]:
    """A module `somebodys` that leaves a trace when it is imported; whether it was."""
    (tmp_path / "somebodys.py").write_text(ENVIRONMENT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield (tmp_path / "imported").exists
    sys.modules.pop("somebodys", None)


def forget(tmp_path: Path) -> None:
    """As in a new process."""
    (tmp_path / "imported").unlink()
    del sys.modules["somebodys"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> neol.Run:
    return neol.train("cartpole", out=tmp_path_factory.mktemp("trust") / "run", **TINY)


@pytest.fixture
def champion(trained: neol.Run, tmp_path: Path) -> Path:
    """A champion.json of cartpole that names an environment of somebody else."""
    run = neol.load(shutil.copytree(trained.path, tmp_path / "theirs"))
    document = json.loads(run.champion_path.read_text())
    document["interface"]["task"] = "somebodys:Env"
    run.champion_path.write_text(json.dumps(document))
    return run.champion_path


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_a_champion_makes_nobody_import_the_environment_that_it_names(
    command: str, champion: Path, imported: Callable[[], bool], capsys: pytest.CaptureFixture[str]
) -> None:
    for run in (champion, champion.parent):
        assert main([command, str(run)]) == 2
        said = capsys.readouterr().err
        assert "would import the module 'somebodys'" in said and "--task, or --trust" in said and said.count("\n") == 1
    assert not imported()
    with pytest.raises(NeolError, match="give task, or trust=True if you trust it"):
        neol.evaluate(champion, episodes=1)
    assert not imported()


@pytest.mark.parametrize("word", [["--trust"], ["--task", "somebodys:Env"]])
def test_with_the_users_word_it_is_imported(word: list[str], champion: Path, imported: Callable[[], bool]) -> None:
    assert main(["evaluate", str(champion), "--episodes", "2", *word]) == 0
    assert imported()


def test_in_python_a_file_or_a_run_is_trusted_by_an_argument(champion: Path, imported: Callable[[], bool]) -> None:
    assert neol.evaluate(neol.load(champion.parent, trust=True), episodes=1).steps.all()
    assert neol.evaluate(neol.PlasticNetwork.from_json(champion, trust=True), episodes=1).steps.all()
    assert neol.evaluate(champion, episodes=1, trust=True).steps.all()
    with pytest.raises(NeolError, match="would import the module 'somebodys'"):
        neol.evaluate(neol.load(champion.parent), episodes=1)


def test_what_was_named_for_training_is_evaluated_without_another_word(imported: Callable[[], bool]) -> None:
    run = neol.train("somebodys:Env", out="mine", **TINY)
    assert imported()
    assert neol.evaluate(run.champion, episodes=1).steps.all()
    assert neol.evaluate(run, episodes=1).steps.all()


def test_a_runs_folder_or_a_file_of_settings_makes_nobody_import_its_environment(
    tmp_path: Path, imported: Callable[[], bool], capsys: pytest.CaptureFixture[str]
) -> None:
    neol.train("somebodys:Env", out="run", **TINY)
    forget(tmp_path)
    before = {f.name: f.read_bytes() for f in Path("run").iterdir()}
    more = ["--generations", "2", "--quiet"]
    assert main(["train", "--out", "run", "--resume", *more]) == 2
    assert main(["train", "--out", "new", "--config", "run/config.toml", *more]) == 2
    assert main(["refine", "run", "--out", "new", "--quiet"]) == 2
    assert main(["finetune", "run", "--out", "new", "--quiet"]) == 2
    with pytest.raises(NeolError, match="would import"):
        neol.refine(neol.load("run"), out="new")
    assert capsys.readouterr().err.count("would import the module 'somebodys'") == 4
    assert not imported() and not Path("new").exists()
    assert {f.name: f.read_bytes() for f in Path("run").iterdir()} == before
    assert main(["train", "somebodys:Env", "--out", "run", "--resume", *more]) == 0
    assert main(["train", "--out", "run", "--resume", "--trust", "--generations", "3", "--quiet"]) == 0
    assert main(["train", "--out", "new", "--config", "run/config.toml", "--trust", *more]) == 0
    assert main(["refine", "run", "--out", "refined", "--trust", "--max-env-steps", "100", "--quiet"]) == 0


def test_a_runs_folder_or_a_file_of_settings_joins_nobody_to_a_cluster(
    trained: neol.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray's answers are pickles: whoever sends them runs code here."""
    out, more = str(shutil.copytree(trained.path, tmp_path / "run")), ["--generations", "2", "--quiet"]
    config = tmp_path / "run" / "config.toml"
    text = config.read_text().replace('executor = "local"', 'executor = "ray"')
    config.write_text(text.replace('ray_address = ""', 'ray_address = "127.0.0.1:1"'))
    assert main(["train", "--out", out, "--resume", *more]) == 2
    assert main(["train", "--out", f"{out}2", "--config", str(config), *more]) == 2
    assert main(["refine", out, "--out", f"{out}2", "--quiet"]) == 2
    assert capsys.readouterr().err.count("names the Ray cluster at '127.0.0.1:1', whose answers run code here") == 3
    assert main(["train", "--out", out, "--resume", "--trust", *more]) == 2
    assert "no Ray cluster answers there" in capsys.readouterr().err


def test_arguments_of_a_file_are_plain_data_and_reach_gymnasiums_own_environments_alone() -> None:
    for name, arguments in (
        ("CartPole-v1", {"sutton_barto_reward": True}), ("FrozenLake-v1", {"map_name": "8x8", "desc": ["SF", "FG"]}),
        ("cartpole", {}), ("Hopper-v5", {"reset_noise_scale": 0.1}), ("python:made", {}),
    ):  # fmt: skip
        check_trusted(name, arguments, "a file", "--trust")
    for name, arguments, why in (
        ("os:system", {}, "import the module 'os'"),
        ("gymnasium:CartPole-v1", {}, "import the module 'gymnasium'"),
        ("Hopper-v5", {"xml_file": "/dev/zero"}, "xml_file = '/dev/zero'"),
        ("GymV26Environment-v0", {"env_id": "a"}, "call '"),
        ("FrozenLake-v1", {"desc": [{"a": "x:y"}]}, "desc"),
    ):  # fmt: skip
        with pytest.raises(NeolError, match="a file names the environment") as refused:
            check_trusted(name, arguments, "a file", "--trust")
        assert why in str(refused.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("os:system", "module 'os' is part of Python"),
        ("subprocess:run", "part of Python"),
        ("antigravity:v0", "part of Python"),
        ("builtins:eval", "part of Python"),
        ("somebodys:system", "it is system of Python's own module"),
        ("somebodys:nothing", "it returns None"),
        ("somebodys:Thing", "it is a class without reset and step"),
        ("somebodys:Path", "Python's own module 'pathlib"),
    ],
)
def test_what_cannot_be_an_environment_is_refused_before_it_is_called(
    name: str, why: str, imported: Callable[[], bool], tmp_path: Path
) -> None:
    with pytest.raises(NeolError, match=why):
        configure(name, env_kwargs={"command": f"touch {tmp_path}/called"} if name == "os:system" else {})
    assert not (tmp_path / "called").exists()
    assert "antigravity" not in sys.modules


def test_a_class_and_a_function_that_make_environments_are_called(imported: Callable[[], bool]) -> None:
    assert find("somebodys:Env").n_inputs == find("somebodys:make").n_inputs == 4


def test_reports_drawings_and_the_state_of_a_study_make_no_environment(finished_study: Path) -> None:
    """Neither Gymnasium nor EnvPool is as much as imported."""
    champion = finished_study / "champion.json"
    study = Study(finished_study)
    champion.write_text(json.dumps(next(filter(None, (study.champion(r.run) for r in study.rows)))))
    commands = [
        ["report", finished_study],
        ["study", "status", finished_study],
        ["study", "export", finished_study, "--csv"],
        ["draw", champion, "--out", champion.with_suffix(".svg")],
    ]
    program = f"""
import sys
from neol.cli.main import main
assert not any(main(words) for words in {[[str(w) for w in words] for words in commands]!r})
assert not {{"gymnasium", "envpool", "neol.envs.maze_env"}} & {{*sys.modules}}
"""
    done = subprocess.run([sys.executable, "-c", program], env=own_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = {p.name for p in (finished_study / "report" / "figures").iterdir()}
    assert {n.partition("-")[0] for n in figures} >= {"champion"} and not any("lifetime" in n for n in figures)


def test_a_report_with_lives_makes_no_environment_that_its_database_names(
    tmp_path: Path, imported: Callable[[], bool], finished_study: Path
) -> None:
    """Nor with arguments, nor for as many steps as the database says."""
    study = Study(finished_study)
    for interface, steps in (
        ({"task": "somebodys:Env"}, 40), ({"env_kwargs": {"sutton_barto_reward": True}}, 40), ({"task": ["x"]}, 40),
        ({}, 10**12), ({}, -1), ({}, "many"),
    ):  # fmt: skip
        with sqlite3.connect(study.database.path) as db:
            for run, text in db.execute("SELECT run, network FROM champions").fetchall():
                document = json.loads(text)
                document["interface"] = {**to_document(find("cartpole")), **interface}
                document["metadata"]["max_steps"] = steps
                db.execute("UPDATE champions SET network = ? WHERE run = ?", (json.dumps(document), run))
        page = make_report(Study(finished_study), tmp_path / "report", lives=True).read_text()
        assert ("No picture of a life" in page) == bool(interface)
    assert not imported()
