"""Native rules of operators on one quantised input: the numpy backend computes the results for all stored values when
the code is made, and the code looks them up."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.quantization import is_quantized, stored_values
from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.emit.emitter import I8, POINTER, Emitter
from circlet.backends.native.emit.loops import every, rolled
from circlet.backends.native.emit.parallel import parallel_nest, parallel_span
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.functions import internal_function
from circlet.backends.native.rules.figures.figure import (
    Figure,
    figured,
    looking_at,
    quantization,
    widened,
    zero_of,
)
from circlet.backends.native.rules.function import Function, Made
from circlet.backends.native.rules.preferences import LOOK_UP, TABLE
from circlet.backends.native.rules.real.elementwise import elementwise
from circlet.backends.native.rules.refusals import outputs_only, tensors
from circlet.backends.native.rules.rule import Node, Sink, fused, nest, nothing
from circlet.backends.native.targets.target import LookUp
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.length import is_open
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.quantize import Quantize
from circlet.runtime.ops.unary import (
    Abs,
    Exp,
    Gelu,
    HardSwish,
    LeakyRelu,
    Log,
    Logistic,
    Relu,
    Relu0To1,
    Relu6,
    ReluN1To1,
    Rsqrt,
    Sqrt,
    Tanh,
)

_OF_POSITIVE = (Sqrt, Rsqrt)
"""The operators that fail where a value is negative."""
_RUN = 1 << 12
"""Bytes that are looked up before something follows: a choice, a fraction of a first-level cache."""
BYTES = (DType.INT8, DType.UINT8)
"""The types of which there are 256 values."""


def _table(call: Call) -> Array:
    """The result for each stored value, in the order of its bits read as an unsigned integer."""
    source, made = call.input(0).dtype, call.outputs[0].dtype
    x = stored_values(source).astype(source.numpy)
    if isinstance(call.op, _OF_POSITIVE):
        x = np.maximum(x, x.dtype.type(quantization(call.input(0)).zero_point))
    y = np.empty(x.shape, made.numpy)
    CpuBackend().kernel(call).bind([x], [y], Run(Variables()))()
    return y


def _refuses(call: Call) -> str | None:
    """Refuses real values."""
    return next((f"{what} is not quantised" for what, each in tensors(call) if not is_quantized(each)), None)


def _may_be_negative(call: Call) -> str | None:
    """Refuses functions that are not defined for all stored values."""
    given = call.input(0)
    is_partial = isinstance(call.op, _OF_POSITIVE) and quantization(given).zero_point > np.iinfo(given.dtype.numpy).min
    return "it is not defined for all stored values" if is_partial else None


_refuses_bytes = all_of(_refuses, only(BYTES), outputs_only(*BYTES), _may_be_negative)
"""Refuses what `_refuses` does, what is not from bytes to bytes, and what must be looked at before it is looked up."""


def _look_up_bytes(node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Row by row, if the results are not just written to memory."""
    look_up(node.function, node.input(0), Made(node.call, _table), sinks[0])


def look_up(function: Function, given: Value, found: Made, sink: Sink) -> None:
    """Replaces bytes by those of a table (256,): all of them by one call for each share of a thread, or, if something
    follows, as many whole rows as are not too many."""
    e, size, shape = function.e, given.size, given.shape
    source, table = function.pointer(given), found.memory(function)
    if sink.memory is not None:
        with parallel_span(e, size, 4 * size) as (first, count):
            places = (e.address(each, I8, first) for each in (source, sink.memory))
            e.builder.call(_looking_up(e), [*places, table, count])
        return
    cut = _first_of_run(shape)
    outer, inner = shape[:cut], shape[cut:]
    run, made = prod(inner), found.call.outputs[0].dtype
    row = function.scratch(run)
    with parallel_nest(e, outer, 4 * size) as index:
        begin = e.linear([*index, e.number(0)], (*outer, run))
        e.builder.call(_looking_up(e), [e.address(source, I8, begin), row, table, e.number(run)])
        with every(e, inner) as rest:
            sink(e, [*index, *rest], e.load(row, made, e.linear(rest, inner)))


def _first_of_run(shape: Shape) -> int:
    """The first of the last axes that are looked up at once: all of which there is not too much, but at least one."""
    cut = max(len(shape) - 1, 0)
    while cut and not is_open(shape[cut - 1:]) and prod(shape[cut - 1:]) <= _RUN:
        cut -= 1
    return cut


def _looking_up(e: Emitter) -> ir.Function:
    """`void(source, out, table, count)`: replaces bytes by those of a table; by shuffles, if the processor can."""
    name = "look_up"
    if name in e.module.globals:
        return e.module.globals[name]
    function = internal_function(e, name, [POINTER, POINTER, POINTER, e.index])
    function.args[1].add_attribute("noalias")
    inner = Emitter(e.module, function, e.target)
    b, (source, out, table, count) = inner.builder, function.args
    done: ir.Value = inner.number(0)
    by = e.target.look_up()
    if by is not None:
        done = _in_registers(by, inner, source, out, table, count)
    with rolled(inner, b.sub(count, done)) as k:
        place = b.add(done, k)
        value = b.zext(inner.load(source, DType.UINT8, place), e.index)
        inner.store(inner.load(table, DType.UINT8, value), out, DType.UINT8, place)
    b.ret_void()
    return function


def _in_registers(by: LookUp, e: Emitter, source: ir.Value, out: ir.Value, table: ir.Value, count: ir.Value
                  ) -> ir.Value:
    """Replaces whole vectors of bytes by a table that is kept in registers; gives how many bytes these are."""
    b, registers = e.builder, by.load(e, table)
    full = b.udiv(count, e.number(by.size))
    with rolled(e, full) as number:
        place = b.mul(number, e.number(by.size))
        at = b.load(e.address(source, I8, place), typ=ir.VectorType(I8, by.size), align=1)
        b.store(by.choose(e, registers, at), e.address(out, I8, place), align=1)
    return b.mul(full, e.number(by.size))


def _least(call: Call) -> Sequence[Figure]:
    """The zero point, if the operator fails below it."""
    return () if _may_be_negative(call) is None else (zero_of(call.input(0)),)


def _look_up(node: Node[Any]) -> tuple[Value]:
    """Of x, the entries of a table, each loaded by itself; the operator fails where there is no square root."""
    made, table = node.call.outputs[0].dtype, Made(node.call, _table).memory(node.function)
    found = figured(node, _least)

    def entry(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
        for zero in found:
            is_sound = e.builder.icmp_signed(">=", widened(e, values[0], dtype), zero.number(e))
            node.function.fail_unless(is_sound, node.place, "the square root of a negative number")
        return e.load(table, made, e.builder.zext(values[0], e.index))

    return elementwise(node, entry)


_LOOKED_UP: tuple[type[Op], ...] = (
    Abs, Exp, Gelu, HardSwish, LeakyRelu, Log, Logistic, Relu, Relu0To1, Relu6, ReluN1To1, Rsqrt, Sqrt, Tanh)
"""The functions of one quantised tensor."""
_OPERATORS: tuple[type[Op], ...] = (*_LOOKED_UP, Quantize)
"""The operators that replace bytes by bytes."""
for _op in _OPERATORS:
    nest(_op, _refuses_bytes, frozenset({0}), name=TABLE, quantized_as=nothing)(_look_up_bytes)
for _op in _LOOKED_UP:
    fused(_op, _refuses, name=LOOK_UP, quantized_as=looking_at(_least))(_look_up)
