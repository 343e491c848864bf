"""Operators that order elements, place them among ordered ones, or select by order."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.detection import NonMaxSuppressionV4, NonMaxSuppressionV5
from circlet.runtime.ops.sort import Bucketize, TopKV2, Unique, UniqueSlices
from circlet.session import Session
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

NAN, INF = np.nan, np.inf


def k(value: int) -> T:
    return T(value, constant=True)


TOP = [
    Case("rows", TopKV2(), [[[1.0, 5.0, 5.0, 3.0], [7.0, 5.0, 0.0, 7.0]], k(3)],
         [[[5.0, 5.0, 3.0], [7.0, 7.0, 5.0]], [[1, 2, 3], [0, 3, 1]]]),
    Case("all", TopKV2(), [[2, -1, 7], k(3)], [[7, 2, -1], [2, 0, 1]]),
    Case("none", TopKV2(), [[2, -1, 7], k(0)], [np.zeros(0, np.int32), np.zeros(0, np.int32)]),
    Case("run-time", TopKV2(), [[2, -1, 7], [1]], [[7], [2]]),
    Case("int64", TopKV2(), [np.array([1, 1 << 40, -1 << 63], np.int64), k(3)],
         [np.array([1 << 40, 1, -1 << 63], np.int64), [1, 0, 2]]),
    Case("int8", TopKV2(), [T(np.array([-128, 127, 0], np.int8), q=q(0.5)), k(2)],
         [T(np.array([127, 0], np.int8), q=q(0.5)), [1, 2]]),
    Case("uint8", TopKV2(), [np.array([0, 255, 0], np.uint8), k(3)], [np.array([255, 0, 0], np.uint8), [1, 0, 2]]),
    Case("int16-indices", TopKV2(), [[1.0, 2.0], T(np.int16(1))], [[2.0], np.array([1], np.int16)]),
    Case("nan", TopKV2(), [[NAN, 1.0, -INF, INF, NAN], k(5)], [[INF, 1.0, -INF, NAN, NAN], [3, 1, 2, 0, 4]]),
    Case("too-many", TopKV2(), [[1.0, 2.0], k(3)], [[0.0], [0]], error="expected 0 to 2, .* found 3"),
    Case("negative", TopKV2(), [[1.0, 2.0], k(-1)], [[0.0], [0]], error="expected 0 to 2, .* found -1"),
    Case("scalar", TopKV2(), [1.0, k(1)], [1.0, 0], error="input 0 is a scalar"),
    Case("two", TopKV2(), [[1.0], [1, 1]], [1.0, 0], error=r"exactly one element, found shape \(2,\)"),
    Case("bool", TopKV2(), [[True], k(1)], [[True], [0]], error="element type bool"),
    Case("other-scale", TopKV2(), [T(np.array([1], np.int8), q=q(0.5)), k(1)],
         [T(np.array([1], np.int8), q=q(0.25)), [0]], error="operands of different quantisation"),
]

DISTINCT = [
    Case("first-occurrences", Unique(), [[3, 1, 3, 2, 1]], [[3, 1, 2], [0, 1, 0, 2, 1]]),
    Case("int64-indices", Unique(DType.INT64), [np.array([9, 9], np.uint8)],
         [np.array([9], np.uint8), np.array([0, 0], np.int64)]),
    Case("nan", Unique(), [[NAN, 3.0, NAN, 3.0]], [[NAN, 3.0, NAN], [0, 1, 2, 1]]),
    Case("empty", Unique(), [np.zeros(0, np.float32)], [np.zeros(0, np.float32), np.zeros(0, np.int32)]),
    Case("matrix", Unique(), [[[1]]], [[1], [0]], error=r"expected a vector, found shape \(1, 1\)"),
    Case("bool", Unique(), [[True]], [[True], [0]], error="element type bool"),
    Case("float-indices", Unique(DType.FLOAT32), [[1]], [[1], [0.0]], error="index type float32"),
]

BUCKETS = [
    Case("floats", Bucketize((0.0, 3.0, 3.0, 8.0)), [[[-1.0, 0.0, 2.0], [3.0, 8.0, 9.0]]], [[[0, 1, 1], [3, 4, 4]]]),
    Case("special", Bucketize((0.0, 3.0)), [[NAN, INF, -INF]], [[2, 2, 0]]),
    Case("no-boundaries", Bucketize(), [[1, 2]], [[0, 0]]),
    Case("ints-as-float32", Bucketize((16777220.0,)), [[16777217, 16777219]], [[0, 1]]),
    Case("float64", Bucketize((16777220.0,)), [np.array([16777219, 16777220], np.float64)], [[0, 1]]),
    Case("scalar", Bucketize((1.0,)), [np.int64(3)], [1]),
    Case("unsorted", Bucketize((3.0, 0.0)), [1.0], [0], error=r"ascending boundaries, found \(3.0, 0.0\)"),
    Case("int8", Bucketize((1.0,)), [np.int8(3)], [0], error="element type int8"),
]

BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1],
                    [0, 100, 1, 101]], np.float32)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)
SOFT = np.array([0.95, 0.9, 0.38400355, 0.3, 0.2560026, 0], np.float32)

SELECTED = [
    Case("padded", NonMaxSuppressionV4(), [BOXES, SCORES, k(5), 0.5, 0.0], [[3, 0, 5, 0, 0], 3]),
    Case("run-time", NonMaxSuppressionV4(), [BOXES, SCORES, T(2), 0.5, 0.0], [[3, 0], 2]),
    Case("any-corners", NonMaxSuppressionV4(), [BOXES[:, [2, 1, 0, 3]], SCORES, k(3), 0.5, 0.0], [[3, 0, 5], 3]),
    Case("scores", NonMaxSuppressionV4(), [BOXES, SCORES, k(3), 0.5, SCORES[5]], [[3, 0, 0], 2]),
    Case("equal-scores", NonMaxSuppressionV4(), [BOXES, np.full(6, np.float32(0.5)), k(6), 0.5, 0.0],
         [[0, 3, 5, 0, 0, 0], 3]),
    Case("limit-is-overlap", NonMaxSuppressionV4(),
         [np.array([[0, 0, 1, 1], [0, 0, 1, 0.5]], np.float32), SCORES[:2], k(2), 0.5, 0.0], [[0, 0], 1]),
    Case("empty-boxes", NonMaxSuppressionV4(), [np.zeros((2, 4), np.float32), SCORES[:2], k(3), 0.5, 0.0],
         [[0, 1, 0], 2]),
    Case("no-boxes", NonMaxSuppressionV4(), [BOXES[:0], SCORES[:0], k(1), 0.5, 0.0], [[0], 0]),
    Case("nan", NonMaxSuppressionV4(), [BOXES[:2], [NAN, 0.1], k(2), 0.5, 0.0], [[1, 0], 1]),
    Case("hard", NonMaxSuppressionV5(), [BOXES, SCORES, k(4), 0.5, 0.0, 0.0],
         [[3, 0, 5, 0], np.array([0.95, 0.9, 0.3, 0], np.float32), 3]),
    Case("soft", NonMaxSuppressionV5(), [BOXES, SCORES, k(6), 1.0, 0.25, 0.5], [[3, 0, 1, 5, 4, 0], SOFT, 5],
         tolerance=1e-6),
    Case("soft-constant", NonMaxSuppressionV5(), [BOXES, SCORES, k(6), 1.0, 0.25, T(0.5, constant=True)],
         [[3, 0, 1, 5, 4, 0], SOFT, 5], tolerance=1e-6),
    Case("soft-and-hard", NonMaxSuppressionV5(), [BOXES, SCORES, k(6), 0.5, 0.25, T(0.5, constant=True)],
         [[3, 0, 5, 0, 0, 0], np.array([0.95, 0.9, 0.3, 0, 0, 0], np.float32), 3], tolerance=1e-6),
    Case("sigma", NonMaxSuppressionV5(), [BOXES, SCORES, k(1), 1.0, 0.0, -1.0], [[0], [0.0], 0],
         error="input 5 is sigma: expected no negative number, found -1"),
    Case("corners", NonMaxSuppressionV4(), [BOXES[:, :3], SCORES, k(1), 0.5, 0.0], [[0], 0],
         error=r"expected boxes of shape \(n, 4\), found \(6, 3\)"),
    Case("few-scores", NonMaxSuppressionV4(), [BOXES, SCORES[:3], k(1), 0.5, 0.0], [[0], 0],
         error=r"one score for each of 6 boxes, found shape \(3,\)"),
    Case("length", NonMaxSuppressionV4(), [BOXES, SCORES, k(-1), 0.5, 0.0], [[0], 0], error="found -1"),
    Case("thresholds", NonMaxSuppressionV4(), [BOXES, SCORES, k(1), [0.5, 0.5], 0.0], [[0], 0],
         error=r"input 3: expected exactly one element, found shape \(2,\)"),
]

test_top_k = case_test(TOP)
test_unique = case_test(DISTINCT)
test_bucketize = case_test(BUCKETS)
test_non_max_suppression = case_test(SELECTED)


@pytest.mark.parametrize(("op", "shapes"), [
    (TopKV2(), [(3,), ()]), (Unique(), [(3,)]), (NonMaxSuppressionV4(), [(3, 4), (3,), (), (), ()]),
])
def test_shape_is_unknown_until_the_values_are(op: Op, shapes: list[tuple[int, ...]]) -> None:
    operands = tuple(Operand(DType.FLOAT32 if shape else DType.INT32, shape) for shape in shapes)
    with pytest.raises(Unknown):
        op.infer(Operands(operands, op.results.least))


def test_results_whose_shape_depends_on_data() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    values, indices = main.op(Unique(), main.input("x", DType.INT32, (4,)))
    top = [Tensor("top", DType.INT32, (1,)), Tensor("place", DType.INT32, (1,))]
    main.output(main.op(TopKV2(), values, main.constant(1), outputs=top)[0], indices, values)
    session = Session(builder.build())
    for x in ([5, 7, 5, 7], [1, 2, 3, 4], [9, 9, 9, 9]):
        top, places, distinct = session.run([np.array(x, np.int32)]).values()
        assert top.tolist() == [max(x)]
        assert [distinct[place] for place in places] == x
        assert distinct.tolist() == list(dict.fromkeys(x))


def test_distinct_slices() -> None:
    rows = np.array([[3, 1], [0, 0], [3, 1], [2, 9]], np.int32)
    found = run_unique(UniqueSlices(axis=0), rows)
    for one, other in zip(found, ([[0, 0], [2, 9], [3, 1]], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]), strict=True):
        np.testing.assert_array_equal(one, other)
    found = run_unique(UniqueSlices(ascending=False), rows)
    for one, other in zip(found, ([3, 1, 0, 2, 9], [0, 1, 2, 6, 7], [0, 1, 2, 2, 0, 1, 3, 4], [2, 2, 2, 1, 1]),
                          strict=True):
        np.testing.assert_array_equal(one, other)


def run_unique(op: UniqueSlices, x: np.ndarray) -> list[np.ndarray]:
    main = (builder := ModelBuilder()).subgraph()
    main.output(*main.op(op, main.input("x", np.int32, x.shape)))
    return list(Session(builder.build(), backend="cpu").run([x]).values())
