"""`neol` in real processes that are forked from one in which everything is loaded: a start takes milliseconds, not two
seconds. For tests that kill or interrupt many; what only a new interpreter shows needs `python -m neol`.

python tests/forked.py      one request a line comes in as JSON, one answer a line goes out
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from neol.cli.main import main
from neol.system import own_environment

LOADS = (
    "train", "lunarlander", "--pop-size=10", "--generations=2", "--max-steps=20", "--threads=1", "--champion-trials=1",
    "--champion-episodes=2", "--quiet",
)  # fmt: skip


class Forked:
    """A process of `neol`, with what tests use of subprocess.Popen."""

    def __init__(self, server: ForkServer, words: list[str], texts: list[Path], folder: Path) -> None:
        self._server, self._texts = server, texts
        self.pid: int = server.ask(words=words, texts=[str(t) for t in texts], folder=str(folder))
        self.returncode: int | None = None

    def poll(self, how: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask(pid=self.pid, how=how)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self) -> int | None:
        return self.poll(0)

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; its standard output and standard error."""
        self.wait()
        out, err = (t.read_text(encoding="utf-8") for t in self._texts)
        return out, err


class ForkServer:
    """The process that they are forked from."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._started = folder, 0
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**own_environment(), "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def start(self, words: list[str], folder: Path = Path()) -> Forked:
        """`neol WORDS`, in this folder."""
        self._started += 1
        texts = [self._folder / f"{self._started}.{name}" for name in ("out", "err")]
        return Forked(self, words, texts, folder.resolve())

    def close(self) -> None:
        self._process.communicate()


def become(words: list[str], texts: list[str], folder: str) -> None:
    """This process, just forked, is `neol WORDS` in a folder, which writes into these files."""
    os.chdir(folder)
    for fd, text in zip((1, 2), texts, strict=True):
        os.dup2(os.open(text, os.O_WRONLY | os.O_CREAT), fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.exit(main(words))


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        os.dup2(2, 1)
        assert main([*LOADS, "--out", f"{folder}/run"]) == 0
    threads = Path("/proc/self/task")
    assert not threads.exists() or len(list(threads.iterdir())) == 1, "a fork has only one of the threads"
    for line in sys.stdin:
        request = json.loads(line)
        if "words" in request:
            answer: int | None = os.fork()
            if answer == 0:
                become(**request)
        else:
            pid, status = os.waitpid(request["pid"], request["how"])
            answer = os.waitstatus_to_exitcode(status) if pid else None
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
