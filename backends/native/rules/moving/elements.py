"""Native rules of the operators that read or write single elements, or slices, at places that indices name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, Emitter
from circlet.backends.native.emit.loops import every, folded
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect, extended
from circlet.backends.native.rules.real.elementwise import Combine, greatest, least, plus, times
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import INTEGERS, DType
from circlet.runtime.ops import elements as ops
from circlet.runtime.ops.operands import normalize_axis

_indices = only(INTEGERS - {DType.UINT64}, 1)
"""Refuses indices that no axis has room for."""


def _inside(node: Node[Any], indices: Value, place: Index, size: int) -> ir.Value:
    """An index, counted from the front of an axis of `size`; leaves the function where it is outside."""
    e = node.function.e
    given = extended(e, indices.element(e, place), indices.dtype)
    index, is_inside = _counted(e, given, size)
    expect(node, is_inside, f"index {{}} is out of range for an axis of size {size}", Whole(e, given))
    return index


def _counted(e: Emitter, given: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """An index counted from the front of an axis, and whether it is inside."""
    is_behind = e.builder.icmp_signed("<", given, e.number(0))
    index = e.builder.select(is_behind, e.builder.add(given, e.number(size)), given)
    return index, e.builder.icmp_unsigned("<", index, e.number(size))


def _expect_all_inside(node: Node[Any], indices: Value, size: int) -> None:
    """Leaves the function for the first index that is outside an axis of `size`, if there is one: a loop without
    branches, then one that looks for it."""
    e, b = node.function.e, node.function.e.builder
    is_wrong = Register(e, I1)
    is_wrong.set(ir.Constant(I1, False))
    with folded(e, indices.size) as position:
        given = extended(e, indices.linear(e, position), indices.dtype)
        is_wrong.set(b.or_(is_wrong.get(), b.not_(_counted(e, given, size)[1])))
    with b.if_then(is_wrong.get(), likely=False), e.nest(indices.shape) as place:
        _inside(node, indices, place, size)


@nest(ops.GatherElements, all_of(movable, _indices), frozenset({0, 1}))
def gather_elements(node: Node[ops.GatherElements], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n, ...) and indices (p...): (p...). The indices along one axis are checked; then a loop over p reads
    the elements."""
    x, indices = node.input(0), node.input(1)
    axis = normalize_axis(node.op.axis, len(x.shape))
    _expect_all_inside(node, indices, x.shape[axis])
    with every(e, indices.shape) as place:
        given = extended(e, indices.element(e, place), indices.dtype)
        index, _ = _counted(e, given, x.shape[axis])
        sinks[0](e, place, x.element(e, [*place[:axis], index, *place[axis + 1:]]))


_COMBINE: dict[ops.Combine, Combine] = {
    ops.Combine.ADD: plus, ops.Combine.MULTIPLY: times, ops.Combine.MAXIMUM: greatest, ops.Combine.MINIMUM: least,
}
"""How an element and an update become one."""


def _refuses(call: Call) -> str | None:
    assert isinstance(call.op, (ops.ScatterElements, ops.ScatterSlices))
    return (movable if call.op.combine is ops.Combine.REPLACE else plain)(call) or _indices(call)


def change(node: Node[Any], home: ir.Value, index: Index, place: Index) -> None:
    """Changes the element at an index by the update at a place, as the operator's `combine` says."""
    e, combine, (x, _, updates) = node.function.e, _COMBINE.get(node.op.combine), map(node.input, range(3))
    position, update = e.linear(index, x.shape), updates.element(e, place)
    if combine is not None:
        update = combine(e, x.dtype, [e.load(home, x.dtype, position), update])
    e.store(update, home, x.dtype, position)


def brought(node: Node[Any], sink: Sink) -> ir.Value:
    """Where the result lies, which holds input 0."""
    home, x = sink.memory, node.input(0)
    assert home is not None, "what is last has its memory"
    if x.memory is not home:
        x.write(node.function.e, home)
    return home


@contextmanager
def scattered(node: Node[Any]) -> Iterator[tuple[Whole, int]]:
    """A loop over the runs of elements that a scatter writes: gives where a run begins, in row-major order, and how
    many elements it has. Leaves the function where an index is outside."""
    e, shape, indices = node.function.e, node.input(0).shape, node.input(1)
    if isinstance(node.op, ops.ScatterElements):
        axis = normalize_axis(node.op.axis, len(shape))
        with e.nest(indices.shape) as place:
            index = _inside(node, indices, place, shape[axis])
            yield Whole(e, e.linear([*place[:axis], index, *place[axis + 1:]], shape)), 1
        return
    depth = indices.shape[-1]
    with e.nest(indices.shape[:-1]) as place:
        row = [_inside(node, indices, [*place, e.number(k)], shape[k]) for k in range(depth)]
        rest = [e.number(0)] * (len(shape) - depth)
        yield Whole(e, e.linear([*row, *rest], shape)), prod(shape[depth:])


@nest(ops.ScatterElements, _refuses, memory_inputs=frozenset(), is_last=True)
def scatter_elements(node: Node[ops.ScatterElements], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n, ...), indices (p...) and updates (p...): x, in which a loop over p checks an index along one axis
    and changes an element."""
    shape, indices, home = node.input(0).shape, node.input(1), brought(node, sinks[0])
    axis = normalize_axis(node.op.axis, len(shape))
    with e.nest(indices.shape) as place:
        index = _inside(node, indices, place, shape[axis])
        change(node, home, [*place[:axis], index, *place[axis + 1:]], place)


@nest(ops.ScatterSlices, _refuses, memory_inputs=frozenset(), is_last=True)
def scatter_slices(node: Node[ops.ScatterSlices], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n1, ..., nk, b...), indices (p..., k) and updates (p..., b...): x, in which a loop over p checks k indices
    and changes a slice."""
    shape, indices, home = node.input(0).shape, node.input(1), brought(node, sinks[0])
    depth = indices.shape[-1]
    with e.nest(indices.shape[:-1]) as place:
        row = [_inside(node, indices, [*place, e.number(k)], shape[k]) for k in range(depth)]
        with every(e, shape[depth:]) as inner:
            change(node, home, [*row, *inner], [*place, *inner])
