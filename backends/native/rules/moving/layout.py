"""Native rules of the operators that move elements to places known from shapes and parameters."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import Any

from llvmlite import ir

from circlet.backends.cpu.layout import refuses_concatenation, requantized
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.parallel import parallel_every
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed, in_strides
from circlet.backends.native.emit.whole import Whole, both, either
from circlet.backends.native.rules.moving.move import (
    expect,
    expect_shape,
    extended,
    overwrite,
    parameter,
    part,
    unreached,
    wholes,
)
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest, nothing
from circlet.backends.native.targets.target import Target
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.types import INTEGERS, DType
from circlet.runtime.ops.layout import (
    Concatenation,
    MatrixDiag,
    MatrixSetDiag,
    Pack,
    ReverseSequence,
    ReverseV2,
    Slice,
    Split,
    SplitV,
    StablehloConcatenate,
    StablehloSlice,
    StablehloTranspose,
    StridedSlice,
    Transpose,
    Unpack,
    permuted,
)
from circlet.runtime.ops.operands import integer, normalize_axis, replaced
from circlet.runtime.records import dataclass

SECOND = frozenset({1})
"""Inputs by position, as `parameters` names them."""
MOST_OFFSET = 1 << 48
"""More elements than any axis has, as addresses have 48 bits on the processors that there are; sums of a few of them
fit into 64 bits."""


@fused(Transpose, movable, is_free=True, parameters=SECOND, quantized_as=nothing)
def transpose(node: Node[Transpose]) -> tuple[Value]:
    """Of x and a permutation: a value that reads x by another index; written to memory by `copy_strided`."""
    return (transposed(node.input(0), parameter(node, 1).tolist()),)


@fused(StablehloTranspose, movable, is_free=True, quantized_as=nothing)
def stablehlo_transpose(node: Node[StablehloTranspose]) -> tuple[Value]:
    """As `transpose`, with the permutation as an option."""
    return (transposed(node.input(0), node.op.permutation),)


def transposed(x: Value, permutation: Sequence[int]) -> Value:
    """The tensor whose axis k is axis `permutation[k]` of another one."""
    axes = permuted(x.shape, permutation, "permutation")
    shape = tuple(x.shape[axis] for axis in axes)
    moved = [axis for axis in axes if may_differ(x.shape[axis], 1)]
    if moved == sorted(moved):
        return x.reshaped(shape)

    if x.place is not None:
        return in_strides(shape, x.place.transposed(axes), x.dtype)

    def element(e: Emitter, index: Index) -> ir.Value:
        return x.element(e, [index[axes.index(axis)] for axis in range(len(axes))])

    return computed(shape, x.dtype, element)


@fused(StablehloSlice, movable, is_free=True, quantized_as=nothing)
def stablehlo_slice(node: Node[StablehloSlice]) -> tuple[Value]:
    """Of x: the elements from `start_indices` on, `strides` apart; a view where they are one run."""
    e = node.function.e
    starts = [Whole(e, each) for each in node.op.start_indices]
    return (part(e, node.input(0), starts, node.shape, [Whole(e, each) for each in node.op.strides]),)


@fused(ReverseV2, movable, is_free=True, parameters=SECOND, quantized_as=nothing)
def reverse_v2(node: Node[ReverseV2]) -> tuple[Value]:
    """Of x: the same shape, some axes read backwards."""
    x, e = node.input(0), node.function.e
    axes = {normalize_axis(axis, len(x.shape)) for axis in parameter(node, 1).tolist()}
    starts = [Whole(e, size - 1 if axis in axes else 0) for axis, size in enumerate(x.shape)]
    return (part(e, x, starts, x.shape, [Whole(e, -1 if axis in axes else 1) for axis in range(len(x.shape))]),)


@fused(ReverseSequence, all_of(movable, only(INTEGERS - {DType.UINT64}, 1)), is_free=True,
       memory_inputs=frozenset({1}))
def reverse_sequence(node: Node[ReverseSequence]) -> tuple[Value]:
    """Of x and lengths (b,): the same shape; of slice k of the batch axis as many entries of the sequence axis as
    length k says are read backwards. What is not known is checked."""
    x, lengths = node.input(0), node.input(1)
    sequence, batch = node.op.axes(len(x.shape))
    if lengths.known is None:
        outer, most = node.function.e, x.shape[sequence]
        with outer.nest(lengths.shape) as place:
            length = Whole(outer, extended(outer, lengths.element(outer, place), lengths.dtype))
            expect(node, length.is_in(0, most), f"seq_lengths: expected 0 to {most}, found {{}}", length)

    def element(e: Emitter, index: Index) -> ir.Value:
        b, length = e.builder, extended(e, lengths.element(e, [index[batch]]), lengths.dtype)
        turned = b.sub(b.sub(length, e.number(1)), index[sequence])
        inside = b.icmp_signed("<", index[sequence], length)
        return x.element(e, [b.select(inside, turned, each) if axis == sequence else each
                             for axis, each in enumerate(index)])

    return (computed(node.shape, x.dtype, element, quantization=x.quantization),)


@fused(Slice, movable, is_free=True, memory_inputs=frozenset({1, 2}), quantized_as=nothing)
def slice_(node: Node[Slice]) -> tuple[Value]:
    """Of x, begins and sizes, one for each axis: that part, a view where it is one run. What is not known is
    checked."""
    x, e = node.input(0), node.function.e
    begins, lengths = (wholes(e, node.input(k)) for k in (1, 2))
    sizes: list[Whole] = []
    for dim, begin, length in zip(x.shape, begins, lengths, strict=True):
        size = (Whole(e, dim) - begin).where(length.compare("==", -1), length)
        fits = both(e, begin.is_in(0, dim), size.is_in(0, Whole(e, dim) - begin))
        expect(node, fits, f"begin {{}} and size {{}} leave an axis of size {dim}", begin, length)
        sizes.append(size)
    return (part(e, x, begins, node.shape) if expect_shape(node, sizes) else unreached(node),)


@fused(StridedSlice, movable, is_free=True, memory_inputs=frozenset({1, 2}), parameters=frozenset({3}),
       quantized_as=nothing)
def strided_slice(node: Node[StridedSlice]) -> tuple[Value]:
    """Of x, begins, ends and strides: the part that the masks leave, axes added and dropped, a view where it is one
    run. What is not known is checked."""
    e = node.function.e
    return _slice(node, [Whole(e, integer(each)) for each in parameter(node, 3).tolist()])


@fused(StridedSlice, movable, is_free=True, memory_inputs=frozenset({1, 2, 3}), quantized_as=nothing, name="steps")
def strided_slice_by_steps(node: Node[StridedSlice]) -> tuple[Value]:
    """The same by strides of any sign that only the run tells."""
    e = node.function.e
    most = 1 << (e.index.width - 2)  # more than an axis has, so that sums of two do not overflow
    return _slice(node, [each.at_least(-most).at_most(most) for each in wholes(e, node.input(3))])


def _slice(node: Node[StridedSlice], steps: Sequence[Whole]) -> tuple[Value]:
    """The part of x that begins, ends and the given strides say."""
    x, e = node.input(0), node.function.e
    begins, ends = (wholes(e, node.input(k)) for k in (1, 2))
    taken = [Selection(Whole(e, 0), Whole(e, dim), Whole(e, 1)) for dim in x.shape]
    lengths, sizes = [1] * len(x.shape), list[Whole]()
    for axis, k in node.op.plan(len(x.shape), len(steps)):
        if axis is None:
            sizes.append(Whole(e, 1))
            continue
        if k is not None:
            taken[axis] = _select(node, k, x.shape[axis], begins[k], ends[k], steps[k])
        if k is None or not node.op.shrink_axis_mask >> k & 1:
            lengths[axis] = dict(enumerate(node.shape)).get(len(sizes), 1)
            sizes.append(taken[axis].size)
    if not expect_shape(node, sizes):
        return (unreached(node),)
    found = part(e, x, [each.first for each in taken], tuple(lengths), [each.step for each in taken])
    return (found.reshaped(node.shape),)


@dataclass(frozen=True)
class Selection:
    """The elements of an axis that a slice takes."""

    first: Whole
    size: Whole
    step: Whole


def _select(node: Node[StridedSlice], entry: int, dim: int, begin: Whole, end: Whole, step: Whole) -> Selection:
    """What an entry of a STRIDED_SLICE takes from an axis."""
    op, e = node.op, node.function.e
    expect(node, step.compare("!=", 0), f"strides: expected none that is 0, found it in entry {entry}")
    forwards, one = step.compare(">", 0), Whole(e, 1)
    lowest, highest = Whole(e, 0).where(forwards, -1), Whole(e, dim).where(forwards, dim - 1)
    first, last = lowest.where(forwards, highest), highest.where(forwards, lowest)
    if not op.begin_mask >> entry & 1:
        first = _clamped(begin, dim, lowest, highest)
    if op.shrink_axis_mask >> entry & 1:
        inside = both(e, forwards, first.compare("!=", dim))
        expect(node, inside, f"index {{}} with stride {{}} does not select from an axis of size {dim}", begin, step)
        return Selection(first, one, one)
    if op.offset:
        last = first + end.at_least(-MOST_OFFSET).at_most(MOST_OFFSET)
    elif not op.end_mask >> entry & 1:
        last = _clamped(end, dim, lowest, highest)
    sign = one.where(forwards, -1)
    span, distance = (last - first) * sign, step * sign
    size = (span + (distance - 1)).at_least(0) // distance
    if op.offset:
        final = first + (size - 1) * step
        fits = either(e, size.compare("==", 0), final.is_in(0, dim - 1))
        expect(node, fits, f"offset {{}} from {{}} on leaves an axis of size {dim}", end, first)
    return Selection(first, size, step)


def _clamped(position: Whole, dim: int, lowest: Whole, highest: Whole) -> Whole:
    """A position, which counts from the end if it is negative, limited to [lowest, highest]."""
    counted = (position + dim).where(position.compare("<", 0), position)
    return counted.at_least(lowest).at_most(highest)


def _cut(node: Node[Any], x: Value, axis: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    """The pieces of a tensor along an axis, one after another, under the shapes of the outputs."""
    e, found = node.function.e, list[Value]()
    for first, size, shape in zip(accumulate(sizes, initial=0), sizes, node.shapes, strict=False):
        starts = [Whole(e, first if each == axis else 0) for each in range(len(x.shape))]
        found.append(part(e, x, starts, replaced(x.shape, axis, size)).reshaped(shape))
    return tuple(found)


@fused(Split, movable, is_free=True, parameters=frozenset({0}), quantized_as=nothing)
def split(node: Node[Split]) -> tuple[Value, ...]:
    """Of x: equal parts along an axis, views where they are runs."""
    x = node.input(1)
    axis = normalize_axis(int(parameter(node, 0).item()), len(x.shape))
    return _cut(node, x, axis, [shape[axis] for shape in node.shapes])


@fused(SplitV, movable, is_free=True, parameters=frozenset({1, 2}), quantized_as=nothing)
def split_v(node: Node[SplitV]) -> tuple[Value, ...]:
    """Of x: parts of given sizes along an axis, views where they are runs."""
    x = node.input(0)
    axis = normalize_axis(int(parameter(node, 2).item()), len(x.shape))
    return _cut(node, x, axis, [shape[axis] for shape in node.shapes])


@fused(Unpack, movable, is_free=True, quantized_as=nothing)
def unpack(node: Node[Unpack]) -> tuple[Value, ...]:
    """Of x: its slices along an axis, which is dropped."""
    x = node.input(0)
    return _cut(node, x, normalize_axis(node.op.axis, len(x.shape)), [1] * len(node.shapes))


@nest(Pack, movable, memory_inputs=frozenset(), quantized_as=nothing)
def pack(node: Node[Pack], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of n arrays (a..., b...): one (a..., n, b...), by `join`."""
    axis = normalize_axis(node.op.axis, len(node.shape))
    inputs = [node.input(k) for k in range(len(node.inputs))]
    join(e, sinks[0], [each.reshaped(replaced(node.shape, axis, 1)) for each in inputs], axis)


@nest(StablehloConcatenate, movable, memory_inputs=frozenset(), quantized_as=nothing)
def stablehlo_concatenate(node: Node[StablehloConcatenate], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of arrays that differ along an axis: one with all of them there, by `join`."""
    inputs = [node.input(k) for k in range(len(node.inputs))]
    join(e, sinks[0], inputs, normalize_axis(node.op.dimension, len(node.shape)))


def _tables(call: Call, target: Target) -> Hashable:
    """Those by which inputs are looked up."""
    tables = (None if each is None else requantized(each, call.outputs[0]) for each in call.inputs)
    return tuple(None if each is None else each.tobytes() for each in tables)


@nest(Concatenation, all_of(movable, refuses_concatenation), memory_inputs=frozenset(), quantized_as=_tables)
def concatenation(node: Node[Concatenation], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of arrays that differ along an axis: one with all of them there, by `join`."""
    inputs = [_joined(node, k) for k in range(len(node.inputs))]
    join(e, sinks[0], inputs, normalize_axis(node.op.axis, len(node.shape)))


def _joined(node: Node[Concatenation], position: int) -> Value:
    """An input, of which uint8 values are those of the result's quantisation: looked up, if they change."""
    x, source, target = node.input(position), node.call.input(position), node.call.outputs[0]
    table = requantized(source, target)
    if table is None:
        return x
    entries = node.function.external(table)

    def element(e: Emitter, index: Index) -> ir.Value:
        return e.load(entries, x.dtype, e.builder.zext(x.element(e, index), e.index))

    return computed(x.shape, x.dtype, element)


def join(e: Emitter, sink: Sink, inputs: Sequence[Value], axis: int) -> None:
    """Goes through one input after another: copies its runs to their places in the result where both lie in memory,
    else loops over its elements, shared out. The first one may be where the result begins."""
    offset, shape = 0, replaced(inputs[0].shape, axis, sum(x.shape[axis] for x in inputs))
    for k, x in enumerate(inputs):
        if k == 0 and x.memory is not None and x.memory is sink.memory:
            pass
        elif x.memory is not None and sink.memory is not None:
            overwrite(e, sink.memory, shape, x, [Whole(e, offset if each == axis else 0) for each in range(len(shape))])
        elif may_differ(x.size, 0):
            _put(e, sink, x, axis, offset)
        offset += x.shape[axis]


def _put(e: Emitter, sink: Sink, x: Value, axis: int, offset: int) -> None:
    """Gives each element of an array its place behind an offset along an axis."""
    def give(index: Index) -> None:
        place = e.builder.add(index[axis], e.number(offset), flags=("nuw", "nsw"))
        sink(e, [*index[:axis], place, *index[axis + 1:]], x.element(e, index))

    parallel_every(e, x.shape, 4 * x.nbytes, give)


@fused(MatrixDiag, movable)
def matrix_diag(node: Node[MatrixDiag]) -> tuple[Value]:
    """Of x (..., n): (..., n, n), zero off the diagonal."""
    x = node.input(0)

    def element(e: Emitter, index: Index) -> ir.Value:
        on = e.builder.icmp_unsigned("==", *index[-2:])
        return e.select(on, x.element(e, index[:-1]), e.constant(0, x.dtype))

    return (computed(node.shape, x.dtype, element),)


@nest(MatrixSetDiag, movable, memory_inputs=frozenset(), is_last=True)
def matrix_set_diag(node: Node[MatrixSetDiag], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, n) and diagonals (..., min(m, n)): x, copied unless it lies there, with these stored by a loop."""
    x, diagonals, home = node.input(0), node.input(1), sinks[0].memory
    if x.memory is not home:
        x.write(e, home)
    with e.nest(diagonals.shape) as index:
        e.store(diagonals.element(e, index), home, x.dtype, e.linear([*index, index[-1]], x.shape))
