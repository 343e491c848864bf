"""Native code around operators that numpy computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.shape import Bitcast
from tests.exec import graphs as g
from tests.native.against_cpu import agree

C128 = DType.COMPLEX128
"""A type that no register holds."""


def cast(s: SubgraphBuilder, x: Value, dtype: DType, shape: Sequence[int]) -> Value:
    """Four numbers as the bits of one of another type, and back."""
    (found,) = s.op(Bitcast(), x, outputs=[Tensor("", dtype, (*shape, 4) if dtype is DType.FLOAT32 else tuple(shape))])
    return found


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2,), (0,)])
def test_values_that_no_register_holds(shape: tuple[int, ...]) -> None:
    def formula(s: SubgraphBuilder, x: Value, y: Value) -> Sequence[Value]:
        parts = [cast(s, each, C128, shape) for each in (s.apply(Add(), x, y), x)]
        return [s.apply(Add(), *(cast(s, each, DType.FLOAT32, shape) for each in parts)), parts[1]]

    agree(formula, *(np.full((*shape, 4), each, np.float32) for each in (1.5, -4.0)))


@pytest.mark.parametrize("elide", g.ELISION)
def test_loops_that_carry_them(elide: bool) -> None:
    """`while i < 3: i, a, b = i + 1, b, a + b`, with four numbers as a complex one."""
    kinds = [(DType.INT32, ()), (C128, (1,)), (C128, (1,))]

    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        total = s.apply(Add(), *(cast(s, each, DType.FLOAT32, (1,)) for each in v[1:]))
        return [g.plus(s, v[0]), v[2], cast(s, total, C128, (1,))]

    b = ModelBuilder()
    main = b.subgraph("main")
    loop = While(g.define(b, "cond", g.below(3), kinds), g.define(b, "body", body, kinds))
    x = main.input("x", DType.FLOAT32, (1, 4))
    carried = [cast(main, x, C128, (1,)), cast(main, g.plus(main, x, 1.0), C128, (1,))]
    results = main.op(loop, main.constant(0), *carried, outputs=[Tensor("", *each) for each in kinds])
    main.output(*(cast(main, each, DType.FLOAT32, (1,)) for each in results[1:]))
    model, given = b.build(), [np.full((1, 4), 2.0, np.float32)]
    for backend in ("cpu", "native"):
        session = circlet.Session(model, backend, copy_elision=elide)
        for _ in range(2):
            found: list[Array] = session.invoke(0, given)
            g.assert_equal(found, [np.full((1, 4), each, np.float32) for each in (8.0, 13.0)])
