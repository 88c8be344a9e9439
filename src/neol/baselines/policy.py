"""What a baseline learned, as plain arrays: a multi-layer perceptron that acts without noise, and its episodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neol.baselines.pools import open_pool
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.files import write_atomic
from neol.rollout.world import UNCHANGED, World

ARGMAX, CLIP, TANH = "argmax", "clip", "tanh"  # how the last layer becomes an action
CLIP_OBSERVATION, EPSILON = 10.0, 1e-8  # VecNormalize's own


class Policy(NamedTuple):
    """Layers y = f(x W + b); f is the activation, at the last layer what makes it an action (within [-1, 1])."""

    weights: tuple[np.ndarray, ...]  # f4 (from, to) each
    biases: tuple[np.ndarray, ...]  # f4 (to,) each
    activation: str  # tanh | relu
    output: str  # ARGMAX | CLIP | TANH
    mean: np.ndarray  # f8 (I,) of the observations that it was trained on; empty: they are taken as they are
    var: np.ndarray  # f8 (I,)

    def act(self, observations: np.ndarray) -> np.ndarray:
        """The most likely actions for observations (B, I)."""
        x = observations
        if len(self.mean):
            x = np.clip((x - self.mean) / np.sqrt(self.var + EPSILON), -CLIP_OBSERVATION, CLIP_OBSERVATION)
        x = x.astype(np.float32)
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ w + b
            x = np.tanh(x) if self.activation == "tanh" else np.maximum(x, 0.0)
        x = x @ self.weights[-1] + self.biases[-1]
        if self.output == ARGMAX:
            return x.argmax(axis=1)
        return np.tanh(x) if self.output == TANH else np.clip(x, -1.0, 1.0)

    @property
    def connections(self) -> int:
        return sum(w.size for w in self.weights)

    @property
    def nodes(self) -> int:
        return sum(b.size for b in self.biases)

    @property
    def parameters(self) -> int:
        """Numbers that an action depends on, besides the observation's normalisation."""
        return self.connections + self.nodes

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything by name."""
        layers = {f"weight{i}": w for i, w in enumerate(self.weights)}
        layers |= {f"bias{i}": b for i, b in enumerate(self.biases)}
        names = {"activation": np.array(self.activation), "output": np.array(self.output)}
        return {**layers, **names, "mean": self.mean, "var": self.var}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Policy:
    """The policy that `arrays` came from."""
    count = sum(k.startswith("weight") for k in arrays)
    weights, biases = (tuple(arrays[f"{k}{i}"] for i in range(count)) for k in ("weight", "bias"))
    _check(weights, biases, arrays)
    return Policy(
        weights, biases, str(arrays["activation"]), str(arrays["output"]), arrays["mean"], arrays["var"]
    )  # fmt: skip


def _check(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], arrays: Mapping[str, np.ndarray]) -> None:
    """A ValueError where layers do not fit each other, or names are others."""
    for w, b in zip(weights, biases, strict=True):
        fits = w.dtype == b.dtype == np.float32 and w.ndim == 2 and b.shape == w.shape[1:] and w.size
        if not fits:
            raise ValueError(f"a layer of {w.dtype} {w.shape} with biases of {b.dtype} {b.shape}")
    sizes = [w.shape for w in weights]
    if not sizes or any(a[1] != b[0] for a, b in pairwise(sizes)):
        raise ValueError(f"layers of {sizes} do not fit")
    for name in ("mean", "var"):
        if arrays[name].dtype != np.float64 or arrays[name].shape not in ((0,), (sizes[0][0],)):
            raise ValueError(f"{name} of {arrays[name].dtype} {arrays[name].shape}")
    if len(arrays["mean"]) != len(arrays["var"]):
        raise ValueError("mean and var do not fit")
    if str(arrays["activation"]) not in ("tanh", "relu") or str(arrays["output"]) not in (ARGMAX, CLIP, TANH):
        raise ValueError(f"activation {arrays['activation']!s:.20}, output {arrays['output']!s:.20}")


def save_policy(path: Path, policy: Policy) -> None:
    write_atomic(path, lambda f: np.savez(f, **policy.arrays()))  # type: ignore[arg-type]


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in a file, or the champion of a baseline's folder."""
    file = Path(path) / "champion.npz" if Path(path).is_dir() else Path(path)
    try:
        with np.load(file, allow_pickle=False) as data:
            return from_arrays({k: data[k] for k in data.files})
    except OSError as e:
        raise NeolError(f"cannot read '{file}': {e.strerror or 'not a policy'}.") from None
    except Exception as e:  # zip, header and memory errors of whatever bytes are in the file
        raise NeolError(f"'{file}' is damaged or not a policy: {e}.") from None


def play(
    policy: Policy,
    task: Task,
    seeds: Sequence[int] | np.ndarray,
    max_steps: int,
    threads: int = 1,
    world: World = UNCHANGED,
    names: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns f8 (E,) and steps i8 (E,) of an episode for each seed, each in an environment of its own.

    names u8 (E,): of the lives, where the world changes.
    """
    named = np.zeros(len(seeds), np.uint64) if names is None else names
    pool = open_pool(task, np.asarray(seeds), max_steps, threads, world, named)
    try:
        returns, steps = np.zeros(len(seeds)), np.zeros(len(seeds), np.int64)
        rows = pool.reset(np.arange(len(seeds), dtype=np.int32))
        ids, observations = rows.ids, rows.observations
        while len(ids):
            rows = pool.step(ids, policy.act(observations))
            returns[rows.ids] += rows.counted
            steps[rows.ids] += 1
            ids, observations = rows.ids[~rows.done], rows.observations[~rows.done]
    finally:
        pool.close()
    return returns, steps
