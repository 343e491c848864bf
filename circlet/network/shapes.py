"""Shapes of which some dimensions only a run can tell (-1), and the operators' shape rules on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from circlet.runtime.ir.op import Op, ShapeError
from circlet.runtime.ir.probe import Outline, result_shapes
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.comparison import SelectV2
from circlet.runtime.ops.elementwise import Binary
from circlet.runtime.ops.ranks import open_shape


def is_static(shape: Shape | None) -> bool:
    return shape is not None and -1 not in shape


def compatible(a: Shape | None, b: Shape | None) -> bool:
    """Whether two shapes may be the same when the model runs."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x == y or -1 in (x, y) for x, y in zip(a, b, strict=True))


def admits(declared: Shape | None, found: Shape | None) -> bool:
    """Whether everything of shape `found` has the shape `declared`."""
    if declared is None:
        return True
    return found is not None and len(declared) == len(found) and all(
        x in (-1, y) for x, y in zip(declared, found, strict=True))


def union(a: Shape | None, b: Shape | None) -> Shape | None:
    """The narrowest shape that admits both."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else -1 for x, y in zip(a, b, strict=True))


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that all broadcast to; an unknown dimension beside a known one that is not 1 must turn out equal to it.

    Raises:
        ShapeError: two known dimensions do not fit.
    """
    result = []
    for dims in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        sizes = {dim for dim in dims if dim not in (1, -1)}
        if len(sizes) > 1:
            raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        result.append(sizes.pop() if sizes else min(dims))
    return tuple(reversed(result))


def infer(op: Op, kinds: Sequence[DType], shapes: Sequence[Shape | None], known: Sequence[Array | None],
          count: int) -> tuple[Shape | None, ...]:
    """The shapes of the results of an operator on operands of the given types, shapes and, where known, values.

    Raises:
        ShapeError: the operands do not fit.
    """
    if isinstance(op, (Binary, SelectV2)):
        broadcast([shape for shape in shapes if shape is not None])
    given = [Outline(*each) for each in zip(kinds, shapes, known, strict=True)]
    return tuple(result_shapes(op, given, count, open_shape))
