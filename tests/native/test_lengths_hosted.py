"""Operators that numpy computes in the midst of code for any lengths: it stays one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.backends.native.rules.preferences import PLAIN
from circlet.backends.native.rules.rule import RULES
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater, Less
from circlet.runtime.ops.controlflow import CallOnce, While
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.index import Gather, Where
from circlet.runtime.ops.layout import Concatenation, ReverseSequence
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Range, Reshape
from circlet.runtime.ops.sort import UniqueSlices
from circlet.runtime.ops.unary import Tanh
from circlet.runtime.ops.variable import AssignVariable
from tests.exec.graphs import f32
from tests.exec.test_variables import handle, read
from tests.native.test_lengths import Graph, floats
from tests.ops.cases import check

Array: TypeAlias = npt.NDArray[Any]
Write: TypeAlias = Callable[[Graph, Value, Value], Sequence[Value]]
LENGTHS = ((8, 3), (5, 40), (64, 2), (33, 150), (12, 7), (150, 100), (8, 3), (2, 2))
"""Of x (n, 6), and a number k."""
INTS, I64 = DType.INT32, DType.INT64
REALS = (DType.FLOAT32, I64, I64, I64)
"""Of the results of UNIQUE_SLICES of real numbers."""


def several(g: Graph, op: Op, kinds: Sequence[DType], *inputs: Value) -> Sequence[Value]:
    return g.builder.op(op, *inputs, outputs=[Tensor("", each, (), has_rank=False) for each in kinds])


def column(g: Graph, x: Value, k: Value) -> Value:
    """The first numbers of the rows, cut to integers: (n,)."""
    first = g(Reshape(), g(Gather(1), x, g.ints(0)), g.ints(-1))
    return g(Cast(), g(Mul(), first, g.number(2.0)), dtype=INTS)


def as_half(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Through a conversion that the host does."""
    rounded = g(Cast(), g(Cast(), g(Add(), x, g.number(1.0)), dtype=DType.FLOAT64), dtype=DType.FLOAT16)
    return [g(Tanh(), g(Cast(), rounded)), rounded]


def distinct(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows of real numbers, each of which is there twice."""
    found = several(g, UniqueSlices(0), REALS, g(Concatenation(0), x, x))
    return [g(Add(), found[0], g.number(1.0)), g(Gather(), *found[::2]), found[3]]


def distinct_of_some(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Of a length that the code computes."""
    places = g(Where(), g(Greater(), column(g, x, k), g.number(0), dtype=DType.BOOL), dtype=I64)
    some = g(Gather(), x, g(Reshape(), places, g.ints(-1), dtype=I64))
    return [places, *several(g, UniqueSlices(0, False), REALS, some)]


def in_steps(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """From 0 to k in halves, of which the host tells how many there are, and for which nothing says how many there can
    be."""
    return [g(Tanh(), g(Range(), g.number(0.0), g(Cast(), k), g.number(0.5)))]


CASES: dict[str, Write] = {
    "halves": as_half, "distinct": distinct, "of some": distinct_of_some, "steps": in_steps,
}


def model(write: Write) -> Model:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, k = g.builder.input("x", DType.FLOAT32, (-1, 6)), g.builder.input("k", INTS, ())
    g.builder.output(*write(g, x, k))
    return b.build()


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: object, compiled: list[str],
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    key: type[Op] = Range
    monkeypatch.setitem(RULES, key, tuple(each for each in RULES.of(key) or () if each.name == PLAIN))
    native, cpu = (circlet.Session(model(CASES[name]), backend=each) for each in ("native", "cpu"))
    for rows, k in LENGTHS:
        given = [floats(rows, 6), np.array(k, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            assert found.shape == expected.shape
            check(found, expected, 1e-5 if expected.dtype.kind == "f" else None)
    assert len(compiled) == 1
    assert "cpu" in {part for each in native.backend_of(0) for part in each.split("+")}


def looping(turns: int) -> Model:
    """x goes through halves, and is made smaller, so many times: (n, 6)."""
    b = ModelBuilder()
    main, cond, body = (Graph(b.subgraph(name)) for name in ("main", "cond", "body"))
    for g in (cond, body):
        i, x = g.builder.input("i", INTS, ()), g.builder.input("x", DType.FLOAT32, (-1, 6))
        if g is cond:
            g.builder.output(g(Less(), i, g.number(turns), dtype=DType.BOOL))
        else:
            g.builder.output(g(Add(), i, g.number(1), dtype=INTS), g(Mul(), as_half(g, x, i)[0], g.number(0.5)))
    x = main.builder.input("x", DType.FLOAT32, (-1, 6))
    kinds = [Tensor("", INTS, ()), Tensor("", DType.FLOAT32, (), has_rank=False)]
    main.builder.output(*main.builder.op(While(cond.builder.index, body.builder.index), main.number(0), x,
                                         outputs=kinds)[1:])
    return b.build()


@pytest.mark.parametrize("turns", [0, 1, 40])
def test_a_loop_calls_the_host_in_each_turn(turns: int, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(looping(turns), backend=each) for each in ("native", "cpu"))
    for rows, _ in LENGTHS:
        x = floats(rows, 6)
        check(native.invoke(0, [x])[0], cpu.invoke(0, [x])[0], 1e-5)
    assert len(compiled) == 1


def reversed_as_told(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    lengths = g(Add(), g(Mul(), column(g, x, k), g.number(0), dtype=INTS), k, dtype=INTS)
    return [g(ReverseSequence(1, 0), g(Tanh(), x), lengths)]


def test_errors_have_their_place_and_the_session_goes_on(folder: object) -> None:
    session = circlet.Session(model(reversed_as_told), backend="native")
    x = floats(7, 6)
    for _ in range(2):
        with pytest.raises(circlet.ExecutionError, match=r"operator \d+ \(REVERSE_SEQUENCE\)"):
            session.invoke(0, [x, np.array(9, np.int32)])
        found, = session.invoke(0, [x, np.array(6, np.int32)])
        check(found, np.tanh(x[:, ::-1]), 1e-5)


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_without_inputs(backend: str) -> None:
    """The numbers of a variable tell the lengths, and there is no input of which shapes could change."""
    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    init.op(AssignVariable(), handle(init), init.constant(f32([[3, 1], [1, 2], [3, 1]])), outputs=[])
    main.op(CallOnce(init.index), outputs=[])
    main.output(*main.op(UniqueSlices(0, False), read(main, DType.FLOAT32, (3, 2)), count=4)[:3:2])
    session = circlet.Session(b.build(), backend)
    for _ in range(2):
        values, places = session.invoke(0, [])
        np.testing.assert_array_equal(values, [[3, 1], [1, 2]])
        np.testing.assert_array_equal(places, [0, 1, 0])
