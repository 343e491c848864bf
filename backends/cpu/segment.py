"""Numpy rules of the operators that combine the rows that carry the same number."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from circlet.backends.cpu.quantized import supports
from circlet.backends.cpu.reduce import ADDABLE, confirm_shapes, identity
from circlet.backends.cpu.rule import Node, rule
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Step
from circlet.runtime.ops import segment as ops


@rule(ops.SegmentSum, accepts=supports(ADDABLE))
def segment_sum(node: Node[ops.SegmentSum]) -> Step:
    data, ids, out, confirm = node.input(0), node.input(1), node.out, confirm_shapes(node)

    def step() -> None:
        confirm()
        out.fill(0)
        np.add.at(out, ids, data)

    return step


def _unsorted_segment(node: Node[Any], function: np.ufunc) -> Step:
    confirm, ids, out = confirm_shapes(node), node.input(1).reshape(-1), node.out
    data = node.input(0).reshape(ids.size, *out.shape[1:])
    nothing = identity(function, out.dtype)

    def step() -> None:
        confirm()
        if ids.size and ids.max() >= len(out):
            raise ExecutionError(f"input 1: expected numbers below {len(out)}, the count, found {ids.max()}")
        out.fill(nothing)
        named = ids >= 0
        function.at(out, ids[named], data[named])

    return step


for _op, _function in ((ops.UnsortedSegmentSum, np.add), (ops.UnsortedSegmentProd, np.multiply),
                       (ops.UnsortedSegmentMax, np.fmax), (ops.UnsortedSegmentMin, np.fmin)):
    rule(_op, accepts=supports(ADDABLE))(partial(_unsorted_segment, function=_function))
