"""Lengths of several inputs that are the same in every run: one function serves all of them, and tells others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Div, Mul
from circlet.runtime.ops.layout import Pack
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.shape import Reshape
from tests.native.test_lengths import Graph, floats, model
from tests.ops.cases import check


def masked(g: Graph) -> Sequence[Value]:
    """Products of rows, which are counted by the length of a mask: (n, 4, 6) and (n, 1, 1) to (n, 6, 6)."""
    x, mask = g.builder.input("x", DType.FLOAT32, (-1, 4, 6)), g.builder.input("mask", DType.FLOAT32, (-1, 1, 1))
    shape = g(Pack(3), g.length(mask, 0), g.number(-1), g.number(6), dtype=DType.INT32)
    rows = g(Reshape(), g(Mul(), x, mask), shape)
    return [g(BatchMatMul(adj_x=True), rows, rows)]


def three(g: Graph) -> Sequence[Value]:
    """The same of a sum with a third input, its rows counted by the mean of both lengths."""
    x, y, z = (g.builder.input(name, DType.FLOAT32, (-1, 4, 6)) for name in "xyz")
    both = g(Add(), g.length(y, 0), g.length(z, 0), dtype=DType.INT32)
    mean = g(Div(), both, g.number(2), dtype=DType.INT32)
    shape = g(Pack(3), mean, g.number(-1), g.number(6), dtype=DType.INT32)
    rows = g(Reshape(), g(Add(), g(Add(), x, y), z), shape)
    return [g(BatchMatMul(adj_x=True), rows, rows)]


@pytest.mark.parametrize(("write", "shapes"), [(masked, [(4, 6), (1, 1)]), (three, [(4, 6)] * 3)],
                         ids=["masked", "three"])
def test_equal_lengths_are_one(write: object, shapes: Sequence[tuple[int, ...]], folder: object,
                               compiled: list[str]) -> None:
    assert callable(write)
    made = model(write)
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))

    def same(*lengths: int) -> None:
        given = [floats(n, *each) for n, each in zip(lengths, shapes, strict=True)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)

    for n in (7, 2, 33, 12):
        same(*[n] * len(shapes))
    assert len(compiled) == 1
    assert {*native.backend_of(0)} == {"native"}
    same(5, *[1] * (len(shapes) - 1))
    same(*[1] * len(shapes))
    same(9, *[9] * (len(shapes) - 1))


def in_rows_of_the_mask(g: Graph) -> Sequence[Value]:
    """Of (b, n, 6) as many batches as there are rows of the length of a mask, (b, m, 1), times these: m must be n."""
    x, mask = g.builder.input("x", DType.FLOAT32, (-1, -1, 6)), g.builder.input("mask", DType.FLOAT32, (-1, -1, 1))
    shape = g(Pack(3), g.number(-1), g.length(mask, 1), g.number(6), dtype=DType.INT32)
    rows = g(Reshape(), x, shape)
    sizes = [g.length(x, 0), g.length(mask, 1)]
    halves = g(Reshape(), rows, g(Pack(4), *sizes, g.number(-1), g.number(3), dtype=DType.INT32))
    whole = g(Reshape(), g(Mul(), halves, halves), g(Pack(3), *sizes, g.number(-1), dtype=DType.INT32))
    return [g(Mul(), g(BatchMatMul(), whole, g.builder.constant(floats(6, 5))), mask), g(Mul(), rows, mask)]


def test_lengths_are_equal_where_quotients_are(folder: object, compiled: list[str]) -> None:
    made = model(in_rows_of_the_mask)
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))
    for b, n in ((2, 35), (4, 7), (3, 50), (5, 5)):
        given = [floats(b, n, 6), floats(b, n, 1)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)
    assert len(compiled) == 1
    with pytest.raises(circlet.ExecutionError, match="BATCH_MATMUL"):
        native.invoke(0, [floats(2, 6, 6), floats(2, 3, 1)])
    with pytest.raises(circlet.ExecutionError, match="RESHAPE"):
        native.invoke(0, [floats(2, 6, 6), floats(2, 5, 1)])


CROSSED = """g (float[b, d, 8] q, float[b, t, 8] h, float[b, t] mask) => (float[b, d, 2] y) {
    zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
    two = Constant<value = int64[1] {2}>() rest = Constant<value = int64[1] {-1}>()
    four = Constant<value = int64[1] {4}>() sizes = Shape(q) b = Slice(sizes, zero, one) d = Slice(sizes, one, two)
    shape = Shape(mask) t = Slice(shape, one, two) ours = Concat<axis = 0>(b, d, two, four)
    theirs = Concat<axis = 0>(b, t, rest, four) rows = Reshape(q, ours) heads = Transpose<perm = [0, 2, 1, 3]>(rows)
    keys = Reshape(h, theirs) columns = Transpose<perm = [0, 2, 3, 1]>(keys) scores = MatMul(heads, columns)
    axes = Constant<value = int64[2] {1, 2}>() wide = Unsqueeze(mask, axes) masked = Add(scores, wide)
    values = Transpose<perm = [0, 2, 1, 3]>(keys) each = MatMul(masked, values)
    back = Transpose<perm = [0, 2, 1, 3]>(each) flat = Concat<axis = 0>(b, d, rest) all = Reshape(back, flat)
    last = Constant<value = float[8, 2] {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}>() y = MatMul(all, last) }"""
"""The heads of keys follow from shapes of three inputs; they are two, if what has one name is of one length."""


def test_lengths_of_one_name_are_one(folder: object, compiled: list[str]) -> None:
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import load

    made = load(CROSSED)
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))

    def same(b: int, d: int, t: int, rows: int) -> None:
        given = [floats(b, d, 8), floats(b, t, 8), floats(rows, t)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)

    for b, d, t in ((2, 5, 7), (3, 8, 9), (5, 4, 4), (4, 30, 2)):
        same(b, d, t, b)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} == {"native"}
    same(3, 5, 7, 1)
    same(1, 3, 6, 1)


KEPT = """g (float[b, {n}, 6] x, float[b, p, 6] kept, float[b, t, 1] mask) => (float[b, m, 2] y) {{
    zero = Constant<value = int64[1] {{0}}>() two = Constant<value = int64[1] {{2}}>()
    three = Constant<value = int64[1] {{3}}>() rest = Constant<value = int64[1] {{-1}}>()
    all = Concat<axis = 1>(kept, x) scaled = Mul(all, mask) shape = Shape(mask) ours = Slice(shape, zero, two)
    split = Concat<axis = 0>(ours, rest, three) parts = Reshape(all, split)
    whole = Concat<axis = 0>(ours, rest) rows = Reshape(parts, whole)
    last = Constant<value = float[6, 2] {{1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5}}>() one = MatMul(scaled, last)
    other = MatMul(rows, last) y = Add(one, other) }}"""
"""A mask of what was kept and what is new, as decoders have it: it is as long as both together."""


@pytest.mark.parametrize("n", ["n", "1"])
def test_lengths_that_are_sums_of_others(n: str, folder: object, compiled: list[str]) -> None:
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import load

    made = load(KEPT.format(n=n))
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))
    for b, count, kept in ((2, 4, 16), (3, 9, 2), (1, 7, 7), (2, 3, 1), (4, 5, 30)):
        new = 1 if n == "1" else count
        given = [floats(b, new, 6), floats(b, kept, 6), floats(b, kept + new, 1)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} == {"native"}
    with pytest.raises(circlet.ExecutionError, match="MUL"):
        native.invoke(0, [floats(2, 1, 6), floats(2, 3, 6), floats(2, 10, 1)])


def product(g: Graph) -> Sequence[Value]:
    """Rows of any length, which must be that of the columns that they are multiplied by, and a sum of them."""
    x = g.builder.input("x", DType.FLOAT32, (-1, -1))
    y = g(BatchMatMul(), g(Mul(), x, x), g.builder.constant(floats(6, 5)))
    return [y, g(BatchMatMul(), g(Add(), x, x), g.builder.constant(floats(6, 3)))]


def test_lengths_that_must_be_a_number(folder: object, compiled: list[str]) -> None:
    made = model(product)
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))
    for n in (7, 2, 33, 1):
        given = [floats(n, 6)]
        for found, expected in zip(*(each.invoke(0, given) for each in (native, cpu)), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} == {"native"}
    with pytest.raises(circlet.ExecutionError, match="BATCH_MATMUL"):
        native.invoke(0, [floats(7, 5)])


def test_lengths_that_are_not_equal_are_told(folder: object) -> None:
    session = circlet.Session(model(masked), backend="native")
    session.invoke(0, [floats(5, 4, 6), floats(5, 1, 1)])
    with pytest.raises(circlet.ExecutionError, match=r"operator \d+ \(MUL\)"):
        session.invoke(0, [floats(5, 4, 6), floats(4, 1, 1)])
    assert np.isfinite(session.invoke(0, [floats(4, 4, 6), floats(4, 1, 1)])[0]).all()
