"""Inputs without elements, as a decoder's past is before its first step, beside others: they take no code of their own
where it would serve other lengths, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import If
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.layout import Concatenation, Transpose
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.reduce import ReduceMax, Sum
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.unary import Tanh
from tests.native.test_lengths import Graph, floats
from tests.ops.cases import check

Arrays: TypeAlias = "list[npt.NDArray[Any]]"
Write: TypeAlias = Callable[[Graph, Value, Value, Value], Sequence[Value]]
LENGTHS = ((0, 5), (0, 1), (5, 1), (6, 1), (7, 3), (1, 1), (0, 5), (1, 4), (200, 30))
"""Of what was, (n, 4), and what is new, (t, 4)."""


def attended(g: Graph, past: Value, new: Value, mask: Value) -> Sequence[Value]:
    """What is new attends to all, as far as a mask (n + t) lets it, and is kept."""
    kept = g(Concatenation(0), past, new)
    scores = g(Add(), g(BatchMatMul(adj_y=True), new, kept), mask)
    return [g(BatchMatMul(), g(Softmax(1.0), scores), kept), kept]


def in_heads(g: Graph, past: Value, new: Value, mask: Value) -> Sequence[Value]:
    """The same with two heads, and without a mask."""
    past, new = (g(Transpose(), g(Reshape(), each, g.ints(-1, 2, 2)), g.ints(1, 0, 2)) for each in (past, new))
    kept = g(Concatenation(1), past, g(Tanh(), new))
    return [g(BatchMatMul(), g(Softmax(1.0), g(BatchMatMul(adj_y=True), new, kept)), kept), kept]


def summed(g: Graph, past: Value, new: Value, mask: Value) -> Sequence[Value]:
    """Sums of what was, which are of nothing at first, and its squares."""
    return [g(Add(), new, g(Sum(), past, g.ints(0))), g(Concatenation(0), g(Mul(), past, past), new)]


def greatest(g: Graph, past: Value, new: Value, mask: Value) -> Sequence[Value]:
    """Maxima of what was, which are other numbers if there is nothing."""
    return [g(Add(), new, g(ReduceMax(), past, g.ints(0)))]


MODELS: dict[str, Write] = {"attended": attended, "in heads": in_heads, "summed": summed}


def merged() -> Model:
    """What is new behind what was, or alone, as a condition says: a decoder of both steps."""
    b = ModelBuilder()
    main = b.subgraph("main")
    made: list[int] = []
    for name in ("first", "then"):
        g = Graph(b.subgraph(name))
        past, new = (g.builder.input(each, DType.FLOAT32, (-1, 4)) for each in ("past", "new"))
        kept = g(Tanh(), new) if name == "first" else g(Concatenation(0), past, g(Tanh(), new))
        scores = g(Softmax(1.0), g(BatchMatMul(adj_y=True), new, kept))
        g.builder.output(g(BatchMatMul(), scores, kept))
        g.builder.output(kept)
        made.append(g.builder.index)
    which = main.input("which", DType.BOOL, ())
    given = [main.input(name, DType.FLOAT32, (-1, 4)) for name in ("past", "new")]
    results = main.op(If(*made), which, *given, outputs=[Tensor("", DType.FLOAT32, (), has_rank=False)] * 2)
    main.output(*results)
    return b.build()


def model(write: Write) -> Model:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    past, new, mask = (g.builder.input(name, DType.FLOAT32, shape)
                       for name, shape in (("past", (-1, 4)), ("new", (-1, 4)), ("mask", (-1,))))
    for each in write(g, past, new, mask):
        g.builder.output(each)
    return b.build()


def given(before: int, new: int) -> Arrays:
    return [floats(before, 4), floats(new, 4), floats(before + new)]


@pytest.mark.parametrize("name", MODELS)
def test_one_function_serves_nothing_and_other_lengths(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(MODELS[name]), backend=each) for each in ("native", "cpu"))
    for lengths in LENGTHS:
        arrays = given(*lengths)
        for found, expected in zip(native.invoke(0, arrays), cpu.invoke(0, arrays), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1
    other = circlet.Session(model(MODELS[name]), backend="native")
    other.invoke(0, given(0, 3))
    assert len(compiled) == 1, "it is on the disk"


@pytest.mark.parametrize("write", [attended, in_heads, summed, greatest])
def test_nothing_before_and_after_other_lengths(write: Write, folder: object, compiled: list[str]) -> None:
    """A decoder begins anew in a session that had kept something."""
    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for lengths in (*LENGTHS[4:], *LENGTHS[:4]):
        arrays = given(*lengths)
        for found, expected in zip(native.invoke(0, arrays), cpu.invoke(0, arrays), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1 or write is greatest


@pytest.mark.parametrize("order", [1, -1])
def test_a_decoder_of_both_steps_has_one_function(order: int, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(merged(), backend=each) for each in ("native", "cpu"))
    for before, new in ((5, 3), (0, 4), (1, 1), (0, 1), (9, 2))[::order]:
        for is_first in (False, True):
            arrays = [np.array(is_first), floats(before, 4), floats(new, 4)]
            for found, expected in zip(native.invoke(0, arrays), cpu.invoke(0, arrays), strict=True):
                check(found, expected, 1e-5)
    assert len(compiled) == 1


def test_any_number_of_nothing_is_one_function(folder: object, compiled: list[str]) -> None:
    """Products (b, 0, 0) of (b, 0, 4), which are too little work to be shared out, however many they are."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1, -1, 4))
    g.builder.output(g(BatchMatMul(adj_y=True), x, x))
    native = circlet.Session(b.build(), backend="native")
    for batch in (1, 3, 1, 2):
        assert native.invoke(0, [floats(batch, 0, 4)])[0].shape == (batch, 0, 0)
    assert len(compiled) == 1
