"""Functions: operators that are given by a graph of others, in the model or in ONNX's own definitions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import onnx

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import UNBOUNDED, Count
from circlet.runtime.records import dataclass


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
