"""Operators that combine the rows that carry the same number."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.segment import (
    SegmentSum,
    UnsortedSegmentMax,
    UnsortedSegmentMin,
    UnsortedSegmentProd,
    UnsortedSegmentSum,
)
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

X = np.array([[0, 1], [2, 3], [4, 5]], np.float32)
INTS = X.astype(np.int32)
TOP = 2**31 - 1
LEAST, GREATEST = np.finfo(np.float32).min, np.finfo(np.float32).max

SORTED = [
    Case("rows", SegmentSum(), [X, [0, 0, 1]], [[[2.0, 4.0], [4.0, 5.0]]]),
    Case("constant", SegmentSum(), [INTS, T([0, 1, 1], constant=True)], [[[0, 1], [6, 8]]]),
    Case("vector", SegmentSum(), [[1.0, 2.0, 3.0], [0, 1, 1]], [[1.0, 5.0]]),
    Case("gap", SegmentSum(), [[1, 2], [1, 3]], [[0, 1, 0, 2]]),
    Case("none", SegmentSum(), [X[:0], np.zeros(0, np.int32)], [X[:0]]),
    Case("wraps", SegmentSum(), [[TOP, 1], [0, 0]], [[-TOP - 1]]),
    Case("falling", SegmentSum(), [X, [0, 2, 1]], [X], error=r"ascending numbers from 0 on, found \[0, 2, 1\]"),
    Case("negative", SegmentSum(), [X, [-1, 0, 0]], [X], error=r"ascending numbers from 0 on, found \[-1, 0, 0\]"),
    Case("few", SegmentSum(), [X, [0, 0]], [X], error=r"one number for each row of shape \(3, 2\), found shape \(2,\)"),
    Case("bool", SegmentSum(), [[True], [0]], [[True]], error="element type bool"),
]

UNSORTED = [
    Case("rows", UnsortedSegmentSum(), [X, [2, 0, 2], T(4, constant=True)],
         [[[2.0, 3.0], [0.0, 0.0], [4.0, 6.0], [0.0, 0.0]]]),
    Case("run-time", UnsortedSegmentSum(), [INTS, [0, 0, 0], [1]], [[[6, 9]]]),
    Case("elements", UnsortedSegmentSum(), [X, [[0, 0], [1, 1], [2, 1]], 4], [[1.0, 10.0, 4.0, 0.0]]),
    Case("one-for-all", UnsortedSegmentSum(), [X, T(0), 1], [X[None]]),
    Case("dropped", UnsortedSegmentSum(), [X, [-5, 0, -1], 2], [[[2.0, 3.0], [0.0, 0.0]]]),
    Case("no-results", UnsortedSegmentSum(), [X, [-1, -1, -1], 0], [X[:0]]),
    Case("rows", UnsortedSegmentProd(), [INTS, [2, 0, 2], 3], [[[2, 3], [1, 1], [0, 5]]]),
    Case("rows", UnsortedSegmentMax(), [X, [2, 0, 2], 3], [[[2.0, 3.0], [LEAST, LEAST], [4.0, 5.0]]]),
    Case("ints", UnsortedSegmentMax(), [INTS, [0, 0, 0], 2], [[[4, 5], [-TOP - 1, -TOP - 1]]]),
    Case("rows", UnsortedSegmentMin(), [X, [2, 0, 2], 3], [[[2.0, 3.0], [GREATEST, GREATEST], [0.0, 1.0]]]),
    Case("ints", UnsortedSegmentMin(), [INTS, [0, 0, 0], 2], [[[0, 1], [TOP, TOP]]]),
    Case("too-great", UnsortedSegmentSum(), [X, [0, 2, 1], 2], [X[:2]], error="numbers below 2, the count, found 2"),
    Case("shape", UnsortedSegmentSum(), [X, [0, 0], 2], [X],
         error=r"the leading dimensions of \(3, 2\), found shape \(2,\)"),
    Case("count", UnsortedSegmentSum(), [X, [0, 0, 0], -1], [X], error="no negative number, found -1"),
    Case("counts", UnsortedSegmentSum(), [X, [0, 0, 0], [1, 1]], [X], error=r"exactly one element, found shape \(2,\)"),
]

test_segment_sum = case_test(SORTED)
test_unsorted_segments = case_test(UNSORTED)


@pytest.mark.parametrize(("op", "inputs"), [(SegmentSum(), 2), (UnsortedSegmentMax(), 3)])
def test_shape_is_unknown_until_the_values_are(op: Op, inputs: int) -> None:
    operands = (Operand(DType.FLOAT32, (1,)), *(Operand(DType.INT32, (1,)),) * (inputs - 1))
    with pytest.raises(Unknown):
        op.infer(Operands(operands, 1))
