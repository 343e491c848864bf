"""Numpy rule of sliding reductions: the values of each element of the window, over all positions, are combined in
order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.backends.cpu.quantized import NUMBERS
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.reduce_window import Combination, CombineWindow

_COMBINE: Mapping[Combination, np.ufunc] = {
    Combination.ADD: np.add, Combination.MULTIPLY: np.multiply, Combination.MAXIMUM: np.maximum,
    Combination.MINIMUM: np.minimum, Combination.AND: np.logical_and, Combination.OR: np.logical_or,
}


def _of_bools(call: Call) -> str | None:
    """Refuses conditions on numbers, and arithmetic on conditions."""
    assert isinstance(call.op, CombineWindow)
    is_logical = call.op.combination in (Combination.AND, Combination.OR)
    dtype = call.input(0).dtype
    return None if is_logical == (dtype is DType.BOOL) else f"{call.op.combination.value} of {dtype.value}"


refuses = all_of(only(NUMBERS | {DType.BOOL}), _of_bools)
"""Refuses what no combination takes."""


@rule(CombineWindow, accepts=refuses)
def combine_window(node: Node[CombineWindow]) -> Step:
    x, initial, out, combine = node.input(0), node.input(1), node.out, _COMBINE[node.op.combination]
    windows, gaps = node.op.windows(x.shape), node.op.base_dilations or (1,) * x.ndim
    whole: Array = np.empty([each.before + each.length + each.after for each in windows], x.dtype)
    inner = whole[tuple(slice(each.before, each.before + each.length, gap)
                        for each, gap in zip(windows, gaps, strict=True))]

    def step() -> None:
        whole.fill(initial.item())
        inner[...] = x
        out.fill(initial.item())
        for element in np.ndindex(*(each.size for each in windows)):
            seen = whole[tuple(each.tap(k) for each, k in zip(windows, element, strict=True))]
            combine(out, seen, out=out)

    return step
