"""A study's runs on a Ray cluster: a task per run, one CPU each, the study's folder on a disk that all nodes share."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from neol.rollout.ray_workers import connect
from neol.studies import worker
from neol.studies.local_workers import Job
from neol.studies.plan import parse_config


def _work(folder: str, config: str, path: list[str]) -> tuple[str, str]:
    """On some node of the cluster."""
    sys.path += [p for p in path if p not in sys.path]
    if not Path(folder).parent.is_dir():
        return worker.FAILED, f"'{Path(folder).parent}' is not there on node {os.uname().nodename}."
    return worker.work(Path(folder), parse_config(config, "the run"))


class RayStudyWorkers:
    """`size` runs at a time (0 = as many as the cluster has CPUs) on the cluster at `address` ('' = one of our own)."""

    def __init__(self, size: int, address: str) -> None:
        self._ray, self._started_here = connect(size, address)
        self.size = size or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._path = [p or os.getcwd() for p in sys.path]
        self._remote = self._ray.remote(num_cpus=1, max_retries=0)(_work)
        self._waiting: dict[Any, Job] = {}

    def submit(self, job: Job) -> None:
        reference = self._remote.remote(str(job.folder.absolute()), job.config.to_toml(), self._path)
        self._waiting[reference] = job

    def wait(self, seconds: float) -> Iterable[tuple[Job, str, str]]:
        if not self._waiting:
            time.sleep(seconds)
            return
        done, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=seconds)
        for reference in done:
            job = self._waiting.pop(reference)
            try:
                outcome, reason = self._ray.get(reference)
            except self._ray.exceptions.RayError as e:
                outcome, reason = worker.DIED, f"its Ray task died: {' '.join(str(e).split())}"
            yield job, outcome, reason

    def close(self) -> None:
        for reference in self._waiting:
            self._ray.cancel(reference, force=True)
        if self._started_here:
            self._ray.shutdown()
