"""Native rules of the products of stored matrices: of int8 the right one is packed in each run, unless it is one
constant; sums of int16 have 64 bits, and no tiles."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import quantize_multiplier, reduced_multipliers
from circlet.backends.native.emit.emitter import I8, I32, I64, Emitter
from circlet.backends.native.emit.loops import fold, independent, rolled
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, in_memory, in_strides
from circlet.backends.native.gemm.dot_products import OFFSET
from circlet.backends.native.gemm.operands import Filtered, Put
from circlet.backends.native.gemm.packing_bytes import add_up_rows, pack_bytes
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.figures.figure import (
    Figure,
    beyond,
    figured,
    limits_of,
    looking_at,
    offset,
    quantization,
    stored,
    within,
    zero_of,
)
from circlet.backends.native.rules.figures.multiplier import factor, rescaled
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.preferences import INT8, LOOPS
from circlet.backends.native.rules.quantized.fully_connected import (
    BYTES,
    constant,
    form_of,
    multiply_integers,
    placed,
    rows_of,
    scaled,
    stage,
    start,
    unsigned,
)
from circlet.backends.native.rules.real.reduce import Register, reserve
from circlet.backends.native.rules.refusals import outputs_only
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Target
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import bound, certain, is_known, is_length, may_differ
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected

Result: TypeAlias = "Callable[[Emitter, ir.Value], ir.Value]"
"""Makes a result of a sum."""
_MANY = 4
"""Products that are shared out as a whole, each to one thread; fewer are shared out inside. A choice, for 2 to 4
threads."""
_LONGEST = 1 << 15
"""Products whose sum fits into 32 bits: 2 ** 15 times 255 times 255 is just below 2 ** 31."""


def _refuses(call: Call) -> str | None:
    """Refuses rows that make sums too large at all lengths."""
    assert isinstance(call.op, BatchMatMul)
    shape = call.input(0).shape
    depth = shape[-2 if call.op.adj_x else -1] if len(shape) > 1 else 0
    return _too_long(depth) if certain(depth, ">", _LONGEST) else None


def _too_long(depth: int) -> str:
    """Why products of such rows are refused."""
    return f"rows of {depth} elements (supported: up to {_LONGEST})"


def _expect_depth(node: Node[Any], depth: int) -> None:
    """Sees to it that sums fit: a run is left where its rows turn out to be too long, as in turns of a loop that makes
    them longer.

    Raises:
        Unlowerable: they are too long for the lengths at hand, where no run can be left.
    """
    if certain(depth, "<=", _LONGEST):
        return
    e = node.function.e
    is_left = node.function.leave_where(e.builder.icmp_signed(">", e.number(depth), e.number(_LONGEST)))
    if not is_left and bound(depth) > _LONGEST:
        raise Unlowerable(f"{node.place}: {_too_long(depth)}")


def _moved(call: Call) -> tuple[int, int]:
    """The zero points of what is multiplied; none where the result is the sums of products of stored values."""
    one, other = (0 if _is_raw(call) else quantization(call.input(k)).zero_point for k in range(2))
    return one, other


def _of_result(call: Call) -> Sequence[Figure]:
    """How sums become results."""
    if _is_raw(call):
        return ()
    made = call.outputs[0]
    return zero_of(made), limits_of(made), factor(*_factor(call))


def _quantized_as(call: Call, target: Target) -> Hashable:
    """What the code is made of but for shapes and types."""
    return _moved(call), looking_at(_of_result)(call, target)


@nest(BatchMatMul, all_of(only((DType.INT8,)), only((DType.INT8,), 1), _refuses), frozenset({0, 1}), name=INT8,
      quantized_as=_quantized_as)
def batch_matmul(node: Node[BatchMatMul], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, k) and y (..., k, n), int8: (..., m, n), int8 or i32. A loop over the outer indices, shared out:
    stages x, packs y word by word, multiplies, and takes zero points off each sum. Where y is one matrix, the rows of
    all x are those of one product."""
    x, y, function = _rows_first(node), node.input(1), node.function
    is_one = is_known(prod(y.shape[:-2]), 1) and not may_differ(prod(x.shape[:-2]), prod(node.shape[:-2]))
    outer = () if is_one else node.shape[:-2]
    rows, depth, columns = prod(node.shape[len(outer):-1]), x.shape[-1], node.shape[-1]
    _expect_depth(node, depth)
    (moved, zero), result = _moved(node.call), _result(node)
    if is_one and y.known is not None and not zero:
        _multiply_by_constant(node, e, x, sinks[0], result)
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
            sinks[0](e, [*index, *at, column], result(e, value))

        scratch = function.scratch(plan.tile_bytes)
        multiply(e, plan, rows_of(function, BYTES, memory, depth), plan.packed(words), begin, Filtered(scratch, put))


def _rows_first(node: Node[BatchMatMul]) -> Value:
    """x (..., m, k), whose columns are turned into rows before they are multiplied if it is given as (..., k, m)."""
    x = node.input(0)
    if not node.op.adj_x:
        return x
    assert x.place is not None, "factors lie in memory"
    *outer, depth, rows = x.shape
    axes = [*range(len(outer)), len(outer) + 1, len(outer)]
    return in_strides((*outer, rows, depth), x.place.transposed(axes), x.dtype)


def _multiply_by_constant(node: Node[BatchMatMul], e: Emitter, x: Value, sink: Sink, result: Result) -> None:
    """Of x (..., m, k) with a zero point and one constant matrix without: it is packed when the code is made."""
    function, rows, shape, zero = node.function, prod(node.shape[:-1]), node.input(1).shape[-2:], _moved(node.call)[0]
    matrix = constant(node.input(1)).reshape(shape)
    weights = matrix if node.op.adj_y else np.ascontiguousarray(matrix.T)
    depth, form = weights.shape[1], form_of(e.target, rows, weights)
    source = placed(function, form, x, zero, (1, 1, rows, depth), depth)

    def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        sink(e, [*e.delinear(row, node.shape[:-1]), column], result(e, value))

    first = Made.fixed(start(weights, zero, None, form.offset))
    multiply_integers(function, form, rows, rows_of(function, form, source, depth), Made.fixed(weights[:, None]), first,
                      lambda plan, scratch: Filtered(scratch, put))


@nest(BatchMatMul, all_of(only((DType.INT16,)), only((DType.INT16, DType.INT8), 1), outputs_only(DType.INT16)),
      frozenset({0, 1}), name="int16")
def batch_matmul_of_int16(node: Node[BatchMatMul], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, k), int16, and y (..., k, n), int16 or int8: (..., m, n), int16. A loop over the rows of all
    results, shared out. Where y is stored column by column, a result is summed up in a register; else the products of
    an element of x with a row of y are added to sums in scratch memory."""
    (x, y), (*rows, columns), b = (node.input(k) for k in range(2)), node.shape, e.builder
    depth, by_columns = x.shape[-2 if node.op.adj_x else -1], node.op.adj_y and not node.op.adj_x
    total, sums = (Register(e, I64), None) if by_columns else (None, reserve(node, columns, DType.INT64))
    with parallel_nest(e, tuple(rows), 2 * prod(node.shape) * depth) as (*index, row):
        def factor(k: ir.Value) -> ir.Value:
            at = [*_kept(e, x, index), *((k, row) if node.op.adj_x else (row, k))]
            return b.sext(x.element(e, at), I32)

        def added(so_far: ir.Value, one: ir.Value, k: ir.Value, column: ir.Value) -> ir.Value:
            other = y.element(e, [*_kept(e, y, index), *((column, k) if node.op.adj_y else (k, column))])
            return b.add(so_far, b.sext(b.mul(one, b.sext(other, I32)), I64))

        def give(column: ir.Value, value: ir.Value) -> None:
            sinks[0](e, [*index, row, column], _result_of_int16(node.call, e, value))

        if total is not None:
            with rolled(e, columns) as column:
                total.set(e.wide(0))
                fold(e, depth, lambda k: total.set(added(total.get(), factor(k), k, column)), size=2)
                give(column, total.get())
        else:
            with independent(e, columns) as column:
                e.store(e.wide(0), sums, DType.INT64, column)
            with rolled(e, depth) as k:
                one = factor(k)
                with independent(e, columns) as column:
                    so_far = e.load(sums, DType.INT64, column)
                    e.store(added(so_far, one, k, column), sums, DType.INT64, column)
            with independent(e, columns) as column:
                give(column, e.load(sums, DType.INT64, column))


def _result_of_int16(call: Call, e: Emitter, value: ir.Value, activation: Activation = Activation.NONE) -> ir.Value:
    """A sum, an i64, times the multiplier reduced to 16 bits, and stored."""
    b = e.builder
    multiplier, shift = reduced_multipliers(*_factor(call))
    half = (1 << int(shift)) >> 1
    scaled = b.ashr(b.add(b.mul(value, e.wide(int(multiplier))), e.wide(half)), e.wide(int(shift)))
    return stored(e, b.trunc(scaled, I32), call.outputs[0], activation)


def _factor(call: Call) -> tuple[int, int]:
    """The quantised multiplier of a sum."""
    scales = (np.float32(quantization(call.input(k)).scale) for k in range(2))
    return quantize_multiplier(float(np.multiply(*scales)) / quantization(call.outputs[0]).scale)


def _is_raw(call: Call) -> bool:
    """Whether the result is the sums of products of stored values."""
    return call.outputs[0].dtype is DType.INT32


def _result(node: Node[BatchMatMul]) -> Result:
    """What makes a result of a sum: the sum itself, or it is rescaled once and stored."""
    if _is_raw(node.call):
        return lambda e, value: value
    (zero, limits, by), dtype = figured(node, _of_result), node.call.outputs[0].dtype
    return lambda e, value: within(e, beyond(e, rescaled(e, value, by), zero), limits, dtype)


def _matrix(e: Emitter, memory: ir.Value, value: Value, index: Index) -> ir.Value:
    """Where the matrix for an index of the result's outer dimensions begins."""
    outer = value.shape[:-2] if index else ()
    kept = _kept(e, value, index) if index else []
    return e.address(memory, I8, e.builder.mul(e.linear(kept, outer), e.number(prod(value.shape[-2:]))))


def _kept(e: Emitter, value: Value, index: Index) -> list[ir.Value]:
    """The index of the matrix for one of the result's outer dimensions; they broadcast."""
    outer = value.shape[:-2]
    given = index[len(index) - len(outer):]
    return [e.number(0) if is_known(size, 1) else each for each, size in zip(given, outer, strict=True)]


def _refuses_weights(call: Call) -> str | None:
    """Refuses factors and results of several types, and weights with a scale for each row."""
    found = {call.input(0).dtype, call.input(1).dtype, call.outputs[0].dtype}
    if len(found) > 1:
        return f"element types {', '.join(sorted(each.value for each in found))}"
    return "weights quantised per axis" if quantization(call.input(1)).per_axis else None


@nest(FullyConnected, all_of(only((DType.INT8, DType.INT16)), _refuses_weights), frozenset({0, 1, 2}), name=LOOPS)
def fully_connected(node: Node[FullyConnected], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., k) and weights (n, k): (..., n). A loop over the rows, shared out; each result is summed up in a
    register."""
    x, weights = node.input(0), node.input(1)
    rows, (columns, depth), b = prod(node.shape[:-1]), weights.shape, e.builder
    kind = I32 if x.dtype is DType.INT8 else I64
    if kind is I32:
        _expect_depth(node, depth)
    total, put = Register(e, kind), _results(node, sinks[0])
    with parallel_nest(e, (rows,), 2 * rows * columns * depth) as (row,), rolled(e, columns) as column:
        first, other = (b.mul(each, e.number(depth)) for each in (row, column))

        def add(k: ir.Value) -> None:
            product = b.mul(offset(e, x.linear(e, b.add(first, k)), node.call.input(0)),
                            offset(e, weights.linear(e, b.add(other, k)), node.call.input(1)))
            total.set(b.add(total.get(), product if kind is I32 else b.sext(product, I64)))

        total.set(ir.Constant(kind, 0))
        fold(e, depth, add, size=x.dtype.numpy.itemsize)
        value = b.sext(total.get(), I64) if kind is I32 else total.get()
        put(e, row, column, _biased(node, e, value, column))


def _biased(node: Node[FullyConnected], e: Emitter, value: ir.Value, column: ir.Value) -> ir.Value:
    """A sum, an i64, and the bias, if there is one."""
    bias = node.optional(2)
    if bias is None:
        return value
    given = bias.linear(e, column)
    return e.builder.add(value, given if given.type == I64 else e.builder.sext(given, I64))


def _results(node: Node[FullyConnected], sink: Sink) -> Put:
    """Takes sums and passes on results: of bytes scaled as doubles, of int16 by a quantised multiplier."""
    if node.input(0).dtype is DType.INT8:
        if not node.function.e.target.has_doubles:
            raise Unlowerable(f"{node.place}: weights that the run makes, where there are no doubles")
        return scaled(node, sink)

    def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        found = _result_of_int16(node.call, e, value, node.op.fused_activation_function)
        sink(e, [*e.delinear(row, node.shape[:-1]), column], found)

    return put
