"""Names in ONNX graphs, and the translation of a graph's nodes one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnx import AttributeProto, TensorProto

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import Array, DType
from circlet.schema.onnx.functions import Function, LocalFunctions, input_count, schema_function
from circlet.schema.onnx.graph import CHARGED_BYTES, Graph, expect_text, type_text
from circlet.schema.onnx.narrow import narrowed, widened
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import find_rule
from circlet.schema.onnx.types import Narrow, read_tensor

FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What Python and numpy raise about values that no well-formed model holds."""
MISFIT = "the inputs and attributes do not fit the operator or each other"
"""What a message says then; the cause of the error has Python's own words."""
WIDENS = frozenset({"Cast", "DequantizeLinear"})
"""The operators that take constants that are held in wider types than they have."""
MOST_NESTED = 64
"""How deeply functions may call functions."""


@dataclass(frozen=True, eq=False)
class Unit:
    """What the nodes of a model or of a function have in common."""

    opsets: Mapping[str, int]
    functions: LocalFunctions
    folder: Path | None
    """Where files lie that hold tensors."""
    honours_absent_cond: bool
    """Whether a Loop without the input `cond` stops when its body says so, as ONNX Runtime has it."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The attributes that a function is called with."""
    depth: int = 0


class Scope:
    """The names of one ONNX graph or function, and of those around it."""

    def __init__(self, graph: Graph, unit: Unit, parent: Scope | None = None) -> None:
        self.graph = graph
        self.unit = unit
        self._parent = parent
        self._names: dict[str, Value | None] = {}

    def define(self, name: str, value: Value | None) -> None:
        """Gives a name a value; None is an absent one.

        Raises:
            ModelError: the name has a value, or is no text.
        """
        expect_text(name)
        if name in self._names:
            raise ModelError(f"{name!r} is defined twice")
        self._names[name] = value

    def look_up(self, name: str) -> Value | None:
        """The value of a name, as a value of this scope's graph.

        Raises:
            ModelError: nothing defines the name.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope._names:
                value = scope._names[name]
                return None if value is None else self.graph.capture(value)
            scope = scope._parent
        raise ModelError(f"{name!r} is read, but nothing defines it before")

    def value(self, name: str) -> Value:
        """The value of a name, which is not an absent one."""
        found = self.look_up(name)
        if found is None:
            raise ModelError(f"{name!r} is read, but it is an optional input that is absent")
        self._refuse_narrow(found)
        return found

    def inner(self, name: str) -> Scope:
        """A scope for a graph inside of this one, with a graph of its own."""
        return Scope(self.graph.program.graph(name, self.graph), self.unit, self)

    def read_constants(self, proto: Any) -> None:
        """Defines the initializers of a graph."""
        for each in proto.initializer:
            dtype, data = self.read(each)
            self.define(each.name, self.graph.constant(data, dtype, each.name))
        if len(proto.sparse_initializer):
            raise UnsupportedError(f"sparse initializers, first {proto.sparse_initializer[0].values.name!r}")

    def read(self, proto: Any) -> tuple[DType | Narrow, Array]:
        """The element type and the value of a tensor in the file, or in another that it names."""
        dtype, data = read_tensor(proto, self.unit.folder)
        if proto.data_location != TensorProto.EXTERNAL:
            self.graph.program.charge(data.nbytes // CHARGED_BYTES)
        return dtype, data

    def translate(self, nodes: Iterable[Any]) -> None:
        """Emits the operators of nodes, in order."""
        for number, proto in enumerate(nodes):
            with _at(self.graph.name, number, proto):
                self.graph.program.charge()
                self._translate(proto)

    def _translate(self, proto: Any) -> None:
        node = Node(
            proto.name, qualified(proto.domain, proto.op_type), self._version(proto.domain), self,
            tuple(self.look_up(each) if each else None for each in proto.input), tuple(map(bool, proto.output)),
            dict(self._attributes(proto)), proto)
        results = self._results(node)
        if len(results) < len(proto.output):
            raise ModelError(f"expected at most {len(results)} outputs, found {len(proto.output)}")
        for name, value in zip(proto.output, results, strict=False):
            if not name:
                continue
            if value is None:
                raise UnsupportedError(f"output {name!r}")
            self.define(name, value)
            if not self.graph[value].is_constant and value not in node.inputs:
                self.graph.rename(value, name)

    def _results(self, node: Node) -> Sequence[Value | None]:
        local = self.unit.functions.find(node.proto)
        if local is not None:
            return self._call(local, node)
        _expect_inputs(node)
        rule = find_rule(node.operator, node.version)
        if rule is not None and node.operator not in WIDENS:
            for each in filter(None, node.inputs):
                self._refuse_narrow(each)
        if rule is not None:
            found = rule(widened(node))
            return narrowed(node, [found] if isinstance(found, Value) else list(found))
        function = schema_function(node)
        if function is None:
            raise UnsupportedError(f"{node.operator} (version {node.version}): not implemented")
        return self._call(function, node)

    def _refuse_narrow(self, value: Value) -> None:
        """Raises UnsupportedError for a constant that is held in a wider type than it has."""
        found = self.graph.type(value)
        if isinstance(found, Narrow):
            raise UnsupportedError(f"element type {type_text(found)}")

    def _call(self, function: Function, node: Node) -> Sequence[Value | None]:
        """Emits the body of a function in place of a call."""
        if self.unit.depth >= MOST_NESTED:
            raise ModelError("functions call each other in a cycle, or too deeply")
        if len(node.inputs) > len(function.inputs):
            raise ModelError(f"expected at most {len(function.inputs)} inputs, found {len(node.inputs)}")
        unit = replace(self.unit, opsets={**self.unit.opsets, **function.opsets}, depth=self.unit.depth + 1,
                       attributes={**function.defaults, **node.attributes})
        scope = Scope(self.graph, unit)
        for position, name in enumerate(function.inputs):
            scope.define(name, node.get(position))
        scope.translate(function.nodes)
        return [scope.look_up(name) if name in scope._names else None for name in function.outputs]

    def _version(self, domain: str) -> int:
        if plain(domain) not in self.unit.opsets:
            raise ModelError(f"the model does not say which version of operator set {domain!r} it uses")
        return self.unit.opsets[plain(domain)]

    def _attributes(self, proto: Any) -> Iterable[tuple[str, Any]]:
        for each in proto.attribute:
            if not each.ref_attr_name:
                yield each.name, each
            elif each.ref_attr_name in self.unit.attributes:
                found = AttributeProto()
                found.CopyFrom(self.unit.attributes[each.ref_attr_name])
                found.name = each.name
                yield each.name, found


def _place(graph: str, number: int, proto: Any) -> str:
    name = f" {proto.name!r}" if proto.name else ""
    return f"graph {graph!r}, node {number}{name} ({qualified(proto.domain, proto.op_type)})"


def plain(domain: str) -> str:
    """The name of an operator set; ONNX's own has two."""
    return "" if domain == "ai.onnx" else domain


def qualified(domain: str, operator: str) -> str:
    """What the table of rules calls an operator."""
    return f"{plain(domain)}.{operator}" if plain(domain) else operator


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
