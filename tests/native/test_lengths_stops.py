"""Code for any lengths stops when it is told to, however great these are; what cannot be such code is listed."""

from __future__ import annotations

import time
from importlib import import_module

import numpy as np
import pytest

import circlet
from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native.backend import NativeBackend, Options
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules import rule
from circlet.backends.native.rules.refusals import movable
from circlet.runtime.exec import executor_map
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.length import Indefinite, is_open
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.ops import normalize, reduce
from circlet.runtime.ops.unary import Neg, Tanh
from tests.exec.test_limits import SLACK
from tests.native.test_lengths_operators import Write, model, one

LONG: dict[str, tuple[Write, Shape, Shape]] = {
    "one loop": (one(Tanh()), (-1,), (60_000_000,)),
    "two axes": (one(Tanh()), (-1, -1), (3_000_000, 24)),
    "long rows": (one(normalize.Softmax(1.0)), (-1, -1), (2, 20_000_000)),
    "rows": (one(normalize.LogSoftmax()), (-1, -1), (3_000_000, 24)),
    "columns": (one(reduce.Cumsum(), 0), (-1, -1), (12, 5_000_000)),
}
"""An operator, the shape that its input declares, and one that takes longer than the test waits."""


def session_of(name: str, deadline: float) -> tuple[circlet.Session, Array]:
    """A session that has run its code at small lengths, and a large input."""
    write, declared, shape = LONG[name]
    made = model(write, declared)
    found = circlet.Session(made, backend="native")
    small = np.zeros([min(size, 30) for size in shape], np.float32)
    found.invoke(0, [small])
    limited = circlet.Session(made, backend="native", limits=circlet.Limits(deadline=deadline))
    limited.invoke(0, [small])
    return limited, np.zeros(shape, np.float32)


@pytest.mark.parametrize("name", LONG)
def test_a_deadline_ends_the_operator(name: str, folder: object) -> None:
    limited, x = session_of(name, 0.05)
    start = time.monotonic()
    with pytest.raises(circlet.LimitError, match=r"operator 0 \(.*\): the run went over its deadline of 0.05 s"):
        limited.invoke(0, [x])
    assert time.monotonic() - start < SLACK


def test_why_code_is_for_one_length_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_where_open(node: rule.Node[Op]) -> tuple[Value]:
        if is_open(node.shape):
            raise KeyError("odd")
        return (node.input(0),)

    import_module("circlet.backends.native.rules.real.unary")
    op: type[Op] = Neg
    monkeypatch.setitem(rule.RULES, op, (rule.Rule(movable, fused=fails_where_open),))
    made: list[NativeBackend] = []

    def backends(executors: ExecutorMap) -> tuple[Backend, ...]:
        made.append(NativeBackend(executors, Options(keep_text=True)))
        return ControlflowBackend(executors), *made

    with pytest.warns(RuntimeWarning, match=r"^compiled for one length at a time: .*\(NEG\): its code could"):
        Session(model(one(Neg()), (-1,)), Engine(backends)).invoke(0, [np.ones(5, np.float32)])
    first, second = made[0].listings
    assert first.outline[0].startswith("compiled for one length at a time: subgraph 0 ('main'), operator 0 (NEG): ")
    assert first.outline[0].endswith("(KeyError: 'odd')")
    assert second.module


def test_without_a_bound_each_length_has_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(*_: object) -> object:
        raise Indefinite("no bound")

    monkeypatch.setattr(executor_map, "open_layout", unbounded)
    session, given = circlet.Session(model(one(Tanh()), (-1,)), backend="native"), np.arange(9, dtype=np.float32)
    np.testing.assert_allclose(session.invoke(0, [given])[0], np.tanh(given), rtol=1e-6)
