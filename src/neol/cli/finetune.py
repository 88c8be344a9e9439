"""`neol finetune`: options and what it prints."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from neol.cli.options import UNSET, Parser, path_of, settings_options
from neol.cli.train import print_summary, say_interrupted
from neol.config.schema import fields

_USUAL = ("seed", "max_env_steps", "max_steps")  # of the settings, what --help shows


def finetune_options(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder")
    parser.add_argument("--algorithm", metavar="ppo|sac", default="ppo", help="what trains the weights (ppo)")
    parser.add_argument("--out", metavar="DIR", type=path_of, help="the new run's folder (RUN-ppo or RUN-sac)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out (or start it)")
    parser.add_argument("--overwrite", action="store_true", help="begin anew in --out, whatever run is there")
    parser.add_argument("--interval", type=int, default=0, metavar="N", help="env steps between checkpoints")
    parser.add_argument(
        "--hyperparameters", nargs="+", default=[], metavar="KEY=VALUE", help="in place of the usual ones"
    )
    parser.add_argument("--trust", action="store_true", help="import the environment (module:name) that RUN names")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    settings_options(parser)
    parser.usage = "neol finetune RUN [OPTIONS]"
    shown = {*_USUAL, *(a.dest for a in parser._actions if a.dest not in fields())}
    parser.rare = frozenset(name for name in fields() if name not in shown)
    parser.epilog = "Settings are the run's own. The budget: as many env steps as RUN took, at least 200,000."


def finetune_command(args: argparse.Namespace) -> int:
    settings = {n: getattr(args, n) for n in fields() if n != "task" and getattr(args, n) is not UNSET}
    from neol.envs.registry import parse_kwargs
    from neol.gradients.finetune import finetune, finetuned_folder
    from neol.training.run import Run
    from neol.training.summary import shown

    out = args.out or finetuned_folder(args.run, args.algorithm)
    changed = parse_kwargs(args.hyperparameters, "hyperparameters")
    how = {"resume": args.resume, "overwrite": args.overwrite, "progress": not args.quiet, "interval": args.interval}
    try:
        run = finetune(
            args.run, args.algorithm, out=out, hyperparameters=changed, trust=args.trust, **how, **settings
        )  # fmt: skip
    except KeyboardInterrupt:
        return say_interrupted(out, f"finetune {shlex.quote(str(args.run))} --algorithm {args.algorithm}")
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
