"""`neol evaluate`, `replay`, `draw` and `export`: options, and what they do with a run's champion or a network file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import neol
from neol.cli.options import path_of
from neol.config.schema import field_choices
from neol.errors import NeolError
from neol.files import check_no_links, finite


def evaluate_options(p: argparse.ArgumentParser) -> None:
    run_argument(p)
    p.add_argument("--task", help="another task to play (default: the run's own)")
    p.add_argument("--episodes", type=int, default=None, metavar="N", help="number of episodes (100)")
    p.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the episodes (0)")
    text = "visual-discrimination: HyperNEAT's champion painted anew for a field of 11, 33 or 55 cells along a side"
    p.add_argument("--resolution", type=int, metavar="N", help=text)
    p.add_argument("--max-steps", type=int, default=0, metavar="N", help="longest episode; 0 = as in training")
    p.add_argument("--plasticity", choices=("on", "off", "both"), default="both", help="let it learn or not (both)")
    p.add_argument("--threads", type=int, default=0, metavar="N", help="simulator threads; 0 = one per core")
    p.add_argument("--engine", choices=field_choices("engine"), default="auto", help="simulator (auto)")
    p.add_argument("--env-kwargs", nargs="+", metavar="KEY=VALUE", help="arguments of the environment (as in training)")
    p.add_argument("--trials", type=int, metavar="K", help="trials of a life (as in training)")
    p.add_argument(
        "--trial-weights", metavar="NAMES", help="how much each counts: mean, last or K numbers (as in training)"
    )
    change_option(p)
    trust_argument(p)
    p.add_argument("--json", action="store_true", help="print JSON")


def replay_options(p: argparse.ArgumentParser) -> None:
    run_argument(p)
    p.add_argument("--out", type=path_of, metavar="FILE", help="file to write, .mp4 or .gif (RUN/agent.mp4)")
    p.add_argument("--task", help="another task to play (default: the run's own)")
    p.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the episode (0)")
    p.add_argument("--max-steps", type=int, default=0, metavar="N", help="longest episode; 0 = as in training")
    p.add_argument("--plasticity", choices=("on", "off"), default="on", help="let it learn or not (on)")
    p.add_argument("--trials", type=int, metavar="K", help="trials of the life (as in training)")
    change_option(p)
    trust_argument(p)


def draw_options(p: argparse.ArgumentParser) -> None:
    run_argument(p, nargs="+")
    p.add_argument("--out", type=path_of, metavar="FILE", help="network drawing, .svg or .png (RUN/network.svg)")
    p.add_argument("--curve", type=path_of, metavar="FILE", help="learning curve, .svg or .png (RUN/curve.svg)")


def export_options(p: argparse.ArgumentParser) -> None:
    run_argument(p)
    p.add_argument("--to", metavar="FORMAT", help="c, js, python, onnx or json (by the end of --out, else json)")
    text = "file to write: .h, .js, .mjs, .py, .onnx or .json (default: print it)"
    p.add_argument("--out", type=path_of, metavar="FILE", help=text)
    p.add_argument("--name", help="what the names of C begin with (the file's name, else the run's)")
    p.add_argument("--precision", metavar="TYPE", help="float or double, of C (double) and ONNX (float)")
    p.add_argument("--static", action="store_true", help="json without what neat-python's format does not have")


def change_option(p: argparse.ArgumentParser) -> None:
    """--change, of a world to live in."""
    text = "a change of the world, as of neol train; several times for several; none = no change (as in training)"
    p.add_argument("--change", action="append", metavar="CHANGE", help=text)


def run_argument(parser: argparse.ArgumentParser, **how: Any) -> None:
    """RUN."""
    several = ", or several of them" if how else ""
    parser.add_argument("run", metavar="RUN", type=path_of, help=f"a run's folder, or a champion.json{several}", **how)


def trust_argument(parser: argparse.ArgumentParser) -> None:
    """--trust."""
    parser.add_argument("--trust", action="store_true", help="import the environment (module:name) that the file names")


def network_of(path: Path) -> Any:
    """The champion of a run's folder, or of a network file."""
    if path.is_dir():
        return neol.load(path).champion
    return neol.PlasticNetwork.from_json(path)


def limit_of(args: argparse.Namespace, net: Any) -> int:
    """The longest episode: as said, else as in training."""
    trained = net.network.document["metadata"].get("max_steps", 0)
    return args.max_steps or (trained if isinstance(trained, int) else 0)


def evaluate_command(args: argparse.Namespace) -> int:
    from neol.training.summary import shown

    if args.resolution is not None:
        return _visual_score(args)
    args.episodes = 100 if args.episodes is None else args.episodes
    net = network_of(args.run)
    limit = limit_of(args, net)
    modes = {"on": [True], "off": [False], "both": [True, False]}[args.plasticity]
    lives = {"trials": args.trials, "trial_weights": args.trial_weights, "change": args.change, "trust": args.trust}
    how = (args.threads, args.engine, args.env_kwargs)
    results = [neol.evaluate(net, args.task, args.episodes, args.seed, on, limit, *how, **lives) for on in modes]
    if args.json:
        print(json.dumps(finite({"on" if r.plasticity else "off": r.as_dict() for r in results}), indent=1))
        return 0
    for r in results:
        low, high = r.ci95
        state = "on " if r.plasticity else "off"
        several = r.by_trial.shape[1] > 1
        what = f"{len(r.returns)} {'lives' if several else 'episodes'}"
        without = f", {r.failed} failed and left out" if r.failed else ""
        spread = f"SD {shown(r.std)}; min {shown(r.returns.min())}, max {shown(r.returns.max())}"
        print(f"plasticity {state}  mean return {shown(r.mean)}  (95 % CI {shown(low)} to {shown(high)}; {spread}; "
              f"{what}{without})")  # fmt: skip
        if several:
            print(f"  return by trial  {' '.join(shown(x) for x in r.by_trial.mean(axis=0))}")
    return 0


def _visual_score(args: argparse.Namespace) -> int:
    """`neol evaluate RUN --resolution N`: in the terms of visual discrimination's paper."""
    from neol.deploy.visual_score import visual_score
    from neol.envs.registry import parse_kwargs
    from neol.training.substrate_file import at_resolution

    if not args.run.is_dir():
        raise NeolError(f"--resolution is not allowed with the file '{args.run}'; it must be a run's folder.")
    episodes = neol.Config().replace(episodes=1 if args.episodes is None else args.episodes).rollout.episodes
    chosen = parse_kwargs(args.env_kwargs or ())
    unknown = [k for k in chosen if k != "placement"]
    if unknown:
        raise NeolError(f"env_kwargs = '{unknown[0]}' is not allowed with --resolution; it must be placement.")
    net = at_resolution(args.run, neol.load(args.run).config, args.resolution)
    score = visual_score(net, chosen.get("placement", "grid"), episodes, args.seed)
    if args.json:
        print(json.dumps(score._asdict(), indent=1))
        return 0
    side = score.resolution
    print(f"{side} x {side}: {score.connections:,} connections, {score.pictures} pictures, placement {score.placement}")
    print(f"  mean squared distance {score.mean_squared_distance:.4f}, mean distance {score.mean_distance:.4f} "
          f"({score.mean_distance * side / 2:.2f} cells)")  # fmt: skip
    print(f"  centre found in {100 * score.found:.0f} %, within a cell of 11 x 11 in {100 * score.near:.0f} %")
    return 0


def replay_command(args: argparse.Namespace) -> int:
    net = network_of(args.run)
    out = args.out or _own(args.run if args.run.is_dir() else args.run.parent, "agent.mp4")
    limit, learning = limit_of(args, net), args.plasticity == "on"
    lives = {"trials": args.trials, "change": args.change, "trust": args.trust}
    path, total = neol.replay(net, out, args.seed, limit, learning, args.task, **lives)
    print(f"{path}: an episode with return {total:.1f}")
    return 0


def draw_command(args: argparse.Namespace) -> int:
    if len(args.run) > 1 and (args.out or args.curve):
        option = "--out" if args.out else "--curve"
        raise NeolError(f"{option} is for one RUN, not {len(args.run)}; several are drawn beside their own files.")
    networks = [network_of(path) for path in args.run]  # a mistake in the last is told before the first is drawn
    for path, net in zip(args.run, networks, strict=True):
        if path.is_dir():
            run = neol.load(path)
            network, curve = args.out or _own(path, "network.svg"), args.curve or _own(path, "curve.svg")
            made = drawings(run, network, curve, net)
        else:
            made = {"network": _drawing(net, args.out or _own(path.parent, path.with_suffix(".svg").name))}
        print("\n".join(str(p) for p in made.values()))
    return 0


def _own(folder: Path, name: str) -> Path:
    """A file of a folder that the user named, where no other name was given."""
    check_no_links(folder, [name])
    return folder / name


def drawings(run: Any, network: Path, curve: Path, net: Any = None) -> dict[str, Path]:
    """Network and learning curve of a run; `net`: its champion, where that is read already."""
    from neol.figures.curve import draw_curve

    task, name = run.config.run.task, run.path.name
    drawing = _drawing(net or run.champion, network, f"{task}: champion of {name}")
    made = {"network drawing": drawing, "curve": draw_curve(run.history, curve, f"{task}: {name}")}
    return made | (_paintings(run, network.parent) if run.config.run.encoding == "hyperneat" else {})


def _paintings(run: Any, folder: Path) -> dict[str, Path]:
    """Of a HyperNEAT run: its champion's CPPN, the substrate, and the patterns painted on it."""
    from neol.figures.substrate import draw_patterns, draw_substrate
    from neol.training.substrate_file import read_painted

    painted, names = read_painted(run.path, run.config), run.champion.interface
    about = f"{run.config.run.task}: {{}} of {run.path.name}"
    cppn = neol.PlasticNetwork.from_json(run.path / "cppn.json")
    of = (painted.substrate, painted.encoding, painted.cppn.phenotype)
    ends = (names.get("inputs", ()), names.get("outputs", ()))
    return {
        "CPPN": _drawing(cppn, _own(folder, "cppn.svg"), about.format("CPPN")),
        "substrate": draw_substrate(
            painted.substrate, painted.network(), _own(folder, "substrate.svg"), *ends, about.format("substrate")
        ),
        "patterns": draw_patterns(*of, _own(folder, "patterns.svg"), ends[1], about.format("patterns")),
    }


def _drawing(net: Any, out: Path, title: str = "") -> Path:
    from neol.figures.network import draw_network

    names = net.interface
    return draw_network(net.to_json(), out, names.get("inputs", ()), names.get("outputs", ()), title)


def export_command(args: argparse.Namespace) -> int:
    from neol.export.onnx_graph import NOTE
    from neol.export.targets import export_controller, target_of
    from neol.export.texts import identifier

    to, name = target_of(args.to, args.out), args.name
    if args.out is None:
        if to == "onnx":
            raise NeolError("--out is missing; onnx is not text, so it needs a file whose name ends in .onnx.")
        if to == "c" and name is None:
            name = identifier(args.run.absolute().name.removesuffix(".json"))
    content = export_controller(network_of(args.run), to, args.out, name, args.precision, args.static)
    print(content if args.out is None else args.out, end="" if args.out is None else "\n")
    if to == "onnx":
        print(f"neol: {NOTE}", file=sys.stderr)
    return 0
