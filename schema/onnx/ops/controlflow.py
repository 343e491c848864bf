"""Rules for control flow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.probe import merged
from circlet.runtime.ops import controlflow
from circlet.schema.importer.graph import Value, type_text
from circlet.schema.onnx.bodies import Body, translate_body, union
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.sequence import united
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.scope import Scope
from circlet.schema.onnx.translate import translate


@rule("If")
def if_(node: Node) -> Sequence[Value]:
    node.expect_outputs()
    graphs = [node.body(name) for name in ("then_branch", "else_branch")]
    if not len(graphs[0].output) == len(graphs[1].output) == len(node.wanted):
        raise ModelError(f"expected {len(node.wanted)} outputs of both branches, found {len(graphs[0].output)} and "
                         f"{len(graphs[1].output)}")
    chosen = node.known(0)
    if chosen is not None and chosen.size == 1:
        return inlined(node, graphs[0 if chosen.item() else 1])
    then, other = bodies = _branches(node.scope, graphs)
    for position, (one, two) in enumerate(zip(then.types, other.types, strict=True)):
        if one != two:
            raise ModelError(f"output {position}: expected one type, found {type_text(one)} in the then branch and "
                             f"{type_text(two)} in the else branch")
    captured = union(bodies)
    for body in dict.fromkeys(bodies):
        body.finish(captured)
    shapes = [merged(pair) for pair in zip(then.shapes, other.shapes, strict=True)]
    op = controlflow.If(then.graph.index, other.graph.index)
    results = node.graph.op(op, node[0], *captured, count=len(shapes), types=then.types, shapes=shapes)
    held = map(united, then.held, other.held)
    return [each if own is None else node.graph.declare(each, held_shapes=own)
            for each, own in zip(results, held, strict=True)]


def _branches(scope: Scope, graphs: Sequence[Any]) -> Sequence[Body]:
    """Both branches. In a trial one that cannot be read is taken for the other one: it may take elements of a list that
    is empty so far, and is not run while that is so."""
    if not scope.is_trial:
        return [translate_body(scope, each, (), ()) for each in graphs]
    found: list[Body] = []
    for each in graphs:
        with suppress(UnsupportedError):
            found.append(translate_body(scope, each, (), ()))
    return [found[0], found[-1]] if found else [translate_body(scope, each, (), ()) for each in graphs]


def inlined(node: Node, proto: Any) -> Sequence[Value]:
    """The results of a graph without inputs, computed where the node is."""
    scope = Scope(node.graph, node.scope.unit, node.scope)
    scope.read_constants(proto)
    translate(scope, proto.node)
    found = [scope.value(each.name) for each in proto.output]
    return [each if each.is_constant else node.copy(each) for each in found]
