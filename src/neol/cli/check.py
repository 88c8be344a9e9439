"""`neol check`: options and what it prints."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout

from neol.config.schema import field_choices
from neol.envs.tasks import TASKS
from neol.errors import EXIT_FAILED_RUNS


def check_options(p: argparse.ArgumentParser) -> None:
    names = f"{', '.join(TASKS)}, a Gymnasium id, module:id, or module:callable"
    p.add_argument("env", metavar="ENV", help=names)
    p.add_argument("--env-kwargs", nargs="+", default=(), metavar="KEY=VALUE", help="arguments of the environment")
    p.add_argument("--engine", choices=field_choices("engine"), default="auto", help="simulator (auto)")
    p.add_argument("--steps", type=int, default=10_000, metavar="N", help="random actions to try (10,000)")
    p.add_argument("--json", action="store_true", help="print JSON")


def check_command(args: argparse.Namespace) -> int:
    from neol.rollout.check_environment import check

    with redirect_stdout(sys.stderr):  # what the environment prints
        report = check(args.env, args.env_kwargs, args.engine, args.steps)
    print(json.dumps(report.as_dict(), indent=1) if args.json else report)
    return 0 if report.ok else EXIT_FAILED_RUNS
