"""Loops that go on until nothing is left, with what they keep growing: one function, though the last turn leaves
nothing of what the others take the first element of."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.controlflow import CallSubgraph, While
from circlet.runtime.ops.elementwise import Maximum, Sub
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.layout import Concatenation, StridedSlice
from circlet.runtime.ops.reduce import ReduceAny
from circlet.runtime.ops.shape import ShapeOf
from tests.exec.graphs import f32, i32
from tests.needs import NATIVE

pytestmark = NATIVE
F32, BOOL = DType.FLOAT32, DType.BOOL
ONE, SOME = Tensor("", F32, (1,)), Tensor("", F32, (1,), (-1,))
KINDS = [Tensor("goes_on", BOOL, ()), Tensor("kept", F32, (1,), (-1,)), Tensor("left", F32, (1,), (-1,))]


def part(s: SubgraphBuilder, x: Value, begin: int, end: int, kind: Tensor) -> Value:
    op = StridedSlice(end_mask=int(end < 0))
    return s.op(op, x, *(s.constant(i32([each])) for each in (begin, end, 1)), outputs=[kind])[0]


def some_left(s: SubgraphBuilder, x: Value) -> Value:
    count = s.op(ShapeOf(DType.INT32), x, outputs=[Tensor("", DType.INT32, (1,))])[0]
    more = s.op(Greater(), count, s.constant(i32([0])), outputs=[Tensor("", BOOL, (1,))])[0]
    return s.op(ReduceAny(), more, s.constant(i32([0])), outputs=[KINDS[0]])[0]


def body(s: SubgraphBuilder, is_late: bool) -> None:
    """Keeps the first of what is left, and leaves those behind it that are greater by more than 1. It goes on if there
    are some or, late, if there were before."""
    _, kept, left = (s.input(each.name, each.dtype, each.signature) for each in KINDS)
    first, rest = part(s, left, 0, 1, ONE), part(s, left, 1, -1, SOME)
    far = s.op(Greater(), s.op(Sub(), s.op(Maximum(), first, rest, outputs=[SOME])[0], first, outputs=[SOME])[0],
               s.constant(f32([1])), outputs=[Tensor("", BOOL, (1,), (-1,))])[0]
    places = s.op(Where(), far, outputs=[Tensor("", DType.INT64, (1, 1), (-1, 1))])[0]
    after = s.op(GatherNd(), rest, places, outputs=[SOME])[0]
    s.output(some_left(s, left if is_late else after), s.op(Concatenation(0), kept, first, outputs=[SOME])[0], after)


def model(asks: bool, reads: bool, calls: bool, is_late: bool = False) -> Model:
    """What is kept until nothing is left.

    Args:
        asks: the condition asks how much is left, rather than what the turn says.
        reads: what is left then is a result, too.
        calls: the loop is in a subgraph that is called.
        is_late: there is a turn with nothing left.
    """
    b = ModelBuilder()
    main, cond, turn, apart = (b.subgraph(name) for name in ("main", "cond", "turn", "apart"))
    goes_on, _, left = (cond.input(each.name, each.dtype, each.signature) for each in KINDS)
    cond.output(some_left(cond, left) if asks else goes_on)
    body(turn, is_late)
    s = apart if calls else main
    results = s.op(While(cond.index, turn.index), s.constant(np.array(True)), s.constant(np.zeros(0, np.float32)),
                   s.input("x", F32, (-1,)), outputs=KINDS)[1:]
    if calls:
        apart.output(*results)
        results = main.op(CallSubgraph(apart.index), main.input("x", F32, (-1,)), outputs=KINDS[1:])
    main.output(*results[:2 if reads else 1])
    return b.build()


def kept(x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[np.float32]:
    found, left = [], list(x)
    while left:
        found.append(left[0])
        left = [each for each in left[1:] if max(each, left[0]) - left[0] > 1]
    return found


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("calls", [False, True])
def test_until_nothing_is_left(asks: bool, reads: bool, calls: bool, folder: object, compiled: list[str]) -> None:
    session = circlet.Session(model(asks, reads, calls), "native")
    for n in (9, 40, 2, 200, 7):
        x = (np.random.default_rng(n).normal(size=n) * 9).astype(np.float32)
        results = session.invoke(0, [x])
        np.testing.assert_array_equal(results[0], kept(x))
        assert [each.size for each in results[1:]] == [0] * reads
    assert len(compiled) == 1


@pytest.mark.parametrize("reads", [False, True])
def test_turns_with_nothing_left(reads: bool, folder: object) -> None:
    """They take the first element of what has none, which has none then: a run that comes to one is not this code's."""
    session = circlet.Session(model(False, reads, calls=False, is_late=True), "native")
    for n in (9, 40, 2):
        x = (np.random.default_rng(n).normal(size=n) * 9).astype(np.float32)
        results = session.invoke(0, [x])
        np.testing.assert_array_equal(results[0], kept(x))
        assert [each.size for each in results[1:]] == [0] * reads
