"""Rules for resizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType
from circlet.runtime.ops import resize
from circlet.runtime.ops.resample import Aspect, Coordinates, Interpolation, Nearest, Resample
from circlet.runtime.records import replace
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.importer.resize import resampled
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule


@rule("Resize", since=11)
def resize_11(node: Node) -> Value:
    scales, sizes = node.get(2), node.get(3)
    if scales is not None and scales.shape == (0,):
        scales = None
    if (scales is None) == (sizes is None):
        raise ModelError("expected either scales or sizes, found both or neither")
    axes = [axis % node.rank() for axis in node.integers("axes", range(node.rank()))]
    op = Resample(
        tuple(axes), node.member("mode", Interpolation, "nearest"),
        node.member("coordinate_transformation_mode", Coordinates, "half_pixel"),
        node.member("nearest_mode", Nearest, "round_prefer_floor"),
        node.member("keep_aspect_ratio_policy", Aspect, "stretch"), node.number("cubic_coeff_a", -0.75),
        bool(node.integer("exclude_outside", 0)), bool(node.integer("antialias", 0)),
        node.number("extrapolation_value", 0.0))
    region = node.get(1) if op.coordinates is Coordinates.TF_CROP_AND_RESIZE else None
    if scales is not None:
        return _resized(node, op, c.cast(node.graph, scales, DType.FLOAT32), region)
    assert sizes is not None
    return _resized(node, op, sizes, region)


@rule("Resize", "Upsample", since=9)
def resize_9(node: Node) -> Value:
    return _scaled(node, node[1])


@rule("Upsample", since=7)
def upsample_7(node: Node) -> Value:
    return _scaled(node, node.constant(np.array(node.numbers("scales"), np.float32)))


def _scaled(node: Node, scales: Value) -> Value:
    mode = node.member("mode", Interpolation, "nearest")
    op = Resample(tuple(range(node.rank())), mode, Coordinates.ASYMMETRIC, Nearest.FLOOR)
    return _resized(node, op, scales, None)


def _resized(node: Node, op: Resample, given: Value, region: Value | None) -> Value:
    """As an operator on images where circlet has one that means the same, which is the faster one.

    What lies between bytes is cut off towards zero, as by ONNX's reference and ONNX Runtime, but with antialiasing.
    """
    dtype = node.dtype()
    if dtype in QUANTIZABLE and op.interpolation is Interpolation.LINEAR and not op.antialias:
        wide = replace(node, inputs=(c.cast(node.graph, node[0], DType.FLOAT32), *node.inputs[1:]))
        return c.cast(node.graph, _resized(wide, op, given, region), dtype)
    made, found = _as_image(op), _image_sizes(node, op, given.data)
    if made is None or found is None or node.dtype() is not DType.FLOAT32:
        if region is None and given.dtype is DType.FLOAT32:
            return resampled(node.graph, op, node[0], given)
        return node.apply(op, node[0], given, *(() if region is None else (region,)))
    image = c.channels_last(node.graph, node[0])
    return c.channels_first(node.graph, node.apply(made, image, node.constant(np.array(found, np.int32))))


def _as_image(op: Resample) -> Op | None:
    """The operator on images that means the same; None where there is none."""
    if op.antialias or op.exclude_outside or op.aspect is not Aspect.STRETCH:
        return None
    corners, centers = op.coordinates is Coordinates.ALIGN_CORNERS, op.coordinates is Coordinates.HALF_PIXEL
    if op.interpolation is Interpolation.LINEAR and (corners or centers or op.coordinates is Coordinates.ASYMMETRIC):
        return resize.ResizeBilinear(corners, centers)
    plain = op.coordinates is Coordinates.ASYMMETRIC and op.nearest is Nearest.FLOOR
    return resize.ResizeNearestNeighbor() if op.interpolation is Interpolation.NEAREST and plain else None


def _image_sizes(node: Node, op: Resample, given: Array | None) -> Sequence[int] | None:
    """The height and width that the image of the first input gets; None where it is not an image, or other axes change,
    or the factor is not that between the sizes."""
    shape = node[0].shape
    if given is None or shape is None or len(shape) != 4 or -1 in shape:
        return None
    sizes = list(shape)
    for axis, (size, factor) in zip(op.axes, op.extents(shape, given.tolist()), strict=True):
        if size != shape[axis] * factor or (axis < 2 and size != shape[axis]):
            return None
        sizes[axis] = size
    return sizes[2:]
