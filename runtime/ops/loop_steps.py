"""What a lowered `Loop` is made of beside operators that formats have: counts, and the tensors that it fills.

No format has these operators; `lower_loops` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import ClassVar

import numpy as np

from circlet.runtime.ir.length import bound, is_late, is_length, larger, lowest, may_differ
from circlet.runtime.ir.op import Count, Op, OpenResults, Operands, ShapeError, Unknown, at_least, between, exactly
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import Base, Mode, Order, Position, ScanInput, ScanOutput, ShapePolicy, TripPolicy
from circlet.runtime.ops.operands import count, expect_one, normalize_axis, replaced, shape_value
from circlet.runtime.ops.shape import View
from circlet.runtime.records import dataclass, field

FIRST_BYTES = 1 << 18
"""A tensor for an unknown number of elements has at first about this size, but room for 16 to 16384 of them."""
LEAST_ROOM, MOST_ROOM = 16, 1 << 14
SMALL_BYTES = 1 << 25
GROWTH, GROWTH_OF_SMALL = 4, 8
"""By which factor such a tensor grows, and one that then still is small: each size is compiled by itself."""


@dataclass(frozen=True)
class LoopScalar(View):
    """A tensor of one element as a scalar."""

    name: ClassVar[str] = "LOOP_SCALAR"
    role: str = "value"
    """What messages call it."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[0], self.role)
        return ((),)


@dataclass(frozen=True)
class LoopKeep(View):
    """Input 0, the new value of a carried one whose shape was input 1, if the policy allows its shape."""

    name: ClassVar[str] = "LOOP_KEEP"
    inputs: ClassVar[Count] = exactly(2)
    role: str = "value"
    policy: ShapePolicy = ShapePolicy.FIXED

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        if args[1].shape != (len(shape),):
            raise ShapeError(f"{self.role}: expected rank {args[1].shape[0]} as before the iteration, found {shape}")
        if self.policy is ShapePolicy.FIXED and tuple(args[1].value.tolist()) != shape:
            before = tuple(args[1].value.tolist())
            raise ShapeError(f"{self.role}: expected shape {before} as before the iteration, found {shape}")
        return (shape,)


ENDLESS = -1
"""The negative trip count that models write where `TripPolicy.NEGATIVE_IS_INFINITE` holds; others mean as much."""
TAKEN_AS_ENDLESS = "trip count {} is taken as -1, which does not bound the loop"
"""What is said of others."""


@dataclass(frozen=True)
class LoopCount(Op):
    """How many iterations a trip count allows, a scalar: none or as many as there are numbers where it is negative."""

    name: ClassVar[str] = "LOOP_COUNT"
    policy: TripPolicy = TripPolicy.NEGATIVE_IS_ZERO
    dtype: DType = DType.INT64

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[0], "trip count")
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (self.dtype,)

    def open_results(self, inputs: Sequence[Array | None], evaluate: OpenResults) -> Sequence[Array] | None:
        given = inputs[0]
        if given is None or (self.policy is TripPolicy.NEGATIVE_IS_INFINITE and lowest(given.item()) < 0):
            return None
        found = np.empty((), np.object_)
        found[()] = larger(given.item(), 0)
        return (found,)

    def resolve(self, trip_count: int) -> int:
        """The count that a trip count means."""
        if trip_count >= 0:
            return trip_count
        return 0 if self.policy is TripPolicy.NEGATIVE_IS_ZERO else int(np.iinfo(self.dtype.numpy).max)


@dataclass(frozen=True)
class LoopSlices(Op):
    """How many slices the inputs have, a scalar."""

    name: ClassVar[str] = "LOOP_SLICES"
    inputs: ClassVar[Count] = at_least(1)
    scans: tuple[ScanInput, ...] = ()
    dtype: DType = DType.INT64

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        self.count(tuple(args[k].shape for k in range(len(args))))
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (self.dtype,)

    def from_shapes(self, args: Operands) -> tuple[Array, ...] | None:
        return (shape_value(self.count(tuple(args[k].shape for k in range(len(args)))), self.dtype.numpy),)

    def count(self, shapes: tuple[Shape, ...]) -> int:
        """The number of slices, which all inputs must agree in."""
        counts = [slice_count(scan, shape, f"scan input {k}")
                  for k, (scan, shape) in enumerate(zip(self.scans, shapes, strict=True))]
        if any(each != counts[0] for each in counts):
            raise ShapeError(f"expected scan inputs of equally many slices, found {', '.join(map(str, counts))}")
        return counts[0]


def slice_count(scan: ScanInput, shape: Shape, where: str) -> int:
    """How many slices a tensor has between `begin` and `end`."""
    size = shape[normalize_axis(scan.axis, len(shape), f"{where}, axis")]
    begin = _resolved(scan.begin, size)
    if scan.step > 0:
        length = (size if scan.end is None else _resolved(scan.end, size)) - begin
    else:
        length = begin + scan.size - (0 if scan.end is None else _resolved(scan.end, size))
    found, rest = divmod(length, abs(scan.step))
    if rest or found < 0:
        raise ShapeError(f"{where}: expected a length that steps of {scan.step} divide, found {length} elements from "
                         f"{begin} on along axis {scan.axis} of {shape}")
    return found


def _resolved(position: Position, size: int) -> int:
    return position.offset + (size if position.base is Base.END else 0)


@dataclass(frozen=True)
class LoopLength(Op):
    """The size of an axis, a scalar."""

    name: ClassVar[str] = "LOOP_LENGTH"
    axis: int = 0
    part: int = 1
    """The size is counted in parts of so many elements."""
    dtype: DType = DType.INT64

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        self.length(args[0].shape)
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (self.dtype,)

    def from_shapes(self, args: Operands) -> tuple[Array, ...] | None:
        return (shape_value(self.length(args[0].shape), self.dtype.numpy),)

    def length(self, shape: Shape) -> int:
        """The size of the axis of a shape; a tensor of rank 1 has no other."""
        return shape[0 if len(shape) == 1 else normalize_axis(self.axis, len(shape))] // self.part


@dataclass(frozen=True)
class LoopRoom(Op):
    """For how many elements to make room: the count if it is known before the run, else the next power of two, so that
    what is bound for one count serves others."""

    name: ClassVar[str] = "LOOP_ROOM"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return ((),)

    def from_shapes(self, args: Operands) -> tuple[Array, ...] | None:
        known = args[0].known
        return None if known is None else (known.reshape(()).copy(),)

    def round(self, wanted: int) -> int:
        """The power of two."""
        return max(LEAST_ROOM, 1 << max(wanted - 1, 0).bit_length())


def body_shapes(loop: Loop, operands: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The shapes of a body's inputs in the first iteration, for those of carried values, invariants and scan inputs."""
    found: dict[int, Shape] = {each.body_input: (1,) * each.rank for each in (loop.iteration, loop.cond_input)
                               if each is not None}
    inputs = [each.body_input for each in loop.carried] + list(loop.invariants)
    for position, shape in zip(inputs, operands, strict=False):
        found[position] = shape
    for scan, shape in zip(loop.scan_inputs, operands[len(inputs):], strict=True):
        axis = normalize_axis(scan.axis, len(shape))
        kept = (scan.size,) if scan.keep_axis else ()
        found[scan.body_input] = (*shape[:axis], *kept, *shape[axis + 1:])
    return tuple(found[position] for position in sorted(found))


@dataclass(frozen=True)
class LoopZeros(Op):
    """Zeros of the shape of a body output; of `fallback`, or (0,), where only a run can tell that.

    The inputs are the loop's carried values, invariants and scan inputs.
    """

    name: ClassVar[str] = "LOOP_ZEROS"
    inputs: ClassVar[Count] = at_least(0)
    own: ClassVar[int] = 0
    """How many inputs come before those of the loop."""
    loop: Loop = field(default_factory=Loop)
    output: int = 0
    fallback: Shape | None = None
    """The declared shape with 0 for what is not known; None: not even the rank is."""
    role: str = ""
    """Which result of which loop it is for."""

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        found = self.element(args)
        return ((0,) if found is None else found,)

    def element(self, args: Operands) -> Shape | None:
        """The shape of the body output in the first iteration, or `fallback`."""
        found = self.known(args)
        return self.fallback if found is None else found

    def known(self, args: Operands, is_told: bool = False) -> Shape | None:
        """The shape of the body output in the first iteration, also by what only a run tells if it `is_told` that there
        is one; None where that does not say it either."""
        operands = tuple(args[k].shape for k in range(self.own, len(args)))
        with suppress(Unknown):
            return args.ask(self.loop.body_subgraph_index, body_shapes(self.loop, operands), self.output, is_told)
        return None


@dataclass(frozen=True)
class LoopShape(LoopZeros):
    """The shape that each turn gives a carried value which it broadcasts, if it is known that there are turns; else,
    and where only a run can tell, the one with which it begins. The result is int64 (rank,).

    Input 0 is the condition before the first turn, input 1 how many turns there are at the most; the others are those
    of `LoopZeros`.
    """

    name: ClassVar[str] = "LOOP_SHAPE"
    inputs: ClassVar[Count] = at_least(2)
    own: ClassVar[int] = 2
    position: int = 0
    """Which carried value it is."""
    kept: tuple[int, ...] = ()
    """The axes that turns must leave as they are."""

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT64,)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return ((args[self.own + self.position].rank,),)

    def from_shapes(self, args: Operands) -> tuple[Array, ...] | None:
        first = args[self.own + self.position].shape
        made = self._made(args, first) if all(_is_sure(args[k].known) for k in range(self.own)) else None
        is_final = made is not None and _fits(first, made, self.kept) and self._made(args, made) == made
        return (shape_value(made if made is not None and is_final else first, np.dtype(np.int64)),)

    def _made(self, args: Operands, shape: Shape) -> Shape | None:
        """What a turn makes of a shape; None where that is not known."""
        operands = [args[k].shape for k in range(self.own, len(args))]
        operands[self.position] = shape
        with suppress(Unknown):
            return args.ask(self.loop.body_subgraph_index, body_shapes(self.loop, tuple(operands)), self.output)
        return None


def _is_sure(number: Array | None) -> bool:
    """Whether a condition is known to be true, or a number to be at least 1, before the run."""
    return number is not None and lowest(number.item()) >= 1


def _fits(shape: Shape, other: Shape, kept: Sequence[int]) -> bool:
    """Whether a shape can be broadcast to another one of as many axes, of which some are the same."""
    return len(shape) == len(other) and all(
        not may_differ(one, new) or (axis not in kept and not may_differ(one, 1))
        for axis, (one, new) in enumerate(zip(shape, other, strict=True)))


@dataclass(frozen=True)
class Collection(Op):
    """Base of the operators on a tensor in which the elements of a scan output lie along an axis."""

    scan: ScanOutput = field(default_factory=lambda: ScanOutput(0))

    def axis(self, rank: int) -> int:
        """The axis counted from the front, for the rank of the tensor."""
        return 0 if rank == 1 else normalize_axis(self.scan.axis, rank)

    @property
    def backwards(self) -> bool:
        """Whether the elements lie at the end of the axis, the first one last."""
        return self.scan.order is Order.PREPEND

    def slices(self, element: Shape) -> Shape:
        """The shape of an element as it lies in the tensor."""
        stacked = self.scan.mode is Mode.STACK
        axis = normalize_axis(self.scan.axis, len(element) + stacked)
        if stacked:
            return (*element[:axis], 1, *element[axis:])
        if element[axis] != self.scan.part:
            raise ShapeError(f"scan output: expected {self.scan.part} along axis {axis} of each element, "
                             f"found shape {element}")
        return element


@dataclass(frozen=True)
class LoopBuffer(LoopZeros):
    """Zeros with room for input 0 elements of a scan output; the other inputs are those of `LoopZeros`.

    Where not even the rank of an element is known the result has one axis.
    """

    name: ClassVar[str] = "LOOP_BUFFER"
    inputs: ClassVar[Count] = at_least(1)
    sizes: ClassVar[frozenset[int]] = frozenset({0})
    own: ClassVar[int] = 1
    scan: ScanOutput = field(default_factory=lambda: ScanOutput(0))
    is_counted: bool = False
    """Whether there are so many elements as there is room for, if that is known before the run. If there are some,
    `fallback` is nobody's result, and the shape may follow from what the run tells."""

    def asked_with(self, inputs: Sequence[int]) -> tuple[int, Mapping[int, int]] | None:
        first = self.own + len(self.loop.carried)
        if not self.is_counted:
            return None
        return self.loop.body_subgraph_index, dict(zip(self.loop.invariants, inputs[first:], strict=False))

    def element(self, args: Operands) -> Shape | None:
        found = self.known(args)
        if found is None and self.is_counted:
            told, room = self.known(args, is_told=True), count(args[0], "scan output")
            found = told if told is not None and not is_late(room) and room >= 1 else None
        return self.fallback if found is None else found

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        room = count(args[0], "scan output")
        element = self.element(args)
        if element is None:
            return ((room * self.scan.part,),)
        shape = element
        if self.scan.mode is Mode.STACK:
            axis = normalize_axis(self.scan.axis, len(element) + 1)
            shape = (*element[:axis], 1, *element[axis:])
        return (replaced(shape, normalize_axis(self.scan.axis, len(shape)), room * self.scan.part),)


@dataclass(frozen=True)
class LoopStore(Collection):
    """Input 0 with element `input 2` set to input 1.

    An element 0 of another shape than input 0 has room for makes the result one of that shape; any other is an error.
    """

    name: ClassVar[str] = "LOOP_STORE"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        buffer, slices = args[0].shape, self.slices(args[1].shape)
        axis = normalize_axis(self.scan.axis, len(slices))
        if len(buffer) == len(slices) and replaced(buffer, axis, slices[axis]) == slices:
            return (buffer,)
        number = int(args[2].value.item())
        if number:
            raise ShapeError(f"scan output, body output {self.scan.body_output}: the element of iteration {number} has "
                             f"shape {args[1].shape}, those before are slices of {buffer} along axis {axis}")
        return (replaced(slices, axis, buffer[self.axis(len(buffer))]),)

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}

    def place(self, number: int, length: int) -> int:
        """Where element `number` begins along an axis of a length."""
        return length - (number + 1) * self.scan.part if self.backwards else number * self.scan.part


@dataclass(frozen=True)
class LoopGrow(Collection):
    """Input 0 with room for more elements: a certain number more or, where the length changes from turn to turn of a
    loop, all that there is room for. Input 1, if there is one, is how many elements it has."""

    name: ClassVar[str] = "LOOP_GROW"
    inputs: ClassVar[Count] = between(1, 2)
    even: bool = False
    """How much room there is depends on the number of elements alone, so that tensors that are equally long stay so."""
    need: int = 1
    """For how many more elements there is room at least, where `even` is set."""
    least: int = LEAST_ROOM
    """For how many there is room at least."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        axis, part = self.axis(len(shape)), self.scan.part
        if is_late(shape[axis]) and not self.even:
            return (replaced(shape, axis, bound(shape[axis])),)
        size = prod(replaced(shape, axis, part)) * args[0].dtype.numpy.itemsize
        if is_length(size):  # in code for any lengths, where the room becomes a length itself
            return (replaced(shape, axis, (shape[axis] // part + LEAST_ROOM) * part),)
        first = min(max(1 << (FIRST_BYTES // max(size, 1)).bit_length() >> 1, LEAST_ROOM), MOST_ROOM)
        elements = shape[axis] // part
        if self.even:
            room = max(2 * elements, elements + self.need, self.least)
            return (replaced(shape, axis, (1 << (room - 1).bit_length()) * part),)
        factor = GROWTH_OF_SMALL if GROWTH_OF_SMALL * elements * size <= SMALL_BYTES else GROWTH
        return (replaced(shape, axis, max(first, factor * elements) * part),)


@dataclass(frozen=True)
class LoopTake(Collection):
    """The first `input 1` elements of input 0, in their order."""

    name: ClassVar[str] = "LOOP_TAKE"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        return (replaced(shape, self.axis(len(shape)), count(args[1], "count") * self.scan.part),)

    def views(self) -> Mapping[int, int]:
        return {0: 0}


@dataclass(frozen=True)
class LoopFront(Collection):
    """Input 0 with the `input 1` elements at its end moved to the front, and zeros behind them."""

    name: ClassVar[str] = "LOOP_FRONT"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,)
