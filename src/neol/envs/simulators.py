"""Our own simulators by name, and their kernels under one roof: mazes.py (bandit, too), motors.py and visual.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neol.envs import mazes, visual
from neol.envs import motors as motor
from neol.envs.mazes import Simulator
from neol.envs.motors import MOTORS
from neol.envs.visual import VISUAL, begin_pictures, look_at_picture, point_at
from neol.jit import kernel

_begin_maze, _look_maze, _move_maze = mazes.begin, mazes.look, mazes.move
_begin_motors, _look_motors, _move_motors = motor.begin, motor.look, motor.move


def simulator(name: str, arguments: Mapping[str, Any]) -> Simulator:
    """The simulator of that name ("t-maze", "4 motors") with the environment's arguments."""
    if name == visual.NAME:
        return Simulator(VISUAL, visual.parameters(arguments))
    axes, _, kind = name.partition(" ")
    return motor.motors(int(axes), arguments) if kind == "motors" else mazes.simulator(name, arguments)


def new_state(simulator: Simulator) -> np.ndarray:
    """Room for the state of one episode, f8 (S,)."""
    if simulator.kind == VISUAL:
        return np.zeros(visual.STATE)
    motors = simulator.kind == MOTORS
    return np.zeros(motor.TO_GO + int(simulator.parameters[0]) if motors else mazes.STATE)


def steps_of(simulator: Simulator) -> int:
    """The most steps that an episode takes."""
    if simulator.kind == VISUAL:
        return visual.PICTURES
    size, runs, steps = simulator.parameters
    if simulator.kind == MOTORS:
        return int(runs * steps)
    return int(runs) * (1 if simulator.kind == mazes.BANDIT else 2 * int(size) + 3)


@kernel
def begin(kind, parameters, seed, s):
    """A new episode in state s f8 (S,)."""
    if kind == MOTORS:
        _begin_motors(parameters, seed, s)
    elif kind == VISUAL:
        begin_pictures(parameters, seed, s)
    else:
        _begin_maze(kind, parameters, seed, s)


@kernel
def look(kind, parameters, s, observation):
    """What is seen, f8 (I,)."""
    if kind == MOTORS:
        _look_motors(parameters, s, observation)
    elif kind == VISUAL:
        look_at_picture(parameters, s, observation)
    else:
        _look_maze(kind, parameters, s, observation)


@kernel
def move(kind, parameters, s, action):
    """One step with action f8 (A,): (reward, whether the episode is over)."""
    if kind == MOTORS:
        return _move_motors(parameters, s, action)
    if kind == VISUAL:
        return point_at(parameters, s, action)
    return _move_maze(kind, parameters, s, action)
