"""Lanes share a core with their simulator's thread, and let go of it when something else wants it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from neol import affinity
from neol.affinity import LONGEST_PAUSE, Berths, free_cores, tied_to
from neol.config import NeatConfig, PlasticityConfig
from neol.envpool_engine import EnvPoolEngine
from neol.neat import Neat
from neol.phenotype import Phenotypes, compile_phenotypes
from neol.plasticity import plasticity
from neol.rollout import Episodes, RolloutResult
from neol.seeding import EPISODE
from neol.tasks import TASKS

OURS = sorted(os.sched_getaffinity(0))
several_cores = pytest.mark.skipif(len(OURS) < 2, reason="one core leaves no choice")


def population(name: str, size: int = 40) -> Phenotypes:
    task = TASKS[name]
    genomes = Neat(NeatConfig(pop_size=size), task.n_inputs, task.n_outputs, seed=0).genomes
    return compile_phenotypes(genomes, task.n_inputs, task.n_outputs)


def play(engine: EnvPoolEngine, networks: Phenotypes, generation: int) -> RolloutResult:
    lesson = plasticity(PlasticityConfig(rule="hebb"))
    return engine.run(networks, lesson, Episodes(3, EPISODE, generation, 1, common=True))


@pytest.fixture
def hog() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Programs that compute for ever; killed at the end."""
    hogs: list[subprocess.Popen[bytes]] = []
    yield hogs
    for program in hogs:
        program.kill()
        program.wait()


@several_cores
def test_every_lane_has_a_core_of_its_own_and_one_lane_stays_where_it_is() -> None:
    for lanes in range(1, len(OURS) + 1):
        cores = free_cores(lanes)
        assert len(set(cores)) == lanes
        assert set(cores) <= set(OURS)
    with tied_to(OURS[-1]):
        assert free_cores(1) == ()  # one core that we may use: no choice
    assert free_cores(len(OURS) + 1) == ()


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

    with pytest.raises(KeyboardInterrupt), tied_to(OURS[1]):
        assert os.sched_getaffinity(0) == {OURS[1]} == started_here()
        raise KeyboardInterrupt
    assert sorted(os.sched_getaffinity(0)) == OURS == sorted(started_here())
    with tied_to(None):
        assert sorted(os.sched_getaffinity(0)) == OURS


@several_cores
def test_lanes_keep_their_cores_until_they_get_too_little_of_them_and_then_wait_longer_each_time() -> None:
    berths = Berths(1)
    held = berths.choose()
    berths.judge(used=0.95, elapsed=1.0)
    assert berths.choose() == held
    assert held != (None,)
    for pause in (1, 2, 4, 8, 16, 32, 64, LONGEST_PAUSE):
        berths.judge(used=0.5, elapsed=1.0)
        assert [berths.choose() for _ in range(pause)] == [(None,)] * pause
        berths.judge(used=0.1, elapsed=1.0)  # without a core there is nothing to let go of
        assert berths.choose() != (None,)
    berths.judge(used=1.0, elapsed=1.0)  # all is well again
    berths.judge(used=0.5, elapsed=1.0)
    assert berths.choose() == (None,)
    assert berths.choose() != (None,)


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
    monkeypatch.setattr(free.player._berths, "choose", lambda: (None,))  # type: ignore[attr-defined]
    monkeypatch.setattr(moving.player._berths, "choose", lambda: next(moves))  # type: ignore[attr-defined]
    for generation in range(4):
        a, b = play(free, networks, generation), play(moving, networks, generation)
        assert a.returns.tobytes() == b.returns.tobytes()
        assert a.weight.tobytes() == b.weight.tobytes()
        assert np.ptp(a.returns) > 0.0
    free.close()
    moving.close()
