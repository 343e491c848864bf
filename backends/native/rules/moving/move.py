"""What the rules that move elements share: parts of tensors, checked indices, copies into windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I64, UNSIGNED, Emitter, memory_type
from circlet.backends.native.emit.layout.strided import Axes, Strided
from circlet.backends.native.emit.loops import spread_every
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed, in_memory, in_strides
from circlet.backends.native.emit.whole import Truth, Whole, both
from circlet.backends.native.rules.moving.runs import Lying, copy_runs
from circlet.backends.native.rules.rule import Node
from circlet.runtime.ir.length import (
    alike,
    assumed,
    certain,
    is_known,
    is_open,
    lowest,
    may_be_less,
    may_differ,
)
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.operands import integer
from circlet.runtime.records import dataclass

SHORTEST_RUN = 16
"""Bytes from which on runs are copied as a whole. Not critical: 512 runs of 8 to 64 bytes take the same time by calls
of `memmove`, which LLVM writes out for known lengths, and by loops, within 3 % on AVX-512 and 20 % on AVX2; of 128
bytes loops take a fifth less."""
SHARED_RUN = 128
"""Bytes from which on runs of a known length, too, are copied by the function that does for all copies. On AVX-512 that
takes as long, and DenseNet121, which puts up to 25 tensors beside each other 58 times, is compiled in 2.0 instead of
3.6 s of a processor's time."""


def parameter(node: Node[Any], index: int) -> Array:
    """The value of an input that the rule declares as a parameter."""
    known = node.input(index).known
    assert known is not None, f"input {index} of {node.op.name} is declared as a parameter"
    return known


def wholes(e: Emitter, value: Value) -> list[Whole]:
    """The elements of a tensor of integers, in row-major order."""
    if value.known is not None:
        return [Whole(e, integer(each)) for each in value.known.reshape(-1).tolist()]
    return [Whole(e, extended(e, value.linear(e, e.number(k)), value.dtype)) for k in range(assumed(value.size))]


def extended(e: Emitter, value: ir.Value, dtype: DType) -> ir.Value:
    """An integer as an index; the nearest one, if it is none, so that what is out of range stays so."""
    b, width = e.builder, e.index.width
    if value.type.width < width or value.type == I64 == e.index:
        return b.zext(value, e.index) if dtype in UNSIGNED else b.sext(value, e.index)
    greatest = ir.Constant(value.type, (1 << (width - 1)) - 1)
    if dtype in UNSIGNED:
        return b.trunc(e.intrinsic("umin", value, greatest), e.index)
    least = ir.Constant(value.type, -1 << (width - 1))
    return b.trunc(e.intrinsic("smax", e.intrinsic("smin", value, greatest), least), e.index)


def expect(node: Node[Any], condition: Truth, message: str, *numbers: Whole) -> None:
    """Leaves the function unless a condition holds; the message has a `{}` for each number."""
    if isinstance(condition, bool):
        if condition:
            return
        condition = ir.Constant(I1, False)
    node.function.fail_unless(condition, node.place, message, *(each.register for each in numbers))


def expect_inside(node: Node[Any], positions: Sequence[Whole], sizes: Shape) -> None:
    """Leaves the function unless each position is inside its axis."""
    e = node.function.e
    inside = [each.is_in(0, size - 1) for each, size in zip(positions, sizes, strict=True)]
    found = "{}" if len(sizes) == 1 else _numbers(len(sizes), "[]")
    axis = f"of size {sizes[0]}" if len(sizes) == 1 else f"of sizes {sizes}"
    expect(node, reduce(lambda one, other: both(e, one, other), inside, True),
           f"index {found} is out of range for an axis {axis}", *positions)


def expect_shape(node: Node[Any], sizes: Sequence[Whole]) -> bool:
    """Leaves the function unless the result has the shape that the model declares, which is a frame's for any values
    where that was taken for granted; False if it is known not to. A length that the function computes becomes what it
    is."""
    e = node.function.e
    for size, length in zip(sizes, node.shape, strict=False):
        if e.is_undefined(length):
            if lowest(length) > 0:
                _leave_where(node, size.compare("<", lowest(length)))
            e.define(length, size.register)
    right = [size.compare("==", length) for size, length in zip(sizes, node.shape, strict=False)]
    holds = reduce(lambda one, other: both(e, one, other), right, len(sizes) == len(node.shape))
    if holds is True or not _leave_where(node, not holds if isinstance(holds, bool) else e.builder.not_(holds)):
        found = "({},)" if len(sizes) == 1 else _numbers(len(sizes), "()")
        expect(node, holds, f"the result has shape {found}, the model declares {node.shape}", *sizes)
    return holds is not False


def _leave_where(node: Node[Any], differs: Truth) -> bool:
    """See `Function.leave_where`."""
    return node.function.leave_where(ir.Constant(I1, differs) if isinstance(differs, bool) else differs)


def _numbers(count: int, brackets: str) -> str:
    """Places for so many numbers of a message, between brackets."""
    return brackets[0] + ", ".join(["{}"] * count) + brackets[1]


def impossible(node: Node[Any], message: str) -> Value:
    """The result of an operator that fails whenever it is reached."""
    expect(node, False, message)
    return unreached(node)


def unreached(node: Node[Any]) -> Value:
    """The result of an operator in code that is never reached."""
    dtype = node.call.outputs[0].dtype
    return filled(node.shape, dtype, node.function.e.constant(0, dtype))


def filled(shape: Shape, dtype: DType, element: ir.Value) -> Value:
    """A tensor of equal elements."""
    return computed(shape, dtype, lambda e, index: element, lambda e, position: element)


def part(e: Emitter, x: Value, starts: Sequence[Whole], sizes: Shape, steps: Sequence[Whole] | None = None) -> Value:
    """`sizes` elements of each axis, `steps` apart (by default 1), from `starts` on, all of which are there."""
    apart = steps or (Whole(e, 1),) * len(sizes)

    def element(e: Emitter, index: Index) -> ir.Value:
        return x.element(e, [(start + Whole(e, each) * step).register
                             for start, each, step in zip(starts, index, apart, strict=True)])

    strides = [each.value for each in apart if not isinstance(each.value, ir.Value)]
    if len(strides) < len(apart):
        return computed(sizes, x.dtype, element)
    if not x.flat or not _is_run(x.shape, sizes, strides):
        strided = _part_of(e, x.place, x.dtype, starts, sizes, strides)
        if strided is not None and x.memory is None:
            return in_strides(sizes, strided, x.dtype)
        return replace(computed(sizes, x.dtype, element), fill=_filling(x, starts, sizes, strides), strided=strided)
    offset = _offset(e, starts, x.shape)
    if x.memory is not None:
        return in_memory(e.address(x.memory, memory_type(x.dtype), offset.register), sizes, x.dtype)
    return computed(sizes, x.dtype, element, lambda e, position: x.linear(e, (offset + Whole(e, position)).register))


def _part_of(e: Emitter, place: Strided | None, dtype: DType, starts: Sequence[Whole], sizes: Shape,
             steps: Sequence[int]) -> Strided | None:
    """Where a part lies of what lies in memory; None where it cuts an axis of several parts elsewhere than between
    them."""
    first, axes = e.number(0), list[Axes]()
    for axis, start, size, step in zip(() if place is None else place.axes, starts, sizes, steps, strict=False):
        inner = prod(each for each, _ in axis[1:])
        if len(axis) > 1 and (step != 1 or not all(isinstance(each, int) and inner and each % inner == 0
                                                   for each in (inner, start.value, size))):
            return None
        stride, begin = axis[0][1] if axis else 0, start.register if len(axis) < 2 else e.number(start.value // inner)
        first = e.builder.add(first, e.builder.mul(begin, e.number(stride)))
        axes.append((*(() if is_known(size, inner) else ((size // inner, stride * step),)), *axis[1:]))
    return None if place is None else Strided(e.address(place.memory, memory_type(dtype), first), tuple(axes))


def _filling(x: Value, starts: Sequence[Whole], sizes: Shape,
             steps: Sequence[int]) -> Callable[[Emitter, ir.Value], None] | None:
    """How a part of a tensor in memory that has long runs is copied."""
    memory, run = x.memory, prod(_run(sizes, x.shape)) * x.dtype.numpy.itemsize
    if memory is None or certain(run, "<", SHORTEST_RUN) or any(step != 1 for step in steps):
        return None
    return lambda e, home: _copy(e, Box(home, sizes, [Whole(e, 0)] * len(sizes)), Box(memory, x.shape, starts), sizes,
                                 x.dtype)


def overwrite(e: Emitter, home: ir.Value, shape: Shape, window: Value, starts: Sequence[Whole]) -> None:
    """Writes a tensor into a window of another one of the given shape in memory: as one run if it is one, run by run by
    a loop over the others, shared out, or element by element."""
    if not may_differ(window.size, 0):
        return
    kind, run = memory_type(window.dtype), prod(_run(window.shape, shape)) * window.dtype.numpy.itemsize
    if _is_run(shape, window.shape, (1,) * len(shape)):
        window.write(e, e.address(home, kind, _offset(e, starts, shape).register))
    elif window.memory is not None and not certain(run, "<", SHORTEST_RUN):
        source = Box(window.memory, window.shape, [Whole(e, 0)] * len(shape))
        _copy(e, Box(home, shape, starts), source, window.shape, window.dtype)
    else:
        def give(index: Index) -> None:
            place = [(start + Whole(e, each)).register for start, each in zip(starts, index, strict=True)]
            e.store(window.element(e, index), home, window.dtype, e.linear(place, shape))

        spread_every(e, window.shape, give)


@dataclass(frozen=True, eq=False)
class Box:
    """Where a part of an array in memory begins."""

    memory: ir.Value
    shape: Shape
    """Of the array."""
    starts: Sequence[Whole]

    def address(self, e: Emitter, index: Index, dtype: DType) -> ir.Value:
        """The place of an element, given by the first places of its index; the others are 0."""
        moved = [start + Whole(e, each) for start, each in zip(self.starts, index, strict=False)]
        offset = _offset(e, [*moved, *self.starts[len(index):]], self.shape)
        return e.address(self.memory, memory_type(dtype), offset.register)


def _copy(e: Emitter, target: Box, source: Box, sizes: Shape, dtype: DType) -> None:
    """Copies a part of one array to a part of another, a run at a time."""
    shared = min(len(_run(sizes, target.shape)), len(_run(sizes, source.shape)))
    cut, item = len(sizes) - shared, dtype.numpy.itemsize
    run, work = prod(sizes[cut:]) * item, 2 * prod(sizes) * item
    is_called = is_open(sizes) or (cut > 0 and run >= SHARED_RUN)
    outer = _uneven(sizes[:cut], target, source) if is_called else cut
    with parallel_nest(e, sizes[:outer], work) as index:
        to, of = target.address(e, index, dtype), source.address(e, index, dtype)
        if is_called:
            given, taken = (Lying(first, prod(box.shape[cut:]) * item) for first, box in ((to, target), (of, source)))
            copy_runs(e, given, taken, run, prod(sizes[outer:cut]))
        else:
            e.copy(to, of, run)


def _uneven(sizes: Shape, one: Box, other: Box) -> int:
    """How many of the first axes of a part of two arrays are left when those are one that lie at even distances."""
    last = len(sizes) - 1
    while last > 0 and all(alike((sizes[last],), (each.shape[last],)) for each in (one, other)):
        last -= 1
    return max(last, 0)


@contextmanager
def runs_of(e: Emitter, shape: Shape, sizes: Shape, starts: Sequence[Whole]) -> Iterator[tuple[Whole, int]]:
    """A loop over the runs of elements that a part of an array is: gives where a run begins, in row-major order, and
    how many elements it has, of which there is one at least."""
    run = _run(sizes, shape)
    cut = len(sizes) - len(run)
    with e.nest(sizes[:cut]) as outer:
        moved = [start + Whole(e, each) for start, each in zip(starts, outer, strict=False)]
        yield _offset(e, [*moved, *starts[cut:]], shape), prod(run)


def _run(sizes: Shape, shape: Shape) -> Shape:
    """The last axes of a part of an array, as many as lie in one run."""
    whole = next((k for k in range(len(sizes)) if may_differ(sizes[len(sizes) - 1 - k], shape[len(sizes) - 1 - k])),
                 len(sizes))
    return sizes[max(len(sizes) - whole - 1, 0):]


def _offset(e: Emitter, starts: Sequence[Whole], shape: Shape) -> Whole:
    """The row-major position of an index."""
    terms = [start * prod(shape[axis + 1:]) for axis, start in enumerate(starts)]
    return reduce(Whole.__add__, terms, Whole(e, 0))


def _is_run(shape: Shape, sizes: Shape, steps: Sequence[int]) -> bool:
    """Whether a part of a tensor is one run of elements."""
    long = [may_be_less(1, size) for size in sizes]
    cut = next((axis for axis, each in enumerate(long) if each), len(sizes))
    in_order = all(step == 1 for each, step in zip(long, steps, strict=True) if each)
    return in_order and alike(sizes[cut + 1:], shape[cut + 1:])
