"""Operators that are alike but for open lengths call one function, where all that is asked of these is the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops import conv, elementwise, index, normalize, reduce, unary
from circlet.runtime.ops.shape import Range, Reshape, ShapeOf
from tests.exec import graphs as g
from tests.exec.graphs import Array
from tests.native.test_alike import WIDTH, attention, normalized, numbers
from tests.native.test_budget import compare
from tests.native.test_outlined import defined

Body = Callable[[SubgraphBuilder, Value], Value]


def branches(body: Body, shapes: list[tuple[int, ...]], fixed: tuple[int, ...] = (-1,)) -> tuple[Model, list[Array]]:
    """A body for each of several inputs, whose lengths are open, and what they are given."""
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [numbers(*shape, seed=k) for k, shape in enumerate(shapes)]
    tensors = [main.tensor(Tensor(f"x{k}", DType.FLOAT32, (*(1 for _ in fixed), *x.shape[len(fixed):]),
                                  (*fixed, *x.shape[len(fixed):]))) for k, x in enumerate(given)]
    for each in tensors:
        main.feed(each)
    found = [body(main, each) for each in tensors]
    main.output(*found)
    return b.build(), given


def written(model: Model, given: list[Array]) -> int:
    """How many functions of operators there are in all; the results are compared with numpy's."""
    return sum(defined(each).count("operator") for each in compare(model, given).listings)


def rows(s: SubgraphBuilder, v: Value) -> Value:
    """A layer whose result is not an output."""
    return g.add(s, normalized(s, attention(s, normalized(s, v, 0), 0), 0), s.constant(np.float32(1)))


def image(s: SubgraphBuilder, v: Value) -> Value:
    """A convolution, what it is normalised by, and numbers of places."""
    v = s.apply(conv.Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1, fused_activation_function=Activation.RELU), v,
                s.constant(numbers(8, 3, 3, 8)), s.constant(numbers(8)))
    mean = s.apply(reduce.Mean(keep_dims=True), v, s.constant(np.array([1, 2], np.int32)))
    return s.apply(normalize.Softmax(beta=1.0), s.apply(elementwise.Sub(), v, mean))


@pytest.mark.parametrize("counts", [(7, 5), (5, 7), (6, 9)])
def test_rows_are_written_once_for_all_lengths(counts: tuple[int, int]) -> None:
    few, many = (written(*branches(rows, [(counts[k % 2] + k, WIDTH) for k in range(count)])) for count in (2, 4))
    assert 0 < few == many


def test_images_are_written_once_for_all_lengths() -> None:
    few, many = (written(*branches(image, [(1, 5 + k, 9 - k, 8) for k in range(count)], (1, -1, -1)))
                 for count in (2, 4))
    assert 0 < few == many


def strided(s: SubgraphBuilder, v: Value) -> Value:
    """Images of a half, a quarter, an eighth: lengths that follow from one another."""
    total = None
    for _ in range(4):
        v = s.apply(conv.Conv2D(padding=Padding.SAME, stride_h=2, stride_w=2), v, s.constant(numbers(8, 3, 3, 8)),
                    s.constant(numbers(8)))
        each = s.apply(reduce.Mean(keep_dims=True), image(s, v), s.constant(np.array([1, 2], np.int32)))
        total = each if total is None else g.add(s, total, each)
    assert total is not None
    return total


@pytest.mark.parametrize("size", [(64, 48), (61, 35), (3, 1)])
def test_levels_of_a_pyramid(size: tuple[int, int]) -> None:
    model, given = branches(strided, [(1, *size, 8)], (1, -1, -1))
    assert written(model, given) > 0


def taken(s: SubgraphBuilder, v: Value) -> Value:
    """Rows of a table by numbers that follow from another length."""
    where = s.apply(reduce.Sum(keep_dims=False), s.apply(elementwise.Mul(), v, v), s.constant(np.array([1], np.int32)))
    return s.apply(index.Gather(), where, s.constant(np.array([0, 1], np.int32)))


def test_what_may_fail_names_the_lengths_at_hand() -> None:
    few, many = (written(*branches(taken, [(3 + k, WIDTH) for k in range(count)])) for count in (2, 4))
    assert 0 < few <= many


def mirrored(s: SubgraphBuilder, v: Value) -> Value:
    """Columns, two of them mirrored in front, of which indices are computed with one number that follows from how many
    there are."""
    one, rank = s.constant(np.int64(1)), s.constant(np.array([], np.int32))
    shape = s.apply(ShapeOf(out_type=DType.INT64), v)
    size = s.apply(Reshape(), s.apply(index.Gather(), shape, s.constant(np.array([1], np.int32))), rank)
    last = s.apply(elementwise.Sub(), size, one)
    period = s.apply(elementwise.Maximum(), g.add(s, last, last), one)
    within = s.apply(elementwise.FloorMod(), s.apply(Range(), s.constant(np.int64(-2)), size, one), period)
    where = s.apply(elementwise.Minimum(), within, s.apply(elementwise.Sub(), period, within))
    return s.apply(unary.Tanh(), s.apply(index.Gather(axis=1), v, where))


@pytest.mark.parametrize("size", [(2, 9), (1, 5)])
def test_numbers_that_follow_from_lengths_are_those_at_hand(size: tuple[int, int]) -> None:
    def body(s: SubgraphBuilder, v: Value) -> Value:
        return mirrored(s, mirrored(s, mirrored(s, mirrored(s, v))))

    assert written(*branches(body, [(*size, WIDTH)], (-1, -1))) > 0
