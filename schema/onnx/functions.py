"""Functions: operators that are given by a graph of others, in the model or in ONNX's own definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import onnx

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import UNBOUNDED, Count

if TYPE_CHECKING:
    from circlet.schema.onnx.node import Node


@dataclass(frozen=True, eq=False)
class Function:
    """The body of an operator."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Any, ...]
    opsets: Mapping[str, int]
    defaults: Mapping[str, Any]
    """AttributeProtos by name, for attributes that a call leaves out."""

    @classmethod
    def of(cls, proto: Any, defaults: Mapping[str, Any]) -> Function:
        """The function that a FunctionProto describes."""
        opsets = {"" if each.domain == "ai.onnx" else each.domain: each.version for each in proto.opset_import}
        return cls(tuple(proto.input), tuple(proto.output), tuple(proto.node), opsets, defaults)


@dataclass(frozen=True, eq=False)
class LocalFunctions:
    """The functions of a model, by domain, name and overload."""

    by_name: Mapping[tuple[str, str, str], Function]

    @classmethod
    def of(cls, model: Any) -> LocalFunctions:
        """The functions of a ModelProto.

        Raises:
            ModelError: two have the same name.
        """
        found: dict[tuple[str, str, str], Function] = {}
        for each in model.functions:
            key = _key(each.domain, each.name, each)
            if key in found:
                raise ModelError(f"function {each.domain}.{each.name} is defined twice")
            found[key] = Function.of(each, {default.name: default for default in each.attribute_proto})
        return cls(found)

    def find(self, node: Any) -> Function | None:
        """The function that a NodeProto calls; None where it is an operator."""
        return self.by_name.get(_key(node.domain, node.op_type, node))


def _key(domain: str, name: str, proto: Any) -> tuple[str, str, str]:
    return "" if domain == "ai.onnx" else domain, name, getattr(proto, "overload", "")


_NEWEST = (1 << 31) - 1


def schema_of(domain: str, operator: str, version: int) -> Any:
    """ONNX's definition of an operator; None where it has none of that name and version."""
    if not (isinstance(operator, str) and isinstance(domain, str) and 0 <= version <= _NEWEST):
        return None  # names that are not UTF-8 come as bytes
    try:
        return onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return None


@lru_cache(1 << 10)
def input_count(domain: str, operator: str, version: int) -> Count | None:
    """How many inputs ONNX's definition gives an operator; None where it has none of that name and version."""
    schema = schema_of(domain, operator, version)
    return None if schema is None else Count(schema.min_input, min(schema.max_input, UNBOUNDED))


def schema_function(node: Node) -> Function | None:
    """The body that ONNX's definition gives an operator; None where it gives none.

    Raises:
        ModelError: it can give none to such a node.
    """
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
    types = [b"" if each is None else node.scope.graph.proto(each).SerializeToString() for each in node.inputs]
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
