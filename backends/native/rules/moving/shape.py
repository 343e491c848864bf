"""Native rules of the operators about shapes."""

from __future__ import annotations

from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, Index, register_type
from circlet.backends.native.emit.value import Value, computed, in_memory
from circlet.backends.native.rules.moving.move import extended, filled, impossible
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, fused
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.shape import (
    Alias,
    Bitcast,
    BroadcastTo,
    ExpandDims,
    Fill,
    OneHot,
    Reshape,
    Squeeze,
    StablehloBroadcastInDim,
    StablehloIota,
    StablehloReshape,
    View,
)

SECOND = frozenset({1})


def view(node: Node[Any]) -> tuple[Value]:
    x = node.input(0)
    if x.size != prod(node.shape):
        return (impossible(node, f"the result has {x.size} elements, the model declares shape {node.shape}"),)
    return (x.reshaped(node.shape),)


_VIEWS: tuple[type[View], ...] = (Reshape, ExpandDims, Squeeze, StablehloReshape, Alias)
for _op in _VIEWS:
    fused(_op, movable, is_free=True, parameters=SECOND)(view)


@fused(Bitcast, movable, is_free=True)
def bitcast(node: Node[Bitcast]) -> tuple[Value]:
    x, dtype, shape = node.input(0), node.call.outputs[0].dtype, node.shape
    if x.nbytes != prod(shape) * dtype.numpy.itemsize:
        return (impossible(node, f"the result has {x.nbytes} bytes, the model declares shape {shape}"),)
    bits, source = register_type(dtype), x.reshaped(shape) if x.size == prod(shape) else x
    if x.memory is not None or x.size != prod(shape) or DType.BOOL in (dtype, x.dtype):
        return (in_memory(node.function.pointer(x), shape, dtype),)
    return (computed(shape, dtype, lambda e, index: e.builder.bitcast(source.element(e, index), bits),
                     (lambda e, position: e.builder.bitcast(x.linear(e, position), bits)) if x.flat else None),)


@fused(Fill, movable, is_free=True, parameters=frozenset({0}))
def fill(node: Node[Fill]) -> tuple[Value]:
    value = node.input(1)
    return (filled(node.shape, value.dtype, value.scalar(node.function.e)),)


@fused(OneHot, movable, parameters=SECOND)
def one_hot(node: Node[OneHot]) -> tuple[Value]:
    indices, axis = node.input(0), node.op.axis % len(node.shape)
    on, off = (node.input(k).reshaped(()).scalar(node.function.e) for k in (2, 3))

    def element(e: Emitter, index: Index) -> ir.Value:
        wanted = extended(e, indices.element(e, [*index[:axis], *index[axis + 1:]]), indices.dtype)
        return e.select(e.builder.icmp_signed("==", wanted, index[axis]), on, off)

    return (computed(node.shape, node.input(2).dtype, element),)


def _broadcast(x: Value, shape: Shape) -> Value:
    flat = x.size == 1 or (x.flat and x.size == prod(shape))
    return computed(shape, x.dtype, x.broadcast(shape),
                    (lambda e, position: x.linear(e, e.number(0) if x.size == 1 else position)) if flat else None)


@fused(BroadcastTo, movable, is_free=True, parameters=SECOND)
def broadcast_to(node: Node[BroadcastTo]) -> tuple[Value]:
    return (_broadcast(node.input(0), node.shape),)


@fused(StablehloBroadcastInDim, movable, is_free=True)
def broadcast_in_dim(node: Node[StablehloBroadcastInDim]) -> tuple[Value]:
    x = node.input(0)
    try:
        aligned = node.op.align(x.shape, node.shape)
    except ShapeError as error:
        return (impossible(node, str(error)),)
    return (_broadcast(x.reshaped(aligned), node.shape),)


@fused(StablehloIota, movable, is_free=True)
def iota(node: Node[StablehloIota]) -> tuple[Value]:
    axis, dtype, shape = node.op.iota_dimension, node.call.outputs[0].dtype, node.shape
    if not 0 <= axis < len(shape):
        return (impossible(node, f"iota_dimension: expected an axis of the result of shape {shape}, found {axis}"),)
    return (computed(shape, dtype, lambda e, index: convert(e, index[axis], DType.INT64, dtype)),)
