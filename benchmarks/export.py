"""A lander's champion in C: compilers without warnings, its returns through a pipe, a Cortex-M4, steps per second.

Needs gcc, clang, arm-none-eabi-gcc with newlib, and qemu-system-arm; what is missing is said in the JSON. One JSON
object on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import neol
from neol.deploy.plastic_network import PlasticNetwork

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "controller_in_c"
CHAMPION = ROOT / "tests" / "data" / "lander" / "champion.json"
sys.path[:0] = [str(EXAMPLES), str(ROOT / "tests")]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
ZIG = [sys.executable, "-m", "ziglang"]
COMPILERS = {
    "gcc": ["gcc", "-std=c99"], "clang": ["clang", "-std=c99"], "zig cc": [*ZIG, "cc", "-std=c99"],
    "g++": ["g++", "-x", "c++", "-std=c++11"], "clang++": ["clang++", "-x", "c++", "-std=c++11"],
}  # fmt: skip
CORTEX = [
    "arm-none-eabi-gcc", "-std=c99", "-Os", *STRICT, "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard",
    "-mfpu=fpv4-sp-d16", "-ffunction-sections",
]  # fmt: skip
QEMU = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-semihosting", "-icount", "shift=0", "-kernel"]

# Every function has a symbol of its own, so that its bytes can be counted.
_WHOLE = """#include "controller.h"
void a_init(controller_state *s) { controller_init(s); }
void a_step(controller_state *s, const REAL *o, REAL r, REAL *a) { controller_step(s, o, r, a); }
"""
_TIMED = """#include <stdio.h>
#include <time.h>
#include "controller.h"
int main(void) {
    static REAL rows[1000][CONTROLLER_INPUTS];
    controller_state s;
    REAL action[CONTROLLER_ACTIONS], sum = 0;
    for (int t = 0; t < 1000; t++)
        for (int i = 0; i < CONTROLLER_INPUTS; i++) rows[t][i] = (REAL)((t * 7 + i * 13) % 101) / 50 - 1;
    const clock_t begun = clock();
    for (int life = 0; life < 5000; life++) {
        controller_init(&s);
        for (int t = 0; t < 1000; t++) {
            controller_step(&s, rows[t], (REAL)0.1, action);
            sum += action[0];
        }
    }
    const double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("%.0f %g\\n", 5e6 / seconds, (double)sum);
    return 0;
}
"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ran(*command: Any) -> str:
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return done.stdout + done.stderr  # QEMU's semihosting writes to the latter


def exported(folder: Path, precision: str) -> Path:
    """The header and the examples, in a folder of their own."""
    here = folder / precision
    here.mkdir()
    neol.export_controller(CHAMPION, "c", here / "controller.h", "controller", precision)
    for file in EXAMPLES.iterdir():
        if file.is_file():
            shutil.copy(file, here)
    (here / "whole.c").write_text(_WHOLE)
    (here / "timed.c").write_text(_TIMED)
    return here


def matrix(folder: Path, networks: int) -> dict[str, Any]:
    """Compilers that are here -> how many random networks' headers compile without a warning, double and float."""
    from exported import random_document

    from neol.errors import NeolError

    found: dict[str, Any] = {}
    headers = folder / "matrix"
    headers.mkdir()
    names = []
    for i in range(networks):
        net = PlasticNetwork.from_json(random_document(i))
        for precision in ("double", "float"):
            try:
                neol.export_controller(net, "c", headers / f"n{i}{precision}.h", precision=precision)
                names.append(f"n{i}{precision}")
            except NeolError as e:
                say(f"{i} {precision}: {e}")
    uses = "".join(f"void use_{n}({n}_state *s); void use_{n}({n}_state *s) {{ {n}_init(s); }}\n" for n in names)
    (headers / "all.c").write_text("".join(f'#include "{n}.h"\n' for n in names) + uses)
    for name, command in COMPILERS.items():
        if shutil.which(command[0]) is None:
            found[name] = "not installed"
            continue
        say(name)
        ran(*command, *STRICT, "-O1", "-c", headers / "all.c", "-o", headers / "all.o")
        found[name] = len(names)
    if shutil.which(CORTEX[0]):
        ran(*CORTEX, "-c", headers / "all.c", "-o", headers / "all.o")
        found["arm-none-eabi-gcc"] = len(names)
    return found


def returns(folder: dict[str, Path], episodes: int) -> dict[str, Any]:
    """The same episodes through a pipe and by `neol evaluate` on Gymnasium."""
    from drive import drive

    say("neol evaluate")
    own = neol.evaluate(str(CHAMPION), episodes=episodes, engine="gymnasium").returns
    out: dict[str, Any] = {"episodes": episodes, "neol evaluate": {"mean": own.mean()}}
    ways: list[tuple[str, str, int]] = [("C, double", "double", 0), ("C, float", "float", 0)]
    ways += [("C, double, every action one float32 up", "double", 1)]
    for name, precision, nudge in ways:
        say(name)
        here = folder[precision]
        ran("gcc", "-std=c99", "-O2", *STRICT, f"-DREAL={precision}", here / "pipe.c", "-lm", "-o", here / "pipe")
        got = drive([str(here / "pipe")], str(CHAMPION), episodes, nudge=nudge)
        apart = np.abs(got - own)
        out[name] = {
            "mean": got.mean(), "relative difference of the means": abs(got.mean() - own.mean()) / abs(own.mean()),
            "episodes equal to the bit": int((got == own).sum()), "median difference": float(np.median(apart)),
            "largest difference": apart.max(),
        }  # fmt: skip
    return out


def cortex(folder: dict[str, Path]) -> dict[str, Any]:
    """Bytes and instructions on a Cortex-M4 with a single-precision FPU, under QEMU."""
    if not (shutil.which(CORTEX[0]) and shutil.which(QEMU[0])):
        return {"missing": "arm-none-eabi-gcc or qemu-system-arm"}
    out: dict[str, Any] = {"compiler": ran("arm-none-eabi-gcc", "--version").splitlines()[0], "flags": CORTEX[2:]}
    for precision, here in folder.items():
        real = f"-DREAL={precision}"
        ran(*CORTEX, real, "-c", here / "whole.c", "-o", here / "whole.o")
        sections = {
            k: int(v)
            for k, v in re.findall(r"^(\.\S+)\s+(\d+)", ran("arm-none-eabi-size", "-A", here / "whole.o"), re.M)
        }
        code = sum(n for k, n in sections.items() if k.startswith(".text"))
        constants = sum(n for k, n in sections.items() if k.startswith(".rodata"))
        link = ("-nostartfiles", "--specs=nosys.specs", "-T", here / "cortex_m.ld", "-Wl,--gc-sections")
        ran(*CORTEX, real, *link, here / "cortex_m.c", "-lm", "-o", here / "c.elf")
        text, data, bss = map(int, ran("arm-none-eabi-size", here / "c.elf").splitlines()[1].split()[:3])
        said = dict(re.findall(r"(.+): (-?\d+)", ran(*QEMU, here / "c.elf")))
        out[precision] = {
            "code of the controller, bytes": code, "constants, bytes": constants,
            "whole program with math.h, bytes of flash": text, "its RAM, newlib's errno included": data + bss,
            "state of the controller, bytes of RAM": int(said["bytes of state"]),
            "instructions per step": int(said["instructions per step"]),
        }  # fmt: skip
    return out


def speed(folder: dict[str, Path]) -> dict[str, Any]:
    """Steps per second of one core: learning in C and in PlasticNetwork; a policy of PPO's shape in onnxruntime."""
    out: dict[str, Any] = {}
    for precision, here in folder.items():
        ran("gcc", "-std=c99", "-O2", f"-DREAL={precision}", here / "timed.c", "-lm", "-o", here / "timed")
        out[f"C, {precision}, learning"] = max(float(ran(here / "timed").split()[0]) for _ in range(3))
    net, rng = PlasticNetwork.from_json(CHAMPION), np.random.default_rng(0)
    rows = rng.normal(size=(2000, 8))

    def lived() -> None:
        for row in rows:
            net.act(row)
            net.reward(0.1)

    out["PlasticNetwork, learning"] = _best(lived, len(rows))
    policies = {
        "champion's ONNX, not learning": neol.export_controller(CHAMPION, "onnx"),
        "PPO's 64 x 64 in ONNX": _ppo(rng),
    }
    for name, model in policies.items():
        session = _session(model)
        single = rows.astype(np.float32)[:, None]
        out[name] = _best(lambda s=session, x=single: [s.run(None, {"observation": row}) for row in x], len(rows))  # type: ignore[misc]
    return {k: round(v) for k, v in out.items()} | {
        "C over PlasticNetwork": round(out["C, double, learning"] / out["PlasticNetwork, learning"]),
        "C over PPO in onnxruntime": round(out["C, double, learning"] / out["PPO's 64 x 64 in ONNX"]),
    }


def _best(function: Callable[[], Any], count: int) -> float:
    function()
    times = []
    for _ in range(5):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return count / min(times)


def _session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _ppo(rng: np.random.Generator) -> bytes:
    """A policy with the shape that our PPO has on the lander (Stable-Baselines3's own): 8, 64, 64, 2; tanh."""
    import onnx
    from onnx import helper, numpy_helper

    nodes, tensors, x = [], [], "observation"
    for layer, (a, b) in enumerate(((8, 64), (64, 64), (64, 2))):
        for name, shape in (("w", (a, b)), ("b", (b,))):
            tensors.append(numpy_helper.from_array(rng.normal(size=shape).astype(np.float32) * 0.1, f"{name}{layer}"))
        nodes.append(helper.make_node("Gemm", [x, f"w{layer}", f"b{layer}"], [f"z{layer}"]))
        x = f"z{layer}"
        if layer < 2:
            nodes.append(helper.make_node("Tanh", [x], [f"y{layer}"]))
            x = f"y{layer}"
    value = helper.make_tensor_value_info
    ends = (value("observation", 1, ["N", 8]), value(x, 1, ["N", 2]))
    graph = helper.make_graph(nodes, "ppo", [ends[0]], [ends[1]], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--networks", type=int, default=20, help="random networks for every compiler")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        here = {precision: exported(Path(folder), precision) for precision in ("double", "float")}
        result = {
            "load_before": round(load, 1), "champion": "tests/data/lander/champion.json",
            "cortex_m4": cortex(here), "speed": speed(here), "returns": returns(here, args.episodes),
            "headers_without_a_warning": matrix(Path(folder), args.networks),
        }  # fmt: skip
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
