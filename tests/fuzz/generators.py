"""Bad inputs by the thousand: a family for every kind of file and for the command line, named by (seed, number).

A case is a function of a generator, the folder with good files, and a folder of its own. It returns True where NEOL
accepted what it was given, raises a NeolError where NEOL refused it; anything else is a fault of ours.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' own helpers
import crafted
import tampered

import neol
from neol.baselines.policy import load_policy
from neol.cli.main import main
from neol.config.changes import KINDS, WHATS
from neol.config.schema import Config
from neol.deploy.plastic_network import PlasticNetwork
from neol.errors import LONGEST, NeolError
from neol.figures.curve import draw_curve
from neol.figures.network import draw_network
from neol.report.analysis import analyse
from neol.report.report import make_report
from neol.report.tables import comparisons_csv, latex, results_table, to_csv
from neol.studies.plan import parse_plan
from neol.studies.study import Study
from neol.studies.study import to_csv as rows_csv
from neol.training import run_folder
from neol.training.configure import configure, resolve
from neol.training.loop import Training
from neol.training.session import _restore
from neol.training.start import kept_start

Rng = np.random.Generator
SMALL: dict[str, Any] = {
    "pop_size": 6, "elitism": 1, "generations": 2, "episodes": 1, "champion_candidates": 2, "champion_trials": 1,
    "champion_episodes": 2, "max_steps": 20, "node_add_prob": 0.5, "threads": 1,
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, 1e-320, "", "x", "hebb", "none",
    "tanh", "../../x", "\x00", "\x1b[31m", "x" * 3000, "os:system", "python:f", [], {}, [[]], [0], {"a": 1}, ["x", 1],
    [None] * 3,
)  # fmt: skip
WORDS = (
    "=", "[", "]", "{", "}", '"', "'", ",", "\n", "#", "true", "nan", "inf", "-", "1e999", "0", "9" * 400, "[[arm]]",
    "[run]", "\x00", "\ud7ff", "é", "../", "os:system", "task", "rule", "lr", "[grid]", "$", "\\", "%(x)s", "\t",
)  # fmt: skip


SETTINGS = (
    "0", "1", "2", "10", "-1", "0.5", "-0.5", "1e308", "nan", "inf", "-inf", "9223372036854775807",
    "99999999999999999999", "true", "false", '"x"', '""', '"hebb"', '"none"', '"tanh"', '"\\u0000"', '"../x"',
    '"os:system"', '"python:f"', "[]", "[1]", '["x"]', '["tanh", "relu"]', "{a = 1}", "1979-05-27", '"a=1"',
    '"auto"', '"envpool"', '"gymnasium"', '"cartpole"',
)  # fmt: skip


def pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def mutated_tree(value: Any, rng: Rng) -> Any:
    """A JSON value after a few deletions, replacements and copies somewhere in it."""
    value = copy.deepcopy(value)
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(value))
        if not places:
            break
        container, key = pick(rng, places)
        way = int(rng.integers(4))
        if way == 0:
            del container[key]
        elif way == 1 and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        elif way == 2:
            other, at = pick(rng, places)
            with contextlib.suppress(KeyError, IndexError):
                container[key] = copy.deepcopy(other[at])
        else:
            container[key] = pick(rng, VALUES)
    return value


def _places(value: Any) -> Any:
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def mutated_text(text: str, rng: Rng) -> str:
    """A text with pieces deleted, doubled, moved, or odd words in it."""
    for _ in range(int(rng.integers(1, 4))):
        a, b = sorted(rng.integers(0, len(text) + 1, 2).tolist())
        b = min(b, a + int(rng.integers(1, 40)))
        way = int(rng.integers(4))
        if way == 0:
            text = text[:a] + text[b:]
        elif way == 1:
            text = text[:b] + text[a:]
        elif way == 2:
            text = text[:a] + pick(rng, WORDS) + text[b:]
        else:
            text = text[:a] + pick(rng, WORDS) + text[a:]
    return text


def mutated_lines(text: str, rng: Rng) -> str:
    """A file of settings (TOML, INI) that is still one: a value is another, or a line is gone, doubled or elsewhere."""
    lines = text.splitlines()
    for _ in range(int(rng.integers(1, 4))):
        at, way = int(rng.integers(len(lines))), int(rng.integers(8))
        if way == 0:
            lines.pop(at)
        elif way == 1:
            lines.insert(int(rng.integers(len(lines))), lines[at])
        elif "=" in lines[at]:
            lines[at] = f"{lines[at].partition('=')[0]}= {pick(rng, SETTINGS)}"
        lines = lines or [""]
    return "\n".join(lines) + "\n"


def mutated_bytes(data: bytes, rng: Rng) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        if not out:
            break
        at = int(rng.integers(len(out)))
        way = int(rng.integers(3))
        if way == 0:
            out[at] ^= 1 << int(rng.integers(8))
        elif way == 1:
            del out[at : at + int(rng.integers(1, 64))]
        else:
            out = out[:at] if rng.integers(8) == 0 else out[:at] + out[at : at + 16] + out[at:]
    return bytes(out)


@contextlib.contextmanager
def unchanged_where_refused(folder: Path) -> Iterator[None]:
    """What is refused has changed no file."""
    before = {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    try:
        yield
    except NeolError:
        after = {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        assert after == before, f"refused, and yet changed: {sorted(p.name for p in {*before} ^ {*after})}"
        raise


# -- the families


def champion(rng: Rng, good: Path, folder: Path) -> bool:
    """A champion.json, read and used."""
    document = json.loads((good / "run" / run_folder.CHAMPION).read_text())
    source: Any = mutated_tree(document, rng)
    if rng.integers(4) == 0:
        (folder / "c.json").write_bytes(mutated_text(json.dumps(document), rng).encode("utf-8", "surrogatepass"))
        source = folder / "c.json"
    net = PlasticNetwork.from_json(source)
    for _ in range(3):
        assert not np.isnan(net.activate(np.ones(net.network.inputs))).any()
        net.reward(0.5)
    _, state = net.predict(np.zeros((2, net.network.inputs)))
    net.predict(np.ones((2, net.network.inputs)), state, np.zeros(2, bool))
    PlasticNetwork.from_json(net.to_json())
    if rng.integers(40) == 0:
        draw_network(net.to_json(), folder / "n.svg", net.interface.get("inputs", ()), net.interface.get("outputs", ()))
    if rng.integers(10) == 0:
        neol.evaluate(net, episodes=1, max_steps=5, threads=1)
    return True


def settings_file(rng: Rng, good: Path, folder: Path) -> bool:
    """A config.toml, or a neat-python file."""
    how = mutated_text if rng.integers(3) == 0 else mutated_lines
    if rng.integers(2):
        text = (good / "run" / run_folder.CONFIG).read_text()
        (folder / "c.toml").write_bytes(how(text, rng).encode("utf-8", "surrogatepass"))
        configure(config_file=folder / "c.toml")
        return True
    (folder / "n.ini").write_bytes(how((good / "neat.ini").read_text(), rng).encode("utf-8", "surrogatepass"))
    configure("lunarlander", neat_config=folder / "n.ini")
    return True


def study_file(rng: Rng, good: Path, folder: Path) -> bool:
    """A study's TOML. It is the user's word, so that names of environments are left as they are."""
    how = mutated_text if rng.integers(3) == 0 else mutated_lines
    parse_plan(how((good / "study.toml").read_text(), rng).replace("os:system", "cartpole"))
    return True


def damaged_checkpoint(rng: Rng, good: Path, folder: Path) -> bool:
    """The bytes of a checkpoint, changed."""
    name = pick(rng, ("run", "pool"))
    whole = (good / name / run_folder.CHECKPOINT).read_bytes()
    (folder / run_folder.CHECKPOINT).write_bytes(mutated_bytes(whole, rng))
    run_folder.read_checkpoint(folder, run_folder.read_config(good / name))
    return True


def crafted_checkpoint(rng: Rng, good: Path, folder: Path) -> bool:
    """Arrays of a checkpoint, changed, under a valid fingerprint; where it is accepted the run goes on."""
    base = good / pick(rng, ("run", "pool", "es", "neat-es", "started"))
    arrays = crafted.read(base)
    for _ in range(int(rng.integers(1, 3))):
        name = pick(rng, sorted(arrays))
        _, bad = pick(rng, list(crafted.spoiled(arrays[name], rng)))
        arrays = {k: v for k, v in {**arrays, name: bad}.items() if v is not None}
    for name in (run_folder.CONFIG, run_folder.HISTORY, run_folder.START):
        if (base / name).exists():
            shutil.copy(base / name, folder)
    crafted.write(folder, arrays)
    resolved = resolve(run_folder.read_config(folder))
    start = kept_start(folder, resolved.config, resolved.task, None, True)
    session = Training(resolved._replace(start=start), folder)
    try:
        with unchanged_where_refused(folder):
            _restore(session)
        with contextlib.suppress(NeolError):
            session.advance()
            session.write_best()
    finally:
        session.close()
    return True


def start_file(rng: Rng, good: Path, folder: Path) -> bool:
    """A stranger's champion to begin from: `--from`, or the topology of a search."""
    document = json.loads((good / "run" / run_folder.CHAMPION).read_text())
    (folder / "c.json").write_text(json.dumps(mutated_tree(document, rng)))
    how = pick(rng, ({"outer": "neat"}, {"outer": "es"}, {"outer": "es", "topology": "start"}, {"outer": "neat-es"}))
    if how["outer"] == "es" and rng.integers(2):
        said = {"outer": "es", "topology": str(folder / "c.json")}
    else:
        said = {**how, "start": str(folder / "c.json")}
    with unchanged_where_refused(folder):
        resolved = configure("cartpole", **SMALL, **said)
    session = Training(resolved, folder)
    try:
        with contextlib.suppress(NeolError):
            session.advance()
            session.write_best()
    finally:
        session.close()
    return True


def world(rng: Rng, good: Path, folder: Path) -> bool:
    """Changes of the world, from their own words and from others; where they are accepted a generation is lived."""
    changes = [" ".join(_change(rng)) for _ in range(int(rng.integers(1, 4)))]
    task = pick(rng, ("cartpole", "cartpole", "tmaze", "bandit"))
    small = {**SMALL, "trials": int(rng.integers(1, 4)), "engine": "auto"}
    session = Training(configure(task, **small, change=changes), folder)
    try:
        with contextlib.suppress(NeolError):
            session.advance()
            session.write_best()
    finally:
        session.close()
    return True


def _change(rng: Rng) -> list[str]:
    what = pick(rng, WHATS if rng.integers(8) == 0 else WHATS[:3])
    values = ("0.5", "-1", "0", "3", "1000", "1e9", "nan", "", "x", "true", "[1,2]", "1..3", "0-1", "0,1", "\x00", "é")
    odd = {"gravity": ("", None), "length": ("", 0.0), "__class__": ("", None), "step": ("", None)}
    kinds = KINDS.get(what, odd) if rng.integers(8) else {**odd, "x.y[0]": ("", None)}
    kind = pick(rng, sorted(kinds))
    words = [
        what,
        kind if kinds[kind][1] is not None else f"{kind}={pick(rng, values[:5] if rng.integers(4) else values)}",
    ]
    usual = {"of": ("0", "1", "0-1"), "p": ("0.5", "1", "0"), "from": ("0", "3", "1..3"), "to": ("5", "4..9"),
             "count": ("life", "trial", "trials"), "group": ("a", "b")}  # fmt: skip
    for name in rng.choice(sorted(usual), int(rng.integers(0, 4)), replace=False).tolist():
        words.append(f"{name}={pick(rng, usual[name] if rng.integers(8) else values)}")
    return [*words, *["each"] * int(rng.integers(5) == 0)]


def tampered_database(rng: Rng, good: Path, folder: Path) -> bool:
    """A study.sqlite, read; analysed; sometimes reported."""
    shutil.copy(good / "study" / "study.sqlite", folder)
    if rng.integers(6) == 0:
        (folder / "study.sqlite").write_bytes(mutated_bytes((folder / "study.sqlite").read_bytes(), rng))
    else:
        tampered.tamper(folder / "study.sqlite", rng)
    before = (folder / "study.sqlite").read_bytes()
    try:
        study = Study(folder)
        rows_csv(study)
        for row in study.rows[:2]:
            study.history(row.run), study.timing(row.run), study.config(row.run), study.champion(row.run)
        study.failures(), study.versions()
        if rng.integers(25) == 0:
            make_report(study, folder / "report")
        elif rng.integers(4) == 0:
            analysis = analyse(study, 0)
            to_csv(results_table(analysis)), comparisons_csv(analysis), latex(study, analysis)
    finally:
        assert (folder / "study.sqlite").read_bytes() == before, "reading changed the database"
    return True


def run_files(rng: Rng, good: Path, folder: Path) -> bool:
    """The tables and summaries of a run's folder."""
    for name in (run_folder.CONFIG, run_folder.HISTORY, run_folder.TIMING, run_folder.SUMMARY, run_folder.CHAMPION):
        shutil.copy(good / "run" / name, folder)
    name = pick(rng, (run_folder.CONFIG, run_folder.HISTORY, run_folder.TIMING, run_folder.SUMMARY))
    if name == run_folder.SUMMARY and rng.integers(2):
        (folder / name).write_text(json.dumps(mutated_tree(json.loads((folder / name).read_text()), rng)))
    else:
        how = mutated_lines if name == run_folder.CONFIG and rng.integers(2) else mutated_text
        (folder / name).write_bytes(how((folder / name).read_text(), rng).encode("utf-8", "surrogatepass"))
    run = neol.load(folder)
    _ = run.config, run.history, run.timing, run.summary, run.champion
    if rng.integers(20) == 0:
        draw_curve(run.history, folder / "c.svg", run.config.run.task)
    if rng.integers(20) == 0:
        run._repr_html_()
    return True


def policy(rng: Rng, good: Path, folder: Path) -> bool:
    """A baseline's champion.npz, as bytes."""
    arrays = {"weight0": np.zeros((4, 2), "f4"), "bias0": np.zeros(2, "f4"), "activation": np.array("tanh"),
              "output": np.array("argmax"), "mean": np.zeros(4), "var": np.ones(4)}  # fmt: skip
    if rng.integers(2):
        name = pick(rng, sorted(arrays))
        arrays = {k: v for k, v in {**arrays, name: pick(rng, list(crafted.spoiled(arrays[name], rng)))[1]}.items()
                  if v is not None}  # fmt: skip
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    data = file.getvalue() if rng.integers(2) else mutated_bytes(file.getvalue(), rng)
    (folder / "champion.npz").write_bytes(data)
    load_policy(folder).act(np.zeros((3, 4)))
    return True


def command_line(rng: Rng, good: Path, folder: Path) -> bool:
    """Words for `neol`: what would run for long is left out."""
    names = [
        n for n in Config().flat() if n not in ("executor", "ray_address", "task", "workers", "tensorboard", "outer")
    ]
    values = [
        "",
        "--",
        "-1",
        "0",
        "1_000",
        "1e400",
        "nan",
        "-inf",
        "x",
        "\udcff",
        "true",
        "9" * 400,
        "a=1",
        "[]",
        "../x",
        "0.5",
    ]
    words: list[str] = ["train", "cartpole", "--out", str(folder / "r"), "--quiet", "--generations", "1"]
    words += ["--champion-trials", "1", "--champion-episodes", "2", "--champion-candidates", "1", "--episodes", "1"]
    kind = int(rng.integers(6))
    if kind == 0:
        words = [
            "evaluate",
            str(good / "run"),
            "--episodes",
            pick(rng, values),
            "--seed",
            pick(rng, values),
            "--max-steps",
            "5",
        ]
    elif kind == 1:
        words = [pick(rng, ("draw", "export", "replay")), pick(rng, values), "--out", pick(rng, values)]
    elif kind == 2:
        words = ["study", pick(rng, ("status", "export", "export", "run", "list", "x")), pick(rng, values)]
        words += [f"--csv={pick(rng, values)}"] * (words[1] == "export")
    elif kind == 3:
        words = ["report", pick(rng, values), "--seed", pick(rng, values)]
    else:
        small = {"pop_size": "4", "elitism": "1", "max_steps": "5"}
        for name in rng.choice(names, int(rng.integers(1, 3)), replace=False).tolist():
            small.pop(name, None)
            option, value = f"--{name.replace('_', '-')}", pick(rng, values)
            words += [f"{option}={value}"] if rng.integers(2) else [option, value]
        words += [w for k, v in small.items() for w in (f"--{k.replace('_', '-')}", v)]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(folder):
        try:
            code = main(words)
        except SystemExit as e:
            code = int(e.code or 0)
    if code == 2:
        assert not [*folder.iterdir()], (words, "refused, and yet there are files", [*folder.iterdir()])
        text = said.getvalue().rstrip("\n")
        assert text.startswith("neol: ") and "\n" not in text and len(text) < LONGEST + 20, (words, text[:300])
        raise NeolError(text)
    assert code in (0, 1), (words, code)
    return True


FAMILIES: dict[str, tuple[int, Callable[[Rng, Path, Path], bool]]] = {  # name -> how often, and what
    "champion.json": (20, champion),
    "crafted checkpoint": (14, crafted_checkpoint),
    "damaged checkpoint": (8, damaged_checkpoint),
    "start file": (4, start_file),
    "world": (4, world),
    "study database": (14, tampered_database),
    "study file": (12, study_file),
    "settings": (10, settings_file),
    "run's files": (8, run_files),
    "policy": (3, policy),
    "command line": (3, command_line),
}
_TURN = [name for name, (often, _) in FAMILIES.items() for _ in range(often)]


def family(number: int) -> str:
    """The family of a case: in a hundred in a row, each as often as it should be."""
    return _TURN[(number * 37) % len(_TURN)]


def make_good(folder: Path, neat_file: Path) -> None:
    """The good files that bad ones are made from."""
    neol.train("cartpole", out=folder / "run", **SMALL)
    neol.train("cartpole", out=folder / "pool", outer="hedge", pool=5, normalize_observations=True, **SMALL)
    neol.train("cartpole", out=folder / "es", outer="es", **SMALL)
    neol.train("cartpole", out=folder / "neat-es", outer="neat-es", **SMALL)
    neol.train("cartpole", out=folder / "started", outer="es", es="ars", start=str(folder / "run"), **SMALL)
    from small_study import small_study

    text = small_study(("none", "hebb"), generations=2).replace('"cartpole", "lunarlander"', '"cartpole"')
    (folder / "study.toml").write_text(text, encoding="utf-8")
    assert main(["study", "run", str(folder / "study.toml"), "--out", str(folder / "study"), "--quiet"]) == 0
    shutil.copy(neat_file, folder / "neat.ini")


def play(seed: int, number: int, good: Path, work: Path) -> tuple[str, str]:
    """One case -> (accepted | refused | fault, what was wrong). Nothing may be written but into its own folder."""
    folder = work / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = sorted(p.name for p in work.iterdir())
    rng = np.random.default_rng([seed, number])
    try:
        FAMILIES[family(number)][1](rng, good, folder)
        outcome, why = "accepted", ""
    except NeolError as e:
        outcome, why = "refused", ""
        if "\n" in e.sentence or len(e.sentence) > LONGEST:
            outcome, why = "fault", f"a sentence that is none: {e.sentence[:200]!r}"
    except BaseException as e:
        import traceback

        where = traceback.extract_tb(e.__traceback__)[-1]
        outcome, why = "fault", f"{type(e).__name__}: {str(e)[:200]} ({Path(where.filename).name}:{where.lineno})"
    if sorted(p.name for p in work.iterdir()) != before:
        outcome, why = "fault", "a file was written elsewhere"
    return outcome, why
