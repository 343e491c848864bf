"""Elements in memory that are not in row-major order, and the same under other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.positions import Index
from circlet.runtime.ir.length import is_known, is_length, may_differ
from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass

Axes: TypeAlias = "tuple[tuple[int, int], ...]"
"""How many elements follow each other, and how far they are apart in memory, counted in elements; the last ones change
first."""


@dataclass(frozen=True, eq=False)
class Strided:
    """Where the elements of a tensor lie."""

    memory: ir.Value
    """The address of the first one."""
    axes: tuple[Axes, ...]
    """What each axis of the tensor goes through; none of it has one element."""

    @classmethod
    def contiguous(cls, memory: ir.Value, shape: Shape) -> Strided:
        """All elements, one behind the other in row-major order."""
        return cls(memory, tuple(() if is_known(size, 1) else ((size, prod(shape[axis + 1:])),)
                                 for axis, size in enumerate(shape)))

    @property
    def has_runs(self) -> bool:
        """Whether neighbours along an axis are neighbours in memory."""
        return any(is_known(stride, 1) for axis in self.axes for _, stride in axis)

    def position(self, e: Emitter, index: Index) -> ir.Value:
        """How many elements one lies behind the first."""
        parts: list[ir.Value] = []
        for each, axis in zip(index, self.axes, strict=True):
            parts += [each] if len(axis) == 1 else e.delinear(each, tuple(size for size, _ in axis)) if axis else []
        return linear_in(e, parts, [part for axis in self.axes for part in axis])

    def transposed(self, order: Sequence[int]) -> Strided:
        """With axis k the axis `order[k]` of this."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshaped(self, shape: Shape) -> Strided | None:
        """The same elements in the same order under another shape; None where that cuts an axis it is not known how."""
        left = list(self.merged())
        found: list[Axes] = []
        for k, size in enumerate(shape):
            taken = () if is_known(size, 1) else _taken(left, shape[k:])
            if taken is None:
                return None
            found.append(taken)
        return None if left else replace(self, axes=tuple(found))

    def merged(self) -> Axes:
        """What all axes go through, with what follows each other in memory made one."""
        found: list[tuple[int, int]] = []
        for size, stride in reversed([part for axis in self.axes for part in axis]):
            if found and not may_differ(stride, found[0][0] * found[0][1]):
                found[0] = size * found[0][0], found[0][1]
            else:
                found.insert(0, (size, stride))
        return tuple(found)


def linear_in(e: Emitter, index: Index, axes: Sequence[tuple[int, int]]) -> ir.Value:
    """How many elements one lies behind the first."""
    position: ir.Value = e.number(0)
    for each, (_, stride) in zip(index, axes, strict=True):
        position = e.builder.add(position, e.builder.mul(each, e.number(stride)))
    return position


def _taken(left: list[tuple[int, int]], sizes: Shape) -> Axes | None:
    """Takes as many elements from the front of what is left as the first of some sizes says."""
    many = next((k for k in range(1, len(left) + 1) if not may_differ(prod(each for each, _ in left[:k]), sizes[0])), 0)
    if many:
        found, left[:many] = tuple(left[:many]), []
        return found
    rest = _divided(left[0][0], sizes) if left else None
    if rest is None:
        return None
    stride = left[0][1]
    left[0] = rest, stride
    return ((sizes[0], stride * rest),)


def _divided(number: int, sizes: Shape) -> int | None:
    """A number by the first of some sizes, if it is theirs that follow; None where it is not known to be divisible."""
    count = next((k for k in range(2, len(sizes) + 1) if not may_differ(prod(sizes[:k]), number)), 0)
    if count:
        return prod(sizes[1:count])
    return None if is_length(number) or is_length(sizes[0]) or sizes[0] < 1 or number % sizes[0] else number // sizes[0]
