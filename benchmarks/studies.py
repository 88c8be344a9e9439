"""Studies: how long the smoke study takes, what 10 kills do to it, and what scheduling costs.

smoke: `neol study run paper/smoke` and `neol report`, from nothing, on all cores.
kill: the same with SIGKILL to everything at 10 random moments on the way; is the final database (without the clock's
    tables) the one of the uninterrupted study?
schedule: 40 short lunarlander runs. Each one's time alone (one worker, one after another), summed and halved, against
    the wall time of the whole study with two workers, their start included.

Run: python benchmarks/studies.py [--parts smoke kill schedule] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

SMOKE = "paper/smoke"
SHORT = """
[study]
tasks = ["lunarlander"]
seeds = 20
control = false
[budget]
generations = 8
[base]
pop_size = 50
champion_candidates = 3
champion_trials = 4
champion_episodes = 20
[[arm]]
name = "none"
rule = "none"
[[arm]]
name = "hebb"
rule = "hebb"
"""
KILLS = 10


def neol(*words: Any) -> list[str]:
    return [sys.executable, "-m", "neol", *map(str, words)]


def timed(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def contents(folder: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(folder / "study.sqlite")) as db:
        names = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            n: db.execute(f"SELECT * FROM {n} ORDER BY 1, 2").fetchall() for n in names if n not in ("clock", "timing")
        }


def smoke(folder: Path) -> dict[str, Any]:
    run = timed(neol("study", "run", SMOKE, "--out", folder))
    report = timed(neol("report", folder))
    return {"run_seconds": run, "report_seconds": report, "minutes": (run + report) / 60, "target_minutes": 15}


def kill(whole: Path, folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    draw, kills = random.Random(seed), 0
    while kills < KILLS:
        process = subprocess.Popen(neol("study", "run", SMOKE, "--out", folder, "--quiet"), start_new_session=True)
        time.sleep(draw.uniform(0.2, 1.0) * seconds / KILLS)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    timed(neol("study", "run", SMOKE, "--out", folder, "--quiet"))
    one, other = contents(whole), contents(folder)
    return {"kills": kills, "equal": one == other, "rows": {n: len(r) for n, r in one.items()}}


def schedule(folder: Path) -> dict[str, Any]:
    file = folder / "short.toml"
    file.write_text(SHORT)
    timed(neol("study", "run", file, "--out", folder / "one", "--jobs", 1, "--quiet"))
    with closing(sqlite3.connect(folder / "one" / "study.sqlite")) as db:
        alone = [r[0] for r in db.execute("SELECT wall_seconds FROM clock")]
    two = timed(neol("study", "run", file, "--out", folder / "two", "--jobs", 2, "--quiet"))
    return {"runs": len(alone), "sum_of_single_runs": sum(alone), "two_workers": two, "ratio": two / (sum(alone) / 2),
            "target": 1.1}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", default=["smoke", "kill", "schedule"])
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    args = parser.parse_args()
    out: dict[str, Any] = {"benchmark": "studies", "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "smoke" in args.parts or "kill" in args.parts:
            out["smoke"] = smoke(folder / "whole")
        if "kill" in args.parts:
            out["kill"] = kill(folder / "whole", folder / "killed", out["smoke"]["run_seconds"], args.seed)
        if "schedule" in args.parts:
            out["schedule"] = schedule(folder)
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
