"""Products of the rows of a recurrent network with its weights: several constant matrices side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, memory_type
from circlet.backends.native.emit.value import in_memory
from circlet.backends.native.gemm.operands import Direct
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.function import kept
from circlet.backends.native.rules.narrow import Narrow
from circlet.backends.native.rules.quantized.fully_connected import constant, form_of, rows_of, stage
from circlet.backends.native.rules.quantized.hybrid import Scaling, by_product, multiply_scaled, staged
from circlet.backends.native.rules.real.product import FloatProduct
from circlet.backends.native.rules.rule import Node
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.records import dataclass

FLOAT = DType.FLOAT32
"""What results are in."""
Floats: TypeAlias = npt.NDArray[np.float32]
"""The real values of weights and biases."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory, `step` elements apart."""

    memory: ir.Value
    count: int
    step: int
    dtype: DType = FLOAT

    def at(self, e: Emitter, row: ir.Value) -> ir.Value:
        """Where a row begins."""
        return self.moved(e, e.builder.mul(row, e.number(self.step))).memory

    def moved(self, e: Emitter, distance: ir.Value) -> Rows:
        """As many rows, so many elements on."""
        return replace(self, memory=e.address(self.memory, memory_type(self.dtype), distance))


def reals(node: Node[Any], position: int) -> Floats:
    """The real values of constant weights, quantised or not."""
    stored = constant(node.input(position))
    if stored.dtype == np.float32:
        return stored
    scales = _scales(node, position)
    return stored * scales.reshape(-1, *[1] * (stored.ndim - 1))


def _scales(node: Node[Any], position: int) -> Floats:
    """That of each row."""
    scales = np.array(quantization(node.call.input(position)).scales, np.float32)
    return np.broadcast_to(scales, node.input(position).shape[:1])


def joined(node: Node[Any], positions: Sequence[int]) -> Array:
    """Constant matrices of as many columns, one below the other."""
    parts = [constant(node.input(k)) for k in positions]
    if len(parts) == 1:
        return parts[0]
    key = "joined", *((each.ctypes.data, each.nbytes) for each in parts)
    found = node.function.derived(parts[0], key, lambda _: np.concatenate(parts))
    narrow = [each for each in map(node.function.narrow, parts) if each is not None]
    together = Narrow.joined(narrow) if len(narrow) == len(parts) else None
    if together is not None:
        node.function.keep_narrow(found, together)
    return found


def add_product(node: Node[Any], positions: Sequence[int], rows: ir.Value, sums: Rows, bias: Floats | None = None,
                adds: bool = True) -> None:
    """Emits the product of rows, which lie one behind the other, with the matrices at some positions.

    Args:
        node: whose inputs are (n, k) each, of float32 or of int8; for the latter, rows are quantised on the fly.
        positions: of the matrices; their results lie side by side.
        rows: where the factor is, as many rows as there are of sums.
        sums: where results go.
        bias: what is added to each row.
        adds: whether results are added to what is there.
    """
    multiply_by = _by_floats if node.input(positions[0]).dtype is FLOAT else _by_integers
    multiply_by(node, positions, rows, sums, bias, adds)


def _by_floats(node: Node[Any], positions: Sequence[int], rows: ir.Value, sums: Rows, bias: Floats | None,
               adds: bool) -> None:
    """As `add_product`, of float32 weights: the joined matrices are packed, and rows read where they lie."""
    e, weights = node.function.e, joined(node, positions)
    columns, depth = weights.shape
    product = FloatProduct(node, e, (sums.count, columns), depth)
    start = kept(node.function, product.plan.pack_row(bias, np.dtype(np.float32)))
    product.multiply(product.rows(depth * WORD)(rows), product.known(weights), start,
                     Direct(sums.memory, sums.step * WORD, adds=adds))


def _by_integers(node: Node[Any], positions: Sequence[int], rows: ir.Value, sums: Rows, bias: Floats | None,
                 adds: bool) -> None:
    """As `add_product`, of int8 weights: rows are quantised as they are staged. Equal to the bit to
    `backends/cpu/hybrid`."""
    function, weights = node.function, joined(node, positions)
    depth, form = weights.shape[1], form_of(function.e.target, sums.count, weights)
    source, parameters = staged(function, form, in_memory(rows, (sums.count, depth), FLOAT), depth,
                                node.op.asymmetric_quantize_inputs)
    memory = stage(function, form, (sums.count, 1, 1, depth), source)
    scales = np.concatenate([_scales(node, k) for k in positions])

    is_centred = not (form.offset or node.op.asymmetric_quantize_inputs)
    scaling = Scaling(function, weights, scales, bias, parameters, Activation.NONE, is_centred)

    def take(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        place = sums.at(e, row)
        total = e.builder.fadd(e.load(place, FLOAT, column), value) if adds else value
        e.store(total, place, FLOAT, column)

    left = rows_of(function, form, memory, depth)
    multiply_scaled(scaling, form, sums.count, left, weights[:, None], scaling.rows(by_product), take)
