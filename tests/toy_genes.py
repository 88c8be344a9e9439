"""Run by test_genes.py in a copy of the package whose table has more genes: where is each of them found?

python toy_genes.py FOLDER NAME:OF ...     writes the evolved population to FOLDER/out.npz, what was found to out.json
                                           and what some kernels give to kernels.npz
python toy_genes.py FOLDER                 afterwards: writes what the same kernels give to compiled.npz
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from neat.export.json_format import validate_json

from neol import seeding
from neol.config.schema import Config
from neol.deploy import network_json
from neol.neat.evolution import Neat
from neol.neat.gene_kernels import new_streams, start_streams
from neol.neat.genes import compared_genes, gene_settings
from neol.neat.genome import Genomes, from_arrays, take, to_arrays
from neol.neat.species import distance
from neol.neat.variation import breed, mutate_values
from neol.network.phenotype import Phenotypes, compile_phenotypes

INPUTS, OUTPUTS, SIZE, SEED = 3, 2, 20, 7
STRUCTURE = {"node_add_prob": 0.4, "node_delete_prob": 0.2, "conn_add_prob": 0.4, "conn_delete_prob": 0.2}
CONFIG = Config().replace(
    **STRUCTURE, pop_size=SIZE, num_hidden=1, compatibility_threshold=0.6, activation_options=("tanh", "relu"),
    activation_default="random", activation_mutate_rate=0.2, enabled_mutate_rate=0.1, disabled_inherit_prob=0.75,
    step_size_adaptation=0.2,
)  # fmt: skip


def tell(neat: Neat, generation: int) -> None:
    neat.tell(np.random.default_rng(generation).random(SIZE))


def evolved() -> tuple[Genomes, Neat]:
    """The first population, and NEAT after some generations with changes of structure."""
    neat = Neat(CONFIG.neat, INPUTS, OUTPUTS, SEED)
    first = neat.genomes
    for generation in range(6):
        tell(neat, generation)
    return first, neat


def used(g: Genomes, p: int, name: str, of: str) -> np.ndarray:
    """The values of a gene in genome p."""
    column = getattr(g, name)
    if of == "genome":
        return column[p : p + 1]
    return column[p, : g.n_nodes[p] if of == "node" else g.n_conns[p]]


def children(parents: Genomes, neat: Neat, first: int, second: int, elite: bool) -> Genomes:
    """SIZE children of two genomes, without a change of structure."""
    still = CONFIG.replace(**dict.fromkeys(STRUCTURE, 0.0)).neat
    who = [np.full(SIZE, i, np.int32) for i in (first, second)]
    sizes = (INPUTS, OUTPUTS, SEED, 0)
    return breed(still, parents, *who, np.full(SIZE, elite), neat.innovations, *sizes)[0]


def everywhere(first: Genomes, neat: Neat, name: str, of: str) -> dict[str, Any]:
    """A gene in the first population, in its children, in the distance, in a checkpoint and in phenotypes."""

    def values(g: Genomes) -> np.ndarray:
        return np.stack([used(g, p, name, of) for p in range(SIZE)])  # one structure in all

    drawn, two = values(first), take(first, slice(None))
    low, high = (False, True) if drawn.dtype == bool else (0.25, 0.75)
    getattr(two, name)[0], getattr(two, name)[1] = low, high
    mixed = values(children(two, neat, 0, 1, False))
    compared = [g.name for what in ("connection", "node") for g in compared_genes(what)]
    state, again = neat.state(), Neat(CONFIG.neat, INPUTS, OUTPUTS, SEED)
    again.restore(state)
    before = from_arrays({k: v for k, v in state.items() if not k.endswith(f".{name}")}, "genomes")
    return {
        "dtype": str(drawn.dtype),
        "drawn": [float(drawn.min()), float(drawn.max()), len(np.unique(drawn)), drawn.size],
        "copied": bool((values(children(first, neat, 3, 3, True)) == drawn[3]).all()),
        "mutated": float(np.mean(values(children(first, neat, 3, 3, False)) != drawn[3])),
        "crossed": [float(np.mean(mixed == low)), float(np.mean(mixed == high))],
        "distance": [distance(two, 0, two, 1, 0.0, tuple(2.0 * (c == name) for c in compared), False), len(compared)],
        "restored": bool(np.array_equal(getattr(again.genomes, name), getattr(neat.genomes, name))),
        "absent": [np.unique(used(before, p, name, of)).tolist() for p in range(SIZE)],
        "free": int(np.count_nonzero(getattr(before, name)) - sum(used(before, p, name, of).size for p in range(SIZE))),
    }


def in_files(g: Genomes, ph: Phenotypes, p: int, name: str, of: str) -> dict[str, Any]:
    """A gene in the phenotype of genome p, and in its file."""
    nodes = ph.node_id[ph.node_start[p] : ph.node_start[p + 1]]
    place = {"node": np.searchsorted(g.node_id[p, : g.n_nodes[p]], nodes), "connection": ph.gene[ph.edges(p)]}
    carried = getattr(ph.part(p, p + 1), name)
    document = json.loads(network_json.dump(network_json.to_document(ph, g, p, False)))
    listed = {"node": document["nodes"], "connection": document["connections"], "genome": [document["genes"]]}[of]
    without: dict[str, Any] = json.loads(json.dumps(document))
    for part in (*without["nodes"], *without["connections"], without["genes"]):
        part.pop(name, None)
    read, old = (getattr(network_json.parse(d).phenotype, name) for d in (document, without))
    return {
        "neat-python": validate_json(document),
        "compiled": np.array_equal(carried, used(g, p, name, of)[place.get(of, slice(None))]),
        "count": len(carried),
        "written": [part[name] for part in listed if name in part] == carried.tolist(),
        "read": sorted(read.tolist()) == sorted(carried.tolist()),
        "absent in a file": np.unique(old).tolist(),
    }


def by_kernels(g: Genomes) -> dict[str, np.ndarray]:
    """All genes after a mutation of their values, and how far the first genome was from each before."""
    compared = [c for what in ("connection", "node") for c in compared_genes(what)]
    apart = [distance(g, 0, g, p, 1.0, (0.5,) * len(compared), False) for p in range(SIZE)]
    settings = gene_settings(CONFIG.neat)
    streams, mutated = new_streams(settings), take(g, slice(None))
    for p in range(SIZE):
        start_streams(streams, settings, SEED, seeding.REPRODUCE, 0, p, 0)
        mutate_values(mutated, p, streams, settings)
    return {"distance": np.array(apart), **to_arrays(mutated, "mutated")}


def main(folder: Path, *genes: str) -> None:
    if not genes:
        with np.load(folder / "out.npz") as state:
            np.savez(folder / "compiled.npz", **by_kernels(from_arrays(state, "genomes")))
        return
    first, neat = evolved()
    np.savez(folder / "out.npz", **neat.state())
    g = neat.genomes
    np.savez(folder / "kernels.npz", **by_kernels(g))
    ph, p = compile_phenotypes(g, INPUTS, OUTPUTS), int(np.argmax(g.n_nodes))
    pairs = [word.split(":") for word in genes]
    found = {name: everywhere(first, neat, name, of) | in_files(g, ph, p, name, of) for name, of in pairs}
    (folder / "out.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
