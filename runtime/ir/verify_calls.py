"""Checks how operators invoke other subgraphs; each subgraph in itself is taken to be sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from circlet.runtime.errors import ModelError, Place
from circlet.runtime.ir.model import ABSENT, Model, Operator
from circlet.runtime.ir.op import Callee, Interface, ShapeError
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass

SHOWN_CYCLE = 8
"""How many subgraphs of a cycle a message names."""


def verify_calls(model: Model) -> None:
    """Checks that callees exist, take and give what their operators pass and expect, and never reach themselves.

    Raises:
        ModelError: the first thing that is wrong.
    """
    calls = list(_calls(model))
    for call in calls:
        if not 0 <= call.callee.subgraph < len(model.subgraphs):
            raise ModelError(f"{call.place}: {call.callee.role}: expected the index of a subgraph, "
                             f"below {len(model.subgraphs)}, found {call.callee.subgraph}")
    _check_cycles(model, calls)
    for call in calls:
        if call.callee.is_mapped:
            call.check_mapping()
        else:
            call.check()


@dataclass(frozen=True)
class _Call:
    """One operator invoking one subgraph."""

    model: Model
    caller: int
    number: int
    operator: Operator
    callee: Callee

    @property
    def place(self) -> Place:
        return Place(self.caller, self.model.subgraphs[self.caller].name, self.number, self.operator.name)

    def __str__(self) -> str:
        name = self.model.subgraphs[self.callee.subgraph].name
        return f"{self.place}: {self.callee.role}, subgraph {self.callee.subgraph} ({name!r})"

    def check(self) -> None:
        target = self.model.subgraphs[self.callee.subgraph]
        self.check_operands("input", self.operator.inputs[self.callee.first:], target.inputs)
        if self.callee.predicate:
            self.check_predicate(target.outputs)
        else:
            self.check_operands("output", self.operator.outputs, target.outputs)

    def check_mapping(self) -> None:
        """Checks what passes where the operator itself says so."""
        caller, target = self.model.subgraphs[self.caller], self.model.subgraphs[self.callee.subgraph]
        inputs = [None if each == ABSENT else caller.tensors[each] for each in self.operator.inputs]
        outputs = [caller.tensors[each] for each in self.operator.outputs]
        interface = Interface([target.tensors[each] for each in target.inputs],
                              [target.tensors[each] for each in target.outputs])
        try:
            self.operator.op.check_callee(self.callee, inputs, outputs, interface)
        except ShapeError as error:
            raise ModelError(f"{self}: {error}") from error
        if self.callee.predicate:
            self.check_predicate(target.outputs)

    def check_operands(self, what: str, own: Sequence[int], theirs: Sequence[int]) -> None:
        """Checks that what the operator and the subgraph call inputs, or outputs, are the same in number and type."""
        caller, target = self.model.subgraphs[self.caller], self.model.subgraphs[self.callee.subgraph]
        if len(own) != len(theirs):
            plural = "" if len(own) == 1 else "s"
            raise ModelError(f"{self}: expected {len(own)} {what}{plural} as the operator has, found {len(theirs)}")
        for position, (mine, other) in enumerate(zip(own, theirs, strict=True)):
            expected, found = caller.tensors[mine].dtype, target.tensors[other].dtype
            if expected is not found:
                raise ModelError(f"{self}, {what} {position}, tensor {target.tensor_label(other)}: expected "
                                 f"{expected.value} as tensor {caller.tensor_label(mine)} of the operator is, "
                                 f"found {found.value}")

    def check_predicate(self, outputs: Sequence[int]) -> None:
        target = self.model.subgraphs[self.callee.subgraph]
        if len(outputs) != 1:
            raise ModelError(f"{self}: expected 1 output, found {len(outputs)}")
        tensor = target.tensors[outputs[0]]
        if tensor.dtype is not DType.BOOL or (tensor.is_static and prod(tensor.shape) != 1):
            raise ModelError(f"{self}, output 0, tensor {target.tensor_label(outputs[0])}: expected bool with exactly "
                             f"one element, found {tensor.dtype.value} of shape {tensor.shape}")


def _calls(model: Model) -> Iterator[_Call]:
    for index, subgraph in enumerate(model.subgraphs):
        for number, operator in enumerate(subgraph.operators):
            for callee in operator.op.calls():
                yield _Call(model, index, number, operator, callee)


def _check_cycles(model: Model, calls: Sequence[_Call]) -> None:
    by_caller: list[list[_Call]] = [[] for _ in model.subgraphs]
    for call in calls:
        by_caller[call.caller].append(call)
    finished: set[int] = set()
    for root in range(len(model.subgraphs)):
        if root not in finished:
            _search(model, by_caller, root, finished)


def _search(model: Model, by_caller: Sequence[Sequence[_Call]], root: int, finished: set[int]) -> None:
    """Follows calls depth first; the path is a dict, since subgraphs may nest deeper than Python's stack."""
    path: dict[int, Iterator[_Call]] = {root: iter(by_caller[root])}
    while path:
        current = next(reversed(path))
        call = next(path[current], None)
        if call is None:
            del path[current]
            finished.add(current)
            continue
        target = call.callee.subgraph
        if target in path:
            on_path = list(path)
            raise ModelError(f"{call}: expected subgraphs that do not invoke each other in a cycle, "
                             f"found {_cycle_text(model, on_path[on_path.index(target):])}")
        if target not in finished:
            path[target] = iter(by_caller[target])


def _cycle_text(model: Model, cycle: list[int]) -> str:
    names = [f"{index} ({model.subgraphs[index].name!r})" for index in (*cycle, cycle[0])]
    if len(names) > SHOWN_CYCLE + 1:
        names[SHOWN_CYCLE - 1:-1] = [f"({len(names) - SHOWN_CYCLE} more)"]
    return " -> ".join(names)
