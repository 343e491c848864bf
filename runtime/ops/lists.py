"""Lists as tensors: the elements of a sequence lie one behind another along an axis, a new one where they are stacked.

No format has these operators; a pass makes them of those on sequences, so that what a list holds can be code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import ClassVar

from circlet.runtime.ir.length import is_late, is_length, larger, may_differ
from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, at_least, between, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.operands import agreed, agreed_shape, expect_one, normalize_axis, replaced, scalar
from circlet.runtime.ops.sequence import cuts, place
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class ListOp(Op):
    """Base of the operators on a list."""

    axis: int = 0
    """Along which the elements lie; it counts from the front."""
    stacked: bool = False
    """Whether elements do not have the axis, and are of one shape."""

    def slice(self, element: Shape) -> Shape:
        """An element's shape as it lies in the list."""
        if not 0 <= self.axis < len(element) + self.stacked:
            raise ShapeError(f"axis {self.axis}: expected one that counts from the front, of an element of shape "
                             f"{element}")
        return (*element[:self.axis], 1, *element[self.axis:]) if self.stacked else element

    def along(self, shape: Shape) -> int:
        """The axis of a list of some shape."""
        if not 0 <= self.axis < len(shape):
            raise ShapeError(f"axis {self.axis}: expected one of a list of shape {shape} that counts from the front")
        return self.axis


@dataclass(frozen=True)
class ElementOp(ListOp):
    """Base of the operators on one element of a list."""

    are_single: bool = False
    """Whether elements that are not stacked are of size 1 along the axis."""
    are_joined: bool = False
    """Whether something joins the elements, so that they have one shape but for the axis, even if only the run tells
    their sizes."""

    def slice(self, element: Shape) -> Shape:
        found = super().slice(element)
        if self.are_single and (is_length(found[self.axis]) or found[self.axis] != 1):
            raise ShapeError(f"expected an element of size 1 along axis {self.axis}, found one of shape {found}")
        return found


@dataclass(frozen=True)
class ListEmpty(ListOp):
    """A list without elements. An input tells the shape of these: it is one, or a list of some."""

    name: ClassVar[str] = "LIST_EMPTY"
    inputs: ClassVar[Count] = between(0, 1)
    shape: Shape = ()
    """Of elements, as far as it is known; else 0."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        known = args[0].shape if len(args) else self.shape
        is_list = self.stacked and len(known) > len(self.shape)
        return (replaced(known if is_list else self.slice(known), self.axis, 0),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype if len(args) else None,)


@dataclass(frozen=True)
class ListBegin(ListOp):
    """A list, the input at `position`, with which a loop begins. The inputs are those of the loop. A list without
    elements gets the shape that a turn makes of it, but for their number, as that tells more of elements."""

    name: ClassVar[str] = "LIST_BEGIN"
    asks_turn: ClassVar[bool] = True
    inputs: ClassVar[Count] = at_least(1)
    position: int = 0
    body: int = -1
    """The subgraph that is a turn."""
    like: int = -1
    """An input that elements may be like where a turn needs to know; -1 for none."""
    element: Shape = ()
    """The declared shape of elements, with -1 for sizes that may be those of that input."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        given = tuple(args[k].shape for k in range(len(args)))
        shape = given[self.position]
        length = shape[self.along(shape)]
        if not is_length(length) and length == 0:
            for begin in (*self._guessed(given), shape):
                with suppress(Unknown):
                    made = args.call(self.body, (*given[:self.position], begin, *given[self.position + 1:]))
                    found = replaced(made[self.position], self.axis, 0)
                    if not any(map(is_late, found)):
                        return (found,)
        return (shape,)

    def _guessed(self, given: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The shape of the list if elements are like another input; nothing without one."""
        if self.like < 0:
            return ()
        size = given[self.like]
        element = tuple((*size, 0)[min(axis, len(size))] if each < 0 else each
                        for axis, each in enumerate(self.element))
        return (replaced(self.slice(element), self.axis, 0),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[self.position].dtype,)

    def views(self) -> Mapping[int, int]:
        return {0: self.position}


@dataclass(frozen=True)
class ListAppend(ElementOp):
    """A list, input 0, with the element input 1 at its end. The other axes of a list without elements are those of what
    is appended first."""

    name: ClassVar[str] = "LIST_APPEND"
    lays_together: ClassVar[bool] = True
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape, added = args[0].shape, self.slice(args[1].shape)
        is_alike = self.axis < len(shape) == len(added)
        if is_alike and not is_length(shape[self.axis]) and shape[self.axis] == 0:
            return (added,)
        found = self._grown(shape, replaced(added, self.axis, shape[self.axis])) if is_alike else None
        if found is None:
            raise ShapeError(f"cannot append an element of shape {args[1].shape} to a list of shape {shape} along axis "
                             f"{self.axis}")
        return (replaced(found, self.axis, shape[self.axis] + added[self.axis]),)

    def _grown(self, shape: Shape, added: Shape) -> Shape | None:
        """What two shapes that must be one are; a size that only the run tells is that of the element, input 1."""
        if not self.are_joined:
            return _of_one_shape(shape, added)
        found = [new if agreed(old, new) is None and (is_late(old) or is_late(new)) else agreed(old, new)
                 for old, new in zip(shape, added, strict=True)]
        sizes = tuple(each for each in found if each is not None)
        return sizes if len(sizes) == len(shape) else None

    def appends(self) -> Mapping[int, tuple[int, int]]:
        return {0: (0, self.axis)}


@dataclass(frozen=True)
class ListAppendPart(ListAppend):
    """The same, and where the elements end, int64 (n,): input 2 before, output 1 then."""

    name: ClassVar[str] = "LIST_APPEND_PART"
    inputs: ClassVar[Count] = exactly(3)
    results: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (*super().infer(args), (args[2].shape[0] + 1,))

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, DType.INT64)

    def appends(self) -> Mapping[int, tuple[int, int]]:
        return {**super().appends(), 1: (2, 0)}


@dataclass(frozen=True)
class ListHas(ListOp):
    """Whether a list has elements, a boolean scalar."""

    name: ClassVar[str] = "LIST_HAS"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        normalize_axis(self.axis, args[0].rank)
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.BOOL,)


@dataclass(frozen=True)
class ListOnly(ListOp):
    """What is in an optional: a stacked list of one element, or none, which is an error."""

    name: ClassVar[str] = "LIST_ONLY"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        axis = normalize_axis(self.axis, args[0].rank)
        return ((*args[0].shape[:axis], *args[0].shape[axis + 1:]),)


@dataclass(frozen=True)
class ListChange(ElementOp):
    """Base of the operators that change a list, input 0, at a position, which may count from the end. That there is one
    is looked at by what computes it, as turns of loops may never come to it."""

    lays_together: ClassVar[bool] = True

    def fitted(self, list_: Shape, element: Shape) -> Shape:
        """The shape of the list, which an element must fit into; without elements it may be of any."""
        added = self.slice(element)
        if len(added) == len(list_):
            agree = agreed_shape if self.are_joined else _of_one_shape
            found = agree(list_, replaced(added, self.axis, list_[self.axis]))
            if found is not None:
                return found
            if not is_length(list_[self.axis]) and list_[self.axis] == 0:
                return replaced(added, self.axis, 0)
        raise ShapeError(f"cannot put an element of shape {element} into a list of shape {list_}")


@dataclass(frozen=True)
class ListInsert(ListChange):
    """The list with input 1 before position `input 2`."""

    name: ClassVar[str] = "LIST_INSERT"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[2], "position")
        found = self.fitted(args[0].shape, args[1].shape)
        return (replaced(found, self.axis, found[self.axis] + 1),)


@dataclass(frozen=True)
class ListInsertPart(ListInsert):
    """The same of a list whose elements end where input 3 says, int64 (n,), output 1 then."""

    name: ClassVar[str] = "LIST_INSERT_PART"
    inputs: ClassVar[Count] = exactly(4)
    results: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[2], "position")
        found = self.fitted(args[0].shape, args[1].shape)
        longer = replaced(found, self.axis, found[self.axis] + self.slice(args[1].shape)[self.axis])
        return (longer, (args[3].shape[0] + 1,))

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, DType.INT64)


@dataclass(frozen=True)
class ListErase(ListChange):
    """The list without the element at position `input 1`."""

    name: ClassVar[str] = "LIST_ERASE"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[1], "position")
        axis, shape = self.along(args[0].shape), args[0].shape
        return (replaced(shape, axis, larger(shape[axis] - 1, 0)),)


@dataclass(frozen=True)
class ListErasePart(ListErase):
    """The same of a list whose elements end where input 2 says, int64 (n,), output 1 then."""

    name: ClassVar[str] = "LIST_ERASE_PART"
    inputs: ClassVar[Count] = exactly(3)
    results: ClassVar[Count] = exactly(2)
    parts_from: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[1], "position")
        shape = args[0].shape
        return self._of_length(args, shape[self.along(shape)] - _part_length(args, self.axis))

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, DType.INT64)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        shape = args[0].shape
        return self._of_length(args, computed(shape[self.along(shape)]))

    def _of_length(self, args: Operands, length: int) -> tuple[Shape, ...]:
        return (replaced(args[0].shape, self.axis, length), (larger(args[2].shape[0] - 1, 0),))


@dataclass(frozen=True)
class ListSet(ListChange):
    """The list without the element at position `input 2`, and then with input 1 before that position: the element
    there is replaced or, where the position counts from the end, the one before it, which is moved there."""

    name: ClassVar[str] = "LIST_SET"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[2], "position")
        return (self.fitted(args[0].shape, args[1].shape),)

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}


def replaced_place(position: int, count: int) -> int:
    """Where LIST_SET puts an element.

    Raises:
        ShapeError: there is no such position, or none when one element is gone.
    """
    place(position, count)
    return place(position, count - 1, 1)


@dataclass(frozen=True)
class ListStack(ListOp):
    """Elements of one shape, stacked along the axis."""

    name: ClassVar[str] = "LIST_STACK"
    lays_together: ClassVar[bool] = True
    inputs: ClassVar[Count] = at_least(1)
    stacked: bool = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        for k in range(1, len(args)):
            if _of_one_shape(shape, args[k].shape) is None:
                raise ShapeError(f"input {k}: expected the shape of input 0, {shape}, found {args[k].shape}")
        return (replaced(self.slice(shape), self.axis, len(args)),)


def _of_one_shape(one: Shape, other: Shape) -> Shape | None:
    """What two shapes are that must be one; None where they are not, or only the run tells whether they are, since
    elements of a list that nothing joins may differ."""
    if len(one) != len(other) or any(map(_differ_late, one, other)):
        return None
    return agreed_shape(one, other)


def _differ_late(one: int, other: int) -> bool:
    """Whether only the run tells whether two sizes differ."""
    return (is_late(one) or is_late(other)) and may_differ(one, other)


@dataclass(frozen=True)
class ListJoin(ListOp):
    """Elements joined along the axis, and where they end, int64 (n,)."""

    name: ClassVar[str] = "LIST_JOIN"
    lays_together: ClassVar[bool] = True
    inputs: ClassVar[Count] = at_least(1)
    results: ClassVar[Count] = exactly(2)
    are_joined: bool = False
    """Whether something joins the elements, so that they have one shape but for the axis."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        self.slice(args[0].shape)
        beside = [(*args[k].shape[:self.axis], *args[k].shape[self.axis + 1:]) for k in range(len(args))]
        if not self.are_joined and any(any(map(_differ_late, beside[0], each)) for each in beside):
            raise Unknown
        return (*Concatenation(self.axis).infer(args), (len(args),))

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, DType.INT64)


@dataclass(frozen=True)
class ListEnds(ListOp):
    """Where elements end, int64 (n,), if input 0 is cut along the axis: into pieces of the length that input 1 gives,
    of which the last may be shorter, or of the lengths."""

    name: ClassVar[str] = "LIST_ENDS"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    least_size: ClassVar[int] = 1

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        size = args[0].shape[normalize_axis(self.axis, args[0].rank)]
        if args[1].rank == 1:
            known = args[1].known
            if known is not None and not known.dtype.hasobject and not is_length(size):
                cuts(size, known)
            return (args[1].shape,)
        length = scalar(args[1], "split")
        if length < 1:
            raise ShapeError(f"split: expected a length of at least 1, found {length}")
        return ((max(-(-size // length), 1),),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT64,)


@dataclass(frozen=True)
class ListPart(ElementOp):
    """The element of a list, input 0, at position `input 1`, which may count from the end. Where elements are not
    stacked, input 2 says where they end, int64 (n,)."""

    name: ClassVar[str] = "LIST_PART"
    inputs: ClassVar[Count] = between(2, 3)
    parts_from: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        axis = normalize_axis(self.axis, len(shape))
        if self.stacked or self.are_single:
            expect_one(args[1], "position")
            return ((*shape[:axis], *(1,) * self.are_single, *shape[axis + 1:]),)
        return (replaced(shape, axis, _part_length(args, axis)),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        shape = args[0].shape
        axis = normalize_axis(self.axis, len(shape))
        return (replaced(shape, axis, computed(shape[axis])),)


def _part_length(args: Operands, axis: int) -> int:
    """How long an element of a list, input 0, is, at the position that input 1 says; input 2 says where elements end.

    Raises:
        ShapeError: there is no such position, or it is not in the list.
        Unknown: only the run tells.
    """
    if args[2].known is None or args[2].known.dtype.hasobject:
        raise Unknown
    ends, size = args[2].known.tolist(), args[0].shape[axis]
    number = place(scalar(args[1], "position"), len(ends))
    if not is_length(size) and ends[number] > size:
        raise ShapeError(f"ends: expected some of a list of length {size}, found {ends[number]}")
    length: int = ends[number] - (ends[number - 1] if number else 0)
    return length
