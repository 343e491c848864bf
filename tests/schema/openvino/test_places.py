"""Where the greatest elements under windows of OpenVINO lie against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.schema.openvino.models import Case, check, const, draw, op

ONE = [1, 1]
IMAGE = np.round(draw(2, 3, 7, 6))

PLACES = [
    Case("adaptive_greatest_of_parts", lambda x: [op.adaptive_max_pool(x, op.divide(op.gather(
        op.shape_of(x), const([2, 3]), const(0)), const([2, 3])), "i32").output(0)], [draw(2, 3, 5, 10)]),
    *(Case(f"adaptive_places_{len(sizes)}", lambda x, sizes=sizes: op.adaptive_max_pool(x, const(sizes), "i32"),
           [np.round(draw(2, 3, *range(6, 6 + len(sizes))))]) for sizes in ([4], [4, 3], [2, 3, 2])),
    Case("adaptive_places_of_many", lambda x: op.adaptive_max_pool(x, const([17, 16]), "i32"),
         [np.round(draw(1, 2, 18, 17))]),
    *(Case(f"places_{axis}_{kind}", lambda x, axis=axis, kind=kind: op.max_pool(
        x, [2, 1], [1, 2], ONE, [0, 1], [2, 3], "ceil", index_element_type=kind, axis=axis), [IMAGE])
      for axis, kind in enumerate(["i32"] * 4)),
    Case("places_of_sequences", lambda x: op.max_pool(x, [2], [1], [1], [0], [3], axis=2), [draw(2, 3, 9)]),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", PLACES, ids=lambda case: case.id)
def test_as_openvino(tmp_path: Path, case: Case, dynamic: bool) -> None:
    check(tmp_path, [case], dynamic)
