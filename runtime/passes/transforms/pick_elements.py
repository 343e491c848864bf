"""Makes slices of one element, whose axes are removed then, take that element.

Converters of TensorFlow write `x[:, i]` for ONNX as a slice from `[0, i]` to as far as may be, in steps that are longer
than any axis where one element is taken, of which a SQUEEZE removes the axes. How many elements a slice has only a run
knows, so that what follows would be bound in the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ops.layout import LONG, StridedSlice
from circlet.runtime.ops.shape import Squeeze
from circlet.runtime.passes.analyses.intervals import Intervals
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs
from circlet.runtime.records import dataclass


def pick_elements(model: Model) -> Model:
    """Replaces each STRIDED_SLICE in steps of `LONG` or more, and the SQUEEZE that alone reads it, by one that takes an
    index, where the slice ends behind the axis; and says of computed bounds whether they are those of the axis."""
    return rewrite_subgraphs(model, lambda subgraph: _Slices(subgraph).rewritten())


@dataclass(frozen=True)
class _Bounds:
    """The entries of a slice, by number."""

    single: frozenset[int]
    """Of which one element is taken."""
    begins: frozenset[int]
    """That begin where the axis does, in steps forward."""
    ends: frozenset[int]
    """That end where it does."""


class _Slices:
    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._intervals = Intervals(subgraph)

    def rewritten(self) -> Subgraph:
        """The subgraph, itself if there are no such slices."""
        operators = list(self._subgraph.operators)
        for number, operator in enumerate(self._subgraph.operators):
            bounds = self._bounds(operator)
            if bounds is None or not isinstance(operator.op, StridedSlice):
                continue
            op = replace(operator.op, begin_mask=operator.op.begin_mask | _mask(bounds.begins),
                         end_mask=operator.op.end_mask | _mask(bounds.ends))
            place = self._squeeze(operator, bounds)
            if place is not None:
                taken = _mask(bounds.single)
                op = replace(op, begin_mask=op.begin_mask & ~taken, shrink_axis_mask=taken)
                operators[number] = replace(operator, op=op, outputs=self._subgraph.operators[place].outputs)
                operators[place] = SKIP
            elif op != operator.op:
                operators[number] = replace(operator, op=op)
        return self._subgraph if operators == list(self._subgraph.operators) else replace(
            self._subgraph, operators=tuple(operators))

    def _bounds(self, operator: Operator) -> _Bounds | None:
        """The entries of a slice whose bounds are computed."""
        op = operator.op
        if not isinstance(op, StridedSlice) or op.offset or op.ellipsis_mask or op.new_axis_mask or op.shrink_axis_mask:
            return None
        tensors = self._subgraph.tensors
        strides = tensors[operator.inputs[3]].data
        if strides is None or all(tensors[each].is_constant for each in operator.inputs[1:3]):
            return None
        steps = strides.reshape(-1).tolist()
        begin, end = (self._intervals.of(each) for each in operator.inputs[1:3])
        if not len(begin) == len(end) == len(steps) <= self._rank(operator.inputs[0]):
            return None
        begins = frozenset(each for each, (low, high) in enumerate(begin) if low == high == 0 < steps[each])
        ends = frozenset(each for each, (low, _) in enumerate(end) if low >= LONG and steps[each] > 0)
        return _Bounds(frozenset(each for each, step in enumerate(steps) if step >= LONG), begins, ends)

    def _squeeze(self, operator: Operator, bounds: _Bounds) -> int | None:
        """The SQUEEZE that alone reads a slice, and removes the axes of which this takes one element, and no others."""
        readers = self._readers.get(operator.outputs[0], ())
        if not isinstance(operator.op, StridedSlice) or not bounds.single or len(readers) != 1:
            return None
        begin, end = operator.op.begin_mask, operator.op.end_mask | _mask(bounds.ends)
        is_index = all(end >> each & 1 and not begin >> each & 1 for each in bounds.single)
        squeeze, rank = self._subgraph.operators[readers[0]].op, self._rank(operator.inputs[0])
        is_whole = isinstance(squeeze, Squeeze) and {each % rank for each in squeeze.squeeze_dims} == bounds.single
        return readers[0] if is_index and is_whole else None

    def _rank(self, tensor: int) -> int:
        """As it is declared; 0 where it is not."""
        return len(self._subgraph.tensors[tensor].declared or ())

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        """The operators that read a tensor, and more than one where it is a result."""
        found: dict[int, list[int]] = {}
        for number, each in enumerate(self._subgraph.operators):
            for tensor in each.inputs:
                found.setdefault(tensor, []).append(number)
        for tensor in self._subgraph.outputs:
            found.setdefault(tensor, []).extend((-1, -1))
        return found


def _mask(entries: frozenset[int]) -> int:
    return sum(1 << each for each in entries)
