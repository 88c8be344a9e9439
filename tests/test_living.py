"""A life that is touched while it is lived: the same kernels, and a written list of changes that lives it again."""

from __future__ import annotations

import dataclasses
from contextlib import closing

import numpy as np
import pytest
from live_client import champion

from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.registry import make
from neol.envs.tasks import CHANGING_TASKS, TASKS, Task
from neol.errors import NeolError
from neol.live.living import LiveLife, Now
from neol.live.scene import drawing
from neol.live.stage import SHARE, LifeStage
from neol.rollout.gymnasium_episode import one_life
from neol.rollout.life import life_of
from neol.rollout.world import world_of


def lived(
    net: PlasticNetwork, task: Task, texts: list[str], seed: int, trials: int = 1
) -> list[tuple[float, np.ndarray]]:
    """Return and weights after every step, by the function of training."""
    life = life_of(task, net.settings, net.normal, world_of(task, texts, 80, trials))
    moments = one_life(task, net.network.phenotype, life, seed, 80, trials=trials)
    return [(m.total, m.weights.copy()) for m in moments]


TOUCHES: list[tuple[int, str]] = [
    (7, "action invert of=0"), (13, "observation noise=0.2"), (21, "action delay=3"), (26, "observation stuck of=1"),
    (34, "reward sign"), (40, "observation delay=2 of=0"), (45, "action gain=0.4"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["lunarlander", "cartpole"])
def test_a_life_that_is_touched_is_lived_again_from_what_was_written_down(name: str) -> None:
    task = TASKS[name]
    net = champion(task)
    with closing(make(task)) as env:
        life = LiveLife(net, task, env, 80)
        life.begin(3)
        seen = [(life.total, life.now.weights.copy())]
        while not life.over:
            for at, text in TOUCHES:
                if at == life.step_count:
                    assert f" from={at + 1}" in life.change(text) or " delay" in text or "stuck" in text
            if life.step_count == 50:
                life.end_change(0)
            life.step()
            seen.append((life.total, life.now.weights.copy()))
    again = lived(net, task, life.texts, 3)
    assert len(again) == len(seen)
    if name == "lunarlander":  # the cart's pole may have fallen before
        assert len(life.texts) == len(TOUCHES)
        assert life.texts[0] == "action invert of=0 from=8 to=51"
    for (total, weights), (same, as_well) in zip(seen, again, strict=True):
        assert total == same
        assert np.array_equal(weights, as_well)


def test_attributes_of_the_environment_are_changed_while_it_is_lived_in_and_set_back() -> None:
    task = TASKS["lunarlander"]
    net = champion(task)
    with closing(make(task)) as env:
        life = LiveLife(net, task, env, 80)
        before = tuple(env.unwrapped.world.gravity)
        for _ in range(5):
            life.step()
        life.change("env world.gravity=[0,-2]")
        for _ in range(3):
            life.step()
        assert tuple(env.unwrapped.world.gravity) == (0.0, -2.0)
        life.end_change(0)
        life.step()
        life.step()
        assert tuple(env.unwrapped.world.gravity) == before
        with pytest.raises(NeolError, match="does not take nowhere"):
            life.change("env nowhere=1")
        assert len(life.texts) == 1


def test_a_frozen_life_keeps_its_weights_and_learns_again_when_it_may() -> None:
    task = TASKS["lunarlander"]
    with closing(make(task)) as env:
        life = LiveLife(champion(task), task, env, 80)
        for _ in range(5):
            life.step()
        life.learn_by(rule="none")
        frozen = life.now.weights.copy()
        for _ in range(5):
            life.step()
        assert np.array_equal(life.now.weights, frozen)
        life.learn_by(rule="oja", lr=0.1)
        life.step()
        assert not np.array_equal(life.now.weights, frozen)
        with pytest.raises(NeolError, match="rule"):
            life.learn_by(rule="magic")
        assert life.settings.rule == "oja"


def test_a_life_of_several_trials_keeps_its_weights_and_goes_through_all_of_them() -> None:
    task = CHANGING_TASKS["tmaze"]
    net = champion(task)
    with closing(make(task)) as env:
        life = LiveLife(net, task, env, 80, trials=3)
        life.begin(1)
        totals: dict[int, float] = {}
        while not life.over:
            life.step()
            totals[life.trial] = life.total
        end = life.now.weights.copy()
    again = lived(net, task, [], 1, trials=3)
    assert sorted(totals) == [0, 1, 2]
    assert again[-1][0] == totals[2]
    assert np.array_equal(again[-1][1], end)


def test_a_drawing_has_a_place_for_every_node_and_a_value_for_what_lives() -> None:
    task = TASKS["lunarlander"]
    net = champion(task)
    drawn = drawing(net.network)
    with closing(make(task)) as env:
        now: Now = LiveLife(net, task, env, 80).now
    assert len(drawn["edges"]) == len(now.weights)
    assert [e["weight"] for e in drawn["edges"]] == now.weights.tolist()
    by_id = {n["id"]: n for n in drawn["nodes"]}
    assert {n["name"] for n in drawn["nodes"] if n["kind"] == "input"} == set(task.inputs)
    places = sorted(n["value"] for n in drawn["nodes"])
    assert places == list(range(len(now.values)))
    assert all(0 <= n["x"] <= 1 and 0 <= n["y"] <= 1 for n in drawn["nodes"])
    assert not next(e for e in drawn["edges"] if e["from"] == e["to"])["forward"]
    assert by_id[100]["kind"] == "hidden"


def test_two_lives_have_the_same_seed_and_part_where_one_learns() -> None:
    stage = LifeStage(champion(TASKS["lunarlander"]))
    stage.set_lives(2)
    stage.reset(5)
    first, _ = stage.frame()
    assert first["lives"][0]["values"] == first["lives"][1]["values"]
    stage.change("action invert of=side")
    for _ in range(40):
        stage.step()
    frame, pictures = stage.frame()
    plastic, frozen = frame["lives"]
    assert (plastic["rule"], frozen["rule"]) == ("hebb", "none")
    assert plastic["weights"] != first["lives"][0]["weights"]
    assert frozen["weights"] == first["lives"][1]["weights"]
    assert [p[:2] for p in pictures] == [b"\xff\xd8"] * 2  # JPEG
    assert frame["changes"] == [{"text": "action invert of=side from=1", "on": True}]
    stage.close()


def test_a_task_without_pictures_says_so_and_plays() -> None:
    stage = LifeStage(champion(CHANGING_TASKS["bandit"]))
    told = stage.describe()
    assert not told["pictures"]
    assert "bandit" in told["why_no_pictures"]
    stage.step()
    frame, pictures = stage.frame()
    assert pictures == []
    assert frame["lives"][0]["step"] == 1
    stage.close()


def test_frames_are_rarer_where_they_cost_more_and_the_pace_of_steps_stays() -> None:
    stage = LifeStage(champion(TASKS["lunarlander"]))
    for cost in (0.001, 0.05):
        stage.reset(0)
        stage._cost = cost
        now, frames = 0.0, 0
        while now < 0.59:  # 30 steps: it is still in the air
            stage.advance(now)
            frames += 1
            wait = stage.wait(now)
            assert wait is not None
            now += wait
        assert frames == pytest.approx(0.6 * min(30.0, SHARE / cost), abs=1.5)
        assert stage.lives[0].step_count == pytest.approx(30, abs=10)
    stage.close()


def test_what_a_file_names_is_not_imported_for_a_life() -> None:
    net = champion(TASKS["cartpole"])
    document = {**net.network.document, "interface": {**net.interface, "task": "this:that"}}
    with pytest.raises(NeolError, match="import the module 'this'"):
        LifeStage(PlasticNetwork.from_json(document))


def test_the_champion_is_left_as_it_is() -> None:
    net = champion(TASKS["cartpole"])
    before = dataclasses.replace(net.settings)
    stage = LifeStage(net)
    stage.learn_by(0, {"rule": "none"})
    assert net.settings == before
    stage.close()


def test_what_the_page_offers_to_change_is_there_and_acts() -> None:
    stage = LifeStage(champion(TASKS["lunarlander"]))
    offered = {o["name"]: o["text"] for o in stage.describe()["offered"]}
    assert set(offered) == {"gravity", "side wind"}
    for text in offered.values():
        ends = []
        for changed in (False, True):
            stage.reset(0)
            if changed:
                stage.change(text)
            for _ in range(30):
                stage.step()
            ends.append(stage.frame()[0]["lives"][0]["values"])
        assert ends[0] != ends[1]
    stage.close()
    pole = LifeStage(champion(TASKS["cartpole"]))
    assert {o["name"] for o in pole.describe()["offered"]} == {"gravity", "pole length", "force"}
    pole.close()
