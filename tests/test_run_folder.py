"""A run's folder: files whole or untouched, and checkpoints that are ours or refused in one sentence."""

from __future__ import annotations

import io
import pickle
import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

import neol
from neol.cli.main import main
from neol.config.schema import Config
from neol.errors import NeolError
from neol.files import write_atomic
from neol.training import run_folder
from neol.training.train import train

TINY: dict[str, Any] = {
    "pop_size": 10, "generations": 2, "episodes": 1, "max_steps": 40, "threads": 1,
    "champion_candidates": 2, "champion_trials": 1, "champion_episodes": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder; tests copy it."""
    return train("cartpole", out=tmp_path_factory.mktemp("store") / "run", **TINY).path


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A run's folder of one's own."""
    copy = tmp_path / "run"
    copy.mkdir()
    for file in finished.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def contents(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in sorted(folder.iterdir())}


def one_sentence(text: str) -> bool:
    return text.startswith("neol: ") and text.endswith(".\n") and text.count("\n") == 1


# -- files are replaced whole ------------------------------------------------------------------------------------------


def test_a_write_replaces_the_file_with_text_bytes_or_what_a_function_writes(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    for content, expected in (("ä\n", "ä\n".encode()), (b"\x00\xff", b"\x00\xff"), (lambda f: f.write(b"x"), b"x")):
        write_atomic(file, content)
        assert file.read_bytes() == expected
    assert [f.name for f in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("bug"), KeyboardInterrupt()])
def test_an_error_in_the_middle_of_a_write_leaves_the_old_file_and_nothing_else(
    error: BaseException, tmp_path: Path
) -> None:
    file = tmp_path / "file.txt"
    write_atomic(file, "old")

    def half(f: IO[bytes]) -> None:
        f.write(b"new, but only hal")
        raise error

    with pytest.raises(NeolError if isinstance(error, OSError) else type(error)):
        write_atomic(file, half)
    assert contents(tmp_path) == {"file.txt": b"old"}


def kill_while_writing(path: Path) -> None:
    """A real process that is killed with SIGKILL in the middle of write_atomic(path)."""
    code = (
        "import os, signal, sys; from pathlib import Path; from neol.files import write_atomic\n"
        "def half(f): f.write(b'torn'); f.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomic(Path(sys.argv[1]), half)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -signal.SIGKILL


def test_a_kill_in_the_middle_of_a_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    write_atomic(file, "old")
    kill_while_writing(file)
    assert file.read_bytes() == b"old"
    write_atomic(file, "new")
    assert contents(tmp_path) == {"file.txt": b"new"}  # what the kill left is used up by the next write


FILES = (run_folder.CONFIG, run_folder.CHECKPOINT, run_folder.HISTORY, run_folder.CHAMPION, run_folder.SUMMARY)


@pytest.mark.parametrize("name", FILES)
def test_a_kill_while_any_file_is_written_leaves_a_folder_that_resumes_to_the_same_bytes(
    name: str, folder: Path
) -> None:
    before = contents(folder)
    kill_while_writing(folder / name)
    assert contents(folder).items() >= before.items()
    train("cartpole", out=folder, resume=True, **TINY)
    for file in (run_folder.CONFIG, run_folder.HISTORY, run_folder.CHAMPION):
        assert (folder / file).read_bytes() == before[file]


def test_a_kill_while_the_first_file_is_written_leaves_a_folder_that_can_be_started_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    kill_while_writing(folder / run_folder.CONFIG)
    run = train("cartpole", out=folder, resume=True, **TINY)
    assert len(run.history["generation"]) == TINY["generations"]


# -- where nothing can be written --------------------------------------------------------------------------------------


def below_a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("content")
    return tmp_path / "file" / "run"


UNWRITABLE: dict[str, Callable[[Path], Path]] = {
    "below a regular file": below_a_file,
    "in /proc": lambda _: Path("/proc/neol-run"),
    "in /proc, deeper": lambda _: Path("/proc/self/neol/run"),
    "a name that is too long": lambda tmp_path: tmp_path / ("x" * 300),
    "a path that is too long": lambda tmp_path: tmp_path.joinpath(*["x" * 200] * 30),
    "a loop of links": lambda tmp_path: looped(tmp_path) / "run",
}
unwritable = pytest.mark.parametrize("where", UNWRITABLE)


def looped(tmp_path: Path) -> Path:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return tmp_path / "loop"


@unwritable
@pytest.mark.parametrize("resume", [False, True])
def test_training_into_a_folder_that_cannot_be_written_is_refused(where: str, resume: bool, tmp_path: Path) -> None:
    out = UNWRITABLE[where](tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NeolError) as error:
        train("cartpole", out=out, resume=resume, **TINY)
    assert str(error.value).endswith(".")
    assert sorted(tmp_path.rglob("*")) == before


@unwritable
def test_writing_a_file_where_it_cannot_be_is_refused(where: str, tmp_path: Path) -> None:
    with pytest.raises(NeolError, match="cannot write"):
        write_atomic(UNWRITABLE[where](tmp_path), "content")


def test_out_that_is_a_file_is_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.write_text("mine")
    with pytest.raises(NeolError, match="cannot use"):
        train("cartpole", out=out, **TINY)
    assert contents(tmp_path) == {"run": b"mine"}


def test_out_that_holds_another_run_is_refused_and_kept(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(NeolError, match=r"already holds a run; give resume=True"):
        train("lunarlander", out=folder, **TINY)
    assert contents(folder) == before


@pytest.mark.parametrize("resume", [False, True])
def test_out_that_holds_something_else_is_refused_and_kept(resume: bool, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(NeolError, match="not empty"):
        train("cartpole", out=tmp_path, resume=resume, **TINY)
    assert contents(tmp_path) == {"thesis.tex": b"mine"}


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    assert train("cartpole", out=tmp_path, **TINY).champion.weights


# -- a full disk, for real: the kernel refuses to let a file grow ------------------------------------------------------


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may have more bytes: a write then fails with EFBIG, as one to a full disk with ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.dont_write_bytecode = True  # Python 3.11 would leave half a .pyc file
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = False
        signal.signal(signal.SIGXFSZ, handler)


def refused_for_want_of_room(size: int, words: list[Any], capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether `neol` with these words says that it cannot write, in one sentence."""
    with full_disk(size):
        code = main([str(w) for w in words])
    out, err = capsys.readouterr()
    return (code, out) == (2, "") and one_sentence(err) and "cannot write" in err


def test_a_full_disk_while_training_is_one_sentence_and_leaves_the_old_files_intact(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(folder)
    size = len(before[run_folder.CHECKPOINT]) // 2
    again = ["train", "--out", str(folder), "--resume", "--generations", "4", "--quiet"]
    assert refused_for_want_of_room(size, again, capsys)
    after = contents(folder)
    assert {k: v for k, v in after.items() if k != run_folder.CONFIG} == {
        k: v for k, v in before.items() if k != run_folder.CONFIG
    }
    assert main(again) == 0  # there is room again
    assert len(neol.load(folder).history["generation"]) == 4


def test_a_full_disk_at_the_first_checkpoint_leaves_a_folder_that_can_be_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--{k.replace('_', '-')}={v}" for k, v in TINY.items()]
    start = ["train", "cartpole", "--out", str(tmp_path / "run"), "--resume", "--quiet", *options]
    assert refused_for_want_of_room(4096, start, capsys)
    assert main(start) == 0


@pytest.mark.parametrize(("command", "name"), [("export", "old.json"), ("draw", "old.svg"), ("replay", "old.gif")])
def test_a_full_disk_while_a_network_or_picture_is_written_leaves_the_old_one(
    command: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_text("old")
    before = contents(folder)
    assert refused_for_want_of_room(1000, [command, folder, "--out", folder / name], capsys)
    assert contents(folder) == before


@pytest.mark.parametrize("command", [["export"], ["evaluate", "--episodes", "2", "--json"]])
def test_standard_output_on_a_full_disk_is_one_sentence(command: list[str], folder: Path) -> None:
    with open("/dev/full", "w") as full:
        code = [sys.executable, "-m", "neol", command[0], str(folder), *command[1:]]
        done = subprocess.run(code, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert one_sentence(done.stderr), done.stderr


# -- checkpoints -------------------------------------------------------------------------------------------------------


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy(array: np.ndarray, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=pickled)
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def refused(folder: Path, checkpoint: bytes) -> str:
    """The sentence with which a resume from this checkpoint is refused; it must leave the folder as it was."""
    (folder / run_folder.CHECKPOINT).write_bytes(checkpoint)
    before = contents(folder)
    with pytest.raises(NeolError) as error:
        train("cartpole", out=folder, resume=True, **TINY)
    assert contents(folder) == before
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    assert run_folder.CHECKPOINT in text
    return text


def test_a_checkpoint_reads_back_what_was_written(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b.c": np.array(7), "d": np.array([True, False])}
    run_folder.write_checkpoint(tmp_path, arrays, Config())
    back = run_folder.read_checkpoint(tmp_path, Config())
    assert back.keys() == arrays.keys()
    assert all(back[k].dtype == v.dtype and (back[k] == v).all() for k, v in arrays.items())


def test_a_truncated_checkpoint_is_refused_at_any_length(folder: Path) -> None:
    whole = (folder / run_folder.CHECKPOINT).read_bytes()
    config = neol.load(folder).config
    lengths = {0, 1, 2, 3, 4, 30, 100, len(whole) - 1, len(whole) - 2, len(whole) - 22, len(whole) - 23}
    for length in sorted(lengths | set(range(0, len(whole), len(whole) // 150))):
        (folder / run_folder.CHECKPOINT).write_bytes(whole[:length])
        with pytest.raises(NeolError, match=r"checkpoint.*\.$"):
            run_folder.read_checkpoint(folder, config)
    refused(folder, whole[: len(whole) // 2])


def test_a_checkpoint_with_a_flipped_bit_is_refused_or_reads_as_it_was(folder: Path) -> None:
    whole = (folder / run_folder.CHECKPOINT).read_bytes()
    config = neol.load(folder).config
    expected = run_folder.read_checkpoint(folder, config)
    rng = np.random.default_rng(0)
    directory = whole.rindex(b"PK\x01\x02") - 1500  # flips there reach zipfile's own checks
    places = [*rng.integers(len(whole), size=300), *rng.integers(directory, len(whole), size=300)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        (folder / run_folder.CHECKPOINT).write_bytes(damaged)
        try:
            arrays = run_folder.read_checkpoint(folder, config)
        except NeolError:
            continue
        for name, array in arrays.items():  # a flip in a name loses the array; none may change
            assert name not in expected or array.tobytes() == expected[name].tobytes()


FOREIGN: dict[str, Callable[[Path], bytes]] = {
    "empty": lambda _: b"",
    "text": lambda _: b"hello, world\n" * 50,
    "a picture": lambda _: b"\x89PNG\r\n\x1a\n" + bytes(100),
    "a single array": lambda _: npy(np.zeros(3)),
    "an empty zip": lambda _: zipped(),
    "a zip of text": lambda _: zipped(neol_checkpoint=b"1"),
    "someone else's arrays": lambda _: npz(weights=np.zeros(3)),
    "no arrays but the version": lambda _: npz(neol_checkpoint=np.array(run_folder.CHECKPOINT_VERSION)),
    "an older version": lambda _: npz(neol_checkpoint=np.array(run_folder.CHECKPOINT_VERSION - 1)),
    "a newer version": lambda _: npz(neol_checkpoint=np.array(run_folder.CHECKPOINT_VERSION + 1)),
    "a version that is a word": lambda _: npz(neol_checkpoint=np.array("latest")),
    "a version that is a vector": lambda _: npz(neol_checkpoint=np.array([1, 1])),
    "a version that is complex": lambda _: npz(neol_checkpoint=np.array(1j)),
    "a version that is nan": lambda _: npz(neol_checkpoint=np.array(np.nan)),
    "an array of absurd size": lambda _: zipped(
        **{"neol_checkpoint.npy": npy(np.zeros(3)).replace(b"(3,)", b"(9**9,)")}
    ),
    "a huge array": lambda _: zipped(
        **{"neol_checkpoint.npy": npy(np.array(1)), "history.npy": huge_array()},
    ),
    "a pickle": lambda path: pickle.dumps(Bomb(path)),
    "an array of objects": lambda path: npz(
        neol_checkpoint=np.array(run_folder.CHECKPOINT_VERSION), history=np.array([Bomb(path)], object)
    ),
    "a version that is an object": lambda path: npz(neol_checkpoint=np.array(Bomb(path), object)),
}


def huge_array() -> bytes:
    """The header of an array of 8 EB, and no data."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**18,)})
    return file.getvalue()


@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_checkpoint_is_refused_in_one_sentence_and_nothing_is_unpickled(
    what: str, folder: Path, tmp_path: Path
) -> None:
    exploded = tmp_path / "exploded"
    refused(folder, FOREIGN[what](exploded))
    assert not exploded.exists()


@pytest.mark.parametrize("other", [{"pop_size": 14}, {"seed": 1}, {"num_hidden": 2}])
def test_the_checkpoint_of_another_run_is_refused(other: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    theirs = train("cartpole", out=tmp_path / "other", **{**TINY, **other})
    refused(folder, (theirs.path / run_folder.CHECKPOINT).read_bytes())


def test_the_checkpoint_of_another_task_is_refused(folder: Path, tmp_path: Path) -> None:
    theirs = train("lunarlander", out=tmp_path / "other", **TINY)
    refused(folder, (theirs.path / run_folder.CHECKPOINT).read_bytes())


def changed(folder: Path, **arrays: Any) -> bytes:
    """The folder's checkpoint with some arrays replaced (None: left out)."""
    old = {
        **run_folder.read_checkpoint(folder, neol.load(folder).config),
        "neol_checkpoint": np.array(run_folder.CHECKPOINT_VERSION),
    }
    return npz(**{k: v for k, v in {**old, **arrays}.items() if v is not None})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("history", None),
        ("history", np.zeros(4)),
        ("history", np.zeros((2, 3))),
        ("history", np.array([["a"] * 15])),
        ("outer.generation", np.array([1, 2])),
        ("outer.genomes.weight", None),
        ("outer.genomes.weight", np.zeros((10, 1))),
        ("outer.genomes.weight", np.zeros(3)),
        ("outer.genomes.node_id", np.zeros((10, 6))),
        ("outer.genomes.colour", np.zeros(3)),
        ("archive.n_nodes", None),
        ("finalists.weight", np.zeros((1, 1))),
    ],
)
def test_a_checkpoint_whose_arrays_do_not_fit_together_is_refused(name: str, value: Any, folder: Path) -> None:
    """Kernels do not check bounds: what reaches them must fit."""
    refused(folder, changed(folder, **{name: value}))


# -- the other files ---------------------------------------------------------------------------------------------------


def test_a_table_reads_back_to_the_same_bits(tmp_path: Path) -> None:
    rows = [[0, 0.1], [1, -1e-310], [2, float("inf")], [3, 1 / 3]]
    run_folder.write_table(tmp_path / "t.csv", ("n", "x"), rows)
    table = run_folder.read_table(tmp_path / "t.csv")
    assert table["n"].dtype == np.int64
    assert (table["n"].tolist(), table["x"].tolist()) == ([0, 1, 2, 3], [0.1, -1e-310, float("inf"), 1 / 3])


@pytest.mark.parametrize("text", ["", "a,b\n1\n", "a,b\n1,x\n", "a\n\x00\n", "a,b\n1,2,3\n", "\xff"])
def test_a_damaged_table_is_refused(text: str, folder: Path) -> None:
    (folder / run_folder.HISTORY).write_bytes(text.encode("latin-1"))
    with pytest.raises(NeolError, match=r"history\.csv"):
        _ = neol.load(folder).history


@pytest.mark.parametrize("text", ["", "{", "[1]", "nul", "\xff", "[" * 100_000])
def test_a_damaged_summary_is_refused(text: str, folder: Path) -> None:
    (folder / run_folder.SUMMARY).write_bytes(text.encode("latin-1"))
    with pytest.raises(NeolError, match=r"summary\.json"):
        _ = neol.load(folder).summary


@pytest.mark.parametrize("text", ["[run]\ntask = 'carpole'", "[run]\nsede = 1", "[", "\xff", "[run]\nseed = -1"])
def test_a_damaged_config_is_refused(text: str, folder: Path) -> None:
    (folder / run_folder.CONFIG).write_bytes(text.encode("latin-1"))
    before = contents(folder)
    with pytest.raises(NeolError):
        train("cartpole", out=folder, resume=True, **TINY)
    assert contents(folder) == before


def test_a_folder_without_a_run_is_not_one(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(NeolError, match="not a run's folder"):
            neol.load(path)


def test_an_unfinished_run_says_how_to_finish_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        train("cartpole", out=tmp_path / "run", callback=lambda _: (_ for _ in ()).throw(RuntimeError), **TINY)
    with pytest.raises(NeolError, match=r"no champion.json yet; train it with out and resume=True"):
        _ = neol.load(tmp_path / "run").champion


def test_versions_name_what_results_depend_on() -> None:
    versions = run_folder.versions()
    assert versions["numpy"] == np.__version__
    assert versions["neol"] == neol.__version__
    assert "not installed" not in versions.values()


def test_a_config_survives_its_file(tmp_path: Path) -> None:
    config = Config().replace(lr=1 / 3, activation_options=("tanh", "sin"), preactivation_limit=float("inf"))
    write_atomic(tmp_path / run_folder.CONFIG, config.to_toml())
    assert run_folder.read_config(tmp_path) == config
