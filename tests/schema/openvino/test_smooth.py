"""Interpolation of OpenVINO with larger windows where axes shrink against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schema.openvino.models import Case, check, const, draw, op

IMAGE = draw(1, 2, 9, 11)
RESIZED = [
    *(Case(f"{mode}_{size}", lambda x, m=mode, s=size: op.interpolate(
        x, const(s), m, "sizes", [0], [0], axes=const([2, 3])), [IMAGE], tolerance=1e-4)
      for mode in ("bilinear_pillow", "bicubic_pillow") for size in ([4, 6], [20, 3], [9, 5], [12, 13])),
    *(Case(f"{mode}_by_factors", lambda x, m=mode: op.interpolate(
        x, const([0.5, 0.7]), m, "scales", [0], [0], "asymmetric", axes=const([2, 3])), [IMAGE], tolerance=1e-4)
      for mode in ("bilinear_pillow", "bicubic_pillow")),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", RESIZED, ids=lambda case: case.id)
def test_as_openvino(tmp_path: Path, case: Case, dynamic: bool) -> None:
    check(tmp_path, [case], dynamic)
