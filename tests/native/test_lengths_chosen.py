"""Rows that two masks choose, which must be as many: an operator on both is code for any lengths, and a run that finds
it otherwise gives the error that numpy does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater, Select
from circlet.runtime.ops.detection import NonMaxSuppressionV4
from circlet.runtime.ops.elementwise import AddN, FloorDiv, Maximum, Minimum
from circlet.runtime.ops.index import Gather, Where
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseSequence, StridedSlice
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Cumsum, ReduceMax
from circlet.runtime.ops.segment import SegmentSum, UnsortedSegmentSum
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.unary import Tanh
from circlet.schema.files import dump_model
from tests.native.test_lengths import Graph, floats
from tests.native.test_plans import is_prepared
from tests.ops.cases import check

INTS, BOOL = DType.INT32, DType.BOOL
Write: TypeAlias = "Callable[[Graph, Value, Value], Value]"


def whole(g: Graph, rows: Value) -> Value:
    """An integer from 0 to 4 for each row."""
    most = g(ReduceMax(), rows, g.ints(1))
    return g(Cast(), g(Minimum(), g(Maximum(), most, g.number(0.0)), g.number(4.0)), dtype=INTS)


def gathered(g: Graph, one: Value, other: Value) -> Value:
    places = g(Reshape(), whole(g, other), g.ints(-1, 1), dtype=INTS)
    return g(Gather(1, 1), one, places)


def suppressed(g: Graph, one: Value, other: Value) -> Value:
    boxes = g(Gather(1), one, g.ints(0, 1, 2, 3))
    found, _ = g.builder.op(NonMaxSuppressionV4(), boxes, g(ReduceMax(), other, g.ints(1)), g.number(5),
                            g.number(0.5), g.number(0.0), outputs=[Tensor("", INTS, (), has_rank=False)] * 2)
    return g(Cast(), found)


WRITTEN: dict[str, Write] = {
    "added": lambda g, one, other: g(AddN(), one, other),
    "chosen": lambda g, one, other: g(Select(), g(Greater(), one, g.number(0.0), dtype=BOOL), one, other),
    "gathered": gathered,
    "numbered": lambda g, one, other: g(UnsortedSegmentSum(), one, whole(g, other), g.number(5)),
    "products": lambda g, one, other: g(BatchMatMul(adj_x=True), one, other),
    "reversed": lambda g, one, other: g(ReverseSequence(1, 0), one, whole(g, other)),
    "segments": lambda g, one, other: g(SegmentSum(), one, g(Cumsum(), whole(g, other), g.number(0), dtype=INTS)),
    "stacked": lambda g, one, other: g(Pack(2, 1), one, other),
    "suppressed": suppressed,
}


def model(write: Write) -> Model:
    """Of x (n, 6) and two masks (n,) an operator on the rows that they choose."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1, 6))
    rows = []
    for name in ("one", "other"):
        mask = g.builder.input(name, BOOL, (-1,))
        places = g(Reshape(), g(Where(), mask, dtype=DType.INT64), g.ints(-1), dtype=DType.INT64)
        rows.append(g(Gather(), x, places))
    g.builder.output(g(Tanh(), write(g, *rows)))
    return b.build()


def given(length: int, one: int, other: int) -> Sequence[np.ndarray]:
    """Masks of which the first one chooses so many rows from the front, the other so many from the end."""
    numbers = np.arange(length)
    return [floats(length, 6), numbers < one, numbers >= length - other]


@pytest.mark.parametrize("name", WRITTEN)
def test_rows_of_two_masks_are_as_many(name: str, folder: Path, compiled: list[str]) -> None:
    content = dump_model(model(WRITTEN[name]), "tflite")
    native, cpu = (circlet.Session(content, each) for each in ("native", "cpu"))
    for length, count in ((9, 4), (50, 33), (7, 7), (200, 150), (9, 4)):
        inputs = given(length, count, count)
        check(native.invoke(0, inputs)[0], cpu.invoke(0, inputs)[0], 1e-5)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} == {"native"}
    with pytest.raises(circlet.CircletError) as error:
        native.invoke(0, given(9, 4, 5))
    with pytest.raises(circlet.CircletError) as expected:
        cpu.invoke(0, given(9, 4, 5))
    assert str(error.value) == str(expected.value)
    inputs = given(9, 3, 3)
    check(native.invoke(0, inputs)[0], cpu.invoke(0, inputs)[0], 1e-5)
    again = circlet.Session(content, "native")
    again.invoke(0, given(12, 5, 5))
    assert is_prepared(again)


@pytest.mark.parametrize("place", [-1, -2])
def test_a_row_counted_from_the_end(place: int, folder: Path, compiled: list[str]) -> None:
    """Of as many rows as a mask chooses, of which there may be none: code asks, as numpy does."""
    def row(g: Graph, one: Value, _other: Value) -> Value:
        return g(StridedSlice(shrink_axis_mask=1), one, g.ints(place), g.ints(0), g.ints(1))

    content = dump_model(model(row), "tflite")
    native, cpu = (circlet.Session(content, each) for each in ("native", "cpu"))
    for length, count in ((9, 4), (50, 33), (7, 7), (200, 150), (8, 2), (9, 4)):
        inputs = given(length, count, 3)
        check(native.invoke(0, inputs)[0], cpu.invoke(0, inputs)[0], 1e-5)
    assert len(compiled) == 1
    for session in (native, cpu):
        with pytest.raises(circlet.CircletError, match=f"index {place} .* does not select from an axis of size 0"):
            session.invoke(0, given(9, 0, 3))


def test_a_part_that_is_empty_of_some_rows(folder: Path, compiled: list[str]) -> None:
    """From the second row to the middle one, of which there may be none."""
    def part(g: Graph, one: Value, _other: Value) -> Value:
        middle = g(FloorDiv(), g(Reshape(), g.length(one, 0), g.ints(1), dtype=INTS), g.number(2), dtype=INTS)
        rows = g(StridedSlice(), one, g.ints(1), middle, g.ints(1))
        few = g(StridedSlice(begin_mask=1), rows, g.ints(0), g.ints(3), g.ints(1))
        return g(Concatenation(0), few, g(StridedSlice(end_mask=1), one, middle, g.ints(0), g.ints(1)))

    content = dump_model(model(part), "tflite")
    native, cpu = (circlet.Session(content, each) for each in ("native", "cpu"))
    for length, count in ((9, 4), (50, 33), (7, 7), (200, 150), (9, 3), (9, 2), (9, 1), (9, 0), (9, 5)):
        inputs = given(length, count, 3)
        check(native.invoke(0, inputs)[0], cpu.invoke(0, inputs)[0], 1e-5)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} <= {"native", "none"}
