"""Checkpoints as a stranger could craft them: the fingerprint is valid, an array is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from neol.config.schema import Config
from neol.training import run_folder


def read(folder: Path) -> dict[str, np.ndarray]:
    return run_folder.read_checkpoint(folder, run_folder.read_config(folder))


def write(folder: Path, arrays: dict[str, np.ndarray], config: Config | None = None) -> None:
    """With a valid fingerprint; of the folder's configuration, which is read where it is not given."""
    run_folder.write_checkpoint(folder, arrays, config or run_folder.read_config(folder))


def spoiled(array: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray | None]]:
    """The array in ways that it must not be, or may be by chance."""
    yield "missing", None
    yield "another dtype", array.astype({"f": "f4", "i": "i2", "u": "i8", "b": "i8", "U": "S9"}[array.dtype.kind])
    yield "bytes swapped", array.astype(array.dtype.newbyteorder(">"))
    yield "text", np.full(array.shape, "x")
    yield "one axis more", array[None]
    yield "flat", array.ravel()
    yield "empty", array.ravel()[:0].reshape([0] * max(array.ndim, 1))
    if array.ndim:
        yield "one fewer", array[:-1]
        yield "one more", np.concatenate([array, array[-1:]])
        yield "narrower", array[..., :-1]
        yield "backwards", array[::-1]
        yield "in Fortran's order", np.asfortranarray(array)
    if array.dtype.kind in "iuf" and array.size:
        info: Any = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        values = [info.min, info.max, -1, 0, 1, 1000, 2**30]
        for value in [*values, *((np.nan, np.inf) if array.dtype.kind == "f" else ())]:
            if array.dtype.kind in "iu" and not info.min <= value <= info.max:
                continue
            one = array.copy()
            one.flat[int(rng.integers(array.size))] = value
            yield f"one is {value}", one
            yield f"all are {value}", np.full_like(array, value)
        yield "shuffled", rng.permutation(array.ravel()).reshape(array.shape)
    if array.dtype.kind == "b":
        yield "turned", ~array
