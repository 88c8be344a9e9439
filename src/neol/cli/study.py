"""`neol study` and `neol report`: options and what they print."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from neol.cli.options import Parser, path_of
from neol.config.schema import check_value
from neol.errors import EXIT_FAILED_RUNS, EXIT_INTERRUPTED, NeolError


def study_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="run|list|status|export", parser_class=Parser, required=True)
    p = kinds.add_parser("run", help="run what is missing of a study")
    p.add_argument("file", metavar="FILE", type=path_of, help="the study: a TOML file, or a bundled one's name")
    p.add_argument("--out", metavar="DIR", type=path_of, help="the study's folder (runs/study-FILE)")
    p.add_argument("--jobs", type=int, default=0, metavar="N", help="runs at a time, one core each; 0 = one per core")
    p.add_argument("--seeds", help="a count n (seeds 0 .. n - 1) or a list 0,1,5 instead of the file's")
    p.add_argument("--scale", type=float, default=1.0, metavar="X", help="multiply every budget with this (1)")
    p.add_argument("--tasks", nargs="+", default=[], metavar="TASK", help="only these tasks")
    p.add_argument("--arms", nargs="+", default=[], metavar="ARM", help="only these arms, and their controls")
    p.add_argument("--from", dest="taken_from", metavar="DIR", type=path_of, action="append", default=[],
                   help="take over finished runs of this study, or of another that shares some (a folder, or a "
                   "study.sqlite); may be given several times")  # fmt: skip
    p.add_argument("--retry-failed", action="store_true", help="try runs that failed again")
    p.add_argument("--executor", choices=("local", "ray"), default="local", help="this machine, or a Ray cluster")
    p.add_argument("--ray-address", default="", metavar="ADDRESS", help="the Ray cluster; empty = start one here")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")
    kinds.add_parser("list", help="the bundled studies, by name")
    p = kinds.add_parser("status", help="how a study stands")
    p.add_argument("study", metavar="DIR", type=path_of, help="a study's folder")
    p.add_argument("--json", action="store_true", help="print JSON")
    p = kinds.add_parser("export", help="a study's results as CSV, or its database trimmed")
    p.add_argument("study", metavar="DIR", type=path_of, help="a study's folder")
    p.add_argument("--csv", nargs="?", const="-", metavar="FILE", help="one line per cell (default: print it)")
    p.add_argument("--database", type=path_of, metavar="FILE", help="a copy with what reports need, and no more")


def report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="DIR", type=path_of, help="a study's folder")
    parser.add_argument("--out", type=path_of, metavar="DIR", help="folder for the report (DIR/report)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (0)")
    parser.add_argument(
        "--regret", type=path_of, nargs="+", default=[], metavar="DIR", help="tell of these `neol regret` too"
    )
    parser.add_argument(
        "--lives", action="store_true", help="play a life of each task's best champion (NEOL's own tasks), to draw it"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but the report's path")


def study_command(args: argparse.Namespace) -> int:
    return {"run": _run, "list": _list, "status": _status, "export": _export}[args.kind](args)


def _run(args: argparse.Namespace) -> int:
    from neol.studies.plan import read_plan, read_seeds
    from neol.studies.scheduler import choose_cells, run_study
    from neol.training.progress import Progress

    if not 0 <= args.jobs <= 1024:
        raise NeolError(f"jobs = {args.jobs} is not allowed; it must be at least 0 and at most 1,024.")
    plan = read_plan(args.file)
    if args.seeds is not None:
        plan = dataclasses.replace(plan, seeds=read_seeds(_numbers(args.seeds)))
    out = args.out or Path("runs") / f"study-{args.file.stem}"
    chosen = choose_cells(plan, args.scale, args.tasks, args.arms)
    try:
        stands = run_study(
            plan, out, chosen, scale=args.scale, jobs=args.jobs, executor=args.executor, ray_address=args.ray_address,
            retry=args.retry_failed, taken_from=args.taken_from, show=Progress(quiet=args.quiet),
        )  # fmt: skip
    except KeyboardInterrupt:
        print("Interrupted; saved. Start the same command again to go on.", file=sys.stderr)
        return EXIT_INTERRUPTED
    where = shlex.quote(str(out))
    print(f"{plan.title}: {stands.done} runs done, {stands.failed} failed. Read it with: neol report {where}")
    if stands.failed:
        print(f"  Why: neol study status {where}. To try them again: the same command with --retry-failed.")
    return EXIT_FAILED_RUNS if stands.failed else 0


def _list(args: argparse.Namespace) -> int:
    from neol.studies.plan import bundled_studies

    titles = {name: tomllib.loads(p.read_text("utf-8"))["study"]["title"] for name, p in bundled_studies().items()}
    wide = max(map(len, titles)) + 2
    for name, title in titles.items():
        print(f"{name:<{wide}}{title}")
    print("Run one with: neol study run NAME. Or write your own file and name it instead.")
    return 0


def _numbers(text: str) -> Any:
    try:
        return [int(t) for t in text.split(",")] if "," in text else int(text)
    except ValueError:
        return text


def _status(args: argparse.Namespace) -> int:
    from neol.studies.database import DONE, FAILED
    from neol.studies.study import Study
    from neol.system import is_busy

    study = Study(args.study)
    state = {r.key: r.status if r.status in (DONE, FAILED) else "running" if is_busy(study.folder(r.key)) else r.status
             for r in study.rows}  # fmt: skip
    counts: dict[tuple[str, str], Counter[str]] = {}
    for r in study.rows:
        counts.setdefault((r.task, r.arm), Counter())[state[r.key]] += 1
    runs = Counter(state.values())
    columns = (DONE, "running", "waiting", FAILED)
    if args.json:
        cells = [{"task": t, "arm": a, **{c: n[c] for c in columns}} for (t, a), n in counts.items()]
        failures = [{"run": k, "reason": why} for k, why in study.failures()]
        runs_by_state = {c: runs[c] for c in columns}
        print(json.dumps({"title": study.title, "runs": runs_by_state, "cells": cells, "failures": failures}, indent=1))
        return 0
    print(f"{study.title}: " + ", ".join(f"{runs[c]} {c}" for c in columns) + f" of {len(state)} runs")
    wide, narrow = (max([len(k[i]) for k in counts] + [8]) + 2 for i in (0, 1))
    print(f"{'task':<{wide}}{'arm':<{narrow}}" + "".join(f"{c:>9}" for c in columns))
    for (task, arm), n in counts.items():
        print(f"{task:<{wide}}{arm:<{narrow}}" + "".join(f"{n[c]:>9}" for c in columns))
    for key, why in study.failures():
        print(f"{key} failed: {why}")
    return 0


def _export(args: argparse.Namespace) -> int:
    from neol.files import write_atomic
    from neol.studies.database import trimmed_copy
    from neol.studies.study import Study, to_csv

    if args.csv is None and args.database is None:
        raise NeolError("study export needs --csv or --database.")
    study = Study(args.study)
    if args.database is not None:
        trimmed_copy(study.database, args.database)
        print(args.database)
    if args.csv == "-":
        print(to_csv(study), end="")
    elif args.csv is not None:
        write_atomic(Path(args.csv), to_csv(study))
        print(args.csv)
    return 0


def report_command(args: argparse.Namespace) -> int:
    from neol.files import check_no_links
    from neol.report.report import make_report
    from neol.studies.study import Study

    check_value("seed", args.seed)
    if args.out is None:
        check_no_links(args.study, ["report"])
    page = make_report(Study(args.study), args.out or args.study / "report", args.seed, args.regret, args.lives)
    if not args.quiet:
        print((page.parent / "verdicts.txt").read_text(encoding="utf-8"), end="")
    print(page)
    return 0
