"""How weights that are made of integers, zero points and scales are packed for products."""

from __future__ import annotations

import numpy as np

from circlet.backends.native.gemm.plan import Allocate, Plan
from circlet.backends.native.gemm.scaled import Scaled
from circlet.runtime.ir.types import Array
from circlet.runtime.passes.analyses.compressed import Compressed, Floats

_LEAST_GROUP = 16
"""Steps that have one scale, at least: with fewer, scales take as much memory as what is saved. A choice."""


def kept(matrix: Compressed, is_transposed: bool, lanes: int) -> Scaled | None:
    """How a matrix is kept as a right factor, (columns, depth) if it is transposed, else (depth, columns); None if it
    cannot be."""
    axis = 1 if is_transposed else 0
    group = matrix.stored.shape[axis] // matrix.scales.shape[axis]
    if group < _LEAST_GROUP:
        return None
    is_signed = matrix.stored.dtype == np.int8
    return Scaled(matrix.bits, is_signed, matrix.shifts, lanes, 0 if matrix.scales.shape[axis] == 1 else group)


def panels(matrix: Compressed, stored: Scaled, plan: Plan, is_transposed: bool, allocate: Allocate) -> Array:
    """The integers, packed as they are kept."""
    return stored.kept(plan.pack(matrix.stored if is_transposed else matrix.stored.T, allocate))


def units(matrix: Compressed, plan: Plan, is_transposed: bool) -> Floats:
    """Scales and zero points as `Scaled.units` reads them, panel by panel, group by group."""
    kinds = [matrix.scales, matrix.zeros] if matrix.shifts else [matrix.scales]
    rows = [each if is_transposed else each.T for each in kinds]
    found = np.zeros((plan.panels * plan.panel, len(rows), rows[0].shape[1]), np.float32)
    for number, each in enumerate(rows):
        found[:plan.columns, number] = np.repeat(each, plan.columns // len(each), axis=0)
    return np.ascontiguousarray(found.reshape(plan.panels, plan.panel, len(rows), -1).transpose(0, 3, 2, 1))

