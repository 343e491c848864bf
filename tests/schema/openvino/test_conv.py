"""Convolution, pooling and interpolation of OpenVINO against OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import circlet
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.layout import Transpose
from tests.schema.openvino.models import (
    Array,
    Case,
    check,
    const,
    draw,
    f32,
    i64,
    op,
    ports,
    run,
    run_openvino,
    same,
    save,
)

opset1, opset8, opset14 = (pytest.importorskip(f"openvino.opset{k}") for k in (1, 8, 14))
IMAGE, SQUARE = draw(2, 3, 7, 6), draw(1, 2, 8, 8)
ONE = [1, 1]
SMALL = 1e-4
Formula: TypeAlias = Callable[..., Any]


def conv(filter: tuple[int, ...], *options: object) -> Formula:
    return lambda x: op.convolution(x, const(draw(*filter)), *options)


def group(filter: tuple[int, ...], pads: list[int]) -> Formula:
    ones = [1] * len(pads)
    return lambda x: op.group_convolution(x, const(draw(*filter)), ones, pads, pads, ones)


def counted(*filter: int) -> Formula:
    """A convolution of integers, as OpenVINO's converter writes ONNX's ConvInteger, without groups or with."""
    def write(x: Any) -> Any:
        weights = const(np.round(9 * draw(*filter)).astype(np.int32))
        given = op.convert(x, "i32")
        if len(filter) == 5:
            return op.group_convolution(given, weights, ONE, ONE, ONE, ONE)
        return op.convolution(given, weights, ONE, ONE, ONE, ONE)

    return write


def spread(filter: tuple[int, ...], *args: object, **options: object) -> Formula:
    return lambda x: op.convolution_backprop_data(x, const(draw(*filter)), *args, **options)


def to_twice(mode: str) -> Formula:
    """A transposed convolution to twice the height and width that an image has."""
    def write(x: Any) -> Any:
        size = op.multiply(op.gather(op.shape_of(x), const([2, 3]), const(0)), const([2, 2]))
        return op.convolution_backprop_data(x, const(draw(3, 4, 2, 2)), [2, 2], size, auto_pad=mode)

    return write


def moved(filter: tuple[int, ...], *options: object, **names: Any) -> Formula:
    return lambda x, offsets: opset8.deformable_convolution(x, offsets, const(draw(*filter)), *options, **names)


CONVOLUTIONS = [
    Case("plain", conv((4, 3, 3, 3), ONE, [0, 0], [0, 0], ONE), [IMAGE], tolerance=SMALL),
    Case("integers", counted(4, 3, 3, 3), [np.round(9 * IMAGE).astype(np.uint8)]),
    Case("integers_in_groups", counted(3, 1, 1, 3, 3), [np.round(9 * IMAGE).astype(np.uint8)]),
    Case("padded", conv((4, 3, 3, 3), [2, 1], [1, 0], [1, 2], [1, 2]), [IMAGE], tolerance=SMALL),
    Case("behind", conv((4, 3, 3, 3), [2, 2], [0, 0], ONE, ONE), [IMAGE], tolerance=SMALL),
    Case("same", conv((4, 3, 3, 3), ONE, [0, 0], [0, 0], ONE, "same_upper"), [IMAGE], tolerance=SMALL),
    Case("same_by_two", conv((4, 3, 3, 4), [2, 3], [0, 0], [0, 0], ONE, "same_upper"), [IMAGE], tolerance=SMALL),
    Case("same_lower", conv((4, 3, 2, 3), [2, 2], [0, 0], [0, 0], ONE, "same_lower"), [IMAGE], dynamic=False,
         tolerance=SMALL),
    Case("sequence", conv((4, 3, 3), [2], [1], [0], [1]), [draw(2, 3, 7)], tolerance=SMALL),
    Case("volume", conv((4, 3, 3, 2, 1), [1, 2, 1], [1, 0, 0], [0, 1, 0], [1, 1, 1]), [draw(1, 3, 5, 6, 4)],
         tolerance=SMALL),
    Case("computed_filter", lambda x, w: op.convolution(x, w, ONE, [0, 0], [0, 0], ONE), [IMAGE, draw(2, 3, 3, 3)],
         dynamic=False, tolerance=SMALL),
    Case("groups", group((2, 3, 2, 3, 3), ONE), [draw(1, 4, 5, 5)], tolerance=SMALL),
    Case("depthwise", group((4, 2, 1, 3, 3), ONE), [draw(1, 4, 5, 5)], tolerance=SMALL),
    Case("depthwise_sequence", group((4, 1, 1, 3), [1]), [draw(1, 4, 5)], tolerance=SMALL),
    Case("deformable", moved((4, 3, 3, 2), [1, 2], ONE, [0, 1], [2, 1]), [IMAGE, 2 * draw(2, 12, 4, 4)],
         tolerance=SMALL),
    Case("deformable_padded", moved((2, 3, 3, 3), ONE, ONE, ONE, ONE, bilinear_interpolation_pad=True),
         [IMAGE, 2 * draw(2, 18, 7, 6)], tolerance=SMALL),
    Case("deformable_groups", moved((4, 2, 2, 2), ONE, [0, 0], [0, 0], ONE, group=2, deformable_group=4),
         [draw(2, 4, 5, 6), draw(2, 32, 4, 5)], tolerance=SMALL),
    Case("deformable_masked", lambda x, offsets, mask: opset8.deformable_convolution(
        x, offsets, const(draw(2, 3, 2, 2)), ONE, [0, 0], [0, 0], ONE, mask), [
            IMAGE, draw(2, 8, 6, 5), draw(2, 4, 6, 5)], tolerance=SMALL),
    Case("deformable_1", lambda x, offsets: opset1.deformable_convolution(
        x, offsets, const(draw(2, 3, 2, 2)), ONE, [0, 0], [0, 0], ONE, "same_lower"), [IMAGE, draw(2, 8, 7, 6)],
         tolerance=SMALL),
    Case("transposed", spread((3, 4, 3, 3), ONE), [IMAGE], tolerance=SMALL),
    Case("transposed_padded", spread((3, 4, 3, 3), [2, 2], pads_begin=ONE, pads_end=ONE, output_padding=ONE), [IMAGE],
         tolerance=SMALL),
    Case("transposed_dilated", spread((3, 4, 3, 3), [2, 3], pads_begin=[0, 1], pads_end=[1, 0], dilations=[2, 1],
                                      output_padding=[0, 1]), [IMAGE], tolerance=SMALL),
    *(Case(f"transposed_{mode}", spread((3, 4, 3, 3), [2, 2], const([14, 12]), auto_pad=mode), [IMAGE],
           dynamic=mode != "same_upper", tolerance=SMALL) for mode in ("same_upper", "same_lower")),
    Case("transposed_valid", spread((3, 4, 2, 3), [3, 2], const([21, 14]), auto_pad="valid"), [IMAGE], tolerance=SMALL),
    *(Case(f"transposed_to_{mode}", to_twice(mode), [IMAGE], tolerance=SMALL) for mode in ("same_lower", "valid")),
    Case("transposed_sequence_to", lambda x: op.convolution_backprop_data(
        x, const(draw(3, 4, 4)), [2], op.multiply(op.gather(op.shape_of(x), const([2]), const(0)), const([2])),
        auto_pad="same_lower"), [draw(1, 3, 5)], tolerance=SMALL),
    Case("transposed_sequence", spread((3, 4, 4), [2], pads_begin=[1], pads_end=[1], dilations=[1]), [draw(1, 3, 5)],
         tolerance=SMALL),
    Case("transposed_groups", lambda x: op.group_convolution_backprop_data(
        x, const(draw(2, 2, 3, 3, 3)), [2, 2], pads_begin=ONE, pads_end=ONE, dilations=ONE), [draw(1, 4, 5, 5)],
         tolerance=SMALL),
    Case("transposed_volume", spread((3, 4, 2, 3, 4), [2, 1, 3], pads_begin=[0, 1, 1], pads_end=[1, 0, 2],
                                     output_padding=[1, 0, 2]), [draw(2, 3, 4, 5, 3)], tolerance=SMALL),
    Case("transposed_volume_dilated", spread((3, 2, 2, 3, 2), [1, 2, 2], pads_begin=[1, 0, 1], dilations=[2, 1, 3]),
         [draw(1, 3, 3, 4, 5)], tolerance=SMALL),
    Case("transposed_volume_groups", lambda x: op.group_convolution_backprop_data(
        x, const(draw(2, 2, 3, 2, 2, 2)), [2, 2, 1]), [draw(1, 4, 3, 2, 5)], tolerance=SMALL),
]
DEFORMED = [
    *(Case(f"deformed_{masked}", lambda x, at, *mask: opset8.deformable_convolution(
        x, at, const(draw(6, 2, 3, 2)), [2, 1], ONE, [0, 1], [1, 2], *mask, group=2, deformable_group=2,
        bilinear_interpolation_pad=True),
           [draw(2, 4, 7, 6), 2 * draw(2, 24, 3, 6), *([abs(draw(2, 12, 3, 6))] if masked else [])], tolerance=SMALL)
      for masked in (False, True)),
]
POOLS = [
    *(Case(f"max_{rounding}", lambda x, r=rounding: opset1.max_pool(x, [2, 2], [1, 0], [1, 0], [3, 2], r), [IMAGE])
      for rounding in ("floor", "ceil")),
    Case("max_sequence", lambda x: opset1.max_pool(x, [2], [0], [0], [2]), [draw(1, 2, 6)]),
    Case("max_8", lambda x: [op.max_pool(x, [2, 2], ONE, [0, 0], [0, 0], [3, 2]).output(0)], [IMAGE]),
    Case("max_volume", lambda x: opset1.max_pool(x, [2, 1, 2], [1, 0, 0], [0, 0, 1], [3, 2, 2]), [draw(2, 3, 6, 5, 4)]),
    *(Case(f"max_dilated_{pad}", lambda x, pad=pad: [op.max_pool(
        x, [2, 1], [1, 2], ONE, [0, 1], [2, 3], auto_pad=pad).output(0)], [IMAGE])
      for pad in ("explicit", "valid", "same_upper", "same_lower")),
    *(Case(f"patches_{pad}", lambda x, pad=pad: op.extract_image_patches(x, [3, 2], [2, 3], [1, 2], pad), [IMAGE])
      for pad in ("valid", "same_upper", "same_lower")),
    Case("mean_rounded_up", lambda x: opset14.avg_pool(x, [2, 2], [0, 0], [0, 0], [3, 3], False, "ceil_torch"),
         [draw(1, 2, 6, 8)]),
    Case("mean_volume", lambda x: opset1.avg_pool(x, [2, 2, 2], [1, 0, 0], [1, 1, 1], [3, 2, 2], True),
         [draw(2, 3, 6, 5, 4)]),
    Case("max_14", lambda x: [opset14.max_pool(x, [2, 2], ONE, ONE, [0, 0], [3, 3], "ceil_torch").output(0)], [IMAGE]),
    *(Case(f"mean_{end[0]}_{excluded}_{rounding}", lambda x, e=excluded, r=rounding, end=end: opset14.avg_pool(
        x, [2, 2], [1, 0], end, [3, 3], e, r), [SQUARE])
      for end in ([0, 0], [1, 0]) for excluded in (False, True) for rounding in ("floor", "ceil", "ceil_torch")),
    *(Case(f"mean_same_{excluded}", lambda x, e=excluded: opset1.avg_pool(
        x, [2, 2], [0, 0], [0, 0], [3, 2], e, "floor", "same_upper"), [IMAGE])
      for excluded in (False, True)),
    *(Case(f"adaptive_{name}_{len(sizes)}", lambda x, name=name, sizes=sizes: [ports(
        op.adaptive_avg_pool(x, const(sizes)) if name == "mean" else op.adaptive_max_pool(x, const(sizes), "i32"))[0]],
           [draw(2, 3, *range(7, 7 + len(sizes)))])
      for name in ("mean", "max") for sizes in ([3], [7, 3], [1, 9])),
    Case("adaptive_to_parts", lambda x: op.adaptive_avg_pool(x, op.divide(op.gather(
        op.shape_of(x), const([2, 3]), const(0)), const([2, 3]))), [draw(2, 3, 5, 10)]),
    Case("adaptive_volume", lambda x: op.adaptive_avg_pool(x, const([2, 1, 4])), [draw(2, 3, 4, 5, 6)]),
]
RESIZED = [
    *(Case(f"{mode}_{coordinates}_{size}", lambda x, m=mode, c=coordinates, s=size: op.interpolate(
        x, const(s), m, "sizes", coordinate_transformation_mode=c, axes=[2, 3]), [draw(1, 2, 5, 6)], tolerance=SMALL)
      for mode in ("nearest", "linear", "linear_onnx", "cubic")
      for coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn")
      for size in ([8, 9], [1, 4])),
    *(Case(f"{nearest}_{scales}", lambda x, n=nearest, s=scales: op.interpolate(
        x, const(s), "nearest", "scales", coordinate_transformation_mode="asymmetric", nearest_mode=n, axes=[2, 3]),
           [draw(1, 2, 5, 6)])
      for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
      for scales in ([2.0, 1.5], [0.5, 0.6])),
    *(Case(f"{mode}_{coordinates}_by_scales", lambda x, m=mode, c=coordinates: op.interpolate(
        x, const([1.7, 0.6]), m, "scales", coordinate_transformation_mode=c, nearest_mode="simple", axes=[2, 3]),
           [draw(1, 2, 5, 6)], tolerance=SMALL)
      for mode in ("linear", "linear_onnx", "cubic") for coordinates in ("asymmetric", "align_corners")),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("cases", [CONVOLUTIONS, DEFORMED, POOLS], ids=["convolutions", "deformed", "pools"])
def test_as_openvino(tmp_path: Path, cases: list[Case], dynamic: bool) -> None:
    check(tmp_path, cases, dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_interpolation(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, RESIZED, dynamic)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("mode", "nearest"), [("nearest", "floor"), ("nearest", "ceil"), ("linear_onnx", "floor")])
def test_halves_of_pixels_as_openvino_rounds_them(tmp_path: Path, mode: str, nearest: str, backend: str) -> None:
    """Of sizes that a run tells: 4.5 / (9 / 14) is 7 in float32, and an axis that gets no other size stays."""
    x, size = op.parameter([1, 1, 1, -1], f32), op.parameter([2], i64)
    made = op.interpolate(x, size, mode, "sizes", coordinate_transformation_mode="tf_half_pixel_for_nn",
                          nearest_mode=nearest, axes=[2, 3])
    path = save(tmp_path, [made.output(0)], [x, size])
    session = circlet.Session(circlet.load(path), backend=backend)
    for length, wanted in ((14, 9), (7, 7), (7, 17), (5, 9)):
        inputs: list[Array] = [np.arange(length, dtype=f32)[None, None, None], np.array([1, wanted], i64)]
        (found,) = session.run(inputs).values()
        same(found, run_openvino(path, inputs)[0], f"{length} to {wanted}", SMALL)


def test_sizes_that_a_run_computes(tmp_path: Path) -> None:
    """As large as another image, each along axes of its own."""
    check(tmp_path, [Case(mode, lambda x, y, m=mode: op.interpolate(
        x, op.gather(op.shape_of(y), const([2, 3]), const(0)), m, "sizes", axes=[2, 3]),
        [draw(1, 2, 5, 6), draw(1, 1, *sizes)], tolerance=SMALL)
        for mode, sizes in (("linear_onnx", (9, 4)), ("nearest", (10, 12)), ("cubic", (3, 7)))], dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_transpositions_meet_and_cancel(tmp_path: Path, dynamic: bool) -> None:
    """Between layers that compute with channels last there are none: one is left in front and one behind."""
    x = op.parameter([-1] * 4 if dynamic else list(IMAGE.shape), IMAGE.dtype)
    first = op.relu(op.add(conv((3, 3, 3, 3), ONE, ONE, ONE, ONE)(x), const(draw(1, 3, 1, 1))))
    second = op.add(conv((3, 3, 3, 3), ONE, ONE, ONE, ONE)(first), first)
    mean = opset14.avg_pool(second, ONE, ONE, ONE, [3, 3], False, "floor")
    path = save(tmp_path, [mean.output(0)], [x])
    subgraph = circlet.load(path).subgraphs[0]
    assert sum(isinstance(each.op, Transpose) for each in subgraph.operators) == 2
    computed = {each.op.name: subgraph.tensors[each.outputs[0]].name for each in subgraph.operators}
    assert computed["CONV_2D"].startswith("Convolution_")
    (addend,) = [subgraph.tensors[each.inputs[1]] for each in subgraph.operators
                 if isinstance(each.op, Add) and subgraph.tensors[each.inputs[1]].is_constant]
    assert addend.name.startswith("Constant_")
    same(run(path, [IMAGE])[0], run_openvino(path, [IMAGE])[0], "mean", SMALL)
