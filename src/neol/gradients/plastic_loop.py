"""Differentiable plasticity as an outer loop: one topology, whose genes are learned by gradient through whole lives.

    ask     the network of now, which the kernels play as they play any other
    tell    `gradient_updates` steps of Adam, each on `gradient_lives` lives that JAX computes

So everything else (history, checkpoints, the champion chosen on fresh lives, champion.json, studies) is as with any
outer loop. Legend: D numbers learned.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from neol.arrays import Array, Declared
from neol.config.schema import Config
from neol.config.sections import GradientConfig
from neol.envs.registry import find
from neol.envs.tasks import CHANGING_TASKS
from neol.errors import NeolError
from neol.gradients.lessons import Lesson, check_task, lesson_of
from neol.gradients.plastic_life import PlasticLife
from neol.gradients.plastic_topology import check_genome, plastic_topology
from neol.neat.genome import Genomes, concatenate, take
from neol.network.phenotype import compile_phenotypes
from neol.network.plasticity import plasticity
from neol.outer.base import Outcome, Problem
from neol.outer.hall import Hall
from neol.outer.search_space import SearchSpace, search_space, to_genomes, to_vectors

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # of Adam (Kingma and Ba 2015)
_LARGEST = 1e30  # of what a checkpoint may hold


class Learned(NamedTuple):
    """The numbers, and Adam's moments of their gradients."""

    vector: Any  # f4 (D,)
    mean: Any  # f4 (D,)
    square: Any  # f4 (D,)
    count: Any  # i4 () updates so far


class Learning(NamedTuple):
    """What an update came to."""

    loss: Any
    norm: Any  # of the gradient, before it is shortened
    returned: Any
    steps: Any


class GradientLoop:
    """OuterInit, OuterSelect (`ask`) and OuterUpdate (`tell`), where the topology is given and all else is learned."""

    packages = ("jax", "jaxlib")  # that results depend on

    def __init__(self, problem: Problem) -> None:
        require_packages()
        self.config, self.seed, self.generation = problem.config, problem.seed, 0
        self.inputs, self.outputs = problem.inputs, problem.outputs
        self.task = find(self.config.run.task, self.config.rollout.env_kwargs)
        check_settings(self.config)
        check_task(self.task, [t.name for t in CHANGING_TASKS.values() if t.native or t.differentiable])
        topology = plastic_topology(problem)
        check_genome(topology)
        self.space = search_space(topology, self.config.evolution, problem.inputs, problem.outputs)
        vector = to_vectors(self.space, topology)[0].astype(np.float32)
        zeros = np.zeros(self.space.size, np.float32)
        self.learned = Learned(vector, zeros, zeros, np.array(0, np.int32))
        self.own_env_steps = 0  # of the updates since the last generation
        self.last = Learning(0.0, 0.0, 0.0, 0.0)  # the mean over them
        self.hall = Hall()

    @cached_property
    def _lesson(self) -> Lesson:
        return lesson_of(plastic_life(self.config, self.space, self.inputs, self.outputs), self.task, self.config)

    @cached_property
    def _update(self) -> Callable[[Learned, Any], tuple[Learned, Learning]]:
        use_one_thread()
        return make_update(self._lesson, self.config.gradient, self.space)

    def ask(self) -> Genomes:
        return to_genomes(self.space, np.asarray(self.learned.vector, float)[None])

    def tell(self, outcome: Outcome) -> None:
        self.hall.enter(self.generation, float(outcome.fitness[0]), self.ask())
        done: list[Learning] = []
        learned = self.learned
        for update in range(self.config.gradient.gradient_updates):
            learned, step = self._update(learned, self._lesson.draw(self.seed, self.generation, update))
            done.append(step)
        self.learned = Learned(*(np.asarray(a) for a in learned))
        if not np.isfinite(self.learned.vector).all():
            raise NeolError(
                f"the gradient of generation {self.generation} is not finite; lower gradient_rate or gradient_spread."
            )
        rows = np.array([[float(x) for x in step] for step in done])
        self.last, self.own_env_steps = Learning(*rows.mean(axis=0).tolist()), int(rows[:, 3].sum())
        self.generation += 1

    def metrics(self) -> dict[str, float]:
        return {"searched": self.space.size, "loss": float(self.last.loss), "gradient_norm": float(self.last.norm),
                "exploring_return": float(self.last.returned)}  # fmt: skip

    def candidates(self, outcome: Outcome, count: int) -> Genomes:
        """The network of now, and the best ones of earlier."""
        return take(concatenate([self.ask(), *(r.genome for r in self.hall.ranked())]), slice(count))

    def state(self) -> dict[str, np.ndarray]:
        arrays = {k: np.asarray(v) for k, v in self.learned._asdict().items()}
        told = np.array([self.generation, self.own_env_steps])
        return arrays | {"told": told, "last": np.array(self.last, float)} | self.hall.state()

    def declared(self) -> Declared:
        vector = Array("f4", (self.space.size,), low=-_LARGEST, high=_LARGEST)
        own: Declared = {
            "vector": vector, "mean": vector, "square": vector._replace(low=0.0),
            "count": Array("i4", low=0), "told": Array("i8", (2,), low=0, high=2**53),
            "last": Array("f8", (len(Learning._fields),)),
        }  # fmt: skip
        return {**own, **Hall.declared(self.inputs, self.outputs)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.generation, self.own_env_steps = (int(n) for n in arrays["told"])
        self.last = Learning(*arrays["last"].tolist())
        self.learned = Learned(*(arrays[k].copy() for k in Learned._fields))
        self.hall.restore(arrays)


def plastic_life(config: Config, space: SearchSpace, inputs: int, outputs: int) -> PlasticLife:
    """The life of a topology under these settings."""
    phenotype = compile_phenotypes(space.topology, inputs, outputs)
    return PlasticLife(space, phenotype, plasticity(config.plasticity))


def make_update(
    lesson: Lesson, config: GradientConfig, space: SearchSpace
) -> Callable[[Learned, Any], tuple[Learned, Learning]]:
    """One step of Adam on a batch, compiled; numbers stay within their genes' bounds."""
    import jax
    import jax.numpy as jnp

    low, high = (np.asarray(bound, np.float32) for bound in (space.low, space.high))

    def update(at: Learned, batch: Any) -> tuple[Learned, Learning]:
        (loss, lived), gradient = jax.value_and_grad(lesson.loss, has_aux=True)(at.vector, batch)
        norm = jnp.sqrt((gradient**2).sum())
        gradient = gradient * jnp.minimum(1.0, config.gradient_norm / (norm + 1e-12))
        count = at.count + 1
        mean = BETA1 * at.mean + (1.0 - BETA1) * gradient
        square = BETA2 * at.square + (1.0 - BETA2) * gradient**2
        first, second = mean / (1.0 - BETA1**count), square / (1.0 - BETA2**count)
        vector = at.vector - config.gradient_rate * first / (jnp.sqrt(second) + EPSILON)
        return Learned(jnp.clip(vector, low, high), mean, square, count), Learning(loss, norm, *lived)

    return jax.jit(update)


def check_settings(config: Config) -> None:
    """A NeolError where a setting means nothing here."""
    p, r = config.plasticity, config.rollout
    needed = (
        ("inheritance", p.inheritance, "darwinian"), ("birth", p.birth, "inherited"),
        ("coefficients_of", p.coefficients_of, "connection"), ("trials", r.trials, 1),
        ("senses", r.senses, ()), ("change", config.world.change, ()),
        ("normalize_observations", r.normalize_observations, False),
    )  # fmt: skip
    if p.rule == "adaptive":
        raise NeolError(
            "rule = 'adaptive' is not allowed with outer = 'gradient': it jumps where a weight changes its sign; it "
            "must be none, hebb, oja, bcm or abcd."
        )
    for name, value, must in needed:
        if value != must and not (name == "inheritance" and p.rule == "none"):
            said = must if must != () else "none"
            raise NeolError(f"{name} = {value!r} is not allowed with outer = 'gradient'; it must be {said}.")


def require_packages() -> None:
    """Say what to install, where the extra is not."""
    if importlib.util.find_spec("jax") is None:
        raise NeolError(
            "outer = 'gradient' needs a package that is not installed; get it with: pip install 'neol[gradients]'."
        )


def use_one_thread() -> None:
    """Tell JAX to use one core, where it has not started yet, and never a GPU: the same bits on any machine's cores."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("NPROC", "1")
    if "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
