"""The memory of an invocation that one step computes, at fixed shapes, where some inputs or results are large."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, final

from circlet.runtime.exec.memory import ResultMemory, is_readable, result_copiers
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.types import Array

if TYPE_CHECKING:
    from circlet.runtime.exec.step import Step
    from circlet.runtime.exec.values.inputs import Lane

Move: TypeAlias = Callable[[Array], None]
"""Has the step take the memory of another array for an input or a result."""


@final
class LargeFrame:
    """As a `WholeFrame`: large inputs are read where a caller has them, and large results given away."""

    opened: None = None
    is_direct = False
    lane: Lane | None = None
    whole: None = None
    copies: None = None

    def __init__(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array], step: Step,
                 readable: Mapping[int, Move], given: Mapping[int, Move]) -> None:
        """
        Args:
            run: that it serves, or runs one after another.
            inputs: where they lie, unless they are read elsewhere.
            outputs: where they lie, unless they are given away.
            step: runs the subgraph.
            readable: the inputs, by position, that the step leaves as they are and may read elsewhere.
            given: the results, by position, that nothing else lies with.
        """
        self.run = run
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._step = step
        self._readable = [readable.get(position) for position in range(len(inputs))]
        self._given = {position: (move, ResultMemory(1)) for position, move in given.items()}
        self._copies = result_copiers(outputs)

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on inputs that are read where they are, or copied; the results belong to the caller.

        Raises:
            ExecutionError: with the place of the operator that failed.
            LimitError: there is not memory enough for the results.
        """
        moved: list[tuple[Move, Array]] = []
        try:
            for target, source, move in zip(self.inputs, arrays, self._readable, strict=True):
                if move is None or not is_readable(source):
                    target[...] = source
                else:
                    moved.append((move, target))
                    move(source)
            return self.compute()
        finally:
            for move, target in moved:
                move(target)

    def compute(self) -> list[Array]:
        """The same, on what the inputs hold."""
        pieces: dict[int, Array] = {}
        try:
            for position, (move, memory) in self._given.items():
                pieces[position] = memory.take(self.outputs[position].nbytes)
                move(pieces[position])
            self._step()
        finally:
            for position, (move, _) in self._given.items():
                move(self.outputs[position])
        return [self._given[position][1].give(pieces[position], self.outputs[position])
                if position in pieces else copy() for position, copy in enumerate(self._copies)]
