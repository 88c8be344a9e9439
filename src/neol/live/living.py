"""One life that can be touched while it is lived: its plasticity, and the world around it.

It runs the kernels of training. A change that is switched on begins at a step that is written down, so that the life
can be lived again by `neol replay --seed S --change ...` with the texts of `LiveLife.texts`.
Legend: I inputs, n nodes, d edges.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.config.changes import parse_change
from neol.config.schema import check_value
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.spaces import Flattener
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.network.actions import action_reader
from neol.network.step import new_slots
from neol.rollout.attributes import Attributes, ChangedEnv, kept, read, write
from neol.rollout.episode_kernels import BEGIN, END, GO_ON, live, make_context, new_window
from neol.rollout.life import for_kernels, life_of
from neol.rollout.shards import Shard, check_fit, new_records
from neol.rollout.world import DELAY, HOLD, World, WorldState, begin_life, life_names, new_world_state, world_of

MOST_CHANGES = 64  # of one life


class Now(NamedTuple):
    """A life after `step` steps of its trial."""

    trial: int
    step: int
    reward: float  # of the last step, as the world counts it
    total: float  # the trial's return so far
    over: bool  # the whole life
    values: np.ndarray  # f8 (I + n,) activities: inputs as the network saw them, nodes in evaluation order
    weights: np.ndarray  # f8 (d,)
    action: list[float]  # the last one, its numbers


class LiveLife:
    """A network in an environment of its own."""

    def __init__(self, net: PlasticNetwork, task: Task, env: Any, longest: int, trials: int = 1) -> None:
        self.net, self.task, self.env, self.longest, self.trials = net, task, env, longest, trials
        self.phenotype = net.network.phenotype
        self.settings = net.settings
        self.texts: list[str] = []
        self._flat = Flattener(task.leaves)
        self._changed: ChangedEnv | None = None
        self.begin(0)

    # ------------------------------------------------------------ living

    def begin(self, seed: int, texts: Sequence[str] | None = None) -> None:
        """A new life, in a world with these changes (or with those of now)."""
        self.restore()
        self.seed, self.texts = seed, list(self.texts if texts is None else texts)
        world = self._world(self.texts)
        life = life_of(self.task, self.settings, self.net.normal, world)
        check_fit(self.task, self.phenotype, life)
        names = life_names(seed, seeding.DEMO, 0, 1, 1, True)
        shard = Shard(
            self.phenotype, life, np.zeros(self.trials, np.int32), 0, 1, 0, False, trials=self.trials, names=names
        )
        self._records, self._slots = new_records(shard), new_slots(self.phenotype, 1)
        self._window = new_window(1, 1, shard, 0, 1)
        self._world_now, self._state = world, new_world_state(world.changes, 1, names, self.task.n_outputs)
        self._read_action = action_reader(
            self._window.action[0], self.task.components, self.task.action_shape, self.task.action_dtype
        )
        self._renew()
        self.trial, self.over, self.reward, self.action = 0, False, 0.0, [0.0] * len(self._window.action[0])
        self._begin_trial()

    def _begin_trial(self) -> None:
        self.step_count, self._trial_over = 0, False
        self._window.trial[0] = self.trial
        observation, _ = self.env.reset(seed=self.seed + self.trial)
        if not live(self._context, BEGIN, 0, self._flat(observation), 0.0):
            raise NeolError(f"the first observation of '{self.task.name}' is not finite.")
        self._attend()

    def step(self) -> None:
        """One step; a trial that was over gives way to the next. Nothing where the life is over."""
        if self.over:
            return
        if self._trial_over:
            self.trial += 1
            self._begin_trial()
            return
        action = self._read_action()
        if self._changed is not None:
            self._changed.update()
        observation, reward, terminated, truncated, _ = self.env.step(action)
        self.step_count += 1
        self.action = [float(v) for v in np.ravel(np.asarray(action))]
        before = self.total
        self._trial_over = bool(terminated or truncated or self.step_count >= self.longest)
        phase = END if self._trial_over else GO_ON
        if not live(self._context, phase, 0, self._flat(observation), float(reward)):
            self.over = True
            raise NeolError(f"step {self.step_count} of '{self.task.name}' is not finite.")
        self.reward = self.total - before
        if self._trial_over:
            self.restore()
            self.over = self.trial + 1 == self.trials

    @property
    def total(self) -> float:
        return float(self._records.returns[0, self.trial])

    @property
    def now(self) -> Now:
        inner = self.phenotype.inputs + len(self.phenotype.node_id)
        values, weights = self._slots.value[0, :inner], self._slots.weight[0, : len(self.phenotype.weight)]
        return Now(self.trial, self.step_count, self.reward, self.total, self.over, values, weights, self.action)

    # ------------------------------------------------------------ touching

    def learn_by(self, **settings: Any) -> None:
        """From now on by another rule, or at another rate; the weights stay as they are. rule = "none": frozen."""
        checked = {name: check_value(name, value) for name, value in settings.items()}
        self.settings = PlasticNetwork(self.net.network, dataclasses.replace(self.settings, **checked)).settings
        self._renew()

    def change(self, text: str) -> str:
        """A change of the world from the next step on; return it as it is written down."""
        if len(self.texts) >= MOST_CHANGES:
            raise NeolError(f"a life has at most {MOST_CHANGES} changes; reset it.")
        said = parse_change(text)
        if "from=" not in text and said.counted == "life":
            memory = int(said.value) if said.op == "delay" else int(said.op == "hold")
            text = f"{text} from={self._clock + 1 + memory}"  # what it remembers is seen before it begins
        self._enter([*self.texts, text])
        return text

    def end_change(self, place: int) -> None:
        """A change that is on ends before the next step; it stays written down."""
        text = self.texts[place]
        said = parse_change(text)
        end = max(self._clock + 1, said.onset[1] + 1)
        words = [w for w in text.split() if not w.startswith("to=")]
        self._enter([*self.texts[:place], " ".join([*words, f"to={end}"]), *self.texts[place + 1 :]])

    def is_on(self, place: int) -> bool:
        """Whether a change of the list is on, or is to come."""
        return parse_change(self.texts[place]).end[0] > self._clock + 1

    @property
    def _clock(self) -> int:
        """Steps of the life so far."""
        return int(self._state.clock[0, 0])

    def _world(self, texts: Sequence[str]) -> World:
        world = world_of(self.task, texts, self.longest, self.trials)
        inner = getattr(self.env, "unwrapped", self.env)
        for path, value in world.attributes:
            try:
                before = kept(read(inner, path))
                write(inner, path, value)
                write(inner, path, before)
            except Exception as e:  # whatever the environment's own code raises
                raise NeolError(f"'{self.task.name}' does not take {path} = {value}: {e}.") from None
        return world

    def _enter(self, texts: list[str]) -> None:
        """Another world, with what the old one's changes drew and remember; they come first in both lists."""
        world = self._world(texts)
        self.restore()
        state = new_world_state(world.changes, 1, self._state.name, self.task.n_outputs)
        begin_life(world.changes, state, 0, 0)  # draws the same for the same places of the list
        state.clock[...], state.felt[...] = self._state.clock, self._state.felt
        _carry_memory(self._world_now, self._state, world, state)
        self.texts, self._world_now, self._state = texts, world, state
        self._renew()
        self._attend()

    def _renew(self) -> None:
        """Kernels see the settings and the world of now."""
        life = life_of(self.task, self.settings, self.net.normal, self._world_now)
        first = np.zeros((0, self.phenotype.inputs))
        self._context = make_context(
            self.phenotype, self._slots, self._window, for_kernels(life), self._state, first, self._records
        )

    def _attend(self) -> None:
        """The environment's attributes follow the world from now on."""
        named = self._world_now.attributes and not self._trial_over
        self._changed = Attributes(self._world_now, self._state).of(self.env) if named else None

    def restore(self) -> None:
        """The environment's attributes as they were."""
        if self._changed is not None:
            self._changed.restore()
        self._changed = None


def _carry_memory(old: World, before: WorldState, new: World, after: WorldState) -> None:
    """What changes remember, from one world's state to another's, by their number."""
    places = {int(number): c for c, number in enumerate(old.changes.number)}
    for c, number in enumerate(new.changes.number):
        if int(number) in places and new.changes.op[c] in (DELAY, HOLD):
            was = places[int(number)]
            kept = before.memory[0, old.changes.memory[was] : old.changes.memory[was + 1]]
            after.memory[0, new.changes.memory[c] : new.changes.memory[c] + len(kept)] = kept
