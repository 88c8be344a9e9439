"""Evolution strategies as outer loops: champions, species that compete, and the same bits whatever interrupts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crafted
import numpy as np
import pytest

import neol
from neol.config.sections import EsConfig
from neol.outer.base import Outcome
from neol.outer.cma import Cma
from neol.outer.es_loop import EsLoop
from neol.outer.neat_es import LEAST, LONGEST, PATIENCE, PROTECTED, RIVAL_LIFE, SETTLED, UNITS, Kind, NeatEsLoop, slows
from neol.outer.registry import make_loop
from neol.outer.search_space import to_vectors, unit_size
from neol.outer.strategy import knobs
from neol.training.configure import configure
from neol.training.loop import problem_of

TINY: dict[str, Any] = {
    "rule": "none", "episodes": 1, "max_steps": 60, "threads": 1, "es_population": 8, "champion_candidates": 4,
    "champion_trials": 2, "champion_episodes": 4, "progress": False,
}  # fmt: skip
LEARNED = {"normalize_share": 1.0}  # a part of the run: with it runs of other lengths begin alike
STRATEGIES = ("cma", "sep-cma", "ars", "openai", "pgpe")


def neat_es(**settings: Any) -> NeatEsLoop:
    loop = make_loop(problem_of(configure("cartpole", outer="neat-es", es_population=12, **settings)))
    assert isinstance(loop, NeatEsLoop)
    return loop


def tell(loop: NeatEsLoop, by_kind: dict[int, float], rng: np.random.Generator) -> None:
    """A generation in which the samples of species i have about the fitness by_kind[i]."""
    means = np.concatenate([np.full(n, by_kind.get(k.id, 0.0)) for k, n in zip(loop.kinds, loop.shares, strict=True)])
    fitness = means + 0.01 * rng.standard_normal(len(means))
    loop.tell(Outcome(fitness, fitness[:, None], np.ones((len(fitness), 1), np.int64), None))


def challenged(**settings: Any) -> tuple[NeatEsLoop, np.random.Generator]:
    """A loop whose leader has stood still for long enough to be challenged."""
    loop, rng = neat_es(**settings), np.random.default_rng(0)
    tell(loop, {0: 5.0}, rng)
    for _ in range(PATIENCE):
        assert len(loop.kinds) == 1
        tell(loop, {0: 1.0}, rng)
    assert len(loop.kinds) == 2
    return loop, rng


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("outer", ["es", "neat-es"])
def test_a_resumed_run_has_the_same_bytes(outer: str, strategy: str, tmp_path: Path) -> None:
    settings = {**TINY, "outer": outer, "es": strategy, "rule": "hebb"}
    whole = neol.train("cartpole", out=tmp_path / "whole", generations=5, **settings)
    neol.train("cartpole", out=tmp_path / "parts", generations=2, **settings)
    parts = neol.train(out=tmp_path / "parts", resume=True, generations=5, progress=False)
    for name in ("history.csv", "champion.json"):
        assert (whole.path / name).read_bytes() == (parts.path / name).read_bytes()
    assert {"sigma", "condition", "searched"} <= set(whole.history)


def test_species_and_threads_leave_the_same_bytes(tmp_path: Path) -> None:
    settings = {
        **TINY,
        "outer": "neat-es",
        "generations": SETTLED + 10,
        "max_steps": 7,
        **LEARNED,
    }  # nobody falls so soon, so there is nothing to gain
    one = neol.train("cartpole", out=tmp_path / "one", **settings)
    assert max(one.history["species"][:SETTLED]) > 1
    with np.load(one.path / "checkpoint.npz") as arrays:
        assert [int(n) for name, n in arrays.items() if name.endswith("rivals")] == [1]
    other = neol.train("cartpole", out=tmp_path / "other", **{**settings, "threads": 2, "window": 3})
    half = neol.train("cartpole", out=tmp_path / "half", **{**settings, "generations": SETTLED + 3})
    half = neol.train(out=tmp_path / "half", resume=True, generations=SETTLED + 10, progress=False)
    for run in (other, half):
        assert (run.path / "history.csv").read_bytes() == (one.path / "history.csv").read_bytes()
        assert (run.path / "champion.json").read_bytes() == (one.path / "champion.json").read_bytes()


def test_the_mean_that_the_generation_leads_to_is_the_first_candidate() -> None:
    loop = EsLoop(problem_of(configure("cartpole", outer="es", es_population=8)))
    fitness = np.arange(8.0)
    outcome = Outcome(fitness, fitness[:, None], np.ones((8, 1), np.int64), None)
    chosen = loop.candidates(outcome, 3)
    loop.tell(outcome)
    assert np.array_equal(to_vectors(loop.kinds[0].space, chosen)[0], loop.kinds[0].strategy.mean)
    assert len(chosen.n_nodes) == 3


def test_lamarckian_inheritance_moves_the_mean_to_what_lives_made_of_it() -> None:
    problem = problem_of(configure("cartpole", outer="es", es_population=8))
    still, moved = EsLoop(problem), EsLoop(problem)
    fitness = np.arange(8.0)
    outcome = Outcome(fitness, fitness[:, None], np.ones((8, 1), np.int64), None)
    still.tell(outcome)
    moved.tell(outcome._replace(adapted=moved.ask().weight + 0.01))
    step = moved.kinds[0].strategy.mean - still.kinds[0].strategy.mean
    assert step == pytest.approx([0.0, 0.0, *[0.01] * 8], abs=1e-3)


def test_a_leader_that_makes_progress_is_not_challenged() -> None:
    loop, rng = neat_es(), np.random.default_rng(0)
    for generation in range(3 * PATIENCE):
        tell(loop, {0: float(generation)}, rng)
    assert [k.id for k in loop.kinds] == [0]
    assert loop.shares.tolist() == [12]


def test_a_challenger_inherits_the_distribution_and_is_protected_then_dies_when_it_is_worse() -> None:
    loop, rng = challenged()
    leader, young = loop.kinds[:2]
    assert young.strategy.at.sigma[0] == leader.strategy.at.sigma[0]
    assert sum(loop.shares) == 12
    assert loop.shares.tolist() == [6, 6]
    for _ in range(PROTECTED - 1):
        tell(loop, {0: 1.0, young.id: -50.0}, rng)
        assert young in loop.kinds
    tell(loop, {0: 1.0, young.id: -50.0}, rng)
    assert young not in loop.kinds
    assert loop.kinds[0] is leader


def test_a_challenger_that_does_better_takes_the_lead() -> None:
    loop, rng = challenged()
    young = loop.kinds[1]
    for _ in range(PROTECTED):
        tell(loop, {0: 1.0, young.id: 3.0}, rng)
    assert loop.kinds[0] is young


def with_rival() -> tuple[NeatEsLoop, np.random.Generator]:
    """A loop whose leader has gained nothing more for so long that it has a rival."""
    loop, rng = neat_es(), np.random.default_rng(0)
    for generation in range(SETTLED):
        assert not loop.rivals
        tell(loop, {0: min(float(generation), SETTLED / 3)}, rng)
    assert loop.kinds[-1].rival
    return loop, rng


def test_a_leader_that_gains_no_more_has_a_rival_that_begins_anew_with_hidden_nodes_and_a_population_of_its_own() -> (
    None
):
    loop, _ = with_rival()
    rival, leader = loop.kinds[-1], loop.kinds[0]
    assert sum(k.rival for k in loop.kinds) == 1
    assert loop.shares[-1] == 12
    assert sum(loop.shares[:-1]) == max(12, LEAST * (len(loop.kinds) - 1))  # the others share one
    assert rival.space.topology.n_nodes[0] == loop.first.n_nodes[0] + UNITS
    assert rival.space.topology.n_conns[0] == loop.first.n_conns[0] + UNITS * (4 + 2)
    assert rival.strategy.at.told[0] == 0 < leader.strategy.at.told[0]
    to_outputs = rival.space.topology.target[0] < 2
    assert not rival.space.topology.weight[0, to_outputs].any()  # so it does what the first network did: nothing
    assert rival.strategy.at.sigma[0] == 1.0  # its first steps are cartpole's own


@pytest.mark.parametrize(
    ("numbers", "inputs", "sigma"), [(30, 3, 0.5), (41, 3, 0.75 / 3**0.5), (41, 1, 0.5), (848, 105, 0.0732)]
)
def test_first_steps_are_smaller_the_more_inputs_a_node_adds_up(numbers: int, inputs: int, sigma: float) -> None:
    assert knobs(EsConfig(), numbers, inputs).sigma == pytest.approx(sigma, abs=1e-4)
    assert knobs(EsConfig(es_sigma=0.3), numbers, inputs).sigma == 0.3


def test_a_rival_is_behind_at_first_and_lives_as_long_as_the_leader_did() -> None:
    loop, rng = with_rival()
    rival, life = loop.kinds[-1], max(RIVAL_LIFE, SETTLED)
    for _ in range(life - 1):
        tell(loop, {rival.id: -50.0}, rng)
        assert loop.kinds[-1].id == rival.id
    tell(loop, {rival.id: -50.0}, rng)
    assert rival.id not in [k.id for k in loop.kinds]
    assert loop.kinds[-1].rival and loop.rivals == 2  # there is another


def test_a_rival_that_does_better_takes_the_lead_and_has_none_before_it_has_settled() -> None:
    loop, rng = with_rival()
    rival = loop.kinds[-1]
    for _ in range(PROTECTED):
        tell(loop, {rival.id: 3.0}, rng)
    assert loop.kinds[0] is rival and not rival.rival
    for _ in range(SETTLED - 1):
        tell(loop, {rival.id: 3.0}, rng)
    assert loop.rivals == 1


def test_the_third_and_the_fourth_rival_are_larger_and_none_is_larger_than_its_strategy_can_search() -> None:
    loop, _ = with_rival()
    sizes = []
    for _ in range(7):
        loop.kinds = loop.kinds[:1]
        loop._found_rival()
        sizes.append(int(loop.kinds[-1].space.topology.n_nodes[0]) - 2)
    assert sizes == [8, 16, 16, 32, 32, 32, 32]
    large = make_loop(problem_of(configure("bipedalwalker", outer="neat-es", es_starts=1)))
    assert isinstance(large, NeatEsLoop)
    large._found_rival()  # 8 units would be 332 numbers, and a whole covariance has at most 300
    assert large.kinds[-1].space.size == 100 + 6 * (24 + 1 + 4)


def test_where_there_is_no_room_for_a_rival_none_is_tried() -> None:
    loop = make_loop(problem_of(configure("bipedalwalker", outer="neat-es", es="cma", topology="16", es_starts=1)))
    assert isinstance(loop, NeatEsLoop) and loop.kinds[0].space.size > 300
    connections = loop.innovations.counts.tolist()
    for _ in range(3):
        loop._found_rival()
    assert (len(loop.kinds), loop.rivals, loop.innovations.counts.tolist()) == (1, 0, connections)


@pytest.mark.parametrize("settings", [{"rule": "none"}, {"rule": "abcd", "gate": "modulator"}, {"rule": "adaptive"},
                                      {"rule": "abcd", "coefficients_of": "node"}])  # fmt: skip
def test_a_rival_is_as_large_as_its_units_are_said_to_be(settings: dict[str, str]) -> None:
    loop = neat_es(**settings)
    loop._found_rival()
    more = loop.kinds[1].space.size - loop.kinds[0].space.size
    assert more == UNITS * unit_size(loop.problem.config.evolution, 4, 2)


def test_huge_differences_between_species_can_be_saved() -> None:
    loop, rng = with_rival()
    for sign in (1.0, -1.0, 1.0):
        tell(loop, {loop.kinds[-1].id: sign * 1e300, loop.kinds[0].id: -sign * 1e300}, rng)
        assert np.abs(loop.state()["kinds"]).max() <= 1e100


@pytest.mark.parametrize(
    ("levels", "slow"),
    [
        ([float(i) for i in range(60)], False),  # as fast as ever
        ([float(np.log(1 + i)) for i in range(60)], False),  # as searches do that go on
        ([1 - 0.5**i for i in range(60)], True),
        ([5.0] * 60, True),
        ([5.0] * (SETTLED - 1), False),  # too young to tell
        ([-float(i) for i in range(60)], True),
    ],
)
def test_a_search_slows_when_its_last_third_gains_little_of_what_the_third_before_gained(
    levels: list[float], slow: bool
) -> None:
    assert slows(levels) == slow


@pytest.mark.parametrize(
    ("born", "words"),
    [
        ([0, -1], "a rival that cannot be"),
        ([-1, 10**6], "a rival that cannot be"),
        ([30, 30], "a rival that cannot be"),
    ],
)
def test_rivals_that_cannot_be_are_refused_in_a_file(born: list[int], words: str) -> None:
    loop, _ = with_rival()
    loop.kinds = [loop.kinds[0], loop.kinds[-1]]
    loop._sample()
    state = loop.state()
    with pytest.raises(neol.NeolError, match=words):
        loop.restore(state | {"born": np.array(born)})
    with pytest.raises(neol.NeolError, match="a rival that cannot be"):
        loop.restore(state | {"rivals": np.array(0)})
    loop.restore(state)
    assert [k.rival for k in loop.kinds] == [False, True]


@pytest.mark.parametrize("smaller", [True, False])
def test_among_equals_the_smaller_network_wins(smaller: bool) -> None:
    loop, rng = challenged(topology="4")
    leader, young = loop.kinds[:2]
    loop.kinds = [leader, young]
    size = leader.space.size
    young.space = young.space._replace(gene=young.space.gene[: size - 1 if smaller else size])
    young.told, young.mean, young.variance = LONGEST, 0.0, 1.0
    loop._compete()
    assert (loop.kinds[0] is young) == smaller
    assert young in loop.kinds if smaller else young not in loop.kinds
    assert rng is not None


def racing(outer: str = "neat-es", **settings: Any) -> NeatEsLoop:
    loop = make_loop(problem_of(configure("cartpole", outer=outer, es_population=6, **settings)))
    assert isinstance(loop, NeatEsLoop)
    return loop


@pytest.mark.parametrize("outer", ["es", "neat-es"])
def test_of_several_starts_the_better_half_goes_on_after_every_round_until_one_leads(outer: str) -> None:
    loop, rng = racing(outer, es_starts=5, es_round=3), np.random.default_rng(0)
    level = {0: 1.0, 1: 5.0, 2: 3.0, 3: 4.0, 4: 2.0}
    assert np.array_equal(loop.shares, [6] * 5)
    assert len(np.unique(loop.ask().weight, axis=0)) == 30  # no two starts draw the same
    for left in ([1, 3, 2, 4, 0], [1, 3, 2, 4, 0], [1, 3], [1, 3], [1, 3], [1]):
        tell(loop, level, rng)
        assert [k.id for k in loop.kinds] == left
    assert not loop.racing
    assert loop.score == pytest.approx(5.0, abs=0.1)
    assert len(loop.ask().n_nodes) == 6
    for _ in range(PATIENCE + 1):
        tell(loop, {1: 1.0}, rng)
    assert len(loop.kinds) == (2 if outer == "neat-es" else 1)  # a fixed topology is never challenged
    assert all(k.id in (1, 5) for k in loop.kinds)


def test_a_start_that_improves_late_is_judged_by_its_last_generations() -> None:
    loop, rng = racing(es_starts=2, es_round=20), np.random.default_rng(0)
    for generation in range(20):
        tell(loop, {0: 10.0, 1: 20.0 if generation > 9 else 0.0}, rng)
    assert [k.id for k in loop.kinds] == [1]


def test_a_search_that_begins_from_a_champion_has_one_start(tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", outer="es", generations=1, **TINY)
    more = neol.train("cartpole", out=tmp_path / "more", outer="es", start=run, es_starts=4, generations=1, **TINY)
    assert more.history["species"].tolist() == [1]
    short = {"training_steps": 5, "whole_episodes_after": 10**6}
    whole = neol.train("cartpole", out=tmp_path / "whole", outer="es", start=run, generations=1, **TINY, **short)
    assert whole.history["best_return"][0] > 5.0
    anew = neol.train("cartpole", out=tmp_path / "anew", outer="es", start=run, topology="start", es_starts=4,
                      generations=1, **TINY)  # fmt: skip
    assert anew.history["species"].tolist() == [4]


def test_what_short_episodes_achieved_says_nothing_about_whole_ones() -> None:
    loop, rng = neat_es(), np.random.default_rng(0)
    levels = (-1.0, -30.0)  # costs: a longer episode has more of them
    for level, longest in zip(levels, (5, 0), strict=True):
        fitness = level + 0.01 * rng.standard_normal(12)
        loop.tell(Outcome(fitness, fitness[:, None], np.ones((12, 1), np.int64), None, longest))
    assert [r.score for r in loop.remembered()] == [pytest.approx(-30.0, abs=0.1)]
    assert loop.best_score == pytest.approx(-30.0, abs=0.1)
    assert loop.best_at == 1


def test_of_starts_that_race_the_best_of_a_generation_is_remembered() -> None:
    loop, rng = racing(es_starts=4, es_round=3), np.random.default_rng(0)
    for _ in range(3):  # they begin with one mean, which counts as the first one's
        tell(loop, {1: 5.0}, rng)
    first, *later = loop.hall.eras.values()
    assert first.score < 1.0
    assert [r.score for r in later] == [pytest.approx(5.0, abs=0.1)] * 2


def test_huge_fitness_can_be_saved_in_a_race() -> None:
    loop = racing(es_starts=4, es_round=3)
    for _ in range(2):
        fitness = np.full(24, 1e290)
        loop.tell(Outcome(fitness, fitness[:, None], np.ones((24, 1), np.int64), None))
    assert np.abs(loop.state()["kinds"]).max() <= 1e100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"racing": np.array(True)}, "it has 1 species, and must have 2 to 4"),
        ({"kinds": np.array([[0.5, 0.0, 0.0, 0.0]])}, "not possible"),
        ({"kinds": np.array([[0.0, 1e99, 0.0, 0.0]])}, "not possible"),
        ({"kinds": np.array([[9.0, 0.0, 0.0, 0.0]])}, "not possible"),
    ],
)
def test_a_race_that_cannot_be_is_refused(change: dict[str, np.ndarray], words: str) -> None:
    loop, rng = racing("es", es_starts=4, es_round=1), np.random.default_rng(0)
    tell(loop, {}, rng)
    tell(loop, {}, rng)
    state = loop.state()
    with pytest.raises(neol.NeolError, match=words):
        loop.restore(state | change)
    loop.restore(state)
    early = racing("es", es_starts=4)
    tell(early, {}, rng)
    with pytest.raises(neol.NeolError, match="it has 4 species, and must have 1 to 1"):
        early.restore(early.state() | {"racing": np.array(False)})


def test_a_file_from_before_there_were_races_is_read() -> None:
    loop, rng = neat_es(), np.random.default_rng(0)
    tell(loop, {}, rng)
    old = {k: v for k, v in loop.state().items() if k not in ("racing", "longest", "rivals", "born", "trail")}
    loop.restore(old)
    assert not loop.racing


def test_a_search_never_spreads_beyond_its_genes_bounds() -> None:
    loop, rng = neat_es(weight_min_value=-3.0, weight_max_value=3.0), np.random.default_rng(0)
    leader = loop.kinds[0]
    assert isinstance(leader.strategy.at, Cma)
    leader.strategy.at = leader.strategy.at._replace(sigma=np.array([1e5]))
    for _ in range(2):
        tell(loop, {}, rng)
    assert (leader.strategy.spread() <= leader.space.widest * (1 + 1e-12)).all()
    assert leader.space.widest[leader.space.high == 3.0].tolist() == [1.0] * 8


def test_a_narrow_gene_does_not_narrow_the_others() -> None:
    loop = neat_es(rule="adaptive", weight_limit=3.0)
    space, spread = loop.kinds[0].space, loop.kinds[0].strategy.spread()
    assert (spread <= space.widest * (1 + 1e-12)).all()  # from the first generation on
    assert spread[space.high == 1.0].max() == pytest.approx(1 / 6)  # eta lies within 0 .. 1
    assert spread[space.high == 30.0].min() == 1.0


@pytest.mark.parametrize("strategy", ["cma", "sep-cma"])
@pytest.mark.parametrize("high", [0.0, 1e-320])
def test_a_gene_whose_bounds_leave_no_room_is_fixed_and_the_others_are_searched(
    strategy: str, high: float, tmp_path: Path
) -> None:
    settings = {**TINY, "outer": "es", "es": strategy, "generations": 12, "bias_min_value": 0.0, "bias_max_value": high}
    run = neol.train("cartpole", out=tmp_path / "run", **settings)
    assert np.isfinite(run.history["sigma"]).all()
    assert run.history["sigma"].min() > 0.01
    assert set(run.champion.weights.values()) != {0.0}


def test_a_race_and_short_episodes_are_the_same_part_of_a_smaller_budget_and_as_long_in_a_larger_one() -> None:
    own = configure("bipedalwalker", outer="es").config
    small = configure("bipedalwalker", outer="es", max_env_steps=own.run.max_env_steps // 5).config
    assert small.es.es_round == own.es.es_round // 5 > 1
    assert small.rollout.whole_episodes_after == own.rollout.whole_episodes_after // 5 > 1
    assert small.es.es_starts == own.es.es_starts > 1
    said = configure("bipedalwalker", outer="es", max_env_steps=2_000_000, es_round=7).config
    assert said.es.es_round == 7
    assert configure("bipedalwalker", outer="es", max_env_steps=1).config.es.es_round == 8  # fewer tell nothing
    large = configure("bipedalwalker", outer="es", max_env_steps=30_000_000).config  # it begins as the small one does
    assert (large.es.es_round, large.rollout.whole_episodes_after) == (60, 6_000_000)
    assert configure("hopper", outer="es", max_env_steps=2**61).config.es.es_round == 40
    assert configure("lunarlander", outer="es", max_env_steps=2**61).config.rollout.whole_episodes_after == 600_000
    assert configure("bipedalwalker", outer="es", max_env_steps=0).config.es.es_round == own.es.es_round


def test_a_race_whose_budget_grows_goes_on_with_its_rounds(tmp_path: Path) -> None:
    file = tmp_path / "walker.toml"
    run = '[run]\ntask = "bipedalwalker"\nouter = "es"\nchampion_trials = 1\nchampion_episodes = 2\n'
    file.write_text(run + "[rollout]\nmax_steps = 20\n[es]\nes_population = 4\n")
    how: dict[str, Any] = {"out": tmp_path / "run", "config": file, "threads": 1}
    first = neol.train(max_env_steps=600, **how)
    generations, rounds = first.summary.generations, first.config.es.es_round
    more = neol.train(max_env_steps=2_000, resume=True, **how)
    assert more.summary.generations > generations
    assert more.history["species"][0] == 8
    assert more.config.es.es_round == rounds == 8
    wanted = neol.configure(config_file=file, max_env_steps=5_000_000).config
    assert wanted.es.es_round > 8
    larger = neol.train(config=wanted.replace(max_env_steps=2_500), resume=True, out=tmp_path / "run")
    assert larger.config.es.es_round == 8
    file.write_text(file.read_text() + "es_round = 9\n")
    with pytest.raises(neol.NeolError, match="es_round = 9 is not allowed with resume"):
        neol.train(max_env_steps=3_000, resume=True, **how)


def test_a_tasks_own_samples_and_step_are_for_cma_alone() -> None:
    own = configure("hopper", outer="es").config.es
    assert (own.es_population, own.es_sigma) == (16, 0.05)
    other = configure("hopper", outer="es", es="pgpe").config.es
    assert (other.es_population, other.es_sigma) == (0, 0.0)
    said = configure("hopper", outer="es", es="ars", es_sigma=0.3).config.es
    assert said.es_sigma == 0.3


@pytest.mark.parametrize("outer", ["es", "neat-es"])
def test_a_race_that_is_resumed_has_the_same_bytes(outer: str, tmp_path: Path) -> None:
    settings = {**TINY, "outer": outer, "es_starts": 4, "es_round": 2, **LEARNED}
    whole = neol.train("cartpole", out=tmp_path / "whole", generations=6, **settings)
    assert whole.history["species"].tolist()[:5] == [4, 4, 2, 2, 1]
    for stop in (1, 3):
        neol.train("cartpole", out=tmp_path / f"{stop}", generations=stop, **settings)
        parts = neol.train(out=tmp_path / f"{stop}", resume=True, generations=6, progress=False)
        for name in ("history.csv", "champion.json"):
            assert (whole.path / name).read_bytes() == (parts.path / name).read_bytes()


def test_a_comparison_has_the_mean_and_the_error_of_what_was_told() -> None:
    kind = Kind(1, None, None)  # type: ignore[arg-type]
    for _ in range(400):
        kind.compare(2.0)
    assert kind.mean == pytest.approx(2.0)
    assert kind.error == pytest.approx(0.0, abs=1e-9)
    for d in (1.0, 3.0) * 200:
        kind.compare(d)
    assert kind.error == pytest.approx(1.0 / 3.0, rel=0.2)  # sd 1 over about nine values


def test_hidden_layers_are_searched_and_deployed(tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", outer="es", topology="3,2", generations=2, **TINY)
    assert run.history["searched"].tolist() == [4 * 3 + 3 * 2 + 2 * 2 + 7] * 2
    assert run.summary.champion_connections == 22


@pytest.mark.parametrize("topology", ["0", "3,-1", "3,,2", "wide", "", "1e3", "99999"])
def test_a_topology_that_is_none_is_refused_in_one_sentence(topology: str) -> None:
    with pytest.raises(neol.NeolError, match=r"topology = '.*' is not allowed; it must be full, sizes of hidden"):
        configure("cartpole", outer="es", topology=topology)


@pytest.mark.parametrize("topology", ["9999,9999", "10000", "3000,20,3000"])
def test_a_topology_that_no_memory_holds_is_refused_before_it_is_made(topology: str, tmp_path: Path) -> None:
    with pytest.raises(neol.NeolError, match=r"topology = '.*' is not allowed; it has .* connections, and must have"):
        neol.train("cartpole", out=tmp_path / "run", outer="es", topology=topology, generations=1, **TINY)
    assert not (tmp_path / "run").exists()


def test_a_champions_topology_is_searched_from_new_weights(tmp_path: Path) -> None:
    first = neol.train("cartpole", out=tmp_path / "a", outer="es", topology="3", generations=3, **TINY)
    again = neol.train(
        "cartpole", out=tmp_path / "b", outer="es", topology=str(first.champion_path), generations=2, **TINY
    )
    assert again.config.es.topology == "start"
    assert again.summary.champion_connections == first.summary.champion_connections == 18
    assert again.summary.start_return_mean is None  # its weights are no candidate
    (first.champion_path).unlink()  # the run has a copy
    assert neol.train(out=tmp_path / "b", resume=True, generations=3, progress=False).summary.generations == 3
    with pytest.raises(neol.NeolError, match="it needs a champion to start from"):
        configure("cartpole", outer="es", topology="start")


@pytest.mark.parametrize("samples", [2, 3, 5])
@pytest.mark.parametrize("outer", ["es", "neat-es"])
def test_few_samples_are_enough_and_one_is_refused(outer: str, samples: int, tmp_path: Path) -> None:
    settings = {**TINY, "outer": outer, "es_population": samples, "generations": 4}
    run = neol.train("cartpole", out=tmp_path / "run", **settings)
    assert np.isfinite(run.history["sigma"]).all()
    with pytest.raises(neol.NeolError, match="es_population = 1 is not allowed; it must be 0 or at least 2"):
        configure("cartpole", outer=outer, es_population=1)


def test_training_steps_limit_training_alone(tmp_path: Path) -> None:
    settings = {**TINY, "max_steps": 200}
    run = neol.train("cartpole", out=tmp_path / "run", outer="es", training_steps=20, generations=30, **settings)
    assert max(run.history["best_return"]) == 20.0
    assert run.summary.champion_return_mean > 20.0


def test_episodes_are_whole_after_so_many_steps_the_same_when_resumed(tmp_path: Path) -> None:
    settings = {**TINY, "max_steps": 200, "training_steps": 20, "whole_episodes_after": 600, "outer": "es", **LEARNED}
    run = neol.train("cartpole", out=tmp_path / "run", generations=12, **settings)
    short = np.concatenate([[0], run.history["env_steps"][:-1]]) < 600  # when the generation began
    assert 0 < short.sum() < len(short)
    assert run.history["best_return"][short].max() <= 20.0 < run.history["best_return"][~short].max()
    neol.train("cartpole", out=tmp_path / "parts", generations=int(short.sum()) + 1, **settings)
    parts = neol.train(out=tmp_path / "parts", resume=True, generations=12, progress=False)
    assert (parts.path / "history.csv").read_bytes() == (run.path / "history.csv").read_bytes()


@pytest.mark.parametrize("outer", ["es", "neat-es"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mean", lambda a: a[:-1]),
        ("mean", lambda a: a.astype("f4")),
        ("mean", lambda a: np.full_like(a, np.nan)),
        ("factor", lambda a: a[:, :-1]),
        ("sigma", lambda a: -a),
        ("averages", lambda a: a[:1]),
    ],
)
def test_a_damaged_distribution_is_refused_in_one_sentence(outer: str, name: str, change: Any, tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", outer=outer, es="cma", generations=2, **TINY)
    arrays = crafted.read(run.path)
    key = f"outer.strategy0.{name}"
    arrays[key] = change(arrays[key])
    crafted.write(run.path, arrays)
    with pytest.raises(neol.NeolError, match="damaged") as caught:
        neol.train(out=run.path, resume=True, generations=4, progress=False)
    assert "\n" not in str(caught.value)
