"""Makes inputs and results of the variables of what runs begin with, where their shapes change from run to run.

What reads a variable of an open shape gives a shape that only a run knows, so that what follows is bound, and compiled,
for each. A subgraph that takes the value is code for any lengths instead, as for inputs, and what it gives becomes the
next value without a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from circlet.runtime.ir.model import Model, Operator, Subgraph, entries_of
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ops.controlflow import CallOnce, CallOnVariables, If, Variable
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.runtime.passes.transforms.eliminate_dead import SKIP, eliminate_dead
from circlet.runtime.records import dataclass


def lift_variables(model: Model) -> Model:
    """Replaces what reads variables of open shapes, computes and assigns them by one `CallOnVariables` of a subgraph
    that computes alone, in each subgraph that runs begin with and that does all reading before it assigns."""
    for index in entries_of(model):
        lifted = _Entry(model, index).lifted()
        model = model if lifted is None else lifted
    return model


@dataclass(frozen=True)
class _Reading:
    """Where a subgraph has the value of a variable."""

    variable: Variable
    value: int
    """The tensor."""
    first: int
    """The tensor that stands for it as long as the variable has no value; -1 where a constant does."""
    flag: Variable | None
    """Says whether it has one."""


@dataclass(frozen=True)
class _Setting:
    """A CALL_ONCE that gives a variable a constant."""

    variable: Variable
    value: Tensor
    subgraph: int


class _Entry:
    """A subgraph that runs begin with."""

    def __init__(self, model: Model, index: int) -> None:
        self._model = model
        self._index = index
        self._graph = model.subgraphs[index]
        self._operators = dict(enumerate(self._graph.operators))
        self._writer = {tensor: each for each in self._graph.operators for tensor in each.outputs}

    def lifted(self) -> Model | None:
        """The model with its variables lifted; None if there is nothing to lift, or it cannot be."""
        if not any(self._is_open(each) for each in self._readings.values()) or not self._is_apart():
            return None
        readings = tuple(self._readings.values())
        first = self._first(readings)
        if first is None:
            return None
        places = range(len(self._model.subgraphs), len(self._model.subgraphs) + 2)
        named = {variable for variable, _ in self._assignments.values()}
        op = CallOnVariables(
            places[0], places[1], tuple(each.variable for each in readings), tuple(self._assigned),
            tuple(self._assigned_flags),
            tuple(dict.fromkeys(each.subgraph for each in self._settings.values() if each.variable in named)))
        entry = {max(self._gone): Operator(op, self._graph.inputs, self._graph.outputs)}
        graphs = list(self._model.subgraphs)
        graphs[self._index] = self._with(entry, self._graph.inputs, self._graph.outputs)
        kept = {number: each for number, each in self._operators.items() if number not in self._gone}
        computing = self._with(kept, (*self._graph.inputs, *(each.value for each in readings)),
                               (*self._graph.outputs, *self._assigned.values()))
        graphs.append(replace(computing, origin=self._index if computing.origin is None else computing.origin))
        graphs.append(first)
        return eliminate_dead(replace(self._model, subgraphs=tuple(graphs)))

    @cached_property
    def _readings(self) -> Mapping[int, _Reading]:
        """By operator: what reads a variable, or gives what stands for one that has no value."""
        found = {number: self._read(each) or self._chosen(each) for number, each in self._operators.items()}
        flags = {each.flag for each in found.values() if each is not None}
        return {number: each for number, each in found.items() if each is not None and each.variable not in flags}

    def _read(self, operator: Operator) -> _Reading | None:
        if not isinstance(operator.op, ReadVariable):
            return None
        variable = self._variable(operator.inputs[0])
        return None if variable is None else _Reading(variable, operator.outputs[0], -1, None)

    def _chosen(self, operator: Operator) -> _Reading | None:
        """What an IF gives that says of a variable that has no value yet what stands for it."""
        if not isinstance(operator.op, If) or len(operator.inputs) != 2 or operator.inputs[0] not in self._writer:
            return None
        asked = self._read(self._writer[operator.inputs[0]])
        then, other = (self._model.subgraphs[each] for each in operator.op.branches())
        variable = _given(then)
        if asked is None or variable is None or other.operators or other.outputs != other.inputs:
            return None
        return _Reading(variable, operator.outputs[0], operator.inputs[1], asked.variable)

    @cached_property
    def _settings(self) -> Mapping[int, _Setting]:
        """By operator: what gives a variable its first value."""
        found = {number: self._set_once(each.op.init_subgraph_index) for number, each in self._operators.items()
                 if isinstance(each.op, CallOnce)}
        return {number: each for number, each in found.items() if each is not None and each.variable in self._lifted}

    def _set_once(self, index: int) -> _Setting | None:
        graph = self._model.subgraphs[index]
        if [type(each.op) for each in graph.operators] != [VarHandle, AssignVariable]:
            return None
        handle, assignment = graph.operators
        value, variable = graph.tensors[assignment.inputs[1]], handle.op.variable()
        is_plain = assignment.inputs[0] == handle.outputs[0] and value.is_constant and variable is not None
        return _Setting(variable, value, index) if is_plain and variable is not None else None

    @cached_property
    def _flags(self) -> frozenset[Variable]:
        return frozenset(each.flag for each in self._readings.values() if each.flag is not None)

    @cached_property
    def _lifted(self) -> frozenset[Variable]:
        """All that is lifted, flags among it."""
        return self._flags.union(each.variable for each in self._readings.values())

    @cached_property
    def _assigned(self) -> Mapping[Variable, int]:
        """The tensor that each variable is given but flags."""
        return {variable: value for variable, value in self._assignments.values() if variable not in self._flags}

    @property
    def _assigned_flags(self) -> list[Variable]:
        """The flags that become true."""
        return [variable for variable, _ in self._assignments.values() if variable in self._flags]

    @cached_property
    def _assignments(self) -> Mapping[int, tuple[Variable, int]]:
        """By operator: a variable and the tensor that it is given."""
        found = {number: (self._variable(each.inputs[0]), each.inputs[1]) for number, each in self._operators.items()
                 if isinstance(each.op, AssignVariable)}
        return {number: (variable, value) for number, (variable, value) in found.items()
                if variable is not None and variable in self._lifted}

    @cached_property
    def _gone(self) -> frozenset[int]:
        """The operators that the subgraph which computes alone has no need of."""
        asking = (number for number, each in self._operators.items()
                  if (reading := self._read(each)) is not None and reading.variable in self._flags)
        handles = (number for number, each in self._operators.items() if each.op.variable() in self._lifted)
        return frozenset((*self._readings, *self._settings, *self._assignments, *asking, *handles))

    def _is_open(self, reading: _Reading) -> bool:
        """Whether the rank of a value is known, and not its dimensions."""
        tensor = self._graph.tensors[reading.value]
        return tensor.declared is not None and not tensor.is_static

    def _is_apart(self) -> bool:
        """Whether nothing but what is lifted uses the variables; what is lifted uses nothing else; all of them have
        first values; and each is assigned once at most, after it is read."""
        named = [variable for variable, _ in self._assignments.values()]
        begun = {each.variable: each.value.data for each in self._settings.values()}
        has_first = all((each.flag or each.variable) in begun for each in self._readings.values())
        is_false = all(value is not None and not value.any() for flag, value in begun.items() if flag in self._flags)
        is_ordered = max(self._readings) < min(self._assignments, default=len(self._operators))
        is_flagged = all(map(self._is_flagged, self._readings.values()))
        return has_first and is_false and is_flagged and is_ordered and len(named) == len({*named}) and self._is_alone()

    def _is_flagged(self, reading: _Reading) -> bool:
        """Whether what says that a variable has a value becomes true where the variable is assigned, and not else."""
        given = dict(self._assignments.values())
        if reading.flag is None or reading.flag not in given:
            return reading.flag is None or reading.variable not in given
        value = self._graph.tensors[given[reading.flag]].data
        return reading.variable in given and value is not None and bool(value.all())

    def _is_alone(self) -> bool:
        """Whether operators that stay use no handle and flag of what is lifted, and other subgraphs none of the
        variables."""
        left = [each for number, each in self._operators.items() if number not in self._gone]
        made = {tensor for number in self._gone for tensor in self._operators[number].outputs}
        values = {each.value for each in self._readings.values()}
        read = {tensor for each in left for tensor in each.inputs} | {*self._graph.outputs, *self._assigned.values()}
        own = Counter(self._own_subgraphs())
        users = [index for index in _reached(self._model, self._index) if index != self._index
                 for each in self._model.subgraphs[index].operators if each.op.variable() in self._lifted]
        return not (read & made) - values and Counter(users) == own

    def _own_subgraphs(self) -> Iterator[int]:
        """The subgraphs that have to do with what is lifted alone."""
        yield from dict.fromkeys(each.subgraph for each in self._settings.values())
        for number in self._readings:
            op = self._operators[number].op
            if isinstance(op, If):
                yield op.then_subgraph_index

    def _first(self, readings: Iterable[_Reading]) -> Subgraph | None:
        """A subgraph that gives first values; None where more than pure operators on inputs compute them."""
        tensors = list(self._graph.tensors)
        set_once = {each.variable: each.value for each in self._settings.values()}
        given = []
        for each in readings:
            given.append(each.first if each.flag is not None else len(tensors))
            if each.flag is None:
                tensors.append(set_once[each.variable])
        needed, kept = {*given}, dict[int, Operator]()
        for number, operator in reversed(self._operators.items()):
            if needed.isdisjoint(operator.outputs):
                continue
            if number in self._gone or not operator.op.pure or operator.op.callees():
                return None
            kept[number] = operator
            needed.update(operator.inputs)
        found = self._with(kept, self._graph.inputs, tuple(given))
        return replace(found, name=f"{self._graph.name}/first", tensors=tuple(tensors))

    def _with(self, operators: Mapping[int, Operator], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Subgraph:
        """The subgraph with some operators at their places."""
        return replace(self._graph, inputs=inputs, outputs=outputs,
                       operators=tuple(operators.get(each, SKIP) for each in self._operators))

    def _variable(self, handle: int) -> Variable | None:
        """What a tensor is a handle of, where the subgraph tells."""
        return None if handle not in self._writer else self._writer[handle].op.variable()


def _given(graph: Subgraph) -> Variable | None:
    """The variable whose value is all that a subgraph gives."""
    if [type(each.op) for each in graph.operators] != [VarHandle, ReadVariable]:
        return None
    handle, reading = graph.operators
    is_plain = reading.inputs == handle.outputs and graph.outputs == reading.outputs
    return handle.op.variable() if is_plain else None


def _reached(model: Model, index: int) -> set[int]:
    """The subgraphs that are invoked from one."""
    found, left = set[int](), [index]
    while left:
        graph = model.subgraphs[left.pop()]
        new = {callee for each in graph.operators for callee in each.op.callees()} - found
        found |= new
        left += new
    return found
