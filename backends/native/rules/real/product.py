"""Products of float32 as operators need them: packed weights, bias, activation, epilogue."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import float_range
from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.microkernel import FLOAT32
from circlet.backends.native.gemm.operands import Direct, Filtered, Left, Panels, Put, Result
from circlet.backends.native.gemm.packing import copy_panels, transpose_panels
from circlet.backends.native.gemm.plan import CACHE, Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.gemm.stored import Reals
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules import scaled
from circlet.backends.native.rules.function import kept
from circlet.backends.native.rules.real.elementwise import activate, refuses_activation
from circlet.backends.native.rules.refusals import tensors
from circlet.backends.native.rules.rule import Node, Sink
from circlet.backends.native.targets.target import Goal
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_length, is_open
from circlet.runtime.ir.types import Activation, Array, DType, Shape
from circlet.runtime.passes.analyses.compressed import Compressed
from circlet.runtime.records import replace

_FEW_TILES = 2
"""Tiles of rows for which a right factor beyond `gemm.product.CACHE` is read where it lies rather than packed first. A
cautious value: for 512 x 512 both ways break even between 5 and 9 tiles on AVX2, near 25 on AVX-512, where packing
takes a third longer with 3 tiles. Beyond, packing gains up to 15 % on AVX2."""
_SOME_TILES = 16
"""The same, if the right factor fits into the cache: for 256 x 256 both ways break even between 9 and 17 tiles on AVX2,
near 25 on AVX-512; neither is more than 9 % from the other there."""
_PAGE = 4096
"""Rows as many bytes apart, or a multiple, share the same few places of the first-level cache: 64 sets of lines of 64
bytes."""
_MANY_PANELS = 16
"""Panels that make up for a copy of the rows. Where it was introduced, products of depth 1024 lost a tenth against
those of depth 1040; on one AVX-512 processor with 12 places for each such line, a copy costs up to 2 % with this many
panels, 8 % with 4."""
_FEW_OF_HALVES, _FEW_OF_INTEGERS = 16, 4
"""Rows for which a right factor whose numbers float16 has is kept so, and one that is made of integers as these. On
AVX-512, a decoder of 25 million weights that are halves takes 0.4, 0.35, 0.64 and 0.97 of the time with 1, 2, 4 and 8
rows, as much with 16 and 64, and 1.015 with 256; convolutions of 16 to 3136 places, whose factors fit into the cache or
not, take 1.2 to 1.4 of it on another processor where each tile widens them, and 0.92 to 1.08 where the first one does
so for others, but 1.15 where these are few. Of bytes
it takes 0.49, 0.45, 0.67, 1.05 to 1.1, 1.05, and between 0.99 and 1.02 with more."""
_HALVES, _OPEN_HALVES = 1 << 16, 1 << 18
"""Bytes, as float32, from which on it is, and where the number of rows is open: below they fit into the cache."""
CLAMPS = frozenset({Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1})
"""The activations that limit a result to an interval."""


def refuses(call: Call, first: int = 0) -> str | None:
    """Refuses all but float32, from input `first` on, and some activations."""
    found = refuses_activation(call)
    if found is not None:
        return found
    for what, each in tensors(call, first):
        if each.dtype is not DType.FLOAT32:
            return f"element type {each.dtype.value} of {what} (supported: float32)"
        if each.sparsity is not None:
            return f"{what} is sparse"
    return None


class FloatProduct:
    """Products whose results have the shape (*rows, columns), one for each index of the shape `outer`."""

    def __init__(self, node: Node[Any], e: Emitter, shape: Shape, depth: int, outer: Shape = ()) -> None:
        self._node = node
        self._e = e
        self._outer, self._rows = outer, shape[:-1]
        self.plan = Plan.of(e.target, FLOAT32, prod(self._rows), shape[-1], depth)

    def matrix(self, source: Array, is_transposed: bool = True) -> Panels:
        """As `known`, of a matrix by which rows without taps are multiplied; as the integers that it is made of, where
        that is to be."""
        found = self._scaled(source, is_transposed)
        return self.known(source, is_transposed) if found is None else found

    def known(self, source: Array, is_transposed: bool = True) -> Panels:
        """A constant right factor: (columns, depth) if it is transposed, else (depth, columns); kept in as many bits as
        the model has, where that is to be."""
        plan, function = self.plan, self._node.function

        def pack(matrix: Array) -> Array:
            shape = (plan.columns, plan.depth)
            matrix = matrix.reshape(shape) if is_transposed else matrix.reshape(shape[::-1]).T
            return plan.pack(matrix, function.blocks.allocate)

        if self._are_halves(source):
            use = "panels of halves", plan.panel, plan.depth, is_transposed
            halves = function.derived(source, use, lambda matrix: pack(matrix.astype(np.float16)))
            return plan.packed(function.external(halves), Reals(DType.FLOAT16))
        axis, narrow = 0 if is_transposed else source.ndim - 1, function.narrow(source)
        stored = None if narrow is None else narrow.columns(axis)
        if narrow is None and plan.last_columns < plan.panel and self._e.target.goal is not Goal.HERE:
            return self._compact(source, is_transposed)
        if narrow is None or stored is None:
            use = "panels", plan.panel, plan.depth, is_transposed
            return plan.packed(function.external(function.derived(source, use, pack)))
        units = narrow.units(plan.panels * plan.panel, plan.panel)
        return plan.packed(function.external(stored.kept(pack(narrow.stored))), stored,
                           function.external(units) if units.size else None, stored.unit_bytes(plan.panel))

    def _are_halves(self, source: Array) -> bool:
        """Whether a constant right factor is kept as float16."""
        return self._is_read(source, _FEW_OF_HALVES) and self._node.function.are_halves(source)

    def _is_read(self, source: Array, few: int) -> bool:
        """Whether a constant right factor is read about once for each time it is needed, by few rows, and does not fit
        into the cache, on a processor that widens numbers fast: with SSE2 alone bytes take 1.5 times as long."""
        rows, target = self.plan.rows, self._e.target
        least = _OPEN_HALVES if is_length(rows) else _HALVES
        is_often = is_length(rows) or rows <= few
        return target.goal is Goal.HERE and target.has_halves and is_often and source.nbytes >= least

    def _scaled(self, source: Array, is_transposed: bool) -> Panels | None:
        """A constant right factor that is kept as the integers which it is made of; None if it is not."""
        plan, function = self.plan, self._node.function
        found = function.compressed(source) if self._is_read(source, _FEW_OF_INTEGERS) else None
        stored = None if found is None else scaled.kept(found, is_transposed, plan.lanes)
        if stored is None:
            return None

        def made(matrix: Array) -> Compressed:
            each = function.compressed(matrix)
            assert each is not None, "operators are alike whose constants are kept alike"
            return each

        use = stored, plan.panel, is_transposed
        panels = function.derived(source, ("panels", *use), lambda matrix: scaled.panels(
            made(matrix), stored, plan, is_transposed, function.blocks.allocate))
        units = function.derived(source, ("units", *use), lambda matrix: scaled.units(
            made(matrix), plan, is_transposed))
        groups = plan.depth // (stored.group or plan.depth)
        return plan.packed(function.external(panels), stored, function.external(units),
                           groups * stored.unit_bytes(plan.panel))

    def multiply(self, left: Left, panels: Panels, start: ir.Value, result: Result) -> None:
        """The product. Of panels that are kept otherwise than as words, the first tile of an open number of rows leaves
        these to those that follow."""
        plan, function = self.plan, self._node.function
        if panels.stored is not None and plan.split.is_open and self._e.target.goal is Goal.HERE:
            units, size = (plan.depth, 1) if left.taps is None else (left.taps[1], left.run // WORD)
            most = (plan.chunks(units).size + 1) * size
            panels = replace(panels, words=function.scratch(most * plan.panel * WORD))
        multiply(self._e, plan, left, panels, start, result)

    def _compact(self, source: Array, is_transposed: bool) -> Panels:
        """A constant right factor whose last panel takes hardly more memory than the model has it in."""
        plan, function = self.plan, self._node.function

        def pack(matrix: Array) -> Array:
            shape = (plan.columns, plan.depth)
            return plan.pack_compact(matrix.reshape(shape) if is_transposed else matrix.reshape(shape[::-1]).T)

        use = "compact panels", plan.panel, plan.depth, is_transposed
        memory = function.external(function.derived(source, use, pack))
        return replace(plan.packed(memory), is_compact=True)

    def reserve(self) -> ir.Value:
        """Memory for a packed right factor."""
        return self._node.function.reserve(self.plan.panels * self.plan.panel_bytes)

    def packed(self, source: ir.Value, scratch: ir.Value, is_transposed: bool) -> Panels:
        """A right factor in memory, packed in scratch memory as far as need be: (columns, depth) if it is transposed,
        else (depth, columns)."""
        plan = self.plan
        if is_transposed:
            transpose_panels(self._e, plan, source, scratch)
            return plan.packed(scratch)
        if is_open((plan.rows, plan.columns, plan.depth)):
            is_copied = is_length(plan.columns) or plan.columns != plan.panel
        else:
            fits = plan.panels * plan.panel_bytes <= CACHE
            is_copied = plan.split.parts > (_SOME_TILES if fits else _FEW_TILES)
        if is_copied:
            copy_panels(self._e, plan, source, scratch)
            return plan.packed(scratch)
        return Panels(source, plan.panel * WORD, plan.columns * WORD, is_packed=False)

    def rows(self, step: int) -> Callable[[ir.Value], Left]:
        """What makes rows at equal distances the left factor; where they would drive each other out of the cache, a
        copy of them in which they do not: a loop over the rows copies each.

        Args:
            step: the distance in bytes, which is also the length.
        """
        e, plan = self._e, self.plan
        if is_open((step, plan.rows, plan.columns)) or (
                step % _PAGE or plan.split.parts == 1 or plan.panels < _MANY_PANELS):
            return lambda memory: Left.even(e, plan.split, memory, step, step)
        apart = step + plan.lanes * WORD
        copied = self._node.function.reserve(plan.rows * apart)

        def copy(memory: ir.Value) -> Left:
            with rolled(e, plan.rows) as k:
                source, target = (e.address(base, I8, e.builder.mul(k, e.number(distance)))
                                  for base, distance in ((memory, step), (copied, apart)))
                e.copy(target, source, step)
            return Left.even(e, plan.split, copied, apart, step)

        return copy

    def start(self, bias: Value | None) -> ir.Value:
        """What the sums begin with, an element for each column: the bias (columns,) or zeros."""
        function, plan, kind = self._node.function, self.plan, np.dtype(np.float32)
        if bias is None and is_length(plan.columns):
            return self._zeros()
        if bias is None:
            return kept(function, plan.pack_row(None, kind))
        if bias.known is not None and function.narrow(bias.known) is None:
            use = "row", plan.panel, plan.panels
            return kept(function, function.derived(bias.known, use, lambda known: plan.pack_row(known, kind)))
        memory = self._zeros()
        function.write(bias, memory)
        return memory

    def _zeros(self) -> ir.Value:
        """What sums begin with where there is no bias, or behind one."""
        memory = self._node.function.reserve(self.plan.panels * self.plan.panel * WORD)
        with independent(self._e, self.plan.panels * self.plan.panel) as column:
            self._e.store(ir.Constant(FLOAT32.total, 0), memory, DType.FLOAT32, column)
        return memory

    def put(self, sink: Sink, activation: Activation = Activation.NONE, outer: Index = ()) -> Put:
        """What passes on a result for an outer index."""
        return lambda e, row, column, value: sink(
            e, [*outer, *e.delinear(row, self._rows), column], activate(e, value, DType.FLOAT32, activation))

    def result(self, sink: Sink, activation: Activation = Activation.NONE, outer: Index = ()) -> Result:
        """Where the results for an outer index go."""
        e = self._e
        if sink.memory is None or activation not in CLAMPS:
            return Filtered(self._node.function.scratch(self.plan.tile_bytes), self.put(sink, activation, outer))
        size = self.plan.rows * self.plan.columns
        position = e.builder.mul(e.linear(outer, self._outer), e.number(size))
        bounds = [ir.Constant(FLOAT32.total, each) for each in float_range(activation)]
        limits = None if activation is Activation.NONE else (bounds[0], bounds[1])
        return Direct(e.address(sink.memory, FLOAT32.total, position), self.plan.columns * WORD, limits)


def packed_each(node: Node[Any], e: Emitter, plan: Plan, source: ir.Value, count: int) -> ir.Value:
    """So many matrices (columns, depth) that lie one behind another, which only a run tells, as packed panels in
    scratch memory."""
    target = node.function.reserve(count * plan.panels * plan.panel_bytes)
    size = plan.columns * plan.depth * WORD
    with rolled(e, count) as k:
        given, made = (e.address(memory, I8, e.builder.mul(k, e.number(size))) for memory, size in (
            (source, size), (target, plan.panels * plan.panel_bytes)))
        transpose_panels(e, plan, given, made)
    return target
