"""Operators of `com.microsoft` that models are written with: against ONNX Runtime, or, where its processor kernels have
none, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from tests.schema.onnx.test_fused import call, real, weights
from tests.schema.onnx.test_qlinear import LENGTHS, Array, Call, content, inference, value

BOTH = ["cpu", "native"]
CALLS = [
    call("TransposeMatMul", real(5, 6), real(7, 6), alpha=0.5, transB=1),
    *(call("Trilu", real(5, 6), np.array(offset), upper=upper) for offset, upper in ((0, 1), (-1, 1), (2, 0))),
    call("GatherND", real(5, 3), np.array([[0, 1], [0, -2]])),
    call("Pad", real(5), np.array([0, 1, 0, 2]), np.array([0.5], np.float32)),
    call("Pad", real(5), np.array([0, 2, 0, 1]), mode="reflect"),
    call("Inverse", real(3, 3)),
    *(call("CDist", real(6), weights(4, 6), metric=metric) for metric in ("euclidean", "sqeuclidean")),
]


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("case", CALLS, ids=[f"{case.op}-{k}" for k, case in enumerate(CALLS)])
def test_as_onnxruntime(case: Call, backend: str) -> None:
    model = content(case)
    peer, session = inference(model), circlet.Session(circlet.load(model), backend=backend)
    for n in LENGTHS:
        given = {f"x{k}": value((n, *each[0][1:]), each[1], n + k) for k, each in enumerate(case.inputs)
                 if isinstance(each, tuple)}
        (expected,), (found,) = peer.run(None, given), session.run(given).values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, strict=True)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("axis", [1, -1])
def test_expand_dims(axis: int, backend: str) -> None:
    """As numpy's: ONNX Runtime 1.23 ends the process."""
    session = circlet.Session(circlet.load(content(call("ExpandDims", real(5), np.array(axis, np.int32)))), backend)
    for n in LENGTHS:
        x = value((n, 5), "float32", n)
        np.testing.assert_array_equal(session.invoke(0, [x])[0], np.expand_dims(x, axis), strict=True)


@pytest.mark.parametrize("backend", BOTH)
def test_greatest_of_images_with_channels_last(backend: str) -> None:
    model = content(Call("NhwcMaxPool", (((4, 6, 7, 3), "uint8"),), "uint8", {
        "kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]}))
    peer, session = inference(model), circlet.Session(circlet.load(model), backend=backend)
    for n in LENGTHS:
        x = np.random.default_rng(n).integers(0, 255, (n, 6, 7, 3)).astype(np.uint8)
        np.testing.assert_array_equal(session.invoke(0, [x])[0], peer.run(None, {"x0": x})[0])


@pytest.mark.parametrize("backend", BOTH)
def test_convolution_with_channels_last(backend: str) -> None:
    """As of the same images with channels first by ONNX's own, which ONNX Runtime's optimiser fuses nothing with."""
    filters, bias = weights(5, 3, 3, 3), weights(5)
    attributes = {"pads": [1, 0, 1, 2], "strides": [2, 1], "kernel_shape": [3, 3]}
    last, first = (circlet.Session(circlet.load(content(call(op, real(*shape), filters, bias, **attributes))), backend)
                   for op, shape in (("NhwcConv", (8, 9, 3)), ("FusedConv", (3, 8, 9))))
    for n in LENGTHS:
        x = value((n, 8, 9, 3), "float32", n)
        expected = first.invoke(0, [np.ascontiguousarray(x.transpose(0, 3, 1, 2))])[0].transpose(0, 2, 3, 1)
        np.testing.assert_allclose(last.invoke(0, [x])[0], expected, rtol=1e-5, atol=1e-5)


SCALE, SHIFT = weights(6), weights(6)


def by_groups(x: Array, activation: int) -> Array:
    """Of images with channels last, in three groups."""
    parts = x.astype(np.float64).reshape(len(x), -1, 3, 2)
    centred = parts - parts.mean((1, 3), keepdims=True)
    normal = (centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-3)).reshape(x.shape)
    found = normal * SCALE + SHIFT
    result: Array = found / (1 + np.exp(-found)) if activation else found
    return result


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("is_last", [0, 1])
def test_groups(is_last: int, activation: int, backend: str) -> None:
    shape = (4, 5, 6) if is_last else (6, 4, 5)
    session = circlet.Session(circlet.load(content(call(
        "GroupNorm", real(*shape), SCALE, SHIFT, groups=3, activation=activation, channels_last=is_last,
        epsilon=1e-3))), backend)
    for n in LENGTHS:
        x = value((n, 4, 5, 6), "float32", n)
        found = session.invoke(0, [x if is_last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))])[0]
        np.testing.assert_allclose(found if is_last else found.transpose(0, 2, 3, 1), by_groups(x, activation),
                                   rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("skip", [(4, 5, 6), (1, 1, 6), (6,)], ids=str)
def test_groups_of_a_sum(skip: tuple[int, ...], backend: str) -> None:
    bias = weights(6)
    model = content(call("SkipGroupNorm", real(4, 5, 6), SCALE, SHIFT, real(*skip), bias, groups=3, activation=1,
                         epsilon=1e-3))
    session = circlet.Session(circlet.load(model), backend)
    for n in LENGTHS:
        x, more = value((n, 4, 5, 6), "float32", n), value((n, *skip), "float32", n + 1)
        total = x + (more[:, None, None] if len(skip) == 1 else more) + bias
        np.testing.assert_allclose(session.invoke(0, [x, more])[0], by_groups(total, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("case", "error", "message"), [
    (call("GroupNorm", real(4, 5, 6), SCALE, SHIFT, groups=4, activation=0), ModelError, "6 channels, 4 groups"),
    (call("CDist", real(6), weights(4, 6), metric="cosine"), UnsupportedError, "metric 'cosine'"),
    (call("Inverse", real(9, 9)), UnsupportedError, "of up to 8 rows"),
    (call("ExpandDims", real(5), np.array(4, np.int32)), ModelError, "axis: expected -3 to 2, found 4"),
], ids=["groups", "metric", "rows", "axis"])
def test_refused(case: Call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        circlet.load(content(case))
