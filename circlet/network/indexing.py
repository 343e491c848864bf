"""What `tensor[...]` means."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import SupportsIndex, TypeGuard

import numpy as np

from circlet.network.tensor import Index, Tensor
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import INTEGERS
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import StridedSlice

FULL = slice(None)


def select(x: Tensor, index: tuple[Index, ...]) -> Tensor:
    """`x[index]`; see `Tensor.__getitem__`.

    Raises:
        ModelError: an index of another kind, too many of them, or one that is out of range.
    """
    found = [k for k, each in enumerate(index) if isinstance(each, (Tensor, np.ndarray))]
    if len(found) > 1:
        raise ModelError(f"{x}: expected at most one tensor in an index, found {len(found)}: index one by one")
    if not found:
        return _slice(x, index)
    return _gather(x, index, found[0])


def _gather(x: Tensor, index: tuple[Index, ...], place: int) -> Tensor:
    """Selects by the tensor first, then by the rest of the index."""
    indices = x.graph.tensor(index[place])  # type: ignore[arg-type]  # the caller found an array or a tensor
    if indices.dtype not in INTEGERS or indices.shape is None or len(indices.shape) > 1:
        raise ModelError(f"{x}: expected an index that is a scalar or a vector of integers, found {indices}")
    if indices.shape and any(_is_number(each) for each in index):
        raise ModelError(f"{x}: expected no number beside a vector in an index: index one by one")
    picked = x.graph.apply(Gather(_axis(x, index, place)), x, indices)
    rest = (*index[:place], *((FULL,) if indices.shape else ()), *index[place + 1:])
    return picked if all(each is ... or each == FULL for each in rest) else _slice(picked, rest)


def _axis(x: Tensor, index: tuple[Index, ...], place: int) -> int:
    """The axis that an entry of the index selects from."""
    used = [each is not None and each is not ... for each in index]
    before = sum(used[:place])
    if not any(each is ... for each in index[:place]):
        return before
    return x.ndim - sum(used[place:])


def _is_number(entry: object) -> TypeGuard[SupportsIndex]:
    return isinstance(entry, SupportsIndex) and not isinstance(entry, (Tensor, np.ndarray, bool))


@dataclass
class _Entries:
    """The operands and options of a STRIDED_SLICE, an entry at a time."""

    begin: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    masks: Counter[str] = field(default_factory=Counter)

    def add(self, begin: int = 0, end: int = 0, stride: int = 1, marks: Sequence[str] = ()) -> None:
        for mark in marks:
            self.masks[mark] |= 1 << len(self.begin)
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def add_slice(self, entry: slice) -> None:
        marks = [mark for mark, bound in (("begin_mask", entry.start), ("end_mask", entry.stop)) if bound is None]
        begin, end = (0 if bound is None else operator.index(bound) for bound in (entry.start, entry.stop))
        self.add(begin, end, 1 if entry.step is None else operator.index(entry.step), marks)

    def op(self) -> StridedSlice:
        masks = self.masks
        return StridedSlice(masks["begin_mask"], masks["end_mask"], masks["ellipsis_mask"], masks["new_axis_mask"],
                            masks["shrink_axis_mask"])


def _slice(x: Tensor, index: Sequence[Index]) -> Tensor:
    entries = _Entries()
    taken = sum(each is not None and each is not ... for each in index)
    if x.shape is not None and taken > len(x.shape):
        raise ModelError(f"{x}: expected an index of at most {len(x.shape)} entries, found {taken}")
    for place, entry in enumerate(index):
        if entry is None:
            entries.add(marks=["new_axis_mask"])
        elif isinstance(entry, EllipsisType):
            entries.add(marks=["ellipsis_mask"])
        elif isinstance(entry, slice):
            entries.add_slice(entry)
        elif _is_number(entry):
            number = _checked(x, tuple(index), place, operator.index(entry))
            entries.add(number, number + 1, marks=["shrink_axis_mask"])
        else:
            raise ModelError(f"{x}: expected integers, slices, None, ... and a tensor of integers as index, "
                             f"found {entry!r}")
    if len(index) == 0:
        return x
    graph = x.graph
    operands = (graph.constant(np.array(each, np.int32)) for each in (entries.begin, entries.end, entries.strides))
    return graph.apply(entries.op(), x, *operands)


def _checked(x: Tensor, index: tuple[Index, ...], place: int, number: int) -> int:
    """An index that the axis has, where its size is known."""
    if x.shape is not None:
        axis = _axis(x, index, place)
        size = x.shape[axis]
        if size >= 0 and not -size <= number < size:
            raise ModelError(f"{x}: expected an index of {-size} to {size - 1} into axis {axis}, found {number}")
    return number
