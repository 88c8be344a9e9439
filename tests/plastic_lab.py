"""What test_differentiable.py looks at, computed with JAX in a process of its own: plastic_lab.py FOLDER"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from plastic_lab_settings import INPUTS, MODES, OUTPUTS, RUN, STEPS

import neol
from neol.config.schema import Config
from neol.envs.mazes import STATE, begin, look, move, simulator
from neol.envs.registry import find
from neol.gradients.jax_mazes import JaxMaze, fates
from neol.gradients.lessons import Lesson, lesson_of
from neol.gradients.plastic_life import PlasticLife
from neol.gradients.plastic_loop import GradientLoop, plastic_life, use_one_thread
from neol.gradients.plastic_topology import plastic_topology
from neol.neat.genome import take
from neol.network.phenotype import compile_phenotypes
from neol.network.plasticity import plasticity
from neol.network.step import load, new_slots, step
from neol.outer.hedge_pool import random_pool
from neol.outer.search_space import search_space, to_vectors
from neol.training.configure import configure
from neol.training.loop import problem_of

use_one_thread()
import jax  # noqa: E402 after it is told how many threads to use


def evolved(mode: dict[str, Any], number: int) -> tuple[PlasticLife, np.ndarray, Any, Any]:
    """A random network of NEAT's that learns so: its life in JAX, its numbers, itself, and how it learns."""
    config = Config().replace(
        **{"evolve_rate": True, "activation_default": "random", "activation_options": ("tanh", "clamped"), **mode}
    )
    pool = random_pool(config.evolution, INPUTS, OUTPUTS, 8, number)
    phenotypes = compile_phenotypes(pool, INPUTS, OUTPUTS)
    largest = take(pool, [int(np.argmax(np.diff(phenotypes.node_start)))])
    space = search_space(largest, config.evolution, INPUTS, OUTPUTS)
    life = plastic_life(config, space, INPUTS, OUTPUTS)
    return life, to_vectors(space, largest)[0], life.phenotype, plasticity(config.plasticity)


def lived(mode: dict[str, Any], number: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs (T, O) of the same life in JAX and in our kernels."""
    life, vector, phenotype, plastic = evolved(mode, number)
    rng = np.random.default_rng(number)
    observations, rewards = rng.normal(size=(STEPS, INPUTS)), np.append(0.0, rng.normal(size=STEPS - 1))
    slots, ours = new_slots(phenotype, 1), np.zeros((STEPS, OUTPUTS))
    load(phenotype, slots, 0, 0)
    for t in range(STEPS):
        step(phenotype, slots, 0, observations[t], rewards[t], t == 0, plastic, ours[t])
    return np.asarray(jax.jit(life.outputs)(vector, observations, rewards)), ours


def walked(task: str) -> tuple[np.ndarray, np.ndarray]:
    """Observations, rewards and ends (T, 6) of random walks in JAX and in our kernels."""
    sim, rng, seed = simulator(find(task).native, {"runs": 12, "swaps": 2}), np.random.default_rng(1), 5
    maze, fate = JaxMaze(sim), jax.tree.map(lambda a: jax.numpy.asarray(a[0]), fates(sim, np.array([seed])))
    actions = rng.integers(-1 + maze.bandit, 2, 60).astype(np.int32)

    def one(place: Any, action: Any) -> Any:
        then, reward, over = maze.move(place, action, fate)
        return then, jax.numpy.append(maze.look(place), jax.numpy.stack([reward, over * 1.0]))

    theirs = np.asarray(jax.lax.scan(one, maze.begin(float), actions)[1])
    state, rows = np.zeros(STATE), []
    begin(*sim, seed, state)
    for action in actions:
        seen = np.zeros(4)
        look(*sim, state, seen)
        rows.append([*seen, *map(float, move(*sim, state, np.array([float(action)])))])
        if rows[-1][-1]:
            break
    return theirs[: len(rows)], np.array(rows)


def differences(task: str, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of a lesson's loss, and finite differences of it, at some of the numbers."""
    resolved = configure(task, outer="gradient", **settings)
    problem = problem_of(resolved)
    topology = plastic_topology(problem)
    space = search_space(topology, resolved.config.evolution, problem.inputs, problem.outputs)
    life = plastic_life(resolved.config, space, problem.inputs, problem.outputs)
    lesson: Lesson = lesson_of(life, resolved.task, resolved.config)
    batch, vector = lesson.draw(0, 0, 0), to_vectors(space, topology)[0]
    both = jax.jit(jax.value_and_grad(lambda v: lesson.loss(v, batch)[0]))
    gradient = np.asarray(both(vector)[1])
    chosen = np.linspace(0, len(vector) - 1, 12).astype(int)
    small = 1e-6 * np.eye(len(vector))[chosen]
    numeric = [float(both(vector + e)[0] - both(vector - e)[0]) / 2e-6 for e in small]
    return gradient[chosen], np.array(numeric)


def main(folder: Path) -> None:
    neol.train("tmaze", outer="gradient", out=folder / "run", progress=False, **RUN)
    neol.train("tmaze", outer="gradient", out=folder / "halves", progress=False, **{**RUN, "generations": 5})
    jax.config.update("jax_enable_x64", True)
    pairs = {f"life{i}": lived(mode, i + 1) for i, mode in enumerate(MODES)}
    pairs |= {f"walk-{task}": walked(task) for task in ("tmaze", "double-tmaze", "bandit")}
    pairs["gradient-tmaze"] = differences("tmaze", gradient_lives=3, env_kwargs=("runs=8",))
    shown = ("size=4", "patterns=2", "cycles=1", "shown=2", "pause=1", "tested=2")
    pairs["gradient-patterns"] = differences("patterns", gradient_lives=2, env_kwargs=shown, gradient_spread=2.0)
    np.savez(folder / "pairs.npz", **{name: np.stack(pair) for name, pair in pairs.items()})
    sizes = GradientLoop(problem_of(configure("tmaze", outer="gradient", topology="6", feed_forward=False)))
    (folder / "sizes.json").write_text(json.dumps(int(sizes.space.size)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
