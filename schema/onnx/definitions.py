"""The bodies that ONNX's own definitions give operators."""

from __future__ import annotations

from typing import Any

import onnx

from circlet.runtime.errors import ModelError
from circlet.schema.onnx.functions import Function, schema_of
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.types import proto_of


def schema_function(node: Node) -> Function | None:
    """The body that ONNX's definition gives an operator; None where it gives none."""
    schema = schema_of(node.proto.domain, node.proto.op_type, node.version)
    if schema is None:
        return None
    defaults = {name: each.default_value for name, each in schema.attributes.items() if each.default_value.name}
    proto = _body(schema, node)
    return None if proto is None else Function.of(proto, defaults)


def _body(schema: Any, node: Node) -> Any:
    if schema.has_function:
        version = _latest(schema.function_opset_versions, node.version)
        return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))
    if not schema.has_context_dependent_function:
        return None
    types = [b"" if each is None else proto_of(each.type, each.shape).SerializeToString() for each in node.inputs]
    version = _latest(schema.context_dependent_function_opset_versions, node.version)
    try:
        body = schema.get_context_dependent_function_with_opset_version(version, _resolved(node), types)
    except (RuntimeError, ValueError, IndexError) as problem:
        # onnx writes bodies as text, names in it as they are, and then reads it.
        raise ModelError(f"onnx cannot make the body of {node.proto.op_type}: {problem}") from None
    return onnx.FunctionProto.FromString(body) if body else None


def _latest(versions: list[int], version: int) -> int:
    return max((each for each in versions if each <= version), default=min(versions))


def _resolved(node: Node) -> bytes:
    """The node with the attributes of the function around it filled in."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    proto.attribute.extend(node.attributes.values())
    return bytes(proto.SerializeToString())
