"""Rows that one vector register holds: all elements of a row are computed at once, and nothing is kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import POINTER, Emitter, register_type
from circlet.backends.native.emit.lanes import Function, Lanes
from circlet.backends.native.emit.loops import branch, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.rules.row_vectors import Combine, RowVectors, in_every_lane
from circlet.backends.native.rules.rule import Node, Sink
from circlet.backends.native.targets.constants import Uniform
from circlet.runtime.ir.length import is_length
from circlet.runtime.records import dataclass

_RUN = 256
"""Rows of a call, between which code can look whether it must stop. A choice."""
_WORK = 16
"""That of making a byte of the result, as `parallel.portion` counts it."""
_PARTS = (1, 2, 4)
"""What parts of a register rows are taken for, the largest first. Of 2000 rows of 4 floats on AVX-512 a softmax takes
19 us with quarters of registers, 22 with halves, 27 with a loop over elements."""


@dataclass(frozen=True, eq=False)
class ShortRow:
    """A row in a register.

    Attributes:
        elements: of the row; in the lanes behind them zeros.
        mask: an i1 for each lane, whether it has an element.
        vectors: how it is loaded and combined.
    """

    elements: Lanes
    mask: Lanes
    vectors: RowVectors

    def combined(self, combine: Combine, values: Lanes, nothing: float) -> Lanes:
        """All values in lanes with elements combined; `nothing` changes nothing."""
        kept = self.mask.where(values, nothing)
        return Lanes(values.e, self.vectors.over_lanes(values.e, combine, kept.value))

    def total(self, values: Lanes) -> Lanes:
        """The sum of all values in lanes with elements: by halves, so that zeros behind them, as many as there are, do
        not change a bit."""
        return self.combined(lambda e, one, other: e.builder.fadd(one, other), values, 0.0)

    def every(self, value: Lanes) -> Lanes:
        """A number in every lane."""
        e = value.e
        return Lanes(e, in_every_lane(e, value.value, ir.VectorType(value.value.type, self.vectors.lanes)))


def applied(function: Function, value: Lanes) -> Lanes:
    """A function of registers on lanes."""
    return Lanes(value.e, function(value.e, value.value))


Formula: TypeAlias = "Callable[[ShortRow], Lanes]"
"""From a row to that of the result."""


def by_short_rows(node: Node[Any], e: Emitter, sink: Sink, name: str, formula: Formula,
                  otherwise: Callable[[], None]) -> None:
    """Makes a result of the shape of input 0 from rows of the last axis by a formula of a name, where a register holds
    one, and both lie in memory; a loop over runs of rows, shared out. `otherwise` emits what does where not."""
    x, length = node.input(0), node.shape[-1]
    vectors = RowVectors.of(e, x)
    if vectors is None or sink.memory is None:
        otherwise()
        return
    call = partial(_call, node, e, sink.memory, name, formula, vectors)
    branch(e, Whole(e, length).compare("<=", vectors.lanes), call, otherwise)


def _call(node: Node[Any], e: Emitter, target: ir.Value, name: str, formula: Formula, vectors: RowVectors) -> None:
    """Calls the function for rows of these lengths, of some rows at a time."""
    *outer, length = node.shape
    widths = [vectors.lanes // parts for parts in _PARTS]
    if not is_length(length):
        widths = [min(each for each in widths if each >= length)]
    rows, b, kind = prod(outer), e.builder, register_type(vectors.dtype)
    function = _function(e, name, formula, [replace(vectors, lanes=each) for each in widths])
    with parallel(e, -(-rows // _RUN), _WORK * node.input(0).nbytes) as number:
        first = b.mul(number, e.number(_RUN))
        count = e.intrinsic("smin", b.sub(e.number(rows), first), e.number(_RUN))
        begin = b.mul(first, e.number(length))
        source, home = (e.address(each, kind, begin) for each in (vectors.memory, target))
        b.call(function, [source, home, count, e.number(length)])


def _function(e: Emitter, name: str, formula: Formula, vectors: Sequence[RowVectors]) -> ir.Function:
    """`void(source, target, rows, length)`, which is the same in all layers: a loop over rows for each width of
    vectors, the widest first, of which the narrowest that holds a row is taken."""
    name = "_".join((name, "of", *(str(each.lanes) for each in vectors)))
    if name in e.module.globals:
        return e.module.globals[name]
    function = internal_function(e, name, [POINTER, POINTER, e.index, e.index], VectorLoop)
    inner = Emitter(e.module, function, e.target)
    length = Whole(inner, function.args[3])
    chosen, *others = (partial(_rows, inner, each, formula) for each in vectors)
    for narrow, rows in zip(vectors[1:], others, strict=True):
        chosen = partial(branch, inner, length.compare("<=", narrow.lanes), rows, chosen)
    chosen()
    inner.builder.ret_void()
    return function


def _rows(e: Emitter, vectors: RowVectors, formula: Formula) -> None:
    """The loop over rows."""
    source, target, rows, length = e.function.args
    reads, writes = replace(vectors, memory=source), replace(vectors, memory=target)
    mask, nothing = reads.mask(e, length), Uniform(reads.kind, 0.0)
    with rolled(e, rows) as number:
        begin = e.builder.mul(number, length)
        elements = Lanes(e, reads.load_masked(e, begin, mask, nothing))
        writes.store_masked(e, formula(ShortRow(elements, Lanes(e, mask), reads)).value, begin, mask)
