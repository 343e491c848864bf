"""Operators without a native rule: their numpy kernels, called from native code."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from circlet.backends.native.emitter import I32, I64, NATIVE_TYPES
from circlet.backends.native.function import HostCall, OperatorLowering, Unlowerable
from circlet.backends.native.value import Value, in_memory, in_register
from circlet.runtime.ir.model import ABSENT


HOST_FAILED = "the host failed"


def lower_host_call(o: OperatorLowering) -> Sequence[Value]:
    """Copies the inputs to staging buffers, calls the host, and copies the results back."""
    function = o.function
    tensors = o.spec.subgraph.tensors
    used = (*o.operator.outputs, *(each for each in o.operator.inputs if each != ABSENT))
    if any(tensors[each].dtype.numpy.hasobject for each in used):
        raise Unlowerable(f"{o.place}: strings are not native")
    staged = tuple(None if each is None else (_stage(o, each), each) for each in o.inputs)
    outputs = tuple(
        (function.reserve_offset(prod(shape) * tensors[each].dtype.numpy.itemsize), shape, tensors[each].dtype)
        for each, shape in zip(o.operator.outputs, o.shapes, strict=True)
    )
    function.program.host_calls.append(HostCall(o.spec.index, o.number, staged, outputs))
    _call(o, len(function.program.host_calls) - 1)
    return [_result(o, function.at(offset), shape, k) for k, (offset, shape, _) in enumerate(outputs)]


def _stage(o: OperatorLowering, value: Value) -> int:
    if value.known is not None:
        return -1
    offset = o.function.reserve_offset(value.nbytes)
    o.function.write(value, o.function.at(offset))
    return offset


def _call(o: OperatorLowering, number: int) -> None:
    """Calls `i32 host(i32 number)`; any answer but 0 is a failure that the host has kept."""
    function, b = o.function, o.function.e.builder
    place = b.gep(function.e.function.args[0], [ir.Constant(I64, 16)], source_etype=ir.IntType(8))
    host = b.load(place, typ=ir.PointerType(ir.FunctionType(I32, [I32])))
    status = b.call(host, [ir.Constant(I32, number)])
    function.fail_unless(b.icmp_unsigned("==", status, ir.Constant(I32, 0)), o.place, HOST_FAILED)


def _result(o: OperatorLowering, staging: ir.Value, shape: tuple[int, ...], position: int) -> Value:
    dtype = o.spec.subgraph.tensors[o.operator.outputs[position]].dtype
    value, home = in_memory(staging, shape, dtype), o.homes[position]
    e = o.function.e
    if value.size == 1 and dtype in NATIVE_TYPES:
        scalar = e.load(staging, dtype)
        if home is not None:
            e.store(scalar, home, dtype)
        return in_register(scalar, shape, dtype)
    assert home is not None
    e.copy(home, staging, value.nbytes)
    return in_memory(home, shape, dtype)
