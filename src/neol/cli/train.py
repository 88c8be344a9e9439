"""`neol train`: options and what it prints."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from neol.cli.champion import drawings
from neol.cli.options import UNSET, Parser, path_of, settings_options
from neol.config.schema import fields
from neol.envs.tasks import TASKS
from neol.errors import EXIT_INTERRUPTED, NeolError
from neol.training.configure import PRESETS, configure


def train_options(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", nargs="?", help=f"{', '.join(TASKS)}, a Gymnasium id, or module:id")
    parser.add_argument("--out", metavar="DIR", type=path_of, help="the run's folder (a new one under runs/)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out (or start it)")
    parser.add_argument("--overwrite", action="store_true", help="begin anew in --out, whatever run is there")
    parser.add_argument("--preset", default="default", help=f"base settings: {', '.join(PRESETS)}")
    parser.add_argument("--config", metavar="FILE.toml", type=path_of, help="settings, as a run's config.toml")
    parser.add_argument("--neat-config", metavar="FILE", type=path_of, help="a neat-python configuration file")
    parser.add_argument("--trust", action="store_true", help="import the environment (module:name) that a file names")
    parser.add_argument("--film", action="store_true", help="film, draw and plot the champion at the end")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    settings_options(parser, rare=frozenset({"neat_config"}))
    parser.usage = "neol train TASK [OPTIONS]"
    parser.epilog = "A task may have defaults of its own; config.toml in the run's folder has what was used."


def train_command(args: argparse.Namespace) -> int:
    settings = {name: getattr(args, name) for name in fields() if name != "task"}
    settings = {name: value for name, value in settings.items() if value is not UNSET}
    source = {"preset": args.preset, "neat_config": args.neat_config}
    stored = args.resume and args.out is not None and os.path.exists(args.out / "config.toml")
    if args.task is None and args.config is None and not stored:
        raise NeolError(f"train needs a TASK; valid: {', '.join(TASKS)}.")
    if args.out is None:
        # mistakes, before anything heavy is loaded
        configure(args.task, config_file=args.config, trust=args.trust, **source, **settings)
    from neol.training.observers import Observer, Started
    from neol.training.run import Run
    from neol.training.train import train

    class Folder(Observer):
        """Remembers where the run is."""

        path = args.out

        def started(self, start: Started) -> None:
            self.path = start.folder

    where = Folder()
    try:
        run = train(
            args.task, out=args.out, observers=[where], resume=args.resume, overwrite=args.overwrite,
            progress=not args.quiet, config=args.config, trust=args.trust, **source, **settings,
        )  # fmt: skip
    except KeyboardInterrupt:
        return say_interrupted(where.path and Path(os.path.relpath(where.path)), "train")
    if args.out is None or not args.out.is_absolute():
        run = Run(os.path.relpath(run.path), trust=True)  # as it was named
    pictures = _pictures(run) if args.film else {}
    if args.json:
        print(json.dumps(run.summary.as_dict(), indent=1))
    else:
        print_summary(run, pictures)
    return 0


def say_interrupted(folder: Path | None, command: str) -> int:
    """What an interrupted run left, and how to go on."""
    out = shlex.quote(str(folder))
    saved = folder is not None and (folder / "checkpoint.npz").exists()
    best = shlex.quote(str(folder and folder / "champion.json"))
    what = f"saved; best so far: {best}. Go on with: neol {command} --out {out} --resume"
    what = what if saved else "there was nothing to save yet."
    print(f"Interrupted; {what}", file=sys.stderr)
    return EXIT_INTERRUPTED


def _pictures(run: Any) -> dict[str, Path]:
    """Film, drawing and curve of a run, in its folder."""
    from neol.deploy.evaluation import replay

    video, _ = replay(run.champion, run.path / "agent.mp4", max_steps=run.config.rollout.max_steps)
    return {"video": video, **drawings(run, run.path / "network.svg", run.path / "curve.svg")}


def print_summary(run: Any, pictures: dict[str, Path]) -> None:
    from neol.training.summary import shown

    s = run.summary
    low, high = s.champion_return_ci95
    print(f"{s.task}: {s.status} after {s.generations} generations, {s.env_steps:,} env steps, "
          f"{s.wall_seconds:.0f} s ({s.steps_per_second:,.0f} steps/s)")  # fmt: skip
    print(f"  best fitness of the final generation   {shown(s.best_fitness)}  (the luckiest of the population)")
    print(f"  champion's held-out return             {shown(s.champion_return_mean)}  "
          f"(95 % CI {shown(low)} to {shown(high)}, {s.champion_episodes} fresh episodes)")  # fmt: skip
    if s.start_return_mean is not None:
        low, high = s.start_return_ci95
        same = "; it is the champion still" if s.champion_is_start else ""
        print(f"  the start's, on the same episodes      {shown(s.start_return_mean)}  "
              f"(95 % CI {shown(low)} to {shown(high)}{same})")  # fmt: skip
    if s.champion_test_return_mean is not None:
        low, high = s.champion_test_return_ci95
        print(f"  in the world of --test-change          {shown(s.champion_test_return_mean)}  "
              f"(95 % CI {shown(low)} to {shown(high)})")  # fmt: skip
    print(f"  the same champion without plasticity   {shown(s.champion_without_plasticity_return_mean)}")
    if s.champion_return_by_trial:
        print(f"  champion's return by trial             {' '.join(shown(x) for x in s.champion_return_by_trial)}")
        without = s.champion_without_plasticity_return_by_trial
        print(f"  the same without plasticity            {' '.join(shown(x) for x in without)}")
    print(f"  champion: {s.champion_nodes} nodes, {s.champion_connections} connections")
    for what, path in {"champion": run.champion_path, **pictures}.items():
        print(f"  {what + ':':<18}{path}")
