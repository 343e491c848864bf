"""Why the host computes an operator, as outlines tell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native.backend import NativeBackend, Options
from circlet.backends.native.lower import controlflow
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops.comparison import Equal, LogicalAnd
from circlet.runtime.ops.elementwise import Pow
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import ReverseV2
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.quantize import Quantize
from circlet.runtime.ops.random import RandomUniform
from circlet.runtime.ops.reduce import ReduceAll
from circlet.runtime.ops.shape import Bitcast
from circlet.runtime.ops.unary import Tanh
from tests.exec import graphs as g

Define: TypeAlias = Callable[[SubgraphBuilder], Sequence[Value]]

FLOAT, INT8, UINT8 = DType.FLOAT32, DType.INT8, DType.UINT8
STEPS = Quantization((0.5,), (0,))


def outline(model: Model) -> list[str]:
    """What functions for zeros as inputs do, a line each; none is compiled."""
    made: list[NativeBackend] = []

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        made.append(NativeBackend(executors, Options(keep_text=True, compiles=False)))
        return (ControlflowBackend(executors), *made)

    main = model.subgraphs[0]
    inputs = [main.tensors[each] for each in main.inputs]
    Session(model, Engine(backends)).bind(0, [np.zeros(each.shape, each.dtype.numpy) for each in inputs])
    return [line for each in made[0].listings for line in each.outline]


def random_numbers(s: SubgraphBuilder) -> Sequence[Value]:
    return [s.apply(RandomUniform(), s.constant(np.array([2, 3], np.int32)))]


def to_complex(s: SubgraphBuilder) -> Sequence[Value]:
    return s.op(Bitcast(), s.input("x", FLOAT, (2, 4)), outputs=[Tensor("", DType.COMPLEX128, (2,))])


def reverse_along_an_input(s: SubgraphBuilder) -> Sequence[Value]:
    return [s.apply(ReverseV2(), s.input("x", FLOAT, (2, 3)), s.input("axes", DType.INT32, (1,)))]


def double_tangent(s: SubgraphBuilder) -> Sequence[Value]:
    return [s.apply(Tanh(), s.input("x", DType.FLOAT64, (2, 3)))]


def live_weights(s: SubgraphBuilder) -> Sequence[Value]:
    x, weights = (s.input(name, UINT8, (2, 3), STEPS) for name in ("x", "weights"))
    return s.op(FullyConnected(), x, weights, None, outputs=[Tensor("", UINT8, (2, 2), quantization=STEPS)])


@pytest.mark.parametrize(("define", "reason"), [
    (random_numbers, "no native rule"),
    (to_complex, "element type complex128 of output 0, which no register holds"),
    (reverse_along_an_input, "input 1 is known only when it runs"),
    (double_tangent, "table, look up: input 0 is not quantised; "
                         "plain: element type float64 of input 0 (supported: float16, float32)"),
    (live_weights, "int8: element type uint8 of input 0 (supported: int8); integer: input 1 is not constant; "
                   "hybrid: element type uint8 of input 0 (supported: float32); plain: input 0 is quantised; "
                   "loops: element type uint8 of input 0 (supported: int16, int8)"),
])
def test_the_outline_says_why_the_host_is_called(define: Define, reason: str) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(*define(main))
    (line,) = outline(b.build())
    assert line.endswith(f"  (host call: {reason})")


def test_powers_of_doubles_need_no_host() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = (main.input(name, DType.FLOAT64, (2, 3)) for name in "xy")
    main.output(*(main.apply(Pow(), x, each) for each in (y, *(main.constant(np.array(k)) for k in (2.0, 3.0)))))
    assert not any("host call" in line for line in outline(b.build()))


def test_a_span_that_is_left_to_numpy_as_a_whole() -> None:
    """No code is made even where nothing is compiled, and the listing of the span says why."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", INT8, (2, 3), STEPS)
    main.output(*main.op(Quantize(), x, outputs=[Tensor("", INT8, (2, 3), quantization=Quantization((0.0,), (0,)))]))
    assert outline(b.build()) == [
        "left to numpy: subgraph 0 ('main'), operator 0 (QUANTIZE): the scales need to be multiplied by [inf]: "
        "expected finite numbers"]


def test_loops_that_the_host_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = g.while_model(g.below(3), g.counter, [g.i32(0)])
    assert not any("host call" in line for line in outline(model))
    monkeypatch.setattr(controlflow, "MOST_INVOKED", 1)
    assert "  (host call: it invokes 2 operators (supported: up to 1))" in outline(model)[0]


def test_reasons_within_what_is_invoked() -> None:
    """A loop whose condition has strings."""
    def cond(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        texts = s.constant(np.array([b"a"] * 3, object), DType.STRING)
        is_same = s.apply(Equal(), s.apply(Gather(), texts, v[0]), texts)
        return [s.apply(LogicalAnd(), *g.below(3)(s, v), s.apply(ReduceAll(), is_same, s.constant(0)))]

    (line,) = outline(g.while_model(cond, g.counter, [g.i32(0)]))
    assert line.endswith("  (host call: subgraph 1 has strings)")
