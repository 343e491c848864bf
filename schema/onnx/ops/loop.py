"""Rules for loops: all become circlet's canonical LOOP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.held import OptionalOf
from circlet.runtime.ir.probe import merged
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops import loop
from circlet.runtime.ops.loop_options import (
    Base,
    Carried,
    CondUse,
    Feed,
    Order,
    Position,
    ScanInput,
    ScanOutput,
    ShapePolicy,
)
from circlet.runtime.ops.operands import normalize_axis
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Type, Value, constant, type_text
from circlet.schema.onnx.bodies import Body, HeldShapes, translate_body, translate_in_place
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.sequence import optional_of, united
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.scope import Scope
from circlet.schema.onnx.types import shape_of, type_of


@dataclass(frozen=True, eq=False)
class Parts:
    """What a LOOP is emitted from, in the order of its operands."""

    trip_count: Value | None = None
    cond: Value | None = None
    carried: tuple[Value, ...] = ()
    scanned: tuple[Value, ...] = ()
    lengths: tuple[Value, ...] = ()


def emit(graph: Graph, op: loop.Loop, body: Body, parts: Parts, carried: Sequence[Shape | None]) -> list[Value]:
    """Finishes the body and applies a loop.

    Args:
        graph: where the loop is.
        op: says what the body's own inputs are; the values that it captures follow behind them.
        body: translated, not finished.
        parts: the operands, but for those that are captured.
        carried: the shapes of the carried values.
    """
    body.finish(body.captured)
    first, types, shapes = len(parts.carried), body.types, body.shapes
    kinds: list[Type] = [types[each.body_output] for each in op.carried]
    kinds += [types[each.body_output] for each in op.scan_outputs]
    places = [*carried, *(stacked(shapes[each.body_output], each.axis) for each in op.scan_outputs)]
    inputs = (parts.trip_count, parts.cond, *parts.carried, *body.captured, *parts.scanned, *parts.lengths)
    results = graph.op(op, *inputs, count=first + len(op.scan_outputs), types=kinds, shapes=places)
    return list(results)


def stacked(element: Shape | None, axis: int) -> Shape | None:
    """The shape of a scan output."""
    if element is None:
        return None
    at = normalize_axis(axis, len(element) + 1, "scan output axis")
    return (*element[:at], -1, *element[at:])


@rule("Loop")
def loop_(node: Node) -> Sequence[Value]:
    proto = node.body("body")
    count, scans = len(node.inputs) - 2, len(proto.output) - 1 - (len(node.inputs) - 2)
    if count < 0 or scans < 0:
        raise ModelError(f"expected at least 2 inputs and a body with an output for each carried value, found "
                         f"{len(node.inputs)} inputs and {len(proto.output)} outputs of the body")
    node.expect_outputs()
    if len(proto.input) != 2 + count:
        raise ModelError(f"graph {proto.name!r}: expected {2 + count} inputs, found {len(proto.input)}")
    use = _cond_use(node)
    initial = tuple(_adapted(node, node[2 + k], each) for k, each in enumerate(proto.input[2:]))
    ranks = [_declared_rank(each) for each in proto.input[:2]]
    if _is_single(node, initial):
        return _once(node, proto, initial, ranks)
    body, shapes, held = _fixpoint(node, initial, ranks)
    _check_outputs(body.types[1:], initial)
    op = loop.Loop(
        iteration=Feed(0, ranks[0]), cond_input=Feed(1, ranks[1]), cond_output=0, cond_use=use,
        carried=tuple(Carried(2 + k, 1 + k) for k in range(count)),
        scan_outputs=tuple(ScanOutput(1 + count + k) for k in range(scans)))
    parts = Parts(node.get(0), node.get(1), initial)
    found = emit(node.graph, closed(op, body, 2 + count), body, parts, shapes)
    return [each if own is None else node.graph.declare(each, held_shapes=own)
            for each, own in zip_longest(found, held)]


def _is_single(node: Node, initial: Sequence[Value]) -> bool:
    """Whether the body runs once, on tensors."""
    trips, cond = node.known(0), node.get(1)
    goes_in = cond is None or (cond.data is not None and cond.data.size == 1 and bool(cond.data.all()))
    is_one = trips is not None and trips.size == 1 and trips.item() == 1
    return is_one and goes_in and all(isinstance(each.type, DType) for each in initial)


def _once(node: Node, proto: Any, initial: Sequence[Value], ranks: Sequence[int]) -> Sequence[Value]:
    """What the first iteration gives: where that decides upon shapes, as by its number, they follow from it."""
    first = constant(np.zeros((1,) * ranks[0], np.int64)), constant(np.ones((1,) * ranks[1], np.bool_))
    found = translate_in_place(node.scope, proto, [*first, *initial])[1:]
    _check_outputs([each.type for each in found], initial)
    count = len(initial)
    return [*found[:count], *(c.unsqueeze(node.graph, each, [0]) for each in found[count:])]


def _cond_use(node: Node) -> CondUse:
    if node.get(1) is not None or node.scope.unit.honours_absent_cond:
        return CondUse.HONOR
    if node.get(0) is None:
        raise ModelError("expected a trip count or a condition, found neither: by the specification the loop never "
                         "ends; read with the absent condition as ONNX Runtime has it, its body ends it")
    return CondUse.IGNORE


def _declared_rank(proto: Any) -> int:
    """The rank, 0 or 1, that a body declares for the number of the iteration or the condition."""
    shape = shape_of(proto.type)
    return 1 if shape is not None and len(shape) == 1 else 0


def _adapted(node: Node, value: Value, proto: Any) -> Value:
    """The first value of a carried one as the type that the body declares for it: an optional takes what it is of."""
    wanted, found = type_of(proto.type), value.type
    if isinstance(wanted, OptionalOf) and wanted.element == found:
        return optional_of(node, value)
    return value


def _fixpoint(node: Node, initial: Sequence[Value], ranks: Sequence[int]
              ) -> tuple[Body, list[Shape | None], list[HeldShapes]]:
    """The body, translated for shapes of the carried values, and of what they hold, that are true before and after each
    iteration."""
    program = node.graph.program
    types: list[Type] = [DType.INT64, DType.BOOL, *(each.type for each in initial)]
    shapes = [each.shape for each in initial]
    heads: list[Shape | None] = [(1,) * rank for rank in ranks]
    held = [each.held_shapes for each in initial]
    count = len(program.graphs)
    trial = Scope(node.graph, node.scope.unit, node.scope)
    trial.is_trial = True
    scope, proto = trial if () in held else node.scope, node.body("body")
    kept = {2 + k: value for k, value in enumerate(initial)
            if value.data is not None and proto.output[1 + k].name == proto.input[2 + k].name}
    while True:
        body = translate_body(scope, proto, types, [*heads, *shapes], [None, None, *held], kept)
        found = [merged(pair) for pair in zip(shapes, body.shapes[1:], strict=False)]
        held_then = [united(*pair) for pair in zip(held, body.held[1:], strict=False)]
        if found == shapes and held_then == held:
            if scope.is_trial == node.scope.is_trial:
                return body, shapes, held
            scope = node.scope
        shapes, held = found, held_then
        program.discard(count)


def _check_outputs(types: Sequence[Type], initial: Sequence[Value]) -> None:
    for position, (value, found) in enumerate(zip(initial, types, strict=False)):
        expected = value.type
        if found != expected and not (isinstance(expected, OptionalOf) and expected.element == found
                                      and not isinstance(found, DType)):
            raise ModelError(f"carried value {position}: expected {type_text(expected)} of the body as it takes, found "
                             f"{type_text(found)}")
    for position, found in enumerate(types[len(initial):]):
        if not isinstance(found, DType):
            raise ModelError(f"scan output {position}: expected a tensor, found {type_text(found)}")


@rule("Scan", since=9)
def scan(node: Node) -> Sequence[Value]:
    node.expect_outputs()
    proto, sliced = node.body("body"), node.integer("num_scan_inputs")
    states = len(node.inputs) - sliced
    outputs = len(proto.output) - states
    if sliced < 1 or states < 0 or outputs < 0:
        raise ModelError(f"expected states and {sliced} scan inputs, and a body with an output for each state, found "
                         f"{len(node.inputs)} inputs and {len(proto.output)} outputs of the body")
    axes = _each(node, "scan_input_axes", sliced)
    op = loop.Loop(
        count_from_scan=True, carried=tuple(Carried(k, k, ShapePolicy.FIXED) for k in range(states)),
        scan_inputs=tuple(_scan_input(states + k, axis, backwards) for k, (axis, backwards) in enumerate(
            zip(axes, _directions(node, "scan_input_directions", sliced), strict=True))),
        scan_outputs=tuple(ScanOutput(states + k, axis, order=Order.PREPEND if backwards else Order.APPEND)
                           for k, (axis, backwards) in enumerate(zip(
                               _each(node, "scan_output_axes", outputs),
                               _directions(node, "scan_output_directions", outputs), strict=True))))
    carried, scanned = node.given[:states], node.given[states:]
    graph = node.graph
    places = [*(each.shape for each in carried),
              *(_without(each.shape, axis) for each, axis in zip(scanned, axes, strict=True))]
    body = translate_body(node.scope, proto, [each.type for each in node.given], places)
    return emit(graph, closed(op, body, len(node.inputs)), body, Parts(carried=tuple(carried), scanned=tuple(scanned)),
                [each.shape for each in carried])


def closed(op: loop.Loop, body: Body, own: int) -> loop.Loop:
    """The loop with what its body captures as invariants behind the body's own inputs."""
    return replace(op, body_subgraph_index=body.graph.index,
                   invariants=tuple(range(own, own + len(body.captured))))


def _each(node: Node, name: str, count: int) -> tuple[int, ...]:
    """An attribute with an entry for each of several values, 0 by default."""
    found = node.integers(name, (0,) * count)
    if len(found) != count:
        raise ModelError(f"attribute {name!r}: expected {count} entries, found {len(found)}")
    return found


def _directions(node: Node, name: str, count: int) -> tuple[bool, ...]:
    found = _each(node, name, count)
    if not set(found) <= {0, 1}:
        raise ModelError(f"attribute {name!r}: expected 0 or 1, found {found}")
    return tuple(map(bool, found))


def _scan_input(body_input: int, axis: int, backwards: bool, base: Base = Base.END) -> ScanInput:
    if backwards:
        return ScanInput(body_input, axis, Position(-1, base), -1)
    return ScanInput(body_input, axis)


def _without(shape: Shape | None, axis: int) -> Shape | None:
    """The shape of a slice along an axis, which it loses."""
    if shape is None:
        return None
    at = normalize_axis(axis, len(shape), "scan input axis")
    return (*shape[:at], *shape[at + 1:])


@rule("Scan")
def scan_8(node: Node) -> Sequence[Value]:
    """A loop over batches of a loop over sequences, whose outputs are filled up to the longest with zeros."""
    node.expect_outputs()
    proto, sliced = node.body("body"), node.integer("num_scan_inputs")
    lengths, given = node.get(0), [node[k] for k in range(1, len(node.inputs))]
    states = len(given) - sliced
    outputs = len(proto.output) - states
    if sliced < 1 or states < 0 or outputs < 0:
        raise ModelError(f"expected states and {sliced} scan inputs, and a body with an output for each state, found "
                         f"{len(given)} inputs and {len(proto.output)} outputs of the body")
    batch = Scope(node.graph.program.graph(f"{proto.name}_batch", node.graph), node.scope.unit, node.scope)
    graph, outer = batch.graph, node.graph
    places = [_without(each.shape, 0) for each in given]
    own = [graph.input(each.type, place, f"batch_{k}")
           for k, (each, place) in enumerate(zip(given, places, strict=True))]
    length = None if lengths is None else graph.input(DType.INT64, (), "sequence_length")
    inner = _sequences(node, batch, own, length, outputs)
    inputs = own if length is None else [*own, length]
    body = Body(graph, tuple(inputs), tuple(inner))
    op = loop.Loop(count_from_scan=True, scan_inputs=tuple(ScanInput(k) for k in range(len(inputs))),
                   scan_outputs=tuple(ScanOutput(k) for k in range(len(inner))))
    scanned = tuple(given) if lengths is None else (*given, lengths)
    return emit(outer, closed(op, body, len(inputs)), body, Parts(scanned=scanned), [])


def _sequences(node: Node, batch: Scope, own: Sequence[Value], length: Value | None, outputs: int) -> list[Value]:
    """The loop over the sequences of one batch."""
    graph, states = batch.graph, len(own) - node.integer("num_scan_inputs")
    backwards = _directions(node, "directions", len(own) - states)
    places = [each.shape if k < states else _without(each.shape, 0) for k, each in enumerate(own)]
    body = translate_body(batch, node.body("body"), [each.type for each in own], places)
    base = Base.END if length is None else Base.TRIP
    op = loop.Loop(
        count_from_scan=length is None, carried=tuple(Carried(k, k, ShapePolicy.FIXED) for k in range(states)),
        scan_inputs=tuple(_scan_input(states + k, 0, each, base) for k, each in enumerate(backwards)),
        scan_outputs=tuple(ScanOutput(states + k, has_length=length is not None) for k in range(outputs)))
    longest = () if length is None else (c.dimension(graph, own[states], 0),) * outputs
    parts = Parts(length, None, tuple(own[:states]), tuple(own[states:]), longest)
    return emit(graph, closed(op, body, len(own)), body, parts, places[:states])
