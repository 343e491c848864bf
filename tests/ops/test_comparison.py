"""Comparisons, logic and selection."""

from __future__ import annotations

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison as ops
from circlet.runtime.ops.comparison import CompareType, Direction
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

NAN = float("nan")
F, TR = False, True
PAIR = ([1, 2, 3], [2, 2, 2])
WITH_NAN = ([NAN, NAN, 1.0], [NAN, 1.0, NAN])


def strings(*values: bytes) -> T:
    return T(list(values), DType.STRING)


CASES = [
    Case("int32", ops.Equal(), PAIR, [[F, TR, F]]),
    Case("nan", ops.Equal(), WITH_NAN, [[F, F, F]]),
    Case("bool", ops.Equal(), [[TR, F], [TR, TR]], [[TR, F]]),
    Case("strings", ops.Equal(), [strings(b"a", b"", b"\xff"), strings(b"a", b"b", b"\xff")], [[TR, F, TR]]),
    Case("broadcast", ops.Equal(), [[[1], [2]], [1, 2]], [[[TR, F], [F, TR]]]),
    Case("int16", ops.Equal(), [T([30613], DType.INT16, q(1e-5)), T([30560], DType.INT16, q(1e-5))], [[F]]),
    Case("int16-scales", ops.Equal(), [T([1], DType.INT16, q(0.5)), T([2], DType.INT16, q(0.25))], [[TR]],
         error="operands of different quantisation"),
    Case("types", ops.Equal(), [[1], [1.0]], [[TR]], error="input 1 has element type float32"),
    Case("int32", ops.NotEqual(), PAIR, [[TR, F, TR]]),
    Case("nan", ops.NotEqual(), WITH_NAN, [[TR, TR, TR]]),
    Case("strings", ops.NotEqual(), [strings(b"a", b"b"), strings(b"b", b"b")], [[TR, F]]),
    Case("int32", ops.Less(), PAIR, [[TR, F, F]]),
    Case("nan", ops.Less(), WITH_NAN, [[F, F, F]]),
    Case("strings", ops.Less(), [strings(b"a"), strings(b"b")], [[TR]], error="element type string of input 0"),
    Case("scalar", ops.Less(), [1, 2], [TR]),
    Case("int32", ops.LessEqual(), PAIR, [[TR, TR, F]]),
    Case("int64", ops.Greater(), [T([1 << 40], DType.INT64), T([1], DType.INT64)], [[TR]]),
    Case("int32", ops.Greater(), PAIR, [[F, F, TR]]),
    Case("float", ops.GreaterEqual(), [[1.0, -0.0, NAN], [2.0, 0.0, 1.0]], [[F, TR, F]]),
    Case("eq", ops.StablehloCompare(Direction.EQ), PAIR, [[F, TR, F]]),
    Case("ne", ops.StablehloCompare(Direction.NE), PAIR, [[TR, F, TR]]),
    Case("ge", ops.StablehloCompare(Direction.GE), PAIR, [[F, TR, TR]]),
    Case("gt", ops.StablehloCompare(Direction.GT), PAIR, [[F, F, TR]]),
    Case("le", ops.StablehloCompare(Direction.LE), PAIR, [[TR, TR, F]]),
    Case("lt", ops.StablehloCompare(Direction.LT), PAIR, [[TR, F, F]]),
    Case("total-order", ops.StablehloCompare(Direction.LT, CompareType.FLOAT_TOTAL_ORDER), [[1.0], [2.0]], [[TR]],
         error="comparison in total order"),
    Case("bool", ops.LogicalAnd(), [[TR, TR, F], [TR, F, F]], [[TR, F, F]]),
    Case("broadcast", ops.LogicalAnd(), [[[TR], [F]], [TR, F]], [[[TR, F], [F, F]]]),
    Case("int32", ops.LogicalAnd(), [[1], [1]], [[1]], error="element type int32 of input 0"),
    Case("bool", ops.LogicalOr(), [[TR, TR, F], [TR, F, F]], [[TR, TR, F]]),
    Case("all", ops.Select(), [[[TR, F]], [[1, 2]], [[3, 4]]], [[[1, 4]]]),
    Case("scalar", ops.Select(), [F, [[1, 2]], [[3, 4]]], [[[3, 4]]]),
    Case("rows", ops.Select(), [[TR, F], [[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[[1, 2], [7, 8]]]),
    Case("strings", ops.Select(), [[TR, F], strings(b"a", b"b"), strings(b"c", b"d")], [strings(b"a", b"d")]),
    Case("columns", ops.Select(), [[TR], [[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[[0]]],
         error=r"the condition, input 0, has shape \(1,\), expected \(2, 2\), \(\) or \(2,\)"),
    Case("shapes", ops.Select(), [TR, [1, 2], [1]], [[0]], error=r"input 2 has shape \(1,\), expected \(2,\)"),
    Case("condition", ops.Select(), [1, [1], [2]], [[0]], error="input 0, has element type int32, expected bool"),
    Case("types", ops.Select(), [TR, [1], [2.0]], [[0]], error="input 2 has element type float32, expected int32"),
    Case("broadcast", ops.SelectV2(), [[TR, F], [[1], [2]], 0], [[[1, 0], [2, 0]]]),
    Case("scalars", ops.SelectV2(), [[TR, F], 1.0, NAN], [[1.0, NAN]]),
    Case("quantized", ops.SelectV2(), [[TR, F], T([1], DType.INT8, q(0.5, 3)), T([2], DType.INT8, q(0.5, 3))],
         [T([1, 2], DType.INT8, q(0.5, 3))]),
    Case("quantizations", ops.SelectV2(), [TR, T([1], DType.INT8, q(0.5)), T([2], DType.INT8, q(0.25))],
         [T([1], DType.INT8, q(0.5))], error="operands of different quantisation"),
    Case("scalar", ops.StablehloSelect(), [TR, [1, 2], [3, 4]], [[1, 2]]),
    Case("shapes", ops.StablehloSelect(), [[TR, F], 1, 2], [[0, 0]], error="expected shapes"),
]
test_comparison = case_test(CASES)
