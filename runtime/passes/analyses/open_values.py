"""What operators make of values that hold open lengths: arithmetic on shapes, on arrays of Python objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.length import larger, smaller
from circlet.runtime.ir.op import Op, Unknown
from circlet.runtime.ir.types import Activation, Array, Shape
from circlet.runtime.ops import elementwise, index, layout, quantize, shape
from circlet.runtime.ops import reduce as reductions

_Rule: TypeAlias = "Callable[[Op, Sequence[Array | None], tuple[Shape, ...]], Sequence[Array]]"


def _objects(values: Array) -> Array:
    """Values as Python's numbers."""
    found = np.empty(values.shape, np.object_)
    found.reshape(-1)[:] = [each if not isinstance(each, np.generic) else each.item() for each in values.reshape(-1)]
    return found


def _given(inputs: Sequence[Array | None]) -> list[Array]:
    return [_objects(each) for each in inputs if each is not None]


def _viewed(_: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    return (_given(inputs[:1])[0].reshape(shapes[0]),)


def _binary(combine: Callable[[int, int], int]) -> _Rule:
    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        if getattr(op, "fused_activation_function", Activation.NONE) is not Activation.NONE:
            raise Unknown
        found = np.frompyfunc(combine, 2, 1)(*_given(inputs))
        return (_objects(np.asarray(found, np.object_)),)

    return find


def _joined(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    assert isinstance(op, layout.Concatenation)
    return (np.concatenate(_given(inputs), axis=op.axis),)


def _packed(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    assert isinstance(op, layout.Pack)
    return (np.stack(_given(inputs), axis=op.axis),)


def _unpacked(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    assert isinstance(op, layout.Unpack)
    moved = np.moveaxis(_given(inputs)[0], op.axis, 0)
    return [_objects(np.asarray(each, np.object_)) for each in moved]


def _gathered(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    assert isinstance(op, index.Gather)
    values, indices = inputs[0], inputs[1]
    if values is None or indices is None or op.batch_dims or indices.dtype.hasobject:
        raise Unknown
    return (np.asarray(np.take(_objects(values), indices, axis=op.axis), np.object_),)


def _sliced(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    """Of a vector."""
    assert isinstance(op, layout.StridedSlice)
    values, *bounds = inputs[:4]
    if values is None or values.ndim != 1 or any(each is None or each.dtype.hasobject for each in bounds):
        raise Unknown
    begin, end, step = (int(each[0]) for each in bounds if each is not None)
    if op.ellipsis_mask or op.new_axis_mask or op.offset:
        raise Unknown
    if op.shrink_axis_mask:
        return (_objects(values[begin:begin + 1 or None].reshape(())),)
    return (_objects(values)[None if op.begin_mask else begin:None if op.end_mask else end:step],)


def _cut(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    values, begin = inputs[0], inputs[1]
    if values is None or begin is None or begin.dtype.hasobject:
        raise Unknown
    return (_objects(values)[tuple(slice(first, first + size) for first, size in zip(begin.tolist(), shapes[0],
                                                                                   strict=True))],)


def _reduced(combine: Callable[[int, int], int]) -> _Rule:
    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        """Over all elements."""
        values = _given(inputs[:1])[0]
        if any(size != 1 for size in shapes[0]) or not values.size:
            raise Unknown
        found = np.empty(shapes[0], np.object_)
        found.reshape(-1)[:] = [reduce(combine, values.reshape(-1).tolist())]
        return (found,)

    return find


def _add(one: int, other: int) -> int:
    return one + other


def _subtract(one: int, other: int) -> int:
    return one - other


def _multiply(one: int, other: int) -> int:
    return one * other


def _divide(one: int, other: int) -> int:
    """Rounded down."""
    return one // other


_RULES: Mapping[type[Op], _Rule] = {
    shape.Reshape: _viewed,
    shape.ExpandDims: _viewed,
    shape.Squeeze: _viewed,
    shape.Alias: _viewed,
    quantize.Cast: _viewed,
    elementwise.Add: _binary(_add),
    elementwise.Sub: _binary(_subtract),
    elementwise.Mul: _binary(_multiply),
    elementwise.FloorDiv: _binary(_divide),
    elementwise.Maximum: _binary(larger),
    elementwise.Minimum: _binary(smaller),
    layout.Concatenation: _joined,
    layout.Pack: _packed,
    layout.Unpack: _unpacked,
    layout.StridedSlice: _sliced,
    layout.Slice: _cut,
    index.Gather: _gathered,
    reductions.ReduceProd: _reduced(_multiply),
    reductions.Sum: _reduced(_add),
}


def open_results(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array] | None:
    """The results of an operator of which an input holds open lengths; None where it is not one that shapes are
    computed with.

    Args:
        op: the operator.
        inputs: their values, of integers.
        shapes: those of the results, which are fixed.

    Raises:
        Unknown: its options or values are not those that shapes are computed with.
    """
    rule = _RULES.get(type(op))
    return op.open_results(inputs, open_results) if rule is None else rule(op, inputs, shapes)
