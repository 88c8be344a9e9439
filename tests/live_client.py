"""A real server of the live page, in a process of its own, and what tests ask it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil
from forked import Forked, ForkServer

from neol.deploy import task_interface
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.tasks import Task
from neol.live.messages import unpack
from neol.system import own_environment

PATIENCE = 240.0  # seconds: the first player on a machine compiles


class Address(str):
    """Where a server is, and which process it is."""

    pid: int


@contextmanager
def served(folder: Path, *words: str) -> Iterator[Address]:
    """The address of `neol live FOLDER`, which ends with the block."""
    command = [sys.executable, "-P", "-m", "neol", "live", str(folder), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own_environment(), cwd=folder)
    try:
        assert process.stdout is not None
        address = Address(process.stdout.readline().strip())
        address.pid = process.pid
        assert address.startswith("http://127.0.0.1:"), address
        yield address
        assert process.poll() is None, "the server has ended"
    finally:
        process.terminate()
        process.wait(10)


def train(forks: ForkServer, folder: Path, *words: str) -> Forked:
    """`neol train cartpole`, small, in a process of its own."""
    small = ("--pop-size=20", "--episodes=1", "--champion-episodes=2", "--champion-trials=2", "--threads=1")
    return forks.start(["train", "cartpole", "--out", str(folder), *small, *words])


async def text_until(socket: aiohttp.ClientWebSocketResponse, fits: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The first message of JSON that fits."""
    async with _patience():
        async for message in socket:
            said = json.loads(message.data)
            if fits(said):
                return said
    raise AssertionError("the server has closed the websocket")


async def frame_until(
    socket: aiohttp.ClientWebSocketResponse, fits: Callable[[dict[str, Any]], Any]
) -> tuple[dict[str, Any], list[bytes]]:
    """The first message of a life that fits; every frame is taken, as a page does."""
    async with _patience():
        async for message in socket:
            head, blobs = unpack(message.data)
            if "frame" in head:
                await socket.send_json({"do": "got"})
            if fits(head):
                return head, blobs
    raise AssertionError("the server has closed the websocket")


def _patience() -> Any:
    import asyncio

    return asyncio.timeout(PATIENCE)


def run(work: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    """An asynchronous piece of a test."""
    import asyncio

    async def inside() -> Any:
        async with aiohttp.ClientSession() as session:
            return await work(session)

    return asyncio.run(inside())


def children(pid: int) -> set[int]:
    """The processes that one has started."""
    return {p.pid for p in psutil.Process(pid).children()}


def wait_for(fits: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := fits():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    """What a reader must not change: every file's times, size and inode."""
    files = [Path(at, name) for at, _, names in os.walk(folder) for name in names]
    return {str(f): (f.stat().st_mtime_ns, f.stat().st_size, f.stat().st_ino) for f in files}


def champion(task: Task, seed: int = 0, hidden: int = 2, max_steps: int = 80, **plasticity: Any) -> PlasticNetwork:
    """A random network for a task, with a recurrent connection, which learns by Hebb."""
    draw = np.random.default_rng(seed)
    inputs, outputs = [-1 - i for i in range(task.n_inputs)], list(range(task.n_outputs))
    inner = [100 + i for i in range(hidden)]
    nodes = [{"id": k, "type": "input"} for k in inputs]
    nodes += [
        {
            "id": k, "type": "output" if k in outputs else "hidden", "bias": float(draw.normal()), "response": 1.0,
            "activation": {"name": "tanh", "custom": False}, "aggregation": {"name": "sum", "custom": False},
        }
        for k in outputs + inner
    ]  # fmt: skip
    pairs = [(a, b) for a in inputs for b in outputs + inner] + [(a, b) for a in inner for b in outputs]
    pairs += [(inner[0], inner[0])] if inner else []
    document = {
        "format_version": "1.0", "network_type": "recurrent", "metadata": {"generator": "neol", "max_steps": max_steps},
        "topology": {
            "num_inputs": len(inputs), "num_outputs": len(outputs), "input_keys": inputs, "output_keys": outputs,
        },
        "nodes": nodes,
        "connections": [{"from": a, "to": b, "weight": float(draw.normal()), "enabled": True} for a, b in pairs],
        "interface": task_interface.to_document(task),
        "plasticity": {"rule": "hebb", "lr": 0.25, "reward_scale": 0.01, "output_transform": "tanh", **plasticity},
    }  # fmt: skip
    return PlasticNetwork.from_json(document)
