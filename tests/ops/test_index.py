"""Operators that read or write where data says."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.op import Operand, Operands, Unknown
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.index import (
    DynamicUpdateSlice,
    Gather,
    GatherNd,
    ScatterNd,
    SparseToDense,
    StablehloDynamicSlice,
    StablehloDynamicUpdateSlice,
    StablehloGather,
    Where,
)
from tests.ops.arrays import const, f32, i8, i16, i32, i64, strings
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(5, dtype=np.float32)
ROWS = np.arange(128, dtype=np.float32).reshape(2, 64)
WORDS = T([[b"a", b""], [b"ccc", b"d"]], DType.STRING)

GATHER = [
    Case("rows", Gather(), [X, [1, 0, 1]], [X[[1, 0, 1]]]),
    Case("one", Gather(), [X, [1]], [X[1:]]),
    Case("scalar", Gather(), [X, i64(1)], [X[1]]),
    Case("constant-one", Gather(), [X, const(1)], [X[1]]),
    Case("element", Gather(), [V, 3], [3.0]),
    Case("columns", Gather(-1), [X, i16([[2, 0]])], [X[:, [[2, 0]]]]),
    Case("one-column", Gather(1), [Y, [[2]]], [Y[:, [[2]]]]),
    Case("batch", Gather(1, 1), [X, [[0, 2], [1, 1]]], [f32([[0, 2], [4, 4]])]),
    Case("batch-axis", Gather(2, -1), [Y, i64([[3, 0], [1, 1]])], [np.stack([Y[0][:, [3, 0]], Y[1][:, [1, 1]]])]),
    Case("batch-one", Gather(1, 1), [X[:1], [[2]]], [[[2.0]]]),
    Case("none", Gather(), [X, T(np.zeros(0, np.int32))], [X[:0]]),
    Case("string", Gather(1), [WORDS, [1, 1]], [strings([b"", b""], [b"d", b"d"])]),
    Case("string-element", Gather(), [strings(b"a", b"bc"), 1], [T(b"bc", DType.STRING)]),
    Case("quantised", Gather(), [T(i8([4, 5]), q=q(0.5, 3)), [1, 0]], [T(i8([5, 4]), q=q(0.5, 3))]),
    Case("large", Gather(), [X, [0, 2]], [X], error="index 2 is out of range for an axis of size 2"),
    Case("negative", Gather(), [X, [0, -1]], [X], error="index -1 is out of range for an axis of size 2"),
    Case("one-negative", Gather(), [X, -1], [V[:3]], error="index -1 is out of range"),
    Case("constant-large", Gather(), [X, const([2])], [X[:1]], error="index 2 is out of range"),
    Case("empty", Gather(), [X[:0], [0, 0]], [X], error="index 0 is out of range for an axis of size 0"),
    Case("empty-result", Gather(1), [np.zeros((0, 2), np.float32), [0, 1]], [np.zeros((0, 2), np.float32)]),
    Case("empty-result-large", Gather(1), [np.zeros((0, 2), np.float32), [0, 2]], [np.zeros((0, 2), np.float32)],
         error="index 2 is out of range for an axis of size 2"),
    Case("batch-large", Gather(1, 1), [X, [[0], [3]]], [X[:, :1]], error="index 3 is out of range"),
    Case("axis", Gather(2), [X, [0]], [X], error="axis: expected -2 to 1 for rank 2, found 2"),
    Case("batch-dims", Gather(0, 1), [X, [[0], [0]]], [X], error="batch_dims: expected at most axis 0"),
    Case("batches", Gather(1, 1), [X, [[0]]], [X], error=r"agree in 1 axes, found \(2, 3\) and \(1, 1\)"),
]

GATHER_ND = [
    Case("elements", GatherNd(), [X, [[0, 2], [1, 1]]], [[2.0, 4.0]]),
    Case("rows", GatherNd(), [Y, i64([[[1], [0]]])], [Y[[[1, 0]]]]),
    Case("vector", GatherNd(), [X, i16([1, 2])], [5.0]),
    Case("whole", GatherNd(), [V, T(np.zeros((2, 0), np.int32))], [np.stack([V, V])]),
    Case("none", GatherNd(), [X, T(np.zeros((0, 2), np.int32))], [V[:0]]),
    Case("string", GatherNd(), [WORDS, [[1, 0]]], [strings(b"ccc")]),
    Case("large", GatherNd(), [X, [[0, 1], [0, 3]]], [V[:2]],
         error=r"index \[0, 3\] is out of range .* sizes \(2, 3\)"),
    Case("negative", GatherNd(), [X, [[-1]]], [X[:1]], error="index -1 is out of range for an axis of size 2"),
    Case("depth", GatherNd(), [V, [[0, 0]]], [V[:1]], error=r"found \(5,\) and \(1, 2\)"),
    Case("scalar", GatherNd(), [V, 0], [0.0], error="expected at least rank 1 of both"),
]

SCATTER_ND = [
    Case("elements", ScatterNd(), [[[1], [3]], [5.0, 6.0], const([5])], [f32([0, 5, 0, 6, 0])]),
    Case("sums", ScatterNd(), [[[1], [1], [0]], [5.0, 6.0, 7.0], [3]], [f32([7, 11, 0])]),
    Case("rows", ScatterNd(), [i64([[1], [0], [1]]), [[1, 2], [3, 4], [5, 6]], const([3, 2])],
         [[[3, 4], [6, 8], [0, 0]]]),
    Case("long-rows", ScatterNd(), [[[1], [1]], ROWS, const([2, 64])], [np.stack([0 * ROWS[0], ROWS[0] + ROWS[1]])]),
    Case("one-row", ScatterNd(), [[1], [5.0, 6.0], const([2, 2])], [f32([[0, 0], [5, 6]])]),
    Case("one-element", ScatterNd(), [[1, 1], 5.0, const([2, 2])], [f32([[0, 0], [0, 5]])]),
    Case("grid", ScatterNd(), [[[[0], [1]], [[1], [2]]], [[1, 2], [3, 4]], const([3])], [[1, 5, 4]]),
    Case("bool", ScatterNd(), [[[1], [1]], [True, True], const([2])], [[False, True]]),
    Case("wrapping", ScatterNd(), [[[1], [1]], i8([100, 100]), const([2])], [i8([0, -56])]),
    Case("stored", ScatterNd(), [[[1], [1], [0]], T(i8([4, 5, 6]), q=q(0.5, 3)), const([3])],
         [T(i8([6, 9, 0]), q=q(0.5, 3))]),
    Case("whole", ScatterNd(), [T(np.zeros((2, 0), np.int32)), [[1, 2], [3, 4]], const([2])], [[4, 6]]),
    Case("none", ScatterNd(), [T(np.zeros((0, 1), np.int32)), V[:0], const([3])], [f32([0, 0, 0])]),
    Case("large", ScatterNd(), [[[5]], [5.0], const([5])], [V], error="index 5 is out of range for an axis of size 5"),
    Case("inner", ScatterNd(), [[[1, -1]], [5.0], const([2, 3])], [X], error=r"index \[1, -1\] is out of range"),
    Case("empty", ScatterNd(), [[[0]], [5.0], const([0])], [V[:0]], error="index 0 is out of range"),
    Case("updates", ScatterNd(), [[[1]], [[5.0, 6.0]], const([3, 3])], [X], error=r"cannot scatter updates \(1, 2\)"),
    Case("depth", ScatterNd(), [[[1, 1]], [5.0], const([3])], [V], error=r"into \(3,\) by indices \(1, 2\)"),
    Case("scalar", ScatterNd(), [1, 5.0, const([3])], [V], error="indices: expected at least rank 1"),
    Case("shape", ScatterNd(), [[[1]], [5.0], [-3]], [V], error="shape: expected sizes that are not negative"),
]

NO_AXES = T(np.zeros(0, np.int32), constant=True)
SPARSE = [
    Case("vector", SparseToDense(), [[1, 3], const([5]), [7.0, 8.0], -1.0], [f32([-1, 7, -1, 8, -1])]),
    Case("scalar", SparseToDense(), [1, [3], 7, 0], [[0, 7, 0]]),
    Case("matrix", SparseToDense(), [i64([[0, 1], [1, 0]]), i64([2, 2]), [7, 8], 0], [[[0, 7], [8, 0]]]),
    Case("one-value", SparseToDense(), [[[0, 1], [1, 0]], const([2, 2]), True, [False]],
         [[[False, True], [True, False]]]),
    Case("last-wins", SparseToDense(), [[1, 1], const([3]), [7, 8], 0], [[0, 8, 0]]),
    Case("string", SparseToDense(), [[1], const([2]), strings(b"x"), T(b"", DType.STRING)], [strings(b"", b"x")]),
    Case("none", SparseToDense(), [T(np.zeros(0, np.int32)), const([2]), T(np.zeros(0, np.int32)), 4], [[4, 4]]),
    Case("of no axis", SparseToDense(), [T(np.zeros((2, 0), np.int32)), NO_AXES, [7, 8], 4], [8]),
    Case("of no axis, none", SparseToDense(), [T(np.zeros((0, 0), np.int32)), NO_AXES, 7, 4], [4]),
    Case("of no element", SparseToDense(), [T(np.zeros((0, 2), np.int32)), const([0, 2]), T(np.zeros(0, np.int32)), 4],
         [np.zeros((0, 2), np.int32)]),
    Case("large", SparseToDense(), [[3], const([3]), [7], 0], [[0, 0, 0]], error="index 3 is out of range"),
    Case("negative", SparseToDense(), [[[0, -1]], const([2, 2]), [7], 0], [[[0, 0]]],
         error=r"index \[0, -1\] is out of range"),
    Case("depth", SparseToDense(), [[[0, 1]], const([3]), [7], 0], [[0, 0, 0]],
         error=r"one number for each axis of \(3,\)"),
    Case("count", SparseToDense(), [[0, 1], const([3]), [7], 0], [[0, 0, 0]],
         error=r"as many values, found \(2,\) and \(1,\)"),
]

WHERE = [
    Case("bool", Where(), [[[True, False], [False, True]]], [i64([[0, 0], [1, 1]])]),
    Case("float32", Where(), [f32([1, 0, np.nan, -0.0])], [i64([[0], [2]])]),
    Case("none", Where(), [[False]], [np.zeros((0, 1), np.int64)]),
    Case("scalar", Where(), [True], [np.zeros((1, 0), np.int64)], error="condition: expected at least rank 1"),
]

UPDATE = [
    Case("row", DynamicUpdateSlice(), [X, [[8.0, 9.0, 7.0]], [1, 0]], [f32([[0, 1, 2], [8, 9, 7]])]),
    Case("block", DynamicUpdateSlice(), [X, [[8.0, 9.0]], i64([0, 1])], [f32([[0, 8, 9], [3, 4, 5]])]),
    Case("high", DynamicUpdateSlice(), [V, [8.0, 9.0], i64([1 << 40])], [f32([0, 1, 2, 8, 9])]),
    Case("low", DynamicUpdateSlice(), [V, [8.0, 9.0], [-3]], [f32([8, 9, 2, 3, 4])]),
    Case("scalar", DynamicUpdateSlice(), [3.0, 9.0, const([])], [9.0]),
    Case("empty", DynamicUpdateSlice(), [V, V[:0], [1]], [V]),
    Case("string", DynamicUpdateSlice(), [strings(b"a", b"b"), strings(b"x"), [1]], [strings(b"a", b"x")]),
    Case("large", DynamicUpdateSlice(), [V[:2], V, [0]], [V], error=r"update: expected one that fits into \(2,\)"),
    Case("rank", DynamicUpdateSlice(), [V, X, [0]], [V], error=r"fits into \(5,\), found \(2, 3\)"),
    Case("starts", DynamicUpdateSlice(), [X, X, [0]], [X], error=r"start indices: expected shape \(2,\), found \(1,\)"),
    Case("row", StablehloDynamicUpdateSlice(), [X, [[9.0]], 5, -1], [f32([[0, 1, 2], [9, 4, 5]])]),
    Case("starts", StablehloDynamicUpdateSlice(), [X, X, 0], [X], error=r"one for each axis of \(2, 3\), found 1"),
    Case("block", StablehloDynamicSlice((1, 2)), [X, i64(1), i64(2)], [X[1:, 1:]]),
    Case("string", StablehloDynamicSlice((1, 1)), [WORDS, 1, 0], [strings([b"ccc"])]),
    Case("large", StablehloDynamicSlice((3, 1)), [X, 0, 0], [X], error="slice_sizes: expected one that fits"),
    Case("start", StablehloDynamicSlice((1,)), [V, [0]], [V], error=r"start index: expected rank 0, found .* \(1,\)"),
]

STABLEHLO_GATHER = [
    Case("rows", StablehloGather((1,), (0,), (0,), 1, (1, 3)), [X, [[1], [0], [7], [-1]]], [X[[1, 0, 1, 0]]]),
    Case("numbers", StablehloGather((1,), (0,), (0,), 1, (1, 2)), [X, i64([1, 0])], [X[[1, 0], :2]]),
    Case("windows", StablehloGather((0, 2), (1,), (2, 1), 1, (2, 1, 2)), [Y, [[1, 2], [9, 0]]],
         [np.stack([Y[:, 2, 1:3], Y[:, 0, 2:]], 1)]),
    Case("elements", StablehloGather((), (0, 1), (1, 0), 0, (1, 1)), [X, [[2, 0], [0, 1]]], [[2.0, 3.0]]),
    Case("none", StablehloGather((1,), (0,), (0,), 1, (1, 3)), [X, T(np.zeros((0, 1), np.int32))], [X[:0]]),
    Case("large", StablehloGather((0, 1), (), (0,), 0, (3, 1)), [X, [0]], [X], error="slice_sizes: expected one that"),
    Case("vector", StablehloGather((0, 1), (), (0,), 2, (1, 1)), [X, [0]], [X], error="expected 0 to 1, found 2"),
    Case("map", StablehloGather((0, 1), (), (0, 0), 0, (1, 1)), [X, [0, 0]], [X], error="expected 2 axes of input 0"),
    Case("collapsed", StablehloGather((0,), (1,), (0,), 0, (1, 2)), [X, [0]], [X], error="have one element, found"),
    Case("offsets", StablehloGather((0,), (), (0,), 0, (1, 2)), [X, [0]], [X], error="offset_dims: expected 2 axes"),
]

test_gather = case_test(GATHER)
test_stablehlo_gather = case_test(STABLEHLO_GATHER)
test_gather_nd = case_test(GATHER_ND)
test_scatter_nd = case_test(SCATTER_ND)
test_sparse_to_dense = case_test(SPARSE)
test_where = case_test(WHERE)
test_update = case_test(UPDATE)


def test_an_update_in_place_writes_only_the_update() -> None:
    buffer, update, start = X.copy(), f32([[8, 9, 7]]), i32([1, 0])
    tensors = tuple(T(each).tensor for each in (buffer, update, start))
    step = CpuBackend().kernel(Call(DynamicUpdateSlice(), tensors, tensors[:1])).bind(
        [buffer, update, start], [buffer], Run(Variables()))
    step()
    start[0] = 0
    step()
    np.testing.assert_array_equal(buffer, f32([[8, 9, 7], [8, 9, 7]]))


def test_the_number_of_places_needs_the_condition() -> None:
    with pytest.raises(Unknown):
        Where().infer(Operands((Operand(DType.BOOL, (3,)),), 1))
