"""The command line: parses, calls, prints. Its options are made from the config dataclasses."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import neol
from neol.cli.baseline import baseline_command, baseline_options
from neol.cli.regret import regret_command, regret_options
from neol.cli.study import report_command, report_options, study_command, study_options
from neol.config.schema import Config, field_choices, field_help, field_type, fields
from neol.envs.tasks import TASKS
from neol.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, NeolError, nearest
from neol.training.configure import PRESETS, configure, default_folder

_UNSET = object()


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise NeolError(f"{message}." if not message.endswith(".") else message)

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """As argparse's, but a subcommand names its own unknown options, with the nearest that it has."""
        parsed, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            name = unknown[0].split("=")[0]
            known = [o for a in self._actions for o in a.option_strings if o.startswith("--")]
            what = "option" if name.startswith("-") else "argument"
            raise NeolError(f"{self.prog}: unknown {what} '{name}'; {nearest(name, known)}")
        return parsed, unknown


def _parser() -> _Parser:
    parser = _Parser(prog="neol", description=neol.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"neol {neol.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _train_options(commands.add_parser("train", help="evolve a controller", allow_abbrev=False))
    p = commands.add_parser("evaluate", help="play fresh episodes with a run's champion", allow_abbrev=False)
    _run_argument(p)
    p.add_argument("--task", help="another task to play (default: the run's own)")
    p.add_argument("--episodes", type=int, default=100, help="number of episodes (100)")
    p.add_argument("--seed", type=int, default=0, help="seed of the episodes (0)")
    p.add_argument("--max-steps", type=int, default=0, help="longest episode; 0 = as in training")
    p.add_argument("--plasticity", choices=("on", "off", "both"), default="both", help="let it learn or not (both)")
    p.add_argument("--threads", type=int, default=0, help="simulator threads; 0 = one per core")
    p.add_argument("--engine", choices=field_choices("engine"), default="auto", help="simulator (auto)")
    p.add_argument("--env-kwargs", nargs="+", metavar="KEY=VALUE", help="arguments of the environment (as in training)")
    p.add_argument("--json", action="store_true", help="print JSON")
    p = commands.add_parser("replay", help="film one episode of a run's champion", allow_abbrev=False)
    _run_argument(p)
    p.add_argument("--out", type=Path, help="file to write, .mp4 or .gif (RUN/agent.mp4)")
    p.add_argument("--seed", type=int, default=0, help="seed of the episode (0)")
    p.add_argument("--max-steps", type=int, default=0, help="longest episode; 0 = as in training")
    p.add_argument("--plasticity", choices=("on", "off"), default="on", help="let it learn or not (on)")
    p = commands.add_parser("draw", help="draw a run's champion and its learning curve", allow_abbrev=False)
    _run_argument(p)
    p.add_argument("--out", type=Path, help="network drawing, .svg or .png (RUN/network.svg)")
    p.add_argument("--curve", type=Path, help="learning curve, .svg or .png (RUN/curve.svg)")
    p = commands.add_parser("export", help="write a run's champion as neat-python network JSON", allow_abbrev=False)
    _run_argument(p)
    p.add_argument("--out", type=Path, help="file to write (default: print it)")
    p.add_argument("--static", action="store_true", help="leave out what neat-python's format does not have")
    study_options(commands.add_parser("study", help="arms x grid x seeds, resumable", allow_abbrev=False), _Parser)
    report_options(commands.add_parser("report", help="a study's results as one page", allow_abbrev=False))
    baseline_options(commands.add_parser("baseline", help="train PPO or SAC on the same task", allow_abbrev=False))
    regret_options(commands.add_parser("regret", help="measure regret beside its bound", allow_abbrev=False), _Parser)
    p = commands.add_parser("tasks", help="list the tasks", allow_abbrev=False)
    p.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder, or a champion.json")


def _train_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", nargs="?", help=f"{', '.join(TASKS)}, a Gymnasium id, or module:id")
    parser.add_argument("--out", metavar="DIR", type=Path, help="the run's folder (a new one under runs/)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out (or start it)")
    parser.add_argument("--overwrite", action="store_true", help="begin anew in --out, whatever run is there")
    parser.add_argument("--preset", default="default", help=f"base settings: {', '.join(PRESETS)}")
    parser.add_argument("--config", metavar="FILE.toml", type=Path, help="settings, as a run's config.toml")
    parser.add_argument("--neat-config", metavar="FILE", type=Path, help="a neat-python configuration file")
    parser.add_argument("--film", action="store_true", help="film, draw and plot the champion at the end")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    defaults, helps = Config().flat(), field_help()
    groups = {section: parser.add_argument_group(section) for section in dict.fromkeys(fields().values())}
    for name, section in fields().items():
        if name == "task":
            continue
        default = defaults[name]
        shown = ",".join(default) if isinstance(default, tuple) else str(default).lower()
        shown = shown or "none"
        choices = field_choices(name)
        metavar = "{" + ",".join(choices) + "}" if 0 < len(choices) <= 4 else _metavar(field_type(name))
        boolean: dict[str, Any] = {"nargs": "?", "const": "true"} if field_type(name) is bool else {}
        if name == "env_kwargs":
            boolean, metavar = {"nargs": "+"}, "KEY=VALUE"
        text = f"{helps[name]} ({shown})".replace("%", "%%")
        groups[section].add_argument(
            f"--{name.replace('_', '-')}", dest=name, default=_UNSET, metavar=metavar, help=text, **boolean
        )


def _metavar(kind: Any) -> str:
    return {int: "N", float: "X", bool: "true|false", str: "NAME"}.get(kind, "NAMES")


def _train(args: argparse.Namespace) -> int:
    settings = {name: getattr(args, name) for name in fields() if name != "task"}
    settings = {name: value for name, value in settings.items() if value is not _UNSET}
    source = {"preset": args.preset, "neat_config": args.neat_config}
    stored = args.resume and args.out is not None and os.path.exists(args.out / "config.toml")
    if args.task is None and args.config is None and not stored:
        raise NeolError(f"train needs a TASK; valid: {', '.join(TASKS)}.")
    if args.out is None:
        planned = configure(args.task, config_file=args.config, **source, **settings)
        args.out = default_folder(planned, args.preset, args.resume)
    from neol.training.loop import train

    try:
        run = train(
            args.task, out=args.out, resume=args.resume, overwrite=args.overwrite, progress=not args.quiet,
            config=args.config, **source, **settings,
        )  # fmt: skip
    except KeyboardInterrupt:
        out = shlex.quote(str(args.out))
        saved = (args.out / "checkpoint.npz").exists()
        best = shlex.quote(str(args.out / "champion.json"))
        what = f"saved; best so far: {best}. Go on with: neol train --out {out} --resume"
        what = what if saved else "there was nothing to save yet."
        print(f"Interrupted; {what}", file=sys.stderr)
        return EXIT_INTERRUPTED
    pictures = _pictures(run) if args.film else {}
    if args.json:
        print(json.dumps(run.summary.as_dict(), indent=1))
    else:
        _print_summary(run, pictures)
    return 0


def _pictures(run: Any) -> dict[str, Path]:
    """Film, drawing and curve of a run, in its folder."""
    from neol.deploy.evaluation import replay

    video, _ = replay(run.champion, run.path / "agent.mp4", max_steps=run.config.rollout.max_steps)
    return {"video": video, **_drawings(run, run.path / "network.svg", run.path / "curve.svg")}


def _drawings(run: Any, network: Path, curve: Path) -> dict[str, Path]:
    from neol.figures.curve import draw_curve
    from neol.figures.network import draw_network

    net = run.champion
    names = net.interface
    title = f"{run.config.run.task}: champion of {run.path.name}"
    drawing = draw_network(net.to_json(), network, names.get("inputs", ()), names.get("outputs", ()), title)
    return {
        "network drawing": drawing,
        "curve": draw_curve(run.history, curve, f"{run.config.run.task}: {run.path.name}"),
    }


def _print_summary(run: Any, pictures: dict[str, Path]) -> None:
    s = run.summary
    low, high = s.champion_return_ci95
    print(f"{s.task}: {s.status} after {s.generations} generations, {s.env_steps:,} env steps, "
          f"{s.wall_seconds:.0f} s ({s.steps_per_second:,.0f} steps/s)")  # fmt: skip
    print(f"  best fitness of the final generation   {s.best_fitness:.1f}  (the luckiest of the population)")
    print(f"  champion's held-out return             {s.champion_return_mean:.1f}  "
          f"(95 % CI {low:.1f} to {high:.1f}, {s.champion_episodes} fresh episodes)")  # fmt: skip
    print(f"  the same champion without plasticity   {s.champion_without_plasticity_return_mean:.1f}")
    print(f"  champion: {s.champion_nodes} nodes, {s.champion_connections} connections")
    for what, path in {"champion": run.champion_path, **pictures}.items():
        print(f"  {what + ':':<18}{path}")


def _network(path: Path) -> Any:
    """The champion of a run's folder, or of a network file."""
    if path.is_dir():
        return neol.load(path).champion
    return neol.PlasticNetwork.from_json(path)


def _max_steps(args: argparse.Namespace, net: Any) -> int:
    trained = net.network.document["metadata"].get("max_steps", 0)
    return args.max_steps or (trained if isinstance(trained, int) else 0)


def _evaluate(args: argparse.Namespace) -> int:
    net = _network(args.run)
    modes = {"on": [True], "off": [False], "both": [True, False]}[args.plasticity]
    results = [
        neol.evaluate(
            net,
            args.task,
            args.episodes,
            args.seed,
            on,
            _max_steps(args, net),
            args.threads,
            args.engine,
            args.env_kwargs,
        )
        for on in modes
    ]
    if args.json:
        print(json.dumps({"on" if r.plasticity else "off": r.as_dict() for r in results}, indent=1))
        return 0
    for r in results:
        low, high = r.ci95
        state = "on " if r.plasticity else "off"
        print(f"plasticity {state}  mean return {r.mean:.1f}  (95 % CI {low:.1f} to {high:.1f}; SD {r.std:.1f}; "
              f"min {r.returns.min():.1f}, max {r.returns.max():.1f}; {len(r.returns)} episodes)")  # fmt: skip
    return 0


def _replay(args: argparse.Namespace) -> int:
    net = _network(args.run)
    out = args.out or (args.run if args.run.is_dir() else args.run.parent) / "agent.mp4"
    path, total = neol.replay(net, out, args.seed, _max_steps(args, net), args.plasticity == "on")
    print(f"{path}: an episode with return {total:.1f}")
    return 0


def _draw(args: argparse.Namespace) -> int:
    if args.run.is_dir():
        run = neol.load(args.run)
        made = _drawings(run, args.out or run.path / "network.svg", args.curve or run.path / "curve.svg")
    else:
        from neol.figures.network import draw_network

        net = _network(args.run)
        names = net.interface
        out = args.out or args.run.with_suffix(".svg")
        made = {"network": draw_network(net.to_json(), out, names.get("inputs", ()), names.get("outputs", ()))}
    print("\n".join(str(path) for path in made.values()))
    return 0


def _export(args: argparse.Namespace) -> int:
    from neol.deploy.network_json import dump
    from neol.files import write_atomic

    document = _network(args.run).to_json()
    if args.static:
        document = {k: v for k, v in document.items() if k not in ("plasticity", "interface")}
    if args.out is None:
        print(dump(document), end="")
    else:
        write_atomic(args.out, dump(document))
        print(args.out)
    return 0


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


_COMMANDS = {
    "train": _train, "evaluate": _evaluate, "replay": _replay, "draw": _draw, "export": _export,
    "study": study_command, "report": report_command, "baseline": baseline_command, "regret": regret_command,
    "tasks": _tasks,
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake is one sentence on stderr and exit code 2."""
    parser = _parser()
    try:
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help()
            return 0
        return _COMMANDS[args.command](args)
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
