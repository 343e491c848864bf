"""Operators about shapes."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Operand, Operands
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.shape import (
    Bitcast,
    BroadcastArgs,
    BroadcastTo,
    Densify,
    ExpandDims,
    Fill,
    OneHot,
    Range,
    Rank,
    Reshape,
    ShapeOf,
    Squeeze,
    StablehloBroadcastInDim,
    StablehloIota,
    StablehloReshape,
)
from tests.needs import NATIVE
from tests.ops.arrays import const, empty, f32, i8, i16, i32, i64, u8, u32
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WORDS = T([[b"a", b""], [b"ccc", b"\x00d"]], DType.STRING)

RESHAPE = [
    Case("constant", Reshape(), [X, const([3, 2])], [X.reshape(3, 2)]),
    Case("run-time", Reshape(), [X, [3, -1]], [X.reshape(3, 2)]),
    Case("int64", Reshape(), [X, const([6], np.int64)], [X.reshape(6)]),
    Case("option", Reshape((-1,)), [X], [X.reshape(6)]),
    Case("input-wins", Reshape((6,)), [X, const([3, 2])], [X.reshape(3, 2)]),
    Case("input-of-other-rank", Reshape((3, 2)), [X, T([[6]])], [X.reshape(3, 2)]),
    Case("old-scalar", Reshape((0,)), [[7.0]], [7.0]),
    Case("no-shape", Reshape(), [[[7.0]]], [7.0]),
    Case("empty", Reshape(), [empty(0, 3), const([-1, 3])], [empty(0, 3)]),
    Case("empty-to-0", Reshape((0,)), [empty(0, 3)], [empty(0)]),
    Case("empty-rest", Reshape(), [empty(0, 3, 4), const([0, -1, 2])], [empty(0, 6, 2)]),
    Case("bool", Reshape((2,)), [[[True], [False]]], [[True, False]]),
    Case("string", Reshape((4,)), [WORDS], [T([b"a", b"", b"ccc", b"\x00d"], DType.STRING)]),
    Case("quantised", Reshape((2,)), [T(i8([[1, 2]]), q=q(0.5, 3))], [T(i8([1, 2]), q=q(0.5, 3))]),
    Case("mismatch", Reshape(), [X, const([4])], [X], error=r"cannot reshape \(2, 3\) \(6 elements\) to \(4,\)"),
    Case("no-divisor", Reshape(), [X, const([4, -1])], [X], error=r"cannot reshape \(2, 3\)"),
    Case("zero", Reshape(), [X, const([0, -1])], [X], error=r"cannot reshape \(2, 3\)"),
    Case("two-unknown", Reshape(), [X, const([-1, -1])], [X], error=r"at most one -1, found \(-1, -1\)"),
    Case("negative", Reshape(), [X, const([-2, -3])], [X], error=r"not negative .* found \(-2, -3\)"),
]

VIEWS = [
    Case("whole", Densify(), [X], [X]),
    Case("front", ExpandDims(), [X, T(0, constant=True)], [X[None]]),
    Case("back", ExpandDims(), [X, [-1]], [X[..., None]]),
    Case("int64", ExpandDims(), [X, T(i64(-3))], [X[None]]),
    Case("string", ExpandDims(), [T(b"x", DType.STRING), T(0)], [T([b"x"], DType.STRING)]),
    Case("axis", ExpandDims(), [X, T(-4)], [X], error="axis: expected -3 to 2 for rank 3, found -4"),
    Case("axes", ExpandDims(), [X, [0, 1]], [X], error=r"axis: expected exactly one element, found shape \(2,\)"),
    Case("all", Squeeze(), [X.reshape(1, 2, 1, 3)], [X]),
    Case("some", Squeeze((-2,)), [X.reshape(1, 2, 1, 3)], [X[None]]),
    Case("twice", Squeeze((0, -3)), [X[None]], [X]),
    Case("size", Squeeze((1,)), [X[None]], [X], error=r"expected size 1 of axis 1, found shape \(1, 2, 3\)"),
    Case("axis", Squeeze((2,)), [X], [X], error="squeeze_dims: expected -2 to 1 for rank 2, found 2"),
]

VALUES = [
    Case("int32", ShapeOf(DType.INT32), [X], [[2, 3]]),
    Case("int64", ShapeOf(DType.INT64), [X], [i64([2, 3])]),
    Case("scalar", ShapeOf(DType.INT32), [7.0], [empty(0, dtype=np.int32)]),
    Case("string", ShapeOf(DType.INT32), [WORDS], [[2, 2]]),
    Case("float", ShapeOf(), [X], [[2.0, 3.0]], error="element type float32 of the result"),
    Case("matrix", Rank(), [X], [2]),
    Case("scalar", Rank(), [7.0], [0]),
]

FILL = [
    Case("constant", Fill(), [const([2, 3]), 7.0], [np.full((2, 3), 7, np.float32)]),
    Case("run-time", Fill(), [i64([2]), True], [[True, True]]),
    Case("scalar", Fill(), [const([]), i64(7)], [i64(7)]),
    Case("empty", Fill(), [const([2, 0]), 7.0], [empty(2, 0)]),
    Case("string", Fill(), [[2], T(b"xy", DType.STRING)], [T([b"xy", b"xy"], DType.STRING)]),
    Case("negative", Fill(), [[2, -3], 7.0], [X], error=r"dims: expected sizes that are not negative, found \(2, -3\)"),
    Case("dims", Fill(), [2, 7.0], [X], error=r"dims: expected rank 1, found shape \(\)"),
    Case("value", Fill(), [[2], [7.0]], [X], error=r"value: expected rank 0, found shape \(1,\)"),
]

RANGE = [
    Case("up", Range(), [0, 10, 3], [[0, 3, 6, 9]]),
    Case("down", Range(), [10, 0, T(-3, constant=True)], [[10, 7, 4, 1]]),
    Case("int64", Range(), [i64(1 << 40), i64((1 << 40) + 2), i64(1)],
         [i64([1 << 40, (1 << 40) + 1])]),
    Case("empty", Range(), [4, 4, 1], [empty(0, dtype=np.int32)]),
    Case("wide", Range(), [-(1 << 31), (1 << 31) - 1, 1 << 30], [[-(1 << 31), -(1 << 30), 0, 1 << 30]]),
    Case("float32", Range(), [1.0, 0.0, -0.3], [f32([1, 0.7, 0.39999998, 0.099999964])]),
    Case("sums", Range(), [0.0, 1.0, 0.1],
         [f32([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.70000005, 0.8000001, 0.9000001])]),
    Case("zero", Range(), [0, 5, 0], [[0]], error="expected a step from start 0 towards limit 5, found 0"),
    Case("away", Range(), [0, 5, -1], [[0]], error="towards limit 5, found -1"),
    Case("nan", Range(), [0.0, float("nan"), 1.0], [[0.0]], error="towards limit nan"),
    Case("endless", Range(), [0.0, float("inf"), 1.0], [[0.0]], error="that steps of 1.0 from 0.0 reach, found inf"),
    Case("vector", Range(), [[0], 5, 1], [[0]], error=r"start: expected rank 0, found shape \(1,\)"),
]

ONE_HOT = [
    Case("last", OneHot(-1), [[0, 2, -1, 5], T(3), 5.0, -2.0],
         [f32([[5, -2, -2], [-2, -2, 5], [-2, -2, -2], [-2, -2, -2]])]),
    Case("first", OneHot(), [i64([0, 2]), T(3, constant=True), i8(1), i8(0)],
         [i8([[1, 0], [0, 0], [0, 1]])]),
    Case("middle", OneHot(1), [[[0, 2]], T(3), True, False], [[[[True, False], [False, False], [False, True]]]]),
    Case("scalar", OneHot(-1), [1, T(3), 1.0, 0.0], [f32([0, 1, 0])]),
    Case("string", OneHot(-1), [[1], [2], T(b"on", DType.STRING), T(b"off", DType.STRING)],
         [T([[b"off", b"on"]], DType.STRING)]),
    Case("no-depth", OneHot(-1), [[1], T(0), 1.0, 0.0], [empty(1, 0)]),
    Case("depth", OneHot(-1), [[1], T(-3), 1.0, 0.0], [X],
         error="depth: expected a size that is not negative, found -3"),
    Case("axis", OneHot(2), [[1], T(3), 1.0, 0.0], [X], error="axis: expected -2 to 1 for rank 2, found 2"),
    Case("on", OneHot(), [[1], T(3), [1.0, 2.0], 0.0], [X],
         error=r"on value: expected exactly one element, found shape"),
]

BROADCAST = [
    Case("axes", BroadcastTo(), [X[:, :1], const([2, 2, 3])], [np.broadcast_to(X[:, :1], (2, 2, 3))]),
    Case("run-time", BroadcastTo(), [X[:1], i64([2, 3])], [np.broadcast_to(X[:1], (2, 3))]),
    Case("scalar", BroadcastTo(), [T(b"s", DType.STRING), const([2])], [T([b"s", b"s"], DType.STRING)]),
    Case("empty", BroadcastTo(), [[1.0], const([0])], [empty(0)]),
    Case("size", BroadcastTo(), [X, const([2, 4])], [X], error=r"cannot broadcast \(2, 3\) to \(2, 4\)"),
    Case("rank", BroadcastTo(), [X[:1], const([3])], [X], error=r"cannot broadcast \(1, 3\) to \(3,\)"),
    Case("negative", BroadcastTo(), [X, const([2, -1])], [X], error=r"shape: expected sizes that are not negative"),
    Case("ranks", BroadcastArgs(), [[2, 1, 3], [4, 1]], [[2, 4, 3]]),
    Case("zero", BroadcastArgs(), [i64([1]), i64([4, 0])], [i64([4, 0])]),
    Case("empty", BroadcastArgs(), [const([]), const([3])], [[3]]),
    Case("mismatch", BroadcastArgs(), [[2, 3], [3, 2]], [[2, 3]], error=r"cannot broadcast \(2, 3\) with \(3, 2\)"),
    Case("rank", BroadcastArgs(), [[[1]], [2]], [[2]], error=r"shape 0: expected rank 1, found shape \(1, 1\)"),
]

DECLARED = [
    Case("matrix", StablehloReshape(), [X], [X.reshape(3, 2)]),
    Case("scalar", StablehloReshape(), [[7.0]], [7.0]),
    Case("size", StablehloReshape(), [X], [[1.0]], error=r"the result has 6 elements, the model declares shape \(1,\)"),
    Case("same-size", Bitcast(), [f32([1, -2])], [u32([0x3F800000, 0xC0000000])]),
    Case("narrower", Bitcast(), [i32([1, -2])], [u8([[1, 0, 0, 0], [0xFE, 0xFF, 0xFF, 0xFF]])]),
    Case("wider", Bitcast(), [i16([[1, 2], [3, 4]])], [i32([0x20001, 0x40003])]),
    Case("size", Bitcast(), [X], [i64([1])], error="the result has 24 bytes"),
    Case("columns", StablehloBroadcastInDim((1,)), [f32([1, 2])], [f32([[1, 2], [1, 2], [1, 2]])]),
    Case("rows", StablehloBroadcastInDim((0,)), [f32([1, 2])], [f32([[1, 1, 1], [2, 2, 2]])]),
    Case("swapped", StablehloBroadcastInDim((1, 0)), [[[1], [2]]], [[[1, 2], [1, 2]]]),
    Case("axes", StablehloBroadcastInDim((1,)), [X], [X], error="expected one for each axis"),
    Case("size", StablehloBroadcastInDim((0,)), [[1, 2]], [[1, 2, 3]], error=r"cannot broadcast \(2,\) to \(3,\)"),
    Case("rows", StablehloIota(0), [], [[[0, 0], [1, 1], [2, 2]]]),
    Case("columns", StablehloIota(1), [], [f32([[0, 1], [0, 1]])]),
    Case("axis", StablehloIota(2), [], [[[0]]], error="iota_dimension: expected an axis"),
]

test_reshape = case_test(RESHAPE)
test_views = case_test(VIEWS)
test_shape_values = case_test(VALUES)
test_fill = case_test(FILL)
test_range = case_test(RANGE)
test_one_hot = case_test(ONE_HOT)
test_broadcast = case_test(BROADCAST)
test_declared_shapes = case_test(DECLARED)


@pytest.mark.parametrize(("op", "expected"), [
    (ShapeOf(DType.INT64), np.array([2, 3], np.int64)), (Rank(), np.array(2, np.int32)), (Squeeze(), None)])
def test_shapes_decide_values(op: ShapeOf | Rank | Squeeze, expected: npt.NDArray[np.int64] | None) -> None:
    found = op.from_shapes(Operands((Operand(DType.FLOAT32, (2, 3)),), 1))
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found[0].dtype == expected.dtype
        np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize(("source", "target", "row", "made"), [
    (DType.INT32, DType.FLOAT32, (), ()), (DType.FLOAT32, DType.UINT8, (), (4,)), (DType.INT16, DType.INT64, (4,), ()),
    (DType.INT32, DType.INT16, (3,), (3, 2)), (DType.INT8, DType.INT32, (2, 4), (2,))])
def test_bits_of_open_lengths(source: DType, target: DType, row: Shape, made: Shape, backend: str) -> None:
    """Between operators on shapes, and at lengths that one session comes to in turn."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", source, (-1, *row))
    (shape,) = main.op(ShapeOf(DType.INT32), x, outputs=[Tensor("shape", DType.INT32, (len(row) + 1,))])
    same = main.op(Reshape(), x, shape, outputs=[Tensor("same", source, (1, *row), shape_signature=(-1, *row))])[0]
    bits = main.op(Bitcast(), same, outputs=[Tensor("bits", target, (1, *made), shape_signature=(-1, *made))])[0]
    main.output(bits, *main.op(ShapeOf(DType.INT32), bits, outputs=[Tensor("lengths", DType.INT32, (len(made) + 1,))]))
    session = circlet.Session(builder.build(), backend)
    for length in (3, 0, 1, 17):
        given = np.arange(length * prod(row)).astype(source.numpy).reshape(length, *row)
        found, lengths = session.invoke(0, [given])
        np.testing.assert_array_equal(found, given.view(target.numpy).reshape(length, *made), strict=True)
        np.testing.assert_array_equal(lengths, (length, *made))


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_bits_of_wider_elements_take_a_whole_axis(backend: str) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    main.output(*main.op(Bitcast(), main.input("x", DType.INT8, (-1, -1)), outputs=[
        Tensor("y", DType.INT32, (1,), shape_signature=(-1,))]))
    session = circlet.Session(builder.build(), backend)
    assert session.invoke(0, [np.ones((5, 4), np.int8)])[0].tolist() == [0x01010101] * 5
    for shape in ((4, 5), (4, 0)):
        with pytest.raises(circlet.ExecutionError, match=r"BITCAST\): the shape of the result cannot be told"):
            session.invoke(0, [np.ones(shape, np.int8)])
    assert session.invoke(0, [np.ones((0, 4), np.int8)])[0].shape == (0,)
