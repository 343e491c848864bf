"""Products and convolutions whose results have few columns, which are summed up along rows."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from tests.native.against_cpu import values


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize(("rows", "depth"), [(50, 300), (-1, 300), (50, 31), (1, 64)])
def test_few_columns(columns: int, rows: int, depth: int) -> None:
    """With a bias and a clamp, and before another operator; weights are constant, or not."""
    weights, bias = values((columns, depth), np.float32, 1), values((columns,), np.float32, 2)
    for is_constant in (True, False):
        b = ModelBuilder()
        main = b.subgraph("main")
        x = main.input("x", DType.FLOAT32, (rows, depth))
        factor = main.constant(weights) if is_constant else main.input("w", DType.FLOAT32, weights.shape)
        clamped = main.apply(FullyConnected(Activation.RELU6, keep_num_dims=True), x, factor, main.constant(bias))
        plain = main.apply(FullyConnected(keep_num_dims=True), x, factor)
        main.output(clamped, main.apply(Mul(), plain, plain))
        session = circlet.Session(b.build(), "native")
        for count in (0, 1, 6, 50) if rows < 0 else (rows,):
            given = values((count, depth), np.float32, 3)
            exact = given.astype(np.float64) @ weights.T
            found = session.invoke(0, [given] if is_constant else [given, weights])
            np.testing.assert_allclose(found[0], np.clip(exact + bias, 0, 6), rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found[1], exact ** 2, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("left", "right"), [
    ((3, 50, 300), (3, 300, 1)), ((3, -1, 300), (3, 300, 1)), ((3, -1, -1), (3, -1, 1)), ((-1, 50, 300), (300, 1)),
    ((2, 1, 7, 300), (3, 300, 1)), ((50, 300), (2, 300, 1)), ((50, 300), (300, 1))])
@pytest.mark.parametrize("is_constant", [False, True])
def test_one_column(left: tuple[int, ...], right: tuple[int, ...], is_constant: bool) -> None:
    """Of matrices one by one, and of one for all."""
    x, y = (values(tuple(4 if k == 0 and each < 0 else 60 if each < 0 else each for k, each in enumerate(shape)),
                   np.float32, seed) for seed, shape in enumerate((left, right)))
    b = ModelBuilder()
    main = b.subgraph("main")
    rows = main.input("x", DType.FLOAT32, left)
    factor = main.constant(y) if is_constant else main.input("y", DType.FLOAT32, right)
    main.output(main.apply(BatchMatMul(), rows, factor))
    found, = circlet.Session(b.build(), "native").invoke(0, [x] if is_constant else [x, y])
    np.testing.assert_allclose(found, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [1, 2, 4, 8, 9])
@pytest.mark.parametrize(("image", "depth", "stride"), [((2, 9, 7), 256, 1), ((-1, -1, -1), 256, 1), ((2, 9, 7), 40, 1),
                                                       ((2, 9, 7), 256, 2)])
@pytest.mark.parametrize("is_constant", [False, True])
def test_convolutions(channels: int, image: tuple[int, ...], depth: int, stride: int, is_constant: bool) -> None:
    """Of windows of one element."""
    x, filter = values((2, 9, 7, depth), np.float32, 1), values((channels, 1, 1, depth), np.float32, 2)
    bias = values((channels,), np.float32, 3)
    b = ModelBuilder()
    main = b.subgraph("main")
    images = main.input("x", DType.FLOAT32, (*image, depth))
    weights = main.constant(filter) if is_constant else main.input("filter", DType.FLOAT32, filter.shape)
    op = Conv2D(Padding.SAME, stride, stride, Activation.RELU)
    main.output(main.apply(op, images, weights, main.constant(bias)))
    found, = circlet.Session(b.build(), "native").invoke(0, [x] if is_constant else [x, filter])
    exact = x[:, ::stride, ::stride].astype(np.float64) @ filter.reshape(channels, depth).T + bias
    np.testing.assert_allclose(found, np.maximum(exact, 0), rtol=1e-4, atol=1e-4)
