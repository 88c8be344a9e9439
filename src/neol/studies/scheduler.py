"""Running a study: its cells over the cores of this machine or a Ray cluster, killed and resumed as often as need be.

The database is written when a run ends; a run in progress lives in its folder. So whoever starts the study again goes
on where it was, and several may work on it at once: a run is locked by the process that works on it (worker.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from neol.baselines.settings import BaselineConfig
from neol.envs.tasks import CHANGING_TASKS, PATTERN_TASKS, TASKS, Task
from neol.errors import NeolError
from neol.gradients.settings import FinetuneConfig
from neol.studies import worker
from neol.studies.database import (
    DONE,
    FAILED,
    RUNS,
    WAITING,
    Database,
    forget_failures,
    record_failure,
    record_result,
)  # fmt: skip
from neol.studies.local_workers import DEATHS, Job, LocalStudyWorkers, StudyBackend
from neol.studies.plan import AnyConfig, Cell, StudyPlan, cells
from neol.studies.taking import Source, plan_with
from neol.system import cores, is_busy
from neol.training import run_folder
from neol.training.history import fraction_done
from neol.training.progress import Progress

BASELINE_SECONDS = {"ppo": 2.5e-4, "sac": 2e-2}  # of a step and its share of learning on one core, roughly
POLL = 0.5  # seconds between looks at what the others do


class RunCounts(NamedTuple):
    """How a study stands."""

    done: int
    failed: int
    waiting: int


def choose_cells(plan: StudyPlan, scale: float, tasks: Sequence[str] = (), arms: Sequence[str] = ()) -> list[Cell]:
    """The study's cells, of some tasks and arms only where they are named; an arm brings its control."""
    for name, wanted, has in (("tasks", tasks, plan.tasks), ("arms", arms, [a.name for a in plan.arms])):
        unknown = [w for w in wanted if w not in has]
        if unknown:
            raise NeolError(f"{name} = '{unknown[0]}' is not in this study; it has {', '.join(has)}.")
    chosen = cells(plan, scale)
    return [
        c for c in chosen
        if (not tasks or c.task in tasks) and (not arms or c.arm in arms or c.control_of in arms)
    ]  # fmt: skip


def run_study(
    plan: StudyPlan,
    out: Path,
    chosen: Sequence[Cell],
    *,
    scale: float = 1.0,
    jobs: int = 0,
    executor: str = "local",
    ray_address: str = "",
    retry: bool = False,
    taken_from: Sequence[Path] = (),
    show: Progress | None = None,
) -> RunCounts:
    """Run what is missing of these cells in the folder `out`; `taken_from`: studies whose finished runs are kept."""
    show = show or Progress(quiet=True)
    sources = [Source(path) for path in taken_from]
    _make_folder(out)
    database = Database(out)
    with database.writing() as db:
        plan_with(db, plan, chosen, scale, sources)
        taken = [source.take(db) for source in sources]
        if retry:
            forget_failures(db)
    for sentence in taken:
        show.say(sentence)
    configs = {c.key: c.config for c in chosen}
    keys, wanted = list(configs), waiting(database, out, configs)
    if wanted:
        backend = _open_backend(executor, ray_address, jobs, len(wanted))
        try:
            _schedule(database, out, keys, wanted, backend, show)
        finally:
            backend.close()
            show.stop()
    return count_runs(database, keys)


def _make_folder(out: Path) -> None:
    try:
        if out.is_dir() and any(out.iterdir()) and not (out / "study.sqlite").exists():
            raise NeolError(f"'{out}' is not empty and holds no study; give another --out.")
        (out / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise NeolError(f"cannot use '{out}' as a study's folder: {e.strerror}.") from None


def _open_backend(executor: str, address: str, jobs: int, wanted: int) -> StudyBackend:
    if executor == "ray":
        from neol.studies.ray_workers import RayStudyWorkers

        return RayStudyWorkers(jobs, address)
    if jobs > (most := max(64, 4 * cores())):
        raise NeolError(f"jobs = {jobs} is not allowed; on this machine of {cores()} cores it must be at most {most}.")
    return LocalStudyWorkers(min(jobs or cores(), wanted))


def waiting(database: Database, out: Path, configs: Mapping[str, AnyConfig]) -> list[Job]:
    """The runs of these configurations, by key, that are still to do: seed by seed, so that a study that is stopped has
    whole comparisons, and within a seed the longest first."""
    with database.reading() as db:
        runs = dict(db.execute("SELECT key, run FROM runs WHERE status = ?", (WAITING,)).fetchall())
    ready = [Job(runs[k], k, out / RUNS / k, config, cost(config)) for k, config in configs.items() if k in runs]
    place = {seed: i for i, seed in enumerate(dict.fromkeys(seed_of(j.config) for j in ready))}
    return sorted(ready, key=lambda j: (place[seed_of(j.config)], -j.cost))


def seed_of(config: AnyConfig) -> int:
    return int(config.flat()["seed"])


def count_runs(database: Database, keys: Sequence[str]) -> RunCounts:
    with database.reading() as db:
        status = dict(db.execute("SELECT key, status FROM runs").fetchall())
    counts = [sum(status.get(k) == s for k in keys) for s in (DONE, FAILED, WAITING)]
    return RunCounts(*counts)


def cost(config: AnyConfig) -> float:
    """Seconds that a run will take on one core, roughly: episodes of half their longest, the champion's choice too."""
    if isinstance(config, FinetuneConfig):
        whole, evolved = config.evolution.run.max_env_steps, config.evolved_steps
        return cost(config.evolution.replace(max_env_steps=evolved)) + cost(config.learner(whole - evolved))
    if isinstance(config, BaselineConfig):
        return config.max_env_steps * BASELINE_SECONDS[config.algorithm]
    run, length = config.run, 0.5 * config.rollout.max_steps
    steps = config.neat.pop_size * config.rollout.episodes * run.generations * length
    if run.max_env_steps:
        steps = min(steps, run.max_env_steps)
    choice = (2 * run.champion_candidates + 16) * run.champion_trials + 3 * run.champion_episodes
    task: Task | None = (TASKS | CHANGING_TASKS | PATTERN_TASKS).get(run.task)
    return (steps + choice * length) * (task.step_seconds if task else 5e-5)


def part_done(job: Job) -> float:
    """How much of a run is behind it, from its folder."""
    try:
        history = run_folder.read_table(job.folder / run_folder.HISTORY)
    except NeolError:
        return 0.0
    if not len(history["generation"]):
        return 0.0
    return fraction_done(int(history["generation"][-1]) + 1, int(history["env_steps"][-1]), job.config.flat())


def _schedule(
    database: Database, out: Path, keys: Sequence[str], queue: list[Job], backend: StudyBackend, show: Progress
) -> None:
    """Give every idle worker the next run that is left, until none is."""
    running: dict[int, Job] = {}
    elsewhere: dict[int, tuple[Job, float]] = {}  # runs that another process works on, and when to look again
    deaths: dict[int, int] = {}
    total, left = len(keys), sum(j.cost for j in queue)
    behind = {j.run: part_done(j) for j in queue}
    show.say(f"{len(queue)} of {total} runs to do, {backend.size} at a time.")
    show.start(0.0)
    begun = sum(j.cost * behind[j.run] for j in queue)
    finished = 0.0
    while queue or running or elsewhere:
        while queue and len(running) < backend.size:
            job = queue.pop(0)
            if not _waits(database, job):  # another process took it over
                finished += job.cost
                continue
            running[job.run] = job
            backend.submit(job)
        for job, outcome, reason in backend.wait(POLL):
            del running[job.run]
            if outcome == worker.BUSY:
                elsewhere[job.run] = (job, time.monotonic() + 4 * POLL)
                continue
            if outcome == worker.DIED and deaths.get(job.run, 0) + 1 < DEATHS:
                deaths[job.run] = deaths.get(job.run, 0) + 1
                queue.insert(0, job)
                continue
            finished += job.cost
            reason = _record(database, job, outcome, reason)
            if reason:
                show.say(f"{job.key} failed: {reason}")
        if elsewhere:
            finished += _look_again(database, queue, elsewhere)
        ahead = finished + sum(j.cost * part_done(j) for j in running.values()) if not show.quiet else 0.0
        ready = total - len(queue) - len(running) - len(elsewhere)
        done = (ahead - begun) / (left - begun) if left > begun else 1.0
        names = ", ".join(j.config.flat()["task"] for j in running.values())
        show.update(f"{ready} of {total} runs done; running: {names or 'elsewhere'}", min(max(done, 0.0), 1.0))


def _record(database: Database, job: Job, outcome: str, reason: str) -> str:
    """Write down how a run ended; why it failed, or ''."""
    if outcome == worker.DONE:
        try:
            with database.writing() as db:
                record_result(db, job.run, job.folder)
            return ""
        except (NeolError, KeyError, TypeError) as e:  # its folder is damaged: the other runs go on
            reason = str(e) if isinstance(e, NeolError) else f"'{job.folder}' is damaged: {e!r}."
    with database.writing() as db:
        record_failure(db, job.run, reason)
    return reason


def _waits(database: Database, job: Job) -> bool:
    with database.reading() as db:
        return bool(db.execute("SELECT 1 FROM runs WHERE run = ? AND status = ?", (job.run, WAITING)).fetchone())


def _look_again(database: Database, queue: list[Job], elsewhere: dict[int, tuple[Job, float]]) -> float:
    """Runs that others worked on: those that they finished are done, the others are tried again -> cost of the done."""
    now = time.monotonic()
    due = [run for run, (_, when) in elsewhere.items() if when <= now]
    if not due:
        return 0.0
    with database.reading() as db:
        status = dict(db.execute("SELECT run, status FROM runs").fetchall())
    finished = 0.0
    for run in due:
        job, _ = elsewhere.pop(run)
        if status[run] != WAITING:
            finished += job.cost
        elif is_busy(job.folder):
            elsewhere[run] = (job, now + 4 * POLL)
        else:
            queue.append(job)
    return finished
