"""Resizing along any axes, and sampling at places that a tensor names."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import Array
from circlet.runtime.ops.resample import Aspect, Coordinates, Interpolation, Nearest, Resample
from circlet.runtime.ops.sample import GridSample, Outside, RegionMax, RoiAlign
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

NAN = np.nan
ROW = [0.0, 1.0, 2.0, 3.0]
TEN = np.arange(10, dtype=np.float32)
THIRD = Resample((0,), coordinates=Coordinates.ASYMMETRIC, nearest=Nearest.FLOOR)
LINEAR, CUBIC = Interpolation.LINEAR, Interpolation.CUBIC


def factor(*values: float) -> T:
    return T(np.array(values, np.float32), constant=True)


def size(*values: int) -> T:
    return T(np.array(values, np.int64), constant=True)


CASES = [
    Case("nearest", Resample((0,)), [ROW, factor(2)], [[0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]]),
    Case("nearest-int", Resample((0,)), [np.array([5, 7], np.int64), size(4)], [np.array([5, 5, 7, 7], np.int64)]),
    Case("nearest-bytes", Resample((1,)), [np.array([[5, -7], [3, 2]], np.int8), size(4)],
         [np.array([[5, 5, -7, -7], [3, 3, 2, 2]], np.int8)]),
    Case("linear", Resample((0,), LINEAR), [ROW, size(8)], [[0.0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.0]], 1e-6),
    Case("linear-at-run-time", Resample((0,), LINEAR), [ROW, np.array([2], np.int64)], [[0.5, 2.5]], 1e-6),
    Case("corners", Resample((0,), LINEAR, Coordinates.ALIGN_CORNERS), [ROW, size(7)],
         [[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]], 1e-6),
    Case("cubic", Resample((0,), CUBIC), [[1.0, 1.0, 1.0, 1.0], size(6)], [[1.0] * 6], 1e-6),
    Case("cubic-inside", Resample((0,), CUBIC, cubic_coefficient=-0.5, exclude_outside=True), [ROW, size(6)],
         [[-0.06578921, 0.41176474, 1.1666659, 1.8333337, 2.5882354, 3.0657895]], 1e-5),
    Case("linear-inside", Resample((0,), LINEAR, exclude_outside=True), [ROW, size(8)],
         [[0.0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.0]], 1e-6),
    Case("antialias", Resample((0,), LINEAR, antialias=True), [ROW, size(2)], [[0.625, 2.375]], 1e-6),
    Case("second-axis", Resample((1,)), [[[1.0, 2.0], [3.0, 4.0]], size(1)], [[[1.0], [3.0]]]),
    Case("aspect", Resample((0, 1), aspect=Aspect.NOT_LARGER), [np.ones((2, 2), np.float32), size(4, 8)],
         [np.ones((4, 4), np.float32)]),
    Case("crop", Resample((0,), LINEAR, Coordinates.TF_CROP_AND_RESIZE, extrapolation=9.0),
         [ROW, size(3), [0.0, 2.0]], [[0.0, 3.0, 9.0]], 1e-6),
    Case("crop-nearest", Resample((0,), coordinates=Coordinates.TF_CROP_AND_RESIZE, extrapolation=9.0),
         [ROW, size(4), [-0.5, 1.0]], [[9.0, 0.0, 1.0, 3.0]], 1e-6),
    Case("crop-nowhere", Resample((0,), coordinates=Coordinates.TF_CROP_AND_RESIZE, extrapolation=9.0),
         [ROW, size(2), [0.0, np.nan]], [[9.0, 9.0]]),
    Case("crop-axes", Resample((0, 1), LINEAR, Coordinates.TF_CROP_AND_RESIZE, extrapolation=-1.0),
         [[[0.0, 1.0, 2.0], [4.0, 5.0, 6.0]], size(3, 1), [0.0, 0.0, 2.0, 1.0]], [[[1.0], [5.0], [-1.0]]], 1e-6),
    Case("complex", Resample((0,), coordinates=Coordinates.TF_CROP_AND_RESIZE),
         [ROW, size(2), np.array([0, 1], np.complex64)], [ROW], error="element type complex64"),
    Case("rounded", Resample((0,)), [TEN, factor(0.7)], [[0.0, 2.0, 3.0, 4.0, 6.0, 7.0, 9.0]]),
    Case("third", THIRD, [TEN, factor(1 / 3)], [[0.0, 3.0, 6.0]]),
    Case("third-at-run-time", THIRD, [TEN, size(3), None, np.array([1 / 3], np.float32)], [[0.0, 3.0, 6.0]]),
    Case("linear-factor", Resample((0,), LINEAR), [ROW, size(5), None, np.array([1.45], np.float32)],
         [[0.0, 0.53448, 1.22414, 1.91379, 2.60345]], 1e-4),
    Case("large-integers", Resample((0,)), [np.array([1, 2**62 + 1], np.int64), size(4)],
         [np.array([1, 1, 2**62 + 1, 2**62 + 1], np.int64)]),
    Case("places-far-away", Resample((0,), LINEAR), [ROW, size(5), None, np.array([1e-45], np.float32)], [[3.0] * 5]),
    Case("factors", Resample((0,)), [ROW, size(2), None, np.array([1, 2], np.float32)], [ROW],
         error="input 3: expected one number for each of the axes"),
    Case("region", Resample((0,)), [ROW, size(2), np.zeros(1, np.float32)], [ROW],
         error="input 2: expected two numbers for each of the axes"),
    Case("no-images", Resample((0, 1), LINEAR), [np.zeros((0, 4), np.float32), size(0, 6)],
         [np.zeros((0, 6), np.float32)]),
    Case("no-images-by-factor", Resample((0, 1)), [np.zeros((0, 4), np.float32), factor(1, 2)],
         [np.zeros((0, 8), np.float32)]),
    Case("nothing", Resample((0,)), [np.zeros(0, np.float32), size(3)], [ROW], error="cannot resize"),
    Case("count", Resample((0,)), [ROW, size(1, 2)], [ROW], error="one number for each of the axes"),
    Case("twice", Resample((0, 0)), [ROW, size(1, 2)], [ROW], error="axes: expected axes of .*, each once"),
    Case("zero", Resample((0,)), [ROW, size(0)], [ROW], error="cannot resize"),
]
IMAGE = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
PLACES = np.array([[[[-1, -1], [1, -1], [0, 0], [3, 0]]]], np.float32)
SAMPLES = [
    Case("corners", GridSample(align_corners=True), [IMAGE, PLACES], [[[[[0.0], [1.0], [1.5], [0.0]]]]], 1e-6),
    Case("edges", GridSample(), [IMAGE, PLACES], [[[[[0.0], [0.25], [1.5], [0.0]]]]], 1e-6),
    Case("border", GridSample(outside=Outside.BORDER), [IMAGE, PLACES], [[[[[0.0], [1.0], [1.5], [2.0]]]]], 1e-6),
    Case("border-cubic", GridSample(Interpolation.CUBIC, Outside.BORDER),
         [IMAGE, np.array([[[[-1, -1], [1, -1], [0.25, 0], [1.5, 0], [3, -2]]]], np.float32)],
         [[[[[-0.28125], [0.90625], [1.7734375], [2.0], [1.0]]]]], 1e-6),
    Case("border-cubic-corners", GridSample(Interpolation.CUBIC, Outside.BORDER, True),
         [IMAGE, np.array([[[[-1, -1], [1, -1], [0.25, 0], [1.5, 0], [3, -2]]]], np.float32)],
         [[[[[0.0], [1.0], [1.6396484375], [2.10546875], [0.8125]]]]], 1e-6),
    Case("reflection", GridSample(Interpolation.NEAREST, Outside.REFLECTION, True),
         [IMAGE, np.array([[[[1.5, -1]]]], np.float32)], [[[[[1.0]]]]]),
    Case("nan", GridSample(), [IMAGE, np.array([[[[np.nan, 0]]]], np.float32)], [[[[[np.nan]]]]]),
    Case("nan-is-first", GridSample(outside=Outside.BORDER, nan_is_first=True),
         [IMAGE, np.array([[[[np.nan, 0], [1, np.nan], [np.nan, np.nan]]]], np.float32)], [[[[[1.0], [1.0], [0.0]]]]]),
    Case("index", GridSample(is_index=True), [IMAGE, np.array([[[[1, 1], [0.5, 0], [-0.5, 0], [2, 0]]]], np.float32)],
         [[[[[3.0], [0.5], [0.0], [0.0]]]]]),
    Case("complex", GridSample(), [IMAGE, np.ones((1, 1, 1, 2), np.complex64)], [IMAGE],
         error="element type complex64 of input 1"),
    Case("shape", GridSample(), [IMAGE, np.ones((1, 1, 1, 3), np.float32)], [IMAGE], error=r"\(n, \*places, 2\)"),
]

ROWS = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
FIRST = np.zeros(1, np.int64)


def boxes(*corners: float) -> Array:
    return np.array(corners, np.float32).reshape(-1, 4)


REGIONS = [
    Case("whole", RoiAlign(1, 1), [ROWS, boxes(0, 0, 4, 3), FIRST], [[[[[5.5]]]]], 1e-6),
    Case("cells", RoiAlign(1, 2, 1), [ROWS, boxes(0, 0, 4, 3), FIRST], [[[[[4.5], [6.5]]]]], 1e-6),
    Case("scale", RoiAlign(1, 2, 1, 0.5), [ROWS, boxes(0, 0, 8, 6), FIRST], [[[[[4.5], [6.5]]]]], 1e-6),
    Case("side-of-one", RoiAlign(1, 1, 1, is_half_pixel=False), [ROWS, boxes(1, 1, 1, 1), FIRST], [[[[[7.5]]]]], 1e-6),
    Case("point", RoiAlign(1, 1), [ROWS, boxes(1, 1, 1, 1), FIRST], [[[[[0.0]]]]]),
    Case("outside", RoiAlign(1, 2, 1), [ROWS, boxes(4, 0, 12, 3), FIRST], [[[[[0.0], [0.0]]]]]),
    Case("far", RoiAlign(1, 1), [ROWS, boxes(-1e9, -1e9, 1e9, 1e9), FIRST], [[[[[0.0]]]]], 1e-6),
    Case("no-number", RoiAlign(1, 1, 2), [ROWS, boxes(np.nan, 0, np.inf, 3), FIRST], [[[[[0.0]]]]]),
    Case("max", RoiAlign(1, 2, 1, is_max=True), [ROWS, boxes(0, 0, 4, 3), FIRST], [[[[[2.5], [3.5]]]]], 1e-6),
    Case("max-below-0", RoiAlign(1, 2, 1, is_max=True), [-ROWS - 1, boxes(0, 0, 4, 2), FIRST],
         [[[[[-0.25], [-0.75]]]]], 1e-6),
    Case("max-outside", RoiAlign(1, 2, 2, is_max=True), [-ROWS - 1, boxes(0, 0, 12, 3), FIRST],
         [[[[[0.0], [0.0]]]]]),
    Case("max-of-none", RoiAlign(1, 1, is_max=True), [-ROWS - 1, boxes(1, 1, 1, 1), FIRST], [[[[[0.0]]]]]),
    Case("none", RoiAlign(2, 2), [ROWS, boxes(), np.zeros(0, np.int64)], [np.zeros((0, 2, 2, 1), np.float32)]),
    Case("beyond", RoiAlign(1, 1), [ROWS, boxes(0, 0, 1, 1), FIRST + 1], [[[[[0.0]]]]],
         error="input 2: expected numbers of 1 images, found 1"),
    Case("before", RoiAlign(1, 1), [ROWS, boxes(0, 0, 1, 1), FIRST - 1], [[[[[0.0]]]]],
         error="input 2: expected numbers of 1 images, found -1"),
    Case("empty", RoiAlign(1, 1), [ROWS[:, :0], boxes(0, 0, 1, 1), FIRST], [[[[[0.0]]]]],
         error="no elements to sample"),
    Case("corners", RoiAlign(1, 1), [ROWS, np.zeros((1, 3), np.float32), FIRST], [[[[[0.0]]]]],
         error=r"expected images \(b, h, w, c\), boxes \(n, 4\)"),
]



def spans(*bounds: int) -> Array:
    return np.array(bounds, np.int32).reshape(1, -1, 2)


NONE = np.zeros((0, 2, 2), np.int32)
GREATEST = [
    Case("cells", RegionMax(), [ROWS, FIRST, spans(0, 1, 1, 3), spans(0, 2, 2, 4)],
         [[[[[1.0], [3.0]], [[9.0], [11.0]]]]]),
    Case("outside", RegionMax(), [-ROWS, FIRST, spans(-5, 1, 2, 9), spans(-1, 9)], [[[[[0.0]], [[-8.0]]]]]),
    Case("nothing", RegionMax(), [-ROWS - 1, FIRST, spans(1, 1, 2, 1, 7, 9), spans(0, 4)],
         [np.zeros((1, 3, 1, 1), np.float32)]),
    Case("not-a-number", RegionMax(), [np.full((1, 1, 2, 1), [[[NAN], [1]]], np.float32), FIRST, spans(0, 1),
                                       spans(0, 2, 1, 2)], [[[[[NAN], [1.0]]]]]),
    Case("none", RegionMax(), [ROWS, np.zeros(0, np.int64), NONE, NONE], [np.zeros((0, 2, 2, 1), np.float32)]),
    Case("beyond", RegionMax(), [ROWS, FIRST + 1, spans(0, 1), spans(0, 1)], [[[[[0.0]]]]],
         error="input 1: expected numbers of 1 images, found 1"),
    Case("bounds", RegionMax(), [ROWS, FIRST, spans(0, 1)[..., :1], spans(0, 1)], [[[[[0.0]]]]],
         error=r"rows \(n, r, 2\)"),
]

test_resample = case_test(CASES)
test_sample = case_test(SAMPLES)
test_regions = case_test(REGIONS)
test_greatest = case_test(GREATEST)
