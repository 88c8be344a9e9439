"""The training loop, and how its champion is chosen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.config.schema import Config
from neol.envs.registry import Maker, choose_engine, find
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.jit import announce_compilation
from neol.neat.evolution import Neat
from neol.neat.genome import Genomes, concatenate, from_arrays, take, to_arrays
from neol.network.normalization import IDENTITY, Moments, Normalization, from_moments, merged, no_moments
from neol.network.phenotype import Phenotypes, compile_phenotypes, gene_weights
from neol.network.plasticity import plasticity
from neol.outer.hedge_pool import HedgePool
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, RolloutResult, headline
from neol.system import uninterrupted
from neol.training import run_folder
from neol.training.champion import Champion, choose_champion
from neol.training.configure import configure
from neol.training.progress import Progress
from neol.training.run import Run
from neol.training.tensorboard import EventWriter

HISTORY_COLUMNS = (
    "generation", "env_steps", "best_fitness", "mean_fitness", "median_fitness", "best_return", "mean_return",
    "mean_steps", "species", "best_nodes", "best_connections", "mean_nodes", "mean_connections", "mean_step_size",
    "mean_weight_change",
)  # fmt: skip
_WHOLE = ("generation", "env_steps", "species", "best_nodes", "best_connections")
TIMING_COLUMNS = ("generation", "wall_seconds", "rollout_seconds", "outer_seconds", "steps_per_second", "cpu_seconds")
SAVE_COST = 20.0  # a checkpoint is written once the work since the last is worth this many times its cost


class Generation(NamedTuple):
    """What a callback sees: the generation that was just evaluated."""

    row: dict[str, float]  # its line of history.csv
    genomes: Genomes
    fitness: np.ndarray  # f8 (P,)
    result: RolloutResult


class Training:
    """A run in progress: everything that a checkpoint holds, and the step from one generation to the next."""

    def __init__(self, config: Config, folder: Path, maker: Maker | None = None) -> None:
        self.config, self.folder = config, folder
        self.task = find(maker or config.run.task, config.rollout.env_kwargs)
        self.plastic = plasticity(config.plasticity)
        self.engine = open_engine(self.task, config.rollout, self.note)
        self.seen = no_moments(1, self.task.n_inputs)  # of all observations so far, where they are normalised
        self.outer = outer_loop(config, self.task)
        self.history: list[list[float]] = []
        self.timing: list[list[float]] = []
        self.archive: list[Genomes] = []  # the best genome of each of the last generations, as it was evaluated
        self.finalists = take(self.outer.genomes, slice(0))  # the best of the last generation, likewise
        self._saved, self._save_cost = time.monotonic(), 0.0

    @property
    def env_steps(self) -> int:
        return int(self.history[-1][1]) if self.history else 0

    @property
    def best_fitness(self) -> float:
        return self.history[-1][2] if self.history else -np.inf

    def compile(self, genomes: Genomes) -> Phenotypes:
        return compile_phenotypes(genomes, self.task.n_inputs, self.task.n_outputs)

    def generation(self) -> Generation:
        """Evaluate the population, record it, and make the next one."""
        started, cpu = time.monotonic(), time.process_time()
        genomes = self.outer.ask()
        phenotypes = self.compile(genomes)
        rollout, run = self.config.rollout, self.config.run
        episodes = Episodes(
            run.seed, seeding.EPISODE, self.outer.generation, rollout.episodes, rollout.common_random_numbers
        )
        before = time.monotonic()
        result = self.engine.run(phenotypes, self.plastic, episodes, self.normal)
        rollout_seconds = time.monotonic() - before
        # J = mean over N episodes of (return + offset * steps)
        fitness = (result.returns + rollout.fitness_offset * result.steps).mean(axis=1)
        with uninterrupted():
            if result.failures:
                fitness = self._blame(fitness, result)
            self.seen = merged(self.seen, result.moments)
            done = self._record(genomes, phenotypes, fitness, result)
            lamarckian = self.config.plasticity.inheritance == "lamarckian"
            adapted = gene_weights(genomes, phenotypes, result.weight) if lamarckian else None
            self.outer.tell(fitness, adapted)
            spent = time.monotonic() - started
            last = self.timing[-1] if self.timing else [0.0] * len(TIMING_COLUMNS)
            wall, used = last[1] + spent, last[5] + time.process_time() - cpu  # cpu: of this process, with its threads
            rate = result.env_steps / rollout_seconds
            self.timing.append([done.row["generation"], wall, rollout_seconds, spent - rollout_seconds, rate, used])
        return done

    @property
    def normal(self) -> Normalization:
        """How this generation's observations are scaled."""
        return from_moments(self.seen) if self.config.rollout.normalize_observations else IDENTITY

    def note(self, event: dict[str, Any]) -> None:
        """A line in events.jsonl."""
        run_folder.append_event(self.folder, {"generation": self.outer.generation, **event})

    def _blame(self, fitness: np.ndarray, result: RolloutResult) -> np.ndarray:
        """Genomes with an episode that went on failing get the worst fitness of the others f8 (P,)."""
        n = result.returns.shape[1]
        for f in result.failures:
            where = {"genome": f.episode // n, "episode": f.episode % n, "attempts": f.attempts}
            self.note({"event": "episode failed", "kind": f.kind, **where, "traceback": f.text})
        if result.failed.all():
            f = result.failures[0]
            raise NeolError(
                f"every genome of generation {self.outer.generation} failed ({f.kind}: {headline(f.text)}); "
                f"the tracebacks are in '{self.folder / run_folder.EVENTS}'."
            )
        return np.where(result.failed, fitness[~result.failed].min(), fitness)

    def _record(self, g: Genomes, ph: Phenotypes, fitness: np.ndarray, result: RolloutResult) -> Generation:
        merit = self.outer.merit(fitness)
        order = np.argsort(-fitness, kind="stable")
        best = int(order[0])
        returns = result.returns.mean(axis=1)
        returns = np.where(result.failed, returns[~result.failed].min(), returns)
        expressed = (int(np.diff(ph.node_start)[best]), int(np.diff(ph.edge_start[ph.node_start])[best]))
        values = (
            self.outer.generation, self.env_steps + result.env_steps, fitness[best], fitness.mean(), np.median(fitness),
            returns.max(), returns.mean(), result.steps.mean(), self.outer.groups, *expressed,
            g.n_nodes.mean(), g.n_conns.mean(), g.step_size.mean(),
            np.abs(result.weight - ph.weight).mean() if len(ph.weight) else 0.0,
        )  # fmt: skip
        self.history.append([float(v) for v in values])
        keep = self.config.run.champion_candidates
        self.archive = [*self.archive, take(g, order[:1])][-keep:]
        self.finalists = take(g, np.argsort(-merit, kind="stable")[:keep])
        return Generation(dict(zip(HISTORY_COLUMNS, self.history[-1], strict=True)), g, fitness, result)

    def candidates(self) -> Genomes:
        """Who may become champion: the best of the last generation first, then the best of the ones before."""
        return concatenate([self.finalists, *self.archive[-2::-1]])

    def save(self, always: bool = False) -> None:
        """Write checkpoint, history and timing, unless that is too dear for what happened since the last time."""
        if not always and time.monotonic() - self._saved < SAVE_COST * self._save_cost:
            return
        started = time.monotonic()
        with uninterrupted():
            archive = concatenate(self.archive) if self.archive else self.finalists
            arrays = {f"outer.{k}": v for k, v in self.outer.state().items()}
            arrays |= to_arrays(archive, "archive") | to_arrays(self.finalists, "finalists")
            arrays |= {f"seen.{k}": v for k, v in self.seen._asdict().items()}
            arrays |= {"history": np.array(self.history), "timing": np.array(self.timing)}
            run_folder.write_checkpoint(self.folder, arrays, self.config)
            self.write_tables()
        self._saved = time.monotonic()
        self._save_cost = self._saved - started

    def write_tables(self) -> None:
        whole = [c in _WHOLE for c in HISTORY_COLUMNS]
        rows = [[int(v) if w else v for v, w in zip(row, whole, strict=True)] for row in self.history]
        run_folder.write_table(self.folder / run_folder.HISTORY, HISTORY_COLUMNS, rows)
        timing = [[int(row[0]), *row[1:]] for row in self.timing]
        run_folder.write_table(self.folder / run_folder.TIMING, TIMING_COLUMNS, timing)

    def load(self) -> None:
        """Go on from the folder's checkpoint."""
        arrays = run_folder.read_checkpoint(self.folder, self.config)

        def part(name: str) -> dict[str, np.ndarray]:
            return {k[len(name) + 1 :]: v for k, v in arrays.items() if k.startswith(f"{name}.")}

        self.outer.restore(part("outer"))
        archive, self.finalists = from_arrays(arrays, "archive"), from_arrays(arrays, "finalists")
        self.seen = Moments(**part("seen"))
        self.history = arrays["history"].tolist()
        columns = len(TIMING_COLUMNS)  # older checkpoints have no cpu_seconds
        self.timing = [[*t, 0.0][:columns] for t in arrays["timing"].tolist()]
        self.archive = [take(archive, [i]) for i in range(len(archive.n_nodes))]
        self.write_tables()

    def why_stop(self) -> str | None:
        """The reason to stop now, if there is one."""
        run = self.config.run
        if self.best_fitness >= run.fitness_target:
            return "fitness target reached"
        if run.max_env_steps and self.env_steps >= run.max_env_steps:
            return "env-step limit reached"
        return "all generations done" if self.outer.generation >= run.generations else None

    def fraction_done(self) -> float:
        run = self.config.run
        by_steps = self.env_steps / run.max_env_steps if run.max_env_steps else 0.0
        return min(1.0, max(self.outer.generation / run.generations, by_steps))


def outer_loop(config: Config, task: Task) -> Neat | HedgePool:
    """OuterInit: a NEAT population, or a pool to select from."""
    run, shape = config.run, (task.n_inputs, task.n_outputs, config.run.seed)
    if run.outer == "neat":
        return Neat(config.neat, *shape)
    low, high, floor = run.return_low, run.return_high, False
    if low == high:  # the task's own; fitness = return + offset for every step
        offset = config.rollout.fitness_offset * config.rollout.max_steps
        low, high = task.returns[0] + min(0.0, offset), task.returns[1] + max(0.0, offset)
        floor = task.unbounded_below
    return HedgePool(config.neat, run.pool, low, high, floor, run.generations, *shape)


Callback = Callable[[Generation], Any]


def train(
    task: str | Maker | None = None,
    *,
    out: str | os.PathLike[str],
    resume: bool = False,
    callback: Callback | None = None,
    progress: Progress | None = None,
    preset: str = "default",
    config: str | Path | None = None,
    neat_config: str | Path | None = None,
    **settings: Any,
) -> Run:
    """Evolve a controller into the folder `out`. Settings are the fields of `neol.Config`, by name.

    `task` is a task's name, a Gymnasium id, `module:id`, `module:callable`, or a function that makes an environment.
    `callback` is called after each generation and stops the run when it returns True. `resume` goes on with the run
    in `out` (or starts one). Ctrl-C saves and raises KeyboardInterrupt.
    """
    show = progress or Progress(quiet=True)
    wanted = configure(task, preset, config, neat_config, **settings)
    said = {k: wanted.flat()[k] for k in ({"task", *settings} if task else settings)}
    if preset != "default" or config or neat_config:
        said = wanted.flat()
    folder = Path(out)
    final, started_before = run_folder.open_folder(folder, wanted, resume, said)
    with announce_compilation(show.say_once):
        trainer = Training(final, folder, task if callable(task) else None)
    events: EventWriter | None = None
    try:
        if started_before:
            trainer.load()
            show.say(f"Going on after generation {trainer.outer.generation - 1} of '{folder}'.")
        show.say(_describe_engine(trainer))
        run_folder.write_atomic(folder / run_folder.CONFIG, final.to_toml())  # a resume may have changed the budget
        if final.run.tensorboard:
            events = EventWriter(folder)
            for row in trainer.history:
                events.write(dict(zip(HISTORY_COLUMNS, row, strict=True)))
        status = _evolve(trainer, callback, show, events)
        show.say("Choosing the champion on fresh episodes ...")
        champion = choose_champion(
            trainer.engine, trainer.task, final, trainer.candidates(), trainer.compile, trainer.plastic, trainer.normal
        )
        return _finish(trainer, champion, status)
    finally:
        show.stop()
        trainer.engine.close()
        if events is not None:
            events.close()


def _describe_engine(trainer: Training) -> str:
    r, count = trainer.config.rollout, trainer.engine.threads
    where = "Ray actors" if r.executor == "ray" else "threads" if r.engine == "envpool" and not r.workers else "workers"
    _, why = choose_engine(trainer.task, "auto" if r.engine == "gymnasium" else r.engine)
    because = f" ({why})" if r.engine == "gymnasium" and "EnvPool" in why else ""
    return f"{trainer.task.name} on {r.engine}{because}, {count} {where if count > 1 else where[:-1]}."


def _evolve(trainer: Training, callback: Callback | None, show: Progress, events: EventWriter | None) -> str:
    """Generation after generation until there is a reason to stop; return it."""
    show.start(trainer.fraction_done())
    status = trainer.why_stop()
    try:
        while status is None:
            with announce_compilation(show.say_once, 3.0) if not trainer.history else _nothing():
                done = trainer.generation()
            status = trainer.why_stop()
            if callback is not None and callback(done):
                status = status or "stopped by callback"
            trainer.save(always=status is not None)
            if events is not None:
                events.write(done.row)
            rate = trainer.timing[-1][4]
            show.generation(done.row, rate, trainer.fraction_done(), last=status is not None)
    except KeyboardInterrupt:
        if trainer.history:
            trainer.save(always=True)
        raise
    show.stop()
    return status


def _finish(trainer: Training, champion: Champion, status: str) -> Run:
    """Write champion and summary."""
    wall = trainer.timing[-1][1] + champion.seconds
    folder = trainer.folder
    run_folder.write_atomic(folder / run_folder.CHAMPION, champion.json)
    summary = {
        "status": status,
        "task": trainer.task.name,
        "generations": len(trainer.history),
        "env_steps": trainer.env_steps,
        "wall_seconds": wall,
        "steps_per_second": trainer.env_steps / sum(row[2] + row[3] for row in trainer.timing),
        "cpu_seconds": trainer.timing[-1][5] + champion.cpu_seconds,
        "best_fitness": trainer.best_fitness,
        **champion.summary,
        "engine": trainer.config.rollout.engine,
        "executor": trainer.config.rollout.executor,
        "threads": trainer.engine.threads,
        "versions": run_folder.versions(),
    }
    run_folder.write_json(folder / run_folder.SUMMARY, summary)
    return Run(folder)


@contextmanager
def _nothing() -> Iterator[None]:
    yield
