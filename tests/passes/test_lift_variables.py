"""Variables that are left where they are, since more than one subgraph, or another order, has to do with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallOnce, CallSubgraph, lifted_variables
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.random import RandomUniform
from circlet.runtime.passes.transforms.lift_variables import lift_variables
from tests.exec.kept import ROWS, append, appending, assign, computed_first, read, set_once
from tests.needs import NATIVE

I32 = DType.INT32
Body = Callable[[ModelBuilder, SubgraphBuilder, Value], Value]
NONE = np.zeros((1, 0, 2), np.int32)


def read_again(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    """After it was assigned."""
    set_once(b, s, "rows", NONE)
    assign(s, "rows", append(s, read(s, "rows"), x))
    return read(s, "rows")


def assigned_twice(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    set_once(b, s, "rows", NONE)
    kept = read(s, "rows")
    assign(s, "rows", append(s, kept, x))
    assign(s, "rows", append(s, x, kept))
    return kept


def read_elsewhere(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    """By a subgraph that this one invokes."""
    set_once(b, s, "rows", NONE)
    found = append(s, read(s, "rows"), x)
    other = b.subgraph("other")
    other.output(append(other, other.input("x", I32, ROWS), read(other, "rows")))
    found = s.op(CallSubgraph(other.index), found, outputs=[Tensor("y", I32, (1, 1, 2), ROWS)])[0]
    assign(s, "rows", found)
    return found


def not_set(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    """Another entry point has to assign it first."""
    found = append(s, read(s, "rows"), x)
    assign(s, "rows", found)
    return found


def set_by_chance(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    init = b.subgraph("init")
    drawn = init.op(RandomUniform(1, 1), init.constant([1, 2, 2]), outputs=[Tensor("r", DType.FLOAT32, (1, 2, 2))])[0]
    assign(init, "rows", drawn)
    s.op(CallOnce(init.index), outputs=[])
    shape = Tensor("z", DType.FLOAT32, (1, 1, 2), ROWS)
    found = s.op(Add(), read(s, "rows", DType.FLOAT32), s.constant(np.float32(1)), outputs=[shape])[0]
    assign(s, "rows", found)
    return found


def of_one_shape(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    """Memory at one place holds it."""
    set_once(b, s, "rows", np.ones((1, 1, 2), np.int32))
    found = s.op(Add(), read(s, "rows", shape=(1, 1, 2)), s.constant(np.int32(1)),
                 outputs=[Tensor("y", I32, (1, 1, 2))])[0]
    assign(s, "rows", found)
    return found


def first_of_another(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    """The first value hangs on what another variable holds."""
    set_once(b, s, "other", NONE)
    found = append(s, computed_first(b, s, append(s, read(s, "other"), x), "rows"), x)
    assign(s, "rows", found)
    assign(s, "rows/flag", s.constant(np.array(True)))
    return found


def flag_is_left(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    """A variable that has a value, though nothing says so."""
    found = append(s, computed_first(b, s, x, "rows"), x)
    assign(s, "rows", found)
    return found


def flag_becomes_false(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    found = flag_is_left(b, s, x)
    assign(s, "rows/flag", s.constant(np.array(False)))
    return found


def flag_begins_true(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
    """A variable that is said to have a value in the first run."""
    found = append(s, computed_first(b, s, x, "rows", is_flagged=True), x)
    assign(s, "rows", found)
    assign(s, "rows/flag", s.constant(np.array(True)))
    return found


LEFT = (read_again, assigned_twice, read_elsewhere, not_set, set_by_chance, of_one_shape, first_of_another,
        flag_is_left, flag_becomes_false, flag_begins_true)


def model(body: Body) -> Model:
    b = ModelBuilder()
    s = b.subgraph("main")
    s.output(body(b, s, s.input("x", I32, ROWS)))
    return b.build()


@pytest.mark.parametrize("body", LEFT, ids=lambda body: body.__name__)
def test_what_is_left(body: Body) -> None:
    made = model(body)
    assert lift_variables(made) is made


@pytest.mark.parametrize("body", [each for each in LEFT if each not in (not_set, flag_begins_true)],
                         ids=lambda body: body.__name__)
@NATIVE
def test_what_is_left_computes(body: Body) -> None:
    sessions = [circlet.Session(model(body), backend) for backend in ("cpu", "native")]
    for count in (1, 2, 1):
        given = np.arange(2 * count, dtype=np.int32).reshape(1, count, 2)
        (one,), (other,) = (each.run([given]).values() for each in sessions)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("is_computed", [False, True])
def test_operators_keep_their_places(is_computed: bool) -> None:
    made = appending(is_computed)
    lifted = lift_variables(made)
    op = lifted_variables(lifted.subgraphs[0])
    assert op is not None
    assert (op.read, op.assigned) == ((("", "rows"),), (("", "rows"),))
    before, after = made.subgraphs[0].operators, lifted.subgraphs[op.subgraph].operators
    assert len(before) == len(after)
    assert {each.name for each in after} - {"SKIP"} == {"CONCATENATION", "SUM"}
    assert all(new is old for new, old in zip(after, before, strict=True) if new.name != "SKIP")
    assert lift_variables(lifted) is lifted


@NATIVE
@pytest.mark.parametrize("is_computed", [False, True])
def test_what_is_never_assigned_is_lifted(is_computed: bool) -> None:
    """It has its first value in each run."""
    def body(b: ModelBuilder, s: SubgraphBuilder, x: Value) -> Value:
        if is_computed:
            return append(s, computed_first(b, s, x, "rows"), x)
        set_once(b, s, "rows", np.ones((1, 2, 2), np.int32))
        return append(s, read(s, "rows"), x)

    made = model(body)
    op = lifted_variables(lift_variables(made).subgraphs[0])
    assert op is not None
    assert op.flags == ()
    sessions = [circlet.Session(made, backend) for backend in ("cpu", "native")]
    for listener in (None, None, circlet.ValueRecorder(), None):
        for count in (1, 2):
            given = np.arange(2 * count, dtype=np.int32).reshape(1, count, 2)
            (one,), (other,) = (each.run([given], listener=listener).values() for each in sessions)
            np.testing.assert_array_equal(one, other)
