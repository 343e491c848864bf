"""Windows that OpenVINO puts back together against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schema.openvino.models import Case, check, const, draw

opset15 = pytest.importorskip("openvino.opset15")
FOLDED = [
    Case("plain", lambda x: opset15.col2im(x, const([4, 5]), const([2, 2])), [draw(2, 12, 12)]),
    Case("apart", lambda x: opset15.col2im(x, const([9, 7]), const([3, 2]), [2, 1], [1, 3], [1, 0], [0, 2]),
         [draw(1, 12, 24)]),
    Case("sparse", lambda x: opset15.col2im(x, const([7, 7]), const([2, 2]), [3, 3], [2, 2], [0, 0], [0, 0]),
         [draw(8, 4)]),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", FOLDED, ids=lambda case: case.id)
def test_as_openvino(tmp_path: Path, case: Case, dynamic: bool) -> None:
    check(tmp_path, [case], dynamic)
