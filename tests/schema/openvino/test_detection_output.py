"""The detections of OpenVINO against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet.runtime.errors import UnsupportedError
from tests.schema.openvino.models import Array, Case, check, draw, f32, op, run, save

opset1, opset8 = (pytest.importorskip(f"openvino.opset{k}") for k in (1, 8))
COUNT, CLASSES = 12, 3
PLAIN = {"background_label_id": 0, "top_k": 8, "variance_encoded_in_target": False, "keep_top_k": [7],
         "code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "share_location": True, "nms_threshold": 0.3,
         "confidence_threshold": 0.2, "normalized": True, "clip_before_nms": False, "clip_after_nms": False,
         "decrease_label_id": False, "input_height": 1, "input_width": 1, "objectness_score": 0.0}


def priors(images: int, rows: int, size: int = 4, scale: float = 1) -> Array:
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 0.6, (images, COUNT, 2))
    boxes = scale * np.concatenate([low, low + rng.uniform(0.1, 0.4, low.shape)], 2)
    boxes = np.concatenate([np.zeros((images, COUNT, size - 4)), boxes], 2).reshape(images, 1, -1)
    spread = rng.uniform(0.1, 0.3, boxes.shape)
    return np.concatenate([boxes, spread], 1)[:, :rows].astype(f32)


def detected(id: str, images: int = 1, rows: int = 2, own: int = 1, size: int = 4, **options: Any) -> Case:
    sets = 1 if {**PLAIN, **options}["share_location"] else CLASSES
    scores = np.random.default_rng(1).uniform(0, 1, (images, COUNT * CLASSES)).astype(f32)
    return Case(id, lambda *x: opset8.detection_output(*x, {**PLAIN, **options}),
                [draw(images, COUNT * sets * 4) / 2, scores, priors(own, rows, size, 100 if size == 5 else 1)])


DETECTED = [
    detected("plain"),
    detected("images", 3, own=3, clip_after_nms=True),
    detected("few", 2, confidence_threshold=0.9),
    detected("none", confidence_threshold=2.0),
    detected("all_of_classes", 2, keep_top_k=[-1], top_k=5),
    detected("more_than_there_are", 2, keep_top_k=[200], top_k=100),
    detected("corners", 2, code_type="caffe.PriorBoxParameter.CORNER", clip_before_nms=True),
    detected("corners_encoded", rows=1, code_type="caffe.PriorBoxParameter.CORNER", variance_encoded_in_target=True),
    detected("encoded", rows=1, variance_encoded_in_target=True, background_label_id=-1),
    detected("sets", 2, share_location=False, background_label_id=2),
    detected("pixels", rows=1, size=5, variance_encoded_in_target=True, normalized=False, input_height=100,
             input_width=100),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", DETECTED, ids=lambda case: case.id)
def test_as_openvino(tmp_path: Path, case: Case, dynamic: bool) -> None:
    check(tmp_path, [case], dynamic)


@pytest.mark.parametrize("options", [{"decrease_label_id": True}, {"normalized": False, "size": 5}], ids=str)
def test_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    case = detected("refused", **options)
    parameters = [op.parameter(list(each.shape), each.dtype) for each in case.inputs]
    path = save(tmp_path, [case.make(*parameters).output(0)], parameters)
    with pytest.raises(UnsupportedError, match="DetectionOutput"):
        run(path, case.inputs)
