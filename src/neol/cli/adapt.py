"""`neol adapt`: a change of the world, met by a champion that goes on learning and by its twins that do not."""

from __future__ import annotations

import argparse
import json
from math import isnan
from typing import Any

import neol
from neol.cli.champion import change_option, limit_of, network_of, run_argument, trust_argument
from neol.cli.options import path_of
from neol.errors import NeolError
from neol.figures.style import SUFFIXES
from neol.files import check_suffix, finite


def adapt_options(p: argparse.ArgumentParser) -> None:
    run_argument(p)
    p.add_argument("--task", help="another task to live in (default: the run's own)")
    p.add_argument("--lives", type=int, default=40, metavar="N", help="number of lives (40)")
    p.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the lives (0)")
    p.add_argument("--max-steps", type=int, default=0, metavar="N", help="longest episode; 0 = as in training")
    p.add_argument("--trials", type=int, metavar="K", help="trials of a life (as in training)")
    change_option(p)
    p.add_argument("--out", type=path_of, metavar="FILE", help="a picture of it, .svg or .png")
    p.add_argument("--film", type=path_of, metavar="FILE", help="it beside its frozen twin, .gif or .mp4")
    trust_argument(p)
    p.add_argument("--json", action="store_true", help="print JSON")


def adapt_command(args: argparse.Namespace) -> int:
    if args.out is not None:
        check_suffix(args.out, SUFFIXES)
    if args.film is not None:
        from neol.figures.video import SUFFIXES as FILMS

        check_suffix(args.film, FILMS)
    net = network_of(args.run)
    limit = limit_of(args, net)
    found = neol.adapt(net, args.task, args.lives, args.seed, limit, args.trials, args.change, args.trust, args.film)
    if args.out is not None:
        _draw(found, args, net)
    if args.json:
        print(json.dumps(finite(found.as_dict()), indent=1))
        return 0
    _print(found)
    for path in (args.out, args.film):
        if path is not None:
            print(path)
    return 0


def _draw(found: neol.Adaptation, args: argparse.Namespace, net: Any) -> None:
    from neol.deploy.adaptation import TWINS
    from neol.figures.adaptation import draw_adaptation

    if not found.changed:
        raise NeolError("cannot draw it: the world did not change in the middle of any life (see --change).")
    title = f"{net.interface.get('task', 'network')}: {args.run.name}, {found.changed} lives"
    draw_adaptation(found.since, found.window, dict(zip(TWINS, found.rate, strict=True)), args.out, title)


def _rate(x: float) -> str:
    return "unknown" if isnan(x) else f"{x:.4g}"


def _print(found: neol.Adaptation) -> None:
    from neol.deploy.adaptation import TWINS
    from neol.training.summary import shown

    print(f"{found.changed} of {found.lives} lives changed")
    if found.changed:
        print(f"{'':<10}{'reward/step before':>20}{'after':>10}{'regained 90 % after':>22}")
        for name, before, after, time in zip(TWINS, found.before, found.after, found.regained, strict=True):
            regained = f"{time:,} steps" if time is not None else "unknown" if isnan(before) else "never"
            print(f"{name:<10}{_rate(before):>20}{_rate(after):>10}{regained:>22}")
    if found.by_trial.shape[1] > 1 or not found.changed:
        for name, returns in zip(TWINS, found.by_trial, strict=True):
            print(f"{name:<10}return by trial  {' '.join(shown(x) for x in returns)}")
