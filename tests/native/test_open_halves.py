"""Open numbers of rows times weights whose numbers float16 has: the first tile widens them for all others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, Array, DType, Padding, Shape
from circlet.runtime.ops.conv import Conv2D, Conv3D
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from tests.native.against_cpu import values
from tests.native.test_budget import session_of
from tests.native.test_outlined import defined

CASES: dict[str, tuple[Op, Shape, Callable[[int], Shape]]] = {
    "rows": (FullyConnected(), (333, 420), lambda n: (n, 420)),
    "deep rows": (FullyConnected(Activation.RELU), (70, 2600), lambda n: (n, 2600)),
    "columns first": (BatchMatMul(), (420, 333), lambda n: (n, 420)),
    "taps": (Conv2D(Padding.SAME, 1, 1, Activation.RELU6), (96, 3, 3, 96), lambda n: (2, n, 5, 96)),
    "deep taps": (Conv2D(Padding.VALID, 2, 2), (40, 5, 5, 70), lambda n: (1, n + 4, 9, 70)),
    "dilated taps": (Conv2D(Padding.VALID, 1, 1, dilation_w_factor=4), (160, 1, 2, 256), lambda n: (n, 1, 7, 256)),
    "points": (Conv2D(Padding.SAME, 1, 1), (256, 1, 1, 300), lambda n: (2, n, 3, 300)),
    "volumes": (Conv3D(Padding.SAME, 1, 1, 1), (2, 2, 2, 64, 160), lambda n: (1, n, 3, 2, 64)),
}


def product(op: Op, weights: Array, shape: Shape) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(op, main.input("x", DType.FLOAT32, shape), main.constant(weights)))
    return b.build()


def halves(shape: Shape) -> Array:
    return (values(shape, np.float32, 0) / 16).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_results_have_the_bits_of_words(name: str, threads: int) -> None:
    """The results are those of weights of which one is no half, but for its column."""
    op, shape, given = CASES[name]
    weights = halves(shape)
    others = weights.copy()
    others.reshape(-1)[-1] = 0.1
    last = 0 if isinstance(op, Conv2D | FullyConnected) else -1
    kept = np.arange(shape[last])[:-1]
    signature = tuple(-1 if one != other else one for one, other in zip(given(1), given(2), strict=True))
    one, other = (circlet.Session(product(op, each, signature), "native", num_threads=threads)
                  for each in (weights, others))
    for n in (30, 1, 7, 14, 15, 100, 3, 28):
        x = values(given(n), np.float32, n)
        found, wanted = (each.invoke(0, [x])[0][..., kept] for each in (one, other))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_words_are_left(name: str) -> None:
    """No tile but the first of a panel, and those of few rows, widens anything."""
    op, shape, given = CASES[name]
    signature = tuple(-1 if one != other else one for one, other in zip(given(1), given(2), strict=True))
    session, backend = session_of(product(op, halves(shape), signature))
    session.invoke(0, [values(given(30), np.float32, 1)])
    tiles = {each for listing in backend.listings for each in defined(listing) if each.startswith("tile_")}
    widening = {each for each in tiles if each.endswith("_float16") and "to" not in each.split("_")[2]}
    assert widening
    assert all("w" in each.split("_")[2] for each in widening)
    assert any(not each.endswith("_float16") for each in tiles)
