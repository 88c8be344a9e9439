"""What a gradient learns from: what turns are worth in a maze; patterns that should be completed, by their error.

A lesson draws a batch of lives by name, and has a loss of the numbers that are learned, differentiable through all of
each life. Legend: B lives, T steps, D numbers learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from neol import seeding
from neol.config.schema import Config
from neol.envs.mazes import simulator
from neol.envs.patterns import episode, presentation
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.gradients.draws import chances
from neol.gradients.jax_mazes import Fate, JaxMaze, fates
from neol.gradients.plastic_life import PlasticLife

PATTERNS = "patterns"


class Lived(NamedTuple):
    """What came of a batch."""

    returned: Any  # () mean return of its lives, as they explored
    steps: Any  # () env steps of all of them


class Lesson(Protocol):
    def draw(self, seed: int, generation: int, update: int) -> Any:
        """A batch, as arrays of NumPy; the same for the same name."""

    def loss(self, vector: Any, batch: Any) -> tuple[Any, Lived]:
        """Of the numbers (D,)."""


class MazeBatch(NamedTuple):
    fate: Fate
    chance: np.ndarray  # f4 (B, T) what exploring actions are drawn by


class MazeLesson:
    """All-actions policy gradient (Sutton et al. 2001), by whole lives in our own simulators:

    loss = - mean over steps of sum over a of pi(a | o_t) r_t(a)

    The reward r_t(a) that an action would lead to is known to the simulator and not to the network, which has to learn
    it in every life anew; the gradient goes through all that the network learned in its life before step t.
    """

    def __init__(self, life: PlasticLife, task: Task, config: Config) -> None:
        own, rollout = config.gradient, config.rollout
        self.life, self.lives, self.noise = life, own.gradient_lives, own.gradient_noise
        self.simulator = simulator(task.native, dict(task.env_kwargs))
        self.maze = JaxMaze(self.simulator)
        self.steps = min(rollout.training_steps or rollout.max_steps, rollout.max_steps)

    def draw(self, seed: int, generation: int, update: int) -> MazeBatch:
        seeds = seeding.episode_seeds(seed, seeding.LEARNER, generation, update + 1, self.lives, False)[-self.lives :]
        return MazeBatch(fates(self.simulator, seeds), chances(seed, generation, update, self.lives, self.steps))

    def loss(self, vector: Any, batch: MazeBatch) -> tuple[Any, Lived]:
        import jax

        genome = self.life.genome(vector)
        worth, reward, alive = jax.vmap(lambda fate, chance: self._live(genome, fate, chance))(*batch)  # (B, T)
        return -(worth * alive).sum() / alive.sum(), Lived(reward.sum() / self.lives, alive.sum())

    def _live(self, genome: Any, fate: Fate, chance: Any) -> Any:
        """A life that explores: what its outputs were worth, rewards, whether it was alive (T,)."""
        import jax
        import jax.numpy as jnp

        def step(carry: Any, now: Any) -> Any:
            net, place, reward, alive = carry
            u, born = now
            net, outputs = self.life.step(genome, net, self.maze.look(place), reward, born)
            action, felt, worth = self.maze.explore(place, outputs, self.life.activities(net), self.noise, u, fate)
            then, earned, over = self.maze.move(place, action, fate)
            earned = earned * alive
            return (self.life.felt(net, felt), then, earned, alive * (1.0 - over)), (worth, earned, alive)

        dtype = genome.bias.dtype
        start = (self.life.born(genome), self.maze.begin(dtype), jnp.zeros((), dtype), jnp.ones((), dtype))
        born = jnp.ones(len(chance), dtype).at[0].set(0.0)
        return jax.lax.scan(step, start, (chance, born))[1]


class PatternBatch(NamedTuple):
    shown: np.ndarray  # f4 (B, T, size)
    target: np.ndarray  # f4 (B, size)


class PatternLesson:
    """The mean squared error of the last step's outputs (the paper's sum, per bit)."""

    def __init__(self, life: PlasticLife, task: Task, config: Config) -> None:
        self.life, self.lives = life, config.gradient.gradient_lives
        self.presentation = presentation(dict(task.env_kwargs))

    def draw(self, seed: int, generation: int, update: int) -> PatternBatch:
        seeds = seeding.episode_seeds(seed, seeding.LEARNER, generation, update + 1, self.lives, False)[-self.lives :]
        drawn = [episode(self.presentation, int(s)) for s in seeds]
        return PatternBatch(*(np.array([d[i] for d in drawn], np.float32) for i in (0, 1)))

    def loss(self, vector: Any, batch: PatternBatch) -> tuple[Any, Lived]:
        import jax
        import jax.numpy as jnp

        shown, target = (a.astype(vector.dtype) for a in batch)
        rewards = jnp.zeros(shown.shape[1], vector.dtype)
        outputs = jax.vmap(lambda seen: self.life.outputs(vector, seen, rewards)[-1])(shown)
        right = (jnp.sign(outputs) == target).mean()
        return ((outputs - target) ** 2).mean(), Lived(right, jnp.asarray(float(shown.shape[0] * shown.shape[1])))


def lesson_of(life: PlasticLife, task: Task, config: Config) -> Lesson:
    """What is learned from on this task."""
    return (MazeLesson if task.native else PatternLesson)(life, task, config)


def check_task(task: Task, tasks: Iterable[str]) -> None:
    """A NeolError where there is nothing to learn from by gradient."""
    if not task.native and task.name != PATTERNS:
        raise NeolError(
            f"outer = 'gradient' is not allowed on '{task.name}': it needs a simulator that JAX computes; use "
            f"{', '.join(tasks)}."
        )
