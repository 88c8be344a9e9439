"""Does an environment repeat itself? One network with one seed, played a few times, must give the same episode.

One that draws from NumPy's or Python's global generator, or from a clock, does not: results then depend on chance and
on who plays. It is worth a sentence to the user, not an error.
"""

from __future__ import annotations

import numpy as np

from neol import seeding
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.envs.tasks import Task
from neol.neat.genome import first_population, take
from neol.network.normalization import from_moments, no_moments
from neol.network.phenotype import compile_phenotypes
from neol.rollout.dispatcher import Engine
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes

COPIES, STEPS = 3, 64  # times that the episode is played, and steps of it at most


def repeats(task: Task, engine: Engine | None = None) -> str | None:
    """None if episodes with one seed and the same network were equal, else one sentence that says that they differ.

    Played by `engine`, in its worker processes if it has any, or in this process. An environment that fails in all of
    them, or takes too long, has another problem: None.
    """
    genomes, _ = first_population(NeatConfig(pop_size=2), task.n_inputs, task.n_outputs, 0)
    phenotypes = compile_phenotypes(take(genomes, [0] * COPIES), task.n_inputs, task.n_outputs)
    watching = from_moments(no_moments(1, task.n_inputs))  # it keeps the mean and spread of what was observed
    life = life_of(task, PlasticityConfig(rule="none"), watching)
    which = Episodes(0, seeding.REPEAT, 0, 1, common=True, max_steps=STEPS)
    played = engine or LocalGymnasium(task, STEPS)
    try:
        result = played.run(phenotypes, life, which)
    finally:
        if engine is None:
            played.close()
    gone = {f.episode for f in result.failures if f.kind in ("timeout", "worker died")}
    failed = {f.episode for f in result.failures}
    seen = [
        (i in failed, result.returns[i].tobytes(), result.moments.mean[i].tobytes(), result.moments.m2[i].tobytes())
        for i in range(COPIES)
        if i not in gone
    ]
    if len(set(seen)) <= 1:
        return None
    returns = ", ".join("failed" if i in failed else f"{np.sum(result.returns[i]):.6g}" for i in range(COPIES))
    return (
        f"'{task.name}' does not repeat itself: episodes of one network with one seed differ (returns {returns}); it "
        "should draw random numbers only from self.np_random, which reset(seed=...) seeds, not from np.random, random "
        "or a clock, and keep nothing of the episode before."
    )
