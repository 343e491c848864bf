"""Turns planes that are two or three elements wide, such as pixels of an image into planes of channels, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import branch, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.targets.constants import shuffle_mask

WIDTHS = (2, 3)
"""How many elements planes are wide that are turned so; squares of 4 take wider ones."""
Places: TypeAlias = "Callable[[Whole, int], Sequence[Whole]]"
"""From the number of an element, and how many from it on are taken at a time, to where these are for each row."""


def weave(e: Emitter, kind: ir.IntType, source: ir.Value, target: ir.Value, rows: int, count: Whole, pitch: Whole,
          work: int) -> None:
    """Makes one row of several, each of `count` elements and `pitch` after the one before, whose first elements come
    first: (rows, count) to (count, rows)."""
    apart, together = _apart(rows, pitch), _together(rows)
    _exchange(e, kind, (source, apart), (target, together), count, work, lambda lane: (lane % rows, lane // rows))


def part(e: Emitter, kind: ir.IntType, source: ir.Value, target: ir.Value, rows: int, count: Whole, pitch: Whole,
         work: int) -> None:
    """The reverse of `weave`: (count, rows) to (rows, count)."""
    apart, together = _apart(rows, pitch), _together(rows)

    def taken(lane: int) -> tuple[int, int]:
        row, number = divmod(lane, _side(e, kind))
        return divmod(number * rows + row, _side(e, kind))

    _exchange(e, kind, (source, together), (target, apart), count, work, taken)


def is_thin(e: Emitter, kind: ir.IntType, width: int) -> bool:
    """Whether planes of a width are turned so, of elements of a kind."""
    return width in WIDTHS and _side(e, kind) > max(WIDTHS)


def _side(e: Emitter, kind: ir.IntType) -> int:
    """How many elements of each row are turned at a time."""
    found: int = 8 * e.target.vector_bytes // kind.width
    return min(found, 16)


def _apart(rows: int, pitch: Whole) -> Places:
    return lambda first, side: [pitch * row + first for row in range(rows)]


def _together(rows: int) -> Places:
    return lambda first, side: [first * rows + k * side for k in range(rows)]


def _exchange(e: Emitter, kind: ir.IntType, given: tuple[ir.Value, Places], made: tuple[ir.Value, Places],
              count: Whole, work: int, taken: Callable[[int], tuple[int, int]]) -> None:
    """Loads a vector of each of some rows, and stores as many vectors of their elements; the last elements again where
    there are no more. Fewer than a vector has are copied one by one.

    Args:
        e: writes the code.
        kind: of elements.
        given: memory, and where elements from a number on are in it, for each row.
        made: the same of the result.
        count: of elements in a row.
        work: of all, as for `parallel`.
        taken: from the number of a lane of the result, among all of its vectors, to the vector and the lane it is.
    """
    side = _side(e, kind)

    def address(memory: ir.Value, place: Whole) -> ir.Value:
        return e.address(memory, kind, place.register)

    def by_vectors() -> None:
        vector = ir.VectorType(kind, side)
        with parallel(e, ((count + (side - 1)) // side).value, work) as k:
            first = (Whole(e, k) * side).at_most(count - side)
            rows = [e.builder.load(address(given[0], place), align=1, typ=vector) for place in given[1](first, side)]
            for number, place in enumerate(made[1](first, side)):
                lanes = [taken(number * side + lane) for lane in range(side)]
                e.builder.store(_chosen(e, rows, lanes), address(made[0], place), align=1)

    def one_by_one() -> None:
        with rolled(e, count.value) as k:
            for source, target in zip(given[1](Whole(e, k), 1), made[1](Whole(e, k), 1), strict=True):
                e.builder.store(e.builder.load(address(given[0], source), typ=kind), address(made[0], target))

    branch(e, count.compare(">=", side), by_vectors, one_by_one)


def _chosen(e: Emitter, vectors: Sequence[ir.Value], lanes: Sequence[tuple[int, int]]) -> ir.Value:
    """A vector of lanes of two or three others, by their number and the lane."""
    side = len(lanes)
    found = e.builder.shuffle_vector(*vectors[:2], shuffle_mask(*(
        vector * side + lane if vector < 2 else 0 for vector, lane in lanes)))
    for rest in vectors[2:]:
        found = e.builder.shuffle_vector(found, rest, shuffle_mask(*(
            k if vector < 2 else side + lane for k, (vector, lane) in enumerate(lanes))))
    return found
