"""Arithmetic on small constants while a model is read: what shapes, axes and conditions are computed by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.probe import Outline
from circlet.runtime.ir.types import Array
from circlet.runtime.ops import comparison, elementwise, index, shape, unary

LARGEST = 64
"""How many elements a constant may have."""


def _gather(op: Op, x: Array, indices: Array) -> Array:
    assert isinstance(op, index.Gather)
    return np.take(x, indices, op.axis)


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


_FUNCTIONS: dict[type[Op], Callable[..., Array]] = {
    comparison.Equal: np.equal, comparison.NotEqual: np.not_equal, comparison.Less: np.less,
    comparison.LessEqual: np.less_equal, comparison.Greater: np.greater, comparison.GreaterEqual: np.greater_equal,
    comparison.LogicalAnd: np.logical_and, comparison.LogicalOr: np.logical_or, comparison.SelectV2: np.where,
    unary.LogicalNot: np.logical_not, unary.Neg: np.negative, elementwise.Add: np.add, elementwise.Sub: np.subtract,
    elementwise.Mul: np.multiply, elementwise.Div: _divide,
    elementwise.FloorDiv: _floor(np.floor_divide), elementwise.FloorMod: _floor(np.mod),
    elementwise.Maximum: np.maximum, elementwise.Minimum: np.minimum,
    shape.Alias: np.copy, shape.Reshape: np.reshape,
}
FOLDS: dict[type[Op], Callable[..., Array]] = {
    index.Gather: _gather, **{op: _plain(function) for op, function in _FUNCTIONS.items()},
}
"""What computes an operator on constants of whole numbers or booleans."""


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
    except (ValueError, IndexError):
        # The operator says so if it is ever run.
        return None
