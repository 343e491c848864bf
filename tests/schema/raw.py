"""Model files made with the schemas' own object API, so that they can say what circlet never writes."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import flatbuffers
import numpy as np
import pytest

circle_package = pytest.importorskip("circle_schema.v0_10.circle")
tflite_schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")
"""LiteRT's newest schema, of which the package `tflite` has an older version."""
circle_schema: Any = SimpleNamespace(**{
    name: each for module in vars(circle_package).values() if isinstance(module, ModuleType)
    for name, each in vars(module).items() if isinstance(each, type)})
"""Circle's schema with its classes in one namespace, as LiteRT's are."""
IDENTIFIERS = ((tflite_schema, b"TFL3"), (circle_schema, b"CIR0"))


def tensor(schema: Any, name: str = "t", shape: Sequence[int] = (2,), type: int = 0, buffer: int = 0,
           **fields: Any) -> Any:
    """A tensor, float32 by default."""
    made = schema.TensorT()
    made.name, made.shape, made.type, made.buffer = name, list(shape), type, buffer
    return assign(made, **fields)


def operator(schema: Any, inputs: Sequence[int] = (0,), outputs: Sequence[int] = (1,), **fields: Any) -> Any:
    """An operator with the first code of the model."""
    made = schema.OperatorT()
    made.inputs, made.outputs = list(inputs), list(outputs)
    return assign(made, **fields)


def buffer(schema: Any, data: bytes = b"", **fields: Any) -> Any:
    made = schema.BufferT()
    made.data = np.frombuffer(data, np.uint8) if data else None
    return assign(made, **fields)


def code(schema: Any, builtin: int = 0, deprecated: int = 0, custom: str | None = None, version: int = 1) -> Any:
    made = schema.OperatorCodeT()
    made.builtinCode, made.deprecatedBuiltinCode, made.version, made.customCode = builtin, deprecated, version, custom
    return made


def assign(made: Any, **fields: Any) -> Any:
    """The object with some of its fields changed."""
    unknown = set(fields) - set(vars(made))
    assert not unknown, unknown
    vars(made).update(fields)
    return made


def model(schema: Any, tensors: Sequence[Any] = (), operators: Sequence[Any] = (), codes: Sequence[Any] = (),
          buffers: Sequence[Any] = (), inputs: Sequence[int] = (), outputs: Sequence[int] = (), **fields: Any) -> bytes:
    """The file of a model with one subgraph; buffer 0 is the empty one."""
    graph = schema.SubGraphT()
    graph.name, graph.tensors, graph.operators = "main", list(tensors), list(operators)
    graph.inputs, graph.outputs = list(inputs), list(outputs)
    made = schema.ModelT()
    made.version, made.subgraphs, made.operatorCodes = 3, [graph], list(codes)
    made.buffers = [buffer(schema), *buffers]
    return pack(schema, assign(made, **fields))


def pack(schema: Any, made: Any) -> bytes:
    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), next(identifier for each, identifier in IDENTIFIERS if each is schema))
    return bytes(builder.Output())


def quantized(schema: Any, **fields: Any) -> Any:
    return assign(schema.QuantizationParametersT(), **fields)


def options(schema: Any, table: str, **fields: Any) -> SimpleNamespace:
    """The fields of an operator that hold its options, to be passed on as `**vars(...)`."""
    made = assign(vars(schema)[f"{table}T"](), **fields)
    first = vars(schema.BuiltinOptions).get(table)
    if first is not None:
        return SimpleNamespace(builtinOptionsType=first, builtinOptions=made)
    return SimpleNamespace(builtinOptions2Type=vars(schema.BuiltinOptions2)[table], builtinOptions2=made)
