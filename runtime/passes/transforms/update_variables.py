"""Recognises how models write a row of a variable, and makes it one operator that writes it where the variable lies.

`ASSIGN_VARIABLE(v, DYNAMIC_UPDATE_SLICE(READ_VARIABLE(v), row, start))` copies the whole value twice, which for a cache
of keys and values is most of what a step of a decoder does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ops.elements import Scattering
from circlet.runtime.ops.index import DynamicUpdateSlice, StablehloDynamicUpdateSlice, UpdateRow
from circlet.runtime.ops.updates import UpdateVariable
from circlet.runtime.ops.variable import AssignVariable, ReadVariable
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs

UPDATES: tuple[type[Op], ...] = (DynamicUpdateSlice, StablehloDynamicUpdateSlice, UpdateRow, Scattering)
"""Operators whose result is their first input but for a part."""
_END = 1 << 62
"""Comes after all operators."""


def update_variables(model: Model) -> Model:
    """Replaces what reads a variable, writes over a part and assigns it by `UpdateVariable`, where nothing else may
    read or assign the variable meanwhile."""
    return rewrite_subgraphs(model, lambda subgraph: _Updates(model, subgraph).rewritten())


class _Updates:
    """The updates of variables in one subgraph."""

    def __init__(self, model: Model, subgraph: Subgraph) -> None:
        self._model = model
        self._subgraph = subgraph
        self._operators = list(subgraph.operators)
        self._writer = {tensor: number for number, each in enumerate(subgraph.operators) for tensor in each.outputs}
        self._readers: defaultdict[int, list[int]] = defaultdict(list)
        for number, each in enumerate(subgraph.operators):
            for tensor in each.inputs:
                self._readers[tensor].append(number)
        for tensor in subgraph.outputs:
            self._readers[tensor].append(_END)

    def rewritten(self) -> Subgraph:
        """The subgraph with its updates; the subgraph itself if there are none."""
        before = self._subgraph.operators
        for number, operator in enumerate(before):
            if isinstance(operator.op, AssignVariable):
                chain = self._chain(number)
                if chain is not None:
                    self._replace(chain)
        return self._subgraph if self._operators == list(before) else replace(
            self._subgraph, operators=tuple(self._operators))

    def _chain(self, assignment: int) -> Sequence[int] | None:
        """The operators from a reading of a variable by way of updates, each read by the next one alone but for the
        last, to an assignment of it. What else reads the value does so before the first update."""
        operators = self._subgraph.operators
        handle, tensor = operators[assignment].inputs
        variable = self._variable(handle)
        found = [assignment]
        while tensor in self._writer and isinstance(operators[self._writer[tensor]].op, UPDATES):
            if len(found) > 1 and self._readers[tensor] != found[-1:]:
                return None
            found.append(self._writer[tensor])
            tensor = operators[found[-1]].inputs[0]
        readers = self._readers[tensor]
        if len(found) == 1 or readers[-1] != found[-1] or readers.count(found[-1]) > 1 or tensor not in self._writer:
            return None
        found.append(self._writer[tensor])
        reading, value = operators[found[-1]], self._subgraph.tensors[tensor]
        fits = (isinstance(reading.op, ReadVariable) and variable is not None
                and self._variable(reading.inputs[0]) == variable and value.is_static and bool(value.shape)
                and not value.dtype.numpy.hasobject)
        chain = found[::-1]
        begin, first, *_ = chain
        if not fits or any(self._assigns(number, variable) for number in range(begin + 1, first)) or any(
                self._touches(number, variable) for number in range(first + 1, assignment) if number not in chain):
            return None
        return chain

    def _variable(self, handle: int) -> tuple[str, str] | None:
        """Container and name of the variable of a handle, where the subgraph tells."""
        return None if handle not in self._writer else self._subgraph.operators[self._writer[handle]].op.variable()

    def _assigns(self, number: int, variable: tuple[str, str] | None) -> bool:
        """Whether an operator may assign a variable."""
        return not isinstance(self._operators[number].op, ReadVariable) and self._touches(number, variable)

    def _touches(self, number: int, variable: tuple[str, str] | None) -> bool:
        """Whether an operator may read or assign a variable."""
        operator = self._operators[number]
        if isinstance(operator.op, (ReadVariable, AssignVariable)):
            return self._variable(operator.inputs[0]) in (None, variable)
        return operator.op.updated() == variable or any(map(self._has_variables, operator.op.callees()))

    def _has_variables(self, subgraph: int) -> bool:
        """Whether a subgraph, or one that it invokes, reads or assigns variables."""
        return any(isinstance(each.op, (ReadVariable, AssignVariable)) or any(map(self._has_variables,
                                                                                  each.op.callees()))
                   for each in self._model.subgraphs[subgraph].operators)

    def _replace(self, chain: Sequence[int]) -> None:
        """Puts an `UpdateVariable` in the place of each update; what read and assigned goes."""
        reading, *updates, assignment = chain
        operators = self._subgraph.operators
        handle, (tensor,) = operators[reading].inputs[0], operators[reading].outputs
        variable = self._variable(handle)
        assert variable is not None, "the handle is of a known variable"
        gone = (reading, assignment) if self._readers[tensor] == [updates[0]] else (assignment,)
        for number in updates:
            update, is_last = operators[number], number == updates[-1]
            op = UpdateVariable(update.op, self._subgraph.tensors[tensor], variable, gone if is_last else ())
            is_read = is_last and self._readers[update.outputs[0]] != [assignment]
            self._operators[number] = Operator(op, (handle, *update.inputs[1:]), update.outputs if is_read else ())
        for number in gone:
            self._operators[number] = SKIP
