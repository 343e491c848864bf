"""What subgraphs take from outside: numbers that follow from lengths, or that only the run tells, are known in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Equal, Greater, Less
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.elementwise import Add, FloorMod, Mul, Sub
from circlet.runtime.ops.layout import Concatenation, Pack, Transpose
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.shape import Fill, Range, Reshape
from circlet.runtime.ops.unary import Tanh
from tests.native.test_lengths import Graph, floats
from tests.ops.cases import check

INTS, FLOATS = DType.INT32, DType.FLOAT32
Body = Callable[[Graph, Value, Value, Value], Value]
"""Of the number of a turn, what is taken from outside, and y."""
UNRANKED = Tensor("", FLOATS, (), has_rank=False)


class Whole:
    """A model of x (n, 4) and a number k, in the making."""

    def __init__(self) -> None:
        self.builder = ModelBuilder()
        self.main = self.graph("main")
        self.x = self.main.builder.input("x", FLOATS, (-1, 4))
        self.k = self.main.builder.input("k", INTS, ())

    def graph(self, name: str) -> Graph:
        return Graph(self.builder.subgraph(name))

    def taking(self, name: str, write: Body, is_turn: bool = False) -> int:
        """A subgraph of a number, one from outside, and y; it gives y, or what the next turn takes."""
        g = self.graph(name)
        i, n, y = (g.builder.input(each, kind, shape) for each, kind, shape in (
            ("i", INTS, ()), ("n", INTS, ()), ("y", FLOATS, (-1, -1))))
        made = write(g, i, n, y)
        g.builder.output(*((g(Add(), i, g.number(1), dtype=INTS), n, made) if is_turn else (made,)))
        return g.builder.index

    def loop(self, g: Graph, write: Body, n: Value, y: Value, calls: bool = False) -> Value:
        """y after three turns, of which each may call a subgraph that gives back what it takes."""
        body = self.taking("body", write, is_turn=True)
        if calls:
            turn = self.graph("turn")
            given = [turn.builder.input(each, kind, shape) for each, kind, shape in (
                ("i", INTS, ()), ("n", INTS, ()), ("y", FLOATS, (-1, -1)))]
            turn.builder.output(*turn.builder.op(CallSubgraph(body), *given, outputs=[
                Tensor("", INTS, ()), Tensor("", INTS, ()), UNRANKED]))
            body = turn.builder.index
        cond = self.graph("cond")
        i = cond.builder.input("i", INTS, ())
        cond.builder.input("n", INTS, ())
        cond.builder.input("y", FLOATS, (-1, -1))
        cond.builder.output(cond(Less(), i, cond.number(3), dtype=DType.BOOL))
        return g.builder.op(While(cond.builder.index, body), g.number(0), n, y, outputs=[
            Tensor("", INTS, ()), Tensor("", INTS, ()), UNRANKED])[2]


def turned(g: Graph, i: Value, n: Value, y: Value) -> Value:
    """(n, 4) taken for (4, n), and turned."""
    return g(Tanh(), g(Transpose(), g(Reshape(), y, g(Pack(2), g.number(4), n, dtype=INTS)), g.ints(1, 0)))


def placed(g: Graph, i: Value, n: Value, y: Value) -> Value:
    """(n, 4) plus 0, 1, ... n - 1 by rows."""
    places = g(Cast(INTS, FLOATS), g(Range(), g.number(0), n, g.number(1), dtype=INTS))
    return g(Add(), y, g(Reshape(), places, g.ints(-1, 1)))


def ones(g: Graph, n: Value) -> Value:
    """(n, 4)"""
    return g(Fill(), g(Pack(2), n, g.number(4), dtype=INTS), g.number(1.0))


def in_a_loop(whole: Whole) -> Value:
    g = whole.main
    return whole.loop(g, turned, g.length(whole.x, 0), g(Tanh(), whole.x))


def in_a_loop_that_calls(whole: Whole) -> Value:
    g = whole.main
    return whole.loop(g, turned, g.length(whole.x, 0), g(Tanh(), whole.x), calls=True)


def in_a_loop_that_grows(whole: Whole) -> Value:
    def append(g: Graph, i: Value, n: Value, y: Value) -> Value:
        return g(Concatenation(0), y, g(Fill(), g(Pack(2), n, g.number(4), dtype=INTS), g.number(0.5)))

    g = whole.main
    return whole.loop(g, append, g.length(whole.x, 0), g(Tanh(), whole.x))


def in_loops_in_a_loop(whole: Whole) -> Value:
    g = whole.main
    return whole.loop(g, lambda s, i, n, y: whole.loop(s, placed, n, turned(s, i, n, y)), g.length(whole.x, 0), whole.x)


def in_branches(whole: Whole) -> Value:
    g = whole.main
    n = g.length(whole.x, 0)
    is_positive = g(Greater(), g(Sum(), whole.x, g.ints(0, 1)), g.number(0.0), dtype=DType.BOOL)
    return g.builder.op(If(*(whole.taking("branch", each) for each in (turned, placed))), is_positive, n, n, whole.x,
                        outputs=[UNRANKED])[0]


def in_branches_in_a_loop(whole: Whole) -> Value:
    branches = [whole.taking("branch", each) for each in (turned, placed)]

    def choose(g: Graph, i: Value, n: Value, y: Value) -> Value:
        is_even = g(Equal(), g(FloorMod(), i, g.number(2), dtype=INTS), g.number(0), dtype=DType.BOOL)
        return g.builder.op(If(*branches), is_even, i, n, y, outputs=[UNRANKED])[0]

    g = whole.main
    return whole.loop(g, choose, g.length(whole.x, 0), whole.x)


def in_a_call(whole: Whole) -> Value:
    g = whole.main
    n = g.length(whole.x, 0)
    return g.builder.op(CallSubgraph(whole.taking("called", turned)), n, n, whole.x, outputs=[UNRANKED])[0]


def a_number_of_the_run(whole: Whole) -> Value:
    return whole.loop(whole.main, placed, whole.k, ones(whole.main, whole.k))


def a_number_of_the_run_in_loops_in_a_loop(whole: Whole) -> Value:
    return whole.loop(whole.main, lambda s, i, n, y: whole.loop(s, placed, n, y), whole.k, ones(whole.main, whole.k))


def a_number_that_the_body_alone_reads(whole: Whole) -> Value:
    """Sums of 0, 1, ... k - 1 are added."""
    def total(g: Graph, i: Value, n: Value, y: Value) -> Value:
        numbers = g(Range(), g.number(0), n, g.number(1), dtype=INTS)
        both = g(Mul(), g(Reshape(), numbers, g.ints(-1, 1), dtype=INTS), g(Reshape(), g(
            Range(), n, g(Add(), n, n, dtype=INTS), g.number(1), dtype=INTS), g.ints(-1, 1), dtype=INTS), dtype=INTS)
        return g(Add(), y, g(Cast(INTS, FLOATS), g(Sum(), both, g.ints(0, 1), dtype=INTS)))

    return whole.loop(whole.main, total, whole.k, whole.main(Sub(), whole.x, whole.main.number(1.0)))


MODELS = (in_a_loop, in_a_loop_that_calls, in_a_loop_that_grows, in_loops_in_a_loop, in_branches, in_branches_in_a_loop,
          in_a_call, a_number_of_the_run, a_number_of_the_run_in_loops_in_a_loop, a_number_that_the_body_alone_reads)
LENGTHS: Sequence[tuple[int, int]] = ((7, 3), (2, 40), (64, 2), (33, 150), (150, 100), (12, 1), (7, 5))
"""Of x, and the number."""


def made(write: Callable[[Whole], Value]) -> Model:
    whole = Whole()
    whole.main.builder.output(write(whole))
    return whole.builder.build()


@pytest.mark.parametrize("write", MODELS, ids=lambda each: each.__name__)
def test_one_function_serves_all(write: Callable[[Whole], Value], folder: object, compiled: list[str]) -> None:
    model = made(write)
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for n, k in (*LENGTHS, *LENGTHS):
        given = [floats(n, 4), np.array(k, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("write", MODELS[-3:], ids=lambda each: each.__name__)
def test_numbers_that_are_no_lengths(write: Callable[[Whole], Value]) -> None:
    """Nothing of each, or an error, as on the other backend."""
    model = made(write)
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for k in (3, 0, -2, 4, -1, 5):
        given = [floats(3, 4), np.array(k, np.int32)]
        try:
            expected = cpu.invoke(0, given)
        except circlet.ExecutionError:
            with pytest.raises(circlet.ExecutionError):
                native.invoke(0, given)
            continue
        for found, each in zip(native.invoke(0, given), expected, strict=True):
            check(found, each, 1e-5)
