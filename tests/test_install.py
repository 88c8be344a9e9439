"""The package as others get it: its wheel, in a virtual environment that holds what the core asks for and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import neol
from neol.studies.plan import bundled_studies

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "neol"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LANDER = ROOT / "tests" / "data" / "lander" / "champion.json"
SMALL = ("--pop-size=10", "--generations=2", "--max-steps=20", "--champion-episodes=4", "--quiet")
SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")


class Installed(NamedTuple):
    """A virtual environment with the wheel in it, and a folder to work in that is not the clone."""

    root: Path
    work: Path

    def run(self, *words: Any) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        command = [self.root / "bin" / words[0], *words[1:]]
        return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, check=False)


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """Everything that these requirements bring here, by canonical name."""
    waiting, seen, found = [Requirement(r) for r in requirements], set(), {}
    while waiting:
        wanted = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(wanted.name)
        for extra in {"", *wanted.extras} - {e for n, e in seen if n == name}:
            seen.add((name, extra))
            if name == "neol":
                waiting += [Requirement(r) for r in EXTRAS.get(extra, PROJECT["dependencies"])]
                continue
            found[name] = distribution(name)
            theirs = [Requirement(r) for r in found[name].requires or []]
            asked = [r for r in theirs if r.marker is None or r.marker.evaluate({"extra": extra})]
            for r in asked:
                r.marker = None
            waiting += asked
    return found


def pip(*words: Any) -> None:
    command = [sys.executable, "-m", "pip", *words, "--quiet", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, by the hatchling of these tests."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(SOURCE, folder / "src" / "neol", ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", folder, "--no-build-isolation", "--wheel-dir", folder)
    return next(folder.glob("neol-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """NEOL comes from the wheel. What it declares as its core is linked from where the tests' own packages are, which
    takes no minutes and no network; all other packages (Ray, JAX, pytest ...) are really missing."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    site = folder / "venv" / SITE
    for package in needed(["neol"]).values():
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(package.locate_file(top))))
    pip("--python", folder / "venv" / "bin" / "python", "install", wheel)
    _take_compiled_kernels(site / "neol")
    (folder / "work").mkdir()
    return Installed(folder / "venv", folder / "work")


def _take_compiled_kernels(package: Path) -> None:
    """The sources are the same to the byte: what Numba compiled for the clone's, a minute's work, serves here too."""
    for file in (f for f in package.rglob("*.py") if f.read_bytes() == (SOURCE / f.relative_to(package)).read_bytes()):
        shutil.copystat(SOURCE / file.relative_to(package), file)
    for kernel in SOURCE.rglob("__pycache__/*.nb[ic]"):
        target = package / kernel.relative_to(SOURCE)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(kernel, target)


def test_the_wheel_holds_every_file_of_the_package_and_the_bundled_studies(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name.removeprefix("neol/") for name in archive.namelist() if name.startswith("neol/")}
    files = {f.relative_to(SOURCE).as_posix() for f in SOURCE.rglob("*") if f.is_file()}
    assert held == {f for f in files if "__pycache__" not in f}
    assert {"py.typed", "studies/bundled/paper/smoke.toml", "studies/bundled/equal-budget.toml"} <= held


def test_the_core_brings_no_heavy_extra(installed: Installed) -> None:
    heavy = {
        "ray",
        "torch",
        "jax",
        "jaxlib",
        "playwright",
        "tensorboard",
        "pandas",
        "stable-baselines3",
        "sbx-rl",
        "onnx",
    }
    assert not heavy & set(needed(["neol"]))
    assert heavy <= set(needed(["neol[all,dev]"]))
    for module in ("ray", "torch", "jax", "playwright", "pytest"):  # the environment of these tests is an honest one
        assert "ModuleNotFoundError" in installed.run("python", "-c", f"import {module}").stderr


def test_everything_that_make_installs_has_its_version_in_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    assert set(needed(["neol[all,dev]"])) - pinned == set()


@pytest.mark.parametrize("command", [("neol",), ("python", "-m", "neol")], ids=["neol", "python -m neol"])
def test_the_command_is_there(command: tuple[str, ...], installed: Installed) -> None:
    assert installed.run(*command, "--version").stdout == f"neol {neol.__version__}\n"
    where = installed.run("python", "-c", "import neol; print(neol.__file__)").stdout
    assert Path(where.strip()) == installed.root / SITE / "neol" / "__init__.py"


def test_it_trains_from_any_folder(installed: Installed) -> None:
    done = installed.run("neol", "train", "cartpole", "--out=run", *SMALL, "--film")
    assert done.returncode == 0, done.stderr
    assert {"champion.json", "agent.mp4", "network.svg", "curve.svg"} <= {
        f.name for f in (installed.work / "run").iterdir()
    }


def test_a_study_of_the_paper_runs_by_name_and_is_reported(installed: Installed) -> None:
    assert installed.run("neol", "study", "list").stdout.count("\n") == len(bundled_studies()) + 1
    words = (
        "--tasks=cartpole",
        "--arms",
        "neat",
        "hebb",
        "--seeds=1",
        "--scale=0.4",
        "--jobs=1",
        "--quiet",
        "--out=smoke",
    )
    done = installed.run("neol", "study", "run", "paper/smoke", *words)
    assert done.returncode == 0, done.stderr
    assert "Smoke: everything, small: 3 runs done, 0 failed." in done.stdout
    done = installed.run("neol", "report", "smoke", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert (installed.work / "smoke" / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("train", "cartpole", *SMALL, "--tensorboard", "--out=without-tensorboard"), "tensorboard"),
        (("train", "cartpole", *SMALL, "--executor=ray", "--out=without-ray"), "ray"),
        (("study", "run", "paper/smoke", "--quiet", "--executor=ray", "--out=study-without-ray"), "ray"),
        (("baseline", "ppo", "cartpole", "--max-env-steps=9", "--out=without-baselines"), "baselines"),
        (("export", LANDER, "--out=without-onnx.onnx"), "onnx"),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_command_that_installs_it(
    words: tuple[str, ...], extra: str, installed: Installed
) -> None:
    done = installed.run("neol", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"pip install 'neol[{extra}]'.\n")
    assert done.stderr.count("\n") == 1
    assert extra in EXTRAS


def test_a_users_program_is_type_checked_against_the_installed_package(installed: Installed) -> None:
    program = installed.work / "program.py"
    program.write_text(
        "import neol\n\n"
        'run: neol.Run = neol.train("cartpole", out="run", generations=3)\n'
        "wrong: int = neol.evaluate(run.path)\n"
    )
    cache = ROOT / ".pytest_cache" / "mypy"
    words = ("--python-executable", installed.root / "bin" / "python", "--cache-dir", cache, program)
    command = [sys.executable, "-m", "mypy", *map(str, words)]
    done = subprocess.run(command, cwd=installed.work, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(found) == 1, done.stdout + done.stderr
    assert found[0].startswith(
        'program.py:4: error: Incompatible types in assignment (expression has type "Evaluation"'
    )


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import neol", ("numpy", "argparse")),
        ("from neol.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass", ("rich",)),
    ],
    ids=["import neol", "neol --help"],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement: str, absent: tuple[str, ...]) -> None:
    heavy = (
        "numba", "scipy", "gymnasium", "envpool", "mujoco", "matplotlib", "PIL", "imageio_ffmpeg", "pandas", "ray",
        "torch", "jax", "sbx", "stable_baselines3", "tensorboard", "cloudpickle", "sqlite3", *absent,
    )  # fmt: skip
    script = f"{statement}\nimport sys\nprint('imported:', [m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"
