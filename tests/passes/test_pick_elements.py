"""Slices of one element of which the axis is removed, as converters of TensorFlow write `x[i]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Equal, LogicalAnd, NotEqual, SelectV2
from circlet.runtime.ops.elementwise import Add, Maximum, Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import LONG, Concatenation, StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Reshape, Squeeze
from circlet.runtime.passes.transforms.pick_elements import pick_elements
from tests.needs import NATIVE

F32, I32 = DType.FLOAT32, DType.INT32
Ends = Callable[[SubgraphBuilder, Value], Value]
"""Gives the end of a slice, (1,), from the index, ()."""


def typed(s: SubgraphBuilder, dtype: DType, op: Cast | NotEqual | Equal | LogicalAnd, *given: Value) -> Value:
    return s.op(op, *given, outputs=[Tensor("", dtype, (1,))])[0]


def next_one(s: SubgraphBuilder, i: Value) -> Value:
    """The index behind, (1,)."""
    return s.apply(Reshape(), s.apply(Add(), i, s.constant(np.int32(1))), s.constant(np.array([1], np.int32)))


def far(s: SubgraphBuilder, i: Value) -> Value:
    """As tf2onnx writes it: computed with floats, as what is no number where an operand is none, and replaced on a
    condition that never holds."""
    behind = typed(s, F32, Cast(), next_one(s, i))
    most = s.apply(Maximum(), behind, s.constant(np.array([LONG], np.float32)))
    most = s.apply(SelectV2(), typed(s, DType.BOOL, NotEqual(), behind, behind), behind, most)
    end = typed(s, I32, Cast(), most)
    is_most = typed(s, DType.BOOL, Equal(), end, s.constant(np.array([LONG], np.int32)))
    never = typed(s, DType.BOOL, LogicalAnd(), is_most, s.constant(np.array([False])))
    return s.apply(SelectV2(), never, s.constant(np.array([-LONG], np.int32)), end)


def near(s: SubgraphBuilder, i: Value) -> Value:
    """It may lie in front of the index."""
    return next_one(s, i)


def replaced(s: SubgraphBuilder, i: Value) -> Value:
    """On a condition that may hold."""
    behind = next_one(s, i)
    is_one = typed(s, DType.BOOL, Equal(), behind, s.constant(np.array([1], np.int32)))
    return s.apply(SelectV2(), is_one, behind, far(s, i))


def narrowed(s: SubgraphBuilder, i: Value) -> Value:
    """int32 may have less of an int64, or of a float, than it is."""
    wide = typed(s, DType.INT64, Cast(), next_one(s, i))
    most = s.apply(Maximum(), s.apply(Mul(), wide, wide), s.constant(np.array([LONG], np.int64)))
    return typed(s, I32, Cast(), most)


def no_number(s: SubgraphBuilder, i: Value) -> Value:
    """The larger of a number and of NaN is none."""
    behind = s.apply(Maximum(), s.constant(np.array([np.nan], np.float32)), s.constant(np.array([LONG], np.float32)))
    return typed(s, I32, Cast(), behind)


def doubled(s: SubgraphBuilder, i: Value) -> Value:
    """Each operator reads what the one before gives twice."""
    found, never = next_one(s, i), s.constant(np.array([False]))
    for _ in range(80):
        found, never = s.apply(Maximum(), found, found), s.apply(LogicalAnd(), never, never)
    return s.apply(SelectV2(), never, s.constant(np.array([LONG], np.int32)), found)


def picking(ends: Ends = far, stride: int = LONG, axes: Sequence[int] = (0,), is_read: bool = False) -> Model:
    """x[i] for x (n, 3) and i."""
    b = ModelBuilder()
    s = b.subgraph("main")
    x, i = s.input("x", F32, (-1, 3)), s.input("i", I32, ())
    begin = s.apply(Reshape(), i, s.constant(np.array([1], np.int32)))
    part = s.op(StridedSlice(), x, begin, ends(s, i), s.constant(np.array([stride], np.int32)),
                outputs=[Tensor("part", F32, (1, 3), (-1, 3))])[0]
    s.output(s.op(Squeeze(tuple(axes)), part, outputs=[Tensor("y", F32, (3,))])[0])
    if is_read:
        s.output(part)
    return b.build()


@pytest.mark.parametrize("model", [picking(each) for each in (near, replaced, narrowed, no_number, doubled)],
                         ids=["near", "replaced", "narrowed", "no_number", "doubled"])
def test_what_may_end_before_it_begins_is_left(model: Model) -> None:
    assert pick_elements(model) is model


@pytest.mark.parametrize("model", [picking(stride=5), picking(axes=(-1,)), picking(axes=()), picking(is_read=True)])
def test_more_than_one_element_may_be_taken(model: Model) -> None:
    """That such a slice ends where the axis does is said all the same."""
    before, after = (each.subgraphs[0].operators for each in (model, pick_elements(model)))
    assert [each.op for each in after] == [
        StridedSlice(end_mask=1) if isinstance(each.op, StridedSlice) else each.op for each in before]
    assert [each.outputs for each in after] == [each.outputs for each in before]


@pytest.mark.parametrize("is_ordered", [False, True])
def test_bounds_are_those_of_the_axis(is_ordered: bool) -> None:
    """x[:, :i], as tf2onnx writes it: what the first entries of the bounds are follows; OpenVINO puts them in order."""
    b = ModelBuilder()
    s = b.subgraph("main")
    x, i = s.input("x", F32, (-1, -1)), s.input("i", I32, (1,))
    most, two = np.array([LONG, -LONG], np.float32), Tensor("", I32, (2,))
    ends = s.op(Concatenation(0), s.constant(np.array([0], np.int32)), i, outputs=[two])[0]
    ends = s.apply(Maximum(), s.op(Cast(), ends, outputs=[Tensor("", F32, (2,))])[0], s.constant(most))
    end = s.op(Cast(), ends, outputs=[two])[0]
    if is_ordered:
        end = s.apply(Gather(), end, s.constant(np.array([0, 1], np.int32)))
    part = s.op(StridedSlice(), x, s.constant(np.zeros(2, np.int32)), end, s.constant(np.ones(2, np.int32)),
                outputs=[Tensor("y", F32, (1, 1), (-1, -1))])[0]
    s.output(part)
    model = b.build()
    assert pick_elements(model).subgraphs[0].operators[-1].op == StridedSlice(begin_mask=3, end_mask=1)
    x_given = np.arange(12, dtype=np.float32).reshape(3, 4)
    for index in (0, 1, 3, 4, 9, -1, -4, -7):
        (found,) = circlet.Session(model, "cpu").run([x_given, np.array([index], np.int32)]).values()
        np.testing.assert_array_equal(found, x_given[:, :index])


@pytest.mark.parametrize("axes", [(0,), (-2,)])
def test_the_squeeze_goes(axes: Sequence[int]) -> None:
    model = picking(axes=axes)
    changed = pick_elements(model)
    found = changed.subgraphs[0].operators
    assert [each.name for each in found[-2:]] == ["STRIDED_SLICE", "SKIP"]
    assert found[-2].op == StridedSlice(end_mask=1, shrink_axis_mask=1)
    assert found[-2].outputs == model.subgraphs[0].outputs
    assert pick_elements(changed) is changed


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_results(backend: str) -> None:
    """Before the axis is its first element, and behind it there is none, as for ONNX Runtime."""
    session = circlet.Session(picking(), backend)
    for length in (4, 1, 7):
        x = np.arange(3 * length, dtype=np.float32).reshape(length, 3)
        for i in range(-length - 2, length):
            (found,) = session.run([x, np.int32(i)]).values()
            np.testing.assert_array_equal(found, x[max(i, -length)])
        for i in (length, length + 3):
            with pytest.raises(circlet.ExecutionError, match="STRIDED_SLICE"):
                session.run([x, np.int32(i)])
