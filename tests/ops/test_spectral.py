"""Complex numbers and Fourier transforms."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ops.spectral import ComplexAbs, Dft, Imag, Real, Rfft2D
from tests.ops.arrays import const, f32
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

NUMBERS = np.array([[3 + 4j, -1], [-2.5j, 0]], np.complex64)
DOUBLES = np.array([6 - 8j], np.complex128)
ROW = f32([[1, 2, 3, 4]])
HALF = np.array([[10, -2 + 2j, -2]], np.complex64)

PARTS = [
    Case("complex64", Real(), [NUMBERS], [f32([[3, -1], [0, 0]])]),
    Case("complex128", Real(), [DOUBLES], [np.array([6], np.float64)]),
    Case("complex64", Imag(), [NUMBERS], [f32([[4, 0], [-2.5, 0]])]),
    Case("complex128", Imag(), [DOUBLES], [np.array([-8], np.float64)]),
    Case("complex64", ComplexAbs(), [NUMBERS], [f32([[5, 1], [2.5, 0]])]),
    Case("complex128", ComplexAbs(), [DOUBLES], [np.array([10], np.float64)]),
    Case("scalar", Real(), [np.complex64(1 + 2j)], [f32(1)]),
    Case("real", Real(), [f32([1])], [f32([1])], error="element type float32"),
]
PAIRS = f32([[1, 0], [2, 0], [6, 0]])
SPECTRUM = np.stack([np.fft.fft([1, 2, 6]).real, np.fft.fft([1, 2, 6]).imag], -1).astype(np.float32)
AXIS = T(np.int64(0), constant=True)
PLAIN = [
    Case("real", Dft(), [PAIRS[:, :1], None, AXIS], [SPECTRUM], tolerance=1e-6),
    Case("complex", Dft(), [PAIRS, None, AXIS], [SPECTRUM], tolerance=1e-6),
    Case("cut", Dft(), [f32([[1], [2], [6], [9]]), T(np.int64(3)), AXIS], [SPECTRUM], tolerance=1e-6),
    Case("inverse", Dft(inverse=True), [SPECTRUM, None, AXIS], [PAIRS], tolerance=1e-6),
    Case("half", Dft(onesided=True), [PAIRS[:, :1], None, AXIS], [SPECTRUM[:2]], tolerance=1e-6),
    Case("half-inverse", Dft(True, True), [SPECTRUM[:2], T(np.int64(3), constant=True), AXIS], [PAIRS[:, :1]],
         tolerance=1e-6),
    Case("last-axis", Dft(), [PAIRS, None, T(np.int64(1), constant=True)], [PAIRS], error="holds the parts"),
    Case("parts", Dft(), [ROW, None, AXIS], [ROW], error=r"\(\.\.\., 1\) or \(\.\.\., 2\)"),
]
TRANSFORMS = [
    Case("row", Rfft2D(), [ROW, const([1, 4])], [HALF]),
    Case("cut", Rfft2D(), [f32([[1, 2, 3, 4, 9], [9, 9, 9, 9, 9]]), const([1, 4])], [HALF]),
    Case("filled-up", Rfft2D(), [f32([[1, 2]]), const([2, 4])],
         [np.array([[3, 1 - 2j, -1], [3, 1 - 2j, -1]], np.complex64)], tolerance=1e-7),
    Case("odd", Rfft2D(), [f32([[1], [2], [6]]), const([3, 1])],
         [np.fft.fft([1, 2, 6]).astype(np.complex64)[:, None]], tolerance=1e-7),
    Case("batches", Rfft2D(), [np.stack([ROW, -ROW]), const([1, 4])], [np.stack([HALF, -HALF])]),
    Case("lengths-at-run-time", Rfft2D(), [ROW, [1, 4]], [HALF]),
    Case("lengths", Rfft2D(), [ROW, const([4])], [HALF], error=r"two lengths, found shapes \(1, 4\) and \(1,\)"),
    Case("no-length", Rfft2D(), [ROW, const([1, 0])], [HALF], error=r"positive lengths, found \[1, 0\]"),
    Case("vector", Rfft2D(), [ROW[0], const([1, 4])], [HALF], error="expected matrices"),
    Case("integers", Rfft2D(), [[[1, 2, 3, 4]], const([1, 4])], [T(HALF)], error="element type int32 of input 0"),
]
test_parts = case_test(PARTS)
test_transforms = case_test(TRANSFORMS)
test_plain = case_test(PLAIN)
