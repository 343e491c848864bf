"""Positions of elements in row-major order, and indices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.runtime.ir.length import lowest, may_differ
from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass

Index: TypeAlias = Sequence[ir.Value]
"""An index for each axis."""


class Positions(ABC):
    """Base of what writes code, which tells the one from the other. An index that a position was divided into gives
    that again: rules that go through positions divide them for operators of which most want the position, and LLVM
    makes no division whose result nobody reads."""

    builder: ir.IRBuilder

    def __init__(self) -> None:
        self._divided: dict[ir.Value, _Divided] = {}
        """What positions were divided into, by the first number of the index."""

    @abstractmethod
    def number(self, value: int) -> ir.Value:
        """An index: a constant, or what an open length is in this run."""

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Nothing that was divided before is known inside, nor outside what is divided inside."""
        before, self._divided = self._divided, {}
        yield
        self._divided = before

    def linear(self, index: Index, shape: Shape) -> ir.Value:
        """The position of an element in row-major order, an index: a product and a sum for each axis but the last, and
        for those together that a position was divided into."""
        position: ir.Value = self.number(0)
        axis, axes = 0, len(shape)
        while axis < axes:
            each, size, first = index[axis], shape[axis], axis
            axis += 1
            if not may_differ(size, 1):
                continue
            divided = self._divided.get(each)
            if divided is not None and divided.is_at(index[first:], shape[first:]):
                each, axis = divided.position, first + len(divided.index)
            stride = prod(shape[axis:])
            term = each if not may_differ(stride, 1) else self.builder.mul(each, self.number(stride), flags=("nsw",))
            is_zero = isinstance(position, ir.Constant) and position.constant == 0
            position = term if is_zero else self.builder.add(position, term, flags=("nsw",))
        return position

    def delinear(self, position: ir.Value, shape: Shape) -> tuple[ir.Value, ...]:
        """The index of the element at a position in row-major order: a quotient and a remainder for each axis but the
        ends."""
        found: list[ir.Value] = []
        for axis, size in enumerate(shape):
            stride = prod(shape[axis + 1:])
            if not may_differ(size, 1):
                found.append(self.number(0))
                continue
            each = position if not may_differ(stride, 1) else self.builder.udiv(position, self._divisor(stride))
            outermost = not any(may_differ(length, 1) for length in shape[:axis])
            found.append(each if outermost else self.builder.urem(each, self._divisor(size)))
        self.know(position, tuple(found), shape)
        return tuple(found)

    def _divisor(self, size: int) -> ir.Value:
        """A size that a position is divided by; 1 for 0, as loops divide where they begin, even without a turn."""
        found = self.number(size)
        if lowest(size) > 0:
            return found
        return self.builder.select(self.builder.icmp_signed(">", found, self.number(1)), found, self.number(1))

    def know(self, position: ir.Value, index: tuple[ir.Value, ...], shape: Shape) -> None:
        """Says that a position is at an index in a shape."""
        first = next((axis for axis, each in enumerate(index) if isinstance(each, ir.Instruction)), len(index))
        if len(index) - first > 1:
            self._divided[index[first]] = _Divided(position, index[first:], shape[first:])

    def reindex(self, index: Index, shape: Shape, target: Shape) -> list[ir.Value]:
        """The index in `target`, a shape of as many elements, of the element that has an index in `shape`; only axes
        that are really cut are divided. An open length that may be 0 makes no difference: no loop has a turn then."""
        if not all(may_differ(size, 0) for size in shape):
            return [self.number(0)] * len(target)
        found: list[ir.Value] = []
        for axes, into in _matching_axes(shape, target):
            position = self.linear(index[axes], shape[axes])
            found += self.delinear(position, target[into])
        return found


@dataclass(frozen=True, eq=False)
class _Divided:
    """The index in a shape that a position was divided into."""

    position: ir.Value
    index: tuple[ir.Value, ...]
    shape: Shape

    def is_at(self, index: Index, shape: Shape) -> bool:
        """Whether an index in a shape begins with this one."""
        return len(index) >= len(self.index) and all(
            one is other for one, other in zip(self.index, index, strict=False)) and not any(
            may_differ(one, other) for one, other in zip(self.shape, shape, strict=False))


def _matching_axes(shape: Shape, target: Shape) -> Iterator[tuple[slice, slice]]:
    """The smallest runs of axes of two shapes of as many elements, neither of which is empty, that hold as many. Open
    lengths need not tell that all axes do: a length may be 1 of necessity."""
    i = j = 0
    while i < len(shape) or j < len(target):
        first, other = i, j
        if i < len(shape) and not may_differ(shape[i], 1):
            i += 1
        elif j < len(target) and not may_differ(target[j], 1):
            j += 1
        else:
            ends = product(range(i + 1, len(shape) + 1), range(j + 1, len(target) + 1))
            i, j = next((each for each in sorted(ends, key=sum) if not may_differ(
                prod(shape[first:each[0]]), prod(target[other:each[1]]))), (len(shape), len(target)))
        yield slice(first, i), slice(other, j)
