"""Fourier transforms of OpenVINO against OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.schema.openvino.models import Array, Case, check, const, draw, op, run_openvino, same, save

opset15, opset16 = (pytest.importorskip(f"openvino.opset{k}") for k in (15, 16))
X, PAIRS = draw(2, 5, 8), draw(2, 5, 8, 2)
SIGNAL, WINDOW = draw(2, 50), np.hanning(12).astype(np.float32)

CASES = [
    Case("dft", lambda x: op.dft(x, const([1])), [PAIRS], dynamic=False),
    Case("dft_of_two", lambda x: op.dft(x, const([-1, 1]), const([6, -1])), [PAIRS], dynamic=False),
    Case("idft", lambda x: op.idft(x, const([2, 1]), const([-1, 7])), [PAIRS], dynamic=False),
    Case("rdft", lambda x: op.rdft(x, const([2])), [X]),
    Case("rdft_of_two", lambda x: op.rdft(x, const([2, 1]), const([7, 4])), [X]),
    Case("irdft", lambda x: op.irdft(x, const([1])), [PAIRS]),
    Case("irdft_of_two", lambda x: op.irdft(x, const([1, -1]), const([5, 9])), [PAIRS]),
    *(Case(f"stft_{turned}", lambda x, turned=turned: opset15.stft(x, const(WINDOW), const(16), const(5), turned),
           [SIGNAL]) for turned in (False, True)),
    Case("stft_of_one", lambda x: opset15.stft(x, const(WINDOW[:5]), const(9), const(4), False), [SIGNAL[0]]),
]

BINS = draw(2, 9, 7, 2)
SIGNALS = [
    *(Case(f"istft_{centered}_{normal}", lambda x, centered=centered, normal=normal: opset16.istft(
        x, const(0.1 + WINDOW), const(16), const(5), centered, normal), [BINS])
      for centered in (False, True) for normal in (False, True)),
    *(Case(f"istft_of_{length}_{centered}", lambda x, length=length, centered=centered: opset16.istft(
        x, const(0.1 + WINDOW), const(16), const(4), centered, False, const(length)), [BINS])
      for length in (20, 60) for centered in (False, True)),
    Case("istft_of_one", lambda x: opset16.istft(x, const(0.1 + WINDOW), const(16), const(16), False, False),
         [BINS[0]]),
]


@pytest.mark.skipif(not hasattr(opset16, "istft"), reason="this OpenVINO cannot make an ISTFT")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", SIGNALS, ids=lambda case: case.id)
def test_signals_as_openvino(tmp_path: Path, case: Case, dynamic: bool) -> None:
    check(tmp_path, [case], dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_as_openvino(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, CASES, dynamic)


def test_lengths_that_a_run_tells(tmp_path: Path) -> None:
    """As numpy's: OpenVINO's processor plugin computes no transforms of real numbers so, and 2025.0 none."""
    x, z, n = op.parameter([-1, -1, -1], np.float32), op.parameter([-1, -1, -1, 2], np.float32), op.parameter(
        [2], np.int64)
    path = save(tmp_path, [getattr(op, name)(each, const([1, 2]), n).output(0)
                           for name, each in (("rdft", x), ("irdft", z), ("dft", z), ("idft", z))], [x, z, n])
    given = PAIRS[..., 0] + 1j * PAIRS[..., 1]
    for backend in ("cpu", "native"):
        session = circlet.Session(path, backend=backend)
        for size in ([6, -1], [-1, 9], [4, 4]):
            found = session.invoke(0, [X, PAIRS, np.array(size)])
            first, second = (None if each < 0 else each for each in size)
            expected = [np.fft.fft(np.fft.rfft(X, second, 2), first, 1),
                        np.fft.irfft(np.fft.ifft(given, first, 1), second, 2),
                        np.fft.fft(np.fft.fft(given, second, 2), first, 1),
                        np.fft.ifft(np.fft.ifft(given, second, 2), first, 1)]
            for name, one, other in zip(("rdft", "irdft", "dft", "idft"), found, expected, strict=True):
                pairs = np.stack([other.real, other.imag], -1) if np.iscomplexobj(other) else other
                same(one, pairs.astype(np.float32), f"{name} of {size}")


@pytest.mark.parametrize(("window", "size", "step", "turned"), [(WINDOW, 12, 3, True), (WINDOW, 256, 60, False),
                                                                (np.hanning(200), 240, 300, True)])
def test_spectra_of_any_length(tmp_path: Path, window: Array, size: int, step: int, turned: bool) -> None:
    """Frames are multiplied by filters or, if they are long, transformed."""
    x = op.parameter([-1, -1], np.float32)
    found = opset15.stft(x, const(window.astype(np.float32)), const(size), const(step), turned)
    path = save(tmp_path, [found.output(0)], [x])
    session = circlet.Session(path)
    for count, length in ((1, size), (2, size + 38), (3, 7 * size)):
        given = [draw(count, length)]
        same(next(iter(session.run(given).values())), run_openvino(path, given)[0], f"{count}, {length}")


@pytest.mark.parametrize(("make", "expected"), [
    (lambda x: op.dft(x, const([1])), lambda z: np.fft.fft(z, axis=1)),
    (lambda x: op.idft(x, const([2, 1]), const([-1, 7])), lambda z: np.fft.ifftn(z, (z.shape[2], 7), (2, 1))),
], ids=["dft", "idft"])
def test_transforms_of_any_length(tmp_path: Path, make: Callable[[Any], Any], expected: Callable[[Array], Array]
                                  ) -> None:
    """As numpy computes them: OpenVINO 2025.0 has them for fixed lengths alone."""
    x = op.parameter([-1, -1, -1, 2], np.float32)
    session = circlet.Session(save(tmp_path, [make(x).output(0)], [x]))
    for shape in ((2, 5, 8), (1, 9, 3)):
        given = draw(*shape, 2)
        wanted = expected(given[..., 0] + 1j * given[..., 1])
        pairs = np.stack([wanted.real, wanted.imag], -1).astype(np.float32)
        same(next(iter(session.run([given]).values())), pairs, str(shape))
