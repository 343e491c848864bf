"""Products of int16 with int8 weights whose sums do not fit into 32 bits: equal to the bit to the numpy backend's."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import cache, llvm
from circlet.backends.native.targets.target import Goal, Target
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization, Shape
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.quantized_models import Array, stored
from tests.native.test_targets import Words, plain
from tests.ops.cases import check, q

ROWS, IMAGE = FullyConnected(Activation.RELU, keep_num_dims=True), Conv2D(Padding.SAME, 1, 1)
CASES: dict[str, tuple[Op, Shape, Shape]] = {
    "rows": (ROWS, (-1, 1100), (37, 1100)),
    "a column": (ROWS, (-1, 1500), (1, 1500)),
    "windows": (IMAGE, (-1, -1, 5, 150), (20, 3, 3, 150)),
    "pixels": (Conv2D(Padding.VALID, 2, 2, Activation.RELU6), (-1, -1, 6, 1033), (33, 1, 1, 1033)),
    "groups": (IMAGE, (-1, -1, 4, 400), (14, 3, 1, 200)),
    "taps apart": (Conv2D(Padding.SAME, 1, 1, dilation_w_factor=2, dilation_h_factor=2), (1, -1, 7, 140),
                   (9, 3, 3, 140)),
}
SCALES = np.linspace(0.5, 2.0, 40) * 2.0**-24
MADE = 1 / 32


def model(op: Op, image: Shape, weights: Shape, bias: DType | None) -> Model:
    """Of one operator; the weights of the first column are the least, of the second one the greatest ones."""
    b = ModelBuilder()
    main = b.subgraph("main")
    numbers = np.maximum(stored(weights, DType.INT8, 3), -127).astype(np.int8)
    numbers[:1], numbers[1:2] = -127, 127
    scales = tuple(float(np.float32(each)) for each in SCALES[:weights[0]])
    added = None if bias is None else main.constant(
        np.random.default_rng(1).integers(-1 << 20, 1 << 20, weights[0]).astype(bias.numpy))
    x = main.input("x", DType.INT16, image, q(1.0))
    w = main.constant(numbers, quantization=Quantization(scales, (0,) * len(scales)))
    main.output(*main.op(op, x, w, added, outputs=[
        Tensor("y", DType.INT16, (), has_rank=False, quantization=q(MADE))]))
    return b.build()


def inputs(image: Shape, lengths: tuple[int, int]) -> Array:
    """What is stored, and in the first image or row the least number alone."""
    sizes = iter(lengths)
    found = stored(tuple(next(sizes) if each < 0 else each for each in image), DType.INT16, 7)
    found[:1] = -32768
    return found


@pytest.mark.parametrize("bias", [DType.INT64, None])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_64_bits(name: str, threads: int, bias: DType | None) -> None:
    op, image, weights = CASES[name]
    made = model(op, image, weights, bias)
    native, cpu = circlet.Session(made, "native", num_threads=threads), circlet.Session(made, "cpu")
    assert native.backend_of(0) == ("native",)
    for lengths in ((2, 5), (1, 1), (3, 40), (70, 3), (1, 2), (0, 2)):
        given = inputs(image, lengths)
        (found,), (wanted,) = native.invoke(0, [given]), cpu.invoke(0, [given])
        check(found, wanted, None)


@pytest.mark.parametrize(("kind", "goal"), [(Target, Goal.HERE), (Target, Goal.SIZE), (Words, Goal.SIZE)])
@pytest.mark.parametrize("name", ["rows", "windows", "groups"])
def test_on_processors_of_which_nothing_is_known(name: str, kind: type[Target], goal: Goal,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    op, image, weights = CASES[name]
    made = model(op, image, weights, DType.INT64)
    monkeypatch.setattr(llvm, "host", lambda: plain(kind, goal))
    monkeypatch.setenv(cache.VARIABLE, "")
    given = inputs(image, (2, 3))
    (found,), (wanted,) = (circlet.Session(made, each).invoke(0, [given]) for each in ("native", "cpu"))
    check(found, wanted, None)


@pytest.mark.parametrize(("op", "bias", "is_native"), [
    (IMAGE, DType.INT32, False), (ROWS, DType.INT32, True), (ROWS, DType.INT64, True)])
def test_the_type_of_the_bias(op: Op, bias: DType, is_native: bool) -> None:
    """Convolutions whose bias has 32 bits scale sums of 32 bits."""
    image, weights = ((2, 1100), (5, 1100)) if op is ROWS else ((1, 2, 2, 300), (5, 3, 3, 300))
    made = model(op, image, weights, bias)
    assert circlet.Session(made, "native").backend_of(0) == (("native",) if is_native else ("cpu",))
    (found,), (wanted,) = (circlet.Session(made, each).invoke(0, [inputs(image, (1, 1))])
                           for each in ("native", "cpu"))
    check(found, wanted, None)


def test_how_far_sums_reach_is_found_in_little_memory() -> None:
    """Of a million weights, which are a byte each."""
    made = model(ROWS, (-1, 1 << 15), (32, 1 << 15), None)
    circlet.Session(made, "native").backend_of(0)
    tracemalloc.start()
    try:
        circlet.Session(made, "native").backend_of(0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20
