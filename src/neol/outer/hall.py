"""The best of every part of a search so far: candidates for champion, whatever it does afterwards.

A search does not only improve: a gait becomes faster and falls more often, and few episodes do not see how often. So
the generations are cut into eras of equal length, PLACES at most, and of each the best is remembered, with the
observations that its inputs were scaled by: under another scaling it is another controller. Where there are more eras
than places, they are joined two by two.
Legend: H remembered, I inputs of the task.
"""

from __future__ import annotations

import math

import numpy as np

from neol.arrays import Array, Group
from neol.errors import NeolError
from neol.neat.checked import Population
from neol.neat.genome import Genomes, concatenate, empty_genomes, from_arrays, take, to_arrays
from neol.network.normalization import Moments, no_moments
from neol.outer.base import Remembered

PLACES = 16


class Hall:
    """The best of each era; era e is the generations from e * span to (e + 1) * span - 1."""

    def __init__(self) -> None:
        self.span = 1
        self.eras: dict[int, Remembered] = {}

    def enter(self, generation: int, score: float, genome: Genomes, seen: Moments | None = None) -> None:
        if math.isnan(score):
            return
        self._keep(generation // self.span, Remembered(score, genome, no_moments(1, 0) if seen is None else seen))
        while len(self.eras) > PLACES:
            held, self.eras, self.span = self.eras, {}, 2 * self.span
            for era, remembered in held.items():
                self._keep(era // 2, remembered)

    def _keep(self, era: int, found: Remembered) -> None:
        if era not in self.eras or found.score > self.eras[era].score:
            self.eras[era] = found

    def ranked(self) -> list[Remembered]:
        """The best first."""
        return sorted(self.eras.values(), key=lambda r: -r.score)

    def state(self) -> dict[str, np.ndarray]:
        held = list(self.eras.values())
        seen = Moments(*map(np.concatenate, zip(*(r.seen for r in held), strict=True))) if held else no_moments()
        return {
            "hall.span": np.array(self.span),
            "hall.eras": np.array(list(self.eras), np.int64),
            "hall.scores": np.array([r.score for r in held], float),
            **to_arrays(concatenate([r.genome for r in held]) if held else empty_genomes(0, 1, 1), "hall.genomes"),
            **{f"hall.seen.{k}": v for k, v in seen._asdict().items()},
        }

    @staticmethod
    def declared(inputs: int, outputs: int) -> dict[str, Array | Group]:
        own: dict[str, Array | Group] = {
            "hall.scores": Array("f8", ("H",), low=-math.inf),
            "hall.genomes": Population(inputs, outputs, "H"),
        }
        later = {  # not in files from before there were eras
            "hall.span": Array("i8", low=1, high=2**53),
            "hall.eras": Array("i8", ("H",), low=0, high=2**53),
            "hall.seen.n": Array("f8", ("H",), low=0.0, high=1e300),
            **dict.fromkeys(("hall.seen.mean", "hall.seen.m2"), Array("f8", ("H", "I"))),
        }
        return {**own, **{name: spec._replace(optional=True) for name, spec in later.items()}}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.span, self.eras = int(arrays.get("hall.span", 1)), {}
        if not {"hall.span", "hall.eras", *(f"hall.seen.{k}" for k in Moments._fields)} <= set(arrays):
            return  # nobody knows how the inputs of those were scaled
        eras, scores = arrays["hall.eras"].tolist(), arrays["hall.scores"].tolist()
        if len(set(eras)) < len(eras) or len(eras) > PLACES:
            raise NeolError(f"the checkpoint is damaged: its hall must have an era each, {PLACES} at most.")
        held, seen = from_arrays(arrays, "hall.genomes"), [arrays[f"hall.seen.{k}"] for k in Moments._fields]
        for i, era in enumerate(eras):
            self.eras[era] = Remembered(scores[i], take(held, [i]), Moments(*(a[[i]].copy() for a in seen)))
