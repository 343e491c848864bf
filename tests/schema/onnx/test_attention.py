"""Attention and what belongs to it as ONNX Runtime's optimiser and tools write them, against ONNX Runtime."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np
import pytest
from onnx import helper

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.records import dataclass
from tests.schema.onnx.test_qlinear import Array, inference

Dimensions = tuple["int | str", ...]
RANDOM = np.random.default_rng(7)
SIZES = ({"b": 2, "s": 3, "p": 4, "t": 5}, {"b": 1, "s": 1, "p": 6, "t": 3}, {"b": 2, "s": 5, "p": 1, "t": 9})
"""Lengths of the open axes of a run: sentences, tokens, earlier tokens, tokens of another sentence."""
SIZES_OF_DECODERS = ({"b": 1, "s": 3, "p": 4}, {"b": 2, "s": 1, "p": 6}, {"b": 1, "s": 9, "p": 12})
"""ONNX Runtime takes several tokens of one sentence only, or one of each."""


@dataclass(frozen=True)
class Given:
    """A live input: `x` of real numbers, `bytes`, `mask` of which some are 0, `many` numbers from 1 to that of tokens,
    `places` behind earlier tokens, `all` how many tokens there are with earlier ones, `rows` one less; `fresh` without
    earlier ones, `within` as many as there is room for."""

    shape: tuple[int | str, ...]
    kind: str = "x"

    def type(self) -> int:
        return {"x": 1, "bytes": 2, "places": 7}.get(self.kind, 6)

    def value(self, sizes: dict[str, int], seed: int) -> Array:
        rng, known = np.random.default_rng(seed), {**sizes, "ps": sizes["p"] + sizes["s"]}
        shape = [known[each] if isinstance(each, str) else each for each in self.shape]
        if self.kind == "x":
            return rng.standard_normal(shape).astype(np.float32)
        if self.kind == "bytes":
            return rng.integers(0, 256, shape).astype(np.uint8)
        if self.kind == "mask":
            found = rng.integers(0, 2, shape).astype(np.int32)
            found[..., 0] = 1
            return found
        if self.kind == "many":
            return rng.integers(1, known["s"] + 1, shape).astype(np.int32)
        if self.kind == "places" and shape == [1]:
            return np.array([known["p"]])
        if self.kind == "places":
            return np.broadcast_to(known["p"] + np.arange(known["s"]), shape).astype(np.int64)
        number = {"fresh": known["s"], "within": max(known["s"], known["p"])}.get(self.kind.split()[-1], known["ps"])
        return np.full(shape, number - self.kind.startswith("rows"), np.int32)


@dataclass(frozen=True)
class Call:
    """A node, and how many of its results are asked for."""

    op: str
    inputs: tuple[Given | Array | None, ...]
    attributes: dict[str, Any]
    results: int = 1


def known(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def call(op: str, *inputs: Given | Array | None, results: int = 1, **attributes: Any) -> Call:
    return Call(op, inputs, attributes, results)


def angles(kind: Any) -> Array:
    """A table for 40 places of 8 pairs each."""
    return np.asarray(kind(np.arange(40)[:, None] * np.geomspace(1, 0.01, 8)), np.float32)


X, PAST = Given(("b", "s", 8)), Given((2, "b", 2, "p", 4))
W, BIAS = known(8, 24), known(24)
OTHER, KEYS = Given(("b", "t", 8)), Given(("b", 2, "p", 4))
COS, SIN = angles(np.cos), angles(np.sin)
Q, KV, CACHE = Given(("b", "s", 64)), Given(("b", "s", 32)), Given(("b", 2, "p", 16))
ROWS, ALL = Given(("b",), "rows"), Given((1,), "all")
CALLS = [
    call("Attention", X, W, BIAS, num_heads=2),
    call("Attention", X, known(8, 22), known(22), num_heads=2, qkv_hidden_sizes=[8, 8, 6]),
    call("Attention", X, W, BIAS, Given(("b", "s"), "mask"), num_heads=2),
    call("Attention", X, W, BIAS, Given(("b",), "many"), num_heads=2),
    call("Attention", X, W, BIAS, Given(("b", "s", "s"), "mask"), num_heads=2, mask_filter_value=-20.0, scale=0.3),
    call("Attention", X, W, BIAS, None, None, Given((1, 2, "s", "s")), num_heads=2),
    call("Attention", X, W, BIAS, None, PAST, num_heads=2, unidirectional=1, results=2),
    call("Attention", X, W, BIAS, Given(("b", "ps"), "mask"), PAST, num_heads=2, unidirectional=1, results=2),
    call("QAttention", Given(("b", "s", 8), "bytes"), RANDOM.integers(-60, 60, (8, 24)).astype(np.int8), BIAS,
         np.float32(0.02), np.float32(0.01), Given(("b", "s"), "mask"), np.uint8(120), np.int8(0), num_heads=2),
    call("MultiHeadAttention", X, OTHER, OTHER, num_heads=2),
    call("MultiHeadAttention", X, X, X, BIAS, num_heads=2, unidirectional=1),
    call("MultiHeadAttention", X, OTHER, Given(("b", "t", 6)), known(22), Given(("b", "t"), "mask"), num_heads=2),
    call("MultiHeadAttention", X, X, X, None, Given(("b",), "many"), Given(("b", 2, "s", "s")), num_heads=2),
    call("MultiHeadAttention", X, X, X, None, None, None, KEYS, KEYS, num_heads=2, results=3),
    call("MultiHeadAttention", X, KEYS, KEYS, num_heads=2),
    *(call("GroupQueryAttention", Q, KV, KV, CACHE, CACHE, ROWS, ALL, *tables, num_heads=4, kv_num_heads=2, results=3,
           **attributes)
      for tables, attributes in (((), {}), ((), {"local_window_size": 3}), ((), {"softcap": 2.0, "scale": 0.7}),
                                 ((COS, SIN), {"do_rotary": 1}),
                                 ((COS, SIN), {"do_rotary": 1, "rotary_interleaved": 1}))),
    call("GroupQueryAttention", Q, KV, KV, None, None, Given(("b",), "rows fresh"), Given((1,), "all fresh"), COS, SIN,
         num_heads=4, kv_num_heads=2, do_rotary=1, results=3),
    call("GroupQueryAttention", Given(("b", "s", 128)), None, None, CACHE, CACHE, ROWS, ALL, num_heads=4,
         kv_num_heads=2, results=3),
    call("GroupQueryAttention", Q, KV, KV, CACHE, CACHE, Given(("b",), "rows within"), Given((1,), "all within"), COS,
         SIN, num_heads=4, kv_num_heads=2, do_rotary=1, results=3),
    *(call("RotaryEmbedding", x, places, COS, SIN, interleaved=interleaved)
      for x in (Given(("b", "s", 32)), Given(("b", 2, "s", 16)))
      for places in (Given(("b", "s"), "places"), Given((1,), "places"))
      for interleaved in (0, 1)),
    call("RotaryEmbedding", Given(("b", 2, "s", 20)), Given(("b", "s"), "places"), COS, SIN, num_heads=2,
         rotary_embedding_dim=16),
    call("EmbedLayerNormalization", Given(("b", "s"), "many"), Given(("b", "s"), "mask"), known(12, 8), known(9, 8),
         known(2, 8), known(8), known(8), Given(("b", "s"), "mask"), results=3),
    call("EmbedLayerNormalization", Given(("b", "s"), "many"), None, known(12, 8), known(9, 8), None, known(8),
         known(8), results=2),
    *(call("MatMulNBits", Given(("b", "s", 40)), RANDOM.integers(0, 256, (5, 3, 2 * bits)).astype(np.uint8), known(15),
           zero, None, added, K=40, N=5, bits=bits, block_size=16)
      for bits in (4, 8) for zero, added in ((None, None), (RANDOM.integers(0, 256, 5 * -(-3 * bits // 8)).astype(
          np.uint8), known(5)))),
]


def content(case: Call) -> bytes:
    names = ["" if each is None else f"x{k}" for k, each in enumerate(case.inputs)]
    live = [helper.make_tensor_value_info(name, each.type(), each.shape)
            for name, each in zip(names, case.inputs, strict=True) if isinstance(each, Given)]
    constants = [helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape, each.tobytes(), True)
                 for name, each in zip(names, case.inputs, strict=True)
                 if each is not None and not isinstance(each, Given)]
    made = [f"y{k}" for k in range(case.results)]
    node = helper.make_node(case.op, names, made, domain="com.microsoft", **case.attributes)
    results = [helper.make_tensor_value_info(
        each, 6 if case.op == "EmbedLayerNormalization" and each == "y1" else 1, None) for each in made]
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(helper.make_graph([node], "g", live, results, constants), opset_imports=domains,
                                   ir_version=8).SerializeToString())


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("case", CALLS, ids=[f"{case.op}-{k}" for k, case in enumerate(CALLS)])
def test_as_onnxruntime(case: Call, backend: str) -> None:
    if "local_window_size" in case.attributes and metadata.version("onnxruntime").startswith("1.23."):
        pytest.skip("ONNX Runtime 1.23 has other windows than later versions")
    model = content(case)
    peer = inference(model)
    session = circlet.Session(circlet.load(model), backend=backend)
    for sizes in SIZES_OF_DECODERS if case.op.startswith("Group") else SIZES:
        given = {f"x{k}": each.value(sizes, 10 * k + sizes["s"]) for k, each in enumerate(case.inputs)
                 if isinstance(each, Given)}
        for expected, found in zip(peer.run(None, given), session.run(given).values(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5, strict=True)


@pytest.mark.parametrize(("case", "reason"), [
    (call("Attention", X, W, BIAS, None, None, None, Given((1,), "all"), num_heads=2, past_present_share_buffer=1),
     "past_present_share_buffer"),
    (call("Attention", X, W, BIAS, Given(("b", 1, "s", "s"), "mask"), num_heads=2), "a mask of shape"),
    (call("Attention", X, W, BIAS, num_heads=5), "of 5 heads, found 24 columns"),
    (call("MultiHeadAttention", Given(("b", "s", 2, 3, 4)), num_heads=2), "in one tensor"),
    (call("GroupQueryAttention", Q, KV, KV, CACHE, CACHE, ROWS, ALL, num_heads=4, kv_num_heads=2, smooth_softmax=1),
     "smooth_softmax"),
    (call("MatMulNBits", X, known(3), known(3), K=8, N=3, block_size=16), "of 4 bits and a scale for each block"),
    (call("MatMulNBits", X, known(3), known(3), K=8, N=3, bits=3, block_size=16), "found 3 bits"),
], ids=lambda each: each.op if isinstance(each, Call) else "")
def test_refused(case: Call, reason: str) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=reason):
        circlet.load(content(case))


def test_normalised_heads() -> None:
    """As ONNX Runtime's builder of decoders writes Qwen 3: the heads of a row are rows of their own for a while."""
    sizes = {"split": (0, -1, 16), "joined": (0, -1, 64)}
    nodes = [helper.make_node("Reshape", ["x0", "split"], ["heads"]),
             helper.make_node("SimplifiedLayerNormalization", ["heads", "scale"], ["normal"], epsilon=1e-6),
             helper.make_node("Reshape", ["normal", "joined"], ["q"]),
             helper.make_node("GroupQueryAttention", ["q", *(f"x{k}" for k in range(1, 7)), "cos", "sin"],
                              ["y0", "y1", "y2"], "attention", domain="com.microsoft", num_heads=4, kv_num_heads=2,
                              do_rotary=1)]
    given = [Q, KV, KV, CACHE, CACHE, ROWS, ALL]
    live = [helper.make_tensor_value_info(f"x{k}", each.type(), each.shape) for k, each in enumerate(given)]
    constants = [*(helper.make_tensor(name, 7, [3], each) for name, each in sizes.items()),
                 *(helper.make_tensor(name, 1, each.shape, each.tobytes(), True)
                   for name, each in (("scale", known(16)), ("cos", COS), ("sin", SIN)))]
    results = [helper.make_tensor_value_info(f"y{k}", 1, None) for k in range(3)]
    graph = helper.make_graph(nodes, "g", live, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(
        "com.microsoft", 1)], ir_version=8).SerializeToString()
    peer, session = inference(model), circlet.Session(circlet.load(model))
    for lengths in SIZES_OF_DECODERS:
        fed = {f"x{k}": each.value(lengths, k) for k, each in enumerate(given)}
        for expected, found in zip(peer.run(None, fed), session.run(fed).values(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5, strict=True)
