"""`neol regret`: options and what it prints."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from contextlib import ExitStack
from typing import Any

from neol.cli.options import Parser, path_of
from neol.envs.tasks import TASKS


def regret_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="synthetic|task", parser_class=Parser, required=True)
    p = kinds.add_parser("synthetic", help="on instances where A1 to A7 hold by construction")
    task = kinds.add_parser("task", help="on real rollouts, with an audit of the assumptions")
    task.add_argument("task", metavar="TASK", help=", ".join(TASKS))
    for q in (p, task):
        q.add_argument("--rule", default="hebb", help="plasticity rule: hebb, oja or bcm (hebb)")
        q.add_argument("--rounds", type=int, default=1000 if q is p else 200, metavar="T", help="outer rounds")
        q.add_argument("--pool", type=int, default=16 if q is p else 8, metavar="M", help="architectures")
        q.add_argument("--seed", type=int, default=0, help="the first seed (0)" if q is p else "seed (0)")
        q.add_argument("--constant", type=float, default=1.0, metavar="C", help="C of assumption A5 (1)")
        q.add_argument(
            "--out", type=path_of, required=True, metavar="DIR", help="folder for regret.npz, .json, .md and figures"
        )
        q.add_argument("--json", action="store_true", help="print regret.json")
        q.add_argument("--quiet", action="store_true", help="no progress, only the result")
    p.add_argument("--dim", type=int, default=8, metavar="d", help="weights of an architecture (8)")
    p.add_argument("--seeds", type=int, default=1, metavar="K", help="independent runs (1)")
    p.add_argument(
        "--feedback", default="full", metavar="full|bandit", help="Hedge sees every loss, EXP3 the chosen one's"
    )
    p.add_argument(
        "--adversary", default="stochastic", metavar="stochastic|shifting|worst-case", help="where losses come from"
    )
    p.add_argument(
        "--schedule", default="known", metavar="known|decreasing|doubling", help="learning rates: T known, or not"
    )
    p.add_argument(
        "--switches", type=int, metavar="k", help="Fixed-Share against k switches (shifting, full: 4; else 0)"
    )
    p.add_argument("--diameter", type=float, default=1.0, metavar="D", help="of the weights' ball (1)")
    p.add_argument(
        "--reach", type=float, default=0.0, help="how far weights move a loss, C D U; 0 = the adversary's own"
    )
    task.add_argument(
        "--run", type=path_of, metavar="RUN", help="take the topologies from a run's species (random ones)"
    )
    task.add_argument(
        "--eta", type=float, default=0.0, help="plasticity step; 0 = D / (U sqrt T), U from a pilot round"
    )
    task.add_argument(
        "--weight-limit", type=float, default=10.0, help="weights are projected onto [-limit, limit] (10)"
    )
    task.add_argument("--return-low", type=float, default=math.nan, help="return whose loss is 1 (the task's own)")
    task.add_argument("--return-high", type=float, default=math.nan, help="return whose loss is 0 (the task's own)")
    task.add_argument("--max-steps", type=int, default=0, help="longest episode; 0 = the task's own")
    task.add_argument("--audit-rounds", type=int, default=40, help="rounds in which A5 is audited (40)")
    task.add_argument("--comparators", type=int, default=16, help="comparators of each pass of the audit (16)")
    task.add_argument("--threads", type=int, default=1, help="simulator threads (1)")


def regret_command(args: argparse.Namespace) -> int:
    from neol.jit import announce_compilation
    from neol.theory.figures import draw_regret
    from neol.theory.regret import open_out, report_section, save
    from neol.training.progress import Progress

    out = open_out(args.out)
    show = Progress(quiet=args.quiet)
    compiling = ExitStack()
    begun: list[float] = []

    def say(text: str, done: float) -> None:
        compiling.close()
        if not begun:  # what came before was compilation: it says nothing about what is left
            begun.append(done)
            show.start(done)
        else:
            show.update(text, done, last=done >= 1.0)

    try:
        with compiling:
            compiling.enter_context(announce_compilation(show.say))
            named, facts, title = (_regret_synthetic if args.kind == "synthetic" else _regret_task)(args, say)
    finally:
        show.stop()
    save(out, named, facts, report_section(facts))
    made = draw_regret(named, out, title, facts)
    if args.json:
        print(json.dumps(facts, indent=1))
    else:
        print(report_section(facts), end="")
        print("\n".join(str(path) for path in (out / "regret.json", out / "regret.npz", *made)))
    return 0


def _regret_synthetic(args: argparse.Namespace, say: Any) -> tuple[Any, Any, str]:
    from neol.theory.regret import arrays, experiment, summary
    from neol.theory.synthetic import Setting

    if args.switches is None:
        args.switches = (
            min(4, max(args.rounds - 1, 0)) if (args.adversary, args.feedback) == ("shifting", "full") else 0
        )
    setting = Setting(**{f.name: getattr(args, f.name) for f in dataclasses.fields(Setting)})
    x = experiment(setting, args.seeds, args.seed, say=say)
    title = f"{args.rule}, {args.adversary}, {args.feedback} feedback: T = {args.rounds:,}, M = {args.pool}"
    return arrays(x), summary(x), f"{title}, {args.seeds} seed{'s' * (args.seeds > 1)}"


def _regret_task(args: argparse.Namespace, say: Any) -> tuple[Any, Any, str]:
    from neol.theory.audit import audit_task
    from neol.theory.on_tasks import TaskSetting

    names = [f.name for f in dataclasses.fields(TaskSetting)]
    named, facts = audit_task(TaskSetting(**{name: getattr(args, name) for name in names}), say)
    return named, facts, f"{args.task}, {args.rule}: T = {args.rounds:,}, M = {args.pool}"
