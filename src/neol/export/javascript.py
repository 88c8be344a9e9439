"""A controller as one ES module without dependencies, for browsers and Node; numbers are doubles, as everywhere there.

    import { Controller, nodes, edges } from "./lander.js";
    const c = new Controller();              // a life begins
    let action = c.step(observation, 0);     // numbers, and what the last action earned -> Float64Array(A), reused
    c.end(reward);                           // the episode's last reward; then
    c.rest();                                // the next episode of the same life, or
    c.reset();                               // a new life (reset(k): the k-th, where weights are drawn at birth)

What a page can draw, all live views that change in place:
    c.value    Float64Array: activities, of the I inputs first, then of the n nodes as in `nodes` (then, of a recurrent
               network, those of one step ago)
    c.weight   Float64Array(E): the weights of now, as in `edges`;  c.change  Float64Array(E): what the last update did
    c.output   Float64Array(O): the outputs;  c.action  Float64Array(A): what they mean in the task
    nodes      [{id, type: "input" | "hidden" | "output", name, activation, place: index into value}]
    edges      [{from, to, modulatory}] by ids;  about  {task, rule, gate, credit, learns, inputs, outputs, actions}
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from neol import seeding
from neol.config.sections import ACTIVATIONS
from neol.export.c_like import Dialect, Printer
from neol.export.program import Program
from neol.export.specialise import Function, Specialised, specialise
from neol.export.texts import head, wrapped
from neol.network.step import _BIRTH

_UNIFORM = """// The e-th number in [0, 1) of a life (SplitMix64).
function uniform_at(life, e) {
    const M = (1n << 64n) - 1n, GOLDEN = 0x9E3779B97F4A7C15n;
    const mix = (z) => {
        z = ((z ^ (z >> 30n)) * 0xBF58476D1CE4E5B9n) & M;
        z = ((z ^ (z >> 27n)) * 0x94D049BB133111EBn) & M;
        return z ^ (z >> 31n);
    };
    let name = mix(GOLDEN);
    for (const part of [PURPOSEn, BigInt(life), 0n, 0n]) {
        name = mix(name ^ ((mix((part + GOLDEN) & M) + GOLDEN) & M));
    }
    return Number(mix((mix(name ^ BIRTHn) + BigInt(e) * GOLDEN) & M) >> 11n) / 9007199254740992;
}
"""


def render(program: Program) -> str:
    """The module's text."""
    p = dataclasses.replace(program, changes_watched=True)
    made = specialise(p)
    lines = [*(f"// {line}" for line in head(p)), ""]
    lines += [
        f"export const about = {_json(_about(p))};",
        _objects("nodes", _nodes(p)),
        _objects("edges", _edges(p)),
        "",
    ]
    lines += [_table(name, getattr(p, name).tolist()) for name in dict.fromkeys((*made.tables, "weight"))]
    lines += ["", *([_uniform()] if made.draws else []), *(_function(f) for f in made.functions.values())]
    return "\n".join([*lines, _class(p, made)])


def _number(x: float) -> str:
    return repr(float(x)) if math.isfinite(x) else ("-" if x < 0 else "") + "Infinity"


_LIBRARY = {"abs": "Math.abs", "isnan": "Number.isNaN", "isfinite": "Number.isFinite"}
_DIALECT = Dialect(
    number=_number,
    declared=lambda name, whole: f"let {name}",
    table=str.upper,
    field=lambda name: f"s.{name}",
    function=lambda name: name,
    library=lambda name: _LIBRARY.get(name, f"Math.{name}"),
    equal="===",
    unequal="!==",
)


def _function(f: Function) -> str:
    body = Printer(_DIALECT).body(f.body, frozenset(f.parameters))
    doc = [f"// {' '.join(f.doc.split())}"] if f.doc else []
    return "\n".join([*doc, f"function {f.name}({', '.join(f.parameters)}) {{", *body, "}", ""])


def _uniform() -> str:
    return _UNIFORM.replace("PURPOSE", str(seeding.DEMO)).replace("BIRTH", hex(_BIRTH))


def _table(name: str, values: list[Any]) -> str:
    kind = "Float64Array" if any(isinstance(v, float) for v in values) else "Int32Array"
    words = [_number(v) if isinstance(v, float) else str(v) for v in values]
    return f"const {name.upper()} = new {kind}([\n{wrapped(words)}\n]);"


def _json(value: Any) -> str:
    """JSON that is also safe within a page's <script>."""
    return json.dumps(value).replace("<", "\\u003c")


def _objects(name: str, listed: list[dict[str, Any]]) -> str:
    return "\n".join([f"export const {name} = [", *(f"    {_json(o)}," for o in listed), "];"])


def _about(p: Program) -> dict[str, Any]:
    task = p.interface.get("task")
    return {
        "task": task if isinstance(task, str) else None, "rule": p.rule_name, "gate": p.gate_name,
        "credit": "next-step" if p.next_step else "same-step", "learns": p.learns, "inputs": p.inputs,
        "outputs": p.outputs, "actions": p.actions,
    }  # fmt: skip


def _nodes(p: Program) -> list[dict[str, Any]]:
    inputs, outputs = (_names(p, key, n) for key, n in (("inputs", p.inputs), ("outputs", p.outputs)))
    named = {int(place): o for o, place in enumerate(p.output)}
    rows = [{"id": n, "type": "input", "name": inputs[i], "place": i} for i, n in enumerate(p.input_id)]
    for k, node in enumerate(p.node_id):
        place = p.inputs + k
        o = named.get(place)
        kind = {"type": "hidden", "name": ""} if o is None else {"type": "output", "name": outputs[o]}
        rows.append({"id": node, **kind, "activation": ACTIVATIONS[p.activation[k]], "place": place})
    return rows


def _names(p: Program, key: str, count: int) -> list[str]:
    found = p.interface.get(key)
    return list(found) if isinstance(found, list) and len(found) == count else [f"{key[:-1]} {i}" for i in range(count)]


def _edges(p: Program) -> list[dict[str, Any]]:
    ends = dict(zip(p.node_id, p.signal_end, strict=True))
    pairs = zip(p.source_id, p.target_id, strict=True)
    return [{"from": a, "to": b, "modulatory": bool(e >= ends[b])} for e, (a, b) in enumerate(map(tuple, pairs))]


def _class(p: Program, made: Specialised) -> str:
    sizes = {
        "value": p.width, "weight": p.edges, "change": p.edges, "trace": p.edges, "birth": p.edges, "theta": p.nodes,
        "term": p.most_terms, "output": p.outputs,
    }  # fmt: skip
    always = {"weight": "WEIGHT.slice()", "change": f"new Float64Array({p.edges})"}
    arrays = {
        n: always.get(n, f"new Float64Array({size})") for n, size in sizes.items() if n in {*made.fields, *always}
    }
    life = "life" if p.drawn else ""
    return "\n".join([
        "export class Controller {",
        "    constructor() {",
        *(f"        this.{name} = {array};" for name, array in arrays.items()),
        f"        this.action = new Float64Array({p.actions});",
        *(["        this.reward_mean = 0.0;"] if "reward_mean" in made.fields else []),
        "        this.fresh = 1;",
        "        this.reset();",
        "    }",
        "    // A life begins: the weights of birth, no activity, nothing learned.",
        f"    reset({'life = 0' if p.drawn else ''}) {{",
        f"        {'born(this, life)' if life else 'init(this)'};",
        "    }",
        "    // The next episode of the same life begins: no activity; what was learned stays.",
        "    rest() {",
        "        rest(this);",
        "    }",
        "    // An observation, and the reward of the last action -> the next action (the same array every time).",
        "    step(observation, reward = 0.0) {",
        f"        if (observation.length !== {p.inputs}) {{",
        f'            throw new RangeError("an observation must have {p.inputs} numbers, not " + observation.length);',
        "        }",
        "        step(this, observation, reward, this.action);",
        "        return this.action;",
        "    }",
        "    // The episode is over: its last reward.",
        "    end(reward) {",
        "        end(this, reward);",
        "    }",
        "}",
        "",
    ])  # fmt: skip
