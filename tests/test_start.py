"""`--from`: a run that begins from a champion, on the same task or another, and goes on without the original."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import crafted
import numpy as np
import pytest

import neol
from neol.cli.main import main
from neol.config.schema import Config
from neol.deploy import network_json
from neol.errors import NeolError
from neol.neat.evolution import Neat
from neol.neat.genome import CONN_FIELDS, NODE_FIELDS, Genomes, take
from neol.network.normalization import from_moments, merged, no_moments, to_moments
from neol.training.loop import problem_of
from neol.training.start import USUAL_COUNT, read_start

TINY: dict[str, Any] = {
    "pop_size": 10, "elitism": 1, "episodes": 1, "max_steps": 60, "threads": 1, "champion_candidates": 2,
    "champion_trials": 2, "champion_episodes": 6, "node_add_prob": 0.4, "conn_add_prob": 0.4,
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> neol.Run:
    """A lander's run, with hidden nodes; observations scaled."""
    out = tmp_path_factory.mktemp("trained") / "run"
    return neol.train(
        "lunarlander", out=out, rule="hebb", generations=6, normalize_observations=True, num_hidden=1, **TINY
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> neol.Run:
    """A run on cartpole whose observations are as they come."""
    return neol.train("cartpole", out=tmp_path_factory.mktemp("plain") / "run", rule="none", generations=2, **TINY)


def genes(g: Genomes, p: int) -> tuple[Any, ...]:
    nodes = [getattr(g, f)[p, : g.n_nodes[p]].tolist() for f in NODE_FIELDS]
    conns = [getattr(g, f)[p, : g.n_conns[p]].tolist() for f in CONN_FIELDS]
    return nodes, conns


def expressed(document: dict[str, Any]) -> dict[str, Any]:
    nodes = {n["id"]: (n["bias"], n["activation"]["name"]) for n in document["nodes"] if n["type"] != "input"}
    return {"nodes": nodes, "weights": {(c["from"], c["to"]): c["weight"] for c in document["connections"]}}


def test_a_start_has_the_champions_nodes_connections_and_scaling(trained: neol.Run) -> None:
    document = json.loads(trained.champion_path.read_text())
    start = read_start(trained.path)
    g, wanted = start.genome, expressed(document)
    ids = g.node_id[0, : g.n_nodes[0]].tolist()
    assert ids == sorted(wanted["nodes"])
    assert dict(zip(ids, g.bias[0].tolist(), strict=False)) == {k: v[0] for k, v in wanted["nodes"].items()}
    pairs = list(zip(g.source[0].tolist(), g.target[0].tolist(), strict=True))[: g.n_conns[0]]
    assert dict(zip(pairs, g.weight[0].tolist(), strict=False)) == wanted["weights"]
    assert start.seen is not None
    assert start.seen.n[0] == document["interface"]["normalization"]["count"] > 1000
    assert from_moments(start.seen).std == pytest.approx(start.normal.std, rel=1e-12)
    assert read_start(trained.champion_path).text == start.text


def test_the_first_population_is_the_start_once_and_mutated_copies(trained: neol.Run) -> None:
    start = read_start(trained.path).genome
    config = Config().replace(pop_size=40, node_add_prob=0.5, conn_add_prob=0.5, weight_mutate_rate=1.0).neat
    neat = Neat(config, 8, 2, 3, start)
    g = neat.ask()
    assert genes(g, 0) == genes(start, 0)
    assert all(genes(g, p) != genes(start, 0) for p in range(1, 40))
    assert len({json.dumps(genes(g, p)) for p in range(40)}) == 40
    own = set(zip(start.source[0].tolist(), start.target[0].tolist(), strict=True))
    newest = max(start.node_id[0, : start.n_nodes[0]])
    number: dict[tuple[int, int], int] = {}
    for p in range(40):  # one number per pair of nodes over all, and new nodes after the start's own
        for c in range(g.n_conns[p]):
            pair = int(g.source[p, c]), int(g.target[p, c])
            assert number.setdefault(pair, int(g.innovation[p, c])) == g.innovation[p, c]
            assert (pair in own) == (g.innovation[p, c] < start.n_conns[0])
        assert (np.diff(g.innovation[p, : g.n_conns[p]]) > 0).all()
        assert (np.diff(g.node_id[p, : g.n_nodes[p]]) > 0).all()
    new = {int(n) for p in range(40) for n in g.node_id[p, : g.n_nodes[p]]} - set(start.node_id[0].tolist())
    assert new and min(new) > newest
    for _ in range(5):
        neat.tell(np.random.default_rng(neat.generation).normal(size=40))
    assert genes(neat.start, 0) == genes(start, 0)  # type: ignore[arg-type]


def test_after_an_extinction_the_start_is_there_again(trained: neol.Run) -> None:
    start = read_start(trained.path).genome
    config = Config().replace(pop_size=20, max_stagnation=2, species_elitism=0, compatibility_threshold=1e6).neat
    neat, found = Neat(config, 8, 2, 0, start), []
    for _ in range(6):
        neat.tell(np.zeros(20))
        found.append(genes(neat.ask(), 0) == genes(start, 0))
    first = {json.dumps(genes(Neat(config, 8, 2, 0, start).ask(), p)) for p in range(1, 20)}
    assert True in found[2:]
    assert not first & {json.dumps(genes(neat.ask(), p)) for p in range(1, 20)}  # other copies than at first


def test_a_run_from_a_champion_needs_the_original_no_more_and_resumes_to_the_same_bytes(
    trained: neol.Run, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(trained.path, source)
    settings = {**TINY, "rule": "oja", "start": source}
    whole = neol.train("lunarlander", out=tmp_path / "whole", generations=4, **settings)
    neol.train("lunarlander", out=tmp_path / "parts", generations=2, **settings)
    copy = (tmp_path / "parts" / "start.json").read_bytes()
    assert expressed(json.loads(copy)) == expressed(json.loads(trained.champion_path.read_text()))
    shutil.rmtree(source)
    parts = neol.train("lunarlander", out=tmp_path / "parts", resume=True, **{**settings, "generations": 4})
    again = neol.train(out=tmp_path / "parts", resume=True)  # finished: chosen once more
    for name in ("history.csv", "champion.json", "start.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()
    assert again.summary.champion_return_mean == whole.summary.champion_return_mean
    assert whole.config.rollout.normalize_observations and whole.config.plasticity.rule == "oja"
    with np.load(whole.path / "checkpoint.npz") as checkpoint:
        seen = float(checkpoint["seen.n"][0])
    assert seen == json.loads(copy)["interface"]["normalization"]["count"] + whole.history["env_steps"][-1]


def test_the_summary_says_what_the_start_returned_on_the_same_episodes(plain: neol.Run, tmp_path: Path) -> None:
    run = neol.train("cartpole", out=tmp_path / "run", start=plain, rule="none", generations=2, **TINY)
    s = run.summary
    assert isinstance(s, neol.training.summary.NeolSummary) and s.start_return_mean is not None  # type: ignore[attr-defined]
    stored = json.loads((run.path / "summary.json").read_text())
    assert {"start_return_mean", "start_return_ci95", "champion_is_start"} <= stored.keys()
    assert (
        not {"start_return_mean", "champion_is_start"} & json.loads((plain.path / "summary.json").read_text()).keys()
    )  # nothing of it where there was no start


def test_where_the_run_finds_nothing_better_the_start_stays_champion(trained: neol.Run, tmp_path: Path) -> None:
    """All that the run itself has to offer is ruined by mutation; scaling goes on, but the start keeps its own."""
    ruin = {"weight_replace_rate": 1.0, "weight_mutate_rate": 0.0, "weight_init_stdev": 30.0, "elitism": 0}
    settings = {**TINY, **ruin, "champion_trials": 20, "champion_episodes": 30}
    run = neol.train("lunarlander", out=tmp_path / "run", start=trained, rule="hebb", generations=3, **settings)
    assert run.summary.champion_is_start
    assert run.summary.champion_return_mean == run.summary.start_return_mean
    now, before = (json.loads(p.read_text()) for p in (run.champion_path, trained.champion_path))
    assert expressed(now) == expressed(before)
    assert now["interface"]["normalization"] == before["interface"]["normalization"]


def test_moments_that_a_scaling_is_made_of_go_on_where_they_were() -> None:
    rng = np.random.default_rng(0)
    one, two = (
        no_moments(1, 3)._replace(n=np.array([50.0]), mean=rng.normal(size=(1, 3)), m2=rng.uniform(1, 9, (1, 3)))
        for _ in range(2)
    )
    one.m2[0, 1] = two.m2[0, 1] = 0.0  # an input that never varied
    two.mean[0, 1] = one.mean[0, 1]
    whole, again = merged(one, two), merged(to_moments(from_moments(one), 50.0), two)
    for a, b in zip(whole, again, strict=True):
        assert a == pytest.approx(b, rel=1e-12)
    assert to_moments(from_moments(no_moments(1, 3)), 0.0).n[0] == 0.0


def test_a_champion_from_before_the_count_was_stored_has_a_usual_one(trained: neol.Run, tmp_path: Path) -> None:
    document = json.loads(trained.champion_path.read_text())
    del document["interface"]["normalization"]["count"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    seen = read_start(tmp_path / "old.json").seen
    assert seen is not None and seen.n[0] == USUAL_COUNT
    document["interface"]["normalization"]["count"] = -3
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(NeolError, match="normalization has count = -3; it must be a number, 0 or more"):
        read_start(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("task", "more", "words"),
    [
        ("cartpole", {}, "it has 8 inputs and 2 outputs, but task 'cartpole' has 4 and 2"),
        ("hopper", {}, "it has 8 inputs and 2 outputs, but task 'hopper' has 11 and 3"),
        ("lunarlander", {"normalize_observations": False}, "normalize_observations = false is not allowed; .* was tra"),
        ("lunarlander", {"outer": "hedge"}, "start = .* is not allowed; outer = hedge selects"),
        ("lunarlander", {"start": "nowhere.json"}, "cannot read 'nowhere.json'"),
    ],
)
def test_what_cannot_be_started_from_is_one_sentence_and_leaves_nothing(
    trained: neol.Run, tmp_path: Path, task: str, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(NeolError, match=words):
        neol.train(task, out=tmp_path / "run", generations=1, **{"start": trained, **more}, **TINY)
    assert not (tmp_path / "run").exists()
    with pytest.raises(NeolError, match="has no champion.json to start from"):
        neol.train(task, out=tmp_path / "run", generations=1, start=tmp_path, **TINY)


def test_a_recurrent_champion_makes_a_recurrent_run_unless_that_is_refused(tmp_path: Path) -> None:
    one = neol.train("cartpole", out=tmp_path / "one", rule="none", generations=1, feed_forward=False, **TINY)
    assert not neol.configure("cartpole", start=str(one.path)).config.neat.feed_forward
    with pytest.raises(NeolError, match="feed_forward = true is not allowed; the network of .* is recurrent"):
        neol.configure("cartpole", start=str(one.path), feed_forward=True)
    document = json.loads(one.champion_path.read_text())
    document["metadata"].pop("generator")
    (tmp_path / "theirs.json").write_text(network_json.dump(document))
    with pytest.raises(NeolError, match="a recurrent network of another program"):
        read_start(tmp_path / "theirs.json")


def test_another_start_at_a_resume_is_refused_and_so_is_a_start_json_that_is_not_the_runs(
    plain: neol.Run, tmp_path: Path
) -> None:
    settings = {**TINY, "rule": "none"}
    neol.train("cartpole", out=tmp_path / "run", start=plain, generations=1, **settings)
    with pytest.raises(NeolError, match="start = .*other is not allowed with resume=True; .* was run with start ="):
        shutil.copytree(plain.path, tmp_path / "other")
        neol.train(out=tmp_path / "run", resume=True, start=tmp_path / "other", generations=2)
    file = tmp_path / "run" / "start.json"
    document = json.loads(file.read_text())
    document["nodes"][0]["bias"] += 1.0
    file.write_text(json.dumps(document))
    with pytest.raises(NeolError, match=r"start\.json' is not what the run began from"):
        neol.train(out=tmp_path / "run", resume=True, generations=2)
    file.unlink()
    with pytest.raises(NeolError, match=r"start\.json' is missing"):
        neol.train(out=tmp_path / "run", resume=True, generations=2)


def test_a_run_can_be_overwritten_by_one_that_begins_from_its_own_champion(plain: neol.Run, tmp_path: Path) -> None:
    shutil.copytree(plain.path, tmp_path / "run")
    out = tmp_path / "run"
    run = neol.train("cartpole", out=out, start=out, overwrite=True, rule="none", generations=1, **TINY)
    assert expressed(json.loads((out / "start.json").read_text())) == expressed(
        json.loads(plain.champion_path.read_text())
    )
    assert run.summary.start_return_mean == pytest.approx(run.summary.champion_return_mean, abs=500)
    neol.train("cartpole", out=out, overwrite=True, rule="none", generations=1, **TINY)
    assert not (out / "start.json").exists()


def test_a_loop_of_ones_own_is_given_the_start(plain: neol.Run) -> None:
    problem = problem_of(neol.configure("cartpole", start=str(plain.path)))
    assert problem.start is not None and len(problem.start.n_nodes) == 1
    assert genes(take(problem.start, [0]), 0) == genes(read_start(plain.path).genome, 0)
    assert problem_of(neol.configure("cartpole")).start is None


def test_the_command_line_calls_it_from(plain: neol.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--{k.replace('_', '-')}={v}" for k, v in TINY.items()]
    out = tmp_path / "run"
    words = ["train", "cartpole", "--from", str(plain.path), "--rule", "none", "--generations", "1", "--out", str(out)]
    assert main([*words, "--quiet", *options]) == 0
    assert "the start's, on the same episodes" in capsys.readouterr().out
    assert neol.load(out).config.run.start == str(plain.path)
    assert main(["train", "hopper", "--from", str(plain.path), "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(f"neol: cannot start from '{plain.champion_path}': it has 4 inputs")


def test_a_champion_whose_scaling_was_never_learned_says_nothing_about_the_spread_of_inputs(tmp_path: Path) -> None:
    small: dict[str, Any] = {"generations": 1, "es_population": 6, "max_steps": 20, "champion_trials": 1,
                             "champion_episodes": 2, "threads": 1, "max_env_steps": 0, "outer": "es"}  # fmt: skip
    first = neol.train("cartpole", out=tmp_path / "first", normalize_share=0.0, **small)
    assert first.champion.interface["normalization"]["count"] == 0.0
    assert read_start(first.path).seen.n[0] == 0.0
    second = neol.train("cartpole", out=tmp_path / "second", start=first, **{**small, "generations": 6})
    assert 0.0 < crafted.read(second.path)["seen.n"][0] < 1e5
