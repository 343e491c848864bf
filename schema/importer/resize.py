"""Resizing by factors that only a run tells, or of lengths that only it tells."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary
from circlet.runtime.ops.resample import Aspect, Coordinates, Resample, fraction_of
from circlet.runtime.records import replace
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value


def resampled(g: Graph, op: Resample, x: Value, factors: Value) -> Value:
    """A value with axes resized by factors.

    Args:
        g: to which operators are added.
        op: names the axes.
        x: is resized.
        factors: float32, (k,), one for each axis. Where lengths do not follow from lengths by them, sizes are computed
            beside, which are integers that a run tells.
    """
    if factors.shape != (len(op.axes),) or op.aspect is not Aspect.STRETCH or op.antialias or _follow(op, x, factors):
        return g.apply(op, x, factors)
    kept = np.array(_changed(op, factors), np.int64)
    some, axes = c.gather(g, factors, c.integers(kept.tolist()), 0), np.array(op.axes, np.int64)[kept]
    lengths = c.cast(g, c.gather(g, c.shape_of(g, x), c.integers(axes.tolist()), 0), DType.FLOAT32)
    sizes = c.cast(g, g.apply(unary.Floor(), c.multiply(g, lengths, some)), DType.INT64)
    return g.apply(replace(op, axes=tuple(axes.tolist())), x, sizes, None, some)


def _follow(op: Resample, x: Value, factors: Value) -> bool:
    """Whether sizes follow from lengths, whatever these are."""
    if factors.data is None or x.shape is None:
        return factors.data is not None
    return all(x.shape[axis] >= 0 or fraction_of(factor) is not None
               for axis, factor in zip(op.axes, factors.data.tolist(), strict=True))


def _changed(op: Resample, factors: Value) -> list[int]:
    """The numbers of the axes but those that are known to stay as they are."""
    known = factors.sizes if factors.data is None else factors.data.tolist()
    stays = op.coordinates is not Coordinates.TF_HALF_PIXEL_FOR_NN and known is not None
    return [k for k in range(len(op.axes)) if not (stays and known is not None and known[k] == 1)]
