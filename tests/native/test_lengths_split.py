"""SPLIT_V by sizes that only a run tells: code for any of them is one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Mul, Sub
from circlet.runtime.ops.layout import Pack, SplitV
from circlet.runtime.ops.unary import Neg
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths import model as of_graph
from tests.native.test_lengths_one import sessions

SIZES = ((3, 1, 2), (0, 4, 5), (20, 30, 1), (1, 0, 0), (2, 2, 2), (7, 0, 9), (0, 0, 3))


def cut(axis: int, dtype: DType) -> Model:
    """x, open along an axis of two, in three parts, the first of which is negated and the last tripled."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1, 4) if axis in (0, -2) else (4, -1))
    sizes = g.builder.input("sizes", dtype, (3,))
    first, second, third = g.builder.op(SplitV(3), x, sizes, g.number(axis), count=3)
    g.builder.output(g(Neg(), first), second, g(Mul(), third, g.number(3.0)))
    return b.build()


def parts(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], sizes: tuple[int, ...], axis: int) -> list[object]:
    first, second, third = np.split(x, np.cumsum(sizes)[:2], axis)
    return [each.tolist() for each in (-first, second, third * np.float32(3))]


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_one_function_serves_all_sizes(axis: int, dtype: DType, folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(cut(axis, dtype), backend="native")
    for sizes in SIZES:
        x = floats(sum(sizes), 4) if axis in (0, -2) else floats(4, sum(sizes))
        found = session.run([x, np.array(sizes, dtype.numpy)]).values()
        assert [np.asarray(each).tolist() for each in found] == parts(x, sizes, axis)
    assert len(compiled) == 1
    assert set(session.backend_of(0)) == {"native"}


def test_other_sizes_are_as_before(folder: Path) -> None:
    """What is left of an axis, and sizes that do not make it up."""
    session, x = circlet.Session(cut(0, DType.INT32), backend="native"), floats(6, 4)
    for sizes, expected in (((1, 2, 3), (1, 2, 3)), ((2, -1, 1), (2, 3, 1)), ((6, 0, -1), (6, 0, 0))):
        found = session.run([x, np.array(sizes, np.int32)]).values()
        assert [np.asarray(each).tolist() for each in found] == parts(x, expected, 0)
    for wrong in ((1, 2, 4), (7, 0, -1), (1, -1, -1), (3, -2, 5), (2**31 - 1, 2**31 - 1, 8)):
        with pytest.raises(ExecutionError, match=r"SPLIT_V.*size_splits: expected sizes that sum to 6"):
            session.run([x, np.array(wrong, np.int32)])


def _less(g: Graph, one: Value, other: Value) -> Value:
    return g(Sub(), one, other, dtype=DType.INT32)


SIZES_OF: dict[str, Callable[[Graph, Value, Value], Sequence[Value]]] = {
    "difference": lambda g, n, length: (n, _less(g, length, n)),
    "rest": lambda g, n, length: (n, g.number(-1)),
    "rest first": lambda g, n, length: (g.number(-1), n),
    "twice and difference": lambda g, n, length: (n, n, _less(g, _less(g, length, n), n)),
}
"""How many rows each part has, of a number that the run tells and of how many there are."""
ROWS = ((9, 3), (12, 5), (7, 2), (2, 0), (9, 4), (4, 9), (5, -2), (20, 10), (3, 2), (12, 6), (1, 0))
"""How many there are, and the number."""


@pytest.mark.parametrize("name", SIZES_OF)
def test_what_a_number_leaves_of_rows_is_a_part(name: str, folder: Path, compiled: list[str]) -> None:
    """Numbers that leave fewer than none are errors, and their code is not that of others."""
    def write(g: Graph) -> Sequence[Value]:
        x, n = g.builder.input("x", DType.FLOAT32, (-1, 3)), g.builder.input("n", DType.INT32, ())
        sizes = SIZES_OF[name](g, n, g.length(x, 0))
        found = g.builder.op(SplitV(len(sizes)), x, g(Pack(len(sizes)), *sizes, dtype=DType.INT32), g.number(0),
                             outputs=[Tensor("", DType.FLOAT32, (), has_rank=False)] * len(sizes))
        return [g(Neg(), each) for each in found]

    native, cpu = sessions(of_graph(write))
    counts = []
    for length, number in ROWS:
        x, count = floats(length, 3), len(compiled)
        found, expected = (_outcome(each, [x, np.array(number, np.int32)]) for each in (native, cpu))
        assert found == expected
        counts += [len(compiled) - count] * isinstance(found, list)
    assert sum(counts) == 1


def _outcome(session: circlet.Session, given: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> object:
    try:
        return [each.tolist() for each in session.invoke(0, given)]
    except ExecutionError as error:
        return str(error)
