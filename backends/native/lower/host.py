"""Operators without a native rule: their numpy kernels, called from native code."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from circlet.backends.native.emit.emitter import NATIVE_TYPES
from circlet.backends.native.emit.value import Value, in_memory, in_register
from circlet.backends.native.lower.open_host import call_host, lower_open_host_call, seen_shape
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.parts import External, HostCall, Staging
from circlet.backends.native.program import Unlowerable
from circlet.runtime.ir.model import ABSENT
from circlet.runtime.ir.types import DType, Shape


def lower_host_call(o: OperatorLowering, reason: str) -> Sequence[Value]:
    """Calls the operator's numpy kernel; what the host cannot see goes through staging buffers.

    Args:
        o: the operator.
        reason: why it has no native code.
    """
    tensors = o.spec.subgraph.tensors
    used = (*o.operator.outputs, *(each for each in o.operator.inputs if each != ABSENT))
    if any(tensors[each].dtype.numpy.hasobject for each in used):
        raise Unlowerable(f"{o.place}: strings are not native")
    o.function.program.reasons.append(reason)
    if o.function.e.lengths is not None:
        return lower_open_host_call(o)
    kinds = [(shape, tensors[each].dtype) for each, shape in zip(o.operator.outputs, o.shapes, strict=True)]
    inputs = tuple(None if each is None else _input(o, each) for each in o.inputs)
    outputs = tuple(_output(o, home, *kind) for home, kind in zip(o.homes, kinds, strict=True))
    call_host(o, HostCall(o.spec.index, o.number, inputs, outputs, o.function.times.host()))
    return [_result(o, each, *kind, home) for each, kind, home in zip(outputs, kinds, o.homes, strict=True)]


def _input(o: OperatorLowering, value: Value) -> External | Staging:
    """Where the host finds an operand: an array that it knows, or a staging buffer, to which the operand is written."""
    memory = value.memory if value.known is None else o.function.external(value.known)
    shape = seen_shape(value)
    external = o.function.behind(memory, shape, value.dtype)
    if external is not None:
        return external
    staging = _staging(o, shape, value.dtype)
    o.function.write(value, o.function.at(staging.offset, value.nbytes))
    return staging


def _output(o: OperatorLowering, home: ir.Value | None, shape: Shape, dtype: DType) -> External | Staging:
    """Where the host puts a result: an array that it knows, or a staging buffer."""
    return o.function.behind(home, shape, dtype) or _staging(o, shape, dtype)


def _staging(o: OperatorLowering, shape: Shape, dtype: DType) -> Staging:
    """A part of the arena for a tensor."""
    return Staging(o.function.reserve_offset(prod(shape) * dtype.numpy.itemsize), shape, dtype)


def _result(o: OperatorLowering, made: External | Staging, shape: Shape, dtype: DType, home: ir.Value | None) -> Value:
    """The result where the operator's readers expect it."""
    e = o.function.e
    size = prod(shape) * dtype.numpy.itemsize
    source = o.function.at(made.offset, size) if isinstance(made, Staging) else home
    assert source is not None
    if prod(shape) == 1 and dtype in NATIVE_TYPES:
        scalar = e.load(source, dtype)
        if home is not None and home is not source:
            e.store(scalar, home, dtype)
        return in_register(scalar, shape, dtype)
    assert home is not None
    if home is not source:
        e.copy(home, source, size)
    return in_memory(home, shape, dtype)
