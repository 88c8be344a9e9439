"""The live page's server: a real process, real HTTP, real websockets."""

from __future__ import annotations

import json
import os
import signal
import socket as sockets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from forked import ForkServer
from live_client import Address, children, frame_until, run, served, stamps, text_until, train, wait_for

from neol.cli.main import main
from neol.errors import EXIT_BAD_INPUT, NeolError
from neol.live.messages import LIVING, WATCHING, pack, read_saying, unpack

SEED = 0


@pytest.fixture(scope="module")
def folder(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run."""
    home = tmp_path_factory.mktemp("live")
    assert train(forks, home / "done", "--generations", "2", "--rule", "hebb").wait() == 0
    return home


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[Address]:
    with served(folder) as url:
        yield url


def port_of(url: str) -> str:
    return url.split("/")[2]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("{token}/", {}, 200),
        ("{token}/page/main.js", {}, 200),
        ("", {}, 403),
        ("page/main.js", {}, 403),
        ("0123456789abcdef/", {}, 403),
        ("0123456789abcdef/watch", {}, 403),
        ("watch", {}, 403),
        ("{token}/", {"Origin": "http://example.org"}, 403),
        ("{token}/", {"Origin": "null"}, 403),
        ("{token}/watch", {"Origin": "http://127.0.0.1:1"}, 403),
        ("{token}/", {"Host": "example.org"}, 403),
        ("{token}/", {"Host": "127.0.0.1"}, 403),
        ("{token}/page/..%2f..%2fserver.py", {}, 404),
        ("{token}/page/server.py", {}, 404),
        ("{token}/nothing", {}, 404),
    ],
)
def test_only_who_has_the_token_comes_in_from_this_machine(
    address: str, path: str, headers: dict[str, str], status: int
) -> None:
    token, base = address.split("/")[3], f"http://{port_of(address)}/"

    async def ask(session: aiohttp.ClientSession) -> tuple[int, Any]:
        from yarl import URL

        url = URL(base + path.replace("{token}", token), encoded=True)
        async with session.get(url, headers=headers) as answer:
            return answer.status, answer.headers

    found, told = run(ask)
    assert found == status
    assert "default-src 'none'" in told["Content-Security-Policy"]
    assert told["Referrer-Policy"] == "no-referrer"


def test_a_websocket_from_another_origin_is_refused(address: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        for kind in ("watch", "life?run=done"):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(address + kind, origin="http://example.org")
            async with session.ws_connect(address + kind, origin=f"http://{port_of(address)}"):
                pass

    run(ask)


def test_it_listens_on_this_machine_alone(address: str) -> None:
    port = int(port_of(address).partition(":")[2])
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines() if Path("/proc/net/tcp").exists() else []
    listening = [line.split()[1] for line in lines[1:] if line.split()[3] == "0A"]
    assert [a for a in listening if a.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


def test_the_list_and_a_run_are_told_and_nothing_is_touched(folder: Path, address: str) -> None:
    before = stamps(folder)

    async def ask(session: aiohttp.ClientSession) -> tuple[Any, Any]:
        async with session.ws_connect(address + "watch") as socket:
            listed = await text_until(socket, lambda m: "list" in m)
            await socket.send_json({"do": "watch", "runs": ["done"]})
            told = await text_until(socket, lambda m: "run" in m)
            await socket.send_json({"do": "watch", "runs": ["../../etc"]})
            nothing = await text_until(socket, lambda m: "run" in m)
            assert nothing["run"] is None
        return listed["list"], told["run"]

    listed, told = run(ask)
    assert [(r["id"], r["state"], r["task"], r["rule"], r["generation"]) for r in listed["runs"]] == [
        ("done", "finished", "cartpole", "hebb", 1)
    ]
    assert told["columns"]["generation"] == [0, 1]
    assert told["summary"]["champion_episodes"] == 2
    assert {n["name"] for n in told["network"]["nodes"]} >= {"x vel", "left"}
    assert told["river"]["generation"] == [2]
    assert stamps(folder) == before


def test_a_life_is_played_its_actuator_inverted_and_its_weights_answer(address: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(address + "life?run=done") as socket:
            head, _ = await frame_until(socket, lambda m: "scene" in m)
            scene = head["scene"]
            assert scene["outputs"] == ["left", "right"]
            await socket.send_json({"do": "lives", "count": 2})
            await socket.send_json({"do": "reset", "seed": 4})
            await socket.send_json({"do": "speed", "speed": 0.25})
            await socket.send_json({"do": "play"})
            head, blobs = await frame_until(socket, lambda m: m.get("frame", {}).get("seed") == 4)
            assert [b[:2] for b in blobs] == [b"\xff\xd8"] * 2
            born = [e["weight"] for e in scene["network"]["edges"]]
            assert head["frame"]["lives"][1]["weights"] == pytest.approx(born, rel=1e-5)
            await socket.send_json({"do": "change", "text": "action invert of=1"})
            head, _ = await frame_until(socket, lambda m: m.get("frame", {}).get("changes"))
            assert head["frame"]["changes"][0]["text"].startswith("action invert of=1 from=")
            head, _ = await frame_until(socket, lambda m: m.get("frame", {}).get("over"))
            plastic, frozen = head["frame"]["lives"]
            assert plastic["rule"] == "hebb"
            assert not np.allclose(plastic["weights"], born, rtol=1e-4)
            assert np.allclose(frozen["weights"], born, rtol=1e-4)
            await socket.send_json({"do": "step"})
            await socket.send_json({"do": "change", "text": "gravity off"})
            head, _ = await frame_until(socket, lambda m: "error" in m)
            assert "'gravity' is unknown" in head["error"]

    run(ask)


def test_a_page_that_takes_no_frames_gets_no_more_of_them(address: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        import asyncio

        async with session.ws_connect(address + "life?run=done") as socket:
            frames = 0
            with pytest.raises(TimeoutError):
                while True:
                    message = await asyncio.wait_for(socket.receive(), 60.0 if not frames else 2.0)
                    frames += "frame" in unpack(message.data)[0]
            assert frames == 2
            await socket.send_json({"do": "got"})
            message = await asyncio.wait_for(socket.receive(), 10.0)
            assert "frame" in unpack(message.data)[0]

    run(ask)


def test_a_player_ends_with_its_page_and_without_a_champion_there_is_none(address: Address) -> None:
    before = children(address.pid)

    async def ask(session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(address + "life?run=nothing") as socket:
            head, _ = await frame_until(socket, lambda m: "refused" in m)
            assert head["refused"] == "there is no such run."
        async with session.ws_connect(address + "life?run=done") as socket:
            await frame_until(socket, lambda m: "frame" in m)
            assert len(children(address.pid) - before) == 1
        wait_for(lambda: children(address.pid) <= before)

    run(ask)


def fuzzed(draw: np.random.Generator, allowed: Any) -> str | bytes:
    """A message that nobody should send: bytes, broken JSON, wrong types, wrong fields, odd numbers."""
    odd: list[Any] = [
        None,
        True,
        -1,
        2**80,
        1e308,
        "",
        "x" * 300,
        [],
        {},
        [[]],
        "\u0000",
        "<b>",
        "../..",
        0.5,
        ["a"] * 99,
    ]
    kind = int(draw.integers(6))
    if kind == 0:
        return bytes(draw.integers(0, 256, int(draw.integers(1, 60)), dtype=np.uint8))
    if kind == 1:
        return "[" * int(draw.integers(1, 9000))
    names = [*allowed, "open", "champion", "trust"]
    do = names[int(draw.integers(len(names)))]
    fields = list(allowed.get(do, {})) + (["more"] if draw.random() < 0.3 else [])
    message = {"do": do if draw.random() < 0.95 else odd[int(draw.integers(len(odd)))]}
    message |= {f: odd[int(draw.integers(len(odd)))] for f in fields}
    text = json.dumps(message)
    return text if kind < 5 else text[: int(draw.integers(len(text)))]


def test_a_thousand_malformed_messages_neither_end_nor_halt_the_server(address: str) -> None:
    draw = np.random.default_rng(SEED)

    async def ask(session: aiohttp.ClientSession) -> None:
        for kind, allowed in (("watch", WATCHING), ("life?run=done", LIVING)):
            async with session.ws_connect(address + kind) as socket:
                for _ in range(500):
                    message = fuzzed(draw, allowed)
                    await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_str(message))
                if allowed is LIVING:
                    await frame_until(socket, lambda m: "error" in m)
                    await socket.send_json({"do": "reset", "seed": 77})
                    await frame_until(socket, lambda m: m.get("frame", {}).get("seed") == 77)
                else:
                    await text_until(socket, lambda m: "error" in m)
                    await socket.send_json({"do": "watch", "runs": ["done"]})
                    await text_until(socket, lambda m: (m.get("run") or {}).get("id") == "done")

    run(ask)


def test_bytes_that_are_no_http_are_answered_and_forgotten(address: str) -> None:
    host, _, port = port_of(address).partition(":")
    draw = np.random.default_rng(SEED)
    for _ in range(20):
        with sockets.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(bytes(draw.integers(0, 256, 200, dtype=np.uint8)) + b"\r\n\r\n")
            connection.shutdown(sockets.SHUT_WR)
            connection.recv(4096)

    async def ask(session: aiohttp.ClientSession) -> int:
        async with session.get(address) as answer:
            return answer.status

    assert run(ask) == 200


def test_a_message_too_large_closes_its_websocket_alone(address: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(address + "watch") as socket:
            await socket.send_str("x" * 100_000)
            async for _ in socket:
                pass
            assert socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
        async with session.ws_connect(address + "watch") as socket:
            await text_until(socket, lambda m: "list" in m)

    run(ask)


def test_a_training_is_followed_through_a_kill_and_a_resume(forks: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with served(tmp_path / "runs") as url:

        async def ask(session: aiohttp.ClientSession) -> None:
            async with session.ws_connect(url + "watch") as socket:
                first = await text_until(socket, lambda m: "list" in m)
                assert first["list"]["runs"] == []
                process = train(forks, tmp_path / "runs" / "a", "--generations", "100000")
                try:
                    await text_until(socket, lambda m: m.get("list", {}).get("runs"))
                    await socket.send_json({"do": "watch", "runs": ["a"]})
                    third = await text_until(socket, lambda m: ((m.get("run") or {}).get("generation") or 0) >= 2)
                    assert third["run"]["state"] == "running"
                finally:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                stopped = await text_until(
                    socket, lambda m: m.get("list", {}).get("runs", [{}])[0].get("state") != "running"
                )
                before = stopped["list"]["runs"][0]["generation"]
                again = train(forks, tmp_path / "runs" / "a", "--generations", str(before + 200), "--resume")
                try:
                    more = await text_until(socket, lambda m: ((m.get("run") or {}).get("generation") or 0) > before)
                    seen = more["run"]["columns"]["generation"]
                    assert seen == sorted(set(seen))
                finally:
                    again.send_signal(signal.SIGKILL)
                    again.wait()

        run(ask)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["live", "nowhere"], "'nowhere' is not a folder"),
        (["live", ".", "--port", "70000"], "port = 70000 is not allowed"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == EXIT_BAD_INPUT
    assert said in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sockets.create_server(("127.0.0.1", 0)) as taken:
        assert main(["live", str(tmp_path), "--port", str(taken.getsockname()[1])]) == EXIT_BAD_INPUT
    assert "cannot listen on it" in capsys.readouterr().err


def test_a_frame_travels_as_it_is() -> None:
    head, blobs = {"frame": {"x": [1.5, None]}}, [b"\xff\xd8abc", b""]
    assert unpack(pack(head, blobs)) == (head, blobs)


@pytest.mark.parametrize(
    "text",
    [
        "", "1", "[]", '{"do":"reset"}', '{"do":"reset","seed":true}', '{"do":"reset","seed":-1}', '{"do":["reset"]}',
        '{"do":"step","more":1}', '{"do":"rate","life":0,"lr":NaN}', '{"do":"change","text":"a\\u0000"}',
        '{"do":"rule","life":0,"rule":"x"}',
    ],
)  # fmt: skip
def test_what_a_page_may_not_say_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(NeolError):
        read_saying(text, LIVING)


def test_the_token_is_new_each_time(tmp_path: Path) -> None:
    from neol.live.server import LiveServer

    tokens = {LiveServer(tmp_path).token for _ in range(5)}
    assert len(tokens) == 5
    assert all(len(t) == 36 for t in tokens)
    assert os.listdir(tmp_path) == []
