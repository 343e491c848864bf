"""What two loops made grow meets after them: code takes it to be of one length, and leaves runs in which it is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.unary import Tanh
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32
from tests.needs import NATIVE

pytestmark = NATIVE
NUMBERS = [Tensor(name, DType.INT32, ()) for name in ("i", "n")]
ROWS = Tensor("x", DType.FLOAT32, (1, 2), (-1, 2))
START = f32([[1, 2]])
EQUAL = ((5, 5), (70, 70), (3, 3), (150, 150), (0, 0), (200, 200))
JOINS: dict[str, Op] = {"side by side": Concatenation(1), "sum": Add(), "product": Mul()}


def grown(b: ModelBuilder, s: SubgraphBuilder, n: Value, start: Value, amount: float) -> Value:
    """n rows behind the first one, each of which is the sum of those before it, made smaller."""
    cond, body = b.subgraph("cond"), b.subgraph("body")
    i, end, _ = (cond.input(each.name, each.dtype, each.signature) for each in (*NUMBERS, ROWS))
    cond.output(g.less(cond, i, end))
    i, end, x = (body.input(each.name, each.dtype, each.signature) for each in (*NUMBERS, ROWS))
    row = body.op(Sum(True), x, body.constant(i32([0])), outputs=[Tensor("", DType.FLOAT32, (1, 2))])[0]
    row = body.apply(Tanh(), g.plus(body, row, amount))
    body.output(g.plus(body, i), end, body.op(Concatenation(0), x, row, outputs=[ROWS])[0])
    return s.op(While(cond.index, body.index), s.constant(0), n, start, outputs=[*NUMBERS, ROWS])[2]


def two(join: Op) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    n, m, start = main.input("n", DType.INT32), main.input("m", DType.INT32), main.input("x", DType.FLOAT32, (1, 2))
    one, other = grown(b, main, n, start, 0.25), grown(b, main, m, start, -0.25)
    main.output(main.op(join, one, other, outputs=[Tensor("", DType.FLOAT32, (1, 1), (-1, -1))])[0])
    return b.build()


def nested() -> Model:
    """What two loops within a loop make of its number is added up."""
    b = ModelBuilder()
    main, cond, body = (b.subgraph(name) for name in ("main", "cond", "body"))
    kinds = [*NUMBERS, Tensor("total", DType.FLOAT32, (2,))]
    i, end, _ = (cond.input(each.name, each.dtype, each.shape) for each in kinds)
    cond.output(g.less(cond, i, end))
    i, end, total = (body.input(each.name, each.dtype, each.shape) for each in kinds)
    one, other = (grown(b, body, i, body.constant(START), amount) for amount in (0.25, -0.25))
    both = body.op(Mul(), one, other, outputs=[ROWS])[0]
    found = body.op(Sum(), both, body.constant(i32([0])), outputs=[kinds[2]])[0]
    body.output(g.plus(body, i), end, g.add(body, total, found))
    start = [main.constant(0), main.input("n", DType.INT32), main.constant(f32([0, 0]))]
    main.output(main.op(While(cond.index, body.index), *start, outputs=kinds)[2])
    return b.build()


def found(session: circlet.Session, given: Sequence[Array]) -> Sequence[Array] | str:
    """Results, or the error."""
    try:
        return session.invoke(0, given)
    except circlet.ExecutionError as error:
        return str(error)


@pytest.mark.parametrize("name", JOINS)
def test_one_function_serves_all_lengths(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(two(JOINS[name]), each) for each in ("native", "cpu"))
    for n, m in EQUAL:
        given = [i32(n), i32(m), START]
        np.testing.assert_allclose(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5, 1e-6, strict=True)
    assert len(compiled) == 1
    assert set(native.backend_of(0)) == {"native"}


@pytest.mark.parametrize("name", JOINS)
def test_other_lengths_are_spread_or_refused(name: str) -> None:
    native, cpu = (circlet.Session(two(JOINS[name]), each) for each in ("native", "cpu"))
    for n, m in ((5, 5), (4, 6), (0, 7), (70, 0), (80, 81), (6, 6)):
        given = [i32(n), i32(m), START]
        one, other = found(native, given), found(cpu, given)
        if isinstance(other, str):
            assert one == other
        else:
            np.testing.assert_allclose(one[0], other[0], 1e-5, 1e-6, strict=True)  # type: ignore[arg-type]


def test_within_a_loop(folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(nested(), each) for each in ("native", "cpu"))
    for n in (3, 0, 70, 2, 90):
        np.testing.assert_allclose(native.invoke(0, [i32(n)])[0], cpu.invoke(0, [i32(n)])[0], 1e-4, strict=True)
    assert len(compiled) == 1
