"""Arithmetic on small constants while a model is read: what shapes, axes and conditions are computed by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.runtime.ir.op import Op, ShapeError
from circlet.runtime.ir.probe import Outline
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops import comparison, elementwise, index, layout, reduce, shape, unary

LARGEST = 64
"""How many elements a constant may have."""


def _gather(op: Op, x: Array, indices: Array) -> Array:
    assert isinstance(op, index.Gather)
    return np.take(x, indices, op.axis)


def _slice(op: Op, x: Array, begin: Array, end: Array, strides: Array) -> Array:
    assert isinstance(op, layout.StridedSlice)
    found: Array = x[op.index(x.shape, op.plan(x.ndim, begin.size), *(each.tolist() for each in (begin, end, strides)))]
    return found


def _fill(op: Op, target: Array, number: Array) -> Array:
    if np.prod(target, dtype=np.float64) > LARGEST:
        raise ValueError
    return np.full(target, number, number.dtype)


def _range(op: Op, start: Array, limit: Array, delta: Array) -> Array:
    first, end, step = start.item(), limit.item(), delta.item()
    if not step or not 0 <= (end - first) / step <= LARGEST:
        raise ValueError
    return np.arange(first, end, step).astype(start.dtype)


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda op, *inputs: function(*inputs)


def _divide(a: Array, b: Array) -> Array:
    if (a < 0).any() or (b <= 0).any():
        raise ValueError
    return a // b


def _floor(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def find(a: Array, b: Array) -> Array:
        if not b.all():
            raise ValueError
        return function(a, b)

    return find


def _reduced(combine: np.ufunc) -> Callable[..., Array]:
    """Over some axes; over no elements only what has something to begin with."""
    def find(op: Op, x: Array, axes: Array) -> Array:
        assert isinstance(op, reduce.Reduction)
        found: Array = combine.reduce(x, reduce.reduced_axes(axes, x.ndim), x.dtype, keepdims=op.keep_dims)
        return found

    return find


_FUNCTIONS: dict[type[Op], Callable[..., Array]] = {
    comparison.Equal: np.equal, comparison.NotEqual: np.not_equal, comparison.Less: np.less,
    comparison.LessEqual: np.less_equal, comparison.Greater: np.greater, comparison.GreaterEqual: np.greater_equal,
    comparison.LogicalAnd: np.logical_and, comparison.LogicalOr: np.logical_or, comparison.SelectV2: np.where,
    unary.LogicalNot: np.logical_not, unary.Neg: np.negative, unary.Abs: np.abs,
    elementwise.Add: np.add, elementwise.Sub: np.subtract, elementwise.Mul: np.multiply, elementwise.Div: _divide,
    elementwise.FloorDiv: _floor(np.floor_divide), elementwise.FloorMod: _floor(np.mod),
    elementwise.Maximum: np.maximum, elementwise.Minimum: np.minimum,
    shape.Alias: np.copy, shape.Reshape: np.reshape,
}
FOLDS: dict[type[Op], Callable[..., Array]] = {
    index.Gather: _gather, layout.StridedSlice: _slice, shape.Fill: _fill, shape.Range: _range,
    reduce.ReduceMax: _reduced(np.maximum), reduce.ReduceMin: _reduced(np.minimum), reduce.Sum: _reduced(np.add),
    reduce.ReduceProd: _reduced(np.multiply),
    **{op: _plain(function) for op, function in _FUNCTIONS.items()},
}
"""What computes an operator on constants of whole numbers or booleans."""


_PICK = (index.Gather, layout.StridedSlice)


def picked(op: Op, sizes: Shape, inputs: Sequence[Outline | None]) -> Array | None:
    """Elements of a shape of which all are known that an operator takes, as `folded`; `inputs` follow the shape."""
    if not isinstance(op, _PICK):
        return None
    elements = folded(op, (Outline(DType.INT64, (len(sizes),), np.array(sizes)), *inputs))
    return None if elements is None or -1 in elements else elements


def folded(op: Op, inputs: Sequence[Outline | None]) -> Array | None:
    """The result of an operator on constants; None where it is left to the run."""
    function = FOLDS.get(type(op))
    if function is None:
        return None
    arrays = [each.data for each in inputs if each is not None and each.data is not None
              and each.data.size <= LARGEST and each.data.dtype.kind in "bi"]
    if len(arrays) != len(inputs):
        return None
    try:
        return np.asarray(function(op, *arrays))
    except (ValueError, IndexError, ShapeError):
        # The operator says so if it is ever run.
        return None
