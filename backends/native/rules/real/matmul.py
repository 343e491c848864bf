"""Native rules of the matrix products of float32."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, Index
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.few_rows import multiply_few, multiply_row
from circlet.backends.native.gemm.microkernel import FLOAT32, WORD
from circlet.backends.native.gemm.packing import transpose, transposed_step
from circlet.backends.native.gemm.product import Left, Plan, multiply
from circlet.backends.native.rules.real.product import FloatProduct, refuses
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected

FEW_ROWS = 6
"""Rows for which a right factor that is stored column by column is not worth packing."""
LARGE = 1 << 16
"""Bytes of a matrix from which on one row is multiplied by reading it row by row."""

_MANY = 4
"""Products that are shared out as a whole."""


def _shuffled(call: Call) -> str | None:
    assert isinstance(call.op, FullyConnected)
    return None if call.op.weights_format == 0 else f"weights of format {call.op.weights_format} (supported: 0)"


@nest(FullyConnected, all_of(refuses, _shuffled))
def fully_connected(node: Node[FullyConnected], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    x, weights = (node.input(k) for k in range(2))
    step = weights.shape[1] * WORD
    product = FloatProduct(node, e, node.shape, weights.shape[1])
    bias, memory = node.optional(2), node.function.pointer(x)
    if weights.known is None and product.plan.rows <= FEW_ROWS:
        multiply_few(e, product.plan, memory, node.function.pointer(weights), bias,
                     product.put(sinks[0], node.op.fused_activation_function))
        return
    start = product.start(bias)
    if weights.known is not None:
        panels = product.known(weights.known)
    else:
        panels = product.packed(node.function.pointer(weights), product.reserve(), is_transposed=True)
    multiply(e, product.plan, product.rows(step)(memory), panels, start,
             product.result(sinks[0], node.op.fused_activation_function))


@nest(BatchMatMul, refuses)
def batch_matmul(node: Node[BatchMatMul], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Where y is one matrix, the rows of all x are those of one product."""
    x, y = (node.input(k) for k in range(2))
    is_one = prod(y.shape[:-2]) == 1 and prod(x.shape[:-2]) == prod(node.shape[:-2]) and not node.op.adj_x
    outer = node.shape[:0 if is_one else -2]
    depth = x.shape[-2 if node.op.adj_x else -1]
    product = FloatProduct(node, e, node.shape[len(outer):], depth, outer)
    plan = product.plan
    left, right = (node.function.pointer(each) for each in (x, y))
    matrices = prod(outer)
    work = matrices * plan.rows * plan.columns * plan.depth if matrices >= _MANY else 0
    if plan.rows <= FEW_ROWS and node.op.adj_y and not node.op.adj_x:
        with parallel_nest(e, outer, work) as index:
            multiply_few(e, plan, _matrix(e, left, x, index), _matrix(e, right, y, index), None,
                         product.put(sinks[0], outer=index))
        return
    if plan.rows == 1 and not node.op.adj_y and plan.columns * plan.depth * WORD > LARGE and plan.depth:
        with parallel_nest(e, outer, work) as index:
            sums = node.function.scratch(plan.columns * WORD)
            multiply_row(e, plan, _matrix(e, left, x, index), _matrix(e, right, y, index), sums,
                         product.put(sinks[0], outer=index))
        return
    start = product.start(None)
    with parallel_nest(e, outer, work) as index:
        factor = _turned(node, e, plan) if node.op.adj_x else product.rows(depth * WORD)
        rows, other = _matrix(e, left, x, index), _matrix(e, right, y, index)
        panels = product.packed(other, product.reserve(), node.op.adj_y)
        multiply(e, plan, factor(rows), panels, start, product.result(sinks[0], outer=index))


def _turned(node: Node[BatchMatMul], e: Emitter, plan: Plan) -> Callable[[ir.Value], Left]:
    """What makes a matrix that is stored column by column the left factor."""
    step = transposed_step(e, plan.depth)
    rows = node.function.reserve(plan.rows * step)

    def turn(memory: ir.Value) -> Left:
        transpose(e, memory, (plan.depth, plan.rows), rows)
        return Left.even(e, plan, rows, step, plan.depth * WORD)

    return turn


def _matrix(e: Emitter, memory: ir.Value, value: Value, index: Index) -> ir.Value:
    """Where the matrix for an index of the result's outer dimensions begins; they broadcast."""
    if not index:
        return memory
    outer = value.shape[:-2]
    given = index[len(index) - len(outer):]
    kept = [e.number(0) if size == 1 else each for each, size in zip(given, outer, strict=True)]
    position = e.builder.mul(e.linear(kept, outer), e.number(prod(value.shape[-2:])))
    return e.address(memory, FLOAT32.word, position)
