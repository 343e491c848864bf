"""Colours of video, against OpenVINO."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.schema.openvino.models import Array, f32, op, ov, run, run_openvino, same, save

preprocess = pytest.importorskip("openvino.preprocess")
FORMATS = {"NV12_SINGLE_PLANE": [(3, 1)], "NV12_TWO_PLANES": [(2, 1), (1, 2)], "I420_SINGLE_PLANE": [(3, 1)],
           "I420_THREE_PLANES": [(2, 1), (1, 1), (1, 1)]}
"""By the name of a format, of each plane how many rows and channels, where brightness has two rows."""


def _planes(name: str, height: int, width: int) -> list[Array]:
    """Half as many rows and columns as the image, all bytes by chance."""
    random = np.random.default_rng([height, width])
    return [random.integers(0, 256, (2, rows * height, width if rows == 1 else 2 * width, channels), np.uint8)
            for rows, channels in FORMATS[name]]


def _model(folder: Path, name: str, order: str, kind: Any, dynamic: bool) -> Path:
    """What OpenVINO writes before a model that takes colours."""
    lengths = [-1, -1] if dynamic else [12, 20]
    own = op.parameter([2, *lengths, 3], kind)
    builder = preprocess.PrePostProcessor(ov.Model([op.concat([own, own], 3).output(0)], [own]))
    colours = preprocess.ColorFormat
    builder.input().tensor().set_element_type(kind).set_color_format(getattr(colours, name))
    builder.input().preprocess().convert_color(getattr(colours, order))
    model = builder.build()
    return save(folder, [each.input_value(0) for each in model.get_results()], model.get_parameters())


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("name", "order", "kind"), [
    *product(FORMATS, ("RGB", "BGR"), (ov.Type.u8,)), *product(FORMATS, ("RGB",), (ov.Type.f32,))])
def test_as_openvino(tmp_path: Path, name: str, order: str, kind: Any, dynamic: bool, backend: str) -> None:
    path = _model(tmp_path, name, order, kind, dynamic)
    for height, width in ((6, 10), *([(1, 1), (9, 2)] if dynamic else [])):
        planes = [each.astype(f32) if kind == ov.Type.f32 else each for each in _planes(name, height, width)]
        for found, wanted in zip(run(path, planes, backend=backend), run_openvino(path, planes), strict=True):
            same(found, wanted, name)
