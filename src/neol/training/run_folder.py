"""A run's folder: config.toml, history.csv, timing.csv, checkpoint.npz, champion.json, summary.json.

Every file is replaced whole, so a killed run leaves each as it was or as it should be. The checkpoint holds everything,
the history included; the other files are made from it again at a resume. No pickle is ever written or read.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from neol.config.schema import Config, fields
from neol.errors import NeolError
from neol.files import check_no_links, finite, is_part, read_text, write_atomic
from neol.system import lock_file

CHECKPOINT_VERSION = 3
CONFIG, HISTORY, TIMING = "config.toml", "history.csv", "timing.csv"
CHECKPOINT, CHAMPION, SUMMARY = "checkpoint.npz", "champion.json", "summary.json"
EVENTS = "events.jsonl"
START = "start.json"  # the champion that the run began from
SUBSTRATE, CPPN = "substrate.json", "cppn.json"  # of HyperNEAT: where nodes are, and what painted the champion
POLICY, FINAL_POLICY = "champion.npz", "final.npz"  # of a baseline
REPLACED = ".replaced.part.run"  # a run that is being overwritten, until the new one has a checkpoint
FINETUNE = "\n[finetune]\n"  # in config.toml: what follows is the part that gradients have in the run
LOCK = ".run.part.lock"  # held by the process that works on the folder
TENSORBOARD = "tensorboard"  # a folder
PICTURES = ("agent.mp4", "network.svg", "curve.svg", "cppn.svg", "substrate.svg", "patterns.svg")
# In the order in which they are removed: a folder that is half removed is still a run's.
RUN_FILES = (
    SUMMARY, CHAMPION, POLICY, FINAL_POLICY, CPPN, CHECKPOINT, HISTORY, TIMING, EVENTS, START, SUBSTRATE, *PICTURES,
    CONFIG,
)  # fmt: skip
# What a resume may change: none of it alters the generations that were or the ones to come.
MAY_CHANGE = (
    "generations", "max_env_steps", "fitness_target", "threads", "window", "tensorboard",
    "workers", "executor", "ray_address", "step_timeout",
    "champion_candidates", "champion_trials", "champion_episodes",
)  # fmt: skip


class Settings(Protocol):
    """What a run was started with, by name."""

    def flat(self) -> dict[str, Any]: ...


def open_folder(
    path: Path, config: Config, resume: bool, said: Mapping[str, Any], overwrite: bool = False
) -> tuple[Config, bool]:
    """Prepare the folder; return the configuration to run and whether a run is there to go on with.

    `said`: the settings that the user named; at a resume the stored ones hold otherwise.
    """
    if claim_folder(path, config.to_toml(), resume, overwrite):
        if FINETUNE in read_config_text(path):
            raise NeolError(f"'{path}' is a run of `neol finetune`, which goes on with it, with --resume.")
        stored = read_config(path)
        now = stored.replace(**{k: v for k, v in said.items() if k in fields()})
        old, new = stored.flat(), now.flat()
        changed = [k for k in new if new[k] != old[k] and k not in MAY_CHANGE]
        if changed:
            name = changed[0]
            raise NeolError(
                f"{name} = {new[name]} is not allowed with --resume; '{path}' was run with {name} = {old[name]}."
            )
        return now, (path / CHECKPOINT).exists()
    return config, False


def claim_folder(path: Path, config: str, resume: bool, overwrite: bool = False) -> bool:
    """Whether the folder holds a run to go on with; else it is made, with this config.toml."""
    if resume and overwrite:
        raise NeolError("--resume is not allowed with --overwrite; a run is gone on with, or begun anew.")
    check_no_links(path, (*RUN_FILES, REPLACED, TENSORBOARD))
    try:
        settle_replaced(path)
        if (path / CONFIG).exists() and resume:
            return True
        if (path / CONFIG).exists() and (overwrite or not _has_begun(path)):
            _put_aside(path)
        elif (path / CONFIG).exists():
            raise NeolError(
                f"'{path}' already holds a run; give --resume to go on with it, --overwrite to begin anew, or another "
                "--out."
            )
        elif path.is_dir() and not is_free(path):
            raise NeolError(f"'{path}' is not empty and holds no run; give another --out.")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise NeolError(f"cannot use '{path}' as a run's folder: {e.strerror}.") from None
    write_atomic(path / CONFIG, config)
    return False


@contextmanager
def withdrawn_if_refused(path: Path) -> Iterator[None]:
    """A run that is refused before it has anything to show leaves no folder, and the run that it should overwrite
    stays; what it has to tell of faults (events.jsonl) stays too, where it overwrites none."""
    try:
        yield
    except NeolError:
        if not _has_begun(path) and ((path / REPLACED).exists() or not (path / EVENTS).exists()):
            (path / CONFIG).unlink(missing_ok=True)
            (path / START).unlink(missing_ok=True)
            (path / SUBSTRATE).unlink(missing_ok=True)
            settle_replaced(path)
        raise


def is_free(path: Path) -> bool:
    """Whether nothing is there, or an empty folder."""
    return not path.exists() or (path.is_dir() and all(is_part(f) for f in path.iterdir()))


def is_taken(path: Path) -> bool:
    """Whether a default folder's name is in use, be it for a run that has just begun."""
    return not is_free(path) or (path / LOCK).exists()


def _has_begun(path: Path) -> bool:
    """Whether a run's folder has more than its settings: one that failed before its first checkpoint blocks nothing."""
    return any((path / name).exists() for name in (CHECKPOINT, SUMMARY, CHAMPION, POLICY))


def _put_aside(path: Path) -> None:
    """What a run wrote goes into a folder of its own until the next one has a checkpoint; all else stays as it is."""
    (path / REPLACED).mkdir(exist_ok=True)
    for name in RUN_FILES:
        if (path / name).is_file():
            os.replace(path / name, path / REPLACED / name)


def settle_replaced(path: Path) -> None:
    """Of a run that was put aside: gone if its successor has begun, back in its place if not."""
    aside = path / REPLACED
    if not aside.is_dir():
        return
    if not _has_begun(path):
        (path / EVENTS).unlink(missing_ok=True)
        for file in aside.iterdir():
            os.replace(file, path / file.name)
    shutil.rmtree(aside)


class Busy(NeolError):
    """Another process works on the folder."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """The folder, made if need be, to ourselves; the operating system frees it with the process, whatever ends that."""
    try:
        created = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_file(path / LOCK)
    except OSError as e:
        raise NeolError(f"cannot use '{path}' as a run's folder: {e.strerror}.") from None
    if lock is None:
        raise Busy(f"another process is working on '{path}'; wait for it to end, or give another --out.")
    try:
        yield
    finally:
        with suppress(OSError):
            (path / LOCK).unlink(missing_ok=True)
        lock.close()
        if created:
            with suppress(OSError):
                path.rmdir()  # unless something is in it


def read_config(path: Path) -> Config:
    """The configuration of a run's folder."""
    text = read_config_text(path)
    if text.startswith("[baseline]"):
        raise NeolError(f"'{path}' is a baseline's run, of `neol baseline`, which goes on with it, with --resume.")
    return Config.from_toml(text.partition(FINETUNE)[0], f"'{path / CONFIG}'")


def read_config_text(path: Path) -> str:
    try:
        return read_text(path / CONFIG)
    except OSError as e:
        raise NeolError(f"'{path}' is not a run's folder: cannot read {CONFIG}: {e.strerror}.") from None
    except UnicodeDecodeError:
        raise NeolError(f"'{path / CONFIG}' is not UTF-8 text.") from None


def write_checkpoint(path: Path, arrays: Mapping[str, np.ndarray], config: Settings) -> None:
    """Replace the checkpoint with these named arrays."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise NeolError(f"'{name}' cannot be saved; a state must be arrays of numbers or text, not of objects.")
    named = {_VERSION: np.array(CHECKPOINT_VERSION), **arrays, _DIGEST: _digest(arrays, config)}
    write_atomic(path / CHECKPOINT, lambda f: np.savez(f, **named))  # type: ignore[arg-type]


def read_checkpoint(path: Path, config: Settings) -> dict[str, np.ndarray]:
    """The arrays of the checkpoint of this very run, or a NeolError: kernels trust what comes out of here."""
    file = path / CHECKPOINT
    try:
        if file.exists() and not file.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        with np.load(file, allow_pickle=False) as data:
            arrays = {k: data[k] for k in data.files}
    except OSError as e:
        raise NeolError(f"cannot read '{file}': {e.strerror or 'not a checkpoint'}.") from None
    except Exception as e:  # zip, header and memory errors of whatever bytes are in the file
        raise NeolError(f"'{file}' is damaged or not a checkpoint: {e}.") from None
    version, digest = arrays.pop(_VERSION, None), arrays.pop(_DIGEST, None)
    if not np.array_equal(version, CHECKPOINT_VERSION) or digest is None:
        raise NeolError(f"'{file}' is not a NEOL checkpoint of version {CHECKPOINT_VERSION}{_other_version(version)}.")
    if not np.array_equal(digest, _digest(arrays, config)):
        raise NeolError(f"'{file}' is damaged, or the checkpoint of another run.")
    return arrays


def _other_version(version: np.ndarray | None) -> str:
    """What to do with a checkpoint of another version."""
    if version is None or np.shape(version) or np.asarray(version).dtype.kind not in "iu":
        return ""
    return (
        f" but of {int(version)}; finish it with the NEOL that wrote it (champion.json is read by every version), or "
        "train anew into another --out"
    )


_VERSION, _DIGEST = "neol_checkpoint", "neol_digest"


def _digest(arrays: Mapping[str, np.ndarray], config: Settings) -> np.ndarray:
    """A fingerprint u1 (32,) of the arrays and of the settings that they depend on."""
    usual = Config().flat()  # what is as usual does not count, so that a new setting leaves old checkpoints valid
    settings = {k: v for k, v in sorted(config.flat().items()) if k not in MAY_CHANGE and usual.get(k) != v}
    digest = hashlib.sha256(repr(settings).encode())
    for name, array in sorted(arrays.items()):
        array = np.asarray(array)
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[float]]) -> None:
    """A CSV file; floats in the shortest form that reads back to the same bits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_number(v) for v in row] for row in rows])
    write_atomic(path, text.getvalue())


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int | np.integer) else repr(float(value))


def read_table(path: Path) -> dict[str, np.ndarray]:
    """A CSV file of numbers as columns."""
    try:
        header, *rows = list(csv.reader(io.StringIO(read_text(path), newline="")))
        columns = list(zip(*rows, strict=True)) or [()] * len(header)
        return dict(zip(header, [_column(c) for c in columns], strict=True))
    except OSError as e:
        raise NeolError(f"cannot read '{path}': {e.strerror}.") from None
    except (ValueError, OverflowError, csv.Error) as e:
        raise NeolError(f"'{path}' is not a table of numbers: {e}.") from None


def _column(texts: Sequence[str]) -> np.ndarray:
    whole = all(t.lstrip("-").isdigit() for t in texts)
    return np.array([int(t) for t in texts], np.int64) if whole else np.array([float(t) for t in texts])


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_atomic(path, json.dumps(finite(value), indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_text(path))
    except OSError as e:
        raise NeolError(f"cannot read '{path}': {e.strerror}.") from None
    except (ValueError, RecursionError) as e:
        raise NeolError(f"'{path}' is not JSON: {e}.") from None
    if not isinstance(value, dict):
        raise NeolError(f"'{path}' must hold a JSON object.")
    return value


def versions(*more: str) -> dict[str, str]:
    """Versions of everything that results may depend on."""
    out = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    names = ("neol", "numpy", "numba", "llvmlite", "envpool", "gymnasium", "mujoco", "ray", *more)
    return out | {name: _version(name) for name in names}


@cache
def _version(package: str) -> str:
    """Read once: to parse a package's metadata takes milliseconds, a quarter of a tiny run."""
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
