"""Native operators that move elements to places known from shapes and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.elementwise import Add, Mul, Sub
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather
from circlet.runtime.ops.layout import (
    Concatenation,
    Pack,
    ReverseV2,
    Slice,
    Split,
    StridedSlice,
    Transpose,
    Unpack,
)
from circlet.runtime.ops.pad import MirrorPad, MirrorPadMode, Pad, Tile
from circlet.runtime.ops.shape import BroadcastTo, ExpandDims, Reshape, Squeeze
from tests.native.against_cpu import agree, applied, shapes, values
from tests.native.native_cases import native_test
from tests.ops.test_layout import DIAGONAL, JOIN, REVERSE, SLICE, SPLIT, STRIDED_SLICE, TRANSPOSE

test_layout = native_test([*TRANSPOSE, *SLICE, *STRIDED_SLICE, *SPLIT, *JOIN, *REVERSE, *DIAGONAL])

MOST = 600
"""Elements that a value of a random program may have."""


@dataclass(frozen=True)
class Step:
    """An operator on earlier values, with constants behind (`SPLIT`: before) them, and which result is used."""

    op: Op
    inputs: tuple[int, ...]
    constants: tuple[Any, ...] = ()
    results: int = 1
    used: int = 0


class Drawing:
    """A random program: what it computes, and the shape of each value so far."""

    def __init__(self, draw: st.DrawFn, shape: Shape) -> None:
        self._draw = draw
        self.shapes = [shape]
        self.steps: list[Step] = []

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def add(self) -> None:
        """One more step, on any of the last values."""
        k = self.number(max(0, len(self.shapes) - 3), len(self.shapes) - 1)
        shape = self.shapes[k]
        kind = self._draw(st.sampled_from(KINDS))
        found = getattr(self, kind)(k, shape)
        if found is not None and prod(found[1]) <= MOST and len(found[1]) <= 6:
            self.steps.append(found[0])
            self.shapes.append(found[1])

    def reshape(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        rest = prod(shape)
        sizes: list[int] = []
        while rest > 1 and len(sizes) < 4:
            divisors = [each for each in range(1, rest + 1) if rest % each == 0]
            sizes.append(divisors[self.number(0, len(divisors) - 1)])
            rest //= sizes[-1]
        target = (*sizes, rest) if 0 not in shape else shape
        return Step(Reshape(), (k,), (target,)), target

    def transpose(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        axes = self._draw(st.permutations(range(len(shape))))
        return Step(Transpose(), (k,), (axes,)), tuple(shape[axis] for axis in axes)

    def slice(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        begin = [self.number(0, size // 2) for size in shape]
        sizes = tuple(self.number(min(1, size - first), size - first) for size, first in zip(shape, begin, strict=True))
        return Step(Slice(), (k,), (begin, sizes)), sizes

    def stride(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        steps = [self._draw(st.sampled_from([-2, -1, 1, 2, 3])) for _ in shape]
        begin, end = ([self.number(-size - 1, size + 1) for size in shape] for _ in range(2))
        full = self.number(0, (1 << len(shape)) - 1)
        op = StridedSlice(begin_mask=full, end_mask=full)
        index = op.index(shape, op.plan(len(shape), len(shape)), begin, end, steps)
        return Step(op, (k,), (begin, end, steps)), np.empty(shape)[index].shape

    def reverse(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        axes = [axis for axis in range(len(shape)) if self.number(0, 1)]
        return Step(ReverseV2(), (k,), (axes,)), shape

    def pad(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        amounts = [(self.number(0, 2), self.number(0, 2)) for _ in shape]
        padded = tuple(size + before + after for size, (before, after) in zip(shape, amounts, strict=True))
        return Step(Pad(), (k,), (np.reshape(amounts, (-1, 2)),)), padded

    def mirror(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        mode = MirrorPadMode(self.number(0, 1))
        most = [max(size - (mode is MirrorPadMode.REFLECT), 0) for size in shape]
        amounts = [(self.number(0, min(2, each)), self.number(0, min(2, each))) for each in most]
        padded = tuple(size + before + after for size, (before, after) in zip(shape, amounts, strict=True))
        return Step(MirrorPad(mode), (k,), (np.reshape(amounts, (-1, 2)),)), padded

    def tile(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        counts = [self.number(1, 2) for _ in shape]
        return Step(Tile(), (k,), (counts,)), tuple(size * count for size, count in zip(shape, counts, strict=True))

    def join(self, k: int, shape: Shape) -> tuple[Step, Shape] | None:
        alike = [other for other, each in enumerate(self.shapes) if each == shape]
        others = [alike[self.number(0, len(alike) - 1)] for _ in range(self.number(0, 2))]
        if not shape or self.number(0, 3) == 0:
            axis = self.number(0, len(shape))
            return Step(Pack(len(others) + 1, axis), (k, *others)), (*shape[:axis], len(others) + 1, *shape[axis:])
        axis = self.number(0, len(shape) - 1)
        return Step(Concatenation(axis), (k, *others)), (*shape[:axis], shape[axis] * (len(others) + 1),
                                                         *shape[axis + 1:])

    def cut(self, k: int, shape: Shape) -> tuple[Step, Shape] | None:
        if not shape:
            return None
        axis = self.number(0, len(shape) - 1)
        rest = (*shape[:axis], *shape[axis + 1:])
        if shape[axis] and self.number(0, 1):
            return Step(Unpack(shape[axis], axis), (k,), (), shape[axis], self.number(0, shape[axis] - 1)), rest
        parts = next((each for each in (3, 2) if shape[axis] % each == 0), 1)
        used = self.number(0, parts - 1)
        return (Step(Split(parts), (k,), (axis,), parts, used),
                (*shape[:axis], shape[axis] // parts, *shape[axis + 1:]))

    def gather(self, k: int, shape: Shape) -> tuple[Step, Shape] | None:
        if 0 in shape or not shape:
            return None
        axis = self.number(0, len(shape) - 1)
        indices = [self.number(0, shape[axis] - 1) for _ in range(self.number(1, 3))]
        return Step(Gather(axis), (k,), (indices,)), (*shape[:axis], len(indices), *shape[axis + 1:])

    def arithmetic(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        alike = [other for other, each in enumerate(self.shapes) if each == shape]
        op: Op = self._draw(st.sampled_from([Add(), Sub(), Mul()]))
        return Step(op, (k, alike[self.number(0, len(alike) - 1)])), shape

    def scale(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        return Step(Mul(), (k,), (np.full(shape[-1:], 3, np.int32),)), shape

    def broadcast(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        target = (2, *(3 if size == 1 else size for size in shape))
        return Step(BroadcastTo(), (k,), (target,)), target

    def expand(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        axis = self.number(0, len(shape))
        return Step(ExpandDims(), (k,), (axis,)), (*shape[:axis], 1, *shape[axis:])

    def squeeze(self, k: int, shape: Shape) -> tuple[Step, Shape]:
        return Step(Squeeze(), (k,)), tuple(size for size in shape if size != 1)


KINDS = [name for name in vars(Drawing) if not name.startswith("_") and name not in ("number", "add")]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Shape, list[Step]]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    drawing = Drawing(draw, shape)
    for _ in range(draw(st.integers(2, 9))):
        drawing.add()
    return shape, drawing.steps


def emit(g: SubgraphBuilder, x: Value, steps: Sequence[Step]) -> list[Value]:
    found = [x]
    for step in steps:
        given = [found[k] for k in step.inputs]
        constants = [g.constant(np.array(each, np.int32)) for each in step.constants]
        operands = [*constants, *given] if isinstance(step.op, Split) else [*given, *constants]
        found.append(g.op(step.op, *operands, count=step.results)[step.used])
    return found


@settings(max_examples=25, deadline=None)
@given(programs(), st.data())
def test_what_is_fused_is_what_is_moved(program: tuple[Shape, list[Step]], data: st.DataObject) -> None:
    shape, steps = program
    exported = data.draw(st.sets(st.integers(0, len(steps)), max_size=2)) | {len(steps)}

    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        found = emit(g, x, steps)
        return [found[k] for k in sorted(exported)]

    agree(formula, values(shape, np.int32, 1))


LONG = st.sampled_from([1, 2, 3, 15, 16, 17, 33])
KINDS_OF_ELEMENTS = st.sampled_from([np.int8, np.int16, np.float32, np.int64, np.bool_])


@settings(max_examples=25, deadline=None)
@given(shapes(2, 4, LONG).filter(lambda shape: prod(shape) < 1 << 16), KINDS_OF_ELEMENTS, st.data())
def test_large_tensors_are_transposed_in_squares(shape: list[int], dtype: type[Any], data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(len(shape))))
    agree(applied(Transpose(), np.array(axes, np.int32)), values(shape, dtype, 1))


@settings(max_examples=25, deadline=None)
@given(shapes(1, 4, LONG).filter(lambda shape: prod(shape) < 1 << 14), KINDS_OF_ELEMENTS, st.data())
def test_long_runs_are_copied_as_a_whole(shape: list[int], dtype: type[Any], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    begin = [data.draw(st.integers(0, size - 1)) for size in shape]
    sizes = [data.draw(st.integers(1, size - first)) for size, first in zip(shape, begin, strict=True)]

    def formula(g: SubgraphBuilder, x: Value, y: Value) -> Sequence[Value]:
        where, window = (g.constant(np.array(each, np.int32)) for each in (begin, sizes))
        part = g.apply(Slice(), x, where, window)
        return [part, g.apply(DynamicUpdateSlice(), y, part, where), g.apply(Concatenation(axis), x, y, x)]

    agree(formula, values(shape, dtype, 1), values(shape, dtype, 2))
