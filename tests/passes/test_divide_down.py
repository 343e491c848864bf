"""What JAX and OpenVINO write for quotients that are rounded down is FLOOR_DIV; what only looks like it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ops.comparison import Less, LogicalAnd, NotEqual, Select, SelectV2
from circlet.runtime.ops.elementwise import Add, Div, FloorMod, StablehloRemainder, Sub
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


def added_down(apply: Callable[..., T], a: T, b: T, less: T, zero: T, *, is_less: tuple[T, T], turned: bool = False
               ) -> T:
    """What OpenVINO's reader of TensorFlow writes: a quotient, to which something is added. `is_less` is what a is
    compared with, and what comes of that for b."""
    edge, sign = is_less
    differs = apply(NotEqual(), apply(Less(), a, edge), sign)
    rest = apply(NotEqual(), apply(StablehloRemainder(), a, b), zero)
    pair = apply(Div(), a, b), apply(SelectV2(), apply(LogicalAnd(), rest, differs), less, zero)
    return apply(Add(), *(pair[::-1] if turned else pair))


def corrected(divisor: int, *, turned: bool = False, less: int = -1, edge: int = 0, is_negative: bool | None = None,
              dtype: type[np.signedinteger] = np.int32) -> circlet.Model:
    """Of a number, whose quotient is by a constant."""
    b = ModelBuilder()
    main = b.subgraph("main")
    by, one, zero, bound = (main.constant(dtype(each)) for each in (divisor, less, 0, edge))
    sign = main.constant(np.bool_(divisor < 0 if is_negative is None else is_negative))
    main.output(added_down(main.apply, main.input("x", dtype, ()), by, one, zero, is_less=(bound, sign), turned=turned))
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


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("divisor", [2, -2, 3, -3, 1, 2**31 - 1])
def test_corrected(divisor: int, turned: bool, backend: str) -> None:
    found = corrected(divisor, turned=turned)
    assert names(divide_down(found))[-1] == "FLOOR_DIV"
    session = circlet.Session(found, backend)
    values = [session.invoke(0, [each])[0] for each in X]
    np.testing.assert_array_equal(values, X.astype(np.int64) // divisor)


@pytest.mark.parametrize("kept", [model(2, one=2), model(2, zero=1), model(2, sign=-1), model(-2, sign=1),
                                  model(2, dtype=np.int64), corrected(2, less=1),
                                  corrected(2, edge=1), corrected(2, is_negative=True), corrected(2, dtype=np.int64)],
                         ids=["less", "rest", "sign", "negative", "int64", "more", "bound", "negated", "long"])
def test_kept(kept: circlet.Model) -> None:
    assert divide_down(kept) is kept
