"""How many episodes a generation plays per genome: more, where those before could not tell genomes apart.

All genomes of a generation meet the same N episodes, so that the fitness f_pn of genome p in episode n has a part that
is the genome's own, one of the episode's (which changes no ranking), and noise:

    agreement  rho = s^2 / (s^2 + e^2)      s^2 variance of the genomes' parts, e^2 of the noise
    needed     N = ceil(R / (1 - R) * (1 - rho) / rho)

so that the mean over N episodes has reliability R (Spearman and Brown 1910). N is a function of the history alone: a
resumed run needs nothing else. Legend: P genomes, N episodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

RELIABLE = 0.3  # R: the share of the variance of a generation's fitness that is the genomes' own
REMEMBERED = 6  # generations whose agreement counts
EPISODES, AGREEMENT = "episodes_played", "episodes_agreement"  # columns of history.csv


def agreement(fitness: np.ndarray) -> float:
    """rho of f8 (P, N) by two-way analysis of variance; 1 where nothing differs, or there is nothing to compare."""
    p, n = fitness.shape
    if p < 2 or n < 2:
        return 1.0
    own = fitness.mean(axis=1)
    rest = fitness - own[:, None] - fitness.mean(axis=0) + fitness.mean()
    noise = float((rest**2).sum()) / ((p - 1) * (n - 1))  # e^2
    signal = max(0.0, float(own.var(ddof=1)) - noise / n)  # s^2
    return signal / (signal + noise) if signal + noise > 0.0 else 1.0


def agreement_columns(fitness: np.ndarray) -> dict[str, float]:
    """What the history keeps of a generation's fitness f8 (P, N)."""
    return {EPISODES: fitness.shape[1], AGREEMENT: agreement(fitness)}


def episodes_needed(agreements: Sequence[float], least: int, most: int) -> int:
    """N for the next generation, from the agreements of those before: within least and most."""
    known = agreements[-REMEMBERED:]
    if not known:
        return least
    rho = max(sum(known) / len(known), 1e-9)
    return min(max(math.ceil(RELIABLE / (1.0 - RELIABLE) * (1.0 - rho) / rho), least), most)
