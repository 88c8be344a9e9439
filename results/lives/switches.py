"""MorphoNAS-PL's two switches on networks that were not trained for them: what does a fixed rate of plasticity add?

    python results/lives/switches.py OUT.json

Their protocol: cartpole, at step 200 the pole's mass goes to 1.0 or gravity to 20, and weights change by
dw = eta x y - lambda w in life, with one fixed eta for all; the gain is what plasticity adds to the reward after step
200, over the same network without it. Here: lambda = 0, weights within +-10. For each of 20 seeds one middling network
(of 60 after three generations of NEAT on cartpole without a switch, that whose reward after the switch is nearest to
150 of 300) and one perfect (300, where there is one). eta is chosen by the mean gain of all networks on 20 lives each,
and measured on 50 others; and on the same without a switch: is it adaptation, or a better network?
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from neol import seeding, stats
from neol.config.sections import NeatConfig, PlasticityConfig
from neol.envs.registry import find
from neol.neat.evolution import Neat
from neol.neat.genome import Genomes, concatenate, take
from neol.network.phenotype import compile_phenotypes
from neol.rollout.gymnasium_player import LocalGymnasium
from neol.rollout.life import life_of
from neol.rollout.shards import Episodes
from neol.rollout.world import world_of

SWITCH, LONGEST, SEEDS, POPULATION, GENERATIONS, CHOICE = 200, 500, 20, 60, 3, 8
ETAS = tuple(sign * size for sign in (-1.0, 1.0) for size in (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1))


def returns_of(task_name: str, genomes: Genomes, eta: float, purpose: int, part: int, lives: int) -> np.ndarray:
    """Returns f8 (networks, lives), in lives that are the same for all."""
    task = find(task_name)
    rule = PlasticityConfig(rule="hebb", gate="none", lr=abs(eta), decay_to="zero") if eta else PlasticityConfig("none")
    world = world_of(task, task.settings.get("change", ()), LONGEST)
    life = life_of(task, rule, world=world)
    if eta < 0.0:  # a rate is not negative: its factor on every connection is
        life = life._replace(plastic=life.plastic._replace(rate=eta))
    engine = LocalGymnasium(task, LONGEST)
    try:
        ph = compile_phenotypes(genomes, task.n_inputs, task.n_outputs)
        return engine.run(ph, life, Episodes(0, purpose, part, lives, common=True)).returns
    finally:
        engine.close()


def second_phase(task_name: str, genomes: Genomes, eta: float, purpose: int, lives: int) -> np.ndarray:
    """Reward after the switch f8 (networks,): steps beyond 200, mean over lives."""
    return np.maximum(returns_of(task_name, genomes, eta, purpose, 0, lives) - SWITCH, 0.0).mean(axis=1)


def middling_and_perfect(task_name: str) -> tuple[Genomes, Genomes | None]:
    middling, perfect = [], []
    for seed in range(SEEDS):
        task = find(task_name)
        neat = Neat(NeatConfig(pop_size=POPULATION), task.n_inputs, task.n_outputs, seed)
        for generation in range(GENERATIONS):
            plain = returns_of("cartpole", neat.ask(), 0.0, seeding.EPISODE, 100 * seed + generation, 2)
            neat.tell(plain.mean(axis=1))
        found = neat.ask()
        rewards = second_phase(task_name, found, 0.0, seeding.DEMO, CHOICE)
        middling.append(take(found, [int(np.argmin(np.abs(rewards - 150.0)))]))
        if (rewards == 300.0).any():
            perfect.append(take(found, [int(np.argmax(rewards == 300.0))]))
    return concatenate(middling), concatenate(perfect) if perfect else None


def measured(task_name: str, genomes: Genomes) -> dict[str, object]:
    before = second_phase(task_name, genomes, 0.0, seeding.SELECTION, 20)
    gains = {eta: second_phase(task_name, genomes, eta, seeding.SELECTION, 20) - before for eta in ETAS}
    best = max(ETAS, key=lambda eta: float(gains[eta].mean()))
    static = second_phase(task_name, genomes, 0.0, seeding.HELD_OUT, 50)
    gain = second_phase(task_name, genomes, best, seeding.HELD_OUT, 50) - static
    low, high = stats.mean_interval(gain)
    plain = [second_phase("cartpole", genomes, eta, seeding.HELD_OUT, 50) for eta in (0.0, best)]
    without = stats.mean_interval(plain[1] - plain[0])
    return {
        "networks": len(gain), "baseline": float(static.mean()), "best_eta": best, "gain": float(gain.mean()),
        "gain_low": low, "gain_high": high, "gain_by_network": gain.tolist(), "static_by_network": static.tolist(),
        "baseline_without_switch": float(plain[0].mean()), "gain_without_switch": float((plain[1] - plain[0]).mean()),
        "gain_without_switch_low": without[0], "gain_without_switch_high": without[1],
        "mean_gain_by_eta_on_selection_lives": {str(eta): float(g.mean()) for eta, g in gains.items()},
    }  # fmt: skip


def main(out: Path) -> None:
    found: dict[str, object] = {}
    for task in ("cartpole-mass", "cartpole-gravity"):
        middling, perfect = middling_and_perfect(task)
        found[task] = {"middling": measured(task, middling)}
        if perfect is not None:
            found[task] |= {"perfect": measured(task, perfect)}  # type: ignore[operator]
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(task, {k: {n: v[n] for n in ("networks", "baseline", "best_eta", "gain", "gain_low", "gain_high")}  # type: ignore[index]
                     for k, v in found[task].items()}, flush=True)  # type: ignore[attr-defined]  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
