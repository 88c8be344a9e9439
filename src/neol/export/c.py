"""A controller as one C99 header: no allocation, nothing but math.h, constant tables, a state of known size.

Numbers are doubles, as in training, or floats, as small processors want them. It is C++ too.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from typing import Any, NamedTuple

import numpy as np

from neol import seeding
from neol.errors import NeolError
from neol.export.c_like import Dialect, Printer
from neol.export.program import Program
from neol.export.specialise import Function, Specialised, specialise
from neol.export.texts import head, values, wrapped
from neol.network.step import _BIRTH

PRECISIONS = ("double", "float")
LARGEST_FLOAT_INPUT = 1e15  # so that products of two activities stay finite in a float

_UNIFORM = """/* A bijection of 64 bits that looks random (SplitMix64). */
static inline unsigned long long NAME_mix(unsigned long long z) {
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL) & 0xFFFFFFFFFFFFFFFFULL;
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EBULL) & 0xFFFFFFFFFFFFFFFFULL;
    return z ^ (z >> 31);
}

/* The e-th number in [0, 1) of a life. */
static inline double NAME_uniform_at(unsigned long life, int e) {
    const unsigned long long golden = 0x9E3779B97F4A7C15ULL;
    const unsigned long long parts[4] = {PURPOSE, life, 0, 0};
    unsigned long long name = NAME_mix(golden);
    for (int i = 0; i < 4; i++) {
        name = NAME_mix(name ^ (NAME_mix(parts[i] + golden) + golden));
    }
    name = NAME_mix(NAME_mix(name ^ BIRTHULL) + (unsigned long long)e * golden);
    return (double)(name >> 11) / 9007199254740992.0;
}
"""


class _Style(NamedTuple):
    """Names and numbers of one file."""

    name: str
    real: str  # double or float

    def number(self, x: float) -> str:
        if math.isinf(x):
            return "-INFINITY" if x < 0 else "INFINITY"
        if self.real == "double":
            return repr(x)
        with np.errstate(over="ignore"):
            single = np.float32(x)
        return f"{single}f" if np.isfinite(single) else self.number(math.copysign(math.inf, x))

    def dialect(self) -> Dialect:
        suffix = "f" if self.real == "float" else ""
        library = {"isnan": "isnan", "isfinite": "isfinite", "abs": f"fabs{suffix}"}
        return Dialect(
            number=self.number,
            declared=lambda name, whole: f"{'int' if whole else self.real} {name}",
            table=lambda name: f"{self.name}_{name}",
            field=lambda name: f"s->{name}",
            function=lambda name: f"{self.name}_{name}",
            library=lambda name: library.get(name, f"{name}{suffix}"),
            equal="==",
            unequal="!=",
        )


def render(program: Program, name: str, precision: str = "double") -> str:
    """The header's text; `name` begins everything that it defines."""
    style = _Style(name, precision)
    p = program
    if precision == "float":
        _check_floats(p)
        p = dataclasses.replace(p, largest_input=LARGEST_FLOAT_INPUT)
    made = specialise(p)
    fields = _fields(p, made)
    uniform = _UNIFORM.replace("PURPOSE", str(seeding.DEMO)).replace("BIRTH", hex(_BIRTH)).replace("NAME", name)
    guard = f"{name.upper()}_H"
    parts = [
        _comment(p, style, made, fields),
        f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n",
        "#ifdef __clang__\n#pragma STDC FP_CONTRACT OFF\n#endif\n",
        "\n".join(f"#define {name.upper()}_{what} {n}" for what, n in (("INPUTS", p.inputs), ("ACTIONS", p.actions)))
        + "\n",
        *(_table(style, table, values(getattr(p, table))) for table in made.tables),
        "\n".join(
            [
                "typedef struct {",
                *(f"    {line}".replace("REAL", precision) for line, _ in fields.values()),
                f"}} {name}_state;\n",
            ]
        ),
        *([uniform] if made.draws else []),
        *(_function(style, f) for f in made.functions.values()),
        "#ifdef __clang__\n#pragma STDC FP_CONTRACT DEFAULT\n#endif\n",
        f"#endif /* {guard} */\n",
    ]
    return "\n".join(parts)


def _check_floats(p: Program) -> None:
    """A NeolError where a number of the network is none in floats."""
    for table in dataclasses.fields(p):
        found = getattr(p, table.name)
        if not isinstance(found, np.ndarray) or found.dtype.kind != "f":
            continue
        with np.errstate(over="ignore"):
            single = found.astype(np.float32)
        lost = (np.isinf(single) & np.isfinite(found)) | ((single == 0.0) & (table.name == "std"))
        if lost.any():
            raise NeolError(
                f"--precision = 'float' is not allowed; the network has {table.name} = {float(found[lost][0])!r}, "
                "which needs double."
            )


def _fields(p: Program, made: Specialised) -> dict[str, tuple[str, int]]:
    """The state: field -> (declaration, how many numbers), the flag last."""
    sizes = {
        "value": p.width, "weight": p.edges, "trace": p.edges, "birth": p.edges, "theta": p.nodes, "term": p.most_terms,
        "output": p.outputs, "reward_mean": 0,
    }  # fmt: skip
    about = {
        "value": "activities: of the inputs, then of the nodes", "weight": "of now", "trace": "eligibility",
        "birth": "weights at birth", "theta": "sliding thresholds", "term": "room to sort in", "output": "of now",
        "reward_mean": "of the rewards so far",
    }  # fmt: skip
    found = {}
    for field, size in sizes.items():
        if field in made.fields:
            array = f"[{max(size, 1)}]" if field != "reward_mean" else ""
            found[field] = (f"REAL {field}{array}; /* {about[field]} */", max(size, 1))
    found["fresh"] = ("int fresh; /* an episode begins */", 0)
    return found


def _comment(p: Program, style: _Style, made: Specialised, fields: dict[str, tuple[str, int]]) -> str:
    """The file's head: what it is, how large, how it is used."""
    real = 8 if style.real == "double" else 4
    whole = _padded(sum(n for _, n in fields.values()) * real + 4, real)
    constants = sum(_bytes(values(getattr(p, table)), real) for table in made.tables)
    name = style.name
    life = (
        [f"{name}_born(&s, k)                   as init, the k-th of many lives: weights are drawn"] if p.drawn else []
    )
    lines = [
        *head(p),
        "",
        f"RAM: {whole} bytes of state ({name}_state) for each controller. Constants (flash): {constants} bytes,",
        f"beside the code. Numbers are {style.real}s. No allocation, no global variables, no libc but math.h.",
        "",
        f"{name}_state s;",
        f"{style.real} observation[{p.inputs}], action[{p.actions}];",
        f"{name}_init(&s)                      a life begins",
        *life,
        f"{name}_step(&s, observation, r, action)  learn from r, what the last action earned; then choose the next",
        f"{name}_end(&s, r)                    the episode is over: its last reward",
        f"{name}_rest(&s)                      the next episode of the same life; what was learned stays",
        "",
        "The same numbers as in training need -std=c99 (or -ffp-contract=off) and no -ffast-math.",
    ]
    folded = [part for line in lines for part in (textwrap.wrap(line, 114, break_long_words=True) or [""])]
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in folded), " */", ""])


def _padded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _whole_type(entries: list[int]) -> tuple[str, int]:
    """The smallest type that holds whole numbers, and its bytes."""
    if min(entries) >= 0:
        for kind, size in (("unsigned char", 1), ("unsigned short", 2)):
            if max(entries) < 256**size:
                return kind, size
    return "long", 4


def _bytes(entries: list[Any], real: int) -> int:
    return len(entries) * (real if isinstance(entries[0], float) else _whole_type(entries)[1])


def _table(style: _Style, table: str, entries: list[Any]) -> str:
    real = isinstance(entries[0], float)
    kind = style.real if real else _whole_type(entries)[0]
    words = [style.number(v) if real else str(v) for v in entries]
    return f"static const {kind} {style.name}_{table}[{len(words)}] = {{\n{wrapped(words)}\n}};\n"


def _function(style: _Style, f: Function) -> str:
    types = {
        "s": f"{style.name}_state *s", "observation": f"const {style.real} *observation",
        "action": f"{style.real} *action", "life": "unsigned long life",
    }  # fmt: skip
    parameters = [types.get(n, f"{'int' if n in f.integers else style.real} {n}") for n in f.parameters]
    body = Printer(style.dialect()).body(f.body, frozenset(f.parameters))
    unread = [f"    (void){n};" for n in f.parameters if n not in f.read]
    doc = [f"/* {' '.join(f.doc.split()).replace('*/', '')} */"] if f.doc else []
    kind = style.real if f.returns else "void"
    head = f"static inline {kind} {style.name}_{f.name}({', '.join(parameters)}) {{"
    return "\n".join([*doc, head, *unread, *body, "}", ""])
