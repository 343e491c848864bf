"""Native rules of operators that order elements."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, Emitter, is_real, register_type
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.elementwise import compare
from circlet.backends.native.rules.real.reduce import Register, reserve
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.sort import TopKV2

MOST = 64
"""The most elements that are kept in order by insertion; a call of numpy sorts more. On random floats it takes, with 64
of 10000, 0.08 of numpy's time on AVX2 and 0.25 on AVX-512, and breaks even beyond 256 and near 140; of 1000 it breaks
even near 85 and near 35."""


def _large(call: Call) -> str | None:
    """Refuses a k that is large, or that only a run can tell."""
    k = call.input(1).data
    if k is None or k.size != 1:
        return "k is not constant"
    return None if int(k.item()) <= MOST else f"k is {k.item()} (supported: up to {MOST})"


def _leads(e: Emitter, dtype: DType, value: ir.Value, other: ir.Value) -> ir.Value:
    """Whether a value comes before another; NaN comes after all numbers."""
    greater = compare(e, dtype, ">", value, other)
    if not is_real(dtype):
        return greater
    b = e.builder
    is_number, is_nan = b.fcmp_ordered("ord", value, value), b.fcmp_unordered("uno", other, other)
    return b.or_(greater, b.and_(is_number, is_nan))


@nest(TopKV2, all_of(movable, _large), frozenset(), frozenset({1}))
def top_k(node: Node[TopKV2], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n): the k greatest of each row, in order, and where they are, (..., k) each.

    For each row, in turn: inserts each element that leads the last one kept, in scratch memory, and moves those after
    it on; so rows of which few elements lead take one comparison an element.
    """
    x, (*rows, k), b = node.input(0), node.shape, e.builder
    if not k:
        return
    kinds = (x.dtype, node.call.outputs[1].dtype)
    kept = [reserve(node, k, dtype) for dtype in kinds]
    moving, is_placed = [Register(e, register_type(dtype)) for dtype in kinds], Register(e, I1)
    with e.nest(tuple(rows)) as index:
        with e.loop(x.shape[-1]) as turn:
            value = x.element(e, [*index, turn])
            is_full = b.icmp_signed(">=", turn, e.number(k))
            last = e.load(kept[0], x.dtype, k - 1)
            with b.if_then(b.or_(b.not_(is_full), _leads(e, x.dtype, value, last))):
                moving[0].set(value)
                moving[1].set(convert(e, turn, e.index_dtype, kinds[1]))
                is_placed.set(ir.Constant(I1, False))
                with e.loop(k) as place:
                    olds = [e.load(memory, dtype, place) for memory, dtype in zip(kept, kinds, strict=True)]
                    is_free = b.icmp_signed(">=", place, turn)
                    moves = b.or_(b.or_(is_free, is_placed.get()), _leads(e, x.dtype, moving[0].get(), olds[0]))
                    for memory, dtype, register, old in zip(kept, kinds, moving, olds, strict=True):
                        e.store(e.select(moves, register.get(), old), memory, dtype, place)
                        register.set(e.select(moves, old, register.get()))
                    is_placed.set(moves)
        with e.loop(k) as place:
            for sink, memory, dtype in zip(sinks, kept, kinds, strict=True):
                sink(e, [*index, place], e.load(memory, dtype, place))
