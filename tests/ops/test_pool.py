"""Cases of pooling.

Expected values are LiteRT's reference kernels', or follow from the comment; infinities and NaN stay what they are.
"""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import Activation, Padding
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from tests.ops.cases import Case, T, q
from tests.ops.grids import grid, ramp
from tests.ops.run_cases import case_test

IMAGE = ramp((1, 5, 4, 2), scale=0.25)
INT8 = T(ramp((1, 5, 4, 2), np.int8, step=53, span=256, start=-128), q=q(0.05, 7))
UINT8 = T(ramp((1, 5, 4, 2), np.uint8, step=53, span=256, start=0), q=q(0.05, 131))
INT16 = T(ramp((1, 5, 4, 2), np.int16, step=5347, span=65536, start=-32768), q=q(0.0004))

AVERAGE = [
    Case("same", AveragePool2D(stride_h=2, stride_w=2, filter_height=2, filter_width=2), [IMAGE],
         [grid((1, 3, 2, 2), [-1.1875, 0.5625, 0.0625, 0.375, 0.9375, -0.1875, -0.6875, -0.375, 0.375, -0.75, 1.625,
                              0.5])]),
    Case("valid-relu", AveragePool2D(Padding.VALID, stride_h=1, stride_w=2, filter_height=4, filter_width=2,
                                     fused_activation_function=Activation.RELU), [IMAGE],
         [grid((1, 2, 2, 2), [0, 0.1875, 0, 0, 0.21875, 0, 0.03125, 0.34375])]),
    Case("whole-image", AveragePool2D(Padding.VALID, stride_h=1, stride_w=1, filter_height=5, filter_width=4), [IMAGE],
         [grid((1, 1, 1, 2), [0.025, 0.050000001])], tolerance=1e-6),
    Case("int8", AveragePool2D(stride_h=2, stride_w=2, filter_height=3, filter_width=2), [INT8],
         [T(grid((1, 3, 2, 2), [-55, -2, 29, -46, 5, 15, 4, -29, 1, -10, 21, -54], np.int8), q=q(0.05, 7))]),
    # Sums -1, 1, 3 and -3 of two elements.
    Case("int8-halves", AveragePool2D(Padding.VALID, stride_h=1, stride_w=1, filter_height=2, filter_width=1),
         [T(grid((1, 2, 4, 1), [-1, 1, 1, -1, 0, 0, 2, -2], np.int8), q=q(1))],
         [T(grid((1, 1, 4, 1), [-1, 1, 2, -2], np.int8), q=q(1))]),
    Case("uint8-relu6", AveragePool2D(stride_h=2, stride_w=2, filter_height=3, filter_width=2,
                                      fused_activation_function=Activation.RELU6), [UINT8],
         [T(grid((1, 3, 2, 2), [131, 131, 157, 131, 133, 143, 132, 131, 131, 131, 149, 131], np.uint8),
            q=q(0.05, 131))]),
    Case("int16", AveragePool2D(stride_h=2, stride_w=2, filter_height=3, filter_width=2), [INT16],
         [T(grid((1, 3, 2, 2), [-6033, -686, -1029, -12066, 3518, -2058, 3060, -2515, 7607, -3430, -3773, -14810],
                 np.int16), q=q(0.0004))]),
    Case("no-filter", AveragePool2D(stride_h=1, stride_w=1), [IMAGE], [IMAGE], error="size 0"),
    Case("int32", AveragePool2D(stride_h=1, stride_w=1, filter_height=1, filter_width=1),
         [T(np.zeros((1, 1, 1, 1), np.int32))], [T(np.zeros((1, 1, 1, 1), np.int32))], error="element type int32"),
]
test_average_pool_2d = case_test(AVERAGE)

MAX = [
    Case("same", MaxPool2D(stride_h=2, stride_w=2, filter_height=2, filter_width=3), [IMAGE - 9],
         [grid((1, 3, 2, 2), [-8, -6.25, -7, -6.25, -6.5, -7, -7.75, -7, -6.25, -8, -6.25, -6.75])]),
    Case("valid-relu6", MaxPool2D(Padding.VALID, stride_h=2, stride_w=1, filter_height=2, filter_width=2,
                                  fused_activation_function=Activation.RELU6), [IMAGE * 4],
         [grid((1, 2, 3, 2), [3, 6, 4, 6, 6, 6, 6, 6, 6, 6, 5, 6])]),
    Case("nan-and-infinities", MaxPool2D(stride_h=1, stride_w=2, filter_height=1, filter_width=2),
         [grid((1, 1, 5, 1), [np.nan, 1, np.inf, 2, -np.inf])], [grid((1, 1, 3, 1), [np.nan, np.inf, -np.inf])]),
    Case("int8", MaxPool2D(stride_h=2, stride_w=2, filter_height=3, filter_width=2), [INT8],
         [T(grid((1, 3, 2, 2), [40, 93, 102, 49, 120, 111, 102, 67, 120, 85, 94, 41], np.int8), q=q(0.05, 7))]),
    Case("uint8", MaxPool2D(Padding.VALID, stride_h=1, stride_w=1, filter_height=5, filter_width=4), [UINT8],
         [T(grid((1, 1, 1, 2), [248, 239], np.uint8), q=q(0.05, 131))]),
    Case("uint8-plain", MaxPool2D(stride_h=2, stride_w=2, filter_height=3, filter_width=2), [UINT8.value],
         [grid((1, 3, 2, 2), [168, 221, 230, 177, 248, 239, 230, 195, 248, 213, 222, 169], np.uint8)]),
    Case("int16-relu-n1-to-1", MaxPool2D(stride_h=2, stride_w=2, filter_height=3, filter_width=2,
                                         fused_activation_function=Activation.RELU_N1_TO_1), [INT16],
         [T(grid((1, 3, 2, 2), [2500, 2500, 2500, 2500, 2500, 2500, 2500, 2500, 2500, 2500, 2500, 1917], np.int16),
            q=q(0.0004))]),
    Case("does-not-fit", MaxPool2D(Padding.VALID, stride_h=1, stride_w=1, filter_height=7, filter_width=1), [IMAGE],
         [IMAGE], error="spans 7 elements does not fit into 5"),
]
test_max_pool_2d = case_test(MAX)

L2 = [
    Case("same", L2Pool2D(stride_h=2, stride_w=2, filter_height=2, filter_width=2), [IMAGE],
         [grid((1, 3, 2, 2), [1.8998355, 1.5860722, 1.4842927, 1.7230061, 1.7544585, 1.4947826, 1.634587, 1.7230061,
                              1.1858541, 1.9039433, 1.9764235, 1.8200275])], tolerance=1e-6),
    Case("valid", L2Pool2D(Padding.VALID, stride_h=1, stride_w=1, filter_height=1, filter_width=2),
         [grid((1, 1, 3, 1), [3, -3, 21])], [grid((1, 1, 2, 1), [3, 15])]),
]
test_l2_pool_2d = case_test(L2)
