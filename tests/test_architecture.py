"""The house's rules, read from the source: who may import whom, what is never loaded early, no hidden state."""

from __future__ import annotations

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import house

TREES = house.modules()
HEAVY = {
    "torch",
    "ray",
    "envpool",
    "matplotlib",
    "gymnasium",
    "stable_baselines3",
    "sbx",
    "jax",
    "flax",
    "tensorboard",
    "onnx",
    "onnxruntime",
    "mujoco",
    "imageio_ffmpeg",
}
COMMAND_LINE = (
    "__init__", "errors", "config.checks", "config.sections", "config.schema", "network.actions", "envs.tasks",
    "envs.spaces", "envs.registry", "training.configure", "cli.main",
)  # fmt: skip  # what `neol --help` needs

every_module = pytest.mark.parametrize("module", TREES)


@cache
def type_checking_only(tree: ast.Module) -> frozenset[ast.AST]:
    """Nodes under `if TYPE_CHECKING:`; they are never run."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
    return frozenset(node for block in blocks for statement in block.body for node in ast.walk(statement))


@cache
def imported(module: str, top_level: bool = False) -> frozenset[str]:
    """Dotted names that a module imports: anywhere in it, or when it is itself imported."""
    tree = TREES[module]
    skip = type_checking_only(tree)
    if top_level:
        functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        skip |= {n for f in ast.walk(tree) if isinstance(f, functions) for n in ast.walk(f)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in skip:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def own(module: str) -> set[str]:
    """The modules of this package that a module imports, anywhere."""
    return house.own_imports(module, TREES)


def test_every_package_has_a_place_in_the_house() -> None:
    assert {house.package(m) for m in TREES} == set(house.PACKAGES)


@every_module
def test_a_package_imports_only_from_packages_before_it(module: str) -> None:
    if module in house.ENTRY:
        return
    home = house.package(module)
    allowed = house.PACKAGES[: house.PACKAGES.index(home) + 1]
    assert {house.package(m) for m in own(module)} <= set(allowed)


def test_no_module_imports_in_a_circle() -> None:
    graph = {module: own(module) for module in TREES if module not in house.ENTRY}
    assert set(TopologicalSorter(graph).static_order()) >= set(graph)  # raises CycleError
    assert {"outer.base", "rollout.shards"} <= own("training.loop")  # the graph is not empty


def test_the_architecture_page_shows_the_house_as_it_stands() -> None:
    assert house.PAGE.read_text(encoding="utf-8") == house.written(house.PAGE.read_text(encoding="utf-8")), (
        "run: python tools/house.py"
    )
    assert house.PICTURE.read_text(encoding="utf-8") == house.picture(), "run: python tools/house.py"


def test_the_picture_of_the_house_has_every_module_and_every_import_between_packages() -> None:
    root = ElementTree.fromstring(house.PICTURE.read_text(encoding="utf-8"))
    shown = {word for text in root.iterfind(".//{*}text[@class='modules']") for word in (text.text or "").split()}
    assert shown == {m.rpartition(".")[2] for m in TREES if m.rpartition(".")[2] not in house.ENTRY}
    uses = house.uses(TREES)
    assert "neat" in uses["training"]
    assert len(root.findall(".//{*}circle")) == sum(map(len, uses.values()))


@every_module
def test_every_module_says_what_it_is_for(module: str) -> None:
    assert house.first_line(TREES[module])


@every_module
def test_heavy_packages_are_imported_only_where_they_are_used(module: str) -> None:
    assert not {name.partition(".")[0] for name in imported(module, top_level=True)} & HEAVY


@pytest.mark.parametrize("module", COMMAND_LINE)
def test_what_help_needs_imports_no_numba(module: str) -> None:
    seen, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        seen.add(name)
        top = imported(name, top_level=True)
        assert not {n.partition(".")[0] for n in top} & {"numba", "scipy", "rich"}, name
        waiting += [
            m
            for n in top
            if n.startswith("neol.")
            for m in (n[5:], n[5:].rpartition(".")[0])
            if m in TREES and m not in seen
        ]


@every_module
def test_nothing_is_star_imported_and_no_pickle_is_loaded(module: str) -> None:
    names = imported(module)
    assert not [n for n in names if n.endswith(".*")]
    if module != "rollout.ipc":  # between this program and the worker processes that it started
        foreign = {"pickle", "shelve", "marshal", "dill", "cloudpickle", "joblib"}
        assert not {n.partition(".")[0] for n in names} & foreign
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


@every_module
def test_randomness_and_clocks_start_in_one_place(module: str) -> None:
    """No global generator, and no clock or process id where it could become a seed."""
    if module == "seeding":  # which seeds the global generators of worker processes, for environments that use them
        return
    used = {ast.unparse(n) for n in ast.walk(TREES[module]) if isinstance(n, ast.Attribute)} | imported(module)
    if module == "rollout.check_environment":  # looks whether an environment draws from them
        used -= {"np.random.get_state", "random.getstate"}
    assert not [u for u in used if u.startswith(("np.random.", "numpy.random", "random.", "secrets.", "time.time"))]
    assert "os.getpid" not in used or module == "system"  # which asks for it, and says that it is in no seed


MUTATORS = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear"}


@every_module
def test_no_function_changes_module_level_state(module: str) -> None:
    tree = TREES[module]
    targets = [t for s in tree.body if isinstance(s, ast.Assign) for t in s.targets]
    targets += [s.target for s in tree.body if isinstance(s, ast.AnnAssign)]
    globals_ = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        shared = globals_ - arguments - stored
        for node in ast.walk(function):
            assert not isinstance(node, ast.Global), f"{module}.{function.name} has a global statement"
            if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                assert ast.unparse(node.value) not in shared, f"{module}.{function.name}: {ast.unparse(node)}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                assert ast.unparse(node.func.value) not in shared, f"{module}.{function.name}: {ast.unparse(node)}"


def test_a_public_class_has_a_name_of_its_own() -> None:
    """One name, one meaning: whoever reads `Event` need not ask whose."""
    homes: dict[str, list[str]] = {}
    for module, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
