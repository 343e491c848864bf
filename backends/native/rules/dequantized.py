"""Constants that are dequantised as they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.gemm.stored import Integers
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.narrow import Narrow
from circlet.runtime.ir.types import Array, DType


def dequantized(function: Function, narrow: Narrow, known: Array) -> Value:
    """A constant of float32, computed from what the model has as it is read; `known` is its value."""
    load = _loader(function, narrow)
    is_each = len(narrow.scales) > 1
    scales, zeros = ([function.e.constant(each, DType.FLOAT32) for each in kind] if not is_each else
                     [function.external(np.ascontiguousarray(kind))] for kind in (narrow.scales, narrow.zeros))

    def unit(e: Emitter, kind: list[ir.Value], index: Index) -> ir.Value:
        return e.load(kind[0], DType.FLOAT32, index[narrow.axis]) if is_each else kind[0]

    def real(e: Emitter, position: ir.Value, index: Index) -> ir.Value:
        value = load(e, position)
        if narrow.zeros.any():
            value = e.builder.fsub(value, unit(e, zeros, index))
        return e.builder.fmul(value, unit(e, scales, index)) if narrow.scales.size else value

    def element(e: Emitter, index: Index) -> ir.Value:
        return real(e, e.linear(index, known.shape), index)

    linear = None if is_each else lambda e, position: real(e, position, ())
    return replace(computed(known.shape, DType.FLOAT32, element, linear), known=known)


def _loader(function: Function, narrow: Narrow) -> Callable[[Emitter, ir.Value], ir.Value]:
    """What loads an element at a position, as float32."""
    single = ir.FloatType()
    if narrow.dtype is DType.INT4:
        kept = Integers.of(1, 4, narrow.stored)
        memory = function.external(kept.elements(narrow.stored.reshape(-1)))
        return lambda e, position: e.builder.sitofp(kept.element(e, memory, position), single)
    memory = function.external(narrow.stored)
    if narrow.dtype is DType.FLOAT16:
        return lambda e, position: e.widened(e.load(memory, narrow.dtype, position), single)
    if narrow.dtype is DType.UINT8:
        return lambda e, position: e.builder.uitofp(e.load(memory, narrow.dtype, position), single)
    return lambda e, position: e.builder.sitofp(e.load(memory, narrow.dtype, position), single)
