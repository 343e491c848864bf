"""Native rules of operators that order elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, Emitter, Index, is_real, register_type
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.moving.merge import Merge
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.elementwise import compare, elementwise
from circlet.backends.native.rules.real.reduce import Register, reserve
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import bound, is_length
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.sort import Bucketize, TopKV2
from circlet.runtime.records import dataclass

MOST = 64
"""The most elements that are kept in order by insertion; rows are sorted for more. On random floats it takes, with 64
of 10000, 0.08 of the time in which numpy sorts on AVX2 and 0.25 on AVX-512."""


FEW, LONGER = 8, 8
"""Up to how many elements are inserted in rows of any length; how many times as long other rows are at least."""


def _large(call: Call) -> str | None:
    """Refuses a k that is large, or that is not constant."""
    k = call.input(1).data
    if k is None or k.size != 1:
        return "k is not constant"
    return None if int(k.item()) <= MOST else f"k is {k.item()} (supported: up to {MOST})"


def _short(call: Call) -> str | None:
    """Refuses rows that are not much longer than a k that is not small: most elements would move most others. 64 of 64
    take 21 us by insertion and 2.5 us by merging, 8 of 64 take 1 us."""
    k, length = call.input(1).data, call.input(0).shape[-1] if call.input(0).shape else 0
    if k is None or k.size != 1 or is_length(length) or k.item() <= FEW or LONGER * k.item() <= length:
        return None
    return f"k is {k.item()} of {length}"


def _leads(e: Emitter, dtype: DType, value: ir.Value, other: ir.Value) -> ir.Value:
    """Whether a value comes before another; NaN comes after all numbers."""
    greater = compare(e, dtype, ">", value, other)
    if not is_real(dtype):
        return greater
    b = e.builder
    is_number, is_nan = b.fcmp_ordered("ord", value, value), b.fcmp_unordered("uno", other, other)
    return b.or_(greater, b.and_(is_number, is_nan))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of which the greatest elements are wanted, in order."""

    node: Node[TopKV2]
    x: Value
    k: int
    kinds: tuple[DType, DType]
    """Of elements and of their places."""
    sinks: tuple[Sink, ...]

    @property
    def length(self) -> int:
        """Of a row."""
        return self.x.shape[-1]

    def reserve(self, count: int) -> list[ir.Value]:
        """Scratch memory for so many elements and for their places."""
        return [reserve(self.node, bound(count), dtype) for dtype in self.kinds]

    def put(self, e: Emitter, index: Index, memory: list[ir.Value], first: ir.Value) -> None:
        """Gives the first k elements from a place of memory on."""
        with e.loop(self.k) as place:
            for sink, each, dtype in zip(self.sinks, memory, self.kinds, strict=True):
                sink(e, [*index, place], e.load(each, dtype, e.builder.add(first, place)))

    def insert(self, e: Emitter, index: Index, kept: list[ir.Value]) -> None:
        """Inserts each element that leads the last one kept, and moves those after it on; so rows of which few elements
        lead take one comparison an element."""
        b, (dtype, _) = e.builder, self.kinds
        moving, is_placed = [Register(e, register_type(each)) for each in self.kinds], Register(e, I1)
        with e.loop(self.length) as turn:
            value = self.x.element(e, [*index, turn])
            is_full = b.icmp_signed(">=", turn, e.number(self.k))
            last = e.load(kept[0], dtype, e.number(self.k - 1))
            with b.if_then(b.or_(b.not_(is_full), _leads(e, dtype, value, last))):
                moving[0].set(value)
                moving[1].set(convert(e, turn, e.index_dtype, self.kinds[1]))
                is_placed.set(ir.Constant(I1, False))
                with e.loop(self.k) as place:
                    olds = [e.load(memory, each, place) for memory, each in zip(kept, self.kinds, strict=True)]
                    is_free = b.icmp_signed(">=", place, turn)
                    moves = b.or_(b.or_(is_free, is_placed.get()), _leads(e, dtype, moving[0].get(), olds[0]))
                    for memory, each, register, old in zip(kept, self.kinds, moving, olds, strict=True):
                        e.store(e.select(moves, register.get(), old), memory, each, place)
                        register.set(e.select(moves, old, register.get()))
                    is_placed.set(moves)
        self.put(e, index, kept, e.number(0))

    def merge(self, e: Emitter, index: Index, memory: list[ir.Value]) -> None:
        """Sorts a row, in memory for two."""
        with e.loop(self.length) as turn:
            e.store(self.x.element(e, [*index, turn]), memory[0], self.kinds[0], turn)
            e.store(convert(e, turn, e.index_dtype, self.kinds[1]), memory[1], self.kinds[1], turn)
        merge = Merge(e, tuple(zip(memory, self.kinds, strict=True)),
                      lambda one, other: _leads(e, self.kinds[0], one[0], other[0]))
        self.put(e, index, memory, merge.sort(e.number(self.length)))


def _rows(node: Node[TopKV2], sinks: tuple[Sink, ...]) -> _Rows:
    x = node.input(0)
    return _Rows(node, x, node.shape[-1], (x.dtype, node.call.outputs[1].dtype), sinks)


@nest(TopKV2, all_of(movable, _large, _short), frozenset(), frozenset({1}), name="insertion")
def top_k(node: Node[TopKV2], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n): the k greatest of each row, in order, and where they are, (..., k) each."""
    rows = _rows(node, sinks)
    if not rows.k:
        return
    kept = rows.reserve(rows.k)
    with e.nest(node.shape[:-1]) as index:
        rows.insert(e, index, kept)


@nest(TopKV2, movable, frozenset(), frozenset({1}), name="merge")
def sorted_rows(node: Node[TopKV2], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """The same for any k: by insertion where the run tells that it is small, and rows much longer."""
    rows, b = _rows(node, sinks), e.builder
    memory = rows.reserve(2 * rows.length)
    with e.nest(node.shape[:-1]) as index:
        if not is_length(rows.k):
            rows.merge(e, index, memory)
            return
        k = e.number(rows.k)
        is_small = b.and_(b.icmp_signed("<=", k, e.number(MOST)), b.and_(
            b.icmp_signed(">", k, e.number(0)), b.icmp_signed("<=", b.mul(k, e.number(LONGER)), e.number(rows.length))))
        with b.if_else(is_small) as (small, large):
            with small:
                rows.insert(e, index, memory)
            with large:
                rows.merge(e, index, memory)


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
