"""Runs a `Loop` by the letter of its definition, a body at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import (
    NONE,
    Base,
    CondUse,
    Mode,
    Order,
    Overrun,
    Position,
    ScanInput,
    ScanOutput,
    TripPolicy,
)

Array: TypeAlias = npt.NDArray[Any]
Invoke: TypeAlias = Callable[[int, Sequence[Array]], Sequence[Array]]
"""Runs a subgraph, by its index."""


class NotDefined(Exception):
    """What the definition calls an error."""


def run_loop(op: Loop, operands: Sequence[Array | None], invoke: Invoke,
             empty: Sequence[Array | None] = ()) -> list[Array]:
    """The outputs of a loop.

    Args:
        operands: its inputs.
        invoke: runs its subgraphs.
        empty: for each body output zeros of the shape that it has where there is no iteration; None where not even the
            rank is known.
    """
    trip, cond, *rest = operands
    values = [each for each in rest if each is not None]
    carried, values = values[:len(op.carried)], values[len(op.carried):]
    invariants, values = values[:len(op.invariants)], values[len(op.invariants):]
    scans, lengths = values[:len(op.scan_inputs)], values[len(op.scan_inputs):]
    limit = _limit(op, trip, scans)
    flag = True if cond is None else bool(_single(cond))
    history: list[Sequence[Array]] = []
    n = 0
    while n < limit and (flag or op.cond_use is CondUse.IGNORE) and _own_cond(op, carried, invariants, invoke):
        feeds = dict(_feeds(op, n, flag, limit, carried, invariants, scans))
        results = [each.copy() for each in invoke(op.body_subgraph_index, [feeds[k] for k in sorted(feeds)])]
        history.append(results)
        carried = [results[each.body_output] for each in op.carried]
        flag = True if op.cond_output == NONE else bool(_single(results[op.cond_output]))
        n += 1
    waiting = iter(lengths)
    collected = [_collect(scan, [each[scan.body_output] for each in history], empty,
                          int(_single(next(waiting))) if scan.has_length else None) for scan in op.scan_outputs]
    last = [history[-1][k] if history else _zeros(empty[k]) for k in op.last_outputs]
    return [*carried, *collected, *last]


def _zeros(empty: Array | None) -> Array:
    return np.zeros(0, np.int32) if empty is None else empty


def _single(array: Array) -> Any:
    if array.size != 1:
        raise NotDefined("exactly one element")
    return array.item()


def _limit(op: Loop, trip: Array | None, scans: Sequence[Array]) -> float:
    if op.count_from_scan:
        counts = {_slices(scan, x.shape[scan.axis]) for scan, x in zip(op.scan_inputs, scans, strict=True)}
        if len(counts) != 1:
            raise NotDefined("equally many")
        return counts.pop()
    if trip is None:
        return np.inf
    count = int(_single(trip))
    if count >= 0:
        return count
    return 0 if op.trip_policy is TripPolicy.NEGATIVE_IS_ZERO else np.inf


def _slices(scan: ScanInput, size: int) -> int:
    """Counts the slices that fit, one after another."""
    begin = _at(scan.begin, size, 0)
    end = (size if scan.step > 0 else 0) if scan.end is None else _at(scan.end, size, 0)
    found = 0
    while begin + scan.step <= end if scan.step > 0 else begin + scan.size + scan.step >= end:
        begin += scan.step
        found += 1
    left = end - begin if scan.step > 0 else begin + scan.size - end
    if left:
        raise NotDefined("divide")
    return found


def _at(position: Position, size: int, limit: float) -> int:
    return position.offset + {Base.START: 0, Base.END: size, Base.TRIP: int(limit)}[position.base]


def _own_cond(op: Loop, carried: Sequence[Array], invariants: Sequence[Array], invoke: Invoke) -> bool:
    if op.cond_subgraph_index == NONE:
        return True
    return bool(_single(invoke(op.cond_subgraph_index, [*carried, *invariants])[0]))


def _feeds(op: Loop, n: int, flag: bool, limit: float, carried: Sequence[Array], invariants: Sequence[Array],
           scans: Sequence[Array]) -> Iterator[tuple[int, Array]]:
    if op.iteration is not None:
        yield op.iteration.body_input, np.full((1,) * op.iteration.rank, n, np.int64)
    if op.cond_input is not None:
        yield op.cond_input.body_input, np.full((1,) * op.cond_input.rank, flag)
    for each, value in zip(op.carried, carried, strict=True):
        yield each.body_input, value
    yield from zip(op.invariants, invariants, strict=True)
    for scan, x in zip(op.scan_inputs, scans, strict=True):
        size = x.shape[scan.axis]
        low = _at(scan.begin, size, limit if np.isfinite(limit) else 0) + n * scan.step
        if op.overrun is Overrun.HOLD_LAST:
            low = max(min(low, size - scan.size), 0)
        if not 0 <= low <= size - scan.size:
            raise NotDefined("out of range")
        part = np.take(x, range(low, low + scan.size), scan.axis)
        yield scan.body_input, part if scan.keep_axis else part.squeeze(scan.axis)


def _collect(scan: ScanOutput, elements: Sequence[Array], empty: Sequence[Array | None], length: int | None) -> Array:
    if len({each.shape for each in elements}) > 1:
        raise NotDefined("shape")
    if length is not None and length < len(elements):
        raise NotDefined("room")
    join = np.stack if scan.mode is Mode.STACK else np.concatenate
    if elements:
        if scan.mode is Mode.CONCAT and elements[0].shape[scan.axis] != scan.part:
            raise NotDefined("along axis")
        found = join(elements[::-1] if scan.order is Order.PREPEND else elements, scan.axis)
    elif empty[scan.body_output] is None:
        found = _zeros(None)
    else:
        found = join([_zeros(empty[scan.body_output])], scan.axis)
        found = np.take(found, [], scan.axis)
    if length is None:
        return found
    missing = [(0, 0)] * found.ndim
    missing[scan.axis % found.ndim] = (0, (length - len(elements)) * scan.part)
    return np.pad(found, missing)
