"""Native rule of sliding reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod

from llvmlite import ir

from circlet.backends.cpu.reduce_window import refuses
from circlet.backends.native.emit.emitter import I1, Emitter
from circlet.backends.native.emit.loops import Carried, carry
from circlet.backends.native.emit.parallel import parallel_every
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.rules.real.elementwise import Combine, greatest, least, plus, times
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ops.reduce_window import Combination, CombineWindow
from circlet.runtime.ops.window import Window

_UNROLLED = 64
"""Elements of windows that are written out one by one; a choice, which bounds the code."""
_COMBINE: Mapping[Combination, Combine] = {
    Combination.ADD: plus, Combination.MULTIPLY: times, Combination.MAXIMUM: greatest, Combination.MINIMUM: least,
    Combination.AND: times, Combination.OR: plus,
}


def _spreads(call: Call) -> str | None:
    """Refuses elements with others between them."""
    assert isinstance(call.op, CombineWindow)
    return None if all(each == 1 for each in call.op.base_dilations) else "base_dilations"


@nest(CombineWindow, all_of(plain, refuses, _spreads), memory_inputs=frozenset({0, 1}))
def combine_window(node: Node[CombineWindow], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and an initial value: for each position of the window what it covers, combined in order, where the initial
    value stands for what lies outside of x."""
    x, dtype, combine = node.input(0), node.call.outputs[0].dtype, _COMBINE[node.op.combination]
    windows, initial = node.op.windows(x.shape), node.input(1).reshaped(()).scalar(e)
    sizes = tuple(each.size for each in windows)

    def give(index: Index) -> None:
        starts = [e.builder.sub(e.builder.mul(each, e.number(window.stride)), e.number(window.before))
                  for each, window in zip(index, windows, strict=True)]

        def take(element: Sequence[ir.Value], value: ir.Value) -> ir.Value:
            place, is_inside = _place(e, windows, starts, element)
            found = x.element(e, place)
            return combine(e, dtype, [value, e.select(is_inside, found, initial)])

        if prod(sizes) <= _UNROLLED:
            value = reduce(lambda value, each: take([e.number(k) for k in each], value),
                           product(*map(range, sizes)), initial)
        else:
            def turn(number: ir.Value, values: Carried) -> Carried:
                return [take(e.delinear(number, sizes), values[0])]

            (value,) = carry(e, e.number(prod(sizes)), [initial], turn)
        sinks[0](e, [*index], value)

    parallel_every(e, node.shape, 4 * prod(node.shape) * prod(sizes), give)


def _place(e: Emitter, windows: Sequence[Window], starts: Sequence[ir.Value], element: Sequence[ir.Value]
           ) -> tuple[list[ir.Value], ir.Value]:
    """The place of an element of the window in the input, and whether there is one; where not, a place that there is,
    too."""
    b, places, is_inside = e.builder, list[ir.Value](), ir.Constant(I1, True)
    for window, start, k in zip(windows, starts, element, strict=True):
        place = b.add(start, b.mul(k, e.number(window.dilation)))
        if window.is_padded:
            fits = b.icmp_unsigned("<", place, e.number(window.length))
            place, is_inside = b.select(fits, place, e.number(0)), b.and_(is_inside, fits)
        places.append(place)
    return places, is_inside
