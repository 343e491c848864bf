"""Native rules of the operators on lists that are tensors."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.layout import join
from circlet.backends.native.rules.moving.move import expect, expect_shape, extended, filled, part, unreached, wholes
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.lists import ListAppend, ListAppendPart, ListBegin, ListEmpty, ListEnds, ListJoin, ListPart
from circlet.runtime.ops.operands import replaced


@fused(ListEmpty, movable, is_free=True)
def list_empty(node: Node[ListEmpty]) -> tuple[Value]:
    """No elements."""
    dtype = node.call.outputs[0].dtype
    return (filled(node.shape, dtype, node.function.e.constant(0, dtype)),)


@fused(ListBegin, movable, is_free=True)
def list_begin(node: Node[ListBegin]) -> tuple[Value]:
    """Of a list: the same, or nothing of another shape."""
    x = node.input(node.op.position)
    if len(x.shape) == len(node.shape) and not any(map(may_differ, x.shape, node.shape)):
        return (x,)
    return (filled(node.shape, x.dtype, node.function.e.constant(0, x.dtype)),)


@nest(ListAppend, movable, memory_inputs=frozenset())
def list_append(node: Node[ListAppend], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a list and an element: one with both, by `join`."""
    _append(e, sinks[0], node.op, node.input(0), node.input(1))


def _append(e: Emitter, sink: Sink, op: ListAppend, source: Value, element: Value) -> None:
    added = element.reshaped(op.slice(element.shape))
    join(e, sink, [source, added] if source.size != 0 else [added], op.axis)


@nest(ListAppendPart, movable, memory_inputs=frozenset())
def list_append_part(node: Node[ListAppendPart], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """The same, and where its elements end."""
    _append(e, sinks[0], node.op, node.input(0), node.input(1))
    end = node.shapes[0][node.op.axis]
    join(e, sinks[1], [node.input(2), filled((1,), DType.INT64, _stored(e, e.number(end)))], 0)


@nest(ListJoin, movable, memory_inputs=frozenset())
def list_join(node: Node[ListJoin], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of elements: all of them, by `join`, and where they end."""
    axis, end = node.op.axis, 0
    inputs = [node.input(k) for k in range(len(node.call.inputs))]
    join(e, sinks[0], inputs, axis)
    for k, each in enumerate(inputs):
        end = end + each.shape[axis]
        sinks[1](e, [e.number(k)], _stored(e, e.number(end)))


@nest(ListEnds, movable, memory_inputs=frozenset({1}), is_last=True)
def list_ends(node: Node[ListEnds], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and one length, or several (n,): where pieces of these end along an axis. Lengths are checked."""
    size, lengths, b = node.input(0).shape[node.op.axis], node.input(1), e.builder
    if not lengths.shape:
        (length,) = wholes(e, lengths)
        expect(node, length.compare(">=", 1), "split: expected a length of at least 1, found {}", length)
        count = ((length + (size - 1)) // length).at_least(1)
        if expect_shape(node, [count]):
            with e.loop(node.shape[0]) as k:
                end = (length * (Whole(e, k) + 1)).at_most(size)
                sinks[0](e, [k], _stored(e, end.register))
        return
    total = Register(e, e.index)
    total.set(e.number(0))
    with e.loop(lengths.shape[0]) as k:
        length = Whole(e, extended(e, lengths.element(e, [k]), lengths.dtype))
        fits = length.is_in(0, Whole(e, size) - Whole(e, total.get()))
        expect(node, fits, f"split: expected lengths that sum to {size}, found {{}} behind {{}}", length,
               Whole(e, total.get()))
        total.set(b.add(total.get(), length.register))
        sinks[0](e, [k], _stored(e, total.get()))
    found = Whole(e, total.get())
    expect(node, found.compare("==", size), f"split: expected lengths that sum to {size}, found {{}}", found)


def _stored(e: Emitter, value: ir.Value) -> ir.Value:
    """An index as an int64."""
    return value if value.type == I64 else e.builder.sext(value, I64)


@fused(ListPart, movable, is_free=True, memory_inputs=frozenset({1, 2}))
def list_part(node: Node[ListPart]) -> tuple[Value]:
    """Of a list, a position and ends: the element there, a view where it is one run. The position and the end
    are checked."""
    x, axis, e = node.input(0), node.op.axis, node.function.e
    (position,) = wholes(e, node.input(1))
    is_even = node.op.stacked or node.op.are_single
    count = x.shape[axis] if is_even else node.input(2).shape[0]
    number = (position + count).where(position.compare("<", 0), position)
    expect(node, number.is_in(0, Whole(e, count) - 1),
           f"position: expected {-count} to {count - 1} for {count} elements, found {{}}", position)
    starts = [Whole(e, 0) for _ in x.shape]
    if is_even:
        starts[axis] = number
        return (part(e, x, starts, replaced(x.shape, axis, 1)).reshaped(node.shape),)
    ends = node.input(2)

    def end(number: Whole) -> Whole:
        return Whole(e, extended(e, ends.element(e, [number.register]), DType.INT64))

    starts[axis] = Whole(e, 0).where(number.compare("==", 0), end((number - 1).at_least(0)))
    last, size = end(number), x.shape[axis]
    expect(node, last.is_in(0, Whole(e, size)), f"ends: expected some of a list of length {size}, found {{}}", last)
    sizes = [Whole(e, each) for each in x.shape]
    sizes[axis] = last - starts[axis]
    return (part(e, x, starts, node.shape) if expect_shape(node, sizes) else unreached(node),)
