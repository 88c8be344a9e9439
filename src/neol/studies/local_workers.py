"""Who works on a study's runs: processes on this machine, each with one run at a time."""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from neol.studies.plan import AnyConfig
from neol.studies.worker import DIED
from neol.system import own_command, own_environment, process_id

GRACE = 20.0  # seconds that interrupted workers have to save
DEATHS = 3  # times that a run's process may die before the run counts as failed


class Job(NamedTuple):
    """A run that waits."""

    run: int
    key: str
    folder: Path
    config: AnyConfig
    cost: float  # seconds that it will take, roughly


class StudyBackend(Protocol):
    """Workers, each with one job at a time."""

    size: int

    def submit(self, job: Job) -> None: ...
    def wait(self, seconds: float) -> Iterable[tuple[Job, str, str]]: ...  # job, outcome, reason
    def close(self) -> None: ...


class LocalStudyWorkers:
    """Worker processes on this machine."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[subprocess.Popen[str]] = []
        self._busy: dict[subprocess.Popen[str], Job] = {}
        self._answers = selectors.DefaultSelector()

    def submit(self, job: Job) -> None:
        worker = self._idle.pop() if self._idle else self._start()
        self._busy[worker] = job
        assert worker.stdin is not None
        try:
            line = {"folder": str(job.folder.absolute()), "config": job.config.to_toml()}
            print(json.dumps(line), file=worker.stdin, flush=True)
        except BrokenPipeError:
            pass  # it died meanwhile; wait() tells

    def _start(self) -> subprocess.Popen[str]:
        command = own_command("neol.studies.worker", str(process_id()))
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own_environment()
        )
        assert worker.stdout is not None
        self._answers.register(worker.stdout, selectors.EVENT_READ, worker)
        return worker

    def wait(self, seconds: float) -> Iterable[tuple[Job, str, str]]:
        for key, _ in self._answers.select(seconds):
            worker: Any = key.data
            line = worker.stdout.readline()
            job = self._busy.pop(worker, None)
            if line:
                self._idle.append(worker)
                answer = json.loads(line)
                if job is not None:
                    yield job, answer["outcome"], answer["reason"]
                continue
            self._answers.unregister(worker.stdout)
            if worker in self._idle:
                self._idle.remove(worker)
            code = worker.wait()
            if job is not None:
                yield job, DIED, f"its process died {DEATHS} times, the last time with code {code}."

    def close(self) -> None:
        """Runs that are not finished are saved, as at Ctrl-C."""
        workers = [*self._idle, *self._busy]
        for worker in workers:
            worker.send_signal(signal.SIGINT)
        for worker in workers:
            try:
                worker.wait(GRACE)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self._answers.close()
