"""neat-python's own reader is the oracle: what both read must be the same, what we refuse must say why."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import neat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neol.config.neat_python import SECTIONS, load_neat_config
from neol.config.schema import Config
from neol.config.sections import NeatConfig
from neol.errors import NeolError
from neol.training.configure import preset_settings

DATA = Path(__file__).parent / "data" / "neat"
ARMS = {"authors-plastic.ini": "hebb", "authors-neat.ini": "none"}
BASE = (DATA / "authors-plastic.ini").read_text(encoding="utf-8")
SECTION_OF = {key: section for section, keys in SECTIONS.items() for key in keys}
OPTIONAL = [key for keys in SECTIONS.values() for key, default in keys.items() if default is not None]
# Keys of neat-python that are checked, or read under another name, and so are not settings of ours.
NOT_SETTINGS = {"fitness_criterion", "fitness_threshold", "no_fitness_termination", "num_inputs", "num_outputs"}


def edited(**changes: str | None) -> str:
    """The example file with keys set anew, added to their section, or (None) taken out."""
    lines = []
    for line in BASE.splitlines():
        if line.split("=")[0].strip() not in changes:
            lines.append(line)
        if line.startswith("["):
            lines += [f"{k} = {v}" for k, v in changes.items() if v is not None and f"[{SECTION_OF[k]}]" == line]
    return "\n".join(lines) + "\n"


def load_text(tmp_path: Path, text: str, **sizes: int) -> dict[str, Any]:
    path = tmp_path / "neat.ini"
    path.write_text(text, encoding="utf-8")
    return load_neat_config(path, **sizes)


def oracle(path: Path) -> dict[str, Any]:
    """Every parameter of the file by its key, as neat-python's own reader gives it."""
    kinds = (neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet, neat.DefaultStagnation)
    config = neat.Config(*kinds, str(path))
    parts = (
        config,
        config.genome_config,
        config.species_set_config,
        config.stagnation_config,
        config.reproduction_config,
    )
    return {key: getattr(part, key) for part in parts for key in SECTION_OF if hasattr(part, key)}


def as_ours(key: str, value: Any) -> Any:
    """neat-python's spelling of a value -> ours."""
    words = {
        "enabled_default": {"1": "true", "yes": "true", "0": "false", "none": "random"},
        "initial_connection": {"full": "full_nodirect", "partial": "partial_nodirect", "fs_neat": "fs_neat_nohidden"},
    }
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str):
        return value
    value = value.lower()
    return words.get(key, {"none": "random", "normal": "gaussian"}).get(value, value)


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for key, value in theirs.items():
        if key not in NOT_SETTINGS and not key.startswith("time_constant_") and value is not None:
            assert ours[key] == as_ours(key, value), key
    assert ours["fitness_target"] == (math.inf if theirs["no_fitness_termination"] else theirs["fitness_threshold"])


@pytest.mark.parametrize("name", ARMS)
def test_a_file_gives_the_values_that_neat_python_reads(name):
    ours, theirs = load_neat_config(DATA / name, inputs=8, outputs=2), oracle(DATA / name)
    assert theirs.keys() == SECTION_OF.keys()
    assert_same(ours, theirs)


@pytest.mark.parametrize(("name", "rule"), ARMS.items())
def test_the_authors_files_are_the_paper_preset(name, rule):
    ours, preset = load_neat_config(DATA / name), preset_settings("paper", rule)
    of_neat = {key for key in preset if key in vars(NeatConfig())} - {"step_size_adaptation"}
    assert of_neat <= ours.keys()
    assert {key: ours[key] for key in of_neat} == {key: preset[key] for key in of_neat}


def test_every_neat_setting_comes_from_the_file_but_those_that_neat_python_lacks():
    ours = load_neat_config(DATA / "authors-plastic.ini")
    assert Config().replace(**ours).flat().items() >= ours.items()
    assert vars(NeatConfig()).keys() - ours.keys() == {"weight_mutation", "step_size_adaptation", "connection_fraction"}
    assert ours.keys() - vars(NeatConfig()).keys() == {"seed", "fitness_target"}


def test_the_example_file_has_every_key_of_neat_python(tmp_path):
    path = tmp_path / "saved.ini"
    kinds = (neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet, neat.DefaultStagnation)
    neat.Config(*kinds, str(DATA / "authors-plastic.ini")).save(str(path))
    saved = {line.split("=")[0].strip() for line in path.read_text().splitlines() if "=" in line}
    assert saved == SECTION_OF.keys() == {line.split("=")[0].strip() for line in BASE.splitlines() if "=" in line}
    assert load_neat_config(path) == load_neat_config(DATA / "authors-plastic.ini")


def test_an_absent_optional_key_has_neat_pythons_default(tmp_path):
    # neat-python declares a default for no_fitness_termination, and then asks for it all the same.
    absent = {key: None for key in OPTIONAL if key != "no_fitness_termination"}
    ours = load_text(tmp_path, edited(**absent))
    theirs = oracle(tmp_path / "neat.ini")
    assert "seed" not in ours and theirs["seed"] is None
    assert theirs["single_structural_mutation"] == "false"  # a text, so true to neat-python: its slip, not ours
    assert_same(ours, {**theirs, "single_structural_mutation": False})


def test_fitness_termination_is_on_when_the_file_does_not_say(tmp_path):
    assert load_text(tmp_path, edited(no_fitness_termination=None))["fitness_target"] == 300.0


@pytest.mark.parametrize("key", [key for key in SECTION_OF if key not in OPTIONAL])
def test_an_absent_required_key_is_an_error_as_in_neat_python(tmp_path, key):
    with pytest.raises(NeolError, match=rf"no '{key}' in \[{SECTION_OF[key]}\]"):
        load_text(tmp_path, edited(**{key: None}))
    if not key.endswith("_options"):  # neat-python notices those when it makes the first genome
        with pytest.raises(Exception, match=key):
            oracle(tmp_path / "neat.ini")


@pytest.mark.parametrize("section", SECTIONS)
def test_an_absent_section_is_an_error(tmp_path, section):
    text = edited(**dict.fromkeys(SECTIONS[section])).replace(f"[{section}]\n", "")
    with pytest.raises(NeolError, match=rf"no section \[{section}\]"):
        load_text(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "name", "fraction"),
    [
        ("full", "full_nodirect", None),
        ("fs_neat", "fs_neat_nohidden", None),
        ("fs_neat_hidden", "fs_neat_hidden", None),
        ("unconnected", "unconnected", None),
        ("partial 0.25", "partial_nodirect", 0.25),
        ("partial_direct 0.5", "partial_direct", 0.5),
        ("partial_nodirect 1", "partial_nodirect", 1.0),
    ],
)
def test_initial_connection_means_what_neat_python_does_with_it(tmp_path, text, name, fraction):
    ours = load_text(tmp_path, edited(initial_connection=text))
    assert (ours["initial_connection"], ours.get("connection_fraction")) == (name, fraction)
    assert_same(ours, oracle(tmp_path / "neat.ini"))


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("feed_forward", "FALSE", False),
        ("reset_on_extinction", "no", False),
        ("single_structural_mutation", "tRuE", True),
        ("structural_mutation_surer", "On", "true"),
        ("structural_mutation_surer", "0", "false"),
        ("enabled_default", "None", "random"),
        ("enabled_default", "no", "false"),
        ("activation_default", "none", "random"),
        ("weight_init_type", "Normal", "gaussian"),
        ("bias_init_type", "uniform", "uniform"),
        ("activation_options", "clamped tanh  relu", ("clamped", "tanh", "relu")),
        ("seed", "9007199254740993", 9007199254740993),
        ("weight_max_value", "inf", math.inf),
    ],
)
def test_a_value_is_read_in_neat_pythons_spelling(tmp_path, key, text, value):
    ours = load_text(tmp_path, edited(**{key: text}))
    assert ours[key] == value and type(ours[key]) is type(value)


@pytest.mark.parametrize("criterion", ["max", "min", "mean", "anything"])
def test_fitness_criterion_is_free_when_fitness_never_ends_the_run(tmp_path, criterion):
    ours = load_text(tmp_path, edited(fitness_criterion=criterion, no_fitness_termination="YES"))
    assert ours["fitness_target"] == math.inf


@pytest.mark.parametrize(
    "changes",
    [
        {"time_constant_init_mean": "0.5"},
        {"time_constant_replace_rate": "0.7"},
        {"time_constant_mutate_rate": "0.5"},  # steps of SD 0
        {"time_constant_mutate_power": "0.5"},  # never taken
        {"time_constant_init_type": "uniform"},
    ],
)
def test_time_constants_that_stay_equal_change_nothing(tmp_path, changes):
    assert load_text(tmp_path, edited(**changes)) == load_neat_config(DATA / "authors-plastic.ini")


def test_keys_are_read_in_any_case_and_percent_signs_as_they_are(tmp_path):
    ours = load_text(tmp_path, edited().replace("pop_size ", "Pop_Size ") + "# 100 %(nothing)s\n")
    assert ours["pop_size"] == 100


BAD_VALUES = [
    ("pop_size", "1", "at least 2"),
    ("pop_size", "abc", "a whole number"),
    ("pop_size", "100.0", "a whole number"),
    ("pop_size", "100 ; inline", "a whole number"),
    ("pop_size", "9" * 4000, "a whole number"),
    ("pop_size", "", "a whole number"),
    ("pop_size", "15", "elitism = 10"),  # two settings together
    ("seed", "-1", "at least 0"),
    ("seed", "", "a whole number"),
    ("fitness_threshold", "nan", "a number"),
    ("fitness_threshold", "50%", "a number"),
    ("weight_max_value", "%(pop_size)s", "a number"),
    ("no_fitness_termination", "maybe", "true or false"),
    ("feed_forward", "2", "true or false"),
    ("num_inputs", "0", "at least 1"),
    ("num_outputs", "two", "a whole number"),
    ("conn_add_prob", "1.5", "at least 0 and at most 1"),
    ("compatibility_threshold", "0", "above 0"),
    ("weight_min_value", "31", "at most weight_max_value"),
    ("weight_init_type", "cauchy", "gaussian, uniform"),
    ("enabled_default", "maybe", "true, false, random"),
    ("structural_mutation_surer", "maybe", "default, true, false"),
    ("species_fitness_func", "median2", "did you mean 'median'"),
    ("max_stagnation", "0", "at least 1"),
    ("elitism", "-1", "at least 0"),
    ("activation_options", "clamped tahn", "did you mean 'tanh'"),
    ("activation_options", "clamped,tanh", "Valid"),
    ("activation_options", "", "a list of names"),
    ("activation_default", "tanh", "activation_options has clamped"),
    ("aggregation_options", "sum avg", "Valid"),
    ("initial_connection", "ful_direct", "did you mean 'full_direct'"),
    ("initial_connection", "full 0.5", "Valid"),
    ("initial_connection", "partial", "a fraction from 0 to 1"),
    ("initial_connection", "partial_direct 1.5", "a fraction from 0 to 1"),
    ("initial_connection", "partial_direct 0.5 0.5", "a fraction from 0 to 1"),
    ("initial_connection", "partial_foo 0.5", "did you mean 'partial_"),
    ("time_constant_init_stdev", "0.1", "must be 0"),
    ("time_constant_init_mean", "11", "between time_constant_min_value"),
    ("time_constant_mutate_rate", "often", "a number"),
    ("time_constant_init_type", "cauchy", "gaussian or uniform"),
]


@pytest.mark.parametrize(("key", "text", "allowed"), BAD_VALUES)
def test_a_bad_value_names_section_key_value_and_what_is_allowed(tmp_path, key, text, allowed):
    with pytest.raises(NeolError) as e:
        load_text(tmp_path, edited(**{key: text}))
    message = str(e.value)
    assert f"[{SECTION_OF[key]}]: {key} = " in message and allowed in message and "\n" not in message
    assert text.split()[-1:] == [] or any(word[:60] in message for word in text.split())


def test_time_constants_that_mutate_are_an_error(tmp_path):
    text = edited(time_constant_mutate_rate="0.1", time_constant_mutate_power="0.1")
    with pytest.raises(NeolError, match=r"\[DefaultGenome\]: time_constant_mutate_rate = 0.1 .* must be 0"):
        load_text(tmp_path, text)


@pytest.mark.parametrize("criterion", ["min", "mean", "Max"])
def test_a_fitness_criterion_other_than_max_is_an_error(tmp_path, criterion):
    text = edited(fitness_criterion=criterion, no_fitness_termination="False")
    with pytest.raises(NeolError, match=rf"\[NEAT\]: fitness_criterion = '{criterion}' .* must be max"):
        load_text(tmp_path, text)


@pytest.mark.parametrize(("sizes", "key"), [({"inputs": 4}, "num_inputs = 8"), ({"outputs": 3}, "num_outputs = 2")])
def test_a_size_that_is_not_the_tasks_is_an_error(sizes, key):
    with pytest.raises(NeolError, match=rf"{key} .* the task has {next(iter(sizes.values()))}"):
        load_neat_config(DATA / "authors-plastic.ini", **sizes)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (BASE.replace("pop_size ", "pop_sise "), r"unknown key 'pop_sise' in \[NEAT\]; did you mean 'pop_size'"),
        (BASE.replace("conn_add_prob ", "con_add_prob "), r"'con_add_prob' .*; did you mean 'conn_add_prob'"),
        (BASE.replace("[NEAT]", "[NEAT]\nelitism = 2"), r"unknown key 'elitism' in \[NEAT\]"),
        (BASE.replace("[DefaultGenome]", "[DefaultGenom]"), r"unknown section \[DefaultGenom\]; did you mean"),
        (BASE + "[IZGenome]\n", r"unknown section \[IZGenome\]"),
        ("[DEFAULT]\nelitism = 2\n" + BASE, r"unknown section \[DEFAULT\]"),
        (BASE.replace("elitism  ", "ELITISM = 3\nelitism  "), "option 'elitism' .* already exists"),
        (BASE + "[NEAT]\n", "section 'NEAT' already exists"),
        ("pop_size = 3\n" + BASE, "no section headers"),
        (BASE + "just words\n", "parsing errors"),
        ("", "no section"),
    ],
)
def test_a_wrong_name_or_malformed_file_is_one_sentence(tmp_path, text, hint):
    with pytest.raises(NeolError, match=hint) as e:
        load_text(tmp_path, text)
    assert "\n" not in str(e.value) and "neat.ini" in str(e.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    latin = tmp_path / "latin.ini"
    latin.write_bytes(BASE.replace("authors", "auteurs récents").encode("latin-1"))
    bad = [(latin, "not UTF-8"), (tmp_path, "directory"), (tmp_path / "no.ini", "No such file"), ("a\0b", "null")]
    for path, reason in bad:
        with pytest.raises(NeolError, match=reason):
            load_neat_config(path)


POOL = ["0", "1", "-1", "0.3", "2", "inf", "-inf", "nan", "true", "Yes", "none", "random", "max", "median", "uniform",
        "normal", "clamped tanh", "sum max", "full", "partial 0.2", "fs_neat", "default", "1e400", "1_0",
        "%"]  # fmt: skip


@pytest.mark.parametrize("key", [key for key in SECTION_OF if not key.startswith("time_constant_")])
def test_what_is_accepted_is_what_neat_python_reads(tmp_path, key):
    wider = {"feed_forward", "single_structural_mutation"}  # neat-python takes only true and false there
    accepted = 0
    for text in POOL:
        try:
            ours = load_text(tmp_path, edited(**{key: text}))
        except NeolError:
            continue
        accepted += 1
        if not (key in wider and text.lower() not in ("true", "false")) and key != "fitness_criterion":
            assert_same(ours, oracle(tmp_path / "neat.ini"))
    assert accepted or key == "pop_size"  # the pool has no number above 2 * elitism


KEYS = st.sampled_from([*SECTION_OF, "unknown_key", "Elitism", ""])
VALUES = st.one_of(st.sampled_from(POOL), st.text(max_size=12), st.floats().map(str), st.integers().map(str))


@st.composite
def spoilt_files(draw: st.DrawFn) -> bytes:
    """The example file with lines set, doubled, dropped or invented, then cut and overwritten."""
    lines = BASE.splitlines()
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["set", "add", "drop", "text"])):
            case "set":
                lines[at] = lines[at].split("=")[0] + "= " + draw(VALUES)
            case "add":
                lines.insert(at, f"{draw(KEYS)} = {draw(VALUES)}")
            case "drop":
                del lines[at]
            case "text":
                lines.insert(at, draw(st.text(max_size=20)))
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        raw = raw[: draw(st.integers(0, len(raw)))]
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.binary(max_size=6)) + raw[at:]
    return raw


@settings(max_examples=500, deadline=None)
@given(raw=spoilt_files())
def test_any_file_gives_valid_settings_or_a_neol_error(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "spoilt.ini"
    path.write_bytes(raw)
    try:
        flat = load_neat_config(path)
    except NeolError as e:
        assert "spoilt.ini" in str(e)
    else:
        assert Config().replace(**flat).flat().items() >= flat.items()
