"""Short-time Fourier transforms, against numpy's transform of each frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.records import dataclass
from tests.needs import NATIVE
from tests.schema.onnx.graphs import load

RANDOM = np.random.default_rng(4)


@dataclass(frozen=True)
class Case:
    """A node.

    Attributes:
        size: of a frame.
        step: from one to the next.
        parts: of each number of the signal; 0 where it has no axis of them.
        windowed: whether there is a window.
        sized: whether the length of a frame is given.
        constant: whether all that but the signal is constant.
        kind: of the signal.
        onesided: whether the second half of each spectrum is left out.
    """

    size: int = 6
    step: int = 2
    parts: int = 1
    windowed: bool = True
    sized: bool = True
    constant: bool = True
    kind: str = "float"
    onesided: int = 1

    @property
    def window(self) -> npt.NDArray[np.float64]:
        return np.hanning(self.size + 2)[1:-1] if self.windowed else np.ones(self.size)

    @property
    def text(self) -> str:
        """The graph."""
        numbers = ", ".join(map(str, self.window.astype(np.float32)))
        constants = (f"int64 step = {{{self.step}}}, int64 size = {{{self.size}}}, "
                     f"{self.kind}[{self.size}] w = {{{numbers}}}")
        given = f"{self.kind}[n, l{f', {self.parts}' if self.parts else ''}] x"
        if not self.constant:
            given += f", int64 step, int64 size, {self.kind}[m] w"
        window, length = "w" if self.windowed else '""', ", size" if self.sized else ""
        return f"""g ({given}) => ({self.kind}[n, f, b, 2] y) {f"<{constants}>" if self.constant else ""} {{
            y = STFT<onesided = {self.onesided}>(x, step, {window}{length}) }}"""

    def expected(self, x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        numbers = x[..., 0] + 1j * x[..., 1] if self.parts == 2 else x.reshape(x.shape[:2])
        begins = range(0, x.shape[1] - self.size + 1, self.step)
        frames = np.stack([numbers[:, k:k + self.size] for k in begins], 1) * self.window.astype(np.float32)
        found = np.fft.fft(frames)[..., :self.size // 2 + 1 if self.onesided else self.size]
        return np.stack([found.real, found.imag], -1).astype(x.dtype)


CASES = [Case(), Case(size=7, step=3), Case(size=16, step=5, windowed=False), Case(sized=False), Case(onesided=0),
         Case(parts=2, onesided=0), Case(constant=False), Case(constant=False, sized=False, step=3),
         Case(constant=False, windowed=False, size=5), Case(parts=2, onesided=0, constant=False),
         Case(size=256, step=64), Case(size=200, step=30, sized=False), Case(size=240, step=400, windowed=False),
         Case(size=270, step=90, parts=2, onesided=0), Case(size=500, step=1, parts=0), Case(size=201, step=7),
         Case(kind="double"), Case(size=1, step=1), Case(parts=0), Case(parts=0, constant=False)]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("case", CASES, ids=map(str, range(len(CASES))))
def test_spectra_of_frames(case: Case, backend: str) -> None:
    kind = np.float32 if case.kind == "float" else np.float64
    session = circlet.Session(load(case.text, 17), backend=backend)
    for batch, length in (2, case.size + 13), (1, case.size), (3, case.size + 34):
        given = {"x": RANDOM.standard_normal((batch, length, case.parts)[:3 if case.parts else 2]).astype(kind)}
        if not case.constant:
            given |= {"step": np.int64(case.step), "size": np.int64(case.size), "w": case.window.astype(kind)}
        (found,) = session.run({name: each for name, each in given.items() if name in session.inputs}).values()
        np.testing.assert_allclose(found, case.expected(given["x"]), rtol=1e-5, atol=1e-5, strict=True)
    if case.constant and case.kind == "float":
        assert {*session.backend_of(0)} <= {"none", backend}


def test_what_is_no_frame_is_refused() -> None:
    for wrong, text in ((Case(step=0), "positive step"), (Case(parts=3), r"\(\.\.\., 1\) or \(\.\.\., 2\)")):
        with pytest.raises(circlet.CircletError, match=text):
            circlet.Session(load(wrong.text, 17)).run({"x": np.zeros((1, 9, wrong.parts), np.float32)})
