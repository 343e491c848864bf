"""Native rule of products of float32 rows with int8 weights of which each block has a scale, equal to the bit to the
numpy backend's."""

from __future__ import annotations

from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.lanes import Lanes
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.gemm.grouped import each_group
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.operands import Block, Collected
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.quantized.fully_connected import (
    constant,
    form_of,
    multiply_integers,
    rows_of,
    stage,
)
from circlet.backends.native.rules.quantized.hybrid import long_filters, parameters_of, refuses_types, staged
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.refusals import constant_inputs
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.matmul import BlockFullyConnected
from circlet.runtime.records import replace

_BITS = 4
"""Of the weights in the model."""


@nest(BlockFullyConnected, all_of(refuses_types(DType.INT8, bias=3), constant_inputs(2), long_filters))
def block_fully_connected(node: Node[BlockFullyConnected], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., k), float32, weights (n, k), int8, and scales (n, b): (..., n), float32. Each row is quantised as it
    is staged. Each block is a product, whose sums are scaled and added to what those before gave; then what the zero
    point adds is taken off, and the rest scaled by the row."""
    function, weights, scales = node.function, constant(node.input(1)), constant(node.input(2))
    rows, (units, depth), blocks = prod(node.shape[:-1]), weights.shape, scales.shape[1]
    size, form = depth // blocks, form_of(e.target, prod(node.shape[:-1]), weights)
    source, parameters = staged(function, form, node.input(0), depth, True)
    memory = stage(function, form, (rows, 1, 1, depth), source)
    totals = function.reserve(rows * units * WORD)
    e.fill(totals, 0, rows * units * WORD)
    parts = np.ascontiguousarray(np.moveaxis(weights.reshape(units, blocks, size), 1, 0))
    moved = -form.offset * parts.sum(axis=-1, dtype=np.int32)
    factors = function.external(np.ascontiguousarray(scales.T))
    first_rows = replace(rows_of(function, form, memory, depth), run=form.run(size))

    with each_group(e, blocks) as group:
        def collect(e: Emitter, block: Block) -> None:
            with rolled(e, block.rows) as k:
                b = e.builder
                sums = e.address(block.memory, ir.IntType(32), b.mul(k, e.number(block.step)))
                begin = b.add(b.mul(b.add(block.row, k), e.number(units)), block.column)
                mine = e.address(totals, ir.FloatType(), begin)
                factor = e.address(factors, ir.FloatType(), b.add(group.begin(e, units), block.column))
                with independent(e, block.columns, lanes(e.target)) as each:
                    found = Lanes(e, e.load(sums, DType.INT32, each)).to_real(ir.FloatType())
                    scaled = found * Lanes(e, e.load(factor, DType.FLOAT32, each))
                    total = Lanes(e, e.load(mine, DType.FLOAT32, each)) + scaled
                    e.store(total.value, mine, DType.FLOAT32, each)

        left = replace(first_rows, memory=group.address(e, first_rows.memory, I8, size * form.size))
        multiply_integers(function, form, rows, left, Made.fixed(parts.reshape(blocks * units, 1, size)),
                          Made.fixed(moved.reshape(-1)), lambda plan, scratch: Collected(scratch, collect), _BITS,
                          group)
    _finish(node, e, sinks[0], parameters, totals, form.offset)


def _weighted(node: Node[BlockFullyConnected]) -> ir.Value:
    """What one step of a zero point adds to each column, as float32: the sums of blocks, scaled and added up."""
    weights, scales = constant(node.input(1)), constant(node.input(2))
    found = np.zeros(len(weights), np.float32)
    for factor, part in zip(scales.T, np.moveaxis(weights.reshape(*scales.shape, -1), 1, 0), strict=True):
        found += factor * part.sum(axis=-1, dtype=np.int32).astype(np.float32)
    return node.function.external(found)


def _finish(node: Node[BlockFullyConnected], e: Emitter, sink: Sink, parameters: ir.Value, totals: ir.Value,
            offset: int) -> None:
    """Passes on what becomes of the scaled sums of all rows."""
    rows, units, bias, weighted = prod(node.shape[:-1]), node.shape[-1], node.optional(3), _weighted(node)
    with parallel(e, rows, 2 * rows * units * WORD) as row:
        scale, zero = parameters_of(e, parameters, row)
        zero = Lanes(e, e.builder.sub(zero, e.constant(offset, DType.INT32))).to_real(ir.FloatType())
        mine = e.address(totals, ir.FloatType(), e.builder.mul(row, e.number(units)))
        with independent(e, units, lanes(e.target)) as column:
            total = Lanes(e, e.load(mine, DType.FLOAT32, column))
            found = (total - zero * Lanes(e, e.load(weighted, DType.FLOAT32, column))) * Lanes(e, scale)
            if bias is not None:
                found = found + Lanes(e, bias.linear(e, column))
            value = activate(e, found.value, DType.FLOAT32, node.op.fused_activation_function)
            sink(e, [*e.delinear(row, node.shape[:-1]), column], value)
