"""Cases of the convolutions.

Expected values are LiteRT's reference kernels', or follow from the comment; infinities stay what they are.
"""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops.conv import (
    BiasedTransposeConv,
    Conv2D,
    Conv3D,
    Conv3DTranspose,
    DepthwiseConv2D,
    TransposeConv,
)
from tests.ops.cases import Case, T, q
from tests.ops.grids import grid, ramp
from tests.ops.run_cases import case_test


def per_channel(axis: int, *scales: float) -> Quantization:
    return Quantization(tuple(float(np.float32(scale)) for scale in scales), (0,) * len(scales), axis)


IMAGE = ramp((1, 5, 4, 2), scale=0.25)
TWO_IMAGES = np.concatenate([IMAGE, IMAGE * 3 - 2])[:, :3, :3]
FILTER = ramp((3, 3, 3, 2), step=5, scale=0.5)
BIAS = np.array([0.5, -1, 2], np.float32)
INT8 = T(ramp((1, 5, 4, 2), np.int8, step=53, span=256, start=-128), q=q(0.05, 7))
INT8_FILTER = ramp((3, 3, 3, 2), np.int8, step=71, span=255, start=-127)
PER_CHANNEL = T(INT8_FILTER, q=per_channel(0, 0.02, 0.005, 0.01), constant=True)
INT32_BIAS = T(np.array([300, -2000, 77], np.int32), constant=True)
UINT8 = T(ramp((1, 5, 4, 2), np.uint8, step=53, span=256, start=0), q=q(0.05, 131))
INT16 = T(ramp((1, 5, 4, 2), np.int16, step=5347, span=65536, start=-32768), q=q(0.0004))
SAME_2 = Conv2D(stride_h=2, stride_w=2)
VALID = Conv2D(padding=Padding.VALID, stride_h=1, stride_w=1)
PARTS = np.broadcast_to(np.arange(128, dtype=np.float32)[:, None, None], (3, 128, 128, 1)) * 2
IMAGES = np.broadcast_to(np.arange(40, dtype=np.float32)[:, None, None, None], (40, 32, 32, 1))

SUMS = np.stack([INT8.array[:, :-1, :, 0].astype(np.int32) + INT8.array[:, 1:, :, 1],
                 127 * (INT8.array[:, :-1].astype(np.int32) + INT8.array[:, 1:]).sum(-1, np.int32) - 5], axis=-1)

CONV_2D = [
    Case("same-stride-relu6", Conv2D(stride_h=2, stride_w=2, fused_activation_function=Activation.RELU6),
         [IMAGE, T(FILTER, constant=True), T(BIAS, constant=True)],
         [grid((1, 3, 2, 3), [6, 6, 6, 6, 0, 0, 0, 6, 6, 0.25, 0, 0, 0, 0, 0, 1.375, 0, 0])]),
    Case("filter-is-an-input", SAME_2, [IMAGE, FILTER, BIAS],
         [grid((1, 3, 2, 3), [53.375, 23.125, 26.125, 16.125, -1.5, -0.25, -0.375, 19.75, 50.125, 0.25, -11.5, -7.25,
                              -17.75, -34.5, -12.25, 1.375, -1.5, -2.75])]),
    Case("dilation", Conv2D(padding=Padding.VALID, stride_h=1, stride_w=1, dilation_h_factor=2),
         [IMAGE, T(FILTER[:, :2], constant=True), BIAS],
         [grid((1, 3, 2, 3), [28, -2.875, 5.25, -2.125, 5.5, -14, -12, -21.125, 8.75, 26.875, -4.125, 3.875, -20.375,
                              3.75, 0.75, 12.75, 9.25, -21.375])]),
    Case("groups", Conv2D(padding=Padding.VALID, stride_h=2, stride_w=1),
         [ramp((1, 3, 2, 4)), T(ramp((4, 2, 2, 2), step=5), constant=True), ramp((4,))],
         [grid((1, 1, 1, 4), [76, -124, 164, 51])]),
    Case("pointwise-without-bias", VALID, [IMAGE[:, :2, :2], T(FILTER[:, :1, :1], constant=True)],
         [grid((1, 2, 2, 3), [18.125, -9.75, -6, -11.625, -6.25, -9.5, -3.125, -7.25, -8.5, 16, -9.5, -6.25])]),
    Case("window-covers-image", VALID, [IMAGE[:, :3, :3], T(FILTER, constant=True), BIAS],
         [grid((1, 1, 1, 3), [-10.5, -43.125, -36.75])]),
    Case("nothing-to-see", VALID, [IMAGE[:, :2], T(FILTER, constant=True), BIAS], [np.empty((1, 0, 2, 3), np.float32)]),
    Case("infinity-and-nan", VALID, [grid((1, 1, 3, 1), [np.inf, np.nan, 1]), grid((1, 1, 1, 1), [2]), grid((1,), [1])],
         [grid((1, 1, 3, 1), [np.inf, np.nan, 3])]),
    # Every row y of the result is 18 * (y + 1), every image i of the next 9 * i.
    Case("rows-in-parts", VALID, [PARTS, T(np.ones((8, 3, 3, 1), np.float32), constant=True)],
         [np.broadcast_to(np.arange(1, 127, dtype=np.float32)[:, None, None], (3, 126, 126, 8)) * 18]),
    Case("images-in-parts", VALID, [IMAGES, T(np.ones((8, 3, 3, 1), np.float32), constant=True)],
         [np.broadcast_to(IMAGES[:, :30, :30], (40, 30, 30, 8)) * 9]),
    Case("int8-per-channel", SAME_2, [INT8, PER_CHANNEL, INT32_BIAS],
         [T(grid((1, 3, 2, 3), [14, -4, 0, 67, 10, 29, -128, -65, -121, -128, -48, -88, 5, -6, -3, -44, -18, -28],
                 np.int8), q=q(0.2, -5))]),
    Case("int8-faint-channels", SAME_2,
         [INT8, T(INT8_FILTER, q=per_channel(0, 2.0**-24, 0.005, 2.0**-26), constant=True),
          T(np.array([2**30, -2000, -(2**30) - 64], np.int32), constant=True)],
         [T(grid((1, 3, 2, 3), [11, -4, -9, 11, 10, -9, 11, -65, -9, 11, -48, -9, 11, -6, -9, 11, -18, -9], np.int8),
            q=q(0.2, -5))]),
    Case("int8-per-tensor-relu", Conv2D(stride_h=2, stride_w=2, fused_activation_function=Activation.RELU),
         [INT8, T(INT8_FILTER, q=q(0.01)), INT32_BIAS],
         [T(grid((1, 3, 2, 3), [5, -3, 0, 31, 25, 29, -5, -5, -5, -5, -5, -5, 0, -5, -3, -5, -5, -5], np.int8),
            q=q(0.2, -5))]),
    # 599 * 127 * 255 + 126 * 255 is odd and above 2**24.
    Case("int8-sums-of-stored-integers", VALID,
         [INT8, T(np.stack([np.eye(2, dtype=np.int8), np.full((2, 2), 127, np.int8)]).reshape(
             2, 2, 1, 2), constant=True), T(np.array([0, -5], np.int32), constant=True)],
         [SUMS]),
    Case("int8-sum-beyond-float32", VALID,
         [T(np.full((1, 1, 1, 600), 127, np.int8), q=q(0.5, -128)),
          T(np.array([127] * 599 + [126], np.int8).reshape(1, 1, 1, 600), q=q(0.5), constant=True),
          T(np.array([-19430700], np.int32), constant=True)],
         [T(grid((1, 1, 1, 1), [45], np.int8), q=q(0.25))]),
    Case("uint8", SAME_2,
         [UINT8, T(ramp((3, 3, 3, 2), np.uint8, step=71, span=256, start=0), q=q(0.01, 120), constant=True),
          INT32_BIAS],
         [T(grid((1, 3, 2, 3), [108, 103, 110, 136, 131, 137, 0, 3, 9, 20, 10, 16, 103, 172, 178, 78, 120, 126],
                 np.uint8), q=q(0.2, 100))]),
    # In double precision the product of the scales gives 95.
    Case("uint8-product-of-scales", VALID,
         [T(np.zeros((1, 1, 1, 1), np.uint8), q=q(0.043)),
          T(np.ones((1, 1, 1, 1), np.uint8), q=q(0.048), constant=True), T(np.array([2729], np.int32), constant=True)],
         [T(grid((1, 1, 1, 1), [96], np.uint8), q=q(0.059))]),
    Case("int16-int64-bias", SAME_2, [INT16, PER_CHANNEL, T(np.array([300, -2000, 77], np.int64), constant=True)],
         [T(grid((1, 3, 2, 3), [-21152, -5415, -11077, -16773, -4353, -9016, -30028, -7476, -14882, -15173, -3786,
                                -7548, 14482, 3591, 7131, 7193, 1573, 2704], np.int16), q=q(0.002))]),
    Case("int16-int32-bias", Conv2D(stride_h=2, stride_w=2, quantized_bias_type=DType.INT32),
         [INT16, PER_CHANNEL, INT32_BIAS],
         [T(grid((1, 3, 2, 3), [-21152, -5415, -11077, -16773, -4353, -9016, -30029, -7476, -14882, -15173, -3786,
                                -7548, 14482, 3591, 7131, 7193, 1573, 2704], np.int16), q=q(0.002))]),
    Case("hybrid-per-channel", VALID, [TWO_IMAGES, PER_CHANNEL, BIAS],
         [grid((2, 1, 1, 3), [12.060353, 1.8829706, 7.7517056, 38.785179, 8.0093241, 18.894707])], tolerance=1e-6),
    Case("hybrid-per-tensor", VALID, [TWO_IMAGES, T(INT8_FILTER, q=q(0.01)), BIAS],
         [grid((2, 1, 1, 3), [6.2472835, 4.7323427, 7.7174015, 19.788563, 17.160255, 19.031948])], tolerance=1e-6),
    Case("hybrid-zeros", VALID, [np.zeros((1, 3, 3, 2), np.float32), PER_CHANNEL, BIAS],
         [grid((1, 1, 1, 3), [0.5, -1, 2])]),
    Case("no-stride", Conv2D(), [IMAGE, FILTER], [IMAGE], error="stride 0"),
    Case("does-not-fit", VALID, [IMAGE[:, :1], FILTER], [IMAGE], error="spans 3 elements does not fit into 1"),
    Case("wrong-channels", VALID, [IMAGE[..., :1], FILTER], [IMAGE], error="does not divide 1 channels into groups"),
    Case("wrong-bias", VALID, [IMAGE, FILTER, BIAS[:2]], [IMAGE], error=r"bias must have shape \(3,\), found \(2,\)"),
    Case("wrong-rank", VALID, [IMAGE[0], FILTER], [IMAGE], error="the input must have shape"),
    Case("tanh", Conv2D(stride_h=1, stride_w=1, fused_activation_function=Activation.TANH), [IMAGE, FILTER],
         [np.zeros((1, 5, 4, 3), np.float32)], error="TANH"),
    Case("wrong-axis", SAME_2, [INT8, T(INT8_FILTER, q=per_channel(3, 0.1, 0.2))],
         [T(np.zeros((1, 3, 2, 3), np.int8), q=q(1))], error="quantised along axis 3"),
    Case("mixed-types", SAME_2, [INT8, FILTER], [np.zeros((1, 3, 2, 3), np.int8)],
         error="int8 with a filter of float32"),
]
test_conv_2d = case_test(CONV_2D)

DEPTHWISE = DepthwiseConv2D(stride_h=2, stride_w=2)
DEPTHWISE_INT8 = T(ramp((1, 3, 2, 4), np.int8, step=71, span=255, start=-127),
                   q=per_channel(3, 0.02, 0.005, 0.01, 0.03), constant=True)
DEPTHWISE_BIAS = T(np.array([300, -2000, 77, 5], np.int32), constant=True)

DEPTHWISE_CONV_2D = [
    Case("same", DEPTHWISE, [IMAGE, T(ramp((1, 3, 2, 2), step=5), constant=True), BIAS[:2]],
         [grid((1, 3, 2, 2), [-11.25, 28.5, -6.25, 24, 2.5, 15.75, -19, 8.75, 25.5, 12, 22.5, -0.5])]),
    Case("multiplier-relu", DepthwiseConv2D(stride_h=2, stride_w=2, fused_activation_function=Activation.RELU),
         [IMAGE, ramp((1, 3, 2, 4), step=5), ramp((4,))],
         [grid((1, 3, 2, 4), [0, 0, 0, 0, 0, 0, 52.25, 0, 0, 44.75, 0, 20.5, 0, 0, 47.5, 23, 29.25, 0, 15.75, 11.5, 0,
                              46.75, 0, 9])]),
    Case("dilation-without-bias", DepthwiseConv2D(padding=Padding.VALID, stride_h=1, stride_w=1, dilation_h_factor=3,
                                                  dilation_w_factor=2), [IMAGE, ramp((1, 2, 2, 2), step=5)],
         [grid((1, 2, 2, 2), [21.75, 2.25, 20.25, -9.75, 4.25, 23.25, 20, -0.25])]),
    Case("images-in-parts", DepthwiseConv2D(padding=Padding.VALID, stride_h=1, stride_w=1),
         [np.repeat(PARTS, 8, axis=3), T(np.ones((1, 3, 3, 8), np.float32), constant=True)],
         [np.broadcast_to(np.arange(1, 127, dtype=np.float32)[:, None, None], (3, 126, 126, 8)) * 18]),
    Case("int8", DEPTHWISE, [INT8, DEPTHWISE_INT8, DEPTHWISE_BIAS],
         [T(grid((1, 3, 2, 4), [78, -34, -45, 57, -8, 4, -36, 127, 69, 6, 88, -63, -38, -22, 85, -18, -77, -33, -16,
                                -128, -32, -8, -68, -128], np.int8), q=q(0.1, -5))]),
    Case("int8-faint-channels", DEPTHWISE,
         [INT8, T(DEPTHWISE_INT8.value, q=per_channel(3, 2.0**-24, 0.005, 2.0**-26, 2.0**-28), constant=True),
          T(np.array([2**30, -2000, -(2**30) - 64, 2**31 - 200000], np.int32), constant=True)],
         [T(grid((1, 3, 2, 4), [11, -20, -9, -3, 11, 0, -9, -3, 11, 0, -9, -3, 11, -14, -9, -3, 11, -19, -9, -3, 11, -6,
                                -9, -3], np.int8), q=q(0.2, -5))]),
    Case("uint8", DEPTHWISE, [UINT8, T(ramp((1, 3, 2, 4), np.uint8, step=71, span=256, start=0), q=q(0.01, 120)),
                              DEPTHWISE_BIAS],
         [T(grid((1, 3, 2, 4), [135, 41, 173, 115, 98, 124, 124, 172, 130, 122, 86, 81, 78, 68, 21, 92, 59, 45, 92, 55,
                                82, 96, 36, 49], np.uint8), q=q(0.1, 100))]),
    Case("int16", DEPTHWISE, [INT16, DEPTHWISE_INT8, T(np.array([300, -2000, 77, 5], np.int64), constant=True)],
         [T(grid((1, 3, 2, 4), [27254, 3382, -32346, 32767, 365, -498, 21299, 26975, -24914, -3236, 27046, 32767,
                                -23718, -3327, 12863, -32768, -20801, -884, 7954, -32768, 9606, 254, -17901, 32767],
                 np.int16), q=q(0.001))]),
    Case("hybrid", DEPTHWISE, [IMAGE, DEPTHWISE_INT8, ramp((4,))],
         [grid((1, 3, 2, 4), [-8.6675682, -5.1014018, 3.6727254, 5.2919998, -11.189804, -3.9632256, -2.7517061,
                              9.3257647, -7.4152942, -2.7516079, 3.8991961, 12.697588, -9.752471, -4.7524214,
                              -1.7651567, 24.221706, -14.863373, -4.1618724, 1.6344901, 12.629647, -11.932628,
                              -3.6971765, 4.5617843, 12.929882])], tolerance=1e-6),
    Case("no-channels", DEPTHWISE, [IMAGE[..., :0], ramp((1, 3, 2, 4))], [IMAGE],
         error=r"shape \(1, kh, kw, 0 \* m\)"),
    Case("wrong-filter", DEPTHWISE, [IMAGE, ramp((1, 3, 2, 3))], [IMAGE], error=r"shape \(1, kh, kw, 2 \* m\)"),
    Case("hybrid-one-scale", DEPTHWISE, [IMAGE, T(DEPTHWISE_INT8.value, q=q(1))], [np.zeros((1, 3, 2, 4), np.float32)],
         error="one scale for all its channels"),
]
test_depthwise_conv_2d = case_test(DEPTHWISE_CONV_2D)

TRANSPOSED = TransposeConv(stride_h=2, stride_w=1)
SAME = grid((1, 3, 2, 3), [-15.25, -6, 30.75, -5.25, -8, -23.5, -33.25, 16.5, -21.25, 92, -25, 23.5, -15.25, 6.5, -1.75,
                           -12.75, -19.25, 36.25])
SMALL_INT8 = ramp((3, 3, 2, 2), np.int8, step=71, span=255, start=-127)
SMALL_PER_CHANNEL = T(SMALL_INT8, q=per_channel(0, 0.02, 0.005, 0.01), constant=True)

TRANSPOSE_CONV = [
    Case("same", TRANSPOSED, [T([1, 3, 2, 3], constant=True), T(ramp((3, 3, 2, 2), step=5), constant=True),
                              IMAGE[:, :2, :2], BIAS],
         [SAME]),
    # Converters write zero images where their number is open, or how many an example had.
    Case("zero-images", TRANSPOSED, [T([0, 3, 2, 3], constant=True), T(ramp((3, 3, 2, 2), step=5), constant=True),
                                     IMAGE[:, :2, :2], BIAS],
         [SAME]),
    Case("other-images", TRANSPOSED, [T([2, 3, 2, 3], constant=True), T(ramp((3, 3, 2, 2), step=5), constant=True),
                                      IMAGE[:, :2, :2], BIAS],
         [SAME]),
    # The filter leaves the last row to the bias.
    Case("valid-relu", TransposeConv(Padding.VALID, stride_h=2, stride_w=1, fused_activation_function=Activation.RELU),
         [[1, 4, 2, 2], ramp((2, 1, 1, 2), step=5), IMAGE[:, :2, :2], BIAS[:2]],
         [grid((1, 4, 2, 2), [36.75, 0, 0, 8.25, 0.5, 0, 0.5, 0, 0, 5.25, 32.5, 0, 0.5, 0, 0.5, 0])]),
    Case("int8", TRANSPOSED, [[1, 3, 2, 3], SMALL_PER_CHANNEL, T(INT8.array[:, :2, :2], q=INT8.q), INT32_BIAS],
         [T(grid((1, 3, 2, 3), [127, -19, -12, -128, 47, -18, -1, -31, 15, 127, 29, -124, -58, 2, -39, 127, -38, -6],
                 np.int8), q=q(0.1, -5))]),
    Case("uint8", TRANSPOSED, [[1, 3, 2, 3], T(ramp((3, 3, 2, 2), np.uint8, step=71, span=256, start=0),
                                               q=q(0.01, 120)),
                               T(UINT8.array[:, :2, :2], q=UINT8.q)],
         [T(grid((1, 3, 2, 3), [168, 81, 93, 29, 42, 87, 95, 60, 126, 228, 175, 0, 74, 127, 65, 222, 87, 98], np.uint8),
            q=q(0.1, 100))]),
    Case("int16", TRANSPOSED, [[1, 3, 2, 3], SMALL_PER_CHANNEL, T(INT16.array[:, :2, :2], q=INT16.q)],
         [T(grid((1, 3, 2, 3), [31613, -2570, 1884, -15842, 9511, 1636, 602, -5909, 4031, -3807, 3252, 4005, -11163,
                                1622, -3591, -4207, -1439, -4353], np.int16), q=q(0.001))]),
    Case("int16-as-int32", TransposeConv(stride_h=2, stride_w=1, quantized_bias_type=DType.INT32),
         [[1, 3, 2, 3], SMALL_PER_CHANNEL, T(INT16.array[:, :2, :2], q=INT16.q)],
         [T(grid((1, 3, 2, 3), [31613, -2570, 1884, -15843, 9511, 1636, 602, -5909, 4032, -3807, 3252, 4005, -11163,
                                1622, -3591, -4208, -1439, -4353], np.int16), q=q(0.001))]),
    # Of these two LiteRT quantises both images around a zero point, as of no plain convolution with one scale.
    Case("hybrid-per-channel", TRANSPOSED, [[2, 3, 2, 3], SMALL_PER_CHANNEL, TWO_IMAGES[:, :2, :2], BIAS],
         [grid((2, 3, 2, 3), [6.4520583, -1.1509118, 0.99282348, -7.046, 1.6843972, 0.55058837, 3.2110593, -1.4148529,
                              1.5575588, 7.4571767, 1.2479265, -1.4118822, 0.17264706, -0.53552943, 0.18905878,
                              9.022294, -1.3304412, 1.5095882, 23.297352, -1.9369705, -0.38905859, -23.482002,
                              8.3181324, -1.6564705, 18.741589, -3.2102499, -3.2042947, 28.864824, 5.7502642,
                              -11.956351, 4.6135292, -0.10595584, -2.7805882, 24.680883, -0.68685281, 1.242146])],
         tolerance=1e-6),
    Case("hybrid-one-scale", TRANSPOSED, [[2, 3, 2, 3], T(SMALL_INT8, q=q(0.01), constant=True),
                                          TWO_IMAGES[:, :2, :2], BIAS],
         [grid((2, 3, 2, 3), [3.4760292, -1.3018235, 0.99282348, -3.273, 4.3687944, 0.55058837, 1.8555297, -1.8297058,
                              1.5575588, 3.9785883, 3.4958529, -1.4118822, 0.33632353, -0.071058869, 0.18905878,
                              4.761147, -1.6608824, 1.5095882, 11.898676, -2.8739409, -0.38905859, -11.491001,
                              17.636265, -1.6564705, 9.6207943, -5.4204998, -3.2042947, 14.682412, 12.500528,
                              -11.956351, 2.5567646, 0.78808832, -2.7805882, 12.590442, -0.37370563, 1.242146])],
         tolerance=1e-6),
    Case("wrong-shape", TRANSPOSED, [[1, 5, 2, 3], ramp((3, 3, 2, 2)), IMAGE[:, :2, :2]], [IMAGE],
         error=r"need an input of shape \(1, 3, 2, 2\), found \(1, 2, 2, 2\)"),
]
test_transpose_conv = case_test(TRANSPOSE_CONV)

BIASED_TRANSPOSE_CONV = [
    Case("same", BiasedTransposeConv(stride_h=2, stride_w=1), [
        IMAGE[:, :2, :2], T(ramp((3, 3, 2, 2), step=5), constant=True), BIAS],
         [grid((1, 4, 2, 3), [36.75, -17.25, 19.5, -24, 53.75, -25, -15.25, -6, 30.75, -5.25, -8, -23.5, -33.25, 16.5,
                              -21.25, 92, -25, 23.5, -15.25, 6.5, -1.75, -12.75, -19.25, 36.25])]),
    Case("valid", BiasedTransposeConv(Padding.VALID, stride_h=2, stride_w=1), [
        IMAGE[:, :2, :2], T(ramp((2, 1, 1, 2), step=5), constant=True), BIAS[:2]],
         [grid((1, 3, 2, 2), [36.75, -2.25, -22.75, 8.25, 0.5, -1, 0.5, -1, -5.75, 5.25, 32.5, -1.5])]),
    Case("channels", BiasedTransposeConv(stride_h=1, stride_w=1), [IMAGE, ramp((3, 3, 2, 1)), BIAS], [IMAGE],
         error="does not fit 2 channels"),
]
test_biased_transpose_conv = case_test(BIASED_TRANSPOSE_CONV)

VOLUME = ramp((1, 2, 3, 2, 2))
CORNERS = grid((2, 2, 1, 1, 1), [1, 0, 0, np.inf])
"""A filter (kd, kh, kw, c, o) whose infinite weight meets the padding at all but the first place of two by two."""
CORNERED = grid((1, 2, 2, 1, 1), [np.inf, 2, 3, 4])

CONV_3D = [
    Case("same", Conv3D(stride_d=1, stride_h=2, stride_w=1, fused_activation_function=Activation.RELU),
         [VOLUME, T(ramp((2, 2, 1, 2, 3), step=5), constant=True), BIAS],
         [grid((1, 2, 2, 2, 3), [173.5, 0, 76, 0, 144, 0, 18.5, 0, 29, 168.5, 72, 0, 0, 132, 0, 140.5, 0, 0, 91.5, 35,
                                 29, 0, 0, 96])]),
    Case("valid-dilation", Conv3D(Padding.VALID, stride_d=1, stride_h=1, stride_w=1, dilation_h_factor=2),
         [VOLUME, ramp((1, 2, 2, 2, 2), step=5)], [grid((1, 2, 1, 1, 2), [64, -55, -23, 67])]),
    Case("padding-and-infinity", Conv3D(stride_d=1, stride_h=1, stride_w=1),
         [grid((1, 2, 2, 1, 1), [1, 2, 3, 4]), T(CORNERS, constant=True)], [CORNERED]),
    Case("padding-and-infinity-of-an-input", Conv3D(stride_d=1, stride_h=1, stride_w=1),
         [grid((1, 2, 2, 1, 1), [1, 2, 3, 4]), CORNERS], [CORNERED]),
    Case("wrong-channels", Conv3D(stride_d=1, stride_h=1, stride_w=1), [VOLUME, ramp((1, 2, 2, 1, 2))], [IMAGE],
         error="does not fit 2 channels"),
    Case("transposed", Conv3DTranspose(stride_d=1, stride_h=2, stride_w=1),
         [[1, 2, 5, 2, 1], ramp((2, 2, 1, 1, 2), step=5), VOLUME, grid((1,), [0.5])],
         [grid((1, 2, 5, 2, 1), [145.5, -92.5, -4.5, 37.5, 60.5, -39.5, 10.5, -39.5, -24.5, 128.5, -172.5, -19.5, 80.5,
                                 11.5, -119.5, 102.5, -11.5, -11.5, 48.5, -51.5])]),
]
test_conv_3d = case_test(CONV_3D)
