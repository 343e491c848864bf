"""Products by dequantised weights: with the numbers that ONNX says, and without these as float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper, numpy_helper

import circlet
from circlet.backends.native.backend import NativeBackend
from circlet.runtime.passes.analyses import compressed

Array = npt.NDArray[Any]
DEPTH, COLUMNS, BLOCK = 384, 256, 32
RANDOM = np.random.default_rng(0)
SCALES = RANDOM.uniform(0.01, 0.02, (DEPTH // BLOCK, COLUMNS)).astype(np.float32)


@pytest.fixture(autouse=True)
def _small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "CACHED", 0)


def drawn(shape: tuple[int, ...], low: int, high: int, kind: str) -> Array:
    return RANDOM.integers(low, high, shape).astype(kind)


def dequantized(stored: Array, scale: Array, zero: Array | None, axis: int, block: int = 0) -> tuple[Any, Array]:
    """The nodes and the weights; four bits are in int8 and uint8."""
    narrow = {"i": TensorProto.INT4, "u": TensorProto.UINT4}[stored.dtype.kind] if block else None
    names = ["q", "s", "z"][:2 if zero is None else 3]
    attributes: dict[str, Any] = {"block_size": block} if block else {}
    node = helper.make_node("DequantizeLinear", names, ["w"], axis=axis, **attributes)
    constants = [_constant("q", stored, narrow), _constant("s", scale), _constant("z", zero, narrow)]
    zeros, scales = (np.repeat(each, block, axis) if block else each for each in (
        np.zeros_like(scale) if zero is None else zero.astype(np.float32), scale))
    real: Array = (stored.astype(np.float32) - zeros) * scales
    return ([node], [each for each in constants if each is not None]), real


def _constant(name: str, data: Array | None, narrow: int | None = None) -> Any:
    if data is None or narrow is None:
        return None if data is None else numpy_helper.from_array(np.asarray(data), name)
    return helper.make_tensor(name, narrow, data.shape, data.reshape(-1).tolist())


def of_few_bits(bits: int) -> tuple[Any, Array]:
    """MatMulNBits, whose stored numbers are those of (columns, blocks, block)."""
    stored = drawn((COLUMNS, DEPTH // BLOCK, BLOCK), 0, 1 << bits, "uint8")
    packed = stored if bits == 8 else stored[..., ::2] | stored[..., 1::2] << 4
    node = helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", K=DEPTH, N=COLUMNS,
                            bits=bits, block_size=BLOCK)
    scales = np.ascontiguousarray(SCALES.T)
    real = (stored.astype(np.float32) - (1 << bits - 1)) * scales[..., None]
    return ([node], [_constant("q", packed), _constant("s", scales.reshape(-1))]), real.reshape(COLUMNS, -1).T


CASES: dict[str, tuple[Callable[[], tuple[Any, Array]], float]] = {
    "one scale": (lambda: dequantized(drawn((DEPTH, COLUMNS), -128, 128, "int8"), SCALES[0, 0], None, 1), 0.27),
    "columns": (lambda: dequantized(drawn((DEPTH, COLUMNS), 0, 256, "uint8"), SCALES[0], drawn(
        (COLUMNS,), 0, 256, "uint8"), 1), 0.27),
    "blocks": (lambda: dequantized(drawn((DEPTH, COLUMNS), -8, 8, "int8"), SCALES, None, 0, BLOCK), 0.17),
    "blocks with zero points": (lambda: dequantized(drawn((DEPTH, COLUMNS), 0, 16, "uint8"), SCALES, drawn(
        SCALES.shape, 0, 16, "uint8"), 0, BLOCK), 0.2),
    "four bits": (lambda: of_few_bits(4), 0.17),
    "eight bits": (lambda: of_few_bits(8), 0.3),
}


@pytest.mark.parametrize(("made", "part"), CASES.values(), ids=CASES)
def test_weights_are_kept_as_they_are_stored(made: Callable[[], tuple[Any, Array]], part: float) -> None:
    (nodes, constants), weights = made()
    if nodes[0].op_type == "DequantizeLinear":
        nodes = [*nodes, helper.make_node("MatMul", ["x", "w"], ["y"])]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", DEPTH])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", [given], [result], constants)
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    session = circlet.Session(model.SerializeToString(), "native")
    for rows in (1, 20):
        x = np.random.default_rng(rows).standard_normal((rows, DEPTH)).astype(np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-4)
    (backend,) = [each for each in session._executors.span_backends if isinstance(each, NativeBackend)]
    kept = sum(each.constants.nbytes for each in backend._functions.values() if each is not None)
    assert kept < part * weights.nbytes
