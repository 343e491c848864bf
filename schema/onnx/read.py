"""Reads an ONNX model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

import circlet.schema.onnx.ops  # noqa: F401  # fills the table of rules
from circlet.runtime.errors import ModelError, UnsupportedError, plural
from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.records import dataclass
from circlet.schema.importer.graph import Program, Value
from circlet.schema.onnx.functions import LocalFunctions, schema_of
from circlet.schema.onnx.rules import find_rule
from circlet.schema.onnx.scope import CHARGED_BYTES, Scope, Unit, plain, qualified
from circlet.schema.onnx.translate import FAULTS, translate
from circlet.schema.onnx.types import axes_of, shape_of, type_of
from circlet.schema.onnx.wire import separated

OLDEST = 7
"""The first version of ONNX's own operator set of which all is read; of older ones what has not changed since."""

SPARE, MOST_REPEATED = 1 << 14, 16
"""How much of a file is translated: some nodes, and all of it so many times."""


@dataclass(frozen=True)
class Options:
    """How a model is to be read where programs differ."""

    absent_cond: str = "spec"
    """What a Loop without the input `cond` does with the condition of its body: `spec` ignores it, `ort` obeys it."""


def read_onnx(source: Any, folder: Path | None, options: Options | None = None) -> Model:
    """The model that a ModelProto, or the bytes of a file, describe.

    Args:
        source: a ModelProto, or a serialised one.
        folder: where files lie that hold its tensors; None where there is no place to look for them.
        options: how to read it where programs differ.

    Raises:
        ModelError: the file is malformed.
        UnsupportedError: it uses operators, types or features that circlet cannot express; of operators the message
            lists all.
    """
    proto, contents = (source, {}) if isinstance(source, onnx.ModelProto) else _parsed(memoryview(source))
    size = len(source) if proto is not source else proto.ByteSize()
    try:
        return _translated(proto, size, contents, folder, options or Options())
    except (ModelError, UnsupportedError):
        raise
    except FAULTS as problem:
        raise ModelError(f"the file is corrupt: {problem}") from problem
    except RecursionError:
        raise UnsupportedError("graphs or functions nest too deeply to be read") from None


def _parsed(source: memoryview) -> tuple[Any, Mapping[int, memoryview]]:
    """A ModelProto, and the content of some initializers of its graph, by position, which these are without."""
    try:
        model, contents = separated(source)
        return onnx.ModelProto.FromString(model), contents
    except DecodeError as problem:
        raise ModelError(f"the file is truncated or corrupt: {problem}") from None


def _translated(proto: Any, size: int, contents: Mapping[int, memoryview], folder: Path | None, options: Options
                ) -> Model:
    """The model that a ModelProto, of `size` bytes when serialised, describes."""
    if not proto.HasField("graph") or not proto.graph.output:
        raise ModelError("expected a graph with outputs, found none")
    opsets = {plain(each.domain): each.version for each in proto.opset_import}
    unit = Unit(opsets, LocalFunctions.of(proto), folder, options.absent_cond == "ort")
    _refuse_unknown(proto, unit)
    program = Program(SPARE + MOST_REPEATED * (_count_nodes(proto) + size // CHARGED_BYTES))
    scope = Scope(program.graph(proto.graph.name or "main"), unit)
    scope.read_constants(proto.graph, contents)
    constants = {each.name for each in proto.graph.initializer}
    inputs = [_input(scope, each) for each in proto.graph.input if each.name not in constants]
    translate(scope, proto.graph.node)
    return _finished(program, scope, proto, inputs)


def _input(scope: Scope, proto: Any) -> Value:
    kind = type_of(proto.type)
    if kind is None:
        raise ModelError(f"input {proto.name!r}: expected a type, found none")
    value = scope.graph.input(kind, shape_of(proto.type), proto.name, axes_of(proto.type))
    scope.define(proto.name, value)
    return value


def _finished(program: Program, scope: Scope, proto: Any, inputs: list[Value]) -> Model:
    names = [each.name for each in proto.graph.output]
    outputs = [scope.value(name) for name in names]
    signature = Signature("serving_default", 0, {each.name: scope.graph.tensor_index(each) for each in inputs},
                          {name: scope.graph.tensor_index(each) for name, each in zip(names, outputs, strict=True)})
    scope.graph.output(*outputs)
    return Model(
        program.subgraphs(), (signature,), proto.doc_string,
        {each.key: each.value.encode() for each in proto.metadata_props}, proto.ir_version, "onnx")


def _refuse_unknown(proto: Any, unit: Unit) -> None:
    """Raises UnsupportedError that lists all operators for which there is no rule."""
    unknown: dict[str, None] = {}
    for opsets, nodes in ((unit.opsets, proto.graph.node),
                          *((each.opsets, each.nodes) for each in unit.functions.by_name.values())):
        for node in _all_nodes(nodes):
            version = opsets.get(plain(node.domain))
            name = qualified(node.domain, node.op_type)
            if version is not None and unit.functions.find(node) is None and not _is_known(node, name, version):
                unknown[f"{name} (version {version})"] = None
    if unknown:
        raise UnsupportedError(f"{plural(len(unknown), 'kind')} of operators cannot be read: {', '.join(unknown)}")


def _is_known(node: Any, name: str, version: int) -> bool:
    """Whether there is a rule for an operator, or it is a function."""
    schema = schema_of(node.domain, node.op_type, version)
    if not plain(node.domain) and version < OLDEST:
        now = schema_of(node.domain, node.op_type, OLDEST)
        return schema is not None and now is not None and schema.since_version == now.since_version
    if find_rule(name, version) is not None:
        return True
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _count_nodes(proto: Any) -> int:
    """How many nodes there are in the file."""
    return sum(1 for nodes in (proto.graph.node, *(each.node for each in proto.functions)) for _ in _all_nodes(nodes))


def _all_nodes(nodes: Any) -> Iterator[Any]:
    """The nodes and those of the graphs inside of them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all_nodes(graph.node)

