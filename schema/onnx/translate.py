"""The translation of a graph's nodes, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from onnx import AttributeProto

from circlet.runtime.errors import ModelError, UnsupportedError, plural
from circlet.runtime.ir.op import ShapeError
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.definitions import schema_function
from circlet.schema.onnx.functions import Function, input_count
from circlet.schema.onnx.narrow import HALF, narrowed, widened
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.order import in_order
from circlet.schema.onnx.ranks import ranked
from circlet.schema.onnx.rules import find_rule
from circlet.schema.onnx.scope import Scope, Unit, plain, qualified, refuse_narrow

FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What Python and numpy raise about values that no well-formed model holds."""
MISFIT = "the inputs and attributes do not fit the operator or each other"
"""What a message says then; the cause of the error has Python's own words."""
WIDENS = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear", "com.microsoft.DequantizeLinear",
                    "com.microsoft.GatherBlockQuantized", "com.microsoft.QuantizeLinear"})
"""The operators that take constants that are held in wider types than they have."""
MOST_NESTED = 64
"""How deeply functions may call functions."""


def translate(scope: Scope, nodes: Iterable[Any]) -> None:
    """Emits the operators of nodes, those that define what others read before these."""
    for number, proto in in_order(nodes):
        with _at(scope.graph.name, number, proto):
            scope.graph.program.charge()
            _translate(scope, proto)


def _translate(scope: Scope, proto: Any) -> None:
    node = Node(
        proto.name, qualified(proto.domain, proto.op_type), _version(scope.unit, proto.domain), scope,
        tuple(scope.look_up(each) if each else None for each in proto.input), tuple(map(bool, proto.output)),
        dict(_attributes(scope.unit, proto)), proto)
    results = _results(node)
    if len(results) < len(proto.output):
        raise ModelError(f"expected at most {plural(len(results), 'output')}, found {len(proto.output)}")
    for name, value in zip(proto.output, results, strict=False):
        if not name:
            continue
        if value is None:
            raise UnsupportedError(f"output {name!r}")
        is_made = not value.is_constant and value not in node.inputs
        scope.define(name, scope.graph.declare(value, name) if is_made else value)


def _results(node: Node) -> Sequence[Value | None]:
    local = node.scope.unit.functions.find(node.proto)
    if local is not None:
        return _call(local, node)
    _expect_inputs(node)
    rule = find_rule(node.operator, node.version)
    if rule is not None and node.operator not in WIDENS:
        for each in filter(None, node.inputs):
            refuse_narrow(each)
    if rule is not None:
        found = rule(widened(ranked(node)))
        return narrowed(node, [found] if isinstance(found, Value) else list(found))
    function = schema_function(node)
    if function is None:
        raise UnsupportedError(f"{node.operator} (version {node.version}): not implemented")
    return narrowed(node, _call(function, widened(node))) if node.operator in HALF else _call(function, node)


def _call(function: Function, node: Node) -> Sequence[Value | None]:
    """Emits the body of a function in place of a call."""
    around = node.scope.unit
    if around.depth >= MOST_NESTED:
        raise ModelError("functions call each other in a cycle, or too deeply")
    if len(node.inputs) > len(function.inputs):
        raise ModelError(f"expected at most {plural(len(function.inputs), 'input')}, found {len(node.inputs)}")
    unit = replace(around, opsets={**around.opsets, **function.opsets}, depth=around.depth + 1,
                   attributes={**function.defaults, **node.attributes})
    scope = Scope(node.graph, unit)
    for position, name in enumerate(function.inputs):
        scope.define(name, node.get(position))
    translate(scope, function.nodes)
    return [scope.own(name) for name in function.outputs]


def _version(unit: Unit, domain: str) -> int:
    """That which the model says. ONNX Runtime takes its own operators for the first ones where it says none, and
    TensorFlow's converter writes such models."""
    if domain == "com.microsoft" and domain not in unit.opsets:
        return 1
    if plain(domain) not in unit.opsets:
        raise ModelError(f"the model does not say which version of operator set {domain!r} it uses")
    return unit.opsets[plain(domain)]


def _attributes(unit: Unit, proto: Any) -> Iterable[tuple[str, Any]]:
    for each in proto.attribute:
        if not each.ref_attr_name:
            yield each.name, each
        elif each.ref_attr_name in unit.attributes:
            found = AttributeProto()
            found.CopyFrom(unit.attributes[each.ref_attr_name])
            found.name = each.name
            yield each.name, found


def _place(graph: str, number: int, proto: Any) -> str:
    name = f" {proto.name!r}" if proto.name else ""
    return f"graph {graph!r}, node {number}{name} ({qualified(proto.domain, proto.op_type)})"


def _expect_inputs(node: Node) -> None:
    """Raises ModelError where a node has another number of inputs than its operator takes."""
    count = input_count(node.proto.domain, node.proto.op_type, node.version)
    if count is not None and not count.admits(len(node.inputs)):
        raise ModelError(f"expected {count} inputs, found {len(node.inputs)}")


@contextmanager
def _at(graph: str, number: int, proto: Any) -> Iterator[None]:
    """Adds the place of a node to errors about it."""
    try:
        yield
    except (ModelError, UnsupportedError) as problem:
        raise type(problem)(f"{_place(graph, number, proto)}: {problem}") from None
    except ShapeError as problem:
        raise ModelError(f"{_place(graph, number, proto)}: {problem}") from None
    except FAULTS as problem:
        raise ModelError(f"{_place(graph, number, proto)}: {MISFIT}") from problem
