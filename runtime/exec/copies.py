"""Lists every edge between an operator and the subgraphs it invokes, and how values cross it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.exec.crossing import CopyEdge, Position
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.controlflow import Branch, CallOnce, Invoke, LoopRounds, PreTestedLoop
from circlet.runtime.passes.analyses.alias import Aliases, tensor_bytes
from circlet.runtime.passes.analyses.entry import invoked_with
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.passes.analyses.transfer import Action, Stage, Transfer

Bind: TypeAlias = "Callable[[int, tuple[Shape, ...]], None]"
DYNAMIC = "the shapes are known only when the subgraph runs"


LONGEST = 1024
"""The greatest length that is tried for those that are open."""


def copy_edges(executors: ExecutorMap, entries: Mapping[int, tuple[Shape, ...]],
               bind: Bind = lambda index, shapes: None) -> list[CopyEdge]:
    """The edges of everything that the entry subgraphs reach.

    A subgraph that is reached in several ways is listed once for each different way its copies turn out. What backends
    compute several operators of at once, they know themselves, once it was bound.

    Args:
        executors: of the model.
        entries: subgraphs that runs begin with, and the shapes of their inputs.
        bind: is called with each subgraph, and shapes of its inputs, that only control flow at run time reaches.
    """
    report = _Report(executors, bind)
    edges: dict[CopyEdge, None] = {}
    for index, shapes in entries.items():
        edges.update(dict.fromkeys(report.subgraph(index, shapes, frozenset(range(len(shapes))), False)))
    compiled: dict[Position, Sequence[CopyEdge]] = {}
    for backend in executors.span_backends:
        compiled.update(backend.crossings)
    return _substituted(list(edges), compiled)


def fitting_shapes(executors: ExecutorMap, entries: Sequence[int]) -> dict[int, tuple[Shape, ...]]:
    """The declared shapes of the inputs of subgraphs; lengths that they leave open are 1, or the least power of 2 up to
    `LONGEST` that the subgraph can be run with, if there is one."""
    return {index: next((shapes for shapes in _declared(executors.model, index) if _fits(executors, index, shapes)),
                        next(_declared(executors.model, index))) for index in entries}


def _declared(model: Model, index: int) -> Iterator[tuple[Shape, ...]]:
    """The declared shapes of inputs, with more and more for what is open."""
    graph = model.subgraphs[index]
    tensors = [graph.tensors[each] for each in graph.inputs]
    yield tuple(each.shape for each in tensors)
    length = 2
    while length <= LONGEST and any(-1 in each.signature for each in tensors):
        yield tuple(tuple(length if size == -1 else size for size in each.signature) for each in tensors)
        length *= 2


def _fits(executors: ExecutorMap, index: int, shapes: tuple[Shape, ...]) -> bool:
    with suppress(ExecutionError, LimitError):
        executors.specializer.at(index, shapes)
        return True
    return False


def _substituted(edges: Sequence[CopyEdge], compiled: Mapping[Position, Sequence[CopyEdge]]) -> list[CopyEdge]:
    """The edges, with what compiled code does where there is any."""
    outside = {each.position for each in edges if not each.per_iteration}
    found: dict[CopyEdge, None] = {}
    for each in edges:
        own = compiled.get(each.position)
        if own is None:
            found[each] = None
        else:
            in_loop = each.position not in outside
            found.update(dict.fromkeys(replace(one, per_iteration=in_loop or one.per_iteration) for one in own))
    return list(found)


class _Report:
    def __init__(self, executors: ExecutorMap, bind: Bind) -> None:
        self._specializer = executors.specializer
        self._planner = executors.planner
        self._begins_apart = executors.begins_apart
        self._bind = bind
        self._listed: set[tuple[int, tuple[Shape, ...], frozenset[int], bool]] = set()

    def subgraph(self, index: int, shapes: tuple[Shape, ...], destroyable: frozenset[int],
                 in_loop: bool) -> Iterator[CopyEdge]:
        way = (index, shapes, destroyable, in_loop)
        if way in self._listed:
            return
        self._listed.add(way)
        spec = self._specializer.at(index, shapes)
        aliases = self._planner.aliases(spec, range(spec.stop), destroyable if spec.is_static else ())
        for number in range(len(spec.subgraph.operators)):
            op = spec.subgraph.operators[number].op
            if not op.callees():
                continue
            if number >= spec.stop:
                yield from self._dynamic(spec, number, in_loop)
            elif isinstance(op, PreTestedLoop):
                yield from self._loop(aliases, number, op, in_loop)
            elif isinstance(op, (Branch, Invoke)):
                yield from self._call(aliases, number, op, in_loop)
            elif isinstance(op, CallOnce):
                yield from self.subgraph(op.init_subgraph_index, (), frozenset(), False)

    def _loop(self, aliases: Aliases, number: int, op: PreTestedLoop, in_loop: bool) -> Iterator[CopyEdge]:
        spec, operator = aliases.spec, aliases.spec.subgraph.operators[number]
        shapes = tuple(spec.shape(each) for each in operator.inputs)
        try:
            plan = self._planner.loop_at(aliases, number, self._begins_apart(spec.index))
        except Unknown:
            yield from self._dynamic(spec, number, in_loop)
            return
        for each in plan.transfers:
            yield _edge(spec, number, each, operator.inputs[each.position], in_loop)
        yield from self.subgraph(op.cond_subgraph_index, shapes, frozenset(), True)
        for given_up in dict.fromkeys(plan.given_up(phase) for phase in range(len(plan.course.places))):
            yield from self.subgraph(op.body_subgraph_index, shapes, given_up, True)

    def _call(self, aliases: Aliases, number: int, op: Branch | Invoke, in_loop: bool) -> Iterator[CopyEdge]:
        spec, operator = aliases.spec, aliases.spec.subgraph.operators[number]
        operands = invoked_with(operator)
        shapes = tuple(spec.shape(each) for each in operands)
        try:
            plan = self._planner.call_at(aliases, number)
        except Unknown:
            yield from self._dynamic(spec, number, in_loop)
            return
        for callee, transfers in zip(op.callees(), plan.transfers, strict=True):
            for each in transfers:
                tensors = operands if each.stage is Stage.ENTER else operator.outputs
                yield _edge(spec, number, each, tensors[each.position], in_loop)
            yield from self.subgraph(callee, shapes, plan.given_up, in_loop)

    def _within(self, spec: Specialization, number: int, in_loop: bool) -> Iterator[CopyEdge]:
        """The edges in what is surely invoked, though only a run can tell the shapes of the results: a callee, or the
        first turn of a loop that makes room."""
        operator = spec.subgraph.operators[number]
        shapes = tuple(spec.shapes[each] or () for each in operator.inputs)
        if not isinstance(operator.op, (Invoke, LoopRounds)) or None in [spec.shapes[each] for each in operator.inputs]:
            return
        index = operator.op.callees()[-1]
        with suppress(ExecutionError, LimitError):
            self._specializer.at(index, shapes)
            self._bind(index, shapes)
            yield from self.subgraph(index, shapes, frozenset(), in_loop)

    def _dynamic(self, spec: Specialization, number: int, in_loop: bool) -> Iterator[CopyEdge]:
        operator = spec.subgraph.operators[number]
        is_loop = isinstance(operator.op, PreTestedLoop)
        repeats = in_loop or (isinstance(operator.op, PreTestedLoop) and operator.op.counts)
        edges = ("cond input", "body input") if is_loop else ("input",)
        for position in range(len(operator.inputs) - isinstance(operator.op, Branch)):
            for edge in edges:
                yield CopyEdge(spec.index, number, f"{edge} {position}", None, repeats, Action.COPY, DYNAMIC)
        edge = "body output" if is_loop else "output"
        for position in range(len(operator.outputs)):
            yield CopyEdge(spec.index, number, f"{edge} {position}", None, repeats, Action.COPY, DYNAMIC)
        yield from self._within(spec, number, in_loop)


def _edge(spec: Specialization, number: int, transfer: Transfer, tensor: int, in_loop: bool) -> CopyEdge:
    return CopyEdge(spec.index, number, transfer.label, tensor_bytes(spec, tensor), in_loop or transfer.stage.repeats,
                    transfer.action, transfer.reason)
