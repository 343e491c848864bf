"""Makes subgraphs of the regions of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from circlet.network.conditional import Conditional, ConditionalInput
from circlet.network.layer import Construct, Exit, Input, Layer, Operation, Region, Result
from circlet.network.loop import IteratorEntry, Loop, LoopExit, LoopOutput
from circlet.network.partition import Partition
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ops.controlflow import If, While
from circlet.runtime.ops.loop import Loop as LoopOp
from circlet.runtime.ops.loop_options import NONE, Base, Carried, Order, Position, ScanInput, ScanOutput

ORDERS = {LoopOutput.CONCATENATE: Order.APPEND, LoopOutput.REVERSE: Order.PREPEND}
SIGNATURE = "serving_default"
Key: TypeAlias = tuple[int, int]
"""A tensor: the number of its layer, and which output of the layer it is."""


def lower(plan: Partition, name: str, inputs: Mapping[str, Result], outputs: Mapping[str, Result]) -> Model:
    """The model of a network whose layers are placed."""
    builder = ModelBuilder()
    names = {_key(tensor): name for name, tensor in outputs.items() if not isinstance(tensor.layer, Input)}
    main = _Body(builder, plan, builder.subgraph(name), None, names)
    given = {name: main.parameter(tensor) for name, tensor in inputs.items()}
    main.fill(outputs.values())
    results = {name: main.value(tensor) for name, tensor in outputs.items()}
    main.graph.feed(*given.values())
    main.graph.output(*results.values())
    builder.signature(SIGNATURE, main.graph, given, results)
    return builder.build()


class _Body:
    """A subgraph under construction: the layers of a region on which certain values depend."""

    def __init__(self, builder: ModelBuilder, plan: Partition, graph: SubgraphBuilder, region: Region | None,
                 names: Mapping[Key, str]) -> None:
        self._builder = builder
        self._plan = plan
        self.graph = graph
        self._region = region
        self._names = names
        self._values: dict[Key, Value] = {}
        self._emitted: set[Construct] = set()
        self.captured: dict[Key, Result] = {}
        """The values from outside that the layers use, in the order of first use."""

    def fill(self, wanted: Iterable[Result]) -> None:
        """Adds the layers that compute `wanted`."""
        needed = self._needed(wanted)
        for layer in self._plan.layers.get(self._region, ()):
            if layer.number in needed:
                self._emit(layer)

    def value(self, tensor: Result) -> Value:
        """A tensor as it is called here."""
        tensor = _source(tensor)
        key = _key(tensor)
        if key not in self._values:
            if tensor.data is not None:
                self.parameter(tensor)
            else:
                self.captured[key] = tensor
                self.parameter(tensor)
        return self._values[key]

    def parameter(self, tensor: Result) -> Value:
        """Adds a tensor whose value the caller gives, or a constant, which shares its memory with others."""
        return self._bind(tensor, self.graph.tensor(self._declare(tensor)))

    def _needed(self, wanted: Iterable[Result]) -> set[int]:
        inside = None if self._region is None else self._plan.members[self._region]
        found: set[int] = set()
        pending = [tensor.layer for tensor in wanted]
        while pending:
            layer = pending.pop()
            if layer.number not in found and (inside is None or layer.number in inside):
                found.add(layer.number)
                pending.extend(each.layer for each in layer.dependencies)
        return found

    def _emit(self, layer: Layer) -> None:
        if isinstance(layer, Operation):
            self._apply(layer.op, layer.operands, layer.results)
        elif isinstance(layer, Exit) and layer.construct not in self._emitted:
            self._emitted.add(layer.construct)
            if isinstance(layer.construct, Conditional):
                self._emit_conditional(layer.construct)
            elif isinstance(layer.construct, Loop):
                self._emit_loop(layer.construct)

    def _emit_conditional(self, conditional: Conditional) -> None:
        exits = [layer for layer in conditional.exits if layer.number in self._plan.live]
        branches = [self._child(region, region.name) for region in conditional.regions]
        for place, branch in enumerate(branches):
            wanted = _present(layer.operands[place] for layer in exits)
            branch.fill(wanted)
            branch.graph.output(*map(branch.value, wanted))
        captured = _union(branches)
        for branch in branches:
            branch.graph.feed(*map(branch.value, captured))
        op = If(*(branch.graph.index for branch in branches))
        self._apply(op, [conditional.predicate, *captured], _results(exits))

    def _emit_loop(self, loop: Loop) -> None:
        exits = [layer for layer in loop.exits if layer.number in self._plan.live]
        scans = [layer for layer in exits if layer.kind is not LoopOutput.LAST_VALUE]
        parts = self._loop_parts(loop, scans)
        last = {id(layer.operands[0]): layer.results[0] for layer in exits if layer not in scans}
        finals = [last.get(id(each), each) for each in loop.recurrences]
        operands: list[Result | None] = [*_sources(loop.recurrences), *parts.captured]
        if parts.condition is not None and loop.count is None and not loop.iterators and not scans:
            parts.body.graph.output(*map(parts.body.value, parts.captured))
            op = While(parts.condition.graph.index, parts.body.graph.index)
            results = self._apply(op, operands, [*finals, *parts.captured], bound=len(finals))
        else:
            lengths = _present(layer.operands[1] for layer in scans)
            operands = [loop.count, None, *operands, *_sources(loop.iterators), *lengths]
            results = self._apply(parts.op(), operands, [*finals, *_results(scans)])
        for layer in exits:
            if layer not in scans:
                place = next(k for k, each in enumerate(loop.recurrences) if each is layer.operands[0])
                self._bind(layer.results[0], results[place])

    def _loop_parts(self, loop: Loop, scans: Sequence[LoopExit]) -> _LoopParts:
        """The subgraphs of a loop: the body takes recurrences, iterators and captured values, and gives next values
        and what is collected; the condition takes recurrences and captured values."""
        condition = None if loop.condition is None else self._condition(loop, loop.condition)
        body = self._child(loop.body, loop.body.name)
        body.graph.feed(*map(body.parameter, (*loop.recurrences, *loop.iterators)))
        following = [*map(loop.next, loop.recurrences), *_present(layer.operands[0] for layer in scans)]
        body.fill(following)
        body.graph.output(*map(body.value, following))
        bodies = [body] if condition is None else [condition, body]
        captured = _union(bodies)
        for each in bodies:
            each.graph.feed(*map(each.value, captured))
        return _LoopParts(loop, scans, body, condition, captured)

    def _condition(self, loop: Loop, wanted: Result) -> _Body:
        """The subgraph that computes the condition of a loop from its recurrences."""
        body = self._child(loop.body, "condition")
        body.graph.feed(*map(body.parameter, loop.recurrences))
        body.fill([wanted])
        body.graph.output(body.value(wanted))
        for each in body.captured.values():
            if each.layer in loop.entries:
                raise ModelError(f"{loop.name}: expected a condition on recurrences of the loop, found {wanted}, which "
                                 f"depends on {each}")
        return body

    def _apply(self, op: Op, operands: Iterable[Result | None], results: Sequence[Result],
               bound: int | None = None) -> tuple[Value, ...]:
        """Applies an operator, and binds its outputs, or the first `bound` of them, to tensors."""
        given = [None if each is None else self.value(each) for each in operands]
        values = self.graph.op(op, *given, outputs=[self._declare(each) for each in results])
        for tensor, value in zip(results[:bound], values, strict=False):
            self._bind(tensor, value)
        return values

    def _child(self, region: Region, name: str) -> _Body:
        """A subgraph for a region, nested in this one."""
        graph = self._builder.subgraph(f"{region.construct.name}_{name.removesuffix(' branch')}")
        return _Body(self._builder, self._plan, graph, region, {})

    def _bind(self, tensor: Result, value: Value) -> Value:
        self._values[_key(tensor)] = value
        return value

    def _declare(self, tensor: Result) -> Tensor:
        name = self._names.get(_key(tensor), tensor.name)
        if tensor.shape is None:
            return Tensor(name, tensor.dtype, (), has_rank=False)
        known = tuple(1 if dim < 0 else dim for dim in tensor.shape)
        return Tensor(name, tensor.dtype, known, tensor.shape if -1 in tensor.shape else None, data=tensor.data)


@dataclass(frozen=True)
class _LoopParts:
    """The subgraphs of a loop."""

    loop: Loop
    scans: Sequence[LoopExit]
    body: _Body
    condition: _Body | None
    captured: Sequence[Result]

    def op(self) -> LoopOp:
        """The canonical loop that runs them."""
        first, second = len(self.loop.recurrences), len(self.loop.recurrences) + len(self.loop.iterators)
        return LoopOp(
            body_subgraph_index=self.body.graph.index,
            cond_subgraph_index=NONE if self.condition is None else self.condition.graph.index,
            carried=tuple(Carried(k, k) for k in range(first)),
            invariants=tuple(range(second, second + len(self.captured))),
            scan_inputs=tuple(_scan_input(first + k, each.layer) for k, each in enumerate(self.loop.iterators)),
            scan_outputs=tuple(
                ScanOutput(first + k, each.axis, order=ORDERS[each.kind], has_length=each.operands[1] is not None)
                for k, each in enumerate(self.scans)))


def _scan_input(place: int, layer: Layer) -> ScanInput:
    assert isinstance(layer, IteratorEntry)
    if layer.reverse:
        return ScanInput(place, layer.axis, begin=Position(-1, Base.TRIP), step=-1)
    return ScanInput(place, layer.axis)


def _union(bodies: Iterable[_Body]) -> list[Result]:
    """The values that any of some subgraphs takes from outside."""
    captured: dict[Key, Result] = {}
    for body in bodies:
        captured |= body.captured
    return list(captured.values())


def _source(tensor: Result) -> Result:
    """The value that a conditional's input passes on."""
    while isinstance(tensor.layer, ConditionalInput):
        (tensor,) = _present(tensor.layer.operands)
    return tensor


def _key(tensor: Result) -> Key:
    return (tensor.layer.number, tensor.position)


def _present(tensors: Iterable[Result | None]) -> list[Result]:
    return [each for each in tensors if each is not None]


def _sources(entries: Iterable[Result]) -> list[Result]:
    """The values from outside that enter a loop."""
    return _present(each.layer.operands[0] for each in entries)


def _results(layers: Iterable[Layer]) -> list[Result]:
    return [layer.results[0] for layer in layers]
