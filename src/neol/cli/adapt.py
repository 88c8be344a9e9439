"""`neol adapt`: a change of the world, met by a champion that goes on learning and by its twins that do not."""

from __future__ import annotations

import argparse
import json

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
    from neol.training.summary import shown

    if args.lives < 1:
        raise NeolError(f"lives = {args.lives} is not allowed; it must be 1 or more.")
    if args.out is not None:
        check_suffix(args.out, SUFFIXES)
    if args.film is not None:
        from neol.figures.video import SUFFIXES as FILMS

        check_suffix(args.film, FILMS)
    net = network_of(args.run)
    limit = limit_of(args, net)
    found = neol.adapt(net, args.task, args.lives, args.seed, limit, args.trials, args.change, args.trust, args.film)
    facts = found.as_dict()
    if args.json:
        print(json.dumps(finite(facts), indent=1))
    else:
        print(f"{found.changed} of {found.lives} lives changed")
        if found.changed:
            print(f"{'':<10}{'reward/step before':>20}{'after':>10}{'regained 90 % after':>22}")
            for name in ("learning", "frozen", "static"):
                own = facts[name]
                regained = f"{own['regained']:,} steps" if own["regained"] is not None else "never"
                print(f"{name:<10}{own['before']:>20.4g}{own['after']:>10.4g}{regained:>22}")
        if found.by_trial.shape[1] > 1 or not found.changed:
            for i, name in enumerate(("learning", "frozen", "static")):
                print(f"{name:<10}return by trial  {' '.join(shown(x) for x in found.by_trial[i])}")
    if args.out is not None:
        if not found.changed:
            raise NeolError("cannot draw it: the world did not change in the middle of any life (see --change).")
        from neol.figures.adaptation import draw_adaptation

        rates = {name: found.rate[i] for i, name in enumerate(("learning", "frozen", "static"))}
        title = f"{net.interface.get('task', 'network')}: {args.run.name}, {found.changed} lives"
        draw_adaptation(found.since, found.window, rates, args.out, title)
    if not args.json:
        print("\n".join(str(p) for p in (args.out, args.film) if p is not None), end="\n" * bool(args.out or args.film))
    return 0
