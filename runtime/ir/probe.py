"""What can be told of the shapes of an operator's results before a run, where dimensions of its operands are open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from circlet.runtime.ir.op import Op, Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.types import Array, DType, Quantization, Shape

LENGTHS = (1, 64, 96)
"""What stands for an open dimension when a shape rule is tried. Where few of them fit, the sizes that are known do."""
DIVISIBLE = (720_720, 1_441_440)
"""What is tried last: numbers that split and reshape in many ways."""


@dataclass(frozen=True, eq=False)
class Outline:
    """What is known of an operand."""

    dtype: DType
    shape: Shape | None
    """-1 where a dimension is not known, None where not even the rank is."""
    data: Array | None = None
    quantization: Quantization | None = None

    @property
    def is_static(self) -> bool:
        """Whether all dimensions are known."""
        return self.shape is not None and -1 not in self.shape


OpenShape: TypeAlias = Callable[[Op, Sequence["Outline | None"]], "Shape | None"]
"""What can be told of the shape of results without the operator's own rule."""
Call: TypeAlias = Callable[[int, tuple[Shape, ...]], tuple[Shape, ...]]
"""The output shapes of another subgraph for given input shapes."""


def nothing(op: Op, given: Sequence[Outline | None]) -> Shape | None:
    """Tells nothing."""
    return None


def operands(given: Sequence[Outline | None], count: int, length: int = 1, call: Call | None = None) -> Operands:
    """The operands of an operator with `count` results, a length in place of each open dimension."""
    return Operands(tuple([None if each is None else _operand(each, length) for each in given]), count, call)


def _operand(given: Outline, length: int) -> Operand:
    shape = given.shape or ()
    if -1 in shape:
        shape = tuple([length if dim < 0 else dim for dim in shape])
    return Operand(given.dtype, shape, given.data, given.quantization)


def result_shapes(op: Op, given: Sequence[Outline | None], count: int, open_shape: OpenShape = nothing,
                  call: Call | None = None) -> Sequence[Shape | None]:
    """The shapes of the results, as far as they are the same whatever the open dimensions are.

    Args:
        op: the operator.
        given: its operands, None where one is absent.
        count: how many results it has.
        open_shape: tells what it can where the operator's rule needs a value, or a rank, that only a run tells.
        call: gives the output shapes of the subgraphs that the operator invokes.

    Raises:
        ShapeError: all dimensions are known, and the operands do not fit.
    """
    shapes = [each.shape for each in given if each is not None]
    sizes = {dim for shape in shapes if shape is not None for dim in shape}
    try:
        if None in shapes:
            raise Unknown
        if -1 not in sizes:
            return op.infer(operands(given, count, call=call))
        found: list[Sequence[Shape]] = []
        for lengths in (LENGTHS, sizes.difference((-1, *LENGTHS)), DIVISIBLE):
            if len(found) < 2:
                found += _tried(op, given, count, lengths, call)
    except Unknown:
        found = []
    if not found:
        return (open_shape(op, given),) * count
    return [merged([each[k] for each in found], sure=len(found) > 1) for k in range(count)]


def _tried(op: Op, given: Sequence[Outline | None], count: int, lengths: Iterable[int],
           call: Call | None) -> Iterator[Sequence[Shape]]:
    """The shapes of the results for each length that fits."""
    fixed = [_operand(each, 1) if each is not None and each.is_static else None for each in given]
    for length in lengths:
        tried = tuple([known or (None if each is None else _operand(each, length))
                       for known, each in zip(fixed, given, strict=True)])
        try:
            yield op.infer(Operands(tried, count, call))
        except ShapeError:
            continue


def merged(shapes: Sequence[Shape | None], sure: bool = True) -> Shape | None:
    """What several shapes have in common; only the rank where they are not `sure`."""
    first = shapes[0]
    if first is None or any(each is None or len(each) != len(first) for each in shapes):
        return None
    return tuple(dim if sure and all(each is not None and each[k] == dim for each in shapes) else -1
                 for k, dim in enumerate(first))
