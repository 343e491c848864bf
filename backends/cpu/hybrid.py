"""Products of float32 rows with integer weights, equal to the bit to LiteRT's hybrid kernels.

Each row is quantised to int8 on the fly, the product is one of integers, and its result is scaled back. numpy has no
fast product of integers, so floats hold them: float32 while every partial sum stays below 2**24, float64 otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.backends.arithmetic.fixed_point import round_half_away
from circlet.runtime.ir.types import Array, Quantization

Floats: TypeAlias = npt.NDArray[np.float32]
Product: TypeAlias = Callable[[Floats], Floats]
"""Multiplies rows (..., m, k) by fixed weights: (..., m, n)."""

_SPAN = 255
"""The largest magnitude of a quantised activation less its zero point, in any 8-bit type."""


def exact_dtype(bound: float) -> type[np.float32] | type[np.float64]:
    """The floats that hold every integer up to `bound` in magnitude."""
    return np.float32 if bound <= 1 << 24 else np.float64


def integer_matrix(weights: Array, zero_point: int = 0, span: int = _SPAN) -> Array:
    """Weights (..., n, k) less their zero point, transposed to (..., k, n), as floats that are exact in products with
    integers up to `span`."""
    centred = np.subtract(weights, zero_point, dtype=np.float64)
    bound = np.abs(centred).sum(axis=-1).max(initial=0.0) * span
    return np.ascontiguousarray(centred.swapaxes(-1, -2), exact_dtype(bound))


def quantize_rows(rows: Floats, asymmetric: bool) -> tuple[Floats, Floats]:
    """The int8 values of rows (..., k), less their zero points and held as floats, and the rows' scales (..., 1).

    Rows of numbers so small that the inverse of their scale is infinite count as zeros.
    """
    if asymmetric:
        values, scale, zero_point = _stored_rows(rows)
        return values - zero_point, scale
    bound = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    bound[np.isinf(np.float32(127) / bound)] = 127
    return round_half_away(rows * (np.float32(127) / bound)), bound / np.float32(127)


def _stored_rows(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """The int8 values of rows (..., k), held as floats, their scales and their zero points (..., 1)."""
    low = rows.min(axis=-1, keepdims=True, initial=0.0)
    high = rows.max(axis=-1, keepdims=True, initial=0.0)
    span = high - low
    span[np.isinf(1 / (span.astype(np.float64) / 255).astype(np.float32))] = 255
    exact_scale = span.astype(np.float64) / 255
    scale = exact_scale.astype(np.float32)
    below, above = low / exact_scale, high / exact_scale
    nearer = np.where(128 - below < 127 + above, -128 - below, 127 - above)
    zero_point = round_half_away(nearer).clip(-128, 127).astype(np.float32)
    values = round_half_away(rows * (np.float32(1) / scale)) + zero_point
    return values.clip(-128, 127), scale, zero_point


def hybrid_product(weights: Array, quantization: Quantization, asymmetric: bool) -> Product:
    """The product of float32 rows (..., m, k) with weights (..., n, k) quantised per tensor or per row."""
    matrix = integer_matrix(weights)
    weight_scales = np.array(quantization.scales, np.float32)

    def multiply(rows: Floats) -> Floats:
        values, scales = quantize_rows(rows, asymmetric)
        sums = np.matmul(values.astype(matrix.dtype, copy=False), matrix)
        product: Floats = sums.astype(np.float32, copy=False) * (scales * weight_scales)
        return product

    return multiply


def block_product(weights: Array, scales: Floats) -> Product:
    """The product of float32 rows (m, k) with weights (n, k), int8, of which each block of k / b in a row has a scale:
    (n, b). The sums of blocks are scaled and added up in order, then what the zero point adds is taken off."""
    units, blocks = scales.shape
    parts = np.moveaxis(weights.reshape(units, blocks, -1), 1, 0)
    matrices, factors = integer_matrix(parts), np.ascontiguousarray(scales.T)
    weighted = np.zeros(units, np.float32)
    for factor, total in zip(factors, parts.sum(axis=-1, dtype=np.int32), strict=True):
        weighted += factor * total.astype(np.float32)

    def multiply(rows: Floats) -> Floats:
        values, scale, zero_point = _stored_rows(rows)
        sums = np.zeros((len(rows), units), np.float32)
        for part, matrix, factor in zip(np.split(values, blocks, axis=1), matrices, factors, strict=True):
            sums += np.matmul(part.astype(matrix.dtype, copy=False), matrix).astype(np.float32, copy=False) * factor
        sums -= zero_point * weighted
        sums *= scale
        return sums

    return multiply
