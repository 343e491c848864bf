"""What operators make of values that hold open lengths: arithmetic on shapes, on arrays of Python objects."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.length import certain, is_late, larger, may_differ, smaller
from circlet.runtime.ir.op import Op, Unknown
from circlet.runtime.ir.ratio import EXACT, Ratio, ratio_of
from circlet.runtime.ir.types import Activation, Array, DType, Shape
from circlet.runtime.ops import comparison, elementwise, index, layout, pad, quantize, segment, shape, unary
from circlet.runtime.ops import reduce as reductions
from circlet.runtime.ops.operands import broadcast_shapes, has_gaps, typed

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
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


def _negated(_: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    return (_objects(np.asarray(-_given(inputs)[0], np.object_)),)


_Number: TypeAlias = "int | bool | Ratio | None"


def _either(combine: Callable[[int, int], int | bool | None],
            of_floats: Callable[[Ratio, Ratio], Ratio | bool | None] | None) -> Callable[[_Number, _Number], _Number]:
    """Two integers or floats combined; None of None, and of what only a run can tell."""
    def combined(one: _Number, other: _Number) -> _Number:
        if one is None or other is None:
            return None
        with suppress(Unknown):
            if isinstance(one, Ratio) or isinstance(other, Ratio) or _is_float(one) != _is_float(other):
                return None if of_floats is None else of_floats(ratio_of(one), ratio_of(other))
            return combine(one, other)
        return None

    return combined


def _is_float(number: object) -> bool:
    """Whether a number is a float, and no integer that stands for one, as a length may."""
    return isinstance(number, float)


def _each(combine: Callable[[int, int], int | bool | None], pair: Sequence[Array],
          of_floats: Callable[[Ratio, Ratio], Ratio | bool | None] | None = None) -> Array:
    """Element by element."""
    found: Array = np.frompyfunc(_either(combine, of_floats), 2, 1)(*pair)
    return found


def _rounded(change: Callable[[Ratio], Ratio]) -> _Rule:
    """Of floats, element by element."""
    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        found: Array = np.frompyfunc(lambda each: change(ratio_of(each)), 1, 1)(_given(inputs)[0])
        return (_objects(np.asarray(found, np.object_)),)

    return find


def _without_negatives(_: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    values = _given(inputs)[0]
    found = _each(larger, [values, np.zeros(values.shape, np.object_)], Ratio.maximum)
    return (_objects(np.asarray(found, np.object_)),)


def _absolute(_: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    values = _given(inputs)[0]
    return (_objects(np.asarray(_each(larger, [values, -values], Ratio.maximum), np.object_)),)


def _transposed(_: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    values, axes = inputs[:2]
    if values is None or axes is None or axes.dtype.hasobject:
        raise Unknown
    return (_objects(values).transpose(axes.tolist()),)


def _binary(combine: Callable[[int, int], int], of_floats: Callable[[Ratio, Ratio], Ratio] | None = None) -> _Rule:
    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        if getattr(op, "fused_activation_function", Activation.NONE) is not Activation.NONE:
            raise Unknown
        return (_objects(np.asarray(_each(combine, _given(inputs), of_floats), np.object_)),)

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
    assert isinstance(op, layout.StridedSlice)
    values, *bounds = inputs[:4]
    if values is None or any(each is None or each.dtype.hasobject for each in bounds):
        raise Unknown
    begin, end, strides = (each.tolist() for each in bounds if each is not None)
    place = op.index(values.shape, op.plan(values.ndim, len(begin)), begin, end, strides)
    return (np.array(_objects(values)[place], np.object_).reshape(shapes[0]),)


def _cut(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    values, begin = inputs[0], inputs[1]
    if values is None or begin is None or begin.dtype.hasobject:
        raise Unknown
    return (_objects(values)[tuple(slice(first, first + size) for first, size in zip(begin.tolist(), shapes[0],
                                                                                   strict=True))],)


def _reduced(combine: Callable[[int, int], int], nothing: int) -> _Rule:
    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        """Over all elements."""
        values = _given(inputs[:1])[0]
        if any(size != 1 for size in shapes[0]):
            raise Unknown
        found = np.empty(shapes[0], np.object_)
        found.reshape(-1)[:] = [reduce(combine, values.reshape(-1).tolist(), nothing)]
        return (found,)

    return find


def _extreme(combine: Callable[[int, int], int], of_floats: Callable[[Ratio, Ratio], Ratio]) -> _Rule:
    combined = _either(combine, of_floats)

    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        """Over all elements, of which there are some."""
        values = _given(inputs[:1])[0]
        if any(size != 1 for size in shapes[0]) or not values.size:
            raise Unknown
        found = np.empty(shapes[0], np.object_)
        found.reshape(-1)[:] = [reduce(combined, values.reshape(-1).tolist())]
        return (found,)

    return find


def _split(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    """A tensor in parts along an axis."""
    values, where = (inputs[1], inputs[0]) if isinstance(op, layout.Split) else (inputs[0], inputs[2])
    if values is None or where is None or where.dtype.hasobject:
        raise Unknown
    axis = int(where.item())
    ends = np.cumsum([shape[axis] for shape in shapes])[:-1]
    return np.split(_objects(values), ends, axis)


def _segments(combine: Callable[[int, int], int], nothing: int) -> _Rule:
    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        """Of a vector, with numbers of segments that are fixed."""
        values, numbers = inputs[:2]
        if values is None or numbers is None or values.ndim != 1 or numbers.dtype.hasobject:
            raise Unknown
        found = np.full(shapes[0], nothing, np.object_)
        for number, each in zip(numbers.tolist(), _objects(values), strict=True):
            if number >= 0:
                found[number] = combine(found[number], each)
        return (found,)

    return find


def _reversed(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    """Of a vector, which has one axis to reverse."""
    values, axes = inputs[:2]
    if values is None or values.ndim != 1 or axes is None or not axes.size:
        raise Unknown
    return (_objects(values)[::-1],)


def _reversed_ahead(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    assert isinstance(op, layout.ReverseSequence)
    values, counts = inputs[:2]
    if values is None or counts is None or counts.dtype.hasobject:
        raise Unknown
    found = _objects(values)
    sequence, batch = op.axes(found.ndim)
    for row, count in zip(np.moveaxis(found, (batch, sequence), (0, 1)), counts.tolist(), strict=True):
        row[:count] = row[:count][::-1].copy()
    return (found,)


def _filled(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    """Of a shape and what fills it, or of what is broadcast and a shape."""
    values = inputs[1] if isinstance(op, shape.Fill) else inputs[0]
    if values is None:
        raise Unknown
    return (np.array(np.broadcast_to(_objects(values), shapes[0])),)


def _padded(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    """Of values, amounts, and what surrounds the values, which is 0 where it is not given."""
    values, amounts = inputs[:2]
    around = inputs[2] if isinstance(op, pad.PadV2) else np.zeros((), np.int64)
    if values is None or amounts is None or amounts.dtype.hasobject or around is None:
        raise Unknown
    found = np.full(shapes[0], _objects(around).reshape(-1)[0], np.object_)
    found[tuple(slice(before, before + size) for (before, _), size in zip(amounts.tolist(), values.shape, strict=True))
          ] = _objects(values)
    return (found,)


def _zeros(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    return (np.zeros(shapes[0], np.int64),)


def _compared(relation: str, assumes: bool = True) -> _Rule:
    compare = _COMPARE[relation]

    def holds(one: int, other: int) -> bool | None:
        """For the lengths at hand; what does not hold for all of them is assumed, but for what a run computes."""
        return compare(one, other) if assumes and not is_late(one - other) else certain(one, relation, other)

    def hold(one: Ratio, other: Ratio) -> bool | None:
        """The same of floats, which are exact."""
        apart = one - other
        return holds(apart.numerator, 0)

    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        return (np.array(_each(holds, _given(inputs), hold), np.object_).reshape(shapes[0]),)

    return find


def _logical(decisive: bool) -> _Rule:
    """Of conditions, of which one that is decisive says what the result is, whatever the other one is."""
    def combined(one: bool | None, other: bool | None) -> bool | None:
        if decisive in (one, other):
            return decisive
        return None if one is None or other is None else not decisive

    def find(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
        return (np.array(np.frompyfunc(combined, 2, 1)(*_given(inputs)), np.object_).reshape(shapes[0]),)

    return find


def _inverted(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    return (_changed(_given(inputs)[0], operator.not_),)


def _broadcast(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    """What two shapes broadcast to. Where one size does not follow, it is that of the other one, unless this is 1."""
    pair = _given(inputs)
    if not any(map(has_gaps, pair)):
        return (_objects(np.array(broadcast_shapes([tuple(each.tolist()) for each in pair]), np.object_)),)
    count = max(each.size for each in pair)
    aligned = [np.concatenate([np.ones(count - each.size, np.object_), each]) for each in pair]
    return (np.array(np.frompyfunc(_broadcast_in_part, 2, 1)(*aligned), np.object_),)


def _broadcast_in_part(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        known = other if one is None else one
        return known if known is not None and certain(known, ">", 1) else None
    return broadcast_shapes([(one,), (other,)])[0]


def _chosen(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    conditions, one, other = np.broadcast_arrays(*_given(inputs))
    found = [first if which or (which is None and _are_one(first, second)) else None if which is None else second
             for which, first, second in zip(conditions.flat, one.flat, other.flat, strict=True)]
    return (_objects(np.array([*found, None], np.object_)[:-1].reshape(shapes[0])),)


def _are_one(first: int | None, second: int | None) -> bool:
    """Whether two numbers are the same, so that it is of no account which one is chosen."""
    return first is not None and second is not None and not may_differ(first, second)


def _hot(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array]:
    """As exporters write how often something is repeated along one axis."""
    assert isinstance(op, shape.OneHot)
    places, depth, on, off = _given(inputs)
    if not all(isinstance(each, int) for each in (*places.flat, *depth.flat)):
        raise Unknown
    axis = op.axis % (places.ndim + 1)
    found = np.moveaxis(places[..., None] == np.arange(depth.item()), -1, axis)
    return (np.where(found, on.reshape(()), off.reshape(())).reshape(shapes[0]),)


def _add(one: int, other: int) -> int:
    return one + other


def _subtract(one: int, other: int) -> int:
    return one - other


def _multiply(one: int, other: int) -> int:
    return one * other


def _divide(one: int, other: int) -> int:
    """Rounded down."""
    return one // other


def _truncate(one: int, other: int) -> int:
    """Rounded towards zero, by what is positive; that, and whether the dividend is negative, is assumed for the lengths
    at hand, but for what a run computes."""
    if any(is_late(each) and not certain(each, relation, 0) for each, relation in ((other, ">"), (one, ">="))):
        raise Unknown
    if other <= 0:
        raise Unknown
    return one // other if one >= 0 else -(-one // other)


def _remain(one: int, other: int) -> int:
    """Of the quotient that is rounded down."""
    return one % other


def _remain_truncated(one: int, other: int) -> int:
    """Of the quotient that is rounded towards zero."""
    return one - _truncate(one, other) * other


_RULES: Mapping[type[Op], _Rule] = {
    shape.Reshape: _viewed,
    shape.ExpandDims: _viewed,
    shape.Squeeze: _viewed,
    shape.Alias: _viewed,
    quantize.Cast: _viewed,
    unary.Abs: _absolute,
    unary.Neg: _negated,
    unary.Relu: _without_negatives,
    unary.Floor: _rounded(Ratio.floor),
    unary.Ceil: _rounded(Ratio.ceil),
    elementwise.Add: _binary(_add, Ratio.__add__),
    elementwise.Sub: _binary(_subtract, Ratio.__sub__),
    elementwise.Mul: _binary(_multiply, Ratio.__mul__),
    elementwise.FloorDiv: _binary(_divide),
    elementwise.FloorMod: _binary(_remain),
    elementwise.StablehloRemainder: _binary(_remain_truncated),
    elementwise.Div: _binary(_truncate, Ratio.__truediv__),
    elementwise.Maximum: _binary(larger, Ratio.maximum),
    elementwise.Minimum: _binary(smaller, Ratio.minimum),
    layout.Concatenation: _joined,
    layout.Pack: _packed,
    layout.Unpack: _unpacked,
    layout.StridedSlice: _sliced,
    layout.Slice: _cut,
    index.Gather: _gathered,
    layout.Split: _split,
    layout.SplitV: _split,
    layout.ReverseSequence: _reversed_ahead,
    layout.ReverseV2: _reversed,
    layout.Transpose: _transposed,
    pad.Pad: _padded,
    pad.PadV2: _padded,
    unary.ZerosLike: _zeros,
    shape.Fill: _filled,
    shape.OneHot: _hot,
    shape.BroadcastArgs: _broadcast,
    shape.BroadcastTo: _filled,
    comparison.Equal: _compared("=="),
    comparison.NotEqual: _compared("!="),
    comparison.Less: _compared("<"),
    comparison.LessEqual: _compared("<="),
    comparison.Greater: _compared(">"),
    comparison.GreaterEqual: _compared(">="),
    comparison.LogicalAnd: _logical(False),
    comparison.LogicalOr: _logical(True),
    unary.LogicalNot: _inverted,
    comparison.Select: _chosen,
    comparison.SelectV2: _chosen,
    segment.UnsortedSegmentProd: _segments(_multiply, 1),
    segment.UnsortedSegmentSum: _segments(_add, 0),
    reductions.ReduceProd: _reduced(_multiply, 1),
    reductions.Sum: _reduced(_add, 0),
    reductions.ReduceMax: _extreme(larger, Ratio.maximum),
    reductions.ReduceMin: _extreme(smaller, Ratio.minimum),
}

_CERTAIN: Mapping[type[Op], _Rule] = {
    comparison.Equal: _compared("==", assumes=False),
    comparison.NotEqual: _compared("!=", assumes=False),
    comparison.Less: _compared("<", assumes=False),
    comparison.LessEqual: _compared("<=", assumes=False),
    comparison.Greater: _compared(">", assumes=False),
    comparison.GreaterEqual: _compared(">=", assumes=False),
}
"""Comparisons of which an element is None where it does not hold for all lengths, or for none."""
_PARTLY = (
    shape.Reshape, shape.ExpandDims, shape.Squeeze, shape.Alias, quantize.Cast, elementwise.Add, elementwise.Sub,
    elementwise.Mul, elementwise.Maximum, elementwise.Minimum, layout.Concatenation, layout.Pack, shape.BroadcastArgs,
    comparison.Equal, comparison.NotEqual, comparison.Less, comparison.LessEqual, comparison.Greater,
    comparison.GreaterEqual, comparison.LogicalAnd, comparison.LogicalOr, unary.LogicalNot, comparison.Select,
    comparison.SelectV2)
"""Operators of which an element follows from those that it is made of, whatever the others are."""


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
    found = partial_results(op, inputs, shapes)
    if found is not None and any(map(has_gaps, found)):
        raise Unknown
    return found


def partial_results(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array] | None:
    """The same, where elements are None that do not follow."""
    rule = _RULES.get(type(op))
    if rule is None:
        return op.open_results(inputs, partial_results)
    if not isinstance(op, _PARTLY) and any(has_gaps(each) for each in inputs if each is not None):
        raise Unknown
    return rule(op, inputs, shapes)


def certain_results(op: Op, inputs: Sequence[Array | None], shapes: tuple[Shape, ...]) -> Sequence[Array] | None:
    """The same, where comparisons assume nothing of lengths: an element is None that is not so for all of them."""
    return _CERTAIN.get(type(op), partial_results)(op, inputs, shapes)


def valued(values: Array, dtype: DType) -> Array:
    """What an operator makes of such values as those of its result's element type: `typed`, with floats that become
    integers truncated, and what becomes a float a `Ratio`.

    Raises:
        Unknown: only a run can tell, or the type does not have it exactly.
    """
    if dtype in EXACT:
        return _changed(values, lambda number: ratio_of(number).within(dtype))
    if values.dtype.hasobject and any(isinstance(each, Ratio) for each in values.flat):
        values = _changed(values, lambda number: ratio_of(number).truncated())
    return typed(values, dtype)


def valued_in_part(values: Array, dtype: DType) -> Array:
    """The same; None for elements that only a run can tell."""
    found = np.empty(values.shape, np.object_)
    for place, each in np.ndenumerate(_objects(values)):
        with suppress(Unknown):
            found[place] = None if each is None else _objects(valued(np.array([each, None], np.object_)[:1], dtype))[0]
    return found if has_gaps(found) else valued(values, dtype)


def _changed(values: Array, change: Callable[[int | Ratio], int | Ratio]) -> Array:
    """What becomes of each number; None stays as it is."""
    found = np.empty(values.shape, np.object_)
    found.reshape(-1)[:] = [None if each is None else change(each) for each in _objects(values).flat]
    return found
