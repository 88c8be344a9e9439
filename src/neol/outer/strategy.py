"""One face for the evolution strategies: sample, update, grow; and what each uses where the user says nothing.

Legend: n numbers searched, L samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neol import seeding
from neol.arrays import Array, Group
from neol.config.sections import EsConfig
from neol.errors import NeolError
from neol.jit import kernel
from neol.outer import cma, gradients
from neol.outer.cma import Cma
from neol.outer.gradients import Gradient

HUGE = 1e100  # the largest number that a state may hold: its square is one, too
CMA, SEP_CMA = "cma", "sep-cma"
# Rates of the running means of the mean: what a generation's noise moved to and fro is averaged away.
AVERAGED = (0.3, 0.1)
CMA_LIMIT = 300  # numbers up to which auto learns a whole covariance, at no visible cost; beyond, a diagonal one
LEAST_SAMPLES = 24  # of both, unless they are told
FEW = 30  # numbers up to which CMA-ES begins with large steps (0.5)
REACH = 0.75  # beyond: the first spread of what a node receives from inputs of size 1; on the walkers 0.73 was best


class Knobs(NamedTuple):
    """How a strategy works: its kind, samples per generation, first step size, and a gradient's rate and best pairs."""

    kind: str
    samples: int
    sigma: float
    rate: float
    top: int


def knobs(config: EsConfig, n: int, inputs: int) -> Knobs:
    """What the settings say, and where they say 0 or auto what suits n numbers of a network with so many inputs."""
    kind = (CMA if n <= CMA_LIMIT else SEP_CMA) if config.es == "auto" else config.es
    sigma = 0.5 if n <= FEW else min(0.5, REACH / inputs**0.5)
    covariance = (max(LEAST_SAMPLES, cma.default_samples(n)), sigma, 0.0)
    usual = {
        CMA: covariance,
        SEP_CMA: covariance,
        gradients.ARS: (16, 0.025, 0.01),
        gradients.OPENAI: (40, 0.05, 0.02),
        gradients.PGPE: (40, 0.1, 0.1),
    }[kind]
    samples = config.es_population or usual[0]
    if kind not in (CMA, SEP_CMA):
        samples += samples % 2  # pairs
    top = min(config.es_top or samples // 4, samples // 2)
    return Knobs(kind, samples, config.es_sigma or usual[1], config.es_rate or usual[2], max(1, top))


class Strategy:
    """A search distribution. Its state is arrays; what it draws is named by (seed, generation, `stream`)."""

    def __init__(self, knobs: Knobs, mean: np.ndarray, scale: np.ndarray) -> None:
        self.knobs = knobs
        self.at: Cma | Gradient
        if knobs.kind in (CMA, SEP_CMA):
            self.at = cma.new_cma(mean, scale, knobs.sigma, knobs.kind == SEP_CMA)
        else:
            self.at = gradients.new_gradient(mean, scale, knobs.sigma)
        self.averages = np.tile(mean, (len(AVERAGED), 1))  # f8 (2, n) of the means so far

    @property
    def mean(self) -> np.ndarray:
        return self.at.mean

    def ask(self, samples: int, seed: int, generation: int, stream: int) -> np.ndarray:
        """Samples f8 (L, n)."""
        if isinstance(self.at, Cma):
            return cma.sample(self.at, noise(seed, generation, stream, samples, len(self.mean)))
        return gradients.sample(self.at, noise(seed, generation, stream, samples // 2, len(self.mean)))

    def told(self, found: np.ndarray, fitness: np.ndarray, widest: np.ndarray) -> Strategy:
        """The strategy after its samples f8 (L, n), as their lives left them, had this fitness f8 (L,).

        `widest` f8 (n,): standard deviations that a distribution which adapts them never exceeds.
        """
        k = self.knobs
        at: Cma | Gradient
        if isinstance(self.at, Cma):
            at = cma.within(cma.updated(self.at, found, fitness), widest)
        else:
            at = gradients.updated(self.at, k.kind, found, fitness, k.rate, k.top)
        rates = np.maximum(np.array(AVERAGED), 1.0 / float(at.told[0]))[:, None]
        return self._with(at, self.averages + rates * (at.mean - self.averages))

    def _with(self, at: Cma | Gradient, averages: np.ndarray) -> Strategy:
        out = object.__new__(Strategy)
        out.knobs, out.at, out.averages = self.knobs, at, averages
        return out

    def best_guesses(self) -> np.ndarray:
        """The mean, and its running averages: f8 (3, n)."""
        return np.concatenate([self.mean[None], self.averages])

    def resized(self, source: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> Strategy:
        """The strategy over another set of numbers: number i was source[i], or is new (-1) and starts at mean[i]."""
        averages = np.where(source < 0, mean, self.averages[:, source])
        if isinstance(self.at, Cma):
            wide = scale * float(np.median(cma.spread(self.at)))
            return self._with(cma.resized(self.at, source, mean, wide), averages)
        return self._with(gradients.resized(self.at, source, mean, scale), averages)

    def spread(self) -> np.ndarray:
        """The standard deviation of each number, f8 (n,)."""
        return self.at.sigma[0] * cma.spread(self.at) if isinstance(self.at, Cma) else self.at.sigma

    def metrics(self) -> dict[str, float]:
        if isinstance(self.at, Cma):
            return {"sigma": float(self.at.sigma[0]), "condition": cma.condition(self.at)}
        s = self.at.sigma
        return {"sigma": float(np.exp(np.log(s).mean())), "condition": float((s.max() / s.min()) ** 2)}

    def state(self) -> dict[str, np.ndarray]:
        return {k: v.copy() for k, v in self.at._asdict().items()} | {"averages": self.averages.copy()}

    def declared(self, name: str, n: int | str) -> dict[str, Array | Group]:
        """What a file must have as the arrays `name.*` of its state, for n numbers."""
        vector = Array("f8", (n,), low=-HUGE, high=HUGE)
        columns = {
            "mean": vector,
            "told": Array("i8", (1,), 0, 2**53),
            "averages": vector._replace(shape=(len(AVERAGED), n)),
        }
        if isinstance(self.at, Cma):
            columns["sigma"] = Array("f8", (1,), cma.SMALLEST_SIGMA, cma.LARGEST_SIGMA)
            columns["factor"] = vector._replace(shape=(n, n))
            if self.knobs.kind == SEP_CMA:
                columns["factor"] = Array("f8", (n, 1), 1 / HUGE, HUGE)
            columns |= {"path_sigma": vector, "path_c": vector}
        else:
            columns |= {"sigma": vector._replace(low=1 / HUGE), "velocity": vector, "square": vector._replace(low=0.0)}
        return {f"{name}.{column}": spec for column, spec in columns.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        if self.knobs.kind == CMA and not (np.diag(arrays["factor"]) > 0.0).all():
            raise NeolError("the checkpoint is damaged: a covariance's factor has a diagonal that is not positive.")
        self.averages = arrays["averages"].copy()
        self.at = type(self.at)(**{k: arrays[k].copy() for k in self.at._fields})


@kernel
def noise(seed, generation, stream, rows, columns):
    """Standard normal f8 (rows, columns), each row named by (seed, generation, stream, row)."""
    out = np.empty((rows, columns))
    for i in range(rows):
        state = seeding.stream(seed, seeding.SEARCH, generation, stream, i)
        for j in range(columns):
            out[i, j] = seeding.normal(state)
    return out
