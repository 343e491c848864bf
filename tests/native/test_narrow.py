"""Constants that are kept as the model has them, in fewer bits than are computed with: the results of a session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llvmlite import ir

import circlet
from circlet.backends.arithmetic.gates import INT16, LOGISTIC, TANH
from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.gemm.stored import Integers
from circlet.backends.native.load import cache, llvm
from circlet.backends.native.rules.narrow import are_halves
from circlet.backends.native.rules.recurrent import gate_functions
from circlet.backends.native.targets.target import Goal, Target
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Padding, Quantization
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.passes.analyses import specialize
from tests.native.compiled import call_of
from tests.native.test_targets import HOST, Words, plain

Array = npt.NDArray[Any]


class Extending(Words):
    """Adds any byte of a word to a word, and has registers for four columns."""

    @property
    def vector_registers(self) -> int:
        return 16

    @property
    def has_extending_sums(self) -> bool:
        return True


TARGETS: dict[str, Target] = {"vectors": replace(HOST, goal=Goal.SPEED), "words": plain(Words, Goal.SIZE),
                              "bytes of words": plain(Extending, Goal.SIZE)}
KINDS = (DType.FLOAT16, DType.INT8, DType.UINT8, DType.INT16, DType.INT4)


def constant(dtype: DType, shape: tuple[int, ...], axis: int | None, seed: int) -> Tensor:
    """Weights, with a scale for each index along an axis or one for all, and zero points."""
    random = np.random.default_rng(seed)
    if dtype is DType.FLOAT16:
        return Tensor("w", dtype, shape, data=random.standard_normal(shape).astype(np.float16))
    count = 1 if axis is None else shape[axis]
    zeros = random.integers(-3, 4, count) if dtype is not DType.UINT8 else random.integers(100, 140, count)
    known = Quantization(tuple(map(float, random.uniform(0.01, 0.1, count).astype(np.float32))),
                         tuple(map(int, zeros)), axis or 0)
    if dtype is DType.INT4:
        data = random.integers(0, 256, -(-int(np.prod(shape)) // 2)).astype(np.uint8)
    else:
        limits = np.iinfo(dtype.numpy)
        data = random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype.numpy)
    return Tensor("w", dtype, shape, data=data, quantization=known)


def model(kind: str, dtype: DType, axis: int | None, seed: int) -> tuple[Model, Array]:
    """An operator on a constant that is dequantised, and what it is given."""
    given, weights = {"dense": ((3, 7), (5, 7)), "row": ((1, 7), (9, 7)),
                      "eight": ((5, 7), (8, 7)), "conv": ((1, 5, 4, 2), (5, 3, 2, 2)),
                      "depthwise": ((1, 5, 4, 3), (1, 3, 2, 3)), "add": ((2, 5, 3), (5, 3))}[kind]
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, given)
    stored = main.tensor(constant(dtype, weights, axis, seed))
    (w,) = main.op(Dequantize(), stored, outputs=[Tensor("real", DType.FLOAT32, weights)])
    if kind in ("dense", "row", "eight"):
        y = main.apply(FullyConnected(), x, w, None)
    elif kind == "conv":
        y = main.apply(Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1), x, w, None)
    elif kind == "depthwise":
        y = main.apply(DepthwiseConv2D(padding=Padding.SAME, stride_h=1, stride_w=1, depth_multiplier=1), x, w, None)
    else:
        y = main.apply(Add(), x, w)
    main.output(y)
    return b.build(), np.random.default_rng(seed).standard_normal(given).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=25, deadline=None)
@given(kind=st.sampled_from(["dense", "row", "eight", "conv", "depthwise", "add"]), dtype=st.sampled_from(KINDS),
       axis=st.sampled_from([None, 0, 1]), seed=st.integers(0, 1 << 32))
@example(kind="eight", dtype=DType.INT8, axis=0, seed=0)
@example(kind="eight", dtype=DType.UINT8, axis=0, seed=0)
def test_dequantised_constants(kind: str, dtype: DType, axis: int | None, seed: int, target: str) -> None:
    built, x = model(kind, dtype, axis, seed)
    (expected,) = circlet.Session(built, "cpu").run([x]).values()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(cache.VARIABLE, "")
        monkeypatch.setattr(llvm, "host", lambda: TARGETS[target])
        (found,) = circlet.Session(built, "native").run([x]).values()
    if kind == "add":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("rows", [3, -1])
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("dtype", KINDS)
def test_constants_that_are_dequantised_in_each_run(dtype: DType, axis: int | None, rows: int,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """As large ones are whose elements share bytes, by the host."""
    monkeypatch.setattr(specialize, "_worth_keeping", lambda *_: False)
    b = ModelBuilder()
    main = b.subgraph("main")
    x, stored = main.input("x", DType.FLOAT32, (rows, 7)), main.tensor(constant(dtype, (5, 7), axis, 0))
    (w,) = main.op(Dequantize(), stored, outputs=[Tensor("real", DType.FLOAT32, (5, 7))])
    y = Tensor("y", DType.FLOAT32, (max(rows, 1), 5), shape_signature=(rows, 5))
    main.output(w, *main.op(FullyConnected(), x, w, None, outputs=[y]))
    built, value = b.build(), np.random.default_rng(1).standard_normal((3, 7)).astype(np.float32)
    (expected, product), (found, other) = (
        circlet.Session(built, each).invoke(0, [value]) for each in ("cpu", "native"))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(other, product, rtol=2e-6, atol=2e-5 * float(np.abs(product).max()))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize(("parts", "bits", "shift"), [(4, 4, 0), (2, 8, 0), (2, 8, -100), (2, 4, 0), (2, 4, 3)])
def test_words_of_integers(parts: int, bits: int, shift: int, lanes: int) -> None:
    """All values that parts have, with a sign or counted from a number."""
    low = -(1 << bits - 1) + shift
    values = np.resize(np.arange(low, low + (1 << bits)), 64 * parts * lanes)
    width = 32 // parts
    words = values.astype(f"i{width // 8}").view(np.int32).reshape(1, -1)
    kept = Integers.of(parts, bits, values)
    stored = kept.kept(words)

    def write(e: Emitter, source: ir.Value, target: ir.Value) -> None:
        for step in range(words.size // lanes):
            (found,) = kept.words(e, e.address(source, ir.IntType(8), step * kept.step_bytes(lanes)), 1, lanes, ())
            e.builder.store(found, e.address(target, I32, step * lanes), align=4)

    found = np.zeros_like(words)
    call_of(write)(stored, found)
    np.testing.assert_array_equal(found, words)


@pytest.mark.parametrize("bits", [4, 8])
def test_single_integers(bits: int) -> None:
    values = np.arange(-(1 << bits - 1), (1 << bits - 1) - 1)
    kept = Integers.of(1, bits, values)

    def write(e: Emitter, source: ir.Value, target: ir.Value) -> None:
        for k in range(len(values)):
            e.builder.store(kept.element(e, source, e.number(k)), e.address(target, I32, k))

    found = np.zeros(len(values), np.int32)
    call_of(write)(kept.elements(values), found)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(("function", "expected"), [(gate_functions.logistic, LOGISTIC), (gate_functions.tanh, TANH)])
def test_functions_of_gates(function: Any, expected: Array) -> None:
    """Of every number of 16 bits."""
    def write(e: Emitter, source: ir.Value, target: ir.Value) -> None:
        with e.loop(len(INT16)) as k:
            value = function(e, e.builder.load(e.address(source, I32, k), typ=I32), 3)
            e.builder.store(value, e.address(target, I32, k))

    found = np.zeros(len(INT16), np.int32)
    call_of(write)(INT16.astype(np.int32), found)
    np.testing.assert_array_equal(found, expected)


def test_numbers_that_float16_has() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.tile(halves[np.isfinite(halves)], 3)
    assert are_halves(finite)
    assert are_halves(finite[:0])
    for other in (0.1, 65520, 65504 + 16, 2.0 ** -25, 2.0 ** -14 + 2.0 ** -26, -(2.0 ** -24) * 1.5, np.inf):
        for place in (0, 5000, finite.size - 1):
            found = finite.copy()
            found[place] = other
            assert not are_halves(found), other
