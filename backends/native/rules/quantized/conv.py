"""Native rule of the convolution of int8 images: products of the rows that the taps of the window see."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import convolution_multipliers, quantized_range
from circlet.backends.native.emit.emitter import I8, I32, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.finish import Rows
from circlet.backends.native.gemm.grouped import ALONE, Group, each_group
from circlet.backends.native.gemm.operands import Block, Collected, Filtered, Finished, Grid, Left, Result
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.figures.multiplier import GREATEST_SHIFT
from circlet.backends.native.rules.function import Function, Made
from circlet.backends.native.rules.preferences import INT8, RAW
from circlet.backends.native.rules.quantized.fully_connected import (
    Form,
    constant,
    first_of,
    form_of,
    left_of,
    long_rows,
    multiply_integers,
    placed,
    reach,
    stored_data,
    takes_integers,
    zero_point,
)
from circlet.backends.native.rules.quantized.requantize import Requantization
from circlet.backends.native.rules.refusals import constant_inputs, outputs_only
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Goal, Target
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import assumed, is_open, may_differ
from circlet.runtime.ir.types import Activation, Array, DType, Padding, Shape
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.window import Window, Windowed
from circlet.runtime.records import dataclass, replace


@dataclass(frozen=True)
class Taps:
    """What the windows over an image see, as runs of memory in an image with margins.

    Attributes:
        form: of the elements.
        image: (n, h, w, c), without margins.
        windows: along height and width.
        channels: how many channels of the image a filter takes.
    """

    form: Form
    image: Shape
    windows: tuple[Window, ...]
    channels: int

    def runs(self, weights: Array) -> Array:
        """A filter (o, h, w, c) run by run: (o, runs, elements)."""
        return weights.reshape(len(weights), prod(weights.shape[1:]) // max(self.run, 1), self.run)

    @property
    def margins(self) -> tuple[tuple[int, int], ...]:
        """What is before and after the image, along height and width."""
        return tuple((each.before, each.after) for each in self.windows)

    @property
    def along_width(self) -> int:
        """Runs in a row of the image: one, if the window's positions and channels lie side by side."""
        wide = self.windows[1]
        return 1 if wide.dilation == 1 and self.channels == self.image[3] else wide.size

    @property
    def along_height(self) -> int:
        """Rows of the window: one, if they lie side by side, as where the window is as wide as the image."""
        tall, wide = self.windows
        across = wide.before + wide.length + wide.after
        is_whole = self.along_width == tall.dilation == 1 and not may_differ(across, wide.size)
        return 1 if is_whole else tall.size

    @property
    def run(self) -> int:
        """Elements of a run."""
        tall, wide = self.windows
        return tall.size // self.along_height * (wide.size // self.along_width) * self.channels

    @property
    def groups(self) -> int:
        """Into which the channels of the image are divided."""
        return self.image[3] // self.channels

    def of(self, e: Emitter, left: Left, group: Group) -> Left:
        """Of rows of the first group those of another one."""
        return replace(left, memory=group.address(e, left.memory, self.form.element, self.channels))

    def left(self, function: Function, memory: ir.Value) -> Left:
        """The rows of a product with the image in memory, of the first group."""
        tall, wide = self.windows
        column = self.image[3] * self.form.size
        row = (wide.before + wide.length + wide.after) * column
        high = tall.before + tall.length + tall.after
        shape, steps = (self.image[0], tall.count, wide.count), (high * row, tall.stride * row, wide.stride * column)
        if self.along_height == self.along_width == 1:
            taps = None
        else:
            taps = (_sums(function, (tall.size, self.along_width), (tall.dilation * row, wide.dilation * column)),
                    tall.size * self.along_width)
        run, grid = self.form.run(self.run), Grid.of(shape, steps)
        if is_open(grid.steps) or (len(grid.shape) > 1 and is_open(grid.shape)):
            return Left(memory, _sums(function, grid.shape, grid.steps), None, run, taps)
        return left_of(function, memory, grid, run, taps)


def _sums(function: Function, shape: Shape, steps: Shape) -> ir.Value:
    """A table of indices, the sum of the steps for each place in a shape; written when the function runs where lengths
    are open."""
    e = function.e
    if not is_open((*shape, *steps)):
        parts = (each * step for each, step in zip(np.ogrid[tuple(map(slice, shape))], steps, strict=True))
        return function.external(np.array(sum(parts), e.index_dtype.numpy).reshape(-1))
    memory = function.reserve(prod(shape) * e.index_dtype.numpy.itemsize)
    Grid.of(shape, steps).write(e, memory)
    return memory


def images(value: Value) -> Shape:
    """The shape (n, h, w, c) of images whose channels a constant filter tells."""
    *outer, channels = value.shape
    return (*outer, assumed(channels))


def requantization(call: Call, channels: int, reach: int, data: int = 0, is_small: bool = False) -> Requantization:
    """How the sums of a convolution of input `data` with a filter, input 1, of a magnitude up to `reach`, become its
    output; `is_small` says that tables are to be small."""
    output = call.outputs[0]
    given, weighted, made = map(quantization, (call.input(data), call.input(1), output))
    multipliers, shifts = convolution_multipliers(given, weighted, made, call.input(data).dtype)
    multipliers, shifts = np.where(shifts > GREATEST_SHIFT, 0, (multipliers, shifts))
    activation = getattr(call.op, "fused_activation_function", Activation.NONE)
    low, high = quantized_range(activation, made, output.dtype)
    if len(multipliers) == 1:
        multipliers, shifts = multipliers.repeat(channels), shifts.repeat(channels)
    return Requantization(multipliers, shifts, made.zero_point, low, high, is_small, reach)


def margin_of(call: Call) -> int | None:
    """The stored value around the images of a convolution; None where there is nothing around them."""
    op = call.op
    is_given = isinstance(op, DepthwiseConv2D) and bool(op.explicit_paddings)
    is_within = isinstance(op, Windowed) and op.padding is Padding.VALID and not is_given
    is_single = prod(call.input(1).shape[1:3]) == 1
    return None if is_within or is_single else zero_point(call)


@dataclass(frozen=True, eq=False)
class Rescaling:
    """How the sums of some channels of an operator become its results."""

    call: Call
    of: Callable[[Call], Requantization]
    """That of an operator."""

    @cached_property
    def by(self) -> Requantization:
        """That of this one."""
        return self.of(self.call)

    def part(self, channels: slice) -> Rescaling:
        """That of some of the channels."""
        return Rescaling(self.call, lambda call: self.of(call).part(channels))

    def made(self, make: Callable[[Requantization], Array]) -> Made:
        """A table of it."""
        return Made(self.call, lambda call: make(self.of(call)))

    def table(self, function: Function, plan: Plan, group: Group) -> ir.Value:
        """The table that `Requantization.call` reads, for the channels of a group."""
        columns = plan.panels * plan.panel
        memory = self.made(lambda by: _filled(by, group.count, columns).table(plan.lanes, group.count * columns))
        size = columns // plan.lanes * self.by.vector_bytes(plan.lanes)
        return group.address(function.e, memory.memory(function), I8, size)

    def each(self, function: Function, group: Group = ALONE) -> tuple[ir.Value, ...]:
        """The tables that `Requantization.element` reads, for the channels of a group."""
        size = len(self.by.multipliers) // group.count
        return tuple(group.address(function.e, self.made(each).memory(function), I32, size)
                     for each in (lambda by: by.multipliers, lambda by: by.shifts))


def _filled(by: Requantization, groups: int, channels: int) -> Requantization:
    """That of channels in groups, each filled up to so many."""
    multipliers, shifts = (np.pad(each.reshape(groups, -1), ((0, 0), (0, channels - len(each) // groups))).reshape(-1)
                           for each in (by.multipliers, by.shifts))
    return replace(by, multipliers=multipliers, shifts=shifts)


def rescaling(node: Node[Any], channels: int, reach: Callable[[Call], int]) -> Rescaling:
    """How the sums of so many channels, of a magnitude up to what `reach` says, become the result of a convolution."""
    is_small = node.function.e.target.goal is not Goal.HERE
    return Rescaling(node.call, lambda call: requantization(call, channels, reach(call), is_small=is_small))


def requantized(function: Function, sink: Sink, shape: Shape, rescaling: Rescaling,
                group: Group = ALONE) -> Callable[[Plan, ir.Value], Result]:
    """Where the sums of a convolution go.

    Args:
        function: that of the sink.
        sink: takes the results.
        shape: of all results: (n, h, w, channels).
        rescaling: that of all channels.
        group: whose channels the product's columns are.
    """
    by = rescaling.by

    def put_by(plan: Plan, scratch: ir.Value) -> Result:
        multipliers, shifts = rescaling.each(function, group)

        def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
            stored = by.element(e, value, multipliers, shifts, column)
            sink(e, [*e.delinear(row, shape[:-1]), e.builder.add(column, offset)], stored)

        return Filtered(scratch, put)

    def collected(plan: Plan, scratch: ir.Value) -> Result:
        table = rescaling.table(function, plan, group)
        made = sink.memory or function.scratch(plan.tile_bytes // WORD)

        def take(e: Emitter, block: Block) -> None:
            b = e.builder
            vector = b.udiv(block.column, e.number(plan.lanes))
            terms = e.address(table, I8, b.mul(vector, e.number(by.vector_bytes(plan.lanes))))
            sums = Rows(block.memory, e.number(block.step))
            if sink.memory is None:
                out = Rows(made, e.number(block.step))
            else:
                place = b.add(b.mul(block.row, e.number(shape[-1])), b.add(block.column, offset))
                out = Rows(e.address(made, I8, place), e.number(shape[-1]))
            by.call(e, plan.lanes, block.columns, sums, terms, out, block.rows)
            if sink.memory is None:
                pass_on(e, block)

        def pass_on(e: Emitter, block: Block) -> None:
            b = e.builder
            with rolled(e, block.rows) as row:
                index = e.delinear(b.add(block.row, row), shape[:-1])
                begin = b.mul(row, e.number(block.step))
                with independent(e, block.columns) as column:
                    value = b.load(e.address(made, I8, b.add(begin, column)), typ=I8)
                    sink(e, [*index, b.add(b.add(block.column, column), offset)], value)

        return Collected(scratch, take)

    def finished(plan: Plan, scratch: ir.Value) -> Result:
        if sink.memory is None or not by.is_finishable or plan.chunks(plan.depth).parts > 1:
            return collected(plan, scratch)
        table = rescaling.table(function, plan, group)
        return Finished(function.e.address(sink.memory, I8, offset), shape[-1], table,
                        plan.vectors * by.vector_bytes(plan.lanes), partial(by.finish, plan.lanes))

    offset = group.begin(function.e, shape[-1] // group.count)
    return finished if by.has_vectors else put_by


@nest(Conv2D, all_of(only((DType.INT8,)), only((DType.INT8,), 1), outputs_only(DType.INT32),
                     constant_inputs(1, 2), long_rows), frozenset({1, 2}), name=RAW)
def sums_of_products(node: Node[Conv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (o, kh, kw, c / groups), int8: (n, i, j, o), i32. As `conv_2d`, but that the
    sums of products are the results."""
    def passed_on(group: Group) -> Callable[[Plan, ir.Value], Result]:
        first = group.begin(e, node.shape[-1] // group.count)

        def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
            sinks[0](e, [*e.delinear(row, node.shape[:-1]), e.builder.add(column, first)], value)

        return lambda plan, scratch: Filtered(scratch, put)

    _multiply(node, lambda _: 0, passed_on)


def _sums_to(call: Call) -> int:
    """A magnitude that no sum of a convolution exceeds."""
    return reach(call, prod(call.input(1).shape[1:]))


def _quantized_as(call: Call, target: Target) -> Hashable:
    """What the code of a convolution is made of but for shapes and types."""
    by = requantization(call, call.input(1).shape[0], _sums_to(call))
    return margin_of(call), form_of(target, 1, stored_data(call.input(1))), by.looks


@nest(Conv2D, all_of(takes_integers, long_rows), frozenset({1, 2}), name=INT8, opaque=frozenset({1, 2}),
      quantized_as=_quantized_as)
def conv_2d(node: Node[Conv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (o, kh, kw, c / groups), int8: (n, i, j, o). Images are staged with margins;
    a loop over the groups: a product of n i j positions with o / groups columns, whose rows are found by tables of
    offsets (an indirection buffer, as Dukhan 2019 has it, of offsets). Its sums are requantised in tiles, by blocks, or
    one by one."""
    by = rescaling(node, node.call.input(1).shape[0], _sums_to)
    _multiply(node, zero_point,
              lambda group: requantized(node.function, sinks[0], node.shape, by, group))


def _multiply(node: Node[Conv2D], zero_point: Callable[[Call], int],
              result: Callable[[Group], Callable[[Plan, ir.Value], Result]]) -> None:
    """Stages the images, whose zero point is as told, and multiplies; `result` says where the sums of a group go."""
    image, weights, function, e = node.input(0), constant(node.input(1)), node.function, node.function.e
    form, shape = form_of(e.target, prod(node.shape[:-1]), weights), images(image)
    taps = Taps(form, shape, node.op.windows(shape, weights.shape), weights.shape[3])
    memory = placed(function, form, image, zero_point(node.call), shape, taps.run, taps.margins)
    runs = Made(node.call, lambda call: taps.runs(stored_data(call.input(1))))
    first = first_of(node.call, form, zero_point)
    left = taps.left(function, memory)
    with each_group(e, taps.groups) as group:
        multiply_integers(function, form, prod(node.shape[:-1]), taps.of(e, left, group), runs, first, result(group),
                          group=group)
