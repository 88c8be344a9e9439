"""`neol check`: what it tells about an environment, and which faults it finds in environments that strangers wrote."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from test_cli import is_one_sentence, neol_

import neol
from neol.envs.tasks import CHANGING_TASKS, PATTERN_TASKS, TASKS
from neol.errors import NeolError
from neol.rollout import check_environment
from neol.rollout.check_report import ERROR, NOTE, WARNING, CheckReport

ENVS = Path(__file__).parent / "envs"


@pytest.fixture(autouse=True)
def _environments_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ENVS)
    monkeypatch.setattr(check_environment, "PATIENCE", 1e6)  # on a busy machine, too, all seeds are tried


def checked(name: str, **how: Any) -> CheckReport:
    return neol.check(f"faulty:{name}", **{"seconds": 0.01, **how})


# -- what an environment is --------------------------------------------------------------------------------------------


def test_an_environment_without_faults_has_no_findings() -> None:
    report = checked("Fine")
    assert (report.findings, report.ok) == ((), True)
    assert (report.seeds, report.failed_seeds, report.steps) == (100, 0, 800)
    assert report.inputs == (("observation", "2 numbers, one input each", ("obs 0", "obs 1")),)
    assert report.outputs == (("action", "scaled to -1 .. 1", ("action 0",)),)
    assert (report.engine, report.engine_reason) == ("gymnasium", "EnvPool has only its own environments")
    assert (report.max_steps, report.declares_limit) == (1000, False)
    assert (report.render_modes, report.can_film) == ((), False)
    assert report.steps_per_second == report.gymnasium_steps_per_second > 0


def test_parts_of_dict_and_tuple_spaces_are_told_with_their_inputs_and_outputs() -> None:
    report = checked("Mixed")
    assert report.findings == ()
    assert [(p.part, p.names) for p in report.inputs] == [
        ("arm.0", ("arm.0 0", "arm.0 1")),
        ("arm.1", ("arm.1=1", "arm.1=2", "arm.1=3")),
    ]
    assert [p.how for p in report.inputs] == ["2 numbers, one input each", "one input per value"]
    assert [(p.part, p.how, p.names) for p in report.outputs] == [
        ("action 0", "0 to 2, whichever output is largest", ("0=0", "0=1", "0=2")),
        ("action 1", "0 to 1, whichever output is largest", ("1=0", "1=1")),
    ]
    assert "5 in 2 parts" in str(report)


@pytest.mark.parametrize("name", TASKS)
def test_our_own_tasks_can_be_trained_on_and_filmed(name: str) -> None:
    report = neol.check(TASKS[name].id, steps=300, seconds=0.01)
    assert report.ok and report.declares_limit and report.can_film
    assert (report.environment, report.max_steps, report.engine) == (name, TASKS[name].max_steps, "envpool")
    assert {f.what for f in report.findings} <= {"remembers"}  # BipedalWalker keeps its b2World
    assert report.steps_per_second > 0 < report.gymnasium_steps_per_second
    assert tuple(n for p in report.inputs for n in p.names) == TASKS[name].inputs
    assert tuple(n for p in report.outputs for n in p.names) == TASKS[name].actions


def test_arguments_and_engine_are_used() -> None:
    report = neol.check("Pendulum-v1", ["g=9.81"], "gymnasium", steps=50, seconds=0.01)
    assert (report.engine, report.engine_reason, report.max_steps) == ("gymnasium", "as asked", 200)
    assert report.ok
    wrong = neol.check("Pendulum-v1", {"gravity": 9.81}, seconds=0.01)
    assert [f.what for f in wrong.findings] == ["cannot-make"]
    assert "gravity" in wrong.findings[0].text


def test_a_function_of_this_program_is_checked_as_it_is_trained() -> None:
    import faulty

    report = neol.check(lambda: faulty.Fine(), seconds=0.01)
    assert report.ok and report.findings == ()
    assert report.environment.startswith("python:")


def test_steps_limit_what_is_tried() -> None:
    assert 150 <= checked("Endless", steps=150).steps < 150 + 20
    assert checked("Fine", steps=5).steps == 8  # an episode is given 20


def test_a_seed_that_fails_is_no_error_where_episodes_are_too_long_to_be_played_to_their_end() -> None:
    report = checked("LongAndRaisesOnSome", steps=1500)
    assert [(f.level, f.what) for f in report.findings] == [(WARNING, "raised")]


def test_a_fault_late_in_every_episode_is_an_error_although_most_are_cut_off_before_it() -> None:
    report = checked("RaisesLate", steps=5000)
    assert 0 < report.failed_seeds < report.seeds
    assert [(f.level, f.what) for f in report.findings] == [(ERROR, "raised")]


# -- faults ------------------------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[str, str, str]] = {  # the environment: level, what, a part of the sentence
    "OldStep": (ERROR, "old-api", "step returns 4 values, as Gym's did before 0.26"),
    "OldReset": (ERROR, "old-api", "reset returns a ndarray"),
    "NoSeed": (ERROR, "reset-takes-no-seed", "reset(self, *, seed=None, options=None)"),
    "IgnoresSeed": (WARNING, "not-reproducible", "reset ignores its seed"),
    "GlobalNumpy": (WARNING, "not-reproducible", "it draws from NumPy's global generator"),
    "GlobalPython": (WARNING, "not-reproducible", "it draws from Python's random module"),
    "Remembers": (NOTE, "remembers", "a reset leaves something"),
    "NanReward": (ERROR, "not-finite", "100 of 100 seeds: a reward is not finite: nan (step 3)"),
    "InfiniteSometimes": (WARNING, "not-finite", "an observation is not finite"),
    "RewardOfNothing": (ERROR, "reward", "a reward is not a number: None"),
    "RewardInArray": (WARNING, "reward-type", "a reward is a ndarray"),
    "RaisesOnSome": (WARNING, "raised", "5 of 100 seeds: reset raised RuntimeError: no start state was found"),
    "RaisesAlways": (ERROR, "raised", "100 of 100 seeds: step 1 raised ZeroDivisionError"),
    "WrongType": (WARNING, "dtype", "an observation is float64; its space says float32"),
    "WrongShape": (ERROR, "wrong-observation", "an observation of shape (3,); the space says (2,)"),
    "OutsideItsSpace": (WARNING, "outside-space", "an observation has 12; its space says -10 to 10"),
    "WrongInside": (WARNING, "outside-space", "an observation at arm.0 has 99; its space says -9 to 9"),
    "Endless": (WARNING, "never-ends", "no episode ended within 1,000 steps"),
    "Alike": (NOTE, "same-start", "every seed has the same first observation"),
    "Unscaled": (NOTE, "large-values", "--normalize-observations"),
    "Pixels": (WARNING, "many-inputs", "7,056 inputs (pixels?)"),
    "Words": (ERROR, "spaces", "Text observation space"),
    "CannotBeMade": (ERROR, "cannot-make", "there is no robot on /dev/ttyUSB0"),
    "CannotBeFilmed": (NOTE, "no-film", "render_mode='rgb_array'"),
    "FlagsAreNumbers": (WARNING, "flag-type", "terminated is a int, not a bool: 0"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_told_in_one_sentence(name: str) -> None:
    level, what, says = FAULTS[name]
    report = checked(name, steps=2500)
    found = [f for f in report.findings if f.what == what]
    assert [f.level for f in found] == [level], report.findings
    assert says in found[0].text
    assert "\n" not in found[0].text
    assert report.ok == (level != ERROR)
    expected = {what} | ({"same-start"} if name == "Pixels" else set())
    assert {f.what for f in report.findings} == expected, "no fault that is not there"


@pytest.mark.parametrize("name", [name for name, (level, _, _) in FAULTS.items() if level == ERROR])
def test_what_cannot_be_trained_on_is_refused_by_train_too(name: str, tmp_path: Path) -> None:
    with pytest.raises(NeolError):
        neol.train(
            f"faulty:{name}", out=tmp_path / "run", pop_size=4, generations=1, episodes=1, workers=1,
            champion_candidates=1, champion_trials=1, champion_episodes=2, episode_retries=0,
        )  # fmt: skip


# -- the command -------------------------------------------------------------------------------------------------------


def test_exit_codes_say_whether_it_can_be_trained_on() -> None:
    assert neol_("check", "faulty:Fine", "--steps", 50).code == 0
    assert neol_("check", "faulty:WrongType", "--steps", 50).code == 0
    assert neol_("check", "faulty:OldStep", "--steps", 50).code == 1
    assert neol_("check", "faulty:CannotBeMade").code == 1


@pytest.mark.parametrize("name", [*TASKS, *CHANGING_TASKS, *PATTERN_TASKS])
def test_every_task_of_ours_is_known_to_it(name: str) -> None:
    report = neol.check(name, steps=20, seconds=0.01)
    assert (report.environment, report.ok) == (name, True), report.findings


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cartpool"], "did you mean 'cartpole'"),
        (["nowhere:Env"], "no module 'nowhere'"),
        (["faulty:Nothing"], "module 'faulty' has no 'Nothing'"),
        (["faulty:Fine", "--engine", "envpool"], "use gymnasium"),
        (["faulty:Fine", "--steps", "0"], "steps = 0"),
        (["faulty:Fine", "--env-kwargs", "a"], "key=value"),
        (["faulty:Fine", "--timesteps", "9"], "did you mean '--steps'"),
        ([], "ENV"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(words: list[str], says: str) -> None:
    done = neol_("check", *words)
    assert is_one_sentence(done, done.code), done
    assert says in done.err and done.out == ""


def test_the_text_fits_80_columns_and_names_all_that_was_found() -> None:
    for name in ("faulty:Pixels", "faulty:Mixed", "bipedalwalker"):
        shown = neol_("check", name, "--steps", 200).out
        assert max(map(len, shown.splitlines())) <= 80
        for word in ("inputs", "outputs", "action", "time limit", "engine", "speed", "filming", "tried"):
            assert re.search(rf"^  {word} ", shown, re.MULTILINE), (name, word)


def test_json_is_the_report_alone_whatever_the_environment_prints(capfd: pytest.CaptureFixture[str]) -> None:
    done = neol_("check", "faulty:Talks", "--steps", 50, "--json")
    report = json.loads(done.out)
    assert (done.code, report["ok"], report["findings"]) == (0, True, [])
    assert report["inputs"][0]["names"] == ["obs 0", "obs 1"]
    assert math.isfinite(report["steps_per_second"])
    assert "hello" in capfd.readouterr().err  # it played in a process of its own
    broken = json.loads(neol_("check", "faulty:NanReward", "--steps", 50, "--json").out)
    assert (broken["ok"], broken["findings"][0]["what"]) == (False, "not-finite")


def test_an_environment_instead_of_what_makes_it_is_refused() -> None:
    import faulty

    with pytest.raises(NeolError, match="not a Fine; give its class instead"):
        neol.check(faulty.Fine())  # type: ignore[arg-type]
