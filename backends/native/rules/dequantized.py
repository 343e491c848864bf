"""Constants that are dequantised as they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.gemm.stored import Integers
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.narrow import Narrow
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.passes.analyses.compressed import Compressed


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


def of_integers(function: Function, matrix: Compressed, known: Array) -> Value:
    """A matrix of float32, computed of the integers that it is made of as it is read; `known` is its value."""
    load = _integers(function, matrix, known)
    sizes = [whole // blocks for whole, blocks in zip(matrix.stored.shape, matrix.scales.shape, strict=True)]
    scales, *zeros = (function.external(np.ascontiguousarray(each))
                      for each in ((matrix.scales, matrix.zeros) if matrix.shifts else (matrix.scales,)))

    def element(e: Emitter, index: Index) -> ir.Value:
        block = e.linear([e.builder.udiv(each, e.number(size)) for each, size in zip(
            index[-len(sizes):], sizes, strict=True)], matrix.scales.shape)
        value = e.builder.sitofp(load(e, e.linear(index, known.shape)), ir.FloatType())
        for each in zeros:
            value = e.builder.fsub(value, e.load(each, DType.FLOAT32, block))
        return e.builder.fmul(value, e.load(scales, DType.FLOAT32, block))

    return replace(computed(known.shape, DType.FLOAT32, element), known=known)


def _integers(function: Function, matrix: Compressed, known: Array) -> Callable[[Emitter, ir.Value], ir.Value]:
    """What loads an integer at a position, as an i32."""
    if matrix.bits == 4:
        kept = Integers.of(1, 4, matrix.stored)
        packed = function.external(function.derived(
            known, "integers one by one", lambda _: kept.elements(matrix.stored.reshape(-1))))
        return lambda e, position: kept.element(e, packed, position)
    memory, dtype = function.external(np.ascontiguousarray(matrix.stored)), DType.of(matrix.stored.dtype)
    if dtype is DType.INT8:
        return lambda e, position: e.builder.sext(e.load(memory, dtype, position), I32)
    return lambda e, position: e.builder.zext(e.load(memory, dtype, position), I32)


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
