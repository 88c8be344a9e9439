"""Waiting: how long `neol --help` takes, and how soon a second `neol train cartpole` has its generation 1.

Generation 1 is there when its row is in the run's history.csv (`--generations 2`, so that it is written at once).
One JSON object on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HELP_LIMIT, TRAIN_LIMIT = 0.5, 5.0  # seconds
NEOL = str(Path(sys.executable).with_name("neol"))
HEAVY = ("numba", "numpy", "envpool", "gymnasium", "matplotlib", "rich", "scipy")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def source_stamp() -> float:
    """When a module was last edited: an edit makes the next run compile its kernels again."""
    import neol

    return max(f.stat().st_mtime for f in Path(neol.__file__).parent.glob("*.py"))


def summary(times: list[float]) -> dict[str, Any]:
    return {
        "best": round(min(times), 3), "median": round(statistics.median(times), 3), "all": [round(t, 3) for t in times],
    }  # fmt: skip


def time_help() -> float:
    started = time.perf_counter()
    subprocess.run([NEOL, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def imported_by_help() -> list[str]:
    """Which heavy packages `neol --help` imports."""
    command = [sys.executable, "-X", "importtime", NEOL, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "neol.cli.main" in imported, "the interpreter did not say what it imported"
    return [name for name in HEAVY if name in imported]


def rows(history: Path) -> int:
    """Generations in the file, which is replaced whole."""
    try:
        return len(history.read_text().splitlines()) - 1
    except FileNotFoundError:
        return 0


def time_train(task: str, extra: list[str]) -> dict[str, float]:
    """Seconds from the start of the process until each thing is there."""
    seen: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [NEOL, "train", task, "--generations", "2", "--out", str(out), *extra]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        running = True
        while running:
            running = process.poll() is None
            now = time.perf_counter() - started
            if (out / "config.toml").exists():
                seen.setdefault("folder", now)
            done = rows(out / "history.csv")
            if done >= 1:
                seen.setdefault("generation_0", now)
            if done >= 2:
                seen.setdefault("generation_1", now)
            time.sleep(0.002)
        seen["exit"] = time.perf_counter() - started
        if process.returncode != 0 or "generation_1" not in seen:
            raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}")
    return {k: round(v, 3) for k, v in seen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--task", default="cartpole")
    parser.add_argument("--train-options", nargs=argparse.REMAINDER, default=[], help="for `neol train`; must be last")
    options = parser.parse_args()
    load, stamp = os.getloadavg(), source_stamp()
    first = time_train(options.task, options.train_options)
    say(f"first train: {first}")
    trains = [time_train(options.task, options.train_options) for _ in range(options.repeats)]
    say(f"second train: {trains}")
    time_help()
    helps = [time_help() for _ in range(options.repeats)]
    heavy = imported_by_help()
    generation_1 = summary([t["generation_1"] for t in trains])
    help_time = summary(helps)
    result = {
        "benchmark": "startup",
        "load_before": load,
        "writes_bytecode": not sys.dont_write_bytecode,  # else our modules are compiled at every start
        "help": {
            "seconds": help_time,
            "limit": HELP_LIMIT,
            "heavy_imports": heavy,
            "imports_numba": "numba" in heavy,
            "met": help_time["median"] < HELP_LIMIT and "numba" not in heavy,
        },
        "sources_edited_meanwhile": source_stamp() != stamp,  # then later runs had to compile: measure again
        "train": {
            "task": options.task,
            "options": options.train_options,
            "generation_1_seconds": generation_1,
            "limit": TRAIN_LIMIT,
            "met": generation_1["median"] < TRAIN_LIMIT,
            "first_run": first,  # its kernels may have been cached before
            "later_runs": trains,
        },
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
