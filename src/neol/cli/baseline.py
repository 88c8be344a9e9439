"""`neol baseline`: options and what it prints."""

from __future__ import annotations

import argparse
import json
import sys

from neol.cli.options import path_of
from neol.envs.tasks import TASKS
from neol.errors import EXIT_INTERRUPTED


def baseline_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithm", metavar="ppo|sac", help="what to train")
    tasks = f"{', '.join(TASKS)}, or one whose lives change (neol tasks)"
    parser.add_argument("task", metavar="TASK", help=tasks)
    parser.add_argument(
        "--max-env-steps", type=int, required=True, metavar="N", help="stop at the update that gets there"
    )
    parser.add_argument("--out", type=path_of, required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything (0)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out (or start it)")
    parser.add_argument("--overwrite", action="store_true", help="begin anew in --out, whatever run is there")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="K", help="cores to use; 0 = all; changes results (1)"
    )
    parser.add_argument("--max-steps", type=int, default=0, metavar="T", help="longest episode; 0 = the task's own")
    parser.add_argument(
        "--interval", type=int, default=0, metavar="N", help="env steps between checkpoints (the task's)"
    )
    parser.add_argument(
        "--hyperparameters", nargs="+", default=[], metavar="KEY=VALUE", help="in place of the tuned ones"
    )
    text = "a change of the world, as of neol train; several times for several (the task's)"
    parser.add_argument("--change", action="append", metavar="CHANGE", help=text)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def baseline_command(args: argparse.Namespace) -> int:
    from neol.baselines.loop import train
    from neol.envs.registry import parse_kwargs
    from neol.training.run_folder import POLICY
    from neol.training.summary import BaselineSummary, shown

    names = ("max_env_steps", "out", "seed", "resume", "overwrite", "threads", "max_steps", "interval", "change")
    settings = {name: getattr(args, name) for name in names}
    changed = parse_kwargs(args.hyperparameters, "hyperparameters")
    try:
        run = train(args.algorithm, args.task, hyperparameters=changed, progress=not args.quiet, **settings)
    except KeyboardInterrupt:
        print("Interrupted; the last checkpoint stands. Go on with the same command and --resume", file=sys.stderr)
        return EXIT_INTERRUPTED
    s = run.summary
    assert isinstance(s, BaselineSummary)
    if args.json:
        print(json.dumps(s.as_dict(), indent=1))
        return 0
    print(f"{s.algorithm} on {s.task}: {s.status} after {s.env_steps:,} env steps, "
          f"{s.wall_seconds:.0f} s ({s.steps_per_second:,.0f} steps/s)")  # fmt: skip
    measured = {
        "champion": (s.champion_return_mean, s.champion_return_ci95),
        "final": (s.final_return_mean, s.final_return_ci95),
    }
    for what, (mean, (low, high)) in measured.items():
        print(f"  held-out return of the {what} policy".ljust(41) + f"{shown(mean)}  "
              f"(95 % CI {shown(low)} to {shown(high)}, {s.champion_episodes} fresh episodes)")  # fmt: skip
    print(f"  {s.parameters:,} parameters; {run.path / POLICY}")
    return 0
