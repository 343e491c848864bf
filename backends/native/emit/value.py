"""What a tensor is while code is made: a function from an index to an element, and perhaps memory that holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter, memory_type
from circlet.backends.native.emit.layout.strided import Strided
from circlet.backends.native.emit.layout.transpose import copy_strided
from circlet.backends.native.emit.parallel import parallel_every, parallel_run, parallel_span
from circlet.backends.native.emit.positions import Index
from circlet.runtime.ir.length import alike, is_known, may_differ
from circlet.runtime.ir.types import Array, DType, Quantization, Shape
from circlet.runtime.records import dataclass

Element: TypeAlias = Callable[[Emitter, Index], ir.Value]
"""Emits the value of the element at an index."""
Linear: TypeAlias = Callable[[Emitter, ir.Value], ir.Value]
"""Emits the value of the element at a position in row-major order."""


_WORK = 3
"""How many bytes are read and written, or computed with, for each that is computed, as `portion` counts work: two for a
copy, and some arithmetic. A choice; 2 and 4 share out loops that are a third longer or shorter."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of known shape."""

    shape: Shape
    dtype: DType
    element: Element
    linear: Linear
    memory: ir.Value | None = None
    """Where it lies, contiguous; None where its elements are computed as they are read."""
    known: Array | None = None
    """The value itself, where it is constant."""
    quantization: Quantization | None = None
    flat: bool = False
    """`linear` divides nothing, so that one loop over all positions does."""
    fill: Callable[[Emitter, ir.Value], None] | None = None
    """Writes all elements to memory, where that is faster in another order than that of the axes."""
    strided: Strided | None = None
    """Where the elements lie, if they do in another order."""
    register: ir.Value | None = None
    """What holds the one element; None where it lies in memory, is computed as it is read, or is part of the code."""

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.numpy.itemsize

    @property
    def holder(self) -> ir.Value | None:
        """Where it lies, or the register that holds it."""
        return self.register if self.memory is None else self.memory

    @property
    def place(self) -> Strided | None:
        """Where the elements lie, in whatever order; None where they are computed."""
        return self.strided if self.memory is None else Strided.contiguous(self.memory, self.shape)

    def broadcast(self, shape: Shape) -> Element:
        """The elements by an index into `shape`, which this value's shape broadcasts to."""
        if alike(self.shape, shape):
            return self.element
        skipped = len(shape) - len(self.shape)
        fixed = [is_known(size, 1) for size in self.shape]

        def element(e: Emitter, index: Index) -> ir.Value:
            kept = [e.number(0) if one else each for each, one in zip(index[skipped:], fixed, strict=True)]
            return self.element(e, kept)

        return element

    def scalar(self, e: Emitter) -> ir.Value:
        """The only element."""
        return self.element(e, [e.number(0)] * len(self.shape))

    def write(self, e: Emitter, home: ir.Value) -> None:
        """Writes all elements to memory, in row-major order."""
        if not may_differ(self.size, 0):
            return
        if self.memory is not None:
            with parallel_span(e, self.nbytes, 2 * self.nbytes) as (first, count):
                e.copy(e.address(home, I8, first), e.address(self.memory, I8, first), count)
        elif self.fill is not None:
            self.fill(e, home)
        elif self.flat or not may_differ(self.size, 1):
            with parallel_run(e, self.size, self._work) as position:
                e.store(self.linear(e, position), home, self.dtype, position)
        else:
            parallel_every(e, self.shape, self._work, lambda index: e.store(
                self.element(e, index), home, self.dtype, e.linear(index, self.shape)))

    @property
    def _work(self) -> int:
        """That of writing all elements, some of which are computed from others in memory."""
        return _WORK * self.nbytes

    def reshaped(self, shape: Shape) -> Value:
        """The same elements, in row-major order, under another shape; where they lie in memory, they stay there."""
        if alike(shape, self.shape):
            return self
        strided = None if self.strided is None else self.strided.reshaped(shape)
        if strided is not None:
            return in_strides(shape, strided, self.dtype, self.fill, self.quantization)

        def element(e: Emitter, index: Index) -> ir.Value:
            if self.flat:
                return self.linear(e, e.linear(index, shape))
            return self.element(e, e.reindex(index, shape, self.shape))

        known = None if self.known is None else self.known.reshape(shape)
        return replace(self, shape=shape, element=element, known=known, strided=None,
                       fill=None if self.flat else lambda e, home: self.write(e, home))


def is_copied(value: Value, home: ir.Value | None) -> bool:
    """Whether bringing a tensor to where it has to be is a copy, as it lies in other memory."""
    return home is not None and value.memory is not None and value.memory is not home


def in_memory(memory: ir.Value, shape: Shape, dtype: DType, known: Array | None = None,
              quantization: Quantization | None = None) -> Value:
    """A tensor that lies in memory."""
    def linear(e: Emitter, position: ir.Value) -> ir.Value:
        return e.load(memory, dtype, position)

    return Value(shape, dtype, lambda e, index: linear(e, e.linear(index, shape)), linear, memory, known, quantization,
                 flat=True)


def of_one(memory: ir.Value, shape: Shape, dtype: DType, known: Array) -> Value:
    """A constant of one element that lies in memory: each function reads it once, where it begins."""
    read: dict[ir.Function, ir.Value] = {}

    def only(e: Emitter) -> ir.Value:
        if e.function not in read:
            read[e.function] = e.entry.builder().load(memory, typ=memory_type(dtype))
        return read[e.function]

    return Value(shape, dtype, lambda e, index: only(e), lambda e, position: only(e), memory, known, flat=True)


def in_strides(shape: Shape, where: Strided, dtype: DType, fill: Callable[[Emitter, ir.Value], None] | None = None,
               quantization: Quantization | None = None) -> Value:
    """A tensor whose elements lie in memory in another order."""
    found = computed(shape, dtype, lambda e, index: e.load(where.memory, dtype, where.position(e, index)),
                     quantization=quantization)
    return replace(found, strided=where, fill=fill or (partial(copy_strided, where, dtype) if where.has_runs else None))


def in_register(value: ir.Value, shape: Shape, dtype: DType, known: Array | None = None,
                quantization: Quantization | None = None) -> Value:
    """A tensor of one element that is in a register."""
    return Value(shape, dtype, lambda e, index: value, lambda e, position: value, None, known, quantization, flat=True,
                 register=None if isinstance(value, ir.Constant) else value)


def computed(shape: Shape, dtype: DType, element: Element, linear: Linear | None = None,
             quantization: Quantization | None = None) -> Value:
    """A tensor whose elements are computed when they are read; `linear` is given where it divides nothing."""
    def by_position(e: Emitter, position: ir.Value) -> ir.Value:
        return element(e, e.delinear(position, shape))

    return Value(shape, dtype, element, linear or by_position, quantization=quantization, flat=linear is not None)


def shared(value: Value) -> Value:
    """The same tensor; code that reads an element several times in one place computes it once."""
    if value.memory is not None:
        return value
    found: dict[tuple[object, ...], tuple[object, ir.Value]] = {}

    def once(e: Emitter, index: Index, emit: Callable[[], ir.Value]) -> ir.Value:
        key = (id(e.builder.block), *(each.constant if isinstance(each, ir.Constant) else each for each in index))
        if key not in found:
            found[key] = (e.builder.block, emit())
        return found[key][1]

    return replace(
        value, element=lambda e, index: once(e, index, lambda: value.element(e, index)),
        linear=lambda e, position: once(e, [position], lambda: value.linear(e, position)),
    )
