"""Tensors that lie in memory in another order than that of their elements, under other shapes and in parts."""

from __future__ import annotations

import operator
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import Pack, SplitV, Transpose
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.shape import Reshape
from tests.native.test_budget import session_of
from tests.native.test_lengths import Graph
from tests.needs import NATIVE

pytestmark = NATIVE
Positions = npt.NDArray[np.int64]


def positions(axes: tuple[tuple[tuple[int, int], ...], ...]) -> Positions:
    """Where each element lies, under the shape of the tensor."""
    parts = [part for axis in axes for part in axis]
    grids = np.ix_(*(np.arange(size) * stride for size, stride in parts))
    found = reduce(operator.add, grids, np.zeros((), np.int64))
    return found.reshape([prod(size for size, _ in axis) for axis in axes])


@st.composite
def shapes(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    found: list[int] = []
    while size > 1:
        found.append(draw(st.sampled_from([k for k in range(2, size + 1) if size % k == 0])))
        size //= found[-1]
    for _ in range(draw(st.integers(0, 2))):
        found.insert(draw(st.integers(0, len(found))), 1)
    return tuple(found)


@given(st.data())
def test_axes_are_turned_cut_and_joined(data: st.DataObject) -> None:
    from llvmlite import ir

    from circlet.backends.native.emit.emitter import POINTER
    from circlet.backends.native.emit.layout.strided import Strided

    size = data.draw(st.sampled_from([1, 6, 24, 60]))
    shape = data.draw(shapes(size))
    memory = np.arange(size)
    place, expected = Strided.contiguous(ir.Constant(POINTER, None), shape), memory.reshape(shape)
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            order = data.draw(st.permutations(range(expected.ndim)))
            place, expected = place.transposed(order), expected.transpose(order)
        else:
            shape = data.draw(shapes(size))
            reshaped = place.reshaped(shape)
            if reshaped is None:
                assert not all(np.shares_memory(memory, each) for each in (expected, expected.reshape(shape))), \
                    "numpy knows how to cut it"
                return
            place, expected = reshaped, expected.reshape(shape)
        np.testing.assert_array_equal(positions(place.axes), expected)
        np.testing.assert_array_equal(positions((place.merged(),)).reshape(-1), expected.reshape(-1))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT16, DType.FLOAT32, DType.INT64])
def test_planes_of_any_size(dtype: DType) -> None:
    builder = circlet.ModelBuilder()
    g = Graph(builder.subgraph("main"))
    x = g.builder.input("x", dtype, (-1, -1, -1))
    g.builder.output(g(Transpose(), x, g.builder.constant(np.array([0, 2, 1], np.int32)), dtype=dtype))
    session = circlet.Session(builder.build(), "native")
    for rows, columns in [(1, 1), (3, 70), (4, 4), (5, 9), (15, 16), (17, 31), (31, 8), (64, 3), (65, 40), (95, 96),
                          (97, 33), (200, 1), (0, 5), (6, 0)]:
        given = np.arange(2 * rows * columns).reshape(2, rows, columns).astype(dtype.numpy)
        np.testing.assert_array_equal(session.invoke(0, [given])[0], given.transpose(0, 2, 1), strict=True)


def test_channels_that_are_shuffled_and_cut() -> None:
    """As ShuffleNet does it, of an image of any size."""
    builder = circlet.ModelBuilder()
    g = Graph(builder.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (1, -1, -1, 12))
    h, w = g.length(x, 1), g.length(x, 2)
    image = g(Transpose(), x, g.ints(0, 3, 1, 2))
    grouped = g(Reshape(), image, g(Pack(5), g.number(1), g.number(2), g.number(6), h, w, dtype=DType.INT32))
    target = g(Pack(4), g.number(1), g.number(12), h, w, dtype=DType.INT32)
    shuffled = g(Reshape(), g(Transpose(), grouped, g.ints(0, 2, 1, 3, 4)), target)
    parts = g.builder.op(SplitV(3), shuffled, g.ints(4, 2, 6), g.number(1),
                         outputs=[Tensor("", DType.FLOAT32, (), has_rank=False)] * 3)
    g.builder.output(*(g(Transpose(), each, g.ints(0, 2, 3, 1)) for each in parts))
    session = circlet.Session(builder.build(), "native")
    for size in [(1, 1), (2, 3), (7, 5), (16, 33)]:
        given = np.arange(12 * prod(size), dtype=np.float32).reshape(1, *size, 12)
        expected = given.reshape(1, *size, 2, 6).swapaxes(3, 4).reshape(1, *size, 12)
        for found, part in zip(session.invoke(0, [given]), np.split(expected, [4, 6], 3), strict=True):
            np.testing.assert_array_equal(found, part, strict=True)


def test_planes_of_bytes_beside_factors_that_are_packed() -> None:
    """One function for any lengths has what turns either."""
    builder = circlet.ModelBuilder()
    g = Graph(builder.subgraph("main"))
    x, y = (g.builder.input(name, DType.FLOAT32, (-1, -1)) for name in "xy")
    kinds = (DType.INT8, DType.INT16)
    planes = [g.builder.input(each.value, each, (-1, -1)) for each in kinds]
    g.builder.output(g(BatchMatMul(adj_y=True), x, y), *(
        g(Transpose(), plane, g.ints(1, 0), dtype=each) for plane, each in zip(planes, kinds, strict=True)))
    session, backend = session_of(builder.build())
    left, right = np.ones((20, 30), np.float32), np.arange(40 * 30, dtype=np.float32).reshape(40, 30)
    given = [np.arange(60 * 50).reshape(60, 50).astype(each.numpy) for each in kinds]
    product, *turned = session.invoke(0, [left, right, *given])
    np.testing.assert_array_equal(product, left @ right.T)
    for found, plane in zip(turned, given, strict=True):
        np.testing.assert_array_equal(found, plane.T, strict=True)
    assert [bool(each.module) for each in backend.listings] == [True]


def test_a_part_is_taken_of_no_elements() -> None:
    """Of places (0, 2) that were turned and put in one column, as PyTorch's `nonzero` is written, the column."""
    from llvmlite import ir

    from circlet.backends.native.emit.emitter import I64, POINTER, Emitter
    from circlet.backends.native.emit.layout.strided import Strided
    from circlet.backends.native.emit.value import in_strides
    from circlet.backends.native.emit.whole import Whole
    from circlet.backends.native.load import llvm
    from circlet.backends.native.rules.moving.move import part

    module = ir.Module()
    e = Emitter(module, ir.Function(module, ir.FunctionType(ir.VoidType(), [I64]), "f"), llvm.host())
    place = Strided.contiguous(ir.Constant(POINTER, None), (0, 2)).transposed((1, 0)).reshaped((0, 1))
    assert place is not None
    column = part(e, in_strides((0, 1), place, DType.INT64), [Whole(e, 0)] * 2, (0, 1))
    assert column.shape == (0, 1)
