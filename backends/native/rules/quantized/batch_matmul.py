"""Native rule of the products of int8 matrices: the right one is packed in each run, unless it is one constant."""

from __future__ import annotations

from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import quantize_multiplier
from circlet.backends.native.emit.emitter import I8, I32, Emitter
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.gemm.dot_products import OFFSET
from circlet.backends.native.gemm.operands import Filtered
from circlet.backends.native.gemm.packing_bytes import add_up_rows, pack_bytes
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.preferences import INT8
from circlet.backends.native.rules.quantized.elementwise import quantization, stored
from circlet.backends.native.rules.quantized.fully_connected import (
    BYTES,
    constant,
    form_of,
    multiply_integers,
    placed,
    rows_of,
    stage,
    start,
    unsigned,
)
from circlet.backends.native.rules.quantized.requantize import rescale
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_known, is_length, may_differ
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.matmul import BatchMatMul

_MANY = 4
"""Products that are shared out as a whole, each to one thread; fewer are shared out inside. A choice, for 2 to 4
threads."""
_LONGEST = 1 << 15
"""Products whose sum fits into 32 bits: 2 ** 15 times 255 times 128 is just below 2 ** 30."""


def _refuses(call: Call) -> str | None:
    """Refuses a transposed x, and rows that make sums too large, if their length is declared."""
    assert isinstance(call.op, BatchMatMul)
    depth = max(call.input(0).shape[-1:], default=0)
    if call.op.adj_x:
        return "x is transposed"
    return None if depth <= _LONGEST else _too_long(depth)


def _too_long(depth: int) -> str:
    """Why products of such rows are refused."""
    return f"rows of {depth} elements (supported: up to {_LONGEST})"


@nest(BatchMatMul, all_of(only((DType.INT8,)), only((DType.INT8,), 1), _refuses), frozenset({0, 1}), name=INT8)
def batch_matmul(node: Node[BatchMatMul], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, k) and y (..., k, n), int8: (..., m, n), int8 or i32. A loop over the outer indices, shared out:
    stages x, packs y word by word, multiplies, and takes zero points off each sum. Where y is one matrix, the rows of
    all x are those of one product."""
    x, y, function = node.input(0), node.input(1), node.function
    is_one = is_known(prod(y.shape[:-2]), 1) and not may_differ(prod(x.shape[:-2]), prod(node.shape[:-2]))
    outer = () if is_one else node.shape[:-2]
    rows, depth, columns = prod(node.shape[len(outer):-1]), x.shape[-1], node.shape[-1]
    if depth > _LONGEST:
        raise Unlowerable(f"{node.place}: {_too_long(depth)}")
    moved, zero = (0 if _is_raw(node.call) else quantization(node.call.input(k)).zero_point for k in range(2))
    if is_one and y.known is not None and not zero:
        _multiply_by_constant(node, e, sinks[0], moved)
        return
    plan = Plan.of(e.target, BYTES.arithmetic, rows, columns, BYTES.run(depth) // WORD)
    matrices = prod(outer)
    work = matrices * rows * plan.columns * plan.depth if is_length(matrices) or matrices >= _MANY else 0
    left, other = function.pointer(x), function.pointer(y)
    with parallel_nest(e, outer, work) as index:
        words, begin, totals = map(function.reserve, (
            plan.panels * plan.panel_bytes, plan.panels * plan.panel * WORD, rows * WORD))
        mine = in_memory(_matrix(e, left, x, index), (rows, depth), DType.INT8)
        memory = stage(function, BYTES, (1, 1, rows, depth), unsigned(function, BYTES, mine, moved))
        pack_bytes(e, plan, _matrix(e, other, y, index), depth, node.op.adj_y, (words, begin), -(moved + OFFSET))
        if zero:
            add_up_rows(e, memory, (rows, depth), totals)

        def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value, index: Index = index) -> None:
            b = e.builder
            if zero:
                total = b.sub(e.load(totals, DType.INT32, row), e.constant(depth * (moved + OFFSET), DType.INT32))
                value = b.sub(value, b.mul(total, ir.Constant(I32, zero)))
            at = e.delinear(row, node.shape[len(outer):-1])
            sinks[0](e, [*index, *at, column], _result(node.call, e, value))

        scratch = function.scratch(plan.tile_bytes)
        multiply(e, plan, rows_of(function, BYTES, memory, depth), plan.packed(words), begin, Filtered(scratch, put))


def _multiply_by_constant(node: Node[BatchMatMul], e: Emitter, sink: Sink, zero: int) -> None:
    """Of x (..., m, k) with a zero point and one constant matrix without: it is packed when the code is made."""
    x, function, rows, shape = node.input(0), node.function, prod(node.shape[:-1]), node.input(1).shape[-2:]
    matrix = constant(node.input(1)).reshape(shape)
    weights = matrix if node.op.adj_y else np.ascontiguousarray(matrix.T)
    depth, form = weights.shape[1], form_of(e.target, rows, weights)
    source = placed(function, form, x, zero, (1, 1, rows, depth), depth)

    def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        sink(e, [*e.delinear(row, node.shape[:-1]), column], _result(node.call, e, value))

    first = Made.fixed(start(weights, zero, None, form.offset))
    multiply_integers(function, form, rows, rows_of(function, form, source, depth), Made.fixed(weights[:, None]), first,
                      lambda plan, scratch: Filtered(scratch, put))


def _is_raw(call: Call) -> bool:
    """Whether the result is the sums of products of stored values."""
    return call.outputs[0].dtype is DType.INT32


def _result(call: Call, e: Emitter, value: ir.Value) -> ir.Value:
    """The sum itself, or rescaled once and stored."""
    if _is_raw(call):
        return value
    scales = (np.float32(quantization(call.input(k)).scale) for k in range(2))
    factor = quantize_multiplier(float(np.multiply(*scales)) / quantization(call.outputs[0]).scale)
    return stored(e, rescale(e, value, *factor), call.outputs[0])


def _matrix(e: Emitter, memory: ir.Value, value: Value, index: Index) -> ir.Value:
    """Where the matrix for an index of the result's outer dimensions begins; they broadcast."""
    outer = value.shape[:-2] if index else ()
    given = index[len(index) - len(outer):]
    kept = [e.number(0) if is_known(size, 1) else each for each, size in zip(given, outer, strict=True)]
    return e.address(memory, I8, e.builder.mul(e.linear(kept, outer), e.number(prod(value.shape[-2:]))))
