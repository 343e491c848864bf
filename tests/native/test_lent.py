"""Which values of variables are read where they lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlet
from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.lower.lent import lent
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import Slice
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.passes.pipelines import INTERPRETED
from tests.exec import graphs as g
from tests.exec.test_updates import assign, read
from tests.needs import NATIVE

pytestmark = NATIVE
SHAPE = (64, 16)
Write = Callable[[ModelBuilder, SubgraphBuilder], Value]


def row(s: SubgraphBuilder, x: Value) -> Value:
    return s.apply(Slice(), x, s.constant([1, 0]), s.constant([1, SHAPE[1]]))


def updated(s: SubgraphBuilder, x: Value) -> Value:
    return s.apply(DynamicUpdateSlice(), x, s.constant(np.ones((1, SHAPE[1]), np.float32)), s.constant([2, 0]))


def a_row(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    return row(s, read(s, SHAPE))


def a_row_before_an_update(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    x = read(s, SHAPE)
    found = row(s, x)
    assign(s, updated(s, x))
    return found


def a_row_of_what_is_updated(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    x = updated(s, read(s, SHAPE))
    assign(s, x)
    return row(s, x)


def a_row_after_an_assignment(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    x = read(s, SHAPE)
    assign(s, g.plus(s, x, 1.0))
    return row(s, x)


def a_row_after_a_call(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    x, callee = read(s, SHAPE), b.subgraph("callee")
    assign(callee, callee.constant(np.zeros(SHAPE, np.float32)))
    s.op(CallSubgraph(callee.index), outputs=[])
    return row(s, x)


def a_product_of_a_view(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    assign(s, g.plus(s, read(s, SHAPE), 1.0))
    turned = s.apply(Reshape(), read(s, SHAPE), s.constant(SHAPE[::-1]))
    return s.apply(BatchMatMul(), s.constant(np.ones((1, SHAPE[1]), np.float32)), turned)


def the_whole(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    return read(s, SHAPE)


def what_is_overwritten(b: ModelBuilder, s: SubgraphBuilder) -> Value:
    return row(s, updated(s, read(s, SHAPE)))


CASES: dict[Write, int] = {
    a_row: 1, a_row_before_an_update: 1, a_row_of_what_is_updated: 1, a_row_after_an_assignment: 0,
    a_row_after_a_call: 0, a_product_of_a_view: 2, the_whole: 0, what_is_overwritten: 0}


@pytest.mark.parametrize("write", CASES, ids=lambda write: write.__name__)
def test_values_stay_until_what_may_write_to_them(write: Write) -> None:
    b = ModelBuilder()
    main, whole = b.subgraph("main"), b.subgraph("assign")
    main.output(write(b, main))
    assign(whole, whole.input("x", DType.FLOAT32, SHAPE))
    model = b.build()
    executors = ExecutorMap(INTERPRETED.run(model), lambda owner: (ControlflowBackend(owner), CpuBackend()), elide=True)
    spec = executors.specializer.at(0, ())
    span = range(len(spec.subgraph.operators))
    assert len(lent(executors.model, spec, span, executors.planner.aliases(spec, span))) == CASES[write]
    native, cpu = (circlet.Session(model, backend) for backend in ("native", "cpu"))
    x = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)
    for session in (native, cpu):
        session.invoke(1, [x])
    for _ in range(2):
        g.assert_equal(native.invoke(0, []), cpu.invoke(0, []))
