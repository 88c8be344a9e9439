"""The command line: help, every command on a real run, and bad input as one sentence with exit code 2."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

import neol
from neol.cli import main as cli
from neol.cli import options as cli_options
from neol.config.schema import Config, field_choices, field_help, field_type, fields, is_basic
from neol.envs.tasks import CHANGING_TASKS, PATTERN_TASKS, TASKS
from neol.errors import NeolError
from neol.training import run_folder
from neol.training import train as training
from neol.training.configure import configure

COMMANDS = (
    "train", "refine", "finetune", "check", "evaluate", "adapt", "replay", "live", "draw", "export", "study", "report",
    "baseline", "regret", "tasks",
)  # fmt: skip
TINY = (
    "--pop-size=10", "--generations=2", "--episodes=1", "--max-steps=40", "--threads=1", "--champion-candidates=2",
    "--champion-trials=1", "--champion-episodes=2",
)  # fmt: skip


class Done(NamedTuple):
    code: int
    out: str
    err: str


def neol_(*arguments: Any) -> Done:
    """`neol` with these arguments, in this process; an exception that gets out of it is a failure of the test."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main([str(a) for a in arguments])
        except SystemExit as e:  # argparse's --help and --version
            code = int(e.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def process(*arguments: Any, **how: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "neol", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def is_one_sentence(done: Any, code: int) -> bool:
    err = done.stderr if isinstance(done, subprocess.CompletedProcess) else done.err
    return code == 2 and err.startswith("neol: ") and err.endswith(".\n") and err.count("\n") == 1


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trained run that tests read; what they make goes elsewhere."""
    folder = tmp_path_factory.mktemp("cli") / "lander"
    assert neol_("train", "lunarlander", "--out", folder, "--reward-scale=0.05", "--quiet", *TINY).code == 0
    return folder


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    copy = tmp_path / "own"
    copy.mkdir()
    for file in run.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


# -- help, and what it costs -------------------------------------------------------------------------------------------


def test_help_names_every_command_and_no_command_is_help() -> None:
    shown = neol_("--help")
    assert shown.code == 0
    assert all(re.search(rf"^ +{name} ", shown.out, re.MULTILINE) for name in COMMANDS)
    assert neol_() == shown


def test_help_has_an_example_of_every_command_that_its_parser_takes() -> None:
    lines = [line.split() for line in neol_("--help").out.splitlines() if line.startswith("  neol ")]
    assert [words[1] for words in lines] == list(COMMANDS)
    parser = cli._parser()
    for words in lines:
        assert parser.parse_args(words[1:]).command == words[1]
        assert f"example: {' '.join(words)}" in neol_(words[1], "--help").out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    shown = neol_(command, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert f"usage: neol {command}" in shown.out


def test_every_setting_is_an_option_with_its_help_and_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_options, "WIDTH", 1000)
    monkeypatch.setenv("COLUMNS", "1000")  # no wrapping
    shown = " ".join(neol_("train", "--help-all").out.split())
    for name, default in Config().flat().items():
        if name == "task":
            continue
        value = (",".join(default) if isinstance(default, tuple) else str(default).lower()) or "none"
        words = r"\S+" if name != "env_kwargs" else r"KEY=VALUE \[KEY=VALUE \.\.\.\]"
        text = re.escape(" ".join(field_help()[name].split()))
        option = rf"--{cli_options.option_name(name)} {words} {text} \({re.escape(value)}\)"
        assert re.search(option, shown), name


def shown_options(*words: str) -> set[str]:
    """The options that a help text explains."""
    return set(re.findall(r"^  (?:-\w, )?--([\w-]+)", neol_(*words).out, re.MULTILINE))


def test_help_shows_the_options_that_matter_and_help_all_the_others() -> None:
    few, every = shown_options("train", "--help"), shown_options("train", "--help-all")
    basic = {cli_options.option_name(name) for name in fields() if is_basic(name)}
    settings = {cli_options.option_name(name) for name in fields()} - {"task"}
    assert few & settings == basic
    assert every >= settings | {"out", "resume", "preset", "config", "neat-config", "film", "quiet", "json"}
    assert 20 <= len(few) <= 31
    asked = "seed generations max-env-steps pop-size episodes max-steps rule lr inheritance engine env-kwargs workers"
    assert {*asked.split(), "out", "resume", "config", "help-all"} <= few
    hidden = len(every) - len(few)
    assert f"`neol train --help-all` shows {hidden} more options." in neol_("train", "--help").out
    assert "more options" not in neol_("train", "--help-all").out


def test_help_fits_80_columns_on_any_wider_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        for words in (["--help"], ["train", "--help-all"], *([name, "--help"] for name in COMMANDS)):
            assert max(map(len, neol_(*words).out.splitlines())) <= 80, words


def test_version() -> None:
    assert neol_("--version").out == f"neol {neol.__version__}\n"


HEAVY = ("numba", "envpool", "torch", "jax", "ray", "matplotlib", "gymnasium", "scipy", "rich")


LIGHT = (
    "import neol",
    "import neol; dir(neol); neol.Config(); neol.NeolError; neol.configure('cartpole').config",
    *(
        f"from neol.cli.main import main; main({argv})"
        for argv in (
            ["--help"], ["train", "--help"], ["train", "--help-all"], ["tasks"], [],
            ["train", "cartpole", "--rule", "heb"], ["train", "cartpole", "--polysize", "3"], ["check", "--help"],
        )
    ),
)  # fmt: skip


def test_help_and_mistakes_load_nothing_heavy() -> None:
    """One process for all, which is looked at after each."""
    script = (
        f"import sys\nfor code in {LIGHT}:\n    try:\n        exec(code)\n    except SystemExit:\n        pass\n"
        f"    print('\\nloaded:', code, [m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = [line for line in done.stdout.splitlines() if line.startswith("loaded: ")]
    assert found == [f"loaded: {code} []" for code in LIGHT]


def test_the_public_names_are_there() -> None:
    for name in (
        "train",
        "refine",
        "finetune",
        "check",
        "load",
        "evaluate",
        "replay",
        "PlasticNetwork",
        "Run",
        "Config",
        "NeolError",
    ):
        assert name in dir(neol)
        assert getattr(neol, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = neol.trian


# -- every command on a real run ---------------------------------------------------------------------------------------


def test_train_writes_the_run_and_tells_the_held_out_return(tmp_path: Path) -> None:
    done = neol_("train", "cartpole", "--out", tmp_path / "run", *TINY)
    summary = neol.load(tmp_path / "run").summary
    assert done.code == 0
    assert f"{summary.champion_return_mean:.1f}" in done.out
    assert f"{summary.best_fitness:.1f}" in done.out
    assert str(tmp_path / "run" / run_folder.CHAMPION) in done.out
    assert "gen 1  best" in done.err  # progress is not on standard output


def test_train_as_json_prints_the_summary_alone(tmp_path: Path) -> None:
    done = neol_("train", "cartpole", "--out", tmp_path / "run", "--json", "--quiet", *TINY)
    assert json.loads(done.out) == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert done.err == ""


def test_train_without_out_names_the_folder_after_task_rule_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert neol_("train", "cartpole", "--rule=oja", "--seed=7", "--quiet", *TINY).code == 0
    made = [p for p in (tmp_path / "runs").iterdir() if (p / run_folder.CHAMPION).is_file()]
    assert [p.name.startswith("cartpole-oja-7-") for p in made] == [True]  # and what differs from the defaults


def test_train_takes_options_over_files_over_presets(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[run]\ntask = "cartpole"\n[plasticity]\nlr = 0.125\nrule = "bcm"\n')
    options = ["--config", tmp_path / "mine.toml", "--preset", "paper", "--rule", "oja", "--elitism", "1"]
    assert neol_("train", "--out", tmp_path / "run", "--quiet", *options, *TINY).code == 0
    config = neol.load(tmp_path / "run").config
    assert (config.run.task, config.plasticity.rule, config.plasticity.lr) == ("cartpole", "oja", 0.125)
    assert (config.neat.conn_add_prob, config.neat.elitism, config.neat.weight_mutate_rate) == (0.5, 1, 0.05)


def test_boolean_options_need_no_value_and_take_one(tmp_path: Path) -> None:
    for i, (words, expected) in enumerate(
        (
            ([], True),
            (["--feed-forward", "false"], False),
            (["--feed-forward"], True),
            (["--feed-forward=FALSE"], False),
        )
    ):
        out = tmp_path / str(i)
        assert neol_("train", "cartpole", "--out", out, "--quiet", *TINY, "--generations=1", *words).code == 0
        assert neol.load(out).config.neat.feed_forward is expected


def test_train_with_film_leaves_video_drawing_and_curve(tmp_path: Path) -> None:
    done = neol_("train", "cartpole", "--out", tmp_path / "run", "--film", "--quiet", *TINY)
    assert done.code == 0, done.err
    for name in ("agent.mp4", "network.svg", "curve.svg"):
        assert (tmp_path / "run" / name).stat().st_size > 1000
        assert str(tmp_path / "run" / name) in done.out


def test_evaluate_is_reproducible_whatever_the_threads_and_its_json_parses(run: Path) -> None:
    first = neol_("evaluate", run, "--episodes", "5", "--seed", "3", "--json")
    again = neol_("evaluate", run / run_folder.CHAMPION, "--episodes", "5", "--seed", "3", "--json", "--threads", "1")
    assert (first.code, first.err) == (0, "")
    assert first == again
    result = json.loads(first.out)
    assert set(result) == {"on", "off"}
    assert (result["on"]["episodes"], result["on"]["plasticity"]) == (5, True)
    assert result["on"]["return_mean"] != result["off"]["return_mean"]
    other = json.loads(neol_("evaluate", run, "--episodes", "5", "--seed", "4", "--json").out)
    assert other["on"]["return_mean"] != result["on"]["return_mean"]


def test_evaluate_uses_the_max_steps_of_training_unless_told(run: Path) -> None:
    for options, most in (([], 40), (["--max-steps=7"], 7)):
        result = json.loads(neol_("evaluate", run, "--episodes=4", "--json", "--plasticity=on", *options).out)
        assert result["on"]["steps_mean"] == most


def test_evaluate_tells_what_the_library_measures(run: Path) -> None:
    done = neol_("evaluate", run, "--episodes", "6", "--plasticity", "off")
    expected = neol.evaluate(neol.load(run).champion, episodes=6, plasticity=False, max_steps=40)
    low, high = expected.ci95
    assert f"mean return {expected.mean:.1f}  (95 % CI {low:.1f} to {high:.1f}" in done.out
    assert done.out.count("\n") == 1


def test_replay_films_an_episode(run: Path, tmp_path: Path) -> None:
    before = tree(run)
    done = neol_("replay", run, "--out", tmp_path / "new" / "agent.gif", "--max-steps", "12")
    assert done.code == 0, done.err
    assert (tmp_path / "new" / "agent.gif").read_bytes()[:4] == b"GIF8"
    assert re.search(r"return -?\d+\.\d", done.out)
    assert tree(run) == before


def test_draw_makes_a_drawing_and_a_curve(own_run: Path, tmp_path: Path) -> None:
    assert neol_("draw", own_run).out.split() == [str(own_run / "network.svg"), str(own_run / "curve.svg")]
    drawing = ElementTree.parse(own_run / "network.svg")
    texts = "".join(drawing.getroot().itertext())
    assert all(name in texts for name in TASKS["lunarlander"].inputs)
    assert neol_("draw", own_run / run_folder.CHAMPION, "--out", tmp_path / "a.png").out == f"{tmp_path / 'a.png'}\n"
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_draw_takes_several_runs_and_champions(own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.json").write_bytes((own_run / run_folder.CHAMPION).read_bytes())
    done = neol_("draw", own_run, tmp_path / "copy.json")
    made = [own_run / "network.svg", own_run / "curve.svg", tmp_path / "copy.svg"]
    assert (done.code, done.out.split()) == (0, [str(p) for p in made])
    assert all(p.stat().st_size > 1000 for p in made)


def test_export_gives_the_champion_back(run: Path, tmp_path: Path) -> None:
    champion = json.loads((run / run_folder.CHAMPION).read_text())
    assert json.loads(neol_("export", run).out) == champion
    assert neol_("export", run, "--out", tmp_path / "net.json").out == f"{tmp_path / 'net.json'}\n"
    assert json.loads((tmp_path / "net.json").read_text()) == champion
    static = json.loads(neol_("export", run, "--static").out)
    assert static == {k: v for k, v in champion.items() if k not in ("plasticity", "interface")}


def test_tasks_are_listed(tmp_path: Path) -> None:
    listed = json.loads(neol_("tasks", "--json").out)
    assert list(TASKS) == ["cartpole", "lunarlander", "bipedalwalker", "hopper"]
    tasks = TASKS | CHANGING_TASKS | PATTERN_TASKS
    assert [t["name"] for t in listed] == list(tasks)
    assert all(len(t["inputs"]) == tasks[t["name"]].n_inputs for t in listed)
    assert all(t.id in neol_("tasks").out for t in tasks.values())


def test_a_reader_that_goes_away_is_no_traceback(run: Path) -> None:
    command = f"{sys.executable} -m neol export {run} | head -c 20"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == (run / run_folder.CHAMPION).read_text()[:20]
    assert done.stderr == ""


# -- bad input ---------------------------------------------------------------------------------------------------------


def bad_champion(run: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    document = json.loads((run / run_folder.CHAMPION).read_text())
    change(document)
    (tmp_path / "bad.json").write_text(json.dumps(document))
    return tmp_path / "bad.json"


def with_cycle(document: dict[str, Any]) -> None:
    node = next(n for n in document["nodes"] if n["id"] == 0)
    document["nodes"] += [{**node, "id": i, "type": "hidden"} for i in (501, 502)]
    pairs = ((501, 502), (502, 501), (502, 0))
    document["connections"] += [{"from": a, "to": b, "weight": 1.0, "enabled": True} for a, b in pairs]


def with_missing_node(document: dict[str, Any]) -> None:
    document["connections"].append({"from": 777, "to": 0, "weight": 1.0, "enabled": True})


def without_output(document: dict[str, Any]) -> None:
    document["nodes"] = [n for n in document["nodes"] if n["id"] != 1]


def toml(tmp_path: Path, text: str) -> Path:
    (tmp_path / "bad.toml").write_text(text)
    return tmp_path / "bad.toml"


def cut(own_run: Path, length: int) -> Path:
    file = own_run / run_folder.CHECKPOINT
    file.write_bytes(file.read_bytes()[:length])
    return own_run


def foreign(own_run: Path) -> Path:
    np.savez(own_run / run_folder.CHECKPOINT, anything=np.zeros(3))
    return own_run


Build = Callable[[Path, Path, Path], list[Any]]  # run, own_run, tmp_path -> arguments


def training_with(*words: Any) -> Build:
    return lambda run, own, tmp: ["train", "cartpole", "--out", tmp / "new", *words]


def config_file(content: str) -> Build:
    return lambda run, own, tmp: ["train", "cartpole", "--out", tmp / "new", "--config", toml(tmp, content)]


BAD: dict[str, tuple[Build, str]] = {
    "unknown task": (lambda r, o, t: ["train", "lunarlandr", "--out", t / "new"], "did you mean 'lunarlander'"),
    "unknown command": (lambda r, o, t: ["trian", "cartpole"], "'train'"),
    "unknown option": (training_with("--pop-sise", "3"), "did you mean '--pop-size'"),
    "unknown option of evaluate": (lambda r, o, t: ["evaluate", r, "--episode", "3"], "did you mean '--episodes'"),
    "an option by another library's name": (training_with("--learning-rate", "3"), "did you mean '--lr'"),
    "an option for a GPU": (training_with("--device", "cuda"), "NEOL runs on the CPU"),
    "a key by another library's name": (config_file("[plasticity]\nlearning_rate = 1"), "did you mean 'lr'?"),
    "a key by another name in another table": (
        config_file("[run]\npopulation = 1"), "did you mean 'pop_size'? That belongs into [neat].",
    ),
    "surplus argument": (training_with("hopper"), "hopper"),
    "missing value": (training_with("--lr"), "--lr"),
    "unknown rule": (training_with("--rule", "hebbian"), "did you mean 'hebb'"),
    "unknown preset": (training_with("--preset", "papr"), "did you mean 'paper'"),
    "unknown activation": (training_with("--activation-options", "tanh,sigmod"), "did you mean 'sigmoid'"),
    "unknown key": (config_file("[plasticity]\nrul = 'hebb'"), "did you mean 'rule'"),
    "key in the wrong table": (config_file("[run]\nlr = 1.0"), "it belongs into [plasticity]"),
    "unknown table": (config_file("[plastic]\nlr = 1.0"), "did you mean 'plasticity'"),
    "torn config file": (config_file("[run\nseed = 1"), "not valid TOML"),
    "deep config file": (config_file("a = " + "[" * 50_000), "bad.toml"),
    "missing config file": (training_with("--config", "/nowhere/mine.toml"), "/nowhere/mine.toml"),
    "missing neat-python file": (training_with("--neat-config", "/nowhere/mine.ini"), "/nowhere/mine.ini"),
    "negative population": (training_with("--pop-size", "-5"), "pop_size = -5"),
    "no population": (training_with("--pop-size", "0"), "pop_size = 0"),
    "negative generations": (training_with("--generations", "-1"), "generations = -1"),
    "no episodes": (training_with("--episodes", "0"), "episodes = 0"),
    "negative threads": (training_with("--threads", "-1"), "threads = -1"),
    "negative seed": (training_with("--seed", "-1"), "seed = -1"),
    "half a genome": (training_with("--pop-size", "10.5"), "whole number"),
    "population smaller than two species' elites": (training_with("--pop-size", "7", "--elitism", "4"), "at least 8"),
    "lr nan": (training_with("--lr", "nan"), "lr = nan"),
    "lr inf": (training_with("--lr", "inf"), "lr = inf"),
    "lr a word": (training_with("--lr", "fast"), "lr = 'fast'"),
    "probability above 1": (training_with("--conn-add-prob", "1.5"), "conn_add_prob = 1.5"),
    "limits the wrong way round": (training_with("--weight-min-value", "31"), "weight_max_value"),
    "weight mutation": (training_with("--weight-mutation", "2"), "weight_mutation = '2'"),
    "a boolean": (training_with("--feed-forward", "perhaps"), "true or false"),
    "no task": (lambda r, o, t: ["train", "--out", t / "new"], "cartpole"),
    "neat-python file of another size": (
        lambda r, o, t: [
            "train", "cartpole", "--out", t / "new", "--neat-config",
            Path(__file__).parent / "data" / "neat" / "authors-plastic.ini",
        ],
        "num_inputs",
    ),
    "out already holds a run": (lambda r, o, t: ["train", "lunarlander", "--out", o], "already holds a run"),
    "resume of another task": (lambda r, o, t: ["train", "cartpole", "--out", o, "--resume"], "task = cartpole"),
    "resume with another lr": (lambda r, o, t: ["train", "--out", o, "--resume", "--lr=9"], "lr = 9.0"),
    "truncated checkpoint": (lambda r, o, t: ["train", "--out", cut(o, 3000), "--resume"], "checkpoint.npz"),
    "truncated checkpoint, more generations": (
        lambda r, o, t: ["train", "--out", cut(o, 3000), "--resume", "--generations=9"], "checkpoint.npz",
    ),
    "empty checkpoint": (lambda r, o, t: ["train", "--out", cut(o, 0), "--resume"], "checkpoint.npz"),
    "foreign checkpoint": (lambda r, o, t: ["train", "--out", foreign(o), "--resume"], "checkpoint.npz"),
    "out below a file": (lambda r, o, t: ["train", "cartpole", "--out", toml(t, "") / "run"], "Not a directory"),
    "out in /proc": (lambda r, o, t: ["train", "cartpole", "--out", "/proc/run"], "/proc/run"),
    "out with a name that is too long": (lambda r, o, t: ["train", "cartpole", "--out", t / ("x" * 300)], "too long"),
    "no such run": (lambda r, o, t: ["evaluate", t / "nothing"], "No such file"),
    "run with a name that is too long": (lambda r, o, t: ["evaluate", t / ("x" * 300)], "too long"),
    "a folder without a run": (lambda r, o, t: ["draw", t], "not a run's folder"),
    "champion with a cycle": (lambda r, o, t: ["evaluate", bad_champion(r, t, with_cycle)], "cycle"),
    "champion with a missing node": (lambda r, o, t: ["draw", bad_champion(r, t, with_missing_node)], "no node 777"),
    "champion without an output": (lambda r, o, t: ["export", bad_champion(r, t, without_output)], "no node 1"),
    "champion of another version": (
        lambda r, o, t: ["replay", bad_champion(r, t, lambda d: d.update(format_version="2.0"))], "format_version",
    ),
    "champion with another rule": (
        lambda r, o, t: ["evaluate", bad_champion(r, t, lambda d: d["plasticity"].update(rule="heb"))], "'hebb'",
    ),
    "champion with unknown plasticity": (
        lambda r, o, t: ["evaluate", bad_champion(r, t, lambda d: d["plasticity"].update(lrr=1))], "did you mean 'lr'",
    ),
    "champion that is no JSON": (lambda r, o, t: ["evaluate", toml(t, "{")], "not a network file"),
    "champion that does not fit": (lambda r, o, t: ["evaluate", r, "--task", "hopper"], "8 inputs and 2 outputs"),
    "evaluate no episodes": (lambda r, o, t: ["evaluate", r, "--episodes", "0"], "episodes = 0"),
    "evaluate negative seed": (lambda r, o, t: ["evaluate", r, "--seed", "-1"], "seed = -1"),
    "evaluate a seed beyond 64 bits": (lambda r, o, t: ["evaluate", r, "--seed", 2**70], "seed"),
    "evaluate negative max-steps": (lambda r, o, t: ["evaluate", r, "--max-steps", "-1"], "max_steps = -1"),
    "evaluate max-steps beyond 32 bits": (lambda r, o, t: ["evaluate", r, "--max-steps", 2**40], "max"),
    "evaluate another plasticity": (lambda r, o, t: ["evaluate", r, "--plasticity", "maybe"], "maybe"),
    "replay negative seed": (lambda r, o, t: ["replay", r, "--out", t / "a.gif", "--seed", "-1"], "seed = -1"),
    "replay into another format": (lambda r, o, t: ["replay", r, "--out", t / "a.avi"], ".mp4 or .gif"),
    "replay below a file": (lambda r, o, t: ["replay", r, "--out", toml(t, "") / "a.gif"], "cannot write"),
    "draw into another format": (lambda r, o, t: ["draw", r, "--out", t / "a.pdf", "--curve", t / "c.svg"], ".svg"),
    "draw in /proc": (lambda r, o, t: ["draw", r, "--out", "/proc/a.svg", "--curve", t / "c.svg"], "cannot write"),
    "draw several into one file": (lambda r, o, t: ["draw", r, o, "--out", t / "a.svg"], "--out is for one RUN, not 2"),
    "draw several of which one is none": (lambda r, o, t: ["draw", o, t / "nothing"], "No such file"),
    "draw several of which one is no run": (lambda r, o, t: ["draw", o, t], "not a run's folder"),
    "export as nothing": (lambda r, o, t: ["export", r, "--out", t / "champion"], "its end says the format"),
    "export C as Python": (lambda r, o, t: ["export", r, "--to", "c", "--out", t / "x.py"], "must end in .h"),
    "export to Rust": (lambda r, o, t: ["export", r, "--to", "rust"], "--to = 'rust' is not allowed"),
    "export in halves": (lambda r, o, t: ["export", r, "--to", "c", "--precision", "half"], "must be double or float"),
    "export JS in floats": (lambda r, o, t: ["export", r, "--to", "js", "--precision", "float"], "js has only one"),
    "export a bad name": (lambda r, o, t: ["export", r, "--to", "c", "--name", "2 fast"], "--name = '2 fast'"),
    "export named Python": (lambda r, o, t: ["export", r, "--to", "python", "--name", "x"], "only what is exported"),
    "export ONNX to the screen": (lambda r, o, t: ["export", r, "--to", "onnx"], "--out is missing"),
    "export static C": (lambda r, o, t: ["export", r, "--to", "c", "--static"], "--static is for json"),
    "export below a file": (lambda r, o, t: ["export", r, "--out", toml(t, "") / "a.json"], "cannot write"),
    "export over a folder": (lambda r, o, t: ["export", r, "--out", t], "cannot write"),
    "max-steps beyond 32 bits": (training_with("--max-steps", 2**40), "max_steps"),
    "a population beyond all memory": (training_with("--pop-size", 10**15), "pop_size"),
    "infinite offset": (training_with("--fitness-offset", "inf", *TINY), "fitness_offset"),
    "infinite floor": (training_with("--reward-floor", "inf", *TINY), "reward_floor = inf is not"),
    "a line break in a name": (lambda r, o, t: ["train", "cart\npole", "--out", t / "new"], "unknown task"),
    "a line break in a value": (training_with("--rule", "he\nbb"), "rule"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_exit_2_and_writes_nothing(
    what: str, run: Path, own_run: Path, tmp_path: Path
) -> None:
    build, says = BAD[what]
    arguments = build(run, own_run, tmp_path)
    before = tree(tmp_path), tree(run), sorted(tmp_path.iterdir())
    done = neol_(*arguments)
    assert is_one_sentence(done, done.code), done
    assert says in done.err
    assert done.out == ""
    assert (tree(tmp_path), tree(run), sorted(tmp_path.iterdir())) == before


def test_negative_threads_do_not_take_the_process_down(run: Path) -> None:
    """EnvPool aborts on them, so this is a process of its own."""
    done = process("evaluate", run, "--episodes", "2", "--threads", "-1")
    assert is_one_sentence(done, done.returncode), done


def test_train_without_a_task_is_refused_with_out_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["--out", "run"], []):
        done = neol_("train", *words, *TINY)
        assert is_one_sentence(done, done.code), (words, done)
        assert "needs a TASK" in done.err
    assert not list(tmp_path.iterdir())


def test_a_mistake_is_one_sentence_for_a_real_process_too(tmp_path: Path) -> None:
    done = process("train", "cartpole", "--rule", "hebbb", "--out", tmp_path / "run")
    assert is_one_sentence(done, done.returncode)
    assert (done.stdout, list(tmp_path.iterdir())) == ("", [])


# -- fuzz: any option, file or champion is accepted, or refused in one sentence ----------------------------------------


class AcceptedError(Exception):
    """Training would begin now."""


def accept(task: str | None, *, out: Any, resume: bool, progress: Any, preset: str, **rest: Any) -> None:
    """Stands in for training: all that it checks before it writes anything."""
    settings = {k: v for k, v in rest.items() if k not in ("config", "neat_config")}
    found = configure(task, preset, rest["config"], rest["neat_config"], **settings).config
    assert Config.from_toml(found.to_toml()) == found  # what is accepted can be stored
    raise AcceptedError


def accepted_or_refused(*arguments: Any) -> bool:
    """Whether training would begin; if not, it was one sentence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "train", accept)
        try:
            done = neol_(*arguments)
        except AcceptedError:
            return True
    assert is_one_sentence(done, done.code) or (done.code == 0 and "--help" in arguments), (arguments, done)
    return False


text = st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), max_size=12)
odd = st.sampled_from(
    ["nan", "inf", "-inf", "-0", "1e400", "1e-400", "1_0", " 5 ", "٣", "0x10", "None", "[]", "{}", "%s", "%(prog)s",
     "--", "-", "=", "\n", "true", "False", str(2**63), str(-(2**63)), str(10**40), "9" * 5000]
)  # fmt: skip
numbers = st.one_of(st.integers(-3, 200), st.integers(), st.floats()).map(str)
names = st.sampled_from([n for n in fields() if n != "task"])


def values_for(name: str) -> st.SearchStrategy[str]:
    choices = st.sampled_from(field_choices(name)) if field_choices(name) else st.nothing()
    return st.one_of(numbers, odd, text, choices, st.just("true") if field_type(name) is bool else st.nothing())


options = names.flatmap(lambda n: values_for(n).map(lambda v: f"--{cli_options.option_name(n)}={v}"))
misspelt = st.tuples(names, st.integers(0, 8)).map(lambda t: f"--{t[0][: t[1]]}{t[0][t[1] + 1 :]}=1")


@settings(max_examples=examples(100))
@given(st.lists(st.one_of(options, options, options, misspelt, text, odd), min_size=1, max_size=4))
@example(["--weight-mutation=0.5\n"])
@example(["--rule=a\nb"])
@example(["--help"])
def test_any_options_are_accepted_or_refused_in_one_sentence(words: list[str]) -> None:
    accepted_or_refused("train", "cartpole", "--out", "/proc/nowhere", *words)


@settings(max_examples=examples(60))
@given(st.lists(st.one_of(text, odd, st.sampled_from([*COMMANDS, "--json", "--out", "--seed"])), max_size=4))
def test_any_words_are_refused_in_one_sentence(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty), pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "train", accept)
        with contextlib.suppress(AcceptedError):
            done = neol_(*words)
            assert done.code == 0 or is_one_sentence(done, done.code), (words, done)


toml_values = st.recursive(
    st.one_of(
        st.integers(-(2**70), 2**70).map(str), st.floats().map(str), text.map(json.dumps), st.just("true"),
        st.sampled_from(["1979-05-27", "07:32:00", "nan", "inf", "-inf", "0x1F", "''", "{}", '"hebb"', "0.5"]),
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=4,
)  # fmt: skip
toml_lines = st.tuples(st.one_of(names, st.just("task"), st.from_regex(r"[a-z_]{1,8}", fullmatch=True)), toml_values)


@st.composite
def toml_files(draw: Any) -> str:
    """Some settings, mostly in their own table."""
    lines = draw(st.lists(toml_lines, max_size=3, unique_by=lambda line: line[0]))
    tables: dict[str, list[str]] = {}
    for name, value in lines:
        other = draw(st.sampled_from(["run", "neat", "plastic", ""])) if draw(st.integers(0, 9)) == 0 else "run"
        tables.setdefault(fields().get(name, other), []).append(f"{name} = {value}")
    return "\n".join(line for table, items in tables.items() for line in ([f"[{table}]"] if table else []) + items)


@st.composite
def damaged(draw: Any, whole: str) -> str:
    """The text with a piece cut out, another put in."""
    start = draw(st.integers(0, len(whole)))
    stop = draw(st.integers(start, min(len(whole), start + 20)))
    return whole[:start] + draw(text) + whole[stop:]


@settings(max_examples=examples(100))
@given(st.one_of(toml_files(), damaged(Config().to_toml()), text))
def test_any_config_file_is_accepted_or_refused_in_one_sentence(content: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.toml"
        file.write_text(content, encoding="utf-8", newline="")
        if accepted_or_refused("train", "--out", f"{folder}/run", "--config", file):
            tomllib.loads(content)


# Fields whose large values only cost time or memory are left as they are.
COSTLY = ("task", "pop_size", "generations", "episodes", "max_steps", "threads", "window", "champion_candidates",
          "champion_trials", "champion_episodes", "num_hidden", "tensorboard", "engine", "workers", "executor",
          "ray_address", "env_kwargs")  # fmt: skip


def plausible(name: str) -> st.SearchStrategy[Any]:
    kind = field_type(name)
    if field_choices(name) and kind is str:
        return st.sampled_from(field_choices(name))
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(0, 6)
    if kind is float:
        return st.one_of(
            st.floats(0, 1), st.floats(-50, 50), st.sampled_from([0.0, 1.0, np.inf, -np.inf, 1e300, 1e-300])
        )
    if name in ("change", "test_change"):
        return st.sampled_from(["action invert", "reward sign p=0.5", "observation noise=0.1 from=2..9", "none"])
    if kind is str:
        return st.sampled_from(["config", "off", "0.5", "0", "1", "mean", "last", "full", "4", "start"])
    return st.lists(st.sampled_from(field_choices(name)), min_size=1, max_size=3).map(",".join)


plausible_settings = st.lists(
    st.sampled_from([n for n in fields() if n not in COSTLY]), max_size=8, unique=True
).flatmap(lambda chosen: st.fixed_dictionaries({name: plausible(name) for name in chosen}))


@settings(max_examples=examples(50))
@given(plausible_settings)
@example({"fitness_offset": np.inf})
@example({"bias_min_value": np.inf, "bias_max_value": np.inf})
@example({"rule": "none", "weight_init_stdev": np.inf, "weight_max_value": np.inf})
@example({"sharing": "paper", "fitness_offset": -1e300})
def test_any_plausible_settings_train_or_are_refused_in_one_sentence(chosen: dict[str, Any]) -> None:
    words = [
        f"--{cli_options.option_name(k)}={str(v).lower() if isinstance(v, bool) else v}" for k, v in chosen.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = neol_("train", "cartpole", "--out", f"{folder}/run", "--quiet", *TINY, *words)
        assert done.code == 0 or is_one_sentence(done, done.code), done
        if done.code == 0:
            assert neol_("evaluate", f"{folder}/run", "--episodes=1", "--threads=1").code == 0
        else:
            assert "extinction" in done.err or not list(Path(folder).iterdir())


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), text, st.sampled_from([0, 1, -1, -9])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(text, inner, max_size=2)),
    max_leaves=3,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value, as the keys that lead to it."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for k, v in below for p in places(v, (*path, k)))]


CHAMPION_LIKE: dict[str, Any] = {
    "format_version": "1.0",
    "network_type": "feedforward",
    "metadata": {"generator": "neol", "task": "cartpole", "max_steps": 20},
    "topology": {"num_inputs": 4, "num_outputs": 2, "input_keys": [-1, -2, -3, -4], "output_keys": [0, 1]},
    "nodes": [
        {"id": i, "type": kind, "activation": {"name": "tanh", "custom": False},
         "aggregation": {"name": "sum", "custom": False}, "bias": 0.5, "response": 1.0}
        for i, kind in ((7, "hidden"), (0, "output"), (1, "output"), (-1, "input"))
    ],
    "connections": [
        {"from": a, "to": b, "weight": 0.5, "enabled": True} for a, b in ((-1, 7), (-4, 7), (7, 0), (7, 1), (-2, 1))
    ],
    "plasticity": {"rule": "hebb", "lr": 0.25, "reward_scale": 0.01, "weight_limit": None, "inheritance": "darwinian"},
    "interface": {"task": "cartpole", "env_id": "CartPole-v1", "inputs": ["x", "v", "a", "w"], "outputs": ["l", "r"],
                  "action": {"kind": "argmax"}},
}  # fmt: skip


@st.composite
def champions(draw: Any) -> Any:
    """A champion.json in which up to three places are replaced, removed or doubled."""
    document: Any = json.loads(json.dumps(CHAMPION_LIKE))
    for _ in range(draw(st.integers(1, 3))):
        *above, key = draw(st.sampled_from([p for p in places(document) if p]))
        parent = document
        for k in above:
            parent = parent[k]
        what = draw(st.sampled_from(["replace", "replace", "remove", "double", "graft"]))
        if what == "replace":
            parent[key] = draw(json_values)
        elif what == "remove":
            del parent[key]
        elif what == "double" and isinstance(parent, list):
            parent.append(parent[key])
        else:  # a value that stands elsewhere in it
            other = draw(st.sampled_from(places(CHAMPION_LIKE)))
            value: Any = CHAMPION_LIKE
            for k in other:
                value = value[k]
            parent[key] = json.loads(json.dumps(value))
    return document


def all_commands_on(content: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.json"
        file.write_text(content, encoding="utf-8", newline="")
        play = ["evaluate", file, "--episodes=1", "--threads=1"]
        for words in (
            [*play, "--max-steps=5"],
            play,
            ["export", file],
            *(["export", file, "--to", to] for to in ("c", "js", "python")),
        ):
            done = neol_(*words)
            assert done.code == 0 or is_one_sentence(done, done.code), (words[0], content, done)


@settings(max_examples=examples(100))
@given(champions().map(json.dumps))
@example(json.dumps(CHAMPION_LIKE | {"interface": None}))
@example(json.dumps(CHAMPION_LIKE | {"metadata": None}))
@example(json.dumps(CHAMPION_LIKE | {"metadata": {"max_steps": "many"}}))
@example(json.dumps(CHAMPION_LIKE | {"metadata": {"max_steps": -5}}))
@example(json.dumps(CHAMPION_LIKE | {"metadata": {"fitness": float("nan")}}))
def test_any_champion_is_played_and_exported_or_refused_in_one_sentence(content: str) -> None:
    all_commands_on(content)


@settings(max_examples=examples(40))
@given(st.one_of(damaged(json.dumps(CHAMPION_LIKE)), text))
def test_any_text_as_a_champion_is_refused_in_one_sentence(content: str) -> None:
    all_commands_on(content)


@settings(max_examples=examples(15))
@given(st.sampled_from(places(CHAMPION_LIKE["interface"])), json_values)
def test_any_interface_is_drawn_and_acts_or_is_refused(path: tuple[Any, ...], value: Any) -> None:
    document = json.loads(json.dumps(CHAMPION_LIKE))
    parent, key = document, "interface"
    for k in path:
        parent, key = parent[key], k
    parent[key] = value
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        done = neol_("draw", file, "--out", f"{folder}/net.svg")
        assert done.code == 0 or is_one_sentence(done, done.code), done
    with contextlib.suppress(NeolError):
        neol.PlasticNetwork.from_json(document).act(np.zeros(4))


def test_bounds_that_do_not_fit_the_outputs_are_refused() -> None:
    """The kernel does not check them: it would read past the outputs."""
    for low, high in (([-1.0] * 5, [1.0] * 5), ([-1.0], [1.0]), ([], []), ([float("nan")] * 2, [1.0] * 2)):
        action = {"kind": "bounded", "low": low, "high": high}
        document = CHAMPION_LIKE | {"interface": CHAMPION_LIKE["interface"] | {"action": action}}
        with pytest.raises(NeolError):
            neol.PlasticNetwork.from_json(document)


def test_the_fuzz_starts_from_a_champion_that_works(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    file.write_text(json.dumps(CHAMPION_LIKE))
    assert neol_("evaluate", file, "--episodes=2", "--threads=1").code == 0
    assert neol_("draw", file, "--out", tmp_path / "net.svg").code == 0
    assert {f.name for f in tmp_path.iterdir()} == {"net.json", "net.svg"}
