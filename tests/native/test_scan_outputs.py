"""Loops that collect what their turns make, of which only the run tells how many there are: one function for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater, Less, LessEqual
from circlet.runtime.ops.elementwise import Add, Maximum, Mul, Sub
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.layout import Concatenation, Pack, Slice, StridedSlice
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_builder import add_loop
from circlet.runtime.ops.loop_options import Carried, Feed, Mode, Order, ScanInput, ScanOutput, ShapePolicy
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.shape import Fill, Reshape, Squeeze
from circlet.runtime.ops.unary import Neg
from tests.native.test_lengths import Graph
from tests.ops.loop_cases import LoopCase, arguments, loop_model

ROW = np.arange(1, 5, dtype=np.int32)
COUNTS = (3, 0, 8, 16, 17, 100, 1, 64, 65, 300, 8)


def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Twice the row plus one, and its sum with the one before."""
    found = s.apply(Add(), s.apply(Mul(), v[1], s.constant(np.int32(2))), s.constant(np.int32(1)))
    return [found, s.apply(Add(), found, v[1])]


SCANS = (ScanOutput(1), ScanOutput(1, axis=-1), ScanOutput(1, order=Order.PREPEND),
         ScanOutput(1, mode=Mode.CONCAT, part=4), ScanOutput(1, mode=Mode.CONCAT, part=4, order=Order.PREPEND))


@pytest.mark.parametrize("scan", SCANS, ids=str)
@pytest.mark.parametrize("open", [False, True])
def test_one_function_serves_all_counts(scan: ScanOutput, open: bool, folder: object, compiled: list[str]) -> None:
    op = Loop(iteration=Feed(0), carried=(Carried(1, 0),), scan_outputs=(scan,))
    length = -1 if open else 4
    case = LoopCase("scan", op, turn, ((DType.INT64, ()), (DType.INT32, (length,))), (), open=open)
    model = loop_model(case, (np.int64(3), None, ROW))
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for count in COUNTS:
        given = arguments((np.int64(count), None, ROW))
        for found, wanted in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    assert len(compiled) == 1


def until(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """As `turn`, and all so far with two columns more; it goes on while the turn is below the limit."""
    number, limit, row, rows = v
    (made, total) = turn(s, [number, row])
    more = s.op(Concatenation(1), rows, s.op(Slice(), rows, s.constant(np.array([0, 0])), s.constant(np.array([-1, 2])),
                                             outputs=[ROWS])[0], outputs=[ROWS])[0]
    return [s.apply(Less(), number, limit), limit, made, more, total, s.apply(Sum(), made, s.constant(np.array([0])))]


ROWS = Tensor("", DType.INT32, (2, 2), (2, -1))


@pytest.mark.parametrize("scan", SCANS, ids=str)
@pytest.mark.parametrize("open", [False, True])
def test_one_function_serves_all_turns_that_a_condition_ends(scan: ScanOutput, open: bool, folder: object,
                                                             compiled: list[str]) -> None:
    """With a second output of numbers, which room is made for apart, and a value that grows by the way."""
    scans = (replace(scan, body_output=4), ScanOutput(5))
    op = Loop(iteration=Feed(0), cond_output=0, scan_outputs=scans,
              carried=(Carried(1, 1), Carried(2, 2), Carried(3, 3, ShapePolicy.FIXED_RANK)))
    kinds = ((DType.INT64, ()), (DType.INT64, ()), (DType.INT32, (-1 if open else 4,)), (DType.INT32, (2, -1)))
    model = loop_model(LoopCase("until", op, until, kinds, (), open=open),
                       (np.int64(1 << 40), None, np.int64(3), ROW, np.ones((2, 2), np.int32)))
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for count in COUNTS:
        given = arguments((np.int64(1 << 40), None, np.int64(count), ROW, np.ones((2, 2), np.int32)))
        for found, wanted in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    assert len(compiled) == 1


@pytest.mark.parametrize("open", [False, True])
def test_the_last_turn_that_a_condition_ends_is_taken(open: bool, folder: object, compiled: list[str]) -> None:
    """As exporters write a loop over the steps of a sequence: without a turn there is none to take."""
    op = Loop(1, iteration=Feed(0), cond_output=0, carried=(Carried(1, 1), Carried(2, 2)),
              scan_outputs=(ScanOutput(3),))
    kinds = ((DType.INT64, ()), (DType.INT64, ()), (DType.INT32, (-1 if open else 4,)))
    builder = ModelBuilder()
    main, body = builder.subgraph("main"), builder.subgraph("body")
    number, last, row = (body.input(f"in_{k}", *each) for k, each in enumerate(kinds))
    body.output(body.apply(Less(), number, last), last, *turn(body, [number, row]))
    limit, given = main.input("limit", *kinds[1]), main.input("row", *kinds[2])
    collected = add_loop(main, op, body, cond=main.apply(LessEqual(), main.constant(np.int64(0)), limit),
                         carried=[limit, given]).scans[0]
    ends = [main.constant(np.array([each], np.int32)) for each in (-1, (1 << 31) - 1, 1)]
    main.output(main.apply(Squeeze((0,)), main.apply(StridedSlice(), collected, *ends)))
    native, cpu = (circlet.Session(builder.build(), backend=each) for each in ("native", "cpu"))
    for count in (3, 100, 64, 0, -1, 3):
        if count < 0:
            assert len(compiled) == 1
            with pytest.raises(circlet.ExecutionError, match="expected size 1 of axis 0"):
                native.invoke(0, [np.array(count), ROW])
            continue
        found, wanted = (each.invoke(0, [np.array(count), ROW])[0] for each in (native, cpu))
        np.testing.assert_array_equal(found, wanted, strict=True)


def kept(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """The row less 1, and its numbers above 2 with as many zeros behind as fill a row, as a batch of decoded texts is
    padded: so many as are missing before a slice takes away so many as there are too many."""
    g = Graph(s)
    places = g(Where(), s.apply(Greater(), v[1], s.constant(np.int32(2))), dtype=DType.INT64)
    found = g(GatherNd(), v[1], places, dtype=DType.INT32)
    missing = g(Sub(), g.length(v[1], 0), g.length(found, 0), dtype=DType.INT32)
    pad = g(Pack(2), g.number(0), g(Maximum(), missing, g.number(0), dtype=DType.INT32), dtype=DType.INT32)
    padded = g(Pad(), found, g(Reshape(), pad, g.ints(1, 2), dtype=DType.INT32), dtype=DType.INT32)
    more = g(Maximum(), g(Neg(), missing, dtype=DType.INT32), g.number(0), dtype=DType.INT32)
    end = g(Sub(), g.length(padded, 0), more, dtype=DType.INT32)
    row = g(StridedSlice(), padded, g.ints(0), g(Reshape(), end, g.ints(1), dtype=DType.INT32), g.ints(1),
            dtype=DType.INT32)
    return [s.apply(Sub(), v[1], s.constant(np.int32(1))), row]


def test_rows_that_are_filled_up_are_of_one_length(folder: object, compiled: list[str]) -> None:
    op = Loop(iteration=Feed(0), carried=(Carried(1, 0),), scan_outputs=(ScanOutput(1),))
    case = LoopCase("kept", op, kept, ((DType.INT64, ()), (DType.INT32, (-1,))), (), open=True)
    model = loop_model(case, (np.int64(3), None, ROW))
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for count, length in zip(COUNTS, (9, 1, 4, 70, 2, 33, 5, 3, 12, 7, 6), strict=True):
        given = arguments((np.int64(count + 1), None, np.arange(length, dtype=np.int32)))
        for found, wanted in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    assert len(compiled) == 1


def filled(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """The row less 1, and its numbers above 2 with as many ones behind as are missing of a number that turns do not
    change, as a batch is padded to the longest of its rows."""
    g, (row, size, _) = Graph(s), v
    found = g(GatherNd(), row, g(Where(), s.apply(Greater(), row, s.constant(np.int32(2))), dtype=DType.INT64),
              dtype=DType.INT32)
    missing = g(Sub(), size, g.length(found, 0), dtype=DType.INT32)
    ones = g(Fill(), g(Reshape(), missing, g.ints(1), dtype=DType.INT32), g.number(1), dtype=DType.INT32)
    return [s.apply(Sub(), row, s.constant(np.int32(1))), g(Concatenation(0), found, ones, dtype=DType.INT32)]


FILLED = Loop(carried=(Carried(0, 0),), invariants=(1,), scan_inputs=(ScanInput(2),), count_from_scan=True,
              scan_outputs=(ScanOutput(1),))


def test_rows_that_are_filled_up_to_a_number_are_of_that_length(folder: object, compiled: list[str]) -> None:
    kinds = ((DType.INT32, (-1,)), (DType.INT32, ()), (DType.INT32, ()))
    model = loop_model(LoopCase("filled", FILLED, filled, kinds, (), open=True), (None, None, ROW, np.int32(4), ROW))
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    lengths = (9, 1, 4, 70, 2, 33, 5, 3, 12, 7, 6)
    for turns, length in [*zip(filter(None, COUNTS), lengths, strict=False), (0, 4)]:
        assert turns == 0 or len(compiled) <= 1
        for size in (length, length + 3):
            row, table = np.arange(length, dtype=np.int32), np.zeros(turns, np.int32)
            given = arguments((None, None, row, np.int32(size), table))
            for found, wanted in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
                np.testing.assert_array_equal(found, wanted, strict=True)
    for session in (native, cpu):
        with pytest.raises(circlet.ExecutionError, match=r"FILL.*expected sizes that are not negative, found \(-2,\)"):
            session.invoke(0, arguments((None, None, np.arange(9, dtype=np.int32), np.int32(4), ROW)))
