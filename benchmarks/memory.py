"""Memory: the peak of a large population, and what two hundred generations leave behind.

peak:   `neol.train("lunarlander", pop_size=10000, generations=3)`, its champion included: peak resident size.
growth: `neol.train("hopper", pop_size=100, generations=200, episodes=1)`: resident size after the tenth and the last.
Each in a process of its own. One JSON object on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MB = 2**20
PEAK_LIMIT_MB, GROWTH_LIMIT_MB = 2048, 50
TENTH = 10


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def peak_mb() -> float:
    """The largest resident size that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


def run(task: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Train, and note the resident size (MB) after every generation."""
    import psutil

    import neol

    process = psutil.Process()
    resident: list[float] = []
    peaks: list[float] = []

    def note(done: Any) -> None:
        resident.append(process.memory_info().rss / MB)
        peaks.append(peak_mb())
        row = done.row
        if len(resident) <= 3 or len(resident) % TENTH == 0:
            say(f"{task} generation {row['generation']:.0f}: {resident[-1]:.0f} MB, {row['mean_steps']:.0f} steps each")

    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        summary = neol.train(task, out=Path(folder) / "run", callback=note, **settings).summary
    return {
        "settings": settings,
        "resident_mb": [round(r, 1) for r in resident],
        "peak_mb_by_generation": [round(p, 1) for p in peaks],
        "resident_mb_after_training": round(process.memory_info().rss / MB, 1),
        "peak_mb": round(peak_mb(), 1),
        "generations": len(resident),
        "env_steps": summary.env_steps,
        "seconds": round(time.monotonic() - started, 1),
    }


def child(task: str, settings: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", json.dumps([task, settings])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["peak", "growth"], choices=["peak", "growth"])
    parser.add_argument("--threads", type=int, default=0, help="0 = one per core")
    parser.add_argument("--peak-pop", type=int, default=10_000)
    parser.add_argument("--peak-generations", type=int, default=3)
    parser.add_argument("--peak-episodes", type=int, default=0, help="per genome; 0 = the default configuration's")
    parser.add_argument("--growth-pop", type=int, default=100)
    parser.add_argument("--growth-generations", type=int, default=200)
    parser.add_argument("--max-steps", type=int, default=0, help="longest hopper episode; 0 = the task's own 1,000")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run(*json.loads(options.child))))
        return
    from neol.training.run_folder import versions

    result: dict[str, Any] = {"benchmark": "memory", "cores": len(os.sched_getaffinity(0)), "versions": versions()}
    if "peak" in options.parts:
        settings = {
            "pop_size": options.peak_pop, "generations": options.peak_generations, "threads": options.threads,
            "max_env_steps": 0,
        }  # fmt: skip
        if options.peak_episodes:
            settings["episodes"] = options.peak_episodes
        measured = child("lunarlander", settings)
        limit = {"limit_mb": PEAK_LIMIT_MB, "met": measured["peak_mb"] < PEAK_LIMIT_MB}
        result["peak"] = {"task": "lunarlander", **limit, **measured}
    if "growth" in options.parts:
        settings = {
            "pop_size": options.growth_pop, "generations": options.growth_generations, "episodes": 1,
            "max_steps": options.max_steps, "threads": options.threads, "max_env_steps": 0,
        }  # fmt: skip
        measured = child("hopper", settings)
        sizes = measured.pop("resident_mb")
        peaks = measured.pop("peak_mb_by_generation")
        tenth = min(TENTH, len(sizes)) - 1
        growth = sizes[-1] - sizes[tenth]
        result["growth"] = {
            "task": "hopper",
            "growth_mb": round(growth, 1),
            "limit_mb": GROWTH_LIMIT_MB,
            "met": growth < GROWTH_LIMIT_MB if len(sizes) > TENTH else None,
            "after_tenth_mb": sizes[tenth],
            "after_last_mb": sizes[-1],
            "largest_after_tenth_mb": max(sizes[tenth:]),
            "peak_growth_mb": round(peaks[-1] - peaks[tenth], 1),
            "every_tenth_mb": sizes[TENTH - 1 :: TENTH],
            **measured,
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
