"""Thousands of bad inputs, seeded and resumable, in processes that may crash or hang; a table of what became of them.

    make fuzz                                              # 30,000 cases, about 15 minutes on two cores
    python tests/fuzz/harness.py --cases 500 --only "study database" --work /tmp/fuzz
    python tests/fuzz/harness.py --case 1234               # one, in this process, with its traceback

Every fourth case runs in a process with Numba's bounds checks on (compiled apart, once). Exit code 1 where one crashed,
hung, raised anything but a NeolError, or wrote where it should not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
OUTCOMES = ("accepted", "refused", "fault", "crash", "hang")
PATIENCE = 60.0  # seconds that a case may take on a machine that is busy
STARTING = 600.0  # seconds for the first case of a family in a process, which compiles
CHECKED = 4  # every so manieth case runs with bounds checks


def family(case: int) -> str:
    """What kind of input a case is."""
    from generators import family as named

    return named(case)


class Worker:
    """A process that plays the cases that it is told."""

    def __init__(self, work: Path, name: str, seed: int, checks: bool) -> None:
        self.work, self.name, self.seed, self.checks = work, name, seed, checks
        self.case = -1
        self.start()

    def start(self) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(HERE), str(HERE.parent)])}
        if self.checks:  # Numba's cache does not know of the flag
            env |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(self.work / "checked-kernels")}
        words = [sys.executable, str(Path(__file__)), "--worker", "--work", str(self.work), "--name", self.name]
        self.process = subprocess.Popen(
            [*words, "--seed", str(self.seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=open(self.work / f"{self.name}.log", "ab"), env=env, text=True,  # noqa: SIM115 the process's own
        )  # fmt: skip
        self.warm: set[str] = set()  # the families that it has played: the first case of each compiles
        self.since = time.monotonic()

    def give(self, case: int) -> None:
        self.case, self.since = case, time.monotonic()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: its end of the other pipe tells
            print(case, file=self.process.stdin, flush=True)

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.since > (PATIENCE if family(self.case) in self.warm else STARTING)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def serve(work: Path, name: str, seed: int) -> None:
    """A worker process: numbers of cases in, outcomes out."""
    from generators import play

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    own = work / name
    own.mkdir(exist_ok=True)
    os.chdir(own)
    for line in sys.stdin:
        outcome, why = play(seed, int(line), work / "good", own)
        print(json.dumps([outcome, why]), file=answers, flush=True)


def run(
    work: Path, cases: int, jobs: int, seed: int, only: str = "", say: bool = True, checks: bool = True
) -> list[tuple[int, str, str]]:
    """Play what is missing of the cases; all results (case, outcome, why), which are kept in the folder `work`.

    `checks`: a quarter of them with bounds checks, which are compiled first.
    """
    log = work / f"results-{seed}.jsonl"
    done: dict[int, tuple[str, str]] = {}
    if log.exists():
        done = {int(c): (o, w) for c, o, w in map(json.loads, log.read_text().splitlines())}
    wanted = [c for c in range(cases) if only in family(c)]
    queues: dict[bool, list[int]] = {
        kind: [c for c in wanted if c not in done and (checks and c % CHECKED == 0) == kind][::-1]
        for kind in (False, True)
    }
    kinds = [i == 1 and bool(queues[True]) for i in range(jobs)]
    workers = [Worker(work, f"w{i}", seed, kind) for i, kind in enumerate(kinds)]
    try:
        with open(log, "a") as out:
            _play_all(workers, queues, done, out, say, len(wanted))
    finally:
        for worker in workers:
            worker.end()
    return [(c, *done[c]) for c in wanted if c in done]


def _next(worker: Worker, queues: dict[bool, list[int]]) -> int | None:
    """A case of the worker's own kind; where there is none, of the other, for which the worker becomes another."""
    if not queues[worker.checks]:
        if not queues[not worker.checks]:
            return None
        worker.end()
        worker.checks = not worker.checks
        worker.start()
    return queues[worker.checks].pop()


def _play_all(
    workers: list[Worker],
    queues: dict[bool, list[int]],
    done: dict[int, tuple[str, str]],
    out: Any,
    say: bool,
    total: int,
) -> None:
    busy: set[int] = set()
    late: set[int] = set()  # cases that took too long once

    def begin(i: int) -> None:
        case = _next(workers[i], queues)
        busy.discard(i)
        if case is not None:
            workers[i].give(case)
            busy.add(i)

    def ended(i: int, outcome: str, why: str) -> None:
        case = workers[i].case
        done[case] = (outcome, why)
        print(json.dumps([case, outcome, why]), file=out, flush=True)
        if say and len(done) % 500 == 0:
            print(f"{len(done):,} of {total:,} cases", file=sys.stderr, flush=True)

    for i in range(len(workers)):
        begin(i)
    while busy:
        with selectors.DefaultSelector() as waiting:
            for i in busy:
                assert workers[i].process.stdout is not None
                waiting.register(workers[i].process.stdout, selectors.EVENT_READ, i)
            ready = [key.data for key, _ in waiting.select(1.0)]
        for i in ready:
            worker = workers[i]
            assert worker.process.stdout is not None
            line = worker.process.stdout.readline()
            if line:
                worker.warm.add(family(worker.case))
                ended(i, *json.loads(line))
            else:
                ended(i, "crash", f"the process ended with {worker.process.wait()}")
                worker.start()
            begin(i)
        for i in [j for j in busy if workers[j].is_late and j not in ready]:
            case = workers[i].case
            workers[i].end()
            workers[i].start()
            if case in late:
                ended(i, "hang", f"longer than {PATIENCE:.0f} s, and than {STARTING:.0f} s in a new process")
                begin(i)
            else:  # the machine is busy, or kernels were compiled: once more, in the new process, with more patience
                late.add(case)
                workers[i].give(case)


def counted(results: list[tuple[int, str, str]]) -> dict[str, Counter[str]]:
    """How many of each family came to each outcome."""
    from generators import FAMILIES

    return {name: Counter(o for c, o, _ in results if family(c) == name) for name in FAMILIES}


def write(path: Path, results: list[tuple[int, str, str]], seed: int, checks: bool) -> None:
    """The counts as JSON."""
    from neol.training.run_folder import versions

    with_checks = sum(c % CHECKED == 0 for c, _, _ in results) if checks else 0
    families = {name: {o: found[o] for o in OUTCOMES} for name, found in counted(results).items()}
    facts = {"seed": seed, "cases": len(results), "with_bounds_checks": with_checks, "versions": versions()}
    path.write_text(json.dumps({**facts, "families": families}, indent=1) + "\n", encoding="utf-8")


def table(results: list[tuple[int, str, str]]) -> str:
    """Families by outcomes, as Markdown."""
    counts = counted(results)
    lines = [f"| family | cases | {' | '.join(OUTCOMES)} |", "| --- |" + " ---: |" * (1 + len(OUTCOMES))]
    for name, found in [*counts.items(), ("all", Counter(o for _, o, _ in results))]:
        if found:
            lines.append(f"| {name} | {sum(found.values()):,} | {' | '.join(f'{found[o]:,}' for o in OUTCOMES)} |")
    return "\n".join(lines)


def prepare(work: Path) -> None:
    """The good files, made once in the folder."""
    from generators import make_good

    if not (work / "good" / "neat.ini").exists():
        make_good(work / "good", HERE.parent / "data" / "neat" / "authors-plastic.ini")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=30_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a family, or a part of its name")
    parser.add_argument(
        "--work", type=Path, default=HERE.parents[1] / ".fuzz", help="where results and good files are kept"
    )
    parser.add_argument(
        "--no-checks", action="store_true", help="none with bounds checks, which take minutes to compile"
    )
    parser.add_argument("--case", type=int, help="play this one here, and show its traceback")
    parser.add_argument("--out", type=Path, help="the counts as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path[:0] = [str(SOURCE), str(HERE), str(HERE.parent)]
    if args.worker:
        serve(args.work, args.name, args.seed)
        return 0
    args.work = args.work.resolve()  # workers have folders of their own
    args.work.mkdir(parents=True, exist_ok=True)
    prepare(args.work)
    if args.case is not None:
        return _one(args.seed, args.case, args.work / "good")
    began = time.monotonic()
    results = run(args.work, args.cases, args.jobs, args.seed, args.only, checks=not args.no_checks)
    print(table(results))
    if args.out:
        write(args.out, results, args.seed, not args.no_checks)
    print(
        f"\n{time.monotonic() - began:.0f} s; {'none' if args.no_checks else f'every {CHECKED}th'} with bounds checks."
    )
    bad = [r for r in results if r[1] not in ("accepted", "refused")]
    for case, outcome, why in bad[:50]:
        print(f"case {case}: {outcome}: {why}")
    return 1 if bad else 0


def _one(seed: int, case: int, good: Path) -> int:
    import numpy as np
    from generators import FAMILIES

    with tempfile.TemporaryDirectory() as folder:
        print(family(case))
        accepted = FAMILIES[family(case)][1](np.random.default_rng([seed, case]), good, Path(folder))
        print(accepted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
