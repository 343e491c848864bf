"""Parts of rows whose bounds are computed with floats, as converters of TensorFlow write them for ONNX, are code for
any lengths, in loops, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Equal, LogicalAnd, NotEqual, SelectV2
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Div, Maximum, Mul, Sub
from circlet.runtime.ops.layout import LONG, Concatenation, StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Mean
from circlet.runtime.ops.shape import Reshape, ShapeOf, Squeeze
from circlet.runtime.ops.unary import Tanh
from tests.exec import graphs as g
from tests.ops.cases import check

F32, I32, BOOL = DType.FLOAT32, DType.INT32, DType.BOOL
SHAPES = ((2, 7), (3, 12), (1, 5), (4, 2), (2, 31), (2, 7))


def made(s: SubgraphBuilder, op: Op, dtype: DType, shape: tuple[int, ...], *given: Value) -> Value:
    declared = Tensor("", dtype, tuple(abs(each) for each in shape), shape if -1 in shape else None)
    return s.op(op, *given, outputs=[declared])[0]


def bounds(s: SubgraphBuilder, number: Value, first: int, is_end: bool) -> Value:
    """[first, number] for a slice, where an end of 0 is one behind the axis; (2,)."""
    pair = made(s, Concatenation(0), I32, (2,), s.constant(np.array([first], np.int32)), number)
    if not is_end:
        return pair
    floats = made(s, Cast(), F32, (2,), pair)
    most = s.apply(Maximum(), floats, s.constant(np.array([LONG, -LONG], np.float32)))
    most = s.apply(SelectV2(), made(s, NotEqual(), BOOL, (2,), floats, floats), floats, most)
    end = made(s, Cast(), I32, (2,), most)
    is_long = made(s, Equal(), BOOL, (2,), end, s.constant(np.int32(LONG)))
    never = made(s, LogicalAnd(), BOOL, (2,), is_long, s.constant(np.array([False, False])))
    return s.apply(SelectV2(), never, s.constant(np.int32(-LONG)), end)


def part(s: SubgraphBuilder, x: Value, begin: Value, end: Value) -> Value:
    return made(s, StridedSlice(), F32, (-1, -1, 4), x, begin, end, s.constant(np.ones(2, np.int32)))


def element(s: SubgraphBuilder, x: Value, i: Value) -> Value:
    return made(s, Squeeze((1,)), F32, (-1, 4), kept(s, x, i))


def kept(s: SubgraphBuilder, x: Value, i: Value) -> Value:
    """x[:, i:i + 1], in steps that no axis is as long as."""
    behind = s.apply(Add(), i, s.constant(np.int32(1)))
    ends = s.apply(Maximum(), made(s, Cast(), F32, (2,), bounds(s, behind, 0, is_end=False)),
                   s.constant(np.array([LONG, LONG], np.float32)))
    return made(s, StridedSlice(), F32, (-1, -1, 4), x, bounds(s, i, 0, is_end=False),
                made(s, Cast(), I32, (2,), ends), s.constant(np.array([1, LONG], np.int32)))


def prefix(s: SubgraphBuilder, x: Value, i: Value, after: Value) -> Value:
    """mean(x[:, :i + 1]) + x[:, i]"""
    before = part(s, x, s.constant(np.zeros(2, np.int32)), bounds(s, after, 0, is_end=True))
    mean = made(s, Mean(), F32, (-1, 4), before, s.constant(np.array([1], np.int32)))
    return s.apply(Add(), mean, element(s, x, i))


def masked(s: SubgraphBuilder, x: Value, i: Value, after: Value) -> Value:
    """mean(x * x[:, i:i + 1, 3:])"""
    only, at = (s.constant(np.array(each, np.int32)) for each in ((1, 1, 1), (0, 0, 3)))
    by = made(s, StridedSlice(begin_mask=3, end_mask=7), F32, (-1, -1, 1), kept(s, x, i), at, at, only)
    return made(s, Mean(), F32, (-1, 4), s.apply(Mul(), x, by), s.constant(np.array([1], np.int32)))


def turns(turn: Callable[[SubgraphBuilder, Value, Value, Value], Value]) -> Model:
    """Over i: h = tanh(turn(x, i, i + 1))."""
    b = ModelBuilder()
    main, cond, body = b.subgraph("main"), b.subgraph("cond"), b.subgraph("body")
    kinds = [Tensor("i", I32, (1,)), Tensor("n", I32, (1,)), Tensor("x", F32, (1, 1, 4), (-1, -1, 4)),
             Tensor("h", F32, (1, 4), (-1, 4))]
    i, n, _, _ = (cond.input(each.name, each.dtype, each.signature) for each in kinds)
    cond.output(g.less(cond, i, n))
    i, n, x, _ = (body.input(each.name, each.dtype, each.signature) for each in kinds)
    after = body.apply(Add(), i, body.constant(np.int32(1)))
    body.output(after, n, x, body.apply(Tanh(), turn(body, x, i, after)))
    x = main.input("x", F32, (-1, -1, 4))
    zero = main.constant(np.zeros(1, np.int32))
    start = [zero, length(main, x), x, element(main, x, zero)]
    main.output(main.op(While(cond.index, body.index), *start, outputs=kinds)[3])
    return b.build()


def length(s: SubgraphBuilder, x: Value) -> Value:
    """The length of axis 1, (1,)."""
    shape = made(s, ShapeOf(I32), I32, (3,), x)
    one, two = (s.constant(np.array([each], np.int32)) for each in (1, 2))
    return made(s, StridedSlice(), I32, (1,), shape, one, two, one)


def middle() -> Model:
    """tanh(x[:, k - 1:k + 1]) for half of the length k."""
    b = ModelBuilder()
    s = b.subgraph("main")
    x = s.input("x", F32, (-1, -1, 4))
    half = s.apply(Div(), length(s, x), s.constant(np.int32(2)))
    begin = bounds(s, s.apply(Sub(), half, s.constant(np.int32(1))), 0, is_end=False)
    end = bounds(s, s.apply(Add(), half, s.constant(np.int32(1))), 0, is_end=True)
    s.output(s.apply(Tanh(), s.apply(Reshape(), part(s, x, begin, end), s.constant(np.array([-1, 4], np.int32)))))
    return b.build()


def compare(model: Model) -> None:
    """With numpy, one set of lengths after another."""
    native, cpu = (circlet.Session(model, backend) for backend in ("native", "cpu"))
    for shape in SHAPES:
        given = [np.random.default_rng(0).normal(size=(*shape, 4)).astype(np.float32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)


@pytest.mark.parametrize("make", [partial(turns, prefix), partial(turns, masked), middle],
                         ids=["prefixes", "kept", "middle"])
def test_one_function_serves_all_lengths(make: Callable[[], Model], folder: object, compiled: list[str]) -> None:
    compare(make())
    assert len(compiled) <= 2  # one sequence is its own


def chosen() -> Model:
    """x * x[:, k:k + 1], for one row."""
    b = ModelBuilder()
    s = b.subgraph("main")
    x, k = s.input("x", F32, (-1, -1, 4)), s.input("k", I32, (1,))
    s.output(s.apply(Mul(), x, kept(s, x, k)))
    return b.build()


def test_a_slice_without_an_element_is_empty_or_the_same_error() -> None:
    native, cpu = (circlet.Session(chosen(), backend) for backend in ("native", "cpu"))
    for rows, k in ((5, 2), (5, 4), (1, 0), (1, 1), (5, 5), (5, -1), (5, -7), (3, 1), (4, 1)):
        given = [np.full((2, rows, 4), 2, np.float32), np.array([k], np.int32)]
        if rows != 1 and k >= rows:
            with pytest.raises(ExecutionError, match="broadcast"):
                native.invoke(0, given)
        else:
            check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)


def in_a_group() -> Model:
    """y + tanh(y) for y = x[:, k], k half of the length, where the first bounds are computed as well."""
    b = ModelBuilder()
    s = b.subgraph("main")
    x = s.input("x", F32, (-1, -1, 4))
    half = s.apply(Div(), length(s, x), s.constant(np.int32(2)))
    behind = bounds(s, s.apply(Add(), half, s.constant(np.int32(1))), 0, is_end=False)
    ends = s.apply(Maximum(), made(s, Cast(), F32, (2,), behind), s.constant(np.array([LONG, LONG], np.float32)))
    found = made(s, StridedSlice(shrink_axis_mask=2), F32, (-1, 4), x, bounds(s, half, 0, is_end=False),
                 made(s, Cast(), I32, (2,), ends), s.constant(np.array([1, LONG], np.int32)))
    s.output(s.apply(Add(), found, s.apply(Tanh(), found)))
    return b.build()


def test_numpy_computes_groups_whose_shapes_values_tell() -> None:
    compare(in_a_group())
