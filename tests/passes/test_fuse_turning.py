"""Transpositions that exchange the innermost axis join what moves elements, not what computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.unary import Tanh
from circlet.session import engine
from tests.needs import NATIVE

pytestmark = NATIVE
Formula = Callable[[SubgraphBuilder, Value], Value]


def turned(m: SubgraphBuilder, x: Value, *order: int) -> Value:
    return m.apply(Transpose(), x, m.constant(np.array(order, np.int32)))


def scaled(m: SubgraphBuilder, x: Value) -> Value:
    return m.apply(Mul(), x, m.constant(np.float32(0.5)))


def reshaped(m: SubgraphBuilder, x: Value, *shape: int) -> Value:
    return m.apply(Reshape(), x, m.constant(np.array(shape, np.int32)))


CASES: Mapping[str, tuple[Formula, Sequence[str]]] = {
    "then-computes": (lambda m, x: m.apply(Tanh(), scaled(m, turned(m, x, 0, 2, 1))), ["TRANSPOSE", "MUL+TANH"]),
    "computes-before": (lambda m, x: turned(m, m.apply(Tanh(), scaled(m, x)), 0, 2, 1), ["MUL+TANH", "TRANSPOSE"]),
    "moves-alone": (lambda m, x: turned(m, reshaped(m, turned(m, x, 0, 2, 1), 2, 2, 2, 3), 0, 1, 3, 2),
                    ["TRANSPOSE+RESHAPE+TRANSPOSE"]),
    "innermost-stays": (lambda m, x: scaled(m, turned(m, x, 1, 0, 2)), ["TRANSPOSE+MUL"]),
    "cancels": (lambda m, x: turned(m, scaled(m, turned(m, x, 0, 2, 1)), 0, 2, 1), ["TRANSPOSE+MUL+TRANSPOSE"]),
    "one-element": (lambda m, x: scaled(m, turned(m, reshaped(m, x, 4, 6, 1), 0, 2, 1)), ["RESHAPE+TRANSPOSE+MUL"]),
}


@pytest.mark.parametrize("name", CASES)
def test_groups(name: str) -> None:
    formula, expected = CASES[name]
    builder = ModelBuilder()
    main = builder.subgraph("main")
    main.output(formula(main, main.input("x", DType.FLOAT32, (2, 3, 4))))
    model = builder.build()
    operators = engine("native").pipeline().run(model).subgraphs[0].operators
    labels = [getattr(each.op, "label", each.name) for each in operators if each.name != "SKIP"]
    assert labels == expected
    given = [np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 24]
    found, plain = (circlet.Session(model, backend).invoke(0, given)[0] for backend in ("native", "cpu"))
    np.testing.assert_allclose(found, plain, rtol=1e-6)
