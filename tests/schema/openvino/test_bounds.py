"""Small files that ask for many operators or large constants are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import circlet
from tests.schema.openvino.text import layer, network, parameter, result

MANY = 1 << 40
PRIORS: dict[str, Any] = {"aspect_ratio": "", "flip": "false", "clip": "false", "step": 0, "offset": 0,
                          "variance": ""}
LARGE = {
    "places": layer(2, "MaxPool", 1, [(1, 1, -1, -1), (1, 1, -1, -1)], "opset8", kernel="70,70", strides="1,1",
                    dilations="1,1", pads_begin="0,0", pads_end="0,0"),
    "dilated": layer(2, "MaxPool", 1, [(1, 1, -1, -1)] * 2, "opset8", kernel=f"{MANY},1", strides="1,1",
                     dilations="2,1", pads_begin="0,0", pads_end="0,0"),
    "greatest": layer(2, "ROIPooling", 2, [(1, 1, MANY, 1)] * 2, "opset2", pooled_h=MANY, pooled_w=1, spatial_scale=1),
    "means": layer(2, "PSROIPooling", 2, [(1, 1, MANY, MANY)] * 2, output_dim=1, group_size=MANY, spatial_scale=1),
    "priors": layer(2, "PriorBox", 2, [(2, -1)] * 2, fixed_size=2 * MANY, density=MANY, **PRIORS),
}


@pytest.mark.parametrize("name", LARGE)
def test_refused(tmp_path: Path, name: str) -> None:
    inputs = LARGE[name].count("<port id", 0, LARGE[name].index("<output>"))
    vector = name == "priors"
    layers = [parameter(0, (2,) if vector else (1, 1, 99, 99), "i64" if vector else "f32"),
              parameter(1, (2,) if vector else (4, 5), "i64" if vector else "f32"), LARGE[name], result(3), result(4)]
    edges = [*((k, 0, 2, k) for k in range(inputs)), (2, inputs, 3, 0), (2, inputs + 1, 4, 0)]
    path = tmp_path / "model.xml"
    path.write_text(network(layers, edges), encoding="utf-8")
    with pytest.raises(circlet.UnsupportedError, match="at most"):
        circlet.load(path)
