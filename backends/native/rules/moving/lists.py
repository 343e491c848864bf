"""Native rules of the operators on lists that are tensors."""

from __future__ import annotations

from contextlib import nullcontext
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter, memory_type
from circlet.backends.native.emit.loops import spread_every
from circlet.backends.native.emit.parallel import parallel_every
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.emit.whole import Whole, both
from circlet.backends.native.rules.moving.layout import join
from circlet.backends.native.rules.moving.move import (
    expect,
    expect_shape,
    extended,
    filled,
    overwrite,
    part,
    unreached,
    wholes,
)
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.lists import (
    ListAppend,
    ListAppendPart,
    ListBegin,
    ListEmpty,
    ListEnds,
    ListErase,
    ListErasePart,
    ListHas,
    ListInsert,
    ListInsertPart,
    ListJoin,
    ListOnly,
    ListPart,
    ListSet,
    ListStack,
)
from circlet.runtime.ops.operands import replaced
from circlet.runtime.ops.sequence import NO_VALUE


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
    _append(node, e, sinks[0])


def _append(node: Node[Any], e: Emitter, sink: Sink) -> None:
    """Joins them. Sizes that only the run tells are compared where the list has elements."""
    source, element, axis = node.input(0), node.input(1), node.op.axis
    added = element.reshaped(node.op.slice(element.shape))
    if source.size == 0:
        join(e, sink, [added], axis)
        return
    count, is_same = source.shape[axis], True
    for k, (old, new) in enumerate(zip(source.shape, added.shape, strict=True)):
        if k != axis and may_differ(old, new):
            fits = Whole(e, old).where(Whole(e, count).compare(">", 0), new).compare("==", new)
            expect(node, fits, f"cannot append an element of size {{}} along axis {k} to a list of size {{}}",
                   Whole(e, new), Whole(e, old))
            is_same = False
    join(e, sink, [source if is_same else source.reshaped(replaced(added.shape, axis, count)), added], axis)


@nest(ListAppendPart, movable, memory_inputs=frozenset())
def list_append_part(node: Node[ListAppendPart], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """The same, and where its elements end."""
    _append(node, e, sinks[0])
    end = node.shapes[0][node.op.axis]
    join(e, sinks[1], [node.input(2), filled((1,), DType.INT64, _stored(e, e.number(end)))], 0)


@fused(ListHas, movable, is_free=True)
def list_has(node: Node[ListHas]) -> tuple[Value]:
    """Of a list: whether there is anything in it."""
    e, count = node.function.e, node.input(0).shape[node.op.axis]
    has = Whole(e, count).compare(">", 0)
    return (filled(node.shape, DType.BOOL, e.constant(int(has), DType.BOOL) if isinstance(has, bool) else has),)


@fused(ListOnly, movable, is_free=True)
def list_only(node: Node[ListOnly]) -> tuple[Value]:
    """Of an optional: what is in it, which is checked to be there."""
    x, axis, e = node.input(0), node.op.axis, node.function.e
    expect(node, Whole(e, x.shape[axis]).compare(">", 0), NO_VALUE)
    return (part(e, x, [Whole(e, 0)] * len(x.shape), replaced(x.shape, axis, 1)).reshaped(node.shape),)


@nest(ListInsert, movable, memory_inputs=frozenset({2}))
def list_insert(node: Node[ListInsert], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a list, an element and a position: one element after another, those behind it one further."""
    x, axis = node.input(0), node.op.axis
    number = _place(node, 2, x.shape[axis], more=1)
    added = node.input(1).reshaped(node.op.slice(node.input(1).shape))

    def put(index: Index) -> None:
        behind = Whole(e, index[axis]).compare(">=", number)
        place = (Whole(e, index[axis]) + Whole(e, 1).where(behind, Whole(e, 0))).register
        sinks[0](e, [*index[:axis], place, *index[axis + 1:]], x.element(e, index))

    if may_differ(x.size, 0):
        parallel_every(e, x.shape, 4 * x.nbytes, put)
    spread_every(e, added.shape, lambda index: sinks[0](
        e, [*index[:axis], number.register, *index[axis + 1:]], added.element(e, index)))


@fused(ListErase, movable, memory_inputs=frozenset({1}))
def list_erase(node: Node[ListErase]) -> tuple[Value]:
    """Of a list and a position: elements behind it come from one further."""
    x, axis = node.input(0), node.op.axis
    number = _place(node, 1, x.shape[axis])

    def element(e: Emitter, index: Index) -> ir.Value:
        behind = Whole(e, index[axis]).compare(">=", number)
        place = (Whole(e, index[axis]) + Whole(e, 1).where(behind, Whole(e, 0))).register
        return x.element(e, [*index[:axis], place, *index[axis + 1:]])

    return (computed(node.shape, x.dtype, element),)


@nest(ListInsertPart, movable, memory_inputs=frozenset({0, 2, 3}))
def list_insert_part(node: Node[ListInsertPart], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a list, an element, a position and ends: the element between those before it and those behind it."""
    element, axis, ends = node.input(1), node.op.axis, _Ends(node, 3)
    number, size = _place(node, 2, ends.count, more=1), Whole(e, element.shape[axis])
    begin = ends.before(number)
    _shift(node, sinks[0], begin, Whole(e, 0), size)
    if may_differ(element.size, 0):
        spread_every(e, element.shape, lambda index: sinks[0](
            e, [*index[:axis], (begin + Whole(e, index[axis])).register, *index[axis + 1:]], element.element(e, index)))
    with e.loop(ends.count) as k:
        old = Whole(e, k)
        behind = old.compare(">=", number)
        end = ends.of(old) + size.where(behind, 0)
        sinks[1](e, [(old + Whole(e, 1).where(behind, 0)).register], _stored(e, end.register))
    sinks[1](e, [number.register], _stored(e, (begin + size).register))


@nest(ListErasePart, movable, memory_inputs=frozenset({0, 1, 2}))
def list_erase_part(node: Node[ListErasePart], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a list, a position and ends: those behind the element follow those before it."""
    axis, ends, sizes = node.op.axis, _Ends(node, 2), [Whole(e, each) for each in node.input(0).shape]
    number = _place(node, 1, ends.count)
    begin = ends.before(number)
    size = ends.of(number) - begin
    sizes[axis] = sizes[axis] - size
    if not expect_shape(node, sizes):
        return
    _shift(node, sinks[0], begin, size, Whole(e, 0))
    with e.loop(node.shapes[1][0]) as k:
        behind = Whole(e, k).compare(">=", number)
        end = ends.of(Whole(e, k) + Whole(e, 1).where(behind, 0)) - size.where(behind, 0)
        sinks[1](e, [k], _stored(e, end.register))


class _Ends:
    """Where elements of a list end, as an input says."""

    def __init__(self, node: Node[Any], index: int) -> None:
        self._node = node
        self._ends = node.input(index)
        self.count = self._ends.shape[0]
        """How many elements there are."""

    def of(self, number: Whole) -> Whole:
        """Where an element ends."""
        e = self._node.function.e
        return Whole(e, extended(e, self._ends.element(e, [number.register]), DType.INT64))

    def before(self, number: Whole) -> Whole:
        """Where the one before it ends; that it does in the list, and it itself not before that, is checked."""
        e, size = self._node.function.e, Whole(self._node.function.e, self._node.input(0).shape[self._node.op.axis])
        begin, end = Register(e, e.index), Register(e, e.index)
        begin.set(e.number(0))
        end.set(size.register)
        for register, inside, place in ((begin, number.compare(">", 0), number - 1),
                                        (end, number.compare("<", self.count), number)):
            if inside is not False:
                with nullcontext() if inside is True else e.builder.if_then(inside):
                    register.set(self.of(place).register)
        first, last = Whole(e, begin.get()), Whole(e, end.get())
        expect(self._node, both(e, first.is_in(0, last), last.compare("<=", size)),
               f"ends: expected some of a list of length {size.value}, found {{}} and {{}}", first, last)
        return first


def _shift(node: Node[Any], sink: Sink, begin: Whole, gone: Whole, room: Whole) -> None:
    """Copies a list, input 0, but for so much from a place on that is gone, with so much room there."""
    e, x, axis = node.function.e, node.input(0), node.op.axis
    row = x.shape[axis + 1:]
    size, left = prod(row) * x.dtype.numpy.itemsize, Whole(e, x.shape[axis]) - begin - gone
    with e.nest(x.shape[:axis]) as outer:
        for to, of, count in ((Whole(e, 0), Whole(e, 0), begin), (begin + room, begin + gone, left)):
            if sink.memory is not None and x.memory is not None:
                rest = [e.number(0)] * len(row)
                places = ((sink.memory, node.shapes[0], to), (x.memory, x.shape, of))
                target, source = (e.address(memory, memory_type(x.dtype), e.linear([*outer, at.register, *rest], shape))
                                  for memory, shape, at in places)
                e.copy(target, source, (count * size).register)
            else:
                with e.loop(count.register) as k, e.nest(row) as inner:
                    sink(e, [*outer, (to + Whole(e, k)).register, *inner],
                         x.element(e, [*outer, (of + Whole(e, k)).register, *inner]))


@nest(ListSet, movable, memory_inputs=frozenset({2}), is_last=True)
def list_set(node: Node[ListSet], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a list, an element and a position: the list, copied unless it lies there, with the element stored at it."""
    x, axis, home = node.input(0), node.op.axis, sinks[0].memory
    assert home is not None
    count, row = x.shape[axis], replaced(x.shape, axis, 1)
    number, (position,) = _place(node, 2, count), wholes(e, node.input(2))
    is_moved = position.compare("<", 0)
    begin = number - Whole(e, 1).where(is_moved, 0)
    expect(node, begin.compare(">=", 0), f"position: expected {1 - count} to {count - 1} for {count - 1} elements, "
           "found {}", position)
    starts, behind = ([each if k == axis else Whole(e, 0) for k in range(len(x.shape))] for each in (begin, number))
    if x.memory is not home:
        x.write(e, home)
    if is_moved is not False:
        with nullcontext() if is_moved is True else e.builder.if_then(is_moved):
            overwrite(e, home, x.shape, part(e, x, starts, row), behind)
    overwrite(e, home, x.shape, node.input(1).reshaped(row), starts)


def _place(node: Node[Any], index: int, count: int, more: int = 0) -> Whole:
    """The position in a list of so many elements that an input says, counted from the front; it is checked."""
    (position,) = wholes(node.function.e, node.input(index))
    number = (position + count).where(position.compare("<", 0), position)
    expect(node, number.is_in(0, Whole(node.function.e, count + more) - 1),
           f"position: expected {-count} to {count + more - 1} for {count} elements, found {{}}", position)
    return number


@nest(ListStack, movable, memory_inputs=frozenset())
def list_stack(node: Node[ListStack], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of elements: all of them along a new axis, by `join`."""
    inputs = [node.input(k) for k in range(len(node.call.inputs))]
    join(e, sinks[0], [each.reshaped(node.op.slice(each.shape)) for each in inputs], node.op.axis)


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
    is_even = node.op.stacked or node.op.are_single
    number = _place(node, 1, x.shape[axis] if is_even else node.input(2).shape[0])
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
