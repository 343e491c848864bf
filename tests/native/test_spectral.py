"""Native code of complex numbers and of Fourier transforms, beside numpy's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.layout import ReverseV2
from circlet.runtime.ops.spectral import ComplexAbs, Dft, Imag, Real, Rfft2D
from tests.native.against_cpu import Formula, agree, values
from tests.native.native_cases import native_test
from tests.ops.test_spectral import PARTS, TRANSFORMS

test_cases = native_test([*PARTS, *TRANSFORMS])


def transformed(width: int, height: int = 1) -> Formula:
    """The parts and magnitudes of a transform, which is turned around in between, as it lies in memory."""
    def formula(g: SubgraphBuilder, *inputs: Value) -> Sequence[Value]:
        (found,) = g.op(Rfft2D(), *inputs, g.constant(np.array([height, width], np.int32)))
        (turned,) = g.op(ReverseV2(), found, g.constant(np.array([-1], np.int32)))
        return [*g.op(Real(), turned), *g.op(Imag(), turned), *g.op(ComplexAbs(), found)]

    return formula


@pytest.mark.parametrize("rows", [1, 7, 8, 19])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 8, 9, 15, 16, 25, 30, 64, 120, 400, 512])
def test_transforms(width: int, rows: int) -> None:
    agree(transformed(width), values((rows, 1, width), np.float32, width), floats=1e-6)


@pytest.mark.parametrize("height", [2, 3, 4, 8, 15, 16, 50])
@pytest.mark.parametrize("width", [1, 2, 5, 8, 9, 16, 30, 64])
def test_matrices(width: int, height: int) -> None:
    """Those given are as high, lower, higher and of other widths."""
    for rows, columns in ((height, width), (1, width + 3), (height + 5, max(width - 1, 1))):
        x = values((2, rows, columns), np.float32, width)
        expected = np.fft.rfft2(x.astype(np.float64), (height, width)).astype(np.complex64)
        session = circlet.Session(spectrum((2, rows, columns), height, width), backend="native")
        (found,) = session.invoke(0, [x])
        np.testing.assert_allclose(found, expected, 1e-6, 1e-6 * np.abs(expected).max(), strict=True)
        assert set(session.backend_of(0)) == {"native"}


def spectrum(shape: tuple[int, ...], height: int, width: int) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, shape)
    main.output(*main.op(Rfft2D(), x, main.constant(np.array([height, width], np.int32))))
    return b.build()


@pytest.mark.parametrize("height", [12, 1])
def test_open_matrices(height: int, folder: object, compiled: list[str]) -> None:
    """Of any number, height and width."""
    session = circlet.Session(spectrum((-1, -1, -1), height, 20), backend="native")
    for shapes in (((2, 12, 20), (3, 5, 40), (9, 30, 7), (5, 2, 2)), ((3, 0, 30), (3, 4, 0), (0, 12, 20))):
        for shape in shapes:
            x = values(shape, np.float32, 1)
            expected = np.fft.rfft2(x.astype(np.float64), (height, 20)).astype(np.complex64)
            found = session.invoke(0, [x])[0]
            np.testing.assert_allclose(found, expected, 1e-6, 1e-6 * np.abs(expected).max(initial=0))
        assert len(compiled) == 1 or 0 in shape
    assert set(session.backend_of(0)) == {"native"}


@pytest.mark.parametrize("given", [5, 16, 40])
def test_rows_are_cut_or_filled_up(given: int) -> None:
    agree(transformed(16), values((2, 3, given), np.float32, given), floats=1e-6)


def test_magnitudes_of_special_values() -> None:
    numbers = np.array([complex(np.inf, np.nan), complex(np.nan, -np.inf), complex(np.nan, 1), 3e38 + 3e38j, 1e-30j],
                       np.complex64)

    def formula(g: SubgraphBuilder, *inputs: Value) -> Sequence[Value]:
        return g.op(ComplexAbs(), *inputs)

    agree(formula, numbers)


def test_lengths_are_open() -> None:
    """One function computes any number of rows, and asks nothing of the host."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 1, 16))
    main.output(*main.op(ComplexAbs(), *main.op(Rfft2D(), x, main.constant(np.array([1, 16], np.int32)))))
    session = circlet.Session(b.build(), backend="native")
    for rows in (3, 1, 9, 30):
        given = values((rows, 1, 16), np.float32, rows)
        (found,) = session.invoke(0, [given])
        np.testing.assert_allclose(found, np.abs(np.fft.rfft(given)), rtol=1e-5, atol=1e-6)
    assert {*session.backend_of(0)} == {"native"}


def along(op: Dft, shape: Shape, axis: int, length: int | None) -> Model:
    """A transform along an axis, of which the length is given or that of the axis."""
    b = ModelBuilder()
    main = b.subgraph("main")
    given = None if length is None else main.constant(np.int64(length))
    x = main.input("x", DType.FLOAT32, shape)
    result = Tensor("", DType.FLOAT32, (1,) * len(shape), (-1,) * len(shape))
    main.output(*main.op(op, x, given, main.constant(np.int64(axis)), outputs=[result]))
    return b.build()


def numbers_along(op: Dft, x: Array, axis: int, length: int | None) -> Array:
    """What numpy makes of them in double precision."""
    numbers = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    size = length or (2 * x.shape[axis] - 2 if op.inverse and op.onesided else x.shape[axis])
    if op.inverse and op.onesided:
        return np.fft.irfft(numbers, size, axis)[..., None].astype(np.float32)
    found = (np.fft.ifft if op.inverse else np.fft.fft)(numbers, size, axis)
    found = found.take(range(size // 2 + 1), axis) if op.onesided else found
    return np.stack([found.real, found.imag], -1).astype(np.float32)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("op", [Dft(), Dft(onesided=True), Dft(inverse=True), Dft(True, True)],
                         ids=["whole", "half", "inverse", "from_half"])
def test_transforms_along_axes(op: Dft, parts: int) -> None:
    """Axes are as long as the transform, longer and shorter, at any place; rows are fewer and more than lanes."""
    for length, size in ((1, 2), (2, 2), (5, 5), (8, 8), (9, 4), (10, 13), (12, 12), (30, 16), (64, 33), (None, 16),
                         (None, 9), (400, 201)):
        for shape, axis in (((3, size, parts), 1), ((2, size, 7, parts), 1), ((size, parts), 0)):
            session = circlet.Session(along(op, shape, axis, length), "native")
            x = values(shape, np.float32, size)
            wanted = numbers_along(op, x, axis, length)
            (found,) = session.invoke(0, [x])
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-6 * np.abs(wanted).max(), strict=True)
            assert set(session.backend_of(0)) == {"native"}


def test_any_number_of_frames(folder: object, compiled: list[str]) -> None:
    op = Dft(onesided=True)
    session = circlet.Session(along(op, (-1, -1, 60, 1), 2, None), "native", num_threads=2)
    for outer in ((3, 5), (2, 9), (1, 1), (7, 100), (4, 2)):
        x = values((*outer, 60, 1), np.float32, sum(outer))
        np.testing.assert_allclose(session.invoke(0, [x])[0], numbers_along(op, x, 2, None), 1e-5, 1e-5)
    assert len(compiled) == 1
    assert set(session.backend_of(0)) == {"native"}


@pytest.mark.parametrize(("size", "length"), [(7, None), (5, 14), (-1, None), (3, 1 << 14)])
def test_other_lengths_are_left_to_numpy(size: int, length: int | None) -> None:
    op = Dft()
    session = circlet.Session(along(op, (2, size, 2), 1, length), "native")
    x = values((2, abs(size) if size > 0 else 10, 2), np.float32, 1)
    np.testing.assert_allclose(session.invoke(0, [x])[0], numbers_along(op, x, 1, length), 1e-4, 1e-5)
    assert set(session.backend_of(0)) == {"cpu"}
