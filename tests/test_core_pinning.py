"""Lanes share a core with their simulator's thread, and let go of it when something else wants it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from neol.config.sections import NeatConfig, PlasticityConfig
from neol.envs.tasks import TASKS
from neol.neat.evolution import Neat
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.rollout import core_pinning as affinity
from neol.rollout import envpool_player as envpool_engine
from neol.rollout.core_pinning import LONGEST_PAUSE, CoreAssignment, free_cores, pinned_to
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes, RolloutResult
from neol.seeding import EPISODE

OURS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
several_cores = pytest.mark.skipif(len(OURS) < 2, reason="one core leaves no choice")


def population(name: str, size: int = 40) -> Phenotypes:
    task = TASKS[name]
    genomes = Neat(NeatConfig(pop_size=size), task.n_inputs, task.n_outputs, seed=0).genomes
    return compile_phenotypes(genomes, task.n_inputs, task.n_outputs)


def play(engine: EnvPoolEngine, networks: Phenotypes, generation: int) -> RolloutResult:
    life = life_of(engine.task, PlasticityConfig(rule="hebb"))
    return engine.run(networks, life, Episodes(3, EPISODE, generation, 1, common=True))


@pytest.fixture
def hog() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Programs that compute for ever; killed at the end."""
    hogs: list[subprocess.Popen[bytes]] = []
    yield hogs
    for program in hogs:
        program.kill()
        program.wait()


@several_cores
def test_every_lane_has_a_core_of_its_own_and_one_lane_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for lanes in range(1, len(OURS) + 1):
        cores = free_cores(lanes)
        assert len(set(cores)) == lanes
        assert set(cores) <= set(OURS)
    with pinned_to(OURS[-1]):
        assert free_cores(1) == ()  # one core that we may use: no choice
    assert free_cores(len(OURS) + 1) == ()
    for here in OURS:
        monkeypatch.setattr(ctypes, "CDLL", lambda _, here=here: SimpleNamespace(sched_getcpu=lambda: here))
        assert free_cores(1) == (here,)


def test_siblings_of_a_physical_core_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(affinity, "_physical", lambda core: f"core {core // 2}")  # 0 and 1 are one, 2 and 3 ...
    cores = free_cores(4)
    assert len({core // 2 for core in cores}) == 4
    assert sorted(free_cores(8)) == list(range(8))


@several_cores
def test_a_tied_thread_and_those_that_it_starts_run_on_that_core_and_only_then() -> None:
    def started_here() -> set[int]:
        seen: list[set[int]] = []
        thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
        return seen[0]

    with pytest.raises(KeyboardInterrupt), pinned_to(OURS[1]):
        assert os.sched_getaffinity(0) == {OURS[1]} == started_here()
        raise KeyboardInterrupt
    assert sorted(os.sched_getaffinity(0)) == OURS == sorted(started_here())
    with pinned_to(None):
        assert sorted(os.sched_getaffinity(0)) == OURS


@several_cores
def test_a_tie_that_somebody_else_changed_is_left_alone() -> None:
    with pinned_to(OURS[0]):
        os.sched_setaffinity(0, OURS[1:])  # as `taskset -p` does
    assert sorted(os.sched_getaffinity(0)) == OURS[1:]
    os.sched_setaffinity(0, OURS)
    berths = CoreAssignment(1)
    berths.choose()
    os.sched_setaffinity(0, {OURS[1]})
    assert berths.choose() in [(None,), (OURS[1],)]  # the other core is not ours any more
    os.sched_setaffinity(0, OURS)


@several_cores
@pytest.mark.parametrize("threads", [1, 2])
def test_while_a_lane_plays_it_and_its_simulator_are_tied_to_its_core(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[int], list[set[int]]]] = []
    before = set(os.listdir("/proc/self/task"))
    plain = envpool_engine.advance

    def advance(*arguments: Any) -> int:
        new = set(os.listdir("/proc/self/task")) - before - {str(threading.get_native_id())}
        seen.append((os.sched_getaffinity(0), [os.sched_getaffinity(int(task)) for task in new]))
        return plain(*arguments)

    monkeypatch.setattr(envpool_engine, "advance", advance)
    engine = EnvPoolEngine(TASKS["lunarlander"], 30, threads=threads)
    play(engine, population("lunarlander"), 0)
    cores = {lane.core for lane in engine.player._lanes}  # type: ignore[attr-defined]
    engine.close()
    assert len(cores) == threads
    assert None not in cores
    assert {core for lane, _ in seen for core in lane} == cores
    for lane, others in seen:
        assert len(lane) == 1
        assert lane in others  # the pool's thread


@several_cores
def test_lanes_keep_their_cores_until_they_get_too_little_of_them_and_then_wait_longer_each_time() -> None:
    berths = CoreAssignment(1)
    held = berths.choose()
    berths.judge(0.95, [1.0], [100])
    assert berths.choose() == held
    assert held != (None,)
    for pause in (1, 2, 4, 8, 16, 32, 64, LONGEST_PAUSE):
        berths.judge(0.5, [1.0], [100])
        assert [berths.choose() for _ in range(pause)] == [(None,)] * pause
        berths.judge(0.1, [1.0], [100])  # without a core there is nothing to let go of
        assert berths.choose() != (None,)
    berths.judge(1.0, [1.0], [100])  # all is well again
    berths.judge(0.5, [1.0], [100])
    assert berths.choose() == (None,)
    assert berths.choose() != (None,)


def test_one_slow_lane_of_many_is_enough_to_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "free_cores", lambda lanes: tuple(range(lanes)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    berths = CoreAssignment(8)
    assert berths.choose() == tuple(range(8))
    berths.judge(8.0, [1.0] * 7 + [1.2], [100] * 8)  # lanes differ a little
    assert berths.choose() == tuple(range(8))
    berths.judge(8.0, [1.0] * 7 + [2.0], [100] * 8)
    assert berths.choose() == (None,) * 8


@several_cores
def test_a_busy_core_is_let_go_of(hog: list[subprocess.Popen[bytes]]) -> None:
    networks, engine = population("lunarlander", 200), EnvPoolEngine(TASKS["lunarlander"], 300, threads=1)
    lane, busy = engine.player._lanes[0], []  # type: ignore[attr-defined]
    for core in OURS:  # wherever the lane goes
        loop = f"import os; os.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
        hog.append(subprocess.Popen([sys.executable, "-c", loop], stdout=subprocess.PIPE))
        assert hog[-1].stdout is not None
        hog[-1].stdout.readline()
    for generation in range(4):
        play(engine, networks, generation)
        busy.append(lane.core)
    engine.close()
    assert None in busy[1:]
    assert sorted(os.sched_getaffinity(0)) == OURS


@several_cores
@pytest.mark.parametrize("name", ["hopper", "lunarlander"])  # environments that are kept, and fresh ones
def test_moving_from_core_to_core_does_not_change_a_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = population(name)
    moves = iter([(OURS[0],), (None,), (OURS[1],), (OURS[1],)])
    free, moving = (EnvPoolEngine(TASKS[name], 60, threads=1) for _ in range(2))
    monkeypatch.setattr(free.player._cores, "choose", lambda: (None,))  # type: ignore[attr-defined]
    monkeypatch.setattr(moving.player._cores, "choose", lambda: next(moves))  # type: ignore[attr-defined]
    for generation in range(4):
        a, b = play(free, networks, generation), play(moving, networks, generation)
        assert a.returns.tobytes() == b.returns.tobytes()
        assert a.weight.tobytes() == b.weight.tobytes()
        assert np.ptp(a.returns) > 0.0
    free.close()
    moving.close()
