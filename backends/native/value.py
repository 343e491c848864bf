"""What a tensor is while code is made: a function from an index to an element, and perhaps memory that holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emitter import Emitter, Index
from circlet.runtime.ir.types import Array, DType, Quantization, Shape

Element: TypeAlias = Callable[[Emitter, Index], ir.Value]
"""Emits the value of the element at an index."""
Linear: TypeAlias = Callable[[Emitter, ir.Value], ir.Value]
"""Emits the value of the element at a position in row-major order."""


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

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.numpy.itemsize

    def broadcast(self, shape: Shape) -> Element:
        """The elements by an index into `shape`, which this value's shape broadcasts to."""
        if self.shape == shape:
            return self.element
        skipped = len(shape) - len(self.shape)
        fixed = [size == 1 for size in self.shape]

        def element(e: Emitter, index: Index) -> ir.Value:
            kept = [e.number(0) if one else each for each, one in zip(index[skipped:], fixed, strict=True)]
            return self.element(e, kept)

        return element

    def scalar(self, e: Emitter) -> ir.Value:
        """The only element."""
        return self.element(e, [e.number(0)] * len(self.shape))


def in_memory(memory: ir.Value, shape: Shape, dtype: DType, known: Array | None = None,
              quantization: Quantization | None = None) -> Value:
    """A tensor that lies in memory."""
    def linear(e: Emitter, position: ir.Value) -> ir.Value:
        return e.load(memory, dtype, position)

    return Value(shape, dtype, lambda e, index: linear(e, e.linear(index, shape)), linear, memory, known, quantization)


def in_register(value: ir.Value, shape: Shape, dtype: DType, known: Array | None = None,
                quantization: Quantization | None = None) -> Value:
    """A tensor of one element that is in a register."""
    return Value(shape, dtype, lambda e, index: value, lambda e, position: value, None, known, quantization)


def computed(shape: Shape, dtype: DType, element: Element, linear: Linear | None = None,
             quantization: Quantization | None = None) -> Value:
    """A tensor whose elements are computed when they are read."""
    def by_position(e: Emitter, position: ir.Value) -> ir.Value:
        return element(e, e.delinear(position, shape))

    return Value(shape, dtype, element, linear or by_position, quantization=quantization)
