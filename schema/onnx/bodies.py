"""Graphs inside of nodes: closure conversion, and what the results of several of them have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from circlet.runtime.errors import ModelError, plural
from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass
from circlet.schema.importer.graph import Graph, Type, Value, type_text
from circlet.schema.onnx.scope import Scope
from circlet.schema.onnx.translate import translate
from circlet.schema.onnx.types import type_of

HeldShapes: TypeAlias = "tuple[Shape, ...] | None"
"""What is known of the tensors in a sequence; see `Value.held_shapes`."""
NOTHING: Mapping[int, Value] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Body:
    """A translated graph, not yet finished: what it takes and gives, as values of its own."""

    graph: Graph
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def captured(self) -> tuple[Value, ...]:
        """The values of the surrounding graph that it reads, in order of first use."""
        return tuple(self.graph.captures)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(each.type for each in self.outputs)

    @property
    def shapes(self) -> tuple[Shape | None, ...]:
        return tuple(each.shape for each in self.outputs)

    @property
    def held(self) -> tuple[HeldShapes, ...]:
        return tuple(each.held_shapes for each in self.outputs)

    def finish(self, captured: Sequence[Value], outputs: Sequence[Value] | None = None) -> None:
        """Makes the body take the given values of the surrounding graph behind its own inputs."""
        passed = [self.graph.captures.get(each) or self.graph.tensor(each.type, each.shape, "unused")
                  for each in captured]
        self.graph.feed(*passed)
        self.graph.output(*(self.outputs if outputs is None else outputs))


def translate_body(scope: Scope, proto: Any, types: Sequence[Type], shapes: Sequence[Shape | None],
                   held: Sequence[HeldShapes] = (), kept: Mapping[int, Value] = NOTHING) -> Body:
    """Translates a GraphProto inside of a node of `scope`.

    Args:
        scope: where the node is.
        proto: the graph.
        types, shapes: those of its inputs, which what it declares may lack or contradict.
        held: what is known of the tensors in inputs that are sequences; nothing by default.
        kept: the constants that inputs are in each turn, by position; an output of their names is the input.

    Raises:
        ModelError: it declares another number or other types of inputs.
    """
    if len(proto.input) != len(types):
        raise ModelError(f"graph {proto.name!r}: expected {plural(len(types), 'input')}, found {len(proto.input)}")
    inner = scope.inner(proto.name)
    inputs = []
    for k, (each, type, shape, own) in enumerate(zip(proto.input, types, shapes, held or (None,) * len(types),
                                                     strict=True)):
        _expect_type(proto, each, type)
        value = inner.graph.input(type, shape, each.name, held_shapes=own)
        inner.define(each.name, kept.get(k, value))
        inputs.append(value)
    inner.read_constants(proto)
    translate(inner, proto.node)
    own_names = {proto.input[k].name: inputs[k] for k in kept}
    return Body(inner.graph, tuple(inputs), tuple(
        own_names.get(each.name) or inner.value(each.name) for each in proto.output))


def translate_in_place(scope: Scope, proto: Any, values: Sequence[Value]) -> list[Value]:
    """Emits what a GraphProto inside of a node computes of some values, which runs once, in the graph of the node.

    Raises:
        ModelError: it declares other types of inputs.
    """
    inner = Scope(scope.graph, scope.unit, scope)
    for each, value in zip(proto.input, values, strict=True):
        _expect_type(proto, each, value.type)
        inner.define(each.name, value)
    inner.read_constants(proto)
    translate(inner, proto.node)
    return [inner.value(each.name) for each in proto.output]


def _expect_type(proto: Any, declared: Any, type: Type) -> None:
    wanted = type_of(declared.type)
    if wanted is not None and wanted != type:
        raise ModelError(f"graph {proto.name!r}, input {declared.name!r}: expected {type_text(type)}, which the node "
                         f"passes, found {type_text(wanted)}")


def union(bodies: Sequence[Body]) -> tuple[Value, ...]:
    """The values that several bodies read, each once."""
    return tuple(dict.fromkeys(value for body in bodies for value in body.captured))
