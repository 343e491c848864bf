"""Native rules of operators that order elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, is_real
from circlet.backends.native.emit.loops import search
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.heap import Heap, Records
from circlet.backends.native.rules.moving.move import expect, expect_shape, extended
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.elementwise import compare, elementwise
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.row_vectors import RowVectors, in_every_lane
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import bound, is_length, may_differ
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.sort import Bucketize, TopKV2
from circlet.runtime.records import dataclass

_WORK = 4
"""That of looking at a byte, as `parallel.portion` counts it: a choice."""


def _leads(dtype: DType, other: ir.Value, e: Emitter, value: ir.Value) -> ir.Value:
    """Whether a value comes before another one, or each lane of a vector; NaN comes after all numbers."""
    b, others = e.builder, in_every_lane(e, other, value.type) if isinstance(value.type, ir.VectorType) else other
    greater = compare(e, dtype, ">", value, others)
    if not is_real(dtype):
        return greater
    return b.or_(greater, b.and_(b.fcmp_ordered("ord", value, value), b.fcmp_unordered("uno", others, others)))


@nest(TopKV2, movable, frozenset({0}))
def top_k(node: Node[TopKV2], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n): the k greatest of each row, in order, and where they are, (..., k) each. The first k of a row
    become a heap, in which elements behind take the place of the least one if they lead it, and which is then put in
    order. Rows are shared out."""
    *outer, k = _shape(node, e)
    if not may_differ(k, 0):
        return
    x, b, count, records = node.input(0), e.builder, e.number(k), Records(node.input(0).dtype)
    memory = node.function.scratch(bound(k) * records.kind.width // 8)
    with parallel_nest(e, tuple(outer), _WORK * x.nbytes) as index, b.if_then(b.icmp_signed(">", count, e.number(0))):
        row = _Row(e, x, index, records, Heap(e, memory, records.kind))
        row.find(count)
        with e.loop(count) as rank:
            place = records.place(e, row.heap.get(rank))
            sinks[0](e, [*index, rank], row.element(place))
            sinks[1](e, [*index, rank], convert(e, place, e.index_dtype, node.call.outputs[1].dtype))


def _shape(node: Node[TopKV2], e: Emitter) -> Shape:
    """That of the results; where only the run tells k, that is looked at."""
    *outer, k = node.shape
    given, length = node.input(1), node.input(0).shape[-1]
    if e.is_undefined(k) or (given.known is None and not is_length(k)):
        found = Whole(e, extended(e, given.reshaped(()).scalar(e), given.dtype))
        expect(node, found.is_in(0, length),
               f"input 1 is k: expected 0 to {length}, the length of the last axis, found {{}}", found)
        expect_shape(node, [*(Whole(e, each) for each in outer), found])
    return node.shape


@dataclass(frozen=True, eq=False)
class _Row:
    """A row of which the greatest elements are wanted, and a heap of their records."""

    e: Emitter
    x: Value
    index: Index
    records: Records
    heap: Heap

    def element(self, place: ir.Value) -> ir.Value:
        """That at a place."""
        return self.x.element(self.e, [*self.index, place])

    def _record(self, place: ir.Value) -> ir.Value:
        return self.records.of(self.e, self.element(place), place)

    def find(self, count: ir.Value) -> None:
        """Puts the records of the `count` greatest to the heap, in order."""
        e, b, heap = self.e, self.e.builder, self.heap
        with e.loop(count) as place:
            heap.put(self._record(place), place)
        heap.order(count)
        length, next_ = e.number(self.x.shape[-1]), Register(e, e.index)
        next_.set(count)

        def is_done(_: ir.Value) -> ir.Value:
            least = self.element(self.records.place(e, heap.get(e.number(0))))
            place = self._leading(least, next_.get(), b.sub(length, next_.get()))
            ends = b.icmp_signed(">=", place, length)
            with b.if_then(b.not_(ends)):
                heap.sink(self._record(place), e.number(0), count)
                next_.set(b.add(place, e.number(1)))
            return ends

        search(e, length, is_done)
        heap.sort(count)

    def _leading(self, least: ir.Value, begin: ir.Value, count: ir.Value) -> ir.Value:
        """The first place of `count` from one on whose element leads the least one kept; the place behind if none
        does."""
        e, vectors = self.e, RowVectors.of(self.e, self.x)
        leads = partial(_leads, self.x.dtype, least)
        if vectors is None:
            found = search(e, count, lambda k: leads(e, self.element(e.builder.add(begin, k))))
        else:
            first = e.linear([*self.index, begin], self.x.shape)
            found = vectors.place_of(e, leads, first, Whole(e, count))
        return e.builder.add(begin, found)


def _no_number(call: Call) -> str | None:
    """Refuses boundaries that are NaN, of which the order says nothing."""
    assert isinstance(call.op, Bucketize)
    return "a boundary that is NaN" if np.isnan(call.op.boundaries).any() else None


@fused(Bucketize, all_of(plain, _no_number))
def bucketize(node: Node[Bucketize]) -> tuple[Value]:
    """Of x: how many of the ascending boundaries are not above each element, by halving, in as many steps as their
    number has digits; all of them for NaN."""
    x, bounds = node.input(0), np.array(node.op.boundaries, np.float32)
    real = DType.FLOAT64 if x.dtype is DType.FLOAT64 else DType.FLOAT32
    steps = [1 << k for k in reversed(range(len(bounds).bit_length()))]
    table = np.append(bounds, np.full(2 * max(steps, default=0) - len(bounds), np.inf)).astype(real.numpy)
    memory = node.function.external(table)

    def combine(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
        b, value, found = e.builder, convert(e, values[0], dtype, real), e.number(0)
        for step in steps:
            further = b.add(found, e.number(step))
            is_there = b.icmp_signed("<=", further, e.number(len(bounds)))
            bound = e.load(memory, real, b.sub(further, e.number(1)))
            is_passed = b.and_(is_there, b.fcmp_unordered("<=", bound, value))
            found = b.select(is_passed, further, found)
        return convert(e, found, e.index_dtype, DType.INT32)

    return elementwise(node, combine)
