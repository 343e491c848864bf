"""Numpy rules of the operators that combine the rows that carry the same number."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from circlet.backends.cpu.quantized import supports
from circlet.backends.cpu.reduce import ADDABLE, identity
from circlet.backends.cpu.rule import Bind, Node, rule
from circlet.backends.cpu.steps import chain, promised
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ops import segment as ops


@rule(ops.SegmentSum, accepts=supports(ADDABLE))
def segment_sum(node: Node[ops.SegmentSum]) -> Step:
    data, ids, out = node.input(0), node.input(1), node.out
    return chain(promised(node), partial(out.fill, 0), lambda: np.add.at(out, ids, data))


def _unsorted(function: np.ufunc) -> Bind[Any]:
    def bind(node: Node[Any]) -> Step:
        ids, out = node.input(1).reshape(-1), node.out
        data = node.input(0).reshape(ids.size, *out.shape[1:])

        def combine() -> None:
            if ids.size and ids.max() >= len(out):
                raise ExecutionError(f"input 1: expected numbers below {len(out)}, the count, found {ids.max()}")
            named = ids >= 0
            function.at(out, ids[named], data[named])

        return chain(promised(node), partial(out.fill, identity(function, out.dtype)), combine)

    return bind


for _op, _function in ((ops.UnsortedSegmentSum, np.add), (ops.UnsortedSegmentProd, np.multiply),
                       (ops.UnsortedSegmentMax, np.fmax), (ops.UnsortedSegmentMin, np.fmin)):
    rule(_op, accepts=supports(ADDABLE))(_unsorted(_function))
