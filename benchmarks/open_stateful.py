"""An OpenVINO model of variables whose shapes change: a decoder that keeps its keys and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset6, opset13

DEPTH, HEADS, HIDDEN = 128, 4, 512


class _Writer:
    """Layers of random weights."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self.sinks: list[Any] = []

    def weights(self, *shape: int) -> Any:
        return opset13.constant((self._random.normal(size=shape) / shape[-1] ** 0.5).astype(np.float32))

    def dense(self, x: Any, before: int, after: int) -> Any:
        product = opset13.matmul(x, self.weights(after, before), False, True)
        return opset13.add(product, self.weights(1, 1, after))

    def normalized(self, x: Any) -> Any:
        return opset13.mvn(x, opset13.constant([-1]), True, 1e-5, "INSIDE_SQRT")

    def heads(self, x: Any) -> Any:
        """(n, t, DEPTH) as (n, HEADS, t, DEPTH // HEADS)."""
        split = opset13.reshape(x, opset13.constant([0, 0, HEADS, DEPTH // HEADS]), True)
        return opset13.transpose(split, opset13.constant([0, 2, 1, 3]))

    def kept(self, x: Any, batch: Any, name: str) -> Any:
        """Rows behind those that a variable has; none of as many sequences as there are, at first."""
        info = openvino.op.util.VariableInfo()
        info.data_shape = openvino.PartialShape([-1, HEADS, -1, DEPTH // HEADS])
        info.data_type, info.variable_id = openvino.Type.f32, name
        variable = openvino.op.util.Variable(info)
        sizes = opset13.concat([batch, opset13.constant([HEADS, 0, DEPTH // HEADS])], 0)
        none = opset13.broadcast(opset13.constant(np.float32(0)), sizes)
        found = opset13.concat([opset6.read_value(none, variable), x], 2)
        self.sinks.append(opset6.assign(found, variable))
        return found


def write_decoder(path: Path, layers: int = 2) -> None:
    """Layers of attention to all rows so far, and a feed-forward network each: (n, t, DEPTH) to the same."""
    w, given = _Writer(), opset13.parameter([-1, -1, DEPTH], np.float32, name="x")
    batch = opset13.gather(opset13.shape_of(given), opset13.constant([0]), opset13.constant(0))
    x = given
    for layer in range(layers):
        query, key, value = (w.heads(w.dense(x, DEPTH, DEPTH)) for _ in range(3))
        keys, values = (w.kept(each, batch, f"{name}{layer}") for each, name in ((key, "keys"), (value, "values")))
        mixed = opset13.scaled_dot_product_attention(query, keys, values)
        joined = opset13.reshape(opset13.transpose(mixed, opset13.constant([0, 2, 1, 3])),
                                 opset13.constant([0, 0, DEPTH]), True)
        x = w.normalized(opset13.add(x, w.dense(joined, DEPTH, DEPTH)))
        hidden = opset13.gelu(w.dense(x, DEPTH, HIDDEN), "erf")
        x = w.normalized(opset13.add(x, w.dense(hidden, HIDDEN, DEPTH)))
    openvino.save_model(openvino.Model([opset13.result(x)], w.sinks, [given]), path, compress_to_fp16=False)
