"""Rows of a few bytes, of which only the run tells how many, are copied by registers and parts of them."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import Concatenation, Slice
from circlet.runtime.ops.pad import Pad
from tests.exec.graphs import Array
from tests.native.test_budget import session_of
from tests.native.test_outlined import defined
from tests.needs import NATIVE

pytestmark = NATIVE
BYTES = [each + k for each in (4, 8, 16, 32, 64, 128, 256, 512) for k in (-1, 0, 1)] + [1, 2, 24, 100]


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_every_byte_is_copied_and_no_other(rows: int) -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x, y = (main.input(each, DType.INT8, (-1, -1)) for each in "xy")
    both = main.apply(Concatenation(1), x, y)
    begin, sizes = (main.constant(np.array(each, np.int32)) for each in ([0, 1], [-1, -1]))
    rest = main.apply(Slice(), x, begin, sizes)
    main.output(both, rest)
    session = circlet.Session(builder.build(), "native")
    random = np.random.default_rng(0)
    for size in BYTES:
        for other in (1, 7, size):
            given = [random.integers(-128, 128, (rows, each), np.int8) for each in (size + 1, other)]
            beside, cut = session.invoke(0, given)
            np.testing.assert_array_equal(beside, np.concatenate(given, 1), strict=True)
            np.testing.assert_array_equal(cut, given[0][:, 1:], strict=True)


def images() -> Model:
    """Images of any size beside each other, along each axis, and within margins of two axes, of which the runs lie at
    uneven distances."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x, y = (main.input(each, DType.FLOAT32, (-1, -1, -1, 12)) for each in "xy")
    cut = main.apply(Slice(), x, main.constant([0, 0, 0, 0]), main.constant([-1, -1, -1, 5]))
    around = main.constant(np.array([(0, 0), (1, 2), (3, 1), (0, 0)], np.int32))
    main.output(*(main.apply(Concatenation(axis), x, y) for axis in range(4)), main.apply(Concatenation(3), y, cut),
                main.apply(Pad(), x, around))
    return builder.build()


def given(size: tuple[int, int, int]) -> tuple[Array, Array]:
    random = np.random.default_rng(1)
    left, right = (random.normal(size=(*size, 12)).astype(np.float32) for _ in range(2))
    return left, right


@pytest.mark.parametrize("threads", [1, 2])
def test_images_beside_each_other(threads: int) -> None:
    session = circlet.Session(images(), "native", num_threads=threads)
    for size in [(1, 1, 1), (2, 5, 7), (3, 160, 90), (1, 400, 3)]:
        left, right = given(size)
        expected = [np.concatenate([left, right], axis) for axis in range(4)]
        expected += [np.concatenate([right, left[..., :5]], 3), np.pad(left, [(0, 0), (1, 2), (3, 1), (0, 0)])]
        for found, each in zip(session.invoke(0, [left, right]), expected, strict=True):
            np.testing.assert_array_equal(found, each, strict=True)


def test_one_function_copies_all() -> None:
    session, backend = session_of(images())
    session.invoke(0, given((2, 5, 7)))
    (listing,) = backend.listings
    assert defined(listing).count("copy_runs") == 1


@pytest.mark.parametrize("width", [31, 32, 33])
def test_parts_of_known_lengths_are_copied_by_one_function(width: int) -> None:
    """Rows of 128 bytes and more are."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    parts = [main.input(f"x{k}", DType.FLOAT32, (2, 5, width + k)) for k in range(8)]
    main.output(main.apply(Concatenation(2), *parts), main.apply(Concatenation(1), *parts[:1] * 3))
    session, backend = session_of(builder.build())
    random = np.random.default_rng(0)
    values = [random.normal(size=(2, 5, width + k)).astype(np.float32) for k in range(8)]
    joined, repeated = session.invoke(0, values)
    np.testing.assert_array_equal(joined, np.concatenate(values, 2), strict=True)
    np.testing.assert_array_equal(repeated, np.concatenate(values[:1] * 3, 1), strict=True)
    (listing,) = backend.listings
    assert listing.module.count('call void @"copy_runs"') == 8 - (width < 32) + 3


@pytest.mark.parametrize("sizes", [(0, 64), (1, 64), (3, 0), (2, 1, 64), (1, 3, 64)])
def test_parts_of_known_lengths_of_few_rows_or_none(sizes: tuple[int, ...]) -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.FLOAT32, sizes)
    main.output(*(main.apply(Concatenation(axis), x, x) for axis in range(len(sizes))))
    value = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    for axis, found in enumerate(circlet.Session(builder.build(), "native").invoke(0, [value])):
        np.testing.assert_array_equal(found, np.concatenate([value, value], axis), strict=True)
