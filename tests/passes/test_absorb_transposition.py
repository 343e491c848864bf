"""Products read a factor where it lies if the model exchanges its rows and columns; other transpositions stay."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.layout import Concatenation, StridedSlice, Transpose
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.shape import Reshape, ShapeOf
from circlet.runtime.passes.transforms.absorb_transposition import absorb_transposition
from tests.native.against_cpu import values
from tests.needs import NATIVE

Shape = tuple[int, ...]
ADJACENT: Mapping[str, tuple[Shape, Shape, Shape, bool]] = {
    "matrices": ((1, 0), (2, 5), (7, 5), False),
    "of a batch": ((0, 2, 1), (3, 2, 5), (3, 7, 5), False),
    "of heads": ((0, 1, 3, 2), (2, 3, 20, 5), (2, 3, 7, 5), False),
    "counted from the end": ((0, -1, -2), (3, 2, 5), (3, 7, 5), False),
    "twice": ((0, 2, 1), (3, 2, 5), (3, 5, 7), True),
    "one for all": ((1, 0), (3, 2, 5), (7, 5), False),
}
"""The permutation, the shapes of both factors as they lie, and `adj_y`."""


def model(permutation: Shape, left: Shape, right: Shape, adj_y: bool, dtype: DType = DType.FLOAT32,
          is_squared: bool = False) -> circlet.Model:
    """A product, and the squares of what is transposed if it is read by them too."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = main.input("x", dtype, left), main.input("y", dtype, right)
    turned = main.apply(Transpose(), y, main.constant(np.array(permutation, np.int32)))
    product = main.apply(BatchMatMul(adj_y=adj_y), x, turned)
    main.output(*([product, main.apply(Mul(), turned, turned)] if is_squared else [product]))
    return b.build()


def names(found: circlet.Model) -> list[str]:
    return [each.name for each in found.subgraphs[0].operators]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("case", ADJACENT.values(), ids=ADJACENT)
def test_absorbed(case: tuple[Shape, Shape, Shape, bool], backend: str) -> None:
    _, left, right, adj_y = case
    changed = absorb_transposition(model(*case))
    assert names(changed) == ["SKIP", "BATCH_MATMUL"]
    assert changed.subgraphs[0].operators[1].op == BatchMatMul(adj_y=not adj_y)
    given = [values(each, np.float32, number) for number, each in enumerate((left, right))]
    expected = given[0] @ (given[1] if adj_y else np.swapaxes(given[1], -1, -2))
    np.testing.assert_allclose(circlet.Session(changed, backend).invoke(0, given)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_what_others_read_stays(backend: str) -> None:
    changed = absorb_transposition(model((0, 2, 1), (3, 2, 5), (3, 7, 5), False, is_squared=True))
    assert names(changed) == ["TRANSPOSE", "BATCH_MATMUL", "MUL"]
    assert changed.subgraphs[0].operators[1].inputs == (0, 1)
    given = [values(each, np.float32, number) for number, each in enumerate(((3, 2, 5), (3, 7, 5)))]
    product, square = circlet.Session(changed, backend).invoke(0, given)
    turned = np.swapaxes(given[1], -1, -2)
    np.testing.assert_allclose(product, given[0] @ turned, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(square, turned * turned)


@pytest.mark.parametrize("plain", [
    pytest.param(model((1, 2, 0), (7, 2, 5), (5, 7, 3), True), id="another permutation"),
    pytest.param(model((1, 0, 2), (7, 2, 5), (5, 7, 3), False), id="other axes"),
    pytest.param(model((0, 2, 1), (3, 2, 5), (3, 7, 5), False, DType.FLOAT64), id="another type"),
])
def test_kept(plain: circlet.Model) -> None:
    assert absorb_transposition(plain) is plain


def test_constants_are_kept() -> None:
    """They are transposed when the model is loaded."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = main.input("x", DType.FLOAT32, (2, 5)), main.constant(values((7, 5), np.float32, 1))
    turned = main.apply(Transpose(), y, main.constant(np.array([1, 0], np.int32)))
    main.output(main.apply(BatchMatMul(), x, turned))
    plain = b.build()
    assert absorb_transposition(plain) is plain


def test_a_left_factor_is_kept() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = main.input("x", DType.FLOAT32, (5, 2)), main.input("y", DType.FLOAT32, (5, 7))
    turned = main.apply(Transpose(), x, main.constant(np.array([1, 0], np.int32)))
    main.output(main.apply(BatchMatMul(), turned, y))
    plain = b.build()
    assert absorb_transposition(plain) is plain


def by_three_axes(number: float | None, is_exchanged: bool = True, is_read_twice: bool = False) -> circlet.Model:
    """A product by (b, 3, n, 5), exchanged as (3 b, n, 5), maybe times a number: what PyTorch writes before attention.
    If it is not exchanged, it becomes (b, 3, n, 5) again, of other elements."""
    b = ModelBuilder()
    main = b.subgraph("main")

    def numbers(op: Op, *inputs: Value) -> Value:
        return main.op(op, *inputs, outputs=[Tensor("", DType.INT64, (1,), (-1,))])[0]

    def part(begin: int, end: int) -> Value:
        return numbers(StridedSlice(), size, *(main.constant(np.array([each])) for each in (begin, end, 1)))

    def shaped(value: Value, *parts: Value) -> Value:
        return main.apply(Reshape(), value, numbers(Concatenation(0), *parts))

    x, y = (main.input(name, DType.FLOAT32, (-1, 3, -1, 5)) for name in "xy")
    size = numbers(ShapeOf(DType.INT64), y)
    outer, rows, columns = part(0, -2), part(-2, -1), main.constant(np.array([5]))
    flat = main.apply(Transpose(), shaped(y, main.constant(np.array([-1])), rows, columns),
                      main.constant(np.array([0, 2, 1], np.int32)))
    back = shaped(flat, outer, *((columns, rows) if is_exchanged else (rows, columns)))
    if number is not None:
        back = main.apply(Mul(), main.constant(np.array(number, np.float32)), back)
    product = main.apply(BatchMatMul(adj_y=not is_exchanged), x, back)
    main.output(*([product, back] if is_read_twice else [product]))
    return b.build()


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("number", [None, 0.3])
def test_absorbed_by_way_of_three_axes(number: float | None, backend: str) -> None:
    changed = absorb_transposition(by_three_axes(number))
    assert {*names(changed)} - {"SKIP"} == {"BATCH_MATMUL", *(["MUL"] if number else [])}
    session = circlet.Session(changed, backend)
    for n in (7, 1, 20):
        given = [values((2, 3, rows, 5), np.float32, rows) for rows in (4, n)]
        expected = given[0] @ np.swapaxes(np.float32(number or 1) * given[1], -1, -2)
        np.testing.assert_allclose(session.invoke(0, given)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("plain", [
    pytest.param(by_three_axes(None, is_exchanged=False), id="other elements"),
    pytest.param(by_three_axes(0.3, is_read_twice=True), id="read by others"),
])
def test_kept_by_way_of_three_axes(plain: circlet.Model) -> None:
    assert absorb_transposition(plain) is plain
