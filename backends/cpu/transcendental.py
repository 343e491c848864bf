"""Numpy rules of the functions of real numbers that no flatbuffer format has operators for."""

from __future__ import annotations

from functools import partial
from math import erf
from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, rule
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import FLOATS
from circlet.runtime.ops import transcendental as ops

_UFUNCS: dict[type[Op], np.ufunc] = {
    ops.Tan: np.tan,
    ops.Asin: np.arcsin,
    ops.Acos: np.arccos,
    ops.Atan: np.arctan,
    ops.Sinh: np.sinh,
    ops.Cosh: np.cosh,
    ops.Asinh: np.arcsinh,
    ops.Acosh: np.arccosh,
    ops.Atanh: np.arctanh,
}


def _define(op: type[Op], function: np.ufunc) -> None:
    @rule(op, accepts=FLOATS)
    def bind(node: Node[Any]) -> Step:
        return partial(function, node.input(0), out=node.out)


for _op, _function in _UFUNCS.items():
    _define(_op, _function)


@rule(ops.Erf, accepts=FLOATS)
def error_function(node: Node[ops.Erf]) -> Step:
    x, out = node.input(0), node.out

    def step() -> None:
        flat = np.fromiter(map(erf, x.reshape(-1).tolist()), np.float64, x.size)
        out[...] = flat.reshape(x.shape)

    return step
