"""Choices of which the first decides the second become one; others stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ir.verify import verify
from circlet.runtime.ops.controlflow import CallSubgraph, If
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias
from circlet.runtime.ops.unary import LogicalNot
from circlet.runtime.passes.transforms.branches import thread_branches as module
from circlet.runtime.passes.transforms.branches.thread_branches import thread_branches
from tests.needs import NATIVE

F32, BOOL, I32 = DType.FLOAT32, DType.BOOL, DType.INT32
FLAG, ANY = Tensor("flag", BOOL, ()), Tensor("value", F32, (), has_rank=False)
Branch: TypeAlias = Callable[[ModelBuilder, SubgraphBuilder, Value, Value], tuple[Value, Value]]
"""What a branch of the first choice gives of d and x: a flag and a value."""
Between: TypeAlias = Callable[[SubgraphBuilder, Value, Value], Value]
"""The condition of the second choice, of the flag and the value."""


def left(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    """Some number that nobody reads."""
    return s.constant(np.bool_(False)), s.constant(0.0)


def doubled(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    return s.constant(np.bool_(True)), s.apply(Add(), x, x)


def by_d(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    """A choice that gives the flag."""
    flag, value = s.op(If(branch(b, doubled), branch(b, left)), d, d, x, outputs=[FLAG, ANY])
    return s.apply(Alias(), flag), value


def by_flag(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    """A choice that goes by the flag."""
    return d, s.op(If(branch(b, doubled), branch(b, left)), d, d, x, outputs=[FLAG, ANY])[1]


def called(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    """A subgraph that is invoked whatever holds, with a choice that gives the flag."""
    flag, value = s.op(CallSubgraph(branch(b, by_d)), d, x, outputs=[FLAG, ANY])
    return flag, value


def computed(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    """Either is read."""
    return s.apply(LogicalNot(), d), s.apply(Add(), x, x)


def branch(b: ModelBuilder, write: Branch) -> int:
    s = b.subgraph(write.__name__)
    d, x = s.input("d", BOOL), s.input("x", F32, (-1,))
    s.output(*write(b, s, d, x))
    return s.index


def flag_alone(s: SubgraphBuilder, flag: Value, value: Value) -> Value:
    return flag


def handed_on(s: SubgraphBuilder, flag: Value, value: Value) -> Value:
    return s.op(Cast(), s.apply(Alias(), flag), outputs=[FLAG])[0]


def inverted(s: SubgraphBuilder, flag: Value, value: Value) -> Value:
    return s.apply(LogicalNot(), flag)


def chosen(first: Branch, other: Branch, between: Between = flag_alone, returns: str = "") -> Model:
    """Of c, d, x and k: `first` or `other` by c, then x[k] added to the value, or x, by the flag."""
    b = ModelBuilder()
    main, then, otherwise = (b.subgraph(each) for each in ("main", "then", "otherwise"))
    c, d = main.input("c", BOOL), main.input("d", BOOL)
    x, k = main.input("x", F32, (-1,)), main.input("k", I32)
    flag, value = main.op(If(branch(b, first), branch(b, other)), c, d, x, outputs=[FLAG, ANY])
    for s in (then, otherwise):
        value_in, x_in, k_in = s.input("value", F32, (-1,)), s.input("x", F32, (-1,)), s.input("k", I32)
        s.output(s.apply(Add(), value_in, s.apply(Gather(), x_in, k_in)) if s is then else x_in)
    main.output(*main.op(If(then.index, otherwise.index), between(main, flag, value), value, x, k,
                         outputs=[Tensor("y", F32, (1,), (-1,))]))
    if returns:
        main.output({"flag": flag, "value": value}[returns])
    return b.build()


X = np.array([1, 2, 4], np.float32)
DECIDED: dict[str, tuple[Model, Callable[[bool, bool], bool]]] = {
    "constant": (chosen(left, doubled), lambda c, d: not c),
    "both": (chosen(doubled, left, returns="value"), lambda c, d: c),
    "handed_on": (chosen(left, doubled, handed_on), lambda c, d: not c),
    "nested": (chosen(left, by_d), lambda c, d: not c and d),
    "nested_flag": (chosen(by_flag, left), lambda c, d: c and d),
    "nested_twice": (chosen(by_d, by_flag, handed_on), lambda c, d: d),
    "called": (chosen(left, called), lambda c, d: not c and d),
    "called_twice": (chosen(called, called), lambda c, d: d),
}
"""Models, and when the value is doubled."""


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", DECIDED)
def test_choices_become_one(name: str, backend: str) -> None:
    model, is_doubled = DECIDED[name]
    changed = thread_branches(model)
    assert [each.name for each in changed.subgraphs[0].operators].count("IF") == 1
    assert thread_branches(changed) is changed
    for found in (model, changed):
        session = circlet.Session(found, backend)
        for c, d, k in np.ndindex(2, 2, 3):
            y = session.run({"c": bool(c), "d": bool(d), "x": X, "k": np.int32(k)})["y"]
            np.testing.assert_array_equal(y, 2 * X + X[k] if is_doubled(bool(c), bool(d)) else X)


def kept(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    return s.constant(np.bool_(False)), s.apply(Alias(), x)


def raised(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    return d, s.apply(Add(), x, s.constant(1.0))


def nested(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    flag, value = s.op(If(branch(b, doubled), branch(b, kept)), d, d, x, outputs=[FLAG, VECTOR])
    return flag, value


VECTOR = Tensor("value", F32, (1,), (-1,))
Step: TypeAlias = tuple[Branch, Branch, int, int, int, int, Between]
"""What a choice gives one way and the other; which flag it goes by, which one and which value branches take, and what
is added to theirs, counted from the last; and how its flag is handed on."""
STEPS = st.lists(st.tuples(*[st.sampled_from([kept, doubled, raised, nested])] * 2, *[st.integers(0, 3)] * 4,
                           st.sampled_from([flag_alone, handed_on])), min_size=1, max_size=8)


def sum_of(b: ModelBuilder, write: Branch) -> int:
    """A branch that adds a third input to its value."""
    s = b.subgraph(write.__name__)
    d, x, y = s.input("d", BOOL), s.input("x", F32, (-1,)), s.input("y", F32, (-1,))
    flag, value = write(b, s, d, x)
    s.output(flag, s.apply(Add(), value, y))
    return s.index


def several(steps: Sequence[Step], results: int) -> Model:
    """Of c, d and x: choices, one after the other, by flags that were given or that choices gave, and the last values
    and flags of so many."""
    b = ModelBuilder()
    main = b.subgraph("main")
    flags, values = [main.input("c", BOOL), main.input("d", BOOL)], [main.input("x", F32, (-1,))]
    for one, other, by, told, number, added, between in steps:
        then, otherwise = (sum_of(b, each) for each in (one, other))
        x, y = (values[-1 - each % len(values)] for each in (number, added))
        flag, value = main.op(If(then, otherwise), flags[-1 - by % len(flags)], flags[told % 2], x, y,
                              outputs=[FLAG, VECTOR])
        flags.append(between(main, flag, value))
        values.append(value)
    main.output(*dict.fromkeys((values[-1], *values[-results:], *flags[len(flags) - results // 2:])))
    return b.build()


@pytest.mark.slow
@given(steps=STEPS, results=st.integers(1, 4))
@example([(doubled, doubled, 1, 0, 0, 0, flag_alone), (raised, raised, 0, 1, 1, 1, flag_alone),
          (doubled, doubled, 1, 1, 0, 1, flag_alone), (kept, raised, 0, 1, 0, 0, flag_alone)], 1)
def test_choices_in_a_row_give_what_they_gave(steps: list[Step], results: int) -> None:
    model = several(steps, results)
    before, after = (circlet.Session(each, "cpu") for each in (model, thread_branches(model)))
    for c, d in np.ndindex(2, 2):
        given = [np.array(c > 0), np.array(d > 0), X]
        for found, expected in zip(after.invoke(0, given), before.invoke(0, given), strict=True):
            np.testing.assert_array_equal(found, expected)


def twice(b: ModelBuilder, s: SubgraphBuilder, d: Value, x: Value) -> tuple[Value, Value]:
    """Two choices, of which the first decides the second."""
    flag, value = s.op(If(branch(b, doubled), branch(b, kept)), d, d, x, outputs=[FLAG, VECTOR])
    flag, value = s.op(If(branch(b, doubled), branch(b, kept)), flag, d, value, outputs=[FLAG, VECTOR])
    return flag, value


def test_what_is_invoked_from_elsewhere_stays() -> None:
    """A subgraph in which two choices became one is invoked by one that goes on by its flag, and by another."""
    b = ModelBuilder()
    main = b.subgraph("main")
    d, x = main.input("d", BOOL), main.input("x", F32, (-1,))
    shared = branch(b, twice)
    further = b.subgraph("further")
    own_d, own_x = further.input("d", BOOL), further.input("x", F32, (-1,))
    flag, value = further.op(CallSubgraph(shared), own_d, own_x, outputs=[FLAG, VECTOR])
    further.output(*further.op(If(branch(b, raised), branch(b, kept)), flag, own_d, value, outputs=[FLAG, VECTOR]))
    for callee in (further.index, shared):
        main.output(*main.op(CallSubgraph(callee), d, x, outputs=[FLAG, VECTOR]))
    model = b.build()
    changed = thread_branches(model)
    verify(changed)
    for flagged in (True, False):
        one, other = (circlet.Session(each, "cpu").invoke(0, [np.array(flagged), X]) for each in (model, changed))
        for found, expected in zip(other, one, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_many_choices_by_one_flag_are_as_many_operators(backend: str) -> None:
    """Not their square: what was made for the first two goes on with the third."""
    count = 60
    ways = [(doubled if number < 5 else kept, raised) for number in range(count)]
    model = several([(*each, 1 + number, 1, 0, 0, flag_alone) for number, each in enumerate(ways)], 1)
    changed = thread_branches(model)
    assert [each.name for each in changed.subgraphs[0].operators].count("IF") == 1
    assert sum(len(each.operators) for each in changed.subgraphs) < 8 * count
    session = circlet.Session(changed, backend)
    for c, expected in ((True, 3**5 * 2**55 * X), (False, 2**60 * (X + 1) - 1)):
        (found,) = session.run([np.bool_(c), np.bool_(True), X]).values()
        np.testing.assert_array_equal(found, expected)


@NATIVE
@pytest.mark.parametrize("name", [each for each in DECIDED if each != "both"])
def test_they_are_one_function(name: str) -> None:
    session = circlet.Session(DECIDED[name][0], "native")
    session.run({"c": False, "d": True, "x": X, "k": np.int32(0)})
    assert set(session.backend_of(0)) - {"none"} == {"native"}


@pytest.mark.parametrize("model", [
    chosen(left, doubled, returns="flag"), chosen(left, doubled, inverted), chosen(left, computed),
    chosen(computed, doubled)], ids=["flag_returned", "flag_read", "computed", "computed_too"])
def test_others_stay(model: Model) -> None:
    assert thread_branches(model) is model


def test_branches_do_not_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second choice's branch with two operators would be there twice."""
    model = chosen(by_d, by_flag)
    monkeypatch.setattr(module, "MOST_COPIES", 1)
    assert thread_branches(model) is model
    monkeypatch.setattr(module, "MOST_COPIES", 2)
    assert thread_branches(model) is not model


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_errors_name_the_operators_of_the_model(backend: str) -> None:
    session = circlet.Session(thread_branches(DECIDED["nested"][0]), backend)
    with pytest.raises(ExecutionError, match=r"subgraph 1 \('then'\), operator 0 \(GATHER\)"):
        session.run({"c": False, "d": True, "x": X, "k": np.int32(9)})
    assert session.run({"c": True, "d": True, "x": X, "k": np.int32(9)})["y"].tolist() == X.tolist()
