"""Calls of numpy kernels at open lengths: the code tells the host where tensors lie, and what shapes they have."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, in_register_alone
from circlet.backends.native.emit.value import Value, in_memory, in_register
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.parts import HostCall, Request, Told
from circlet.runtime.ir.length import bound, computed_number, is_late, open_number
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.passes.analyses.told import parts_of
from circlet.runtime.records import dataclass


def call_host(o: OperatorLowering, call: HostCall) -> None:
    """Adds a host call to the function, and calls it."""
    function = o.function
    function.program.host_calls.append(call)
    function.call_host(len(function.program.host_calls) - 1, o.place)


@dataclass(frozen=True, eq=False)
class _Result:
    """A result of the kernel, and where it lies."""

    memory: ir.Value
    shape: Shape
    dtype: DType

    @property
    def most(self) -> Shape:
        """How long each axis is at the most."""
        return tuple(map(bound, self.shape))


def lower_open_host_call(o: OperatorLowering) -> Sequence[Value]:
    """Calls the operator's kernel; lengths that it computes become what the host says they are."""
    function, e = o.function, o.function.e
    results = [_reserved(o, k) for k in range(len(o.homes))]
    words: list[ir.Value] = []
    for each in o.inputs:
        if each is not None:
            words += _told(o, function.pointer(each), seen_shape(each))
    first = len(words)
    for result in results:
        words += _told(o, result.memory, result.most)
    request = function.external(np.zeros(len(words), np.int64), Request(len(words)))
    for position, word in enumerate(words):
        e.store(word, request, DType.INT64, position)
    place = function.behind(request, (len(words),), DType.INT64)
    inputs = tuple(None if each is None else Told(len(seen_shape(each)), each.dtype) for each in o.inputs)
    outputs = tuple(Told(len(each.shape), each.dtype, any(map(is_late, each.shape)), _growing(o, each))
                    for each in results)
    call_host(o, HostCall(o.spec.index, o.number, inputs, outputs, function.times.host(),
                         -1 if place is None else place.number))
    for result in results:
        _take_lengths(o, result, request, first + 1)
        first += 1 + len(result.shape)
    return [_value(o, result, home) for result, home in zip(results, o.homes, strict=True)]


def seen_shape(value: Value) -> Shape:
    """The shape that a kernel is given an operand with: of a constant whose elements share bytes, that of the bytes."""
    known = value.known
    return value.shape if known is None or value.dtype.is_computable else known.shape


def _reserved(o: OperatorLowering, position: int) -> _Result:
    """A result in its home or, where a register is its home, in the arena."""
    shape, home = o.shapes[position], o.homes[position]
    dtype = o.spec.subgraph.tensors[o.operator.outputs[position]].dtype
    return _Result(o.function.reserve(prod(shape) * dtype.numpy.itemsize) if home is None else home, shape, dtype)


def _told(o: OperatorLowering, memory: ir.Value, shape: Shape) -> list[ir.Value]:
    """What the host is told of a tensor: i64."""
    e = o.function.e
    return [e.builder.ptrtoint(memory, I64), *(e.builder.sext(e.number(size), I64) for size in shape)]


def _growing(o: OperatorLowering, result: _Result) -> tuple[int, ...]:
    """The axes for which there is as much room as they turn out to need."""
    capacities = () if o.spec.scope is None else o.spec.scope.capacities
    return tuple(axis for axis, (size, most) in enumerate(zip(result.shape, result.most, strict=True))
                 if computed_number(size) is not None and open_number(most) in capacities)


def _take_lengths(o: OperatorLowering, result: _Result, request: ir.Value, first: int) -> None:
    """Says what the lengths are that the host computed, which lie from a word on; leaves where there is no room."""
    e, growing = o.function.e, _growing(o, result)
    told = {computed_number(part) for array in o.spec.told.roots.values() for each in array.flat if each is not None
            for part, _ in parts_of(each)}
    for axis, (size, most) in enumerate(zip(result.shape, result.most, strict=True)):
        if computed_number(size) not in (None, *told):
            length = e.builder.trunc(e.load(request, DType.INT64, first + axis), e.index)
            if axis in growing:
                o.function.expect_capacity(length, most)
            e.define_once(size, length)


def _value(o: OperatorLowering, result: _Result, home: ir.Value | None) -> Value:
    """The result where the operator's readers expect it."""
    if in_register_alone(prod(result.shape), result.dtype):
        return in_register(o.function.e.load(result.memory, result.dtype), result.shape, result.dtype)
    assert home is not None, f"{o.place}: a result has no memory"
    return in_memory(home, result.shape, result.dtype)
