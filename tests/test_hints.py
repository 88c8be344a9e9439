"""Hints that are near in meaning: what other libraries call a setting is answered with our name for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import is_one_sentence, neol_

import neol
from neol.cli import main as cli
from neol.cli.options import Parser
from neol.config.schema import ARGUMENTS, Config, fields
from neol.errors import NeolError, closest, nearest
from neol.studies.plan import parse_plan
from neol.synonyms import NOTES, SYNONYMS

MEANT = {  # what people write for `neol train`: what it says
    "--learning-rate": "--lr", "--population": "--pop-size", "--popsize": "--pop-size",
    "--timesteps": "--max-env-steps", "--steps": "--max-env-steps", "--total-timesteps": "--max-env-steps",
    "--num-workers": "--workers", "--jobs": "--workers", "--n-jobs": "--workers", "--env": "TASK",
    "--epochs": "--generations", "--output": "--out",
    "--dir": "--out", "--log-dir": "--out", "--gpu": "--workers", "--device": "--workers",
    "--episodes-per-genome": "--episodes", "--verbose": "--quiet", "--max-episode-steps": "--max-steps",
    "--random-state": "--seed", "--learning-rte": "--lr", "--pop-sise": "--pop-size",
}  # fmt: skip


@pytest.mark.parametrize("said", MEANT)
def test_the_command_line_knows_what_an_option_is_called_elsewhere(said: str, tmp_path: Path) -> None:
    done = neol_("train", "cartpole", "--out", tmp_path / "run", said, "3")
    assert is_one_sentence(done, done.code), done
    assert f"unknown option '{said}'; " in done.err
    assert f"did you mean '{MEANT[said]}'?" in done.err
    assert not list(tmp_path.iterdir())


def test_a_hint_is_an_option_of_the_command_that_was_called() -> None:
    assert "did you mean '--max-steps'?" in neol_("evaluate", "runs/mine", "--steps", "3").err
    needed = ("baseline", "ppo", "cartpole", "--max-env-steps", "9", "--out", "runs/ppo")
    assert "did you mean '--max-env-steps'?" in neol_(*needed, "--steps", "3").err
    assert "did you mean '--threads'?" in neol_("evaluate", "runs/mine", "--n-jobs", "3").err
    assert "did you mean '--jobs'?" in neol_("study", "run", "my.toml", "--workers", "3").err


def test_that_there_is_no_gpu_is_said() -> None:
    for name in ("gpu", "device", "cuda"):
        assert "NEOL runs on the CPU" in neol_("train", "cartpole", f"--{name}", "0").err


@pytest.mark.parametrize(
    ("said", "meant"),
    [("learning_rate", "lr"), ("population", "pop_size"), ("total_timesteps", "max_env_steps"), ("n_jobs", "workers"),
     ("env", "task"), ("log_dir", "out"), ("verbose", "progress"), ("max_episode_steps", "max_steps")],
)  # fmt: skip
def test_python_knows_them_too(said: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(NeolError, match=f"unknown setting '{said}'; .*did you mean '{meant}'"):
        neol.train("cartpole", out=tmp_path / "run", **{said: 1})
    assert not list(tmp_path.iterdir())


def test_toml_and_study_files_know_them_too() -> None:
    with pytest.raises(NeolError, match=r"unknown key 'eta' in \[plasticity\]; did you mean 'lr'\?"):
        Config.from_toml("[plasticity]\neta = 1")
    with pytest.raises(NeolError, match=r"in \[neat\]; did you mean 'lr'\? That belongs into \[plasticity\]"):
        Config.from_toml("[neat]\nlearning_rate = 1")
    with pytest.raises(NeolError, match=r"in \[run\]; it belongs into \[neat\]"):
        Config.from_toml("[run]\npop_size = 9")
    study = '[study]\ntasks = ["cartpole"]\n[budget]\ngenerations = 2\n[[arm]]\nname = "a"\nlearning_rate = 1\n'
    with pytest.raises(NeolError, match=r"arm 'a' has an unknown key 'learning_rate'; did you mean 'lr'\?"):
        parse_plan(study, "my.toml")


def options_of(parser: Parser) -> set[str]:
    """All options and arguments of a command and those below it, as settings are written."""
    found = set()
    for action in parser._actions:
        found |= {o.lstrip("-").replace("-", "_") for o in action.option_strings} | {str(action.metavar).lower()}
        for child in (getattr(action, "choices", None) or {}).values() if action.nargs == "A..." else ():
            found |= options_of(child)
    return found


def test_every_hint_of_the_table_is_a_name_that_exists() -> None:
    known = options_of(cli._parser()) | set(fields()) | set(ARGUMENTS)
    of_baselines = {"learning_rate"}
    assert {name for ours in SYNONYMS.values() for name in ours} <= known | of_baselines
    assert set(NOTES) <= set(SYNONYMS)


def test_a_hint_needs_its_name_to_be_valid_there() -> None:
    assert closest("learning_rate", ["hebb", "oja"]) == ("", "")
    assert nearest("device", ["hebb", "oja"]) == "Valid: hebb, oja."
    assert closest("--gpu", ["--workers"]) == ("--workers", "NEOL runs on the CPU; ")
