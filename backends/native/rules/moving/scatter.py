"""Native rule of the operators that change windows of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import reduce

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, Emitter
from circlet.backends.native.emit.loops import every, independent, rolled
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.whole import Truth, Whole, both
from circlet.backends.native.rules.moving.elements import brought, change
from circlet.backends.native.rules.moving.move import extended
from circlet.backends.native.rules.refusals import movable, summable
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import INTEGERS, DType
from circlet.runtime.ops.elements import Combine
from circlet.runtime.ops.scatter import ScatterWindows
from circlet.runtime.records import dataclass

_indices = only(INTEGERS - {DType.UINT64}, 1)
"""Refuses indices that no axis has room for."""


def _refuses(call: Call) -> str | None:
    assert isinstance(call.op, ScatterWindows)
    return (movable if call.op.combine is Combine.REPLACE else summable)(call) or _indices(call)


@nest(ScatterWindows, _refuses, memory_inputs=frozenset(), is_last=True)
def scatter_windows(node: Node[ScatterWindows], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x, indices and updates: x, in which a loop over the first axes of the updates, up to the last one along which
    there are windows, finds where a window begins and which of its elements lie inside, and changes these."""
    op, updates, home, shape = node.op, node.input(2), brought(node, sinks[0]), node.shape
    rank, windows = len(updates.shape), op.windows(len(shape))
    cut = 1 + max(op.batch(rank), default=-1)
    with e.nest(updates.shape[:cut]) as outer:
        starts = _starts(node, outer)
        for axis, along in windows.items():
            if along < cut:
                starts[axis] = starts[axis] + Whole(e, outer[along])
        behind = {along: _span(e, starts[axis], updates.shape[along], shape[axis])
                  for axis, along in windows.items() if along >= cut}
        single = [axis for axis in range(len(shape)) if windows.get(axis, -1) < cut]
        inside = reduce(lambda found, axis: both(e, found, starts[axis].is_in(0, shape[axis] - 1)), single, True)
        with _where(e, inside), _elements(e, [behind[axis] for axis in range(cut, rank)]) as inner:
            place: Index = [*outer, *inner]
            change(node, home, [(starts[axis] + Whole(e, place[windows[axis]])).register
                                 if axis in windows and windows[axis] >= cut else starts[axis].register
                                 for axis in range(len(shape))], place)


def _starts(node: Node[ScatterWindows], outer: Index) -> list[Whole]:
    """Where the window begins that an element of the updates is of."""
    e, op, indices = node.function.e, node.op, node.input(1)
    batch = [outer[axis] for axis in op.batch(len(node.input(2).shape))]
    starts = [Whole(e, 0)] * len(node.shape)
    for j, axis in enumerate(op.scatter_dims_to_operand_dims):
        index = [*batch[:op.index_vector_dim], e.number(j), *batch[op.index_vector_dim:]][:len(indices.shape)]
        starts[axis] = Whole(e, extended(e, indices.element(e, index), indices.dtype))
    return starts


@dataclass(frozen=True, eq=False)
class _Span:
    """The elements of a window that lie inside, along an axis."""

    first: Whole
    count: Whole


def _span(e: Emitter, start: Whole, length: int, size: int) -> _Span:
    """The part of a window of some length that lies inside of an axis. The start is brought near it first, so that
    nothing of it overflows."""
    if start.is_zero:
        return _Span(start, Whole(e, size).at_most(length))
    near = start.at_least(Whole(e, 0) - length).at_most(size)
    first = (Whole(e, 0) - near).at_least(0)
    return _Span(first, (Whole(e, size) - near).at_most(length) - first)


@contextmanager
def _elements(e: Emitter, spans: Sequence[_Span]) -> Iterator[tuple[ir.Value, ...]]:
    """Loops over the elements of a window that lie inside; the turns of the innermost one are independent."""
    shape = tuple(each.count.value for each in spans if not isinstance(each.count.value, ir.Value))
    if len(shape) == len(spans):
        with every(e, shape) as inner:
            yield inner
        return
    first, count = spans[0].first, spans[0].count
    with (rolled if len(spans) > 1 else independent)(e, count.value) as k, _elements(e, spans[1:]) as rest:
        yield ((first + Whole(e, k)).register, *rest)


@contextmanager
def _where(e: Emitter, condition: Truth) -> Iterator[None]:
    """What is written inside is done where a condition holds."""
    with nullcontext() if condition is True else e.builder.if_then(
            ir.Constant(I1, condition) if isinstance(condition, bool) else condition):
        yield
