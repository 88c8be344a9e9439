"""The kernels' disk cache: used while nothing changes, thrown away when any module of ours does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import neol.jit

PACKAGE = Path(neol.jit.__file__).parent

# input -> output 0 by one edge, w = 0.5, as if x = 2 and y = 1 had just been; hebb, m = 1: w <- 0.5 + x y = 2.5.
# `credit` calls `learn`, which calls the rule in plasticity.py: what a change must reach through two kernels.
SCRIPT = """
import numpy as np
from neol.config.sections import PlasticityConfig
from neol.network.step import credit, new_slots
from neol.network.phenotype import empty_phenotypes
from neol.network.plasticity import plasticity

ph = empty_phenotypes(1, 1, 1, 1, 1)  # one input -> one node, the output
one = {"node_start": (0, 1), "edge_start": (0, 1)}
one |= {"weight": (0.5,), "response": (1.0,), "activation": (1,), "standard": (1,)}
ph = ph._replace(**{name: np.array(value, getattr(ph, name).dtype) for name, value in one.items()})
ph.output[:] = 1
slots = new_slots(ph, 1)
slots.weight[0, 0] = 0.5
slots.value[0, :2] = 2.0, 1.0
credit(ph, slots, 0, 1.0, plasticity(PlasticityConfig(rule="hebb", lr=1.0, reward_scale=1.0)))
print(slots.weight[0, 0], "from cache" if credit.stats.cache_hits else "compiled")
"""


def run(source: Path, cache: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_changed_rule_reaches_cached_kernels_and_unchanged_ones_come_from_the_cache(tmp_path: Path) -> None:
    source, cache = tmp_path / "src", tmp_path / "cache"
    shutil.copytree(PACKAGE, source / "neol", ignore=shutil.ignore_patterns("__pycache__"))
    assert run(source, cache) == "2.5 compiled"
    assert run(source, cache) == "2.5 from cache"
    rules = source / "neol" / "network" / "plasticity.py"
    text = rules.read_text(encoding="utf-8")
    assert text.count("    return z\n") == 1, "hebb's body is not where this test edits it"
    rules.write_text(text.replace("    return z\n", "    return z + 100.0\n"), encoding="utf-8")
    assert run(source, cache) == "10.0 compiled"  # 0.5 + 102, projected onto [-10, 10]


def test_the_stamp_covers_kernels_of_every_package_and_the_constants_that_they_freeze() -> None:
    stamped = {name for name, _, _ in neol.jit._source_stamp()}
    marks = ("\n@kernel\n", "\n@bare\n", "\n@inlined\n")
    texts = {str(f.relative_to(PACKAGE)): f.read_text(encoding="utf-8") for f in PACKAGE.rglob("*.py")}
    holders = {name for name, text in texts.items() if any(mark in text for mark in marks)}
    assert len({Path(name).parent for name in holders}) > 3  # they do lie in several packages
    assert holders <= stamped
    assert {
        "config/sections.py",
        "network/actions.py",
    } <= stamped  # SUM's and BOUNDED's ids, frozen into step.py's kernels
    assert not {"cli/main.py", "training/loop.py"} & stamped  # a change there recompiles nothing


def test_a_disk_that_is_full_does_not_stop_a_kernel(tmp_path: Path) -> None:
    """Saving a compiled kernel fails under a limit of file sizes; it is used all the same."""
    (tmp_path / "full.py").write_text(
        "import resource, signal\n"
        "from neol.jit import kernel\n"
        "@kernel\n"
        "def double(x):\n    return 2.0 * x\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "print(double(3.0))\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "full.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "6.0\n", done.stderr
