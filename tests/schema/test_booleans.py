"""Booleans that a file stores as bytes above 1 are true, in every format and on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import circlet
from circlet.runtime.ir.model import Model
from tests.schema import raw
from tests.schema.openvino import text

STORED = b"\2\0\xff\1"
TRUTH = [True, False, True, True]
LOGICAL_AND = 86


def flatbuffer(schema: Any) -> Callable[[tuple[int, ...]], Model]:
    def make(shape: tuple[int, ...]) -> Model:
        tensors = [raw.tensor(schema, name, shape, 6, buffer) for name, buffer in (("x", 0), ("c", 1), ("y", 0))]
        return circlet.load(raw.model(
            schema, tensors, [raw.operator(schema, (0, 1), (2,))], [raw.code(schema, LOGICAL_AND, LOGICAL_AND)],
            [raw.buffer(schema, STORED[:int(np.prod(shape))])], [0], [2]))

    return make


def onnx_model(shape: tuple[int, ...]) -> Model:
    kind = onnx.TensorProto.BOOL
    constant = onnx.TensorProto(name="c", data_type=kind, dims=shape, raw_data=STORED[:int(np.prod(shape))])
    x, y = (onnx.helper.make_tensor_value_info(name, kind, shape) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("And", ["x", "c"], ["y"])], "g", [x], [y], [constant])
    opsets = [onnx.helper.make_opsetid("", 13)]
    return circlet.load(onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString())


def openvino_model(shape: tuple[int, ...]) -> Model:
    size, dims = int(np.prod(shape)), ",".join(map(str, shape))
    constant = text.layer(1, "Const", 0, [shape], element_type="boolean", shape=dims, offset=0, size=size)
    layers = [text.parameter(0, shape, "boolean"), constant, text.layer(2, "LogicalAnd", 2, [shape]), text.result(3)]
    content = text.network(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])
    return circlet.load(content.encode(), STORED[:size])


FORMATS = {"tflite": flatbuffer(raw.tflite_schema), "circle": flatbuffer(raw.circle_schema), "onnx": onnx_model,
           "openvino": openvino_model}


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 2)], ids=str)
@pytest.mark.parametrize("format", FORMATS)
def test_bytes_above_1_are_true(format: str, shape: tuple[int, ...], backend: str) -> None:
    model = FORMATS[format](shape)
    wanted = np.array(TRUTH[:int(np.prod(shape))]).reshape(shape)
    (found,) = circlet.Session(model, backend).run([np.ones(shape, bool)]).values()
    np.testing.assert_array_equal(found, wanted, strict=True)
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))
    held = next(each.data for each in model.subgraphs[0].tensors if each.data is not None)
    assert isinstance(held, np.ndarray)
    assert held.view(np.uint8).max() == 1
