"""What detectors of OpenVINO end with against OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.schema.openvino.models import Case, check, const, draw, op

opset1, opset8 = (pytest.importorskip(f"openvino.opset{k}") for k in (1, 8))
MAP = [draw(1, 2, 3, 5), draw(1, 3, 50, 60)]
PRIORS = {"min_size": [10.0, 20.0], "max_size": [20.0, 30.0], "aspect_ratio": [2.0], "flip": True, "clip": False,
          "step": 8.0, "offset": 0.5, "variance": [0.1, 0.1, 0.2, 0.3], "scale_all_sizes": True,
          "min_max_aspect_ratios_order": True}
CLUSTERED = {"width": [10.0, 20.0], "height": [30.0, 20.0], "clip": False, "step_widths": 4.0, "step_heights": 9.0,
             "offset": 0.5, "variance": [0.1]}


def sides(x: Any) -> Any:
    return op.slice(op.shape_of(x), const([2]), const([4]), const([1]))


def yolo(coordinates: int, classes: int, exclusive: bool, *axes: int) -> Callable[..., Any]:
    return lambda x: op.region_yolo(x, coordinates, classes, 3, exclusive, [0, 1, 2], *axes, [1.0, 2.0] * 3)


def priors(**options: object) -> Callable[..., Any]:
    """OpenVINO has that of opset8 of known sizes only, and that of opset1 by another function."""
    def write(*x: Any) -> Any:
        given = {**PRIORS, **options}
        if all(each.partial_shape.is_static for each in x):
            return opset8.prior_box(*map(sides, x), given)
        return opset1.prior_box(*map(sides, x), {k: v for k, v in given.items() if not k.startswith("min_max")})

    return write


def clustered(**options: object) -> Callable[..., Any]:
    return lambda *x: op.prior_box_clustered(*map(sides, x), {**CLUSTERED, **options})


REGIONS = [
    Case("yolo", yolo(4, 2, False, 1, 3), [draw(2, 21, 3, 5)]),
    Case("yolo_exclusive", yolo(4, 3, True, 1, 3), [draw(2, 24, 3, 5)]),
    Case("yolo_exclusive_rows", yolo(5, 2, True, 2, 3), [draw(1, 24, 3, 5)]),
    Case("reorg", lambda x: op.reorg_yolo(x, [2]), [draw(2, 8, 4, 6)]),
    Case("grn", lambda x: op.grn(x, 0.5), [draw(2, 3, 4, 5)]),
]
BOXES = [
    Case("priors", priors(), MAP),
    Case("priors_by_image", priors(step=0.0, offset=0.1, clip=True, variance=[0.2]), MAP),
    Case("priors_ratios_first", priors(min_max_aspect_ratios_order=False, aspect_ratio=[2.0, 3.0, 1.0]), MAP,
         dynamic=False),
    Case("priors_dense", priors(min_size=[], max_size=[], fixed_size=[16.0, 6.0], density=[2.0, 1.0]), MAP),
    Case("clustered", clustered(), MAP),
    Case("clustered_steps", clustered(step_widths=8.0, step_heights=4.0, clip=True), MAP),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("cases", [REGIONS, BOXES], ids=["regions", "boxes"])
def test_as_openvino(tmp_path: Path, cases: list[Case], dynamic: bool) -> None:
    check(tmp_path, cases, dynamic)
