"""Native rules of softmax and the normalisations of float32 tensors."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from math import inf, prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit import math
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.lanes import Lanes
from circlet.backends.native.emit.loops import fold, spread
from circlet.backends.native.emit.parallel import parallel, parallel_nest, parallel_nests
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.real.elementwise import activate, maximum, refuses_activation
from circlet.backends.native.rules.real.reduce import REORDERED, Register, reserve, reserve_row
from circlet.backends.native.rules.row_vectors import Combine, Of, RowVectors
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.rules.short_rows import ShortRow, applied, by_short_rows
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_length
from circlet.runtime.ir.types import Activation, DType, Shape
from circlet.runtime.ops.normalize import (
    InstanceNorm,
    L2Normalization,
    LocalResponseNormalization,
    LogSoftmax,
    RmsNorm,
    Softmax,
)

FLOAT = DType.FLOAT32
"""What the rules compute with."""


_SIZE = FLOAT.numpy.itemsize
_refuses = all_of(refuses_activation, only((FLOAT,)))
"""Refuses what `refuses_activation` does, and all but float32."""


class Row:
    """A row of the last axis that is read more than once; computed elements are kept when they are read first."""

    def __init__(self, node: Node[Any], e: Emitter, memory: ir.Value | None = None) -> None:
        self._x, self._e = node.input(0), e
        self.length = self._x.shape[-1]
        computed = self._x.memory is None
        self.is_stored = computed
        self._memory = (memory or reserve_row(node, self.length, FLOAT)) if computed else None
        self._vectors = RowVectors.of(e, self._x)

    def each(self, outer: Shape, work: int, turn: Callable[[Row, Index], None]) -> None:
        """A loop for each outer axis, shared out as `parallel_nest` does it, for each number of elements that there are
        other vectors for: a turn is given the row that knows these, and its index."""
        with parallel_nests(self._e, outer, work) as loops:
            def rows(vectors: RowVectors | None) -> None:
                row = copy(self)
                row._vectors = vectors
                with loops() as index:
                    turn(row, index)

            if self._vectors is None:
                rows(None)
            else:
                self._vectors.by_length(self._e, Whole(self._e, self.length), rows)

    @property
    def most(self) -> int | None:
        """The most elements that there are, if one vector holds them and only a run knows how many."""
        found = self._vectors
        return found.lanes if found is not None and found.has_row and is_length(self.length) else None

    def first(self, index: Index) -> ir.Value:
        """An element that is read for the first time, and kept if it is computed."""
        value = self._x.element(self._e, index)
        if self._memory is not None:
            self._e.store(value, self._memory, FLOAT, index[-1])
        return value

    def again(self, index: Index) -> ir.Value:
        """An element that was read before."""
        if self._memory is None:
            return self._x.element(self._e, index)
        return self._e.load(self._memory, FLOAT, index[-1])

    def total(self, outer: Index, function: Of) -> ir.Value:
        """The sum of a function of the elements, which are read for the first time."""
        def add(e: Emitter, one: ir.Value, other: ir.Value) -> ir.Value:
            return e.builder.fadd(one, other, flags=REORDERED)

        return self._combined(outer, add, 0.0, function)

    def greatest(self, outer: Index) -> ir.Value:
        """The greatest element, read for the first time; any number or NaN if one of them is NaN."""
        found = self._combined(outer, _greater, -inf, lambda value: _ordered(Lanes(self._e, value).bits()).value)
        return _ordered(Lanes(self._e, found)).real().value

    def _combined(self, outer: Index, combine: Combine, start: float, function: Of) -> ir.Value:
        """A function of the elements, combined; that of `start` changes nothing."""
        e, nothing = self._e, function(self._e.constant(start, FLOAT))
        if self._vectors is not None:
            begin = e.linear([*outer, e.number(0)], self._x.shape)
            return self._vectors.combined(e, combine, start, begin, Whole(e, self.length), function)
        register = Register(e, nothing.type)
        register.set(nothing)
        fold(e, self.length, lambda k: register.set(combine(e, register.get(), function(self.first([*outer, k])))),
             self.is_stored, 1 if self.is_stored else _SIZE)
        return register.get()


def _ordered(pattern: Lanes) -> Lanes:
    """The patterns of floats as integers in the order of these numbers, or these integers as patterns again: registers
    find the greatest of many integers faster, as there is no NaN to be told apart. Negative patterns have all bits but
    the sign turned over, as in radix sorts of floats (Herf 2001)."""
    return pattern ^ (pattern >> 31).shift_right(1)


def _below(row: ShortRow) -> Lanes:
    """How far elements are below the greatest one, where that is as `Row.greatest` has it."""
    e, patterns = row.elements.e, _ordered(row.mask.where(row.elements, -inf).bits())
    most = row.vectors.over_lanes(e, _greater, patterns.value)
    return row.elements - row.every(_ordered(Lanes(e, most)).real())


def _greater(e: Emitter, one: ir.Value, other: ir.Value) -> ir.Value:
    """The greater ones of signed integers."""
    return e.intrinsic("smax", one, other)


@nest(Softmax, _refuses, frozenset())
def softmax(node: Node[Softmax], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), float32, the same shape, row by row, shared out."""
    beta = np.float32(node.op.beta)
    name = "softmax" if beta == 1 else f"softmax_by_{beta.view(np.uint32):x}"

    def of_row(row: ShortRow) -> Lanes:
        below = _below(row)
        powers = applied(math.exp, below if beta == 1 else below * float(beta))
        return powers * row.every(1.0 / row.total(powers))

    by_short_rows(node, e, sinks[0], name, of_row, lambda: _softmax_by_loops(node, e, sinks[0]))


def _softmax_by_loops(node: Node[Softmax], e: Emitter, sink: Sink) -> None:
    """Of each row three loops: for the greatest element; for the exponentials of what is below it, kept in scratch
    memory (n,), and their sum; for their products with its reciprocal."""
    *outer, length = node.shape
    memory, total = reserve_row(node, length, FLOAT), Register(e, ir.FloatType())
    row, b, beta = Row(node, e, memory), e.builder, np.float32(node.op.beta)
    with parallel_nest(e, tuple(outer), 16 * node.input(0).nbytes) as index:
        most = row.greatest(index)
        total.set(e.constant(0, FLOAT))

        def turn(k: ir.Value) -> None:
            below = b.fsub(row.again([*index, k]), most)
            value = math.exp(e, below if beta == 1 else b.fmul(below, e.constant(beta, FLOAT)))
            e.store(value, memory, FLOAT, k)
            total.set(b.fadd(total.get(), value, flags=REORDERED))

        fold(e, length, turn, row.is_stored, _SIZE)
        share = b.fdiv(e.constant(1, FLOAT), total.get())
        spread(e, length, lambda k: sink(e, [*index, k], b.fmul(e.load(memory, FLOAT, k), share)))


@nest(LogSoftmax, _refuses, frozenset())
def log_softmax(node: Node[LogSoftmax], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), float32, the same shape, row by row, shared out."""
    by_short_rows(node, e, sinks[0], "log_softmax", _log_softmax_of, lambda: _log_softmax_by_loops(node, e, sinks[0]))


def _log_softmax_of(row: ShortRow) -> Lanes:
    """The result of a row."""
    below = _below(row)
    return below - row.every(applied(math.log, row.total(applied(math.exp, below))))


def _log_softmax_by_loops(node: Node[LogSoftmax], e: Emitter, sink: Sink) -> None:
    """Of each row three loops: for the greatest element, for the sum of exponentials, and for the differences from both
    logarithms."""
    *outer, length = node.shape
    row, total, b = Row(node, e), Register(e, ir.FloatType()), e.builder
    with parallel_nest(e, tuple(outer), 16 * node.input(0).nbytes) as index:
        most = row.greatest(index)
        total.set(e.constant(0, FLOAT))

        def turn(k: ir.Value) -> None:
            value = math.exp(e, b.fsub(row.again([*index, k]), most))
            total.set(b.fadd(total.get(), value, flags=REORDERED))

        fold(e, length, turn, row.is_stored, _SIZE)
        base = math.log(e, total.get())
        spread(e, length, lambda k: sink(e, [*index, k], b.fsub(b.fsub(row.again([*index, k]), most), base)))


def _square(e: Emitter) -> Callable[[ir.Value], ir.Value]:
    """Emits the square of an element."""
    return lambda value: e.builder.fmul(value, value)


def _any_activation(call: Call) -> str | None:
    """Refuses a fused activation, which LiteRT's kernel knows no more than ours."""
    assert isinstance(call.op, L2Normalization)
    found = call.op.fused_activation_function
    return None if found is Activation.NONE else f"fused activation {found.name}"


@nest(L2Normalization, all_of(_refuses, _any_activation), frozenset())
def l2_normalization(node: Node[L2Normalization], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), float32, the same shape: each row divided by the root of the sum of its squares, or by 1e-6 if
    that is less, as in TFLite's `L2Normalization`."""
    *outer, length = node.shape

    def turn(row: Row, index: Index) -> None:
        norm = e.intrinsic("sqrt", row.total(index, _square(e)))
        divisor = maximum(e, FLOAT, [norm, e.constant(1e-6, FLOAT)])
        spread(e, length, lambda k: sinks[0](e, [*index, k], e.builder.fdiv(row.again([*index, k]), divisor)), row.most)

    Row(node, e).each(tuple(outer), 4 * node.input(0).nbytes, turn)


WIDEST = 16
"""The largest radius of a local response normalisation that is native: a choice, which bounds the code, as up to 33
additions are written out."""


def _wide(call: Call) -> str | None:
    """Refuses a radius beyond `WIDEST`."""
    assert isinstance(call.op, LocalResponseNormalization)
    return None if call.op.radius <= WIDEST else f"radius {call.op.radius} (supported: up to {WIDEST})"


@nest(LocalResponseNormalization, all_of(_refuses, _wide), frozenset())
def local_response_normalization(node: Node[LocalResponseNormalization], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., c), float32, the same shape: x / (bias + alpha s) ** beta with the sum s of the squares around each
    element.

    For each row, shared out: squares go to scratch memory with `radius` zeros on both sides; then sums of 2 radius + 1
    of them are written out, of which LLVM makes vectors.
    """
    *outer, depth = node.shape
    op, b, row = node.op, e.builder, Row(node, e)
    radius = max(op.radius, 0) if is_length(depth) else min(max(op.radius, 0), depth)
    squares = reserve(node, depth + 2 * radius, FLOAT)
    bias, alpha = (e.constant(np.float32(each), FLOAT) for each in (op.bias, op.alpha))
    with parallel_nest(e, tuple(outer), 32 * node.input(0).nbytes) as index:
        for start in (0, depth + radius):
            with e.loop(radius) as k:
                e.store(e.constant(0, FLOAT), squares, FLOAT, b.add(k, e.number(start)))
        with e.loop(depth) as k:
            value = row.first([*index, k])
            e.store(b.fmul(value, value), squares, FLOAT, b.add(k, e.number(radius)))
        with e.loop(depth) as k:
            total = e.load(squares, FLOAT, k)
            for offset in range(1, 2 * radius + 1):
                total = b.fadd(total, e.load(squares, FLOAT, b.add(k, e.number(offset))), flags=REORDERED)
            factor = _reciprocal(e, op, b.fadd(b.fmul(total, alpha), bias))
            sinks[0](e, [*index, k], b.fmul(row.again([*index, k]), factor))


def _reciprocal(e: Emitter, op: LocalResponseNormalization, value: ir.Value) -> ir.Value:
    """1 / value ** beta; by roots, to 2 ULP, for the powers that networks have, if no value is negative."""
    b, one = e.builder, e.constant(1, FLOAT)
    if op.beta not in (0.5, 0.75, 1.0) or not (op.alpha >= 0 and op.bias > 0):
        return math.power(e, value, e.constant(np.float32(-op.beta), FLOAT))
    if op.beta == 1.0:
        return b.fdiv(one, value)
    root = e.intrinsic("sqrt", value)
    return b.fdiv(one, root if op.beta == 0.5 else b.fmul(root, e.intrinsic("sqrt", root)))


def _scale(e: Emitter, parameter: Value, channel: ir.Value) -> ir.Value:
    """What a parameter with one element for each channel, or one for all, is for a channel."""
    return parameter.linear(e, e.number(0) if prod(parameter.shape) == 1 else channel)


@nest(RmsNorm, _refuses, frozenset({1}))
def rms_norm(node: Node[RmsNorm], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), float32, the same shape: each row over the root of its mean square plus epsilon, times a scale.
    Two loops for each row, shared out."""
    *outer, length = node.shape
    row, b = Row(node, e), e.builder
    with parallel_nest(e, tuple(outer), 4 * node.input(0).nbytes) as index:
        mean = b.fdiv(row.total(index, _square(e)), e.constant(length, FLOAT))
        divisor = e.intrinsic("sqrt", b.fadd(mean, e.constant(np.float32(node.op.epsilon), FLOAT)))
        with e.loop(length) as k:
            value = b.fdiv(row.again([*index, k]), divisor)
            sinks[0](e, [*index, k], b.fmul(value, _scale(e, node.input(1), k)))


@nest(InstanceNorm, _refuses, None)
def instance_norm(node: Node[InstanceNorm], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n, h, w, c), float32, the same shape. For each image, shared out, reads it three times: for the mean, for
    the variance around it (the textbook's two passes, not Welford's), and to make the result; both lie in scratch
    memory (c,)."""
    x, gamma, beta = (node.input(k) for k in range(3))
    (images, height, width, channels), b = x.shape, e.builder
    mean, scale = reserve(node, channels, FLOAT), reserve(node, channels, FLOAT)
    size = e.constant(height * width, FLOAT)
    with parallel(e, images, 4 * x.nbytes) as image:
        for memory in (mean, scale):
            with e.loop(channels) as k:
                e.store(e.constant(0, FLOAT), memory, FLOAT, k)
        with e.nest((height, width)) as at, e.loop(channels) as k:
            total = b.fadd(e.load(mean, FLOAT, k), x.element(e, [image, *at, k]))
            e.store(total, mean, FLOAT, k)
        with e.loop(channels) as k:
            e.store(b.fdiv(e.load(mean, FLOAT, k), size), mean, FLOAT, k)
        with e.nest((height, width)) as at, e.loop(channels) as k:
            distance = b.fsub(x.element(e, [image, *at, k]), e.load(mean, FLOAT, k))
            e.store(b.fadd(e.load(scale, FLOAT, k), b.fmul(distance, distance)), scale, FLOAT, k)
        with e.loop(channels) as k:
            variance = b.fadd(b.fdiv(e.load(scale, FLOAT, k), size), e.constant(np.float32(node.op.epsilon), FLOAT))
            e.store(b.fdiv(_scale(e, gamma, k), e.intrinsic("sqrt", variance)), scale, FLOAT, k)
        with e.nest((height, width)) as at, e.loop(channels) as k:
            distance = b.fsub(x.element(e, [image, *at, k]), e.load(mean, FLOAT, k))
            value = b.fadd(b.fmul(distance, e.load(scale, FLOAT, k)), _scale(e, beta, k))
            sinks[0](e, [image, *at, k], activate(e, value, FLOAT, node.op.fused_activation_function))
