"""The sections of a run's settings, one frozen dataclass each: defaults, limits, and the text of ``--help``.

The docstring under a field is its help. `schema.py` makes one configuration of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

# Names only; activations.py and plasticity.py hold the definitions, in this order (tests check it).
ACTIVATIONS = (
    "clamped", "identity", "tanh", "sigmoid", "relu", "sin", "gauss", "abs", "square", "cube",
    "softplus", "elu", "lelu", "selu", "inv", "log", "exp", "hat",
)  # fmt: skip
AGGREGATIONS = ("sum", "product", "mean", "max", "min", "maxabs", "median")
ACTIVATION_ID = {name: i for i, name in enumerate(ACTIVATIONS)}
AGGREGATION_ID = {name: i for i, name in enumerate(AGGREGATIONS)}
INITIAL_CONNECTIONS = (
    "full_direct", "full_nodirect", "unconnected", "fs_neat_nohidden", "fs_neat_hidden",
    "partial_direct", "partial_nodirect",
)  # fmt: skip
INIT_TYPES = ("gaussian", "uniform")
MOST_RULES = 8  # that the connections of a network can share


def _choice(*names: str) -> Any:
    return {"choices": names}


def _range(low: float, high: float = math.inf, *, open_low: bool = False) -> Any:
    return {"low": low, "high": high, "open_low": open_low}


def _basic(checks: Any = MappingProxyType({})) -> Any:
    """Marks a setting that `neol train --help` shows; `--help-all` shows all of them."""
    return {**checks, "basic": True}


_PROBABILITY = _range(0.0, 1.0)
_COUNT = _range(1, 2**31 - 1)
_COUNT_OR_NONE = _range(0, 2**31 - 1)
_SPREAD = _range(0.0, 1e6)
_VALUE = _range(-1e6, 1e6)


@dataclass(frozen=True)
class RunConfig:
    """What is run, for how long."""

    task: str = "lunarlander"
    """Task name (`neol tasks` lists them), Gymnasium id, `module:id` or `module:callable`."""
    seed: int = field(default=0, metadata=_basic(_range(0, 2**63 - 1)))
    """Seed of everything: the same seed gives the same bits."""
    generations: int = field(default=40, metadata=_basic(_COUNT))
    """Stop after this many generations (G)."""
    outer: str = field(
        default="neat",
        metadata=_basic({**_choice("neat", "es", "neat-es", "hedge", "gradient"), "or_prefix": "python:"}),
    )
    """Outer loop: neat, es (one topology's weights), neat-es (evolving ones'), hedge (selects), gradient (descends)."""
    encoding: str = field(default="direct", metadata=_choice("direct", "hyperneat"))
    """What a genome is: the network itself (direct), or a CPPN that paints one onto a substrate (hyperneat)."""
    max_env_steps: int = field(default=0, metadata=_basic(_range(0, 2**62)))
    """Stop at the first generation that reaches this many environment steps; 0 = no limit."""
    fitness_target: float = field(default=math.inf, metadata=_basic(_range(-1e300)))
    """Stop when a generation's best fitness reaches this; inf = never."""
    novelty: float = field(default=0.0, metadata=_PROBABILITY)
    """Part of novelty in what selection goes by: how unlike all others a genome's lives are; 0 = fitness alone."""
    novelty_neighbours: int = field(default=15, metadata=_COUNT)
    """Nearest behaviours that a genome's novelty is measured by (k)."""
    start: str = field(default="", metadata=_basic({"words": True}))
    """Begin from the champion of this run's folder or network file, on a task with as many inputs and outputs."""
    champion_candidates: int = field(default=10, metadata=_range(1, 10**6))
    """How many genomes are re-evaluated on fresh episodes to choose the champion."""
    champion_trials: int = field(default=20, metadata=_range(1, 10**6))
    """Fresh episodes that each champion candidate is re-evaluated on."""
    champion_episodes: int = field(default=100, metadata=_range(2, 10**6))
    """Held-out episodes that the chosen champion's return is reported over."""
    tensorboard: bool = False
    """Write TensorBoard event files into the run's folder."""


@dataclass(frozen=True)
class RolloutConfig:
    """How one genome is evaluated."""

    episodes: int = field(default=3, metadata=_basic(_range(1, 10**6)))
    """Episodes per genome (N), each a life of its own; fitness is the mean of their returns."""
    most_episodes: int = field(default=0, metadata=_range(0, 10**6))
    """Episodes per genome up to which N grows, where a generation could not tell its genomes apart; 0 = N stays."""
    trials: int = field(default=1, metadata=_basic(_range(1, 10_000)))
    """Trials of a life (K): episodes one after the other, with weights and traces carried on from one to the next."""
    trial_weights: str = field(default="mean", metadata={"words": True})
    """How much each trial counts in its life's return: mean, last, or K numbers, which are scaled to 1 in all."""
    max_steps: int = field(default=0, metadata=_basic(_COUNT_OR_NONE))
    """Longest episode (T_max); 0 = the task's own."""
    training_steps: int = field(default=0, metadata=_COUNT_OR_NONE)
    """Longest episode in training only: champions are chosen and measured on whole ones; 0 = as long as any."""
    whole_episodes_after: int = field(default=0, metadata=_range(0, 2**62))
    """Environment steps after which training_steps ends (with --from: at once; gradient's lessons: no); 0 = never."""
    common_random_numbers: bool = True
    """All genomes of a generation meet the same episode seeds (fresh ones every generation)."""
    fitness_offset: float = field(default=0.0, metadata=_VALUE)
    """Added to the fitness for every step survived (training only; < 0 makes standing still expensive)."""
    reward_floor: float = field(default=-math.inf, metadata=_range(-math.inf, 1e6))
    """Every single reward below this counts as this in the fitness (training only; -inf = as they are)."""
    normalize_observations: bool = field(default=False, metadata=_basic())
    """Scale observations by their running mean and spread, which are saved with the champion."""
    normalize_share: float = field(default=1.0, metadata=_range(0.0, 1.0))
    """Part of the run in which that mean and spread are learned; then they stay (es, neat-es: 0.2 on most tasks)."""
    senses: tuple[str, ...] = field(default=(), metadata=_choice("reward", "advantage", "action", "world"))
    """Further inputs: the last reward, it minus its mean (advantage), the last action, the world's changes (oracle)."""
    engine: str = field(default="auto", metadata=_basic(_choice("auto", "envpool", "gymnasium", "native")))
    """Simulator: auto takes our own (native) where the task has one, EnvPool where it has it, else Gymnasium."""
    env_kwargs: tuple[str, ...] = field(default=(), metadata=_basic({"words": True}))
    """Arguments of the environment, as key=value."""
    fresh_envs: str = field(default="auto", metadata=_choice("auto", "true", "false"))
    """Gymnasium: a new environment for every episode; auto: unless its resets are known to leave nothing behind."""
    episode_retries: int = field(default=2, metadata=_range(0, 100))
    """Times that an episode which fails is played again, before its genome gets the worst fitness."""
    step_timeout: float = field(default=60.0, metadata=_range(0.0, 1e6))
    """Seconds after which an environment's step counts as hung (in worker processes); 0 = wait for ever."""
    workers: int = field(default=0, metadata=_basic(_range(0, 100_000)))
    """Worker processes (or Ray actors); 0 = one per core, but threads if not on Gymnasium. Never changes results."""
    executor: str = field(default="local", metadata=_choice("local", "ray"))
    """Where episodes are played: this machine or a Ray cluster. Never changes results."""
    ray_address: str = field(default="", metadata={"words": True})
    """The Ray cluster, as ray.init takes it; empty = start one here."""
    threads: int = field(default=0, metadata=_range(0, 1024))
    """EnvPool's threads; 0 = one per core (one in each of several workers). Never changes results."""
    window: int = field(default=0, metadata=_COUNT_OR_NONE)
    """EnvPool: episodes in flight at once in each thread (W); 0 = chosen for the task. Never changes results."""


@dataclass(frozen=True)
class WorldConfig:
    """How the world of a life differs from its simulator."""

    change: tuple[str, ...] = field(default=(), metadata=_basic({"words": True}))
    """A change, such as "action invert of=1 p=0.5 from=100..300" (docs/method.md); none = the simulator's world."""
    test_change: tuple[str, ...] = field(default=(), metadata={"words": True})
    """A change of another world, which training never meets: the champion's return there is measured apart."""


@dataclass(frozen=True)
class PlasticityConfig:
    """The inner loop: how weights change within an episode."""

    rule: str = field(default="hebb", metadata=_basic(_choice("none", "hebb", "oja", "bcm", "abcd", "adaptive")))
    """Plasticity rule: none, hebb, oja, bcm; abcd (generalised Hebb), adaptive (Stanley's): their numbers evolve."""
    lr: float = field(default=0.25, metadata=_basic(_range(0.0, 1e6)))
    """Plasticity rate (eta)."""
    reward_scale: float = field(default=0.01, metadata=_basic(_range(-1e6, 1e6)))
    """Factor on the reward that gates an update (beta)."""
    reward_credit: str = field(default="same-step", metadata=_choice("same-step", "next-step"))
    """same-step: a reward gates the activity that earned it (paper); next-step: the one after (authors' code)."""
    trace_decay: float = field(default=0.0, metadata=_range(0.0, 1.0))
    """Eligibility-trace decay (lambda); 0 = no trace."""
    bcm_tau: float = field(default=0.02, metadata=_range(0.0, 1.0))
    """Rate at which BCM's threshold theta follows y^2 (tau)."""
    weight_limit: float = field(default=10.0, metadata=_range(0.0, open_low=True))
    """Plastic weights are projected onto [-limit, limit] after every update."""
    preactivation_limit: float = field(default=50.0, metadata=_range(0.0, open_low=True))
    """Pre-activations are clipped to [-limit, limit]; may be inf."""
    output_transform: str = field(default="tanh", metadata=_choice("tanh", "none"))
    """Squashing of the network's outputs before they become an action."""
    inheritance: str = field(default="lamarckian", metadata=_basic(_choice("lamarckian", "darwinian")))
    """lamarckian: adapted weights are written back to the genome; darwinian: thrown away."""
    evolve_rate: bool = False
    """Every connection has an evolved, signed factor on the plasticity rate."""
    coefficients_of: str = field(default="connection", metadata=_choice("connection", "node", "shared"))
    """Whose evolved numbers (rate, A to D, eta1, eta2) a connection learns by: its own, its target's, a shared rule."""
    shared_rules: int = field(default=4, metadata=_range(1, MOST_RULES))
    """With coefficients_of = shared: rules of a network (K), each connection points to one of them."""
    gate: str = field(default="reward", metadata=_choice("reward", "advantage", "none", "modulator"))
    """What gates an update: the reward, advantage (it minus its running mean), none, or evolved modulatory nodes."""
    reward_mean_rate: float = field(default=0.05, metadata=_range(0.0, 1.0))
    """Rate at which the running mean of rewards follows them (kappa)."""
    weight_decay: float = field(default=0.0, metadata=_range(0.0, 1.0))
    """Part of the way to decay_to that a plastic weight goes back at every update (delta)."""
    decay_to: str = field(default="birth", metadata=_choice("birth", "zero"))
    """Where weights decay to: what they were at birth, or zero."""
    evolve_decay: bool = False
    """weight_decay is a gene of each network, and what is set is where gradients begin."""
    birth: str = field(default="inherited", metadata=_choice("inherited", "drawn"))
    """Weights at birth: inherited, or drawn anew for every life, so that only what is left of the genome evolves."""
    birth_spread: float = field(default=0.1, metadata=_range(0.0, 1e6, open_low=True))
    """Weights that are drawn at birth lie uniformly in [-spread, spread]."""


@dataclass(frozen=True)
class NeatConfig:
    """The outer loop: NEAT, by neat-python's names where it has them."""

    pop_size: int = field(default=100, metadata=_basic(_range(2, 1_000_000)))
    """Population size (P)."""
    # -- species
    compatibility_threshold: float = field(default=3.0, metadata=_range(0.0, open_low=True))
    """Genomes nearer than this to a representative share its species (delta_t)."""
    target_species: int = field(default=0, metadata=_range(0, 500_000))
    """Number of species that the compatibility threshold follows, from its setting on; 0 = it stays as it is."""
    compatibility_disjoint_coefficient: float = field(default=1.0, metadata=_SPREAD)
    """Weight of excess and disjoint genes in the distance (c1)."""
    compatibility_weight_coefficient: float = field(default=0.5, metadata=_SPREAD)
    """Weight of the mean weight difference of matching genes in the distance (c3)."""
    compatibility_normalizer: str = field(default="larger", metadata=_choice("larger", "matching"))
    """N of the distance: genes of the larger genome (Stanley, neat-python) or matching genes (paper)."""
    max_stagnation: int = field(default=20, metadata=_COUNT)
    """Generations without progress after which a species is removed."""
    species_elitism: int = field(default=2, metadata=_COUNT_OR_NONE)
    """Best species that are never removed for stagnation."""
    species_fitness_func: str = field(default="max", metadata=_choice("max", "mean", "median", "min"))
    """A species' fitness for stagnation, from its members'."""
    reset_on_extinction: bool = True
    """When every species has died: start a new random population (else the run ends with an error)."""
    # -- selection
    selection: str = field(default="truncation", metadata=_choice("truncation", "rank"))
    """truncation: shares by fitness, parents from a species' best; rank: shares by ranks, parents by linear ranking."""
    sharing: str = field(default="normalized", metadata=_choice("normalized", "canonical", "paper"))
    """Fitness sharing and spawn: normalized (neat-python), canonical (Stanley 2002), paper (appendix)."""
    elitism: int = field(default=2, metadata=_range(0, 500_000))
    """Best members of every species copied unchanged (E)."""
    survival_threshold: float = field(default=0.2, metadata=_PROBABILITY)
    """Fraction of a species that may be parents (rho); with selection = rank all of them may."""
    min_species_size: int = field(default=2, metadata=_range(1, 500_000))
    """Least number of genomes that a surviving species is given."""
    crossover_prob: float = field(default=1.0, metadata=_PROBABILITY)
    """Probability that a child has two parents (p_c)."""
    disabled_inherit_prob: float = field(default=0.0, metadata=_PROBABILITY)
    """Probability that a gene disabled in a parent is so in the child (neat-python: 0.75); else one parent's flag."""
    # -- structure
    feed_forward: bool = True
    """No cycles; false: a node reads last step's value along a backward edge."""
    num_hidden: int = field(default=0, metadata=_range(0, 10_000))
    """Hidden nodes of the first population."""
    initial_connection: str = field(default="full_direct", metadata=_choice(*INITIAL_CONNECTIONS))
    """Connections of the first population."""
    connection_fraction: float = field(default=0.5, metadata=_PROBABILITY)
    """Fraction of the possible connections that a partial_* first population has."""
    conn_add_prob: float = field(default=0.1, metadata=_PROBABILITY)
    """Probability of an add-connection mutation per child."""
    conn_delete_prob: float = field(default=0.05, metadata=_PROBABILITY)
    """Probability of a delete-connection mutation per child."""
    node_add_prob: float = field(default=0.03, metadata=_PROBABILITY)
    """Probability of an add-node mutation per child."""
    node_delete_prob: float = field(default=0.02, metadata=_PROBABILITY)
    """Probability of a delete-node mutation per child."""
    single_structural_mutation: bool = False
    """At most one structural mutation per child."""
    structural_mutation_surer: str = field(default="default", metadata=_choice("default", "true", "false"))
    """Adding to a full or empty genome falls back to another addition; default = single_structural_mutation."""
    # -- weights
    weight_mutation: str = "config"
    """WM_MODE: config (the rates below), off, or the probability P that a weight changes (in the rates' proportion)."""
    weight_init_mean: float = field(default=0.0, metadata=_VALUE)
    """Mean of a new weight."""
    weight_init_stdev: float = field(default=1.0, metadata=_SPREAD)
    """Standard deviation of a new weight."""
    weight_init_type: str = field(default="gaussian", metadata=_choice(*INIT_TYPES))
    """Distribution of a new weight; uniform = mean +- 2 SD."""
    weight_mutate_rate: float = field(default=0.5, metadata=_PROBABILITY)
    """Probability per weight of a Gaussian step."""
    weight_mutate_power: float = field(default=0.3, metadata=_SPREAD)
    """Standard deviation of that step."""
    weight_replace_rate: float = field(default=0.02, metadata=_PROBABILITY)
    """Probability per weight of a fresh value instead."""
    weight_min_value: float = -30.0
    """Smallest weight gene."""
    weight_max_value: float = 30.0
    """Largest weight gene."""
    step_size_adaptation: float = field(default=0.0, metadata=_range(0.0, 10.0))
    """Self-adaptation of mutation powers: each child's step-size gene is multiplied by exp(this N(0,1)); 0 = fixed."""
    enabled_default: str = field(default="true", metadata=_choice("true", "false", "random"))
    """Whether a new connection is enabled."""
    enabled_mutate_rate: float = field(default=0.01, metadata=_PROBABILITY)
    """Probability per connection of drawing its enabled flag anew (toggle)."""
    enabled_rate_to_true_add: float = field(default=0.0, metadata=_PROBABILITY)
    """Added to that probability where the connection is disabled."""
    enabled_rate_to_false_add: float = field(default=0.0, metadata=_PROBABILITY)
    """Added to that probability where the connection is enabled."""
    # -- nodes
    bias_init_mean: float = field(default=0.0, metadata=_VALUE)
    """Mean of a new bias."""
    bias_init_stdev: float = field(default=1.0, metadata=_SPREAD)
    """Standard deviation of a new bias."""
    bias_init_type: str = field(default="gaussian", metadata=_choice(*INIT_TYPES))
    """Distribution of a new bias."""
    bias_mutate_rate: float = field(default=0.3, metadata=_PROBABILITY)
    """Probability per node of a Gaussian step of its bias."""
    bias_mutate_power: float = field(default=0.3, metadata=_SPREAD)
    """Standard deviation of that step."""
    bias_replace_rate: float = field(default=0.02, metadata=_PROBABILITY)
    """Probability per node of a fresh bias instead."""
    bias_min_value: float = -30.0
    """Smallest bias."""
    bias_max_value: float = 30.0
    """Largest bias."""
    response_init_mean: float = field(default=1.0, metadata=_VALUE)
    """Mean of a new response (the factor on a node's aggregated input)."""
    response_init_stdev: float = field(default=0.0, metadata=_SPREAD)
    """Standard deviation of a new response."""
    response_init_type: str = field(default="gaussian", metadata=_choice(*INIT_TYPES))
    """Distribution of a new response."""
    response_mutate_rate: float = field(default=0.0, metadata=_PROBABILITY)
    """Probability per node of a Gaussian step of its response."""
    response_mutate_power: float = field(default=0.0, metadata=_SPREAD)
    """Standard deviation of that step."""
    response_replace_rate: float = field(default=0.0, metadata=_PROBABILITY)
    """Probability per node of a fresh response instead."""
    response_min_value: float = -30.0
    """Smallest response."""
    response_max_value: float = 30.0
    """Largest response."""
    activation_default: str = field(default="clamped", metadata=_choice(*ACTIVATIONS, "random"))
    """Activation of a new node; random = drawn from activation_options."""
    activation_options: tuple[str, ...] = field(default=("clamped",), metadata=_choice(*ACTIVATIONS))
    """Activations that mutation may choose from."""
    activation_mutate_rate: float = field(default=0.0, metadata=_PROBABILITY)
    """Probability per node of a new activation."""
    aggregation_default: str = field(default="sum", metadata=_choice(*AGGREGATIONS, "random"))
    """Aggregation of a new node; random = drawn from aggregation_options."""
    aggregation_options: tuple[str, ...] = field(default=("sum",), metadata=_choice(*AGGREGATIONS))
    """Aggregations that mutation may choose from."""
    aggregation_mutate_rate: float = field(default=0.0, metadata=_PROBABILITY)
    """Probability per node of a new aggregation."""


@dataclass(frozen=True)
class SubstrateConfig:
    """What CPPNs paint on, and how: encoding = hyperneat."""

    substrate: str = field(default="task", metadata={"words": True})
    """Places of inputs, hidden nodes and outputs: task (by rule), or a TOML or JSON file such as RUN/substrate.json."""
    substrate_hidden: str = "5x5"
    """Hidden layers as WIDTHxHEIGHT, such as 5x5 or 5x5,3x3; none = inputs lead to outputs alone."""
    substrate_skip: bool = True
    """Every layer leads to all that come after it; false: to the next one alone."""
    substrate_activation: str = field(default="tanh", metadata=_choice(*ACTIVATIONS))
    """Activation of the substrate's nodes; those of CPPNs are activation_options."""
    substrate_weight: float = field(default=3.0, metadata=_range(0.0, 1e6, open_low=True))
    """Largest weight, and largest bias, of a connection that a CPPN paints."""
    substrate_bias: bool = True
    """CPPNs have an output for the nodes' biases, read from a node to the origin; false: biases are 0."""
    substrate_deltas: bool = True
    """CPPNs see x1 - x2, y1 - y2 and z1 - z2 beside the coordinates of both ends."""
    substrate_coefficient: float = field(default=1.0, metadata=_range(0.0, 1e6, open_low=True))
    """Largest rate, A, B, C, D or eta of a plastic connection that a CPPN paints (adaptive HyperNEAT)."""
    expression: str = field(default="threshold", metadata=_choice("threshold", "leo"))
    """Which connections exist: those painted above expression_threshold, or where an output of its own is > 0 (leo)."""
    expression_threshold: float = field(default=0.2, metadata=_range(0.0, 0.99))
    """With expression = threshold: least size of a CPPN's output that becomes a connection."""


@dataclass(frozen=True)
class HedgeConfig:
    """The outer loop: Hedge, which selects from a pool of random topologies."""

    pool: int = field(default=16, metadata=_range(1, 1_000_000))
    """Topologies that hedge selects from (M)."""
    return_low: float = field(default=0.0, metadata=_VALUE)
    """Fitness whose loss is 1, for hedge; return_low = return_high: the task's own range."""
    return_high: float = field(default=0.0, metadata=_VALUE)
    """Fitness whose loss is 0, for hedge."""


@dataclass(frozen=True)
class EsConfig:
    """Evolution strategies over the weights of a topology: outer = es, neat-es."""

    es: str = field(default="auto", metadata=_basic(_choice("auto", "cma", "sep-cma", "ars", "openai", "pgpe")))
    """Strategy: auto (cma up to 300 weights, sep-cma beyond), cma, sep-cma, ars, openai or pgpe."""
    topology: str = field(default="full", metadata={"words": True})
    """Network that es and gradient search: full, layers as 16,16, associative, a champion.json, or start (--from's)."""
    es_population: int = field(default=0, metadata=_range(0, 1_000_000))
    """Samples per generation; 0 = what suits the strategy and the number of weights."""
    es_sigma: float = field(default=0.0, metadata=_range(0.0, 1e6))
    """First standard deviation of the samples; 0 = what suits the strategy."""
    es_rate: float = field(default=0.0, metadata=_range(0.0, 1e6))
    """Learning rate of ars, openai and pgpe; 0 = what suits the strategy."""
    es_top: int = field(default=0, metadata=_range(0, 500_000))
    """Best directions that ars uses; 0 = half of them."""
    es_starts: int = field(default=1, metadata=_range(1, 64))
    """Searches that begin side by side, each with its own samples; after a round the better half (of 5: 2) goes on."""
    es_round: int = field(default=50, metadata=_range(1, 1_000_000))
    """Generations of such a round, with es_starts > 1."""


@dataclass(frozen=True)
class GradientConfig:
    """Differentiable plasticity: outer = gradient."""

    gradient_rate: float = field(default=0.01, metadata=_range(0.0, 1e3, open_low=True))
    """Adam's step size."""
    gradient_lives: int = field(default=64, metadata=_range(1, 1_000_000))
    """Lives that every update learns from."""
    gradient_updates: int = field(default=10, metadata=_range(1, 1_000_000))
    """Updates between two generations, which are measured and saved."""
    gradient_spread: float = field(default=0.3, metadata=_range(0.0, 1e3, open_low=True))
    """Standard deviation of the first weights and plasticity coefficients, times the root of the fan-in."""
    gradient_norm: float = field(default=1.0, metadata=_range(0.0, open_low=True))
    """Longest gradient: a longer one is shortened to this."""
    gradient_noise: float = field(default=0.5, metadata=_range(0.0, 1e3, open_low=True))
    """Temperature of the chances by which exploring lives choose."""
    modulators: int = field(default=2, metadata=_range(1, 10_000))
    """Modulatory nodes of the topology, with gate = modulator: they see the inputs and reach all other nodes."""
