"""Operators outside the loops of a model are functions of their own, unless they give a number in a register that
follows from numbers; those inside are part of the loop, if they are not many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from functools import reduce as fold

import numpy as np
import pytest

from circlet.backends.native.backend import Listing
from circlet.backends.native.emit import parallel
from circlet.backends.native.lower import subgraphs
from circlet.backends.native.lower.function import FunctionLowering
from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.exec.limits import Limits
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import detection, elementwise, index, matmul, reduce, shape, unary
from circlet.runtime.ops.controlflow import While
from tests.exec import graphs as g
from tests.exec.graphs import Array, i32
from tests.native.test_budget import X, compare, loop, session_of, straight


def defined(listing: Listing) -> list[str]:
    """The functions of a module, by what they are named after."""
    return [each.split(".")[0] for each in re.findall(r'^define [^@]*@"([^"]*)"', listing.module, re.M)]


def fallible() -> Model:
    """A product, a view of it, a scalar, and indices that may be out of range."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, at = main.input("x", DType.FLOAT32, (3, 4)), main.input("at", DType.INT32, (2,))
    product = main.apply(matmul.BatchMatMul(adj_y=True), x, x)
    total = main.apply(reduce.Sum(), main.apply(shape.Reshape(), product, main.constant([9])), main.constant([0]))
    main.output(main.apply(index.Gather(), g.add(main, product, total), at))
    return b.build()


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CIRCLET_CHECK_BOUNDS", raising=False)  # checked code stays whole


@pytest.fixture
def _unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    """No function is called for an operator like the one that it was written for."""
    monkeypatch.setattr(FunctionLowering, "repeats", False)


@pytest.mark.usefixtures("_unshared")
def test_each_operator_with_a_result_in_memory_is_a_function() -> None:
    (listing,) = compare(straight(3), [X]).listings
    assert defined(listing).count("operator") > 9


@pytest.mark.parametrize("op", [reduce.Sum(), reduce.ReduceMax()])
def test_a_number_combined_of_an_array_is_of_a_function(op: reduce.Reduction) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (300,))
    number = main.apply(op, x, main.constant([0]))
    main.output(number, g.add(main, x, number))
    (listing,) = compare(b.build(), [np.arange(300, dtype=np.float32) - 7]).listings
    assert defined(listing).count("operator") == 2


def selections() -> Model:
    """Two, each with the number of boxes in a register behind it."""
    b = ModelBuilder()
    main = b.subgraph("main")
    boxes, scores = main.input("boxes", DType.FLOAT32, (6, 4)), main.input("scores", DType.FLOAT32, (6,))
    limits = [main.constant(each) for each in (i32(3), np.float32(0.5), np.float32(-1))]
    for given in (scores, main.apply(unary.Neg(), scores)):
        chosen, count = main.op(detection.NonMaxSuppressionV4(), boxes, given, *limits,
                                outputs=[Tensor("chosen", DType.INT32, (3,)), Tensor("count", DType.INT32, ())])
        main.output(chosen, g.plus(main, count))
    return b.build()


BOXES: Sequence[Array] = [np.arange(24, dtype=np.float32).reshape(6, 4) / 9, np.array([1, 5, 2, 4, 3, 6], np.float32)]


@pytest.mark.usefixtures("_unshared")
def test_an_array_and_a_number_are_of_a_function() -> None:
    (listing,) = compare(selections(), BOXES).listings
    assert defined(listing).count("operator") == 3, "one for each selection, and one that negates"


def test_an_array_and_a_number_are_of_a_function_for_both() -> None:
    (listing,) = compare(selections(), BOXES).listings
    assert defined(listing).count("operator") == 2, "one that selects, and one that negates"


def test_loops_beside_each_other_are_functions() -> None:
    """Each is beside what the other one invokes."""
    b = ModelBuilder()
    main = b.subgraph("main")
    count, x = main.input("n", DType.INT32, ()), main.input("x", DType.FLOAT32, X.shape)

    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        found = v[1]
        for _ in range(12):
            found = s.apply(elementwise.Mul(), s.apply(unary.Tanh(), found), v[1])
        return [g.plus(s, v[0]), found]

    kinds = [(DType.INT32, ()), (DType.FLOAT32, X.shape)]
    value = x
    for k in range(2):
        op = While(g.define(b, f"test {k}", g.below(3), kinds), g.define(b, f"turn {k}", body, kinds))
        value = main.apply(unary.Neg(), main.op(op, count, value, count=2)[1])
    main.output(value)
    (listing,) = compare(b.build(), [i32(0), X]).listings
    assert defined(listing).count("operator") == 3, "one for each loop, and one that negates"


def test_loops_keep_their_operators() -> None:
    listings = compare(loop(4), [i32(0), X]).listings
    assert "circlet_entry" in defined(listings[0])
    assert not any("operator" in defined(each) for each in listings)


def test_loops_of_many_operators_have_functions_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is called for all operators that are alike, in each turn with what each of them reads and writes."""
    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        one, other = (s.apply(matmul.BatchMatMul(), *each) for each in ((v[1], v[2]), (v[2], v[1])))
        return [g.plus(s, v[0]), g.add(s, one, other), g.add(s, other, v[2])]

    monkeypatch.setattr(subgraphs, "MOST_INSIDE", 4)
    arrays = [i32(0), X, X[::-1].copy()]
    (listing,) = compare(g.while_model(g.at_most(4), body, arrays), arrays).listings
    assert defined(listing).count("operator") == 3, "one for both products, and one for each sum"


def test_functions_inside_of_loops_share_out_loops_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What threads take turns of reads and writes what the function is called for, not what it was written for."""
    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        found = [s.apply(unary.Neg(), v[1])]
        for seed in range(4):
            weights = s.constant(np.random.default_rng(seed).normal(size=(8, 8)).astype(np.float32) / 4)
            found.append(s.apply(matmul.FullyConnected(), found[-1], weights, None))
        return [g.plus(s, v[0]), s.apply(unary.Tanh(), fold(partial(g.add, s), found))]

    monkeypatch.setattr(subgraphs, "MOST_INSIDE", 4)
    monkeypatch.setattr(parallel, "LEAST_WORK", 1)
    arrays = [i32(0), np.random.default_rng(9).normal(size=(16, 8)).astype(np.float32)]
    (listing,) = compare(g.while_model(g.at_most(3), body, arrays), arrays).listings
    functions = defined(listing)
    assert functions.count("operator") == 4, "one for all products, one for all sums, and one each beside them"
    assert "part" in functions


def test_a_loop_beside_many_operators_is_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subgraphs, "MOST_BESIDE", 0)
    (listing,) = compare(loop(4), [i32(0), X]).listings
    assert defined(listing).count("operator") == 1


def test_a_loop_of_a_function_counts_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subgraphs, "MOST_BESIDE", 0)
    session, _ = session_of(loop(4))
    session.limits = Limits(max_iterations=3)
    wanted = session.invoke(0, [i32(0), X])
    session.limits = Limits(max_iterations=2)
    with pytest.raises(LimitError, match="max_iterations=2"):
        session.invoke(0, [i32(0), X])
    session.limits = Limits(max_iterations=3)
    np.testing.assert_array_equal(session.invoke(0, [i32(0), X])[1], wanted[1])


@pytest.mark.parametrize("at", [[0, 2], [2, 2]])
def test_a_function_that_may_fail(at: Sequence[int]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    backend = compare(fallible(), [x, np.array(at, np.int32)])
    assert "operator" in defined(backend.listings[0])


def test_functions_that_may_fail_are_alike() -> None:
    """Each says by itself which of its checks failed, and who calls it which operator that is of."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, places = main.input("x", DType.FLOAT32, (3, 4)), [main.input(name, DType.INT32, (2,)) for name in "ab"]
    main.output(*(main.apply(index.Gather(), x, each) for each in places))
    session, backend = session_of(b.build())
    rows, within, beyond = np.ones((3, 4), np.float32), np.array([0, 2], np.int32), np.array([3, 0], np.int32)
    session.invoke(0, [rows, within, within])
    assert sum("operator" in each.name for each in backend.listings[0].pieces) == 1
    for number, given in enumerate([(beyond, within), (within, beyond)]):
        with pytest.raises(ExecutionError, match=rf"operator {number} \(GATHER\).*3 is out of range"):
            session.invoke(0, [rows, *given])


def test_an_error_in_a_function_ends_the_run() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    session, _ = session_of(fallible())
    for _ in range(2):
        with pytest.raises(ExecutionError, match=r"GATHER.*3 is out of range"):
            session.invoke(0, [x, np.array([0, 3], np.int32)])
        session.invoke(0, [x, np.array([0, 1], np.int32)])
