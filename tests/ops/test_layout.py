"""Operators that move elements to places known from shapes and parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.types import Activation as FusedActivation
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.layout import (
    Concatenation,
    MatrixDiag,
    MatrixSetDiag,
    Pack,
    ReverseSequence,
    ReverseV2,
    Slice,
    Split,
    SplitV,
    StablehloConcatenate,
    StablehloSlice,
    StablehloTranspose,
    StridedSlice,
    Transpose,
    Unpack,
)
from tests.ops.arrays import const, f32, i8, i32, i64, strings, u8
from tests.ops.cases import Case, T, as_t, q
from tests.ops.run_cases import case_test

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(5, dtype=np.float32)
WORDS = T([[b"a", b""], [b"ccc", b"d"]], DType.STRING)


def bounds(*axes: tuple[int, int, int]) -> tuple[T, T, T]:
    """Constant begin, end and strides."""
    begin, end, strides = zip(*axes, strict=True)
    return const(begin), const(end), const(strides)


TRANSPOSE = [
    Case("matrix", Transpose(), [X, const([1, 0])], [X.T]),
    Case("run-time", Transpose(), [Y, i64([2, 0, 1])], [Y.transpose(2, 0, 1)]),
    Case("negative", Transpose(), [Y, const([-1, 0, 1])], [Y.transpose(2, 0, 1)]),
    Case("scalar", Transpose(), [7.0, const([])], [7.0]),
    Case("rank-8", Transpose(), [Y.reshape(2, 1, 3, 1, 2, 1, 2, 1), const([7, 6, 5, 4, 3, 2, 1, 0])],
         [Y.reshape(2, 1, 3, 1, 2, 1, 2, 1).T]),
    Case("empty", Transpose(), [X[:0], const([1, 0])], [X[:0].T]),
    Case("string", Transpose(), [WORDS, const([1, 0])], [strings([b"a", b"ccc"], [b"", b"d"])]),
    Case("axis", Transpose(), [X, const([0, 2])], [X], error="permutation: expected -2 to 1 for rank 2, found 2"),
    Case("twice", Transpose(), [X, const([0, 0])], [X], error=r"each axis of \(2, 3\) once, found \(0, 0\)"),
    Case("short", Transpose(), [X, const([0])], [X], error=r"permutation: expected shape \(2,\), found shape \(1,\)"),
    Case("matrix", StablehloTranspose((1, 0)), [X], [X.T]),
    Case("short", StablehloTranspose((0,)), [X], [X], error="permutation: expected each axis"),
]

SLICE = [
    Case("constant", Slice(), [Y, const([1, 0, 2]), const([1, 2, -1])], [Y[1:, :2, 2:]]),
    Case("run-time", Slice(), [Y, i64([1, 0, 2]), i64([1, 2, -1])], [Y[1:, :2, 2:]]),
    Case("empty", Slice(), [V, const([5]), const([-1])], [V[:0]]),
    Case("scalar", Slice(), [7.0, const([]), const([])], [7.0]),
    Case("string", Slice(), [WORDS, const([0, 1]), const([2, 1])], [strings([b""], [b"d"])]),
    Case("over", Slice(), [V, const([1]), const([5])], [V], error="begin 1 and size 5 leave an axis of size 5"),
    Case("negative", Slice(), [V, [-2], [2]], [V], error="begin -2 and size 2 leave an axis of size 5"),
    Case("behind", Slice(), [V, [6], [-1]], [V], error="begin 6 and size -1 leave"),
    Case("size", Slice(), [V, [1], [-2]], [V], error="begin 1 and size -2 leave"),
    Case("short", Slice(), [X, const([1]), const([1, 1])], [X],
         error=r"begin: expected shape \(2,\), found shape \(1,\)"),
    Case("strided", StablehloSlice((0, 1), (2, 3), (1, 2)), [X], [X[:, 1:3:2]]),
    Case("limit", StablehloSlice((0, 1), (2, 4), (1, 1)), [X], [X], error="limit 4 .* not fit an axis of size 3"),
    Case("rank", StablehloSlice((0,), (2,), (1,)), [X], [X], error="for each axis"),
]

STRIDED_SLICE = [
    Case("range", StridedSlice(), [V, *bounds((1, 4, 2))], [V[1:4:2]]),
    Case("run-time", StridedSlice(), [V, [1], [4], const([1])], [V[1:4]]),
    Case("run-time-strides", StridedSlice(end_mask=2), [Y, i64([0, 9]), i64([9, 0]), i64([2, -2])], [Y[::2, ::-2]]),
    Case("run-time-strides-masks", StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2),
         [Y, i64([0, -1]), i64([0, 0]), i64([-1, 5])], [Y[::-1, -1]]),
    Case("run-time-stride", StridedSlice(), [V, [0], [5], [0]], [V], error="strides: expected none that is 0"),
    Case("clamped", StridedSlice(), [V, *bounds((-9, 99, 1))], [V]),
    Case("crossed", StridedSlice(), [V, *bounds((4, 1, 1))], [V[:0]]),
    Case("backwards", StridedSlice(), [V, *bounds((9, -9, -2))], [V[::-2]]),
    Case("backwards-to-0", StridedSlice(), [V, *bounds((4, 0, -1))], [V[4:0:-1]]),
    Case("backwards-empty", StridedSlice(), [V, *bounds((-9, -9, -1))], [V[:0]]),
    Case("masks", StridedSlice(begin_mask=1, end_mask=2), [Y, *bounds((1, 1, 1), (1, 2, 1))], [Y[:1, 1:]]),
    Case("masks-backwards", StridedSlice(begin_mask=1, end_mask=1), [V, *bounds((2, 2, -1))], [V[::-1]]),
    Case("shrink", StridedSlice(shrink_axis_mask=5), [Y, *bounds((-1, 0, 1), (0, 2, 1), (3, 4, 1))], [Y[-1, :2, 3]]),
    Case("shrink-all", StridedSlice(shrink_axis_mask=7), [Y, [1, 2, 3], [2, 3, 4], [1, 1, 1]], [23.0]),
    Case("shrink-clamped", StridedSlice(shrink_axis_mask=1), [V, *bounds((-6, -5, 1))], [0.0]),
    Case("shrink-masked", StridedSlice(shrink_axis_mask=1, begin_mask=1), [V, *bounds((2, 3, 1))], [0.0]),
    Case("ellipsis", StridedSlice(ellipsis_mask=2), [Y, *bounds((1, 2, 1), (0, 0, 1), (1, 3, 1))], [Y[1:2, ..., 1:3]]),
    Case("ellipsis-of-none", StridedSlice(ellipsis_mask=2), [V, *bounds((1, 2, 1), (0, 0, 1))], [V[1:2]]),
    Case("new-axis", StridedSlice(new_axis_mask=5), [X, *bounds((0, 0, 1), (1, 2, 1), (0, 0, 1))], [X[None, 1:, None]]),
    Case("new-wins", StridedSlice(new_axis_mask=1, shrink_axis_mask=1), [V, *bounds((0, 1, 1))], [V[None]]),
    Case("ellipsis-wins", StridedSlice(ellipsis_mask=1, new_axis_mask=3), [V, *bounds((0, 0, 1), (0, 0, 1))],
         [V[..., None]]),
    Case("offset", StridedSlice(offset=True), [V, [-3], const([2]), const([1])], [V[2:4]]),
    Case("offset-masks", StridedSlice(offset=True, begin_mask=1, end_mask=1), [V, *bounds((2, 2, 1))], [V[:2]]),
    Case("string", StridedSlice(shrink_axis_mask=3), [WORDS, *bounds((1, 2, 1), (0, 1, 1))], [T(b"ccc", DType.STRING)]),
    Case("stride", StridedSlice(), [V, *bounds((1, 4, 0))], [V], error="strides: expected none that is 0"),
    Case("index", StridedSlice(shrink_axis_mask=1), [V, [5], [6], [1]], [0.0],
         error="index 5 with stride 1 does not select from an axis of size 5"),
    Case("index-backwards", StridedSlice(shrink_axis_mask=1), [V, [2], [1], [-1]], [0.0], error="stride -1 does not"),
    Case("offset-over", StridedSlice(offset=True), [V, [3], [3], [1]], [V], error="offset 3 from 3 on leaves"),
    Case("ellipses", StridedSlice(ellipsis_mask=3), [Y, *bounds((0, 0, 1), (0, 0, 1))], [Y], error="at most one entry"),
    Case("long", StridedSlice(), [V, *bounds((0, 1, 1), (0, 1, 1))], [V], error="for at most 1 axes, found 2"),
    Case("lengths", StridedSlice(), [V, const([0]), const([1, 1]), const([1])], [V],
         error=r"end: expected shape \(1,\)"),
]

SPLIT = [
    Case("even", Split(3), [T(1, constant=True), X], [X[:, :1], X[:, 1:2], X[:, 2:]]),
    Case("run-time", Split(2), [[-3], Y], [Y[:1], Y[1:]]),
    Case("string", Split(2), [T(0, constant=True), WORDS], [strings([b"a", b""]), strings([b"ccc", b"d"])]),
    Case("uneven", Split(2), [1, X], [X, X], error=r"cannot split axis 1 of \(2, 3\) into 2 equal pieces"),
    Case("count", Split(3), [1, X], [X, X], error="num_splits: expected the number of outputs, 2, found 3"),
    Case("axis", Split(2), [2, X], [X, X], error="axis: expected -2 to 1 for rank 2, found 2"),
    Case("sizes", SplitV(2), [V, const([1, 4]), T(0, constant=True)], [V[:1], V[1:]]),
    Case("rest", SplitV(3), [X, i64([1, -1, 0]), -1], [X[:, :1], X[:, 1:], X[:, :0]]),
    Case("sum", SplitV(2), [V, [1, 1], 0], [V, V],
         error=r"sizes that sum to 5, at most one of them -1, found \(1, 1\)"),
    Case("over", SplitV(2), [V, [6, -1], 0], [V, V], error="sizes that sum to 5"),
    Case("rests", SplitV(2), [V, [-1, -1], 0], [V, V], error="sizes that sum to 5"),
    Case("negative", SplitV(2), [V, [7, -2], 0], [V, V], error="sizes that sum to 5"),
    Case("count", SplitV(2), [V, [5], 0], [V, V], error=r"size_splits: expected shape \(2,\), found shape \(1,\)"),
    Case("columns", Unpack(3, -1), [X], [X[:, 0], X[:, 1], X[:, 2]]),
    Case("scalars", Unpack(2, 0), [strings(b"x", b"yz")], [T(b"x", DType.STRING), T(b"yz", DType.STRING)]),
    Case("num", Unpack(3, 0), [X], [V, V, V], error=r"size of axis 0 of \(2, 3\), found 3"),
    Case("axis", Unpack(2, 2), [X], [V, V], error="axis: expected -2 to 1"),
]

JOIN = [
    Case("rows", Pack(2, 0), [V, V + 5], [np.stack([V, V + 5])]),
    Case("columns", Pack(2, -1), [V, V + 5], [np.stack([V, V + 5], 1)]),
    Case("scalars", Pack(3, 0), [1, 2, T(3, constant=True)], [[1, 2, 3]]),
    Case("bool", Pack(1, 0), [True], [[True]]),
    Case("string", Pack(2, 1), [strings(b"a"), strings(b"bc")], [strings([b"a", b"bc"])]),
    Case("quantised", Pack(1, 0), [T(i8(5), q=q(0.5, 3))], [T(i8([5]), q=q(0.5, 3))]),
    Case("count", Pack(3, 0), [V, V], [X], error="values_count: expected the number of inputs, 2, found 3"),
    Case("shapes", Pack(2, 0), [V, V[:2]], [X], error=r"input 1: expected the shape of input 0, \(5,\), found \(2,\)"),
    Case("axis", Pack(2, 2), [V, V], [X], error="axis: expected -2 to 1 for rank 2, found 2"),
    Case("rows", Concatenation(0), [X, X[:1], X[:0]], [np.concatenate([X, X[:1]])]),
    Case("columns", Concatenation(-1), [X, X[:, :1]], [np.concatenate([X, X[:, :1]], 1)]),
    Case("string", Concatenation(0), [strings(b"a"), strings(b"b", b"c")], [strings(b"a", b"b", b"c")]),
    Case("int8", Concatenation(0), [T(i8([1]), q=q(0.5, 1)), T(i8([2]), q=q(0.5, 1))],
         [T(i8([1, 2]), q=q(0.5, 1))]),
    Case("uint8", Concatenation(0), [T(u8([1, 3, 255]), q=q(0.5, 1)), T(u8([2, 100]), q=q(0.25, 7))],
         [T(u8([4, 8, 255, 0, 97]), q=q(0.25, 4))]),
    Case("uint8-ties", Concatenation(0), [T(u8([0, 1, 2, 3, 4, 5]), q=q(0.5, 3))],
         [T(u8([8, 9, 9, 10, 11, 11]), q=q(1.0, 10))]),
    Case("shapes", Concatenation(1), [X, X[:1]], [X],
         error=r"input 1: expected the shape of input 0, \(2, 3\), but for"),
    Case("ranks", Concatenation(0), [X, V], [X], error=r"found \(5,\)"),
    Case("scalars", Concatenation(0), [1.0, 2.0], [V], error="axis: expected 0 to -1 for rank 0"),
    Case("columns", StablehloConcatenate(1), [X, X[:, :1]], [np.concatenate([X, X[:, :1]], 1)]),
]

REVERSE = [
    Case("axes", ReverseV2(), [Y, const([-1, 0])], [Y[::-1, :, ::-1]]),
    Case("run-time", ReverseV2(), [Y, [1]], [Y[:, ::-1]]),
    Case("none", ReverseV2(), [Y, const([])], [Y]),
    Case("string", ReverseV2(), [WORDS, const([0])], [strings([b"ccc", b"d"], [b"a", b""])]),
    Case("axis", ReverseV2(), [X, const([2])], [X], error="axes: expected -2 to 1 for rank 2, found 2"),
    Case("twice", ReverseV2(), [X, const([1, -1])], [X],
         error=r"axes: expected each axis at most once, found \(1, -1\)"),
    Case("rows", ReverseSequence(1, 0), [X, [2, 3]], [f32([[1, 0, 2], [5, 4, 3]])]),
    Case("columns", ReverseSequence(0, 1), [X.T, i64([0, 3])], [f32([[0, 5], [1, 4], [2, 3]])]),
    Case("inner", ReverseSequence(1, 2), [X[..., None], [2]], [f32([[[1], [0], [2]], [[4], [3], [5]]])]),
    Case("string", ReverseSequence(1, 0), [WORDS, const([2, 1])], [strings([b"", b"a"], [b"ccc", b"d"])]),
    Case("length", ReverseSequence(1, 0), [X, [4, 1]], [X], error="seq_lengths: expected 0 to 3, found 4"),
    Case("count", ReverseSequence(1, 0), [X, [2]], [X], error=r"seq_lengths: expected shape \(2,\), found \(1,\)"),
    Case("axes", ReverseSequence(1, -1), [X, [2, 2, 2]], [X], error="another axis than batch_dim, found 1 for both"),
]

DIAGONAL = [
    Case("vectors", MatrixDiag(), [[[1, 2], [3, 4]]], [[[[1, 0], [0, 2]], [[3, 0], [0, 4]]]]),
    Case("bool", MatrixDiag(), [[True, True]], [[[True, False], [False, True]]]),
    Case("scalar", MatrixDiag(), [1], [[[1]]], error="expected at least rank 1, found a scalar"),
    Case("square", MatrixSetDiag(), [[[1, 2], [3, 4]], [8, 9]], [[[8, 2], [3, 9]]]),
    Case("wide", MatrixSetDiag(), [X, f32([8, 9])], [f32([[8, 1, 2], [3, 9, 5]])]),
    Case("tall", MatrixSetDiag(), [X.T, f32([8, 9])], [f32([[8, 3], [1, 9], [2, 5]])]),
    Case("batch", MatrixSetDiag(), [[[[1, 2]], [[3, 4]]], [[8], [9]]], [[[[8, 2]], [[9, 4]]]]),
    Case("string", MatrixSetDiag(), [WORDS, strings(b"x", b"y")], [strings([b"x", b""], [b"ccc", b"y"])]),
    Case("length", MatrixSetDiag(), [X, [1.0]], [X], error=r"diagonal: expected shape \(2,\), found \(1,\)"),
    Case("vector", MatrixSetDiag(), [V, 1.0], [V], error=r"expected at least rank 2, found shape \(5,\)"),
]

test_transpose = case_test(TRANSPOSE)
test_slice = case_test(SLICE)
test_strided_slice = case_test(STRIDED_SLICE)
test_split = case_test(SPLIT)
test_join = case_test(JOIN)
test_reverse = case_test(REVERSE)
test_diagonal = case_test(DIAGONAL)


def infer(op: Op, *operands: tuple[Shape, Sequence[int] | None]) -> tuple[Shape, ...]:
    """The shapes for a float32 input 0 and integer parameters, of which only some are known."""
    return op.infer(Operands(tuple(
        Operand(DType.INT32 if k else DType.FLOAT32, shape, None if known is None else np.array(known, np.int32))
        for k, (shape, known) in enumerate(operands)), 1))


ONE, TWO = ((1,), None), ((2,), None)
STRIDES = ((2,), [1, 2])


@pytest.mark.parametrize(("op", "parameters", "expected"), [
    (Slice(), (TWO, ((2,), [2, 3])), (2, 3)),
    (StridedSlice(shrink_axis_mask=3), (TWO, TWO, TWO), ()),
    (StridedSlice(shrink_axis_mask=1), (ONE, ONE, ONE), (7,)),
    (StridedSlice(shrink_axis_mask=1, begin_mask=2, end_mask=2), (TWO, TWO, STRIDES), (4,)),
    (StridedSlice(new_axis_mask=1, ellipsis_mask=2), (TWO, TWO, TWO), (1, 5, 7)),
    (StridedSlice(offset=True), (TWO, ((2,), [2, 3]), STRIDES), (2, 2)),
])
def test_shapes_that_unknown_values_leave_known(
    op: Op, parameters: tuple[tuple[Shape, Sequence[int] | None], ...], expected: Shape,
) -> None:
    assert infer(op, ((5, 7), None), *parameters) == (expected,)


@pytest.mark.parametrize(("op", "parameters"), [
    (Slice(), (TWO, ((2,), [2, -1]))),
    (Slice(), (((2,), [0, 0]), TWO)),
    (StridedSlice(), (ONE, ONE, ONE)),
    (StridedSlice(begin_mask=1), (ONE, ONE, ((1,), [1]))),
    (StridedSlice(begin_mask=1, end_mask=1), (ONE, ONE, ONE)),
    (StridedSlice(begin_mask=1, end_mask=1, offset=True), (ONE, ONE, ((1,), [1]))),
    (Transpose(), (TWO,)),
])
def test_shapes_that_need_values(op: Op, parameters: tuple[tuple[Shape, Sequence[int] | None], ...]) -> None:
    with pytest.raises(Unknown):
        infer(op, ((5, 7), None), *parameters)


@pytest.mark.parametrize(("op", "inputs", "declared"), [
    (StridedSlice(), [V, i32([1]), i32([4]), i32([1])], V[:2]),
    (Slice(), [V, i32([1]), i32([3])], V[:2]),
    (Transpose(), [X, i32([1, 0])], X),
])
def test_values_that_break_a_declared_shape(op: Op, inputs: Sequence[Array], declared: Array) -> None:
    call = Call(op, tuple(T(each).tensor for each in inputs), (T(declared).tensor,))
    step = CpuBackend().kernel(call).bind(inputs, [declared.copy()], Run(Variables()))
    with pytest.raises(ExecutionError, match=r"the result has shape \(3,.*, the model declares \(2,"):
        step()


INT8, OTHER = T(i8([1]), q=q(0.5, 1)), T(i8([1]), q=q(0.25, 1))


@pytest.mark.parametrize(("op", "inputs", "output", "reason"), [
    (Concatenation(0), [INT8, OTHER], INT8, "different quantisation"),
    (Concatenation(0), [V, V], [1], "different element types float32, int32"),
    (Concatenation(0, FusedActivation.RELU), [V, V], V, "fused activation RELU"),
    (Pack(2, 0), [INT8, OTHER], T(i8([[1], [1]]), q=q(0.5, 1)), "different quantisation"),
    (Transpose(), [X, f32([1, 0])], X, "element type float32 of input 1"),
    (StablehloTranspose((0,)), [T([1], DType.INT4)], T([1], DType.INT4), "element type int4 (supported"),
])
def test_refusals(op: Op, inputs: Sequence[T | npt.ArrayLike], output: T | npt.ArrayLike, reason: str) -> None:
    call = Call(op, tuple(as_t(each).tensor for each in inputs), (as_t(output).tensor,))
    assert reason in (CpuBackend().refuses(call) or "")
