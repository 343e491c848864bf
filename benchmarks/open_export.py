"""ONNX models with dynamic axes, written as PyTorch's exporter writes them: an encoder, every reshape by a computed
shape, and a step of a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper, numpy_helper

DEPTH, HEADS, HIDDEN, WORDS, LONGEST = 128, 4, 512, 1000, 512


class _Writer:
    """A graph's nodes and constants of random numbers."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node of one output; gives its name."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(numbers, np.int64)

    def weights(self, *shape: int) -> str:
        return self.constant(self._random.normal(size=shape) / shape[0] ** 0.5)

    def size(self, x: str, axis: int) -> str:
        """A length of x, (1,)."""
        return self("Unsqueeze", self("Gather", self("Shape", x), self.constant(axis, np.int64), axis=0), self.ints(0))

    def shape(self, *sizes: str | int) -> str:
        return self("Concat", *(self.ints(each) if isinstance(each, int) else each for each in sizes), axis=0)

    def dense(self, x: str, before: int, after: int) -> str:
        return self("Add", self("MatMul", x, self.weights(before, after)), self.weights(after))

    def normalized(self, x: str) -> str:
        apart = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        spread = self("ReduceMean", self("Pow", apart, self.constant(2)), axes=[-1])
        found = self("Div", apart, self("Sqrt", self("Add", spread, self.constant(1e-5))))
        return self("Add", self("Mul", found, self.weights(DEPTH)), self.weights(DEPTH))

    def gelu(self, x: str) -> str:
        bent = self("Add", self("Erf", self("Div", x, self.constant(2 ** 0.5))), self.constant(1))
        return self("Mul", self("Mul", x, bent), self.constant(0.5))


def _attention(w: _Writer, x: str, mask: str) -> str:
    batch, length = w.size(x, 0), w.size(x, 1)
    split = w.shape(batch, length, HEADS, DEPTH // HEADS)
    heads = [w("Transpose", w("Reshape", w.dense(x, DEPTH, DEPTH), split), perm=order)
             for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])]
    scores = w("Div", w("MatMul", heads[0], heads[1]), w.constant((DEPTH // HEADS) ** 0.5))
    mixed = w("MatMul", w("Softmax", w("Add", scores, mask), axis=-1), heads[2])
    joined = w("Reshape", w("Transpose", mixed, perm=[0, 2, 1, 3]), w.shape(batch, length, DEPTH))
    return w.dense(joined, DEPTH, DEPTH)


def encoder(layers: int = 2) -> bytes:
    """Layers of attention and a feed-forward network each: ids and mask int64 (batch, n) to (batch, n, DEPTH)."""
    w = _Writer()
    hidden = w("Sub", w.constant(1), w("Cast", w("Unsqueeze", "mask", w.ints(1, 2)), to=TensorProto.FLOAT))
    mask = w("Mul", hidden, w.constant(-1e4))
    places = w("Slice", w.constant([np.arange(LONGEST)], np.int64), w.ints(0), w.size("ids", 1), w.ints(1))
    x = w("Add", w("Gather", w.weights(WORDS, DEPTH), "ids"), w("Gather", w.weights(LONGEST, DEPTH), places))
    for _ in range(layers):
        x = w.normalized(w("Add", x, _attention(w, x, mask)))
        x = w.normalized(w("Add", x, w.dense(w.gelu(w.dense(x, DEPTH, HIDDEN)), HIDDEN, DEPTH)))
    return bytes(_encoder_model(w, x).SerializeToString())


def decoder(layers: int = 2) -> bytes:
    """A step of a decoder: a word (1, 1) and, for each layer, keys and values (1, HEADS, n, DEPTH // HEADS), to scores
    of words (1, 1, WORDS) and the keys and values with a row behind them."""
    w, each = _Writer(), DEPTH // HEADS
    x = w("Gather", w.weights(WORDS, DEPTH), "ids")
    given, results = [], []
    for layer in range(layers):
        inner, parts = w.normalized(x), []
        for name in ("queries", "keys", "values"):
            split = w("Reshape", w.dense(inner, DEPTH, DEPTH), w.ints(1, 1, HEADS, each))
            parts.append(w("Transpose", split, perm=[0, 2, 1, 3]))
            if name != "queries":
                given.append(f"{name}{layer}")
                parts[-1] = w("Concat", given[-1], parts[-1], axis=2)
        scores = w("Div", w("MatMul", parts[0], w("Transpose", parts[1], perm=[0, 1, 3, 2])), w.constant(each ** 0.5))
        mixed = w("MatMul", w("Softmax", scores, axis=-1), parts[2])
        joined = w("Reshape", w("Transpose", mixed, perm=[0, 2, 1, 3]), w.ints(1, 1, DEPTH))
        x = w("Add", x, w.dense(joined, DEPTH, DEPTH))
        x = w("Add", x, w.dense(w.gelu(w.dense(w.normalized(x), DEPTH, HIDDEN)), HIDDEN, DEPTH))
        results += parts[1:]
    real, caches = TensorProto.FLOAT, (1, HEADS, "n", each)
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, (1, 1)),
              *(helper.make_tensor_value_info(name, real, caches) for name in given)]
    outputs = [helper.make_tensor_value_info(w.dense(x, DEPTH, WORDS), real, (1, 1, WORDS)),
               *(helper.make_tensor_value_info(name, real, (1, HEADS, "longer", each)) for name in results)]
    return bytes(_model(w, inputs, outputs).SerializeToString())


def _encoder_model(w: _Writer, result: str) -> ModelProto:
    axes: Sequence[str | int] = ("batch", "length")
    return _model(w, [helper.make_tensor_value_info(each, TensorProto.INT64, axes) for each in ("ids", "mask")],
                  [helper.make_tensor_value_info(result, TensorProto.FLOAT, (*axes, DEPTH))])


def _model(w: _Writer, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> ModelProto:
    graph = helper.make_graph(w.nodes, "main", inputs, outputs, w.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model
