"""Planes of two or three rows or columns are turned a vector at a time: pixels to planes of channels, and back."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import Transpose
from tests.native.against_cpu import values
from tests.native.test_budget import session_of

KINDS = [np.float32, np.uint8, np.int16, np.float64, np.bool_]
COUNTS = (1, 7, 15, 16, 17, 31, 64, 5000)


def turning(kind: type[np.generic], shape: tuple[int, ...], axes: tuple[int, ...]) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(Transpose(), main.input("x", DType.of(np.dtype(kind)), shape),
                           main.constant(np.array(axes, np.int32))))
    return b.build()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("is_last", [False, True])
def test_any_number_of_pixels(kind: type[np.generic], width: int, is_last: bool) -> None:
    shape = (-1, -1, -1, width) if is_last else (-1, width, -1, -1)
    axes = (0, 3, 1, 2) if is_last else (0, 2, 3, 1)
    session = circlet.Session(turning(kind, shape, axes), "native", num_threads=2)
    for images, count in product((1, 3), COUNTS):
        sizes = [images, 1 + count % 2, count]
        x = values((*sizes, width) if is_last else (sizes[0], width, *sizes[1:]), kind, count)
        np.testing.assert_array_equal(session.invoke(0, [x])[0], x.transpose(axes), strict=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 5), (3, 16), (16, 3), (40, 2), (3, 3), (2, 2), (1000, 3), (3, 777)])
def test_of_known_sizes(kind: type[np.generic], shape: tuple[int, int]) -> None:
    x = values(shape, kind, 1)
    np.testing.assert_array_equal(circlet.Session(turning(kind, shape, (1, 0)), "native").invoke(0, [x])[0], x.T)


@pytest.mark.parametrize(("shape", "axes"), [((-1, 3), (1, 0)), ((3, -1), (1, 0)), ((-1, 2, -1), (0, 2, 1))])
def test_vectors_are_exchanged(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    session, backend = session_of(turning(np.float32, shape, axes))
    x = values(tuple(40 if size < 0 else size for size in shape), np.float32, 1)
    np.testing.assert_array_equal(session.invoke(0, [x])[0], x.transpose(axes))
    (listing,) = backend.listings
    assert "shufflevector" in listing.module
    assert "transpose_32" not in listing.module
