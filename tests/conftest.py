"""What tests share: how many examples, what is compiled once, which are slow; random networks (as oracle.Net), and
those as genomes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import ForkServer
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from no_jax import _jax_stays_out, pytest_collection_finish  # noqa: F401 for every test
from oracle import Edge, Net, Node, Numbers
from small_study import small_study
from toy_genes import INPUTS, OUTPUTS, evolved

from neol import evaluate
from neol.cli.main import main
from neol.config.sections import ACTIVATION_ID, AGGREGATION_ID
from neol.envs.tasks import TASKS
from neol.neat.genes import COEFFICIENTS, POINTERS, ROLES
from neol.neat.genome import Genomes, empty_genomes
from neol.network.phenotype import compile_phenotypes

# The same examples at every run. `HYPOTHESIS_PROFILE=search pytest` draws new ones, and more.
# A busy machine is no reason to fail: no deadline, and none for drawing examples either.
PATIENT: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, **PATIENT)
settings.register_profile("search", **PATIENT)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
settings.load_profile(PROFILE)

# A job in a shell's background ignores Ctrl-C, and so would everything that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A run syncs a dozen small files to the disk, and tests make thousands of runs: half of their time would be waiting.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and not (room := os.statvfs(MEMORY)).f_flag & os.ST_NOEXEC and room.f_bavail * room.f_frsize > 4e9:
    tempfile.tempdir = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Tests start hundreds of processes: what the first has compiled to .pyc files is there for all others.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# JAX keeps what it compiled, for the processes that follow.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

SLOW = Path(__file__).with_name("slow.txt")


def slow_tests() -> set[str]:
    """The tests that `make test-fast` leaves out: "test_x.py" (all of it) or "test_x.py::test_name"."""
    lines = (line.partition("#")[0].strip() for line in SLOW.read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = slow_tests()
    for item in items:
        file = item.path.name
        if file in slow or f"{file}::{getattr(item, 'originalname', item.name)}" in slow:
            item.add_marker(pytest.mark.slow)


def _compiled(run: str) -> dict[str, Path]:
    """The files that say which workers have compiled their part."""
    return {name: Path(tempfile.gettempdir()) / f"neol-{run}-{name}" for name in ("gw0", "gw1")}


def pytest_sessionfinish(session: pytest.Session) -> None:
    worker = getattr(session.config, "workerinput", None)
    if worker is not None:
        for file in _compiled(worker["testrunuid"]).values():
            file.unlink(missing_ok=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Two workers compile the kernels together, each a half, which the other then finds on the disk.

    Otherwise both would begin with all of them: one and a half minutes where nothing is compiled yet.
    """
    worker = getattr(session.config, "workerinput", {})
    if worker.get("workercount") != 2 or worker.get("workerid") not in ("gw0", "gw1"):
        return
    from live_client import champion as random_champion

    done = _compiled(worker["testrunuid"])
    champion = Path(__file__).with_name("data") / "kept" / "0.1.0" / "champion.json"
    if worker["workerid"] == "gw0":
        compile_phenotypes(evolved()[1].genomes, INPUTS, OUTPUTS)
        evaluate(champion, episodes=2, max_steps=5, engine="gymnasium")
    else:
        evaluate(champion, episodes=2, max_steps=5, threads=1)
        evaluate(champion, "bandit", episodes=2, max_steps=5, threads=1)
        evaluate(random_champion(TASKS["hopper"]), episodes=2, max_steps=5, threads=1)  # it observes in doubles
    done[worker["workerid"]].touch()
    patience = time.monotonic() + 600.0
    while not all(file.exists() for file in done.values()) and time.monotonic() < patience:
        time.sleep(0.1)


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Starts `neol` in processes of its own, at once."""
    server = ForkServer(tmp_path_factory.mktemp("forks"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def study_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that was run: cartpole, two arms and a control, two seeds."""
    folder = tmp_path_factory.mktemp("study")
    text = small_study(("none", "hebb"), generations=2).replace('"cartpole", "lunarlander"', '"cartpole"')
    (folder / "small.toml").write_text(text, encoding="utf-8")
    assert main(["study", "run", str(folder / "small.toml"), "--out", str(folder / "s"), "--jobs", "1", "--quiet"]) == 0
    return folder / "s"


@pytest.fixture
def finished_study(study_once: Path, tmp_path: Path) -> Path:
    """A copy of it, to be tampered with."""
    return Path(shutil.copytree(study_once, tmp_path / "finished"))


# Activations with |f| <= 1 and no pole or jump: over a life of 10 steps in a network with weights below 1.5 the last
# bit's error stays within the 1e-12 that the tests allow. The others are tested one node deep, or for finiteness.
BOUNDED = ("clamped", "tanh", "sigmoid", "sin", "gauss", "hat")
SMOOTH_AGGREGATIONS = ("sum", "product", "mean", "max", "min", "median")  # maxabs jumps from +a to -a


ABCD = ("correlation", "presynaptic", "postsynaptic", "constant")  # the genes


def examples(count: int) -> int:
    """The number of examples of a test: 50 times as many in a search."""
    return 50 * count if PROFILE == "search" else count


def numbers(bound: float) -> st.SearchStrategy[float]:
    return st.floats(-bound, bound, allow_subnormal=False)


@st.composite
def networks(
    draw: Any,
    inputs: int,
    outputs: int,
    cyclic: bool | None = None,
    activations: Sequence[str] = BOUNDED,
    aggregations: Sequence[str] = SMOOTH_AGGREGATIONS,
    weight: float = 1.5,
    hidden: int = 4,
) -> Net:
    """A random network: nodes without edges, disabled connections and gaps in the hidden ids included."""
    gaps = draw(st.lists(st.integers(1, 3), max_size=hidden))
    hidden_ids = [outputs - 1 + sum(gaps[: i + 1]) for i in range(len(gaps))]
    node_ids = [*range(outputs), *hidden_ids]
    kinds, sums = st.sampled_from(activations), st.sampled_from(aggregations)
    nodes = {i: Node(draw(numbers(1.5)), draw(numbers(1.5)), draw(kinds), draw(sums)) for i in node_ids}
    cyclic = draw(st.booleans()) if cyclic is None else cyclic
    rank = {node: i for i, node in enumerate(draw(st.permutations(node_ids)))}
    input_ids = [-1 - i for i in range(inputs)]
    pairs = [(a, b) for a in [*input_ids, *node_ids] for b in node_ids if cyclic or rank.get(a, -1) < rank[b]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14))
    edges = {p: Edge(draw(numbers(weight)), draw(st.sampled_from((True, True, True, False)))) for p in chosen}
    return Net(input_ids, list(range(outputs)), nodes, edges)


def genomes_of(nets: Sequence[Net]) -> Genomes:
    """The networks as a population, genome p from nets[p]."""
    g = empty_genomes(len(nets), max(len(n.nodes) for n in nets) + 1, max(len(n.edges) for n in nets) + 1)
    for p, net in enumerate(nets):
        g.n_nodes[p], g.n_conns[p], g.step_size[p] = len(net.nodes), len(net.edges), 1.0
        for k, (i, node) in enumerate(sorted(net.nodes.items())):
            g.node_id[p, k], g.bias[p, k], g.response[p, k] = i, node.bias, node.response
            g.activation[p, k] = ACTIVATION_ID[node.activation]
            g.aggregation[p, k] = AGGREGATION_ID[node.aggregation]
            g.role[p, k] = ROLES.index(node.role)
        for k, ((a, b), edge) in enumerate(net.edges.items()):
            g.innovation[p, k], g.source[p, k], g.target[p, k] = k, a, b
            g.weight[p, k], g.enabled[p, k] = edge.weight, edge.enabled
            g.pointer[p, k] = POINTERS.index(edge.rule)
            _set_numbers(g, "", (p, k), edge)
        for k, node in enumerate(node for _, node in sorted(net.nodes.items())):
            _set_numbers(g, "node_", (p, k), node.numbers)
        for k, rule in enumerate(net.rules):
            _set_numbers(g, "rule_", (p, k), rule)
    return g


def _set_numbers(g: Genomes, prefix: str, at: tuple[int, int], by: Edge | Numbers) -> None:
    for name, value in zip(COEFFICIENTS, (by.rate, *by.abcd, *by.etas), strict=True):
        getattr(g, prefix + name)[at] = value


def assert_near(actual: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """|actual - expected| <= tolerance * max(1, |expected|), elementwise."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    error = np.abs(actual - expected) / np.maximum(1.0, np.abs(expected))
    assert error.max(initial=0.0) <= tolerance, f"off by {error.max()}: {actual} is not {expected}"
