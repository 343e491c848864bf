"""What is known of each subgraph before it runs: what its operators cost, and where its buffers lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import ABSENT, Model, Operator
from circlet.runtime.ir.op import Callee, Operand
from circlet.runtime.ir.types import Shape
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.plan_memory import place_classes
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.passes.analyses.work import Work, bytes_read, bytes_written, declared_shapes, operator_work
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Buffer:
    """Memory of tensors that share it."""

    names: tuple[str, ...]
    offset: int
    size: int
    first: int
    """The operator that first writes it."""
    last: int
    """The last one that reads it; one more than there are for results."""


@dataclass(frozen=True)
class ArenaPlan:
    """The arena of a subgraph, as it is planned where its caller lends nothing."""

    size: int
    buffers: Sequence[Buffer]
    live: Sequence[int]
    """The bytes in use while each operator runs, as far as shapes are known before."""

    @property
    def peak(self) -> int:
        """The operator while which most is in use; 0 where there is none."""
        return max(range(len(self.live)), key=lambda number: self.live[number], default=0)


class Plan:
    """A subgraph at the shapes that a run has."""

    def __init__(self, source: Model, spec: Specialization, aliases: Aliases) -> None:
        """
        Args:
            source: the model before passes merged operators.
            spec: the subgraph.
            aliases: which of its tensors share memory.
        """
        self.spec = spec
        self._source = source
        self._aliases = aliases

    def shape(self, tensor: int) -> Shape:
        """The shape of a tensor; the declared one, with 1 for open lengths, where only a run tells it."""
        found = self.spec.shapes[tensor]
        return self.spec.subgraph.tensors[tensor].shape if found is None else found

    @cached_property
    def works(self) -> Sequence[Work | None]:
        """What each operator costs; None where there is no estimate, and for those that invoke subgraphs."""
        return [self._work(each) for each in self.spec.subgraph.operators]

    @cached_property
    def arena(self) -> ArenaPlan:
        """Where buffers lie."""
        spec, aliases = self.spec, self._aliases
        own = {*spec.subgraph.inputs, *spec.known}
        roots = dict.fromkeys(root for number in range(spec.stop) for each in spec.subgraph.operators[number].outputs
                              if each not in spec.known and (root := aliases.root(each)) not in own
                              and not spec.subgraph.tensors[root].dtype.numpy.hasobject)
        places, size = place_classes(aliases, roots, outlive=not spec.is_static)
        end = len(spec.subgraph.operators)
        buffers = [Buffer(tuple(spec.subgraph.tensors[each].name for each in aliases.members(root)), place.offset,
                          place.size, aliases.first_write(root),
                          end if not spec.is_static else max(aliases.last_read(root), aliases.first_write(root)))
                   for root, place in places.items()]
        return ArenaPlan(size, buffers, [sum(each.size for each in buffers if each.first <= number <= each.last)
                                         for number in range(spec.stop)])

    def _operand(self, tensor: int) -> Operand:
        declared = self.spec.subgraph.tensors[tensor]
        return Operand(declared.dtype, self.shape(tensor), self.spec.known.get(tensor), declared.quantization)

    def _work(self, operator: Operator) -> Work | None:
        if operator.op.callees():
            return None
        if operator.op.parts():
            return self._merged(operator)
        return operator_work(operator.op, *self._operands(operator))

    def _operands(self, operator: Operator) -> tuple[Sequence[Operand | None], Sequence[Operand]]:
        return ([None if each == ABSENT else self._operand(each) for each in operator.inputs],
                [self._operand(each) for each in operator.outputs])

    def _merged(self, operator: Operator) -> Work | None:
        """What operators that were merged cost: all their arithmetic, and the bytes that go in and come out; None in a
        subgraph that passes made."""
        if self.spec.index >= len(self._source.subgraphs):
            return None
        before = self._source.subgraphs[self.spec.index].operators
        parts = [before[each] for each in operator.op.parts()]
        works = [self._work(each) for each in parts]
        found = [each.flops for each in works if each is not None]
        if len(found) < len(parts):
            return None
        written = next((bytes_written(each.op, *self._operands(each)) for each in reversed(parts)
                        if not each.op.views()), 0)
        return Work(sum(found), sum(self._read(parts).values()), written)

    def _read(self, parts: Sequence[Operator]) -> Mapping[int, int]:
        """The bytes that merged operators read of tensors from outside, by tensor, each once."""
        made = {each for part in parts if not part.op.views() for each in part.outputs}
        seen: dict[int, int] = {}
        found: dict[int, int] = {}
        for part in parts:
            inputs = [seen.get(each, each) for each in part.inputs]
            seen.update({part.outputs[output]: inputs[source] for output, source in part.op.views().items()})
            for tensor, size in zip(inputs, bytes_read(part.op, *self._operands(part)), strict=True):
                if tensor not in made:
                    found[tensor] = max(found.get(tensor, 0), size)
        return found


def plans(executors: ExecutorMap, source: Model, entries: Mapping[int, tuple[Shape, ...]]) -> Mapping[int, Plan]:
    """The plans of the subgraphs that runs reach, by index; where they come to one with several shapes, for the first.

    Args:
        executors: of the session.
        source: the model before passes.
        entries: the subgraphs that runs begin with, and the shapes of their inputs.
    """
    found: dict[int, Plan] = {}
    left = list(entries.items())
    while left:
        index, shapes = left.pop(0)
        if index in found:
            continue
        try:
            spec = executors.specializer.at(index, shapes)
            aliases = executors.planner.aliases(spec, range(spec.stop), range(len(shapes)) if spec.is_static else ())
        except (ExecutionError, LimitError):
            continue
        found[index] = Plan(source, spec, aliases)
        left += _invoked(executors.model, found[index])
    return found


def _invoked(model: Model, plan: Plan) -> Iterator[tuple[int, tuple[Shape, ...]]]:
    """The subgraphs that another invokes, and the shapes of their inputs."""
    for operator in plan.spec.subgraph.operators:
        for callee in operator.op.calls():
            yield callee.subgraph, _passed(model, plan, operator, callee)


def _passed(model: Model, plan: Plan, operator: Operator, callee: Callee) -> tuple[Shape, ...]:
    graph, given = model.subgraphs[callee.subgraph], operator.inputs[callee.first:]
    if callee.is_mapped or len(given) != len(graph.inputs):
        return declared_shapes(graph)
    return tuple(map(plan.shape, given))
