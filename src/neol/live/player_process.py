"""A player, seen from inside: a stage in a process of its own, which an environment may end or bring to a halt.

`python -P -m neol.live.player_process PARENT` reads lines of JSON: first {"champion": path, "trust": bool}, then what a
page says, checked (messages.py). It answers with framed messages: {"scene": ...}, frames, {"error": sentence},
{"note": sentence}. A frame goes out only when the page has drawn the ones before, but for CREDIT: so nothing piles up.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import NeolError
from neol.figures.style import shown
from neol.jit import announce_compilation
from neol.live.messages import framed, pack
from neol.live.stage import LifeStage
from neol.system import die_with_parent

CREDIT = 2  # frames that are on their way at once


class _Voice:
    """What the process says."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def say(self, head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        self._out.write(framed(pack(head, blobs)))
        self._out.flush()


class _Player:
    """Plays a stage by what is said to it."""

    def __init__(self, stage: LifeStage, voice: _Voice) -> None:
        self.stage, self.voice, self.credit = stage, voice, CREDIT
        self.shown = False  # whether the page has the moment of now

    def obey(self, said: Mapping[str, Any]) -> None:
        """One thing that the page asks for."""
        stage, do = self.stage, said["do"]
        if do == "got":
            self.credit = min(self.credit + 1, CREDIT)
            return
        self.shown = False
        if do in ("play", "pause"):
            stage.playing = do == "play"
        elif do == "step":
            stage.playing = False
            stage.step()
        elif do == "reset":
            stage.reset(said["seed"])
        elif do == "speed":
            stage.speed = float(said["speed"])
        elif do == "lives":
            stage.set_lives(said["count"])
        elif do in ("rule", "rate"):
            stage.learn_by(said["life"], {"rule": said["rule"]} if do == "rule" else {"lr": float(said["lr"])})
        elif do == "change":
            stage.change(said["text"])
        elif do == "end":
            stage.end_change(said["place"])

    def wait(self) -> float | None:
        """Seconds until there is something to show; None = until the page says something."""
        if self.credit < 1:
            return None
        return 0.0 if not self.shown else self.stage.wait(time.monotonic())

    def show(self) -> None:
        """The steps that are due, and the moment after them."""
        with self.stage.measured():
            due = self.stage.wait(time.monotonic())
            try:
                if due is not None and due <= 0.0:
                    self.stage.advance(time.monotonic())
            except NeolError as e:
                self.stage.playing = False
                self.voice.say({"error": e.sentence})
            head, blobs = self.stage.frame()
            self.voice.say({"frame": head}, blobs)
        self.shown, self.credit = True, self.credit - 1


def _listen(lines: IO[bytes], heard: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in lines:
        heard.put(json.loads(line))
    heard.put(None)


def play(lines: IO[bytes], out: IO[bytes]) -> None:
    """Until there is nobody to play for."""
    voice = _Voice(out)
    asked = json.loads(lines.readline() or b"{}")
    with announce_compilation(lambda text: voice.say({"note": shown(text, 200)})):
        try:
            net = PlasticNetwork.from_json(asked["champion"], trust=bool(asked["trust"]))
            stage = LifeStage(net, trust=bool(asked["trust"]))
        except NeolError as e:
            voice.say({"refused": e.sentence})
            return
    voice.say({"scene": stage.describe()})
    heard: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines, heard), daemon=True).start()
    player = _Player(stage, voice)
    while True:
        try:
            said = heard.get(timeout=player.wait())
        except queue.Empty:
            player.show()
            continue
        if said is None:
            return
        try:
            player.obey(said)
        except NeolError as e:
            voice.say({"error": e.sentence})


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an environment prints is no message
    with suppress(BrokenPipeError, KeyboardInterrupt):
        play(sys.stdin.buffer, out)
    os._exit(0)  # whatever threads a simulator left


if __name__ == "__main__":
    main()
