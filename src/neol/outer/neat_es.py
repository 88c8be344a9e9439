"""Structure by NEAT, weights by evolution strategies: a species is a topology with a search distribution of its own.

    leader       the species that does best: it samples the largest share of the population
    challengers  founded from the leader, when it makes no more progress, by a structural mutation that keeps its
                 function (growth.py); each inherits mean, step size and covariance, widened by the new numbers

    rival        where the leader has done nearly all that it will (in the last third of its generations it gained less
                 than SLOW of what it gained in the third before), what it needs may be no small step from where it
                 stands: a search that begins anew, on the first topology with 8 hidden nodes more (the third and fourth
                 rival: 16, and so on), with a whole population of its own, for as long as the leader had

    starts       where `es_starts` > 1 so many species begin with the first topology, each with a whole population;
                 after every `es_round` generations the better half goes on, until one leads (successive halving,
                 Jamieson and Talwalkar 2016). Which gait a search falls into is luck; so try several.

All species meet the same episodes, so they are compared pair by pair: d = median fitness of the challenger's samples -
the leader's, as a running mean with its standard error. A challenger is protected for PROTECTED generations, and gets
more samples the better it does. Then it takes the lead when d is above its error, and dies when it is below by twice as
much. One that is still no better after LONGEST generations dies, unless it is smaller and no worse: the smallest
network among equals wins. Relatives: EANT2 (Siebel and Sommer 2007: CMA-ES within structures), CMA-TWEANN (Moriguchi
and Honiden 2012: one structure that grows).
Legend: S species, L samples of one of them, P samples of all, n numbers searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neol import seeding
from neol.arrays import Array, Declared, Group
from neol.errors import NeolError
from neol.neat.checked import InnovationTable, Population, check_numbered
from neol.neat.evolution import finite_fitness
from neol.neat.genome import Genomes, concatenate, from_arrays, take, to_arrays
from neol.neat.innovation import Innovations
from neol.neat.species import apportion
from neol.outer import growth
from neol.outer.base import Outcome, Problem, Remembered, best
from neol.outer.hall import Hall
from neol.outer.search_space import SEARCHED, SearchSpace, same_numbers, search_space, to_genomes, to_vectors, unit_size
from neol.outer.strategy import CMA, CMA_LIMIT, HUGE, Knobs, Strategy, knobs
from neol.outer.topology import starting_topology, wider

PROTECTED, LONGEST = 8, 30  # generations of a challenger: in which it cannot die, after which it is decided
PATIENCE = 10  # generations without a new best score of the leader, after which it is challenged
CHALLENGERS = 2  # at most
SETTLED, RIVAL_LIFE = 60, 100  # generations: of a leader before there is a rival; that a rival has, at least
SLOW = 0.25  # gain of a leader's last third of generations, in that of the third before, below which it has a rival
UNITS, MOST_UNITS = 8, 32  # hidden nodes of the first rival, and of any
LARGE = 1e49  # the largest difference between two species that counts as what it is: its square can be saved
PROGRESS = 0.005  # part of its best score by which a leader's score must rise to count as progress
SMOOTH = 0.2  # rate of the running means
MOST_NUMBERS = 10_000  # of cma: 800 MB
LEAST = 6  # samples of a species
MUTATIONS = (growth.CONNECT, growth.SPLIT, growth.UNIT, growth.PRUNE)
CHANCES = (0.25, 0.15, 0.35, 0.25)


@dataclass
class Kind:
    """A species: a topology, its distribution, and how it compares with the leader; of a start how it fares."""

    id: int
    space: SearchSpace
    strategy: Strategy
    told: int = 0  # comparisons with the leader, or generations of a race
    mean: float = 0.0  # running mean of d; of a start: of its median fitness
    variance: float = 0.0  # of d
    born: int = -1  # of a rival: the generation that it began in

    @property
    def rival(self) -> bool:
        return self.born >= 0

    def follow(self, value: float) -> float:
        """Take another value into the running mean; the rate that it had."""
        self.told += 1
        rate = max(SMOOTH, 1.0 / self.told)
        self.mean = float(np.clip(self.mean + rate * (value - self.mean), -HUGE, HUGE))
        return rate

    def compare(self, d: float) -> None:
        """Take in another d."""
        d = float(np.clip(d, -LARGE, LARGE))
        delta = d - self.mean
        rate = self.follow(d)
        self.variance = (1.0 - rate) * (self.variance + rate * delta * delta)

    @property
    def error(self) -> float:
        """The standard error of that mean, which holds about (2 - rate) / rate independent values."""
        return float(np.sqrt(self.variance / max(1.0, min(self.told, (2.0 - SMOOTH) / SMOOTH))))


def beginning(how: Knobs, space: SearchSpace) -> Strategy:
    """A search that begins at the topology's own weights, within its genes' bounds."""
    return Strategy(how, to_vectors(space, space.topology)[0], np.minimum(space.scale, space.widest / how.sigma))


def slows(levels: list[float]) -> bool:
    """Whether a leader with these median fitnesses has done nearly all that it will."""
    third = len(levels) // 3
    if third < SETTLED // 3:
        return False
    early, middle, late = (float(np.mean(levels[i * third : (i + 1) * third])) for i in range(3))
    return late - middle <= SLOW * max(0.0, middle - early)


class NeatEsLoop:
    """OuterInit, OuterSelect (`ask`) and OuterUpdate (`tell`) where topologies evolve and strategies search in them."""

    grows = True  # topologies are challenged by others

    def __init__(self, problem: Problem) -> None:
        self.problem, self.seed, self.generation = problem, problem.seed, 0
        self.first, self.innovations = starting_topology(problem)
        space = self._space(self.first)
        self.knobs = knobs(problem.config.es, space.size, problem.inputs)
        starts = self._starts()
        most = int(MOST_NUMBERS / starts**0.5)
        if self.knobs.kind == CMA and space.size > most:
            raise NeolError(
                f"es = 'cma' is not allowed for {space.size:,} numbers: its covariance has the square of that; "
                f"it must be sep-cma, ars, openai or pgpe above {most:,}{f' with es_starts = {starts}' * (starts > 1)}."
            )
        first = beginning(self.knobs, space)
        self.kinds = [Kind(i, space, first) for i in range(starts)]  # the leader first
        self.racing = starts > 1
        self.next_id, self.rivals = starts, 0  # rivals so far
        self.longest = 0  # of the last episodes, as Outcome has it
        self.score, self.best_score, self.best_at = np.nan, -np.inf, 0  # of the leader
        self.trail: list[float] = []  # the leader's median fitness, generation by generation
        self.hall = Hall()
        self._sample()

    def _space(self, topology: Genomes) -> SearchSpace:
        return search_space(topology, self.problem.config.evolution, self.problem.inputs, self.problem.outputs)

    def _starts(self) -> int:
        """How many searches begin; from a champion there is one place to begin."""
        return 1 if self.problem.begun else self.problem.config.es.es_starts

    def _shares(self) -> np.ndarray:
        """How many samples each species gets, i8 (S,), leader first."""
        if self.racing or len(self.kinds) == 1:
            return np.full(len(self.kinds), self.knobs.samples)
        others = [k for k in self.kinds[1:] if not k.rival]
        due = [2.0] + [1.0 + float(np.clip(k.mean / max(k.error, 1e-12), -0.5, 1.0)) * (k.told > 0) for k in others]
        shared = 2 * apportion(np.array(due), max(self.knobs.samples // 2, LEAST // 2 * len(due)), LEAST // 2)
        apart = len(self.kinds) - len(due)  # rivals come last
        return np.append(shared if others else [self.knobs.samples], np.full(apart, self.knobs.samples))

    def _sample(self) -> None:
        """Each species' share of the population, leader first."""
        self.shares = self._shares()
        parts = []
        for kind, count in zip(self.kinds, self.shares, strict=True):
            vectors = kind.strategy.ask(int(count), self.seed, self.generation, kind.id)
            parts.append(to_genomes(kind.space, vectors))
        self.genomes = concatenate(parts)

    def ask(self) -> Genomes:
        return self.genomes

    def _by_kind(self, outcome: Outcome) -> list[tuple[Kind, np.ndarray, np.ndarray]]:
        """Species, its samples f8 (L, n) as their lives left them, and their fitness f8 (L,)."""
        lived = self.genomes if outcome.adapted is None else self.genomes._replace(weight=outcome.adapted)
        fitness = finite_fitness(outcome.fitness)
        ends = np.cumsum(self.shares)
        return [
            (kind, to_vectors(kind.space, take(lived, slice(end - count, end))), fitness[end - count : end])
            for kind, count, end in zip(self.kinds, self.shares, ends, strict=True)
        ]

    def tell(self, outcome: Outcome) -> None:
        if outcome.longest != self.longest:
            self._measure_anew(outcome.longest)
        parts = self._by_kind(outcome)
        levels = [float(np.median(fitness)) for _, _, fitness in parts]
        for i, (kind, found, fitness) in enumerate(parts):
            if i == 0 or (self.racing and self.generation > 0):  # starts begin with one mean
                mean = to_genomes(kind.space, kind.strategy.mean[None])
                self.hall.enter(self.generation, levels[i], mean, outcome.seen)
            kind.strategy = kind.strategy.told(found, fitness, kind.space.widest)
            if self.racing:
                kind.follow(levels[i])
            elif i > 0:
                kind.compare(levels[i] - levels[0])
        if self.racing:
            self._race()
        else:
            self._lead(levels[0])
        self._sample()

    def _measure_anew(self, longest: int) -> None:
        """Episodes are longer or shorter than before: what was achieved in those says nothing about these."""
        self.longest, self.hall, self.trail = longest, Hall(), []
        self.score, self.best_score, self.best_at = np.nan, -np.inf, self.generation

    def _race(self) -> None:
        """A generation of starts side by side; at the end of a round the better half of them goes on."""
        self.generation += 1
        self.kinds.sort(key=lambda k: -k.mean)
        if self.generation % self.problem.config.es.es_round:
            return
        self.kinds = self.kinds[: len(self.kinds) // 2]
        if len(self.kinds) == 1:
            leader = self.kinds[0]
            self.racing, self.score, self.best_score, self.best_at = False, leader.mean, leader.mean, self.generation
            self.kinds = [Kind(leader.id, leader.space, leader.strategy)]

    def _lead(self, level: float) -> None:
        """A generation in which one species leads: is it challenged, is it beaten?"""
        if self.grows:
            self.trail.append(float(np.clip(level, -HUGE, HUGE)))
        self.score = level if np.isnan(self.score) else self.score + SMOOTH * (level - self.score)
        if not self.score <= self.best_score + PROGRESS * abs(self.best_score):
            self.best_score, self.best_at = self.score, self.generation
        self._compete()
        self.generation += 1
        idle, rivals = self.generation - self.best_at, sum(k.rival for k in self.kinds)
        if self.grows and idle > PATIENCE and len(self.kinds) - rivals <= CHALLENGERS:
            self._found()
        if self.grows and not rivals and not self.problem.begun and slows(self.trail):
            self._found_rival()

    def _compete(self) -> None:
        """The best challenger may take the lead; hopeless ones die."""
        leader, *others = self.kinds
        grown_up = [k for k in others if k.told >= PROTECTED]
        challengers = [k for k in others if not k.rival]
        old = [k for k in challengers if k.told >= LONGEST]
        smaller = [k for k in old if k.space.size < leader.space.size and k.mean >= -k.error]
        winners = [k for k in grown_up if k.mean > k.error] or smaller
        if winners:
            leader = max(winners, key=lambda k: k.mean)
            if leader.rival:
                leader.born, self.trail = -1, []
            self.kinds = [leader] + [Kind(k.id, k.space, k.strategy, born=k.born) for k in others if k is not leader]
            self.best_at = self.generation
            self.score = self.best_score = self.score + leader.mean
            return
        dead = old + [k for k in challengers if k.told >= PROTECTED and k.mean < -2.0 * k.error]
        dead += [k for k in others if k.rival and self.generation + 1 - k.born >= max(RIVAL_LIFE, k.born)]
        self.kinds = [k for k in self.kinds if k not in dead]

    def _found(self) -> None:
        """A challenger: the leader's topology with a structural mutation; it begins where the leader stands."""
        leader, p = self.kinds[0], self.problem
        rng = seeding.stream(self.seed, seeding.SEARCH, self.generation, self.next_id, 2**32)
        kind = MUTATIONS[int(np.searchsorted(np.cumsum(CHANCES), seeding.uniform(rng)))]
        parent = to_genomes(leader.space, leader.strategy.mean[None])
        child: Genomes | None = parent
        many = max(1, leader.space.size // 25) if kind in (growth.CONNECT, growth.PRUNE) else 1
        for _ in range(many):
            if child is None:
                break
            if kind == growth.PRUNE:
                child = growth.pruned(child, self._importance(child, leader), p.outputs)
                continue
            found = growth.grown(child, kind, self.innovations, p.config.evolution, p.inputs, p.outputs, rng)
            child, self.innovations = found if found is not None else (None, self.innovations)
        if child is None:
            return
        space = self._space(child)
        strategy = leader.strategy.resized(same_numbers(space, leader.space), to_vectors(space, child)[0], space.scale)
        self.kinds.insert(len(self.kinds) - self.kinds[-1].rival, Kind(self.next_id, space, strategy))
        self.next_id += 1

    def _found_rival(self) -> None:
        """A search that begins anew, on a larger topology than the first, if there is room for one."""
        p, most = self.problem, CMA_LIMIT if self.knobs.kind == CMA else MOST_NUMBERS
        room = (most - self._space(self.first).size) // unit_size(p.config.evolution, p.inputs, p.outputs)
        units = min(UNITS * 2 ** min(self.rivals // 2, 8), MOST_UNITS, room)
        if units < 1:
            return
        self.rivals += 1
        rng = seeding.stream(self.seed, seeding.SEARCH, self.generation, self.next_id, 2**32)
        topology, self.innovations = wider(self.first, units, self.innovations, p, rng)
        space = self._space(topology)
        strategy = beginning(self.knobs._replace(sigma=knobs(p.config.es, space.size, p.inputs).sigma), space)
        self.kinds.append(Kind(self.next_id, space, strategy, born=self.generation))
        self.next_id += 1

    def _importance(self, genome: Genomes, kind: Kind) -> np.ndarray:
        """|weight| of every connection in standard deviations of the search, f8 (n_conns,)."""
        number = [g.name for g in SEARCHED].index("weight")
        mine = kind.space.gene == number
        spread = dict(zip(kind.space.key[mine].tolist(), kind.strategy.spread()[mine], strict=True))
        n = int(genome.n_conns[0])
        usual = float(np.median(list(spread.values()))) if spread else 1.0
        numbers = genome.innovation[0, :n].tolist()
        return np.abs(genome.weight[0, :n]) / np.array([spread.get(i, usual) for i in numbers])

    def metrics(self) -> dict[str, float]:
        leader = self.kinds[0]
        return {**leader.strategy.metrics(), "searched": leader.space.size, "species": len(self.kinds)}

    def candidates(self, outcome: Outcome, count: int) -> Genomes:
        """The leader's next mean and its averages, and the fittest sample."""
        kind, found, fitness = self._by_kind(outcome)[0]
        means = to_genomes(kind.space, kind.strategy.told(found, fitness, kind.space.widest).best_guesses())
        return take(concatenate([means, best(self.genomes, outcome.fitness, 1)]), slice(count))

    def remembered(self) -> list[Remembered]:
        """The leaders' means of earlier."""
        return self.hall.ranked()

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"generation": np.array(self.generation), "next_id": np.array(self.next_id)}
        arrays["racing"], arrays["longest"] = np.array(self.racing), np.array(self.longest)
        arrays["score"], arrays["best_at"] = np.array([self.score, self.best_score]), np.array(self.best_at)
        arrays["trail"] = np.array(self.trail)
        arrays["rivals"], arrays["born"] = np.array(self.rivals), np.array([k.born for k in self.kinds])
        arrays["kinds"] = np.array([[k.id, k.told, k.mean, k.variance] for k in self.kinds])  # f8 (S, 4)
        arrays |= {f"innovations.{k}": v.copy() for k, v in self.innovations._asdict().items()} | self.hall.state()
        arrays |= to_arrays(concatenate([k.space.topology for k in self.kinds]), "topologies")
        for i, kind in enumerate(self.kinds):
            arrays |= {f"strategy{i}.{name}": v for name, v in kind.strategy.state().items()}
        return arrays

    def declared(self) -> Declared:
        p = self.problem
        out: dict[str, Array | Group] = {
            "generation": Array("i8", low=0, high=2**53),
            "next_id": Array("i8", low=1, high=2**31 - 1),
            "racing": Array("b1", optional=True),  # not in files from before there were races
            "longest": Array("i8", low=0, high=2**53, optional=True),
            "rivals": Array("i8", low=0, high=2**53, optional=True),  # nor before there were rivals
            "trail": Array("f8", ("G",), low=-HUGE, high=HUGE, optional=True),
            "born": Array("i8", ("S",), low=-1, high=2**53, optional=True),
            "score": Array("f8", (2,)),  # nan before the first
            "best_at": Array("i8", low=0, high=2**53),
            "kinds": Array("f8", ("S", 4), low=-HUGE, high=HUGE, least=1),
            "innovations": InnovationTable(p.outputs),
            "topologies": Population(p.inputs, p.outputs, "S", least=1),
            **Hall.declared(p.inputs, p.outputs),
        }
        for i in range(max(2 + CHALLENGERS, self._starts())):  # there need not be as many
            own = self.kinds[0].strategy.declared(f"strategy{i}", f"n{i}")
            out |= {name: spec._replace(optional=True) for name, spec in own.items() if isinstance(spec, Array)}
        return out

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        why = check_numbered(arrays, "topologies", "innovations")
        count, numbers = len(arrays["kinds"]), arrays["kinds"][:, :2]
        self.racing, self.longest = bool(arrays.get("racing", False)), int(arrays.get("longest", 0))
        born = arrays.get("born", np.full(count, -1)).tolist()
        rival, rivals = born[-1] >= 0, int(arrays.get("rivals", 0))
        most = self._starts() if self.racing else 1 + (CHALLENGERS + rival) * self.grows
        if not 1 + self.racing <= count <= most:
            why = f"it has {count} species, and must have {1 + self.racing} to {most}"
        alone = count == 1 or self.racing or not self.grows or rivals < 1
        if any(b >= 0 for b in born[:-1]) or born[-1] > arrays["generation"] or (rival and alone):
            why = "a species is a rival that cannot be"
        if f"strategy{count}.mean" in arrays:
            why = f"it has {count} species, and distributions of others"
        if (
            (numbers != np.floor(numbers)).any()
            or (numbers > 2**53).any()
            or (numbers[:, 0] >= arrays["next_id"]).any()
        ):
            why = "a species has a number or comparisons that are not possible"
        if (arrays["kinds"][:, [0, 1, 3]] < 0.0).any():
            why = "a species has a number, comparisons or a variance below 0"
        if why:
            raise NeolError(f"the checkpoint is damaged: {why}.")
        self.generation, self.next_id = int(arrays["generation"]), int(arrays["next_id"])
        self.score, self.best_score = map(float, arrays["score"])
        self.best_at, self.rivals = int(arrays["best_at"]), rivals
        self.trail = arrays.get("trail", np.zeros(0)).tolist()
        self.innovations = Innovations(**{k[12:]: v.copy() for k, v in arrays.items() if k.startswith("innovations.")})
        self.hall.restore(arrays)
        topologies = from_arrays(arrays, "topologies")
        self.kinds = []
        for i, (name, told, mean, variance) in enumerate(arrays["kinds"]):
            space = self._space(take(topologies, [i]))
            strategy = Strategy(self.knobs, np.zeros(space.size), space.scale)
            own = f"strategy{i}."
            found = {k[len(own) :]: v for k, v in arrays.items() if k.startswith(own)}
            if set(found) != set(strategy.state()) or found["mean"].shape != (space.size,):
                raise NeolError(
                    f"the checkpoint is damaged: strategy{i} does not fit its topology of {space.size} numbers."
                )
            strategy.restore(found)
            self.kinds.append(Kind(int(name), space, strategy, int(told), float(mean), float(variance), born[i]))
        self._sample()
