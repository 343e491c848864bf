"""Values that only a run tells, and that shapes follow from, are lengths: code for any of them is one function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater, Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.detection import NonMaxSuppressionV4
from circlet.runtime.ops.elementwise import Add, Div, FloorDiv, FloorMod, Maximum, Minimum, Mul, Sub
from circlet.runtime.ops.index import Gather, GatherNd, ScatterNd, SparseToDense, Where
from circlet.runtime.ops.layout import Concatenation, Pack, Slice, StridedSlice
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.pad import MirrorPad, Pad, Tile
from circlet.runtime.ops.pool import AveragePool2D
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import ArgMax, ReduceMax, Sum
from circlet.runtime.ops.resample import Interpolation, Resample
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.ops.segment import SegmentSum, UnsortedSegmentSum
from circlet.runtime.ops.shape import Alias, BroadcastTo, Fill, OneHot, Range, Reshape, ShapeOf
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import Neg, Tanh
from tests.native.against_cpu import agree, applied
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS, Write, model, several
from tests.ops.cases import check
from tests.properties import holds

LENGTHS = ((8, 3), (5, 40), (64, 2), (33, 150), (12, 0), (150, 100), (8, 1), (2, 2), (9, 1000), (8, 3))
"""Of x (n, 6), and a number k."""


def filled(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """k ones, and x repeated below itself."""
    ones = g(Fill(), g(Reshape(), k, g.ints(1), dtype=INTS), g.number(1.0))
    return [g(Mul(), ones, g.number(3.0)), g(Tile(), x, twice(g, k)),
            g(Tile(), x, g(Pack(2), k, g.number(2), dtype=INTS))]


def renamed(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """A row as often as k says, beside a number of a shape; k under another name in a group."""
    one, width = g(Reshape(), k, g.ints(1), dtype=INTS), g(ShapeOf(INTS), x, dtype=INTS)
    columns = g(StridedSlice(), width, g.ints(1), g.ints(2), g.ints(1), dtype=INTS)
    size = g(Concatenation(0), g(Alias(), one, dtype=INTS), columns, dtype=INTS)
    return [g(BroadcastTo(), g.number(4.0), size), g(Mul(), size, g.ints(2, 3), dtype=INTS)]


def twice(g: Graph, k: Value) -> Value:
    """[2, 1], by way of a number."""
    return g(Add(), g(Mul(), k, g.ints(0, 0), dtype=INTS), g.ints(2, 1), dtype=INTS)


def counted(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """0 to k, and a row of so many numbers for each place."""
    numbers = g(Range(), g.number(0), k, g.number(1), dtype=INTS)
    return [g(Mul(), numbers, numbers, dtype=INTS), g(OneHot(-1), g.ints(0, 1, 2), k, g.number(1.0), g.number(0.0))]


def wider(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Padded by k rows, and (k, 2) of the same row."""
    amounts = g(Mul(), k, g.builder.constant(np.array([[0, 1], [0, 0]], np.int32)), dtype=INTS)
    shape = g(Add(), g(Mul(), k, g.ints(1, 0), dtype=INTS), g.ints(0, 2), dtype=INTS)
    return [g(Tanh(), g(Pad(), x, amounts)), g(BroadcastTo(), g.number(4.0), shape)]


def images(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows as an image, made k by 3."""
    size = g(Add(), g(Mul(), k, g.ints(1, 0), dtype=INTS), g.ints(0, 3), dtype=INTS)
    return [g(Tanh(), g(ResizeBilinear(), g(Reshape(), x, g.ints(1, -1, 3, 2)), size))]


def met(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows as many as k says, at most as x has, by different ways."""
    count = g(Minimum(), k, g.length(x, 0), dtype=INTS)
    ones = g(Fill(), g(Pack(2), count, g.number(6), dtype=INTS), g.number(2.0))
    numbers = g(Range(), g.number(0), count, g.number(1), dtype=INTS)
    first = g(StridedSlice(begin_mask=1), x, g.ints(0), g(Reshape(), count, g.ints(1), dtype=INTS), g.ints(1))
    return [g(Mul(), ones, g(Gather(), x, numbers)), g(Add(), first, ones)]


def moved_on(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """What shapes are computed with, from k: its double, halves, remainders."""
    two = g.number(2)
    sizes = [g(Add(), g(Mul(), k, two, dtype=INTS), g.number(1), dtype=INTS), g(Maximum(), k, two, dtype=INTS),
             g(Sub(), g(Maximum(), k, two, dtype=INTS), k, dtype=INTS)]
    return [g(Tanh(), g(Fill(), g(Pack(2), each, two, dtype=INTS), g.number(0.5))) for each in sizes]


def scattered(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows to the first of k + 9 places, and sums of k + 1 segments."""
    size = g(Pack(2), g(Add(), k, g.number(9), dtype=INTS), g.number(6), dtype=INTS)
    some = g(StridedSlice(begin_mask=1), x, g.ints(0), g.ints(2), g.ints(1))
    count = g(Add(), k, g.number(1), dtype=INTS)
    return [g(ScatterNd(), g.builder.constant(np.array([[0], [8]], np.int32)), some, size),
            g(UnsortedSegmentSum(), g(Neg(), some), g.ints(0, 0), count)]


def made_dense(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Two numbers in k + 9 places, and those of a column that are above 0 in k more places than x has rows."""
    first, one = g(Reshape(), g(Gather(1), x, g.ints(0)), g.ints(-1)), g(Reshape(), k, g.ints(1), dtype=INTS)
    place = g(Where(), g(Greater(), first, g.number(0.0), dtype=DType.BOOL), dtype=DType.INT64)
    some = g(GatherNd(), first, place)
    rows = g(Add(), one, g(Reshape(), g.length(x, 0), g.ints(1), dtype=INTS), dtype=INTS)
    return [g(SparseToDense(), g.ints(0, 8), g(Add(), one, g.ints(9), dtype=INTS), g.number(2.0), g.number(-1.0)),
            g(SparseToDense(), place, g(Cast(), rows, dtype=DType.INT64), some, g.number(0.5))]


def greatest(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Two of each row; all of a column in order; k of them, at most; k of many numbers, among which few are."""
    two = g(Add(), g(Mul(), k, g.number(0), dtype=INTS), g.number(2), dtype=INTS)
    first = g(Reshape(), g(Gather(1), x, g.ints(0)), g.ints(-1))
    some = g(Minimum(), k, g.length(x, 0), dtype=INTS)
    many = g(Tile(), first, g.ints(9))
    return [found for row, count in ((x, two), (first, g.length(x, 0)), (first, some), (many, some))
            for found in several(g, TopKV2(), (DType.FLOAT32, INTS), row, count)]


def grouped(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Groups of k rows, without the rows that are left over: sums of each group, the greatest of each place in one."""
    size = g(Maximum(), k, g.number(1), dtype=INTS)
    count = g(FloorDiv(), g(Maximum(), g.length(x, 0), size, dtype=INTS), size, dtype=INTS)
    whole = g(Minimum(), g(Mul(), count, size, dtype=INTS), g.length(x, 0), dtype=INTS)
    return [g(StridedSlice(begin_mask=1), x, g.ints(0), g(Reshape(), whole, g.ints(1), dtype=INTS), g.ints(1)),
            *_groups(g, x, size)]


def _groups(g: Graph, x: Value, size: Value) -> Sequence[Value]:
    twice = g(Concatenation(0), x, g(Fill(), g(Pack(2), size, g.number(6), dtype=INTS), g.number(1.0)))
    count = g(FloorDiv(), g.length(twice, 0), size, dtype=INTS)
    end = g(Reshape(), g(Mul(), count, size, dtype=INTS), g.ints(1), dtype=INTS)
    shape = g(Pack(3), count, size, g.number(6), dtype=INTS)
    groups = g(Reshape(), g(StridedSlice(begin_mask=1), twice, g.ints(0), end, g.ints(1)), shape)
    return [g(Sum(), groups, g.ints(1)), g(ReduceMax(), groups, g.ints(0))]


def resized(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """An image of k + 4 by some 2 k + 4, mirrored around, pooled and thinned out, as floats say."""
    wide = g(Cast(), g(Mul(), g(Cast(), k), g.number(2.2)), dtype=INTS)
    size = g(Pack(2), *(g(Add(), each, g.number(4), dtype=INTS) for each in (k, wide)), dtype=INTS)
    image = g(Reshape(), x, g.ints(1, -1, 3, 2))
    found = g(ResizeBilinear(), image, size)
    around = g(MirrorPad(), found, g.builder.constant(np.array([[0, 0], [2, 2], [2, 2], [0, 0]], np.int32)))
    thin = g(StridedSlice(begin_mask=15, end_mask=15), g(ResizeNearestNeighbor(), image, size), g.ints(0, 0, 0, 0),
             g.ints(0, 0, 0, 0), g.ints(1, 2, 2, 1))
    return [g(AveragePool2D(stride_h=2, stride_w=2, filter_height=3, filter_width=3), around), thin]


def in_steps(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """From 0 to k in halves, and down again in thirds."""
    end = g(Cast(), k)
    return [g(Tanh(), g(Range(), g.number(0.0), end, g.number(0.5))),
            g(Range(), end, g.number(-1.0), g.number(-1.0 / 3.0))]


def parted(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows times parts of 1, of which there are as many as floats make of the length, or one more."""
    n = g.length(x, 0)
    parts = g(Range(), g.number(0.0), g.number(1.0), g(Div(), g.number(1.0), g(Cast(), n)))
    fewest = g(Reshape(), g(Minimum(), n, g.length(parts, 0), dtype=INTS), g.ints(1), dtype=INTS)
    first = g(Reshape(), g(Gather(1), x, g.ints(0)), g.ints(-1))
    one, other = (g(StridedSlice(begin_mask=1), each, g.ints(0), fewest, g.ints(1)) for each in (first, parts))
    return [g(Mul(), one, other), parts]


def selected(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """At most k of the boxes that the first four columns are."""
    n = g.length(x, 0)
    boxes = g(Slice(), x, g.ints(0, 0), g.ints(-1, 4))
    scores = g(ReduceMax(), x, g.ints(1))
    found = g.builder.op(NonMaxSuppressionV4(), boxes, scores, g(Reshape(), k, g.ints(), dtype=INTS), g.number(0.5),
                         g.number(0.0), outputs=[Tensor("", INTS, (), has_rank=False)] * 2)
    return [g(Gather(), x, g(Minimum(), found[0], g(Sub(), n, g.number(1), dtype=INTS), dtype=INTS)), found[1]]


def resampled(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """k + 1 rows, between those that there are, as ONNX resizes."""
    size = g(Reshape(), g(Add(), k, g.number(1), dtype=INTS), g.ints(1), dtype=INTS)
    return [g(Resample((0,), Interpolation.LINEAR), x, size), g(Resample((0,)), x, size)]


def attended(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """The first k rows, by how they fit to all others; nothing where there are none."""
    count = g(Minimum(), k, g.length(x, 0), dtype=INTS)
    some = g(Slice(), x, g.ints(0, 0), g(Pack(2), count, g.number(6), dtype=INTS))
    weights = g(Softmax(1.0), g(BatchMatMul(adj_y=True), x, some))
    return [weights, g(BatchMatMul(), weights, some)]


def framed(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """The first rows, at most k, amid of 9."""
    count = g(Minimum(), g(Minimum(), k, g.length(x, 0), dtype=INTS), g.number(9), dtype=INTS)
    return _amid(g, x, count)


def _amid(g: Graph, x: Value, count: Value) -> Sequence[Value]:
    some = g(Slice(), x, g.ints(0, 0), g(Pack(2), count, g.number(6), dtype=INTS))
    room = g(Sub(), g.number(9), count, dtype=INTS)
    before = g(FloorDiv(), room, g.number(2), dtype=INTS)
    rows = g(Pack(2), before, g(Sub(), room, before, dtype=INTS), dtype=INTS)
    nine = g(Pad(), some, g(Pack(2), rows, g.ints(0, 0), dtype=INTS))
    return [g(Reshape(), nine, g.ints(3, 18)), g(Tanh(), nine)]


def summed(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Sums of rows in segments of k + 1 rows, the number of the first of which is k."""
    size = g(Add(), k, g.number(1), dtype=INTS)
    numbers = g(Range(), g.number(0), g.length(x, 0), g.number(1), dtype=INTS)
    segments = g(Add(), g(FloorDiv(), numbers, size, dtype=INTS), k, dtype=INTS)
    return [g(Tanh(), g(SegmentSum(), g(Neg(), x), segments))]


def written(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """A row of 3 of 9 is put in the place of row k, at most 6, between what is before it and behind it."""
    nine = g(Slice(), g(Tile(), x, g.ints(9, 1)), g.ints(0, 0), g.ints(9, 6))
    return _between(g, nine, g(Minimum(), k, g.number(6), dtype=INTS))


def cut(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Of what is computed, rows up to the one before the last k, and some of these."""
    end, begin, step = g(Reshape(), g(Neg(), k, dtype=INTS), g.ints(1), dtype=INTS), g.ints(0), g.ints(1)
    return [g(Tanh(), g(StridedSlice(), g(Neg(), x), begin, end, step)),
            g(Tanh(), g(StridedSlice(end_mask=1), g(Neg(), x), end, begin, step))]


def _between(g: Graph, nine: Value, place: Value) -> Sequence[Value]:
    end = g(Add(), place, g.number(3), dtype=INTS)
    before = g(Slice(), nine, g.ints(0, 0), g(Pack(2), place, g.number(6), dtype=INTS))
    rest = g(Pack(2), g(Sub(), g.number(9), end, dtype=INTS), g.number(6), dtype=INTS)
    behind = g(Slice(), nine, g(Pack(2), end, g.number(0), dtype=INTS), rest)
    new = g(Tanh(), g(Slice(), nine, g.ints(0, 0), g.ints(3, 6)))
    return [g(Reshape(), g(Concatenation(0), before, new, behind), g.ints(3, 18))]


def ends(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """How far apart neighbours are that are greater than 0, all but the first one, and none but the last two."""
    found = g(Reshape(), g(Where(), g(Reshape(), x, g.ints(-1)), dtype=DType.INT64), g.ints(-1), dtype=DType.INT64)
    later, sooner = (g(StridedSlice(begin_mask=begin, end_mask=end), found, g.ints(1), g.ints(-1), g.ints(1),
                       dtype=DType.INT64) for begin, end in ((0, 1), (1, 0)))
    last = g(StridedSlice(end_mask=1), found, g.ints(-2), g.ints(0), g.ints(1), dtype=DType.INT64)
    return [g(Sub(), later, sooner, dtype=DType.INT64), later, last]


def nearest(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """The places of the greatest of each row of all products, at most k, and rows from there as one matrix, of which
    the number of rows is a product."""
    some = g(Minimum(), k, g.length(x, 0), dtype=INTS)
    _, places = several(g, TopKV2(), (DType.FLOAT32, INTS), g(BatchMatMul(adj_y=True), x, x), some)
    rows = g(Mul(), g.length(x, 0), some, dtype=INTS)
    return [places, g(Tanh(), g(Reshape(), g(Gather(), x, places), g(Pack(2), rows, g.number(6), dtype=INTS)))]


def chunked(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows with as many behind them as chunks of k rows need, and the greatest of each place in a chunk."""
    size = g(Maximum(), k, g.number(1), dtype=INTS)
    more = g(FloorMod(), g(Neg(), g.length(x, 0), dtype=INTS), size, dtype=INTS)
    amounts = g(Mul(), more, g.builder.constant(np.array([[0, 1], [0, 0]], np.int32)), dtype=INTS)
    chunks = g(Reshape(), g(Pad(), x, amounts), g(Pack(3), g.number(-1), size, g.number(6), dtype=INTS))
    return [chunks, g(ReduceMax(), chunks, g.ints(0))]


CASES: dict[str, Write] = {
    "filled": filled, "counted": counted, "wider": wider, "images": images, "met": met, "moved on": moved_on,
    "scattered": scattered, "made dense": made_dense, "nearest": nearest, "chunked": chunked, "resized": resized,
    "grouped": grouped, "greatest": greatest, "steps": in_steps, "parted": parted, "selected": selected,
    "resampled": resampled, "attended": attended, "ends": ends,
    "framed": framed, "summed": summed, "written": written, "cut": cut, "renamed": renamed,
}
NOT_EMPTY = frozenset({"images", "selected", "resampled"})
"""Of which no length may be 0."""


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_values(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(CASES[name]), backend=each) for each in ("native", "cpu"))
    for rows, k in LENGTHS:
        if k or name not in NOT_EMPTY:
            given = [floats(rows, 6), np.array(k, np.int32)]
            for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
                check(found, expected, 1e-5 if expected.dtype.kind == "f" else None)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} <= {"native", "none"}


def test_positions_are_taken_to_lie_on_their_axes(folder: object, compiled: list[str]) -> None:
    """Of two tables the same number of rows; where one has not so many, the run is another frame's."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, k = g.builder.input("x", DType.FLOAT32, (-1, 6)), g.builder.input("k", DType.INT32, ())
    rows = [g(StridedSlice(begin_mask=1), each, g.ints(0), g(Reshape(), k, g.ints(1), dtype=INTS), g.ints(1))
            for each in (x, g.builder.constant(floats(40, 6)))]
    g.builder.output(g(Tanh(), g(Add(), *rows)))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))

    def both(rows: int, k: int) -> None:
        given = [floats(rows, 6), np.array(k, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)

    for case in ((8, 3), (50, 40), (100, 33), (9, 1), (8, 0), (9, 9)):
        both(*case)
    assert len(compiled) == 1
    both(40, 90)
    with pytest.raises(ExecutionError, match="do not broadcast"):
        both(30, 90)
    both(8, 3)


WRONG = ((0.0, 5.0, 0.0), (0.0, 5.0, -1.0), (5.0, 0.0, 1.0), (0.0, np.inf, 1.0), (np.nan, 1.0, 1.0), (0.0, 1.0, np.nan))
"""Start, limit and delta of no range."""


@pytest.mark.parametrize("wrong", WRONG)
def test_floats_that_make_no_range(wrong: tuple[float, ...], folder: object) -> None:
    """The message is numpy's, and the session goes on."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(g(Tanh(), g(Range(), *(g.builder.input(name, DType.FLOAT32, ()) for name in "abc"))))
    built, messages = b.build(), []
    for backend in ("cpu", "native"):
        session = circlet.Session(built, backend=backend)
        for _ in range(2):
            (found,) = session.invoke(0, [np.array(each, np.float32) for each in (0.5, 2.5, 0.75)])
            check(found, np.tanh(np.array([0.5, 1.25, 2.0], np.float32)), 1e-5)
            with pytest.raises(circlet.CircletError) as error:
                session.invoke(0, [np.array(each, np.float32) for each in wrong])
            messages.append(str(error.value))
    assert len(set(messages)) == 1


@holds(st.floats(-8, 8, width=32), st.floats(-8, 8, width=32), st.floats(2**-5, 3, width=32), few=10, many=100)
def test_ranges_of_floats(start: float, limit: float, delta: float) -> None:
    """To the bit, empty ones among them."""
    step = delta if start <= limit else -delta
    agree(applied(Range()), *(np.array(each, np.float32) for each in (start, limit, step)), floats=0)

def around_zero(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """As many ones as k differs from 0 by."""
    size = g(Maximum(), k, g(Neg(), k, dtype=INTS), dtype=INTS)
    return [g(Fill(), g(Reshape(), size, g.ints(1), dtype=INTS), g.number(1.0)), g(Tanh(), x)]


def test_what_is_no_length_is_left_to_numpy(folder: object) -> None:
    """In this process, and in the next one, where the model is read for it."""
    given = model(around_zero)
    for _ in range(2):
        session = circlet.Session(given, backend="native")
        for k in (3, -2, 5, -70, -70, 200, -1, 0, 4):
            x = floats(4, 6)
            ones, rest = session.invoke(0, [x, np.array(k, np.int32)])
            assert ones.tolist() == [1.0] * abs(k)
            check(rest, np.tanh(x), 1e-6)


def test_files_too(tmp_path: Path, folder: object) -> None:
    path = tmp_path / "model.tflite"
    circlet.save(model(around_zero), path)
    for numbers in ((3, 4), (5, -2, 7)):
        session = circlet.Session(path, backend="native")
        for k in numbers:
            assert session.invoke(0, [floats(4, 6), np.array(k, np.int32)])[0].tolist() == [1.0] * abs(k)


def test_results_of_a_bound_run_follow_the_values() -> None:
    session = circlet.Session(model(around_zero), backend="native")
    x, k = floats(4, 6), np.array(3, np.int32)
    bound = session.bind(0, [x, k])
    for number in (3, -2, 100, -5, 2):
        k[...] = number
        session.run_bound(bound)
        assert bound.results[0].tolist() == [1.0] * abs(number)
        check(bound.results[1], np.tanh(x), 1e-6)


@pytest.mark.parametrize(("write", "k", "message"), [
    (filled, -1, "not negative"), (_amid, 12, "PAD.*not negative"), (counted, -3, "delta"),
    (images, 0, "cannot resize"), (summed, -2, "ascending numbers from 0 on"),
    (lambda g, x, k: _between(g, g(Slice(), x, g.ints(0, 0), g.ints(9, 6)), k), 7, "SLICE.*leave an axis of size 9"),
    (lambda g, x, k: resized(g, x, g(Sub(), k, g.number(1), dtype=INTS)), 0, "at most 1 for axis 2")])
def test_errors_are_those_of_numpy(write: Write, k: int, message: str) -> None:
    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for each in (native, cpu):
        with pytest.raises(circlet.ExecutionError, match=message):
            each.invoke(0, [floats(12, 6), np.array(k, np.int32)])
        each.invoke(0, [floats(12, 6), np.array(5, np.int32)])


def test_lengths_that_no_result_can_have_are_errors(folder: object) -> None:
    session = circlet.Session(model(counted), backend="native")
    x = floats(7, 6)
    session.invoke(0, [x, np.array(5, np.int32)])
    with pytest.raises(circlet.ExecutionError, match="RANGE"):
        session.invoke(0, [x, np.array(-5, np.int32)])
    assert len(session.invoke(0, [x, np.array(5, np.int32)])[0]) == 5


def test_inputs_of_one_shape_give_results_of_many() -> None:
    """By name, so that runs take the frame without asking for shapes: results that callers hold stay as they are,
    also where room grows, and after an error."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    end, x = g.builder.input("end", DType.INT32, ()), g.builder.input("x", DType.FLOAT32, (4,))
    numbers = g(Range(), g.number(0), end, g.number(1), dtype=DType.INT32)
    g.builder.output(numbers, g(Where(), x, dtype=DType.INT64))
    session = circlet.Session(b.build(), backend="native")
    kept = []
    for k in (3, 3, 200, 5, -2, 5, 5, 3000, 1, 0, 200):
        given = {"end": np.array(k, np.int32), "x": (np.arange(4) < k).astype(np.float32)}
        if k < 0:
            with pytest.raises(circlet.ExecutionError, match="RANGE"):
                session.run(given)
            continue
        kept.append((k, given["x"], list(session.run(given).values())))
    for k, x_given, (found, places) in kept:
        np.testing.assert_array_equal(found, np.arange(k, dtype=np.int32), strict=True)
        np.testing.assert_array_equal(places, np.argwhere(x_given), strict=True)


def test_memory_is_limited(folder: object) -> None:
    session = circlet.Session(model(filled), backend="native", limits=circlet.Limits(memory=1 << 22))
    x = floats(7, 6)
    session.invoke(0, [x, np.array(5, np.int32)])
    with pytest.raises(circlet.LimitError):
        session.invoke(0, [x, np.array(1 << 24, np.int32)])
    session.invoke(0, [x, np.array(5, np.int32)])


def looping() -> Model:
    """In turn i, the sum of i ones is added to each row of x: (n, 6)."""
    b = ModelBuilder()
    main, cond, body = (Graph(b.subgraph(name)) for name in ("main", "cond", "body"))
    for g in (cond, body):
        i, n, x = (g.builder.input(name, kind, shape) for name, kind, shape in (
            ("i", INTS, ()), ("n", INTS, ()), ("x", DType.FLOAT32, (-1, 6))))
        if g is cond:
            g.builder.output(g(Less(), i, n, dtype=DType.BOOL))
        else:
            ones = g(Fill(), g(Pack(2), i, g.number(6), dtype=INTS), g.number(1.0))
            total = g(UnsortedSegmentSum(), ones, g(Fill(), g(Reshape(), i, g.ints(1), dtype=INTS), g.number(0),
                                                    dtype=INTS), g.number(1))
            g.builder.output(g(Add(), i, g.number(1), dtype=INTS), n, g(Add(), x, total))
    x, k = main.builder.input("x", DType.FLOAT32, (-1, 6)), main.builder.input("k", INTS, ())
    kinds = [Tensor("", INTS, ()), Tensor("", INTS, ()), Tensor("", DType.FLOAT32, (), has_rank=False)]
    main.builder.output(main.builder.op(While(cond.builder.index, body.builder.index), main.number(0), k, x,
                                        outputs=kinds)[2])
    return b.build()


def test_in_each_turn_of_a_loop() -> None:
    session = circlet.Session(looping(), backend="native")
    for rows, k in ((3, 4), (5, 1), (2, 90), (4, 0)):
        x = floats(rows, 6)
        check(session.invoke(0, [x, np.array(k, np.int32)])[0], x + np.float32(k * (k - 1) // 2), 1e-5)


def test_loops_that_put_rows_into_lists_are_one_function(folder: object, compiled: list[str]) -> None:
    """Of ONNX, where slices of which one bound follows from an index and others from shapes are in a loop's body."""
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import load
    from tests.schema.onnx.test_open import LISTED, listed

    session = circlet.Session(load(LISTED, 16), "native")
    for length in (5, 9, 2, 30, 70):
        case = listed(length)
        np.testing.assert_array_equal(next(iter(session.run(case.inputs).values())), case.outputs[0])
    assert len(compiled) == 1


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_greatest_of_an_axis_that_turns_out_empty(backend: str) -> None:
    """Of the first k rows there is no greatest one where k is 0, unless there is no column either."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, k = g.builder.input("x", DType.FLOAT32, (-1, -1)), g.builder.input("k", INTS, ())
    size = g(Pack(2), k, g.length(x, 1), dtype=INTS)
    g.builder.output(g(ArgMax(INTS), g(Slice(), x, g.ints(0, 0), size), g.ints(0), dtype=INTS))
    session = circlet.Session(b.build(), backend)
    for columns, count in ((3, 2), (3, 1), (0, 0), (0, 4)):
        value = np.arange(4 * columns, dtype=np.float32).reshape(4, columns)
        (found,) = session.invoke(0, [value, np.array(count, np.int32)])
        np.testing.assert_array_equal(found, np.full(columns, count - 1))
    with pytest.raises(ExecutionError, match="axis 0 of input 0 is empty"):
        session.invoke(0, [np.zeros((4, 3), np.float32), np.array(0, np.int32)])
