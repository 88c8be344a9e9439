"""Whose fault a failed episode is: the environment's, which is left out for all, or a network's own.

Under common random numbers every genome meets the same start. A start that fails for all of them says nothing about
any; one that others lived through was failed by the genome itself.
Legend: P genomes, N episodes per genome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from neol.rollout.shards import Episodes, RolloutResult

REDRAWS = 8  # where half of all starts fail, a run stops once in 500 such generations; where all do, at once


class FaultVerdict(NamedTuple):
    """What to do with the episodes of a rollout that went on failing."""

    left_out: np.ndarray  # b1 (N,) episodes that failed for every genome: the environment's fault
    failed: np.ndarray  # b1 (P,) genomes that failed in an episode that others lived through: their own fault

    def kept(self, values: np.ndarray) -> np.ndarray:
        """Values (P, N) of the episodes that count, (P, n)."""
        return np.ascontiguousarray(values[:, ~self.left_out]) if self.left_out.any() else values


def judge(result: RolloutResult, common: bool) -> FaultVerdict:
    """Whose fault the failures are; without common random numbers always the genome's that met them."""
    failed = result.failed_episodes
    left_out = np.asarray(failed.all(axis=0)) & common
    return FaultVerdict(left_out, np.asarray((failed & ~left_out).any(axis=1)))


def run_redrawn(
    play: Callable[[Episodes], RolloutResult],
    episodes: Episodes,
    discarded: Callable[[RolloutResult], None] | None = None,
) -> tuple[RolloutResult, FaultVerdict]:
    """Play; while all episodes fail for all genomes, play others in their place, REDRAWS times at most.

    `discarded` is told of each rollout that was replaced. If the last one failed altogether, all are `left_out`.
    """
    for redraw in range(REDRAWS + 1):
        result = play(episodes._replace(redraw=redraw))
        verdict = judge(result, episodes.common)
        if not verdict.left_out.all() or redraw == REDRAWS:
            break
        if discarded is not None:
            discarded(result)
    return result, verdict
