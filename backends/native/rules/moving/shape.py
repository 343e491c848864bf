"""Native rules of the operators about shapes."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, Emitter, register_type
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed, in_memory
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.index import counts
from circlet.backends.native.rules.moving.move import expect_shape, extended, filled, impossible
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest, nothing
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import bound, may_differ
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import agreed
from circlet.runtime.ops.shape import (
    Alias,
    Bitcast,
    BroadcastArgs,
    BroadcastTo,
    Densify,
    ExpandDims,
    Fill,
    OneHot,
    Range,
    Reshape,
    Squeeze,
    StablehloBroadcastInDim,
    StablehloIota,
    StablehloReshape,
    View,
)

SECOND = frozenset({1})
"""Inputs by position, as `parameters` names them."""


def view(node: Node[Any]) -> tuple[Value]:
    """Of x, the same elements in row-major order under another shape; where they lie in memory, they stay there."""
    x = node.input(0)
    if agreed(x.size, prod(node.shape)) is None:
        return (impossible(node, f"the result has {x.size} elements, the model declares shape {node.shape}"),)
    return (x.reshaped(node.shape),)


_VIEWS: tuple[type[View], ...] = (Reshape, ExpandDims, Squeeze, StablehloReshape, Densify, Alias)
"""The operators whose result is the bytes of their input under another shape."""
for _op in _VIEWS:
    fused(_op, movable, is_free=True, parameters=SECOND, quantized_as=nothing)(view)


@fused(Bitcast, movable, is_free=True)
def bitcast(node: Node[Bitcast]) -> tuple[Value]:
    """Of x, the same bytes as another type: a view where x lies in memory, else a cast of each register."""
    x, dtype, shape = node.input(0), node.call.outputs[0].dtype, node.shape
    if x.nbytes != prod(shape) * dtype.numpy.itemsize:
        return (impossible(node, f"the result has {x.nbytes} bytes, the model declares shape {shape}"),)
    differs = may_differ(x.size, prod(shape))
    bits, source = register_type(dtype), x if differs else x.reshaped(shape)
    if x.memory is not None or differs or DType.BOOL in (dtype, x.dtype):
        return (in_memory(node.function.pointer(x), shape, dtype),)
    return (computed(shape, dtype, lambda e, index: e.builder.bitcast(source.element(e, index), bits),
                     (lambda e, position: e.builder.bitcast(x.linear(e, position), bits)) if x.flat else None),)


@fused(Fill, movable, is_free=True, parameters=frozenset({0}))
def fill(node: Node[Fill]) -> tuple[Value]:
    """Of a shape and a scalar: an array of it, computed where it is read."""
    value = node.input(1)
    return (filled(node.shape, value.dtype, value.scalar(node.function.e)),)


@fused(Range, only((DType.INT32, DType.INT64)), is_free=True, parameters=frozenset({0, 1, 2}))
def range_(node: Node[Range]) -> tuple[Value]:
    """Of integers start, limit and delta: start + k delta, computed where it is read; sums so far of floats would not
    be."""
    e, dtype = node.function.e, node.call.outputs[0].dtype
    start, delta = (node.input(k).scalar(e) for k in (0, 2))

    def element(e: Emitter, index: Index) -> ir.Value:
        return e.builder.add(start, e.builder.mul(convert(e, index[0], e.index_dtype, dtype), delta))

    return (computed(node.shape, dtype, element, lambda e, position: element(e, [position])),)


_LONGEST = 2147483520.0
"""The greatest number of single precision that an index of 32 bits holds."""


@nest(Range, all_of(only((DType.FLOAT32, DType.INT32, DType.INT64)), counts), is_last=True, name="sums")
def sums(node: Node[Range], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of start, limit and delta that only the run tells: start, and as often as ceil((limit - start) / delta) says but
    once, what is there plus delta. Where that is no length, a frame for any values says so."""
    dtype, b = node.call.outputs[0].dtype, e.builder
    start, limit, delta = (node.input(k).scalar(e) for k in range(3))
    count = (_steps_of_floats if dtype is DType.FLOAT32 else _steps)(e, start, limit, delta)
    if e.is_undefined(node.shape[0]):
        node.function.expect_capacity(count, bound(node.shape[0]), 0)
    if not expect_shape(node, [Whole(e, count)]):
        return
    value = Register(e, register_type(dtype))
    value.set(start)
    with e.loop(count) as k:
        sinks[0](e, [k], value.get())
        value.set(b.fadd(value.get(), delta) if dtype is DType.FLOAT32 else b.add(value.get(), delta))


def _steps_of_floats(e: Emitter, start: ir.Value, limit: ir.Value, delta: ir.Value) -> ir.Value:
    """How many steps there are, computed in single precision; -1 where they do not lead to the limit."""
    b, zero, reached = e.builder, e.constant(0.0, DType.FLOAT32), e.builder.fdiv(e.builder.fsub(limit, start), delta)
    towards = [b.and_(b.fcmp_ordered(one, delta, zero), b.fcmp_ordered(other, start, limit))
               for one, other in (("<", ">="), (">", "<="))]
    is_length = b.and_(b.or_(*towards), b.fcmp_ordered("<=", reached, e.constant(_LONGEST, DType.FLOAT32)))
    return b.select(is_length, b.fptosi(e.intrinsic("ceil", reached), e.index), e.number(-1))


def _steps(e: Emitter, start: ir.Value, limit: ir.Value, delta: ir.Value) -> ir.Value:
    """The same of integers."""
    b, (first, last, step) = e.builder, (extended(e, each, DType.INT64) for each in (start, limit, delta))
    is_down = b.icmp_signed("<", step, e.number(0))
    distance, size = (e.select(is_down, b.neg(each), each) for each in (b.sub(last, first), step))
    is_length = b.and_(b.icmp_signed(">", size, e.number(0)), b.icmp_signed(">=", distance, e.number(0)))
    by = e.select(is_length, size, e.number(1))
    return e.select(is_length, b.sdiv(b.add(distance, b.sub(by, e.number(1))), by), e.number(-1))


@fused(OneHot, movable, parameters=SECOND)
def one_hot(node: Node[OneHot]) -> tuple[Value]:
    """Of indices (a..., b...): (a..., depth, b...), `on` where the index along the new axis is the one given, else
    `off`."""
    indices, axis = node.input(0), node.op.axis % len(node.shape)
    on, off = (node.input(k).reshaped(()).scalar(node.function.e) for k in (2, 3))

    def element(e: Emitter, index: Index) -> ir.Value:
        wanted = extended(e, indices.element(e, [*index[:axis], *index[axis + 1:]]), indices.dtype)
        return e.select(e.builder.icmp_signed("==", wanted, index[axis]), on, off)

    return (computed(node.shape, node.input(2).dtype, element),)


def _broadcast(x: Value, shape: Shape) -> Value:
    """x under a shape that it broadcasts to, computed where it is read."""
    is_one = not may_differ(x.size, 1)
    flat = is_one or (x.flat and not may_differ(x.size, prod(shape)))
    return computed(shape, x.dtype, x.broadcast(shape),
                    (lambda e, position: x.linear(e, e.number(0) if is_one else position)) if flat else None)


@fused(BroadcastTo, movable, is_free=True, parameters=SECOND, quantized_as=nothing)
def broadcast_to(node: Node[BroadcastTo]) -> tuple[Value]:
    """Of x, the shape that input 1 says."""
    return (_broadcast(node.input(0), node.shape),)


@fused(StablehloBroadcastInDim, movable, is_free=True)
def broadcast_in_dim(node: Node[StablehloBroadcastInDim]) -> tuple[Value]:
    """Of x, a larger shape, whose axes the operator names for each of x."""
    x = node.input(0)
    try:
        aligned = node.op.align(x.shape, node.shape)
    except ShapeError as error:
        return (impossible(node, str(error)),)
    return (_broadcast(x.reshaped(aligned), node.shape),)


_MOST_AXES = 8
"""Of the shapes that code compares one by one; a choice."""


def _few_axes(call: Call) -> str | None:
    """Refuses shapes of any number of axes."""
    found = [each.signature for each in (call.input(0), call.input(1))]
    return None if all(len(each) == 1 and 0 <= each[0] <= _MOST_AXES for each in found) else f"shapes {found}"


@nest(BroadcastArgs, all_of(only((DType.INT32, DType.INT64)), _few_axes))
def broadcast_args(node: Node[BroadcastArgs], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of two shapes: the one that both broadcast to."""
    b, (rank,), dtype = e.builder, node.shape, node.call.outputs[0].dtype
    shapes = [[extended(e, x.element(e, [e.number(k)]), x.dtype) for k in range(x.shape[0])]
              for x in (node.input(0), node.input(1))]
    one = e.number(1)
    pairs = list(zip(*([one] * (rank - len(each)) + each for each in shapes), strict=True))
    right = [b.or_(b.icmp_signed("==", first, second), b.or_(b.icmp_signed("==", first, one),
                                                            b.icmp_signed("==", second, one)))
             for first, second in pairs]
    texts = ["({},)" if len(each) == 1 else f"({', '.join(['{}'] * len(each))})" for each in shapes]
    node.function.fail_unless(reduce(b.and_, right, ir.Constant(I1, True)), node.place,
                              f"cannot broadcast {texts[0]} with {texts[1]}", *shapes[0], *shapes[1])
    for k, (first, second) in enumerate(pairs):
        size = e.select(b.icmp_signed("==", first, one), second, first)
        sinks[0](e, [e.number(k)], convert(e, size, e.index_dtype, dtype))


@fused(StablehloIota, movable, is_free=True)
def iota(node: Node[StablehloIota]) -> tuple[Value]:
    """The index along an axis, computed where it is read."""
    axis, dtype, shape = node.op.iota_dimension, node.call.outputs[0].dtype, node.shape
    if not 0 <= axis < len(shape):
        return (impossible(node, f"iota_dimension: expected an axis of the result of shape {shape}, found {axis}"),)
    return (computed(shape, dtype, lambda e, index: convert(e, index[axis], e.index_dtype, dtype)),)
