"""Parts that are filled before or after a place, and of which there may be none, as in the masks of shifted windows:
they take no code of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Equal, SelectV2
from circlet.runtime.ops.elementwise import Sub
from circlet.runtime.ops.layout import Concatenation, Pack
from circlet.runtime.ops.shape import BroadcastTo, ExpandDims, Reshape, ShapeOf
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS


def kept(g: Graph, x: Value, part: Value, shape: Value) -> Sequence[Value]:
    """A part whose shape is asked for with 0 for an axis that is kept, as ONNX's Reshape may do."""
    found = g(ShapeOf(DType.INT32), part, dtype=INTS)
    asked = g(SelectV2(), g(Equal(), shape, g.number(0), dtype=DType.BOOL), found, shape, dtype=INTS)
    return [g(Concatenation(0), g(Reshape(), part, asked), x)]


def before(g: Graph, x: Value, part: Value, shape: Value) -> Sequence[Value]:
    """A part behind which the others are, along axes that are put in."""
    first, rest = (g(ExpandDims(), each, g.ints(0)) for each in (part, x))
    return [g(Concatenation(1), g(ExpandDims(), first, g.number(3)), g(ExpandDims(), rest, g.number(3)))]


@pytest.mark.parametrize("write", [kept, before])
@pytest.mark.parametrize("first", [4, 9])
def test_parts_that_may_be_none_take_no_code_of_their_own(
        write: Callable[[Graph, Value, Value, Value], Sequence[Value]], first: int, folder: object,
        compiled: list[str]) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1, 3))
    shape = g(Pack(2), g(Sub(), g.length(x, 0), g.number(4), dtype=INTS), g.number(3), dtype=INTS)
    g.builder.output(*write(g, x, g(BroadcastTo(), g.builder.constant(floats(1, 3)), shape), shape))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for length in (first, 7, 4, 30, 5, 4):
        given = [floats(length, 3)]
        np.testing.assert_array_equal(native.invoke(0, given)[0], cpu.invoke(0, given)[0])
    assert len(compiled) == 1
    with pytest.raises(circlet.CircletError):
        native.invoke(0, [floats(3, 3)])
    np.testing.assert_array_equal(native.invoke(0, given)[0], cpu.invoke(0, given)[0])
    assert set(native.backend_of(0)) == {"native"}
