"""Numpy rules of comparisons, of logic and of selection."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from circlet.backends.cpu.elementwise import define
from circlet.backends.cpu.quantized import NUMBERS, one_quantization, supports
from circlet.backends.cpu.quantized_binary import scaled
from circlet.backends.cpu.rule import Bind, Node, rule
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType
from circlet.runtime.ops import comparison as ops

_COMPARABLE = NUMBERS | {DType.BOOL}
_COMPARISONS: dict[type[Op], np.ufunc] = {
    ops.Equal: np.equal,
    ops.NotEqual: np.not_equal,
    ops.Less: np.less,
    ops.LessEqual: np.less_equal,
    ops.Greater: np.greater,
    ops.GreaterEqual: np.greater_equal,
}
_DIRECTIONS = {
    ops.Direction.EQ: np.equal,
    ops.Direction.NE: np.not_equal,
    ops.Direction.GE: np.greater_equal,
    ops.Direction.GT: np.greater,
    ops.Direction.LE: np.less_equal,
    ops.Direction.LT: np.less,
}


def _apply(function: np.ufunc) -> Bind[Any]:
    return lambda node: partial(function, *node.inputs, node.out)


def _compare_stored(function: np.ufunc) -> Bind[Any]:
    def bind(node: Node[Any]) -> Step:
        if node.dtype() == DType.INT16:
            return partial(function, *node.inputs, node.out)
        a, b = (scaled(node, k, unit=1.0, shift=8) for k in range(2))
        out = node.out
        return lambda: function(a(), b(), out)

    return bind


def _refuse_mixed_int16(call: Call) -> str | None:
    return one_quantization(call) if call.input(0).dtype == DType.INT16 else None


for _op, _function in _COMPARISONS.items():
    _plain = _COMPARABLE | {DType.STRING} if _op in (ops.Equal, ops.NotEqual) else _COMPARABLE
    define(_op, _plain, _apply(_function), _compare_stored(_function), further=_refuse_mixed_int16)
define(ops.LogicalAnd, {DType.BOOL}, _apply(np.logical_and))
define(ops.LogicalOr, {DType.BOOL}, _apply(np.logical_or))


def _refuse_total_order(call: Call) -> str | None:
    assert isinstance(call.op, ops.StablehloCompare)
    total = call.op.compare_type == ops.CompareType.FLOAT_TOTAL_ORDER
    return "comparison in total order" if total else supports(_COMPARABLE)(call)


@rule(ops.StablehloCompare, accepts=_refuse_total_order)
def stablehlo_compare(node: Node[ops.StablehloCompare]) -> Step:
    return _apply(_DIRECTIONS[node.op.comparison_direction])(node)


_selectable = supports(_COMPARABLE | {DType.STRING, DType.BFLOAT16}, QUANTIZABLE, one_quantization, operand=1)


@rule(ops.Select, accepts=_selectable)
def select(node: Node[ops.Select]) -> Step:
    condition = node.input(0)
    return _choose(condition.reshape(-1, *(1,) * (node.out.ndim - 1)) if condition.ndim == 1 else condition, node)


@rule(ops.SelectV2, accepts=_selectable)
def select_v2(node: Node[ops.SelectV2]) -> Step:
    return _choose(node.input(0), node)


@rule(ops.StablehloSelect, accepts=_selectable)
def stablehlo_select(node: Node[ops.StablehloSelect]) -> Step:
    return _choose(node.input(0), node)


def _choose(condition: Array, node: Node[Any]) -> Step:
    a, b, out = node.input(1), node.input(2), node.out
    return lambda: np.copyto(out, np.where(condition, a, b))
