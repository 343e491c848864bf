"""Native rules of operators on one quantised input: the numpy backend computes the results for all stored values when
the code is made, and the code looks them up."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.quantization import is_quantized, stored_values
from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.emit.emitter import I8, I32, I64, POINTER, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.parallel import parallel_nest, parallel_span
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.microkernel import internal_function
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.preferences import LOOK_UP, LOOKED_UP, TABLE
from circlet.backends.native.rules.real.elementwise import elementwise
from circlet.backends.native.rules.refusals import outputs_only, tensors
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.variables import Variables
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import elementwise as ops
from circlet.runtime.ops.quantize import Quantize
from circlet.runtime.ops.unary import Rsqrt, Sqrt

BYTES = (DType.INT8, DType.UINT8)
_QUARTER = 64
"""Entries of a table of 256 that a vector register holds."""
_ROW = 16
"""Entries that AVX2's shuffle chooses from, for each half of a vector."""


def _table(node: Node[Any]) -> Array:
    """The result for each stored value, in the order of its bits read as an unsigned integer."""
    source, made = node.call.input(0).dtype, node.call.outputs[0].dtype
    x = stored_values(source).astype(source.numpy)
    y = np.empty(x.shape, made.numpy)
    CpuBackend().kernel(node.call).bind([x], [y], Run(Variables()))()
    return y


def _refuses(call: Call) -> str | None:
    """Refuses real values, and functions that are not defined for all stored ones."""
    real = next((f"{what} is not quantised" for what, each in tensors(call) if not is_quantized(each)), None)
    return real or ("it is not defined for all stored values" if isinstance(call.op, (Sqrt, Rsqrt)) else None)


_refuses_bytes = all_of(_refuses, only(BYTES), outputs_only(*BYTES))


def _look_up_bytes(node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Row by row, if the results are not just written to memory."""
    look_up(node.function, node.input(0), _table(node), sinks[0])


def look_up(function: Function, given: Value, found: Array, sink: Sink) -> None:
    """Replaces bytes by those of a table."""
    e, size, shape = function.e, given.size, given.shape
    source, table = function.pointer(given), function.external(found)
    if sink.memory is not None:
        with parallel_span(e, size, 4 * size) as (first, count):
            places = (e.address(each, I8, first) for each in (source, sink.memory))
            e.builder.call(_looking_up(e), [*places, table, count])
        return
    *outer, run = shape or (1,)
    row, made = function.scratch(run), DType.of(found.dtype)
    with parallel_nest(e, tuple(outer), 4 * size) as index:
        begin = e.linear([*index, e.number(0)], (*outer, run))
        e.builder.call(_looking_up(e), [e.address(source, I8, begin), row, table, e.number(run)])
        with independent(e, run) as k:
            sink(e, [*index, k][:len(shape)], e.load(row, made, k))


def _looking_up(e: Emitter) -> ir.Function:
    """`void(source, out, table, count)`: replaces bytes by those of a table; by shuffles, if the processor can."""
    name = "look_up"
    if name in e.module.globals:
        return e.module.globals[name]
    function = internal_function(e, name, [POINTER, POINTER, POINTER, I64])
    function.args[1].add_attribute("noalias")
    inner = Emitter(e.module, function, e.target)
    b, (source, out, table, count) = inner.builder, function.args
    done: ir.Value = inner.number(0)
    if e.target.has("avx512vbmi"):
        done = _shuffled(inner, source, out, table, count)
    elif e.target.has("avx2"):
        done = _shuffled_by_rows(inner, source, out, table, count)
    with rolled(inner, b.sub(count, done)) as k:
        place = b.add(done, k)
        value = b.zext(inner.load(source, DType.UINT8, place), I64)
        inner.store(inner.load(table, DType.UINT8, value), out, DType.UINT8, place)
    b.ret_void()
    return function


def _shuffled(e: Emitter, source: ir.Value, out: ir.Value, table: ir.Value, count: ir.Value) -> ir.Value:
    """Whole vectors of bytes; gives how many bytes these are."""
    b, kind = e.builder, ir.VectorType(I8, _QUARTER)
    shuffle = e.declare("llvm.x86.avx512.vpermi2var.qi.512", ir.FunctionType(kind, [kind] * 3))
    quarters = [b.load(e.address(table, I8, k * _QUARTER), typ=kind, align=1) for k in range(4)]
    full = b.udiv(count, e.number(_QUARTER))
    with rolled(e, full) as number:
        place = b.mul(number, e.number(_QUARTER))
        at = b.load(e.address(source, I8, place), typ=kind, align=1)
        low, high = (b.call(shuffle, [quarters[k], at, quarters[k + 1]]) for k in (0, 2))
        is_high = b.icmp_signed("<", at, ir.Constant(kind, [0] * _QUARTER))
        b.store(b.select(is_high, high, low), e.address(out, I8, place), align=1)
    return b.mul(full, e.number(_QUARTER))


def _shuffled_by_rows(e: Emitter, source: ir.Value, out: ir.Value, table: ir.Value, count: ir.Value) -> ir.Value:
    """The same with rows of 16 entries. Where bit 7 of an index is set the shuffle gives 0, else what its low 4 bits
    choose: so a byte that is 16 n or more takes its entries of the rows from 0 to n, of which each but the first is
    the difference from the row before."""
    b, size = e.builder, 2 * _ROW
    kind, half = ir.VectorType(I8, size), ir.VectorType(I8, _ROW)
    twice = ir.Constant(ir.VectorType(I32, size), [*range(_ROW)] * 2)
    shuffle = e.declare("llvm.x86.avx2.pshuf.b", ir.FunctionType(kind, [kind] * 2))
    loaded = [b.load(e.address(table, I8, k * _ROW), typ=half, align=1) for k in range(256 // _ROW)]
    rows = [b.shuffle_vector(each, each, twice) for each in loaded]
    differences = [row if k % 8 == 0 else b.xor(row, rows[k - 1]) for k, row in enumerate(rows)]
    full = b.udiv(count, e.number(size))
    with rolled(e, full) as number:
        place = b.mul(number, e.number(size))
        at = b.load(e.address(source, I8, place), typ=kind, align=1)
        total = ir.Constant(kind, [0] * size)
        for k, row in enumerate(differences):
            index = at if k < 8 else b.xor(at, ir.Constant(kind, [-128] * size))
            index = e.intrinsic("ssub.sat", index, ir.Constant(kind, [k % 8 * _ROW] * size))
            total = b.xor(total, b.call(shuffle, [row, index]))
        b.store(total, e.address(out, I8, place), align=1)
    return b.mul(full, e.number(size))


def _look_up(node: Node[Any]) -> tuple[Value]:
    made, table = node.call.outputs[0].dtype, node.function.external(_table(node))
    return elementwise(node, lambda e, dtype, values: e.load(table, made, e.builder.zext(values[0], I64)))


_OPERATORS: tuple[type[Op], ...] = (*LOOKED_UP, Quantize)
ELEMENTWISE = frozenset({*_OPERATORS, ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum})
for _op in _OPERATORS:
    nest(_op, _refuses_bytes, frozenset({0}), name=TABLE)(_look_up_bytes)
for _op in LOOKED_UP:
    fused(_op, _refuses, name=LOOK_UP)(_look_up)
