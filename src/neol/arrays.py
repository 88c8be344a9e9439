"""Named arrays from a file, checked against a declaration before anything uses them: kernels have no bounds checks.

    declared = {"mean": Array("f8", ("D",)), "step": Array("f8", (), low=0.0), "genomes": Population(...)}
    arrays = checked(arrays, declared, "'run/checkpoint.npz'")

A size may be a number or a name ("D"), which stands for the same number wherever it occurs. A group (neat/checked.py
has one for genomes) declares arrays `name.column` of its own and checks how they refer to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from neol.errors import NeolError, nearest


class Array(NamedTuple):
    """What an array must be. Limits are inclusive and are not for text; nan lies in none."""

    dtype: str  # as NumPy writes it; "U" = text of any length
    shape: tuple[int | str, ...] = ()
    low: float | None = None
    high: float | str | None = None  # a name: below that size
    least: int = 0  # of every size
    optional: bool = False


class Group(Protocol):
    """Several arrays that belong together."""

    def columns(self) -> Mapping[str, Array]:
        """By the names that follow the group's own and a dot. A size that begins with '.' is the group's alone."""

    def fault(self, arrays: Mapping[str, np.ndarray]) -> str:
        """What is wrong with these columns, each of which is as declared; '' = nothing."""


Declared = Mapping[str, Array | Group]


def checked(arrays: Mapping[str, np.ndarray], declared: Declared, what: str) -> dict[str, np.ndarray]:
    """The arrays, contiguous, or a NeolError that names the first that is not as declared. `what` holds them."""
    single = {name: spec for name, spec in declared.items() if isinstance(spec, Array)}
    groups = {name: spec for name, spec in declared.items() if not isinstance(spec, Array)}
    for name, group in groups.items():
        single |= {f"{name}.{column}": _local(spec, name) for column, spec in group.columns().items()}
    unknown = [name for name in arrays if name not in single]
    if unknown:
        raise NeolError(
            f"{what} is damaged: it has an unknown array '{unknown[0][:60]}'; {nearest(unknown[0], single)}"
        )
    sizes: dict[str, int] = {}
    out: dict[str, np.ndarray] = {}
    for name, spec in single.items():
        if name in arrays:
            out[name] = np.ascontiguousarray(arrays[name]).reshape(np.shape(arrays[name]))
            why = _shape_fault(out[name], spec, sizes)
        else:
            why = "" if spec.optional else "is missing"
        if why:
            raise NeolError(f"{what} is damaged: {name} {why}.")
    for name, array in out.items():
        why = _range_fault(array, single[name], sizes)
        if why:
            raise NeolError(f"{what} is damaged: {name} {why}.")
    for name, group in groups.items():
        why = group.fault({k[len(name) + 1 :]: v for k, v in out.items() if k.startswith(f"{name}.")})
        if why:
            raise NeolError(f"{what} is damaged: in {name} {why}.")
    return out


def like(arrays: Mapping[str, np.ndarray]) -> dict[str, Array | Group]:
    """The declaration of arrays that are like these: the same names, dtypes and numbers of axes."""
    return {
        name: Array("U" if a.dtype.kind == "U" else a.dtype.str, tuple(f"{name}[{i}]" for i in range(a.ndim)))
        for name, a in ((k, np.asarray(v)) for k, v in arrays.items())
    }


def same(arrays: Mapping[str, np.ndarray]) -> dict[str, Array | Group]:
    """The declaration of arrays with exactly these shapes."""
    return {name: Array(np.asarray(a).dtype.str, np.shape(a)) for name, a in arrays.items()}


def _local(spec: Array, group: str) -> Array:
    """With the group's own sizes apart from all others."""
    shape = tuple(f"{group}{n}" if isinstance(n, str) and n.startswith(".") else n for n in spec.shape)
    high = f"{group}{spec.high}" if isinstance(spec.high, str) and spec.high.startswith(".") else spec.high
    return spec._replace(shape=shape, high=high)


def _shape_fault(array: np.ndarray, spec: Array, sizes: dict[str, int]) -> str:
    right = array.dtype.kind == "U" if spec.dtype == "U" else array.dtype == np.dtype(spec.dtype)
    if not right or array.ndim != len(spec.shape):
        return f"is {array.dtype.str} of {array.ndim} axes, not {np.dtype(spec.dtype).str} of {len(spec.shape)}"
    for size, wanted in zip(array.shape, spec.shape, strict=True):
        wanted = sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted
        if size != wanted:
            return f"has the shape {array.shape}, in which {size} should be {wanted}"
        if size < spec.least:
            return f"has the shape {array.shape}, in which every size must be at least {spec.least}"
    return ""


def _range_fault(array: np.ndarray, spec: Array, sizes: Mapping[str, int]) -> str:
    high = sizes[spec.high] - 1 if isinstance(spec.high, str) else spec.high
    if not array.size or (spec.low is None and high is None):
        return ""
    low = -np.inf if spec.low is None else spec.low
    above = np.inf if high is None else high
    if bool(((array >= low) & (array <= above)).all()):
        return ""
    return f"has values from {array.min()} to {array.max()}; they must lie from {low} to {above}"
