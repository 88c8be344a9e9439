"""The T-mazes and the bandit of envs/mazes.py as JAX functions of one life, and how an output explores there.

What an episode draws (good places, luck) comes from the kernels themselves, run by run; a state is where the life is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from neol.envs.mazes import BANDIT, CRASH, HIGH, HIGH_CHANCE, LOW, LOW_CHANCE, Simulator, schedule

_THIRD = 1.0 / 3.0  # an output beyond it turns
MARGIN = 0.1  # how far from it an output should be


class Fate(NamedTuple):
    """What episodes have in store, for each of B lives."""

    good: np.ndarray  # i4 (B, runs)
    luck: np.ndarray  # b1 (B, runs, 2) whether the good arm and the other one pay


class Place(NamedTuple):
    """Where a life is."""

    run: Any  # i4
    place: Any  # i4
    chosen: Any  # i4
    reward: Any  # f, the last end's or arm's


def fates(simulator: Simulator, seeds: np.ndarray) -> Fate:
    """Of the episodes with these seeds i8 (B,)."""
    drawn = [schedule(simulator.parameters, int(seed)) for seed in seeds]
    luck = np.array([np.stack([d[1] < HIGH_CHANCE, d[1] < LOW_CHANCE], axis=-1) for d in drawn])
    return Fate(np.array([d[0] for d in drawn], np.int32), luck)


class JaxMaze:
    """A simulator; an action is a turn -1, 0, 1 (of a bandit: an arm)."""

    def __init__(self, simulator: Simulator) -> None:
        self.bandit, self.junctions = simulator.kind == BANDIT, int(simulator.parameters[0])
        self.runs, self.last = int(simulator.parameters[1]), 2 * int(simulator.parameters[0]) + 2

    def begin(self, dtype: Any) -> Place:
        import jax.numpy as jnp

        zero = jnp.zeros((), jnp.int32)
        return Place(zero, zero, zero - self.bandit, jnp.zeros((), dtype))

    def look(self, s: Place) -> Any:
        """What is seen (4,): of a maze turn, end, home, reward; of a bandit 1, the last reward, the last arm."""
        import jax.numpy as jnp

        if self.bandit:
            seen = [jnp.ones(()), s.reward, s.chosen == 0, s.chosen == 1]
        else:
            end = s.place == self.last
            seen = [self._junction(s), end, s.place == 0, jnp.where(end, s.reward, 0.0)]
        return jnp.stack([jnp.asarray(x, s.reward.dtype) for x in seen])

    def _junction(self, s: Place) -> Any:
        return (s.place > 0) & (s.place < self.last) & (s.place % 2 == 0)

    def move(self, s: Place, action: Any, fate: Fate) -> tuple[Place, Any, Any]:
        """One step of one life with its fate: (state, reward, whether the episode is over)."""
        import jax.numpy as jnp

        now = jnp.minimum(s.run, self.runs - 1)
        good = fate.good[now]
        if self.bandit:
            reward = jnp.where(jnp.where(action == good, fate.luck[now, 0], fate.luck[now, 1]), 1.0, 0.0)
            reward = reward.astype(s.reward.dtype)
            return Place(s.run + 1, s.place, action, reward), reward, s.run + 1 >= self.runs
        end, junction = s.place == self.last, self._junction(s)
        crash = ~end & (junction == (action == 0))
        home = end | crash
        chosen = jnp.where(junction, 2 * s.chosen + (action > 0), s.chosen)
        place = jnp.where(home, 0, s.place + 1)
        arrives = ~home & (place == self.last)
        found = jnp.where(arrives, jnp.where(chosen == good, HIGH, LOW), s.reward).astype(s.reward.dtype)
        reward = jnp.where(crash, CRASH, jnp.where(arrives, found, 0.0)).astype(s.reward.dtype)
        run = s.run + home
        return Place(run, place, jnp.where(home, 0, chosen), found), reward, run >= self.runs

    def explore(
        self, s: Place, outputs: Any, activities: Any, noise: float, u: Any, fate: Fate
    ) -> tuple[Any, Any, Any]:
        """An action drawn by u in [0, 1); the output nodes' activities (O,) as if they had meant it, so that what is
        learned in life is learned from what was done; and what the outputs are worth.

        A turn (an arm) is right with chance pi = sigmoid(2 o / noise) (arm i with softmax(o / noise)) and worth the
        reward that it leads to, so the outputs are worth sum of pi(a) r(a). A life that explores never runs into a
        wall. In its stead an output that would, or is within MARGIN of it, costs the square of the way that is missing.
        """
        import jax
        import jax.numpy as jnp

        now = jnp.minimum(s.run, self.runs - 1)
        if self.bandit:
            chance = jax.nn.softmax(outputs / noise)
            action = (u >= chance[0]).astype(jnp.int32)
            pays = jnp.where(jnp.arange(2) == fate.good[now], HIGH_CHANCE, LOW_CHANCE)
            felt = jnp.where(action == jnp.argmax(outputs), activities, activities[::-1])
            return action, felt, (chance * pays).sum()
        where, junction = outputs[0], self._junction(s)
        right = jax.nn.sigmoid(2.0 * where / noise)
        turn = jnp.where(junction, jnp.where(u < right, 1, -1), 0).astype(jnp.int32)
        made = s.place // 2  # turns, with this one
        wanted = (fate.good[now] >> (self.junctions - made)) - 2 * s.chosen  # the turn that leads to it: 0, 1; or none
        worth = jnp.where(wanted == 1, right, jnp.where(wanted == 0, 1.0 - right, 0.0)) * (HIGH - LOW) + LOW
        missing = jnp.where(junction, _THIRD + MARGIN - jnp.abs(where), jnp.abs(where) - _THIRD + MARGIN)
        wall = jnp.where(s.place == self.last, 0.0, jnp.maximum(missing, 0.0)) ** 2
        felt = jnp.where(turn == self.decide(outputs), activities, turn.astype(activities.dtype))
        felt = jnp.where(s.place == self.last, activities, felt)
        return turn, felt, jnp.where(junction, worth, 0.0) - wall

    def decide(self, outputs: Any) -> Any:
        """The action that the kernels make of the outputs, without noise."""
        import jax.numpy as jnp

        if self.bandit:
            return jnp.argmax(outputs).astype(jnp.int32)
        where = jnp.clip(outputs[0], -1.0, 1.0).astype(jnp.float32).astype(outputs.dtype)
        return ((where > _THIRD).astype(jnp.int32) - (where < -_THIRD)).astype(jnp.int32)
