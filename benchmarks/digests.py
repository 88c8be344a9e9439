"""Digests of small runs over every task, rule, engine, executor and loop: has a change altered any bits?

    python benchmarks/digests.py --out before.json            # on the commit before
    python benchmarks/digests.py --compare before.json        # on the change; prints what differs, exit code 1

Bits hold on one machine and one set of package versions, so a digest file is for comparing two commits side by side;
`results/digests.json` was recorded before the move into packages (versions as in constraints.txt); since then
Hedge's two differ, whose history has another column name, and the three with normalised observations, whose
champion.json has their count besides.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SMALL = "--pop-size 12 --elitism 1 --generations 4 --max-steps 120 --champion-candidates 3 --champion-trials 3"
SMALL += " --champion-episodes 5 --quiet --json"
RUNS = {
    "cartpole hebb": "train cartpole --rule hebb",
    "cartpole none": "train cartpole --rule none",
    "cartpole oja next-step": "train cartpole --rule oja --reward-credit next-step",
    "cartpole bcm next-step": "train cartpole --rule bcm --reward-credit next-step --seed 3",
    "cartpole authors": "train cartpole --preset authors",
    "lander hebb": "train lunarlander --rule hebb",
    "lander hebb trace": "train lunarlander --rule hebb --trace-decay 0.9 --seed 1",
    "lander oja darwinian": "train lunarlander --rule oja --inheritance darwinian",
    "lander bcm normalised": "train lunarlander --rule bcm --normalize-observations true",
    "lander paper preset": "train lunarlander --preset paper --seed 2",
    "lander recurrent": "train lunarlander --rule oja --feed-forward false --trace-decay 0.5 --reward-credit next-step",
    "lander structure": "train lunarlander --rule hebb --generations 12 --conn-add-prob 0.6 --node-add-prob 0.5"
    " --conn-delete-prob 0.3 --node-delete-prob 0.2 --num-hidden 2 --enabled-mutate-rate 0.1"
    " --activation-options tanh,relu,clamped --activation-default random --activation-mutate-rate 0.2"
    " --aggregation-options sum,max --aggregation-default random --aggregation-mutate-rate 0.2"
    " --response-init-stdev 0.3 --response-mutate-rate 0.3 --response-mutate-power 0.2 --step-size-adaptation 0.2"
    " --compatibility-threshold 1.0 --disabled-inherit-prob 0.75",
    "lander partial": "train lunarlander --rule hebb --initial-connection partial_direct --num-hidden 3",
    "lander fs-neat": "train lunarlander --rule none --initial-connection fs_neat_nohidden",
    "lander canonical sharing": "train lunarlander --rule none --sharing canonical --weight-mutation 0.4",
    "lander paper sharing": "train lunarlander --rule none --sharing paper --common-random-numbers false",
    "walker hebb": "train bipedalwalker --rule hebb --max-env-steps 8000",
    "walker none workers": "train bipedalwalker --rule none --workers 2 --max-env-steps 8000",
    "hopper hebb": "train hopper --rule hebb --max-env-steps 8000",
    "hopper oja normalised": "train hopper --rule oja --normalize-observations true --max-env-steps 8000",
    "hedge cartpole": "train cartpole --outer hedge --pool 8 --rule hebb",
    "hedge lander": "train lunarlander --outer hedge --pool 8 --rule oja",
    "gymnasium cartpole": "train cartpole --engine gymnasium --workers 2 --rule bcm",
    "gymnasium lander": "train lunarlander --engine gymnasium --workers 1 --rule hebb --trace-decay 0.5",
    "gymnasium frozen lake": "train FrozenLake-v1 --rule hebb --workers 1",
    "gymnasium pendulum": "train Pendulum-v1 --engine gymnasium --workers 2 --normalize-observations true",
    "envpool acrobot": "train Acrobot-v1 --rule oja",
    "ray cartpole": "train cartpole --executor ray --workers 2 --rule hebb",
    "resumed lander": "train lunarlander --rule hebb --generations 2",  # and then to 4, see `resumed`
}
BASELINES = {
    "ppo cartpole": "baseline ppo cartpole --max-env-steps 3000",
    "sac lander": "baseline sac lunarlander --max-env-steps 400",
}
STUDY = """
[study]
title = "digest"
tasks = ["cartpole", "lunarlander"]
seeds = 2
reference = "neat"
[budget]
generations = 2
[base]
pop_size = 10
elitism = 1
max_steps = 60
champion_candidates = 2
champion_trials = 2
champion_episodes = 5
[[arm]]
name = "neat"
rule = "none"
[[arm]]
name = "hebb"
rule = "hebb"
[[arm]]
name = "ppo"
algorithm = "ppo"
tasks = ["cartpole"]
max_env_steps = 3000
"""


def digest(*files: Path) -> str:
    """A fingerprint of files; one that is missing is part of it."""
    total = hashlib.sha256()
    for f in files:
        total.update(f.read_bytes() if f.exists() else b"missing")
    return total.hexdigest()[:16]


def call(module: str, words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr[-2000:]}")


def run_of(module: str, command: str, folder: Path) -> str:
    small = SMALL.split() if command.startswith("train") else ["--quiet"]
    words = command.split()
    call(module, [*words, *_missing(small, words), "--out", str(folder)])
    return digest(folder / "history.csv", folder / "champion.json", folder / "champion.npz")


def _missing(defaults: list[str], said: list[str]) -> list[str]:
    """The default options that the command does not set itself."""
    out: list[str] = []
    i = 0
    while i < len(defaults):
        takes = i + 1 < len(defaults) and not defaults[i + 1].startswith("--")
        if defaults[i] not in said:
            out += defaults[i : i + 1 + takes]
        i += 1 + takes
    return out


def study_of(module: str, folder: Path) -> str:
    """The files of a study's runs, in the order of their names."""
    file = folder.with_suffix(".toml")
    file.write_text(STUDY, encoding="utf-8")
    call(module, ["study", "run", str(file), "--out", str(folder), "--quiet"])
    runs = sorted(p for p in (folder / "runs").iterdir() if p.is_dir())
    names = ("history.csv", "champion.json", "champion.npz")
    return digest(*(run / name for run in runs for name in names))


def record(module: str, only: str) -> dict[str, str]:
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as where:
        for i, (name, command) in enumerate({**RUNS, **BASELINES}.items()):
            if only not in name:
                continue
            folder = Path(where, str(i))
            found[name] = run_of(module, command, folder)
            if name == "resumed lander":
                call(module, ["train", "--out", str(folder), "--resume", "--generations", "4", "--quiet"])
                found[name] = digest(folder / "history.csv", folder / "champion.json")
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
        if only in "study":
            found["study"] = study_of(module, Path(where, "study"))
            print(f"study: {found['study']}", file=sys.stderr, flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the digests here")
    parser.add_argument("--compare", type=Path, help="digests of the commit before")
    parser.add_argument("--only", default="", help="runs whose names hold this")
    parser.add_argument("--module", default="neol", help="what `python -m` starts")
    args = parser.parse_args()
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    found = record(args.module, args.only)
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    before = json.loads(args.compare.read_text(encoding="utf-8")) if args.compare else found
    differ = [name for name in found if before.get(name) != found[name]]
    print(json.dumps({"runs": len(found), "differ": differ}, indent=1))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
