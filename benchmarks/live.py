"""The live page: what ten pages cost a training, what playing takes of a core, and how soon 500 runs are listed.

Trainings with ten pages open and without take turns, so that the machine's noise hits both; each page watches the list
and the run, and takes whatever comes. Shares of a core are CPU time by the clock. One JSON object on stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from neol.live.messages import unpack
from neol.system import own_environment

PAGES, SLOWER, SHARE, OPENS = 10, 0.05, 1 / 3, 2.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def neol(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "neol", *words]


def serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(neol("live", str(folder)), stdout=subprocess.PIPE, text=True, env=own_environment())
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def train(folder: Path, task: str, steps: int) -> float:
    """Steps per second of a training on one thread."""
    words = ["--max-env-steps", str(steps), "--generations", "100000", "--threads", "1", "--champion-episodes", "2"]
    command = neol("train", task, "--out", str(folder), *words)
    subprocess.run(command, env=own_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return float(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["steps_per_second"])


async def look(address: str, name: str) -> None:
    """A page that watches the list and a run, for ever."""
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}watch", max_msg_size=0) as socket:
        await socket.send_json({"do": "watch", "runs": [name]})
        async for _ in socket:
            pass


async def with_pages(address: str, name: str, work: Any) -> Any:
    pages = [asyncio.create_task(look(address, name)) for _ in range(PAGES)]
    try:
        return await asyncio.to_thread(work)
    finally:
        for page in pages:
            page.cancel()


def slowdown(task: str, steps: int, pairs: int) -> dict[str, Any]:
    """Steps per second with and without pages, in turn."""
    alone, watched, cpu = [], [], []
    for pair in range(pairs):
        with tempfile.TemporaryDirectory() as home:
            alone.append(train(Path(home) / "alone", task, steps))
            process, address = serve(Path(home))
            try:
                began, before = time.monotonic(), sum(psutil.Process(process.pid).cpu_times()[:2])
                work = lambda home=home: train(Path(home) / "watched", task, steps)  # noqa: E731
                watched.append(asyncio.run(with_pages(address, "watched", work)))
                spent = sum(psutil.Process(process.pid).cpu_times()[:2]) - before
                cpu.append(spent / (time.monotonic() - began))
            finally:
                process.terminate()
                process.wait()
        say(f"pair {pair + 1}: {alone[-1]:.0f} steps/s alone, {watched[-1]:.0f} with {PAGES} pages")
    slower = 1.0 - statistics.median(w / a for w, a in zip(watched, alone, strict=True))
    return {
        "task": task, "pages": PAGES, "steps_per_second_alone": alone, "steps_per_second_watched": watched,
        "slower": slower, "at_most": SLOWER, "ok": slower <= SLOWER, "server_share_of_a_core": statistics.median(cpu),
    }  # fmt: skip


async def play(address: str, pid: int, lives: int, seconds: float) -> dict[str, Any]:
    """The share of a core that server and player take while a life is played at normal speed."""
    frames = 0
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}life?run=run") as socket:
        began: float | None = None
        before = 0.0
        await socket.send_json({"do": "lives", "count": lives})
        async for message in socket:
            head, _ = unpack(message.data)
            if "frame" not in head:
                continue
            await socket.send_json({"do": "got"})
            if head["frame"]["over"]:
                await socket.send_json({"do": "reset", "seed": head["frame"]["seed"] + 1})
            now, frames = time.monotonic(), frames + 1
            if began is None and frames > 60:  # it has settled
                began, before, frames = now, used(pid), 60
            elif began is not None and now - began > seconds:
                share = (used(pid) - before) / (now - began)
                per_second = (frames - 60) / (now - began)
                return {"lives": lives, "share_of_a_core": share, "frames_per_second": per_second, "ok": share <= SHARE}
    raise RuntimeError("the player has gone")


def used(pid: int) -> float:
    """CPU seconds of a process and its children so far."""
    process = psutil.Process(pid)
    return sum(sum(p.cpu_times()[:2]) for p in [process, *process.children()])


def playing(task: str, seconds: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as home:
        train(Path(home) / "run", task, 20_000)
        process, address = serve(Path(home))
        try:
            return [asyncio.run(play(address, process.pid, lives, seconds)) for lives in (1, 2)]
        finally:
            process.terminate()
            process.wait()


def opening(runs: int) -> dict[str, Any]:
    """From the start of the server's process to the list of many runs in a page."""
    with tempfile.TemporaryDirectory() as home:
        first = Path(home) / "run-0"
        train(first, "cartpole", 20_000)
        files = {f.name: f.read_bytes() for f in first.iterdir() if f.is_file()}
        for i in range(1, runs):
            (Path(home) / f"run-{i}").mkdir()
            for name, content in files.items():
                (Path(home) / f"run-{i}" / name).write_bytes(content)
        began = time.monotonic()
        process, address = serve(Path(home))
        started = time.monotonic()

        async def listed() -> int:
            async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}watch", max_msg_size=0) as s:
                return len((await s.receive_json())["list"]["runs"])

        try:
            found = asyncio.run(listed())
        finally:
            process.terminate()
            process.wait()
        spent = time.monotonic() - started
        return {"runs": found, "seconds": spent, "server_start_seconds": started - began, "ok": spent < OPENS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="lunarlander")
    parser.add_argument("--steps", type=int, default=1_000_000, help="env steps of each training")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of playing")
    parser.add_argument("--only", choices=("slowdown", "playing", "opening"))
    args = parser.parse_args()
    parts = {
        "opening": lambda: opening(500),
        "playing": lambda: playing(args.task, args.seconds),
        "slowdown": lambda: slowdown(args.task, args.steps, args.pairs),
    }
    print(json.dumps({k: part() for k, part in parts.items() if args.only in (None, k)}, indent=1))


if __name__ == "__main__":
    main()
