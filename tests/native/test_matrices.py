"""Products by registers of matrices have the bits of all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from llvmlite import ir

import circlet
from circlet.backends.native.check.watched import OUTSIDE
from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.load import llvm
from circlet.backends.native.targets import machine
from circlet.backends.native.targets.amx import Amx
from circlet.backends.native.targets.target import LAST_LEFT, LEFT, Goal
from circlet.backends.native.targets.x86_64 import X86
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization, Shape
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.test_bounds import SIZE, status_of
from tests.ops.cases import q

RANDOM = np.random.default_rng(11)
MATRICES = pytest.mark.skipif(llvm.host().matrices() is None, reason="the processor has no registers of matrices")
FEATURES = "+avx512bw,+avx512f,+amx-int8,+amx-tile"


@pytest.fixture
def shaped(monkeypatch: pytest.MonkeyPatch, folder: object) -> list[int]:
    """Grows by one with each product that is written for matrices; none was before."""
    found: list[int] = []
    shape = Amx.shape

    def counted(self: Amx, w: Emitter, words: int) -> None:
        found.append(words)
        shape(self, w, words)

    monkeypatch.setattr(Amx, "shape", counted)
    return found


def weights(g: SubgraphBuilder, *shape: int) -> Value:
    scales = tuple(float(each) for each in RANDOM.uniform(0.002, 0.02, shape[0]).astype(np.float32))
    return g.constant(RANDOM.integers(-128, 128, shape).astype(np.int8),
                      quantization=Quantization(scales, (0,) * shape[0], axis=0))


def model(op: Op, given: Shape, *filter: int, dtype: DType = DType.INT8) -> Model:
    """An operator on a tensor with a zero point, weights and a bias."""
    b = ModelBuilder()
    g = b.subgraph("main")
    is_wide = dtype is DType.INT16
    bias = g.constant(RANDOM.integers(-9000, 9000, filter[0]).astype(np.int64 if is_wide else np.int32))
    result = Tensor("", dtype, (), has_rank=False, quantization=q(0.05, 0 if is_wide else 3))
    g.output(*g.op(op, g.input("x", dtype, given, q(0.02, 0 if is_wide else -7)), weights(g, *filter), bias,
                   outputs=[result]))
    return b.build()


def compare(made: Model, shapes: Sequence[Shape], threads: int = 1) -> None:
    native, cpu = (circlet.Session(made, each, num_threads=threads) for each in ("native", "cpu"))
    dtype = made.subgraphs[0].tensors[made.subgraphs[0].inputs[0]].dtype.numpy
    limits = np.iinfo(dtype)
    for shape in shapes:
        x = RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)
        (found,), (expected,) = (list(each.run({"x": x}).values()) for each in (native, cpu))
        np.testing.assert_array_equal(found, expected)
    assert set(native.backend_of(0)) == {"native"}


@MATRICES
@pytest.mark.parametrize(("rows", "depth", "columns"), [
    (8, 32, 1), (9, 33, 15), (16, 64, 16), (15, 63, 17), (17, 65, 64), (31, 100, 65), (32, 128, 130), (47, 130, 48),
    (48, 252, 33), (100, 256, 200), (33, 1500, 70), (16, 9000, 20),
])
def test_rows(shaped: list[int], rows: int, depth: int, columns: int) -> None:
    compare(model(FullyConnected(), (rows, depth), columns, depth), [(rows, depth)])
    assert len(shaped) == 1


@MATRICES
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("depth", "columns"), [(32, 5), (64, 64), (70, 100), (516, 48)])
def test_open_rows(shaped: list[int], folder: object, compiled: list[str], depth: int, columns: int,
                   threads: int) -> None:
    rows = (40, 1, 2, 7, 16, 17, 64, 15, 33, 300, 31, 5)
    compare(model(FullyConnected(Activation.RELU), (-1, depth), columns, depth), [(each, depth) for each in rows],
            threads)
    assert shaped
    assert len(compiled) == 1


@MATRICES
@pytest.mark.parametrize(("op", "filter"), [
    (Conv2D(Padding.SAME, 1, 1), (40, 3, 3, 32)), (Conv2D(Padding.VALID, 2, 2), (64, 3, 3, 32)),
    (Conv2D(Padding.SAME, 1, 1), (33, 1, 1, 64)), (Conv2D(Padding.SAME, 2, 1), (70, 5, 1, 48)),
    (Conv2D(Padding.SAME, 1, 1, dilation_w_factor=2, dilation_h_factor=3), (17, 3, 2, 36)),
    (Conv2D(Padding.VALID, 1, 1), (20, 2, 2, 50)),
])
@pytest.mark.parametrize("opened", [False, True])
def test_images(shaped: list[int], op: Conv2D, filter: Shape, opened: bool) -> None:
    """In groups, too, where a filter has half of the channels."""
    for groups in (1, 2):
        channels, results = filter[3] * groups, filter[0] * groups
        sizes = [(1, 13, 11), (2, 9, 14), (3, 8, 8), (1, 20, 16)]
        for size in ([(-1, -1, -1)] if opened else sizes[:2]):
            made = model(op, (*size, channels), results, *filter[1:])
            compare(made, [(*each, channels) for each in (sizes if opened else [size])])
    assert shaped


@MATRICES
def test_activations_of_16_bits(shaped: list[int]) -> None:
    compare(model(FullyConnected(quantized_bias_type=DType.INT64), (20, 5000), 30, 5000, dtype=DType.INT16),
            [(20, 5000)])
    assert len(shaped) == 2, "upper and lower bytes"


@MATRICES
def test_bounds_assertions(shaped: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CHECK_BOUNDS", "1")
    compare(model(FullyConnected(), (-1, 70), 40, 70), [(5, 70), (16, 70), (37, 70)])
    compare(model(Conv2D(Padding.SAME, 1, 1), (1, 9, 11, 36), 20, 3, 3, 36), [(1, 9, 11, 36)])
    assert shaped


def load_rows(e: Emitter, place: ir.Value, distance: int, register: int, words: int | None = None) -> None:
    registers = e.target.matrices()
    assert registers is not None
    registers.shape(e, words or 16)
    registers.load(e, register, place, e.number(distance), None if words is None else e.number(words))
    registers.store(e, 0, e.slot(ir.VectorType(I8, 64), 16), e.number(64))
    registers.release(e)


@MATRICES
@pytest.mark.parametrize(("offset", "distance", "register", "words", "is_right"), [
    (0, 0, LEFT, None, True), (0, 1, LEFT, None, SIZE >= 79), (SIZE - 64, 0, LEFT, None, True),
    (SIZE - 63, 0, LEFT, None, False), (0, SIZE, LEFT, None, False), (-1, 0, LEFT, None, False),
    (SIZE - 12, 0, LAST_LEFT, 3, True), (SIZE - 11, 0, LAST_LEFT, 3, False),
])
def test_rows_that_are_loaded_are_checked(offset: int, distance: int, register: int, words: int | None,
                                          is_right: bool) -> None:
    status, _, around = status_of(lambda e, buffer: load_rows(e, e.address(buffer, I8, offset), distance, register,
                                                              words))
    assert status == (0 if is_right else OUTSIDE)
    assert not around


def test_processors_that_have_matrices() -> None:
    def target(features: str, goal: Goal = Goal.HERE) -> X86:
        return X86("x86_64-unknown-linux-gnu", "generic", features, "e", goal)

    assert target(FEATURES).matrices() is not None
    assert target(FEATURES.replace("+amx-int8", "-amx-int8")).matrices() is None
    assert target(FEATURES, Goal.SPEED).matrices() is None, "a program elsewhere has not asked its system"


def test_a_system_that_lets_no_process_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "has_matrices", lambda: False)
    llvm.host.cache_clear()
    try:
        assert llvm.host().matrices() is None
        assert "+amx" not in llvm.host().features
    finally:
        llvm.host.cache_clear()
    assert not machine._may_use_matrices("flags: avx512f")
