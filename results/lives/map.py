"""The map: every world that was run x every arm, as Markdown, from the committed databases.

    python results/lives/map.py > results/lives/map.md

First the mean return over seeds with its range, and the adaptation score where an oracle is above the best control (on
the T-maze, instead of an oracle, the most that a life can earn). Then the paper's claim, restated: Hebb with one fixed
rate, gated by the reward, against plasticity that is evolved, Holm within a world.
"""

from __future__ import annotations

from pathlib import Path

from neol import stats
from neol.report.adaptation import MET, Adapted, adapted, verdict
from neol.report.tables import interval_cell, p_cell
from neol.studies.plan import CONTROL_ROLE, ORACLE, PLASTIC
from neol.studies.study import Study

HERE = Path(__file__).parent
WORLDS = [HERE.parent / "studies" / "mazes", *sorted(p.parent for p in HERE.glob("*/study.sqlite"))]
FIXED = "hebb"
# A life of 100 runs that pay 1.0: half of all first guesses are wrong (0.2), and so is the first run after the swap.
OPTIMUM = {"tmaze": 100 - 0.5 * 0.8 - 0.8}


def score(study: Study, found: Adapted, arm: str) -> str:
    s = found.scores.get(arm)
    if arm in found.scores and found.task in OPTIMUM:
        controls = [r for a, r in found.returns.items() if study.roles[a] == CONTROL_ROLE]
        s = stats.adaptation_score(found.returns[arm], controls, [OPTIMUM[found.task]] * 2, 0)
    return interval_cell(s, 2)[0] if arm in found.scores else ""


def world(study: Study, found: Adapted) -> list[str]:
    """One world of one task: its arms, the best first within their role."""
    lines = [
        f"### {found.task}, {found.what}", "",
        "Changes: " + ("; ".join(f"`{c}`" for c in found.world) or "the task's own") + ".", "",
        "| role | arm | seeds | mean return | least to most | adaptation score (95 %) | against the controls |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for role in (PLASTIC, CONTROL_ROLE, ORACLE):
        arms = [a for a in found.returns if study.roles[a] == role]
        for arm in sorted(arms, key=lambda a: -float(found.returns[a].mean())):
            r = found.returns[arm]
            told = verdict(found, arm) if role == PLASTIC else "the best control" if arm == found.best_control else ""
            lines.append(
                f"| {role} | {study.label(arm)} | {len(r)} | {r.mean():,.1f} | {r.min():,.1f} to {r.max():,.1f} | "
                f"{score(study, found, arm)} | {told} |"
            )
    return [*lines, ""]


def claim(study: Study, found: Adapted) -> list[str]:
    """Rows of the second table: evolved arms against the fixed rate."""
    evolved = [a for a in found.scores if not a.startswith(FIXED)]
    if FIXED not in found.returns:
        return []
    tests = stats.compare(found.task, found.returns, [(arm, FIXED) for arm in evolved], 0)
    rows = []
    for t in tests:
        cells = (study.label(t.arm), f"{t.n}, {t.n_against}", interval_cell(t.difference)[0], p_cell(t.p_holm)[0])
        rows.append(f"| {found.task} | {' | '.join(cells)} |")
    return rows


def main() -> None:
    parts, claims = [], []
    for folder in WORLDS:
        study = Study(folder)
        for found in adapted(study):
            parts += world(study, found)
            if found.what == MET:
                claims += claim(study, found)
    print("# Where does learning in life pay?\n\n`python results/lives/map.py > results/lives/map.md`\n")
    print("\n".join(parts))
    print("## One fixed rate against plasticity that is evolved\n")
    print("| world | evolved arm | seeds | minus the mean return at one fixed rate (95 %) | p, Holm in this world |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(claims))


if __name__ == "__main__":
    main()
