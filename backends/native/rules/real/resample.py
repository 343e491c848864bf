"""Native rule of resizing along any axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.real.resize import at_most_last
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.resample import Aspect, Coordinates, Interpolation, Nearest, Resample
from circlet.runtime.records import dataclass

FLOAT, DOUBLE = DType.FLOAT32, DType.FLOAT64
"""What elements are, and what places are computed with, but for the nearest element where a factor is given."""


class _Axis:
    """An axis that is resized, in registers: what `backends/cpu/resample.py` computes of it."""

    def __init__(self, e: Emitter, kind: DType, length: int, size: int, factor: float | ir.Value | None,
                 part: Sequence[ir.Value]) -> None:
        """
        Args:
            e: writes it.
            kind: what places are computed with.
            length: of the input.
            size: of the result.
            factor: between the two, maybe a float32; None where it is the quotient.
            part: where the part of the axis begins that is resized, and where it ends, as doubles; nothing for all.
        """
        self.e, self.b, self.kind, self.size, self.extent = e, e.builder, kind, size, length
        self.length, self._count = (self.real(e.number(each)) for each in (length, size))
        self.factor = (self.b.fdiv(self._count, self.length) if factor is None
                       else self.number(factor) if isinstance(factor, float)
                       else factor if kind is FLOAT else self.b.fpext(factor, ir.DoubleType()))
        self._part = part or (self.number(0), self.number(1))

    def number(self, value: float) -> ir.Value:
        return self.e.constant(value, self.kind)

    def real(self, number: ir.Value) -> ir.Value:
        """An index as a float."""
        return self.b.sitofp(number, ir.FloatType() if self.kind is FLOAT else ir.DoubleType())

    def less_one(self, value: ir.Value) -> ir.Value:
        return self.b.fsub(value, self.number(1))

    def centre(self, x: ir.Value) -> ir.Value:
        """(x + 0.5) / factor."""
        return self.b.fdiv(self.b.fadd(x, self.number(0.5)), self.factor)

    def beyond_one(self, value: ir.Value) -> ir.Value:
        """A place, or 0 where there is one element alone."""
        several = self.b.icmp_signed(">", self.e.number(self.size), self.e.number(1))
        return self.b.select(several, value, self.number(0))

    def symmetric(self) -> ir.Value:
        """How far the first place is moved, so that what is cut off is so on both sides."""
        b = self.b
        part = b.fdiv(self._count, b.fmul(self.factor, self.length))
        return b.fmul(b.fdiv(self.length, self.number(2)), b.fsub(self.number(1), part))

    def corners(self, x: ir.Value) -> ir.Value:
        """x (length - 1) / (factor length - 1)."""
        whole = self.less_one(self.b.fmul(self.factor, self.length))
        return self.b.fdiv(self.b.fmul(x, self.less_one(self.length)), whole)

    def cut_out(self, x: ir.Value) -> ir.Value:
        """begin (length - 1) + x (end - begin) (length - 1) / (size - 1), or the middle where there is one alone."""
        b, (begin, end), last = self.b, self._part, self.less_one(self.length)
        along = b.fdiv(b.fmul(b.fmul(x, b.fsub(end, begin)), last), self.less_one(self._count))
        middle = b.fmul(b.fmul(self.number(0.5), b.fadd(begin, end)), last)
        several = b.icmp_signed(">", self.e.number(self.size), self.e.number(1))
        return b.select(several, b.fadd(b.fmul(begin, last), along), middle)

    def near(self, place: ir.Value) -> ir.Value:
        """A place, or one that is as well outside of the elements and not far from them, so that others can be counted
        from it; not a number is none."""
        b, low, high = self.b, self.number(-_FAR), self.b.fadd(self.length, self.number(_FAR))
        found = b.select(b.fcmp_ordered("<", place, low), low, place)
        return b.select(b.fcmp_ordered(">", place, high), high, found)

    def is_outside(self, place: ir.Value) -> ir.Value:
        """Whether a place, or an index as a float, is beyond the elements, or none."""
        return self.b.or_(self.b.fcmp_unordered("<", place, self.number(0)),
                          self.b.fcmp_unordered(">", place, self.less_one(self.length)))


_PLACES: Mapping[Coordinates, Callable[[_Axis, ir.Value], ir.Value]] = {
    Coordinates.HALF_PIXEL: lambda axis, x: axis.b.fsub(axis.centre(x), axis.number(0.5)),
    Coordinates.HALF_PIXEL_SYMMETRIC: lambda axis, x: axis.b.fsub(
        axis.b.fadd(axis.symmetric(), axis.centre(x)), axis.number(0.5)),
    Coordinates.PYTORCH_HALF_PIXEL: lambda axis, x: axis.beyond_one(axis.b.fsub(axis.centre(x), axis.number(0.5))),
    Coordinates.ALIGN_CORNERS: lambda axis, x: axis.beyond_one(axis.corners(x)),
    Coordinates.ASYMMETRIC: lambda axis, x: axis.b.fdiv(x, axis.factor),
    Coordinates.TF_HALF_PIXEL_FOR_NN: lambda axis, x: axis.centre(x),
    Coordinates.TF_CROP_AND_RESIZE: lambda axis, x: axis.cut_out(x),
}
"""Where in the input an element lies, by its number as a float."""
_MOVES = frozenset({Coordinates.TF_HALF_PIXEL_FOR_NN, Coordinates.TF_CROP_AND_RESIZE})
"""Where an axis does not stay as it is that is not made longer or shorter."""
_NEAREST: Mapping[Nearest, tuple[str, float]] = {
    Nearest.ROUND_PREFER_FLOOR: ("ceil", -0.5),
    Nearest.ROUND_PREFER_CEIL: ("floor", 0.5),
    Nearest.FLOOR: ("floor", 0.0),
    Nearest.CEIL: ("ceil", 0.0),
}
"""How a place is rounded, and what is added before."""
_FAR = 4
"""How far from all elements none of them counts for what is between others."""
_STEPS: Mapping[Interpolation, range] = {Interpolation.LINEAR: range(2), Interpolation.CUBIC: range(-1, 3)}
"""Which elements one between others is made of, from the one before it on."""


@dataclass(frozen=True, eq=False)
class _Tap:
    """One of the elements that each resized one of an axis is made of: where it is, what it counts; (size,)."""

    index: Value
    weight: Value | None
    """None where there is one element alone."""


@dataclass(frozen=True, eq=False)
class _Along:
    """An axis that is resized."""

    taps: Sequence[_Tap]
    outside: Value | None
    """Which places are beyond the input, (size,), where these have a value of their own."""


def _refuses(call: Call) -> str | None:
    """Refuses what takes more elements the smaller the result is, factors that only the run tells, and sums of other
    elements than float32."""
    op = call.op
    assert isinstance(op, Resample)
    is_cut = op.coordinates is Coordinates.TF_CROP_AND_RESIZE
    kinds = movable if op.interpolation is Interpolation.NEAREST and not is_cut else all_of(plain, only((FLOAT,)))
    return kinds(call) or ("antialiasing" if op.antialias else None) or _refuses_numbers(call)


def _refuses_numbers(call: Call) -> str | None:
    """Refuses one factor for all axes, and factors that only the run tells."""
    assert isinstance(call.op, Resample)
    if call.op.aspect is not Aspect.STRETCH:
        return "one factor for all axes"
    part = call.inputs[2] if len(call.inputs) > 2 else None
    if part is not None and part.dtype is not FLOAT:
        return f"parts of element type {part.dtype.value}"
    if call.input(1).dtype is FLOAT and call.input(1).data is None:
        return "factors that are not constant, without sizes"
    factors = call.inputs[3] if len(call.inputs) > 3 else None
    if factors is not None and factors.dtype is not FLOAT:
        return f"factors of element type {factors.dtype.value}"
    return None


@nest(Resample, _refuses, frozenset({0}), frozenset({1}))
def resample(node: Node[Resample], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (d0, ..., dk): the same with other lengths of some axes, of one element each or, of float32, of several.
    First a table for each such axis says which elements each one is made of; then loops over all axes but the last,
    shared out, and one over that, add the products of these with their weights."""
    x, axes = node.input(0), _axes(node, e)
    *outer, length = node.shape
    with parallel_nest(e, tuple(outer), 16 * prod(node.shape)) as place:
        around = [_chosen(e, axes.get(axis), index) for axis, index in enumerate(place)]
        with independent(e, length) as j:
            along = _chosen(e, axes.get(len(outer)), j)
            value = _sum(e, x, around, along)
            for axis, index in enumerate([*place, j]):
                outside = axes[axis].outside if axis in axes else None
                if outside is not None:
                    other = e.constant(node.op.extrapolation, x.dtype)
                    value = e.builder.select(outside.linear(e, index), other, value)
            sinks[0](e, [*place, j], value)


def _refuses_smooth(call: Call) -> str | None:
    """Refuses all but antialiasing of float32 by factors that are known, or the quotients of sizes."""
    op = call.op
    assert isinstance(op, Resample)
    if not op.antialias or op.interpolation is Interpolation.NEAREST or op.coordinates in _MOVES:
        return "no antialiasing"
    return all_of(plain, only((FLOAT,)))(call) or ("factors beside sizes" if call.has(3) else _refuses_numbers(call))


@nest(Resample, _refuses_smooth, frozenset({0}), frozenset({1}), name="smooth")
def smooth(node: Node[Resample], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (d0, ..., dk), float32: the same with other lengths of some axes, of all elements that the place of one
    covers. One axis after the other: a table says which elements these are, then neighbours add them up."""
    x, op, given = node.input(0), node.op, node.input(1).known
    assert given is not None, "it is a parameter"
    for axis, each in zip(op.axes, given.tolist(), strict=True):
        length, size = x.shape[axis], node.shape[axis]
        factor = each if isinstance(each, float) else None
        if may_differ(size, length) or factor not in (None, 1.0):
            taps = _covering(node, _Axis(e, DOUBLE, length, size, factor, ()))
            x = (_added_along if axis + 1 < len(x.shape) else _added_in_rows)(node, e, x, axis, taps)
    *outer, length = node.shape
    with parallel_nest(e, tuple(outer), 4 * prod(node.shape)) as place, independent(e, length) as j:
        sinks[0](e, [*place, j], x.element(e, [*place, j]))


@dataclass(frozen=True, eq=False)
class _Taps:
    """The elements that each resized one of an axis is the sum of: where they are, what they count; (count, size)."""

    count: ir.Value
    size: int
    index: Value
    weight: Value

    def at(self, e: Emitter, tap: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where a tap of one element is, and what it counts."""
        place = e.builder.add(e.builder.mul(tap, e.number(self.size)), k)
        return self.index.linear(e, place), self.weight.linear(e, place)


def _covering(node: Node[Resample], axis: _Axis) -> _Taps:
    """The table of an axis, in scratch memory: of more elements the smaller the result is, but together not more than
    there are before and after, for either side."""
    e, b, size, reach = axis.e, axis.b, axis.size, len(_STEPS[node.op.interpolation]) // 2
    scale = e.intrinsic("minnum", axis.factor, axis.number(1))
    half = e.intrinsic("ceil", b.fdiv(axis.number(reach), scale))
    room = 2 * reach * (axis.extent + size) + 2 * size + 2 * reach
    found = _Taps(b.fptosi(b.fmul(half, axis.number(2)), e.index), size, _table(node, room, e.index_dtype),
                  _table(node, room, FLOAT))
    total = Register(e, ir.DoubleType())
    with e.loop(size) as k:
        place = _PLACES[node.op.coordinates](axis, axis.real(k))
        first = b.fsub(e.intrinsic("ceil", place), half)

        def share(tap: ir.Value) -> tuple[ir.Value, ir.Value]:
            index = b.fadd(first, axis.real(tap))
            weight = _weight(node.op, axis, b.fmul(b.fsub(index, place), scale))
            if node.op.exclude_outside:
                weight = b.select(axis.is_outside(index), axis.number(0), weight)
            return index, weight

        total.set(axis.number(0))
        with e.loop(found.count) as tap:
            total.set(b.fadd(total.get(), share(tap)[1]))
        with e.loop(found.count) as tap:
            index, weight = share(tap)
            where = b.add(b.mul(tap, e.number(size)), k)
            _put(e, found.index, where, _inside(axis, index))
            _put(e, found.weight, where, b.fptrunc(b.fdiv(weight, total.get()), ir.FloatType()))
    return found


def _added_along(node: Node[Resample], e: Emitter, x: Value, axis: int, taps: _Taps) -> Value:
    """Sums along an axis behind which others lie: of runs of elements."""
    shape = (*x.shape[:axis], taps.size, *x.shape[axis + 1:])
    inner = [e.number(0)] * (len(shape) - axis - 1)
    found, width = _table(node, prod(shape), FLOAT), prod(shape[axis + 1:])
    with parallel_nest(e, shape[:axis + 1], 16 * prod(shape)) as place:
        begin = e.linear([*place, *inner], shape)
        _clear(e, found, begin, width)
        with e.loop(taps.count) as tap:
            index, weight = taps.at(e, tap, place[axis])
            source = e.linear([*place[:axis], index, *inner], x.shape)
            with independent(e, width, rereads=True) as j:
                _add_to(e, found, e.builder.add(begin, j), x.linear(e, e.builder.add(source, j)), weight)
    return in_memory(_home(found), shape, FLOAT)


def _added_in_rows(node: Node[Resample], e: Emitter, x: Value, axis: int, taps: _Taps) -> Value:
    """Sums along the last axis: of neighbours one element each at a time."""
    shape = (*x.shape[:axis], taps.size)
    found = _table(node, prod(shape), FLOAT)
    with parallel_nest(e, shape[:axis], 16 * prod(shape)) as place:
        begin, source = e.linear([*place, e.number(0)], shape), e.linear([*place, e.number(0)], x.shape)
        _clear(e, found, begin, taps.size)
        with e.loop(taps.count) as tap, independent(e, taps.size, rereads=True) as k:
            index, weight = taps.at(e, tap, k)
            _add_to(e, found, e.builder.add(begin, k), x.linear(e, e.builder.add(source, index)), weight)
    return in_memory(_home(found), shape, FLOAT)


def _clear(e: Emitter, table: Value, begin: ir.Value, count: int) -> None:
    with independent(e, count, rereads=True) as k:
        _put(e, table, e.builder.add(begin, k), e.constant(0, FLOAT))


def _add_to(e: Emitter, table: Value, place: ir.Value, value: ir.Value, weight: ir.Value) -> None:
    _put(e, table, place, e.builder.fadd(table.linear(e, place), e.builder.fmul(value, weight)))


_Choice: TypeAlias = "tuple[ir.Value, ir.Value | None]"
"""An index, and what the element there counts."""


def _chosen(e: Emitter, axis: _Along | None, index: ir.Value) -> list[_Choice]:
    """The elements along an axis that one is made of."""
    if axis is None:
        return [(index, None)]
    return [(each.index.linear(e, index), None if each.weight is None else each.weight.linear(e, index))
            for each in axis.taps]


def _sum(e: Emitter, x: Value, around: Sequence[Sequence[_Choice]], along: Sequence[_Choice]) -> ir.Value:
    """The sum of elements times the weights of all their indices."""
    total: ir.Value | None = None
    for outer in product(*around):
        row: ir.Value | None = None
        for index, weight in along:
            row = _added(e, row, x.element(e, [*(each for each, _ in outer), index]), (weight,))
        assert row is not None, "there is an element at least"
        total = _added(e, total, row, [weight for _, weight in outer])
    assert total is not None, "there is an element at least"
    return total


def _added(e: Emitter, total: ir.Value | None, value: ir.Value, weights: Sequence[ir.Value | None]) -> ir.Value:
    """A sum, and a value times weights."""
    for each in weights:
        value = value if each is None else e.builder.fmul(value, each)
    return value if total is None else e.builder.fadd(total, value)


def _axes(node: Node[Resample], e: Emitter) -> dict[int, _Along]:
    """By axis, without those that stay as they are."""
    op, given, found = node.op, node.input(1).known, dict[int, _Along]()
    assert given is not None, "it is a parameter"
    for number, (axis, each) in enumerate(zip(op.axes, given.tolist(), strict=True)):
        length, size = node.input(0).shape[axis], node.shape[axis]
        factor = each if isinstance(each, float) else _factor(node, e, number)
        is_same = not may_differ(size, length) and (factor is None or factor == 1.0)
        if not is_same or op.coordinates in _MOVES:
            kind = FLOAT if factor is not None and op.is_single else DOUBLE
            found[axis] = _written(node, _Axis(e, kind, length, size, factor, _part(node, e, number)))
    return found


def _factor(node: Node[Resample], e: Emitter, number: int) -> ir.Value | None:
    """The factor of an axis, by its number among those resized; None where it is the quotient of sizes."""
    factors = node.optional(3)
    return None if factors is None else factors.linear(e, e.number(number))


def _part(node: Node[Resample], e: Emitter, number: int) -> Sequence[ir.Value]:
    """Where the part of an axis, by its number among those resized, begins and ends; nothing where it is all."""
    part = node.optional(2)
    return () if part is None else [e.builder.fpext(part.linear(e, e.number(each)), ir.DoubleType())
                                    for each in (number, number + len(node.op.axes))]


def _place(op: Resample, axis: _Axis, number: ir.Value) -> ir.Value:
    """Where an element lies in the input."""
    x = axis.real(number)
    place = _PLACES[op.coordinates](axis, x)
    e = axis.e
    if not op.keeps:
        return place
    return e.builder.select(e.builder.icmp_signed("==", e.number(axis.extent), e.number(axis.size)), x, place)


def _written(node: Node[Resample], axis: _Axis) -> _Along:
    """The tables of an axis, in scratch memory."""
    e, size, steps = axis.e, axis.size, _STEPS.get(node.op.interpolation)
    taps = [_Tap(_table(node, size, e.index_dtype), None if steps is None else _table(node, size, FLOAT))
            for _ in steps or range(1)]
    is_cut = node.op.coordinates is Coordinates.TF_CROP_AND_RESIZE
    found = _Along(taps, _table(node, size, DType.BOOL) if is_cut else None)
    with independent(e, size) as k:
        place = _place(node.op, axis, k)
        if found.outside is not None:
            _put(e, found.outside, k, axis.is_outside(place))
        if steps is None:
            rounding, more = _NEAREST[node.op.nearest]
            _put(e, taps[0].index, k, _inside(axis, e.intrinsic(rounding, e.builder.fadd(place, axis.number(more)))))
        else:
            place = axis.near(place)
            before = axis.less_one(e.intrinsic("ceil", place))
            indices = [e.builder.fadd(before, axis.number(step)) for step in steps]
            for tap, index, weight in zip(taps, indices, _weights(node.op, axis, place, indices), strict=True):
                _put(e, tap.index, k, _inside(axis, index))
                assert tap.weight is not None, "elements are several"
                _put(e, tap.weight, k, e.builder.fptrunc(weight, ir.FloatType()))
    return found


def _weights(op: Resample, axis: _Axis, place: ir.Value, indices: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """What the elements around a place count, as doubles."""
    b = axis.b
    found = [_weight(op, axis, b.fsub(each, place)) for each in indices]
    if not op.exclude_outside:
        return found
    found = [b.select(axis.is_outside(index), axis.number(0), each) for index, each in zip(indices, found, strict=True)]
    total = reduce(b.fadd, found)
    return [b.fdiv(each, total) for each in found]


def _table(node: Node[Resample], size: int, dtype: DType) -> Value:
    return in_memory(node.function.reserve(size * dtype.numpy.itemsize), (size,), dtype)


def _put(e: Emitter, table: Value, k: ir.Value, value: ir.Value) -> None:
    e.store(value, _home(table), table.dtype, k)


def _home(table: Value) -> ir.Value:
    assert table.memory is not None, "tables are written"
    return table.memory


def _inside(axis: _Axis, index: ir.Value) -> ir.Value:
    """A place as an index; the outermost element stands for those outside."""
    e = axis.e
    found = e.intrinsic("minnum", e.intrinsic("maxnum", index, axis.number(0)), axis.length)
    return at_most_last(e, axis.b.fptosi(found, e.index), axis.extent)


def _weight(op: Resample, axis: _Axis, distance: ir.Value) -> ir.Value:
    """What an element at a distance counts, as a double."""
    e, b = axis.e, axis.b
    x = e.intrinsic("fabs", distance)
    if op.interpolation is Interpolation.LINEAR:
        near = b.fsub(axis.number(1), x)
        found = b.select(b.fcmp_ordered("<", near, axis.number(0)), axis.number(0), near)  # not a number stays so
    else:
        a = op.cubic_coefficient
        near = _polynomial(axis, x, (a + 2, -(a + 3), 0, 1))
        far = _polynomial(axis, x, (a, -5 * a, 8 * a, -4 * a))
        outer = b.select(b.fcmp_ordered("<", x, axis.number(2)), far, axis.number(0))
        found = b.select(b.fcmp_ordered("<=", x, axis.number(1)), near, outer)
    return found


def _polynomial(axis: _Axis, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """By Horner's rule, from the highest power on."""
    first, *rest = coefficients
    total = axis.number(first)
    for each in rest:
        total = axis.b.fadd(axis.b.fmul(total, x), axis.number(each))
    return total
