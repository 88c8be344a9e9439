"""Files of earlier versions, kept: this version reads them, or refuses them in a sentence that says what to do.

`python tests/test_kept_files.py NAME` writes a new set, tests/data/kept/NAME; those that are there stay as they are.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import neol
from neol.errors import NeolError
from neol.training import run_folder

KEPT = Path(__file__).parent / "data" / "kept"
SETS = sorted(p.name for p in KEPT.iterdir())
SETTINGS = {
    "pop_size": 8, "elitism": 1, "generations": 4, "episodes": 1, "champion_candidates": 2, "champion_trials": 2,
    "champion_episodes": 4, "node_add_prob": 0.5, "rule": "oja", "trace_decay": 0.5,
}  # fmt: skip
OBSERVATIONS = np.linspace(-1.0, 1.0, 20).reshape(5, 4)


def answers(champion: neol.PlasticNetwork) -> list[list[float]]:
    """Outputs of five steps with a reward after each."""
    out = []
    for row in OBSERVATIONS:
        out.append(champion.activate(row).tolist())
        champion.reward(0.5)
    return out


@pytest.mark.parametrize("kept", SETS)
def test_a_champion_that_was_kept_acts_and_learns_as_then(kept: str) -> None:
    champion = neol.load(KEPT / kept).champion
    assert np.allclose(answers(champion), json.loads((KEPT / kept / "answers.json").read_text()), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("kept", SETS)
def test_a_run_that_was_kept_is_read_and_goes_on(kept: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(KEPT / kept, tmp_path / "run"))
    before = neol.load(folder)
    assert before.config.neat.pop_size == 8 and len(before.history["generation"]) == 4
    assert before.summary.generations == 4 and len(before.timing["generation"]) == 4
    run = neol.train(out=folder, resume=True, generations=6)
    assert [h[:4].tolist() for h in run.history.values()] == [h.tolist() for h in before.history.values()]
    assert len(run.history["generation"]) == 6


@pytest.mark.parametrize("version", [run_folder.CHECKPOINT_VERSION - 1, run_folder.CHECKPOINT_VERSION + 1])
def test_a_checkpoint_of_another_version_is_refused_with_what_to_do(version: int, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(KEPT / SETS[-1], tmp_path / "run"))
    with np.load(folder / run_folder.CHECKPOINT) as data:
        arrays = {**data, "neol_checkpoint": np.array(version)}
    np.savez(folder / run_folder.CHECKPOINT, **arrays)
    with pytest.raises(NeolError, match=f"but of {version}; finish it with the NEOL that wrote it"):
        neol.train(out=folder, resume=True, generations=6)


def test_a_champion_of_another_format_is_refused_with_what_to_do() -> None:
    document = json.loads((KEPT / SETS[-1] / run_folder.CHAMPION).read_text())
    with pytest.raises(NeolError, match="write it anew with `neol export` of the NEOL that made it"):
        neol.PlasticNetwork.from_json({**document, "format_version": "2.0"})


if __name__ == "__main__":
    target = KEPT / sys.argv[1]
    made = neol.train("cartpole", out=target, **SETTINGS)  # type: ignore[arg-type]
    (target / "answers.json").write_text(json.dumps(answers(made.champion)) + "\n")
