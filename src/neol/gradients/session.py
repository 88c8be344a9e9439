"""A run in which gradients train a network's weights: from a champion, or after an outer loop has evolved one.

A generation is an interval of env steps here, as in a baseline; fitness is an episode's return, while the policy
explores. Plasticity is off meanwhile. Candidates for champion are the final network and those at the ends of the best
intervals, each with the rule that it was evolved with and without it; and what it all began from, as it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from neol.arrays import Array, Declared, checked
from neol.baselines.sbx import PACKAGES
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.files import write_atomic
from neol.gradients.actor import EvolvedNetwork
from neol.gradients.jax_network import Parameters, parameters_of, wiring_of, with_parameters
from neol.gradients.learner import NetworkLearner
from neol.gradients.settings import FinetuneConfig
from neol.neat.genome import Genomes, concatenate, take
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.rollout.life import Life, life_of
from neol.rollout.open_engine import open_engine
from neol.system import uninterrupted
from neol.training import champion, run_folder
from neol.training.configure import Resolved
from neol.training.history import History, HistoryRow, fraction_done
from neol.training.loop import Training
from neol.training.observers import Generation, Observer
from neol.training.progress import short
from neol.training.session import count_events, named, part
from neol.training.start import Start, read_start
from neol.training.summary import NeolSummary


class Finetuning:
    """A run in progress: everything that a checkpoint holds, and the step from one interval to the next."""

    saves_always = True
    results = (run_folder.CHAMPION,)

    def __init__(
        self,
        config: FinetuneConfig,
        task: Task,
        start: Start,
        folder: Path,
        observer: Observer | None = None,
        history: History | None = None,
        begun: int = 0,
    ) -> None:
        self.config, self.task, self.start, self.folder = config, task, start, folder
        self.observer, self.history = observer or Observer(), history or History()
        self.begun = begun  # env steps that were spent before
        own, genome = config.evolution.plasticity, start.genome
        phenotype = self.compile(genome)
        wiring = wiring_of(phenotype, own.preactivation_limit)
        network = EvolvedNetwork(phenotype, wiring, parameters_of(phenotype), own.output_transform == "tanh")
        engine, steps = config.evolution.rollout.engine, max(1, self._limit - begun)
        self.learner = NetworkLearner(config.learner(steps), task, network, start.normal, engine)
        self.candidates: list[tuple[float, int, Parameters]] = []  # mean return and number of the interval; best first
        self.is_whole = True  # at the end of an interval

    @property
    def _limit(self) -> int:
        return self.config.evolution.run.max_env_steps

    def compile(self, genomes: Genomes) -> Phenotypes:
        return compile_phenotypes(genomes, self.task.n_inputs, self.task.n_outputs)

    def describe(self) -> str:
        n = self.learner.network.wiring
        what = f"{n.nodes} nodes and {len(n.source)} connections{', recurrent' * n.remembers}"
        return f"{self.config.algorithm} on {self.task.name}, the weights of a network of {what}."

    def fraction_done(self) -> float:
        return fraction_done(0, self.history.env_steps, {"max_env_steps": self._limit})

    def why_stop(self) -> str | None:
        return "env-step limit reached" if max(self.begun, self.history.env_steps) >= self._limit else None

    def advance(self, since: tuple[float, float] | None = None) -> Generation:
        """Learn for an interval, and record it. `since`: wall and CPU clock when what belongs to it began."""
        wall, cpu = since or (time.monotonic(), time.process_time())
        left = self._limit - max(self.begun, self.history.env_steps)
        steps = self.config.interval if 2 * left >= 3 * self.config.interval else left  # the last one may be longer
        self.is_whole = False
        self.learner.begin(len(self.history.rows))
        before = self.history.env_steps
        episodes = self.learner.learn(steps, self._tick)
        with uninterrupted():
            row = self._record(episodes)
            spent, took = time.monotonic() - wall, row.env_steps - before
            self.history.add(row, self.learner.env.seconds, spent, time.process_time() - cpu, took)
            rate = took / spent
            self.history.timing[-1] = self.history.timing[-1]._replace(steps_per_second=rate)  # learning included
            self.is_whole = True
        return Generation(row.columns(), rate, self.fraction_done(), False)

    def _tick(self, at: int) -> None:
        done = self.begun + at
        self.observer.tick(f"{short(done)} steps", min(1.0, done / self._limit))

    def _record(self, episodes: Sequence[tuple[float, int]]) -> HistoryRow:
        number, total = len(self.history.rows), self.begun + self.learner.env_steps
        returns, lengths = (np.array([e[i] for e in episodes], float) for i in (0, 1))
        if len(returns):
            best, mean, median, steps = returns.max(), returns.mean(), np.median(returns), lengths.mean()
            ranked = [*self.candidates, (float(mean), number, self.learner.parameters())]
            most = self.config.evolution.run.champion_candidates
            self.candidates = sorted(ranked, key=lambda c: -c[0])[: max(0, most - 1)]
        else:
            best = mean = median = steps = np.nan
        best, mean, median, steps = float(best), float(mean), float(median), float(steps)
        return HistoryRow(number, total, best, mean, median, best, mean, steps, self._columns(len(episodes)))

    def _columns(self, episodes: int) -> dict[str, float]:
        """The further columns: its own, or, after an outer loop, that loop's; what does not apply is 0 or nan."""
        nodes, edges = len(self.learner.network.start.bias), len(self.learner.network.start.weight)
        moved = np.abs(self.learner.parameters().weight - self.learner.network.start.weight)
        own = {
            "episodes": episodes,
            "noise": self.learner.noise(),
            "weight_shift": float(moved.mean()) if edges else 0.0,
            "best_nodes": nodes,
            "best_connections": edges,
        }
        more = own | {"mean_nodes": float(nodes), "mean_connections": float(edges), "mean_weight_change": 0.0}
        first = self.history.rows[0].more if self.history.rows else own
        return {k: more.get(k, 0 if isinstance(v, int) else np.nan) for k, v in first.items()}

    # -- checkpoints

    def arrays(self) -> dict[str, np.ndarray]:
        kept = [c[2] for c in self.candidates]
        n = self.learner.network.start
        return {
            **named("learner", self.learner.state()),
            "start": self.start.digest,
            "begun": np.array(self.begun),
            "scores": np.array([c[:2] for c in self.candidates]).reshape(-1, 2),
            "weight": np.array([p.weight for p in kept]).reshape(-1, len(n.weight)),
            "bias": np.array([p.bias for p in kept]).reshape(-1, len(n.bias)),
        }

    def checked(self, arrays: Mapping[str, np.ndarray], what: str) -> Mapping[str, np.ndarray]:
        """As a learner that was just made has them; a replay buffer may be filled."""
        n = self.learner.network.start
        declared: Declared = {
            "start": Array("u1", (32,)),
            "begun": Array("i8", (), low=self.begun, high=self.begun),
            "scores": Array("f8", ("candidates", 2)),
            "weight": Array("f8", ("candidates", len(n.weight))),
            "bias": Array("f8", ("candidates", len(n.bias))),
            **{f"learner.{k}": spec for k, spec in self.learner.declared(part(arrays, "learner")).items()},
        }
        return checked(arrays, declared, what)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if not np.array_equal(arrays["start"], self.start.digest):
            raise NeolError(f"'{self.folder / run_folder.START}' is not what the run began from.")
        self.learner.restore(part(arrays, "learner"))
        response = self.learner.network.start.response
        rows = zip(arrays["scores"].tolist(), arrays["weight"], arrays["bias"], strict=True)
        self.candidates = [(s, int(n), Parameters(w, b, response)) for (s, n), w, b in rows]

    # -- champions

    @property
    def life(self) -> Life:
        """How champions live: with the rule that they were evolved with."""
        return life_of(self.task, self.config.evolution.plasticity, self.start.normal)

    def genomes(self) -> Genomes:
        """The final network, then those of the best intervals."""
        final = (np.inf, len(self.history.rows) - 1, self.learner.parameters())
        kept = [final, *(c for c in self.candidates if c[1] != final[1])]
        phenotype = self.learner.network.phenotype
        return concatenate([with_parameters(self.start.genome, phenotype, c[2]) for c in kept])

    def _observations(self) -> float:
        return float(self.start.seen.n[0]) if self.start.seen is not None else 0.0

    def write_best(self) -> None:
        """The network of the best interval so far as champion.json: not yet chosen on fresh episodes."""
        genomes, evolution = self.genomes(), self.config.evolution
        best = take(genomes, [1 if len(genomes.n_nodes) > 1 else 0])
        said = "the network of the best interval so far, not yet chosen on fresh episodes"
        how = (evolution, self.start.normal, self._observations())
        text = champion.document(self.compile(best), best, self.task, *how, status=said)
        write_atomic(self.folder / run_folder.CHAMPION, text)

    def finish(self, status: str) -> NeolSummary:
        """Choose the champion, on fresh episodes; what it all began from is one of the candidates, in all rounds."""
        wall, cpu = time.monotonic(), time.process_time()
        config, genomes = self.config.evolution, self.genomes()
        count = len(genomes.n_nodes)
        static: tuple[int, ...] = ()
        if config.plasticity.rule != "none":
            genomes, static = concatenate([genomes, genomes]), tuple(range(count, 2 * count))
        among = champion.Candidates(genomes, self._observations(), start=self.start, static=static, start_stays=True)
        engine = open_engine(self.task, config.rollout, None, config.run.seed)
        try:
            chosen = champion.choose_champion(engine, self.task, config, among, self.compile, self.life)
            threads = engine.threads
        finally:
            engine.close()
        write_atomic(self.folder / run_folder.CHAMPION, chosen.json)
        timing, steps = self.history.timing, max(self.begun, self.history.env_steps)
        return NeolSummary(
            status=status,
            task=self.task.name,
            generations=len(self.history.rows),
            env_steps=steps,
            wall_seconds=timing[-1].wall_seconds + time.monotonic() - wall,
            steps_per_second=steps / sum(t.rollout_seconds + t.outer_seconds for t in timing),
            cpu_seconds=timing[-1].cpu_seconds + time.process_time() - cpu,
            best_fitness=self.history.best_fitness,
            **chosen.facts,
            outer=config.run.outer,
            finetuned_by=self.config.algorithm,
            evolved_env_steps=self.begun,
            engine=config.rollout.engine,
            executor=config.rollout.executor,
            threads=threads,
            events=count_events(self.folder),
            versions=run_folder.versions(*PACKAGES),
        )

    def close(self) -> None:
        self.learner.close()


class Hybrid:
    """A run in progress whose topology is evolved first; then gradients have what is left of the budget."""

    def __init__(
        self, config: FinetuneConfig, resolved: Resolved, folder: Path, observer: Observer | None = None
    ) -> None:
        self.config, self.folder, self.observer, self.task = config, folder, observer, resolved.task
        part_of = resolved.config.replace(max_env_steps=config.evolved_steps)
        self.evolution = Training(resolved._replace(config=part_of), folder, observer)
        self.history = self.evolution.history  # of both parts
        self.finetuning: Finetuning | None = None

    @property
    def saves_always(self) -> bool:
        return self.finetuning is not None

    @property
    def results(self) -> tuple[str, ...]:
        return (self.finetuning or self.evolution).results

    @property
    def is_whole(self) -> bool:
        return self.finetuning is None or self.finetuning.is_whole

    def describe(self) -> str:
        if self.finetuning is not None:
            return self.finetuning.describe()
        steps = short(self.config.evolved_steps)
        return f"{self.evolution.describe().removesuffix('.')}; {self.config.algorithm} after {steps} steps."

    def fraction_done(self) -> float:
        return fraction_done(0, self.history.env_steps, {"max_env_steps": self.config.evolution.run.max_env_steps})

    def why_stop(self) -> str | None:
        if self.finetuning is not None:
            return self.finetuning.why_stop()
        reached = self.history.env_steps >= self.config.evolution.run.max_env_steps
        return "env-step limit reached" if reached else None

    def advance(self) -> Generation:
        since = time.monotonic(), time.process_time()
        if self.finetuning is None and self.evolution.why_stop() is None:
            return self.evolution.advance()._replace(fraction_done=self.fraction_done())
        if self.finetuning is not None:
            return self.finetuning.advance()
        self.finetuning = self._hand_over()
        if self.finetuning.why_stop() is None:
            return self.finetuning.advance(since)
        return Generation(self.history.rows[-1].columns(), 0.0, 1.0, True)

    def _hand_over(self) -> Finetuning:
        """Whom gradients go on with: chosen on fresh episodes, whose steps are of the budget, too."""
        e, config = self.evolution, self.evolution.config
        among, trials = e.candidates()._replace(start=None), max(1, config.run.champion_trials // 2)
        best, normal, count, steps = champion.choose_quickly(e.engine, config, among, e.compile, e.life, trials)
        chosen = take(among.genomes, [best])
        text = champion.document(e.compile(chosen), chosen, self.task, config, normal, count)
        write_atomic(self.folder / run_folder.START, text)
        return self._begun(self.history.env_steps + steps)

    def _begun(self, steps: int) -> Finetuning:
        start = read_start(self.folder / run_folder.START)
        return Finetuning(self.config, self.task, start, self.folder, self.observer, self.history, steps)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.evolution.arrays() if self.finetuning is None else named("finetune", self.finetuning.arrays())

    def checked(self, arrays: Mapping[str, np.ndarray], what: str) -> Mapping[str, np.ndarray]:
        found = part(arrays, "finetune")
        if not found:
            return self.evolution.checked(arrays, what)
        begun = checked({k: found[k] for k in ("begun",) if k in found}, {"begun": Array("i8", (), low=0)}, what)
        if not (self.folder / run_folder.START).is_file():
            raise NeolError(f"'{self.folder / run_folder.START}' is missing; the run needs it to go on.")
        self.finetuning = self._begun(int(begun["begun"]))
        return named("finetune", self.finetuning.checked(found, what))

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if self.finetuning is None:
            self.evolution.restore(arrays)
        else:
            self.finetuning.restore(part(arrays, "finetune"))

    def write_best(self) -> None:
        (self.finetuning or self.evolution).write_best()

    def finish(self, status: str) -> NeolSummary:
        return (self.finetuning or self.evolution).finish(status)

    def close(self) -> None:
        self.evolution.close()
        if self.finetuning is not None:
            self.finetuning.close()
