"""The command line: parses, calls, prints. Its options are made from the config dataclasses."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import neol
from neol.cli.adapt import adapt_command, adapt_options
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
from neol.cli.check import check_command, check_options
from neol.cli.finetune import finetune_command, finetune_options
from neol.cli.live import live_command, live_options
from neol.cli.options import Parser
from neol.cli.refine import refine_command, refine_options
from neol.cli.regret import regret_command, regret_options
from neol.cli.study import report_command, report_options, study_command, study_options
from neol.cli.train import train_command, train_options
from neol.envs.tasks import CHANGING_TASKS, PATTERN_TASKS, TASKS
from neol.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, NeolError


def _tasks(args: argparse.Namespace) -> int:
    if args.json:
        listed = [{"name": t.name, "id": t.id, "max_steps": t.max_steps, "inputs": t.inputs, "outputs": t.actions}
                  for t in (TASKS | CHANGING_TASKS | PATTERN_TASKS).values()]  # fmt: skip
        print(json.dumps(listed, indent=1))
        return 0
    print(f"{'task':<23}{'id':<44}{'inputs':>7}{'outputs':>9}{'T_max':>7}")
    for t in (TASKS | CHANGING_TASKS | PATTERN_TASKS).values():
        print(f"{t.name:<23}{t.id:<44}{t.n_inputs:>7}{t.n_outputs:>9}{t.max_steps:>7}")
    return 0


def _tasks_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


class _Command(NamedTuple):
    help: str
    example: str  # what follows `neol NAME`
    options: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]


_COMMANDS = {
    "train": _Command("evolve a controller", "cartpole --out runs/mine", train_options, train_command),
    "refine": _Command("polish a champion's weights", "runs/mine", refine_options, refine_command),
    "finetune": _Command(
        "train a champion's weights by PPO or SAC", "runs/mine --algorithm ppo", finetune_options, finetune_command
    ),
    "check": _Command("tell whether an environment can be trained on", "CartPole-v1", check_options, check_command),
    "evaluate": _Command(
        "play fresh episodes with a champion", "runs/mine", evaluate_options, evaluate_command
    ),
    "adapt": _Command(
        "show how a champion meets a change of its world", "runs/mine --out adapt.svg",
        adapt_options, adapt_command,
    ),
    "replay": _Command("film one episode of a champion", "runs/mine", replay_options, replay_command),
    "live": _Command("watch runs and touch lives in a browser", "runs/mine --open", live_options, live_command),
    "draw": _Command("draw a champion and its learning curve", "runs/mine", draw_options, draw_command),
    "export": _Command(
        "take a champion along: C, JavaScript, Python, ONNX or JSON", "runs/mine --to c --out controller.h",
        export_options, export_command,
    ),
    "study": _Command("arms x grid x seeds, resumable", "run paper/smoke", study_options, study_command),
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


def _open_standard_streams() -> None:
    """A closed one (`2>&-`) becomes nothing, so that no file of ours takes its number; and a file's name that is not
    UTF-8 is printed as it is."""
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(nothing := os.open(os.devnull, os.O_RDWR), number)
            if nothing > 2:
                os.close(nothing)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115 for the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake is one sentence on stderr and exit code 2."""
    _open_standard_streams()
    parser = _parser()
    try:
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help()
            return 0
        return _COMMANDS[args.command].run(args)
    except NeolError as e:
        print(f"neol: {e.sentence}", file=sys.stderr)
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
