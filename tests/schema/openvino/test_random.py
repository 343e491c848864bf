"""Random numbers of OpenVINO: of its types, shapes and ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import UnsupportedError
from tests.schema.openvino.models import Array, const, f32, i32, i64, op, run_openvino, save


def drawing(folder: Path, low: Array, high: Array, seed: int) -> Path:
    """A model that draws as many numbers as its input says."""
    shape = op.parameter([2], i64)
    kind = {f32: "f32", i32: "i32", i64: "i64"}[low.dtype.type]
    found = op.random_uniform(shape, const(low), const(high), kind, seed)
    return save(folder, [found.output(0)], [shape])


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("low", "high"), [(f32(-2), f32(3)), (i32(-5), i32(7)), (i64(-3), i64(1))], ids=str)
def test_ranges(tmp_path: Path, low: Array, high: Array, backend: str) -> None:
    path = drawing(tmp_path, np.array(low), np.array(high), 1)
    given = [np.array([60, 50], i64)]
    (found,), (again,) = (tuple(circlet.Session(path, backend=backend).run(given).values()) for _ in range(2))
    theirs = run_openvino(path, given)[0]
    assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape)
    assert low <= found.min() < found.max() < high
    np.testing.assert_array_equal(found, again)
    if low.dtype.kind == "i":
        np.testing.assert_array_equal(np.unique(found), np.arange(int(low), int(high)))
    else:
        assert abs(found.mean() - 0.5) < 0.1


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="whole numbers of a range"):
        circlet.load(drawing(tmp_path, np.array(0, i64), np.array(2**40, i64), 0))
