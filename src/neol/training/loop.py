"""The loop over generations: a run in progress, from one generation to the next, to a champion."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from neol import seeding
from neol.arrays import Array, Declared, checked
from neol.config.checks import trial_weights
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.neat.checked import Population
from neol.neat.genome import Genomes, concatenate, empty_genomes, from_arrays, take, to_arrays
from neol.neat.pointers import adopted
from neol.network.normalization import IDENTITY, Moments, from_moments, merged, no_moments
from neol.network.phenotype import Phenotypes, gene_weights
from neol.outer.base import (
    Outcome,
    Problem,
    check_advanced,
    checked_metrics,
    declaration,
    own_steps,
    population,
    remembered,
)
from neol.outer.registry import make_loop
from neol.rollout.attributes import check_attributes
from neol.rollout.determinism import repeats
from neol.rollout.faults import FaultVerdict, run_redrawn
from neol.rollout.life import Life, life_of
from neol.rollout.open_engine import open_engine
from neol.rollout.shards import Episodes, RolloutResult, headline
from neol.rollout.world import world_of
from neol.substrate.encoding import Direct, Hyperneat, cppn_config, encoding_of
from neol.substrate.layout import digest
from neol.system import uninterrupted
from neol.training import champion, run_folder
from neol.training.adaptive_episodes import AGREEMENT, agreement_columns, episodes_needed
from neol.training.configure import Resolved
from neol.training.history import History, HistoryRow, fraction_done, trial_columns
from neol.training.novelty import Novelty
from neol.training.observers import Event, Generation, Observer
from neol.training.session import count_events, named, part, record_event
from neol.training.start import Start
from neol.training.substrate_file import cppn_document
from neol.training.summary import NeolSummary


class Training:
    """A run in progress: everything that a checkpoint holds, and the step from one generation to the next."""

    saves_always, is_whole = False, True

    def __init__(self, resolved: Resolved, folder: Path, observer: Observer | None = None) -> None:
        self.resolved, self.config, self.folder = resolved, resolved.config, folder
        self.task, self.observer = resolved.task, observer or Observer()
        r = self.config.rollout
        self.world = world_of(self.task, self.config.world.change, r.max_steps, r.trials)
        self.test_world = world_of(self.task, self.config.world.test_change, r.max_steps, r.trials)
        for world in (self.world, self.test_world):
            check_attributes(self.task, world)
        self.encoding = encoding_in(resolved)
        self.outer = make_loop(problem_of(resolved), resolved.loop)
        self.novelty = Novelty(self.config.run.novelty, self.config.run.novelty_neighbours, self.task.n_inputs)
        self.engine = open_engine(self.task, self.config.rollout, self.note, self.config.run.seed)
        start = resolved.start
        self.seen = start.seen if start and start.seen else no_moments(1, self.task.n_inputs)  # observations so far
        self.history = History()
        self.archive: list[Genomes] = []  # the best genome of each of the last generations, as it was evaluated
        self.finalists = empty_genomes(0, 1, 1)  # whom the loop would deploy of the last generation, likewise

    @property
    def results(self) -> tuple[str, ...]:
        painted = isinstance(self.encoding, Hyperneat)
        return (run_folder.CHAMPION, run_folder.CPPN) if painted else (run_folder.CHAMPION,)

    def describe(self) -> str:
        r, count = self.config.rollout, self.engine.threads
        threads = r.engine != "gymnasium" and not r.workers
        where = "Ray actor" if r.executor == "ray" else "thread" if threads else "worker"
        because = f" ({self.resolved.why})" if r.engine == "gymnasium" and "EnvPool" in self.resolved.why else ""
        return f"{self.task.name} on {r.engine}{because}, {count} {where}{'s' * (count > 1)}."

    def _cpu_seconds(self) -> float:
        """Of this process and of the workers' that play for it."""
        return time.process_time() + self.engine.cpu_seconds

    def compile(self, genomes: Genomes) -> Phenotypes:
        return self.encoding.compile(genomes)

    def advance(self) -> Generation:
        """Evaluate the population, record it, and make the next one."""
        started, cpu = time.monotonic(), self._cpu_seconds()
        settled = self.fraction_done() >= self.config.rollout.normalize_share
        genomes = population(self.outer.ask(), "ask")
        phenotypes = self.compile(genomes)
        before = time.monotonic()
        result, verdict = self.rollout(phenotypes)
        rollout_seconds = time.monotonic() - before
        returns, steps = verdict.kept(result.returns), verdict.kept(result.steps)  # (P, n), n <= N
        # J = mean over N lives of (sum of max(reward, floor) + offset * steps), itself a mean over a life's trials
        by_life = verdict.kept(result.fitness(self.config.rollout.fitness_offset))  # (P, n)
        fitness = by_life.mean(axis=1)
        with uninterrupted():
            if result.failures:
                fitness = self._blame(fitness, result, verdict)
            if result.retries:
                self.note({"event": "episode retried", "times": result.retries})
            scaled_by, self.seen = self.seen, self.seen if settled else merged(self.seen, result.moments)
            own = self.config.plasticity
            lamarckian = own.inheritance == "lamarckian" and own.birth == "inherited"
            lamarckian &= isinstance(self.encoding, Direct)  # what was painted cannot be written back
            adapted = gene_weights(genomes, phenotypes, result.weight) if lamarckian else None
            outcome = Outcome(fitness, returns, steps, adapted, self._longest(), scaled_by)
            row = self._row(genomes, phenotypes, fitness, by_life, result, verdict)
            keep = self.config.run.champion_candidates
            self.finalists = population(self.outer.candidates(outcome, keep), "candidates")
            self.archive = [*self.archive, take(self.finalists, [0])][-keep:]
            self.outer.tell(outcome._replace(fitness=self.novelty.blend(fitness, result.moments)))
            check_advanced(self.outer, row.generation)
            spent = time.monotonic() - started
            self.history.add(row, rollout_seconds, spent, self._cpu_seconds() - cpu, result.env_steps)
        rate = self.history.timing[-1].steps_per_second
        return Generation(row.columns(), rate, self.fraction_done(), False, genomes, fitness, result)

    def rollout(self, phenotypes: Phenotypes) -> tuple[RolloutResult, FaultVerdict]:
        """This generation's episodes; while the environment fails in all of them, others in their place."""
        run, r = self.config.run, self.config.rollout
        which = (run.seed, seeding.EPISODE, self.outer.generation, self.episodes, r.common_random_numbers)
        weights = trial_weights(r.trial_weights, r.trials)
        episodes = Episodes(*which, max_steps=self._longest(), trial_weights=weights)
        result, verdict = run_redrawn(partial(self.engine.run, phenotypes, self.life), episodes, self._note_redraw)
        if verdict.left_out.all() or verdict.failed.all():
            self._note_failures(result, verdict)
            f = result.failures[0]
            raise NeolError(
                f"every genome of generation {self.outer.generation} failed ({f.kind}: {headline(f.text)}); "
                f"the tracebacks are in '{self.folder / run_folder.EVENTS}'."
            )
        return result, verdict

    def _longest(self) -> int:
        """Steps that this generation's episodes are cut at, 0 = none: what began from a champion needs no cut."""
        r = self.config.rollout
        whole = self.history.env_steps >= r.whole_episodes_after or self._start_candidate() is not None
        return 0 if r.whole_episodes_after and whole else r.training_steps

    @property
    def episodes(self) -> int:
        """N of this generation."""
        r = self.config.rollout
        if not r.most_episodes:
            return r.episodes
        return episodes_needed([row.more[AGREEMENT] for row in self.history.rows], r.episodes, r.most_episodes)

    def _note_redraw(self, discarded: RolloutResult) -> None:
        f = discarded.failures[0]
        self.note({"event": "episodes redrawn", "kind": f.kind, "attempts": f.attempts, "traceback": f.text})

    def check_repeats(self) -> None:
        """Say so where an environment's episodes are not a function of their seed (Gymnasium; EnvPool's are)."""
        said = repeats(self.task, self.engine) if self.config.rollout.engine == "gymnasium" else None
        if said is not None:
            self.note({"event": "not reproducible", "reason": said})

    @property
    def life(self) -> Life:
        """How this generation lives: its observations are scaled by the statistics of those before."""
        normal, start = IDENTITY, self.resolved.start
        if self.config.rollout.normalize_observations:
            as_it_was = start is not None and start.seen is not None and start.seen.n[0] == self.seen.n[0]
            normal = start.normal if start and as_it_was else from_moments(self.seen)
        return life_of(self.task, self.config.plasticity, normal, self.world, self.config.rollout.reward_floor)

    def note(self, event: Mapping[str, Any]) -> None:
        """A fault: a line in events.jsonl, and the observers are told."""
        details = {k: v for k, v in event.items() if k != "event"}
        text = str(event.get("reason", event.get("traceback", "")))
        said = Event(str(event["event"]), headline(text) if text else "", details)
        record_event(self.folder, self.outer.generation, said)
        self.observer.event(said)

    def _note_failures(self, result: RolloutResult, verdict: FaultVerdict) -> None:
        """One line for an episode that the environment failed for all, one for every genome's own failure."""
        n, told = result.returns.shape[1], set()
        for f in result.failures:
            genome, episode = f.episode // n, f.episode % n
            if verdict.left_out[episode] and episode in told:
                continue
            told.add(episode)
            event = "episode left out" if verdict.left_out[episode] else "episode failed"
            where = {"genome": genome, "episode": episode, "attempts": f.attempts}
            self.note({"event": event, "kind": f.kind, **where, "traceback": f.text})

    def _blame(self, fitness: np.ndarray, result: RolloutResult, verdict: FaultVerdict) -> np.ndarray:
        """Genomes with an episode that went on failing, where others lived, get the worst of their fitness f8 (P,)."""
        self._note_failures(result, verdict)
        return np.where(verdict.failed, fitness[~verdict.failed].min(), fitness)

    def _row(
        self,
        g: Genomes,
        ph: Phenotypes,
        fitness: np.ndarray,
        by_life: np.ndarray,
        result: RolloutResult,
        verdict: FaultVerdict,
    ) -> HistoryRow:
        best = fittest(fitness)
        returns = verdict.kept(result.returns).mean(axis=1)
        returns = np.where(verdict.failed, returns[~verdict.failed].min(), returns)
        more = {
            **checked_metrics(self.outer.metrics(), self.history.rows[0].more if self.history.rows else None),
            "best_nodes": int(np.diff(ph.node_start)[best]),  # those that an output depends on
            "best_connections": int(np.diff(ph.edge_start[ph.node_start])[best]),
            "mean_nodes": float(g.n_nodes.mean()),
            "mean_connections": float(g.n_conns.mean()),
            "mean_step_size": float(g.step_size.mean()),
            "mean_weight_change": float(np.abs(result.weight - ph.weight).mean()) if len(ph.weight) else 0.0,
            **trial_columns(verdict.kept(result.by_trial.returns), best),
            **(agreement_columns(by_life) if self.config.rollout.most_episodes else {}),
        }
        return HistoryRow(
            self.outer.generation, self.history.env_steps + result.env_steps + own_steps(self.outer),
            float(fitness[best]),
            float(fitness.mean()), float(np.median(fitness)), float(returns.max()), float(returns.mean()),
            float(verdict.kept(result.steps).mean()), more,
        )  # fmt: skip

    def candidates(self) -> champion.Candidates:
        """Who may become champion: the loop's own choice of the last generation; then what it remembers, best first, or
        the best of the generations before."""
        first, scaled = len(self.finalists.n_nodes), self.config.rollout.normalize_observations
        earlier = remembered(self.outer)[: max(0, 2 * self.config.run.champion_candidates - first - 1)]
        genomes = [self.finalists, *([r.genome for r in earlier] if earlier else self.archive[-2::-1])]
        seen = {first + i: r.seen for i, r in enumerate(earlier) if scaled and r.seen.n[0] >= 2}
        return champion.Candidates(concatenate(genomes), float(self.seen.n[0]), seen, self._start_candidate())

    def _start_candidate(self) -> Start | None:
        """What the run began from, unless only its topology was wanted."""
        return None if self.config.es.topology == "start" else self.resolved.start

    def arrays(self) -> dict[str, np.ndarray]:
        archive = concatenate(self.archive) if self.archive else self.finalists
        return {
            **named("outer", self.outer.state()),
            **to_arrays(archive, "archive"),
            **to_arrays(self.finalists, "finalists"),
            **named("seen", self.seen._asdict()),
            **named("spaces", _spaces(self.task)),
            **({"behaviours": self.novelty.archive} if self.novelty.weight else {}),
            **({"start": self.resolved.start.digest} if self.resolved.start else {}),
            **({"substrate": digest(self.resolved.substrate)} if self.resolved.substrate else {}),
        }

    def checked(self, arrays: Mapping[str, np.ndarray], what: str) -> Mapping[str, np.ndarray]:
        inputs = self.task.n_inputs
        same_task(part(arrays, "spaces"), part(arrays, "seen"), self.task)
        own = {k: v for k, v in arrays.items() if not k.startswith("outer.")}
        moments = {"n": Array("f8", (1,), low=0.0, high=1e300)} | dict.fromkeys(
            ("mean", "m2"), Array("f8", (1, inputs))
        )
        declared: Declared = {
            **dict.fromkeys(("start", "substrate"), Array("u1", (32,), optional=True)),
            **({"behaviours": Array("f8", ("A", 2 * inputs), high=1e300)} if self.novelty.weight else {}),
            **dict.fromkeys(("archive", "finalists"), Population(self.encoding.inputs, self.encoding.outputs, least=1)),
            **{f"seen.{k}": spec for k, spec in moments.items()},
            **{f"spaces.{k}": spec._replace(optional=True) for k, spec in SPACES.items()},
        }
        outer = checked(part(arrays, "outer"), declaration(self.outer, problem_of(self.resolved)), what)
        return {**checked(own, declared, what), **named("outer", outer)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if self.resolved.start is not None and not np.array_equal(arrays.get("start", ()), self.resolved.start.digest):
            raise NeolError(f"'{self.folder / run_folder.START}' is not what the run began from.")
        painted = self.resolved.substrate
        if painted is not None and not np.array_equal(arrays.get("substrate", ()), digest(painted)):
            raise NeolError(f"'{self.folder / run_folder.SUBSTRATE}' is not what the run's networks were painted on.")
        self.outer.restore(part(arrays, "outer"))
        if any(r.seen.mean.shape[1] != self.task.n_inputs for r in remembered(self.outer)):
            raise NeolError(f"the checkpoint is damaged: observations must have {self.task.n_inputs} numbers.")
        archive, self.finalists = from_arrays(arrays, "archive"), from_arrays(arrays, "finalists")
        self.seen = Moments(**part(arrays, "seen"))
        self.novelty.archive = arrays.get("behaviours", self.novelty.archive)
        self.archive = [take(archive, [i]) for i in range(len(archive.n_nodes))]
        if self.outer.generation != len(self.history.rows):
            raise NeolError(
                f"the checkpoint is damaged: its outer loop is in generation {self.outer.generation}, its history has "
                f"{len(self.history.rows)}."
            )

    def why_stop(self) -> str | None:
        run = self.config.run
        if self.history.best_fitness >= run.fitness_target:
            return "fitness target reached"
        if run.max_env_steps and self.history.env_steps >= run.max_env_steps:
            return "env-step limit reached"
        return "all generations done" if self.outer.generation >= run.generations else None

    def fraction_done(self) -> float:
        return fraction_done(self.outer.generation, self.history.env_steps, self.config.flat())

    def write_best(self) -> None:
        """The last generation's best as champion.json: not yet chosen on fresh episodes, and the file says so."""
        best = take(self.finalists, [0])
        said = f"the best of generation {self.outer.generation - 1} by fitness, not yet chosen on fresh episodes"
        normal, count = self.life.normal, float(self.seen.n[0])
        of = (self.compile(best), self.encoding.network(best), self.task, self.config, normal, count)
        self._write_champion(champion.document(*of, status=said), best)

    def _write_champion(self, document: str, genome: Genomes) -> None:
        if isinstance(self.encoding, Hyperneat):
            painter = cppn_document(self.encoding, genome, self.task)
            run_folder.write_atomic(self.folder / run_folder.CPPN, painter)
        run_folder.write_atomic(self.folder / run_folder.CHAMPION, document)

    def finish(self, status: str) -> NeolSummary:
        started, cpu = time.monotonic(), self._cpu_seconds()
        how = (self.candidates(), self.compile, self.life, self.encoding.network, self.test_world)
        chosen = champion.choose_champion(self.engine, self.task, self.config, *how)
        self._write_champion(chosen.json, chosen.genome)
        cppn = self.encoding.cppns(chosen.genome) if isinstance(self.encoding, Hyperneat) else None
        timing, r = self.history.timing, self.config.rollout
        return NeolSummary(
            status=status,
            task=self.task.name,
            generations=len(self.history.rows),
            env_steps=self.history.env_steps,
            wall_seconds=timing[-1].wall_seconds + time.monotonic() - started,
            steps_per_second=self.history.env_steps / sum(t.rollout_seconds + t.outer_seconds for t in timing),
            cpu_seconds=timing[-1].cpu_seconds + self._cpu_seconds() - cpu,
            best_fitness=self.history.best_fitness,
            **chosen.facts,
            cppn_parameters=None if cppn is None else len(cppn.weight) + len(cppn.node_id),
            outer=self.config.run.outer,
            engine=r.engine,
            executor=r.executor,
            threads=self.engine.threads,
            events=count_events(self.folder),
            versions=run_folder.versions(*getattr(self.outer, "packages", ())),
        )

    def close(self) -> None:
        self.engine.close()


SPACES = {"sizes": Array("i8", (2,)), "components": Array("f8", ("components", 5))}


def _spaces(task: Task) -> dict[str, np.ndarray]:
    """What a network of this task meets: inputs and outputs, and how outputs become an action."""
    components = np.array([(c.kind, c.first, c.width, c.low, c.high) for c in task.components], float)
    return {"sizes": np.array([task.n_inputs, task.n_outputs]), "components": components.reshape(-1, 5)}


def same_task(spaces: Mapping[str, np.ndarray], seen: Mapping[str, np.ndarray], task: Task) -> None:
    """A NeolError where an environment's spaces are others than when its run was saved: its networks do not fit."""
    now, before = _spaces(task), dict(spaces)
    if "sizes" not in before and "mean" in seen:  # a checkpoint from before it had them
        before = {"sizes": np.array([*seen["mean"].shape[1:], task.n_outputs])}
    if all(np.array_equal(before[k], now[k]) for k in before if k in now):
        return
    had = np.asarray(before.get("sizes", ())).tolist()
    what = f"{had[0]} inputs and {had[1]} outputs" if len(had) == 2 else "other spaces"
    if had == now["sizes"].tolist():
        what += ", read as another action"
    raise NeolError(
        f"the environment '{task.name}' has other spaces than when this run was saved: it has {task.n_inputs} inputs "
        f"and {task.n_outputs} outputs, and the run's networks have {what}; train anew into another --out."
    )


def fittest(fitness: np.ndarray) -> int:
    """The place of the highest of f8 (P,), of equals the first; nan is lowest."""
    return int(np.argsort(-fitness, kind="stable")[0])


def encoding_in(resolved: Resolved) -> Direct | Hyperneat:
    """What the run's genomes are."""
    return encoding_of(resolved.config, resolved.task, resolved.substrate)


def problem_of(resolved: Resolved) -> Problem:
    """What the outer loop is made for."""
    config, task = resolved.config, resolved.task
    offset = config.rollout.fitness_offset * config.rollout.max_steps  # fitness = return + offset for every step
    expected = (task.returns[0] + min(0.0, offset), task.returns[1] + max(0.0, offset))
    start = adopted(resolved.start.genome, config.evolution, config.run.seed) if resolved.start else None
    encoding = encoding_in(resolved)
    config = config if isinstance(encoding, Direct) else cppn_config(config)
    return Problem(
        encoding.inputs, encoding.outputs, config.run.seed, config, expected, task.unbounded_below, start
    )  # fmt: skip
