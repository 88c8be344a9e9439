"""Which engine plays where: in this process, in worker processes, or on a Ray cluster."""

from __future__ import annotations

from neol.config.sections import RolloutConfig
from neol.envs.tasks import Task
from neol.rollout.dispatcher import Dispatcher, Engine, Report
from neol.rollout.envpool_player import EnvPoolEngine
from neol.rollout.local_workers import LocalWorkers
from neol.rollout.native_player import NativeEngine
from neol.rollout.worker_process import PlayerSpec
from neol.system import cores


def open_engine(task: Task, r: RolloutConfig, report: Report | None = None, seed: int = 0) -> Engine:
    """What a rollout configuration asks for. `seed` is the run's."""
    if r.executor == "local" and r.engine == "envpool" and r.workers == 0:
        return EnvPoolEngine(task, r.max_steps, r.threads, r.window)
    if r.executor == "local" and r.engine == "native" and r.workers == 0:
        return NativeEngine(task, r.max_steps, r.threads)
    fresh = {"auto": not task.resets_fully, "true": True, "false": False}[r.fresh_envs]
    plain = task._replace(settings={})  # a worker does not need the task's defaults
    threads = max(1, r.threads)
    spec = PlayerSpec(r.engine, plain, r.max_steps, threads, r.window, fresh, r.episode_retries, r.step_timeout, seed)
    if r.executor == "ray":
        from neol.rollout.ray_workers import RayWorkers

        return Dispatcher(spec, RayWorkers(spec, r.workers, r.ray_address), report)
    return Dispatcher(spec, LocalWorkers(spec, r.workers or cores()), report)
