"""A gene is declared once: toys that are added to the table of a copy of the package are found wherever genes are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_genes

from neol import seeding
from neol.config.schema import Config
from neol.config.sections import NeatConfig
from neol.errors import NeolError
from neol.neat.genes import (
    CONNECTION,
    GENES,
    GENOME,
    NODE,
    STREAM_OF,
    Factor,
    Flag,
    Gene,
    Number,
    Option,
    gene_from_json,
    gene_settings,
    gene_to_json,
)  # fmt: skip
from neol.neat.genome import first_population, from_arrays, to_arrays

PACKAGE = Path(seeding.__file__).parent

TOYS = {  # name -> what it is of, its entry in the table, its default
    "gain": (CONNECTION, 'Gene("gain", CONNECTION, Number(mean=0.5, stdev=0.1, low=0.0, high=1.0)),', 0.5),
    "gate": (CONNECTION, 'Gene("gate", CONNECTION, Flag("random", mutate_rate=0.5), compared=0.0, absent=True),', True),
    "tau": (NODE, 'Gene("tau", NODE, Number(mean=0.5, stdev=0.1, low=0.0, high=1.0), compared=0.0),', 0.5),
    "pace": (GENOME, 'Gene("pace", GENOME, Number(mean=0.5, stdev=0.1, low=0.0, high=1.0)),', 0.5),
}
TABLE = re.compile(r"^GENES: .*?= \($.*?^\)$", re.MULTILINE | re.DOTALL)


Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the toys in its table, and what toy_genes.py found in it, uncompiled: Numba would take
    minutes for kernels that are run a few times."""
    folder = tmp_path_factory.mktemp("genes")
    shutil.copytree(PACKAGE, folder / "neol", ignore=shutil.ignore_patterns("__pycache__"))
    table, lines = folder / "neol" / "neat" / "genes.py", [f"    {entry}\n" for _, entry, _ in TOYS.values()]
    text = table.read_text(encoding="utf-8")
    (whole,) = TABLE.findall(text)
    table.write_text(text.replace(whole, f"{whole[:-1]}{''.join(lines)})"), encoding="utf-8")
    run_toys(folder, *(f"{name}:{of}" for name, (of, _, _) in TOYS.items()), NUMBA_DISABLE_JIT="1")
    return folder


def run_toys(folder: Path, *words: str, **env: str) -> None:
    """toy_genes.py with the copy of the package."""
    env = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), **env}
    command = [sys.executable, toy_genes.__file__, str(folder), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "out.json").read_text(encoding="utf-8"))


def arrays_in(file: Path) -> Arrays:
    with np.load(file) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", TOYS)
def test_one_entry_puts_a_gene_wherever_genes_are_handled(name: str, found: dict[str, Any]) -> None:
    found, (of, entry, default) = found[name], TOYS[name]
    flag = "Flag" in entry
    assert found["dtype"] == ("bool" if flag else "float64")
    low, high, different, count = found["drawn"]
    assert (low, high, different) == (0.0, 1.0, 2) if flag else 0.0 <= low < 0.45 < 0.55 < high <= 1.0
    assert flag or different == count  # and no two alike
    assert found["copied"]
    assert 0.1 < found["mutated"] < 0.7
    assert min(found["crossed"]) > 0.1
    apart, compared = found["distance"]  # 2 |low - high| where it is compared, with a coefficient of 2
    assert (apart, compared) == ((2.0 if flag else 1.0) if "compared" in entry else 0.0, 3)
    assert found["restored"]
    assert found["absent"] == [[default]] * toy_genes.SIZE and found["free"] == 0
    assert found["compiled"] and found["count"] >= (1 if of == GENOME else 3)
    assert found["neat-python"]  # reads the file all the same
    assert found["written"] and found["read"] and found["absent in a file"] == [default]


def test_new_genes_change_no_bit_of_the_others(folder: Path) -> None:
    """Over generations with changes of structure; a gene with a say in the distance has a coefficient of 0 here.
    Those without the toys are compiled: plain Python computes the same bits."""
    with_toys = arrays_in(folder / "out.npz")
    without = toy_genes.evolved()[1].state()
    new = {f"{group}.{name}" for group in ("genomes", "representative") for name in TOYS}
    assert with_toys.keys() == without.keys() | new
    assert all(np.array_equal(with_toys[name], array) for name, array in without.items())
    assert len(np.unique(without["genomes.n_nodes"])) > 2 and len(without["species.id"]) > 1


def test_kernels_with_new_genes_compile_and_give_what_plain_python_gives(folder: Path) -> None:
    """Those of distance and mutation, which read and write columns of every type, at every place of a gene."""
    run_toys(folder)
    compiled, plain = arrays_in(folder / "compiled.npz"), arrays_in(folder / "kernels.npz")
    before = arrays_in(folder / "out.npz")
    assert compiled.keys() == plain.keys() >= {f"mutated.{name}" for name in TOYS}
    assert all(np.array_equal(compiled[name], array) for name, array in plain.items())
    assert compiled["distance"][0] == 0.0 < compiled["distance"].max()
    assert all((compiled[f"mutated.{name}"] != before[f"genomes.{name}"]).any() for name in TOYS)


# -- the table


@pytest.mark.parametrize("of", [GENOME, NODE, CONNECTION])
def test_keys_in_files_are_different_and_none_is_the_formats_own(of: str) -> None:
    taken = {"id", "type", "from", "to"}
    keys = [g.key for g in GENES if g.of == of and g.json is not None]
    assert len({*keys, *taken}) == len(keys) + len(taken)


def test_only_the_first_genes_share_a_stream_and_the_others_streams_have_names_of_their_own() -> None:
    shared = ["step_size", "bias", "response", "activation", "aggregation", "weight", "enabled"]
    assert [g.name for g in GENES if not g.own_stream] == shared
    assert {STREAM_OF[name] for name in shared} == {0}
    names = [seeding.named(g.name) for g in GENES] + [seeding.named("toy")]
    assert len(set(names)) == len(names) and all(2**62 <= n < 2**63 for n in names)


def test_what_an_evolution_strategy_always_searches_are_the_weights_and_biases() -> None:
    assert {g.name for g in GENES if g.searchable and not g.switch} == {"weight", "bias"}


def test_an_entry_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="toy cannot be compared"):
        Gene("toy", GENOME, Number(), compared=1.0)
    with pytest.raises(ValueError, match="toy has a switch: it needs"):
        Gene("toy", NODE, Number(), compared=1.0, switch="toys")
    with pytest.raises(ValueError, match="toy is of 'edge'"):
        Gene("toy", "edge", Number())


def test_settings_by_a_genes_name_come_before_the_numbers_of_its_entry() -> None:
    config = Config().replace(bias_init_mean=0.5, bias_mutate_rate=0.25, enabled_mutate_rate=0.125).neat
    number = Number(mean=7.0, mutate_rate=0.75, mutate_power=0.0625)
    assert number.settings("bias", config)[:2] == (0.5, 1.0) and number.settings("bias", config).rate == 0.25
    assert number.settings("toy", config)[:2] == (7.0, 1.0) and number.settings("toy", config).rate == 0.75
    assert Flag(mutate_rate=0.75).settings("enabled", config).to_true == 0.125
    assert Flag(mutate_rate=0.75, rate_to_true_add=0.125).settings("toy", config)[1:3] == (0.875, 0.75)
    assert Factor(adaptation=0.5).settings("toy", config).adaptation == 0.5
    option = Option(("a", "b", "c"), options=("b", "c"), mutate_rate=0.5).settings("toy", config)
    assert (option.default, option.options.tolist(), option.rate) == (-1, [1, 2], 0.5)
    assert len(gene_settings(NeatConfig()).of) == len(GENES)


COLOUR = Gene("colour", NODE, Option(("red", "green"), default="green"))
GAIN = Gene("gain", CONNECTION, Number(mean=0.5), json="k", absent=1.0)
FAST = Gene("fast", CONNECTION, Flag("false"), required=True)


def test_a_gene_is_read_as_it_was_written_and_has_its_default_where_a_file_lacks_it() -> None:
    assert gene_to_json([COLOUR, GAIN, FAST], {"colour": 0, "gain": np.float64(0.25), "fast": np.True_}) == {
        "colour": "red",
        "k": 0.25,
        "fast": True,
    }
    assert gene_from_json([COLOUR, GAIN], {"colour": "red", "k": 2}, "node 1", "net") == {"colour": 0, "gain": 2.0}
    assert gene_from_json([COLOUR, GAIN], {}, "node 1", "net") == {"colour": 1, "gain": 1.0}
    with pytest.raises(KeyError, match="fast"):
        gene_from_json([FAST], {}, "1 -> 2", "net")


@pytest.mark.parametrize(
    ("gene", "value", "words"),
    [
        (GAIN, "fast", "net has k of 1 -> 2 = 'fast'; it must be a finite number."),
        (GAIN, True, "net has k of 1 -> 2 = True; it must be a finite number."),
        (GAIN, float("inf"), "net has k of 1 -> 2 = inf; it must be a finite number."),
        (FAST, 1, "net has fast = 1 at 1 -> 2; it must be true or false."),
        (COLOUR, "gren", "net has colour 'gren' at 1 -> 2; did you mean 'green'? Valid: red, green."),
    ],
)
def test_a_bad_value_in_a_file_is_one_sentence(gene: Gene, value: Any, words: str) -> None:
    with pytest.raises(NeolError) as fault:
        gene_from_json([gene], {gene.key: value}, "1 -> 2", "net")
    assert str(fault.value) == words


def test_a_population_is_the_same_after_a_round_trip_through_named_arrays() -> None:
    genomes, _ = first_population(Config().replace(pop_size=4, response_init_stdev=0.5).neat, 3, 2, 0)
    arrays = to_arrays(genomes, "outer.genomes")
    again = from_arrays(arrays, "outer.genomes")
    assert type(again) is type(genomes)
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(genomes, again, strict=True))
    assert not any(np.shares_memory(a, b) for a, b in zip(genomes, again, strict=True))
    with pytest.raises(KeyError, match="bias"):
        from_arrays({k: v for k, v in arrays.items() if k != "outer.genomes.bias"}, "outer.genomes")
