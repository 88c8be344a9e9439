"""Settings: every one is documented, checked, written and read back; every mistake is one sentence."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neol.config.checks import CHANGES
from neol.config.schema import Config, check_value, field_choices, field_help, field_type, fields, parse_toml
from neol.config.sections import (
    ACTIVATION_ID,
    ACTIVATIONS,
    AGGREGATION_ID,
    AGGREGATIONS,
    INITIAL_CONNECTIONS,
    NeatConfig,
)
from neol.envs.tasks import TASKS
from neol.errors import NeolError, nearest
from neol.training.configure import PRESETS, configure, preset_settings

FUZZ = settings(deadline=None)
SECTIONS = [f.name for f in dataclasses.fields(Config)]


def metadata(name: str) -> dict[str, Any]:
    section = type(getattr(Config(), fields()[name]))
    return dict(next(f.metadata for f in dataclasses.fields(section) if f.name == name))


# -- generated configurations


def value_of(name: str) -> st.SearchStrategy[Any]:
    """Values that this field allows."""
    kind, choices, allowed = field_type(name), field_choices(name), metadata(name)
    if name == "weight_mutation":
        return st.sampled_from(["config", "off"]) | st.floats(0, 1).map(repr)
    if name == "task":
        return st.sampled_from(sorted(TASKS)) | st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]))
    if name in CHANGES:
        return st.sampled_from([(), ("action invert p=0.5",), ("reward sign", "observation noise=0.1 from=2..9")])
    if name == "trial_weights":
        return st.sampled_from(["mean", "last"])
    if name == "env_kwargs":
        return st.sampled_from([(), ("a=1",), ("wind=true",)])
    if name == "topology":
        return st.sampled_from(["full", "16", "8,8"])
    if name == "start":
        return st.sampled_from(["", "runs/lander", "champion.json"])
    if name == "substrate":
        return st.sampled_from(["task", "own.toml"])
    if name == "substrate_hidden":
        return st.sampled_from(["none", "5x5", "4x1,2x3"])
    if name == "ray_address":
        return st.sampled_from(["", "auto", "10.0.0.1:6379"])
    if kind is tuple or (choices and kind is not str):
        return st.lists(st.sampled_from(choices), min_size=1, max_size=5).map(tuple)
    if choices:
        return st.sampled_from(choices)
    if kind is bool:
        return st.booleans()
    low, high = allowed.get("low", -math.inf), allowed.get("high", math.inf)
    if kind is int:
        return st.integers(int(low), int(min(high, 2**62)))
    bounds = {"min_value": None if math.isinf(low) else low, "max_value": None if math.isinf(high) else high}
    return st.floats(**bounds, exclude_min=allowed.get("open_low", False), allow_nan=False)


def belongs_together(flat: dict[str, Any]) -> dict[str, Any]:
    """The drawn values, changed where two of them exclude each other."""
    out = {**Config().flat(), **flat}
    for gene in ("weight", "bias", "response"):
        low, high = sorted((out[f"{gene}_min_value"], out[f"{gene}_max_value"]))
        low, high = min(low, 1e300), max(high, -1e300)  # a finite number lies between
        out |= {f"{gene}_min_value": low, f"{gene}_max_value": high}
    out["return_low"], out["return_high"] = sorted((out["return_low"], out["return_high"]))
    for gene in ("activation", "aggregation"):
        if out[f"{gene}_default"] != "random":
            out[f"{gene}_options"] = (*out[f"{gene}_options"], out[f"{gene}_default"])
    if out["rule"] not in ("none", "abcd", "adaptive"):
        out["evolve_rate"] |= out["coefficients_of"] != "connection"
    if out["coefficients_of"] != "shared":
        out["shared_rules"] = Config().plasticity.shared_rules
    if out["rule"] == "adaptive":
        out["weight_limit"] = min(out["weight_limit"], 1e6)
    out["workers"] = min(out["workers"], 1024)
    out["es_population"] += out["es_population"] == 1
    out["normalize_observations"] |= out["novelty"] > 0.0
    if out["most_episodes"]:
        out["episodes"] = max(2, out["episodes"])
        out["most_episodes"] = max(out["episodes"], out["most_episodes"])
    for least in ("elitism", "min_species_size"):
        out[least] = min(out[least], out["pop_size"] // 2)
    room = out["pop_size"] // max(out["elitism"], out["min_species_size"])
    out["target_species"] = min(out["target_species"], room)
    if out["encoding"] == "hyperneat":
        out |= {"inheritance": "darwinian", "feed_forward": True, "start": "", "gate": "reward"}
        out |= {"coefficients_of": "connection", "shared_rules": Config().plasticity.shared_rules}
    return out


CONFIGS = st.fixed_dictionaries({}, optional={n: value_of(n) for n in fields()}).map(belongs_together)


@settings(FUZZ, max_examples=150)
@given(CONFIGS)
def test_a_configuration_comes_back_from_its_toml(flat):
    config = Config().replace(**flat)
    assert Config.from_toml(config.to_toml()) == config
    assert config.flat() == flat


@settings(FUZZ, max_examples=50)
@given(CONFIGS)
def test_toml_has_every_field_in_the_table_of_its_section(flat):
    tables = tomllib.loads(Config().replace(**flat).to_toml())
    assert list(tables) == SECTIONS
    assert {name: section for section, table in tables.items() for name in table} == fields()


@settings(FUZZ, max_examples=50)
@given(CONFIGS)
def test_values_as_the_command_line_gives_them_mean_the_same(flat):
    """Every value as text, lists with commas."""
    texts = {k: ", ".join(v) if isinstance(v, tuple) else str(v) for k, v in flat.items()}
    texts |= {name: list(flat[name]) for name in CHANGES}  # an option that may be given several times
    assert Config().replace(**texts) == Config().replace(**flat)


def test_a_partial_toml_is_read_over_the_defaults():
    config = Config.from_toml("[neat]\npop_size = 50\n[run]\nseed = 3\n")
    assert config == Config().replace(pop_size=50, seed=3)
    assert Config.from_toml("") == Config()


@pytest.mark.parametrize("flat", [{"task": "a\nb"}, {"weight_mutation": "0.5\n"}, {"task": "\x00"}])
def test_control_characters_come_back_from_toml_or_are_refused(flat):
    try:
        config = Config().replace(**flat)
    except NeolError:
        return
    assert Config.from_toml(config.to_toml()) == config


# -- the fields themselves


def test_every_field_has_a_sentence_of_help():
    for name in fields():
        text = field_help()[name]
        assert len(text) > 10 and text.endswith(".") and "\n" not in text, name
    assert set(field_help()) >= set(fields())


def test_field_names_are_unique_over_all_sections():
    declared = [f.name for s in SECTIONS for f in dataclasses.fields(getattr(Config(), s))]
    assert len(declared) == len(set(declared)) == len(fields())


def test_every_default_is_allowed_and_unchanged_by_the_check():
    for name, value in Config().flat().items():
        checked = check_value(name, value)
        assert checked == value and type(checked) is type(value), name
    assert Config().replace(**Config().flat()) == Config()


def test_names_of_functions_are_in_the_order_of_their_ids():
    assert list(ACTIVATION_ID) == list(ACTIVATIONS) and list(ACTIVATION_ID.values()) == list(range(len(ACTIVATIONS)))
    assert list(AGGREGATION_ID) == list(AGGREGATIONS) and list(AGGREGATION_ID.values()) == list(
        range(len(AGGREGATIONS))
    )
    assert len(set(INITIAL_CONNECTIONS)) == len(INITIAL_CONNECTIONS) == 7


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().neat.pop_size = 5  # type: ignore[misc]


def test_replace_leaves_the_original_alone():
    config = Config()
    assert config.replace(pop_size=50).neat.pop_size == 50 and config == Config()


# -- mistakes


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("popsize", "pop_size"),
        ("pop-size", "pop_size"),
        ("sede", "seed"),
        ("POP_SIZE", "pop_size"),
        ("elitsm", "elitism"),
    ],
)
def test_an_unknown_setting_names_the_nearest(wrong, right):
    with pytest.raises(NeolError, match=f"unknown setting '{wrong}'; did you mean '{right}'?"):
        Config().replace(**{wrong: 1})


def test_an_unknown_key_names_the_nearest_of_its_table():
    with pytest.raises(
        NeolError, match=r"my\.toml has an unknown key 'pop_sise' in \[neat\]; did you mean 'pop_size'\?"
    ):
        Config.from_toml("[neat]\npop_sise = 5", "my.toml")


def test_a_key_in_the_wrong_table_is_unknown_there():
    with pytest.raises(NeolError, match=r"unknown key 'pop_size' in \[run\]"):
        Config.from_toml("[run]\npop_size = 5")


@pytest.mark.parametrize("text", ["[neet]\npop_size = 5", "neet = 5", "[[neet]]\na = 1"])
def test_an_unknown_table_names_the_nearest(text):
    with pytest.raises(NeolError, match=r"unknown table 'neet'; did you mean 'neat'\?"):
        Config.from_toml(text)


def test_a_name_without_any_likeness_gets_the_list():
    assert nearest("xyz", ["hebb", "oja"]) == "Valid: hebb, oja."
    assert "did you mean 'hebb'?" in nearest("heb", ["hebb", "oja"])


def bounded(kind: type) -> Iterator[str]:
    return (n for n in fields() if field_type(n) is kind and "low" in metadata(n))


@pytest.mark.parametrize("name", [*bounded(int), *bounded(float)])
def test_values_outside_their_range_are_refused_and_its_ends_are_not(name):
    allowed, step = metadata(name), 1 if field_type(name) is int else 1e-9
    low, high = allowed["low"], allowed["high"]
    check_value(name, low + step)
    less = max(step, abs(low) * 1e-9) if field_type(name) is float else step
    bad = [low if allowed.get("open_low") else low - less] if low > -math.inf else []
    if not allowed.get("open_low"):
        assert check_value(name, low) == low
    if not math.isinf(high):
        assert check_value(name, high) == high
        bad.append(high + max(step, abs(high) * 1e-9 if field_type(name) is float else 1))
    for value in bad:
        with pytest.raises(NeolError, match=rf"^{name} = .* is not allowed; it must be (at least|above) "):
            Config().replace(**{name: value})


@pytest.mark.parametrize("name", [n for n in fields() if field_type(n) is float])
@pytest.mark.parametrize("nan", [math.nan, "nan", "-NaN"])
def test_nan_is_no_number(name, nan):
    with pytest.raises(NeolError, match=rf"^{name} = nan is not allowed"):
        Config().replace(**{name: nan})


WRONG: dict[Any, list[Any]] = {
    int: [True, "x", "1.5", 1.5, math.inf, math.nan, None, [], {}, "", [3]],
    float: [True, "x", None, [], {}, "", [0.5], 10**400],
    bool: [1, 0, "yes", None, [], "1", 0.0],
    str: [True, None, [], {}, ["hebb"]],
    tuple: [5, None, [], "", [1], True, {}, [["clamped"]]],
}


@pytest.mark.parametrize("name", list(fields()))
def test_values_of_a_wrong_type_are_refused(name):
    kind = field_type(name)
    fine = ([], "", {}) if name in ("env_kwargs", *CHANGES, "senses") else ()
    for value in [v for v in WRONG[kind if kind in WRONG else tuple] if v not in fine]:
        with pytest.raises(NeolError, match=rf"^{name} = "):
            Config().replace(**{name: value})


@pytest.mark.parametrize("name", [n for n in fields() if field_choices(n)])
def test_a_word_that_is_no_choice_gets_the_nearest(name):
    word = field_choices(name)[0]
    wrong = word + "x"
    with pytest.raises(NeolError, match=rf"^{name} = '{wrong}' is not allowed; did you mean '{word}'\?"):
        Config().replace(**{name: wrong if field_type(name) is str else [wrong]})


@pytest.mark.parametrize("value", ["of", "1.1", "-0.1", "nan", "inf", "", 2])
def test_weight_mutation_is_off_config_or_a_probability(value):
    with pytest.raises(
        NeolError, match="^weight_mutation = .* is not allowed; it must be config, off or a probability"
    ):
        Config().replace(weight_mutation=value)


@pytest.mark.parametrize("value", ["off", "config", "0", "1", "0.25", 0.25, 1])
def test_weight_mutation_keeps_what_it_is_given_as_text(value):
    assert Config().replace(weight_mutation=value).neat.weight_mutation == str(value)


@pytest.mark.parametrize(("elitism", "least", "needed"), [(10, 2, 20), (0, 7, 14), (5, 5, 10)])
def test_the_population_must_hold_the_elites_of_two_species(elitism, least, needed):
    settings = {"elitism": elitism, "min_species_size": least}
    assert Config().replace(pop_size=needed, **settings).neat.pop_size == needed
    with pytest.raises(NeolError, match=f"^pop_size = {needed - 1} is not allowed; .* at least {needed} genomes"):
        Config().replace(pop_size=needed - 1, **settings)


@pytest.mark.parametrize("gene", ["weight", "bias", "response"])
def test_a_smallest_value_above_the_largest_is_refused(gene):
    with pytest.raises(NeolError, match=f"^{gene}_min_value = 2.0 is not allowed; it must be at most {gene}_max_value"):
        Config().replace(**{f"{gene}_min_value": 2.0, f"{gene}_max_value": 1.0})
    Config().replace(**{f"{gene}_min_value": 1.0, f"{gene}_max_value": 1.0})


@pytest.mark.parametrize("value", [math.inf, -math.inf])
@pytest.mark.parametrize("gene", ["weight", "bias", "response"])
def test_bounds_without_a_finite_number_between_them_are_refused(gene, value):
    with pytest.raises(NeolError, match=f"^{gene}_min_value = {gene}_max_value = {value} is not allowed; a finite"):
        Config().replace(**{f"{gene}_min_value": value, f"{gene}_max_value": value})
    Config().replace(**{f"{gene}_min_value": -math.inf, f"{gene}_max_value": math.inf})


@pytest.mark.parametrize(("gene", "other"), [("activation", "tanh"), ("aggregation", "max")])
def test_a_default_that_mutation_could_not_choose_is_refused(gene, other):
    with pytest.raises(NeolError, match=f"^{gene}_default = '{other}' is not allowed; {gene}_options has"):
        Config().replace(**{f"{gene}_default": other, f"{gene}_mutate_rate": 0.1})
    Config().replace(**{f"{gene}_default": other, f"{gene}_options": [other], f"{gene}_mutate_rate": 0.1})


# -- presets

FACTS = {
    # docs/method.md, Presets: clamped activation, sum, all inputs connected, no hidden nodes at first
    "activation_default": "clamped", "activation_options": ("clamped",), "activation_mutate_rate": 0.0,
    "aggregation_default": "sum", "aggregation_options": ("sum",), "aggregation_mutate_rate": 0.0,
    "initial_connection": "full_direct", "num_hidden": 0,
    # "bias N(0, 1), mutate rate 0.7, power 0.5, replace 0.1, limits +-30"
    "bias_init_mean": 0.0, "bias_init_stdev": 1.0, "bias_init_type": "gaussian", "bias_mutate_rate": 0.7,
    "bias_mutate_power": 0.5, "bias_replace_rate": 0.1, "bias_min_value": -30.0, "bias_max_value": 30.0,
    # "weight N(0, 1), power 0.5, limits +-30"
    "weight_init_mean": 0.0, "weight_init_stdev": 1.0, "weight_init_type": "gaussian", "weight_mutate_power": 0.5,
    "weight_min_value": -30.0, "weight_max_value": 30.0, "weight_mutation": "config",
    # "conn add 0.5, delete 0.5; node add 0.2, delete 0.2; enable mutate 0.03; response fixed at 1"
    "conn_add_prob": 0.5, "conn_delete_prob": 0.5, "node_add_prob": 0.2, "node_delete_prob": 0.2,
    "enabled_mutate_rate": 0.03, "response_init_mean": 1.0, "response_init_stdev": 0.0,
    "response_mutate_rate": 0.0, "response_replace_rate": 0.0,
    # "c1 = 1.0, c3 = 0.5, threshold 3.0; stagnation 20 on the species max, 2 protected species; elitism 10, ..."
    "compatibility_disjoint_coefficient": 1.0, "compatibility_weight_coefficient": 0.5,
    "compatibility_threshold": 3.0, "max_stagnation": 20, "species_fitness_func": "max", "species_elitism": 2,
    "elitism": 10, "survival_threshold": 0.2,
    # "Plasticity: reward_scale 0.001, bcm tau 0.02, weight limit 10"; golden files: pre-activations +-50, tanh outputs
    "reward_scale": 0.001, "bcm_tau": 0.02, "weight_limit": 10.0, "preactivation_limit": 50.0,
    "output_transform": "tanh",
    # N = 1 episode (paper); lamarckian (paper's default); neat-python's sharing and distance; no self-adaptation
    "episodes": 1, "inheritance": "lamarckian", "sharing": "normalized", "compatibility_normalizer": "larger",
    "step_size_adaptation": 0.0, "crossover_prob": 1.0, "feed_forward": True, "fitness_offset": 0.0,
    "disabled_inherit_prob": 0.75,
}  # fmt: skip


@pytest.mark.parametrize("task", sorted(TASKS))
@pytest.mark.parametrize("rule", ["none", "hebb", "oja", "bcm"])
@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_the_presets_hold_the_authors_settings_on_every_task(preset, rule, task):
    flat = configure(task, preset=preset, rule=rule).config.flat()
    assert {k: flat[k] for k in FACTS} == FACTS
    # "NEAT: rate 0.8, replace 0.1. Plastic rules: rate 0.05, replace 0.02"
    expected = (0.8, 0.1) if rule == "none" else (0.05, 0.02)
    assert (flat["weight_mutate_rate"], flat["weight_replace_rate"]) == expected
    # same-step is the paper's Algorithm 2; next-step with lambda = 0.9 the authors' code
    credit = {"paper": ("same-step", 0.0), "authors": ("next-step", 0.9)}[preset]
    assert (flat["reward_credit"], flat["trace_decay"]) == credit


@pytest.mark.parametrize(
    ("task", "steps"), [("cartpole", 500), ("lunarlander", 1000), ("bipedalwalker", 1000), ("hopper", 1000)]
)
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_tasks_have_the_papers_longest_episode(task, steps, preset):
    assert configure(task, preset=preset).config.rollout.max_steps == steps
    assert configure(task, preset=preset, max_steps=77).config.rollout.max_steps == 77


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_the_authors_settings_are_the_same_on_every_task(preset):
    """They ran one set of settings; a task's own may not show through."""
    for task in TASKS:
        flat = configure(task, preset=preset).config.flat()
        other = configure("cartpole", preset=preset).config.flat()
        assert {k: v for k, v in flat.items() if v != other[k]}.keys() <= {"task", "max_steps"}, task


def test_the_defaults_are_the_methods():
    flat = configure().config.flat()
    facts = {"reward_credit": "same-step", "trace_decay": 0.0, "inheritance": "lamarckian", "sharing": "normalized",
             "compatibility_normalizer": "larger"}  # fmt: skip
    assert {k: flat[k] for k in facts} == facts


def test_an_unknown_preset_or_task_names_the_nearest():
    with pytest.raises(NeolError, match=r"unknown preset 'papper'; did you mean 'paper'\?"):
        configure(preset="papper")
    with pytest.raises(NeolError, match=r"unknown task or environment 'hoper'; did you mean 'hopper'\?"):
        configure("hoper")


def test_preset_settings_are_all_settings_and_default_is_empty():
    assert preset_settings("default", "hebb") == {}
    for preset in ("paper", "authors"):
        assert set(preset_settings(preset, "hebb")) <= set(fields())


# -- layers: defaults < task < preset < file < neat-python file < what the user said

NEAT_FILE = Path(__file__).parent / "data" / "neat" / "authors-neat.ini"


def neat_file(tmp_path: Path, task: str) -> Path:
    """The example, for a task of other sizes."""
    text = NEAT_FILE.read_text(encoding="utf-8")
    for name, old, new in (("inputs", 8, TASKS[task].n_inputs), ("outputs", 2, TASKS[task].n_outputs)):
        text = text.replace(f"num_{name}".ljust(22) + f"= {old}", f"num_{name} = {new}")
    path = tmp_path / "neat.ini"
    path.write_text(text, encoding="utf-8")
    return path


def layered(tmp_path: Path, **given: Any) -> Config:
    file = tmp_path / "my.toml"
    file.write_text("[neat]\nbias_mutate_power = 0.123\npop_size = 44\n[run]\nseed = 9\n", encoding="utf-8")
    return configure(config_file=file, **given).config


def test_each_layer_wins_over_the_ones_before(tmp_path):
    default, task = Config().neat, TASKS["hopper"].settings
    assert configure("cartpole").config.neat == default
    assert task["bias_mutate_power"] not in (default.bias_mutate_power, 0.5)
    assert configure("hopper").config.neat.bias_mutate_power == task["bias_mutate_power"]
    assert configure("hopper", preset="paper").config.neat.bias_mutate_power == 0.5
    assert layered(tmp_path, task="hopper", preset="paper").neat.bias_mutate_power == 0.123
    neat = neat_file(tmp_path, "hopper")
    assert layered(tmp_path, task="hopper", preset="paper", neat_config=neat).neat.bias_mutate_power == 0.5
    said = layered(tmp_path, task="hopper", preset="paper", neat_config=neat, bias_mutate_power=0.7)
    assert said.neat.bias_mutate_power == 0.7


def test_a_layer_says_nothing_about_what_it_does_not_name(tmp_path):
    config = layered(tmp_path, task="hopper")
    assert (config.neat.pop_size, config.run.seed) == (44, 9)
    assert config.neat.weight_init_stdev == TASKS["hopper"].settings["weight_init_stdev"]
    assert config.neat.conn_add_prob == NeatConfig().conn_add_prob
    both = layered(tmp_path, neat_config=NEAT_FILE)
    assert (both.neat.pop_size, both.run.seed) == (100, 1)  # the neat-python file has them too


def test_the_task_and_rule_of_a_file_choose_the_layers_below(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('[run]\ntask = "Hopper-v4"\n[plasticity]\nrule = "none"\n', encoding="utf-8")
    config = configure(config_file=file).config
    assert config.run.task == "hopper" and config.rollout.fitness_offset == TASKS["hopper"].settings["fitness_offset"]
    assert configure(config_file=file, preset="paper").config.neat.weight_mutate_rate == 0.8
    assert configure(config_file=file, preset="paper", rule="hebb").config.neat.weight_mutate_rate == 0.05
    assert configure("cartpole", config_file=file).config.run.task == "cartpole"


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path):
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", tmp_path, binary):
        with pytest.raises(NeolError, match="^cannot read '.*': .*"):
            configure(config_file=path)


# -- fuzz: a NeolError or a valid Config, nothing else

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.sampled_from(["true", "off", "nan", "-inf", "1e999", "0x10", "clamped,tanh", 2**63, -1, 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | st.tuples(inner),
    max_leaves=4,
)  # fmt: skip
NAMES = st.sampled_from(list(fields())) | st.text(max_size=10).filter(lambda s: s != "self")


def is_valid(config: Config) -> bool:
    """A Config whose every field has its own type and passes its own check."""
    flat = config.flat()
    return Config().replace(**flat) == config and all(check_value(k, v) == v for k, v in flat.items())


@settings(FUZZ, max_examples=400)
@given(st.dictionaries(NAMES, ANYTHING, min_size=1, max_size=4))
def test_any_settings_give_a_valid_config_or_a_sentence(flat):
    try:
        config = Config().replace(**flat)
    except NeolError as e:
        assert str(e).rstrip().endswith(".") and str(e).strip()
    else:
        assert is_valid(config)


KEYS = st.sampled_from([*fields(), *SECTIONS, "x", '"quoted key"', "a.b", "neat.pop_size"]) | st.text(max_size=6)
TOML_VALUES = (
    st.sampled_from(
        ["1", "-1", "0.5", "1e400", "inf", "-nan", "true", '"off"', "'hebb'", '["tanh"]', "[1, 2]", "{}", "{a = 1}",
         "[[]]", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "0xff", "1_000", '"""a\nb"""', '"\\u0000"', "9" * 30,
         ""]
    )
    | st.text(max_size=8)
)  # fmt: skip
LINES = st.one_of(
    st.tuples(KEYS, TOML_VALUES).map(lambda kv: f"{kv[0]} = {kv[1]}"),
    st.sampled_from([*SECTIONS, "neet", "neat.sub"]).map(lambda s: f"[{s}]"),
    st.text(max_size=12),
)


@settings(FUZZ, max_examples=500)
@given(st.lists(LINES, max_size=6).map("\n".join))
def test_any_text_gives_a_valid_config_or_a_sentence(text):
    try:
        config = Config.from_toml(text, "my.toml")
    except NeolError as e:
        assert str(e).rstrip().endswith(".") and "\n" not in str(e).rstrip()
    else:
        assert is_valid(config)


@settings(FUZZ, max_examples=200)
@given(st.text() | st.sampled_from([Config().to_toml()]), st.integers(0, 10**4), st.text(max_size=3))
def test_a_damaged_file_gives_a_valid_config_or_a_sentence(text, place, insert):
    whole = text or Config().to_toml()
    place %= len(whole)
    try:
        config = Config.from_toml(whole[:place] + insert + whole[place + 1 :])
    except NeolError:
        return
    assert is_valid(config)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[neat]\nactivation_options = " + "[" * 20_000, id="nested too deep"),
        pytest.param("[run]\nseed = " + "1" * 5000, id="5000 digits"),
        pytest.param("[run]\nseed = 0x" + "f" * 5000, id="5000 hexadecimal digits"),
    ],
)
def test_monstrous_toml_is_a_sentence(text):
    with pytest.raises(NeolError):
        Config.from_toml(text)


def test_parse_toml_gives_flat_names_in_plain_types():
    assert parse_toml('[neat]\npop_size = 5\n[plasticity]\nrule = "oja"') == {"pop_size": 5, "rule": "oja"}


def test_the_range_of_returns_is_in_order() -> None:
    assert Config().replace(return_low=-5.0, return_high=5.0).hedge.return_low == -5.0
    with pytest.raises(NeolError, match=r"^return_low = 2.0 is not allowed; it must be at most return_high = 1.0\."):
        Config().replace(return_low=2.0, return_high=1.0)
