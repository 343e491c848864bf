"""Sizes that numbers and others add up to in the turns of a loop, which begins to count with 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, FloorDiv, Maximum, Sub
from circlet.runtime.ops.layout import Pack, StridedSlice
from circlet.runtime.ops.reduce import Mean
from circlet.runtime.ops.resize import ResizeBilinear
from circlet.runtime.ops.shape import ShapeOf
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS
from tests.needs import NATIVE
from tests.ops.cases import check

pytestmark = NATIVE

SHAPES = ((2, 9, 14), (1, 30, 7), (5, 8, 8), (3, 21, 66), (2, 9, 14))
"""Of images (n, h, w, 3)."""


def counted(g: Graph, i: Value, image: Value) -> list[Value]:
    """i + 1 by i + 3."""
    return [g(Add(), i, g.number(each), dtype=INTS) for each in (1, 3)]


def parted(g: Graph, i: Value, image: Value) -> list[Value]:
    """What h and w have of i + 1 whole parts, at least 2."""
    size, parts = g(ShapeOf(INTS), image, dtype=INTS), g(Add(), i, g.number(1), dtype=INTS)
    return [g(Maximum(), g(FloorDiv(), g(StridedSlice(shrink_axis_mask=1), size, g.ints(axis), g.ints(axis + 1),
                                         g.ints(1), dtype=INTS), parts, dtype=INTS), g.number(2), dtype=INTS)
            for axis in (1, 2)]


def beside(op: Op, begin: int) -> Callable[[Graph, Value, Value], list[Value]]:
    """What an operator makes of h and w, and of i and a number."""
    def sizes(g: Graph, i: Value, image: Value) -> list[Value]:
        size, number = g(ShapeOf(INTS), image, dtype=INTS), g(Add(), i, g.number(begin), dtype=INTS)
        return [g(op, g(StridedSlice(shrink_axis_mask=1), size, g.ints(axis), g.ints(axis + 1), g.ints(1), dtype=INTS),
                  number, dtype=INTS) for axis in (1, 2)]
    return sizes


SIZES = {"counted": counted, "parted": parted, "lessened": beside(Sub(), 0), "divided": beside(FloorDiv(), 1)}


def scales(name: str) -> Model:
    """In each of n turns, the means of images of another size are added to what is there: (n, 3)."""
    b = ModelBuilder()
    main, cond, body = (Graph(b.subgraph(each)) for each in ("main", "cond", "body"))
    for g in (cond, body):
        i, n, image, total = (g.builder.input(each, kind, shape) for each, kind, shape in (
            ("i", INTS, ()), ("n", INTS, ()), ("image", DType.FLOAT32, (-1, -1, -1, 3)),
            ("total", DType.FLOAT32, (-1, 3))))
        if g is cond:
            g.builder.output(g(Less(), i, n, dtype=DType.BOOL))
        else:
            found = g(ResizeBilinear(half_pixel_centers=True), image, g(Pack(2), *SIZES[name](g, i, image), dtype=INTS))
            g.builder.output(g(Add(), i, g.number(1), dtype=INTS), n, image,
                             g(Add(), total, g(Mean(), found, g.ints(1, 2))))
    image = main.builder.input("image", DType.FLOAT32, (-1, -1, -1, 3))
    n = main.builder.input("n", INTS, ())
    kinds = [Tensor("", INTS, ()), Tensor("", INTS, ()), *(Tensor("", DType.FLOAT32, (), has_rank=False) for _ in "it")]
    main.builder.output(main.builder.op(
        While(cond.builder.index, body.builder.index), main.number(0), n, image, main(Mean(), image, main.ints(1, 2)),
        outputs=kinds)[3])
    return b.build()


@pytest.mark.parametrize("name", SIZES)
def test_one_function_serves_all_turns(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(scales(name), backend=each) for each in ("native", "cpu"))
    for turns, shape in enumerate(SHAPES):
        given = [floats(*shape, 3), np.array(turns, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", ["lessened", "divided"])
def test_a_turn_that_leaves_nothing_is_refused(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(scales(name), backend=each) for each in ("native", "cpu"))

    image = floats(2, 5, 7, 3)

    def found(session: circlet.Session, turns: int) -> Array:
        return session.invoke(0, [image, np.array(turns, np.int32)])[0]

    def message(session: circlet.Session) -> str:
        with pytest.raises(circlet.ExecutionError) as caught:
            found(session, 9)
        return str(caught.value)

    for turns in (3, 4):
        check(found(native, turns), found(cpu, turns), 1e-5)
        assert message(native) == message(cpu)
