"""Rules for weights of few bits, each block of which has a scale, as ONNX Runtime's tools for decoders write them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import helper

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import matmul
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.index import from_front
from circlet.schema.onnx.ops.quantize import dequantize_linear
from circlet.schema.onnx.rules import rule

DOMAIN = "com.microsoft"


def _numbers(packed: Array, bits: int) -> Array:
    """Unsigned numbers (..., k 8 / bits) of bytes (..., k), the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    found: Array = ((packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(*packed.shape[:-1], -1)
    return found


def _weights(node: Node, rows: int, depth: int, bits: int, size: int) -> Value:
    """The factor (rows, depth) that inputs 1 to 3 stand for: stored numbers less their zero points, times scales."""
    graph = node.graph
    blocks = -(-depth // size)
    packed, scales = node.value(1, "a factor"), node.value(2, "scales")
    if packed.dtype != np.uint8 or packed.size * 8 != rows * blocks * size * bits or scales.size != rows * blocks:
        raise ModelError(f"expected {rows} rows of {blocks} blocks of {size} numbers of {bits} bits and a scale for "
                         f"each block, found shapes {packed.shape} and {scales.shape}")
    stored, zero = _numbers(packed.reshape(rows, blocks, -1), bits), _zero_points(node, rows, blocks, bits)
    scale = scales.astype(np.float32).reshape(rows, blocks, 1)
    if depth < blocks * size:
        real = (stored.astype(np.float32) - zero) * scale
        return constant(np.ascontiguousarray(real.reshape(rows, -1)[:, :depth]))
    difference = c.subtract(graph, c.widened(graph, constant(stored)), constant(zero))
    return c.reshape(graph, c.multiply(graph, difference, constant(scale)), [rows, depth])


def _zero_points(node: Node, rows: int, blocks: int, bits: int) -> Array:
    """Those of blocks, (rows, blocks, 1), or of all."""
    if node.get(3) is None:
        return np.full((1, 1, 1), 1 << (bits - 1), np.float32)
    found = node.value(3, "zero points")
    if found.dtype == np.uint8:
        found = _numbers(found.reshape(rows, -1), bits)[:, :blocks]
    return found.astype(np.float32).reshape(rows, blocks, 1)


@rule(f"{DOMAIN}.MatMulNBits")
def product_with_few_bits(node: Node) -> Value:
    """The product of x (..., depth) with weights, plus a bias, as float32."""
    graph, rows, depth = node.graph, node.integer("N"), node.integer("K")
    bits, size = node.integer("bits", 4), node.integer("block_size")
    if bits not in (2, 4, 8) or size < 1 or min(rows, depth) < 1:
        raise ModelError(f"expected 2, 4 or 8 bits and positive sizes, found {bits} bits, N {rows}, K {depth} and "
                         f"block_size {size}")
    if node.get(4) is not None or node.integer("weight_prepacked", 0):
        node.unsupported("g_idx or weight_prepacked")
    factor, x = _weights(node, rows, depth, bits, size), c.cast(graph, node[0], DType.FLOAT32)
    bias = node.get(5)
    bias = None if bias is None else c.cast(graph, bias, DType.FLOAT32)
    return c.cast(graph, node.apply(matmul.FullyConnected(keep_num_dims=True), x, factor, bias), node.dtype())


@rule(f"{DOMAIN}.GatherBlockQuantized")
def rows_with_few_bits(node: Node) -> Value:
    """Slices of a table of stored numbers, less their zero points and times scales, of the type of the scales.

    The table is one of integers of four bits, whose zero points are 0 by default, or of bytes, each of which holds one
    or two numbers of the last axis, whose zero points are 128 or 8.
    """
    graph, bits, size = node.graph, node.integer("bits", 4), node.integer("block_size", 128)
    if bits not in (4, 8) or size < 1:
        raise ModelError(f"expected 4 or 8 bits and a positive size, found {bits} bits and block_size {size}")
    table, zero, counts = node[0], node.get(3), node.shape(2)
    if table.narrow is None:
        points = np.full(counts, 1 << (bits - 1)) if zero is None else _numbers(node.value(3, "zero points"), bits)
        zero = constant(points[..., :counts[-1]].astype(np.uint8))
        table = constant(_numbers(node.value(0, "a table"), bits))
    shape = table.shape or ()
    along, axis = (c.axis_of(table, node.integer(f"{name}_axis", k)) for k, name in enumerate(("gather", "quantize")))
    if counts != tuple(-(-length // size) if k == axis else length for k, length in enumerate(shape)):
        raise ModelError(f"expected a scale for each {size} numbers of axis {axis} of shape {shape}, found shape "
                         f"{counts}")
    attributes = {"axis": axis, "block_size": min(size, shape[axis])}
    real = dequantize_linear(replace(
        node, inputs=(table, node[2], zero),
        attributes={name: helper.make_attribute(name, value) for name, value in attributes.items()}))
    assert isinstance(real, Value), "DequantizeLinear has one result"
    return c.gather(graph, real, from_front(graph, node[1], c.like(shape[along], node[1])), along)
