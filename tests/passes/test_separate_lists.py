"""Sequences of as many elements in each run become tensors; others stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import CircletError, ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.sequence import (
    SequenceAt,
    SequenceConcat,
    SequenceConstruct,
    SequenceErase,
    SequenceInsert,
    SequenceLength,
)
from circlet.runtime.ops.shape import Alias, Reshape
from circlet.runtime.passes.transforms.lists import separate_lists as module
from circlet.runtime.passes.transforms.lists.separate_lists import separate_lists
from tests.needs import NATIVE

F32, I32 = DType.FLOAT32, DType.INT32
LIST = Tensor("list", DType.VARIANT, ())
ITEMS = (("items", DType.VARIANT, ()), ("k", I32, ()), ("row", F32, (1, 2)))
ROWS = Tensor("rows", F32, (1, 2), (-1, 2))
Turn: TypeAlias = Callable[[ModelBuilder, SubgraphBuilder, Value, Value, Value], Value]
"""The list after a turn, of its number, the list before and a row."""
Read: TypeAlias = Callable[[SubgraphBuilder, Value], Value]


def at(s: SubgraphBuilder, items: Value, place: int) -> Value:
    return s.op(SequenceAt(), items, s.constant(np.int64(place)), outputs=[ROWS])[0]


def listed(s: SubgraphBuilder, op: SequenceConstruct | SequenceErase | SequenceInsert, *inputs: Value) -> Value:
    return s.op(op, *inputs, outputs=[LIST])[0]


def grown(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    """A row more for the first element."""
    place = s.constant(np.int64(0))
    longer = s.op(Concatenation(0), at(s, items, 0), row, outputs=[ROWS])[0]
    return listed(s, SequenceInsert(), listed(s, SequenceErase(), items, place), longer, place)


def added(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    """The row added to the last one, told from behind."""
    more = s.apply(Add(), at(s, items, -1), row)
    return listed(s, SequenceInsert(), listed(s, SequenceErase(), items), more)


def rotated(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    """The first element behind the others."""
    others = listed(s, SequenceErase(), items, s.constant(np.int64(-3)))
    return listed(s, SequenceInsert(), others, at(s, items, 0), s.constant(np.int64(2)))


def chosen(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    """Rotated in the first turn, then handed on."""
    branches = [b.subgraph(name) for name in ("rotate", "keep")]
    for is_changed, branch in zip((True, False), branches, strict=True):
        own, number, line = (branch.input(*each) for each in ITEMS)
        branch.output(rotated(b, branch, number, own, line) if is_changed else branch.op(
            Alias(), own, outputs=[LIST])[0])
    is_first = s.apply(Less(), k, s.constant(np.int32(1)))
    return s.op(If(*(each.index for each in branches)), is_first, items, k, row, outputs=[LIST])[0]


def picked(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    """The row of the first element with the number of the turn in its place."""
    place = s.constant(np.int64(0))
    shape = s.constant(np.array([1, 2], np.int32))
    one = s.op(Reshape(), s.apply(Gather(), at(s, items, 0), k), shape, outputs=[ROWS])[0]
    return listed(s, SequenceInsert(), listed(s, SequenceErase(), items, place), one, place)


def lengthened(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    return listed(s, SequenceInsert(), items, row)


def placed(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    """Where the row is hangs on the turn."""
    return listed(s, SequenceInsert(), listed(s, SequenceErase(), items), row, k)


def unranked(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
    """Nobody says how many axes the last element has after a turn."""
    some = s.op(Alias(), row, outputs=[Tensor("some", F32, (), has_rank=False)])[0]
    return listed(s, SequenceInsert(), listed(s, SequenceErase(), items), some)


def joined(s: SubgraphBuilder, items: Value) -> Value:
    return s.op(SequenceConcat(0), items, outputs=[ROWS])[0]


def second(s: SubgraphBuilder, items: Value) -> Value:
    return at(s, items, 1)


def counted(s: SubgraphBuilder, items: Value) -> Value:
    return s.op(SequenceLength(), items, outputs=[Tensor("count", DType.INT64, ())])[0]


def whole(s: SubgraphBuilder, items: Value) -> Value:
    return items


def stacked(s: SubgraphBuilder, items: Value) -> Value:
    return s.op(SequenceConcat(0, True), items, outputs=[Tensor("all", F32, (1, 1, 2), (-1, -1, 2))])[0]


def looped(turn: Turn, read: Read = joined, calls: int = 1) -> Model:
    """Of n, x (rows, 2) and a row: the list of x, the row and x after n turns, as it is read."""
    b = ModelBuilder()
    main, cond, body = (b.subgraph(each) for each in ("main", "cond", "body"))
    n, x, row = main.input("n", I32), main.input("x", F32, (-1, 2)), main.input("row", F32, (1, 2))
    for s in (cond, body):
        k, most, line = s.input("k", I32), s.input("n", I32), s.input("row", F32, (1, 2))
        items = s.input("items", DType.VARIANT)
        s.output(*([s.apply(Less(), k, most)] if s is cond else [
            s.apply(Add(), k, s.constant(np.int32(1))), most, line, turn(b, s, k, items, line)]))
    state = [main.constant(np.int32(0)), n, row, listed(main, SequenceConstruct(), x, row, x)]
    outputs = [Tensor("k", I32, ()), Tensor("n", I32, ()), Tensor("row", F32, (1, 2)), LIST]
    for _ in range(calls):
        state = [state[0], *main.op(While(cond.index, body.index), *state, outputs=outputs)[1:]]
    main.output(read(main, state[3]))
    return b.build()


def names(model: Model) -> set[str]:
    """Of the operators that runs of subgraph 0 reach."""
    found, left = set[int](), [0]
    while left:
        index = left.pop()
        found.add(index)
        left += (each for operator in model.subgraphs[index].operators for each in operator.op.callees())
    return {operator.name for index in found for operator in model.subgraphs[index].operators}


def result(session: circlet.Session, n: int, rows: int) -> object:
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    try:
        return session.run({"n": np.int32(n), "x": x, "row": np.array([[7, 8]], np.float32)}).popitem()[1]
    except CircletError as error:
        return type(error).__name__


SEPARATED = {
    **{turn.__name__: looped(turn) for turn in (grown, rotated, chosen)},
    "added": looped(added, second), "counted": looped(rotated, counted), "stacked": looped(rotated, stacked),
    "second": looped(grown, second),
}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", SEPARATED)
def test_lists_become_tensors(name: str, backend: str) -> None:
    model = SEPARATED[name]
    changed = separate_lists(model)
    assert not any(each.startswith("SEQUENCE") for each in names(changed))
    assert separate_lists(changed) is changed
    before, after = circlet.Session(model, "cpu"), circlet.Session(changed, backend)
    for n, rows in np.ndindex(4, 4):
        np.testing.assert_array_equal(result(after, n, rows), result(before, n, rows))


@NATIVE
@pytest.mark.parametrize("name", ["grown", "rotated", "chosen"])
def test_they_are_native(name: str) -> None:
    session = circlet.Session(SEPARATED[name], "native")
    for n, rows in ((3, 2), (0, 1), (5, 4)):
        before = circlet.Session(SEPARATED[name], "cpu")
        np.testing.assert_array_equal(result(session, n, rows), result(before, n, rows))
    assert set(session.backend_of(0)) - {"none"} == {"native"}


@pytest.mark.parametrize("model", [
    looped(lengthened), looped(placed), looped(rotated, whole), looped(rotated, calls=2),
    looped(unranked)], ids=["longer", "at_no_constant", "returned", "called_twice", "of_any_rank"])
def test_others_stay(model: Model) -> None:
    assert separate_lists(model) is model


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_errors_name_the_operators_of_the_model(backend: str) -> None:
    session = circlet.Session(separate_lists(looped(picked)), backend)
    with pytest.raises(ExecutionError, match=r"subgraph 2 \('body'\), operator 2 \(GATHER\)"):
        session.run({"n": np.int32(2), "x": np.zeros((3, 2), np.float32), "row": np.zeros((1, 2), np.float32)})
    np.testing.assert_array_equal(result(session, 1, 2), [[0, 1], [7, 8], [0, 1], [2, 3]])


def test_a_position_behind_the_last_is_left_to_the_run() -> None:
    def beyond(b: ModelBuilder, s: SubgraphBuilder, k: Value, items: Value, row: Value) -> Value:
        return listed(s, SequenceErase(), listed(s, SequenceInsert(), items, row), s.constant(np.int64(4)))

    model = looped(beyond)
    assert separate_lists(model) is model
    assert result(circlet.Session(model), 1, 2) == "ExecutionError"


def test_they_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SEPARATED["rotated"]
    monkeypatch.setattr(module, "MOST", 16)
    assert separate_lists(model) is model
    monkeypatch.setattr(module, "MOST", 17)
    assert separate_lists(model) is not model


def test_elements_of_unknown_rank_stay() -> None:
    b = ModelBuilder()
    main, inner = b.subgraph("main"), b.subgraph("inner")
    x = main.input("x", F32, (2,))
    (any_,) = main.op(Alias(), x, outputs=[Tensor("any", F32, (), has_rank=False)])
    inner.output(inner.op(SequenceAt(), inner.input("items", DType.VARIANT), inner.constant(np.int64(0)),
                          outputs=[Tensor("first", F32, (), has_rank=False)])[0])
    items = listed(main, SequenceConstruct(), any_)
    main.output(*main.op(CallSubgraph(inner.index), items, outputs=[Tensor("y", F32, (), has_rank=False)]))
    model = b.build()
    assert separate_lists(model) is model
    assert circlet.Session(model).run({"x": np.array([1, 2], np.float32)})["y"].tolist() == [1, 2]
