"""Rules for operators that select or sample parts of images."""

from __future__ import annotations

from circlet.runtime.errors import ModelError
from circlet.runtime.ops import detection, sample
from circlet.runtime.ops.resample import Interpolation
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule


@rule("NonMaxSuppression", since=10)
def non_max_suppression(node: Node) -> Value:
    op = detection.SelectBoxes(bool(node.integer("center_point_box", 0)))
    return node.apply(op, node[0], node[1], *(node.get(k) for k in range(2, 5)))


_MODES = {prefix + each.value: each for prefix in ("", "bi") for each in Interpolation}
"""Version 16 has other names than later ones."""


@rule("GridSample", since=16)
def grid_sample(node: Node) -> Value:
    mode = node.string("mode", "linear")
    if mode not in _MODES:
        raise ModelError(f"mode: expected {', '.join(_MODES)}, found {mode!r}")
    op = sample.GridSample(_MODES[mode], node.member("padding_mode", sample.Outside, "zeros"),
                           bool(node.integer("align_corners", 0)))
    return node.apply(op, node[0], node[1])
