"""`neol live`: options and what it prints."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from neol.cli.options import path_of
from neol.errors import NeolError


def live_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("path", metavar="FOLDER", type=path_of, help="a run's folder, a study's, or one that holds runs")
    p.add_argument("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1; 0 = any that is free (0)")
    p.add_argument("--open", action="store_true", help="open the page in a browser")
    p.add_argument("--trust", action="store_true", help="import the environments (module:name) that files name")


def live_command(args: argparse.Namespace) -> int:
    if find_spec("aiohttp") is None:
        raise NeolError("the live page needs aiohttp; install it with: pip install 'neol[live]'.")
    if not 0 <= args.port <= 65535:
        raise NeolError(f"port = {args.port} is not allowed; it must be 0 to 65535.")
    import asyncio

    from neol.live.server import serve

    def ready(address: str) -> None:
        print(
            f"{address}\nThe page is for this machine alone, and for whoever has its address. Ctrl-C ends it.",
            flush=True,
        )
        if args.open:
            import webbrowser

            webbrowser.open(address)

    asyncio.run(serve(args.path, args.port, args.trust, ready))
    return 0
