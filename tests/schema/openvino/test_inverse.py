"""Inverses of matrices of OpenVINO against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import UnsupportedError
from tests.schema.openvino.models import Case, check, draw, f32, op, save

opset14 = pytest.importorskip("openvino.opset14")
TURNED = np.array([[0, 2, 0], [0, 0, -4], [0.5, 0, 0]], f32)
"""A matrix whose elements in the diagonal are no pivots."""
MATRICES = [Case(f"matrix_{len(x)}", lambda x: opset14.inverse(x, False), [x], dynamic=False, tolerance=1e-4)
            for x in (TURNED, draw(2, 2) + np.eye(2, dtype=f32), draw(2, 3, 4, 4) + 3 * np.eye(4, dtype=f32),
                      draw(5, 8, 8) + 4 * np.eye(8, dtype=f32))]


@pytest.mark.parametrize("case", MATRICES, ids=lambda case: str(case.inputs[0].shape))
def test_as_openvino(tmp_path: Path, case: Case) -> None:
    check(tmp_path, [case], dynamic=False)


def test_any_number_of_matrices(tmp_path: Path) -> None:
    x = op.parameter([-1, 3, 3], f32)
    session = circlet.Session(save(tmp_path, [opset14.inverse(x, False).output(0)], [x]), backend="cpu")
    for count in (1, 4):
        given = draw(count, 3, 3) + 3 * np.eye(3, dtype=f32)
        (found,) = session.run([given]).values()
        np.testing.assert_allclose(found @ given, np.broadcast_to(np.eye(3), given.shape), atol=1e-5)


@pytest.mark.parametrize(("size", "adjoint"), [(9, False), (2, True)])
def test_refused(tmp_path: Path, size: int, adjoint: bool) -> None:
    x = op.parameter([size, size], f32)
    with pytest.raises(UnsupportedError, match="Inverse"):
        circlet.load(save(tmp_path, [opset14.inverse(x, adjoint).output(0)], [x]))
