"""SIGKILL, again and again: train (EnvPool, Gymnasium, Ray), study, baseline and refine end with the same bytes.

    python benchmarks/soak.py --out results/engine/soak.json    # 200 kills in all, about 20 minutes on a core
    python benchmarks/soak.py --kills 4 --only gymnasium

Each kind runs once whole, then again and again: started, killed at a random moment (named by --seed), gone on with,
until its share of the kills is used up; then to its end. Reported: the kills, whether the bytes are those of the whole
run, processes that were alive 2 s after a kill, temporary files and locks that are left at the end, the slowest death.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from neol.training.run_folder import versions

GRACE = 2.0  # seconds that nothing may outlive its parent by
CHAMPION = "--champion-candidates 2 --champion-trials 2 --champion-episodes 4 --quiet"
TRAIN = f"--pop-size 20 --elitism 1 {CHAMPION} --resume"
STUDY = """
[study]
title = "soak"
tasks = ["cartpole"]
seeds = 1
reference = "none"
[budget]
generations = 15
[base]
pop_size = 20
elitism = 1
champion_candidates = 2
champion_trials = 2
champion_episodes = 4
[[arm]]
name = "none"
rule = "none"
[[arm]]
name = "hebb"
rule = "hebb"
"""
FILES = ("history.csv", "champion.json", "champion.npz", "start.json")  # what is compared
REFINED = f"train cartpole --generations 3 --pop-size 20 --elitism 1 --out of {CHAMPION}"
# kind -> (share of the kills, what follows `neol`, what has to be there before)
KINDS: dict[str, tuple[float, str, str]] = {
    "train, EnvPool": (0.25, f"train lunarlander --generations 8 --out run {TRAIN}", ""),
    "train, EnvPool workers": (0.15, f"train cartpole --workers 2 --generations 40 --out run {TRAIN}", ""),
    "train, Gymnasium": (0.2, f"train cartpole --engine gymnasium --workers 2 --generations 20 --out run {TRAIN}", ""),
    "train, Ray": (0.05, f"train cartpole --executor ray --workers 2 --generations 20 --out run {TRAIN}", ""),
    "study": (0.15, "study run study.toml --out run --jobs 2 --quiet", ""),
    "baseline": (0.1, "baseline ppo cartpole --max-env-steps 12000 --interval 2000 --out run --quiet --resume", ""),
    "refine": (0.1, f"refine of --max-env-steps 60000 --out run {CHAMPION} --resume", REFINED),
}


class Soaked(NamedTuple):
    kind: str
    kills: int
    same_bytes: bool
    orphans: int  # processes alive GRACE seconds after a kill
    slowest: float  # seconds until the last process below was gone
    left: list[str]  # temporary files and locks at the end
    tracebacks: int  # in what was said on stderr
    seconds: float


def command(words: str) -> list[str]:
    return [sys.executable, "-m", "neol", *words.split()]


def started(words: str, folder: Path) -> subprocess.Popen[bytes]:
    with open(folder / "stderr.txt", "ab") as log:
        return subprocess.Popen(
            command(words), cwd=folder, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )


def below(pid: int) -> list[int]:
    """All processes below one, by /proc."""
    found, queue = [], [pid]
    while queue:
        for task in Path(f"/proc/{queue.pop()}/task").glob("*"):
            try:
                children = [int(c) for c in (task / "children").read_text().split()]
            except OSError:
                continue
            found += children
            queue += children
    return found


def session(leader: int) -> list[int]:
    """The processes of a session: those that were forked at the very moment, too."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(rest[3]) == leader and pid != leader:
            found.append(pid)
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def digest(folder: Path) -> str:
    """A fingerprint of what a run or a study's runs came to."""
    total = hashlib.sha256()
    for file in sorted(p for p in (folder / "run").rglob("*") if p.name in FILES):
        total.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return total.hexdigest()


def left_over(folder: Path) -> list[str]:
    return sorted(p.name for p in (folder / "run").rglob(".*"))


def soak(kind: str, kills: int, rng: random.Random, root: Path) -> Soaked:
    _, words, before = KINDS[kind]
    folders = [root / f"{kind.replace(', ', '-')}-{name}" for name in ("whole", "killed")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "study.toml").write_text(STUDY)
        if before:
            subprocess.run(command(before), cwd=folder, stdout=subprocess.DEVNULL, check=True)
    began = time.monotonic()
    subprocess.run(command(words), cwd=folders[0], stdout=subprocess.DEVNULL, check=True)
    whole = time.monotonic() - began
    folder, done, orphans, slowest = folders[1], 0, 0, 0.0
    while done < kills:
        process = started(words, folder)
        end = time.monotonic() + rng.uniform(0.05, 1.0) * whole
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is not None:  # it got to its end: begun anew
            shutil.rmtree(folder / "run")
            continue
        family = set(below(process.pid))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed = time.monotonic()
        while any(map(alive, family := {*family, *session(process.pid)})) and time.monotonic() - killed < 10 * GRACE:
            time.sleep(0.01)
        took = time.monotonic() - killed
        orphans += sum(map(alive, family)) if took >= GRACE else 0
        slowest, done = max(slowest, took), done + 1
    subprocess.run(command(words), cwd=folder, stdout=subprocess.DEVNULL, check=True)
    said = (folder / "stderr.txt").read_text(errors="replace") if (folder / "stderr.txt").exists() else ""
    return Soaked(
        kind, done, digest(folders[0]) == digest(folder), orphans, slowest, left_over(folder), said.count("Traceback"),
        time.monotonic() - began,
    )  # fmt: skip


def table(results: list[Soaked]) -> str:
    lines = ["| kind | kills | same bytes | orphans after 2 s | slowest death | left over | tracebacks | seconds |",
             "| --- | ---: | --- | ---: | ---: | --- | ---: | ---: |"]  # fmt: skip
    for r in results:
        left = ", ".join(r.left) or "nothing"
        lines.append(f"| {r.kind} | {r.kills} | {'yes' if r.same_bytes else 'NO'} | {r.orphans} | {r.slowest:.2f} s | "
                     f"{left} | {r.tracebacks} | {r.seconds:.0f} |")  # fmt: skip
    return "\n".join(lines)


def write(path: Path, seed: int, results: list[Soaked]) -> None:
    facts: dict[str, Any] = {"seed": seed, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()}
    rows = [{**r._asdict(), "slowest": round(r.slowest, 3), "seconds": round(r.seconds, 1)} for r in results]
    document = {**facts, "versions": versions(), "kills": sum(r.kills for r in results), "kinds": rows}
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON")
    args = parser.parse_args()
    chosen = {k: v for k, v in KINDS.items() if args.only in k}
    shares = sum(share for share, _, _ in chosen.values())
    results: list[Soaked] = []
    with tempfile.TemporaryDirectory() as root:
        for kind, (share, _, _) in chosen.items():
            kills = max(1, round(args.kills * share / shares))
            results.append(soak(kind, kills, random.Random(f"{args.seed} {kind}"), Path(root)))
            print(results[-1], file=sys.stderr, flush=True)
            if args.out:
                write(args.out, args.seed, results)
    print(table(results))
    return int(not all(r.same_bytes and not (r.orphans or r.left or r.tracebacks) for r in results))


if __name__ == "__main__":
    sys.exit(main())
