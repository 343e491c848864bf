"""Native rules of the matrix products of float32, and of doubles and wide integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import branch, independent, rolled
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.emit.whole import Truth, Whole, both
from circlet.backends.native.gemm.few_rows import multiply_few, multiply_row
from circlet.backends.native.gemm.microkernel import FLOAT32
from circlet.backends.native.gemm.operands import Direct, Left
from circlet.backends.native.gemm.packing import transpose, transposed_step
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.preferences import LOOPS
from circlet.backends.native.rules.real.elementwise import mul
from circlet.backends.native.rules.real.few_columns import are_few_columns, multiply_columns
from circlet.backends.native.rules.real.product import FloatProduct, refuses
from circlet.backends.native.rules.real.reduce import reserve, total
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import certain, is_known, is_length, may_differ
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected

FEW_ROWS = 6
"""Rows for which a right factor that is stored column by column is not worth packing. For 256 x 256 both take the same
time with 6 rows on AVX2 and between 6 and 8 on AVX-512, for 1024 x 512 between 8 and 12 and between 6 and 8."""
LARGE = 1 << 16
"""Bytes of a matrix from which on one row is multiplied by reading it row by row. Up to 512 KB both ways take the same
time within 8 % on AVX2, and tiles gain up to a fifth on AVX-512 below 256 KB; beyond the second-level cache 1280 x 1000
took 82 microseconds so and 148 by tiles."""

_MANY = 4
"""Products that are shared out as a whole, each to one thread; fewer are shared out inside. A choice, for 2 to 4
threads."""
_WIDE = (DType.FLOAT64, DType.INT32, DType.INT64)
"""The types that are multiplied by loops."""


def is_few(rows: int) -> bool:
    """Whether there are so few rows that a right factor stored column by column is read where it lies."""
    return not is_length(rows) and rows <= FEW_ROWS


def _is_read_for_few(e: Emitter, op: BatchMatMul, rows: int) -> Truth:
    """Whether a right factor that is stored column by column is read where it lies. Only a run tells where the number
    of rows is open, as in decoders, whose first run has many and whose others have one."""
    return op.adj_y and not op.adj_x and Whole(e, rows).compare("<=", FEW_ROWS)


def _is_row_by_large(e: Emitter, plan: Plan) -> Truth:
    """Whether a product is that of one row and so large a matrix that this is read row by row. Only a run tells where
    the number of rows is open, as in decoders, whose steps have one; where it is known, a matrix of open size counts as
    large."""
    size = plan.columns * plan.depth * WORD
    if plan.depth == 0 or certain(plan.rows, "!=", 1):
        return False
    if not is_length(plan.rows) and is_length(size):
        return True
    return both(e, Whole(e, plan.rows).compare("==", 1), Whole(e, size).compare(">", LARGE))


def _shuffled(call: Call) -> str | None:
    """Refuses weights that are not stored row by row."""
    assert isinstance(call.op, FullyConnected)
    return None if call.op.weights_format == 0 else f"weights of format {call.op.weights_format} (supported: 0)"


@nest(FullyConnected, all_of(refuses, _shuffled), opaque=frozenset({1, 2}))
def fully_connected(node: Node[FullyConnected], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., k) and weights (n, k): (..., n). Rows are packed panels' left factor where they lie; `multiply` adds
    the bias and clamps in registers, or passes results on."""
    x, weights = (node.input(k) for k in range(2))
    step = weights.shape[1] * WORD
    product = FloatProduct(node, e, node.shape, weights.shape[1])
    bias, memory = node.optional(2), node.function.pointer(x)
    if are_few_columns(node, product.plan, weights):
        put = product.put(sinks[0], node.op.fused_activation_function)
        multiply_columns(e, product.plan, memory, node.function.pointer(weights), put, bias)
        return
    if weights.known is None and is_few(product.plan.rows):
        multiply_few(e, product.plan, memory, node.function.pointer(weights), bias,
                     product.put(sinks[0], node.op.fused_activation_function))
        return
    start = product.start(bias)
    if weights.known is not None:
        panels = product.matrix(weights.known)
    else:
        panels = product.packed(node.function.pointer(weights), product.reserve(), is_transposed=True)
    product.multiply(product.rows(step)(memory), panels, start,
                     product.result(sinks[0], node.op.fused_activation_function))


@nest(BatchMatMul, refuses, opaque=frozenset({1}))
def batch_matmul(node: Node[BatchMatMul], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, k) and y (..., k, n): (..., m, n); either may be transposed. A loop over the outer indices, shared
    out, around a product of few rows, of one row, or by tiles with y packed. Where y is one matrix, the rows of all x
    are those of one product; if it is constant, it is packed when the code is made."""
    x, y = (node.input(k) for k in range(2))
    is_one = not node.op.adj_x and is_known(prod(y.shape[:-2]), 1) and not may_differ(
        prod(x.shape[:-2]), prod(node.shape[:-2]))
    outer = node.shape[:0 if is_one else -2]
    depth = x.shape[-2 if node.op.adj_x else -1]
    product = FloatProduct(node, e, node.shape[len(outer):], depth, outer)
    plan = product.plan
    if are_few_columns(node, plan, y) and plan.columns == 1 and not node.op.adj_x:
        left, right, work = *(node.function.pointer(each) for each in (x, y)), prod(outer) * plan.rows * plan.depth
        with parallel_nest(e, outer, work) as index:
            multiply_columns(e, plan, _matrix(e, left, x, index), _matrix(e, right, y, index),
                        product.put(sinks[0], outer=index))
        return
    if is_one and y.known is not None:
        panels = product.matrix(y.known, is_transposed=node.op.adj_y)
        product.multiply(product.rows(depth * WORD)(node.function.pointer(x)), panels, product.start(None),
                         product.result(sinks[0]))
        return
    left, right = (node.function.pointer(each) for each in (x, y))
    matrices = prod(outer)
    work = matrices * plan.rows * plan.columns * plan.depth if is_length(matrices) or matrices >= _MANY else 0

    def few_rows(index: Index) -> None:
        multiply_few(e, plan, _matrix(e, left, x, index), _matrix(e, right, y, index), None,
                     product.put(sinks[0], outer=index))

    if is_few(plan.rows) and node.op.adj_y and not node.op.adj_x:
        with parallel_nest(e, outer, work) as index:
            few_rows(index)
        return
    start = product.start(None)
    with parallel_nest(e, outer, work) as index:
        rows, other = _matrix(e, left, x, index), _matrix(e, right, y, index)
        result = product.result(sinks[0], outer=index)

        def one_row() -> None:
            if isinstance(result, Direct):
                multiply_row(e, plan, rows, other, result.memory)
                return
            sums = node.function.scratch(plan.columns * WORD)
            multiply_row(e, plan, rows, other, sums, product.put(sinks[0], outer=index))

        def by_tiles() -> None:
            factor = _turned(node, e, plan) if node.op.adj_x else product.rows(depth * WORD)
            panels = product.packed(other, product.reserve(), node.op.adj_y)
            multiply(e, plan, factor(rows), panels, start, result)

        def many_rows() -> None:
            branch(e, not node.op.adj_y and _is_row_by_large(e, plan), one_row, by_tiles)

        branch(e, _is_read_for_few(e, node.op, plan.rows), partial(few_rows, index), many_rows)


@nest(BatchMatMul, all_of(plain, only(_WIDE), only(_WIDE, 1)), frozenset({0, 1}), name=LOOPS)
def batch_matmul_by_loops(node: Node[BatchMatMul], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, k) and y (..., k, n) of doubles or wide integers: (..., m, n). A loop over the rows of all results,
    shared out, around one over the depth: the products of an element of x with a row of y are added to sums in scratch
    memory. A constant y is kept row by row, whichever way the model has it."""
    (x, (y, adj_y)), (*rows, columns) = (node.input(0), _row_by_row(node)), node.shape
    dtype, depth = x.dtype, x.shape[-2 if node.op.adj_x else -1]
    sums, combine = reserve(node, columns, dtype), total(dtype).combine
    with parallel_nest(e, tuple(rows), 2 * prod(node.shape) * depth) as (*index, row):
        with independent(e, columns) as column:
            e.store(e.constant(0, dtype), sums, dtype, column)
        with rolled(e, depth) as k:
            factor = _element(e, x, index, (k, row) if node.op.adj_x else (row, k))
            with independent(e, columns) as column:
                other = _element(e, y, index, (column, k) if adj_y else (k, column))
                e.store(combine(e, e.load(sums, dtype, column), mul(e, dtype, [factor, other])), sums, dtype, column)
        with independent(e, columns) as column:
            sinks[0](e, [*index, row, column], e.load(sums, dtype, column))


def _row_by_row(node: Node[BatchMatMul]) -> tuple[Value, bool]:
    """y, and whether its matrices lie column by column, which those of a constant never do."""
    y = node.input(1)
    if not node.op.adj_y or y.known is None:
        return y, node.op.adj_y
    turned = np.ascontiguousarray(y.known.swapaxes(-1, -2))
    return in_memory(Made.fixed(turned).memory(node.function), turned.shape, y.dtype), False


def _element(e: Emitter, value: Value, index: Index, place: tuple[ir.Value, ir.Value]) -> ir.Value:
    """An element of the matrix for an index of the result's outer dimensions; they broadcast."""
    return value.element(e, [*_kept(e, value, index), *place])


def _kept(e: Emitter, value: Value, index: Index) -> list[ir.Value]:
    """The index of the matrix for one of the result's outer dimensions; they broadcast."""
    outer = value.shape[:-2]
    given = index[len(index) - len(outer):]
    return [e.number(0) if is_known(size, 1) else each for each, size in zip(given, outer, strict=True)]


def _turned(node: Node[BatchMatMul], e: Emitter, plan: Plan) -> Callable[[ir.Value], Left]:
    """What makes a matrix (k, m), stored column by column, the left factor: it is transposed into scratch memory."""
    step = transposed_step(e, plan.depth)
    rows = node.function.reserve(plan.rows * step)

    def turn(memory: ir.Value) -> Left:
        transpose(e, memory, (plan.depth, plan.rows), rows)
        return Left.even(e, plan.split, rows, step, plan.depth * WORD)

    return turn


def _matrix(e: Emitter, memory: ir.Value, value: Value, index: Index) -> ir.Value:
    """Where the matrix for an index of the result's outer dimensions begins; they broadcast."""
    if not index:
        return memory
    position = e.linear(_kept(e, value, index), value.shape[:-2])
    position = e.builder.mul(position, e.number(prod(value.shape[-2:])))
    return e.address(memory, FLOAT32.word, position)
