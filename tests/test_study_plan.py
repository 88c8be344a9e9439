"""A study's file: what it becomes, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from neol.cli.main import main
from neol.errors import NeolError
from neol.studies.plan import bundled_studies, canonical, cells, differences, key_of, parse_plan, read_plan
from neol.training.configure import configure

HEAD = '[study]\ntasks = ["cartpole"]\nseeds = 2\n'
ARM = '[[arm]]\nname = "hebb"\nrule = "hebb"\n'


def test_arms_inherit_from_one_base_and_the_more_special_setting_wins() -> None:
    plan = parse_plan(
        """
        [study]
        tasks = ["cartpole", "lunarlander"]
        seeds = [3]
        [budget]
        generations = 7
        [base]
        pop_size = 20
        bcm_tau = 0.1
        [[arm]]
        name = "a"
        rule = "bcm"
        [[arm]]
        name = "b"
        rule = "bcm"
        pop_size = 30
        [task.lunarlander]
        pop_size = 40
        generations = 9
        [task.lunarlander.arm.b]
        pop_size = 50
        """
    )
    found = {(c.task, c.arm): c.config for c in cells(plan) if not c.control_of}
    sizes = {k: (c.neat.pop_size, c.run.generations) for k, c in found.items()}
    assert sizes == {
        ("cartpole", "a"): (20, 7), ("cartpole", "b"): (30, 7),
        ("lunarlander", "a"): (40, 9), ("lunarlander", "b"): (50, 9),
    }  # fmt: skip
    assert all(c.plasticity.bcm_tau == 0.1 and c.run.seed == 3 for c in found.values())
    assert differences(found["cartpole", "a"], found["cartpole", "b"]) == {"pop_size": (20, 30)}


def test_every_plastic_arm_has_its_matched_control_unless_switched_off() -> None:
    arms = ARM + '[[arm]]\nname = "none"\nrule = "none"\n[[arm]]\nname = "alone"\nrule = "oja"\ncontrol = false\n'
    found = list(cells(parse_plan(HEAD + arms)))
    assert [(c.arm, c.control_of) for c in found if c.seed == 0] == [
        ("hebb", ""), ("hebb-control", "hebb"), ("none", ""), ("alone", ""),
    ]  # fmt: skip
    hebb, control = found[0].config, found[1].config
    assert differences(hebb, control) == {"lr": (0.25, 0.0)}
    oja, its_control = (c.config for c in cells(parse_plan(HEAD + ARM.replace("hebb", "oja"))) if c.seed == 0)
    assert differences(oja, its_control) == {"lr": (0.25, 0.0)}
    assert not any(c.control_of for c in cells(parse_plan(HEAD + "control = false\n" + ARM)))


def test_configurations_that_mean_the_same_share_a_run() -> None:
    arms = "".join(f'[[arm]]\nname = "{r}"\nrule = "{r}"\n' for r in ("none", "hebb", "oja", "bcm"))
    plan = parse_plan(HEAD + arms + "[grid]\npop_size = [20, 30]\nlr = [0.1, 0.2]\n")
    found = list(cells(plan))
    assert len(found) == 2 * 4 * (4 + 3)  # seeds x places of the grid x (arms + controls)
    keys = {c.key for c in found}
    # per seed and population: none once, the three controls together once, three rules at two rates
    assert len(keys) == 2 * 2 * (1 + 1 + 3 * 2)
    of = {(c.arm, c.point["pop_size"], c.point["lr"]): c.key for c in found if c.seed == 0}
    assert of["hebb-control", 20, 0.1] == of["bcm-control", 20, 0.2] != of["none", 20, 0.1] == of["none", 20, 0.2]


def test_a_runs_key_names_what_it_computes_and_not_who_computes_it() -> None:
    config = configure("cartpole", rule="oja", lr=0.1).config
    assert key_of(config) == key_of(config.replace(threads=7, executor="ray", tensorboard=True))
    other = [config.replace(seed=1), config.replace(lr=0.2), config.replace(generations=3), config.replace(pop_size=30)]
    assert len({key_of(c) for c in (config, *other)}) == 5


def test_what_lr_0_makes_idle_is_no_difference_but_the_weight_limit_is() -> None:
    hebb = configure("cartpole", rule="hebb", lr=0.0).config
    assert canonical(configure("cartpole", rule="bcm", lr=0.0, bcm_tau=0.5).config) == canonical(hebb)
    assert canonical(configure("cartpole", rule="bcm", reward_scale=0.0).config) == canonical(hebb)
    assert canonical(hebb.replace(weight_limit=3.0)) != canonical(hebb)  # the projection acts at lr = 0 too
    assert canonical(hebb.replace(rule="none", weight_limit=3.0)) == canonical(hebb.replace(rule="none"))


def test_scale_multiplies_every_budget_and_leaves_at_least_one() -> None:
    plan = parse_plan(HEAD + ARM + "[budget]\ngenerations = 50\nmax_env_steps = 1000\n")
    budgets = [next(cells(plan, s)).config.run for s in (0.1, 0.001)]
    assert [(b.generations, b.max_env_steps) for b in budgets] == [(5, 100), (1, 1)]
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(NeolError, match="scale = "):
            next(cells(plan, bad))


def test_scale_multiplies_what_is_a_part_of_a_budget() -> None:
    plan = parse_plan(HEAD.replace("cartpole", "bipedalwalker") + ARM + 'outer = "es"\n')
    whole, fifth = (next(cells(plan, s)).config for s in (1.0, 0.2))
    assert fifth.es.es_round == whole.es.es_round // 5 > 1
    assert fifth.rollout.whole_episodes_after == whole.rollout.whole_episodes_after // 5 > 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[study", "not valid TOML"),
        (ARM, "needs a table [study]"),
        (HEAD, "needs at least one [[arm]]"),
        ("study = 3\n", "needs a table [study]"),
        (HEAD + '[[arm]]\nname = "a"\nrulle = "hebb"\n', "arm 'a' has an unknown key 'rulle'; did you mean 'rule'"),
        (HEAD + '[[arm]]\nname = "a"\nrule = "heb"\n', "arm 'a': rule = 'heb' is not allowed"),
        (HEAD + '[[arm]]\nname = "a"\nseed = 3\n', "unknown key 'seed'"),
        (HEAD + '[[arm]]\nname = "a"\nthreads = 3\n', "unknown key 'threads'"),
        (HEAD + '[[arm]]\nname = ""\n', "arm name = '' is not allowed"),
        (HEAD + '[[arm]]\nname = "a/b"\n', "arm name = 'a/b' is not allowed"),
        (HEAD + '[[arm]]\nname = "a-control"\n', "arm name = 'a-control' is not allowed"),
        (HEAD + ARM + ARM, "two arms with the name 'hebb'"),
        (HEAD + ARM + "[grid]\n", "[grid] is empty"),
        (HEAD + ARM + "[grid]\nlr = []\n", "[grid] lr = [] is not allowed"),
        (HEAD + ARM + "[grid]\nlr = 3\n", "[grid] lr = 3 is not allowed"),
        (HEAD + ARM + "[grid]\nlr = [0.1, 0.1]\n", "[grid] lr has the same value twice"),
        (HEAD + ARM + "[grid]\nlrr = [0.1]\n", "[grid] has an unknown key 'lrr'"),
        (HEAD.replace("2", "[1, 2, 1]") + ARM, "seeds has 1 twice"),
        (HEAD.replace("2", "0") + ARM, "seeds = 0 is not allowed"),
        (HEAD.replace("2", "[]") + ARM, "seeds = [] is not allowed"),
        (HEAD.replace("2", "[-1]") + ARM, "seed = -1 is not allowed"),
        (HEAD.replace("2", "true") + ARM, "seeds = True is not allowed"),
        (HEAD + ARM + "[budget]\ngenerations = 0\n", "generations = 0 is not allowed; a budget must be at least 1"),
        (HEAD + ARM + "[budget]\nmax_env_steps = 0\n", "max_env_steps = 0 is not allowed; a budget must be at least 1"),
        (HEAD + ARM + "[budget]\npop_size = 10\n", "[budget] has an unknown key 'pop_size'"),
        (HEAD + ARM + "[base]\npop_size = 1\n", "pop_size = 1 is not allowed"),
        (HEAD + ARM + "[task.hopper]\nlr = 1\n", "[task] has an unknown task 'hopper'"),
        (HEAD + ARM + "[task.cartpole.arm.oja]\nlr = 1\n", "unknown arm 'oja'"),
        (HEAD + ARM + "[task.cartpole]\nlr = -1\n", "lr = -1.0 is not allowed"),
        (HEAD.replace('["cartpole"]', "[]") + ARM, "tasks = [] is not allowed"),
        (HEAD.replace('["cartpole"]', '["cartpole", "cartpole"]') + ARM, "tasks has 'cartpole' twice"),
        (HEAD.replace("cartpole", "cartpol") + ARM, "cartpol"),
        (HEAD + 'reference = "neat"\n' + ARM, "reference = 'neat' is no arm"),
        (HEAD + 'preset = "papre"\n' + ARM, "unknown preset 'papre'"),
        (HEAD + "control = 3\n" + ARM, "control = 3 is not allowed"),
        (HEAD + "sedes = 3\n" + ARM, "[study] has an unknown key 'sedes'; did you mean 'seeds'"),
        (HEAD + ARM + "[nonsense]\n", "unknown table 'nonsense'"),
        (HEAD + ARM + "[task]\ncartpole = 3\n", "[task.cartpole] must be a table of settings"),
        (HEAD + ARM + 'label = "_x"\n', "label = '_x' is not allowed"),
    ],
)
def test_a_bad_study_file_is_one_sentence_that_names_the_fault(text: str, words: str) -> None:
    with pytest.raises(NeolError) as e:
        parse_plan(text, "my.toml")
    assert words in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", bundled_studies())
def test_the_bundled_studies_are_valid(name: str) -> None:
    plan = read_plan(name)
    found = list(cells(dataclasses.replace(plan, seeds=plan.seeds[:1]), 0.01))  # a seed is a number, checked already
    assert {c.task for c in found} == set(plan.tasks)
    assert {c.arm for c in found if not c.control_of} == {a.name for a in plan.arms}


def test_a_study_is_found_by_path_first_and_then_by_its_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_plan("paper/smoke") == read_plan("paper/smoke.toml") == read_plan(bundled_studies()["paper/smoke"])
    (tmp_path / "paper" / "smoke").mkdir(parents=True)  # a folder is no study
    assert read_plan("paper/smoke").title == "Smoke: everything, small"
    (tmp_path / "paper" / "smoke.toml").write_text(HEAD + ARM, encoding="utf-8")
    assert read_plan("paper/smoke.toml").title == "smoke" != read_plan("paper/smoke").title
    for name in ("paper/smok", str(tmp_path / "paper")):
        with pytest.raises(NeolError, match=r"there is no file .*, and no bundled study .*Valid: .*paper/smoke"):
            read_plan(name)


def test_study_list_shows_every_bundled_study_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(bundled_studies())
    assert "paper/smoke                  Smoke: everything, small" in lines


def test_the_papers_tables_are_set_as_the_paper_says() -> None:
    """Table 1 (best configurations), Table 2 (10 million steps) and docs/method.md's rates of weight mutation."""
    four = {(c.task, c.arm): c.config for c in cells(read_plan("paper/table4")) if c.seed == 0}
    assert {c.run.generations for c in four.values()} == {500}
    plastic = {k: c for k, c in four.items() if k[1] in ("hebb", "oja", "bcm")}
    assert {k: (c.neat.pop_size, c.plasticity.lr) for k, c in plastic.items()} == {
        ("cartpole", "bcm"): (50, 0.00025), ("cartpole", "hebb"): (50, 0.00025), ("cartpole", "oja"): (50, 0.00025),
        ("lunarlander", "bcm"): (300, 0.25), ("lunarlander", "hebb"): (300, 0.00025),
        ("lunarlander", "oja"): (300, 0.0025),
        ("hopper", "bcm"): (300, 0.025), ("hopper", "hebb"): (300, 0.00025), ("hopper", "oja"): (300, 0.0025),
        ("bipedalwalker", "bcm"): (300, 0.00025), ("bipedalwalker", "hebb"): (200, 0.00025),
        ("bipedalwalker", "oja"): (300, 0.00025),
    }  # fmt: skip
    assert [four[t, "neat"].neat.pop_size for t in ("cartpole", "lunarlander", "hopper", "bipedalwalker")] == [
        50, 300, 300, 100,
    ]  # fmt: skip
    three = {(c.task, c.arm): c.config for c in cells(read_plan("paper/figure3-10m")) if c.seed == 0}
    sizes = {k: c.neat.pop_size * c.run.generations for k, c in three.items()}
    assert set(sizes.values()) == {10_000}  # x T_max = 1000 is ten million
    assert three["bipedalwalker", "hebb"].neat.pop_size == 100 and three["bipedalwalker", "oja"].neat.pop_size == 50
    rates = {a: (c.neat.weight_mutate_rate, c.neat.weight_replace_rate) for (t, a), c in three.items() if t == "hopper"}
    assert rates["neat"] == (0.8, 0.1) and rates["hebb"] == rates["hebb-control"] == (0.05, 0.02)
