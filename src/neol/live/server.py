"""The server of the live page: on 127.0.0.1 alone, for whoever has the token in its address.

    /TOKEN/             the page              /TOKEN/watch    websocket: the list of runs, and the runs looked at
    /TOKEN/page/FILE    its parts             /TOKEN/life?run=ID    websocket: a life, frame by frame

Reading goes on only while somebody looks, in one thread, and takes at most a small share of a core.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from neol.errors import NeolError
from neol.live.library import Library
from neol.live.messages import LIVING, LONGEST_MESSAGE, WATCHING, Saying, pack, read_saying
from neol.live.player import PlayerHandle

HOST = "127.0.0.1"
MOST_LIVES = 8  # pages that play at once
MOST_WATCHERS = 64
PERIOD, SHARE = 0.5, 0.03  # seconds between two looks at least; the share of a core that looking may take
LIST_PERIOD = 2.0
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGE = files("neol.live") / "page"


class _Watcher:
    """A page that looks at runs: what it wants to see, and what it has seen. What comes too fast is left out."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.waiting: dict[str, str] = {}  # what is to be sent, by what it is of: the newest alone
        self.sent: dict[str, str] = {}
        self.wake = asyncio.Event()

    def tell(self, what: str, text: str) -> None:
        if self.sent.get(what) is not text and self.sent.get(what) != text:
            self.waiting[what] = self.sent[what] = text
            self.wake.set()


class LiveServer:
    """Pages over a library of runs."""

    def __init__(self, root: Path, trust: bool = False) -> None:
        self.library, self.trust = Library(root), trust
        self.token = os.urandom(18).hex()
        self.port = 0
        self._watchers: set[_Watcher] = set()
        self._sockets: set[web.WebSocketResponse] = set()
        self._lives = 0
        self._looking: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    # ------------------------------------------------------------ running

    async def start(self, port: int = 0) -> web.AppRunner:
        """Listen; the caller cleans the runner up."""
        app = web.Application(middlewares=[self._guard], client_max_size=LONGEST_MESSAGE)
        app.router.add_get("/{token}/", self._page)
        app.router.add_get("/{token}/page/{file}", self._page)
        app.router.add_get("/{token}/watch", self._watch)
        app.router.add_get("/{token}/life", self._live)
        app.on_shutdown.append(self._stop)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=2.0)
        await runner.setup()
        site = web.TCPSite(runner, HOST, port)
        try:
            await site.start()
        except OSError as e:
            await runner.cleanup()
            raise NeolError(f"port = {port} is not allowed; cannot listen on it: {e.strerror}.") from None
        self.port = runner.addresses[0][1]
        self._looking = asyncio.create_task(self._look())
        return runner

    async def _stop(self, app: web.Application) -> None:
        """Pages are told, and players end."""
        for socket in list(self._sockets):
            await socket.close(code=WSCloseCode.GOING_AWAY)
        if self._looking is not None:
            self._looking.cancel()

    # ------------------------------------------------------------ who may come in

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """403 without the token, from another origin, or by another name of this machine (DNS rebinding)."""
        names = {f"{name}:{self.port}" for name in (HOST, "localhost")}
        origin = request.headers.get("Origin")
        token = request.path.split("/")[1] if request.path.count("/") > 1 else ""
        allowed = (
            request.method == "GET"
            and request.headers.get("Host") in names
            and (origin is None or origin == f"http://{request.headers['Host']}")
            and hmac.compare_digest(token.encode(), self.token.encode())
        )
        try:
            response = await handler(request) if allowed else web.Response(status=403, text="Not allowed.\n")
        except web.HTTPException as e:  # a path that is not there
            response = web.Response(status=e.status, text=f"{e.reason}\n")
        if not response.prepared:
            self._protect(response)
        return response

    def _protect(self, response: web.StreamResponse) -> None:
        own = f"'self' ws://{HOST}:{self.port} ws://localhost:{self.port}"
        response.headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src {own}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        response.headers["Cache-Control"] = "no-store"

    async def _page(self, request: web.Request) -> web.Response:
        name = request.match_info.get("file", "index.html")
        kind = TYPES.get(Path(name).suffix)
        if kind is None or not name.replace("-", "").replace(".", "").isalnum() or not (PAGE / name).is_file():
            raise web.HTTPNotFound
        return web.Response(body=(PAGE / name).read_bytes(), content_type=kind, charset="utf-8")

    async def _open(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=LONGEST_MESSAGE, heartbeat=20.0, compress=False, timeout=2.0)
        await socket.prepare(request)
        self._sockets.add(socket)
        return socket

    # ------------------------------------------------------------ trainings

    async def _watch(self, request: web.Request) -> web.WebSocketResponse:
        """The list of runs now and whenever it changes; and the runs that the page names."""
        socket = await self._open(request)
        if len(self._watchers) >= MOST_WATCHERS:
            await socket.send_json({"error": f"more than {MOST_WATCHERS} pages are open."})
            await socket.close()
            return socket
        watcher = _Watcher()
        self._watchers.add(watcher)
        self._wanted.set()
        sender = asyncio.create_task(_send(socket, watcher))
        try:
            async for saying in _sayings(socket, WATCHING):
                watcher.runs = list(dict.fromkeys(saying.values["runs"]))
                watcher.sent = {k: v for k, v in watcher.sent.items() if k == "list"}
                self._wanted.set()
        finally:
            self._watchers.discard(watcher)
            self._sockets.discard(socket)
            sender.cancel()
        return socket

    async def _look(self) -> None:
        """Read what somebody looks at, again and again; nothing while nobody does."""
        listed = -LIST_PERIOD
        while True:
            if not self._watchers:
                self._wanted.clear()
                await self._wanted.wait()
                listed = -LIST_PERIOD
            self._wanted.clear()
            began, used = time.monotonic(), time.process_time()
            if began - listed >= LIST_PERIOD or any("list" not in w.sent for w in self._watchers):
                listed = began
                self._tell("list", await self._read(lambda: {"list": self.library.overview()}))
            for name in {n for w in list(self._watchers) for n in w.runs}:
                self._tell(name, await self._read(partial(self._detail, name)))
            spent = time.process_time() - used  # a busy machine does not make it look more seldom
            with suppress(TimeoutError):  # a page that asks for something new does not wait
                await asyncio.wait_for(self._wanted.wait(), max(PERIOD, spent / SHARE))

    def _detail(self, name: str) -> dict[str, Any]:
        return {"run": self.library.detail(name), "id": name}

    async def _read(self, work: Callable[[], dict[str, Any]]) -> str:
        """In a thread: a slow disk keeps nobody else waiting."""
        try:
            return await asyncio.to_thread(lambda: json.dumps(work(), allow_nan=False))
        except NeolError as e:
            return json.dumps({"error": e.sentence})
        except Exception as e:  # whatever a stranger's files come to: the server goes on
            return json.dumps({"error": f"cannot be read: {type(e).__name__}."})

    def _tell(self, what: str, text: str) -> None:
        for watcher in self._watchers:
            if what == "list" or what in watcher.runs:
                watcher.tell(what, text)

    # ------------------------------------------------------------ lives

    async def _live(self, request: web.Request) -> web.WebSocketResponse:
        """A life of a run's champion, in a process that ends with the page."""
        socket = await self._open(request)
        if self._lives >= MOST_LIVES:
            await _refuse(socket, f"{MOST_LIVES} lives are played already; close a page.")
            return socket
        self._lives += 1
        player = None
        try:
            champion = self.library.champion(request.query.get("run", ""))
            player = await PlayerHandle.start(champion, self.trust)
            relay = asyncio.create_task(_relay(player, socket))
            try:
                async for saying in _sayings(socket, LIVING):
                    await player.say(saying)
            finally:
                relay.cancel()
        except NeolError as e:
            await _refuse(socket, e.sentence)
        finally:
            self._lives -= 1
            self._sockets.discard(socket)
            if player is not None:
                await player.close()
        return socket


async def _refuse(socket: web.WebSocketResponse, why: str) -> None:
    with suppress(ConnectionError):
        await socket.send_bytes(pack({"refused": why}))
        await socket.close(code=WSCloseCode.TRY_AGAIN_LATER)


async def _sayings(socket: web.WebSocketResponse, allowed: Any) -> Any:
    """What a page says, checked; what is not allowed is answered with why, and the page may go on."""
    async for message in socket:
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            continue
        try:
            saying: Saying = read_saying(message.data, allowed)
        except NeolError as e:
            error = {"error": e.sentence}
            with suppress(ConnectionError):
                await (socket.send_bytes(pack(error)) if allowed is LIVING else socket.send_json(error))
            continue
        yield saying


async def _send(socket: web.WebSocketResponse, watcher: _Watcher) -> None:
    """The newest of everything, as fast as the page takes it."""
    with suppress(ConnectionError):
        while not socket.closed:
            await watcher.wake.wait()
            watcher.wake.clear()
            while watcher.waiting:
                await socket.send_str(watcher.waiting.pop(next(iter(watcher.waiting))))


async def _relay(player: PlayerHandle, socket: web.WebSocketResponse) -> None:
    """What the player says, to the page; it says nothing more before the page has drawn."""
    with suppress(ConnectionError):
        while (message := await player.hear()) is not None:
            await socket.send_bytes(message)
        how = await player.how_it_ended()
        await socket.send_bytes(pack({"refused": f"the player has ended ({how})."}))
        await socket.close()


async def serve(root: Path, port: int, trust: bool, ready: Callable[[str], None]) -> None:
    """Until it is interrupted; `ready` is told the address."""
    server = LiveServer(root, trust)
    runner = await server.start(port)
    ready(server.address)
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
