"""What can be told of the shapes of an operator's results before a run, where dimensions of its operands are open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import zip_longest
from typing import TypeAlias

from circlet.runtime.ir.op import Op, Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.types import Array, DType, Quantization, Shape
from circlet.runtime.records import dataclass

LENGTHS = (1, 11_531_520)
"""What stands for an open dimension when a shape rule is tried. No size of a result both grows and shrinks with it, so
where the ends agree there is nothing else between. The long one is a multiple of 256 and of all up to 16, so that it
splits and reshapes in many ways, and of more elements than windows are apart."""
COMMON = (96, 64)
"""What is tried too where not both of them fit; then the sizes that are known."""
DIVISIBLE = (720_720, 1_441_440)
"""What is tried last."""


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

    @cached_property
    def least(self) -> Operand:
        """The operand of a shape rule, 1 in place of each open dimension."""
        return self.filled(1)

    def filled(self, length: int) -> Operand:
        """The operand of a shape rule, a length in place of each open dimension."""
        shape = self.shape or ()
        if -1 in shape:
            shape = tuple([length if dim < 0 else dim for dim in shape])
        return Operand(self.dtype, shape, self.data, self.quantization)


OpenShape: TypeAlias = Callable[[Op, Sequence["Outline | None"]], "Shape | None"]
"""What can be told of the shape of results without the operator's own rule."""
Call: TypeAlias = Callable[[int, tuple[Shape, ...]], tuple[Shape, ...]]
"""The output shapes of another subgraph for given input shapes."""


def nothing(op: Op, given: Sequence[Outline | None]) -> Shape | None:
    """Tells nothing."""
    return None


def operands(given: Sequence[Outline | None], count: int, length: int = 1, call: Call | None = None) -> Operands:
    """The operands of an operator with `count` results, a length in place of each open dimension."""
    return Operands(tuple([None if each is None else each.least if length == 1 or each.is_static
                           else each.filled(length) for each in given]), count, call)


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
        known = sizes.difference((-1, *LENGTHS, *COMMON))
        are_known = True
        """Whether only sizes of operands fit, which lie too near to each other to tell what is always so."""
        for lengths in (LENGTHS, COMMON, known, DIVISIBLE):
            if len(found) < 2:
                more = list(_tried(op, [partial(operands, given, count, each, call) for each in lengths]))
                are_known = are_known and (lengths is known or not more)
                found += more
        if not found:
            found += list(_tried(op, [partial(_aligned, given, count, call)]))[:1]
    except Unknown:
        found, are_known = [], False
    is_sure = len(found) > 1 and not are_known
    if found and not is_sure and (shape := open_shape(op, given)) is not None:
        return (shape,) * count
    if not found:
        shape = open_shape(op, given)
        return _bounded(op, given, count, call) if shape is None and None not in shapes else (shape,) * count
    return [merged([each[k] for each in found], sure=is_sure) for k in range(count)]


def _bounded(op: Op, given: Sequence[Outline | None], count: int, call: Call | None) -> Sequence[Shape | None]:
    """The shapes of results of which a run computes some lengths, as far as they are the same whatever these are."""
    found: list[Sequence[Shape]] = []
    for length in LENGTHS:
        with suppress(ShapeError, Unknown):
            found.append(op.bounded(operands(given, count, length, call), partial(_always, length)) or ())
    if len(found) < len(LENGTHS) or () in found:
        return (None,) * count
    return [merged([each[k] for each in found]) for k in range(count)]


def _always(length: int, most: int | None) -> int:
    """A length, whatever it is at the most."""
    return length


def _tried(op: Op, attempts: Iterable[Callable[[], Operands]]) -> Iterator[Sequence[Shape]]:
    """The shapes of the results for each attempt at operands that fit."""
    for attempt in attempts:
        try:
            yield op.infer(attempt())
        except ShapeError:
            continue


def _aligned(given: Sequence[Outline | None], count: int, call: Call | None) -> Operands:
    """The operands, in place of each open dimension the one that another operand has as far from the end,
    where that is known: for operators that join or combine tensors of which other dimensions are known."""
    shapes = [each.shape[::-1] for each in given if each is not None and each.shape is not None]
    sizes = [max(column) for column in zip_longest(*shapes, fillvalue=-1)]
    filled: list[Operand | None] = []
    for each in given:
        if each is not None and each.shape is not None:
            shape = tuple(size if dim < 0 and size > 0 else abs(dim)
                          for dim, size in zip(each.shape[::-1], sizes, strict=False))[::-1]
            filled.append(Operand(each.dtype, shape, each.data, each.quantization))
        else:
            filled.append(None)
    return Operands(tuple(filled), count, call)


def merged(shapes: Sequence[Shape | None], sure: bool = True) -> Shape | None:
    """What several shapes have in common; only the rank where they are not `sure`."""
    first = shapes[0]
    if first is None or any(each is None or len(each) != len(first) for each in shapes):
        return None
    return tuple(dim if sure and all(each is not None and each[k] == dim for each in shapes) else -1
                 for k, dim in enumerate(first))
