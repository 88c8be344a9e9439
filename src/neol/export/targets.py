"""`neol.export_controller`: what a controller can be exported to, and which file name says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from neol.deploy.evaluation import Controller, controller
from neol.deploy.network_json import dump
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError, nearest
from neol.export import c, javascript, onnx_graph, plain_python
from neol.export.program import program
from neol.export.texts import checked_identifier, identifier
from neol.files import check_suffix, write_atomic


class Options(NamedTuple):
    name: str
    precision: str
    static: bool


class Target(NamedTuple):
    """A language or format."""

    suffixes: tuple[str, ...]
    render: Callable[[PlasticNetwork, Options], str | bytes]
    named: bool = False  # what it defines begins with a name
    precisions: tuple[str, ...] = ()  # the usual one first


TARGETS = {
    "c": Target((".h",), lambda net, o: c.render(program(net), o.name, o.precision), True, c.PRECISIONS),
    "js": Target((".js", ".mjs"), lambda net, o: javascript.render(program(net))),
    "python": Target((".py",), lambda net, o: plain_python.render(program(net))),
    "onnx": Target(
        (".onnx",), lambda net, o: onnx_graph.render(program(net), o.precision), precisions=onnx_graph.PRECISIONS
    ),
    "json": Target((".json",), lambda net, o: _json(net, o.static)),
}


def _json(net: PlasticNetwork, static: bool) -> str:
    ours = ("plasticity", "interface", "life") if static else ()
    return dump({k: v for k, v in net.to_json().items() if k not in ours})


def target_of(to: str | None, out: str | os.PathLike[str] | None) -> str:
    """The target that is meant: as said, else by the file's name, else json."""
    if to is not None:
        if to not in TARGETS:
            raise NeolError(f"--to = {to!r} is not allowed; {nearest(str(to), TARGETS)}")
        return to
    if out is None:
        return "json"
    suffixes = {suffix: name for name, target in TARGETS.items() for suffix in target.suffixes}
    found = suffixes.get(Path(out).suffix.lower())
    if found is None:
        raise NeolError(
            f"cannot write '{out}': the file name must end in {', '.join(suffixes)}; its end says the format."
        )
    return found


def export_controller(
    network: Controller,
    to: str | None = None,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    precision: str | None = None,
    static: bool = False,
) -> str | bytes:
    """A trained controller as code or a file that needs no NEOL; written to `out` if given, and returned.

    `network` is a run, a run's folder, a network file, or a network. `to` is c (one C99 header), js (an ES module),
    python (one file, standard library alone), onnx (without plasticity) or json (a champion.json); if not given, the
    end of `out` says it. `name` begins the names that C defines; `precision` of C and ONNX is double or float;
    `static` leaves out of json what neat-python's format does not have.
    """
    chosen = target_of(to, out)
    target = TARGETS[chosen]
    if precision is not None and precision not in target.precisions:
        allowed = f"it must be {' or '.join(target.precisions)}" if target.precisions else f"{chosen} has only one"
        raise NeolError(f"--precision = {precision!r} is not allowed; {allowed}.")
    if name is not None and not target.named:
        raise NeolError(f"--name = {name!r} is not allowed; only what is exported to c has a name.")
    if static and chosen != "json":
        raise NeolError(f"--static is for json, which can leave the plasticity out, not for {chosen}.")
    called = checked_identifier(name) if name is not None else identifier(Path(out or "controller").stem)
    options = Options(called, precision or (*target.precisions, "double")[0], static)
    content = target.render(controller(network), options)
    if out is not None:
        write_atomic(check_suffix(out, target.suffixes), content)
    return content
