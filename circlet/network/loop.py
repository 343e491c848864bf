"""Loops: values that recur until a limit is reached. The rules are those of TensorRT's ILoop.

Where TensorRT leaves elements beyond the last iteration open they are zero here, and lengths may be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from circlet.network.graph import Graph, check_dtype, check_one, declared_shape
from circlet.network.layer import Construct, Entry, Exit, Region, Result
from circlet.network.shapes import admits
from circlet.network.tensor import Like, Tensor
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import normalize_axis


class TripLimit(Enum):
    """What ends a loop."""

    COUNT = "count"
    """So many iterations have run."""
    WHILE = "while"
    """The condition, looked at before each iteration, does not hold."""


class LoopOutput(Enum):
    """What of a value leaves a loop."""

    LAST_VALUE = "last_value"
    """What the recurrence is after the last iteration."""
    CONCATENATE = "concatenate"
    """The values of all iterations along a new axis, in order."""
    REVERSE = "reverse"
    """The values of all iterations along a new axis, the last one first."""


@dataclass(frozen=True, eq=False)
class RecurrenceEntry(Entry):
    """A value that each iteration replaces; its operand is the first."""


@dataclass(frozen=True, eq=False)
class IteratorEntry(Entry):
    """The slices of its operand along an axis, one an iteration."""

    axis: int
    reverse: bool


@dataclass(frozen=True, eq=False)
class LoopExit(Exit):
    """What of its first operand leaves the loop; the second, if there is one, is the length of the new axis."""

    kind: LoopOutput
    axis: int


@dataclass(frozen=True, eq=False)
class Recurrence(Tensor):
    """What a recurring value is in the current iteration."""

    loop: Loop

    def __hash__(self) -> int:
        return id(self)

    def set_next(self, value: Like) -> None:
        """Says what it is in the next iteration. All recurrences of a loop change together.

        Raises:
            ModelError: another element type, or a shape that the recurrence does not declare; or it was said before.
        """
        self.loop.set_next(self, value)


class Loop(Construct):
    """Repeats the layers between its recurrences or iterators and its outputs.

    Layers that depend on neither run once, before the loop.
    """

    def __init__(self, graph: Graph, name: str, strict: bool, traced: bool = False) -> None:
        super().__init__(graph.name(name, "loop"), graph.region, traced)
        self._graph = graph
        self._strict = strict
        self.body = Region(self, "body")
        self.count: Tensor | None = None
        self.condition: Tensor | None = None
        self.recurrences: list[Recurrence] = []
        self.iterators: list[Tensor] = []
        self._next: dict[int, Tensor] = {}
        self._outputs: list[LoopExit] = []
        graph.constructs.append(self)

    def trip_limit(self, limit: Like, kind: TripLimit | str | None = None) -> None:
        """Limits how often the loop runs: a count, or a condition on recurrences of the loop. It may have one of each.

        Args:
            limit: a scalar, of int32 or int64 for a count, of bool for a condition.
            kind: which of the two it is, also by name, `count` or `while`; without it the element type tells.

        Raises:
            ModelError: the limit is of another type, or the loop has one of its kind.
        """
        tensor = self._graph.tensor(limit)
        kind = TripLimit(kind or ("while" if tensor.dtype is DType.BOOL else "count"))
        what = f"{self.name}: the {kind.name} trip limit"
        check_dtype(tensor, [DType.BOOL] if kind is TripLimit.WHILE else [DType.INT32, DType.INT64], what)
        check_one(tensor, what, self._strict)
        if (self.condition if kind is TripLimit.WHILE else self.count) is not None:
            raise ModelError(f"{what}: expected one of its kind, found {tensor} beside another")
        if kind is TripLimit.WHILE:
            self.condition = tensor
        else:
            self.count = tensor

    def recurrence(self, initial: Like, shape: Sequence[int] | None = None, name: str = "") -> Recurrence:
        """A value that each iteration replaces by what `set_next` says.

        Args:
            initial: its value in the first iteration, from outside of the loop.
            shape: what holds for all iterations, with -1 for dimensions that change; without it, they do not.
            name: what messages call it.

        Raises:
            ModelError: the initial value does not have the shape, or the network is strict and a dimension may change.
        """
        graph, first = self._graph, self._graph.tensor(initial)
        self.check_place(graph.region)
        declared = first.shape if shape is None else declared_shape(shape)
        name = graph.name(name, "recurrence")
        if not admits(declared, first.shape):
            raise ModelError(f"{self.name}, {name}: expected an initial value of shape {declared}, found {first}")
        if self._strict and declared != first.shape:
            raise ModelError(f"{self.name}, {name}: expected one shape in all iterations, found {declared}")
        return self.add_recurrence(first, declared, name)

    def add_recurrence(self, first: Tensor, shape: Shape | None, name: str = "") -> Recurrence:
        """A recurrence whose shape is not checked."""
        graph = self._graph
        name = graph.name(name, "recurrence")
        layer = RecurrenceEntry(len(graph.layers), name, (first,), graph.region, self)
        (result,) = graph.place(layer, (Recurrence(layer, 0, first.dtype, shape, None, graph, self),))
        self.recurrences.append(result)
        return result

    def set_next(self, recurrence: Recurrence, value: Like) -> None:
        """Says what a recurrence is in the next iteration; see `Recurrence.set_next`."""
        tensor = self._graph.tensor(value, recurrence.dtype)
        number = recurrence.layer.number
        where = f"{self.name}, {recurrence.name}"
        if number in self._next:
            raise ModelError(f"{where}: expected one next value, found {tensor} beside {self._next[number]}")
        if tensor.dtype is not recurrence.dtype:
            raise ModelError(f"{where}: expected a next value of {recurrence.dtype.value}, found {tensor}")
        if not admits(recurrence.shape, tensor.shape):
            raise ModelError(f"{where}: expected a next value of shape {recurrence.shape}, found {tensor}; "
                             "loop.recurrence(..., shape=...) declares a shape that changes")
        self._next[number] = tensor

    def next(self, recurrence: Recurrence) -> Tensor:
        """What a recurrence is in the next iteration."""
        return self._next[recurrence.layer.number]

    def iterator(self, x: Like, axis: int = 0, reverse: bool = False) -> Tensor:
        """The slice of `x` at the index of the iteration, without the axis.

        Args:
            x: from outside of the loop.
            axis: along which to slice.
            reverse: count the index down from the COUNT limit of the loop, which must be there: `count - 1 - i`.

        Raises:
            ModelError: `x` has no such axis.
        """
        graph, source = self._graph, self._graph.tensor(x)
        self.check_place(graph.region)
        name = graph.name("", "iterator")
        place = _axis(axis, source.ndim, f"{self.name}, {name} over {source}")
        layer = IteratorEntry(len(graph.layers), name, (source,), graph.region, self, place, reverse)
        shape = None if source.shape is None else (*source.shape[:place], *source.shape[place + 1:])
        result = graph.add(layer, (source.dtype, shape))[0]
        self.iterators.append(result)
        return result

    def output(self, value: Tensor, kind: LoopOutput | str = LoopOutput.LAST_VALUE, axis: int = 0,
               length: Like | None = None, name: str = "") -> Tensor:
        """What leaves the loop.

        Args:
            value: for LAST_VALUE a recurrence of the loop; otherwise what the loop computes in each iteration.
            kind: which of its values, also by name: `last_value`, `concatenate` or `reverse`.
            axis: of the result, where the values of the iterations follow each other.
            length: of that axis: a scalar of int32 or int64 from outside of the loop. What is left beyond the
                last iteration is zero; more iterations than that are an error of the run. Without it the axis is as
                long as iterations ran.
            name: what messages call it.

        Raises:
            ModelError: LAST_VALUE of something else, an axis that the result does not have, or a strict network and
                no length.
        """
        graph = self._graph
        self.check_place(graph.region)
        name = graph.name(name, "loop_output")
        where, kind = f"{self.name}, output {name}", LoopOutput(kind)
        if kind is LoopOutput.LAST_VALUE:
            if not (isinstance(value, Recurrence) and value.loop is self):
                raise ModelError(f"{where}: expected the last value of a recurrence of the loop, found {value}")
            layer = LoopExit(len(graph.layers), name, (value,), graph.region, self, kind, 0)
            self._outputs.append(layer)
            return graph.add(layer, (value.dtype, value.shape))[0]
        graph.check(value)
        if self._strict and length is None:
            raise ModelError(f"{where}: expected the length of the new axis, found none")
        size = None if length is None else self._length(length, where)
        place = _axis(axis, value.ndim + 1, where)
        layer = LoopExit(len(graph.layers), name, (value, size), graph.region, self, kind, place)
        self._outputs.append(layer)
        shape = None if value.shape is None else (*value.shape[:place], _known(size), *value.shape[place:])
        return graph.add(layer, (value.dtype, shape))[0]

    def _length(self, length: Like, where: str) -> Tensor:
        tensor = self._graph.tensor(length)
        check_dtype(tensor, [DType.INT32, DType.INT64], f"{where}: the length")
        check_one(tensor, f"{where}: the length", self._strict)
        return tensor

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(each.layer for each in (*self.recurrences, *self.iterators) if isinstance(each.layer, Entry))

    @property
    def exits(self) -> tuple[LoopExit, ...]:
        return tuple(self._outputs)

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)

    def gates(self) -> tuple[Result, ...]:
        return () if self.count is None else (self.count,)

    def outer(self) -> tuple[Result, ...]:
        lengths = (each for layer in self._outputs for each in layer.operands[1:])
        sources = (layer.operands[0] for layer in self.entries)
        return tuple(each for each in (self.count, *sources, *lengths) if each is not None)

    def tails(self, region: Region) -> tuple[Result, ...]:
        values = (layer.operands[0] for layer in self._outputs)
        return tuple(each for each in (self.condition, *self._next.values(), *values) if each is not None)

    def check(self) -> None:
        if self.count is None and self.condition is None:
            raise ModelError(f"{self.name}: expected a trip limit, found none")
        for each in self.recurrences:
            if each.layer.number not in self._next:
                raise ModelError(f"{self.name}, {each.name}: expected a next value, found none; say it with set_next")
        for layer in self.entries:
            if isinstance(layer, IteratorEntry) and layer.reverse and self.count is None:
                raise ModelError(f"{self.name}, {layer.name}: expected a COUNT trip limit, from which a reverse "
                                 "iterator counts down, found none")


def _axis(axis: int, rank: int, where: str) -> int:
    try:
        return normalize_axis(axis, rank)
    except ShapeError as error:
        raise ModelError(f"{where}: {error}") from None


def _known(size: Tensor | None) -> int:
    """The value of a length; -1 where only a run can tell."""
    if size is None or size.data is None:
        return -1
    return int(np.ravel(size.data)[0])


