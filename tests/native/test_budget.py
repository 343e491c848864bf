"""Long spans become several functions; what is too much is left to numpy, and listed so."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native import backend as native
from circlet.backends.native.load import fingerprint
from circlet.backends.native.lower import budget, controlflow
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elementwise, index, layout, matmul, reduce, shape, unary, variable
from circlet.runtime.ops import controlflow as ops
from tests.exec import graphs as g
from tests.exec.graphs import Array, f32, i32
from tests.exec.test_updates import assign, handle

X = np.arange(4, dtype=np.float32).reshape(2, 2) / 8


def straight(count: int) -> Model:
    """Products, transpositions, views, scalars and values that are read much later, `count` times."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2, 2))
    v, early, scalar = x, main.apply(unary.Neg(), x), main.constant(f32(0))
    for _ in range(count):
        v = main.apply(layout.Transpose(), main.apply(matmul.BatchMatMul(), v, x), main.constant([1, 0]))
        scalar = g.add(main, scalar, main.apply(reduce.Sum(), v, main.constant([0, 1])))
        v = main.apply(shape.Reshape(), main.apply(shape.Reshape(), g.add(main, v, scalar), main.constant([4])),
                       main.constant([2, 2]))
        v = main.apply(unary.Tanh(), v)
    main.output(v, scalar, g.add(main, early, v))
    return b.build()


def raised(amount: float) -> g.Formula:
    return lambda s, v: [g.plus(s, v[0], amount)]


def branches(count: int) -> Model:
    """So many branches, one after the other."""
    b = ModelBuilder()
    main = b.subgraph("main")
    flag, v = main.input("flag", DType.BOOL), main.input("x", DType.FLOAT32, (2, 2))
    ops_ = [ops.If(1 + 2 * k, 2 + 2 * k) for k in range(count)]
    for op in ops_:
        (v,) = main.op(op, flag, v, outputs=[g.declared("y", DType.FLOAT32, (2, 2))])
    main.output(v)
    for k in range(2 * count):
        g.define(b, f"branch_{k}", raised(float(k)), [(DType.FLOAT32, (2, 2))])
    return b.build()


def loop(count: int) -> Model:
    """A loop whose body has so many operators."""
    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        found = v[1]
        for _ in range(count):
            found = s.apply(elementwise.Mul(), s.apply(unary.Tanh(), found), v[1])
        return [g.plus(s, v[0]), found]

    return g.while_model(g.at_most(2), body, [i32(0), X])


def session_of(model: Model) -> tuple[Session, native.NativeBackend]:
    """A session that lists its functions."""
    made: list[native.NativeBackend] = []

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        made.append(native.NativeBackend(executors, native.Options(keep_text=True)))
        return ControlflowBackend(executors), *made

    return Session(model, Engine(backends)), made[0]


def compare(model: Model, arrays: Sequence[Array]) -> native.NativeBackend:
    session, backend = session_of(model)
    wanted = circlet.Session(model, "cpu").invoke(0, arrays)
    for _ in range(2):
        for one, other in zip(session.invoke(0, arrays), wanted, strict=True):
            np.testing.assert_allclose(one, other, 1e-5, 1e-6, strict=True)
    return backend


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_a_span_in_parts_gives_the_same(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_TOGETHER", most)
    model = straight(2)
    backend = compare(model, [X])
    listed = [each.operators for each in backend.listings]
    assert listed[0].start == 0
    assert listed[-1].stop == len(model.subgraphs[0].operators)
    assert [each.stop for each in listed[:-1]] == [each.start for each in listed[1:]]
    assert len(listed) > 1


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_parts_share_variables(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part has the handle, another one reads the variable, a third one what was read."""
    monkeypatch.setattr(budget, "MOST_TOGETHER", most)
    b = ModelBuilder()
    main, whole = b.subgraph("main"), b.subgraph("assign")
    assign(whole, whole.input("x", DType.FLOAT32, X.shape))
    own = handle(main)
    x = main.op(variable.ReadVariable(), own, outputs=[Tensor("value", DType.FLOAT32, X.shape)])[0]
    y = main.apply(matmul.BatchMatMul(), main.constant(X), x)
    y = main.apply(layout.Transpose(), y, main.constant([1, 0]))
    main.op(variable.AssignVariable(), own, y, outputs=[])
    main.output(main.apply(matmul.BatchMatMul(), y, y))
    session, backend = session_of(b.build())
    wanted = circlet.Session(b.build(), "cpu")
    for each in (session, wanted):
        each.invoke(1, [X + 1])
    for _ in range(3):
        np.testing.assert_allclose(session.invoke(0, [])[0], wanted.invoke(0, [])[0], 1e-5, 1e-6)
    assert all("host call" not in line for each in backend.listings for line in each.outline)
    assert len(backend.listings) > 1


@pytest.mark.parametrize("most", [1, 2, 7])
def test_parts_take_any_length(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies between them grows with the lengths, and no frame is made for others."""
    monkeypatch.setattr(budget, "MOST_TOGETHER", most)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = y = main.input("x", DType.FLOAT32, (-1, 4))
    for k in range(8):
        y, = main.op((unary.Tanh, unary.Abs)[k % 2](), y, outputs=[Tensor(f"y{k}", DType.FLOAT32, (1, 4), (-1, 4))])
    y, = main.op(elementwise.Add(), x, y, outputs=[Tensor("sum", DType.FLOAT32, (1, 4), (-1, 4))])
    main.output(y)
    session, backend = session_of(b.build())
    made = len(backend.listings)
    for size in (3, 5, 9, 2, 5, 64):
        array = np.linspace(-2, 2, 4 * size, dtype=np.float32).reshape(size, 4)
        (found,) = session.invoke(0, [array])
        (wanted,) = circlet.Session(b.build(), "cpu").invoke(0, [array])
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
        made = made or len(backend.listings)
        monkeypatch.setattr(native.NativeBackend, "bind_span", pytest.fail)
    assert len(backend.listings) == made > 1


@pytest.mark.parametrize("undivided", [1, 100])
def test_what_computes_lengths_is_one_function(undivided: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a part finds and another takes has a length that no frame knows; where it is too much for one function,
    it is bound for each length."""
    monkeypatch.setattr(budget, "MOST_TOGETHER", 2)
    monkeypatch.setattr(budget, "MOST_UNDIVIDED", undivided)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1,))
    (is_some,) = main.op(comparison.Greater(), x, main.constant(np.float32(0)), outputs=[
        Tensor("is_some", DType.BOOL, (1,), (-1,))])
    (rows,) = main.op(index.Where(), is_some, outputs=[Tensor("rows", DType.INT64, (1, 1), (-1, 1))])
    (y,) = main.op(index.GatherNd(), x, rows, outputs=[Tensor("y", DType.FLOAT32, (1,), (-1,))])
    for k in range(4):
        y, = main.op((unary.Tanh, unary.Abs)[k % 2](), y, outputs=[Tensor(f"y{k}", DType.FLOAT32, (1,), (-1,))])
    main.output(y)
    session, backend = session_of(b.build())
    for size in (3, 5, 9, 2, 5, 64):
        array = np.linspace(-2, 3, size, dtype=np.float32)
        (found,) = session.invoke(0, [array])
        (wanted,) = circlet.Session(b.build(), "cpu").invoke(0, [array])
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    assert (len(backend.listings) == 1) == (undivided == 100)


def test_what_is_invoked_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_TOGETHER", 18)
    backend = compare(branches(5), [np.array(True), X])
    assert [each.operators for each in backend.listings] == [range(2), range(2, 4), range(4, 5)]


def test_a_loop_of_many_operators_has_functions_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_TOGETHER", 8)
    monkeypatch.setattr(controlflow, "MOST_INVOKED", 10)
    backend = compare(loop(10), [i32(0), X])
    assert len([each for each in backend.listings if each.subgraph == 2]) > 1


def test_a_loop_of_a_decoder_is_part_of_the_function() -> None:
    """Two layers of one are some 520 operators."""
    backend = compare(loop(260), [i32(0), X])
    assert [each.subgraph for each in backend.listings] == [0]


@pytest.mark.parametrize(("most", "is_whole"), [(2, True), (1, False)])
def test_branches_of_many_operators_are_part_of_the_function(most: int, is_whole: bool,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """However few a loop may invoke."""
    monkeypatch.setattr(controlflow, "MOST_INVOKED", 1)
    monkeypatch.setattr(controlflow, "MOST_CHOSEN", most)
    backend = compare(branches(1), [np.array(True), X])
    assert [each.subgraph for each in backend.listings][:1] == [0]
    assert (len(backend.listings) == 1) is is_whole


def test_too_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_INSTRUCTIONS", 40)
    backend = compare(straight(2), [X])
    assert backend.listings[0].outline == ("left to numpy: a function of more than 40 instructions",)


def test_a_session_that_has_compiled_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_TOGETHER", 4)
    monkeypatch.setattr(native, "MOST_IN_A_SESSION", 100)
    backend = compare(straight(3), [X])
    made = [each for each in backend.listings if each.module]
    left = [each for each in backend.listings if not each.module]
    assert 0 < len(made) < 3
    assert left[0].outline[0].startswith("left to numpy: the session has compiled ")


def test_functions_beyond_what_a_session_makes(monkeypatch: pytest.MonkeyPatch, folder: object) -> None:
    """What follows is left to numpy, its branches too, however small they are."""
    monkeypatch.setattr(budget, "MOST_TOGETHER", 3)
    monkeypatch.setattr(native, "LEAST", 2)
    monkeypatch.setattr(native, "MOST_UNITS", 7)
    backend = compare(branches(8), [np.array(True), X])
    made = [each.operators for each in backend.listings if each.module]
    left = [each for each in backend.listings if not each.module]
    assert made == [range(1), range(1, 2), range(2, 3)]
    assert {each.subgraph for each in left} > {0}
    assert left[0].outline == ("left to numpy: the session has made 7 object files",)


def test_operators_that_are_alike_count_once(monkeypatch: pytest.MonkeyPatch, folder: object) -> None:
    """Also in functions that follow each other."""
    monkeypatch.setattr(budget, "MOST_TOGETHER", 8)
    monkeypatch.setattr(native, "LEAST", 1)
    monkeypatch.setattr(native, "MOST_UNITS", 30)
    b = ModelBuilder()
    main = b.subgraph("main")
    v = x = main.input("x", DType.FLOAT32, (2, 2))
    for _ in range(40):
        v = main.apply(matmul.BatchMatMul(), v, x)
    main.output(v)
    backend = compare(b.build(), [X])
    assert [bool(each.module) for each in backend.listings] == [True] * 5


def test_other_shapes_are_no_other_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MOST_UNITS", 1)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1,))
    main.output(*main.op(unary.Tanh(), x, outputs=[Tensor("y", DType.FLOAT32, (1,), (-1,))]))
    session, backend = session_of(b.build())
    for size in (1, 2, 3):
        session.invoke(0, [np.zeros(size, np.float32)])
    assert [bool(each.module) for each in backend.listings] == [True], "one for all lengths"


def test_a_name_tells_of_its_span_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming all functions of a subgraph takes time that grows as it does."""
    sizes: list[int] = []

    def digest(*parts: object) -> bytes:
        sizes.append(len(pickle.dumps(parts)))
        return bytes(32)

    monkeypatch.setattr(budget, "MOST_TOGETHER", 8)
    monkeypatch.setattr(fingerprint, "digest", digest)
    monkeypatch.setattr(native, "stored", lambda key: None)
    monkeypatch.setattr(native.NativeBackend, "_grants", lambda *_: False)
    named = []
    for count in (4, 20):
        circlet.Session(straight(count), backend="native").run({"x": X})
        named.append((len(sizes), max(sizes)))
        sizes.clear()
    (few, large), (many, larger) = named
    assert many > 3 * few
    assert larger < 1.3 * large
