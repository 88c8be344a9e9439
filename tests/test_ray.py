"""A real Ray cluster of several nodes on this machine: the same bits as without it, also when a node dies."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import neol
from neol.errors import NeolError

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

ENVS = Path(__file__).parent / "envs"
SMALL: dict[str, Any] = {
    "pop_size": 12, "episodes": 2, "generations": 3, "champion_trials": 2, "champion_episodes": 2,
    "champion_candidates": 2, "seed": 3, "lr": 0.5,
}  # fmt: skip
pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One head, to which tests add nodes: each node is a set of real processes."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(autouse=True)
def _environments_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ENVS)


def history(task: str, out: Path, **settings: Any) -> bytes:
    run = neol.train(task, out=out, **{**SMALL, **settings})
    return (run.path / "history.csv").read_bytes() + run.champion_path.read_bytes()


def test_one_two_and_three_nodes_give_the_bits_of_local_workers(cluster: Cluster, tmp_path: Path) -> None:
    local = history("cartpole", tmp_path / "local", engine="gymnasium", workers=2, max_steps=40)
    pool = history("hopper", tmp_path / "pool", engine="envpool", max_steps=40)
    added: list[Any] = []
    for nodes in (1, 2, 3):
        if nodes > 1:
            added.append(cluster.add_node(num_cpus=1))
        cluster.wait_for_nodes()
        on: dict[str, Any] = {"executor": "ray", "ray_address": cluster.address, "max_steps": 40}
        assert history("cartpole", tmp_path / f"c{nodes}", engine="gymnasium", **on) == local
        if nodes == 2:
            assert history("hopper", tmp_path / "h", engine="envpool", **on) == pool
    assert neol.load(tmp_path / "c3").summary.threads == 3  # an actor on every node
    for node in added:
        cluster.remove_node(node)


def test_a_node_that_dies_in_the_middle_of_a_generation_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    slow = {"env_kwargs": {"slow": 0.004}, "generations": 4}
    local = history("trouble:Trouble", tmp_path / "local", workers=2, **slow)
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    died = threading.Event()

    def kill() -> None:
        while not (tmp_path / "ray" / "history.csv").exists():  # after the first generation
            time.sleep(0.02)
        cluster.remove_node(node, allow_graceful=False)
        died.set()

    thread = threading.Thread(target=kill)
    thread.start()
    hit = history("trouble:Trouble", tmp_path / "ray", executor="ray", ray_address=cluster.address, workers=2, **slow)
    thread.join()
    assert died.is_set()
    assert hit == local
    assert "Ray actor died" in (tmp_path / "ray" / "events.jsonl").read_text()


def test_a_run_goes_from_ray_to_processes_and_back(cluster: Cluster, tmp_path: Path) -> None:
    whole = history("cartpole", tmp_path / "whole", engine="gymnasium", workers=1, max_steps=40, generations=5)
    on: dict[str, Any] = {"executor": "ray", "ray_address": cluster.address, "workers": 1}
    neol.train("cartpole", out=tmp_path / "r", engine="gymnasium", max_steps=40, **{**SMALL, "generations": 2}, **on)
    neol.train(out=tmp_path / "r", resume=True, generations=3, executor="local", workers=2)
    run = neol.train(out=tmp_path / "r", resume=True, generations=5, **on)
    assert (run.path / "history.csv").read_bytes() + run.champion_path.read_bytes() == whole


def test_an_environment_that_hangs_or_kills_its_actor_fails_its_genome(cluster: Cluster, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "env_kwargs": {"share": 0.04, "kinds": "kill,hang"}, "step_timeout": 1.0, "episode_retries": 1,
        "common_random_numbers": False, "generations": 2, "champion_candidates": 1, "champion_trials": 1,
    }  # fmt: skip
    local = history("trouble:Trouble", tmp_path / "local", workers=2, **settings)
    on = {"executor": "ray", "ray_address": cluster.address, "workers": 1}
    assert history("trouble:Trouble", tmp_path / "ray", **on, **settings) == local
    assert "episode failed" in (tmp_path / "ray" / "events.jsonl").read_text()


def test_an_address_where_no_cluster_is_makes_one_sentence(tmp_path: Path) -> None:
    code = (
        "import neol\n"
        "try:\n    neol.train('cartpole', out='r', executor='ray', ray_address='127.0.0.1:1', generations=1)\n"
        "except neol.NeolError as e:\n    print('NEOL', e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "NEOL ray_address = '127.0.0.1:1'" in done.stdout, done.stdout + done.stderr


def test_without_ray_the_sentence_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NeolError, match=r"pip install 'neol\[ray\]'"):
        neol.train("cartpole", out=tmp_path / "r", executor="ray", generations=1)


LISTENING = """
import contextlib, json, os
from pathlib import Path
from neol.rollout.ray_workers import connect

ray, ours = connect(1, "")
ray.get(ray.remote(num_cpus=1)(lambda: 1).remote())
queue, inodes = [os.getpid()], set()
while queue:
    pid = queue.pop()
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):  # a thread may end while we look
            queue += [int(c) for c in (task / "children").read_text().split()]
    for fd in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(fd))
lines = [line.split() for p in ("tcp", "tcp6") for line in Path("/proc/net", p).read_text().splitlines()[1:]]
print(json.dumps([p[1].split(":")[0] for p in lines if p[3] == "0A" and f"socket:[{p[9]}]" in inodes]))
ray.shutdown()
"""


def test_a_cluster_of_our_own_listens_on_this_machine_alone() -> None:
    done = subprocess.run([sys.executable, "-c", LISTENING], capture_output=True, text=True, check=True, timeout=300)
    addresses = json.loads(done.stdout.splitlines()[-1])
    assert len(addresses) >= 3
    assert set(addresses) <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
