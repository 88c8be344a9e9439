"""A network as an ONNX graph: what it is at birth. ONNX has no way to change weights, so plasticity is not in it.

Inputs: observation (N, I), and for a recurrent network state (N, n), zeros as an episode begins.
Outputs: action (N, A), output (N, O), and state_out (N, n), which is the next step's state.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from neol.config.sections import AGGREGATIONS
from neol.errors import NeolError
from neol.export.program import Program
from neol.export.specialise import activation
from neol.export.texts import head
from neol.network.actions import ARGMAX, BINARY, BOUNDED

OPSET, IR_VERSION = 17, 8  # old enough for every runtime in use
PRECISIONS = ("float", "double")
_OPERATORS: dict[type, str] = {
    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Gt: "Greater", ast.Lt: "Less", ast.Eq: "Equal",
}  # fmt: skip
_FUNCTIONS = {
    "abs": "Abs", "exp": "Exp", "log": "Log", "sin": "Sin", "tanh": "Tanh", "larger": "Max", "smaller": "Min",
}  # fmt: skip
NOTE = "Plasticity is not in it: this is the network as it is at birth."


def render(program: Program, precision: str = "float") -> bytes:
    """The model's bytes."""
    try:
        import onnx
    except ImportError:
        raise NeolError("--to = 'onnx' needs the package onnx: pip install 'neol[onnx]'.") from None
    if program.drawn:
        raise NeolError(
            "--to = 'onnx' is not allowed for a network whose weights are drawn at birth and then learned: ONNX has no "
            "plasticity; export it to c, js or python."
        )
    graph = _Graph(onnx, program, precision)
    graph.build()
    return graph.model().SerializeToString()


class _Graph:
    """Nodes and constants as they are made; every value is a column (N, 1) or a block of them."""

    def __init__(self, onnx: Any, program: Program, precision: str) -> None:
        self.onnx, self.p = onnx, program
        self.dtype = np.dtype(np.float32 if precision == "float" else np.float64)
        self.nodes: list[Any] = []
        self.constants: dict[tuple[Any, ...], str] = {}
        self.tensors: list[Any] = []

    def op(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        out = out or f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [out], **attributes))
        return out

    def constant(self, values: Any, dtype: Any = None) -> str:
        """An array, made once however often it is asked for."""
        array = np.asarray(values, dtype or self.dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = f"c{len(self.constants)}"
            self.tensors.append(self.onnx.numpy_helper.from_array(array, self.constants[key]))
        return self.constants[key]

    def picked(self, row: str, columns: Sequence[int]) -> str:
        return self.op("Gather", row, self.constant(list(columns), np.int64), axis=1)

    def clipped(self, x: str, low: float, high: float) -> str:
        if math.isfinite(low):
            x = self.op("Max", x, self.constant(low))
        return self.op("Min", x, self.constant(high)) if math.isfinite(high) else x

    def without_nan(self, x: str, instead: float = 0.0) -> str:
        return self.op("Where", self.op("IsNaN", x), self.constant(instead), x)

    def build(self) -> None:
        p = self.p
        seen = self._seen()
        columns: list[str] = []
        for k in range(p.nodes):
            columns.append(self._node(k, seen, columns))
        if p.remembers:
            self.op("Concat", *columns, out="state_out", axis=1)
        shown = [columns[place - p.inputs] for place in p.output]
        shown = [self.op("Tanh", y) for y in shown] if p.squash else shown
        self.op("Concat", *shown, out="output", axis=1)
        self.op("Concat", *(self._component(a) for a in range(p.actions)), out="action", axis=1)

    def _seen(self) -> str:
        """The observation as the network sees it."""
        p, x = self.p, "observation"
        finite = self.op("Less", self.op("Abs", x), self.constant(np.inf))
        x = self.op("Where", finite, x, self.constant(0.0))
        if p.normalised:
            scaled = self.op("Div", self.op("Sub", x, self.constant(p.mean)), self.constant(p.std))
            x = self.clipped(scaled, -p.normal_limit, p.normal_limit)
        return x

    def _node(self, k: int, seen: str, columns: list[str]) -> str:
        """The activity (N, 1) of node k."""
        p, edges = self.p, range(self.p.edge_start[k], self.p.signal_end[k])
        parts = []
        for e in edges:
            place = int(p.source[e])
            if place < p.inputs:
                parts.append(self.picked(seen, [place]))
            elif place < p.inputs + p.nodes:
                parts.append(columns[place - p.inputs])
            else:
                parts.append(self.picked("state", [place - p.inputs - p.nodes]))
        empty = 1.0 if AGGREGATIONS[p.aggregation[k]] == "product" else 0.0
        if parts:
            terms = self.op("Mul", self.op("Concat", *parts, axis=1), self.constant(p.weight[edges.start : edges.stop]))
            z = self._aggregated(AGGREGATIONS[p.aggregation[k]], terms, len(parts))
            z = self.op("Add", self.op("Mul", z, self.constant(p.response[k])), self.constant(p.bias[k]))
            z = self.clipped(self.without_nan(z), -p.preactivation_limit, p.preactivation_limit)
        else:  # a constant, of as many rows as there are
            u = p.bias[k] + p.response[k] * empty
            u = min(max(u, -p.preactivation_limit), p.preactivation_limit)
            zeros = self.op("Mul", self.picked(seen, [0]), self.constant(0.0))
            z = self.op("Add", zeros, self.constant(u))
        return self._activated(int(p.activation[k]), z)

    def _aggregated(self, kind: str, terms: str, n: int) -> str:
        axis = self.constant([1], np.int64)
        if kind == "sum":
            return self.op("ReduceSum", terms, axis, keepdims=1)
        if kind == "maxabs":
            place = self.op("ArgMax", self.op("Abs", terms), axis=1, keepdims=1)
            return self.op("GatherElements", terms, place, axis=1)
        if kind == "median":
            place, out = self.constant([n], np.int64), f"v{len(self.nodes)}"
            self.nodes.append(self.onnx.helper.make_node("TopK", [terms, place], [out, f"{out}i"], axis=1, largest=0))
            middle = self.picked(out, [n // 2] if n % 2 else [n // 2 - 1, n // 2])
            return self.op("ReduceMean", middle, axes=[1], keepdims=1)
        name = {"product": "ReduceProd", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}[kind]
        return self.op(name, terms, axes=[1], keepdims=1)

    def _activated(self, kind: int, z: str) -> str:
        """The activation as the kernels have it."""
        return self._computed(activation(self.p, kind), {"z": z})

    def _computed(self, node: ast.expr, names: dict[str, str]) -> str:
        """An expression of the kernels, in operators."""
        if isinstance(node, ast.Constant):
            return self.constant(node.value)
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.UnaryOp):
            return self.op("Neg", self._computed(node.operand, names))
        if isinstance(node, ast.IfExp):
            return self.op("Where", *(self._computed(part, names) for part in (node.test, node.body, node.orelse)))
        if isinstance(node, ast.BinOp):
            return self.op(_OPERATORS[type(node.op)], *(self._computed(x, names) for x in (node.left, node.right)))
        if isinstance(node, ast.Compare):
            sides = [self._computed(x, names) for x in (node.left, node.comparators[0])]
            if isinstance(node.ops[0], ast.NotEq):
                return self.op("Not", self.op("Equal", *sides))
            return self.op(_OPERATORS[type(node.ops[0])], *sides)
        assert isinstance(node, ast.Call)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        args = [self._computed(x, names) for x in node.args]
        if name == "clip":
            return self.op("Min", self.op("Max", args[0], self.op("Neg", args[1])), args[1])
        return self.op("Mul", args[0], args[0]) if name == "squared" else self.op(_FUNCTIONS[name], *args)

    def _component(self, a: int) -> str:
        """One number (N, 1) of the action."""
        p, c = self.p, self.constant
        first, low, high = int(p.first[a]), float(p.low[a]), float(p.high[a])
        y = self.picked("output", range(first, first + int(p.count[a])))
        if p.kind[a] == BOUNDED:
            half = self.op("Mul", c(0.5), self.op("Add", self.clipped(y, -1.0, 1.0), c(1.0)))
            return self.op("Add", c(low), self.op("Mul", half, c(high - low)))
        if p.kind[a] == ARGMAX:
            place = self.op("ArgMax", y, axis=1, keepdims=1)
            return self.op("Add", self.op("Cast", place, to=self._type()), c(low))
        if p.kind[a] == BINARY:
            return self.op("Cast", self.op("Greater", y, c(0.0)), to=self._type())
        return self.clipped(y, low, high)

    def _type(self) -> int:
        return self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)

    def model(self) -> Any:
        p, make = self.p, self.onnx.helper
        shapes = {"observation": p.inputs, "state": p.nodes, "action": p.actions, "output": p.outputs}
        shapes["state_out"] = p.nodes
        info = {name: make.make_tensor_value_info(name, self._type(), ["N", n]) for name, n in shapes.items()}
        state = [info["state"]] if p.remembers else []
        after = [info["state_out"]] if p.remembers else []
        graph = make.make_graph(
            self.nodes,
            "controller",
            [info["observation"], *state],
            [info["action"], info["output"], *after],
            self.tensors,
        )
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        model.producer_name, model.doc_string = "neol", " ".join([*head(p), NOTE])
        self.onnx.checker.check_model(model, full_check=True)
        return model
