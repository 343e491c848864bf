"""Pools of boxes of OpenVINO against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.schema.openvino.models import Array, Case, check, draw, f32, op, ports, run, run_openvino, same, save

RNG = np.random.default_rng(0)


def boxes(images: int, size: float = 1, more: float = 0) -> Array:
    """Boxes in images of a size, some of which reach beyond."""
    low = RNG.uniform(-more, 0.6, (6, 2))
    corners = size * np.concatenate([low, low + RNG.uniform(0, 0.4 + more, low.shape)], 1)
    return np.concatenate([RNG.integers(0, images, (6, 1)), corners], 1).astype(f32)


IMAGES, ONE = draw(2, 3, 9, 11), draw(1, 3, 9, 11)
ENDED = boxes(2, 18)
MANY = (RNG.uniform(0, 0.9, (100, 5)) * [0, 300, 300, 600, 600]).astype(f32)
"""Of some, cells end where elements do, so that the last bit of a size decides what a cell has."""
NEAR = np.array([[0, 0.49999997, 0.5, 4.4999995, 3.5], [0, 1.5, 2.4999998, 5.5, 6.5]], f32)
"""Corners that adding half would round to the wrong side."""
ENDED[3, 0] = -1
POOLED = [
    *(Case(f"greatest_{more}", lambda x, boxes: op.roi_pooling(x, boxes, [3, 2], 0.5, "max"),
           [IMAGES, boxes(2, 18, more)]) for more in (0, 0.3)),
    Case("greatest_ended", lambda x, boxes: op.roi_pooling(x, boxes, [2, 2], 0.5, "max"), [IMAGES, ENDED]),
    *(Case(f"samples_{more}_{len(x)}_{size[0]}", lambda x, boxes, size=size: op.roi_pooling(
        x, boxes, size, 1.0, "bilinear"), [x, boxes(len(x), 1, more)])
      for more, x, size in ((0, IMAGES, [3, 2]), (0.3, ONE, [2, 4]), (0, ONE, [1, 1]))),
    *(Case(f"means_{more}", lambda x, boxes: op.psroi_pooling(x, boxes, 2, 3, 0.5, 1, 1, "average"),
           [draw(2, 18, 9, 11), boxes(2, 18, more)]) for more in (0, 0.3)),
    Case("means_of_many", lambda x, boxes: op.psroi_pooling(x, boxes, 1, 7, 1 / 16, 1, 1, "average"),
         [draw(1, 49, 38, 50), MANY]),
    Case("greatest_of_many", lambda x, boxes: op.roi_pooling(x, boxes, [7, 7], 1 / 16, "max"),
         [draw(1, 2, 38, 50), MANY]),
    Case("greatest_near_halves", lambda x, boxes: op.roi_pooling(x, boxes, [3, 3], 1.0, "max"), [ONE, NEAR]),
    Case("means_near_halves", lambda x, boxes: op.psroi_pooling(x, boxes, 1, 2, 1.0, 1, 1, "average"),
         [draw(1, 4, 9, 11), NEAR]),
]


@pytest.mark.parametrize("case", POOLED, ids=lambda case: case.id)
def test_as_openvino(tmp_path: Path, case: Case) -> None:
    """OpenVINO does not take all dimensions to be unknown; circlet is to give the same then."""
    check(tmp_path, [case], dynamic=False)
    expected = run_openvino(tmp_path / "model.xml", case.inputs)
    given = [op.parameter([-1] * x.ndim, x.dtype) for x in case.inputs]
    same(run(save(tmp_path, ports(case.make(*given)), given), case.inputs)[0], expected[0], case.id)
