"""Sizes of which only a run tells whether they are equal are taken to be so where they must be: code for any lengths
goes on, and a run that finds it otherwise gives what numpy does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater, Less
from circlet.runtime.ops.controlflow import If
from circlet.runtime.ops.elementwise import Add, FloorDiv, Maximum, Mul, Sub
from circlet.runtime.ops.index import ScatterNd, Where
from circlet.runtime.ops.layout import Concatenation, Pack, StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import ReduceMax, Sum
from circlet.runtime.ops.segment import SegmentSum
from circlet.runtime.ops.shape import Range, Reshape, ShapeOf
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import Tanh
from circlet.schema.files import dump_model
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import several
from tests.native.test_plans import is_prepared
from tests.ops.cases import check
from tests.schema.onnx.graphs import load

INTS, I64 = DType.INT32, DType.INT64


def residual() -> Model:
    """As graph networks add what comes along edges to what nodes have: x (n, 6), a number of a node for each edge."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, m = (g.builder.input(name, DType.FLOAT32, (-1, 6)) for name in "xm")
    ids = g.builder.input("ids", INTS, (-1,))
    sums = g(SegmentSum(), g(Tanh(), m), ids)
    g.builder.output(g(Tanh(), g(Add(), x, sums)), sums)
    return b.build()


def edges(nodes: int, count: int, named: int) -> Sequence[np.ndarray]:
    """For so many nodes, of which the first `named` have edges."""
    return [floats(nodes, 6), floats(count, 6), np.sort(np.arange(count) % named).astype(np.int32)]


def runs() -> Model:
    """Where something begins, and how long it is to where the next begins: of x (n,)."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.BOOL, (-1,))
    first = g(Cast(), g(Reshape(), g(Where(), x, dtype=I64), g.ints(-1), dtype=I64), dtype=INTS)
    rest = g(StridedSlice(end_mask=1), first, g.ints(1), g.ints(0), g.ints(1), dtype=INTS)
    ends = g(Concatenation(0), rest, g(ShapeOf(INTS), x, dtype=INTS), dtype=INTS)
    lengths = g(Sub(), ends, first, dtype=INTS)
    g.builder.output(first, lengths, g(Mul(), lengths, first, dtype=INTS))
    return b.build()


def bools(length: int, every: int) -> Sequence[np.ndarray]:
    return [np.arange(length) % every == every - 1]


def masked() -> Model:
    """As speech is padded: x (b, t) where a mask as long as the greatest of lengths (b,) says so, in another shape."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, lengths = g.builder.input("x", DType.FLOAT32, (-1, -1)), g.builder.input("lengths", INTS, (-1,))
    greatest = g(ReduceMax(), lengths, g.ints(0), dtype=INTS)
    column = g(Reshape(), lengths, g.ints(-1, 1), dtype=INTS)
    mask = g(Cast(), g(Less(), g(Range(), g.number(0), greatest, g.number(1), dtype=INTS), column, dtype=DType.BOOL))
    size = g(Pack(3), g.length(x, 0), g.number(1), g.length(x, 1), dtype=INTS)
    shaped = g(Reshape(), g(Tanh(), mask), size)
    g.builder.output(g(Mul(), g(Reshape(), x, size), shaped), mask)
    return b.build()


def padded(count: int, length: int) -> Sequence[np.ndarray]:
    return [floats(count, length), np.arange(length, length - count, -1, dtype=np.int32)]


def packed() -> Model:
    """Rows x (n, 6) of sequences of so many rows each, lengths (b,), side by side as (b, longest, 6)."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, lengths = g.builder.input("x", DType.FLOAT32, (-1, 6)), g.builder.input("lengths", INTS, (-1,))
    greatest = g(ReduceMax(), lengths, g.ints(0), dtype=INTS)
    column = g(Reshape(), lengths, g.ints(-1, 1), dtype=INTS)
    mask = g(Less(), g(Range(), g.number(0), greatest, g.number(1), dtype=INTS), column, dtype=DType.BOOL)
    size = g(Concatenation(0), g(ShapeOf(INTS), mask, dtype=INTS), g.ints(6), dtype=INTS)
    places = g(Cast(), g(Where(), mask, dtype=I64), dtype=INTS)
    g.builder.output(g(Tanh(), g(ScatterNd(), places, x, size)))
    return b.build()


def sequences(*lengths: int) -> Sequence[np.ndarray]:
    return [floats(sum(lengths), 6), np.array(lengths, np.int32)]


def places() -> Model:
    """Where x (n,) is true, as detectors choose boxes, and one more; a number 0 without an axis if it is nowhere."""
    b = ModelBuilder()
    main, some, none = (Graph(b.subgraph(each)) for each in ("main", "some", "none"))
    main_x, some_x, _ = (each.builder.input("x", DType.BOOL, (-1,)) for each in (main, some, none))
    some.builder.output(some(Reshape(), some(Where(), some_x, dtype=I64), some.ints(-1), dtype=I64))
    none.builder.output(none.builder.constant(np.int64(0)))
    count = main(Sum(), main(Cast(), main_x, dtype=INTS), main.ints(0), dtype=INTS)
    is_any = main(Greater(), count, main.number(0), dtype=DType.BOOL)
    kinds = [Tensor(name, I64, (), has_rank=False) for name in ("places", "next")]
    found = main.builder.op(If(some.builder.index, none.builder.index), is_any, main_x, outputs=kinds[:1])[0]
    main.builder.output(found, *main.builder.op(Add(), found, main.builder.constant(np.int64(1)), outputs=kinds[1:]))
    return b.build()


CASES = {
    "places": (places, [bools(*each) for each in ((9, 2), (100, 7), (5, 5), (64, 2), (2, 2))]),
    "packed": (packed, [sequences(*each) for each in ((4, 7), (3, 1, 9), (5, 5), (60, 2, 40), (4, 7))]),
    "masked": (masked, [padded(*each) for each in ((2, 7), (3, 40), (5, 6), (2, 100), (2, 7))]),
    "residual": (residual, [edges(*each) for each in ((7, 20, 7), (3, 9, 3), (40, 200, 40), (7, 20, 7), (2, 3, 2))]),
    "runs": (runs, [bools(*each) for each in ((9, 2), (100, 7), (5, 5), (64, 2), (2, 2))]),
}
OTHERS = {"packed": [sequences(1, 1)], "masked": [padded(1, 1)], "residual": [edges(5, 4, 1)], "runs": [bools(6, 7)],
          "places": [bools(6, 7)]}
"""For which the sizes are not equal, but one of them is 1, or which take another branch."""


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    write, runs = CASES[name]
    native, cpu = (circlet.Session(dump_model(write(), "tflite"), each) for each in ("native", "cpu"))
    for given in runs:
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5 if expected.dtype.kind == "f" else None)
    assert len(compiled) == 1
    for given in (*OTHERS[name], runs[0]):
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            assert found.shape == expected.shape
            check(found, expected, 1e-5 if expected.dtype.kind == "f" else None)
    again = circlet.Session(dump_model(write(), "tflite"), "native")
    again.invoke(0, runs[1])
    assert is_prepared(again)


@pytest.mark.parametrize("length", [6, 8])
def test_masks_that_do_not_fit_are_errors(length: int, folder: Path) -> None:
    session = circlet.Session(masked(), "native")
    for given in (padded(2, 7), padded(3, 20)):
        mask = np.arange(given[0].shape[1]) < given[1][:, None]
        check(session.invoke(0, given)[1], mask.astype(np.float32), None)
    x, lengths = padded(2, 7)
    with pytest.raises(circlet.CircletError, match="cannot reshape"):
        session.invoke(0, [x, np.array([length, 3], np.int32)])
    check(session.invoke(0, [x, lengths])[0][:, 0], x * np.tanh(np.float32(np.arange(7) < np.array([[7], [6]]))), 1e-5)


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_rows_that_do_not_fit_are_errors(backend: str, folder: Path) -> None:
    session = circlet.Session(packed(), backend)
    x, lengths = sequences(3, 6)
    for _ in range(2):
        found = session.invoke(0, [x, lengths])[0]
        check(found[0, :3], np.tanh(x[:3]), 1e-5)
        assert not found[0, 3:].any()
        for rows in (8, 10):
            with pytest.raises(circlet.CircletError, match=r"\(SCATTER_ND\): cannot scatter"):
                session.invoke(0, [floats(rows, 6), lengths])


def test_sizes_that_do_not_fit_are_errors(folder: Path) -> None:
    session = circlet.Session(residual(), "native")
    for nodes, named, fits in ((7, 7, True), (7, 6, False), (3, 3, True), (3, 9, False)):
        given = edges(nodes, 20, named)
        if fits:
            check(session.invoke(0, given)[0], np.tanh(given[0] + session.invoke(0, given)[1]), 1e-5)
        else:
            with pytest.raises(circlet.CircletError, match=r"\(ADD\)"):
                session.invoke(0, given)


SCATTERED = """g (float[n, 4] x, bool[n, 4] mask, float[m] y) => (float[n, 4] z) {
    flat = NonZero(mask) where = Transpose<perm = [1, 0]>(flat) shape = Shape(where)
    zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
    count = Slice(shape, zero, one, zero) taken = Slice(y, zero, count, zero) z = ScatterND(x, where, taken) }"""


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_updates_are_as_many_as_places(backend: str, folder: Path, compiled: list[str]) -> None:
    """As where elements are put where a mask says so, if there are enough of them."""
    session = circlet.Session(load(SCATTERED), backend)
    for rows, every, more in ((5, 3, 0), (9, 2, 7), (3, 4, 0), (30, 5, 200)):
        mask = (np.arange(4 * rows) % every == 1).reshape(rows, 4)
        x, y = floats(rows, 4), floats(int(mask.sum()) + more)
        expected = x.copy()
        np.place(expected, mask, y)
        np.testing.assert_array_equal(session.invoke(0, [x, mask, y])[0], expected)
        if y[more:].size > 2:
            with pytest.raises(circlet.CircletError, match="cannot scatter updates"):
                session.invoke(0, [x, mask, y[more:][:-1]])
    assert len(compiled) <= 1


PART = """g (float[n, 4] x, int64[1] from) => (float[k, 4] y) {
    eight = Constant<value = int64[1] {8}>() zero = Constant<value = int64[1] {0}>() to = Add(from, eight)
    part = Slice(x, from, to, zero) ones = Constant<value = float[8, 1] {1, 2, 3, 4, 5, 6, 7, 8}>()
    y = Mul(part, ones) }"""


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_parts_of_a_length_that_leave_their_axis(backend: str, folder: Path) -> None:
    """A part of eight rows from a number on has less where the axis ends before, whatever is made of it."""
    session = circlet.Session(load(PART, 17), backend)
    ones = np.arange(1, 9, dtype=np.float32)[:, None]
    for rows, begin in ((20, 3), (9, 1), (9, 8), (30, 0), (9, 2)):
        x = floats(rows, 4)
        part = x[begin:begin + 8]
        if len(part) in (1, 8):
            np.testing.assert_array_equal(session.run({"x": x, "from": [begin]})["y"], part * ones)
        else:
            with pytest.raises(circlet.CircletError, match="MUL"):
                session.run({"x": x, "from": [begin]})


CHOSEN = """g (float[n, 4] x, float[n] score) => (float[k, 4] y) {
    zero = Constant<value = float {0.0}>() is = Greater(score, zero) found = NonZero(is)
    flat = Constant<value = int64[1] {-1}>() places = Reshape(found, flat) sizes = Constant<value = int64[2] {1, 2}>()
    first, second = Split<axis = 0>(places, sizes) one = Gather(x, first) other = Gather(x, second)
    weights = Constant<value = float[4, 4] {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}>()
    turned = MatMul(other, weights) y = Concat<axis = 0>(one, turned) }"""
"""What was found is cut into pieces, as where an exporter has written out a loop over it."""


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_pieces_of_what_is_found(backend: str, folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(CHOSEN, 17), backend)
    weights = np.array([1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1], np.float32).reshape(4, 4)
    for rows in (9, 20, 3, 50):
        x, score = floats(rows, 4), -np.ones(rows, np.float32)
        places = np.sort(np.random.default_rng(rows).permutation(rows)[:3])
        score[places] = 1
        expected = np.concatenate([x[places[:1]], x[places[1:]] @ weights])
        np.testing.assert_allclose(session.run({"x": x, "score": score})["y"], expected, rtol=1e-5)
    assert len(compiled) <= 1
    score[places[0]] = -1
    with pytest.raises(circlet.CircletError, match="size_splits: expected sizes that sum to 2"):
        session.run({"x": x, "score": score})


SPREAD = """g (float[n, 4] x, float[n] score, float[m, 4] like) => (float[m, 4] y) {
    zero = Constant<value = float {0.0}>() is = Greater(score, zero) found = NonZero(is)
    flat = Constant<value = int64[1] {-1}>() places = Reshape(found, flat) rows = Gather(x, places)
    sizes = Shape(like) wide = Expand(rows, sizes) y = Mul(wide, like) }"""
"""What was found is as long as another input, or spread over it if it is a single one."""


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_what_is_found_is_spread(backend: str, folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(SPREAD, 17), backend)
    for rows, count in ((9, 4), (20, 7), (30, 2), (8, 8)):
        x, score, like = floats(rows, 4), -np.ones(rows, np.float32), floats(count, 4)
        score[-count:] = 1
        np.testing.assert_array_equal(session.run([x, score, like])["y"], x[-count:] * like)
    assert len(compiled) <= 1
    assert set(session.backend_of(0)) <= {backend, "none"}
    score[-count:-1] = -1
    np.testing.assert_array_equal(session.run([x, score, like])["y"], x[-1:] * like)
    score[-2] = 1
    with pytest.raises(circlet.CircletError, match="BROADCAST"):
        session.run([x, score, like])


def test_the_last_of_the_greatest_is_one(folder: object, compiled: list[str]) -> None:
    """Rows and the last of their k greatest, a slice of one element, are not taken to be equally long but k not to be
    0."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, k = g.builder.input("x", DType.FLOAT32, (-1, -1)), g.builder.input("k", INTS, ())
    greatest, _ = several(g, TopKV2(), (DType.FLOAT32, INTS), x, k)
    last = g(StridedSlice(begin_mask=1, end_mask=3), greatest, g.ints(0, -1), g.ints(0, 0), g.ints(1, 1))
    g.builder.output(g(Maximum(), x, last), g(Tanh(), greatest))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))

    def both(rows: int, columns: int, k: int) -> None:
        given = [floats(rows, columns), np.array(k, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)

    for case in ((3, 8, 3), (5, 4, 4), (2, 90, 70), (1, 2, 1), (7, 9, 1)):
        both(*case)
    assert len(compiled) == 1
    both(4, 1, 0)
    both(6, 5, 2)


def test_blocks_of_a_size_that_the_run_tells(folder: object, compiled: list[str]) -> None:
    """An image (n, h, w) without what is left over is cut in blocks of k by k, as many images as there are; a run whose
    image has no whole block is another frame's."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, k = g.builder.input("x", DType.FLOAT32, (-1, -1, -1)), g.builder.input("k", INTS, ())
    counts = [g(FloorDiv(), g.length(x, axis), k, dtype=INTS) for axis in (1, 2)]
    ends = [g(Mul(), each, k, dtype=INTS) for each in counts]
    whole = g(StridedSlice(begin_mask=7, end_mask=1), x, g.ints(0, 0, 0), g(Pack(3), g.number(0), *ends, dtype=INTS),
              g.ints(1, 1, 1))
    blocks = g(Reshape(), whole, g(Pack(5), g.number(-1), counts[0], k, counts[1], k, dtype=INTS))
    g.builder.output(g(Tanh(), g(ReduceMax(), blocks, g.ints(2, 4))))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))

    def both(*given: int) -> None:
        *shape, k = given
        inputs = [floats(*shape), np.array(k, np.int32)]
        check(native.invoke(0, inputs)[0], cpu.invoke(0, inputs)[0], 1e-5)

    for case in ((2, 9, 8, 2), (1, 7, 12, 3), (5, 4, 4, 4), (3, 33, 70, 1), (2, 9, 8, 2)):
        both(*case)
    assert len(compiled) == 1
    both(2, 9, 3, 4)
    both(4, 6, 5, 2)


BEYOND = """g (float[n] x, int64[1] k) => (float[k, 1] y, float[m] z) { zero = Constant<value = int64[1] {0}>()
    one = Constant<value = int64[1] {1}>() three = Constant<value = int64[1] {3}>() table = Constant<value = float[4]
    {0.5, 0.25, 2.0, 1.0}>() part = Slice(x, zero, k) size = Concat<axis = 0>(k, one) y = Reshape(part, size)
    more = Mul(k, three) four = Constant<value = int64[1] {4}>() end = Add(more, four) cut = Slice(table, zero, end)
    z = Tanh(cut) }"""


def test_a_part_that_ends_beyond_an_axis_in_each_run_is_its_rest(folder: Path, compiled: list[str]) -> None:
    """As a window for the sums of windows that a spectrum is made back of, of which there are so many at the most."""
    session = circlet.Session(load(BEYOND, 17), "native")
    for count, k in ((9, 4), (3, 3), (40, 1), (5, 2), (90, 66)):
        x = floats(count)
        found = session.run({"x": x, "k": np.array([k])})
        np.testing.assert_array_equal(found["y"], x[:k, None])
        np.testing.assert_allclose(found["z"], np.tanh(np.array([0.5, 0.25, 2, 1], np.float32)), 1e-6)
    assert len(compiled) == 1
