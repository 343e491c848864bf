"""What JAX writes for quotients that are rounded down becomes FLOOR_DIV; what only looks like it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ops.comparison import LogicalAnd, NotEqual, Select, SelectV2
from circlet.runtime.ops.elementwise import Div, FloorMod, Sub
from circlet.runtime.ops.unary import Sign
from circlet.runtime.passes.transforms.divide_down import divide_down

T = TypeVar("T")
X = np.array([-(2**31), -7, -6, -5, -1, 0, 1, 5, 6, 7, 2**31 - 1], np.int32)


class Written:
    """What is written, of which parts may be otherwise."""

    def __init__(self, choose: Op | None = None, turned: bool = False) -> None:
        self.choose, self.turned = choose or SelectV2(), turned

    def __call__(self, apply: Callable[..., T], a: T, b: T, one: T, zero: T, sign: T | None = None) -> T:
        quotient = apply(Div(), a, b)
        pair = [apply(NotEqual(), apply(Sign(), a), one if sign is None else sign),
                apply(NotEqual(), apply(FloorMod(), a, b), zero)]
        both = apply(LogicalAnd(), *(pair[::-1] if self.turned else pair))
        return apply(self.choose, both, apply(Sub(), quotient, one), quotient)


divided_down = Written()


def model(divisor: int, written: Written = divided_down, one: int = 1, zero: int = 0, sign: int | None = None,
          dtype: type[np.signedinteger] = np.int32) -> circlet.Model:
    """Of a vector, whose quotients are by a constant."""
    b = ModelBuilder()
    main = b.subgraph("main")
    numbers = [main.constant(dtype(each)) for each in (divisor, one, zero, np.sign(divisor) if sign is None else sign)]
    main.output(written(main.apply, main.input("x", dtype, X.shape), *numbers))
    return b.build()


def names(found: circlet.Model) -> list[str]:
    return [each.name for each in found.subgraphs[0].operators]


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("written", [divided_down, Written(Select()), Written(turned=True)],
                         ids=["v2", "v1", "turned"])
@pytest.mark.parametrize("divisor", [2, -2, 3, -3, 1, 2**31 - 1])
def test_divided(divisor: int, written: Written, backend: str) -> None:
    found = model(divisor, written)
    assert names(divide_down(found))[-1] == "FLOOR_DIV"
    values = circlet.Session(found, backend).invoke(0, [X])[0]
    np.testing.assert_array_equal(values, X.astype(np.int64) // divisor)


@pytest.mark.parametrize("kept", [model(2, one=2), model(2, zero=1), model(2, sign=-1), model(-2, sign=1),
                                  model(2, dtype=np.int64)], ids=["less", "rest", "sign", "negative", "int64"])
def test_kept(kept: circlet.Model) -> None:
    assert divide_down(kept) is kept
