"""Native operators about shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.layout import Pack, StridedSlice, Transpose
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.shape import Bitcast, OneHot, Reshape, ShapeOf, StablehloReshape
from circlet.runtime.ops.unary import Neg
from tests.native.against_cpu import agree, values
from tests.native.native_cases import native_test
from tests.ops.test_shape import BROADCAST, DECLARED, FILL, ONE_HOT, RANGE, RESHAPE, VALUES
from tests.ops.test_shape import VIEWS as RANKS

test_shape = native_test([*RESHAPE, *RANKS, *VALUES, *FILL, *RANGE, *ONE_HOT, *BROADCAST, *DECLARED])


def to(g: SubgraphBuilder, x: Value, *shape: int) -> Value:
    return g.apply(Reshape(), x, g.constant(np.array(shape, np.int32)))


def test_a_product_may_end_in_another_shape() -> None:
    def formula(g: SubgraphBuilder, x: Value, weights: Value, bias: Value, residual: Value) -> Sequence[Value]:
        product = to(g, g.apply(FullyConnected(), x, weights, None), 2, 3, 5)
        biased = g.apply(Add(Activation.RELU), product, bias)
        plain = g.apply(FullyConnected(), x, weights, None)
        return [to(g, g.apply(Add(), residual, to(g, biased, 3, 10)), 30), to(g, plain, 2, 15)]

    agree(formula, *(values(shape, np.float32, 1) for shape in ((6, 4), (5, 4), (3, 1), (3, 10))))


def test_what_views_show_is_computed_for_them() -> None:
    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        square = to(g, g.apply(Mul(), x, x), 3, 4, 2)
        turned = to(g, g.apply(Transpose(), square, g.constant([2, 0, 1])), 6, 4)
        return [turned, g.apply(Add(), to(g, turned, 24), g.constant(1))]

    agree(formula, values((4, 6), np.int32, 1))


@pytest.mark.parametrize(("dtype", "shape"), [(DType.INT32, (2, 3)), (DType.UINT8, (2, 3, 4)), (DType.INT64, (3,))])
def test_bits_of_a_computed_value(dtype: DType, shape: tuple[int, ...]) -> None:
    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        (bits,) = g.op(Bitcast(), g.apply(Mul(), x, x), outputs=[Tensor("bits", dtype, shape)])
        return [bits]

    agree(formula, values((2, 3), np.float32, 1))


def test_one_hot_of_computed_indices() -> None:
    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        depth, on, off = g.constant(5), g.constant(2.0), g.constant(-1.0)
        return [g.apply(OneHot(axis), g.apply(Add(), x, g.constant(1)), depth, on, off) for axis in (0, 1, -1)]

    agree(formula, np.array([[0, 3, -2], [4, 1, 2]], np.int32))


def test_shapes_made_from_shapes_are_known_when_code_is_made() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", np.float32, (-1, 4))
    doubled = main.apply(Add(), x, x)
    one = [main.constant([each]) for each in (0, 1, 1)]
    batch = main.apply(StridedSlice(shrink_axis_mask=1), main.apply(ShapeOf(DType.INT32), x), *one)
    shape = main.apply(Pack(3, 0), batch, main.constant(2), main.constant(2))
    (split,) = main.op(Reshape(), doubled, shape, outputs=[
        Tensor("split", DType.FLOAT32, (1, 2, 2), (-1, 2, 2))])
    main.output(main.apply(Mul(), split, split))
    session = circlet.Session(b.build(), backend="native")
    for rows in (1, 3, 0, 2):
        given = values((rows, 4), np.float32, rows)
        (found,) = session.invoke(0, [given])
        np.testing.assert_array_equal(found, np.square(given + given).reshape(rows, 2, 2))


def test_a_shape_that_is_not_declared() -> None:
    """The operator before is no part of a group whose shape nobody could tell."""
    b = ModelBuilder()
    main = b.subgraph("main")
    opposite = main.apply(Neg(), main.input("x", DType.FLOAT32, (1,)))
    main.output(*main.op(StablehloReshape(), opposite, outputs=[Tensor("y", DType.FLOAT32, (), has_rank=False)]))
    for backend in ("cpu", "native"):
        found, = circlet.Session(b.build(), backend).invoke(0, [np.array([3], np.float32)])
        np.testing.assert_array_equal(found, np.array(-3, np.float32), strict=True)
