"""Cases of resizing; expected values are LiteRT's reference kernels'."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor
from tests.ops.cases import Case, T, as_t, q
from tests.ops.grids import grid, ramp
from tests.ops.run_cases import case_test

IMAGE = ramp((1, 2, 3, 2))
INT8 = T(ramp((1, 2, 3, 2), np.int8, step=53, span=256, start=-128), q=q(0.05, 7))
UINT8 = T(ramp((1, 2, 3, 2), np.uint8, step=53, span=256, start=0), q=q(0.05, 131))
INT16 = T(ramp((1, 2, 3, 2), np.int16, step=5347, span=65536, start=-32768), q=q(0.0004))
SIZE = T([3, 4], constant=True)

BILINEAR = [
    Case("plain", ResizeBilinear(), [IMAGE, SIZE],
         [grid((1, 3, 4, 2), [-11, -4, -0.5, 6.5, -1.5, 5.5, -6, 1, 1.666667, -6.666667, 0.66666675, 3.833333,
                              -4.166667, 2.8333333, -8.666667, -1.6666666, 8, -8, 1.25, 2.5, -5.5, 1.5, -9.999999,
                              -3])], tolerance=1e-6),
    Case("align-corners", ResizeBilinear(align_corners=True), [IMAGE, SIZE],
         [grid((1, 3, 4, 2), [-11, -4, -1.6666665, 5.333334, -3.5762787e-07, 6.9999995, -6, 1, -1.5, -6, 0.16666666,
                              3.3333335, -2.0000005, 4.9999995, -8, -1, 8, -8, 1.9999998, 1.3333335, -4.0000005,
                              2.9999995, -10, -3])], tolerance=1e-6),
    Case("half-pixel-centers", ResizeBilinear(half_pixel_centers=True), [IMAGE, [3, 2]],
         [grid((1, 3, 2, 2), [-7.5, -0.50000012, -3.75, 3.25, -0.875, -2.5, -5.75, 1.25, 5.75, -4.5, -7.7499995,
                              -0.74999994])], tolerance=1e-6),
    Case("to-one", ResizeBilinear(align_corners=True), [IMAGE, [1, 1]], [grid((1, 1, 1, 2), [-11, -4])]),
    Case("int8", ResizeBilinear(half_pixel_centers=True), [INT8, SIZE],
         [T(grid((1, 3, 4, 2), [-128, -75, -62, -9, 18, -25, 84, -119, -97, -44, -31, 22, 1, 6, -13, -88, -66, -13, 0,
                                53, -16, 37, -110, -57], np.int8), q=q(0.05, 7))]),
    Case("int8-align-corners", ResizeBilinear(align_corners=True), [INT8, SIZE],
         [T(grid((1, 3, 4, 2), [-128, -75, -57, -4, 13, -19, 84, -119, -97, -44, -26, 27, 2, 12, -13, -88, -66, -13, 5,
                                58, -10, 43, -110, -57], np.int8), q=q(0.05, 7))]),
    Case("uint8", ResizeBilinear(), [UINT8, SIZE],
         [T(grid((1, 3, 4, 2), [0, 53, 80, 133, 159, 84, 212, 9, 41, 94, 121, 174, 115, 125, 83, 50, 62, 115, 142, 195,
                                93, 146, 18, 71], np.uint8), q=q(0.05, 131))]),
    Case("int8-rounded-up", ResizeBilinear(),
         [T(np.array([[[[0], [64]], [[9], [9]]]], np.int8), q=q(0.05)), T([2, 65], constant=True)],
         [T(np.stack([np.minimum(2 * np.arange(65), 64), np.full(65, 9)]).astype(np.int8).reshape(1, 2, 65, 1),
            q=q(0.05))]),
    Case("int16", ResizeBilinear(), [INT16, SIZE],
         [T(grid((1, 3, 4, 2), [-32768, -27421, -24748, -19401, -16727, -11380, -11380, -6033, -11370, -6023, -3349,
                                1998, 4671, 10018, 10018, 15365, -686, 4661, 7335, 12682, 15355, 20702, 20702, 26049],
                 np.int16), q=q(0.0004))]),
    Case("both", ResizeBilinear(True, True), [IMAGE, SIZE], [IMAGE], error="exclude each other"),
    Case("to-nothing", ResizeBilinear(), [IMAGE, [0, 2]], [IMAGE], error="cannot resize 2 x 3 to 0 x 2"),
    Case("wrong-rank", ResizeBilinear(), [IMAGE[0], SIZE], [IMAGE], error=r"shape \(n, h, w, c\)"),
]
test_resize_bilinear = case_test(BILINEAR)

NEAREST = [
    Case("plain", ResizeNearestNeighbor(), [IMAGE, SIZE],
         [grid((1, 3, 4, 2), [-11, -4, -11, -4, 3, 10, -6, 1, -11, -4, -11, -4, 3, 10, -6, 1, 8, -8, 8, -8, -1, 6, -10,
                              -3])]),
    Case("align-corners", ResizeNearestNeighbor(align_corners=True), [IMAGE, SIZE],
         [grid((1, 3, 4, 2), [-11, -4, 3, 10, 3, 10, -6, 1, 8, -8, -1, 6, -1, 6, -10, -3, 8, -8, -1, 6, -1, 6, -10,
                              -3])]),
    Case("half-pixel-centers", ResizeNearestNeighbor(half_pixel_centers=True), [IMAGE, [1, 2]],
         [grid((1, 1, 2, 2), [8, -8, -10, -3])]),
    Case("int8", ResizeNearestNeighbor(), [INT8, [1, 5]],
         [T(grid((1, 1, 5, 2), [-128, -75, -128, -75, -22, 31, -22, 31, 84, -119], np.int8), q=q(0.05, 7))]),
    Case("bool", ResizeNearestNeighbor(), [IMAGE[:, :1] > 0, [2, 2]],
         [grid((1, 2, 2, 2), [False, False, True, True, False, False, True, True], np.bool_)]),
    Case("wrong-size", ResizeNearestNeighbor(), [IMAGE, [2, 2, 2]], [IMAGE], error="holds height and width"),
]
test_resize_nearest_neighbor = case_test(NEAREST)


def test_size_that_changes_is_checked() -> None:
    size, out = np.array([3, 4], np.int32), np.empty((1, 3, 4, 2), np.float32)
    call = Call(ResizeNearestNeighbor(), (as_t(IMAGE).tensor, as_t(size).tensor), (as_t(out).tensor,))
    step = CpuBackend().kernel(call).bind([IMAGE, size], [out], Run(Variables()))
    step()
    size[:] = 3, 5
    with pytest.raises(ExecutionError, match=r"has shape \(1, 3, 5, 2\), the model declares \(1, 3, 4, 2\)"):
        step()
