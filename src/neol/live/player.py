"""A player, seen from the server: its process, what is said to it, and what it says."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from neol.errors import NeolError
from neol.live.messages import LARGEST_MESSAGE, Saying, frame_length
from neol.system import own_command, own_environment, process_id

PATIENCE = 20.0  # seconds that it may take to listen


class PlayerHandle:
    """A process that plays the lives of one page."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, champion: Path, trust: bool) -> PlayerHandle:
        process = await asyncio.create_subprocess_exec(
            *own_command("neol.live.player_process", str(process_id())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=own_environment(),
        )
        player = cls(process)
        await player._write({"champion": str(champion), "trust": trust})
        return player

    async def _write(self, value: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        await self._process.stdin.drain()

    async def say(self, saying: Saying) -> None:
        """Nothing where it is gone; it is ended where it does not listen."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._write({"do": saying.do, **saying.values})
        except ConnectionError:
            pass
        except TimeoutError:
            await self.close()

    async def hear(self) -> bytes | None:
        """Its next message; None where it has ended."""
        assert self._process.stdout is not None
        try:
            length = frame_length(await self._process.stdout.readexactly(4))
            if length > LARGEST_MESSAGE:
                raise NeolError(f"a frame of {length} bytes is too large.")
            return await self._process.stdout.readexactly(length)
        except asyncio.IncompleteReadError:
            return None

    async def how_it_ended(self) -> str:
        code = await self._process.wait()
        return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"

    async def close(self) -> None:
        """It is ended, whatever it does."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
