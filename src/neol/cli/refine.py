"""`neol refine`: options and what it prints."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from neol.cli.options import UNSET, Parser, settings_options
from neol.cli.train import print_summary, say_interrupted
from neol.config.schema import fields


def refine_options(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder")
    parser.add_argument("--out", metavar="DIR", type=Path, help="the new run's folder (RUN-refined)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out (or start it)")
    parser.add_argument("--overwrite", action="store_true", help="begin anew in --out, whatever run is there")
    parser.add_argument("--trust", action="store_true", help="import the environment (module:name) that RUN names")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    settings_options(parser)
    parser.usage = "neol refine RUN [OPTIONS]"
    shown = {"es", "max_env_steps", "seed", "workers", *(a.dest for a in parser._actions if a.dest not in fields())}
    parser.rare = frozenset(name for name in fields() if name not in shown)
    parser.epilog = "Settings are the run's own, but for outer = es, and a fifth of its env steps."


def refine_command(args: argparse.Namespace) -> int:
    settings = {n: getattr(args, n) for n in fields() if n != "task" and getattr(args, n) is not UNSET}
    from neol.training.refine import refine, refined_folder
    from neol.training.run import Run
    from neol.training.summary import shown

    out = args.out or refined_folder(args.run)
    how = {"resume": args.resume, "overwrite": args.overwrite, "progress": not args.quiet}
    try:
        run = refine(args.run, out=out, trust=args.trust, **how, **settings)
    except KeyboardInterrupt:
        return say_interrupted(out, f"refine {shlex.quote(str(args.run))}")
    if not out.is_absolute():
        run = Run(out, trust=True)  # as it was named
    s: Any = run.summary
    if args.json:
        print(json.dumps(s.as_dict(), indent=1))
        return 0
    print_summary(run, {})
    before, after = shown(s.start_return_mean), shown(s.champion_return_mean)
    print(f"  before {before}, after {after} on {s.champion_episodes} fresh episodes")
    return 0
