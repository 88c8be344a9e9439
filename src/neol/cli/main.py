"""The command line: parses, calls, prints. Its options are made from the config dataclasses."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import neol
from neol.cli.baseline import baseline_command, baseline_options
from neol.cli.champion import (
    draw_command,
    draw_options,
    evaluate_command,
    evaluate_options,
    export_command,
    export_options,
    replay_command,
    replay_options,
)
from neol.cli.champion import drawings as _drawings
from neol.cli.check import check_command, check_options
from neol.cli.options import UNSET as _UNSET
from neol.cli.options import Parser, settings_options
from neol.cli.regret import regret_command, regret_options
from neol.cli.study import report_command, report_options, study_command, study_options
from neol.config.schema import fields
from neol.envs.tasks import TASKS
from neol.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, NeolError
from neol.training.configure import PRESETS, configure


def _train_options(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", nargs="?", help=f"{', '.join(TASKS)}, a Gymnasium id, or module:id")
    parser.add_argument("--out", metavar="DIR", type=Path, help="the run's folder (runs/TASK-RULE-SEED)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out (or start it)")
    parser.add_argument("--preset", default="default", help=f"base settings: {', '.join(PRESETS)}")
    parser.add_argument("--config", metavar="FILE.toml", type=Path, help="settings, as a run's config.toml")
    parser.add_argument("--neat-config", metavar="FILE", type=Path, help="a neat-python configuration file")
    parser.add_argument("--film", action="store_true", help="film, draw and plot the champion at the end")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    settings_options(parser, rare=frozenset({"neat_config"}))
    parser.usage = "neol train TASK [OPTIONS]"
    parser.epilog = "A task may have defaults of its own; config.toml in the run's folder has what was used."


def _train(args: argparse.Namespace) -> int:
    settings = {name: getattr(args, name) for name in fields() if name != "task"}
    settings = {name: value for name, value in settings.items() if value is not _UNSET}
    source = {"preset": args.preset, "neat_config": args.neat_config}
    stored = args.resume and args.out is not None and os.path.exists(args.out / "config.toml")
    if args.task is None and args.config is None and not stored:
        raise NeolError(f"train needs a TASK; valid: {', '.join(TASKS)}.")
    if args.out is None:
        planned = configure(args.task, config_file=args.config, **source, **settings)
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in planned.run.task)
        args.out = Path("runs") / f"{name}-{planned.plasticity.rule}-{planned.run.seed}"
    from neol.training.loop import train
    from neol.training.progress import Progress

    progress = Progress(quiet=args.quiet)
    try:
        run = train(
            args.task, out=args.out, resume=args.resume, progress=progress, config=args.config, **source, **settings
        )
    except KeyboardInterrupt:
        out = shlex.quote(str(args.out))
        saved = (args.out / "config.toml").exists()
        what = f"saved. Go on with: neol train --out {out} --resume" if saved else "there was nothing to save yet."
        print(f"Interrupted; {what}", file=sys.stderr)
        return EXIT_INTERRUPTED
    pictures = _pictures(run) if args.film else {}
    if args.json:
        print(json.dumps(run.summary, indent=1))
    else:
        _print_summary(run, pictures)
    return 0


def _pictures(run: Any) -> dict[str, Path]:
    """Film, drawing and curve of a run, in its folder."""
    from neol.deploy.evaluation import replay

    video, _ = replay(run.champion, run.path / "agent.mp4", max_steps=run.config.rollout.max_steps)
    return {"video": video, **_drawings(run, run.path / "network.svg", run.path / "curve.svg")}


def _print_summary(run: Any, pictures: dict[str, Path]) -> None:
    s = run.summary
    low, high = s["champion_return_ci95"]
    print(f"{s['task']}: {s['status']} after {s['generations']} generations, {s['env_steps']:,} env steps, "
          f"{s['wall_seconds']:.0f} s ({s['steps_per_second']:,.0f} steps/s)")  # fmt: skip
    print(f"  best fitness of the final generation   {s['best_fitness']:.1f}  (the luckiest of the population)")
    print(f"  champion's held-out return             {s['champion_return_mean']:.1f}  "
          f"(95 % CI {low:.1f} to {high:.1f}, {s['champion_episodes']} fresh episodes)")  # fmt: skip
    print(f"  the same champion without plasticity   {s['champion_without_plasticity_return_mean']:.1f}")
    print(f"  champion: {s['champion_nodes']} nodes, {s['champion_connections']} connections")
    for what, path in {"champion": run.champion_path, **pictures}.items():
        print(f"  {what + ':':<18}{path}")


def _tasks(args: argparse.Namespace) -> int:
    if args.json:
        listed = [{"name": t.name, "id": t.id, "max_steps": t.max_steps, "inputs": t.inputs, "outputs": t.actions}
                  for t in TASKS.values()]  # fmt: skip
        print(json.dumps(listed, indent=1))
        return 0
    print(f"{'task':<15}{'id':<26}{'inputs':>7}{'outputs':>9}{'T_max':>7}")
    for t in TASKS.values():
        print(f"{t.name:<15}{t.id:<26}{t.n_inputs:>7}{t.n_outputs:>9}{t.max_steps:>7}")
    return 0


def _tasks_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


class _Command(NamedTuple):
    help: str
    example: str  # what follows `neol NAME`
    options: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]


_COMMANDS = {
    "train": _Command("evolve a controller", "cartpole --out runs/mine", _train_options, _train),
    "check": _Command("tell whether an environment can be trained on", "CartPole-v1", check_options, check_command),
    "evaluate": _Command(
        "play fresh episodes with a champion", "runs/mine", evaluate_options, evaluate_command
    ),
    "replay": _Command("film one episode of a champion", "runs/mine", replay_options, replay_command),
    "draw": _Command("draw a champion and its learning curve", "runs/mine", draw_options, draw_command),
    "export": _Command(
        "write a champion as neat-python network JSON", "runs/mine --out champion.json", export_options,
        export_command,
    ),
    "study": _Command("arms x grid x seeds, resumable", "run configs/paper/smoke.toml", study_options, study_command),
    "report": _Command("a study's results as one page", "runs/study-smoke", report_options, report_command),
    "baseline": _Command(
        "train PPO or SAC on the same task", "ppo cartpole --max-env-steps 100000 --out runs/ppo", baseline_options,
        baseline_command,
    ),
    "regret": _Command(
        "measure regret beside its bound", "synthetic --out runs/regret", regret_options, regret_command
    ),
    "tasks": _Command("list the tasks", "", _tasks_options, _tasks),
}  # fmt: skip


def _parser() -> Parser:
    examples = {name: f"neol {name} {command.example}".rstrip() for name, command in _COMMANDS.items()}
    parser = Parser(prog="neol", description=neol.__doc__, usage="neol COMMAND [OPTIONS]")
    parser.lines = ("examples:", *(f"  {line}" for line in examples.values()), "", "`neol COMMAND --help` tells more.")
    parser.add_argument("--version", action="version", version=f"neol {neol.__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", prog="neol", parser_class=Parser
    )
    for name, command in _COMMANDS.items():
        child = commands.add_parser(name, help=command.help, description=_sentence(command.help))
        child.lines = (f"example: {examples[name]}",)
        command.options(child)
    return parser


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake is one sentence on stderr and exit code 2."""
    parser = _parser()
    try:
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help()
            return 0
        return _COMMANDS[args.command].run(args)
    except NeolError as e:
        print(f"neol: {e}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except MemoryError:
        print("neol: out of memory; a smaller pop_size needs less.", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as e:
        where = f" '{e.filename}'" if e.filename else ""
        print(f"neol: cannot read or write{where}: {e.strerror}.", file=sys.stderr)
        return EXIT_BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
